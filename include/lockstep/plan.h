/* plan.h: find the layout to launch with: the fastest ones that fit, for one or several numbers of
 * GPUs.
 *
 *     lk_plan_request request;
 *     lk_plan_defaults(&request);
 *     request.job.model = "llama3.1-70b", request.job.gpu = "h100-sxm", request.gpus = "64,128",
 *         request.job.gbs = 256;
 *     lk_plan *plan;
 *     lk_error err;
 *     if (lk_plan_find(&request, &plan, &err) != LK_OK) ...
 *     plan->counts[0].choices[0].layout ...
 *     lk_plan_free(plan); */
#ifndef LOCKSTEP_PLAN_H
#define LOCKSTEP_PLAN_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include "lockstep/emit.h"
#include "lockstep/error.h"
#include "lockstep/options.h"
#include "lockstep/predict.h"
#include "lockstep/stop.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The objective of the search. */
typedef enum lk_plan_objective {
	LK_PLAN_TIME,  /* the fastest step */
	LK_PLAN_ENERGY /* the least energy per step */
} lk_plan_objective;

/* The request. Texts are borrowed. */
typedef struct lk_plan_request {
	/* The job and everything that is not searched: model, gpu or cluster, seq, dtype, optimizer,
	 * task, stack ...; gbs may be left out for the pretraining of a language model: lk_plan.gbs is
	 * then the assumed batch. Degrees and switches of a layout that are set here are fixed. */
	lk_predict_request job;
	const char *gpus; /* "512,1024"; NULL: job.gpus, or all of the cluster */

	/* Values to search, comma lists; NULL: the defaults (docs/guide/plan.md). */
	const char *tp, *pp, *vp, *cp, *ep, *etp, *mbs;
	const char *schedule;  /* "1f1b,interleaved" */
	const char *zero;      /* "0,1" */
	const char *recompute; /* "none,full,full/4" */
	const char *bucket;    /* MiB */
	const char *stack;     /* software to consider: "megatron,fsdp" */
	bool offload;          /* also consider the optimizer on the host */
	bool fixed_switches;   /* use the defaults of overlap, sequence parallelism and buckets instead
	                        * of searching them */

	int objective;         /* an lk_plan_objective */
	double tokens;         /* of the whole training, for days and GPU-hours */
	const char *headroom;  /* percent of the memory to keep free; NULL: twice the excess of measured
	                        * over predicted peaks */
	double hours;          /* leave out plans that take longer; 0: no limit */
	double gpu_hours;      /* leave out plans that need more; 0: no limit */
	const char *aggregate; /* identical sites that synchronise periodically: "sites=4 wan=10g
	                        * latency=50ms"; with tree, its words; NULL: one site */
	const char *tree;      /* CSV of the nodes of a tree over which clients aggregate; NULL: none */
	int top;               /* layouts shown per number of GPUs; 0: 5 */
	bool
		exhaustive; /* simulate everything, even what bounds rule out. For tests and verification */
	bool no_exact;  /* do not repeat the best ones in full */
	bool no_sensitivity;
	double slowest_s; /* longer steps are useless, so the search may end early (slower); 0: no
	                   * limit */
	double search_s;  /* most seconds; the answer is the best found by then. 0: no limit, 60 for
	                   * lk_post_plan_find */
	int threads;      /* 0: one per core */

	/* Work shared by several processes (lockstep-mpi): see lk_plan_team. NULL: only this
	 * process. */
	const struct lk_plan_team *team;
	lk_search_progress *progress; /* NULL: no progress reports */
	void *progress_context;
} lk_plan_request;

/* Processes that share a list of tasks. `run` computes the results of tasks [0, count) by calling
 * `task` for this process's own, and leaves all of them, `size` bytes each, in `results` on every
 * process. The order and number of calls are the same on every process. */
typedef lk_status lk_plan_task(void *context, size_t task, void *result, lk_error *err);
typedef struct lk_plan_team {
	lk_status (*run)(void *self, size_t count, size_t size, lk_plan_task *task, void *context,
	                 void *results, lk_error *err);
	void *self;
	int threads; /* per process, unless the request sets it */
} lk_plan_team;

