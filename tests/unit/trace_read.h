/* trace_read.h: decoders of Chrome trace events and of Perfetto's protobuf, as small as
 * test_trace.c needs them; they check while they read: order, nesting, pairs of arrows, interned
 * names. */
#ifndef LK_TEST_TRACE_READ_H
#define LK_TEST_TRACE_READ_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/json.h"
#include "view/timeline/trace.h"

/* ---- what a decoder found ---- */

typedef struct found {
	uint32_t track;
	char name[64], category[32];
	int64_t start, end; /* in the unit of the format */
	double bytes, flops;
	int layer, microbatch;
} found;

typedef struct decoded {
	LK_VEC(found) slices;
	size_t tracks, processes, flows, points;
	double counter_sum;
} decoded;

static void free_decoded(decoded *d) {
	lk_vec_free(&d->slices);
}

static int by_all(const void *a, const void *b) {
	const found *x = a, *y = b;
	if (x->track != y->track) return x->track < y->track ? -1 : 1;
	if (x->start != y->start) return x->start < y->start ? -1 : 1;
	if (x->end != y->end) return x->end < y->end ? -1 : 1;
	int names = strcmp(x->name, y->name), categories = strcmp(x->category, y->category);
	if (names || categories) return names ? names : categories;
	if (x->layer != y->layer) return x->layer < y->layer ? -1 : 1;
	if (x->microbatch != y->microbatch) return x->microbatch < y->microbatch ? -1 : 1;
	if (x->bytes != y->bytes) return x->bytes < y->bytes ? -1 : 1;
	return x->flops < y->flops ? -1 : x->flops > y->flops;
}

static void sort_found(decoded *d) {
	if (d->slices.count) qsort(d->slices.at, d->slices.count, sizeof *d->slices.at, by_all);
}

static int64_t origin_of(const lk_timeline *timeline) {
	int64_t origin = 0;
	for (size_t i = 0; i < timeline->slices.count; i++)
		if (timeline->slices.at[i].start_ps < origin) origin = timeline->slices.at[i].start_ps;
	for (size_t i = 0; i < timeline->counters.count; i++)
		if (timeline->counters.at[i].time_ps < origin) origin = timeline->counters.at[i].time_ps;
	return origin;
}

/* What a format whose unit is `unit` picoseconds should hold. */
static decoded expected(const lk_timeline *timeline, int64_t unit) {
	decoded d = {.tracks = timeline->tracks.count,
	             .flows = timeline->flows.count,
	             .points = timeline->counters.count};
	int64_t origin = origin_of(timeline);
	for (size_t i = 0; i < timeline->slices.count; i++) {
		const lk_slice *slice = &timeline->slices.at[i];
		assert_true(lk_push(&d.slices));
		found *f = lk_last(&d.slices);
		*f = (found){.track = slice->track,
		             .start = (slice->start_ps - origin + unit / 2) / unit,
		             .end = (slice->end_ps - origin + unit / 2) / unit,
		             .bytes = slice->bytes,
		             .flops = slice->flops,
		             .layer = slice->layer,
		             .microbatch = slice->microbatch};
		snprintf(f->name, sizeof f->name, "%s", lk_intern_text(timeline->names, slice->name));
		snprintf(f->category, sizeof f->category, "%s",
		         lk_intern_text(timeline->names, slice->category));
	}
	for (size_t i = 0; i < timeline->counters.count; i++)
		d.counter_sum += timeline->counters.at[i].value;
	sort_found(&d);
	return d;
}

static void expect_same(const lk_timeline *timeline, int64_t unit, decoded *d) {
	decoded wanted = expected(timeline, unit);
	sort_found(d);
	assert_int_equal(d->tracks, wanted.tracks);
	assert_int_equal(d->flows, wanted.flows);
	assert_int_equal(d->points, wanted.points);
	assert_true(fabs(d->counter_sum - wanted.counter_sum) <= 1e-9 * fabs(wanted.counter_sum));
	assert_int_equal(d->slices.count, wanted.slices.count);
	for (size_t i = 0; i < wanted.slices.count; i++) {
		found *x = &d->slices.at[i], *y = &wanted.slices.at[i];
		if (by_all(x, y) != 0)
			fail_msg("slice %zu: %u \"%s\" %" PRId64 "-%" PRId64
			         " %g %g, expected %u \"%s\" %" PRId64 "-%" PRId64 " %g %g",
			         i, x->track, x->name, x->start, x->end, x->bytes, x->flops, y->track, y->name,
			         y->start, y->end, y->bytes, y->flops);
	}
	free_decoded(&wanted);
}

