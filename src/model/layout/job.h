/* job.h: a training job: the network, its layout over ranks, its number formats, its switches.
 * Written by the readers of configs and launch flags and by the options of predict; read by the
 * graph builder. */
#ifndef LK_MODEL_LAYOUT_JOB_H
#define LK_MODEL_LAYOUT_JOB_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "hw/hw.h"
#include "model/layout/choices.h"
#include "model/layout/stack.h"
#include "model/network/model.h"

#define LK_STACK_DEFAULT "megatron" /* the assumed software of pretraining if none is stated */

enum {
	LK_JOB_IMAGES = 64 /* images per GPU if a convolution net's batch is not stated */
};

/* Zero means "not stated" in every field; lk_job_complete fills open fields and checks the job. */
/* Linear layers with adapters. PEFT's all-linear leaves out experts that are one tensor, as in
 * transformers from 5 on; Megatron-LM's grouped products have adapters. */
/* Weights that a program loads in 16 bits, and trains as they are, moments too. */
typedef enum lk_loaded {
	LK_LOADED_WIDE,      /* none: they are widened */
	LK_LOADED_UNSHARDED, /* FSDP widens them, as accelerate does, and DeepSpeed */
	LK_LOADED_TORCH      /* DeepSpeed alone does */
} lk_loaded;

/* Linear layers with adapters, as bits. */
enum {
	LK_ADAPT_QUERY = 1,
	LK_ADAPT_KEY = 2,
	LK_ADAPT_VALUE = 4,
	LK_ADAPT_OUT = 8,
	LK_ADAPT_ATTENTION = 15,
	LK_ADAPT_GATE = 16, /* of MLPs and shared experts */
	LK_ADAPT_UP = 32,
	LK_ADAPT_DOWN = 64,
	LK_ADAPT_MLP = 112,
	LK_ADAPT_LINEAR = 127,
	LK_ADAPT_EXPERTS = 128 /* what is adapted of MLPs, also of routed experts */
};

