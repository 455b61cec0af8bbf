/* jobs.h: shared by the files of jobs. jobs_read.c and jobs_draw.c make the list, jobs_rates.c
 * finds the speed of each job, jobs_allocate.c divides the GPUs, jobs_policies.c has the policies,
 * jobs_preempt.c those that preempt jobs, jobs_queue.c and jobs_simulate.c run the cluster,
 * jobs_energy.c compares numbers of powered nodes, jobs.c puts it together. */
#ifndef LK_JOBS_JOBS_H
#define LK_JOBS_JOBS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "system/cutoff.h"
#include "base/vec.h"
#include "io/stream.h"
#include "lockstep/jobs.h"

typedef struct lk_arena lk_arena; /* base/arena.h */

/* ---- the list (jobs_read.c, jobs_trace.c, jobs_draw.c) ---- */

/* The nodes of a cluster: GPUs of each. */
typedef struct lk_places {
	int *sizes, count;
} lk_places;

/* What determines a job's speed. */
typedef struct lk_jobs_kind {
	const char *model;
	int seq, tp, pp, mbs;                 /* 0 not given */
	const char *dtype, *zero, *recompute; /* NULL not given */
} lk_jobs_kind;

typedef struct lk_listed_job {
	lk_jobs_job job;
	lk_jobs_kind kind;
	const char *where;         /* "jobs.csv:7" */
	int row;                   /* in the file */
	double duration_s;         /* duration as requested, if known instead of samples */
	const lk_jobs_rate *fixed; /* by GPUs, with the requested batch */
	int fixed_count;
} lk_listed_job;
typedef LK_VEC(lk_listed_job) lk_job_list;

/* Entries of a log that a simulation changes or leaves out. */
typedef struct lk_jobs_left {
	int no_gpu, unfinished; /* jobs left out: without GPUs; never run, or still running */
	int shared;             /* jobs with a share of a GPU, counted as a whole one */
} lk_jobs_left;

/* Jobs of a CSV or of a cluster's log, by submission, in a log from 0 on. */
lk_status lk_jobs_read(lk_stream *in, int gpus, lk_arena *arena, lk_job_list *out,
                       lk_jobs_left *left, lk_error *err);
/* The same for a path, which may be a folder of tables. */
lk_status lk_jobs_read_path(const char *path, int gpus, lk_arena *arena, lk_job_list *out,
                            lk_jobs_left *left, lk_error *err);
/* Read a CSV of nodes with the column gpu, like Alibaba's openb_nodes.csv; nodes without GPUs are
 * left out. */
lk_status lk_places_read(const char *path, lk_arena *arena, lk_places *out, lk_error *err);
/* Write them so that they read back the same. */
lk_status lk_jobs_write(const lk_job_list *list, const char *path, lk_error *err);
/* Draw request->draw jobs; their samples are set once the rates are known (lk_jobs_set_work). */
lk_status lk_jobs_draw(const lk_jobs_request *request, lk_arena *arena, lk_job_list *out,
                       lk_error *err);
void lk_jobs_set_work(lk_job_list *list);

/* ---- rates (jobs_rates.c) ---- */

/* Set rates, fixed and asked_per_s of every job; `as_requested`: find no other rates. An error
 * explains a job that cannot run at all, or not as requested. A job without a model has one rate: a
 * sample is a second of it. */
lk_status lk_jobs_find_rates(const lk_jobs_request *request, bool as_requested,
                             const lk_cutoff *cutoff, lk_arena *arena, lk_job_list *list,
                             int *predictions, lk_error *err);

/* ---- dividing GPUs (jobs_allocate.c) ---- */

typedef struct lk_allocation_option {
	int gpus;
	double value;
} lk_allocation_option;

typedef struct lk_allocation_job {
	const lk_allocation_option *options;
	int count;
} lk_allocation_job;

/* Memory of the dynamic program, kept between calls; zero at first. */
typedef struct lk_allocator {
	double *best;   /* a row per number of jobs: their value with at most that many GPUs */
	int *most;      /* GPUs that the jobs up to one can use */
	uint16_t *kept; /* options of one job that are not dominated by another */
	size_t best_size, most_size, kept_size;
	/* inputs of the rows */
	lk_allocation_option *seen; /* of all jobs, in sequence */
	size_t *seen_end;           /* end of each job's options */
	size_t seen_size, seen_end_size;
	int seen_jobs, seen_gpus;
} lk_allocator;
void lk_allocator_free(lk_allocator *allocator);

