/* timeline.c: an empty timeline, and the end of one. */
#include "sim/timeline.h"

#include <stdlib.h>

lk_timeline *lk_timeline_new(void) {
	lk_timeline *timeline = calloc(1, sizeof *timeline);
	if (!timeline) return NULL;
	timeline->names = lk_intern_new();
	if (!timeline->names) {
		free(timeline);
		return NULL;
	}
	return timeline;
}

void lk_timeline_free(lk_timeline *timeline) {
	if (!timeline) return;
	lk_intern_free(timeline->names);
	lk_vec_free(&timeline->tracks);
	lk_vec_free(&timeline->slices);
	lk_vec_free(&timeline->flows);
	lk_vec_free(&timeline->counters);
	free(timeline);
}
