/* kernels.c: kernels of an iteration, alone and replayed from a CUDA graph, by the laws of isolated
 * kernels (cost/kernel/laws.h) in the engine's own library where it was measured:
 *
 *     products      few rows by their own law; more never take less, and run at the power limit
 *     attention     one query, and its drafts, of each sequence against the cache
 *     experts       choice, permutation, grouped products, weighted sum in one call
 *     recurrences   one step of the short convolution and of the state
 *     all-to-all    start + S / B
 *     all-reduce    start + min((n - 1) S / B, again + 2 (n - 1) / n S / B), B = share * links:
 *                   each GPU reads all others at once, or its part and then the sums
 *
 * Starts and share of the engines' own all-reduce are medians of collectives_2026 (graphs):
 * docs/method/generation.md. */
#include "rollout/rollout_internal.h"

#include <math.h>
#include <string.h>

#include "cost/kernel/kernel.h"

/* ---- which series runs ---- */

/* Families whose publishers give 8-bit weights a scale per block (weight_block_size of their
 * configs; the list is not checked against them); others come with one per tensor. */
bool lk_engine_has_blocks(const lk_engine *engine) {
	static const char *const published[] = {"deepseek", "kimi", "qwen3", "minimax"};
	if (engine->dtype != LK_FP8) return false;
	for (int i = 0; i < (int)(sizeof published / sizeof *published); i++)
		if (strncmp(engine->model->family, published[i], strlen(published[i])) == 0) return true;
	return false;
}

static const char *format_name(const lk_engine *engine, lk_dtype dtype) {
	if (dtype == LK_NVFP4) return "nvfp4";
	if (dtype < LK_FP8) return "bf16";
	return lk_engine_has_blocks(engine) ? "fp8_block" : "fp8";
}

/* Blocks of scales: vLLM's were timed outside of graphs. SGLang's on Blackwell make served requests
 * a third too slow. An assumption: both run kernels as quick as TensorRT-LLM's. */
static const char *product_library(const lk_engine *engine, const char *format) {
	return strcmp(format, "fp8_block") == 0 ? "trtllm" : engine->software->library;
}

static void find_kernel(const lk_law *law, const lk_device *device, const lk_law_series *series,
                        lk_kernel_law *out) {
	lk_law_fit *own = &out->fits[0], *other = &out->fits[1];
	out->count = lk_law_find(law, device, series, NULL, own);
	if (out->count == 0 || own->basis > LK_LAW_SERIES) return;
	if (!lk_law_find(law, device, series, device, other) || other->basis != LK_LAW_RELATIVE) return;
	const lk_device *relative = lk_device_find(other->row->subject);
	out->count += relative && relative->memory_rate < device->memory_rate;
}

static void find_law(const lk_law *law, const lk_device *device, const char *kind,
                     const char *format, const char *library, bool sustained, lk_kernel_law *out) {
	const lk_law_series series = {kind, format, "", library, "", sustained};
	find_kernel(law, device, &series, out);
}

static double kernel_seconds(const lk_kernel_law *law, const lk_law_call *call) {
	double least = INFINITY;
	for (int i = 0; i < law->count; i++) least = fmin(least, lk_law_seconds(&law->fits[i], call));
	return least;
}

/* ---- products ---- */

static double *law_number(lk_law_fit *fit, const char *name) {
	int i = 0;
	while (strcmp(fit->law->numbers[i].name, name) != 0) i++;
	return &fit->numbers[i];
}

/* The format of a product in the words of the laws. Wider ones have the law of 16 bits. */
static lk_law_format product_format(const char *name, lk_dtype dtype) {
	lk_law_format format = *lk_law_format_find(name);
	double width = lk_dtype_bytes(dtype);
	if (width > 2) format = (lk_law_format){name, dtype, width, width, 0};
	return format;
}

/* Long runs are at the power limit, which short ones do not reach. */
static void limit_power(const lk_device *device, lk_dtype dtype, lk_kernel_law *law) {
	for (int i = 0; i < law->count; i++) {
		double *efficiency = law_number(&law->fits[i], "efficiency");
		*efficiency = fmin(*efficiency, lk_published_share(device, dtype));
	}
}

