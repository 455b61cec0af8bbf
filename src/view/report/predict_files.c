/* predict_files.c: the timeline, the step graph (in our form, Chakra's and GOAL) and the report of
 * a prediction as files. */
#include "predict/predict.h"
#include "lockstep/report.h"
#include "view/timeline/trace.h"

/* A modelled time alone on the device, of an operation of a step. */
static double modelled_time(const void *context, uint32_t stage, uint32_t chain, uint32_t op) {
	const lk_step *step = context;
	const lk_costs *costs = &step->costs;
	uint32_t rank = lk_rank_of(step->graph, stage, chain);
	return (double)lk_costs_get(costs, costs->variant_of ? costs->variant_of[rank] : 0, op)
	    ->duration_ps;
}

static lk_status write_chakra(const lk_step *step, const lk_outputs *outputs, lk_error *err) {
	lk_chakra_options options = {outputs->chakra_host, outputs->chakra_times ? modelled_time : NULL,
	                             step};
	return lk_graph_chakra_write(step->graph, &options, outputs->chakra, err);
}

static lk_status write_goal(const lk_step *step, const char *path, lk_error *err) {
	return lk_graph_goal_write(step->graph, &(lk_chakra_options){false, modelled_time, step}, path,
	                           err);
}

/* The trace first: a name without a known ending is refused, and then nothing should have been
 * written. */
lk_status lk_predict_write_files(const lk_prediction *prediction, const lk_outputs *outputs,
                                 lk_error *err) {
	const lk_step *step = lk_prediction_step(prediction);
	if (outputs->trace) LK_TRY(lk_trace_write_prediction(prediction, outputs->trace, err));
	if (outputs->graph) LK_TRY(lk_graph_write(step->graph, outputs->graph, err));
	if (outputs->html)
		LK_TRY(lk_report_predict(prediction, LK_REPORT_HTML, outputs->html, NULL, err));
	if (outputs->charts)
		LK_TRY(lk_report_predict(prediction, LK_REPORT_CHARTS, outputs->charts, NULL, err));
	if (outputs->chakra) LK_TRY(write_chakra(step, outputs, err));
	return outputs->goal ? write_goal(step, outputs->goal, err) : LK_OK;
}
