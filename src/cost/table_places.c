/* table_places.c: ranks whose groups have equal placements on equal nodes share a variant; an
 * aligned job on equal nodes has one or two. */
#include "cost/table_places.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/check.h"
#include "base/stats.h"

enum { MOST_VARIANTS = 4096 };

static const lk_node *node_at(const struct lk_table_builder *builder, uint32_t rank) {
	return &builder->cluster->node[builder->kind_of ? builder->kind_of[rank] : 0];
}

static int32_t node_number(const struct lk_table_builder *builder, uint32_t rank) {
	return builder->node_of ? builder->node_of[rank]
	                        : (int32_t)rank / builder->cluster->node[0].gpus;
}

/* Places of all ranks, node by node: cheaper than a query per rank. */
static lk_status place_ranks(struct lk_table_builder *builder, lk_error *err) {
	uint32_t world = builder->graph->ranks.world, rank = 0;
	int32_t node = 0;
	builder->node_of = LK_ARRAY(builder->arena, int32_t, world);
	builder->kind_of = LK_ARRAY(builder->arena, uint8_t, world);
	if (!builder->node_of || !builder->kind_of) return lk_oom(err);
	for (int g = 0; g < builder->cluster->groups; g++)
		for (int i = 0; i < builder->cluster->nodes[g]; i++, node++)
			for (int slot = 0; slot < builder->cluster->node[g].gpus && rank < world;
			     slot++, rank++) {
				builder->node_of[rank] = node;
				builder->kind_of[rank] = (uint8_t)g;
			}
	for (; rank < world; rank++) {
		builder->node_of[rank] = node;
		builder->kind_of[rank] = 0;
	}
	return LK_OK;
}

static uint32_t table_rank_at(const struct lk_table_builder *builder, uint32_t stage,
                              uint32_t chain) {
	return stage * builder->stage_step + chain * builder->chain_step;
}

/* Add what `count` ranks on equal nodes take of them, the first in this slot of its node: nodes,
 * and the most ranks on one. */
static void count_even(uint32_t gpus, uint32_t slot, uint32_t count, uint32_t stride,
                       int32_t *nodes, uint32_t *most) {
	if (stride >= gpus) {
		*nodes += (int32_t)count;
		if (*most == 0) *most = 1;
		return;
	}
	/* where strides divide a node, as many on each but the first and the last */
	uint32_t each = stride > 0 && gpus % stride == 0 ? gpus / stride : count;
	while (count > 0) {
		uint32_t here = stride > 0 ? (gpus - slot + stride - 1) / stride : count;
		if (here > count) here = count;
		if (here > *most) *most = here;
		++*nodes;
		slot += here * stride - gpus;
		count -= here;
		if (count < each) continue;
		*nodes += (int32_t)(count / each);
		count %= each;
		if (each > *most) *most = each;
	}
}

/* Members are in rank order, so those of one node are adjacent, and those on equal nodes are. */
static void table_shape_of(const struct lk_table_builder *builder, uint32_t first, uint32_t size,
                           uint32_t stride, struct lk_signature *signature, int kind) {
	const lk_cluster *cluster = builder->cluster;
	const lk_node *slowest = node_at(builder, first);
	uint32_t left = size, most = 0;
	uint64_t rank = first;
	int32_t nodes = 0;
	for (int g = builder->kind_of ? builder->kind_of[first] : 0; g < cluster->groups && left; g++) {
		uint64_t begin = builder->begin[g], end = builder->begin[g + 1];
		if (rank >= end) continue;
		uint64_t room = stride ? (end - rank + stride - 1) / stride : left;
		uint32_t gpus = (uint32_t)cluster->node[g].gpus, here = room < left ? (uint32_t)room : left;
		count_even(gpus, (uint32_t)((rank - begin) % gpus), here, stride, &nodes, &most);
		if (lk_node_rate(&cluster->node[g]) < lk_node_rate(slowest)) slowest = &cluster->node[g];
		rank += (uint64_t)here * stride;
		left -= here;
	}
	if (left > 0) { /* more ranks than the cluster has GPUs, together beside it */
		nodes++;
		most = left > most ? left : most;
		if (lk_node_rate(&cluster->node[0]) < lk_node_rate(slowest)) slowest = &cluster->node[0];
	}
	signature->group[kind].nodes = nodes;
	signature->group[kind].per_node = (int32_t)most;
	signature->group[kind].slowest = slowest;
}

