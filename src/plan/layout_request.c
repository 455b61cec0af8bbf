/* layout_request.c: a layout of the search as a request of predict, by the options that state
 * it. */
#include <string.h>

#include "base/arena.h"
#include "base/units.h"
#include "model/layout/schedule.h"
#include "plan/plan.h"
#include "step/step.h"

/* A switch as an option; 0 if completing the job sets it anyway. */
static int said_switch(lk_switch is, bool otherwise) {
	bool on = is == LK_ON;
	if (on == otherwise) return 0;
	return on ? 1 : -1;
}

bool lk_layout_request(const lk_plan_request *request, const lk_space *space,
                       const lk_layout *layout, const lk_job *job, lk_arena *arena,
                       lk_predict_request *out) {
	const lk_stack_features *features = lk_job_features(job);
	bool replicas = (int64_t)job->dp * job->cp > 1, sharded = job->sharding != LK_SHARD_NONE;
	int etp = features->etp > 0 ? features->etp : job->tp;
	*out = request->job;
	out->mains.carbon = out->mains.price_kwh = 0; /* of a training: plan computes its length
	                                                 itself */
	out->emit = NULL;                             /* its stack is stated */
	out->gpus = job->gpus;
	out->tp = job->tp;
	out->pp = job->pp;
	out->vp = job->vp;
	out->cp = job->cp;
	out->ep = job->ep;
	out->etp = job->model.experts > 0 && job->etp != etp ? job->etp : 0;
	out->mbs = job->mbs;
	bool usual = strcmp(job->stack, lk_job_usual_stack(job)) == 0;
	out->stack = usual ? NULL : lk_arena_strdup(arena, job->stack);
	out->zero = lk_arena_printf(arena, "%d", (int)job->sharding);
	out->recompute = lk_recompute_text(arena, job);
	if (job->tp > 1) out->sequence_parallel = said_switch(job->sequence_parallel, true);
	out->tp_overlap =
		said_switch(job->tp_overlap, features->tp_overlap && job->sequence_parallel == LK_ON);
	out->overlap_grad_reduce =
		replicas ? said_switch(job->overlap_grad_reduce, lk_job_overlaps_reduce(job)) : 0;
	out->overlap_param_gather = replicas && sharded ? said_switch(job->overlap_param_gather,
	                                                              job->overlap_grad_reduce == LK_ON)
	                                                : 0;
	out->bucket_mib = space->bucket.at[layout->bucket] == LK_BUCKET_USUAL
	                      ? request->job.bucket_mib
	                      : job->bucket_bytes / LK_MIB;
	out->offload_optimizer = job->offload_optimizer;
	if (job->dispatcher == LK_DISPATCH_NODE) out->dispatcher = "node";
	if (job->pp > 1) out->schedule = lk_schedule_get(job->schedule)->name;
	bool split = !job->split_open && job->pipeline_layout[0];
	if (split) out->pipeline_layout = lk_arena_strdup(arena, job->pipeline_layout);
	lk_request_keep_acting(job, out);
	return out->zero && out->recompute && (out->pipeline_layout || !split) && (out->stack || usual);
}
