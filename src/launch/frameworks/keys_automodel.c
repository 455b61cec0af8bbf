/* keys_automodel.c: NeMo AutoModel's YAML (nemo_automodel/recipes).
 *
 *     accumulation = global_batch_size / (local_batch_size dp);  dp = gpus / (tp pp cp)
 *     vp = layers / (pp layers_per_stage)
 * The number of GPUs is in benchmark.num_nodes, ci.nodes, or the command in a comment. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/arena.h"
#include "base/text.h"
#include "launch/config/tables.h"
#include "launch/frameworks/frameworks.h"
#include "model/read/read.h"

LK_KEYS(automodel);

static bool automodel_is(const lk_value *root) {
	const char *target = lk_config_text(lk_config_at(root, "model._target_"));
	return lk_config_at(root, "step_scheduler") ||
	       (target && strncmp(target, "nemo_automodel", 14) == 0) ||
	       lk_config_at(root, "recipe_args") || lk_config_at(root, "flow_matching");
}

/* Refuse recipes that do not train a language model with its default loss. */
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
	if (draft->per_node == 0) draft->per_node = lk_config_commented(config, per_node);
	if (draft->nodes == 0 && draft->per_node > 0) draft->nodes = lk_config_commented(config, nodes);
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
	return lk_draft_assume_length(config, draft);
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

/* Formats of storage and computation (docs/guides/mixed-precision-training.md):
 * FSDP2 computes in bf16 and reduces in fp32 unless mp_policy says otherwise; parameters are kept
 * as the checkpoint has them, in bf16, and torch's optimizers keep their moments so too.
 * Transformer Engine's FusedAdam has moments in fp32, and a master copy if requested;
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

static lk_status automodel_translate(const lk_config *config, lk_words *words) {
	static const lk_key *const tables[] = {lk_keys_automodel, NULL};
	lk_draft draft = {0};
	(void)words;
	LK_TRY(automodel_refuse(config));
	LK_TRY(lk_draft_read(config, tables, &draft));
	/* by default from_pretrained uses Liger's norms, activations and positions */
	const char *liger = lk_config_text(lk_config_at(config->root, "model.use_liger_kernel"));
	if (!liger || strcasecmp(liger, "false") != 0) draft.job.eager = LK_OFF;
	automodel_gpus(config, &draft);
	LK_TRY(automodel_sequence(config, &draft));
	LK_TRY(automodel_network(config, &draft.job.model));
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
