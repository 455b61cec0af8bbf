/* job_stack.c: the defaults of software: which stacks share them, and the features that releases
 * turn on by themselves. */
#include "model/layout/job.h"

#include <ctype.h>
#include <string.h>

const char *const lk_stack_names[] = {"megatron",    "nemo",      "mlperf",
                                      "mlperf-lora", "fsdp",      "llm-foundry",
                                      "torchtitan",  "deepspeed", "megatron-deepspeed",
                                      "ddp",         NULL};

bool lk_stack_is_megatron_core(const char *stack) {
	static const char *const names[] = {"megatron", "nemo", "mlperf", "mlperf-lora"};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (strcmp(stack, names[i]) == 0) return true;
	return false;
}

bool lk_stack_like_megatron(const char *stack) {
	return lk_stack_is_megatron_core(stack) || strncmp(stack, "megatron", 8) == 0;
}

bool lk_job_like_megatron(const lk_job *job) {
	return job->stack[0] == '\0' || lk_stack_like_megatron(job->stack);
}

bool lk_job_uses_deepspeed(const lk_job *job) {
	return strstr(job->stack, "deepspeed") != NULL;
}

bool lk_job_runs_as_written(const lk_job *job) {
	static const char *const stacks[] = {"ddp", "fsdp", "deepspeed"};
	lk_network network = job->model.network;
	if (job->fused_kernels || job->own_code) return false;
	if (network == LK_NET_CONV || network == LK_NET_DIFFUSION) return false;
	for (size_t i = 0; i < sizeof stacks / sizeof *stacks; i++)
		if (strcmp(job->stack, stacks[i]) == 0) return true;
	return false;
}

bool lk_job_wraps_adapters(const lk_job *job) {
	return job->task == LK_TASK_LORA && job->sharding == LK_SHARD_ZERO3 && !job->layer_units &&
	       strcmp(job->stack, "fsdp") == 0;
}

int lk_release_compare(const char *a, const char *b) {
	for (;;) {
		while (*a && !isdigit((unsigned char)*a)) a++;
		while (*b && !isdigit((unsigned char)*b)) b++;
		if (!*a || !*b) return (*a != 0) - (*b != 0);
		while (*a == '0') a++;
		while (*b == '0') b++;
		size_t digits_a = strspn(a, "0123456789"), digits_b = strspn(b, "0123456789");
		if (digits_a != digits_b) return digits_a < digits_b ? -1 : 1;
		int order = strncmp(a, b, digits_a);
		if (order != 0) return order < 0 ? -1 : 1;
		a += digits_a;
		b += digits_b;
	}
}

/* ---- features ---- */

/* Common to all releases of a stack. */
#define DEEPSPEED                                                                      \
	.since = "", .late_reduce = true,                                                  \
	.source = "deepspeed/runtime/engine.py: without gradient partitioning, and where " \
			  "overlap_comm is not on, gradients are reduced after the last backward pass"
#define CORE   .tp_overlap = true, .fused_loss = true, .etp = 1
#define NEMO   CORE, .stack = "nemo"
#define MLPERF .stack = "mlperf", .tp_overlap = true, .fused_loss = true, .in_fp8 = true
#define MLPERF_LORA \
	.stack = "mlperf-lora", .tp_overlap = true, .fused_loss = true, .in_fp8 = true, .adapters = true
#define EARLY_CUDNN .early_attention = true /* before cuDNN 9.13 of September 2025 */
#define WHOLE_GRAPHS \
	.cuda_graphs = true, .graph_experts = true, .by_node = true, .expert_overlap = true
#define BLACKWELL_GRAPHS .cuda_graphs = true, .on_blackwell = true
#define CORE_TODAY                                                                          \
	CORE, BLACKWELL_GRAPHS, .graph_experts = true, .by_node = true, .expert_overlap = true, \
							.overlap_across = true, .in_mxfp8 = true

