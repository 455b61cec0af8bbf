/* kineto_keep.c: from the fields of an event to columns of the capture. */
#include "trace/read/kineto_internal.h"

#include "trace/capture/capture.h"

void lk_kineto_odd(lk_kineto *r, lk_odd what, const char *at) {
	if (r->odd[what].count++ == 0) r->odd[what].line = lk_window_line(&r->window, at);
}

uint32_t lk_kineto_intern(lk_kineto *r, lk_slice text) {
	if (text.plain && text.length < LK_SCRATCH) return lk_intern_bytes(r->c->names, text.at, text.length);
	size_t length = lk_slice_text(text, r->scratch, sizeof r->scratch);
	return lk_intern_bytes(r->c->names, r->scratch, length);
}

static lk_status intern(lk_kineto *r, lk_slice text, uint32_t *out) {
	*out = text.at ? lk_kineto_intern(r, text) : 0;
	return *out == LK_NONE ? lk_oom(r->err) : LK_OK;
}

/* The start of a text, for words that are compared and not kept. */
static const char *words(lk_slice text, char *out, size_t size) {
	out[0] = '\0';
	if (text.at) lk_slice_text(text, out, size);
	return out;
}

/* Input Dims and Input type, which few different texts fill in a whole file. */
static lk_status intern_list(lk_kineto *r, lk_slice list, uint32_t *out) {
	*out = 0;
	if (!list.at) return LK_OK;
	size_t length = lk_slice_compact(list, r->scratch, sizeof r->scratch);
	if (length == SIZE_MAX) return lk_kineto_odd(r, LK_ODD_LONG_SHAPE, list.at), LK_OK;
	*out = lk_intern_bytes(r->c->names, r->scratch, length);
	return *out == LK_NONE ? lk_oom(r->err) : LK_OK;
}

/* "stream 7" is stream 7. Texts without digits at the end get numbers of their own, below -1. */
static lk_status place_of(lk_kineto *r, lk_slice text, int64_t *out) {
	if (!text.at) return LK_OK;
	const char *end = text.at + text.length, *digits = end;
	while (digits > text.at && end - digits < 18 && digits[-1] >= '0' && digits[-1] <= '9') digits--;
	if (digits < end) {
		*out = lk_slice_whole((lk_slice){digits, (uint32_t)(end - digits), true});
		return LK_OK;
	}
	uint32_t name;
	LK_TRY(intern(r, text, &name));
	*out = -2 - (int64_t)name;
	return LK_OK;
}

static uint32_t id_of(int64_t number) {
	return number > 0 ? (uint32_t)number : 0;
}

/* Kineto writes "no stream" as -1, also without its sign. */
static int64_t stream_of(int64_t number) {
	return number > INT32_MAX ? -1 : number;
}

static lk_status lane_of(lk_kineto *r, bool stream, int64_t process, int64_t thread, uint32_t *out) {
	*out = lk_capture_lane(r->c, stream, process, thread);
	if (*out != LK_NONE) return LK_OK;
	if (r->c->lanes.count < LK_MOST_LANES) return lk_oom(r->err);
	lk_fail(r->err, LK_ERR_INPUT, r->c->path, "more than %d threads and streams", LK_MOST_LANES);
	return lk_hint(r->err, "is this a trace of one rank?");
}

/* Of a convolution the shape of its result, by its other arguments; nobody else needs those. */
static lk_status intern_result(lk_kineto *r, lk_event *e) {
	char values[256], result[128];
	const char *name = lk_intern_text(r->c->names, e->name);
	if (!r->f.values.at || !e->shape || !strstr(name, "conv")) return LK_OK;
	size_t length = lk_slice_compact(r->f.values, values, sizeof values - 1);
	if (length == SIZE_MAX) return LK_OK;
	values[length] = '\0';
	if (!lk_conv_result(name, lk_intern_text(r->c->names, e->shape), values, result, sizeof result)) return LK_OK;
	e->outputs = lk_intern_id(r->c->names, result);
	return e->outputs == LK_NONE ? lk_oom(r->err) : LK_OK;
}

/* The columns of r->f but for the duration. */
static lk_status build(lk_kineto *r, lk_event *e) {
	lk_kineto_fields *f = &r->f;
	bool device = lk_event_on_device(f->kind);
	*e = (lk_event){
		.kind = (lk_event_kind)f->kind, .start_ns = f->start_ns, .correlation = id_of(f->correlation),
		.external = id_of(f->external), .record = id_of(f->record), .value = f->sequence};
	LK_TRY(intern(r, f->name, &e->name));
	if (device || f->kind == LK_EVENT_SYNC) {
		e->value = f->bytes;
		LK_TRY(lane_of(r, true, f->device >= 0 ? f->device : f->process,
		               f->stream >= 0 ? f->stream : stream_of(f->thread), &e->lane));
	} else LK_TRY(lane_of(r, false, f->process, f->thread, &e->lane));
	if (f->kind == LK_EVENT_KERNEL) e->shape = (uint32_t)f->grid, e->types = (uint32_t)f->block;
	/* Sizes of communication are in the arguments of annotations, which are few. */
	if (f->kind == LK_EVENT_NOTE || (f->kind == LK_EVENT_OP && (r->limits.shapes || f->collective.at))) {
		LK_TRY(intern_list(r, f->dims, &e->shape));
		LK_TRY(intern_list(r, f->types, &e->types));
		LK_TRY(intern_result(r, e));
	}
	return LK_OK;
}

