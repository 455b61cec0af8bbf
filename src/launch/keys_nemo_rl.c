/* keys_nemo_rl.c: NeMo RL: its policies and what they generate (examples/configs).
 *
 *     gpus = cluster.num_nodes * cluster.gpus_per_node, less those of the engines where these have
 *         GPUs of their own; one of dtensor_cfg and megatron_cfg is enabled
 *     sequences of a step = num_prompts_per_step * num_generations_per_prompt
 *     lag = max_trajectory_age_steps, where asynchronous steps are enabled */
#include <string.h>

#include "base/text.h"
#include "base/noun.h"
#include "launch/config.h"

static const lk_key common[] = {
	LK_FACT("policy.model_name", "network_name"),
	LK_RULE("policy.megatron_cfg.enabled"),
	LK_RULE("policy.dtensor_cfg.enabled"),
	LK_RULE("policy.generation.colocated.enabled"),
	LK_RULE("policy.generation.colocated.resources.num_nodes"),
	LK_RULE("policy.generation.colocated.resources.gpus_per_node"),
	LK_RULE("policy.generation.vllm_cfg.is_mx"),
	LK_RULE("policy.logprob_chunk_size"),
	LK_RULE("grpo.async_grpo.enabled"),
	LK_RULE("grpo.async_grpo.max_trajectory_age_steps"),
	LK_RULE("ppo.async_ppo.enabled"),
	LK_RULE("ppo.async_ppo.max_trajectory_age_steps"),
	LK_RULE("grpo.use_dynamic_sampling"),
	LK_RULE("grpo.batch_multiplier"),
	LK_RULE("ppo.use_dynamic_sampling"),
	LK_RULE("ppo.batch_multiplier"),
	LK_RULE("teacher.model_name"),
	LK_RULE("teacher.megatron_cfg.enabled"),
	LK_RULE("teacher.megatron_cfg.tensor_model_parallel_size"),
	LK_RULE("teacher.dtensor_cfg.tensor_parallel_size"),
	LK_RULE("on_policy_distillation.enabled"),
	LK_RULE("on_policy_distillation.non_colocated_teachers.enabled"),
	LK_FACT("policy.train_global_batch_size", "gbs"),
	LK_FACT("policy.train_micro_batch_size", "mbs"),
	LK_FACT("policy.max_total_sequence_length", "seq"),
	LK_FACT("policy.precision", "format"),
	LK_FACT("policy.sequence_packing.enabled", "packing"),
	LK_NOTE("policy.dynamic_batching.enabled", "micro-batches are taken at full length"),
	LK_FACT("cluster.num_nodes", "nodes"),
	LK_FACT("cluster.gpus_per_node", "per_node"),
	LK_FACT("policy.optimizer.name", "optimizer_name"),
	LK_WORDS("policy.optimizer.kwargs.foreach", "update", lk_foreach_words),
	LK_WORDS("policy.optimizer.kwargs.fused", "update", lk_fused_words),
	LK_SKIP("policy.generation.bad_words policy.generation.refit_transport "
            "policy.generation.refit_cfg.* policy.generation.stop_strings "
            "policy.generation.stop_token_ids policy.generation.temperature "
            "policy.generation.top_k policy.generation.top_p policy.generation.val_temperature "
            "policy.generation.val_top_k policy.generation.val_top_p "
            "policy.generation.port_range_high policy.generation.port_range_low "
            "policy.generation.real_quant_export_cpu_offload policy.generation.model_name "
            "policy.generation.num_prompts_per_step",
            "how engines are started and sampled from changes no phase"),
	LK_NOTE("policy.generation.quant_cfg policy.generation.real_quant",
            "engines generate in the stated precision"),
	LK_SKIP("policy.logprob_batch_size policy.generation_batch_size policy.logprob_mb_tokens "
            "policy.offload_optimizer_for_logprob policy.refit_buffer_size_gb policy.is_vlm "
            "policy.activation_checkpointing_enabled policy.dequantize_base_checkpoint "
            "policy.make_sequence_length_divisible_by policy.router_replay.enabled "
            "policy.reward_model_cfg.enabled policy.reward_model_cfg.reward_model_type",
            "it changes no work of the step"),
	LK_SKIP("policy.tokenizer.*", LK_WHY_DATA),
	LK_SKIP("policy.max_grad_norm policy.optimizer policy.scheduler policy.scheduler.* "
            "policy.optimizer.kwargs.betas policy.optimizer.kwargs.eps policy.optimizer.kwargs.lr "
            "policy.optimizer.kwargs.weight_decay policy.optimizer.kwargs.momentum",
            LK_WHY_RATE),
	LK_NOTE("policy.optimizer.kwargs.exp_avg_dtype policy.optimizer.kwargs.exp_avg_sq_dtype "
            "policy.optimizer.kwargs.master_weights "
            "policy.optimizer.kwargs.store_param_remainders",
            "the optimizer's state is priced in fp32"),
	LK_SKIP("policy.dynamic_batching.train_mb_tokens policy.dynamic_batching.logprob_mb_tokens "
            "policy.dynamic_batching.sequence_length_round policy.sequence_packing.algorithm "
            "policy.sequence_packing.fuse_loss policy.sequence_packing.logprob_mb_tokens "
            "policy.sequence_packing.microbatch_order "
            "policy.sequence_packing.sequence_length_round "
            "policy.sequence_packing.train_mb_tokens",
            "micro-batches are full"),
	LK_SKIP("policy.hf_config_overrides policy.hf_config_overrides.rope_scaling.* "
            "policy.hf_config_overrides.rope_parameters.* "
            "policy.hf_config_overrides.max_position_embeddings "
            "policy.hf_config_overrides.router_aux_loss_coef "
            "policy.hf_config_overrides.text_config.router_aux_loss_coef",
            LK_WHY_NUMBERS),
	LK_NOTE("policy.hf_config_overrides.*", "the network is that of its name"),
	LK_NOTE("policy.draft.enabled", "the drafter is not priced as trained"),
	LK_SKIP("policy.draft.*", "see draft.enabled"),
	LK_NOTE("policy.quant_cfg", "products are priced in the stated precision"),
	LK_SKIP("policy.quant_calib_size policy.quant_calib_data policy.quant_batch_size "
            "policy.quant_sequence_length",
            "see quant_cfg"),
	LK_SKIP("data.* env.* tokenizer.* data_plane data_plane.* sif_dir teachers _teachers.* "
            "defaults",
            LK_WHY_DATA),
	LK_SKIP("logger.*", LK_WHY_LOGGING),
	LK_SKIP("checkpointing.*", LK_WHY_SAVING),
	LK_SKIP("eval.* generation.*", LK_WHY_EVAL),
	LK_SKIP("cluster.master_port_range_high cluster.master_port_range_low cluster.segment_size "
            "cluster.port_range_high cluster.port_range_low",
            LK_WHY_START),
	LK_SKIP("loss_fn loss_fn.* value_loss_fn.* reward_penalties.*",
            "values of the loss: they change no work"),
	LK_SKIP("grpo.max_num_epochs grpo.max_num_steps grpo.seed ppo.max_num_epochs "
            "ppo.max_num_steps ppo.seed sft.max_num_epochs sft.max_num_steps sft.seed "
            "dpo.max_num_epochs dpo.max_num_steps dpo.seed distillation.max_num_epochs "
            "distillation.max_num_steps distillation.seed rm.max_num_epochs rm.max_num_steps "
            "rm.seed",
            LK_WHY_LENGTH),
	LK_SKIP("grpo.val_* ppo.val_* sft.val_* dpo.val_* distillation.val_* rm.val_* "
            "grpo.max_val_samples ppo.max_val_samples distillation.max_val_samples grpo.stop_at_*",
            LK_WHY_EVAL),
	LK_SKIP("grpo.adv_estimator.* grpo.adv_estimator grpo.reward_scaling.* grpo.reward_scaling "
            "grpo.reward_shaping.* grpo.reward_shaping grpo.overlong_filtering "
            "grpo.seq_logprob_error_threshold grpo.normalize_rewards "
            "grpo.use_leave_one_out_baseline ppo.adv_estimator.* ppo.adv_estimator "
            "ppo.reward_scaling.* ppo.reward_scaling ppo.reward_shaping.* ppo.reward_shaping "
            "ppo.overlong_filtering ppo.seq_logprob_error_threshold ppo.normalize_rewards "
            "ppo.use_leave_one_out_baseline",
            "how rewards become advantages changes no work"),
	LK_SKIP("grpo.advantage_clip_high grpo.advantage_clip_low grpo.best_at_k_k grpo.best_at_k_m "
            "grpo.combined_training_best_at_k_weight grpo.combined_training_pass_at_1_weight "
            "grpo.combined_training_weight_mode grpo.invalid_tool_call_advantage "
            "grpo.invalid_tool_call_strategy grpo.malformed_thinking_advantage "
            "grpo.penalize_invalid_tool_call grpo.penalize_malformed_thinking grpo.use_best_at_k "
            "grpo.use_combined_training grpo.zero_variance_prompt_filtering "
            "grpo.calculate_advantages_on_gpu grpo.debug_payload_metrics "
            "grpo.deduplicate_multimodal_data",
            "how rewards become advantages changes no work"),
	LK_SKIP("grpo.dynamic_sampling_* ppo.dynamic_sampling_*", "see batch_multiplier"),
	LK_SKIP("grpo.async_grpo.in_flight_weight_updates grpo.async_grpo.max_generation_failures "
            "grpo.async_grpo.recompute_kv_cache_after_weight_updates "
            "grpo.async_grpo.drop_incomplete_targets_on_restore "
            "grpo.async_grpo.warmup_generation_lead_steps ppo.async_ppo.in_flight_weight_updates "
            "ppo.async_ppo.max_generation_failures "
            "ppo.async_ppo.recompute_kv_cache_after_weight_updates "
            "ppo.async_ppo.drop_incomplete_targets_on_restore "
            "ppo.async_ppo.warmup_generation_lead_steps grpo.async_grpo ppo.async_ppo "
            "ppo.policy_training_start_step async_rl.*",
            "see the lag of asynchronous steps"),
	LK_SKIP("dpo.preference_average_log_probs dpo.preference_loss_weight "
            "dpo.reference_policy_kl_penalty dpo.sft_average_log_probs dpo.sft_loss_weight "
            "sft.only_unmask_final distillation.topk_logits_k",
            "values of the loss: they change no work"),
	LK_SKIP("teacher teacher.* value value.* on_policy_distillation on_policy_distillation.*",
            "the teacher and the critic are laid out as the policy"),
	LK_KEYS_END};

