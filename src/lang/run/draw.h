/* draw.h: the counter generator that the interpreter and every target share: a value follows from where it stands, so
 * that ranks, chunks and schedules agree about it. Philox 4x32 with 10 rounds (Salmon et al., SC 2011).
 *
 * Inputs: counter {index low, index high, rank + 1 where ranks differ (else 0), item}, the rank counted over those axes
 * where they differ (P, L), last axis fastest; key {low, high 32 bits of seed ^ name}, name = FNV-1a, 64 bits, of its
 * bytes. From the first word u: inputs are (u + 0.5) / 2^31 - 1, in (-1,1); states and scalars (u + 0.5) / 2^32 * 15/16
 * + 1/16, in (1/16,1), for roots and divisors are taken of them; integers u % bound, where bound is the number of rows
 * where the value indexes rows, else 8; bools u & 1. Then rounded to the format.
 * Dropout: counter {index low, index high, 0, item}, key {low, high 32 bits of key}; an element is kept where
 * (u + 0.5) / 2^32 >= p, and then divided by 1 - p.
 */
#ifndef LK_LANG_DRAW_H
#define LK_LANG_DRAW_H

#include <stdint.h>

static inline uint32_t lc_philox(uint64_t index, uint32_t rank, uint32_t item, uint64_t key) {
	uint32_t c0 = (uint32_t)index, c1 = (uint32_t)(index >> 32), c2 = rank, c3 = item;
	uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
	for (int round = 0; round < 10; round++) {
		uint64_t a = (uint64_t)0xD2511F53u * c0, b = (uint64_t)0xCD9E8D57u * c2;
		c0 = (uint32_t)(b >> 32) ^ c1 ^ k0, c1 = (uint32_t)b;
		c2 = (uint32_t)(a >> 32) ^ c3 ^ k1, c3 = (uint32_t)a;
		k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
	}
	return c0;
}

static inline uint64_t lc_name_key(const char *name) {
	uint64_t h = 0xcbf29ce484222325u;
	for (; *name; name++) h = (h ^ (unsigned char)*name) * 0x100000001b3u;
	return h;
}

#endif
