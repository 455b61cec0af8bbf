/* hf.c: the reader of HuggingFace config.json files. It finds the part that states the language
 * model, fills the fields of lk_model by the family's table of keys (data/families), lets the
 * family derive the rest, and checks the result. Every error names file, line and column. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/check.h"
#include "base/arena.h"
#include "base/text.h"
#include "base/vec.h"
#include "model/read/hf.h"

enum { CONFIG_LIMIT = 16 << 20, NESTING = 3 };

/* The language model's part of a multimodal config; NULL: no such part. */
static const lk_value *hf_inner(const lk_value *object) {
	static const char *const inner[] = {"thinker_config", "text_config", "llm_config",
	                                    "language_config"};
	for (size_t i = 0; i < sizeof inner / sizeof *inner; i++) {
		const lk_value *next = lk_json_get(object, inner[i]);
		if (next && next->kind == LK_JSON_OBJECT) return next;
	}
	return NULL;
}

static void hf_descend(lk_hf_config *config) {
	const lk_value *next = config->object;
	for (int depth = 0; depth <= NESTING && next; depth++) {
		config->object = next;
		next = hf_inner(next);
	}
}

static const lk_hf_family *family_nearest(const char *type) {
	LK_VEC(const char *) names = {0};
	for (const lk_hf_family *row = lk_hf_families; row->type && lk_push(&names); row++)
		*lk_last(&names) = row->type;
	const char *near = lk_nearest(type, names.at, names.count);
	lk_vec_free(&names);
	return near ? lk_hf_family_of(near) : NULL;
}

/* The known type that is a prefix of an unknown one: qwen3 for qwen3_next; else llama. */
static const char *family_forebear(const char *type) {
	const char *longest = "llama";
	size_t most = 0;
	for (const lk_hf_family *row = lk_hf_families; row->type; row++) {
		size_t length = strlen(row->type);
		if (length <= most || strncmp(type, row->type, length) != 0) continue;
		longest = row->type;
		most = length;
	}
	return longest;
}

/* Whether a config can be read as another type. Marks members of that type as read, even after a
 * missing one. */
static bool reads_as(const lk_hf_config *config, const char *type) {
	LK_ASSERT(type);
	const lk_hf_family *family = lk_hf_family_of(type);
	lk_hf_config quiet = *config;
	lk_model model = *family->start;
	lk_error unused;
	quiet.warning = NULL;
	quiet.as = true;
	return lk_hf_read_keys(&quiet, family->keys, &model, &unused) == LK_OK &&
	       lk_hf_finish(&quiet, family, &model, &unused) == LK_OK &&
	       lk_model_check(&model, "", &unused) == LK_OK;
}

/* The end of every refusal's hint. */
#define AS "--as %s reads it so on purpose"

static lk_status unknown_type(const lk_hf_config *config, const lk_value *type, lk_error *err) {
	char keys[192];
	const char *forebear = type ? family_forebear(type->text) : "llama";
	bool llama = reads_as(config, "llama");
	lk_hf_unread(config, keys, sizeof keys);
	if (!reads_as(config, forebear)) forebear = llama ? "llama" : NULL;
	if (type)
		lk_hf_fail(config, type, err, "networks of the type \"%.60s\" are not modelled%s%s",
		           type->text, *keys ? "; not understood: " : "", keys);
	else
		lk_hf_fail(config, NULL, err, "the config states no model_type%s%s",
		           *keys ? "; not understood: " : "", keys);
	if (forebear) return lk_hint(err, AS ", with a warning", forebear);
	if (!type) return lk_hint(err, "add \"model_type\": TYPE, such as \"llama\", and its sizes");
	return lk_hint(err, "no known type has all of its keys; state its sizes in a config of a type "
	                    "like llama, or give a preset");
}

static lk_status unknown_as(const char *as, lk_error *err) {
	char shown[64];
	lk_fail(err, LK_ERR_INPUT, "--as", "no type of networks is called '%s'",
	        lk_escape(as, shown, sizeof shown));
	const lk_hf_family *near = family_nearest(as);
	return near ? lk_hint(err, "did you mean %s?", near->type)
	            : lk_hint(err, "give a model_type that is known: llama, qwen3, mixtral, gpt2, ...");
}

