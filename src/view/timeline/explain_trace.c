/* explain_trace.c: traces of many ranks as one timeline on one clock, with the critical path as a
 * track of its own. */
#include <stdio.h>

#include "explain/explain.h"
#include "base/text.h"
#include "view/timeline/trace.h"

/* The critical path's process stands after all ranks. */
enum { PATH_RANK = INT32_MAX };
static const int64_t PS_PER_NS = 1000;

struct drawing {
	lk_timeline *timeline;
	const lk_explanation *x;
	const lk_traces *traces;
	int64_t from_ns, to_ns; /* common time that is drawn */
	LK_VEC(int64_t) open;   /* ends of the slices around the current one */
};

static const char *const categories[LK_EVENT_KINDS] = {
	"operation", "annotation", "runtime", "kernel", "copy", "fill", "sync"};

static uint32_t trace_intern(struct drawing *drawing, const char *text) {
	return lk_intern_id(drawing->timeline->names, text);
}

static lk_status add_track(struct drawing *drawing, int32_t rank, const char *process,
                           const char *name, lk_error *err) {
	lk_track track = {.rank = rank,
	                  .ranks = 1,
	                  .process = trace_intern(drawing, process),
	                  .name = trace_intern(drawing, name)};
	if (track.process == UINT32_MAX || track.name == UINT32_MAX ||
	    !lk_push(&drawing->timeline->tracks))
		return lk_oom(err);
	*lk_last(&drawing->timeline->tracks) = track;
	return LK_OK;
}

static lk_status trace_add_slice(struct drawing *drawing, const lk_capture *capture, uint32_t event,
                                 int64_t start, int64_t end, lk_error *err) {
	if (!lk_push(&drawing->timeline->slices)) return lk_oom(err);
	lk_slice *slice = lk_last(&drawing->timeline->slices);
	*slice = (lk_slice){
		.track = (uint32_t)drawing->timeline->tracks.count - 1,
		.name = trace_intern(drawing, lk_capture_text(capture, capture->name[event])),
		.category = trace_intern(drawing, categories[capture->kind[event]]),
		.microbatch = -1,
		.layer = -1,
		.start_ps = (start - drawing->from_ns) * PS_PER_NS,
		.end_ps = (end - drawing->from_ns) * PS_PER_NS,
	};
	return slice->name == UINT32_MAX || slice->category == UINT32_MAX ? lk_oom(err) : LK_OK;
}

/* Viewers want slices that nest. Clocks are rounded and streams of old profilers overlap: what
 * sticks out is cut. */
static lk_status trace_draw_event(struct drawing *drawing, const lk_capture *capture,
                                  uint32_t event, int64_t shift, lk_error *err) {
	int64_t start = capture->start_ns[event] + shift, end = lk_event_end(capture, event) + shift;
	if (start < drawing->from_ns) start = drawing->from_ns;
	if (end > drawing->to_ns) end = drawing->to_ns;
	while (drawing->open.count && *lk_last(&drawing->open) <= start) drawing->open.count--;
	if (drawing->open.count && end > *lk_last(&drawing->open)) end = *lk_last(&drawing->open);
	if (end <= start) return LK_OK;
	if (!lk_push(&drawing->open)) return lk_oom(err);
	*lk_last(&drawing->open) = end;
	return trace_add_slice(drawing, capture, event, start, end, err);
}

static lk_status draw_lane(struct drawing *drawing, uint32_t capture, const lk_lane *lane, int rank,
                           lk_error *err) {
	const lk_capture *c = drawing->traces->capture[capture];
	int64_t shift = drawing->traces->shift_ns[capture];
	char process[32], name[160];
	const char *said = lk_capture_text(c, lane->name);
	snprintf(process, sizeof process, "rank %d", rank);
	lk_text text = lk_text_begin(name, sizeof name);
	lk_text_add(&text, "%s %lld", lane->stream ? "stream" : "thread", (long long)lane->thread);
	if (*said) lk_text_add(&text, " %.100s", said);
	LK_TRY(add_track(drawing, rank, process, name, err));
	drawing->open.count = 0;
	for (uint32_t at = lane->begin; at < lane->end; at++)
		LK_TRY(trace_draw_event(drawing, c, c->order[at], shift, err));
	return LK_OK;
}

static lk_status draw_rank(struct drawing *drawing, uint32_t capture, lk_error *err) {
	const lk_capture *c = drawing->traces->capture[capture];
	int rank = c->rank < 0 ? (int)capture : c->rank;
	bool shown = false;
	for (int i = 0; i < drawing->x->rank_count; i++) shown |= drawing->x->ranks[i].rank == rank;
	for (size_t l = 0; shown && l < c->lanes.count; l++)
		if (c->lanes.at[l].end > c->lanes.at[l].begin)
			LK_TRY(draw_lane(drawing, capture, &c->lanes.at[l], rank, err));
	return LK_OK;
}

static lk_status draw_path(struct drawing *drawing, lk_error *err) {
	const lk_critical_path *path = &drawing->x->critical;
	if (!path->event_count) return LK_OK;
	LK_TRY(add_track(drawing, PATH_RANK, "critical path", "critical path", err));
	int64_t last = drawing->from_ns;
	for (size_t i = 0; i < path->event_count; i++) {
		const lk_critical_event *event = &path->events[i];
		const lk_capture *capture = drawing->traces->capture[event->capture];
		int64_t shift = drawing->traces->shift_ns[event->capture],
				start = capture->start_ns[event->event] + shift,
				end = lk_event_end(capture, event->event) + shift;
		if (start < last) start = last;
		if (end > drawing->to_ns) end = drawing->to_ns;
		if (end <= start) continue;
		LK_TRY(trace_add_slice(drawing, capture, event->event, start, end, err));
		last = end;
	}
	return LK_OK;
}

/* From the first begin to the last end of a step that is looked at. */
static void trace_extent(struct drawing *drawing) {
	drawing->from_ns = INT64_MAX;
	drawing->to_ns = INT64_MIN;
	for (int i = 0; i < drawing->x->step_rows; i++) {
		const lk_explain_step *step = &drawing->x->steps[i];
		if (step->start_ns < drawing->from_ns) drawing->from_ns = step->start_ns;
		if (step->start_ns + step->dur_ns > drawing->to_ns)
			drawing->to_ns = step->start_ns + step->dur_ns;
	}
}

static lk_status trace_draw(struct drawing *drawing, lk_error *err) {
	if (!drawing->timeline) return lk_oom(err);
	trace_extent(drawing);
	/* Picoseconds have room for 100 days. */
	if (drawing->to_ns - drawing->from_ns > INT64_MAX / PS_PER_NS)
		return lk_fail(err, LK_ERR_INPUT, "--trace", "the steps last too long to be drawn");
	for (uint32_t i = 0; i < drawing->traces->count; i++) LK_TRY(draw_rank(drawing, i, err));
	return draw_path(drawing, err);
}

lk_status lk_explain_trace(const lk_explanation *explanation, const char *path, lk_error *err) {
	struct drawing d = {
		.timeline = lk_timeline_new(), .x = explanation, .traces = lk_explain_traces(explanation)};
	lk_status status = trace_draw(&d, err);
	if (status == LK_OK) status = lk_trace_write(d.timeline, path, err);
	lk_vec_free(&d.open);
	lk_timeline_free(d.timeline);
	return status;
}
