/* job.h: a training job: the network, how it is laid out over ranks, in which numbers, with which
 * switches. Written by config readers, launch-flag readers and the options of predict; read by the
 * graph builder. */
#ifndef LK_MODEL_LAYOUT_JOB_H
#define LK_MODEL_LAYOUT_JOB_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "hw/hw.h"
#include "model/network/model.h"

typedef enum lk_task { LK_TASK_PRETRAIN, LK_TASK_SFT, LK_TASK_LORA } lk_task;
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
	LK_MUON_DISTRIBUTED, /* each rank its part, the products of rows with rows are summed */
	LK_MUON_BLOCKWISE    /* each rank's part as a matrix of its own: other mathematics */
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

/* How much of the logits exists at a time (job_loss.c, docs/method/memory.md). */
typedef enum lk_loss_kind {
	LK_LOSS_LOGITS,  /* all of a micro-batch, until the backward pass */
	LK_LOSS_LINEAR,  /* of some tokens: the loss makes the head's products and their gradients in
	                    the forward pass, and writes gradients over logits (Liger) */
	LK_LOSS_CUT,     /* none: logits stay on the chip and are made again for the backward pass (Cut
	                    Cross-Entropy, arXiv 2411.09009) */
	LK_LOSS_CHUNKED, /* of some tokens, by the stack's own loss, with gradients in the forward pass
	                  */
} lk_loss_kind;

/* How an optimizer of PyTorch goes through the parameters: one after the other, in lists of
 * operations that each write all of them, or in one kernel. */
typedef enum lk_update {
	LK_UPDATE_USUAL, /* not stated; and of all but Adam and SGD of PyTorch */
	LK_UPDATE_LOOP,
	LK_UPDATE_FOREACH,
	LK_UPDATE_FUSED
} lk_update;

/* Three-valued switches: what a user leaves open, lk_job_complete decides. */
typedef enum lk_switch { LK_AUTO = 0, LK_ON = 1, LK_OFF = -1 } lk_switch;

/* Zero means "not said" in every field; lk_job_complete fills what is open and checks the whole. */
#define LK_STACK_DEFAULT "megatron" /* the software that is assumed where none is stated */

enum {
	LK_JOB_IMAGES = 64 /* of a GPU, where nothing is said of a convolution net's batch */
};

/* How products in fp8 scale their operands (Transformer Engine, low_precision_training). */
typedef enum lk_fp8_recipe {
	LK_FP8_DELAYED,    /* a factor of the tensor, from the steps before: cast as it is read */
	LK_FP8_TENSORWISE, /* a factor of the tensor itself: read once more, for its largest value */
	LK_FP8_BLOCKWISE,  /* a factor for every 128 elements, kept with them */
} lk_fp8_recipe;

