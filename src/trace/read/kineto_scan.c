/* kineto_scan.c: the sliding window, and skipping of values that nobody needs: 64 bytes at a time
 * as bit masks of quotes and brackets. A prefix XOR over the quotes says which bytes lie inside
 * texts (as simdjson does: Langdale and Lemire, "Parsing gigabytes of JSON per second", VLDB
 * Journal 28, 2019); brackets outside them are counted. */
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
	window->broken = window->ahead
	                     ? lk_ahead_read(window->ahead, to, room, &got, &window->cause)
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

/* ---- skipping ---- */

struct masks {
	uint64_t quote, slash, open, close; /* bit i: byte i of the block */
};

/* '{' and '[', and '}' and ']', differ in one bit. */
static struct masks scan_look(const char *p) {
	struct masks m = {0};
#ifdef __SSE2__
	for (int i = 0; i < 4; i++) {
		__m128i x = _mm_loadu_si128((const __m128i *)(const void *)(p + 16 * i));
		__m128i bracket = _mm_or_si128(x, _mm_set1_epi8(0x20));
		m.quote |= (uint64_t)(unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(x, _mm_set1_epi8('"')))
		           << 16 * i;
		m.slash |= (uint64_t)(unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(x, _mm_set1_epi8('\\')))
		           << 16 * i;
		m.open |= (uint64_t)(unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(bracket, _mm_set1_epi8('{')))
		          << 16 * i;
		m.close |=
			(uint64_t)(unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(bracket, _mm_set1_epi8('}')))
			<< 16 * i;
	}
#else
	for (int i = 0; i < 64; i++) {
		uint64_t bit = UINT64_C(1) << i;
		if (p[i] == '"') m.quote |= bit;
		else if (p[i] == '\\') m.slash |= bit;
		else if ((p[i] | 0x20) == '{') m.open |= bit;
		else if ((p[i] | 0x20) == '}') m.close |= bit;
	}
#endif
	return m;
}

/* Bit i: the XOR of bits 0 to i. */
static uint64_t prefix_xor(uint64_t x) {
	for (int shift = 1; shift < 64; shift *= 2) x ^= x << shift;
	return x;
}

/* Byte by byte, for blocks with backslashes and for the end of the window. */
static lk_skip_state skip_slowly(lk_skip *skip, const char **at, const char *end) {
	const char *p = *at;
	for (; p < end; p++) {
		if (skip->escaped) skip->escaped = false;
		else if (*p == '\\') skip->escaped = skip->in_text;
		else if (*p == '"') skip->in_text = !skip->in_text;
		else if (!skip->in_text && (*p | 0x20) == '{' && ++skip->depth > LK_SCAN_DEPTH)
			return LK_SKIP_DEEP;
		else if (!skip->in_text && (*p | 0x20) == '}' && --skip->depth == 0) {
			*at = p + 1;
			return LK_SKIP_DONE;
		}
	}
	*at = end;
	return LK_SKIP_SHORT;
}

/* Where among the brackets of a block the last open one is closed: a bit number, 64 if nowhere. */
static int closing(lk_skip *skip, uint64_t open, uint64_t close) {
	if (!(open | close)) return 64;
	if (__builtin_popcountll(close) < skip->depth) {
		skip->depth += __builtin_popcountll(open) - __builtin_popcountll(close);
		return 64;
	}
	for (uint64_t both = open | close; both; both &= both - 1) {
		uint64_t bit = both & -both;
		if (open & bit) skip->depth++;
		else if (--skip->depth == 0) return __builtin_ctzll(bit);
	}
	return 64;
}

lk_skip_state lk_skip_on(lk_skip *skip, const char **at, const char *end) {
	const char *p = *at;
	LK_ASSERT(p <= end && skip->depth >= 0); /* 0: the value is still to begin */
	while (end - p >= 64) {
		struct masks m = scan_look(p);
		if (m.slash | skip->escaped) {
			*at = p;
			lk_skip_state state = skip_slowly(skip, at, p + 64);
			if (state != LK_SKIP_SHORT) return state;
			p += 64;
			continue;
		}
		uint64_t text = prefix_xor(m.quote) ^ (skip->in_text ? ~UINT64_C(0) : 0);
		int last = closing(skip, m.open & ~text, m.close & ~text);
		if (last < 64) {
			*at = p + last + 1;
			return LK_SKIP_DONE;
		}
		if (skip->depth > LK_SCAN_DEPTH) return LK_SKIP_DEEP;
		skip->in_text = text >> 63;
		p += 64;
	}
	*at = p;
	return skip_slowly(skip, at, end);
}
