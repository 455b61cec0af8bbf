/* trace_perfetto.c: Perfetto's native format, a protobuf Trace of TracePackets with TrackEvents. Field numbers are
 * those of github.com/google/perfetto, protos/perfetto/trace (trace_packet.proto, track_event/, interned_data/).
 *
 * Times are nanoseconds, the resolution of the format. Both ends of a slice are rounded to the nearest one, which keeps
 * their order, and events are written in the order of nesting; readers keep that order for equal times. Names,
 * categories and names of annotations are interned: written once, with the packet that uses them first. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/text.h"
#include "view/trace_plan.h"

enum { TRACE_PACKET = 1 };
enum {
	PACKET_TIMESTAMP = 8, PACKET_SEQUENCE = 10, PACKET_TRACK_EVENT = 11, PACKET_INTERNED = 12, PACKET_FLAGS = 13,
	PACKET_TRACK = 60,
};
enum { FLAG_STATE_CLEARED = 1, FLAG_NEEDS_STATE = 2 };
enum {
	TRACK_UUID = 1, TRACK_NAME = 2, TRACK_PROCESS = 3, TRACK_THREAD = 4, TRACK_PARENT = 5, TRACK_COUNTER = 8,
	TRACK_CHILD_ORDERING = 11, TRACK_RANK = 12, TRACK_PROCESS_ORDERING = 19, TRACK_THREAD_ORDERING = 20,
};
enum { ORDERING_EXPLICIT = 1, CHILDREN_EXPLICIT = 3 };
enum { PROCESS_PID = 1, PROCESS_SORT_INDEX = 3, PROCESS_NAME = 6 };
enum { THREAD_PID = 1, THREAD_TID = 2, THREAD_SORT_INDEX = 3, THREAD_NAME = 5 };
enum { COUNTER_UNIT = 3, UNIT_BYTES = 3 };
enum {
	EVENT_CATEGORY = 3, EVENT_ANNOTATION = 4, EVENT_TYPE = 9, EVENT_NAME = 10, EVENT_TRACK = 11, EVENT_COUNTER = 30,
	EVENT_REAL_COUNTER = 44, EVENT_FLOW = 47, EVENT_FLOW_END = 48,
};
enum { TYPE_BEGIN = 1, TYPE_END = 2, TYPE_COUNTER = 4 };
enum { INTERNED_CATEGORY = 1, INTERNED_NAME = 2, INTERNED_ANNOTATION = 3 };
enum { ENTRY_ID = 1, ENTRY_TEXT = 2 };
enum { ANNOTATION_NAME = 1, ANNOTATION_INTEGER = 4, ANNOTATION_REAL = 5 };
enum { ANNOTATED_BYTES = 1, ANNOTATED_FLOPS, ANNOTATED_LAYER, ANNOTATED_MICROBATCH };
enum { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2 };
enum { SEQUENCE = 1 }; /* the one writer of packets */

/* The packet being built. Memory that is out shows when it is sent. */
typedef struct perfetto {
	const lk_trace_plan *plan;
	lk_trace_out *out;
	LK_VEC(unsigned char) packet;
	bool lost;               /* memory is out */
	unsigned char *known;    /* by interned id: which of the indices below hold it */
	LK_VEC(uint32_t) open;   /* spans that have begun and not ended */
} perfetto;

enum { KNOWN_NAME = 1, KNOWN_CATEGORY = 2 };

/* ---- wire format ---- */

static unsigned char *room(perfetto *p, size_t size) {
	if (lk_reserve(&p->packet, size)) return p->packet.at + p->packet.count;
	p->lost = true;
	p->packet.count = 0;
	return NULL;
}

static size_t encode(unsigned char *at, uint64_t value) {
	size_t used = 0;
	for (; value >= 0x80; value >>= 7) at[used++] = (unsigned char)(value | 0x80);
	at[used++] = (unsigned char)value;
	return used;
}

static void put_integer(perfetto *p, unsigned field, uint64_t value) {
	unsigned char *at = room(p, 20);
	if (!at) return;
	size_t used = encode(at, field << 3 | WIRE_VARINT);
	p->packet.count += used + encode(at + used, value);
}