uint32_t lk_table_group_ranks(const lk_ranks *ranks, int kind) {
	return kind == LK_GROUP_MODEL ? ranks->group[kind].size * ranks->stages
	                              : ranks->group[kind].size;
}

/* Only tiny messages, or a pair: all stages of this chain, first to last. */
static void across_shape(const struct lk_table_builder *builder, uint32_t chain, int kind,
                         struct lk_signature *signature) {
	const lk_ranks *ranks = &builder->graph->ranks;
	if (lk_table_group_ranks(ranks, kind) <= 1) return;
	bool ends = kind == LK_GROUP_EMBEDDING;
	uint32_t step = ends ? (ranks->stages - 1) * builder->stage_step : builder->stage_step;
	table_shape_of(builder, table_rank_at(builder, 0, chain), ends ? 2 : ranks->stages, step,
	               signature, kind);
}

static void signature(const struct lk_table_builder *builder, uint32_t stage, uint32_t chain,
                      uint32_t team_chain, struct lk_signature *s) {
	LK_ASSERT(stage < builder->graph->ranks.stages);
	const lk_ranks *ranks = &builder->graph->ranks;
	uint32_t rank = table_rank_at(builder, stage, chain);
	memset(s, 0, sizeof *s);
	s->node = node_at(builder, rank);
	for (int kind = 1; kind < LK_GROUPS; kind++) {
		uint32_t size = ranks->group[kind].size, stride = ranks->group[kind].stride;
		if (lk_table_group_ranks(ranks, kind) <= 1) continue;
		if (lk_group_crosses_stages(kind)) {
			across_shape(builder, chain, kind, s);
		} else if (ranks->chains % ((uint64_t)size * stride) ==
		           0) { /* otherwise nothing uses it: graph_check.c */
			uint32_t first = chain / (size * stride) * (size * stride) + chain % stride;
			table_shape_of(builder, table_rank_at(builder, stage, first), size,
			               stride * builder->chain_step, s, kind);
		}
	}
	for (int kind = 1; builder->reach && kind < LK_GROUPS; kind++)
		s->group[kind].reach = builder->reach[(size_t)kind * ranks->world + rank];
	s->team_chain = team_chain;
	if (builder->graph->traced) return; /* no wires: messages belong to teams */
	uint32_t world = ranks->world;
	int32_t node = node_number(builder, rank);
	s->peer_same_node[0] = node_number(builder, (rank + ranks->chains) % world) == node;
	s->peer_same_node[1] = node_number(builder, (rank + world - ranks->chains) % world) == node;
}

static lk_status table_too_many(lk_error *err) {
	return lk_fail(err, LK_ERR_INPUT, "cluster",
	               "more than %d different kinds of places for ranks; use more regular nodes",
	               MOST_VARIANTS);
}

static lk_status variant_of(struct lk_table_builder *builder, const struct lk_signature *signature,
                            uint16_t *variant, lk_error *err) {
	for (size_t i = builder->count; i-- > 0;)
		if (memcmp(&builder->known[i], signature, sizeof *signature) == 0) {
			*variant = (uint16_t)i;
			return LK_OK;
		}
	if (builder->count == MOST_VARIANTS) return table_too_many(err);
	if (builder->count == builder->capacity) {
		size_t capacity = builder->capacity ? builder->capacity * 2 : 8;
		struct lk_signature *grown = realloc(builder->known, capacity * sizeof *grown);
		if (!grown) return lk_oom(err);
		builder->known = grown;
		builder->capacity = capacity;
	}
	*variant = (uint16_t)builder->count;
	builder->known[builder->count++] = *signature;
	return LK_OK;
}

