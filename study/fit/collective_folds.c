/* collective_folds.c: folds over the rows of a fabric. By size: the sizes are divided into five
 * parts, and a part is left out of all curves of the fabric. By GPUs: all rows on that number of
 * GPUs are left out. By fabric, device or source: all rows of one, however few, are predicted from
 * the rows of all others. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "fit/fits.h"
#include "base/stats.h"

enum { PARTS = 5, FOLDS = 64 };

static bool folds_usable(const lk_coll_row *row) {
	return !*row->refused && !*row->slow && row->us > 0;
}

lk_status lk_coll_fabrics_of(const lk_coll_rows *rows, lk_coll_fabrics *out, lk_error *err) {
	for (size_t i = 0; i < rows->count; i++) {
		const char *name = rows->at[i].fabric;
		size_t same = 0;
		bool known = false;
		for (size_t f = 0; f < out->count && !known; f++) known = strcmp(out->at[f], name) == 0;
		for (size_t k = i; k < rows->count && !known; k++)
			same += folds_usable(&rows->at[k]) && strcmp(rows->at[k].fabric, name) == 0;
		if (known || same < LK_COLL_FIT_ROWS) continue;
		if (!lk_push(out)) return lk_oom(err);
		*lk_last(out) = name;
	}
	return LK_OK;
}

bool lk_coll_fitted(const lk_coll_fabrics *fabrics, const lk_coll_row *row) {
	for (size_t f = 0; f < fabrics->count; f++)
		if (strcmp(fabrics->at[f], row->fabric) == 0) return folds_usable(row);
	return false;
}

static int validate_fold_of(const lk_coll_row *row, lk_coll_folds folds) {
	if (folds == LK_COLL_FOLDS_GPUS) return row->gpus;
	return (int)(lk_hash64((uint64_t)row->bytes) % PARTS);
}

bool lk_coll_folds_apart(lk_coll_folds folds) {
	return folds >= LK_COLL_FOLDS_FABRIC;
}

bool lk_coll_one_fold(const lk_coll_row *a, const lk_coll_row *b, lk_coll_folds folds) {
	switch (folds) {
	case LK_COLL_FOLDS_GPU: return a->node.device == b->node.device;
	case LK_COLL_FOLDS_SOURCE: return lk_same_publication(a->source, b->source);
	default: return strcmp(a->fabric, b->fabric) == 0;
	}
}

/* With a fabric left out, a network that its source does not state is unknown. A row has no
 * relatives if no other number of GPUs of its fabric was measured, or none over the unstated
 * network on which its own time depends. */
const char *lk_coll_no_relatives(const lk_coll_rows *rows, const lk_coll_row *row,
                                 lk_coll_folds folds) {
	if (folds == LK_COLL_FOLDS_SIZE) return NULL;
	if (lk_coll_folds_apart(folds))
		return row->nodes > 1 && !row->network_stated
		           ? "not scored: its source does not state what joins its nodes"
		           : NULL;
	bool others = false, network = row->network_stated;
	for (size_t i = 0; i < rows->count; i++) {
		const lk_coll_row *other = &rows->at[i];
		if (!folds_usable(other) || other->gpus == row->gpus ||
		    strcmp(other->fabric, row->fabric) != 0)
			continue;
		others = true;
		network |= other->nodes > 1;
	}
	if (!others) return "not scored: no other number of GPUs of this fabric was measured";
	if (row->nodes > 1 && !network)
		return "not scored: its network is not stated, and no other number of GPUs was measured "
			   "over it";
	return NULL;
}

/* ---- leaving out ---- */

struct split {
	lk_coll_pick *seen, *held;
	size_t *place; /* of held rows in the table */
	double *us;    /* of held rows */
	size_t seen_count, held_count;
};

