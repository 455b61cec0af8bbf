/* shard_balance.c: local search. A step waits for the rank that is slowest forward, the one that is slowest backward, and
 * the one that sends most columns; these may be three. What is made small is a smooth stand-in for their sum,
 *
 *     sum over ranks  F (f/F)^s + B (b/B)^s + 2 E (c/C)^s
 *
 * with F, B, C the means over ranks, E the exchange's time at the mean, and s = 2^steepness: ranks above a mean count much, those
 * below nothing; a larger s sees the slowest alone, and finds no way from a placement that is far from even. Pieces of the ranks that count most move to other ranks, or change places with pieces there, always to the
 * least sum; it ends when nothing improves.
 */
#include <math.h>

#include "plan/shard.h"

/* Of one rank at most so many moves are looked at: then pieces are left out by turns. */
enum { WORST = 8, TRIALS = 20000 };

typedef struct rank_list {
	LK_VEC(uint32_t) pieces;
} rank_list;

typedef struct balancer {
	const lk_shard_problem *p;
	lk_shard_pieces *pieces;
	lk_shard_cost *load;       /* [ranks] */
	rank_list *on;             /* [ranks] */
	double *value;             /* [ranks] their part of the sum */
	double forward, backward, columns, exchange; /* means */
	int steepness;
	size_t trials;
} balancer;

typedef struct move {
	double gain;
	size_t mine, theirs;       /* places in the lists; theirs SIZE_MAX: nothing comes back */
	int to;
} move;

static double steep(const balancer *b, double x) {
	for (int i = 0; i < b->steepness; i++) x *= x;
	return x;
}

static double value_of(const balancer *b, const lk_shard_cost *c) {
	double sum = b->forward > 0 ? b->forward * steep(b, c->forward_s / b->forward) : 0;
	if (b->backward > 0) sum += b->backward * steep(b, c->backward_s / b->backward);
	if (b->columns > 0) sum += 2 * b->exchange * steep(b, c->columns / b->columns);
	return sum;
}

static lk_shard_cost changed(const lk_shard_cost *load, const lk_shard_cost *in, const lk_shard_cost *out) {
	lk_shard_cost c = *load;
	static const lk_shard_cost none;
	if (!in) in = &none;
	if (!out) out = &none;
	c.forward_s += in->forward_s - out->forward_s, c.backward_s += in->backward_s - out->backward_s;
	c.columns += in->columns - out->columns;
	c.device_bytes += in->device_bytes - out->device_bytes, c.host_bytes += in->host_bytes - out->host_bytes;
	return c;
}

static bool has_room(const balancer *b, const lk_shard_cost *c) {
	return c->device_bytes <= b->p->capacity && c->host_bytes <= b->p->host_capacity;
}

static const lk_shard_cost *cost_at(const balancer *b, int rank, size_t place) {
	return &b->pieces->at[b->on[rank].pieces.at[place]].cost;
}

/* ---- start ---- */

static lk_status begin(balancer *b, lk_arena *arena, lk_error *err) {
	const lk_shard_problem *p = b->p;
	b->load = LK_ARRAY(arena, lk_shard_cost, p->ranks);
	b->on = LK_ARRAY(arena, rank_list, p->ranks);
	b->value = LK_ARRAY(arena, double, p->ranks);
	if (!b->load || !b->on || !b->value) return lk_oom(err);
	for (size_t i = 0; i < b->pieces->count; i++) {
		lk_shard_piece *piece = &b->pieces->at[i];
		if (piece->kind == LK_SHARD_DATA) {
			for (int r = 0; r < p->ranks; r++) b->load[r] = changed(&b->load[r], &piece->cost, NULL);
			continue;
		}
		b->load[piece->rank] = changed(&b->load[piece->rank], &piece->cost, NULL);
		if (!lk_push(&b->on[piece->rank].pieces)) return lk_oom(err);
		*lk_last(&b->on[piece->rank].pieces) = (uint32_t)i;
	}
	for (int r = 0; r < p->ranks; r++) {
		b->forward += b->load[r].forward_s / p->ranks, b->backward += b->load[r].backward_s / p->ranks;
		b->columns += b->load[r].columns / p->ranks;
	}
	b->exchange = lk_shard_exchange_s(p, b->columns, b->columns, b->columns * p->ranks);
	for (int r = 0; r < p->ranks; r++) b->value[r] = value_of(b, &b->load[r]);
	return LK_OK;
}

