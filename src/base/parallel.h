/* parallel.h: independent jobs on several threads. What comes out does not depend on how many there
 * are. */
#ifndef LK_BASE_PARALLEL_H
#define LK_BASE_PARALLEL_H

#include <stddef.h>
#include "lockstep/error.h"

/* Job number `job`; writes only to what is its own. */
typedef lk_status lk_parallel_job(void *context, size_t job, lk_error *err);

/* Processors that this process may use, 1 at least. */
int lk_cores(void);

/* Threads that lk_parallel starts by default: those of the context, else one for each core; one
 * inside a job of several that run already, and as many more as have run out of jobs there. */
int lk_threads(void);

/* Runs jobs 0 .. count-1, handed out in this order to up to `threads` threads (0: lk_threads()), of
 * which the caller is one. Of failed jobs the first in order is reported; jobs after a failed one
 * may not have run. */
lk_status lk_parallel(size_t count, int threads, lk_parallel_job *job, void *context,
                      lk_error *err);

#endif
