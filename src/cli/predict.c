/* predict.c: `lockstep predict`: one prediction, or a sweep over every combination of comma lists.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "system/clock.h"
#include "system/memory.h"
#include "cli/cli.h"
#include "lockstep/predict.h"
#include "lockstep/report.h"
#include "lockstep/view.h"

struct sweep {
	lk_combinations all;
	lk_outputs outputs;
	double start_s;
	bool progress; /* a line of progress is on the terminal */
};

/* ---- progress ---- */

/* Shows progress on a terminal after one second. */
static void predict_how_far(struct sweep *sweep, double done, double all, const char *of) {
	double elapsed = lk_clock_s() - sweep->start_s;
	if (elapsed < 1 || !isatty(STDERR_FILENO)) return;
	sweep->progress = true;
	fprintf(stderr, "\r%.0f of %.0f%s, %.0f s left \x1b[K", done, all, of,
	        elapsed / done * (all - done));
}

static void show_progress(void *context, size_t done) {
	struct sweep *sweep = context;
	if (sweep->all.count > 1) predict_how_far(sweep, (double)done, (double)sweep->all.count, "");
}

static void show_seeds(void *context, int gpus, double done, double all) {
	(void)gpus;
	predict_how_far(context, done, all, " seeds");
}

static void clear_progress(struct sweep *sweep) {
	if (sweep->progress) fputs("\r\x1b[K", stderr);
	sweep->progress = false;
}

/* ---- asking ---- */

static lk_status fill_requests(struct sweep *sweep, lk_args *args, lk_error *err) {
	lk_verb_input input = lk_verb_words(args, &sweep->outputs);
	input.pictured = input.pictured && sweep->all.count == 1;
	if (sweep->all.count == 1) {
		input.progress = show_seeds;
		input.progress_context = sweep;
	}
	return lk_combinations_fill(&sweep->all, 0, args, &input, err);
}

/* Predicts all combinations. One with wrong input becomes a row with its reason; any other error
 * ends the sweep. */
static lk_status predict_ask(struct sweep *sweep, lk_args *args, lk_error *err) {
	LK_TRY(fill_requests(sweep, args, err));
	LK_TRY(lk_predict_many(sweep->all.requests, sweep->all.count, 0, sweep->all.predictions,
	                       sweep->all.refusals, show_progress, sweep, err));
	if (sweep->all.count == 1 && !sweep->all.predictions[0]) {
		*err = sweep->all.refusals[0];
		return err->status;
	}
	return LK_OK;
}

/* ---- asking as a team of processes ---- */

/* A packed prediction of this process; bytes NULL: refused, or predicted by another process. */
struct packed {
	void *bytes;
	size_t size;
};

struct outcome {
	size_t size;
	lk_status status;
	lk_error refusal;
};

struct together {
	struct sweep *s;
	struct packed *own;       /* [count] of this process */
	struct outcome *outcomes; /* [count] */
	size_t most;              /* bytes of the largest */
};

static lk_status ask_packed(void *context, size_t i, void *result, lk_error *err) {
	struct together *together = context;
	struct outcome *out = result;
	lk_prediction *prediction = NULL;
	memset(out, 0, sizeof *out);
	out->status = lk_predict(&together->s->all.requests[i], &prediction, &out->refusal);
	lk_status status = LK_OK;
	if (out->status == LK_OK)
		status = lk_predict_pack(prediction, &together->own[i].bytes, &together->own[i].size, err);
	else if (out->status != LK_ERR_INPUT || together->s->all.count == 1) {
		*err = out->refusal;
		status = out->status;
	}
	out->size = together->own[i].size;
	lk_predict_free(prediction);
	return status;
}

/* Sends the bytes of a prediction. One finished in an earlier job (--resume) is predicted again,
 * because its bytes were not kept. */
static lk_status send_packed(void *context, size_t i, void *result, lk_error *err) {
	struct together *together = context;
	memset(result, 0, together->most);
	if (!together->own[i].bytes && together->outcomes[i].status == LK_OK) {
		struct outcome again;
		LK_TRY(ask_packed(context, i, &again, err));
		if (again.size > together->most)
			return lk_fail(err, LK_ERR_INTERNAL, "predict",
			               "a prediction differs from the one before");
	}
	LK_ASSERT(together->own[i].size <= together->most);
	if (together->own[i].bytes) memcpy(result, together->own[i].bytes, together->own[i].size);
	return LK_OK;
}

