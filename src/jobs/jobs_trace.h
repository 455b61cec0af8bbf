/* jobs_trace.h: what the readers of cluster logs share. */
#ifndef LK_JOBS_TRACE_H
#define LK_JOBS_TRACE_H

#include "jobs/jobs.h"

/* Where the jobs of a log go, and what was left out. */
typedef struct lk_job_trace {
	lk_arena *arena;
	lk_job_list *out;
	lk_jobs_left *left;
} lk_job_trace;

/* A job of a log; NAN where a time is not known. */
typedef struct lk_traced_job {
	const char *name, *user, *group;
	double submit_s, duration_s, gpus;
} lk_traced_job;

/* Adds a job, or counts why it is left out. */
lk_status lk_trace_add(lk_job_trace *trace, const char *where, const lk_traced_job *traced,
                       lk_error *err);
/* Seconds since 1970 of "2020-04-01 00:00:43", "2020-04-01T00:00:43" and the same with a zone such
 * as +08:00; NAN where it is none. */
double lk_trace_time(const char *text);

typedef lk_status lk_trace_reader(lk_stream *in, lk_job_trace *trace, lk_error *err);
/* The reader of a log, by how it begins; *out is NULL where it is no log that is known. */
lk_status lk_trace_form(lk_stream *in, lk_trace_reader **out, lk_error *err);
/* Philly's cluster_job_log (jobs_philly.c). */
/* Alibaba's tables of 2020. */
lk_status lk_trace_read_folder(const char *folder, lk_job_trace *trace, lk_error *err);

#endif
