/* keys_trainer.c: arguments of HuggingFace's Trainer in a file, alone, with TRL's (SFTConfig,
 * DPOConfig), and with LLaMA-Factory's v0 (src/llamafactory/hparams).
 *
 *     global batch = per_device_train_batch_size * gradient_accumulation_steps * dp
 * LLaMA-Factory checkpoints activations unless told otherwise, and trains LoRA of rank 8; its keys
 * of Megatron-Core (USE_MCA) lay the job out as Megatron-LM does. */
#include <math.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"
#include "launch/config.h"

static const lk_pair flash[] = {
	{"fa2", "flash"}, {"fa3", "flash3"}, {"disabled", "eager"}, {NULL, NULL}};
static const lk_pair muon[] = {{"true", "muon"}, {"false", ""}, {NULL, NULL}};
static const lk_pair sharded[] = {{"true", "full_shard"}, {"false", ""}, {NULL, NULL}};
static const lk_pair offloads[] = {{"true", "1"}, {"false", "0"}, {NULL, NULL}};
static const lk_pair mini[] = {{"true", "adam_mini"}, {"false", ""}, {NULL, NULL}};
static const lk_pair stages[] = {{"true", "zero1"}, {"false", "none"}, {NULL, NULL}};

static const lk_key trainer_keys[] = {
	LK_FACT("model_name_or_path", "network_name"),
	LK_FACT("model_name", "network_name"),
	LK_RULE("use_vllm"),
	LK_RULE("vllm_mode"),
	LK_RULE("steps_per_generation"),
	LK_RULE("beta"),
	LK_RULE("pref_loss"),
	LK_RULE("image_max_pixels"),
	LK_RULE("template"),
	LK_FACT("per_device_train_batch_size", "mbs"),
	LK_WORDS("per_gpu_train_batch_size", "mbs", lk_pairs_zero_off),
	LK_FACT("batch_size_training", "mbs"), /* llama-recipes */
	LK_FACT("context_length", "seq"),
	LK_WORDS("enable_fsdp", "fsdp", sharded),
	LK_SKIP("peft_method", "adapters are priced as LoRA"),
	LK_FACT("gradient_accumulation_steps", "accumulation"),
	LK_FACT("bf16", "bf16"),
	LK_FACT("pure_bf16", "bf16"),
	LK_FACT("fp16", "fp16"),
	LK_FACT("fp8", "fp8"),
	LK_FACT("tf32", "tf32"),
	LK_FACT("torch_dtype", "format"),
	LK_FACT("dtype", "format"),
	LK_FACT("optim", "optimizer_name"),
	LK_FACT("gradient_checkpointing", "recompute_text"),
	LK_WORDS("disable_gradient_checkpointing", "recompute_text", lk_pairs_opposite),
	LK_FACT("attn_implementation", "attention_name"),
	LK_WORDS("flash_attn", "attention_name", flash),
	LK_WORDS("use_liger_kernel", "loss", lk_pairs_linear),
	LK_WORDS("use_liger", "loss", lk_pairs_linear),
	LK_WORDS("use_liger_loss", "loss", lk_pairs_linear),
	LK_WORDS("enable_liger_kernel", "loss", lk_pairs_linear),
	LK_FACT("activation_offloading", "host_activations"),
	LK_FACT("torch_compile", "compile"),
	LK_FACT("packing", "packing"),
	LK_FACT("deepspeed", "deepspeed"),
	LK_SKIP("deepspeed.*", "a configuration of DeepSpeed"),
	LK_WORDS("zero_stage", "zero", lk_pairs_stage),
	LK_WORDS("offload", "offload_optimizer", offloads),
	LK_FACT("fsdp", "fsdp"),
	LK_FACT("fsdp_config.sharding_strategy", "sharding_name"),
	LK_FACT("fsdp_config.fsdp_sharding_strategy", "sharding_name"),
	LK_FACT("fsdp_config.activation_checkpointing", "recompute_text"),
	LK_FACT("fsdp_config.fsdp_activation_checkpointing", "recompute_text"),
	LK_FACT("fsdp_config.offload_params", "host_shards"),
	LK_FACT("fsdp_config.fsdp_offload_params", "host_shards"),
	LK_FACT("fsdp_config.cpu_offload", "host_shards"),
	LK_WORDS("fsdp_config.reshard_after_forward", "reshard_off", lk_pairs_opposite),
	LK_WORDS("fsdp_config.fsdp_reshard_after_forward", "reshard_off", lk_pairs_opposite),
	LK_SKIP("fsdp*", "how layers are wrapped and saved: units of one layer are taken"),
	LK_FACT("use_peft", "adapter"),
	LK_FACT("use_lora", "adapter"),
	LK_FACT("lora_rank", "lora_rank"),
	LK_FACT("lora_r", "lora_rank"),
	LK_FACT("lora_dim", "lora_rank"),
	LK_FACT("load_in_4bit", "narrow_base"),
	LK_FACT("use_dora", "dora"),
	LK_FACT("load_in_8bit", "quantized"),
	LK_FACT("quantization_bit", "quantization_bits"),
	LK_SKIP("quantization_*", "see quantization_bit"),
	LK_FACT("max_length", "seq"),
	LK_FACT("model_max_length", "seq"),
	LK_FACT("max_seq_len", "seq"),
	LK_FACT("max_seq_length", "seq"),
	LK_WORDS("block_size", "seq", lk_pairs_zero_off),
	LK_FACT("cutoff_len", "seq"),
	LK_FACT("finetuning_type", "method"),
	LK_FACT("stage", "stage"),
	LK_FACT("ray_num_workers", "gpus"),
	LK_FACT("parallelism_config.tp_size", "tp"),
	LK_FACT("parallelism_config.cp_size", "cp"),
	LK_FACT("parallelism_config.sp_size", "cp"),
	LK_FACT("parallelism_config.dp_shard_size", "dp_shard"),
	LK_FACT("parallelism_config.dp_replicate_size", "dp_replicate"),
	LK_SKIP("parallelism_config*", "see the degrees"),
	LK_REFUSE("use_kt", "experts that the host computes (KTransformers) are not modelled"),
	LK_SKIP("kt_*", "see use_kt"),
	LK_NOTE("use_unsloth", "Unsloth's kernels are priced as Liger's"),
	LK_NOTE("shift_attn", "attention in shifted groups is priced as attention to all tokens"),
	LK_NOTE("additional_target", "whole modules in addition to the adapters are not priced as "
                                 "trained"),
	LK_NOTE("modules_to_save", "whole modules in addition to the adapters are not priced as "
                               "trained"),
	LK_NOTE("optim_target_modules", "the optimizer is priced as one of all weights"),
	LK_NOTE("auto_find_batch_size", "the batch is the stated one, which the Trainer may halve"),
	LK_NOTE("precompute_ref_log_probs", "the reference runs in every step here"),
	LK_FACT("num_generations", "rollout_samples"),
	LK_FACT("generation_batch_size", "rollout_sequences"),
	LK_FACT("max_prompt_length", "rollout_prompt"),
	LK_FACT("max_completion_length", "rollout_response"),
	LK_FACT("num_iterations", "rollout_epochs"),
	LK_FACT("vllm_gpu_memory_utilization", "rollout_memory"),
	LK_FACT("vllm_tensor_parallel_size", "rollout_tp"),
	LK_WORDS("vllm_enable_sleep_mode", "rollout_no_sleep", lk_pairs_opposite),
	LK_SKIP("vllm_*", "how the engine is reached changes no phase"),
	LK_SKIP("temperature", LK_WHY_NUMBERS),
	LK_SKIP("top_*", LK_WHY_NUMBERS),
	LK_SKIP("reward_*", LK_WHY_NUMBERS),
	LK_SKIP("scale_rewards", LK_WHY_NUMBERS),
	LK_SKIP("epsilon*", LK_WHY_RATE),
	LK_SKIP("log_completions", LK_WHY_LOGGING),
	LK_REFUSE("do_predict", "it generates, and trains nothing"),
	LK_REFUSE("export_*", "it converts a checkpoint, and trains nothing"),
	LK_WORDS("use_muon", "optimizer_name", muon),
	LK_WORDS("use_adam_mini", "optimizer_name", mini),
	LK_NOTE("use_galore", "the optimizer's projections are not modelled"),
	LK_NOTE("use_apollo", "the optimizer's projections are not modelled"),
	LK_NOTE("use_badam", "BAdam trains one block of layers at a time: gradients and states of all "
                         "are priced, which is more"),
	LK_NOTE("mixture_of_depths", "every token passes every layer"),
	LK_NOTE("use_llama_pro", "added layers are not modelled"),
	LK_NOTE("freeze_trainable_layers", "all weights are priced as trained"),
	LK_SKIP("galore_*", "see use_galore"),
	LK_SKIP("apollo_*", "see use_apollo"),
	LK_SKIP("badam_*", "see use_badam"),
	LK_FACT("freeze_vision_tower", "freeze_tower"),
	LK_SKIP("freeze_*", "all weights of the text tower are priced as trained"),
	LK_SKIP("lora_target*", "adapters are priced on all linear layers"),
	LK_SKIP("lora* loraplus_*", "how adapters are computed and scaled changes no shape"),
	LK_SKIP("pissa_*", LK_WHY_START),
	LK_SKIP("oft_*", "see finetuning_type"),
	LK_SKIP("pref_*", LK_WHY_RATE),
	LK_SKIP("*_loss", LK_WHY_NUMBERS),
	LK_SKIP("asft_*", LK_WHY_RATE),
	LK_SKIP("kto_*", LK_WHY_RATE),
	LK_SKIP("dpo_*", LK_WHY_RATE),
	LK_SKIP("fp8_*", "see fp8"),
	LK_SKIP("image_*", "sizes of images: --image-size, --images"),
	LK_SKIP("video_*", "sizes of images: --image-size, --images"),
	LK_SKIP("audio_*", "audio is not priced"),
	LK_SKIP("do_train", "it trains"),
	LK_SKIP("use_mca", "the degrees of Megatron-Core say it"),
	LK_NOTE("use_v1_kernels", "fusion of single kernels is not modelled"),
	LK_SKIP("do_eval", LK_WHY_EVAL),
	LK_SKIP("eval* evaluation_strategy", LK_WHY_EVAL),
	LK_SKIP("val_size", LK_WHY_EVAL),
	LK_SKIP("per_device_eval_batch_size", LK_WHY_EVAL),
	LK_SKIP("predict_with_generate", LK_WHY_EVAL),
	LK_SKIP("dataset*", LK_WHY_DATA),
	LK_SKIP("data* dataloader_*", LK_WHY_DATA),
	LK_SKIP("max_samples", LK_WHY_DATA),
	LK_SKIP("overwrite_*", LK_WHY_DATA),
	LK_SKIP("preprocessing_*", LK_WHY_DATA),
	LK_SKIP("tokenize* tokenized_path tokenizer*", LK_WHY_DATA),
	LK_SKIP("neat_packing", LK_WHY_DATA),
	LK_SKIP("mask_history", LK_WHY_DATA),
	LK_SKIP("train_on_prompt", LK_WHY_DATA),
	LK_SKIP("streaming", LK_WHY_DATA),
	LK_SKIP("buffer_size", LK_WHY_DATA),
	LK_SKIP("media_dir", LK_WHY_DATA),
	LK_SKIP("remove_unused_columns", LK_WHY_DATA),
	LK_SKIP("group_by_length", LK_WHY_DATA),
	LK_SKIP("output_dir", LK_WHY_SAVING),
	LK_SKIP("save*", LK_WHY_SAVING),
	LK_SKIP("hub_*", LK_WHY_SAVING),
	LK_SKIP("push_to_hub", LK_WHY_SAVING),
	LK_SKIP("resume_from_checkpoint", LK_WHY_SAVING),
	LK_SKIP("adapter_name_or_path", LK_WHY_START),
	LK_SKIP("logging*", LK_WHY_LOGGING),
	LK_SKIP("report_to", LK_WHY_LOGGING),
	LK_SKIP("run_name", LK_WHY_LOGGING),
	LK_SKIP("plot_loss", LK_WHY_LOGGING),
	LK_SKIP("log_level*", LK_WHY_LOGGING),
	LK_SKIP("include_num_input_tokens_seen", LK_WHY_LOGGING),
	LK_SKIP("learning_rate", LK_WHY_RATE),
	LK_SKIP("lr_*", LK_WHY_RATE),
	LK_SKIP("adam_*", LK_WHY_RATE),
	LK_SKIP("warmup*", LK_WHY_RATE),
	LK_SKIP("weight_decay", LK_WHY_RATE),
	LK_SKIP("max_grad_norm", LK_WHY_RATE),
	LK_SKIP("num_train_epochs", LK_WHY_LENGTH),
	LK_SKIP("max_steps", LK_WHY_LENGTH),
	LK_SKIP("seed", LK_WHY_NUMBERS),
	LK_SKIP("data_seed", LK_WHY_NUMBERS),
	LK_SKIP("full_determinism", LK_WHY_NUMBERS),
	LK_SKIP("neftune_noise_alpha", LK_WHY_NUMBERS),
	LK_SKIP("label_smoothing*", LK_WHY_NUMBERS),
	LK_SKIP("moe_aux_loss_coef", LK_WHY_NUMBERS),
	LK_SKIP("upcast_layernorm", LK_WHY_NUMBERS),
	LK_SKIP("rope_scaling*", LK_WHY_NUMBERS),
	LK_SKIP("use_rslora", "how adapters are computed and scaled changes no shape"),
	LK_SKIP("create_new_adapter", LK_WHY_START),
	LK_SKIP("train_from_scratch", LK_WHY_START),
	LK_SKIP("torch_compile_*", "see torch_compile"),
	LK_SKIP("optim_args", LK_WHY_RATE),
	LK_SKIP("rpo_alpha", LK_WHY_RATE),
	LK_SKIP("reference_free", "see loss_type"),
	LK_SKIP("ref_model*", "the reference is priced as the network itself"),
	LK_SKIP("padding_free", LK_WHY_DATA),
	LK_SKIP("pad_to*", LK_WHY_DATA),
	LK_SKIP("completion_only_loss", LK_WHY_DATA),
	LK_SKIP("assistant_only_loss", LK_WHY_DATA),
	LK_SKIP("truncation_mode", LK_WHY_DATA),
	LK_SKIP("chat_template*", LK_WHY_DATA),
	LK_SKIP("packing_strategy", LK_WHY_DATA),
	LK_SKIP("mix_strategy", LK_WHY_DATA),
	LK_SKIP("interleave_probs", LK_WHY_DATA),
	LK_SKIP("tool_format", LK_WHY_DATA),
	LK_SKIP("default_system", LK_WHY_DATA),
	LK_SKIP("enable_thinking", LK_WHY_DATA),
	LK_SKIP("disable_shuffling", LK_WHY_DATA),
	LK_SKIP("ignore_pad_token_for_loss", LK_WHY_DATA),
	LK_SKIP("length_column_name", LK_WHY_DATA),
	LK_SKIP("label_names", LK_WHY_DATA),
	LK_SKIP("use_fast_tokenizer", LK_WHY_DATA),
	LK_SKIP("split_special_tokens", LK_WHY_DATA),
	LK_SKIP("add_tokens", LK_WHY_DATA),
	LK_SKIP("add_special_tokens", LK_WHY_DATA),
	LK_SKIP("eos_token", LK_WHY_DATA),
	LK_SKIP("pad_token", LK_WHY_DATA),
	LK_SKIP("load_best_model_at_end", LK_WHY_SAVING),
	LK_SKIP("metric_for_best_model", LK_WHY_EVAL),
	LK_SKIP("greater_is_better", LK_WHY_EVAL),
	LK_SKIP("compute_accuracy", LK_WHY_EVAL),
	LK_SKIP("ignore_data_skip", LK_WHY_START),
	LK_SKIP("early_stopping*", LK_WHY_LENGTH),
	LK_SKIP("include_*", LK_WHY_LOGGING),
	LK_SKIP("print_param_status", LK_WHY_LOGGING),
	LK_SKIP("disable_tqdm", LK_WHY_LOGGING),
	LK_SKIP("use_swanlab", LK_WHY_LOGGING),
	LK_SKIP("swanlab_*", LK_WHY_LOGGING),
	LK_SKIP("wandb_*", LK_WHY_LOGGING),
	LK_SKIP("trackio_*", LK_WHY_LOGGING),
	LK_SKIP("cache_dir", LK_WHY_START),
	LK_SKIP("model_revision", LK_WHY_START),
	LK_SKIP("low_cpu_mem_usage", LK_WHY_START),
	LK_SKIP("*_hub_token", LK_WHY_START),
	LK_SKIP("infer_*", LK_WHY_EVAL),
	LK_SKIP("use_kv_cache", LK_WHY_EVAL),
	LK_SKIP("accelerator_config*", "the accumulation is stated"),
	LK_SKIP("half_precision_backend", LK_WHY_NUMBERS),
	LK_SKIP("local_rank", LK_WHY_START),
	LK_SKIP("torch_empty_cache_steps", LK_WHY_START),
	LK_SKIP("average_tokens_across_devices", LK_WHY_NUMBERS),
	LK_SKIP("skip_memory_metrics", LK_WHY_LOGGING),
	LK_SKIP("ddp_*", LK_WHY_START),
	LK_SKIP("ray_*", LK_WHY_START),
	LK_SKIP("trust_remote_code", LK_WHY_START),
	LK_SKIP("gradient_checkpointing_kwargs*", "how checkpointing is done changes no work"),
	LK_SKIP("use_reentrant_gc", "how checkpointing is done changes no work"),
	LK_SKIP("use_unsloth*", "how checkpointing is done changes no work"),
	LK_KEYS_END};

