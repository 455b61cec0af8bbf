/* misses.c: ranges from misses, class by class: the shortest that holds a share of them. */
#include "accuracy/misses.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/stats.h"

enum { ENOUGH = 10 };

static int by_class(const void *a, const void *b) {
	const lk_miss *x = *(lk_miss *const *)a, *y = *(lk_miss *const *)b;
	int order = strcmp(x->name, y->name);
	return order ? order : (x->fold > y->fold) - (x->fold < y->fold);
}

/* Those with a miss, sorted by class and fold. */
typedef struct sorted {
	double inside;
	lk_miss **at;
	size_t count;
	double *scratch;
} sorted;

static lk_status sort_misses(lk_arena *arena, lk_miss *misses, size_t count, sorted *out, lk_error *err) {
	*out = (sorted){out->inside, LK_ARRAY(arena, lk_miss *, count), 0, LK_ARRAY(arena, double, count)};
	if (!out->at || !out->scratch) return lk_oom(err);
	for (size_t i = 0; i < count; i++)
		if (misses[i].name && isfinite(misses[i].by)) out->at[out->count++] = &misses[i];
	qsort(out->at, out->count, sizeof *out->at, by_class);
	return LK_OK;
}

static size_t end_of_class(const sorted *s, size_t from) {
	size_t to = from;
	while (to < s->count && strcmp(s->at[to]->name, s->at[from]->name) == 0) to++;
	return to;
}

static int by_value(const void *a, const void *b) {
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

/* The shortest range that holds the share of a run of the list, without a fold; how many rows it is over. */
static size_t ends_of(const sorted *s, size_t from, size_t to, int without, lk_range_ends *out) {
	size_t used = 0;
	for (size_t i = from; i < to; i++)
		if (s->at[i]->fold != without) s->scratch[used++] = s->at[i]->by;
	*out = (lk_range_ends){NAN, NAN};
	if (used == 0) return 0;
	qsort(s->scratch, used, sizeof *s->scratch, by_value);
	size_t span = (size_t)ceil(s->inside * (double)(used - 1));
	for (size_t i = 0; i + span < used; i++)
		if (i == 0 || s->scratch[i + span] - s->scratch[i] < out->high - out->low)
			*out = (lk_range_ends){s->scratch[i], s->scratch[i + span]};
	return used;
}

/* Rows of one class, fold by fold. */
static void fill_class(const sorted *s, size_t from, size_t to) {
	for (size_t at = from, end; at < to; at = end) {
		for (end = at; end < to && s->at[end]->fold == s->at[at]->fold;) end++;
		lk_range_ends ends;
		if (ends_of(s, from, to, s->at[at]->fold, &ends) < ENOUGH) ends_of(s, 0, s->count, s->at[at]->fold, &ends);
		for (size_t i = at; i < end; i++) s->at[i]->range = ends;
	}
}

lk_status lk_misses_ranges(lk_arena *arena, lk_miss *misses, size_t count, double inside, lk_error *err) {
	sorted s = {.inside = inside};
	for (size_t i = 0; i < count; i++) misses[i].range = (lk_range_ends){NAN, NAN};
	LK_TRY(sort_misses(arena, misses, count, &s, err));
	for (size_t from = 0, to; from < s.count; from = to) fill_class(&s, from, to = end_of_class(&s, from));
	return LK_OK;
}

lk_status lk_misses_write(lk_arena *arena, const lk_miss *misses, size_t count, double inside, const char *kind,
                          const char *source, const char *date, lk_calibration *into, lk_error *err) {
	enum { NO_FOLD = -2 };
	sorted s = {.inside = inside};
	lk_miss *copy = LK_ARRAY(arena, lk_miss, count);
	if (!copy) return lk_oom(err);
	if (count) memcpy(copy, misses, count * sizeof *copy);
	LK_TRY(sort_misses(arena, copy, count, &s, err));
	for (size_t from = 0, to; from < s.count; from = to) {
		to = end_of_class(&s, from);
		lk_range_ends ends;
		if (ends_of(&s, from, to, NO_FOLD, &ends) < ENOUGH) continue;
		const char *name = lk_arena_strdup(&into->arena, s.at[from]->name);
		lk_calibration_row *row = name ? lk_calibration_add(into, "range", kind, name) : NULL;
		if (!row) return lk_oom(err);
		lk_calibration_put(row, "low", ends.low);
		lk_calibration_put(row, "high", ends.high);
		row->points = (int)(to - from), row->source = source, row->date = date;
	}
	return LK_OK;
}

lk_range_ends lk_misses_range(const lk_calibration *calibration, const char *kind, const char *name, double otherwise) {
	const lk_calibration_row *row = lk_calibration_find(calibration, "range", kind, name);
	return (lk_range_ends){lk_calibration_value(row, "low", -otherwise), lk_calibration_value(row, "high", otherwise)};
}
