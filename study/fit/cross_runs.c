/* cross_runs.c: cross-validation of training runs, and ranges from it.
 *
 * A run is predicted from a fit that has not seen its fold. The range of a prediction comes from
 * the errors of such predictions of similar runs in other folds: of the same codebase and
 * kind of network (with experts or not); if these are fewer than FEWEST, of the kind with whole
 * codebases left out. If the other folds have too few runs on the run's GPU or architecture, the
 * range is as wide as for runs whose GPU or architecture was left out. It is the shortest interval
 * of ln(measured / predicted) that holds 0.8 + 0.2 / G of them, G the number of their folds: runs
 * of a fold have similar errors, and with few folds the next one lies outside more often. It is not
 * centred on 0 if predictions are biased.
 *
 * If all runs on an architecture or of a stack were left out, the runs of each fold are biased
 * together, and the folds that were seen do not tell the direction for the next one: the interval
 * extends to both sides of the prediction by the distance that holds 80 % of all runs of the kind.
 *
 * Runs whose layers are split over the GPUs of a node or more have larger errors with any software.
 * The errors of such runs are divided by the ratio of the spreads of both kinds before an interval
 * is formed, and the width (ln) of the range of such a job is multiplied by it.
 *
 * Properties of a job that no run had make its range wider (src/step/range.c). The factors come
 * from folds of that kind: all runs on a GPU, on an architecture, of a stack. */
#include "base/arena.h"
#include "fit/fits.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "step/step.h"
#include "system/parallel.h"
#include "base/stats.h"
#include "base/sort.h"

enum {
	FEWEST = 10,      /* runs from which a range of a class or an architecture is taken */
	FEWEST_ON_GPU = 3 /* the same for a GPU */
};
static const double share = .80;

/* ---- folds ---- */

const char *lk_runs_alike_name(lk_runs_alike alike) {
	static const char *const names[] = {"(stack, network, GPU)", "network", "GPU",
	                                    "architecture",          "stack",   "publication"};
	return names[alike];
}

size_t lk_publication(const char *source) {
	size_t at = 0, parts = 0;
	while (source[at] && source[at] != ' ' && source[at] != '@') {
		if (source[at] == '/' && ++parts == 2) break;
		at++;
	}
	return at;
}

bool lk_same_publication(const char *a, const char *b) {
	size_t length = lk_publication(a);
	return length == lk_publication(b) && strncmp(a, b, length) == 0;
}

static bool same_fold(const lk_run *a, const lk_run *b, lk_runs_alike alike) {
	bool network = strcmp(a->model, b->model) == 0, stack = strcmp(a->stack, b->stack) == 0,
		 gpu = strcmp(a->gpu, b->gpu) == 0;
	const char *code = lk_stack_codebase(a->stack);
	switch (alike) {
	case LK_RUNS_NETWORK: return network;
	case LK_RUNS_GPU: return gpu;
	case LK_RUNS_ARCHITECTURE:
		return *a->refused || *b->refused ? gpu : lk_run_arch(a) == lk_run_arch(b);
	case LK_RUNS_STACK: return strcmp(code, lk_stack_codebase(b->stack)) == 0;
	case LK_RUNS_SOURCE: return lk_same_publication(a->source, b->source);
	default: return network && stack && gpu;
	}
}

lk_status lk_runs_folds(const lk_runs *runs, lk_runs_alike alike, int *fold, int *count,
                        lk_error *err) {
	size_t *first = malloc((runs->count + 1) * sizeof *first); /* [folds] */
	if (!first) return lk_oom(err);
	*count = 0;
	for (size_t i = 0; i < runs->count; i++) {
		int at = 0;
		while (at < *count && !same_fold(&runs->at[first[at]], &runs->at[i], alike)) at++;
		if (at == *count) first[(*count)++] = i;
		fold[i] = at;
	}
	free(first);
	return LK_OK;
}

/* ---- predictions ---- */

struct fold_job {
	const lk_runs *runs;
	const lk_runs_fit *fit;
	const int *fold;
	double *x; /* [folds * numbers] */
	lk_cross_run *out;
};

