/* keys_mosaic.c: MosaicML's llm-foundry and Composer (scripts/train/yamls).
 *
 *     accumulation = global_train_batch_size / (gpus * device_train_microbatch_size)
 *     ffn = expansion_ratio * d_model; embeddings are tied */
#include <string.h>
#include <strings.h>

#include "base/text.h"
#include "launch/config.h"

static const lk_pair flash[] = {{"torch", "eager"}, {"flash", "flash"}, {NULL, NULL}};

static const lk_pair shared[] = {{"multiquery_attention", "1"},
                                 {"multihead_attention", ""},
                                 {"grouped_query_attention", ""},
                                 {NULL, NULL}};

static const lk_key keys[] = {
	LK_FACT("global_train_batch_size", "gbs"),
	LK_FACT("device_train_microbatch_size", "mbs"),
	LK_FACT("max_seq_len", "seq"),
	LK_RULE("model.attn_config.alibi"),
	LK_FACT("variables.max_seq_len", "seq"),
	LK_FACT("variables.global_train_batch_size", "gbs"),
	LK_FACT("precision", "format"),
	LK_FACT("optimizer.name", "optimizer_name"),
	LK_FACT("model.pretrained_model_name_or_path", "network_name"),
	LK_FACT("model.n_layers", "layers"),
	LK_FACT("model.d_model", "hidden"),
	LK_FACT("model.n_heads", "heads"),
	LK_FACT("model.expansion_ratio", "expansion"),
	LK_FACT("model.vocab_size", "vocab"),
	LK_FACT("model.attn_config.kv_n_heads", "kv_heads"),
	LK_WORDS("model.attn_config.attn_impl", "attention_name", flash),
	LK_FACT("model.peft_config.r", "lora_rank"),
	LK_RULE("model.tie_word_embeddings"),
	LK_WORDS("model.attn_config.attn_type", "kv_heads", shared),
	LK_WORDS("model.attn_config.sliding_window_size", "window", lk_pairs_zero_off),
	LK_FACT("model.attn_config.qk_ln", "qk_norm"),
	LK_FACT("fsdp_config.cpu_offload", "host_shards"),
	LK_FACT("fsdp_config.activation_cpu_offload", "host_activations"),

	LK_FACT("fsdp_config.sharding_strategy", "sharding_name"),
	LK_FACT("fsdp_config.activation_checkpointing", "recompute_text"),
	LK_SKIP("run_name expt_name seed global_seed python_log_level progress_bar log_to_console "
            "console_log_interval log_config callbacks.* loggers.*",
            LK_WHY_LOGGING),
	LK_SKIP("max_duration", LK_WHY_LENGTH),
	LK_SKIP("data_local data_remote tokenizer tokenizer.* tokenizer_name train_loader "
            "train_loader.* variables.data_local variables.data_remote variables.tokenizer_name "
            "variables.dataset_groups dataset.*",
            LK_WHY_DATA),
	LK_SKIP("eval_loader eval_loader.* eval_interval eval_first eval_subset_num_batches "
            "device_eval_batch_size device_eval_microbatch_size icl_tasks icl_tasks_str "
            "icl_subset_num_batches icl_seq_len eval_gauntlet eval_gauntlet.* eval_gauntlet_str",
            LK_WHY_EVAL),
	LK_SKIP("save_* load_* autoresume only_composer_checkpoint only_hf_checkpoint", LK_WHY_SAVING),
	LK_SKIP("scheduler scheduler.* optimizer.lr optimizer.betas optimizer.eps "
            "optimizer.weight_decay algorithms algorithms.*",
            LK_WHY_RATE),
	LK_SKIP("dist_timeout profiler.* variables.run_name variables.global_seed model.name "
            "model.init_device model.init_config.* model.pretrained model.use_auth_token "
            "model.config_overrides.* code_paths max_split_size_mb expandable_segments "
            "cuda_load_lazy metadata.*",
            LK_WHY_START),
	LK_SKIP("model.resid_pdrop model.emb_pdrop model.attn_pdrop model.logit_scale "
            "model.embedding_fraction model.emb_init_std model.loss_fn model.learned_pos_emb "
            "model.attn_config.alibi_bias_max "
            "model.attn_config.attn_pdrop model.attn_config.softmax_scale "
            "model.attn_config.clip_qkv model.attn_config.prefix_lm model.attn_config.rope "
            "model.attn_config.rope_theta model.attn_config.rope_impl "
            "model.attn_config.rope_dail_config.* model.attn_config.rope_hf_config.* "
            "model.attn_config.attn_uses_sequence_id "
            "model.max_seq_len model.norm_type model.norm_eps model.no_bias "
            "model.use_pad_tok_in_ffn model.use_cache",
            "see the network"),
	LK_SKIP("model.peft_config.peft_type model.peft_config.task_type model.peft_config.lora_alpha "
            "model.peft_config.lora_dropout model.peft_config.target_modules "
            "model.peft_config.bias",
            "adapters are priced as LoRA of all linear layers"),
	LK_SKIP("fsdp_config.mixed_precision fsdp_config.activation_checkpointing_reentrant "
            "fsdp_config.limit_all_gathers fsdp_config.verbose fsdp_config.state_dict_type "
            "fsdp_config.sync_module_states fsdp_config.backward_prefetch "
            "fsdp_config.forward_prefetch fsdp_config.use_orig_params fsdp_config.load_planner "
            "fsdp_config.save_planner",
            "how layers are wrapped and saved: units of one layer are taken"),
	LK_NOTE("model.ffn_config.* model.block_overrides.* model.use_flash_attention_2 "
            "model.load_in_8bit compile_config.* deepspeed_config.* tp_config.* "
            "parallelism_config.*",
            "it is not read"),
	LK_KEYS_END};

