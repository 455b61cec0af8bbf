/* ranks.c: which ranks cannot differ, and the groups among those that are simulated.
 *
 * Colour refinement (1-dimensional Weisfeiler-Leman): a chain's first colour encodes what
 * distinguishes it (cost variants and stragglers on every stage); then each round adds the colours
 * of its groups' members, until the number of colours is stable. The result is equitable: chains of
 * one class see the same multiset of classes in each of their groups. Times of equal chains are
 * therefore equal, and the groups of the quotient are well defined. */
#include "base/arena.h"
#include "sim/sim_internal.h"

#include <string.h>

static uint64_t hash_mix(uint64_t x) {
	x ^= x >> 30;
	x *= 0xbf58476d1ce4e5b9u;
	x ^= x >> 27;
	x *= 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

static uint64_t double_bits(double x) {
	uint64_t bits;
	memcpy(&bits, &x, sizeof bits);
	return bits;
}

/* Kinds of groups in which chains of a stage synchronise, as a bit mask. A team distinguishes no
 * chains: it joins a chain with itself, or all with all. */
static uint32_t graph_kinds_used(const lk_graph *graph) {
	uint32_t used = 0;
	for (uint32_t op = 0; op < graph->ops.count; op++)
		if (lk_op_is_collective(graph->ops.kind[op]) && graph->ops.group[op] < LK_GROUPS)
			used |= 1u << graph->ops.group[op];
	return used & ~(1u << LK_GROUP_NONE | 1u << LK_GROUP_PP | 1u << LK_GROUP_EMBEDDING |
	                1u << LK_GROUP_TEAM);
}

static bool ranks_are_alike(const lk_costs *costs, const lk_sim_options *options) {
	for (uint32_t i = 0; i < options->straggler_count; i++)
		if (options->stragglers[i].factor != 1) return false;
	return costs->variants <= 1 || !costs->variant_of;
}

static void colours_set_first(const lk_graph *graph, const lk_costs *costs,
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
		colour[lk_rank_chain(graph, slow->rank)] += hash_mix(
			hash_mix(stage + 1) + double_bits(slow->factor)); /* a sum: the list is unordered */
	}
}

/* Add the weights of the members of its group to sum[chain]. */
static void colours_add_group(const lk_ranks *ranks, unsigned kind, const uint64_t *weight,
                              uint64_t *sum) {
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
			total = hash_mix(total + kind);
			for (uint64_t i = low; i < end; i += stride) sum[i] += total;
		}
	}
}

/* Open addressing from colour to class number. */
typedef struct lk_class_table {
	uint64_t *key;
	uint32_t *id; /* 1 + class, 0 empty */
	uint64_t mask;
} lk_class_table;

/* Replace colours by the numbers of their classes in order of first occurrence; returns the number
 * of classes. */
static uint32_t classes_number(lk_class_table *classes, const uint64_t *colour, uint32_t n,
                               uint32_t *out) {
	uint32_t count = 0;
	memset(classes->id, 0, (classes->mask + 1) * sizeof *classes->id);
	for (uint32_t i = 0; i < n; i++) {
		uint64_t at = (colour[i] * 0x9e3779b97f4a7c15u >> 20) & classes->mask;
		while (classes->id[at] && classes->key[at] != colour[i]) at = (at + 1) & classes->mask;
		if (!classes->id[at]) {
			classes->key[at] = colour[i];
			classes->id[at] = ++count;
		}
		out[i] = classes->id[at] - 1;
	}
	return count;
}

typedef struct lk_refinement {
	uint64_t *colour, *weight, *sum;
	lk_class_table classes;
} lk_refinement;

static lk_status refinement_new(lk_refinement *refinement, lk_arena *arena, uint32_t chains,
                                lk_error *err) {
	uint64_t room = 16;
	while (room < (uint64_t)chains * 2) room *= 2;
	*refinement = (lk_refinement){
		.colour = LK_ARRAY(arena, uint64_t, chains),
		.weight = LK_ARRAY(arena, uint64_t, chains),
		.sum = LK_ARRAY(arena, uint64_t, chains),
		.classes = {LK_ARRAY(arena, uint64_t, room), LK_ARRAY(arena, uint32_t, room), room - 1},
	};
	return refinement->colour && refinement->weight && refinement->sum && refinement->classes.key &&
	               refinement->classes.id
	           ? LK_OK
	           : lk_oom(err);
}

