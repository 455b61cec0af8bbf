/* recording_socket.c: connections and pipes of programs without MPI: what they carried, and who waited for it. */
#include "trace/capture/capture.h"
#include "trace/read/recorded_internal.h"

static bool is_traffic(const lk_shower *s, const lk_recorded_call *call) {
	uint16_t kind = call->record.kind;
	return !call->process && (kind == LK_RECORD_SENT || kind == LK_RECORD_RECEIVED) && !lk_recorded_by_pipe(s->run, call);
}

static lk_status sum_traffic(lk_shower *s) {
	double sum = 0;
	for (size_t i = 0; i < s->run->calls.count; i++) {
		const lk_recorded_call *call = &s->run->calls.at[i];
		if (!is_traffic(s, call)) continue;
		if (!lk_push(&s->traffic)) return lk_oom(s->err);
		*lk_last(&s->traffic) = (lk_shown_traffic){call->record.start_ns, sum += (double)call->record.bytes};
	}
	return LK_OK;
}

/* Bytes until a moment. */
static double carried(const lk_shower *s, int64_t ns) {
	size_t low = 0, high = s->traffic.count;
	while (low < high) {
		size_t middle = (low + high) / 2;
		if (s->traffic.at[middle].ns <= ns) low = middle + 1;
		else high = middle;
	}
	return low ? s->traffic.at[low - 1].bytes : 0;
}

/* Whether what the main thread does after this is to read a pipe. */
static bool pipe_follows(const lk_shower *s, uint32_t index) {
	enum { LOOKED_AHEAD = 64 };
	uint16_t thread = s->run->calls.at[index].record.thread;
	for (size_t i = index + 1; i < s->run->calls.count && i < (size_t)index + LOOKED_AHEAD; i++) {
		const lk_recorded_call *call = &s->run->calls.at[i];
		if (call->process || call->record.thread != thread || call->record.kind == LK_RECORD_WAIT) continue;
		return call->record.kind == LK_RECORD_RECEIVED && lk_recorded_by_pipe(s->run, call);
	}
	return false;
}

static bool is_wait(const lk_shower *s, const lk_recorded_call *call) {
	return !call->process && call->record.kind == LK_RECORD_WAIT && call->record.thread == s->run->main_thread;
}

static lk_status add_burst(lk_shower *s, const lk_record_entry *r, uint16_t thread) {
	uint32_t event, lane = lk_capture_lane(s->c, false, s->run->head.pid, thread);
	int64_t end = r->end_ns > r->start_ns + 2 ? r->end_ns : r->start_ns + 2;
	if (lane == LK_NONE) return s->run->strange++, LK_OK;
	LK_TRY(lk_show_work(s, lane, LK_SHOWN_BLOCKING, s->sockets, r->start_ns, r->start_ns + 1, end, &event));
	return lk_show_note(s, event, r, LK_OP_COUNT, -1);
}

/* Traffic of all threads, and the main thread's waits for it, as one communication where they touch. */
lk_status lk_show_traffic(lk_shower *s) {
	static const int64_t APART_NS = 200000;
	lk_record_entry all = {.start_ns = -1};
	uint16_t thread = 0;
	LK_TRY(sum_traffic(s));
	for (size_t i = 0; i <= s->run->calls.count && s->traffic.count; i++) {
		const lk_recorded_call *call = i < s->run->calls.count ? &s->run->calls.at[i] : NULL;
		bool moves = call && is_traffic(s, call);
		if (call && !moves && !(is_wait(s, call) && !pipe_follows(s, (uint32_t)i))) continue;
		const lk_record_entry *r = call ? &call->record : NULL;
		if (!r || all.start_ns < 0 || r->start_ns > all.end_ns + APART_NS) {
			if (all.start_ns >= 0 && all.bytes) LK_TRY(add_burst(s, &all, thread));
			if (r) all = (lk_record_entry){.start_ns = r->start_ns, .end_ns = r->end_ns};
		}
		if (!r) break;
		if (r->end_ns > all.end_ns) all.end_ns = r->end_ns;
		if (moves) all.bytes += r->bytes, thread = r->thread;
	}
	return LK_OK;
}

/* A call of the main thread that waits, or that moves bytes itself. */
lk_status lk_show_waiting(lk_shower *s, uint32_t lane, uint32_t index) {
	const lk_recorded_call *call = &s->run->calls.at[index];
	const lk_record_entry *r = &call->record;
	uint32_t event;
	bool pipe = r->kind == LK_RECORD_WAIT ? pipe_follows(s, index) : lk_recorded_by_pipe(s->run, call);
	double bytes = r->kind == LK_RECORD_WAIT ? carried(s, r->end_ns) - carried(s, r->start_ns) : (double)r->bytes;
	if (pipe) return lk_show_event(s, LK_EVENT_NOTE, lane, s->from_pipe, r->start_ns, r->end_ns, 0, &event);
	return bytes > 0 ? lk_show_wait(s, lane, LK_SHOWN_BLOCKING, false, r->start_ns, r->end_ns) : LK_OK;
}
