/* choices.h: what a job chooses among (task, sharding, schedule, recomputation, optimizer, kernels,
 * losses), and the words for it. */
#ifndef LK_MODEL_LAYOUT_CHOICES_H
#define LK_MODEL_LAYOUT_CHOICES_H

typedef enum lk_task { LK_TASK_PRETRAIN, LK_TASK_SFT, LK_TASK_LORA } lk_task;
/* Numbers of a frozen base in fewer than 16 bits (optimizers.c). */
typedef enum lk_base {
	LK_BASE_NF4,      /* QLoRA (arXiv 2305.14314) */
	LK_BASE_INT8,     /* LLM.int8 (arXiv 2208.07339) */
	LK_BASE_NF4_HELD, /* NF4 of bitsandbytes 0.42 in a loop that holds a step's loss, as litgpt's */
	LK_BASE_NF4_DENSE, /* experts stay in 16 bits */
	LK_BASE_INT8_DENSE,
} lk_base;
/* What the loss of fine-tuning compares (job_loss.c). */
typedef enum lk_objective {
	LK_OBJECTIVE_TOKENS, /* each token with the next one */
	LK_OBJECTIVE_DPO,    /* pairs of sequences, and a reference network (arXiv 2305.18290) */
	LK_OBJECTIVE_KTO,    /* single sequences, likewise (arXiv 2402.01306) */
	LK_OBJECTIVE_ORPO,   /* pairs alone (arXiv 2403.07691) */
	LK_OBJECTIVE_REWARD, /* the scores of a pair (arXiv 2203.02155, section 3.5) */
} lk_objective;
typedef enum lk_sharding {
	LK_SHARD_NONE,  /* plain DDP: all-reduce of gradients */
	LK_SHARD_ZERO1, /* distributed optimizer: reduce-scatter gradients, all-gather parameters */
	LK_SHARD_ZERO2, /* + gradients sharded; FSDP's SHARD_GRAD_OP */
	LK_SHARD_ZERO3, /* + parameters sharded; FSDP's FULL_SHARD */
} lk_sharding;
typedef enum lk_recompute {
	LK_RECOMPUTE_NONE,
	LK_RECOMPUTE_SELECTIVE,
	LK_RECOMPUTE_FULL
} lk_recompute;
/* Parts of a layer that Megatron-LM's selective recomputation runs again (--recompute-modules). */
typedef enum lk_module {
	LK_MODULE_CORE_ATTN = 1 << 0,
	LK_MODULE_MLP = 1 << 1,       /* of dense layers */
	LK_MODULE_MOE = 1 << 2,       /* router, dispatch, experts, combine, shared experts */
	LK_MODULE_LAYERNORM = 1 << 3, /* the norms before attention and MLP */
	LK_MODULE_MOE_ACT = 1 << 4,
	LK_MODULE_MLA_UP_PROJ = 1 << 5, /* rotary positions included */
	LK_MODULE_SHARED_EXPERTS = 1 << 6,
	LK_MODULES_END = 1 << 7,
} lk_module;
typedef enum lk_optimizer {
	LK_OPT_ADAM,
	LK_OPT_SGD,
	LK_OPT_LAMB,
	LK_OPT_ADAFACTOR,
	LK_OPT_MUON,
	LK_OPT_SOAP,
	LK_OPT_SHAMPOO,
	LK_OPT_LION,
	LK_OPT_ADAM_MINI,
	LK_OPT_ADAM_8BIT,
	LK_OPT_ADAM_4BIT,
	LK_OPT_ADAM_FLASH,
	LK_OPT_LION_8BIT,
	LK_OPT_ADEMAMIX,
	LK_OPT_ADEMAMIX_8BIT,
	LK_OPTIMIZERS
} lk_optimizer;
/* How Muon works on matrices that tensor parallelism divides (Megatron-LM's --muon-tp-mode). */
typedef enum lk_muon_tp {
	LK_MUON_DUPLICATED,  /* gathered, every rank does all of it */
	LK_MUON_DISTRIBUTED, /* each rank its part; products of rows with rows are summed */
	LK_MUON_BLOCKWISE    /* each rank's part as a separate matrix: different mathematics */
} lk_muon_tp;
typedef enum lk_cp_kind {
	LK_CP_RING,
	LK_CP_ALLGATHER,
	LK_CP_ULYSSES /* tokens are exchanged for heads */
} lk_cp_kind;
typedef enum lk_attn_kernel { LK_KERNEL_FLASH, LK_KERNEL_UNFUSED } lk_attn_kernel;
/* Which library's fused attention: what it keeps for the backward pass depends on its layout. */
typedef enum lk_attn_library {
	LK_ATTN_LIBRARY_AUTO,
	LK_ATTN_LIBRARY_CUDNN,
	LK_ATTN_LIBRARY_FLASH, /* FlashAttention-2 */
	LK_ATTN_LIBRARY_FLASH3
} lk_attn_library;
/* A running average of the parameters, and where it is kept. */
typedef enum lk_average {
	LK_AVERAGE_NONE,
	LK_AVERAGE_DEVICE,
	LK_AVERAGE_HOST /* updated there while the next step runs */
} lk_average;
typedef enum lk_dispatcher {
	LK_DISPATCH_ALLTOALL,
	LK_DISPATCH_ALLGATHER,
	LK_DISPATCH_NODE /* one copy per node: DeepEP, HybridEP */
} lk_dispatcher;
typedef enum lk_schedule_kind {
	LK_SCHED_GPIPE,
	LK_SCHED_1F1B,
	LK_SCHED_INTERLEAVED,
	LK_SCHED_ZB_H1,
	LK_SCHED_ZB_V,
	LK_SCHED_DUALPIPE,
	LK_SCHED_ZB_H2,
	LK_SCHED_DUALPIPE_V,
	LK_SCHED_V_HALF,
	LK_SCHED_V_MIN,
	LK_SCHEDULES,
} lk_schedule_kind;

