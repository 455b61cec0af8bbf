/* sim.h: from a step graph and costs to times. Engines give the same answer if nothing is shared:
 *
 *   sweep.c   precedence only. Programs are evaluated once, all ranks of a stage together as lanes
 *             of vectors: a time is the maximum of an operation's dependencies, plus its duration
 *             (max-plus algebra).
 *   engine.c  contention. Ranks advance in the order of time while something overlaps on them, and
 *             run ahead while nothing does; operations that overlap slow one another (processor
 *             sharing, lk_contention_rates).
 *
 * Lifted traces (lk_graph.traced) run on both: launches are operations, CPU threads are streams
 * that share nothing, and the host times of costs are ignored.
 *
 * Folding: ranks that cannot differ are simulated once (ranks.c, colour refinement); repeated calls
 * become one MACRO operation each (fold.c), a graph -> graph function whose result runs on the same
 * engines. */
#ifndef LK_SIM_SIM_H
#define LK_SIM_SIM_H

#include "base/arena.h"
#include "cost/cost.h"
#include "graph/graph.h"

typedef struct lk_straggler {
	uint32_t rank; /* numbered as by lk_rank_of, here and below */
	double factor; /* factor on its compute durations */
} lk_straggler;

typedef struct lk_sim_options {
	bool contention;
	bool all_ranks; /* the result has every rank, with the times of its class's simulated rank */
	bool apart;     /* simulate every rank, even equal ones, and every period of a steady state: the
	                   reference for tests */
	double jitter;  /* relative deviation of every compute duration; 0: none */
	double gpu_spread; /* relative deviation between ranks: each one's compute has a factor for the
	                    * whole step; 0: none */
	uint64_t seed;
	const lk_straggler *stragglers;
	uint32_t straggler_count;
	const uint32_t *record; /* ranks whose operations are recorded; or one of their class */
	uint32_t record_count;
	int64_t give_up_ps; /* > 0: a longer step need not be simulated to its end */
	bool unsettled;     /* periods of similar steps did not settle: simulate all at once */
	uint32_t left_out;  /* micro-batches missing in the middle of every program: the result is that
	                       of all of them, or `unsettled` and without times */
	bool exactly;       /* its times must follow to the picosecond: see steady.c */
	double leave_lanes; /* for a folded graph: with at most this many lanes, give up when most
	                       folded runs share the device, see lk_sim_result.left */
} lk_sim_options;

/* One operation that ran on a recorded rank. */
typedef struct lk_sim_event {
	uint32_t record;     /* index into the options' record list */
	uint32_t call;       /* of the stage's program */
	uint32_t repetition; /* of the call */
	uint32_t op;         /* of the graph */
	int64_t ready_ps;    /* communication: when this rank arrived; otherwise the start */
	int64_t start_ps, end_ps;
} lk_sim_event;

typedef LK_VEC(lk_sim_event) lk_sim_events;

/* For a step whose programs lack micro-batches: on recorded rank i, the events in [at_ps[i] -
 * shift_ps, at_ps[i]) repeat `times` times from at_ps[i] on, and later events are delayed by as
 * much. The list of events has neither the repetitions nor the delay. */
typedef struct lk_sim_gap {
	size_t times; /* 0: nothing is missing */
	int64_t shift_ps;
	int64_t *at_ps; /* [recorded ranks] */
} lk_sim_gap;

typedef struct lk_sim_result {
	int64_t step_ps;       /* end of the last operation of the last rank */
	int64_t *finish_ps;    /* [stages * classes per stage]: end of each simulated rank's program */
	uint32_t lanes;        /* ranks per stage with times here: chains, or their classes */
	uint32_t *lane_of;     /* [chains] -> lane */
	uint32_t *lane_ranks;  /* [lanes] number of chains that a lane represents */
	uint64_t operations;   /* operations run over all these ranks, with repetitions */
	size_t periods_put_in; /* periods of a steady state that were not simulated: see steady.c */
	lk_sim_gap gap;        /* for a step that lacks micro-batches */
	bool doubtful;    /* the gap shifts by the period of the slowest rank, and others are faster:
	                          right if the step's end grows at that rate */
	bool unsettled;   /* it was first simulated with few periods, and they did not settle */
	int64_t guess_ps; /* unsettled, of a step that lacks micro-batches: what it would take if the
	                     last periods were typical; 0: unknown */
	/* The step takes longer than give_up_ps: step_ps is a lower bound, and there are no ends and no
	 * count of operations. */
	bool gave_up;
	/* For a folded graph, with contention: [calls of all programs, in order] whether a folded run
	 * of that call ran concurrently with something else, and was slowed by its kernels' mean. NULL
	 * if none did: then times equal those of the unfolded graph. */
	bool *shared;
	bool left;            /* gave_up, and `shared` covers a part of the step: see leave_lanes */
	lk_sim_events events; /* in program order per record; free with lk_sim_result_free */
} lk_sim_result;

