/* lift.h: from captures to the step graph: what happened becomes what must happen in which order.
 *
 * Dependencies that are found:
 *   program order   a CPU thread's pieces (host_time.h) follow one another, merged between calls to the device
 *   hand-over       a thread that did nothing for long goes on when another one has come to a point: forward, backward
 *   launch          device work waits for the call that launched it; calls wait while 1022 launches are outstanding
 *   stream order    work of a stream follows the work launched there before
 *   stream wait     cudaStreamWaitEvent: by the profiler's notes, else by what had just been launched and fits the times
 *   host sync       a synchronising call waits for a stream or an event, likewise
 *   rendezvous      matched collectives (traces.h) start when the last member has come and end for all together
 *
 * What is left between the end of all that an operation waits for and its start is its lag: it is kept, as part of the
 * operation. So the graph with the measured times, simulated, gives the measured timeline.
 */
#ifndef LK_TRACE_LIFT_H
#define LK_TRACE_LIFT_H

#include "trace/lift/host_time.h"
#include "trace/align/traces.h"

/* What an operation of a lifted program stands for. */
typedef enum lk_lifted_kind {
	LK_LIFTED_HOST,    /* pieces of a CPU thread */
	LK_LIFTED_DEVICE,  /* a kernel, copy or memset with its lag */
	LK_LIFTED_LAG,     /* the lag of a communication operation, ahead of it */
	LK_LIFTED_COMM,    /* a communication operation */
	LK_LIFTED_CARRIED, /* device work that was launched before the step and not over */
	LK_LIFTED_WAIT,    /* a stream waits */
	LK_LIFTED_RELEASE, /* device work without a launch in the trace starts when it did */
	LK_LIFTED_PEERS,   /* what the ranks that were not captured do between two collectives with this one */
	LK_LIFTED_END,     /* the end of the step on its thread */
} lk_lifted_kind;

/* Streams of a lifted program that stand for no lane. */
enum { LK_STREAM_PEERS = LK_STREAMS - 2, LK_STREAM_OUTSIDE = LK_STREAMS - 1 };

/* Operation i of the program's block. Times are the capture's own, nanoseconds. */
typedef struct lk_lifted_op {
	uint8_t what;
	uint8_t stream;                  /* of the graph */
	bool peers;                      /* COMM: with ranks that were not captured */
	uint32_t event;                  /* device work, or the call; LK_NONE */
	uint32_t path;                   /* device work: hash of what launched it */
	uint32_t piece_begin, piece_end; /* HOST: in lk_lifted_rank.pieces; else empty */
	int64_t start_ns, end_ns;        /* as measured, lag left out */
	int64_t lag_ns;
	int64_t met_ns;                  /* COMM: when all had come */
	uint32_t dep_begin, dep_end;     /* in lk_lifted_rank.deps: earlier operations */
} lk_lifted_op;

typedef struct lk_lifted_rank {
	const lk_capture *capture;
	int64_t from_ns, to_ns;          /* the stretch that was lifted, in the capture's time */
	LK_VEC(lk_lifted_op) ops;
	LK_VEC(uint32_t) deps;
	lk_host_pieces pieces;           /* dur_ns: what is the host's own, waiting left out */
	uint32_t end;                    /* the LK_LIFTED_END */
	uint32_t lanes[LK_STREAMS];      /* the capture's lane of each stream; LK_NONE */
	uint32_t streams;                /* bits of those in use ... */
	uint32_t threads;                /* ... and of those that are CPU threads */
	uint32_t dropped_lanes;          /* lanes that found no stream */
} lk_lifted_rank;

/* Which communication takes part in a rendezvous with other captured ranks. The ranks that were not captured are one virtual
 * rank that meets this one at every other collective: a collective's transfer is the shortest time that one like it took, and
 * what it took longer, the peers came later. */
typedef bool lk_lift_matched(const void *context, uint32_t event);
typedef struct lk_lift_stretch {
	int64_t from_ns, to_ns;
	bool all;                         /* over when everything is, and not when the main thread comes to to_ns */
	int64_t skip_from_ns, skip_to_ns; /* transfers are not learned from here: a step that is to be predicted */
	lk_lift_matched *matched;         /* NULL: none is */
	const void *context;
} lk_lift_stretch;
lk_status lk_lift_rank(const lk_capture *capture, const lk_lift_stretch *stretch, lk_lifted_rank *out, lk_error *err);
void lk_lifted_rank_free(lk_lifted_rank *rank);

/* All ranks as a step graph: a program and a block for each. */
typedef struct lk_lifted {
	lk_graph *graph;                 /* NULL after lk_lift_ranks */
	const lk_traces *traces;
	lk_lifted_rank *rank;            /* [traces->count] */
	uint32_t *first_op;              /* [traces->count] the rank's first operation in the graph */
	int64_t *begin_ps;               /* [traces->count] when its stretch begins, from the earliest one */
	LK_VEC(const char *) unknown;    /* kernels whose shape nothing tells, with how often, most time first */
	double known_ns, device_ns;      /* device time with known shape, and all */
	lk_arena arena;
} lk_lifted;

/* `step` counts the steps of each capture from 0; LK_NONE: everything from the first step's start to the last one's end. How long
 * transfers take is not learned from step `but`, unless that is LK_NONE. */
lk_status lk_lift(const lk_traces *traces, uint32_t step, uint32_t but, lk_lifted **out, lk_error *err);
/* The same without the graph. */
lk_status lk_lift_ranks(const lk_traces *traces, uint32_t step, uint32_t but, lk_lifted **out, lk_error *err);
void lk_lifted_free(lk_lifted *lifted);
/* Writes the times of operations anew: `time` gives picoseconds of operation `op` of rank `rank`; negative: as measured. */
typedef int64_t lk_lift_time(const void *context, const lk_lifted *lifted, uint32_t rank, uint32_t op);
void lk_lift_retime(lk_lifted *lifted, lk_lift_time *time, const void *context);
/* What operation `op` of a rank takes as measured, picoseconds: pieces, or lag and work; a rendezvous: its transfer. */
int64_t lk_lifted_time(const lk_lifted *lifted, uint32_t rank, uint32_t op);

#endif
