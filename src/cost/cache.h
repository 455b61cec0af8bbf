/* cache.h: what a search has asked before. Private to cost/ and to searches that price single operations. */
#ifndef LK_COST_CACHE_H
#define LK_COST_CACHE_H

#include "cost/cost.h"

/* lk_cost_op, remembered; cache NULL: asked anew. */
lk_cost lk_cost_cached(lk_cost_cache *cache, const lk_graph *graph, uint32_t op, const lk_cost_site *site);

/* The kinds of places that a graph's ranks have on a cluster: a site for each, and which rank has which. */
typedef struct lk_cost_sites {
	uint32_t count;
	lk_cost_site *at;
	uint16_t *variant_of;    /* as in lk_costs; NULL when there is one site alone */
} lk_cost_sites;

/* Sites of a graph without teams; remembered by the cache, which owns them. */
lk_status lk_cost_sites_find(lk_cost_cache *cache, const lk_graph *graph, const lk_cluster *cluster,
                             const lk_cost_options *options, const lk_cost_sites **out, lk_error *err);

/* cache.c, for table.c: what was found for these ranks; NULL nothing yet. */
const lk_cost_sites *lk_cost_cache_sites(const lk_cost_cache *cache, const lk_graph *graph, const lk_cluster *cluster,
                                         const lk_cost_options *options);
/* Room for it, to be filled with memory of the arena; NULL when memory is out. */
lk_cost_sites *lk_cost_cache_add_sites(lk_cost_cache *cache, const lk_graph *graph, const lk_cluster *cluster,
                                       const lk_cost_options *options, lk_arena **arena);

#endif
