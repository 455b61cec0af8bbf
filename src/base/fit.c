/* fit.c: a simplex search within limits, and robust linear least squares. */
#include "base/fit.h"
#include "base/sort.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- simplex (Nelder and Mead, Computer Journal 7, 1965) ---- */

/* The search runs in unconstrained coordinates: a number's place between its limits is the logistic
 * function of its coordinate. */
struct search {
	const lk_fit_number *numbers;
	lk_fit_objective *objective;
	void *context;
	int free[LK_FIT_NUMBERS], dims, left; /* free numbers; evaluations left */
	double x[LK_FIT_NUMBERS], best[LK_FIT_NUMBERS], least;
};

struct vertex {
	double at[LK_FIT_NUMBERS], value;
};

static double fit_place_of(const lk_fit_number *number, double x) {
	double low = number->ratio ? log(number->low) : number->low,
		   high = number->ratio ? log(number->high) : number->high;
	double share = ((number->ratio ? log(x) : x) - low) / (high - low);
	share = fmin(fmax(share, 1e-4), 1 - 1e-4);
	return log(share / (1 - share));
}

static double fit_number_at(const lk_fit_number *number, double place) {
	double share = 1 / (1 + exp(-place));
	if (number->ratio)
		return exp(log(number->low) + share * (log(number->high) - log(number->low)));
	return number->low + share * (number->high - number->low);
}

static double evaluate(struct search *search, const double *at) {
	for (int i = 0; i < search->dims; i++)
		search->x[search->free[i]] = fit_number_at(&search->numbers[search->free[i]], at[i]);
	double value = search->objective(search->x, search->context);
	if (!isfinite(value)) value = INFINITY;
	search->left--;
	if (value < search->least) {
		search->least = value;
		memcpy(search->best, search->x, sizeof search->best);
	}
	return value;
}

LK_ORDER_BY(fit_by_value, struct vertex, value)

/* The point on the line from the worst vertex through the centre of the others; step 1 mirrors it.
 */
static void fit_along(const struct search *search, const double *centre, const double *worst,
                      double step, double *out) {
	for (int i = 0; i < search->dims; i++) out[i] = centre[i] + step * (centre[i] - worst[i]);
}

/* Change the simplex once; its vertices are sorted, best first. */
static void fit_advance(struct search *search, struct vertex *simplex) {
	int n = search->dims;
	double centre[LK_FIT_NUMBERS] = {0};
	struct vertex mirrored, next, *worst = &simplex[n];
	for (int v = 0; v < n; v++)
		for (int i = 0; i < n; i++) centre[i] += simplex[v].at[i] / n;
	fit_along(search, centre, worst->at, 1, mirrored.at);
	mirrored.value = evaluate(search, mirrored.at);
	if (mirrored.value < simplex[n - 1].value && mirrored.value >= simplex[0].value) {
		*worst = mirrored;
		return;
	}
	fit_along(search, centre, worst->at,
	          mirrored.value < simplex[0].value ? 2
	          : mirrored.value < worst->value   ? .5
	                                            : -.5,
	          next.at);
	next.value = evaluate(search, next.at);
	if (next.value < fmin(mirrored.value, worst->value)) {
		*worst = next;
	} else if (mirrored.value < worst->value) {
		*worst = mirrored;
	} else {
		for (int v = 1; v <= n; v++) {
			for (int i = 0; i < n; i++)
				simplex[v].at[i] = (simplex[v].at[i] + simplex[0].at[i]) / 2;
			simplex[v].value = evaluate(search, simplex[v].at);
		}
	}
}

static void fit_descend(struct search *search, double size) {
	struct vertex simplex[LK_FIT_NUMBERS + 1] = {0};
	for (int v = 0; v <= search->dims; v++) {
		for (int i = 0; i < search->dims; i++)
			simplex[v].at[i] =
				fit_place_of(&search->numbers[search->free[i]], search->best[search->free[i]]);
		if (v > 0) simplex[v].at[v - 1] += simplex[v].at[v - 1] > 0 ? -size : size;
	}
	for (int v = 0; v <= search->dims; v++) simplex[v].value = evaluate(search, simplex[v].at);
	while (search->left > 0) {
		lk_sort(simplex, (size_t)search->dims + 1, sizeof *simplex, fit_by_value);
		double spread = simplex[search->dims].value - simplex[0].value;
		if (!(spread > 1e-6 * fabs(simplex[0].value))) break;
		fit_advance(search, simplex);
	}
}

