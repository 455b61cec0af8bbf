/* memory_range.c: the band that holds 80 % of measured peaks.
 *
 * Its form is that of step/memory_range.c. The band of a class is the shortest interval of z that
 * holds a share of 0.8 (1 + 1 / G) of its rows, G the number of tests that they come from: rows of
 * a test have similar errors, and with few tests the next one lies outside more often. */
#include "fit/fits.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/stats.h"
#include "base/sort.h"

static size_t distinct(const char **folds, size_t count) {
	size_t number = 0;
	lk_sort(folds, count, sizeof *folds, lk_by_text);
	for (size_t i = 0; i < count; i++) number += i == 0 || strcmp(folds[i], folds[i - 1]) != 0;
	return number;
}

static void range_shortest(double *z, size_t count, size_t tests, lk_memory_band *out) {
	LK_ASSERT(0 < tests && tests <= count);
	size_t inside = (size_t)ceil(0.8 * (1 + 1.0 / (double)tests) * (double)count - 1e-9);
	if (inside > count) inside = count;
	lk_sort(z, count, sizeof *z, lk_ascending);
	lk_shortest(z, count, inside, &out->low, &out->high);
	out->rows = (int)count;
}

lk_status lk_memory_band_fit(const lk_memory_residual *rows, size_t count, const char *class,
                             const char *without, lk_memory_band *out, lk_error *err) {
	*out = (lk_memory_band){0};
	double *z = malloc((count + 1) * sizeof *z), sum = 0;
	const char **folds = malloc((count + 1) * sizeof *folds);
	size_t used = 0;
	for (size_t i = 0; z && folds && i < count; i++) {
		const lk_memory_residual *residual = &rows[i];
		bool known = residual->predicted > 0 && residual->measured > 0;
		if (!known || strcmp(residual->class, class) != 0 ||
		    (without && strcmp(residual->fold, without) == 0))
			continue;
		folds[used] = residual->fold;
		sum += fabs(log(residual->measured / residual->predicted));
		z[used++] =
			log(residual->measured / residual->predicted) * lk_memory_scale(residual->predicted);
	}
	if (z && folds && used > 0) {
		range_shortest(z, used, distinct(folds, used), out);
		out->error = expm1(sum / (double)used);
	}
	lk_status status = z && folds ? LK_OK : lk_oom(err);
	free(folds);
	free(z);
	return status;
}
