/* timeline_read.c: what --trace wrote, read back: Chrome's events (.json) and Perfetto's packets
 * (.pftrace), whose writers are view/timeline/trace_chrome.c and trace_perfetto.c. */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/vec.h"
#include "io/json.h"
#include "io/protobuf.h"
#include "trace/read/read.h"

enum { TEXTS = 8, TEXT_BYTES = 1024 };
#define TIMELINE_BYTES ((uint64_t)4 << 30)

/* ---- facts of a slice, by name ---- */

static const struct {
	const char *name;
	size_t number; /* offset of a double in lk_shown_slice */
	size_t text;   /* 1 + offset of a text; 0: a number */
} facts[] = {
	{"bytes", offsetof(lk_shown_slice, bytes), 0},
	{"flops", offsetof(lk_shown_slice, flops), 0},
	{"ranks", offsetof(lk_shown_slice, ranks), 0},
	{"m", offsetof(lk_shown_slice, m), 0},
	{"n", offsetof(lk_shown_slice, n), 0},
	{"k", offsetof(lk_shown_slice, k), 0},
	{"batch", offsetof(lk_shown_slice, batch), 0},
	{"layer", offsetof(lk_shown_slice, layer), 0},
	{"microbatch", offsetof(lk_shown_slice, microbatch), 0},
	{"times", offsetof(lk_shown_slice, times), 0},
	{"every_ps", offsetof(lk_shown_slice, every_ps), 0},
	{"phase", 0, 1 + offsetof(lk_shown_slice, phase)},
	{"group", 0, 1 + offsetof(lk_shown_slice, group)},
	{"dtype", 0, 1 + offsetof(lk_shown_slice, dtype)},
};
enum { FACTS = sizeof facts / sizeof *facts };

static int fact_named(const char *name) {
	for (int i = 0; i < FACTS; i++)
		if (strcmp(facts[i].name, name) == 0) return i;
	return -1;
}

static double *fact_number(lk_shown_slice *slice, int fact) {
	return (double *)(void *)((char *)slice + facts[fact].number);
}

static const char **fact_text(lk_shown_slice *slice, int fact) {
	return (const char **)(void *)((char *)slice + facts[fact].text - 1);
}

/* Texts of the slice that is being read. */
struct slice_texts {
	char text[TEXTS][TEXT_BYTES];
	int used;
};

static const char *timeline_keep_text(struct slice_texts *texts, const char *text) {
	if (texts->used == TEXTS) return "";
	char *kept = texts->text[texts->used++];
	lk_copy(kept, TEXT_BYTES, text);
	return kept;
}

/* ---- Chrome's events ---- */

struct chrome_event {
	lk_shown_slice slice;
	struct slice_texts texts;
	char phase; /* 'X', 'M' */
	const char *title;
	double ts, dur;
	bool exact; /* start and length in picoseconds were given */
};

static lk_status chrome_arguments(lk_json *json, struct chrome_event *event, lk_error *err) {
	lk_json_token token;
	for (;;) {
		LK_TRY(lk_json_next(json, &token, err));
		if (token != LK_JSON_KEY) return LK_OK; /* the object's end */
		const char *key = lk_json_text(json, NULL);
		bool start = strcmp(key, "start_ps") == 0, length = strcmp(key, "dur_ps") == 0,
			 title = strcmp(key, "name") == 0;
		int fact = fact_named(key);
		if (!start && !length && !title && fact < 0) {
			LK_TRY(lk_json_skip(json, err));
			continue;
		}
		LK_TRY(lk_json_next(json, &token, err));
		if (token == LK_JSON_NUMBER && (start || length)) {
			int64_t ps = strtoll(lk_json_text(json, NULL), NULL, 10);
			*(start ? &event->slice.start_ps : &event->slice.dur_ps) = ps;
			event->exact = event->exact || length;
		} else if (token == LK_JSON_NUMBER && fact >= 0 && !facts[fact].text) {
			*fact_number(&event->slice, fact) = lk_json_number(json);
		} else if (token == LK_JSON_STRING && title) {
			event->title = timeline_keep_text(&event->texts, lk_json_text(json, NULL));
		} else if (token == LK_JSON_STRING && fact >= 0 && facts[fact].text) {
			*fact_text(&event->slice, fact) =
				timeline_keep_text(&event->texts, lk_json_text(json, NULL));
		} else if (token == LK_JSON_OBJECT || token == LK_JSON_ARRAY) {
			return lk_fail(err, LK_ERR_INPUT, lk_json_where(json),
			               "an argument of a timeline is a number or a text");
		}
	}
}

