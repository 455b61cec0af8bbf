/* table.c: costs of every operation on every kind of site. Ranks whose groups lie alike on nodes alike share a variant;
 * the usual job, aligned on equal nodes, has one or two. */
#include <stdlib.h>
#include <string.h>

#include "base/stats.h"
#include "cost/cost.h"

enum { MOST_VARIANTS = 4096 };

/* What makes two ranks' costs differ. */
struct lk_signature {
	const lk_node *node;
	struct {
		int32_t nodes, per_node;
		const lk_node *slowest;
	} group[LK_GROUPS];
	bool peer_same_node[2];
	uint32_t team_chain; /* first chain whose teams lie as this one's */
};

/* Chains whose teams lie alike on nodes alike. */
struct lk_team_class {
	uint64_t key;
	uint32_t chain; /* the first one */
};

struct lk_table_builder {
	const lk_graph *graph;
	const lk_cluster *cluster;
	const lk_cost_options *options;
	uint32_t stage_step, chain_step; /* from a rank to its like on the next stage, of the next chain */
	struct lk_signature *known;
	size_t count, capacity;
	LK_VEC(struct lk_team_class) team_classes;
	lk_group_shape *teams; /* of one variant */
	int32_t *node_of; /* [world] */
	uint8_t *kind_of; /* [world] node group, at most 255 kinds matter */
};

static const lk_node *node_at(const struct lk_table_builder *t, uint32_t rank) {
	return &t->cluster->node[t->kind_of[rank]];
}

/* Places of all ranks, node by node: cheaper than asking for each rank. */
static void place_ranks(struct lk_table_builder *t, uint32_t world) {
	uint32_t rank = 0;
	int32_t node = 0;
	for (int g = 0; g < t->cluster->groups; g++)
		for (int i = 0; i < t->cluster->nodes[g]; i++, node++)
			for (int slot = 0; slot < t->cluster->node[g].gpus && rank < world; slot++, rank++) {
				t->node_of[rank] = node;
				t->kind_of[rank] = (uint8_t)g;
			}
	for (; rank < world; rank++) t->node_of[rank] = node, t->kind_of[rank] = 0;
}

static double speed(const lk_node *node) {
	return node->intra_rate + node->nics * node->nic_rate;
}

static uint32_t rank_at(const struct lk_table_builder *t, uint32_t stage, uint32_t chain) {
	return stage * t->stage_step + chain * t->chain_step;
}

/* Members come in rank order, so those of one node stand together. */
static void shape_of(const struct lk_table_builder *t, uint32_t first, uint32_t size, uint32_t stride, struct lk_signature *s,
					 int kind) {
	int32_t nodes = 0, run = 0, most = 0, last = -1;
	const lk_node *slowest = node_at(t, first);
	for (uint32_t i = 0; i < size; i++) {
		uint32_t rank = first + i * stride;
		if (t->node_of[rank] != last) nodes++, run = 0, last = t->node_of[rank];
		if (++run > most) most = run;
		if (t->cluster->groups > 1 && speed(node_at(t, rank)) < speed(slowest)) slowest = node_at(t, rank);
	}
	s->group[kind].nodes = nodes;
	s->group[kind].per_node = most;
	s->group[kind].slowest = slowest;
}

static bool across_stages(int kind) {
	return kind == LK_GROUP_PP || kind == LK_GROUP_EMBEDDING || kind == LK_GROUP_MODEL;
}

static uint32_t group_ranks(const lk_ranks *r, int kind) {
	return kind == LK_GROUP_MODEL ? r->group[kind].size * r->stages : r->group[kind].size;
}

/* Only tiny messages, or a pair: all stages of this chain, first to last. */
static void across_shape(const struct lk_table_builder *t, uint32_t chain, int kind, struct lk_signature *s) {
	const lk_ranks *r = &t->graph->ranks;
	if (group_ranks(r, kind) <= 1) return;
	bool ends = kind == LK_GROUP_EMBEDDING;
	uint32_t step = ends ? (r->stages - 1) * t->stage_step : t->stage_step;
	shape_of(t, rank_at(t, 0, chain), ends ? 2 : r->stages, step, s, kind);
}

