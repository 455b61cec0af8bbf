/* fit_runs.c: base constants and stack profiles, fitted together to measured step times.
 *
 * The logarithm of a predicted step time depends on a few directions: the rates of matrix products,
 * attention, memory-bound kernels, launches, communication and expert kernels, and three base
 * numbers. Each slope is found by predicting the run again with the number slightly changed. Every
 * number of the fit acts along one direction on the runs that it concerns:
 *
 *     base             all runs
 *     architecture     runs on it: matrix products, attention
 *     early attention  runs on it with the first kernels for it
 *     format           runs on it in fp8 or fp4: matrix products
 *     stack            runs of a software stack
 *     release          runs of a stack from a release on: its change against the one before, of
 *                      host time and experts
 *
 * Rates of products and attention start at published rates of the kernels alone
 * (src/cost/kernel/sustained.c); a stack is pulled to the base, a release to the one before. A
 * number is left out if fewer than three runs, or runs of one network only, determine it. Linear
 * steps (lk_fit_linear) minimise the sum of absolute errors, with a normal prior on each number. A
 * fit without a fold solves the last linear step again without the fold's runs, starting from the
 * prior. */
#include "base/arena.h"
#include "fit/fits.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "step/step.h"
#include "base/fit.h"
#include "system/parallel.h"
#include "base/stats.h"
#include "tables/tables.h"

enum { ROUNDS = 7, COLUMNS_MOST = 400 };

/* Scale of the unexplained part: runs equal in every field differ by 1 to 2 %, vendors and clusters
 * by more. */
static const double noise = .05,
					noise_experts = .1; /* runs with experts that are alike in every field: 9.5 % */

typedef enum direction {
	/* the knobs of profiles come first, in their order */
	STEP_OVERHEAD = LK_KNOBS,
	GRAPH_STEP_OVERHEAD,
	FILL,
	EXPERT_LAUNCH,
	GRAPH_EXPERTS,
	RAMP,
	DIRECTIONS,
} direction;

typedef enum level { BASE, ARCHITECTURE, EARLY_ATTENTION, FORMAT, STACK, RELEASE } level;

/* One number of the fit. */
struct column {
	level level;
	int along;
	lk_arch arch;
	const char *stack, *precision, *release;
	double prior; /* deviation of its logarithm */
};

struct lk_runs_fit {
	const lk_runs *runs;
	struct column columns[COLUMNS_MOST];
	int count;
	bool sloping;             /* slopes are computed anew */
	bool full;                /* more numbers than there is room for */
	lk_constants base;        /* before the fit */
	double *slope;            /* [runs * DIRECTIONS] of ln time */
	double *predicted;        /* [runs] ln time at x; NAN: not in the fit */
	double *jacobian;         /* [runs * count] */
	double *residual;         /* [runs] ln measured - ln predicted + slope . x */
	double *weight;           /* [runs] */
	double *prior, *x, *next; /* [count] */
};

/* ---- which numbers concern which runs ---- */

static bool concerns(const struct column *c, const lk_run *run) {
	switch (c->level) {
	case BASE: return true;
	case ARCHITECTURE: return lk_run_arch(run) == c->arch;
	case EARLY_ATTENTION:
		return lk_run_arch(run) == c->arch &&
		       lk_profile_attention(&run->job) == LK_ATTENTION_CUDNN_EARLY;
	case FORMAT:
		return lk_run_arch(run) == c->arch &&
		       strcmp(lk_precision_class(run->job.dtype), c->precision) == 0;
	case STACK: return strcmp(run->stack, c->stack) == 0;
	default:
		return strcmp(run->stack, c->stack) == 0 &&
		       lk_release_compare(c->release, run->release) <= 0;
	}
}

static bool same_column(const struct column *a, const struct column *b) {
	return a->level == b->level && a->along == b->along && a->arch == b->arch &&
	       strcmp(a->stack, b->stack) == 0 && strcmp(a->precision, b->precision) == 0 &&
	       strcmp(a->release, b->release) == 0;
}

static bool runs_usable(const lk_run *run) {
	return !*run->refused && !*run->suspect && isfinite(run->measured_s) && run->measured_s > 0;
}

