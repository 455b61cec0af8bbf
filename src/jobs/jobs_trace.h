/* jobs_trace.h: logs of clusters as lists of jobs. */
#ifndef LK_JOBS_TRACE_H
#define LK_JOBS_TRACE_H

#include "jobs/jobs.h"

/* Destination of a log's jobs, and counts of those left out. */
typedef struct lk_job_trace {
	lk_arena *arena;
	lk_job_list *out;
	lk_jobs_left *left;
} lk_job_trace;

/* Seconds since 1970 of "2020-04-01 00:00:43", "2020-04-01T00:00:43" and the same with a zone such
 * as +08:00; NAN if it is no time. */
double lk_trace_time(const char *text);

typedef lk_status lk_trace_reader(lk_stream *in, lk_job_trace *trace, lk_error *err);
/* Choose the reader of a log by its beginning; *out is NULL if the format is unknown. */
lk_status lk_trace_form(lk_stream *in, lk_trace_reader **out, lk_error *err);
/* Read Alibaba's tables of 2020. */
lk_status lk_trace_read_folder(const char *folder, lk_job_trace *trace, lk_error *err);

#endif
