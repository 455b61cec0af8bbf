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

#include "shard/shard.h"

enum { COLUMN_PRICES = 28, BYTE_PRICES = 14, PRICES = COLUMN_PRICES * BYTE_PRICES, BOXES = 3000, SIZES = 400, HALVINGS = 10 };

/* What a step is taken to be: lookups forward, backward and the exchange, or some of them not at all. */
struct counted {
	bool forward, backward;
};

/* Ways whose pieces are longer are left out. */
struct longest {
	double forward, backward;
};

struct box {
	double columns[2], bytes[2]; /* from, to */
	double least;
	int price;               /* by which it is the least */
	bool small;
};

struct bounder {
	const lk_shard_problem *p;
	const lk_shard_ways *tables; /* [count] */
	double exchange[SIZES + 1], reduction[SIZES + 1]; /* least from so many columns or bytes on */
	double most_columns, most_bytes, narrowest, smallest; /* of all tables; of one: columns, and bytes of a copy */
	double grain;            /* every piece's columns are a multiple */
	struct box *boxes;              /* [BOXES] */
	double saved[PRICES], column_price[PRICES], byte_price[PRICES]; /* P and its prices */
};

/* ---- exchange and reduction: the least of so much and of anything more ---- */

static double exchange_of(const lk_shard_problem *p, double columns) {
	return 2 * lk_shard_exchange_s(p, columns, columns, columns * p->ranks);
}

static double size_at(double most, int i) {
	return most * pow(2, 40.0 * (i - SIZES) / SIZES);
}