static uint32_t refinement_run(lk_refinement *refinement, const lk_graph *graph,
                               uint32_t *lane_of) {
	uint32_t chains = graph->ranks.chains, used = graph_kinds_used(graph);
	uint32_t count = classes_number(&refinement->classes, refinement->colour, chains, lane_of);
	for (uint32_t before = 0; count > 1 && count < chains && count != before;) {
		before = count;
		for (uint32_t i = 0; i < chains; i++)
			refinement->sum[i] = refinement->weight[i] =
				hash_mix(lane_of[i] + UINT64_C(0x5851f42d4c957f2d));
		for (unsigned kind = 0; kind < LK_GROUPS; kind++)
			if (used >> kind & 1)
				colours_add_group(&graph->ranks, kind, refinement->weight, refinement->sum);
		count = classes_number(&refinement->classes, refinement->sum, chains, lane_of);
	}
	return count;
}

static lk_status classes_set_identity(uint32_t chains, lk_arena *arena, uint32_t *lanes,
                                      uint32_t **lane_of, uint32_t **lane_ranks, lk_error *err) {
	*lanes = chains;
	*lane_of = LK_ARRAY(arena, uint32_t, chains);
	*lane_ranks = LK_ARRAY(arena, uint32_t, chains);
	if (!*lane_of || !*lane_ranks) return lk_oom(err);
	for (uint32_t i = 0; i < chains; i++) {
		(*lane_of)[i] = i;
		(*lane_ranks)[i] = 1;
	}
	return LK_OK;
}

lk_status lk_sim_classes(const lk_graph *graph, const lk_costs *costs,
                         const lk_sim_options *options, lk_arena *arena, uint32_t *lanes,
                         uint32_t **lane_of, uint32_t **lane_ranks, lk_error *err) {
	uint32_t chains = graph->ranks.chains;
	if (options->apart || options->jitter > 0 || options->gpu_spread > 0)
		return classes_set_identity(chains, arena, lanes, lane_of, lane_ranks, err);
	*lane_of = LK_ARRAY(arena, uint32_t, chains);
	if (!*lane_of) return lk_oom(err);
	*lanes = 1;
	if (!ranks_are_alike(costs, options)) {
		lk_arena scratch = LK_ARENA_INIT;
		lk_refinement refinement;
		lk_status status = refinement_new(&refinement, &scratch, chains, err);
		if (status == LK_OK) {
			colours_set_first(graph, costs, options, refinement.colour);
			*lanes = refinement_run(&refinement, graph, *lane_of);
		}
		lk_arena_free(&scratch);
		LK_TRY(status);
	}
	*lane_ranks = LK_ARRAY(arena, uint32_t, *lanes);
	if (!*lane_ranks) return lk_oom(err);
	for (uint32_t i = 0; i < chains; i++) {
		LK_ASSERT((*lane_of)[i] < *lanes);
		(*lane_ranks)[(*lane_of)[i]]++;
	}
	for (uint32_t i = 0; i < *lanes; i++) LK_ASSERT((*lane_ranks)[i] > 0);
	return LK_OK;
}

/* The group of a chain, as a number; members have equal numbers. */
static uint64_t chain_group(const lk_ranks *ranks, unsigned kind, uint64_t chain) {
	uint64_t size = ranks->group[kind].size, stride = ranks->group[kind].stride;
	if (!size) size = 1;
	if (!stride) stride = 1;
	return chain / (size * stride) * stride + chain % stride;
}

