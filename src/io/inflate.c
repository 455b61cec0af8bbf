/* inflate.c: gzip (RFC 1952) by igzip or zlib. */
#include "io/stream.h"

#include <stdint.h>
#include <stdlib.h>

static uint32_t inflate_room(size_t size) {
	return size < 1u << 30 ? (uint32_t)size : 1u << 30;
}

#ifdef LK_ISAL
#include <isa-l.h>

struct lk_inflate {
	struct inflate_state state;
};

static void inflate_begin(lk_inflate *inflate) {
	isal_inflate_reset(&inflate->state);
	inflate->state.crc_flag = ISAL_GZIP;
}

lk_inflate *lk_inflate_new(void) {
	lk_inflate *inflate = calloc(1, sizeof *inflate);
	if (!inflate) return NULL;
	isal_inflate_init(&inflate->state);
	inflate_begin(inflate);
	return inflate;
}

void lk_inflate_free(lk_inflate *inflate) {
	free(inflate);
}

void lk_inflate_next(lk_inflate *inflate) {
	inflate_begin(inflate);
}

lk_inflate_state lk_inflate_some(lk_inflate *inflate, const unsigned char **at,
                                 const unsigned char *end, unsigned char **to,
                                 unsigned char *to_end) {
	inflate->state.next_in = (unsigned char *)*at; /* it is not modified */
	inflate->state.avail_in = inflate_room((size_t)(end - *at));
	inflate->state.next_out = *to;
	inflate->state.avail_out = inflate_room((size_t)(to_end - *to));
	int result = isal_inflate(&inflate->state);
	*at = inflate->state.next_in;
	*to = inflate->state.next_out;
	if (result != ISAL_DECOMP_OK && result != ISAL_END_INPUT && result != ISAL_OUT_OVERFLOW)
		return LK_INFLATE_DAMAGED;
	return inflate->state.block_state == ISAL_BLOCK_FINISH ? LK_INFLATE_END : LK_INFLATE_MORE;
}

#else
#include <zlib.h>

struct lk_inflate {
	z_stream state;
};

lk_inflate *lk_inflate_new(void) {
	lk_inflate *f = calloc(1, sizeof *f);
	if (f && inflateInit2(&f->state, 15 + 16) == Z_OK) return f; /* the largest window; gzip only */
	free(f);
	return NULL;
}

void lk_inflate_free(lk_inflate *f) {
	if (f) inflateEnd(&f->state);
	free(f);
}

void lk_inflate_next(lk_inflate *f) {
	inflateReset(&f->state);
}

lk_inflate_state lk_inflate_some(lk_inflate *f, const unsigned char **at, const unsigned char *end,
                                 unsigned char **to, unsigned char *to_end) {
	f->state.next_in = (unsigned char *)*at; /* zlib does not modify it */
	f->state.avail_in = inflate_room((size_t)(end - *at));
	f->state.next_out = *to;
	f->state.avail_out = inflate_room((size_t)(to_end - *to));
	int result = inflate(&f->state, Z_NO_FLUSH);
	*at = f->state.next_in;
	*to = f->state.next_out;
	if (result == Z_STREAM_END) return LK_INFLATE_END;
	if (result == Z_MEM_ERROR) return LK_INFLATE_MEMORY;
	return result == Z_OK || result == Z_BUF_ERROR ? LK_INFLATE_MORE : LK_INFLATE_DAMAGED;
}
#endif
