/* job_check.c: refuse jobs that cannot run. The rules are those of Megatron-LM's validate_args
 * (megatron/training/arguments.py) where a framework decides, and plain divisibility elsewhere.
 * Every message names the option, the rule and the nearest legal values. */
#include "model/layout/sizes.h"

#include <stdio.h>
#include <math.h>
#include <stddef.h>
#include <string.h>
#include "model/layout/schedule.h"
#include "base/noun.h"

/* Limits that keep every product of the checks within 64 bits. */
struct range {
	const char *option;
	size_t offset;
	int high;
};

static const struct range ranges[] = {
	{"--gpus", offsetof(lk_job, gpus), LK_JOB_GPUS},
	{"--tp", offsetof(lk_job, tp), 1 << 16},
	{"--pp", offsetof(lk_job, pp), 1 << 12},
	{"--vp", offsetof(lk_job, vp), 1 << 12},
	{"--cp", offsetof(lk_job, cp), 1 << 16},
	{"--ep", offsetof(lk_job, ep), 1 << 16},
	{"--etp", offsetof(lk_job, etp), 1 << 16},
	{"--dp", offsetof(lk_job, dp), LK_JOB_GPUS},
	{"--shard-group", offsetof(lk_job, shard_group), LK_JOB_GPUS},
	{"copies of the weights", offsetof(lk_job, shard_copies), LK_JOB_GPUS},
	{"--first-stage-layers", offsetof(lk_job, first_stage_layers), 1 << 16},
	{"--last-stage-layers", offsetof(lk_job, last_stage_layers), 1 << 16},
	{"--mbs", offsetof(lk_job, mbs), 1 << 20},
	{"--gbs", offsetof(lk_job, gbs), 1 << 28},
	{"--seq", offsetof(lk_job, seq), 1 << 27},
	{"--microbatches", offsetof(lk_job, microbatches), 1 << 24},
	{"--recompute-layers", offsetof(lk_job, recompute_layers), 1 << 16},
	{"--num-labels", offsetof(lk_job, labels), 1 << 20},
	{"--lora-rank", offsetof(lk_job, lora_rank), 1 << 16},
	{"--muon-steps", offsetof(lk_job, muon_steps), 100},
	{"--max-connections", offsetof(lk_job, max_connections), 32},
	{"--dispatch-sms", offsetof(lk_job, dispatch_sms), 1024},
	{"--padded-vocab", offsetof(lk_job, padded_vocab), 1 << 30},
	{"--vocab-multiple", offsetof(lk_job, vocab_multiple), 1 << 20},
};

lk_status lk_job_check_ranges(const lk_job *job, lk_error *err) {
	for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
		int value = *(const int *)((const char *)job + ranges[i].offset);
		if (value < 0 || value > ranges[i].high) {
			lk_fail(err, LK_ERR_INPUT, ranges[i].option, "%d is out of range", value);
			return lk_hint(err, "give a whole number from 1 to %d", ranges[i].high);
		}
	}
	if (!(job->bucket_bytes >= 0 && job->bucket_bytes <= 1e15))
		return lk_fail(err, LK_ERR_INPUT, "--bucket", "%g bytes are out of range, 0 to 1e15",
		               job->bucket_bytes);
	if (!(job->moe_imbalance == 0 || (job->moe_imbalance >= 1 && job->moe_imbalance <= 1e6)))
		return lk_fail(err, LK_ERR_INPUT, "--moe-imbalance",
		               "%g: the busiest over the mean is at least 1", job->moe_imbalance);
	if (lk_schedule_get(job->schedule) == NULL)
		return lk_fail(err, LK_ERR_INPUT, "--schedule", "%d is not a schedule", (int)job->schedule);
	return LK_OK;
}

/* "--tp: 96 heads are not divisible by 7; nearest: 6, 8" */
static lk_status job_check_divides(const char *option, const char *what, int64_t total, int64_t by,
                                   lk_error *err) {
	if (total % by == 0) return LK_OK;
	char near[LK_JOB_NEAR];
	lk_fail(err, LK_ERR_INPUT, option, "%lld %s are not divisible by %lld", (long long)total, what,
	        (long long)by);
	return lk_hint(err, "nearest: %s", lk_near_divisors(near, by, total));
}

