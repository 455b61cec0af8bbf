/* keys_verl.c: verl: settings of its trainers (verl/trainer/config), in a file or as words after
 * the program, which Hydra merges into its own files.
 *
 *     sequences of a step = data.train_batch_size * rollout.n
 *     of an update        = actor.ppo_mini_batch_size * rollout.n
 *     a micro-batch has ppo_micro_batch_size_per_gpu sequences, or with use_dynamic_bsz as many
 *         tokens as ppo_max_token_len_per_gpu says; the older ppo_micro_batch_size is of all
 *         replicas
 *     the reference runs where its divergence is in the loss or in the reward
 *     adv_estimator gae trains a critic, with epochs (else the actor's) and offload of its own, and
 *         laid out as the actor; all others use none
 *     param_offload and optimizer_offload move what training keeps to the host while engines run,
 *         offload_policy keeps it there (FSDP2's CPU offload) */
#include <math.h>
#include <string.h>
#include <strings.h>

#include "base/check.h"
#include "base/text.h"
#include "io/embedded.h"
#include "launch/config/tables.h"
#include "launch/frameworks/frameworks.h"

LK_KEYS(verl);

#define MODEL "actor_rollout_ref.model."
#define ACTOR "actor_rollout_ref.actor."
#define CORE  ACTOR "megatron."

static const lk_key *const tables[] = {lk_keys_verl, NULL};

bool lk_verl_states(const char *key) {
	for (const lk_key *row = lk_keys_verl; row->path; row++)
		if (strcmp(row->path, key) == 0)
			return row->kind == LK_KEY_FACT || row->kind == LK_KEY_RULE;
	return false;
}

static bool verl_is(const lk_value *root) {
	return lk_config_at(root, "actor_rollout_ref") != NULL;
}

static double verl_number(const lk_config *config, const char *path) {
	const lk_value *value = lk_config_at(config->root, path);
	return value && value->kind == LK_JSON_NUMBER && value->number > 0 ? value->number : 0;
}

/* Set which states stay on the device, and which networks run besides the policy. */
static void verl_networks(const lk_config *config, lk_launch_rollout *rollout) {
	static const char *const megatron = "megatron",
							 *const paths[2][5] = {
								 {ACTOR "fsdp_config.param_offload",
	                              ACTOR "fsdp_config.optimizer_offload",
	                              "actor_rollout_ref.ref.fsdp_config.param_offload",
	                              "critic.model.fsdp_config.param_offload",
	                              "critic.model.fsdp_config.optimizer_offload"},
								 {ACTOR "megatron.param_offload",
	                              ACTOR "megatron.optimizer_offload",
	                              "actor_rollout_ref.ref.megatron.param_offload",
	                              "critic.megatron.param_offload",
	                              "critic.megatron.optimizer_offload"}};
	const char *strategy = lk_config_text(lk_config_at(config->root, ACTOR "strategy"));
	int which = strategy && strcmp(strategy, megatron) == 0;
	rollout->keep_params = !lk_config_on(config->root, paths[which][0]);
	rollout->keep_optimizer = !lk_config_on(config->root, paths[which][1]);
	rollout->keep_reference = !lk_config_on(config->root, paths[which][2]);
	rollout->critic_params = lk_config_on(config->root, paths[which][3]) ? 1 : -1;
	rollout->critic_optimizer = lk_config_on(config->root, paths[which][4]) ? 1 : -1;
	if (strcmp(rollout->task, "ppo") != 0) {
		rollout->critic[0] = '\0';
		rollout->critic_epochs = rollout->critic_params = rollout->critic_optimizer = 0;
	}
	if (!lk_config_on(config->root, "reward_model.enable") &&
	    !lk_config_on(config->root, "reward.reward_model.enable"))
		rollout->reward_model[0] = '\0';
}

