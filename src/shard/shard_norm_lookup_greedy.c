/* shard_norm_lookup_greedy.c: greedy by dim * pooling, per row touched: lookups that meet rows of others count less, by the share of
 * different rows among them. The study names this sharder and defines it nowhere; this is our reading of "norm". */
#include <math.h>

#include "shard/shard.h"

static double cost(const lk_shard_table *t) {
	return t->dim * t->pooling * lk_locality_rows(t->locality) / fmax(lk_locality_lookups(t->locality), 1);
}

lk_status lk_shard_norm_lookup_greedy(const lk_shard_problem *p, lk_shard_plan *out, lk_error *err) {
	return lk_shard_greedy(p, cost, out, err);
}
