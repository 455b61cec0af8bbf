/* score_throughput.c: throughput of BERT and convolution nets: the predicted step times one number
 * for the stack and its precision. With folds, the number is that of rows of other networks or
 * other GPUs alone. */
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "fit/fits.h"
#include "validate/validate.h"
#include "tables/tables.h"
#include "step/step.h"
#include "base/stats.h"
#include "cost/calibration/calibration.h"

struct scorer {
	lk_arena *arena;
	const lk_validate_request *request;
	lk_throughput_run *runs;
	size_t count;
	double *raw;    /* [count] before the number; NAN */
	double *ideal;  /* [count] at the peak */
	double *ratios; /* [count] scratch */
	lk_scoring *out;
};

/* ---- prediction ---- */

lk_status lk_throughput_step(const lk_throughput_run *run, double *seconds, double *ideal,
                             lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	lk_predict_request request;
	lk_asked asked;
	lk_step step = {0};
	const lk_step_options options = {.few = true};
	lk_predict_defaults(&request);
	request.model = run->model;
	request.gpu = run->device->name;
	request.gpus = run->gpus;
	request.seq = run->seq;
	request.mbs = run->mbs;
	request.gbs = run->mbs * run->gpus * run->steps;
	request.dtype = run->precision;
	request.stack = "ddp", request.compile = run->fused || run->compiled,
	request.cuda_graphs = run->fused ? 1 : 0;
	if (run->optimizer) request.optimizer = run->optimizer;
	else if (run->seq) request.optimizer = "lamb";
	else request.optimizer = "sgd";
	if (run->reduces_late) request.overlap_grad_reduce = -1;
	if (run->unfused) request.attention = "unfused";
	lk_status status = lk_request_read(&arena, &request, &asked, err);
	asked.job.logit_share = run->logit_share;
	asked.job.host_ahead = run->host_ahead;
	asked.job.fused_kernels = run->fused_kernels;
	/* NVIDIA's programs: gradients of 16 bits, without autocast */
	asked.job.own_code = true;
	asked.job.fp32_grads = asked.job.grad_reduce_fp32 = asked.job.eager = LK_OFF;
	asked.job.early_attention = run->early_attention;
	if (run->fused_kernels) asked.job.compile = false;
	if (status == LK_OK) status = lk_step_ask(&asked.job, &asked.cluster, &options, &step, err);
	if (status == LK_OK) {
		*seconds = step.step_s;
		*ideal = step.graph->model_flops / run->gpus / run->device->peak_flops[run->dtype];
	}
	lk_step_free(&step);
	lk_arena_free(&arena);
	return status;
}

static lk_status throughput_fill_row(struct scorer *scorer, size_t i, lk_error *err) {
	lk_throughput_run *run = &scorer->runs[i];
	lk_validated *row = &scorer->out->rows[i];
	lk_error why = {0};
	scorer->raw[i] = scorer->ideal[i] = NAN;
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
	lk_status status = lk_throughput_step(run, &scorer->raw[i], &scorer->ideal[i], &why);
	if (status == LK_ERR_MEMORY) return lk_oom(err);
	if (status == LK_OK) return LK_OK;
	row->reason = lk_arena_printf(scorer->arena, "%s: %s", why.where, why.what);
	return row->reason ? LK_OK : lk_oom(err);
}

/* ---- the one number ---- */

static bool same_stack(const lk_throughput_run *a, const lk_throughput_run *b) {
	return a->dtype == b->dtype && strcmp(a->stack, b->stack) == 0;
}

static bool throughput_same_fold(const lk_throughput_run *a, const lk_throughput_run *b) {
	return strcmp(a->model, b->model) == 0 && a->device == b->device;
}

/* Median of measured over predicted of the stack in that precision, which makes the mean of |ln|
 * least; with folds, rows of the network on that GPU are left out. NAN: no other rows. */
