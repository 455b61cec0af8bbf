/* kineto.c: the JSON of PyTorch's profiler (Kineto) and of Chrome's trace viewer, streamed: an object of head fields and
 * `traceEvents`, or the older bare list. */
#include "trace/kineto.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/json.h"
#include "base/text.h"
#include "trace/comm_names.h"

/* What is kept of one event until it is complete. */
typedef struct fields {
	char ph;
	bool duration;
	lk_event event;
	char category[32];
	char name[512];
	int64_t process, thread;
	/* arguments */
	int64_t stream, device, bytes, wait_stream, record;
	int64_t grid[3], block[3];
	lk_comm_note comm;
	bool has_comm;
	char sync_kind[32];
} fields;

typedef struct reader {
	lk_json *json;
	lk_capture *c;
	const lk_read_limits *limits;
	fields f;
	lk_error *err;
} reader;

static lk_status next(reader *r, lk_json_token *token) {
	return lk_json_next(r->json, token, r->err);
}

static void copy_text(char *out, size_t size, const char *text, size_t length) {
	if (length >= size) length = size - 1;
	memcpy(out, text, length);
	out[length] = '\0';
}

static lk_status read_text(reader *r, char *out, size_t size) {
	lk_json_token token;
	LK_TRY(next(r, &token));
	size_t length;
	const char *text = lk_json_text(r->json, &length);
	out[0] = '\0';
	if (token == LK_JSON_STRING || token == LK_JSON_NUMBER) copy_text(out, size, text, length);
	return LK_OK;
}

static lk_status skip_rest(reader *r, lk_json_token token) {
	int depth = token == LK_JSON_OBJECT || token == LK_JSON_ARRAY;
	while (depth) {
		LK_TRY(next(r, &token));
		depth += token == LK_JSON_OBJECT || token == LK_JSON_ARRAY;
		depth -= token == LK_JSON_OBJECT_END || token == LK_JSON_ARRAY_END;
	}
	return LK_OK;
}

/* A number, also in quotes; 0 for anything else. */
static lk_status read_number(reader *r, double *out) {
	lk_json_token token;
	LK_TRY(next(r, &token));
	*out = 0;
	if (token == LK_JSON_NUMBER) *out = lk_json_number(r->json);
	else if (token == LK_JSON_STRING) *out = strtod(lk_json_text(r->json, NULL), NULL);
	else return skip_rest(r, token);
	if (!isfinite(*out)) *out = 0;
	return LK_OK;
}

static int64_t whole(double x) {
	return x > 9.2e18 ? INT64_MAX : x < -9.2e18 ? INT64_MIN : (int64_t)x;
}

static lk_status read_whole(reader *r, int64_t *out) {
	double number;
	LK_TRY(read_number(r, &number));
	*out = whole(number);
	return LK_OK;
}

/* Microseconds with decimals as nanoseconds, without the rounding of a double (1.7e15 us have no room for them). */
static int64_t nanoseconds(const char *text) {
	bool negative = *text == '-';
	text += negative;
	int64_t ns = 0;
	for (; *text >= '0' && *text <= '9'; text++) {
		if (ns > INT64_MAX / 20000) return INT64_MAX / 2;
		ns = ns * 10 + (*text - '0');
	}
	ns *= 1000;
	if (*text == 'e' || *text == 'E') return 0;
	int64_t unit = 100;
	if (*text == '.')
		for (text++; *text >= '0' && *text <= '9' && unit; text++, unit /= 10) ns += (*text - '0') * unit;
	return negative ? -ns : ns;
}

static lk_status read_time(reader *r, int64_t *out) {
	char text[64];
	LK_TRY(read_text(r, text, sizeof text));
	*out = nanoseconds(text);
	return LK_OK;
}

static lk_status read_three(reader *r, int64_t out[3]) {
	lk_json_token token;
	LK_TRY(next(r, &token));
	if (token != LK_JSON_ARRAY) return skip_rest(r, token);
	for (int i = 0;; i++) {
		LK_TRY(next(r, &token));
		if (token == LK_JSON_ARRAY_END) return LK_OK;
		if (token == LK_JSON_NUMBER && i < 3) out[i] = whole(lk_json_number(r->json));
		else LK_TRY(skip_rest(r, token));
	}
}

