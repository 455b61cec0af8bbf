/* capture_read.c: a file of any format, recognised by its content (trace_kind.c). */
#include <string.h>

#include "base/arena.h"
#include "io/archive.h"
#include "io/json.h"
#include "trace/kineto/kineto.h"
#include "trace/read/read.h"

/* SQLite reads files, not streams; a recording has other files in its folder. */
static lk_status check_file(lk_stream *in, const char *path, const char *what, lk_error *err) {
	if (lk_stream_plain(in) && strcmp(path, "-") != 0 && !lk_archive_mark(path)) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, lk_stream_name(in), "%s must be a plain file", what);
	return lk_hint(err, "unpack it, and give its name");
}

static lk_status read_database(const char *path, const lk_read_limits *limits, lk_capture *capture,
                               lk_error *err) {
	bool amd;
	LK_TRY(lk_rocpd_found(path, &amd, err));
	return (amd ? lk_rocpd_read : lk_nsys_read)(path, limits, capture, err);
}

static lk_status read_events(lk_stream *in, lk_trace_kind kind, const char *path,
                             const lk_read_limits *limits, lk_capture *capture, lk_error *err) {
	switch (kind) {
	case LK_TRACE_DATABASE:
		LK_TRY(check_file(in, path, "a database", err));
		LK_TRY(read_database(path, limits, capture, err));
		return lk_capture_split(capture, err);
	case LK_TRACE_ROCPROF:
		LK_TRY(lk_rocprof_read(in, limits, capture, err));
		return lk_capture_split(capture, err);
	case LK_TRACE_RECORDING:
		LK_TRY(check_file(in, path, "a recording", err));
		return lk_recording_read(path, limits, capture, err);
	case LK_TRACE_XPLANE: return lk_xplane_read(in, limits, capture, err);
	case LK_TRACE_TIMELINE:
	case LK_TRACE_PERFETTO: return lk_timeline_read(in, kind, limits, capture, err);
	default:
		LK_TRY(lk_kineto_read(in, limits, capture, err));
		return lk_capture_split(capture, err);
	}
}

/* Ranks of one file share its clock. */
static lk_status finish_rank(lk_capture *capture, lk_error *err) {
	LK_TRY(lk_capture_finish(capture, err));
	if (capture->parts < 2) return LK_OK;
	capture->host = lk_arena_strdup(&capture->arena, capture->path);
	capture->host_ns = capture->origin_ns;
	return capture->host ? LK_OK : lk_oom(err);
}

static lk_status read_capture(lk_stream *in, lk_trace_kind kind, const char *path,
                              const lk_read_limits *limits, lk_capture **out, lk_error *err) {
	const char *format = "Kineto JSON"; /* those of databases are set by their readers */
	if (kind == LK_TRACE_RECORDING) format = "lockstep recording";
	if (kind == LK_TRACE_XPLANE) format = "XSpace";
	if (kind == LK_TRACE_ROCPROF) format = "rocprof JSON";
	if (kind == LK_TRACE_TIMELINE) format = "lockstep timeline JSON";
	if (kind == LK_TRACE_PERFETTO) format = "lockstep timeline";
	lk_capture *capture = lk_capture_new(path, format);
	lk_status status = capture ? read_events(in, kind, path, limits, capture, err) : lk_oom(err);
	for (lk_capture *rank = capture; rank && status == LK_OK; rank = rank->next)
		status = finish_rank(rank, err);
	if (status != LK_OK) lk_capture_free(capture);
	else *out = capture;
	return status;
}

static lk_status read_any(lk_stream *in, const char *path, const lk_read_limits *limits,
                          lk_capture **capture, lk_works **works, lk_error *err) {
	static const lk_read_limits none = {.shapes = true};
	const char *head;
	size_t size;
	if (!limits) limits = &none;
	LK_TRY(lk_stream_peek(in, LK_TRACE_HEAD, &head, &size, err));
	lk_trace_kind kind = lk_trace_kind_of(head, size);
	return lk_trace_is_works(kind) ? lk_works_read_stream(in, limits, works, err)
	                               : read_capture(in, kind, path, limits, capture, err);
}

/* A small file among traces whose head shows that it is no trace: a configuration or a table. */
static bool capture_is_other(lk_stream *in) {
	const char *head;
	size_t size;
	if (lk_stream_peek(in, LK_TRACE_HEAD, &head, &size, NULL) != LK_OK || size == LK_TRACE_HEAD)
		return false;
	lk_trace_kind kind = lk_trace_kind_of(head, size);
	return kind == LK_TRACE_OTHER || kind == LK_TRACE_OTHER_JSON;
}

lk_status lk_trace_read(const char *path, bool found, const lk_read_limits *limits,
                        lk_capture **capture, lk_works **works, lk_error *err) {
	lk_stream *in;
	*capture = NULL;
	*works = NULL;
	LK_TRY(lk_archive_open(path, &in, err));
	lk_status status =
		found && capture_is_other(in) ? LK_OK : read_any(in, path, limits, capture, works, err);
	lk_stream_close(in);
	return status;
}

static lk_status check_tokens(lk_stream *in, lk_error *err) {
	lk_json_token token = LK_JSON_NULL;
	lk_json *json = lk_json_open(in);
	if (json == NULL) return lk_oom(err);
	lk_json_be_strict(json);
	lk_status status = LK_OK;
	while (status == LK_OK && token != LK_JSON_END) status = lk_json_next(json, &token, err);
	lk_json_close(json);
	return status;
}

lk_status lk_capture_check(const lk_capture *capture, lk_error *err) {
	lk_stream *in;
	if (strstr(capture->format, "JSON") == NULL) return LK_OK;
	if (strcmp(capture->path, "-") == 0) {
		lk_fail(err, LK_ERR_INPUT, "--strict", "standard input can be read only once");
		return lk_hint(err, "give the name of the file");
	}
	LK_TRY(lk_archive_open(capture->path, &in, err));
	lk_status status = check_tokens(in, err);
	lk_stream_close(in);
	return status == LK_ERR_INPUT ? lk_hint(err, "record it again, or leave --strict out") : status;
}