/* The family whose name is a prefix of an architecture ("Qwen2MoeForCausalLM", "GPT2LMHeadModel"),
 * ignoring case, '_' and '-'. */
static const lk_hf_family *family_of_architecture(const lk_hf_config *config) {
	static const char *const tasks[] = {"ForCausalLM", "LMHeadModel", "ForConditionalGeneration",
	                                    "ForMaskedLM", "Model"};
	const lk_value *list = lk_hf_find(config, "architectures");
	if (!list || list->kind != LK_JSON_ARRAY || list->count == 0 ||
	    list->items[0].kind != LK_JSON_STRING)
		return NULL;
	const char *text = list->items[0].text, *task = NULL;
	for (size_t i = 0; i < sizeof tasks / sizeof *tasks && !task; i++)
		task = strstr(text, tasks[i]);
	for (const lk_hf_family *row = lk_hf_families; task && row->type; row++) {
		const char *at = text, *name = row->type;
		for (; *name && at <= task; name++)
			if (*name == '_' || *name == '-') continue;
			else if (tolower((unsigned char)*name) != tolower((unsigned char)*at++)) break;
		if (!*name && at == task) return row;
	}
	return NULL;
}

static lk_status choose_family(const lk_hf_config *config, const char *as,
                               const lk_hf_family **family, lk_error *err) {
	const lk_value *type = lk_hf_find(config, "_class_name|model_type");
	if (type && type->kind != LK_JSON_STRING)
		return lk_hf_wrong_kind(config, type, "model_type", "a text", err);
	*family = as || type ? lk_hf_family_of(as ? as : type->text) : NULL;
	if (!*family && !as && !type && lk_hf_joint_text(config))
		*family = lk_hf_family_of(lk_hf_joint_text(config));
	/* configs of state-spaces/mamba state only their mixer */
	const lk_value *mixer = lk_json_get(config->object, "ssm_cfg"),
				   *kind = mixer ? lk_json_get(mixer, "layer") : NULL;
	bool second = kind && kind->kind == LK_JSON_STRING && strcmp(kind->text, "Mamba2") == 0;
	if (!*family && !as && !type && mixer) *family = lk_hf_family_of(second ? "mamba2" : "mamba");
	/* the type in Grok-2's config is "git" */
	if (!*family && !as && (!type || strcmp(type->text, "git") == 0))
		*family = family_of_architecture(config);
	if (*family) return LK_OK;
	return as ? unknown_as(as, err) : unknown_type(config, type, err);
}

/* ---- members outside the family ---- */

static bool is_inner(const lk_hf_config *config, const lk_value *value) {
	for (const lk_value *at = config->root; at; at = hf_inner(at))
		if (at == value) return true;
	return false;
}

/* A member outside the language model's part that shapes a network: another part (vision, audio, a
 * projection), else a single member, unless the language model's part repeats it. NULL: none. */
static const lk_value *other_part(const lk_hf_config *config, const char **name) {
	const lk_value *single = NULL;
	for (const lk_value *at = config->root; at && at != config->language; at = hf_inner(at))
		for (size_t i = 0; i < at->count; i++) {
			const lk_value *item = &at->items[i];
			bool object = item->kind == LK_JSON_OBJECT;
			if (is_inner(config, item) || lk_hf_neutral(at->keys[i], item) ||
			    lk_hf_beside_tower(config, at->keys[i]) || (single && !object))
				continue;
			if (!object && (strcmp(at->keys[i], "vocab_size") == 0 ||
			                lk_hf_same(item, lk_json_get(config->language, at->keys[i]))))
				continue;
			*name = at->keys[i];
			if (object) return item;
			single = item;
		}
	return single;
}

static lk_status refuse_beyond(const lk_hf_config *config, const lk_hf_family *family,
                               lk_error *err) {
	char keys[192];
	const char *name = "";
	const lk_value *part = other_part(config, &name),
				   *first = lk_hf_unread(config, keys, sizeof keys);
	if (!part && !first) return LK_OK;
	if (part)
		lk_hf_fail(config, part, err, "%.60s is not modelled, only the language model is", name);
	else
		lk_hf_fail(config, first, err, "%s: not modelled in networks of the type %s", keys,
		           family->type);
	return lk_hint(err, part ? "--as %s reads the language model alone" : AS ", with a warning",
	               family->type);
}

