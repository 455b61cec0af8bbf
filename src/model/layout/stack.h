/* stack.h: what stacks of software turn on by themselves, by release. */
#ifndef LK_MODEL_LAYOUT_STACK_H
#define LK_MODEL_LAYOUT_STACK_H

#include <stdbool.h>

#include "hw/hw.h"

/* Compare releases by their numbers: "v4.1" < "v5.0", "26.04" < "26.04.01"; "" comes first. Returns
 * as strcmp. */
int lk_release_compare(const char *a, const char *b);

/* The stacks whose defaults are known, ended by NULL. */
extern const char *const lk_stack_names[];
/* Whether it trains with Megatron-Core; and whether layouts, padding and buckets are those of
 * Megatron-LM, which megatron-deepspeed shares. */
bool lk_stack_is_megatron_core(const char *stack);
bool lk_stack_like_megatron(const char *stack);

/* Features that a stack's recipes turn on from some release on. */
typedef struct lk_stack_features {
	const char *stack, *since; /* since: "" all releases */
	bool tp_overlap, fused_loss, cuda_graphs, graph_experts, expert_overlap;
	bool early_attention;  /* cuDNN before 9.13, the first with attention on Blackwell */
	bool grouped_experts;  /* one kernel multiplies all experts, not a loop over them */
	bool first_flash;      /* FlashAttention of 2022 in Triton, which can add ALiBi's biases */
	bool narrow_attention; /* products of attention in 8 bits where those of layers are */
	bool by_node;          /* MoE: one copy per node, LK_DISPATCH_NODE */
	bool wide_grads;       /* gradients are kept and reduced in fp32 */
	bool late_reduce;      /* below ZeRO 2: gradients are reduced after the last backward pass */
	bool cp_contiguous;    /* context parallelism is not load-balanced */
	bool torchao;        /* linear layers in 8 bits are torchao's: factors of this step's tensors */
	bool on_blackwell;   /* CUDA graphs on Blackwell only */
	bool overlap_across; /* expert traffic is overlapped if it leaves the node */
	bool in_mxfp8;       /* graphs of experts, and their overlap, only in MXFP8 */
	bool in_fp8;         /* products in fp8 where the device has it */
	bool adapters;       /* trains adapters, whose optimizer is not sharded */
	int etp;             /* 0: equal to tp */
	const char *source;  /* where this is stated, or why it is assumed */
} lk_stack_features;

/* The entry of the stack with the latest `since` that is not after the release; an empty release is
 * the newest. Unknown stacks get the entry of the stack "". Never NULL. */
const lk_stack_features *lk_stack_features_of(const char *stack, const char *release);
/* Whether releases of the stack differ. */
bool lk_stack_has_releases(const char *stack);
/* The codebase whose kernels and schedules a stack runs: "Megatron-Core" for nemo; another name as
 * it is. */
const char *lk_stack_codebase(const char *stack);
/* All entries, for documents and tests; NULL past the end. */
const lk_stack_features *lk_stack_features_at(int index);
/* `of` without the features that the software leaves off on this GPU or in this format. */
lk_stack_features lk_stack_features_for(const lk_stack_features *of, lk_arch arch, lk_dtype dtype);

#endif
