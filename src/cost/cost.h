/* cost.h: from an operation and the hardware to a duration and resource use. One file per family;
 * the table in cost.c assigns kinds of operations to files. All models are stated in
 * docs/method/. */
#ifndef LK_COST_COST_H
#define LK_COST_COST_H

#include "cost/collective/collective.h"
#include "cost/kernel/kernel.h"
#include "graph/graph.h"

/* Cost of operation `op` of the graph. Never fails; every kind of operation but WAIT and MACRO has
 * a model. */
lk_cost lk_cost_op(const lk_graph *graph, uint32_t op, const lk_cost_site *site);
/* The product whose pieces a pipelined collective waits for or feeds: the next one after a gather,
 * the last one before a reduction. UINT32_MAX: none is near, so nothing is cut. */
uint32_t lk_cost_product_beside(const lk_ops *ops, uint32_t op);

/* Create what models derive from the current calibration: every question that prices operations
 * calls this first. LK_ERR_MEMORY. */
lk_status lk_cost_ready(lk_error *err);

/* Costs of all operations for every variant of site among the ranks. Most jobs have one variant. */
typedef struct lk_costs {
	uint32_t variants, ops;
	lk_cost *at;          /* [variants * ops] */
	uint16_t *variant_of; /* [stages * chains], by rank (lk_rank_of); NULL if there is only one
	                         variant */
} lk_costs;

/* Earlier results, for searches over many jobs on one cluster (cache.c): costs by their inputs, and
 * the kinds of places of a layout of ranks. Constants, nodes and clusters are compared by address,
 * so they must stay in place while the cache lives. Not thread-safe: one cache, one thread. */
typedef struct lk_cost_cache lk_cost_cache;
lk_cost_cache *lk_cost_cache_new(void); /* NULL when memory runs out */
void lk_cost_cache_free(lk_cost_cache *cache);

/* Choices of the job that costs depend on. */
typedef struct lk_cost_options {
	const lk_constants *constants;
	bool cuda_graphs, compiled, experts_eager;
	lk_cost_cache *cache; /* NULL: none */
	const bool *only;     /* [ops] which to price; the others cost nothing. NULL: all */
} lk_cost_options;

/* Fill `out` for all ranks of the graph on the cluster; memory from the arena. */
lk_status lk_costs_build(lk_arena *arena, const lk_graph *graph, const lk_cluster *cluster,
                         const lk_cost_options *options, lk_costs *out, lk_error *err);

static inline const lk_cost *lk_costs_get(const lk_costs *costs, uint32_t variant, uint32_t op) {
	return &costs->at[(size_t)variant * costs->ops + op];
}

/* Communication: the family of all collectives, sends and receives (comm.c). */
void lk_cost_comm(const lk_graph *graph, uint32_t op, const lk_cost_site *site, lk_cost *out);

/* Contention: progress rates, 0 to 1, of operations that share a device. `active` has `count`
 * costs; those with communicate[i] set are communication; count <= LK_STREAMS. Processor sharing;
 * re-evaluated by the engine at every start and end. */
void lk_contention_rates(const lk_cost *const *active, const bool *communicates, int count,
                         double *rates);

/* ---- eager: kernels of a step that a framework runs operation by operation: at rates measured on
 * the device (family "rates" of the calibration), else at default shares of its data sheet. */

typedef struct lk_eager_device {
	lk_device device;        /* of the catalogue, at its actual clock */
	lk_dtype dtype;          /* of products */
	lk_group_shape network;  /* all ranks, for collectives; filled by the caller */
	double memory, l2, pcie; /* bytes/s reached by streams */
	lk_gemm_numbers gemm;    /* of the formula: fitted on the nearest device of its architecture;
	                            floor_s excludes the launch */
	const lk_device *twin;   /* the same chip, perhaps at another clock, on which products were
	                            measured; NULL: none */
	lk_gemm_model twin_gemm;
	double twin_launch[2]; /* seconds of the smallest products there, timed from the host: single,
	                          batched */
	bool measured;         /* whether the rates are measured; false: from the data sheet */
} lk_eager_device;

/* A minimal kernel with the pause before it: seconds. */
extern const double lk_eager_start_s;

void lk_eager_device_of(const lk_device *device, lk_dtype dtype, lk_eager_device *out);

/* Costs of all operations of a traced graph on such devices: HOST operations, and those with a
 * measured_ps, take their stated time. */
lk_status lk_eager_costs(lk_arena *arena, const lk_graph *graph, const lk_eager_device *device,
                         lk_costs *out, lk_error *err);

/* ---- cache: earlier results. Private to cost/ and to searches that price single operations. */

/* lk_cost_op, cached; cache NULL: computed again. */
lk_cost lk_cost_cached(lk_cost_cache *cache, const lk_graph *graph, uint32_t op,
                       const lk_cost_site *site);

/* The kinds of places of a graph's ranks on a cluster: one site each, and the kind of each rank. */
typedef struct lk_cost_sites {
	uint32_t count;
	lk_cost_site *at;
	uint16_t *variant_of; /* as in lk_costs; NULL if there is only one site */
} lk_cost_sites;

/* Sites of a graph without teams; the cache keeps and owns them. */
lk_status lk_cost_sites_find(lk_cost_cache *cache, const lk_graph *graph, const lk_cluster *cluster,
                             const lk_cost_options *options, const lk_cost_sites **out,
                             lk_error *err);

/* cache.c, for table.c: the sites found for these ranks; NULL: none yet. */
const lk_cost_sites *lk_cost_cache_sites(const lk_cost_cache *cache, const lk_graph *graph,
                                         const lk_cluster *cluster, const lk_cost_options *options);
/* Add an entry for them, to be filled with memory of the arena; NULL when memory runs out. */
lk_cost_sites *lk_cost_cache_add_sites(lk_cost_cache *cache, const lk_graph *graph,
                                       const lk_cluster *cluster, const lk_cost_options *options,
                                       lk_arena **arena);

#endif