static lk_status take_packed(struct together *together, const struct outcome *outcomes,
                             const char *bytes, lk_error *err) {
	struct sweep *sweep = together->s;
	for (size_t i = 0; i < sweep->all.count; i++) {
		if (outcomes[i].status == LK_OK)
			LK_TRY(lk_predict_unpack(bytes + i * together->most, outcomes[i].size,
			                         &sweep->all.predictions[i], err));
		else sweep->all.refusals[i] = outcomes[i].refusal;
	}
	return LK_OK;
}

static lk_status ask_together(struct sweep *sweep, lk_args *args, const lk_plan_team *team,
                              lk_error *err) {
	struct together t = {.s = sweep, .own = calloc(sweep->all.count, sizeof *t.own), .most = 1};
	struct outcome *outcomes = t.outcomes = calloc(sweep->all.count, sizeof *outcomes);
	char *bytes = NULL;
	lk_status status =
		t.own && outcomes ? LK_OK : lk_fail(err, LK_ERR_MEMORY, NULL, "out of memory");
	if (status == LK_OK) status = fill_requests(sweep, args, err);
	if (status == LK_OK)
		status = team->run(team->self, sweep->all.count, sizeof *outcomes, ask_packed, &t, outcomes,
		                   err);
	for (size_t i = 0; status == LK_OK && i < sweep->all.count; i++)
		if (outcomes[i].size > t.most) t.most = outcomes[i].size;
	if (status == LK_OK && !(bytes = calloc(sweep->all.count, t.most)))
		status = lk_fail(err, LK_ERR_MEMORY, NULL, "out of memory");
	if (status == LK_OK)
		status = team->run(team->self, sweep->all.count, t.most, send_packed, &t, bytes, err);
	if (status == LK_OK) status = take_packed(&t, outcomes, bytes, err);
	for (size_t i = 0; t.own && i < sweep->all.count; i++) free(t.own[i].bytes);
	free(t.own);
	free(outcomes);
	free(bytes);
	return status;
}

static lk_status predict_ask_all(struct sweep *sweep, lk_args *args, const lk_plan_team *team,
                                 lk_error *err) {
	size_t count;
	lk_predict_request first;
	LK_TRY(lk_args_combinations(args, &count, err));
	lk_predict_defaults(&first);
	LK_TRY(cli_read(args, &first, &sweep->outputs, &lk_row_predict, team, err));
	const char *single = first.emit ? "--emit" : lk_step_file_option(&sweep->outputs);
	if (first.calibrated) single = "--calibrated";
	if (single && count > 1) {
		lk_fail(err, LK_ERR_INPUT, single, "%zu combinations would write the same file", count);
		return lk_hint(err, "ask for one combination");
	}
	if (first.emit) LK_TRY(cli_check_emit(first.emit, &sweep->outputs, err));
	LK_TRY(lk_combinations_open(&sweep->all, count, err));
	sweep->start_s = lk_clock_s();
	if (team && count > 1) return ask_together(sweep, args, team, err);
	return predict_ask(sweep, args, err);
}

/* ---- answering ---- */

/* Reports contain the time; answers for programs do not, so that they are equal from run to run. */
static void show_simulation_time(const struct sweep *sweep) {
	double seconds = 0;
	for (size_t i = 0; i < sweep->all.count; i++)
		if (sweep->all.predictions[i]) seconds += sweep->all.predictions[i]->simulation_s;
	fprintf(stderr, "lockstep: simulated in %.6f s\n", seconds);
}

/* Reports why every combination was refused: each reason once, at most ten. */
static int all_refused(const struct sweep *sweep) {
	enum { REASONS = 10 };
	size_t shown[REASONS], count = 0;
	for (size_t i = 0; i < sweep->all.count && count < REASONS; i++) {
		bool seen = false;
		for (size_t k = 0; k < count; k++)
			seen |= memcmp(&sweep->all.refusals[shown[k]], &sweep->all.refusals[i],
			               sizeof sweep->all.refusals[i]) == 0;
		if (seen) continue;
		shown[count++] = i;
		cli_fail(&sweep->all.refusals[i]);
	}
	fprintf(stderr, "lockstep: none of the %zu combinations can run\n", sweep->all.count);
	return CLI_WRONG;
}