/* Keys instead of signatures: every group is examined once and adds its placement to all its
 * members' keys. One addition per rank and kind of group, no divisions: 131,072 ranks take
 * milliseconds. */
static uint64_t table_mix(uint64_t key, uint64_t value) {
	return lk_hash64(key ^ (value + 0x9e3779b97f4a7c15u));
}

static void mix_groups(const struct lk_table_builder *builder, uint32_t stage, int kind,
                       uint64_t *key) {
	LK_ASSERT(stage < builder->graph->ranks.stages);
	const lk_ranks *ranks = &builder->graph->ranks;
	uint32_t size = ranks->group[kind].size, stride = ranks->group[kind].stride;
	if (size <= 1 || lk_group_crosses_stages(kind)) return;
	for (uint32_t block = 0; block + size * stride <= ranks->chains; block += size * stride)
		for (uint32_t offset = 0; offset < stride; offset++) {
			struct lk_signature s;
			uint32_t first = block + offset;
			table_shape_of(builder, table_rank_at(builder, stage, first), size,
			               stride * builder->chain_step, &s, kind);
			uint64_t lies =
				(uint64_t)(uint32_t)s.group[kind].nodes << 32 | (uint32_t)s.group[kind].per_node;
			lies = table_mix(lies, (uint64_t)(s.group[kind].slowest - builder->cluster->node) *
			                               LK_GROUPS +
			                           (unsigned)kind);
			for (uint32_t i = 0; i < size; i++)
				key[first + i * stride] = table_mix(key[first + i * stride], lies);
		}
}

/* Placement of a team's members: nodes and most ranks per node; for a team across chains, those of
 * all chains. */
struct lk_lie {
	int32_t nodes, per_node;
	const lk_node *slowest;
};

struct lk_lie_count {
	struct lk_lie lie;
	int32_t last, run;
	uint32_t first_rank, last_rank, ranks;
};

static void table_count_member(const struct lk_table_builder *builder, uint32_t rank,
                               struct lk_lie_count *count) {
	const lk_node *node = node_at(builder, rank);
	if (!count->ranks++) {
		count->first_rank = rank;
		count->lie.slowest = node;
		count->last = -1;
	}
	count->last_rank = rank;
	if (builder->node_of[rank] != count->last) {
		count->lie.nodes++;
		count->run = 0;
		count->last = builder->node_of[rank];
	}
	if (++count->run > count->lie.per_node) count->lie.per_node = count->run;
	if (lk_node_rate(node) < lk_node_rate(count->lie.slowest)) count->lie.slowest = node;
}

/* Members missing from the graph continue the pattern of those in it: equally spaced, a single one
 * next to its like. */
static void extend(uint32_t ranks, struct lk_lie_count *count) {
	uint32_t apart =
		count->ranks > 1 ? (count->last_rank - count->first_rank) / (count->ranks - 1) : 1;
	uint32_t gpus = count->lie.slowest->gpus > 0 ? (uint32_t)count->lie.slowest->gpus : 1;
	uint32_t per_node = apart < gpus ? gpus / (apart ? apart : 1) : 1;
	if (per_node > ranks) per_node = ranks;
	count->lie.per_node = (int32_t)per_node;
	count->lie.nodes = (int32_t)((ranks + per_node - 1) / per_node);
}

