/* score_throughput.c: throughput of BERT and convolution nets, predicted like `predict`. Nothing is
 * fitted to such rows, so every row is unseen. The baseline, a share of the peak for each stack and
 * precision, comes from rows of other networks or other GPUs. */
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "fit/fits.h"
#include "validate/validate.h"
#include "tables/tables.h"
#include "base/stats.h"

struct scorer {
	lk_arena *arena;
	lk_throughput_run *runs;
	size_t count;
	double *ideal;  /* [count] at the peak */
	double *ratios; /* [count] scratch */
	lk_scoring *out;
};

/* ---- prediction ---- */

/* The request that a row answers. */
static lk_predict_request throughput_request(const lk_throughput_run *run) {
	lk_predict_request request;
	lk_predict_defaults(&request);
	request.model = run->model;
	request.gpu = run->device->name;
	request.gpus = request.dp = run->gpus;
	request.seq = run->seq;
	request.mbs = run->mbs;
	request.gbs = run->mbs * run->gpus * run->steps;
	request.dtype = run->precision;
	request.stack = "ddp", request.compile = run->compiled;
	if (run->optimizer) request.optimizer = run->optimizer;
	else if (run->seq) request.optimizer = "lamb";
	else request.optimizer = "sgd";
	if (run->reduces_late && run->gpus > 1) request.overlap_grad_reduce = -1;
	if (run->unfused) request.attention = "unfused";
	request.no_fixes = true;
	return request;
}

static lk_status throughput_fill_row(struct scorer *scorer, size_t i, lk_error *err) {
	lk_throughput_run *run = &scorer->runs[i];
	lk_validated *row = &scorer->out->rows[i];
	double mfu;
	scorer->ideal[i] = NAN;
	row->id = run->id;
	row->where = run->where;
	row->model = run->model;
	row->gpu = run->gpu;
	row->gpus = run->gpus;
	row->stack = run->stack;
	row->precision = run->precision;
	row->measured = run->seconds;
	row->reason = run->why_not;
	if (row->reason) return LK_OK;
	const lk_predict_request request = throughput_request(run);
	LK_TRY(lk_scoring_ask(scorer->arena, &request, row, &mfu, err));
	if (!row->reason) scorer->ideal[i] = mfu * row->predicted;
	return LK_OK;
}

/* ---- the baseline ---- */

static bool same_stack(const lk_throughput_run *a, const lk_throughput_run *b) {
	return a->dtype == b->dtype && strcmp(a->stack, b->stack) == 0;
}

static bool throughput_same_fold(const lk_throughput_run *a, const lk_throughput_run *b) {
	return strcmp(a->model, b->model) == 0 && a->device == b->device;
}

/* Median of measured over ideal of the stack in that precision, which minimises the mean of |ln|,
 * without rows of the network on that GPU. NAN: no other rows. */
static double throughput_scale_of(const struct scorer *scorer, size_t of) {
	size_t rows = 0;
	for (size_t i = 0; i < scorer->count; i++) {
		if (isnan(scorer->ideal[i]) || !same_stack(&scorer->runs[i], &scorer->runs[of]) ||
		    throughput_same_fold(&scorer->runs[i], &scorer->runs[of]))
			continue;
		scorer->ratios[rows++] = log(scorer->runs[i].seconds / scorer->ideal[i]);
	}
	return exp(lk_median(scorer->ratios, rows));
}

static int throughput_stacks_of(const struct scorer *scorer) {
	int count = 0;
	for (size_t i = 0; i < scorer->count; i++) {
		bool seen = isnan(scorer->ideal[i]);
		for (size_t k = 0; k < i && !seen; k++)
			seen = !isnan(scorer->ideal[k]) && same_stack(&scorer->runs[i], &scorer->runs[k]);
		count += !seen;
	}
	return count;
}

static lk_status throughput_add_baseline(struct scorer *scorer, lk_error *err) {
	lk_baseline *mfu = lk_scoring_baseline(scorer->arena, scorer->out,
	                                       "one share of the peak for each stack and precision",
	                                       throughput_stacks_of(scorer));
	if (!mfu) return lk_oom(err);
	for (size_t i = 0; i < scorer->count; i++)
		if (!scorer->out->rows[i].reason)
			mfu->predicted[i] = scorer->ideal[i] * throughput_scale_of(scorer, i);
	return LK_OK;
}

static lk_status throughput_divide(struct scorer *scorer, lk_error *err) {
	lk_score_key *stack = lk_scoring_divide(scorer->arena, scorer->out, "stack"),
				 *gpu = lk_scoring_divide(scorer->arena, scorer->out, "gpu");
	lk_score_key *model = lk_scoring_divide(scorer->arena, scorer->out, "model"),
				 *both = lk_scoring_divide(scorer->arena, scorer->out, "stack and precision");
	lk_score_key *fold = lk_scoring_divide(scorer->arena, scorer->out, "network on a GPU");
	if (!stack || !gpu || !model || !both || !fold) return lk_oom(err);
	for (size_t i = 0; i < scorer->count; i++) {
		const lk_throughput_run *run = &scorer->runs[i];
		if (scorer->out->rows[i].reason) continue;
		stack[i].name = run->stack;
		gpu[i].name = run->device->name;
		model[i].name = run->model;
		both[i].name = lk_arena_printf(scorer->arena, "%s %s", run->stack, run->precision);
		fold[i].name = lk_arena_printf(scorer->arena, "%s, %s", run->model, run->device->name);
		if (!both[i].name || !fold[i].name) return lk_oom(err);
	}
	return LK_OK;
}

static lk_status throughput_score(lk_arena *arena, lk_throughput_run *runs, size_t count,
                                  lk_scoring *out, lk_error *err) {
	struct scorer s = {.arena = arena, .runs = runs, .count = count, .out = out};
	LK_TRY(lk_scoring_rows(arena, count, out, err));
	s.ideal = LK_ARRAY(arena, double, count);
	s.ratios = LK_ARRAY(arena, double, count);
	if (!s.ideal || !s.ratios) return lk_oom(err);
	for (size_t i = 0; i < count; i++) LK_TRY(throughput_fill_row(&s, i, err));
	LK_TRY(throughput_add_baseline(&s, err));
	out->folds = "";
	out->unit_of_rows = "run";
	return throughput_divide(&s, err);
}

lk_status lk_score_scaling(lk_arena *arena, const lk_validate_request *request, lk_stream *in,
                           lk_scoring *out, lk_error *err) {
	if (request->cross) {
		lk_fail(err, LK_ERR_INPUT, "--cross-validate", "nothing is fitted to rows of --scaling");
		return lk_hint(err, "leave it out: every row is unseen");
	}
	lk_throughput_runs runs = {0};
	lk_status status = lk_throughput_read(arena, in, &runs, err);
	if (status == LK_OK) status = throughput_score(arena, runs.at, runs.count, out, err);
	lk_vec_free(&runs);
	return status;
}
