/* lookup_work.h: tables with indices of a distribution, measured and predicted. */
#ifndef BENCH_LOOKUP_WORK_H
#define BENCH_LOOKUP_WORK_H

#include "cost/embedding_host.h"
#include "lookup_kernel.h"

/* How indices are drawn: a Zipf law, independently; or with a published histogram of reuse. */
typedef struct work_law {
	const char *name;
	double skew;
	const double *reuse;     /* [LK_REUSE_BINS] or NULL */
} work_law;

/* From uniform to heavily skewed; the last two from embedding_locality.csv (facebookresearch/dlrm_datasets, all tables of
 * 2021 and of 2022). */
extern const work_law work_laws[];
extern const int work_law_count;

typedef struct work_shape {
	double rows, dim, batch, pooling;
	const work_law *law;
	uint64_t seed;
} work_shape;

/* What the model is told of it: the law, not the indices. */
lk_lookup work_lookup(const work_shape *shape, lk_locality *room);

/* Ends the program where there is no memory. */
void work_make(const work_shape *shape, lookup_table *out);
void work_free(lookup_table *t);

typedef struct work_time {
	double forward_s, backward_s; /* of all tables, one after the other */
} work_time;

/* What is known of the core: how short the check between slices can be; and how many slices found it never ours alone. */
typedef struct work_core {
	double shortest;
	size_t slices, disturbed;
} work_core;

work_core work_core_new(void);
/* All tables forward, then all backward, timed in slices, each undisturbed as far as can be told: the sum of their medians
 * over so many repeats or some more, or (0) as many as it takes; that of each table goes to each[count] where it is not NULL. */
work_time work_measure(const lookup_table *tables, size_t count, int repeats, work_core *core, work_time *each);
double work_median(double *values, size_t count); /* sorts them */
double work_now(void);

#endif
