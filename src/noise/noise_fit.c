/* noise_fit.c: rows of noise of whole steps, from step times.
 *
 * Of a series with median m, the spread is (P75 - P25) / 1.349 m, as of a normal distribution, or
 * less where even that would exceed what the slowest tenth of the steps shows.
 * Beyond it, S(x) of all steps exceed m (1 + x). At several shares s the excess x_s is taken from
 * the series; delays bring the share of steps beyond x_s from what the spread alone gives,
 * Q(x_s / sigma), to s. Between two of them a delay is even in the logarithm. Of several series the
 * spread and the x_s are medians. A mean of n steps has a spread sqrt(n) times narrower, and what
 * one step exceeds by counts n times in it. */
#include "noise/noise.h"

#include <math.h>
#include <stdlib.h>

#include "base/sort.h"
#include "base/stats.h"

enum { KNOTS = 16, TRIALS = 20000 };
/* P95 and P99 lie between two that are close. Beyond the last, steps exceed by up to twice its
 * excess. */
static const double knot_share[KNOTS] = {.2,  .12,   .08,   .06,   .052, .048,  .04,   .03,
                                         .02, .0125, .0105, .0095, .007, .0035, .0015, .0005};
static const double LEAST = 1e-4; /* smallest excess that is a delay */

typedef struct fitted_series {
	double sigma, excess[KNOTS]; /* NAN: the series has too few steps, or means of too many */
} fitted_series;

static lk_status fit_one(const lk_noise_series *series, fitted_series *out, lk_error *err) {
	double *sorted = malloc((series->count + 1) * sizeof *sorted);
	if (!sorted) return lk_oom(err);
	for (size_t i = 0; i < series->count; i++) sorted[i] = series->seconds[i];
	lk_sort(sorted, series->count, sizeof *sorted, lk_ascending);
	double n = (double)series->mean_of, last = (double)(series->count - 1), median_s;
	median_s = lk_median(sorted, series->count);
	double quartiles = sorted[(size_t)(0.75 * last)] - sorted[(size_t)(0.25 * last)];
	out->sigma = quartiles / 1.349 / median_s * sqrt(n);
	for (int k = 0; k < KNOTS; k++) {
		double share = knot_share[k] * n, place = last * (1 - share);
		bool known = share <= 0.5 && share * (double)series->count >= 1;
		out->excess[k] = known ? fmax(0, sorted[(size_t)(place + 0.5)] / median_s - 1) * n : NAN;
		if (known && knot_share[k] <= 0.1)
			out->sigma = fmin(out->sigma, out->excess[k] / lk_normal_quantile(1 - share) / sqrt(n));
	}
	free(sorted);
	return LK_OK;
}

/* Medians over the series that know a value. */
static void fit_pool(const fitted_series *all, size_t count, double *room, fitted_series *out) {
	for (size_t i = 0; i < count; i++) room[i] = all[i].sigma;
	out->sigma = lk_median(room, count);
	for (int k = 0; k < KNOTS; k++) {
		size_t known = 0;
		for (size_t i = 0; i < count; i++)
			if (!isnan(all[i].excess[k])) room[known++] = all[i].excess[k];
		double before = k ? out->excess[k - 1] : 0;
		out->excess[k] = known ? fmax(before, lk_median(room, known)) : before;
	}
}

static double normal_beyond(double z) {
	return 0.5 * erfc(z / sqrt(2));
}

static lk_status fit_delays(const fitted_series *fit, lk_noise *out, lk_error *err) {
	double beyond[KNOTS + 1] = {0}; /* share of steps that delays bring beyond a knot's excess */
	for (int k = KNOTS - 1; k >= 0; k--) {
		double body = fit->sigma > 0 ? normal_beyond(fit->excess[k] / fit->sigma) : 0;
		beyond[k] = fmax(beyond[k + 1], knot_share[k] - body);
		if (fit->excess[k] < LEAST) beyond[k] = 0;
	}
	for (int k = 0; k < KNOTS; k++) {
		double low = fit->excess[k], high = k + 1 < KNOTS ? fit->excess[k + 1] : 2 * low;
		double chance = beyond[k] - beyond[k + 1];
		if (!(chance > 0)) continue;
		LK_TRY(lk_noise_add(out,
		                    (lk_noise_row){.level = LK_NOISE_STEP,
		                                   .delay = true,
		                                   .chance = chance,
		                                   .low = low,
		                                   .high = fmax(low, high)},
		                    "noise", err));
	}
	return LK_OK;
}

lk_status lk_noise_fit(const lk_noise_series *series, size_t count, lk_noise *out, lk_error *err) {
	fitted_series *all = calloc(count + 1, sizeof *all), pooled = {0};
	double *room = calloc(count + 1, sizeof *room);
	*out = (lk_noise){0};
	lk_status status = all && room ? LK_OK : lk_oom(err);
	for (size_t i = 0; status == LK_OK && i < count; i++)
		status = fit_one(&series[i], &all[i], err);
	if (status == LK_OK) fit_pool(all, count, room, &pooled);
	const lk_noise_row spread = {.level = LK_NOISE_STEP, .chance = 1, .low = pooled.sigma};
	if (status == LK_OK) status = lk_noise_add(out, spread, "noise", err);
	if (status == LK_OK) status = fit_delays(&pooled, out, err);
	free(all);
	free(room);
	return status;
}

lk_status lk_noise_tail(const lk_noise *noise, double quiet_s, int mean_of, double *p95,
                        double *p99, lk_error *err) {
	lk_noise_sampler sampler;
	double *steps = malloc(TRIALS * sizeof *steps);
	if (!steps) return lk_oom(err);
	bool acts = lk_noise_sampler_make(noise, LK_NOISE_STEP, quiet_s, &sampler);
	for (uint64_t i = 0; i < TRIALS; i++) {
		double sum = 0;
		for (int k = 0; acts && k < mean_of; k++) sum += lk_noise_draw(&sampler, i, (uint64_t)k);
		steps[i] = quiet_s + sum / mean_of;
	}
	double median_s = lk_median(steps, TRIALS);
	*p95 = lk_quantile(steps, TRIALS, 0.95) / median_s;
	*p99 = lk_quantile(steps, TRIALS, 0.99) / median_s;
	free(steps);
	return isnan(*p95) || isnan(*p99) ? lk_oom(err) : LK_OK;
}
