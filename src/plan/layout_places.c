/* layout_places.c: which layers each stage has, and how many micro-batches it holds. */
#include <string.h>

#include "base/arena.h"
#include "model/layout/job.h"
#include "plan/layout_places.h"

/* Count micro-batches in flight. One is counted from the end of its forward pass to the start of
 * its backward pass; if both passes of a pair run together, the ending one leaves first. Returns
 * the number of pairs. */
static int count_held(const lk_slots *slots, int chunks, int *now, int *most) {
	int total = 0, highest = 0, pairs = 0;
	for (size_t i = 0; i < slots->count; i++) {
		const lk_slot *slot = &slots->at[i], *pair[2] = {slot, NULL};
		if (slot->pair && i + 1 < slots->count) {
			pair[0] = &slots->at[++i];
			pair[1] = slot;
			pairs++;
		}
		for (int k = 0; k < 2 && pair[k]; k++) {
			int change = pair[k]->pass == LK_PASS_F ? 1 : -1;
			if (pair[k]->pass == LK_PASS_W) change = 0;
			now[pair[k]->chunk] += change;
			total += change;
		}
		if (total <= highest) continue;
		highest = total;
		memcpy(most, now, (size_t)chunks * sizeof *most);
	}
	return pairs;
}

static lk_status ask_held(const lk_schedule_shape *shape, int schedule, int stage, int *held,
                          int *pairs, lk_arena *arena, lk_error *err) {
	lk_slots slots = {0};
	int *now = LK_ARRAY(arena, int, shape->chunks);
	if (!now) return lk_oom(err);
	lk_status status = lk_schedule_get(schedule)->order(shape, stage, &slots, err);
	if (status == LK_OK) *pairs = count_held(&slots, shape->chunks, now, held);
	lk_vec_free(&slots);
	return status;
}

static bool held_is_of(const lk_held *held, const lk_schedule_shape *shape, int schedule,
                       int stage) {
	const lk_schedule_shape *known = &held->shape;
	return known->stages == shape->stages && known->chunks == shape->chunks &&
	       known->microbatches == shape->microbatches && known->group == shape->group &&
	       known->paired == shape->paired && held->schedule == schedule && held->stage == stage;
}

/* What stages hold depends only on the schedule, which layouts that differ only in other degrees
 * share: cache it. */
static lk_status find_held(lk_layer_places *lie, int which, lk_bounder *bounder, lk_arena *arena,
                           lk_error *err) {
	const lk_job *job = &lie->job;
	const lk_schedule_shape shape = {job->pp, job->vp, job->microbatches, job->microbatch_group,
	                                 lk_job_pairs(job)};
	int schedule = (int)job->schedule, stage = lie->stage[which], pairs = 0;
	uint32_t hash = (uint32_t)shape.stages * 31 + (uint32_t)shape.chunks;
	hash = (hash * 31 + (uint32_t)shape.microbatches) * 31 + (uint32_t)stage;
	lk_held *known = &bounder->held[hash * UINT32_C(0x9e3779b1) >> 26];
	size_t bytes = (size_t)shape.chunks * sizeof(int);
	lie->held[which] = LK_ARRAY(arena, int, shape.chunks);
	if (!lie->held[which]) return lk_oom(err);
	if (held_is_of(known, &shape, schedule, stage)) {
		memcpy(lie->held[which], known->chunk, bytes);
		pairs = known->pairs;
	} else {
		LK_TRY(ask_held(&shape, schedule, stage, lie->held[which], &pairs, arena, err));
		if (shape.chunks <= LK_HELD_CHUNKS) {
			*known = (lk_held){shape, schedule, stage, pairs, {0}};
			memcpy(known->chunk, lie->held[which], bytes);
		}
	}
	if (which == 0 || pairs < lie->pairs) lie->pairs = pairs; /* the first stage has fewest */
	return LK_OK;
}

lk_status lk_layer_places_split(const lk_job *job, lk_arena *arena, lk_layer_places *out,
                                lk_error *err) {
	lk_schedule_shape shape = {job->pp, job->vp, job->microbatches, job->microbatch_group,
	                           lk_job_pairs(job)};
	const lk_schedule *schedule = lk_schedule_get(job->schedule);
	*out = (lk_layer_places){.job = *job, .places = lk_job_places(job), .chunks = job->vp};
	out->first = LK_ARRAY(arena, int, out->places);
	out->count = LK_ARRAY(arena, int, out->places);
	out->place = LK_ARRAY(arena, int, job->pp * job->vp);
	if (!out->first || !out->count || !out->place) return lk_oom(err);
	lk_job_split(job, out->first, out->count);
	for (int s = 0; s < job->pp; s++)
		for (int c = 0; c < job->vp; c++)
			out->place[s * job->vp + c] = schedule->place(&shape, s, c);
	return LK_OK;
}

lk_status lk_layer_places_find(lk_bounder *bounder, const lk_job *job, lk_arena *arena,
                               lk_layer_places *out, lk_error *err) {
	const int stages[LK_SEEN] = {0, job->pp > 1 ? 1 : 0, job->pp - 1};
	LK_TRY(lk_layer_places_split(job, arena, out, err));
	for (int i = 0; i < LK_SEEN; i++) {
		out->stage[i] = stages[i];
		if (i > 0 && stages[i] == stages[i - 1]) out->held[i] = out->held[i - 1];
		else LK_TRY(find_held(out, i, bounder, arena, err));
	}
	return LK_OK;
}
