/* predict.c: `lockstep predict`: one prediction, or a sweep over every combination of comma lists.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"
#include "lockstep/predict.h"
#include "lockstep/report.h"
#include "lockstep/view.h"

struct sweep {
	lk_sweep_row *rows;
	lk_predict_request *requests;
	lk_error *refusals;
	lk_prediction **predictions;
	size_t count;
	lk_outputs outputs;
	struct timespec start;
	bool progress; /* a line on the terminal says how far it is */
};

/* ---- progress ---- */

static double predict_seconds_since(const struct timespec *start) {
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)(now.tv_sec - start->tv_sec) + (double)(now.tv_nsec - start->tv_nsec) / 1e9;
}

/* What takes over a second says on a terminal how far it is. */
static void predict_how_far(struct sweep *sweep, double done, double all, const char *of) {
	double elapsed = predict_seconds_since(&sweep->start);
	if (elapsed < 1 || !isatty(STDERR_FILENO)) return;
	sweep->progress = true;
	fprintf(stderr, "\r%.0f of %.0f%s, %.0f s left \x1b[K", done, all, of,
	        elapsed / done * (all - done));
}

static void show_progress(void *context, size_t done) {
	struct sweep *sweep = context;
	if (sweep->count > 1) predict_how_far(sweep, (double)done, (double)sweep->count, "");
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

static bool predict_make_room(struct sweep *sweep, size_t count) {
	sweep->rows = calloc(count, sizeof *sweep->rows);
	sweep->requests = calloc(count, sizeof *sweep->requests);
	sweep->refusals = calloc(count, sizeof *sweep->refusals);
	sweep->predictions = calloc(count, sizeof *sweep->predictions);
	sweep->count = count;
	return sweep->rows && sweep->requests && sweep->refusals && sweep->predictions;
}

static void free_sweep(struct sweep *sweep) {
	for (size_t i = 0; sweep->predictions && i < sweep->count; i++)
		lk_predict_free(sweep->predictions[i]);
	free(sweep->rows);
	free(sweep->requests);
	free(sweep->refusals);
	free(sweep->predictions);
}

/* An option for a file that is made from the simulated step; NULL without one. */
static const char *writes_step(const lk_outputs *outputs) {
	if (outputs->trace) return "--trace";
	if (outputs->graph) return "--graph";
	if (outputs->chakra) return "--chakra";
	return outputs->goal ? "--goal" : NULL;
}

static lk_status fill_requests(struct sweep *sweep, lk_args *args, lk_error *err) {
	for (size_t i = 0; i < sweep->count; i++) {
		lk_predict_defaults(&sweep->requests[i]);
		LK_TRY(lk_args_fill(args, i, &sweep->requests[i], err));
		LK_TRY(cli_take_job(args, &sweep->requests[i].config, &sweep->requests[i].model, err));
		sweep->requests[i].launch = args->rest;
		sweep->requests[i].launch_count = args->rest_count;
		sweep->requests[i].step = writes_step(&sweep->outputs) != NULL;
		sweep->requests[i].detail =
			(sweep->outputs.html || sweep->outputs.charts) && sweep->count == 1;
		if (sweep->count > 1) continue;
		sweep->requests[i].progress = show_seeds;
		sweep->requests[i].progress_context = sweep;
	}
	return LK_OK;
}

/* A combination whose input is wrong becomes a row that says so; anything else ends the sweep. */
static lk_status predict_ask(struct sweep *sweep, lk_args *args, lk_error *err) {
	LK_TRY(fill_requests(sweep, args, err));
	LK_TRY(lk_predict_many(sweep->requests, sweep->count, 0, sweep->predictions, sweep->refusals,
	                       show_progress, sweep, err));
	if (sweep->count == 1 && !sweep->predictions[0]) return *err = sweep->refusals[0], err->status;
	for (size_t i = 0; i < sweep->count; i++)
		sweep->rows[i] =
			(lk_sweep_row){sweep->predictions[i],
		                   sweep->predictions[i] ? NULL : &sweep->refusals[i], &sweep->requests[i]};
	return LK_OK;
}

/* ---- asking together ---- */

/* What a process says of a combination: its size, then the bytes; a refusal without bytes. */
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
	out->status = lk_predict(&together->s->requests[i], &prediction, &out->refusal);
	lk_status status = LK_OK;
	if (out->status == LK_OK)
		status = lk_predict_pack(prediction, &together->own[i].bytes, &together->own[i].size, err);
	else if (out->status != LK_ERR_INPUT || together->s->count == 1) {
		*err = out->refusal;
		status = out->status;
	}
	out->size = together->own[i].size;
	lk_predict_free(prediction);
	return status;
}

