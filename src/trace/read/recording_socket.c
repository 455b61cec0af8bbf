/* recording_socket.c: connections and pipes of programs without MPI: their traffic, and waits for
 * it. */
#include "trace/capture/capture.h"
#include "trace/read/recorded_internal.h"
#include "base/check.h"

static bool is_traffic(const lk_shower *shower, const lk_recorded_call *call) {
	uint16_t kind = call->record.kind;
	return !call->process && (kind == LK_RECORD_SENT || kind == LK_RECORD_RECEIVED) &&
	       !lk_recorded_by_pipe(shower->run, call);
}

static lk_status sum_traffic(lk_shower *shower) {
	double sum = 0;
	for (size_t i = 0; i < shower->run->calls.count; i++) {
		const lk_recorded_call *call = &shower->run->calls.at[i];
		if (!is_traffic(shower, call)) continue;
		if (!lk_push(&shower->traffic)) return lk_oom(shower->err);
		*lk_last(&shower->traffic) =
			(lk_shown_traffic){call->record.start_ns, sum += (double)call->record.bytes};
	}
	return LK_OK;
}

/* Bytes until a moment. */
static double socket_carried(const lk_shower *shower, int64_t ns) {
	size_t low = 0, high = shower->traffic.count;
	while (low < high) {
		size_t middle = (low + high) / 2;
		if (shower->traffic.at[middle].ns <= ns) low = middle + 1;
		else high = middle;
	}
	LK_ASSERT(low <= shower->traffic.count);
	return low ? shower->traffic.at[low - 1].bytes : 0;
}

/* Whether the main thread's next action is to read a pipe. */
static bool pipe_follows(const lk_shower *shower, uint32_t index) {
	enum { LOOKED_AHEAD = 64 };
	LK_ASSERT(index < shower->run->calls.count);
	uint16_t thread = shower->run->calls.at[index].record.thread;
	for (size_t i = index + 1; i < shower->run->calls.count && i < (size_t)index + LOOKED_AHEAD;
	     i++) {
		const lk_recorded_call *call = &shower->run->calls.at[i];
		if (call->process || call->record.thread != thread || call->record.kind == LK_RECORD_WAIT)
			continue;
		return call->record.kind == LK_RECORD_RECEIVED && lk_recorded_by_pipe(shower->run, call);
	}
	return false;
}

static bool is_wait(const lk_shower *shower, const lk_recorded_call *call) {
	return !call->process && call->record.kind == LK_RECORD_WAIT &&
	       call->record.object != LK_WAIT_SLEEP && call->record.thread == shower->run->main_thread;
}

static lk_status add_burst(lk_shower *shower, const lk_record_entry *entry, uint16_t thread) {
	uint32_t event, lane = lk_capture_lane(shower->capture, false, shower->run->head.pid, thread);
	int64_t end = entry->end_ns > entry->start_ns + 2 ? entry->end_ns : entry->start_ns + 2;
	if (lane == LK_NONE) {
		shower->run->strange++;
		return LK_OK;
	}
	LK_TRY(lk_show_work(shower, lane, LK_SHOWN_BLOCKING, shower->sockets, entry->start_ns,
	                    entry->start_ns + 1, end, &event));
	return lk_show_note(shower, event, entry, LK_OP_COUNT, -1);
}

/* Merge the traffic of all threads, and the main thread's waits for it, into one communication
 * where they touch. */
lk_status lk_show_traffic(lk_shower *shower) {
	static const int64_t APART_NS = 200000;
	lk_record_entry all = {.start_ns = -1};
	uint16_t thread = 0;
	LK_TRY(sum_traffic(shower));
	for (size_t i = 0; i <= shower->run->calls.count && shower->traffic.count; i++) {
		const lk_recorded_call *call =
			i < shower->run->calls.count ? &shower->run->calls.at[i] : NULL;
		bool moves = call && is_traffic(shower, call);
		if (call && !moves && !(is_wait(shower, call) && !pipe_follows(shower, (uint32_t)i)))
			continue;
		const lk_record_entry *entry = call ? &call->record : NULL;
		if (!entry || all.start_ns < 0 || entry->start_ns > all.end_ns + APART_NS) {
			if (all.start_ns >= 0 && all.bytes) LK_TRY(add_burst(shower, &all, thread));
			if (entry)
				all = (lk_record_entry){.start_ns = entry->start_ns, .end_ns = entry->end_ns};
		}
		if (!entry) break;
		if (entry->end_ns > all.end_ns) all.end_ns = entry->end_ns;
		if (moves) {
			all.bytes += entry->bytes;
			thread = entry->thread;
		}
	}
	return LK_OK;
}

/* A call of the main thread that waits, or that moves bytes itself. */
lk_status lk_show_waiting(lk_shower *shower, uint32_t lane, uint32_t index) {
	const lk_recorded_call *call = &shower->run->calls.at[index];
	const lk_record_entry *entry = &call->record;
	uint32_t event;
	bool pipe = entry->kind == LK_RECORD_WAIT ? pipe_follows(shower, index)
	                                          : lk_recorded_by_pipe(shower->run, call);
	double bytes = entry->kind == LK_RECORD_WAIT ? socket_carried(shower, entry->end_ns) -
	                                                   socket_carried(shower, entry->start_ns)
	                                             : (double)entry->bytes;
	if (pipe)
		return lk_show_event(shower, LK_EVENT_NOTE, lane, shower->from_pipe, entry->start_ns,
		                     entry->end_ns, 0, &event);
	return bytes > 0 ? lk_show_wait(shower, lane, LK_SHOWN_BLOCKING, false, entry->start_ns,
	                                entry->end_ns)
	                 : LK_OK;
}
