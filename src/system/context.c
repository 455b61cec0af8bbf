/* context.c: contexts, the default one, and which one a thread uses. */
#include "system/context.h"

#include <stdatomic.h>
#include <stdlib.h>

struct lk_context {
	_Atomic(lk_kept *) kept[LK_CONTEXT_PARTS];
	const lk_stop *stop;
	int threads; /* 0: one for each core */
};

static lk_context default_context;
static _Thread_local lk_carried carried;

lk_carried *lk_carried_here(void) {
	return &carried;
}

static lk_context *context_or_default(lk_context *context) {
	return context ? context : &default_context;
}

const lk_stop *lk_carried_stop(void) {
	return carried.stop ? carried.stop : context_or_default(carried.context)->stop;
}

int lk_context_thread_count(void) {
	return context_or_default(carried.context)->threads;
}

lk_kept *lk_context_kept(lk_context_part part) {
	return atomic_load(&context_or_default(carried.context)->kept[part]);
}

bool lk_context_keep(lk_context *context, lk_context_part part, lk_kept *kept) {
	lk_kept *none = NULL;
	if (atomic_compare_exchange_strong(&context_or_default(context)->kept[part], &none, kept))
		return true;
	kept->free(kept);
	return false;
}

lk_context *lk_context_new(void) {
	return calloc(1, sizeof(lk_context));
}

void lk_context_free(lk_context *context) {
	if (!context) return;
	if (carried.context == context) carried.context = NULL;
	for (int part = 0; part < LK_CONTEXT_PARTS; part++) {
		lk_kept *kept = atomic_load(&context->kept[part]);
		if (kept) kept->free(kept);
	}
	free(context);
}

lk_context *lk_context_use(lk_context *context) {
	lk_context *before = carried.context;
	carried.context = context;
	return before;
}

void lk_context_stop(lk_context *context, const lk_stop *stop) {
	context_or_default(context)->stop = stop;
}

void lk_context_threads(lk_context *context, int threads) {
	context_or_default(context)->threads = threads > 0 ? threads : 0;
}