static void signature(const struct lk_table_builder *t, uint32_t stage, uint32_t chain, uint32_t team_chain, struct lk_signature *s) {
	const lk_ranks *r = &t->graph->ranks;
	uint32_t rank = rank_at(t, stage, chain);
	memset(s, 0, sizeof *s);
	s->node = node_at(t, rank);
	for (int kind = 1; kind < LK_GROUPS; kind++) {
		uint32_t size = r->group[kind].size, stride = r->group[kind].stride;
		if (group_ranks(r, kind) <= 1) continue;
		if (across_stages(kind)) {
			across_shape(t, chain, kind, s);
		} else if (r->chains % ((uint64_t)size * stride) == 0) { /* else nothing uses it: graph_check.c */
			uint32_t first = chain / (size * stride) * (size * stride) + chain % stride;
			shape_of(t, rank_at(t, stage, first), size, stride * t->chain_step, s, kind);
		}
	}
	s->team_chain = team_chain;
	if (t->graph->traced) return; /* no wires: messages are of teams */
	uint32_t world = r->world;
	s->peer_same_node[0] = t->node_of[(rank + r->chains) % world] == t->node_of[rank];
	s->peer_same_node[1] = t->node_of[(rank + world - r->chains) % world] == t->node_of[rank];
}

static lk_status too_many(lk_error *err) {
	return lk_fail(err, LK_ERR_INPUT, "cluster", "more than %d different kinds of places for ranks; use more regular nodes",
	               MOST_VARIANTS);
}

static lk_status variant_of(struct lk_table_builder *t, const struct lk_signature *s, uint16_t *variant, lk_error *err) {
	for (size_t i = t->count; i-- > 0;)
		if (memcmp(&t->known[i], s, sizeof *s) == 0) return *variant = (uint16_t)i, LK_OK;
	if (t->count == MOST_VARIANTS) return too_many(err);
	if (t->count == t->capacity) {
		size_t capacity = t->capacity ? t->capacity * 2 : 8;
		struct lk_signature *grown = realloc(t->known, capacity * sizeof *grown);
		if (!grown) return lk_oom(err);
		t->known = grown, t->capacity = capacity;
	}
	*variant = (uint16_t)t->count;
	t->known[t->count++] = *s;
	return LK_OK;
}

/* Keys instead of signatures: every group is looked at once and tells all its members how it lies. One addition per
 * rank and kind of group, no divisions: 131,072 ranks take milliseconds. */
static uint64_t mix(uint64_t key, uint64_t value) {
	return lk_hash64(key ^ (value + 0x9e3779b97f4a7c15u));
}

static void mix_groups(const struct lk_table_builder *t, uint32_t stage, int kind, uint64_t *key) {
	const lk_ranks *r = &t->graph->ranks;
	uint32_t size = r->group[kind].size, stride = r->group[kind].stride;
	if (size <= 1 || across_stages(kind)) return;
	for (uint32_t block = 0; block + size * stride <= r->chains; block += size * stride)
		for (uint32_t offset = 0; offset < stride; offset++) {
			struct lk_signature s;
			uint32_t first = block + offset;
			shape_of(t, rank_at(t, stage, first), size, stride * t->chain_step, &s, kind);
			uint64_t lies = (uint64_t)(uint32_t)s.group[kind].nodes << 32 | (uint32_t)s.group[kind].per_node;
			lies = mix(lies, (uint64_t)(s.group[kind].slowest - t->cluster->node) * LK_GROUPS + (unsigned)kind);
			for (uint32_t i = 0; i < size; i++) key[first + i * stride] = mix(key[first + i * stride], lies);
		}
}

/* Where the members of a team lie, as nodes and most ranks of a node; across chains, those of all chains. */
struct lk_lie {
	int32_t nodes, per_node;
	const lk_node *slowest;
};