/* The recurrence is serial over all tokens; splitting its channels is not modelled. */
static lk_status check_rwkv(const lk_job *job, lk_error *err) {
	const char *option = job->cp > 1 ? "--cp" : "--tp";
	if (job->tp <= 1 && job->cp <= 1) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, option, "RWKV split over the tokens or channels is not modelled");
	return lk_hint(err, "leave it out; use --dp, --pp and --zero");
}

/* What tensor parallelism splits of mixers other than attention; exchanging tokens for heads over
 * context parallelism splits heads further. */
static lk_status check_recurrent(const lk_job *job, int mixers, lk_error *err) {
	const lk_model *model = &job->model;
	if ((mixers & LK_MIXER_SSM) && model->ssm == 1) {
		if (job->cp > 1) {
			lk_fail(err, LK_ERR_INPUT, "--cp",
			        "context parallelism of Mamba-1's scan is not modelled");
			return lk_hint(err, "leave it out");
		}
		LK_TRY(job_check_divides("--tp", "channels of Mamba", model->ssm_inner, job->tp, err));
	}
	if ((mixers & LK_MIXER_SSM) && model->ssm == 2) {
		LK_TRY(job_check_divides("--tp", "groups of Mamba", model->ssm_groups, job->tp, err));
		LK_TRY(job_check_divides("--tp", "heads of Mamba", model->ssm_heads, job->tp, err));
		LK_TRY(job_check_divides("--cp", "heads of Mamba on a tensor-parallel rank",
		                         model->ssm_heads / job->tp, job->cp, err));
	}
	if (mixers & LK_MIXER_DELTA) {
		LK_TRY(job_check_divides("--tp", "key heads of the delta net", model->delta_key_heads,
		                         job->tp, err));
		LK_TRY(job_check_divides("--cp", "key heads of the delta net on a tensor-parallel rank",
		                         model->delta_key_heads / job->tp, job->cp, err));
	}
	if (mixers & LK_MIXER_RWKV) LK_TRY(check_rwkv(job, err));
	if (mixers & LK_MIXER_CONV)
		LK_TRY(job_check_divides("--tp", "channels of the short convolution", model->hidden,
		                         job->tp, err));
	if (mixers & LK_MIXER_LIGHTNING)
		return job_check_divides("--cp", "heads of lightning attention on a tensor-parallel rank",
		                         model->heads / job->tp, job->cp, err);
	return LK_OK;
}

static lk_status check_mlps(const lk_job *job, lk_error *err) {
	static const char units[] = "units of the MLP's width";
	const lk_model *model = &job->model;
	bool widths = lk_model_has_widths(model);
	if (model->network == LK_NET_CONV || (!widths && lk_model_has_ffn(model, LK_FFN_DENSE)))
		return job_check_divides("--tp", units, model->ffn, job->tp, err);
	for (int i = 0; widths && i < model->layers; i++) {
		lk_layer layer = lk_model_layer(model, i);
		if (layer.ffn == LK_FFN_DENSE)
			LK_TRY(job_check_divides("--tp", units, lk_layer_ffn(model, &layer), job->tp, err));
	}
	return LK_OK;
}

/* Heads that context parallelism exchanges for tokens must be whole, key heads too. */
static lk_status check_head_ranks(const lk_job *job, lk_error *err) {
	const lk_model *model = &job->model;
	int ranks = lk_job_head_ranks(job),
		kv = model->kv_heads / job->tp > 0 ? model->kv_heads / job->tp : 1;
	if (ranks <= 1) return LK_OK;
	if (model->index_heads > 0 || model->relative_rows > 0) {
		lk_fail(err, LK_ERR_INPUT, "--cp-kind", "exchanging the heads of %s is not modelled",
		        model->index_heads > 0 ? "attention with an indexer" : "positions between tokens");
		return lk_hint(err, "use ring or all-gather");
	}
	LK_TRY(job_check_divides("--cp-kind", "context-parallel ranks", job->cp, ranks, err));
	LK_TRY(job_check_divides("--cp-kind", "heads of a tensor-parallel rank", model->heads / job->tp,
	                         ranks, err));
	if (model->attention != LK_ATTN_HEADS) return LK_OK;
	return job_check_divides("--cp-kind", "key-value heads of a tensor-parallel rank", kv, ranks,
	                         err);
}

/* Stages that use the same set of weights would each hold it and sum their gradients; low ranks of
 * uses are not split. */
