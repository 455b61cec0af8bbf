/* lookup_work.c: tables are made, filled with indices, and run: all tables forward, then all backward, as a step does. */
#include "lookup_work.h"

#include <math.h>
#include <stdbool.h>
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

static void out_of_memory(void) {
	fputs("lookup: out of memory\n", stderr);
	exit(2);
}

static void *pages(size_t bytes) {
	void *p = lookup_pages(bytes);
	if (p) return p;
	out_of_memory();
	return NULL;
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

/* One behind the other in the table's pages, from lines on. */
static void *take(lookup_table *t, size_t *used, size_t bytes) {
	void *at = (char *)t->pages + *used;
	*used += (bytes + 63) / 64 * 64;
	return at;
}

/* Tables begin anywhere in their first page: else the first rows of all would meet in the same sets of a cache. */
static void make_room(const work_shape *s, lookup_table *t) {
	size_t used = lk_hash64(s->seed ^ 0x9a6e) % 511 * 4096, sums = t->batch * t->dim * sizeof(float);
	t->bytes = used + (t->rows * (t->dim + 1) + t->lookups + t->batch + 1) * sizeof(float) + 2 * sums + 6 * 64;
	t->pages = pages(t->bytes);
	t->weights = take(t, &used, t->rows * t->dim * sizeof(float)), t->state = take(t, &used, t->rows * sizeof(float));
	t->sums = take(t, &used, sums), t->gradients = take(t, &used, sums);
	t->indices = take(t, &used, t->lookups * sizeof(uint32_t)), t->offsets = take(t, &used, (t->batch + 1) * sizeof(uint32_t));
}

void work_make(const work_shape *s, lookup_table *t) {
	*t = (lookup_table){.rows = (size_t)s->rows, .dim = (size_t)s->dim, .batch = (size_t)s->batch,
	                    .lookups = (size_t)llround(s->batch * s->pooling)};
	make_room(s, t);
	for (size_t i = 0; i < t->rows * t->dim; i++) t->weights[i] = 1e-3f; /* as training finds them: every page is there */
	for (size_t i = 0; i < t->batch * t->dim; i++) t->gradients[i] = (float)(i % 13) * 1e-3f - 6e-3f;
	make_offsets(s, t);
	make_indices(s, t);
}

void work_free(lookup_table *t) {
	lookup_unpage(t->pages, t->bytes);
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

/* ---- undisturbed ----
 *
 * A virtual core is often half of one: while somebody else's thread runs on the other half, everything takes 1.3 to 2 times
 * as long, some milliseconds at a time. What runs is therefore timed in slices, between which a loop that touches registers
 * alone tells whether the core is ours; a slice counts when it is before and after.
 */

enum { CHECK_ROUNDS = 500, REPEATS = 5, MORE_REPEATS = 40 };
static const double slice_s = 60e-6, enough_s = 0.015, patience_s = 0.3, brief_s = 0.12, shorter = 1.15 /* of the shortest check */;

static double check(void) {
	uint64_t a = 1, b = 2, c = 3, d = 5, e = 7, f = 11;
	double begin = work_now();
	for (int i = 0; i < CHECK_ROUNDS; i++) {
		a += b, c += d, e += f, b ^= a, d ^= c, f ^= e, a += 3, c += 5, e += 7;
		__asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e), "+r"(f));
	}
	return work_now() - begin;
}

work_core work_core_new(void) {
	work_core core = {.shortest = INFINITY};
	for (double begin = work_now(); work_now() - begin < 0.2;) core.shortest = fmin(core.shortest, check());
	return core;
}

typedef struct slice {
	uint32_t table;
	int step;                /* -1: forward */
	lookup_part part;
	double seconds[MORE_REPEATS]; /* undisturbed ones */
	double least;            /* of all */
	int count;
} slice;

typedef struct slices {
	const lookup_table *tables;
	lookup_room room;
	slice *at;
	size_t count, room_for;
	work_core *core;
} slices;