static const lk_key mca_keys[] = {
	LK_FACT("tensor_model_parallel_size", "tp"),
	LK_FACT("pipeline_model_parallel_size", "pp"),
	LK_FACT("virtual_pipeline_model_parallel_size", "vp"),
	LK_FACT("context_parallel_size", "cp"),
	LK_FACT("expert_model_parallel_size", "ep"),
	LK_FACT("expert_tensor_parallel_size", "etp"),
	LK_FACT("sequence_parallel", "sequence_parallel"),
	LK_WORDS("use_distributed_optimizer", "sharding", stages),
	LK_FACT("overlap_param_gather", "overlap_param_gather"),
	LK_FACT("overlap_grad_reduce", "overlap_grad_reduce"),
	LK_FACT("moe_grouped_gemm", "grouped_gemm"),
	LK_WORDS("moe_token_dispatcher_type", "dispatcher", lk_pairs_dispatcher),
	LK_FACT("recompute_granularity", "recompute_text"),
	LK_SKIP("recompute_*", "every layer is counted as recomputed"),
	LK_SKIP("bias_activation_fusion", "fusion of single kernels is not modelled"),
	LK_SKIP("apply_rope_fusion", "fusion of single kernels is not modelled"),
	LK_KEYS_END};

static bool factory_is(const lk_value *root) {
	return lk_config_at(root, "model_name_or_path") &&
	       (lk_config_at(root, "finetuning_type") || lk_config_at(root, "cutoff_len") ||
	        lk_config_at(root, "stage") || lk_config_at(root, "template"));
}

