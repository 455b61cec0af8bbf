/* traced.h: a lifted graph, simulated with the times that are in it, and what its devices did. */
#ifndef LK_STEP_TRACED_H
#define LK_STEP_TRACED_H

#include "options/command.h"
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

/* What the devices of a rank did: as measured (ran NULL), or in a run. Nanoseconds. */
typedef struct lk_device_use {
	double busy[LK_STREAMS]; /* by stream */
	double exposed;          /* communication alongside which nothing computes */
	double idle;             /* between first and last work: nothing runs */
} lk_device_use;
lk_status lk_lifted_use(const lk_lifted *lifted, const lk_ran *ran, uint32_t rank,
                        lk_device_use *out, lk_error *err);

/* ---- traced_step: one step of a traced run, for the verbs that change it. */

/* Whether a file holds a step graph, told by its beginning; folders and what cannot be read do not.
 * LK_ERR_MEMORY only. */
lk_status lk_is_graph_file(const char *path, bool *is, lk_error *err);

/* How many steps every capture has. It is an error if steps are marked in some captures only: the
 * others' whole time would count as one. */
lk_status lk_traced_common_steps(const lk_traces *traces, uint32_t *count, lk_error *err);

/* The step that stands for the run: of those that every capture has, the one whose length, the mean
 * over the ranks that have it whole, is nearest to the mean of all; explain looks at the same. Or
 * the one of `number`, if that is not negative. Its place among the captures' steps. */
lk_status lk_traced_usual_step(const lk_traces *traces, int64_t number, uint32_t *place,
                               lk_error *err);

/* lk_inputs_find with folders of traces listed. */
lk_status lk_traces_inputs(lk_arena *arena, const lk_verb *verb, const void *request,
                           const char *const *paths, int count, lk_inputs *out, lk_error *err);

/* The device that the first capture names, or NULL. */
const lk_device *lk_traced_device(const lk_traces *traces);

/* How long the step of a lifted graph takes where steps follow one another: of each program the
 * longer of two times, and the mean over programs. The host's: from the program's begin to its "end
 * of step". The device's: from when the work that was carried into the step is over to the end of
 * all that the step launched, for what it leaves behind is the next step's burden. Picoseconds;
 * `otherwise` if the graph has no such marks. */
int64_t lk_traced_step_ps(const lk_graph *graph, const lk_sim_events *events, int64_t otherwise);

#endif