struct lk_lie_count {
	struct lk_lie lie;
	int32_t last, run;
	uint32_t first_rank, last_rank, ranks;
};

static void count_member(const struct lk_table_builder *t, uint32_t rank, struct lk_lie_count *c) {
	const lk_node *node = node_at(t, rank);
	if (!c->ranks++) c->first_rank = rank, c->lie.slowest = node, c->last = -1;
	c->last_rank = rank;
	if (t->node_of[rank] != c->last) c->lie.nodes++, c->run = 0, c->last = t->node_of[rank];
	if (++c->run > c->lie.per_node) c->lie.per_node = c->run;
	if (speed(node) < speed(c->lie.slowest)) c->lie.slowest = node;
}

/* Members that the graph does not hold go on as those that it holds begin: as far apart, one alone next to its like. */
static void extend(uint32_t ranks, struct lk_lie_count *c) {
	uint32_t apart = c->ranks > 1 ? (c->last_rank - c->first_rank) / (c->ranks - 1) : 1;
	uint32_t gpus = c->lie.slowest->gpus > 0 ? (uint32_t)c->lie.slowest->gpus : 1;
	uint32_t per_node = apart < gpus ? gpus / (apart ? apart : 1) : 1;
	if (per_node > ranks) per_node = ranks;
	c->lie.per_node = (int32_t)per_node;
	c->lie.nodes = (int32_t)((ranks + per_node - 1) / per_node);
}

static struct lk_lie lie_of(const struct lk_table_builder *t, const lk_team *team, uint32_t chain) {
	struct lk_lie_count c = {0};
	const uint32_t *stages = t->graph->team_stages.at;
	uint32_t members = team->end - team->begin, chains = team->across ? t->graph->ranks.chains : 1;
	bool traced = t->graph->traced; /* in the order of ranks: chain by chain, or stage by stage */
	for (uint64_t i = 0; i < (uint64_t)members * chains; i++) {
		uint32_t m = (uint32_t)(traced ? i % members : i / chains), k = (uint32_t)(traced ? i / members : i % chains);
		count_member(t, rank_at(t, stages[team->begin + m], team->across ? k : chain), &c);
	}
	if (!c.ranks) c.lie = (struct lk_lie){1, 1, &t->cluster->node[0]};
	else if (team->ranks > c.ranks) extend(team->ranks, &c);
	return c.lie;
}

static lk_group_shape team_shape(const struct lk_table_builder *t, const lk_team *team, uint32_t chain) {
	struct lk_lie lie = lie_of(t, team, chain);
	int sharing = lie.nodes > 1 ? lie.slowest->gpus / lie.per_node : 1;
	return (lk_group_shape){
		.node = lie.slowest,
		.ranks = (int)team->ranks,
		.nodes = lie.nodes,
		.ranks_per_node = lie.per_node,
		.sharing = sharing > 0 ? sharing : 1,
		.oversubscription = t->cluster->oversubscription,
	};
}

/* Adds to every chain's key how its teams lie, and finds the first chain of its class. */
static lk_status classify_teams(struct lk_table_builder *t, uint64_t *key, uint32_t *team_chain, lk_error *err) {
	const lk_graph *graph = t->graph;
	for (uint32_t chain = 0; chain < graph->ranks.chains; chain++) {
		uint64_t own = 0;
		for (size_t i = 0; i < graph->teams.count; i++) {
			if (graph->teams.at[i].across) continue; /* the same for all */
			struct lk_lie lie = lie_of(t, &graph->teams.at[i], chain);
			own = mix(mix(own, (uint64_t)(uint32_t)lie.nodes << 32 | (uint32_t)lie.per_node),
			          (uint64_t)(lie.slowest - t->cluster->node));
		}
		size_t known = t->team_classes.count;
		while (known > 0 && t->team_classes.at[known - 1].key != own) known--;
		if (!known) {
			if (t->team_classes.count == MOST_VARIANTS) return too_many(err);
			if (!lk_push(&t->team_classes)) return lk_oom(err);
			*lk_last(&t->team_classes) = (struct lk_team_class){own, chain};
			known = t->team_classes.count;
		}
		team_chain[chain] = t->team_classes.at[known - 1].chain;
		if (graph->teams.count) key[chain] = mix(key[chain], own);
	}
	return LK_OK;
}

