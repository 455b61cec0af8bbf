/* tables.h: the tables of data/launch, checked and packed by tools/pack_launch.c during the build.
 * Each file is a table, or one table per part. The last row of a table has no name. */
#ifndef LK_LAUNCH_TABLES_H
#define LK_LAUNCH_TABLES_H

#include "launch/config/config.h"

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

#endif
