/* lifted_run.h: a lifted graph, simulated with the times that stand in it, and what its devices did. */
#ifndef LK_ASK_LIFTED_RUN_H
#define LK_ASK_LIFTED_RUN_H

#include "sim/sim.h"
#include "trace/lift/lift.h"

/* When an operation ran, picoseconds from the earliest begin of a stretch. */
typedef struct lk_ran {
	int64_t ready_ps, start_ps, end_ps;
} lk_ran;

/* Costs that are the measured times; memory from the arena. */
lk_status lk_lifted_costs(lk_arena *arena, const lk_graph *graph, lk_costs *out, lk_error *err);
/* Runs all ranks by precedence. out[rank][operation of the lifted rank], in the arena. */
lk_status lk_lifted_run(lk_arena *arena, const lk_lifted *lifted, lk_ran ***out, lk_error *err);
/* Picoseconds from the begin of a rank's stretch to the end of its step. */
int64_t lk_lifted_step_ps(const lk_lifted *lifted, const lk_ran *ran, uint32_t rank);

/* What the devices of a rank did: as measured (ran NULL), or in a run, whose lags are `lag_ns` (NULL: as measured). Nanoseconds. */
typedef struct lk_device_use {
	double busy[LK_STREAMS];    /* by stream: the lags left out */
	double exposed;             /* communication beside which nothing computes */
	double idle;                /* between first and last work: nothing runs */
} lk_device_use;
lk_status lk_lifted_use(const lk_lifted *lifted, const lk_ran *ran, const int64_t *lag_ns, uint32_t rank, lk_device_use *out,
                        lk_error *err);

#endif
