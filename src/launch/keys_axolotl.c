/* keys_axolotl.c: axolotl's YAML (axolotl-ai-cloud/axolotl, src/axolotl/utils/schemas).
 *
 *     global batch = micro_batch_size * gradient_accumulation_steps * gpus / (cp tp)
 * An empty adapter trains all weights; with sample_packing a row is sequence_len tokens. */
#include <string.h>
#include <strings.h>

#include "base/text.h"
#include "launch/config.h"

static const lk_pair adapters[] = {{"lora", "1"}, {"qlora", "1"}, {"", "0"}, {NULL, NULL}};
static const lk_pair whole[] = {{"full", "true"}, {NULL, NULL}}; /* evaluation too */
static const lk_pair cut[] = {{"true", "cut"}, {"false", ""}, {NULL, NULL}};
static const lk_pair eager[] = {{"true", "eager"}, {"false", ""}, {NULL, NULL}};
static const lk_pair flash[] = {{"true", "flash"}, {"false", ""}, {NULL, NULL}};
static const lk_pair offloads[] = {
	{"legacy", "1"}, {"disk", "1"}, {"hidden_states", "1"}, {NULL, NULL}};

static const lk_key keys[] = {
	LK_FACT("base_model", "network_name"),
	LK_RULE("rl"),
	LK_RULE("plugins"),
	LK_RULE("processor_type"),
	LK_FACT("sequence_len", "seq"),
	LK_FACT("micro_batch_size", "mbs"),
	LK_FACT("batch_size", "multiple"),
	LK_FACT("gradient_accumulation_steps", "accumulation"),
	LK_WORDS("adapter", "adapter", adapters),
	LK_FACT("lora_r", "lora_rank"),
	LK_FACT("load_in_4bit", "narrow_base"),
	LK_FACT("peft_use_dora", "dora"),
	LK_FACT("load_in_8bit", "quantized"),
	LK_FACT("gptq", "quantized"),
	LK_WORDS("bf16", "bf16", whole),
	LK_FACT("bfloat16", "bf16"),
	LK_WORDS("fp16", "fp16", whole),
	LK_FACT("float16", "fp16"),
	LK_FACT("fp8", "fp8"),
	LK_FACT("tf32", "tf32"),
	LK_FACT("optimizer", "optimizer_name"),
	LK_FACT("gradient_checkpointing", "recompute_text"),
	LK_FACT("activation_checkpointing", "recompute_text"),
	LK_FACT("attn_implementation", "attention_name"),
	LK_WORDS("flash_attention", "attention_name", flash),
	LK_WORDS("eager_attention", "attention_name", eager),
	LK_SKIP("sdp_attention", "PyTorch's fused attention is the default"),
	LK_SKIP("xformers_attention", "it is priced as PyTorch's fused attention"),
	LK_SKIP("flex_attn*", "it is priced as PyTorch's fused attention"),
	LK_NOTE("flex_attention", "it is priced as PyTorch's fused attention"),
	LK_NOTE("sage_attention", "products of attention in 8 bits are priced as 16-bit ones"),
	LK_NOTE("s2_attention", "attention in shifted groups is priced as attention to all tokens"),
	LK_WORDS("flash_attn_cross_entropy", "fused_cross_entropy", lk_pairs_switch),
	LK_SKIP("flash_attn_*", "fusion of single kernels is not modelled"),
	LK_SKIP("unsloth_*", "fusion of single kernels is not modelled"),
	LK_WORDS("use_kernels", "eager", lk_pairs_fuses),
	LK_SKIP("fused_attn_kernel", "fusion of single kernels is not modelled"),
	LK_SKIP("scaling_softmax", LK_WHY_NUMBERS),
	LK_NOTE("use_scattermoe", "experts are priced as PyTorch computes them"),
	LK_NOTE("use_sonicmoe", "experts are priced as PyTorch computes them"),
	LK_NOTE("experts_implementation", "experts are priced as PyTorch computes them"),
	LK_SKIP("llama4_linearized_experts", "how experts are stored changes no work"),
	LK_NOTE("deepcompile", "DeepCompile is not modelled"),
	LK_NOTE("use_pose", "sequences are taken at full length"),
	LK_NOTE("batch_flattening", "a micro-batch is taken as full sequences"),
	LK_NOTE("fp8_enable_fsdp_float8_all_gather", "parameters are gathered in 16 bits"),
	LK_FACT("ray_num_workers", "gpus"),
	LK_FACT("world_size", "gpus"),
	LK_SKIP("ray_*", LK_WHY_START),
	LK_SKIP("use_ray", LK_WHY_START),
	LK_SKIP("resources_per_worker*", LK_WHY_START),
	LK_SKIP("torch_compile_*", "see torch_compile"),
	LK_SKIP("chunked_cross_entropy_num_chunks", "see chunked_cross_entropy"),
	LK_SKIP("heads_k_stride", "how rings of attention take their heads"),
	LK_SKIP("ring_attn_func", "context parallelism is modelled as a ring"),
	LK_SKIP("resize_token_embeddings_to_32x", "the vocabulary is that of the network"),
	LK_SKIP("neftune_noise_alpha", LK_WHY_NUMBERS),
	LK_SKIP("float32", "see bf16 and fp16"),
	LK_SKIP("simpo_*", "see rl"),
	LK_SKIP("cpo_*", "see rl"),
	LK_SKIP("rpo_*", "see rl"),
	LK_SKIP("excess_length_strategy", LK_WHY_DATA),
	LK_SKIP("min_sample_len", LK_WHY_DATA),
	LK_SKIP("curriculum_sampling", LK_WHY_DATA),
	LK_SKIP("multipack_*", LK_WHY_DATA),
	LK_SKIP("pretrain_multipack*", LK_WHY_DATA),
	LK_SKIP("tokens.*", LK_WHY_DATA),
	LK_SKIP("default_system_message", LK_WHY_DATA),
	LK_SKIP("do_causal_lm_eval", LK_WHY_EVAL),
	LK_SKIP("use_otel_metrics", LK_WHY_LOGGING),
	LK_SKIP("otel_*", LK_WHY_LOGGING),
	LK_SKIP("use_swanlab", LK_WHY_LOGGING),
	LK_SKIP("gc_steps", LK_WHY_START),
	LK_SKIP("device_map", LK_WHY_START),
	LK_SKIP("max_memory*", LK_WHY_START),
	LK_SKIP("gpu_memory_limit", LK_WHY_START),
	LK_SKIP("local_rank", LK_WHY_START),
	LK_SKIP("experimental_skip_move_to_device", LK_WHY_START),
	LK_SKIP("reinit_weights", LK_WHY_START),
	LK_SKIP("load_best_model_at_end", LK_WHY_SAVING),
	LK_SKIP("metric_for_best_model", LK_WHY_EVAL),
	LK_SKIP("greater_is_better", LK_WHY_EVAL),
	LK_WORDS("liger_fused_linear_cross_entropy", "loss", lk_pairs_linear),
	LK_WORDS("liger_cross_entropy", "fused_cross_entropy", lk_pairs_switch),
	LK_WORDS("cut_cross_entropy", "loss", cut),
	LK_WORDS("chunked_cross_entropy", "fused_cross_entropy", lk_pairs_switch),
	LK_WORDS("unsloth_cross_entropy_loss", "fused_cross_entropy", lk_pairs_switch),
	LK_FACT("torch_compile", "compile"),
	LK_FACT("sample_packing", "packing"),
	LK_FACT("tensor_parallel_size", "tp"),
	LK_FACT("context_parallel_size", "cp"),
	LK_FACT("sequence_parallel_degree", "cp"),
	LK_FACT("expert_parallel_size", "ep"),
	LK_FACT("dp_shard_size", "dp_shard"),
	LK_FACT("dp_replicate_size", "dp_replicate"),
	LK_FACT("gpu_count", "gpus"),
	LK_FACT("deepspeed", "deepspeed"),
	LK_SKIP("deepspeed.*", "a configuration of DeepSpeed"),
	LK_FACT("fsdp", "fsdp"),
	LK_FACT("fsdp_config.sharding_strategy", "sharding_name"),
	LK_FACT("fsdp_config.fsdp_sharding_strategy", "sharding_name"),
	LK_WORDS("fsdp_config.reshard_after_forward", "reshard_off", lk_pairs_opposite),
	LK_WORDS("fsdp_config.fsdp_reshard_after_forward", "reshard_off", lk_pairs_opposite),
	LK_FACT("fsdp_config.offload_params", "host_shards"),
	LK_FACT("fsdp_config.fsdp_offload_params", "host_shards"),
	LK_FACT("fsdp_config.activation_checkpointing", "recompute_text"),
	LK_FACT("fsdp_config.fsdp_activation_checkpointing", "recompute_text"),
	LK_SKIP("fsdp_config*", "how layers are wrapped and saved: units of one layer are taken"),
	LK_SKIP("fsdp_version", "both versions shard alike"),
	LK_SKIP("fsdp_final_state_dict_type", LK_WHY_SAVING),
	LK_REFUSE("reward_model", "a reward model is trained, whose head is not modelled"),
	LK_REFUSE("process_reward_model", "a reward model is trained, whose head is not modelled"),
	LK_REFUSE("num_labels", "a classifier is trained, whose head is not modelled"),
	LK_REFUSE("diffusion*", "diffusion of texts is not modelled"),
	LK_SKIP("quantization*", "checkpoints are quantized after training"),
	LK_NOTE("tensor_parallel", "what it chooses is not known: 1 is taken (--tp)"),
	LK_SKIP("kd_*", "the teacher's scores come with the data"),
	LK_NOTE("qat*", "quantization-aware training is priced as training in the number format"),
	LK_NOTE("relora*", "restarts of the adapters are not modelled"),
	LK_NOTE("unfrozen_parameters", "all weights are priced as trained"),
	LK_NOTE("lora_target_modules", "adapters are priced on all linear layers"),
	LK_NOTE("lora_target_parameters", "adapters are priced on all linear layers"),
	LK_SKIP("lora_target_linear", "adapters are priced on all linear layers"),
	LK_NOTE("lora_modules_to_save",
            "whole modules in addition to the adapters are not priced as trained"),
	LK_WORDS("activation_offloading", "host_activations", offloads),
	LK_NOTE("tiled_mlp", "MLPs are priced over whole sequences: in tiles they keep less for the "
                         "backward pass and are computed twice"),
	LK_SKIP("tiled_mlp_*", "see tiled_mlp"),
	LK_NOTE("quantize_moe_experts", "frozen weights are priced as 16-bit ones"),
	LK_NOTE("pad_to_sequence_len", "sequences are taken at full length"),
	LK_SKIP("lora_*", "how adapters are computed and scaled changes no shape"),
	LK_SKIP("peft_*", "how adapters are computed and scaled changes no shape"),
	LK_WORDS("liger_rms_norm", "eager", lk_pairs_fuses),
	LK_SKIP("liger_*", "norms, activations and positions are fused together or not at all: see "
                       "liger_rms_norm"),
	LK_SKIP("ebft*", "see rl"),
	LK_SKIP("trl*", "see rl"),
	LK_SKIP("kto_*", "see rl"),
	LK_SKIP("dpo_*", "see rl"),
	LK_SKIP("orpo_*", "see rl"),
	LK_SKIP("rl*", "see rl"),
	LK_SKIP("gptq_*", "see load_in_4bit"),
	LK_SKIP("model_quantization_config*", "see load_in_4bit"),
	LK_SKIP("*datasets", LK_WHY_DATA),
	LK_SKIP("dataset*", LK_WHY_DATA),
	LK_SKIP("test_datasets*", LK_WHY_DATA),
	LK_SKIP("val_set_size", LK_WHY_EVAL),
	LK_SKIP("output_dir", LK_WHY_SAVING),
	LK_SKIP("hub_*", LK_WHY_SAVING),
	LK_SKIP("push_*", LK_WHY_SAVING),
	LK_SKIP("save* saves_per_epoch", LK_WHY_SAVING),
	LK_SKIP("resume_from_checkpoint", LK_WHY_SAVING),
	LK_SKIP("auto_resume*", LK_WHY_SAVING),
	LK_SKIP("wandb*", LK_WHY_LOGGING),
	LK_SKIP("mlflow*", LK_WHY_LOGGING),
	LK_SKIP("comet*", LK_WHY_LOGGING),
	LK_SKIP("trackio*", LK_WHY_LOGGING),
	LK_SKIP("swanlab*", LK_WHY_LOGGING),
	LK_SKIP("use_wandb", LK_WHY_LOGGING),
	LK_SKIP("use_tensorboard", LK_WHY_LOGGING),
	LK_SKIP("logging*", LK_WHY_LOGGING),
	LK_SKIP("include_tokens_per_second", LK_WHY_LOGGING),
	LK_SKIP("profiler*", LK_WHY_LOGGING),
	LK_SKIP("debug", LK_WHY_LOGGING),
	LK_SKIP("learning_rate", LK_WHY_RATE),
	LK_SKIP("lr_*", LK_WHY_RATE),
	LK_SKIP("lr*", LK_WHY_RATE),
	LK_SKIP("cosine_*", LK_WHY_RATE),
	LK_SKIP("eta_min", LK_WHY_RATE),
	LK_SKIP("adam_*", LK_WHY_RATE),
	LK_SKIP("optim_*", LK_WHY_RATE),
	LK_SKIP("weight_decay", LK_WHY_RATE),
	LK_SKIP("warmup*", LK_WHY_RATE),
	LK_SKIP("max_grad_norm", LK_WHY_RATE),
	LK_SKIP("num_epochs", LK_WHY_LENGTH),
	LK_SKIP("max_steps", LK_WHY_LENGTH),
	LK_SKIP("early_stopping*", LK_WHY_LENGTH),
	LK_SKIP("loss_watchdog*", LK_WHY_LENGTH),
	LK_SKIP("eval* evals_per_epoch", LK_WHY_EVAL),
	LK_SKIP("do_bench_eval", LK_WHY_EVAL),
	LK_SKIP("seed", LK_WHY_NUMBERS),
	LK_SKIP("gradient_checkpointing_kwargs*", "how checkpointing is done changes no work"),
	LK_SKIP("model_type", "the network's name says it"),
	LK_SKIP("tokenizer*", LK_WHY_DATA),
	LK_SKIP("base_model_*", "the network's name says it"),
	LK_SKIP("special_tokens*", LK_WHY_DATA),
	LK_SKIP("tokens", LK_WHY_DATA),
	LK_SKIP("added_tokens*", LK_WHY_DATA),
	LK_SKIP("chat_template*", LK_WHY_DATA),
	LK_SKIP("eot_tokens", LK_WHY_DATA),
	LK_SKIP("train_on_inputs", LK_WHY_DATA),
	LK_SKIP("group_by_length", LK_WHY_DATA),
	LK_SKIP("shuffle*", LK_WHY_DATA),
	LK_SKIP("sample_packing*", LK_WHY_DATA),
	LK_SKIP("skip_prepare_dataset", LK_WHY_DATA),
	LK_SKIP("remove_unused_columns", LK_WHY_DATA),
	LK_SKIP("streaming*", LK_WHY_DATA),
	LK_SKIP("dataloader*", LK_WHY_DATA),
	LK_SKIP("pretraining_dataset*", LK_WHY_DATA),
	LK_SKIP("trust_remote_code", LK_WHY_START),
	LK_SKIP("revision_of_model", LK_WHY_START),
	LK_SKIP("hf_use_auth_token", LK_WHY_START),
	LK_SKIP("low_cpu_mem_usage", LK_WHY_START),
	LK_SKIP("strict", LK_WHY_START),
	LK_SKIP("torchdistx_path", LK_WHY_START),
	LK_SKIP("ddp_*", LK_WHY_START),
	LK_SKIP("accelerator_config*", "the accumulation is stated"),
	LK_KEYS_END};

