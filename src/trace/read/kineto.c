/* kineto.c: the JSON of PyTorch's profiler (Kineto) and of Chrome's trace viewer, streamed: an object of head fields
 * and a list `traceEvents`, or the older bare list. Events are read one by one from a sliding window (kineto_event.c);
 * what nobody needs is skipped without being looked at. A damaged file gives the events that can be read, and warnings.
 */
#include "trace/read/read.h"

#include <stdlib.h>
#include "trace/read/kineto_internal.h"

enum { NESTED_LISTS = 16, NESTED_HEADS = 8, LOOKAHEAD = 64 };

static const lk_read_limits defaults = {.bytes = UINT64_C(64) << 30, .events = 1000000000, .names = 16000000};

/* ---- moving through the document ---- */

/* The next window. *there says whether it has bytes that were not there before; a file that has none is cut off, unless
 * the window is full. */
static lk_status more(lk_kineto *r, bool *there) {
	lk_window_state state = lk_window_more(&r->window);
	*there = state == LK_WINDOW_MORE;
	r->full = state == LK_WINDOW_FULL;
	if (state == LK_WINDOW_MEMORY) return lk_oom(r->err);
	if (state == LK_WINDOW_LIMIT) {
		lk_fail(r->err, LK_ERR_INPUT, r->c->path, "more than %llu bytes of JSON", (unsigned long long)r->limits.bytes);
		return lk_hint(r->err, "profile fewer steps, or without Python stacks and memory events");
	}
	return LK_OK;
}

/* The next byte that is no white space, not yet consumed; -1 at the end. */
static lk_status peek(lk_kineto *r, int *out) {
	lk_window *w = &r->window;
	for (bool there = true; there;) {
		while (w->at < w->end && (unsigned char)*w->at <= ' ') w->at++;
		if (w->at < w->end) return *out = (unsigned char)*w->at, LK_OK;
		LK_TRY(more(r, &there));
	}
	r->cut = true;
	*out = -1;
	return LK_OK;
}

static lk_status too_deep(lk_kineto *r) {
	char where[240];
	snprintf(where, sizeof where, "%s:%llu", r->c->path, (unsigned long long)lk_window_line(&r->window, r->window.at));
	lk_fail(r->err, LK_ERR_INPUT, where, "nested more than %d levels deep", LK_SCAN_DEPTH);
	return lk_hint(r->err, "no profiler writes that; is the file damaged?");
}

/* Leaves `depth` open brackets behind, through as many windows as it takes. */
static lk_status skip_out(lk_kineto *r, int64_t depth) {
	lk_window *w = &r->window;
	lk_skip skip = {.depth = depth};
	for (bool there = true; there;) {
		lk_skip_state state = lk_skip_on(&skip, &w->at, w->end);
		if (state == LK_SKIP_DONE) return LK_OK;
		if (state == LK_SKIP_DEEP) return too_deep(r);
		LK_TRY(more(r, &there));
	}
	r->cut = true;
	return LK_OK;
}

static lk_status skip_text(lk_kineto *r) {
	lk_window *w = &r->window;
	bool escaped = false;
	w->at++;
	for (bool there = true; there;) {
		for (; w->at < w->end; w->at++) {
			if (escaped) escaped = false;
			else if (*w->at == '\\') escaped = true;
			else if (*w->at == '"') return w->at++, LK_OK;
		}
		LK_TRY(more(r, &there));
	}
	r->cut = true;
	return LK_OK;
}

static lk_status skip_bare(lk_kineto *r) {
	lk_window *w = &r->window;
	for (bool there = true; there;) {
		for (; w->at < w->end; w->at++)
			if (*w->at == ',' || *w->at == '}' || *w->at == ']' || *w->at == '"') return LK_OK;
		LK_TRY(more(r, &there));
	}
	r->cut = true;
	return LK_OK;
}

static lk_status skip_value(lk_kineto *r) {
	int c;
	LK_TRY(peek(r, &c));
	if (c < 0) return LK_OK;
	if (c == '"') return skip_text(r);
	return c == '{' || c == '[' ? skip_out(r, 0) : skip_bare(r);
}

