/* reaches.h: the share of the network between nodes for the process groups of a graph's ranks. */
#ifndef LK_COST_REACHES_H
#define LK_COST_REACHES_H

#include "cost/collective/collective.h"
#include "graph/graph.h"

/* The ranks of a graph on a cluster: the rank of (stage, chain) is stage * stage_step + chain *
 * chain_step, on the GPUs of the cluster in order. */
typedef struct lk_placement {
	const lk_graph *graph;
	const lk_cluster *cluster;
	uint32_t stage_step, chain_step;
} lk_placement;

/* Traffic of the operations of each kind of group, as bits 1 << lk_traffic. */
void lk_reach_traffic(const lk_graph *graph, unsigned used[LK_GROUPS]);
/* Likewise before operations exist: all possible traffic of a transformer's step; only groups of
 * experts, context and tensors may have an all-to-all. */
void lk_reach_traffic_usual(unsigned used[LK_GROUPS]);

/* For the traffic in `used`, per rank and kind of group, [LK_GROUPS * world] by kind and rank: NULL
 * if the group stays within a node, or sends nothing. Equal ones share an address. `*out` is NULL
 * if the cluster's network is not described. Memory from the arena. */
lk_status lk_reaches_find(lk_arena *arena, const lk_placement *placement,
                          const unsigned used[LK_GROUPS], const lk_reach *const **out,
                          lk_error *err);

/* For a group of `shape` on the ranks given in order, [shape->ranks], and those that share its
 * NICs; rank NULL: the first ones. For the kinds of traffic in the bits of `flows`. NULL if the
 * network is not described or not used. */
lk_status lk_reach_alone(lk_arena *arena, const lk_cluster *cluster, const lk_group_shape *shape,
                         const uint32_t *rank, unsigned flows, const lk_reach **out, lk_error *err);

#endif
