/* draft_facts.c: fields of a draft and of its job by name, as rows of data/launch use them. */
#include <string.h>

#include "launch/config/config.h"

#define FACT_OF(name_, kind_, field)                                              \
	.name = name_, .kind = LK_FIELD_##kind_, .offset = offsetof(lk_draft, field), \
	.size = sizeof(((lk_draft *)0)->field)
#define FACT(name_, kind_, field) \
	{ FACT_OF(name_, kind_, field) }

static const char *const samples[] = {"open", "texts", "images", NULL};

/* Facts that are not fields of a job. */
static const lk_field draft_facts[] = {
	FACT("nodes", INT, nodes),
	FACT("per_node", INT, per_node),
	FACT("gpus", INT, all_gpus),
	FACT("accumulation", INT, accumulation),
	FACT("mbs_of_all", INT, mbs_of_all),
	FACT("microbatches", INT, job.microbatches),
	FACT("dp", INT, dp),
	FACT("dp_shard", INT, dp_shard),
	FACT("dp_replicate", INT, dp_replicate),
	FACT("stage_layers", INT, stage_layers),
	FACT("zero", INT, zero),
	FACT("bf16", BOOL, bf16),
	FACT("fp16", BOOL, fp16),
	FACT("fp8", BOOL, fp8),
	FACT("tf32", BOOL, tf32),
	FACT("packing", BOOL, packing),
	FACT("adapter", BOOL, adapter),
	FACT("quantized", BOOL, quantized),
	FACT("attention_adapters", BOOL, attention_adapters),
	FACT("named_mlp", BOOL, named_mlp),
	FACT("quantization_bits", INT, quantization_bits),
	FACT("reshard_off", BOOL, reshard_off),
	FACT("no_tying", BOOL, no_tying),
	FACT("fsdp2", BOOL, fsdp2),
	FACT("stages_up", BOOL, stages_up),
	FACT("host_shards", BOOL, host_shards),
	FACT("host_params", BOOL, host_params),
	FACT("host_activations", BOOL, host_activations),
	FACT("shard_beside_cp", BOOL, shard_beside_cp),
	FACT("pairs", BOOL, pairs),
	FACT("split_open", BOOL, job.split_open),
	FACT("sharded", BOOL, sharded),
	FACT("meshed", BOOL, meshed),
	FACT("defaults", BOOL, defaults),
	FACT("named", BOOL, named),
	{FACT_OF("samples", CHOICE, samples), .choices = samples},
	FACT("format", TEXT, format),
	FACT("storage", TEXT, storage),
	FACT("fsdp", TEXT, fsdp),
	FACT("sharding_name", TEXT, sharding_name),
	FACT("deepspeed", TEXT, deepspeed),
	FACT("accelerate", TEXT, accelerate),
	FACT("network_name", TEXT, network),
	FACT("teacher", TEXT, teacher),
	FACT("optimizer_name", TEXT, optimizer_name),
	FACT("attention_name", TEXT, attention_name),
	FACT("schedule_name", TEXT, schedule_name),
	FACT("recompute_text", TEXT, recompute_text),
	FACT("tokenizer", TEXT, tokenizer),
	FACT("strategy", TEXT, strategy),
	FACT("method", TEXT, method),
	FACT("stage", TEXT, stage),
	FACT("activation", TEXT, activation),
	FACT("norm_name", TEXT, norm_name),
	FACT("positions_name", TEXT, positions_name),
	FACT("expansion", REAL, expansion),
	FACT("device_batch", REAL, device_batch),
	FACT("multiple", INT, multiple),
	FACT("vocab_multiple", INT, job.vocab_multiple),
	FACT("rollout_task", TEXT, rollout.task),
	FACT("rollout_by_sequence", BOOL, rollout.by_sequence),
	FACT("rollout_full_rows", BOOL, rollout.full_rows),
	FACT("rollout_pinned_params", BOOL, rollout.pinned_params),
	FACT("rollout_critic_gpus", INT, rollout.critic_gpus),
	FACT("rollout_prompts", INT, rollout.prompts),
	FACT("rollout_samples", INT, rollout.samples),
	FACT("rollout_sequences", INT, rollout.sequences),
	FACT("rollout_oversample", REAL, rollout.oversample),
	FACT("rollout_epochs", INT, rollout.epochs),
	FACT("rollout_gpus", INT, rollout.gpus),
	FACT("rollout_engines", INT, rollout.engines),
	FACT("rollout_tp", INT, rollout.tp),
	FACT("rollout_pp", INT, rollout.pp),
	FACT("rollout_ep", INT, rollout.ep),
	FACT("rollout_lag", INT, rollout.lag),
	FACT("rollout_no_policy", BOOL, rollout.no_policy),
	FACT("rollout_no_reference", BOOL, rollout.no_reference),
	FACT("rollout_eager", BOOL, rollout.eager),
	FACT("rollout_padded", BOOL, rollout.padded),
	FACT("rollout_no_prefix_caching", BOOL, rollout.no_prefix_caching),
	FACT("rollout_prompt", REAL, rollout.prompt_most),
	FACT("rollout_response", REAL, rollout.response_most),
	FACT("rollout_memory", REAL, rollout.memory_share),
	FACT("rollout_batch", INT, rollout.max_sequences),
	FACT("rollout_tokens", INT, rollout.max_tokens),
	FACT("rollout_engine", TEXT, rollout.engine),
	FACT("rollout_format", TEXT, rollout.format),
	FACT("rollout_kv_format", TEXT, rollout.kv_format),
	FACT("rollout_keep_params", BOOL, rollout.keep_params),
	FACT("rollout_keep_optimizer", BOOL, rollout.keep_optimizer),
	FACT("rollout_keep_reference", BOOL, rollout.keep_reference),
	FACT("rollout_no_sleep", BOOL, rollout.no_sleep),
	FACT("rollout_critic", TEXT, rollout.critic),
	FACT("rollout_critic_epochs", INT, rollout.critic_epochs),
	FACT("rollout_critic_params", INT, rollout.critic_params),
	FACT("rollout_critic_optimizer", INT, rollout.critic_optimizer),
	FACT("rollout_reward_model", TEXT, rollout.reward_model),
	FACT("rollout_teacher", TEXT, rollout.teacher),
	FACT("rollout_teacher_tp", INT, rollout.teacher_tp),
};

const lk_field *lk_draft_fact(const char *name) {
	for (size_t i = 0; i < sizeof draft_facts / sizeof *draft_facts; i++)
		if (strcmp(draft_facts[i].name, name) == 0) return &draft_facts[i];
	for (const lk_field *field = lk_job_fields; field->name; field++)
		if (strcmp(field->name, name) == 0) return field;
	return NULL;
}
