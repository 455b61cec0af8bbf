/* embedding_host.c: what a lookup takes depends on how long its row is and on how many other bytes a thread touched since
 * the row's last use: that decides which cache still has it.
 *
 *     found beyond a cache of C bytes, after d others:  m(C, d) = 1 / (1 + (C/d)^slope)
 *     a row of l lines:  sum over levels of the share found there * (row + l line), and in large tables the page's address
 *
 * d of a row that a batch looks up c times in N lookups of a table: the gap between two uses is a geometric time of mean
 * N/c lookups (indices come in no order); in x lookups a thread touches sum_j rows_j (1 - exp(-c_j x / N)) rows. The first
 * use in a batch comes after everything else that a step touches. Threads share the samples of a table, so each has 1/P of
 * every row's uses, and meets it for the first time itself.
 *
 * Backward: lookups are sorted by row, 11 bits in a pass; for each, the gradient of its sample's sum is read again, in no
 * order, and added up; then each different row is changed once, in the order of rows.
 */
#include "cost/embedding_host.h"

#include <math.h>
#include <stddef.h>

static const double line_bytes = 64, single = 4, digit_bits = 11 /* of a pass of radix sort */;

/* Lines that a row of so many bytes lies in, rows packed one behind the other: those of 48 bytes in one or two. */
static double lines_of(double bytes) {
	double a = line_bytes, b = fmod(bytes, line_bytes);
	while (b > 0) {
		double rest = fmod(a, b);
		a = b, b = rest;
	}
	return 1 + (bytes - a) / line_bytes; /* a: greatest common divisor */
}

/* ---- caches ---- */

typedef struct levels {
	double share[LK_HOST_LEVELS];
} levels;

static double beyond(double cache, double slope, double distance) {
	return distance > 0 ? 1 / (1 + pow(cache / distance, slope)) : 0;
}

static levels found(const lk_host_lookup *h, double distance) {
	double far = beyond(h->last_bytes, h->last_slope, distance), past = fmax(beyond(h->near_bytes, h->near_slope, distance), far);
	return (levels){{1 - past, past - far, far}};
}

static double mean_of(const levels *l, const double *seconds) {
	double sum = 0;
	for (int i = 0; i < LK_HOST_LEVELS; i++) sum += l->share[i] * seconds[i];
	return sum;
}

static double row_seconds(const lk_host_lookup *h, const double *row, const double *line, double lines, double distance) {
	levels l = found(h, distance);
	return mean_of(&l, row) + lines * mean_of(&l, line);
}

/* More for a row's first use: the other cores' caches may hold it, as they used it last. */
static double from_others(const lk_host_lookup *h, double lines, double distance, double line_s) {
	return (1 - 1.0 / h->threads) * (1 - beyond(h->near_bytes, h->near_slope, distance)) * lines * line_s;
}

/* Different rows that a thread touches in so many lookups of a table. */
static double touched(const lk_locality *l, double lookups, double of_all) {
	double sum = 0, x = lookups / of_all;
	for (int i = 0; i < l->count; i++) sum += l->rows[i] * -expm1(-l->times[i] * x);
	return sum;
}

/* Bytes of caches that so many different rows of a table take: short rows share lines. */
static double footprint(double rows, double row_bytes, double all_rows) {
	double lines = fmax(all_rows * row_bytes / line_bytes, 1);
	if (fmod(row_bytes, line_bytes) == 0) return rows * row_bytes;
	return line_bytes * lines * -expm1(-rows * lines_of(row_bytes) / lines);
}

/* Of a use out of `uses` by all threads: how many are a thread's first. */
static double firsts_of(const lk_host_lookup *h, double uses) {
	double firsts = h->threads > 1 ? h->threads * -expm1(uses * log1p(-1.0 / h->threads)) : 1;
	return fmin(fmax(firsts, fmin(uses, 1)), uses);
}

/* ---- forward ---- */

enum { GAPS = 6 }; /* equally likely gaps that stand for a geometric time */

typedef struct table {
	const lk_host_lookup *h;
	const lk_locality *locality;
	double lookups, rows, row_bytes, lines;
} table;

/* A thread's mean time for a row that is used `times` times in a batch, all uses but the first. */
static double again_seconds(const table *t, double times) {
	double sum = 0;
	for (int g = 0; g < GAPS; g++) {
		double gap = -log1p(-(g + 0.5) / GAPS) * t->lookups / times;
		double distance = footprint(touched(t->locality, gap, t->lookups), t->row_bytes, t->rows);
		sum += row_seconds(t->h, t->h->row_s, t->h->line_s, t->lines, distance) / GAPS;
	}
	return sum;
}

/* All lookups of a table. Classes that are close to one another need not be worked out each. */
static double gather_seconds(const table *t, double between) {
	const lk_host_lookup *h = t->h;
	double first = row_seconds(h, h->row_s, h->line_s, t->lines, between / h->threads), sum = 0, at = 0, later = 0;
	first += from_others(h, t->lines, between / h->threads, h->shared_s);
	/* what another thread has had is in the last cache */
	double shared = row_seconds(h, h->row_s, h->line_s, t->lines, fmin(between / h->threads, 4 * h->near_bytes));
	for (int i = 0; i < t->locality->count; i++) {
		double times = t->locality->times[i], firsts = firsts_of(h, times);
		if (times > firsts && !(fabs(times - at) < 0.1 * at)) at = times, later = again_seconds(t, at);
		double one = fmin(firsts, 1);
		sum += t->locality->rows[i] * (one * first + (firsts - one) * shared + (times - firsts) * later);
	}
	return sum + t->lookups * h->span_s * beyond(h->span_bytes, 1, t->rows * t->row_bytes);
}

