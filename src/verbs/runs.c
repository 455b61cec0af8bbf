/* runs.c: verbs about what ran: traces explained, compared, changed, simulated again; recordings
 * with their stalls. */
#include "verbs/verbs_internal.h"

#include <stdlib.h>

#include "system/memory.h"
#include "base/text.h"
#include "io/recording.h"
#include "lockstep/diff.h"
#include "lockstep/explain.h"
#include "lockstep/postmortem.h"
#include "lockstep/replay.h"
#include "lockstep/run_log.h"
#include "lockstep/stalls.h"
#include "lockstep/whatif.h"
#include "measured/measured.h"

/* The report of an answer that has no page of its own is made of its JSON. */
static lk_status report_of_json(const lk_verb_row *row, const void *answer, const char *name,
                                lk_report_form form, const char *path, FILE *out, lk_error *err) {
	const lk_outputs outputs = {.format = LK_OUTPUT_JSON};
	char *text = NULL;
	size_t size = 0;
	FILE *json = lk_memory_open(&text, &size);
	if (!json) return lk_oom(err);
	lk_status status = row->print(answer, &outputs, false, json, err);
	if (!lk_memory_close(json) && status == LK_OK) status = lk_oom(err);
	if (status == LK_OK) status = lk_report_answer(text, size, name, form, path, out, err);
	free(text);
	return status;
}
#define ROW_REPORT_OF_JSON(verb, row, name)                                                       \
	static lk_status verb##_row_report(const void *answer, lk_report_form form, const char *path, \
	                                   FILE *out, lk_error *err) {                                \
		return report_of_json(row, answer, name, form, path, out, err);                           \
	}

/* ---- explain ---- */

ROW_DEFAULTS(explain)
ROW_FREE(explain)

static lk_status explain_row_ask(const void *request, void **answer, lk_error *err) {
	const lk_explain_request *r = request;
	lk_explanation *found = NULL;
	*answer = NULL;
	if (!r->job) {
		LK_TRY(lk_explain(r, &found, err));
	} else {
		lk_asked_job job;
		LK_TRY(lk_job_asked(r->job, &job, err));
		lk_status status = lk_versus_explain(r, &job.request, &found, err);
		lk_job_asked_free(&job);
		LK_TRY(status);
	}
	*answer = found;
	return LK_OK;
}

ROW_PRINT(explain, table)
ROW_REPORT(explain)

static lk_status explain_row_fill(void *request, const lk_verb_input *input, lk_error *err) {
	(void)err;
	lk_explain_request *r = request;
	r->traces = input->operands;
	r->trace_count = input->operand_count;
	r->roofline = input->pictured;
	r->roofline_needed = input->outputs->table == LK_EXPLAIN_ROOFLINE;
	if (input->threads) r->threads = input->threads;
	return LK_OK;
}

static lk_status explain_row_files(const void *request, const void *answer,
                                   const lk_outputs *outputs, lk_error *err) {
	if (outputs->noise) {
		lk_fail(err, LK_ERR_INPUT, "--noise", "traces have too few steps to say how steps spread");
		return lk_hint(err, "give the run's log, or its step times as CSV");
	}
	const char *calibrated = ((const lk_explain_request *)request)->calibrated;
	if (calibrated) LK_TRY(lk_versus_write_calibration(answer, calibrated, err));
	return outputs->trace ? lk_explain_trace(answer, outputs->trace, err) : LK_OK;
}

/* ---- explain with --job of a number, a log or an export: the job's prediction, compared ---- */

/* Whether a request is one of this row: it has a job, and its run is no trace. */
static lk_status measured_run_asked(const lk_explain_request *request, bool *asked, lk_error *err) {
	*asked = request->job && request->trace_count == 1 && lk_measured_is_number(request->traces[0]);
	return !request->job || *asked ? LK_OK : lk_run_log_asked(request, asked, err);
}