/* One layout. */
typedef struct lk_plan_choice {
	const char *layout; /* "tp 8, pp 16, dp 8, micro-batch 1, recompute selective" */
	int gpus, tp, pp, vp, cp, ep, etp, dp, mbs, microbatches, zero;
	const char *schedule, *recompute, *stack;
	bool sequence_parallel, tp_overlap, overlap_grad_reduce, overlap_param_gather, offload;
	double bucket_bytes;
	double step_time_s, step_time_low_s, step_time_high_s;
	double exact_s; /* simulated operation by operation; NAN: not simulated */
	double peak_bytes, usable_bytes;
	double tokens_per_s_per_gpu, mfu;
	double days, gpu_hours; /* 0 without tokens */
	lk_energy energy;
	const lk_time_part *breakdown;
	int breakdown_count;
	const char *
		why_not; /* except for the first: "exposed tensor parallelism +0.41 s, ...; 4.1 % slower" */
	const char *reproduce; /* the command of `predict` */
	bool tight;            /* so little memory is free that it may run out (--headroom) */
	bool pareto; /* of a first choice: no other number of GPUs is faster with fewer GPU-hours */
	void *job;   /* private to the library */
} lk_plan_choice;

/* Effect of a cost that is 10 % higher or lower. */
typedef struct lk_plan_sensitivity {
	const char *cost;   /* "compute", "memory bandwidth", "network", "links inside a node" */
	double factor;      /* of the rate: 0.9, 1.1 */
	double step_time_s; /* of the choice with that rate */
	int best;           /* which of `choices` is then the fastest; 0: unchanged */
} lk_plan_sensitivity;

/* Sites that train with the best choice and synchronise periodically, at one precision. */
typedef struct lk_plan_sync {
	int bits;            /* per weight change */
	double every;        /* steps between synchronisations */
	double bytes;        /* sent by each site per synchronisation, and received */
	double sync_s;       /* their time on the links */
	double stall_s;      /* part of it that the sites wait */
	double utilisation;  /* share of the time in which the sites compute */
	double tokens_per_s; /* of all sites; samples if there are no tokens */
} lk_plan_sync;

/* Nodes of a tree at equal distance from its root that aggregate. */
typedef struct lk_plan_tree_level {
	int nodes, children; /* taking part: aggregating nodes, and their children */
	int every;           /* steps between aggregations */
	int rounds;          /* of gossip among children with links between them; 0: they send up */
	double bytes;        /* on the links below and between, per step */
} lk_plan_tree_level;

/* How to aggregate over a tree: with the least drift within the limits. */
typedef struct lk_plan_tree {
	bool keeps;         /* within the limits of deadline, bytes and computing share; else this is
	                     * the fastest way */
	const char *misses; /* otherwise: the limits that it misses */
	const lk_plan_tree_level *levels; /* root first */
	int level_count;
	int clients;                 /* taking part */
	const char *const *left_out; /* names of the others */
	int left_out_count;
	double bits;
	double step_s;             /* mean duration of a step, aggregations included */
	double utilisation;        /* share of it in which the slowest client computes */
	double bytes;              /* on all links, per step */
	double drift;              /* mean square distance of clients' weights from their mean, over the
	                            * variance of a client's step */
	double tokens_per_s;       /* samples if there are no tokens */
	double hours, total_bytes; /* of the whole training; 0 without tokens */
} lk_plan_tree;

/* The result for one number of GPUs. */
typedef struct lk_plan_count {
	int gpus;
	const lk_plan_choice *choices;          /* best first, one per set of degrees */
	int choice_count;                       /* 0: nothing fits */
	const lk_plan_sensitivity *sensitivity; /* for the first choice */
	int sensitivity_count;
	const char *nothing; /* without a choice: the nearest miss; else NULL */
	bool slower;         /* without a choice: every layout that may fit takes longer than
	                      * slowest_s */
	const char *in_fp8;  /* the best layout with the number formats of DeepSeek-V3's training, if
	                        experts span more GPUs than a node and the formats are not stated; else
	                        NULL */
	/* statistics of the search */
	uint64_t layouts;          /* in the search space */
	uint64_t bounded;          /* with computed bounds: all, except with --exhaustive */
	uint64_t too_large;        /* ruled out by the bound on memory */
	uint64_t too_slow;         /* ruled out by the bounds on time */
	uint64_t schedules_walked; /* pass by pass, for a closer bound on time before simulating */
	uint64_t simulated;        /* memory and time by the predictor */
	uint64_t cut_short; /* simulated only until it was clear that they are slower than the best */
	uint64_t found_too_large; /* by the predictor's memory, so that no time was computed */
	uint64_t untried;         /* bounded, neither ruled out nor tried when the search was cut off */
	double bound_s, schedule_s, simulate_s; /* seconds, summed over threads */
} lk_plan_count;

