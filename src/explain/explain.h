/* explain.h: internals of an explanation, for the view of its events and for code that adds to
 * it. */
#ifndef LK_EXPLAIN_EXPLAIN_H
#define LK_EXPLAIN_EXPLAIN_H

#include "base/intervals.h"
#include "hw/hw.h"
#include "lockstep/explain.h"
#include "lockstep/run_log.h"
#include "trace/align/traces.h"
#include "trace/lift/lift.h"

/* The traces of an explanation, which owns them. */
const lk_traces *lk_explain_traces(const lk_explanation *explanation);
/* Explain traces already read; the explanation takes ownership, also on errors. */
lk_status lk_explain_make(lk_traces *traces, const lk_explain_request *request,
                          lk_explanation **out, lk_error *err);

/* Read limits for this request. */
lk_read_limits lk_explain_limits(const lk_explain_request *request);
/* lk_explain for files read with these limits; they are freed in any case. */
lk_status lk_explain_files(lk_trace_files *files, const lk_explain_request *request,
                           lk_explanation **out, lk_error *err);

/* For simulations: set the gain of a stall's remedy, alone and on top of cheaper ones, and the
 * critical path (copied). */
void lk_explain_set_gain(lk_explanation *explanation, int stall, double gain_s, double further_s,
                         const char *change);
/* `most_s`: the most that the remedy of a stall without a simulated gain can gain. */
void lk_explain_set_most(lk_explanation *explanation, int stall, double most_s);
lk_status lk_explain_set_path(lk_explanation *explanation, const lk_critical_path *path,
                              lk_error *err);
/* Set `versus`; `free_owner` frees `owner` with the explanation. */
void lk_explain_attach(lk_explanation *explanation, const struct lk_versus *versus, void *owner,
                       void (*free_owner)(void *owner));
lk_status lk_explain_add_warning(lk_explanation *explanation, lk_error *err, const char *fmt, ...)
	LK_PRINTF(3, 4);

/* ---- explain_parts: shared by the files of explain: the work on one rank, and sets of times with
 * fast look-up. */

/* ---- sets of times (explain_times.c) ---- */

/* Disjoint intervals in order, and their total length before each. */
typedef struct lk_times {
	lk_intervals set;
	int64_t *before;
} lk_times;

/* Append [start, end), whose start is not before the previous one's; adjacent intervals are joined.
 * False: out of memory. */
bool lk_times_append(lk_intervals *set, int64_t start, int64_t end);
/* Fill `before`, which lk_times_between needs. */
bool lk_times_index(lk_times *times);
/* Length of the set within [start, end); 0 for end <= start. O(log n). */
int64_t lk_times_between(const lk_times *times, int64_t start, int64_t end);
int64_t lk_times_length(const lk_times *times);
void lk_times_free(lk_times *times);

/* An item with its sort key. */
typedef struct lk_timed {
	uint64_t key;
	uint32_t item;
} lk_timed;
typedef LK_VEC(lk_timed) lk_timed_list;
/* Append within capacity from lk_reserve. */
static inline void lk_timed_put(lk_timed_list *list, uint64_t key, uint32_t item) {
	list->at[list->count++] = (lk_timed){key, item};
}
/* Sort by key, stable, in linear time. False: out of memory. */
bool lk_timed_sort(lk_timed *at, size_t count);

/* Events in some order: a quarter of the size of a list with sort keys. */
typedef LK_VEC(uint32_t) lk_events;
/* Extract the items of a list, which is freed in any case. False: out of memory. */
bool lk_timed_events(lk_timed_list *list, lk_events *out);

/* Statistics of `count` ascending durations. */
lk_explain_stats lk_stats_of(const lk_timed *ascending, size_t count);

/* ---- names (explain_names.c) ---- */

