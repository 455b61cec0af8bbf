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

/* ---- overheads: host time per operation, in the terms T1 to T5 of Lin et al. (arXiv 2404.12674,
 * section on host overheads). Extracted from captures, stored as CSV, used for other traces
 * ("shared overheads").
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
/* Add one observation in microseconds. For T1 the name is "" (or the operation that follows), for
 * T4 the call's. */
lk_status lk_overheads_add(lk_overheads *overheads, int term, const char *name, double us,
                           lk_error *err);
/* The calls that an operation makes itself, separated by ';': keeps the longest list seen. Returns
 * NULL if unknown. */
lk_status lk_overheads_add_calls(lk_overheads *overheads, const char *name, const char *calls,
                                 lk_error *err);
const char *lk_overheads_calls(const lk_overheads *overheads, const char *name);
/* Read CSV with the columns type (t1..t5), name, mean_us, and optionally std_us, count, launches
 * (calls, separated by ';'). Other columns are ignored; rows of one name are averaged, weighted by
 * count. */
lk_status lk_overheads_read(const char *path, lk_overheads **out, lk_error *err);
lk_status lk_overheads_write(const lk_overheads *overheads, const char *path, lk_error *err);

/* Mean of a term for a name, microseconds; includes outliers, because they are part of a sum. For
 * an unknown name: the level of the term, with *known set to false. NAN if the term has no
 * observation at all. */
double lk_overheads_mean(const lk_overheads *overheads, int term, const char *name, bool *known);
/* Level of a term: its mean over all names without outliers (beyond 1.5 interquartile ranges); NAN
 * without observations. */
double lk_overheads_level(const lk_overheads *overheads, int term);

/* ---- host_time: a CPU thread's time, cut into pieces of host overhead: the terms T1 to T5
 * (overheads.c), at every level of nesting. In an operation with nested ones, a child counts as a
 * launch: T2 is the time before the first child or launch, T5 between two, T3 after the last. So
 * all pieces of a thread add up to its time. */

/* The effect of a call on the device. */
typedef enum lk_call_kind {
	LK_CALL_NONE,
	LK_CALL_LAUNCH,      /* starts device work */
	LK_CALL_SYNC,        /* waits for device work: a stream, an event or everything */
	LK_CALL_STREAM_WAIT, /* lets a stream wait for an event */
} lk_call_kind;

typedef struct lk_host_piece {
	uint32_t event; /* T1: the operation that follows, LK_NONE at the end; T4: the call; else the
	                   operation */
	uint32_t name;  /* its interned name */
	uint32_t path;  /* hash of the names of all enclosing events */
	uint8_t term;   /* LK_T1 ... */
	uint8_t call;   /* of a T4: lk_call_kind; else LK_CALL_NONE */
	uint8_t phase;  /* lk_phase */
	bool loading;   /* inside data loading */
	bool blocked;   /* set by the lift: the call waited for room in the launch queue, so dur_ns is
	                   not its own time */
	bool second;    /* the part of a call after its launch */
	uint32_t half;  /* index of that second part; LK_NONE */
	int64_t start_ns, dur_ns;
} lk_host_piece;

typedef LK_VEC(lk_host_piece) lk_host_pieces;

/* The pieces of a thread from `from_ns` to `to_ns`, without gaps: time before the first operation
 * is a T1. Pieces that cross a border are cut there. */
lk_status lk_host_time(const lk_capture *capture, uint32_t lane, int64_t from_ns, int64_t to_ns,
                       lk_host_pieces *out, lk_error *err);

/* Classify a runtime call by its name and whether it launched something. */
lk_call_kind lk_host_call(const lk_capture *capture, uint32_t event);

/* A gap longer than this between two operations of a thread is waiting: ten times the gaps of a
 * busy thread. */
#define LK_GAP_NS 100000

/* What an operation of a lifted program represents. */
typedef enum lk_lifted_kind {
	LK_LIFTED_HOST,    /* pieces of a CPU thread */
	LK_LIFTED_DEVICE,  /* a kernel, copy or memset */
	LK_LIFTED_LAG,     /* the lag of device work, before it on its stream */
	LK_LIFTED_COMM,    /* a communication operation */
	LK_LIFTED_CARRIED, /* device work launched before the step and still running */
	LK_LIFTED_WAIT,    /* a stream waits */
	LK_LIFTED_RELEASE, /* when device work without a launch in the trace starts, as measured */
	LK_LIFTED_PEERS,   /* what the uncaptured ranks do between two collectives with this rank */
	LK_LIFTED_END,     /* the end of the step on its thread */
} lk_lifted_kind;

