/* schedule_v_memory.c: V-Half and V-Min (Qi et al., arXiv 2405.15362, building blocks of section
 * 3): the V of ZB-V with a half and a third of 1F1B's activations.
 *
 * In units of a pass of a half stage, all assumed equally long, rank r of p begins the passes of
 * micro-batch 0 at
 *
 *             F0    F1            B1                B0                 gap
 *     V-Half  2r    3p - r - 2    3p + gap + 2r - 1 6p + gap - r - 2   3 with p even, else 0
 *     V-Min   r     2p - r - 1    2p + gap + r      4p + gap - r - 1   2 with p % 3 = 0, else 0
 *
 * and those of each next one six units later: three passes of two halves (sail-sg/zero-bubble,
 * zbv_greedy.py, stable_pattern_v_half and _v_min). Weight gradients take the units in between.
 * Sorting these times gives the order; the simulation runs each pass as early as possible. The
 * greedy search by which that repository's scheduler then moves passes of the first and last
 * micro-batches is left out. Makespan with F = B = W, m >= p: 3mF + (7p + gap - 7) F/4 for V-Half,
 * 3mF + (4p + gap - 5) F/2 for V-Min; at most p + 2 and 2p/3 + 3 half chunks are in flight. */
#include "base/check.h"
#include "model/layout/schedule.h"

enum {
	V_PERIOD = 6, /* units between micro-batches */
	V_TURNS = 4   /* F0, F1, B1, B0 */
};

static const struct turn {
	lk_pass pass;
	int chunk;
} turns[V_TURNS] = {{LK_PASS_F, 0}, {LK_PASS_F, 1}, {LK_PASS_BI, 1}, {LK_PASS_BI, 0}};

/* When rank `rank` of `stages` begins the passes of micro-batch 0. */
typedef void block_fn(int stages, int rank, int begin[V_TURNS]);

static void half_block(int stages, int rank, int begin[V_TURNS]) {
	int gap = stages % 2 == 0 ? 3 : 0;
	begin[0] = 2 * rank;
	begin[1] = 3 * stages - rank - 2;
	begin[2] = 3 * stages + gap + 2 * rank - 1;
	begin[3] = 6 * stages + gap - rank - 2;
}

static void min_block(int stages, int rank, int begin[V_TURNS]) {
	int gap = stages % 3 == 0 ? 2 : 0;
	begin[0] = rank;
	begin[1] = 2 * stages - rank - 1;
	begin[2] = 2 * stages + gap + rank;
	begin[3] = 4 * stages + gap - rank - 1;
}

/* Waiting weight gradients, oldest first: those of the input gradients from slot `at` on. */
struct waiting {
	size_t at;
	int count;
};

static void put_weights(lk_slots *out, struct waiting *waiting) {
	LK_ASSERT(waiting->count > 0);
	lk_slot_put_oldest_weight(out, &waiting->at);
	waiting->count--;
}

/* Merge the four rows of times; all times are distinct. */
static lk_status v_memory_order(const lk_schedule *schedule, block_fn *block,
                                const lk_schedule_shape *shape, int stage, lk_slots *out,
                                lk_error *err) {
	int m = shape->microbatches, next[V_TURNS] = {0}, begin[V_TURNS];
	size_t first = out->count;
	LK_TRY(schedule->check(shape, err));
	block(shape->stages, stage, begin);
	LK_TRY(lk_schedule_begin(schedule, shape, stage, 6 * (size_t)m, out, err));
	struct waiting waiting = {.at = first};
	int64_t now = -1;
	for (int i = 0; i < V_TURNS * m; i++) {
		int due = -1;
		int64_t when = 0;
		for (int k = 0; k < V_TURNS; k++) {
			int64_t at = begin[k] + (int64_t)V_PERIOD * next[k];
			if (next[k] < m && (due < 0 || at < when)) {
				due = k;
				when = at;
			}
		}
		LK_ASSERT(due >= 0 && when > now);
		for (; now + 1 < when && waiting.count > 0; now++) put_weights(out, &waiting);
		now = when;
		lk_slot_put(out, turns[due].pass, turns[due].chunk, next[due]++);
		if (turns[due].pass == LK_PASS_BI) waiting.count++;
	}
	while (waiting.count > 0) put_weights(out, &waiting);
	return LK_OK;
}

static lk_status half_check(const lk_schedule_shape *shape, lk_error *err) {
	return lk_schedule_check_shape(&lk_schedule_v_half, shape, err);
}

static lk_status half_order(const lk_schedule_shape *shape, int stage, lk_slots *out,
                            lk_error *err) {
	return v_memory_order(&lk_schedule_v_half, half_block, shape, stage, out, err);
}

static lk_status min_check(const lk_schedule_shape *shape, lk_error *err) {
	return lk_schedule_check_shape(&lk_schedule_v_min, shape, err);
}

static lk_status min_order(const lk_schedule_shape *shape, int stage, lk_slots *out,
                           lk_error *err) {
	return v_memory_order(&lk_schedule_v_min, min_block, shape, stage, out, err);
}

const lk_schedule lk_schedule_v_half = {
	.kind = LK_SCHED_V_HALF,
	.name = "v-half",
	.label = "V-Half",
	.fixed_chunks = 2,
	.periodic = true,
	.check = half_check,
	.order = half_order,
	.place = lk_schedule_place_folded,
};

const lk_schedule lk_schedule_v_min = {
	.kind = LK_SCHED_V_MIN,
	.name = "v-min",
	.label = "V-Min",
	.fixed_chunks = 2,
	.periodic = true,
	.check = min_check,
	.order = min_order,
	.place = lk_schedule_place_folded,
};
