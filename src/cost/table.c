/* table.c: costs of every operation on every kind of site: each variant of places (table_places.c)
 * is priced once. */
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "cost/cost.h"
#include "cost/table_places.h"
#include "system/parallel.h"

static lk_group_shape group_shape(const struct lk_table_builder *builder,
                                  const struct lk_signature *signature, int kind) {
	int ranks = (int)lk_table_group_ranks(&builder->graph->ranks, kind);
	int per_node = signature->group[kind].per_node > 0 ? signature->group[kind].per_node : 1;
	const lk_node *node =
		signature->group[kind].slowest ? signature->group[kind].slowest : signature->node;
	int sharing =
		signature->group[kind].nodes > 1 || kind == LK_GROUP_PP ? node->gpus / per_node : 1;
	return (lk_group_shape){
		.node = node,
		.ranks = ranks,
		.nodes = signature->group[kind].nodes > 0 ? signature->group[kind].nodes : 1,
		.ranks_per_node = per_node,
		.apart = (int)(builder->graph->ranks.group[kind].stride * builder->chain_step),
		.sharing = sharing > 0 ? sharing : 1,
		.oversubscription = builder->cluster->oversubscription,
		.settings = &builder->options->constants->nccl,
		.reach = signature->group[kind].reach,
	};
}

/* `groups` has LK_GROUPS entries. */
static lk_cost_site table_site_of(const struct lk_table_builder *builder,
                                  const struct lk_signature *signature, lk_group_shape *groups) {
	for (int kind = 0; kind < LK_GROUPS; kind++)
		groups[kind] = group_shape(builder, signature, kind);
	lk_cost_site site = {
		.constants = builder->options->constants,
		.node = signature->node,
		.groups = groups,
		.teams = builder->teams,
		.peer_same_node = {signature->peer_same_node[0], signature->peer_same_node[1]},
		.oversubscription = builder->cluster->oversubscription,
		.cuda_graphs = builder->options->cuda_graphs,
		.compiled = builder->options->compiled,
		.experts_eager = builder->options->experts_eager,
	};
	lk_step_products(site.node->device, site.products);
	return site;
}

enum {
	SHARE = 2048 /* operations that a thread prices at a time */
};

typedef struct lk_site_pricing {
	const struct lk_table_builder *builder;
	const lk_cost_site *site;
	lk_cost *out;
} lk_site_pricing;

static lk_status price_share(void *context, size_t share, lk_error *err) {
	const lk_site_pricing *pricing = context;
	const struct lk_table_builder *builder = pricing->builder;
	const bool *only = builder->options->only;
	uint32_t count = builder->graph->ops.count, end = (uint32_t)(share + 1) * SHARE;
	(void)err;
	for (uint32_t op = (uint32_t)share * SHARE; op < end && op < count; op++) {
		if (only && !only[op]) memset(&pricing->out[op], 0, sizeof *pricing->out);
		else
			pricing->out[op] =
				lk_cost_cached(builder->options->cache, builder->graph, op, pricing->site);
	}
	return LK_OK;
}

/* Price all operations at a site. A trace has many distinct ones; a cache belongs to one thread. */
static lk_status cost_site(const struct lk_table_builder *builder, const lk_cost_site *site,
                           lk_cost *out, lk_error *err) {
	lk_site_pricing pricing = {builder, site, out};
	size_t shares = ((size_t)builder->graph->ops.count + SHARE - 1) / SHARE;
	return lk_parallel(shares, builder->options->cache ? 1 : 0, price_share, &pricing, err);
}

static lk_status cost_variant(const struct lk_table_builder *builder,
                              const struct lk_signature *signature, lk_cost *out, lk_error *err) {
	lk_group_shape groups[LK_GROUPS];
	for (size_t i = 0; i < builder->graph->teams.count; i++) {
		const lk_team *team = &builder->graph->teams.at[i];
		builder->teams[i] = lk_table_team_shape(builder, team, signature->team_chain);
		LK_TRY(lk_table_team_reach(builder, team, signature->team_chain, &builder->teams[i], err));
	}
	lk_cost_site site = table_site_of(builder, signature, groups);
	return cost_site(builder, &site, out, err);
}

static lk_status table_build(struct lk_table_builder *builder, lk_arena *arena, lk_costs *out,
                             lk_error *err) {
	LK_TRY(lk_table_find_places(builder, arena, &out->variant_of, err));
	out->variants = (uint32_t)builder->count;
	out->ops = builder->graph->ops.count;
	out->at = lk_arena_array(arena, (size_t)out->variants * out->ops, sizeof *out->at);
	if (!out->at) return lk_oom(err);
	for (uint32_t v = 0; v < out->variants; v++)
		LK_TRY(cost_variant(builder, &builder->known[v], &out->at[(size_t)v * out->ops], err));
	if (out->variants == 1) out->variant_of = NULL;
	return LK_OK;
}

