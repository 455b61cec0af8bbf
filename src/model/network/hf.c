/* hf.c: the reader of HuggingFace config.json files. It finds the part that states the language
 * model, fills the fields of lk_model by the family's table of keys (hf_families.c), lets the
 * family derive the rest, and checks the result. Every error names file, line and column. */
#include "model/network/hf.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/text.h"

enum {
	CONFIG_LIMIT = 16 << 20,
	NESTING = 3
};

static void hf_place(const lk_hf_config *config, const lk_value *value, char *out, size_t size) {
	const lk_value *at = value ? value : config->object;
	snprintf(out, size, "%s:%d:%d", config->file, at->line, at->column);
}

lk_status lk_hf_fail(const lk_hf_config *config, const lk_value *value, lk_error *err,
                     const char *fmt, ...) {
	char where[256], what[384];
	hf_place(config, value, where, sizeof where);
	va_list args;
	va_start(args, fmt);
	vsnprintf(what, sizeof what, fmt, args);
	va_end(args);
	return lk_fail(err, LK_ERR_INPUT, where, "%s", what);
}

void lk_hf_warn(const lk_hf_config *config, const char *fmt, ...) {
	if (!config->warning) return;
	size_t used = strlen(config->warning);
	if (used > 0 && used + 3 < LK_MODEL_WARNING) {
		memcpy(config->warning + used, "; ", 3);
		used += 2;
	}
	va_list args;
	va_start(args, fmt);
	vsnprintf(config->warning + used, LK_MODEL_WARNING - used, fmt, args);
	va_end(args);
}

/* A member by name: in the language model's part, else in the whole; multimodal configs state the
 * vocabulary and tied embeddings in either place. */
static const lk_value *member(const lk_hf_config *config, const char *name) {
	const lk_value *value = lk_json_get(config->object, name);
	if (value || config->object == config->root) return value;
	if (strcmp(name, "vocab_size") != 0 && strcmp(name, "tie_word_embeddings") != 0) return NULL;
	return lk_json_get(config->root, name);
}

/* The first of the '|'-separated names that is there; null counts as there. */
static const lk_value *find_any(const lk_hf_config *config, const char *names) {
	const lk_value *null = NULL;
	while (*names) {
		char name[64];
		size_t length = strcspn(names, "|");
		snprintf(name, sizeof name, "%.*s", (int)length, names);
		const lk_value *value = member(config, name);
		if (value && value->kind != LK_JSON_NULL) return value;
		if (value) null = value;
		names += length + (names[length] == '|');
	}
	return null;
}

const lk_value *lk_hf_find(const lk_hf_config *config, const char *names) {
	const lk_value *value = find_any(config, names);
	return value && value->kind != LK_JSON_NULL ? value : NULL;
}

static int name_length(const char *names) {
	return (int)strcspn(names, "|");
}

static const char *hf_kind_name(lk_json_token kind) {
	switch (kind) {
	case LK_JSON_OBJECT: return "an object";
	case LK_JSON_ARRAY: return "a list";
	case LK_JSON_STRING: return "a text";
	case LK_JSON_NUMBER: return "a number";
	case LK_JSON_TRUE: return "true";
	case LK_JSON_FALSE: return "false";
	default: return "null";
	}
}

static lk_status wrong_kind(const lk_hf_config *config, const lk_value *value, const char *names,
                            const char *wanted, lk_error *err) {
	lk_hf_fail(config, value, err, "%.*s is %s", name_length(names), names,
	           hf_kind_name(value->kind));
	return lk_hint(err, "give %s", wanted);
}

static lk_status hf_take_int(const lk_hf_config *config, const lk_value *value, const char *names,
                             int low, int *out, lk_error *err) {
	if (value->kind != LK_JSON_NUMBER)
		return wrong_kind(config, value, names, "a whole number", err);
	double number = value->number;
	if (!(number >= low && number <= INT_MAX) || number != (double)(long long)number) {
		lk_hf_fail(config, value, err, "%.*s is %.40s", name_length(names), names, value->text);
		return lk_hint(err, "give a whole number from %d to %d", low, INT_MAX);
	}
	*out = (int)number;
	return LK_OK;
}

static lk_status take_real(const lk_hf_config *config, const lk_value *value, const char *names,
                           double *out, lk_error *err) {
	if (value->kind != LK_JSON_NUMBER) return wrong_kind(config, value, names, "a number", err);
	if (!(value->number >= 0 && value->number <= 1e6)) {
		lk_hf_fail(config, value, err, "%.*s is %.40s", name_length(names), names, value->text);
		return lk_hint(err, "give a number from 0 to 1000000");
	}
	*out = value->number;
	return LK_OK;
}

static lk_status hf_take_flag(const lk_hf_config *config, const lk_value *value, const char *names,
                              bool *out, lk_error *err) {
	if (value->kind != LK_JSON_TRUE && value->kind != LK_JSON_FALSE)
		return wrong_kind(config, value, names, "true or false", err);
	*out = value->kind == LK_JSON_TRUE;
	return LK_OK;
}

lk_status lk_hf_int(const lk_hf_config *config, const char *names, int *out, lk_error *err) {
	const lk_value *value = lk_hf_find(config, names);
	return value ? hf_take_int(config, value, names, 0, out, err) : LK_OK;
}

