/* shard_size_lookup_greedy.c: greedy by dim * pooling * log10(rows): what a sample reads, more where it is seldom cached. */
#include <math.h>

#include "shard/shard.h"

static double cost(const lk_shard_table *t) {
	return t->dim * t->pooling * log10(fmax(t->rows, 1));
}

lk_status lk_shard_size_lookup_greedy(const lk_shard_problem *p, lk_shard_plan *out, lk_error *err) {
	return lk_shard_greedy(p, cost, out, err);
}
