/* cost.h: from an operation and the hardware to a duration and to what it occupies. One file per family; the table in
 * cost.c says which file answers for which kind of operation. All models are stated in docs/METHOD.md. */
#ifndef LK_COST_COST_H
#define LK_COST_COST_H

#include "cost/collective/collective.h"
#include "graph/graph.h"
#include "hw/hw.h"

/* What an operation takes and occupies while it runs alone. Shares are of the whole device, 0 to 1. */
typedef struct lk_cost {
	int64_t duration_ps;
	int64_t host_ps;     /* launch: what the host thread spends on it */
	int64_t lead_ps;     /* host time until its first kernel is issued: host_ps, but for a MACRO only the first launch */
	int64_t tail_ps;     /* runs at least so long after the host is done with it: duration_ps, for a MACRO its last kernel */
	float sm;            /* SMs occupied: compute kernels up to 1, collectives channels / SMs */
	float compute;       /* share of the duration that SM count limits; the rest does not slow when SMs are taken. Of a MACRO
	                        such that it is slowed as its kernels are (sim/fold_beside.c), over 1 where they wait for memory */
	float memory;        /* share of memory bandwidth used */
	float intra, nic;    /* share of the links used; of a MACRO, while something in it communicates */
	float linked;        /* of a MACRO: share of the duration in which something in it communicates */
	float linked_alone;  /* of a MACRO: the same where nothing in it computes beside */
	float waves;         /* waves of thread blocks, 0 unknown: for quantisation under contention */
	float exposed;       /* few blocks that wait for memory: takes so much longer while communication moves data */
	float spread;        /* of independent jitter: 1, for a MACRO sqrt(sum d^2) / sum d over its operations */
} lk_cost;

/* The few numbers that the analytic models need beyond spec sheets, as they hold for a job: base constants times the profile
 * of its software stack. None is per model, run or GPU. Where they come from: docs/METHOD.md, "Constants". */
typedef struct lk_constants {
	double gemm_efficiency;      /* of dense peak, large shapes */
	double vector_products;      /* factor on the measured rates of fp32 products */
	double gemm_fill_s;          /* first loads and epilogue of a tile */
	double attention_forward;    /* of dense peak */
	double attention_backward;
	double attention_ramp;       /* keys at which a sequence reaches half of that */
	double memory_efficiency;    /* of memory bandwidth, streaming kernels */
	double norm_efficiency;      /* the same for norms and other reductions */
	double stream_issue;         /* both hold up to so many bytes per SM and clock; 0: on every device */
	double kernel_floor_s;       /* shortest kernel */
	double launch_s;             /* host time to issue one operation, eager framework */
	double graph_launch_s;       /* the same inside a CUDA graph */
	double step_overhead_s;      /* once a step: data, schedule, logging, optimizer's host work */
	double graph_step_overhead_s; /* the same where steps are replayed from CUDA graphs */
	double expert_launch_s;      /* host time for one expert's part of a grouped product, not in a graph */
	double expert_efficiency;    /* factor on the kernels of mixture-of-experts layers: permutations, grouped products */
	double network_efficiency;   /* factor on the rates of communication */
	/* shares of the peak, by architecture, 0 as 1: what the power limit leaves to matrix products that follow one another;
	 * what attention reaches of it, whose kernels are of different age */
	double sustained[LK_ARCHES], attention_share[LK_ARCHES];
} lk_constants;
extern const lk_constants lk_default_constants;

/* Where an operation runs. */
typedef struct lk_cost_site {
	const lk_constants *constants;
	const lk_node *node;                     /* device and links of this rank */
	const lk_group_shape *groups;            /* [LK_GROUPS] as this rank sees them */
	const lk_group_shape *teams;             /* [teams of the graph] */
	bool peer_same_node[2];                  /* SEND/RECV: the next stage forward, the one before */
	double oversubscription;
	bool cuda_graphs;
	bool compiled;                           /* torch.compile: fewer launches */
	bool experts_eager;                      /* graphs leave out the experts, whose sizes vary */
} lk_cost_site;

/* The group that a communication operation runs in. */
static inline const lk_group_shape *lk_site_group(const lk_cost_site *site, const lk_graph *graph, uint32_t op)
{
	unsigned group = graph->ops.group[op];
	return group == LK_GROUP_TEAM ? &site->teams[graph->ops.channel[op]] : &site->groups[group];
}

/* Cost of operation `op` of the graph. Never fails; every kind of operation but WAIT and MACRO has a model. */
lk_cost lk_cost_op(const lk_graph *graph, uint32_t op, const lk_cost_site *site);

/* Costs of all operations for every variant of site that occurs among the ranks. Most jobs have one variant. */
typedef struct lk_costs {
	uint32_t variants, ops;
	lk_cost *at;             /* [variants * ops] */
	uint16_t *variant_of;    /* [stages * chains], by rank (lk_rank_of); NULL when there is only one variant */
} lk_costs;

/* What was asked before, for searches that ask many jobs on one cluster (cache.c): costs by what they depend on, and which
 * kinds of places a layout of ranks has. Constants, nodes and clusters are told apart by address, so they must stay where
 * they are while the cache lives. Not thread-safe: one cache, one thread. */
typedef struct lk_cost_cache lk_cost_cache;
lk_cost_cache *lk_cost_cache_new(void); /* NULL when memory is out */
void lk_cost_cache_free(lk_cost_cache *cache);

/* Choices of the job that costs depend on. */
typedef struct lk_cost_options {
	const lk_constants *constants;
	bool cuda_graphs, compiled, experts_eager;
	lk_cost_cache *cache;    /* NULL: none */
} lk_cost_options;

/* Fills `out` for all ranks of the graph on the cluster; memory from the arena. */
lk_status lk_costs_build(lk_arena *arena, const lk_graph *graph, const lk_cluster *cluster, const lk_cost_options *options,
                         lk_costs *out, lk_error *err);

static inline const lk_cost *lk_costs_get(const lk_costs *costs, uint32_t variant, uint32_t op)
{
	return &costs->at[(size_t)variant * costs->ops + op];
}

/* Families; each gives seconds on an idle device, and fills occupancy. */
void lk_cost_gemm(const lk_graph *graph, uint32_t op, const lk_cost_site *site, lk_cost *out);
void lk_cost_grouped_gemm(const lk_graph *graph, uint32_t op, const lk_cost_site *site, lk_cost *out);
void lk_cost_conv(const lk_graph *graph, uint32_t op, const lk_cost_site *site, lk_cost *out);
void lk_cost_attention(const lk_graph *graph, uint32_t op, const lk_cost_site *site, lk_cost *out);
void lk_cost_memory(const lk_graph *graph, uint32_t op, const lk_cost_site *site, lk_cost *out);
void lk_cost_embedding(const lk_graph *graph, uint32_t op, const lk_cost_site *site, lk_cost *out);
void lk_cost_copy(const lk_graph *graph, uint32_t op, const lk_cost_site *site, lk_cost *out);
void lk_cost_host(const lk_graph *graph, uint32_t op, const lk_cost_site *site, lk_cost *out);
void lk_cost_comm(const lk_graph *graph, uint32_t op, const lk_cost_site *site, lk_cost *out);

/* Contention: progress rates, 0 to 1, of operations that share a device. `active` has `count` costs; those with
 * communicate[i] set are communication; count <= LK_STREAMS. Processor sharing; re-evaluated by the engine at every start and end. */
void lk_contention_rates(const lk_cost *const *active, const bool *communicates, int count, double *rates);

/* ---- cache: what a search has asked before. Private to cost/ and to searches that price single operations. */

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
