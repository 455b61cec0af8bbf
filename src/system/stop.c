/* stop.c: a flag that is set once, and the flag that a thread watches.
 *
 * It is part of the request's context, so that not every long-running function has to pass it on.
 * It never changes a result, only whether there is one. */
#include "system/stop.h"
#include "system/context.h"

#include <stdatomic.h>
#include <stdlib.h>

struct lk_stop {
	atomic_bool asked, search_asked;
};

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
	lk_carried_here()->stop = stop;
}

const lk_stop *lk_stop_watched(void) {
	return lk_carried_stop();
}

lk_status lk_stop_fail(lk_error *err) {
	return lk_fail(err, LK_ERR_STOPPED, NULL, "stopped before it was done");
}

lk_status lk_stop_check(lk_error *err) {
	return lk_stop_asked(lk_stop_watched()) ? lk_stop_fail(err) : LK_OK;
}
