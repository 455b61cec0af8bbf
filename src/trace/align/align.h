/* align.h: one clock for all ranks, from the ends of collectives: a collective ends for all its ranks within
 * microseconds (1 to 7 us on eight V100), while starts differ by milliseconds, because who arrives first waits inside
 * the kernel. */
#ifndef LK_TRACE_ALIGN_H
#define LK_TRACE_ALIGN_H

#include "trace/align/match.h"

/* Sets the clocks of the traces, how good they are, and warnings about ranks that nothing ties to the first. */
lk_status lk_traces_align(lk_traces *traces, lk_error *err);

/* How well the rule of barriers predicts: a collective ends on rank r at the latest arrival over all ranks + the
 * transfer. */
typedef struct lk_barrier_error {
	uint32_t ends;           /* that were predicted, one of every rank in every collective */
	uint32_t collectives;
	double median_ns, max_ns; /* |predicted - measured| */
	uint32_t worst_capture, worst_match;
} lk_barrier_error;

/* Arrivals are kernel starts. The transfer is the median over the *other* ranks, and the clocks are fitted without the
 * collective that is predicted (with more than 32 of them, without the thirty-second part that it is in). Collectives
 * with all their captured ranks in step are looked at: of all-reduce, all-gather, reduce-scatter, all-to-all. */
lk_status lk_traces_barrier_error(const lk_traces *traces, lk_barrier_error *out, lk_error *err);

#endif
