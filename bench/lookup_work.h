/* lookup_work.h: tables with indices of a distribution, measured and predicted. */
#ifndef BENCH_LOOKUP_WORK_H
#define BENCH_LOOKUP_WORK_H

#include "cost/kernel/embedding.h"
#include "lookup_kernel.h"

/* How indices are drawn: a Zipf law, independently; or with a published histogram of reuse. */
typedef struct work_law {
	const char *name;
	double skew;
	const double *reuse; /* [LK_REUSE_BINS] or NULL */
} work_law;

/* From uniform to heavily skewed; the last two from embedding_locality.csv
 * (facebookresearch/dlrm_datasets, all tables of 2021 and of 2022). */
extern const work_law work_laws[];
extern const int work_law_count;

typedef struct work_shape {
	double rows, dim, batch, pooling;
	const work_law *law;
	uint64_t seed;
} work_shape;

/* What the model is told of it: the law, not the indices. */
lk_lookup work_lookup(const work_shape *shape, lk_locality *room);

/* Says so and ends the program. */
_Noreturn void work_out_of_memory(void);

/* Ends the program where there is no memory. */
void work_make(const work_shape *shape, lookup_table *out);
void work_free(lookup_table *table);

typedef struct work_time {
	double forward_s, backward_s; /* of all tables, one after the other */
} work_time;

/* A step's slices of about 60 us, in the order in which they run, and the least time of each in
 * microseconds. */
typedef struct work_slices {
	size_t forward, count; /* the first ones are forward */
	float *us;             /* [count] */
	uint32_t *table;       /* [count] whose they are; NULL: not known */
} work_slices;

/* The step, all tables forward, then all backward, again and again until caches have settled, then
 * five times; into `least`, which is empty or the same tables'. */
void work_measure(const lookup_table *tables, size_t count, work_slices *least);
/* Of all tables, or one; `other`: of the same slices in other passes, of which the lesser count, or
 * NULL. */
#define WORK_ALL SIZE_MAX
work_time work_sum(const work_slices *slices, const work_slices *other, size_t table);
void work_slices_free(work_slices *slices);
double work_now(void);

#endif
