/* sensitivity.h: what a rate that is a little lower or higher makes of a step. */
#ifndef LK_ASK_SENSITIVITY_H
#define LK_ASK_SENSITIVITY_H

#include "model/layout/job.h"

/* Rates that are changed, one at a time, and by what. */
enum { LK_SENSITIVE_COSTS = 4, LK_SENSITIVE_WAYS = 2 };
extern const char *const lk_sensitive_costs[LK_SENSITIVE_COSTS]; /* "compute", "memory bandwidth", ... */
extern const double lk_sensitive_factors[LK_SENSITIVE_WAYS];     /* 0.9, 1.1 */

/* The step of a completed job with rate `cost` times factor `way`, predicted as lk_step_ask does; NAN where it fails, INFINITY
 * where it takes longer than `limit_s` and was not simulated to its end (0: no limit). */
double lk_sensitivity_ask(const lk_job *job, const lk_cluster *cluster, int cost, int way, double limit_s);

/* The same for all rates, for pictures: seconds[cost * LK_SENSITIVE_WAYS + way], where the step itself takes `step_s`. A long
 * pipeline grows evenly with its micro-batches, so it is simulated with a few and with twice as many, which tells the rest. */
lk_status lk_sensitivity_all(const lk_job *job, const lk_cluster *cluster, double step_s, double *seconds, lk_error *err);

#endif
