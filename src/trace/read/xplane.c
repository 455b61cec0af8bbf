/* xplane.c: traces of the profilers of JAX, TensorFlow and OpenXLA: HOST.xplane.pb, a message
 * XSpace (openxla/xla, xla/tsl/profiler/protobuf/xplane.proto; names of planes, lines and
 * statistics: xla/tsl/profiler/utils/xplane_schema.cc): planes of lines of events, whose names and
 * statistics' names are in maps of their plane.
 *
 *     start = line.timestamp_ns + event.offset_ps / 1000;  duration = event.duration_ps / 1000
 *
 * In a device's plane (/device:GPU:0) the lines "Stream #..." are its streams; its line "Steps" has
 * the steps, if a tool added it; its other lines repeat the work by module, operation and name. One
 * process drives several devices, which run the same program: each is a rank. Lines of hosts are
 * threads, the same one in each plane that has its number; their events with a correlation_id are
 * calls of the runtime, and those with a step_num are steps.
 *
 * Hosts run ahead of their devices, so steps marked on the host may end before their work begins.
 * They count if most of the work lies within them; else steps are found by repetition: of the
 * program (hlo_module) with most device time, a step begins wherever its rarest repeated operation
 * (hlo_op), which is in no loop, occurs. */
#include <stdlib.h>
#include <string.h>

#include "base/sort.h"
#include "io/protobuf.h"
#include "trace/read/read.h"

enum { NAME_BYTES = 1024, MOST_PLANES = 4096 };

#define FILE_BYTES    ((uint64_t)4 << 30)
#define LAST_NS       (INT64_C(1) << 61)
#define SINCE_2001_NS INT64_C(1000000000000000000)

static const char gpu_plane[] = "/device:GPU:";

/* Statistics that are used here. */
typedef enum xplane_stat {
	STAT_OTHER,
	STAT_CORRELATION,
	STAT_STEP,
	STAT_COPY,
	STAT_MODULE,
	STAT_OPERATION,
	STAT_CORES,
	STAT_MEMORY
} xplane_stat;

struct xplane_name {
	int64_t id;
	lk_proto text;
	xplane_stat stat;
};

/* A step as marked in the trace. */
struct xplane_step {
	int64_t start_ns, end_ns, number;
};
typedef LK_VEC(struct xplane_step) xplane_steps;

/* A kernel of a program. */
struct xplane_piece {
	int64_t start_ns, end_ns;
	uint32_t module, operation; /* interned */
};

struct xplane {
	lk_capture *capture;
	const lk_read_limits *limits;
	lk_error *err;
	LK_VEC(struct xplane_name) events, stats; /* of the current plane, by id */
	int64_t device;                           /* of the plane; -1: a host */
	bool device_steps;                        /* steps come from the device's own line */
	xplane_steps steps;
	LK_VEC(struct xplane_piece) pieces; /* kernels of programs */
	LK_VEC(lk_proto) devices;           /* planes of GPUs that worked */
	int64_t planes;
	uint64_t strange;
};

static lk_status xplane_damaged(const struct xplane *reader) {
	lk_fail(reader->err, LK_ERR_INPUT, reader->capture->path, "the XSpace is damaged or cut off");
	return lk_hint(reader->err, "profile again");
}

LK_ORDER_BY(xplane_by_id, struct xplane_name, id)

static const struct xplane_name *xplane_find(const struct xplane_name *names, size_t count,
                                             int64_t id) {
	struct xplane_name key = {.id = id};
	return count ? bsearch(&key, names, count, sizeof key, xplane_by_id) : NULL;
}

static bool xplane_is(const lk_proto *text, const char *wanted) {
	return lk_proto_size(text) == strlen(wanted) && memcmp(text->at, wanted, strlen(wanted)) == 0;
}

static bool xplane_begins(const lk_proto *text, const char *wanted) {
	return lk_proto_size(text) >= strlen(wanted) && memcmp(text->at, wanted, strlen(wanted)) == 0;
}

