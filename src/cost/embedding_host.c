/* embedding_host.c: what a lookup takes depends on how long its row is and on how many other bytes a thread touched since
 * the row's last use: that decides which cache still has it.
 *
 *     found beyond a cache of C bytes, after d others:  m(C, d) = 1 / (1 + (C/d)^slope)
 *     a row of l lines:  sum over levels of the share found there * (row + l line)
 *
 * d of a row that a batch looks up c times in N lookups of a table: the gap between two uses is a geometric time of mean
 * N/c lookups (indices come in no order); in x lookups a thread touches sum_j rows_j (1 - exp(-c_j x / N)) rows. The first
 * use in a batch comes after everything else that a step touches. Threads share the samples of a table, so each has 1/P of
 * every row's uses.
 *
 * Backward: lookups are sorted by row; for each, the gradient of its sample's sum is read again, in no order, and added up;
 * then each different row is changed once, in the order of rows.
 */
#include "cost/embedding_host.h"

#include <math.h>

#include "base/text.h"

static const double line_bytes = 64, single = 4;

static double lines_of(double bytes) {
	return ceil(bytes / line_bytes);
}

/* ---- caches ---- */

static double beyond(double cache, double slope, double distance) {
	return distance > 0 ? 1 / (1 + pow(cache / distance, slope)) : 0;
}

static double row_seconds(const lk_host_lookup *h, const double *row, const double *line, double lines, double distance) {
	double far = beyond(h->last_bytes, h->last_slope, distance);
	double past = fmax(beyond(h->near_bytes, h->near_slope, distance), far);
	double share[LK_HOST_LEVELS] = {1 - past, past - far, far}, sum = 0;
	for (int i = 0; i < LK_HOST_LEVELS; i++) sum += share[i] * (row[i] + lines * line[i]);
	return sum;
}

/* Different rows that a thread touches in so many lookups of a table. */
static double touched(const lk_locality *l, double lookups, double of_all) {
	double sum = 0, x = lookups / of_all;
	for (int i = 0; i < l->count; i++) sum += l->rows[i] * -expm1(-l->times[i] * x);
	return sum;
}

/* ---- forward ---- */

enum { GAPS = 6 }; /* equally likely gaps that stand for a geometric time */

/* A thread's mean time for a row that is used `times` times in a batch, all uses but the first. */
static double again_seconds(const lk_host_lookup *h, const lk_locality *l, double times, double row_bytes, double lookups) {
	double lines = lines_of(row_bytes), sum = 0;
	for (int g = 0; g < GAPS; g++) {
		double gap = -log1p(-(g + 0.5) / GAPS) * lookups / times;
		sum += row_seconds(h, h->row_s, h->line_s, lines, touched(l, gap, lookups) * row_bytes) / GAPS;
	}
	return sum;
}

/* Distances grow with classes' gaps: classes close together need not be worked out each. */
static double gather_seconds(const lk_host_lookup *h, const lk_locality *l, double row_bytes, double between) {
	double lookups = lk_locality_lookups(l), sum = 0, lines = lines_of(row_bytes);
	double first = row_seconds(h, h->row_s, h->line_s, lines, between / h->threads);
	double at = 0, value = 0;
	for (int i = 0; i < l->count; i++) {
		/* each thread that uses the row meets it for the first time; with c uses on P threads that are P (1 - (1-1/P)^c) */
		double firsts = h->threads * -expm1(l->times[i] * log1p(-1.0 / (h->threads + 1e-9)));
		firsts = fmin(fmax(firsts, 1), l->times[i]);
		double later = l->times[i] - firsts;
		if (later > 0 && !(fabs(l->times[i] - at) < 0.1 * at)) at = l->times[i], value = again_seconds(h, l, at, row_bytes, lookups);
		/* of the first uses one is the first of all; the others find the row where the last cache has it */
		double shared = row_seconds(h, h->row_s, h->line_s, lines, fmax(fmin(between / h->threads, 4 * h->near_bytes), 0));
		sum += l->rows[i] * (first + (firsts - 1) * fmin(shared, first) + (later > 0 ? later * value : 0));
	}
	return sum;
}

