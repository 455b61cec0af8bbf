/* sensitivity.c: predict the step again with one rate changed: tensor cores, memory bandwidth,
 * NICs, links within a node. */
#include "base/check.h"
#include "base/arena.h"
#include "step/step.h"

#include <math.h>
#include "system/parallel.h"
#include "base/units.h"

enum { COMPUTE, MEMORY, NETWORK, LINKS };
const char *const lk_sensitive_costs[LK_SENSITIVE_COSTS] = {"compute", "memory bandwidth",
                                                            "network", "links inside a node"};
const double lk_sensitive_factors[LK_SENSITIVE_WAYS] = {0.9, 1.1};

/* The cluster with one rate changed. The compute rate is not in it, but in the constants of
 * products and attention. */
static lk_status changed_cluster(lk_arena *arena, const lk_cluster *from, int cost, double factor,
                                 lk_cluster *out, lk_error *err) {
	*out = *from;
	out->node = LK_ARRAY(arena, lk_node, from->groups);
	lk_device *devices = LK_ARRAY(arena, lk_device, from->groups);
	if (!out->node || !devices) return lk_oom(err);
	for (int g = 0; g < from->groups; g++) {
		lk_node *node = &out->node[g];
		*node = from->node[g];
		devices[g] = *node->device;
		node->device = &devices[g];
		if (cost == COMPUTE) devices[g].gemm_flops *= factor; /* of measured devices */
		if (cost == MEMORY) {
			devices[g].memory_rate *= factor;
			devices[g].stream_rate *= factor;
		}
		if (cost == NETWORK) node->nic_rate *= factor;
		if (cost == LINKS) node->intra_rate *= factor, node->pair_rate *= factor;
	}
	return LK_OK;
}

/* `cost` LK_SENSITIVE_COSTS: no change. */
/* NAN if the changed job is refused; running out of memory is an error. */
static lk_status ask_changed(const lk_job *job, const lk_cluster *cluster, lk_step_habits habits,
                             int cost, double factor, double limit_s, double *seconds,
                             lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	lk_cluster changed;
	lk_step step = {0};
	lk_constants constants;
	lk_step_options options = {.bare = true,
	                           .few = true,
	                           .guesses = limit_s > 0,
	                           .habits = habits,
	                           .constants = &constants,
	                           .give_up_ps =
	                               limit_s > 0 ? (int64_t)ceil(limit_s * LK_PS_PER_S) : 0};
	lk_profile_constants(job, &constants);
	if (cost == COMPUTE) {
		constants.gemm_share *= factor;
		constants.vector_products *= factor;
		constants.attention_share *= factor;
	}
	lk_error refused = {0};
	lk_status status = changed_cluster(&arena, cluster, cost, factor, &changed, &refused);
	if (status == LK_OK) status = lk_step_ask(job, &changed, &options, &step, &refused);
	if (status != LK_OK) *seconds = NAN;
	else if (step.sim.gave_up) *seconds = INFINITY;
	else *seconds = step.step_s;
	lk_step_free(&step);
	lk_arena_free(&arena);
	return status == LK_ERR_MEMORY ? lk_oom(err) : LK_OK;
}

lk_status lk_sensitivity_ask(const lk_job *job, const lk_cluster *cluster, lk_step_habits habits,
                             int cost, int way, double limit_s, double *seconds, lk_error *err) {
	return ask_changed(job, cluster, habits, cost, lk_sensitive_factors[way], limit_s, seconds,
	                   err);
}

/* ---- all at once ---- */

enum { CHANGES = LK_SENSITIVE_COSTS * LK_SENSITIVE_WAYS, LEAST_FOLDS = 4 };

struct trial {
	lk_job few, twice; /* differ only in their micro-batches */
	const lk_cluster *cluster;
	bool shortened;                                  /* otherwise `few` is the job itself */
	double few_s[CHANGES + 1], twice_s[CHANGES + 1]; /* the last: no change */
};

static lk_status sensitivity_try_change(void *context, size_t i, lk_error *err) {
	struct trial *trial = context;
	size_t change = i / 2;
	int cost = (int)change / LK_SENSITIVE_WAYS;
	double factor = change < CHANGES ? lk_sensitive_factors[change % LK_SENSITIVE_WAYS] : 1;
	const lk_step_habits habits = {0};
	if (i % 2 == 0)
		return ask_changed(&trial->few, trial->cluster, habits, cost, factor, 0,
		                   &trial->few_s[change], err);
	if (!trial->shortened) return LK_OK;
	return ask_changed(&trial->twice, trial->cluster, habits, cost, factor, 0,
	                   &trial->twice_s[change], err);
}

/* The job with `count` micro-batches. */
static lk_job shortened(const lk_job *job, int count) {
	LK_ASSERT(count > 0 && count <= job->microbatches);
	lk_job out = *job;
	out.gbs = job->gbs / job->microbatches * count;
	out.microbatches = count;
	return out;
}

/* Simulated lengths grow linearly from two micro-batches per stage on; an interleaved schedule
 * takes whole groups. */
static int few_microbatches(const lk_job *job) {
	int group = job->microbatch_group > job->pp ? job->microbatch_group : job->pp;
	return LEAST_FOLDS * group <= job->microbatches && job->gbs % job->microbatches == 0 ? group
	                                                                                     : 0;
}

lk_status lk_sensitivity_all(const lk_job *job, const lk_cluster *cluster, double step_s,
                             double *seconds, lk_error *err) {
	int few = few_microbatches(job);
	struct trial t = {.cluster = cluster, .shortened = few > 0};
	t.few = few ? shortened(job, few) : *job;
	if (few) t.twice = shortened(job, 2 * few);
	LK_TRY(lk_parallel(2 * (CHANGES + 1), 0, sensitivity_try_change, &t, err));
	double folds = few ? (double)job->microbatches / few - 1 : 0, whole[CHANGES + 1];
	for (int i = 0; i <= CHANGES; i++)
		whole[i] = t.few_s[i] + folds * (few ? t.twice_s[i] - t.few_s[i] : 0);
	for (int i = 0; i < CHANGES; i++) seconds[i] = step_s * whole[i] / whole[CHANGES];
	return LK_OK;
}