static xplane_stat xplane_stat_of(const lk_proto *name) {
	static const struct {
		const char *name;
		xplane_stat stat;
	} stats[] = {{"correlation_id", STAT_CORRELATION}, {"step_num", STAT_STEP},
	             {"memcpy_details", STAT_COPY},        {"hlo_module", STAT_MODULE},
	             {"hlo_op", STAT_OPERATION},           {"core_count", STAT_CORES},
	             {"memory_size", STAT_MEMORY}};
	for (size_t i = 0; i < sizeof stats / sizeof *stats; i++)
		if (xplane_is(name, stats[i].name)) return stats[i].stat;
	return STAT_OTHER;
}

/* Read an entry of a map: key 1, and in value 2 a message whose field 2 is the name. */
static lk_status xplane_read_name(struct xplane *reader, lk_proto entry, bool stat) {
	struct xplane_name name = {0};
	lk_proto_field field, inner;
	while (lk_proto_next(&entry, &field)) {
		if (field.number == 1 && field.type == LK_WIRE_VARINT) name.id = (int64_t)field.value;
		if (field.number != 2 || field.type != LK_WIRE_BYTES) continue;
		lk_proto value = field.bytes;
		while (lk_proto_next(&value, &inner))
			if (inner.number == 2 && inner.type == LK_WIRE_BYTES) name.text = inner.bytes;
	}
	if (stat) {
		name.stat = xplane_stat_of(&name.text);
		if (!lk_push(&reader->stats)) return lk_oom(reader->err);
		*lk_last(&reader->stats) = name;
	} else {
		if (!lk_push(&reader->events)) return lk_oom(reader->err);
		*lk_last(&reader->events) = name;
	}
	return LK_OK;
}

/* Read a statistic: which one, its number, its text, which may be the name of another. */
static xplane_stat xplane_read_stat(const struct xplane *reader, lk_proto message, uint64_t *value,
                                    lk_proto *text) {
	xplane_stat stat = STAT_OTHER;
	lk_proto_field field;
	*value = 0;
	*text = (lk_proto){0};
	while (lk_proto_next(&message, &field)) {
		if (field.number == 1 || field.number == 7) {
			const struct xplane_name *name =
				xplane_find(reader->stats.at, reader->stats.count, (int64_t)field.value);
			if (name && field.number == 1) stat = name->stat;
			else if (name) *text = name->text;
		} else if (field.type == LK_WIRE_VARINT) *value = field.value;
		else if (field.type == LK_WIRE_FIXED64) {
			double number = lk_proto_double(field.value);
			*value = number > 0 && number < 1e18 ? (uint64_t)number : 0;
		} else if (field.type == LK_WIRE_BYTES) *text = field.bytes;
	}
	return stat;
}

static void xplane_text(const lk_proto *text, char *out, size_t size) {
	size_t length = text->at ? lk_proto_size(text) : 0;
	if (length >= size) length = size - 1;
	if (length) memcpy(out, text->at, length);
	out[length] = '\0';
}

static lk_status xplane_intern(struct xplane *reader, const lk_proto *text, uint32_t *out) {
	char shown[NAME_BYTES];
	xplane_text(text, shown, sizeof shown);
	return lk_capture_name(reader->capture, reader->limits, shown, out, reader->err);
}

/* ---- events ---- */

/* "kind_src:device kind_dst:host size:1024 dest:0 async:1": the bytes of a copy; -1 if missing. */
static int64_t xplane_bytes(const lk_proto *details) {
	char text[256];
	xplane_text(details, text, sizeof text);
	const char *at = strstr(text, "size:");
	int64_t bytes = at ? strtoll(at + 5, NULL, 10) : -1;
	return bytes < LAST_NS ? bytes : -1;
}

/* The statistics of an event. */
struct xplane_facts {
	lk_proto copy, module, operation;
	uint64_t correlation, step;
	bool stepped;
};

static void xplane_note_stat(const struct xplane *reader, lk_proto message,
                             struct xplane_facts *facts) {
	uint64_t value;
	lk_proto text;
	switch (xplane_read_stat(reader, message, &value, &text)) {
	case STAT_CORRELATION: facts->correlation = value; break;
	case STAT_COPY: facts->copy = text; break;
	case STAT_MODULE: facts->module = text; break;
	case STAT_OPERATION: facts->operation = text; break;
	case STAT_STEP:
		facts->step = value;
		facts->stepped = true;
		break;
	default: break;
	}
}