static struct lk_lie lie_of(const struct lk_table_builder *builder, const lk_team *team,
                            uint32_t chain) {
	struct lk_lie_count c = {0};
	const uint32_t *stages = builder->graph->team_stages.at;
	uint32_t members = team->end - team->begin,
			 chains = team->across ? builder->graph->ranks.chains : 1;
	bool traced =
		builder->graph->traced; /* in the order of ranks: chain by chain, or stage by stage */
	for (uint64_t i = 0; i < (uint64_t)members * chains; i++) {
		uint32_t m = (uint32_t)(traced ? i % members : i / chains),
				 k = (uint32_t)(traced ? i / members : i % chains);
		table_count_member(
			builder, table_rank_at(builder, stages[team->begin + m], team->across ? k : chain), &c);
	}
	if (!c.ranks) c.lie = (struct lk_lie){1, 1, &builder->cluster->node[0]};
	else if (team->ranks > c.ranks) extend(team->ranks, &c);
	return c.lie;
}

lk_group_shape lk_table_team_shape(const struct lk_table_builder *builder, const lk_team *team,
                                   uint32_t chain) {
	struct lk_lie lie = lie_of(builder, team, chain);
	int sharing = lie.nodes > 1 ? lie.slowest->gpus / lie.per_node : 1;
	return (lk_group_shape){
		.node = lie.slowest,
		.ranks = (int)team->ranks,
		.nodes = lie.nodes,
		.ranks_per_node = lie.per_node,
		.apart = 2, /* no bridge: where its ranks lie is not counted */
		.sharing = sharing > 0 ? sharing : 1,
		.oversubscription = builder->cluster->oversubscription,
		.settings = &builder->options->constants->nccl,
	};
}

/* The ranks of a team in the graph, in order; if it holds only some, which continue in the same
 * pattern, the rest is unknown. */
lk_status lk_table_team_reach(const struct lk_table_builder *builder, const lk_team *team,
                              uint32_t chain, lk_group_shape *shape, lk_error *err) {
	uint32_t members = team->end - team->begin,
			 chains = team->across ? builder->graph->ranks.chains : 1;
	uint64_t held = (uint64_t)members * chains;
	if (builder->cluster->net.kind == LK_NET_FLAT || shape->nodes < 2 || !held) return LK_OK;
	uint32_t *rank = malloc(team->ranks * sizeof *rank), last = 0, apart = 1;
	if (!rank) return lk_oom(err);
	for (uint64_t i = 0; i < team->ranks; i++) {
		if (i >= held) {
			rank[i] = last += apart;
			continue;
		}
		bool traced = builder->graph->traced; /* the order of ranks, as in lie_of */
		uint32_t m = (uint32_t)(traced ? i % members : i / chains),
				 k = (uint32_t)(traced ? i / members : i % chains);
		rank[i] = table_rank_at(builder, builder->graph->team_stages.at[team->begin + m],
		                        team->across ? k : chain);
		if (i > 0 && rank[i] > last) apart = rank[i] - last;
		last = rank[i];
	}
	lk_status status = lk_reach_alone(builder->arena, builder->cluster, shape, rank,
	                                  builder->flows[LK_GROUP_TEAM], &shape->reach, err);
	free(rank);
	return status;
}

/* Add the placement of its teams to every chain's key, and find the first chain of its class. */
static lk_status classify_teams(struct lk_table_builder *builder, uint64_t *key,
                                uint32_t *team_chain, lk_error *err) {
	const lk_graph *graph = builder->graph;
	for (uint32_t chain = 0; chain < graph->ranks.chains; chain++) {
		uint64_t own = 0;
		for (size_t i = 0; i < graph->teams.count; i++) {
			if (graph->teams.at[i].across) continue; /* equal for all */
			struct lk_lie lie = lie_of(builder, &graph->teams.at[i], chain);
			own = table_mix(
				table_mix(own, (uint64_t)(uint32_t)lie.nodes << 32 | (uint32_t)lie.per_node),
				(uint64_t)(lie.slowest - builder->cluster->node));
		}
		size_t known = builder->team_classes.count;
		while (known > 0 && builder->team_classes.at[known - 1].key != own) known--;
		if (!known) {
			if (builder->team_classes.count == MOST_VARIANTS) return table_too_many(err);
			if (!lk_push(&builder->team_classes)) return lk_oom(err);
			*lk_last(&builder->team_classes) = (struct lk_team_class){own, chain};
			known = builder->team_classes.count;
		}
		team_chain[chain] = builder->team_classes.at[known - 1].chain;
		if (graph->teams.count) key[chain] = table_mix(key[chain], own);
	}
	return LK_OK;
}

