/* engine.c: inference software, its numbers, and the memory of an engine's GPU.
 *
 *     cache = memory * share - weights - workspace - context
 *     bytes of a cached token on a GPU = sum over its layers of
 *         2 * kv heads of the GPU * head size * bytes        grouped heads
 *         (latent rank + rotary part) * bytes                latent attention, on every GPU
 *
 * (vLLM, v1/worker/gpu_worker.py, determine_available_memory; latent attention as DeepSeek-V2,
 * arXiv 2405.04434, section 2.1.2, caches it). A layer with a window of w tokens keeps w of them.
 */
#include "rollout/rollout_internal.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/text.h"
#include "cost/calibration/calibration.h"

/* Defaults; unverified: vLLM's of its version 1 on GPUs of 70 GiB and more, SGLang's assumed equal
 * except for its share of memory; TensorRT-LLM's with its scheduler GUARANTEED_NO_EVICT.
 * "tensorrt-engine" is TensorRT-LLM before 1.0, which ran compiled engines from C++. vLLM and
 * SGLang run PyTorch modules from a scheduler in Python, as TensorRT-LLM does since 1.0. "vllm-rl"
 * is vLLM in a framework of reinforcement learning, which also asks for the probability of every
 * token: its host takes longer. */
static const lk_engine_software software[] = {
	{"vllm", "tensorrt-llm", "vllm", false, false, false, 1024, 8192, 0.9, false, false, false,
     false},
	{"sglang", "tensorrt-llm", "sglang", false, false, true, 1024, 8192, 0.88, false, false, true,
     false},
	{"vllm-rl", "tensorrt-llm", "vllm", false, false, false, 1024, 8192, 0.9, false, false, false,
     false},
	{"tensorrt-llm", "", "trtllm", true, true, true, 2048, 8192, 0.9, true, true, false, false},
	{"tensorrt-llm-1.0", "tensorrt-llm", "trtllm", true, true, true, 2048, 8192, 0.9, true, true,
     false, true},
	{"tensorrt-engine", "", "trtllm", true, true, false, 2048, 8192, 0.9, true, true, false, false},
};
enum { SOFTWARE = sizeof software / sizeof *software };

const lk_engine_software *lk_engine_software_at(int index) {
	return index >= 0 && index < SOFTWARE ? &software[index] : NULL;
}

const lk_engine_software *lk_engine_software_find(const char *name) {
	for (int i = 0; i < SOFTWARE; i++)
		if (lk_same_name(software[i].name, name)) return &software[i];
	return NULL;
}

const lk_engine_software *lk_engine_software_fitted(const lk_engine_software *of) {
	return of->early ? lk_engine_software_find(of->alike) : of;
}

const lk_fit_number lk_engine_number_limits[LK_ENGINE_NUMBERS] = {
	{"attention", 1, 0.1, 1.2, true},      {"products", 1, 0.1, 1.2, true},
	{"experts", 0.5, 0.1, 1.2, true},      {"floor_us", 2, 0.5, 20, true},
	{"step_us", 1000, 50, 30000, true},    {"sequence_us", 5, 0.1, 200, true},
	{"launch_us", 30, 0.1, 150, true},     {"early_us", 5, 0.1, 200, true},
	{"request_us", 20000, 100, 1e6, true},
};

double *lk_engine_number(lk_engine_numbers *numbers, int index) {
	double *const at[LK_ENGINE_NUMBERS] = {
		&numbers->attention, &numbers->products, &numbers->experts,
		&numbers->floor_us,  &numbers->step_us,  &numbers->sequence_us,
		&numbers->launch_us, &numbers->early_us, &numbers->request_us};
	return at[index];
}

lk_engine_numbers lk_engine_numbers_of(const lk_engine_software *of) {
	const lk_calibration *calibration = lk_calibration_current();
	const lk_calibration_row *all = lk_calibration_find(calibration, "generation", "all", ""),
							 *alike = lk_calibration_find(calibration, "generation", of->alike, ""),
							 *row = lk_calibration_find(calibration, "generation", of->name, "");
	lk_engine_numbers numbers;
	for (int i = 0; i < LK_ENGINE_NUMBERS; i++) {
		const lk_fit_number *limit = &lk_engine_number_limits[i];
		double value = lk_calibration_value(all, limit->name, limit->start);
		value = lk_calibration_value(alike, limit->name, value);
		*lk_engine_number(&numbers, i) = lk_calibration_value(row, limit->name, value);
	}
	return numbers;
}

/* openai/gpt-oss, README; the cache is in 8 bits on devices with 4-bit products, else in 16
 * (TensorRT-LLM, docs/source/developer-guide/perf-overview.md, options of GPT-OSS). */
void lk_engine_take_mxfp4(lk_engine *engine, bool kv_open) {
	bool multiplies = engine->cluster->node[0].device->peak_flops[LK_NVFP4] > 0;
	if (strcmp(engine->model->family, "gpt_oss") != 0) return;
	engine->mxfp4_experts = true;
	engine->dtype = LK_BF16;
	if (kv_open) engine->kv_dtype = multiplies ? LK_FP8 : LK_BF16;
}