static lk_status xplane_add_step(struct xplane *reader, const lk_event *event, int64_t number) {
	if (event->dur_ns <= 0) return LK_OK;
	if (!lk_push(&reader->steps)) return lk_oom(reader->err);
	*lk_last(&reader->steps) =
		(struct xplane_step){event->start_ns, event->start_ns + event->dur_ns, number};
	return LK_OK;
}

static lk_status xplane_add_work(struct xplane *reader, const struct xplane_facts *facts,
                                 lk_event *event) {
	const char *name = lk_capture_text(reader->capture, event->name);
	event->kind = LK_EVENT_KERNEL;
	if (strncasecmp(name, "memcpy", 6) == 0) event->kind = LK_EVENT_MEMCPY;
	if (strncasecmp(name, "memset", 6) == 0) event->kind = LK_EVENT_MEMSET;
	if (event->kind == LK_EVENT_MEMCPY) event->bytes = xplane_bytes(&facts->copy);
	if (event->kind != LK_EVENT_KERNEL) return LK_OK;
	if (!facts->module.at || !facts->operation.at) return LK_OK;
	if (!lk_push(&reader->pieces)) return lk_oom(reader->err);
	struct xplane_piece *piece = lk_last(&reader->pieces);
	*piece = (struct xplane_piece){event->start_ns, event->start_ns + event->dur_ns, 0, 0};
	LK_TRY(xplane_intern(reader, &facts->module, &piece->module));
	return xplane_intern(reader, &facts->operation, &piece->operation);
}

static lk_status xplane_keep(struct xplane *reader, const lk_event *event) {
	LK_TRY(lk_capture_room(reader->capture, reader->limits, 0, reader->err));
	return lk_capture_add(reader->capture, event) == LK_NONE ? lk_oom(reader->err) : LK_OK;
}

/* Add an event of a thread or stream, or with lane LK_NONE one of the line "Steps". */
static lk_status xplane_add(struct xplane *reader, uint32_t lane, int64_t line_ns,
                            lk_proto message) {
	lk_event event = {.lane = lane, .kind = LK_EVENT_OP};
	struct xplane_facts facts = {0};
	lk_proto_field field;
	const struct xplane_name *name = NULL;
	uint64_t offset_ps = 0, duration_ps = 0;
	bool summed = false; /* sums of many events have no time */
	while (lk_proto_next(&message, &field)) {
		if (field.number == 1)
			name = xplane_find(reader->events.at, reader->events.count, (int64_t)field.value);
		if (field.number == 2) offset_ps = field.value;
		if (field.number == 3) duration_ps = field.value;
		if (field.number == 5) summed = true;
		if (field.number == 4 && field.type == LK_WIRE_BYTES)
			xplane_note_stat(reader, field.bytes, &facts);
	}
	event.start_ns = line_ns + (int64_t)(offset_ps / 1000);
	event.dur_ns = (int64_t)(duration_ps / 1000);
	event.correlation = (uint32_t)facts.correlation;
	bool sound =
		!message.broken && name && !summed && event.start_ns < LAST_NS && event.dur_ns < LAST_NS;
	reader->strange += !sound;
	if (!sound) return LK_OK;
	if (lane == LK_NONE) {
		char number[32];
		xplane_text(&name->text, number, sizeof number);
		return xplane_add_step(reader, &event,
		                       strtoll(number + strcspn(number, "0123456789"), NULL, 10));
	}
	LK_TRY(xplane_intern(reader, &name->text, &event.name));
	if (reader->device >= 0) LK_TRY(xplane_add_work(reader, &facts, &event));
	else if (facts.correlation) event.kind = LK_EVENT_RUNTIME;
	else if (facts.stepped && !reader->device_steps && facts.step < (uint64_t)LAST_NS)
		LK_TRY(xplane_add_step(reader, &event, (int64_t)facts.step));
	return xplane_keep(reader, &event);
}

/* ---- lines and planes ---- */

