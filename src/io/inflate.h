/* inflate.h: gzip members, decoded piece by piece. By ISA-L's igzip where it was there at build time (three times as
 * fast on traces), else by zlib; both give the same bytes and check the same sums. */
#ifndef LK_BASE_INFLATE_H
#define LK_BASE_INFLATE_H

#include <stddef.h>

typedef struct lk_inflate lk_inflate;

typedef enum lk_inflate_state {
	LK_INFLATE_MORE,    /* the input is used up or the output is full */
	LK_INFLATE_END,     /* the member is complete, its checksum and length are right */
	LK_INFLATE_DAMAGED,
	LK_INFLATE_MEMORY,
} lk_inflate_state;

lk_inflate *lk_inflate_new(void); /* at the begin of a member; NULL when memory is out */
void lk_inflate_free(lk_inflate *inflate);
void lk_inflate_next(lk_inflate *inflate); /* to the begin of the next member */
/* Decodes from *at on into *to on and moves both. */
lk_inflate_state lk_inflate_some(lk_inflate *inflate, const unsigned char **at, const unsigned char *end,
                                 unsigned char **to, unsigned char *to_end);

#endif