static lk_status check_shared_sets(const lk_job *job, lk_error *err) {
	const lk_model *model = &job->model;
	if (model->shared_sets == 0 || (job->pp <= 1 && (job->tp <= 1 || !model->use_product)))
		return LK_OK;
	if (job->pp > 1)
		lk_fail(err, LK_ERR_INPUT, "--pp",
		        "stages that use the same layers' weights are not modelled");
	else
		lk_fail(err, LK_ERR_INPUT, "--tp",
		        "splitting blocks that layers take turns with is not modelled");
	return lk_hint(err, "leave it out; use --dp and --zero");
}

/* Traffic of streams between stages and tensor-parallel ranks is not modelled. */
static lk_status check_streams(const lk_job *job, lk_error *err) {
	if (job->model.streams.count == 0 || (job->pp <= 1 && job->tp <= 1)) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, job->pp > 1 ? "--pp" : "--tp",
	        "splitting a network of %d streams is not modelled", job->model.streams.count);
	return lk_hint(err, "leave it out; use --dp and --zero");
}

static lk_status check_tp(const lk_job *job, lk_error *err) {
	const lk_model *model = &job->model;
	int mixers = lk_model_mixers(model);
	bool heads = (mixers & (LK_MIXER_ATTENTION | LK_MIXER_LIGHTNING)) || !mixers;
	if (heads) LK_TRY(job_check_divides("--tp", "heads", model->heads, job->tp, err));
	LK_TRY(job_check_divides("--tp", "units of the hidden size", model->hidden, job->tp, err));
	LK_TRY(check_shared_sets(job, err));
	LK_TRY(check_streams(job, err));
	LK_TRY(check_recurrent(job, mixers, err));
	LK_TRY(check_mlps(job, err));
	if (model->shared_ffn > 0)
		LK_TRY(job_check_divides("--tp", "units of the shared experts' width", model->shared_ffn,
		                         job->tp, err));
	/* fewer key-value heads than ranks: tp / kv_heads ranks hold each */
	bool replicated =
		model->kv_heads > 0 && job->tp > model->kv_heads && job->tp % model->kv_heads == 0;
	if (heads && model->attention == LK_ATTN_HEADS && !replicated)
		return job_check_divides("--tp", "key-value heads", model->kv_heads, job->tp, err);
	return LK_OK;
}

static lk_status job_check_experts(const lk_job *job, lk_error *err) {
	const lk_model *model = &job->model;
	char near[LK_JOB_NEAR];
	if (model->experts == 0) {
		if (job->ep == 1) return LK_OK;
		lk_fail(err, LK_ERR_INPUT, "--ep", "expert parallelism of %d, but the model has no experts",
		        job->ep);
		return lk_hint(err, "leave it out");
	}
	LK_TRY(job_check_divides("--ep", "experts", model->experts, job->ep, err));
	LK_TRY(
		job_check_divides("--etp", "units of an expert's width", model->expert_ffn, job->etp, err));
	int64_t ranks = (int64_t)job->tp * job->cp * job->dp;
	if (ranks % ((int64_t)job->etp * job->ep) == 0) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, "--ep",
	        "the %lld ranks of a stage (tp * cp * dp) are not a multiple of etp * ep = %d * %d",
	        (long long)ranks, job->etp, job->ep);
	if (ranks % job->etp != 0)
		return lk_hint(err, "nearest: etp %s", lk_near_divisors(near, job->etp, ranks));
	return lk_hint(err, "nearest: ep %s", lk_near_divisors(near, job->ep, ranks / job->etp));
}

static lk_status check_sequence(const lk_job *job, lk_error *err) {
	char near[LK_JOB_NEAR];
	int rows = job->model.position_rows,
		pieces = job->cp * (job->cp > 1 && job->cp_balanced == LK_ON ? 2 : 1);
	if (rows > 0 && job->seq > rows) {
		lk_fail(err, LK_ERR_INPUT, "--seq", "%d tokens, but the model has %d learned positions",
		        job->seq, rows);
		return lk_hint(err, "use at most --seq %d", rows);
	}
	if (job->seq % pieces != 0) {
		lk_fail(err, LK_ERR_INPUT, "--cp", "a sequence of %d does not divide into %d%s pieces",
		        job->seq, pieces,
		        pieces > job->cp ? " (two per rank, so that the causal work is equal)" : "");
		return lk_hint(err, "nearest: seq %s", lk_near_multiples(near, job->seq, pieces));
	}
	if (job->sequence_parallel != LK_ON) return LK_OK;
	if (job->tp == 1) {
		lk_fail(err, LK_ERR_INPUT, "--sequence-parallel",
		        "sequence parallelism needs tensor parallelism, and tp is 1");
		return lk_hint(err, "leave it out, or use --tp 2");
	}
	if (job->seq / job->cp % job->tp == 0) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, "--sequence-parallel",
	        "%d tokens per rank are not a multiple of tp %d", job->seq / job->cp, job->tp);
	return lk_hint(err, "nearest: seq %s",
	               lk_near_multiples(near, job->seq, (int64_t)job->cp * job->tp));
}

