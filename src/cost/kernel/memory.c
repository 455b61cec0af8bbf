/* memory.c: operations of a graph that stream through device memory, copies over PCIe, host work.
 *
 * The time comes from memory_model.c. In a step its numbers are global: streaming kernels near the
 * triad's efficiency, kernels with a reduction over rows (norms, loss) less; a working set that
 * fits half of L2 runs at up to twice the memory's rate.
 */
#include <math.h>

#include "cost/kernel/kernel.h"
#include "base/check.h"

/* Kernels keep a number of loads in flight on an SM. If the memory is faster than on any device
 * whose shares were measured, a share carries over half as a share and half as bytes per SM and
 * clock, as in memory_model.c. */
static double issued(const lk_device *device, double limit) {
	double each = device->memory_rate / (fmax(device->sms, 1) * fmax(device->clock_hz, 1e8));
	return limit > 0 && each > limit ? sqrt(limit / each) : 1;
}

/* Whether the graph lists every byte that the kernel moves: it runs at the share of bandwidth
 * that streams reach alone (0.79 to 0.87 in BabelStream). Between products it leaves out copies,
 * transposes and casts; the fitted shares stand for those too. */
static bool memory_listed(const lk_ops *ops, uint32_t op) {
	return ops->kind[op] == LK_OP_SOFTMAX || ops->kind[op] == LK_OP_OPTIMIZER ||
	       ops->flags[op] & LK_OP_LISTED;
}

static const double STREAMING = .8;

static bool memory_reduces(unsigned kind) {
	return kind == LK_OP_NORM || kind == LK_OP_LOSS;
}

/* Sums over rows run one block per 32 columns (n is the number of columns). With fewer blocks than
 * SMs none of them can hide slower memory: the effect is measured (cost/kernel/overlap.c). */
static float memory_exposed(const lk_graph *graph, uint32_t op, const lk_device *device,
                            double seconds, double memory, double floor) {
	LK_ASSERT(op < graph->ops.count);
	const double from_l2 =
		0.19; /* of such a kernel's reads (overlap table, docs/method/contention.md) */
	double blocks = ceil(graph->ops.n[op] / 32);
	if (graph->ops.kind[op] != LK_OP_NORM || blocks <= 0 || blocks >= device->sms) return 0;
	double latency = lk_overlap_latency(lk_calibration_current(), device->name);
	return (float)(latency * memory * (1 - from_l2) * fmax(0, 1 - floor / seconds));
}

void lk_cost_memory(const lk_graph *graph, uint32_t op, const lk_cost_site *site, lk_cost *out) {
	LK_ASSERT(op < graph->ops.count);
	const lk_device *device = site->node->device;
	const lk_constants *constants = site->constants;
	double bytes = lk_kernel_bytes(&graph->ops, op);
	double experts = graph->ops.kind[op] == LK_OP_PERMUTE ? lk_site_experts(site) : 1;
	double plain = memory_reduces(graph->ops.kind[op]) ? constants->norm_efficiency
	                                                   : constants->memory_efficiency;
	if (memory_listed(&graph->ops, op)) plain = fmax(plain, STREAMING);
	const lk_memory_model model = {
		/* whatever a fit gives for experts, none is faster than copies (0.79 to 0.87 in
		 * BabelStream) */
		.efficiency =
			fmin(plain * experts, fmax(plain, 0.87)) * issued(device, constants->stream_issue),
		.start_s = constants->kernel_floor_s,
		.cache_gain = 1,
		.cache_share = 0.5,
	};
	double seconds = lk_memory_seconds(&model, device, &(lk_memory_work){.bytes = bytes});
	lk_cost_set(out, seconds);
	out->sm = 1;
	out->compute = 0.2f; /* issue slots: few SMs are enough to fill the memory pipes */
	out->memory = (float)fmin(1, bytes / device->memory_rate / seconds);
	out->exposed =
		memory_exposed(graph, op, device, seconds, out->memory, constants->kernel_floor_s);
}

void lk_cost_copy(const lk_graph *graph, uint32_t op, const lk_cost_site *site, lk_cost *out) {
	LK_ASSERT(op < graph->ops.count);
	double rate = site->node->device->pcie_rate;
	double seconds =
		graph->ops.bytes[op] / (rate > 0 ? rate * 0.85 : 1e10) + site->constants->kernel_floor_s;
	lk_cost_set(out, seconds);
	out->memory = (float)fmin(1, graph->ops.bytes[op] / site->node->device->memory_rate / seconds);
}

/* Host work states its time in `m`, in seconds; the CPU optimizer its traffic in `bytes`, over host
 * memory bandwidth; `batch` counts the fixed costs of a step. */
void lk_cost_host(const lk_graph *graph, uint32_t op, const lk_cost_site *site, lk_cost *out) {
	LK_ASSERT(op < graph->ops.count);
	const double host_memory_rate =
		100e9; /* a rank's share of a socket: eight-channel DDR4/5 for eight GPUs */
	const lk_constants *constants = site->constants;
	double overhead =
		site->cuda_graphs ? constants->graph_step_overhead_s : constants->step_overhead_s;
	lk_cost_set(out, graph->ops.m[op] + graph->ops.bytes[op] / host_memory_rate +
	                     graph->ops.batch[op] * overhead);
}
