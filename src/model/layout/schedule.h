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

/* The shape requested of a schedule. */
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
	int fixed_chunks;  /* fixed number of chunks per rank; 0: free */
	bool periodic;     /* more micro-batches only repeat the middle of every rank's order */
	/* LK_OK, or why this shape cannot run, with the nearest legal values. */
	lk_status (*check)(const lk_schedule_shape *shape, lk_error *err);
	/* Append the slots of one rank (stage), in order. */
	lk_status (*order)(const lk_schedule_shape *shape, int stage, lk_slots *out, lk_error *err);
	/* Virtual stage (place in the chain of model chunks) of a rank's chunk. A chain has stages *
	 * chunks places, except for DualPipe, where both directions have `stages` places. */
	int (*place)(const lk_schedule_shape *shape, int stage, int chunk);
} lk_schedule;

const lk_schedule *lk_schedule_get(lk_schedule_kind kind);
/* Directions in which micro-batches run through the ranks, each with numbers of its own. */
int lk_schedule_directions(lk_schedule_kind kind);
const lk_schedule *lk_schedule_find(const char *name); /* NULL if unknown */

/* Durations of passes, in any unit. */
typedef struct lk_pass_times {
	const double *pass[4];  /* by lk_pass: [places of the chain]; NULL allowed for passes that the
	                           schedule lacks */
	const double *alone[4]; /* likewise for unpaired passes; NULL: as `pass` */
	double pair;            /* duration of two paired passes; 0: their sum plus `paired` */
	const double *paired;   /* [places] what a pair takes beyond the sum of its passes; the smaller
	                           value of its two places counts; NULL: 0 */
	double message; /* from rank to rank; messages of one rank are serialised if places go round the
	                   ranks */
	bool waits;     /* a message starts when its receiver is idle, and the receiver waits for it */
} lk_pass_times;

/* Execute a whole schedule pass by pass: F needs the F of the place before, B the B of the place
 * after, W its own B. Nothing else delays a pass. ends[stages]: end of the last pass of each rank.
 * LK_ERR_INPUT: this shape cannot run; LK_ERR_INTERNAL: deadlock of the orders. */
lk_status lk_schedule_walk(const lk_schedule *schedule, const lk_schedule_shape *shape,
                           const lk_pass_times *times, double *ends, lk_error *err);

/* ---- schedule_kinds: shared by the files schedule_*.c and private to them: entries of the table,
 * common checks, writing of slots. */

extern const lk_schedule lk_schedule_gpipe, lk_schedule_1f1b, lk_schedule_interleaved,
	lk_schedule_zb_h1, lk_schedule_zb_h2, lk_schedule_zb_v, lk_schedule_v_half, lk_schedule_v_min,
	lk_schedule_dualpipe, lk_schedule_dualpipe_v;

/* Limits that keep every index in an int and one rank's list within memory, far above any real
 * job. */
enum {
	LK_SCHEDULE_STAGES = 65536,
	LK_SCHEDULE_CHUNKS = 255,              /* lk_slot.chunk is one byte */
	LK_SCHEDULE_PASSES = 16 * 1024 * 1024, /* micro-batches * chunks of one rank */
};

/* Checks common to all schedules: ranges, and the number of chunks if it is fixed. */
lk_status lk_schedule_check_shape(const lk_schedule *schedule, const lk_schedule_shape *shape,
                                  lk_error *err);

/* Begin an order(): check shape and stage, make room for `slots` more. lk_slot_put cannot fail
 * afterwards. */
lk_status lk_schedule_begin(const lk_schedule *schedule, const lk_schedule_shape *shape, int stage,
                            size_t slots, lk_slots *out, lk_error *err);

static inline void lk_slot_put(lk_slots *out, lk_pass pass, int chunk, int microbatch) {
	out->at[out->count++] =
		(lk_slot){.pass = (uint8_t)pass, .chunk = (uint8_t)chunk, .microbatch = microbatch};
}

/* Append the oldest waiting weight gradient: that of the first input gradient from slot *oldest on,
 * and move *oldest past it. Weight gradients are written in the order of the input gradients, so
 * that two ends describe the queue. The queue must not be empty. */
static inline void lk_slot_put_oldest_weight(lk_slots *out, size_t *oldest) {
	while (out->at[*oldest].pass != LK_PASS_BI) ++*oldest;
	const lk_slot of = out->at[(*oldest)++];
	lk_slot_put(out, LK_PASS_W, of.chunk, of.microbatch);
}

/* place() of a schedule whose chunk c on stage s is virtual stage c*p + s; with one chunk, the
 * stage itself. */
int lk_schedule_place_round(const lk_schedule_shape *shape, int stage, int chunk);
/* place() of a schedule of two chunks whose chain turns at the last rank, like a V. */
int lk_schedule_place_folded(const lk_schedule_shape *shape, int stage, int chunk);

#endif
