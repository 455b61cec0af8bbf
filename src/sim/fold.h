/* fold.h: what the files of folding share. Private to sim/. */
#ifndef LK_SIM_FOLD_H
#define LK_SIM_FOLD_H

#include "sim/sim.h"

/* Calls of a program that become one operation, found in at least one place. */
typedef struct lk_fold_run {
	uint32_t stage, begin, end;  /* calls of the first place */
	uint32_t block;              /* of the folded graph, once it is made */
	uint64_t ops;                /* repetitions counted */
} lk_fold_run;

/* A stretch of a program: a run, or a call that stays. */
typedef struct lk_fold_piece {
	uint32_t stage, begin, end;
	uint32_t run;                /* UINT32_MAX: the call stays as it is */
} lk_fold_piece;

typedef LK_VEC(lk_fold_run) lk_fold_runs;
typedef LK_VEC(lk_fold_piece) lk_fold_pieces;

/* fold_runs.c: the pieces of all programs, in order, with the end of those of each stage, and the distinct runs among them. */
lk_status lk_fold_find(const lk_graph *graph, lk_fold_runs *runs, lk_fold_pieces *pieces, size_t *ends, lk_error *err);
/* The streams that a run's first operation, or any one inside, waits for. */
uint32_t lk_fold_join(const lk_graph *graph, const lk_fold_run *run);

/* fold_price.c: runs simulated alone. */
typedef struct lk_fold_pricer {
	const lk_graph *graph;
	const lk_costs *costs;
	bool contention;
	lk_arena arena;
	lk_graph view;               /* the graph's operations and blocks, with one program of one stage */
	lk_program program;
	lk_costs both;               /* costs by lane: of variant v on the device alone (2v), and with its host (2v + 1) */
} lk_fold_pricer;

typedef struct lk_fold_price {
	lk_cost *cost;               /* [variants], of the whole run; the caller's */
	double period_ps;            /* of one further repetition of its longest call */
	double flops, bytes;
} lk_fold_price;

lk_status lk_fold_pricer_new(lk_fold_pricer *pricer, const lk_graph *graph, const lk_costs *costs, bool contention,
							 lk_error *err);
void lk_fold_pricer_free(lk_fold_pricer *pricer);
/* Fills `price` and appends the run's events of variant 0 to `samples`. */
lk_status lk_fold_price_run(lk_fold_pricer *pricer, const lk_fold_run *run, lk_fold_price *price,
							lk_sim_events *samples, lk_error *err);

#endif