/* ---- the rollout ---- */

static const char unfilled[] = "tokens that are guessed are accepted at an unknown rate "
							   "(--speculative)";

static const char other_engine[] = "options of an engine that does not generate here";

static const lk_key rollout[] = {
	LK_FACT("grpo.num_prompts_per_step", "rollout_prompts"),
	LK_FACT("grpo.num_generations_per_prompt", "rollout_samples"),
	LK_FACT("grpo.skip_reference_policy_logprobs_calculation", "rollout_no_reference"),
	LK_FACT("ppo.num_prompts_per_step", "rollout_prompts"),
	LK_FACT("ppo.num_generations_per_prompt", "rollout_samples"),
	LK_FACT("ppo.skip_reference_policy_logprobs_calculation", "rollout_no_reference"),
	LK_FACT("ppo.ppo_epochs", "rollout_epochs"),
	LK_FACT("loss_fn.force_on_policy_ratio", "rollout_no_policy"),
	LK_FACT("policy.generation.backend", "rollout_engine"),
	LK_FACT("policy.generation.max_new_tokens", "rollout_response"),
	LK_NOTE("grpo.max_rollout_turns ppo.max_rollout_turns",
            "turns of a conversation are one sequence"),
	LK_FACT("distillation.num_prompts_per_step", "rollout_prompts"),
	LK_FACT("distillation.num_generations_per_prompt", "rollout_samples"),
	LK_NOTE("distillation.max_rollout_turns", "turns of a conversation are one sequence"),
	LK_FACT("value.model_name", "rollout_critic"),
	LK_NOTE("value.megatron_cfg.enabled", "the critic is laid out as the policy"),
	LK_NOTE("value.dtensor_cfg.enabled", "the critic is laid out as the policy"),
	LK_KEYS_END};

