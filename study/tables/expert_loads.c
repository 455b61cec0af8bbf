/* expert_loads.c: rows of the experts of one rank, as the collector of the tables draws them.
 * Tokens per expert follow a power law between 1 and 0.8 of all tokens (0.01 and 2 where an expert
 * has less than one row), scaled to tokens * topk rows; the busiest of the ranks is
 * measured, a mean of five draws. Balanced: each expert has the same. */
#include "base/arena.h"
#include "tables/tables.h"

#include <math.h>
#include <string.h>

#include "base/stats.h"

enum { DRAWS = 5, EXPERTS = 4096, SLOTS = 1 << 15 };

struct lk_expert_slot {
	bool used;
	lk_expert_routing routing;
	lk_expert_load load;
};

static void add_to_load(lk_expert_load *load, double rows, double share) {
	static const double heights[LK_EXPERT_TILES] = LK_EXPERT_HEIGHTS;
	if (rows <= 0) return;
	load->rows += share * rows;
	load->hit += share;
	for (int t = 0; t < LK_EXPERT_TILES; t++)
		load->padded[t] += share * ceil(rows / heights[t]) * heights[t];
}

/* Tokens of each expert, before they are scaled. Returns their sum. */
static double draw_experts(const lk_expert_routing *routing, uint64_t draw, double *tokens) {
	bool many = routing->tokens * routing->topk > routing->experts;
	double low = .01, high = 2, sum = 0;
	if (many) {
		low = 1;
		high = fmax(routing->tokens * .8, 1.001);
	}
	double power = 1 - routing->skew;
	if (fabs(power) < 1e-6) power = 1e-6;
	double from = pow(low, power), to = pow(high, power);
	for (int i = 0; i < (int)routing->experts; i++)
		sum += tokens[i] = pow(from + (to - from) * lk_uniform(draw, (uint64_t)i), 1 / power);
	return sum;
}

static void add_busiest(const lk_expert_routing *routing, uint64_t draw, lk_expert_load *load) {
	double tokens[EXPERTS], most = -1;
	double scale = routing->tokens * routing->topk / draw_experts(routing, draw, tokens);
	int here = (int)(routing->experts / routing->ranks), busiest = 0;
	for (int first = 0; first + here <= (int)routing->experts; first += here) {
		double sum = 0;
		for (int i = first; i < first + here; i++)
			sum += tokens[i] = fmin(round(tokens[i] * scale), routing->tokens);
		if (sum > most) {
			most = sum;
			busiest = first;
		}
	}
	for (int i = busiest; i < busiest + here; i++) add_to_load(load, tokens[i], 1. / DRAWS);
}

static void load_balanced(const lk_expert_routing *routing, lk_expert_load *load) {
	double here = fmax(routing->experts / routing->ranks, 1),
		   rows = fmax(routing->tokens * routing->topk / routing->ranks, 1);
	add_to_load(load, fmax(rows / here, 1), fmin(here, rows));
}

static void compute_load(const lk_expert_routing *routing, lk_expert_load *load) {
	*load = (lk_expert_load){0};
	if (routing->skew > 0 && routing->experts <= EXPERTS && routing->experts >= routing->ranks)
		for (uint64_t draw = 0; draw < DRAWS; draw++) add_busiest(routing, draw + 1, load);
	if (load->rows < 1) {
		*load = (lk_expert_load){0};
		load_balanced(routing, load);
	}
	/* the choices of a token lie on different experts, spread as evenly as they can be */
	bool even = routing->skew == 0;
	load->reach = even ? fmin(load->rows, routing->tokens)
	                   : -routing->tokens * expm1(-load->rows / routing->tokens);
}

const lk_expert_load *lk_expert_load_of(lk_arena *arena, lk_expert_loads *loads,
                                        const lk_expert_routing *routing) {
	if (!loads->slots) loads->slots = LK_ARRAY(arena, struct lk_expert_slot, SLOTS);
	if (!loads->slots) return NULL;
	struct lk_expert_slot *slot =
		&loads->slots[lk_hash_bytes(LK_HASH_SEED, routing, sizeof *routing) % SLOTS];
	if (!slot->used || memcmp(&slot->routing, routing, sizeof *routing) != 0) {
		slot->used = true;
		slot->routing = *routing;
		compute_load(routing, &slot->load);
	}
	return &slot->load;
}