/* Streams of a lifted program that are no lane of the capture. */
enum { LK_STREAM_PEERS = LK_STREAMS - 2, LK_STREAM_OUTSIDE = LK_STREAMS - 1 };

/* Operation i of the program's block. Times are the capture's own, nanoseconds. */
typedef struct lk_lifted_op {
	uint8_t what;
	uint8_t stream;                  /* of the graph */
	bool peers;                      /* COMM: with ranks that were not captured */
	bool carried;                    /* LAG: of CARRIED */
	uint32_t event;                  /* device work, or the call; LK_NONE */
	uint32_t path;                   /* device work: hash of the operations around its launch */
	uint32_t piece_begin, piece_end; /* HOST: in lk_lifted_rank.pieces; else empty */
	int64_t start_ns, end_ns;        /* as measured; a LAG, from when its work could have begun */
	int64_t met_ns;                  /* COMM: arrival of the last member */
	uint32_t dep_begin, dep_end;     /* in lk_lifted_rank.deps: earlier operations */
} lk_lifted_op;

typedef struct lk_lifted_rank {
	const lk_capture *capture;
	int64_t from_ns, to_ns; /* the lifted stretch, in the capture's time */
	LK_VEC(lk_lifted_op) ops;
	LK_VEC(uint32_t) deps;
	lk_host_pieces pieces;      /* dur_ns: the host's own time, without waiting */
	uint32_t end;               /* the LK_LIFTED_END */
	uint32_t lanes[LK_STREAMS]; /* the capture's lane of each stream; LK_NONE */
	uint32_t streams;           /* bits of those in use ... */
	uint32_t threads;           /* ... and of those that are CPU threads */
	uint32_t dropped_lanes;     /* lanes for which no stream was left */
} lk_lifted_rank;

/* Which communication synchronises with other captured ranks. The uncaptured ranks are one virtual
 * rank that synchronises with this one in every other collective: a collective's transfer takes as
 * long as the shortest similar one, and the rest of its time is waiting for the peers. */
typedef bool lk_lift_matched(const void *context, uint32_t event);
typedef struct lk_lift_stretch {
	int64_t from_ns, to_ns;
	uint32_t mark; /* the annotation of the step, on its thread; LK_NONE */
	bool all;      /* ends with the last event instead of when the main thread reaches to_ns */
	int64_t skip_from_ns,
		skip_to_ns; /* do not learn transfers from here: a step that is to be predicted */
	bool follow; /* peers follow changes of this rank: they arrive a measured time after it, instead
	                of a measured time after their previous arrival */
	lk_lift_matched *matched; /* NULL: none */
	const void *context;
} lk_lift_stretch;
lk_status lk_lift_rank(const lk_capture *capture, const lk_lift_stretch *stretch,
                       lk_lifted_rank *out, lk_error *err);
/* lift_settle.c: compute each operation's own time, once the rank's meetings are known: its time
 * after the end of everything it waits for. Remove dependencies that ended over `slack_ns` after
 * the operation itself. */
lk_status lk_lift_settle(lk_lifted_rank *rank, int64_t slack_ns, lk_error *err);
void lk_lifted_rank_free(lk_lifted_rank *rank);

/* All ranks as a step graph: a program and a block per rank. */
typedef struct lk_lifted {
	lk_graph *graph; /* NULL after lk_lift_ranks */
	const lk_traces *traces;
	lk_lifted_rank *rank; /* [traces->count] */
	uint32_t *first_op;   /* [traces->count] the rank's first operation in the graph */
	int64_t *begin_ps;    /* [traces->count] start of its stretch, after the earliest one */
	LK_VEC(const char *)
	unknown;                    /* kernels of unknown shape, with their counts, most time first */
	double known_ns, device_ns; /* device time of known shape, and in total */
	lk_arena arena;
} lk_lifted;

/* Lift a step. `step` counts the steps of each capture from 0. LK_NONE: from the first step's start
 * to the last one's end; LK_LIFT_DEVICE: from the first to the last device work, ignoring steps.
 * Transfer times are not learned from step `but`, unless it is LK_NONE. */
