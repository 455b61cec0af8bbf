/* fit_runs.c: the few numbers of whole steps that no table of kernels or links states, fitted
 * together to measured step times.
 *
 * Each number changes the logarithm of a predicted time along one direction. The slope is found by
 * predicting the run again with the number slightly changed. Linear steps (lk_fit_linear) minimise
 * the sum of absolute errors, with a normal prior on each number around its start
 * (lk_default_constants). No number concerns a software stack, a network or a GPU. A fit without a
 * fold solves the last linear step again without the fold's runs, starting from the prior. */
#include "base/arena.h"
#include "fit/fits.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "step/step.h"
#include "base/fit.h"
#include "system/parallel.h"
#include "base/stats.h"
#include "tables/tables.h"

enum { ROUNDS = 7 };

/* Scale of the unexplained part: runs equal in every field differ by 1 to 2 %, vendors and clusters
 * by more. */
static const double noise = .05,
					noise_experts = .1; /* runs with experts that are alike in every field: 9.5 % */

/* ---- the numbers ---- */

#define AT(field) offsetof(lk_constants, field)

/* A number multiplies one or two constants. */
static const struct number {
	size_t at[2]; /* 0: none */
	double prior; /* deviation of its logarithm */
	bool experts; /* of networks with experts alone */
} numbers[] = {
	{{AT(gemm_share), AT(vector_products)}, .1, false},
	{{AT(attention_share)}, .06, false},
	{{AT(flash_share)}, .1, false},
	{{AT(memory_efficiency), AT(norm_efficiency)}, .3, false},
	{{AT(launch_s)}, .4, false},
	{{AT(network_call_s)}, .15, false},
	{{AT(network_beside)}, .7, false},
	{{AT(step_overhead_s)}, .5, false},
	{{AT(graph_step_overhead_s)}, .7, false},
	{{AT(expert_efficiency)}, .3, true},
	{{AT(expert_call_s)}, .35, true},
	{{AT(expert_launch_s)}, .35, true},
	{{AT(graph_expert_efficiency)}, .5, true},
};

enum { NUMBERS = sizeof numbers / sizeof *numbers };

struct lk_runs_fit {
	const lk_runs *runs;
	bool sloping;      /* slopes are computed anew */
	double *slope;     /* [runs * NUMBERS] of ln time */
	double *predicted; /* [runs] ln time at x; NAN: not in the fit */
	double *residual;  /* [runs] ln measured - ln predicted + slope . x */
	double *weight;    /* [runs] */
	double prior[NUMBERS], x[NUMBERS];
};

static double *constant_at(lk_constants *constants, size_t at) {
	return (double *)(void *)((char *)constants + at);
}

static void constants_at(const double *x, const lk_run *run, lk_constants *out) {
	*out = lk_default_constants;
	for (int n = 0; n < NUMBERS; n++)
		for (int i = 0; i < 2 && (i == 0 || numbers[n].at[i] > 0); i++)
			*constant_at(out, numbers[n].at[i]) *= exp(x[n]);
	if (run) lk_profile_kernels(&run->job, out);
}

static bool runs_usable(const lk_run *run) {
	return !*run->refused && !*run->suspect && isfinite(run->measured_s) && run->measured_s > 0;
}

/* ---- predictions ---- */

/* Predict ln of the step time; NAN if the job cannot be built: such a run is not used. */
static lk_status runs_predict(const lk_run *run, const double *x, double *log_seconds,
                              lk_error *err) {
	lk_constants constants;
	constants_at(x, run, &constants);
	lk_status status = lk_run_predict(run, &constants, log_seconds, NULL, err);
	*log_seconds = log(*log_seconds);
	return status == LK_ERR_MEMORY ? status : LK_OK;
}

/* Measure the slope of the time along each number, at fit->x. */
static lk_status measure_slopes(const lk_runs_fit *fit, size_t i, lk_error *err) {
	const double change = .06;
	const lk_run *run = &fit->runs->at[i];
	for (int n = 0; n < NUMBERS; n++) {
		double moved[NUMBERS], *slope = &fit->slope[i * NUMBERS + (size_t)n], up;
		*slope = 0;
		if (numbers[n].experts && run->job.model.experts == 0) continue;
		memcpy(moved, fit->x, sizeof moved);
		moved[n] += change;
		LK_TRY(runs_predict(run, moved, &up, err));
		if (isfinite(up)) *slope = (up - fit->predicted[i]) / change;
	}
	return LK_OK;
}