static lk_status table_begin(struct lk_table_builder *builder, const lk_graph *graph,
                             const lk_cluster *cluster, const lk_cost_options *options,
                             lk_error *err) {
	if (cluster->groups > LK_TABLE_KINDS)
		return lk_fail(err, LK_ERR_INPUT, "cluster", "more than %d kinds of nodes", LK_TABLE_KINDS);
	*builder = (struct lk_table_builder){.graph = graph, .cluster = cluster, .options = options};
	for (int g = 0; g < cluster->groups; g++)
		builder->begin[g + 1] =
			builder->begin[g] + (uint64_t)cluster->nodes[g] * (uint64_t)cluster->node[g].gpus;
	builder->stage_step = graph->traced ? 1 : graph->ranks.chains;
	builder->chain_step = graph->traced ? graph->ranks.stages : 1;
	return LK_OK;
}

static void table_end(struct lk_table_builder *builder) {
	free(builder->known);
	lk_vec_free(&builder->team_classes);
}

/* Move them to the cache's memory, which outlives the search for places. */
static lk_status keep_reaches(struct lk_signature *signature, lk_arena *arena, lk_error *err) {
	for (int kind = 1; kind < LK_GROUPS; kind++) {
		if (!signature->group[kind].reach) continue;
		lk_reach *kept = LK_NEW(arena, lk_reach);
		if (!kept) return lk_oom(err);
		*kept = *signature->group[kind].reach;
		signature->group[kind].reach = kept;
	}
	return LK_OK;
}

/* Keep places as sites, in the cache's memory. */
static lk_status keep_sites(struct lk_table_builder *builder, lk_cost_cache *cache,
                            const lk_cost_sites **out, lk_error *err) {
	lk_arena *arena, scratch = LK_ARENA_INIT;
	uint16_t *variant_of;
	lk_status status = lk_table_find_places(builder, &scratch, &variant_of, err);
	lk_cost_sites *sites = NULL;
	if (status == LK_OK) {
		sites = lk_cost_cache_add_sites(cache, builder->graph, builder->cluster, builder->options,
		                                &arena);
		if (!sites) status = lk_oom(err);
	}
	lk_group_shape *groups = NULL;
	if (status == LK_OK) {
		sites->at = LK_ARRAY(arena, lk_cost_site, builder->count);
		groups = LK_ARRAY(arena, lk_group_shape, builder->count * LK_GROUPS);
		if (builder->count > 1)
			sites->variant_of = LK_ARRAY(arena, uint16_t, builder->graph->ranks.world);
		if (!sites->at || !groups || (builder->count > 1 && !sites->variant_of))
			status = lk_oom(err);
	}
	if (status == LK_OK) {
		builder->teams = NULL;
		sites->count = (uint32_t)builder->count;
		for (size_t v = 0; v < builder->count && status == LK_OK; v++) {
			status = keep_reaches(&builder->known[v], arena, err);
			sites->at[v] = table_site_of(builder, &builder->known[v], groups + v * LK_GROUPS);
		}
		if (builder->count > 1)
			memcpy(sites->variant_of, variant_of, builder->graph->ranks.world * sizeof *variant_of);
		*out = sites;
	}
	lk_arena_free(&scratch);
	return status;
}

lk_status lk_cost_sites_find(lk_cost_cache *cache, const lk_graph *graph, const lk_cluster *cluster,
                             const lk_cost_options *options, const lk_cost_sites **out,
                             lk_error *err) {
	*out = lk_cost_cache_sites(cache, graph, cluster, options);
	if (*out && (*out)->count > 0) return LK_OK;
	struct lk_table_builder t;
	lk_status status = table_begin(&t, graph, cluster, options, err);
	t.kept = true;
	if (status == LK_OK) status = keep_sites(&t, cache, out, err);
	table_end(&t);
	return status;
}

/* Build the table from the places in the cache. The cache's memory outlives the table. */
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
	for (uint32_t v = 0; v < out->variants; v++)
		LK_TRY(cost_site(&t, &sites->at[v], &out->at[(size_t)v * out->ops], err));
	return LK_OK;
}

/* Whether kept sites describe all of its traffic. */
static bool table_may_keep(const lk_graph *graph, const lk_cluster *cluster) {
	unsigned used[LK_GROUPS] = {0}, usual[LK_GROUPS] = {0};
	bool kept = graph->teams.count == 0 && !graph->traced;
	if (!kept || cluster->net.kind == LK_NET_FLAT) return kept;
	lk_reach_traffic(graph, used);
	lk_reach_traffic_usual(usual);
	for (int kind = 1; kind < LK_GROUPS; kind++)
		if (used[kind] & ~usual[kind]) return false;
	return true;
}

lk_status lk_costs_build(lk_arena *arena, const lk_graph *graph, const lk_cluster *cluster,
                         const lk_cost_options *options, lk_costs *out, lk_error *err) {
	if (options->cache && table_may_keep(graph, cluster))
		return build_cached(arena, graph, cluster, options, out, err);
	struct lk_table_builder t;
	lk_status status = table_begin(&t, graph, cluster, options, err);
	if (status == LK_OK) status = table_build(&t, arena, out, err);
	table_end(&t);
	return status;
}
