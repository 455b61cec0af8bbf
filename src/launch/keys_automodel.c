/* keys_automodel.c: NeMo AutoModel's YAML (nemo_automodel/recipes).
 *
 *     accumulation = global_batch_size / (local_batch_size dp);  dp = gpus / (tp pp cp)
 *     vp = layers / (pp layers_per_stage)
 * The number of GPUs stands in benchmark.num_nodes, ci.nodes, or a comment with the command. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/arena.h"
#include "base/text.h"
#include "launch/config.h"
#include "model/network/model.h"

static const lk_pair formats[] = {
	{"torch.bfloat16", "bf16"}, {"bfloat16", "bf16"},      {"torch.float32", "fp32"},
	{"float32", "fp32"},        {"torch.float16", "fp16"}, {"uint8", "fp8"},
	{"torch.uint8", "fp8"},     {"float16", "fp16"},       {NULL, NULL}};
static const lk_pair attentions[] = {{"flash_attention_2", "flash"},
                                     {"flash", "flash"},
                                     {"eager", "eager"},
                                     {"sdpa", ""},
                                     {"te", ""},
                                     {NULL, NULL}};
static const lk_pair recipes[] = {{"tensorwise", "tensorwise"},
                                  {"current", "tensorwise"},
                                  {"rowwise", "tensorwise"},
                                  {"block", "blockwise"},
                                  {"blockwise", "blockwise"},
                                  {"delayed", "delayed"},
                                  {"mxfp8", ""},
                                  {NULL, NULL}};
static const lk_pair rounding[] = {{"up", "1"}, {"down", "0"}, {NULL, NULL}};
static const lk_pair balanced[] = {{"true", "1"}, {"false", ""}, {NULL, NULL}};
static const lk_pair policies[] = {{"CPUOffloadPolicy", "1"},
                                   {"torch.distributed.fsdp.CPUOffloadPolicy", "1"},
                                   {"torch.distributed._composable.fsdp.CPUOffloadPolicy", "1"},
                                   {"torch.distributed.fsdp.OffloadPolicy", "0"},
                                   {NULL, NULL}};

static const lk_key keys[] = {
	LK_FACT("model.pretrained_model_name_or_path", "network_name"),
	LK_FACT("model.config.pretrained_model_name_or_path", "network_name"),
	LK_FACT("model.config.name_or_path", "network_name"),
	LK_FACT("model.config", "network_name"),
	LK_FACT("model.torch_dtype", "storage"),
	LK_FACT("model.dtype", "storage"),
	LK_RULE("recipe"),
	LK_RULE("model._target_"),
	LK_RULE("loss_fn._target_"),
	LK_RULE("loss_fn.fp32_upcast"),
	LK_RULE("optimizer.master_weight_bits"),
	LK_RULE("ci.nodes"),
	LK_RULE("ci.cluster_tag"),
	LK_RULE("packed_sequence.pack_size"),
	LK_RULE("packed_sequence.max_length"),
	LK_RULE("dataset.max_seq_length"),
	LK_RULE("dataset.max_length"),
	LK_RULE("dataloader.collate_fn.max_length"),
	LK_FACT("distributed.mp_policy.param_dtype", "format"),
	LK_WORDS("distributed.mp_policy.reduce_dtype", "grad_reduce_fp32", lk_pairs_reduced),
	LK_FACT("model.attn_implementation", "attention_name"),
	LK_WORDS("model.backend.attn", "attention_name", attentions),
	LK_WORDS("model.backend.dispatcher", "dispatcher", lk_pairs_dispatcher),
	LK_WORDS("model.backend.te_fp8.recipe", "fp8_recipe", recipes),
	LK_RULE("model.use_liger_kernel"),
	LK_WORDS("model.backend.fake_balanced_gate", "moe_imbalance", balanced),
	LK_FACT("model.backend.dispatcher_num_sms", "dispatch_sms"),
	LK_SKIP("model.attention_backend model.backend model.backend.* model.block_size "
            "model.boundary_ratio model.cache_dir model.canvas_length model.checkpoint "
            "model.checkpoint_high_noise model.checkpoint_low_noise model.compute_dtype "
            "model.dlm_paradigm model.do_distributed_inbatch_negative model.drafter_loss_weight "
            "model.drafter_num_steps model.drafter_path model.force_hf model.freeze_router "
            "model.fuse_qkv_projections model.l2_normalize model.load_base_model model.lora_scale "
            "model.lora_weights model.mode model.model_type model.mtp_loss_scaling_factor "
            "model.mtp_use_repeated_layer model.output_hidden_states "
            "model.optimize_hunyuan_flash_varlen_mask model.pipeline_spec.* model.pooling "
            "model.router_aux_loss_coef model.self_conditioning model.stage model.temperature "
            "model.trust_remote_code model.use_cache model.use_sdpa_patching "
            "model.use_fp32_params model.num_labels model.transformer_engine_* "
            "model.base_activation_checkpointing model.quantization_config.* "
            "model.config.trust_remote_code model.config._target_ model.config.architectures "
            "model.config.hidden_act model.config.initializer_range model.config.bos_token_id "
            "model.config.eos_token_id model.config.pad_token_id "
            "model.config.kda_* model.config.norm_topk_prob model.config.rms_norm_eps "
            "model.config.rope_theta model.config.router_aux_loss_coef model.config.use_cache "
            "model.config._attn_implementation model.config.attn_implementation_new "
            "model.text_config.use_cache model.text_config.output_hidden_states "
            "model.text_config.cp_full_attn_backend model.text_config.mtp_expert_hf_layout",
            "how the network is made and which kernels run changes no shape"),
	LK_NOTE("model.config.* model.text_config.* model.num_nextn_predict_layers",
            "the network is that of its name"),
	LK_FACT("step_scheduler.global_batch_size", "gbs"),
	LK_FACT("step_scheduler.local_batch_size", "mbs"),
	LK_SKIP("step_scheduler*", LK_WHY_LENGTH),
	LK_FACT("distributed.strategy", "strategy"),
	LK_FACT("distributed._target_", "strategy"),
	LK_FACT("distributed.tp_size", "tp"),
	LK_FACT("distributed.pp_size", "pp"),
	LK_FACT("distributed.cp_size", "cp"),
	LK_FACT("distributed.ep_size", "ep"),
	LK_FACT("distributed.dp_size", "dp"),
	LK_FACT("distributed.dp_replicate_size", "dp_replicate"),
	LK_FACT("distributed.sequence_parallel", "sequence_parallel"),
	LK_FACT("distributed.activation_checkpointing", "recompute_text"),
	LK_FACT("parallelizer.activation_checkpointing", "recompute_text"),
	LK_FACT("distributed.pipeline.pp_schedule", "schedule_name"),
	LK_FACT("distributed.pipeline.pp_microbatch_size", "multiple"),
	LK_FACT("distributed.pipeline.layers_per_stage", "stage_layers"),
	LK_WORDS("distributed.pipeline.round_virtual_stages_to_pp_multiple", "stages_up", rounding),
	LK_FACT("distributed.enable_compile", "compile"),
	LK_WORDS("distributed.enable_async_tensor_parallel", "tp_overlap", lk_pairs_switch),
	LK_WORDS("distributed.reshard_after_forward", "reshard_off", lk_pairs_opposite),
	LK_NOTE("distributed.moe.reshard_after_forward", "experts are sharded as the other weights"),
	LK_WORDS("distributed.offload_policy._target_", "host_shards", policies),
	LK_WORDS("distributed.offload_policy", "host_shards", policies),
	LK_SKIP("distributed.offload_policy*", "see its class"),
	LK_FACT("distributed.cpu_offload", "host_shards"),
	LK_NOTE("distributed.defer_fsdp_grad_sync", "gradients are reduced with the last micro-batch"),
	LK_SKIP("distributed.autocast_dtype distributed.enable_fsdp2_prefetch "
            "distributed.moe.ignore_router_for_ac distributed.moe.wrap_outer_model "
            "distributed.moe._target_ distributed.mp_policy distributed.mp_policy._target_ "
            "distributed.mp_policy.output_dtype distributed.mp_policy.cast_forward_inputs "
            "distributed.multimodal.* distributed.patch_is_packed_sequence "
            "distributed.pipeline._target_ distributed.pipeline.dtype "
            "distributed.pipeline.patch_causal_lm_model distributed.pipeline.patch_inner_model "
            "distributed.pipeline.scale_grads_in_schedule distributed.pipeline.pp_seq_len "
            "distributed.pipeline.pp_batch_size distributed.tp_plan distributed.use_hf_tp_plan "
            "distributed.backend distributed.timeout_minutes",
            "see the degrees"),
	LK_SKIP("distributed_config distributed_config._target_", "see the degrees"),
	LK_SKIP("parallelizer._target_ parallelizer.reshard_after_forward "
            "parallelizer.ignore_router_for_ac parallelizer.wrap_outer_model "
            "parallelizer.lm_head_precision",
            "see the degrees"),
	LK_FACT("autopipeline.pp_schedule", "schedule_name"),
	LK_FACT("autopipeline.pp_microbatch_size", "multiple"),
	LK_FACT("autopipeline.layers_per_stage", "stage_layers"),
	LK_WORDS("autopipeline.round_virtual_stages_to_pp_multiple", "stages_up", rounding),
	LK_SKIP("autopipeline._target_ autopipeline.dtype autopipeline.patch_causal_lm_model "
            "autopipeline.patch_inner_model autopipeline.pp_seq_len autopipeline.pp_batch_size "
            "autopipeline.scale_grads_in_schedule",
            "see the degrees"),
	LK_FACT("benchmark.num_nodes", "nodes"),
	LK_SKIP("benchmark*", LK_WHY_LOGGING),
	LK_FACT("ci.nproc_per_node", "per_node"),
	LK_SKIP("ci*", "how the recipe is tested"),
	LK_WORDS("packed_sequence.packed_sequence_size", "seq", lk_pairs_zero_off),
	LK_FACT("dataset.seq_len", "context"),
	LK_FACT("dataset.seq_length", "context"),
	LK_SKIP("packed_sequence*", LK_WHY_DATA),
	LK_FACT("peft.dim", "lora_rank"),
	LK_NOTE("peft.exclude_modules", "adapters are priced on all linear layers"),
	LK_SKIP("peft*", "how adapters are computed and scaled changes no shape"),
	LK_FACT("quantization.load_in_4bit", "narrow_base"),
	LK_FACT("quantization.load_in_8bit", "quantized"),
	LK_SKIP("quantization*", "see quantization.load_in_4bit"),
	LK_FACT("fp8.enabled", "fp8"),
	LK_WORDS("fp8.recipe_name", "fp8_recipe", recipes),
	LK_NOTE("fp8.enable_fsdp_float8_all_gather", "parameters are gathered in 16 bits"),
	LK_SKIP("fp8*", "see fp8.recipe_name"),
	LK_FACT("compile.enabled", "compile"),
	LK_SKIP("compile*", "see compile.enabled"),
	LK_FACT("optimizer._target_", "optimizer_name"),
	LK_WORDS("optimizer.foreach", "update", lk_foreach_words),
	LK_WORDS("optimizer.fused", "update", lk_fused_words),
	LK_WORDS("optimizer.exp_avg_dtype", "state_dtype", formats),
	LK_FACT("optimizer.master_weights", "master_weights"),
	LK_SKIP("optimizer*", LK_WHY_RATE),
	LK_SKIP("lr_scheduler*", LK_WHY_RATE),
	LK_SKIP("clip_grad_norm*", LK_WHY_RATE),
	LK_SKIP("max_grad_norm", LK_WHY_RATE),
	LK_SKIP("loss_fn*", LK_WHY_NUMBERS),
	LK_RULE("teacher_model.pretrained_model_name_or_path"),
	LK_SKIP("teacher_model*", "the teacher is priced as its network"),
	LK_SKIP("teacher_distributed*", "see teacher_model"),
	LK_SKIP("separate_meshes", "see teacher_model"),
	LK_SKIP("kd_*", "see teacher_model"),
	LK_SKIP("autocast*", "see distributed.mp_policy"),
	LK_SKIP("neftune*", LK_WHY_NUMBERS),
	LK_SKIP("moe_metrics*", LK_WHY_LOGGING),
	LK_NOTE("mtp*", "prediction of several tokens is priced as the network states it"),
	LK_FACT("freeze_config.freeze_vision_tower", "freeze_tower"),
	LK_NOTE("freeze_config.freeze_language_model", "the language model is priced as trained"),
	LK_SKIP("freeze_config*", "parts that are not priced"),
	LK_SKIP("dataset*", LK_WHY_DATA),
	LK_SKIP("dataloader*", LK_WHY_DATA),
	LK_SKIP("tokenizer*", LK_WHY_DATA),
	LK_SKIP("processor*", LK_WHY_DATA),
	LK_SKIP("validation*", LK_WHY_EVAL),
	LK_SKIP("checkpoint*", LK_WHY_SAVING),
	LK_SKIP("restore_from*", LK_WHY_SAVING),
	LK_SKIP("wandb*", LK_WHY_LOGGING),
	LK_SKIP("mlflow*", LK_WHY_LOGGING),
	LK_SKIP("logger*", LK_WHY_LOGGING),
	LK_SKIP("comet*", LK_WHY_LOGGING),
	LK_SKIP("profiler* profiling* profile*", LK_WHY_LOGGING),
	LK_SKIP("nsys*", LK_WHY_LOGGING),
	LK_SKIP("rng*", LK_WHY_NUMBERS),
	LK_SKIP("seed", LK_WHY_NUMBERS),
	LK_SKIP("dist_env*", LK_WHY_START),
	LK_FACT("slurm.nodes", "nodes"),
	LK_FACT("slurm.ntasks_per_node", "per_node"),
	LK_SKIP("slurm*", LK_WHY_START),
	LK_FACT("nemo_run.nodes", "nodes"),
	LK_FACT("nemo_run.devices", "per_node"),
	LK_SKIP("nemo_run*", LK_WHY_START),
	LK_SKIP("recipe*", "the network and the loss are read from their own sections"),
	LK_SKIP("use_hf_fa2", LK_WHY_DATA),
	LK_KEYS_END};

static bool automodel_is(const lk_value *root) {
	const char *target = lk_config_text(lk_config_at(root, "model._target_"));
	return lk_config_at(root, "step_scheduler") ||
	       (target && strncmp(target, "nemo_automodel", 14) == 0) ||
	       lk_config_at(root, "recipe_args") || lk_config_at(root, "flow_matching");
}

/* Recipes that train no language model of the usual loss. */
static lk_status automodel_refuse(const lk_config *config) {
	static const struct {
		const char *part, *what;
	} parts[] = {{"diffusion", "diffusion models are not modelled"},
	             {"biencoder", "retrieval is not modelled"},
	             {"crossencoder", "retrieval is not modelled"},
	             {"sequenceclassification", "classifiers are not modelled"},
	             {"eagle", "speculative drafters are not modelled"},
	             {"dspark", "speculative drafters are not modelled"},
	             {"dflash", "speculative drafters are not modelled"},
	             {"vispec", "speculative drafters are not modelled"},
	             {"drafter", "speculative drafters are not modelled"},
	             {"rewardmodel", "reward models are not modelled"}};
	static const char *const sections[] = {
		"flow_matching", "drafter", "draft_model", "eagle", "flow_matching_config", "recipe_args"};
	static const char *const places[] = {"recipe", "model._target_"};
	for (size_t place = 0; place < 2; place++) {
		const char *text = lk_config_text(lk_config_at(config->root, places[place]));
		const char *recipe = lk_config_text(lk_config_at(config->root, "recipe._target_"));
		if (!text && place == 0) text = recipe;
		for (size_t i = 0; text && i < sizeof parts / sizeof *parts; i++)
			if (strcasestr(text, parts[i].part))
				return lk_config_fail(config, places[place], parts[i].what,
				                      "language models can be predicted");
	}
	for (size_t i = 0; i < sizeof sections / sizeof *sections; i++)
		if (lk_config_at(config->root, sections[i]))
			return lk_config_fail(config, sections[i],
			                      "diffusion models and speculative drafters are not modelled",
			                      "language models can be predicted");
	return LK_OK;
}

