/* schedule_zb_v.c: ZB-V (Qi et al., arXiv 2405.15362; sail-sg/zero-bubble-pipeline-parallelism).
 * Each rank has two half stages: rank r the places r and 2p - 1 - r of the chain, so that a
 * micro-batch goes down and up the ranks like a V and turns at the last rank without a transfer.
 *
 *     F0 x (2(p - r) - 1);  (F1, F0) x r;  (F1, B1, W1) x (p - r);
 *     F0 (while any is left), B0, W0, F1, B1, W1  until all forwards are done;
 *     (B0, B1) x r;  (B0, W0) x (p - r);  the remaining W1, then W0.
 *
 * With F = B = W no rank has an inner bubble; makespan 3mF + (p - 1)F/2. Needs m >= 2p - 1. 2p half
 * chunks are in flight on every rank. */
#include "model/layout/schedule.h"
#include "base/noun.h"

static lk_status v_check(const lk_schedule_shape *shape, lk_error *err) {
	LK_TRY(lk_schedule_check_shape(&lk_schedule_zb_v, shape, err));
	int m = shape->microbatches, least = 2 * shape->stages - 1;
	if (m >= least) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, lk_schedule_zb_v.name,
	        "%d %s too few for %d %s: ZB-V needs 2p - 1 = %d", m,
	        lk_noun(m, "micro-batch is", "micro-batches are"), shape->stages,
	        lk_noun(shape->stages, "stage", "stages"), least);
	return lk_hint(err, "give at least %d %s, at most %d %s, or use zb-h1", least,
	               lk_noun(least, "micro-batch", "micro-batches"), (m + 1) / 2,
	               lk_noun((m + 1) / 2, "stage", "stages"));
}

/* Next micro-batch of each pass, by chunk. */
struct lane {
	int f[2], b[2], w[2];
};

static void v_forward(lk_slots *out, struct lane *at, int chunk) {
	lk_slot_put(out, LK_PASS_F, chunk, at->f[chunk]++);
}

static void v_backward(lk_slots *out, struct lane *at, int chunk) {
	lk_slot_put(out, LK_PASS_BI, chunk, at->b[chunk]++);
}

static void v_weights(lk_slots *out, struct lane *at, int chunk) {
	lk_slot_put(out, LK_PASS_W, chunk, at->w[chunk]++);
}

static void v_warm_up(lk_slots *out, struct lane *at, int stages, int rank) {
	for (int i = 0; i < 2 * (stages - rank) - 1; i++) v_forward(out, at, 0);
	for (int i = 0; i < rank; i++) {
		v_forward(out, at, 1);
		v_forward(out, at, 0);
	}
	for (int i = 0; i < stages - rank; i++) {
		v_forward(out, at, 1);
		v_backward(out, at, 1);
		v_weights(out, at, 1);
	}
}

static void v_steady(lk_slots *out, struct lane *at, int m) {
	while (at->f[1] < m || at->f[0] < m) {
		if (at->f[0] < m) v_forward(out, at, 0);
		v_backward(out, at, 0);
		v_weights(out, at, 0);
		v_forward(out, at, 1);
		v_backward(out, at, 1);
		v_weights(out, at, 1);
	}
}

static void v_cool_down(lk_slots *out, struct lane *at, int stages, int rank, int m) {
	for (int i = 0; i < rank; i++) {
		v_backward(out, at, 0);
		v_backward(out, at, 1);
	}
	for (int i = 0; i < stages - rank; i++) {
		v_backward(out, at, 0);
		v_weights(out, at, 0);
	}
	while (at->w[1] < m) v_weights(out, at, 1);
	while (at->w[0] < m) v_weights(out, at, 0);
}

static lk_status v_order(const lk_schedule_shape *shape, int stage, lk_slots *out, lk_error *err) {
	int m = shape->microbatches;
	LK_TRY(lk_schedule_begin(&lk_schedule_zb_v, shape, stage, 6 * (size_t)m, out, err));
	struct lane at = {{0, 0}, {0, 0}, {0, 0}};
	v_warm_up(out, &at, shape->stages, stage);
	v_steady(out, &at, m);
	v_cool_down(out, &at, shape->stages, stage, m);
	return LK_OK;
}

const lk_schedule lk_schedule_zb_v = {
	.kind = LK_SCHED_ZB_V,
	.name = "zb-v",
	.label = "ZB-V",
	.fixed_chunks = 2,
	.periodic = true,
	.check = v_check,
	.order = v_order,
	.place = lk_schedule_place_folded,
};
