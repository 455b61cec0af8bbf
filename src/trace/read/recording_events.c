/* recording_events.c: events, waits and notes of a recording as rows of a capture: shared by the
 * files that show recordings. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "trace/capture/capture.h"
#include "trace/read/recorded_internal.h"

lk_status lk_show_name(lk_shower *shower, const char *text, uint32_t *out) {
	*out = lk_intern_id(shower->capture->names, text);
	return *out == UINT32_MAX ? lk_oom(shower->err) : LK_OK;
}

lk_status lk_show_event(lk_shower *shower, lk_event_kind kind, uint32_t lane, uint32_t name,
                        int64_t start, int64_t end, uint32_t correlation, uint32_t *event) {
	LK_ASSERT(start <= INT64_MAX / 2 && kind < LK_EVENT_KINDS);
	lk_event e = {.kind = kind,
	              .start_ns = start,
	              .dur_ns = end > start ? end - start : 0,
	              .lane = lane,
	              .name = name,
	              .correlation = correlation};
	*event = lane == LK_NONE ? LK_NONE : lk_capture_add(shower->capture, &e);
	return *event == LK_NONE ? lk_oom(shower->err) : LK_OK;
}

lk_status lk_show_wait(lk_shower *shower, uint32_t lane, uint32_t stream, bool all, int64_t start,
                       int64_t end) {
	uint32_t event;
	LK_TRY(
		lk_show_event(shower, LK_EVENT_RUNTIME, lane, shower->synchronize, start, end, 0, &event));
	if (!lk_push(&shower->capture->syncs)) return lk_oom(shower->err);
	*lk_last(&shower->capture->syncs) = (lk_sync_note){
		.event = event, .stream = all ? LK_NONE : shower->stream[stream], .on = LK_NONE};
	lk_last(&shower->capture->syncs)->kind = all ? LK_SYNC_DEVICE : LK_SYNC_STREAM;
	return LK_OK;
}

/* Work on a stream, launched by `call` at its start. */
lk_status lk_show_work(lk_shower *shower, uint32_t lane, uint32_t stream, uint32_t name,
                       int64_t start, int64_t launched, int64_t end, uint32_t *event) {
	uint32_t call, correlation = ++shower->correlation;
	LK_ASSERT(stream > 0 && stream < LK_SHOWN_STREAMS && correlation > 0);
	LK_TRY(
		lk_show_event(shower, LK_EVENT_RUNTIME, lane, name, start, launched, correlation, &call));
	return lk_show_event(shower, LK_EVENT_KERNEL, shower->stream[stream], name, start + 1, end,
	                     correlation, event);
}

unsigned lk_show_kind(lk_comm_what what) {
	static const uint8_t kinds[LK_WHATS] = {
		[LK_WHAT_OTHER] = LK_OP_COUNT,         [LK_WHAT_ALLREDUCE] = LK_OP_ALLREDUCE,
		[LK_WHAT_REDUCE] = LK_OP_ALLREDUCE,    [LK_WHAT_BROADCAST] = LK_OP_BROADCAST,
		[LK_WHAT_ALLGATHER] = LK_OP_ALLGATHER, [LK_WHAT_GATHER] = LK_OP_ALLGATHER,
		[LK_WHAT_SCATTER] = LK_OP_BROADCAST,   [LK_WHAT_REDUCESCATTER] = LK_OP_REDUCESCATTER,
		[LK_WHAT_ALLTOALL] = LK_OP_ALLTOALL,   [LK_WHAT_BARRIER] = LK_OP_ALLREDUCE,
		[LK_WHAT_SCAN] = LK_OP_COUNT,          [LK_WHAT_SEND] = LK_OP_SEND,
		[LK_WHAT_RECV] = LK_OP_RECV,           [LK_WHAT_SENDRECV] = LK_OP_COUNT,
	};
	LK_ASSERT(what < LK_WHATS);
	return kinds[what];
}

/* The world rank of a rank of a group, from its list "[4, 6]"; unchanged if the list does not
 * tell. */
static int32_t world_rank(const char *list, int32_t rank) {
	const char *at = *list == '[' ? list + 1 : list;
	for (int32_t i = 0; i < rank && at; i++) {
		at = strchr(at, ',');
		if (at) at++;
	}
	if (!at || rank < 0) return -1;
	char *end;
	long value = strtol(at, &end, 10);
	return end != at && value >= 0 && value < 1 << 30 ? (int32_t)value : -1;
}

lk_status lk_show_note(lk_shower *shower, uint32_t event, const lk_record_entry *entry,
                       unsigned kind, int32_t peer) {
	LK_ASSERT(event < shower->capture->count && kind < LK_OP_COUNT + 1u);
	const lk_recorded_name *group = lk_recorded_find(&shower->run->groups, 0, entry->object);
	if (!lk_push(&shower->capture->comms)) return lk_oom(shower->err);
	lk_comm_note *note = lk_last(&shower->capture->comms);
	*note = (lk_comm_note){.event = event,
	                       .kind = (uint8_t)kind,
	                       .element_bytes = 1,
	                       .peer = -1,
	                       .in_elements = entry->bytes,
	                       .out_elements = entry->bytes};
	if (!group) return LK_OK;
	note->group = note->group_text = group->shown;
	if (*lk_capture_text(shower->capture, group->name) == '[') note->ranks = group->name;
	note->group_size = group->size > 0 ? group->size : 0;
	if (kind != LK_OP_SEND && kind != LK_OP_RECV) return LK_OK;
	note->peer = world_rank(lk_capture_text(shower->capture, group->name), peer);
	if (entry->comm.part != LK_PART_ENQUEUE) note->tag = entry->comm.tag;
	if (entry->comm.what == LK_WHAT_RECV && entry->comm.part == LK_PART_WHOLE &&
	    entry->comm.from >= 0)
		note->in_elements = note->out_elements = entry->comm.from;
	return LK_OK;
}