/* Run one step from time 0 with idle ranks. Fails with LK_ERR_INTERNAL, for a lifted trace with
 * LK_ERR_INPUT, on a deadlock, naming the first operation at which each of two ranks waits; and if
 * any operation did not run. */
lk_status lk_sim_run(const lk_graph *graph, const lk_costs *costs, const lk_sim_options *options,
                     lk_sim_result *out, lk_error *err);
void lk_sim_result_free(lk_sim_result *result);
/* The `count` consecutive events of a record. */
const lk_sim_event *lk_sim_events_of(const lk_sim_events *events, uint32_t record, size_t *count);

/* Rank folding: classes of chains that cannot differ, by colour refinement from what distinguishes
 * ranks (cost variant on each stage, stragglers) through all their groups. *lanes classes;
 * lane_of[chain]; lanes are ordered by their first chain. */
lk_status lk_sim_classes(const lk_graph *graph, const lk_costs *costs,
                         const lk_sim_options *options, lk_arena *arena, uint32_t *lanes,
                         uint32_t **lane_of, uint32_t **lane_ranks, lk_error *err);

/* The source calls that an operation of a folded graph represents, and their stage. */
typedef struct lk_fold_span {
	uint32_t stage, call_begin, call_end; /* an empty range: an unchanged copy of `source_op` */
	uint32_t source_op;
	uint32_t sample_begin, sample_end; /* events of its isolated run, in lk_fold.samples */
} lk_fold_span;

/* A folded graph. Every run of calls without a partner outside its rank class becomes one MACRO
 * operation, simulated alone in its steady state; long repeats are extrapolated from their period.
 * A lifted trace is returned unfolded. */
typedef struct lk_fold {
	lk_graph *graph; /* owns its names; ranks, wires and facts as in the source */
	lk_costs costs;  /* owned by the arena; same variants as the source's */
	lk_arena arena;
	lk_fold_span *span; /* [ops of the folded graph] */
	/* [stage][call of the folded program] -> first call of the source program that it represents */
	uint32_t **source_call;
	lk_sim_events samples; /* from the macro's start on; op and call are of the source graph */
	/* In the run no macro operation shared its device, and all kernels took their own time: a
	 * macro's difference from its isolated run is the host's. */
	bool alone;
} lk_fold;

/* `keep`: [calls of all programs, in order] calls to leave unfolded; NULL: none. */
lk_status lk_sim_fold(const lk_graph *graph, const lk_costs *costs, bool contention,
                      const bool *keep, lk_fold **out, lk_error *err);
void lk_fold_free(lk_fold *fold);

/* One repetition of one call in the isolated run of a macro operation: from its first compute
 * operation to the next call's. Long repeats were simulated short; the window before their last
 * represents the omitted ones too. */
typedef struct lk_fold_window {
	uint32_t call, repetition; /* of the source program */
	int64_t begin_ps, end_ps;  /* in the samples' time */
	int64_t shift_ps;          /* from the samples' time to the time in the whole run */
	double times;              /* repetitions that it represents */
} lk_fold_window;

typedef LK_VEC(lk_fold_window) lk_fold_windows;

/* Append the windows of macro operation `op`, in order; LK_ERR_MEMORY only. */
lk_status lk_fold_windows_of(const lk_graph *source, const lk_fold *fold, uint32_t op,
                             lk_fold_windows *out, lk_error *err);

#endif
