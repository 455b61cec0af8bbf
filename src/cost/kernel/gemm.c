/* gemm.c: matrix products as operations of a step graph: the model of gemm_model.c with the
 * constants that hold for whole steps, where products run under the power limit and beside others.
 */
#include "cost/kernel/kernel.h"

#include <math.h>

#include "base/units.h"
#include "base/check.h"

/* Products in fp32 run on the vector units, for which the power limit leaves the whole clock: their
 * numbers are those of kernels measured alone on the device or its nearest relative, less the
 * launch that was timed with them. */
static void take_vector(const lk_constants *constants, const lk_device *device,
                        lk_gemm_numbers *numbers) {
	lk_gemm_numbers alone;
	if (!lk_gemm_measured(device, LK_FP32, &alone)) return;
	numbers->efficiency = fmin(alone.efficiency, 1) * constants->vector_products;
	numbers->tiles = alone.tiles;
	numbers->fill_s = alone.fill_s;
	numbers->k_extra = alone.k_extra;
	numbers->k_step = alone.k_step;
}

static double or_one(double factor) {
	return factor > 0 ? factor : 1;
}

double lk_step_gemm_flops(const lk_constants *constants, const lk_device *device, lk_dtype dtype) {
	lk_arch arch = device->arch;
	double format = dtype == LK_NVFP4                      ? or_one(constants->fp4_of[arch])
	                : dtype == LK_FP8 || dtype == LK_MXFP8 ? or_one(constants->fp8_of[arch])
	                                                       : 1;
	return lk_sustained_flops(device, dtype) * constants->gemm_share *
	       or_one(constants->gemm_of[arch]) * format;
}

static lk_gemm_numbers gemm_numbers_of(const lk_cost_site *site, lk_dtype dtype, double factor) {
	const lk_constants *constants = site->constants;
	const lk_device *device = site->node->device;
	lk_gemm_numbers numbers = {
		/* whatever a fit says of experts, no product is faster than the units */
		.efficiency = fmin(lk_step_gemm_flops(constants, device, dtype) /
	                           lk_peak_flops(device, dtype) * factor,
	                       .95),
		.unaligned = 1,
		.tiles = 1,
		.fill_s = constants->gemm_fill_s,
		.floor_s = constants->kernel_floor_s,
		.memory = constants->memory_efficiency,
		.blend = INFINITY,
	};
	if (dtype == LK_FP32) take_vector(constants, device, &numbers);
	return numbers;
}

static void gemm(const lk_graph *graph, uint32_t op, const lk_cost_site *site, double rows,
                 double factor, lk_cost *out) {
	LK_ASSERT(op < graph->ops.count);
	const lk_ops *ops = &graph->ops;
	const lk_device *device = site->node->device;
	lk_dtype dtype = (lk_dtype)ops->dtype[op];
	lk_gemm_numbers numbers = gemm_numbers_of(site, dtype, factor);
	lk_gemm_shape shape = {dtype, ops->batch[op], rows, ops->n[op], ops->k[op]};
	lk_gemm_detail detail;
	double seconds = lk_gemm_formula(&numbers, device, &shape, ops->bytes[op], &detail);
	lk_cost_set(out, seconds);
	out->sm = (float)fmin(1, detail.waves);
	out->waves = (float)detail.waves;
	out->compute = (float)(detail.compute_s / seconds);
	out->memory = (float)(ops->bytes[op] / site->node->device->memory_rate / seconds);
}

void lk_cost_gemm(const lk_graph *graph, uint32_t op, const lk_cost_site *site, lk_cost *out) {
	gemm(graph, op, site, graph->ops.m[op], 1, out);
}

/* Experts of a rank as one launch: the busiest rank decides, so its rows are the mean times the
 * imbalance. */
void lk_cost_grouped_gemm(const lk_graph *graph, uint32_t op, const lk_cost_site *site,
                          lk_cost *out) {
	gemm(graph, op, site, graph->ops.m[op], site->constants->expert_efficiency, out);
}

/* Convolution as the GEMM that cuDNN's implicit kernels run: m output pixels, n filters, k filter
 * elements; or as fewer products of transformed tiles, where that is faster. */
void lk_cost_conv(const lk_graph *graph, uint32_t op, const lk_cost_site *site, lk_cost *out) {
	LK_ASSERT(op < graph->ops.count);
	gemm(graph, op, site, graph->ops.m[op], 1, out);
	const lk_device *device = site->node->device;
	lk_gemm_numbers numbers = gemm_numbers_of(site, (lk_dtype)graph->ops.dtype[op], 1);
	double fewer = lk_conv_winograd(graph, op, &numbers, device,
	                                device->memory_rate * site->constants->memory_efficiency);
	if (fewer < out->duration_ps / LK_PS_PER_S) lk_cost_set(out, fewer);
}
