/* lift_waits.c: what the host and streams wait for. Newer profiles say it (lk_sync_note); of older ones only the calls are
 * there, so what they wait for is taken from what had been launched, if the measured times allow it. */
#include <string.h>

#include "trace/lift_parts.h"

/* Clocks of host and device are converted: that far an effect may seem to come before its cause. */
#define SLACK_NS 3000

/* So long after the device a call of the host returns, at most (3 to 15 us in traces that show such calls). */
#define RETURN_NS 20000

/* A lag longer than the first that ends within the second of another stream's work is no coincidence: streams of kernels of a few
 * microseconds leave one such end in some hundred microseconds. */
#define UNSAID_NS 30000
#define NEAR_NS 6000

static const lk_lifted_op *op_at(const lk_lifting *l, uint32_t op) {
	return &l->out->ops.at[op];
}

/* The stream's last operation that was over by `time`, among the last few; LK_NONE. */
static uint32_t over_by(const lk_lifting *l, uint8_t stream, int64_t time) {
	enum { LOOK_BACK = 64 };
	const lk_lift_stream *s = &l->stream[stream];
	for (size_t i = s->ops.count; i > 0 && s->ops.count - i < LOOK_BACK; i--)
		if (op_at(l, s->ops.at[i - 1])->end_ns <= time) return s->ops.at[i - 1];
	return LK_NONE;
}

static lk_status wait_for(lk_lifting *l, uint32_t op, uint32_t on, int64_t *until) {
	if (on == LK_NONE) return LK_OK;
	int64_t end = op_at(l, on)->end_ns;
	if (end > *until) *until = end;
	return lk_lift_depend(l, op, on);
}

static bool names(const lk_lifting *l, uint32_t call, const char *part) {
	return strstr(lk_capture_text(l->c, l->c->name[call]), part) != NULL;
}

/* The stream that a call on streams is about: as noted, else the one of the thread's last launch if that was over when the call
 * returned, else the one with work that was over last before it returned. LK_STREAMS: none. */
static unsigned sync_stream(const lk_lifting *l, const lk_sync_note *note, const lk_lift_thread *thread, int64_t end) {
	if (note && note->stream != LK_NONE) return l->stream_of[note->stream];
	if (thread->last_launch != LK_NONE && op_at(l, thread->last_launch)->end_ns <= end)
		return op_at(l, thread->last_launch)->stream;
	unsigned best = LK_STREAMS;
	for (unsigned s = 0; s < LK_STREAMS; s++) {
		if (l->stream[s].last == LK_NONE || l->stream[s].end_ns > end) continue;
		if (best == LK_STREAMS || l->stream[s].end_ns > l->stream[best].end_ns) best = s;
	}
	return best;
}

/* An event without a note: the device work that was over last while the call waited. */
static uint32_t awaited_event(const lk_lifting *l, int64_t start, int64_t end) {
	uint32_t best = LK_NONE;
	for (unsigned s = 0; s < LK_STREAMS; s++) {
		uint32_t op = l->stream[s].last == LK_NONE ? LK_NONE : over_by(l, (uint8_t)s, end);
		if (op == LK_NONE || op_at(l, op)->end_ns <= start) continue;
		if (best == LK_NONE || op_at(l, op)->end_ns > op_at(l, best)->end_ns) best = op;
	}
	return best;
}

lk_status lk_lift_sync(lk_lifting *l, uint32_t call, const lk_lift_thread *thread, uint32_t op, int64_t *until) {
	const lk_sync_note *note = lk_capture_sync(l->c, call);
	int64_t start = l->c->start_ns[call], end = lk_event_end(l->c, call) + SLACK_NS;
	if (names(l, call, "DeviceSync") || names(l, call, "CtxSync") || (note && note->kind == LK_SYNC_DEVICE)) {
		for (unsigned s = 0; s < LK_STREAMS; s++)
			if (l->stream[s].last != LK_NONE) LK_TRY(wait_for(l, op, over_by(l, (uint8_t)s, end), until));
		return LK_OK;
	}
	if (names(l, call, "EventSync")) return wait_for(l, op, awaited_event(l, start, end), until);
	unsigned s = sync_stream(l, note, thread, end);
	return s < LK_STREAMS && l->stream[s].last != LK_NONE ? wait_for(l, op, over_by(l, (uint8_t)s, end), until) : LK_OK;
}

