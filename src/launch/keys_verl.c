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

#include "base/text.h"
#include "launch/config.h"

/* Defaults of verl's own files; "ulysses" splits sequences over GPUs. */
static const char verl_defaults[] =
	"data: {train_batch_size: 1024, max_prompt_length: 512, max_response_length: 512}\n"
	"actor_rollout_ref:\n"
	"  model: {enable_gradient_checkpointing: true}\n"
	"  actor: {strategy: fsdp, ppo_mini_batch_size: 256, ppo_max_token_len_per_gpu: 16384}\n"
	"  rollout: {name: vllm, n: 1, tensor_model_parallel_size: 2, gpu_memory_utilization: 0.5,\n"
	"            max_num_batched_tokens: 8192, max_num_seqs: 1024}\n"
	"algorithm: {adv_estimator: gae}\n"
	"trainer: {nnodes: 1, n_gpus_per_node: 8}\n";

#define MODEL       "actor_rollout_ref.model."
#define ACTOR       "actor_rollout_ref.actor."
#define CORE        ACTOR "megatron."
#define DDP         CORE "override_ddp_config."
#define TRANSFORMER CORE "override_transformer_config."
#define ROLLOUT     "actor_rollout_ref.rollout."
#define REF         "actor_rollout_ref.ref."

static const lk_pair wide_formats[] = {{"bfloat16", ""}, {"bf16", ""}, {"auto", ""}, {NULL, NULL}};
static const lk_pair moved[] = {{"true", "1"}, {"false", "-1"}, {NULL, NULL}};

/* Reasons of verl's own. */
static const char as_policy[] = "the reference is laid out as the policy",
				  as_actor[] = "the critic is laid out as the policy",
				  passes[] = "passes of log-probabilities have the micro-batches of the training",
				  served[] = "how engines are started and reached changes no phase",
				  sampled[] = "what is sampled and scored changes no work";

static const lk_key data_keys[] = {LK_FACT("data.train_batch_size", "rollout_prompts"),
                                   LK_FACT("data.max_prompt_length", "rollout_prompt"),
                                   LK_FACT("data.max_response_length", "rollout_response"),
                                   LK_RULE("data.gen_batch_size"),
                                   LK_SKIP("data.val_batch_size", LK_WHY_EVAL),
                                   LK_SKIP("data.train_files*", LK_WHY_DATA),
                                   LK_SKIP("data.val_files*", LK_WHY_DATA),
                                   LK_SKIP("data.train_max_samples", LK_WHY_DATA),
                                   LK_SKIP("data.val_max_samples", LK_WHY_EVAL),
                                   LK_SKIP("data.tokenizer*", LK_WHY_DATA),
                                   LK_SKIP("data.use_shm", LK_WHY_DATA),
                                   LK_SKIP("data.cache_dir", LK_WHY_DATA),
                                   LK_SKIP("data.prompt_key", LK_WHY_DATA),
                                   LK_SKIP("data.prompt_dict_keys", LK_WHY_DATA),
                                   LK_SKIP("data.response_key", LK_WHY_DATA),
                                   LK_SKIP("data.response_dict_keys", LK_WHY_DATA),
                                   LK_SKIP("data.reward_fn_key", LK_WHY_DATA),
                                   LK_SKIP("data.image_key", LK_WHY_DATA),
                                   LK_SKIP("data.video_key", LK_WHY_DATA),
                                   LK_SKIP("data.audio_key", LK_WHY_DATA),
                                   LK_SKIP("data.image_patch_size", LK_WHY_DATA),
                                   LK_SKIP("data.return_*", LK_WHY_DATA),
                                   LK_SKIP("data.need_tools_kwargs", LK_WHY_DATA),
                                   LK_SKIP("data.tool_config_path", LK_WHY_DATA),
                                   LK_SKIP("data.shuffle", LK_WHY_DATA),
                                   LK_SKIP("data.validation_shuffle", LK_WHY_DATA),
                                   LK_SKIP("data.seed", LK_WHY_DATA),
                                   LK_SKIP("data.dataloader_num_workers", LK_WHY_DATA),
                                   LK_SKIP("data.filter_*", LK_WHY_DATA),
                                   LK_SKIP("data.truncation", LK_WHY_DATA),
                                   LK_SKIP("data.chat_template*", LK_WHY_DATA),
                                   LK_SKIP("data.apply_chat_template_kwargs*", LK_WHY_DATA),
                                   LK_SKIP("data.trust_remote_code", LK_WHY_DATA),
                                   LK_SKIP("data.custom_cls*", LK_WHY_DATA),
                                   LK_SKIP("data.sampler*", LK_WHY_DATA),
                                   LK_SKIP("data.datagen*", LK_WHY_DATA),
                                   LK_SKIP("data.mcp_server*", LK_WHY_DATA),
                                   LK_KEYS_END};

