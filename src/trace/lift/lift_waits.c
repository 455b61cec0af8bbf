/* lift_waits.c: what the host and streams wait for. Newer profiles state it (lk_sync_note); older
 * ones have only the calls, so the awaited work is inferred from earlier launches, if the measured
 * times allow it. */
#include <string.h>

#include "trace/lift/lift_internal.h"
#include "base/check.h"

/* A host call returns at most this long after the device work (3 to 15 us in traces that show such
 * calls). */
#define RETURN_NS 20000

static const lk_lifted_op *op_at(const lk_lifting *lifting, uint32_t op) {
	LK_ASSERT(op < lifting->out->ops.count);
	return &lifting->out->ops.at[op];
}

uint32_t lk_lift_over_by(const lk_lifting *lifting, uint8_t stream, int64_t time) {
	enum { LOOK_BACK = 64 };
	LK_ASSERT(stream < LK_STREAMS);
	const lk_lift_stream *lift_stream = &lifting->stream[stream];
	for (size_t i = lift_stream->ops.count; i > 0 && lift_stream->ops.count - i < LOOK_BACK; i--)
		if (op_at(lifting, lift_stream->ops.at[i - 1])->end_ns <= time)
			return lift_stream->ops.at[i - 1];
	return LK_NONE;
}

static lk_status lift_wait_for(lk_lifting *lifting, uint32_t op, uint32_t on) {
	return on == LK_NONE ? LK_OK : lk_lift_depend(lifting, op, on);
}

static bool waits_names(const lk_lifting *lifting, uint32_t call, const char *part) {
	return strstr(lk_capture_text(lifting->capture, lifting->capture->name[call]), part) != NULL;
}

/* The stream that a synchronising call waits for: as noted, else the stream of the thread's last
 * launch if it ended before the call returned, else the stream whose work ended last before the
 * call returned. LK_STREAMS: none. */
static unsigned sync_stream(const lk_lifting *lifting, const lk_sync_note *note,
                            const lk_lift_thread *thread, int64_t end) {
	if (note && note->stream != LK_NONE) return lifting->stream_of[note->stream];
	if (thread->last_launch != LK_NONE && op_at(lifting, thread->last_launch)->end_ns <= end)
		return op_at(lifting, thread->last_launch)->stream;
	unsigned best = LK_STREAMS;
	for (unsigned s = 0; s < LK_STREAMS; s++) {
		if (lifting->stream[s].last == LK_NONE || lifting->stream[s].end_ns > end) continue;
		if (best == LK_STREAMS || lifting->stream[s].end_ns > lifting->stream[best].end_ns)
			best = s;
	}
	return best;
}

/* An event without a note: the last device work to end while the call waited. */
static uint32_t awaited_event(const lk_lifting *lifting, int64_t start, int64_t end) {
	uint32_t best = LK_NONE;
	for (unsigned s = 0; s < LK_STREAMS; s++) {
		uint32_t op = lifting->stream[s].last == LK_NONE
		                  ? LK_NONE
		                  : lk_lift_over_by(lifting, (uint8_t)s, end);
		if (op == LK_NONE || op_at(lifting, op)->end_ns <= start) continue;
		if (best == LK_NONE || op_at(lifting, op)->end_ns > op_at(lifting, best)->end_ns) best = op;
	}
	return best;
}

lk_status lk_lift_sync(lk_lifting *lifting, uint32_t call, const lk_lift_thread *thread,
                       uint32_t op) {
	const lk_sync_note *note = lk_capture_sync(lifting->capture, call);
	int64_t start = lifting->capture->start_ns[call],
			end = lk_event_end(lifting->capture, call) + LK_LIFT_SLACK_NS;
	if (waits_names(lifting, call, "DeviceSync") || waits_names(lifting, call, "CtxSync") ||
	    (note && note->kind == LK_SYNC_DEVICE)) {
		for (unsigned s = 0; s < LK_STREAMS; s++)
			if (lifting->stream[s].last != LK_NONE)
				LK_TRY(lift_wait_for(lifting, op, lk_lift_over_by(lifting, (uint8_t)s, end)));
		return LK_OK;
	}
	if (waits_names(lifting, call, "EventSync"))
		return lift_wait_for(lifting, op, awaited_event(lifting, start, end));
	unsigned s = sync_stream(lifting, note, thread, end);
	return s < LK_STREAMS && lifting->stream[s].last != LK_NONE
	           ? lift_wait_for(lifting, op, lk_lift_over_by(lifting, (uint8_t)s, end))
	           : LK_OK;
}

/* A call that waits for a stream waits for everything launched there, so only a stream's last
 * operation can have ended the gap. */
