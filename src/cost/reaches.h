/* reaches.h: what the network between nodes leaves the process groups of a graph's ranks. */
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

/* What operations of each kind of group send, as bits 1 << lk_traffic. */
void lk_reach_traffic(const lk_graph *graph, unsigned used[LK_GROUPS]);
/* The same before there are operations: all that a step of a transformer may send, which is an
 * all-to-all in groups of experts, of context and of tensors alone. */
void lk_reach_traffic_usual(unsigned used[LK_GROUPS]);

/* For the traffic in `used`, of each rank and kind of group, [LK_GROUPS * world] by kind and rank:
 * NULL where the group does not leave its nodes, or sends nothing. Equal ones have one address.
 * `*out` is NULL where the cluster's network is not described. Memory from the arena. */
lk_status lk_reaches_find(lk_arena *arena, const lk_placement *placement,
                          const unsigned used[LK_GROUPS], const lk_reach *const **out,
                          lk_error *err);

/* Of a group of `shape` on the ranks given in order, [shape->ranks], and of those that share its
 * NICs; rank NULL: the first ones. For the kinds of traffic that are bits of `flows`. NULL where
 * the network is not described or not used. */
lk_status lk_reach_alone(lk_arena *arena, const lk_cluster *cluster, const lk_group_shape *shape,
                         const uint32_t *rank, unsigned flows, const lk_reach **out, lk_error *err);

#endif