static const lk_key model_keys[] = {
	LK_FACT(MODEL "path", "network_name"),
	LK_FACT(MODEL "enable_gradient_checkpointing", "recompute_text"),
	LK_FACT(MODEL "lora_rank", "lora_rank"),
	LK_RULE(MODEL "lora.rank"),
	LK_FACT(MODEL "enable_activation_offload", "host_activations"),
	LK_WORDS(MODEL "use_fused_kernels", "loss", lk_pairs_linear),
	LK_WORDS(MODEL "use_remove_padding", "rollout_padded", lk_pairs_opposite),
	LK_WORDS(MODEL "use_liger", "eager", lk_pairs_fuses),
	LK_SKIP(MODEL "fused_kernel_options*", "see use_fused_kernels"),
	LK_SKIP(MODEL "lora*", "how adapters are computed and scaled changes no shape"),
	LK_NOTE(MODEL "target_modules", "adapters are priced on all linear layers"),
	LK_NOTE(MODEL "target_parameters", "adapters are priced on all linear layers"),
	LK_NOTE(MODEL "exclude_modules", "adapters are priced on all linear layers"),
	LK_NOTE(MODEL "override_config*", "the network is that of its name"),
	LK_NOTE(MODEL "mtp*", "prediction of several tokens is priced as the network states it"),
	LK_NOTE(MODEL "tiled_mlp*", "MLPs are priced over whole sequences"),
	LK_SKIP(MODEL "_target_", LK_WHY_START),
	LK_SKIP(MODEL "model_type", LK_WHY_START),
	LK_SKIP(MODEL "hf_config_path", LK_WHY_START),
	LK_SKIP(MODEL "local_path", LK_WHY_START),
	LK_SKIP(MODEL "tokenizer_path", LK_WHY_DATA),
	LK_SKIP(MODEL "load_tokenizer", LK_WHY_DATA),
	LK_SKIP(MODEL "custom_chat_template", LK_WHY_DATA),
	LK_SKIP(MODEL "use_shm", LK_WHY_START),
	LK_SKIP(MODEL "external_lib", LK_WHY_START),
	LK_SKIP(MODEL "trust_remote_code", LK_WHY_START),
	LK_KEYS_END};

