/* keys_accelerate.c: configurations of HuggingFace accelerate, and the flags of accelerate launch
 * that stand for their keys and override them: how the ranks are laid out, nothing of what trains.
 * A file alone goes with --model, or with a file that names it. */
#include <string.h>

#include "base/arena.h"
#include "base/text.h"
#include "launch/config.h"

static const lk_pair compilers[] = {{"inductor", "1"}, {"no", "0"}, {NULL, NULL}};

/* A degree of 1 leaves that of the other kind of sequence parallelism. */
static const lk_pair one[] = {{"1", ""}, {NULL, NULL}};
static const lk_pair sequences[] = {{"deepspeed", "ulysses"}, {NULL, NULL}};

static const lk_key keys[] = {
	LK_FACT("num_processes", "gpus"),
	LK_FACT("mixed_precision", "format"),
	LK_FACT("distributed_type", "strategy"),
	LK_FACT("gradient_accumulation_steps", "accumulation"),
	LK_FACT("fsdp_config.fsdp_sharding_strategy", "sharding_name"),
	LK_WORDS("fsdp_config.fsdp_reshard_after_forward", "reshard_off", lk_pairs_opposite),
	LK_FACT("fsdp_config.fsdp_offload_params", "host_shards"),
	LK_FACT("fsdp_config.fsdp_activation_checkpointing", "recompute_text"),
	LK_SKIP("fsdp_config.fsdp_auto_wrap_policy fsdp_config.fsdp_backward_prefetch "
            "fsdp_config.fsdp_backward_prefetch_policy fsdp_config.fsdp_cpu_ram_efficient_loading "
            "fsdp_config.fsdp_forward_prefetch fsdp_config.fsdp_state_dict_type "
            "fsdp_config.fsdp_sync_module_states fsdp_config.fsdp_use_orig_params "
            "fsdp_config.fsdp_version fsdp_config.fsdp_transformer_layer_cls_to_wrap "
            "fsdp_config.fsdp_transformer_cls_names_to_wrap fsdp_config.fsdp_limit_all_gathers "
            "fsdp_config.fsdp_min_num_params fsdp_config.fsdp_ignored_modules",
            "how layers are wrapped and saved: units of one layer are taken"),
	LK_FACT("parallelism_config.parallelism_config_dp_replicate_size", "dp_replicate"),
	LK_FACT("parallelism_config.parallelism_config_dp_shard_size", "dp_shard"),
	LK_FACT("parallelism_config.parallelism_config_tp_size", "tp"),
	LK_WORDS("parallelism_config.parallelism_config_cp_size", "cp", one),
	LK_WORDS("parallelism_config.parallelism_config_sp_size", "cp", one),
	LK_WORDS("parallelism_config.parallelism_config_sp_backend", "cp_kind", sequences),
	LK_SKIP("parallelism_config.parallelism_config_sp_seq_length "
            "parallelism_config.parallelism_config_sp_seq_length_is_variable "
            "parallelism_config.parallelism_config_sp_attn_implementation "
            "parallelism_config.parallelism_config_cp_backend "
            "parallelism_config.parallelism_config_cp_comm_strategy",
            "see the degrees"),
	LK_FACT("deepspeed_config.deepspeed_config_file", "deepspeed"),
	LK_FACT("deepspeed_config.gradient_accumulation_steps", "accumulation"),
	LK_WORDS("deepspeed_config.zero_stage", "zero", lk_pairs_stage),
	LK_WORDS("deepspeed_config.offload_optimizer_device", "offload_optimizer", lk_pairs_host),
	LK_WORDS("deepspeed_config.offload_param_device", "host_params", lk_pairs_host),
	LK_SKIP("deepspeed_config.deepspeed_multinode_launcher deepspeed_config.deepspeed_hostfile "
            "deepspeed_config.deepspeed_exclusion_filter "
            "deepspeed_config.deepspeed_inclusion_filter deepspeed_config.zero3_init_flag "
            "deepspeed_config.zero3_save_16bit_model deepspeed_config.offload_optimizer_nvme_path "
            "deepspeed_config.offload_param_nvme_path deepspeed_config.gradient_clipping "
            "deepspeed_config.deepspeed_moe_layer_cls_names",
            LK_WHY_START),
	LK_SKIP("deepspeed_config.seq_parallel_communication_data_type", "see the degrees"),
	LK_WORDS("dynamo_config.dynamo_backend", "compile", compilers),
	LK_WORDS("dynamo_backend", "compile", compilers),
	LK_SKIP("num_machines", "the number of processes counts all nodes"),
	LK_SKIP("compute_environment debug machine_rank main_process_ip main_process_port "
            "main_training_function rdzv_backend same_network tpu_* use_cpu use_mps gpu_ids "
            "enable_cpu_affinity command_file commands ec2_instance_type region profile "
            "iam_role_name image_uri base_job_name py_version pytorch_version "
            "transformers_version num_cpu_threads_per_process max_restarts monitor_interval "
            "log_line_prefix_template",
            LK_WHY_START),
	LK_SKIP("dynamo_config.dynamo_mode dynamo_config.dynamo_use_fullgraph "
            "dynamo_config.dynamo_use_dynamic dynamo_config.dynamo_use_regional_compilation",
            "see the backend"),
	LK_SKIP("downcast_bf16", "of TPUs alone"),
	LK_NOTE("megatron_lm_config.* fp8_config.* ipex_config.* mpirun_config.* "
            "sagemaker_inputs_file sagemaker_metrics_file additional_args.*",
            "it is not read"),
	LK_KEYS_END};

