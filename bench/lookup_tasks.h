/* lookup_tasks.h: the sharding study on this processor. */
#ifndef BENCH_LOOKUP_TASKS_H
#define BENCH_LOOKUP_TASKS_H

#include "cost/embedding_host.h"

/* Tasks FIRST to LAST on so many ranks, each sharder's placement predicted and measured; a line each, and a summary. */
int lookup_tasks(const lk_host_lookup *h, int ranks, int first, int last, uint64_t seed);

#endif