static bool trainer_is(const lk_value *root) {
	return lk_config_at(root, "model_name_or_path") != NULL ||
	       lk_config_at(root, "per_device_train_batch_size") != NULL;
}

/* Norms, activations and rotary positions of Liger and of Unsloth are one kernel each. */
static bool trainer_fuses(const lk_config *config) {
	return lk_config_any_on(config->root, "use_liger_kernel use_liger enable_liger_kernel "
	                                      "use_unsloth");
}

static lk_status trainer_common(const lk_config *config, lk_draft *draft) {
	static const lk_key *const tables[] = {trainer_keys, mca_keys, NULL};
	bool trainer = lk_config_at(config->root, "model_name_or_path") != NULL;
	LK_TRY(lk_draft_read(config, tables, draft));
	if (trainer_fuses(config)) draft->job.eager = LK_OFF;
	if (draft->job.mbs == 0 && trainer) {
		draft->job.mbs = 8;
		LK_TRY(lk_launch_assume(config->reading, "micro-batch 8: the Trainer's default (--mbs)"));
	}
	if (draft->accumulation == 0 && draft->job.mbs > 0) draft->accumulation = 1;
	return LK_OK;
}

/* Samples hold images where the file limits their size or names a set that has some; the encoder is
 * then frozen by default. */
