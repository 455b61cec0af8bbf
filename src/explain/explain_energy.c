/* explain_energy.c: power of GPUs and hosts over a measured step, by the rule of predictions
 * (step/energy.c). Computation counts by the kinds of its kernels, from their names; exposed
 * communication and copies as in predictions; an idle device waits for its host. */
#include "explain/explain.h"

#include "step/energy.h"

/* Nanoseconds of all ranks shown, by part; proportional to the seconds of a step. */
static lk_breakdown measured_parts(const lk_explanation *explanation) {
	lk_breakdown out = {0};
	double kernels[LK_PART_COUNT] = {0}, all = 0, compute = 0;
	for (int i = 0; i < explanation->kernel_count; i++) {
		const lk_explain_kernel *kernel = &explanation->kernel[i];
		if (kernel->type != LK_WORK_COMPUTATION) continue;
		kernels[lk_part_of_kind(lk_kernel_kind(kernel->name))] += kernel->time.total_ns;
		all += kernel->time.total_ns;
	}
	for (int i = 0; i < explanation->rank_count; i++) {
		const lk_explain_rank *rank = &explanation->ranks[i];
		compute += (double)rank->compute_ns;
		out.exposed_s[LK_PART_DP] += (double)rank->exposed_communication_ns;
		out.exposed_s[LK_PART_COPY] += (double)rank->exposed_memory_ns;
		out.exposed_s[LK_PART_HOST] += (double)rank->idle_ns;
	}
	for (int i = 0; i < LK_PART_COUNT && all > 0; i++)
		out.exposed_s[i] += compute * kernels[i] / all;
	return out;
}

static lk_status energy_refuse(const lk_mains *mains, lk_error *err) {
	const char *option = mains->pue > 0         ? "--pue"
	                     : mains->carbon > 0    ? "--carbon"
	                     : mains->price_kwh > 0 ? "--price-kwh"
	                                            : NULL;
	if (!option) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, option, "it has no effect: the power of the GPU is not known");
	return lk_hint(err, "say on which GPU it ran: --gpu NAME or --cluster");
}

lk_status lk_explain_energy(lk_explain_work *work, const lk_cluster *cluster, const lk_mains *mains,
                            lk_error *err) {
	lk_explanation *explanation = &work->result;
	lk_breakdown parts = measured_parts(explanation);
	int ranks =
		explanation->world > explanation->rank_count ? explanation->world : explanation->rank_count;
	if (!explanation->kernels || !(lk_energy_board_w(cluster) > 0))
		return energy_refuse(mains, err);
	explanation->energy = lk_energy_of(&parts, cluster, ranks, explanation->step_s,
	                                   explanation->step_s / 3600, mains);
	explanation->energy.training_kwh = 0;
	return LK_OK;
}
