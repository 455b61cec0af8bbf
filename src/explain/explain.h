/* explain.h: the inside of an explanation, for the view of its events and for those who add to it. */
#ifndef LK_ASK_EXPLAIN_H
#define LK_ASK_EXPLAIN_H

#include "lockstep/explain.h"
#include "trace/align/traces.h"

/* The traces behind an explanation, which owns them. */
const lk_traces *lk_explain_traces(const lk_explanation *explanation);
/* From traces that were read already; they belong to the explanation from then on, also on errors. */
lk_status lk_explain_make(lk_traces *traces, const lk_explain_request *request, lk_explanation **out, lk_error *err);

/* Finds the critical path of a typical step and what the remedies are worth there, by lifting it to a step graph. What cannot be
 * lifted is left without. */
lk_status lk_explain_simulate(lk_explanation *explanation, lk_error *err);
/* For those who simulate: what the remedy of a stall is worth, and the path that the step's time hangs on (copied). */
void lk_explain_set_gain(lk_explanation *explanation, int stall, double gain_s);
lk_status lk_explain_set_path(lk_explanation *explanation, const lk_critical_path *path, lk_error *err);
lk_status lk_explain_add_warning(lk_explanation *explanation, lk_error *err, const char *fmt, ...) LK_PRINTF(3, 4);

#endif