/* The rule of the format: within a track the slices come by start, and each ends inside those that
 * are open. */
typedef struct nesting {
	int64_t ends[64];
	int depth;
	int64_t last;
} nesting;

static void nest(nesting *n, int64_t start, int64_t end) {
	if (start < n->last || end < start)
		fail_msg("%" PRId64 " to %" PRId64 " after %" PRId64, start, end, n->last);
	n->last = start;
	while (n->depth && n->ends[n->depth - 1] <= start) n->depth--;
	int64_t outer = n->depth ? n->ends[n->depth - 1] : INT64_MAX;
	if (end > outer) fail_msg("%" PRId64 " ends after %" PRId64, end, outer);
	assert_true(n->depth < 64);
	n->ends[n->depth++] = end;
}

/* ---- Chrome trace events ---- */

static int64_t whole(const lk_value *value) {
	assert_non_null(value);
	assert_int_equal(value->kind, LK_JSON_NUMBER);
	return strtoll(value->text, NULL, 10);
}

static double real_or(const lk_value *value, double none) {
	return value ? value->number : none;
}

/* "12.345" us as written, in ns. */
static int64_t ns_of(const lk_value *value) {
	assert_non_null(value);
	const char *point = strchr(value->text, '.');
	assert_non_null(point);
	assert_int_equal(strlen(point), 4);
	return strtoll(value->text, NULL, 10) * 1000 + strtoll(point + 1, NULL, 10);
}

static const char *text_of(const lk_value *value) {
	return value ? value->text : "";
}

typedef struct chrome {
	decoded *out;
	int64_t first_tid; /* of track 0 */
	nesting ns, ps;
	int64_t tid; /* of the nesting */
	int64_t flows[64][2];
	int flow_ends;
} chrome;

static void read_slice(chrome *c, const lk_value *event) {
	const lk_value *args = lk_json_get(event, "args");
	int64_t tid = whole(lk_json_get(event, "tid")), start = whole(lk_json_get(args, "start_ps"));
	int64_t end = start + whole(lk_json_get(args, "dur_ps"));
	int64_t ts = ns_of(lk_json_get(event, "ts")), dur = ns_of(lk_json_get(event, "dur"));
	if (tid != c->tid) c->ns = c->ps = (nesting){0};
	c->tid = tid;
	nest(&c->ps, start, end);
	nest(&c->ns, ts, ts + dur);
	assert_int_equal(ts, (start + 500) / 1000);
	assert_int_equal(ts + dur, (end + 500) / 1000);
	assert_true(lk_push(&c->out->slices));
	found *f = lk_last(&c->out->slices);
	*f = (found){.track = (uint32_t)(tid - c->first_tid),
	             .start = start,
	             .end = end,
	             .bytes = real_or(lk_json_get(args, "bytes"), 0),
	             .flops = real_or(lk_json_get(args, "flops"), 0),
	             .layer = (int)real_or(lk_json_get(args, "layer"), -1),
	             .microbatch = (int)real_or(lk_json_get(args, "microbatch"), -1)};
	snprintf(f->name, sizeof f->name, "%s", text_of(lk_json_get(event, "name")));
	snprintf(f->category, sizeof f->category, "%s", text_of(lk_json_get(event, "cat")));
}

static void read_flow_end(chrome *c, const lk_value *event, bool start) {
	int64_t id = whole(lk_json_get(event, "id")), ts = ns_of(lk_json_get(event, "ts"));
	assert_in_range(id, 1, 63);
	assert_int_equal(c->flows[id][!start], 0);
	c->flows[id][!start] = ts + 1;
	c->flow_ends++;
	if (c->flows[id][0] && c->flows[id][1]) {
		assert_true(c->flows[id][0] <= c->flows[id][1]);
		c->out->flows++;
	}
}

static void read_event(chrome *c, const lk_value *event) {
	const char *phase = text_of(lk_json_get(event, "ph")),
			   *name = text_of(lk_json_get(event, "name"));
	if (strcmp(phase, "X") == 0) {
		read_slice(c, event);
	} else if (strcmp(phase, "s") == 0 || strcmp(phase, "f") == 0) {
		read_flow_end(c, event, *phase == 's');
	} else if (strcmp(phase, "C") == 0) {
		c->out->points++;
		c->out->counter_sum += lk_json_get(lk_json_get(event, "args"), "bytes")->number;
	} else if (strcmp(name, "thread_name") == 0) {
		if (!c->out->tracks++) c->first_tid = whole(lk_json_get(event, "tid"));
	} else {
		c->out->processes += strcmp(name, "process_name") == 0;
		assert_string_equal(phase, "M");
	}
}

