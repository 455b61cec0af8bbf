/* shard_heuristics.c: the published sharders: those of the sharding study of Lin et al. (arXiv
 * 2404.12674) after DreamShard (daochenzha/dreamshard). Each places whole tables by one number per
 * table: naive, naive-chunk, random, and four that give the costliest remaining table to the rank
 * with the least cost so far. */
#include <math.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/stats.h"
#include "base/text.h"
#include "base/sort.h"
#include "shard/shard.h"

lk_status lk_shard_no_room(const lk_shard_problem *problem, const lk_shard_piece *piece,
                           lk_error *err) {
	char needs[32], has[32];
	const lk_shard_table *table = &problem->tables[piece->table];
	lk_fail(err, LK_ERR_INPUT, table->where,
	        "no rank has room for table \"%.60s\": %s whole, ranks hold %s each", table->name,
	        lk_format_bytes(piece->cost.device_bytes, needs, sizeof needs),
	        lk_format_bytes(problem->capacity, has, sizeof has));
	return lk_hint(err, "give more GPUs, or let tables be split");
}

int lk_shard_costliest_first(const void *a, const void *b) {
	const lk_shard_weighed *x = a, *y = b;
	if (x->cost != y->cost) return x->cost > y->cost ? -1 : 1;
	return x->piece < y->piece ? -1 : x->piece > y->piece;
}

static int heuristics_least_loaded(const lk_shard_problem *problem, const double *cost,
                                   const double *bytes, double more) {
	int best = -1;
	for (int r = 0; r < problem->ranks; r++)
		if (bytes[r] + more <= problem->capacity && (best < 0 || cost[r] < cost[best])) best = r;
	return best;
}

static lk_status place_in_order(const lk_shard_problem *problem, const lk_shard_weighed *order,
                                lk_shard_pieces *pieces, double *cost, double *bytes,
                                lk_error *err) {
	for (size_t i = 0; i < pieces->count; i++) {
		lk_shard_piece *piece = &pieces->at[order[i].piece];
		int r = heuristics_least_loaded(problem, cost, bytes, piece->cost.device_bytes);
		if (r < 0) return lk_shard_no_room(problem, piece, err);
		piece->rank = r;
		cost[r] += order[i].cost;
		bytes[r] += piece->cost.device_bytes;
	}
	return LK_OK;
}

static lk_status place_greedily(const lk_shard_problem *problem,
                                double (*cost)(const lk_shard_table *t), lk_shard_plan *out,
                                lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	lk_shard_weighed *order = LK_ARRAY(&arena, lk_shard_weighed, problem->count);
	double *sums = LK_ARRAY(&arena, double, problem->ranks),
		   *bytes = LK_ARRAY(&arena, double, problem->ranks);
	lk_status status =
		order && sums && bytes ? lk_shard_whole(problem, &out->pieces, err) : lk_oom(err);
	if (status == LK_OK) {
		for (uint32_t t = 0; t < problem->count; t++)
			order[t] = (lk_shard_weighed){cost(&problem->tables[t]), t};
		lk_sort(order, problem->count, sizeof *order, lk_shard_costliest_first);
		status = place_in_order(problem, order, &out->pieces, sums, bytes, err);
	}
	lk_arena_free(&arena);
	return status;
}

/* Table i on rank i modulo the ranks; without room, on the next rank with some. */
static lk_status place_by_number(const lk_shard_problem *problem, lk_shard_pieces *pieces,
                                 double *bytes, lk_error *err) {
	for (size_t i = 0; i < pieces->count; i++) {
		lk_shard_piece *piece = &pieces->at[i];
		for (int k = 0; k < problem->ranks && piece->rank < 0; k++) {
			int r = (int)((i + (size_t)k) % (size_t)problem->ranks);
			if (bytes[r] + piece->cost.device_bytes <= problem->capacity) piece->rank = r;
		}
		if (piece->rank < 0) return lk_shard_no_room(problem, piece, err);
		bytes[piece->rank] += piece->cost.device_bytes;
	}
	return LK_OK;
}