static lk_status chrome_member(lk_json *json, struct chrome_event *event, lk_error *err) {
	lk_json_token token;
	char key[16];
	lk_copy(key, sizeof key, lk_json_text(json, NULL));
	LK_TRY(lk_json_next(json, &token, err));
	if (token == LK_JSON_OBJECT && strcmp(key, "args") == 0)
		return chrome_arguments(json, event, err);
	if (token == LK_JSON_OBJECT || token == LK_JSON_ARRAY)
		return lk_fail(err, LK_ERR_INPUT, lk_json_where(json),
		               "a member of an event is a number or a text");
	const char *text =
		token == LK_JSON_STRING || token == LK_JSON_NUMBER ? lk_json_text(json, NULL) : "";
	if (strcmp(key, "ph") == 0) event->phase = *text;
	else if (strcmp(key, "name") == 0) event->slice.name = timeline_keep_text(&event->texts, text);
	else if (strcmp(key, "cat") == 0)
		event->slice.category = timeline_keep_text(&event->texts, text);
	else if (strcmp(key, "pid") == 0) event->slice.pid = strtoll(text, NULL, 10);
	else if (strcmp(key, "tid") == 0) event->slice.tid = strtoll(text, NULL, 10);
	else if (strcmp(key, "ts") == 0) event->ts = strtod(text, NULL);
	else if (strcmp(key, "dur") == 0) event->dur = strtod(text, NULL);
	return LK_OK;
}

static lk_status chrome_take(lk_shown_ranks *shown, struct chrome_event *event, lk_error *err) {
	const lk_shown_slice *slice = &event->slice;
	if (event->phase == 'M' && slice->name && event->title) {
		if (strcmp(slice->name, "process_name") == 0)
			return lk_shown_process(shown, slice->pid, event->title, err);
		if (strcmp(slice->name, "thread_name") == 0)
			return lk_shown_thread(shown, slice->pid, slice->tid, event->title, err);
	}
	if (event->phase != 'X') return LK_OK;
	if (!event->exact && event->ts >= 0 && event->ts < 1e12 && event->dur >= 0 &&
	    event->dur < 1e12) {
		event->slice.start_ps = (int64_t)(event->ts * 1e6);
		event->slice.dur_ps = (int64_t)(event->dur * 1e6);
	}
	return lk_shown_add(shown, slice, err);
}

static lk_status chrome_events(lk_json *json, lk_shown_ranks *shown, struct chrome_event *event,
                               lk_error *err) {
	lk_json_token token;
	LK_TRY(lk_json_next(json, &token, err));
	if (token != LK_JSON_ARRAY)
		return lk_fail(err, LK_ERR_INPUT, lk_json_where(json), "traceEvents is no list");
	for (;;) {
		LK_TRY(lk_json_next(json, &token, err));
		if (token == LK_JSON_ARRAY_END) return LK_OK;
		if (token != LK_JSON_OBJECT)
			return lk_fail(err, LK_ERR_INPUT, lk_json_where(json), "an event is no object");
		event->slice = (lk_shown_slice){.layer = -1, .microbatch = -1};
		event->texts.used = 0;
		event->phase = '\0';
		event->title = NULL;
		event->ts = event->dur = 0;
		event->exact = false;
		for (;;) {
			LK_TRY(lk_json_next(json, &token, err));
			if (token != LK_JSON_KEY) break;
			LK_TRY(chrome_member(json, event, err));
		}
		LK_TRY(chrome_take(shown, event, err));
	}
}

static lk_status chrome_document(lk_json *json, lk_shown_ranks *shown, struct chrome_event *event,
                                 lk_error *err) {
	lk_json_token token;
	LK_TRY(lk_json_next(json, &token, err));
	for (;;) {
		LK_TRY(lk_json_next(json, &token, err));
		if (token != LK_JSON_KEY) return LK_OK;
		if (strcmp(lk_json_text(json, NULL), "traceEvents") == 0)
			LK_TRY(chrome_events(json, shown, event, err));
		else LK_TRY(lk_json_skip(json, err));
	}
}

static lk_status read_chrome(lk_stream *in, lk_shown_ranks *shown, lk_error *err) {
	struct chrome_event *event = calloc(1, sizeof *event);
	lk_json *json = lk_json_open(in);
	lk_status status = event && json ? chrome_document(json, shown, event, err) : lk_oom(err);
	if (json) lk_json_close(json);
	free(event);
	return status;
}

/* ---- Perfetto's packets: field numbers as in trace_perfetto.c ---- */

enum { PACKET = 1, TIMESTAMP = 8, TRACK_EVENT = 11, INTERNED = 12, TRACK = 60 };
enum { UUID = 1, PROCESS = 3, THREAD = 4 };
enum {
	EVENT_CATEGORY = 3,
	EVENT_ANNOTATION = 4,
	EVENT_TYPE = 9,
	EVENT_NAME = 10,
	EVENT_TRACK = 11
};
enum { SLICE_BEGINS = 1, SLICE_ENDS = 2 };
enum { KINDS_OF_TEXT = 4 }; /* interned: 1 categories, 2 names, 3 names of annotations */

