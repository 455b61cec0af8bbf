/* dlrm_time.c: a recommendation model's step on one device, as in predict and shard. */
#include "validate/validate.h"

#include "base/arena.h"
#include "shard/shard.h"

static lk_status ask_alone(lk_arena *arena, const lk_dlrm *model, double batch,
                           const lk_device *device, const lk_host_terms *host, lk_dlrm_time *out,
                           lk_error *err) {
	lk_cluster cluster;
	lk_shard_problem problem;
	lk_shard_plan plan = {0};
	lk_step step = {0};
	LK_TRY(lk_cluster_simple(arena, device, 1, 0, 0, &cluster, err));
	LK_TRY(lk_shard_of_model(arena, model, &cluster, 1, batch, LK_FP32, &problem, err));
	lk_status status = lk_shard_placement(&problem, NULL, &plan, err);
	if (status == LK_OK)
		status = lk_shard_step(&problem, &plan.pieces, model, LK_FP32, host, NULL, &step, err);
	if (status == LK_OK) {
		out->step_s = step.step_s;
		out->class = lk_shard_step_class(&step);
		lk_shard_step_work(&step, &out->host_s, &out->kernels_s);
	}
	lk_step_free(&step);
	lk_vec_free(&plan.pieces);
	return status;
}

lk_status lk_dlrm_predict(const lk_dlrm *model, double batch, const lk_device *device,
                          const lk_host_terms *host, lk_dlrm_time *out, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	*out = (lk_dlrm_time){0};
	lk_status status = ask_alone(&arena, model, batch, device, host, out, err);
	lk_arena_free(&arena);
	return status;
}