/* Options of each engine, whose table is read where it generates. */
static const lk_key rollout_vllm[] = {
	LK_FACT("policy.generation.vllm_cfg.tensor_parallel_size", "rollout_tp"),
	LK_FACT("policy.generation.vllm_cfg.pipeline_parallel_size", "rollout_pp"),
	LK_FACT("policy.generation.vllm_cfg.expert_parallel_size", "rollout_ep"),
	LK_FACT("policy.generation.vllm_cfg.gpu_memory_utilization", "rollout_memory"),
	LK_FACT("policy.generation.vllm_cfg.precision", "rollout_format"),
	LK_FACT("policy.generation.vllm_cfg.kv_cache_dtype", "rollout_kv_format"),
	LK_FACT("policy.generation.vllm_cfg.enforce_eager", "rollout_eager"),
	LK_FACT("policy.generation.vllm_cfg.max_num_seqs", "rollout_batch"),
	LK_FACT("policy.generation.vllm_kwargs.max_num_seqs", "rollout_batch"),
	LK_FACT("policy.generation.vllm_kwargs.max_num_batched_tokens", "rollout_tokens"),
	LK_NOTE("policy.generation.vllm_kwargs.speculative_config.*", unfilled),
	LK_SKIP("policy.generation.vllm_cfg.async_engine "
            "policy.generation.vllm_cfg.cap_max_tokens_to_context "
            "policy.generation.vllm_cfg.distributed_executor_backend "
            "policy.generation.vllm_cfg.enable_expert_parallel "
            "policy.generation.vllm_cfg.enable_thinking "
            "policy.generation.vllm_cfg.enable_vllm_metrics_logger "
            "policy.generation.vllm_cfg.enforce_monotonicity policy.generation.vllm_cfg.env_vars "
            "policy.generation.vllm_cfg.env_vars.* policy.generation.vllm_cfg.expose_http_server "
            "policy.generation.vllm_cfg.http_refit_api_key_env_var "
            "policy.generation.vllm_cfg.http_refit_server_port "
            "policy.generation.vllm_cfg.http_server_* policy.generation.vllm_cfg.load_format "
            "policy.generation.vllm_cfg.logprobs_mode policy.generation.vllm_cfg.max_model_len "
            "policy.generation.vllm_cfg.reasoning_parser_plugin "
            "policy.generation.vllm_cfg.reset_encoder_cache_after_weight_update "
            "policy.generation.vllm_cfg.skip_tokenizer_init policy.generation.vllm_cfg.use_tqdm "
            "policy.generation.vllm_cfg.video.* policy.generation.vllm_cfg.limit_mm_per_prompt.* "
            "policy.generation.vllm_cfg.vllm_metrics_logger_interval "
            "policy.generation.vllm_cfg.zmq_refit_server_port "
            "policy.generation.vllm_cfg.use_deep_gemm "
            "policy.generation.vllm_cfg.num_first_layers_in_bf16 "
            "policy.generation.vllm_cfg.num_last_layers_in_bf16 "
            "policy.generation.vllm_cfg.quantization_ignored_layer_kws "
            "policy.generation.vllm_cfg.enable_prefix_caching "
            "policy.generation.vllm_cfg.http_server_serving_chat_kwargs",
            "how engines are started and sampled from changes no phase"),
	LK_SKIP("policy.generation.vllm_kwargs.allowed_local_media_path "
            "policy.generation.vllm_kwargs.attention_backend "
            "policy.generation.vllm_kwargs.attention_config.* "
            "policy.generation.vllm_kwargs.compilation_config.* "
            "policy.generation.vllm_kwargs.disable_custom_all_reduce "
            "policy.generation.vllm_kwargs.enable_chunked_prefill "
            "policy.generation.vllm_kwargs.kernel_config.* "
            "policy.generation.vllm_kwargs.kv_cache_memory_bytes "
            "policy.generation.vllm_kwargs.language_model_only "
            "policy.generation.vllm_kwargs.limit_mm_per_prompt.* "
            "policy.generation.vllm_kwargs.mamba_cache_mode "
            "policy.generation.vllm_kwargs.mamba_ssm_cache_dtype "
            "policy.generation.vllm_kwargs.mm_processor_cache_gb "
            "policy.generation.vllm_kwargs.moe_backend "
            "policy.generation.vllm_kwargs.skip_mm_profiling "
            "policy.generation.vllm_kwargs.hf_overrides.*",
            "how engines are started and sampled from changes no phase"),
	LK_SKIP("policy.generation.sglang_cfg.* policy.generation.trtllm_cfg.* "
            "policy.generation.trtllm_kwargs.* policy.generation.mcore_generation_config.*",
            other_engine),
	LK_SKIP("policy.generation.dynamo_cfg.* policy.generation.vllm_kwargs",
            "how engines are started and sampled from changes no phase"),
	LK_KEYS_END};
