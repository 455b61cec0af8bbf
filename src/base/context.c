/* context.c: what the thread's request carries. */
#include "base/context.h"

static _Thread_local lk_carried carried;

lk_carried *lk_carried_here(void) {
	return &carried;
}
