/* job.c: complete a training job: derive what the user left open or use a default, then check the
 * whole.
 *
 * Derived (as Megatron-LM, megatron/training/arguments.py):
 *     dp = gpus / (tp * pp * cp)          micro-batches m = gbs / (mbs * dp)
 *     etp = tp                            padded vocabulary = ceil(V / (multiple * tp)) * multiple
 *                                         * tp
 * Chosen defaults:
 *     gpus     the cluster's; without one tp * pp * cp * dp, with the fewest replicas on which the
 *              experts fit
 *     seq      the model's context, at most 8192; 2048 if the config states none; an image's
 *              tokens for a ViT
 *     gbs      dp * mbs * m: the largest up to gbs_wanted, with m a multiple of the schedule's
 *              group, at least one group; without gbs_wanted m = 4 * pp in a pipeline (a
 *              bubble of about a fifth), else 1
 *     sharding ZeRO-1 with data parallelism; ZeRO-3 for the stack "fsdp"; none for "ddp"
 *     stack    "ddp" for convolution nets, that of PyTorch's trainers for fine-tuning, else
 *              "megatron" (lk_job_usual_stack)
 *     switches off; with --stack and no launch line as in the stack's recipes (lk_job_features)
 *     bucket   40 M parameters or 1 M per data-parallel rank, the larger (Megatron-LM); 500 M
 *              (DeepSpeed's reduce_bucket_size); 25 MiB elsewhere (PyTorch DDP)
 *     split    of layers that do not divide by the chunks: embedding and loss count as a layer
 *              each if that makes it even (Llama 3's 126 + 2 on 64 chunks); else every chunk
 *              holds the ceiling, and the last one, then the first, holds fewer (DeepSeek-V3 on 8
 *              stages of 4 chunks: 1, 2 ... 2, 0 and the prediction module), as in the recipes of
 *              Megatron-Bridge and MLPerf. Not for a launch line, which states everything.
 * Completing a completed job changes nothing. */
#include <math.h>
#include <string.h>
#include "base/text.h"
#include "base/units.h"
#include "base/noun.h"
#include "model/layout/job.h"
#include "model/layout/schedule.h"
#include "model/layout/sizes.h"

enum {
	SEQ_DEFAULT = 2048,
	SEQ_DEFAULT_MOST = 8192,
	BATCH_TOKENS = 4 << 20 /* default batch of a step: Llama 3's first steps, Qwen3's, OLMo 2's */
};

static void fill_switch(lk_switch *field, bool on) {
	if (*field == LK_AUTO) *field = on ? LK_ON : LK_OFF;
}

const char *lk_job_usual_stack(const lk_job *job) {
	bool divided = job->tp > 1 || job->pp > 1 || job->cp > 1 || job->ep > 1 || job->etp > 1;
	if (job->model.network == LK_NET_CONV) return "ddp";
	if (job->task == LK_TASK_PRETRAIN || divided) return LK_STACK_DEFAULT;
	if (job->offload_optimizer || job->sharding == LK_SHARD_ZERO1) return "deepspeed";
	return job->sharding == LK_SHARD_NONE ? "ddp" : "fsdp";
}

static void fill_stack(lk_job *job) {
	if (job->stack[0] == '\0') lk_copy(job->stack, sizeof job->stack, lk_job_usual_stack(job));
	if (!*job->profile) lk_copy(job->profile, sizeof job->profile, job->stack);
}

/* The smallest dp at which the experts can be laid out: tp * cp * dp is a multiple of etp * ep. */
static int64_t fewest_replicas(const lk_job *job) {
	int64_t stage = (int64_t)job->tp * job->cp,
			group = job->model.experts > 0 ? (int64_t)job->etp * job->ep : 1;
	int64_t a = stage, b = group;
	while (b > 0) {
		int64_t rest = a % b;
		a = b;
		b = rest;
	}
	return group / a;
}