typedef struct lk_job {
	lk_model model;
	lk_task task;
	int lora_rank;    /* default 16 */
	bool narrow_base; /* adapters: frozen matrices of layers are kept in 4 bits (QLoRA) */
	bool dpo; /* pairs of sequences, which a frozen reference network reads too; mbs and gbs count
	             sequences */
	const lk_model *teacher; /* distillation: a frozen network that reads each micro-batch too;
	                            NULL: none */
	bool forward_only;       /* nothing is learned: forward passes that keep nothing, as for the
	                            log-probabilities of sequences */
	bool dora;               /* adapters: weights as direction and magnitude */
	bool freeze_tower;       /* the encoder of images is not trained, its projector is */

	int gpus;
	int tp, pp, vp, cp, ep, etp, dp;
	lk_switch sequence_parallel; /* default: on with tp > 1 */
	lk_cp_kind cp_kind;
	int cp_heads; /* ULYSSES: ranks that exchange tokens for heads, a ring between such groups; 0
	                 all of cp */
	lk_switch cp_balanced; /* zig-zag split of causal attention; default on */
	lk_sharding sharding;
	bool sharding_said;
	int shard_group;  /* hybrid sharding: ranks that share one copy; 0 = all of DP */
	int shard_copies; /* the same by the number of copies, until lk_job_complete knows the ranks; 0:
	                     not stated. A group that is stated comes before it */
	lk_schedule_kind schedule;
	bool schedule_said; /* else 1f1b, interleaved with vp > 1 */
	int first_stage_layers, last_stage_layers;
	bool account_embedding, account_loss; /* embedding / loss count as a layer in the split */
	bool split_open; /* nobody says how layers are split: what does not divide evenly is split as
	                    recipes do, see job.c */
	char pipeline_layout[512]; /* Megatron's --pipeline-model-parallel-layout; "" none */

	int mbs;
	int gbs;
	int gbs_wanted;  /* where gbs is open: the largest batch up to this one that the layout divides;
	                    0: none is wanted */
	int seq;         /* of a decoder, or of the encoder */
	int decoder_seq; /* ENCDEC; 0: as seq */
	double pack_share, pack_spread; /* documents packed into sequences: mean and deviation of the
	                                   share of pairs that is left of a sequence; 0: one document.
	                                   Above 1: sequences of many lengths, `seq` in the mean */
	int microbatch_group; /* interleaved: micro-batches that pass a chunk before the next one; 0: pp
	                       */
	int microbatches;     /* per data-parallel rank, derived: gbs / (mbs * dp) */

	lk_dtype dtype;  /* of the matrix multiplications */
	bool dtype_said; /* else bf16 where the device has it, fp16, fp32 */
	lk_optimizer optimizer;
	lk_update update;
	lk_average average;
	int muon_steps; /* Newton-Schulz iterations; default 5 */
	bool muon_syrk; /* half of each gram matrix is computed, as it is symmetric */
	lk_muon_tp muon_tp;
	lk_dtype state_dtype;     /* of the optimizer's moments; LK_FP32 */
	lk_switch master_weights; /* fp32 copy of 16-bit weights; default on */
	lk_switch fp32_grads; /* main gradients in fp32 (Megatron); off for FSDP's bf16 accumulation */
	lk_switch grad_reduce_fp32; /* gradients travel in fp32; default: off */

	lk_recompute recompute;
	bool recompute_said;
	int recompute_layers;  /* FULL: layers per stage that are recomputed; 0 = all */
	int recompute_modules; /* SELECTIVE in Megatron-LM: a set of lk_module; 0: the core of attention
	                        */

	lk_switch overlap_grad_reduce;  /* default on */
	lk_switch overlap_param_gather; /* default: as overlap_grad_reduce, with sharding */
	lk_switch overlap_p2p;          /* default: on but for gpipe and 1f1b */
	lk_switch tp_overlap;           /* userbuffers-like overlap of TP collectives; default off */
	double bucket_bytes; /* gradient bucket; default max(40 M, 1 M * dp) parameters as Megatron, 25
	                        MiB for DDP */

	bool offload_optimizer;
	bool offload_params;      /* ZeRO-3: a rank's pieces of the weights are in host memory too */
	bool offload_activations; /* what layers keep waits in host memory for the backward pass */
	lk_switch cuda_graphs;    /* default off */
	lk_attn_kernel attn_kernel;
	lk_attn_library attn_library;  /* default: Transformer Engine's choice by architecture */
	bool attn_library_said;        /* not the stack's usual one */
	bool early_attention;          /* cuDNN before 9.13, whatever the stack and its release */
	bool local_layers;             /* Megatron-LM's own layers in place of Transformer Engine's */
	bool deterministic;            /* Megatron's --deterministic-mode: same bits every time */
	lk_switch fused_cross_entropy; /* default off */
	double logit_share; /* share of all logits (positions x vocabulary) that are computed;
	                     * default 1. Masked language models can gather the masked positions first,
	                     * classifiers have a few columns */
	bool fused_kernels; /* hand-fused code: products add biases and activations and write what the
	                     * next product reads, attention takes packed heads; what passes over memory
	                     * remain are all listed */
	bool own_code;   /* a network of the program's own, whichever stack trains it: none of Hugging
	                    Face's */
	bool host_ahead; /* nothing on the device waits for the host at the end of a step: overflow and
	                    norm stay on the device */
	bool attention_mask;     /* the data loader makes a mask, a byte per pair of positions:
	                            Megatron-LM's default */
	bool native_loss_fusion; /* with fused_cross_entropy: Megatron-LM's own fusion, which makes fp32
	                          * copies; else the logits' gradient is written over them (Transformer
	                          * Engine, Liger) */
	lk_loss_kind loss;
	int loss_chunks;               /* CHUNKED: so many; 0: 8, as torchtitan and torchtune have */
	lk_switch defer_head_gradient; /* the head's weight gradient waits until the pipeline drains;
	                                  default off */
	int deferral_limit;            /* for so many micro-batches; 0 all */
	bool narrow_weights;           /* fp8: the weights themselves are kept in 8 bits (Megatron's
	                                  --fp8-param-gather) */
	int wide_first, wide_last;     /* so many layers compute in bf16, others in 8 or 4 bits */
	lk_fp8_recipe fp8_recipe;      /* of fp8 */
	bool delay_weights; /* paired passes: weight gradients of experts are made while the gradients
	                       of their inputs travel back (Megatron's --delay-wgrad-compute) */
	bool narrow_activations;  /* fp8: what gated activations take is kept in 8 bits (Megatron's
	                             --activation-func-fp8-input-store) */
	lk_switch grouped_gemm;   /* experts as grouped products of Transformer Engine, on streams of
	                           * their own; default: on for the experts of Megatron-like stacks, whose
	                           * products are priced so */
	lk_dispatcher dispatcher; /* where it was not said, the stack's */
	bool dispatcher_said;
	lk_switch fp8_dispatch; /* rows travel to their experts, and gradients of what comes back, in 8
	                           bits with a factor for every 128; default off */
	int dispatch_sms;       /* that the node dispatcher's kernels take; 0: as they are known to */
	double moe_imbalance;   /* tokens of the busiest expert rank over the mean; default 1.1 */
	bool compile;           /* torch.compile: element-wise operations are fused */
	lk_switch eager;     /* element-wise operations run one by one, as Hugging Face's networks are
	                        written; default: with the stacks ddp, fsdp and deepspeed, but compiled */
	int max_connections; /* CUDA_DEVICE_MAX_CONNECTIONS; 0 = default 8 */
	char nccl[256];      /* release and environment of NCCL (cost/collective), "" nothing stated */
	char stack[32]; /* software stack whose defaults apply: "megatron", "fsdp", "deepspeed", ... */
	char profile[32];  /* software stack whose measured efficiencies apply; default: `stack` */
	char release[16];  /* of it: "26.04"; "" the newest */
	bool stack_recipe; /* what nothing states is as the stack's recipes have it (lk_job_features);
	                    * not of a launch line, where what is not stated is off */
	lk_switch expert_overlap; /* expert traffic alongside the computation of another micro-batch
	                             (interleaved); default off */
	lk_switch graph_experts;  /* CUDA graphs hold the experts too; default off: their sizes vary */
	lk_switch scatter_messages; /* a pipeline message is cut among tensor-parallel ranks; default:
	                               DeepSpeed's engine does */
	bool padded_vocab_said;
	int padded_vocab;   /* derived: vocab rounded up to 128 * tp */
	int vocab_multiple; /* make_vocab_size_divisible_by; default 128 for Megatron-like stacks, 1
	                       else */
} lk_job;

