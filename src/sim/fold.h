/* fold.h: what the files of folding share. Private to sim/. */
#ifndef LK_SIM_FOLD_H
#define LK_SIM_FOLD_H

#include "sim/sim.h"

/* Calls of a program that become one operation, found in at least one place; or a part of one call.
 */
typedef struct lk_fold_run {
	uint32_t stage, begin, end; /* calls of the first place */
	uint32_t op_begin, op_end;  /* operations of its one call that are meant; equal: all */
	uint32_t block;             /* of the folded graph, once it is made */
	uint64_t ops;               /* repetitions counted */
} lk_fold_run;

static inline bool lk_fold_is_part(const lk_fold_run *run) {
	return run->op_end > run->op_begin;
}

/* A stretch of a program: a run, or a call that stays. */
typedef struct lk_fold_piece {
	uint32_t stage, begin, end;
	uint32_t run; /* UINT32_MAX: the call stays as it is */
} lk_fold_piece;

typedef LK_VEC(lk_fold_run) lk_fold_runs;
typedef LK_VEC(lk_fold_piece) lk_fold_pieces;

/* fold_runs.c: an operation that meets another stage, uses an event, or lets the host wait for the
 * device. */
bool lk_fold_meets(const lk_graph *graph, uint32_t op);
/* The pieces of all programs, in order, with the end of those of each stage, and the distinct runs
 * among them. */
lk_status lk_fold_find(const lk_graph *graph, lk_fold_runs *runs, lk_fold_pieces *pieces,
                       size_t *ends, lk_error *err);
/* The operations of one of its calls that belong to a run. */
lk_block lk_fold_block(const lk_graph *graph, const lk_fold_run *run, uint32_t call);
/* The streams that a run's first operation, or any one inside, waits for. */
uint32_t lk_fold_join(const lk_graph *graph, const lk_fold_run *run);

/* fold_beside.c: gradients and parameters of data parallelism. */
bool lk_fold_is_traffic(const lk_graph *graph, uint32_t op);
/* Streams on which a message or such traffic may still be under way when a run begins. */
uint32_t lk_fold_foreign(const lk_graph *graph);
/* How often each block is called: in all, and for a micro-batch. */
typedef struct lk_fold_times {
	double *all, *passes;
} lk_fold_times;

/* The mean of the messages and the traffic of passes, by time, so that it does not depend on how
 * many micro-batches there are; of all where passes have none; all zero where there is none at all.
 */
lk_cost lk_fold_beside(const lk_graph *graph, const lk_costs *costs, const lk_fold_times *times);
/* The share of its time that a kernel takes longer beside that. */
double lk_fold_slowed(const lk_cost *kernel, const lk_cost *beside);

/* fold_parts.c: the end of the part of a block that folds, from operation `begin` on; `begin` where
 * none begins. A part ends behind the operation with which it becomes longer than `most_ps`. */
uint32_t lk_fold_part(const lk_graph *graph, const lk_costs *costs, const lk_block *block,
                      uint32_t begin, uint32_t foreign, int64_t most_ps);
/* How long parts are to be. */
int64_t lk_fold_part_most(const lk_graph *graph, const lk_costs *costs);

/* fold_price.c: runs simulated alone. */
typedef struct lk_fold_pricer {
	const lk_graph *graph;
	const lk_costs *costs;
	bool contention;
	lk_arena arena;
	lk_graph view; /* the graph's operations and blocks, with one program of one stage */
	lk_program program;
	lk_block *blocks; /* the view's own, of which one is cut to a part while that is simulated */
	uint32_t *deps;   /* likewise: they count from a block's beginning */
	lk_cost beside;   /* see lk_fold_beside */
	lk_costs
		both; /* costs by lane: of variant v on the device alone (2v), and with its host (2v + 1) */
} lk_fold_pricer;

typedef struct lk_fold_price {
	lk_cost *cost;    /* [variants], of the whole run; the caller's */
	double period_ps; /* of one further repetition of its longest call */
	double flops, bytes;
} lk_fold_price;

lk_status lk_fold_pricer_new(lk_fold_pricer *pricer, const lk_graph *graph, const lk_costs *costs,
                             const lk_fold_times *times, bool contention, lk_error *err);
void lk_fold_pricer_free(lk_fold_pricer *pricer);
/* Fills `price` and appends the run's events of variant 0 to `samples`. */
lk_status lk_fold_price_run(lk_fold_pricer *pricer, const lk_fold_run *run, lk_fold_price *price,
                            lk_sim_events *samples, lk_error *err);

#endif