/* "nproc-per-node 8" in a comment; 0: none says it. */
static int automodel_commented(const char *text, const char *const *names) {
	for (; text && *names; names++) {
		const char *at = strstr(text, *names);
		if (!at) continue;
		at += strlen(*names);
		at += strspn(at, " =");
		long value = strtol(at, NULL, 10);
		if (isdigit((unsigned char)*at) && value > 0 && value <= 1 << 16) return (int)value;
	}
	return 0;
}

static int automodel_nodes(const lk_config *config) {
	const char *text = lk_config_text(lk_config_at(config->root, "ci.nodes"));
	long nodes = text ? strtol(text, NULL, 10) : 0;
	return nodes > 0 && nodes <= 1 << 16 ? (int)nodes : 0;
}

static void automodel_gpus(const lk_config *config, lk_draft *draft) {
	static const char *const per_node[] = {"nproc-per-node", "nproc_per_node", NULL};
	static const char *const nodes[] = {"--nnodes", NULL};
	const char *cluster = lk_config_text(lk_config_at(config->root, "ci.cluster_tag"));
	if (draft->nodes == 0) draft->nodes = automodel_nodes(config);
	if (draft->per_node == 0) draft->per_node = automodel_commented(config->text, per_node);
	if (draft->nodes == 0 && draft->per_node > 0)
		draft->nodes = automodel_commented(config->text, nodes);
	if (draft->nodes > 0 && draft->per_node == 0)
		draft->per_node = cluster && strncmp(cluster, "gb", 2) == 0 ? 4 : 8;
}