void lk_fit_simplex(const lk_fit_number *numbers, int count, int evaluations,
                    lk_fit_objective *objective, void *context, double *x, double *least) {
	struct search s = {.numbers = numbers,
	                   .objective = objective,
	                   .context = context,
	                   .left = evaluations,
	                   .least = INFINITY};
	if (count > LK_FIT_NUMBERS) count = LK_FIT_NUMBERS;
	for (int i = 0; i < count; i++) {
		s.x[i] = s.best[i] = fmin(fmax(numbers[i].start, numbers[i].low), numbers[i].high);
		if (numbers[i].low < numbers[i].high) s.free[s.dims++] = i;
	}
	s.least = objective(s.x, context);
	if (!isfinite(s.least)) s.least = INFINITY;
	double before = INFINITY;
	for (double size = .6; s.dims > 0 && s.left > 0 && s.least < before - 1e-4 * fabs(s.least);
	     size = -.7 * size) {
		before = s.least;
		fit_descend(&s, size);
	}
	memcpy(x, s.best, (size_t)count * sizeof *x);
	if (least) *least = s.least;
}

/* ---- robust linear least squares ---- */

/* Solve the symmetric positive definite a x = b of size n by Cholesky's method, in place; a
 * vanishing pivot leaves its number at 0. */
static void solve(double *a, double *b, int n) {
	for (int j = 0; j < n; j++) {
		double pivot = a[j * n + j];
		for (int k = 0; k < j; k++) pivot -= a[j * n + k] * a[j * n + k];
		pivot = pivot > 1e-12 ? sqrt(pivot) : INFINITY;
		a[j * n + j] = pivot;
		for (int i = j + 1; i < n; i++) {
			double sum = a[i * n + j];
			for (int k = 0; k < j; k++) sum -= a[i * n + k] * a[j * n + k];
			a[i * n + j] = sum / pivot;
		}
	}
	for (int i = 0; i < n; i++) {
		for (int k = 0; k < i; k++) b[i] -= a[i * n + k] * b[k];
		b[i] /= a[i * n + i];
	}
	for (int i = n - 1; i >= 0; i--) {
		for (int k = i + 1; k < n; k++) b[i] -= a[k * n + i] * b[k];
		b[i] /= a[i * n + i];
	}
}

/* Add the row's part to the normal equations; most of a row's derivatives are 0. */
static void fit_add_row(const double *row, double residual, double weight, int n, double *a,
                        double *b) {
	for (int p = 0; p < n; p++) {
		if (row[p] == 0) continue;
		b[p] += weight * row[p] * residual;
		for (int q = 0; q <= p; q++) a[p * n + q] += weight * row[p] * row[q];
	}
}

/* Add the prior: a deviation of 0 pins a number to 0. */
static void add_prior(const double *prior, int n, double *a, double *b) {
	for (int p = 0; prior && p < n; p++) {
		if (prior[p] > 0) {
			a[p * n + p] += 1 / (prior[p] * prior[p]);
			continue;
		}
		for (int q = 0; q < n; q++) a[p * n + q] = a[q * n + p] = 0;
		a[p * n + p] = 1;
		b[p] = 0;
	}
}

lk_status lk_fit_linear(const double *jacobian, const double *residual, const double *weight,
                        size_t rows, int count, const double *prior, double *x, lk_error *err) {
	enum { ROUNDS = 40 };
	const double smallest =
		1e-2; /* smaller residuals count as their square: the weights stay finite */
	size_t n = (size_t)count;
	double *a = malloc((n * n + n + 1) * sizeof *a), *b = a ? a + n * n : NULL;
	if (!a) return lk_oom(err);
	memset(x, 0, n * sizeof *x);
	for (int round = 0; round < ROUNDS; round++) {
		double moved = 0;
		memset(a, 0, (n * n + n) * sizeof *a);
		for (size_t i = 0; i < rows; i++) {
			const double *row = &jacobian[i * n];
			double left = residual[i], known = weight ? weight[i] : 1;
			if (known <= 0) continue;
			for (int p = 0; p < count; p++) left -= row[p] * x[p];
			fit_add_row(row, residual[i], known / fmax(fabs(left), smallest), count, a, b);
		}
		add_prior(prior, count, a, b);
		solve(a, b, count);
		for (int p = 0; p < count; p++) {
			moved = fmax(moved, fabs(b[p] - x[p]));
			x[p] = b[p];
		}
		if (moved < 1e-6) break;
	}
	free(a);
	return LK_OK;
}