/* An entry applies from its release on, until the next entry of the same stack. */
static const lk_stack_features features[] = {
	{.stack = "",
     .since = "",
     .source = "any other software: what is not stated is off, as with Megatron-LM's flags"},
	{
		.stack = "megatron",
		.since = "",
		.wide_grads = true,
		.source = "Megatron-LM's flags: what is not stated is off; training in bf16 turns "
				  "--accumulate-allreduce-grads-in-fp32 on (megatron/training/arguments.py)",
	},
	{
		CORE_TODAY,
		.stack = "megatron",
		.since = "26.06",
		.source = "Megatron-Core as the performance recipes of nemo 26.06 run it: the answer to a "
				  "question without a launch line",
	},
	{
		.stack = "llm-foundry",
		.since = "",
		.fused_loss = true,
		.first_flash = true,
		.source = "mosaicml/llm-foundry scripts/train/benchmarking and yamls: model.loss_fn "
				  "fused_crossentropy, attn_impl triton with alibi",
	},
	{
		DEEPSPEED,
		.stack = "deepspeed",
	},
	{
		DEEPSPEED,
		.stack = "megatron-deepspeed",
	},
	{
		NEMO,
		EARLY_CUDNN,
		.since = "",
		.source =
			"NVIDIA-NeMo/NeMo 24.12 performance recipes: bf16 gradients on the wire, fused loss, "
			"userbuffers overlap of tensor parallelism, experts not split by tensor parallelism, "
			"all-to-all dispatcher, no CUDA graphs",
	},
	{
		NEMO,
		.since = "25.09",
		.by_node = true,
		.overlap_across = true,
		.source = "NVIDIA-NeMo/Megatron-Bridge scripts/performance: DeepEP or HybridEP; "
				  "moe_a2a_overlap off in racks, on for DeepSeek-V3 on B200 and Qwen3 235B on H100",
	},
	{
		NEMO,
		.since = "26.02",
		BLACKWELL_GRAPHS,
		.by_node = true,
		.overlap_across = true,
		.source = "NVIDIA-NeMo/Megatron-Bridge scripts/performance/configs: CUDA graphs of "
				  "attention, router and preprocessing on Blackwell; cuda_graph_impl none on H100",
	},
	{
		CORE_TODAY,
		.stack = "nemo",
		.since = "26.06",
		.source = "as before; for mixtures in fp8_mx cuda_graph_impl full_iteration, "
				  "cutedsl_fused_grouped_mlp and moe_a2a_overlap",
	},
	{
		MLPERF,
		EARLY_CUDNN,
		.since = "",
		.source = "mlcommons training results, NVIDIA's configurations",
	},
	{
		MLPERF,
		EARLY_CUDNN,
		.since = "v5.0",
		.cuda_graphs = true,
		.source = "mlcommons training results v5.0 and later: as before, with CUDA graphs",
	},
	{
		MLPERF,
		.since = "v5.1",
		.cuda_graphs = true,
		.narrow_attention = true,
		.source = "as before, with cuDNN of autumn 2025, attention in FP8",
	},
	{
		MLPERF,
		.since = "v6.0",
		WHOLE_GRAPHS,
		.narrow_attention = true,
		.in_mxfp8 = true,
		.etp = 1,
		.source = "mlcommons training results v6.0: Megatron-Bridge as in nemo 26.06; on Hopper "
				  "graphs of attention and router only",
	},
	{
		MLPERF_LORA,
		EARLY_CUDNN,
		.since = "",
		.source = "mlcommons training results, llama2_70b_lora",
	},
	{
		MLPERF_LORA,
		EARLY_CUDNN,
		.since = "v4.1",
		.cuda_graphs = true,
		.source = "mlcommons training results v4.1 and later: as before, with CUDA graphs",
	},
	{
		MLPERF_LORA,
		.since = "v5.1",
		.cuda_graphs = true,
		.narrow_attention = true,
		.source = "as before, with cuDNN of autumn 2025, attention in FP8",
	},
	{
		.stack = "pax",
		.since = "",
		.cuda_graphs = true,
		.source = "NVIDIA/JAX-Toolbox: XLA compiles the step and runs it in command buffers",
	},
	{
		.stack = "torchtitan",
		.since = "",
		.wide_grads = true,
		.cp_contiguous = true,
		.grouped_experts = true,
		.etp = 1,
		.torchao = true,
		.source = "pytorch/torchtitan: FSDP2's MixedPrecisionPolicy keeps and reduces gradients in "
				  "fp32; context parallelism splits the sequence into one piece per rank; "
				  "torch._grouped_mm multiplies all experts, which expert parallelism keeps whole; "
				  "torchao's float8 layers",
	},
	{
		.stack = "automodel",
		.since = "",
		.wide_grads = true,
		.cp_contiguous = true,
		.grouped_experts = true,
		.torchao = true,
		.source = "NVIDIA-NeMo/Automodel on FSDP2, as torchtitan",
	},
};

