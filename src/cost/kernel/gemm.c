/* gemm.c: matrix products as operations of a step graph: the law of isolated products
 * (law_product.c), which run at the power limit for seconds, times the share that steps reach. No
 * number belongs to a software stack.
 *
 * A die has one anchor: the long runs of most points on one of its devices. Another device of the
 * die differs by the published rates, which follow SMs and power (sustained.c). An architecture
 * without rows has its published rate, and the other numbers of the nearest architecture. */
#include "cost/kernel/kernel.h"
#include "cost/kernel/laws.h"

#include <math.h>

#include "base/units.h"
#include "base/check.h"

/* ---- rates of a device ---- */

/* By lk_product_of, then LK_PRODUCT_ROWS. `kept`: the share of a short run's rate that a long one
 * keeps: on A100 in 16 bits (docs/method/kernels.md), on GB200 in the others, which were measured
 * both ways there. `library`: TensorRT-LLM calls cuBLAS as training does and measured large shapes;
 * vLLM calls CUTLASS's product with factors of rows, as torch._scaled_mm does. */
static const struct lk_product_format {
	const char *format, *library;
	lk_dtype dtype;
	double kept;
} formats[LK_PRODUCTS] = {{"bf16", "trtllm", LK_BF16, .90},
                          {"fp8", "trtllm", LK_FP8, .89},
                          {"nvfp4", "trtllm", LK_NVFP4, .85},
                          [LK_PRODUCT_ROWS] = {"fp8", "vllm", LK_FP8, .89}};

/* Long runs of the die before short ones; of libraries that of the format before others. */
static bool find_law(const lk_device *device, const struct lk_product_format *of, lk_law_fit *out) {
	lk_law_series series = {.kind = "linear",
	                        .format = of->format,
	                        .kernel = "",
	                        .library = of->library,
	                        .release = "",
	                        .sustained = true};
	if (lk_law_find_widest(&lk_law_product, device, &series, out)) return true;
	series.library = "";
	if (lk_law_find_widest(&lk_law_product, device, &series, out)) return true;
	series.library = of->library;
	return lk_law_find(&lk_law_product, device, &series, NULL, out);
}

void lk_step_products(const lk_device *device, lk_gemm_numbers out[LK_PRODUCTS]) {
	for (int f = 0; f < LK_PRODUCTS; f++) {
		lk_dtype dtype = formats[f].dtype;
		if (device->peak_flops[dtype] <= 0 && f > 0) {
			out[f] = out[f - 1];
			continue;
		}
		double share = lk_published_share(device, dtype);
		lk_law_fit fit;
		out[f] = (lk_gemm_numbers){.efficiency = share,
		                           .unaligned = 1,
		                           .tiles = 1,
		                           .fill_s = 2e-6,
		                           .floor_s = 2e-6,
		                           .memory = .7,
		                           .blend = 4};
		if (!find_law(device, &formats[f], &fit)) continue;
		out[f] = lk_law_product_numbers(fit.numbers);
		out[f].efficiency *= fit.sustained ? 1 : formats[f].kept;
		out[f].efficiency *= share / lk_published_share(fit.from, dtype);
		if (fit.basis == LK_LAW_ARCHITECTURE) out[f].efficiency = share;
		out[f].floor_s = out[0].floor_s; /* a narrower format's start holds its casts */
	}
}

/* ---- an operation ---- */

/* Tensor cores are fed in pieces of 16 bytes: if the rows of a matrix are not whole pieces, cuBLAS
 * 11 and later multiply at about half the rate (NVIDIA, Matrix Multiplication Background User's
 * Guide). Memory and L2 cache work in sectors of 32 bytes: if rows are not whole sectors, the 128
 * bytes that a warp loads at a time touch five of them instead of four. */
static const double UNALIGNED = .5, STRADDLING = 4 / 5.;

/* The factor on a product's rate for operands with rows of these two lengths. */
static double row_factor(lk_dtype dtype, double n, double k) {
	double piece = dtype == LK_NVFP4                      ? 32
	               : dtype == LK_FP8 || dtype == LK_MXFP8 ? 16
	               : dtype == LK_TF32                     ? 4
	                                                      : 8;
	if (dtype == LK_FP32) return 1;
	if (fmod(n, piece) != 0 || fmod(k, piece) != 0) return UNALIGNED;
	return fmod(n, 2 * piece) != 0 || fmod(k, 2 * piece) != 0 ? STRADDLING : 1;
}

/* Rows of an odd number of 16-bit elements (a vocabulary of 50,257) begin at odd addresses: cuBLAS
 * uses kernels of an older generation that load single elements (align1). Measured on an H200,
 * GPT-2's head for 8,192 tokens, CUDA 13.0, 28 November 2026: 95, 139 and 147 TFLOP/s forward, for
 * the input and for the weights; their geometric mean, per SM and clock. */
static const double ODD_FLOP_PER_CLOCK = 125e12 / (132 * 1.83e9);

static double odd_rows_flops(const lk_device *device, lk_dtype dtype, double n, double k) {
	bool nvidia = device->arch >= LK_ARCH_VOLTA && device->arch <= LK_ARCH_BLACKWELL,
		 narrow = dtype == LK_FP16 || dtype == LK_BF16,
		 odd = (fmod(n, 2) == 1 && n > 1) || (fmod(k, 2) == 1 && k > 1);
	return nvidia && narrow && odd ? ODD_FLOP_PER_CLOCK * device->sms * device->clock_hz : INFINITY;
}

