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

/* What the best layout is. */
typedef enum lk_plan_objective {
	LK_PLAN_TIME,  /* the fastest */
	LK_PLAN_ENERGY /* the one whose step takes the least energy */
} lk_plan_objective;

/* The request. Texts are borrowed. */
typedef struct lk_plan_request {
	/* What trains where, and all that is not searched: model, gpu or cluster, seq, dtype,
	 * optimizer, task, stack ...; gbs may be left out for the pretraining of a language model: the
	 * batch that is assumed is lk_plan.gbs. Degrees and switches of a layout that are set here are
	 * taken as they are. */
	lk_predict_request job;
	const char *gpus; /* "512,1024"; NULL: job.gpus, or all of the cluster */

	/* Values to search, comma lists; NULL: the usual ones (docs/guide/plan.md). */
	const char *tp, *pp, *vp, *cp, *ep, *etp, *mbs;
	const char *schedule;  /* "1f1b,interleaved" */
	const char *zero;      /* "0,1" */
	const char *recompute; /* "none,full,full/4" */
	const char *bucket;    /* MiB */
	const char *stack;     /* software that is considered: "megatron,fsdp" */
	bool offload;          /* also with the optimizer on the host */
	bool fixed_switches;   /* overlap, sequence parallelism and buckets as usual, not searched */

	int objective;         /* an lk_plan_objective */
	double tokens;         /* of the training: days and GPU-hours */
	const char *headroom;  /* percent of the memory that should stay free; NULL: as much as measured
	                        * peaks exceed predicted ones by, twice */
	double hours;          /* plans that take longer are left out; 0 any */
	double gpu_hours;      /* plans that need more are left out; 0 any */
	const char *aggregate; /* sites that each train so and synchronise now and then: "sites=4
	                        * wan=10g latency=50ms"; with tree its words; NULL: one site */
	const char *tree;      /* CSV of the nodes of a tree over which clients aggregate; NULL: none */
	int top;               /* layouts shown for each number of GPUs; 0: 5 */
	bool
		exhaustive; /* simulate everything: what bounds spare is not spared. For tests and doubts */
	bool no_exact;  /* do not simulate the best ones again in full */
	bool no_sensitivity;
	double slowest_s; /* steps that take longer are of no use, so that the search may end early
	                   * (slower); 0: every step is of use */
	double search_s;  /* the most seconds; the best that was found by then is answered. 0: any, of
	                   * lk_post_plan_find 60 */
	int threads;      /* 0 one for each core */

	/* Work that several processes share (lockstep-mpi): see lk_plan_team. NULL: this process alone.
	 */
	const struct lk_plan_team *team;
	lk_search_progress *progress; /* NULL: nobody is told */
	void *progress_context;
} lk_plan_request;

/* Processes that divide a list of tasks. `run` computes the results of tasks [0, count) by calling
 * `task` for those that are this process' own, and leaves all of them in `results` on every
 * process; `size` bytes each. The order and number of calls is the same on every process. */
typedef lk_status lk_plan_task(void *context, size_t task, void *result, lk_error *err);
typedef struct lk_plan_team {
	lk_status (*run)(void *self, size_t count, size_t size, lk_plan_task *task, void *context,
	                 void *results, lk_error *err);
	void *self;
	int threads; /* of each process, where the request does not say */
} lk_plan_team;

/* One layout. */
typedef struct lk_plan_choice {
	const char *layout; /* "tp 8, pp 16, dp 8, micro-batch 1, recompute selective" */
	int gpus, tp, pp, vp, cp, ep, etp, dp, mbs, microbatches, zero;
	const char *schedule, *recompute, *stack;
	const char *dispatcher; /* of tokens to experts: "alltoall", "allgather", "node"; NULL: the
	                              * experts are on one GPU */
	const char
		*pipeline_layout; /* where layers are not divided evenly: "Et*3|t*5|...|tL"; else NULL */
	bool sequence_parallel, tp_overlap, overlap_grad_reduce, overlap_param_gather, offload;
	double bucket_bytes;
	double step_time_s, step_time_low_s, step_time_high_s;
	double exact_s; /* simulated operation by operation; NAN not asked */
	double peak_bytes, usable_bytes;
	double tokens_per_s_per_gpu, mfu;
	double days, gpu_hours; /* with tokens, else 0 */
	lk_energy energy;
	const lk_time_part *breakdown;
	int breakdown_count;
	const char *
		why_not; /* of all but the first: "exposed tensor parallelism +0.41 s, ...; 4.1 % slower" */
	const char *reproduce; /* the command of `predict` */
	bool tight;            /* so little memory stays free that it may run out (--headroom) */
	bool pareto; /* of a first choice: no other number of GPUs is faster for fewer GPU-hours */
	void *job;   /* the library's own */
} lk_plan_choice;