#define LK_LIFT_DEVICE (LK_NONE - 1)
lk_status lk_lift(const lk_traces *traces, uint32_t step, uint32_t but, lk_lifted **out,
                  lk_error *err);
/* The same for changes to all ranks of a run: uncaptured ranks follow the captured ones. */
lk_status lk_lift_following(const lk_traces *traces, uint32_t step, lk_lifted **out, lk_error *err);
/* As lk_lift, without the graph. */
lk_status lk_lift_ranks(const lk_traces *traces, uint32_t step, uint32_t but, lk_lifted **out,
                        lk_error *err);
void lk_lifted_free(lk_lifted *lifted);
/* Replace the times of operations: `time` gives picoseconds of operation `op` of rank `rank`;
 * negative: keep the measured time. */
typedef int64_t lk_lift_time(const void *context, const lk_lifted *lifted, uint32_t rank,
                             uint32_t op);
void lk_lift_retime(lk_lifted *lifted, lk_lift_time *time, const void *context);

/* ---- lift_kinds: what device work computes: kind, shape, bytes and operations of a kernel. */

/* Which operation's shapes a piece of device work has. Of everything that an operation launches,
 * the longest piece represents its computation; the others (a reduction of split sums, a fill) are
 * only streams of bytes. */
typedef struct lk_work_kinds {
	uint32_t *pair; /* [events] for a kernel: the operation of known shapes that launches it; for
	                   such an operation: its longest kernel, which represents it; LK_NONE */
	uint8_t *named; /* [names of the capture] 1 + the kind of kernels of this name */
	double known_ns, device_ns; /* device time of known shape, and in total */
	LK_VEC(struct lk_unknown_work {
		uint32_t name;
		uint32_t count;
		double ns;
	})
	unknown; /* by time, the most first */
} lk_work_kinds;

/* The kind of computation in a kernel's name; else a pass over memory. */
lk_op_kind lk_kernel_kind(const char *name);
lk_status lk_work_kinds_find(const lk_capture *capture, lk_work_kinds *out, lk_error *err);
void lk_work_kinds_free(lk_work_kinds *kinds);
/* The operation that device work represents; LK_NONE. */
uint32_t lk_work_owner(const lk_work_kinds *kinds, uint32_t event);
/* Fill name, kind, shape, bytes, flops and number format of device work: from the shapes of its
 * owner, else its kind from the kernel's name. */
void lk_work_classify(const lk_capture *capture, const lk_work_kinds *kinds, uint32_t event,
                      lk_op *out);

/* ---- op_shapes: device work of a PyTorch operation, from its name and the shapes and types of its
 * inputs. */

typedef enum lk_shapes_known {
	LK_SHAPES_UNKNOWN, /* no rule for it, or shapes that do not fit the rule: look at its parts, or
	                      count it */
	LK_SHAPES_NOTHING, /* launches nothing: a view, an allocation, a query */
	LK_SHAPES_WORK,    /* `op` holds kind, dtype, shape, flops and bytes */
	LK_SHAPES_SYNC,    /* the same, and the host waits for its result: aten::item */
} lk_shapes_known;

/* Texts are in the form of lk_capture and lk_works: "[[512,13],[13,512],[512]]",
 * "[float,float,float]". `types` may be NULL or "", which counts as float. `outputs`, the shapes of
 * results, may be NULL; a forward convolution needs it, because its stride is not in the shapes.
 * Fills kind, dtype, m, n, k, batch, flops and bytes only. */
lk_shapes_known lk_op_from_shapes(const char *name, const char *dims, const char *types,
                                  const char *outputs, lk_op *out);

/* ---- lift_works: execution traces without times, as a step graph: device time is left to the
 * models of cost/, by the shapes of operations; host time is taken from stored overheads (T1 to
 * T5). Traces with durations (Chakra's) keep them. */

/* Operations of one name that launch device work without a model. */
typedef struct lk_unpriced {
	const char *name;
	uint32_t count;
} lk_unpriced;