/* Read a line: a thread, a stream, or the steps; other lines of a device are skipped. */
static lk_status xplane_read_line(struct xplane *reader, lk_proto message) {
	lk_proto head = message, name = {0};
	lk_proto_field field;
	int64_t id = 0, timestamp = 0;
	bool device = reader->device >= 0;
	while (lk_proto_next(&head, &field)) {
		if (field.number == 1) id = (int64_t)field.value;
		if (field.number == 2 && field.type == LK_WIRE_BYTES) name = field.bytes;
		if (field.number == 3) timestamp = (int64_t)field.value;
	}
	bool steps = device && xplane_is(&name, "Steps");
	if (device && !steps && !xplane_begins(&name, "Stream #")) return LK_OK;
	if (timestamp < 0 || timestamp >= LAST_NS) timestamp = 0;
	/* counted from 1970, unless a tool made it count from the start of profiling */
	if (timestamp > SINCE_2001_NS) reader->capture->absolute = true;
	uint32_t lane = LK_NONE;
	if (steps) {
		reader->device_steps = true;
		reader->steps.count = 0;
	} else {
		lane = lk_capture_lane(reader->capture, device, device ? reader->device : 1, id);
		if (lane == LK_NONE) return lk_oom(reader->err);
	}
	while (lk_proto_next(&message, &field))
		if (field.number == 4 && field.type == LK_WIRE_BYTES)
			LK_TRY(xplane_add(reader, lane, timestamp, field.bytes));
	return LK_OK;
}

/* Read a statistic of a device's plane. */
static void xplane_read_device(struct xplane *reader, lk_proto stat) {
	uint64_t value;
	lk_proto text;
	xplane_stat what = xplane_read_stat(reader, stat, &value, &text);
	if (what == STAT_CORES && value < 100000) reader->capture->sms = (int32_t)value;
	if (what == STAT_MEMORY && value < (uint64_t)1e15)
		reader->capture->device_bytes = (double)value;
}

static lk_proto xplane_plane_name(lk_proto plane) {
	lk_proto name = {0};
	lk_proto_field field;
	while (lk_proto_next(&plane, &field))
		if (field.number == 2 && field.type == LK_WIRE_BYTES) name = field.bytes;
	return name;
}

/* Read the maps of names first: they follow the lines. */
static lk_status xplane_read_names(struct xplane *reader, lk_proto plane) {
	lk_proto_field field;
	reader->events.count = reader->stats.count = 0;
	while (lk_proto_next(&plane, &field)) {
		if (field.type != LK_WIRE_BYTES || (field.number != 4 && field.number != 5)) continue;
		LK_TRY(xplane_read_name(reader, field.bytes, field.number == 5));
	}
	if (plane.broken) return xplane_damaged(reader);
	lk_sort(reader->events.at, reader->events.count, sizeof *reader->events.at, xplane_by_id);
	lk_sort(reader->stats.at, reader->stats.count, sizeof *reader->stats.at, xplane_by_id);
	return LK_OK;
}

static lk_status xplane_read_plane(struct xplane *reader, lk_proto plane) {
	lk_proto_field field;
	LK_TRY(xplane_read_names(reader, plane));
	while (lk_proto_next(&plane, &field)) {
		if (field.number == 3 && field.type == LK_WIRE_BYTES)
			LK_TRY(xplane_read_line(reader, field.bytes));
		if (field.number == 6 && field.type == LK_WIRE_BYTES && reader->device >= 0)
			xplane_read_device(reader, field.bytes);
	}
	return LK_OK;
}

static bool xplane_is_host(const lk_proto *name) {
	return xplane_begins(name, "/host:") && !xplane_is(name, "/host:metadata") &&
	       !xplane_is(name, "/host:python-tracer");
}

/* ---- steps ---- */

LK_ORDER_BY(xplane_by_start, struct xplane_piece, start_ns)

LK_ORDER_BY(xplane_by_module, struct xplane_piece, module)

static int xplane_by_operation(const void *a, const void *b) {
	const struct xplane_piece *x = a, *y = b;
	if (x->operation != y->operation) return x->operation < y->operation ? -1 : 1;
	return xplane_by_start(a, b);
}

