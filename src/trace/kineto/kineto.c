/* kineto.c: the JSON of PyTorch's profiler (Kineto) and of Chrome's trace viewer, streamed: an
 * object of head fields and a list `traceEvents`, or the older bare list. Events are read one by
 * one from a sliding window (kineto_event.c); unneeded values are skipped without parsing. A
 * damaged file gives the readable events, and warnings. */
#include "trace/kineto/kineto.h"

#include <stdlib.h>
#include "trace/kineto/kineto_internal.h"
#include "base/noun.h"
#include "system/parallel.h"

enum { NESTED_LISTS = 16, NESTED_HEADS = 8 };

static const lk_read_limits defaults = {
	.bytes = UINT64_C(64) << 30, .events = 1000000000, .names = 16000000};

/* ---- moving through the document ---- */

/* Get the next window. *there: whether it has new bytes; a file without new bytes is cut off,
 * unless the window is full. */
static lk_status kineto_more(lk_kineto *kineto, bool *there) {
	lk_window_state state = lk_window_more(&kineto->window);
	*there = state == LK_WINDOW_MORE;
	kineto->full = state == LK_WINDOW_FULL;
	if (state == LK_WINDOW_MEMORY) return lk_oom(kineto->err);
	if (state == LK_WINDOW_LIMIT) {
		lk_fail(kineto->err, LK_ERR_INPUT, kineto->capture->path, "more than %llu bytes of JSON",
		        (unsigned long long)kineto->limits.bytes);
		return lk_hint(kineto->err,
		               "profile fewer steps, or without Python stacks and memory events");
	}
	return LK_OK;
}

/* The next byte that is not white space, not yet consumed; -1 at the end. */
static lk_status kineto_peek(lk_kineto *kineto, int *out) {
	lk_window *window = &kineto->window;
	for (bool there = true; there;) {
		while (window->at < window->end && (unsigned char)*window->at <= ' ') window->at++;
		if (window->at < window->end) {
			*out = (unsigned char)*window->at;
			return LK_OK;
		}
		LK_TRY(kineto_more(kineto, &there));
	}
	kineto->cut = true;
	*out = -1;
	return LK_OK;
}

static lk_status too_deep(lk_kineto *kineto) {
	char where[240];
	snprintf(where, sizeof where, "%s:%llu", kineto->capture->path,
	         (unsigned long long)lk_window_line(&kineto->window, kineto->window.at));
	lk_fail(kineto->err, LK_ERR_INPUT, where, "nested more than %d levels deep", LK_SCAN_DEPTH);
	return lk_hint(kineto->err, "no profiler writes that; is the file damaged?");
}

/* Read to the end of `depth` open brackets, through any number of windows. */
static lk_status skip_out(lk_kineto *kineto, int64_t depth) {
	lk_window *window = &kineto->window;
	lk_skip skip = {.depth = depth};
	for (bool there = true; there;) {
		lk_skip_state state = lk_skip_on(&skip, &window->at, window->end);
		if (state == LK_SKIP_DONE) return LK_OK;
		if (state == LK_SKIP_DEEP) return too_deep(kineto);
		LK_TRY(kineto_more(kineto, &there));
	}
	kineto->cut = true;
	return LK_OK;
}

static lk_status kineto_skip_text(lk_kineto *kineto) {
	lk_window *window = &kineto->window;
	bool escaped = false;
	window->at++;
	for (bool there = true; there;) {
		for (; window->at < window->end; window->at++) {
			if (escaped) escaped = false;
			else if (*window->at == '\\') escaped = true;
			else if (*window->at == '"') {
				window->at++;
				return LK_OK;
			}
		}
		LK_TRY(kineto_more(kineto, &there));
	}
	kineto->cut = true;
	return LK_OK;
}

static lk_status skip_bare(lk_kineto *kineto) {
	lk_window *window = &kineto->window;
	for (bool there = true; there;) {
		for (; window->at < window->end; window->at++)
			if (*window->at == ',' || *window->at == '}' || *window->at == ']' ||
			    *window->at == '"')
				return LK_OK;
		LK_TRY(kineto_more(kineto, &there));
	}
	kineto->cut = true;
	return LK_OK;
}