static void factory_images(const lk_config *config, lk_draft *draft) {
	const char *set = lk_config_text(lk_config_at(config->root, "dataset"));
	bool images =
		lk_config_at(config->root, "image_max_pixels") || (set && strstr(set, "mllm") != NULL);
	config->reading->out->samples = images ? LK_SAMPLES_IMAGES : LK_SAMPLES_TEXTS;
	if (images && !lk_config_at(config->root, "freeze_vision_tower"))
		draft->job.freeze_tower = true;
}

static lk_status factory_finish(const lk_config *config, lk_draft *given) {
	lk_draft draft = *given;
	LK_TRY(trainer_common(config, &draft));
	if (strcmp(draft.stage, "rm") == 0 || strcmp(draft.stage, "ppo") == 0)
		return lk_config_fail(config, "stage", "reward models and their use are not modelled",
		                      "pt, sft, dpo and kto can be predicted");
	if (strcmp(draft.stage, "kto") == 0)
		LK_TRY(lk_launch_note(config->reading, "stage",
		                      "kto is priced as sft, without the reference model"));
	if (strcmp(draft.stage, "dpo") == 0) draft.pairs = true;
	bool logits = *draft.stage && strcmp(draft.stage, "pt") != 0 && strcmp(draft.stage, "sft") != 0;
	if (logits && draft.job.loss == LK_LOSS_LINEAR) { /* liger_kernel.py, require_logits */
		draft.job.loss = LK_LOSS_LOGITS;
		draft.job.fused_cross_entropy = LK_ON;
	}
	/* nothing of what is trained is in fp32; DeepSpeed's optimizers have masters and moments in
	 * fp32, whatever the format of the weights */
	if (lk_config_on(config->root, "pure_bf16") && !*draft.deepspeed &&
	    strcmp(draft.job.stack, "deepspeed") != 0) {
		draft.job.master_weights = LK_OFF;
		draft.job.state_dtype = LK_BF16;
	}
	const char *loss = lk_config_text(lk_config_at(config->root, "pref_loss"));
	bool alone = loss && (strcmp(loss, "orpo") == 0 || strcmp(loss, "simpo") == 0);
	draft.job.dpo = draft.pairs && !alone;
	factory_images(config, &draft);
	if (strcmp(draft.method, "oft") == 0)
		LK_TRY(lk_launch_note(config->reading, "finetuning_type", "oft is priced as LoRA"));
	bool full = strcmp(draft.method, "full") == 0 || strcmp(draft.method, "freeze") == 0;
	if (full) draft.job.lora_rank = 0;
	else {
		draft.adapter = true;
		if (draft.job.lora_rank == 0) draft.job.lora_rank = 8;
	}
	if (!*draft.recompute_text) {
		lk_copy(draft.recompute_text, sizeof draft.recompute_text, "true");
		LK_TRY(lk_launch_assume(
			config->reading, "activations are recomputed: LLaMA-Factory's default (--recompute)"));
	}
	if (draft.job.seq == 0) {
		draft.job.seq = 2048;
		LK_TRY(lk_launch_assume(config->reading,
		                        "sequences of 2048 tokens: LLaMA-Factory's default (--seq)"));
	}
	if (draft.job.tp > 1 || draft.job.pp > 1 || draft.job.ep > 1 || draft.job.sharding_said)
		lk_copy(draft.job.stack, sizeof draft.job.stack, "megatron");
	return lk_draft_finish(config, &draft);
}

