/* lift.h: from captures to the step graph: what happened becomes what must happen in which order.
 *
 * Dependencies that are found:
 *   program order   the pieces of a CPU thread (host_time) follow one another; those between two
 *                   calls to the device are merged
 *   hand-over       a thread that was idle for long continues when another one reaches a point:
 *                   forward, backward
 *   launch          device work waits for the call that launched it; a call waits while 1022
 *                   launches are outstanding
 *   stream order    work of a stream follows the work launched there before
 *   stream wait     cudaStreamWaitEvent: by the profiler's notes, else by what had just been
 *                   launched and fits the times
 *   host sync       a synchronising call waits for a stream or an event, found in the same way
 *   rendezvous      matched collectives (traces.h) start when the last member has arrived, and end
 *                   for all members together
 *
 * What is left between the end of all that device work waits for and its start is an operation of
 * its own, the lag: a kernel's own time is its duration. A dependency that the times contradict is
 * none. So the graph with the measured times, simulated, gives the measured timeline.
 */
#ifndef LK_TRACE_LIFT_LIFT_H
#define LK_TRACE_LIFT_LIFT_H

#include <stdbool.h>
#include <stdint.h>

#include "graph/graph.h"
#include "lockstep/error.h"
#include "trace/align/traces.h"
#include "trace/capture/capture.h"
#include "trace/capture/works.h"

/* ---- overheads: what the host spends, by operation: the terms T1 to T5 of Lin et al. (arXiv
 * 2404.12674, section on host overheads). Extracted from captures, stored as CSV, used for other
 * traces ("shared overheads").
 *
 *   T1  between two top-level operations of a thread
 *   T2  from an operation's start to its first launch
 *   T3  from its last launch to its end
 *   T4  a launch call: cudaLaunchKernel
 *   T5  between two launches of an operation; of one that launches nothing, its whole duration */

enum { LK_T1 = 1, LK_T2, LK_T3, LK_T4, LK_T5 };

typedef struct lk_overheads lk_overheads;

lk_overheads *lk_overheads_new(void); /* NULL when memory runs out */
void lk_overheads_free(lk_overheads *overheads);
/* One observation in microseconds. Of T1 the name is "" (or the operation that follows), of T4 the
 * call's. */
lk_status lk_overheads_add(lk_overheads *overheads, int term, const char *name, double us,
                           lk_error *err);
/* The calls that an operation makes itself, separated by ';': the longest list that was seen;
 * NULL. */
lk_status lk_overheads_add_calls(lk_overheads *overheads, const char *name, const char *calls,
                                 lk_error *err);
const char *lk_overheads_calls(const lk_overheads *overheads, const char *name);
/* CSV with the columns type (t1..t5), name, mean_us, and if there std_us, count, launches (calls,
 * separated by ';'); other columns are left alone, rows of one name are averaged by count. */
lk_status lk_overheads_read(const char *path, lk_overheads **out, lk_error *err);
lk_status lk_overheads_write(const lk_overheads *overheads, const char *path, lk_error *err);

/* Mean of a term for a name, microseconds: what is slow now and then is part of a sum. Where the
 * name is not known: the level of the term, and *known is set to false. NAN where the term has no
 * observation at all. */
double lk_overheads_mean(const lk_overheads *overheads, int term, const char *name, bool *known);
/* The level of a term: its mean over all names without outliers (beyond 1.5 interquartile ranges);
 * NAN without observations. */
double lk_overheads_level(const lk_overheads *overheads, int term);

/* ---- host_time: what a CPU thread did, cut into the pieces whose length is host overhead: the
 * terms T1 to T5 (overheads.c), at every level of nesting. Of an operation with others inside, a
 * child counts as a launch does: T2 is the time before the first child or launch, T5 between two,
 * T3 after the last. So all pieces of a thread add up to its time. */

/* What a call means for the device. */
typedef enum lk_call_kind {
	LK_CALL_NONE,
	LK_CALL_LAUNCH,      /* starts work of the device */
	LK_CALL_SYNC,        /* waits for it: a stream, an event or all */
	LK_CALL_STREAM_WAIT, /* lets a stream wait for an event */
} lk_call_kind;

typedef struct lk_host_piece {
	uint32_t event; /* T1: the operation that follows; T4: the call; else the operation. LK_NONE at
	                   the end */
	uint32_t name;  /* its interned name */
	uint32_t path;  /* hash of the names of all that encloses it */
	uint8_t term;   /* LK_T1 ... */
	uint8_t call;   /* of a T4: lk_call_kind; else LK_CALL_NONE */
	uint8_t phase;  /* lk_phase */
	bool loading;   /* inside data loading */
	bool blocked;   /* set by the lift: the call waited for room in the launch queue, so dur_ns says
	                   little */
	bool second;    /* what a call did after its launch: half of the piece ... */
	uint32_t half;  /* ... that has its place here; LK_NONE */
	int64_t start_ns, dur_ns;
} lk_host_piece;

