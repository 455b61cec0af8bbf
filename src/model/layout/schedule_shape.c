/* schedule_shape.c: common to all pipeline schedules: legal shapes, the slots of a rank, the
 * placements. */
#include "model/layout/schedule.h"
#include "base/noun.h"

static lk_status out_of_range(const lk_schedule *schedule, const char *what, int value, int limit,
                              lk_error *err) {
	return lk_fail(err, LK_ERR_INPUT, schedule->name, "%d %s are out of range, 1 to %d", value,
	               what, limit);
}

lk_status lk_schedule_check_shape(const lk_schedule *schedule, const lk_schedule_shape *shape,
                                  lk_error *err) {
	if (shape->stages < 1 || shape->stages > LK_SCHEDULE_STAGES)
		return out_of_range(schedule, "pipeline stages", shape->stages, LK_SCHEDULE_STAGES, err);
	if (shape->chunks < 1 || shape->chunks > LK_SCHEDULE_CHUNKS)
		return out_of_range(schedule, "model chunks per rank", shape->chunks, LK_SCHEDULE_CHUNKS,
		                    err);
	if (schedule->fixed_chunks != 0 && shape->chunks != schedule->fixed_chunks) {
		lk_fail(err, LK_ERR_INPUT, schedule->name, "%s has %d model %s per rank, not %d",
		        schedule->label, schedule->fixed_chunks,
		        lk_noun(schedule->fixed_chunks, "chunk", "chunks"), shape->chunks);
		return lk_hint(err, schedule->fixed_chunks == 1
		                        ? "use the schedule interleaved, or leave the chunks out"
		                        : "leave the number of chunks out");
	}
	int limit = LK_SCHEDULE_PASSES / shape->chunks;
	if (shape->microbatches < 1 || shape->microbatches > limit)
		return out_of_range(schedule, "micro-batches", shape->microbatches, limit, err);
	return LK_OK;
}

lk_status lk_schedule_begin(const lk_schedule *schedule, const lk_schedule_shape *shape, int stage,
                            size_t slots, lk_slots *out, lk_error *err) {
	LK_TRY(schedule->check(shape, err));
	if (stage < 0 || stage >= shape->stages)
		return lk_fail(err, LK_ERR_INTERNAL, schedule->name, "stage %d of %d", stage,
		               shape->stages);
	return lk_reserve(out, slots) ? LK_OK : lk_oom(err);
}

int lk_schedule_place_round(const lk_schedule_shape *shape, int stage, int chunk) {
	return chunk * shape->stages + stage;
}

int lk_schedule_place_folded(const lk_schedule_shape *shape, int stage, int chunk) {
	return chunk == 0 ? stage : 2 * shape->stages - 1 - stage;
}
