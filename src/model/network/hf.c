/* hf.c: the reader of HuggingFace config.json files. It finds the part that states the language
 * model, fills the fields of lk_model by the family's table of keys (hf_families.c), lets the
 * family derive the rest, and checks the result. Every error names file, line and column. */
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "base/text.h"
#include "model/network/hf.h"

enum {
	CONFIG_LIMIT = 16 << 20,
	NESTING = 3
};

/* Multimodal configs hold the language model's one inside. */
static void hf_descend(lk_hf_config *config) {
	static const char *const inner[] = {"thinker_config", "text_config", "llm_config",
	                                    "language_config"};
	for (int depth = 0; depth < NESTING; depth++) {
		const lk_value *next = NULL;
		for (size_t i = 0; i < sizeof inner / sizeof *inner && !next; i++) {
			next = lk_json_get(config->object, inner[i]);
			if (next && next->kind != LK_JSON_OBJECT) next = NULL;
		}
		if (!next) return;
		config->object = next;
	}
}

static bool llama_like(const lk_hf_config *config) {
	return lk_hf_find(config, "num_hidden_layers") && lk_hf_find(config, "hidden_size") &&
	       lk_hf_find(config, "num_attention_heads");
}

static lk_status unknown_type(const lk_hf_config *config, const lk_value *type, lk_error *err) {
	if (type)
		lk_hf_fail(config, type, err,
		           "model_type \"%.60s\" is not known and llama's keys are missing", type->text);
	else lk_hf_fail(config, NULL, err, "no model_type");
	return lk_hint(
		err,
		"give a HuggingFace config.json with model_type (or with num_hidden_layers, hidden_size, "
		"num_attention_heads, intermediate_size, vocab_size)");
}

static lk_status choose_family(const lk_hf_config *config, const lk_hf_family **family,
                               lk_error *err) {
	const lk_value *type = lk_hf_find(config, "model_type");
	if (type && type->kind != LK_JSON_STRING)
		return lk_hf_wrong_kind(config, type, "model_type", "a text", err);
	*family = type ? lk_hf_family_of(type->text) : NULL;
	if (*family) return LK_OK;
	if (!llama_like(config)) return unknown_type(config, type, err);
	*family = lk_hf_family_generic();
	if (type) lk_hf_warn(config, "model_type \"%.60s\" is not known: read as llama", type->text);
	else lk_hf_warn(config, "no model_type: read as llama");
	return LK_OK;
}

/* Configs since transformers 5 state the base of rotary positions with the other parameters of
 * theirs, one level down. */
static lk_status read_rotary(const lk_hf_config *config, lk_model *model, lk_error *err) {
	lk_hf_config rotary = *config;
	rotary.object = rotary.root = lk_json_get(config->object, "rope_parameters");
	if (!rotary.object || rotary.object->kind != LK_JSON_OBJECT) return LK_OK;
	return lk_hf_real(&rotary, "rope_theta", &model->rotary_base, err);
}

lk_status lk_model_from_hf(const lk_value *value, const char *file, lk_model *out, char *warning,
                           lk_error *err) {
	lk_hf_config config = {
		.object = value, .root = value, .file = file ? file : "config.json", .warning = warning};
	if (warning) warning[0] = '\0';
	if (!value) return lk_fail(err, LK_ERR_INPUT, file, "no config");
	if (value->kind != LK_JSON_OBJECT)
		return lk_hf_wrong_kind(&config, value, "the config", "a JSON object", err);
	hf_descend(&config);
	const lk_hf_family *family;
	LK_TRY(choose_family(&config, &family, err));
	if (config.object != config.root)
		lk_hf_warn(&config, "vision and audio parts of the config are not counted");

	const lk_value *type = lk_hf_find(&config, "model_type");
	lk_model model = *family->start;
	lk_copy(model.family, sizeof model.family, type ? type->text : "llama");
	lk_copy(model.name, sizeof model.name, model.family);
	for (const lk_hf_key *key = family->keys; key->names; key++)
		LK_TRY(lk_hf_read_key(&config, key, &model, err));
	LK_TRY(read_rotary(&config, &model, err));
	LK_TRY(family->finish(&config, &model, err));

	char where[256];
	lk_hf_place(&config, NULL, where, sizeof where);
	LK_TRY(lk_model_check(&model, where, err));
	*out = model;
	return LK_OK;
}

/* Reads the tree of a file whose size is bounded: a config is small, and a wrong path may name
 * anything. */
static lk_status hf_read_tree(lk_arena *arena, const char *path, lk_value **tree, lk_error *err) {
	char *text = NULL;
	size_t size = 0;
	LK_TRY(lk_stream_slurp(path, CONFIG_LIMIT, &text, &size, err));
	lk_stream *in = NULL;
	lk_status status = lk_stream_memory(text, size, path, &in, err);
	if (status == LK_OK) status = lk_json_document(arena, in, tree, err);
	lk_stream_close(in);
	free(text);
	return status;
}

lk_status lk_model_read(const char *path, lk_model *out, char *warning, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	struct stat info;
	if (stat(path, &info) == 0 && S_ISDIR(info.st_mode)) {
		path = lk_arena_printf(&arena, "%s/config.json", path);
		if (!path) {
			lk_arena_free(&arena);
			return lk_oom(err);
		}
	}
	lk_value *tree = NULL;
	lk_status status = hf_read_tree(&arena, path, &tree, err);
	if (status == LK_OK) status = lk_model_from_hf(tree, path, out, warning, err);
	lk_arena_free(&arena);
	return status;
}
