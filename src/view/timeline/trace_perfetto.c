/* trace_perfetto.c: Perfetto's native format, a protobuf Trace of TracePackets with TrackEvents.
 * Field numbers are those of github.com/google/perfetto, protos/perfetto/trace (trace_packet.proto,
 * track_event/, interned_data/).
 *
 * Times are nanoseconds, the resolution of the format. Both ends of a slice are rounded to the
 * nearest one, which keeps their order, and events are written in the order of nesting; readers
 * keep that order for equal times. Names, categories and names of annotations are interned: written
 * once, with the packet that uses them first. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "io/protobuf.h"
#include "view/timeline/trace_plan.h"

enum { TRACE_PACKET = 1 };
enum {
	PACKET_TIMESTAMP = 8,
	PACKET_SEQUENCE = 10,
	PACKET_TRACK_EVENT = 11,
	PACKET_INTERNED = 12,
	PACKET_FLAGS = 13,
	PACKET_TRACK = 60,
};
enum { FLAG_STATE_CLEARED = 1, FLAG_NEEDS_STATE = 2 };
enum {
	TRACK_UUID = 1,
	TRACK_NAME = 2,
	TRACK_PROCESS = 3,
	TRACK_THREAD = 4,
	TRACK_PARENT = 5,
	TRACK_COUNTER = 8,
	TRACK_CHILD_ORDERING = 11,
	TRACK_RANK = 12,
	TRACK_PROCESS_ORDERING = 19,
	TRACK_THREAD_ORDERING = 20,
};
enum { ORDERING_EXPLICIT = 1, CHILDREN_EXPLICIT = 3 };
enum { PROCESS_PID = 1, PROCESS_SORT_INDEX = 3, PROCESS_NAME = 6 };
enum { THREAD_PID = 1, THREAD_TID = 2, THREAD_SORT_INDEX = 3, THREAD_NAME = 5 };
enum { COUNTER_UNIT = 3, UNIT_BYTES = 3 };
enum {
	EVENT_CATEGORY = 3,
	EVENT_ANNOTATION = 4,
	EVENT_TYPE = 9,
	EVENT_NAME = 10,
	EVENT_TRACK = 11,
	EVENT_COUNTER = 30,
	EVENT_REAL_COUNTER = 44,
	EVENT_FLOW = 47,
	EVENT_FLOW_END = 48,
};
enum { TYPE_BEGIN = 1, TYPE_END = 2, TYPE_COUNTER = 4 };
enum { INTERNED_CATEGORY = 1, INTERNED_NAME = 2, INTERNED_ANNOTATION = 3 };
enum { ENTRY_ID = 1, ENTRY_TEXT = 2 };
enum { ANNOTATION_NAME = 1, ANNOTATION_INTEGER = 4, ANNOTATION_REAL = 5, ANNOTATION_TEXT = 6 };
enum { SEQUENCE = 1 }; /* the one writer of packets */

/* The packet being built. Memory that is out shows when it is sent. */
struct perfetto {
	const lk_trace_plan *plan;
	lk_trace_out *out;
	lk_proto_out packet;
	unsigned char *known;  /* by interned id: which of the indices below hold it */
	LK_VEC(uint32_t) open; /* spans that have begun and not ended */
};

enum { KNOWN_NAME = 1, KNOWN_CATEGORY = 2 };

static void perfetto_send(struct perfetto *perfetto) {
	unsigned char head[12];
	if (perfetto->packet.lost && perfetto->out->status == LK_OK)
		perfetto->out->status = lk_oom(perfetto->out->err);
	size_t used = lk_proto_encode(head, TRACE_PACKET << 3 | LK_WIRE_BYTES);
	used += lk_proto_encode(head + used, perfetto->packet.bytes.count);
	lk_trace_put(perfetto->out, head, used);
	lk_trace_put(perfetto->out, perfetto->packet.bytes.at, perfetto->packet.bytes.count);
	perfetto->packet.bytes.count = 0;
}

/* ---- descriptors ---- */

/* Identities in the file; 0 is the root of all tracks. */
static uint64_t process_uuid(size_t process) {
	return 1 + (uint64_t)process;
}

static uint64_t track_uuid(const lk_trace_plan *plan, size_t track) {
	return 1 + plan->processes.count + track;
}