static void folds_divide(const lk_coll_rows *rows, const char *fabric, lk_coll_folds folds,
                         int fold, struct split *split) {
	split->seen_count = split->held_count = 0;
	for (size_t i = 0; i < rows->count; i++) {
		const lk_coll_row *row = &rows->at[i];
		if (!folds_usable(row) || strcmp(row->fabric, fabric) != 0) continue;
		if (validate_fold_of(row, folds) != fold) {
			split->seen[split->seen_count++] = row;
		} else {
			split->place[split->held_count] = i;
			split->held[split->held_count++] = row;
		}
	}
}

static lk_status cross(const lk_coll_rows *rows, const char *fabric, lk_coll_folds folds,
                       lk_coll_predictor *predict, const lk_fabric *start, struct split *split,
                       double *us, lk_error *err) {
	int done[FOLDS], count = 0;
	for (size_t i = 0; i < rows->count; i++) {
		const lk_coll_row *row = &rows->at[i];
		int fold = validate_fold_of(row, folds);
		bool known = false;
		for (int k = 0; k < count && !known; k++) known = done[k] == fold;
		if (known || count == FOLDS || strcmp(row->fabric, fabric) != 0) continue;
		done[count++] = fold;
		folds_divide(rows, fabric, folds, fold, split);
		LK_TRY(predict(start, split->seen, split->seen_count, split->held, split->held_count,
		               split->us, err));
		for (size_t h = 0; h < split->held_count; h++) us[split->place[h]] = split->us[h];
	}
	return LK_OK;
}

/* Divide the rows into those of one fold, in split->held, and all others. */
static void folds_divide_apart(const lk_coll_rows *rows, const lk_coll_row *one,
                               lk_coll_folds folds, struct split *split) {
	split->seen_count = split->held_count = 0;
	for (size_t i = 0; i < rows->count; i++) {
		const lk_coll_row *row = &rows->at[i];
		if (*row->refused) continue;
		if (lk_coll_one_fold(row, one, folds)) {
			split->place[split->held_count] = i;
			split->held[split->held_count++] = row;
		} else if (folds_usable(row)) split->seen[split->seen_count++] = row;
	}
}

static lk_status folds_cross_apart(const lk_coll_rows *rows, lk_coll_folds folds,
                                   lk_coll_predictor *predict, const lk_fabric *start,
                                   struct split *split, double *us, lk_error *err) {
	for (size_t i = 0; i < rows->count; i++) {
		bool known = *rows->at[i].refused != '\0';
		for (size_t k = 0; k < i && !known; k++)
			known = !*rows->at[k].refused && lk_coll_one_fold(&rows->at[k], &rows->at[i], folds);
		if (known) continue;
		folds_divide_apart(rows, &rows->at[i], folds, split);
		LK_TRY(predict(start, split->seen, split->seen_count, split->held, split->held_count,
		               split->us, err));
		for (size_t h = 0; h < split->held_count; h++) us[split->place[h]] = split->us[h];
	}
	return LK_OK;
}

lk_status lk_coll_cross(const lk_coll_rows *rows, const lk_coll_fabrics *fabrics,
                        lk_coll_folds folds, lk_coll_predictor *predict, const lk_fabric *start,
                        double *us, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	struct split s = {
		.seen = LK_ARRAY(&arena, lk_coll_pick, rows->count),
		.held = LK_ARRAY(&arena, lk_coll_pick, rows->count),
		.place = LK_ARRAY(&arena, size_t, rows->count),
		.us = LK_ARRAY(&arena, double, rows->count),
	};
	lk_status status = s.seen && s.held && s.place && s.us ? LK_OK : lk_oom(err);
	bool apart = lk_coll_folds_apart(folds);
	if (apart && status == LK_OK)
		status = folds_cross_apart(rows, folds, predict, start, &s, us, err);
	for (size_t f = 0; !apart && f < fabrics->count && status == LK_OK; f++)
		status = cross(rows, fabrics->at[f], folds, predict, start, &s, us, err);
	lk_arena_free(&arena);
	return status;
}
