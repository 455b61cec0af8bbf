/* sum.h: a sum over bytes that detects damage: FNV-1a of 64 bits, by bytes or, faster, by words. A
 * change within one byte or word always changes it. No protection against malice. */
#ifndef LK_BASE_SUM_H
#define LK_BASE_SUM_H

#include <stddef.h>
#include <stdint.h>

#define LK_SUM_EMPTY UINT64_C(0xcbf29ce484222325)

static inline uint64_t lk_sum_bytes(uint64_t sum, const void *bytes, size_t size) {
	const unsigned char *at = bytes;
	for (size_t i = 0; i < size; i++) sum = (sum ^ at[i]) * UINT64_C(0x100000001b3);
	return sum;
}

static inline uint64_t lk_sum_words(uint64_t sum, const uint64_t *words, size_t count) {
	for (size_t i = 0; i < count; i++) {
		sum = (sum ^ words[i]) * UINT64_C(0x9e3779b97f4a7c15);
		sum ^= sum >> 32;
	}
	return sum;
}

#endif
