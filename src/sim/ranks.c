/* ranks.c: which ranks cannot differ, and the groups among those that are simulated.
 *
 * Colour refinement (1-dimensional Weisfeiler-Leman): a chain's first colour says what tells it
 * apart (cost variants and stragglers on every stage); then each round adds the colours of its
 * groups' members, until the number of colours stays. The result is equitable: chains of one class
 * see the same multiset of classes in each of their groups. Times of equal chains are therefore
 * equal, and the groups of the quotient are well defined. */
#include "sim/lower.h"

#include <string.h>

static uint64_t mix(uint64_t x) {
	x ^= x >> 30;
	x *= 0xbf58476d1ce4e5b9u;
	x ^= x >> 27;
	x *= 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

static uint64_t bits_of(double x) {
	uint64_t bits;
	memcpy(&bits, &x, sizeof bits);
	return bits;
}

/* Kinds of groups inside which chains of a stage meet, as a bit mask. A team tells no chains apart:
 * it joins a chain with itself, or all with all. */
static uint32_t kinds_used(const lk_graph *graph) {
	uint32_t used = 0;
	for (uint32_t op = 0; op < graph->ops.count; op++)
		if (lk_op_is_collective(graph->ops.kind[op]) && graph->ops.group[op] < LK_GROUPS)
			used |= 1u << graph->ops.group[op];
	return used & ~(1u << LK_GROUP_NONE | 1u << LK_GROUP_PP | 1u << LK_GROUP_EMBEDDING |
	                1u << LK_GROUP_TEAM);
}

static bool folds_at_once(const lk_costs *costs, const lk_sim_options *options) {
	for (uint32_t i = 0; i < options->straggler_count; i++)
		if (options->stragglers[i].factor != 1) return false;
	return costs->variants <= 1 || !costs->variant_of;
}

static void first_colours(const lk_graph *graph, const lk_costs *costs,
                          const lk_sim_options *options, uint64_t *colour) {
	uint32_t chains = graph->ranks.chains;
	memset(colour, 0, chains * sizeof *colour);
	for (uint32_t s = 0; costs->variant_of && s < graph->ranks.stages; s++)
		for (uint32_t i = 0; i < chains; i++)
			colour[i] =
				(colour[i] ^ costs->variant_of[lk_rank_of(graph, s, i)]) * 0x9e3779b97f4a7c15u +
				(colour[i] >> 29);
	for (uint32_t i = 0; i < options->straggler_count; i++) {
		const lk_straggler *slow = &options->stragglers[i];
		if (slow->factor == 1) continue;
		uint64_t stage = lk_rank_stage(graph, slow->rank);
		colour[lk_rank_chain(graph, slow->rank)] +=
			mix(mix(stage + 1) + bits_of(slow->factor)); /* a sum: the list has no order */
	}
}

/* Adds to sum[chain] the weights of the members of its group. */
static void add_group(const lk_ranks *ranks, unsigned kind, const uint64_t *weight, uint64_t *sum) {
	uint64_t size = ranks->group[kind].size, stride = ranks->group[kind].stride,
			 chains = ranks->chains;
	if (size <= 1) return;
	if (!stride) stride = 1;
	if (size > chains) size = chains; /* members beyond the last chain do not exist */
	if (stride > chains) return;
	for (uint64_t base = 0; base < chains; base += size * stride) {
		for (uint64_t low = base; low < base + stride && low < chains; low++) {
			uint64_t end = base + size * stride < chains ? base + size * stride : chains, total = 0;
			for (uint64_t i = low; i < end; i += stride) total += weight[i];
			total = mix(total + kind);
			for (uint64_t i = low; i < end; i += stride) sum[i] += total;
		}
	}
}

/* Open addressing from colour to class number. */
typedef struct table {
	uint64_t *key;
	uint32_t *id; /* 1 + class, 0 empty */
	uint64_t mask;
} table;

/* Replaces colours by the numbers of their classes in order of first occurrence; returns how many
 * there are. */
static uint32_t number(table *t, const uint64_t *colour, uint32_t n, uint32_t *out) {
	uint32_t count = 0;
	memset(t->id, 0, (t->mask + 1) * sizeof *t->id);
	for (uint32_t i = 0; i < n; i++) {
		uint64_t at = (colour[i] * 0x9e3779b97f4a7c15u >> 20) & t->mask;
		while (t->id[at] && t->key[at] != colour[i]) at = (at + 1) & t->mask;
		if (!t->id[at]) t->key[at] = colour[i], t->id[at] = ++count;
		out[i] = t->id[at] - 1;
	}
	return count;
}

typedef struct refine {
	uint64_t *colour, *weight, *sum;
	table classes;
} refine;

static lk_status refine_new(refine *r, lk_arena *arena, uint32_t chains, lk_error *err) {
	uint64_t room = 16;
	while (room < (uint64_t)chains * 2) room *= 2;
	*r = (refine){
		.colour = LK_ARRAY(arena, uint64_t, chains),
		.weight = LK_ARRAY(arena, uint64_t, chains),
		.sum = LK_ARRAY(arena, uint64_t, chains),
		.classes = {LK_ARRAY(arena, uint64_t, room), LK_ARRAY(arena, uint32_t, room), room - 1},
	};
	return r->colour && r->weight && r->sum && r->classes.key && r->classes.id ? LK_OK
	                                                                           : lk_oom(err);
}

static uint32_t refine_run(refine *r, const lk_graph *graph, uint32_t *lane_of) {
	uint32_t chains = graph->ranks.chains, used = kinds_used(graph);
	uint32_t count = number(&r->classes, r->colour, chains, lane_of);
	for (uint32_t before = 0; count > 1 && count < chains && count != before;) {
		before = count;
		for (uint32_t i = 0; i < chains; i++)
			r->sum[i] = r->weight[i] = mix(lane_of[i] + UINT64_C(0x5851f42d4c957f2d));
		for (unsigned kind = 0; kind < LK_GROUPS; kind++)
			if (used >> kind & 1) add_group(&graph->ranks, kind, r->weight, r->sum);
		count = number(&r->classes, r->sum, chains, lane_of);
	}
	return count;
}

static lk_status identity(uint32_t chains, lk_arena *arena, uint32_t *lanes, uint32_t **lane_of,
                          uint32_t **lane_ranks, lk_error *err) {
	*lanes = chains;
	*lane_of = LK_ARRAY(arena, uint32_t, chains);
	*lane_ranks = LK_ARRAY(arena, uint32_t, chains);
	if (!*lane_of || !*lane_ranks) return lk_oom(err);
	for (uint32_t i = 0; i < chains; i++) (*lane_of)[i] = i, (*lane_ranks)[i] = 1;
	return LK_OK;
}

lk_status lk_sim_classes(const lk_graph *graph, const lk_costs *costs,
                         const lk_sim_options *options, lk_arena *arena, uint32_t *lanes,
                         uint32_t **lane_of, uint32_t **lane_ranks, lk_error *err) {
	uint32_t chains = graph->ranks.chains;
	if (options->all_ranks || options->jitter > 0)
		return identity(chains, arena, lanes, lane_of, lane_ranks, err);
	*lane_of = LK_ARRAY(arena, uint32_t, chains);
	if (!*lane_of) return lk_oom(err);
	*lanes = 1;
	if (!folds_at_once(costs, options)) {
		lk_arena scratch = LK_ARENA_INIT;
		refine r;
		lk_status status = refine_new(&r, &scratch, chains, err);
		if (status == LK_OK) {
			first_colours(graph, costs, options, r.colour);
			*lanes = refine_run(&r, graph, *lane_of);
		}
		lk_arena_free(&scratch);
		LK_TRY(status);
	}
	*lane_ranks = LK_ARRAY(arena, uint32_t, *lanes);
	if (!*lane_ranks) return lk_oom(err);
	for (uint32_t i = 0; i < chains; i++) (*lane_ranks)[(*lane_of)[i]]++;
	return LK_OK;
}

/* The group of a chain, as a number; members have equal numbers. */
static uint64_t group_of(const lk_ranks *ranks, unsigned kind, uint64_t chain) {
	uint64_t size = ranks->group[kind].size, stride = ranks->group[kind].stride;
	if (!size) size = 1;
	if (!stride) stride = 1;
	return chain / (size * stride) * stride + chain % stride;
}

/* lanes by group: counting sort of `of`. */
static lk_status sort_groups(lk_sim *sim, lk_lane_groups *g, lk_error *err) {
	g->begin = LK_ARRAY(sim->arena, uint32_t, (size_t)g->groups + 1);
	g->lane = LK_ARRAY(sim->arena, uint32_t, sim->lanes);
	if (!g->begin || !g->lane) return lk_oom(err);
	for (uint32_t i = 0; i < sim->lanes; i++) g->begin[g->of[i] + 1]++;
	for (uint32_t i = 0; i < g->groups; i++) g->begin[i + 1] += g->begin[i];
	for (uint32_t i = 0; i < sim->lanes; i++) g->lane[g->begin[g->of[i]]++] = i;
	for (uint32_t i = g->groups; i > 0; i--) g->begin[i] = g->begin[i - 1];
	g->begin[0] = 0;
	return LK_OK;
}

static uint32_t root(uint32_t *parent, uint32_t i) {
	while (parent[i] != i) i = parent[i] = parent[parent[i]];
	return i;
}

/* Lanes are together if any of their chains are: union-find over the groups of all chains. The
 * partition is equitable, so any chain of a lane meets the same lanes. */
static lk_status join_lanes(lk_sim *sim, unsigned kind, uint32_t *parent, lk_error *err) {
	uint32_t *there = LK_ARRAY(sim->arena, uint32_t, sim->chains); /* 1 + a lane of the group */
	if (!there) return lk_oom(err);
	for (uint32_t i = 0; i < sim->chains; i++) {
		uint32_t lane = root(parent, sim->lane_of[i]),
				 *first = &there[group_of(&sim->graph->ranks, kind, i)];
		if (!*first) *first = lane + 1;
		uint32_t other = root(parent, *first - 1);
		if (other < lane) parent[lane] = other;
		else parent[other] = lane;
	}
	return LK_OK;
}

lk_status lk_lower_groups(lk_sim *sim, unsigned kind, lk_error *err) {
	lk_lane_groups *g = &sim->group[kind];
	uint32_t size = sim->graph->ranks.group[kind].size,
			 stride = sim->graph->ranks.group[kind].stride;
	bool alone = size <= 1 || kind == LK_GROUP_NONE || kind == LK_GROUP_TEAM ||
	             kind == LK_GROUP_PP || kind == LK_GROUP_EMBEDDING;
	g->of = LK_ARRAY(sim->arena, uint32_t, sim->lanes);
	uint32_t *parent = LK_ARRAY(sim->arena, uint32_t, sim->lanes);
	if (!g->of || !parent) return lk_oom(err);
	for (uint32_t i = 0; i < sim->lanes; i++) parent[i] = i;
	if (!alone) LK_TRY(join_lanes(sim, kind, parent, err));
	for (uint32_t i = 0; i < sim->lanes; i++) {
		uint32_t first = root(parent, i); /* the smallest of its group */
		g->of[i] = first == i ? g->groups++ : g->of[first];
	}
	if (!stride) stride = 1;
	if (alone) g->size = g->stride = 1;
	else if (sim->lanes == sim->chains && sim->chains % ((uint64_t)size * stride) == 0)
		g->size = size, g->stride = stride;
	return sort_groups(sim, g, err);
}

lk_status lk_lower_every(lk_sim *sim, lk_error *err) {
	lk_lane_groups *g = &sim->every;
	g->groups = 1;
	g->size = sim->lanes, g->stride = 1;
	g->of = LK_ARRAY(sim->arena, uint32_t, sim->lanes); /* 0 */
	return g->of ? sort_groups(sim, g, err) : lk_oom(err);
}