/* Whether a direction can change a run's time at all. */
static bool moves(const lk_run *run, int along) {
	const lk_job *job = &run->job;
	switch (along) {
	case LK_KNOB_EXPERTS: return job->model.experts > 0;
	case LK_KNOB_NETWORK: return job->gpus > 1;
	case LK_KNOB_ATTENTION: return job->attn_kernel != LK_KERNEL_UNFUSED;
	default: return true;
	}
}

/* Whether a number has enough data: three runs and two networks. */
static bool well_founded(const lk_runs *runs, const struct column *c) {
	const char *network = NULL;
	int count = 0;
	bool two = false;
	for (size_t i = 0; i < runs->count; i++) {
		const lk_run *run = &runs->at[i];
		if (!runs_usable(run) || !concerns(c, run) || !moves(run, c->along)) continue;
		count++;
		two |= network && strcmp(network, run->model) != 0;
		network = run->model;
	}
	return count >= 3 && two;
}

static void add_column(lk_runs_fit *fit, struct column c) {
	if (!c.stack) c.stack = "";
	if (!c.precision) c.precision = "";
	if (!c.release) c.release = "";
	for (int i = 0; i < fit->count; i++)
		if (same_column(&fit->columns[i], &c)) return;
	if (c.level != BASE && !well_founded(fit->runs, &c)) return;
	fit->full |= fit->count == COLUMNS_MOST;
	LK_ASSERT(0 <= c.along && c.along < DIRECTIONS && c.prior > 0);
	if (!fit->full) fit->columns[fit->count++] = c;
}

/* Whether a stack has runs of an earlier release, to whose numbers the changes of the release are
 * added. */
static bool has_earlier(const lk_runs *runs, const lk_run *run) {
	for (size_t i = 0; i < runs->count; i++)
		if (runs_usable(&runs->at[i]) && strcmp(runs->at[i].stack, run->stack) == 0 &&
		    lk_release_compare(runs->at[i].release, run->release) < 0)
			return true;
	return false;
}

static void list_columns(lk_runs_fit *fit) {
	/* prior deviations */
	static const double base[DIRECTIONS] = {.1, .15, .3, .4, .2, .3, .5, .7, .3, .7, .5, .3};
	static const double stack[LK_KNOBS] = {.06, .12, .12, .40, .25, .30};
	static const double release[LK_KNOBS] = {0, 0, 0, .3, 0, 0};
	const lk_runs *runs = fit->runs;
	for (int d = 0; d < DIRECTIONS; d++)
		add_column(fit, (struct column){.level = BASE, .along = d, .prior = base[d]});
	for (size_t i = 0; i < runs->count; i++) {
		const lk_run *run = &runs->at[i];
		if (!runs_usable(run)) continue;
		lk_arch arch = lk_run_arch(run);
		const char *class = lk_precision_class(run->job.dtype);
		for (int along = LK_KNOB_GEMM; along <= LK_KNOB_ATTENTION && arch != LK_ARCH_AMPERE;
		     along++)
			add_column(fit, (struct column){
								.level = ARCHITECTURE, .along = along, .arch = arch, .prior = .12});
		if (arch == LK_ARCH_BLACKWELL)
			add_column(fit, (struct column){.level = EARLY_ATTENTION,
			                                .along = LK_KNOB_ATTENTION,
			                                .arch = arch,
			                                .prior = .3});
		if (strcmp(class, "16-bit") != 0)
			add_column(fit, (struct column){.level = FORMAT,
			                                .along = LK_KNOB_GEMM,
			                                .arch = arch,
			                                .precision = class,
			                                .prior = .12});
		bool later = has_earlier(runs, run);
		for (int k = 0; k < LK_KNOBS; k++) {
			add_column(fit,
			           (struct column){
						   .level = STACK, .along = k, .stack = run->stack, .prior = stack[k]});
			if (later && release[k] > 0)
				add_column(fit, (struct column){.level = RELEASE,
				                                .along = k,
				                                .stack = run->stack,
				                                .release = run->release,
				                                .prior = release[k]});
		}
	}
}

/* ---- predictions ---- */