typedef struct lk_job {
	lk_model model;
	lk_task task;
	int lora_rank; /* default 16 */
	bool
		narrow_base; /* adapters: frozen matrices of layers are kept in fewer bits, those of base */
	lk_base base;
	lk_objective objective;  /* of pairs, mbs and gbs count both sequences */
	int labels;              /* a classifier's head, hidden x labels, in place of the vocabulary's;
	                             0: none */
	bool value_head;         /* that head is additional: logits are computed and dropped */
	const lk_model *teacher; /* distillation: a frozen network that reads each micro-batch too;
	                            NULL: none */
	bool forward_only;       /* no training: forward passes that keep nothing, as for the
	                            log-probabilities of sequences */
	bool dora;               /* adapters: weights as direction and magnitude */
	bool freeze_tower;       /* the image encoder is not trained, its projector is */

	int gpus;
	int tp, pp, vp, cp, ep, etp, dp;
	lk_switch sequence_parallel; /* default: on with tp > 1 */
	lk_cp_kind cp_kind;
	int cp_heads; /* ULYSSES: ranks that exchange tokens for heads, with a ring between such groups;
	                 0: all of cp */
	lk_switch cp_balanced; /* zig-zag split of causal attention; default on */
	lk_sharding sharding;
	bool sharding_said;
	int shard_group;  /* hybrid sharding: ranks that share one copy; 0 = all of DP */
	int shard_copies; /* likewise as the number of copies, until lk_job_complete knows the ranks; 0:
	                     not stated. A stated group overrides it */
	lk_schedule_kind schedule;
	bool schedule_said; /* else 1f1b, interleaved with vp > 1 */
	int first_stage_layers, last_stage_layers;
	bool account_embedding, account_loss; /* embedding / loss count as a layer in the split */
	bool split_open; /* the split of layers is not stated: an uneven one follows the recipes, see
	                    job.c */
	char pipeline_layout[512]; /* Megatron's --pipeline-model-parallel-layout; "" none */

	int mbs;
	int gbs;
	int gbs_wanted;  /* if gbs is open: the largest batch up to this one that the layout divides; 0:
	                    no wish */
	int seq;         /* tokens of the decoder, or of the encoder */
	int decoder_seq; /* ENCDEC; 0: as seq */
	double pack_share, pack_spread; /* documents packed into sequences: mean and deviation of the
	                                   share of a sequence's pairs that remain; 0: one document.
	                                   Above 1: sequences of varying length, `seq` on average */
	int microbatch_group; /* interleaved: micro-batches that pass a chunk before the next one; 0: pp
	                         */
	int microbatches;     /* per data-parallel rank, derived: gbs / (mbs * dp) */

	lk_dtype dtype;  /* of matrix multiplications */
	bool dtype_said; /* else bf16 where the device has it, fp16, fp32 */
	lk_optimizer optimizer;
	lk_update update;
	lk_average average;
	int muon_steps; /* Newton-Schulz iterations; default 5 */
	bool muon_syrk; /* compute half of each gram matrix, as it is symmetric */
	lk_muon_tp muon_tp;
	lk_dtype state_dtype; /* of the optimizer's moments; LK_FP32 */
	bool state_said;      /* else as `loaded` has them */
	lk_switch
		master_weights; /* fp32 copy of 16-bit weights; default on, but as `loaded` has them */
	lk_loaded loaded;
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
	bool offload_params;        /* ZeRO-3: a rank's pieces of the weights are in host memory too */
	bool offload_activations;   /* what layers keep is in host memory until the backward pass */
	bool optimizer_in_backward; /* each parameter is updated as soon as its gradient is complete */
	lk_switch cuda_graphs;      /* default: the stack's recipes */
	bool graphs_by_recipe;      /* nobody said it */
	lk_attn_kernel attn_kernel;
	lk_attn_library attn_library;  /* default: Transformer Engine's choice by architecture */
	bool attn_library_said;        /* not the stack's default */
	bool attn_lacks;               /* unfused, as no fused kernel of the stack runs on the device */
	bool attn_torch;               /* PyTorch's memory-efficient kernels, priced as
	                                  LK_ATTN_LIBRARY_FLASH, which the device lacks */
	bool early_attention;          /* cuDNN before 9.13, whatever the stack and its release */
	bool local_layers;             /* Megatron-LM's own layers instead of Transformer Engine's */
	bool deterministic;            /* Megatron's --deterministic-mode: same bits every time */
	lk_switch fused_cross_entropy; /* default off */
	double logit_share; /* share of all logits (positions x vocabulary) that are computed; default
	                     * 1. Masked language models can gather the masked positions first;
	                     * classifiers have only a few columns */
	bool fused_kernels; /* hand-fused code: products add biases and activations and write what the
	                     * next product reads, attention takes packed heads; every remaining pass
	                     * over memory is listed */
	bool own_code;      /* the program's own network, whichever stack trains it: not Hugging Face's
	                       code */
	bool layer_units;   /* FSDP's units are whole layers, with their adapters */
	bool host_ahead; /* the device never waits for the host at the end of a step: overflow and norm
	                    stay on the device */
	bool attention_mask;     /* the data loader makes a mask, a byte per pair of positions:
	                            Megatron-LM's default */
	bool native_loss_fusion; /* with fused_cross_entropy: Megatron-LM's own fusion, which makes fp32
	                          * copies; otherwise the gradient overwrites the logits (Transformer
	                          * Engine, Liger) */
	lk_loss_kind loss;
	int loss_chunks;               /* CHUNKED: number of chunks; 0: 8, as in torchtitan and
	                                * torchtune */
	lk_switch defer_head_gradient; /* the head's weight gradient waits until the pipeline drains;
	                                  default off */
	int deferral_limit;            /* at most this many micro-batches; 0: all */
	bool narrow_weights;           /* fp8: the weights themselves are kept in 8 bits (Megatron's
	                                  --fp8-param-gather) */
	int wide_first, wide_last;     /* this many layers compute in bf16, the others in 8 or 4 bits */
	lk_fp8_recipe fp8_recipe;      /* scaling, in fp8 */
	bool delay_weights; /* paired passes: compute the experts' weight gradients while their input
	                       gradients travel back (Megatron's --delay-wgrad-compute) */
	bool narrow_activations;  /* fp8: the inputs of gated activations are kept in 8 bits (Megatron's
	                             --activation-func-fp8-input-store) */
	lk_switch grouped_gemm;   /* experts as Transformer Engine's grouped products, on streams of
	                           * their own; default: on for the experts of Megatron-like stacks,
	                           * whose products are priced so */
	lk_dispatcher dispatcher; /* default: the stack's */
	bool dispatcher_said;
	lk_switch fp8_dispatch; /* rows travel to their experts, and gradients of what comes back, in 8
	                           bits with one factor per 128; default off */
	int dispatch_sms;       /* SMs that the node dispatcher's kernels take; 0: their known number */
	double moe_imbalance;   /* tokens of the busiest expert rank over the mean; default 1.1 */
	bool compile;           /* torch.compile: element-wise operations are fused */
	lk_switch ragged;       /* sequences differ in length, up to `seq`, neither packed nor padded;
	                           default off */
	double ragged_median, ragged_spread; /* their median in tokens and the deviation of ln, before
	                                        those over `seq` are left out; 0: evenly spread */
	lk_switch eager;       /* element-wise operations run one by one, as in Hugging Face's networks;
	                        default: on with the stacks ddp, fsdp and deepspeed unless compiled */
	int max_connections;   /* CUDA_DEVICE_MAX_CONNECTIONS; 0 = default 8 */
	char lora_targets[64]; /* "attention" (default), "all-linear", "experts", "q_proj+v_proj" */
	int adapted;           /* the same as bits; derived */
	double lora_dropout;   /* share of what adapters read that is dropped */
	char alloc_conf[160];  /* PYTORCH_CUDA_ALLOC_CONF; "" not stated */
	char nccl[256];        /* release and environment of NCCL (cost/collective); "" not stated */
	char stack[32]; /* software stack whose defaults apply: "megatron", "fsdp", "deepspeed", ... */
	char profile[32];  /* software whose features apply; default: `stack` */
	char release[16];  /* release of the stack, "26.04"; "" the newest */
	bool stack_recipe; /* unstated fields follow the stack's recipes (lk_job_features); false for a
	                    * launch line, where an unstated switch is off */
	lk_switch expert_overlap;   /* expert traffic alongside the computation of another micro-batch
	                               (interleaved); default off */
	lk_switch graph_experts;    /* CUDA graphs include the experts; default off: their sizes vary */
	lk_switch scatter_messages; /* a pipeline message is split among tensor-parallel ranks; default:
	                               on in DeepSpeed's engine */
	bool padded_vocab_said;
	int padded_vocab;   /* derived: vocab rounded up to 128 * tp */
	int vocab_multiple; /* make_vocab_size_divisible_by; default 128 for Megatron-like stacks, 1
	                       else */
} lk_job;

