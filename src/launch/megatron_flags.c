/* megatron_flags.c: the one table of Megatron-LM's command line (NVIDIA/Megatron-LM,
 * megatron/training/arguments.py, and the few flags that the zero-bubble and DeepSpeed forks add).
 * A row says how a flag is read; writing uses the same row. Flags that do not change the step
 * (SKIP), or that change it in a way lockstep does not model (LEAVE), are rows too, with the
 * reason: they are listed to the user, not dropped. What is in no row is listed as unknown. */
#include "base/arena.h"
#include "launch/launch.h"

#include <stdio.h>
#include <string.h>
#include "base/text.h"

static const char *const normalizations[] = {"LayerNorm", "RMSNorm", NULL};
static const char *const positions[] = {
	"learned_absolute", "rope", "mrope", "relative", "none", "yarn", NULL};
static const char *const softmaxes[] = {"vanilla", "learnable", "off-by-one", NULL};
static const char *const backends[] = {"auto", "flash", "fused", "unfused", "local", NULL};
static const char *const implementations[] = {"transformer_engine", "local", "inference_optimized",
                                              NULL};
static const char *const loss_impls[] = {"native", "te", "linear", NULL};
static const char *const strategies[] = {"no_shard", "optim", "optim_grads", "optim_grads_params",
                                         NULL};
static const char *const optimizers[] = {"adam", "sgd", "muon", "dist_muon", "lion", NULL};
static const char *const fp8_formats[] = {"", "hybrid", "e4m3", NULL};
static const char *const fp8_recipes[] = {"delayed",   "tensorwise", "mxfp8",
                                          "blockwise", "custom",     NULL};
static const char *const fp4_formats[] = {"", "e2m1", "mxfp4", NULL};
static const char *const granularities[] = {"", "full", "selective", NULL};
static const char *const methods[] = {"", "uniform", "block", NULL};
static const char *const dispatchers[] = {"allgather", "alltoall", "flex", "alltoall_seq", NULL};
static const char *const variants[] = {"", "gated_delta_net", "gdn", "dsa", NULL};
static const char *const flex_backends[] = {"", "deepep", "hybridep", NULL};
static const char *const scores[] = {"softmax", "sigmoid", "sqrtsoftplus", NULL};
static const char *const wide[] = {"fp32", "bf16", NULL};
static const char *const params_dtypes[] = {"fp32", "fp16", NULL};
static const char *const moments[] = {"fp32", "fp16", "bf16", "fp8", NULL};
static const char *const graph_impls[] = {"none", "local", "transformer_engine", NULL};

#define AT(field) offsetof(lk_megatron, field)
#define INT(name, field, low, high) \
	{ name, LK_FLAG_INT, AT(field), low, high, NULL, NULL, false }
#define INT2(name, field, low, high) \
	{ name, LK_FLAG_INT, AT(field), low, high, NULL, NULL, true }
#define REAL(name, field) \
	{ name, LK_FLAG_REAL, AT(field), 0, 0, NULL, NULL, false }
#define TEXT(name, field) \
	{ name, LK_FLAG_TEXT, AT(field), 0, 0, NULL, NULL, false }
#define SOFT(name, field, why) \
	{ name, LK_FLAG_TEXT, AT(field), 0, 0, NULL, why, true } /* may be unknown */
#define LIST(name, field) \
	{ name, LK_FLAG_LIST, AT(field), 0, 0, NULL, NULL, false }
#define CHOICE(name, field, list) \
	{ name, LK_FLAG_CHOICE, AT(field), 0, 0, list, NULL, false }
#define SET(name, field) \
	{ name, LK_FLAG_SET, AT(field), 0, 0, NULL, NULL, false }
#define SET2(name, field) \
	{ name, LK_FLAG_SET, AT(field), 0, 0, NULL, NULL, true }
#define CLEAR(name, field) \
	{ name, LK_FLAG_CLEAR, AT(field), 0, 0, NULL, NULL, false }
#define BLOCKS                                                                                 \
	"layers of different shapes are read from --model FILE, which takes that file; leave the " \
	"flag out"
#define SKIP(name, why) \
	{ name, LK_FLAG_IGNORED, 0, 0, 0, NULL, why, false }
#define LEAVE(name, why) \
	{ name, LK_FLAG_UNMODELLED, 0, 0, 0, NULL, why, false }
#define REFUSE(name, why) \
	{ name, LK_FLAG_REFUSED, 0, 0, 0, NULL, why, false }

enum { MANY = 1 << 24, RANKS = 1 << 16 };

/* Reasons that recur. */
#define DATA        "data and tokenizer: does not change the step"
#define LOGGING     "logging: not part of the step"
#define SAVING      "checkpointing: not part of the step"
#define RATE        "values of the optimizer: do not change the step's work"
#define START       "start-up: not part of the step"
#define LENGTH      "length of the run, not of a step"
#define EVAL        "evaluation: not part of the step"
#define TIMEOUT     "supervision and restart: not part of the step"
#define NUMBERS     "numerics: changes no shape"
#define LOSS        "loss terms: their work is not modelled, it is small"
#define FUSION      "fusion of single kernels is not modelled"
#define NETWORK     "a tuning of the communication library that is not modelled"
#define INFERENCE   "inference only"
#define DEFAULT_NOW "the default of Megatron-Core; nothing to change"
#define MAMBA       "layers of a hybrid are read from --hybrid-layer-pattern"
#define OFFLOADED   "activations of single modules are priced as kept on the device"
#define IMAGES      "the encoder of images is left out"
#define RL          "reinforcement learning only"