/* Written by hand, a file may leave out where it runs. */
static bool accelerate_is(const lk_value *root) {
	static const char *const others[] = {"compute_environment", "num_processes", "fsdp_config",
	                                     "deepspeed_config"};
	if (!lk_config_at(root, "distributed_type")) return false;
	for (size_t i = 0; i < sizeof others / sizeof *others; i++)
		if (lk_config_at(root, others[i])) return true;
	return false;
}

static lk_status accelerate_facts(const lk_config *config, lk_draft *draft) {
	static const lk_key *const tables[] = {keys, NULL};
	LK_TRY(lk_draft_read(config, tables, draft));
	if (strcmp(draft->strategy, "FSDP") == 0 && !*draft->sharding_name)
		lk_copy(draft->fsdp, sizeof draft->fsdp, "full_shard");
	if (strcmp(draft->strategy, "DEEPSPEED") != 0) return LK_OK;
	lk_copy(draft->job.stack, sizeof draft->job.stack, "deepspeed");
	if (draft->zero > 0 || *draft->deepspeed) return LK_OK;
	draft->zero = 2 + 1;
	LK_TRY(lk_launch_assume(config->reading, "ZeRO stage 2: accelerate's default (zero_stage)"));
	return LK_OK;
}

static lk_status accelerate_translate(const lk_config *config, lk_words *words) {
	lk_draft draft = {.shard_beside_cp = true};
	(void)words;
	LK_TRY(accelerate_facts(config, &draft));
	LK_TRY(lk_draft_finish(config, &draft));
	if (draft.accumulation == 0) config->reading->out->job->microbatches = 0;
	return LK_OK;
}

const lk_framework lk_framework_accelerate = {"accelerate", accelerate_is, NULL,
                                              accelerate_translate};

/* Published configurations that are not here, by their names: deepspeed_zero3.yaml, fsdp2.yaml,
 * multi_gpu.yaml. NULL: the name says nothing. */
static const char *accelerate_named(lk_arena *arena, const char *name) {
	const char *slash = strrchr(name, '/'), *base = slash ? slash + 1 : name;
	const char *zero = strcasestr(base, "zero");
	if (zero) zero += strspn(zero, "zeroZERO_-");
	if (zero && *zero >= '1' && *zero <= '3')
		return lk_arena_printf(
			arena, "{distributed_type: DEEPSPEED, deepspeed_config: {zero_stage: %c}}", *zero);
	if (strcasestr(base, "fsdp")) return "{distributed_type: FSDP, fsdp_config: {}}";
	if (strcasestr(base, "multi_gpu") || strcasestr(base, "ddp"))
		return "{distributed_type: MULTI_GPU}";
	return NULL;
}

/* The file that accelerate is launched with; *root stays NULL where it is not here. */
static lk_status accelerate_load(lk_config *config, const char *name) {
	const lk_inner_file *inner;
	lk_reading *reading = config->reading;
	const char *path = lk_launch_file_named(reading, name, &inner);
	config->file = name;
	if (!path && !inner) {
		const char *text = accelerate_named(reading->arena, name);
		if (!text)
			return lk_launch_note(reading, name, "the configuration of accelerate is not here");
		LK_TRY(lk_launch_assume(reading, "%s, by the name of %.80s, which is not here",
		                        strstr(text, "DEEPSPEED") ? "ZeRO of DeepSpeed"
		                        : strstr(text, "FSDP")    ? "fully sharded data parallelism"
		                                                  : "data parallelism",
		                        name));
		return lk_config_parse(reading->arena, text, strlen(text), "accelerate.yaml", &config->root,
		                       reading->err); /* YAML, whatever its name ends in */
	}
	if (path) LK_TRY(lk_config_load(config, path));
	else
		LK_TRY(lk_config_parse(reading->arena, inner->text, inner->size, name, &config->root,
		                       reading->err));
	if (config->root->kind == LK_JSON_OBJECT && accelerate_is(config->root)) return LK_OK;
	return lk_config_fail(config, name, "it is not a configuration of accelerate",
	                      "accelerate config writes one");
}

lk_status lk_accelerate_read(const lk_config *line, lk_draft *draft) {
	lk_reading *reading = line->reading;
	draft->shard_beside_cp = true; /* its keys may stand in the program's own file */
	lk_config config = {.reading = reading,
	                    .file = "accelerate launch",
	                    .text = "",
	                    .given = {.sets = reading->accelerate_flags}};
	if (reading->accelerate) LK_TRY(accelerate_load(&config, reading->accelerate));
	if (!config.root && !reading->accelerate_flags) return LK_OK;
	if (!config.root) { /* flags alone */
		config.root = LK_NEW(reading->arena, lk_value);
		if (!config.root) return lk_oom(reading->err);
		config.root->kind = LK_JSON_OBJECT;
	}
	LK_TRY(lk_config_settle(&config));
	return accelerate_facts(&config, draft);
}
