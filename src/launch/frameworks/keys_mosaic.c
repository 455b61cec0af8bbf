/* keys_mosaic.c: MosaicML's llm-foundry and Composer (scripts/train/yamls).
 *
 *     accumulation = global_train_batch_size / (gpus * device_train_microbatch_size)
 *     ffn = expansion_ratio * d_model; embeddings are tied */
#include <string.h>
#include <strings.h>

#include "base/text.h"
#include "launch/config/tables.h"
#include "launch/frameworks/frameworks.h"

LK_KEYS(llm_foundry);
LK_KEYS(maxtext);

static bool mosaic_is(const lk_value *root) {
	return lk_config_at(root, "max_duration") &&
	       (lk_config_at(root, "global_train_batch_size") || lk_config_at(root, "variables"));
}

static lk_status mosaic_translate(const lk_config *config, lk_words *words) {
	static const lk_key *const tables[] = {lk_keys_llm_foundry, NULL};
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

static bool maxtext_is(const lk_value *root) {
	return lk_config_at(root, "per_device_batch_size") &&
	       (lk_config_at(root, "max_target_length") || lk_config_at(root, "remat_policy") ||
	        lk_config_at(root, "model_name"));
}

/* MaxText's remat_policy: nothing but the layers' inputs (full), all that products make (minimal,
 * minimal_with_context), or some of it. */
static lk_status maxtext_policy(const lk_config *config, lk_draft *draft) {
	char *policy = draft->recompute_text;
	bool full = !*policy || strcmp(policy, "full") == 0;
	if (!full)
		LK_TRY(lk_launch_assume(config->reading,
		                        "remat_policy %.40s is priced as selective recomputation", policy));
	lk_copy(policy, sizeof draft->recompute_text, full ? "full" : "selective");
	return LK_OK;
}

static lk_status maxtext_translate(const lk_config *config, lk_words *words) {
	static const lk_key *const tables[] = {lk_keys_maxtext, NULL};
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
