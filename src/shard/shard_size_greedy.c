/* shard_size_greedy.c: greedy by the size of tables. */
#include "shard/shard.h"

static double cost(const lk_shard_table *t) {
	return t->rows * t->dim;
}

lk_status lk_shard_size_greedy(const lk_shard_problem *p, lk_shard_plan *out, lk_error *err) {
	return lk_shard_greedy(p, cost, out, err);
}
