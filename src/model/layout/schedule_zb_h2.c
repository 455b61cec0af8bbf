/* schedule_zb_h2.c: ZB-H2 (Qi et al., arXiv 2401.10241; sail-sg/zero-bubble-pipeline-parallelism).
 *
 * A rank runs forward passes until the first gradient can arrive, and postpones enough weight
 * gradients for its last input gradient to leave in time for the ranks before it. With s the rank:
 *
 *     w = 2(p - s) - 1;  F x w;  (B, W of 2s before, F) x (m - w);  (B, W of 2s before) x w;
 *     W x 2s
 *
 * From its first to its last pass rank 0 needs m(F + B + W) + (p - 1) max(0, F + B - 2W), others
 * less, for W <= F <= B <= F + W; 2p - 1 micro-batches are in flight. The optimizer must not wait
 * for all ranks meanwhile. Needs m >= 2p - 1. */
#include "model/layout/schedule.h"
#include "base/noun.h"

static lk_status h2_check(const lk_schedule_shape *shape, lk_error *err) {
	LK_TRY(lk_schedule_check_shape(&lk_schedule_zb_h2, shape, err));
	int m = shape->microbatches, least = 2 * shape->stages - 1;
	if (m >= least) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, lk_schedule_zb_h2.name,
	        "%d %s too few for %d %s: ZB-H2 needs 2p - 1 = %d", m,
	        lk_noun(m, "micro-batch is", "micro-batches are"), shape->stages,
	        lk_noun(shape->stages, "stage", "stages"), least);
	return lk_hint(err, "give at least %d %s, at most %d %s, or use zb-h1", least,
	               lk_noun(least, "micro-batch", "micro-batches"), (m + 1) / 2,
	               lk_noun((m + 1) / 2, "stage", "stages"));
}

static void h2_backward(lk_slots *out, int stage, int i) {
	lk_slot_put(out, LK_PASS_BI, 0, i);
	if (i >= 2 * stage) lk_slot_put(out, LK_PASS_W, 0, i - 2 * stage);
}

static lk_status h2_order(const lk_schedule_shape *shape, int stage, lk_slots *out, lk_error *err) {
	int m = shape->microbatches;
	LK_TRY(lk_schedule_begin(&lk_schedule_zb_h2, shape, stage, 3 * (size_t)m, out, err));
	int warmup = 2 * (shape->stages - stage) - 1;
	for (int i = 0; i < warmup; i++) lk_slot_put(out, LK_PASS_F, 0, i);
	for (int i = warmup; i < m; i++) {
		h2_backward(out, stage, i - warmup);
		lk_slot_put(out, LK_PASS_F, 0, i);
	}
	for (int i = m - warmup; i < m; i++) h2_backward(out, stage, i);
	for (int i = m - 2 * stage; i < m; i++) lk_slot_put(out, LK_PASS_W, 0, i);
	return LK_OK;
}

const lk_schedule lk_schedule_zb_h2 = {
	.kind = LK_SCHED_ZB_H2,
	.name = "zb-h2",
	.label = "ZB-H2",
	.fixed_chunks = 1,
	.periodic = true,
	.check = h2_check,
	.order = h2_order,
	.place = lk_schedule_place_round,
};
