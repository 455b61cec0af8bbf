/* tables.h: the tables of data/launch, checked and packed by tools/pack_launch.c during the build.
 * Each file is a table, or one table per part. The last row of a table has no name. */
#ifndef LK_LAUNCH_TABLES_H
#define LK_LAUNCH_TABLES_H

#include "launch/config.h"
#include "launch/emit.h"

extern const lk_key lk_keys_accelerate[], lk_keys_automodel[], lk_keys_axolotl[],
	lk_keys_deepspeed[], lk_keys_llama_factory_v1[], lk_keys_llm_foundry[], lk_keys_maxtext[],
	lk_keys_nanotron[], lk_keys_neox[], lk_keys_openrlhf[], lk_keys_primus[], lk_keys_trainer[],
	lk_keys_torchtune[], lk_keys_trainer_megatron[], lk_keys_trainer_llama_factory[],
	lk_keys_verl[];

/* NeMo RL: keys of all files; of files that generate, and of their engine; of files that only
 * train; of the training back end. */
extern const lk_key lk_keys_nemo_rl_common[], lk_keys_nemo_rl_rollout[],
	lk_keys_nemo_rl_rollout_vllm[], lk_keys_nemo_rl_rollout_sglang[],
	lk_keys_nemo_rl_rollout_tensorrt[], lk_keys_nemo_rl_rollout_megatron[],
	lk_keys_nemo_rl_no_rollout[], lk_keys_nemo_rl_tensor[], lk_keys_nemo_rl_megatron[];

/* Command lines whose settings are dotted paths. */
extern const lk_key lk_keys_nemo[], lk_keys_torchtitan[], lk_keys_bridge[];

/* A setting of a configuration and the flag that has another name. */
typedef struct lk_renamed {
	const char *name, *flag, *when; /* when: the value that means the switch; NULL: any value */
} lk_renamed;
extern const lk_renamed lk_megatron_names[];

/* The offset of a flag's field; a compile error unless the field has the type that the kind
 * needs. */
#define LK_FLAG_AT(type, field) \
	(offsetof(lk_megatron, field) + 0 * sizeof(_Generic(((lk_megatron *)0)->field, type : 0)))
#define LK_FLAG_CHOICE_AT(field)    \
	(offsetof(lk_megatron, field) + \
	 0 * sizeof(_Generic(((lk_megatron *)0)->field, int : 0, unsigned : 0)))

/* Rules, which rows name in their column rule (emit_files.c). */
typedef const char *lk_row_rule(const lk_emission *emission, const char *value);
extern lk_row_rule lk_rule_accelerate_format, lk_rule_accelerate_kind, lk_rule_adapters,
	lk_rule_attends, lk_rule_axolotl_adapter, lk_rule_axolotl_deepspeed, lk_rule_axolotl_optimizer,
	lk_rule_core, lk_rule_core_experts, lk_rule_core_recomputes, lk_rule_core_several,
	lk_rule_deepspeed, lk_rule_experts, lk_rule_factory_deepspeed, lk_rule_factory_fsdp,
	lk_rule_factory_keeps, lk_rule_factory_liger, lk_rule_fsdp, lk_rule_fsdp_recomputed,
	lk_rule_head_node, lk_rule_hybrid, lk_rule_image_pixels, lk_rule_images, lk_rule_liger_plugin,
	lk_rule_loss_cut, lk_rule_loss_fused, lk_rule_loss_switch, lk_rule_machines, lk_rule_mesh,
	lk_rule_named, lk_rule_nanotron_adam, lk_rule_nanotron_engine, lk_rule_nanotron_heads,
	lk_rule_nanotron_llama, lk_rule_nanotron_optimizer, lk_rule_nanotron_qwen, lk_rule_on,
	lk_rule_pipeline, lk_rule_recomputes_all, lk_rule_rotary_base, lk_rule_several,
	lk_rule_shared_expert, lk_rule_shared_width, lk_rule_tokens, lk_rule_twice_rank,
	lk_rule_whole_recomputed, lk_rule_zero3;

/* emit_rows.c: the rows that are written, as a YAML file; as flags of a program, false when memory
 * runs out. */
void lk_emit_file(lk_page *page, const lk_emission *emission, const lk_key *rows);
bool lk_emit_flags(lk_emission *emission, const lk_key *rows);
/* Names that HuggingFace's trainers share; NULL: they have none for it. */
const char *lk_emit_optimizer(const lk_job *job);
const char *lk_emit_attention(const lk_job *job);
int lk_emit_shard(const lk_job *job);   /* ranks that share one copy of the weights */
bool lk_emit_images(const lk_job *job); /* whether samples have images */

#endif
