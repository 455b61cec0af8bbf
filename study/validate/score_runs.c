/* score_runs.c: measured training runs. Rows are predicted like by `lockstep predict`: the same
 * request (lk_step_ask), no constant that depends on the row. */
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "validate/validate.h"
#include "fit/fits.h"
#include "tables/tables.h"
#include "step/step.h"
#include "base/text.h"
#include "lockstep/plan.h"

/* Why the row is skipped, not scored, or only partly used. */
static const char *runs_reason_of(lk_arena *arena, const lk_run *run, const char *refused) {
	if (*refused) return refused;
	if (*run->suspect)
		return lk_arena_printf(arena, "not scored, suspect: %s%s%s", run->suspect,
		                       *run->note ? "; " : "", run->note);
	if (isnan(run->measured_s)) return "not scored: no measured step time";
	return *run->note ? run->note : NULL;
}

/* Rows are ranked against each other within equal network, GPU, count and batch. */
static const char *runs_group_of(lk_arena *arena, const lk_run *run) {
	return lk_arena_printf(arena, "%s|%s|%d|%d", run->model, run->gpu, run->job.gpus, run->job.gbs);
}

/* What is ranked: the layout with all other choices of a user; repeated runs of it are one. */
static const char *choice_of(lk_arena *arena, const lk_run *run, const char *layout) {
	const lk_job *job = &run->job;
	return layout ? lk_arena_printf(arena, "%s|%d|%d|%s", layout, job->task, job->seq,
	                                lk_dtype_name(job->dtype))
	              : NULL;
}

/* A prediction shared by a team of processes, or the reason why there is none. */
struct shared_run {
	double seconds, network_share;
	lk_status status;
	lk_error err;
};

static lk_status predict_one(void *context, size_t i, void *result, lk_error *err) {
	const lk_run *run = &((const lk_run *)context)[i];
	struct shared_run *out = result;
	memset(out, 0, sizeof *out);
	out->seconds = NAN;
	if (!*run->refused)
		out->status = lk_run_predict(run, NULL, &out->seconds, &out->network_share, &out->err);
	if (out->status == LK_ERR_MEMORY) *err = out->err;
	return out->status == LK_ERR_MEMORY ? out->status : LK_OK;
}

/* In parts, so that finished ones can be kept. */
static lk_status predict_together(const struct lk_plan_team *team, const lk_runs *runs,
                                  struct shared_run *out, lk_error *err) {
	enum { PART = 64 };
	for (size_t at = 0; at < runs->count; at += PART) {
		size_t left = runs->count - at, count = left < PART ? left : PART;
		LK_TRY(
			team->run(team->self, count, sizeof *out, predict_one, runs->at + at, out + at, err));
	}
	return LK_OK;
}

static lk_status predict_run(const lk_run *run, const struct shared_run *shared, double *seconds,
                             double *network_share, lk_error *err) {
	if (!shared) return lk_run_predict(run, NULL, seconds, network_share, err);
	*seconds = shared->seconds;
	*network_share = shared->network_share;
	if (shared->status != LK_OK) *err = shared->err;
	return shared->status;
}

static lk_status runs_fill_row(lk_arena *arena, const lk_run *run, const lk_cross_run *cross,
                               const struct shared_run *shared, lk_scoring *out, size_t i,
                               lk_error *err) {
	lk_validated *row = &out->rows[i];
	lk_score *score = &out->scores[i];
	const char *refused = run->refused;
	char text[900];
	row->id = run->id;
	row->where = run->where;
	row->stack = run->stack;
	row->release = run->release;
	row->model = run->model;
	row->gpu = run->gpu;
	row->gpus = run->job.gpus;
	row->unit = "s";
	row->measured = run->measured_s;
	lk_status status = LK_OK;
	double network_share = 0;
	double in_use = NAN; /* with the current calibration, which has seen the run: in
	                        cross-validation only for its error */
	if (!*refused && !(cross && isfinite(cross->predicted)))
		status = predict_run(run, shared, &in_use, &network_share, err);
	row->predicted = cross ? cross->predicted : in_use;
	if (status == LK_ERR_MEMORY) return status;
	if (status != LK_OK) refused = lk_arena_strdup(arena, lk_error_text(err, text, sizeof text));
	if (!refused) return lk_oom(err);
	score->stack = run->stack;
	score->suspect = *run->suspect != '\0';
	if (!*run->refused) {
		row->precision = lk_dtype_name(run->job.dtype);
		row->layout = lk_run_layout(arena, run);
		score->layout = choice_of(arena, run, row->layout);
		score->group = runs_group_of(arena, run);
		score->series = lk_run_series(arena, run);
		score->gpus = run->job.gpus;
		score->work = (double)run->job.gbs * run->job.seq;
		if (!row->layout || !score->layout || !score->group || !score->series) return lk_oom(err);
	}
	if (row->predicted > 0 && !cross)
		lk_range_of(arena, &run->job, &run->cluster, network_share, row->predicted, &row->low,
		            &row->high, NULL);
	if (cross) {
		row->low = cross->low;
		row->high = cross->high;
	}
	row->reason = runs_reason_of(arena, run, refused);
	if (*run->suspect && !*refused && !row->reason) return lk_oom(err);
	out->divisions[0].keys[i] = (lk_score_key){run->stack, 0};
	out->divisions[1].keys[i] = (lk_score_key){run->gpu, 0};
	out->divisions[2].keys[i] = lk_scale_key(run->job.gpus);
	bool experts = !*run->refused && run->job.model.experts > 0;
	const char *layers = experts ? "experts" : "dense";
	out->divisions[3].keys[i] = (lk_score_key){*run->refused ? NULL : layers, 0};
	out->divisions[4].keys[i] = (lk_score_key){experts ? run->stack : NULL, 0};
	return LK_OK;
}

