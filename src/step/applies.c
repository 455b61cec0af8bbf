/* applies.c: options and launch-line flags that cannot act on a job, with the reason. A typed
 * option is refused; a flag of a launch line, which was written for a program and not for lockstep,
 * is listed among the ignored. */
#include "base/arena.h"
#include "step/step.h"

#include <string.h>

#include "base/text.h"
#include "model/layout/sizes.h"

/* ---- what a job lacks ---- */

#define STATE(name, holds)                \
	static bool name(const lk_job *job) { \
		return holds;                     \
	}

STATE(lacks_experts, job->model.experts == 0)
STATE(lacks_divided_experts, job->model.experts > 0 && job->ep == 1)
STATE(lacks_pairs, job->model.experts > 0 && job->expert_overlap == LK_ON && !lk_job_pairs(job))
STATE(lacks_paired_weights, job->delay_weights && !lk_job_pairs(job))
STATE(lacks_tensor_ranks, job->tp == 1)
STATE(lacks_context_ranks, job->cp == 1)
STATE(lacks_stages, job->pp == 1)
STATE(lacks_chunks, job->vp == 1)
STATE(lacks_bubbles, job->pp == 1 && job->schedule >= LK_SCHED_ZB_H1) /* made to fill them */
STATE(lacks_replicas, lk_sizes_dp_ranks(job) == 1 && lk_sizes_edp_ranks(job) == 1)
STATE(lacks_shards, job->sharding == LK_SHARD_NONE)
STATE(reduces_by_layer, job->sharding >= LK_SHARD_ZERO2)
STATE(reduces_at_the_end, job->overlap_grad_reduce == LK_OFF)
STATE(lacks_moments, lk_optimizer_of(job)->moments == 0)
STATE(keeps_wide_weights, job->dtype_said && !lk_job_sixteen_bit(job))
STATE(lacks_newton_schulz, job->optimizer != LK_OPT_MUON)
STATE(lacks_adapters, job->task != LK_TASK_LORA)
STATE(lacks_attention, job->model.network == LK_NET_CONV)
STATE(adds_positions, job->model.relative_rows > 0)
STATE(has_pairs, job->model.tower.apart)
STATE(has_own_code, !lk_job_runs_as_written(job))
STATE(lacks_vocabulary, job->model.vocab == 0 || !job->model.lm_head)
STATE(lacks_texts, job->model.vocab == 0)
STATE(lacks_releases, !lk_stack_has_releases(job->profile))
STATE(lacks_other_gpus, job->gpus == 1)
STATE(lacks_caching, lk_job_like_megatron(job) || lk_job_tokens(job) == 0)
STATE(lacks_window, job->model.window == 0 || job->model.window >= job->seq)
STATE(lacks_fp8, job->dtype != LK_FP8 && job->dtype != LK_MXFP8)
STATE(lacks_recipes, job->dtype != LK_FP8)
STATE(lacks_narrow_products, job->dtype < LK_FP8)
STATE(lacks_narrow_weights, !lk_job_like_megatron(job) || job->sharding == LK_SHARD_ZERO3)
STATE(lacks_dispatcher_sms, job->dispatcher != LK_DISPATCH_NODE)
STATE(lacks_decoder, job->model.network != LK_NET_ENCDEC)
STATE(lacks_latent, job->model.attention != LK_ATTN_MLA)
STATE(lacks_tower, job->model.tower.layers == 0)
STATE(lacks_trained_tower, job->task == LK_TASK_LORA)
STATE(lacks_sizes, !job->model.tower.any_size)
STATE(lacks_delta_nets, !(lk_model_mixers(&job->model) & LK_MIXER_DELTA))
STATE(lacks_indexer, job->model.index_heads == 0)
STATE(lacks_deferral, job->defer_head_gradient != LK_ON)

/* Applies if only dense MLPs are recomputed: with other modules, an assumption names those without
 * effect. */
static bool lacks_dense_mlps(const lk_job *job) {
	return lk_job_recomputes(job, LK_MODULE_MLP) && job->recompute_modules == LK_MODULE_MLP &&
	       lk_job_module_idle(job, LK_MODULE_MLP);
}
static bool lacks_own_norms(const lk_job *job) {
	return lk_job_recomputes(job, LK_MODULE_LAYERNORM) &&
	       job->recompute_modules == LK_MODULE_LAYERNORM &&
	       lk_job_module_idle(job, LK_MODULE_LAYERNORM);
}

/* Jobs are transformers and convolution nets. */
static bool lacks_tables(const lk_job *job) {
	(void)job;
	return true;
}

