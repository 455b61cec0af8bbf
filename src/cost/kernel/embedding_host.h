/* embedding_host.h: pooled lookups on the cores of a processor: how long they take with caches as they were measured. */
#ifndef LK_COST_EMBEDDING_HOST_H
#define LK_COST_EMBEDDING_HOST_H

#include "cost/calibration/calibration.h"
#include "cost/kernel/embedding.h"

/* Where a row is found: the core's own caches, the last cache, memory. */
typedef enum lk_host_level { LK_HOST_NEAR, LK_HOST_LAST, LK_HOST_FAR, LK_HOST_LEVELS } lk_host_level;

/* Adding up or changing a row that is near: the row, each vector of 64 bytes of it, and an end that is no whole vector. */
typedef struct lk_host_work {
	double row_s, vector_s, tail_s;
} lk_host_work;

/* What a row takes more that is not near: the row, its first eight lines, which the kernel fetches ahead, and the others; and
 * waiting for memory, as far as no other row is waited for meanwhile. */
typedef struct lk_host_read {
	double row_s, line_s, rest_s, wait_s;
} lk_host_read;

/* What was measured on a host with bench/lookup; rows of the family "lookup". Times are of one thread while all run. */
typedef struct lk_host_lookup {
	int threads;
	double near_bytes, last_bytes;      /* that a thread's rows may take before they are found a level further */
	double near_slope, last_slope;      /* how sharply: share found further = 1 / (1 + (bytes / distance)^slope) */
	double step_share, sum_share;       /* what a step touches counts so much towards the distance of rows; of sums */
	double span_bytes;                  /* of pages of so many bytes half wait for page tables when they are met again */
	double guesses;                     /* samples whose lengths the processor remembers from step to step: half of so many */
	lk_host_work add, gradient_add, change;
	lk_host_read row[LK_HOST_LEVELS], gradient[LK_HOST_LEVELS], update[LK_HOST_LEVELS]; /* nothing of those near */
	double state_s[LK_HOST_LEVELS];     /* a line of the optimizer's states, which lie apart from their rows */
	double torn_s[LK_HOST_LEVELS];      /* the second line of a short row that lies across two: not fetched ahead */
	double walk_s[LK_HOST_LEVELS], update_walk_s[LK_HOST_LEVELS];
	double sample_s, guess_s;           /* a sample; more if its length comes unexpected */
	double sum_line_s[LK_HOST_LEVELS];  /* each 64 bytes of a pooled sum */
	double shared_s, update_shared_s;   /* a line that another core changed or read last, while its caches hold it */
	double pair_s, pair_sample_s;       /* backward: making pairs of row and sample */
	double sort_s[LK_HOST_LEVELS], pass_s; /* a pair in one pass of sorting by row; the pass itself */
	double call_s;                      /* a table: start and end of the threads' work */
} lk_host_lookup;

/* The numbers of a row of the family "lookup"; false where one is missing, as in rows of older versions. */
bool lk_host_lookup_of(const lk_calibration_row *row, lk_host_lookup *out);
/* The first number that a row lacks; NULL: none. */
const char *lk_host_lookup_missing(const lk_calibration_row *row);
void lk_host_lookup_put(const lk_host_lookup *h, lk_calibration_row *row);

/* What a step of a rank touches: forward of all its tables, then backward of all. From one use of a row to its next, in the
 * next batch, all of that passes through the caches, whichever table it belongs to. */
typedef struct lk_host_share {
	double bytes;            /* of rows and states, sums and gradients, indices */
	double sorted_bytes;     /* pairs of the table with most lookups: all are sorted in the same room */
	double page_bytes;       /* of the pages that rows are on */
	double samples;          /* whose lengths are met */
} lk_host_share;

/* Adds lookup->tables equal tables to the share. */
void lk_host_share_add(lk_host_share *share, const lk_lookup *lookup);
/* The share of one of so many ranks, where each has as much as the others. */
lk_host_share lk_host_share_of(const lk_host_share *all, int ranks);

/* Seconds of the lookups of lookup->tables equal tables, forward or backward, in a share that they are a part of. */
double lk_host_lookup_seconds(const lk_host_lookup *h, const lk_lookup *lookup, const lk_host_share *share);

/* ---- the same in three stages, for fits that ask for many times with few laws ---- */

/* Lookups of one table by the bytes that a thread touched since it used the row last: a third of an octave each. */
enum { LK_HOST_BINS = 96 };
typedef struct lk_host_uses {
	double lookups, rows;               /* of all threads; different rows */
	double pages, entries;              /* that they are on; lines of the page table with these pages' entries */
	double fresh, state_lines;          /* share of a first use's lines that no other row has fetched; lines of their states */
	double crowd;                       /* share of first uses among the lookups around one */
	double first, of_others;            /* uses after a whole step; a thread's first of a row that others have used */
	double later[LK_HOST_BINS];
} lk_host_uses;

/* Where things are found: how many lookups on each level, and the shares of what a step touches and of gradients used again. */
typedef struct lk_host_found {
	double lookups[LK_HOST_LEVELS], step[LK_HOST_LEVELS], sums[LK_HOST_LEVELS], again[LK_HOST_LEVELS], pairs[LK_HOST_LEVELS];
	double unexpected;                  /* share of samples whose lengths the processor does not remember */
	double lost, lost_again;            /* share of pages not remembered since the last step; since this one's last use */
} lk_host_found;

void lk_host_lookup_uses(const lk_lookup *lookup, int threads, lk_host_uses *out);
void lk_host_lookup_find(const lk_host_lookup *h, const lk_lookup *lookup, const lk_host_uses *uses, const lk_host_share *share,
                         lk_host_found *out);
double lk_host_lookup_seconds_of(const lk_host_lookup *h, const lk_lookup *lookup, const lk_host_uses *uses, const lk_host_found *found);

#endif