/* The report of a sweep, where one is wanted; that of one prediction is among its files. */
static lk_status predict_report_sweep(const struct sweep *sweep, lk_error *err) {
	const lk_outputs *outputs = &sweep->outputs;
	if (outputs->html)
		LK_TRY(lk_report_sweep(sweep->all.rows, sweep->all.count, LK_REPORT_HTML, outputs->html,
		                       NULL, err));
	if (!outputs->charts) return LK_OK;
	return lk_report_sweep(sweep->all.rows, sweep->all.count, LK_REPORT_CHARTS, outputs->charts,
	                       NULL, err);
}

static lk_status predict_emit(const struct sweep *sweep, lk_error *err) {
	lk_emitted emitted = {0};
	const lk_prediction *prediction = sweep->all.predictions[0];
	LK_ASSERT(sweep->all.count == 1 && prediction != NULL);
	LK_TRY(lk_row_predict.emit(&sweep->all.requests[0], prediction, &emitted, err));
	LK_TRY(cli_write_emitted(&emitted, sweep->outputs.path, err));
	if (!prediction->fits)
		fprintf(stderr,
		        "lockstep: note: it does not fit: %.1f GiB of %.1f GiB of a GPU; without --emit "
		        "the answer names changes that do\n",
		        prediction->peak_bytes / (1 << 30), prediction->usable_bytes / (1 << 30));
	return LK_OK;
}

static lk_status predict_write(const struct sweep *sweep, lk_error *err) {
	const lk_outputs *outputs = &sweep->outputs;
	if (sweep->all.count > 1) LK_TRY(predict_report_sweep(sweep, err));
	else
		LK_TRY(
			lk_row_predict.files(&sweep->all.requests[0], sweep->all.predictions[0], outputs, err));
	if (sweep->all.count == 1 && sweep->all.requests[0].emit) return predict_emit(sweep, err);
	LK_TRY(lk_sweep_print(sweep->all.rows, sweep->all.count, outputs->format, outputs->verbose,
	                      cli_colour(), outputs->path, stdout, err));
	if (outputs->verbose && outputs->format != LK_OUTPUT_TEXT) show_simulation_time(sweep);
	return LK_OK;
}

/* The condition of --fail-if that holds; "": none. */
static lk_status predict_met(const struct sweep *sweep, char met[LK_MET_SIZE], lk_error *err) {
	char *text = NULL;
	size_t size = 0;
	*met = '\0';
	if (!sweep->outputs.fail_if) return LK_OK;
	FILE *out = lk_memory_open(&text, &size);
	if (!out) return lk_oom(err);
	lk_status status = lk_sweep_print(sweep->all.rows, sweep->all.count, LK_OUTPUT_JSON, false,
	                                  false, NULL, out, err);
	if (!lk_memory_close(out) && status == LK_OK) status = lk_oom(err);
	if (status == LK_OK) status = lk_conditions_met(sweep->outputs.fail_if, text, size, met, err);
	free(text);
	return status;
}

static int predict_answer(struct sweep *sweep) {
	lk_error err = {0};
	if (lk_combinations_rows(&sweep->all) == sweep->all.count) return all_refused(sweep);
	bool fits = false;
	const char *failed = NULL; /* one warning for all combinations */
	for (size_t i = 0; i < sweep->all.count; i++) {
		const lk_prediction *prediction = sweep->all.predictions[i];
		if (!prediction) continue;
		fits |= prediction->fits;
		if (!failed) failed = prediction->failed_check;
	}
	cli_warn_failed(failed);
	char met[LK_MET_SIZE];
	cli_answers();
	if (predict_write(sweep, &err) != LK_OK) return cli_fail(&err);
	if (predict_met(sweep, met, &err) != LK_OK) return cli_fail(&err);
	return cli_met(met, fits ? CLI_OK : CLI_NO);
}

int cli_predict_with(lk_args *args, const lk_plan_team *team, bool speaks) {
	struct sweep s = {0};
	lk_error err = {0};
	lk_status status = predict_ask_all(&s, args, team, &err);
	clear_progress(&s);
	int result = status == LK_OK ? CLI_OK : CLI_WRONG;
	if (speaks) result = status == LK_OK ? predict_answer(&s) : cli_fail(&err);
	lk_combinations_close(&s.all);
	return result;
}

int cli_predict(lk_args *args) {
	return cli_predict_with(args, NULL, true);
}
