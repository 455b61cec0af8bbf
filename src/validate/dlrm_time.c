/* dlrm_time.c: from a recommendation model to seconds. */
#include "base/arena.h"
#include "validate/validate.h"

#include "base/units.h"
#include "cost/kernel/kernel.h"
#include "sim/sim.h"

static void dlrm_time_add_up(const lk_graph *graph, const lk_costs *costs, lk_dlrm_time *out) {
	for (uint32_t i = 0; i < graph->ops.count; i++) {
		double seconds = (double)lk_costs_get(costs, 0, i)->duration_ps / LK_PS_PER_S;
		*(graph->ops.kind[i] == LK_OP_HOST ? &out->host_s : &out->kernels_s) += seconds;
	}
}

static lk_status dlrm_time_simulate(lk_arena *arena, const lk_graph *graph, const lk_device *device,
                                    lk_dlrm_time *out, lk_error *err) {
	lk_eager_device eager;
	lk_costs costs;
	lk_sim_result result = {0};
	const lk_sim_options options = {.contention = false};
	lk_eager_device_of(device, &eager);
	LK_TRY(lk_eager_costs(arena, graph, &eager, &costs, err));
	LK_TRY(lk_sim_run(graph, &costs, &options, &result, err));
	out->step_s = (double)result.step_ps / LK_PS_PER_S;
	lk_sim_result_free(&result);
	dlrm_time_add_up(graph, &costs, out);
	return LK_OK;
}

lk_status lk_dlrm_predict(const lk_dlrm *model, double batch, const lk_device *device,
                          const lk_host_terms *host, lk_dlrm_time *out, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	lk_graph *graph;
	const lk_host_times times = {lk_host_terms_seconds, host};
	*out = (lk_dlrm_time){0};
	LK_TRY(lk_dlrm_step(model, batch, &times, &graph, err));
	lk_status status = dlrm_time_simulate(&arena, graph, device, out, err);
	lk_graph_free(graph);
	lk_arena_free(&arena);
	return status;
}
