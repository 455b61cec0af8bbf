/* keys_nemo_rl.c: NeMo RL: its policies and what they generate (examples/configs).
 *
 *     gpus = cluster.num_nodes * cluster.gpus_per_node, less those of the engines where these have
 *         GPUs of their own; one of dtensor_cfg and megatron_cfg is enabled
 *     sequences of a step = num_prompts_per_step * num_generations_per_prompt
 *     lag = max_trajectory_age_steps, where asynchronous steps are enabled */
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "base/noun.h"
#include "launch/config/tables.h"
#include "launch/frameworks/frameworks.h"

LK_KEYS(nemo_rl_rollout_sglang);
LK_KEYS(nemo_rl_rollout_tensorrt);
LK_KEYS(nemo_rl_rollout_megatron);
LK_KEYS(nemo_rl_rollout_vllm);
LK_KEYS(nemo_rl_megatron);
LK_KEYS(nemo_rl_tensor);
LK_KEYS(nemo_rl_rollout);
LK_KEYS(nemo_rl_common);
LK_KEYS(nemo_rl_no_rollout);

/* The options of the engine that generates. */
static const lk_key *nemo_rl_engine(const lk_config *config) {
	const char *name = lk_config_text(lk_config_at(config->root, "policy.generation.backend"));
	if (name && strcmp(name, "sglang") == 0) return lk_keys_nemo_rl_rollout_sglang;
	if (name && strcmp(name, "trtllm") == 0) return lk_keys_nemo_rl_rollout_tensorrt;
	if (name && strcmp(name, "megatron") == 0) return lk_keys_nemo_rl_rollout_megatron;
	return lk_keys_nemo_rl_rollout_vllm;
}

static bool nemo_rl_is(const lk_value *root) {
	return lk_config_at(root, "policy.model_name") ||
	       (lk_config_at(root, "policy") && lk_config_at(root, "cluster"));
}

static int nemo_rl_whole(const lk_config *config, const char *path) {
	const lk_value *value = lk_config_at(config->root, path);
	bool fits = value && value->kind == LK_JSON_NUMBER && value->number >= 0 &&
	            value->number <= LK_JOB_GPUS;
	return fits ? (int)value->number : 0;
}

/* The network that is distilled: the section of the teacher, which runs on the GPUs that train; or
 * teachers by agents, each on GPUs of its own. Checkpoints that several agents name are loaded
 * once; a sequence is read by one of them, so that all of them take the time of one with their
 * GPUs. */
static void nemo_rl_teacher(const lk_config *config, lk_draft *draft) {
	lk_launch_rollout *out = &draft->rollout;
	const char *name = lk_config_text(lk_config_at(config->root, "teacher.model_name"));
	bool core = lk_config_on(config->root, "teacher.megatron_cfg.enabled");
	if (lk_config_at(config->root, "distillation") && name) {
		lk_copy(out->teacher, sizeof out->teacher, name);
		out->teacher_tp =
			nemo_rl_whole(config, core ? "teacher.megatron_cfg.tensor_model_parallel_size"
		                               : "teacher.dtensor_cfg.tensor_parallel_size");
	}
	if (!lk_config_on(config->root, "on_policy_distillation.enabled")) return;
	const lk_value *names =
		lk_config_at(config->root, "on_policy_distillation.teacher_model_by_agent_name");
	int teachers = 0;
	for (size_t i = 0; names && names->kind == LK_JSON_OBJECT && i < names->count; i++) {
		const char *one = lk_config_text(&names->items[i]);
		bool known = !one;
		for (size_t k = 0; k < i && !known; k++) {
			const char *other = lk_config_text(&names->items[k]);
			known = other && strcmp(one, other) == 0;
		}
		if (!known && teachers++ == 0) lk_copy(out->teacher, sizeof out->teacher, one);
	}
	if (teachers == 0 ||
	    !lk_config_on(config->root, "on_policy_distillation.non_colocated_teachers.enabled"))
		return;
#define EACH "on_policy_distillation.non_colocated_teachers.default_teacher_cfg."
	int64_t gpus = (int64_t)teachers * nemo_rl_whole(config, EACH "num_nodes") *
	               nemo_rl_whole(config, EACH "gpus_per_node");
	if (gpus > 0 && gpus <= LK_JOB_GPUS) out->teacher_gpus = (int)gpus;
	out->teacher_tp = nemo_rl_whole(config, EACH "tensor_model_parallel_size");
#undef EACH
}

