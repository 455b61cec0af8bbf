/* embedding_host.h: pooled lookups on the cores of a processor: how long they take with caches as they were measured. */
#ifndef LK_COST_EMBEDDING_HOST_H
#define LK_COST_EMBEDDING_HOST_H

#include "cost/calibration.h"
#include "cost/embedding.h"

/* Where a row is found: the core's own caches, the last cache, memory. */
typedef enum lk_host_level { LK_HOST_NEAR, LK_HOST_LAST, LK_HOST_FAR, LK_HOST_LEVELS } lk_host_level;

/* What was measured on a host with bench/lookup; rows of the family "lookup". Times are of one thread while all run. */
typedef struct lk_host_lookup {
	int threads;
	double near_bytes, last_bytes;      /* that a thread's rows may take before they are found a level further */
	double near_slope, last_slope;      /* how sharply: share found further = 1 / (1 + (bytes / distance)^slope) */
	double row_s[LK_HOST_LEVELS], line_s[LK_HOST_LEVELS];     /* a row read and added: the row, and each 64 bytes of it */
	double update_row_s[LK_HOST_LEVELS], update_line_s[LK_HOST_LEVELS]; /* a row changed, and its state */
	double sample_s, sample_line_s[LK_HOST_LEVELS];           /* a pooled sum, and each 64 bytes of it */
	double shared_s, update_shared_s;   /* a line that another core changed or read last, while its caches hold it */
	double span_bytes, span_s;          /* of tables of so many bytes half the rows take so much longer: page tables */
	double sort_s, pass_s;              /* backward: a lookup in one pass of sorting by row; the pass itself */
	double sample_backward_s;           /* a gradient */
	double call_s;                      /* a table: start and end of the threads' work */
} lk_host_lookup;

/* The numbers of a row of the family "lookup"; false where one is missing. */
bool lk_host_lookup_of(const lk_calibration_row *row, lk_host_lookup *out);
void lk_host_lookup_put(const lk_host_lookup *h, lk_calibration_row *row);

/* Seconds of the lookups of lookup->tables equal tables, forward or backward. `between`: bytes that all threads touch from
 * one use of the tables to the next. */
double lk_host_lookup_seconds(const lk_host_lookup *h, const lk_lookup *lookup, double between);

/* Bytes that a step's forward and backward touch of a table: rows and states, sums and gradients, indices and what sorts
 * them. */
double lk_host_lookup_touched(const lk_lookup *lookup);

#endif