/* What a cost 10 % higher or lower would change. */
typedef struct lk_plan_sensitivity {
	const char *cost;   /* "compute", "memory bandwidth", "network", "links inside a node" */
	double factor;      /* of the rate: 0.9, 1.1 */
	double step_time_s; /* of the choice then */
	int best;           /* which of `choices` is the fastest then; 0: the same */
} lk_plan_sensitivity;

/* Sites that train with the best choice and synchronise now and then, at one precision. */
typedef struct lk_plan_sync {
	int bits;            /* of each weight's change */
	double every;        /* steps between synchronisations */
	double bytes;        /* that each site sends in one, and receives */
	double sync_s;       /* that they take on the links */
	double stall_s;      /* of it, the sites wait */
	double utilisation;  /* share of the time in which the sites compute */
	double tokens_per_s; /* of all sites; samples where there are no tokens */
} lk_plan_sync;

/* Nodes of a tree that are equally far from its root and aggregate. */
typedef struct lk_plan_tree_level {
	int nodes, children; /* that take part: nodes that aggregate, and what is below them */
	int every;           /* steps between aggregations */
	int rounds;          /* of gossip among children with links between them; 0: they send up */
	double bytes;        /* on the links below and between, a step */
} lk_plan_tree_level;

/* How to aggregate over a tree: the way with the least drift that keeps to what is asked. */
typedef struct lk_plan_tree {
	bool keeps;         /* to deadline, bytes and the share that computes; else the fastest way */
	const char *misses; /* where not: to what */
	const lk_plan_tree_level *levels; /* the root first */
	int level_count;
	int clients;                 /* that take part */
	const char *const *left_out; /* names of the others */
	int left_out_count;
	double bits;
	double step_s;             /* mean time of a step, aggregations included */
	double utilisation;        /* share of it in which the slowest client computes */
	double bytes;              /* on all links, a step */
	double drift;              /* mean square distance of clients' weights from their mean, over the
	                            * variance of a client's step */
	double tokens_per_s;       /* samples where there are no tokens */
	double hours, total_bytes; /* of the training; 0 without tokens */
} lk_plan_tree;

/* Of one number of GPUs. */
typedef struct lk_plan_count {
	int gpus;
	const lk_plan_choice *choices;          /* best first, one for each set of degrees */
	int choice_count;                       /* 0: nothing fits */
	const lk_plan_sensitivity *sensitivity; /* of the first choice */
	int sensitivity_count;
	const char *nothing; /* with no choice: what is nearest; else NULL */
	bool slower;         /* with no choice: every layout that may fit takes longer than slowest_s */
	const char *in_fp8;  /* the best layout with the numbers that DeepSeek-V3 was trained in, where
	                        experts are of more GPUs than a node and nothing is said of the numbers;
	                        else NULL */
	const char *in_software; /* other software, where one was named or read and another is faster by
	                            more than the range of the first choice: its step, and how to ask
	                            for it; else NULL */
	/* how it was found */
	uint64_t layouts;   /* in the space */
	uint64_t bounded;   /* of them, those whose bounds were computed: all, but for --exhaustive */
	uint64_t too_large; /* of them, discarded by the bound on memory */
	uint64_t too_slow;  /* of them, discarded by the bounds on time */
	uint64_t schedules_walked; /* pass by pass, for a closer bound on time before anything is
	                              simulated */
	uint64_t simulated;        /* memory and time by the predictor */
	uint64_t
		cut_short; /* simulated only until it was clear that they are slower than what was found */
	uint64_t found_too_large; /* by the predictor's memory, so that no time was requested */
	uint64_t untried;         /* bounded, neither ruled out nor tried when the search was cut off */
	double bound_s, schedule_s, simulate_s; /* seconds, summed over threads */
} lk_plan_count;