const lk_flag lk_megatron_flags[] = {
	/* shape */
	INT("num-layers", job.model.layers, 1, 10000),
	INT2("encoder-num-layers", job.model.layers, 1, 10000),
	INT("decoder-num-layers", job.model.decoder_layers, 1, 10000),
	INT("hidden-size", job.model.hidden, 1, 1 << 20),
	INT("ffn-hidden-size", job.model.ffn, 1, 1 << 24),
	INT("num-attention-heads", job.model.heads, 1, RANKS),
	INT("kv-channels", job.model.head_dim, 1, 1 << 20),
	SET("group-query-attention", group_query),
	INT("num-query-groups", query_groups, 1, RANKS),
	INT2("num-key-value-heads", job.model.kv_heads, 1, RANKS),
	SET("multi-latent-attention", latent),
	INT("q-lora-rank", job.model.q_lora, 0, 1 << 20),
	INT("kv-lora-rank", job.model.kv_lora, 1, 1 << 20),
	INT("qk-head-dim", job.model.qk_nope, 0, 1 << 20),
	INT("qk-pos-emb-head-dim", job.model.qk_rope, 0, 1 << 20),
	INT("v-head-dim", job.model.v_dim, 1, 1 << 20),
	LIST("window-size", window),
	TEXT("window-attn-skip-freq", window_freq),
	CHOICE("softmax-type", softmax, softmaxes),
	SET("qk-layernorm", job.model.qk_norm),
	TEXT("hybrid-layer-pattern", hybrid),
	{"hybrid-override-pattern", LK_FLAG_TEXT, AT(hybrid), 0, 0, NULL, NULL, true},
	INT("mamba-state-dim", ssm_state, 1, 1 << 20),
	INT("mamba-head-dim", ssm_head, 1, 1 << 20),
	INT("mamba-num-groups", ssm_groups, 1, RANKS),
	INT("mamba-num-heads", ssm_heads, 1, RANKS),
	CHOICE("experimental-attention-variant", variant, variants),
	TEXT("linear-attention-freq", linear_freq),
	INT("linear-conv-kernel-dim", job.model.delta_conv, 1, 1024),
	INT("linear-key-head-dim", job.model.delta_key_dim, 1, 1 << 20),
	INT("linear-value-head-dim", job.model.delta_value_dim, 1, 1 << 20),
	INT("linear-num-key-heads", job.model.delta_key_heads, 1, RANKS),
	INT("linear-num-value-heads", job.model.delta_value_heads, 1, RANKS),
	INT("dsa-indexer-n-heads", job.model.index_heads, 1, RANKS),
	INT("dsa-indexer-head-dim", job.model.index_dim, 1, 1 << 20),
	INT("dsa-indexer-topk", job.model.index_topk, 1, 1 << 30),
	LEAVE("dsa-indexer-loss-coeff", LOSS),
	LEAVE("dsa-indexer-use-sparse-loss", LOSS),
	LEAVE("dsa-kernel-backend", "kernels of sparse attention are priced as fused ones"),
	LEAVE("disable-mamba-mem-eff-path",
          "what Mamba's layers keep is priced as on Megatron-Core's default path"),
	LEAVE("gdp-num-householder", "gated delta products, which it shapes, are not modelled"),
	SET("attention-output-gate", job.model.output_gate),
	SET("swiglu", swiglu),
	SET("quick-geglu", geglu),
	CLEAR("disable-bias-linear", bias_linear),
	SET("add-qkv-bias", qkv_bias),
	CHOICE("normalization", normalization, normalizations),
	SET("untie-embeddings-and-output-weights", untie),
	INT("max-position-embeddings", max_positions, 1, 1 << 30),
	CHOICE("position-embedding-type", positions, positions),
	SET2("use-rotary-position-embeddings", rotary),
	REAL("rotary-base", job.model.rotary_base),
	INT("relative-attention-num-buckets", relative_buckets, 1, RANKS),
	REAL("hidden-dropout", job.model.dropout),
	REAL("attention-dropout", attention_dropout),
	INT("mtp-num-layers", job.model.mtp_layers, 0, 64),
	SET("embed-layernorm", job.model.embed_norm),
	CLEAR("bert-no-binary-head", binary_head),
	SET("freeze-ViT", job.freeze_tower),
	REFUSE("freeze-LM", "training of the encoder of images alone is not modelled"),
	INT("img-h", job.model.image, 1, RANKS),
	INT("patch-dim", job.model.patch, 1, RANKS),
	INT("num-channels", job.model.channels, 1, 4096),
	INT("vocab-size", job.model.vocab, 1, 1 << 26),
	INT("padded-vocab-size", job.padded_vocab, 1, 1 << 30),
	INT("make-vocab-size-divisible-by", job.vocab_multiple, 1, 1 << 20),
	SOFT("tokenizer-type", tokenizer, "it could have said the size of the vocabulary"),
	SOFT("tokenizer-model", tokenizer_model, "it could have said the size of the vocabulary"),
	/* mixture of experts */
	INT("num-experts", job.model.experts, 0, RANKS),
	INT("moe-router-topk", job.model.topk, 1, RANKS),
	INT("moe-router-num-groups", job.model.router_groups, 1, RANKS),
	INT("moe-router-group-topk", job.model.router_group_limit, 1, RANKS),
	INT("moe-ffn-hidden-size", job.model.expert_ffn, 1, 1 << 24),
	INT("moe-shared-expert-intermediate-size", job.model.shared_ffn, 0, 1 << 24),
	INT("moe-latent-size", job.model.expert_latent, 1, 1 << 20),
	TEXT("moe-layer-freq", moe_freq),
	SET("moe-shared-expert-gate", job.model.shared_gate),
	SET("moe-router-enable-expert-bias", job.model.router_bias),
	CHOICE("moe-router-score-function", router_score, scores),
	CHOICE("moe-token-dispatcher-type", dispatcher, dispatchers),
	SET2("moe-enable-deepep", deepep),
	CHOICE("moe-flex-dispatcher-backend", flex_backend, flex_backends),
	SET("moe-router-force-load-balancing", balanced_experts),
	/* batch */
	INT("seq-length", job.seq, 1, 1 << 27),
	INT2("encoder-seq-length", job.seq, 1, 1 << 27),
	INT("decoder-seq-length", job.decoder_seq, 1, 1 << 27),
	INT("vocab-extra-ids", extra_vocab, 0, 1 << 20),
	INT("micro-batch-size", job.mbs, 1, 1 << 20),
	INT2("batch-size", job.mbs, 1, 1 << 20), /* before 2021 */
	INT("global-batch-size", job.gbs, 1, 1 << 28),
	{"step-batch-size-schedule", LK_FLAG_TEXT, AT(batch_steps), 0, 0, NULL, NULL, true},
	{"rampup-batch-size", LK_FLAG_LIST, AT(rampup), 0, 0, NULL, NULL, true},
	/* layout */
	INT("tensor-model-parallel-size", job.tp, 1, RANKS),
	INT2("model-parallel-size", job.tp, 1, RANKS), /* before 2021 */
	INT("pipeline-model-parallel-size", job.pp, 1, 4096),
	INT("num-virtual-stages-per-pipeline-rank", job.vp, 1, 4096),
	INT("microbatch-group-size-per-virtual-pipeline-stage", job.microbatch_group, 1, 1 << 20),
	INT2("num-layers-per-virtual-pipeline-stage", virtual_layers, 1, 10000),
	INT("context-parallel-size", job.cp, 1, RANKS),
	INT("expert-model-parallel-size", job.ep, 1, RANKS),
	INT("expert-tensor-parallel-size", job.etp, 1, RANKS),
	INT("decoder-first-pipeline-num-layers", job.first_stage_layers, 1, 10000),
	INT("decoder-last-pipeline-num-layers", job.last_stage_layers, 1, 10000),
	SET("account-for-embedding-in-pipeline-split", job.account_embedding),
	SET("account-for-loss-in-pipeline-split", job.account_loss),
	TEXT("pipeline-model-parallel-layout", layout),
	SET("sequence-parallel", sequence_parallel),
	LIST("cp-comm-type", cp_type),
	LIST("hierarchical-context-parallel-sizes", cp_sizes),
	SET("enable-zero-bubble", zero_bubble),
	SET("zero-bubble-v-schedule", zero_bubble_v),
	/* data parallelism */
	SET("use-distributed-optimizer", distributed_optimizer),
	SET("use-megatron-fsdp", megatron_fsdp),
	SET2("use-custom-fsdp", megatron_fsdp),
	CHOICE("data-parallel-sharding-strategy", strategy, strategies),
	SET("use-torch-fsdp2", torch_fsdp2),
	SET("torch-fsdp2-no-reshard-after-forward", fsdp2_keep),
	INT("num-distributed-optimizer-instances", instances, 1, RANKS),
	INT2("zero-stage", zero_stage, 0, 3),
	SET("overlap-grad-reduce", overlap_grads),
	SET("overlap-param-gather", overlap_params),
	SET("no-overlap-p2p-communication", no_overlap_p2p),
	SET("tp-comm-overlap", tp_overlap),
	REAL("ddp-bucket-size", bucket_params),
	/* activations */
	CHOICE("recompute-granularity", granularity, granularities),
	SET2("recompute-activations", recompute_activations),
	SET2("checkpoint-activations", checkpoint_layers),
	{"activations-checkpoint-method", LK_FLAG_CHOICE, AT(old_method), 0, 0, methods, NULL, true},
	{"activations-checkpoint-num-layers", LK_FLAG_INT, AT(old_layers), 1, 10000, NULL, NULL, true},
	CHOICE("recompute-method", method, methods),
	INT("recompute-num-layers", recompute_count, 1, 10000),
	LIST("recompute-modules", modules),
	SET2("moe-layer-recompute", moe_recompute),
	/* numbers and kernels */
	SET("bf16", bf16),
	SET("fp16", fp16),
	CHOICE("fp8-format", fp8, fp8_formats),
	CHOICE("fp8-recipe", fp8_recipe, fp8_recipes),
	CHOICE("fp4-format", fp4, fp4_formats),
	SET("accumulate-allreduce-grads-in-fp32", grads_fp32),
	SET("grad-reduce-in-bf16", reduce_bf16),
	CHOICE("main-grads-dtype", grads_dtype, wide),
	CHOICE("main-params-dtype", params_dtype, params_dtypes),
	CHOICE("exp-avg-dtype", moment_dtype, moments),
	CHOICE("exp-avg-sq-dtype", moment2_dtype, moments),
	CHOICE("optimizer", optimizer, optimizers),
	INT("muon-num-ns-steps", job.muon_steps, 1, 100),
	SET("muon-use-syrk", job.muon_syrk),
	CHOICE("muon-tp-mode", job.muon_tp, lk_muon_tp_names),
	SET("optimizer-cpu-offload", job.offload_optimizer),
	SET2("cpu-optimizer", job.offload_optimizer),
	CHOICE("attention-backend", backend, backends),
	SET2("use-flash-attn", flash_attention),
	SET2("use-flash-attn-v2", flash_attention),
	CHOICE("transformer-impl", implementation, implementations),
	SET("cross-entropy-loss-fusion", fused_loss),
	CHOICE("cross-entropy-fusion-impl", loss_impl, loss_impls),
	SET("defer-embedding-wgrad-compute", defer_head),
	INT("wgrad-deferral-limit", job.deferral_limit, 0, 1 << 20),
	SET("deterministic-mode", job.deterministic),
	SET("fp8-param-gather", job.narrow_weights),
	SET("activation-func-fp8-input-store", job.narrow_activations),
	CLEAR("no-create-attention-mask-in-dataloader", job.attention_mask),
	SET("moe-grouped-gemm", grouped_gemm),
	SET2("enable-cuda-graph", cuda_graph),
	SET2("external-cuda-graph", cuda_graph),
	CHOICE("cuda-graph-impl", graph_impl, graph_impls),
	SET("sft", sft),
	SET("is-hybrid-model", hybrid_said),
	REAL("hybrid-attention-ratio", attention_share),
	REAL("hybrid-mlp-ratio", mlp_share),

	/* what another network would need */
	REFUSE("mamba-*", MAMBA),
	REFUSE("linear-*", "linear attention of this kind is not modelled"),
	REFUSE("dsa-*", "indices that layers share are not modelled"),
	REFUSE("spec", "layers of a module specification are not modelled"),
	LEAVE("fine-grained-activation-offloading", "activations are priced as on the device"),
	LEAVE("offload-modules", "activations are priced as on the device"),
	REFUSE("heterogeneous-layers-config-path", BLOCKS),
	REFUSE("heterogeneous-layers-config-encoded-json", BLOCKS),
	REFUSE("retro-add-retriever", "retrieval layers are not modelled"),
	REFUSE("perform-rl-step", "reinforcement-learning steps are not modelled"),
	REFUSE("yaml-cfg", "the flags are in a file that lockstep does not read; paste them as flags"),

	/* changes the step, not modelled */
	LEAVE("no-masked-softmax-fusion", FUSION),
	LEAVE("no-bias-gelu-fusion", FUSION),
	LEAVE("no-bias-swiglu-fusion", FUSION),
	LEAVE("no-bias-dropout-fusion", FUSION),
	LEAVE("no-rope-fusion", FUSION),
	LEAVE("no-gradient-accumulation-fusion", FUSION),
	LEAVE("no-persist-layer-norm", FUSION),
	LEAVE("use-te-activation-func", FUSION),
	LEAVE("moe-permute-fusion", FUSION),
	LEAVE("moe-router-fusion", FUSION),
	LEAVE("use-fused-weighted-squared-relu", FUSION),
	LEAVE("apply-rope-fusion", FUSION),
	LEAVE("no-gradient-reduce-div-fusion", FUSION),
	LEAVE("moe-use-legacy-grouped-gemm", "experts are always priced as grouped matrix products"),
	LEAVE("moe-shared-expert-overlap",
          "overlap of shared experts with the dispatch is not modelled"),
	SET("overlap-moe-expert-parallel-comm", expert_overlap),
	SET("delay-wgrad-compute", job.delay_weights),
	LEAVE("moe-extended-tp", "replaced by --expert-tensor-parallel-size"),
	LEAVE("moe-expert-capacity-factor",
          "dropped or padded tokens are not modelled; see the imbalance of experts"),
	LEAVE("moe-pad-expert-input-to-capacity",
          "dropped or padded tokens are not modelled; see the imbalance of experts"),
	LEAVE("moe-token-drop-policy",
          "dropped or padded tokens are not modelled; see the imbalance of experts"),
	LEAVE("moe-router-padding-for-fp8", "padding of expert inputs is not modelled"),
	INT("moe-deepep-num-sms", job.dispatch_sms, 0, 1024),
	INT2("moe-hybridep-num-sms", job.dispatch_sms, 0, 1024),
	INT2("moe-flex-dispatcher-num-sms", job.dispatch_sms, 0, 1024),
	LEAVE("moe-router-padding-for-quantization", "padding of expert inputs is not modelled"),
	LEAVE("megatron-fsdp-main-params-dtype", "formats are those of Megatron-LM's own optimizer"),
	LEAVE("megatron-fsdp-main-grads-dtype", "formats are those of Megatron-LM's own optimizer"),
	LEAVE("megatron-fsdp-grad-comm-dtype", "formats are those of Megatron-LM's own optimizer"),
	LEAVE("export-kd-teacher-load", "add --teacher: its forward pass is not priced"),
	LEAVE("cpu-offloading-num-layers",
          "add --offload-activations, which moves those of all layers"),
	LEAVE("cpu-offloading", "add --offload-activations, which moves those of all layers"),
	LEAVE("optimizer-offload-fraction", "the whole optimizer state is counted as offloaded"),
	LEAVE("overlap-cpu-optimizer-d2h-h2d", "overlap of the offloaded optimizer is not modelled"),
	LEAVE("use-torch-optimizer-for-cpu-offload",
          "which code runs the offloaded optimizer is not modelled"),
	LEAVE("distribute-saved-activations", "distribution of saved activations is not modelled"),
	LEAVE("DDP-impl", "gradients are reduced as Megatron-LM's own data parallelism does"),
	LEAVE("distribute-checkpointed-activations",
          "distribution of saved activations is not modelled"),
	LEAVE("partition-activations", "distribution of saved activations is not modelled"),
	LEAVE("empty-unused-memory-level", "emptying the allocator's cache is not modelled"),
	LEAVE("fp32-residual-connection", "fp32 residuals are not modelled"),
	LEAVE("fp4-param-gather", "fp4 gathering of parameters is not modelled"),
	LEAVE("fp8-param", "fp8 parameters are not modelled"),
	SET("first-last-layers-bf16", wide_ends),
	INT("num-layers-at-start-in-bf16", wide_first, 0, 10000),
	INT("num-layers-at-end-in-bf16", wide_last, 0, 10000),
	LEAVE("no-fp8-wgrad", "weight gradients are priced in fp8 too"),
	LEAVE("keep-fp8-transpose-cache", "copies of fp8 weights follow the recipe"),
	LEAVE("reuse-grad-buf-for-mxfp8-param-ag", "reuse of the gradient buffer is not modelled"),
	SET("use-precision-aware-optimizer", precision_aware),
	LEAVE("squared-relu", "activation functions of equal traffic are not distinguished"),
	LEAVE("openai-gelu", "activation functions of equal traffic are not distinguished"),
	SKIP("onnx-safe", NUMBERS),
	LEAVE("overlap-p2p-communication-warmup-flush",
          "warm-up and flush follow the steady state's overlap"),
	LEAVE("overlap-param-gather-with-optimizer-step",
          "overlap with the optimizer's step is not modelled"),
	LEAVE("no-align-grad-reduce", "stages start their reductions on their own"),
	LEAVE("align-grad-reduce", "stages start their reductions on their own"),
	LEAVE("no-align-param-gather", "stages start their gathers on their own"),
	LEAVE("align-param-gather", "stages start their gathers on their own"),
	LEAVE("ddp-num-buckets", "a number of buckets is not modelled; use --ddp-bucket-size"),
	LEAVE("ddp-pad-buckets-for-high-nccl-busbw", "padding of buckets is not modelled"),
	SKIP("ddp-average-in-collective", NUMBERS),
	LEAVE("ddp-reduce-scatter-with-fp32-accumulation",
          "an all-to-all in place of the reduce-scatter is not modelled"),
	LEAVE("suggested-communication-unit-size", "the unit of FSDP's communication is a layer"),
	LEAVE("fsdp-double-buffer", "FSDP's buffers are modelled with prefetch of one unit"),
	LEAVE("enable-full-sharding-in-hsdp", "sharding over the outer group is not modelled"),
	LEAVE("outer-dp-sharding-strategy", "sharding over the outer group is not modelled"),
	LEAVE("no-scatter-gather-tensors-in-pipeline",
          "with sequence parallelism stages exchange a slice anyway"),
	LEAVE("use-tp-pp-dp-mapping", "ranks are laid out as tp, cp, dp, pp"),
	LEAVE("tp-comm-overlap-cfg", "the overlap is modelled with its defaults"),
	LEAVE("disable-tp-comm-overlap-ag", "the overlap is modelled with its defaults"),
	LEAVE("disable-tp-comm-overlap-rs", "the overlap is modelled with its defaults"),
	LEAVE("tp-comm-overlap-rs-dgrad", "the overlap is modelled with its defaults"),
	LEAVE("disable-tp-comm-bulk-dgrad", "the overlap is modelled with its defaults"),
	LEAVE("disable-tp-comm-bulk-wgrad", "the overlap is modelled with its defaults"),
	LEAVE("disable-tp-comm-split-ag", "the overlap is modelled with its defaults"),
	LEAVE("disable-tp-comm-split-rs", "the overlap is modelled with its defaults"),
	LEAVE("cuda-graph-scope", "a graph of the whole step is modelled"),
	LEAVE("cuda-graph-modules", "a graph of the whole step is modelled"),
	LEAVE("num-layers-per-stage", "replaced by the split over pipeline stages"),
	LEAVE("ds-sequence-parallel-size", "DeepSpeed-Ulysses is not modelled"),
	SKIP("megatron-fsdp-version", "both shard alike"),
	LEAVE("fine-grained-activation-offloading", OFFLOADED),
	LEAVE("offload-modules", OFFLOADED),
	LEAVE("min-offloaded-tensor-size", OFFLOADED),
	LEAVE("delta-offload-bytes-across-pp-ranks", OFFLOADED),
	LEAVE("img-w", "images are taken as square"),
	SOFT("language-model-type", language, "it could have said the size of the vocabulary"),
	LEAVE("vision-model-type", IMAGES),
	LEAVE("vision-backbone-type", IMAGES),
	LEAVE("vision-projection-type", IMAGES),
	LEAVE("disable-vision-class-token", IMAGES),
	LEAVE("allow-missing-vision-projection-checkpoint", IMAGES),
	LEAVE("pixel-shuffle", IMAGES),
	LEAVE("image-tag-type", IMAGES),
	LEAVE("use-tiling", IMAGES),
	LEAVE("max-num-tiles", IMAGES),
	LEAVE("use-thumbnail", IMAGES),
	LEAVE("use-tile-tags", IMAGES),
	LEAVE("num-frames", IMAGES),
	LEAVE("use-area-weighted-aspect-ratio", IMAGES),
	LEAVE("use-image-tag", IMAGES),
	LEAVE("image-break-token", IMAGES),
	LEAVE("conv-merging", IMAGES),
	LEAVE("class-token-len", IMAGES),
	LEAVE("efficient-video-sampling-variant", IMAGES),
	LEAVE("recompute-vision", IMAGES),
	LEAVE("recompute-vision-num-layers", IMAGES),
	LEAVE("radio-*", IMAGES),
	LEAVE("vision-huggingface-model-name-or-path", IMAGES),
	LEAVE("language-huggingface-model-name-or-path", "the flags of the shape say it"),
	LEAVE("decoder-tp-comm-overlap", "the language model's products do not overlap with it"),
	SKIP("allow-missing-conv-merge-checkpoint", SAVING),
	SKIP("online-evaluation-config", EVAL),
	SKIP("use-mcore-inference", INFERENCE),
	SKIP("dataset-config", DATA),
	SKIP("dataloader-save", DATA),
	SKIP("prompt-path", DATA),
	SKIP("finetune-hf-dataset", DATA),
	SKIP("finetune-data-split", DATA),
	SKIP("special-tokens", DATA),
	SKIP("eos-id", DATA),
	SKIP("force-system-message", DATA),
	SKIP("packing-knapsack-algorithm", DATA),
	SKIP("use-te", DEFAULT_NOW),
	LEAVE("packing-buffer-size", DATA),
	LEAVE("packing-seq-length", "sequences of --decoder-seq-length are priced"),
	LEAVE("use-loss-scaling", LOSS),
	LEAVE("num-classes", "the classifier's head is not modelled, it is small"),
	LEAVE("nccl-ub", NETWORK),
	LEAVE("use-nccl-ub", NETWORK),
	LEAVE("use-sharp", NETWORK),
	LEAVE("sharp-enabled-group", NETWORK),
	LEAVE("disable-symmetric-registration", NETWORK),
	LEAVE("nccl-communicator-config-path", NETWORK),
	LEAVE("high-priority-stream-groups", NETWORK),
	LEAVE("pipeline-model-parallel-comm-backend", NETWORK),
	LEAVE("use-ring-exchange-p2p", NETWORK),
	LEAVE("tp-comm-bootstrap-backend", NETWORK),
	LEAVE("symmetric-ar-type", NETWORK),
	LEAVE("manual-gc", "pauses of the host are those of the requested jitter"),
	LEAVE("manual-gc-interval", "pauses of the host are those of the requested jitter"),
	SKIP("no-manual-gc-eval", EVAL),
	LEAVE("train-sync-interval", "synchronisation of the host is not modelled"),
	LEAVE("no-check-for-nan-in-loss-and-grad", "the check for NaN is not modelled, it is small"),
	LEAVE("check-for-nan-in-loss-and-grad", "the check for NaN is not modelled, it is small"),
	LEAVE("check-for-spiky-loss", "the check of the loss is not modelled, it is small"),
	LEAVE("check-for-large-grads", "the check of the gradients is not modelled, it is small"),

	/* no change */
	SKIP("no-async-tensor-model-parallel-allreduce", DEFAULT_NOW),
	SKIP("use-mcore-models", DEFAULT_NOW),
	LEAVE("use-legacy-models", "the layers have the same shapes"),
	SKIP("enable-experimental", DEFAULT_NOW),
	LEAVE("distributed-backend", "collectives are priced as NCCL's"),
	SKIP("disable-gloo-process-groups", START),
	SKIP("lazy-mpu-init", START),
	SKIP("local-rank", START),
	SKIP("local_rank", START),
	SKIP("init-model-with-meta-device", START),
	SKIP("use-cpu-initialization", START),
	SKIP("seed", START),
	SKIP("data-parallel-random-init", START),
	SKIP("init-method-std", START),
	SKIP("embedding-init-method-std", START),
	SKIP("init-method-xavier-uniform", START),
	SKIP("te-rng-tracker", START),
	SKIP("inference-rng-tracker", INFERENCE),
	SKIP("disable-msc", DATA),
	SKIP("transformer-pipeline-model-parallel-size", START),
	SKIP("rotary-percent", NUMBERS),
	SKIP("rotary-interleaved", NUMBERS),
	SKIP("rotary-seq-len-interpolation-factor", NUMBERS),
	SKIP("use-rope-scaling", NUMBERS),
	SKIP("rope-scaling-factor", NUMBERS),
	SKIP("rope-type", NUMBERS),
	SKIP("no-rope-freq", NUMBERS),
	SKIP("mrope-section", NUMBERS),
	SKIP("rotary-scaling-factor", NUMBERS),
	SKIP("mscale", NUMBERS),
	SKIP("mscale-all-dim", NUMBERS),
	SKIP("no-position-embedding", NUMBERS),
	SKIP("relative-attention-max-distance", NUMBERS),
	SKIP("norm-epsilon", NUMBERS),
	SKIP("layernorm-epsilon", NUMBERS),
	SKIP("apply-layernorm-1p", NUMBERS),
	SKIP("apply-residual-connection-post-layernorm", NUMBERS),
	SKIP("activation-func-clamp-value", NUMBERS),
	SKIP("glu-linear-offset", NUMBERS),
	SKIP("qk-l2-norm", NUMBERS),
	SKIP("qk-clip", NUMBERS),
	SKIP("attention-softmax-in-fp32", NUMBERS),
	SKIP("apply-query-key-layer-scaling", NUMBERS),
	SKIP("no-query-key-layer-scaling", NUMBERS),
	SKIP("disable-bf16-reduced-precision-matmul", NUMBERS),
	SKIP("fp16-lm-cross-entropy", NUMBERS),
	SKIP("fp8-margin", NUMBERS),
	SKIP("fp8-interval", NUMBERS),
	SKIP("fp8-amax-history-len", NUMBERS),
	SKIP("fp8-amax-compute-algo", NUMBERS),
	SKIP("fp8-quantizer-factory", NUMBERS),
	SKIP("fp4-recipe", NUMBERS),
	SKIP("fp4-quantizer-factory", NUMBERS),
	SKIP("loss-scale", NUMBERS),
	SKIP("initial-loss-scale", NUMBERS),
	SKIP("min-loss-scale", NUMBERS),
	SKIP("loss-scale-window", NUMBERS),
	SKIP("hysteresis", NUMBERS),
	SKIP("calculate-per-token-loss", NUMBERS),
	SKIP("mtp-loss-scaling-factor", NUMBERS),
	LEAVE("mtp-use-repeated-layer", "each prediction of a further token has weights of its own"),
	SKIP("use-mup", NUMBERS),
	SKIP("mup-base-hidden-size", NUMBERS),
	SKIP("apply-wd-to-qk-layernorm", RATE),
	SKIP("verify-integrity", SAVING),
	SKIP("async-strategy", SAVING),
	SKIP("async-ckpt-use-cpu-shm", SAVING),
	SKIP("ckpt-fully-parallel-load-per-rank-objects", SAVING),
	SKIP("no-ckpt-load-validate-sharding-integrity", SAVING),
	SKIP("ckpt-drop-redundant-extra-state", SAVING),
	SKIP("language-model-checkpoint", SAVING),
	SKIP("no-use-layer-wise-param-layout", START),
	SKIP("export-kd-cfg", "see --export-kd-teacher-load"),
	SKIP("export-te-mcore-model", START),
	SKIP("export-model-type", START),
	SKIP("log-memory-interval", LOGGING),
	SKIP("dataloader-seq-length", DATA),
	SKIP("moe-router-dtype", NUMBERS),
	SKIP("moe-router-pre-softmax", NUMBERS),
	SKIP("moe-router-topk-scaling-factor", NUMBERS),
	SKIP("moe-router-bias-update-rate", NUMBERS),
	SKIP("moe-apply-probs-on-input", NUMBERS),
	SKIP("moe-input-jitter-eps", NUMBERS),
	LEAVE("moe-router-load-balancing-type", LOSS),
	LEAVE("moe-aux-loss-coeff", LOSS),
	LEAVE("moe-z-loss-coeff", LOSS),
	SKIP("moe-use-upcycling", START),
	SKIP("moe-upcycling-granularity", START),
	SKIP("moe-per-layer-logging", LOGGING),
	SKIP("sft-tokenizer-prompt-format", DATA),
	SKIP("no-clone-scatter-output-in-embedding", NUMBERS),
	SKIP("decrease-batch-size-if-needed", LENGTH),

	SKIP("lr", RATE),
	SKIP("min-lr", RATE),
	SKIP("lr-decay-style", RATE),
	SKIP("lr-wsd-decay-style", RATE),
	SKIP("lr-decay-iters", RATE),
	SKIP("lr-decay-samples", RATE),
	SKIP("lr-wsd-decay-samples", RATE),
	SKIP("lr-wsd-decay-iters", RATE),
	SKIP("lr-warmup-fraction", RATE),
	SKIP("lr-warmup-iters", RATE),
	SKIP("lr-warmup-samples", RATE),
	SKIP("lr-warmup-init", RATE),
	SKIP("warmup", RATE),
	SKIP("decoupled-lr", RATE),
	SKIP("decoupled-min-lr", RATE),
	SKIP("override-opt_param-scheduler", RATE),
	SKIP("override-opt-param-scheduler", RATE),
	SKIP("use-checkpoint-opt_param-scheduler", RATE),
	SKIP("use-checkpoint-opt-param-scheduler", RATE),
	SKIP("weight-decay", RATE),
	SKIP("start-weight-decay", RATE),
	SKIP("end-weight-decay", RATE),
	SKIP("weight-decay-incr-style", RATE),
	SKIP("clip-grad", RATE),
	SKIP("adam-beta1", RATE),
	SKIP("adam-beta2", RATE),
	SKIP("adam-eps", RATE),
	SKIP("sgd-momentum", RATE),
	SKIP("muon-momentum", RATE),
	SKIP("muon-scale-mode", RATE),
	SKIP("muon-use-nesterov", RATE),
	SKIP("muon-no-split-qkv", RATE),
	SKIP("muon-fp32-matmul-prec", RATE),
	SKIP("muon-extra-scale-factor", RATE),
	SKIP("head-lr-mult", RATE),

	SKIP("train-iters", LENGTH),
	SKIP("train-samples", LENGTH),
	SKIP("train-tokens", LENGTH),
	SKIP("exit-interval", LENGTH),
	SKIP("exit-duration-in-mins", LENGTH),
	SKIP("exit-signal-handler", LENGTH),
	SKIP("iterations-to-skip", LENGTH),
	SKIP("skip-train", LENGTH),
	SKIP("eval-iters", EVAL),
	SKIP("eval-interval", EVAL),
	SKIP("full-validation", EVAL),
	SKIP("multiple-validation-sets", EVAL),
	SKIP("test-mode", EVAL),

	SKIP("data-path", DATA),
	SKIP("train-data-path", DATA),
	SKIP("valid-data-path", DATA),
	SKIP("test-data-path", DATA),
	SKIP("data-args-path", DATA),
	SKIP("per-split-data-args-path", DATA),
	SKIP("data-cache-path", DATA),
	SKIP("split", DATA),
	SKIP("mock-data", DATA),
	SKIP("no-mmap-bin-files", DATA),
	SKIP("num-workers", DATA),
	SKIP("dataloader-type", DATA),
	SKIP("no-data-sharding", DATA),
	SKIP("reset-position-ids", DATA),
	SKIP("reset-attention-mask", DATA),
	SKIP("eod-mask-loss", DATA),
	SKIP("num-dataset-builder-threads", DATA),
	SKIP("object-storage-cache-path", DATA),
	SKIP("mid-level-dataset-surplus", DATA),
	SKIP("sample-rate", DATA),
	SKIP("mask-prob", DATA),
	SKIP("short-seq-prob", DATA),
	SKIP("vocab-file", DATA),
	SKIP("merge-file", DATA),
	LEAVE("vocab-extra-ids", "the extra tokens are lost in the padding of the vocabulary"),
	SKIP("tokenizer-metadata", DATA),
	SKIP("tiktoken-pattern", DATA),
	SKIP("tiktoken-num-special-tokens", DATA),
	SKIP("tiktoken-special-tokens", DATA),
	SKIP("legacy-tokenizer", DATA),
	SKIP("trust-remote-code", DATA),
	SKIP("allow-ambiguous-pad-tokens", DATA),
	SKIP("tokenizer-prompt-format", DATA),
	SKIP("retriever-seq-length", DATA),
	SKIP("fim-data", DATA),
	SKIP("fim-rate", DATA),
	SKIP("fim-spm-rate", DATA),
	SKIP("classes-fraction", DATA),
	SKIP("data-per-class-fraction", DATA),

	SKIP("save", SAVING),
	SKIP("load", SAVING),
	SKIP("save-interval", SAVING),
	SKIP("persistent-save-interval", SAVING),
	SKIP("save-retain-interval", SAVING),
	SKIP("no-save-optim", SAVING),
	SKIP("no-save-rng", SAVING),
	SKIP("no-load-optim", SAVING),
	SKIP("no-load-rng", SAVING),
	SKIP("load-main-params-from-ckpt", SAVING),
	SKIP("finetune", SAVING),
	SKIP("pretrained-checkpoint", SAVING),
	SKIP("ckpt-step", SAVING),
	SKIP("no-initialization", SAVING),
	LEAVE("use-checkpoint-args", "shapes in a checkpoint are not read; state them as flags"),
	LEAVE("use-mp-args-from-checkpoint-args",
          "a layout in a checkpoint is not read; state it as flags"),
	SKIP("no-use-tokenizer-model-from-checkpoint-args", SAVING),
	SKIP("exit-on-missing-checkpoint", SAVING),
	SKIP("use-dist-ckpt", SAVING),
	SKIP("use-persistent-ckpt-worker", SAVING),
	SKIP("auto-detect-ckpt-format", SAVING),
	SKIP("dist-ckpt-format", SAVING),
	SKIP("ckpt-format", SAVING),
	SKIP("ckpt-convert-format", SAVING),
	SKIP("ckpt-convert-save", SAVING),
	SKIP("ckpt-fully-parallel-save", SAVING),
	SKIP("no-ckpt-fully-parallel-save", SAVING),
	SKIP("ckpt-fully-parallel-load", SAVING),
	SKIP("async-save", SAVING),
	SKIP("ckpt-assume-constant-structure", SAVING),
	SKIP("dist-ckpt-strictness", SAVING),
	SKIP("non-persistent-save-interval", SAVING),
	SKIP("non-persistent-ckpt-type", SAVING),
	SKIP("non-persistent-global-ckpt-dir", SAVING),
	SKIP("non-persistent-local-ckpt-dir", SAVING),
	SKIP("non-persistent-local-ckpt-algo", SAVING),
	SKIP("replication", SAVING),
	SKIP("replication-jump", SAVING),
	SKIP("replication-factor", SAVING),
	SKIP("no-strict-fsdp-dtensor-load", SAVING),
	SKIP("dist-ckpt-save-pre-mcore-014", SAVING),
	SKIP("dist-ckpt-optim-fully-reshardable", SAVING),
	SKIP("distrib-optim-fully-reshardable-mem-efficient", SAVING),

	SKIP("log-interval", LOGGING),
	SKIP("log-params-norm", LOGGING),
	SKIP("log-num-zeros-in-grad", LOGGING),
	SKIP("log-throughput", LOGGING),
	SKIP("log-progress", LOGGING),
	SKIP("log-energy", LOGGING),
	SKIP("log-straggler", LOGGING),
	SKIP("log-timers-to-tensorboard", LOGGING),
	SKIP("log-validation-ppl-to-tensorboard", LOGGING),
	SKIP("log-memory-to-tensorboard", LOGGING),
	SKIP("log-world-size-to-tensorboard", LOGGING),
	SKIP("log-loss-scale-to-tensorboard", LOGGING),
	SKIP("no-log-loss-scale-to-tensorboard", LOGGING),
	SKIP("log-learning-rate-to-tensorboard", LOGGING),
	SKIP("log-batch-size-to-tensorboard", LOGGING),
	SKIP("timing-log-level", LOGGING),
	SKIP("timing-log-option", LOGGING),
	SKIP("no-barrier-with-level-1-timing", LOGGING),
	SKIP("tensorboard-dir", LOGGING),
	SKIP("tensorboard-log-interval", LOGGING),
	SKIP("tensorboard-queue-size", LOGGING),
	SKIP("wandb-project", LOGGING),
	SKIP("wandb-entity", LOGGING),
	SKIP("wandb-exp-name", LOGGING),
	SKIP("wandb-save-dir", LOGGING),
	SKIP("logging-level", LOGGING),
	SKIP("config-logger-dir", LOGGING),
	SKIP("no-one-logger", LOGGING),
	SKIP("one-logger-project", LOGGING),
	SKIP("one-logger-run-name", LOGGING),
	SKIP("one-logger-async", LOGGING),
	SKIP("app-tag-run-name", LOGGING),
	SKIP("app-tag-run-version", LOGGING),
	SKIP("profile", LOGGING),
	SKIP("profile-step-start", LOGGING),
	SKIP("profile-step-end", LOGGING),
	SKIP("profile-ranks", LOGGING),
	SKIP("use-pytorch-profiler", LOGGING),
	SKIP("record-memory-history", LOGGING),
	SKIP("memory-snapshot-path", LOGGING),
	SKIP("straggler-ctrlr-port", LOGGING),
	SKIP("straggler-minmax-count", LOGGING),
	SKIP("disable-straggler-on-startup", LOGGING),
	SKIP("dump-param-to-param-group-map", LOGGING),
	SKIP("run-workload-inspector-server", LOGGING),
	SKIP("result-rejected-tracker-filename", TIMEOUT),
	SKIP("distributed-timeout-minutes", TIMEOUT),
	SKIP("distributed-timeout-seconds-after-init", TIMEOUT),
	SKIP("rerun-mode", TIMEOUT),
	SKIP("error-injection-rate", TIMEOUT),
	SKIP("error-injection-type", TIMEOUT),
	SKIP("enable-ft-package", TIMEOUT),
	SKIP("calc-ft-timeouts", TIMEOUT),
	SKIP("inprocess-restart", TIMEOUT),
	SKIP("adlr-autoresume", TIMEOUT),
	SKIP("adlr-autoresume-interval", TIMEOUT),
	SKIP("check-weight-hash-across-dp-replicas-interval", TIMEOUT),
	SKIP("flash-decode", INFERENCE),
	SKIP("cuda-graph-warmup-steps", START),
	SKIP("inference-max-seq-length", INFERENCE),
	SKIP("inference-max-requests", INFERENCE),
	SKIP("rl-*", RL),
	SKIP("grpo-*", RL),
	SKIP("langrl-*", RL),
	LEAVE("deepspeed-activation-checkpointing", "see the recomputation flags"),
	LEAVE("no-pipeline-parallel", "the number of stages says it"),
	SKIP("no-pin-cpu-grads", NUMBERS),
	SKIP("no-pin-cpu-params", NUMBERS),
	{NULL, LK_FLAG_IGNORED, 0, 0, 0, NULL, NULL, false},
};

