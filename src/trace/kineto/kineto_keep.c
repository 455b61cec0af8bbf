/* kineto_keep.c: from the fields of an event to columns of the capture. */
#include "trace/kineto/kineto_internal.h"

#include <stdlib.h>

#include "trace/capture/capture.h"
#include "base/check.h"

void lk_kineto_odd(lk_kineto *kineto, lk_odd what, const char *at) {
	LK_ASSERT(what < LK_ODD_COUNT);
	if (kineto->odd[what].count++ == 0)
		kineto->odd[what].line = lk_window_line(&kineto->window, at);
}

uint32_t lk_kineto_intern(lk_kineto *kineto, lk_slice text) {
	if (text.plain && text.length < LK_SCRATCH)
		return lk_intern_bytes(kineto->capture->names, text.at, text.length);
	size_t length = lk_slice_text(text, kineto->scratch, sizeof kineto->scratch);
	return lk_intern_bytes(kineto->capture->names, kineto->scratch, length);
}

static lk_status keep_intern(lk_kineto *kineto, lk_slice text, uint32_t *out) {
	*out = text.at ? lk_kineto_intern(kineto, text) : 0;
	return *out == LK_NONE ? lk_oom(kineto->err) : LK_OK;
}

/* Copy the start of a text, for words that are compared and not kept. */
static const char *keep_words(lk_slice text, char *out, size_t size) {
	out[0] = '\0';
	if (text.at) lk_slice_text(text, out, size);
	return out;
}

/* Intern Input Dims and Input type; a whole file has few different texts. */
static lk_status intern_list(lk_kineto *kineto, lk_slice list, uint32_t *out) {
	*out = 0;
	if (!list.at) return LK_OK;
	size_t length = lk_slice_compact(list, kineto->scratch, sizeof kineto->scratch);
	if (length == SIZE_MAX) {
		lk_kineto_odd(kineto, LK_ODD_LONG_SHAPE, list.at);
		return LK_OK;
	}
	*out = lk_intern_bytes(kineto->capture->names, kineto->scratch, length);
	return *out == LK_NONE ? lk_oom(kineto->err) : LK_OK;
}

/* "stream 7" is stream 7. Texts without digits at the end get numbers of their own, below -1. */
static lk_status keep_place_of(lk_kineto *kineto, lk_slice text, int64_t *out) {
	if (!text.at) return LK_OK;
	const char *end = text.at + text.length, *digits = end;
	while (digits > text.at && end - digits < 18 && digits[-1] >= '0' && digits[-1] <= '9')
		digits--;
	if (digits < end) {
		*out = lk_slice_whole((lk_slice){digits, (uint32_t)(end - digits), true});
		return LK_OK;
	}
	uint32_t name;
	LK_TRY(keep_intern(kineto, text, &name));
	*out = -2 - (int64_t)name;
	return LK_OK;
}

static uint32_t id_of(int64_t number) {
	return number > 0 ? (uint32_t)number : 0;
}

/* Kineto writes "no stream" as -1, sometimes as an unsigned number. */
static int64_t keep_stream_of(int64_t number) {
	return number > INT32_MAX ? -1 : number;
}

static lk_status keep_lane_of(lk_kineto *kineto, bool stream, int64_t process, int64_t thread,
                              uint32_t *out) {
	*out = lk_capture_lane(kineto->capture, stream, process, thread);
	if (*out != LK_NONE) return LK_OK;
	if (kineto->capture->lanes.count < LK_MOST_LANES) return lk_oom(kineto->err);
	lk_fail(kineto->err, LK_ERR_INPUT, kineto->capture->path, "more than %d threads and streams",
	        LK_MOST_LANES);
	return lk_hint(kineto->err, "is this a trace of one rank?");
}