/* Fill dp, and gpus if it is not stated. */
static lk_status job_fill_ranks(lk_job *job, const lk_cluster *cluster, lk_error *err) {
	lk_fill_int(&job->tp, 1);
	lk_fill_int(&job->pp, 1);
	lk_fill_int(&job->cp, 1);
	lk_fill_int(&job->ep, 1);
	const lk_stack_features *features = lk_job_features(job);
	if (job->model.experts == 0) job->etp = job->tp; /* no experts to split */
	lk_fill_int(&job->etp, features->etp > 0 ? features->etp : job->tp);
	int64_t block = (int64_t)job->tp * job->pp * job->cp;
	char near[LK_JOB_NEAR];
	if (block > LK_JOB_GPUS) {
		lk_fail(err, LK_ERR_INPUT, "--tp",
		        "tp * pp * cp = %d * %d * %d are more ranks than any machine has", job->tp, job->pp,
		        job->cp);
		return lk_hint(err, "at most %d are read", LK_JOB_GPUS);
	}
	if (job->gpus == 0 && job->dp == 0 && cluster != NULL) job->gpus = cluster->gpus;
	if (job->gpus == 0) {
		int64_t replicas = job->dp > 0 ? job->dp : fewest_replicas(job);
		if (replicas > LK_JOB_GPUS / block)
			return lk_fail(err, LK_ERR_INPUT, "--dp",
			               "%lld replicas of %lld ranks are more than %d", (long long)replicas,
			               (long long)block, LK_JOB_GPUS);
		job->gpus = (int)(block * replicas);
	}
	if (cluster != NULL && job->gpus > cluster->gpus) {
		lk_fail(err, LK_ERR_INPUT, "--gpus", "the job needs %d GPUs, but the cluster has %d",
		        job->gpus, cluster->gpus);
		return lk_hint(err, "give a larger cluster, or fewer ranks");
	}
	if (job->gpus % block != 0) {
		lk_fail(err, LK_ERR_INPUT, "--gpus",
		        "%d GPUs are not a multiple of tp * pp * cp = %d * %d * %d = %lld", job->gpus,
		        job->tp, job->pp, job->cp, (long long)block);
		return lk_hint(err, "nearest: %s GPUs", lk_near_multiples(near, job->gpus, block));
	}
	int dp = job->gpus / (int)block;
	if (job->dp > 0 && job->dp != dp) {
		lk_fail(err, LK_ERR_INPUT, "--dp", "%d, but %d GPUs / (tp * pp * cp = %lld) = %d", job->dp,
		        job->gpus, (long long)block, dp);
		return lk_hint(err, "use --dp %d, or --gpus %lld", dp, (long long)(block * job->dp));
	}
	job->dp = dp;
	return LK_OK;
}

/* Turn a number of copies of the weights into a shard group: (dp cp) / copies ranks share one. */
static lk_status fill_copies(lk_job *job, lk_error *err) {
	int copies = job->shard_copies;
	int64_t ranks = (int64_t)job->dp * job->cp;
	job->shard_copies = 0;
	if (copies <= 1 || job->shard_group > 0) return LK_OK;
	if (ranks % copies != 0) {
		lk_fail(
			err, LK_ERR_INPUT, "--gpus",
			"%lld data-parallel ranks (dp * cp) are not a multiple of the %d copies of the weights",
			(long long)ranks, copies);
		return lk_hint(err, "give a multiple of %lld GPUs, or --shard-group",
		               (long long)job->tp * job->pp * copies);
	}
	job->shard_group = (int)(ranks / copies);
	if (job->shard_group > 1 || job->sharding_said) return LK_OK;
	job->sharding = LK_SHARD_NONE; /* every rank has its own copy */
	job->sharding_said = true;
	return LK_OK;
}

