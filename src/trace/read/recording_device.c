/* recording_device.c: calls of a device's runtime and of NCCL, and the work on its streams, as a
 * profiler shows them: the call on the thread's lane, the work on its stream's lane, joined by a
 * correlation; waits with what they wait for.
 *
 * Kernels between two marks are one piece of work, "kernels". Communications that reached a stream
 * together (a group of calls) are one piece too: received messages overlap with all others, which
 * share the piece by their bytes. */

#include "base/check.h"
#include "base/sort.h"
#include "trace/read/recorded_internal.h"

/* ---- work by serial ---- */

LK_ORDER_BY(device_by_serial, lk_shown_work, serial, call)

static lk_shown_work *device_find(lk_shown_work *at, size_t count, uint64_t serial) {
	LK_ASSERT(!count || at);
	size_t low = 0, high = count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (at[middle].serial < serial) low = middle + 1;
		else high = middle;
	}
	return serial && low < count && at[low].serial == serial ? &at[low] : NULL;
}

static bool device_received(const lk_record_entry *entry) {
	return entry->comm.what == LK_WHAT_RECV;
}

/* Weight of a communication among those that share a piece of work. */
static double device_weight(const lk_record_entry *entry) {
	return (double)entry->bytes + 1;
}

static const lk_shown_stream *find_stream(const lk_shower *shower, uint32_t theirs) {
	for (size_t i = 0; i < shower->streams.count; i++)
		if (shower->streams.at[i].theirs == theirs) return &shower->streams.at[i];
	return NULL;
}

/* Map CUPTI's streams to the program's, from calls whose work is known. */
static lk_status match_streams(lk_shower *shower) {
	const lk_recorded_run *run = shower->run;
	for (uint32_t i = 0; i < run->calls.count; i++) {
		const lk_record_entry *entry = &run->calls.at[i].record;
		if (run->calls.at[i].process || entry->kind != LK_RECORD_DEVICE_CALL ||
		    !entry->device.stream)
			continue;
		const lk_shown_work *work =
			device_find(shower->works.at, shower->works.count, entry->device.serial);
		uint32_t theirs = work ? run->calls.at[work->call].record.device.stream : 0;
		if (!theirs || find_stream(shower, theirs)) continue;
		if (!lk_push(&shower->streams)) return lk_oom(shower->err);
		*lk_last(&shower->streams) =
			(lk_shown_stream){.theirs = theirs, .ours = entry->device.stream};
	}
	return LK_OK;
}

lk_status lk_show_prepare_device(lk_shower *shower) {
	const lk_recorded_run *run = shower->run;
	for (uint32_t i = 0; i < run->calls.count; i++) {
		const lk_record_entry *entry = &run->calls.at[i].record;
		if (run->calls.at[i].process) continue;
		lk_shown_work one = {.serial = entry->device.serial, .call = i};
		if (entry->kind == LK_RECORD_DEVICE_WORK) {
			if (!lk_push(&shower->works)) return lk_oom(shower->err);
			*lk_last(&shower->works) = one;
		} else if (entry->kind == LK_RECORD_DEVICE_CALL && entry->device.what == LK_DEVICE_RECORD) {
			if (!lk_push(&shower->recorded)) return lk_oom(shower->err);
			*lk_last(&shower->recorded) = one;
		}
	}
	lk_sort(shower->works.at, shower->works.count, sizeof *shower->works.at, device_by_serial);
	lk_sort(shower->recorded.at, shower->recorded.count, sizeof *shower->recorded.at,
	        device_by_serial);
	for (uint32_t i = 0; i < run->calls.count; i++) {
		const lk_record_entry *entry = &run->calls.at[i].record;
		if (run->calls.at[i].process || entry->kind != LK_RECORD_COMM ||
		    entry->comm.part != LK_PART_ENQUEUE)
			continue;
		lk_shown_work *work =
			device_find(shower->works.at, shower->works.count, entry->comm.request);
		if (work) work->bytes[device_received(entry)] += device_weight(entry);
	}
	return match_streams(shower);
}

void lk_show_free_device(lk_shower *shower) {
	lk_vec_free(&shower->works);
	lk_vec_free(&shower->recorded);
	lk_vec_free(&shower->streams);
}

/* ---- lanes ---- */

/* Two lanes per stream: the second has concurrent work. */
static uint32_t device_lane_of(lk_shower *shower, uint32_t stream, bool beside) {
	return stream ? lk_capture_lane(shower->capture, true, 0,
	                                LK_SHOWN_DEVICE + 2 * (int64_t)stream + beside)
	              : LK_NONE;
}