/* The features of the job's stack and release: the defaults of its unstated fields. */
const lk_stack_features *lk_job_features(const lk_job *job);
/* The software that is assumed for a job that states none: convolution nets, and fine-tuning whose
 * layers are not divided among ranks, run as HuggingFace's Trainer runs them (DDP; FSDP where
 * weights or gradients are sharded; DeepSpeed where the optimizer's states are, or lie on the
 * host), all else under Megatron-Core. */
const char *lk_job_usual_stack(const lk_job *job);
/* Whether the job's linear layers in 8 bits are PyTorch's (torchao), not Transformer Engine's. */
bool lk_job_casts_by_torchao(const lk_job *job);
/* Whether the job's software overlaps gradient reduction by default. */
bool lk_job_overlaps_reduce(const lk_job *job);

/* Derive open fields (dp, micro-batches, defaults) and refuse a job that cannot run. The message
 * names the rule and the nearest legal values: "--tp: 96 heads are not divisible by 7; nearest: 6,
 * 8". */
lk_status lk_job_complete(lk_job *job, const lk_cluster *cluster, lk_error *err);
/* What a device needs for the fused attention that the stack chooses by itself. */
lk_capability lk_job_fused_attention(const lk_job *job);
lk_attn_library lk_job_attention_by(const lk_job *job,
                                    const lk_cluster *cluster); /* whose kernels */
/* Replace fused attention that the stack chose and some device of the cluster cannot run. */
void lk_job_fit_attention(lk_job *job, const lk_cluster *cluster);
/* lk_job_complete for searches, which complete many jobs of one network: the network has already
 * passed lk_model_check. */
lk_status lk_job_complete_checked(lk_job *job, const lk_cluster *cluster, lk_error *err);
/* Refuse too many passes. A step has a few calls per micro-batch, stage and chunk; beyond this many
 * it would fill a laptop's memory. Also for callers that change the micro-batches of a completed
 * job. */