/* Intern a convolution's result shape, from its other arguments, which nothing else needs. */
static lk_status intern_result(lk_kineto *kineto, lk_event *event) {
	char values[256], result[128];
	const char *name = lk_intern_text(kineto->capture->names, event->name);
	if (!kineto->f.values.at || !event->shape || !strstr(name, "conv")) return LK_OK;
	size_t length = lk_slice_compact(kineto->f.values, values, sizeof values - 1);
	if (length == SIZE_MAX) return LK_OK;
	values[length] = '\0';
	if (!lk_conv_result(name, lk_intern_text(kineto->capture->names, event->shape), values, result,
	                    sizeof result))
		return LK_OK;
	event->outputs = lk_intern_id(kineto->capture->names, result);
	return event->outputs == LK_NONE ? lk_oom(kineto->err) : LK_OK;
}

/* Fill the columns from kineto->f, except the duration. */
static lk_status keep_build(lk_kineto *kineto, lk_event *event) {
	lk_kineto_fields *fields = &kineto->f;
	LK_ASSERT(fields->kind < LK_EVENT_KINDS);
	bool device = lk_event_on_device(fields->kind);
	*event = (lk_event){.kind = (lk_event_kind)fields->kind,
	                    .start_ns = fields->start_ns,
	                    .correlation = id_of(fields->correlation),
	                    .record = id_of(fields->record),
	                    .bytes = device ? fields->bytes : 0};
	LK_TRY(keep_intern(kineto, fields->name, &event->name));
	if (device || fields->kind == LK_EVENT_SYNC) {
		LK_TRY(keep_lane_of(kineto, true, fields->device >= 0 ? fields->device : fields->process,
		                    fields->stream >= 0 ? fields->stream : keep_stream_of(fields->thread),
		                    &event->lane));
	} else LK_TRY(keep_lane_of(kineto, false, fields->process, fields->thread, &event->lane));
	/* Sizes of communication are in the arguments of annotations, of which there are few. */
	if (fields->kind == LK_EVENT_NOTE ||
	    (fields->kind == LK_EVENT_OP && (kineto->limits.shapes || fields->collective.at))) {
		LK_TRY(intern_list(kineto, fields->dims, &event->shape));
		LK_TRY(intern_list(kineto, fields->types, &event->types));
		LK_TRY(intern_result(kineto, event));
	}
	return LK_OK;
}

static int32_t small(int64_t number, int32_t otherwise) {
	return number >= 0 && number < 1 << 30 ? (int32_t)number : otherwise;
}

static lk_status keep_add_comm(lk_kineto *kineto, uint32_t event) {
	LK_ASSERT(event < kineto->capture->count);
	const lk_kineto_fields *fields = &kineto->f;
	char text[64];
	lk_comm_note n = {
		.event = event,
		.kind = (uint8_t)lk_comm_kind(keep_words(fields->collective, text, sizeof text)),
		.element_bytes =
			(uint8_t)lk_comm_element_bytes(keep_words(fields->dtype, text, sizeof text)),
		.group_size = small(fields->group_size, 0),
		.in_elements = fields->in_elements,
		.out_elements = fields->out_elements};
	n.peer = -1;
	if (n.kind == LK_OP_SEND) n.peer = small(fields->target, -1);
	if (n.kind == LK_OP_RECV) n.peer = small(fields->source, -1);
	LK_TRY(keep_intern(kineto, fields->dtype, &n.dtype));
	LK_TRY(keep_intern(kineto, fields->group, &n.group));
	LK_TRY(keep_intern(kineto, fields->group_text, &n.group_text));
	LK_TRY(keep_intern(kineto, fields->ranks, &n.ranks));
	if (!lk_push(&kineto->capture->comms)) return lk_oom(kineto->err);
	*lk_last(&kineto->capture->comms) = n;
	return LK_OK;
}

