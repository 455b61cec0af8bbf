/* jobs.h: what the files of jobs share. jobs_read.c and jobs_draw.c make the list, jobs_rates.c
 * asks how fast each job is, jobs_allocate.c divides the GPUs, jobs_policies.c are the ways to do
 * it, jobs_simulate.c runs the cluster, jobs.c puts it together. */
#ifndef LK_JOBS_JOBS_H
#define LK_JOBS_JOBS_H

#include <stdint.h>

#include "base/vec.h"
#include "io/stream.h"
#include "lockstep/jobs.h"

typedef struct lk_arena lk_arena; /* base/arena.h */

/* ---- the list (jobs_read.c, jobs_draw.c) ---- */

/* What decides how fast a job is. */
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
	double hours;              /* drawn: how long it runs as requested; samples follow from it */
	const lk_jobs_rate *fixed; /* by GPUs, with the batch that was requested */
	int fixed_count;
} lk_listed_job;
typedef LK_VEC(lk_listed_job) lk_job_list;

/* Jobs of a CSV, by submission. */
lk_status lk_jobs_read(lk_stream *in, int gpus, lk_arena *arena, lk_job_list *out, lk_error *err);
/* Writes them so that they read back the same. */
lk_status lk_jobs_write(const lk_job_list *list, const char *path, lk_error *err);
/* Draws request->draw jobs; their samples are set when the rates are known (lk_jobs_set_work). */
lk_status lk_jobs_draw(const lk_jobs_request *request, lk_arena *arena, lk_job_list *out,
                       lk_error *err);
void lk_jobs_set_work(lk_job_list *list);

/* ---- rates (jobs_rates.c) ---- */

/* Sets rates, fixed and asked_per_s of every job. A job that cannot run in any way, or not as it
 * was requested, is an error that says why. */
lk_status lk_jobs_find_rates(const lk_jobs_request *request, lk_arena *arena, lk_job_list *list,
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

/* Memory of the dynamic program, kept from one call to the next; zeroed at first. */
typedef struct lk_allocator {
	double *best; /* of the jobs so far with exactly so many GPUs at most */
	uint16_t *choice;
	int *most;      /* GPUs that the jobs up to one can use */
	uint16_t *kept; /* options of one job that another does not make idle */
	size_t best_size, choice_size, most_size, kept_size;
} lk_allocator;
void lk_allocator_free(lk_allocator *allocator);

/* For every job one of its options, at most `gpus` GPUs in all, so that the sum of values is the
 * largest: P(j,K) = max over the options of job j of P(j-1, K - gpus) + value (elastic scaling,
 * arXiv 2006.13878). *possible is false where even the smallest options do not fit. O(jobs x gpus x
 * options). */
lk_status lk_allocate(lk_allocator *allocator, const lk_allocation_job *jobs, int count, int gpus,
                      int *choice, bool *possible, lk_error *err);

/* ---- policies (jobs_policies.c) ---- */

/* A job that has arrived and not ended. */
typedef struct lk_active_job {
	int job;                 /* in the list */
	const lk_jobs_rate *now; /* NULL: it waits */
	bool started;
	double left;           /* samples */
	double paused_until_s; /* it restarts */
} lk_active_job;

typedef struct lk_jobs_moment {
	const lk_jobs_request *request;
	const lk_job_list *list;
	const lk_active_job *active; /* by submission */
	int count;
	lk_allocator *allocator;
	lk_arena *scratch; /* emptied after every call */
} lk_jobs_moment;

typedef struct lk_policy {
	const char *name, *what;
	bool elastic; /* it changes running jobs, so not more often than was requested */
	/* What each active job shall run with from now on; NULL waits. Jobs that run and shall not be
	 * changed get their `now`. */
	lk_status (*divide)(const lk_jobs_moment *moment, const lk_jobs_rate **out, lk_error *err);
} lk_policy;

extern const lk_policy lk_policies[];
extern const int lk_policy_count;
/* The policies named, in order; NULL all. */
lk_status lk_policies_named(const char *names, lk_arena *arena, const lk_policy ***out, int *count,
                            lk_error *err);

/* ---- the cluster (jobs_simulate.c) ---- */

/* Runs all jobs to their end; courses has one per job. */
lk_status lk_jobs_simulate(const lk_jobs_request *request, const lk_job_list *list,
                           const lk_policy *policy, lk_jobs_course *courses, lk_error *err);

#endif