/* Whether at least half of the programs' time lies within the marked steps. */
static bool xplane_steps_hold(const struct xplane *reader) {
	int64_t first = INT64_MAX, last = 0;
	double inside = 0, all = 0;
	for (size_t i = 0; i < reader->steps.count; i++) {
		if (reader->steps.at[i].start_ns < first) first = reader->steps.at[i].start_ns;
		if (reader->steps.at[i].end_ns > last) last = reader->steps.at[i].end_ns;
	}
	for (size_t i = 0; i < reader->pieces.count; i++) {
		const struct xplane_piece *piece = &reader->pieces.at[i];
		double ns = (double)(piece->end_ns - piece->start_ns);
		all += ns;
		if (piece->start_ns >= first && piece->start_ns < last) inside += ns;
	}
	return reader->steps.count && inside >= all / 2;
}

/* The range of pieces, sorted by module, of the module with most time. */
static void xplane_longest_module(struct xplane *reader, size_t *begin, size_t *end) {
	const struct xplane_piece *at = reader->pieces.at;
	double longest = -1;
	for (size_t i = 0, from = 0; i < reader->pieces.count; from = i) {
		double ns = 0;
		for (; i < reader->pieces.count && at[i].module == at[from].module; i++)
			ns += (double)(at[i].end_ns - at[i].start_ns);
		if (ns <= longest) continue;
		longest = ns;
		*begin = from;
		*end = i;
	}
}

/* Find steps by repetition (head of this file); where the last one ends is unknown. */
static lk_status xplane_repeat(struct xplane *reader) {
	size_t begin = 0, end = 0, found = 0, times = SIZE_MAX;
	lk_sort(reader->pieces.at, reader->pieces.count, sizeof *reader->pieces.at, xplane_by_module);
	xplane_longest_module(reader, &begin, &end);
	struct xplane_piece *at = reader->pieces.at;
	lk_sort(at + begin, end - begin, sizeof *at, xplane_by_operation);
	for (size_t i = begin, from = begin; i < end; from = i) {
		while (i < end && at[i].operation == at[from].operation) i++;
		bool earlier = i - from == times && at[from].start_ns < at[found].start_ns;
		if (i - from < 2 || (i - from >= times && !earlier)) continue;
		times = i - from;
		found = from;
	}
	if (times == SIZE_MAX) return LK_OK;
	reader->steps.count = 0;
	for (size_t i = 0; i + 1 < times; i++) {
		lk_event event = {.start_ns = at[found + i].start_ns,
		                  .dur_ns = at[found + i + 1].start_ns - at[found + i].start_ns};
		LK_TRY(xplane_add_step(reader, &event, (int64_t)i));
	}
	lk_capture_warn(reader->capture, "steps are where %.200s comes again: none are marked",
	                lk_capture_text(reader->capture, at[begin].module));
	return LK_OK;
}

/* Add steps as annotations on a thread of their own, named as PyTorch's profiler does. */
static lk_status xplane_mark_steps(struct xplane *reader) {
	if (!reader->device_steps && reader->pieces.count > 1 && !xplane_steps_hold(reader))
		LK_TRY(xplane_repeat(reader));
	uint32_t lane = lk_capture_lane(reader->capture, false, 0, 0);
	if (lane == LK_NONE) return lk_oom(reader->err);
	for (size_t i = 0; i < reader->steps.count; i++) {
		const struct xplane_step *step = &reader->steps.at[i];
		char shown[64];
		int length = snprintf(shown, sizeof shown, "ProfilerStep#%lld", (long long)step->number);
		lk_proto name = lk_proto_open(shown, (size_t)length);
		lk_event event = {.kind = LK_EVENT_NOTE,
		                  .lane = lane,
		                  .start_ns = step->start_ns,
		                  .dur_ns = step->end_ns - step->start_ns};
		LK_TRY(xplane_intern(reader, &name, &event.name));
		LK_TRY(xplane_keep(reader, &event));
	}
	return LK_OK;
}

/* ---- ranks ---- */

/* Whether a plane of a device has streams. */
static bool xplane_has_work(lk_proto plane) {
	lk_proto_field field, inner;
	while (lk_proto_next(&plane, &field)) {
		if (field.number != 3 || field.type != LK_WIRE_BYTES) continue;
		while (lk_proto_next(&field.bytes, &inner))
			if (inner.number == 2 && inner.type == LK_WIRE_BYTES &&
			    xplane_begins(&inner.bytes, "Stream #"))
				return true;
	}
	return false;
}