/* Sum the numbers that concern a run, by direction. */
static void totals_of(const lk_runs_fit *fit, const double *x, const lk_run *run, double *total) {
	memset(total, 0, DIRECTIONS * sizeof *total);
	for (int c = 0; c < fit->count; c++)
		if (concerns(&fit->columns[c], run)) total[fit->columns[c].along] += x[c];
}

static void runs_constants_of(const lk_constants *base, const lk_run *run, const double *total,
                              lk_constants *out) {
	double knobs[LK_KNOBS];
	for (int k = 0; k < LK_KNOBS; k++) knobs[k] = exp(total[k]);
	*out = *base;
	lk_profile_apply(knobs, out);
	out->step_overhead_s *= exp(total[STEP_OVERHEAD]);
	out->graph_step_overhead_s *= exp(total[GRAPH_STEP_OVERHEAD]);
	out->gemm_fill_s *= exp(total[FILL]);
	out->expert_launch_s *= exp(total[EXPERT_LAUNCH]);
	out->graph_expert_efficiency *= exp(total[GRAPH_EXPERTS]);
	out->attention_start *= exp(total[RAMP]);
	if (run) out->attention = lk_profile_attention(&run->job);
}

/* Predict ln of the step time; NAN if the job cannot be built: such a run is not used. */
static lk_status runs_predict(const lk_run *run, const lk_constants *constants, double *log_seconds,
                              lk_error *err) {
	lk_status status = lk_run_predict(run, constants, log_seconds, NULL, err);
	*log_seconds = log(*log_seconds);
	return status == LK_ERR_MEMORY ? status : LK_OK;
}

/* Measure the slope of the time along each direction, at the totals. */
static lk_status measure_slopes(const lk_runs_fit *fit, size_t i, const double *total,
                                lk_error *err) {
	const double change = .06;
	const lk_run *run = &fit->runs->at[i];
	for (int d = 0; d < DIRECTIONS; d++) {
		double moved[DIRECTIONS], *slope = &fit->slope[i * DIRECTIONS + (size_t)d], up;
		lk_constants constants;
		*slope = 0;
		bool experts = d == LK_KNOB_EXPERTS || d == EXPERT_LAUNCH || d == GRAPH_EXPERTS;
		if (experts && run->job.model.experts == 0) continue;
		memcpy(moved, total, sizeof moved);
		moved[d] += change;
		runs_constants_of(&fit->base, run, moved, &constants);
		LK_TRY(runs_predict(run, &constants, &up, err));
		*slope = isfinite(up) ? (up - fit->predicted[i]) / change : 0;
	}
	return LK_OK;
}

/* Compute a run's row of the linear step at fit->x. */
static lk_status linearise_run(void *context, size_t i, lk_error *err) {
	lk_runs_fit *fit = context;
	const lk_run *run = &fit->runs->at[i];
	size_t n = (size_t)fit->count;
	double total[DIRECTIONS], *row = &fit->jacobian[i * n];
	lk_constants constants;
	fit->weight[i] = 0;
	if (!runs_usable(run)) return LK_OK;
	totals_of(fit, fit->x, run, total);
	runs_constants_of(&fit->base, run, total, &constants);
	LK_TRY(runs_predict(run, &constants, &fit->predicted[i], err));
	if (!isfinite(fit->predicted[i])) return LK_OK;
	if (fit->sloping) LK_TRY(measure_slopes(fit, i, total, err));
	const double *slope = &fit->slope[i * DIRECTIONS];
	fit->weight[i] = 1 / (run->job.model.experts > 0 ? noise_experts : noise);
	fit->residual[i] = log(run->measured_s) - fit->predicted[i];
	LK_ASSERT(isfinite(fit->residual[i])); /* the run is usable */
	for (size_t c = 0; c < n; c++) {
		const struct column *number = &fit->columns[c];
		row[c] = concerns(number, run) ? slope[number->along] : 0;
		fit->residual[i] += row[c] * fit->x[c];
	}
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
	fit->base = lk_default_constants;
	list_columns(fit);
	if (fit->full) {
		lk_fail(err, LK_ERR_INPUT, "calibrate runs",
		        "stacks, formats and releases of the table need over %d numbers", COLUMNS_MOST);
		return lk_hint(err, "fit the stacks one by one, from tables of their own");
	}
	size_t n = (size_t)fit->count;
	fit->slope = LK_ARRAY(arena, double, runs->count *DIRECTIONS);
	fit->predicted = LK_ARRAY(arena, double, runs->count);
	fit->jacobian = LK_ARRAY(arena, double, runs->count *n);
	fit->residual = LK_ARRAY(arena, double, runs->count);
	fit->weight = LK_ARRAY(arena, double, runs->count);
	fit->prior = LK_ARRAY(arena, double, n);
	fit->x = LK_ARRAY(arena, double, n);
	fit->next = LK_ARRAY(arena, double, n);
	bool all = fit->slope && fit->predicted && fit->jacobian && fit->residual && fit->weight &&
	           fit->prior && fit->x && fit->next;
	for (size_t c = 0; all && c < n; c++) fit->prior[c] = fit->columns[c].prior;
	return all ? LK_OK : lk_oom(err);
}

