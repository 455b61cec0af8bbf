/* traced_step.h: one step of a traced run, for the verbs that change it. */
#ifndef LK_ASK_TRACED_STEP_H
#define LK_ASK_TRACED_STEP_H

#include "sim/sim.h"
#include "trace/lift.h"

/* A file that holds a step graph, told by its beginning; false for folders and what cannot be read. */
bool lk_is_graph_file(const char *path);

/* How many steps every capture has. It is an error if steps are marked in some captures only: the others' whole time would count
 * as one. */
lk_status lk_traced_common_steps(const lk_traces *traces, uint32_t *count, lk_error *err);

/* The step that stands for the run: of those that every capture has, the one of median length on the first rank; or the one of
 * `number`, if that is not negative. Its place among the captures' steps. */
lk_status lk_traced_usual_step(const lk_traces *traces, int64_t number, uint32_t *place, lk_error *err);

/* The device that the first capture names, or NULL. */
const lk_device *lk_traced_device(const lk_traces *traces);

/* When the step of a lifted graph is over: the last "end of step" of its programs, picoseconds. Work that the device does after
 * that is the next step's burden, as what was carried into this one was its own. `otherwise` if the graph has no such mark. */
int64_t lk_traced_step_ps(const lk_graph *graph, const lk_sim_events *events, int64_t otherwise);

#endif