/* Compares releases by their numbers: "v4.1" < "v5.0", "26.04" < "26.04.01"; "" comes first. As
 * strcmp. */
int lk_release_compare(const char *a, const char *b);

/* Features that a stack's recipes turn on from a release on. */
typedef struct lk_stack_features {
	const char *stack, *since; /* since: "" all releases */
	bool tp_overlap, fused_loss, cuda_graphs, graph_experts, expert_overlap;
	bool early_attention; /* with cuDNN before 9.13, whose attention on Blackwell was its first */
	bool by_node;         /* MoE: one copy per node, LK_DISPATCH_NODE */
	bool wide_grads;      /* gradients are kept and reduced in fp32 */
	bool late_reduce;     /* below ZeRO 2: gradients are reduced after the last backward pass */
	bool cp_contiguous;   /* context parallelism does not balance */
	bool on_blackwell;    /* graphs on Blackwell alone */
	bool overlap_across;  /* expert traffic overlapped where it leaves the node */
	bool in_mxfp8;        /* graphs of experts, and their overlap, in MXFP8 alone */
	int etp;              /* 0: as tp */
	const char *source;   /* where this is stated, or why it is assumed */
} lk_stack_features;

/* The entry of the stack with the latest `since` that is not after the release; an empty release is
 * the newest. Unknown stacks get the entry of the stack "". Never NULL. */
