/* moves.h: a program as statements and passes, and directives made for a search. */
#ifndef LK_LANG_REWRITE_MOVES_H
#define LK_LANG_REWRITE_MOVES_H

#include "lang/rewrite/build.h"

enum { LC_WORDS = 64 }; /* statements and passes that a search looks at */

typedef struct lc_mover {
	const lc_program *p;
	lc_moves *out;
	lk_arena scratch;
	int *word_of;                          /* [values] which word names it; -1 */
	const char *word[LC_WORDS];            /* in the order of their first value */
	bool feeds[LC_WORDS][LC_WORDS];        /* a value of the one is read by the other */
	uint64_t shares[LC_WORDS];             /* words that read a tensor in common, as bits: one pass reads it once */
	bool collective[LC_WORDS], overlapped[LC_WORDS];
	int count;
} lc_mover;

lk_status lc_mover_open(lc_mover *m, const lc_program *p, lc_moves *out, lk_error *err);
void lc_mover_close(lc_mover *m);
/* A directive on words, in the file's arena; NULL when memory is out. */
lc_directive *lc_move(const lc_mover *m, lc_directive_kind kind, const int *words, int count);
/* Gives it new names like these ("rs"), as many as `count`. */
bool lc_move_names(const lc_mover *m, lc_directive *d, const char *const *names, int count);
lk_status lc_move_add(lc_mover *m, const lc_directive *d, lk_error *err);
/* Adds it if it applies. */
lk_status lc_move_try(lc_mover *m, const lc_directive *d, bool *applies, lk_error *err);

/* moves_bundles.c: what runs together, once the values are what they shall be. */
lk_status lc_move_buckets(lc_mover *m, lk_error *err);
lk_status lc_move_fuse(lc_mover *m, lk_error *err);
lk_status lc_move_overlap(lc_mover *m, lk_error *err);

#endif
