/* lookup_work.c: tables are made, filled with indices, and run: all tables forward, then all
 * backward, as a step does. */
#include "lookup_work.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/stats.h"
#include "lookup_counts.h"

static const double reuse_2021[] = {0.473,  0.152, 0.139, 0.112, 0.072,  0.032,
                                    0.011,  0.005, 0.002, 0.001, 0.0005, 0.0003,
                                    0.0001, 0,     0,     0,     0};
static const double reuse_2022[] = {0.342, 0.144, 0.149, 0.138,  0.112,  0.068, 0.029, 0.010, 0.004,
                                    0.002, 0.001, 0.001, 0.0003, 0.0001, 0,     0,     0};

const work_law work_laws[] = {
	{"uniform", 0, NULL},          {"zipf 0.5", 0.5, NULL}, {"zipf 0.8", 0.8, NULL},
	{"zipf 1", 1, NULL},           {"zipf 1.2", 1.2, NULL}, {"reuse 2021", 0, reuse_2021},
	{"reuse 2022", 0, reuse_2022},
};
const int work_law_count = sizeof work_laws / sizeof *work_laws;

double work_now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

lk_lookup work_lookup(const work_shape *shape, lk_locality *room) {
	double lookups = shape->batch * shape->pooling;
	if (shape->law->reuse)
		lk_locality_reuse_at(shape->law->reuse, NULL, 65536, shape->rows, shape->pooling,
		                     shape->batch, room);
	else lk_locality_zipf(shape->rows, lookups, shape->law->skew, room);
	return (lk_lookup){.batch = shape->batch,
	                   .tables = 1,
	                   .rows = shape->rows,
	                   .dim = shape->dim,
	                   .pooling = shape->pooling,
	                   .locality = room,
	                   .state = 4};
}

/* ---- making ---- */

void work_out_of_memory(void) {
	fputs("lookup: out of memory\n", stderr);
	exit(2);
}

static void *pages(size_t bytes) {
	void *p = lookup_pages(bytes);
	if (!p) work_out_of_memory();
	return p;
}

/* Lengths of samples like a lognormal law, with the mean that is asked for. */
static void make_offsets(const work_shape *shape, lookup_table *table) {
	double sum = 0, at = 0;
	for (size_t b = 0; b < table->batch; b++) sum += exp(0.5 * lk_normal(shape->seed, b));
	table->offsets[0] = 0;
	for (size_t b = 0; b < table->batch; b++) {
		at += exp(0.5 * lk_normal(shape->seed, b));
		table->offsets[b + 1] = (uint32_t)llround(at / sum * (double)table->lookups);
	}
}

/* The rank whose share of the law's integral from 1/2 on holds u. */
static double zipf_rank(double u, double rows, double skew) {
	double a = 0.5, b = rows + 0.5, x;
	if (fabs(skew - 1) < 1e-9) x = a * pow(b / a, u);
	else x = pow(pow(a, 1 - skew) + u * (pow(b, 1 - skew) - pow(a, 1 - skew)), 1 / (1 - skew));
	return fmin(fmax(floor(x + 0.5), 1), rows) - 1;
}

static void make_indices(const work_shape *shape, lookup_table *table) {
	lk_locality room;
	if (shape->law->reuse) {
		work_lookup(shape, &room);
		lk_locality_draw(&room, table->rows, shape->seed, table->lookups, table->indices);
		return;
	}
	for (size_t i = 0; i < table->lookups; i++)
		table->indices[i] = (uint32_t)lk_locality_row(
			(uint64_t)zipf_rank(lk_uniform(shape->seed + 1, i), shape->rows, shape->law->skew),
			table->rows, shape->seed);
}

/* One behind the other in the table's pages, from lines on. */
static void *take(lookup_table *table, size_t *used, size_t bytes) {
	void *at = (char *)table->pages + *used;
	*used += (bytes + 63) / 64 * 64;
	return at;
}

/* Tables begin anywhere in their first page: else the first rows of all would meet in the same sets
 * of a cache. */
static void make_room(const work_shape *shape, lookup_table *table) {
	size_t used = lk_hash64(shape->seed ^ 0x9a6e) % 511 * 4096,
		   sums = table->batch * table->dim * sizeof(float);
	table->bytes =
		used +
		(table->rows * (table->dim + 1) + table->lookups + table->batch + 1) * sizeof(float) +
		2 * sums + 6 * 64;
	table->pages = pages(table->bytes);
	table->weights = take(table, &used, table->rows * table->dim * sizeof(float));
	table->state = take(table, &used, table->rows * sizeof(float));
	table->sums = take(table, &used, sums);
	table->gradients = take(table, &used, sums);
	table->indices = take(table, &used, table->lookups * sizeof(uint32_t));
	table->offsets = take(table, &used, (table->batch + 1) * sizeof(uint32_t));
}

void work_make(const work_shape *shape, lookup_table *table) {
	*table = (lookup_table){.rows = (size_t)shape->rows,
	                        .dim = (size_t)shape->dim,
	                        .batch = (size_t)shape->batch,
	                        .lookups = (size_t)llround(shape->batch * shape->pooling)};
	make_room(shape, table);
	for (size_t i = 0; i < table->rows * table->dim; i++)
		table->weights[i] = 1e-3f; /* as training finds them: every page is there */
	for (size_t i = 0; i < table->batch * table->dim; i++)
		table->gradients[i] = (float)(i % 13) * 1e-3f - 6e-3f;
	make_offsets(shape, table);
	make_indices(shape, table);
}

