/* layout_places.h: the placement of a core's layers, for the bounds of layout_bound.c. */
#ifndef LK_PLAN_LAYOUT_PLACES_H
#define LK_PLAN_LAYOUT_PLACES_H

#include "plan/plan.h"

enum { LK_SEEN = 3 }; /* stages whose memory is bounded: first, second, last */

/* Placement of a core's layers. */
typedef struct lk_layer_places {
	lk_job job;         /* with default switches */
	int places, chunks; /* in the chain; of a stage */
	int *first, *count; /* [places] layers */
	int *place;         /* [stages * chunks] */
	int stage[LK_SEEN];
	int *held[LK_SEEN]; /* [chunks] most micro-batches in flight */
	int pairs;          /* least number of pairs of concurrent passes on a stage */
} lk_layer_places;

/* Find the layers of each place, and the place of each chunk. */
lk_status lk_layer_places_split(const lk_job *job, lk_arena *arena, lk_layer_places *out,
                                lk_error *err);
/* The same, with everything that memory bounds need. */
lk_status lk_layer_places_find(lk_bounder *bounder, const lk_job *job, lk_arena *arena,
                               lk_layer_places *out, lk_error *err);

#endif