/* ---- memory ---- */

/* CUDA context and libraries 0.8 GiB as in memory_use.c; CUDA graphs 0.5 GiB, assumed. */
static const double context_bytes = 1.3 * 0x1p30;

/* 4 bits and a scale of 8 bits per 32 values (OCP Microscaling Formats 1.0). */
const double lk_engine_mxfp4_bytes = 0.5 + 1 / 32.0;

/* fp32, the format of recurrences; an assumption, as engines have an option for it. */
const double LK_STATE_BYTES = 4;

double lk_engine_split(const lk_engine *engine) {
	return engine->attention_dp ? 1 : engine->tp;
}

double lk_engine_kv_heads(const lk_engine *engine) {
	if (engine->attention_dp) return engine->model->kv_heads;
	return fmax(1, (double)engine->model->kv_heads / engine->tp);
}

double lk_engine_token_bytes(const lk_engine *engine) {
	const lk_model *model = engine->model;
	double width =
		model->attention == LK_ATTN_MLA
			? (double)model->kv_lora + model->qk_rope
			: lk_engine_kv_heads(engine) * ((double)model->head_dim + lk_model_value_dim(model));
	return width * lk_dtype_bytes(engine->kv_dtype) + lk_engine_index_bytes(engine);
}

double lk_engine_index_bytes(const lk_engine *engine) {
	return engine->model->index_topk > 0 ? engine->model->index_dim + 4 : 0;
}

/* Tensors of a computed chunk, of which each stage has its part: residual stream, the widest
 * product, rows of experts (of all GPUs, if these attend separately), logits of a batch. */
static double engine_workspace(const lk_engine *engine) {
	const lk_model *model = engine->model;
	double split = lk_engine_split(engine), tokens = (double)engine->tokens / engine->pp,
		   all = engine->attention_dp ? tokens * engine->tp : tokens;
	double wide = fmax(model->ffn * (model->gated ? 2.0 : 1.0), 4.0 * model->hidden) / split;
	double slices = (double)engine->tp / engine->ep;
	double experts = model->experts > 0 ? model->topk / (double)engine->ep *
	                                          (model->hidden + 3.0 * model->expert_ffn / slices)
	                                    : 0;
	double logits = fmin((double)engine->sequences / engine->pp, tokens) * (double)model->vocab * 4;
	return tokens * 2 * (3.0 * model->hidden + wide) + all * 2 * experts + logits;
}

static double engine_weights(const lk_engine *engine) {
	const lk_model *model = engine->model;
	double attention = 0, rest = 0, experts = 0, width = lk_dtype_bytes(engine->dtype);
	for (int i = 0; i < model->layers; i++) {
		lk_layer_params params = lk_model_layer_params(model, i);
		attention += params.attention;
		rest += params.mlp;
		experts += params.experts;
	}
	double ends = lk_model_embedding_params(model) +
	              fmax(lk_model_head_params(model), (double)model->vocab * model->hidden);
	double kept = engine->mxfp4_experts ? lk_engine_mxfp4_bytes : width;
	double split = lk_engine_split(engine);
	return ((attention + rest) / split * width + experts / engine->tp * kept) / engine->pp +
	       ends * 2 / split;
}

lk_engine_memory lk_engine_memory_of(const lk_engine *engine, double length) {
	const lk_device *device = engine->cluster->node[0].device;
	const lk_model *model = engine->model;
	lk_engine_memory memory = {.weights = engine_weights(engine),
	                           .workspace = engine_workspace(engine),
	                           .context = context_bytes,
	                           .usable = device->memory_bytes};
	double held = memory.weights + memory.workspace + memory.context;
	memory.usable = engine->software->share_of_free
	                    ? held + fmax(0, device->memory_bytes - held) * engine->memory_share
	                    : device->memory_bytes * engine->memory_share;
	for (int i = 0; i < model->layers; i++) {
		double window = lk_model_window(model, i);
		memory.state += lk_model_recurrence(model, i).state * LK_STATE_BYTES /
		                lk_engine_split(engine) / engine->pp;
		if (!(lk_model_layer(model, i).mixers & LK_MIXER_ATTENTION)) continue;
		bool keeps = engine->software->keeps_chunks && lk_model_layer(model, i).chunked;
		bool drops = window > 0 && window < length && !keeps;
		memory.token += lk_engine_token_bytes(engine) / engine->pp * (drops ? window / length : 1);
	}
	memory.cache = memory.usable - held;
	memory.sequences = engine->sequences;
	if (memory.state > 0) { /* states are reserved for as many sequences as fit with their tokens */
		double most = floor(fmax(0, memory.cache) / (memory.state + length * memory.token));
		memory.sequences = (int)fmax(1, fmin(engine->sequences, most));
		memory.cache -= memory.sequences * memory.state;
	}
	if (!(memory.token > 0)) memory.token = 1; /* no attention layers: only states need room */
	memory.tokens = fmax(0, memory.cache / memory.token) * (engine->attention_dp ? engine->tp : 1);
	return memory;
}
