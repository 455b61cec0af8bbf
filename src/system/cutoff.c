/* cutoff.c: the end of a search, by its clock or by request. */
#include "system/clock.h"
#include "system/cutoff.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

lk_cutoff lk_cutoff_after(double seconds) {
	return (lk_cutoff){.until_s = seconds > 0 ? lk_clock_s() + seconds : INFINITY,
	                   .stop = lk_stop_watched()};
}

const char *lk_cutoff_reached(const lk_cutoff *cutoff) {
	if (!cutoff) return NULL;
	if (lk_stop_search_asked(cutoff->stop)) return "interrupt";
	return isfinite(cutoff->until_s) && lk_clock_s() >= cutoff->until_s ? "time" : NULL;
}

double lk_cutoff_left_s(const lk_cutoff *cutoff) {
	return isfinite(cutoff->until_s) ? fmax(cutoff->until_s - lk_clock_s(), 1e-9) : 0;
}

const char *lk_cutoff_text(const char *reason) {
	if (!reason) return "";
	return strcmp(reason, "time") == 0 ? "--search-time" : "an interrupt";
}