static uint64_t counter_uuid(const lk_trace_plan *plan, size_t series) {
	return 1 + plan->processes.count + plan->timeline->tracks.count + series;
}

static void perfetto_put_entry(struct perfetto *perfetto, unsigned index, uint64_t id,
                               const char *text) {
	size_t entry = lk_proto_begin(&perfetto->packet, index);
	lk_proto_put_integer(&perfetto->packet, ENTRY_ID, id);
	lk_proto_put_text(&perfetto->packet, ENTRY_TEXT, text);
	lk_proto_end(&perfetto->packet, entry);
}

/* The first packet: state is clear, annotations have names, ranks decide the order of processes and
 * threads. */
static void send_root(struct perfetto *perfetto) {
	lk_proto_put_integer(&perfetto->packet, PACKET_SEQUENCE, SEQUENCE);
	lk_proto_put_integer(&perfetto->packet, PACKET_FLAGS, FLAG_STATE_CLEARED);
	size_t interned = lk_proto_begin(&perfetto->packet, PACKET_INTERNED);
	for (unsigned fact = 0; fact < LK_TRACE_FACTS; fact++)
		perfetto_put_entry(perfetto, INTERNED_ANNOTATION, fact + 1, lk_trace_fact_names[fact]);
	lk_proto_end(&perfetto->packet, interned);
	size_t track = lk_proto_begin(&perfetto->packet, PACKET_TRACK);
	lk_proto_put_integer(&perfetto->packet, TRACK_UUID, 0);
	lk_proto_put_integer(&perfetto->packet, TRACK_PROCESS_ORDERING, ORDERING_EXPLICIT);
	lk_proto_put_integer(&perfetto->packet, TRACK_THREAD_ORDERING, ORDERING_EXPLICIT);
	lk_proto_end(&perfetto->packet, track);
	perfetto_send(perfetto);
}

static size_t perfetto_begin_track(struct perfetto *perfetto, uint64_t uuid) {
	lk_proto_put_integer(&perfetto->packet, PACKET_SEQUENCE, SEQUENCE);
	size_t track = lk_proto_begin(&perfetto->packet, PACKET_TRACK);
	lk_proto_put_integer(&perfetto->packet, TRACK_UUID, uuid);
	return track;
}

static void send_process(struct perfetto *perfetto, size_t index) {
	const lk_trace_process *process = &perfetto->plan->processes.at[index];
	size_t track = perfetto_begin_track(perfetto, process_uuid(index));
	size_t body = lk_proto_begin(&perfetto->packet, TRACK_PROCESS);
	lk_proto_put_integer(&perfetto->packet, PROCESS_PID, (uint64_t)process->pid);
	lk_proto_put_integer(&perfetto->packet, PROCESS_SORT_INDEX, index);
	lk_proto_put_text(&perfetto->packet, PROCESS_NAME, process->name);
	lk_proto_end(&perfetto->packet, body);
	lk_proto_put_integer(&perfetto->packet, TRACK_CHILD_ORDERING, CHILDREN_EXPLICIT);
	lk_proto_put_integer(&perfetto->packet, TRACK_RANK, index);
	lk_proto_end(&perfetto->packet, track);
	perfetto_send(perfetto);
}

static void send_thread(struct perfetto *perfetto, size_t index) {
	const lk_trace_row *row = &perfetto->plan->rows[index];
	size_t track = perfetto_begin_track(perfetto, track_uuid(perfetto->plan, index));
	size_t body = lk_proto_begin(&perfetto->packet, TRACK_THREAD);
	lk_proto_put_integer(&perfetto->packet, THREAD_PID,
	                     (uint64_t)perfetto->plan->processes.at[row->process].pid);
	lk_proto_put_integer(&perfetto->packet, THREAD_TID, (uint64_t)row->tid);
	lk_proto_put_integer(&perfetto->packet, THREAD_SORT_INDEX, index);
	lk_proto_put_text(&perfetto->packet, THREAD_NAME, row->name);
	lk_proto_end(&perfetto->packet, body);
	lk_proto_put_integer(&perfetto->packet, TRACK_PARENT, process_uuid(row->process));
	lk_proto_put_integer(&perfetto->packet, TRACK_RANK, index);
	lk_proto_end(&perfetto->packet, track);
	perfetto_send(perfetto);
}