typedef LK_VEC(lk_host_piece) lk_host_pieces;

/* The pieces of a thread from `from_ns` to `to_ns`, without gaps: time before the first operation
 * is a T1. A piece that crosses a border is cut there. */
lk_status lk_host_time(const lk_capture *capture, uint32_t lane, int64_t from_ns, int64_t to_ns,
                       lk_host_pieces *out, lk_error *err);

/* What a runtime call is, by name and by whether it launched something. */
lk_call_kind lk_host_call(const lk_capture *capture, uint32_t event);

/* A thread that does nothing for longer between two operations is waiting: ten times what lies
 * between those of a busy one. */
#define LK_GAP_NS 100000

/* What an operation of a lifted program represents. */
typedef enum lk_lifted_kind {
	LK_LIFTED_HOST,    /* pieces of a CPU thread */
	LK_LIFTED_DEVICE,  /* a kernel, copy or memset */
	LK_LIFTED_LAG,     /* the lag of device work, ahead of it on its stream */
	LK_LIFTED_COMM,    /* a communication operation */
	LK_LIFTED_CARRIED, /* device work that was launched before the step and not over */
	LK_LIFTED_WAIT,    /* a stream waits */
	LK_LIFTED_RELEASE, /* device work without a launch in the trace starts when it did */
	LK_LIFTED_PEERS,   /* what the ranks that were not captured do between two collectives with this
	                      one */
	LK_LIFTED_END,     /* the end of the step on its thread */
} lk_lifted_kind;

/* Streams of a lifted program that represent no lane. */
enum { LK_STREAM_PEERS = LK_STREAMS - 2, LK_STREAM_OUTSIDE = LK_STREAMS - 1 };

/* Operation i of the program's block. Times are the capture's own, nanoseconds. */
typedef struct lk_lifted_op {
	uint8_t what;
	uint8_t stream;                  /* of the graph */
	bool peers;                      /* COMM: with ranks that were not captured */
	bool carried;                    /* LAG: of CARRIED */
	uint32_t event;                  /* device work, or the call; LK_NONE */
	uint32_t path;                   /* device work: hash of what launched it */
	uint32_t piece_begin, piece_end; /* HOST: in lk_lifted_rank.pieces; else empty */
	int64_t start_ns, end_ns;        /* as measured; a LAG, from when its work could have begun */
	int64_t met_ns;                  /* COMM: when all had come */
	uint32_t dep_begin, dep_end;     /* in lk_lifted_rank.deps: earlier operations */
} lk_lifted_op;

typedef struct lk_lifted_rank {
	const lk_capture *capture;
	int64_t from_ns, to_ns; /* the stretch that was lifted, in the capture's time */
	LK_VEC(lk_lifted_op) ops;
	LK_VEC(uint32_t) deps;
	lk_host_pieces pieces;      /* dur_ns: what is the host's own, waiting left out */
	uint32_t end;               /* the LK_LIFTED_END */
	uint32_t lanes[LK_STREAMS]; /* the capture's lane of each stream; LK_NONE */
	uint32_t streams;           /* bits of those in use ... */
	uint32_t threads;           /* ... and of those that are CPU threads */
	uint32_t dropped_lanes;     /* lanes that found no stream */
} lk_lifted_rank;

/* Which communication takes part in a rendezvous with other captured ranks. The ranks that were not
 * captured are one virtual rank that synchronises with this one in every other collective: a
 * collective's transfer is the shortest time that one like it took, and what it took longer, the
 * peers came later. */
typedef bool lk_lift_matched(const void *context, uint32_t event);
typedef struct lk_lift_stretch {
	int64_t from_ns, to_ns;
	uint32_t mark; /* what marks it: an annotation on the thread that it is a step of; LK_NONE */
	bool all;      /* over when everything is, and not when the main thread comes to to_ns */
	int64_t skip_from_ns,
		skip_to_ns; /* transfers are not learned from here: a step that is to be predicted */
	bool follow; /* peers change with this rank: they arrive a measured time after it does, and not
	              * at a measured time after their arrival before */
	lk_lift_matched *matched; /* NULL: none is */
	const void *context;
} lk_lift_stretch;
lk_status lk_lift_rank(const lk_capture *capture, const lk_lift_stretch *stretch,
                       lk_lifted_rank *out, lk_error *err);
/* lift_settle.c: gives every operation of a lifted rank, whose meetings are known, the time that is
 * its own: what it took from the end of all that it waits for. A dependency that ended over
 * `slack_ns` after the operation itself is removed. */
lk_status lk_lift_settle(lk_lifted_rank *rank, int64_t slack_ns, lk_error *err);
void lk_lifted_rank_free(lk_lifted_rank *rank);