/* Tokens of a sequence: packed, stated by the data, or of the collator. */
static lk_status automodel_sequence(const lk_config *config, lk_draft *draft) {
	static const char *const places[] = {"packed_sequence.pack_size", "packed_sequence.max_length",
	                                     "dataset.max_seq_length", "dataset.max_length",
	                                     "dataloader.collate_fn.max_length"};
	lk_job *job = &draft->job;
	if (job->seq == 0) job->seq = job->model.context;
	job->model.context = 0;
	for (size_t i = 0; job->seq == 0 && i < sizeof places / sizeof *places; i++) {
		const lk_value *value = lk_config_at(config->root, places[i]);
		if (value && value->kind == LK_JSON_NUMBER && value->number >= 1 && value->number < 1 << 27)
			job->seq = (int)value->number;
	}
	if (job->seq > 0) return LK_OK;
	job->seq = 2048;
	return lk_launch_assume(config->reading,
	                        "sequences of 2048 tokens: the file states none, samples are padded to "
	                        "the longest of a batch (--seq)");
}

/* A network that the file itself describes, as config.json would: its type is that of the class,
 * "transformers.models.qwen3_moe.configuration_qwen3_moe.Qwen3MoeConfig". */
static lk_status automodel_network(const lk_config *config, lk_model *model) {
	static const char package[] = "transformers.models.";
	const lk_value *shape = lk_config_at(config->root, "model.config");
	const char *class = lk_config_text(lk_config_at(shape, "_target_"));
	char type[64];
	if (!shape || shape->kind != LK_JSON_OBJECT || !lk_config_at(shape, "num_hidden_layers"))
		return LK_OK;
	bool known = class && strncmp(class, package, strlen(package)) == 0;
	if (known) {
		lk_copy(type, sizeof type, class + strlen(package));
		type[strcspn(type, ".")] = '\0';
	}
	return lk_model_from_hf(shape, config->reading->where, known ? type : NULL, model, NULL,
	                        config->reading->err);
}

