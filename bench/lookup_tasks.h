/* lookup_tasks.h: the sharding study on this processor. */
#ifndef BENCH_LOOKUP_TASKS_H
#define BENCH_LOOKUP_TASKS_H

#include "cost/kernel/embedding.h"

typedef struct lookup_tasks_options {
	int ranks, first, last;
	uint64_t seed;
	const char *store; /* file of measured shares */
	double seconds; /* no task begins to be measured later; 0: only what is in the file is judged */
	int passes;     /* that each share is measured at least, those of the file included */
	int heuristics; /* not 0: their shares alone are measured, not the search's */
} lookup_tasks_options;

/* Tasks `first` to `last`, each sharder's placement predicted and measured; a line each, and a
 * summary. */
int lookup_tasks(const lk_host_lookup *lookup, const lookup_tasks_options *options);

#endif