/* Groups across stages have the same placement for all stages of a chain: examined once. */
static void chain_keys(const struct lk_table_builder *builder, uint64_t *key) {
	const int kinds[] = {LK_GROUP_PP, LK_GROUP_EMBEDDING, LK_GROUP_MODEL};
	for (uint32_t chain = 0; chain < builder->graph->ranks.chains; chain++) {
		struct lk_signature s;
		memset(&s, 0, sizeof s);
		key[chain] = 0;
		for (int i = 0; i < 3; i++) {
			across_shape(builder, chain, kinds[i], &s);
			const lk_node *slowest = s.group[kinds[i]].slowest;
			uint64_t lies = (uint64_t)(uint32_t)s.group[kinds[i]].nodes << 32 |
			                (uint32_t)s.group[kinds[i]].per_node;
			key[chain] =
				table_mix(table_mix(key[chain], lies),
			              slowest ? (uint64_t)(slowest - builder->cluster->node) : UINT64_MAX);
		}
	}
}

static void stage_keys(const struct lk_table_builder *builder, uint32_t stage,
                       const uint64_t *across, uint64_t *key) {
	LK_ASSERT(stage < builder->graph->ranks.stages);
	const lk_ranks *ranks = &builder->graph->ranks;
	uint32_t world = ranks->world;
	for (uint32_t chain = 0; chain < ranks->chains; chain++) {
		uint32_t rank = table_rank_at(builder, stage, chain),
				 step = builder->graph->traced ? 0 : ranks->chains;
		uint32_t next = rank + step < world ? rank + step : rank + step - world;
		uint32_t before = rank >= step ? rank - step : rank + world - step;
		key[chain] = builder->kind_of[rank] * 4u +
		             (builder->node_of[next] == builder->node_of[rank]) * 2u +
		             (builder->node_of[before] == builder->node_of[rank]);
		key[chain] = table_mix(key[chain], across[chain]);
	}
	for (int kind = 1; kind < LK_GROUPS; kind++) mix_groups(builder, stage, kind, key);
	for (int kind = 1; builder->reach && kind < LK_GROUPS; kind++)
		for (uint32_t chain = 0; chain < ranks->chains; chain++)
			key[chain] = table_mix(
				key[chain],
				(uintptr_t)
					builder->reach[(size_t)kind * world + table_rank_at(builder, stage, chain)]);
}

/* Whether nodes are equal and every stage begins at a node: then all stages have the placement of
 * the first. */
static bool stages_lie_alike(const struct lk_table_builder *builder) {
	const lk_ranks *ranks = &builder->graph->ranks;
	const lk_cluster *cluster = builder->cluster;
	int64_t gpus = cluster->node[0].gpus;
	return !builder->graph->traced && !builder->reach && cluster->groups == 1 && gpus > 0 &&
	       ranks->chains % gpus == 0 && cluster->nodes[0] * gpus >= ranks->world;
}

static bool divides_either(uint64_t a, uint64_t b) {
	return a % b == 0 || b % a == 0;
}

/* Whether chains lie like those a node before: their place on the node decides the placement of
 * every group. */
static bool chains_repeat(const struct lk_table_builder *builder) {
	const lk_ranks *ranks = &builder->graph->ranks;
	if (!stages_lie_alike(builder) || builder->graph->teams.count) return false;
	uint64_t gpus = (uint64_t)builder->cluster->node[0].gpus;
	for (int kind = 1; kind < LK_GROUPS; kind++) {
		uint64_t size = ranks->group[kind].size, stride = ranks->group[kind].stride;
		if (size <= 1 || lk_group_crosses_stages(kind)) continue;
		if (!divides_either(stride, gpus) || !divides_either(size * stride, gpus)) return false;
	}
	return true;
}

