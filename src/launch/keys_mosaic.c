/* keys_mosaic.c: MosaicML's llm-foundry and Composer (scripts/train/yamls).
 *
 *     accumulation = global_train_batch_size / (gpus * device_train_microbatch_size)
 *     ffn = expansion_ratio * d_model; embeddings are tied */
#include <string.h>
#include <strings.h>

#include "base/text.h"
#include "launch/config.h"

static const lk_pair flash[] = {{"torch", "eager"}, {"flash", "flash"}, {NULL, NULL}};

static const lk_key keys[] = {LK_FACT("global_train_batch_size", "gbs"),
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
                              LK_FACT("fsdp_config.sharding_strategy", "sharding_name"),
                              LK_FACT("fsdp_config.activation_checkpointing", "recompute_text"),
                              LK_SKIP("*", "not part of the step"),
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
		model->final_norm = model->lm_head = model->tied = true;
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

static const lk_key maxtext_keys[] = {LK_FACT("model_name", "network_name"),
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
                                      LK_SKIP("*", "not part of the step"),
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
