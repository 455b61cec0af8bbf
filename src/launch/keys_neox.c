/* keys_neox.c: EleutherAI's gpt-neox (megatron/neox_arguments). Keys may be written with '-'.
 *
 *     dp = gpus / (max(pp, 1) tp); batch by DeepSpeed's rule
 *     gated activation: inner width = m ceil(int(2 F / 3) / (2 m)),
 *         F = intermediate_size or 4 h, m = mlp_multiple_of
 *     mlp_type llama (releases before 3): gated, without biases; inner width = intermediate_size or
 *         8 h / 3 up to a multiple of 256
 *     vocabulary: of the tokenizer, to a multiple of make_vocab_size_divisible_by * tp */
#include <math.h>
#include <string.h>
#include <strings.h>

#include "base/arena.h"
#include "base/text.h"
#include "launch/config.h"

static const lk_key keys[] = {
	LK_FACT("num_layers", "layers"),
	LK_RULE("attention_config"),
	LK_RULE("use_bias_in_norms"),
	LK_RULE("use_bias_in_attn_linear"),
	LK_RULE("use_bias_in_mlp"),
	LK_RULE("vocab_file"),
	LK_RULE("mlp_type"),
	LK_RULE("precompute_model_name"),
	LK_FACT("hidden_size", "hidden"),
	LK_FACT("num_attention_heads", "heads"),
	LK_FACT("num_kv_heads", "kv_heads"),
	LK_FACT("intermediate_size", "ffn"),
	LK_FACT("expansion_factor", "expansion"),
	LK_FACT("mlp_multiple_of", "multiple"),
	LK_FACT("seq_length", "seq"),
	LK_FACT("max_position_embeddings", "context"),
	LK_FACT("pos_emb", "positions_name"),
	LK_FACT("rotary_emb_base", "rotary_base"),
	LK_FACT("norm", "norm_name"),
	LK_FACT("activation", "activation"),
	LK_FACT("no_weight_tying", "no_tying"),
	LK_FACT("gpt_j_residual", "parallel_residual"),
	LK_FACT("use_qk_layernorm", "qk_norm"),
	LK_FACT("hidden_dropout", "dropout"),
	LK_FACT("make_vocab_size_divisible_by", "vocab_multiple"),
	LK_FACT("padded_vocab_size", "vocab"),
	LK_FACT("tokenizer_type", "tokenizer"),
	LK_FACT("pipe_parallel_size", "pp"),
	LK_FACT("model_parallel_size", "tp"),
	LK_FACT("context_parallel_size", "cp"),
	LK_FACT("moe_expert_parallel_size", "ep"),
	LK_FACT("moe_num_experts", "experts"),
	LK_FACT("num_experts", "experts"),
	LK_FACT("moe_top_k", "topk"),
	LK_FACT("moe_expert_interval", "moe_every"),
	LK_FACT("sequence_parallel", "sequence_parallel"),
	LK_FACT("num_nodes", "nodes"),
	LK_FACT("num_gpus", "per_node"),
	LK_FACT("train_batch_size", "gbs"),
	LK_FACT("train_micro_batch_size_per_gpu", "mbs"),
	LK_FACT("gradient_accumulation_steps", "accumulation"),
	LK_WORDS("zero_optimization.stage", "zero", lk_pairs_stage),
	LK_WORDS("zero_optimization.overlap_comm", "overlap_grad_reduce", lk_pairs_switch),
	LK_WORDS("zero_optimization.offload_optimizer.device", "offload_optimizer", lk_pairs_host),
	LK_FACT("zero_optimization.cpu_offload", "offload_optimizer"),
	LK_WORDS("zero_optimization.offload_param.device", "host_params", lk_pairs_host),
	LK_SKIP("zero_optimization.allgather_partitions zero_optimization.allgather_bucket_size "
            "zero_optimization.reduce_scatter zero_optimization.reduce_bucket_size "
            "zero_optimization.contiguous_gradients zero_optimization.load_from_fp32_weights "
            "zero_optimization.elastic_checkpoint zero_optimization.sub_group_size "
            "zero_optimization.round_robin_gradients zero_optimization.ignore_unused_parameters "
            "zero_optimization.stage3_* zero_optimization.prefetch_bucket_size "
            "zero_optimization.max_live_parameters zero_optimization.offload_optimizer.* "
            "zero_optimization.offload_param.*",
            "how buckets are cut and copied is not modelled"),
	LK_SKIP("zero_optimization.cpu_offload_params zero_optimization.cpu_offload_use_pin_memory",
            "see offload_param"),
	LK_FACT("precision", "format"),
	LK_FACT("fp16.enabled", "fp16"),
	LK_FACT("bf16.enabled", "bf16"),
	LK_SKIP("fp16.type fp16.fp16 fp16.bf16 fp16.auto_cast fp16.loss_scale fp16.loss_scale_window "
            "fp16.initial_scale_power fp16.hysteresis fp16.min_loss_scale "
            "fp16.consecutive_hysteresis bf16.type bf16.fp16 bf16.bf16 bf16.auto_cast "
            "bf16.loss_scale bf16.loss_scale_window bf16.initial_scale_power bf16.hysteresis "
            "bf16.min_loss_scale bf16.consecutive_hysteresis",
            "loss scaling: does not change the step's work"),
	LK_WORDS("fp32_allreduce", "grad_reduce_fp32", lk_pairs_switch),
	LK_FACT("sliding_window_width", "window"),
	LK_FACT("train_impl", "method"),
	LK_NOTE("num_unique_layers", "every layer is priced with weights of its own"),
	LK_WORDS("data_types.grad_accum_dtype", "fp32_grads", lk_pairs_reduced),
	LK_FACT("optimizer.type", "optimizer_name"),
	LK_FACT("optimizer_type", "optimizer_name"),
	LK_RULE("use_bnb_optimizer"),
	LK_SKIP("optimizer.params.*", LK_WHY_RATE),
	LK_FACT("checkpoint_activations", "recompute_text"),
	LK_SKIP("checkpoint_num_layers", "every layer is counted as recomputed"),
	LK_NOTE("partition_activations", "activations are not split over the tensor-parallel ranks"),
	LK_SKIP("sparsity_config.*", "see attention_config"),
	LK_SKIP("lr lr_* min_lr warmup weight_decay gradient_clipping clip_grad override_lr_scheduler "
            "use_checkpoint_lr_scheduler scheduler.*",
            LK_WHY_RATE),
	LK_SKIP("train_iters train_epochs exit_interval", LK_WHY_LENGTH),
	LK_SKIP("eval_* do_train do_valid do_test char_level_ppl", LK_WHY_EVAL),
	LK_SKIP("train_data_* valid_data_* test_data_* train_label_* valid_label_* test_label_* "
            "train_reward_* valid_reward_* test_reward_* pos_train_* pos_valid_* pos_test_* "
            "neg_train_* neg_valid_* neg_test_* data_path data_impl data_efficiency.* "
            "label_data_paths pack_impl allow_chopped mmap_warmup split num_workers merge_file "
            "weight_by_num_documents weighted_sampler_alpha short_seq_prob eod_mask_loss "
            "curriculum_learning.* curriculum_seqlen reset_position_ids reset_attention_mask "
            "online_dataserver_*",
            LK_WHY_DATA),
	LK_SKIP("save save_* load load_* no_save_* no_load_* checkpoint.* checkpoint_factor "
            "checkpoint_scale checkpoint_validation_with_forward_pass extra_save_iters "
            "keep_last_n_checkpoints s3_* finetune iteration",
            LK_WHY_SAVING),
	LK_SKIP("log_* wandb wandb_* use_wandb comet_* use_comet tensorboard tensorboard_* "
            "csv_monitor.* comms_logger.* flops_profiler.* steps_per_print wall_clock_breakdown "
            "dump_state memory_profiling memory_profiling_path memory_breakdown profile profile_* "
            "gradient_noise_scale_* git_hash deepspeed_extra_args.*",
            LK_WHY_LOGGING),
	LK_SKIP("distributed_backend launcher hostfile include exclude master_addr master_port "
            "force_multi detect_nvlink_pairs no_ssh_check deepspeed deepspeed_mpi deepspeed_slurm "
            "autotuning autotuning_run autotuning.* comment account local_rank rank world_size "
            "global_num_gpus is_pipe_parallel lazy_mpu_init use_shared_fs use_cpu_initialization "
            "init_method init_method_std output_layer_init_method user_script config_files "
            "adlr_autoresume adlr_autoresume_interval onnx_safe deepscale deepscale_config "
            "serve_model_weights weight_server_port elasticity.*",
            LK_WHY_START),
	LK_SKIP("text_gen_type temperature top_p top_k return_logits maximum_tokens prompt_end "
            "sample_input_file sample_output_file num_samples recompute",
            "generation: not part of the step"),
	LK_SKIP("seed rotary_pct rotary_save_freqs_buffer rpe_num_buckets rpe_max_distance "
            "opt_pos_emb_offset layernorm_epsilon rms_norm_epsilon scalenorm_epsilon "
            "attention_dropout attention_softmax_in_fp32 apply_query_key_layer_scaling "
            "fp16_lm_cross_entropy use_mup coord_check save_base_shapes base_shapes_file mup_* "
            "loss_scale loss_scale_window dynamic_loss_scale min_scale hysteresis "
            "prescale_gradients gradient_predivide_factor z_loss dpo_* kto_* moe_lbl_in_fp32 "
            "moe_jitter_eps moe_loss_coeff moe_aux_loss_coeff",
            LK_WHY_NUMBERS),
	LK_SKIP("scaled_upper_triang_masked_softmax_fusion scaled_masked_softmax_fusion "
            "bias_gelu_fusion bias_dropout_fusion rope_fusion layernorm_fusion rmsnorm_fusion "
            "use_flashattn_swiglu mamba_selective_scan_fusion mamba_causal_conv_fusion "
            "mamba_inner_func_fusion mamba_selective_fp32_params",
            "fusion of single kernels is not modelled"),
	LK_SKIP("synchronize_each_layer contiguous_checkpointing cpu_checkpointing checkpoint_in_cpu "
            "profile_backward deepspeed_activation_checkpointing activation_checkpointing.*",
            "how checkpointing is done changes no work"),
	LK_SKIP("output_layer_parallelism",
            "the head is split over its rows, as Megatron-LM splits it"),
	LK_SKIP("pipe_partition_method", "stages have equal numbers of layers"),
	LK_SKIP("communication_data_type sparse_gradients", "see fp32_allreduce"),
	LK_SKIP("param_sharing_style gmlp_attn_dim gpt_j_tied dim_att head_size ffn_dim",
            "see the network"),
	LK_NOTE("te_columnparallel te_rowparallel te_layernorm_mlp te_mha te_fp8_format te_fp8_wgrad "
            "te_fp8_amax_history_len te_fp8_amax_compute_algo te_fp8_margin te_fp8_mha",
            "Transformer Engine's layers are priced as PyTorch's, in the stated precision"),
	LK_NOTE("moe_use_residual moe_type moe_token_dropping "
            "moe_train_capacity_factor moe_eval_capacity_factor moe_min_capacity moe_glu "
            "moe_router_type enable_expert_tensor_parallelism",
            "experts are routed without a limit of their tokens"),
	LK_NOTE("soft_prompt_tuning soft_prompt_tuning.*", "all parameters are priced as trained"),
	LK_NOTE("sparse_attention.* compression_training.* amp.*", "it is not modelled"),
	LK_KEYS_END};

