/* shard_bound.c: a time that no placement of the allowed kinds beats.
 *
 * The slowest rank has at least the mean. With f, b the lookups of a table's pieces over all n ranks and c their columns,
 *
 *     step >= indices + dense + sum over tables of min over ways to place it of (f + b) / n + 2 (exchange of c / n)
 *                                                                       or, of a copy, f + b of one rank + its reduction
 *
 * where the exchange is taken as a line below it: parallel to the chord from the fewest columns that can be left to exchange
 * to many times what whole tables have, and below all of 65 sizes between; the reduction as the least time for a byte. Ways: splits into 1, 2, 4, ... parts and as many as there may
 * be, as the search uses them. A table that may only stand whole takes its own time on its rank.
 */
#include <math.h>

#include "plan/shard.h"

typedef struct lines {
	double start, column;    /* of both exchanges: seconds, and for each column of a rank */
	double byte;             /* of the reduction */
} lines;

static bool may_copy(const lk_shard_problem *p, uint32_t t) {
	return p->tables[t].allowed & 1u << LK_SHARD_DATA;
}

enum { SAMPLES = 64 };

/* Both ways. */
static double exchange(const lk_shard_problem *p, double columns) {
	return 2 * lk_shard_exchange_s(p, columns, columns, columns * p->ranks);
}

static lines lines_of(const lk_shard_problem *p) {
	const double many = 8; /* more columns than that are exchanged in more time than whole tables by far */
	double all = 0, least = 0, narrowest = INFINITY, bytes = 0, n = p->ranks;
	for (uint32_t t = 0; t < p->count; t++) {
		double dim = p->tables[t].dim;
		all += dim, narrowest = fmin(narrowest, dim);
		if (may_copy(p, t)) bytes += lk_shard_piece_of(p, t, LK_SHARD_DATA, 0, 1, false).cost.reduced_bytes;
		else least += dim;
	}
	double from = fmax(least, narrowest) / n, to = many * all / n;
	double column = to > from ? (exchange(p, to) - exchange(p, from)) / (to - from) : 0, start = INFINITY, byte = INFINITY;
	for (int i = 0; i <= SAMPLES; i++) {
		double x = from * pow(to / from, (double)i / SAMPLES), b = bytes * pow(2, -i / 2.0);
		start = fmin(start, exchange(p, x) - column * x);
		if (b > 0) byte = fmin(byte, lk_shard_reduce_s(p, b) / b);
	}
	return (lines){fmax(start, 0), column, bytes > 0 ? byte : 0};
}

/* The least that a table adds to the mean rank; *whole: its time where it may not be split. */
static double table_bound(const lk_shard_problem *p, uint32_t t, const lines *l, double *whole) {
	double best = INFINITY;
	for (int kind = 0; kind < LK_SHARD_KINDS; kind++) {
		int most = lk_shard_most_parts(p, t, (lk_shard_kind)kind);
		for (int k = 1; most && k; k = lk_shard_more_parts(k, most)) {
			lk_shard_cost c = lk_shard_piece_of(p, t, (lk_shard_kind)kind, 0, k, false).cost;
			double columns = kind == LK_SHARD_ROW ? k * c.columns : p->tables[t].dim;
			double work = c.forward_s + c.backward_s;
			if (kind == LK_SHARD_DATA) best = fmin(best, work + l->byte * c.reduced_bytes);
			else best = fmin(best, (k * work + l->column * columns) / p->ranks);
			if (kind == LK_SHARD_TABLE) *whole = work;
		}
	}
	return best;
}

double lk_shard_bound(const lk_shard_problem *p) {
	lines l = lines_of(p);
	double sum = 0, longest = 0, copies = 0;
	bool all_copied = true;
	for (uint32_t t = 0; t < p->count; t++) {
		double whole = 0;
		sum += table_bound(p, t, &l, &whole);
		if (p->tables[t].allowed == 1u << LK_SHARD_TABLE) longest = fmax(longest, whole);
		all_copied &= may_copy(p, t);
		if (!all_copied) continue;
		lk_shard_cost copy = lk_shard_piece_of(p, t, LK_SHARD_DATA, 0, 1, false).cost;
		copies += copy.forward_s + copy.backward_s + l.byte * copy.reduced_bytes;
	}
	double ranks = fmax(l.start + sum, longest + l.start);
	if (all_copied) ranks = fmin(ranks, copies);
	return lk_shard_index_s(p) + p->dense_s + ranks + (sum > 0 ? 2 : 0) * p->at.floor_s;
}
