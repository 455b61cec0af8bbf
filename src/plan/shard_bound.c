/* shard_bound.c: a time that no placement of the allowed kinds beats.
 *
 * The slowest rank has at least the mean. For each table the kind counts whose lookups take least over all ranks, forward
 * and backward by themselves (splits into 1, 2, 4, ... parts and as many as there may be: those that the search uses, and a
 * cache may hold more of smaller parts); a table that may not be split stands whole on one rank. Sums: what is not copied
 * is exchanged, D columns at least; which tables are copied is left open, those with most columns for their gradient's
 * bytes first, and one may be copied in part.
 */
#include <math.h>
#include <stdlib.h>

#include "plan/shard.h"

typedef struct choice {
	double columns, bytes; /* exchanged, or else reduced */
} choice;

static int by_bytes_of_column(const void *a, const void *b) {
	const choice *x = a, *y = b;
	double l = x->bytes * y->columns, r = y->bytes * x->columns;
	return l < r ? -1 : l > r;
}

/* The cheapest way to bring sums and gradients over the network. */
static double network_bound(const lk_shard_problem *p, choice *may, size_t count, double fixed_columns) {
	double n = p->ranks, columns = fixed_columns, bytes = 0, best = INFINITY;
	for (size_t i = 0; i < count; i++) columns += may[i].columns;
	qsort(may, count, sizeof *may, by_bytes_of_column);
	for (size_t i = 0; i <= count; i++) {
		/* from `bytes` on, and down to the columns that are left when the next table is copied too */
		double left = i < count ? columns - may[i].columns : columns;
		double seconds = 2 * lk_shard_exchange_s(p, left / n, left / n, left) + lk_shard_reduce_s(p, bytes);
		best = fmin(best, seconds);
		if (i < count) columns = left, bytes += may[i].bytes;
	}
	return best;
}

typedef struct sums {
	double forward, backward, most_forward, most_backward, fixed_columns;
	size_t copies;
} sums;

/* Least over the parts, all together. */
static void least_of(const lk_shard_problem *p, uint32_t t, lk_shard_kind kind, double *forward, double *backward) {
	int most = lk_shard_most_parts(p, t, kind);
	for (int k = 1; most && k; k = lk_shard_more_parts(k, most)) {
		lk_shard_cost first = lk_shard_piece_of(p, t, kind, 0, k, false).cost;
		double all = kind == LK_SHARD_DATA ? p->ranks : k;
		*forward = fmin(*forward, all * first.forward_s), *backward = fmin(*backward, all * first.backward_s);
	}
}

static void add_table(const lk_shard_problem *p, uint32_t t, sums *s, choice *may) {
	const unsigned allowed = p->tables[t].allowed;
	lk_shard_cost copy = lk_shard_piece_of(p, t, LK_SHARD_DATA, 0, 1, false).cost;
	double forward = INFINITY, backward = INFINITY, columns = p->tables[t].dim;
	for (int kind = 0; kind < LK_SHARD_KINDS; kind++) least_of(p, t, (lk_shard_kind)kind, &forward, &backward);
	if ((allowed & 1u << LK_SHARD_DATA) && copy.device_bytes <= p->capacity)
		may[s->copies++] = (choice){columns, copy.reduced_bytes};
	else
		s->fixed_columns += columns;
	s->forward += forward, s->backward += backward;
	if (allowed != 1u << LK_SHARD_TABLE) return;
	s->most_forward = fmax(s->most_forward, forward), s->most_backward = fmax(s->most_backward, backward);
}

double lk_shard_bound(const lk_shard_problem *p) {
	sums s = {0};
	choice *may = calloc(p->count ? p->count : 1, sizeof *may);
	for (uint32_t t = 0; may && t < p->count; t++) add_table(p, t, &s, may);
	double forward = fmax(s.forward / p->ranks, s.most_forward), backward = fmax(s.backward / p->ranks, s.most_backward);
	double network = may ? network_bound(p, may, s.copies, s.fixed_columns) : 0;
	free(may);
	return lk_shard_index_s(p) + forward + backward + p->dense_s + network + (forward > 0 ? 2 : 0) * p->at.floor_s;
}