static const lk_key rollout_sglang[] = {
	LK_FACT("policy.generation.sglang_cfg.tp_size", "rollout_tp"),
	LK_FACT("policy.generation.sglang_cfg.pp_size", "rollout_pp"),
	LK_SKIP("policy.generation.sglang_cfg.dp_size", "ranks of data parallelism are engines"),
	LK_FACT("policy.generation.sglang_cfg.ep_size", "rollout_ep"),
	LK_FACT("policy.generation.sglang_cfg.mem_fraction_static", "rollout_memory"),
	LK_FACT("policy.generation.sglang_cfg.dtype", "rollout_format"),
	LK_FACT("policy.generation.sglang_cfg.max_running_requests", "rollout_batch"),
	LK_FACT("policy.generation.sglang_cfg.disable_cuda_graph", "rollout_eager"),
	LK_SKIP("policy.generation.sglang_cfg.allow_auto_truncate "
            "policy.generation.sglang_cfg.context_length "
            "policy.generation.sglang_cfg.disable_piecewise_cuda_graph "
            "policy.generation.sglang_cfg.model_path policy.generation.sglang_cfg.random_seed "
            "policy.generation.sglang_cfg.sglang_router_config.* "
            "policy.generation.sglang_cfg.sglang_server_config.* "
            "policy.generation.sglang_cfg.skip_server_warmup "
            "policy.generation.sglang_cfg.skip_tokenizer_init",
            "how engines are started and sampled from changes no phase"),
	LK_SKIP("policy.generation.vllm_cfg.* policy.generation.vllm_kwargs "
            "policy.generation.vllm_kwargs.* policy.generation.trtllm_cfg.* "
            "policy.generation.trtllm_kwargs.* policy.generation.mcore_generation_config.* "
            "policy.generation.dynamo_cfg.*",
            other_engine),
	LK_KEYS_END};
static const lk_key rollout_tensorrt[] = {
	LK_FACT("policy.generation.trtllm_cfg.tensor_parallel_size", "rollout_tp"),
	LK_FACT("policy.generation.trtllm_cfg.moe_expert_parallel_size", "rollout_ep"),
	LK_FACT("policy.generation.trtllm_cfg.gpu_memory_utilization", "rollout_memory"),
	LK_FACT("policy.generation.trtllm_cfg.precision", "rollout_format"),
	LK_FACT("policy.generation.trtllm_cfg.max_batch_size", "rollout_batch"),
	LK_FACT("policy.generation.trtllm_cfg.max_num_tokens", "rollout_tokens"),
	LK_SKIP("policy.generation.trtllm_cfg.async_engine "
            "policy.generation.trtllm_cfg.in_flight_weight_updates "
            "policy.generation.trtllm_cfg.max_model_len "
            "policy.generation.trtllm_cfg.moe_tensor_parallel_size "
            "policy.generation.trtllm_cfg.recompute_kv_cache_after_weight_updates "
            "policy.generation.trtllm_kwargs.batch_wait_max_tokens_ratio "
            "policy.generation.trtllm_kwargs.batch_wait_timeout_iters",
            "how engines are started and sampled from changes no phase"),
	LK_SKIP("policy.generation.vllm_cfg.* policy.generation.vllm_kwargs "
            "policy.generation.vllm_kwargs.* policy.generation.sglang_cfg.* "
            "policy.generation.mcore_generation_config.* policy.generation.dynamo_cfg.*",
            other_engine),
	LK_KEYS_END};
static const lk_key rollout_megatron[] = {
	LK_FACT("policy.generation.mcore_generation_config.tensor_model_parallel_size", "rollout_tp"),
	LK_FACT("policy.generation.mcore_generation_config.pipeline_model_parallel_size", "rollout_pp"),
	LK_FACT("policy.generation.mcore_generation_config.expert_model_parallel_size", "rollout_ep"),
	LK_FACT("policy.generation.mcore_generation_config.max_tokens", "rollout_tokens"),
	LK_SKIP("policy.generation.mcore_generation_config.activation_checkpointing "
            "policy.generation.mcore_generation_config.block_size_tokens "
            "policy.generation.mcore_generation_config.buffer_guaranteed_fraction "
            "policy.generation.mcore_generation_config.buffer_size_gb "
            "policy.generation.mcore_generation_config.context_parallel_size "
            "policy.generation.mcore_generation_config.cuda_graph_impl "
            "policy.generation.mcore_generation_config.enable_chunked_prefill "
            "policy.generation.mcore_generation_config.enable_prefix_caching "
            "policy.generation.mcore_generation_config.expert_tensor_parallel_size "
            "policy.generation.mcore_generation_config.expose_http_server "
            "policy.generation.mcore_generation_config.inference_cuda_graph_scope "
            "policy.generation.mcore_generation_config.inference_grouped_gemm_backend "
            "policy.generation.mcore_generation_config.kv_cache_management_mode "
            "policy.generation.mcore_generation_config.mamba_inference_ssm_states_dtype "
            "policy.generation.mcore_generation_config.materialize_only_last_token_logits "
            "policy.generation.mcore_generation_config.max_model_len "
            "policy.generation.mcore_generation_config.moe_router_group_topk "
            "policy.generation.mcore_generation_config.moe_router_num_groups "
            "policy.generation.mcore_generation_config.num_cuda_graphs "
            "policy.generation.mcore_generation_config.parsers "
            "policy.generation.mcore_generation_config.refit_backend "
            "policy.generation.mcore_generation_config.sequence_parallel "
            "policy.generation.mcore_generation_config.transformer_impl "
            "policy.generation.mcore_generation_config.unified_memory_level "
            "policy.generation.mcore_generation_config.use_cuda_graphs_for_non_decode_steps",
            "how engines are started and sampled from changes no phase"),
	LK_NOTE("policy.generation.mcore_generation_config.num_speculative_tokens", unfilled),
	LK_SKIP("policy.generation.vllm_cfg.* policy.generation.vllm_kwargs "
            "policy.generation.vllm_kwargs.* policy.generation.sglang_cfg.* "
            "policy.generation.trtllm_cfg.* policy.generation.trtllm_kwargs.* "
            "policy.generation.dynamo_cfg.*",
            other_engine),
	LK_KEYS_END};