/* Properties of a name; found once per name. */
enum {
	LK_NAME_KNOWN = 1,
	LK_NAME_COMM = 2,            /* a communication kernel */
	LK_NAME_WAITS = 4,           /* a call that waits for the device */
	LK_NAME_STEP = 8,            /* ProfilerStep#N */
	LK_NAME_TO_DEVICE = 16,      /* a copy from host to device ... */
	LK_NAME_PINNED = 32,         /* ... from memory that the trace calls pinned */
	LK_NAME_PAGEABLE = 64,       /* a copy from or to pageable memory */
	LK_NAME_HOST_COMM = 128,     /* gloo:all_reduce: communication on the host */
	LK_NAME_HOST = 256,          /* the first of the bits of lk_host_work, as many as there are */
	LK_NAME_OPTIMIZER = 1 << 19, /* an optimizer's annotation */
	LK_NAME_SEEN = 1 << 20,      /* device work of this name ended a gap, or came before one */
};

typedef struct lk_rank_work lk_rank_work;
unsigned lk_name_class(lk_rank_work *work, uint32_t name);

/* ---- the host (explain_host.c) ---- */

/* What the host does other than launch, while a device idles. Of two at a time the first counts. */
typedef enum lk_host_cause {
	LK_HOST_LOADING,
	LK_HOST_ONE_OFF,    /* compilation, loading of modules, graph capture, first launch, first
	                       allocation: gone in a warm run */
	LK_HOST_ALLOCATION, /* driver calls for memory in every step */
	LK_HOST_SAVING,     /* of checkpoints */
	LK_HOST_COLLECTING, /* of garbage */
	LK_HOST_PREPARING,  /* of inputs */
	LK_HOST_COMPUTING,  /* in long operations that launch nothing */
	LK_HOST_CAUSES,     /* those that a stall has for its own */
	LK_HOST_AWAITING = LK_HOST_CAUSES, /* results, in the framework: counts as synchronisation */
	LK_HOST_SETS
} lk_host_cause;

/* ---- one rank (explain_rank.c and others) ---- */

/* One communication kernel, or operation of hosts. */
typedef struct lk_rank_comm {
	uint32_t event;
	int64_t exposed_ns;      /* exposed time that it alone causes */
	int64_t exposed_wait_ns; /* ... before the last rank arrived */
	int64_t last_ns;         /* the last rank's arrival on this rank's clock; INT64_MIN: not
	                            matched */
	uint32_t last_capture;   /* of which capture */
} lk_rank_comm;

/* What distinguishes operations; the numbers of a shape from the largest down: a product's
 * gradients are of the same three. */
struct lk_operation_key {
	uint32_t kernel; /* interned; 0 of an operation of known kind */
	uint32_t group;
	uint32_t module; /* a node; 0 outside of modules */
	uint8_t phase, kind;
	double shape[4], bytes;
};

struct lk_rank_operation {
	struct lk_operation_key key;
	uint64_t count;
	double time_ns, own_ns, wait_ns, flops, longest_ns;
	int ranks;
	uint32_t name; /* of the kernels with the most time in one event */
};

/* A node of the tree of modules of a rank (explain_modules.c). */
struct lk_rank_module {
	uint32_t above; /* the node that it is in, whose number is smaller; 0: the outermost */
	uint64_t instances, calls, kernels;
	double time_ns, backward_ns, host_ns; /* own device work, of it gradients; calls */
};

/* Places in the program with most lost time: names, the worst first; interned, 0 none. */
enum { LK_PLACES = 3 };
typedef struct lk_rank_places {
	uint32_t name[LK_PLACES];
	int64_t ns[LK_PLACES];
} lk_rank_places;

/* Gaps of the device, and the annotations and outermost operations around the calls that caused
 * them. */
typedef struct lk_rank_blame {
	uint64_t gaps;
	lk_rank_places notes, ops;
} lk_rank_blame;

