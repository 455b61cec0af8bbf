/* context.h: the state of a context (lockstep/context.h), and what a thread carries while it
 * answers a request. Nothing else of the library changes between requests (tools/statics.sh). */
#ifndef LK_SYSTEM_CONTEXT_H
#define LK_SYSTEM_CONTEXT_H

#include <stdbool.h>
#include "lockstep/context.h"

/* What a room keeps in a context: the first member of the room's struct. */
typedef struct lk_kept {
	void (*free)(struct lk_kept *kept);
} lk_kept;

typedef enum lk_context_part {
	LK_CONTEXT_CATALOGUE,   /* hw/device.c */
	LK_CONTEXT_CALIBRATION, /* cost/calibration/calibration_current.c */
	LK_CONTEXT_RUNS,        /* run/run_tables.c */
	LK_CONTEXT_PARTS
} lk_context_part;

/* What `part` of the current context keeps; NULL: nothing yet. */
lk_kept *lk_context_kept(lk_context_part part);
/* Gives `kept` to the context (NULL: the default one). A part is set once and then constant, so that
 * threads read it without a lock: false, with `kept` freed, if the context has one already. */
bool lk_context_keep(lk_context *context, lk_context_part part, lk_kept *kept);
/* The number of threads of the current context; 0: one for each core. */
int lk_context_thread_count(void);

/* The state of a thread, which threads that work for it copy (lk_parallel). What a request sets it
 * sets back when it ends, so nothing that one request brings reaches another. */
typedef struct lk_carried {
	lk_context *context;            /* NULL: the default one */
	const lk_stop *stop;            /* system/stop.h; NULL: that of the context */
	struct lk_laid_calibration *on; /* cost/calibration; NULL: the rows of the context */
	struct lk_queue *around; /* system/parallel.c; the queue of the thread's job; NULL: none */
} lk_carried;

/* That of this thread. */
lk_carried *lk_carried_here(void);
/* The stop that the thread watches, or else the context's; NULL: nobody asks. */
const lk_stop *lk_carried_stop(void);

#endif
