/* cross_runs.h: training runs predicted from fits that have not seen them, and the ranges that follow from how far off
 * those predictions are. */
#ifndef LK_ACCURACY_CROSS_RUNS_H
#define LK_ACCURACY_CROSS_RUNS_H

#include "fit/fit_runs.h"

typedef struct lk_cross_run {
	double predicted;        /* s, from a fit without the run's fold; NAN not predictable */
	double low, high;        /* 80 % range, from such errors of the other runs of its class */
} lk_cross_run;

/* out[i] of run i; folds as lk_runs_folds gives them. */
lk_status lk_runs_cross(lk_arena *arena, const lk_runs *runs, const lk_runs_fit *fit, const int *fold, int folds,
                        lk_cross_run *out, lk_error *err);

/* Appends the rows of family "range", subject "step", from the errors of lk_runs_cross. */
lk_status lk_runs_range_rows(const lk_runs *runs, const lk_cross_run *cross, const char *source, const char *date,
                             lk_calibration *out, lk_error *err);

#endif