/* Products in fp32 run on the vector units, for which the power limit allows the full clock: use
 * the numbers of kernels measured separately on the device or its nearest relative, less the launch
 * included in their times. */
static void take_vector(const lk_constants *constants, const lk_device *device,
                        lk_gemm_numbers *numbers) {
	lk_gemm_numbers alone;
	if (!lk_gemm_measured(device, LK_FP32, &alone)) return;
	numbers->efficiency = fmin(alone.efficiency, 1) * constants->vector_products;
	numbers->tiles = alone.tiles;
	numbers->fill_s = alone.fill_s;
	numbers->k_extra = alone.k_extra;
	numbers->k_step = alone.k_step;
	numbers->memory = constants->memory_efficiency;
	numbers->blend = INFINITY;
}

/* Whatever a fit gives, no product is faster than the units: data must come and go. */
static const double MOST = .95;

double lk_step_gemm_flops(const lk_constants *constants, const lk_device *device, lk_dtype dtype) {
	lk_gemm_numbers products[LK_PRODUCTS];
	lk_step_products(device, products);
	double share = products[lk_product_of(dtype)].efficiency * constants->gemm_share;
	return lk_peak_flops(device, dtype) * fmin(share, MOST);
}

static lk_gemm_numbers gemm_numbers_of(const lk_cost_site *site, const lk_ops *ops, uint32_t op,
                                       double factor) {
	lk_dtype dtype = (lk_dtype)ops->dtype[op];
	bool rows = dtype == LK_FP8 && ops->flags[op] & LK_OP_ROW_FACTORS;
	lk_gemm_numbers numbers = site->products[rows ? LK_PRODUCT_ROWS : lk_product_of(dtype)];
	numbers.efficiency *= site->constants->gemm_share * factor;
	numbers.efficiency = fmin(numbers.efficiency, MOST);
	if (dtype == LK_FP32) take_vector(site->constants, site->node->device, &numbers);
	return numbers;
}

static void gemm(const lk_graph *graph, uint32_t op, const lk_cost_site *site, double rows,
                 const lk_gemm_numbers *numbers, lk_cost *out) {
	const lk_ops *ops = &graph->ops;
	const lk_device *device = site->node->device;
	lk_gemm_shape shape = {(lk_dtype)ops->dtype[op], ops->batch[op], rows, ops->n[op], ops->k[op]};
	lk_gemm_detail detail;
	double bytes = lk_kernel_bytes(ops, op);
	double seconds = lk_gemm_formula(numbers, device, &shape, bytes, &detail);
	/* laws of short runs may have found operands in a cache; a step has others by then */
	seconds = fmax(seconds, bytes / device->memory_rate);
	lk_cost_set(out, seconds);
	out->sm = (float)fmin(1, detail.waves);
	out->waves = (float)detail.waves;
	out->compute = (float)(detail.compute_s / seconds);
	out->memory = (float)(bytes / site->node->device->memory_rate / seconds);
}

void lk_cost_gemm(const lk_graph *graph, uint32_t op, const lk_cost_site *site, lk_cost *out) {
	LK_ASSERT(op < graph->ops.count);
	const lk_ops *ops = &graph->ops;
	lk_dtype dtype = (lk_dtype)ops->dtype[op];
	lk_gemm_numbers numbers = gemm_numbers_of(site, ops, op, 1);
	numbers.efficiency *= row_factor(dtype, ops->n[op], ops->k[op]);
	numbers.efficiency =
		fmin(numbers.efficiency, odd_rows_flops(site->node->device, dtype, ops->n[op], ops->k[op]) /
	                                 lk_peak_flops(site->node->device, dtype));
	gemm(graph, op, site, ops->m[op], &numbers, out);
}

/* Experts of a rank as one launch, their rows padded to whole pieces: the busiest rank decides, so
 * its rows are the mean times the imbalance. A single expert is an ordinary product. */
void lk_cost_grouped_gemm(const lk_graph *graph, uint32_t op, const lk_cost_site *site,
                          lk_cost *out) {
	LK_ASSERT(op < graph->ops.count);
	double experts = graph->ops.batch[op] > 1 ? lk_site_experts(site) : 1;
	lk_gemm_numbers numbers = gemm_numbers_of(site, &graph->ops, op, experts);
	gemm(graph, op, site, graph->ops.m[op], &numbers, out);
}

/* Convolution as the GEMM of cuDNN's implicit kernels, which pad the channels: m output pixels, n
 * filters, k filter elements; or as fewer products of transformed tiles if that is faster. */
void lk_cost_conv(const lk_graph *graph, uint32_t op, const lk_cost_site *site, lk_cost *out) {
	LK_ASSERT(op < graph->ops.count);
	const lk_device *device = site->node->device;
	lk_gemm_numbers numbers = gemm_numbers_of(site, &graph->ops, op, 1);
	gemm(graph, op, site, graph->ops.m[op], &numbers, out);
	double fewer = lk_conv_winograd(graph, op, &numbers, device,
	                                device->memory_rate * site->constants->memory_efficiency);
	if (fewer < out->duration_ps / LK_PS_PER_S) lk_cost_set(out, fewer);
}
