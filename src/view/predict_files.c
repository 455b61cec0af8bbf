/* predict_files.c: the timeline and the step graph of a prediction as files. */
#include "ask/predict.h"
#include "ask/timeline.h"
#include "view/trace.h"

lk_status lk_predict_write_files(const lk_prediction *prediction, const lk_predict_request *request, lk_error *err) {
	const lk_step *step = lk_prediction_step(prediction);
	if (request->graph) LK_TRY(lk_graph_write(step->graph, request->graph, err));
	if (!request->trace) return LK_OK;
	lk_timeline *timeline;
	LK_TRY(lk_step_timeline(step, &timeline, err));
	lk_status status = lk_trace_write(timeline, request->trace, err);
	lk_timeline_free(timeline);
	return status;
}