static lk_status skip_value(lk_kineto *kineto) {
	int c;
	LK_TRY(kineto_peek(kineto, &c));
	if (c < 0) return LK_OK;
	if (c == '"') return kineto_skip_text(kineto);
	return c == '{' || c == '[' ? skip_out(kineto, 0) : skip_bare(kineto);
}

/* ---- recovery after damage ---- */

/* Move to the next place that looks like the beginning of an event. */
static lk_status find_event(lk_kineto *kineto) {
	lk_window *window = &kineto->window;
	for (bool there = true;;) {
		const char *p = window->at < window->end
		                    ? memchr(window->at, '{', (size_t)(window->end - window->at))
		                    : NULL;
		window->at = p ? p : window->end;
		if (p && (window->end - p >= LK_LOOKAHEAD || !there)) {
			if (lk_keys_begin(&kineto->keys, p)) return LK_OK;
			window->at++;
			continue;
		}
		if (!there) break;
		LK_TRY(kineto_more(kineto, &there));
	}
	kineto->cut = true;
	return LK_OK;
}

static lk_status recover(lk_kineto *kineto, const char *at) {
	lk_kineto_odd(kineto, LK_ODD_DAMAGED, at);
	return find_event(kineto);
}

/* ---- the document ---- */

static lk_status read_members(lk_kineto *kineto, int depth);
static lk_status kineto_read_list(lk_kineto *kineto, int depth);

/* Skip an event that is longer than any window may be. */
static lk_status skip_long_event(lk_kineto *kineto) {
	lk_kineto_odd(kineto, LK_ODD_LONG, kineto->window.at);
	kineto->capture->dropped++;
	kineto->window.at++;
	return skip_out(kineto, 1);
}

/* Take the events from here on that another thread has already read. */
static lk_status take_run(lk_kineto *kineto, bool *taken) {
	lk_window *window = &kineto->window;
	uint64_t lines, place = window->read - (uint64_t)(window->end - window->at);
	lk_run *run = lk_ahead_run(window->ahead, place, &lines);
	if (run) LK_TRY(lk_run_join(kineto, run, lines, taken));
	if (!*taken) return LK_OK;
	if (run->end <= window->read) {
		window->at += run->end - place;
		return LK_OK;
	}
	lk_ahead_pass_run(window->ahead, run);
	lk_window_jump(window, run->end, lines + run->lines);
	return LK_OK;
}

/* Read the event at the window's start; if it does not end in the window, slide or grow the window
 * and read it again. */
static lk_status read_event(lk_kineto *kineto, int depth) {
	lk_window *window = &kineto->window;
	bool taken = false;
	if (window->ahead) LK_TRY(take_run(kineto, &taken));
	if (taken) return LK_OK;
	for (;;) {
		const char *at = window->at;
		int open = 0;
		lk_event_state state = lk_kineto_event(&kineto->f, &kineto->keys, &at, window->end, &open);
		const char *begin = window->at;
		if (state != LK_EVENT_SHORT && state != LK_EVENT_DEEP) window->at = at;
		if (state == LK_EVENT_DONE) return lk_kineto_keep(kineto, begin);
		if (state == LK_EVENT_USELESS) {
			kineto->mtia |= kineto->f.kind == LK_KINETO_MTIA;
			kineto->capture->dropped++;
			return skip_out(kineto, open);
		}
		if (state == LK_EVENT_DAMAGED) return recover(kineto, at);
		if (state == LK_EVENT_DEEP) return too_deep(kineto);
		if (state == LK_EVENT_NESTED)
			return depth < NESTED_LISTS ? read_members(kineto, depth + 1) : skip_out(kineto, 1);
		bool there;
		LK_TRY(kineto_more(kineto, &there));
		if (kineto->full) return skip_long_event(kineto);
		if (!there) {
			kineto->cut = true;
			return LK_OK;
		}
	}
}

/* Read from after '[' to after ']'. Lists inside the list are read as if their events were in the
 * outer one. */
