/* baselines.h: simple ways to predict the same rows, so that a figure can be judged. They are fitted on the same folds
 * as what they are compared with. */
#ifndef LK_ACCURACY_BASELINES_H
#define LK_ACCURACY_BASELINES_H

#include "tables/runs.h"
#include "validate/scoring.h"

/* Folds of a table of runs: rows of one stack, network and GPU belong together. fold[i] of run i is 0 .. *count - 1. */
lk_status lk_runs_folds(const lk_runs *runs, int *fold, int *count, lk_error *err);

/* Adds the baselines of training runs to `out`, whose rows are those of `runs`. Each row is predicted from the rows of
 * other folds; suspect rows teach nothing. Tables of over 8192 runs get
 * none. baseline_runs.c states the formulas. */
lk_status lk_baselines_runs(lk_arena *arena, const lk_runs *runs, const int *fold, lk_scoring *out, lk_error *err);

#endif
