/* stats.h: the few statistics that lockstep needs. All take unsorted arrays; those that sort work
 * on a copy. */
#ifndef LK_BASE_STATS_H
#define LK_BASE_STATS_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What every time of an answer is: not known, or finite and not negative. */
static inline bool lk_is_time(double seconds) {
	return isnan(seconds) || (isfinite(seconds) && seconds >= 0);
}

/* Order of doubles for lk_sort and bsearch; NANs come last. */
int lk_ascending(const void *a, const void *b);

double lk_mean(const double *x, size_t n);
/* Linear interpolation between order statistics, q in 0..1; NAN for n = 0. */
double lk_quantile(const double *x, size_t n, double q);
/* The same number without allocating, slowly: used if lk_quantile gets no memory. */
double lk_quantile_unsorted(const double *x, size_t n, double q);
double lk_median(const double *x, size_t n);
/* The value that a normal variable of mean 0 and deviation 1 is below with this probability. */
double lk_normal_quantile(double probability);
/* The expected largest of `count` normal deviates (Blom, Statistical Estimates and Transformed
 * Beta-Variables, 1958, section 6.9); 0 for one. */
double lk_normal_largest(double count);
/* The shortest interval that holds `held` (1 to n) of n ascending numbers. */
void lk_shortest(const double *sorted, size_t n, size_t held, double *low, double *high);
/* Kendall's tau-b of two rankings; NAN for n < 2 or when all are tied. O(n^2): groups are small. */
double lk_kendall_tau(const double *x, const double *y, size_t n);

/* A part's share of a whole, at most 1; 0 of an empty whole. */
static inline double lk_share(double part, double whole) {
	if (whole <= 0) return 0;
	return part < whole ? part / whole : 1;
}

/* Random numbers: splitmix64 of (seed, counter), so that any draw can be made independently and in
 * any order. */
uint64_t lk_hash64(uint64_t x);
/* Hash of bytes (FNV-1a); for several pieces pass the previous hash as `seed`. */
#define LK_HASH_SEED UINT64_C(0xcbf29ce484222325)
uint64_t lk_hash_bytes(uint64_t seed, const void *bytes, size_t size);
double lk_uniform(uint64_t seed, uint64_t counter); /* (0, 1) */
double lk_normal(uint64_t seed, uint64_t counter);  /* mean 0, deviation 1 */

#endif