/* A row that ends with '*' is that of all names that begin so. */
const lk_flag *lk_megatron_flag(const char *name) {
	for (const lk_flag *flag = lk_megatron_flags; flag->name != NULL; flag++) {
		size_t length = strlen(flag->name);
		bool all = flag->name[length - 1] == '*';
		if (all ? strncmp(flag->name, name, length - 1) == 0 : strcmp(flag->name, name) == 0)
			return flag;
	}
	return NULL;
}

const char *lk_megatron_near(const char *name) {
	for (const lk_flag *flag = lk_megatron_flags; flag->name != NULL; flag++)
		if (flag->kind != LK_FLAG_IGNORED && lk_is_slip(name, flag->name)) return flag->name;
	return NULL;
}

static bool is_flag(const lk_word *word) {
	const char *t = word->text;
	return t[0] == '-' &&
	       (t[1] == '-' || (t[1] >= 'a' && t[1] <= 'z') || (t[1] >= 'A' && t[1] <= 'Z'));
}

/* "True" and "False" after a switch, as dumps of configurations have it. */
static size_t flags_truth(const lk_word *words, size_t count, bool *on) {
	if (count == 0 || words[0].unknown != NULL) return 0;
	static const char *const names[] = {"False", "True", "false", "true"};
	for (size_t i = 0; i < 4; i++) {
		if (strcmp(words[0].text, names[i]) != 0) continue;
		*on = i % 2 == 1;
		return 1;
	}
	return 0;
}

