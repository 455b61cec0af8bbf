/* lookup_fit.c: fits the model of src/cost/embedding_host.c. Its times enter linearly: for given sizes of the caches (five
 * numbers, found by a simplex) they are the non-negative least squares of relative errors; what a time contributes to a
 * case is the model's answer with that time alone. First what forward shows, then what backward adds.
 */
#include "lookup_fit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/fit.h"

enum { SIZES = 5, TIMES = 20 };

static const lk_fit_number sizes[SIZES] = {
	{"near_bytes", 1e6, 3e5, 6e6, true}, {"last_bytes", 1e8, 1e7, 5e8, true}, {"near_slope", 1.5, 0.7, 6, true},
	{"last_slope", 3, 0.7, 8, true}, {"span_bytes", 3e8, 3e7, 1e10, true}};

#define AT(field) offsetof(lk_host_lookup, field)
static const size_t forward_times[] = {
	AT(row_s[0]), AT(row_s[1]), AT(row_s[2]), AT(line_s[0]), AT(line_s[1]), AT(line_s[2]), AT(sample_s),
	AT(sample_line_s[0]), AT(sample_line_s[1]), AT(sample_line_s[2]), AT(span_s), AT(shared_s), AT(call_s)};
static const size_t backward_times[] = {
	AT(update_row_s[0]), AT(update_row_s[1]), AT(update_row_s[2]), AT(update_line_s[0]), AT(update_line_s[1]), AT(update_line_s[2]),
	AT(update_shared_s), AT(sort_s), AT(pass_s), AT(sample_backward_s)};

typedef struct fitting {
	const fit_case *cases;
	size_t count;
	double *features;        /* [count * TIMES] */
	lk_host_lookup h;
	bool *trusted;           /* [count] */
} fitting;

work_time lookup_predict(const lk_host_lookup *h, const work_shape *shape) {
	lk_locality room;
	lk_lookup l = work_lookup(shape, &room);
	double between = lk_host_lookup_touched(&l);
	work_time t = {.forward_s = lk_host_lookup_seconds(h, &l, between)};
	l.backward = true;
	t.backward_s = lk_host_lookup_seconds(h, &l, between);
	return t;
}

static double *time_at(lk_host_lookup *h, size_t offset) {
	return (double *)(void *)((char *)h + offset);
}

static double answer(const lk_host_lookup *h, const fit_case *c, bool backward) {
	work_time t = lookup_predict(h, &c->shape);
	return backward ? t.backward_s : t.forward_s;
}

static double measured(const fit_case *c, bool backward) {
	return backward ? c->measured.backward_s : c->measured.forward_s;
}

/* ---- non-negative least squares: coordinates in turn on the normal equations ---- */

static void solve(const double *features, const double *wanted, size_t rows, int count, double *x) {
	double square[TIMES][TIMES] = {{0}}, right[TIMES] = {0};
	for (size_t i = 0; i < rows; i++)
		for (int j = 0; j < count; j++) {
			right[j] += features[i * TIMES + j] * wanted[i];
			for (int k = 0; k < count; k++) square[j][k] += features[i * TIMES + j] * features[i * TIMES + k];
		}
	memset(x, 0, (size_t)count * sizeof *x);
	for (int round = 0; round < 3000; round++)
		for (int j = 0; j < count; j++) {
			double rest = right[j];
			for (int k = 0; k < count; k++) rest -= k != j ? square[j][k] * x[k] : 0;
			x[j] = square[j][j] > 0 ? fmax(rest / square[j][j], 0) : 0;
		}
}

/* The times of a direction, with everything else of f->h as it is; returns the mean square of relative errors. */
static double fit_times(fitting *f, const size_t *times, int count, bool backward) {
	double wanted[1024], x[TIMES], sum = 0;
	lk_host_lookup h = f->h;
	for (int j = 0; j < count; j++) *time_at(&h, times[j]) = 0;
	for (size_t i = 0; i < f->count; i++) {
		double m = measured(&f->cases[i], backward), base = answer(&h, &f->cases[i], backward);
		wanted[i] = 1 - base / m;
		/* a case in which somebody else had a core tells nothing */
		double weight = f->trusted[i] ? 1 : 0;
		wanted[i] *= weight;
		for (int j = 0; j < count; j++) {
			*time_at(&h, times[j]) = 1e-6;
			f->features[i * TIMES + (size_t)j] = weight * (answer(&h, &f->cases[i], backward) - base) / m;
			*time_at(&h, times[j]) = 0;
		}
	}
	solve(f->features, wanted, f->count, count, x);
	for (int j = 0; j < count; j++) *time_at(&f->h, times[j]) = x[j] * 1e-6;
	for (size_t i = 0; i < f->count; i++) {
		double miss = answer(&f->h, &f->cases[i], backward) / measured(&f->cases[i], backward) - 1;
		sum += f->trusted[i] ? miss * miss : 0;
	}
	return sum / (double)f->count;
}

enum { FORWARD = sizeof forward_times / sizeof *forward_times, BACKWARD = sizeof backward_times / sizeof *backward_times };

static double with_sizes(const double *x, void *context) {
	fitting *f = context;
	f->h.near_bytes = x[0], f->h.last_bytes = x[1], f->h.near_slope = x[2], f->h.last_slope = x[3], f->h.span_bytes = x[4];
	return fit_times(f, forward_times, FORWARD, false) + fit_times(f, backward_times, BACKWARD, true);
}

/* Twice as long as the model says, or half as long. */
static void mark_trusted(fitting *f) {
	for (size_t i = 0; i < f->count; i++) {
		double forward = log(answer(&f->h, &f->cases[i], false) / f->cases[i].measured.forward_s);
		double backward = log(answer(&f->h, &f->cases[i], true) / f->cases[i].measured.backward_s);
		f->trusted[i] = fabs(forward) < log(2) && fabs(backward) < log(2);
	}
}

int lookup_fit(const fit_case *cases, size_t count, int threads, lk_host_lookup *out, double *error) {
	fitting f = {cases, count, malloc(count * TIMES * sizeof(double)), {.threads = threads}, malloc(count)};
	double x[LK_FIT_NUMBERS], sum = 0;
	size_t used = 0;
	if (!f.features || !f.trusted) return 0;
	memset(f.trusted, true, count);
	lk_fit_simplex(sizes, SIZES, 120, with_sizes, &f, x, NULL);
	with_sizes(x, &f);
	mark_trusted(&f);
	lk_fit_simplex(sizes, SIZES, 200, with_sizes, &f, x, NULL);
	with_sizes(x, &f);
	for (size_t i = 0; i < count; i++) {
		if (!f.trusted[i]) continue;
		used++;
		sum += fabs(log(answer(&f.h, &cases[i], false) / cases[i].measured.forward_s)) +
		       fabs(log(answer(&f.h, &cases[i], true) / cases[i].measured.backward_s));
	}
	*error = exp(sum / (2 * fmax((double)used, 1))) - 1, *out = f.h;
	free(f.features), free(f.trusted);
	return 1;
}