static lk_status fill_schedule(lk_job *job, lk_error *err) {
	if (job->pipeline_layout[0] != '\0' && job->vp == 0) {
		int places;
		LK_TRY(lk_job_layout_places(job, &places, err));
		if (job->pp == 1 && places > 1) {
			lk_fail(err, LK_ERR_INPUT, "--pipeline-layout", "%d stages, but there is no pipeline",
			        places);
			return lk_hint(err, "use --pp %d, or leave it out", places);
		}
		if (places % job->pp != 0) {
			lk_fail(err, LK_ERR_INPUT, "--pipeline-layout", "%d stages are no multiple of pp %d",
			        places, job->pp);
			return lk_hint(err, "write a multiple of %d %s separated by '|'", job->pp,
			               lk_noun(job->pp, "part", "parts"));
		}
		job->vp = places / job->pp;
	}
	if (job->schedule_said) {
		const lk_schedule *schedule = lk_schedule_get(job->schedule);
		if (job->vp <= 1 && schedule->fixed_chunks > 0) job->vp = schedule->fixed_chunks;
	} else {
		job->schedule = job->vp > 1 ? LK_SCHED_INTERLEAVED : LK_SCHED_1F1B;
	}
	lk_fill_int(&job->vp, 1);
	return LK_OK;
}

static int job_default_seq(const lk_model *model) {
	int context = model->context > 0 ? model->context : SEQ_DEFAULT;
	return context < SEQ_DEFAULT_MOST ? context : SEQ_DEFAULT_MOST;
}

int lk_job_assumed_batch(const lk_job *job, int gpus) {
	if (job->model.network != LK_NET_DECODER || job->model.vocab <= 0 ||
	    job->task != LK_TASK_PRETRAIN)
		return 0;
	int64_t seq = job->seq > 0 ? job->seq : job_default_seq(&job->model);
	int odd = gpus > 0 ? gpus : 1;
	while (odd % 2 == 0) odd /= 2;
	int64_t batch = odd * seq <= BATCH_TOKENS ? odd : 1;
	while (2 * batch * seq <= BATCH_TOKENS) batch *= 2;
	return (int)batch;
}

static lk_status fill_sequence(lk_job *job, lk_error *err) {
	const lk_model *model = &job->model;
	if (model->image > 0 && model->patch > 0) {
		int64_t tokens = (int64_t)lk_model_image_tokens(model);
		if (tokens > 1 << 27 || (job->seq > 0 && job->seq != tokens)) {
			lk_fail(err, LK_ERR_INPUT, "--seq",
			        "an image of %d pixels in patches of %d has %lld tokens, not %d", model->image,
			        model->patch, (long long)tokens, job->seq);
			return lk_hint(err, "leave it out");
		}
		job->seq = (int)tokens;
		return LK_OK;
	}
	if (model->network == LK_NET_DIFFUSION) lk_fill_int(&job->seq, model->context);
	/* position scores are added to content scores: no fused kernel does that */
	if (model->relative_rows > 0) job->attn_kernel = LK_KERNEL_UNFUSED;
	if (model->network == LK_NET_ENCDEC && model->decoder_context > 0)
		lk_fill_int(&job->decoder_seq, model->decoder_context);
	lk_fill_int(&job->seq, job_default_seq(model));
	if (model->position_setting)
		job->model.position_rows = job->seq > model->context ? job->seq : model->context;
	return LK_OK;
}

/* Micro-batches of a rank if the global batch is not stated; one on every rank is `step` sequences.
 * Schedules without a bubble want two rounds of the stages. */
static int64_t job_open_microbatches(const lk_job *job, int64_t step) {
	if (job->microbatches > 0) return job->microbatches;
	if (job->gbs_wanted <= 0) return job->pp > 1 ? 4 * job->pp : 1;
	int64_t turn = 1;
	if (job->pp > 1 && job->schedule == LK_SCHED_INTERLEAVED)
		turn = job->microbatch_group > 0 ? job->microbatch_group : job->pp;
	else if (job->pp > 1)
		turn = job->schedule == LK_SCHED_1F1B || job->schedule == LK_SCHED_GPIPE ? job->pp
		                                                                         : 2 * job->pp;
	int64_t turns = job->gbs_wanted / (step * turn);
	return turn * (turns > 0 ? turns : 1);
}