static lk_status flags_read_choice(lk_reading *reading, const lk_flag *flag, const char *text,
                                   int *out) {
	for (int i = 0; flag->choices[i] != NULL; i++) {
		if (flag->choices[i][0] == '\0' || strcmp(flag->choices[i], text) != 0) continue;
		*out = i;
		return LK_OK;
	}
	size_t count = 0;
	while (flag->choices[count] != NULL) count++;
	const char *near = lk_nearest(text, flag->choices, count);
	lk_fail(reading->err, LK_ERR_INPUT, reading->where, "--%s: \"%s\" is not among its values",
	        flag->name, text);
	return lk_hint(reading->err, "it takes %s",
	               near != NULL && near[0] != '\0' ? near
	                                               : flag->choices[flag->choices[0][0] == '\0']);
}

/* The words up to the next flag as one text, separated by blanks. */
static lk_status flags_read_list(lk_reading *reading, const lk_word *words, size_t count,
                                 const char **out) {
	size_t size = 1;
	for (size_t i = 0; i < count; i++) size += strlen(words[i].text) + 1;
	char *text = lk_arena_alloc(reading->arena, size), *at = text;
	if (text == NULL) return lk_oom(reading->err);
	for (size_t i = 0; i < count; i++) {
		size_t length = strlen(words[i].text);
		if (i > 0) *at++ = ' ';
		memcpy(at, words[i].text, length);
		at += length;
	}
	*at = '\0';
	*out = text;
	return LK_OK;
}

