/* lookup_work.c: tables are made, filled with indices, and run: all tables forward, then all backward, as a step does. */
#include "lookup_work.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/stats.h"

static const double reuse_2021[] = {0.473, 0.152, 0.139, 0.112, 0.072, 0.032, 0.011, 0.005, 0.002, 0.001, 0.0005, 0.0003, 0.0001, 0, 0, 0, 0};
static const double reuse_2022[] = {0.342, 0.144, 0.149, 0.138, 0.112, 0.068, 0.029, 0.010, 0.004, 0.002, 0.001, 0.001, 0.0003, 0.0001, 0, 0, 0};

const work_law work_laws[] = {
	{"uniform", 0, NULL}, {"zipf 0.5", 0.5, NULL}, {"zipf 0.8", 0.8, NULL}, {"zipf 1", 1, NULL}, {"zipf 1.2", 1.2, NULL},
	{"reuse 2021", 0, reuse_2021}, {"reuse 2022", 0, reuse_2022},
};
const int work_law_count = sizeof work_laws / sizeof *work_laws;

double work_now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

lk_lookup work_lookup(const work_shape *s, lk_locality *room) {
	double lookups = s->batch * s->pooling;
	if (s->law->reuse) lk_locality_reuse_at(s->law->reuse, NULL, 65536, s->rows, s->pooling, s->batch, room);
	else lk_locality_zipf(s->rows, lookups, s->law->skew, room);
	return (lk_lookup){.batch = s->batch, .tables = 1, .rows = s->rows, .dim = s->dim, .pooling = s->pooling, .locality = room, .state = 4};
}

/* ---- making ---- */

static void *pages(size_t bytes) {
	void *p = lookup_pages(bytes);
	if (p) return p;
	fputs("lookup: out of memory\n", stderr);
	exit(2);
}

/* Lengths of samples like a lognormal law, with the mean that is asked for. */
static void make_offsets(const work_shape *s, lookup_table *t) {
	double sum = 0, at = 0;
	for (size_t b = 0; b < t->batch; b++) sum += exp(0.5 * lk_normal(s->seed, b));
	t->offsets[0] = 0;
	for (size_t b = 0; b < t->batch; b++) {
		at += exp(0.5 * lk_normal(s->seed, b));
		t->offsets[b + 1] = (uint32_t)llround(at / sum * (double)t->lookups);
	}
}

/* The rank whose share of the law's integral from 1/2 on holds u. */
static double zipf_rank(double u, double rows, double skew) {
	double a = 0.5, b = rows + 0.5, x;
	if (fabs(skew - 1) < 1e-9) x = a * pow(b / a, u);
	else x = pow(pow(a, 1 - skew) + u * (pow(b, 1 - skew) - pow(a, 1 - skew)), 1 / (1 - skew));
	return fmin(fmax(floor(x + 0.5), 1), rows) - 1;
}

static uint64_t common(uint64_t a, uint64_t b) {
	while (b) {
		uint64_t t = a % b;
		a = b, b = t;
	}
	return a;
}

static void make_indices(const work_shape *s, lookup_table *t) {
	lk_locality room;
	uint64_t rows = t->rows, step = rows / 2 + lk_hash64(s->seed) % (rows / 2 + 1) + 1;
	while (common(rows, step) != 1) step++;
	if (s->law->reuse) {
		work_lookup(s, &room);
		lk_locality_draw(&room, rows, s->seed, t->lookups, t->indices);
		return;
	}
	for (size_t i = 0; i < t->lookups; i++)
		t->indices[i] = (uint32_t)((uint64_t)zipf_rank(lk_uniform(s->seed + 1, i), s->rows, s->law->skew) * step % rows);
}

void work_make(const work_shape *s, lookup_table *t) {
	*t = (lookup_table){.rows = (size_t)s->rows, .dim = (size_t)s->dim, .batch = (size_t)s->batch,
	                    .lookups = (size_t)llround(s->batch * s->pooling)};
	t->weights = pages(t->rows * t->dim * sizeof(float)), t->state = pages(t->rows * sizeof(float));
	t->sums = pages(t->batch * t->dim * sizeof(float)), t->gradients = pages(t->batch * t->dim * sizeof(float));
	t->indices = pages(t->lookups * sizeof(uint32_t)), t->offsets = pages((t->batch + 1) * sizeof(uint32_t));
	for (size_t i = 0; i < t->rows * t->dim; i++) t->weights[i] = 1e-3f; /* as training finds them: every page is there */
	for (size_t i = 0; i < t->batch * t->dim; i++) t->gradients[i] = (float)(i % 13) * 1e-3f - 6e-3f;
	make_offsets(s, t);
	make_indices(s, t);
}

void work_free(lookup_table *t) {
	lookup_unpage(t->weights, t->rows * t->dim * sizeof(float)), lookup_unpage(t->state, t->rows * sizeof(float));
	lookup_unpage(t->sums, t->batch * t->dim * sizeof(float)), lookup_unpage(t->gradients, t->batch * t->dim * sizeof(float));
	lookup_unpage(t->indices, t->lookups * sizeof(uint32_t)), lookup_unpage(t->offsets, (t->batch + 1) * sizeof(uint32_t));
}

/* ---- measuring ---- */

static int rising(const void *a, const void *b) {
	double x = *(const double *)a, y = *(const double *)b;
	return x < y ? -1 : x > y;
}

double work_median(double *values, size_t count) {
	qsort(values, count, sizeof *values, rising);
	return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

static work_time run_once(const lookup_table *tables, size_t count, lookup_room *room) {
	double begin = work_now();
	for (size_t i = 0; i < count; i++) lookup_forward(&tables[i]);
	double middle = work_now();
	for (size_t i = 0; i < count; i++) lookup_backward(&tables[i], room);
	return (work_time){middle - begin, work_now() - middle};
}

work_time work_measure(const lookup_table *tables, size_t count, work_time *least) {
	double forward[MORE_REPEATS], backward[MORE_REPEATS];
	lookup_room room;
	size_t most = 1, done = 0;
	for (size_t i = 0; i < count; i++) most = tables[i].lookups > most ? tables[i].lookups : most;
	if (!lookup_room_new(&room, most)) exit(2);
	run_once(tables, count, &room); /* pages and caches are warm then */
	if (least) *least = (work_time){INFINITY, INFINITY};
	for (double start = work_now(); done < REPEATS || (done < MORE_REPEATS && work_now() - start < 0.02); done++) {
		work_time t = run_once(tables, count, &room);
		forward[done] = t.forward_s, backward[done] = t.backward_s;
		if (!least || done >= REPEATS) continue;
		least->forward_s = fmin(least->forward_s, t.forward_s), least->backward_s = fmin(least->backward_s, t.backward_s);
	}
	lookup_room_free(&room, most);
	return (work_time){work_median(forward, done), work_median(backward, done)};
}
