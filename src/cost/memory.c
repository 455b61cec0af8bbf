/* memory.c: operations of a graph that stream through device memory, copies over PCIe, host work.
 *
 * The time is that of memory_model.c. In a step its numbers are global: streaming kernels near the triad's efficiency,
 * kernels with a reduction over rows (norms, loss) less; a working set that fits half of L2 runs at up to twice the
 * memory's rate.
 */
#include <math.h>

#include "cost/cost.h"
#include "cost/kernel.h"
#include "cost/memory_model.h"

double lk_peak_flops(const lk_device *device, lk_dtype dtype) {
	static const lk_dtype wider[LK_DTYPES] = {
		[LK_NVFP4] = LK_MXFP8, [LK_MXFP8] = LK_FP8, [LK_FP8] = LK_BF16,  [LK_BF16] = LK_FP16,
		[LK_FP16] = LK_TF32,   [LK_TF32] = LK_FP32, [LK_FP32] = LK_FP32,
	};
	while (dtype != LK_FP32 && device->peak_flops[dtype] <= 0) dtype = wider[dtype];
	if (device->peak_flops[dtype] > 0) return device->peak_flops[dtype];
	return device->vector_flops > 0 ? device->vector_flops : 1e12;
}

static bool reduces(unsigned kind) {
	return kind == LK_OP_NORM || kind == LK_OP_LOSS;
}

void lk_cost_memory(const lk_graph *graph, uint32_t op, const lk_cost_site *site, lk_cost *out) {
	const lk_device *device = site->node->device;
	const lk_constants *c = site->constants;
	double bytes = graph->ops.bytes[op];
	const lk_memory_model model = {
		.efficiency = reduces(graph->ops.kind[op]) ? c->norm_efficiency : c->memory_efficiency,
		.start_s = c->kernel_floor_s, .cache_gain = 1, .cache_share = 0.5,
	};
	double seconds = lk_memory_seconds(&model, device, &(lk_memory_work){.bytes = bytes});
	lk_cost_set(out, seconds);
	out->sm = 1;
	out->compute = 0.2f; /* issue slots: few SMs are enough to fill the memory pipes */
	out->memory = (float)fmin(1, bytes / device->memory_rate / seconds);
}

void lk_cost_copy(const lk_graph *graph, uint32_t op, const lk_cost_site *site, lk_cost *out) {
	double rate = site->node->device->pcie_rate;
	double seconds = graph->ops.bytes[op] / (rate > 0 ? rate * 0.85 : 1e10) + site->constants->kernel_floor_s;
	lk_cost_set(out, seconds);
	out->memory = (float)fmin(1, graph->ops.bytes[op] / site->node->device->memory_rate / seconds);
}

/* Host work states its time in `m`, in seconds; the CPU optimizer its traffic in `bytes`, over host memory bandwidth;
 * `batch` counts the fixed costs of a step. */
void lk_cost_host(const lk_graph *graph, uint32_t op, const lk_cost_site *site, lk_cost *out) {
	const double host_memory_rate = 100e9; /* a socket's share of a rank, eight-channel DDR4/5 between eight GPUs */
	lk_cost_set(out, graph->ops.m[op] + graph->ops.bytes[op] / host_memory_rate +
						 graph->ops.batch[op] * site->constants->step_overhead_s);
}
