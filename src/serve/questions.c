/* questions.c: the verbs that the server asks: from parsed words to the answer as JSON, the report
 * or a file of it. */
#include "serve/serve_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "io/recording.h"
#include "lockstep/diff.h"
#include "lockstep/explain.h"
#include "lockstep/plan.h"
#include "lockstep/predict.h"
#include "lockstep/rent.h"
#include "lockstep/report.h"
#include "lockstep/shard.h"
#include "lockstep/stalls.h"
#include "lockstep/view.h"
#include "lockstep/whatif.h"

/* Whether the answer is the page's document. */
static bool wants_report(const lk_asked *asked) {
	return asked->question->form == LK_FORM_REPORT || asked->question->form == LK_FORM_PICTURE;
}

/* ---- predict ---- */

lk_status lk_question_single(const lk_args *args, const char *where, lk_error *err) {
	size_t count;
	LK_TRY(lk_args_combinations(args, &count, err));
	if (count == 1) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, where, "the lists make %zu combinations", count);
	return lk_hint(err, "ask for one at a time, or for a sweep");
}

/* What a form that is a file is written to, in the folder of the question, and read from again. */
static const char *file_of_form(lk_form form) {
	if (form == LK_FORM_TIMELINE) return "timeline.json";
	return form == LK_FORM_GRAPH ? "graph.json" : NULL;
}

bool lk_question_writes(const lk_question *question) {
	return question->kind == LK_ASK_PREDICT && file_of_form(question->form);
}

static lk_status copy_file(const char *path, FILE *out, lk_error *err) {
	char bytes[8192];
	size_t got;
	FILE *in = fopen(path, "r");
	if (!in) return lk_fail(err, LK_ERR_INTERNAL, path, "cannot open: %s", strerror(errno));
	while ((got = fread(bytes, 1, sizeof bytes, in)) > 0) fwrite(bytes, 1, got, out);
	bool wrong = ferror(in) != 0;
	fclose(in);
	return wrong ? lk_fail(err, LK_ERR_INTERNAL, path, "cannot read") : LK_OK;
}

static lk_status write_step(const lk_asked *asked, const lk_prediction *prediction,
                            const char *path, lk_error *err) {
	bool timeline = asked->question->form == LK_FORM_TIMELINE;
	lk_outputs outputs = {.trace = timeline ? path : NULL, .graph = timeline ? NULL : path};
	LK_TRY(lk_predict_write_files(prediction, &outputs, err));
	return copy_file(path, asked->out, err);
}

static lk_status write_prediction(const lk_asked *asked, const lk_predict_request *request,
                                  const lk_prediction *prediction, lk_error *err) {
	const char *path = file_of_form(asked->question->form);
	if (path) return write_step(asked, prediction, path, err);
	if (wants_report(asked))
		return lk_report_predict(prediction, LK_REPORT_JSON, NULL, asked->out, err);
	lk_sweep_row row = {prediction, NULL, request};
	return lk_sweep_print(&row, 1, LK_OUTPUT_JSON, false, false, NULL, asked->out, err);
}

static lk_status ask_predict(const lk_asked *asked, lk_error *err) {
	lk_predict_request r;
	lk_prediction *prediction = NULL;
	LK_TRY(lk_question_single(asked->args, "body", err));
	lk_predict_defaults(&r);
	LK_TRY(lk_args_fill(asked->args, 0, &r, err));
	r.launch = asked->launch;
	r.launch_count = asked->launch_count;
	r.detail = wants_report(asked);
	r.step = file_of_form(asked->question->form) != NULL;
	if (asked->question->form != LK_FORM_REPORT && asked->question->form != LK_FORM_RESULT)
		r.no_sensitivity = r.no_fixes = true;
	LK_TRY(lk_predict(&r, &prediction, err));
	lk_status status = write_prediction(asked, &r, prediction, err);
	lk_predict_free(prediction);
	return status;
}

/* ---- sweeps ---- */

struct sweep {
	const lk_asked *asked;
	size_t count;
	lk_predict_request *requests;
	lk_prediction **predictions;
	lk_error *refusals;
	lk_sweep_row *rows;
};

enum { SWEEP_ROWS = 10000 }; /* what one answer may hold */

static void show_sweep(void *context, size_t done) {
	const struct sweep *sweep = context;
	sweep->asked->progress(sweep->asked->context, 0, (double)done, (double)sweep->count);
}

static lk_status make_sweep(struct sweep *sweep, lk_error *err) {
	const lk_asked *asked = sweep->asked;
	LK_TRY(lk_args_combinations(asked->args, &sweep->count, err));
	if (sweep->count > SWEEP_ROWS) {
		lk_fail(err, LK_ERR_INPUT, "body", "the lists make %zu combinations, and %d are answered",
		        sweep->count, SWEEP_ROWS);
		return lk_hint(err, "give shorter lists, or use lockstep predict");
	}
	sweep->requests = calloc(sweep->count, sizeof *sweep->requests);
	sweep->predictions = calloc(sweep->count, sizeof *sweep->predictions);
	sweep->refusals = calloc(sweep->count, sizeof *sweep->refusals);
	sweep->rows = calloc(sweep->count, sizeof *sweep->rows);
	if (!sweep->requests || !sweep->predictions || !sweep->refusals || !sweep->rows)
		return lk_oom(err);
	for (size_t i = 0; i < sweep->count; i++) {
		lk_predict_defaults(&sweep->requests[i]);
		LK_TRY(lk_args_fill(asked->args, i, &sweep->requests[i], err));
		sweep->requests[i].launch = asked->launch;
		sweep->requests[i].launch_count = asked->launch_count;
	}
	return LK_OK;
}

