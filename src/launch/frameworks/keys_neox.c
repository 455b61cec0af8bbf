/* keys_neox.c: EleutherAI's gpt-neox (megatron/neox_arguments). Keys may be written with '-'.
 *
 *     dp = gpus / (max(pp, 1) tp); batch by DeepSpeed's rule
 *     gated activation: inner width = m ceil(int(2 F / 3) / (2 m)),
 *         F = intermediate_size or 4 h, m = mlp_multiple_of
 *     mlp_type llama (releases before 3): gated, without biases; inner width = intermediate_size or
 *         8 h / 3 up to a multiple of 256
 *     vocabulary: of the tokenizer, to a multiple of make_vocab_size_divisible_by * tp */
#include <string.h>

#include "base/arena.h"
#include "base/text.h"
#include "launch/frameworks/frameworks.h"
#include "model/read/read.h"

lk_status lk_neox_gather(lk_config *config) {
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

/* Layers of Mamba alone: sizes that gpt-neox derives from the hidden size are those of the class in
 * transformers. */
lk_status lk_own_neox_mamba(const lk_config *config, lk_draft *draft) {
	lk_reading *reading = config->reading;
	lk_model *model = &draft->job.model;
	lk_value *tree = NULL;
	const char *text = lk_arena_printf(
		reading->arena,
		"{\"model_type\": \"mamba\", \"num_hidden_layers\": %d, \"hidden_size\": %d, "
		"\"vocab_size\": %d, \"tie_word_embeddings\": %s}",
		model->layers, model->hidden, model->vocab, draft->no_tying ? "false" : "true");
	if (!text) return lk_oom(reading->err);
	LK_TRY(lk_document_parse(reading->arena, text, strlen(text), "attention_config.json", &tree,
	                         reading->err));
	return lk_model_from_hf(tree, config->file, NULL, model, NULL, reading->err);
}

lk_status lk_own_neox_width(const lk_config *config, lk_draft *draft) {
	lk_model *model = &draft->job.model;
	const char *kind = lk_config_text(lk_config_at(config->root, "mlp_type"));
	bool llama = kind && strcmp(kind, "llama") == 0;
	int64_t width = 4 * (int64_t)model->hidden;
	model->gated = llama || strcasestr(draft->activation, "glu") != NULL;
	if (model->ffn > 0) width = model->ffn;
	else if (draft->expansion > 0) width = (int64_t)(draft->expansion * model->hidden);
	if (llama && model->ffn == 0) width = (8 * (int64_t)model->hidden / 3 + 255) / 256 * 256;
	else if (model->gated && !llama) {
		int64_t multiple = draft->multiple > 0 ? draft->multiple : 1;
		width = (2 * width / 3 + 2 * multiple - 1) / (2 * multiple) * multiple;
	}
	model->ffn = width < 1 << 28 ? (int)width : 0;
	return LK_OK;
}

/* Micro-batches of a replica count where the batch of a step is stated without their size. */
lk_status lk_neox_batch(const lk_config *config, lk_draft *draft) {
	if (draft->job.gbs > 0 && draft->job.mbs == 0 && draft->accumulation > 0)
		config->reading->out->job->microbatches = draft->accumulation;
	return LK_OK;
}