static lk_status factory_translate(const lk_config *config, lk_words *words) {
	lk_draft draft = {0};
	(void)words;
	LK_TRY(lk_accelerate_read(config, &draft));
	return factory_finish(config, &draft);
}

/* TRL's GRPO (trl/trainer/grpo_config.py): a step has generation_batch_size sequences, else
 * steps_per_generation, else gradient_accumulation_steps, micro-batches of each rank; without a
 * beta there is no reference. A server's GPUs are those of one engine, as no flag says. Nothing of
 * the training goes to the host, and engines that share its GPUs stay there unless they sleep. */
static lk_status trainer_rollout(const lk_config *config, lk_draft *draft) {
	lk_launch_rollout *rollout = &draft->rollout;
	const char *mode = lk_config_text(lk_config_at(config->root, "vllm_mode"));
	const lk_value *beta = lk_config_at(config->root, "beta");
	lk_copy(rollout->task, sizeof rollout->task, "grpo");
	rollout->padded = true;
	rollout->keep_params = rollout->keep_optimizer = rollout->keep_reference = true;
	if (!lk_config_at(config->root, "vllm_enable_sleep_mode")) rollout->no_sleep = true;
	rollout->no_reference = !(beta && beta->kind == LK_JSON_NUMBER && beta->number > 0);
	if (rollout->samples == 0) rollout->samples = 8;
	if (!(rollout->response_most > 0)) rollout->response_most = 256;
	if (!(rollout->memory_share > 0)) rollout->memory_share = 0.3;
	double prompt = rollout->prompt_most > 0 ? rollout->prompt_most : 512;
	if (draft->job.seq == 0) draft->job.seq = (int)fmin(1e7, prompt + rollout->response_most);
	if (!lk_config_on(config->root, "use_vllm"))
		return lk_launch_note(config->reading, "use_vllm",
		                      "transformers generate as an engine does, which is faster");
	if (mode && strcmp(mode, "colocate") == 0) return LK_OK;
	rollout->engines = 1;
	rollout->memory_share = 0.9;
	return lk_launch_assume(config->reading, "the server that generates has one engine (--rollout "
	                                         "gpus=)");
}

