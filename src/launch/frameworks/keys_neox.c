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
#include "launch/config/tables.h"
#include "launch/frameworks/frameworks.h"
#include "model/read/read.h"

LK_KEYS(neox);

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
	LK_TRY(lk_document_parse(reading->arena, text, strlen(text), "attention_config.json", &tree,
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
	int64_t width = 4 * (int64_t)model->hidden;
	if (model->ffn > 0) width = model->ffn;
	else if (draft->expansion > 0) width = (int64_t)(draft->expansion * model->hidden);
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
	static const lk_key *const tables[] = {lk_keys_neox, NULL};
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