static void send_counter_track(struct perfetto *perfetto, const lk_trace_point *point) {
	size_t track = perfetto_begin_track(perfetto, counter_uuid(perfetto->plan, point->series));
	lk_proto_put_text(&perfetto->packet, TRACK_NAME,
	                  lk_trace_text(perfetto->plan, point->counter->name));
	lk_proto_put_integer(&perfetto->packet, TRACK_PARENT, process_uuid(point->process));
	size_t body = lk_proto_begin(&perfetto->packet, TRACK_COUNTER);
	lk_proto_put_integer(&perfetto->packet, COUNTER_UNIT, UNIT_BYTES);
	lk_proto_end(&perfetto->packet, body);
	lk_proto_end(&perfetto->packet, track);
	perfetto_send(perfetto);
}

static void send_descriptors(struct perfetto *perfetto) {
	const lk_trace_plan *plan = perfetto->plan;
	send_root(perfetto);
	for (size_t i = 0; i < plan->processes.count; i++) send_process(perfetto, i);
	for (size_t i = 0; i < plan->timeline->tracks.count; i++) send_thread(perfetto, i);
	for (size_t i = 0; i < plan->point_count; i++)
		if (!i || plan->points[i].series != plan->points[i - 1].series)
			send_counter_track(perfetto, &plan->points[i]);
}

/* ---- events ---- */

/* The part of a packet before its event; the interned texts that the event is the first to use. */
static void begin_packet(struct perfetto *perfetto, uint64_t ns, const lk_slice *slice) {
	lk_proto_put_integer(&perfetto->packet, PACKET_TIMESTAMP, ns);
	lk_proto_put_integer(&perfetto->packet, PACKET_SEQUENCE, SEQUENCE);
	if (!slice) return;
	lk_proto_put_integer(&perfetto->packet, PACKET_FLAGS, FLAG_NEEDS_STATE);
	bool new_name = !(perfetto->known[slice->name] & KNOWN_NAME);
	bool new_category = slice->category && !(perfetto->known[slice->category] & KNOWN_CATEGORY);
	if (!new_name && !new_category) return;
	size_t interned = lk_proto_begin(&perfetto->packet, PACKET_INTERNED);
	if (new_category)
		perfetto_put_entry(perfetto, INTERNED_CATEGORY, slice->category,
		                   lk_trace_text(perfetto->plan, slice->category));
	if (new_name)
		perfetto_put_entry(perfetto, INTERNED_NAME, (uint64_t)slice->name + 1,
		                   lk_trace_text(perfetto->plan, slice->name));
	lk_proto_end(&perfetto->packet, interned);
	perfetto->known[slice->name] |= KNOWN_NAME;
	perfetto->known[slice->category] |= KNOWN_CATEGORY;
}

static void annotate(struct perfetto *perfetto, uint64_t name, double value, uint32_t text) {
	size_t annotation = lk_proto_begin(&perfetto->packet, EVENT_ANNOTATION);
	lk_proto_put_integer(&perfetto->packet, ANNOTATION_NAME, name);
	if (text)
		lk_proto_put_text(&perfetto->packet, ANNOTATION_TEXT, lk_trace_text(perfetto->plan, text));
	else if (fabs(value) < 9e18 && value == (double)(int64_t)value)
		lk_proto_put_integer(&perfetto->packet, ANNOTATION_INTEGER, (uint64_t)(int64_t)value);
	else lk_proto_put_double(&perfetto->packet, ANNOTATION_REAL, value);
	lk_proto_end(&perfetto->packet, annotation);
}

static void send_begin(struct perfetto *perfetto, size_t index) {
	const lk_trace_plan *plan = perfetto->plan;
	const lk_trace_span *span = &plan->spans[index];
	const lk_slice *slice = span->slice;
	begin_packet(perfetto, lk_trace_ns(plan, span->start_ps), slice);
	size_t event = lk_proto_begin(&perfetto->packet, PACKET_TRACK_EVENT);
	lk_proto_put_integer(&perfetto->packet, EVENT_TYPE, TYPE_BEGIN);
	lk_proto_put_integer(&perfetto->packet, EVENT_TRACK, track_uuid(plan, span->track));
	lk_proto_put_integer(&perfetto->packet, EVENT_NAME, (uint64_t)slice->name + 1);
	if (slice->category) lk_proto_put_integer(&perfetto->packet, EVENT_CATEGORY, slice->category);
	for (int fact = 0; fact < LK_TRACE_FACTS; fact++) {
		double number;
		uint32_t text;
		if (lk_trace_fact(slice, fact, &number, &text))
			annotate(perfetto, (uint64_t)fact + 1, number, text);
	}
	if (plan->out_first)
		for (uint64_t i = plan->out_first[index]; i < plan->out_first[index + 1]; i++)
			lk_proto_put_fixed64(&perfetto->packet, EVENT_FLOW, i + 1);
	lk_proto_end(&perfetto->packet, event);
	perfetto_send(perfetto);
}

