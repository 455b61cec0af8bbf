/* shard_bound.c: a lower bound of the step over all placements of the allowed kinds.
 *
 * The slowest rank has at least the mean, so with W the lookups of all pieces over the ranks, C the
 * columns that a rank sends on average and G the bytes of copies' gradients,
 *
 *     step >= indices + dense + W + 2 exchange(C) + reduction(G)
 *
 * Only C and G couple the tables. For any prices m of a column and g of a byte
 *
 *     W >= P(m, g) - m C - g G,   P = sum over tables of min over ways to place it of (w + m c + g
 *                                 b)
 *
 * holds for every placement (the Lagrangian dual). The plane of C and G is divided into boxes; in
 * one, exchange and reduction are at least those of its lower corner and W at least the best value
 * that some hundred prices give at its upper corner. The box with the least sum is halved until it
 * is small: its sum is the bound.
 *
 * Pieces are several columns wide, so the rank that sends most has a multiple of their common
 * divisor.
 *
 * A piece is on some rank, so if it is longer than a step S leaves besides the least of everything
 * else, its way to place a table cannot give S or less: the bound is the least S that its own ways
 * do not exceed.
 *
 * Ways: splits into 1, 2, 4, ... parts and as many as possible, as in the search. */
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "shard/shard.h"

enum {
	COLUMN_PRICES = 28,
	BYTE_PRICES = 14,
	PRICES = COLUMN_PRICES * BYTE_PRICES,
	BOXES = 3000,
	SIZES = 400,
	HALVINGS = 10
};

/* Which parts count as the step: lookups forward, backward and the exchange, or some of them. */
struct counted {
	bool forward, backward;
};

/* Ways with longer pieces are excluded. */
struct longest {
	double forward, backward;
};

struct box {
	double columns[2], bytes[2]; /* from, to */
	double least;
	int price; /* the one that gives its sum */
	bool small;
};

struct bounder {
	const lk_shard_problem *p;
	const lk_shard_ways *tables;                      /* [count] */
	double exchange[SIZES + 1], reduction[SIZES + 1]; /* least from this many columns or bytes on */
	double most_columns, most_bytes, narrowest,
		smallest;      /* over all tables; of one table: columns, and bytes of a copy */
	double grain;      /* every piece's columns are a multiple */
	struct box *boxes; /* [BOXES] */
	double saved[PRICES], column_price[PRICES], byte_price[PRICES]; /* P and its prices */
};

/* ---- exchange and reduction: the least for an amount or anything more ---- */

static double exchange_of(const lk_shard_problem *problem, double columns) {
	return 2 * lk_shard_exchange_s(problem, columns, columns, columns * problem->ranks);
}

static double size_at(double most, int i) {
	return most * pow(2, 40.0 * (i - SIZES) / SIZES);
}

static void make_sizes(struct bounder *bounder) {
	double exchange = INFINITY, reduction = INFINITY; /* of all larger sizes */
	for (int i = SIZES; i >= 0; i--) {
		exchange = fmin(exchange_of(bounder->p, size_at(bounder->most_columns, i)), exchange);
		reduction = fmin(lk_shard_reduce_s(bounder->p, size_at(bounder->most_bytes, i)), reduction);
		bounder->exchange[i] = exchange;
		bounder->reduction[i] = reduction;
	}
}

static int size_above(double most, double size) {
	int i = (int)ceil(SIZES + log2(size / most) * SIZES / 40);
	if (i < 0) return 0;
	if (i < SIZES) return i;
	return SIZES;
}

static double exchange_from(const struct bounder *bounder, double columns) {
	return columns > 0 ? fmin(exchange_of(bounder->p, columns),
	                          bounder->exchange[size_above(bounder->most_columns, columns)])
	                   : 0;
}

static double reduction_from(const struct bounder *bounder, double bytes) {
	return bytes > 0 ? fmin(lk_shard_reduce_s(bounder->p, bytes),
	                        bounder->reduction[size_above(bounder->most_bytes, bytes)])
	                 : 0;
}

/* ---- prices ---- */

