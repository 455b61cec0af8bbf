/* laws_learned.c: what a law misses, as boosted trees: libraries choose kernels by rules that no
 * formula follows. */
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "cost/kernel/laws.h"

#define CLIP 1.2 /* of |ln(corrected / law)| */

double lk_law_learned(const lk_trees *trees, const lk_law *law, const double *numbers,
                      const lk_law_series *series, const lk_law_call *call) {
	float x[LK_TREE_FEATURES];
	double seconds = law->seconds(numbers, call);
	/* a user's file may hold other trees */
	if (!trees || trees->count == 0 || trees->features != law->features) return seconds;
	law->describe(numbers, call, series, x);
	return seconds * exp(fmin(fmax(lk_trees_at(trees, x), -CLIP), CLIP));
}

/* ---- the trees in use ---- */

struct learned {
	const lk_law *law;
	const lk_calibration_row *row;
	lk_trees *trees;
};

struct all_learned {
	struct learned *at;
	int count;
};

static const lk_law *learning_law(const lk_calibration_row *row) {
	for (int l = 0; row->text && strcmp(row->family, "trees") == 0 && lk_laws[l]; l++)
		if (strcmp(lk_laws[l]->family, row->subject) == 0) return lk_laws[l];
	return NULL;
}

/* Compiled-in trees are tested, and a user's are read with their file: an error can only be
 * memory. */
static lk_status learned_make(const lk_calibration *rows, lk_arena *arena, const void **out,
                              lk_error *err) {
	struct all_learned *made = LK_NEW(arena, struct all_learned);
	int count = 0;
	for (size_t i = 0; i < rows->rows.count; i++) count += learning_law(&rows->rows.at[i]) != NULL;
	if (made) made->at = LK_ARRAY(arena, struct learned, count + 1);
	if (!made || !made->at) return lk_oom(err);
	for (size_t i = 0; i < rows->rows.count; i++) {
		const lk_calibration_row *row = &rows->rows.at[i];
		struct learned one = {learning_law(row), row, NULL};
		if (!one.law) continue;
		one.trees = LK_NEW(arena, lk_trees);
		if (!one.trees) return lk_oom(err);
		LK_TRY(lk_trees_read(arena, row->text, row->where, one.trees, err));
		made->at[made->count++] = one;
	}
	*out = made;
	return LK_OK;
}

double lk_law_corrected(const lk_law_fit *fit, const lk_law_series *series,
                        const lk_law_call *call) {
	const void *made = NULL;
	lk_error unused;
	if (fit->basis > LK_LAW_CARRIES ||
	    lk_calibration_made(LK_CALIBRATION_LEARNED, learned_make, &made, &unused) != LK_OK)
		return lk_law_seconds(fit, call);
	const struct all_learned *all = made;
	const lk_trees *trees = NULL;
	lk_law_part part = lk_law_part_of(series);
	for (int i = 0; i < all->count; i++) /* later rows have precedence */
		if (all->at[i].law == fit->law && strcmp(all->at[i].row->variant, part.name) == 0 &&
		    lk_law_beside(all->at[i].row, fit->row))
			trees = all->at[i].trees;
	return lk_law_learned(trees, fit->law, fit->numbers, series, call);
}