/* What was asked in a job before this one (--resume) is asked again: its bytes were not kept. */
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
	if (together->own[i].bytes) memcpy(result, together->own[i].bytes, together->own[i].size);
	return LK_OK;
}

static lk_status take_packed(struct together *together, const struct outcome *outcomes,
                             const char *bytes, lk_error *err) {
	struct sweep *sweep = together->s;
	for (size_t i = 0; i < sweep->count; i++) {
		if (outcomes[i].status == LK_OK)
			LK_TRY(lk_predict_unpack(bytes + i * together->most, outcomes[i].size,
			                         &sweep->predictions[i], err));
		else sweep->refusals[i] = outcomes[i].refusal;
		sweep->rows[i] =
			(lk_sweep_row){sweep->predictions[i],
		                   sweep->predictions[i] ? NULL : &sweep->refusals[i], &sweep->requests[i]};
	}
	return LK_OK;
}

static lk_status ask_together(struct sweep *sweep, lk_args *args, const lk_plan_team *team,
                              lk_error *err) {
	struct together t = {.s = sweep, .own = calloc(sweep->count, sizeof *t.own), .most = 1};
	struct outcome *outcomes = t.outcomes = calloc(sweep->count, sizeof *outcomes);
	char *bytes = NULL;
	lk_status status =
		t.own && outcomes ? LK_OK : lk_fail(err, LK_ERR_MEMORY, NULL, "out of memory");
	if (status == LK_OK) status = fill_requests(sweep, args, err);
	if (status == LK_OK)
		status =
			team->run(team->self, sweep->count, sizeof *outcomes, ask_packed, &t, outcomes, err);
	for (size_t i = 0; status == LK_OK && i < sweep->count; i++)
		if (outcomes[i].size > t.most) t.most = outcomes[i].size;
	if (status == LK_OK && !(bytes = calloc(sweep->count, t.most)))
		status = lk_fail(err, LK_ERR_MEMORY, NULL, "out of memory");
	if (status == LK_OK)
		status = team->run(team->self, sweep->count, t.most, send_packed, &t, bytes, err);
	if (status == LK_OK) status = take_packed(&t, outcomes, bytes, err);
	for (size_t i = 0; t.own && i < sweep->count; i++) free(t.own[i].bytes);
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
	LK_TRY(cli_read(args, &first, &sweep->outputs, NULL, team, err));
	const char *single = first.emit ? "--emit" : writes_step(&sweep->outputs);
	if (single && count > 1) {
		lk_fail(err, LK_ERR_INPUT, single, "%zu combinations would write the same file", count);
		return lk_hint(err, "ask for one combination");
	}
	if (first.emit) LK_TRY(cli_check_emit(first.emit, &sweep->outputs, err));
	if (!predict_make_room(sweep, count)) return lk_fail(err, LK_ERR_MEMORY, NULL, "out of memory");
	clock_gettime(CLOCK_MONOTONIC, &sweep->start);
	if (team && count > 1) return ask_together(sweep, args, team, err);
	return predict_ask(sweep, args, err);
}

/* ---- answering ---- */

/* Reports say it themselves; answers for programs are the same from run to run. */
static void show_simulation_time(const struct sweep *sweep) {
	double seconds = 0;
	for (size_t i = 0; i < sweep->count; i++)
		if (sweep->predictions[i]) seconds += sweep->predictions[i]->simulation_s;
	fprintf(stderr, "lockstep: simulated in %.6f s\n", seconds);
}