static lk_status device_name_of(lk_shower *shower, const lk_recorded_call *call, uint32_t number,
                                const char *otherwise, uint32_t *out) {
	const lk_recorded_name *name =
		number ? lk_recorded_find(&shower->run->names, call->process, number) : NULL;
	if (!name) return lk_show_name(shower, otherwise, out);
	*out = name->name;
	return LK_OK;
}

/* ---- work ---- */

static lk_status work_name(lk_shower *shower, const lk_recorded_call *work, uint8_t direction,
                           uint32_t *out) {
	static const char *const copies[] = {"Memcpy HtoH", "Memcpy HtoD", "Memcpy DtoH", "Memcpy DtoD",
	                                     "Memcpy (Unknown)"};
	const lk_record_entry *entry = &work->record;
	if (entry->device.what == LK_DEVICE_COPY)
		return lk_show_name(shower, copies[direction < 4 ? direction : 4], out);
	if (entry->device.what == LK_DEVICE_SET) return lk_show_name(shower, "Memset", out);
	return device_name_of(shower, work, entry->device.call, "kernels", out);
}

static lk_event_kind device_event_kind(const lk_record_entry *entry) {
	switch (entry->device.what) {
	case LK_DEVICE_COPY: return LK_EVENT_MEMCPY;
	case LK_DEVICE_SET: return LK_EVENT_MEMSET;
	default: return LK_EVENT_KERNEL;
	}
}

/* The work that a call has put on its stream, once for all calls that it came from. */
static lk_status device_add_work(lk_shower *shower, const lk_record_entry *call,
                                 uint32_t *correlation) {
	lk_shown_work *first = device_find(shower->works.at, shower->works.count, call->device.serial);
	for (lk_shown_work *shown_work = first;
	     shown_work && shown_work < shower->works.at + shower->works.count &&
	     shown_work->serial == first->serial;
	     shown_work++) {
		const lk_recorded_call *work = &shower->run->calls.at[shown_work->call];
		const lk_record_entry *entry = &work->record;
		/* CUPTI has numbers of its own for streams */
		uint32_t lane = device_lane_of(
					 shower, call->device.stream ? call->device.stream : entry->device.stream,
					 false),
				 name;
		if (shown_work->correlation || lane == LK_NONE || entry->device.what > LK_DEVICE_SET)
			continue;
		if (!*correlation) *correlation = ++shower->correlation;
		shown_work->correlation = *correlation;
		LK_TRY(work_name(shower, work, call->device.direction, &name));
		lk_event e = {.kind = device_event_kind(entry),
		              .start_ns = entry->start_ns,
		              .dur_ns =
		                  entry->end_ns > entry->start_ns ? entry->end_ns - entry->start_ns : 1,
		              .lane = lane,
		              .name = name,
		              .correlation = shown_work->correlation,
		              .bytes = entry->device.what == LK_DEVICE_KERNEL ? 0 : entry->bytes};
		if (lk_capture_add(shower->capture, &e) == LK_NONE) return lk_oom(shower->err);
	}
	return LK_OK;
}

/* The program's number of one of CUPTI's streams, else a new one. */
static uint32_t own_stream(const lk_shower *shower, uint32_t stream) {
	LK_ASSERT(stream > 0);
	const lk_shown_stream *known = find_stream(shower, stream);
	if (known) return known->ours;
	return stream < LK_SHOWN_STREAMS_OF_OTHERS ? LK_SHOWN_STREAMS_OF_OTHERS + stream : stream;
}

lk_status lk_show_unclaimed(lk_shower *shower, const lk_recorded_call *work) {
	const lk_record_entry *entry = &work->record;
	if (entry->device.serial || entry->device.what > LK_DEVICE_COMM || !entry->device.stream)
		return LK_OK;
	uint32_t name, event,
		lane = device_lane_of(shower, own_stream(shower, entry->device.stream), false);
	LK_TRY(work_name(shower, work, entry->device.direction, &name));
	return lk_show_event(shower, device_event_kind(entry), lane, name, entry->start_ns,
	                     entry->end_ns, 0, &event);
}

/* ---- waits ---- */

