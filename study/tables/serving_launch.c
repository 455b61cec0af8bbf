/* serving_launch.c: how the benchmark of served requests launches its engines, where that changes
 * when a request is taken or how many the cache holds. Its tables do not repeat it.
 *
 * Source: SemiAnalysisAI/InferenceX, benchmarks/single_node and their predecessors of 2025
 * (dsr1_fp4_b200.sh, dsr1_fp8_b200_trt.sh, 70b_fp8_b200_trt_docker.sh and so on):
 *
 *     poll          SGLang, --scheduler-recv-interval: iterations between two looks for requests
 *     gather        TensorRT-LLM, batch_wait_timeout_iters: those that a first prompt waits
 *     memory_share  SGLang, --mem-fraction-static; TensorRT-LLM, free_gpu_memory_fraction */
#include "base/text.h"
#include "tables/tables_internal.h"

struct serving_launch {
	const char *engine, *model, *precision; /* how they begin; "": all */
	lk_arch arch;                           /* LK_ARCHES: all */
	double prompt, response;                /* tokens; 0: all */
	int below;                              /* engines of fewer GPUs; 0: all */
	double from;                            /* requests in flight, at least */
	double poll, gather, memory_share;      /* 0: the engine's default */
};

/* The first that fits is taken. */
static const struct serving_launch launches[] = {
	{"sglang", "deepseek", "", LK_ARCH_BLACKWELL, 0, 0, 0, 16, 30, 0, 0.85},
	{"sglang", "deepseek", "", LK_ARCH_BLACKWELL, 0, 0, 0, 0, 10, 0, 0.85},
	{"sglang", "qwen3.5", "fp4", LK_ARCH_BLACKWELL, 0, 0, 0, 0, 30, 0, 0.85},
	{"sglang", "qwen3.5", "", LK_ARCH_BLACKWELL, 0, 0, 0, 16, 30, 0, 0.82},
	{"sglang", "qwen3.5", "", LK_ARCH_BLACKWELL, 0, 0, 0, 0, 10, 0, 0.82},
	{"sglang", "glm-5", "", LK_ARCHES, 0, 0, 0, 0, 0, 0, 0.85},
	{"sglang", "deepseek", "", LK_ARCH_HOPPER, 0, 0, 0, 0, 0, 0, 0.82},
	{"trtllm", "llama-3.1-70b", "", LK_ARCHES, 1024, 1024, 8, 0, 0, 20, 0},
	{"trtllm", "deepseek", "fp8", LK_ARCH_BLACKWELL, 1024, 1024, 0, 64, 0, 40, 0.8},
	{"trtllm", "deepseek", "", LK_ARCH_BLACKWELL, 0, 0, 0, 0, 0, 0, 0.8},
	{"trtllm", "deepseek", "", LK_ARCH_HOPPER, 0, 0, 0, 0, 0, 0, 0.75},
};

static bool fits(const struct serving_launch *launch, const char *engine,
                 const lk_inference_run *run) {
	const lk_engine *of = &run->engine;
	return lk_begins_with(engine, launch->engine) && lk_begins_with(run->model, launch->model) &&
	       lk_begins_with(run->precision, launch->precision) &&
	       (launch->arch == LK_ARCHES || of->cluster->node[0].device->arch == launch->arch) &&
	       (launch->prompt == 0 || run->prompt == launch->prompt) &&
	       (launch->response == 0 || run->response == launch->response) &&
	       (launch->below == 0 || of->tp < launch->below) && run->served.sequences >= launch->from;
}

void lk_serving_launch(const char *engine, lk_inference_run *run) {
	for (size_t i = 0; i < sizeof launches / sizeof *launches; i++) {
		const struct serving_launch *launch = &launches[i];
		if (!fits(launch, engine, run)) continue;
		run->served.poll = launch->poll, run->served.gather = launch->gather;
		if (launch->memory_share > 0) run->engine.memory_share = launch->memory_share;
		return;
	}
}