static void put_fixed(perfetto *p, unsigned field, uint64_t bits) {
	unsigned char *at = room(p, 20);
	if (!at) return;
	size_t used = encode(at, field << 3 | WIRE_FIXED64);
	for (int i = 0; i < 8; i++) at[used++] = (unsigned char)(bits >> 8 * i);
	p->packet.count += used;
}

static void put_real(perfetto *p, unsigned field, double value) {
	uint64_t bits;
	memcpy(&bits, &value, sizeof bits);
	put_fixed(p, field, bits);
}

/* A message or text: its length is one byte until it is closed and turns out to be longer. */
static size_t begin(perfetto *p, unsigned field) {
	unsigned char *at = room(p, 20);
	if (!at) return 0;
	p->packet.count += encode(at, field << 3 | WIRE_BYTES) + 1;
	return p->packet.count;
}

static void end(perfetto *p, size_t start) {
	if (!room(p, 10) || p->packet.count < start || !start) return;
	size_t length = p->packet.count - start;
	unsigned char encoded[10], *body = p->packet.at + start;
	size_t used = encode(encoded, length);
	if (used > 1) memmove(body + used - 1, body, length);
	memcpy(body - 1, encoded, used);
	p->packet.count += used - 1;
}

/* Text fields of protobuf are UTF-8; bytes that are not become U+FFFD. */
static void put_text(perfetto *p, unsigned field, const char *text) {
	size_t left = strlen(text), start = begin(p, field), taken;
	unsigned char *at = left <= SIZE_MAX / 3 ? room(p, left * 3) : room(p, left);
	if (!at) return;
	for (; left; text += taken, left -= taken) {
		taken = lk_utf8_length(text, left);
		memcpy(at, taken ? text : "\xef\xbf\xbd", taken ? taken : 3);
		at += taken ? taken : 3;
		if (!taken) taken = 1;
	}
	p->packet.count = (size_t)(at - p->packet.at);
	end(p, start);
}

