/* lift_works.h: execution traces, which have no times, as a step graph: what the device does is left to the models of
 * cost/, by the shapes of operations; what the host spends is taken from stored overheads (T1 to T5). Traces that have
 * durations (Chakra's) keep them. */
#ifndef LK_TRACE_LIFT_WORKS_H
#define LK_TRACE_LIFT_WORKS_H

#include "trace/lift/overheads.h"
#include "trace/capture/works.h"

/* Operations of one name that launch work on the device for which no model is known. */
typedef struct lk_unpriced {
	const char *name;
	uint32_t count;
} lk_unpriced;

typedef struct lk_works_lifted {
	uint32_t priced;         /* operations whose shapes a model covers, collectives included */
	uint32_t timed;          /* that have a duration in the trace */
	uint32_t nothing;        /* that launch nothing: views, allocations, containers without parts */
	uint32_t hosts;          /* that work in host memory */
	uint32_t unpriced;       /* that no model covers: they stream their tensors once, which is the least they can do */
	LK_VEC(lk_unpriced) names; /* of these, most frequent first */
	uint32_t dropped;        /* control dependencies that contradict the data dependencies */
	uint32_t host_times;     /* looked up in the overheads */
	uint32_t strange_overheads; /* host times that were means over all names, for the name is not stored */
	lk_arena arena;
} lk_works_lifted;

/* One trace a rank, in order of ranks; `overheads` NULL: the host takes no time. The graph is traced: a program is a
 * rank, with one block, chains is 1. Process groups are teams. Threads hand over to one another: ids tell in which
 * order works began, and one that begins on another thread waits for the one before. */
lk_status lk_works_lift(const lk_works *const *works, uint32_t count, const lk_overheads *overheads, lk_graph **out,
                        lk_works_lifted *report, lk_error *err);
/* Whether work of the device has durations, so that no models are needed. A trace may have those of the host alone. */
bool lk_works_device_timed(const lk_works *works);
void lk_works_lifted_free(lk_works_lifted *report);

#endif
