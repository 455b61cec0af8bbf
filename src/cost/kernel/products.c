/* products.c: what matrix products of whole steps reach on a device: the law of isolated products
 * (law_product.c), which run at the power limit for seconds. No number belongs to a software stack.
 *
 * A device without rows takes those of its nearest relative of the architecture, with the rate
 * changed by what power and SMs make of it (sustained.c). An architecture without rows has its
 * published sustained rate, and the other numbers of the nearest architecture. */
#include "cost/kernel/kernel.h"
#include "cost/kernel/laws.h"

#include <math.h>

/* By lk_product_of. `kept`: the share of a short run's rate that a long one keeps, of products of
 * over 3e10 operations measured both ways on H200, B200 and GB200 (docs/method/kernels.md). */
static const struct {
	const char *format;
	lk_dtype dtype;
	double kept;
} formats[LK_PRODUCTS] = {{"bf16", LK_BF16, .90}, {"fp8", LK_FP8, .93}, {"nvfp4", LK_NVFP4, .93}};

static double published_share(const lk_device *device, lk_dtype dtype) {
	return lk_sustained_flops(device, dtype) / lk_peak_flops(device, dtype);
}

/* TensorRT-LLM calls cuBLAS and measured every format on every device. */
static bool find_law(const lk_device *device, const char *format, lk_law_fit *out) {
	const lk_law_series series = {.kind = "linear",
	                              .format = format,
	                              .kernel = "",
	                              .library = "trtllm",
	                              .release = "",
	                              .sustained = true};
	return lk_law_find(&lk_law_product, device, &series, NULL, out);
}

void lk_step_products(const lk_device *device, lk_gemm_numbers out[LK_PRODUCTS]) {
	for (int f = 0; f < LK_PRODUCTS; f++) {
		lk_dtype dtype = formats[f].dtype;
		double share = published_share(device, dtype);
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
		out[f].efficiency *= share / published_share(fit.from, dtype);
		if (fit.basis == LK_LAW_ARCHITECTURE) out[f].efficiency = share;
		out[f].floor_s = out[0].floor_s; /* a narrower format's start holds its casts */
	}
}
