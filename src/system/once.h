/* once.h: lazy loading that may fail: then nothing is loaded, and the next caller tries again. */
#ifndef LK_SYSTEM_ONCE_H
#define LK_SYSTEM_ONCE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include "lockstep/error.h"

typedef struct lk_once {
	pthread_mutex_t lock;
	atomic_bool done;
} lk_once;

#define LK_ONCE_INIT \
	{ .lock = PTHREAD_MUTEX_INITIALIZER }

/* Thread-safe. `undo` frees what a failed `load` left. */
static inline lk_status lk_once_load(lk_once *once, lk_status (*load)(lk_error *err),
                                     void (*undo)(void), lk_error *err) {
	if (atomic_load(&once->done)) return LK_OK;
	pthread_mutex_lock(&once->lock);
	lk_status status = atomic_load(&once->done) ? LK_OK : load(err);
	if (status == LK_OK) atomic_store(&once->done, true);
	else undo();
	pthread_mutex_unlock(&once->lock);
	return status;
}

#endif