/* Choose one option for every job, with at most `gpus` GPUs in all, so that the sum of values is
 * the largest: P(j,K) = max over the options of job j of P(j-1, K - gpus) + value (elastic scaling,
 * arXiv 2006.13878). *possible is false if even the smallest options do not fit. O(jobs x gpus x
 * options). */
lk_status lk_allocate(lk_allocator *allocator, const lk_allocation_job *jobs, int count, int gpus,
                      int *choice, bool *possible, lk_error *err);

/* ---- history of ended jobs (jobs_history.c) ---- */

typedef struct lk_history lk_history;

/* Begin without ended jobs; the arena owns it. */
lk_status lk_history_new(const lk_job_list *list, lk_arena *arena, lk_history **out, lk_error *err);
/* A job of the list has ended after this time. */
void lk_history_learn(lk_history *history, int job, double seconds);
/* Expected seconds of a job as requested. */
double lk_history_expect(const lk_history *history, int job);

/* ---- placement of jobs (jobs_nodes.c) ---- */

typedef struct lk_jobs_node {
	int gpus, free;
	int before, after; /* in its list */
} lk_jobs_node;

/* GPUs of one node that a job holds. */
typedef struct lk_holding {
	int node, gpus, next;
} lk_holding;

typedef struct lk_nodes {
	lk_jobs_node *at;
	int count, most; /* GPUs of the largest */
	int on, used;    /* nodes; with a job on them */
	int free;        /* GPUs of nodes that are on */
	int *first;      /* lists of nodes that are on */
	uint64_t *any;   /* a bit per list that is not empty */
	LK_VEC(lk_holding) holdings;
	int spare; /* unused holdings */
} lk_nodes;

/* All on and empty; the arena owns the arrays, lk_nodes_free frees the rest. */
lk_status lk_nodes_make(const int *sizes, int count, lk_arena *arena, lk_nodes *out, lk_error *err);
void lk_nodes_free(lk_nodes *nodes);
/* Place a job: *holding is what it holds, to be returned later; -1 if there is no room. */
lk_status lk_nodes_place(lk_nodes *nodes, int gpus, int *holding, lk_error *err);
void lk_nodes_release(lk_nodes *nodes, int holding);
void lk_nodes_switch_on(lk_nodes *nodes, int node);
/* Switch off the smallest empty node; -1 if all are in use. */
int lk_nodes_switch_off(lk_nodes *nodes);

/* ---- nodes switched off (jobs_power.c) ---- */

typedef struct lk_power {
	int buffer;     /* nodes kept on beyond the forecast */
	double boot_s;  /* from off to on */
	double until_s; /* node time is counted and nodes are switched off until then */
	double node_s;  /* node time of nodes that were on or starting */
	int wakeups, woken;
	double now_s, slot_end_s, hold_until_s;
	int most_used;       /* nodes, in this slot */
	LK_VEC(double) sums; /* running sums of the slots' most_used */
	LK_VEC(int) off;
	LK_VEC(struct {
		int node;
		double ready_s;
	})
	starting; /* by ready_s; those before `started` are on */
	size_t started;
} lk_power;

lk_status lk_power_begin(lk_power *power, double now_s, lk_error *err);
void lk_power_free(lk_power *power);
/* When its next event is due; INFINITY never. */
double lk_power_next(const lk_power *power);
/* Let time pass without events. */
void lk_power_pass(lk_power *power, const lk_nodes *nodes, double to_s);
/* Switch on nodes that have started, and evaluate slots that have ended. */
lk_status lk_power_advance(lk_power *power, lk_nodes *nodes, lk_error *err);
/* Waiting jobs need `waiting` nodes: start nodes that are off. */
lk_status lk_power_demand(lk_power *power, const lk_nodes *nodes, int waiting, lk_error *err);

/* ---- policies (jobs_policies.c) ---- */