/* ---- finding the way after damage ---- */

/* Whether an event begins with the '{' at `p`: a key of events follows. */
static bool begins_event(const lk_kineto *r, const char *p) {
	const char *end = p + LOOKAHEAD;
	for (p++; p < end && (unsigned char)*p <= ' '; p++) {}
	if (*p != '"') return false;
	const char *key = ++p;
	while (p < end && *p != '"') p++;
	return p < end && lk_keys_event(&r->keys, key, (size_t)(p - key));
}

/* Moves to the next place that looks like the beginning of an event. */
static lk_status find_event(lk_kineto *r) {
	lk_window *w = &r->window;
	for (bool there = true;;) {
		const char *p = w->at < w->end ? memchr(w->at, '{', (size_t)(w->end - w->at)) : NULL;
		w->at = p ? p : w->end;
		if (p && (w->end - p >= LOOKAHEAD || !there)) {
			if (begins_event(r, p)) return LK_OK;
			w->at++;
			continue;
		}
		if (!there) break;
		LK_TRY(more(r, &there));
	}
	r->cut = true;
	return LK_OK;
}

static lk_status recover(lk_kineto *r, const char *at) {
	lk_kineto_odd(r, LK_ODD_DAMAGED, at);
	return find_event(r);
}

/* ---- the document ---- */

static lk_status read_members(lk_kineto *r, int depth);
static lk_status read_list(lk_kineto *r, int depth);

/* What is longer than any window may be is skipped unread. */
static lk_status skip_long_event(lk_kineto *r) {
	lk_kineto_odd(r, LK_ODD_LONG, r->window.at);
	r->c->dropped++;
	r->window.at++;
	return skip_out(r, 1);
}

/* The event at the window's begin; again with a longer stretch of the file where it does not end in the window. */
static lk_status read_event(lk_kineto *r, int depth) {
	lk_window *w = &r->window;
	for (;;) {
		const char *at = w->at;
		int open = 0;
		lk_event_state state = lk_kineto_event(&r->f, &r->keys, &at, w->end, &open);
		const char *begin = w->at;
		if (state != LK_EVENT_SHORT && state != LK_EVENT_DEEP) w->at = at;
		if (state == LK_EVENT_DONE) return lk_kineto_keep(r, begin);
		if (state == LK_EVENT_USELESS) return r->c->dropped++, skip_out(r, open);
		if (state == LK_EVENT_DAMAGED) return recover(r, at);
		if (state == LK_EVENT_DEEP) return too_deep(r);
		if (state == LK_EVENT_NESTED) return depth < NESTED_LISTS ? read_members(r, depth + 1) : skip_out(r, 1);
		bool there;
		LK_TRY(more(r, &there));
		if (r->full) return skip_long_event(r);
		if (!there) return r->cut = true, LK_OK;
	}
}

/* From behind '[' to behind ']'. Lists inside the list are read as if their events stood there. */
static lk_status read_list(lk_kineto *r, int depth) {
	bool comma = false;
	r->found = true;
	while (!r->cut) {
		int c = (unsigned char)*r->window.at;
		if (c != '{') LK_TRY(peek(r, &c));
		if (c < 0) break;
		if (c == '{') LK_TRY(read_event(r, depth));
		else if (c == ',') r->window.at++;
		else if (c == ']') {
			if (comma) lk_kineto_odd(r, LK_ODD_COMMA, r->window.at);
			r->window.at++;
			return LK_OK;
		} else if (c == '[' && depth < NESTED_LISTS) {
			r->window.at++;
			LK_TRY(read_list(r, depth + 1));
		} else if (c == '[') LK_TRY(skip_out(r, 0));
		else LK_TRY(recover(r, r->window.at));
		comma = c == ',';
	}
	return LK_OK;
}

