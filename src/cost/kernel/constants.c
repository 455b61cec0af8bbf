/* constants.c: the constants shared by the analytic models, and the one place where seconds become
 * picoseconds. */
#include <math.h>

#include "base/check.h"
#include "base/units.h"
#include "cost/kernel/kernel.h"

int64_t lk_cost_picoseconds(double seconds) {
	double ps = seconds * LK_PS_PER_S;
	if (!(ps > 0)) return 0;
	return ps < 9e17 ? llround(ps)
	                 : (int64_t)9e17; /* about ten days: far below overflow even when summed */
}

void lk_cost_set(lk_cost *cost, double seconds) {
	cost->duration_ps = lk_cost_picoseconds(seconds);
	LK_ASSERT(cost->duration_ps >= 0);
}

/* The start of the fit of the base constants (src/fit/fit_runs.c), and the values without a
 * calibration. Steps are predicted with the rows of families "step", "architecture" and "stack" of
 * the current calibration (src/step/profile.c; docs/method/kernels.md, "Constants"). Each family's
 * file defines the form of its constants. */
const lk_constants lk_default_constants = {
	.gemm_share = 1,
	.vector_products = 1,
	.attention_share = .95,
	.flash_share = .9,
	.attention_start = 1,
	.memory_efficiency = 0.5,
	.norm_efficiency = 0.45,
	.kernel_floor_s = 6e-6,
	.launch_s = 15e-6,
	.graph_launch_s = 1e-6,
	.step_overhead_s = 16e-3,
	.graph_step_overhead_s = 10e-3,
	.expert_call_s = 500e-6,
	.expert_launch_s = 30e-6,
	.expert_efficiency = 1,
	.graph_expert_efficiency = 1,
	.network_call_s = 30e-6,
	.network_beside = .8,
	.network_factor = 1,
};
