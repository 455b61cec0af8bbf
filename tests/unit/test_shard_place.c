/* test_shard_place.c: longest first with ordered ranks gives every piece the rank that comparing
 * all ranks gives it. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/stats.h"
#include "rounds.h"
#include "shard/shard.h"

static uint32_t roll(uint64_t *state, uint32_t below) {
	*state = lk_hash64(*state + 0x9e3779b97f4a7c15u);
	return (uint32_t)(*state >> 33) % below;
}

/* Few different sizes, so that ranks are often equal in a measure, or in all. */
static lk_shard_piece random_piece(uint64_t *state, int ranks) {
	lk_shard_piece piece = {.rank = -1};
	if (roll(state, 10) == 0) piece.rank = (int)roll(state, (uint32_t)ranks);
	if (roll(state, 20) == 0) piece.kind = LK_SHARD_DATA;
	piece.cost.forward_s = 0.1 * roll(state, 5);
	piece.cost.backward_s = roll(state, 2) ? 2 * piece.cost.forward_s : 0.3 * roll(state, 7);
	piece.cost.columns = 16 << roll(state, 3);
	piece.cost.device_bytes = 1 + roll(state, 40);
	return piece;
}

static double own_measure(const lk_shard_piece *piece, const double *mean) {
	double most = 0;
	for (int m = 0; m < LK_SHARD_MEASURES; m++)
		if (mean[m] > 0) most = fmax(most, lk_shard_measure(&piece->cost, m) / mean[m]);
	return most;
}

/* What the heuristic says, one rank after the other, for pieces of `order`, longest first. */
static void place_plainly(const lk_shard_problem *problem, const lk_shard_piece *pieces,
                          const size_t *order, size_t count, const double *mean,
                          lk_shard_cost *load, int *rank) {
	for (size_t i = 0; i < count; i++) {
		const lk_shard_cost *more = &pieces[order[i]].cost;
		double least = INFINITY;
		rank[order[i]] = -1;
		for (int r = 0; r < problem->ranks; r++) {
			double most = 0;
			if (load[r].device_bytes + more->device_bytes > problem->capacity) continue;
			for (int m = 0; m < LK_SHARD_MEASURES; m++)
				if (mean[m] > 0)
					most = fmax(most, (lk_shard_measure(&load[r], m) + lk_shard_measure(more, m)) /
					                      mean[m]);
			if (!(most < least)) continue;
			least = most;
			rank[order[i]] = r;
		}
		if (rank[order[i]] < 0) continue;
		lk_shard_cost *to = &load[rank[order[i]]];
		to->forward_s += more->forward_s;
		to->backward_s += more->backward_s;
		to->columns += more->columns;
		to->device_bytes += more->device_bytes;
	}
}

static void ordered_ranks_change_no_placement(void **state) {
	(void)state;
	enum { PIECES = 200, RANKS = 40 };
	uint64_t dice = 8;
	size_t placed_pieces = 0, unplaced = 0;
	for (int round = 0; round < rounds(400, 20000); round++) {
		lk_shard_problem problem = {.ranks = 1 + (int)roll(&dice, RANKS),
		                            .capacity = 100 + roll(&dice, 2000)};
		lk_shard_piece at[PIECES];
		lk_shard_cost load[RANKS] = {0};
		size_t count = 1 + roll(&dice, PIECES), order[PIECES], open = 0;
		int rank[PIECES];
		double mean[LK_SHARD_MEASURES] = {0};
		for (size_t i = 0; i < count; i++) {
			at[i] = random_piece(&dice, problem.ranks);
			lk_shard_cost *cost = &at[i].cost;
			bool copied = at[i].kind == LK_SHARD_DATA;
			for (int r = 0; r < problem.ranks; r++) {
				if (!copied && at[i].rank != r) continue;
				load[r].forward_s += cost->forward_s;
				load[r].backward_s += cost->backward_s;
				load[r].columns += cost->columns;
				load[r].device_bytes += cost->device_bytes;
			}
			for (int m = 0; m < LK_SHARD_MEASURES; m++)
				mean[m] += lk_shard_measure(cost, m) / problem.ranks;
		}
		for (size_t i = 0; i < count; i++) {
			if (at[i].kind == LK_SHARD_DATA || at[i].rank >= 0) continue;
			size_t k = open++;
			for (; k > 0 && own_measure(&at[order[k - 1]], mean) < own_measure(&at[i], mean); k--)
				order[k] = order[k - 1];
			order[k] = i;
		}
		place_plainly(&problem, at, order, open, mean, load, rank);
		lk_shard_pieces pieces = {.at = at, .count = count, .capacity = PIECES};
		bool placed;
		assert_int_equal(lk_shard_longest_first(&problem, &pieces, &placed, NULL), LK_OK);
		for (size_t i = 0; i < open; i++) {
			assert_int_equal(at[order[i]].rank, rank[order[i]]);
			placed_pieces += rank[order[i]] >= 0;
			unplaced += rank[order[i]] < 0;
		}
	}
	assert_true(placed_pieces > unplaced && unplaced > 0);
}

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(ordered_ranks_change_no_placement)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