struct packet_text {
	uint64_t id;
	char *text;
};

struct packet_track {
	uint64_t uuid;
	int64_t pid, tid;
};

/* A slice that has begun. */
struct packet_open {
	lk_shown_slice slice;
	uint64_t track;
	struct slice_texts *texts;
};

struct packets {
	lk_shown_ranks *shown;
	LK_VEC(struct packet_text) texts[KINDS_OF_TEXT];
	LK_VEC(struct packet_track) tracks;
	LK_VEC(struct packet_open) open;
	lk_error *err;
};

/* The numbers and texts of a message by field; the last one of each counts. */
struct message {
	uint64_t number[13];
	lk_proto bytes[13];
};

static void read_message(lk_proto message, struct message *out) {
	lk_proto_field field;
	*out = (struct message){0};
	while (lk_proto_next(&message, &field)) {
		if (field.number > 12) continue;
		out->number[field.number] = field.value;
		if (field.type == LK_WIRE_BYTES) out->bytes[field.number] = field.bytes;
	}
}

static char *packet_copy(const lk_proto *bytes) {
	size_t size = bytes->at ? lk_proto_size(bytes) : 0;
	if (size >= TEXT_BYTES) size = TEXT_BYTES - 1;
	return strndup(size ? (const char *)bytes->at : "", size);
}

static lk_status read_interned(struct packets *packets, lk_proto message) {
	lk_proto_field field;
	while (lk_proto_next(&message, &field)) {
		struct message entry;
		if (field.type != LK_WIRE_BYTES || field.number >= KINDS_OF_TEXT) continue;
		read_message(field.bytes, &entry);
		if (!lk_push(&packets->texts[field.number])) return lk_oom(packets->err);
		char *text = packet_copy(&entry.bytes[2]);
		*lk_last(&packets->texts[field.number]) = (struct packet_text){entry.number[1], text};
		if (!text) return lk_oom(packets->err);
	}
	return LK_OK;
}

/* The writer's ids count up, so the newest entries are looked at first. */
static const char *packet_text(const struct packets *packets, int kind, uint64_t id) {
	for (size_t i = packets->texts[kind].count; i-- > 0;)
		if (packets->texts[kind].at[i].id == id) return packets->texts[kind].at[i].text;
	return "";
}

static lk_status read_track(struct packets *packets, lk_proto message) {
	lk_proto_field field;
	struct packet_track track = {0};
	lk_proto process = {0}, thread = {0};
	while (lk_proto_next(&message, &field)) {
		if (field.number == UUID) track.uuid = field.value;
		if (field.type != LK_WIRE_BYTES) continue;
		if (field.number == PROCESS) process = field.bytes;
		if (field.number == THREAD) thread = field.bytes;
	}
	if (!process.at && !thread.at) return LK_OK;
	struct message body;
	read_message(thread.at ? thread : process, &body);
	track.pid = (int64_t)body.number[1];
	track.tid = thread.at ? (int64_t)body.number[2] : 0;
	char *name = packet_copy(&body.bytes[thread.at ? 5 : 6]);
	lk_status status = lk_oom(packets->err);
	if (name && thread.at)
		status = lk_shown_thread(packets->shown, track.pid, track.tid, name, packets->err);
	else if (name) status = lk_shown_process(packets->shown, track.pid, name, packets->err);
	free(name);
	LK_TRY(status);
	if (!lk_push(&packets->tracks)) return lk_oom(packets->err);
	*lk_last(&packets->tracks) = track;
	return LK_OK;
}

static lk_status read_annotation(struct packets *packets, lk_proto message,
                                 struct packet_open *open) {
	struct message body;
	read_message(message, &body);
	int fact = fact_named(packet_text(packets, 3, body.number[1]));
	if (fact < 0) return LK_OK;
	if (!facts[fact].text) {
		*fact_number(&open->slice, fact) =
			body.number[5] ? lk_proto_double(body.number[5]) : (double)(int64_t)body.number[4];
		return LK_OK;
	}
	char *text = packet_copy(&body.bytes[6]);
	if (!text) return lk_oom(packets->err);
	*fact_text(&open->slice, fact) = timeline_keep_text(open->texts, text);
	free(text);
	return LK_OK;
}