/* The batches of a step, once the GPUs are known. */
static lk_status trainer_batches(const lk_config *config, lk_draft *draft) {
	lk_job *job = config->reading->out->job;
	int gpus = config->reading->out->gpus > 0 ? config->reading->out->gpus
	                                          : config->reading->out->gpus_assumed;
	const lk_value *steps = lk_config_at(config->root, "steps_per_generation");
	double each = (double)job->mbs * (gpus > 0 ? gpus : 1);
	double written = draft->accumulation;
	if (steps && steps->kind == LK_JSON_NUMBER && steps->number >= 1) written = steps->number;
	job->gbs = (int)fmin(1e7, each * draft->accumulation);
	job->microbatches = 0;
	if (draft->rollout.sequences == 0)
		draft->rollout.sequences = (int)fmin(1e7, each * fmax(1, written));
	if (job->gbs > draft->rollout.sequences) job->gbs = draft->rollout.sequences;
	return lk_draft_rollout(config, draft);
}

static lk_status trainer_finish(const lk_config *config, lk_draft *given, bool trl) {
	lk_draft draft = *given;
	LK_TRY(trainer_common(config, &draft));
	bool rolls = *draft.rollout.task || lk_config_at(config->root, "num_generations") ||
	             (lk_config_at(config->root, "max_completion_length") && !draft.pairs);
	if (rolls) LK_TRY(trainer_rollout(config, &draft));
	if (trl) { /* TRL's defaults differ from the Trainer's */
		if (!lk_config_at(config->root, "bf16") && !draft.fp16) draft.bf16 = true;
		if (!*draft.recompute_text)
			lk_copy(draft.recompute_text, sizeof draft.recompute_text, "true");
		if (draft.job.seq == 0) draft.job.seq = 1024;
		if (!draft.adapter) draft.job.lora_rank = 0;
		else if (draft.job.lora_rank == 0) draft.job.lora_rank = 16;
		LK_TRY(lk_launch_assume(config->reading,
		                        "TRL's defaults where nothing is stated: bf16, activations "
		                        "recomputed, 1024 tokens"));
	}
	LK_TRY(lk_draft_finish(config, &draft));
	return rolls ? trainer_batches(config, &draft) : LK_OK;
}