/* Compute a run's row of the linear step at fit->x. */
static lk_status linearise_run(void *context, size_t i, lk_error *err) {
	lk_runs_fit *fit = context;
	const lk_run *run = &fit->runs->at[i];
	fit->weight[i] = 0;
	if (!runs_usable(run)) return LK_OK;
	LK_TRY(runs_predict(run, fit->x, &fit->predicted[i], err));
	if (!isfinite(fit->predicted[i])) return LK_OK;
	if (fit->sloping) LK_TRY(measure_slopes(fit, i, err));
	fit->weight[i] = 1 / (run->job.model.experts > 0 ? noise_experts : noise);
	fit->residual[i] = log(run->measured_s) - fit->predicted[i];
	LK_ASSERT(isfinite(fit->residual[i])); /* the run is usable */
	for (int n = 0; n < NUMBERS; n++)
		fit->residual[i] += fit->slope[i * NUMBERS + (size_t)n] * fit->x[n];
	return LK_OK;
}

/* Linearise all runs. Slopes cost a prediction each; rounds that do not compute them use the last
 * ones. */
static lk_status linearise(lk_runs_fit *fit, bool sloping, lk_error *err) {
	fit->sloping = sloping;
	return lk_parallel(fit->runs->count, 0, linearise_run, fit, err);
}

/* ---- fitting ---- */

static lk_status runs_make(lk_arena *arena, const lk_runs *runs, lk_runs_fit **out, lk_error *err) {
	lk_runs_fit *fit = *out = LK_NEW(arena, lk_runs_fit);
	if (!fit) return lk_oom(err);
	fit->runs = runs;
	fit->slope = LK_ARRAY(arena, double, runs->count *NUMBERS);
	fit->predicted = LK_ARRAY(arena, double, runs->count);
	fit->residual = LK_ARRAY(arena, double, runs->count);
	fit->weight = LK_ARRAY(arena, double, runs->count);
	for (int n = 0; n < NUMBERS; n++) fit->prior[n] = numbers[n].prior;
	return fit->slope && fit->predicted && fit->residual && fit->weight ? LK_OK : lk_oom(err);
}

lk_status lk_runs_fit_all(lk_arena *arena, const lk_runs *runs, const lk_fit_watch *watch,
                          lk_runs_fit **out, lk_error *err) {
	LK_TRY(runs_make(arena, runs, out, err));
	lk_runs_fit *fit = *out;
	for (int round = 0; round < ROUNDS; round++) {
		double next[NUMBERS];
		if (watch)
			watch->progress(watch->context, "fitting training runs", (double)round / (ROUNDS + 1));
		LK_TRY(linearise(fit, round % 3 == 0, err));
		LK_TRY(lk_fit_linear(fit->slope, fit->residual, fit->weight, runs->count, NUMBERS,
		                     fit->prior, next, err));
		double step =
			round < 2 ? 1 : .6; /* shorter: slopes jump where host and device change places */
		for (int n = 0; n < NUMBERS; n++) fit->x[n] += step * (next[n] - fit->x[n]);
	}
	if (watch)
		watch->progress(watch->context, "fitting training runs", (double)ROUNDS / (ROUNDS + 1));
	return linearise(fit, true, err);
}

lk_status lk_runs_fit_without(const lk_runs_fit *fit, const int *fold, int left_out, double *x,
                              lk_error *err) {
	size_t rows = fit->runs->count;
	double *weight = malloc((rows + 1) * sizeof *weight);
	if (!weight) return lk_oom(err);
	for (size_t i = 0; i < rows; i++) weight[i] = fold[i] == left_out ? 0 : fit->weight[i];
	lk_status status =
		lk_fit_linear(fit->slope, fit->residual, weight, rows, NUMBERS, fit->prior, x, err);
	free(weight);
	return status;
}

int lk_runs_fit_numbers(const lk_runs_fit *fit) {
	(void)fit;
	return NUMBERS;
}

void lk_runs_fit_constants(const lk_runs_fit *fit, const double *x, size_t i, lk_constants *out) {
	constants_at(x ? x : fit->x, &fit->runs->at[i], out);
}

/* ---- as rows of a calibration ---- */

/* Set the number of runs that a row is based on, and the error of the fit of all runs on them. */
static void weigh(const lk_runs_fit *fit, bool (*counts)(const lk_run *run, const lk_run *like),
                  const lk_run *like, lk_calibration_row *row) {
	double sum = 0;
	row->points = 0;
	for (size_t i = 0; i < fit->runs->count; i++) {
		const lk_run *run = &fit->runs->at[i];
		if (!runs_usable(run) || !isfinite(fit->predicted[i]) || !counts(run, like)) continue;
		sum += fabs(fit->predicted[i] - log(run->measured_s));
		row->points++;
	}
	row->error = row->points ? expm1(sum / row->points) : NAN;
}