lk_status lk_shard_naive(const lk_shard_problem *problem, lk_shard_plan *out, lk_error *err) {
	return lk_shard_in_turn(problem, place_by_number, out, err);
}

/* Runs of neighbouring tables, equally many on each rank; without room, the next rank's run begins.
 * The study names this sharder without defining it; this is our reading. */
lk_status lk_shard_naive_chunk(const lk_shard_problem *problem, lk_shard_plan *out, lk_error *err) {
	LK_TRY(lk_shard_whole(problem, &out->pieces, err));
	double bytes = 0;
	size_t chunk = (problem->count + (size_t)problem->ranks - 1) / (size_t)problem->ranks, held = 0;
	int rank = 0;
	for (size_t i = 0; i < out->pieces.count; i++, held++) {
		lk_shard_piece *piece = &out->pieces.at[i];
		if (held == chunk || bytes + piece->cost.device_bytes > problem->capacity) {
			rank++;
			held = 0;
			bytes = 0;
		}
		bytes += piece->cost.device_bytes;
		if (rank >= problem->ranks || bytes > problem->capacity)
			return lk_shard_no_room(problem, piece, err);
		piece->rank = rank;
	}
	return LK_OK;
}

/* Each table on a random rank with room; the same for the same seed. */
static lk_status place_at_random(const lk_shard_problem *problem, lk_shard_pieces *pieces,
                                 double *bytes, lk_error *err) {
	for (size_t i = 0; i < pieces->count; i++) {
		lk_shard_piece *piece = &pieces->at[i];
		int free = 0, seen = 0;
		for (int r = 0; r < problem->ranks; r++)
			free += bytes[r] + piece->cost.device_bytes <= problem->capacity;
		if (!free) return lk_shard_no_room(problem, piece, err);
		int wanted = (int)(lk_hash64(lk_hash64(problem->seed) + i) % (uint64_t)free);
		for (int r = 0; r < problem->ranks && piece->rank < 0; r++)
			if (bytes[r] + piece->cost.device_bytes <= problem->capacity && seen++ == wanted)
				piece->rank = r;
		bytes[piece->rank] += piece->cost.device_bytes;
	}
	return LK_OK;
}

lk_status lk_shard_random(const lk_shard_problem *problem, lk_shard_plan *out, lk_error *err) {
	return lk_shard_in_turn(problem, place_at_random, out, err);
}

/* The size of a table. */
static double size_cost(const lk_shard_table *table) {
	return table->rows * table->dim;
}

lk_status lk_shard_size_greedy(const lk_shard_problem *problem, lk_shard_plan *out, lk_error *err) {
	return place_greedily(problem, size_cost, out, err);
}

/* What a sample reads. */
static double lookup_cost(const lk_shard_table *table) {
	return table->dim * table->pooling;
}

lk_status lk_shard_lookup_greedy(const lk_shard_problem *problem, lk_shard_plan *out,
                                 lk_error *err) {
	return place_greedily(problem, lookup_cost, out, err);
}

/* What a sample reads, times the share of distinct rows among its lookups. The study names this
 * sharder without defining it; this is our reading of "norm". */
static double distinct_lookup_cost(const lk_shard_table *table) {
	return table->dim * table->pooling * lk_locality_rows(table->locality) /
	       fmax(lk_locality_lookups(table->locality), 1);
}

lk_status lk_shard_norm_lookup_greedy(const lk_shard_problem *problem, lk_shard_plan *out,
                                      lk_error *err) {
	return place_greedily(problem, distinct_lookup_cost, out, err);
}

/* What a sample reads, more if the table is large and thus seldom cached. */
static double size_lookup_cost(const lk_shard_table *table) {
	return table->dim * table->pooling * log10(fmax(table->rows, 1));
}

lk_status lk_shard_size_lookup_greedy(const lk_shard_problem *problem, lk_shard_plan *out,
                                      lk_error *err) {
	return place_greedily(problem, size_lookup_cost, out, err);
}