/* All ranks as a step graph: a program and a block for each. */
typedef struct lk_lifted {
	lk_graph *graph; /* NULL after lk_lift_ranks */
	const lk_traces *traces;
	lk_lifted_rank *rank; /* [traces->count] */
	uint32_t *first_op;   /* [traces->count] the rank's first operation in the graph */
	int64_t *begin_ps;    /* [traces->count] when its stretch begins, from the earliest one */
	LK_VEC(const char *)
	unknown; /* kernels whose shape nothing tells, with how often, most time first */
	double known_ns, device_ns; /* device time with known shape, and all */
	lk_arena arena;
} lk_lifted;

/* `step` counts the steps of each capture from 0; LK_NONE: everything from the first step's start
 * to the last one's end; LK_LIFT_DEVICE: from the first to the last work of the device, steps or
 * not. How long transfers take is not learned from step `but`, unless that is
 * LK_NONE. */
#define LK_LIFT_DEVICE (LK_NONE - 1)
lk_status lk_lift(const lk_traces *traces, uint32_t step, uint32_t but, lk_lifted **out,
                  lk_error *err);
/* The same for changes of a run, which are made on all ranks: those that were not captured follow
 * the captured ones. */
lk_status lk_lift_following(const lk_traces *traces, uint32_t step, lk_lifted **out, lk_error *err);
/* As lk_lift, without the graph. */
lk_status lk_lift_ranks(const lk_traces *traces, uint32_t step, uint32_t but, lk_lifted **out,
                        lk_error *err);
void lk_lifted_free(lk_lifted *lifted);
/* Writes the times of operations anew: `time` gives picoseconds of operation `op` of rank `rank`;
 * negative: as measured. */
typedef int64_t lk_lift_time(const void *context, const lk_lifted *lifted, uint32_t rank,
                             uint32_t op);
void lk_lift_retime(lk_lifted *lifted, lk_lift_time *time, const void *context);
/* What operation `op` of a rank takes as measured, picoseconds: pieces, or work; a rendezvous: its
 * transfer. */
int64_t lk_lifted_time(const lk_lifted *lifted, uint32_t rank, uint32_t op);

/* ---- lift_kinds: what a piece of device work computes: kind, shape, bytes and operations of a
 * kernel. */

/* Which operation's shapes a piece of device work carries. Of all that an operation launches, the
 * longest piece represents what the operation computes; the others (a reduction of split sums, a
 * fill) are only streams of bytes. */
typedef struct lk_work_kinds {
	uint32_t *pair; /* [events] of a kernel: the operation of known shapes that launches it; of such
	                   an operation: the longest of its kernels, which represents it; LK_NONE */
	uint8_t *named; /* [names of the capture] 1 + the kind of kernels of this name */
	double known_ns, device_ns; /* device time whose shape is known, and all */
	LK_VEC(struct lk_unknown_work {
		uint32_t name;
		uint32_t count;
		double ns;
	})
	unknown; /* by time, the most first */
} lk_work_kinds;

/* What a kernel that computes does, as far as its name says: else a pass over memory. */
lk_op_kind lk_kernel_kind(const char *name);
lk_status lk_work_kinds_find(const lk_capture *capture, lk_work_kinds *out, lk_error *err);
void lk_work_kinds_free(lk_work_kinds *kinds);
/* The operation that a piece of device work represents; LK_NONE. */
uint32_t lk_work_owner(const lk_work_kinds *kinds, uint32_t event);
/* Fills name, kind, shape, bytes, flops and number format of device work: by the shapes of its
 * owner, else its kind from the kernel's name. */
void lk_work_classify(const lk_capture *capture, const lk_work_kinds *kinds, uint32_t event,
                      lk_op *out);

/* ---- op_shapes: what an operation of PyTorch asks of a device, from its name and the shapes and
 * types of its inputs. */

typedef enum lk_shapes_known {
	LK_SHAPES_UNKNOWN, /* no rule for it, or shapes that the rule does not fit: look at its parts,
	                      or count it */
	LK_SHAPES_NOTHING, /* launches nothing: a view, an allocation, a question */
	LK_SHAPES_WORK,    /* `op` holds kind, dtype, shape, flops and bytes */
	LK_SHAPES_SYNC,    /* the same, and the host waits for its result: aten::item */
} lk_shapes_known;

/* Texts are those of lk_capture and lk_works: "[[512,13],[13,512],[512]]", "[float,float,float]";
 * types may be NULL or
 * "", and then count as float. `outputs`, the shapes of results, may be NULL: a forward convolution
 * is known only with it, because its stride is no part of the shapes. Fills kind, dtype, m, n, k,
 * batch, flops, bytes and nothing else. */
lk_shapes_known lk_op_from_shapes(const char *name, const char *dims, const char *types,
                                  const char *outputs, lk_op *out);