/* P(m, g) for all prices; infinite if a table has no way left. */
static void find_saved(struct bounder *bounder, struct counted what, struct longest limit) {
	double least[PRICES];
	for (int i = 0; i < PRICES; i++) bounder->saved[i] = 0;
	for (uint32_t t = 0; t < bounder->p->count; t++) {
		for (int i = 0; i < PRICES; i++) least[i] = INFINITY;
		for (int k = 0; k < bounder->tables[t].count; k++) {
			const lk_shard_way *way = &bounder->tables[t].at[k];
			if (way->piece_forward > limit.forward || way->piece_backward > limit.backward)
				continue;
			double work = 0, columns = way->columns, bytes = way->bytes;
			if (what.forward) work += way->forward;
			if (what.backward) work += way->backward;
			for (int i = 0; i < PRICES; i++) {
				double price =
					work + bounder->column_price[i] * columns + bounder->byte_price[i] * bytes;
				least[i] = price < least[i] ? price : least[i];
			}
		}
		for (int i = 0; i < PRICES; i++) bounder->saved[i] += least[i];
	}
}

/* Prices around the network's, and 0, and very high. */
static double price_at(int i, int count, double usual) {
	if (i == 0) return 0;
	if (i == count - 1) return usual * 0x1p30;
	return usual * pow(2, (i - count / 2) * 0.5);
}

static void make_prices(struct bounder *bounder, struct counted what, struct longest limit) {
	double column = bounder->most_columns > 0
	                    ? exchange_of(bounder->p, bounder->most_columns) / bounder->most_columns
	                    : 0;
	double byte = bounder->most_bytes > 0
	                  ? lk_shard_reduce_s(bounder->p, bounder->most_bytes) / bounder->most_bytes
	                  : 0;
	for (int i = 0; i < COLUMN_PRICES; i++)
		for (int k = 0; k < BYTE_PRICES; k++) {
			int at = i * BYTE_PRICES + k;
			bounder->column_price[at] = price_at(i, COLUMN_PRICES, column);
			bounder->byte_price[at] = price_at(k, BYTE_PRICES, byte);
		}
	find_saved(bounder, what, limit);
}

/* ---- boxes ---- */

static void price_box(const struct bounder *bounder, struct box *box) {
	double columns = ceil(box->columns[0] / bounder->grain * (1 - 1e-12)) *
	                 bounder->grain; /* of at least one rank */
	double work = 0,
		   from = exchange_from(bounder, columns) + reduction_from(bounder, box->bytes[0]);
	for (int i = 0; i < PRICES; i++) {
		double at_least = bounder->saved[i] - bounder->column_price[i] * box->columns[1] -
		                  bounder->byte_price[i] * box->bytes[1];
		if (at_least > work) {
			work = at_least;
			box->price = i;
		}
	}
	box->least = from + work;
	double width = exchange_of(bounder->p, box->columns[1]) +
	               lk_shard_reduce_s(bounder->p, box->bytes[1]) - from;
	box->small = width < 2e-4 * box->least && box->columns[1] < box->columns[0] * 1.001 + 1e-9;
}

/* Halve a box along its longer side, relative to the box's own scale. */
static void halve(struct box *low, struct box *high) {
	double columns = low->columns[1] - low->columns[0], bytes = low->bytes[1] - low->bytes[0];
	bool along_bytes = bytes / fmax(low->bytes[1], 1e-9) > columns / fmax(low->columns[1], 1e-9);
	double *side = along_bytes ? low->bytes : low->columns;
	double *other = along_bytes ? high->bytes : high->columns;
	*high = *low;
	side[1] = other[0] = side[0] > 0 ? sqrt(side[0] * side[1]) : side[1] / 16;
}

/* Without copies, with some, with copies only. */
static size_t first_boxes(struct bounder *bounder) {
	const struct box firsts[] = {{{bounder->narrowest, bounder->most_columns}, {0, 0}, 0, 0, false},
	                             {{bounder->narrowest, bounder->most_columns},
	                              {bounder->smallest, bounder->most_bytes},
	                              0,
	                              0,
	                              false},
	                             {{0, 0}, {bounder->smallest, bounder->most_bytes}, 0, 0, false}};
	size_t from = bounder->most_columns > 0 ? 0 : 2;
	size_t to = bounder->most_bytes > 0 ? 3 : 1, count = 0;
	for (size_t i = from; i < to; i++) {
		bounder->boxes[count] = firsts[i];
		price_box(bounder, &bounder->boxes[count++]);
	}
	return count;
}