const lk_stack_features *lk_stack_features_of(const char *stack, const char *release);
/* All entries, for documents and tests; NULL past the end. */
const lk_stack_features *lk_stack_features_at(int index);
/* Those that hold for a job where it does not say otherwise. */
const lk_stack_features *lk_job_features(const lk_job *job);
/* The same without what the software leaves off on such a GPU or in such a format. */
lk_stack_features lk_stack_features_for(const lk_stack_features *of, lk_arch arch, lk_dtype dtype);
/* Whether its software overlaps the reduction of gradients where the job does not say. */
bool lk_job_overlaps_reduce(const lk_job *job);

/* Derives what was left open (dp, micro-batches, defaults) and refuses what cannot run. The message
 * names the rule and the nearest legal values: "--tp: 96 heads are not divisible by 7; nearest: 6,
 * 8".
 */
lk_status lk_job_complete(lk_job *job, const lk_cluster *cluster, lk_error *err);
/* The same for searches, which ask it of one network again and again: its network has passed
 * lk_model_check. */
lk_status lk_job_complete_checked(lk_job *job, const lk_cluster *cluster, lk_error *err);
/* A step has a few calls per micro-batch, stage and chunk; beyond this many it would fill the
 * memory of a laptop. For those who change the micro-batches of a completed job, too. */
lk_status lk_job_check_passes(const lk_job *job, lk_error *err);

/* The global batch that is assumed where nobody states one, whatever the question: the largest
 * power of two with at most 4 Mi tokens, of the pretraining of a language model, times the odd part
 * of the number of GPUs within that limit, so that they divide it; 0 for other jobs, whose batches
 * have no usual size. */
int lk_job_assumed_batch(const lk_job *job, int gpus);

/* Tokens of a sequence; 0 of a network that has none. */
static inline int lk_job_tokens(const lk_job *job) {
	return job->model.vocab > 0 ? job->seq : 0;
}

/* Whether products read 16 bits or fewer: weights then have a master copy in fp32. */
static inline bool lk_job_sixteen_bit(const lk_job *job) {
	return job->dtype != LK_FP32 && job->dtype != LK_TF32;
}

/* Whether its network runs as Hugging Face's code is written, with the stacks that run that. */
bool lk_job_runs_as_written(const lk_job *job);
#define LK_JOB_OWN_CODE "Hugging Face's networks run with the stacks ddp, fsdp and deepspeed alone"
/* Whether autocast casts around products, with DDP: weights, gradients and the residual stream are
 * fp32. */
static inline bool lk_job_autocasts(const lk_job *job) {
	return lk_job_runs_as_written(job) && strcmp(job->stack, "ddp") == 0 &&
	       lk_job_sixteen_bit(job) && job->master_weights == LK_ON;
}

/* Whether its graph has every pass over memory that is made. */
static inline bool lk_job_lists_passes(const lk_job *job) {
	return job->model.network == LK_NET_CONV || job->fused_kernels || job->eager == LK_ON;
}

/* Why a sequence of the job cannot hold several that attend within themselves; NULL: it can. */
const char *lk_job_pack_lacks(const lk_job *job);
/* Of the pairs of a sequence those within its documents, on average; and on the data-parallel rank
 * that has most of them in a step, over the average: others wait for it. 1 where nothing is packed.
 */
double lk_job_pack_share(const lk_job *job);
double lk_job_pack_busiest(const lk_job *job);