/* A combination that is refused is a row; where all are, the first refusal is the answer. */
static lk_status write_sweep(struct sweep *sweep, lk_error *err) {
	size_t refused = 0;
	for (size_t i = 0; i < sweep->count; i++) {
		bool here = sweep->predictions[i] != NULL;
		refused += !here;
		sweep->rows[i] = (lk_sweep_row){sweep->predictions[i], here ? NULL : &sweep->refusals[i],
		                                &sweep->requests[i]};
	}
	if (refused == sweep->count) return *err = sweep->refusals[0], err->status;
	FILE *out = sweep->asked->out;
	return wants_report(sweep->asked)
	           ? lk_report_sweep(sweep->rows, sweep->count, LK_REPORT_JSON, NULL, out, err)
	           : lk_sweep_print(sweep->rows, sweep->count, LK_OUTPUT_JSON, false, false, NULL, out,
	                            err);
}

static lk_status ask_sweep(const lk_asked *asked, lk_error *err) {
	struct sweep sweep = {.asked = asked};
	lk_status status = make_sweep(&sweep, err);
	if (status == LK_OK)
		status = lk_predict_many(sweep.requests, sweep.count, asked->question->threads,
		                         sweep.predictions, sweep.refusals, show_sweep, &sweep, err);
	if (status == LK_OK) status = write_sweep(&sweep, err);
	for (size_t i = 0; sweep.predictions && i < sweep.count; i++)
		lk_predict_free(sweep.predictions[i]);
	free(sweep.requests);
	free(sweep.predictions);
	free(sweep.refusals);
	free(sweep.rows);
	return status;
}

/* ---- decisions ---- */

static lk_status ask_plan(const lk_asked *asked, lk_error *err) {
	lk_plan_request r;
	lk_plan *found = NULL;
	lk_plan_defaults(&r);
	LK_TRY(lk_args_fill(asked->args, 0, &r, err));
	r.job.launch = asked->launch;
	r.job.launch_count = asked->launch_count;
	r.threads = asked->question->threads;
	r.progress = asked->progress;
	r.progress_context = asked->context;
	LK_TRY(lk_plan_find(&r, &found, err));
	lk_status status =
		wants_report(asked)
			? lk_report_plan(found, LK_REPORT_JSON, NULL, asked->out, err)
			: lk_plan_print(found, LK_OUTPUT_JSON, false, false, NULL, asked->out, err);
	lk_plan_free(found);
	return status;
}

static lk_status ask_rent(const lk_asked *asked, lk_error *err) {
	lk_rent_request r;
	lk_rent *found = NULL;
	lk_rent_defaults(&r);
	LK_TRY(lk_args_fill(asked->args, 0, &r, err));
	if (r.map && wants_report(asked)) {
		lk_fail(err, LK_ERR_INPUT, "--map", "functions have no page");
		return lk_hint(err, "leave it out, or ask for form=result");
	}
	r.progress = asked->progress;
	r.progress_context = asked->context;
	LK_TRY(lk_rent_find(&r, &found, err));
	lk_status status =
		wants_report(asked)
			? lk_report_rent(found, LK_REPORT_JSON, NULL, asked->out, err)
			: lk_rent_print(found, LK_OUTPUT_JSON, false, false, NULL, asked->out, err);
	lk_rent_free(found);
	return status;
}

static lk_status ask_shard(const lk_asked *asked, lk_error *err) {
	lk_shard_request r;
	lk_shard_answer *found = NULL;
	lk_shard_defaults(&r);
	LK_TRY(lk_args_fill(asked->args, 0, &r, err));
	r.tables = asked->args->operand_count ? asked->args->operands[0] : NULL;
	r.progress = asked->progress;
	r.progress_context = asked->context;
	LK_TRY(lk_shard(&r, &found, err));
	lk_status status =
		wants_report(asked)
			? lk_report_shard(found, LK_REPORT_JSON, NULL, asked->out, err)
			: lk_shard_print(found, LK_SHARD_PLAN, LK_OUTPUT_JSON, false, NULL, asked->out, err);
	lk_shard_free(found);
	return status;
}

/* ---- what ran ---- */