lk_status lk_job_check_passes(const lk_job *job, lk_error *err) {
	int64_t places = (int64_t)job->pp * job->vp, most = LK_JOB_PASSES / places;
	if (job->microbatches <= most) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, "--gbs",
	        "%d micro-batches through pp * vp = %d * %d chunks are more than are simulated",
	        job->microbatches, job->pp, job->vp);
	return lk_hint(err, "use at most %lld %s: a larger --mbs, or a smaller --gbs", (long long)most,
	               lk_noun(most, "micro-batch", "micro-batches"));
}

static lk_status check_pipeline(const lk_job *job, lk_error *err) {
	LK_TRY(lk_job_check_passes(job, err));
	lk_schedule_shape shape = {job->pp, job->vp, job->microbatches, job->microbatch_group,
	                           lk_job_pairs(job)};
	const lk_schedule *schedule = lk_schedule_get(job->schedule);
	if (job->schedule == LK_SCHED_INTERLEAVED && (job->pp < 2 || job->vp < 2)) {
		lk_fail(err, LK_ERR_INPUT, job->pp < 2 ? "--pp" : "--vp",
		        "interleaved 1F1B needs two or more stages and chunks, not "
		        "pp %d with vp %d",
		        job->pp, job->vp);
		if (job->pp > 1) return lk_hint(err, "use --vp 2, or --schedule 1f1b");
		if (job->vp > 1) return lk_hint(err, "leave out --vp, or use --pp 2");
		return lk_hint(err, "use --pp 2 --vp 2, or --schedule 1f1b");
	}
	lk_status status = schedule->check(&shape, err);
	if (status != LK_OK) {
		if (err && strcmp(err->where, schedule->name) == 0)
			snprintf(err->where, sizeof err->where, "--schedule %s", schedule->name);
		return status;
	}
	LK_TRY(lk_job_check_split(job, err));
	if (job->pp == 1 || job->sharding < LK_SHARD_ZERO2 || !lk_job_uses_deepspeed(job)) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, "--zero",
	        "DeepSpeed's ZeRO-%d does not run with %d pipeline stages: gradients are needed "
	        "whole until the last micro-batch",
	        job->sharding == LK_SHARD_ZERO2 ? 2 : 3, job->pp);
	return lk_hint(err, "use --zero 1, or --pp 1");
}

/* Convolution nets are replicated whole and have no pre-trained part to freeze. */
static lk_status check_convnet(const lk_job *job, lk_error *err) {
	static const char *const options[] = {"--tp", "--pp", "--cp"};
	const int degrees[] = {job->tp, job->pp, job->cp};
	if (job->model.network != LK_NET_CONV) return LK_OK;
	for (int i = 0; i < 3; i++) {
		if (degrees[i] == 1) continue;
		lk_fail(err, LK_ERR_INPUT, options[i], "a convolution net is not split: %d", degrees[i]);
		return lk_hint(err, "leave it out: GPUs take parts of the batch");
	}
	if (job->schedule != LK_SCHED_1F1B && job->schedule != LK_SCHED_GPIPE) {
		lk_fail(err, LK_ERR_INPUT, "--schedule", "a convolution net has no pipeline to schedule");
		return lk_hint(err, "leave it out");
	}
	if (job->recompute == LK_RECOMPUTE_SELECTIVE) {
		lk_fail(err, LK_ERR_INPUT, "--recompute",
		        "selective recomputation is of attention, which a convolution net does not have");
		return lk_hint(err, "use none or full");
	}
	if (job->task != LK_TASK_LORA) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, "--task", "adapters are for transformers");
	return lk_hint(err, "use pretrain or sft");
}

