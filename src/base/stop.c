/* stop.c: a flag that is set once, and which flag a thread looks at.
 *
 * The flag belongs to the thread that asks, not to what is computed, and every function that works
 * long would have to hand it on: so it is the one thing that a thread keeps. It never changes a
 * result, only whether there is one. */
#include "base/stop.h"

#include <stdatomic.h>
#include <stdlib.h>

struct lk_stop {
	atomic_bool asked, search_asked;
};

static _Thread_local const lk_stop *watched;

lk_stop *lk_stop_new(void) {
	lk_stop *stop = malloc(sizeof *stop);
	if (!stop) return NULL;
	atomic_init(&stop->asked, false);
	atomic_init(&stop->search_asked, false);
	return stop;
}

void lk_stop_free(lk_stop *stop) {
	free(stop);
}

void lk_stop_ask(lk_stop *stop) {
	if (stop) atomic_store_explicit(&stop->asked, true, memory_order_relaxed);
}

bool lk_stop_asked(const lk_stop *stop) {
	return stop && atomic_load_explicit(&stop->asked, memory_order_relaxed);
}

void lk_stop_search(lk_stop *stop) {
	if (stop) atomic_store_explicit(&stop->search_asked, true, memory_order_relaxed);
}

bool lk_stop_search_asked(const lk_stop *stop) {
	return stop && atomic_load_explicit(&stop->search_asked, memory_order_relaxed);
}

void lk_stop_watch(const lk_stop *stop) {
	watched = stop;
}

const lk_stop *lk_stop_watched(void) {
	return watched;
}

lk_status lk_stop_fail(lk_error *err) {
	return lk_fail(err, LK_ERR_STOPPED, NULL, "stopped before it was done");
}

lk_status lk_stop_check(lk_error *err) {
	return lk_stop_asked(watched) ? lk_stop_fail(err) : LK_OK;
}
