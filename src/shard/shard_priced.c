/* shard_priced.c: starts with ways to place each table that are cheap together: at prices for
 * columns and copied bytes (those of the bound, shard_bound.c), each table takes its cheapest way.
 * The price of a column rises until ranks send at most the wanted number. Pieces may be no longer
 * than a part of a rank's load, or ranks could not be made even.
 *
 * Variants: copies cheaper and dearer, or none; pieces long and short; columns that fill ranks, or
 * leave some room. Those with the least likely step are tried first: the longer the pieces, the
 * less even ranks become. */
#include <math.h>

#include "base/arena.h"
#include "base/sort.h"
#include "shard/shard.h"

/* Exchanges tried, for all starts together. */
enum { PRICED_BUDGET = 60000000, BYTES = 4, LENGTHS = 7, STEPS = 4 };

/* Prices, and their targets. */
struct choice {
	double column, byte;          /* byte: INFINITY for no copies */
	double columns;               /* at most, of a rank on average */
	double forward_s, backward_s; /* longest pieces */
};

struct chooser {
	const lk_shard_problem *p;
	const lk_shard_ways *ways;
	double forward, backward; /* longest pieces */
	double byte;              /* price */
};

/* The cheapest way of a table; if all have too long pieces, the one with the shortest. */
static const lk_shard_way *cheapest(const struct chooser *chooser, uint32_t table, double column) {
	const lk_shard_ways *ways = &chooser->ways[table];
	const lk_shard_way *best = NULL, *shortest = NULL;
	double least = INFINITY, length = INFINITY;
	for (int i = 0; i < ways->count; i++) {
		const lk_shard_way *way = &ways->at[i];
		double price = way->forward + way->backward + column * way->columns +
		               (way->bytes > 0 ? chooser->byte * way->bytes : 0);
		double longest =
			fmax(way->piece_forward / chooser->forward, way->piece_backward / chooser->backward);
		if (price < INFINITY && longest < length) {
			shortest = way;
			length = longest;
		}
		if (!(longest > 1) && price < least) {
			best = way;
			least = price;
		}
	}
	if (best) return best;
	if (shortest) return shortest;
	return &ways->at[0];
}

static lk_shard_way sum_at(const struct chooser *chooser, double column, const lk_shard_way **out) {
	lk_shard_way sum = {.parts = 1};
	for (uint32_t t = 0; t < chooser->p->count; t++) {
		const lk_shard_way *way = cheapest(chooser, t, column);
		sum.forward += way->forward;
		sum.backward += way->backward;
		sum.columns += way->columns;
		sum.bytes += way->bytes;
		if (out) out[t] = way;
	}
	return sum;
}

/* Choose the way of each table, out[count]; returns their sum. */
static lk_shard_way priced_choose(const lk_shard_problem *problem, const lk_shard_ways *ways,
                                  const struct choice *choice, const lk_shard_way **out) {
	enum { DOUBLINGS = 20, HALVINGS = 14 };
	struct chooser c = {problem, ways, choice->forward_s, choice->backward_s, choice->byte};
	double low = 0, high = choice->column;
	if (isinf(choice->columns)) return sum_at(&c, high, out);
	for (int i = 0; i < DOUBLINGS && sum_at(&c, high, NULL).columns > choice->columns; i++) {
		low = high;
		high *= 2;
	}
	for (int i = 0; i < HALVINGS && high > low * (1 + 1e-4); i++) {
		double middle = (low + high) / 2;
		*(sum_at(&c, middle, NULL).columns > choice->columns ? &low : &high) = middle;
	}
	return sum_at(&c, high, out);
}

/* ---- starts ---- */

struct variant {
	struct choice x;
	double even_s, likely_s; /* step if all ranks were even; and as they will likely become */
	int order;
};

static int shortest_first(const void *a, const void *b) {
	const struct variant *x = a, *y = b;
	if (x->likely_s != y->likely_s) return x->likely_s < y->likely_s ? -1 : 1;
	return x->order - y->order;
}

