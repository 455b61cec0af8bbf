/* schedule_kinds.h: what the files schedule_*.c share: their entries in the table, the checks that all of them make,
 * and the writing of slots. Private to the schedules. */
#ifndef LK_MODEL_SCHEDULE_KINDS_H
#define LK_MODEL_SCHEDULE_KINDS_H

#include "model/layout/schedule.h"

extern const lk_schedule lk_schedule_gpipe, lk_schedule_1f1b, lk_schedule_interleaved, lk_schedule_zb_h1,
	lk_schedule_zb_v, lk_schedule_dualpipe;

/* Limits that keep every index in an int and one rank's list within memory. No real job comes near them. */
enum {
	LK_SCHEDULE_STAGES = 65536,
	LK_SCHEDULE_CHUNKS = 255,          /* lk_slot.chunk is one byte */
	LK_SCHEDULE_PASSES = 16 * 1024 * 1024, /* micro-batches * chunks of one rank */
};

/* The part of check() that holds for every schedule: ranges, and the number of chunks where it is fixed. */
lk_status lk_schedule_check_shape(const lk_schedule *schedule, const lk_schedule_shape *shape, lk_error *err);

/* Begins an order(): checks shape and stage, makes room for `slots` more. After it, lk_slot_put cannot fail. */
lk_status lk_schedule_begin(const lk_schedule *schedule, const lk_schedule_shape *shape, int stage, size_t slots,
                            lk_slots *out, lk_error *err);

static inline void lk_slot_put(lk_slots *out, lk_pass pass, int chunk, int microbatch) {
	out->at[out->count++] = (lk_slot){.pass = (uint8_t)pass, .chunk = (uint8_t)chunk, .microbatch = microbatch};
}

/* place() of a schedule whose chunk c on stage s is virtual stage c*p + s; with one chunk the stage itself. */
int lk_schedule_place_round(const lk_schedule_shape *shape, int stage, int chunk);

#endif
