/* eager.c: times of kernels with separate launches, and of collectives.
 *
 *     product       the formula of gemm_model.c with numbers fitted on the device or its nearest
 *                   relative
 *     stream        bytes over the measured rate, faster inside L2
 *     copy          bytes over the measured rate of PCIe
 *     scatter       (PERMUTE with m warps of k dependent loads) whole waves of warps, each as long
 *                   as its loads take
 *
 *     collective    collective.h
 *
 * An operation with a stated time takes that. Every kernel begins at least `start` after the end of
 * the previous one. */
#include "base/arena.h"
#include "cost/cost.h"

#include <math.h>

#include "base/units.h"
#include "base/check.h"

/* Two kernels on a stream are 1 us apart, and one takes 5 us more than its work: both as in Lin et
 * al. (arXiv 2201.07821). */
const double lk_eager_start_s = 6e-6;

static bool same_chip(const lk_device *a, const lk_device *b) {
	return a->arch == b->arch && a->sms == b->sms && a->l2_bytes == b->l2_bytes;
}

static double twin_seconds(const lk_eager_device *device, double batch, double m, double n,
                           double k) {
	const lk_gemm_shape shape = {device->dtype, batch, m, n, k};
	return lk_gemm_seconds(&device->twin_gemm, device->twin, &shape, NULL);
}

/* Products were timed from the host, so their times include a launch; single ones also that of the
 * bias. */
static void find_twin(lk_eager_device *out) {
	for (int i = 0; i < lk_device_count(); i++) {
		const lk_device *device = lk_device_at(i);
		if (!same_chip(device, &out->device)) continue;
		lk_gemm_model_of(device, out->dtype, &out->twin_gemm);
		if (!out->twin_gemm.measured) continue;
		out->twin = device;
		for (int batched = 0; batched < 2; batched++)
			out->twin_launch[batched] = twin_seconds(out, 1 + batched, 32, 32, 32);
		return;
	}
}

void lk_eager_device_of(const lk_device *device, lk_dtype dtype, lk_eager_device *out) {
	const lk_calibration_row *row =
		lk_calibration_find(lk_calibration_current(), "rates", device->name, "");
	double clock = lk_calibration_value(row, "clock_mhz", 0) * 1e6;
	*out = (lk_eager_device){.device = *device, .dtype = dtype, .measured = row != NULL};
	if (clock > 0 && device->clock_hz > 0) {
		for (int i = 0; i < LK_DTYPES; i++) out->device.peak_flops[i] *= clock / device->clock_hz;
		out->device.vector_flops *= clock / device->clock_hz;
		out->device.clock_hz = clock;
	}
	/* without measurements: mean shares of the three measured devices */
	out->memory = lk_calibration_value(row, "memory_GBps", 0.82 * device->memory_rate / 1e9) * 1e9;
	out->l2 = lk_calibration_value(row, "l2_GBps", 3.2 * out->memory / 1e9) * 1e9;
	out->pcie = lk_calibration_value(row, "pcie_GBps", 0.5 * device->pcie_rate / 1e9) * 1e9;
	lk_gemm_numbers_of(device, dtype, &out->gemm);
	out->gemm.floor_s = lk_eager_start_s; /* instead of a launch from the host */
	find_twin(out);
}

static double stream_seconds(const lk_eager_device *device, double bytes) {
	/* within L2 up to half as fast again: 0.48 to 0.50 in nearly all fits of flat fp32 kernels on
	 * P100 and V100 */
	const lk_memory_model model = {.efficiency = device->memory / device->device.memory_rate,
	                               .start_s = lk_eager_start_s,
	                               .cache_gain = 0.5,
	                               .cache_share = 1};
	return lk_memory_seconds(&model, &device->device, &(lk_memory_work){.bytes = bytes});
}

/* A load that misses L1 returns after about 350 cycles: between the 200 of an L2 hit and the 400 to
 * 500 of memory on these devices (Jia et al., arXiv 1804.06826). An SM holds 64 warps. */
static double scatter_seconds(const lk_eager_device *device, double warps, double loads,
                              double bytes) {
	const double cycles = 350, resident = 64;
	double waves = warps / (fmax(device->device.sms, 1) * resident);
	double seconds = waves * loads * cycles / fmax(device->device.clock_hz, 1e8);
	return fmax(seconds + lk_eager_start_s, stream_seconds(device, bytes));
}

static double product_seconds(const lk_eager_device *device, const lk_ops *ops, uint32_t op) {
	LK_ASSERT(op < ops->count);
	const lk_gemm_shape shape = {device->dtype, ops->batch[op], ops->m[op], ops->n[op], ops->k[op]};
	double formula = lk_gemm_formula(&device->gemm, &device->device, &shape, ops->bytes[op], NULL);
	if (!device->twin) return formula;
	double launch = device->twin_launch[shape.batch > 1],
		   clock = lk_peak_flops(device->twin, device->dtype) /
	               lk_peak_flops(&device->device, device->dtype);
	double there = twin_seconds(device, shape.batch, shape.m, shape.n, shape.k) - launch;
	return there > launch ? there * clock + lk_eager_start_s
	                      : formula; /* a small difference of two times is unreliable */
}

static double operation_seconds(const lk_eager_device *device, const lk_graph *graph, uint32_t op) {
	LK_ASSERT(op < graph->ops.count);
	const lk_ops *ops = &graph->ops;
	if (ops->measured_ps[op] > 0) return (double)ops->measured_ps[op] / LK_PS_PER_S;
	switch (ops->kind[op]) {
	case LK_OP_HOST: return ops->m[op];
	case LK_OP_WAIT: return 0;
	case LK_OP_ALLREDUCE:
		return lk_collective_cost(LK_COLL_ALLREDUCE, &device->network, ops->bytes[op]).seconds;
	case LK_OP_ALLTOALL:
		return lk_collective_cost(LK_COLL_ALLTOALL, &device->network, ops->bytes[op]).seconds;
	case LK_OP_COPY: return ops->bytes[op] / device->pcie + lk_eager_start_s;
	case LK_OP_GEMM: return product_seconds(device, ops, op);
	case LK_OP_PERMUTE: return scatter_seconds(device, ops->m[op], ops->k[op], ops->bytes[op]);
	default: return stream_seconds(device, ops->bytes[op]);
	}
}

lk_status lk_eager_costs(lk_arena *arena, const lk_graph *graph, const lk_eager_device *device,
                         lk_costs *out, lk_error *err) {
	*out = (lk_costs){
		.variants = 1, .ops = graph->ops.count, .at = LK_ARRAY(arena, lk_cost, graph->ops.count)};
	if (!out->at) return lk_oom(err);
	for (uint32_t i = 0; i < graph->ops.count; i++) {
		lk_cost *cost = &out->at[i];
		*cost = (lk_cost){.spread = 1, .sm = 1};
		lk_cost_set(cost, operation_seconds(device, graph, i));
		cost->tail_ps = cost->duration_ps;
	}
	return LK_OK;
}
