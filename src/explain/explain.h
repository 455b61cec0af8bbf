/* explain.h: the inside of an explanation, for the view of its events and for those who add to it.
 */
#ifndef LK_EXPLAIN_EXPLAIN_H
#define LK_EXPLAIN_EXPLAIN_H

#include "base/intervals.h"
#include "hw/hw.h"
#include "lockstep/explain.h"
#include "trace/align/traces.h"
#include "trace/lift/lift.h"

/* The traces of an explanation, which owns them. */
const lk_traces *lk_explain_traces(const lk_explanation *explanation);
/* From traces that were read already; they belong to the explanation from then on, also on errors.
 */
lk_status lk_explain_make(lk_traces *traces, const lk_explain_request *request,
                          lk_explanation **out, lk_error *err);

/* What is read of traces for this request. */
lk_read_limits lk_explain_limits(const lk_explain_request *request);
/* lk_explain of files that were read with these limits; they are freed in any case. */
lk_status lk_explain_files(lk_trace_files *files, const lk_explain_request *request,
                           lk_explanation **out, lk_error *err);

/* Finds the critical path of a typical step and what the remedies are worth there, by lifting it to
 * a step graph. What cannot be lifted is left without. */
lk_status lk_explain_simulate(lk_explanation *explanation, lk_error *err);
/* For those who simulate: what the remedy of a stall is worth, and the path that the step's time
 * hangs on (copied). */
void lk_explain_set_gain(lk_explanation *explanation, int stall, double gain_s, const char *change);
/* `most_s`, of a stall without a simulated gain: the most that its remedy can gain. */
void lk_explain_set_most(lk_explanation *explanation, int stall, double most_s);
lk_status lk_explain_set_path(lk_explanation *explanation, const lk_critical_path *path,
                              lk_error *err);
lk_status lk_explain_add_warning(lk_explanation *explanation, lk_error *err, const char *fmt, ...)
	LK_PRINTF(3, 4);

/* ---- explain_parts: what the files of explain share: the work on one rank, and sets of times with
 * fast look-up. */

/* ---- sets of times (explain_times.c) ---- */

/* Disjoint intervals in order, and how much of them lies before each. */
typedef struct lk_times {
	lk_intervals set;
	int64_t *before;
} lk_times;

/* Appends [start, end), whose start is not before that of the one before; joins what touches.
 * False: out of memory. */
bool lk_times_append(lk_intervals *set, int64_t start, int64_t end);
/* Fills `before`; lk_times_between needs it. */
bool lk_times_index(lk_times *times);
/* How much of the set lies in [start, end); 0 for end <= start. O(log n). */
int64_t lk_times_between(const lk_times *times, int64_t start, int64_t end);
int64_t lk_times_length(const lk_times *times);
void lk_times_free(lk_times *times);

/* Something to be put in order. */
typedef struct lk_timed {
	uint64_t key;
	uint32_t item;
} lk_timed;
typedef LK_VEC(lk_timed) lk_timed_list;
/* Appends where lk_reserve has made room. */
static inline void lk_timed_put(lk_timed_list *list, uint64_t key, uint32_t item) {
	list->at[list->count++] = (lk_timed){key, item};
}
/* By key, stable, in linear time. False: out of memory. */
bool lk_timed_sort(lk_timed *at, size_t count);

/* Events in some order: a quarter of the room of a list that keeps what it was sorted by. */
typedef LK_VEC(uint32_t) lk_events;
/* The items of a list, which is freed in any case. False: out of memory. */
bool lk_timed_events(lk_timed_list *list, lk_events *out);

/* What is known of `count` ascending durations. */
lk_explain_stats lk_stats_of(const lk_timed *ascending, size_t count);

/* ---- names (explain_names.c) ---- */

/* What a name tells; found once per name. */
enum {
	LK_NAME_KNOWN = 1,
	LK_NAME_COMM = 2,       /* a communication kernel */
	LK_NAME_WAITS = 4,      /* a call that waits for the device */
	LK_NAME_LOADS = 8,      /* enumerate(DataLoader)#... */
	LK_NAME_STEP = 16,      /* ProfilerStep#N */
	LK_NAME_TO_DEVICE = 32, /* a copy from host to device */
	LK_NAME_HOST_COMM = 64, /* gloo:all_reduce: communication on the host */
};

typedef struct lk_rank_work lk_rank_work;
unsigned lk_name_class(lk_rank_work *work, uint32_t name);

/* ---- one rank (explain_rank.c and others) ---- */