/* Adapters are on the projections of attention. */
static lk_status check_adapters(const lk_job *job, lk_error *err) {
	const lk_model *model = &job->model;
	if (*job->lora_targets && !lk_adapters_find(job->lora_targets)) {
		lk_fail(err, LK_ERR_INPUT, "--lora-targets", "\"%.64s\" is unknown", job->lora_targets);
		return lk_hint(err, "use attention, all-linear or experts, or names: q_proj+v_proj");
	}
	if (job->task != LK_TASK_LORA || !model->order[0] ||
	    (lk_model_mixers(model) & LK_MIXER_ATTENTION))
		return LK_OK;
	lk_fail(err, LK_ERR_INPUT, "--task",
	        "adapters are on the projections of attention, of which this network has none");
	return lk_hint(err, "use pretrain or sft: other adapters are not modelled");
}

/* Blocks are built whole: refuse options that change their inside or split their backward pass. */
static lk_status check_diffusion(const lk_job *job, lk_error *err) {
	const lk_model *model = &job->model;
	int text = model->dit.text_tokens;
	if (model->network != LK_NET_DIFFUSION) return LK_OK;
	if (job->schedule != LK_SCHED_1F1B && job->schedule != LK_SCHED_GPIPE &&
	    job->schedule != LK_SCHED_INTERLEAVED) {
		lk_fail(err, LK_ERR_INPUT, "--schedule",
		        "a backward pass in two parts is not modelled for diffusion transformers");
		return lk_hint(err, "use 1f1b, interleaved or gpipe");
	}
	if (job->recompute == LK_RECOMPUTE_SELECTIVE) {
		lk_fail(err, LK_ERR_INPUT, "--recompute",
		        "selective recomputation is not modelled for diffusion transformers");
		return lk_hint(err, "use none or full");
	}
	if (job->attn_kernel == LK_KERNEL_UNFUSED) {
		lk_fail(err, LK_ERR_INPUT, "--attention",
		        "attention that is not fused is not modelled for diffusion transformers");
		return lk_hint(err, "leave it out");
	}
	if (job->task == LK_TASK_LORA) {
		lk_fail(err, LK_ERR_INPUT, "--task",
		        "adapters are not modelled for diffusion transformers");
		return lk_hint(err, "use pretrain or sft");
	}
	if (job->seq <= text) {
		lk_fail(err, LK_ERR_INPUT, "--seq", "%d tokens, of which the text has %d", job->seq, text);
		return lk_hint(err, "state the tokens of the latents and of the text together");
	}
	if (job->cp > 1) {
		LK_TRY(job_check_divides("--cp", "heads of a tensor-parallel rank", model->heads / job->tp,
		                         job->cp, err));
		LK_TRY(job_check_divides("--cp", "tokens of the text", text, job->cp, err));
	}
	if (job->sequence_parallel != LK_ON) return LK_OK;
	return job_check_divides("--tp", "tokens of the text", text, job->tp * job->cp, err);
}

lk_status lk_job_check_layout(const lk_job *job, lk_error *err) {
	LK_TRY(check_convnet(job, err));
	LK_TRY(check_tp(job, err));
	LK_TRY(check_head_ranks(job, err));
	LK_TRY(check_diffusion(job, err));
	LK_TRY(check_adapters(job, err));
	LK_TRY(lk_job_check_tower(job, err));
	LK_TRY(job_check_experts(job, err));
	LK_TRY(check_sequence(job, err));
	LK_TRY(check_pipeline(job, err));
	int64_t copies = (int64_t)job->dp * job->cp;
	if (job->shard_group > 0)
		LK_TRY(job_check_divides("--shard-group", "data-parallel ranks (dp * cp)", copies,
		                         job->shard_group, err));
	if (job->model.vocab > 0 && job->padded_vocab < job->model.vocab)
		return lk_fail(err, LK_ERR_INPUT, "--padded-vocab", "%d rows for a vocabulary of %d",
		               job->padded_vocab, job->model.vocab);
	return job_check_divides("--padded-vocab", "rows of the embedding", job->padded_vocab, job->tp,
	                         err);
}