/* Whether a layer computes in bf16 where others compute in 8 or 4 bits. */
static inline bool lk_job_is_wide(const lk_job *job, int layer) {
	if (job->dtype < LK_FP8) return false;
	return layer < job->wide_first || layer >= job->model.layers - job->wide_last;
}

/* Context-parallel ranks that exchange tokens for heads around attention; 1: none. */
static inline int lk_job_head_ranks(const lk_job *job) {
	if (job->cp_kind != LK_CP_ULYSSES) return 1;
	return job->cp_heads > 0 ? job->cp_heads : job->cp;
}

/* Bytes of an element of a product's operand, with its share of the scaling factors. */
static inline double lk_job_operand_bytes(const lk_job *job) {
	bool blocks = job->dtype == LK_FP8 && job->fp8_recipe == LK_FP8_BLOCKWISE;
	return lk_dtype_bytes(job->dtype) + (blocks ? 4 / 128.0 : 0);
}

/* Whether forward and backward passes run as pairs, the expert traffic of one alongside the
 * computation of the other. */
static inline bool lk_job_pairs(const lk_job *job) {
	return job->expert_overlap == LK_ON && job->schedule == LK_SCHED_INTERLEAVED &&
	       job->model.experts > 0 && job->ep > 1;
}

/* Whether the chain of model chunks turns at the last rank, so that the first holds both ends. */
static inline bool lk_job_folds(const lk_job *job) {
	return job->schedule == LK_SCHED_ZB_V || job->schedule == LK_SCHED_V_HALF ||
	       job->schedule == LK_SCHED_V_MIN || job->schedule == LK_SCHED_DUALPIPE_V;
}

/* Whether every backward pass is split into input and weight gradients. */
static inline bool lk_job_splits_backward(const lk_job *job) {
	return job->schedule == LK_SCHED_ZB_H1 || job->schedule == LK_SCHED_ZB_H2 ||
	       job->schedule == LK_SCHED_ZB_V || job->schedule == LK_SCHED_V_HALF ||
	       job->schedule == LK_SCHED_V_MIN;
}

/* DualPipe and DualPipeV split backward passes here and there, and pair the others with forward
 * passes. */
static inline bool lk_job_dualpipe(const lk_job *job) {
	return job->schedule == LK_SCHED_DUALPIPE || job->schedule == LK_SCHED_DUALPIPE_V;
}

/* Bytes of an element on its way to an expert in 8 bits: a factor in fp32 for every 128. */
#define LK_DISPATCH_NARROW (1 + 4 / 128.0)

/* Layers of a stage's chunk, in model order: chunk c of stage s holds layers [*first, *first +
 * count). */
int lk_job_chunk_layers(const lk_job *job, int stage, int chunk, int *first);
/* The same of every place [lk_job_places] of a completed job at once, by the place that the
 * schedule gives a chunk. */
void lk_job_split(const lk_job *job, int *first, int *count);

/* ---- job_parts: what the files of the training job share and nobody else needs. */

enum {
	LK_JOB_GPUS = 1 << 22,   /* ranks of a job, at most */
	LK_JOB_PASSES = 1 << 20, /* micro-batches times chunks of all stages, at most */
	LK_JOB_NEAR = 48,        /* bytes of a text of nearest legal values */
};

/* job_legal.c: the nearest legal values on both sides of `value`, as "6, 8". Each returns `out`. */
char *lk_near_divisors(char out[LK_JOB_NEAR], int64_t value, int64_t of);
char *lk_near_multiples(char out[LK_JOB_NEAR], int64_t value, int64_t of);
/* `legal` is requested values below and above `value`, within 1..high. "none" where there is none.
 */
typedef bool (*lk_near_fn)(const void *context, int64_t value);
char *lk_near_legal(char out[LK_JOB_NEAR], int64_t value, int64_t high, lk_near_fn legal,
                    const void *context);

/* job_tower.c: the encoder of images as a job of its own on the ranks of the first stage: split by
 * tensor parallelism alone, a micro-batch all images of its sequences. False without an encoder.
 * What is frozen of it is for the caller to know. */
