/* timed.h: how long a program takes on a cluster: its steps lowered, costed and simulated. */
#ifndef LK_PLAN_TIMED_H
#define LK_PLAN_TIMED_H

#include "cost/cost.h"
#include "lang/run/sizes.h"
#include "lang/steps/steps.h"

typedef struct lk_timed {
	double seconds;      /* until the last rank is done */
	double compute_s;    /* in which some rank computes */
	double exposed_s;    /* the rest: communication, and waiting for it */
	uint64_t operations;
} lk_timed;

/* The constants of generated code: launches come from compiled code, one call after the other. */
void lk_timed_constants(lk_constants *out);

/* `chunks`: as in lc_lower. The cluster has the mesh's ranks at least. */
lk_status lk_time_steps(const lc_steps *steps, const lc_sizes *sizes, const lk_cluster *cluster, const lk_constants *constants,
                        int64_t chunks, lk_timed *out, lk_error *err);

/* timed_host.c: costs of communication on hosts, by MPI, in place of those of GPUs. */
void lk_timed_on_hosts(const lk_graph *graph, const lk_cluster *cluster, lk_costs *costs);
/* A single measured machine with more processes than it has devices: `c` gets a device for each, with its share of cores
 * and memory. Other clusters are left as they are. */
lk_status lk_timed_share_host(lk_arena *arena, int64_t ranks, lk_cluster *c, lk_error *err);

#endif