static lk_status ask_explain(const lk_asked *asked, lk_error *err) {
	lk_explain_request r;
	lk_explanation *found = NULL;
	lk_explain_defaults(&r);
	LK_TRY(lk_args_fill(asked->args, 0, &r, err));
	r.traces = asked->question->traces;
	r.trace_count = asked->question->trace_count;
	r.threads = asked->question->threads;
	r.roofline = wants_report(asked);
	LK_TRY(lk_explain(&r, &found, err));
	lk_status status =
		wants_report(asked)
			? lk_report_explain(found, LK_REPORT_JSON, NULL, asked->out, err)
			: lk_explain_print(found, LK_OUTPUT_JSON, LK_EXPLAIN_ALL, false, NULL, asked->out, err);
	lk_explain_free(found);
	return status;
}

static lk_status ask_whatif(const lk_asked *asked, lk_error *err) {
	lk_whatif_request r;
	lk_whatif *found = NULL;
	lk_whatif_defaults(&r);
	LK_TRY(lk_args_fill(asked->args, 0, &r, err));
	r.paths = asked->question->traces;
	r.path_count = asked->question->trace_count;
	LK_TRY(lk_whatif_ask(&r, &found, err));
	lk_status status =
		wants_report(asked)
			? lk_report_whatif(found, LK_REPORT_JSON, NULL, asked->out, err)
			: lk_whatif_print(found, LK_OUTPUT_JSON, false, false, NULL, asked->out, err);
	lk_whatif_free(found);
	return status;
}

/* The report of a comparison is that of its JSON. */
static lk_status report_diff(const lk_diff *diff, FILE *out, lk_error *err) {
	char *text = NULL;
	size_t size = 0;
	FILE *json = lk_memory_open(&text, &size);
	if (!json) return lk_oom(err);
	lk_status status = lk_diff_print(diff, LK_OUTPUT_JSON, LK_DIFF_ALL, false, NULL, json, err);
	if (!lk_memory_close(json) && status == LK_OK) status = lk_oom(err);
	if (status == LK_OK)
		status = lk_report_answer(text, size, "diff", LK_REPORT_JSON, NULL, out, err);
	free(text);
	return status;
}

static lk_status ask_diff(const lk_asked *asked, lk_error *err) {
	lk_diff_request r;
	lk_diff *found = NULL;
	const lk_question *question = asked->question;
	lk_diff_defaults(&r);
	LK_TRY(lk_args_fill(asked->args, 0, &r, err));
	r.before = question->traces[0];
	r.after = question->traces[1];
	r.threads = question->threads;
	LK_TRY(lk_diff_ask(&r, &found, err));
	lk_status status = wants_report(asked) ? report_diff(found, asked->out, err)
	                                       : lk_diff_print(found, LK_OUTPUT_JSON, LK_DIFF_ALL,
	                                                       false, NULL, asked->out, err);
	lk_diff_free(found);
	return status;
}

/* Estimates from recordings alone: the server runs no commands. One file may be the text of
 * darshan-parser; else all are the files of a recording's folder, which is the question's. */
static lk_status ask_stalls(const lk_asked *asked, lk_error *err) {
	lk_stalls_request r;
	lk_stalls_answer *found = NULL;
	const lk_question *question = asked->question;
	lk_stalls_defaults(&r);
	LK_TRY(lk_args_fill(asked->args, 0, &r, err));
	bool text = question->trace_count == 1 && !lk_ends_in(question->traces[0], LK_RECORDING_ENDING);
	r.recording = text ? question->traces[0] : ".";
	LK_TRY(lk_stalls(&r, &found, err));
	lk_status status =
		wants_report(asked)
			? lk_report_stalls(found, LK_REPORT_JSON, NULL, asked->out, err)
			: lk_stalls_print(found, LK_OUTPUT_JSON, LK_STALLS_ALL, false, NULL, asked->out, err);
	lk_stalls_free(found);
	return status;
}

/* ---- the table ---- */

static const struct {
	const char *name; /* NULL: the verb's */
	const lk_verb *verb;
	lk_status (*ask)(const lk_asked *asked, lk_error *err);
} questions[LK_ASK_KINDS] = {
	[LK_ASK_PREDICT] = {NULL, &lk_predict_verb, ask_predict},
	[LK_ASK_SWEEP] = {"sweep", &lk_predict_verb, ask_sweep},
	[LK_ASK_PLAN] = {NULL, &lk_plan_verb, ask_plan},
	[LK_ASK_RENT] = {NULL, &lk_rent_verb, ask_rent},
	[LK_ASK_SHARD] = {NULL, &lk_shard_verb, ask_shard},
	[LK_ASK_EXPLAIN] = {NULL, &lk_explain_verb, ask_explain},
	[LK_ASK_WHATIF] = {NULL, &lk_whatif_verb, ask_whatif},
	[LK_ASK_DIFF] = {NULL, &lk_diff_verb, ask_diff},
	[LK_ASK_STALLS] = {NULL, &lk_stalls_verb, ask_stalls},
};

const lk_verb *lk_question_verb(lk_question_kind kind) {
	return kind < LK_ASK_KINDS ? questions[kind].verb : NULL;
}

const char *lk_question_name(lk_question_kind kind) {
	return questions[kind].name ? questions[kind].name : questions[kind].verb->name;
}

lk_status lk_question_ask(const lk_asked *asked, lk_error *err) {
	return questions[asked->question->kind].ask(asked, err);
}
