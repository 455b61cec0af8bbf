/* explain_stretch.c: gaps of the device that follow one another for the same reason, as one stretch: where in the trace
 * to look. A stretch goes on as long as the device is idle for that reason in half of it, and the calls that end its
 * gaps are in the same annotation. */
#include <stdlib.h>

#include "explain/explain.h"

const char *const lk_stretch_causes[] = {"launch", "sync", "data loading", NULL};

/* A stretch that costs less than a thousandth of the time looked at is not kept. */
static const int64_t KEPT_PART = 1000;

static bool keep(lk_rank_work *w, int cause) {
	lk_stretch *s = &w->open[cause];
	if (!s->gaps || s->lost_ns < lk_times_length(&w->windows) / KEPT_PART) return true;
	if (!lk_push(&w->stretches)) return false;
	lk_explain_stretch *row = lk_last(&w->stretches);
	*row = (lk_explain_stretch){
		.rank = w->result.rank,
		.cause = lk_stretch_causes[cause],
		.start_ns = lk_common_ns(w->traces, w->index, s->start),
		.dur_ns = s->end - s->start,
		.lost_ns = s->lost_ns,
		.gaps = s->gaps,
		.annotation = "",
		.operation = "",
	};
	row->annotation = lk_capture_text(w->c, s->note);
	row->operation = lk_capture_text(w->c, s->op);
	return true;
}

bool lk_stretch_add(lk_rank_work *w, int cause, const lk_interval *gap, int64_t lost, uint32_t call) {
	lk_stretch *s = &w->open[cause];
	uint32_t note = 0, op = 0;
	if (lost <= 0) return true;
	if (call != LK_NONE) lk_rank_place(w, call, &note, &op);
	if (s->gaps && (note != s->note || (s->lost_ns + lost) * 2 < gap->end - s->start)) {
		if (!keep(w, cause)) return false;
		s->gaps = 0;
	}
	if (!s->gaps) *s = (lk_stretch){.start = gap->start, .note = note};
	s->gaps++;
	s->end = gap->end;
	s->lost_ns += lost;
	if (lost > s->longest) s->longest = lost, s->op = op;
	return true;
}

bool lk_stretches_end(lk_rank_work *w) {
	for (int cause = 0; cause < LK_STRETCH_CAUSES; cause++)
		if (!keep(w, cause)) return false;
	return true;
}

int lk_stretch_order(const void *a, const void *b) {
	const lk_explain_stretch *x = a, *y = b;
	if (x->lost_ns != y->lost_ns) return x->lost_ns > y->lost_ns ? -1 : 1;
	if (x->rank != y->rank) return x->rank < y->rank ? -1 : 1;
	return x->start_ns < y->start_ns ? -1 : x->start_ns > y->start_ns;
}
