/* table_places.h: where the ranks of a graph lie, for the table of costs (table.c). */
#ifndef LK_COST_TABLE_PLACES_H
#define LK_COST_TABLE_PLACES_H

#include "base/vec.h"
#include "cost/cost.h"
#include "cost/reaches.h"

enum { LK_TABLE_KINDS = 255 /* of nodes */ };

/* What makes two ranks' costs differ. */
struct lk_signature {
	const lk_node *node;
	struct {
		int32_t nodes, per_node;
		const lk_node *slowest;
		const lk_reach *reach;
	} group[LK_GROUPS];
	bool peer_same_node[2];
	uint32_t team_chain; /* first chain with the same placement of its teams */
};

/* Chains whose teams have equal placements on equal nodes. */
struct lk_team_class {
	uint64_t key;
	uint32_t chain; /* the first one */
};

struct lk_table_builder {
	const lk_graph *graph;
	const lk_cluster *cluster;
	const lk_cost_options *options;
	uint32_t stage_step,
		chain_step; /* from a rank to its counterpart on the next stage, of the next chain */
	struct lk_signature *known;
	size_t count, capacity;
	LK_VEC(struct lk_team_class) team_classes;
	lk_group_shape *teams;              /* for one variant */
	uint64_t begin[LK_TABLE_KINDS + 1]; /* first rank of each group of nodes, and the end */
	int32_t *node_of; /* [world]; NULL: nodes are equal, and ranks fill them one after the other */
	uint8_t *kind_of; /* [world] group of nodes; NULL likewise */
	const lk_reach *const *reach; /* [LK_GROUPS * world] by kind and rank; NULL: network not
	                                 described */
	unsigned flows[LK_GROUPS];    /* traffic of each kind's operations, if a network is described */
	lk_arena *arena;              /* owns the reaches */
	bool kept;                    /* also used for other graphs of the same ranks */
};

/* Find the kinds of places, `known` of the builder, and the place of each rank; `arena` owns them.
 * *variant_of: [world]; NULL where all are of one kind. */
lk_status lk_table_find_places(struct lk_table_builder *builder, lk_arena *arena,
                               uint16_t **variant_of, lk_error *err);
/* Ranks of a group of a kind. */
uint32_t lk_table_group_ranks(const lk_ranks *ranks, int kind);
/* How a team lies whose members are those of a chain, and what it reaches. */
lk_group_shape lk_table_team_shape(const struct lk_table_builder *builder, const lk_team *team,
                                   uint32_t chain);
lk_status lk_table_team_reach(const struct lk_table_builder *builder, const lk_team *team,
                              uint32_t chain, lk_group_shape *shape, lk_error *err);

#endif