/* ---- lift_works: execution traces, which have no times, as a step graph: what the device does is
 * left to the models of cost/, by the shapes of operations; what the host spends is taken from
 * stored overheads (T1 to T5). Traces that have durations (Chakra's) keep them. */

/* Operations of one name that launch work on the device for which no model is known. */
typedef struct lk_unpriced {
	const char *name;
	uint32_t count;
} lk_unpriced;

typedef struct lk_works_lifted {
	uint32_t priced;   /* operations whose shapes a model covers, collectives included */
	uint32_t timed;    /* that have a duration in the trace */
	uint32_t nothing;  /* that launch nothing: views, allocations, containers without parts */
	uint32_t hosts;    /* that work in host memory */
	uint32_t unpriced; /* that no model covers: they stream their tensors once, which is the least
	                      they can do */
	LK_VEC(lk_unpriced) names;  /* of these, most frequent first */
	uint32_t dropped;           /* control dependencies that contradict the data dependencies */
	uint32_t host_times;        /* looked up in the overheads */
	uint32_t strange_overheads; /* host times that were means over all names, for the name is not
	                               stored */
	lk_arena arena;
} lk_works_lifted;

/* One trace a rank, in order of ranks; `overheads` NULL: the host takes no time. The graph is
 * traced: a program is a rank, with one block, chains is 1. Process groups are teams. Threads hand
 * over to one another: ids tell in which order works began, and one that begins on another thread
 * waits for the one before. */
lk_status lk_works_lift(const lk_works *const *works, uint32_t count, const lk_overheads *overheads,
                        lk_graph **out, lk_works_lifted *report, lk_error *err);
/* Whether work of the device has durations, so that no models are needed. A trace may have those of
 * the host alone. */
bool lk_works_device_timed(const lk_works *works);
void lk_works_lifted_free(lk_works_lifted *report);

/* ---- step_times: how long operations of a lifted rank took in other steps, or on other ranks:
 * looked up by what they are and the how-manieth of their kind they are in the step. Where the
 * structure differs, by coarser names. */

/* How well an operation was known. */
typedef enum lk_known {
	LK_KNOWN_PLACE, /* the same operation, called from the same place, the same time round */
	LK_KNOWN_PATH,  /* the same, another time round */
	LK_KNOWN_NAME,  /* the same operation elsewhere */
	LK_KNOWN_KIND,  /* its term (T1 to T5), or device work as such */
	LK_KNOWN_NOT,   /* nothing: its own measured time is kept */
	LK_KNOWNS,
} lk_known;

typedef struct lk_step_times lk_step_times;

lk_step_times *lk_step_times_new(void); /* NULL when memory runs out */
void lk_step_times_free(lk_step_times *times);
/* Adds everything that a lifted rank measured, as coming from `source`. */
lk_status lk_step_times_add(lk_step_times *times, const lk_lifted_rank *rank, uint32_t source,
                            lk_error *err);

/* Nanoseconds of every operation of `rank`, from what was added; what was carried into the step
 * stays as measured, for it is of the step before. `shared`, if not NULL, gives host times instead:
 * the overheads of another run. */
typedef struct lk_retimed {
	int64_t *ns; /* [rank->ops] */
	double host_ns[LK_KNOWNS],
		device_ns[LK_KNOWNS]; /* how much of the predicted time rests on what */
} lk_retimed;
/* Shared overheads: T1 to T5 by name, times how much faster or slower the host of this trace is,
 * term by term (1: as stored). Gaps of over LK_GAP_NS are waiting that belongs to the structure:
 * they stay. */
typedef struct lk_shared_overheads {
	const lk_overheads *table;
	double scale[6]; /* by term */
} lk_shared_overheads;

/* The scale that makes the mean of each term equal to that of a trace: five numbers for the host,
 * and for what its profiler adds to every event. */
void lk_shared_overheads_fit(const lk_overheads *table, const lk_overheads *own,
                             lk_shared_overheads *out);

/* `times` NULL: every operation by its own time. `source`: times of the same place come from this
 * one where it has them; else, and with LK_NONE, means of all. Times of one source belong together:
 * what was late in it was late all together. */
lk_status lk_step_times_predict(lk_step_times *times, const lk_lifted_rank *rank,
                                const lk_shared_overheads *shared, uint32_t source, lk_retimed *out,
                                lk_error *err);
void lk_retimed_free(lk_retimed *retimed);

/* Adds the pieces of a lifted rank to the overheads: what is a thread's own, waiting left out. So
 * are gaps, and launches that waited for room in the queue. */
lk_status lk_lifted_overheads(const lk_lifted_rank *rank, lk_overheads *out, lk_error *err);

/* Own measured time of an operation: pieces, lag or work. */
int64_t lk_lifted_own(const lk_lifted_rank *rank, uint32_t op);

#endif
