/* stop.h: for those who work long: whether somebody asked them to stop. */
#ifndef LK_BASE_STOP_H
#define LK_BASE_STOP_H

#include "lockstep/stop.h"

/* What this thread watches, or else its context; NULL: nothing. Loops that are too tight for lk_stop_check keep it and
 * ask lk_stop_asked. */
const lk_stop *lk_stop_watched(void);
/* LK_ERR_STOPPED where it is asked. */
lk_status lk_stop_check(lk_error *err);
/* Whether lk_stop_search asked; NULL: false. */
bool lk_stop_search_asked(const lk_stop *stop);
/* The error itself. */
lk_status lk_stop_fail(lk_error *err);

#endif
