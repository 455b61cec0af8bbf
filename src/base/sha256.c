/* sha256.c: SHA-256 of FIPS 180-4, section 6.2, and base64 of RFC 4648. */
#include "base/sha256.h"

#include <stdint.h>
#include <string.h>

/* First 32 bits of the fractional parts of the cube roots of the first 64 primes. */
static const uint32_t rounds[64] = {
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
	0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
	0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
	0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
	0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
	0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
	0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
	0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotate(uint32_t x, int by) {
	return x >> by | x << (32 - by);
}

static void digest(lk_sha256 *sha256) {
	uint32_t w[64], v[8];
	for (int i = 0; i < 16; i++)
		w[i] = (uint32_t)sha256->block[4 * i] << 24 | (uint32_t)sha256->block[4 * i + 1] << 16 |
		       (uint32_t)sha256->block[4 * i + 2] << 8 | sha256->block[4 * i + 3];
	for (int i = 16; i < 64; i++) {
		uint32_t a = w[i - 15], b = w[i - 2];
		w[i] = w[i - 16] + (rotate(a, 7) ^ rotate(a, 18) ^ a >> 3) + w[i - 7] +
		       (rotate(b, 17) ^ rotate(b, 19) ^ b >> 10);
	}
	memcpy(v, sha256->state, sizeof v);
	for (int i = 0; i < 64; i++) {
		uint32_t e = v[4], a = v[0];
		uint32_t t1 = v[7] + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) +
		              ((e & v[5]) ^ (~e & v[6])) + rounds[i] + w[i];
		uint32_t t2 = (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) +
		              ((a & v[1]) ^ (a & v[2]) ^ (v[1] & v[2]));
		memmove(v + 1, v, 7 * sizeof *v);
		v[4] += t1;
		v[0] = t1 + t2;
	}
	for (int i = 0; i < 8; i++) sha256->state[i] += v[i];
}

void lk_sha256_begin(lk_sha256 *sha256) {
	static const unsigned start[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
	                                  0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
	memset(sha256, 0, sizeof *sha256);
	memcpy(sha256->state, start, sizeof start);
}

void lk_sha256_add(lk_sha256 *sha256, const void *bytes, size_t size) {
	const unsigned char *from = bytes;
	while (size) {
		size_t used = sha256->length % 64, part = 64 - used < size ? 64 - used : size;
		memcpy(sha256->block + used, from, part);
		sha256->length += part;
		from += part;
		size -= part;
		if (used + part == 64) digest(sha256);
	}
}

void lk_sha256_end(lk_sha256 *sha256, unsigned char out[32]) {
	unsigned char length[8], end = 0x80, zero = 0;
	for (int i = 0; i < 8; i++) length[i] = (unsigned char)(sha256->length * 8 >> (56 - 8 * i));
	lk_sha256_add(sha256, &end, 1);
	while (sha256->length % 64 != 56) lk_sha256_add(sha256, &zero, 1);
	lk_sha256_add(sha256, length, 8);
	for (int i = 0; i < 32; i++)
		out[i] = (unsigned char)(sha256->state[i / 4] >> (24 - 8 * (i % 4)));
}

void lk_sha256_base64(lk_sha256 *sha256, char out[45]) {
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	unsigned char bytes[33] = {0};
	lk_sha256_end(sha256, bytes);
	for (int i = 0; i < 11; i++) {
		unsigned group =
			(unsigned)bytes[3 * i] << 16 | (unsigned)bytes[3 * i + 1] << 8 | bytes[3 * i + 2];
		for (int k = 0; k < 4; k++) out[4 * i + k] = digits[group >> (18 - 6 * k) & 63];
	}
	out[43] = '='; /* 32 bytes are ten groups of three, and two */
	out[44] = '\0';
}