/* Groups across stages lie the same for all stages of a chain: looked at once. */
static void chain_keys(const struct lk_table_builder *t, uint64_t *key) {
	const int kinds[] = {LK_GROUP_PP, LK_GROUP_EMBEDDING, LK_GROUP_MODEL};
	for (uint32_t chain = 0; chain < t->graph->ranks.chains; chain++) {
		struct lk_signature s;
		memset(&s, 0, sizeof s);
		key[chain] = 0;
		for (int i = 0; i < 3; i++) {
			across_shape(t, chain, kinds[i], &s);
			const lk_node *slowest = s.group[kinds[i]].slowest;
			uint64_t lies = (uint64_t)(uint32_t)s.group[kinds[i]].nodes << 32 | (uint32_t)s.group[kinds[i]].per_node;
			key[chain] = mix(mix(key[chain], lies), slowest ? (uint64_t)(slowest - t->cluster->node) : UINT64_MAX);
		}
	}
}

static void stage_keys(const struct lk_table_builder *t, uint32_t stage, const uint64_t *across, uint64_t *key) {
	const lk_ranks *r = &t->graph->ranks;
	uint32_t world = r->world;
	for (uint32_t chain = 0; chain < r->chains; chain++) {
		uint32_t rank = rank_at(t, stage, chain), step = t->graph->traced ? 0 : r->chains;
		uint32_t next = rank + step < world ? rank + step : rank + step - world;
		uint32_t before = rank >= step ? rank - step : rank + world - step;
		key[chain] = t->kind_of[rank] * 4u + (t->node_of[next] == t->node_of[rank]) * 2u +
					 (t->node_of[before] == t->node_of[rank]);
		key[chain] = mix(key[chain], across[chain]);
	}
	for (int kind = 1; kind < LK_GROUPS; kind++) mix_groups(t, stage, kind, key);
}

/* Nodes alike, and every stage begins at a node: all stages lie as the first does. */
static bool stages_lie_alike(const struct lk_table_builder *t) {
	const lk_ranks *r = &t->graph->ranks;
	const lk_cluster *c = t->cluster;
	int64_t gpus = c->node[0].gpus;
	return !t->graph->traced && c->groups == 1 && gpus > 0 && r->chains % gpus == 0 && c->nodes[0] * gpus >= r->world;
}

static lk_status find_variants(struct lk_table_builder *t, uint16_t *variant, uint64_t *key, uint64_t *across,
                               uint32_t *team_chain, lk_error *err) {
	const lk_ranks *r = &t->graph->ranks;
	chain_keys(t, across);
	LK_TRY(classify_teams(t, across, team_chain, err));
	bool alike = stages_lie_alike(t);
	for (uint32_t stage = 0; stage < r->stages; stage++) {
		if (alike && stage > 0) {
			memcpy(&variant[(size_t)stage * r->chains], variant, r->chains * sizeof *variant);
			continue;
		}
		stage_keys(t, stage, across, key);
		for (uint32_t chain = 0; chain < r->chains; chain++) {
			uint16_t *out = &variant[rank_at(t, stage, chain)];
			if (chain > 0 && key[chain] == key[chain - 1]) {
				*out = *(out - t->chain_step);
				continue;
			}
			struct lk_signature s;
			signature(t, stage, chain, team_chain[chain], &s);
			LK_TRY(variant_of(t, &s, out, err));
		}
	}
	return LK_OK;
}