/* How many of the logits exist at a time (job_loss.c, docs/method/memory.md). */
typedef enum lk_loss_kind {
	LK_LOSS_LOGITS,  /* all logits of a micro-batch, until the backward pass */
	LK_LOSS_LINEAR,  /* logits of some tokens: the loss computes the head's products and their
	                    gradients in the forward pass, and overwrites logits with gradients
	                    (Liger) */
	LK_LOSS_CUT,     /* no logits: they stay on the chip and are recomputed for the backward pass
	                    (Cut Cross-Entropy, arXiv 2411.09009) */
	LK_LOSS_CHUNKED, /* logits of some tokens, by the stack's own loss, with gradients in the
	                  * forward pass */
	LK_LOSS_OUTPUTS, /* all logits, as pieces whose gradients replace them one by one */
} lk_loss_kind;

/* How a PyTorch optimizer updates the parameters: one by one, by operations on lists of them, or in
 * one kernel. */
typedef enum lk_update {
	LK_UPDATE_USUAL, /* not stated; also every optimizer but PyTorch's Adam and SGD */
	LK_UPDATE_LOOP,
	LK_UPDATE_FOREACH,
	LK_UPDATE_FUSED
} lk_update;

/* Three-valued switches; lk_job_complete decides what a user leaves open. */
typedef enum lk_switch { LK_AUTO = 0, LK_ON = 1, LK_OFF = -1 } lk_switch;

/* How fp8 products scale their operands (Transformer Engine, low_precision_training;
 * torchao). */
typedef enum lk_fp8_recipe {
	LK_FP8_DELAYED,    /* one factor per tensor, from earlier steps: cast as it is read */
	LK_FP8_TENSORWISE, /* one factor per tensor, its own: read once more to find its largest
	                    * value */
	LK_FP8_BLOCKWISE,  /* one factor per 128 elements, stored with them */
	LK_FP8_ROWWISE,    /* one factor per row of each product's operand (torchao): the copy for the
	                    * weight gradient has factors of its own */
} lk_fp8_recipe;

/* Words by lk_module, lk_optimizer, lk_muon_tp and lk_loss_kind, each list ended by NULL. */
extern const char *const lk_module_name[];
extern const char *const lk_optimizer_names[LK_OPTIMIZERS + 1];
extern const char *const lk_muon_tp_names[];
extern const char *const lk_loss_names[];

#endif
