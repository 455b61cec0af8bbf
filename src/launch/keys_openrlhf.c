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
#include "launch/config.h"

static const lk_pair flash[] = {{"true", "flash"}, {"false", ""}, {NULL, NULL}};

static const lk_key keys[] = {
	LK_FACT("pretrain", "network_name"),
	LK_RULE("advantage_estimator"),
	LK_RULE("async_train"),
	LK_RULE("colocate_all_models"),
	LK_RULE("init_kl_coef"),
	LK_RULE("vllm_num_engines"),
	LK_RULE("critic_num_nodes"),
	LK_RULE("critic_num_gpus_per_node"),
	LK_RULE("deepspeed_enable_sleep"),
	LK_RULE("ref_reward_offload"),
	LK_FACT("micro_train_batch_size", "mbs"),
	LK_FACT("train_batch_size", "gbs"),
	LK_FACT("max_len", "seq"),
	LK_FACT("bf16", "bf16"),
	LK_FACT("param_dtype", "format"),
	LK_WORDS("grad_accum_dtype", "fp32_grads", lk_pairs_reduced),
	LK_FACT("zero_stage", "zero"),
	LK_FACT("adam_offload", "offload_optimizer"),
	LK_FACT("gradient_checkpointing", "recompute_text"),
	LK_FACT("attn_implementation", "attention_name"),
	LK_WORDS("flash_attn", "attention_name", flash),
	LK_FACT("ring_attn_size", "cp"),
	LK_FACT("ds_tensor_parallel_size", "tp"),
	LK_FACT("lora_rank", "lora_rank"),
	LK_FACT("load_in_4bit", "narrow_base"),
	LK_WORDS("use_liger_kernel", "eager", lk_pairs_fuses),
	LK_WORDS("packing_samples", "rollout_padded", lk_pairs_opposite),
	LK_FACT("actor_num_nodes", "nodes"),
	LK_FACT("actor_num_gpus_per_node", "per_node"),
	LK_FACT("rollout_batch_size", "rollout_prompts"),
	LK_FACT("n_samples_per_prompt", "rollout_samples"),
	LK_FACT("max_epochs", "rollout_epochs"),
	LK_FACT("prompt_max_len", "rollout_prompt"),
	LK_FACT("generate_max_len", "rollout_response"),
	LK_FACT("vllm_tensor_parallel_size", "rollout_tp"),
	LK_FACT("vllm_gpu_memory_utilization", "rollout_memory"),
	LK_FACT("enforce_eager", "rollout_eager"),
	LK_WORDS("vllm_enable_sleep", "rollout_no_sleep", lk_pairs_opposite),
	LK_WORDS("enable_prefix_caching", "rollout_no_prefix_caching", lk_pairs_opposite),
	LK_FACT("critic_pretrain", "rollout_critic"),
	LK_FACT("reward_pretrain", "rollout_reward_model"),
	LK_NOTE("dynamic_filtering", "no generated sequence is discarded (--rollout oversample=)"),
	LK_NOTE("use_dynamic_batch", "micro-batches have the stated number of sequences"),
	LK_SKIP("vllm_sync_backend vllm_sync_with_ray vllm_seed vllm_is_truncated_threshold "
            "vllm_enable_chunked_prefill vllm_max_num_batched_tokens",
            "how engines are started changes no phase"),
	LK_SKIP("ref_num_nodes ref_num_gpus_per_node reward_num_nodes reward_num_gpus_per_node "
            "colocate_actor_ref colocate_critic_reward",
            "the reference and the reward model run on the GPUs that train"),
	LK_SKIP("logging_steps use_wandb wandb_* use_tensorboard use_mlflow", LK_WHY_LOGGING),
	LK_SKIP("num_episodes max_samples", LK_WHY_LENGTH),
	LK_SKIP("eval_* prompt_data prompt_data_probs prompt_split dataset dataset_* input_key "
            "output_key label_key image_key chosen_key rejected_key input_template "
            "apply_chat_template tokenizer_chat_template multiturn pretrain_data "
            "pretrain_data_probs pretrain_mode train_split disable_fast_tokenizer "
            "max_images_per_prompt",
            LK_WHY_DATA),
	LK_SKIP("save_* ckpt_path load_checkpoint disable_ds_ckpt max_ckpt_num max_ckpt_mem "
            "use_ds_universal_ckpt",
            LK_WHY_SAVING),
	LK_SKIP("learning_rate actor_learning_rate critic_learning_rate lr_scheduler lr_warmup_ratio "
            "lr_warmup_steps l2 adam_betas max_norm",
            LK_WHY_RATE),
	LK_SKIP("seed full_determinism aux_loss_coef ptx_coef entropy_loss_coef eps_clip "
            "eps_clip_low_high dual_clip value_clip lambd gamma policy_loss_type beta ipo "
            "label_smoothing nll_loss_coef kl_target kl_horizon kl_estimator use_kl_loss "
            "normalize_reward reward_clip_range overlong_buffer_len overlong_penalty_factor "
            "stop_properly_penalty_coef no_advantage_std_norm enable_vllm_is_correction use_ms "
            "temperature top_p value_head_prefix lora_alpha lora_dropout",
            LK_WHY_NUMBERS),
	LK_SKIP("local_rank overlap_comm remote_rm_url agent_func_path micro_rollout_batch_size "
            "gradient_checkpointing_use_reentrant ring_head_stride freezing_actor_steps "
            "master_addr master_port",
            LK_WHY_START),
	LK_SKIP("target_modules", "adapters are priced as LoRA of all linear layers"),
	LK_NOTE("zpg", "partitions of ZeRO++ are not modelled"),
	LK_SKIP("train_max_tokens_per_gpu rollout_max_tokens_per_gpu dynamic_filtering_reward_range "
            "dynamic_filtering_range",
            "see use_dynamic_batch and dynamic_filtering"),
	LK_NOTE("freeze_visual_encoder partial_rollout deepcompile", "it is not read"),
	LK_KEYS_END};

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
	static const lk_key *const tables[] = {keys, NULL};
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