static void send(perfetto *p) {
	unsigned char head[12];
	if (p->lost && p->out->status == LK_OK) p->out->status = lk_oom(p->out->err);
	size_t used = encode(head, TRACE_PACKET << 3 | WIRE_BYTES);
	used += encode(head + used, p->packet.count);
	lk_trace_put(p->out, head, used);
	lk_trace_put(p->out, p->packet.at, p->packet.count);
	p->packet.count = 0;
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

static void put_entry(perfetto *p, unsigned index, uint64_t id, const char *text) {
	size_t entry = begin(p, index);
	put_integer(p, ENTRY_ID, id);
	put_text(p, ENTRY_TEXT, text);
	end(p, entry);
}

/* The first packet: state is clear, annotations have names, ranks decide the order of processes and threads. */
static void send_root(perfetto *p) {
	put_integer(p, PACKET_SEQUENCE, SEQUENCE);
	put_integer(p, PACKET_FLAGS, FLAG_STATE_CLEARED);
	size_t interned = begin(p, PACKET_INTERNED);
	put_entry(p, INTERNED_ANNOTATION, ANNOTATED_BYTES, "bytes");
	put_entry(p, INTERNED_ANNOTATION, ANNOTATED_FLOPS, "flops");
	put_entry(p, INTERNED_ANNOTATION, ANNOTATED_LAYER, "layer");
	put_entry(p, INTERNED_ANNOTATION, ANNOTATED_MICROBATCH, "microbatch");
	end(p, interned);
	size_t track = begin(p, PACKET_TRACK);
	put_integer(p, TRACK_UUID, 0);
	put_integer(p, TRACK_PROCESS_ORDERING, ORDERING_EXPLICIT);
	put_integer(p, TRACK_THREAD_ORDERING, ORDERING_EXPLICIT);
	end(p, track);
	send(p);
}

static size_t begin_track(perfetto *p, uint64_t uuid) {
	put_integer(p, PACKET_SEQUENCE, SEQUENCE);
	size_t track = begin(p, PACKET_TRACK);
	put_integer(p, TRACK_UUID, uuid);
	return track;
}

static void send_process(perfetto *p, size_t index) {
	const lk_trace_process *process = &p->plan->processes.at[index];
	size_t track = begin_track(p, process_uuid(index));
	size_t body = begin(p, TRACK_PROCESS);
	put_integer(p, PROCESS_PID, (uint64_t)process->pid);
	put_integer(p, PROCESS_SORT_INDEX, index);
	put_text(p, PROCESS_NAME, process->name);
	end(p, body);
	put_integer(p, TRACK_CHILD_ORDERING, CHILDREN_EXPLICIT);
	put_integer(p, TRACK_RANK, index);
	end(p, track);
	send(p);
}

static void send_thread(perfetto *p, size_t index) {
	const lk_trace_row *row = &p->plan->rows[index];
	size_t track = begin_track(p, track_uuid(p->plan, index));
	size_t body = begin(p, TRACK_THREAD);
	put_integer(p, THREAD_PID, (uint64_t)p->plan->processes.at[row->process].pid);
	put_integer(p, THREAD_TID, (uint64_t)row->tid);
	put_integer(p, THREAD_SORT_INDEX, index);
	put_text(p, THREAD_NAME, row->name);
	end(p, body);
	put_integer(p, TRACK_PARENT, process_uuid(row->process));
	put_integer(p, TRACK_RANK, index);
	end(p, track);
	send(p);
}

static void send_counter_track(perfetto *p, const lk_trace_point *point) {
	size_t track = begin_track(p, counter_uuid(p->plan, point->series));
	put_text(p, TRACK_NAME, lk_trace_text(p->plan, point->counter->name));
	put_integer(p, TRACK_PARENT, process_uuid(point->process));
	size_t body = begin(p, TRACK_COUNTER);
	put_integer(p, COUNTER_UNIT, UNIT_BYTES);
	end(p, body);
	end(p, track);
	send(p);
}

static void send_descriptors(perfetto *p) {
	const lk_trace_plan *plan = p->plan;
	send_root(p);
	for (size_t i = 0; i < plan->processes.count; i++) send_process(p, i);
	for (size_t i = 0; i < plan->timeline->tracks.count; i++) send_thread(p, i);
	for (size_t i = 0; i < plan->point_count; i++)
		if (!i || plan->points[i].series != plan->points[i - 1].series) send_counter_track(p, &plan->points[i]);
}

/* ---- events ---- */

/* The part of a packet before its event; the interned texts that the event is the first to use. */
static void begin_packet(perfetto *p, uint64_t ns, const lk_slice *slice) {
	put_integer(p, PACKET_TIMESTAMP, ns);
	put_integer(p, PACKET_SEQUENCE, SEQUENCE);
	if (!slice) return;
	put_integer(p, PACKET_FLAGS, FLAG_NEEDS_STATE);
	bool new_name = !(p->known[slice->name] & KNOWN_NAME);
	bool new_category = slice->category && !(p->known[slice->category] & KNOWN_CATEGORY);
	if (!new_name && !new_category) return;
	size_t interned = begin(p, PACKET_INTERNED);
	if (new_category) put_entry(p, INTERNED_CATEGORY, slice->category, lk_trace_text(p->plan, slice->category));
	if (new_name) put_entry(p, INTERNED_NAME, (uint64_t)slice->name + 1, lk_trace_text(p->plan, slice->name));
	end(p, interned);
	p->known[slice->name] |= KNOWN_NAME;
	p->known[slice->category] |= KNOWN_CATEGORY;
}

static void annotate(perfetto *p, uint64_t name, double value) {
	if (!isfinite(value)) return;
	size_t annotation = begin(p, EVENT_ANNOTATION);
	put_integer(p, ANNOTATION_NAME, name);
	if (fabs(value) < 9e18 && value == (double)(int64_t)value)
		put_integer(p, ANNOTATION_INTEGER, (uint64_t)(int64_t)value);
	else put_real(p, ANNOTATION_REAL, value);
	end(p, annotation);
}

static void send_begin(perfetto *p, size_t index) {
	const lk_trace_plan *plan = p->plan;
	const lk_trace_span *span = &plan->spans[index];
	const lk_slice *s = span->slice;
	begin_packet(p, lk_trace_ns(plan, span->start_ps), s);
	size_t event = begin(p, PACKET_TRACK_EVENT);
	put_integer(p, EVENT_TYPE, TYPE_BEGIN);
	put_integer(p, EVENT_TRACK, track_uuid(plan, span->track));
	put_integer(p, EVENT_NAME, (uint64_t)s->name + 1);
	if (s->category) put_integer(p, EVENT_CATEGORY, s->category);
	if (s->bytes != 0) annotate(p, ANNOTATED_BYTES, s->bytes);
	if (s->flops != 0) annotate(p, ANNOTATED_FLOPS, s->flops);
	if (s->layer >= 0) annotate(p, ANNOTATED_LAYER, s->layer);
	if (s->microbatch >= 0) annotate(p, ANNOTATED_MICROBATCH, s->microbatch);
	if (plan->out_first)
		for (uint64_t i = plan->out_first[index]; i < plan->out_first[index + 1]; i++) put_fixed(p, EVENT_FLOW, i + 1);
	end(p, event);
	send(p);
}

/* Arrows arrive with the end of a slice: a receive that waits begins before or with the send, and the reader takes the
 * first event that names an arrow for its start. */
static void send_end(perfetto *p, size_t index) {
	const lk_trace_plan *plan = p->plan;
	const lk_trace_span *span = &plan->spans[index];
	begin_packet(p, lk_trace_ns(plan, span->end_ps), NULL);
	size_t event = begin(p, PACKET_TRACK_EVENT);
	put_integer(p, EVENT_TYPE, TYPE_END);
	put_integer(p, EVENT_TRACK, track_uuid(plan, span->track));
	if (plan->in_first)
		for (uint32_t i = plan->in_first[index]; i < plan->in_first[index + 1]; i++)
			put_fixed(p, EVENT_FLOW_END, (uint64_t)plan->in_arrows[i] + 1);
	end(p, event);
	send(p);
}

/* Ends the open spans of `track` that end by `time_ps`, and all those of other tracks. */
static void close_until(perfetto *p, uint32_t track, int64_t time_ps) {
	while (p->open.count) {
		const lk_trace_span *top = &p->plan->spans[*lk_last(&p->open)];
		if (top->track == track && top->end_ps > time_ps) return;
		send_end(p, *lk_last(&p->open));
		p->open.count--;
	}
}

static void send_slices(perfetto *p) {
	const lk_trace_plan *plan = p->plan;
	for (size_t i = 0; i < plan->span_count && p->out->status == LK_OK; i++) {
		close_until(p, plan->spans[i].track, plan->spans[i].start_ps);
		if (!lk_push(&p->open)) p->lost = true;
		else *lk_last(&p->open) = (uint32_t)i;
		send_begin(p, i);
	}
	close_until(p, UINT32_MAX, 0);
}

static void send_point(perfetto *p, const lk_trace_point *point) {
	double value = point->counter->value;
	begin_packet(p, lk_trace_ns(p->plan, point->counter->time_ps), NULL);
	size_t event = begin(p, PACKET_TRACK_EVENT);
	put_integer(p, EVENT_TYPE, TYPE_COUNTER);
	put_integer(p, EVENT_TRACK, counter_uuid(p->plan, point->series));
	if (fabs(value) < 9e18 && value == (double)(int64_t)value) put_integer(p, EVENT_COUNTER, (uint64_t)(int64_t)value);
	else put_real(p, EVENT_REAL_COUNTER, value);
	end(p, event);
	send(p);
}

lk_status lk_trace_perfetto(const lk_trace_plan *plan, lk_trace_out *out) {
	perfetto p = {.plan = plan, .out = out};
	p.known = calloc((size_t)lk_intern_count(plan->timeline->names) + 1, 1);
	if (!p.known) return lk_oom(out->err);
	send_descriptors(&p);
	send_slices(&p);
	for (size_t i = 0; i < plan->point_count && out->status == LK_OK; i++) send_point(&p, &plan->points[i]);
	free(p.known);
	lk_vec_free(&p.packet);
	lk_vec_free(&p.open);
	return out->status;
}
