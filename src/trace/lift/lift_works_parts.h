/* lift_works_parts.h: what the two ways of lifting works share: lift_works.c by shapes, lift_works_timed.c by dependencies. */
#ifndef LK_TRACE_LIFT_WORKS_PARTS_H
#define LK_TRACE_LIFT_WORKS_PARTS_H

#include "trace/lift/lift_works.h"

typedef struct lk_lifter {
	lk_graph *graph;
	const lk_works *const *works;
	uint32_t count;          /* ranks */
	const lk_overheads *overheads;
	lk_works_lifted *report;
	LK_VEC(uint32_t) unpriced; /* by the graph's names: how often */
	uint32_t **team_of;      /* [rank][its works->comms]: team; of sends and receives their channel, LK_NONE no partner */
	lk_error *err;
	/* of the rank that is being lifted */
	uint32_t rank;
	const lk_works *w;
	LK_VEC(int64_t) threads; /* CPU threads or streams, by their place in stream_of */
	LK_VEC(uint8_t) stream_of;
	uint8_t streams;         /* next free one */
	LK_VEC(uint32_t) deps;   /* of the operation that is being put together */
} lk_lifter;

/* The graph's stream of a CPU thread, or of a stream of the device; the last one serves those beyond the limit. */
bool lk_lift_stream(lk_lifter *l, bool device, int64_t thread, uint8_t *stream);
bool lk_lifter_depend(lk_lifter *l, uint32_t op);
/* Adds with the collected dependencies, which are forgotten. */
uint32_t lk_lifter_add(lk_lifter *l, lk_op *op);
/* The collective, send or receive of a note: kind, team or channel, bytes. False: a message without a partner. */
bool lk_lift_comm(const lk_lifter *l, const lk_work_comm *comm, lk_op *op);
bool lk_lift_unpriced(lk_lifter *l, uint32_t work);

/* Finds the channels of sends and receives, and makes the graph's programs with them. */
lk_status lk_lift_messages(lk_lifter *l);
lk_status lk_lift_by_shapes(lk_lifter *l);
lk_status lk_lift_by_dependencies(lk_lifter *l);

#endif