/* Every combination was refused: the reasons, each once, as far as a screen takes them. */
static int all_refused(const struct sweep *sweep) {
	enum { REASONS = 10 };
	size_t shown[REASONS], count = 0;
	for (size_t i = 0; i < sweep->count && count < REASONS; i++) {
		bool seen = false;
		for (size_t k = 0; k < count; k++)
			seen |= memcmp(&sweep->refusals[shown[k]], &sweep->refusals[i],
			               sizeof sweep->refusals[i]) == 0;
		if (seen) continue;
		shown[count++] = i;
		cli_fail(&sweep->refusals[i]);
	}
	fprintf(stderr, "lockstep: none of the %zu combinations can run\n", sweep->count);
	return CLI_WRONG;
}

static int predict_answer(const struct sweep *sweep, lk_error *err) {
	const lk_outputs *outputs = &sweep->outputs;
	size_t refused = 0, fit = 0;
	for (size_t i = 0; i < sweep->count; i++) {
		refused += !sweep->rows[i].prediction;
		fit += sweep->rows[i].prediction && sweep->rows[i].prediction->fits;
	}
	if (refused == sweep->count) return all_refused(sweep);
	const char *failed = NULL; /* one warning for all combinations */
	for (size_t i = 0; i < sweep->count && !failed; i++)
		if (sweep->predictions[i]) failed = sweep->predictions[i]->failed_check;
	cli_warn_failed(failed);
	if (sweep->count == 1 && lk_predict_write_files(sweep->predictions[0], outputs, err) != LK_OK)
		return cli_fail(err);
	if (outputs->html && sweep->count > 1 &&
	    lk_report_sweep(sweep->rows, sweep->count, LK_REPORT_HTML, outputs->html, NULL, err) !=
	        LK_OK)
		return cli_fail(err);
	if (outputs->charts && sweep->count > 1 &&
	    lk_report_sweep(sweep->rows, sweep->count, LK_REPORT_CHARTS, outputs->charts, NULL, err) !=
	        LK_OK)
		return cli_fail(err);
	const char *emit = sweep->count == 1 ? sweep->requests[0].emit : NULL;
	lk_emitted emitted;
	if (emit && (lk_predict_emit(sweep->predictions[0], &emitted, err) != LK_OK ||
	             cli_write_emitted(&emitted, outputs->path, err) != LK_OK))
		return cli_fail(err);
	if (emit && !fit)
		fprintf(
			stderr,
			"lockstep: note: it does not fit: %.1f GiB of %.1f GiB of a GPU; without --emit the "
			"answer names changes that do\n",
			sweep->predictions[0]->peak_bytes / (1 << 30),
			sweep->predictions[0]->usable_bytes / (1 << 30));
	if (emit) return fit ? CLI_OK : CLI_NO;
	lk_status status = lk_sweep_print(sweep->rows, sweep->count, outputs->format, outputs->verbose,
	                                  cli_colour(), outputs->path, stdout, err);
	if (status != LK_OK) return cli_fail(err);
	if (outputs->verbose && outputs->format != LK_OUTPUT_TEXT) show_simulation_time(sweep);
	return fit ? CLI_OK : CLI_NO;
}

int cli_predict_with(lk_args *args, const lk_plan_team *team, bool speaks) {
	struct sweep s = {0};
	lk_error err = {0};
	lk_status status = predict_ask_all(&s, args, team, &err);
	clear_progress(&s);
	int result;
	if (!speaks) {
		if (status == LK_OK) result = CLI_OK;
		else result = CLI_WRONG;
	} else if (status == LK_OK) result = predict_answer(&s, &err);
	else result = cli_fail(&err);
	free_sweep(&s);
	return result;
}

static int cli_predict_run(lk_args *args) {
	return cli_predict_with(args, NULL, true);
}

const cli_command cli_predict = {&lk_predict_verb, cli_predict_run};
