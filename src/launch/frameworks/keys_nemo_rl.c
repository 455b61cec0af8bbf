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

static int nemo_rl_whole(const lk_config *config, const char *path) {
	const lk_value *value = lk_config_at(config->root, path);
	bool fits = value && value->kind == LK_JSON_NUMBER && value->number >= 0 &&
	            value->number <= LK_JOB_GPUS;
	return fits ? (int)value->number : 0;
}

/* Teachers by agents, each on GPUs of its own. Checkpoints that several agents name are loaded
 * once; a sequence is read by one of them, so that all of them take the time of one with their
 * GPUs. */
static void nemo_rl_teachers(const lk_config *config, lk_draft *draft) {
	lk_launch_rollout *out = &draft->rollout;
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
lk_status lk_own_nemo_rl_gpus(const lk_config *config, lk_draft *draft) {
	const char *colocated =
		lk_config_text(lk_config_at(config->root, "policy.generation.colocated.enabled"));
	nemo_rl_teachers(config, draft);
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

void lk_nemo_rl_keys(const lk_config *config, const lk_key *tables[LK_FRAMEWORK_TABLES]) {
	bool core = lk_config_on(config->root, "policy.megatron_cfg.enabled"),
		 rolls = !lk_config_at(config->root, "dpo");
	*tables++ = core ? lk_keys_nemo_rl_megatron : lk_keys_nemo_rl_tensor;
	*tables++ = rolls ? lk_keys_nemo_rl_rollout : lk_keys_nemo_rl_no_rollout;
	if (rolls) *tables++ = nemo_rl_engine(config);
	*tables++ = lk_keys_nemo_rl_common;
	*tables = NULL;
}