/* The answer, with a count per number of GPUs. */
typedef struct lk_plan {
	const lk_plan_count *counts;
	int count;
	const char *model, *cluster; /* one line each */
	const char *reproduce;       /* the command that reproduces it */
	int gbs, seq;                /* seq: 0 without tokens */
	const char *unit;            /* unit of a batch: "sequence", "image" */
	double tokens;
	int best;                  /* the count with the best first choice; -1: nothing fits */
	int objective;             /* the objective: an lk_plan_objective */
	lk_mains mains;            /* of the request */
	const lk_plan_sync *syncs; /* with aggregate, finest precision first */
	int sync_count;
	const lk_plan_tree *tree; /* with tree; NULL: not requested, or no layout fits */
	const char *cut_off;      /* why the search ended early: "time" (search_s), or "interrupt"
	                             (lk_stop_search); NULL: complete */
	double seconds;
	int threads;
	const char *const *notes; /* assumptions of the first choice */
	int note_count;
	int taken_count; /* number of leading ones that are not defaults and could have been stated */
	const char *const *not_searched; /* what was left out, with the options that include it; for the
	                                    most GPUs */
	int not_searched_count;
	const char *warning;      /* what may invalidate everything; NULL: nothing */
	lk_inputs inputs;         /* the files read; reports identify them by content */
	const char *failed_check; /* the consistency check that failed; NULL: all passed */
	void *memory_owner;
} lk_plan;

/* Set every field to its default. Call it first, then set fields; later versions may add fields. */
void lk_plan_defaults(lk_plan_request *request);
/* Search. No fitting layout is an answer (choice_count 0), not an error. LK_ERR_INPUT: no global
 * batch, invalid values, an unknown model or cluster; LK_ERR_IO; LK_ERR_MEMORY. */
lk_status lk_plan_find(const lk_plan_request *request, lk_plan **out, lk_error *err);
/* A lower bound of a sample's work on the device of a request: no layout of at least as many GPUs
 * is predicted to take less. */
typedef struct lk_plan_work {
	double gpu_s; /* GPU-seconds of compute operations only; infinite: no legal layout */
	double bytes; /* least total over all GPUs: weights and optimizer states */
	int seq;      /* tokens of a sample; 1: not counted in tokens */
} lk_plan_work;
/* Bound the work without a search, to decide whether one is worthwhile. LK_ERR_INPUT, LK_ERR_IO,
 * LK_ERR_MEMORY, as lk_plan_find. */
lk_status lk_plan_least(const lk_plan_request *request, lk_plan_work *out, lk_error *err);
/* Free a plan and everything it points to; accepts NULL. */
void lk_plan_free(lk_plan *plan);

/* Write a choice in the form that starts a framework or a scheduler (lockstep/emit.h); `lockstep
 * predict --gpu ... -- LINE`, or FILE, reproduces its step time. Texts live as long as the plan.
 * LK_ERR_INPUT: no such target, or its framework cannot run the layout. */
lk_status lk_plan_launch(const lk_plan *plan, const lk_plan_choice *choice, const char *target,
                         lk_emitted *out, lk_error *err);

/* Print text for people or data for programs, as lk_predict_print, with its errors (LK_ERR_...).
 * Keys of the JSON object: model, cluster, gbs, unit, seq, tokens, reproduce, warning, assumptions,
 * not_searched, syncs: [{bits, every, bytes, sync_s, stall_s, utilisation, tokens_per_s}], tree:
 * null or {keeps, misses, bits, step_s, utilisation, tokens_per_s, bytes, drift, hours,
 * total_bytes, clients, left_out, levels: [{nodes, children, every, rounds, bytes}]}, cut_off,
 * counts: [{gpus, layouts, bounded, too_large, too_slow, schedules_walked, simulated, cut_short,
 * found_too_large, untried, nothing, choices: [{layout, gpus, tp, ..., step_time_s, exact_s,
 * peak_bytes, days, gpu_hours, gpu_watts, site_watts, pue, step_kwh, training_kwh, carbon_kg,
 * power_usd, tight, why_not, reproduce, pareto}], sensitivity: [{cost, factor, step_time_s,
 * best}]}]. */
lk_status lk_plan_print(const lk_plan *plan, int format, bool verbose, bool colour,
                        const char *path, FILE *out, lk_error *err);

/* The verb's option table, for parsing, help, man page and completion (options.h). */
extern const lk_verb lk_plan_verb;

#ifdef __cplusplus
}
#endif
#endif