/* Arrows arrive with the end of a slice: a receive that waits begins before or with the send, and
 * the reader takes the first event that names an arrow for its start. */
static void send_end(struct perfetto *perfetto, size_t index) {
	const lk_trace_plan *plan = perfetto->plan;
	const lk_trace_span *span = &plan->spans[index];
	begin_packet(perfetto, lk_trace_ns(plan, span->end_ps), NULL);
	size_t event = lk_proto_begin(&perfetto->packet, PACKET_TRACK_EVENT);
	lk_proto_put_integer(&perfetto->packet, EVENT_TYPE, TYPE_END);
	lk_proto_put_integer(&perfetto->packet, EVENT_TRACK, track_uuid(plan, span->track));
	if (plan->in_first)
		for (uint32_t i = plan->in_first[index]; i < plan->in_first[index + 1]; i++)
			lk_proto_put_fixed64(&perfetto->packet, EVENT_FLOW_END,
			                     (uint64_t)plan->in_arrows[i] + 1);
	lk_proto_end(&perfetto->packet, event);
	perfetto_send(perfetto);
}

/* Ends the open spans of `track` that end by `time_ps`, and all those of other tracks. */
static void perfetto_close_until(struct perfetto *perfetto, uint32_t track, int64_t time_ps) {
	while (perfetto->open.count) {
		const lk_trace_span *top = &perfetto->plan->spans[*lk_last(&perfetto->open)];
		if (top->track == track && top->end_ps > time_ps) return;
		send_end(perfetto, *lk_last(&perfetto->open));
		perfetto->open.count--;
	}
}

static void send_slices(struct perfetto *perfetto) {
	const lk_trace_plan *plan = perfetto->plan;
	for (size_t i = 0; i < plan->span_count && perfetto->out->status == LK_OK; i++) {
		perfetto_close_until(perfetto, plan->spans[i].track, plan->spans[i].start_ps);
		if (!lk_push(&perfetto->open)) perfetto->packet.lost = true;
		else *lk_last(&perfetto->open) = (uint32_t)i;
		send_begin(perfetto, i);
	}
	perfetto_close_until(perfetto, UINT32_MAX, 0);
}

static void send_point(struct perfetto *perfetto, const lk_trace_point *point) {
	double value = point->counter->value;
	begin_packet(perfetto, lk_trace_ns(perfetto->plan, point->counter->time_ps), NULL);
	size_t event = lk_proto_begin(&perfetto->packet, PACKET_TRACK_EVENT);
	lk_proto_put_integer(&perfetto->packet, EVENT_TYPE, TYPE_COUNTER);
	lk_proto_put_integer(&perfetto->packet, EVENT_TRACK,
	                     counter_uuid(perfetto->plan, point->series));
	if (fabs(value) < 9e18 && value == (double)(int64_t)value)
		lk_proto_put_integer(&perfetto->packet, EVENT_COUNTER, (uint64_t)(int64_t)value);
	else lk_proto_put_double(&perfetto->packet, EVENT_REAL_COUNTER, value);
	lk_proto_end(&perfetto->packet, event);
	perfetto_send(perfetto);
}

lk_status lk_trace_perfetto(const lk_trace_plan *plan, lk_trace_out *out) {
	struct perfetto p = {.plan = plan, .out = out};
	p.known = calloc((size_t)lk_intern_count(plan->timeline->names) + 1, 1);
	if (!p.known) return lk_oom(out->err);
	send_descriptors(&p);
	send_slices(&p);
	for (size_t i = 0; i < plan->point_count && out->status == LK_OK; i++)
		send_point(&p, &plan->points[i]);
	free(p.known);
	lk_vec_free(&p.packet.bytes);
	lk_vec_free(&p.open);
	return out->status;
}