/* A value of the head that is wanted: all of it has to lie in the window. */
static lk_status read_head(lk_kineto *r, const char *key) {
	lk_window *w = &r->window;
	for (;;) {
		const char *begin = w->at, *end = begin;
		lk_skip skip = {0};
		lk_skip_state state = LK_SKIP_SHORT;
		if (*begin == '{' || *begin == '[') state = lk_skip_on(&skip, &end, w->end);
		else {
			while (end < w->end && *end != ',' && *end != '}') end++;
			if (end < w->end) state = LK_SKIP_DONE;
		}
		if (state == LK_SKIP_DEEP) return too_deep(r);
		if (state == LK_SKIP_DONE) return w->at = end, lk_head_read(r, key, begin, (size_t)(end - begin));
		bool there;
		LK_TRY(more(r, &there));
		if (r->full) return lk_kineto_odd(r, LK_ODD_HEAD, w->at), skip_value(r);
		if (!there) return r->cut = true, LK_OK;
	}
}

static bool is(const char *key, const char *name) { return strcmp(key, name) == 0; }

static lk_status read_member(lk_kineto *r, const char *key, int depth) {
	const char *wanted = lk_head_wants(key, strlen(key));
	int c;
	LK_TRY(peek(r, &c));
	if (c < 0) return LK_OK;
	if (wanted) return read_head(r, wanted);
	if (c == '[' && is(key, "traceEvents")) return r->window.at++, read_list(r, depth);
	if (c == '{' && depth < NESTED_HEADS) return r->window.at++, read_members(r, depth + 1);
	return skip_value(r);
}

/* A key of the head, at most size - 1 bytes of it; longer ones are of no interest. */
static lk_status read_key(lk_kineto *r, char *out, size_t size) {
	lk_window *w = &r->window;
	bool there = true;
	while (w->end - w->at < LOOKAHEAD && there) LK_TRY(more(r, &there));
	const char *first = w->at + 1;
	size_t length = 0;
	while (length < size - 1 && first + length < w->end && first[length] != '"') length++;
	memcpy(out, first, length);
	out[length] = '\0';
	return skip_text(r);
}

/* From behind '{' (or before a later key) to behind '}'. */
static lk_status read_members(lk_kineto *r, int depth) {
	bool comma = false;
	while (!r->cut) {
		char key[LOOKAHEAD - 8];
		int c;
		LK_TRY(peek(r, &c));
		if (c == '"') {
			LK_TRY(read_key(r, key, sizeof key));
			LK_TRY(peek(r, &c));
			if (c == ':') r->window.at++;
			LK_TRY(read_member(r, key, depth));
		} else if (c == ',') r->window.at++;
		else if (c == '}') {
			if (comma) lk_kineto_odd(r, LK_ODD_COMMA, r->window.at);
			return r->window.at++, LK_OK;
		} else if (c >= 0) {
			lk_kineto_odd(r, LK_ODD_DAMAGED, r->window.at);
			if (!r->found) return LK_OK;
			r->window.at++;
		}
		comma = c == ',';
	}
	return LK_OK;
}

/* Whether anything but white space is left. */
static lk_status read_end(lk_kineto *r) {
	int c;
	LK_TRY(peek(r, &c));
	r->cut = false;
	if (c >= 0) lk_kineto_odd(r, LK_ODD_BEHIND, r->window.at);
	return LK_OK;
}

static lk_status no_trace(lk_kineto *r, const char *what) {
	char where[240];
	snprintf(where, sizeof where, "%s:%llu", r->c->path, (unsigned long long)lk_window_line(&r->window, r->window.at));
	lk_fail(r->err, LK_ERR_INPUT, where, "no trace: %s", what);
	return lk_hint(r->err, "give what export_chrome_trace of torch.profiler wrote, plain, gzip or zstd");
}

static lk_status read_document(lk_kineto *r) {
	lk_window *w = &r->window;
	bool there;
	int c;
	LK_TRY(more(r, &there));
	if (w->end - w->at >= 3 && memcmp(w->at, "\xef\xbb\xbf", 3) == 0) w->at += 3;
	LK_TRY(peek(r, &c));
	if (c < 0) return w->broken != LK_OK ? LK_OK : no_trace(r, "the file is empty");
	if (c != '{' && c != '[') return no_trace(r, "it begins neither with { nor with [");
	w->at++;
	LK_TRY(c == '[' ? read_list(r, 0) : read_members(r, 0));
	if (!r->cut && (r->found || !r->odd[LK_ODD_DAMAGED].count)) LK_TRY(read_end(r));
	if (r->found) return LK_OK;
	if (w->broken != LK_OK) return LK_OK;
	if (r->odd[LK_ODD_DAMAGED].count) return no_trace(r, "this is no JSON");
	return no_trace(r, r->cut ? "it is cut off before its events" : "it has no list traceEvents");
}

