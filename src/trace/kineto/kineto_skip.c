/* kineto_skip.c: skips unneeded values: 64 bytes at a time as bit masks of quotes and brackets. A
 * prefix XOR over the quotes marks the bytes inside texts (as simdjson does: Langdale and Lemire,
 * "Parsing gigabytes of JSON per second", VLDB Journal 28, 2019); brackets outside them are
 * counted. */
#include "trace/kineto/kineto_internal.h"

#include "base/check.h"
#include "system/clones.h"

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

/* The position in a block where the last open bracket is closed: a bit number, 64 if nowhere. */
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

LK_CLONES lk_skip_state lk_skip_on(lk_skip *skip, const char **at, const char *end) {
	const char *p = *at;
	LK_ASSERT(p <= end && skip->depth >= 0); /* 0: the value has not begun */
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
