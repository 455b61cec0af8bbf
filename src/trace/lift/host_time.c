/* host_time.c: one pass over a thread's events with a stack of the open ones. */
#include "trace/lift/lift.h"

#include <string.h>
#include "base/check.h"
#include "base/stats.h"
#include "base/text.h"

enum { MOST_OPEN = 512 };

struct open_op {
	uint32_t event, path;
	int64_t cursor, end; /* time accounted for so far */
	bool had;            /* had a child or a launch */
};

struct walk {
	const lk_capture *capture;
	int64_t from, to;
	lk_host_pieces *out;
	struct open_op open[MOST_OPEN]; /* open[0] is the thread itself */
	int depth;
	bool backward; /* an autograd thread */
	bool no_memory;
};

static bool host_time_loads_data(const char *name) {
	return lk_begins_with(name, "enumerate(DataLoader)") || lk_begins_with(name, "file:read ");
}

/* Annotations that represent an operation own the time inside them. Others only name a stretch of
 * time. */
static bool is_op(const lk_capture *capture, uint32_t event) {
	LK_ASSERT(event < capture->count);
	if (capture->kind[event] == LK_EVENT_OP) return true;
	if (capture->kind[event] != LK_EVENT_NOTE) return false;
	const char *name = lk_capture_text(capture, capture->name[event]);
	return host_time_loads_data(name) || lk_begins_with(name, "Optimizer.") ||
	       lk_begins_with(name, "gloo:") || lk_begins_with(name, "mpi:");
}

lk_call_kind lk_host_call(const lk_capture *capture, uint32_t event) {
	LK_ASSERT(event < capture->count);
	if (capture->kind[event] != LK_EVENT_RUNTIME) return LK_CALL_NONE;
	if (capture->launch[event] != LK_NONE) return LK_CALL_LAUNCH;
	const char *name = lk_capture_text(capture, capture->name[event]);
	if (strstr(name, "StreamWaitEvent")) return LK_CALL_STREAM_WAIT;
	if (strstr(name, "Synchronize")) return LK_CALL_SYNC;
	return LK_CALL_NONE;
}

/* ---- phases ---- */

static lk_phase host_time_phase_of(const struct walk *walk) {
	for (int i = walk->depth; i > 0; i--) {
		const char *name = lk_capture_text(walk->capture, walk->capture->name[walk->open[i].event]);
		if (lk_begins_with(name, "Optimizer.step")) return LK_PHASE_OPTIMIZER;
		if (lk_begins_with(name, "Optimizer.")) return LK_PHASE_OTHER;
		if (lk_begins_with(name, "autograd::engine")) return LK_PHASE_BACKWARD;
	}
	return walk->backward ? LK_PHASE_BACKWARD : LK_PHASE_FORWARD;
}

static bool loading(const struct walk *walk) {
	for (int i = walk->depth; i > 0; i--)
		if (host_time_loads_data(
				lk_capture_text(walk->capture, walk->capture->name[walk->open[i].event])))
			return true;
	return false;
}

/* ---- pieces ---- */

static void host_time_put(struct walk *walk, uint32_t event, uint32_t name, int term,
                          lk_call_kind call, int64_t start, int64_t end) {
	if (start < walk->from) start = walk->from;
	if (end > walk->to) end = walk->to;
	if (end < start || (end == start && call == LK_CALL_NONE)) return;
	/* A call that begins outside belongs to another stretch. */
	if (call != LK_CALL_NONE && event != LK_NONE && walk->capture->start_ns[event] < walk->from)
		call = LK_CALL_NONE;
	LK_ASSERT(term >= LK_T1 && term <= LK_T5 && start <= end);
	if (!lk_push(walk->out)) {
		walk->no_memory = true;
		return;
	}
	*lk_last(walk->out) = (lk_host_piece){
		.event = event,
		.name = name,
		.path = walk->open[walk->depth].path,
		.term = (uint8_t)term,
		.call = (uint8_t)call,
		.phase = (uint8_t)host_time_phase_of(walk),
		.loading = loading(walk),
		.half = LK_NONE,
		.start_ns = start,
		.dur_ns = end - start,
	};
}

/* Account for the time of the innermost operation from its cursor to `until`, where a child begins
 * or it ends. */
