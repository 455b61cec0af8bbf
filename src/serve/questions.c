/* questions.c: asks verbs by their rows (verbs/verbs.h) and writes answers as JSON, as the document
 * of a report, or as a file. */
#include "serve/serve_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "verbs/verbs.h"

/* Whether the answer is the document that the page shows. */
static bool wants_report(const lk_asked *asked) {
	return asked->question->form == LK_FORM_REPORT || asked->question->form == LK_FORM_PICTURE;
}

/* ---- one answer ---- */

lk_status lk_question_single(const lk_args *args, const char *where, lk_error *err) {
	size_t count;
	LK_TRY(lk_args_combinations(args, &count, err));
	if (count == 1) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, where, "the lists make %zu combinations", count);
	return lk_hint(err, "ask for one at a time, or for a sweep");
}

/* The file in the folder of the question that an answer is written to and read from again; NULL: it
 * needs none. */
static const char *file_of_question(const lk_question *question) {
	if (question->kind != LK_ASK_PREDICT) return NULL;
	if (question->form == LK_FORM_TIMELINE) return "timeline.json";
	return question->form == LK_FORM_GRAPH ? "graph.json" : NULL;
}

bool lk_question_writes(const lk_question *question) {
	return file_of_question(question) != NULL;
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

/* Files that were sent are operands, even of a verb that takes none on a command line (stalls). */
static lk_verb_input input_of(const lk_asked *asked, const lk_outputs *outputs) {
	const lk_question *question = asked->question;
	lk_verb_input input = lk_verb_words(asked->args, outputs);
	if (question->trace_count > 0) {
		input.operands = question->traces;
		input.operand_count = question->trace_count;
	}
	input.launch = asked->launch;
	input.launch_count = asked->launch_count;
	input.pictured = wants_report(asked);
	input.brief = question->form != LK_FORM_REPORT && question->form != LK_FORM_RESULT;
	input.threads = question->threads;
	input.progress = asked->progress;
	input.progress_context = asked->context;
	return input;
}

static lk_status check_pictured(const lk_verb_row *row, const void *request, const lk_asked *asked,
                                lk_error *err) {
	const char *option = row->unpictured ? row->unpictured(request) : NULL;
	if (wants_report(asked) && !row->report) {
		lk_fail(err, LK_ERR_INPUT, NULL, "what the files hold has no page of its own");
		return lk_hint(err, "ask for form=result");
	}
	if (!option || !wants_report(asked)) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, option, "functions have no page");
	return lk_hint(err, "leave it out, or ask for form=result");
}

static lk_status write_form(const lk_verb_row *row, const void *request, const void *answer,
                            const lk_outputs *files, const lk_asked *asked, lk_error *err) {
	const char *path = file_of_question(asked->question);
	if (path) {
		lk_status status = row->files(request, answer, files, err);
		if (status == LK_ERR_IO) { /* of the process's limits (confine.c) */
			lk_fail(err, LK_ERR_INPUT, path, "it is too large, or cannot be written here");
			return lk_hint(err, "ask for a step of fewer micro-batches (--gbs), or write the file "
			                    "with lockstep predict");
		}
		return status == LK_OK ? copy_file(path, asked->out, err) : status;
	}
	if (wants_report(asked)) return row->report(answer, LK_REPORT_JSON, NULL, asked->out, err);
	const lk_outputs json = {.format = LK_OUTPUT_JSON};
	return row->print(answer, &json, false, asked->out, err);
}

/* What stalls needs: no command is run here. */
static lk_status check_stalls_source(const lk_asked *asked, lk_error *err) {
	if (asked->question->kind != LK_ASK_STALLS || asked->question->trace_count ||
	    lk_args_given(asked->args, "model"))
		return LK_OK;
	lk_fail(err, LK_ERR_INPUT, "stalls", "no file was sent");
	return lk_hint(err, "send the files of a folder that lockstep record made, or name networks "
	                    "(model) and machines (machine)");
}

static lk_status ask_by_row(const lk_verb_row *row, void *request, const lk_asked *asked,
                            lk_error *err) {
	const char *path = file_of_question(asked->question);
	bool timeline = asked->question->form == LK_FORM_TIMELINE;
	const lk_outputs files = {.trace = timeline ? path : NULL, .graph = timeline ? NULL : path};
	const lk_verb_input input = input_of(asked, &files);
	void *answer = NULL;
	LK_ASSERT(!path || row->files);
	LK_TRY(lk_question_single(asked->args, "body", err));
	LK_TRY(check_stalls_source(asked, err));
	LK_TRY(lk_verb_request(row, asked->args, 0, &input, request, err));
	LK_TRY(lk_verb_answering(&row, request, err));
	LK_TRY(check_pictured(row, request, asked, err));
	LK_TRY(row->ask(request, &answer, err));
	lk_status status = write_form(row, request, answer, &files, asked, err);
	row->free(answer);
	return status;
}