static const lk_key actor_keys[] = {
	LK_FACT(ACTOR "strategy", "strategy"),
	LK_RULE(ACTOR "ppo_mini_batch_size"),
	LK_FACT(ACTOR "ppo_micro_batch_size_per_gpu", "mbs"),
	LK_FACT(ACTOR "ppo_micro_batch_size", "mbs_of_all"),
	LK_RULE(ACTOR "use_dynamic_bsz"),
	LK_RULE(ACTOR "ppo_max_token_len_per_gpu"),
	LK_FACT(ACTOR "ppo_epochs", "rollout_epochs"),
	LK_FACT(ACTOR "ulysses_sequence_parallel_size", "cp"),
	LK_RULE(ACTOR "use_kl_loss"),
	LK_FACT(ACTOR "optim.optimizer", "optimizer_name"),
	LK_FACT(ACTOR "optim.override_optimizer_config.optimizer_cpu_offload", "offload_optimizer"),
	LK_NOTE(ACTOR "optim.override_optimizer_config.optimizer_offload_fraction",
            "an optimizer that is offloaded is so whole"),
	LK_SKIP(ACTOR "optim*", LK_WHY_RATE),
	LK_FACT(ACTOR "freeze_vision_tower", "freeze_tower"),
	LK_WORDS(ACTOR "fsdp_config.param_offload", "rollout_keep_params", lk_pairs_opposite),
	LK_WORDS(ACTOR "fsdp_config.optimizer_offload", "rollout_keep_optimizer", lk_pairs_opposite),
	LK_SKIP(ACTOR "fsdp_config.grad_offload", "gradients are freed while engines run"),
	LK_FACT(ACTOR "fsdp_config.offload_policy", "host_shards"),
	LK_FACT(ACTOR "fsdp_config.fsdp_size", "dp_shard"),
	LK_WORDS(ACTOR "fsdp_config.reshard_after_forward", "reshard_off", lk_pairs_opposite),
	LK_RULE(ACTOR "fsdp_config.model_dtype"),
	LK_FACT(ACTOR "fsdp_config.dtype", "format"),
	LK_FACT(ACTOR "fsdp_config.mixed_precision.param_dtype", "format"),
	LK_WORDS(ACTOR "fsdp_config.mixed_precision.reduce_dtype", "grad_reduce_fp32",
             lk_pairs_reduced),
	LK_SKIP(ACTOR "fsdp_config.mixed_precision*", LK_WHY_NUMBERS),
	LK_SKIP(ACTOR "fsdp_config.ulysses_sequence_parallel_size",
            "see actor_rollout_ref.actor.ulysses_sequence_parallel_size"),
	LK_SKIP(ACTOR "fsdp_config.wrap_policy*",
            "how layers are wrapped: units of one layer are taken"),
	LK_SKIP(ACTOR "fsdp_config.forward_prefetch", "parameters are fetched one unit in advance"),
	LK_SKIP(ACTOR "fsdp_config.use_orig_params", LK_WHY_START),
	LK_SKIP(ACTOR "fsdp_config.seed", LK_WHY_NUMBERS),
	LK_SKIP(ACTOR "fsdp_config.full_determinism", LK_WHY_NUMBERS),
	LK_SKIP(ACTOR "fsdp_config.forward_only", "see actor_rollout_ref.ref"),
	LK_SKIP(ACTOR "fsdp_config.strategy", "see actor_rollout_ref.actor.strategy"),
	LK_SKIP(ACTOR "fsdp_config.entropy*", "see entropy_checkpointing"),
	LK_SKIP(ACTOR "fsdp_config.use_torch_compile", "it compiles the entropy alone"),
	LK_SKIP(ACTOR "fsdp_config._target_", LK_WHY_START),
	LK_NOTE(ACTOR "entropy_checkpointing", "what the entropy keeps is that of the loss"),
	LK_NOTE(ACTOR "entropy_from_logits_with_chunking", "logits are held whole"),
	LK_SKIP(ACTOR "use_torch_compile", "it compiles the entropy alone"),
	LK_NOTE(ACTOR "use_prefix_grouper", "every sequence reads its own prompt"),
	LK_NOTE(ACTOR "router_replay.mode", "experts are those that the router chooses"),
	LK_SKIP(ACTOR "router_replay*", "see router_replay.mode"),
	LK_SKIP(ACTOR "use_fused_kernels", "see actor_rollout_ref.model.use_fused_kernels"),
	LK_SKIP(ACTOR "use_remove_padding", "see actor_rollout_ref.model.use_remove_padding"),
	LK_SKIP(ACTOR "clip*", sampled),
	LK_SKIP(ACTOR "tau_*", sampled),
	LK_SKIP(ACTOR "policy_loss*", sampled),
	LK_SKIP(ACTOR "loss_agg_mode", sampled),
	LK_SKIP(ACTOR "loss_scale_factor", sampled),
	LK_SKIP(ACTOR "entropy_coeff", sampled),
	LK_SKIP(ACTOR "calculate_entropy", sampled),
	LK_SKIP(ACTOR "calculate_sum_pi_squared", sampled),
	LK_SKIP(ACTOR "sum_pi_squared_checkpointing", sampled),
	LK_SKIP(ACTOR "kl_loss_coef", sampled),
	LK_SKIP(ACTOR "kl_loss_type", sampled),
	LK_SKIP(ACTOR "grad_clip", LK_WHY_RATE),
	LK_SKIP(ACTOR "shuffle", LK_WHY_DATA),
	LK_SKIP(ACTOR "data_loader_seed", LK_WHY_DATA),
	LK_SKIP(ACTOR "rollout_n", "see actor_rollout_ref.rollout.n"),
	LK_SKIP(ACTOR "checkpoint*", LK_WHY_SAVING),
	LK_SKIP(ACTOR "profiler*", LK_WHY_LOGGING),
	LK_SKIP(ACTOR "load_weight", LK_WHY_START),
	LK_SKIP(ACTOR "nccl_timeout", LK_WHY_START),
	LK_SKIP(ACTOR "use_rollout_log_probs", "see algorithm.rollout_correction.bypass_mode"),
	LK_SKIP(ACTOR "_target_", LK_WHY_START),
	LK_KEYS_END};

