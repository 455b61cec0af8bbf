/* layout_least.c: the least work per sample on a device, in GPU-seconds: compute operations only,
 * nothing recomputed, with unlimited memory, at the micro-batch for which that is least. Messages,
 * bubbles, launches, recomputation and the optimizer only add to it, and more GPUs only make the
 * operations of each smaller. The bytes are those of a checkpoint, which the GPUs' memory holds
 * during the step. */
#include <math.h>

#include "base/arena.h"
#include "model/layout/job.h"
#include "model/layout/sizes.h"
#include "plan/plan.h"

/* Tensor parallelism may use the device slightly better than whole products do, and so may experts
 * on more GPUs than are considered here. */
static const double ALLOWANCE = 0.9;

static double compute_s(const lk_layer_part *part) {
	return part->compute_forward_s + part->compute_backward_s;
}

/* Layouts without tensor, pipeline and context parallelism; the others only divide the same
 * layers. */
static bool least_is_plain(const lk_core *core) {
	return core->tp == 1 && core->pp == 1 && core->cp == 1;
}

static lk_status least_of_core(lk_bounder *bounder, const lk_core *core, lk_arena *arena,
                               lk_plan_work *least, lk_error *err) {
	lk_job job;
	lk_parts parts;
	if (lk_space_job(bounder->space, core, &job, NULL) != LK_OK) return LK_OK;
	LK_TRY(lk_parts_find(bounder, core->stack, &job, false, NULL, arena, &parts, err));
	double all_s = compute_s(&parts.sum[0][parts.layers]) + compute_s(&parts.embedding) +
	               compute_s(&parts.head) + job.model.mtp_layers * compute_s(&parts.prediction);
	least->gpu_s = fmin(least->gpu_s, ALLOWANCE * all_s / core->mbs);
	least->seq = lk_job_tokens(&job) ? lk_job_tokens(&job) : 1;
	least->bytes = bounder->space->offload ? 0 : lk_sizes_checkpoint(&job);
	return LK_OK;
}

static lk_status least_of_space(const lk_space *space, lk_arena *arena, lk_plan_work *least,
                                lk_error *err) {
	lk_cost_cache *cache = lk_cost_cache_new();
	lk_cores_list cores = {0};
	lk_bounder bounder;
	if (!cache) return lk_oom(err);
	lk_bounder_begin(&bounder, space, cache);
	lk_status status = lk_space_cores(space, &cores, err);
	for (size_t i = 0; status == LK_OK && i < cores.count; i++)
		if (least_is_plain(&cores.at[i]))
			status = least_of_core(&bounder, &cores.at[i], arena, least, err);
	lk_vec_free(&cores);
	lk_cost_cache_free(cache);
	return status;
}

lk_status lk_plan_least(const lk_plan_request *request, lk_plan_work *out, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	lk_asked *asked = LK_NEW(&arena, lk_asked);
	lk_space *space = LK_NEW(&arena, lk_space);
	*out = (lk_plan_work){.gpu_s = INFINITY};
	lk_status status = asked && space ? LK_OK : lk_oom(err);
	if (status == LK_OK) status = lk_request_take(&arena, &request->job, asked, err);
	if (status == LK_OK) status = lk_space_read(request, asked, space, err);
	if (status == LK_OK) status = least_of_space(space, &arena, out, err);
	lk_arena_free(&arena);
	return status;
}