/* A value as compact JSON text, interned: "[[512,13],[],[]]". */
static lk_status read_shape(reader *r, uint32_t *out) {
	char text[1024];
	size_t used = 0;
	int depth = 0;
	bool comma = false;
	do {
		lk_json_token token;
		LK_TRY(next(r, &token));
		bool close = token == LK_JSON_ARRAY_END || token == LK_JSON_OBJECT_END;
		if (close) depth--;
		if (comma && !close && used < sizeof text - 1) text[used++] = ',';
		size_t length;
		const char *part = lk_json_text(r->json, &length);
		if (token == LK_JSON_ARRAY || token == LK_JSON_OBJECT) part = "[", length = 1, depth++;
		if (close) part = "]", length = 1;
		if (length > sizeof text - 1 - used) length = sizeof text - 1 - used;
		memcpy(text + used, part, length);
		used += length;
		comma = !(token == LK_JSON_ARRAY || token == LK_JSON_OBJECT || token == LK_JSON_KEY);
	} while (depth);
	text[used] = '\0';
	*out = lk_intern_id(r->c->names, text);
	return *out == UINT32_MAX ? lk_oom(r->err) : LK_OK;
}

static lk_status read_interned(reader *r, uint32_t *out) {
	char text[512];
	LK_TRY(read_text(r, text, sizeof text));
	*out = lk_intern_id(r->c->names, text);
	return *out == UINT32_MAX ? lk_oom(r->err) : LK_OK;
}

static lk_status read_id(reader *r, uint32_t *out) {
	int64_t number;
	LK_TRY(read_whole(r, &number));
	*out = (uint32_t)number;
	return LK_OK;
}

static lk_status read_argument(reader *r, const char *key) {
	fields *f = &r->f;
	double number;
	if (strcmp(key, "External id") == 0 || strcmp(key, "external id") == 0) return read_id(r, &f->event.external);
	if (strcmp(key, "correlation") == 0) return read_id(r, &f->event.correlation);
	if (strcmp(key, "Record function id") == 0) return read_id(r, &f->event.record);
	if (strcmp(key, "Sequence number") == 0) return read_whole(r, &f->event.value);
	if (strcmp(key, "stream") == 0) return read_whole(r, &f->stream);
	if (strcmp(key, "device") == 0) return read_whole(r, &f->device);
	if (strcmp(key, "bytes") == 0) return read_whole(r, &f->bytes);
	if (strcmp(key, "grid") == 0) return read_three(r, f->grid);
	if (strcmp(key, "block") == 0) return read_three(r, f->block);
	if (r->limits->shapes && (strcmp(key, "Input Dims") == 0 || strcmp(key, "Input dims") == 0))
		return read_shape(r, &f->event.shape);
	if (r->limits->shapes && strcmp(key, "Input type") == 0) return read_shape(r, &f->event.types);
	if (strcmp(key, "cuda_sync_kind") == 0) return read_text(r, f->sync_kind, sizeof f->sync_kind);
	if (strcmp(key, "wait_on_stream") == 0) return read_whole(r, &f->wait_stream);
	if (strcmp(key, "wait_on_cuda_event_record_corr_id") == 0) return read_whole(r, &f->record);
	if (strcmp(key, "Collective name") == 0) {
		char text[64];
		LK_TRY(read_text(r, text, sizeof text));
		f->has_comm = true;
		f->comm.kind = (uint8_t)lk_comm_kind(text);
		return LK_OK;
	}
	if (strcmp(key, "In msg nelems") == 0) return read_whole(r, &f->comm.in_elements);
	if (strcmp(key, "Out msg nelems") == 0) return read_whole(r, &f->comm.out_elements);
	if (strcmp(key, "Group size") == 0) {
		LK_TRY(read_number(r, &number));
		f->comm.group_size = number > 0 && number < 1e9 ? (int32_t)number : 0;
		return LK_OK;
	}
	if (strcmp(key, "dtype") == 0) {
		char text[64];
		LK_TRY(read_text(r, text, sizeof text));
		f->comm.element_bytes = (uint8_t)lk_comm_element_bytes(text);
		f->comm.dtype = lk_intern_id(r->c->names, text);
		return LK_OK;
	}
	if (strcmp(key, "Process Group Name") == 0) return read_interned(r, &f->comm.group);
	if (strcmp(key, "Process Group Description") == 0) return read_interned(r, &f->comm.group_text);
	if (strcmp(key, "Process Group Ranks") == 0) return read_interned(r, &f->comm.ranks);
	return lk_json_skip(r->json, r->err);
}

