/* trace_kind.c: recognises SQLite by its magic, JSON by its first bracket and the names of its
 * members, Chakra's protobuf by its first record. */
#include "trace/read/read.h"

#include <stdint.h>
#include <string.h>

#include "io/recording.h"

static bool is_blank(char c) {
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static const char *kind_skip_blanks(const char *at, const char *end) {
	while (at < end && is_blank(*at)) at++;
	return at;
}

/* JSON: a bracket followed by a quote or another bracket. Protobuf may begin with a bracket too (a
 * length of 91 or 123), but continues with the tag of a field, 0x0a, and a length below 0x20. */
static bool is_json(const char *at, const char *end) {
	at = kind_skip_blanks(at, end);
	if (at >= end || (*at != '{' && *at != '[')) return false;
	at = kind_skip_blanks(at + 1, end);
	return at >= end || (*at && strchr("\"'{}[]0123456789-", *at));
}

/* Skip a text, from its quote, or to the end. */
static const char *kind_skip_text(const char *at, const char *end) {
	char quote = *at;
	for (at++; at < end && *at != quote; at++)
		if (*at == '\\') at++;
	return at < end ? at + 1 : end;
}

static lk_trace_kind kind_of_key(const char *key, size_t length) {
	static const struct {
		const char *key;
		lk_trace_kind kind;
	} keys[] = {{"traceEvents", LK_TRACE_KINETO},
	            {"nodes", LK_TRACE_PYTORCH_ET},
	            {"rocprofiler-sdk-tool", LK_TRACE_ROCPROF},
	            {"workload_graph", LK_TRACE_CHAKRA_JSON}};
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
		if (strlen(keys[i].key) == length && memcmp(keys[i].key, key, length) == 0)
			return keys[i].kind;
	return LK_TRACE_OTHER_JSON;
}

/* Decide by the members of the outermost object. A bare list that has begun is one of events; if
 * only blanks follow so far, it may be anything. Quotes may be Python's. */
static lk_trace_kind kind_of_json(const char *at, const char *end) {
	int depth = 0;
	at = kind_skip_blanks(at, end);
	if (at < end && *at == '[')
		return kind_skip_blanks(at + 1, end) < end ? LK_TRACE_KINETO : LK_TRACE_OTHER_JSON;
	while (at < end) {
		if (*at == '"' || *at == '\'') {
			const char *text = at + 1;
			at = kind_skip_text(at, end);
			const char *colon = kind_skip_blanks(at, end);
			bool key = depth == 1 && colon < end && *colon == ':';
			lk_trace_kind kind =
				key ? kind_of_key(text, (size_t)(at - 1 - text)) : LK_TRACE_OTHER_JSON;
			if (kind != LK_TRACE_OTHER_JSON) return kind;
			continue;
		}
		depth += (*at == '{' || *at == '[') - (*at == '}' || *at == ']');
		at++;
	}
	return LK_TRACE_OTHER_JSON;
}

/* Timelines of --trace and rocprof's results.json, which begins with an empty event; shorter texts
 * may be anything. */
static lk_trace_kind kind_of_chrome(const char *at, const char *end) {
	static const char begins[] = "{ \"traceEvents\":[{}",
					  timeline[] = "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"generator\":"
								   "\"lockstep\"";
	size_t size = (size_t)(end - at), length = sizeof begins - 1;
	if (size >= sizeof timeline && memcmp(at, timeline, sizeof timeline - 1) == 0)
		return LK_TRACE_TIMELINE;
	if (memcmp(at, begins, size < length ? size : length) != 0) return kind_of_json(at, end);
	return size < length ? LK_TRACE_OTHER_JSON : LK_TRACE_ROCPROF;
}

/* Whether this is a record of known length whose first field is Chakra's version or an attribute
 * (texts and records within it) or a node's number; the first record may be empty. */
static bool is_chakra(const unsigned char *at, const unsigned char *end) {
	if (at < end && *at == 0) at++;
	uint64_t length = 0;
	for (int shift = 0; at < end && shift < 35; shift += 7) {
		length |= (uint64_t)(*at & 127) << shift;
		if (*at++ < 128) break;
	}
	if (end - at < 2 || length < 2) return false;
	return at[0] == 0x08 || ((at[0] == 0x0a || at[0] == 0x12) && at[1] < length);
}

/* XSpace: its first plane (field 1), perhaps an id (field 1), and a name (field 2) that planes
 * have. */
static bool is_xplane(const unsigned char *at, const unsigned char *end) {
	static const char *const names[] = {"/host:", "/device:", "Task Environment"};
	if (at >= end || *at++ != 0x0a) return false;
	while (at < end && *at & 0x80) at++;
	at++;
	if (end - at > 1 && *at == 0x08) {
		at++;
		while (at < end && *at & 0x80) at++;
		at++;
	}
	if (end - at < 2 || *at != 0x12) return false;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		size_t length = strlen(names[i]);
		if ((size_t)(end - at) > length + 2 && memcmp(at + 2, names[i], length) == 0) return true;
	}
	return false;
}

/* The first packet of a .pftrace of --trace: its sequence, cleared state, and the first name of an
 * annotation. */
static bool is_perfetto(const unsigned char *at, const unsigned char *end) {
	static const unsigned char state[] = {0x50, 1, 0x68, 1, 0x62},
							   entry[] = {0x1a, 9, 8, 1, 0x12, 5, 'b', 'y', 't', 'e', 's'};
	if (end - at < 2 || *at++ != 0x0a || !(*at & 0x80)) return false; /* longer than 127 bytes */
	while (at < end && *at & 0x80) at++;
	at++;
	if (end - at < 32 || memcmp(at, state, sizeof state) != 0) return false;
	at += sizeof state;
	while (at < end && *at & 0x80) at++;
	at++;
	return (size_t)(end - at) > sizeof entry && memcmp(at, entry, sizeof entry) == 0;
}

lk_trace_kind lk_trace_kind_of(const char *head, size_t size) {
	static const char sqlite[] = "SQLite format 3"; /* with the NUL */
	const char *end = head + size;
	if (size >= sizeof sqlite && memcmp(head, sqlite, sizeof sqlite) == 0) return LK_TRACE_DATABASE;
	if (size >= 8 && memcmp(head, LK_RECORDING_MAGIC, 8) == 0) return LK_TRACE_RECORDING;
	if (is_xplane((const unsigned char *)head, (const unsigned char *)end)) return LK_TRACE_XPLANE;
	if (is_perfetto((const unsigned char *)head, (const unsigned char *)end))
		return LK_TRACE_PERFETTO;
	if (size >= 3 && memcmp(head, "\xef\xbb\xbf", 3) == 0) head += 3;
	if (is_json(head, end)) return kind_of_chrome(head, end);
	/* blanks are bytes of protobuf too; JSON may still follow them */
	if (kind_skip_blanks(head, end) == end) return LK_TRACE_OTHER;
	return is_chakra((const unsigned char *)head, (const unsigned char *)end) ? LK_TRACE_CHAKRA
	                                                                          : LK_TRACE_OTHER;
}
