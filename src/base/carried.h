/* carried.h: the context of a request, shared with everything that answers it, on its thread and on
 * those that lk_parallel starts for it. Set when a request begins and restored when it ends, so
 * nothing of one request reaches another. */
#ifndef LK_BASE_CARRIED_H
#define LK_BASE_CARRIED_H

#include "lockstep/stop.h"

typedef struct lk_carried {
	const lk_stop *stop;            /* base/stop.h; NULL: cannot be stopped */
	struct lk_laid_calibration *on; /* cost/calibration; NULL: the built-in rows */
} lk_carried;

/* The context of this thread. */
lk_carried *lk_carried_here(void);

#endif