static lk_status keep_add_sync(lk_kineto *kineto, uint32_t event) {
	LK_ASSERT(event < kineto->capture->count);
	const lk_kineto_fields *fields = &kineto->f;
	char text[64];
	const char *kind = keep_words(fields->sync_kind, text, sizeof text);
	int64_t device;
	if (fields->device >= 0) device = fields->device;
	else if (fields->kind == LK_EVENT_SYNC) device = fields->process;
	else device = 0;
	lk_sync_note n = {.event = event,
	                  .kind = LK_SYNC_EVENT,
	                  .stream = LK_NONE,
	                  .on = LK_NONE,
	                  .record = id_of(fields->wait_record)};
	if (strstr(kind, "Wait")) n.kind = LK_SYNC_STREAM_WAITS;
	else if (strncmp(kind, "Stream", 6) == 0) n.kind = LK_SYNC_STREAM;
	else if (strstr(kind, "Context") || strstr(kind, "Device")) n.kind = LK_SYNC_DEVICE;
	if (fields->stream >= 0) LK_TRY(keep_lane_of(kineto, true, device, fields->stream, &n.stream));
	if (fields->wait_stream >= 0)
		LK_TRY(keep_lane_of(kineto, true, device, fields->wait_stream, &n.on));
	if (!lk_push(&kineto->capture->syncs)) return lk_oom(kineto->err);
	*lk_last(&kineto->capture->syncs) = n;
	return LK_OK;
}

static lk_status keep_too_many(lk_kineto *kineto, const char *what, uint64_t limit) {
	lk_fail(kineto->err, LK_ERR_INPUT, kineto->capture->path, "more than %llu %s",
	        (unsigned long long)limit, what);
	return lk_hint(kineto->err, "profile fewer steps, or without Python stacks and memory events");
}

/* Whether the limits allow one more event. */
static lk_status keep_room(lk_kineto *kineto) {
	const lk_capture *capture = kineto->capture;
	if (capture->count + capture->modules.count + kineto->open_count >= kineto->limits.events)
		return keep_too_many(kineto, "events", kineto->limits.events);
	if (lk_intern_count(capture->names) > kineto->limits.names ||
	    lk_intern_bytes_used(capture->names) / LK_BYTES_OF_A_NAME > kineto->limits.names)
		return keep_too_many(kineto, "different names", kineto->limits.names);
	return LK_OK;
}

static lk_status keep_add(lk_kineto *kineto, const lk_event *e, uint32_t *event) {
	LK_TRY(keep_room(kineto));
	*event = lk_capture_add(kineto->capture, e);
	return *event == LK_NONE ? lk_oom(kineto->err) : LK_OK;
}

static lk_status keep_module(lk_kineto *kineto) {
	const lk_kineto_fields *fields = &kineto->f;
	lk_module_call call = {.start_ns = fields->start_ns, .dur_ns = fields->dur_ns};
	LK_TRY(keep_intern(kineto, fields->name, &call.name));
	LK_TRY(keep_lane_of(kineto, false, fields->process, fields->thread, &call.lane));
	LK_TRY(keep_room(kineto));
	return lk_capture_add_module(kineto->capture, &call) ? LK_OK : lk_oom(kineto->err);
}

/* Numbers count up from 0 in each thread, and would take days to exceed 32 bits; -1, as
 * unsigned, is none. */
static lk_status keep_add_grad(lk_kineto *kineto, uint32_t event) {
	const lk_kineto_fields *fields = &kineto->f;
	if (fields->sequence > UINT32_MAX) return LK_OK;
	if (!lk_push(&kineto->capture->grads)) return lk_oom(kineto->err);
	*lk_last(&kineto->capture->grads) =
		(lk_grad_note){event, (uint32_t)fields->sequence, fields->forward_thread > 0};
	return LK_OK;
}

/* ---- separate begin and end: ph B and E ---- */