/* Of files that train alone. */
static const lk_key no_rollout[] = {
	LK_SKIP("policy.generation policy.generation.*", "nothing is generated"), LK_KEYS_END};

static const lk_key *nemo_rl_engine(const lk_config *config) {
	const char *name = lk_config_text(lk_config_at(config->root, "policy.generation.backend"));
	if (name && strcmp(name, "sglang") == 0) return rollout_sglang;
	if (name && strcmp(name, "trtllm") == 0) return rollout_tensorrt;
	if (name && strcmp(name, "megatron") == 0) return rollout_megatron;
	return rollout_vllm;
}

static const lk_pair graphs[] = {
	{"none", "off"}, {"local", "on"}, {"transformer_engine", "on"}, {NULL, NULL}};

static const lk_key tensor[] = {
	LK_FACT("policy.dtensor_cfg.tensor_parallel_size", "tp"),
	LK_FACT("policy.dtensor_cfg.context_parallel_size", "cp"),
	LK_FACT("policy.dtensor_cfg.expert_parallel_size", "ep"),
	LK_FACT("policy.dtensor_cfg.dp_replicate_size", "dp_replicate"),
	LK_FACT("policy.dtensor_cfg.sequence_parallel", "sequence_parallel"),
	LK_FACT("policy.dtensor_cfg.activation_checkpointing", "recompute_text"),
	LK_FACT("policy.dtensor_cfg.cpu_offload", "host_shards"),
	LK_FACT("policy.dtensor_cfg.automodel_kwargs.attn_implementation", "attention_name"),
	LK_WORDS("policy.dtensor_cfg.automodel_kwargs.backend.dispatcher", "dispatcher",
             lk_pairs_dispatcher),
	LK_WORDS("policy.dtensor_cfg.automodel_kwargs.backend.enable_deepep", "dispatcher",
             lk_pairs_deepep),
	LK_FACT("policy.dtensor_cfg.automodel_kwargs.freeze_config.freeze_vision_tower",
            "freeze_tower"),
	LK_FACT("policy.dtensor_cfg.lora_cfg.enabled", "adapter"),
	LK_FACT("policy.dtensor_cfg.lora_cfg.dim", "lora_rank"),
	LK_SKIP("policy.dtensor_cfg._v2 policy.dtensor_cfg.automodel_kwargs "
            "policy.dtensor_cfg.automodel_kwargs.backend._target_ "
            "policy.dtensor_cfg.automodel_kwargs.backend.enable_fsdp_optimizations "
            "policy.dtensor_cfg.automodel_kwargs.backend.enable_hf_state_dict_adapter "
            "policy.dtensor_cfg.automodel_kwargs.force_hf "
            "policy.dtensor_cfg.automodel_kwargs.use_sdpa_patching "
            "policy.dtensor_cfg.clear_cache_every_n_steps policy.dtensor_cfg.custom_parallel_plan "
            "policy.dtensor_cfg.env_vars policy.dtensor_cfg.env_vars.* "
            "policy.dtensor_cfg.moe_parallelizer.ignore_router_for_ac",
            "it changes no work of the step"),
	LK_SKIP("policy.dtensor_cfg.automodel_kwargs.backend.attn "
            "policy.dtensor_cfg.automodel_kwargs.backend.experts "
            "policy.dtensor_cfg.automodel_kwargs.backend.linear "
            "policy.dtensor_cfg.automodel_kwargs.backend.rms_norm "
            "policy.dtensor_cfg.automodel_kwargs.backend.rope_fusion "
            "policy.dtensor_cfg.automodel_kwargs.backend.fake_balanced_gate "
            "policy.dtensor_cfg.automodel_kwargs.backend.gate_precision "
            "policy.dtensor_cfg.automodel_kwargs.use_liger_kernel",
            "kernels are those of the software that lockstep knows"),
	LK_SKIP("policy.dtensor_cfg.lora_cfg.alpha policy.dtensor_cfg.lora_cfg.dropout "
            "policy.dtensor_cfg.lora_cfg.dropout_position "
            "policy.dtensor_cfg.lora_cfg.exclude_modules policy.dtensor_cfg.lora_cfg.lora_A_init "
            "policy.dtensor_cfg.lora_cfg.match_all_linear "
            "policy.dtensor_cfg.lora_cfg.target_modules policy.dtensor_cfg.lora_cfg.use_triton",
            "adapters are priced as LoRA of all linear layers"),
	LK_NOTE("policy.dtensor_cfg.automodel_kwargs.freeze_config.freeze_language_model "
            "policy.dtensor_cfg.automodel_kwargs.freeze_config.freeze_audio_tower",
            "it is priced as trained"),
	LK_SKIP("policy.megatron_cfg.*", "dtensor_cfg trains"),
	LK_KEYS_END};

