/* schedule_1f1b.c: one forward, one backward (PipeDream-Flush, arXiv 2006.09503), as Megatron-LM's
 * non-interleaved schedule orders it (megatron/core/pipeline_parallel/schedules.py).
 *
 *     w = min(p - s - 1, m);  F x w;  (F, B) x (m - w);  B x w
 *
 * Makespan (m + p - 1)(F + b) as GPipe, but only min(m, p - s) micro-batches are in flight on stage
 * s. */
#include "model/layout/schedule.h"

static lk_status schedule_1f1b_check(const lk_schedule_shape *shape, lk_error *err) {
	return lk_schedule_check_shape(&lk_schedule_1f1b, shape, err);
}

static lk_status schedule_1f1b_order(const lk_schedule_shape *shape, int stage, lk_slots *out,
                                     lk_error *err) {
	int m = shape->microbatches, warmup = shape->stages - stage - 1;
	LK_TRY(lk_schedule_begin(&lk_schedule_1f1b, shape, stage, 2 * (size_t)m, out, err));
	if (warmup > m) warmup = m;
	for (int i = 0; i < warmup; i++) lk_slot_put(out, LK_PASS_F, 0, i);
	for (int i = warmup; i < m; i++) {
		lk_slot_put(out, LK_PASS_F, 0, i);
		lk_slot_put(out, LK_PASS_B, 0, i - warmup);
	}
	for (int i = m - warmup; i < m; i++) lk_slot_put(out, LK_PASS_B, 0, i);
	return LK_OK;
}

const lk_schedule lk_schedule_1f1b = {
	.kind = LK_SCHED_1F1B,
	.name = "1f1b",
	.label = "1F1B",
	.fixed_chunks = 1,
	.periodic = true,
	.check = schedule_1f1b_check,
	.order = schedule_1f1b_order,
	.place = lk_schedule_place_round,
};