/* One communication kernel, or operation of hosts. */
typedef struct lk_rank_comm {
	uint32_t event;
	int64_t exposed_ns;      /* what it alone is to blame for */
	int64_t exposed_wait_ns; /* ... before the last rank arrived */
	int64_t last_ns;       /* the last rank's arrival on this rank's clock; INT64_MIN not matched */
	uint32_t last_capture; /* whose it is */
} lk_rank_comm;

/* Where in the program something is lost: the names with the most of it, the worst first; interned,
 * 0 none. */
enum { LK_PLACES = 3 };
typedef struct lk_rank_places {
	uint32_t name[LK_PLACES];
	int64_t ns[LK_PLACES];
} lk_rank_places;

/* Gaps of the device, and the annotations and outermost operations around the calls that are to
 * blame. */
typedef struct lk_rank_blame {
	uint64_t gaps;
	lk_rank_places notes, ops;
} lk_rank_blame;

/* Gaps that follow one another for the same reason (explain_stretch.c). */
enum { LK_STRETCH_LAUNCH, LK_STRETCH_SYNC, LK_STRETCH_DATA, LK_STRETCH_CAUSES };
typedef struct lk_stretch {
	int64_t start, end, lost_ns, longest;
	uint64_t gaps;     /* 0: none is open */
	uint32_t note, op; /* around the calls that end the gaps: annotation of all, operation of the
	                      longest; 0 none */
} lk_stretch;

/* The last of the captured ranks that came to a collective, and when, in common time. */
typedef struct lk_arrival {
	int64_t last_ns;
	uint32_t capture;
} lk_arrival;
/* Of every match, in the arena; NULL: out of memory. */
lk_arrival *lk_arrivals_find(lk_arena *arena, const lk_traces *traces);

struct lk_rank_work {
	const lk_traces *traces;
	const lk_arrival *arrival; /* [matches] */
	uint32_t index;
	const lk_capture *capture;
	bool shown; /* false: measured for the sake of others, not requested */
	uint8_t *name_class;
	lk_capture_steps steps;        /* that are looked at */
	int64_t first_step, last_step; /* of the trace, cut off or not; last below first: --steps */
	bool annotated;                /* there are steps */
	bool repeated;    /* no annotation marks them: they follow from the optimizer's work */
	lk_times windows; /* they */
	lk_times compute, communication, memory; /* unions within the windows ... */
	lk_times exposed, exposed_memory, idle;
	lk_times loading;           /* the data loader's annotations ... */
	lk_timed_list waits;        /* calls that wait for the device, by start; ... all these are
	                               freed when the rank is explained */
	lk_events device;           /* device events that touch the windows, by start */
	LK_VEC(lk_rank_comm) comms; /* by start */
	bool host_comms;            /* they are operations of hosts */
	lk_events durations;        /* kernels (or operations) that begin in the windows: by name, then
	                               duration; freed when the kernels of all ranks are joined */
	lk_explain_rank result;
	LK_VEC(lk_explain_step) step_rows;
	LK_VEC(lk_explain_idle) idle_rows;
	LK_VEC(lk_explain_queue) queue_rows;
	lk_stretch open[LK_STRETCH_CAUSES];
	LK_VEC(lk_explain_stretch) stretches;
	lk_explain_launch launch;
	lk_rank_blame sync, late; /* of idle_sync_ns and idle_host_ns */
	uint64_t sync_calls;
};

/* Everything about one rank; needs nothing of another but its place in the traces, so that ranks
 * can be worked on in parallel. Free in any case. */
lk_status lk_rank_explain(lk_rank_work *work, const lk_traces *traces, const lk_arrival *arrival,
                          uint32_t index, const lk_explain_request *request, lk_error *err);
void lk_rank_free(lk_rank_work *work);
/* Its parts, in this order. */
lk_status lk_rank_select(lk_rank_work *work, const char *steps, lk_error *err);
lk_status lk_rank_gaps(lk_rank_work *work, lk_error *err);
lk_status lk_rank_launches(lk_rank_work *work, lk_error *err);
lk_status lk_rank_comms(lk_rank_work *work, lk_error *err);
lk_status lk_rank_durations(lk_rank_work *work, lk_error *err);

/* The outermost annotation and operation around a call, names; 0 none. */
void lk_rank_place(lk_rank_work *work, uint32_t call, uint32_t *note, uint32_t *op);
/* A gap of the device of which `lost` has this cause; gaps come in order. False: out of memory. */
bool lk_stretch_add(lk_rank_work *work, int cause, const lk_interval *gap, int64_t lost,
                    uint32_t call);
