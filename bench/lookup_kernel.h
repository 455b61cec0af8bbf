/* lookup_kernel.h: pooled lookups of embedding tables on a processor, with OpenMP: the sum of the rows of each sample, and
 * backward the gradients of each different row added up and applied by row-wise Adagrad. */
#ifndef BENCH_LOOKUP_KERNEL_H
#define BENCH_LOOKUP_KERNEL_H

#include <stddef.h>
#include <stdint.h>

typedef struct lookup_table {
	size_t rows, dim, batch, lookups;
	float *weights, *state;      /* [rows * dim], [rows] */
	float *sums, *gradients;     /* [batch * dim] */
	uint32_t *indices, *offsets; /* [lookups], [batch + 1] */
} lookup_table;

/* What sorting needs, for tables of up to so many lookups; shared by all tables. */
typedef struct lookup_room {
	uint64_t *from, *to;
	uint32_t *counts;            /* of each thread and digit */
	int threads;
} lookup_room;

/* Zeroed, in large pages where the system gives them; NULL: there is no memory. */
void *lookup_pages(size_t bytes);
void lookup_unpage(void *pages, size_t bytes);

/* 0: there is no memory. */
int lookup_room_new(lookup_room *room, size_t lookups);
void lookup_room_free(lookup_room *room, size_t lookups);

void lookup_forward(const lookup_table *t);
void lookup_backward(const lookup_table *t, lookup_room *room);

#endif