lk_status lk_job_check_passes(const lk_job *job, lk_error *err);

/* The default global batch of every question. For the pretraining of a language model: the largest
 * power of two with at most 4 Mi tokens, times the odd part of the number of GPUs within that
 * limit, so that they divide it. 0 for other jobs, which have no default. */
int lk_job_assumed_batch(const lk_job *job, int gpus);

/* Tokens of a sequence; 0 for a network without sequences. */
static inline int lk_job_tokens(const lk_job *job) {
	return job->model.vocab > 0 ? job->seq : 0;
}

/* Whether products read 16 bits or fewer: weights then have an fp32 master copy. */
static inline bool lk_job_sixteen_bit(const lk_job *job) {
	return job->dtype != LK_FP32 && job->dtype != LK_TF32;
}

/* Whether the network runs as Hugging Face's code is written, in a stack that runs such code. */
bool lk_job_runs_as_written(const lk_job *job);
/* Whether its norms, activations and losses are Liger's or Unsloth's kernels instead. */
static inline bool lk_job_writes_in_place(const lk_job *job) {
	return lk_job_runs_as_written(job) && job->eager == LK_OFF && !job->compile;
}
#define LK_JOB_OWN_CODE "Hugging Face's networks run with the stacks ddp, fsdp and deepspeed alone"
/* Whether each matrix of an adapter is a unit of FSDP, as PEFT wraps them
 * (fsdp_auto_wrap_policy). FSDP requests a unit's weights when the last but one unit before it has
 * run (_free_event_queue), here an adapter of the layer before: no layer's weights are gathered
 * ahead. */
bool lk_job_wraps_adapters(const lk_job *job);
/* Whether autocast casts around products (DDP): weights, gradients and the residual stream are
 * fp32. A frozen base, and with it the stream, is in 16 bits. */
static inline bool lk_job_autocasts(const lk_job *job) {
	return lk_job_runs_as_written(job) && strcmp(job->stack, "ddp") == 0 &&
	       job->task != LK_TASK_LORA && lk_job_sixteen_bit(job) && job->master_weights == LK_ON;
}

/* Whether weights and moments stay in the 16 bits in which they are loaded. */
bool lk_job_keeps_loaded(const lk_job *job);

/* Linear layers of a list of names, "q_proj,v_proj", "attention", as bits; 0: none or unknown ones.
 * The second writes a job's words for them, at most 64 bytes. */
int lk_adapters_find(const char *names);
void lk_adapters_name(int parts, char *out, size_t size);

/* Whether the graph lists every pass over memory. */
static inline bool lk_job_lists_passes(const lk_job *job) {
	return job->model.network == LK_NET_CONV || job->fused_kernels || job->eager == LK_ON;
}

/* Why a sequence of the job cannot hold several documents that attend within themselves; NULL: it
 * can. */
const char *lk_job_pack_lacks(const lk_job *job);
/* The average share of a sequence's pairs that lie within its documents; and the excess of the
 * data-parallel rank with the most pairs in a step over the average: others wait for it. 1 without
 * packing. */
double lk_job_pack_share(const lk_job *job);
double lk_job_pack_busiest(const lk_job *job);
/* Of sequences of differing lengths (log-normal): the share that is at most `seq` long; and the
 * length, in (0, 1] of `seq`, below which `share` of these lie. */
double lk_job_ragged_kept(const lk_job *job);
double lk_job_ragged_length(const lk_job *job, double share);

/* Whether a layer computes in bf16 while others compute in 8 or 4 bits. */
static inline bool lk_job_is_wide(const lk_job *job, int layer) {
	if (job->dtype < LK_FP8) return false;
	return layer < job->wide_first || layer >= job->model.layers - job->wide_last;
}

/* Context-parallel ranks that exchange tokens for heads around attention; 1: no exchange. */
static inline int lk_job_head_ranks(const lk_job *job) {
	if (job->cp_kind != LK_CP_ULYSSES) return 1;
	return job->cp_heads > 0 ? job->cp_heads : job->cp;
}

/* The recipe of fp8 that its software runs where another was not stated: torchao has no factors of
 * earlier steps. */
lk_fp8_recipe lk_job_fp8_recipe(const lk_job *job);