static lk_status value_unknown(lk_reading *reading, const char *name, const lk_word *word) {
	char flag[96];
	snprintf(flag, sizeof flag, "--%s", name);
	return lk_launch_unknown_value(reading, flag, word);
}

static lk_status flags_read_value(lk_reading *reading, const lk_flag *flag, const lk_word *word,
                                  void *field) {
	char where[128];
	long long number;
	if (word->unknown != NULL) return value_unknown(reading, flag->name, word);
	lk_copy(where, sizeof where, "--");
	lk_copy(where + 2, sizeof where - 2, flag->name);
	switch (flag->kind) {
	case LK_FLAG_INT:
		LK_TRY(lk_parse_int(word->text, flag->low, flag->high, &number, where, reading->err));
		*(int *)field = (int)number;
		return LK_OK;
	case LK_FLAG_REAL: return lk_parse_real(word->text, 0, 1e15, field, where, reading->err);
	case LK_FLAG_CHOICE: return flags_read_choice(reading, flag, word->text, field);
	default: *(const char **)field = word->text; return LK_OK;
	}
}

/* --spec of the modules that --hybrid-layer-pattern has anyway, as one word or two; not that in
 * which M is a gated delta product. */
static bool flags_own_spec(const char *name, const lk_word *words, size_t values) {
	static const char *const specs[] = {"megatron.core.models.hybrid.hybrid_layer_specs",
	                                    "megatron.core.models.mamba.mamba_layer_specs"};
	for (size_t i = 0; i < values && strcmp(name, "spec") == 0; i++)
		if (strstr(words[i].text, "gdp_stack_spec")) return false;
	for (size_t i = 0; i < 2 && values > 0 && strcmp(name, "spec") == 0; i++)
		if (strncmp(words[0].text, specs[i], strlen(specs[i])) == 0) return true;
	return false;
}