/* Settings of a critic that is not laid out as the actor are named: somebody counts on them. */
static void verl_name_critic(const lk_config *config) {
	static const char *const same[][3] = {
		{"critic.strategy", ACTOR "strategy", "fsdp"},
		{"critic.ppo_mini_batch_size", ACTOR "ppo_mini_batch_size", ""},
		{"critic.ppo_micro_batch_size", ACTOR "ppo_micro_batch_size", ""},
		{"critic.ppo_micro_batch_size_per_gpu", ACTOR "ppo_micro_batch_size_per_gpu", ""},
		{"critic.use_dynamic_bsz", ACTOR "use_dynamic_bsz", "false"},
		{"critic.ppo_max_token_len_per_gpu", ACTOR "ppo_max_token_len_per_gpu", ""},
		{"critic.ulysses_sequence_parallel_size", ACTOR "ulysses_sequence_parallel_size", "1"},
		{"critic.model.fsdp_config.fsdp_size", ACTOR "fsdp_config.fsdp_size", "-1"},
		{"critic.model.fsdp_config.offload_policy", ACTOR "fsdp_config.offload_policy", "false"},
		{"critic.model.enable_gradient_checkpointing",
	     "actor_rollout_ref.model.enable_gradient_checkpointing", "true"},
		{"critic.model.use_remove_padding", "actor_rollout_ref.model.use_remove_padding", "true"},
		{"critic.model.lora_rank", "actor_rollout_ref.model.lora_rank", "0"},
		{"critic.megatron.tensor_model_parallel_size", ACTOR "megatron.tensor_model_parallel_size",
	     "1"},
		{"critic.megatron.pipeline_model_parallel_size",
	     ACTOR "megatron.pipeline_model_parallel_size", "1"},
		{"critic.megatron.context_parallel_size", ACTOR "megatron.context_parallel_size", "1"},
		{"critic.megatron.expert_model_parallel_size", ACTOR "megatron.expert_model_parallel_size",
	     "1"},
	};
	lk_launch *out = config->reading->out;
	for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
		const char *critic = lk_config_text(lk_config_at(config->root, same[i][0])),
				   *actor = lk_config_text(lk_config_at(config->root, same[i][1]));
		if (!critic || strcasecmp(critic, actor ? actor : same[i][2]) == 0) continue;
		for (int k = 0; k < out->ignored_count; k++)
			if (strcmp(out->ignored[k].flag, same[i][0]) == 0)
				out->ignored[k].as = LK_IGNORED_NOTABLE;
	}
}

/* The older key states a micro-batch of all replicas. */
static int verl_micro_batch(const lk_draft *draft) {
	const int split[] = {draft->job.tp, draft->job.pp, draft->job.cp};
	double replicas = (double)draft->nodes * draft->per_node;
	LK_ASSERT(replicas >= 0);
	for (int i = 0; i < 3; i++) replicas /= fmax(1, split[i]);
	return (int)fmax(1, floor(draft->mbs_of_all / fmax(1, replicas)));
}

/* Batches; engines with GPUs of their own are a step ahead (recipe/one_step_off_policy). */
static void verl_rollout(const lk_config *config, lk_draft *draft) {
	lk_launch_rollout *rollout = &draft->rollout;
	lk_job *job = &draft->job;
	const char *estimator = lk_config_text(lk_config_at(config->root, "algorithm.adv_estimator")),
			   *critic = lk_config_text(lk_config_at(config->root, "critic.enable"));
	bool values =
		critic ? strcasecmp(critic, "true") == 0 : !estimator || strcmp(estimator, "gae") == 0;
	double each = fmax(1, rollout->samples), length = rollout->prompt_most + rollout->response_most;
	double tokens = verl_number(config, ACTOR "ppo_max_token_len_per_gpu") * fmax(1, job->cp);
	lk_copy(rollout->task, sizeof rollout->task, values ? "ppo" : "grpo");
	rollout->no_reference = !lk_config_on(config->root, ACTOR "use_kl_loss") &&
	                        !lk_config_on(config->root, "algorithm.use_kl_in_reward");
	job->gbs = (int)fmin(1e7, verl_number(config, ACTOR "ppo_mini_batch_size") * each);
	job->seq = (int)fmin(1e7, length);
	bool budget = lk_config_on(config->root, ACTOR "use_dynamic_bsz") && length > 0 && tokens > 0;
	if (budget) job->mbs = (int)fmax(1, floor(tokens / length));
	rollout->by_sequence = !budget;
	if (budget || !lk_config_at(config->root, "actor_rollout_ref.model.use_remove_padding"))
		rollout->padded = false;
	if (job->mbs == 0) job->mbs = verl_micro_batch(draft);
	verl_networks(config, rollout);
	double own = verl_number(config, "rollout.n_gpus_per_node"),
		   nodes = verl_number(config, "rollout.nnodes");
	if (own > 0 && nodes > 0 && own * nodes <= LK_JOB_GPUS) {
		rollout->gpus = (int)(own * nodes);
		rollout->lag = 1;
	}
}