void work_free(lookup_table *table) {
	lookup_unpage(table->pages, table->bytes);
}

/* ---- measuring ---- */

/* A virtual core is often half of one, and others take of the last cache and of the memory's rate
 * what they need, for milliseconds or minutes: a step of 30 ms is hardly ever left alone. What runs
 * is therefore timed in slices, in every pass the same ones, and of each slice the least time of
 * all passes counts.
 */

/* Caches have settled after some steps only: the last one keeps a line for longer when it was used
 * before. A share that came after another took 1.00, 0.66, 0.49, 0.45, 0.43, 0.43 and 0.41 of its
 * first step's time (tenth percentiles of 150). */
enum { SETTLING = 5, REPEATS = 5 };

static const double counted_mhz = 1000; /* cycles that were counted, as times */
static const double slice_s = 60e-6, line_s = 5e-9, pair_s = 2e-9; /* about */

/* How many slices a step of backward, or forward (-1), is cut into: by what there is to do, so that
 * it is always the same. */
static size_t slices_of(const lookup_table *table, int step) {
	if (lookup_counts()) return 1;
	double lines = (double)table->lookups * ceil((double)table->dim / 16),
		   pairs = (double)table->lookups;
	bool pairs_alone = step >= 0 && step < lookup_backward_steps(table) - 1;
	return (size_t)fmax(ceil((pairs_alone ? pairs * pair_s : lines * line_s) / slice_s), 1);
}

static void make_slices(const lookup_table *tables, size_t count, work_slices *s) {
	size_t slices = 0;
	for (size_t t = 0; t < count; t++)
		for (int step = -1; step < lookup_backward_steps(&tables[t]); step++)
			slices += slices_of(&tables[t], step);
	*s = (work_slices){.count = slices,
	                   .us = malloc(slices * sizeof *s->us),
	                   .table = malloc(slices * sizeof *s->table)};
	if (!s->us || !s->table) work_out_of_memory();
	for (size_t i = 0; i < slices; i++) s->us[i] = INFINITY;
}

static float run_slice(const lookup_table *table, lookup_room *room, int step, lookup_part part) {
	double begin = work_now();
	if (step < 0) lookup_forward(table, part);
	else lookup_backward(table, room, step, part);
	return lookup_counts() ? (float)(lookup_counts_cycles() / counted_mhz)
	                       : (float)((work_now() - begin) * 1e6);
}

static size_t run_step(const lookup_table *table, lookup_room *room, int step, float *us) {
	size_t of = slices_of(table, step);
	for (size_t i = 0; i < of; i++)
		us[i] = fminf(us[i], run_slice(table, room, step, (lookup_part){i, of}));
	return of;
}

/* Forward of all tables, then backward of all. */
static void run_pass(const lookup_table *tables, size_t count, lookup_room *room,
                     work_slices *slices) {
	size_t at = 0;
	for (size_t t = 0; t < count; t++)
		for (size_t end = at + run_step(&tables[t], room, -1, slices->us + at); at < end; at++)
			slices->table[at] = (uint32_t)t;
	slices->forward = at;
	for (size_t t = 0; t < count; t++)
		for (int step = 0; step < lookup_backward_steps(&tables[t]); step++)
			for (size_t end = at + run_step(&tables[t], room, step, slices->us + at); at < end;
			     at++)
				slices->table[at] = (uint32_t)t;
}

void work_measure(const lookup_table *tables, size_t count, work_slices *least) {
	lookup_room room;
	work_slices warm;
	bool counted =
		lookup_counts(); /* simulated caches have settled after one step, and counts repeat */
	int settling = counted ? 1 : SETTLING, repeats = counted ? 1 : REPEATS;
	size_t most = 1;
	for (size_t i = 0; i < count; i++) most = tables[i].lookups > most ? tables[i].lookups : most;
	if (!lookup_room_new(&room, most)) work_out_of_memory();
	if (!least->count) make_slices(tables, count, least);
	make_slices(tables, count, &warm);
	if (counted) lookup_counts_begin();
	for (int i = 0; i < settling; i++) run_pass(tables, count, &room, &warm);
	for (int i = 0; i < repeats; i++) run_pass(tables, count, &room, least);
	if (counted) lookup_counts_end();
	work_slices_free(&warm);
	lookup_room_free(&room, most);
}

work_time work_sum(const work_slices *slices, const work_slices *other, size_t table) {
	double sum[2] = {0};
	for (size_t i = 0; i < slices->count; i++)
		if (table == WORK_ALL || slices->table[i] == table)
			sum[i >= slices->forward] += other ? fminf(slices->us[i], other->us[i]) : slices->us[i];
	return (work_time){sum[0] * 1e-6, sum[1] * 1e-6};
}

void work_slices_free(work_slices *slices) {
	free(slices->us);
	free(slices->table);
	*slices = (work_slices){0};
}