/* The answer, a count for each number of GPUs. */
typedef struct lk_plan {
	const lk_plan_count *counts;
	int count;
	const char *model, *cluster; /* one line each */
	const char *reproduce;       /* the command that asks all of it again */
	int gbs, seq;                /* seq: 0 where there are no tokens */
	const char *unit;            /* what a batch counts: "sequence", "image" */
	double tokens;
	int best;                  /* the count with the best first choice; -1: nothing fits */
	int objective;             /* what best means: an lk_plan_objective */
	lk_mains mains;            /* of the request */
	const lk_plan_sync *syncs; /* with aggregate, finest first */
	int sync_count;
	const lk_plan_tree *tree; /* with tree; NULL: not asked, or no layout fits */
	const char *cut_off;      /* why the search ended before it was done: "time" (search_s), or
	                             "interrupt" (lk_stop_search); NULL: it was done */
	double seconds;
	int threads;
	const char *const *notes; /* what was assumed for the first choice */
	int note_count;
	int taken_count; /* the first of them: what is not usual and could have been stated */
	const char *const *not_searched; /* what was left out, with the options that add it; on the most
	                                    GPUs */
	int not_searched_count;
	const char *warning;      /* what may make all of it wrong; NULL: nothing */
	lk_inputs inputs;         /* the files that were read; reports name them by their content */
	const char *failed_check; /* of its own consistency, which failed; NULL: none did */
	void *memory_owner;
} lk_plan;

/* Sets every field to what holds where nothing is said. Call it first, then set fields: they may
 * become more. */
void lk_plan_defaults(lk_plan_request *request);
/* Searches. Nothing that fits is an answer (choice_count 0), not an error. LK_ERR_INPUT: no global
 * batch, values that are wrong, a model or a cluster that is not known; LK_ERR_IO; LK_ERR_MEMORY.
 */
lk_status lk_plan_find(const lk_plan_request *request, lk_plan **out, lk_error *err);
/* The least work of a sample on the device of a request. No layout of at least as many GPUs is
 * predicted to take less. */
typedef struct lk_plan_work {
	double gpu_s; /* GPU-seconds of compute operations alone; infinite: no layout is legal */
	double bytes; /* that all GPUs together hold at least: weights and states of the optimizer */
	int seq;      /* tokens of a sample; 1: it is not counted in tokens */
} lk_plan_work;
/* Bounds the work without a search, to decide what is worth searching. LK_ERR_INPUT, LK_ERR_IO,
 * LK_ERR_MEMORY, as lk_plan_find. */
lk_status lk_plan_least(const lk_plan_request *request, lk_plan_work *out, lk_error *err);
/* Frees a plan with all that it points to; accepts NULL. */
void lk_plan_free(lk_plan *plan);

/* A choice as what a framework or a scheduler is started with (lockstep/emit.h); `lockstep predict
 * --gpu ... -- LINE`, or FILE, gives its step time again. Texts live as long as the plan.
 * LK_ERR_INPUT: no such target, or its framework cannot run the layout. */
lk_status lk_plan_launch(const lk_plan *plan, const lk_plan_choice *choice, const char *target,
                         lk_emitted *out, lk_error *err);

/* Text for people or data for programs, as lk_predict_print, with its errors (LK_ERR_...). The keys
 * of the JSON are in docs/reference/schemas/plan.json. */
lk_status lk_plan_print(const lk_plan *plan, int format, bool verbose, bool colour,
                        const char *path, FILE *out, lk_error *err);

/* The verb's option table: parsing, help, man page and completion come from it (options.h). */
extern const lk_verb lk_plan_verb;

#ifdef __cplusplus
}
#endif
#endif