static bool axolotl_is(const lk_value *root) {
	return lk_config_at(root, "base_model") != NULL &&
	       (lk_config_at(root, "sequence_len") != NULL || lk_config_at(root, "datasets") != NULL);
}

/* What reinforcement and preferences add to a step. */
static lk_status axolotl_method(const lk_config *config, lk_draft *draft) {
	const char *method = lk_config_text(lk_config_at(config->root, "rl"));
	if (!method) return LK_OK;
	static const char *const refused[] = {"kto", "ebft", "grpo", "gdpo", "ppo"};
	for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
		if (strcasecmp(method, refused[i]) == 0)
			return lk_config_fail(config, "rl", "this method's step is more than training",
			                      "dpo, ipo, orpo and simpo can be predicted");
	draft->pairs = true;
	draft->job.dpo = strcasecmp(method, "dpo") == 0 || strcasecmp(method, "ipo") == 0;
	return LK_OK; /* orpo and simpo have no reference */
}

static lk_status axolotl_translate(const lk_config *config, lk_words *words) {
	static const lk_key *const tables[] = {keys, NULL};
	lk_draft draft = {0};
	(void)words;
	LK_TRY(lk_accelerate_read(config, &draft));
	LK_TRY(axolotl_method(config, &draft));
	LK_TRY(lk_draft_read(config, tables, &draft));
	if (draft.job.mbs == 0) draft.job.mbs = 1;
	/* batch_size is that of a rank */
	if (draft.accumulation == 0) draft.accumulation = draft.multiple / draft.job.mbs;
	if (draft.accumulation == 0) draft.accumulation = 1;
	if (!draft.adapter) draft.job.lora_rank = 0;
	if (draft.job.seq == 0) {
		draft.job.seq = 512;
		LK_TRY(lk_launch_assume(config->reading, "sequences of 512 tokens: axolotl's default"));
	}
	bool engine = *draft.deepspeed || lk_config_at(config->root, "deepspeed");
	bool sharded = lk_config_at(config->root, "fsdp") || lk_config_at(config->root, "fsdp_config");
	bool meshed = draft.dp_shard > 1 || draft.job.tp > 1 || draft.job.cp > 1 || draft.job.ep > 1;
	if ((sharded || (meshed && !*draft.deepspeed)) && !*draft.sharding_name && !*draft.fsdp)
		lk_copy(draft.fsdp, sizeof draft.fsdp, "full_shard");
	const lk_value *plugins = lk_config_at(config->root, "plugins");
	for (size_t i = 0; plugins && plugins->kind == LK_JSON_ARRAY && i < plugins->count; i++) {
		const char *name = lk_config_text(&plugins->items[i]);
		if (name && strstr(name, "cut_cross_entropy")) draft.job.loss = LK_LOSS_CUT;
	}
	/* weights are loaded in bf16, which accelerate widens for FSDP, and DeepSpeed for itself */
	if (draft.bf16 && !draft.adapter && !engine && !sharded && !meshed && !*draft.sharding_name &&
	    !*draft.fsdp) {
		draft.job.master_weights = LK_OFF;
		draft.job.state_dtype = LK_BF16;
	}
	if (!draft.packing)
		LK_TRY(lk_launch_assume(config->reading,
		                        "sequences are full: without sample_packing %d tokens are an upper "
		                        "bound (--seq)",
		                        draft.job.seq));
	config->reading->out->samples =
		lk_config_at(config->root, "processor_type") ? LK_SAMPLES_IMAGES : LK_SAMPLES_TEXTS;
	return lk_draft_finish(config, &draft);
}

const lk_framework lk_framework_axolotl = {"axolotl", axolotl_is, NULL, axolotl_translate};