static lk_status check_recompute(const lk_job *job, lk_error *err) {
	LK_TRY(lk_job_check_modules(job, err));
	if (job->recompute_layers == 0) return LK_OK;
	if (job->recompute != LK_RECOMPUTE_FULL) {
		lk_fail(err, LK_ERR_INPUT, "--recompute",
		        "a number of layers is part of full recomputation");
		return lk_hint(err, "use --recompute full");
	}
	int most = 0;
	for (int stage = 0; stage < job->pp; stage++) {
		int layers = lk_job_stage_layers(job, stage);
		if (layers > most) most = layers;
	}
	if (job->recompute_layers <= most) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, "--recompute", "%d layers, but a stage holds %d",
	        job->recompute_layers, most);
	return lk_hint(err, "use at most full/%d, or full for all", most);
}

/* Optimizers on matrices need them whole and on the device. */
static lk_status check_optimizer(const lk_job *job, lk_error *err) {
	const char *name = lk_optimizer_of(job)->name;
	if (!lk_optimizer_has_products(job)) return LK_OK;
	if (job->model.network == LK_NET_CONV || job->task == LK_TASK_LORA) {
		lk_fail(err, LK_ERR_INPUT, "--optimizer", "%s works on the matrices of a transformer, %s",
		        name,
		        job->task == LK_TASK_LORA ? "and with adapters none of them is trained"
		                                  : "which a convolution net does not have");
		return lk_hint(err, "use adam");
	}
	if (!job->offload_optimizer) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, "--offload-optimizer", "the products of %s run on the device", name);
	return lk_hint(err, "leave it out, or use --optimizer adam");
}

/* Offloading is modelled for transformer layers with a single backward pass that runs alone on the
 * device. */
static lk_status check_offload(const lk_job *job, lk_error *err) {
	const char *why = NULL;
	if (!job->offload_activations) return LK_OK;
	if (job->model.network == LK_NET_CONV || job->model.tower.layers > 0)
		why = "convolutions and encoders of images keep theirs on the device";
	else if (lk_job_splits_backward(job) || lk_job_dualpipe(job) || lk_job_pairs(job))
		why = "schedules that split or pair backward passes keep activations on the device";
	else if (job->model.mtp_layers > 0) why = "modules of multi-token prediction keep theirs";
	if (!why) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, "--offload-activations", "%s", why);
	return lk_hint(err, "leave it out, or keep fewer: see --recompute");
}

/* Updates in the backward pass need each gradient to be complete in one pass, and PyTorch's own
 * optimizers, whose hooks run on single parameters (torchtune, register_optim_in_bwd_hooks). */
static lk_status check_optimizer_in_backward(const lk_job *job, lk_error *err) {
	const char *why = NULL;
	if (!job->optimizer_in_backward) return LK_OK;
	if (lk_job_like_megatron(job) || lk_job_uses_deepspeed(job))
		why = "only PyTorch's own optimizers can step there (--stack ddp or fsdp)";
	else if (job->model.network == LK_NET_CONV)
		why = "convolution nets are modelled with an update at the end of the step";
	else if (job->microbatches > 1 || job->pp > 1)
		why = "gradients of several micro-batches add up before the update";
	else if (job->sharding == LK_SHARD_NONE && job->dp * job->cp > 1)
		why = "replicas add their gradients up before the update";
	else if (job->offload_optimizer || lk_optimizer_has_products(job))
		why = "the optimizer does not update single tensors on the device";
	if (!why) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, "--optimizer-in-backward", "%s", why);
	return lk_hint(err, "leave it out");
}

const char *lk_job_lacks_teacher(const lk_job *job) {
	const lk_model *of = job->teacher, *model = &job->model;
	if (of->network != LK_NET_DECODER || model->network != LK_NET_DECODER || !of->lm_head ||
	    !model->lm_head || of->tower.layers > 0 || model->tower.layers > 0)
		return "distillation is of decoders of texts, by their logits";
	if (job->pp > 1) return "the teacher's forward pass is modelled without a pipeline";
	if (lk_objective_of(job->objective)->reference > 0)
		return "preference optimisation has a reference of its own";
	if (fabs((double)of->vocab - model->vocab) > 0.01 * model->vocab)
		return "its vocabulary is another one than the student's";
	return NULL;
}

/* A teacher with the same vocabulary runs on the GPUs of the trained network. */
static lk_status check_teacher(const lk_job *job, lk_error *err) {
	lk_job teacher;
	if (!lk_job_teacher(job, &teacher)) return LK_OK;
	const char *why = lk_job_lacks_teacher(job);
	if (!why) return check_tp(&teacher, err);
	lk_fail(err, LK_ERR_INPUT, "--teacher", "%s", why);
	return lk_hint(err, job->pp > 1 ? "use --pp 1" : "leave it out");
}

