/* dlrm_step.c: a recommendation model's step, built, costed and simulated. Recommendation stacks
 * replay CUDA graphs. */
#include "step/step.h"

#include <string.h>

lk_status lk_dlrm_ask(const lk_dlrm *model, const lk_dlrm_job *job, const lk_cluster *cluster,
                      const lk_step_options *options, lk_step *out, lk_error *err) {
	lk_constants constants;
	memset(out, 0, sizeof *out);
	lk_profile_base(lk_calibration_current(), &constants);
	lk_profile_streaming(&constants);
	lk_cost_options costing = {.constants = options->constants ? options->constants : &constants,
	                           .cuda_graphs = true};
	LK_TRY(lk_dlrm_hybrid(model, job, &out->graph, err));
	LK_TRY(lk_costs_build(&out->arena, out->graph, cluster, &costing, &out->costs, err));
	return lk_step_simulate(options, out, err);
}
