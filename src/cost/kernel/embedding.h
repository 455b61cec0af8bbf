/* embedding.h: pooled lookups of many embedding tables in one kernel: how much of their traffic the
 * L2 cache holds, and how long they take. After Lin et al. (arXiv 2201.07821, "embedding lookup"),
 * extended from uniform indices to measured reuse. */
#ifndef LK_COST_KERNEL_EMBEDDING_H
#define LK_COST_KERNEL_EMBEDDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cost/calibration/calibration.h"
#include "graph/graph.h"
#include "hw/hw.h"

/* ---- locality: how often the rows of an embedding table are looked up in a batch: what hit rates,
 * imbalance and the worth of a cache follow from. Kept as classes of rows that are looked up
 * equally often; made from a Zipf law, or from a histogram of reuse as
 * facebookresearch/dlrm_datasets states them; thinned to smaller batches; drawn as indices. */

/* Bins of a reuse histogram: rows looked up once, twice, 3 or 4 times, 5 to 8, ... over 32768
 * times. */
enum { LK_REUSE_BINS = 17, LK_LOCALITY_CLASSES = 96 };

typedef struct lk_locality {
	int count;
	double rows[LK_LOCALITY_CLASSES],
		times[LK_LOCALITY_CLASSES]; /* rows looked up so many times; most often first */
} lk_locality;

double lk_locality_rows(const lk_locality *locality); /* different rows that the batch touches */
double lk_locality_lookups(const lk_locality *locality);

/* Lookups into `rows` rows, the i-th with a probability like i^-skew; 0: uniform. Independent
 * draws. */
void lk_locality_zipf(double rows, double lookups, double skew, lk_locality *out);
/* From the shares of different rows in each bin and, where known (else NULL), the shares of
 * lookups. Scaled to so many lookups; never more different rows than `rows`. */
void lk_locality_reuse(const double *unique, const double *access, double rows, double lookups,
                       lk_locality *out);
/* The same where the histogram is one of `of` samples with `pooling` lookups each, for a batch of
 * fewer samples: thinned. */
void lk_locality_reuse_at(const double *unique, const double *access, double of, double rows,
                          double pooling, double batch, lk_locality *out);
/* Of a batch that keeps each lookup with this probability: binomial thinning. */
void lk_locality_thin(const lk_locality *locality, double keep, lk_locality *out);
/* Back to shares of each bin; either may be NULL. */
void lk_locality_bins(const lk_locality *locality, double unique[LK_REUSE_BINS],
                      double access[LK_REUSE_BINS]);
/* Share of lookups that fall on the `held` rows that are looked up most often. */
double lk_locality_covered(const lk_locality *locality, double held);

/* The row of 0 .. rows-1 that is in a place of the same: a permutation in no order, so that
 * rows that are looked up often lie anywhere. */
uint64_t lk_locality_row(uint64_t place, uint64_t rows, uint64_t seed);
/* Draws `count` indices below `rows` in random order, with the reuse of the classes, scaled to that
 * many; deterministic. */
void lk_locality_draw(const lk_locality *locality, uint64_t rows, uint64_t seed, size_t count,
                      uint32_t *out);

typedef struct lk_lookup {
	double batch, tables, rows, dim, pooling; /* rows and pooling of each table */
	const double *reuse; /* [LK_REUSE_BINS] shares of the different rows that are looked up; NULL:
	                        indices are uniform */
	const lk_locality *locality; /* the same in more detail; goes before `reuse` */
	bool backward;  /* reads and writes each row that was looked up: an optimizer fused into the
	                   kernel */
	double element; /* bytes of a number of the table; 0: 4 */
	double state; /* bytes of a row's optimizer state, read and written once for each different row,
	                 backward */
} lk_lookup;
static inline double lk_lookup_element(const lk_lookup *lookup) {
	return lookup->element > 0 ? lookup->element : 4;
}

typedef struct lk_lookup_traffic {
	double hit;      /* share of looked-up rows that the cache holds */
	double dram, l2; /* bytes from memory; bytes of rows from the cache */
} lk_lookup_traffic;

/* Traffic on a device with so much cache and so many SMs. Sums and their gradients are fp32. */
lk_lookup_traffic lk_lookup_traffic_of(const lk_lookup *lookup, const lk_device *device);
/* Seconds at these rates in bytes/s, without the kernel's start. */
double lk_lookup_seconds(const lk_lookup *lookup, const lk_device *device, double memory_rate,
                         double l2_rate);

/* Rate of the L2 cache over memory's: V100, P100, Titan Xp, measured (family
 * "rates") 3.5, 2.9, 3.2. */
extern const double lk_lookup_l2_gain;

/* The lookup that an EMBEDDING operation with pooling states. */
lk_lookup lk_lookup_of(const lk_graph *graph, uint32_t op);

/* ---- embedding_host: pooled lookups on the cores of a processor: how long they take with caches
 * as they were measured. */

/* Where a row is found: the core's own caches, the last cache, memory. */
typedef enum lk_host_level {
	LK_HOST_NEAR,
	LK_HOST_LAST,
	LK_HOST_FAR,
	LK_HOST_LEVELS
} lk_host_level;

/* Adding up or changing a row that is near: the row, each vector of 64 bytes of it, and an end that
 * is no whole vector. */
