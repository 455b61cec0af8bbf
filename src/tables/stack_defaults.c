/* stack_defaults.c: the one table of defaults for what a table of measured runs leaves empty. An
 * entry is chosen by the columns `stack` and `release` alone: nothing here depends on a model, a
 * GPU or a run. A stated column always wins. */
#include "tables/tables.h"

#include <stddef.h>
#include <string.h>

#include "step/step.h"

/* What all releases of a stack have in common. */
#define NEMO_RECIPE                                                                           \
	.stack = "nemo", .job_stack = "nemo", .sharding = LK_SHARD_ZERO1,                         \
	.recompute = LK_RECOMPUTE_NONE, .dtype = LK_BF16, .overlap_grad_reduce = LK_ON,           \
	.tp_overlap = LK_ON, .fused_loss = LK_ON, .grad_reduce_fp32 = LK_OFF, .moe_imbalance = 1, \
	.etp = 1, .lora_rank = 16
#define MLPERF_RECIPE                                                              \
	.stack = "mlperf", .job_stack = "nemo", .sharding = LK_SHARD_ZERO1,            \
	.recompute = LK_RECOMPUTE_NONE, .dtype = LK_FP8, .overlap_grad_reduce = LK_ON, \
	.tp_overlap = LK_ON, .fused_loss = LK_ON, .grad_reduce_fp32 = LK_OFF, .lora_rank = 16
#define MLPERF_LORA_RECIPE                                                                     \
	.stack = "mlperf-lora", .job_stack = "nemo", .sharding = LK_SHARD_NONE,                    \
	.recompute = LK_RECOMPUTE_NONE, .dtype = LK_FP8, .tp_overlap = LK_ON, .fused_loss = LK_ON, \
	.lora_rank = 16