static bool runs_any_run(const lk_run *run, const lk_run *like) {
	(void)like;
	return run != NULL;
}

static bool same_arch(const lk_run *run, const lk_run *like) {
	return lk_run_arch(run) == lk_run_arch(like);
}

static bool same_codebase(const lk_run *run, const lk_run *like) {
	return strcmp(lk_stack_codebase(run->stack), lk_stack_codebase(like->stack)) == 0;
}

static lk_calibration_row *runs_add_row(lk_calibration *out, const char *family,
                                        const char *subject, const char *variant,
                                        const lk_calibration_row *like) {
	lk_calibration_row *row = lk_calibration_add(out, family, subject, variant);
	if (row) {
		row->date = like->date;
		row->source = like->source;
	}
	return row;
}

static lk_status put_base(const lk_runs_fit *fit, const lk_calibration_row *like,
                          lk_calibration *out, lk_error *err) {
	lk_constants c;
	constants_at(fit->x, NULL, &c);
	lk_calibration_row *row = runs_add_row(out, "step", "all", "", like);
	if (!row) return lk_oom(err);
	weigh(fit, runs_any_run, NULL, row);
#define PUT(field) lk_calibration_put(row, #field, c.field)
	LK_STEP_NUMBERS(PUT);
#undef PUT
	return LK_OK;
}

/* What was measured: which architectures, stacks and releases runs cover (step/range.c). */
static lk_status put_measured(const lk_runs_fit *fit, const lk_run *run, const char *family,
                              const char *subject, const char *variant,
                              bool (*same)(const lk_run *a, const lk_run *b),
                              const lk_calibration_row *like, lk_calibration *out, lk_error *err) {
	subject = lk_arena_strdup(&out->arena, subject);
	variant = lk_arena_strdup(&out->arena, variant);
	lk_calibration_row *row = NULL;
	if (subject && variant) row = runs_add_row(out, family, subject, variant, like);
	if (!row) return lk_oom(err);
	weigh(fit, same, run, row);
	lk_calibration_put(row, "runs", row->points);
	return LK_OK;
}

/* The first usable run with this property. */
static bool is_first(const lk_runs *runs, size_t at,
                     bool (*same)(const lk_run *a, const lk_run *b)) {
	for (size_t i = 0; i < at; i++)
		if (runs_usable(&runs->at[i]) && same(&runs->at[i], &runs->at[at])) return false;
	return true;
}

lk_status lk_runs_fit_rows(const lk_runs_fit *fit, const char *source, const char *date,
                           lk_calibration *out, lk_error *err) {
	lk_calibration_row like = {.source = lk_arena_strdup(&out->arena, source),
	                           .date = lk_arena_strdup(&out->arena, date)};
	if (!like.source || !like.date) return lk_oom(err);
	LK_TRY(put_base(fit, &like, out, err));
	for (size_t i = 0; i < fit->runs->count; i++) {
		const lk_run *run = &fit->runs->at[i];
		if (!runs_usable(run)) continue;
		if (is_first(fit->runs, i, same_arch))
			LK_TRY(put_measured(fit, run, "architecture", lk_arch_name(lk_run_arch(run)), "",
			                    same_arch, &like, out, err));
		if (is_first(fit->runs, i, same_codebase))
			LK_TRY(put_measured(fit, run, "stack", lk_stack_codebase(run->stack), "", same_codebase,
			                    &like, out, err));
	}
	return LK_OK;
}

/* ---- predictions of runs ----
 *
 * Predict a measured run: the request that `lockstep predict` makes of its job on its cluster. */

lk_status lk_run_predict(const lk_run *run, const lk_constants *constants, double *seconds,
                         double *network_share, lk_error *err) {
	lk_step step;
	lk_step_options options = {.few = true, .constants = constants};
	lk_status status = lk_step_ask(&run->job, &run->cluster, &options, &step, err);
	*seconds = status == LK_OK ? step.step_s : NAN;
	if (network_share) *network_share = status == LK_OK ? lk_step_network_share(&step) : 0;
	lk_step_free(&step);
	return status;
}

lk_arch lk_run_arch(const lk_run *run) {
	return run->cluster.node[0].device->arch;
}