static int32_t small(int64_t number, int32_t otherwise) {
	return number >= 0 && number < 1 << 30 ? (int32_t)number : otherwise;
}

static lk_status add_comm(lk_kineto *r, uint32_t event) {
	const lk_kineto_fields *f = &r->f;
	char text[64];
	lk_comm_note n = {
		.event = event, .kind = (uint8_t)lk_comm_kind(words(f->collective, text, sizeof text)),
		.element_bytes = (uint8_t)lk_comm_element_bytes(words(f->dtype, text, sizeof text)),
		.group_size = small(f->group_size, 0), .in_elements = f->in_elements, .out_elements = f->out_elements};
	n.peer = small(n.kind == LK_OP_SEND ? f->target : n.kind == LK_OP_RECV ? f->source : -1, -1);
	LK_TRY(intern(r, f->dtype, &n.dtype));
	LK_TRY(intern(r, f->group, &n.group));
	LK_TRY(intern(r, f->group_text, &n.group_text));
	LK_TRY(intern(r, f->ranks, &n.ranks));
	if (!lk_push(&r->c->comms)) return lk_oom(r->err);
	*lk_last(&r->c->comms) = n;
	return LK_OK;
}

static lk_status add_sync(lk_kineto *r, uint32_t event) {
	const lk_kineto_fields *f = &r->f;
	char text[64];
	const char *kind = words(f->sync_kind, text, sizeof text);
	int64_t device = f->device >= 0 ? f->device : f->kind == LK_EVENT_SYNC ? f->process : 0;
	lk_sync_note n = {
		.event = event, .kind = LK_SYNC_EVENT, .stream = LK_NONE, .on = LK_NONE, .record = id_of(f->wait_record)};
	if (strstr(kind, "Wait")) n.kind = LK_SYNC_STREAM_WAITS;
	else if (strncmp(kind, "Stream", 6) == 0) n.kind = LK_SYNC_STREAM;
	else if (strstr(kind, "Context") || strstr(kind, "Device")) n.kind = LK_SYNC_DEVICE;
	if (f->stream >= 0) LK_TRY(lane_of(r, true, device, f->stream, &n.stream));
	if (f->wait_stream >= 0) LK_TRY(lane_of(r, true, device, f->wait_stream, &n.on));
	if (!lk_push(&r->c->syncs)) return lk_oom(r->err);
	*lk_last(&r->c->syncs) = n;
	return LK_OK;
}

static lk_status too_many(lk_kineto *r, const char *what, uint64_t limit) {
	lk_fail(r->err, LK_ERR_INPUT, r->c->path, "more than %llu %s", (unsigned long long)limit, what);
	return lk_hint(r->err, "profile fewer steps, or without Python stacks and memory events");
}

/* Long texts count as several, so that memory is bounded too. */
enum { BYTES_OF_A_NAME = 64 };

static lk_status add(lk_kineto *r, const lk_event *e, uint32_t *event) {
	lk_capture *c = r->c;
	if (c->count + r->open_count >= r->limits.events) return too_many(r, "events", r->limits.events);
	if (lk_intern_count(c->names) > r->limits.names ||
		lk_intern_bytes_used(c->names) / BYTES_OF_A_NAME > r->limits.names)
		return too_many(r, "different names", r->limits.names);
	*event = lk_capture_add(c, e);
	return *event == LK_NONE ? lk_oom(r->err) : LK_OK;
}

/* ---- begin and end apart: ph B and E ---- */

static lk_status begin_call(lk_kineto *r, const char *at) {
	lk_open_call call = {.kept = r->f.kind < LK_EVENT_KINDS};
	call.event.start_ns = r->f.start_ns;
	if (r->f.start_ns == LK_UNSAID) return lk_kineto_odd(r, LK_ODD_NO_TIME, at), LK_OK;
	if (call.kept) LK_TRY(build(r, &call.event));
	if (r->c->count + r->open_count++ >= r->limits.events) return too_many(r, "events", r->limits.events);
	uint32_t *top = lk_lane_map_at(&r->open_on, (lk_lane_key){r->f.process, r->f.thread, false});
	if (!top) return lk_oom(r->err);
	uint32_t place = r->free_call;
	if (place != LK_NONE) r->free_call = r->open.at[place].below;
	else if (!lk_push(&r->open)) return lk_oom(r->err);
	else place = (uint32_t)r->open.count - 1;
	call.below = *top;
	r->open.at[place] = call;
	*top = place;
	return LK_OK;
}

