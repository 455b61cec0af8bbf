/* keys_nemo_rl.c: NeMo RL: the training part of its policies (examples/configs).
 *
 *     gpus = cluster.num_nodes * cluster.gpus_per_node, less those that generate where they are
 *         not the same;  one of dtensor_cfg and megatron_cfg is enabled */
#include <string.h>

#include "base/text.h"
#include "launch/config.h"

static const lk_pair truths[] = {{"true", "on"}, {"false", "off"}, {NULL, NULL}};

static const lk_key common[] = {
	LK_FACT("policy.model_name", "network_name"),
	LK_FACT("policy.train_global_batch_size", "gbs"),
	LK_FACT("policy.train_micro_batch_size", "mbs"),
	LK_FACT("policy.max_total_sequence_length", "seq"),
	LK_FACT("policy.precision", "format"),
	LK_FACT("policy.sequence_packing.enabled", "packing"),
	LK_NOTE("policy.dynamic_batching.enabled", "micro-batches are taken at full length"),
	LK_FACT("cluster.num_nodes", "nodes"),
	LK_FACT("cluster.gpus_per_node", "per_node"),
	LK_FACT("policy.optimizer.name", "optimizer_name"),
	LK_SKIP("policy.generation*", "generation: not part of the training step"),
	LK_SKIP("policy*", "not part of the training step"),
	LK_SKIP("*", "not part of the training step"),
	LK_KEYS_END};

static const lk_key tensor[] = {
	LK_FACT("policy.dtensor_cfg.tensor_parallel_size", "tp"),
	LK_FACT("policy.dtensor_cfg.context_parallel_size", "cp"),
	LK_FACT("policy.dtensor_cfg.expert_parallel_size", "ep"),
	LK_FACT("policy.dtensor_cfg.dp_replicate_size", "dp_replicate"),
	LK_FACT("policy.dtensor_cfg.sequence_parallel", "sequence_parallel"),
	LK_FACT("policy.dtensor_cfg.activation_checkpointing", "recompute_text"),
	LK_FACT("policy.dtensor_cfg.cpu_offload", "offload_optimizer"),
	LK_FACT("policy.dtensor_cfg.lora_cfg.enabled", "adapter"),
	LK_FACT("policy.dtensor_cfg.lora_cfg.dim", "lora_rank"),
	LK_SKIP("policy.dtensor_cfg*", "see the degrees"),
	LK_KEYS_END};

static const lk_key megatron[] = {
	LK_FACT("policy.megatron_cfg.tensor_model_parallel_size", "tp"),
	LK_FACT("policy.megatron_cfg.pipeline_model_parallel_size", "pp"),
	LK_FACT("policy.megatron_cfg.context_parallel_size", "cp"),
	LK_FACT("policy.megatron_cfg.expert_model_parallel_size", "ep"),
	LK_FACT("policy.megatron_cfg.expert_tensor_parallel_size", "etp"),
	LK_FACT("policy.megatron_cfg.sequence_parallel", "sequence_parallel"),
	LK_FACT("policy.megatron_cfg.activation_checkpointing", "recompute_text"),
	LK_FACT("policy.megatron_cfg.num_layers_in_first_pipeline_stage", "first_stage_layers"),
	LK_FACT("policy.megatron_cfg.num_layers_in_last_pipeline_stage", "last_stage_layers"),
	LK_FACT("policy.megatron_cfg.pipeline_dtype", "format"),
	LK_FACT("policy.megatron_cfg.optimizer.optimizer", "optimizer_name"),
	LK_FACT("policy.megatron_cfg.optimizer.optimizer_cpu_offload", "offload_optimizer"),
	LK_FACT("policy.megatron_cfg.peft.enabled", "adapter"),
	LK_FACT("policy.megatron_cfg.peft.dim", "lora_rank"),
	LK_FACT("policy.megatron_cfg.fp8_cfg.enabled", "fp8"),
	LK_WORDS("policy.megatron_cfg.distributed_data_parallel_config.overlap_grad_reduce",
             "overlap_grad_reduce", truths),
	LK_WORDS("policy.megatron_cfg.distributed_data_parallel_config.overlap_param_gather",
             "overlap_param_gather", truths),
	LK_WORDS("policy.megatron_cfg.distributed_data_parallel_config.grad_reduce_in_fp32",
             "grad_reduce_fp32", truths),
	LK_SKIP("policy.megatron_cfg*", "see the degrees"),
	LK_KEYS_END};