/* Derive the third of micro-batch, global batch and micro-batches per rank from the other two. */
static lk_status fill_batch(lk_job *job, lk_error *err) {
	char near[LK_JOB_NEAR];
	if (job->mbs == 0 && job->gbs > 0 && job->microbatches > 0) {
		int64_t steps = (int64_t)job->dp * job->microbatches;
		if (job->gbs % steps != 0) {
			lk_fail(err, LK_ERR_INPUT, "--gbs",
			        "%d is not a multiple of dp * micro-batches = %d * %d", job->gbs, job->dp,
			        job->microbatches);
			return lk_hint(err, "nearest: %s", lk_near_multiples(near, job->gbs, steps));
		}
		job->mbs = (int)(job->gbs / steps);
	}
	/* all images of a batch run at once: accumulating them gains nothing */
	bool images = job->model.network == LK_NET_CONV;
	if (images && job->microbatches == 0 && job->gbs > 0 && job->gbs % job->dp == 0)
		lk_fill_int(&job->mbs, job->gbs / job->dp);
	int fewest = lk_objective_of(job->objective)->pairs ? 2 : 1;
	lk_fill_int(&job->mbs, images ? LK_JOB_IMAGES : fewest);
	int64_t step = (int64_t)job->mbs * job->dp;
	if (job->gbs == 0) {
		int64_t count = job_open_microbatches(job, step);
		if (step > (1 << 28) || step * count > (1 << 28))
			return lk_fail(err, LK_ERR_INPUT, "--mbs",
			               "%d sequences on %d replicas, %lld times a step, are more than %d",
			               job->mbs, job->dp, (long long)count, 1 << 28);
		job->gbs = (int)(step * count);
	}
	if (job->gbs % step != 0) {
		lk_fail(err, LK_ERR_INPUT, "--gbs",
		        "a global batch of %d is not a multiple of mbs * dp = %d * %d", job->gbs, job->mbs,
		        job->dp);
		return lk_hint(err, "nearest: %s", lk_near_multiples(near, job->gbs, step));
	}
	int count = (int)(job->gbs / step);
	if (job->microbatches > 0 && job->microbatches != count) {
		lk_fail(err, LK_ERR_INPUT, "--gbs",
		        "%d, but mbs * dp * micro-batches = %d * %d * %d = %lld", job->gbs, job->mbs,
		        job->dp, job->microbatches, (long long)(step * job->microbatches));
		return lk_hint(err, "leave one of them out");
	}
	job->microbatches = count;
	return LK_OK;
}

static lk_status fill_vocab(lk_job *job, lk_error *err) {
	lk_fill_int(&job->vocab_multiple, lk_job_like_megatron(job) ? 128 : 1);
	if (job->padded_vocab_said) return LK_OK;
	int64_t unit = (int64_t)job->vocab_multiple * job->tp;
	int64_t padded = (job->model.vocab + unit - 1) / unit * unit;
	if (padded > 1 << 30)
		return lk_fail(err, LK_ERR_INPUT, "--vocab-multiple",
		               "padding to %lld makes a vocabulary of %lld rows", (long long)unit,
		               (long long)padded);
	job->padded_vocab = (int)padded;
	return LK_OK;
}

/* FP8 for recipes that compute in it; else the widest 16-bit format that every device has, or
 * fp32. */
