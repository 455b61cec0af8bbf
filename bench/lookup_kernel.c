/* lookup_kernel.c: the kernels. Forward, threads share the samples; rows are fetched ahead.
 * Backward, (row, sample) pairs are sorted by row (radix, 11 bits at a time, stable), then threads
 * share the sorted pairs at boundaries of rows. */
#include "lookup_kernel.h"

#include <math.h>
#include <omp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
	AHEAD = 8,
	LINE = 16 /* floats */,
	FETCHED = 8 /* lines of a row; the processor's own prefetcher has the rest */,
	DIGIT = 11,
	BUCKETS = 1 << DIGIT
};
static const size_t LARGE = (size_t)2 << 20; /* a large page */

static size_t whole_pages(size_t bytes) {
	return (bytes / LARGE + 1) * LARGE;
}

/* What lies before and behind the large pages is given back. */
void *lookup_pages(size_t bytes) {
	size_t size = whole_pages(bytes);
	char *pages =
		mmap(NULL, size + LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (pages == MAP_FAILED) return NULL;
	size_t before = (LARGE - (uintptr_t)pages % LARGE) % LARGE;
	if (before) munmap(pages, before);
	if (LARGE - before) munmap(pages + before + size, LARGE - before);
	madvise(pages + before, size, MADV_HUGEPAGE);
	return pages + before;
}

void lookup_unpage(void *pages, size_t bytes) {
	if (pages) munmap(pages, whole_pages(bytes));
}

int lookup_room_new(lookup_room *room, size_t lookups) {
	room->threads = omp_get_max_threads();
	room->from = lookup_pages(lookups * sizeof *room->from);
	room->to = lookup_pages(lookups * sizeof *room->to);
	room->counts = calloc((size_t)room->threads * BUCKETS, sizeof *room->counts);
	return room->from && room->to && room->counts;
}

void lookup_room_free(lookup_room *room, size_t lookups) {
	lookup_unpage(room->from, lookups * sizeof *room->from);
	lookup_unpage(room->to, lookups * sizeof *room->to);
	free(room->counts);
}

static inline void fetch(const float *row, size_t dim) {
	size_t lines = (dim + LINE - 1) / LINE;
	for (size_t i = 0; i < lines && i < FETCHED; i++) __builtin_prefetch(row + i * LINE);
}

static inline void add_row(float *restrict sum, const float *restrict row, size_t dim) {
	for (size_t k = 0; k < dim; k++) sum[k] += row[k];
}

struct range {
	size_t begin, end;
};

/* Of `count` things, what this thread has to do in this part. */
static struct range mine(size_t count, lookup_part part) {
	size_t thread = (size_t)omp_get_thread_num(), threads = (size_t)omp_get_num_threads();
	size_t begin = count * thread / threads, all = count * (thread + 1) / threads - begin;
	return (struct range){begin + all * part.at / part.of, begin + all * (part.at + 1) / part.of};
}

static void sum_samples(const lookup_table *table, struct range r) {
	size_t dim = table->dim;
	for (size_t b = r.begin; b < r.end; b++) {
		float *sum = table->sums + b * dim;
		memset(sum, 0, dim * sizeof *sum);
		for (uint32_t i = table->offsets[b]; i < table->offsets[b + 1]; i++) {
			if (i + AHEAD < table->lookups)
				fetch(table->weights + (size_t)table->indices[i + AHEAD] * dim, dim);
			add_row(sum, table->weights + (size_t)table->indices[i] * dim, dim);
		}
	}
}

void lookup_forward(const lookup_table *table, lookup_part part) {
#pragma omp parallel
	sum_samples(table, mine(table->batch, part));
}

/* ---- backward ---- */

static uint32_t row_of(uint64_t pair) {
	return (uint32_t)(pair >> 32);
}

static void make_pairs(const lookup_table *table, uint64_t *out, struct range r) {
	for (size_t b = r.begin; b < r.end; b++)
		for (uint32_t i = table->offsets[b]; i < table->offsets[b + 1]; i++)
			out[i] = (uint64_t)table->indices[i] << 32 | b;
}

static uint32_t *counts_of(const lookup_room *room) {
	return room->counts + (size_t)omp_get_thread_num() * BUCKETS;
}

static void count_digit(const lookup_room *room, const uint64_t *from, int shift, bool first,
                        struct range r) {
	uint32_t *counts = counts_of(room);
	if (first) memset(counts, 0, BUCKETS * sizeof *counts);
	for (size_t i = r.begin; i < r.end; i++) counts[row_of(from[i]) >> shift & (BUCKETS - 1)]++;
}

/* From counts to the places where each thread's pairs of a digit begin. */
static void counts_to_places(const lookup_room *room) {
	uint32_t sum = 0;
	for (int k = 0; k < BUCKETS; k++)
		for (int p = 0; p < room->threads; p++) {
			uint32_t *count = &room->counts[(size_t)p * BUCKETS + (size_t)k], here = *count;
			*count = sum;
			sum += here;
		}
}

static void place_digit(const lookup_room *room, const uint64_t *from, uint64_t *to, int shift,
                        struct range r) {
	uint32_t *places = counts_of(room);
	for (size_t i = r.begin; i < r.end; i++)
		to[places[row_of(from[i]) >> shift & (BUCKETS - 1)]++] = from[i];
}

/* Row-wise Adagrad. */
static void update(const lookup_table *table, uint32_t row, const float *restrict gradient) {
	float *restrict w = table->weights + (size_t)row * table->dim, squares = 0;
	for (size_t k = 0; k < table->dim; k++) squares += gradient[k] * gradient[k];
	float state = table->state[row] += squares / (float)table->dim;
	float rate = 1e-3f / (sqrtf(state) + 1e-8f);
	for (size_t k = 0; k < table->dim; k++) w[k] -= rate * gradient[k];
}

static size_t boundary(const uint64_t *pairs, size_t at, size_t count) {
	while (at > 0 && at < count && row_of(pairs[at]) == row_of(pairs[at - 1])) at++;
	return at;
}

static inline void fetch_pair(const lookup_table *table, uint64_t pair) {
	fetch(table->gradients + (pair & UINT32_MAX) * table->dim, table->dim);
	fetch(table->weights + (size_t)row_of(pair) * table->dim, table->dim);
	__builtin_prefetch(table->state + row_of(pair));
}

static void apply(const lookup_table *table, const uint64_t *pairs, struct range r) {
	size_t dim = table->dim, i = boundary(pairs, r.begin, table->lookups),
		   end = boundary(pairs, r.end, table->lookups);
	float *sum = aligned_alloc(64, (dim * sizeof *sum + 63) / 64 * 64);
	if (!sum) return;
	while (i < end) {
		uint32_t row = row_of(pairs[i]);
		memset(sum, 0, dim * sizeof *sum);
		for (; i < end && row_of(pairs[i]) == row; i++) {
			if (i + AHEAD < end) fetch_pair(table, pairs[i + AHEAD]);
			add_row(sum, table->gradients + (pairs[i] & UINT32_MAX) * dim, dim);
		}
		update(table, row, sum);
	}
	free(sum);
}

static int digits_of(const lookup_table *table) {
	int bits = 1;
	while (bits < 32 && (table->rows - 1) >> bits) bits++;
	return (bits + DIGIT - 1) / DIGIT;
}

int lookup_backward_steps(const lookup_table *table) {
	return 2 + 2 * digits_of(table);
}

void lookup_backward(const lookup_table *table, lookup_room *room, int step, lookup_part part) {
	int digit = (step - 1) / 2, digits = digits_of(table), shift = digit * DIGIT;
	bool placing = step > 0 && (step - 1) % 2;
	uint64_t *from = digit % 2 ? room->to : room->from, *to = digit % 2 ? room->from : room->to;
	if (placing && part.at == 0) counts_to_places(room);
#pragma omp parallel
	{
		if (step == 0) make_pairs(table, room->from, mine(table->batch, part));
		else if (digit == digits) apply(table, from, mine(table->lookups, part));
		else if (placing) place_digit(room, from, to, shift, mine(table->lookups, part));
		else count_digit(room, from, shift, part.at == 0, mine(table->lookups, part));
	}
}
