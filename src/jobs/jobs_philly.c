/* jobs_philly.c: cluster_job_log of msr-fiddle/philly-traces:
 *
 *     [{"status", "vc", "jobid", "user", "submitted_time",
 *       "attempts": [{"start_time", "end_time", "detail": [{"ip", "gpus": ["gpu0", ...]}]}]}]
 *
 * A job ran for the time of its attempts together, on the GPUs of the largest. Names are withheld:
 * its group is its virtual cluster. */
#include <math.h>
#include <stdio.h>

#include "base/arena.h"
#include "io/json.h"
#include "jobs/jobs_trace.h"

static const char *philly_text(const lk_value *job, const char *key) {
	const lk_value *value = lk_json_get(job, key);
	return value && value->kind == LK_JSON_STRING ? value->text : "";
}

static double philly_gpus(const lk_value *attempt) {
	const lk_value *detail = lk_json_get(attempt, "detail");
	double gpus = 0;
	for (size_t i = 0; detail && detail->kind == LK_JSON_ARRAY && i < detail->count; i++) {
		const lk_value *of_node = lk_json_get(&detail->items[i], "gpus");
		if (of_node && of_node->kind == LK_JSON_ARRAY) gpus += (double)of_node->count;
	}
	return gpus;
}

static lk_status philly_job(const lk_value *job, const char *where, lk_job_trace *trace,
                            lk_error *err) {
	const lk_value *attempts = lk_json_get(job, "attempts");
	lk_traced_job traced = {.name = philly_text(job, "jobid"),
	                        .user = philly_text(job, "user"),
	                        .group = philly_text(job, "vc"),
	                        .submit_s = lk_trace_time(philly_text(job, "submitted_time")),
	                        .duration_s = NAN};
	for (size_t i = 0; attempts && attempts->kind == LK_JSON_ARRAY && i < attempts->count; i++) {
		const lk_value *attempt = &attempts->items[i];
		double ran_s = lk_trace_time(philly_text(attempt, "end_time")) -
		               lk_trace_time(philly_text(attempt, "start_time"));
		traced.gpus = fmax(traced.gpus, philly_gpus(attempt));
		if (ran_s >= 0) traced.duration_s = fmax(traced.duration_s, 0) + ran_s;
	}
	return lk_trace_add(trace, where, &traced, err);
}

lk_status lk_trace_read_philly(lk_stream *in, lk_job_trace *trace, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	lk_value *log;
	lk_status status = lk_json_document(&arena, in, &log, err);
	if (status == LK_OK && log->kind != LK_JSON_ARRAY)
		status = lk_fail(err, LK_ERR_INPUT, lk_stream_name(in),
		                 "a log of Philly is a list of jobs; this is none");
	for (size_t i = 0; status == LK_OK && i < log->count; i++) {
		char where[256];
		snprintf(where, sizeof where, "%.200s:%d", lk_stream_name(in), log->items[i].line);
		status = philly_job(&log->items[i], where, trace, err);
	}
	lk_arena_free(&arena);
	return status;
}