lk_status lk_runs_fit_all(lk_arena *arena, const lk_runs *runs, const lk_fit_watch *watch,
                          lk_runs_fit **out, lk_error *err) {
	LK_TRY(runs_make(arena, runs, out, err));
	lk_runs_fit *fit = *out;
	for (int round = 0; round < ROUNDS; round++) {
		if (watch)
			watch->progress(watch->context, "fitting training runs", (double)round / (ROUNDS + 1));
		LK_TRY(linearise(fit, round % 3 == 0, err));
		LK_TRY(lk_fit_linear(fit->jacobian, fit->residual, fit->weight, runs->count, fit->count,
		                     fit->prior, fit->next, err));
		double step =
			round < 2 ? 1 : .6; /* shorter: slopes jump where host and device change places */
		for (int c = 0; c < fit->count; c++) fit->x[c] += step * (fit->next[c] - fit->x[c]);
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
		lk_fit_linear(fit->jacobian, fit->residual, weight, rows, fit->count, fit->prior, x, err);
	free(weight);
	return status;
}

int lk_runs_fit_numbers(const lk_runs_fit *fit) {
	return fit->count;
}

void lk_runs_fit_constants(const lk_runs_fit *fit, const double *x, size_t i, lk_constants *out) {
	double total[DIRECTIONS];
	totals_of(fit, x ? x : fit->x, &fit->runs->at[i], total);
	runs_constants_of(&fit->base, &fit->runs->at[i], total, out);
}

/* ---- as rows of a calibration ---- */

static lk_calibration_row *runs_add_row(lk_calibration *out, const char *family,
                                        const char *subject, const char *variant,
                                        const lk_calibration_row *like) {
	lk_calibration_row *row = lk_calibration_add(out, family, subject, variant);
	if (row) {
		row->date = like->date;
		row->source = like->source;
		row->points = like->points;
		row->error = like->error;
	}
	return row;
}

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

static bool same_format(const lk_run *run, const lk_run *like) {
	return same_arch(run, like) &&
	       strcmp(lk_precision_class(run->job.dtype), lk_precision_class(like->job.dtype)) == 0;
}

static bool same_profile(const lk_run *run, const lk_run *like) {
	return strcmp(run->stack, like->stack) == 0 && strcmp(run->release, like->release) == 0;
}

static lk_status put_base(const lk_runs_fit *fit, const lk_calibration_row *like,
                          lk_calibration *out, lk_error *err) {
	double total[DIRECTIONS] = {0};
	lk_constants c;
	for (int i = 0; i < fit->count; i++)
		if (fit->columns[i].level == BASE) total[fit->columns[i].along] += fit->x[i];
	runs_constants_of(&fit->base, NULL, total, &c);
	lk_calibration_row *row = runs_add_row(out, "step", "all", "", like);
	if (!row) return lk_oom(err);
	weigh(fit, runs_any_run, NULL, row);
#define PUT(field) lk_calibration_put(row, #field, c.field)
	PUT(gemm_share);
	PUT(gemm_fill_s);
	PUT(attention_share);
	PUT(attention_start);
	PUT(memory_efficiency);
	PUT(norm_efficiency);
	PUT(kernel_floor_s);
	PUT(launch_s);
	PUT(graph_launch_s);
	PUT(step_overhead_s);
	PUT(graph_step_overhead_s);
	PUT(expert_launch_s);
	PUT(expert_efficiency);
	PUT(graph_expert_efficiency);
	PUT(network_efficiency);
#undef PUT
	return LK_OK;
}

/* Value found for an architecture, or one of its formats. */
static double number_of(const lk_runs_fit *fit, level of, int along, const lk_run *run) {
	for (int i = 0; i < fit->count; i++) {
		const struct column *c = &fit->columns[i];
		if (c->level == of && c->along == along && concerns(c, run)) return exp(fit->x[i]);
	}
	return 1;
}

static double early_attention(const lk_runs_fit *fit, lk_arch arch) {
	for (int i = 0; i < fit->count; i++)
		if (fit->columns[i].level == EARLY_ATTENTION && fit->columns[i].arch == arch)
			return exp(fit->x[i]);
	return 1;
}

static lk_status put_architecture(const lk_runs_fit *fit, const lk_run *run,
                                  const lk_calibration_row *like, lk_calibration *out,
                                  lk_error *err) {
	lk_calibration_row *row =
		runs_add_row(out, "architecture", lk_arch_name(lk_run_arch(run)), "", like);
	if (!row) return lk_oom(err);
	weigh(fit, same_arch, run, row);
	lk_calibration_put(row, "gemm", number_of(fit, ARCHITECTURE, LK_KNOB_GEMM, run));
	lk_calibration_put(row, "attention", number_of(fit, ARCHITECTURE, LK_KNOB_ATTENTION, run));
	if (lk_run_arch(run) == LK_ARCH_BLACKWELL)
		lk_calibration_put(row, "early_attention", early_attention(fit, LK_ARCH_BLACKWELL));
	return LK_OK;
}

static lk_status put_format(const lk_runs_fit *fit, const lk_run *run,
                            const lk_calibration_row *like, lk_calibration *out, lk_error *err) {
	const char *class = lk_precision_class(run->job.dtype);
	if (strcmp(class, "16-bit") == 0) return LK_OK;
	lk_calibration_row *row =
		runs_add_row(out, "architecture", lk_arch_name(lk_run_arch(run)), class, like);
	if (!row) return lk_oom(err);
	weigh(fit, same_format, run, row);
	lk_calibration_put(row, "gemm", number_of(fit, FORMAT, LK_KNOB_GEMM, run));
	return LK_OK;
}

static lk_status put_profile(const lk_runs_fit *fit, const lk_run *run,
                             const lk_calibration_row *like, lk_calibration *out, lk_error *err) {
	char *stack = lk_arena_strdup(&out->arena, run->stack);
	char *variant = lk_arena_strdup(&out->arena, run->release);
	lk_calibration_row *row =
		stack && variant ? runs_add_row(out, "stack", stack, variant, like) : NULL;
	if (!row) return lk_oom(err);
	weigh(fit, same_profile, run, row);
	double total[DIRECTIONS] = {0};
	for (int i = 0; i < fit->count; i++)
		if (fit->columns[i].level >= STACK && concerns(&fit->columns[i], run))
			total[fit->columns[i].along] += fit->x[i];
	for (int k = 0; k < LK_KNOBS; k++)
		lk_calibration_put(row, lk_knob_name((lk_knob)k), exp(total[k]));
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
	for (size_t i = 0; i < fit->runs->count; i++)
		if (runs_usable(&fit->runs->at[i]) && is_first(fit->runs, i, same_arch))
			LK_TRY(put_architecture(fit, &fit->runs->at[i], &like, out, err));
	for (size_t i = 0; i < fit->runs->count; i++)
		if (runs_usable(&fit->runs->at[i]) && is_first(fit->runs, i, same_format))
			LK_TRY(put_format(fit, &fit->runs->at[i], &like, out, err));
	for (size_t i = 0; i < fit->runs->count; i++)
		if (runs_usable(&fit->runs->at[i]) && is_first(fit->runs, i, same_profile))
			LK_TRY(put_profile(fit, &fit->runs->at[i], &like, out, err));
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