lk_status lk_megatron_read(lk_reading *reading, lk_megatron *megatron, const char *name,
                           const lk_word *words, size_t count, size_t *used) {
	const lk_flag *flag = lk_megatron_flag(name);
	size_t values = 0;
	while (values < count && !is_flag(&words[values])) values++;
	*used = values;
	if (flag == NULL) return lk_launch_unknown(reading, name, lk_megatron_near(name));
	if (flag->kind == LK_FLAG_IGNORED) return lk_launch_skip(reading, name, flag->reason);
	if (flag->kind == LK_FLAG_UNMODELLED) return lk_launch_note(reading, name, flag->reason);
	if (flags_own_spec(name, words, values))
		return lk_launch_skip(reading, name, "Megatron-LM's own modules of hybrids");
	if (flag->kind == LK_FLAG_REFUSED) {
		lk_fail(reading->err, LK_ERR_INPUT, reading->where, "--%s: %s", name, flag->reason);
		return lk_hint(reading->err, "this launch line cannot be predicted as it is");
	}
	void *field = (char *)megatron + flag->offset;
	if (flag->kind == LK_FLAG_SET || flag->kind == LK_FLAG_CLEAR) {
		bool on = true;
		*used = flags_truth(words, values, &on);
		*(bool *)field = on == (flag->kind == LK_FLAG_SET);
		return LK_OK;
	}
	if (values == 0) {
		lk_fail(reading->err, LK_ERR_INPUT, reading->where, "--%s: the value is missing", name);
		return lk_hint(reading->err, "write it after the flag");
	}
	if (flag->kind == LK_FLAG_LIST) {
		for (size_t i = 0; i < values; i++)
			if (words[i].unknown != NULL) return value_unknown(reading, name, &words[i]);
		return flags_read_list(reading, words, values, field);
	}
	*used = 1;
	if (words[0].unknown != NULL && flag->reason != NULL) {
		*(const char **)field = words[0].text; /* the end of a path may tell enough */
		return lk_launch_skip(reading, name, flag->reason);
	}
	return flags_read_value(reading, flag, &words[0], field);
}