static void fill_dtype(lk_job *job, const lk_cluster *cluster) {
	if (job->dtype_said) return;
	bool bf16 = cluster == NULL || lk_cluster_has_dtype(cluster, LK_BF16);
	if (lk_job_features(job)->in_fp8 && cluster && lk_cluster_has_dtype(cluster, LK_FP8))
		job->dtype = LK_FP8;
	else if (bf16) job->dtype = LK_BF16;
	else if (lk_cluster_has_dtype(cluster, LK_FP16)) job->dtype = LK_FP16;
	else job->dtype = LK_FP32;
}

static void fill_sharding(lk_job *job) {
	if (job->sharding_said) return;
	bool replicas = (int64_t)job->dp * job->cp > 1, fsdp = strstr(job->stack, "fsdp") != NULL;
	if (!replicas || strcmp(job->stack, "ddp") == 0 || lk_job_features(job)->adapters)
		job->sharding = LK_SHARD_NONE;
	else
		job->sharding =
			fsdp || strcmp(job->stack, "torchtitan") == 0 ? LK_SHARD_ZERO3 : LK_SHARD_ZERO1;
}

static void job_fill_bucket(lk_job *job) {
	if (job->bucket_bytes > 0) return;
	bool wide = job->grad_reduce_fp32 == LK_ON || job->dtype <= LK_TF32;
	double element = wide ? 4 : 2;
	if (lk_job_uses_deepspeed(job)) job->bucket_bytes = 5e8 * element;
	else if (lk_job_like_megatron(job))
		job->bucket_bytes = fmax(40e6, 1e6 * job->dp * job->cp) * element;
	else job->bucket_bytes = 25 * LK_MIB;
}

/* PyTorch's own attention is fused on older devices too; Megatron's layers, llm-foundry's and those
 * of DeepSpeed's Megatron call FlashAttention or cuDNN. */
lk_capability lk_job_fused_attention(const lk_job *job) {
	bool package = lk_job_like_megatron(job) || strcmp(job->stack, "llm-foundry") == 0;
	return package && job->model.network != LK_NET_DIFFUSION ? LK_CAN_FLASH2 : LK_CAN_EFFICIENT;
}

void lk_job_fit_attention(lk_job *job, const lk_cluster *cluster) {
	bool open = job->attn_kernel == LK_KERNEL_FLASH && !job->attn_library_said;
	if (!open || job->model.network == LK_NET_CONV ||
	    lk_cluster_can(cluster, lk_job_fused_attention(job)))
		return;
	job->attn_kernel = LK_KERNEL_UNFUSED;
	job->attn_lacks = true;
}

/* Transformer Engine prefers cuDNN's fused attention from Hopper on; it is deterministic only on
 * Hopper. FSDP's trainers and DeepSpeed call the flash-attention package; so does PyTorch on
 * Hopper, whose own choice has not been cuDNN since 2.5.1. */
lk_attn_library lk_job_attention_by(const lk_job *job, const lk_cluster *cluster) {
	lk_arch arch = cluster->node[0].device->arch;
	bool package = lk_job_uses_deepspeed(job) || strcmp(job->stack, "llm-foundry") == 0 ||
	               strcmp(job->stack, "fsdp") == 0 ||
	               (strcmp(job->stack, "torchtitan") == 0 && arch == LK_ARCH_HOPPER);
	bool cudnn =
		!package && (arch == LK_ARCH_HOPPER || (arch == LK_ARCH_BLACKWELL && !job->deterministic));
	return cudnn ? LK_ATTN_LIBRARY_CUDNN : LK_ATTN_LIBRARY_FLASH;
}

static void fill_attention(lk_job *job, const lk_cluster *cluster) {
	if (cluster == NULL) return;
	lk_job_fit_attention(job, cluster);
	if (job->attn_library != LK_ATTN_LIBRARY_AUTO) return;
	job->attn_library = lk_job_attention_by(job, cluster);
	job->attn_torch = !lk_cluster_can(cluster, LK_CAN_FLASH2);
}