/* A call that waits for a stream waits for all that was launched there: work with more behind it is not what ended the gap. */
lk_status lk_lift_unsaid_sync(lk_lifting *l, const lk_run *gap, uint32_t op, int64_t *until) {
	uint32_t on = LK_NONE;
	for (unsigned s = 0; s < LK_STREAMS; s++) {
		uint32_t last = l->stream[s].last;
		if (last == LK_NONE || op_at(l, last)->end_ns <= gap->start_ns || op_at(l, last)->end_ns > gap->end_ns) continue;
		if (on == LK_NONE || op_at(l, last)->end_ns > op_at(l, on)->end_ns) on = last;
	}
	return on != LK_NONE && gap->end_ns - op_at(l, on)->end_ns <= RETURN_NS ? wait_for(l, op, on, until) : LK_OK;
}

/* Among the other streams that were not waited for yet, the work that was over last by `time`. An event is recorded behind what
 * was launched last, so a stream whose last work was not over yet is asked only if no other is left. */
static uint32_t other_work(const lk_lifting *l, uint8_t stream, int64_t time, uint32_t taken, bool newest) {
	uint32_t best = LK_NONE;
	for (unsigned s = 0; s < LK_STREAMS; s++) {
		if (s == stream || (taken >> s & 1) || l->stream[s].last == LK_NONE) continue;
		uint32_t op = newest ? l->stream[s].last : over_by(l, (uint8_t)s, time);
		if (op != LK_NONE && op_at(l, op)->end_ns > time) continue;
		if (op != LK_NONE && (best == LK_NONE || op_at(l, op)->end_ns > op_at(l, best)->end_ns)) best = op;
	}
	return best;
}

lk_status lk_lift_stream_waits(lk_lifting *l, lk_lift_thread *thread, uint32_t event, uint8_t stream) {
	uint32_t waits = thread->wait_calls, taken = 0, place = LK_NONE;
	const lk_sync_note *note = thread->wait_event == LK_NONE ? NULL : lk_capture_sync(l->c, thread->wait_event);
	thread->wait_calls = 0;
	for (; waits > 0; waits--) {
		uint32_t on = LK_NONE;
		int64_t time = l->c->start_ns[event] + SLACK_NS;
		if (note && note->on != LK_NONE && l->stream_of[note->on] < LK_STREAMS) on = over_by(l, l->stream_of[note->on], time);
		else on = other_work(l, stream, time, taken, true);
		if (on == LK_NONE) on = other_work(l, stream, time, taken, false);
		if (on == LK_NONE) break;
		taken |= 1u << op_at(l, on)->stream;
		if (place == LK_NONE) {
			lk_lifted_op wait = {.what = LK_LIFTED_WAIT, .stream = stream, .event = LK_NONE};
			wait.start_ns = wait.end_ns = op_at(l, on)->end_ns;
			LK_TRY(lk_lift_add(l, &wait, &place));
		}
		lk_lifted_op *wait = &l->out->ops.at[place];
		if (op_at(l, on)->end_ns > wait->end_ns) wait->start_ns = wait->end_ns = op_at(l, on)->end_ns;
		LK_TRY(lk_lift_depend(l, place, on));
	}
	return LK_OK;
}

lk_status lk_lift_unsaid_wait(lk_lifting *l, uint32_t event, uint8_t stream, int64_t *ready) {
	int64_t start = l->c->start_ns[event];
	if (start - *ready <= UNSAID_NS) return LK_OK;
	uint32_t on = other_work(l, stream, start + SLACK_NS, 0, false), place;
	if (on == LK_NONE || start - op_at(l, on)->end_ns > NEAR_NS) return LK_OK;
	lk_lifted_op wait = {.what = LK_LIFTED_WAIT, .stream = stream, .event = LK_NONE};
	wait.start_ns = wait.end_ns = op_at(l, on)->end_ns;
	LK_TRY(lk_lift_add(l, &wait, &place));
	*ready = wait.end_ns;
	return lk_lift_depend(l, place, on);
}