static double run_part(slices *s, uint32_t table, int step, lookup_part part) {
	double begin = work_now();
	if (step < 0) lookup_forward(&s->tables[table], part);
	else lookup_backward(&s->tables[table], &s->room, step, part);
	return work_now() - begin;
}

static void add_slices(slices *s, uint32_t table, int step) {
	double whole = run_part(s, table, step, (lookup_part){0, 1});
	size_t of = (size_t)fmax(ceil(whole / slice_s), 1);
	if (s->count + of > s->room_for) {
		s->room_for = 2 * (s->count + of);
		s->at = realloc(s->at, s->room_for * sizeof *s->at);
		if (!s->at) out_of_memory();
	}
	for (size_t i = 0; i < of; i++) s->at[s->count++] = (slice){.table = table, .step = step, .part = {i, of}, .least = INFINITY};
}

/* Forward of all tables, then backward of all; it warms pages and caches, too. */
static void make_slices(slices *s, size_t tables) {
	for (uint32_t t = 0; t < tables; t++) add_slices(s, t, -1);
	for (uint32_t t = 0; t < tables; t++)
		for (int step = 0; step < lookup_backward_steps(&s->tables[t]); step++) add_slices(s, t, step);
}

/* Returns how many slices have not been timed undisturbed REPEATS times. */
static size_t run_slices(slices *s) {
	double before = check();
	size_t lacking = 0;
	for (size_t i = 0; i < s->count; i++) {
		slice *x = &s->at[i];
		double seconds = run_part(s, x->table, x->step, x->part), after = check();
		s->core->shortest = fmin(s->core->shortest, after), x->least = fmin(x->least, seconds);
		if (fmax(before, after) < shorter * s->core->shortest && x->count < MORE_REPEATS) x->seconds[x->count++] = seconds;
		lacking += x->count < REPEATS;
		before = after;
	}
	return lacking;
}

static void forget(slices *s) {
	for (size_t i = 0; i < s->count; i++) s->at[i].count = 0, s->at[i].least = INFINITY;
}

static bool lacking_once(const slices *s) {
	for (size_t i = 0; i < s->count; i++)
		if (!s->at[i].count) return true;
	return false;
}

/* Until every slice was undisturbed REPEATS times, within some patience. */
static void run_thoroughly(slices *s) {
	size_t lacking = 1;
	run_slices(s), forget(s);
	double begin = work_now();
	for (int r = 0; r < REPEATS || (r < MORE_REPEATS && work_now() - begin < enough_s) || (lacking && work_now() - begin < patience_s); r++)
		lacking = run_slices(s);
}

/* So many times, and until every slice was undisturbed once, within less patience. */
static void run_briefly(slices *s, int repeats) {
	double begin = work_now();
	for (int r = 0; r < repeats || (work_now() - begin < brief_s && lacking_once(s)); r++) run_slices(s);
}

work_time work_measure(const lookup_table *tables, size_t count, int repeats, work_core *core, work_time *each) {
	slices s = {.tables = tables, .core = core};
	work_time sum = {0};
	size_t most = 1;
	for (size_t i = 0; i < count; i++) most = tables[i].lookups > most ? tables[i].lookups : most;
	if (!lookup_room_new(&s.room, most)) out_of_memory();
	make_slices(&s, count);
	if (repeats) run_briefly(&s, repeats);
	else run_thoroughly(&s);
	for (size_t i = 0; each && i < count; i++) each[i] = (work_time){0};
	for (size_t i = 0; i < s.count; i++) {
		slice *x = &s.at[i];
		double seconds = x->count ? work_median(x->seconds, (size_t)x->count) : x->least;
		*(x->step < 0 ? &sum.forward_s : &sum.backward_s) += seconds;
		if (each) *(x->step < 0 ? &each[x->table].forward_s : &each[x->table].backward_s) += seconds;
		core->slices++, core->disturbed += !x->count;
	}
	free(s.at);
	lookup_room_free(&s.room, most);
	return sum;
}