/* A job that has arrived and not ended. */
typedef struct lk_active_job {
	int job;                 /* in the list */
	const lk_jobs_rate *now; /* NULL: it waits */
	bool started;
	double left;           /* remaining samples */
	double gpu_s;          /* GPU time that it has held */
	double paused_until_s; /* restarting until then */
} lk_active_job;

/* Ended jobs, by levels of the GPU time that they held (jobs_preempt.c). */
enum { LK_SERVICE_LEVELS = 20 };
typedef struct lk_services {
	double jobs[LK_SERVICE_LEVELS], gpu_s[LK_SERVICE_LEVELS];
} lk_services;
int lk_service_level(double gpu_s);

typedef struct lk_jobs_moment {
	const lk_jobs_request *request;
	const lk_job_list *list;
	const lk_active_job *active; /* by submission */
	int count;
	const lk_services *ended;
	lk_allocator *allocator;
	lk_arena *scratch; /* emptied after every call */
} lk_jobs_moment;

typedef struct lk_policy {
	const char *name, *what;
	/* A policy either leaves running jobs alone: waiting jobs start by priority, the least first;
	 * `passes`: jobs may pass one for which there is no room. Or it divides all GPUs anew, at most
	 * as often as requested: it sets how each active job runs from now on; NULL waits. Running jobs
	 * that must not change get their `now`. */
	bool passes;
	double (*priority)(const lk_job_list *list, const lk_history *history, int job);
	lk_status (*divide)(const lk_jobs_moment *moment, const lk_jobs_rate **out, lk_error *err);
	/* A policy that divides, yet gives each job what it requested or nothing: seconds after which
	 * it would choose anew although no job has arrived or ended; NULL: GPUs or batches change. */
	double (*review)(const lk_jobs_moment *moment);
} lk_policy;

/* Policies of jobs_preempt.c. */
lk_status lk_preempt_las(const lk_jobs_moment *moment, const lk_jobs_rate **out, lk_error *err);
lk_status lk_preempt_gittins(const lk_jobs_moment *moment, const lk_jobs_rate **out, lk_error *err);
double lk_preempt_review(const lk_jobs_moment *moment);
/* Whether a policy changes how a job runs, which takes its rates on other numbers of GPUs. */
static inline bool lk_policy_is_elastic(const lk_policy *policy) {
	return policy->divide && !policy->review;
}

extern const lk_policy lk_policies[];
extern const int lk_policy_count;
/* The named policies, in order; NULL: all that the list allows: `placed`: jobs are placed on nodes;
 * `timed`: their durations are known, not their rates. */
lk_status lk_policies_named(const char *names, bool placed, bool timed, lk_arena *arena,
                            const lk_policy ***out, int *count, lk_error *err);

/* ---- the cluster (jobs_queue.c) ---- */

/* Run all jobs to their end under a policy that leaves running jobs alone; courses has one per job.
 * `power` NULL: all nodes are on. LK_ERR_INPUT: a job for which the nodes never have room. */
lk_status lk_jobs_queue(const lk_places *places, const lk_job_list *list, const lk_policy *policy,
                        lk_power *power, lk_jobs_course *courses, lk_error *err);

/* Control of the simulation of all policies: when to end, and where to report progress. */
typedef struct lk_jobs_watch {
	lk_cutoff cutoff;
	lk_search_progress *progress; /* NULL: none; only one thread calls it */
	void *context;
	pthread_t teller;   /* that thread */
	atomic_size_t done; /* jobs that arrived, over all policies */
	size_t all;
} lk_jobs_watch;

/* ---- the cluster, any policy (jobs_simulate.c) ---- */

/* The same under any policy; if it divides GPUs anew, nodes do not matter. `watch`: *cut_off says
 * why the simulation ended before its jobs did; NULL: neither. */
lk_status lk_jobs_simulate(const lk_jobs_request *request, const lk_places *places,
                           const lk_job_list *list, const lk_policy *policy, lk_jobs_watch *watch,
                           lk_jobs_course *courses, const char **cut_off, lk_error *err);

/* ---- energy (jobs_energy.c) ---- */

/* The curve of request->save_energy under the first of out->policies. */
lk_status lk_jobs_save_energy(const lk_jobs_request *request, const lk_places *places,
                              const lk_job_list *list, const lk_policy *policy, lk_arena *arena,
                              lk_jobs_energy *out, lk_error *err);

#endif
