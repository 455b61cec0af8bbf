/* host_collective.h: collectives of libraries that run on the host, MPI and gloo. */
#ifndef LK_COST_HOST_COLLECTIVE_H
#define LK_COST_HOST_COLLECTIVE_H

#include "cost/collective/collective.h"
#include "cost/collective/host_messages.h"

typedef enum lk_host_library { LK_HOST_MPI, LK_HOST_GLOO } lk_host_library;

typedef struct lk_host_cost {
	double seconds;
	const char *algorithm; /* "Rabenseifner" */
	bool latency_bound;    /* messages rather than bytes take most of the time */
} lk_host_cost;

/* Seconds per message and per byte, inside a node (shared memory) and between nodes, and per byte that is reduced. */
typedef struct lk_host_links {
	double alpha[2], beta[2], gamma; /* [0] inside, [1] between */
} lk_host_links;

lk_host_links lk_host_links_of(lk_host_library library, const lk_group_shape *group);

/* The same of MPI, from measured messages where there are some; NULL: none. Where collectives of this kind were measured,
 * times what the library took there of what the algorithms say: `behind` another one, or after a pause. */
lk_host_cost lk_host_collective_measured(const lk_host_messages *messages, lk_coll_kind kind, const lk_group_shape *group,
                                         double bytes, bool behind);

/* The fastest of the algorithms that the library has for this collective; bytes as nccl-tests count them. */
lk_host_cost lk_host_collective(lk_host_library library, lk_coll_kind kind, const lk_group_shape *group, double bytes);

#endif