/* Find the variants of a node's ranks, which all others repeat. *variant_of is left NULL if there
 * is one. */
static lk_status find_repeated(struct lk_table_builder *builder, uint16_t **variant_of_rank,
                               lk_error *err) {
	uint32_t gpus = (uint32_t)builder->cluster->node[0].gpus;
	uint32_t world = builder->graph->ranks.world;
	uint16_t *variant = LK_ARRAY(builder->arena, uint16_t, gpus);
	if (!variant) return lk_oom(err);
	for (uint32_t chain = 0; chain < gpus; chain++) {
		struct lk_signature s;
		signature(builder, 0, chain, 0, &s);
		LK_TRY(variant_of(builder, &s, &variant[chain], err));
	}
	if (builder->count == 1) return LK_OK;
	uint16_t *all = *variant_of_rank = LK_ARRAY(builder->arena, uint16_t, world);
	if (!all) return lk_oom(err);
	memcpy(all, variant, gpus * sizeof *all);
	for (uint32_t rank = gpus; rank < world; rank++) all[rank] = all[rank - gpus];
	return LK_OK;
}

static lk_status find_variants(struct lk_table_builder *builder, uint16_t *variant, uint64_t *key,
                               uint64_t *across, uint32_t *team_chain, lk_error *err) {
	const lk_ranks *ranks = &builder->graph->ranks;
	chain_keys(builder, across);
	LK_TRY(classify_teams(builder, across, team_chain, err));
	bool alike = stages_lie_alike(builder);
	for (uint32_t stage = 0; stage < ranks->stages; stage++) {
		if (alike && stage > 0) {
			memcpy(&variant[(size_t)stage * ranks->chains], variant,
			       ranks->chains * sizeof *variant);
			continue;
		}
		stage_keys(builder, stage, across, key);
		for (uint32_t chain = 0; chain < ranks->chains; chain++) {
			uint16_t *out = &variant[table_rank_at(builder, stage, chain)];
			if (chain > 0 && key[chain] == key[chain - 1]) {
				*out = *(out - builder->chain_step);
				continue;
			}
			struct lk_signature s;
			signature(builder, stage, chain, team_chain[chain], &s);
			LK_TRY(variant_of(builder, &s, out, err));
		}
	}
	return LK_OK;
}

/* Find the kinds of places, and the place of each rank. */
lk_status lk_table_find_places(struct lk_table_builder *builder, lk_arena *arena,
                               uint16_t **variant_of, lk_error *err) {
	const lk_ranks *ranks = &builder->graph->ranks;
	*variant_of = NULL;
	lk_placement placement = {builder->graph, builder->cluster, builder->stage_step,
	                          builder->chain_step};
	if (builder->kept) lk_reach_traffic_usual(builder->flows);
	else lk_reach_traffic(builder->graph, builder->flows);
	builder->arena = arena;
	LK_TRY(lk_reaches_find(arena, &placement, builder->flows, &builder->reach, err));
	if (chains_repeat(builder)) return find_repeated(builder, variant_of, err);
	LK_TRY(place_ranks(builder, err));
	*variant_of = LK_ARRAY(arena, uint16_t, ranks->world);
	uint64_t *key = LK_ARRAY(arena, uint64_t, ranks->chains),
			 *across = LK_ARRAY(arena, uint64_t, ranks->chains);
	uint32_t *team_chain = LK_ARRAY(arena, uint32_t, ranks->chains);
	builder->teams = LK_ARRAY(arena, lk_group_shape, builder->graph->teams.count);
	if (!*variant_of || !key || !across || !team_chain || !builder->teams) return lk_oom(err);
	return find_variants(builder, *variant_of, key, across, team_chain, err);
}
