/* fit_runs.h: base constants and stack profiles from measured training runs. */
#ifndef LK_ACCURACY_FIT_RUNS_H
#define LK_ACCURACY_FIT_RUNS_H

#include "tables/runs.h"
#include "cost/calibration/calibration.h"
#include "cost/cost.h"

typedef struct lk_runs_fit lk_runs_fit;

/* Fits all numbers to the runs that are measured, predictable and not suspect; memory from the arena. */
lk_status lk_runs_fit_all(lk_arena *arena, const lk_runs *runs, lk_runs_fit **out, lk_error *err);
/* The numbers from the same runs without those whose fold[i] is `left_out`, into x[lk_runs_fit_numbers]. */
lk_status lk_runs_fit_without(const lk_runs_fit *fit, const int *fold, int left_out, double *x, lk_error *err);
int lk_runs_fit_numbers(const lk_runs_fit *fit);
/* The constants that run i is predicted with; x NULL: the fit of all runs. */
void lk_runs_fit_constants(const lk_runs_fit *fit, const double *x, size_t i, lk_constants *out);
/* Appends the rows of families "step", "sustained" and "stack". */
lk_status lk_runs_fit_rows(const lk_runs_fit *fit, const char *source, const char *date, lk_calibration *out, lk_error *err);

#endif