static bool nemo_rl_is(const lk_value *root) {
	return lk_config_at(root, "policy.model_name") ||
	       (lk_config_at(root, "policy") && lk_config_at(root, "cluster"));
}

static bool nemo_rl_on(const lk_config *config, const char *path) {
	const char *text = lk_config_text(lk_config_at(config->root, path));
	return text && strcmp(text, "true") == 0;
}

static int nemo_rl_whole(const lk_config *config, const char *path) {
	const lk_value *value = lk_config_at(config->root, path);
	bool fits = value && value->kind == LK_JSON_NUMBER && value->number >= 0 &&
	            value->number <= LK_JOB_GPUS;
	return fits ? (int)value->number : 0;
}

/* GPUs that generate and do not train are taken off. */
static lk_status nemo_rl_gpus(const lk_config *config, lk_draft *draft) {
	const char *colocated =
		lk_config_text(lk_config_at(config->root, "policy.generation.colocated.enabled"));
	int64_t nodes = draft->nodes > 0 ? draft->nodes : 1,
			per_node = draft->per_node > 0 ? draft->per_node : 1;
	if (draft->nodes == 0 && draft->per_node == 0) return LK_OK;
	draft->nodes = (int)nodes;
	draft->per_node = (int)per_node;
	if (!colocated || strcmp(colocated, "false") != 0) return LK_OK;
	int64_t others = nemo_rl_whole(config, "policy.generation.colocated.resources.num_nodes"),
			own = nemo_rl_whole(config, "policy.generation.colocated.resources.gpus_per_node");
	int64_t away = own;
	if (nodes > 1 && others > 0) away = others * (own > 0 ? own : per_node);
	int64_t left = nodes * per_node - away;
	if (left <= 0 || left > LK_JOB_GPUS) return LK_OK;
	draft->all_gpus = (int)left;
	return lk_launch_assume(config->reading, "%lld of %lld GPUs train, the others generate",
	                        (long long)left, (long long)(nodes * per_node));
}

static lk_status nemo_rl_translate(const lk_config *config, lk_words *words) {
	bool core = nemo_rl_on(config, "policy.megatron_cfg.enabled");
	const lk_key *const tables[] = {core ? megatron : tensor, common, NULL};
	lk_draft draft = {0};
	(void)words;
	LK_TRY(lk_draft_read(config, tables, &draft));
	LK_TRY(nemo_rl_gpus(config, &draft));
	lk_job *job = &draft.job;
	if (!draft.adapter) job->lora_rank = 0;
	/* nemo_rl/algorithms/dpo.py doubles both batches: a sample is a pair */
	draft.pairs = job->dpo = lk_config_at(config->root, "dpo") != NULL;
	if (core) {
		draft.zero = 2;
		lk_copy(job->stack, sizeof job->stack, "megatron");
		const char *granularity =
			lk_config_text(lk_config_at(config->root, "policy.megatron_cfg.recompute_granularity"));
		if (nemo_rl_on(config, "policy.megatron_cfg.activation_checkpointing") && granularity)
			lk_copy(draft.recompute_text, sizeof draft.recompute_text, granularity);
	} else {
		lk_copy(draft.fsdp, sizeof draft.fsdp, "full_shard");
	}
	if (!*draft.format) draft.bf16 = true;
	config->reading->out->samples =
		strstr(config->file, "vlm") ? LK_SAMPLES_IMAGES : LK_SAMPLES_TEXTS;
	LK_TRY(lk_launch_assume(config->reading,
	                        "the training part of a step alone: generation and scoring are not "
	                        "priced"));
	return lk_draft_finish(config, &draft);
}

const lk_framework lk_framework_nemo_rl = {"nemo-rl", nemo_rl_is, NULL, nemo_rl_translate};
