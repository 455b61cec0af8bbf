/* shard_sharders.c: the sharders by name, and what the greedy ones share. The first seven are those of the sharding study of
 * Lin et al. (arXiv 2404.12674) after DreamShard (daochenzha/dreamshard): whole tables, one number for each.
 */
#include <stdlib.h>

#include "base/text.h"
#include "shard/shard.h"

const lk_sharder lk_sharders[] = {
	{"naive", lk_shard_naive, false},
	{"naive-chunk", lk_shard_naive_chunk, false},
	{"random", lk_shard_random, false},
	{"size-greedy", lk_shard_size_greedy, false},
	{"lookup-greedy", lk_shard_lookup_greedy, false},
	{"norm-lookup-greedy", lk_shard_norm_lookup_greedy, false},
	{"size-lookup-greedy", lk_shard_size_lookup_greedy, false},
	{"search", lk_shard_search, true},
};
const int lk_sharder_count = sizeof lk_sharders / sizeof *lk_sharders;
const int lk_sharder_search = sizeof lk_sharders / sizeof *lk_sharders - 1;

lk_status lk_shard_no_room(const lk_shard_problem *p, const lk_shard_piece *piece, lk_error *err) {
	char needs[32], has[32];
	const lk_shard_table *t = &p->tables[piece->table];
	lk_fail(err, LK_ERR_INPUT, t->where, "no rank has room for table \"%.60s\": %s whole, ranks hold %s each", t->name,
	        lk_format_bytes(piece->cost.device_bytes, needs, sizeof needs), lk_format_bytes(p->capacity, has, sizeof has));
	return lk_hint(err, "give more GPUs, or let tables be split");
}

int lk_shard_costliest_first(const void *a, const void *b) {
	const lk_shard_weighed *x = a, *y = b;
	if (x->cost != y->cost) return x->cost > y->cost ? -1 : 1;
	return x->piece < y->piece ? -1 : x->piece > y->piece;
}

static int least_loaded(const lk_shard_problem *p, const double *cost, const double *bytes, double more) {
	int best = -1;
	for (int r = 0; r < p->ranks; r++)
		if (bytes[r] + more <= p->capacity && (best < 0 || cost[r] < cost[best])) best = r;
	return best;
}

static lk_status place_in_order(const lk_shard_problem *p, const lk_shard_weighed *order, lk_shard_pieces *pieces, double *cost,
                                double *bytes, lk_error *err) {
	for (size_t i = 0; i < pieces->count; i++) {
		lk_shard_piece *piece = &pieces->at[order[i].piece];
		int r = least_loaded(p, cost, bytes, piece->cost.device_bytes);
		if (r < 0) return lk_shard_no_room(p, piece, err);
		piece->rank = r;
		cost[r] += order[i].cost, bytes[r] += piece->cost.device_bytes;
	}
	return LK_OK;
}

lk_status lk_shard_greedy(const lk_shard_problem *p, double (*cost)(const lk_shard_table *t), lk_shard_plan *out, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	lk_shard_weighed *order = LK_ARRAY(&arena, lk_shard_weighed, p->count);
	double *sums = LK_ARRAY(&arena, double, p->ranks), *bytes = LK_ARRAY(&arena, double, p->ranks);
	lk_status status = order && sums && bytes ? lk_shard_whole(p, &out->pieces, err) : lk_oom(err);
	if (status == LK_OK) {
		for (uint32_t t = 0; t < p->count; t++) order[t] = (lk_shard_weighed){cost(&p->tables[t]), t};
		qsort(order, p->count, sizeof *order, lk_shard_costliest_first);
		status = place_in_order(p, order, &out->pieces, sums, bytes, err);
	}
	lk_arena_free(&arena);
	return status;
}