static lk_status kineto_read_list(lk_kineto *kineto, int depth) {
	bool comma = false;
	kineto->found = true;
	while (!kineto->cut) {
		int c = (unsigned char)*kineto->window.at;
		if (c != '{') LK_TRY(kineto_peek(kineto, &c));
		if (c < 0) break;
		if (c == '{') LK_TRY(read_event(kineto, depth));
		else if (c == ',') kineto->window.at++;
		else if (c == ']') {
			if (comma) lk_kineto_odd(kineto, LK_ODD_COMMA, kineto->window.at);
			kineto->window.at++;
			return LK_OK;
		} else if (c == '[' && depth < NESTED_LISTS) {
			kineto->window.at++;
			LK_TRY(kineto_read_list(kineto, depth + 1));
		} else if (c == '[') LK_TRY(skip_out(kineto, 0));
		else LK_TRY(recover(kineto, kineto->window.at));
		comma = c == ',';
	}
	return LK_OK;
}

/* Read a needed value of the head: all of it must lie in the window. */
static lk_status read_head(lk_kineto *kineto, const char *key) {
	lk_window *window = &kineto->window;
	for (;;) {
		const char *begin = window->at, *end = begin;
		lk_skip skip = {0};
		lk_skip_state state = LK_SKIP_SHORT;
		if (*begin == '{' || *begin == '[') state = lk_skip_on(&skip, &end, window->end);
		else {
			while (end < window->end && *end != ',' && *end != '}') end++;
			if (end < window->end) state = LK_SKIP_DONE;
		}
		if (state == LK_SKIP_DEEP) return too_deep(kineto);
		if (state == LK_SKIP_DONE) {
			window->at = end;
			return lk_head_read(kineto, key, begin, (size_t)(end - begin));
		}
		bool there;
		LK_TRY(kineto_more(kineto, &there));
		if (kineto->full) {
			lk_kineto_odd(kineto, LK_ODD_HEAD, window->at);
			return skip_value(kineto);
		}
		if (!there) {
			kineto->cut = true;
			return LK_OK;
		}
	}
}

static lk_status kineto_read_member(lk_kineto *kineto, const char *key, int depth) {
	const char *wanted = lk_head_wants(key, strlen(key));
	int c;
	LK_TRY(kineto_peek(kineto, &c));
	if (c < 0) return LK_OK;
	if (wanted) return read_head(kineto, wanted);
	if (c == '[' && strcmp(key, "traceEvents") == 0) {
		kineto->window.at++;
		return kineto_read_list(kineto, depth);
	}
	if (c == '{' && depth < NESTED_HEADS) {
		kineto->window.at++;
		return read_members(kineto, depth + 1);
	}
	return skip_value(kineto);
}

/* Read at most size - 1 bytes of a key of the head; longer keys are not needed. */
static lk_status kineto_read_key(lk_kineto *kineto, char *out, size_t size) {
	lk_window *window = &kineto->window;
	bool there = true;
	while (window->end - window->at < LK_LOOKAHEAD && there) LK_TRY(kineto_more(kineto, &there));
	const char *first = window->at + 1;
	size_t length = 0;
	while (length < size - 1 && first + length < window->end && first[length] != '"') length++;
	memcpy(out, first, length);
	out[length] = '\0';
	return kineto_skip_text(kineto);
}

/* Read from after '{' (or before a later key) to after '}'. */
static lk_status read_members(lk_kineto *kineto, int depth) {
	bool comma = false;
	while (!kineto->cut) {
		char key[LK_LOOKAHEAD - 8];
		int c;
		LK_TRY(kineto_peek(kineto, &c));
		if (c == '"') {
			LK_TRY(kineto_read_key(kineto, key, sizeof key));
			LK_TRY(kineto_peek(kineto, &c));
			if (c == ':') kineto->window.at++;
			LK_TRY(kineto_read_member(kineto, key, depth));
		} else if (c == ',') kineto->window.at++;
		else if (c == '}') {
			if (comma) lk_kineto_odd(kineto, LK_ODD_COMMA, kineto->window.at);
			kineto->window.at++;
			return LK_OK;
		} else if (c >= 0) {
			lk_kineto_odd(kineto, LK_ODD_DAMAGED, kineto->window.at);
			if (!kineto->found) return LK_OK;
			kineto->window.at++;
		}
		comma = c == ',';
	}
	return LK_OK;
}

