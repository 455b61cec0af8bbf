/* scoring.h: what every kind of validation hands over: predicted beside measured, row by row, and how the rows divide.
 * One file per kind (score_*.c); validate.c sums up and view/ prints, the same way for all of them. */
#ifndef LK_ACCURACY_SCORING_H
#define LK_ACCURACY_SCORING_H

#include "validate/summary.h"
#include "io/stream.h"

enum { LK_DIVISIONS = 5, LK_BASELINES = 5 };

/* Another way to predict the same rows, for comparison: on the same folds. */
typedef struct lk_baseline {
	const char *name;           /* "roofline" */
	int parameters;             /* numbers that were fitted for it */
	double *predicted;          /* [count], NAN where it has no answer */
} lk_baseline;

/* How the rows divide: keys[i] is the part that row i belongs to; a key without a name leaves the row out. */
typedef struct lk_division {
	const char *by;             /* "gpu" */
	lk_score_key *keys;         /* [count] */
} lk_division;

typedef struct lk_scoring {
	lk_validated *rows;         /* [count]; `scored` and `error` are filled by lk_scoring_finish */
	lk_score *scores;           /* [count]; `predicted`, `measured`, `low`, `high` likewise, from the rows */
	size_t count;
	lk_division divisions[LK_DIVISIONS];
	int division_count;
	lk_baseline baselines[LK_BASELINES];
	int baseline_count;
	int parameters;             /* fitted numbers behind the predictions */
	const char *folds;          /* "": predicted with the calibration in use; else what was left out of the fit that
	                               predicts it: "(n, k) pair" */
	const char *unit_of_rows;   /* "run", "kernel", "size": one row, for the heading */
} lk_scoring;

/* Reads the table, predicts every row (with request->cross: from fits that have not seen its fold) and fills `out`;
 * memory from the arena. Rows that cannot be predicted stay, with their reason. */
typedef lk_status lk_scoring_fn(lk_arena *arena, const lk_validate_request *request, lk_stream *in, lk_scoring *out,
                                lk_error *err);
lk_scoring_fn lk_score_runs, lk_score_ops, lk_score_collectives, lk_score_memory, lk_score_slowdown, lk_score_models,
	lk_score_dlrm, lk_score_scaling, lk_score_plans, lk_score_mlperf;

/* Rooms for `count` rows and scores, zeroed, with every number of a row NAN and every text "". */
lk_status lk_scoring_rows(lk_arena *arena, size_t count, lk_scoring *out, lk_error *err);
/* A division by a name; its keys are to be filled. NULL when memory is out. */
lk_score_key *lk_scoring_divide(lk_arena *arena, lk_scoring *out, const char *by);
/* A baseline; its predictions are NAN until they are filled. NULL when memory is out. */
lk_baseline *lk_scoring_baseline(lk_arena *arena, lk_scoring *out, const char *name, int parameters);

#endif
