/* schedule_interleaved.c: interleaved 1F1B (Narayanan et al., arXiv 2104.04473), as Megatron-LM
 * orders it (megatron/core/pipeline_parallel/schedules.py). Each rank has v model chunks; chunk c
 * of rank s is virtual stage c*p + s.
 *
 * Micro-batches run in groups of p, or of the job's g >= p; a group passes all chunks before the
 * next one starts. Backward passes take the chunks in reverse order. With w = min(2(p
 * - s - 1) + (v - 1)g, m*v): F x w; (F, B) x (m*v - w); B x w. Makespan m(F + b) + (p - 1)(F +
 * b)/v; min(m*v, w + 1) chunks are in flight.
 *
 * Paired (Megatron-LM's --overlap-moe-expert-parallel-comm): w is one larger, and F and B of a
 * steady step run concurrently.
 *
 * m must be a multiple of p. Megatron-LM refuses a last group of fewer than p micro-batches too:
 * the order would deadlock, for instance with p = 4, v = 3, m = 5. */
#include "model/layout/schedule.h"
#include "base/noun.h"

static int interleaved_group_size(const lk_schedule_shape *shape) {
	return shape->group > 0 ? shape->group : shape->stages;
}

static lk_status interleaved_check_group(const lk_schedule_shape *shape, lk_error *err) {
	if (shape->group <= 0 || shape->group >= shape->stages) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, lk_schedule_interleaved.name,
	        "groups of %d %s are smaller than the %d %s", shape->group,
	        lk_noun(shape->group, "micro-batch", "micro-batches"), shape->stages,
	        lk_noun(shape->stages, "stage", "stages"));
	return lk_hint(err, "give groups of %d or more", shape->stages);
}

static lk_status interleaved_check(const lk_schedule_shape *shape, lk_error *err) {
	LK_TRY(lk_schedule_check_shape(&lk_schedule_interleaved, shape, err));
	const char *name = lk_schedule_interleaved.name;
	if (shape->chunks < 2) {
		lk_fail(err, LK_ERR_INPUT, name, "one model chunk per rank cannot be interleaved");
		return lk_hint(err, "give 2 or more chunks per rank, or use 1f1b");
	}
	LK_TRY(interleaved_check_group(shape, err));
	int group = interleaved_group_size(shape), rest = shape->microbatches % group,
		below = shape->microbatches - rest;
	if (rest == 0) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, name, "%d %s not divide into groups of %d%s", shape->microbatches,
	        lk_noun(shape->microbatches, "micro-batch does", "micro-batches do"), group,
	        shape->group > 0 ? "" : ", one for each stage");
	if (below == 0)
		return lk_hint(err, "nearest: %d %s", group,
		               lk_noun(group, "micro-batch", "micro-batches"));
	return lk_hint(err, "nearest: %d or %d %s", below, below + group,
	               lk_noun(below + group, "micro-batch", "micro-batches"));
}

/* Iterates over the virtual steps of a rank: by group, then chunk, then micro-batch of the
 * group. */
struct walk {
	int group; /* first micro-batch of the group */
	int chunk, offset;
};

static void interleaved_emit(lk_slots *out, lk_pass pass, const lk_schedule_shape *shape,
                             struct walk *at) {
	int chunk = pass == LK_PASS_F ? at->chunk : shape->chunks - 1 - at->chunk;
	lk_slot_put(out, pass, chunk, at->group + at->offset);
	if (++at->offset < interleaved_group_size(shape)) return;
	at->offset = 0;
	if (++at->chunk < shape->chunks) return;
	at->chunk = 0;
	at->group += interleaved_group_size(shape);
}

static lk_status interleaved_order(const lk_schedule_shape *shape, int stage, lk_slots *out,
                                   lk_error *err) {
	int64_t steps = (int64_t)shape->microbatches * shape->chunks;
	LK_TRY(lk_schedule_begin(&lk_schedule_interleaved, shape, stage, 2 * (size_t)steps, out, err));
	int64_t warmup = 2 * (int64_t)(shape->stages - stage - 1) +
	                 (int64_t)(shape->chunks - 1) * interleaved_group_size(shape);
	if (shape->paired) warmup++; /* a pair's backward must not wait for its own forward */
	if (warmup > steps) warmup = steps;
	struct walk forward = {0, 0, 0}, backward = {0, 0, 0};
	for (int64_t i = 0; i < warmup; i++) interleaved_emit(out, LK_PASS_F, shape, &forward);
	for (int64_t i = warmup; i < steps; i++) {
		interleaved_emit(out, LK_PASS_F, shape, &forward);
		lk_last(out)->pair = shape->paired;
		interleaved_emit(out, LK_PASS_B, shape, &backward);
	}
	for (int64_t i = 0; i < warmup; i++) interleaved_emit(out, LK_PASS_B, shape, &backward);
	return LK_OK;
}

const lk_schedule lk_schedule_interleaved = {
	.kind = LK_SCHED_INTERLEAVED,
	.name = "interleaved",
	.label = "interleaved 1F1B",
	.fixed_chunks = 0,
	.periodic = true,
	.check = interleaved_check,
	.order = interleaved_order,
	.place = lk_schedule_place_round,
};