static lk_status begin_call(lk_kineto *kineto, const char *at) {
	lk_open_call call = {.kept = kineto->f.kind < LK_EVENT_KINDS};
	call.event.start_ns = kineto->f.start_ns;
	if (kineto->f.start_ns == LK_UNSAID) {
		lk_kineto_odd(kineto, LK_ODD_NO_TIME, at);
		return LK_OK;
	}
	if (call.kept) LK_TRY(keep_build(kineto, &call.event));
	if (kineto->capture->count + kineto->open_count++ >= kineto->limits.events)
		return keep_too_many(kineto, "events", kineto->limits.events);
	uint32_t *top =
		lk_lane_map_at(&kineto->open_on, (lk_lane_key){kineto->f.process, kineto->f.thread, false});
	if (!top) return lk_oom(kineto->err);
	uint32_t place = kineto->free_call;
	LK_ASSERT(place == LK_NONE || place < kineto->open.count);
	if (place != LK_NONE) kineto->free_call = kineto->open.at[place].below;
	else if (!lk_push(&kineto->open)) return lk_oom(kineto->err);
	else place = (uint32_t)kineto->open.count - 1;
	call.below = *top;
	kineto->open.at[place] = call;
	*top = place;
	return LK_OK;
}

static lk_status end_call(lk_kineto *kineto, const char *at) {
	uint32_t *top =
		lk_lane_map_at(&kineto->open_on, (lk_lane_key){kineto->f.process, kineto->f.thread, false});
	if (!top) return lk_oom(kineto->err);
	if (kineto->f.start_ns == LK_UNSAID) {
		lk_kineto_odd(kineto, LK_ODD_NO_TIME, at);
		return LK_OK;
	}
	if (*top == LK_NONE) {
		lk_kineto_odd(kineto, LK_ODD_NOT_BEGUN, at);
		return LK_OK;
	}
	uint32_t place = *top, event;
	LK_ASSERT(place < kineto->open.count && kineto->open_count > 0);
	lk_open_call call = kineto->open.at[place];
	*top = call.below;
	kineto->open.at[place].below = kineto->free_call;
	kineto->free_call = place;
	kineto->open_count--;
	if (!call.kept) {
		kineto->capture->dropped++;
		return LK_OK;
	}
	call.event.dur_ns = kineto->f.start_ns - call.event.start_ns;
	return keep_add(kineto, &call.event, &event);
}

/* ---- metadata ---- */

static lk_status keep_label(lk_kineto *kineto) {
	const lk_kineto_fields *fields = &kineto->f;
	char text[32];
	lk_lane_label label = {.process = fields->process, .thread = fields->thread};
	kineto->capture->dropped++;
	if (!fields->label.at || kineto->labels.count >= LK_MOST_LABELS ||
	    strcmp(keep_words(fields->name, text, sizeof text), "thread_name") != 0)
		return LK_OK;
	LK_TRY(keep_intern(kineto, fields->label, &label.name));
	if (!lk_push(&kineto->labels)) return lk_oom(kineto->err);
	*lk_last(&kineto->labels) = label;
	return LK_OK;
}

/* ---- events ---- */

static void note_oddities(lk_kineto *kineto, const char *at) {
	if (kineto->f.twice) lk_kineto_odd(kineto, LK_ODD_TWICE, at);
	if (kineto->f.controls) lk_kineto_odd(kineto, LK_ODD_CONTROLS, at);
	if (kineto->f.not_finite) lk_kineto_odd(kineto, LK_ODD_NOT_FINITE, at);
	if (kineto->f.comma) lk_kineto_odd(kineto, LK_ODD_COMMA, at);
}

static lk_status keep_whole(lk_kineto *kineto, const char *at) {
	lk_kineto_fields *fields = &kineto->f;
	lk_event e;
	uint32_t event;
	if (fields->start_ns == LK_UNSAID) {
		lk_kineto_odd(kineto, LK_ODD_NO_TIME, at);
		kineto->capture->dropped++;
		return LK_OK;
	}
	if (fields->dur_ns == LK_UNSAID) {
		lk_kineto_odd(kineto, LK_ODD_NO_DURATION, at);
		kineto->capture->dropped++;
		return LK_OK;
	}
	if (fields->dur_ns < 0) {
		lk_kineto_odd(kineto, LK_ODD_NEGATIVE, at);
		fields->dur_ns = 0;
	}
	if (fields->kind == LK_KINETO_MODULE) return keep_module(kineto);
	LK_TRY(keep_build(kineto, &e));
	e.dur_ns = fields->dur_ns;
	LK_TRY(keep_add(kineto, &e, &event));
	if (fields->collective.at) LK_TRY(keep_add_comm(kineto, event));
	if (fields->sequence >= 0 && fields->kind == LK_EVENT_OP) LK_TRY(keep_add_grad(kineto, event));
	bool waits = fields->kind == LK_EVENT_RUNTIME &&
	             (fields->sync_kind.at || fields->wait_stream >= 0 || fields->wait_record > 0);
	return fields->kind == LK_EVENT_SYNC || waits ? keep_add_sync(kineto, event) : LK_OK;
}

