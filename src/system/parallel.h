/* parallel.h: independent jobs on several threads. Results do not depend on the number of
 * threads. */
#ifndef LK_SYSTEM_PARALLEL_H
#define LK_SYSTEM_PARALLEL_H

#include <stddef.h>
#include "lockstep/error.h"

/* Run job number `job`; it writes only to its own data. */
typedef lk_status lk_parallel_job(void *context, size_t job, lk_error *err);

/* Processors that this process may use, at least 1. */
int lk_cores(void);

/* Default number of threads of lk_parallel: one within a job of several that are already running,
 * plus as many as have run out of jobs there. */
int lk_threads(void);

/* Run jobs 0 .. count-1, handed out in order to up to `threads` threads (0: lk_threads()),
 * including the caller. The first failed job in order is reported; jobs after a failed one may not
 * have run. */
lk_status lk_parallel(size_t count, int threads, lk_parallel_job *job, void *context,
                      lk_error *err);

#endif