/* ---- moves ---- */

static void consider(balancer *b, int from, size_t mine, int to, size_t theirs, move *best) {
	b->trials++;
	const lk_shard_cost *out = cost_at(b, from, mine), *back = theirs == SIZE_MAX ? NULL : cost_at(b, to, theirs);
	lk_shard_cost there = changed(&b->load[to], out, back);
	if (!has_room(b, &there)) return;
	lk_shard_cost here = changed(&b->load[from], back, out);
	if (!has_room(b, &here)) return;
	double gain = b->value[from] + b->value[to] - value_of(b, &here) - value_of(b, &there);
	if (gain > best->gain) *best = (move){gain, mine, theirs, to};
}

static move best_of(balancer *b, int from, size_t turn) {
	move best = {.gain = 1e-9 * b->value[from], .to = -1};
	size_t mine = b->on[from].pieces.count;
	size_t step = (size_t)sqrt(1 + (double)mine * (double)(b->pieces->count + (size_t)b->p->ranks) / TRIALS);
	for (size_t i = turn % step; i < mine; i += step)
		for (int to = 0; to < b->p->ranks; to++) {
			if (to == from || b->value[to] >= b->value[from]) continue;
			consider(b, from, i, to, SIZE_MAX, &best);
			for (size_t k = turn / step % step; k < b->on[to].pieces.count; k += step) consider(b, from, i, to, k, &best);
		}
	return best;
}

static lk_status apply(balancer *b, int from, const move *m, lk_error *err) {
	rank_list *here = &b->on[from], *there = &b->on[m->to];
	uint32_t mine = here->pieces.at[m->mine];
	const lk_shard_cost *out = &b->pieces->at[mine].cost, *back = m->theirs == SIZE_MAX ? NULL : cost_at(b, m->to, m->theirs);
	b->load[from] = changed(&b->load[from], back, out), b->load[m->to] = changed(&b->load[m->to], out, back);
	b->pieces->at[mine].rank = m->to;
	if (back) {
		uint32_t theirs = there->pieces.at[m->theirs];
		b->pieces->at[theirs].rank = from;
		here->pieces.at[m->mine] = theirs, there->pieces.at[m->theirs] = mine;
	} else {
		if (!lk_push(&there->pieces)) return lk_oom(err);
		*lk_last(&there->pieces) = mine;
		here->pieces.at[m->mine] = here->pieces.at[--here->pieces.count];
	}
	b->value[from] = value_of(b, &b->load[from]), b->value[m->to] = value_of(b, &b->load[m->to]);
	return LK_OK;
}

/* The rank that counts most behind `above` in the order of (value, rank). */
static int next_worst(const balancer *b, int above) {
	int worst = -1;
	for (int r = 0; r < b->p->ranks; r++) {
		double ahead = above >= 0 ? b->value[r] - b->value[above] : -1;
		if (ahead > 0 || (ahead == 0 && r <= above)) continue;
		if (worst < 0 || b->value[r] > b->value[worst]) worst = r;
	}
	return worst;
}

static lk_status improve(balancer *b, size_t limit, lk_error *err) {
	for (size_t turn = 0; b->trials < limit; turn++) {
		int rank = -1;
		move best = {.to = -1};
		for (int i = 0; i < WORST && best.to < 0; i++) {
			rank = next_worst(b, rank);
			if (rank < 0) return LK_OK;
			best = best_of(b, rank, turn);
		}
		if (best.to < 0) return LK_OK;
		LK_TRY(apply(b, rank, &best, err));
	}
	return LK_OK;
}

lk_status lk_shard_balance(const lk_shard_problem *p, lk_shard_pieces *pieces, int steepness, size_t *budget, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	balancer b = {.p = p, .pieces = pieces, .steepness = steepness};
	lk_status status = begin(&b, &arena, err);
	if (status == LK_OK) status = improve(&b, *budget, err);
	*budget -= b.trials < *budget ? b.trials : *budget;
	for (int r = 0; b.on && r < p->ranks; r++) lk_vec_free(&b.on[r].pieces);
	lk_arena_free(&arena);
	return status;
}
