/* layout_membership.c: whether a search includes a job, and if not, what of it is left out. */
#include "base/text.h"
#include "launch/emit/emit.h"
#include "model/layout/job.h"
#include "plan/layout_space.h"

static bool space_among(const lk_axis *axis, int value, const char *name, const char **why) {
	if (lk_axis_has(axis, value)) return true;
	*why = name;
	return false;
}

/* Whether a job splits its layers like a core. */
static bool split_alike(const lk_space *space, const lk_core *core, const lk_job *job) {
	lk_job other;
	int first[2];
	if (lk_space_job(space, core, &other, NULL) != LK_OK) return false;
	for (int stage = 0; stage < job->pp; stage++)
		for (int chunk = 0; chunk < job->vp; chunk++)
			if (lk_job_chunk_layers(job, stage, chunk, &first[0]) !=
			        lk_job_chunk_layers(&other, stage, chunk, &first[1]) ||
			    first[0] != first[1])
				return false;
	return true;
}

static bool recompute_held(const lk_recomputes *ways, const lk_job *job) {
	for (int k = 0; k < ways->count; k++)
		if (ways->at[k].kind == job->recompute && ways->at[k].layers == job->recompute_layers)
			return true;
	return false;
}

/* Whether the search includes the switches of a job with its core. */
static bool switches_held(const lk_space *space, const lk_core *core, const lk_job *job,
                          const char **why) {
	lk_axis shardings;
	bool usual = !space->dispatcher_said && lk_space_features(space, core->stack)->by_node &&
	             lk_cluster_can(space->cluster, LK_CAN_BY_NODE);
	bool node = lk_core_sends_by_node(space, core) || usual;
	lk_dispatcher sent = node ? LK_DISPATCH_NODE : space->base.dispatcher;
	lk_core_shardings(space, core, &shardings);
	*why = "zero";
	if (!lk_axis_has(&shardings, (int)job->sharding)) return false;
	*why = "dispatcher";
	if (job->ep > 1 && job->dispatcher != sent) return false;
	*why = "recompute";
	lk_recomputes recompute;
	lk_space_recomputes(space, job, &recompute);
	return recompute_held(&space->recompute, job) || recompute_held(&recompute, job);
}

bool lk_space_holds(const lk_space *space, const lk_job *job, const char **why) {
	lk_cores_list cores = {0};
	lk_core same = {.tp = job->tp,
	                .pp = job->pp,
	                .cp = job->cp,
	                .ep = job->ep,
	                .etp = job->etp,
	                .mbs = job->mbs};
	bool found = space_among(&space->tp, job->tp, "tp", why) &&
	             space_among(&space->pp, job->pp, "pp", why) &&
	             space_among(&space->cp, job->cp, "cp", why) &&
	             space_among(&space->ep, job->ep, "ep", why) &&
	             space_among(&space->mbs, job->mbs, "mbs", why);
	if (!found) return false;
	*why = "vp or schedule";
	found = lk_space_cores(space, &cores, NULL) == LK_OK;
	bool held = false;
	for (size_t i = 0; found && i < cores.count && !held; i++) {
		const lk_core *core = &cores.at[i];
		same.stack = core->stack;
		if (!lk_cores_alike(core, &same) || core->vp != job->vp ||
		    core->schedule != (int)job->schedule)
			continue;
		*why = "split of layers";
		held = split_alike(space, core, job) && switches_held(space, core, job, why);
	}
	lk_vec_free(&cores);
	if (held) *why = NULL;
	return held;
}

bool lk_layout_searched(const lk_job *job, const lk_cluster *cluster, const char **why) {
	lk_plan_request request;
	lk_asked asked = {.job = *job, .cluster = *cluster};
	lk_space space;
	lk_plan_defaults(&request);
	lk_job_open_layout(&asked.job);
	lk_copy(asked.job.stack, sizeof asked.job.stack, job->stack);
	if (lk_space_read(&request, &asked, &space, NULL) == LK_OK)
		return lk_space_holds(&space, job, why);
	*why = "the job";
	return false;
}