static lk_status predict_fold_run(void *context, size_t i, lk_error *err) {
	const struct fold_job *job = context;
	const lk_run *run = &job->runs->at[i];
	lk_constants constants;
	LK_ASSERT(i < job->runs->count && job->fold[i] >= 0);
	if (*run->refused) return LK_OK;
	size_t numbers = (size_t)lk_runs_fit_numbers(job->fit);
	lk_runs_fit_constants(job->fit, &job->x[(size_t)job->fold[i] * numbers], i, &constants);
	lk_status status = lk_run_predict(run, &constants, &job->out[i].predicted, NULL, err);
	return status == LK_ERR_MEMORY ? status : LK_OK;
}

static lk_status fit_without(void *context, size_t fold, lk_error *err) {
	const struct fold_job *job = context;
	return lk_runs_fit_without(job->fit, job->fold, (int)fold,
	                           &job->x[fold * (size_t)lk_runs_fit_numbers(job->fit)], err);
}

static lk_status predict_folds(lk_arena *arena, const lk_runs *runs, const lk_runs_fit *fit,
                               const int *fold, int folds, lk_cross_run *out, lk_error *err) {
	struct fold_job job = {runs, fit, fold, NULL, out};
	job.x = LK_ARRAY(arena, double, (size_t)lk_runs_fit_numbers(fit) * (size_t)folds);
	if (!job.x) return lk_oom(err);
	for (size_t i = 0; i < runs->count; i++) out[i] = (lk_cross_run){NAN, NAN, NAN};
	LK_TRY(lk_parallel((size_t)folds, 0, fit_without, &job, err));
	return lk_parallel(runs->count, 0, predict_fold_run, &job, err);
}

/* ---- ranges ---- */

/* ln(measured / predicted) of a run that counts; otherwise NAN. */
static double runs_offset(const lk_run *run, const lk_cross_run *cross) {
	if (*run->refused || *run->suspect || !(cross->predicted > 0) || !(run->measured_s > 0))
		return NAN;
	return log(run->measured_s / cross->predicted);
}

enum kind { DENSE, EXPERTS, HYBRID, ANY };

/* Selection of the runs whose errors are used. */
struct errors_of {
	enum kind kind;
	const char *code, *gpu; /* NULL: all */
	int without;            /* a fold; -1 none */
};

static enum kind kind_of(const lk_run *run) {
	if (lk_range_hybrid(&run->job)) return HYBRID;
	return run->job.model.experts > 0 ? EXPERTS : DENSE;
}

static bool runs_counts(const struct errors_of *of, const lk_run *run, int fold) {
	return (of->kind == ANY || kind_of(run) == of->kind) && fold != of->without &&
	       (!of->code || strcmp(lk_stack_codebase(run->stack), of->code) == 0) &&
	       (!of->gpu ||
	        (!*run->refused && strcmp(run->cluster.node[0].device->name, of->gpu) == 0));
}

struct interval {
	double low, high, error; /* of ln(measured / predicted); the mean distance */
	size_t runs;             /* 0: too few */
};

struct errors {
	const lk_runs *runs;
	const lk_cross_run *cross;
	const int *fold;
	double *x;  /* [runs] */
	bool *seen; /* [folds] */
	int folds;
	bool even; /* whether each fold has its own bias */
};

static bool folds_lean(lk_runs_alike alike) {
	return alike == LK_RUNS_ARCHITECTURE || alike == LK_RUNS_STACK || alike == LK_RUNS_SOURCE;
}

/* Find the shortest interval that holds `share` of the offsets, or more if there are few groups. */
static void leaning_interval(double *x, size_t n, size_t groups, double *low, double *high) {
	size_t inside =
		(size_t)fmin(ceil((share + (1 - share) / (double)groups) * (double)n - 1e-9), (double)n);
	lk_sort(x, n, sizeof *x, lk_ascending);
	lk_shortest(x, n, inside, low, high);
}