static void host_time_account(struct walk *walk, int64_t until, uint32_t next, bool over) {
	struct open_op *open_op = &walk->open[walk->depth];
	if (walk->depth == 0) {
		host_time_put(walk, next, next == LK_NONE ? 0 : walk->capture->name[next], LK_T1,
		              LK_CALL_NONE, open_op->cursor, until);
	} else {
		int term;
		if (over) {
			if (open_op->had) term = LK_T3;
			else term = LK_T5;
		} else if (open_op->had) term = LK_T5;
		else term = LK_T2;
		host_time_put(walk, open_op->event, walk->capture->name[open_op->event], term, LK_CALL_NONE,
		              open_op->cursor, until);
	}
	if (until > open_op->cursor) open_op->cursor = until;
}

static void close_op(struct walk *walk) {
	LK_ASSERT(walk->depth > 0);
	struct open_op *open_op = &walk->open[walk->depth], *outer = &walk->open[walk->depth - 1];
	host_time_account(walk, open_op->end, LK_NONE, true);
	if (open_op->cursor > outer->cursor) outer->cursor = open_op->cursor;
	outer->had = true;
	walk->depth--;
}

static void open_event(struct walk *walk, uint32_t event) {
	LK_ASSERT(event < walk->capture->count);
	const lk_capture *capture = walk->capture;
	if (walk->depth + 1 >= MOST_OPEN) return;
	host_time_account(walk, capture->start_ns[event], event, false);
	const struct open_op *outer = &walk->open[walk->depth];
	int64_t end = lk_event_end(capture, event);
	walk->open[walk->depth + 1] = (struct open_op){
		.event = event,
		.path = (uint32_t)(lk_hash64((uint64_t)outer->path << 32 | capture->name[event]) >> 20),
		.cursor = outer->cursor, /* behind what it begins inside of: a call */
		.end = walk->depth && end > outer->end ? outer->end : end,
	};
	walk->depth++;
}

static void call_event(struct walk *walk, uint32_t event, lk_call_kind call) {
	LK_ASSERT(event < walk->capture->count);
	const lk_capture *capture = walk->capture;
	struct open_op *open_op = &walk->open[walk->depth];
	if (capture->start_ns[event] < open_op->cursor) return; /* inside another call */
	host_time_account(walk, capture->start_ns[event], event, false);
	host_time_put(walk, event, capture->name[event], LK_T4, call, capture->start_ns[event],
	              lk_event_end(capture, event));
	open_op->cursor = lk_event_end(capture, event);
	open_op->had = true;
}

/* Whether a thread runs autograd's operations. */
static bool is_backward(const lk_capture *capture, uint32_t lane) {
	for (uint32_t at = capture->lanes.at[lane].begin; at < capture->lanes.at[lane].end; at++)
		if (capture->kind[capture->order[at]] == LK_EVENT_OP)
			return lk_begins_with(lk_capture_text(capture, capture->name[capture->order[at]]),
			                      "autograd::engine");
	return false;
}

lk_status lk_host_time(const lk_capture *capture, uint32_t lane, int64_t from, int64_t to,
                       lk_host_pieces *out, lk_error *err) {
	struct walk w = {.capture = capture,
	                 .from = from,
	                 .to = to,
	                 .out = out,
	                 .backward = is_backward(capture, lane)};
	w.open[0] = (struct open_op){.event = LK_NONE, .cursor = from, .end = INT64_MAX};
	for (uint32_t at = capture->lanes.at[lane].begin; at < capture->lanes.at[lane].end; at++) {
		uint32_t event = capture->order[at];
		if (lk_event_end(capture, event) < from) continue;
		if (capture->start_ns[event] >= to) break;
		lk_call_kind call = lk_host_call(capture, event);
		bool op = is_op(capture, event);
		if (!op && call == LK_CALL_NONE) continue;
		while (w.depth > 0 && w.open[w.depth].end <= capture->start_ns[event]) close_op(&w);
		if (op) open_event(&w, event);
		else call_event(&w, event, call);
	}
	while (w.depth > 0) close_op(&w);
	host_time_account(&w, to, LK_NONE, true);
	return w.no_memory ? lk_oom(err) : LK_OK;
}