/* Note whether anything but white space follows. */
static lk_status read_end(lk_kineto *kineto) {
	int c;
	LK_TRY(kineto_peek(kineto, &c));
	kineto->cut = false;
	if (c >= 0) lk_kineto_odd(kineto, LK_ODD_BEHIND, kineto->window.at);
	return LK_OK;
}

static lk_status kineto_no_trace(lk_kineto *kineto, const char *what) {
	char where[240];
	snprintf(where, sizeof where, "%s:%llu", kineto->capture->path,
	         (unsigned long long)lk_window_line(&kineto->window, kineto->window.at));
	lk_fail(kineto->err, LK_ERR_INPUT, where, "no trace: %s", what);
	return lk_hint(kineto->err,
	               "give what export_chrome_trace of torch.profiler wrote, plain, gzip or zstd");
}

static lk_status kineto_read_document(lk_kineto *kineto) {
	lk_window *window = &kineto->window;
	bool there;
	int c;
	LK_TRY(kineto_more(kineto, &there));
	if (window->end - window->at >= 3 && memcmp(window->at, "\xef\xbb\xbf", 3) == 0)
		window->at += 3;
	LK_TRY(kineto_peek(kineto, &c));
	if (c < 0)
		return window->broken != LK_OK ? LK_OK : kineto_no_trace(kineto, "the file is empty");
	if (c != '{' && c != '[') return kineto_no_trace(kineto, "it begins neither with { nor with [");
	window->at++;
	LK_TRY(c == '[' ? kineto_read_list(kineto, 0) : read_members(kineto, 0));
	if (!kineto->cut && (kineto->found || !kineto->odd[LK_ODD_DAMAGED].count))
		LK_TRY(read_end(kineto));
	if (kineto->found) return LK_OK;
	if (window->broken != LK_OK) return LK_OK;
	if (kineto->odd[LK_ODD_DAMAGED].count) return kineto_no_trace(kineto, "this is no JSON");
	return kineto_no_trace(kineto, kineto->cut ? "it is cut off before its events"
	                                           : "it has no list traceEvents");
}

/* ---- warnings ---- */

/* Each is followed by a count and the line of the first. */
static const char *const odd_texts[LK_ODD_COUNT] = {
	[LK_ODD_DAMAGED] = "damaged places, left out up to the next event",
	[LK_ODD_LONG] = "events of more than 32 MiB, left out",
	[LK_ODD_NO_TIME] = "events without a time (ts), left out",
	[LK_ODD_NO_DURATION] = "events without a duration (dur), left out",
	[LK_ODD_NEGATIVE] = "events with a negative duration, taken as 0",
	[LK_ODD_TWICE] = "events with a key that occurs twice, of which the last counts",
	[LK_ODD_CONTROLS] = "events with control characters in texts",
	[LK_ODD_NOT_FINITE] = "events with NaN or Infinity; these values are ignored",
	[LK_ODD_COMMA] = "commas with nothing after them",
	[LK_ODD_NOT_BEGUN] = "ends (ph E) without a begin, left out",
	[LK_ODD_LONG_SHAPE] = "lists of shapes of more than 64 KiB, left out",
	[LK_ODD_HEAD] = "head fields that could not be read",
};

static void warn_of_end(lk_kineto *kineto) {
	lk_window *window = &kineto->window;
	unsigned long long line = lk_window_line(window, window->at);
	char text[600];
	if (window->broken != LK_OK)
		lk_capture_damage(kineto->capture, 1, "%s; the %u %s before that are kept",
		                  lk_error_text(&window->cause, text, sizeof text), kineto->capture->count,
		                  lk_noun(kineto->capture->count, "event", "events"));
	else if (kineto->cut)
		lk_capture_damage(
			kineto->capture, 1, "cut off in line %llu; the %u %s before that are kept", line,
			kineto->capture->count, lk_noun(kineto->capture->count, "event", "events"));
}