static lk_status from_ways(searcher *s, const lk_shard_way *const *ways, size_t *budget,
                           lk_error *err) {
	lk_shard_pieces pieces = {0};
	bool placed = false;
	lk_status status = LK_OK;
	for (uint32_t t = 0; t < s->p->count && status == LK_OK; t++)
		status = lk_shard_add_parts(s->p, &pieces, t, ways[t]->kind, ways[t]->parts, false, err);
	if (status == LK_OK && !lk_shard_hopeless(s->p, &pieces))
		status = lk_shard_longest_first(s->p, &pieces, &placed, err);
	if (status == LK_OK && placed) status = lk_shard_take(s, &pieces, budget, err);
	lk_vec_free(&pieces);
	return status;
}

/* Add the ways at these prices, unless the same ones were chosen before. */
static void priced_add_variant(searcher *s, const struct choice *choice, double length,
                               const lk_shard_way **ways, struct variant *all, int *count) {
	static const double uneven = 0.03; /* of the lookups, roughly, if pieces are as long as the
	                                      bound allows; less with length^4 */
	const lk_shard_problem *problem = s->p;
	lk_shard_widths widths = {.grain = s->grain};
	lk_shard_way sum = priced_choose(problem, s->ways, choice, ways);
	for (uint32_t t = 0; t < problem->count; t++)
		lk_shard_widths_of_way(problem, t, ways[t], &widths);
	double step_s =
		lk_shard_even_step(problem, &sum, lk_shard_even_columns(&widths, 1, problem->ranks));
	double likely_s =
		lk_shard_even_step(problem, &sum, lk_shard_even_columns(&widths, 2, problem->ranks));
	for (int i = 0; i < *count; i++)
		if (all[i].even_s == step_s) return;
	all[*count] = (struct variant){
		*choice, step_s, likely_s + (sum.forward + sum.backward) * uneven * pow(length, 4), *count};
	++*count;
}

/* With as many columns as the prices give; up to a step of the ranks' columns less and more, and
 * steps of most pieces' widths. */
static void priced_add_variants(searcher *s, struct choice x, double length,
                                const lk_shard_way **ways, struct variant *all, int *count) {
	static const double steps[] = {-1, -0.5, 0, 0.5};
	double near = ceil(priced_choose(s->p, s->ways, &x, NULL).columns / s->grain * (1 - 1e-12)),
		   coarse = 4 * floor(near / 4);
	priced_add_variant(s, &x, length, ways, all, count);
	for (int i = 0; i < STEPS; i++) {
		x.columns = (near + steps[i]) * s->grain;
		priced_add_variant(s, &x, length, ways, all, count);
	}
	x.columns = coarse * s->grain;
	priced_add_variant(s, &x, length, ways, all, count);
	x.columns = (coarse + 4) * s->grain;
	priced_add_variant(s, &x, length, ways, all, count);
}

static int all_variants(searcher *s, const lk_shard_way **ways, struct variant *all) {
	static const double bytes[BYTES] = {0.25, 1, 4, INFINITY},
						lengths[LENGTHS] = {1, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2};
	const lk_shard_prices *prices = &s->prices;
	int count = 0;
	for (int i = 0; i < BYTES; i++)
		for (int k = 0; k < LENGTHS; k++) {
			double byte = isinf(bytes[i]) ? INFINITY : prices->byte * bytes[i];
			priced_add_variants(s,
			                    (struct choice){prices->column, byte, INFINITY,
			                                    prices->forward_s * lengths[k],
			                                    prices->backward_s * lengths[k]},
			                    lengths[k], ways, all, &count);
		}
	lk_sort(all, (size_t)count, sizeof *all, shortest_first);
	return count;
}

lk_status lk_shard_from_prices(searcher *s, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	const lk_shard_way **ways = LK_ARRAY(&arena, const lk_shard_way *, s->p->count);
	struct variant *all = LK_ARRAY(&arena, struct variant, BYTES * LENGTHS * (STEPS + 3));
	size_t budget = PRICED_BUDGET;
	lk_status status = ways && all ? LK_OK : lk_oom(err);
	int count = status == LK_OK ? all_variants(s, ways, all) : 0;
	for (int i = 0; i < count && status == LK_OK && budget > 0; i++) {
		if (all[i].even_s >= s->best_s) continue;
		if (isfinite(s->best_s) && lk_shard_ends(s->p)) break;
		priced_choose(s->p, s->ways, &all[i].x, ways);
		status = from_ways(s, ways, &budget, err);
	}
	lk_arena_free(&arena);
	return status;
}