/* The formats of what is kept and of what is computed (docs/guides/mixed-precision-training.md):
 * FSDP2 computes in bf16 and reduces in fp32 unless mp_policy says otherwise; parameters are kept
 * as the checkpoint has them, in bf16, and torch's optimizers keep their moments so too.
 * Transformer Engine's FusedAdam has moments in fp32, and a master copy where it is asked for one;
 * FlashAdamW has moments of 8 bits and what bf16 weights lack to 24 or 32. */
static lk_status automodel_numbers(const lk_config *config, lk_draft *draft) {
	lk_job *job = &draft->job;
	lk_reading *reading = config->reading;
	const char *optimizer = draft->optimizer_name;
	bool ddp = strcasestr(draft->strategy, "ddp") != NULL;
	bool wide = strcasestr(draft->storage, "float32") || strcasestr(draft->storage, "fp32");
	if (!*draft->storage)
		LK_TRY(lk_launch_assume(reading, "weights kept in bf16, as checkpoints are"));
	if (!*draft->format)
		lk_copy(draft->format, sizeof draft->format, wide && ddp ? "fp32" : "bf16");
	if (!ddp && job->grad_reduce_fp32 == LK_AUTO) job->grad_reduce_fp32 = LK_ON;
	if (wide) return LK_OK;
	if (strstr(optimizer, "FlashAdamW")) { /* 16-bit weights, and a byte that they lack */
		const lk_value *bits = lk_config_at(config->root, "optimizer.master_weight_bits");
		bool more = bits && bits->kind == LK_JSON_NUMBER && bits->number > 24;
		return more ? lk_launch_note(reading, "optimizer.master_weight_bits",
		                             "weights are priced as of 24 bits")
		            : LK_OK;
	}
	if (job->master_weights == LK_AUTO) job->master_weights = LK_OFF;
	if (strstr(optimizer, "torch.optim")) job->state_dtype = LK_BF16;
	return LK_OK;
}

