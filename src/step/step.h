/* step.h: one training step, asked: job and cluster in; graph, times, memory and their split out. What predict, validate
 * and every search stand on. */
#ifndef LK_ASK_STEP_H
#define LK_ASK_STEP_H

#include "model/layout/job.h"
#include "sim/breakdown.h"
#include "sim/memory.h"
#include "sim/sim.h"

/* With jitter, jobs of up to so many chains (ranks of a stage) are simulated operation by operation. */
enum { LK_STEP_NOISY_CHAINS = 512 };

/* How to simulate. Zero is the usual: folded, with contention. */
typedef struct lk_step_options {
	bool exact, all_ranks, no_contention;
	double jitter;
	uint64_t seed;
	const lk_straggler *stragglers;
	uint32_t straggler_count;
	const uint32_t *record;      /* more ranks to record than the first of each stage */
	uint32_t record_count;
	bool memory_only;            /* no times: does it fit? */
	int64_t give_up_ps;          /* bare: a step that takes longer need not be simulated to its end; sim.gave_up says so. 0 none */
	bool bare;                   /* for searches: no times where it does not fit; no events, no breakdown */
	lk_cost_cache *cache;        /* NULL: none */
	const lk_constants *constants; /* NULL: the defaults */
} lk_step_options;

/* Memory of a stage as the device sees it, bytes. */
typedef struct lk_stage_use {
	lk_memory walk;
	double low, high;            /* 80 % range of the walk's peak; NAN unknown */
	double reserved, context, nccl, total;
	double usable;               /* of the smallest device that holds ranks of the stage */
} lk_stage_use;

typedef struct lk_step {
	lk_arena arena;
	lk_graph *graph;             /* as built */
	lk_costs costs;
	lk_fold *fold;               /* NULL when exact */
	lk_sim_result sim;
	uint32_t *record;            /* [record_count] ranks in sim.events */
	uint32_t record_count;
	double step_s, simulation_s;
	lk_breakdown breakdown;      /* mean over stages */
	lk_breakdown *stage_time;    /* [stages] */
	lk_stage_use *memory;        /* [stages] */
	int fullest;                 /* stage with the least room left */
	double usable;               /* bytes of its smallest device */
	double executed_flops;       /* of all ranks */
} lk_step;

/* Whether every stage has room. */
static inline bool lk_step_fits(const lk_step *step) { return step->memory[step->fullest].total <= step->usable; }

/* Answers; `out` is to be freed with lk_step_free in every case. */
lk_status lk_step_ask(const lk_job *job, const lk_cluster *cluster, const lk_step_options *options, lk_step *out, lk_error *err);
void lk_step_free(lk_step *step);

/* The part behind graph and costs, which `step` holds: folds, simulates, splits the time. Also for graphs that no job stands
 * behind. */
lk_status lk_step_simulate(const lk_step_options *options, lk_step *step, lk_error *err);
/* The graph that the events of step->sim refer to. */
static inline const lk_graph *lk_step_simulated(const lk_step *step) { return step->fold ? step->fold->graph : step->graph; }

#endif
