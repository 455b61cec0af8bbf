/* clock.h: the clock by which durations are measured. */
#ifndef LK_SYSTEM_CLOCK_H
#define LK_SYSTEM_CLOCK_H

#include <time.h>

/* Seconds of a clock that never goes back. */
static inline double lk_clock_s(void) {
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

#endif
