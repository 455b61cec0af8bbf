/* misses.c: widths as quantiles of errors, class by class. The quantile is below 0.8, because rows
 * of a class come in groups with similar errors, and a wider range would say less than the data
 * does. */
#include "base/arena.h"
#include "fit/fits.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/stats.h"
#include "base/sort.h"

static const double inside = 0.77;
enum { ENOUGH = 10 };

static int by_class(const void *a, const void *b) {
	const lk_miss *x = *(lk_miss *const *)a, *y = *(lk_miss *const *)b;
	int order = strcmp(x->name, y->name);
	return order ? order : (x->fold > y->fold) - (x->fold < y->fold);
}

/* List the rows with an error, sorted by class and fold. */
static lk_miss **sorted(lk_arena *arena, lk_miss *misses, size_t count, size_t *known) {
	lk_miss **list = LK_ARRAY(arena, lk_miss *, count);
	*known = 0;
	for (size_t i = 0; list && i < count; i++)
		if (misses[i].name && isfinite(misses[i].by)) list[(*known)++] = &misses[i];
	if (list) lk_sort(list, *known, sizeof *list, by_class);
	return list;
}

/* Quantile over a section of the list, without a fold. */
static double misses_width_of(lk_miss *const *list, size_t from, size_t to, int without,
                              double share, double *scratch, size_t *used) {
	*used = 0;
	LK_ASSERT(from <= to);
	for (size_t i = from; i < to; i++)
		if (list[i]->fold != without) scratch[(*used)++] = list[i]->by;
	return lk_quantile(scratch, *used, share);
}

lk_status lk_misses_widths_of(lk_arena *arena, lk_miss *misses, size_t count, double share,
                              lk_error *err) {
	size_t known, used;
	lk_miss **list = sorted(arena, misses, count, &known);
	double *scratch = LK_ARRAY(arena, double, count);
	if (!list || !scratch) return lk_oom(err);
	for (size_t i = 0; i < count; i++) misses[i].width = NAN;
	for (size_t from = 0, to; from < known; from = to) {
		for (to = from; to < known && strcmp(list[to]->name, list[from]->name) == 0;) to++;
		for (size_t at = from, end; at < to; at = end) {
			for (end = at; end < to && list[end]->fold == list[at]->fold;) end++;
			double width = misses_width_of(list, from, to, list[at]->fold, share, scratch, &used);
			if (used < ENOUGH)
				width = misses_width_of(list, 0, known, list[at]->fold, share, scratch, &used);
			LK_ASSERT(end > at);
			for (size_t i = at; i < end; i++) list[i]->width = width;
		}
	}
	return LK_OK;
}

lk_status lk_misses_widths(lk_arena *arena, lk_miss *misses, size_t count, lk_error *err) {
	return lk_misses_widths_of(arena, misses, count, inside, err);
}

lk_status lk_misses_write_of(lk_arena *arena, const lk_miss *misses, size_t count, double share,
                             const char *kind, const char *source, const char *date,
                             lk_calibration *into, lk_error *err) {
	size_t known, used;
	lk_miss *copy = LK_ARRAY(arena, lk_miss, count);
	double *scratch = LK_ARRAY(arena, double, count);
	if (!copy || !scratch) return lk_oom(err);
	if (count) memcpy(copy, misses, count * sizeof *copy);
	lk_miss **list = sorted(arena, copy, count, &known);
	if (!list) return lk_oom(err);
	for (size_t from = 0, to; from < known; from = to) {
		for (to = from; to < known && strcmp(list[to]->name, list[from]->name) == 0;) to++;
		if (to - from < ENOUGH) continue;
		const char *name = lk_arena_strdup(&into->arena, list[from]->name);
		lk_calibration_row *row = name ? lk_calibration_add(into, "range", kind, name) : NULL;
		if (!row) return lk_oom(err);
		lk_calibration_put(row, "half", misses_width_of(list, from, to, -2, share, scratch, &used));
		row->points = (int)(to - from);
		row->source = source;
		row->date = date;
	}
	return LK_OK;
}

lk_status lk_misses_write(lk_arena *arena, const lk_miss *misses, size_t count, const char *kind,
                          const char *source, const char *date, lk_calibration *into,
                          lk_error *err) {
	return lk_misses_write_of(arena, misses, count, inside, kind, source, date, into, err);
}

double lk_misses_width(const lk_calibration *calibration, const char *kind, const char *name,
                       double otherwise) {
	return lk_calibration_value(lk_calibration_find(calibration, "range", kind, name), "half",
	                            otherwise);
}