static const lk_key core_keys[] = {
	LK_FACT(CORE "tensor_model_parallel_size", "tp"),
	LK_FACT(CORE "pipeline_model_parallel_size", "pp"),
	LK_FACT(CORE "virtual_pipeline_model_parallel_size", "vp"),
	LK_FACT(CORE "context_parallel_size", "cp"),
	LK_FACT(CORE "expert_model_parallel_size", "ep"),
	LK_FACT(CORE "expert_tensor_parallel_size", "etp"),
	LK_FACT(CORE "sequence_parallel", "sequence_parallel"),
	LK_RULE(CORE "use_distributed_optimizer"),
	LK_RULE(CORE "use_megatron_fsdp"),
	LK_WORDS(CORE "param_offload", "rollout_keep_params", lk_pairs_opposite),
	LK_WORDS(CORE "optimizer_offload", "rollout_keep_optimizer", lk_pairs_opposite),
	LK_SKIP(CORE "grad_offload", "gradients are freed while engines run"),
	LK_FACT(CORE "dtype", "format"),
	LK_WORDS(DDP "overlap_grad_reduce", "overlap_grad_reduce", lk_pairs_switch),
	LK_WORDS(DDP "overlap_param_gather", "overlap_param_gather", lk_pairs_switch),
	LK_WORDS(DDP "grad_reduce_in_fp32", "grad_reduce_fp32", lk_pairs_switch),
	LK_SKIP(DDP "*", "how gradients are bucketed changes no work"),
	LK_FACT(TRANSFORMER "recompute_granularity", "recompute_text"),
	LK_FACT(TRANSFORMER "recompute_num_layers", "recompute_layers"),
	LK_SKIP(TRANSFORMER "recompute_method", "blocks and groups of layers cost alike"),
	LK_NOTE(TRANSFORMER "recompute_modules", "selective recomputation is that of attention"),
	LK_FACT(TRANSFORMER "num_layers_in_first_pipeline_stage", "first_stage_layers"),
	LK_FACT(TRANSFORMER "num_layers_in_last_pipeline_stage", "last_stage_layers"),
	LK_FACT(TRANSFORMER "account_for_embedding_in_pipeline_split", "account_embedding"),
	LK_FACT(TRANSFORMER "account_for_loss_in_pipeline_split", "account_loss"),
	LK_WORDS(TRANSFORMER "moe_token_dispatcher_type", "dispatcher", lk_pairs_dispatcher),
	LK_WORDS(TRANSFORMER "moe_enable_deepep", "dispatcher", lk_pairs_deepep),
	LK_FACT(TRANSFORMER "moe_grouped_gemm", "grouped_gemm"),
	LK_WORDS(TRANSFORMER "attention_backend", "attention_name", lk_pairs_kernels),
	LK_NOTE(TRANSFORMER "pipeline_model_parallel_layout", "layers are split evenly"),
	LK_NOTE(TRANSFORMER "fp8*", "the training is in the number format that is stated (--dtype)"),
	LK_SKIP(TRANSFORMER "*", "how layers are computed changes no shape"),
	LK_NOTE(CORE "override_mcore_model_config*", "the network is that of its name"),
	LK_SKIP(CORE "use_dist_checkpointing", LK_WHY_SAVING),
	LK_SKIP(CORE "dist_*", LK_WHY_SAVING),
	LK_SKIP(CORE "use_mbridge", LK_WHY_START),
	LK_SKIP(CORE "vanilla_mbridge", LK_WHY_START),
	LK_SKIP(CORE "use_remove_padding", "see actor_rollout_ref.model.use_remove_padding"),
	LK_SKIP(CORE "forward_only", "see actor_rollout_ref.ref"),
	LK_SKIP(CORE "load_weight", LK_WHY_START),
	LK_SKIP(CORE "seed", LK_WHY_NUMBERS),
	LK_SKIP(CORE "extra*", LK_WHY_START),
	LK_SKIP(CORE "_target_", LK_WHY_START),
	LK_KEYS_END};

