/* predict.c: `lockstep predict`: one prediction, or a sweep over every combination of comma lists. */
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
	const char *html; /* of a sweep: one report of all of them */
	struct timespec start;
	bool progress;  /* something stands on the line of the terminal */
};

/* ---- progress ---- */

static double seconds_since(const struct timespec *start) {
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)(now.tv_sec - start->tv_sec) + (double)(now.tv_nsec - start->tv_nsec) / 1e9;
}

/* A sweep that takes over a second says on a terminal how far it is. */
static void show_progress(void *context, size_t done) {
	struct sweep *s = context;
	double elapsed = seconds_since(&s->start);
	if (s->count < 2 || elapsed < 1 || !isatty(STDERR_FILENO)) return;
	s->progress = true;
	fprintf(stderr, "\r%zu of %zu, %.0f s left \x1b[K", done, s->count, elapsed / (double)done * (double)(s->count - done));
}

static void clear_progress(struct sweep *s) {
	if (s->progress) fputs("\r\x1b[K", stderr);
	s->progress = false;
}

/* ---- asking ---- */

static bool make_room(struct sweep *s, size_t count) {
	s->rows = calloc(count, sizeof *s->rows);
	s->requests = calloc(count, sizeof *s->requests);
	s->refusals = calloc(count, sizeof *s->refusals);
	s->predictions = calloc(count, sizeof *s->predictions);
	s->count = count;
	return s->rows && s->requests && s->refusals && s->predictions;
}

static void free_sweep(struct sweep *s) {
	for (size_t i = 0; s->predictions && i < s->count; i++) lk_predict_free(s->predictions[i]);
	free(s->rows);
	free(s->requests);
	free(s->refusals);
	free(s->predictions);
}

static lk_status fill_requests(struct sweep *s, lk_args *args, lk_error *err) {
	for (size_t i = 0; i < s->count; i++) {
		lk_predict_defaults(&s->requests[i]);
		LK_TRY(lk_args_fill(args, i, &s->requests[i], err));
		s->requests[i].launch = args->rest, s->requests[i].launch_count = args->rest_count;
		if (s->count == 1) continue;
		s->html = s->requests[i].html; /* its details are asked for one prediction alone */
		s->requests[i].html = NULL;
	}
	return LK_OK;
}

/* A combination whose input is wrong becomes a row that says so; anything else ends the sweep. */
static lk_status ask(struct sweep *s, lk_args *args, lk_error *err) {
	LK_TRY(fill_requests(s, args, err));
	LK_TRY(lk_predict_many(s->requests, s->count, 0, s->predictions, s->refusals, show_progress, s, err));
	if (s->count == 1 && !s->predictions[0]) return *err = s->refusals[0], err->status;
	for (size_t i = 0; i < s->count; i++)
		s->rows[i] = (lk_sweep_row){s->predictions[i], s->predictions[i] ? NULL : &s->refusals[i], &s->requests[i]};
	return LK_OK;
}

/* What can be told to be wrong before anything is computed. */
static lk_status check_outputs(const lk_predict_request *r, size_t count, bool together, lk_error *err) {
	if (r->resume && !together) {
		lk_fail(err, LK_ERR_INPUT, "--resume", "only lockstep-mpi keeps finished parts");
		return lk_hint(err, "run mpirun -n K lockstep-mpi predict ..., or leave it out");
	}
	if (r->format == LK_OUTPUT_SQLITE && !r->output) {
		lk_fail(err, LK_ERR_INPUT, "--output", "the format sqlite needs a file");
		return lk_hint(err, "add --file NAME.sqlite");
	}
	const char *single = r->trace ? "--trace" : r->graph ? "--graph" : r->chakra ? "--chakra" : NULL;
	if (single && count > 1) {
		lk_fail(err, LK_ERR_INPUT, single, "%zu combinations would write the same file", count);
		return lk_hint(err, "ask for one combination");
	}
	return cli_check_places((const char *const[]){r->output, r->trace, r->graph, r->html}, 4, err);
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
	struct packed *own;            /* [count] of this process */
	struct outcome *outcomes;      /* [count] */
	size_t most;            /* bytes of the largest */
};

static lk_status ask_packed(void *context, size_t i, void *result, lk_error *err) {
	struct together *t = context;
	struct outcome *out = result;
	lk_prediction *prediction = NULL;
	memset(out, 0, sizeof *out);
	out->status = lk_predict(&t->s->requests[i], &prediction, &out->refusal);
	lk_status status = LK_OK;
	if (out->status == LK_OK) status = lk_predict_pack(prediction, &t->own[i].bytes, &t->own[i].size, err);
	else if (out->status != LK_ERR_INPUT || t->s->count == 1) *err = out->refusal, status = out->status;
	out->size = t->own[i].size;
	lk_predict_free(prediction);
	return status;
}

/* What was asked in a job before this one (--resume) is asked again: its bytes were not kept. */
static lk_status send_packed(void *context, size_t i, void *result, lk_error *err) {
	struct together *t = context;
	memset(result, 0, t->most);
	if (!t->own[i].bytes && t->outcomes[i].status == LK_OK) {
		struct outcome again;
		LK_TRY(ask_packed(context, i, &again, err));
		if (again.size > t->most) return lk_fail(err, LK_ERR_INTERNAL, "predict", "a prediction differs from the one before");
	}
	if (t->own[i].bytes) memcpy(result, t->own[i].bytes, t->own[i].size);
	return LK_OK;
}

