/* measured_runs.c: explain with --job of a run of which there is a number, a log or an export, and
 * no trace: the prediction of the job with lk_prediction.expected. */
#include "verbs/verbs_internal.h"

#include "lockstep/explain.h"
#include "lockstep/run_log.h"
#include "measured/measured.h"

lk_status lk_measured_run_asked(const lk_explain_request *request, bool *asked, lk_error *err) {
	lk_run_log *log = NULL;
	*asked = request->job && request->trace_count == 1 && lk_measured_is_number(request->traces[0]);
	if (!request->job || *asked) return LK_OK;
	LK_TRY(lk_run_log_try(request, &log, err));
	*asked = log != NULL;
	lk_run_log_free(log);
	return LK_OK;
}

static void measured_run_row_defaults(void *request) {
	lk_explain_defaults(request);
}

static lk_status measured_run_row_fill(void *request, const lk_verb_input *input, lk_error *err) {
	return lk_row_explain.fill(request, input, err);
}

static lk_status measured_run_row_ask(const void *request, void **answer, lk_error *err) {
	const lk_explain_request *explain = request;
	lk_prediction *found = NULL;
	lk_asked_job job;
	LK_TRY(lk_job_asked(explain->job, &job, err));
	job.request.measured = explain->traces[0];
	job.request.no_sensitivity = true;
	lk_status status = lk_predict(&job.request, &found, err);
	lk_job_asked_free(&job);
	*answer = found;
	return status;
}

/* Tables and timelines are of traces. */
static lk_status measured_run_row_print(const void *answer, const lk_outputs *outputs, bool colour,
                                        FILE *out, lk_error *err) {
	const char *option = outputs->table ? "--table" : outputs->trace ? "--trace" : NULL;
	if (!option) return lk_row_predict.print(answer, outputs, colour, out, err);
	lk_fail(err, LK_ERR_INPUT, option, "is of traces, but the run is given as a log or a number");
	return lk_hint(err, "leave it out, or give the traces of the run");
}

static void measured_run_row_free(void *answer) {
	lk_predict_free(answer);
}

const lk_verb_row lk_row_measured_run = {
	.verb = &lk_explain_verb,
	.defaults = measured_run_row_defaults,
	.fill = measured_run_row_fill,
	.ask = measured_run_row_ask,
	.free = measured_run_row_free,
	.print = measured_run_row_print,
	.failed_check = ROW_PLACE(lk_prediction, failed_check),
};