/* Whether something is missing or wrong; other oddities are formal. */
static bool is_damage(int odd) {
	return odd == LK_ODD_DAMAGED || odd == LK_ODD_LONG || odd == LK_ODD_NO_TIME ||
	       odd == LK_ODD_NO_DURATION || odd == LK_ODD_NEGATIVE || odd == LK_ODD_NOT_FINITE ||
	       odd == LK_ODD_HEAD;
}

static void kineto_warn(lk_kineto *kineto) {
	warn_of_end(kineto);
	for (int i = 0; i < LK_ODD_COUNT; i++) {
		unsigned long long count = kineto->odd[i].count, line = kineto->odd[i].line;
		if (!count) continue;
		if (i == LK_ODD_NOT_ENDED)
			lk_capture_warn(kineto->capture,
			                "calls that began (ph B) and never ended, left out: %llu", count);
		else if (i == LK_ODD_BEHIND)
			lk_capture_warn(kineto->capture, "text after the end, in line %llu, is not read", line);
		else if (is_damage(i))
			lk_capture_damage(kineto->capture, count, "%s: %llu, first in line %llu", odd_texts[i],
			                  count, line);
		else
			lk_capture_warn(kineto->capture, "%s: %llu, first in line %llu", odd_texts[i], count,
			                line);
	}
}

static lk_read_limits limits_of(const lk_read_limits *given) {
	lk_read_limits l = *given;
	if (!l.bytes) l.bytes = defaults.bytes;
	if (!l.events) l.events = defaults.events;
	if (!l.names) l.names = defaults.names;
	return l;
}

static lk_status kineto_read_all(lk_kineto *kineto) {
	LK_TRY(kineto_read_document(kineto));
	/* If a broken stream gave no events, its own error is the best message. */
	if (kineto->window.broken != LK_OK && !kineto->capture->count) {
		if (kineto->err) *kineto->err = kineto->window.cause;
		return kineto->window.broken;
	}
	if (kineto->mtia) {
		lk_fail(kineto->err, LK_ERR_INPUT, kineto->capture->path,
		        "a trace of Meta's MTIA, which is not supported: its kernels have no public times");
		return lk_hint(kineto->err, "traces of GPUs and processors can be read");
	}
	LK_TRY(lk_kineto_finish(kineto));
	kineto_warn(kineto);
	return LK_OK;
}

/* Whether several threads have work: there are more than one, and the file has more than one
 * piece. */
static bool kineto_has_pieces(lk_stream *in) {
	const char *bytes;
	size_t got = 0;
	return lk_threads() > 1 && lk_stream_peek(in, LK_AHEAD_PIECE, &bytes, &got, NULL) == LK_OK &&
	       got == LK_AHEAD_PIECE;
}

lk_status lk_kineto_read(lk_stream *in, const lk_read_limits *limits, lk_capture *capture,
                         lk_error *err) {
	lk_kineto *kineto = calloc(1, sizeof *kineto);
	if (!kineto) return lk_oom(err);
	kineto->capture = capture;
	kineto->limits = limits_of(limits);
	kineto->err = err;
	kineto->free_call = LK_NONE;
	lk_keys_open(&kineto->keys);
	lk_ahead *ahead = kineto_has_pieces(in) ? lk_ahead_open(in, kineto) : NULL;
	lk_status status = lk_window_open(&kineto->window, in, ahead, kineto->limits.bytes)
	                       ? kineto_read_all(kineto)
	                       : lk_oom(err);
	lk_ahead_close(ahead);
	capture->bytes_read = kineto->window.read;
	lk_window_close(&kineto->window);
	lk_lane_map_free(&kineto->open_on);
	lk_vec_free(&kineto->open);
	lk_vec_free(&kineto->labels);
	lk_vec_free(&kineto->devices);
	free(kineto);
	return status;
}