static void scale_arithmetic(lk_kernel_law *law, double share) {
	for (int i = 0; i < law->count; i++) *law_number(&law->fits[i], "efficiency") *= share;
}

static void take_product(const lk_engine *engine, const lk_device *device, lk_dtype dtype,
                         lk_decode_product *out) {
	const char *name = format_name(engine, dtype), *library = product_library(engine, name);
	lk_kernel_law plain;
	out->format = product_format(name, dtype);
	find_law(&lk_law_few, device, "linear", name, library, false, &out->few);
	find_law(&lk_law_product, device, "linear", name, library, true, &out->many);
	limit_power(device, dtype, &out->many);
	/* A scale per tensor is known beforehand: the pass before converts, and the start is that of
	 * 16 bits. So it is in 4 bits where norms and activations convert what they write. */
	if (dtype < LK_FP8 ||
	    (strcmp(name, "fp8") != 0 && !(dtype == LK_NVFP4 && engine->software->fuses)))
		return;
	out->format.reads = 0;
	find_law(&lk_law_few, device, "linear", "bf16", library, false, &plain);
	for (int i = 0; i < out->few.count && plain.count > 0; i++) {
		double *start = law_number(&out->few.fits[i], "start_us");
		*start = fmin(*start, *law_number(&plain.fits[0], "start_us"));
	}
}

double lk_decode_product_s(const lk_decode_kernels *kernels, const lk_decode_product *product,
                           double m, double n, double k) {
	lk_law_call call = {kernels->device, &product->format, {fmin(m, LK_LAW_FEW_ROWS), n, k}};
	double seconds = kernel_seconds(&product->few, &call);
	if (!(m > LK_LAW_FEW_ROWS)) return seconds;
	call.size[0] = m;
	return fmax(seconds, kernel_seconds(&product->many, &call));
}

/* ---- attention ---- */

/* Elements of a cached token in the law of latent attention. */
static const double LATENT_WIDTH = 576;

static void take_attention(const lk_engine *engine, const lk_device *device,
                           lk_decode_kernels *kernels) {
	lk_decode_cache *out = &kernels->cache;
	const lk_model *model = engine->model;
	bool narrow = engine->kv_dtype >= LK_FP8;
	const char *library = engine->software->library;
	double split = lk_engine_split(engine), cache = lk_dtype_bytes(engine->kv_dtype);
	out->latent = model->attention == LK_ATTN_MLA;
	out->width = out->latent ? (model->kv_lora + model->qk_rope) / LATENT_WIDTH : 1;
	out->call = (lk_law_call){.device = device, .format = lk_law_format_find("bf16")};
	out->chosen = model->index_topk;
	double *size = out->call.size;
	if (out->latent) {
		find_law(&lk_law_mla, device,
		         narrow ? "attention_generation_fp8" : "attention_generation_bf16", "bf16", library,
		         false, &out->attention);
		find_law(&lk_law_mla, device, "absorb_pre_generation", "bf16", library, false,
		         &kernels->absorb[0]);
		find_law(&lk_law_mla, device, "absorb_post_generation", "bf16", library, false,
		         &kernels->absorb[1]);
		size[LK_MLA_QUERIES] = 1 + engine->draft;
		size[LK_MLA_HEADS] = model->heads / split;
		size[LK_MLA_GENERATION] = 1;
		size[LK_MLA_CACHE] = cache;
		return;
	}
	find_law(&lk_law_attention, device, narrow ? "generation_fp8" : "generation_bf16", "bf16",
	         library, false, &out->attention);
	size[LK_ATTENTION_QUERIES] = 1 + engine->draft;
	size[LK_ATTENTION_HEADS] = model->heads / split;
	size[LK_ATTENTION_KV_HEADS] = lk_engine_kv_heads(engine);
	size[LK_ATTENTION_HEAD] = (model->head_dim + lk_model_value_dim(model)) / 2;
	size[LK_ATTENTION_CAUSAL] = 1;
	size[LK_ATTENTION_CACHE] = cache;
}