static bool neox_is(const lk_value *root) {
	return lk_config_at(root, "pipe_parallel_size") || lk_config_at(root, "pipe-parallel-size") ||
	       lk_config_at(root, "model_parallel_size") || lk_config_at(root, "model-parallel-size") ||
	       (lk_config_at(root, "train_data_paths") || lk_config_at(root, "train-data-paths")) ||
	       ((lk_config_at(root, "data_path") || lk_config_at(root, "data-path")) &&
	        (lk_config_at(root, "vocab_file") || lk_config_at(root, "vocab-file")));
}

static lk_status neox_gather(lk_config *config) {
	lk_value *root = config->root;
	for (size_t i = 0; i < root->count; i++) {
		char *key = lk_arena_strdup(config->reading->arena, root->keys[i]);
		if (!key) return lk_oom(config->reading->err);
		for (char *c = key; *c; c++)
			if (*c == '-') *c = '_';
		root->keys[i] = key;
	}
	return LK_OK;
}

static bool neox_mentions(const lk_value *value, const char *name, int depth) {
	if (!value || depth > 8) return false;
	if (value->kind == LK_JSON_STRING) return strcasecmp(value->text, name) == 0;
	for (size_t i = 0; value->kind == LK_JSON_ARRAY && i < value->count; i++)
		if (neox_mentions(&value->items[i], name, depth + 1)) return true;
	return false;
}