static decoded read_chrome(const char *path) {
	decoded d = {0};
	chrome c = {.out = &d, .tid = -1};
	lk_arena arena = LK_ARENA_INIT;
	lk_error err = {0};
	lk_stream *in;
	lk_value *root;
	assert_int_equal(lk_stream_open(path, &in, &err), LK_OK);
	if (lk_json_document(&arena, in, &root, &err) != LK_OK) fail_msg("%s: %s", err.where, err.what);
	const lk_value *events = lk_json_get(root, "traceEvents");
	assert_non_null(events);
	for (size_t i = 0; i < events->count; i++) read_event(&c, &events->items[i]);
	assert_int_equal(c.flow_ends, 2 * d.flows);
	lk_stream_close(in);
	lk_arena_free(&arena);
	return d;
}

/* ---- Perfetto ---- */

typedef struct bytes {
	const unsigned char *at, *end;
} bytes;

typedef struct field {
	unsigned number;
	uint64_t value; /* varint or fixed64 */
	bytes body;     /* of a message or text */
} field;

static uint64_t varint(bytes *b) {
	uint64_t value = 0;
	for (int shift = 0; shift < 70; shift += 7) {
		assert_true(b->at < b->end);
		unsigned char c = *b->at++;
		value |= shift < 64 ? (uint64_t)(c & 0x7f) << shift : 0;
		if (c < 0x80) return value;
	}
	fail_msg("a varint is too long");
	return 0;
}

static bool read_field(bytes *b, field *out) {
	if (b->at == b->end) return false;
	uint64_t head = varint(b);
	*out = (field){.number = (unsigned)(head >> 3)};
	if ((head & 7) == 0) {
		out->value = varint(b);
	} else if ((head & 7) == 1) {
		assert_true(b->end - b->at >= 8);
		for (int i = 0; i < 8; i++) out->value |= (uint64_t)*b->at++ << 8 * i;
	} else {
		assert_int_equal(head & 7, 2);
		uint64_t length = varint(b);
		assert_true(length <= (uint64_t)(b->end - b->at));
		out->body = (bytes){b->at, b->at + length};
		b->at += length;
	}
	return true;
}

static double as_real(uint64_t bits) {
	double value;
	memcpy(&value, &bits, sizeof value);
	return value;
}

enum { MOST = 64 };

typedef struct perfetto {
	decoded *out;
	char names[MOST][64], categories[MOST][64]; /* by interned id */
	bool is_counter[MOST * 4];
	uint64_t first_track; /* uuid of track 0 */
	int64_t last_ns[MOST];
	uint32_t open[MOST][64]; /* slices of a track that have begun */
	int depth[MOST];
	int sent[MOST], arrived[MOST];
	bool cleared;
} perfetto;

static void read_interned(perfetto *p, bytes b) {
	for (field f, g; read_field(&b, &f);) {
		uint64_t id = 0;
		bytes text = {0};
		for (bytes entry = f.body; read_field(&entry, &g);) {
			if (g.number == 1) id = g.value;
			else text = g.body;
		}
		assert_in_range(id, 1, MOST - 1);
		if (f.number == 3)
			continue; /* names of annotations: 1 bytes, 2 flops, ..., 13 layer, 14 micro-batch */
		char *into = f.number == 1 ? p->categories[id] : p->names[id];
		assert_int_equal(*into, 0);
		snprintf(into, 64, "!%.*s", (int)(text.end - text.at), (const char *)text.at);
	}
}

static void read_descriptor(perfetto *p, bytes b) {
	uint64_t uuid = 0;
	for (field f; read_field(&b, &f);) {
		if (f.number == 1) uuid = f.value;
		if (f.number == 3) p->out->processes++;
		if (f.number == 8) p->is_counter[uuid] = true;
		if (f.number == 4 && !p->out->tracks++) p->first_track = uuid;
		assert_true(uuid < MOST * 4);
	}
}