/* Drops the rows of other stacks. */
static lk_status runs_choose(const lk_validate_request *request, lk_runs *runs, lk_error *err) {
	size_t kept = 0;
	if (!request->stack) return LK_OK;
	for (size_t i = 0; i < runs->count; i++)
		if (lk_same_name(runs->at[i].stack, request->stack)) runs->at[kept++] = runs->at[i];
	if (kept == 0) {
		char shown[64];
		lk_fail(err, LK_ERR_INPUT, "--stack", "no row has the stack \"%s\"",
		        lk_escape(request->stack, shown, sizeof shown));
		return lk_hint(err, "the column `stack` of %.100s names them", request->table);
	}
	runs->count = kept;
	return LK_OK;
}

/* Predictions from fits without the run's fold. */
static lk_status cross_validate(lk_arena *arena, const lk_runs *runs, lk_runs_alike alike,
                                const int *fold, int folds, lk_cross_run **out, int *numbers,
                                lk_error *err) {
	lk_runs_fit *fit;
	*out = LK_ARRAY(arena, lk_cross_run, runs->count);
	if (!*out) return lk_oom(err);
	LK_TRY(lk_runs_fit_all(arena, runs, NULL, &fit, err));
	*numbers = lk_runs_fit_numbers(fit);
	return lk_runs_cross(arena, runs, fit, alike, fold, folds, *out, err);
}

static lk_runs_alike runs_alike_of(int folds) {
	switch (folds) {
	case LK_FOLDS_GPU: return LK_RUNS_GPU;
	case LK_FOLDS_NETWORK: return LK_RUNS_NETWORK;
	case LK_FOLDS_ARCHITECTURE: return LK_RUNS_ARCHITECTURE;
	case LK_FOLDS_STACK: return LK_RUNS_STACK;
	case LK_FOLDS_SOURCE: return LK_RUNS_SOURCE;
	default: return LK_RUNS_GROUP;
	}
}

static lk_status runs_score(lk_arena *arena, const lk_validate_request *request, lk_stream *in,
                            lk_runs *runs, lk_scoring *out, lk_error *err) {
	LK_TRY(lk_runs_read(arena, in, runs, err));
	LK_TRY(lk_runs_read_files(arena, request->more, request->more_count, runs, err));
	LK_TRY(runs_choose(request, runs, err));
	LK_TRY(lk_scoring_rows(arena, runs->count, out, err));
	static const char *const by[] = {"stack", "gpu", "gpus", "network", "experts"};
	for (int d = 0; d < (int)(sizeof by / sizeof *by); d++)
		if (!lk_scoring_divide(arena, out, by[d])) return lk_oom(err);
	lk_cross_run *cross = NULL;
	int *fold = LK_ARRAY(arena, int, runs->count), folds;
	if (!fold) return lk_oom(err);
	if (request->cross) {
		lk_runs_alike alike = runs_alike_of(request->folds);
		LK_TRY(lk_runs_folds(runs, alike, fold, &folds, err));
		LK_TRY(cross_validate(arena, runs, alike, fold, folds, &cross, &out->parameters, err));
		out->folds = lk_runs_alike_name(alike);
	}
	struct shared_run *shared =
		request->team && !cross ? LK_ARRAY(arena, struct shared_run, runs->count) : NULL;
	if (request->team && !cross && !shared) return lk_oom(err);
	if (shared) LK_TRY(predict_together(request->team, runs, shared, err));
	for (size_t i = 0; i < runs->count; i++)
		LK_TRY(runs_fill_row(arena, &runs->at[i], cross ? &cross[i] : NULL,
		                     shared ? &shared[i] : NULL, out, i, err));
	return cross ? lk_baselines_runs(arena, runs, fold, out, err) : LK_OK;
}

lk_status lk_score_runs(lk_arena *arena, const lk_validate_request *request, lk_stream *in,
                        lk_scoring *out, lk_error *err) {
	lk_runs runs = {0};
	lk_status status = runs_score(arena, request, in, &runs, out, err);
	lk_vec_free(&runs);
	return status;
}