typedef struct lk_host_work {
	double row_s, vector_s, tail_s;
} lk_host_work;

/* What a row takes more that is not near: the row, its first eight lines, which the kernel fetches
 * ahead, and the others; and waiting for memory, as far as no other row is waited for meanwhile. */
typedef struct lk_host_read {
	double row_s, line_s, rest_s, wait_s;
} lk_host_read;

/* What was measured on a host with bench/lookup; rows of the family "lookup". Times are of one
 * thread while all run. */
typedef struct lk_host_lookup {
	int threads;
	double near_bytes,
		last_bytes; /* that a thread's rows may take before they are found a level further */
	double near_slope,
		last_slope; /* how sharply: share found further = 1 / (1 + (bytes / distance)^slope) */
	double step_share,
		sum_share; /* what a step touches counts so much towards the distance of rows; of sums */
	double span_bytes; /* of pages of so many bytes half wait for page tables when they are met
	                      again */
	double guesses; /* samples whose lengths the processor remembers from step to step: half of so
	                   many */
	lk_host_work add, gradient_add, change;
	lk_host_read row[LK_HOST_LEVELS], gradient[LK_HOST_LEVELS],
		update[LK_HOST_LEVELS];     /* nothing of those near */
	double state_s[LK_HOST_LEVELS]; /* a line of the optimizer's states, which lie apart from their
	                                   rows */
	double torn_s[LK_HOST_LEVELS];  /* the second line of a short row that lies across two: not
	                                   fetched ahead */
	double walk_s[LK_HOST_LEVELS], update_walk_s[LK_HOST_LEVELS];
	double sample_s, guess_s;          /* a sample; more if its length comes unexpected */
	double sum_line_s[LK_HOST_LEVELS]; /* each 64 bytes of a pooled sum */
	double shared_s, update_shared_s;  /* a line that another core changed or read last, while its
	                                      caches hold it */
	double pair_s, pair_sample_s;      /* backward: making pairs of row and sample */
	double sort_s[LK_HOST_LEVELS],
		pass_s;    /* a pair in one pass of sorting by row; the pass itself */
	double call_s; /* a table: start and end of the threads' work */
} lk_host_lookup;

/* The numbers of a row of the family "lookup"; false where one is missing, as in rows of older
 * versions. */
bool lk_host_lookup_of(const lk_calibration_row *row, lk_host_lookup *out);
/* The first number that a row lacks; NULL: none. */
const char *lk_host_lookup_missing(const lk_calibration_row *row);
void lk_host_lookup_put(const lk_host_lookup *lookup, lk_calibration_row *row);

/* What a step of a rank touches: forward of all its tables, then backward of all. From one use of a
 * row to its next, in the next batch, all of that passes through the caches, whichever table it
 * belongs to. */
typedef struct lk_host_share {
	double bytes;        /* of rows and states, sums and gradients, indices */
	double sorted_bytes; /* pairs of the table with most lookups: all are sorted in the same room */
	double page_bytes;   /* of the pages that rows are on */
	double samples;      /* whose lengths are met */
} lk_host_share;

/* Adds lookup->tables equal tables to the share. */
void lk_host_share_add(lk_host_share *share, const lk_lookup *lookup);
/* The share of one of so many ranks, where each has as much as the others. */
lk_host_share lk_host_share_of(const lk_host_share *all, int ranks);

/* Seconds of the lookups of lookup->tables equal tables, forward or backward, in a share that they
 * are a part of. */
double lk_host_lookup_seconds(const lk_host_lookup *host, const lk_lookup *lookup,
                              const lk_host_share *share);

/* ---- the same in three stages, for fits that ask for many times with few laws ---- */

/* Lookups of one table by the bytes that a thread touched since it used the row last: a third of an
 * octave each. */
enum { LK_HOST_BINS = 96 };
typedef struct lk_host_uses {
	double lookups, rows;  /* of all threads; different rows */
	double pages, entries; /* that they are on; lines of the page table with these pages' entries */
	double fresh, state_lines; /* share of a first use's lines that no other row has fetched; lines
	                              of their states */
	double crowd;              /* share of first uses among the lookups around one */
	double first,
		of_others; /* uses after a whole step; a thread's first of a row that others have used */
	double later[LK_HOST_BINS];
} lk_host_uses;

/* Where things are found: how many lookups on each level, and the shares of what a step touches and
 * of gradients used again. */
typedef struct lk_host_found {
	double lookups[LK_HOST_LEVELS], step[LK_HOST_LEVELS], sums[LK_HOST_LEVELS],
		again[LK_HOST_LEVELS], pairs[LK_HOST_LEVELS];
	double unexpected;       /* share of samples whose lengths the processor does not remember */
	double lost, lost_again; /* share of pages not remembered since the last step; since this one's
	                            last use */
} lk_host_found;

void lk_host_lookup_uses(const lk_lookup *lookup, int threads, lk_host_uses *out);
void lk_host_lookup_find(const lk_host_lookup *host, const lk_lookup *lookup,
                         const lk_host_uses *uses, const lk_host_share *share, lk_host_found *out);
double lk_host_lookup_seconds_of(const lk_host_lookup *host, const lk_lookup *lookup,
                                 const lk_host_uses *uses, const lk_host_found *found);

#endif