static bool mosaic_is(const lk_value *root) {
	return lk_config_at(root, "max_duration") &&
	       (lk_config_at(root, "global_train_batch_size") || lk_config_at(root, "variables"));
}

static lk_status mosaic_translate(const lk_config *config, lk_words *words) {
	static const lk_key *const tables[] = {keys, NULL};
	lk_draft draft = {0};
	(void)words;
	LK_TRY(lk_draft_read(config, tables, &draft));
	lk_model *model = &draft.job.model;
	if (!*draft.format) lk_copy(draft.format, sizeof draft.format, "amp_bf16");
	if (model->layers > 0 && model->hidden > 0 && model->heads > 0) {
		double ratio = draft.expansion > 0 ? draft.expansion : 4;
		model->ffn = ratio * model->hidden < 1 << 28 ? (int)(ratio * model->hidden) : 0;
		if (model->vocab == 0) model->vocab = 50368;
		if (model->kv_heads == 0) model->kv_heads = model->heads;
		model->head_dim = model->hidden / model->heads;
		model->norm = LK_NORM_LAYER;
		model->norms_per_layer = 2;
		model->final_norm = model->lm_head = true;
		const char *tied = lk_config_text(lk_config_at(config->root, "model.tie_word_embeddings"));
		model->tied = !tied || strcmp(tied, "false") != 0;
		model->context = model->position_rows = draft.job.seq;
		if (lk_config_on(config->root, "model.attn_config.alibi")) model->position_rows = 0;
		lk_copy(model->name, sizeof model->name, "mpt");
	}
	if (lk_config_at(config->root, "fsdp_config") && !*draft.sharding_name)
		lk_copy(draft.fsdp, sizeof draft.fsdp, "full_shard");
	lk_copy(draft.job.stack, sizeof draft.job.stack, "llm-foundry");
	draft.job.vocab_multiple = 1;
	return lk_draft_finish(config, &draft);
}

const lk_framework lk_framework_mosaic = {"llm-foundry", mosaic_is, NULL, mosaic_translate};

/* ---- MaxText: JAX, by the names of its mesh's axes */

