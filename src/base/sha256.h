/* sha256.h: the hash of FIPS 180-4, for integrity checks of browsers and packages. */
#ifndef LK_BASE_SHA256_H
#define LK_BASE_SHA256_H

#include <stddef.h>

typedef struct lk_sha256 {
	unsigned state[8];
	unsigned long long length; /* bytes so far */
	unsigned char block[64];
} lk_sha256;

void lk_sha256_begin(lk_sha256 *sha256);
void lk_sha256_add(lk_sha256 *sha256, const void *bytes, size_t size);
void lk_sha256_end(lk_sha256 *sha256, unsigned char out[32]);
/* The hash in base64, ended by '\0'. */
void lk_sha256_base64(lk_sha256 *sha256, char out[45]);

#endif
