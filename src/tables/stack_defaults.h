/* stack_defaults.h: what a table of runs leaves empty, by software stack. */
#ifndef LK_ACCURACY_STACK_DEFAULTS_H
#define LK_ACCURACY_STACK_DEFAULTS_H

#include "model/layout/job.h"

typedef struct lk_stack_defaults {
	const char *stack;       /* column `stack` of the table of runs */
	const char *since;       /* first release that it holds for; "" all */
	const char *job_stack;   /* lk_job.stack: whose rules of layout, padding and buckets apply */
	/* for columns that may be empty */
	lk_sharding sharding;
	lk_recompute recompute;
	lk_attn_kernel attention;
	lk_dtype dtype;
	/* for what has no column */
	double dropout;
	lk_switch overlap_grad_reduce, overlap_param_gather, tp_overlap, cuda_graphs, graph_experts, expert_overlap, fused_loss;
	lk_switch fp32_grads, grad_reduce_fp32, master_weights, cp_balanced;
	lk_dispatcher dispatcher;
	double moe_imbalance;
	int etp;                 /* 0: as tp */
	int lora_rank;
	bool compile;
	const char *source;      /* where this is stated, or why it is assumed */
} lk_stack_defaults;

/* The entry of the stack with the latest `since` that is not after the release; an empty release is before all others.
 * Unknown stacks get the entry of the stack "". Never NULL. */
const lk_stack_defaults *lk_stack_defaults_of(const char *stack, const char *release);

/* All entries, for documents and tests; NULL past the end. */
const lk_stack_defaults *lk_stack_defaults_at(int index);

#endif
