/* laws_learned.c: what a law misses, as boosted trees: libraries choose kernels by rules that no
 * formula follows. Features are the same for every law: its sizes, how they fill tiles and waves,
 * the law's time and numbers (which tell the series apart), and the device's data sheet. */
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "cost/kernel/laws.h"

enum { MOST_SIZES = 5 };

#define CLIP 1.2 /* of |ln(corrected / law)| */

/* ---- features ---- */

/* Exponent of 2 in a size, at most 8. */
static int learned_twos(double size) {
	int count = 0;
	for (long long x = (long long)fmin(size, 1e15); count < 8 && x > 0 && x % 2 == 0; x /= 2)
		count++;
	return count;
}

static double used(double size, double tile) {
	return size / (ceil(fmax(size, 1) / tile) * tile);
}

/* How full the waves of tiles of a x b are. */
static double wave_used(double m, double n, double a, double b, double sms) {
	double waves = ceil(m / a) * ceil(n / b) / sms;
	return waves / fmax(ceil(waves), 1);
}

int lk_law_features(const lk_law *law, const double *numbers, bool sustained,
                    const lk_law_call *call, double seconds, float *x) {
	const lk_device *device = call->device;
	const double *size = call->size;
	double sms = fmax(device->sms, 1), all = 1;
	int sizes = law->sizes < MOST_SIZES ? law->sizes : MOST_SIZES, f = 0;
	for (int i = 0; i < sizes; i++) {
		x[f++] = (float)log2(fmax(size[i], 1));
		x[f++] = (float)learned_twos(size[i]);
		x[f++] = (float)used(size[i], 128);
		x[f++] = (float)used(size[i], 256);
		all *= fmax(size[i], 1);
	}
	for (int i = 0; i < 3 && i < sizes; i++) { /* pairs of the first three */
		double a = size[i], b = size[(i + 1) % (sizes < 3 ? sizes : 3)];
		x[f++] = (float)log2(fmax(a * b, 1));
		x[f++] = (float)wave_used(a, b, 128, 128, sms);
		x[f++] = (float)wave_used(a, b, 256, 128, sms);
		x[f++] = (float)wave_used(a, b, 128, 256, sms);
	}
	x[f++] = (float)log2(all);
	x[f++] = (float)log2(seconds);
	x[f++] = sustained;
	x[f++] = (float)sms;
	x[f++] = (float)(lk_peak_flops(device, call->format->units) / device->memory_rate);
	x[f++] = (float)(device->l2_bytes / 1e6);
	for (int i = 0; i < law->count; i++) x[f++] = (float)numbers[i];
	return f;
}

double lk_law_learned(const lk_trees *trees, const lk_law *law, const double *numbers,
                      bool sustained, const lk_law_call *call) {
	float x[LK_LAW_FEATURES];
	double seconds = law->seconds(numbers, call);
	if (!trees || trees->count == 0 || law->sizes == 0) return seconds;
	if (lk_law_features(law, numbers, sustained, call, seconds, x) != trees->features)
		return seconds; /* a user's file may hold other trees */
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

/* Compiled-in trees are tested, and a user's are read with their file: an error can only be
 * memory. */
static lk_status learned_make(const lk_calibration *rows, lk_arena *arena, const void **out,
                              lk_error *err) {
	struct all_learned *made = LK_NEW(arena, struct all_learned);
	if (made) made->at = LK_ARRAY(arena, struct learned, rows->rows.count + 1);
	if (!made || !made->at) return lk_oom(err);
	for (size_t i = 0; i < rows->rows.count; i++) {
		const lk_calibration_row *row = &rows->rows.at[i];
		for (int l = 0; row->text && lk_laws[l]; l++) {
			if (strcmp(lk_laws[l]->family, row->subject) != 0) continue;
			struct learned one = {lk_laws[l], row, LK_NEW(arena, lk_trees)};
			if (!one.trees) return lk_oom(err);
			LK_TRY(lk_trees_read(arena, row->text, row->where, one.trees, err));
			made->at[made->count++] = one;
		}
	}
	*out = made;
	return LK_OK;
}

/* Whether two rows are of one file: trees know the numbers beside which they were fitted. */
static bool beside(const lk_calibration_row *a, const lk_calibration_row *b) {
	const char *end = strrchr(a->where, ':');
	size_t length = end ? (size_t)(end - a->where) + 1 : strlen(a->where);
	return strncmp(a->where, b->where, length) == 0;
}

double lk_law_corrected(const lk_law_fit *fit, const lk_law_call *call) {
	const void *made = NULL;
	lk_error unused;
	if (fit->basis > LK_LAW_SERIES ||
	    lk_calibration_made(LK_CALIBRATION_LEARNED, learned_make, &made, &unused) != LK_OK)
		return lk_law_seconds(fit, call);
	const struct all_learned *all = made;
	const lk_trees *trees = NULL;
	for (int i = 0; i < all->count; i++) /* later rows have precedence */
		if (all->at[i].law == fit->law && beside(all->at[i].row, fit->row) &&
		    strcmp(all->at[i].row->variant, call->format->name) == 0)
			trees = all->at[i].trees;
	return lk_law_learned(trees, fit->law, fit->numbers, fit->sustained, call);
}