/* DAPO's dynamic sampling writes gen_batch_size prompts and keeps train_batch_size of them. */
static lk_status verl_sampling(const lk_config *config, lk_launch_rollout *rollout) {
	static const char enabled[] = "algorithm.filter_groups.enable";
	double written = verl_number(config, "data.gen_batch_size");
	if (!lk_config_on(config->root, enabled)) return LK_OK;
	if (rollout->prompts > 0 && written > rollout->prompts) {
		rollout->oversample = written / rollout->prompts;
		return lk_launch_assume(config->reading,
		                        "the first %.0f prompts that are written leave the %d of a step",
		                        written, rollout->prompts);
	}
	return lk_launch_note(config->reading, enabled,
	                      "no generated sequence is discarded (--rollout oversample=)");
}

/* FSDP keeps weights and states in fp32, or all of them in model_dtype; Megatron-Core has its
 * distributed optimizer by default. */
static void verl_sharding(const lk_config *config, lk_draft *draft) {
	const char *kept = lk_config_text(lk_config_at(config->root, ACTOR "fsdp_config.model_dtype")),
			   *whole =
				   lk_config_text(lk_config_at(config->root, CORE "use_distributed_optimizer"));
	if (strcmp(draft->strategy, "megatron") == 0) {
		draft->zero = whole && strcasecmp(whole, "false") == 0 ? 1 : 2;
		if (lk_config_on(config->root, CORE "use_megatron_fsdp")) draft->zero = 3 + 1;
		draft->dp_shard = 0;
		lk_copy(draft->job.stack, sizeof draft->job.stack, "megatron");
		return;
	}
	lk_copy(draft->fsdp, sizeof draft->fsdp, "full_shard");
	if (draft->job.cp > 1) draft->job.cp_kind = LK_CP_ULYSSES;
	if (!kept || (strcasecmp(kept, "bf16") != 0 && strcasecmp(kept, "bfloat16") != 0)) return;
	draft->job.master_weights = LK_OFF;
	draft->job.state_dtype = LK_BF16;
}

static lk_status verl_translate(const lk_config *config, lk_words *words) {
	lk_draft draft = {.bf16 = true};
	(void)words;
	LK_TRY(lk_draft_read(config, tables, &draft));
	verl_rollout(config, &draft);
	if (strcmp(draft.rollout.task, "ppo") == 0) verl_name_critic(config);
	LK_TRY(verl_sampling(config, &draft.rollout));
	verl_sharding(config, &draft);
	if (draft.job.lora_rank == 0)
		draft.job.lora_rank = (int)fmin(1 << 16, verl_number(config, MODEL "lora.rank"));
	draft.all_gpus = draft.nodes * draft.per_node;
	if (draft.job.lora_rank > 0) draft.adapter = true;
	config->reading->out->samples = LK_SAMPLES_TEXTS;
	LK_TRY(lk_draft_finish(config, &draft));
	return lk_draft_rollout(config, &draft);
}

/* Hydra merges a file into verl's own; their defaults above stand in for them. */
static lk_status verl_gather(lk_config *config) {
	lk_arena *arena = config->reading->arena;
	lk_value *defaults;
	size_t size;
	const char *text = lk_data_file("launch/verl.yaml", &size);
	LK_ASSERT(text != NULL);
	LK_TRY(
		lk_document_parse(arena, text, size, "ppo_trainer.yaml", &defaults, config->reading->err));
	config->root = lk_config_merge(arena, defaults, config->root);
	if (!config->root) return lk_oom(config->reading->err);
	return lk_launch_assume(config->reading, "verl's defaults where nothing is stated");
}

bool lk_verl_is(const char *program) {
	return strstr(program, "main_ppo") != NULL || strstr(program, "main_dapo") != NULL;
}

const lk_framework lk_framework_verl = {"verl", verl_is, verl_gather, verl_translate};