static void read_annotation(found *out, bytes b) {
	uint64_t name = 0;
	double value = 0;
	for (field f; read_field(&b, &f);) {
		if (f.number == 1) name = f.value;
		else value = f.number == 4 ? (double)(int64_t)f.value : as_real(f.value);
	}
	if (name == 1) out->bytes = value;
	else if (name == 2) out->flops = value;
	else if (name == 13) out->layer = (int)value;
	else if (name == 14) out->microbatch = (int)value;
	else assert_in_range(name, 3, 12);
}

static const char *interned(char table[MOST][64], uint64_t id) {
	assert_in_range(id, 1, MOST - 1);
	if (!table[id][0]) fail_msg("%" PRIu64 " is used before it is interned", id);
	return table[id] + 1;
}

static void begin_slice(perfetto *p, const found *slice) {
	assert_true(lk_push(&p->out->slices));
	*lk_last(&p->out->slices) = *slice;
	assert_true(p->depth[slice->track] < 64);
	p->open[slice->track][p->depth[slice->track]++] = (uint32_t)p->out->slices.count - 1;
}

static void end_slice(perfetto *p, uint32_t track, int64_t ns) {
	assert_true(p->depth[track] > 0);
	p->out->slices.at[p->open[track][--p->depth[track]]].end = ns;
}

/* Reads BEGIN (1), END (2) and COUNTER (4) as a viewer does: a stack per track, in the order of the
 * file. */
static void read_track_event(perfetto *p, bytes b, int64_t ns) {
	found slice = {.start = ns, .layer = -1, .microbatch = -1};
	uint64_t type = 0, uuid = 0;
	for (field f; read_field(&b, &f);) {
		if (f.number == 9) type = f.value;
		if (f.number == 11) uuid = f.value;
		if (f.number == 10)
			snprintf(slice.name, sizeof slice.name, "%s", interned(p->names, f.value));
		if (f.number == 3)
			snprintf(slice.category, sizeof slice.category, "%.31s",
			         interned(p->categories, f.value));
		if (f.number == 4) read_annotation(&slice, f.body);
		if (f.number == 30) p->out->counter_sum += (double)(int64_t)f.value;
		if (f.number == 44) p->out->counter_sum += as_real(f.value);
		if (f.number != 47 && f.number != 48) continue;
		assert_in_range(f.value, 1, MOST - 1);
		assert_int_equal(type, f.number == 47 ? 1 : 2);
		int *ends = f.number == 47 ? p->sent : p->arrived;
		assert_int_equal(ends[f.value]++, 0);
		if (p->sent[f.value] && p->arrived[f.value]) p->out->flows++;
	}
	if (type == 4) {
		assert_true(uuid < MOST * 4 && p->is_counter[uuid]);
		p->out->points++;
		return;
	}
	slice.track = (uint32_t)(uuid - p->first_track);
	assert_true(uuid >= p->first_track && slice.track < p->out->tracks);
	assert_true(ns >= p->last_ns[slice.track]);
	p->last_ns[slice.track] = ns;
	if (type == 1) begin_slice(p, &slice);
	else end_slice(p, slice.track, ns);
}

static void read_packet(perfetto *p, bytes b) {
	uint64_t ns = 0, sequence = 0, flags = 0;
	bytes event = {0};
	for (field f; read_field(&b, &f);) {
		if (f.number == 8) ns = f.value;
		if (f.number == 10) sequence = f.value;
		if (f.number == 13) flags = f.value;
		if (f.number == 12) read_interned(p, f.body);
		if (f.number == 60) read_descriptor(p, f.body);
		if (f.number == 11) event = f.body;
	}
	assert_int_equal(sequence, 1);
	assert_int_equal(p->cleared,
	                 !(flags & 1)); /* the first packet clears the state, and no other does */
	p->cleared = true;
	if (event.at) read_track_event(p, event, (int64_t)ns);
}

static decoded read_perfetto(const char *path) {
	decoded d = {0};
	perfetto *p = calloc(1, sizeof *p);
	char *text;
	size_t size;
	lk_error err = {0};
	assert_non_null(p);
	p->out = &d;
	assert_int_equal(lk_stream_slurp(path, 1 << 30, &text, &size, &err), LK_OK);
	bytes all = {(unsigned char *)text, (unsigned char *)text + size};
	for (field f; read_field(&all, &f);) {
		assert_int_equal(f.number, 1);
		read_packet(p, f.body);
	}
	for (int i = 0; i < MOST; i++) {
		assert_int_equal(p->depth[i], 0);
		assert_int_equal(p->sent[i], p->arrived[i]);
	}
	free(p);
	free(text);
	return d;
}

#endif
