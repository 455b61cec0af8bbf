/* embedding.h: pooled lookups of many embedding tables in one kernel: the share of their traffic
 * that hits L2, and their duration. After Lin et al. (arXiv 2201.07821, "embedding lookup"),
 * extended from uniform indices to measured reuse. */
#ifndef LK_COST_KERNEL_EMBEDDING_H
#define LK_COST_KERNEL_EMBEDDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cost/calibration/calibration.h"
#include "graph/graph.h"
#include "hw/hw.h"

/* ---- locality: how often the rows of an embedding table are looked up in a batch, the basis of
 * hit rates, imbalance and the value of a cache. Stored as classes of equally frequent rows; made
 * from a Zipf law, or from a histogram of reuse in the form of facebookresearch/dlrm_datasets;
 * thinned to smaller batches; drawn as indices. */

/* Bins of a reuse histogram: rows looked up once, twice, 3 or 4 times, 5 to 8, ... over 32768
 * times. */
enum { LK_REUSE_BINS = 17, LK_LOCALITY_CLASSES = 96 };

typedef struct lk_locality {
	int count;
	double rows[LK_LOCALITY_CLASSES],
		times[LK_LOCALITY_CLASSES]; /* number of rows and their lookups; most frequent first */
} lk_locality;

double lk_locality_rows(const lk_locality *locality); /* distinct rows that the batch touches */
double lk_locality_lookups(const lk_locality *locality);

/* Lookups into `rows` rows, the i-th with a probability proportional to i^-skew; 0: uniform.
 * Independent draws. */
void lk_locality_zipf(double rows, double lookups, double skew, lk_locality *out);
/* From the shares of distinct rows in each bin and, if known (else NULL), the shares of lookups.
 * Scaled to `lookups`; never more distinct rows than `rows`. */
void lk_locality_reuse(const double *unique, const double *access, double rows, double lookups,
                       lk_locality *out);
/* Likewise if the histogram is of `of` samples with `pooling` lookups each, for a batch of fewer
 * samples: thinned. */
void lk_locality_reuse_at(const double *unique, const double *access, double of, double rows,
                          double pooling, double batch, lk_locality *out);
/* The locality of a batch that keeps each lookup with this probability: binomial thinning. */
void lk_locality_thin(const lk_locality *locality, double keep, lk_locality *out);
/* Share of lookups that fall on the `held` most frequent rows. */
double lk_locality_covered(const lk_locality *locality, double held);

/* The row, 0 .. rows-1, at a place in the same range: a pseudo-random permutation, so that frequent
 * rows lie anywhere. */
uint64_t lk_locality_row(uint64_t place, uint64_t rows, uint64_t seed);
/* Draw `count` indices below `rows` in random order, with the reuse of the classes, scaled to that
 * number; deterministic. */
void lk_locality_draw(const lk_locality *locality, uint64_t rows, uint64_t seed, size_t count,
                      uint32_t *out);

typedef struct lk_lookup {
	double batch, tables, rows, dim, pooling; /* rows and pooling per table */
	const double *reuse;         /* [LK_REUSE_BINS] shares of distinct looked-up rows; NULL: uniform
	                                indices */
	const lk_locality *locality; /* the same in more detail; overrides `reuse` */
	bool backward;  /* reads and writes each looked-up row: an optimizer fused into the kernel */
	double element; /* bytes per element of the table; 0: 4 */
	double state;   /* bytes of a row's optimizer state, read and written once per distinct row,
	                   backward */
} lk_lookup;
static inline double lk_lookup_element(const lk_lookup *lookup) {
	return lookup->element > 0 ? lookup->element : 4;
}

typedef struct lk_lookup_traffic {
	double hit;      /* share of looked-up rows that hit the cache */
	double dram, l2; /* bytes from memory; bytes of rows from the cache */
} lk_lookup_traffic;

/* Traffic with the device's cache and SMs. Sums and their gradients are fp32. */
lk_lookup_traffic lk_lookup_traffic_of(const lk_lookup *lookup, const lk_device *device);
/* Seconds at these rates in bytes/s, without the kernel's start. */
double lk_lookup_seconds(const lk_lookup *lookup, const lk_device *device, double memory_rate,
                         double l2_rate);

/* L2 rate over memory rate: V100, P100, Titan Xp, measured (family "rates") 3.5, 2.9, 3.2. */
extern const double lk_lookup_l2_gain;

/* The lookup stated by an EMBEDDING operation with pooling. */
lk_lookup lk_lookup_of(const lk_graph *graph, uint32_t op);

/* ---- embedding_host: pooled lookups on processor cores: durations with measured caches. */

/* Where a row is found: the core's own caches, the last cache, memory. */
typedef enum lk_host_level {
	LK_HOST_NEAR,
	LK_HOST_LAST,
	LK_HOST_FAR,
	LK_HOST_LEVELS
} lk_host_level;

/* Adding or changing a nearby row: the row, each 64-byte vector of it, and a partial vector at its
 * end. */
typedef struct lk_host_work {
	double row_s, vector_s, tail_s;
} lk_host_work;