lk_status lk_lift_unsaid_sync(lk_lifting *lifting, const lk_run *gap, uint32_t op) {
	uint32_t on = LK_NONE;
	for (unsigned s = 0; s < LK_STREAMS; s++) {
		uint32_t last = lifting->stream[s].last;
		if (last == LK_NONE || op_at(lifting, last)->end_ns <= gap->start_ns ||
		    op_at(lifting, last)->end_ns > gap->end_ns)
			continue;
		if (on == LK_NONE || op_at(lifting, last)->end_ns > op_at(lifting, on)->end_ns) on = last;
	}
	return on != LK_NONE && gap->end_ns - op_at(lifting, on)->end_ns <= RETURN_NS
	           ? lift_wait_for(lifting, op, on)
	           : LK_OK;
}

/* The stream on which an event was recorded is unknown. Communication waits for the computation
 * launched last; other work waits for communication that its stream has not waited for yet, else
 * for the last work to end on any other stream. Work still running when the waiting work began was
 * not waited for. */
struct choice {
	uint32_t op;
	int rank; /* higher is likelier */
	int64_t end_ns;
};

static bool waits_is_comm(const lk_lifting *lifting, uint32_t op) {
	return op_at(lifting, op)->what == LK_LIFTED_COMM;
}

static struct choice waits_judge(const lk_lifting *lifting, uint8_t stream, uint8_t other,
                                 bool comm, int64_t time) {
	uint32_t last = lifting->stream[other].last, op = last;
	struct choice c = {.op = LK_NONE};
	if (last == LK_NONE || other == stream) return c;
	if (op_at(lifting, last)->end_ns > time) op = lk_lift_over_by(lifting, other, time);
	if (op == LK_NONE) return c;
	bool fresh = op == last && lifting->awaited[stream][other] != last + 1;
	c = (struct choice){op, 0, op_at(lifting, op)->end_ns};
	if (comm) {
		if (waits_is_comm(lifting, last)) c.rank = 0;
		else if (fresh) c.rank = 2;
		else c.rank = 1;
	} else {
		if (fresh && waits_is_comm(lifting, last)) c.rank = 3;
		else if (fresh) c.rank = 2;
		else if (op == last) c.rank = 1;
		else c.rank = 0;
	}
	return c;
}

static uint32_t other_work(const lk_lifting *lifting, uint8_t stream, bool comm, int64_t time,
                           uint32_t taken) {
	struct choice best = {.op = LK_NONE};
	for (unsigned s = 0; s < LK_STREAMS; s++) {
		if (taken >> s & 1) continue;
		struct choice c = waits_judge(lifting, stream, (uint8_t)s, comm, time);
		bool later = comm ? c.op > best.op : c.end_ns > best.end_ns;
		if (c.op != LK_NONE &&
		    (best.op == LK_NONE || c.rank > best.rank || (c.rank == best.rank && later)))
			best = c;
	}
	return best.op;
}

lk_status lk_lift_stream_waits(lk_lifting *lifting, lk_lift_thread *thread, uint32_t event,
                               uint8_t stream) {
	LK_ASSERT(event < lifting->capture->count);
	uint32_t waits = thread->wait_calls, taken = 0, place = LK_NONE;
	const lk_sync_note *note = thread->wait_event == LK_NONE
	                               ? NULL
	                               : lk_capture_sync(lifting->capture, thread->wait_event);
	bool comm = lk_lift_communicates(lifting->capture, event);
	int64_t time = lifting->capture->start_ns[event] + LK_LIFT_SLACK_NS;
	thread->wait_calls = 0;
	for (; waits > 0; waits--) {
		bool said = note && note->on != LK_NONE && lifting->stream_of[note->on] < LK_STREAMS;
		uint32_t on = said ? lk_lift_over_by(lifting, lifting->stream_of[note->on], time)
		                   : other_work(lifting, stream, comm, time, taken);
		if (on == LK_NONE) break;
		unsigned other = op_at(lifting, on)->stream;
		taken |= 1u << other;
		lifting->awaited[stream][other] = on + 1;
		if (place == LK_NONE) {
			lk_lifted_op wait = {.what = LK_LIFTED_WAIT, .stream = stream, .event = LK_NONE};
			wait.start_ns = wait.end_ns = op_at(lifting, on)->end_ns;
			LK_TRY(lk_lift_add(lifting, &wait, &place));
		}
		lk_lifted_op *wait = &lifting->out->ops.at[place];
		if (op_at(lifting, on)->end_ns > wait->end_ns)
			wait->start_ns = wait->end_ns = op_at(lifting, on)->end_ns;
		LK_TRY(lk_lift_depend(lifting, place, on));
	}
	return LK_OK;
}
