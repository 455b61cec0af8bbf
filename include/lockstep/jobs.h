/* jobs.h: how to divide a cluster between training jobs: elastic allocation against fixed requests,
 * simulated.
 *
 *     lk_jobs_request request;
 *     lk_jobs_defaults(&request);
 *     request.jobs = "jobs.csv", request.gpu = "a100-sxm-80", request.gpus = 64;
 *     lk_jobs_answer *answer;
 *     lk_error err;
 *     if (lk_jobs(&request, &answer, &err) != LK_OK) ...
 *     lk_jobs_print(answer, LK_OUTPUT_TEXT, false, false, NULL, stdout, &err);
 *     lk_jobs_free(answer);
 *
 * The speed of a job by GPUs and batch is predicted, or read from a table of measured rates. */
#ifndef LOCKSTEP_JOBS_H
#define LOCKSTEP_JOBS_H

#include <stdbool.h>
#include <stdio.h>
#include "lockstep/error.h"
#include "lockstep/options.h"
#include "lockstep/stop.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What an elastic allocation maximises, in the order of the option's choices. */
enum { LK_JOBS_LOG, LK_JOBS_SPEEDUP, LK_JOBS_COMPLETION };

enum { LK_JOBS_MOST = 1000000, LK_JOBS_GPUS_MOST = 16384, LK_JOBS_BATCH_MOST = 1 << 24 };

/* The request. Texts are borrowed; NULL and 0 mean "not given". */
typedef struct lk_jobs_request {
	const char *jobs;  /* CSV: docs/guide/jobs.md has the columns; or a cluster log of Helios,
	                    * Philly, Alibaba or sacct; NULL: draw jobs */
	const char *rates; /* CSV of measured rates: model, gpus, batch, samples_per_s */
	const char *gpu;   /* catalogue name; unneeded if all models have measured rates */
	int gpus;          /* of the cluster */
	const char *nodes; /* CSV with the column gpu, one row per node, instead of gpus */
	int gpus_per_node; /* place jobs on nodes of this size; 0: on any free GPUs */
	int draw;          /* number of jobs to draw */
	int users;   /* drawn jobs recur: this many users with 8 kinds of jobs each; 0: none recurs */
	double load; /* of drawn jobs: GPU hours requested per GPU hour until the last arrival */
	double seed;
	const char *policies; /* names separated by commas; NULL: all */
	int objective;        /* LK_JOBS_LOG, ... */
	double restart_s;     /* from halt to full speed when a job's GPUs or batch change */
	double every_min;     /* least interval between elastic changes; 0: at every arrival and end */
	double horizon_h;     /* a change must pay for its restart within this time */
	const char *calibration; /* as in predict.h */
	const char *write;       /* file for the jobs as CSV, mainly for drawn ones */
	/* Switch nodes off while a forecast shows that they are not needed. */
	bool save_energy;
	double boot_s;   /* time for a node to start */
	double penalty;  /* node hours that an hour of a job's added waiting counts as */
	double search_s; /* most seconds; requested rates and the first policy are always computed. 0:
	                  * no limit */
	lk_search_progress *progress; /* NULL: no progress reports */
	void *progress_context;
} lk_jobs_request;

/* One job under one policy; times in seconds since the start of the list. */
typedef struct lk_jobs_course {
	double start_s, end_s;
	double gpu_s; /* GPUs held, integrated over time */
	int restarts;
	int most_gpus; /* at any time */
} lk_jobs_course;

/* The cluster under one policy. */
typedef struct lk_jobs_policy {
	const char *name, *what;       /* "fifo"; in words */
	const lk_jobs_course *courses; /* one per job, in order of submission */
	/* completion time: from submission to end */
	double mean_s, median_s, late_s; /* late: 95 % of jobs are done sooner */
	double wait_s;                   /* mean, until the first start */
	double makespan_s;
	double used; /* share of GPU time held until the last end */
	int restarts;
	int done;     /* jobs that ended before the last one arrived */
	double ratio; /* mean completion time of the first policy over this one's */
} lk_jobs_policy;