static lk_group_shape group_shape(const struct lk_table_builder *t, const struct lk_signature *s, int kind) {
	int ranks = (int)group_ranks(&t->graph->ranks, kind);
	int per_node = s->group[kind].per_node > 0 ? s->group[kind].per_node : 1;
	const lk_node *node = s->group[kind].slowest ? s->group[kind].slowest : s->node;
	int sharing = s->group[kind].nodes > 1 || kind == LK_GROUP_PP ? node->gpus / per_node : 1;
	return (lk_group_shape){
		.node = node,
		.ranks = ranks,
		.nodes = s->group[kind].nodes > 0 ? s->group[kind].nodes : 1,
		.ranks_per_node = per_node,
		.sharing = sharing > 0 ? sharing : 1,
		.oversubscription = t->cluster->oversubscription,
	};
}

/* `groups` is of LK_GROUPS. */
static lk_cost_site site_of(const struct lk_table_builder *t, const struct lk_signature *s, lk_group_shape *groups) {
	for (int kind = 0; kind < LK_GROUPS; kind++) groups[kind] = group_shape(t, s, kind);
	return (lk_cost_site){
		.constants = t->options->constants,
		.node = s->node,
		.groups = groups,
		.teams = t->teams,
		.peer_same_node = {s->peer_same_node[0], s->peer_same_node[1]},
		.oversubscription = t->cluster->oversubscription,
		.cuda_graphs = t->options->cuda_graphs,
		.compiled = t->options->compiled,
		.experts_eager = t->options->experts_eager,
	};
}

static void cost_site(const struct lk_table_builder *t, const lk_cost_site *site, lk_cost *out) {
	for (uint32_t op = 0; op < t->graph->ops.count; op++) out[op] = lk_cost_cached(t->options->cache, t->graph, op, site);
}

static void cost_variant(const struct lk_table_builder *t, const struct lk_signature *s, lk_cost *out) {
	lk_group_shape groups[LK_GROUPS];
	for (size_t i = 0; i < t->graph->teams.count; i++) t->teams[i] = team_shape(t, &t->graph->teams.at[i], s->team_chain);
	lk_cost_site site = site_of(t, s, groups);
	cost_site(t, &site, out);
}

/* Kinds of places, and the place of each rank. */
static lk_status find_places(struct lk_table_builder *t, lk_arena *arena, uint16_t **variant_of, lk_error *err) {
	const lk_ranks *r = &t->graph->ranks;
	*variant_of = LK_ARRAY(arena, uint16_t, r->world);
	if (!*variant_of) return lk_oom(err);
	place_ranks(t, r->world);
	uint64_t *key = LK_ARRAY(arena, uint64_t, r->chains), *across = LK_ARRAY(arena, uint64_t, r->chains);
	uint32_t *team_chain = LK_ARRAY(arena, uint32_t, r->chains);
	t->teams = LK_ARRAY(arena, lk_group_shape, t->graph->teams.count);
	if (!key || !across || !team_chain || !t->teams) return lk_oom(err);
	return find_variants(t, *variant_of, key, across, team_chain, err);
}

static lk_status build(struct lk_table_builder *t, lk_arena *arena, lk_costs *out, lk_error *err) {
	LK_TRY(find_places(t, arena, &out->variant_of, err));
	out->variants = (uint32_t)t->count;
	out->ops = t->graph->ops.count;
	out->at = lk_arena_array(arena, (size_t)out->variants * out->ops, sizeof *out->at);
	if (!out->at) return lk_oom(err);
	for (uint32_t v = 0; v < out->variants; v++) cost_variant(t, &t->known[v], &out->at[(size_t)v * out->ops]);
	if (out->variants == 1) out->variant_of = NULL;
	return LK_OK;
}

static lk_status begin(struct lk_table_builder *t, const lk_graph *graph, const lk_cluster *cluster,
                       const lk_cost_options *options, lk_error *err) {
	if (cluster->groups > 255) return lk_fail(err, LK_ERR_INPUT, "cluster", "more than 255 kinds of nodes");
	uint32_t world = graph->ranks.world;
	*t = (struct lk_table_builder){.graph = graph, .cluster = cluster, .options = options};
	t->stage_step = graph->traced ? 1 : graph->ranks.chains;
	t->chain_step = graph->traced ? graph->ranks.stages : 1;
	t->node_of = malloc(world * sizeof *t->node_of);
	t->kind_of = malloc(world);
	return t->node_of && t->kind_of ? LK_OK : lk_oom(err);
}