/* Extra time for a row that is not near: the row, its first eight lines, which the kernel
 * prefetches, and the others; and waiting for memory while no other row is waited for. */
typedef struct lk_host_read {
	double row_s, line_s, rest_s, wait_s;
} lk_host_read;

/* Measurements of a host by bench/lookup; rows of family "lookup". Times are per thread while all
 * threads run. */
typedef struct lk_host_lookup {
	int threads;
	double near_bytes,
		last_bytes; /* most bytes of a thread's rows before they are found one level further */
	double near_slope,
		last_slope; /* sharpness: share found further = 1 / (1 + (bytes / distance)^slope) */
	double step_share, sum_share; /* weight of a step's bytes in the distance of rows; of sums */
	double span_bytes; /* of pages of this many bytes in total, half wait for page tables when used
	                      again */
	double guesses; /* samples whose lengths the processor remembers from step to step: half of this
	                   many */
	lk_host_work add, gradient_add, change;
	lk_host_read row[LK_HOST_LEVELS], gradient[LK_HOST_LEVELS],
		update[LK_HOST_LEVELS];     /* 0 for near rows */
	double state_s[LK_HOST_LEVELS]; /* a line of the optimizer's states, which are stored separately
	                                   from their rows */
	double torn_s[LK_HOST_LEVELS];  /* the second line of a short row that straddles two: not
	                                   prefetched */
	double walk_s[LK_HOST_LEVELS], update_walk_s[LK_HOST_LEVELS];
	double sample_s, guess_s;          /* per sample; extra if its length is mispredicted */
	double sum_line_s[LK_HOST_LEVELS]; /* per 64 bytes of a pooled sum */
	double shared_s, update_shared_s;  /* per line that another core changed or read last, while its
	                                      caches hold it */
	double pair_s, pair_sample_s;      /* backward: creating pairs of row and sample */
	double sort_s[LK_HOST_LEVELS], pass_s; /* per pair in one pass of sorting by row; per pass */
	double call_s;                         /* per table: start and end of the threads' work */
} lk_host_lookup;

/* Read the numbers of a row of family "lookup"; false if one is missing, as in rows of older
 * versions. */
bool lk_host_lookup_of(const lk_calibration_row *row, lk_host_lookup *out);
/* The first number that a row lacks; NULL: none. */
const char *lk_host_lookup_missing(const lk_calibration_row *row);
void lk_host_lookup_put(const lk_host_lookup *lookup, lk_calibration_row *row);

/* What a step of a rank touches: forward of all its tables, then backward of all. Between a row's
 * use in one batch and the next, all of that passes through the caches, whichever table it belongs
 * to. */
typedef struct lk_host_share {
	double bytes;        /* rows and states, sums and gradients, indices */
	double sorted_bytes; /* pairs of the table with most lookups: all are sorted in the same
	                      * buffer */
	double page_bytes;   /* of the pages that hold rows */
	double samples;      /* samples with their lengths */
} lk_host_share;

/* Add lookup->tables equal tables to the share. */
void lk_host_share_add(lk_host_share *share, const lk_lookup *lookup);
/* The share of one of `ranks` equal ranks. */
lk_host_share lk_host_share_of(const lk_host_share *all, int ranks);

/* Seconds of the lookups of lookup->tables equal tables, forward or backward, within a share that
 * includes them. */
double lk_host_lookup_seconds(const lk_host_lookup *host, const lk_lookup *lookup,
                              const lk_host_share *share);

/* ---- the same in three stages, for fits over many times with few laws ---- */

/* Lookups of one table by the bytes that a thread touched since its last use of the row: a third of
 * an octave each. */
enum { LK_HOST_BINS = 96 };
typedef struct lk_host_uses {
	double lookups, rows;      /* of all threads; distinct rows */
	double pages, entries;     /* pages that hold them; page-table lines with their entries */
	double fresh, state_lines; /* share of a first use's lines not yet fetched for another row;
	                              lines of their states */
	double crowd;              /* share of first uses among the lookups around one */
	double first,
		of_others; /* uses after a whole step; a thread's first use of a row used by others */
	double later[LK_HOST_BINS];
} lk_host_uses;

/* Where things are found: lookups per level, and the shares of a step's bytes and of reused
 * gradients. */
typedef struct lk_host_found {
	double lookups[LK_HOST_LEVELS], step[LK_HOST_LEVELS], sums[LK_HOST_LEVELS],
		again[LK_HOST_LEVELS], pairs[LK_HOST_LEVELS];
	double unexpected;       /* share of samples whose lengths the processor mispredicts */
	double lost, lost_again; /* share of pages lost since the last step; since this step's last
	                            use */
} lk_host_found;

void lk_host_lookup_uses(const lk_lookup *lookup, int threads, lk_host_uses *out);
void lk_host_lookup_find(const lk_host_lookup *host, const lk_lookup *lookup,
                         const lk_host_uses *uses, const lk_host_share *share, lk_host_found *out);
double lk_host_lookup_seconds_of(const lk_host_lookup *host, const lk_lookup *lookup,
                                 const lk_host_uses *uses, const lk_host_found *found);

#endif