static const lk_stack_defaults table[] = {
	{
		.stack = "",
		.since = "",
		.job_stack = "megatron",
		.sharding = LK_SHARD_ZERO1,
		.recompute = LK_RECOMPUTE_NONE,
		.dtype = LK_BF16,
		.lora_rank = 16,
		.source =
			"any other stack: Megatron-LM's default flags (--bf16 --use-distributed-optimizer "
			"--use-flash-attn)",
	},
	{
		/* The fused loss is llm-foundry's default (model.loss_fn fused_crossentropy); its FSDP
         * yamls say mixed_precision PURE, so that gradients are kept and reduced in bf16. */
		.stack = "llm-foundry",
		.since = "",
		.job_stack = "llm-foundry",
		.sharding = LK_SHARD_ZERO3,
		.recompute = LK_RECOMPUTE_NONE,
		.dtype = LK_BF16,
		.fused_loss = LK_ON,
		.fp32_grads = LK_OFF,
		.grad_reduce_fp32 = LK_OFF,
		.lora_rank = 16,
		.source = "mosaicml/llm-foundry scripts/train/benchmarking and yamls: FSDP, flash "
				  "attention, fused loss",
	},
	{
		.stack = "megatron-deepspeed",
		.since = "",
		.job_stack = "megatron-deepspeed",
		.sharding = LK_SHARD_NONE,
		.recompute = LK_RECOMPUTE_FULL,
		.attention = LK_KERNEL_UNFUSED,
		.dtype = LK_FP16,
		.dropout = 0.1,
		.lora_rank = 16,
		.overlap_grad_reduce = LK_OFF,
		.source = "vTrain (MICRO 2024) and its profiler: fp16, scale-mask-softmax with dropout, "
				  "full recomputation; "
				  "DeepSpeed's engine without ZeRO reduces gradients after the last backward pass",
	},
	{
		/* Megatron-Bridge's performance recipes: distributed optimizer with both overlaps, bf16
         * gradients on the wire, fused loss, userbuffers overlap of tensor parallelism, experts not
         * split by tensor parallelism. */
		NEMO_RECIPE,
		.since = "",
		.dispatcher = LK_DISPATCH_ALLTOALL,
		.source =
			"NVIDIA-NeMo/NeMo 24.12 performance recipes: all-to-all dispatcher, no CUDA graphs",
	},
	{
		NEMO_RECIPE,
		.since = "25.09",
		.dispatcher = LK_DISPATCH_NODE,
		.expert_overlap = LK_ON,
		.source = "NVIDIA-NeMo/Megatron-Bridge scripts/performance: DeepEP or HybridEP, "
				  "moe_router_force_load_balancing; "
				  "expert traffic overlapped in interleaved pipelines: assumed",
	},
	{
		NEMO_RECIPE,
		.since = "26.02",
		.cuda_graphs = LK_ON,
		.dispatcher = LK_DISPATCH_NODE,
		.expert_overlap = LK_ON,
		.source = "NVIDIA-NeMo/Megatron-Bridge scripts/performance: CUDA graphs of attention, "
				  "router and preprocessing",
	},
	{
		NEMO_RECIPE,
		.since = "26.06",
		.cuda_graphs = LK_ON,
		.graph_experts = LK_ON,
		.dispatcher = LK_DISPATCH_NODE,
		.expert_overlap = LK_ON,
		.source = "as before, with graphs of whole iterations: assumed from the launch times that "
				  "the runs leave room for",
	},
	{
		MLPERF_RECIPE,
		.since = "",
		.source = "mlcommons training results, NVIDIA's configurations: fp8, distributed "
				  "optimizer, tensor-parallel overlap",
	},
	{
		MLPERF_RECIPE,
		.since = "v5.0",
		.cuda_graphs = LK_ON,
		.source = "mlcommons training results v5.0 and later: as before, with CUDA graphs",
	},
	{
		MLPERF_RECIPE,
		.since = "v6.0",
		.cuda_graphs = LK_ON,
		.graph_experts = LK_ON,
		.dispatcher = LK_DISPATCH_NODE,
		.expert_overlap = LK_ON,
		.etp = 1,
		.source = "mlcommons training results v6.0: Megatron-Bridge as in nemo 26.06, graphs of "
				  "whole iterations; routing as the network learns it",
	},
	{
		MLPERF_LORA_RECIPE,
		.since = "",
		.source = "mlcommons training results, llama2_70b_lora: rank 16 adapters on frozen base "
				  "weights, fp8",
	},
	{
		MLPERF_LORA_RECIPE,
		.since = "v4.1",
		.cuda_graphs = LK_ON,
		.source = "mlcommons training results v4.1 and later: as before, with CUDA graphs",
	},
	{
		/* FSDP2's MixedPrecisionPolicy in torchtitan: parameters bf16, reduction fp32. Context
         * parallelism splits the sequence into one contiguous piece per rank. */
		.stack = "torchtitan",
		.since = "",
		.job_stack = "torchtitan",
		.sharding = LK_SHARD_ZERO3,
		.recompute = LK_RECOMPUTE_SELECTIVE,
		.dtype = LK_BF16,
		.grad_reduce_fp32 = LK_ON,
		.fp32_grads = LK_ON,
		.cp_balanced = LK_OFF,
		.lora_rank = 16,
		.source = "pytorch/torchtitan benchmarks and training configurations: FSDP2, no load "
				  "balancing over context",
	},
};

enum {
	ENTRIES = sizeof table / sizeof *table
};

const lk_stack_defaults *lk_stack_defaults_at(int index) {
	return index >= 0 && index < ENTRIES ? &table[index] : NULL;
}

const lk_stack_defaults *lk_stack_defaults_of(const char *stack, const char *release) {
	const lk_stack_defaults *best = NULL;
	for (int i = 0; i < ENTRIES; i++) {
		const lk_stack_defaults *entry = &table[i];
		if (strcmp(entry->stack, stack) != 0 || lk_release_compare(entry->since, release) > 0)
			continue;
		if (!best || lk_release_compare(best->since, entry->since) < 0) best = entry;
	}
	return best ? best : &table[0];
}
