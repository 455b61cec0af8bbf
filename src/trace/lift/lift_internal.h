/* lift_internal.h: shared by the files of the lift. Private to trace/. */
#ifndef LK_TRACE_LIFT_LIFT_INTERNAL_H
#define LK_TRACE_LIFT_LIFT_INTERNAL_H

#include "trace/lift/lift.h"

/* A stretch of a CPU thread that becomes one HOST operation: pieces between two calls, one call, or
 * one long gap. Or device work that no such stretch launches. */
typedef enum lk_run_kind {
	LK_RUN_WORK,
	LK_RUN_CALL,
	LK_RUN_GAP,
	LK_RUN_CARRIED,
	LK_RUN_RELEASE
} lk_run_kind;

typedef struct lk_run {
	int64_t order_ns; /* when it is added to the program */
	int64_t start_ns, end_ns;
	uint32_t begin, end; /* its pieces */
	uint32_t thread;     /* index among the threads */
	uint32_t op;         /* its operation, once it exists */
	uint32_t after;      /* GAP: the run of another thread that ends it; LK_NONE */
	uint32_t event;      /* CARRIED, RELEASE: the device work */
	uint8_t kind;
} lk_run;

typedef struct lk_lift_thread {
	uint32_t lane;
	uint8_t stream;
	uint32_t first_run, end_run; /* in time order, before they are merged */
	uint32_t wait_calls;         /* stream waits since the last launch */
	uint32_t wait_event;         /* the last of them */
	uint32_t last_launch;        /* operation of the device; LK_NONE */
} lk_lift_thread;

/* A device stream while the program is being built. */
typedef struct lk_lift_stream {
	uint32_t last;        /* operation launched there last; LK_NONE */
	int64_t end_ns;       /* its measured end */
	LK_VEC(uint32_t) ops; /* all of them */
} lk_lift_stream;

typedef struct lk_lifting {
	const lk_capture *capture;
	lk_lifted_rank *out;
	const lk_lift_stretch *stretch;
	struct lk_transfers *transfers; /* lift_peers.c */
	LK_VEC(lk_run) runs;
	LK_VEC(lk_lift_thread) threads;
	uint32_t main_lane; /* the thread with step annotations, else the busiest; LK_NONE */
	uint8_t *stream_of; /* [lanes] stream of the graph; LK_STREAMS: none */
	lk_lift_stream stream[LK_STREAMS];
	uint32_t awaited[LK_STREAMS][LK_STREAMS]; /* by stream and other: 1 + the other's operation that
	                                             it last waited for */
	LK_VEC(uint32_t)
	launched;            /* the last device operation of every launch, in the order of calls */
	size_t room;         /* launches that may be outstanding */
	uint32_t *by_launch; /* device events sorted by the call that launched them */
	uint32_t by_launch_count;
	uint32_t outside; /* last RELEASE; LK_NONE */
	int64_t outside_ns;
	int64_t met_ns; /* the peers' last arrival */
	lk_error *err;
} lk_lifting;

/* lift_threads.c: runs of all threads, with hand-overs, in the order in which they become
 * operations. */
lk_status lk_lift_runs(lk_lifting *lifting);

/* lift_outside.c: runs for device work that no thread's run launches. */
lk_status lk_lift_outside(lk_lifting *lifting);

/* lift_waits.c: what a call waits for, or makes a stream wait for. */
/* Tolerance of host and device clocks: an effect may appear this long before its cause. */
#define LK_LIFT_SLACK_NS 3000
/* Add the operations that a synchronising call waits for as dependencies of `op`. */
lk_status lk_lift_sync(lk_lifting *lifting, uint32_t call, const lk_lift_thread *thread,
                       uint32_t op);
/* A thread's gap that ends right after device work waited for it, in a call missing from the trace:
 * add a dependency of `op`. */
lk_status lk_lift_unsaid_sync(lk_lifting *lifting, const lk_run *gap, uint32_t op);
/* The stream's last operation that ended by `time`, among the last few; LK_NONE. */
uint32_t lk_lift_over_by(const lk_lifting *lifting, uint8_t stream, int64_t time);
/* Handle stream waits that precede device work `event` on a stream: add an operation WAIT before it
 * if one is found. */
lk_status lk_lift_stream_waits(lk_lifting *lifting, lk_lift_thread *thread, uint32_t event,
                               uint8_t stream);
/* lift_peers.c: collectives with ranks that were not captured. */
lk_status lk_lift_transfers(lk_lifting *lifting);
void lk_lift_transfers_free(lk_lifting *lifting);
/* Transfer time of a collective, estimated from the shortest of its kind; at most the event's
 * duration. */
int64_t lk_lift_transfer(const lk_lifting *lifting, uint32_t event);

/* lift_program.c: operations are appended, and dependencies belong to the last one; an operation
 * depends only on earlier ones. */
bool lk_lift_communicates(const lk_capture *capture,
                          uint32_t event); /* a kernel of a communication library */
lk_status lk_lift_add(lk_lifting *lifting, const lk_lifted_op *op, uint32_t *place);
lk_status lk_lift_depend(lk_lifting *lifting, uint32_t op,
                         uint32_t on); /* `op` is the last one added */

/* ---- lift_works_parts: shared by the two ways to lift works: lift_works.c by shapes,
 * lift_works_timed.c by dependencies. */

typedef struct lk_lifter {
	lk_graph *graph;
	const lk_works *const *works;
	uint32_t count; /* ranks */
	const lk_overheads *overheads;
	lk_works_lifted *report;
	LK_VEC(uint32_t) unpriced; /* by the graph's names: count */
	uint32_t **team_of; /* [rank][its works->comms]: team; for sends and receives their channel,
	                       LK_NONE without partner */
	lk_error *err;
	/* of the current rank */
	uint32_t rank;
	const lk_works *w;
	LK_VEC(int64_t) threads; /* CPU threads or streams, by their index in stream_of */
	LK_VEC(uint8_t) stream_of;
	uint8_t streams;       /* next free one */
	LK_VEC(uint32_t) deps; /* of the next operation */
} lk_lifter;

/* The graph's stream of a CPU thread or device stream; the last stream serves those beyond the
 * limit. */
bool lk_lift_add_stream(lk_lifter *lifter, bool device, int64_t thread, uint8_t *stream);
bool lk_lifter_depend(lk_lifter *lifter, uint32_t op);
/* Add an operation with the collected dependencies, which are cleared. */
uint32_t lk_lifter_add(lk_lifter *lifter, lk_op *op);
/* Set kind, team or channel, and bytes of a collective, send or receive. False: a message without a
 * partner. */
bool lk_lift_comm(const lk_lifter *lifter, const lk_work_comm *comm, lk_op *op);
bool lk_lift_unpriced(lk_lifter *lifter, uint32_t work);

/* Find the channels of sends and receives, and make the graph's programs with them. */
lk_status lk_lift_messages(lk_lifter *lifter);
lk_status lk_lift_by_shapes(lk_lifter *lifter);
lk_status lk_lift_by_dependencies(lk_lifter *lifter);

#endif
