/* field.h: arithmetic modulo the prime 2^61 - 1. Elements are 0 .. 2^61 - 2.
 *
 * 2^61 is 1 here, so that a product's high bits are added to its low ones. */
#ifndef LK_LANG_FIELD_H
#define LK_LANG_FIELD_H

#include <math.h>
#include <stdint.h>

#define LC_PRIME ((1ull << 61) - 1)
/* No element: what a maximum over nothing is. */
#define LC_NOTHING UINT64_MAX

__extension__ typedef unsigned __int128 lc_wide;

static inline uint64_t lc_field_reduce(lc_wide x) {
	uint64_t sum = (uint64_t)(x & LC_PRIME) + (uint64_t)(x >> 61 & LC_PRIME) + (uint64_t)(x >> 122);
	sum = (sum & LC_PRIME) + (sum >> 61);
	return sum >= LC_PRIME ? sum - LC_PRIME : sum;
}

static inline uint64_t lc_field_add(uint64_t a, uint64_t b) { return a + b >= LC_PRIME ? a + b - LC_PRIME : a + b; }
static inline uint64_t lc_field_negate(uint64_t a) { return a ? LC_PRIME - a : 0; }
static inline uint64_t lc_field_subtract(uint64_t a, uint64_t b) { return lc_field_add(a, lc_field_negate(b)); }
static inline uint64_t lc_field_multiply(uint64_t a, uint64_t b) { return lc_field_reduce((lc_wide)a * b); }

static inline uint64_t lc_field_power(uint64_t base, uint64_t exponent) {
	uint64_t result = 1;
	for (; exponent; exponent >>= 1, base = lc_field_multiply(base, base))
		if (exponent & 1) result = lc_field_multiply(result, base);
	return result;
}

/* By Fermat: a^(p-2); of 0 it is 0, which callers replace. */
static inline uint64_t lc_field_inverse(uint64_t a) { return lc_field_power(a, LC_PRIME - 2); }

/* A finite double as what it is exactly: a whole number times a power of 2. */
static inline uint64_t lc_field_number(double x) {
	int exponent;
	double fraction = frexp(fabs(x), &exponent);
	uint64_t whole = (uint64_t)ldexp(fraction, 53); /* x = whole * 2^(exponent - 53) */
	uint64_t shift = (uint64_t)(((exponent - 53) % 61 + 61) % 61);
	uint64_t element = lc_field_multiply(whole, 1ull << shift);
	return x < 0 ? lc_field_negate(element) : element;
}

/* Keyed hashes: a mixing of 64 bits with full avalanche (the finisher of MurmurHash3 and of splitmix64), once per word.
 */
static inline uint64_t lc_mix(uint64_t x) {
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

static inline uint64_t lc_hash_word(uint64_t key, uint64_t a) { return lc_mix(lc_mix(a + 0x9e3779b97f4a7c15u) ^ key); }

static inline uint64_t lc_hash_field(uint64_t key, uint64_t a) {
	uint64_t h = lc_hash_word(key, a) >> 3;
	return h == LC_PRIME ? 0 : h;
}

static inline uint64_t lc_hash_pair(uint64_t key, uint64_t a, uint64_t b) {
	return lc_hash_field(lc_hash_word(key, a), b);
}

#endif