static bool neox_says(const lk_config *config, const char *key, bool usual) {
	const char *text = lk_config_text(lk_config_at(config->root, key));
	return text ? strcmp(text, "true") == 0 : usual;
}

static lk_status neox_vocab(const lk_config *config, lk_draft *draft) {
	lk_model *model = &draft->job.model;
	const char *file = lk_config_text(lk_config_at(config->root, "vocab_file"));
	if (model->vocab > 0) return LK_OK;
	bool own =
		strcasecmp(draft->tokenizer, "HFTokenizer") == 0 || (file && strstr(file, "20B_tokenizer"));
	if (own) model->vocab = 50277;
	else if (strcasecmp(draft->tokenizer, "SPMTokenizer") == 0) model->vocab = 32000;
	else if (strcasecmp(draft->tokenizer, "CharLevelTokenizer") == 0) model->vocab = 512;
	else model->vocab = 50257;
	return lk_launch_assume(config->reading, "a vocabulary of %d: %s", model->vocab,
	                        *draft->tokenizer ? "by the tokenizer's name"
	                                          : "gpt-neox's default tokenizer");
}

/* Layers of Mamba alone: sizes that gpt-neox derives from the hidden size are those of the class in
 * transformers. */
static lk_status neox_mamba(const lk_config *config, lk_draft *draft) {
	lk_reading *reading = config->reading;
	lk_model *model = &draft->job.model;
	lk_value *tree = NULL;
	if (draft->job.tp > 1 || draft->job.pp > 1)
		return lk_config_fail(config, "attention_config",
		                      "gpt-neox does not split Mamba's layers over GPUs",
		                      "set model_parallel_size and pipe_parallel_size to 1");
	LK_TRY(neox_vocab(config, draft));
	const char *text = lk_arena_printf(
		reading->arena,
		"{\"model_type\": \"mamba\", \"num_hidden_layers\": %d, \"hidden_size\": %d, "
		"\"vocab_size\": %d, \"tie_word_embeddings\": %s}",
		model->layers, model->hidden, model->vocab, draft->no_tying ? "false" : "true");
	if (!text) return lk_oom(reading->err);
	LK_TRY(lk_config_parse(reading->arena, text, strlen(text), "attention_config.json", &tree,
	                       reading->err));
	return lk_model_from_hf(tree, config->file, NULL, model, NULL, reading->err);
}