lk_status lk_hf_real(const lk_hf_config *config, const char *names, double *out, lk_error *err) {
	const lk_value *value = lk_hf_find(config, names);
	return value ? take_real(config, value, names, out, err) : LK_OK;
}

lk_status lk_hf_flag(const lk_hf_config *config, const char *names, bool *out, lk_error *err) {
	const lk_value *value = lk_hf_find(config, names);
	return value ? hf_take_flag(config, value, names, out, err) : LK_OK;
}

static lk_status hf_missing(const lk_hf_config *config, const lk_hf_key *key, const lk_model *model,
                            lk_error *err) {
	lk_hf_fail(config, NULL, err, "the %s config does not state %.*s", model->family,
	           name_length(key->names), key->names);
	return lk_hint(err, "add \"%.*s\": NUMBER", name_length(key->names), key->names);
}

static lk_status hf_read_key(const lk_hf_config *config, const lk_hf_key *key, lk_model *model,
                             lk_error *err) {
	const lk_value *value = find_any(config, key->names);
	char *field = (char *)model + key->offset;
	if (!value || value->kind == LK_JSON_NULL) {
		if (value && key->null_clears) *(int *)(void *)field = 0;
		if (key->required && *(int *)(void *)field == 0) return hf_missing(config, key, model, err);
		return LK_OK;
	}
	switch (key->kind) {
	case LK_HF_INT:
		return hf_take_int(config, value, key->names, key->required, (int *)(void *)field, err);
	case LK_HF_REAL: return take_real(config, value, key->names, (double *)(void *)field, err);
	default: return hf_take_flag(config, value, key->names, (bool *)field, err);
	}
}

/* Whether layer i of the list is a window layer; unknown kinds are errors, for their cost is not
 * modelled. */
static lk_status layer_windowed(const lk_hf_config *config, const lk_value *item, bool *out,
                                lk_error *err) {
	const char *text = item->kind == LK_JSON_STRING ? item->text : hf_kind_name(item->kind);
	*out = strcmp(text, "sliding_attention") == 0;
	if (*out || strcmp(text, "full_attention") == 0) return LK_OK;
	lk_hf_fail(config, item, err, "layer_types names %.60s, which is not modelled", text);
	return lk_hint(err, "use full_attention or sliding_attention");
}

static lk_status count_full(const lk_hf_config *config, const lk_value *types, int *full,
                            int *first, lk_error *err) {
	*full = 0;
	*first = -1;
	for (size_t i = 0; i < types->count; i++) {
		bool windowed;
		LK_TRY(layer_windowed(config, &types->items[i], &windowed, err));
		if (windowed) continue;
		if (*first < 0) *first = (int)i;
		(*full)++;
	}
	return LK_OK;
}

/* Whether the full layers are exactly the last of each group of `every`. */
static bool repeats(const lk_value *types, int every) {
	for (size_t i = 0; i < types->count; i++) {
		bool full = strcmp(types->items[i].text, "full_attention") == 0;
		if (full != ((i + 1) % (size_t)every == 0)) return false;
	}
	return true;
}

lk_status lk_hf_layer_types(const lk_hf_config *config, lk_model *model, lk_error *err) {
	const lk_value *types = lk_hf_find(config, "layer_types");
	if (!types) return LK_OK;
	if (types->kind != LK_JSON_ARRAY)
		return wrong_kind(config, types, "layer_types", "a list of texts", err);
	if (types->count != (size_t)model->layers) {
		lk_hf_fail(config, types, err, "layer_types has %zu entries for %d layers", types->count,
		           model->layers);
		return lk_hint(err, "give one entry per layer");
	}
	int full, first;
	LK_TRY(count_full(config, types, &full, &first, err));
	if (full == model->layers) {
		model->window = 0;
		model->full_every = 0;
		return LK_OK;
	}
	if (model->window == 0) {
		lk_hf_fail(config, types, err,
		           "layer_types names sliding_attention, but sliding_window is not stated");
		return lk_hint(err, "add \"sliding_window\": NUMBER");
	}
	model->full_every = full == 0 ? 0 : first + 1;
	if (full > 0 && !repeats(types, first + 1)) {
		model->full_every = (model->layers + full / 2) / full;
		lk_hf_warn(config, "layer_types does not repeat: taken as one full layer in %d",
		           model->full_every);
	}
	return LK_OK;
}

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
		return wrong_kind(config, type, "model_type", "a text", err);
	*family = type ? lk_hf_family_of(type->text) : NULL;
	if (*family) return LK_OK;
	if (!llama_like(config)) return unknown_type(config, type, err);
	*family = lk_hf_family_generic();
	if (type) lk_hf_warn(config, "model_type \"%.60s\" is not known: read as llama", type->text);
	else lk_hf_warn(config, "no model_type: read as llama");
	return LK_OK;
}

lk_status lk_model_from_hf(const lk_value *value, const char *file, lk_model *out, char *warning,
                           lk_error *err) {
	lk_hf_config config = {
		.object = value, .root = value, .file = file ? file : "config.json", .warning = warning};
	if (warning) warning[0] = '\0';
	if (!value) return lk_fail(err, LK_ERR_INPUT, file, "no config");
	if (value->kind != LK_JSON_OBJECT)
		return wrong_kind(&config, value, "the config", "a JSON object", err);
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
		LK_TRY(hf_read_key(&config, key, &model, err));
	LK_TRY(family->finish(&config, &model, err));

	char where[256];
	hf_place(&config, NULL, where, sizeof where);
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
