/* products.c: what matrix products of whole steps reach on a device: the law of isolated products
 * (law_product.c), which run at the power limit for seconds. No number belongs to a software stack.
 *
 * A device without rows takes those of its nearest relative of the architecture, with the rate
 * changed by what power and SMs make of it (sustained.c). An architecture without rows has its
 * published sustained rate, and the other numbers of the nearest architecture. */
#include "cost/kernel/kernel.h"
#include "cost/kernel/laws.h"

#include <math.h>

/* By lk_product_of. `kept`: the share of a short run's rate that a long one keeps: on A100 in 16
 * bits (docs/method/kernels.md), on GB200 in the others, which were measured both ways there. */
static const struct {
	const char *format;
	lk_dtype dtype;
	double kept;
} formats[LK_PRODUCTS] = {{"bf16", LK_BF16, .90}, {"fp8", LK_FP8, .89}, {"nvfp4", LK_NVFP4, .85}};

/* Long runs of the die before short ones; of libraries TensorRT-LLM, which calls cuBLAS as training
 * does and measured large shapes. */
static bool find_law(const lk_device *device, const char *format, lk_law_fit *out) {
	lk_law_series series = {.kind = "linear",
	                        .format = format,
	                        .kernel = "",
	                        .library = "trtllm",
	                        .release = "",
	                        .sustained = true};
	if (lk_law_find_widest(&lk_law_product, device, &series, out)) return true;
	series.library = "";
	if (lk_law_find_widest(&lk_law_product, device, &series, out)) return true;
	series.library = "trtllm";
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
		if (!find_law(device, formats[f].format, &fit)) continue;
		out[f] = lk_law_product_numbers(fit.numbers);
		out[f].efficiency *= fit.sustained ? 1 : formats[f].kept;
		out[f].efficiency *= share / lk_published_share(fit.from, dtype);
		if (fit.basis == LK_LAW_ARCHITECTURE) out[f].efficiency = share;
		out[f].floor_s = out[0].floor_s; /* a narrower format's start holds its casts */
	}
}