static const lk_key megatron[] = {
	LK_FACT("policy.megatron_cfg.tensor_model_parallel_size", "tp"),
	LK_FACT("policy.megatron_cfg.pipeline_model_parallel_size", "pp"),
	LK_FACT("policy.megatron_cfg.context_parallel_size", "cp"),
	LK_FACT("policy.megatron_cfg.expert_model_parallel_size", "ep"),
	LK_FACT("policy.megatron_cfg.expert_tensor_parallel_size", "etp"),
	LK_FACT("policy.megatron_cfg.sequence_parallel", "sequence_parallel"),
	LK_FACT("policy.megatron_cfg.activation_checkpointing", "recompute_text"),
	LK_FACT("policy.megatron_cfg.num_layers_in_first_pipeline_stage", "first_stage_layers"),
	LK_FACT("policy.megatron_cfg.num_layers_in_last_pipeline_stage", "last_stage_layers"),
	LK_FACT("policy.megatron_cfg.pipeline_dtype", "format"),
	LK_FACT("policy.megatron_cfg.optimizer.optimizer", "optimizer_name"),
	LK_FACT("policy.megatron_cfg.optimizer.optimizer_cpu_offload", "offload_optimizer"),
	LK_WORDS("policy.megatron_cfg.use_fused_linear_logprobs", "loss", lk_pairs_linear),
	LK_WORDS("policy.megatron_cfg.use_linear_ce_fusion_loss", "loss", lk_pairs_linear),
	LK_FACT("policy.megatron_cfg.peft.enabled", "adapter"),
	LK_FACT("policy.megatron_cfg.peft.dim", "lora_rank"),
	LK_FACT("policy.megatron_cfg.fp8_cfg.enabled", "fp8"),
	LK_WORDS("policy.megatron_cfg.moe_token_dispatcher_type", "dispatcher", lk_pairs_dispatcher),
	LK_WORDS("policy.megatron_cfg.moe_enable_deepep", "dispatcher", lk_pairs_deepep),
	LK_FACT("policy.megatron_cfg.moe_hybridep_num_sms", "dispatch_sms"),
	LK_FACT("policy.megatron_cfg.moe_grouped_gemm", "grouped_gemm"),
	LK_WORDS("policy.megatron_cfg.attention_backend", "attention_name", lk_pairs_kernels),
	LK_WORDS("policy.megatron_cfg.cuda_graph_impl", "cuda_graphs", graphs),
	LK_FACT("policy.megatron_cfg.virtual_pipeline_model_parallel_size", "vp"),
	LK_FACT("policy.megatron_cfg.account_for_embedding_in_pipeline_split", "account_embedding"),
	LK_FACT("policy.megatron_cfg.account_for_loss_in_pipeline_split", "account_loss"),
	LK_FACT("policy.megatron_cfg.freeze_vision_model", "freeze_tower"),
	LK_FACT("policy.megatron_cfg.freeze_config.freeze_vision_model", "freeze_tower"),
	LK_NOTE("policy.megatron_cfg.mtp_num_layers",
            "prediction of several tokens is priced as the network states it"),
	LK_NOTE("policy.megatron_cfg.fine_grained_activation_offloading",
            "what single modules keep stays on the device"),
	LK_WORDS("policy.megatron_cfg.distributed_data_parallel_config.overlap_grad_reduce",
             "overlap_grad_reduce", lk_pairs_switch),
	LK_WORDS("policy.megatron_cfg.distributed_data_parallel_config.overlap_param_gather",
             "overlap_param_gather", lk_pairs_switch),
	LK_WORDS("policy.megatron_cfg.distributed_data_parallel_config.grad_reduce_in_fp32",
             "grad_reduce_fp32", lk_pairs_switch),
	LK_RULE("policy.megatron_cfg.recompute_granularity"),
	LK_RULE("policy.megatron_cfg.fp8_cfg.fp8_recipe"),
	LK_RULE("policy.megatron_cfg.fp8_cfg.fp8_param"),
	LK_RULE("policy.megatron_cfg.first_last_layers_bf16"),
	LK_RULE("policy.megatron_cfg.num_layers_at_start_in_bf16"),
	LK_RULE("policy.megatron_cfg.num_layers_at_end_in_bf16"),
	LK_RULE("policy.megatron_cfg.defer_fp32_logits"),
	LK_RULE("policy.megatron_cfg.optimizer.use_distributed_optimizer"),
	LK_RULE("policy.megatron_cfg.distributed_data_parallel_config.use_custom_fsdp"),
	LK_SKIP("policy.megatron_cfg._override_ policy.megatron_cfg.apply_rope_fusion "
            "policy.megatron_cfg.bias_activation_fusion "
            "policy.megatron_cfg.use_fused_weighted_squared_relu "
            "policy.megatron_cfg.gradient_accumulation_fusion "
            "policy.megatron_cfg.moe_permute_fusion policy.megatron_cfg.moe_shared_expert_overlap "
            "policy.megatron_cfg.moe_flex_dispatcher_backend "
            "policy.megatron_cfg.fused_linear_logprobs_chunk_size "
            "policy.megatron_cfg.cuda_graph_modules policy.megatron_cfg.cuda_graph_scope "
            "policy.megatron_cfg.cuda_graph_warmup_steps",
            "kernels are those of the software that lockstep knows"),
	LK_SKIP("policy.megatron_cfg.calculate_per_token_loss policy.megatron_cfg.do_not_average_loss "
            "policy.megatron_cfg.scale_loss_by_dp_cp_size policy.megatron_cfg.cp_normalize "
            "policy.megatron_cfg.moe_aux_loss_coeff "
            "policy.megatron_cfg.moe_router_bias_update_rate policy.megatron_cfg.moe_router_dtype "
            "policy.megatron_cfg.moe_router_enable_expert_bias "
            "policy.megatron_cfg.moe_router_load_balancing_type "
            "policy.megatron_cfg.freeze_moe_router policy.megatron_cfg.mtp_detach_heads "
            "policy.megatron_cfg.mtp_loss_scaling_factor "
            "policy.megatron_cfg.mtp_use_repeated_layer "
            "policy.megatron_cfg.radio_force_cpe_eval_mode policy.megatron_cfg.fp8_cfg.fp8",
            LK_WHY_NUMBERS),
	LK_SKIP("policy.megatron_cfg.checkpoint.* policy.megatron_cfg.converter_type "
            "policy.megatron_cfg.force_reconvert_from_hf",
            LK_WHY_SAVING),
	LK_SKIP("policy.megatron_cfg.clear_memory_caches_before_refit "
            "policy.megatron_cfg.empty_unused_memory_level policy.megatron_cfg.env_vars "
            "policy.megatron_cfg.env_vars.* policy.megatron_cfg.use_gloo_process_groups "
            "policy.megatron_cfg.gtp_remat",
            LK_WHY_START),
	LK_SKIP("policy.megatron_cfg.moe_per_layer_logging policy.megatron_cfg.track_moe_metrics",
            LK_WHY_LOGGING),
	LK_SKIP("policy.megatron_cfg.train_iters", LK_WHY_LENGTH),
	LK_SKIP("policy.megatron_cfg.scheduler.* policy.megatron_cfg.optimizer.adam_beta1 "
            "policy.megatron_cfg.optimizer.adam_beta2 policy.megatron_cfg.optimizer.adam_eps "
            "policy.megatron_cfg.optimizer.clip_grad policy.megatron_cfg.optimizer.lr "
            "policy.megatron_cfg.optimizer.min_lr policy.megatron_cfg.optimizer.sgd_momentum "
            "policy.megatron_cfg.optimizer.weight_decay "
            "policy.megatron_cfg.optimizer.muon_momentum "
            "policy.megatron_cfg.optimizer.muon_scale_mode",
            LK_WHY_RATE),
	LK_SKIP("policy.megatron_cfg.optimizer.bf16 policy.megatron_cfg.optimizer.fp16 "
            "policy.megatron_cfg.optimizer.params_dtype "
            "policy.megatron_cfg.optimizer.use_precision_aware_optimizer "
            "policy.megatron_cfg.optimizer.optimizer_offload_fraction "
            "policy.megatron_cfg.optimizer.overlap_cpu_optimizer_d2h_h2d",
            "see the precision and optimizer_cpu_offload"),
	LK_SKIP("policy.megatron_cfg.distributed_data_parallel_config.average_in_collective "
            "policy.megatron_cfg.distributed_data_parallel_config.data_parallel_sharding_strategy",
            "see use_distributed_optimizer"),
	LK_SKIP("policy.megatron_cfg.offload_modules", "see fine_grained_activation_offloading"),
	LK_SKIP("policy.megatron_cfg.recompute_modules",
            "selective recomputation is that of attention"),
	LK_SKIP("policy.megatron_cfg.peft.a2a_experimental policy.megatron_cfg.peft.alpha "
            "policy.megatron_cfg.peft.dropout policy.megatron_cfg.peft.dropout_position "
            "policy.megatron_cfg.peft.exclude_modules policy.megatron_cfg.peft.lora_A_init_method "
            "policy.megatron_cfg.peft.lora_B_init_method policy.megatron_cfg.peft.lora_dtype "
            "policy.megatron_cfg.peft.target_modules",
            "adapters are priced as LoRA of all linear layers"),
	LK_NOTE("policy.megatron_cfg.freeze_vision_projection "
            "policy.megatron_cfg.freeze_config.freeze_vision_projection "
            "policy.megatron_cfg.freeze_sound_encoder policy.megatron_cfg.freeze_sound_projection "
            "policy.megatron_cfg.freeze_config.freeze_language_model",
            "it is priced as trained"),
	LK_NOTE("policy.megatron_cfg.model_overrides policy.megatron_cfg.model_overrides.*",
            "the network is that of its name"),
	LK_SKIP("policy.dtensor_cfg.*", "megatron_cfg trains"),
	LK_KEYS_END};

