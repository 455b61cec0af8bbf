/* keys_openrlhf.c: OpenRLHF: flags of its programs (openrlhf/cli): train_ppo_ray, train_dpo,
 * train_sft.
 *
 *     sequences of a step = rollout_batch_size * n_samples_per_prompt
 *     GPUs that train     = actor_num_nodes * actor_num_gpus_per_node
 *     engines have GPUs of their own, vllm_num_engines * vllm_tensor_parallel_size, unless all
 *         models are colocated; with async_train they always have
 *     advantage_estimator gae trains a critic, on GPUs of its own unless models are colocated; all
 *         others use none
 *     nothing of the training goes to the host but with deepspeed_enable_sleep, engines on its GPUs
 *         stay there but with vllm_enable_sleep */
#include <math.h>
#include <string.h>

#include "base/text.h"
#include "launch/config/tables.h"
#include "launch/frameworks/frameworks.h"

LK_KEYS(openrlhf);

bool lk_openrlhf_is(const char *program) {
	return strncmp(program, "openrlhf.", 9) == 0;
}

static double openrlhf_number(const lk_config *config, const char *name, double otherwise) {
	const lk_value *value = lk_config_at(config->root, name);
	return value && value->kind == LK_JSON_NUMBER ? value->number : otherwise;
}

static void openrlhf_rollout(const lk_config *config, lk_draft *draft) {
	lk_launch_rollout *rollout = &draft->rollout;
	lk_job *job = &draft->job;
	const char *estimator = lk_config_text(lk_config_at(config->root, "advantage_estimator"));
	bool ahead = lk_config_on(config->root, "async_train"),
		 shared = lk_config_on(config->root, "colocate_all_models") && !ahead;
	lk_copy(rollout->task, sizeof rollout->task,
	        !estimator || strcmp(estimator, "gae") == 0 ? "ppo" : "grpo");
	rollout->no_reference = !(openrlhf_number(config, "init_kl_coef", 0.01) > 0);
	if (!lk_config_at(config->root, "packing_samples")) rollout->padded = true;
	if (rollout->prompts == 0) rollout->prompts = 1024;
	if (!(rollout->prompt_most > 0)) rollout->prompt_most = 1024;
	if (!(rollout->response_most > 0)) rollout->response_most = 1024;
	if (job->gbs == 0) job->gbs = 128;
	if (job->mbs == 0) job->mbs = 4;
	job->seq = (int)fmin(1e7, rollout->prompt_most + rollout->response_most);
	rollout->lag = ahead;
	rollout->by_sequence = true;
	bool moves = lk_config_on(config->root, "deepspeed_enable_sleep");
	rollout->keep_params = rollout->keep_optimizer = !moves;
	rollout->keep_reference = !lk_config_on(config->root, "ref_reward_offload");
	if (!lk_config_at(config->root, "vllm_enable_sleep")) rollout->no_sleep = true;
	bool critic = strcmp(rollout->task, "ppo") == 0;
	if (!critic) rollout->critic[0] = '\0';
	else if (!lk_config_on(config->root, "colocate_all_models"))
		rollout->critic_gpus = (int)fmin(
			LK_JOB_GPUS, fmax(0, openrlhf_number(config, "critic_num_nodes", 1) *
		                             openrlhf_number(config, "critic_num_gpus_per_node", 8)));
	double engines = openrlhf_number(config, "vllm_num_engines", 0);
	if (!shared && engines >= 1 && engines <= LK_JOB_GPUS) rollout->engines = (int)engines;
	if (draft->nodes == 0) draft->nodes = 1;
	if (draft->per_node == 0) draft->per_node = 8;
	draft->all_gpus = draft->nodes * draft->per_node;
}

lk_status lk_openrlhf_line(lk_reading *reading, lk_members *settings, const char *program) {
	static const lk_key *const tables[] = {lk_keys_openrlhf, NULL};
	lk_value root = {.kind = LK_JSON_OBJECT};
	lk_draft draft = {0};
	const char *name = strrchr(program, '.') + 1;
	if (!lk_members_end(settings, reading->arena, &root)) return lk_oom(reading->err);
	lk_config config = {.reading = reading, .file = reading->where, .text = "", .root = &root};
	bool rolls = strncmp(name, "train_ppo", 9) == 0, pairs = strcmp(name, "train_dpo") == 0;
	if (!rolls && !pairs && strcmp(name, "train_sft") != 0)
		return lk_config_fail(&config, program, "this method's step is not modelled",
		                      "train_ppo_ray, train_dpo and train_sft can be predicted");
	reading->out->framework = "openrlhf";
	LK_TRY(lk_config_settle(&config));
	LK_TRY(lk_draft_read(&config, tables, &draft));
	if (!*draft.format) draft.bf16 = true;
	draft.zero = lk_config_at(&root, "zero_stage") ? draft.zero + 1 : 3; /* its default is 2 */
	draft.pairs = draft.job.dpo = pairs;
	if (draft.job.lora_rank > 0) draft.adapter = true;
	lk_copy(draft.job.stack, sizeof draft.job.stack, "deepspeed");
	if (rolls) openrlhf_rollout(&config, &draft);
	else if (draft.job.seq == 0) draft.job.seq = pairs ? 512 : 2048;
	LK_TRY(lk_draft_finish(&config, &draft));
	return rolls ? lk_draft_rollout(&config, &draft) : LK_OK;
}
