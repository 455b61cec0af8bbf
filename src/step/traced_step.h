/* traced_step.h: one step of a traced run, for the verbs that change it. */
#ifndef LK_ASK_TRACED_STEP_H
#define LK_ASK_TRACED_STEP_H

#include "options/inputs.h"
#include "sim/sim.h"
#include "trace/lift/lift.h"

/* A file that holds a step graph, told by its beginning; false for folders and what cannot be read. */
bool lk_is_graph_file(const char *path);

/* How many steps every capture has. It is an error if steps are marked in some captures only: the others' whole time would count
 * as one. */
lk_status lk_traced_common_steps(const lk_traces *traces, uint32_t *count, lk_error *err);

/* The step that stands for the run: of those that every capture has, the one of median length on the first rank; or the one of
 * `number`, if that is not negative. Its place among the captures' steps. */
lk_status lk_traced_usual_step(const lk_traces *traces, int64_t number, uint32_t *place, lk_error *err);

/* lk_inputs_find with folders of traces listed. */
lk_status lk_traces_inputs(lk_arena *arena, const lk_verb *verb, const void *request, const char *const *paths, int count,
                           lk_inputs *out, lk_error *err);

/* The device that the first capture names, or NULL. */
const lk_device *lk_traced_device(const lk_traces *traces);

/* How long the step of a lifted graph takes where steps follow one another: of each program the longer of two times, and the mean
 * over programs. The host's: from the program's begin to its "end of step". The device's: from when the work that was carried into
 * the step is over to the end of all that the step launched, for what it leaves behind is the next step's burden. Picoseconds;
 * `otherwise` if the graph has no such marks. */
int64_t lk_traced_step_ps(const lk_graph *graph, const lk_sim_events *events, int64_t otherwise);

#endif
