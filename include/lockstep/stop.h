/* stop.h: ending a call that is under way, from another thread or a signal handler.
 *
 *     lk_stop *stop = lk_stop_new();
 *     ... thread A: lk_stop_watch(stop); lk_plan_find(...); lk_stop_watch(NULL);
 *     ... thread B: lk_stop_ask(stop);
 *
 * Thread A's call then returns LK_ERR_STOPPED, within about a second: searches look between
 * layouts, simulations between operations, readers between pieces of a file. */
#ifndef LOCKSTEP_STOP_H
#define LOCKSTEP_STOP_H

#include <stdbool.h>
#include "lockstep/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A flag that calls look at while they work. */
typedef struct lk_stop lk_stop;

/* One that nobody has asked yet; NULL when memory runs out. */
lk_stop *lk_stop_new(void);
void lk_stop_free(lk_stop *stop); /* accepts NULL; nobody may watch it any more */

/* Safe in signal handlers and from any thread. It stays asked. */
void lk_stop_ask(lk_stop *stop);
bool lk_stop_asked(const lk_stop *stop); /* NULL: false */

/* Asks searches (lk_plan_find, lk_post_plan_find, lk_rent_find, lk_shard, lk_jobs,
 * lk_compile_tune) to end with the best that they have found: they return LK_OK, and their answers
 * say that they were cut off. Other calls go on. As safe as lk_stop_ask. */
void lk_stop_search(lk_stop *stop);

/* How far a search is, told now and then to the thread that asked: `done` of `all` that are
 * searched (0: how many is not known), for `gpus` GPUs where a search goes through several numbers
 * of them, else 0. */
typedef void lk_search_progress(void *context, int gpus, double done, double all);

/* From now on calls of this thread, and the threads that the library starts for them, end when
 * `stop` is asked; NULL: when the stop of the context is (lk_context_stop), if it has one. Borrowed:
 * watch NULL before it is freed. */
void lk_stop_watch(const lk_stop *stop);

#ifdef __cplusplus
}
#endif
#endif
