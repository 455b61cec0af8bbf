/* shard_bound.c: a time that no placement of the allowed kinds beats.
 *
 * The slowest rank has at least the mean, so with W the lookups of all pieces over the ranks, C the columns that a rank
 * sends on average and G the bytes of copies' gradients,
 *
 *     step >= indices + dense + W + 2 exchange(C) + reduction(G)
 *
 * Tables are tied together by C and G alone. For any prices m of a column and g of a byte
 *
 *     W >= P(m, g) - m C - g G,   P = sum over tables of min over ways to place it of (w + m c + g b)
 *
 * holds for every placement (the Lagrangian dual). The plane of C and G is divided in boxes; in one, exchange and reduction
 * are at least those of its lower corner and W at least what the best of some hundred prices gives at its upper corner. The
 * box whose sum is least is halved until it is small: its sum is the bound.
 *
 * Pieces are some columns wide, so the rank that sends most has a multiple of their common divisor.
 *
 * A piece is on some rank, so what is longer than a step allows beside the least of everything else is no way to place
 * a table if the step is to be S or less: the bound is the least S that its own ways do not exceed.
 *
 * Ways: splits into 1, 2, 4, ... parts and as many as there may be, as the search uses them.
 */
#include <math.h>
#include <string.h>

#include "plan/shard.h"

/* A way to place a table: over all ranks, divided by their number; and its longest piece. */
typedef struct way {
	double forward, backward, columns, bytes;
	double piece_forward, piece_backward;
} way;

typedef struct table_ways {
	way *at;
	int count;
} table_ways;

enum { COLUMN_PRICES = 28, BYTE_PRICES = 14, PRICES = COLUMN_PRICES * BYTE_PRICES, BOXES = 3000, SIZES = 400, HALVINGS = 10 };

/* What a step is taken to be: lookups forward, backward and the exchange, or some of them not at all. */
typedef struct counted {
	bool forward, backward;
} counted;

/* Ways whose pieces are longer are left out. */
typedef struct longest {
	double forward, backward;
} longest;

typedef struct box {
	double columns[2], bytes[2]; /* from, to */
	double least;
	bool small;
} box;

typedef struct bounder {
	const lk_shard_problem *p;
	table_ways *tables;      /* [count] */
	double exchange[SIZES + 1], reduction[SIZES + 1]; /* least from so many columns or bytes on */
	double most_columns, most_bytes, narrowest, smallest; /* of all tables; of one: columns, and bytes of a copy */
	double grain;            /* every piece's columns are a multiple */
	box *boxes;              /* [BOXES] */
	double saved[PRICES], column_price[PRICES], byte_price[PRICES]; /* P and its prices */
} bounder;

/* ---- ways ---- */

static int all_ways(const lk_shard_problem *p, uint32_t t, way *out) {
	int count = 0;
	for (int kind = 0; kind < LK_SHARD_KINDS; kind++) {
		int most = lk_shard_most_parts(p, t, (lk_shard_kind)kind);
		for (int k = 1; most && k; k = lk_shard_more_parts(k, most)) {
			lk_shard_piece piece = lk_shard_piece_of(p, t, (lk_shard_kind)kind, 0, k, false);
			lk_shard_cost c = piece.cost;
			c.forward_s += piece.shared.half_forward_s, c.backward_s += piece.shared.half_backward_s; /* its rank may touch little */
			bool copy = kind == LK_SHARD_DATA;
			double ranks = copy ? 1 : p->ranks, columns = kind == LK_SHARD_ROW ? k * c.columns : p->tables[t].dim;
			if (out)
				out[count] = (way){k * c.forward_s / ranks, k * c.backward_s / ranks, copy ? 0 : columns / ranks, c.reduced_bytes,
				                   copy ? 0 : c.forward_s, copy ? 0 : c.backward_s};
			count++;
		}
	}
	return count;
}

static bool make_ways(bounder *b, lk_arena *arena) {
	b->tables = LK_ARRAY(arena, table_ways, b->p->count);
	for (uint32_t t = 0; b->tables && t < b->p->count; t++) {
		table_ways *w = &b->tables[t];
		w->count = all_ways(b->p, t, NULL), w->at = LK_ARRAY(arena, way, w->count);
		if (!w->at) return false;
		all_ways(b->p, t, w->at);
	}
	return b->tables != NULL;
}

