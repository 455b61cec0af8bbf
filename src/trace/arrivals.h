/* arrivals.h: who is late. Wall time per rank cannot show a straggler, for whoever comes early waits inside the
 * collective: all take as long. What shows it is who arrives last. */
#ifndef LK_TRACE_ARRIVALS_H
#define LK_TRACE_ARRIVALS_H

#include "trace/traces.h"

/* A rank in the collectives of one group, or of all. Those with two captured ranks or more are counted. */
typedef struct lk_arrival {
	uint32_t group;          /* LK_NONE: all groups together */
	uint32_t capture;
	uint32_t collectives;    /* it took part in */
	uint32_t last;           /* times it was the last to arrive */
	double late_ns;          /* mean time it came after the first one */
	double late_max_ns;
	double caused_ns; /* sum, where it was last, of its time after the last but one: what all would save without it */
	double waited_ns;        /* sum of the time from its arrival to the last one's */
} lk_arrival;

typedef struct lk_arrivals {
	LK_VEC(lk_arrival) all;      /* by capture */
	LK_VEC(lk_arrival) by_group; /* by group, then capture */
	uint32_t collectives;
	double spread_ns, spread_max_ns; /* mean and largest time from first to last arrival */
} lk_arrivals;

lk_status lk_arrivals_count(const lk_traces *traces, lk_arrivals *out, lk_error *err);
void lk_arrivals_free(lk_arrivals *arrivals);

#endif