/* ---- sweeps ---- */

enum { SWEEP_ROWS = 10000 }; /* most rows of an answer */

struct sweep {
	const lk_asked *asked;
	size_t count;
};

static void show_sweep(void *context, size_t done) {
	const struct sweep *sweep = context;
	sweep->asked->progress(sweep->asked->context, 0, (double)done, (double)sweep->count);
}

static lk_status count_sweep(const lk_asked *asked, size_t *count, lk_error *err) {
	LK_TRY(lk_args_combinations(asked->args, count, err));
	if (*count <= SWEEP_ROWS) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, "body", "the lists make %zu combinations, and %d are answered",
	        *count, SWEEP_ROWS);
	return lk_hint(err, "give shorter lists, or use lockstep predict");
}

static lk_status run_sweep(lk_combinations *all, const lk_asked *asked, lk_error *err) {
	const lk_outputs outputs = {0};
	struct sweep sweep = {asked, all->count};
	lk_verb_input input = input_of(asked, &outputs);
	input.pictured = input.brief = false; /* what a single prediction has in addition */
	input.progress = NULL;
	LK_TRY(lk_combinations_fill(all, 0, asked->args, &input, err));
	return lk_predict_many(all->requests, all->count, asked->question->threads, all->predictions,
	                       all->refusals, show_sweep, &sweep, err);
}

/* A refused combination is a row; where all are refused, the first refusal is the answer. */
static lk_status write_sweep(lk_combinations *all, const lk_asked *asked, lk_error *err) {
	if (lk_combinations_rows(all) == all->count) {
		*err = all->refusals[0];
		return err->status;
	}
	if (wants_report(asked))
		return lk_report_sweep(all->rows, all->count, LK_REPORT_JSON, NULL, asked->out, err);
	return lk_sweep_print(all->rows, all->count, LK_OUTPUT_JSON, false, false, NULL, asked->out,
	                      err);
}

static lk_status ask_sweep(const lk_asked *asked, lk_error *err) {
	lk_combinations all;
	size_t count;
	LK_TRY(count_sweep(asked, &count, err));
	lk_status status = lk_combinations_open(&all, count, err);
	if (status == LK_OK) status = run_sweep(&all, asked, err);
	if (status == LK_OK) status = write_sweep(&all, asked, err);
	lk_combinations_close(&all);
	return status;
}

/* ---- the table ---- */

/* What the server answers; `name` NULL: the verb's. Stalls are estimated from recordings, or
 * predicted: the server runs no commands. */
static const struct {
	const char *name;
	const lk_verb_row *row;
} questions[LK_ASK_KINDS] = {
	[LK_ASK_PREDICT] = {NULL, &lk_row_predict}, [LK_ASK_SWEEP] = {"sweep", &lk_row_predict},
	[LK_ASK_PLAN] = {NULL, &lk_row_plan},       [LK_ASK_RENT] = {NULL, &lk_row_rent},
	[LK_ASK_SHARD] = {NULL, &lk_row_shard},     [LK_ASK_EXPLAIN] = {NULL, &lk_row_explain},
	[LK_ASK_WHATIF] = {NULL, &lk_row_whatif},   [LK_ASK_DIFF] = {NULL, &lk_row_diff},
	[LK_ASK_STALLS] = {NULL, &lk_row_stalls},
};

const lk_verb *lk_question_verb(lk_question_kind kind) {
	return kind < LK_ASK_KINDS ? questions[kind].row->verb : NULL;
}

const char *lk_question_name(lk_question_kind kind) {
	return questions[kind].name ? questions[kind].name : questions[kind].row->verb->name;
}

lk_status lk_question_ask(const lk_asked *asked, lk_error *err) {
	lk_question_kind kind = asked->question->kind;
	LK_ASSERT(kind < LK_ASK_KINDS && asked->question->form != LK_FORM_STATED);
	if (kind == LK_ASK_SWEEP) return ask_sweep(asked, err);
	const lk_verb_row *row = questions[kind].row;
	void *request = calloc(1, row->verb->request_size);
	lk_status status = request ? ask_by_row(row, request, asked, err) : lk_oom(err);
	free(request);
	return status;
}