static lk_status read_arguments(reader *r) {
	lk_json_token token;
	LK_TRY(next(r, &token));
	if (token != LK_JSON_OBJECT) return skip_rest(r, token);
	for (;;) {
		char key[64];
		LK_TRY(next(r, &token));
		if (token == LK_JSON_OBJECT_END) return LK_OK;
		size_t length;
		const char *text = lk_json_text(r->json, &length);
		copy_text(key, sizeof key, text, length);
		LK_TRY(read_argument(r, key));
	}
}

static lk_status read_field(reader *r, const char *key) {
	fields *f = &r->f;
	char text[64];
	if (strcmp(key, "ph") == 0) {
		LK_TRY(read_text(r, text, sizeof text));
		f->ph = text[0];
		return LK_OK;
	}
	if (strcmp(key, "cat") == 0) return read_text(r, f->category, sizeof f->category);
	if (strcmp(key, "name") == 0) return read_text(r, f->name, sizeof f->name);
	if (strcmp(key, "ts") == 0) return read_time(r, &f->event.start_ns);
	if (strcmp(key, "dur") == 0) return f->duration = true, read_time(r, &f->event.dur_ns);
	if (strcmp(key, "pid") == 0) return read_whole(r, &f->process);
	if (strcmp(key, "tid") == 0) return read_whole(r, &f->thread);
	if (strcmp(key, "args") == 0) return read_arguments(r);
	return lk_json_skip(r->json, r->err);
}

static const struct {
	const char *category;
	lk_event_kind kind;
} categories[] = {
	{"cpu_op", LK_EVENT_OP},           {"operator", LK_EVENT_OP},          {"user_annotation", LK_EVENT_NOTE},
	{"cuda_runtime", LK_EVENT_RUNTIME}, {"cuda_driver", LK_EVENT_RUNTIME},  {"runtime", LK_EVENT_RUNTIME},
	{"hip_runtime", LK_EVENT_RUNTIME}, {"kernel", LK_EVENT_KERNEL},        {"gpu_memcpy", LK_EVENT_MEMCPY},
	{"memcpy", LK_EVENT_MEMCPY},       {"gpu_memset", LK_EVENT_MEMSET},    {"memset", LK_EVENT_MEMSET},
	{"cuda_sync", LK_EVENT_SYNC},
};

static bool kind_of(const char *category, lk_event_kind *kind) {
	for (size_t i = 0; i < sizeof categories / sizeof *categories; i++)
		if (strcasecmp(category, categories[i].category) == 0) return *kind = categories[i].kind, true;
	return false;
}

static uint32_t saturated(const int64_t n[3]) {
	double product = (double)n[0] * (double)n[1] * (double)n[2];
	return product > 0 ? product < 4e9 ? (uint32_t)product : 4000000000u : 0;
}

static bool add_sync(reader *r, uint32_t event) {
	const fields *f = &r->f;
	if (!lk_push(&r->c->syncs)) return false;
	lk_sync_note *note = lk_last(&r->c->syncs);
	*note = (lk_sync_note){.event = event, .kind = LK_SYNC_EVENT, .stream = LK_NONE, .on = LK_NONE};
	if (strcmp(f->sync_kind, "Stream Sync") == 0 || strcmp(f->sync_kind, "Stream Synchronize") == 0)
		note->kind = LK_SYNC_STREAM;
	else if (strstr(f->sync_kind, "Wait")) note->kind = LK_SYNC_STREAM_WAITS;
	else if (strstr(f->sync_kind, "Context") || strstr(f->sync_kind, "Device")) note->kind = LK_SYNC_DEVICE;
	if (f->stream >= 0) note->stream = lk_capture_lane(r->c, true, f->device, f->stream);
	if (f->wait_stream >= 0) note->on = lk_capture_lane(r->c, true, f->device, f->wait_stream);
	if (f->record > 0) note->record = (uint32_t)f->record;
	return true;
}