typedef struct lk_works_lifted {
	uint32_t priced;   /* operations covered by a model, collectives included */
	uint32_t timed;    /* with a duration in the trace */
	uint32_t nothing;  /* that launch nothing: views, allocations, containers without parts */
	uint32_t hosts;    /* in host memory */
	uint32_t unpriced; /* without a model: they stream their tensors once, a lower bound */
	LK_VEC(lk_unpriced) names;  /* of the unpriced, most frequent first */
	uint32_t dropped;           /* control dependencies that contradict the data dependencies */
	uint32_t host_times;        /* looked up in the overheads */
	uint32_t strange_overheads; /* host times taken as means over all names, because the name is not
	                               stored */
	lk_arena arena;
} lk_works_lifted;

/* Lift one trace per rank, in order of ranks; `overheads` NULL: the host takes no time. The graph
 * is traced: a program per rank, with one block; chains is 1. Process groups are teams. Ids give
 * the order in which works began; a work that begins on another thread waits for the one before. */
lk_status lk_works_lift(const lk_works *const *works, uint32_t count, const lk_overheads *overheads,
                        lk_graph **out, lk_works_lifted *report, lk_error *err);
/* Whether device work has durations, so that no models are needed. A trace may have durations for
 * the host only. */
bool lk_works_device_timed(const lk_works *works);
void lk_works_lifted_free(lk_works_lifted *report);

/* ---- step_times: how long operations of a lifted rank took in other steps or on other ranks.
 * Looked up by operation and its number among equal ones in the step; if the structure differs, by
 * coarser names. */

/* How precisely an operation was found. */
typedef enum lk_known {
	LK_KNOWN_PLACE, /* the same operation, called from the same place, the same time round */
	LK_KNOWN_PATH,  /* the same, another time round */
	LK_KNOWN_NAME,  /* the same operation elsewhere */
	LK_KNOWN_KIND,  /* only its term (T1 to T5), or device work in general */
	LK_KNOWN_NOT,   /* not at all: its own measured time is kept */
	LK_KNOWNS,
} lk_known;

typedef struct lk_step_times lk_step_times;

lk_step_times *lk_step_times_new(void); /* NULL when memory runs out */
void lk_step_times_free(lk_step_times *times);
/* Add all measurements of a lifted rank, as coming from `source`. */
lk_status lk_step_times_add(lk_step_times *times, const lk_lifted_rank *rank, uint32_t source,
                            lk_error *err);

/* Predicted nanoseconds of every operation of `rank`; carried work stays as measured, because it
 * belongs to the step before. `shared`, if not NULL, gives host times instead: the overheads of
 * another run. */
typedef struct lk_retimed {
	int64_t *ns; /* [rank->ops] */
	double host_ns[LK_KNOWNS],
		device_ns[LK_KNOWNS]; /* predicted time by how precisely it was found */
} lk_retimed;
/* Shared overheads: T1 to T5 by name, times the relative speed of this trace's host, by term (1: as
 * stored). Gaps of over LK_GAP_NS are waiting that belongs to the structure: they stay. */
typedef struct lk_shared_overheads {
	const lk_overheads *table;
	double scale[6]; /* by term */
} lk_shared_overheads;

/* Fit the scale of each term so that its mean equals the trace's: five numbers for the host and for
 * what its profiler adds to every event. */
void lk_shared_overheads_fit(const lk_overheads *table, const lk_overheads *own,
                             lk_shared_overheads *out);

/* Predict. `times` NULL: every operation keeps its own time. `source`: times of the same place come
 * from this source if it has them; else, and with LK_NONE, means of all. Times of one source belong
 * together: its delays are correlated. */
lk_status lk_step_times_predict(lk_step_times *times, const lk_lifted_rank *rank,
                                const lk_shared_overheads *shared, uint32_t source, lk_retimed *out,
                                lk_error *err);
/* Predict every operation of a step from the other operations of the same step: each fifth, chosen
 * by a hash, from the other four. */
lk_status lk_step_times_fold(const lk_lifted_rank *rank, lk_retimed *out, lk_error *err);
void lk_retimed_free(lk_retimed *retimed);

/* Add the pieces of a lifted rank to the overheads: a thread's own time, without waiting, gaps, and
 * launches that waited for room in the queue. */
lk_status lk_lifted_overheads(const lk_lifted_rank *rank, lk_overheads *out, lk_error *err);

/* Own measured time of an operation: pieces, lag or work. */
int64_t lk_lifted_own(const lk_lifted_rank *rank, uint32_t op);

#endif