static void end(struct lk_table_builder *t) {
	free(t->node_of);
	free(t->kind_of);
	free(t->known);
	lk_vec_free(&t->team_classes);
}

/* Places as sites, in the cache's memory. */
static lk_status keep_sites(struct lk_table_builder *t, lk_cost_cache *cache, const lk_cost_sites **out, lk_error *err) {
	lk_arena *arena, scratch = LK_ARENA_INIT;
	uint16_t *variant_of;
	lk_status status = find_places(t, &scratch, &variant_of, err);
	lk_cost_sites *sites = NULL;
	if (status == LK_OK) {
		sites = lk_cost_cache_add_sites(cache, t->graph, t->cluster, t->options, &arena);
		if (!sites) status = lk_oom(err);
	}
	lk_group_shape *groups = NULL;
	if (status == LK_OK) {
		sites->at = LK_ARRAY(arena, lk_cost_site, t->count);
		groups = LK_ARRAY(arena, lk_group_shape, t->count * LK_GROUPS);
		if (t->count > 1) sites->variant_of = LK_ARRAY(arena, uint16_t, t->graph->ranks.world);
		if (!sites->at || !groups || (t->count > 1 && !sites->variant_of)) status = lk_oom(err);
	}
	if (status == LK_OK) {
		t->teams = NULL;
		sites->count = (uint32_t)t->count;
		for (size_t v = 0; v < t->count; v++) sites->at[v] = site_of(t, &t->known[v], groups + v * LK_GROUPS);
		if (t->count > 1) memcpy(sites->variant_of, variant_of, t->graph->ranks.world * sizeof *variant_of);
		*out = sites;
	}
	lk_arena_free(&scratch);
	return status;
}

lk_status lk_cost_sites_find(lk_cost_cache *cache, const lk_graph *graph, const lk_cluster *cluster,
                             const lk_cost_options *options, const lk_cost_sites **out, lk_error *err) {
	*out = lk_cost_cache_sites(cache, graph, cluster, options);
	if (*out && (*out)->count > 0) return LK_OK;
	struct lk_table_builder t;
	lk_status status = begin(&t, graph, cluster, options, err);
	if (status == LK_OK) status = keep_sites(&t, cache, out, err);
	end(&t);
	return status;
}

/* The table by what the cache knows of the places. The cache's memory lives longer than the table. */
static lk_status build_cached(lk_arena *arena, const lk_graph *graph, const lk_cluster *cluster,
                              const lk_cost_options *options, lk_costs *out, lk_error *err) {
	const lk_cost_sites *sites;
	struct lk_table_builder t = {.graph = graph, .options = options};
	LK_TRY(lk_cost_sites_find(options->cache, graph, cluster, options, &sites, err));
	out->variants = sites->count;
	out->ops = graph->ops.count;
	out->variant_of = sites->variant_of;
	out->at = lk_arena_array(arena, (size_t)out->variants * out->ops, sizeof *out->at);
	if (!out->at) return lk_oom(err);
	for (uint32_t v = 0; v < out->variants; v++) cost_site(&t, &sites->at[v], &out->at[(size_t)v * out->ops]);
	return LK_OK;
}

lk_status lk_costs_build(lk_arena *arena, const lk_graph *graph, const lk_cluster *cluster,
						 const lk_cost_options *options, lk_costs *out, lk_error *err) {
	if (options->cache && graph->teams.count == 0 && !graph->traced)
		return build_cached(arena, graph, cluster, options, out, err);
	struct lk_table_builder t;
	lk_status status = begin(&t, graph, cluster, options, err);
	if (status == LK_OK) status = build(&t, arena, out, err);
	end(&t);
	return status;
}