/* Losses by their classes (nemo_automodel/components/loss). The default copies all logits to fp32
 * unless fp32_upcast is false. */
static void automodel_loss(const lk_config *config, lk_draft *draft) {
	const char *class = lk_config_text(lk_config_at(config->root, "loss_fn._target_")),
			   *upcast = lk_config_text(lk_config_at(config->root, "loss_fn.fp32_upcast"));
	if (!class) return;
	if (strstr(class, "FusedLinearCrossEntropy")) draft->job.loss = LK_LOSS_CUT;
	bool narrow = strstr(class, "TEParallelCrossEntropy") || strstr(class, "ChunkedCrossEntropy") ||
	              (upcast && strcasecmp(upcast, "false") == 0);
	if (narrow) draft->job.fused_cross_entropy = LK_ON;
}

/* Distillation: the frozen network that reads what the job's network reads. */
static lk_status automodel_teacher(const lk_config *config, lk_job *job) {
	static const char key[] = "teacher_model.pretrained_model_name_or_path";
	const char *name = lk_config_text(lk_config_at(config->root, key));
	if (!name) return LK_OK;
	lk_model *teacher = LK_NEW(config->reading->arena, lk_model);
	if (!teacher) return lk_oom(config->reading->err);
	if (lk_model_preset(name, teacher, NULL) == LK_OK) job->teacher = teacher;
	else
		LK_TRY(lk_launch_note(config->reading, key,
		                      "no network of this name is known: its forward pass is not priced "
		                      "(--teacher)"));
	return LK_OK;
}

