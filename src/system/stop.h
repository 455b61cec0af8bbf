/* stop.h: for long-running work: whether it was asked to stop. */
#ifndef LK_SYSTEM_STOP_H
#define LK_SYSTEM_STOP_H

#include "lockstep/stop.h"

/* The stop that this thread watches; NULL: none. Loops too tight for lk_stop_check keep it and call
 * lk_stop_asked. */
const lk_stop *lk_stop_watched(void);
/* LK_ERR_STOPPED if a stop was requested. */
lk_status lk_stop_check(lk_error *err);
/* Whether lk_stop_search was called; NULL: false. */
bool lk_stop_search_asked(const lk_stop *stop);
/* The error itself. */
lk_status lk_stop_fail(lk_error *err);

#endif
