/* emit_lacks.c: jobs that Megatron-LM, Megatron-Bridge, NeMo, Megatron-DeepSpeed and torchtitan
 * cannot run, and what to do. */
#include <string.h>

#include "launch/emit/emit.h"
#include "model/layout/sizes.h"

bool lk_emit_plain(const lk_model *model) {
	return model->attention == LK_ATTN_HEADS && model->ssm == 0 && model->rwkv_inner == 0 &&
	       lk_model_mixers(model) == LK_MIXER_ATTENTION && model->window == 0 && !model->qk_norm &&
	       model->attention_sinks == 0 && model->norms_per_layer == 2 && !model->clipped_glu &&
	       model->relative_buckets == 0;
}

static bool emit_spares_memory(const lk_job *job) {
	return job->schedule == LK_SCHED_V_HALF || job->schedule == LK_SCHED_V_MIN;
}

static bool emit_zero_bubble(const lk_job *job) {
	return job->schedule == LK_SCHED_ZB_H1 || job->schedule == LK_SCHED_ZB_H2 ||
	       job->schedule == LK_SCHED_DUALPIPE || emit_spares_memory(job);
}

/* Megatron-Core's pipelines, whichever program starts them. */
static const char *core_lacks(const lk_job *job) {
	if (emit_zero_bubble(job) || lk_job_folds(job) || job->schedule == LK_SCHED_GPIPE)
		return "Megatron-Core runs 1f1b and interleaved alone; add --schedule 1f1b,interleaved";
	return NULL;
}

const char *lk_megatron_lacks(const lk_job *job) {
	if (job->optimizer == LK_OPT_MUON && job->sharding > LK_SHARD_ZERO1)
		return "its Muon runs ZeRO 0 and 1; add --zero 1"; /* megatron/training/arguments.py */
	return core_lacks(job);
}

const char *lk_bridge_lacks(const lk_job *job) {
	if (job->narrow_base) return "its adapters keep the base in 16 bits; leave out --qlora";
	if (!lk_job_like_megatron(job)) return "the layout is one of FSDP; add --stack nemo";
	return core_lacks(job);
}

const char *lk_deepspeed_lacks(const lk_job *job) {
	if (job->model.experts > 0)
		return "its experts are not written; use --emit megatron, bridge or nemo";
	if (job->model.layers > 0 && !lk_emit_plain(&job->model))
		return "its layers are those of GPT, Llama and BERT; use --emit megatron";
	if (job->cp > 1) return "it has no context parallelism of this kind; leave out --cp";
	if (job->vp > 1 || emit_zero_bubble(job) || lk_job_folds(job) ||
	    job->schedule == LK_SCHED_GPIPE)
		return "DeepSpeed's pipelines run 1f1b alone; add --schedule 1f1b";
	return lk_job_uses_deepspeed(job) ? NULL
	                                  : "the layout is not one of DeepSpeed; add --stack deepspeed";
}

static bool titan_stack(const char *stack) {
	return strcmp(stack, "fsdp") == 0 || strcmp(stack, "torchtitan") == 0 ||
	       strcmp(stack, "llm-foundry") == 0;
}

const char *lk_titan_lacks(const lk_job *job) {
	if (!titan_stack(job->stack)) return "the layout is one of Megatron-LM; add --stack torchtitan";
	if (job->offload_optimizer && !job->offload_params)
		return "FSDP moves parameters with the optimizer's states; add --offload-params";
	if (job->dtype == LK_FP16)
		return "its mixed precision is bfloat16 or float32; add --dtype bf16 or fp32";
	if (job->ep > 1 && job->etp > 1)
		return "tensor parallelism splits no expert of its expert parallelism; add --etp 1";
	if (emit_zero_bubble(job))
		return "torchtitan has no such pipeline schedule; add --schedule 1f1b,interleaved,zb-v";
	return NULL;
}
