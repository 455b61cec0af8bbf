/* kineto_scan.h: the bytes of a JSON trace and how one moves over them fast: a window that slides over the file, the
 * end of a text, the end of a value that nobody needs.
 *
 * An event is read from contiguous bytes. Where the window ends inside it, the window slides so that it begins with the
 * event, reads on, and the event is read again; it grows only for what is longer than itself. Behind what was read lie
 * LK_SCAN_PAD zero bytes, so blocks of that size may be loaded anywhere, and a zero byte stops every scan.
 */
#ifndef LK_TRACE_KINETO_SCAN_H
#define LK_TRACE_KINETO_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif
#include "io/stream.h"

enum { LK_SCAN_PAD = 64, LK_SCAN_DEPTH = 1000 };

typedef struct lk_window {
	lk_stream *in;
	char *bytes;             /* `capacity` and LK_SCAN_PAD more */
	size_t capacity;
	const char *at, *end;    /* what is not consumed yet */
	uint64_t read, limit;    /* bytes of the file so far; how many it may have */
	uint64_t lines;          /* newlines before `bytes` */
	bool ended;              /* nothing is left to read */
	lk_status broken;        /* the stream failed: not LK_OK */
	lk_error cause;          /* and how */
} lk_window;

typedef enum lk_window_state {
	LK_WINDOW_MORE,          /* there are bytes that were not there before */
	LK_WINDOW_END,           /* the file is over, or broken */
	LK_WINDOW_FULL,          /* what begins at `at` is longer than any window may be */
	LK_WINDOW_LIMIT,         /* the file is longer than the limit */
	LK_WINDOW_MEMORY,
} lk_window_state;

bool lk_window_open(lk_window *w, lk_stream *in, uint64_t limit); /* false when memory is out */
void lk_window_close(lk_window *w);
/* Slides the window to `at` and reads on behind `end`. Pointers into the window are void afterwards. */
lk_window_state lk_window_more(lk_window *w);
/* The line of a place in the window, counting from 1. */
uint64_t lk_window_line(const lk_window *w, const char *at);

/* A walk to the end of a value, which may go on in the next window. Begins as {.depth = brackets already open}. */
typedef struct lk_skip {
	int64_t depth;
	bool in_text, escaped;
} lk_skip;

typedef enum lk_skip_state { LK_SKIP_DONE, LK_SKIP_SHORT, LK_SKIP_DEEP } lk_skip_state;

/* Moves *at behind the bracket that closes the last open one (DONE), or to `end`. Kinds of brackets are not told apart.
 * DEEP: more than LK_SCAN_DEPTH levels. */
lk_skip_state lk_skip_on(lk_skip *skip, const char **at, const char *end);

/* The next quote, backslash or control character from `p` on. */
static inline const char *lk_text_stop(const char *p) {
#ifdef __SSE2__
	const __m128i quote = _mm_set1_epi8('"'), slash = _mm_set1_epi8('\\'), control = _mm_set1_epi8(0x1f);
	for (;; p += 16) {
		__m128i x = _mm_loadu_si128((const __m128i *)(const void *)p);
		__m128i stop = _mm_or_si128(_mm_cmpeq_epi8(x, quote), _mm_cmpeq_epi8(x, slash));
		stop = _mm_or_si128(stop, _mm_cmpeq_epi8(_mm_min_epu8(x, control), x));
		unsigned mask = (unsigned)_mm_movemask_epi8(stop);
		if (mask) return p + __builtin_ctz(mask);
	}
#else
	while ((unsigned char)*p >= 0x20 && *p != '"' && *p != '\\') p++;
	return p;
#endif
}

#endif
