/* stop.h: end a running call from another thread or a signal handler.
 *
 *     lk_stop *stop = lk_stop_new();
 *     ... thread A: lk_stop_watch(stop); lk_plan_find(...); lk_stop_watch(NULL);
 *     ... thread B: lk_stop_ask(stop);
 *
 * Thread A's call then returns LK_ERR_STOPPED, within about a second: searches check between
 * layouts, simulations between operations, readers between pieces of a file. */
#ifndef LOCKSTEP_STOP_H
#define LOCKSTEP_STOP_H

#include <stdbool.h>
#include "lockstep/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A flag that running calls check. */
typedef struct lk_stop lk_stop;

/* A new flag, not set; NULL when memory runs out. */
lk_stop *lk_stop_new(void);
void lk_stop_free(lk_stop *stop); /* accepts NULL; no thread may watch it any more */

/* Set the flag, permanently. Safe in signal handlers and from any thread. */
void lk_stop_ask(lk_stop *stop);
bool lk_stop_asked(const lk_stop *stop); /* NULL: false */

/* Ask searches (lk_plan_find, lk_post_plan_find, lk_rent_find, lk_shard, lk_jobs, lk_compile_tune)
 * to end with the best result so far: they return LK_OK, and their answers say that they were cut
 * off. Other calls continue. As safe as lk_stop_ask. */
void lk_stop_search(lk_stop *stop);

/* Progress of a search, reported now and then on the calling thread: `done` of `all` items (0:
 * unknown number), for `gpus` GPUs if a search covers several numbers of them, else 0. */
typedef void lk_search_progress(void *context, int gpus, double done, double all);

/* From now on calls of this thread, and the threads that the library starts for them, end when
 * `stop` is set; NULL: none. Borrowed: watch NULL before it is freed. */
void lk_stop_watch(const lk_stop *stop);

#ifdef __cplusplus
}
#endif
#endif