static lk_status packet_begin(struct packets *packets, lk_proto event, uint64_t track, int64_t ns) {
	lk_proto_field field;
	struct packet_open open = {.slice = {.start_ps = ns * 1000, .layer = -1, .microbatch = -1},
	                           .track = track,
	                           .texts = calloc(1, sizeof *open.texts)};
	if (!open.texts) return lk_oom(packets->err);
	if (!lk_push(&packets->open)) {
		free(open.texts);
		return lk_oom(packets->err);
	}
	for (size_t i = 0; i < packets->tracks.count; i++)
		if (packets->tracks.at[i].uuid == track) {
			open.slice.pid = packets->tracks.at[i].pid;
			open.slice.tid = packets->tracks.at[i].tid;
		}
	lk_status status = LK_OK;
	while (status == LK_OK && lk_proto_next(&event, &field)) {
		if (field.number == EVENT_NAME) open.slice.name = packet_text(packets, 2, field.value);
		if (field.number == EVENT_CATEGORY)
			open.slice.category = packet_text(packets, 1, field.value);
		if (field.number == EVENT_ANNOTATION && field.type == LK_WIRE_BYTES)
			status = read_annotation(packets, field.bytes, &open);
	}
	*lk_last(&packets->open) = open;
	return status;
}

/* An end is that of the innermost open slice of its track. */
static lk_status packet_end(struct packets *packets, uint64_t track, int64_t ns) {
	for (size_t i = packets->open.count; i-- > 0;) {
		struct packet_open open = packets->open.at[i];
		if (open.track != track) continue;
		open.slice.dur_ps = ns * 1000 - open.slice.start_ps;
		lk_status status = lk_shown_add(packets->shown, &open.slice, packets->err);
		free(open.texts);
		memmove(packets->open.at + i, packets->open.at + i + 1,
		        (packets->open.count - i - 1) * sizeof open);
		packets->open.count--;
		return status;
	}
	return LK_OK;
}

static lk_status read_packet(struct packets *packets, lk_proto packet) {
	lk_proto_field field;
	lk_proto event = {0};
	uint64_t ns = 0;
	while (lk_proto_next(&packet, &field)) {
		if (field.number == TIMESTAMP) ns = field.value;
		if (field.type != LK_WIRE_BYTES) continue;
		if (field.number == INTERNED) LK_TRY(read_interned(packets, field.bytes));
		if (field.number == TRACK) LK_TRY(read_track(packets, field.bytes));
		if (field.number == TRACK_EVENT) event = field.bytes;
	}
	if (!event.at || ns > (uint64_t)INT64_MAX / 1000) return LK_OK;
	uint64_t type = 0, track = 0;
	for (lk_proto body = event; lk_proto_next(&body, &field);) {
		if (field.number == EVENT_TYPE) type = field.value;
		if (field.number == EVENT_TRACK) track = field.value;
	}
	if (type == SLICE_BEGINS) return packet_begin(packets, event, track, (int64_t)ns);
	return type == SLICE_ENDS ? packet_end(packets, track, (int64_t)ns) : LK_OK;
}

static void packets_clear(struct packets *packets) {
	for (int kind = 0; kind < KINDS_OF_TEXT; kind++) {
		for (size_t i = 0; i < packets->texts[kind].count; i++)
			free(packets->texts[kind].at[i].text);
		lk_vec_free(&packets->texts[kind]);
	}
	for (size_t i = 0; i < packets->open.count; i++) free(packets->open.at[i].texts);
	lk_vec_free(&packets->open);
	lk_vec_free(&packets->tracks);
}

static lk_status read_perfetto(lk_stream *in, const lk_read_limits *limits, lk_capture *capture,
                               lk_shown_ranks *shown, lk_error *err) {
	struct packets packets = {.shown = shown, .err = err};
	uint64_t most =
		limits->bytes && limits->bytes < TIMELINE_BYTES ? limits->bytes : TIMELINE_BYTES;
	char *text;
	size_t size;
	LK_TRY(lk_stream_rest(in, most, &text, &size, err));
	lk_proto file = lk_proto_open(text, size);
	lk_proto_field field;
	lk_status status = LK_OK;
	while (status == LK_OK && lk_proto_next(&file, &field))
		if (field.number == PACKET && field.type == LK_WIRE_BYTES)
			status = read_packet(&packets, field.bytes);
	if (status == LK_OK && (file.broken || packets.open.count))
		lk_capture_damage(capture, 1, "the file ends early: what comes after is missing");
	capture->bytes_read = size;
	packets_clear(&packets);
	free(text);
	return status;
}

lk_status lk_timeline_read(lk_stream *in, lk_trace_kind kind, const lk_read_limits *limits,
                           lk_capture *capture, lk_error *err) {
	lk_shown_ranks *shown = lk_shown_new(capture, limits);
	if (!shown) return lk_oom(err);
	lk_status status = kind == LK_TRACE_PERFETTO ? read_perfetto(in, limits, capture, shown, err)
	                                             : read_chrome(in, shown, err);
	if (status == LK_OK) status = lk_shown_end(shown, err);
	lk_shown_free(shown);
	return status;
}
