/* lookup_kernel.h: pooled lookups of embedding tables on a processor, with OpenMP: the sum of the
 * rows of each sample, and backward the gradients of each different row added up and applied by
 * row-wise Adagrad. */
#ifndef BENCH_LOOKUP_KERNEL_H
#define BENCH_LOOKUP_KERNEL_H

#include <stddef.h>
#include <stdint.h>

typedef struct lookup_table {
	size_t rows, dim, batch, lookups;
	float *weights, *state;      /* [rows * dim], [rows] */
	float *sums, *gradients;     /* [batch * dim] */
	uint32_t *indices, *offsets; /* [lookups], [batch + 1] */
	void *pages;                 /* all of these */
	size_t bytes;
} lookup_table;

/* What sorting needs, for tables of up to so many lookups; shared by all tables. */
typedef struct lookup_room {
	uint64_t *from, *to;
	uint32_t *counts; /* of each thread and digit */
	int threads;
} lookup_room;

/* Zeroed, in whole large pages where the system gives them; NULL: there is no memory. */
void *lookup_pages(size_t bytes);
void lookup_unpage(void *pages, size_t bytes);

/* 0: there is no memory. */
int lookup_room_new(lookup_room *room, size_t lookups);
void lookup_room_free(lookup_room *room, size_t lookups);

/* The kernels run in parts, so that each can be timed by itself: part `at` of `of`, which is a part
 * of every thread's share. All parts in turn are the whole. */
typedef struct lookup_part {
	size_t at, of;
} lookup_part;

void lookup_forward(const lookup_table *table, lookup_part part);
/* Backward: making pairs, counting and placing for each digit, adding up and changing rows: so many
 * steps, in turn. */
int lookup_backward_steps(const lookup_table *table);
void lookup_backward(const lookup_table *table, lookup_room *room, int step, lookup_part part);

#endif