/* GPUs that generate and do not train are taken off. */
static lk_status nemo_rl_gpus(const lk_config *config, lk_draft *draft) {
	const char *colocated =
		lk_config_text(lk_config_at(config->root, "policy.generation.colocated.enabled"));
	nemo_rl_teacher(config, draft);
	int64_t nodes = draft->nodes > 0 ? draft->nodes : 1,
			per_node = draft->per_node > 0 ? draft->per_node : 1;
	if (draft->nodes == 0 && draft->per_node == 0) return LK_OK;
	draft->nodes = (int)nodes;
	draft->per_node = (int)per_node;
	bool apart = colocated && strcmp(colocated, "false") == 0;
	if (!apart && draft->rollout.teacher_gpus == 0) return LK_OK;
	int64_t others = nemo_rl_whole(config, "policy.generation.colocated.resources.num_nodes"),
			own = nemo_rl_whole(config, "policy.generation.colocated.resources.gpus_per_node");
	int64_t away = apart ? own : 0;
	if (apart && nodes > 1 && others > 0) away = others * (own > 0 ? own : per_node);
	LK_ASSERT(nodes > 0 && per_node > 0 && away >= 0);
	int64_t left = nodes * per_node - away - draft->rollout.teacher_gpus;
	if (left <= 0 || left > LK_JOB_GPUS) return LK_OK;
	draft->all_gpus = (int)left;
	draft->rollout.gpus = (int)away;
	return lk_launch_assume(config->reading, "%lld of %lld %s train, the others generate%s",
	                        (long long)left, (long long)(nodes * per_node),
	                        lk_noun(nodes * per_node, "GPU", "GPUs"),
	                        draft->rollout.teacher_gpus ? " or hold teachers" : "");
}

/* What the section of the algorithm says; the reading gets its rollout when the job is done. */
static void nemo_rl_rollout(const lk_config *config, bool core, lk_draft *draft) {
	lk_launch_rollout *out = &draft->rollout;
	const lk_value *section = lk_config_at(config->root, "grpo");
	const char *task = "grpo", *age = "grpo.async_grpo.max_trajectory_age_steps";
	bool ahead = lk_config_on(config->root, "grpo.async_grpo.enabled");
	if (!section) {
		section = lk_config_at(config->root, "ppo"), task = "ppo";
		age = "ppo.async_ppo.max_trajectory_age_steps";
		ahead = lk_config_on(config->root, "ppo.async_ppo.enabled");
	}
	if (!section) {
		section = lk_config_at(config->root, "distillation"), task = "distill";
		ahead = false;
	}
	if (!section || !lk_config_at(config->root, "policy.generation")) return;
	out->full_rows = draft->packing && draft->job.pp > 1;
	/* Megatron-LM's buffers of weights are copied into pinned memory, which is kept
	 * (ParamAndGradBuffer.offload_to_cpu); what else is moved is moved tensor by tensor */
	out->pinned_params = core;
	/* without a teacher of its own, the policy before it was quantised */
	if (strcmp(task, "distill") == 0 && !*out->teacher)
		lk_copy(out->teacher, sizeof out->teacher, "policy");
	if (strcmp(task, "ppo") != 0) out->critic[0] = '\0';
	out->padded = !draft->packing && !lk_config_on(config->root, "policy.dynamic_batching.enabled");
	lk_copy(out->task, sizeof out->task, task);
	if (ahead) out->lag = nemo_rl_whole(config, age) > 1 ? nemo_rl_whole(config, age) : 1;
	/* more prompts are written than are kept, where those without a signal are thrown away */
	const lk_value *more = lk_config_at(section, "batch_multiplier");
	if (lk_config_on(section, "use_dynamic_sampling") && more && more->kind == LK_JSON_NUMBER)
		out->oversample = more->number;
	if (lk_config_on(config->root, "policy.generation.vllm_cfg.is_mx") && *out->format)
		lk_copy(out->format, sizeof out->format, "mxfp8");
	/* Megatron's engine has the layout of the training where nothing else is said */
	if (core && nemo_rl_engine(config) == lk_keys_nemo_rl_rollout_megatron && out->tp == 0)
		out->tp = draft->job.tp, out->ep = draft->job.ep;
}