/* Jobs train; generation is a separate question (predict_generate.c). */
static bool lacks_generation(const lk_job *job) {
	(void)job;
	return true;
}

/* ---- the rules, in order ---- */

static const char leave_out[] = "leave it out";

static const struct rule {
	const char *options, *flags; /* of predict; of launch lines: names separated by spaces */
	bool (*idle)(const lk_job *job);
	bool network; /* only the network decides, not the layout: searches refuse it too */
	const char *reason, *remedy;
} rules[] = {
	{"etp dispatcher moe-imbalance expert-overlap delay-wgrad fp8-dispatch dispatch-sms",
     "moe-router-topk moe-ffn-hidden-size moe-shared-expert-intermediate-size moe-layer-freq "
     "moe-shared-expert-gate moe-router-enable-expert-bias moe-router-score-function "
     "moe-token-dispatcher-type moe-enable-deepep moe-flex-dispatcher-backend "
     "moe-router-force-load-balancing moe-grouped-gemm moe-layer-recompute "
     "expert-tensor-parallel-size overlap-moe-expert-parallel-comm",
     lacks_experts, true, "the model has no experts", leave_out},
	{"dispatcher moe-imbalance fp8-dispatch dispatch-sms",
     "moe-token-dispatcher-type moe-enable-deepep moe-flex-dispatcher-backend",
     lacks_divided_experts, false, "every rank holds all experts, so no token is sent to one",
     "use --ep 2 or more, or leave it out"},
	{"expert-overlap", "overlap-moe-expert-parallel-comm", lacks_pairs, false,
     "only an interleaved pipeline with divided experts has two micro-batches at once",
     "use --pp 2 --vp 2 and --ep 2 or more, or leave it out"},
	{"delay-wgrad", "delay-wgrad-compute", lacks_paired_weights, false,
     "no backward pass runs during a forward pass", "use --expert-overlap, or leave it out"},
	{"rollout response response-max lengths prompt samples engine gpu-mem-util max-sequences "
     "max-tokens "
     "prefix-caching attention-dp kv-dtype speculative",
     "", lacks_generation, true, "nothing is generated",
     "use --task generate, serve, grpo, dapo, ppo or distill, or leave it out"},
	{"arrivals slo", "", lacks_generation, true, "no requests arrive",
     "use --task serve, or leave it out"},
	{"plan", "", lacks_tables, true, "only a recommendation model has tables to place", leave_out},
	{"attention", "", lacks_attention, true, "a convolution net has no attention", leave_out},
	{"attention", "", adds_positions, true,
     "scores of positions between tokens are added to those of attention, which no fused kernel "
     "does",
     leave_out},
	{"eager", "", has_own_code, false, LK_JOB_OWN_CODE, "use --stack fsdp, or leave it out"},
	{"images", "", has_pairs, true, "a pair has one image", leave_out},
	{"seq", "", lacks_attention, true, "a convolution net has no sequence", leave_out},
	{"fused-loss loss", "cross-entropy-loss-fusion cross-entropy-fusion-impl", lacks_vocabulary,
     true, "the model has no logits over a vocabulary", leave_out},
	{"lora-rank lora-targets lora-dropout qlora base-format dora", "", lacks_adapters, true,
     "there are no adapters", "use --task lora, or leave it out"},
	{"images image-size freeze-vision", "", lacks_tower, true, "the model has no encoder of images",
     leave_out},
	{"image-size", "", lacks_sizes, true, "the encoder takes images of one size alone",
     "state tiles of it with --images"},
	{"freeze-vision", "", lacks_trained_tower, true,
     "with adapters the encoder of images is frozen anyway", leave_out},
	{"state-dtype", "exp-avg-dtype exp-avg-sq-dtype", lacks_moments, true,
     "the optimizer keeps no moments in a format of one's choice",
     "use --optimizer adam, or leave it out"},
	{"master-weights", "", keeps_wide_weights, true, "weights in fp32 are their own master copy",
     "use --dtype bf16, or leave it out"},
	{"muon-steps muon-tp-mode", "muon-num-ns-steps muon-tp-mode", lacks_newton_schulz, true,
     "the optimizer is not muon", "use --optimizer muon, or leave it out"},
	{"", "decoder-seq-length decoder-num-layers", lacks_decoder, true,
     "the model has no second stack", leave_out},
	{"", "q-lora-rank kv-lora-rank qk-head-dim qk-pos-emb-head-dim v-head-dim", lacks_latent, true,
     "without --multi-latent-attention nothing is compressed", leave_out},
	{"dispatch-sms", "", lacks_dispatcher_sms, false, "collectives take the SMs of their channels",
     "use --dispatcher node, or leave it out"},
	{"num-labels", "", lacks_texts, true, "the network reads no texts", leave_out},
	{"teacher", "", lacks_vocabulary, true, "the network predicts no words", leave_out},
	{"pack", "", lacks_attention, true, "images are not packed", leave_out},
	{"offload-activations", "", lacks_attention, true, "convolutions keep theirs on the device",
     leave_out},
	{"fp8-recipe", "", lacks_recipes, true, "nothing is computed in fp8",
     "use --dtype fp8, or leave it out"},
	{"bf16-layers", "first-last-layers-bf16", lacks_narrow_products, true,
     "all layers compute in 16 bits or more", leave_out},
	{"fp8-dispatch fp8-activations fp8-params", "activation-func-fp8-input-store",
     lacks_narrow_products, true, "no product reads 8 bits", "use --dtype fp8, or leave it out"},
	{"fp8-params", "", lacks_narrow_weights, false,
     "weights are kept in 8 bits by Megatron-LM alone, with --zero 0 to 2", leave_out},
	{"",
     "linear-attention-freq linear-conv-kernel-dim linear-key-head-dim linear-value-head-dim "
     "linear-num-key-heads linear-num-value-heads",
     lacks_delta_nets, true, "no layer is a delta net", leave_out},
	{"", "dsa-indexer-n-heads dsa-indexer-head-dim dsa-indexer-topk", lacks_indexer, true,
     "no layer chooses its keys by an indexer", leave_out},
	{"", "fp8-recipe fp8-param-gather keep-fp8-transpose-cache no-fp8-wgrad", lacks_fp8, false,
     "without --fp8-format nothing is computed in fp8", leave_out},
	{"", "window-size window-attn-skip-freq", lacks_window, false,
     "the window holds the whole sequence", leave_out},
	{"recompute", "", lacks_dense_mlps, false, "every layer has experts",
     "use --recompute moe, or leave it out"},
	{"recompute", "", lacks_own_norms, false, "every norm is part of the product after it",
     leave_out},
	{"release", "", lacks_releases, false,
     "no runs of several releases of this stack were measured",
     "use --stack nemo, or leave it out"},
	{"muon-tp-mode", "muon-tp-mode", lacks_tensor_ranks, false, "there is no tensor parallelism",
     "use --tp 2 or more, or leave it out"},
	{"sequence-parallel tp-overlap", "tp-comm-overlap", lacks_tensor_ranks, false,
     "there is no tensor parallelism", "use --tp 2 or more, or leave it out"},
	{"cp-kind", "cp-comm-type", lacks_context_ranks, false, "there is no context parallelism",
     "use --cp 2 or more, or leave it out"},
	{"overlap-p2p pipeline-layout",
     "no-overlap-p2p-communication account-for-embedding-in-pipeline-split "
     "account-for-loss-in-pipeline-split",
     lacks_stages, false, "there is no pipeline", "use --pp 2 or more, or leave it out"},
	{"schedule", "", lacks_bubbles, false, "there is no pipeline",
     "use --pp 2 or more, or leave it out"},
	{"", "microbatch-group-size-per-virtual-pipeline-stage", lacks_chunks, false,
     "there are no virtual stages", leave_out},
	{"", "wgrad-deferral-limit", lacks_deferral, false,
     "without --defer-embedding-wgrad-compute nothing is deferred", leave_out},
	{"overlap-grad-reduce overlap-param-gather bucket",
     "overlap-grad-reduce overlap-param-gather ddp-bucket-size", lacks_replicas, false,
     "there is one replica: no gradients are reduced", "use more GPUs, or leave it out"},
	{"overlap-grad-reduce overlap-param-gather bucket",
     "overlap-grad-reduce overlap-param-gather ddp-bucket-size", reduces_by_layer, false,
     "with ZeRO 2 and 3 every layer gathers its weights and reduces its gradients as it runs",
     "use --zero 0 or 1, or leave it out"},
	{"overlap-param-gather shard-group", "overlap-param-gather", lacks_shards, false,
     "with ZeRO 0 nothing is sharded", "use --zero 1 or more, or leave it out"},
	{"bucket", "ddp-bucket-size", reduces_at_the_end, false,
     "without overlap all gradients are reduced at once", "leave out --no-overlap-grad-reduce"},
	{"nccl",
     "NCCL_ALGO NCCL_PROTO NCCL_MIN_NCHANNELS NCCL_MAX_NCHANNELS NCCL_MIN_CTAS NCCL_MAX_CTAS "
     "NCCL_NVLS_ENABLE NCCL_BUFFSIZE NCCL_NVLS_CHUNKSIZE",
     lacks_other_gpus, false, "one GPU runs no collective", "use more GPUs, or leave it out"},
	{"alloc-conf ragged ragged-lengths", "", lacks_attention, true,
     "of networks without tokens it is not simulated", leave_out},
	{"alloc-conf ragged ragged-lengths", "", lacks_caching, false,
     "of Megatron-LM's stacks the allocator is not simulated", leave_out},
	{"max-connections", "", lacks_other_gpus, false,
     "on one GPU nothing runs alongside the compute", "use more GPUs, or leave it out"},
};

