/* capture_steps.c: where the training steps of a capture begin and end. */
#include <stdlib.h>
#include <string.h>

#include "trace/capture/capture.h"

static const char profiler_step[] = "ProfilerStep#", data_loading[] = "enumerate(DataLoader)#";

static bool steps_begins(const char *text, const char *with) {
	return strncmp(text, with, strlen(with)) == 0;
}

static int steps_by_start(const void *a, const void *b) {
	const lk_capture_step *x = a, *y = b;
	return x->start_ns < y->start_ns ? -1 : x->start_ns > y->start_ns;
}

static lk_status steps_add(lk_capture_steps *out, uint32_t event, int64_t number, int64_t start,
                           int64_t end, lk_error *err) {
	if (!lk_push(out)) return lk_oom(err);
	*lk_last(out) = (lk_capture_step){event, number, start, end, true};
	return LK_OK;
}

/* The first and the last moment of anything, or of the device's work alone. False: there is none.
 */
static bool steps_extent(const lk_capture *capture, bool device, int64_t *first, int64_t *last) {
	bool any = false;
	*first = *last = 0;
	for (uint32_t i = 0; i < capture->count; i++) {
		if (device && !lk_event_on_device(capture->kind[i])) continue;
		if (!any || capture->start_ns[i] < *first) *first = capture->start_ns[i];
		if (!any || lk_event_end(capture, i) > *last) *last = lk_event_end(capture, i);
		any = true;
	}
	return any;
}

lk_capture_step lk_capture_whole(const lk_capture *capture) {
	lk_capture_step whole = {.event = LK_NONE, .whole = true};
	if (!steps_extent(capture, true, &whole.start_ns, &whole.end_ns) ||
	    whole.end_ns <= whole.start_ns)
		steps_extent(capture, false, &whole.start_ns, &whole.end_ns);
	return whole;
}

static lk_status annotated(const lk_capture *capture, lk_capture_steps *out, lk_error *err) {
	for (uint32_t i = 0; i < capture->count; i++) {
		if (capture->kind[i] != LK_EVENT_NOTE) continue;
		const char *name = lk_capture_text(capture, capture->name[i]);
		if (!steps_begins(name, profiler_step)) continue;
		LK_TRY(steps_add(out, i, strtoll(name + strlen(profiler_step), NULL, 10),
		                 capture->start_ns[i], lk_event_end(capture, i), err));
	}
	return LK_OK;
}

/* From one start of data loading to the next; the last one ends where everything does. */
static lk_status between_loads(const lk_capture *capture, int64_t last, lk_capture_steps *out,
                               lk_error *err) {
	for (uint32_t i = 0; i < capture->count; i++) {
		if (capture->kind[i] != LK_EVENT_NOTE ||
		    !steps_begins(lk_capture_text(capture, capture->name[i]), data_loading))
			continue;
		LK_TRY(steps_add(out, i, 0, capture->start_ns[i], capture->start_ns[i], err));
	}
	if (out->count < 2) {
		out->count = 0;
		return LK_OK;
	}
	qsort(out->at, out->count, sizeof *out->at, steps_by_start);
	for (size_t s = 0; s < out->count; s++) {
		out->at[s].number = (int64_t)s;
		out->at[s].end_ns = s + 1 < out->count ? out->at[s + 1].start_ns : last;
	}
	out->at[out->count - 1].whole = false;
	return LK_OK;
}

lk_status lk_capture_find_steps(const lk_capture *capture, lk_capture_steps *out, lk_error *err) {
	int64_t first, last;
	steps_extent(capture, false, &first, &last);
	out->count = 0;
	LK_TRY(annotated(capture, out, err));
	if (!out->count) LK_TRY(between_loads(capture, last, out, err));
	if (!out->count) return steps_add(out, LK_NONE, 0, first, last, err);
	qsort(out->at, out->count, sizeof *out->at, steps_by_start);
	return LK_OK;
}
