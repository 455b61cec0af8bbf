/* locality.h: how often the rows of an embedding table are looked up in a batch: what hit rates, imbalance and the worth of
 * a cache follow from. Kept as classes of rows that are looked up equally often; made from a Zipf law, or from a histogram
 * of reuse as facebookresearch/dlrm_datasets states them; thinned to smaller batches; drawn as indices. */
#ifndef LK_COST_LOCALITY_H
#define LK_COST_LOCALITY_H

#include <stddef.h>
#include <stdint.h>

/* Bins of a reuse histogram: rows looked up once, twice, 3 or 4 times, 5 to 8, ... over 32768 times. */
enum { LK_REUSE_BINS = 17, LK_LOCALITY_CLASSES = 96 };

typedef struct lk_locality {
	int count;
	double rows[LK_LOCALITY_CLASSES], times[LK_LOCALITY_CLASSES]; /* rows looked up so many times; most often first */
} lk_locality;

double lk_locality_rows(const lk_locality *l);    /* different rows that the batch touches */
double lk_locality_lookups(const lk_locality *l);

/* Lookups into `rows` rows, the i-th with a probability like i^-skew; 0: uniform. Independent draws. */
void lk_locality_zipf(double rows, double lookups, double skew, lk_locality *out);
/* From the shares of different rows in each bin and, where known (else NULL), the shares of lookups. Scaled to so many
 * lookups; never more different rows than `rows`. */
void lk_locality_reuse(const double *unique, const double *access, double rows, double lookups, lk_locality *out);
/* The same where the histogram is one of `of` samples with `pooling` lookups each, for a batch of fewer samples: thinned. */
void lk_locality_reuse_at(const double *unique, const double *access, double of, double rows, double pooling, double batch, lk_locality *out);
/* Of a batch that keeps each lookup with this probability: binomial thinning. */
void lk_locality_thin(const lk_locality *l, double keep, lk_locality *out);
/* Back to shares of each bin; either may be NULL. */
void lk_locality_bins(const lk_locality *l, double unique[LK_REUSE_BINS], double access[LK_REUSE_BINS]);
/* Share of lookups that fall on the `held` rows that are looked up most often. */
double lk_locality_covered(const lk_locality *l, double held);

/* The row of 0 .. rows-1 that stands in a place of the same: a permutation in no order, so that rows that are looked up often
 * lie anywhere. */
uint64_t lk_locality_row(uint64_t place, uint64_t rows, uint64_t seed);
/* Draws `count` indices below `rows` in random order, with the reuse of the classes, scaled to that many; deterministic. */
void lk_locality_draw(const lk_locality *l, uint64_t rows, uint64_t seed, size_t count, uint32_t *out);

#endif