static lk_status end_call(lk_kineto *r, const char *at) {
	uint32_t *top = lk_lane_map_at(&r->open_on, (lk_lane_key){r->f.process, r->f.thread, false});
	if (!top) return lk_oom(r->err);
	if (r->f.start_ns == LK_UNSAID) return lk_kineto_odd(r, LK_ODD_NO_TIME, at), LK_OK;
	if (*top == LK_NONE) return lk_kineto_odd(r, LK_ODD_NOT_BEGUN, at), LK_OK;
	uint32_t place = *top, event;
	lk_open_call call = r->open.at[place];
	*top = call.below;
	r->open.at[place].below = r->free_call;
	r->free_call = place;
	r->open_count--;
	if (!call.kept) return r->c->dropped++, LK_OK;
	call.event.dur_ns = r->f.start_ns - call.event.start_ns;
	return add(r, &call.event, &event);
}

/* ---- metadata ---- */

enum { MOST_LABELS = 200000 };

static lk_status keep_label(lk_kineto *r) {
	const lk_kineto_fields *f = &r->f;
	char text[32];
	lk_lane_label label = {.process = f->process, .thread = f->thread};
	r->c->dropped++;
	if (!f->label.at || r->labels.count >= MOST_LABELS || strcmp(words(f->name, text, sizeof text), "thread_name") != 0)
		return LK_OK;
	LK_TRY(intern(r, f->label, &label.name));
	if (!lk_push(&r->labels)) return lk_oom(r->err);
	*lk_last(&r->labels) = label;
	return LK_OK;
}

/* ---- events ---- */

static void note_oddities(lk_kineto *r, const char *at) {
	if (r->f.twice) lk_kineto_odd(r, LK_ODD_TWICE, at);
	if (r->f.controls) lk_kineto_odd(r, LK_ODD_CONTROLS, at);
	if (r->f.not_finite) lk_kineto_odd(r, LK_ODD_NOT_FINITE, at);
	if (r->f.comma) lk_kineto_odd(r, LK_ODD_COMMA, at);
}

static lk_status keep_whole(lk_kineto *r, const char *at) {
	lk_kineto_fields *f = &r->f;
	lk_event e;
	uint32_t event;
	if (f->start_ns == LK_UNSAID) return lk_kineto_odd(r, LK_ODD_NO_TIME, at), r->c->dropped++, LK_OK;
	if (f->dur_ns == LK_UNSAID) return lk_kineto_odd(r, LK_ODD_NO_DURATION, at), r->c->dropped++, LK_OK;
	if (f->dur_ns < 0) lk_kineto_odd(r, LK_ODD_NEGATIVE, at), f->dur_ns = 0;
	LK_TRY(build(r, &e));
	e.dur_ns = f->dur_ns;
	LK_TRY(add(r, &e, &event));
	if (f->collective.at) LK_TRY(add_comm(r, event));
	bool waits = f->kind == LK_EVENT_RUNTIME && (f->sync_kind.at || f->wait_stream >= 0 || f->wait_record > 0);
	return f->kind == LK_EVENT_SYNC || waits ? add_sync(r, event) : LK_OK;
}

lk_status lk_kineto_keep(lk_kineto *r, const char *at) {
	lk_kineto_fields *f = &r->f;
	if (f->twice | f->controls | f->not_finite | f->comma) note_oddities(r, at);
	if (f->process_text.at) LK_TRY(place_of(r, f->process_text, &f->process));
	if (f->thread_text.at) LK_TRY(place_of(r, f->thread_text, &f->thread));
	f->stream = stream_of(f->stream);
	if (f->ph == 'M') return keep_label(r);
	if (f->ph == 'B') return begin_call(r, at);
	if (f->ph == 'E') return end_call(r, at);
	if (f->ph != 'X' || f->kind >= LK_EVENT_KINDS) return r->c->dropped++, LK_OK;
	return keep_whole(r, at);
}

/* ---- the end ---- */

static void name_lane(lk_capture *c, bool stream, const lk_lane_label *label) {
	uint32_t lane = lk_lane_map_find(&c->lane_map, (lk_lane_key){label->process, label->thread, stream});
	if (lane != LK_NONE) c->lanes.at[lane].name = label->name;
}

lk_status lk_kineto_finish(lk_kineto *r) {
	for (size_t i = 0; i < r->labels.count; i++) {
		name_lane(r->c, false, &r->labels.at[i]);
		name_lane(r->c, true, &r->labels.at[i]);
	}
	if (r->open_count) r->odd[LK_ODD_NOT_ENDED].count = r->open_count;
	lk_head_device_used(r);
	/* Times since 1970 in us are above 1e15 since 2001; clocks that count from the start of a machine are below. */
	r->c->absolute = r->base_time || (r->c->count && r->c->start_ns[0] > INT64_C(1000000000000000000));
	return LK_OK;
}
