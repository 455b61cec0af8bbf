/* run_bound.h: shared by the files that bound a run's errors.
 *
 *   run_bound.c    the bounds
 *   run_attend.c   those of attention
 *   run_block.c    those of sorted lines and factored matrices
 *   run_choices.c  the choices that they leave open */
#ifndef LK_LANG_RUN_RUN_BOUND_H
#define LK_LANG_RUN_RUN_BOUND_H

#include <math.h>

#include "lang/run/run_internal.h"

/* A run whose bounds are being found. */
typedef struct lc_bounds {
	const lc_run *run; /* the values */
	lc_run *out;       /* their bounds */
	lc_run scratch;    /* transformed operands, for operations on them */
	lc_choices *choices;
	lk_error *err;
} lc_bounds;

/* The rows of a pointwise value, with its operands and their bounds. */
typedef struct lc_bound_row {
	lc_bounds *bounds;
	const lc_at *at;
	const lc_node *n;
	const double *x[LC_INPUTS], *e[LC_INPUTS], *y;
	bool weak[LC_INPUTS];
	int extremum;    /* the operand that is the other's maximum or minimum along dims, or -1 */
	int64_t *equals; /* for each element of that operand: how many elements equal it */
	double *out;
	lk_status status;
} lc_bound_row;

/* Whether a real number becomes an integer or a boolean. */
bool lc_bound_truncates(const lc_bound_row *row_state);
/* Whether operand k is a maximum or minimum over the other, or over the elements of it that a
 * select keeps. */
bool lc_bound_is_extremum(const lc_program *program, const lc_node *node, int k);
/* Note a comparison of x[0] with x[1] that their bounds reach across. */
void lc_note_comparison(lc_bound_row *row_state, const double x[], const double e[],
                        const int64_t element[]);
/* Note a step between x - e and x + e. */
void lc_note_truncation(lc_bound_row *row_state, double x, double e, double y, int64_t element);
/* Count, in each row, the elements that equal the extremum: an lc_on_row. */
void lc_bound_count_equals(void *state, int64_t out, int64_t count, const int64_t in[LC_INPUTS],
                           const int64_t stride[LC_INPUTS]);

/* (1 + u)^n - 1: what n roundings do to the terms of a sum. */
static inline double lc_bound_growth(double u, double n) {
	return expm1(n * log1p(u));
}
/* Both roundings of a result near y with error `carry` from its operands: the run's, and `steps` of
 * the other's. */
static inline double lc_bound_rounded(lc_dtype t, double y, double carry, int steps) {
	return lc_rounding(t, y) + steps * lc_rounding(t, fabs(y) + carry);
}
/* run_attend.c: fill at->out with the bounds of an attention's part. */
lk_status lc_bound_attend(lc_bounds *bounds, lc_at *at);
/* run_block.c: the same of sorted lines and factored matrices. */
lk_status lc_bound_block(lc_bounds *bounds, lc_at *at);

#endif