static lk_status measured_run_row_ask(const void *request, void **answer, lk_error *err) {
	const lk_explain_request *explain = request;
	lk_prediction *found = NULL;
	lk_asked_job job;
	LK_TRY(lk_job_asked(explain->job, &job, err));
	job.request.measured = explain->traces[0];
	job.request.calibrated = explain->calibrated;
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

static lk_status measured_run_row_files(const void *request, const void *answer,
                                        const lk_outputs *outputs, lk_error *err) {
	const char *calibrated = ((const lk_explain_request *)request)->calibrated;
	(void)outputs;
	return calibrated ? lk_predict_write_calibration(answer, calibrated, err) : LK_OK;
}

static const lk_verb_row row_measured_run = {
	.verb = &lk_explain_verb,
	.defaults = explain_row_defaults,
	.fill = explain_row_fill,
	.ask = measured_run_row_ask,
	.free = measured_run_row_free,
	.print = measured_run_row_print,
	.report = measured_run_row_report,
	.files = measured_run_row_files,
	.paths = {ROW_PLACE(lk_explain_request, calibrated)},
	.failed_check = ROW_PLACE(lk_prediction, failed_check),
};

/* ---- explain, of two files: one run or two, which their content tells ---- */

/* One of both is there. */
struct two_files {
	lk_explanation *one;
	lk_diff *two;
	const char *failed_check;
};

static void two_files_row_free(void *answer) {
	struct two_files *files = answer;
	lk_explain_free(files->one);
	lk_diff_free(files->two);
	free(files);
}

static lk_status refuse_of_two(const char *option, lk_error *err) {
	lk_fail(err, LK_ERR_INPUT, option,
	        "shows one run, but the two traces are of two runs, which are compared");
	return lk_hint(err, "explain each run by itself for it");
}

static lk_status two_files_row_ask(const void *request, void **answer, lk_error *err) {
	const lk_explain_request *r = request;
	struct two_files *files = calloc(1, sizeof *files);
	*answer = NULL;
	if (!files) return lk_oom(err);
	lk_status status = lk_explain_or_diff(r, &files->one, &files->two, err);
	if (status == LK_OK && files->two) {
		const char *option = NULL;
		if (r->mains.pue > 0) option = "--pue";
		else if (r->mains.carbon > 0) option = "--carbon";
		else if (r->mains.price_kwh > 0) option = "--price-kwh";
		if (option) status = refuse_of_two(option, err);
	}
	if (status != LK_OK) {
		two_files_row_free(files);
		return status;
	}
	files->failed_check = files->one ? files->one->failed_check : files->two->failed_check;
	*answer = files;
	return LK_OK;
}

/* Find the table of a comparison that has the name of a table of one run. */
static lk_status diff_table_of(int table, int *out, lk_error *err) {
	for (*out = 0; *out < LK_DIFF_TABLES; ++*out)
		if (strcmp(lk_diff_tables[*out], lk_explain_tables[table]) == 0) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, "--table",
	        "%s is a table of one run, but the two traces are of two runs, which are compared",
	        lk_explain_tables[table]);
	return lk_hint(err, "give --table kernels, or `lockstep diff A B --table categories`");
}

static lk_status two_files_row_print(const void *answer, const lk_outputs *outputs, bool colour,
                                     FILE *out, lk_error *err) {
	const struct two_files *files = answer;
	lk_outputs ours = *outputs;
	if (files->one) return lk_row_explain.print(files->one, outputs, colour, out, err);
	LK_TRY(diff_table_of(outputs->table, &ours.table, err));
	return lk_row_diff.print(files->two, &ours, colour, out, err);
}

static lk_status two_files_row_report(const void *answer, lk_report_form form, const char *path,
                                      FILE *out, lk_error *err) {
	const struct two_files *files = answer;
	if (files->one) return lk_row_explain.report(files->one, form, path, out, err);
	return lk_row_diff.report(files->two, form, path, out, err);
}

static lk_status two_files_row_files(const void *request, const void *answer,
                                     const lk_outputs *outputs, lk_error *err) {
	const struct two_files *files = answer;
	if (files->one) return explain_row_files(request, files->one, outputs, err);
	return outputs->trace ? refuse_of_two("--trace", err) : LK_OK;
}