/* ---- warnings ---- */

/* Each is followed by a count and the line of the first. */
static const char *const odd_texts[LK_ODD_COUNT] = {
	[LK_ODD_DAMAGED] = "damaged places, left out up to the next event",
	[LK_ODD_LONG] = "events of more than 32 MiB, left out",
	[LK_ODD_NO_TIME] = "events without a time (ts), left out",
	[LK_ODD_NO_DURATION] = "events without a duration (dur), left out",
	[LK_ODD_NEGATIVE] = "events with a negative duration, taken as 0",
	[LK_ODD_TWICE] = "events with a key that stands twice, of which the last counts",
	[LK_ODD_CONTROLS] = "events with control characters in texts",
	[LK_ODD_NOT_FINITE] = "events with NaN or Infinity, taken as not said",
	[LK_ODD_COMMA] = "commas with nothing behind them",
	[LK_ODD_NOT_BEGUN] = "ends (ph E) without a begin, left out",
	[LK_ODD_LONG_SHAPE] = "lists of shapes of more than 64 KiB, left out",
	[LK_ODD_HEAD] = "head fields that could not be read",
};

static void warn_of_end(lk_kineto *r) {
	lk_window *w = &r->window;
	unsigned long long line = lk_window_line(w, w->at);
	char text[600];
	if (w->broken != LK_OK)
		lk_capture_warn(r->c, "%s; the %u events before that are kept", lk_error_text(&w->cause, text, sizeof text),
		                r->c->count);
	else if (r->cut)
		lk_capture_warn(r->c, "cut off in line %llu; the %u events before that are kept", line, r->c->count);
}

static void warn(lk_kineto *r) {
	warn_of_end(r);
	for (int i = 0; i < LK_ODD_COUNT; i++) {
		unsigned long long count = r->odd[i].count, line = r->odd[i].line;
		if (!count) continue;
		if (i == LK_ODD_NOT_ENDED)
			lk_capture_warn(r->c, "calls that began (ph B) and never ended, left out: %llu", count);
		else if (i == LK_ODD_BEHIND)
			lk_capture_warn(r->c, "behind the end, in line %llu, stands more; it is not read", line);
		else lk_capture_warn(r->c, "%s: %llu, first in line %llu", odd_texts[i], count, line);
	}
}

static lk_read_limits limits_of(const lk_read_limits *given) {
	lk_read_limits l = *given;
	if (!l.bytes) l.bytes = defaults.bytes;
	if (!l.events) l.events = defaults.events;
	if (!l.names) l.names = defaults.names;
	return l;
}

static lk_status read_all(lk_kineto *r) {
	LK_TRY(read_document(r));
	/* Nothing came of a stream that broke: its own error says it best. */
	if (r->window.broken != LK_OK && !r->c->count) {
		if (r->err) *r->err = r->window.cause;
		return r->window.broken;
	}
	LK_TRY(lk_kineto_finish(r));
	warn(r);
	return LK_OK;
}

lk_status lk_kineto_read(lk_stream *in, const lk_read_limits *limits, lk_capture *capture, lk_error *err) {
	lk_kineto *r = calloc(1, sizeof *r);
	if (!r) return lk_oom(err);
	r->c = capture;
	r->limits = limits_of(limits);
	r->err = err;
	r->free_call = LK_NONE;
	lk_keys_open(&r->keys);
	lk_status status = lk_window_open(&r->window, in, r->limits.bytes) ? read_all(r) : lk_oom(err);
	capture->bytes_read = r->window.read;
	lk_window_close(&r->window);
	lk_lane_map_free(&r->open_on);
	lk_vec_free(&r->open);
	lk_vec_free(&r->labels);
	lk_vec_free(&r->devices);
	free(r);
	return status;
}
