/* predict_files.c: the timeline and the step graph of a prediction as files, in our form and in Chakra's. */
#include "ask/predict.h"
#include "ask/timeline.h"
#include "view/trace.h"

static lk_status write_trace(const lk_step *step, const char *path, lk_error *err) {
	lk_timeline *timeline;
	LK_TRY(lk_step_timeline(step, &timeline, err));
	lk_status status = lk_trace_write(timeline, path, err);
	lk_timeline_free(timeline);
	return status;
}

/* The trace first: a name without a known ending is refused, and then nothing should have been written. */
lk_status lk_predict_write_files(const lk_prediction *prediction, const lk_predict_request *request, lk_error *err) {
	const lk_step *step = lk_prediction_step(prediction);
	if (request->trace) LK_TRY(write_trace(step, request->trace, err));
	if (request->graph) LK_TRY(lk_graph_write(step->graph, request->graph, err));
	return request->chakra ? lk_graph_chakra_write(step->graph, request->chakra, err) : LK_OK;
}