static lk_status trainer_translate(const lk_config *config, lk_words *words) {
	lk_draft draft = {0};
	(void)words;
	LK_TRY(lk_accelerate_read(config, &draft));
	bool trl = lk_config_at(config->root, "max_length") || lk_config_at(config->root, "use_peft") ||
	           lk_config_at(config->root, "dataset_name") ||
	           lk_config_at(config->root, "num_generations");
	return trainer_finish(config, &draft, trl);
}

const lk_framework lk_framework_llama_factory = {"llama-factory", factory_is, NULL,
                                                 factory_translate};
const lk_framework lk_framework_trainer = {"trainer", trainer_is, NULL, trainer_translate};

/* ---- the same keys as flags of a launch line */

bool lk_trainer_states(const char *key) {
	for (const lk_key *row = trainer_keys; row->path; row++)
		if (strcmp(row->path, key) == 0) return row->kind == LK_KEY_FACT;
	return false;
}

/* TRL's programs: trl sft, trl/scripts/sft.py. Those that train otherwise are refused. */
static lk_status trainer_program(const lk_config *config, const char *program, lk_draft *draft,
                                 bool *trl) {
	static const char *const pairs[] = {"dpo.py", "cpo.py", "orpo.py"};
	static const char *const others[] = {"kto.py",    "bco.py", "ppo.py",
	                                     "reward.py", "gkd.py", "online_dpo.py"};
	static const char *const rolls[] = {"grpo.py", "rloo.py"};
	*trl = strcmp(program, "trl") == 0 || strcmp(program, "sft.py") == 0;
	for (size_t i = 0; i < sizeof others / sizeof *others; i++)
		if (strcmp(program, others[i]) == 0)
			return lk_config_fail(config, program, "this method's step is more than training",
			                      "sft, dpo and grpo can be predicted");
	for (size_t i = 0; i < sizeof rolls / sizeof *rolls; i++) {
		if (strcmp(program, rolls[i]) != 0) continue;
		*trl = true;
		lk_copy(draft->rollout.task, sizeof draft->rollout.task, "grpo");
	}
	for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
		if (strcmp(program, pairs[i]) != 0) continue;
		*trl = draft->pairs = true;
		draft->job.dpo = strcmp(program, "dpo.py") == 0; /* the others have no reference */
	}
	return LK_OK;
}

lk_status lk_trainer_line(lk_reading *reading, lk_members *settings, const char *program) {
	lk_value root = {.kind = LK_JSON_OBJECT};
	lk_draft draft = {.format_open = true};
	bool trl = false;
	if (!lk_members_end(settings, reading->arena, &root)) return lk_oom(reading->err);
	lk_config config = {.reading = reading, .file = reading->where, .text = "", .root = &root};
	if (program) LK_TRY(trainer_program(&config, program, &draft, &trl));
	LK_TRY(lk_accelerate_read(&config, &draft));
	LK_TRY(lk_config_settle(&config));
	LK_TRY(factory_is(&root) && !trl ? factory_finish(&config, &draft)
	                                 : trainer_finish(&config, &draft, trl));
	/* Whoever asks may lay it out otherwise. */
	lk_job *job = reading->out->job;
	if (job->tp == 1) job->tp = 0;
	if (job->pp == 1) job->pp = 0;
	if (job->cp == 1) job->cp = 0;
	return LK_OK;
}