static const lk_key maxtext_keys[] = {
	LK_FACT("model_name", "network_name"),
	LK_RULE("hardware"),
	LK_FACT("per_device_batch_size", "mbs"),
	LK_FACT("max_target_length", "seq"),
	LK_FACT("ici_tensor_parallelism", "tp"),
	LK_FACT("ici_context_parallelism", "cp"),
	LK_FACT("ici_expert_parallelism", "ep"),
	LK_FACT("ici_pipeline_parallelism", "pp"),
	LK_FACT("ici_fsdp_parallelism", "dp_shard"),
	LK_FACT("dcn_data_parallelism", "dp_replicate"),
	LK_FACT("gradient_accumulation_steps", "accumulation"),
	LK_FACT("remat_policy", "recompute_text"),
	LK_FACT("dtype", "format"),
	LK_FACT("base_emb_dim", "hidden"),
	LK_FACT("base_num_query_heads", "heads"),
	LK_FACT("base_num_kv_heads", "kv_heads"),
	LK_FACT("base_mlp_dim", "ffn"),
	LK_FACT("base_num_decoder_layers", "layers"),
	LK_FACT("head_dim", "head_dim"),
	LK_FACT("vocab_size", "vocab"),
	LK_SKIP("run_name base_output_directory metrics_file gcs_metrics write_metrics log_period "
            "log_config save_config_to_gcs debug_sharding dump_* profile* "
            "skip_first_n_steps_for_profiler hide_profiler_step_metric "
            "upload_all_profiler_results enable_tensorboard use_vertex_tensorboard "
            "vertex_tensorboard_* enable_wandb wandb_* enable_goodput_recording monitor_* "
            "goodput_* enable_gcp_* enable_pathways_goodput report_* heartbeat_* "
            "step_deviation_interval_seconds managed_mldiagnostics managed_mldiagnostics_* "
            "record_internal_nn_metrics enable_jax_profiler jax_profiler_port "
            "jax_debug_log_modules xprof_* enable_mllog",
            LK_WHY_LOGGING),
	LK_SKIP("steps learning_rate_schedule_steps num_epoch target_eval_loss", LK_WHY_LENGTH),
	LK_SKIP("learning_rate learning_rate_final_fraction warmup_steps_fraction lr_schedule_type "
            "wsd_* adam_* adamw_mask mu_dtype gradient_clipping_threshold skip_step_* muon_*",
            LK_WHY_RATE),
	LK_SKIP("dataset_* tokenizer_* tokenize_* train_split train_data_columns hf_* grain_* "
            "tfrecords_dir olmo_* enable_data_shuffling data_shuffle_seed packing "
            "max_segments_per_seq add_bos add_eos use_chat_template chat_template "
            "chat_template_path reuse_example_batch colocated_python_data_input "
            "expansion_factor_real_data generate_padding_batch_train max_corpus_chars "
            "sft_train_on_completion_only synthetic_*",
            LK_WHY_DATA),
	LK_SKIP("eval_* generate_padding_batch_eval", LK_WHY_EVAL),
	LK_SKIP("enable_checkpointing enable_continuous_checkpointing enable_emergency_checkpoint "
            "enable_multi_tier_checkpointing multi_tier_checkpointing_* "
            "enable_single_replica_ckpt_restoring enable_autocheckpoint "
            "enable_checkpoint_cloud_logger async_checkpointing checkpoint_* local_checkpoint_* "
            "load_* save_checkpoint_* save_final_checkpoint force_unroll "
            "max_num_checkpoints_to_keep enable_orbax_v1 source_checkpoint_layout",
            LK_WHY_SAVING),
	LK_SKIP("init_weights_seed seed jax_cache_dir jax_distributed_initialization_timeout "
            "skip_jax_distributed_system enable_single_controller compile_topology "
            "compile_topology_num_slices compile_xla_flags compiled_trainstep_file "
            "internal_compile internal_compile_num_devices num_slices override_model_config "
            "enable_jax_named_scopes enable_model_warmup pure_nnx pure_nnx_decoder enable_nnx "
            "elastic_* inference_* prefill_* decode_* autoregressive_* ar_cache_axis_order "
            "compute_axis_order max_prefill_predict_length quantize_kvcache kv_quant_* prompt",
            LK_WHY_START),
	LK_SKIP("logical_axis_rules logical_axis_rules_for_eval override_logical_axis_rules "
            "custom_mesh custom_mesh_* mesh_axes data_sharding input_data_sharding_logical_axes "
            "sharding_tolerance shard_mode shardy allow_split_physical_axes "
            "optimize_mesh_for_tpu_v6e attention_sharding_uniform context_parallel_load_balance "
            "context_parallel_strategy context_parallel_reorder_strategy",
            "see the degrees"),
	LK_SKIP("scan_layers param_scan_axis scan_pipeline_* scan_layers_per_stage set_remat_policy_* "
            "decoder_layer_input query_proj key_proj value_proj qkv_proj kv_proj out_proj context "
            "mlpwi mlpwi_0 mlpwi_1 mlpwo attention_out query_wa_proj kv_wa_proj mla_q mla_kv "
            "moe_mlpwi_0 moe_mlpwi_1 moe_mlpwo",
            "see remat_policy"),
	LK_SKIP("attention sa_* local_sa_* fused_qkv fused_mlp use_iota_embed float32_* "
            "logits_dot_in_fp32 cast_logits_to_fp32 activations_in_float32 matmul_precision "
            "grad_dtype dropout_rate enable_dropout num_vocab_tiling max_checkify "
            "normalization_layer_epsilon",
            LK_WHY_NUMBERS),
	LK_SKIP("global_parameter_scale decoder_block mlp_activations mlp_activations_limit "
            "logits_via_embedding normalize_embedding_logits rope_* use_qk_norm "
            "use_post_attn_norm use_post_ffw_norm attn_logits_soft_cap final_logits_soft_cap "
            "attention_type attention_bias sliding_window_size trainable_position_size "
            "use_untrainable_positional_embedding",
            "see model_name"),
	LK_NOTE("quantization use_qwix_quantization weight_dtype num_experts num_experts_per_tok "
            "base_moe_mlp_dim shared_experts first_num_dense_layers interleave_moe_layer_step "
            "q_lora_rank kv_lora_rank qk_nope_head_dim qk_rope_head_dim v_head_dim mtp_num_layers "
            "use_multimodal enable_lora lora_* use_dpo use_sft opt_type "
            "optimizer_memory_host_offload parameter_memory_host_offload ici_data_parallelism "
            "ici_sequence_parallelism ici_tensor_sequence_parallelism "
            "ici_tensor_transpose_parallelism ici_fsdp_transpose_parallelism "
            "ici_context_autoregressive_parallelism ici_autoregressive_parallelism dcn_* "
            "num_pipeline_microbatches num_layers_per_pipeline_stage num_pipeline_repeats "
            "pipeline_parallel_layers pipeline_* enable_rampup_batch_size sparse_matmul megablox "
            "capacity_factor enable_diloco vocab_tiling_ag_once te_comm_gemm_overlap",
            "it is not read: what model_name, dtype and the stated axes say is taken"),
	LK_KEYS_END};