static void make_sizes(struct bounder *b) {
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

static double exchange_from(const struct bounder *b, double columns) {
	return columns > 0 ? fmin(exchange_of(b->p, columns), b->exchange[size_above(b->most_columns, columns)]) : 0;
}

static double reduction_from(const struct bounder *b, double bytes) {
	return bytes > 0 ? fmin(lk_shard_reduce_s(b->p, bytes), b->reduction[size_above(b->most_bytes, bytes)]) : 0;
}

/* ---- prices ---- */

/* P(m, g) for all prices; infinite where a table has no way left. */
static void find_saved(struct bounder *b, struct counted what, struct longest limit) {
	double least[PRICES];
	for (int i = 0; i < PRICES; i++) b->saved[i] = 0;
	for (uint32_t t = 0; t < b->p->count; t++) {
		for (int i = 0; i < PRICES; i++) least[i] = INFINITY;
		for (int k = 0; k < b->tables[t].count; k++) {
			const lk_shard_way *w = &b->tables[t].at[k];
			if (w->piece_forward > limit.forward || w->piece_backward > limit.backward) continue;
			double work = (what.forward ? w->forward : 0) + (what.backward ? w->backward : 0), columns = w->columns, bytes = w->bytes;
			for (int i = 0; i < PRICES; i++) {
				double price = work + b->column_price[i] * columns + b->byte_price[i] * bytes;
				least[i] = price < least[i] ? price : least[i];
			}
		}
		for (int i = 0; i < PRICES; i++) b->saved[i] += least[i];
	}
}

/* Prices about those that the network has, and nothing, and beyond everything. */
static double price_at(int i, int count, double usual) {
	return i == 0 ? 0 : i == count - 1 ? usual * 0x1p30 : usual * pow(2, (i - count / 2) * 0.5);
}

static void make_prices(struct bounder *b, struct counted what, struct longest limit) {
	double column = b->most_columns > 0 ? exchange_of(b->p, b->most_columns) / b->most_columns : 0;
	double byte = b->most_bytes > 0 ? lk_shard_reduce_s(b->p, b->most_bytes) / b->most_bytes : 0;
	for (int i = 0; i < COLUMN_PRICES; i++)
		for (int k = 0; k < BYTE_PRICES; k++) {
			int at = i * BYTE_PRICES + k;
			b->column_price[at] = price_at(i, COLUMN_PRICES, column), b->byte_price[at] = price_at(k, BYTE_PRICES, byte);
		}
	find_saved(b, what, limit);
}

/* ---- boxes ---- */

static void price_box(const struct bounder *b, struct box *x) {
	double columns = ceil(x->columns[0] / b->grain * (1 - 1e-12)) * b->grain; /* of one rank at least */
	double work = 0, from = exchange_from(b, columns) + reduction_from(b, x->bytes[0]);
	for (int i = 0; i < PRICES; i++) {
		double at_least = b->saved[i] - b->column_price[i] * x->columns[1] - b->byte_price[i] * x->bytes[1];
		if (at_least > work) work = at_least, x->price = i;
	}
	x->least = from + work;
	double width = exchange_of(b->p, x->columns[1]) + lk_shard_reduce_s(b->p, x->bytes[1]) - from;
	x->small = width < 2e-4 * x->least && x->columns[1] < x->columns[0] * 1.001 + 1e-9;
}

/* Halves a box along the side that is longer, in the box's own measure. */
static void halve(struct box *low, struct box *high) {
	double columns = low->columns[1] - low->columns[0], bytes = low->bytes[1] - low->bytes[0];
	bool along_bytes = bytes / fmax(low->bytes[1], 1e-9) > columns / fmax(low->columns[1], 1e-9);
	double *side = along_bytes ? low->bytes : low->columns, *other = along_bytes ? high->bytes : high->columns;
	*high = *low;
	side[1] = other[0] = side[0] > 0 ? sqrt(side[0] * side[1]) : side[1] / 16;
}

/* Without copies, with some, with copies alone. */
static size_t first_boxes(struct bounder *b) {
	const struct box firsts[] = {{{b->narrowest, b->most_columns}, {0, 0}, 0, 0, false},
	                      {{b->narrowest, b->most_columns}, {b->smallest, b->most_bytes}, 0, 0, false},
	                      {{0, 0}, {b->smallest, b->most_bytes}, 0, 0, false}};
	size_t from = b->most_columns > 0 ? 0 : 2, to = b->most_bytes > 0 ? 3 : 1, count = 0;
	for (size_t i = from; i < to; i++) b->boxes[count] = firsts[i], price_box(b, &b->boxes[count++]);
	return count;
}

/* The box whose lookups, exchange and reduction take least. */
static const struct box *least_box(struct bounder *b, struct counted what, struct longest limit) {
	make_prices(b, what, limit);
	for (size_t count = first_boxes(b), best;; count++) {
		best = 0;
		for (size_t i = 1; i < count; i++)
			if (b->boxes[i].least < b->boxes[best].least) best = i;
		if (b->boxes[best].small || count == BOXES) return &b->boxes[best];
		halve(&b->boxes[best], &b->boxes[count]);
		price_box(b, &b->boxes[best]), price_box(b, &b->boxes[count]);
	}
}

static double least_of(struct bounder *b, struct counted what, struct longest limit) {
	return least_box(b, what, limit)->least;
}

/* ---- the bound ---- */

static bool begin(struct bounder *b, const lk_shard_ways *ways, lk_arena *arena) {
	b->narrowest = b->smallest = INFINITY, b->grain = lk_shard_grain(b->p);
	b->tables = ways, b->boxes = LK_ARRAY(arena, struct box, BOXES);
	if (!b->boxes || !ways) return false;
	for (uint32_t t = 0; t < b->p->count; t++) {
		double columns = 0, bytes = 0;
		for (int i = 0; i < b->tables[t].count; i++) {
			const lk_shard_way *w = &b->tables[t].at[i];
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
static double without_long_pieces(struct bounder *b, lk_shard_prices *out) {
	const struct counted all = {true, true}, forward = {true, false}, backward = {false, true};
	const struct longest any = {INFINITY, INFINITY};
	double low = least_of(b, all, any), but_forward = least_of(b, backward, any), but_backward = least_of(b, forward, any);
	double high = least_of(b, all, (struct longest){low - but_forward, low - but_backward});
	for (int i = 0; i < HALVINGS && high > low * (1 + 1e-4); i++) {
		double middle = (low + fmin(high, 4 * low)) / 2;
		if (least_of(b, all, (struct longest){middle - but_forward, middle - but_backward}) > middle) low = middle;
		else high = middle;
	}
	const struct longest limit = {fmin(high, 4 * low) - but_forward, fmin(high, 4 * low) - but_backward};
	const struct box *x = least_box(b, all, limit);
	*out = (lk_shard_prices){.column = b->column_price[x->price], .byte = b->byte_price[x->price], .columns = x->columns[1],
	                         .bytes = x->bytes[1], .forward_s = limit.forward, .backward_s = limit.backward};
	return low;
}

void lk_shard_price(const lk_shard_problem *p, const lk_shard_ways *ways, lk_shard_prices *out) {
	lk_arena arena = LK_ARENA_INIT;
	struct bounder b = {.p = p};
	*out = (lk_shard_prices){.forward_s = INFINITY, .backward_s = INFINITY};
	double least = p->count && begin(&b, ways, &arena) ? without_long_pieces(&b, out) : 0; /* no memory: a bound nevertheless */
	out->bound_s = lk_shard_index_s(p) + p->dense_s + least + (least > 0 ? 2 : 0) * p->at.floor_s;
	lk_arena_free(&arena);
}

double lk_shard_bound(const lk_shard_problem *p) {
	lk_arena arena = LK_ARENA_INIT;
	lk_shard_prices prices;
	lk_shard_price(p, lk_shard_all_ways(&arena, p), &prices);
	lk_arena_free(&arena);
	return prices.bound_s;
}