static double forward_seconds(const table *t, const lk_lookup *l, double between) {
	const lk_host_lookup *h = t->h;
	levels sums = found(h, between / h->threads);
	double sample = h->sample_s + lines_of(single * l->dim) * mean_of(&sums, h->sample_line_s);
	return (gather_seconds(t, between) + l->batch * sample) / h->threads + h->call_s;
}

/* ---- backward ---- */

static double backward_seconds(const table *t, const lk_lookup *l, double between) {
	const lk_host_lookup *h = t->h;
	double gradient = single * l->dim, lines = lines_of(gradient), firsts = firsts_of(h, l->pooling) / l->pooling;
	double add = firsts * row_seconds(h, h->row_s, h->line_s, lines, between / h->threads) +
	             (1 - firsts) * row_seconds(h, h->row_s, h->line_s, lines, l->batch * lines * line_bytes);
	double passes = 1 + fmax(ceil(log2(fmax(l->rows, 2)) / digit_bits), 1); /* one to make the pairs */
	double lines_changed = t->lines + (l->state > 0 ? lines_of(l->state) : 0);
	double update = row_seconds(h, h->update_row_s, h->update_line_s, lines_changed, between / h->threads);
	update += from_others(h, lines_changed, between / h->threads, h->update_shared_s);
	update += h->span_s * beyond(h->span_bytes, 1, t->rows * t->row_bytes);
	double work = t->lookups * (add + passes * h->sort_s) + lk_locality_rows(t->locality) * update + l->batch * h->sample_backward_s;
	return work / h->threads + h->call_s + passes * h->pass_s;
}

static const lk_locality *locality_of(const lk_lookup *l, lk_locality *room) {
	double lookups = l->batch * l->pooling;
	if (l->locality) return l->locality;
	if (l->reuse) lk_locality_reuse(l->reuse, NULL, l->rows, lookups, room);
	else lk_locality_zipf(l->rows, lookups, 0, room);
	return room;
}

static double element_of(const lk_lookup *l) {
	return l->element > 0 ? l->element : single;
}

double lk_host_lookup_seconds(const lk_host_lookup *h, const lk_lookup *l, double between) {
	lk_locality room;
	if (!(l->batch * l->pooling > 0)) return 0;
	const lk_locality *locality = locality_of(l, &room);
	double bytes = l->dim * element_of(l);
	table t = {h, locality, lk_locality_lookups(locality), l->rows, bytes, lines_of(bytes)};
	return fmax(l->tables, 1) * (l->backward ? backward_seconds(&t, l, between) : forward_seconds(&t, l, between));
}

double lk_host_lookup_touched(const lk_lookup *l) {
	lk_locality room;
	if (!(l->batch * l->pooling > 0)) return 0;
	double rows = lk_locality_rows(locality_of(l, &room)), lookups = l->batch * l->pooling;
	double bytes = footprint(rows, l->dim * element_of(l), l->rows) + footprint(rows, l->state, l->rows) * (l->state > 0);
	return fmax(l->tables, 1) * (bytes + l->batch * 2 * single * l->dim + lookups * (4 + 2 * 8));
}

/* ---- calibration ---- */

typedef struct number {
	const char *name;
	size_t offset;
	double unit;
} number;

#define AT(field) offsetof(lk_host_lookup, field)
static const number numbers[] = {
	{"near_kib", AT(near_bytes), 1024}, {"last_kib", AT(last_bytes), 1024}, {"near_slope", AT(near_slope), 1},
	{"last_slope", AT(last_slope), 1},
	{"row_near_ns", AT(row_s[0]), 1e-9}, {"row_last_ns", AT(row_s[1]), 1e-9}, {"row_far_ns", AT(row_s[2]), 1e-9},
	{"line_near_ns", AT(line_s[0]), 1e-9}, {"line_last_ns", AT(line_s[1]), 1e-9}, {"line_far_ns", AT(line_s[2]), 1e-9},
	{"update_near_ns", AT(update_row_s[0]), 1e-9}, {"update_last_ns", AT(update_row_s[1]), 1e-9},
	{"update_far_ns", AT(update_row_s[2]), 1e-9}, {"update_line_near_ns", AT(update_line_s[0]), 1e-9},
	{"update_line_last_ns", AT(update_line_s[1]), 1e-9}, {"update_line_far_ns", AT(update_line_s[2]), 1e-9},
	{"sample_ns", AT(sample_s), 1e-9}, {"sample_line_near_ns", AT(sample_line_s[0]), 1e-9},
	{"sample_line_last_ns", AT(sample_line_s[1]), 1e-9}, {"sample_line_far_ns", AT(sample_line_s[2]), 1e-9},
	{"shared_ns", AT(shared_s), 1e-9}, {"update_shared_ns", AT(update_shared_s), 1e-9}, {"span_mib", AT(span_bytes), 0x1p20}, {"span_ns", AT(span_s), 1e-9}, {"sort_ns", AT(sort_s), 1e-9}, {"call_us", AT(call_s), 1e-6},
	{"pass_us", AT(pass_s), 1e-6}, {"sample_backward_ns", AT(sample_backward_s), 1e-9},
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