static const lk_key rollout_keys[] = {
	LK_FACT(ROLLOUT "name", "rollout_engine"),
	LK_FACT(ROLLOUT "n", "rollout_samples"),
	LK_FACT(ROLLOUT "tensor_model_parallel_size", "rollout_tp"),
	LK_FACT(ROLLOUT "pipeline_model_parallel_size", "rollout_pp"),
	LK_FACT(ROLLOUT "expert_parallel_size", "rollout_ep"),
	LK_SKIP(ROLLOUT "data_parallel_size", "ranks of data parallelism are engines of their own"),
	LK_FACT(ROLLOUT "prompt_length", "rollout_prompt"),
	LK_FACT(ROLLOUT "response_length", "rollout_response"),
	LK_FACT(ROLLOUT "gpu_memory_utilization", "rollout_memory"),
	LK_FACT(ROLLOUT "max_num_seqs", "rollout_batch"),
	LK_FACT(ROLLOUT "max_num_batched_tokens", "rollout_tokens"),
	LK_FACT(ROLLOUT "enforce_eager", "rollout_eager"),
	LK_FACT(ROLLOUT "quantization", "rollout_format"),
	LK_WORDS(ROLLOUT "dtype", "rollout_format", wide_formats),
	LK_WORDS(ROLLOUT "enable_prefix_caching", "rollout_no_prefix_caching", lk_pairs_opposite),
	LK_WORDS(ROLLOUT "free_cache_engine", "rollout_no_sleep", lk_pairs_opposite),
	LK_NOTE(ROLLOUT "multi_turn.enable", "turns of a conversation are one sequence"),
	LK_SKIP(ROLLOUT "multi_turn*", "see multi_turn.enable"),
	LK_NOTE(ROLLOUT "over_sample_rate", "no generated sequence is discarded (--rollout "
                                        "oversample=)"),
	LK_NOTE(ROLLOUT "skip_rollout", "every step generates"),
	LK_NOTE(ROLLOUT "skip.enable", "every step generates"),
	LK_NOTE(ROLLOUT "enable_rollout_routing_replay", "experts are those that the router chooses"),
	LK_NOTE(ROLLOUT "mtp*", "tokens that are guessed are accepted at an unknown rate "
                            "(--speculative)"),
	LK_NOTE(ROLLOUT "engine_kwargs.vllm.speculative_config*",
            "tokens that are guessed are accepted at an unknown rate (--speculative)"),
	LK_FACT(ROLLOUT "engine_kwargs.vllm.kv_cache_dtype", "rollout_kv_format"),
	LK_SKIP(ROLLOUT "engine_kwargs*", served),
	LK_SKIP(ROLLOUT "enable_chunked_prefill", "prompts are read in chunks"),
	LK_SKIP(ROLLOUT "max_model_len", "the longest sequence is that of prompt and response"),
	LK_SKIP(ROLLOUT "log_prob_*", passes),
	LK_SKIP(ROLLOUT "val_kwargs*", LK_WHY_EVAL),
	LK_SKIP(ROLLOUT "temperature", sampled),
	LK_SKIP(ROLLOUT "top_k", sampled),
	LK_SKIP(ROLLOUT "top_p", sampled),
	LK_SKIP(ROLLOUT "repetition_penalty", sampled),
	LK_SKIP(ROLLOUT "do_sample", sampled),
	LK_SKIP(ROLLOUT "ignore_eos", sampled),
	LK_SKIP(ROLLOUT "calculate_log_probs", sampled),
	LK_SKIP(ROLLOUT "logprobs_mode", sampled),
	LK_SKIP(ROLLOUT "mode", served),
	LK_SKIP(ROLLOUT "load_format", served),
	LK_SKIP(ROLLOUT "layered_summon", served),
	LK_SKIP(ROLLOUT "layer_name_map*", served),
	LK_SKIP(ROLLOUT "cudagraph_capture_sizes", served),
	LK_SKIP(ROLLOUT "disable_log_stats", served),
	LK_SKIP(ROLLOUT "scheduling_policy", served),
	LK_SKIP(ROLLOUT "multi_stage_wake_up", served),
	LK_SKIP(ROLLOUT "sleep_level", served),
	LK_SKIP(ROLLOUT "update_weights_bucket_megabytes", served),
	LK_SKIP(ROLLOUT "checkpoint_engine*", served),
	LK_SKIP(ROLLOUT "skip*", served),
	LK_SKIP(ROLLOUT "limit_images", served),
	LK_SKIP(ROLLOUT "quantization_config_file", "see quantization"),
	LK_SKIP(ROLLOUT "chat_scheduler", served),
	LK_SKIP(ROLLOUT "agent*", served),
	LK_SKIP(ROLLOUT "custom*", served),
	LK_SKIP(ROLLOUT "server*", served),
	LK_SKIP(ROLLOUT "nnodes", "see rollout.nnodes"),
	LK_SKIP(ROLLOUT "n_gpus_per_node", "see rollout.n_gpus_per_node"),
	LK_SKIP(ROLLOUT "trace*", LK_WHY_LOGGING),
	LK_SKIP(ROLLOUT "prometheus*", LK_WHY_LOGGING),
	LK_SKIP(ROLLOUT "profiler*", LK_WHY_LOGGING),
	LK_SKIP(ROLLOUT "_target_", LK_WHY_START),
	LK_KEYS_END};