static void fill_dispatcher(lk_job *job, const lk_stack_features *features,
                            const lk_cluster *cluster) {
	bool can = cluster == NULL || lk_cluster_can(cluster, LK_CAN_BY_NODE);
	bool usual = job->model.experts > 0 && features->by_node && can;
	if (!job->dispatcher_said && usual) job->dispatcher = LK_DISPATCH_NODE;
	job->dispatcher_said = true;
}

/* Whether an expert-parallel group spans several nodes. */
static bool experts_leave_node(const lk_job *job, const lk_cluster *cluster) {
	return cluster && (int64_t)job->ep * job->etp > cluster->node[0].gpus;
}

/* Whether gradients are kept in fp32. DeepSpeed keeps them in the format of the weights, except
 * bf16 ones without ZeRO (runtime/engine.py, get_data_types). */
static bool keeps_wide_gradients(const lk_job *job) {
	if (job->dtype <= LK_TF32) return true;
	if (lk_job_uses_deepspeed(job)) return job->dtype != LK_FP16 && job->sharding == LK_SHARD_NONE;
	return lk_job_features(job)->wide_grads || lk_job_like_megatron(job);
}

/* Hugging Face's Trainer (PyTorch 2.8 and later) and torchtitan use fused Adam; PyTorch's own
 * default is lists of operations. Other software has its own optimizers; DeepSpeed runs PyTorch's
 * where it is stated. */
static void fill_update(lk_job *job) {
	bool torch = !lk_job_like_megatron(job) && !lk_job_uses_deepspeed(job),
		 adam = job->optimizer == LK_OPT_ADAM;
	bool stated = lk_job_uses_deepspeed(job) && adam; /* the Trainer hands it PyTorch's AdamW */
	if (!torch && stated) return;
	if (!torch || (!adam && job->optimizer != LK_OPT_SGD)) job->update = LK_UPDATE_USUAL;
	else if (job->update == LK_UPDATE_USUAL)
		job->update = adam ? LK_UPDATE_FUSED : LK_UPDATE_FOREACH;
}

static void fill_adapters(lk_job *job) {
	int parts = *job->lora_targets ? lk_adapters_find(job->lora_targets) : LK_ADAPT_ATTENTION;
	if (job->model.experts == 0) parts &= ~LK_ADAPT_EXPERTS;
	lk_fill_int(&job->lora_rank, 16);
	job->adapted = parts;
	if (parts) lk_adapters_name(parts, job->lora_targets, sizeof job->lora_targets);
}

bool lk_job_keeps_loaded(const lk_job *job) {
	if (job->loaded == LK_LOADED_WIDE || !lk_job_sixteen_bit(job)) return false;
	if (lk_job_uses_deepspeed(job) || lk_job_like_megatron(job)) return false;
	return job->loaded == LK_LOADED_TORCH || job->sharding == LK_SHARD_NONE;
}