static bool nemo_rl_is(const lk_value *root) {
	return lk_config_at(root, "policy.model_name") ||
	       (lk_config_at(root, "policy") && lk_config_at(root, "cluster"));
}

static int nemo_rl_whole(const lk_config *config, const char *path) {
	const lk_value *value = lk_config_at(config->root, path);
	bool fits = value && value->kind == LK_JSON_NUMBER && value->number >= 0 &&
	            value->number <= LK_JOB_GPUS;
	return fits ? (int)value->number : 0;
}

/* The network that is distilled: the section of the teacher, which runs on the GPUs that train; or
 * teachers by agents, each on GPUs of its own. Checkpoints that several agents name are loaded
 * once; a sequence is read by one of them, so that all of them take the time of one with their
 * GPUs. */
static void nemo_rl_teacher(const lk_config *config, lk_draft *draft) {
	lk_launch_rollout *out = &draft->rollout;
	const char *name = lk_config_text(lk_config_at(config->root, "teacher.model_name"));
	bool core = lk_config_on(config->root, "teacher.megatron_cfg.enabled");
	if (lk_config_at(config->root, "distillation") && name) {
		lk_copy(out->teacher, sizeof out->teacher, name);
		out->teacher_tp =
			nemo_rl_whole(config, core ? "teacher.megatron_cfg.tensor_model_parallel_size"
		                               : "teacher.dtensor_cfg.tensor_parallel_size");
	}
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
static lk_status nemo_rl_gpus(const lk_config *config, lk_draft *draft) {
	const char *colocated =
		lk_config_text(lk_config_at(config->root, "policy.generation.colocated.enabled"));
	nemo_rl_teacher(config, draft);
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
	int64_t left = nodes * per_node - away - draft->rollout.teacher_gpus;
	if (left <= 0 || left > LK_JOB_GPUS) return LK_OK;
	draft->all_gpus = (int)left;
	draft->rollout.gpus = (int)away;
	return lk_launch_assume(config->reading, "%lld of %lld %s train, the others generate%s",
	                        (long long)left, (long long)(nodes * per_node),
	                        lk_noun(nodes * per_node, "GPU", "GPUs"),
	                        draft->rollout.teacher_gpus ? " or hold teachers" : "");
}

/* What the section of the algorithm says; the reading gets its rollout when the job is done. */
static void nemo_rl_rollout(const lk_config *config, bool core, lk_draft *draft) {
	lk_launch_rollout *out = &draft->rollout;
	const lk_value *section = lk_config_at(config->root, "grpo");
	const char *task = "grpo", *age = "grpo.async_grpo.max_trajectory_age_steps";
	bool ahead = lk_config_on(config->root, "grpo.async_grpo.enabled");
	if (!section) {
		section = lk_config_at(config->root, "ppo"), task = "ppo";
		age = "ppo.async_ppo.max_trajectory_age_steps";
		ahead = lk_config_on(config->root, "ppo.async_ppo.enabled");
	}
	if (!section) {
		section = lk_config_at(config->root, "distillation"), task = "distill";
		ahead = false;
	}
	if (!section || !lk_config_at(config->root, "policy.generation")) return;
	out->full_rows = draft->packing && draft->job.pp > 1;
	/* Megatron-LM's buffers of weights are copied into pinned memory, which is kept
	 * (ParamAndGradBuffer.offload_to_cpu); what else is moved is moved tensor by tensor */
	out->pinned_params = core;
	/* without a teacher of its own, the policy before it was quantised */
	if (strcmp(task, "distill") == 0 && !*out->teacher)
		lk_copy(out->teacher, sizeof out->teacher, "policy");
	if (strcmp(task, "ppo") != 0) out->critic[0] = '\0';
	out->padded = !draft->packing && !lk_config_on(config->root, "policy.dynamic_batching.enabled");
	lk_copy(out->task, sizeof out->task, task);
	if (ahead) out->lag = nemo_rl_whole(config, age) > 1 ? nemo_rl_whole(config, age) : 1;
	/* more prompts are written than are kept, where those without a signal are thrown away */
	const lk_value *more = lk_config_at(section, "batch_multiplier");
	if (lk_config_on(section, "use_dynamic_sampling") && more && more->kind == LK_JSON_NUMBER)
		out->oversample = more->number;
	if (lk_config_on(config->root, "policy.generation.vllm_cfg.is_mx") && *out->format)
		lk_copy(out->format, sizeof out->format, "mxfp8");
	/* Megatron's engine has the layout of the training where nothing else is said */
	if (core && nemo_rl_engine(config) == rollout_megatron && out->tp == 0)
		out->tp = draft->job.tp, out->ep = draft->job.ep;
}

/* Formats and sharding of Megatron-LM's part, by several keys together. */
static void nemo_rl_core(const lk_config *config, lk_draft *draft) {
#define CORE "policy.megatron_cfg."
	lk_job *job = &draft->job;
	const char *recipe = lk_config_text(lk_config_at(config->root, CORE "fp8_cfg.fp8_recipe"));
	const lk_value *chunk = lk_config_at(config->root, "policy.logprob_chunk_size");
	bool fp8 = draft->fp8 && recipe;
	if (fp8 && strcmp(recipe, "mxfp8") == 0) {
		job->dtype = LK_MXFP8;
		job->dtype_said = true;
	} else if (fp8) {
		job->fp8_recipe = strcmp(recipe, "blockwise") == 0 ? LK_FP8_BLOCKWISE : job->fp8_recipe;
		if (strcmp(recipe, "tensorwise") == 0) job->fp8_recipe = LK_FP8_TENSORWISE;
	}
	job->narrow_weights = fp8 && lk_config_on(config->root, CORE "fp8_cfg.fp8_param");
	if (fp8 && lk_config_on(config->root, CORE "first_last_layers_bf16")) {
		job->wide_first = nemo_rl_whole(config, CORE "num_layers_at_start_in_bf16");
		job->wide_last = nemo_rl_whole(config, CORE "num_layers_at_end_in_bf16");
	}
	/* logits stay in 16 bits, and their loss is made a chunk at a time */
	if (job->loss == LK_LOSS_LOGITS && lk_config_on(config->root, CORE "defer_fp32_logits") &&
	    chunk && chunk->kind == LK_JSON_NUMBER)
		job->fused_cross_entropy = LK_ON;
	const char *whole =
		lk_config_text(lk_config_at(config->root, CORE "optimizer.use_distributed_optimizer"));
	draft->zero = whole && strcmp(whole, "false") == 0 ? 1 : 2;
	if (lk_config_on(config->root, CORE "distributed_data_parallel_config.use_custom_fsdp"))
		draft->zero = 3 + 1;
	lk_copy(job->stack, sizeof job->stack, "megatron");
#undef CORE
}

static lk_status nemo_rl_translate(const lk_config *config, lk_words *words) {
	bool core = lk_config_on(config->root, "policy.megatron_cfg.enabled");
	bool rolls = !lk_config_at(config->root, "dpo");
	const lk_key *const phases[] = {core ? megatron : tensor, rollout, nemo_rl_engine(config),
	                                common, NULL};
	const lk_key *const alone[] = {core ? megatron : tensor, no_rollout, common, NULL};
	lk_draft draft = {0};
	(void)words;
	LK_TRY(lk_draft_read(config, rolls ? phases : alone, &draft));
	LK_TRY(nemo_rl_gpus(config, &draft));
	lk_job *job = &draft.job;
	if (!draft.adapter) job->lora_rank = 0;
	/* nemo_rl/algorithms/dpo.py doubles both batches: a sample is a pair */
	draft.pairs = job->dpo = lk_config_at(config->root, "dpo") != NULL;
	if (core) {
		nemo_rl_core(config, &draft);
		const char *granularity =
			lk_config_text(lk_config_at(config->root, "policy.megatron_cfg.recompute_granularity"));
		if (lk_config_on(config->root, "policy.megatron_cfg.activation_checkpointing") &&
		    granularity)
			lk_copy(draft.recompute_text, sizeof draft.recompute_text, granularity);
	} else {
		lk_copy(draft.fsdp, sizeof draft.fsdp, "full_shard");
	}
	if (!*draft.format) draft.bf16 = true;
	config->reading->out->samples =
		strstr(config->file, "vlm") ? LK_SAMPLES_IMAGES : LK_SAMPLES_TEXTS;
	nemo_rl_rollout(config, core, &draft);
	if (!*draft.rollout.task && lk_config_at(config->root, "policy.generation"))
		LK_TRY(lk_launch_assume(config->reading, "the training part of a step alone: generation "
		                                         "and the teacher's scores are not priced"));
	LK_TRY(lk_draft_finish(config, &draft));
	return lk_draft_rollout(config, &draft);
}

const lk_framework lk_framework_nemo_rl = {"nemo-rl", nemo_rl_is, NULL, nemo_rl_translate};