bool lk_job_tower(const lk_job *job, lk_job *out);
/* Whether the encoder is trained; whether its projector is. */
bool lk_job_trains_tower(const lk_job *job);
bool lk_job_trains_projector(const lk_job *job);
lk_status lk_job_check_tower(const lk_job *job, lk_error *err);

/* job_split.c: layers over pipeline stages. */
int lk_job_layers(const lk_job *job); /* of both stacks */
int lk_job_places(const lk_job *job); /* of the chain of model chunks; needs pp, vp, schedule */
lk_status lk_job_layout_places(const lk_job *job, int *places, lk_error *err);
/* Splits layers where nobody says how: evenly, with embedding and loss as a layer each, or with
 * less on the ends, as recipes do. */
void lk_job_split_usually(lk_job *job);
/* A layout string in which the embedding and the loss take the room of so many layers, and what
 * does not divide goes to the places before the last. False: there is none. */
bool lk_job_lighten_ends(lk_job *job, int embedding, int loss);
lk_status lk_job_check_split(const lk_job *job, lk_error *err);
int lk_job_stage_layers(const lk_job *job, int stage);

/* job_check.c: refuses what cannot run. Every derived field is filled. */
lk_status lk_job_check_ranges(const lk_job *job, lk_error *err);
lk_status lk_job_check_layout(const lk_job *job, lk_error *err);
lk_status lk_job_check_switches(const lk_job *job, lk_error *err);
/* Distillation: the job of the teacher's forward pass. False: there is none. */
bool lk_job_teacher(const lk_job *job, lk_job *out);
/* Why the pass of the job's teacher is not modelled; NULL: it is. */
const char *lk_job_lacks_teacher(const lk_job *job);
/* Why the job cannot run a reference network too; NULL: it can. The second refuses --dpo for it. */
const char *lk_job_lacks_reference(const lk_job *job);
lk_status lk_job_check_reference(const lk_job *job, lk_error *err);
lk_status lk_job_check_dtype(const lk_job *job, const lk_cluster *cluster, lk_error *err);
bool lk_cluster_has_dtype(const lk_cluster *cluster, lk_dtype dtype);

/* job_modules.c: what selective recomputation runs again. */
/* Whether the job runs a module again; never with none or full. */
bool lk_job_recomputes(const lk_job *job, lk_module module);
/* Whether the norm before attention, or before the MLP of a layer with or without experts, is a
 * kernel of its own and not the first product's. */
bool lk_job_norm_apart(const lk_job *job, bool attention, bool moe);
/* Why a module that may be named changes nothing of the job; NULL: it does. */
const char *lk_job_module_idle(const lk_job *job, lk_module module);
/* The modules of a layer that cost little to run again: norms that are kernels of their own, the
 * up-projections of latent attention, the activation between the experts' products. Without what
 * Megatron-LM refuses; 0: there are none. */
int lk_modules_light(const lk_job *job);
/* The names in the order of lk_module, ended by NULL. */
extern const char *const lk_module_name[];
/* The set of names between characters of `apart`; 0 where one is unknown. */
int lk_modules_named(const char *text, const char *apart);
/* The names, `between` them: "core_attn+mlp". Returns `out`. */
enum { LK_MODULES_TEXT = 80 };
char *lk_module_names(char out[LK_MODULES_TEXT], int modules, char between);
/* Selective recomputation of modules. */
void lk_job_select(lk_job *job, int modules);
/* What --recompute takes for the job: "none", "selective", "core_attn+mlp", "full/4"; NULL when
 * out of memory. */
const char *lk_recompute_text(lk_arena *arena, const lk_job *job);
lk_status lk_job_check_modules(const lk_job *job, lk_error *err);

/* ---- job_loss.c: losses that do not hold all logits. */

/* By lk_loss_kind, ended by NULL. */
extern const char *const lk_loss_names[];
/* Reads "logits", "linear", "cut", "chunked" or "chunked/N" into the job; NULL changes nothing. An
 * unknown name is an error at --loss. */