static lk_status automodel_translate(const lk_config *config, lk_words *words) {
	static const lk_key *const tables[] = {keys, NULL};
	lk_draft draft = {0};
	(void)words;
	LK_TRY(automodel_refuse(config));
	LK_TRY(lk_draft_read(config, tables, &draft));
	/* from_pretrained replaces norms, activations and positions by Liger's unless told otherwise */
	const char *liger = lk_config_text(lk_config_at(config->root, "model.use_liger_kernel"));
	if (!liger || strcasecmp(liger, "false") != 0) draft.job.eager = LK_OFF;
	automodel_gpus(config, &draft);
	LK_TRY(automodel_sequence(config, &draft));
	LK_TRY(automodel_network(config, &draft.job.model));
	LK_TRY(automodel_teacher(config, &draft.job));
	lk_job *job = &draft.job;
	if (draft.job.pp > 1) { /* the local batch passes the stages in micro-batches */
		job->mbs = draft.multiple > 0 ? draft.multiple : 1;
		job->split_open = true;
	}
	if (strcasestr(draft.strategy, "ddp")) draft.zero = 1;
	else {
		lk_copy(draft.fsdp, sizeof draft.fsdp, "full_shard");
		if (strcasestr(draft.strategy, "megatron"))
			lk_copy(job->stack, sizeof job->stack, "megatron");
	}
	LK_TRY(automodel_numbers(config, &draft));
	automodel_loss(config, &draft);
	const char *fp8 = lk_config_text(lk_config_at(config->root, "model.backend.te_fp8.recipe"));
	if (fp8 && strcmp(fp8, "mxfp8") == 0) {
		job->dtype = LK_MXFP8;
		job->dtype_said = true;
	} else if (fp8) draft.fp8 = true;
	const char *recipe = lk_config_text(lk_config_at(config->root, "recipe"));
	bool images = (recipe && strcasestr(recipe, "vlm")) || lk_config_at(config->root, "processor");
	config->reading->out->samples = images ? LK_SAMPLES_IMAGES : LK_SAMPLES_TEXTS;
	if (lk_config_at(config->root, "dllm"))
		LK_TRY(lk_launch_note(config->reading, "dllm",
		                      "diffusion of texts is priced as training with masks"));
	return lk_draft_finish(config, &draft);
}

const lk_framework lk_framework_automodel = {"automodel", automodel_is, NULL, automodel_translate};
