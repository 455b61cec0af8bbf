/* emit_mpi_ring.h: what rings and overlaps share: one ring of the runtime (data/target/mpi_ring.h) as text. */
#ifndef LK_LANG_TARGET_MPI_RING_H
#define LK_LANG_TARGET_MPI_RING_H

#include "lang/emit/emit_mpi.h"

enum { LC_RING_GATHERS = 8 }; /* RT_RING_GATHERS */

/* A reduce-scatter, a pass and all-gathers, as far as there are any. */
typedef struct lc_ring {
	const lc_step *pass;        /* RING or MAP, or NULL */
	int scatter;                /* or -1 */
	int gather[LC_RING_GATHERS], gathers;
	int axis, d;
	int outer;                  /* dims of the pass's outer loop; those behind are one trip */
	int64_t bucket, chunks;
	const char *produce, *arrive; /* functions that compute beside the messages, or NULL */
	int rows_of, left;          /* with them: the value whose rows they go by; the product's left operand */
	int sends;                  /* a send, -1: what it takes leaves this ring (gives), or what it brings is gathered */
	bool gives;
} lc_ring;

/* What a step is as a ring; false where it cannot be one, with the reason. */
bool lc_ring_see(const lc_mpi *c, const lc_step *s, lc_ring *out, const char **why);
/* Whether two values have the same extents on every rank, but for how they lie along `axis`. */
bool lc_ring_alike(const lc_mpi *c, int a, int b, int axis);
/* Finds axis and dim of the collectives, and whether they fit together. */
bool lc_ring_ends(const lc_mpi *c, lc_ring *ring, const char **why);
/* Whether trips of the pass fit into what lies together. */
bool lc_ring_fits(const lc_mpi *c, const lc_ring *ring, const char **why);
/* The functions of a ring called NAME: the sum, the pass, and NAME itself. */
lk_status lc_ring_write(lc_mpi *c, lc_ring *ring, const char *name);

#endif
