/* schedule.h: pipeline schedules: for every stage, the order of its forward, backward and
 * weight-gradient passes. One file per schedule (schedule_*.c), one line each in the table of
 * schedule.c. Sources: docs/method/schedules.md. */
#ifndef LK_MODEL_LAYOUT_SCHEDULE_H
#define LK_MODEL_LAYOUT_SCHEDULE_H

#include <stdint.h>

#include "base/vec.h"
#include "model/layout/job.h"
#include "lockstep/error.h"

typedef enum lk_pass {
	LK_PASS_F,  /* forward */
	LK_PASS_B,  /* backward, input and weight gradients together */
	LK_PASS_BI, /* input gradient alone (zero-bubble) */
	LK_PASS_W,  /* weight gradient alone */
} lk_pass;

/* One step of a rank. `pair`: this slot runs overlapped with the next one (DualPipe's F&B). */
typedef struct lk_slot {
	uint8_t pass;  /* lk_pass */
	uint8_t chunk; /* model chunk of this rank, or direction for DualPipe */
	uint8_t pair;
	int32_t microbatch;
} lk_slot;

typedef LK_VEC(lk_slot) lk_slots;

/* What a schedule is requested. */
typedef struct lk_schedule_shape {
	int stages;       /* p: pipeline ranks */
	int chunks;       /* v: model chunks per rank (ZB-V and DualPipe: 2) */
	int microbatches; /* m */
	int group;        /* interleaved: micro-batches that pass a chunk before the next one; 0: p */
	bool paired; /* interleaved: a forward and the backward after it run as one, each alongside the
	                other's messages */
} lk_schedule_shape;

typedef struct lk_schedule {
	lk_schedule_kind kind;
	const char *name;  /* "1f1b" */
	const char *label; /* "interleaved 1F1B" */
	int fixed_chunks;  /* chunks per rank it always has, 0 = free */
	bool periodic;     /* more micro-batches only repeat the middle of every rank's order */
	/* LK_OK, or why this shape cannot run, with the nearest legal values. */
	lk_status (*check)(const lk_schedule_shape *shape, lk_error *err);
	/* Appends the slots of one rank (stage), in order. */
	lk_status (*order)(const lk_schedule_shape *shape, int stage, lk_slots *out, lk_error *err);
	/* Virtual stage (place in the chain of model chunks) of a rank's chunk. A chain has stages *
	 * chunks places, but for DualPipe, where both directions have `stages` places. */
	int (*place)(const lk_schedule_shape *shape, int stage, int chunk);
} lk_schedule;

const lk_schedule *lk_schedule_get(lk_schedule_kind kind);
const lk_schedule *lk_schedule_find(const char *name); /* NULL if unknown */

/* How long passes take, in any unit. */
typedef struct lk_pass_times {
	const double *pass[4];  /* by lk_pass: [places of the chain]; those that the schedule does not
	                           have may be NULL */
	const double *alone[4]; /* likewise of passes that are not side by side; NULL: as `pass` */
	double pair;            /* two passes side by side; 0: their sum and `paired` */
	const double *paired;   /* [places] what two passes side by side take beyond their sum, of the
	                           place that adds less; NULL: nothing */
	double message; /* from rank to rank; those of a rank leave in turn where places go round the
	                   ranks */
	bool waits; /* a message begins when the rank that receives it has nothing else to do, and it
	               waits */
} lk_pass_times;

/* Walks a whole schedule pass by pass: F needs the F of the place before, B the B of the place
 * after, W its B. Nothing else delays a pass. ends[stages]: when the last pass of each rank ends.
 * LK_ERR_INPUT: this shape cannot run; LK_ERR_INTERNAL: the orders wait for one another. */
lk_status lk_schedule_walk(const lk_schedule *schedule, const lk_schedule_shape *shape,
                           const lk_pass_times *times, double *ends, lk_error *err);

/* ---- schedule_kinds: what the files schedule_*.c share: their entries in the table, the checks
 * that all of them make, and the writing of slots. Private to the schedules. */

extern const lk_schedule lk_schedule_gpipe, lk_schedule_1f1b, lk_schedule_interleaved,
	lk_schedule_zb_h1, lk_schedule_zb_h2, lk_schedule_zb_v, lk_schedule_v_half, lk_schedule_v_min,
	lk_schedule_dualpipe, lk_schedule_dualpipe_v;

/* Limits that keep every index in an int and one rank's list within memory. No real job comes near
 * them. */
enum {
	LK_SCHEDULE_STAGES = 65536,
	LK_SCHEDULE_CHUNKS = 255,              /* lk_slot.chunk is one byte */
	LK_SCHEDULE_PASSES = 16 * 1024 * 1024, /* micro-batches * chunks of one rank */
};

/* The part of check() that holds for every schedule: ranges, and the number of chunks where it is
 * fixed. */
lk_status lk_schedule_check_shape(const lk_schedule *schedule, const lk_schedule_shape *shape,
                                  lk_error *err);

/* Begins an order(): checks shape and stage, makes room for `slots` more. After it, lk_slot_put
 * cannot fail. */
lk_status lk_schedule_begin(const lk_schedule *schedule, const lk_schedule_shape *shape, int stage,
                            size_t slots, lk_slots *out, lk_error *err);

static inline void lk_slot_put(lk_slots *out, lk_pass pass, int chunk, int microbatch) {
	out->at[out->count++] =
		(lk_slot){.pass = (uint8_t)pass, .chunk = (uint8_t)chunk, .microbatch = microbatch};
}

/* The weight gradient that waits longest: of the first input gradient from slot *oldest on, which
 * moves past it. Weight gradients leave in the order of the input gradients already written, so
 * that a queue of them is its two ends. There is one that waits. */
static inline void lk_slot_put_oldest_weight(lk_slots *out, size_t *oldest) {
	while (out->at[*oldest].pass != LK_PASS_BI) ++*oldest;
	const lk_slot of = out->at[(*oldest)++];
	lk_slot_put(out, LK_PASS_W, of.chunk, of.microbatch);
}

/* place() of a schedule whose chunk c on stage s is virtual stage c*p + s; with one chunk the stage
 * itself. */
int lk_schedule_place_round(const lk_schedule_shape *shape, int stage, int chunk);
/* place() of a schedule of two chunks whose chain turns at the last rank, like a V. */
int lk_schedule_place_folded(const lk_schedule_shape *shape, int stage, int chunk);

#endif
