/* layout_emit.c: a choice as a launch line of a framework. */
#include "model/job.h"
#include "model/job_parts.h"
#include "plan/layout.h"

lk_status lk_plan_launch(const lk_plan *plan, const lk_plan_choice *choice, lk_plan_emit emit, const char **out, lk_error *err) {
	lk_arena *arena = lk_plan_arena(plan);
	const lk_job *job = choice->job;
	*out = NULL;
	(void)emit;
	*out = lk_launch_write(arena, job);
	return *out ? LK_OK : lk_oom(err);
}