/* Consecutive gaps with the same cause (explain_stretch.c). */
enum { LK_STRETCH_LAUNCH, LK_STRETCH_SYNC, LK_STRETCH_HOST };
enum { LK_STRETCH_CAUSES = LK_STRETCH_HOST + LK_HOST_CAUSES };
typedef struct lk_stretch {
	int64_t start, end, lost_ns, longest;
	uint64_t gaps;     /* 0: none is open */
	uint32_t note, op; /* around the calls that end the gaps: annotation of all, operation of the
	                      longest; 0 none */
} lk_stretch;

/* The captured rank that arrived last at a collective, and when, in common time. */
typedef struct lk_arrival {
	int64_t last_ns;
	uint32_t capture;
} lk_arrival;
/* Arrivals of every match, in the arena; NULL: out of memory. */
lk_arrival *lk_arrivals_find(lk_arena *arena, const lk_traces *traces);

struct lk_rank_work {
	const lk_traces *traces;
	const lk_arrival *arrival; /* [matches] */
	uint32_t index;
	const lk_capture *capture;
	bool shown; /* false: measured only for other ranks, not requested */
	uint32_t *name_class;
	lk_capture_steps steps;        /* analysed steps */
	int64_t first_step, last_step; /* of the trace, cut off or not; last below first: --steps */
	bool annotated;                /* there are steps */
	bool repeated;                 /* not annotated: they follow from the optimizer's work */
	lk_times windows;              /* of the steps */
	lk_times compute, communication, memory; /* unions within the windows ... */
	lk_times exposed, exposed_memory, idle;
	lk_timed_list waits; /* calls that wait for the device, by start; ... all of these are freed
	                       after explaining the rank */
	lk_times host[LK_HOST_SETS];              /* disjoint times of the host */
	lk_rank_places host_places[LK_HOST_SETS]; /* names with most time */
	lk_events device;                         /* device events that overlap the windows, by start */
	LK_VEC(lk_rank_comm) comms;               /* by start */
	bool host_comms;                          /* comms are host operations */
	lk_events durations; /* kernels (or operations) that begin in the windows: by name, then
	                               duration; freed after joining all ranks */
	lk_explain_rank result;
	LK_VEC(struct lk_rank_operation) operations; /* explain_operations.c; if requested */
	LK_VEC(struct lk_rank_module) modules; /* explain_modules.c; none where the trace names none */
	lk_intern *module_paths;               /* of them, by number; NULL: none */
	uint32_t *module; /* [events] the node of calls and of what they launch; NULL: none */
	LK_VEC(lk_explain_step) step_rows;
	LK_VEC(lk_explain_idle) idle_rows;
	LK_VEC(lk_explain_queue) queue_rows;
	lk_stretch open[LK_STRETCH_CAUSES];
	LK_VEC(lk_explain_stretch) stretches;
	lk_explain_launch launch;
	lk_rank_blame sync, late; /* of idle_sync_ns and idle_host_ns */
	uint64_t sync_calls;
};

/* Explain one rank; of other ranks it needs only the arrivals, so ranks can be processed in
 * parallel. Free in any case. */
lk_status lk_rank_explain(lk_rank_work *work, const lk_traces *traces, const lk_arrival *arrival,
                          uint32_t index, const lk_explain_request *request, lk_error *err);
void lk_rank_free(lk_rank_work *work);
/* Its parts, in this order. */
lk_status lk_rank_select(lk_rank_work *work, const char *steps, lk_error *err);
lk_status lk_rank_host(lk_rank_work *work, lk_error *err);
lk_status lk_rank_gaps(lk_rank_work *work, lk_error *err);
lk_status lk_rank_launches(lk_rank_work *work, lk_error *err);
lk_status lk_rank_comms(lk_rank_work *work, lk_error *err);
lk_status lk_rank_durations(lk_rank_work *work, lk_error *err);
lk_status lk_rank_modules(lk_rank_work *work, lk_error *err);
lk_status lk_rank_operations(lk_rank_work *work, lk_error *err);