enum { RULES = sizeof rules / sizeof *rules };

/* ---- options ---- */

static void *field_of(const lk_predict_request *request, const lk_option *option) {
	return (char *)(uintptr_t)request + option->offset;
}

bool lk_request_gives(const lk_predict_request *request, const lk_option *option) {
	const void *field = field_of(request, option);
	switch (option->kind) {
	case LK_OPTION_FLAG: return *(const bool *)field;
	case LK_OPTION_TEXT: return *(const char *const *)field != NULL;
	case LK_OPTION_REAL:
	case LK_OPTION_COUNT: return *(const double *)field != 0;
	default: return *(const int *)field != 0;
	}
}

static const struct rule *option_idle(const lk_job *job, const lk_option *option, bool network) {
	for (size_t i = 0; i < RULES; i++)
		if ((rules[i].network || !network) && lk_name_among(rules[i].options, option->name) &&
		    rules[i].idle(job))
			return &rules[i];
	return NULL;
}

static lk_status refuse(const lk_predict_request *request, const lk_option *option,
                        const char *reason, const char *remedy, lk_error *err) {
	bool off = option->kind == LK_OPTION_SWITCH && *(const int *)field_of(request, option) < 0;
	char where[64];
	snprintf(where, sizeof where, "--%s%s", off ? "no-" : "", option->name);
	lk_fail(err, LK_ERR_INPUT, where, "it has no effect: %s", reason);
	return lk_hint(err, "%s", remedy);
}

