/* measured.c: operations on a device with its own measurements (`lockstep calibrate host`): no
 * efficiencies are needed.
 *
 *     product   = max(flops / (gemm_flops * peak(format) / peak(fp32)), bytes / stream_rate) + call
 *     streaming = bytes / stream_rate + call
 *
 * Everything else is computed from the peaks as on other devices; so are devices of the
 * catalogue. */
#include <math.h>

#include "cost/kernel/kernel.h"
#include "base/check.h"

static bool measured_streams(unsigned kind) {
	return kind == LK_OP_SOFTMAX || kind == LK_OP_NORM || kind == LK_OP_ELEMENTWISE ||
	       kind == LK_OP_PERMUTE || kind == LK_OP_EMBEDDING || kind == LK_OP_LOSS ||
	       kind == LK_OP_OPTIMIZER;
}

bool lk_cost_measured(const lk_graph *graph, uint32_t op, const lk_cost_site *site, lk_cost *out) {
	LK_ASSERT(op < graph->ops.count);
	const lk_device *device = site->node->device;
	const lk_ops *ops = &graph->ops;
	bool product = lk_op_multiplies(ops->kind[op]);
	if (product ? device->gemm_flops <= 0
	            : device->stream_rate <= 0 || !measured_streams(ops->kind[op]))
		return false;
	double compute = 0, memory = ops->bytes[op] / (device->stream_rate > 0 ? device->stream_rate
	                                                                       : device->memory_rate);
	if (product) {
		double scale =
			lk_peak_flops(device, (lk_dtype)ops->dtype[op]) / lk_peak_flops(device, LK_FP32);
		compute = 2.0 * ops->m[op] * ops->n[op] * ops->k[op] * ops->batch[op] /
		          (device->gemm_flops * scale);
	}
	double seconds = fmax(compute, memory) + device->call_s;
	lk_cost_set(out, seconds);
	out->sm = 1;
	out->compute = (float)(seconds > 0 ? compute / seconds : 0);
	out->memory = (float)(seconds > 0 ? memory / seconds : 0);
	return true;
}
