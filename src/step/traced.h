/* traced.h: a lifted graph, simulated with its own times, and the activity of its devices. */
#ifndef LK_STEP_TRACED_H
#define LK_STEP_TRACED_H

#include "options/command.h"
#include "sim/sim.h"
#include "trace/lift/lift.h"

/* When an operation ran, picoseconds from the earliest start of a stretch. */
typedef struct lk_ran {
	int64_t ready_ps, start_ps, end_ps;
} lk_ran;

/* Costs equal to the measured times; memory from the arena. */
lk_status lk_lifted_costs(lk_arena *arena, const lk_graph *graph, lk_costs *out, lk_error *err);
/* Run all ranks by precedence. out[rank][operation of the lifted rank], in the arena. */
lk_status lk_lifted_run(lk_arena *arena, const lk_lifted *lifted, lk_ran ***out, lk_error *err);
/* Picoseconds from the start of a rank's stretch to the end of its step. */
int64_t lk_lifted_step_ps(const lk_lifted *lifted, const lk_ran *ran, uint32_t rank);

/* Device activity of a rank: as measured (ran NULL), or in a run. Nanoseconds. */
typedef struct lk_device_use {
	double busy[LK_STREAMS]; /* by stream */
	double exposed;          /* communication without overlapping compute */
	double idle;             /* idle between first and last work */
} lk_device_use;
lk_status lk_lifted_use(const lk_lifted *lifted, const lk_ran *ran, uint32_t rank,
                        lk_device_use *out, lk_error *err);

/* ---- traced_step: one step of a traced run, for the verbs that change it. */

/* Whether a file holds a step graph, judged by its beginning; folders and unreadable files do not.
 * LK_ERR_MEMORY only. */
lk_status lk_is_graph_file(const char *path, bool *is, lk_error *err);

/* The number of steps that every capture has. Steps marked in only some captures are an error: the
 * whole time of the others would count as one. */
lk_status lk_traced_common_steps(const lk_traces *traces, uint32_t *count, lk_error *err);

/* The place among the captures' steps of the representative step: among those that every capture
 * has, the one whose length, averaged over the ranks that have it whole, is nearest to the mean of
 * all; explain uses the same. Or the step `number`, if not negative. */
lk_status lk_traced_usual_step(const lk_traces *traces, int64_t number, uint32_t *place,
                               lk_error *err);

/* lk_inputs_find with folders of traces listed. */
lk_status lk_traces_inputs(lk_arena *arena, const lk_verb *verb, const void *request,
                           const char *const *paths, int count, lk_inputs *out, lk_error *err);

/* The device named by the first capture, or NULL. */
const lk_device *lk_traced_device(const lk_traces *traces);
/* Any device, for changes to which it does not matter on which the trace ran. */
const lk_device *lk_traced_stand_in(void);

/* Duration of a lifted graph's step in a sequence of steps: for each program the longer of two
 * times, averaged over programs. The host's: from the program's start to its "end of step". The
 * device's: from the end of the work carried into the step to the end of all that the step
 * launched, since what it leaves behind burdens the next step. Picoseconds; `otherwise` if the
 * graph has no such marks. */
int64_t lk_traced_step_ps(const lk_graph *graph, const lk_sim_events *events, int64_t otherwise);

#endif
