/* predict_files.c: the timeline, the step graph (in our form and in Chakra's) and the report of a
 * prediction as files. */
#include "predict/predict.h"
#include "lockstep/report.h"
#include "view/timeline/trace.h"

/* The trace first: a name without a known ending is refused, and then nothing should have been
 * written. */
lk_status lk_predict_write_files(const lk_prediction *prediction, const lk_outputs *outputs,
                                 lk_error *err) {
	const lk_step *step = lk_prediction_step(prediction);
	if (outputs->trace) LK_TRY(lk_trace_write_step(step, outputs->trace, err));
	if (outputs->graph) LK_TRY(lk_graph_write(step->graph, outputs->graph, err));
	if (outputs->html)
		LK_TRY(lk_report_predict(prediction, LK_REPORT_HTML, outputs->html, NULL, err));
	return outputs->chakra ? lk_graph_chakra_write(step->graph, outputs->chakra, err) : LK_OK;
}
