/* measured_runs.c: explain with --job of a run of which there is a number, a log or an export, and no
 * trace: the prediction of the job with lk_prediction.expected. */
#include "verbs/verbs_internal.h"

#include <string.h>
#include <sys/stat.h>

#include "io/stream.h"
#include "lockstep/explain.h"
#include "measured/measured.h"
#include "trace/read/read.h"

/* Whether a file states what was measured. Traces begin in a way of their own, but a line of a log
 * may begin like a list of JSON, and a list may be an export. */
static lk_status file_is_measured(const char *path, bool *is, lk_error *err) {
	static const char event[] = "\"ph\"";
	lk_stream *in;
	const char *head;
	size_t size;
	LK_TRY(lk_stream_open(path, &in, err));
	lk_status status = lk_stream_peek(in, LK_TRACE_HEAD, &head, &size, err);
	lk_trace_kind kind = status == LK_OK ? lk_trace_kind_of(head, size) : LK_TRACE_OTHER;
	*is = status == LK_OK &&
	      (kind == LK_TRACE_OTHER ||
	       (kind == LK_TRACE_KINETO && !memmem(head, size, event, sizeof event - 1)));
	lk_stream_close(in);
	if (status != LK_OK || kind != LK_TRACE_OTHER_JSON) return status;
	lk_measured measured;
	lk_error unused = {0};
	*is = lk_measured_read(path, &measured, &unused) == LK_OK;
	lk_measured_free(&measured);
	return LK_OK;
}

lk_status lk_measured_run_asked(const lk_explain_request *request, bool *asked, lk_error *err) {
	*asked = false;
	if (!request->job || request->trace_count != 1) return LK_OK;
	const char *run = request->traces[0];
	struct stat info;
	if (lk_measured_is_number(run)) *asked = true;
	else if (stat(run, &info) == 0 && S_ISREG(info.st_mode))
		return file_is_measured(run, asked, err);
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

static lk_status measured_run_row_report(const void *answer, lk_report_form form, const char *path,
                                         FILE *out, lk_error *err) {
	return lk_row_predict.report(answer, form, path, out, err);
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
	.report = measured_run_row_report,
	.failed_check = ROW_PLACE(lk_prediction, failed_check),
};