static const lk_key other_keys[] = {
	LK_FACT("trainer.nnodes", "nodes"),
	LK_FACT("trainer.n_gpus_per_node", "per_node"),
	LK_SKIP("trainer.balance_batch", "sequences are spread evenly"),
	LK_SKIP("trainer.total_epochs", LK_WHY_LENGTH),
	LK_SKIP("trainer.total_training_steps", LK_WHY_LENGTH),
	LK_SKIP("trainer.critic_warmup", LK_WHY_LENGTH),
	LK_SKIP("trainer.project_name", LK_WHY_LOGGING),
	LK_SKIP("trainer.experiment_name", LK_WHY_LOGGING),
	LK_SKIP("trainer.logger", LK_WHY_LOGGING),
	LK_SKIP("trainer.log_*", LK_WHY_LOGGING),
	LK_SKIP("trainer.val_*", LK_WHY_EVAL),
	LK_SKIP("trainer.test_freq", LK_WHY_EVAL),
	LK_SKIP("trainer.rollout_data_dir", LK_WHY_LOGGING),
	LK_SKIP("trainer.validation_data_dir", LK_WHY_LOGGING),
	LK_SKIP("trainer.save_freq", LK_WHY_SAVING),
	LK_SKIP("trainer.esi_redundant_time", LK_WHY_SAVING),
	LK_SKIP("trainer.resume_*", LK_WHY_SAVING),
	LK_SKIP("trainer.default_*", LK_WHY_SAVING),
	LK_SKIP("trainer.del_local_ckpt_after_load", LK_WHY_SAVING),
	LK_SKIP("trainer.max_actor_ckpt_to_keep", LK_WHY_SAVING),
	LK_SKIP("trainer.max_critic_ckpt_to_keep", LK_WHY_SAVING),
	LK_SKIP("trainer.remove_*", LK_WHY_SAVING),
	LK_SKIP("trainer.ray_wait_register_center_timeout", LK_WHY_START),
	LK_SKIP("trainer.device", LK_WHY_START),
	LK_SKIP("trainer.use_legacy_worker_impl", LK_WHY_START),
	LK_SKIP("trainer.use_v1", LK_WHY_START),
	LK_SKIP("trainer.profile_*", LK_WHY_LOGGING),
	LK_SKIP("trainer.controller_nsight_options*", LK_WHY_LOGGING),
	LK_SKIP("trainer.worker_nsight_options*", LK_WHY_LOGGING),
	LK_SKIP("trainer.npu_profile*", LK_WHY_LOGGING),
	LK_SKIP("trainer._target_", LK_WHY_START),
	LK_RULE("algorithm.adv_estimator"),
	LK_RULE("algorithm.use_kl_in_reward"),
	LK_FACT("algorithm.rollout_correction.bypass_mode", "rollout_no_policy"),
	LK_SKIP("algorithm.rollout_correction*", sampled),
	LK_SKIP("algorithm.rollout_is*", sampled),
	LK_RULE("algorithm.filter_groups.enable"),
	LK_SKIP("algorithm.filter_groups*", "see algorithm.filter_groups.enable"),
	LK_SKIP("algorithm.gamma", sampled),
	LK_SKIP("algorithm.lam", sampled),
	LK_SKIP("algorithm.norm_adv_by_std_in_grpo", sampled),
	LK_SKIP("algorithm.kl_penalty", sampled),
	LK_SKIP("algorithm.kl_ctrl*", sampled),
	LK_SKIP("algorithm.use_pf_ppo", sampled),
	LK_SKIP("algorithm.pf_ppo*", sampled),
	LK_SKIP("algorithm._target_", LK_WHY_START),
	LK_RULE("rollout.nnodes"),
	LK_RULE("rollout.n_gpus_per_node"),
	LK_SKIP("rollout.total_rollout_steps", LK_WHY_LENGTH),
	LK_SKIP("rollout.n", "see actor_rollout_ref.rollout.n"),
	LK_SKIP("rollout.test_freq", LK_WHY_EVAL),
	LK_NOTE("async_training.staleness_threshold",
            "engines of their own are a step ahead (--rollout "
            "lag=)"),
	LK_NOTE("async_training.partial_rollout", "engines of their own are a step ahead (--rollout "
                                              "lag=)"),
	LK_NOTE("async_training.trigger_parameter_sync_step", "weights are moved once a step"),
	LK_SKIP("async_training*", "see async_training.staleness_threshold"),
	LK_RULE("reward_model.enable"),
	LK_RULE("reward.reward_model.enable"),
	LK_FACT("reward_model.model.path", "rollout_reward_model"),
	LK_FACT("reward.reward_model.model_path", "rollout_reward_model"),
	LK_NOTE("reward_model.enable_resource_pool", "the reward model runs on the GPUs that train"),
	LK_NOTE("reward.reward_model.enable_resource_pool",
            "the reward model runs on the GPUs that train"),
	LK_SKIP("reward_model*", "the reward model runs on the GPUs that train"),
	LK_SKIP("reward*", "rewards take no time (--rollout reward=)"),
	LK_SKIP("custom_reward_function*", "rewards take no time (--rollout reward=)"),
	LK_SKIP("ray_*", LK_WHY_START),
	LK_SKIP("hydra*", LK_WHY_START),
	LK_SKIP("defaults*", LK_WHY_START),
	LK_SKIP("global_profiler*", LK_WHY_LOGGING),
	LK_SKIP("transfer_queue*", LK_WHY_START),
	LK_SKIP("model_engine", LK_WHY_START),
	LK_SKIP("actor_rollout_ref.hybrid_engine", "see rollout.n_gpus_per_node"),
	LK_SKIP("actor_rollout_ref.nccl_timeout", LK_WHY_START),
	LK_WORDS(REF "fsdp_config.param_offload", "rollout_keep_reference", lk_pairs_opposite),
	LK_WORDS(REF "megatron.param_offload", "rollout_keep_reference", lk_pairs_opposite),
	LK_SKIP(REF "log_prob_*", passes),
	LK_SKIP(REF "*", as_policy),
	LK_KEYS_END};