/* Find the symmetric interval that holds `share` of the offsets. */
static void even_interval(double *x, size_t n, double *low, double *high) {
	for (size_t i = 0; i < n; i++) x[i] = fabs(x[i]);
	LK_ASSERT(n > 0);
	lk_sort(x, n, sizeof *x, lk_ascending);
	*high = x[(size_t)ceil(share * (double)n - 1e-9) - 1];
	*low = -*high;
}

/* Root mean square of the errors outside a fold, of runs whose layers are split or are not; 0: too
 * few. */
static double spread_of(const struct errors *errors, bool divided, int without) {
	double squares = 0;
	size_t n = 0;
	for (size_t i = 0; i < errors->runs->count; i++) {
		double offset = runs_offset(&errors->runs->at[i], &errors->cross[i]);
		if (!isfinite(offset) || errors->fold[i] == without ||
		    lk_range_divided(&errors->runs->at[i].job) != divided)
			continue;
		squares += offset * offset;
		n++;
	}
	return n < FEWEST ? 0 : sqrt(squares / (double)n);
}

/* Ratio of the spreads of the errors: runs with split layers to others, at least 1. */
static double divided_times(const struct errors *errors, int without) {
	double divided = spread_of(errors, true, without), others = spread_of(errors, false, without);
	return others > 0 ? fmax(divided / others, 1) : 1;
}

static struct interval interval_of(const struct errors *errors, const struct errors_of *of,
                                   size_t fewest) {
	size_t n = 0, groups = 0;
	double low, high, sum = 0, times = divided_times(errors, of->without);
	memset(errors->seen, 0, (size_t)errors->folds * sizeof *errors->seen);
	for (size_t i = 0; i < errors->runs->count; i++) {
		double offset = runs_offset(&errors->runs->at[i], &errors->cross[i]);
		if (!isfinite(offset) || !runs_counts(of, &errors->runs->at[i], errors->fold[i])) continue;
		LK_ASSERT(errors->fold[i] >= 0 && errors->fold[i] < errors->folds);
		groups += !errors->seen[errors->fold[i]];
		errors->seen[errors->fold[i]] = true;
		errors->x[n++] = lk_range_divided(&errors->runs->at[i].job) ? offset / times : offset;
		sum += fabs(offset);
	}
	if (n < fewest || n == 0) return (struct interval){0};
	if (errors->even) even_interval(errors->x, n, &low, &high);
	else leaning_interval(errors->x, n, groups, &low, &high);
	return (struct interval){low, high, expm1(sum / (double)n), n};
}

static lk_status make_errors(lk_arena *arena, const lk_runs *runs, const lk_cross_run *cross,
                             lk_runs_alike alike, const int *fold, int folds, struct errors *out,
                             lk_error *err) {
	*out = (struct errors){runs,
	                       cross,
	                       fold,
	                       LK_ARRAY(arena, double, runs->count),
	                       LK_ARRAY(arena, bool, (size_t)folds),
	                       folds,
	                       folds_lean(alike)};
	return out->x && out->seen ? LK_OK : lk_oom(err);
}

/* Find the interval from runs of the kind outside the run's fold; from all runs if the other folds
 * have too few of the kind. */
static struct interval interval_of_kind(const struct errors *errors, size_t run) {
	struct errors_of of = {kind_of(&errors->runs->at[run]), NULL, NULL, errors->fold[run]};
	struct interval found = interval_of(errors, &of, FEWEST);
	of.kind = ANY;
	return found.runs ? found : interval_of(errors, &of, FEWEST);
}

/* Errors that stand for runs far from all others: with whole stacks, GPUs and architectures left
 * out. */
struct far {
	struct errors stack, gpu, architecture;
};

/* Count the runs outside a run's fold on its GPU, or on its architecture. */
static size_t runs_beside(const struct errors *errors, size_t run, lk_runs_alike alike) {
	size_t count = 0;
	for (size_t i = 0; i < errors->runs->count; i++)
		count += errors->fold[i] != errors->fold[run] &&
		         isfinite(runs_offset(&errors->runs->at[i], &errors->cross[i])) &&
		         same_fold(&errors->runs->at[i], &errors->runs->at[run], alike);
	return count;
}

