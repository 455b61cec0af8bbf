/* shard_lookup_greedy.c: greedy by dim * pooling: what a sample reads. */
#include "shard/shard.h"

static double cost(const lk_shard_table *t) {
	return t->dim * t->pooling;
}

lk_status lk_shard_lookup_greedy(const lk_shard_problem *p, lk_shard_plan *out, lk_error *err) {
	return lk_shard_greedy(p, cost, out, err);
}
