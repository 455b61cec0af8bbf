/* cutoff.h: when a search must end with the best result so far: its time is over (--search-time),
 * or the stop that its thread watches asks searches to end (Ctrl-C). */
#ifndef LK_SYSTEM_CUTOFF_H
#define LK_SYSTEM_CUTOFF_H

#include "system/stop.h"

typedef struct lk_cutoff {
	double until_s; /* of lk_clock_s; infinite: no limit */
	const lk_stop *stop;
} lk_cutoff;

/* A cutoff after this many seconds; 0: no time limit. It watches the stop of this thread. */
lk_cutoff lk_cutoff_after(double seconds);
/* Why the search must end now: "interrupt" or "time"; NULL: continue (also without a cutoff). */
const char *lk_cutoff_reached(const lk_cutoff *cutoff);
/* The reason in words: "--search-time", "an interrupt"; "" for NULL. */
const char *lk_cutoff_text(const char *reason);
/* Seconds left for a nested search, in the form of its request: never 0 if limited; 0 without a
 * limit. */
double lk_cutoff_left_s(const lk_cutoff *cutoff);

#endif