bool lk_stretches_end(lk_rank_work *work);
int lk_stretch_order(const void *a, const void *b); /* for lk_sort: the costliest first */

static inline bool lk_in_windows(const lk_rank_work *work, int64_t time) {
	const lk_intervals *set = &work->windows.set;
	if (set->count == 1)
		return time >= set->at[0].start && time < set->at[0].end; /* steps mostly touch */
	return time < INT64_MAX && lk_times_between(&work->windows, time, time + 1) > 0;
}

/* A time of a rank in nanoseconds, summed over the steps looked at: offsetof(lk_explain_rank,
 * compute_ns) and others. */
static inline int64_t lk_rank_time(const lk_explain_rank *rank, size_t at) {
	return *(const int64_t *)(const void *)((const char *)rank + at);
}

/* ---- all ranks ---- */

/* A capture's own time on the run's common clock. */
static inline int64_t lk_common_ns(const lk_traces *traces, uint32_t capture, int64_t own_ns) {
	return lk_traces_time(traces, capture, own_ns);
}

typedef struct lk_explain_work {
	lk_explanation result; /* first: the result is the work */
	lk_arena arena;
	lk_traces *traces;
	lk_rank_work *rank;  /* [count]; NULL once lk_explain_files has made the explanation */
	lk_arrival *arrival; /* [matches] */
	uint32_t count;
	LK_VEC(const char *) warnings;
	LK_VEC(lk_explain_stall) stalls;
} lk_explain_work;

lk_status lk_explain_kernels(lk_explain_work *work, lk_error *err);
lk_status lk_explain_comms(lk_explain_work *work, lk_error *err);
lk_status lk_explain_stalls(lk_explain_work *work, lk_error *err);
/* explain_diagnose.c: diagnosis and actions, from stalls, critical path and gains as they are. */
lk_status lk_explain_diagnose(lk_explain_work *work, lk_error *err);
/* What the hardware allows, compared with what was measured: explain_roofline.c, explain_curves.c.
 */
lk_status lk_explain_hold_against(lk_explain_work *work, const lk_explain_request *request,
                                  lk_error *err);
/* explain_energy.c; of a cluster that may have no GPUs. */
lk_status lk_explain_energy(lk_explain_work *work, const lk_cluster *cluster, const lk_mains *mains,
                            lk_error *err);
bool lk_explain_wants_shapes(const lk_explain_request *request);
lk_status lk_explain_curves(lk_explain_work *work, const lk_cluster *cluster, lk_error *err);
lk_status lk_explain_warn(lk_explain_work *work, lk_error *err, const char *fmt, ...)
	LK_PRINTF(3, 4);

/* ---- critical: the chain of work that a traced step hangs on: from its end back, always to what
 * was over last of all that had to be over. */

/* Where the time of a chain goes, X(symbol, name). */
#define LK_CRITICAL_KINDS(X)                                          \
	X(COMPUTE, "computation")                                         \
	X(COMMUNICATION, "communication: transfer")                       \
	X(PEERS, "communication: waiting, the cause is not in the trace") \
	X(COPY, "copies and fills")                                       \
	X(LAG, "device: waiting, the cause is not in the trace")          \
	X(LAUNCH, "host: launch calls")                                   \
	X(SYNC, "host: returning from synchronisation")                   \
	X(LOADING, "host: data loading")                                  \
	X(OPERATIONS, "host: operations")                                 \
	X(BETWEEN, "host: between operations")                            \
	X(OTHER, "before what was traced")

typedef enum lk_critical_kind {
#define LK_CRITICAL_SYMBOL(symbol, name) LK_CRITICAL_##symbol,
	LK_CRITICAL_KINDS(LK_CRITICAL_SYMBOL) LK_CRITICALS,
#undef LK_CRITICAL_SYMBOL
} lk_critical_kind;
const char *lk_critical_name(lk_critical_kind kind);

typedef struct lk_critical_op {
	uint32_t rank, op;
	int64_t start_ns, end_ns; /* of its part of the chain, in common time */
} lk_critical_op;

typedef struct lk_critical_chain {
	LK_VEC(lk_critical_op) ops; /* in order of time, without gaps */
	double ns[LK_CRITICALS];    /* adds up to the chain's length */
	double length_ns;
	uint32_t hops; /* from rank to rank */
} lk_critical_chain;

/* Ranks begin a step at different times: of a chain that is longer than the step, `most_ns`, the
 * last part of that length is kept. */
lk_status lk_critical_find(const lk_lifted *lifted, int64_t most_ns, lk_critical_chain *out,
                           lk_error *err);
void lk_critical_free(lk_critical_chain *chain);

#endif
