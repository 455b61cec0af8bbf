/* kernels.c: kernels of an iteration that decodes, alone and replayed from a CUDA graph. No number
 * belongs to an engine as a whole:
 *
 *     products      the law of isolated products with few rows (cost/kernel/law_product.c); the
 *                   conversion of rows is a pass of its own
 *     attention     start + cached bytes / (share * memory bandwidth)
 *     experts       start + bytes of the experts that are hit / (share * memory bandwidth)
 *     all-reduce    start + min((n - 1) S / B, again + 2 (n - 1) / n S / B), B = share * links:
 *                   each GPU reads all others at once, or its part and then the sums
 *
 * Starts and shares are medians of series of kernels_attention_2026, kernels_mla_2026,
 * kernels_moe_2026 (up to 256 tokens) and collectives_2026 (graphs): docs/method/generation.md. */
#include "rollout/rollout_internal.h"

#include <math.h>
#include <string.h>

#include "cost/kernel/laws.h"

/* Whether the architecture is Blackwell's of data centres, whose kernels (trtllm-gen) differ. */
static bool has_tensor_memory(const lk_device *device) {
	return device->arch == LK_ARCH_BLACKWELL && device->link_rate > 0;
}

static void take_products(const lk_engine *engine, const lk_device *device,
                          lk_decode_kernels *out) {
	static const char *const formats[LK_PRODUCTS] = {"bf16", "fp8", "nvfp4"};
	lk_step_products(device, out->many);
	for (int i = 0; i < LK_PRODUCTS; i++) {
		/* networks with experts are published in 8 bits with a scale per block; vLLM's such
		 * products were timed outside of graphs alone */
		bool blocks = i == 1 && engine->model->experts > 0,
			 timed = !blocks || strcmp(engine->software->library, "vllm") != 0;
		const lk_law_series series = {.kind = "linear_few",
		                              .format = blocks ? "fp8_block" : formats[i],
		                              .kernel = "",
		                              .library = timed ? engine->software->library : "trtllm",
		                              .release = "",
		                              .sustained = false};
		lk_law_fit *fit = &out->whole[i];
		out->few[i] = out->many[i];
		if (!lk_law_find(&lk_law_product, device, &series, NULL, fit)) continue;
		out->few[i] = lk_law_product_numbers(fit->numbers);
		if (i == 0) continue;
		/* a scale per tensor is known beforehand, so that the pass before converts: the start is
		 * that of 16 bits */
		out->few[i].floor_s = out->few[0].floor_s + out->few[0].fill_s - out->few[i].fill_s;
		if (blocks || i == 2) out->converts[i] = lk_law_format_find(series.format);
	}
}

double lk_decode_product(const lk_decode_kernels *kernels, lk_dtype dtype, double m, double n,
                         double k) {
	const int i = lk_product_of(dtype);
	const double width = lk_dtype_bytes(dtype), rows = fmin(m, LK_LAW_FEW_ROWS);
	const lk_law_call call = {kernels->device, kernels->converts[i], {rows, n, k}};
	lk_gemm_shape shape = {dtype, 1, rows, n, k};
	double few = kernels->converts[i] ? lk_law_seconds(&kernels->whole[i], &call)
	                                  : lk_gemm_formula(&kernels->few[i], kernels->device, &shape,
	                                                    (m * k + n * k) * width + 2 * m * n, NULL);
	if (!(m > LK_LAW_FEW_ROWS)) return few;
	shape.m = m;
	return fmax(few, lk_gemm_formula(&kernels->many[i], kernels->device, &shape,
	                                 (m * k + n * k) * width + 2 * m * n, NULL));
}

lk_decode_kernels lk_decode_kernels_of(const lk_engine *engine) {
	const lk_node *node = &engine->cluster->node[0];
	const lk_device *device = node->device;
	bool new = has_tensor_memory(device), latent = engine->model->attention == LK_ATTN_MLA,
		 narrow = engine->kv_dtype >= LK_FP8;
	lk_decode_kernels out = {
		.device = device,
		.state_start_s = 6.5e-6,
		.attention_start_s = latent ? (new ? 11e-6 : 13.5e-6) : (new ? 10e-6 : 12e-6),
		.cache_memory = latent           ? .75
	                    : narrow && !new ? .7
	                                     : .88,
		.expert_start_s = new ? 24e-6 : 32e-6,
		.expert_memory = .84,
		.expert_more_s = new                     ? 90e-6
	                     : device->link_rate > 0 ? 65e-6
	                                             : 0,
		.expert_row_bytes = 15,
		.reduce_start_s = new ? 5.5e-6 : 4e-6,
		.reduce_again_s = 6e-6,
		.reduce_rate = .66 * node->intra_rate,
	};
	/* over PCIe the start grows with each GPU that is waited for */
	if (!(device->link_rate > 0)) out.reduce_start_s = 3e-6 * engine->tp;
	take_products(engine, device, &out);
	return out;
}

double lk_decode_allreduce(const lk_decode_kernels *kernels, const lk_group_shape *group,
                           double bytes) {
	double others = group->ranks - 1, moved = bytes / kernels->reduce_rate;
	if (group->nodes > 1 || others < 1 || !(kernels->reduce_rate > 0)) return INFINITY;
	return kernels->reduce_start_s +
	       fmin(others * moved, kernels->reduce_again_s + 2 * others / group->ranks * moved);
}
