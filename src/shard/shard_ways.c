/* shard_ways.c: the ways to place each table: whole, copied, in 2, 4, ... and as many parts as
 * possible. */
#include <math.h>

#include "base/arena.h"
#include "shard/shard.h"

static lk_shard_way way_of(const lk_shard_problem *problem, uint32_t t, lk_shard_kind kind, int k) {
	lk_shard_piece piece = lk_shard_piece_of(problem, t, kind, 0, k, false);
	lk_shard_cost c = piece.cost;
	bool copy = kind == LK_SHARD_DATA;
	double ranks = copy ? 1 : problem->ranks,
		   columns = kind == LK_SHARD_ROW ? k * c.columns : problem->tables[t].dim;
	c.forward_s += piece.shared.forward_s[0];
	c.backward_s += piece.shared.backward_s[0]; /* its rank may touch little */
	return (lk_shard_way){.kind = kind,
	                      .parts = k,
	                      .forward = k * c.forward_s / ranks,
	                      .backward = k * c.backward_s / ranks,
	                      .columns = copy ? 0 : columns / ranks,
	                      .bytes = c.reduced_bytes,
	                      .piece_forward = copy ? 0 : c.forward_s,
	                      .piece_backward = copy ? 0 : c.backward_s};
}

static int ways_find_ways(const lk_shard_problem *problem, uint32_t t, lk_shard_way *out) {
	int count = 0;
	for (int kind = 0; kind < LK_SHARD_KINDS; kind++) {
		int most = lk_shard_most_parts(problem, t, (lk_shard_kind)kind);
		for (int k = 1; most && k; k = lk_shard_more_parts(k, most), count++)
			if (out) out[count] = way_of(problem, t, (lk_shard_kind)kind, k);
	}
	return count;
}

lk_shard_ways *lk_shard_all_ways(lk_arena *arena, const lk_shard_problem *problem) {
	lk_shard_ways *all = LK_ARRAY(arena, lk_shard_ways, problem->count);
	for (uint32_t t = 0; all && t < problem->count; t++) {
		lk_shard_ways *ways = &all[t];
		ways->count = ways_find_ways(problem, t, NULL);
		ways->at = LK_ARRAY(arena, lk_shard_way, ways->count);
		if (!ways->at) return NULL;
		ways_find_ways(problem, t, ways->at);
	}
	return all;
}

static double ways_common(double a, double b) {
	while (b > 0) {
		double rest = fmod(a, b);
		a = b;
		b = rest;
	}
	return a;
}

double lk_shard_grain(const lk_shard_problem *problem) {
	double grain = 0;
	for (uint32_t t = 0; t < problem->count; t++) {
		double dim = problem->tables[t].dim;
		int most = lk_shard_most_parts(problem, t, LK_SHARD_COLUMN);
		grain = ways_common(grain, dim);
		for (int k = 2; most && k; k = lk_shard_more_parts(k, most))
			for (int i = 0; i < k && grain > 1; i++)
				grain = ways_common(grain, floor(dim * (i + 1) / k) - floor(dim * i / k));
	}
	return fmax(grain, 1);
}

/* ---- how even columns can be ---- */

void lk_shard_widths_add(lk_shard_widths *widths, double columns, double pieces) {
	uint64_t units = (uint64_t)llround(columns / widths->grain);
	widths->columns += pieces * columns;
	for (int i = 0; i < LK_SHARD_WIDTHS; i++)
		if (units & ((2ull << i) - 1)) widths->odd[i] += pieces;
}

void lk_shard_widths_of_way(const lk_shard_problem *problem, uint32_t table,
                            const lk_shard_way *way, lk_shard_widths *widths) {
	double dim = problem->tables[table].dim, k = way->parts;
	if (way->kind == LK_SHARD_DATA) return;
	if (way->kind != LK_SHARD_COLUMN || fmod(dim, k) == 0) {
		lk_shard_widths_add(widths, way->kind == LK_SHARD_COLUMN ? dim / k : dim, k);
		return;
	}
	for (int i = 0; i < way->parts; i++)
		lk_shard_widths_add(widths, floor(dim * (i + 1) / k) - floor(dim * i / k), 1);
}

/* All columns that ranks of at most `units` can have. */
static double room_of(const lk_shard_widths *widths, double spare, int ranks, uint64_t units) {
	double room = 0;
	for (int i = 0; i < LK_SHARD_WIDTHS; i++)
		if (units >> i & 1) room += ldexp(fmin(widths->odd[i] / spare, ranks), i);
	return (room + ldexp((double)(units >> LK_SHARD_WIDTHS), LK_SHARD_WIDTHS) * ranks) *
	       widths->grain;
}

double lk_shard_even_columns(const lk_shard_widths *widths, double spare, int ranks) {
	uint64_t units = (uint64_t)ceil(widths->columns / ranks / widths->grain * (1 - 1e-12));
	while (room_of(widths, spare, ranks, units) < widths->columns * (1 - 1e-12)) units++;
	return (double)units * widths->grain;
}