/* The fastest way to run a job on this many GPUs. */
typedef struct lk_jobs_rate {
	int gpus, batch;
	double per_s; /* samples per second */
} lk_jobs_rate;

/* A job of the list. A job without a model, as in logs, has a duration: its samples are seconds,
 * its batch is 0. */
typedef struct lk_jobs_job {
	const char *name, *model; /* model NULL: none */
	const char *user;         /* NULL: unknown */
	const char *group;        /* its owner's name for such jobs; NULL: the job's name */
	double submit_s, samples;
	int gpus, batch;    /* as requested, without elasticity */
	double asked_per_s; /* with these */
	int batch_min, batch_max, gpus_min, gpus_max;
	const lk_jobs_rate *rates; /* by GPUs, ascending; the batch is free */
	int rate_count;
} lk_jobs_job;

/* The cluster with nodes beyond the forecast demand plus a buffer switched off. */
typedef struct lk_jobs_energy_point {
	int buffer;
	double node_hours, saved;    /* of nodes on or starting; saved share of those with all nodes
	                              * on */
	double longer_s;             /* increase of the mean wait over all nodes on */
	double used;                 /* share of GPU time held, of nodes on or starting */
	double wakeups_a_day, woken; /* times per day that nodes had to be started; nodes each time */
} lk_jobs_energy_point;

/* Trade-off of node hours and waiting, until the last job arrives. */
typedef struct lk_jobs_energy {
	const char *policy;
	int nodes;
	double boot_s, penalty;
	double node_hours, wait_s, used; /* with all nodes on */
	const lk_jobs_energy_point *points;
	int point_count, best; /* least node_hours + penalty x added waiting hours */
	bool worth;            /* that is less than with all nodes on */
} lk_jobs_energy;

/* The simulation of all policies. */
typedef struct lk_jobs_answer {
	int gpus;
	const char *gpu; /* "NVIDIA A100 SXM 80GB"; "" if all rates were measured */
	double load;     /* requested GPU time over available GPU time from the first arrival to the
	                  * last */
	const lk_jobs_job *jobs;
	int count;
	const lk_jobs_policy *policies;
	int policy_count;
	const char *cut_off;      /* as in a plan (plan.h): policies or their rates are missing */
	const char *const *notes; /* basis of the numbers, in sentences */
	int note_count;
	int predictions;              /* made for the rates */
	const lk_jobs_energy *energy; /* NULL: not requested */
	const char *failed_check;     /* the consistency check that failed; NULL: all passed */
	void *memory_owner;
} lk_jobs_answer;

/* Set every field to its default. Call it first, then set fields; later versions may add fields. */
void lk_jobs_defaults(lk_jobs_request *request);
/* Read or draw the jobs, find their rates, simulate the cluster under every policy. LK_ERR_INPUT:
 * neither a list nor a number to draw, an invalid list, policy or device, a job that fits nowhere;
 * LK_ERR_IO; LK_ERR_MEMORY. */
lk_status lk_jobs(const lk_jobs_request *request, lk_jobs_answer **out, lk_error *err);
/* Free an answer and everything it points to; accepts NULL. */
void lk_jobs_free(lk_jobs_answer *answer);

/* Write to `path`, or to `out` if it is NULL; `format` is an lk_output (view.h). LK_ERR_INPUT:
 * the format needs a path; LK_ERR_IO; LK_ERR_MEMORY. Tables have a row per policy, with
 * `verbose` one per job and policy, of energy one per buffer. The keys of the JSON are in
 * docs/reference/schemas/jobs.json. */
lk_status lk_jobs_print(const lk_jobs_answer *answer, int format, bool verbose, bool colour,
                        const char *path, FILE *out, lk_error *err);

/* The verb's option table, for parsing, help, man page and completion (options.h). */
extern const lk_verb lk_jobs_verb;

#ifdef __cplusplus
}
#endif
#endif
