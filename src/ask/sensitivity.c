/* sensitivity.c: one rate changed, the step asked again: tensor cores, memory bandwidth, NICs, links inside a node. */
#include "ask/sensitivity.h"

#include <math.h>

#include "ask/profile.h"
#include "ask/step.h"

enum { COMPUTE, MEMORY, NETWORK, LINKS };
const char *const lk_sensitive_costs[LK_SENSITIVE_COSTS] = {"compute", "memory bandwidth", "network", "links inside a node"};
const double lk_sensitive_factors[LK_SENSITIVE_WAYS] = {0.9, 1.1};

/* The cluster with one rate changed. That of compute is not among them: the constants of products and attention hold it. */
static lk_status changed_cluster(lk_arena *arena, const lk_cluster *from, int cost, double factor, lk_cluster *out,
                                 lk_error *err) {
	*out = *from;
	out->node = LK_ARRAY(arena, lk_node, from->groups);
	lk_device *devices = LK_ARRAY(arena, lk_device, from->groups);
	if (!out->node || !devices) return lk_oom(err);
	for (int g = 0; g < from->groups; g++) {
		lk_node *node = &out->node[g];
		*node = from->node[g];
		devices[g] = *node->device;
		node->device = &devices[g];
		if (cost == COMPUTE) devices[g].gemm_flops *= factor; /* of devices that were measured */
		if (cost == MEMORY) devices[g].memory_rate *= factor, devices[g].stream_rate *= factor;
		if (cost == NETWORK) node->nic_rate *= factor;
		if (cost == LINKS) node->intra_rate *= factor;
	}
	return LK_OK;
}

double lk_sensitivity_ask(const lk_job *job, const lk_cluster *cluster, int cost, int way) {
	lk_arena arena = LK_ARENA_INIT;
	lk_cluster changed;
	lk_step step = {0};
	lk_constants constants;
	lk_step_options options = {.bare = true, .constants = &constants};
	double factor = lk_sensitive_factors[way];
	lk_profile_constants(job, &constants);
	if (cost == COMPUTE) {
		constants.gemm_efficiency *= factor;
		constants.attention_forward *= factor, constants.attention_backward *= factor;
	}
	lk_error err = {0};
	lk_status status = changed_cluster(&arena, cluster, cost, factor, &changed, &err);
	if (status == LK_OK) status = lk_step_ask(job, &changed, &options, &step, &err);
	double seconds = status == LK_OK ? step.step_s : NAN;
	lk_step_free(&step);
	lk_arena_free(&arena);
	return seconds;
}
