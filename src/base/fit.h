/* fit.h: fitting of a few numbers to measurements. Deterministic: equal input gives equal output.
 */
#ifndef LK_BASE_FIT_H
#define LK_BASE_FIT_H

#include <stdbool.h>
#include <stddef.h>
#include "lockstep/error.h"

/* A number to be found: where the search begins, its limits, and whether it is searched by ratios
 * (then low > 0). */
typedef struct lk_fit_number {
	const char *name;
	double start, low, high;
	bool ratio;
} lk_fit_number;

enum { LK_FIT_NUMBERS = 24 }; /* at most so many at a time */

/* What is to be made small, at x[count]; a value that is not finite counts as infinitely bad. */
typedef double lk_fit_objective(const double *x, void *context);

/* Nelder and Mead's simplex inside the limits, begun anew from the best point until a restart gains
 * less than 1e-4 of the value or `evaluations` are spent. x[count] and *least (may be NULL) get the
 * best point and its value; a number with low == high stays. */
void lk_fit_simplex(const lk_fit_number *numbers, int count, int evaluations,
                    lk_fit_objective *objective, void *context, double *x, double *least);

/* Robust linear least squares: the x[count] that makes sum_i w_i |r_i - J_i x| + sum_j (x_j /
 * prior_j)^2 / 2 small, by iteratively reweighted least squares. J has rows * count values, row by
 * row; `weight` (NULL: 1) one per row; prior_j is the deviation that x_j is expected to have (0:
 * x_j stays 0, INFINITY: free). */
lk_status lk_fit_linear(const double *jacobian, const double *residual, const double *weight,
                        size_t rows, int count, const double *prior, double *x, lk_error *err);

#endif
