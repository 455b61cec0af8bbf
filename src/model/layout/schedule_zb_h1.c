/* schedule_zb_h1.c: ZB-H1 (Qi et al., arXiv 2401.10241; sail-sg/zero-bubble-pipeline-parallelism).
 *
 * Forward and input-gradient passes in the order of 1F1B. Weight gradients fill the bubble: after
 * its j-th input gradient (counted from 1) rank s computes weight gradient j - s if j > s; the rest
 * comes last. Makespan m(F + B + W) + (p - 1)(F + B - W) for m >= p, at the memory of 1F1B. The
 * reference scheduler searches for its order and may differ from this closed form. */
#include "model/layout/schedule.h"

static lk_status h1_check(const lk_schedule_shape *shape, lk_error *err) {
	return lk_schedule_check_shape(&lk_schedule_zb_h1, shape, err);
}

/* Input gradient i and the weight gradient that is due after it. */
static void emit_backward(lk_slots *out, int stage, int i) {
	lk_slot_put(out, LK_PASS_BI, 0, i);
	if (i >= stage) lk_slot_put(out, LK_PASS_W, 0, i - stage);
}

static lk_status h1_order(const lk_schedule_shape *shape, int stage, lk_slots *out, lk_error *err) {
	int m = shape->microbatches, warmup = shape->stages - stage - 1;
	LK_TRY(lk_schedule_begin(&lk_schedule_zb_h1, shape, stage, 3 * (size_t)m, out, err));
	if (warmup > m) warmup = m;
	for (int i = 0; i < warmup; i++) lk_slot_put(out, LK_PASS_F, 0, i);
	for (int i = warmup; i < m; i++) {
		lk_slot_put(out, LK_PASS_F, 0, i);
		emit_backward(out, stage, i - warmup);
	}
	for (int i = m - warmup; i < m; i++) emit_backward(out, stage, i);
	for (int i = m > stage ? m - stage : 0; i < m; i++) lk_slot_put(out, LK_PASS_W, 0, i);
	return LK_OK;
}

const lk_schedule lk_schedule_zb_h1 = {
	.kind = LK_SCHED_ZB_H1,
	.name = "zb-h1",
	.label = "ZB-H1",
	.fixed_chunks = 1,
	.periodic = true,
	.check = h1_check,
	.order = h1_order,
	.place = lk_schedule_place_round,
};
