/* carried.c: the context of the thread's request. */
#include "base/carried.h"

static _Thread_local lk_carried carried;

lk_carried *lk_carried_here(void) {
	return &carried;
}