static lk_status check_options(const lk_predict_request *request, const lk_job *job, bool network,
                               lk_error *err) {
	for (const lk_option *option = lk_predict_verb.options; option->name; option++) {
		if (option->output || !lk_request_gives(request, option)) continue;
		const struct rule *rule = option_idle(job, option, network);
		if (rule) return refuse(request, option, rule->reason, rule->remedy, err);
	}
	return LK_OK;
}

lk_status lk_request_check_network(const lk_predict_request *request, const lk_job *job,
                                   lk_error *err) {
	return check_options(request, job, true, err);
}

lk_status lk_request_check_job(const lk_predict_request *request, const lk_job *job,
                               lk_error *err) {
	return check_options(request, job, false, err);
}

void lk_request_keep_acting(const lk_job *job, lk_predict_request *request) {
	for (const lk_option *option = lk_predict_verb.options; option->name; option++) {
		if (option->output || !lk_request_gives(request, option) ||
		    !option_idle(job, option, false))
			continue;
		void *field = field_of(request, option);
		if (option->kind == LK_OPTION_TEXT) *(const char **)field = NULL;
		else if (option->kind == LK_OPTION_FLAG) *(bool *)field = false;
		else if (option->kind == LK_OPTION_REAL || option->kind == LK_OPTION_COUNT)
			*(double *)field = 0;
		else *(int *)field = 0;
	}
}

/* ---- flags of a launch line ---- */

static bool is_listed(const lk_launch *launch, const char *flag) {
	for (int i = 0; i < launch->ignored_count; i++)
		if (strcmp(launch->ignored[i].flag, flag) == 0) return true;
	return false;
}

lk_status lk_launch_list_idle(lk_arena *arena, const lk_job *job, lk_launch *launch,
                              lk_error *err) {
	for (int i = 0; i < launch->flag_count; i++)
		for (size_t k = 0; k < RULES; k++)
			if (lk_name_among(rules[k].flags, launch->flags[i]) && rules[k].idle(job) &&
			    !is_listed(launch, launch->flags[i]))
				LK_TRY(lk_launch_ignore(arena, launch, launch->flags[i], rules[k].reason,
				                        LK_IGNORED_NOTABLE, err));
	return LK_OK;
}