static double throughput_scale_of(const struct scorer *scorer, const double *predicted, size_t of) {
	size_t rows = 0;
	for (size_t i = 0; i < scorer->count; i++) {
		if (isnan(predicted[i]) || !same_stack(&scorer->runs[i], &scorer->runs[of])) continue;
		if (scorer->request->cross && throughput_same_fold(&scorer->runs[i], &scorer->runs[of]))
			continue;
		scorer->ratios[rows++] = log(scorer->runs[i].seconds / predicted[i]);
	}
	return exp(lk_median(scorer->ratios, rows));
}

static int throughput_stacks_of(const struct scorer *scorer) {
	int count = 0;
	for (size_t i = 0; i < scorer->count; i++) {
		bool seen = isnan(scorer->raw[i]);
		for (size_t k = 0; k < i && !seen; k++)
			seen = !isnan(scorer->raw[k]) && same_stack(&scorer->runs[i], &scorer->runs[k]);
		count += !seen;
	}
	return count;
}

static bool throughput_one_stack(const void *context, size_t a, size_t b) {
	const struct scorer *scorer = context;
	return same_stack(&scorer->runs[a], &scorer->runs[b]);
}

static bool throughput_one_fold(const void *context, size_t a, size_t b) {
	const struct scorer *scorer = context;
	return throughput_same_fold(&scorer->runs[a], &scorer->runs[b]);
}

static lk_status throughput_predict_rows(struct scorer *scorer, lk_error *err) {
	lk_baseline *mfu = lk_scoring_baseline(scorer->arena, scorer->out,
	                                       "one share of the peak for each stack and precision",
	                                       throughput_stacks_of(scorer));
	if (!mfu) return lk_oom(err);
	for (size_t i = 0; i < scorer->count; i++) {
		lk_validated *row = &scorer->out->rows[i];
		if (row->reason) continue;
		double scale = throughput_scale_of(scorer, scorer->raw, i);
		if (isnan(scale)) {
			row->reason = "no other network or GPU of this stack and precision";
			continue;
		}
		row->predicted = scorer->raw[i] * scale;
		mfu->predicted[i] = scorer->ideal[i] * throughput_scale_of(scorer, scorer->ideal, i);
	}
	scorer->out->parameters = throughput_stacks_of(scorer);
	scorer->out->folds = scorer->request->cross ? "network on a GPU" : "";
	LK_TRY(lk_fold_ranges(scorer->arena, scorer->out->rows, scorer->count, throughput_one_stack,
	                      throughput_one_fold, scorer, err));
	return lk_fold_ranges(scorer->arena, scorer->out->rows, scorer->count, NULL,
	                      throughput_one_fold, scorer, err);
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

static lk_status throughput_score(lk_arena *arena, const lk_validate_request *request,
                                  lk_throughput_run *runs, size_t count, lk_scoring *out,
                                  lk_error *err) {
	struct scorer s = {
		.arena = arena, .request = request, .runs = runs, .count = count, .out = out};
	LK_TRY(lk_scoring_rows(arena, count, out, err));
	s.raw = LK_ARRAY(arena, double, count);
	s.ideal = LK_ARRAY(arena, double, count);
	s.ratios = LK_ARRAY(arena, double, count);
	if (!s.raw || !s.ideal || !s.ratios) return lk_oom(err);
	for (size_t i = 0; i < count; i++) LK_TRY(throughput_fill_row(&s, i, err));
	LK_TRY(throughput_predict_rows(&s, err));
	out->unit_of_rows = "run";
	return throughput_divide(&s, err);
}

lk_status lk_score_scaling(lk_arena *arena, const lk_validate_request *request, lk_stream *in,
                           lk_scoring *out, lk_error *err) {
	lk_throughput_runs runs = {0};
	lk_status status = lk_throughput_read(arena, in, &runs, err);
	if (status == LK_OK) status = throughput_score(arena, request, runs.at, runs.count, out, err);
	lk_vec_free(&runs);
	return status;
}