/* A latent of another width than that of the law counts as more keys. Kernels of chosen keys pad
 * shorter contexts to as many as are chosen. */
double lk_decode_attention_s(const lk_decode_cache *cache, double sequences, double keys,
                             double window) {
	lk_law_call call = cache->call;
	if (cache->chosen > 0) keys = cache->chosen;
	int batch = cache->latent ? LK_MLA_BATCH : LK_ATTENTION_BATCH,
		queries = cache->latent ? LK_MLA_QUERIES : LK_ATTENTION_QUERIES,
		at = cache->latent ? LK_MLA_KEYS : LK_ATTENTION_KEYS;
	call.size[batch] = fmax(1, sequences);
	call.size[at] = fmax(keys * cache->width, call.size[queries]);
	if (!cache->latent) call.size[LK_ATTENTION_WINDOW] = isfinite(window) ? window : 0;
	return kernel_seconds(&cache->attention, &call);
}

double lk_decode_absorb_s(const lk_decode_kernels *kernels, double rows) {
	double seconds = 0;
	for (int i = 0; i < 2; i++) {
		lk_law_call call = kernels->cache.call;
		call.size[LK_MLA_BATCH] = fmax(1, rows);
		call.size[LK_MLA_QUERIES] = 1;
		call.size[LK_MLA_PART] = LK_MLA_ABSORB;
		seconds += kernel_seconds(&kernels->absorb[i], &call);
	}
	return seconds;
}

/* ---- recurrences ---- */

static void take_state(const lk_engine *engine, const lk_device *device, lk_decode_kernels *out) {
	const char *library = engine->software->library;
	find_law(&lk_law_state, device, "gdn_step", "bf16", library, false, &out->cache.step);
	find_law(&lk_law_state, device, "gdn_convolution_step", "bf16", library, false,
	         &out->cache.convolution);
}

double lk_decode_state_s(const lk_decode_cache *cache, double sequences, double state) {
	enum { HEAD = 128 * 128 }; /* elements of a head's state: how many units share the work */
	const lk_state_layer step = {.kernel = LK_STATE_STEP,
	                             .batch = fmax(1, sequences),
	                             .length = 1,
	                             .heads = fmax(1, state / HEAD),
	                             .key_dim = 1,
	                             .value_dim = fmin(state, HEAD)},
						 taps = {.kernel = LK_STATE_CONVOLUTION,
	                             .batch = fmax(1, sequences),
	                             .length = 1,
	                             .chunk = 1,
	                             .window = 4,
	                             .channels = sqrt(state)};
	lk_law_call call = {.device = cache->call.device, .format = cache->call.format};
	lk_state_amounts(&step, &call);
	double seconds = kernel_seconds(&cache->step, &call);
	lk_state_amounts(&taps, &call);
	return seconds + kernel_seconds(&cache->convolution, &call);
}

/* ---- experts ---- */

/* If tensor cores multiply 4 bits, MXFP4 experts are multiplied with rows in MXFP8; otherwise a
 * kernel widens them to the format of the rest (TensorRT-LLM's CUTLASS and TRITON backends of
 * experts). */
static const char *experts_format(const lk_engine *engine, const lk_device *device) {
	if (!engine->mxfp4_experts) return format_name(engine, engine->dtype);
	return device->peak_flops[LK_NVFP4] > 0 ? "mxfp4_mxfp8" : "mxfp4_weight_only";
}

static void take_experts(const lk_engine *engine, const lk_device *device, lk_decode_kernels *out) {
	const char *name = experts_format(engine, device);
	const lk_law_series quick = {
		"experts", name, "moe_torch_flow_min_latency", engine->software->library, "", false};
	find_law(&lk_law_experts, device, "experts", name, engine->software->library, false,
	         &out->experts);
	find_kernel(&lk_law_experts, device, &quick, &out->quick);
	scale_arithmetic(&out->experts, engine->numbers.experts);
	scale_arithmetic(&out->quick, engine->numbers.experts);
	out->expert_format = product_format(name, engine->mxfp4_experts ? LK_BF16 : engine->dtype);
}