/* Find the planes of GPUs that worked. */
static lk_status xplane_find_devices(struct xplane *reader, lk_proto space) {
	lk_proto_field field;
	while (lk_proto_next(&space, &field)) {
		if (field.number != 1 || field.type != LK_WIRE_BYTES) continue;
		if (++reader->planes > MOST_PLANES) return xplane_damaged(reader);
		lk_proto name = xplane_plane_name(field.bytes);
		if (xplane_begins(&name, "/device:TPU:")) {
			lk_fail(reader->err, LK_ERR_INPUT, reader->capture->path,
			        "is a trace of TPUs: not supported");
			return lk_hint(reader->err, "give one of GPUs");
		}
		if (!xplane_begins(&name, gpu_plane) || !xplane_has_work(field.bytes)) continue;
		if (!lk_push(&reader->devices)) return lk_oom(reader->err);
		*lk_last(&reader->devices) = field.bytes;
	}
	if (space.broken)
		lk_capture_damage(reader->capture, 1,
		                  "the file is cut off in plane %lld; what is before it counts",
		                  (long long)reader->planes + 1);
	return LK_OK;
}

static lk_status xplane_read_device_plane(struct xplane *reader, lk_proto plane) {
	char name[64];
	lk_proto text = xplane_plane_name(plane);
	xplane_text(&text, name, sizeof name);
	long number = strtol(name + strlen(gpu_plane), NULL, 10);
	reader->device = number >= 0 && number < 4096 ? number : 0;
	return xplane_read_plane(reader, plane);
}

/* Read one rank: a device, unless there is none, and the hosts. */
static lk_status xplane_read_rank(struct xplane *reader, lk_proto space, size_t device) {
	lk_proto_field field;
	reader->steps.count = reader->pieces.count = 0;
	reader->device_steps = false;
	if (device < reader->devices.count)
		LK_TRY(xplane_read_device_plane(reader, reader->devices.at[device]));
	reader->device = -1;
	while (lk_proto_next(&space, &field)) {
		if (field.number != 1 || field.type != LK_WIRE_BYTES) continue;
		lk_proto name = xplane_plane_name(field.bytes);
		if (xplane_is_host(&name)) LK_TRY(xplane_read_plane(reader, field.bytes));
	}
	if (reader->strange)
		lk_capture_damage(reader->capture, reader->strange,
		                  "events without a time or a name, left out: %llu",
		                  (unsigned long long)reader->strange);
	reader->strange = 0;
	if (reader->capture->count) return xplane_mark_steps(reader);
	if (space.broken) return xplane_damaged(reader);
	lk_fail(reader->err, LK_ERR_INPUT, reader->capture->path, "holds no work of GPUs or hosts");
	return lk_hint(reader->err, "profile with jax.profiler.trace, or TensorFlow's profiler");
}

static lk_status xplane_read_space(struct xplane *reader, lk_proto space) {
	LK_TRY(xplane_find_devices(reader, space));
	reader->capture->parts = (uint32_t)reader->devices.count;
	for (size_t i = 0; i == 0 || i < reader->devices.count; i++) {
		if (i) {
			const lk_capture *before = reader->capture;
			lk_capture *next = lk_capture_new(before->path, before->format);
			if (!next) return lk_oom(reader->err);
			next->parts = before->parts;
			reader->capture = reader->capture->next = next;
		}
		LK_TRY(xplane_read_rank(reader, space, i));
	}
	return LK_OK;
}

lk_status lk_xplane_read(lk_stream *in, const lk_read_limits *limits, lk_capture *capture,
                         lk_error *err) {
	struct xplane reader = {.capture = capture, .limits = limits, .err = err, .device = -1};
	uint64_t most = limits->bytes && limits->bytes < FILE_BYTES ? limits->bytes : FILE_BYTES;
	char *text;
	size_t size;
	LK_TRY(lk_stream_rest(in, most, &text, &size, err));
	lk_status status = xplane_read_space(&reader, lk_proto_open(text, size));
	capture->bytes_read = size;
	lk_vec_free(&reader.events);
	lk_vec_free(&reader.stats);
	lk_vec_free(&reader.steps);
	lk_vec_free(&reader.pieces);
	lk_vec_free(&reader.devices);
	free(text);
	return status;
}
