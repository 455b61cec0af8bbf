/* lookup_fit.c: fits the model of src/cost/embedding_host.c: first what forward shows, then what backward adds. */
#include "lookup_fit.h"

#include <math.h>

#include "base/fit.h"

enum { FORWARD = 15, BACKWARD = 7 };

static const lk_fit_number forward_numbers[FORWARD] = {
	{"near_bytes", 1e6, 2e5, 8e6, true}, {"last_bytes", 1e8, 1e7, 1e9, true}, {"slope", 1.5, 0.7, 6, true},
	{"row near", 1e-9, 1e-11, 1e-7, true}, {"row last", 3e-9, 1e-11, 1e-7, true}, {"row far", 1e-8, 1e-11, 1e-6, true},
	{"line near", 1e-9, 1e-11, 1e-7, true}, {"line last", 3e-9, 1e-11, 1e-7, true}, {"line far", 6e-9, 1e-11, 1e-6, true},
	{"sample", 5e-9, 1e-11, 1e-6, true}, {"sample line near", 1e-9, 1e-11, 1e-7, true}, {"sample line last", 2e-9, 1e-11, 1e-7, true},
	{"sample line far", 4e-9, 1e-11, 1e-6, true}, {"span_bytes", 3e8, 1e7, 1e10, true}, {"span", 7e-9, 1e-11, 1e-7, true},
};
static const lk_fit_number backward_numbers[BACKWARD] = {
	{"update near", 2e-9, 1e-11, 1e-7, true}, {"update last", 5e-9, 1e-11, 1e-7, true}, {"update far", 2e-8, 1e-11, 1e-6, true},
	{"update line near", 2e-9, 1e-11, 1e-7, true}, {"update line last", 5e-9, 1e-11, 1e-7, true},
	{"update line far", 1e-8, 1e-11, 1e-6, true}, {"sort", 2e-9, 1e-11, 1e-7, true},
};

typedef struct fitting {
	const fit_case *cases;
	size_t count;
	lk_host_lookup *h;
	bool backward;
} fitting;

static void set_forward(lk_host_lookup *h, const double *x) {
	h->near_bytes = x[0], h->last_bytes = x[1], h->slope = x[2];
	for (int i = 0; i < LK_HOST_LEVELS; i++) h->row_s[i] = x[3 + i], h->line_s[i] = x[6 + i], h->sample_line_s[i] = x[10 + i];
	h->sample_s = x[9], h->span_bytes = x[13], h->span_s = x[14];
}

static void set_backward(lk_host_lookup *h, const double *x) {
	for (int i = 0; i < LK_HOST_LEVELS; i++) h->update_row_s[i] = x[i], h->update_line_s[i] = x[3 + i];
	h->sort_s = x[6];
}

work_time lookup_predict(const lk_host_lookup *h, const work_shape *shape) {
	lk_locality room;
	lk_lookup l = work_lookup(shape, &room);
	double between = lk_host_lookup_touched(&l);
	work_time t = {.forward_s = lk_host_lookup_seconds(h, &l, between)};
	l.backward = true;
	t.backward_s = lk_host_lookup_seconds(h, &l, between);
	t.both_s = t.forward_s + t.backward_s;
	return t;
}

static double miss(const fit_case *c, const lk_host_lookup *h, bool backward) {
	work_time t = lookup_predict(h, &c->shape);
	return backward ? log(t.backward_s / c->measured.backward_s) : log(t.forward_s / c->measured.forward_s);
}

static double objective(const double *x, void *context) {
	fitting *f = context;
	double sum = 0;
	if (f->backward) set_backward(f->h, x);
	else set_forward(f->h, x);
	for (size_t i = 0; i < f->count; i++) {
		double m = miss(&f->cases[i], f->h, f->backward);
		sum += m * m;
	}
	return sum / (double)f->count;
}

lk_host_lookup lookup_fit(const fit_case *cases, size_t count, double call_s, int threads, double *error) {
	lk_host_lookup h = {.threads = threads, .call_s = call_s};
	fitting f = {cases, count, &h, false};
	double x[LK_FIT_NUMBERS], sum = 0;
	lk_fit_simplex(forward_numbers, FORWARD, 12000, objective, &f, x, NULL);
	set_forward(&h, x);
	f.backward = true;
	lk_fit_simplex(backward_numbers, BACKWARD, 6000, objective, &f, x, NULL);
	set_backward(&h, x);
	for (size_t i = 0; i < count; i++) sum += fabs(miss(&cases[i], &h, false)) + fabs(miss(&cases[i], &h, true));
	*error = exp(sum / (2 * (double)count)) - 1;
	return h;
}
