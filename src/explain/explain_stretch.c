/* explain_stretch.c: joins consecutive gaps of the device with the same cause into one stretch:
 * where to look in the trace. A stretch continues as long as the device is idle for that cause
 * during half of it, and the calls that end its gaps are in the same annotation. */
#include <stdlib.h>

#include "explain/explain.h"
#include "base/check.h"

/* As the stalls are named that these stretches are of. */
static const char *const cause_names[LK_STRETCH_CAUSES] = {
	[LK_STRETCH_LAUNCH] = "launch",
	[LK_STRETCH_SYNC] = "sync",
	[LK_STRETCH_HOST + LK_HOST_LOADING] = "data loading",
	[LK_STRETCH_HOST + LK_HOST_ONE_OFF] = "one-off",
	[LK_STRETCH_HOST + LK_HOST_ALLOCATION] = "allocation",
	[LK_STRETCH_HOST + LK_HOST_SAVING] = "checkpoint",
	[LK_STRETCH_HOST + LK_HOST_COLLECTING] = "garbage collection",
	[LK_STRETCH_HOST + LK_HOST_PREPARING] = "preprocessing",
	[LK_STRETCH_HOST + LK_HOST_COMPUTING] = "host",
};

/* Stretches that cost less than a thousandth of the analysed time are dropped. */
static const int64_t KEPT_PART = 1000;

static bool stretch_keep(lk_rank_work *work, int cause) {
	lk_stretch *stretch = &work->open[cause];
	if (!stretch->gaps || stretch->lost_ns < lk_times_length(&work->windows) / KEPT_PART)
		return true;
	if (!lk_push(&work->stretches)) return false;
	lk_explain_stretch *row = lk_last(&work->stretches);
	*row = (lk_explain_stretch){
		.rank = work->result.rank,
		.cause = cause_names[cause],
		.start_ns = lk_common_ns(work->traces, work->index, stretch->start),
		.dur_ns = stretch->end - stretch->start,
		.lost_ns = stretch->lost_ns,
		.gaps = stretch->gaps,
		.annotation = "",
		.operation = "",
	};
	row->annotation = lk_capture_text(work->capture, stretch->note);
	row->operation = lk_capture_text(work->capture, stretch->op);
	return true;
}

bool lk_stretch_add(lk_rank_work *work, int cause, const lk_interval *gap, int64_t lost,
                    uint32_t call) {
	lk_stretch *stretch = &work->open[cause];
	uint32_t note = 0, op = 0;
	LK_ASSERT(cause >= 0 && cause < LK_STRETCH_CAUSES && cause_names[cause]);
	LK_ASSERT(lost <= gap->end - gap->start);
	LK_ASSERT(!stretch->gaps || gap->start >= stretch->end);
	if (lost <= 0) return true;
	if (call != LK_NONE) lk_rank_place(work, call, &note, &op);
	if (stretch->gaps &&
	    (note != stretch->note || (stretch->lost_ns + lost) * 2 < gap->end - stretch->start)) {
		if (!stretch_keep(work, cause)) return false;
		stretch->gaps = 0;
	}
	if (!stretch->gaps) *stretch = (lk_stretch){.start = gap->start, .note = note};
	stretch->gaps++;
	stretch->end = gap->end;
	stretch->lost_ns += lost;
	if (lost > stretch->longest) {
		stretch->longest = lost;
		stretch->op = op;
	}
	return true;
}

bool lk_stretches_end(lk_rank_work *work) {
	for (int cause = 0; cause < LK_STRETCH_CAUSES; cause++)
		if (!stretch_keep(work, cause)) return false;
	return true;
}

int lk_stretch_order(const void *a, const void *b) {
	const lk_explain_stretch *x = a, *y = b;
	if (x->lost_ns != y->lost_ns) return x->lost_ns > y->lost_ns ? -1 : 1;
	if (x->rank != y->rank) return x->rank < y->rank ? -1 : 1;
	return x->start_ns < y->start_ns ? -1 : x->start_ns > y->start_ns;
}