/* Attention to some of the pairs, and what takes attention's place. */
static lk_status neox_attention(const lk_config *config, const lk_value *attention) {
	static const char *const parts[] = {"local", "sparse_fixed", "sparse_variable", "bigbird",
	                                    "bslongformer"};
	if (neox_mentions(attention, "gmlp", 0) || neox_mentions(attention, "amlp", 0))
		return lk_config_fail(config, "attention_config", "gated MLPs over tokens are not modelled",
		                      "networks of attention layers, or of Mamba's, can be predicted");
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
		if (neox_mentions(attention, parts[i], 0))
			return lk_launch_note(config->reading, "attention_config",
			                      "local and sparse attention is priced as full attention");
	return LK_OK;
}

static lk_status neox_network(const lk_config *config, lk_draft *draft) {
	lk_model *model = &draft->job.model;
	const lk_value *attention = lk_config_at(config->root, "attention_config");
	if (neox_mentions(attention, "rwkv", 0))
		return lk_config_fail(config, "attention_config", "layers of RWKV-6 are not modelled",
		                      "networks of attention layers, or of Mamba's, can be predicted");
	if (neox_mentions(attention, "mamba", 0)) return neox_mamba(config, draft);
	LK_TRY(neox_attention(config, attention));
	if (neox_mentions(attention, "flash", 0))
		lk_copy(draft->attention_name, sizeof draft->attention_name, "flash");
	else draft->job.attn_kernel = LK_KERNEL_UNFUSED;
	if (model->layers == 0) return LK_OK;
	const char *kind = lk_config_text(lk_config_at(config->root, "mlp_type"));
	bool llama = kind && strcmp(kind, "llama") == 0;
	bool gated = llama || strcasestr(draft->activation, "glu") != NULL;
	int64_t width = model->ffn > 0         ? model->ffn
	                : draft->expansion > 0 ? (int64_t)(draft->expansion * model->hidden)
	                                       : 4 * (int64_t)model->hidden;
	if (llama && model->ffn == 0) width = (8 * (int64_t)model->hidden / 3 + 255) / 256 * 256;
	else if (gated && !llama) {
		int64_t multiple = draft->multiple > 0 ? draft->multiple : 1;
		width = (2 * width / 3 + 2 * multiple - 1) / (2 * multiple) * multiple;
	}
	model->ffn = width < 1 << 28 ? (int)width : 0;
	model->gated = gated;
	model->norm = strcasestr(draft->norm_name, "rms") ? LK_NORM_RMS : LK_NORM_LAYER;
	model->norm_bias = model->norm == LK_NORM_LAYER && neox_says(config, "use_bias_in_norms", true);
	model->norms_per_layer = 2;
	model->final_norm = model->lm_head = true;
	bool biased = neox_says(config, "use_bias_in_attn_linear", true);
	model->qkv_bias = model->out_bias = biased;
	model->mlp_bias = !llama && neox_says(config, "use_bias_in_mlp", true);
	model->tied = !draft->no_tying;
	bool learned = !*draft->positions_name || strcmp(draft->positions_name, "learned") == 0;
	if (model->context == 0) model->context = draft->job.seq;
	model->position_rows = learned ? model->context : 0;
	if (strcmp(draft->positions_name, "rotary") == 0 && model->rotary_base == 0)
		model->rotary_base = 1e4;
	if (model->kv_heads == 0) model->kv_heads = model->heads;
	if (model->head_dim == 0 && model->heads > 0) model->head_dim = model->hidden / model->heads;
	if (model->experts > 1) {
		model->expert_ffn = model->ffn;
		if (model->topk == 0) model->topk = 1;
	} else model->experts = model->topk = model->moe_every = 0;
	lk_copy(model->name, sizeof model->name, "gpt-neox");
	return neox_vocab(config, draft);
}