/* Whether each row of a product's operands has a factor of its own. */
static inline bool lk_job_scales_rows(const lk_job *job) {
	return job->dtype == LK_FP8 && job->fp8_recipe == LK_FP8_ROWWISE;
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

/* Whether the chain of model chunks turns at the last rank, so that the first rank holds both
 * ends. */
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

/* DualPipe and DualPipeV split some backward passes and pair the others with forward passes. */
static inline bool lk_job_dualpipe(const lk_job *job) {
	return job->schedule == LK_SCHED_DUALPIPE || job->schedule == LK_SCHED_DUALPIPE_V;
}

/* Bytes of an element sent to an expert in 8 bits: one fp32 factor per 128. */
#define LK_DISPATCH_NARROW (1 + 4 / 128.0)

/* Layers of a stage's chunk, in model order: chunk c of stage s holds layers [*first, *first +
 * count). */
int lk_job_chunk_layers(const lk_job *job, int stage, int chunk, int *first);
/* lk_job_chunk_layers for every place [lk_job_places] of a completed job at once, indexed by the
 * place that the schedule gives a chunk. */
void lk_job_split(const lk_job *job, int *first, int *count);

/* ---- job_parts: what the files of the training job share and nobody else needs. */

enum {
	LK_JOB_GPUS = 1 << 22,   /* most ranks of a job */
	LK_JOB_PASSES = 1 << 20, /* most micro-batches times chunks of all stages */
	LK_JOB_NEAR = 48,        /* bytes of a text of nearest legal values */
};

/* job_legal.c: the nearest legal values on both sides of `value`, as "6, 8". Each returns `out`. */
char *lk_near_divisors(char out[LK_JOB_NEAR], int64_t value, int64_t of);
char *lk_near_multiples(char out[LK_JOB_NEAR], int64_t value, int64_t of);
/* `legal` is queried for values below and above `value`, within 1..high. "none" if no value is
 * legal. */
typedef bool (*lk_near_fn)(const void *context, int64_t value);
char *lk_near_legal(char out[LK_JOB_NEAR], int64_t value, int64_t high, lk_near_fn legal,
                    const void *context);

/* job_tower.c: the image encoder as a job of its own on the ranks of the first stage: split only by
 * tensor parallelism; a micro-batch is all images of its sequences. False without an encoder. The
 * caller decides which parts are frozen. */
bool lk_job_tower(const lk_job *job, lk_job *out);
/* Whether the encoder is trained; whether its projector is trained. */
bool lk_job_trains_tower(const lk_job *job);
bool lk_job_trains_projector(const lk_job *job);
lk_status lk_job_check_tower(const lk_job *job, lk_error *err);

/* job_split.c: layers over pipeline stages. */
int lk_job_layers(const lk_job *job); /* of both stacks */
int lk_job_places(const lk_job *job); /* of the chain of model chunks; needs pp, vp, schedule */
lk_status lk_job_layout_places(const lk_job *job, int *places, lk_error *err);
/* Apply the default split of layers: even, with embedding and loss as a layer each, or with fewer
 * layers on the end stages, as in recipes. */
void lk_job_split_usually(lk_job *job);
/* Write a layout string in which the embedding and the loss count as this many layers, and the
 * remainder goes to the places before the last. False: no such layout. */
bool lk_job_lighten_ends(lk_job *job, int embedding, int loss);
lk_status lk_job_check_split(const lk_job *job, lk_error *err);
int lk_job_stage_layers(const lk_job *job, int stage);

/* job_check.c: refuse what cannot run. Every derived field must be filled. */
lk_status lk_job_check_ranges(const lk_job *job, lk_error *err);
lk_status lk_job_check_layout(const lk_job *job, lk_error *err);
lk_status lk_job_check_switches(const lk_job *job, lk_error *err);
/* Distillation: the job of the teacher's forward pass. False without a teacher. */
bool lk_job_teacher(const lk_job *job, lk_job *out);
/* Why the teacher's pass is not modelled; NULL: it is. */
const char *lk_job_lacks_teacher(const lk_job *job);
/* ---- job_loss.c: objectives of fine-tuning. */
typedef struct lk_objective_kind {
	const char *adapted; /* the task with adapters; the name is the one without */
	bool pairs;          /* a sample is two sequences */
	int reference;       /* passes of a frozen reference network over each micro-batch */
	int unkept;          /* forward passes of the trained network that keep nothing */
	int labels;          /* of the classifier's head; 0: the loss reads logits */
} lk_objective_kind;
extern const char *const lk_objective_names[], *const lk_base_names[]; /* NULL at the end */
const lk_objective_kind *lk_objective_of(lk_objective objective);
/* Find "kto" or "kto+lora"; false if the text names no objective. */
bool lk_objective_find(const char *text, lk_objective *out, bool *adapters);
/* The task that adds adapters to a job: "lora", "kto+lora". */
const char *lk_objective_adapted(lk_objective objective);
/* Why the job cannot also run a reference network; NULL: it can. The second refuses an objective
 * that has one. */
const char *lk_job_lacks_reference(const lk_job *job);
lk_status lk_job_check_reference(const lk_job *job, lk_error *err);
/* Put a classifier's head where the vocabulary's is; networks without sequences have their own. */
void lk_job_fit_labels(lk_job *job);
lk_status lk_job_check_objective(const lk_job *job, lk_error *err);
lk_status lk_job_check_device(const lk_job *job, const lk_cluster *cluster, lk_error *err);
bool lk_cluster_has_dtype(const lk_cluster *cluster, lk_dtype dtype);

/* job_modules.c: modules that selective recomputation runs again. */
/* Whether the job recomputes a module; always false with "none" or "full". */
bool lk_job_recomputes(const lk_job *job, lk_module module);
/* Whether the norm before attention, or before the MLP of a layer with or without experts, is a
 * separate kernel instead of part of the first product. */
bool lk_job_norm_apart(const lk_job *job, bool attention, bool moe);
/* Why naming a module changes nothing for the job; NULL: it does. */
const char *lk_job_module_idle(const lk_job *job, lk_module module);
/* The modules of a layer that are cheap to recompute: norms in kernels of their own, the
 * up-projections of latent attention, the activation between the experts' products. Excludes what
 * Megatron-LM refuses; 0: none. */
int lk_modules_light(const lk_job *job);
/* Parse names separated by characters of `apart`; 0 if one is unknown. */
int lk_modules_named(const char *text, const char *apart);
/* Write the names separated by `between`: "core_attn+mlp". Returns `out`. */
enum { LK_MODULES_TEXT = 80 };
char *lk_module_names(char out[LK_MODULES_TEXT], int modules, char between);
/* Turn on selective recomputation of these modules. */
void lk_job_select(lk_job *job, int modules);
/* The job's value of --recompute: "none", "selective", "core_attn+mlp", "full/4"; NULL when out of
 * memory. */
const char *lk_recompute_text(lk_arena *arena, const lk_job *job);
lk_status lk_job_check_modules(const lk_job *job, lk_error *err);

/* ---- job_alloc.c: settings of PyTorch's allocator. */
typedef struct lk_alloc_conf {
	bool expandable;
	double max_split_mib;  /* 0: any block is split */
	int roundup_divisions; /* 0: none */
} lk_alloc_conf;
/* Read "expandable_segments:True,max_split_size_mb:128". */
lk_status lk_alloc_conf_read(const char *text, const char *where, lk_alloc_conf *out,
                             lk_error *err);

/* ---- job_loss.c: losses that do not hold all logits. */

/* Parse "logits", "linear", "cut", "chunked" or "chunked/N" into the job; NULL changes nothing. An
 * unknown name is an error at --loss. */
lk_status lk_job_take_loss(lk_job *job, const char *text, lk_error *err);
/* The job's value of --loss; NULL if all logits are held, or when memory runs out. */
const char *lk_loss_text(lk_arena *arena, const lk_job *job);
/* How many of `tokens` have their logits in memory at a time: all with LOGITS, 0 with CUT. */
double lk_loss_tokens(const lk_job *job, double tokens);
lk_status lk_job_check_loss(const lk_job *job, lk_error *err);

/* Set a field that is not stated yet. */
static inline void lk_fill_int(int *field, int value) {
	if (*field == 0) *field = value;
}

/* Whether Megatron-LM's defaults apply: the stack is Megatron or a relative. */
bool lk_job_like_megatron(const lk_job *job);
bool lk_job_uses_deepspeed(const lk_job *job);

#endif