/* Warn about what --as leaves out. */
static void warn_beyond(const lk_hf_config *config, const lk_hf_family *family) {
	char keys[160];
	const char *part = "";
	lk_hf_unread(config, keys, sizeof keys);
	lk_hf_warn(config, "read as %s (--as)", family->type);
	if (other_part(config, &part)) lk_hf_warn(config, "%.60s is not counted", part);
	if (*keys) lk_hf_warn(config, "not understood: %s", keys);
}

/* Configs since transformers 5 state the rotary base one level down, with the other rotary
 * parameters. */
static lk_status read_rotary(const lk_hf_config *config, lk_model *model, lk_error *err) {
	lk_hf_config rotary = *config;
	rotary.object = rotary.root = lk_json_get(config->object, "rope_parameters");
	if (!rotary.object || rotary.object->kind != LK_JSON_OBJECT) return LK_OK;
	return lk_hf_real(&rotary, "rope_theta", &model->rotary_base, err);
}

/* How the code computes the activation named by a config; otherwise the family's. */
static lk_activation activation_of(const lk_hf_config *config, lk_activation family) {
	static const char names[] = "hidden_act|activation_function|hidden_activation|"
								"dense_act_fn|feed_forward_proj|activation|act_fn",
					  steps[] = "gelu_new|gelu_fast|gelu_python|gelu_accurate|gated-gelu";
	const lk_value *value = lk_hf_find(config, names);
	if (!value || value->kind != LK_JSON_STRING) return family;
	if (lk_hf_listed(value->text, steps)) return LK_ACT_STEPS;
	return strcmp(value->text, "relu") == 0 ? LK_ACT_RELU : LK_ACT_KERNEL;
}

static lk_status read_family(const lk_hf_config *config, const char *as, lk_model *out,
                             lk_error *err) {
	const lk_hf_family *family;
	LK_TRY(choose_family(config, as, &family, err));
	LK_ASSERT(family->keys && family->finish);
	lk_model model = *family->start;
	lk_copy(model.family, sizeof model.family, family->type);
	lk_copy(model.name, sizeof model.name, family->type);
	lk_hf_text_defaults(config, family->type, &model);
	LK_TRY(lk_hf_read_keys(config, family->keys, &model, err));
	LK_TRY(read_rotary(config, &model, err));
	model.activation = activation_of(config, model.activation);
	LK_TRY(lk_hf_finish(config, family, &model, err));
	LK_TRY(lk_hf_tower(config, &model, err));
	if (as) warn_beyond(config, family);
	else LK_TRY(refuse_beyond(config, family, err));

	char where[256];
	lk_hf_place(config, NULL, where, sizeof where);
	LK_TRY(lk_model_check(&model, where, err));
	*out = model;
	return LK_OK;
}

lk_status lk_model_from_hf(const lk_value *value, const char *file, const char *as, lk_model *out,
                           char *warning, lk_error *err) {
	lk_hf_config config = {.object = value,
	                       .root = value,
	                       .file = file ? file : "config.json",
	                       .warning = warning,
	                       .as = as != NULL};
	if (warning) warning[0] = '\0';
	if (!value) return lk_fail(err, LK_ERR_INPUT, file, "no config");
	if (value->kind != LK_JSON_OBJECT)
		return lk_hf_wrong_kind(&config, value, "the config", "a JSON object", err);
	hf_descend(&config);
	LK_ASSERT(config.object);
	config.language = config.object;
	config.read = calloc(config.object->count + 1, sizeof *config.read);
	if (!config.read) return lk_oom(err);
	lk_status status = read_family(&config, as, out, err);
	free(config.read);
	return status;
}

/* Read the tree of a file of bounded size: a config is small, and a wrong path may name
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

lk_status lk_model_read(const char *path, const char *as, lk_model *out, char *warning,
                        lk_error *err) {
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
	if (status == LK_OK) status = lk_model_from_hf(tree, path, as, out, warning, err);
	lk_arena_free(&arena);
	return status;
}
