/* schedule_gpipe.c: GPipe (Huang et al., arXiv 1811.06965): all forward passes, then all backward
 * passes.
 *
 * Makespan (m + p - 1)(F + b) with b = B + W; m micro-batches are in flight on every stage.
 * Backward passes run in ascending order of micro-batches, as PyTorch's ScheduleGPipe does; with
 * equal micro-batches the makespan is the same either way. */
#include "model/layout/schedule.h"

static lk_status gpipe_check(const lk_schedule_shape *shape, lk_error *err) {
	return lk_schedule_check_shape(&lk_schedule_gpipe, shape, err);
}

static lk_status gpipe_order(const lk_schedule_shape *shape, int stage, lk_slots *out,
                             lk_error *err) {
	int m = shape->microbatches;
	LK_TRY(lk_schedule_begin(&lk_schedule_gpipe, shape, stage, 2 * (size_t)m, out, err));
	for (int i = 0; i < m; i++) lk_slot_put(out, LK_PASS_F, 0, i);
	for (int i = 0; i < m; i++) lk_slot_put(out, LK_PASS_B, 0, i);
	return LK_OK;
}

const lk_schedule lk_schedule_gpipe = {
	.kind = LK_SCHED_GPIPE,
	.name = "gpipe",
	.label = "GPipe",
	.fixed_chunks = 1,
	.check = gpipe_check,
	.order = gpipe_order,
	.place = lk_schedule_place_round,
};