/* train_impl: "normal", "dpo"; the others' steps are more than training. */
static lk_status neox_method(const lk_config *config, lk_draft *draft) {
	if (!*draft->method || strcasecmp(draft->method, "normal") == 0) return LK_OK;
	if (strcasecmp(draft->method, "dpo") != 0)
		return lk_config_fail(config, "train_impl", "this method's step is more than training",
		                      "normal and dpo can be predicted");
	draft->pairs = true;
	draft->job.dpo = !lk_config_at(config->root, "precompute_model_name");
	return LK_OK;
}

static lk_status neox_translate(const lk_config *config, lk_words *words) {
	static const lk_key *const tables[] = {keys, NULL};
	lk_draft draft = {0};
	(void)words;
	LK_TRY(lk_draft_read(config, tables, &draft));
	LK_TRY(neox_method(config, &draft));
	/* bitsandbytes.optim.Adam8bit, whatever the type (training.py, get_optimizer) */
	if (lk_config_on(config->root, "use_bnb_optimizer"))
		lk_copy(draft.optimizer_name, sizeof draft.optimizer_name, "adam_8bit");
	LK_TRY(neox_network(config, &draft));
	if (draft.job.vocab_multiple == 0) draft.job.vocab_multiple = 128;
	lk_copy(draft.job.stack, sizeof draft.job.stack, "megatron-deepspeed");
	if (draft.zero == 0) draft.zero = 1;
	if (!lk_config_at(config->root, "sequence_parallel")) draft.job.sequence_parallel = LK_OFF;
	LK_TRY(lk_draft_finish(config, &draft));
	lk_job *job = config->reading->out->job;
	if (draft.job.gbs > 0 && draft.job.mbs == 0 && draft.accumulation > 0)
		job->microbatches = draft.accumulation;
	return LK_OK;
}

const lk_framework lk_framework_neox = {"gpt-neox", neox_is, neox_gather, neox_translate};