static double common(double a, double b) {
	while (b > 0) {
		double rest = fmod(a, b);
		a = b, b = rest;
	}
	return a;
}

/* Greatest common divisor of the widths of all pieces. */
static double grain_of(const lk_shard_problem *p) {
	double grain = 0;
	for (uint32_t t = 0; t < p->count; t++) {
		double dim = p->tables[t].dim;
		int most = lk_shard_most_parts(p, t, LK_SHARD_COLUMN);
		grain = common(grain, dim);
		for (int k = 2; most && k; k = lk_shard_more_parts(k, most))
			for (int i = 0; i < k && grain > 1; i++) grain = common(grain, floor(dim * (i + 1) / k) - floor(dim * i / k));
	}
	return fmax(grain, 1);
}

/* ---- exchange and reduction: the least of so much and of anything more ---- */

static double exchange_of(const lk_shard_problem *p, double columns) {
	return 2 * lk_shard_exchange_s(p, columns, columns, columns * p->ranks);
}

static double size_at(double most, int i) {
	return most * pow(2, 40.0 * (i - SIZES) / SIZES);
}

static void make_sizes(bounder *b) {
	for (int i = SIZES; i >= 0; i--) {
		double next[2] = {i < SIZES ? b->exchange[i + 1] : INFINITY, i < SIZES ? b->reduction[i + 1] : INFINITY};
		b->exchange[i] = fmin(exchange_of(b->p, size_at(b->most_columns, i)), next[0]);
		b->reduction[i] = fmin(lk_shard_reduce_s(b->p, size_at(b->most_bytes, i)), next[1]);
	}
}

static int size_above(double most, double size) {
	int i = (int)ceil(SIZES + log2(size / most) * SIZES / 40);
	return i < 0 ? 0 : i < SIZES ? i : SIZES;
}

static double exchange_from(const bounder *b, double columns) {
	return columns > 0 ? fmin(exchange_of(b->p, columns), b->exchange[size_above(b->most_columns, columns)]) : 0;
}

static double reduction_from(const bounder *b, double bytes) {
	return bytes > 0 ? fmin(lk_shard_reduce_s(b->p, bytes), b->reduction[size_above(b->most_bytes, bytes)]) : 0;
}

/* ---- prices ---- */

/* P(m, g); infinite where a table has no way left. */
static double saved_at(const bounder *b, counted what, longest limit, double m, double g) {
	double sum = 0;
	for (uint32_t t = 0; t < b->p->count; t++) {
		double least = INFINITY;
		for (int i = 0; i < b->tables[t].count; i++) {
			const way *w = &b->tables[t].at[i];
			if (w->piece_forward > limit.forward || w->piece_backward > limit.backward) continue;
			double price = (what.forward ? w->forward : 0) + (what.backward ? w->backward : 0) + m * w->columns + g * w->bytes;
			least = price < least ? price : least;
		}
		sum += least;
	}
	return sum;
}

/* Prices about those that the network has, and nothing, and beyond everything. */
static double price_at(int i, int count, double usual) {
	return i == 0 ? 0 : i == count - 1 ? usual * 0x1p30 : usual * pow(2, (i - count / 2) * 0.5);
}

static void make_prices(bounder *b, counted what, longest limit) {
	double column = b->most_columns > 0 ? exchange_of(b->p, b->most_columns) / b->most_columns : 0;
	double byte = b->most_bytes > 0 ? lk_shard_reduce_s(b->p, b->most_bytes) / b->most_bytes : 0;
	for (int i = 0; i < COLUMN_PRICES; i++)
		for (int k = 0; k < BYTE_PRICES; k++) {
			int at = i * BYTE_PRICES + k;
			b->column_price[at] = price_at(i, COLUMN_PRICES, column), b->byte_price[at] = price_at(k, BYTE_PRICES, byte);
			b->saved[at] = saved_at(b, what, limit, b->column_price[at], b->byte_price[at]);
		}
}

/* ---- boxes ---- */