static void fill_switches(lk_job *job, const lk_cluster *cluster) {
	const lk_stack_features *features = lk_job_features(job);
	lk_arch arch = cluster ? cluster->node[0].device->arch : LK_ARCH_BLACKWELL;
	lk_stack_features here = lk_stack_features_for(features, arch, job->dtype);
	bool full = job->dtype <= LK_TF32, sharded = job->sharding != LK_SHARD_NONE;
	bool even = job->seq / job->cp % job->tp == 0 && job->seq % job->cp == 0;
	fill_switch(&job->sequence_parallel, job->tp > 1 && even);
	fill_switch(&job->cp_balanced, !features->cp_contiguous);
	if (full) job->master_weights = LK_OFF; /* the weights are the fp32 copy */
	if (lk_job_keeps_loaded(job) && !job->state_said && job->state_dtype == LK_FP32)
		job->state_dtype = LK_BF16;
	if (lk_job_keeps_loaded(job)) fill_switch(&job->master_weights, false);
	fill_switch(&job->master_weights, true);
	if (!lk_job_runs_as_written(job)) job->eager = LK_OFF;
	fill_switch(&job->eager, !job->compile);
	fill_switch(&job->ragged, false);
	bool wide = features->wide_grads || lk_job_autocasts(job);
	fill_switch(&job->fp32_grads, wide || keeps_wide_gradients(job));
	fill_switch(&job->grad_reduce_fp32, wide);
	fill_switch(&job->overlap_grad_reduce, lk_job_overlaps_reduce(job));
	fill_switch(&job->overlap_param_gather, job->overlap_grad_reduce == LK_ON && sharded);
	bool simple = job->schedule == LK_SCHED_GPIPE || job->schedule == LK_SCHED_1F1B;
	fill_switch(&job->overlap_p2p, !simple);
	fill_switch(&job->tp_overlap, features->tp_overlap && job->sequence_parallel == LK_ON);
	job->graphs_by_recipe |= job->stack_recipe && job->cuda_graphs == LK_AUTO;
	fill_switch(&job->cuda_graphs, here.cuda_graphs);
	fill_switch(&job->graph_experts, here.graph_experts);
	fill_switch(&job->expert_overlap,
	            here.expert_overlap || (here.overlap_across && experts_leave_node(job, cluster)));
	fill_switch(&job->fp8_dispatch, false);
	job->fp8_recipe = lk_job_fp8_recipe(job);
	fill_dispatcher(job, features, cluster);
	fill_switch(&job->grouped_gemm, job->model.experts > 0 && lk_job_like_megatron(job));
	fill_switch(&job->scatter_messages, strcmp(job->stack, "megatron-deepspeed") == 0);
	fill_switch(&job->fused_cross_entropy, features->fused_loss && job->loss == LK_LOSS_LOGITS);
	fill_switch(&job->defer_head_gradient, false);
	if (job->task == LK_TASK_LORA) fill_adapters(job);
	if (job->moe_imbalance == 0) job->moe_imbalance = 1.1;
	if (job->optimizer == LK_OPT_MUON) lk_fill_int(&job->muon_steps, 5);
	lk_fill_int(&job->max_connections, 8);
	job_fill_bucket(job);
}

static lk_status job_complete(lk_job *job, const lk_cluster *cluster, bool network_checked,
                              lk_error *err) {
	lk_job whole = *job; /* a refused job is left unchanged */
	LK_TRY(lk_job_check_ranges(&whole, err));
	if (!network_checked) LK_TRY(lk_model_check(&whole.model, "model", err));
	fill_stack(&whole);
	lk_job_fit_labels(&whole);
	if (whole.model.experts == 0 && lk_base_of(&whole)->dense) /* nothing but linear layers */
		whole.base = whole.base == LK_BASE_NF4_DENSE ? LK_BASE_NF4 : LK_BASE_INT8;
	LK_TRY(job_fill_ranks(&whole, cluster, err));
	LK_TRY(fill_copies(&whole, err));
	LK_TRY(fill_schedule(&whole, err));
	lk_job_split_usually(&whole);
	LK_TRY(fill_sequence(&whole, err));
	LK_TRY(fill_batch(&whole, err));
	LK_TRY(fill_vocab(&whole, err));
	fill_dtype(&whole, cluster);
	fill_sharding(&whole);
	fill_update(&whole);
	fill_switches(&whole, cluster);
	fill_attention(&whole, cluster);
	LK_TRY(lk_job_check_layout(&whole, err));
	LK_TRY(lk_job_check_switches(&whole, err));
	LK_TRY(lk_job_check_device(&whole, cluster, err));
	*job = whole;
	return LK_OK;
}

lk_status lk_job_complete(lk_job *job, const lk_cluster *cluster, lk_error *err) {
	return job_complete(job, cluster, false, err);
}

lk_status lk_job_complete_checked(lk_job *job, const lk_cluster *cluster, lk_error *err) {
	return job_complete(job, cluster, true, err);
}