static const lk_verb_row row_two_files = {
	.verb = &lk_explain_verb,
	.defaults = explain_row_defaults,
	.fill = explain_row_fill,
	.ask = two_files_row_ask,
	.free = two_files_row_free,
	.print = two_files_row_print,
	.report = two_files_row_report,
	.files = two_files_row_files,
	.failed_check = ROW_PLACE(struct two_files, failed_check),
};

/* Traces have a row of their own only where they come with a job; what else a run leaves is told
 * apart by its content. */
static lk_status explain_row_instead(const void *request, const lk_verb_row **row, lk_error *err) {
	const lk_explain_request *r = request;
	bool is = false;
	if (r->job) {
		LK_TRY(measured_run_asked(r, &is, err));
		if (is) *row = &row_measured_run;
		else LK_TRY(lk_postmortem_asked(r, &is, err));
		if (is && *row != &row_measured_run) *row = &lk_row_postmortem;
		return LK_OK;
	}
	LK_TRY(lk_postmortem_asked(r, &is, err));
	if (is) *row = &lk_row_postmortem;
	else {
		LK_TRY(lk_run_log_asked(r, &is, err));
		if (is) *row = &lk_row_run_log;
		else if (r->trace_count == 2) *row = &row_two_files;
	}
	return LK_OK;
}

const lk_verb_row lk_row_explain = {
	ROW_MEMBERS(explain, lk_explanation), .instead = explain_row_instead,
	.files = explain_row_files,           .paths = {ROW_PLACE(lk_explain_request, calibrated)},
	.report = explain_row_report,
};

/* ---- what is left of a run that died or hangs ---- */

static lk_status postmortem_row_ask(const void *request, void **answer, lk_error *err) {
	const lk_explain_request *r = request;
	lk_postmortem *found = NULL;
	lk_asked_job job;
	*answer = NULL;
	LK_TRY(lk_postmortem_read(r, &found, err));
	lk_status status = r->job ? lk_job_asked(r->job, &job, err) : LK_OK;
	if (r->job && status == LK_OK) {
		status = lk_versus_postmortem(found, &job.request, r->job, err);
		lk_job_asked_free(&job);
	}
	if (status == LK_OK) *answer = found;
	else lk_postmortem_free(found);
	return status;
}

ROW_FREE(postmortem)
ROW_PRINT(postmortem, table)
ROW_REPORT_OF_JSON(postmortem, &lk_row_postmortem, "postmortem")

const lk_verb_row lk_row_postmortem = {
	.verb = &lk_explain_verb,
	.defaults = explain_row_defaults,
	.fill = explain_row_fill,
	.ask = postmortem_row_ask,
	.free = postmortem_row_free,
	.print = postmortem_row_print,
	.report = postmortem_row_report,
	.failed_check = ROW_PLACE(lk_postmortem, failed_check),
};

/* ---- explain, of a log ---- */

ROW_ASK(run_log, lk_run_log, lk_run_log_read)
ROW_FREE(run_log)

static lk_status run_log_row_print(const void *answer, const lk_outputs *outputs, bool colour,
                                   FILE *out, lk_error *err) {
	return lk_run_log_print(answer, outputs->format, colour, outputs->path, out, err);
}

ROW_REPORT_OF_JSON(run_log, &lk_row_run_log, "log")

static lk_status run_log_row_files(const void *request, const void *answer,
                                   const lk_outputs *outputs, lk_error *err) {
	(void)request;
	return outputs->noise ? lk_run_log_write_noise(answer, outputs->noise, err) : LK_OK;
}

const lk_verb_row lk_row_run_log = {
	.verb = &lk_explain_verb,
	.defaults = explain_row_defaults,
	.fill = explain_row_fill,
	.ask = run_log_row_ask,
	.free = run_log_row_free,
	.print = run_log_row_print,
	.report = run_log_row_report,
	.files = run_log_row_files,
	.failed_check = ROW_PLACE(lk_run_log, failed_check),
};

