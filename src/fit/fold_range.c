/* fold_range.c: the 80 % range of a row, from rows of other folds: as wide as misses of unseen rows
 * are, and leaning to the side to which they lean. Rows of a fold err alike (one GPU, one network),
 * so that with few folds the next one lies outside more often: of G folds the shortest interval
 * holds 0.8 (1 + 1 / G) of the rows, as for peak memory (memory_range.c). */
#include "base/arena.h"
#include "fit/fits.h"

#include <math.h>
#include <stdlib.h>

#include "base/stats.h"
#include "base/sort.h"

enum {
	FEWEST = 10
};
static const double share = 0.80;

struct ranger {
	lk_validated *rows;
	size_t count;
	size_t *class, *fold; /* [count] the first row that is alike */
	size_t *seen;         /* [count] 1 + the last row for which a fold was counted */
	double *ratios;       /* [count] scratch */
};

static size_t range_first_alike(lk_rows_alike *alike, const void *context, size_t row) {
	size_t first = 0;
	while (first < row && !alike(context, first, row)) first++;
	return first;
}

static bool teaches(const struct ranger *ranger, size_t row, size_t other) {
	const lk_validated *validated = &ranger->rows[other];
	return !validated->reason && validated->predicted > 0 && validated->measured > 0 &&
	       ranger->class[row] == ranger->class[other] && ranger->fold[row] != ranger->fold[other];
}

static void range_row(struct ranger *ranger, size_t row) {
	size_t n = 0, folds = 0;
	double low, high;
	for (size_t i = 0; i < ranger->count; i++) {
		if (!teaches(ranger, row, i)) continue;
		ranger->ratios[n++] = log(ranger->rows[i].measured / ranger->rows[i].predicted);
		folds += ranger->seen[ranger->fold[i]] != row + 1;
		ranger->seen[ranger->fold[i]] = row + 1;
	}
	if (n < FEWEST) return;
	size_t inside =
		(size_t)fmin(ceil(share * (1 + 1.0 / (double)folds) * (double)n - 1e-9), (double)n);
	lk_sort(ranger->ratios, n, sizeof *ranger->ratios, lk_ascending);
	lk_shortest(ranger->ratios, n, inside, &low, &high);
	ranger->rows[row].low = ranger->rows[row].predicted * exp(low);
	ranger->rows[row].high = ranger->rows[row].predicted * exp(high);
}

lk_status lk_fold_ranges(lk_arena *arena, lk_validated *rows, size_t count, lk_rows_alike *class,
                         lk_rows_alike *fold, const void *context, lk_error *err) {
	struct ranger r = {rows,
	                   count,
	                   LK_ARRAY(arena, size_t, count),
	                   LK_ARRAY(arena, size_t, count),
	                   LK_ARRAY(arena, size_t, count),
	                   LK_ARRAY(arena, double, count)};
	if (!r.class || !r.fold || !r.seen || !r.ratios) return lk_oom(err);
	for (size_t i = 0; i < count; i++) {
		if (class) r.class[i] = range_first_alike(class, context, i);
		r.fold[i] = range_first_alike(fold, context, i);
	}
	for (size_t i = 0; i < count; i++)
		if (rows[i].predicted > 0 && !isfinite(rows[i].low)) range_row(&r, i);
	return LK_OK;
}
