/* stack_defaults.c: the defaults for columns that a table of measured runs leaves empty. An entry
 * is chosen only by the column `stack`: nothing here depends on a model, a GPU or a run. A stated
 * column always wins. Features that the software itself turns on, by release, are in
 * model/layout/job_stack.c. */
#include "tables/tables.h"

#include <stddef.h>
#include <string.h>

static const lk_stack_defaults table[] = {
	{
		.stack = "",
		.job_stack = "megatron",
		.sharding = LK_SHARD_ZERO1,
		.recompute = LK_RECOMPUTE_NONE,
		.dtype = LK_BF16,
		.source =
			"any other stack: Megatron-LM's default flags (--bf16 --use-distributed-optimizer "
			"--use-flash-attn)",
	},
	{
		.stack = "llm-foundry",
		.job_stack = "llm-foundry",
		.sharding = LK_SHARD_ZERO3,
		.recompute = LK_RECOMPUTE_NONE,
		.dtype = LK_BF16,
		.source = "mosaicml/llm-foundry scripts/train/benchmarking and yamls: FSDP",
	},
	{
		.stack = "megatron-deepspeed",
		.job_stack = "megatron-deepspeed",
		.sharding = LK_SHARD_NONE,
		.recompute = LK_RECOMPUTE_FULL,
		.attention = LK_KERNEL_UNFUSED,
		.dtype = LK_FP16,
		.dropout = 0.1,
		.source = "vTrain (MICRO 2024) and its profiler: fp16, scale-mask-softmax with dropout, "
				  "full recomputation",
	},
	{
		.stack = "nemo",
		.job_stack = "nemo",
		.sharding = LK_SHARD_ZERO1,
		.recompute = LK_RECOMPUTE_NONE,
		.dtype = LK_BF16,
		.moe_imbalance = 1,
		.source = "performance recipes of NVIDIA-NeMo/NeMo and Megatron-Bridge: distributed "
				  "optimizer, moe_router_force_load_balancing",
	},
	{
		.stack = "mlperf",
		.job_stack = "mlperf",
		.sharding = LK_SHARD_ZERO1,
		.recompute = LK_RECOMPUTE_NONE,
		.dtype = LK_FP8,
		.source = "mlcommons training results, NVIDIA's configurations: fp8, distributed "
				  "optimizer; routing as the network learns it",
	},
	{
		.stack = "mlperf-lora",
		.job_stack = "mlperf-lora",
		.sharding = LK_SHARD_NONE,
		.recompute = LK_RECOMPUTE_NONE,
		.dtype = LK_FP8,
		.source = "mlcommons training results, llama2_70b_lora: adapters on frozen base weights, "
				  "fp8",
	},
	{
		.stack = "torchtitan",
		.job_stack = "torchtitan",
		.sharding = LK_SHARD_ZERO3,
		.recompute = LK_RECOMPUTE_FULL,
		.dtype = LK_BF16,
		.source = "pytorch/torchtitan benchmarks and training configurations: FSDP2, which state "
				  "what they recompute",
	},
	{
		.stack = "automodel",
		.job_stack = "torchtitan",
		.sharding = LK_SHARD_ZERO3,
		.recompute = LK_RECOMPUTE_FULL,
		.dtype = LK_BF16,
		.source = "NVIDIA-NeMo/Automodel examples/llm_benchmark: FSDP2; they checkpoint every "
				  "layer (activation_checkpointing: true)",
	},
};

enum { ENTRIES = sizeof table / sizeof *table };

const lk_stack_defaults *lk_stack_defaults_at(int index) {
	return index >= 0 && index < ENTRIES ? &table[index] : NULL;
}

const lk_stack_defaults *lk_stack_defaults_of(const char *stack) {
	for (int i = 0; i < ENTRIES; i++)
		if (strcmp(table[i].stack, stack) == 0) return &table[i];
	return &table[0];
}
