/* trace_plan.h: a timeline put in order for the writers of trace formats. */
#ifndef LK_VIEW_TRACE_PLAN_H
#define LK_VIEW_TRACE_PLAN_H

#include <string.h>
#include "base/arena.h"
#include "io/stream.h"
#include "view/timeline/trace.h"

typedef struct lk_trace_process {
	int32_t rank, ranks;
	int64_t pid;      /* the rank; beyond all ranks where a rank has two processes */
	const char *name; /* never empty */
} lk_trace_process;

typedef struct lk_trace_row {
	uint32_t process; /* index */
	int64_t tid;      /* unique in the file and no pid: Perfetto tells threads by tid alone */
	const char *name;
} lk_trace_row;

/* A slice in the order of writing. Within a track spans nest strictly: each ends before the next
 * one that is not inside it starts. */
typedef struct lk_trace_span {
	const lk_slice *slice;
	uint32_t track;
	int64_t start_ps, end_ps;
} lk_trace_span;

typedef struct lk_trace_arrow {
	uint32_t from, to; /* indices of spans */
} lk_trace_arrow;

typedef struct lk_trace_point {
	const lk_counter *counter;
	uint32_t process;
	uint32_t series; /* counts up by (rank, name) */
} lk_trace_point;

typedef struct lk_trace_plan {
	const lk_timeline *timeline;
	lk_arena arena;
	LK_VEC(lk_trace_process) processes; /* by first track, then those that only have counters */
	lk_trace_row *rows;                 /* per track */
	lk_trace_span *spans;               /* by track, start, longest first */
	size_t span_count;
	lk_trace_arrow *arrows; /* by from, to */
	size_t arrow_count;
	/* Span i sends the arrows from out_first[i] up to, not including, out_first[i + 1]; it gets
	 * those that in_arrows lists from in_first[i] up to in_first[i + 1]. All three are NULL without
	 * arrows. */
	uint32_t *out_first, *in_first, *in_arrows;
	lk_trace_point *points; /* by rank, name, time */
	size_t point_count;
	uint32_t series_count;
	int64_t origin_ps; /* time 0 of the file: 0, or the earliest time if that is negative */
} lk_trace_plan;

/* Orders and checks a timeline, which the plan borrows. Overlaps of one picosecond, as rounding
 * makes them, are clipped; larger ones are an error, as is whatever points outside the timeline. */
lk_status lk_trace_plan_make(lk_trace_plan *plan, const lk_timeline *timeline, lk_error *err);
void lk_trace_plan_free(lk_trace_plan *plan);

/* Picoseconds from the origin, and the same in nanoseconds, rounded; both keep the order of times.
 */
uint64_t lk_trace_ps(const lk_trace_plan *plan, int64_t time_ps);
uint64_t lk_trace_ns(const lk_trace_plan *plan, int64_t time_ps);
const char *lk_trace_text(const lk_trace_plan *plan, uint32_t name);

/* What a slice states, by the rows of LK_SLICE_FACTS and then layer and micro-batch. */
enum {
#define LK_TRACE_FACT(name, member, text) LK_TRACE_FACT_##member,
	LK_SLICE_FACTS(LK_TRACE_FACT) LK_TRACE_FACT_layer,
	LK_TRACE_FACT_microbatch,
	LK_TRACE_FACTS
#undef LK_TRACE_FACT
};
extern const char *const lk_trace_fact_names[LK_TRACE_FACTS];
/* Whether a slice states a fact: a number, or a text by its id (else 0). */
bool lk_trace_fact(const lk_slice *slice, int fact, double *number, uint32_t *text);

/* A buffer before a sink. The first failure is kept; what follows it is dropped. */
typedef struct lk_trace_out {
	lk_sink *sink;
	lk_error *err;
	lk_status status;
	size_t used;
	char bytes[1 << 16];
} lk_trace_out;

void lk_trace_flush(lk_trace_out *out);
void lk_trace_put_slowly(lk_trace_out *out, const void *bytes,
                         size_t size); /* what the buffer has no room for */
static inline void lk_trace_put(lk_trace_out *out, const void *bytes, size_t size) {
	if (size > sizeof out->bytes - out->used) {
		lk_trace_put_slowly(out, bytes, size);
		return;
	}
	memcpy(out->bytes + out->used, bytes, size);
	out->used += size;
}

lk_status lk_trace_chrome(const lk_trace_plan *plan, lk_trace_out *out);
lk_status lk_trace_perfetto(const lk_trace_plan *plan, lk_trace_out *out);

#endif