/* Treat a GPU or an architecture with too few runs in the other folds as unseen. */
static void widen_for_device(const struct errors *errors, const struct far *far, size_t run,
                             struct interval *range) {
	const struct errors *unseen = NULL;
	if (runs_beside(errors, run, LK_RUNS_ARCHITECTURE) < FEWEST) unseen = &far->architecture;
	else if (runs_beside(errors, run, LK_RUNS_GPU) < FEWEST_ON_GPU) unseen = &far->gpu;
	if (!unseen) return;
	struct interval more = interval_of_kind(unseen, run), usual = interval_of_kind(errors, run);
	if (!more.runs) return;
	range->low = -lk_range_wider(range->low, fmin(more.low, 0), fmin(usual.low, 0));
	range->high = lk_range_wider(range->high, fmax(more.high, 0), fmax(usual.high, 0));
}

/* Find the ranges of runs, each from the errors in other folds: of the run's stack and kind; if
 * these are too few, of its kind with whole stacks left out (`far` may be NULL); if the folds are
 * biased, or there is nothing else, of its kind. */
static void range_runs(const struct errors *errors, const struct far *far, lk_cross_run *cross) {
	for (size_t i = 0; i < errors->runs->count; i++) {
		const lk_run *run = &errors->runs->at[i];
		if (!(cross[i].predicted > 0)) continue;
		struct errors_of of = {kind_of(run), lk_stack_codebase(run->stack), NULL, errors->fold[i]};
		struct interval found = {0};
		if (!errors->even) found = interval_of(errors, &of, FEWEST);
		if (far && !found.runs) found = interval_of_kind(&far->stack, i);
		if (!found.runs) found = interval_of_kind(errors, i);
		if (!found.runs) continue;
		if (far) widen_for_device(errors, far, i, &found);
		double times = lk_range_divided(&run->job) ? divided_times(errors, errors->fold[i]) : 1;
		cross[i].low = cross[i].predicted * exp(times * fmin(found.low, 0));
		cross[i].high = cross[i].predicted * exp(times * fmax(found.high, 0));
	}
}

/* Find the errors of predictions with all runs of a fold left out. */
static lk_status errors_without(lk_arena *arena, const lk_runs *runs, const lk_runs_fit *fit,
                                lk_runs_alike alike, struct errors *out, lk_error *err) {
	int *fold = LK_ARRAY(arena, int, runs->count), folds;
	lk_cross_run *cross = LK_ARRAY(arena, lk_cross_run, runs->count);
	if (!fold || !cross) return lk_oom(err);
	LK_TRY(lk_runs_folds(runs, alike, fold, &folds, err));
	LK_TRY(predict_folds(arena, runs, fit, fold, folds, cross, err));
	return make_errors(arena, runs, cross, alike, fold, folds, out, err);
}

lk_status lk_runs_cross(lk_arena *arena, const lk_runs *runs, const lk_runs_fit *fit,
                        lk_runs_alike alike, const int *fold, int folds, lk_cross_run *out,
                        lk_error *err) {
	struct errors errors;
	struct far far;
	LK_TRY(predict_folds(arena, runs, fit, fold, folds, out, err));
	LK_TRY(make_errors(arena, runs, out, alike, fold, folds, &errors, err));
	bool near =
		alike == LK_RUNS_GROUP; /* other folds tell directly how large errors of left-out runs
		                           are */
	if (near) {
		LK_TRY(errors_without(arena, runs, fit, LK_RUNS_STACK, &far.stack, err));
		LK_TRY(errors_without(arena, runs, fit, LK_RUNS_GPU, &far.gpu, err));
		LK_TRY(errors_without(arena, runs, fit, LK_RUNS_ARCHITECTURE, &far.architecture, err));
	}
	range_runs(&errors, near ? &far : NULL, out);
	return LK_OK;
}

/* ---- as rows of a calibration ---- */

struct range_rows {
	const char *source, *date;
	lk_calibration *out;
};

