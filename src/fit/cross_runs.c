/* cross_runs.c: cross-validation of training runs, and ranges from it.
 *
 * A run's class is its software stack, its architecture and whether it has experts. The range of a
 * class is the shortest interval of ln(measured / predicted) that holds `share` of the class's
 * runs: not centred on 0 where predictions lean to one side. A class with fewer than FEWEST runs
 * takes the next wider one: of all architectures, of all stacks. */
#include "base/arena.h"
#include "fit/fits.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "step/step.h"
#include "base/stats.h"

enum {
	FEWEST = 10
};
static const double share =
	.80; /* the shortest of many intervals holds a little less of what was not seen */

/* ---- predictions ---- */

static lk_status runs_predict_fold(const lk_runs *runs, const lk_runs_fit *fit, const int *fold,
                                   int left_out, double *x, lk_cross_run *out, lk_error *err) {
	LK_TRY(lk_runs_fit_without(fit, fold, left_out, x, err));
	for (size_t i = 0; i < runs->count; i++) {
		lk_constants constants;
		if (fold[i] != left_out || *runs->at[i].refused) continue;
		lk_runs_fit_constants(fit, x, i, &constants);
		lk_status status = lk_run_predict(&runs->at[i], &constants, &out[i].predicted, err);
		if (status == LK_ERR_MEMORY) return status;
	}
	return LK_OK;
}

/* ---- ranges ---- */

/* ln(measured / predicted) of a run that counts; NAN else. */
static double runs_offset(const lk_run *run, const lk_cross_run *cross) {
	if (*run->suspect || !(cross->predicted > 0) || !(run->measured_s > 0)) return NAN;
	return log(run->measured_s / cross->predicted);
}

/* The shortest interval that holds `share` of the sorted values. */
static void runs_shortest(const double *x, size_t n, double *low, double *high) {
	lk_shortest(x, n, (size_t)fmin(ceil(share * (double)(n + 1)), (double)n), low, high);
}

/* Classes from narrow to wide: kind of network, stack and architecture; without the architecture;
 * without the stack. */
enum {
	NARROW,
	STACK,
	KIND,
	LEVELS
};

static bool same_class(const lk_run *a, const lk_run *b, int level) {
	if ((a->job.model.experts > 0) != (b->job.model.experts > 0)) return false;
	if (level < KIND && strcmp(a->stack, b->stack) != 0) return false;
	return level > NARROW || lk_run_arch(a) == lk_run_arch(b);
}

/* The offsets of runs alike, but for run `self` (-1: all); returns how many. */
static size_t runs_collect(const lk_runs *runs, const lk_cross_run *cross, ptrdiff_t self,
                           const lk_run *like, int level, double *x) {
	size_t n = 0;
	for (size_t i = 0; i < runs->count; i++) {
		if (*runs->at[i].refused || (ptrdiff_t)i == self || !same_class(&runs->at[i], like, level))
			continue;
		double o = runs_offset(&runs->at[i], &cross[i]);
		if (isfinite(o)) x[n++] = o;
	}
	qsort(x, n, sizeof *x, lk_ascending);
	return n;
}

/* Ranges of runs, each from the errors of the others. */
static void range_runs(const lk_runs *runs, double *x, lk_cross_run *cross) {
	for (size_t i = 0; i < runs->count; i++) {
		double low, high;
		size_t n = 0;
		if (!(cross[i].predicted > 0)) continue;
		for (int level = NARROW; level < LEVELS && n < FEWEST; level++)
			n = runs_collect(runs, cross, (ptrdiff_t)i, &runs->at[i], level, x);
		if (n < FEWEST) continue;
		runs_shortest(x, n, &low, &high);
		cross[i].low = cross[i].predicted * exp(low);
		cross[i].high = cross[i].predicted * exp(high);
	}
}

lk_status lk_runs_cross(lk_arena *arena, const lk_runs *runs, const lk_runs_fit *fit,
                        const int *fold, int folds, lk_cross_run *out, lk_error *err) {
	double *x = LK_ARRAY(arena, double, (size_t)lk_runs_fit_numbers(fit) + runs->count);
	if (!x) return lk_oom(err);
	for (size_t i = 0; i < runs->count; i++) out[i] = (lk_cross_run){NAN, NAN, NAN};
	for (int f = 0; f < folds; f++) LK_TRY(runs_predict_fold(runs, fit, fold, f, x, out, err));
	range_runs(runs, x, out);
	return LK_OK;
}

/* One row of family "range"; none for a class with too few runs. */
static lk_status runs_put_range(const lk_runs *runs, const lk_cross_run *cross, const lk_run *like,
                                int level, double *x, const lk_calibration_row *source,
                                lk_calibration *out, lk_error *err) {
	double low, high, sum = 0;
	size_t n = runs_collect(runs, cross, -1, like, level, x);
	if (n < FEWEST) return LK_OK;
	runs_shortest(x, n, &low, &high);
	for (size_t i = 0; i < n; i++) sum += fabs(x[i]);
	char *variant = lk_range_class(&out->arena, level < KIND ? like->stack : NULL,
	                               level < STACK ? lk_arch_name(lk_run_arch(like)) : NULL,
	                               like->job.model.experts > 0);
	lk_calibration_row *row = variant ? lk_calibration_add(out, "range", "step", variant) : NULL;
	if (!row) return lk_oom(err);
	row->source = source->source;
	row->date = source->date;
	row->points = (int)n;
	row->error = expm1(sum / (double)n);
	lk_calibration_put(row, "low", exp(low));
	lk_calibration_put(row, "high", exp(high));
	return LK_OK;
}

lk_status lk_runs_range_rows(const lk_runs *runs, const lk_cross_run *cross, const char *source,
                             const char *date, lk_calibration *out, lk_error *err) {
	lk_calibration_row text = {.source = lk_arena_strdup(&out->arena, source),
	                           .date = lk_arena_strdup(&out->arena, date)};
	double *x = LK_ARRAY(&out->arena, double, runs->count);
	if (!text.source || !text.date || !x) return lk_oom(err);
	for (int level = KIND; level >= NARROW; level--)
		for (size_t i = 0; i < runs->count; i++) {
			bool first = !*runs->at[i].refused;
			for (size_t k = 0; first && k < i; k++)
				first = *runs->at[k].refused || !same_class(&runs->at[k], &runs->at[i], level);
			if (first) LK_TRY(runs_put_range(runs, cross, &runs->at[i], level, x, &text, out, err));
		}
	return LK_OK;
}
