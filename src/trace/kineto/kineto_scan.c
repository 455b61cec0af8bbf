/* kineto_scan.c: the sliding window. */
#include "trace/kineto/kineto_internal.h"

#include <stdlib.h>

#include "base/check.h"

/* The first window fits into a core's second-level cache; the last exceeds any known event or head
 * field. */
enum {
	FIRST_WINDOW = 1 << 18,
	LAST_WINDOW = 1 << 25,
	FIRST_STEP = 1 << 12 /* with reading ahead, most following bytes need not be copied */
};

static bool resize(lk_window *window, size_t capacity) {
	size_t at = window->bytes ? (size_t)(window->at - window->bytes) : 0,
		   end = window->bytes ? (size_t)(window->end - window->bytes) : 0;
	char *grown = realloc(window->bytes, capacity + LK_SCAN_PAD);
	if (!grown) return false;
	window->bytes = grown;
	window->capacity = capacity;
	window->at = grown + at;
	window->end = grown + end;
	memset(grown + end, 0, LK_SCAN_PAD);
	return true;
}

bool lk_window_open(lk_window *window, lk_stream *in, lk_ahead *ahead, uint64_t limit) {
	*window = (lk_window){
		.in = in, .ahead = ahead, .limit = limit, .step = ahead ? FIRST_STEP : LAST_WINDOW};
	return resize(window, FIRST_WINDOW);
}

void lk_window_close(lk_window *window) {
	free(window->bytes);
	window->bytes = NULL;
}

static void scan_slide(lk_window *window) {
	LK_ASSERT(window->bytes <= window->at && window->at <= window->end);
	LK_ASSERT(window->end <= window->bytes + window->capacity);
	size_t left = (size_t)(window->end - window->at);
	window->lines += lk_window_newlines(window->bytes, window->at);
	memmove(window->bytes, window->at, left);
	window->at = window->bytes;
	window->end = window->bytes + left;
}

lk_window_state lk_window_more(lk_window *window) {
	if (window->ended) return LK_WINDOW_END;
	scan_slide(window);
	size_t there = (size_t)(window->end - window->bytes), got;
	if (there == window->capacity) {
		if (window->capacity >= LAST_WINDOW) return LK_WINDOW_FULL;
		if (!resize(window, window->capacity * 2)) return LK_WINDOW_MEMORY;
	}
	char *to = window->bytes + there;
	size_t room = window->capacity - there;
	if (room > window->step) room = window->step;
	if (window->step < LAST_WINDOW) window->step *= 2;
	window->broken = window->ahead ? lk_ahead_read(window->ahead, to, room, &got, &window->cause)
	                               : lk_stream_read(window->in, to, room, &got, &window->cause);
	LK_ASSERT(got <= window->capacity - there);
	window->end = window->bytes + there + got;
	memset(window->bytes + there + got, 0, LK_SCAN_PAD);
	window->read += got;
	window->ended = got < room || window->broken != LK_OK;
	if (window->broken == LK_ERR_MEMORY) return LK_WINDOW_MEMORY;
	if (window->read > window->limit) return LK_WINDOW_LIMIT;
	return got ? LK_WINDOW_MORE : LK_WINDOW_END;
}

void lk_window_jump(lk_window *window, uint64_t place, uint64_t lines) {
	LK_ASSERT(window->ahead && place >= window->read);
	window->at = window->end = window->bytes;
	memset(window->bytes, 0, LK_SCAN_PAD);
	window->read = place;
	window->lines = lines;
	window->ended = false;
	window->step = FIRST_STEP;
}