/* The names of the outermost annotation and operation around a call; 0 none. */
void lk_rank_place(lk_rank_work *work, uint32_t call, uint32_t *note, uint32_t *op);
/* Add a gap of the device of which `lost` has this cause; gaps come in order. False: out of
 * memory. */
bool lk_stretch_add(lk_rank_work *work, int cause, const lk_interval *gap, int64_t lost,
                    uint32_t call);
bool lk_stretches_end(lk_rank_work *work);
int lk_stretch_order(const void *a, const void *b); /* for lk_sort: the costliest first */

static inline bool lk_in_windows(const lk_rank_work *work, int64_t time) {
	const lk_intervals *set = &work->windows.set;
	if (set->count == 1)
		return time >= set->at[0].start && time < set->at[0].end; /* steps are mostly adjacent */
	return time < INT64_MAX && lk_times_between(&work->windows, time, time + 1) > 0;
}

/* The rank's idle time for a cause of the host: a row of lk_device_parts. */
static inline int64_t *lk_idle_host(lk_explain_rank *rank, lk_host_cause cause) {
	return (int64_t *)(void *)((char *)rank + lk_device_parts()[LK_BUSY_PARTS + (int)cause].time);
}
/* Idle time of all causes. */
int64_t lk_idle_sum(const lk_explain_rank *rank);

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
	lk_rank_work *rank; /* [count]; NULL once lk_explain_files has made the explanation */
	lk_times (*host)[LK_HOST_SETS]; /* [count] of each rank, for the critical path */
	lk_arrival *arrival;            /* [matches] */
	uint32_t count;
	double tf32_speedup;        /* peak of the device in TF32 over that in fp32; 0: not known */
	bool whole;                 /* --steps all: the traces are one step, whatever they mark */
	lk_explain_module *modules; /* of the result */
	LK_VEC(const char *) warnings;
	LK_VEC(lk_explain_stall) stalls;
	void *versus_owner;
	void (*versus_free)(void *owner);
} lk_explain_work;

lk_status lk_explain_kernels(lk_explain_work *work, lk_error *err);
lk_status lk_explain_comms(lk_explain_work *work, lk_error *err);
lk_status lk_explain_operations(lk_explain_work *work, lk_error *err);
lk_status lk_explain_modules(lk_explain_work *work, lk_error *err);
/* Fill the expected times of modules from those of the operations, seconds per step and rank.
 * LK_ERR_MEMORY. */
lk_status lk_explain_expect(lk_explanation *explanation, const double *expected_s, lk_error *err);
/* The part of the work to which an operation of this lk_op_kind and lk_phase belongs. */
const char *lk_operation_part(unsigned kind, unsigned phase);
/* The phase that operations are counted in: gradients of weights are of the backward pass, as a
 * trace seldom says which product is one. */
const char *lk_operation_phase(unsigned phase);
/* The lk_phase of device work: as the file says, by the names around its launch, else by the kind
 * of work and that of the kernel before it, *last. */
uint8_t lk_event_phase(const lk_capture *capture, uint32_t event, uint8_t *last);
/* The text of a shape or a size. `shape`: three numbers in any order, and a batch. */
const char *lk_operation_shape(lk_arena *arena, const double shape[4], double bytes);
/* Sort rows and join those of the same work; returns how many are left. */
int lk_operations_join(lk_explain_operation *rows, int count);
lk_status lk_explain_stalls(lk_explain_work *work, lk_error *err);

/* ---- explain_gains: what remedies shorten, and gains that add up. */

typedef struct lk_remedy {
	const char *kind, *what; /* of the stall; `what`: its beginning */
	unsigned own, others;    /* parts of the step that it shortens, as bits */
	int effort;              /* cheaper remedies have less */
	const char *set;         /* the change of whatif that simulates it; NULL: none does */
} lk_remedy;