static lk_status keep(reader *r) {
	fields *f = &r->f;
	lk_capture *c = r->c;
	lk_event_kind kind;
	if (f->ph != 'X' || !f->duration || !kind_of(f->category, &kind)) return c->dropped++, LK_OK;
	bool device = lk_event_on_device(kind) || kind == LK_EVENT_SYNC;
	f->event.kind = kind;
	f->event.name = lk_intern_id(c->names, f->name);
	if (device) f->event.lane = lk_capture_lane(c, true, f->device >= 0 ? f->device : f->process, f->stream >= 0 ? f->stream : f->thread);
	else f->event.lane = lk_capture_lane(c, false, f->process, f->thread);
	if (kind == LK_EVENT_KERNEL) f->event.shape = saturated(f->grid), f->event.types = saturated(f->block);
	if (device) f->event.value = f->bytes;
	uint32_t event = f->event.lane == LK_NONE || f->event.name == UINT32_MAX ? LK_NONE : lk_capture_add(c, &f->event);
	if (event == LK_NONE) return lk_oom(r->err);
	if (f->has_comm) {
		if (!lk_push(&c->comms)) return lk_oom(r->err);
		f->comm.event = event;
		*lk_last(&c->comms) = f->comm;
	}
	return kind != LK_EVENT_SYNC || add_sync(r, event) ? LK_OK : lk_oom(r->err);
}

static lk_status read_event(reader *r) {
	lk_json_token token;
	r->f = (fields){.event.value = -1, .stream = -1, .device = -1, .bytes = -1, .wait_stream = -1, .process = -1,
	                .comm = {.kind = LK_OP_COUNT, .peer = -1, .in_elements = -1, .out_elements = -1}};
	for (;;) {
		char key[64];
		LK_TRY(next(r, &token));
		if (token == LK_JSON_OBJECT_END) return keep(r);
		size_t length;
		const char *text = lk_json_text(r->json, &length);
		copy_text(key, sizeof key, text, length);
		LK_TRY(read_field(r, key));
	}
}

static lk_status read_events(reader *r) {
	lk_json_token token;
	for (;;) {
		LK_TRY(next(r, &token));
		if (token == LK_JSON_ARRAY_END) return LK_OK;
		if (token == LK_JSON_OBJECT) LK_TRY(read_event(r));
		else LK_TRY(skip_rest(r, token));
	}
}

static lk_status read_distributed(reader *r) {
	lk_json_token token;
	LK_TRY(next(r, &token));
	if (token != LK_JSON_OBJECT) return skip_rest(r, token);
	for (;;) {
		char key[64];
		int64_t number;
		LK_TRY(next(r, &token));
		if (token == LK_JSON_OBJECT_END) return LK_OK;
		copy_text(key, sizeof key, lk_json_text(r->json, NULL), strlen(lk_json_text(r->json, NULL)));
		if (strcmp(key, "rank") == 0) {
			LK_TRY(read_whole(r, &number));
			r->c->rank = number >= 0 && number < 1 << 30 ? (int32_t)number : -1;
		} else if (strcmp(key, "world_size") == 0) {
			LK_TRY(read_whole(r, &number));
			r->c->world = number > 0 && number < 1 << 30 ? (int32_t)number : 0;
		}
		else if (strcmp(key, "backend") == 0) LK_TRY(read_interned(r, &r->c->backend));
		else LK_TRY(lk_json_skip(r->json, r->err));
	}
}

static lk_status read_document(reader *r) {
	lk_json_token token;
	LK_TRY(next(r, &token));
	if (token == LK_JSON_ARRAY) return read_events(r);
	if (token != LK_JSON_OBJECT) return lk_fail(r->err, LK_ERR_INPUT, lk_json_where(r->json), "no trace: neither an object nor a list");
	for (;;) {
		char key[64];
		LK_TRY(next(r, &token));
		if (token == LK_JSON_OBJECT_END) return LK_OK;
		copy_text(key, sizeof key, lk_json_text(r->json, NULL), strlen(lk_json_text(r->json, NULL)));
		if (strcmp(key, "traceEvents") == 0) {
			LK_TRY(next(r, &token));
			if (token == LK_JSON_ARRAY) LK_TRY(read_events(r));
			else LK_TRY(skip_rest(r, token));
		} else if (strcmp(key, "distributedInfo") == 0) LK_TRY(read_distributed(r));
		else if (strcmp(key, "baseTimeNanoseconds") == 0) {
			LK_TRY(read_whole(r, &r->c->origin_ns));
			r->c->absolute = true;
		} else LK_TRY(lk_json_skip(r->json, r->err));
	}
}

lk_status lk_kineto_read(lk_stream *in, const lk_read_limits *limits, lk_capture *capture, lk_error *err) {
	reader *r = calloc(1, sizeof *r);
	if (!r) return lk_oom(err);
	*r = (reader){.json = lk_json_open(in), .c = capture, .limits = limits, .err = err};
	lk_status status = r->json ? read_document(r) : lk_oom(err);
	lk_json_close(r->json);
	free(r);
	return status;
}
