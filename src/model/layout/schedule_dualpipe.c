/* schedule_dualpipe.c: DualPipe (DeepSeek-V3, arXiv 2412.19437; deepseek-ai/DualPipe, dualpipe.py).
 * Half of the micro-batches run through the ranks in ascending order (direction 0), half in
 * descending order (direction 1); so rank r holds stage r for direction 0 and stage P - 1 - r for
 * direction 1, and parameters are stored twice.
 *
 * With H = P/2, h = min(r, P - 1 - r), C micro-batches; phase 0 is the direction that starts on the
 * rank's half, phase 1 the other. Bz is an input gradient whose weight gradient waits in a queue, W
 * takes the oldest of the queue, F&B runs overlapped:
 *     (1) F0 x 2(H-h-1)          (2) F0, F1 x (h+1)          (3) B1z, W, F1 x (H-h-1)
 *     (4) F0&B1, F1&B0 x (C/2-P+h+1); on the middle ranks the very first F0, B1 run one after the
 *         other
 *     (5) B1, F1&B0 x (H-h-1)    (6) B1, B0 x (h+1), their second half with waiting weight
 *                                gradients
 *     (7) W, B0z x (H-h-1)       (8) W x (h+1)
 * Bubble (P/2 - 1)(F&B + b - 3W). The chunk of a slot is the direction; micro-batches are counted
 * 0..C/2-1 in each.
 *
 * DualPipeV (dualpipev.py) is the upper half folded at its middle: p ranks; rank r holds the places
 * r and 2p - 1 - r of one chain, and all micro-batches pass both. The order is that of rank r of 2p
 * ranks with 2m micro-batches. */
#include "model/layout/schedule.h"
#include "base/noun.h"

static lk_status dualpipe_check_stages(const lk_schedule_shape *shape, lk_error *err) {
	if (shape->stages % 2 == 0) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, lk_schedule_dualpipe.name, "%d %s: DualPipe needs an even number",
	        shape->stages, lk_noun(shape->stages, "stage", "stages"));
	if (shape->stages == 1) return lk_hint(err, "nearest: 2");
	return lk_hint(err, "nearest: %d, %d", shape->stages - 1, shape->stages + 1);
}

static lk_status dualpipe_check_least(const lk_schedule *schedule, const lk_schedule_shape *shape,
                                      lk_error *err) {
	int m = shape->microbatches, least = 2 * shape->stages;
	if (m >= least) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, schedule->name, "%d %s too few for %d %s: %s needs 2p = %d", m,
	        lk_noun(m, "micro-batch is", "micro-batches are"), shape->stages,
	        lk_noun(shape->stages, "stage", "stages"), schedule->label, least);
	return lk_hint(err, "give at least %d %s", least,
	               lk_noun(least, "micro-batch", "micro-batches"));
}

static lk_status dualpipe_check(const lk_schedule_shape *shape, lk_error *err) {
	LK_TRY(lk_schedule_check_shape(&lk_schedule_dualpipe, shape, err));
	LK_TRY(dualpipe_check_stages(shape, err));
	LK_TRY(dualpipe_check_least(&lk_schedule_dualpipe, shape, err));
	int m = shape->microbatches, least = 2 * shape->stages;
	if (m % 2 != 0) {
		lk_fail(err, LK_ERR_INPUT, lk_schedule_dualpipe.name,
		        "%d %s: DualPipe needs an even number, half for each direction", m,
		        lk_noun(m, "micro-batch", "micro-batches"));
		return m - 1 < least ? lk_hint(err, "nearest: %d", m + 1)
		                     : lk_hint(err, "nearest: %d, %d", m - 1, m + 1);
	}
	return LK_OK;
}

/* A rank's state: next micro-batch by phase, and the queue of waiting weight gradients. */
struct desk {
	lk_slots *out;
	int turn; /* direction of phase 0 */
	int f[2], b[2];
	size_t oldest; /* all waiting weight gradients are at or after this slot */
};

static void dualpipe_forward(struct desk *desk, int phase) {
	lk_slot_put(desk->out, LK_PASS_F, phase ^ desk->turn, desk->f[phase]++);
}

static void dualpipe_backward(struct desk *desk, int phase, bool waiting) {
	lk_slot_put(desk->out, waiting ? LK_PASS_BI : LK_PASS_B, phase ^ desk->turn, desk->b[phase]++);
}

static void overlapped(struct desk *desk, int forward_phase) {
	dualpipe_forward(desk, forward_phase);
	lk_last(desk->out)->pair = 1;
	dualpipe_backward(desk, 1 - forward_phase, false);
}