lk_status lk_job_take_loss(lk_job *job, const char *text, lk_error *err);
/* What --loss takes for the job; NULL where all logits are held, or when memory runs out. */
const char *lk_loss_text(lk_arena *arena, const lk_job *job);
/* Tokens whose logits exist at a time, of `tokens`; all of them with LOGITS, 0 with CUT. */
double lk_loss_tokens(const lk_job *job, double tokens);
lk_status lk_job_check_loss(const lk_job *job, lk_error *err);

/* Whether the defaults of Megatron-LM hold: the job's stack is Megatron or one of its relatives. */
bool lk_job_like_megatron(const lk_job *job);
bool lk_job_uses_deepspeed(const lk_job *job);

/* ---- sizes: how many bytes of weights, gradients and optimizer state a rank holds. */

/* Parameters that one rank of a stage holds before data-parallel sharding. */
typedef struct lk_rank_params {
	double dense;                          /* replicated over the data-parallel group (DP x CP) */
	double experts;                        /* replicated over the expert data-parallel group */
	double trained_dense, trained_experts; /* of them; fewer with LoRA */
	double tensors; /* that they are in, of convolution nets; else 0: not counted */
} lk_rank_params;

/* Trained tensors of equal size: what a bucket of gradients is filled with. */
typedef struct lk_rank_tensors {
	double dense, experts; /* parameters of one of them on a rank */
	int count;
} lk_rank_tensors;
enum {
	LK_LAYER_TENSORS = 8 /* kinds of them in a layer, at most */
};
/* Those of a layer, in the order in which its backward pass completes their gradients; the number
 * of kinds. Norms and biases, which are small, are counted with the last matrix. `part` is what
 * lk_sizes_layer, _embedding or _head says, `layer` -1 for the ends. */
int lk_sizes_tensors(const lk_job *job, int layer, lk_rank_params part,
                     lk_rank_tensors out[LK_LAYER_TENSORS]);

void lk_rank_params_add(lk_rank_params *sum, lk_rank_params part);

/* Of one layer; of the ends of the network; of all that a stage holds. */
lk_rank_params lk_sizes_layer(const lk_job *job, int layer);
lk_rank_params lk_sizes_embedding(const lk_job *job);
lk_rank_params lk_sizes_head(const lk_job *job);
lk_rank_params lk_sizes_stage(const lk_job *job, int stage);

/* Bytes of a frozen parameter in 4 bits: NF4, a byte for every 64, a number in fp32 for every 256
 * of these (QLoRA, arXiv 2305.14314, section 3). */
#define LK_NF4_BYTES (.5 + 1 / 64. + 4 / (64 * 256.))
/* Elements of a layer's matrices on a rank, of which QLoRA keeps 4 bits: .dense and .experts. */
lk_rank_params lk_sizes_layer_matrices(const lk_job *job, int layer);
/* Bytes of a layer's weights as they travel and lie unsharded, dense and of experts, where others
 * have `each` bytes a parameter. */
void lk_sizes_layer_bytes(const lk_job *job, int layer, double each, double *dense,
                          double *experts);

/* Of the encoder of images and its projector, on the stage that holds the embedding. */
lk_rank_params lk_sizes_tower(const lk_job *job);

/* Whether a stage holds the embedding, the head. */
bool lk_sizes_has_embedding(const lk_job *job, int stage);
bool lk_sizes_has_head(const lk_job *job, int stage);

/* Ranks over which dense parameters, and experts, are replicated (and sharded by ZeRO). */
int lk_sizes_dp_ranks(const lk_job *job);
int lk_sizes_edp_ranks(const lk_job *job);

/* Ranks that divide what ZeRO shards of dense parameters and of experts; 1 and 1 without. */
void lk_sizes_shards(const lk_job *job, double *dense, double *experts);

/* Bytes per parameter: stored weight, gradient as kept, optimizer state with master copy, of
 * parameters that are in no matrix that the optimizer works on. */
double lk_sizes_weight_bytes(const lk_job *job);
double lk_sizes_gradient_bytes(const lk_job *job);
double lk_sizes_state_bytes(const lk_job *job);
/* Bytes per parameter of a gradient on the wire. */
double lk_sizes_wire_bytes(const lk_job *job);
/* Whether ZeRO-3 shards and gathers the fp32 master copy (FSDP); DeepSpeed keeps 16-bit weights in
 * addition to it. */