static const lk_key critic_keys[] = {
	LK_RULE("critic.enable"),
	LK_FACT("critic.model.path", "rollout_critic"),
	LK_FACT("critic.ppo_epochs", "rollout_critic_epochs"),
	LK_WORDS("critic.model.fsdp_config.param_offload", "rollout_critic_params", moved),
	LK_WORDS("critic.model.fsdp_config.optimizer_offload", "rollout_critic_optimizer", moved),
	LK_WORDS("critic.megatron.param_offload", "rollout_critic_params", moved),
	LK_WORDS("critic.megatron.optimizer_offload", "rollout_critic_optimizer", moved),
	LK_SKIP("critic.strategy", as_actor),
	LK_SKIP("critic.ppo_mini_batch_size", as_actor),
	LK_SKIP("critic.ppo_micro_batch_size", as_actor),
	LK_SKIP("critic.ppo_micro_batch_size_per_gpu", as_actor),
	LK_SKIP("critic.use_dynamic_bsz", as_actor),
	LK_SKIP("critic.ppo_max_token_len_per_gpu", as_actor),
	LK_SKIP("critic.ulysses_sequence_parallel_size", as_actor),
	LK_SKIP("critic.model.fsdp_config.fsdp_size", as_actor),
	LK_SKIP("critic.model.fsdp_config.offload_policy", as_actor),
	LK_SKIP("critic.model.enable_gradient_checkpointing", as_actor),
	LK_SKIP("critic.model.use_remove_padding", as_actor),
	LK_SKIP("critic.model.lora_rank", as_actor),
	LK_SKIP("critic.megatron.tensor_model_parallel_size", as_actor),
	LK_SKIP("critic.megatron.pipeline_model_parallel_size", as_actor),
	LK_SKIP("critic.megatron.context_parallel_size", as_actor),
	LK_SKIP("critic.megatron.expert_model_parallel_size", as_actor),
	LK_SKIP("critic*", as_actor),
	LK_KEYS_END};

static const lk_key *const tables[] = {data_keys,    model_keys, actor_keys,  core_keys,
                                       rollout_keys, other_keys, critic_keys, NULL};

bool lk_verl_states(const char *key) {
	for (const lk_key *const *table = tables; *table; table++)
		for (const lk_key *row = *table; row->path; row++)
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

/* What stays where nothing is said; networks that run in this step alone. */
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
 * distributed optimizer unless told otherwise. */
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
	LK_TRY(lk_config_parse(arena, verl_defaults, sizeof verl_defaults - 1, "ppo_trainer.yaml",
	                       &defaults, config->reading->err));
	config->root = lk_config_merge(arena, defaults, config->root);
	if (!config->root) return lk_oom(config->reading->err);
	return lk_launch_assume(config->reading, "verl's defaults where nothing is stated");
}

bool lk_verl_is(const char *program) {
	return strstr(program, "main_ppo") != NULL || strstr(program, "main_dapo") != NULL;
}

const lk_framework lk_framework_verl = {"verl", verl_is, verl_gather, verl_translate};