/* Formats and sharding of Megatron-LM's part, by several keys together. */
static void nemo_rl_core(const lk_config *config, lk_draft *draft) {
#define CORE "policy.megatron_cfg."
	lk_job *job = &draft->job;
	const char *recipe = lk_config_text(lk_config_at(config->root, CORE "fp8_cfg.fp8_recipe"));
	const lk_value *chunk = lk_config_at(config->root, "policy.logprob_chunk_size");
	bool fp8 = draft->fp8 && recipe;
	if (fp8 && strcmp(recipe, "mxfp8") == 0) {
		job->dtype = LK_MXFP8;
		job->dtype_said = true;
	} else if (fp8) {
		job->fp8_recipe = strcmp(recipe, "blockwise") == 0 ? LK_FP8_BLOCKWISE : job->fp8_recipe;
		if (strcmp(recipe, "tensorwise") == 0) job->fp8_recipe = LK_FP8_TENSORWISE;
	}
	job->narrow_weights = fp8 && lk_config_on(config->root, CORE "fp8_cfg.fp8_param");
	if (fp8 && lk_config_on(config->root, CORE "first_last_layers_bf16")) {
		job->wide_first = nemo_rl_whole(config, CORE "num_layers_at_start_in_bf16");
		job->wide_last = nemo_rl_whole(config, CORE "num_layers_at_end_in_bf16");
	}
	/* logits stay in 16 bits, and their loss is made a chunk at a time */
	if (job->loss == LK_LOSS_LOGITS && lk_config_on(config->root, CORE "defer_fp32_logits") &&
	    chunk && chunk->kind == LK_JSON_NUMBER)
		job->fused_cross_entropy = LK_ON;
	const char *whole =
		lk_config_text(lk_config_at(config->root, CORE "optimizer.use_distributed_optimizer"));
	draft->zero = whole && strcmp(whole, "false") == 0 ? 1 : 2;
	if (lk_config_on(config->root, CORE "distributed_data_parallel_config.use_custom_fsdp"))
		draft->zero = 3 + 1;
	lk_copy(job->stack, sizeof job->stack, "megatron");
#undef CORE
}

static lk_status nemo_rl_translate(const lk_config *config, lk_words *words) {
	bool core = lk_config_on(config->root, "policy.megatron_cfg.enabled");
	bool rolls = !lk_config_at(config->root, "dpo");
	const lk_key *back_end = core ? lk_keys_nemo_rl_megatron : lk_keys_nemo_rl_tensor;
	const lk_key *const phases[] = {back_end, lk_keys_nemo_rl_rollout, nemo_rl_engine(config),
	                                lk_keys_nemo_rl_common, NULL};
	const lk_key *const alone[] = {back_end, lk_keys_nemo_rl_no_rollout, lk_keys_nemo_rl_common,
	                               NULL};
	lk_draft draft = {0};
	(void)words;
	LK_TRY(lk_draft_read(config, rolls ? phases : alone, &draft));
	LK_TRY(nemo_rl_gpus(config, &draft));
	lk_job *job = &draft.job;
	if (!draft.adapter) job->lora_rank = 0;
	/* nemo_rl/algorithms/dpo.py doubles both batches: a sample is a pair */
	draft.pairs = job->dpo = lk_config_at(config->root, "dpo") != NULL;
	if (core) {
		nemo_rl_core(config, &draft);
		const char *granularity =
			lk_config_text(lk_config_at(config->root, "policy.megatron_cfg.recompute_granularity"));
		if (lk_config_on(config->root, "policy.megatron_cfg.activation_checkpointing") &&
		    granularity)
			lk_copy(draft.recompute_text, sizeof draft.recompute_text, granularity);
	} else {
		lk_copy(draft.fsdp, sizeof draft.fsdp, "full_shard");
	}
	if (!*draft.format) draft.bf16 = true;
	config->reading->out->samples =
		strstr(config->file, "vlm") ? LK_SAMPLES_IMAGES : LK_SAMPLES_TEXTS;
	nemo_rl_rollout(config, core, &draft);
	if (!*draft.rollout.task && lk_config_at(config->root, "policy.generation"))
		LK_TRY(lk_launch_assume(config->reading, "the training part of a step alone: generation "
		                                         "and the teacher's scores are not priced"));
	LK_TRY(lk_draft_finish(config, &draft));
	return lk_draft_rollout(config, &draft);
}

const lk_framework lk_framework_nemo_rl = {"nemo-rl", nemo_rl_is, NULL, nemo_rl_translate};
