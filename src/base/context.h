/* context.h: what a request carries to everything that answers it, on its thread and on those that
 * lk_parallel starts for it. It is set when a request begins and set back when it ends, so nothing
 * that one request brings reaches another. */
#ifndef LK_BASE_CONTEXT_H
#define LK_BASE_CONTEXT_H

#include "lockstep/stop.h"

typedef struct lk_carried {
	const lk_stop *stop;            /* base/stop.h; NULL: nobody asks */
	struct lk_laid_calibration *on; /* cost/calibration; NULL: the rows that are built in */
} lk_carried;

/* That of this thread. */
lk_carried *lk_carried_here(void);

#endif
