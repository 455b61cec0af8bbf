/* kineto_lines.c: line numbers in a file, for messages. */
#include "trace/kineto/kineto_internal.h"

#include "base/check.h"

uint64_t lk_window_newlines(const char *from, const char *to) {
	uint64_t count = 0;
#ifdef __SSE2__
	const __m128i newline = _mm_set1_epi8('\n'), zero = _mm_setzero_si128();
	while (to - from >= 64) {
		/* Each comparison subtracts 1 from a byte; four cannot overflow. */
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
	return window->lines + lk_window_newlines(window->bytes, at) + 1;
}