/* The box with the least lookups, exchange and reduction. */
static const struct box *least_box(struct bounder *bounder, struct counted what,
                                   struct longest limit) {
	make_prices(bounder, what, limit);
	for (size_t count = first_boxes(bounder), best;; count++) {
		best = 0;
		for (size_t i = 1; i < count; i++)
			if (bounder->boxes[i].least < bounder->boxes[best].least) best = i;
		if (bounder->boxes[best].small || count == BOXES) return &bounder->boxes[best];
		halve(&bounder->boxes[best], &bounder->boxes[count]);
		price_box(bounder, &bounder->boxes[best]);
		price_box(bounder, &bounder->boxes[count]);
	}
}

static double bound_least_of(struct bounder *bounder, struct counted what, struct longest limit) {
	return least_box(bounder, what, limit)->least;
}

/* ---- the bound ---- */

static bool shard_bound_begin(struct bounder *bounder, const lk_shard_ways *ways, lk_arena *arena) {
	bounder->narrowest = bounder->smallest = INFINITY;
	bounder->grain = lk_shard_grain(bounder->p);
	bounder->tables = ways;
	bounder->boxes = LK_ARRAY(arena, struct box, BOXES);
	if (!bounder->boxes || !ways) return false;
	for (uint32_t t = 0; t < bounder->p->count; t++) {
		double columns = 0, bytes = 0;
		for (int i = 0; i < bounder->tables[t].count; i++) {
			const lk_shard_way *way = &bounder->tables[t].at[i];
			columns = fmax(columns, way->columns);
			bytes = fmax(bytes, way->bytes);
			if (way->columns > 0) bounder->narrowest = fmin(bounder->narrowest, way->columns);
		}
		bounder->most_columns += columns;
		bounder->most_bytes += bytes;
		if (bytes > 0) bounder->smallest = fmin(bounder->smallest, bytes);
	}
	make_sizes(bounder);
	return true;
}

/* The least S not exceeded by ways whose pieces leave room in S for the least of the other
 * direction and exchange. */
static double without_long_pieces(struct bounder *bounder, lk_shard_prices *out) {
	const struct counted all = {true, true}, forward = {true, false}, backward = {false, true};
	const struct longest any = {INFINITY, INFINITY};
	double low = bound_least_of(bounder, all, any),
		   but_forward = bound_least_of(bounder, backward, any),
		   but_backward = bound_least_of(bounder, forward, any);
	double high =
		bound_least_of(bounder, all, (struct longest){low - but_forward, low - but_backward});
	for (int i = 0; i < HALVINGS && high > low * (1 + 1e-4); i++) {
		double middle = (low + fmin(high, 4 * low)) / 2;
		if (bound_least_of(bounder, all,
		                   (struct longest){middle - but_forward, middle - but_backward}) > middle)
			low = middle;
		else high = middle;
	}
	const struct longest limit = {fmin(high, 4 * low) - but_forward,
	                              fmin(high, 4 * low) - but_backward};
	const struct box *box = least_box(bounder, all, limit);
	*out = (lk_shard_prices){.column = bounder->column_price[box->price],
	                         .byte = bounder->byte_price[box->price],
	                         .columns = box->columns[1],
	                         .bytes = box->bytes[1],
	                         .forward_s = limit.forward,
	                         .backward_s = limit.backward};
	return low;
}

void lk_shard_price(const lk_shard_problem *problem, const lk_shard_ways *ways,
                    lk_shard_prices *out) {
	lk_arena arena = LK_ARENA_INIT;
	struct bounder b = {.p = problem};
	*out = (lk_shard_prices){.forward_s = INFINITY, .backward_s = INFINITY};
	bool begun = problem->count && shard_bound_begin(&b, ways, &arena);
	double least = begun ? without_long_pieces(&b, out) : 0;
	out->short_of_memory = problem->count && !begun;
	out->bound_s = lk_shard_index_s(problem) + problem->dense_s + least +
	               (least > 0 ? 2 : 0) * problem->at.floor_s;
	lk_arena_free(&arena);
}

lk_status lk_shard_bound(const lk_shard_problem *problem, double *out, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	lk_shard_prices prices;
	lk_shard_ways *ways = lk_shard_all_ways(&arena, problem);
	lk_shard_price(problem, ways, &prices);
	lk_arena_free(&arena);
	*out = prices.bound_s;
	return ways && !prices.short_of_memory ? LK_OK : lk_oom(err);
}