static bool maxtext_is(const lk_value *root) {
	return lk_config_at(root, "per_device_batch_size") &&
	       (lk_config_at(root, "max_target_length") || lk_config_at(root, "remat_policy") ||
	        lk_config_at(root, "model_name"));
}

/* MaxText's remat_policy: nothing but the layers' inputs (full), all that products make (minimal,
 * minimal_with_context), or some of it. */
static lk_status maxtext_policy(const lk_config *config, lk_draft *draft) {
	char *policy = draft->recompute_text;
	if (!*policy || strcmp(policy, "full") == 0)
		return lk_copy(policy, sizeof draft->recompute_text, "full"), LK_OK;
	LK_TRY(lk_launch_assume(config->reading,
	                        "remat_policy %.40s is priced as selective recomputation", policy));
	return lk_copy(policy, sizeof draft->recompute_text, "selective"), LK_OK;
}

static lk_status maxtext_translate(const lk_config *config, lk_words *words) {
	static const lk_key *const tables[] = {maxtext_keys, NULL};
	lk_draft draft = {0};
	const char *hardware = lk_config_text(lk_config_at(config->root, "hardware"));
	(void)words;
	if (!hardware || strncmp(hardware, "gpu", 3) != 0)
		return lk_config_fail(config, "hardware", "TPUs, MaxText's default, are not modelled",
		                      "give --set hardware=gpu for a run on GPUs");
	LK_TRY(lk_draft_read(config, tables, &draft));
	LK_TRY(maxtext_policy(config, &draft));
	if (strcmp(draft.network, "default") == 0) *draft.network = '\0';
	if (draft.job.seq == 0) draft.job.seq = 2048;
	if (!*draft.format) draft.bf16 = true;
	lk_model *model = &draft.job.model;
	if (*draft.network || model->layers == 0) *model = (lk_model){0};
	else {
		model->norm = LK_NORM_RMS;
		model->norms_per_layer = 2;
		model->final_norm = model->lm_head = model->gated = true;
		if (model->kv_heads == 0) model->kv_heads = model->heads;
		if (model->head_dim == 0 && model->heads > 0)
			model->head_dim = model->hidden / model->heads;
		model->rotary_base = 1e4;
		model->context = draft.job.seq;
		lk_copy(model->name, sizeof model->name, "maxtext");
	}
	lk_copy(draft.fsdp, sizeof draft.fsdp, "full_shard");
	return lk_draft_finish(config, &draft);
}

const lk_framework lk_framework_maxtext = {"maxtext", maxtext_is, NULL, maxtext_translate};