/* Append the row of a class, unless it has too few runs. */
static lk_status put_interval(const struct range_rows *rows, const char *variant,
                              const struct interval *interval, lk_error *err) {
	if (!interval->runs) return LK_OK;
	lk_calibration_row *row =
		variant ? lk_calibration_add(rows->out, "range", "step", variant) : NULL;
	if (!row) return lk_oom(err);
	row->source = rows->source;
	row->date = rows->date;
	row->points = (int)interval->runs;
	row->error = interval->error;
	lk_calibration_put(row, "low", exp(interval->low));
	lk_calibration_put(row, "high", exp(interval->high));
	return LK_OK;
}

/* Append the factor by which the range (ln) of a job with split layers is wider. */
static lk_status put_divided(const struct range_rows *rows, const struct errors *errors,
                             lk_error *err) {
	lk_calibration_row *row = lk_calibration_add(rows->out, "range", "step", "divided");
	if (!row) return lk_oom(err);
	row->source = rows->source;
	row->date = rows->date;
	for (size_t i = 0; i < errors->runs->count; i++)
		row->points += isfinite(runs_offset(&errors->runs->at[i], &errors->cross[i])) &&
		               lk_range_divided(&errors->runs->at[i].job);
	lk_calibration_put(row, "times", divided_times(errors, -1));
	return LK_OK;
}

/* Whether a run is the first of its class. */
static bool first_of(const lk_runs *runs, size_t at, const struct errors_of *of) {
	for (size_t i = 0; i < at; i++)
		if (!*runs->at[i].refused && runs_counts(of, &runs->at[i], 0)) return false;
	return true;
}

/* Classes of runs: all, those of a codebase, those on a GPU; networks with a state are one. */
static lk_status put_classes(const struct range_rows *rows, const struct errors *errors,
                             lk_error *err) {
	lk_arena *arena = &rows->out->arena;
	for (int class = 0; class < 3; class ++)
		for (size_t i = 0; i < errors->runs->count; i++) {
			const lk_run *run = &errors->runs->at[i];
			if (*run->refused) continue;
			const char *code = class == 1 ? lk_stack_codebase(run->stack) : NULL,
					   *gpu = class == 2 ? run->cluster.node[0].device->name : NULL;
			const struct errors_of of = {kind_of(run), code, gpu, -1};
			bool hybrid = of.kind == HYBRID;
			if ((hybrid && class > 0) || !first_of(errors->runs, i, &of)) continue;
			struct interval found = interval_of(errors, &of, class == 2 ? FEWEST_ON_GPU : FEWEST);
			const char *variant =
				hybrid ? "hybrid" : lk_range_class(arena, code ? code : gpu, of.kind == EXPERTS);
			LK_TRY(put_interval(rows, variant, &found, err));
		}
	return LK_OK;
}

lk_status lk_runs_range_rows(lk_arena *arena, const lk_runs *runs, const lk_runs_fit *fit,
                             const char *source, const char *date, lk_calibration *out,
                             lk_error *err) {
	static const struct {
		lk_runs_alike alike;
		const char *name;
	} unseen[] = {{LK_RUNS_NETWORK, NULL},
	              {LK_RUNS_GPU, "unseen GPU"},
	              {LK_RUNS_ARCHITECTURE, "unseen architecture"},
	              {LK_RUNS_STACK, "unseen stack"}};
	const struct range_rows rows = {lk_arena_strdup(&out->arena, source),
	                                lk_arena_strdup(&out->arena, date), out};
	if (!rows.source || !rows.date) return lk_oom(err);
	for (size_t u = 0; u < sizeof unseen / sizeof *unseen; u++) {
		struct errors errors;
		LK_TRY(errors_without(arena, runs, fit, unseen[u].alike, &errors, err));
		if (!unseen[u].name) LK_TRY(put_divided(&rows, &errors, err));
		if (!unseen[u].name) LK_TRY(put_classes(&rows, &errors, err));
		for (int experts = 0; unseen[u].name && experts < 2; experts++) {
			struct interval found = interval_of(
				&errors, &(struct errors_of){experts ? EXPERTS : DENSE, NULL, NULL, -1}, FEWEST);
			LK_TRY(put_interval(&rows, lk_range_class(&out->arena, unseen[u].name, experts == 1),
			                    &found, err));
		}
	}
	return LK_OK;
}