/* Host copies of the weights accompany the master copy there and arrive before each gather. */
static lk_status check_host_params(const lk_job *job, lk_error *err) {
	if (!job->offload_params) return LK_OK;
	if (job->sharding != LK_SHARD_ZERO3 || !job->offload_optimizer) {
		lk_fail(err, LK_ERR_INPUT, "--offload-params",
		        job->sharding != LK_SHARD_ZERO3
		            ? "only weights that are sharded wait on the host"
		            : "the master copy of the weights is on the device");
		return lk_hint(err, "use --zero 3 --offload-optimizer");
	}
	if (lk_sizes_dp_ranks(job) > 1) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, "--offload-params", "weights are gathered from no other ranks");
	return lk_hint(err, "leave it out");
}

static lk_status check_average(const lk_job *job, lk_error *err) {
	if (job->average != LK_AVERAGE_DEVICE || !job->offload_optimizer) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, "--ema", "the parameters that are averaged are on the host");
	return lk_hint(err, "use --ema host");
}

static lk_status check_wide(const lk_job *job, lk_error *err) {
	int wide = job->wide_first + job->wide_last;
	if (wide <= job->model.layers) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, "--bf16-layers", "%d first and %d last of %d layers",
	        job->wide_first, job->wide_last, job->model.layers);
	return lk_hint(err, "use at most %d", job->model.layers / 2);
}

/* Documents that attend only within themselves: fused attention over text. */
static lk_status check_pack(const lk_job *job, lk_error *err) {
	const char *why = job->pack_share > 0 ? lk_job_pack_lacks(job) : NULL;
	if (!why) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, "--pack", "%s", why);
	return lk_hint(err, "leave it out");
}

static lk_status check_ragged(const lk_job *job, lk_error *err) {
	bool lengths = job->ragged_median >= 0 && job->ragged_median <= 1e9 &&
	               job->ragged_spread >= 0 && job->ragged_spread <= 100;
	if (!lengths)
		return lk_fail(err, LK_ERR_INPUT, "--ragged-lengths", "a median of %g tokens, spread by %g",
		               job->ragged_median, job->ragged_spread);
	if (job->ragged != LK_ON && job->ragged_median > 0) {
		lk_fail(err, LK_ERR_INPUT, "--ragged-lengths",
		        "with --no-ragged all sequences are equally long");
		return lk_hint(err, "leave out one of the two");
	}
	if (job->ragged != LK_ON || !(job->pack_share > 0)) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, "--ragged", "packed sequences are all equally long");
	return lk_hint(err, "leave out --ragged or --pack");
}

static lk_status check_native_loss(const lk_job *job, lk_error *err) {
	if (!job->native_loss_fusion || lk_job_like_megatron(job)) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, "--loss", "native is Megatron-LM's own fusion");
	return lk_hint(err, "use --fused-loss, or leave it out");
}

static lk_status check_eager(const lk_job *job, lk_error *err) {
	if (job->eager != LK_ON || !job->compile) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, "--eager", "torch.compile fuses what would run one by one");
	return lk_hint(err, "leave out --eager or --compile");
}

lk_status lk_job_check_switches(const lk_job *job, lk_error *err) {
	LK_TRY(check_eager(job, err));
	LK_TRY(check_ragged(job, err));
	LK_TRY(check_native_loss(job, err));
	LK_TRY(check_pack(job, err));
	LK_TRY(lk_job_check_loss(job, err));
	LK_TRY(check_wide(job, err));
	LK_TRY(check_teacher(job, err));
	LK_TRY(check_host_params(job, err));
	LK_TRY(check_average(job, err));
	LK_TRY(check_offload(job, err));
	LK_TRY(check_optimizer_in_backward(job, err));
	LK_TRY(check_recompute(job, err));
	LK_TRY(check_optimizer(job, err));
	LK_TRY(lk_job_check_objective(job, err));
	if (job->tp_overlap == LK_ON && job->sequence_parallel != LK_ON) {
		lk_fail(err, LK_ERR_INPUT, "--tp-overlap",
		        "overlapping tensor-parallel collectives needs sequence parallelism");
		return lk_hint(err, "switch sequence parallelism on, with tp of 2 or more");
	}
	if (job->overlap_param_gather == LK_ON && job->sharding == LK_SHARD_NONE) {
		lk_fail(err, LK_ERR_INPUT, "--overlap-param-gather",
		        "parameters are gathered only where they or the optimizer are sharded");
		return lk_hint(err, "use --zero 1, or leave it out");
	}
	if (job->model.experts > 0 && job->moe_imbalance > job->model.experts)
		return lk_fail(err, LK_ERR_INPUT, "--moe-imbalance",
		               "%g: all tokens on one of %d experts is %d times the mean",
		               job->moe_imbalance, job->model.experts, job->model.experts);
	return LK_OK;
}