static double forward_seconds(const lk_host_lookup *h, const lk_lookup *l, const lk_locality *locality, double element, double between) {
	double row = element * l->dim, sums = l->batch * (h->sample_s + lines_of(single * l->dim) * h->sample_line_s);
	return (gather_seconds(h, locality, row, between) + sums) / h->threads + h->call_s;
}

/* ---- backward ---- */

static double backward_seconds(const lk_host_lookup *h, const lk_lookup *l, const lk_locality *locality, double element, double between) {
	double lookups = lk_locality_lookups(locality), rows = lk_locality_rows(locality);
	double gradient = single * l->dim, lines = lines_of(gradient);
	/* every thread reads all gradients, each used pooling / threads times */
	double add = row_seconds(h, h->row_s, h->line_s, lines, l->batch * gradient) + h->sort_s + lines * h->sort_line_s;
	double row = lines_of(element * l->dim) + (l->state > 0 ? l->state / line_bytes : 0);
	double update = row_seconds(h, h->update_row_s, h->update_line_s, row, between / h->threads);
	return (lookups * add + rows * update) / h->threads + h->call_s;
}

double lk_host_lookup_seconds(const lk_host_lookup *h, const lk_lookup *l, double between) {
	double lookups = l->batch * l->pooling, element = l->element > 0 ? l->element : single;
	lk_locality room;
	const lk_locality *locality = l->locality;
	if (!(lookups > 0)) return 0;
	if (!locality && l->reuse) lk_locality_reuse(l->reuse, NULL, l->rows, lookups, &room);
	else if (!locality) lk_locality_zipf(l->rows, lookups, 0, &room);
	if (!locality) locality = &room;
	double one = l->backward ? backward_seconds(h, l, locality, element, between) : forward_seconds(h, l, locality, element, between);
	return fmax(l->tables, 1) * one;
}

/* ---- calibration ---- */

typedef struct number {
	const char *name;
	size_t offset;
	double unit;
} number;

#define AT(field) offsetof(lk_host_lookup, field)
static const number numbers[] = {
	{"near_kib", AT(near_bytes), 1024}, {"last_kib", AT(last_bytes), 1024},
	{"near_slope", AT(near_slope), 1}, {"last_slope", AT(last_slope), 1},
	{"row_near_ns", AT(row_s[0]), 1e-9}, {"row_last_ns", AT(row_s[1]), 1e-9}, {"row_far_ns", AT(row_s[2]), 1e-9},
	{"line_near_ns", AT(line_s[0]), 1e-9}, {"line_last_ns", AT(line_s[1]), 1e-9}, {"line_far_ns", AT(line_s[2]), 1e-9},
	{"update_near_ns", AT(update_row_s[0]), 1e-9}, {"update_last_ns", AT(update_row_s[1]), 1e-9}, {"update_far_ns", AT(update_row_s[2]), 1e-9},
	{"update_line_near_ns", AT(update_line_s[0]), 1e-9}, {"update_line_last_ns", AT(update_line_s[1]), 1e-9},
	{"update_line_far_ns", AT(update_line_s[2]), 1e-9},
	{"sample_ns", AT(sample_s), 1e-9}, {"sample_line_ns", AT(sample_line_s), 1e-9},
	{"sort_ns", AT(sort_s), 1e-9}, {"sort_line_ns", AT(sort_line_s), 1e-9}, {"call_us", AT(call_s), 1e-6},
};
enum { NUMBERS = sizeof numbers / sizeof *numbers };

bool lk_host_lookup_of(const lk_calibration_row *row, lk_host_lookup *out) {
	*out = (lk_host_lookup){.threads = (int)lk_calibration_value(row, "threads", 0)};
	for (int i = 0; i < NUMBERS; i++) {
		double value = lk_calibration_value(row, numbers[i].name, -1);
		if (value < 0) return false;
		*(double *)(void *)((char *)out + numbers[i].offset) = value * numbers[i].unit;
	}
	return out->threads > 0;
}

void lk_host_lookup_put(const lk_host_lookup *h, lk_calibration_row *row) {
	lk_calibration_put(row, "threads", h->threads);
	for (int i = 0; i < NUMBERS; i++)
		lk_calibration_put(row, numbers[i].name, *(const double *)(const void *)((const char *)h + numbers[i].offset) / numbers[i].unit);
}