/* ---- diff ---- */

ROW_FUNCTIONS(diff, lk_diff, lk_diff_ask)
ROW_PRINT(diff, table)

static lk_status diff_row_fill(void *request, const lk_verb_input *input, lk_error *err) {
	(void)err;
	lk_diff_request *r = request;
	r->before = input->operands[0];
	r->after = input->operands[1];
	if (input->threads) r->threads = input->threads;
	return LK_OK;
}

ROW_REPORT_OF_JSON(diff, &lk_row_diff, "diff")

const lk_verb_row lk_row_diff = {ROW_MEMBERS(diff, lk_diff), .report = diff_row_report};

/* ---- whatif ---- */

ROW_FUNCTIONS(whatif, lk_whatif, lk_whatif_ask)
ROW_PRINT(whatif, verbose)
ROW_REPORT(whatif)

static lk_status whatif_row_fill(void *request, const lk_verb_input *input, lk_error *err) {
	(void)err;
	lk_whatif_request *r = request;
	r->paths = input->operands;
	r->path_count = input->operand_count;
	return LK_OK;
}

static lk_status whatif_row_files(const void *request, const void *answer,
                                  const lk_outputs *outputs, lk_error *err) {
	(void)request;
	return lk_whatif_write_files(answer, outputs, err);
}

/* A change that cannot be made is a column among others; where none can be made, the first reason
 * is the answer. */
static const char *whatif_row_refusal(const void *answer) {
	const lk_whatif *whatif = answer;
	for (int i = 1; i < whatif->column_count; i++)
		if (!whatif->columns[i].refused) return NULL;
	return whatif->column_count > 1 ? whatif->columns[1].refused : NULL;
}

const lk_verb_row lk_row_whatif = {
	ROW_MEMBERS(whatif, lk_whatif),
	.files = whatif_row_files,
	.report = whatif_row_report,
	.refusal = whatif_row_refusal,
};

/* ---- replay ---- */

ROW_FUNCTIONS(replay, lk_replay, lk_replay_ask)
ROW_PRINT(replay, verbose)

static lk_status replay_row_fill(void *request, const lk_verb_input *input, lk_error *err) {
	(void)err;
	lk_replay_request *r = request;
	r->paths = input->operands;
	r->path_count = input->operand_count;
	return LK_OK;
}

const lk_verb_row lk_row_replay = {
	ROW_MEMBERS(replay, lk_replay),
	.paths = {ROW_PLACE(lk_replay_request, overheads_out), ROW_PLACE(lk_replay_request, graph)},
	.folder = ROW_PLACE(lk_replay_request, chakra),
};

/* ---- stalls ---- */

ROW_FUNCTIONS(stalls, lk_stalls_answer, lk_stalls)
ROW_PRINT(stalls, table)
ROW_REPORT(stalls)

/* The command to run, or, as operands, recordings: one file may be the text of darshan-parser; else
 * all are the files of a recording, whose folder is the working folder. */
static lk_status stalls_row_fill(void *request, const lk_verb_input *input, lk_error *err) {
	(void)err;
	lk_stalls_request *r = request;
	r->command = input->launch;
	r->words = input->launch_count;
	if (input->operand_count == 0) return LK_OK;
	bool text = input->operand_count == 1 && !lk_ends_in(input->operands[0], LK_RECORDING_ENDING);
	r->recording = text ? input->operands[0] : ".";
	return LK_OK;
}

static lk_status stalls_row_files(const void *request, const void *answer,
                                  const lk_outputs *outputs, lk_error *err) {
	(void)request;
	if (outputs->trace) LK_TRY(lk_stalls_timeline(answer, outputs->trace, err));
	return outputs->folded ? lk_stalls_folded(answer, outputs->folded, err) : LK_OK;
}

const lk_verb_row lk_row_stalls = {
	ROW_MEMBERS(stalls, lk_stalls_answer),
	.files = stalls_row_files,
	.report = stalls_row_report,
};