static void price_box(const bounder *b, box *x) {
	double columns = ceil(x->columns[0] / b->grain * (1 - 1e-12)) * b->grain; /* of one rank at least */
	double work = 0, from = exchange_from(b, columns) + reduction_from(b, x->bytes[0]);
	for (int i = 0; i < PRICES; i++)
		work = fmax(work, b->saved[i] - b->column_price[i] * x->columns[1] - b->byte_price[i] * x->bytes[1]);
	x->least = from + work;
	double width = exchange_of(b->p, x->columns[1]) + lk_shard_reduce_s(b->p, x->bytes[1]) - from;
	x->small = width < 2e-4 * x->least && x->columns[1] < x->columns[0] * 1.001 + 1e-9;
}

/* Halves a box along the side that is longer, in the box's own measure. */
static void halve(box *low, box *high) {
	double columns = low->columns[1] - low->columns[0], bytes = low->bytes[1] - low->bytes[0];
	bool along_bytes = bytes / fmax(low->bytes[1], 1e-9) > columns / fmax(low->columns[1], 1e-9);
	double *side = along_bytes ? low->bytes : low->columns, *other = along_bytes ? high->bytes : high->columns;
	*high = *low;
	side[1] = other[0] = side[0] > 0 ? sqrt(side[0] * side[1]) : side[1] / 16;
}

/* Without copies, with some, with copies alone. */
static size_t first_boxes(bounder *b) {
	const box firsts[] = {{{b->narrowest, b->most_columns}, {0, 0}, 0, false},
	                      {{b->narrowest, b->most_columns}, {b->smallest, b->most_bytes}, 0, false},
	                      {{0, 0}, {b->smallest, b->most_bytes}, 0, false}};
	size_t from = b->most_columns > 0 ? 0 : 2, to = b->most_bytes > 0 ? 3 : 1, count = 0;
	for (size_t i = from; i < to; i++) b->boxes[count] = firsts[i], price_box(b, &b->boxes[count++]);
	return count;
}

/* The least that lookups, exchange and reduction take. */
static double least_of(bounder *b, counted what, longest limit) {
	make_prices(b, what, limit);
	for (size_t count = first_boxes(b), best;; count++) {
		best = 0;
		for (size_t i = 1; i < count; i++)
			if (b->boxes[i].least < b->boxes[best].least) best = i;
		if (b->boxes[best].small || count == BOXES) return b->boxes[best].least;
		halve(&b->boxes[best], &b->boxes[count]);
		price_box(b, &b->boxes[best]), price_box(b, &b->boxes[count]);
	}
}

/* ---- the bound ---- */

static bool begin(bounder *b, lk_arena *arena) {
	b->narrowest = b->smallest = INFINITY, b->grain = grain_of(b->p);
	b->boxes = LK_ARRAY(arena, box, BOXES);
	if (!b->boxes || !make_ways(b, arena)) return false;
	for (uint32_t t = 0; t < b->p->count; t++) {
		double columns = 0, bytes = 0;
		for (int i = 0; i < b->tables[t].count; i++) {
			const way *w = &b->tables[t].at[i];
			columns = fmax(columns, w->columns), bytes = fmax(bytes, w->bytes);
			if (w->columns > 0) b->narrowest = fmin(b->narrowest, w->columns);
		}
		b->most_columns += columns, b->most_bytes += bytes;
		if (bytes > 0) b->smallest = fmin(b->smallest, bytes);
	}
	make_sizes(b);
	return true;
}

/* The least S that is not beaten by ways whose pieces leave room in S for the least of the other direction and exchange. */
static double without_long_pieces(bounder *b) {
	const counted all = {true, true}, forward = {true, false}, backward = {false, true};
	const longest any = {INFINITY, INFINITY};
	double low = least_of(b, all, any), but_forward = least_of(b, backward, any), but_backward = least_of(b, forward, any);
	double high = least_of(b, all, (longest){low - but_forward, low - but_backward});
	for (int i = 0; i < HALVINGS && high > low * (1 + 1e-4); i++) {
		double middle = (low + fmin(high, 4 * low)) / 2;
		if (least_of(b, all, (longest){middle - but_forward, middle - but_backward}) > middle) low = middle;
		else high = middle;
	}
	return low;
}

double lk_shard_bound(const lk_shard_problem *p) {
	lk_arena arena = LK_ARENA_INIT;
	bounder b = {.p = p};
	double least = p->count && begin(&b, &arena) ? without_long_pieces(&b) : 0; /* no memory: a bound nevertheless */
	lk_arena_free(&arena);
	return lk_shard_index_s(p) + p->dense_s + least + (least > 0 ? 2 : 0) * p->at.floor_s;
}