const lk_remedy *lk_explain_remedy(const lk_explain_stall *stall);
/* Whether it is of work done once, which a warm run lacks: no remedy gains it. */
bool lk_explain_is_once(const lk_explain_stall *stall);
/* The most that a remedy can gain a step, seconds: the time of its parts. */
double lk_explain_most(const lk_explanation *explanation, const lk_remedy *remedy);
/* Indices of the stalls by the effort of their remedies. */
void lk_explain_order(const lk_explanation *explanation, int *order);
/* Fill adds_s of all stalls, in this order; of simulated remedies it holds what they gain on top of
 * those before. */
void lk_explain_share(lk_explain_work *work, const int *order);
/* Find the critical path of a typical step and the gains of the remedies there, by lifting it to a
 * step graph. What cannot be lifted is left out. */
lk_status lk_explain_simulate(lk_explain_work *work, lk_error *err);
/* explain_diagnose.c: diagnosis and actions, from the present stalls, critical path and gains. */
lk_status lk_explain_diagnose(lk_explain_work *work, lk_error *err);
/* Compare the measurements with what the hardware allows: explain_roofline.c, explain_curves.c. */
lk_status lk_explain_hold_against(lk_explain_work *work, const lk_explain_request *request,
                                  lk_error *err);
/* explain_energy.c; the cluster may have no GPUs. */
lk_status lk_explain_energy(lk_explain_work *work, const lk_cluster *cluster, const lk_mains *mains,
                            lk_error *err);
bool lk_explain_wants_shapes(const lk_explain_request *request);
lk_status lk_explain_curves(lk_explain_work *work, const lk_cluster *cluster, lk_error *err);
lk_status lk_explain_warn(lk_explain_work *work, lk_error *err, const char *fmt, ...)
	LK_PRINTF(3, 4);

/* ---- critical: the critical path of a traced step: from its end back, always to the predecessor
 * that ended last. */

/* Kinds of time on a path, X(symbol, name). */
#define LK_CRITICAL_KINDS(X)                                          \
	X(COMPUTE, "computation")                                         \
	X(COMMUNICATION, "communication: transfer")                       \
	X(PEERS, "communication: waiting, the cause is not in the trace") \
	X(COPY, "copies and fills")                                       \
	X(LAG, "device: waiting, the cause is not in the trace")          \
	X(LAUNCH, "host: launch calls")                                   \
	X(SYNC, "host: returning from synchronisation")                   \
	X(LOADING, "host: data loading")                                  \
	X(ONE_OFF, "host: work done once")                                \
	X(ALLOCATION, "host: memory of the driver")                       \
	X(SAVING, "host: checkpoints")                                    \
	X(COLLECTING, "host: garbage collection")                         \
	X(PREPARING, "host: inputs")                                      \
	X(COMPUTING, "host: operations without a launch")                 \
	X(AWAITING, "host: waiting for results")                          \
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
	int64_t start_ns, end_ns; /* of its part of the path, in common time */
} lk_critical_op;

typedef struct lk_critical_chain {
	LK_VEC(lk_critical_op) ops; /* in order of time, without gaps */
	double ns[LK_CRITICALS];    /* add up to the path's length */
	double length_ns;
	uint32_t hops; /* changes of rank */
} lk_critical_chain;

/* Find the critical path. Ranks begin a step at different times: if the path is longer than the
 * step, `most_ns`, only its last part of that length is kept. `host`: of each rank, what its host
 * does other than launch; NULL: not known. */
lk_status lk_critical_find(const lk_lifted *lifted, lk_times (*host)[LK_HOST_SETS], int64_t most_ns,
                           lk_critical_chain *out, lk_error *err);
void lk_critical_free(lk_critical_chain *chain);

/* explain_stretches.c: divide the steps of a log where their speed changes; fewer than 40 steps are
 * not divided. */
lk_status lk_log_divide(lk_arena *arena, const double *times, const int64_t *numbers, size_t count,
                        const lk_log_stretch **out, int *stretches, lk_error *err);

#endif
