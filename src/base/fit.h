/* fit.h: fitting of a few numbers to measurements. Deterministic: equal input gives equal output.
 */
#ifndef LK_BASE_FIT_H
#define LK_BASE_FIT_H

#include <stdbool.h>
#include <stddef.h>
#include "lockstep/error.h"

/* A number to fit: start of the search, limits, and whether it is searched on a ratio scale (then
 * low > 0). */
typedef struct lk_fit_number {
	const char *name;
	double start, low, high;
	bool ratio;
} lk_fit_number;

enum { LK_FIT_NUMBERS = 24 }; /* most numbers at a time */

/* The function to minimise, at x[count]; a value that is not finite counts as infinitely bad. */
typedef double lk_fit_objective(const double *x, void *context);

/* Nelder and Mead's simplex within the limits, restarted from the best point until a restart gains
 * less than 1e-4 of the value or `evaluations` are spent. x[count] and *least (may be NULL) get the
 * best point and its value; a number with low == high is fixed. */
void lk_fit_simplex(const lk_fit_number *numbers, int count, int evaluations,
                    lk_fit_objective *objective, void *context, double *x, double *least);

/* Robust linear least squares: minimise sum_i w_i |r_i - J_i x| + sum_j (x_j / prior_j)^2 / 2 over
 * x[count] by iteratively reweighted least squares. J has rows * count values, row by row; `weight`
 * (NULL: 1) one per row; prior_j is the expected deviation of x_j (0: x_j stays 0, INFINITY:
 * free). */
lk_status lk_fit_linear(const double *jacobian, const double *residual, const double *weight,
                        size_t rows, int count, const double *prior, double *x, lk_error *err);

#endif