enum { FEATURES = sizeof features / sizeof *features };

const lk_stack_features *lk_stack_features_at(int index) {
	return index >= 0 && index < FEATURES ? &features[index] : NULL;
}

const lk_stack_features *lk_stack_features_of(const char *stack, const char *release) {
	const lk_stack_features *best = NULL;
	for (int i = 0; i < FEATURES; i++) {
		const lk_stack_features *entry = &features[i];
		if (strcmp(entry->stack, stack) != 0) continue;
		if (*release != '\0' && lk_release_compare(entry->since, release) > 0) continue;
		if (!best || lk_release_compare(best->since, entry->since) < 0) best = entry;
	}
	return best ? best : &features[0];
}

bool lk_stack_has_releases(const char *stack) {
	for (int i = 0; i < FEATURES; i++)
		if (*features[i].since && strcmp(features[i].stack, stack) == 0) return true;
	return false;
}

const char *lk_stack_codebase(const char *stack) {
	static const char *const pairs[][2] = {
		{"megatron", "Megatron-Core"},
		{"megatron-bridge", "Megatron-Core"},
		{"nemo", "Megatron-Core"},
		{"mlperf", "Megatron-Core"},
		{"mlperf-lora", "Megatron-Core"},
		{"megatron-deepspeed", "DeepSpeed"},
		{"deepspeed", "DeepSpeed"},
		{"ddp", "FSDP"},
		{"fsdp", "FSDP"},
		{"llm-foundry", "FSDP"},
		{"torchtitan", "FSDP"},
		{"automodel", "FSDP"},
		{"pax", "XLA"},
	};
	for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
		if (strcmp(pairs[i][0], stack) == 0) return pairs[i][1];
	return stack;
}

lk_stack_features lk_stack_features_for(const lk_stack_features *of, lk_arch arch, lk_dtype dtype) {
	lk_stack_features here = *of;
	bool whole = dtype == LK_MXFP8 || !of->in_mxfp8;
	here.cuda_graphs &= arch == LK_ARCH_BLACKWELL || !of->on_blackwell;
	here.graph_experts &= here.cuda_graphs && whole;
	here.expert_overlap &= whole;
	return here;
}

const lk_stack_features *lk_job_features(const lk_job *job) {
	if (!job->stack_recipe) return &features[0];
	return lk_stack_features_of(*job->profile ? job->profile : job->stack, job->release);
}

/* Also of a launch line, which states no library. */
bool lk_job_casts_by_torchao(const lk_job *job) {
	const char *stack = *job->profile ? job->profile : job->stack;
	return lk_stack_features_of(stack, job->release)->torchao;
}

lk_fp8_recipe lk_job_fp8_recipe(const lk_job *job) {
	bool late = job->fp8_recipe == LK_FP8_DELAYED && job->dtype == LK_FP8;
	return late && lk_job_casts_by_torchao(job) ? LK_FP8_TENSORWISE : job->fp8_recipe;
}

bool lk_job_overlaps_reduce(const lk_job *job) {
	return !lk_job_features(job)->late_reduce || job->sharding >= LK_SHARD_ZERO2;
}