bool lk_job_shards_master(const lk_job *job);
/* resident.c: bytes per parameter of a sharded weight, and of its gradient, as they are kept:
 * FSDP's shard of both is the fp32 master copy. Frozen weights have 16 bits. */
double lk_sizes_shard_bytes(const lk_job *job);
double lk_sizes_shard_gradient_bytes(const lk_job *job);
/* Whether gradients leave for the host as they are reduced: FSDP's with the parameters
 * (CPUOffloadPolicy; _fsdp_collectives.py, foreach_reduce), DeepSpeed's with the optimizer from
 * ZeRO-2 on (stage_1_and_2.py, copy_grads_in_partition; stage3.py, partition_grads). */
bool lk_job_gradients_on_host(const lk_job *job);

/* ---- optimizers.c, optimizer_matrices.c */

typedef struct lk_optimizer_kind {
	const char *name;
	double moments;     /* numbers kept for every parameter, in --state-dtype */
	double bytes;       /* kept besides for every parameter */
	double of_matrices; /* moments for those of matrices, where it works on matrices */
	double update;      /* bytes of an element that goes into the products and comes back; 0: the
	                       step is one pass over the state */
	double split;       /* bytes that 16-bit weights lack of the master copy, kept in its place; 0:
	                       the master copy is kept in fp32 */
	bool hidden;        /* of matrices those of layers alone, and none that is a bundle */
} lk_optimizer_kind;
const lk_optimizer_kind *lk_optimizer_of(const lk_job *job);
/* By lk_optimizer and lk_muon_tp, ended by NULL. */
extern const char *const lk_optimizer_names[LK_OPTIMIZERS + 1];
extern const char *const lk_muon_tp_names[];
/* Whether the step of the optimizer has matrix products: Muon, SOAP, Shampoo. */
bool lk_optimizer_has_products(const lk_job *job);

/* Matrices of one shape on a rank of a stage. */
typedef struct lk_rank_matrix {
	double out, in; /* as they are worked on */
	double count;   /* of which the rank holds a part or all */
	double parts;   /* tensor-parallel ranks over which they are divided and then worked on whole; 1
	                   where the rank holds all that it works on */
	double dealt;   /* of them, those on which the busiest data-parallel rank works */
	lk_cut cut;
	bool expert;
} lk_rank_matrix;
enum {
	LK_RANK_MATRICES = 64 /* shapes of a stage, at most */
};
typedef struct lk_rank_matrices {
	lk_rank_matrix at[LK_RANK_MATRICES];
	int count;
} lk_rank_matrices;
/* Those of a stage, the largest first; none of other optimizers. */
void lk_optimizer_matrices(const lk_job *job, int stage, lk_rank_matrices *out);
/* SOAP: whether this side of a matrix is rotated. */
bool lk_optimizer_turns(const lk_job *job, double side);

/* What matrices of a stage have, before sharding, of dense parameters [0] and of experts [1]. */
typedef struct lk_matrix_state {
	double elements[2];
	double moments[2];    /* bytes of moments over those of other parameters */
	double statistics[2]; /* bytes that go with sides of matrices */
} lk_matrix_state;
lk_matrix_state lk_optimizer_state(const lk_job *job, int stage);

/* Bytes of a stage's parameters that ZeRO-1 gathers after the optimizer, `each` a parameter but of
 * weights that are kept in 8 bits. */
void lk_sizes_gathered(const lk_job *job, int stage, double each, double *dense, double *experts);
/* A checkpoint of the whole job, bytes: what is trained, once, with its optimizer state as the job
 * keeps it. */
double lk_sizes_checkpoint(const lk_job *job);

/* What stays on the device during the whole step, by owner; sharding applied. */
typedef struct lk_resident {
	double weights, gradients, optimizer;
} lk_resident;
lk_resident lk_sizes_resident(const lk_job *job, int stage);

#endif