static lk_status take_packed(struct together *t, const struct outcome *outcomes, const char *bytes, lk_error *err) {
	struct sweep *s = t->s;
	for (size_t i = 0; i < s->count; i++) {
		if (outcomes[i].status == LK_OK)
			LK_TRY(lk_predict_unpack(bytes + i * t->most, outcomes[i].size, &s->predictions[i], err));
		else s->refusals[i] = outcomes[i].refusal;
		s->rows[i] = (lk_sweep_row){s->predictions[i], s->predictions[i] ? NULL : &s->refusals[i], &s->requests[i]};
	}
	return LK_OK;
}

static lk_status ask_together(struct sweep *s, lk_args *args, const lk_plan_team *team, lk_error *err) {
	struct together t = {.s = s, .own = calloc(s->count, sizeof *t.own), .most = 1};
	struct outcome *outcomes = t.outcomes = calloc(s->count, sizeof *outcomes);
	char *bytes = NULL;
	lk_status status = t.own && outcomes ? LK_OK : lk_fail(err, LK_ERR_MEMORY, NULL, "out of memory");
	if (status == LK_OK) status = fill_requests(s, args, err);
	if (status == LK_OK) status = team->run(team->self, s->count, sizeof *outcomes, ask_packed, &t, outcomes, err);
	for (size_t i = 0; status == LK_OK && i < s->count; i++)
		if (outcomes[i].size > t.most) t.most = outcomes[i].size;
	if (status == LK_OK && !(bytes = calloc(s->count, t.most))) status = lk_fail(err, LK_ERR_MEMORY, NULL, "out of memory");
	if (status == LK_OK) status = team->run(team->self, s->count, t.most, send_packed, &t, bytes, err);
	if (status == LK_OK) status = take_packed(&t, outcomes, bytes, err);
	for (size_t i = 0; t.own && i < s->count; i++) free(t.own[i].bytes);
	free(t.own);
	free(outcomes);
	free(bytes);
	return status;
}

static lk_status ask_all(struct sweep *s, lk_args *args, const lk_plan_team *team, lk_error *err) {
	size_t count;
	lk_predict_request first;
	LK_TRY(lk_args_combinations(args, &count, err));
	lk_predict_defaults(&first);
	LK_TRY(lk_args_fill(args, 0, &first, err));
	LK_TRY(check_outputs(&first, count, team != NULL, err));
	if (!make_room(s, count)) return lk_fail(err, LK_ERR_MEMORY, NULL, "out of memory");
	clock_gettime(CLOCK_MONOTONIC, &s->start);
	if (team && count > 1) return ask_together(s, args, team, err);
	return ask(s, args, err);
}

/* ---- answering ---- */

/* Every combination was refused: the reasons, each once, as far as a screen takes them. */
static int all_refused(const struct sweep *s) {
	enum { REASONS = 10 };
	size_t shown[REASONS], count = 0;
	for (size_t i = 0; i < s->count && count < REASONS; i++) {
		bool seen = false;
		for (size_t k = 0; k < count; k++)
			seen |= memcmp(&s->refusals[shown[k]], &s->refusals[i], sizeof s->refusals[i]) == 0;
		if (seen) continue;
		shown[count++] = i;
		cli_fail(&s->refusals[i]);
	}
	fprintf(stderr, "lockstep: none of the %zu combinations can run\n", s->count);
	return CLI_WRONG;
}

static int answer(const struct sweep *s, lk_error *err) {
	const lk_predict_request *r = &s->requests[0];
	size_t refused = 0, fit = 0;
	for (size_t i = 0; i < s->count; i++) {
		refused += !s->rows[i].prediction;
		fit += s->rows[i].prediction && s->rows[i].prediction->fits;
	}
	if (refused == s->count) return all_refused(s);
	if (s->count == 1 && lk_predict_write_files(s->predictions[0], r, err) != LK_OK) return cli_fail(err);
	if (s->html && lk_report_sweep(s->rows, s->count, LK_REPORT_HTML, s->html, NULL, err) != LK_OK) return cli_fail(err);
	lk_status status = lk_sweep_print(s->rows, s->count, r->format, r->verbose, cli_colour(), r->output, stdout, err);
	if (status != LK_OK) return cli_fail(err);
	return fit ? CLI_OK : CLI_NO;
}

int cli_predict_with(lk_args *args, const lk_plan_team *team, bool speaks) {
	struct sweep s = {0};
	lk_error err = {0};
	lk_status status = ask_all(&s, args, team, &err);
	clear_progress(&s);
	int result = !speaks ? (status == LK_OK ? CLI_OK : CLI_WRONG) : status == LK_OK ? answer(&s, &err) : cli_fail(&err);
	free_sweep(&s);
	return result;
}

static int run(lk_args *args) {
	return cli_predict_with(args, NULL, true);
}

const cli_command cli_predict = {&lk_predict_verb, run};
