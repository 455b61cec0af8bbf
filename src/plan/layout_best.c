/* layout_best.c: only the fastest layout, for a request that names none. */
#include "plan/plan.h"

#include "base/arena.h"
#include "base/check.h"

lk_status lk_plan_best(lk_arena *arena, const lk_predict_request *request, const lk_asked *asked,
                       lk_predict_request *out, bool *found, uint64_t *layouts, lk_error *err) {
	lk_plan_request wanted;
	lk_space *space = LK_NEW(arena, lk_space);
	lk_hunt hunt;
	lk_job job;
	LK_ASSERT(asked->job.gbs > 0); /* layouts are compared on one batch */
	if (!space) return lk_oom(err);
	lk_plan_defaults(&wanted);
	wanted.job = *request;
	wanted.fixed_switches = true;
	wanted.top = 1;
	*found = false;
	LK_TRY(lk_space_read(&wanted, asked, space, err));
	LK_TRY(lk_hunt_run(&wanted, space, NULL, arena, &hunt, err));
	*layouts = hunt.layouts;
	if (hunt.best_count == 0) return LK_OK;
	LK_TRY(lk_layout_job(space, &hunt.best[0].core, &hunt.best[0].layout, &job, err));
	*found = true;
	return lk_layout_request(&wanted, space, &hunt.best[0].layout, &job, arena, out) ? LK_OK
	                                                                                 : lk_oom(err);
}