/* Experts that are chosen by a row or more. The e-th most popular is chosen with a probability of
 * k / (e H), H the sum of all 1 / e (Zipf's law): of the exponents 0, 0.6 and 1 the last predicts
 * served networks best that no number was fitted to. */
static double experts_hit(const lk_model *model, double rows) {
	double whole = 0, hit = 0;
	for (int e = 1; e <= model->experts; e++) whole += 1.0 / e;
	for (int e = 1; e <= model->experts; e++)
		hit -= expm1(rows * log1p(-fmin(1 - 1e-9, model->topk / (e * whole))));
	return hit;
}

/* An expert with rows pads them to whole tiles, half a tile more in
 * the mean. */
double lk_decode_experts_s(const lk_decode_kernels *kernels, const lk_engine *engine, double rows) {
	static const double heights[LK_EXPERT_TILES] = LK_EXPERT_HEIGHTS;
	const lk_model *model = engine->model;
	double ranks = engine->ep, local = model->experts / ranks;
	double hit = fmin(local, fmax(experts_hit(model, rows) / ranks, fmin(1, local)));
	double routed = rows * model->topk / ranks, each = fmax(1, routed / hit);
	lk_law_call call = {.device = kernels->device, .format = &kernels->expert_format};
	double *size = call.size;
	size[LK_EXPERTS_TOKENS] = rows;
	size[LK_EXPERTS_HIDDEN] = model->hidden;
	size[LK_EXPERTS_INTER] = model->expert_ffn;
	size[LK_EXPERTS_EXPERTS] = model->experts;
	size[LK_EXPERTS_TP] = (double)engine->tp / engine->ep;
	size[LK_EXPERTS_GATED] = model->gated;
	size[LK_EXPERTS_ROWS] = fmax(routed, hit);
	size[LK_EXPERTS_HIT] = hit;
	size[LK_EXPERTS_REACH] = rows * -expm1(model->topk * log1p(-fmin(1 / ranks, 1 - 1e-9)));
	size[LK_EXPERTS_CHOICES] = size[LK_EXPERTS_REACH] * model->topk;
	for (int t = 0; t < LK_EXPERT_TILES; t++)
		size[LK_EXPERTS_PADDED + t] = hit * heights[t] * fmax(1, each / heights[t] + .5);
	double seconds = kernel_seconds(&kernels->experts, &call);
	return rows > LK_LAW_FEW_ROWS ? seconds : fmin(seconds, kernel_seconds(&kernels->quick, &call));
}

/* ---- the whole ---- */

lk_decode_kernels lk_decode_kernels_of(const lk_engine *engine) {
	const lk_node *node = &engine->cluster->node[0];
	const lk_device *device = node->device;
	bool new = device->arch == LK_ARCH_BLACKWELL;
	lk_decode_kernels out = {
		.device = device,
		.reduce_start_s = new ? 5.5e-6 : 4e-6,
		.reduce_again_s = 6e-6,
		.reduce_rate = .66 * node->intra_rate,
	};
	/* over PCIe the start grows with each GPU that is waited for */
	if (!(device->link_rate > 0)) out.reduce_start_s = 3e-6 * engine->tp;
	take_product(engine, device, engine->dtype, &out.inside);
	take_product(engine, device, LK_BF16, &out.wide);
	take_attention(engine, device, &out);
	take_state(engine, device, &out);
	if (engine->model->experts > 0) take_experts(engine, device, &out);
	return out;
}

double lk_decode_allreduce_s(const lk_decode_kernels *kernels, const lk_group_shape *group,
                             double bytes) {
	double others = group->ranks - 1, moved = bytes / kernels->reduce_rate;
	if (group->nodes > 1 || others < 1 || !(kernels->reduce_rate > 0)) return INFINITY;
	return kernels->reduce_start_s +
	       fmin(others * moved, kernels->reduce_again_s + 2 * others / group->ranks * moved);
}

double lk_decode_alltoall_s(const lk_decode_kernels *kernels, const lk_group_shape *group,
                            double bytes) {
	if (group->nodes > 1 || !(kernels->reduce_rate > 0)) return INFINITY;
	return kernels->reduce_start_s + bytes / kernels->reduce_rate;
}
