/* cutoff.h: when a search has to end with the best that it has found: its time is over
 * (--search-time), or the stop that its thread watches asks searches to end (Ctrl-C). */
#ifndef LK_BASE_CUTOFF_H
#define LK_BASE_CUTOFF_H

#include "base/stop.h"

typedef struct lk_cutoff {
	double until_s; /* of lk_clock_s; infinite: no limit */
	const lk_stop *stop;
} lk_cutoff;

/* From now on for so many seconds; 0: as long as the search takes. It watches what this thread
 * watches. */
lk_cutoff lk_cutoff_after(double seconds);
/* Why the search has to end now: "interrupt" or "time"; NULL: it goes on, as without a cutoff. */
const char *lk_cutoff_reached(const lk_cutoff *cutoff);
/* The reason in words: "--search-time", "an interrupt"; of NULL "". */
const char *lk_cutoff_text(const char *reason);
/* Seconds for a search inside of this one, as its request takes them: what is left, never 0; 0
 * without a limit. */
double lk_cutoff_left_s(const lk_cutoff *cutoff);

#endif