bool lk_cluster_has_dtype(const lk_cluster *cluster, lk_dtype dtype) {
	for (int i = 0; i < cluster->groups; i++)
		if (!(cluster->node[i].device->peak_flops[dtype] > 0)) return false;
	return true;
}

static lk_status check_dtype(const lk_job *job, const lk_cluster *cluster, lk_error *err) {
	if (lk_cluster_has_dtype(cluster, job->dtype)) return LK_OK;
	const char *name = "";
	for (int i = cluster->groups - 1; i >= 0; i--)
		if (!(cluster->node[i].device->peak_flops[job->dtype] > 0))
			name = cluster->node[i].device->name;
	int nearest =
		(int)job->dtype - 1; /* the formats are ordered from old and wide to new and narrow */
	while (nearest >= 0 && !lk_cluster_has_dtype(cluster, (lk_dtype)nearest)) nearest--;
	lk_fail(err, LK_ERR_INPUT, "--dtype", "%s has no %s arithmetic", name,
	        lk_dtype_name(job->dtype));
	return lk_hint(err, "nearest: %s",
	               nearest < 0 ? "another device" : lk_dtype_name((lk_dtype)nearest));
}

/* Refuse what was requested and some device cannot do. */
static lk_status check_can(const lk_cluster *cluster, lk_capability what, const char *option,
                           lk_error *err) {
	if (lk_cluster_can(cluster, what)) return LK_OK;
	const char *name = "";
	for (int i = cluster->groups - 1; i >= 0; i--)
		if (!lk_device_can(cluster->node[i].device, what)) name = cluster->node[i].device->name;
	return lk_fail(err, LK_ERR_INPUT, option, "%s has no %s, which runs on %s", name,
	               lk_capability_name(what), lk_capability_needs(what));
}

static lk_status check_kernel(const lk_job *job, const lk_cluster *cluster, lk_error *err) {
	static const lk_capability needs[] = {[LK_ATTN_LIBRARY_CUDNN] = LK_CAN_CUDNN,
	                                      [LK_ATTN_LIBRARY_FLASH] = LK_CAN_FLASH2,
	                                      [LK_ATTN_LIBRARY_FLASH3] = LK_CAN_FLASH3};
	if (!job->attn_library_said || job->attn_kernel != LK_KERNEL_FLASH) return LK_OK;
	if (check_can(cluster, needs[job->attn_library], "--attention", err) == LK_OK) return LK_OK;
	return lk_hint(err, "use --attention %s",
	               lk_cluster_can(cluster, LK_CAN_FLASH2) ? "fa2" : "unfused");
}

static lk_status check_recipe(const lk_job *job, const lk_cluster *cluster, lk_error *err) {
	if (lk_job_scales_rows(job) && lk_job_like_megatron(job)) {
		lk_fail(err, LK_ERR_INPUT, "--fp8-recipe",
		        "rowwise: Transformer Engine has no factors of rows, torchao has");
		return lk_hint(err, "use --fp8-recipe tensorwise, or --stack torchtitan or fsdp");
	}
	if (job->dtype != LK_FP8 || job->fp8_recipe != LK_FP8_BLOCKWISE) return LK_OK;
	if (check_can(cluster, LK_CAN_BLOCKS, "--fp8-recipe", err) == LK_OK) return LK_OK;
	return lk_hint(err, "use --fp8-recipe tensorwise");
}

lk_status lk_job_check_device(const lk_job *job, const lk_cluster *cluster, lk_error *err) {
	if (cluster == NULL) return LK_OK;
	LK_TRY(check_dtype(job, cluster, err));
	LK_TRY(check_recipe(job, cluster, err));
	return check_kernel(job, cluster, err);
}