lk_status lk_kineto_keep(lk_kineto *kineto, const char *at) {
	lk_kineto_fields *fields = &kineto->f;
	if (fields->twice | fields->controls | fields->not_finite | fields->comma)
		note_oddities(kineto, at);
	if (fields->process_text.at)
		LK_TRY(keep_place_of(kineto, fields->process_text, &fields->process));
	if (fields->thread_text.at) LK_TRY(keep_place_of(kineto, fields->thread_text, &fields->thread));
	fields->stream = keep_stream_of(fields->stream);
	if (fields->ph == 'M') return keep_label(kineto);
	if (fields->ph == 'B') return begin_call(kineto, at);
	if (fields->ph == 'E') return end_call(kineto, at);
	bool kept = fields->kind < LK_EVENT_KINDS || fields->kind == LK_KINETO_MODULE;
	if (fields->ph != 'X' || !kept) {
		kineto->capture->dropped++;
		return LK_OK;
	}
	return keep_whole(kineto, at);
}

/* ---- the end ---- */

static void name_lane(lk_capture *capture, bool stream, const lk_lane_label *label) {
	uint32_t lane =
		lk_lane_map_find(&capture->lane_map, (lk_lane_key){label->process, label->thread, stream});
	if (lane != LK_NONE) capture->lanes.at[lane].name = label->name;
}

/* Set name, multiprocessors and memory of the device that ran most of the work. If no id fits, use
 * the first device: those of one machine are of a kind. */
static lk_status set_used_device(lk_kineto *kineto) {
	lk_capture *capture = kineto->capture;
	if (!kineto->devices.count) return LK_OK;
	uint32_t *work = calloc(capture->lanes.count + 1, sizeof *work);
	if (!work) return lk_oom(kineto->err);
	size_t most = capture->lanes.count;
	for (uint32_t i = 0; i < capture->count; i++)
		work[capture->lane[i]] += lk_event_on_device(capture->kind[i]);
	for (size_t i = 0; i < capture->lanes.count; i++)
		if (work[i] && (most == capture->lanes.count || work[i] > work[most])) most = i;
	bool used = most < capture->lanes.count;
	free(work);
	if (!used) return LK_OK;
	const lk_head_device *device = &kineto->devices.at[0];
	for (size_t i = 0; i < kineto->devices.count; i++)
		if (kineto->devices.at[i].id == capture->lanes.at[most].process)
			device = &kineto->devices.at[i];
	capture->device = device->name;
	capture->sms = device->sms;
	capture->device_bytes = device->bytes;
	return LK_OK;
}

lk_status lk_kineto_finish(lk_kineto *kineto) {
	for (size_t i = 0; i < kineto->labels.count; i++) {
		name_lane(kineto->capture, false, &kineto->labels.at[i]);
		name_lane(kineto->capture, true, &kineto->labels.at[i]);
	}
	if (kineto->open_count) kineto->odd[LK_ODD_NOT_ENDED].count = kineto->open_count;
	LK_TRY(set_used_device(kineto));
	/* Nanoseconds since 1970 have exceeded 1e18 since 2001; clocks that count from the start of a
	 * machine are below. */
	kineto->capture->absolute =
		kineto->base_time ||
		(kineto->capture->count && kineto->capture->start_ns[0] > INT64_C(1000000000000000000));
	return LK_OK;
}
