/* kineto_scan.c: the sliding window. */
#include "trace/read/kineto_internal.h"

#include <stdlib.h>

#include "base/check.h"

/* The first window fits into a core's second-level cache; the last is more than any event or head
 * field in use. */
enum {
	FIRST_WINDOW = 1 << 18,
	LAST_WINDOW = 1 << 25
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
	*window = (lk_window){.in = in, .ahead = ahead, .limit = limit};
	return resize(window, FIRST_WINDOW);
}

void lk_window_close(lk_window *window) {
	free(window->bytes);
	window->bytes = NULL;
}

static uint64_t newlines(const char *from, const char *to) {
	uint64_t count = 0;
#ifdef __SSE2__
	const __m128i newline = _mm_set1_epi8('\n'), zero = _mm_setzero_si128();
	while (to - from >= 64) {
		/* Each comparison takes -1 off a byte, of which four stay far from running over. */
		__m128i sum = zero;
		for (int i = 0; i < 4; i++)
			sum = _mm_sub_epi8(
				sum, _mm_cmpeq_epi8(_mm_loadu_si128((const __m128i *)(const void *)(from + 16 * i)),
			                        newline));
		sum = _mm_sad_epu8(sum, zero);
		count +=
			(uint64_t)_mm_cvtsi128_si64(sum) + (uint64_t)_mm_cvtsi128_si64(_mm_srli_si128(sum, 8));
		from += 64;
	}
#endif
	for (; from < to; from++) count += *from == '\n';
	return count;
}

uint64_t lk_window_line(const lk_window *window, const char *at) {
	LK_ASSERT(at >= window->bytes && at <= window->end);
	return window->lines + newlines(window->bytes, at) + 1;
}

static void scan_slide(lk_window *window) {
	LK_ASSERT(window->bytes <= window->at && window->at <= window->end);
	LK_ASSERT(window->end <= window->bytes + window->capacity);
	size_t left = (size_t)(window->end - window->at);
	window->lines += newlines(window->bytes, window->at);
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
	window->broken = window->ahead ? lk_ahead_read(window->ahead, to, room, &got, &window->cause)
	                               : lk_stream_read(window->in, to, room, &got, &window->cause);
	LK_ASSERT(got <= window->capacity - there);
	window->end = window->bytes + there + got;
	memset(window->bytes + there + got, 0, LK_SCAN_PAD);
	window->read += got;
	window->ended = there + got < window->capacity || window->broken != LK_OK;
	if (window->broken == LK_ERR_MEMORY) return LK_WINDOW_MEMORY;
	if (window->read > window->limit) return LK_WINDOW_LIMIT;
	return got ? LK_WINDOW_MORE : LK_WINDOW_END;
}