static void dualpipe_weights(struct desk *desk) {
	lk_slot_put_oldest_weight(desk->out, &desk->oldest);
}

static void dualpipe_warm_up(struct desk *desk, int h, int rest) {
	for (int i = 0; i < 2 * rest; i++) dualpipe_forward(desk, 0);
	for (int i = 0; i <= h; i++) {
		dualpipe_forward(desk, 0);
		dualpipe_forward(desk, 1);
	}
	for (int i = 0; i < rest; i++) {
		dualpipe_backward(desk, 1, true);
		dualpipe_weights(desk);
		dualpipe_forward(desk, 1);
	}
}

static void dualpipe_steady(struct desk *desk, int count, int rest) {
	for (int i = 0; i < count; i++) {
		if (i == 0 && rest == 0) {
			dualpipe_forward(desk, 0);
			dualpipe_backward(desk, 1, false);
		} else {
			overlapped(desk, 0);
		}
		overlapped(desk, 1);
	}
	for (int i = 0; i < rest; i++) {
		dualpipe_backward(desk, 1, false);
		overlapped(desk, 1);
	}
}

static void dualpipe_cool_down(struct desk *desk, int h, int rest) {
	int half = (h + 1) / 2;
	for (int i = 0; i <= h; i++) {
		dualpipe_backward(desk, 1, i > half || (i == half && h % 2 == 1));
		dualpipe_backward(desk, 0, i >= half);
	}
	for (int i = 0; i < rest; i++) {
		dualpipe_weights(desk);
		dualpipe_backward(desk, 0, true);
	}
	for (int i = 0; i <= h; i++) dualpipe_weights(desk);
}

/* Fill rank h of the half of `half` ranks on which phase 0 starts, with `each` micro-batches per
 * phase. */
static void dualpipe_fill(struct desk *desk, int h, int half, int each) {
	int rest = half - h - 1;
	dualpipe_warm_up(desk, h, rest);
	dualpipe_steady(desk, each - 2 * half + h + 1, rest);
	dualpipe_cool_down(desk, h, rest);
}

static lk_status dualpipe_order(const lk_schedule_shape *shape, int stage, lk_slots *out,
                                lk_error *err) {
	LK_TRY(lk_schedule_begin(&lk_schedule_dualpipe, shape, stage, 3 * (size_t)shape->microbatches,
	                         out, err));
	int mirror = shape->stages - 1 - stage, h = stage < mirror ? stage : mirror;
	struct desk d = {
		.out = out, .turn = stage > mirror, .f = {0, 0}, .b = {0, 0}, .oldest = out->count};
	dualpipe_fill(&d, h, shape->stages / 2, shape->microbatches / 2);
	return LK_OK;
}

static lk_status dualpipe_v_check(const lk_schedule_shape *shape, lk_error *err) {
	LK_TRY(lk_schedule_check_shape(&lk_schedule_dualpipe_v, shape, err));
	return dualpipe_check_least(&lk_schedule_dualpipe_v, shape, err);
}

static lk_status dualpipe_v_order(const lk_schedule_shape *shape, int stage, lk_slots *out,
                                  lk_error *err) {
	LK_TRY(lk_schedule_begin(&lk_schedule_dualpipe_v, shape, stage, 6 * (size_t)shape->microbatches,
	                         out, err));
	struct desk d = {.out = out, .f = {0, 0}, .b = {0, 0}, .oldest = out->count};
	dualpipe_fill(&d, stage, shape->stages, shape->microbatches);
	return LK_OK;
}

static int dualpipe_place(const lk_schedule_shape *shape, int stage, int chunk) {
	return chunk == 0 ? stage : shape->stages - 1 - stage;
}

const lk_schedule lk_schedule_dualpipe = {
	.kind = LK_SCHED_DUALPIPE,
	.name = "dualpipe",
	.label = "DualPipe",
	.fixed_chunks = 2,
	.periodic = true,
	.check = dualpipe_check,
	.order = dualpipe_order,
	.place = dualpipe_place,
};

const lk_schedule lk_schedule_dualpipe_v = {
	.kind = LK_SCHED_DUALPIPE_V,
	.name = "dualpipev",
	.label = "DualPipeV",
	.fixed_chunks = 2,
	.periodic = true,
	.check = dualpipe_v_check,
	.order = dualpipe_v_order,
	.place = lk_schedule_place_folded,
};