/* List lanes by group: counting sort of `of`. */
static lk_status groups_sort(lk_sim *sim, lk_lane_groups *groups, lk_error *err) {
	groups->begin = LK_ARRAY(sim->arena, uint32_t, (size_t)groups->groups + 1);
	groups->lane = LK_ARRAY(sim->arena, uint32_t, sim->lanes);
	if (!groups->begin || !groups->lane) return lk_oom(err);
	for (uint32_t i = 0; i < sim->lanes; i++) groups->begin[groups->of[i] + 1]++;
	for (uint32_t i = 0; i < groups->groups; i++) groups->begin[i + 1] += groups->begin[i];
	for (uint32_t i = 0; i < sim->lanes; i++) groups->lane[groups->begin[groups->of[i]]++] = i;
	for (uint32_t i = groups->groups; i > 0; i--) groups->begin[i] = groups->begin[i - 1];
	groups->begin[0] = 0;
	return LK_OK;
}

static uint32_t union_root(uint32_t *parent, uint32_t i) {
	while (parent[i] != i) i = parent[i] = parent[parent[i]];
	return i;
}

/* Join lanes if any of their chains are in one group: union-find over the groups of all chains. The
 * partition is equitable, so any chain of a lane synchronises with the same lanes. */
static lk_status lanes_join(lk_sim *sim, unsigned kind, uint32_t *parent, lk_error *err) {
	uint32_t *there = LK_ARRAY(sim->arena, uint32_t, sim->chains); /* 1 + a lane of the group */
	if (!there) return lk_oom(err);
	for (uint32_t i = 0; i < sim->chains; i++) {
		uint32_t lane = union_root(parent, sim->lane_of[i]),
				 *first = &there[chain_group(&sim->graph->ranks, kind, i)];
		if (!*first) *first = lane + 1;
		uint32_t other = union_root(parent, *first - 1);
		if (other < lane) parent[lane] = other;
		else parent[other] = lane;
	}
	return LK_OK;
}

/* Check that every lane is in one group, and that groups list their lanes in order. */
static void groups_assert(const lk_sim *sim, const lk_lane_groups *groups) {
	LK_ASSERT(groups->groups > 0 && groups->begin[0] == 0 &&
	          groups->begin[groups->groups] == sim->lanes);
	for (uint32_t g = 0; g < groups->groups; g++)
		for (uint32_t i = groups->begin[g]; i < groups->begin[g + 1]; i++) {
			LK_ASSERT(groups->of[groups->lane[i]] == g);
			LK_ASSERT(i == groups->begin[g] || groups->lane[i - 1] < groups->lane[i]);
		}
	(void)sim;
}

lk_status lk_lower_groups(lk_sim *sim, unsigned kind, lk_error *err) {
	lk_lane_groups *groups = &sim->group[kind];
	uint32_t size = sim->graph->ranks.group[kind].size,
			 stride = sim->graph->ranks.group[kind].stride;
	bool alone = size <= 1 || kind == LK_GROUP_NONE || kind == LK_GROUP_TEAM ||
	             kind == LK_GROUP_PP || kind == LK_GROUP_EMBEDDING;
	groups->of = LK_ARRAY(sim->arena, uint32_t, sim->lanes);
	uint32_t *parent = LK_ARRAY(sim->arena, uint32_t, sim->lanes);
	if (!groups->of || !parent) return lk_oom(err);
	for (uint32_t i = 0; i < sim->lanes; i++) parent[i] = i;
	if (!alone) LK_TRY(lanes_join(sim, kind, parent, err));
	for (uint32_t i = 0; i < sim->lanes; i++) {
		uint32_t first = union_root(parent, i); /* the smallest of its group */
		groups->of[i] = first == i ? groups->groups++ : groups->of[first];
	}
	if (!stride) stride = 1;
	if (alone) groups->size = groups->stride = 1;
	if (!alone && sim->lanes == sim->chains && sim->chains % ((uint64_t)size * stride) == 0) {
		groups->size = size;
		groups->stride = stride;
	}
	LK_TRY(groups_sort(sim, groups, err));
	groups_assert(sim, groups);
	return LK_OK;
}

lk_status lk_lower_all_lanes(lk_sim *sim, lk_error *err) {
	lk_lane_groups *groups = &sim->every;
	groups->groups = 1;
	groups->size = sim->lanes;
	groups->stride = 1;
	groups->of = LK_ARRAY(sim->arena, uint32_t, sim->lanes); /* all 0 */
	return groups->of ? groups_sort(sim, groups, err) : lk_oom(err);
}
