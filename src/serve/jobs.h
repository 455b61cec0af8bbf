/* jobs.h: plans and explanations, which are asked for now and fetched later. */
#ifndef LK_SERVE_JOBS_H
#define LK_SERVE_JOBS_H

#include "serve/asks.h"

enum { LK_JOBS = 64 };

/* The latest questions; a finished one gives way to a new one, the oldest first. */
typedef struct lk_job {
	unsigned long long id;  /* 0: free */
	lk_ask *ask;            /* owned */
} lk_job;

typedef struct lk_job_list {
	lk_job jobs[LK_JOBS];
	unsigned long long last;
} lk_job_list;

/* Takes the question over. NULL: all places are taken by jobs that are not done; the caller still owns it. */
const lk_job *lk_job_list_add(lk_job_list *jobs, lk_asks *asks, lk_ask *ask);
const lk_job *lk_job_list_find(const lk_job_list *jobs, const char *id);
void lk_job_list_remove(lk_job_list *jobs, lk_asks *asks, const lk_job *job);
void lk_job_list_free(lk_job_list *jobs, lk_asks *asks);

/* {"id", "verb", "state": "waiting" | "running" | "done" | "failed", "progress": {"gpus", "done", "all"} or null,
 * "status", "answer", "error"}. NULL when memory is out. */
char *lk_job_json(const lk_job *job, size_t *size);

#endif