static lk_status device_add_sync(lk_shower *shower, uint32_t event, const lk_record_entry *entry,
                                 uint32_t lane) {
	LK_ASSERT(event < shower->capture->count);
	lk_shown_work *from =
		device_find(shower->recorded.at, shower->recorded.count, entry->device.serial);
	uint32_t stream = from ? shower->run->calls.at[from->call].record.device.stream : 0;
	lk_sync_note note = {
		.event = event, .stream = LK_NONE, .on = LK_NONE, .record = from ? from->correlation : 0};
	switch (entry->device.what) {
	case LK_DEVICE_WAIT_STREAM:
		note.kind = LK_SYNC_STREAM;
		note.stream = lane;
		break;
	case LK_DEVICE_WAIT_EVENT:
		note.kind = LK_SYNC_EVENT;
		note.on = device_lane_of(shower, stream, false);
		break;
	case LK_DEVICE_WAIT_ALL: note.kind = LK_SYNC_DEVICE; break;
	case LK_DEVICE_STREAM_WAITS:
		note.kind = LK_SYNC_STREAM_WAITS;
		note.stream = lane;
		note.on = device_lane_of(shower, stream, false);
		break;
	default: return LK_OK;
	}
	if (!lk_push(&shower->capture->syncs)) return lk_oom(shower->err);
	*lk_last(&shower->capture->syncs) = note;
	return LK_OK;
}

lk_status lk_show_device_call(lk_shower *shower, uint32_t lane, const lk_recorded_call *call) {
	const lk_record_entry *entry = &call->record;
	uint32_t name, event, correlation = 0;
	LK_TRY(device_name_of(shower, call, entry->device.call, "call of the runtime", &name));
	if (entry->device.what == LK_DEVICE_RECORD) {
		lk_shown_work *own =
			device_find(shower->recorded.at, shower->recorded.count, entry->device.serial);
		correlation = ++shower->correlation;
		if (own) own->correlation = correlation;
	} else if (entry->device.what <= LK_DEVICE_SET)
		LK_TRY(device_add_work(shower, entry, &correlation));
	LK_TRY(lk_show_event(shower, LK_EVENT_RUNTIME, lane, name, entry->start_ns, entry->end_ns,
	                     correlation, &event));
	return device_add_sync(shower, event, entry,
	                       device_lane_of(shower, entry->device.stream, false));
}

/* ---- communication ---- */

/* A communication's share of a piece of work. */
static void device_share(lk_shown_work *work, const lk_record_entry *piece,
                         const lk_record_entry *entry, int64_t *start, int64_t *end) {
	int side = device_received(entry);
	LK_ASSERT(work->bytes[side] > 0 && work->done[side] < work->bytes[side]);
	double length = (double)(piece->end_ns - piece->start_ns) / work->bytes[side];
	*start = piece->start_ns + (int64_t)(length * work->done[side]);
	work->done[side] += device_weight(entry);
	*end = piece->start_ns + (int64_t)(length * work->done[side]);
	if (*end <= *start) *end = *start + 1;
}

lk_status lk_show_enqueued(lk_shower *shower, uint32_t lane, const lk_recorded_call *call) {
	const lk_record_entry *entry = &call->record;
	uint32_t name, event, correlation = 0;
	unsigned kind = lk_show_kind((lk_comm_what)entry->comm.what);
	lk_shown_work *work = kind == LK_OP_COUNT ? NULL
	                                          : device_find(shower->works.at, shower->works.count,
	                                                        entry->comm.request);
	LK_TRY(device_name_of(shower, call, entry->comm.call, "communication", &name));
	if (!work) shower->untimed++;
	else correlation = ++shower->correlation;
	LK_TRY(lk_show_event(shower, LK_EVENT_RUNTIME, lane, name, entry->start_ns, entry->end_ns,
	                     correlation, &event));
	if (!work) return LK_OK;
	int64_t start, end;
	const lk_record_entry *piece = &shower->run->calls.at[work->call].record;
	bool beside = device_received(entry) && work->bytes[0] > 0;
	device_share(work, piece, entry, &start, &end);
	uint32_t on = device_lane_of(
		shower, entry->comm.tag > 0 ? (uint32_t)entry->comm.tag : piece->device.stream, beside);
	LK_TRY(lk_show_event(shower, LK_EVENT_KERNEL, on, name, start, end, correlation, &event));
	return event == LK_NONE ? LK_OK : lk_show_note(shower, event, entry, kind, entry->comm.peer);
}

/* Show as an annotation of the thread that serves the network. */
lk_status lk_show_proxy(lk_shower *shower, const lk_recorded_call *call) {
	const lk_record_entry *entry = &call->record;
	char text[120];
	uint32_t name, event,
		lane = lk_capture_lane(shower->capture, false, shower->run->head.pid,
	                           (int64_t)UINT16_MAX + 1 + entry->proxy.channel);
	snprintf(text, sizeof text, "network:%s %d", entry->proxy.sends ? "send to" : "receive from",
	         entry->proxy.peer);
	LK_TRY(lk_show_name(shower, text, &name));
	return lk_show_event(shower, LK_EVENT_NOTE, lane, name, entry->start_ns, entry->end_ns, 0,
	                     &event);
}
