/* stats.c: mean, quantiles, rank correlation and counter-based random numbers.
 *
 * Kendall's tau-b: (concordant - discordant) / sqrt((n0 - n1)(n0 - n2)) with n0 = n(n-1)/2 pairs,
 * n1 and n2 the pairs tied in x and in y (M. G. Kendall, "The treatment of ties in ranking
 * problems", Biometrika 33, 1945). splitmix64: G. L. Steele, D. Lea, C. H. Flood, "Fast splittable
 * pseudorandom number generators", OOPSLA 2014. Normal numbers: G. E. P. Box, M. E. Muller, Annals
 * of Mathematical Statistics 29, 1958. */
#include "base/stats.h"
#include "base/sort.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

double lk_mean(const double *x, size_t n) {
	if (!n) return NAN;
	long double sum = 0;
	for (size_t i = 0; i < n; i++) sum += x[i];
	return (double)(sum / (long double)n);
}

int lk_ascending(const void *a, const void *b) {
	double x = *(const double *)a, y = *(const double *)b;
	if (isnan(x) || isnan(y)) return isnan(x) - isnan(y);
	return (x > y) - (x < y);
}

/* An integer in the order of lk_ascending: the bits of the double, inverted for negative
 * numbers. */
static uint64_t order_of(double x) {
	const uint64_t sign = UINT64_C(1) << 63;
	uint64_t bits;
	if (isnan(x)) return UINT64_MAX;
	x += 0.0; /* -0 becomes 0 */
	memcpy(&bits, &x, sizeof bits);
	return bits & sign ? ~bits : bits | sign;
}

/* The number at `place` of the sorted ones, without memory to sort: the least order that more than
 * `place` of them do not exceed, by bisection. */
static double find_nth(const double *x, size_t n, size_t place) {
	uint64_t low = 0, high = UINT64_MAX;
	while (low < high) {
		uint64_t middle = low + (high - low) / 2;
		size_t reached = 0;
		for (size_t i = 0; i < n; i++) reached += order_of(x[i]) <= middle;
		if (reached > place) high = middle;
		else low = middle + 1;
	}
	for (size_t i = 0; i < n; i++)
		if (order_of(x[i]) == low) return x[i];
	return NAN;
}

/* Interpolate between the number at `rank` and the next. The neighbour counts only if it has a
 * weight: 0 times infinity would be NaN. */
static double between(double value, double next, double part) {
	return part > 0 && next != value ? value * (1 - part) + next * part : value;
}

double lk_quantile_unsorted(const double *x, size_t n, double q) {
	if (!n || !(q >= 0 && q <= 1)) return NAN;
	double rank = q * (double)(n - 1), part = rank - floor(rank);
	size_t low = (size_t)rank;
	return between(find_nth(x, n, low), find_nth(x, n, low + 1 < n ? low + 1 : low), part);
}

double lk_quantile(const double *x, size_t n, double q) {
	if (!n || n > SIZE_MAX / sizeof *x || !(q >= 0 && q <= 1)) return NAN;
	double *sorted = malloc(n * sizeof *sorted);
	if (!sorted) return lk_quantile_unsorted(x, n, q);
	memcpy(sorted, x, n * sizeof *sorted);
	lk_sort(sorted, n, sizeof *sorted, lk_ascending);
	double rank = q * (double)(n - 1), part = rank - floor(rank);
	size_t low = (size_t)rank;
	double value = between(sorted[low], sorted[low + 1 < n ? low + 1 : low], part);
	free(sorted);
	return value;
}

double lk_median(const double *x, size_t n) {
	return lk_quantile(x, n, 0.5);
}

void lk_shortest(const double *sorted, size_t n, size_t held, double *low, double *high) {
	*low = sorted[0];
	*high = sorted[n - 1];
	for (size_t i = 0; i + held <= n; i++)
		if (sorted[i + held - 1] - sorted[i] < *high - *low) {
			*low = sorted[i];
			*high = sorted[i + held - 1];
		}
}

double lk_kendall_tau(const double *x, const double *y, size_t n) {
	double balance = 0, untied_x = 0, untied_y = 0;
	for (size_t i = 0; i < n; i++) {
		for (size_t j = i + 1; j < n; j++) {
			int dx = (x[i] > x[j]) - (x[i] < x[j]), dy = (y[i] > y[j]) - (y[i] < y[j]);
			balance += dx * dy;
			untied_x += dx != 0;
			untied_y += dy != 0;
		}
	}
	return untied_x > 0 && untied_y > 0 ? balance / (sqrt(untied_x) * sqrt(untied_y)) : NAN;
}

uint64_t lk_hash64(uint64_t x) {
	x += 0x9e3779b97f4a7c15u;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

uint64_t lk_hash_bytes(uint64_t seed, const void *bytes, size_t size) {
	const unsigned char *at = bytes;
	for (size_t i = 0; i < size; i++) seed = (seed ^ at[i]) * UINT64_C(0x100000001b3);
	return seed;
}

double lk_uniform(uint64_t seed, uint64_t counter) {
	/* 52 bits and a half: the result is never 0 or 1, and every value is exact in a double. */
	uint64_t bits = lk_hash64(lk_hash64(seed) ^ lk_hash64(~counter)) >> 12;
	return ((double)bits + 0.5) * 0x1p-52;
}

/* The z that a normal variable exceeds with probability `tail`, at most 1/2. From 0 on, where the
 * tail is convex, Newton's steps approach the root from below and never pass it. */
static double normal_exceeded(double tail) {
	double z = 0;
	for (int step = 0; step < 200; step++) {
		double density = exp(-z * z / 2) / sqrt(2 * M_PI);
		double more = (erfc(z / M_SQRT2) / 2 - tail) / density;
		if (!(more > 1e-12)) break;
		z += more;
	}
	return z;
}

double lk_normal_quantile(double probability) {
	return probability < 0.5 ? -normal_exceeded(probability) : normal_exceeded(1 - probability);
}

double lk_normal_largest(double count) {
	return count > 1 ? lk_normal_quantile((count - 0.375) / (count + 0.25)) : 0;
}

double lk_normal(uint64_t seed, uint64_t counter) {
	/* two draws from streams that lk_uniform does not give for the same seed */
	double radius = sqrt(-2 * log(lk_uniform(seed ^ 0x6e6f726d616c0001u, counter)));
	return radius *
	       cos(2 * 3.14159265358979323846 * lk_uniform(seed ^ 0x6e6f726d616c0002u, counter));
}
