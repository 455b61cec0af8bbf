/* hf_keys.c: values of a config.json by name; every message states place and kind. */
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/check.h"
#include "model/read/hf.h"

void lk_hf_place(const lk_hf_config *config, const lk_value *value, char *out, size_t size) {
	LK_ASSERT((value || config->object) && config->file);
	const lk_value *at = value ? value : config->object;
	snprintf(out, size, "%s:%d:%d", config->file, at->line, at->column);
}

lk_status lk_hf_fail(const lk_hf_config *config, const lk_value *value, lk_error *err,
                     const char *fmt, ...) {
	char where[256], what[384];
	lk_hf_place(config, value, where, sizeof where);
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

/* A member by name: in the language model's part, else in the whole config; multimodal configs
 * state the vocabulary and tied embeddings in either place. */
static const lk_value *member(const lk_hf_config *config, const char *name) {
	const lk_value *value = lk_json_get(config->object, name);
	if (value || config->object == config->root) return value;
	if (strcmp(name, "vocab_size") != 0 && strcmp(name, "tie_word_embeddings") != 0) return NULL;
	return lk_json_get(config->root, name);
}

static void mark_read(const lk_hf_config *config, const lk_value *value) {
	LK_ASSERT(!config->read || config->language);
	const lk_value *object = config->language;
	if (!config->read || !value) return;
	if (value >= object->items && value < object->items + object->count)
		config->read[value - object->items] = true;
}

const lk_value *lk_hf_get(const lk_hf_config *config, const lk_value *object, const char *name) {
	const lk_value *value = lk_json_get(object, name);
	mark_read(config, value);
	return value;
}

bool lk_hf_same(const lk_value *a, const lk_value *b) {
	if (!a || !b || a->kind != b->kind) return false;
	switch (a->kind) {
	case LK_JSON_NUMBER: return a->number == b->number;
	case LK_JSON_STRING: return strcmp(a->text, b->text) == 0;
	case LK_JSON_ARRAY:
		for (size_t i = 0; i < a->count; i++)
			if (i >= b->count || !lk_hf_same(&a->items[i], &b->items[i])) return false;
		return a->count == b->count;
	default: return a->kind == LK_JSON_TRUE || a->kind == LK_JSON_FALSE;
	}
}

/* The first present one of the '|'-separated names; null counts as present. Other names with an
 * equal value are marked as read; one with a different value stays unread and is refused. */
static const lk_value *find_any(const lk_hf_config *config, const char *names) {
	const lk_value *found = NULL;
	while (*names) {
		char name[64];
		size_t length = strcspn(names, "|");
		LK_ASSERT(length > 0 && length < sizeof name);
		snprintf(name, sizeof name, "%.*s", (int)length, names);
		const lk_value *value = member(config, name);
		names += length + (names[length] == '|');
		if (!value) continue;
		if (!found || found->kind == LK_JSON_NULL) found = value;
		if (lk_hf_same(found, value)) mark_read(config, value);
	}
	mark_read(config, found);
	return found;
}

const lk_value *lk_hf_find(const lk_hf_config *config, const char *names) {
	const lk_value *value = find_any(config, names);
	return value && value->kind != LK_JSON_NULL ? value : NULL;
}

void lk_hf_pass(const lk_hf_config *config, const char *names) {
	LK_ASSERT(*names && (!config->read || config->language));
	const lk_value *object = config->language;
	for (size_t i = 0; config->read && i < object->count; i++)
		if (lk_hf_listed(object->keys[i], names)) config->read[i] = true;
}

bool lk_hf_listed(const char *name, const char *names) {
	size_t length = strlen(name);
	for (const char *at = names; *at;) {
		size_t size = strcspn(at, "|");
		if (size == length && strncmp(at, name, size) == 0) return true;
		at += size + (at[size] == '|');
	}
	return false;
}

lk_status lk_hf_part(const lk_hf_config *config, const char *name, const char *known,
                     lk_hf_config *part, lk_error *err) {
	LK_ASSERT(part != config);
	const lk_value *object = lk_hf_find(config, name);
	*part = *config;
	part->object = part->root = NULL;
	if (!object) return LK_OK;
	if (object->kind != LK_JSON_OBJECT)
		return lk_hf_wrong_kind(config, object, name, "an object", err);
	part->object = part->root = object;
	for (size_t i = 0; !config->as && i < object->count; i++) {
		if (lk_hf_listed(object->keys[i], known) ||
		    lk_hf_neutral(object->keys[i], &object->items[i]))
			continue;
		lk_hf_fail(config, &object->items[i], err, "%.60s of %s is not modelled", object->keys[i],
		           name);
		return lk_hint(err, "--as TYPE, the config's model_type, passes over it");
	}
	return LK_OK;
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

lk_status lk_hf_wrong_kind(const lk_hf_config *config, const lk_value *value, const char *names,
                           const char *wanted, lk_error *err) {
	if (value)
		lk_hf_fail(config, value, err, "%.*s is %s", name_length(names), names,
		           hf_kind_name(value->kind));
	else lk_hf_fail(config, NULL, err, "the config does not state %.*s", name_length(names), names);
	return lk_hint(err, "give %s", wanted);
}

/* A per-layer list of equal numbers counts as that number. */
static const lk_value *equal_items(const lk_value *value) {
	if (value->kind != LK_JSON_ARRAY || value->count == 0) return value;
	for (size_t i = 0; i < value->count; i++)
		if (value->items[i].kind != LK_JSON_NUMBER ||
		    value->items[i].number != value->items[0].number)
			return value;
	return &value->items[0];
}

static lk_status hf_take_int(const lk_hf_config *config, const lk_value *value, const char *names,
                             int low, int *out, lk_error *err) {
	LK_ASSERT(low == 0 || low == 1);
	value = equal_items(value);
	if (value->kind == LK_JSON_FALSE && low == 0) { /* false: none */
		*out = 0;
		return LK_OK;
	}
	if (value->kind != LK_JSON_NUMBER)
		return lk_hf_wrong_kind(config, value, names, "a whole number", err);
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
	if (value->kind != LK_JSON_NUMBER)
		return lk_hf_wrong_kind(config, value, names, "a number", err);
	if (!(value->number >= 0 && value->number <= 1e12)) { /* bases of rotary positions reach 1e11 */
		lk_hf_fail(config, value, err, "%.*s is %.40s", name_length(names), names, value->text);
		return lk_hint(err, "give a number from 0 to 1e12");
	}
	*out = value->number;
	return LK_OK;
}

static lk_status hf_take_flag(const lk_hf_config *config, const lk_value *value, const char *names,
                              bool *out, lk_error *err) {
	if (value->kind != LK_JSON_TRUE && value->kind != LK_JSON_FALSE)
		return lk_hf_wrong_kind(config, value, names, "true or false", err);
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

/* Fill the field of a key in a family's table. */
static lk_status read_key(const lk_hf_config *config, const lk_hf_key *key, lk_model *model,
                          lk_error *err) {
	LK_ASSERT(key->kind == LK_HF_INT || (!key->required && !key->null_clears));
	LK_ASSERT(key->offset < sizeof *model);
	const lk_value *value = find_any(config, key->names);
	char *field = (char *)model + key->offset;
	if (!value || value->kind == LK_JSON_NULL) {
		if (value && key->null_clears) *(int *)(void *)field = 0;
		if (key->required && *(int *)(void *)field == 0) return hf_missing(config, key, model, err);
		return LK_OK;
	}
	switch (key->kind) {
	case LK_HF_INT:
		if (key->offset == LK_HF_FIELD(window) && value->kind == LK_JSON_NUMBER &&
		    value->number == -1) { /* some libraries' notation for none */
			*(int *)(void *)field = 0;
			return LK_OK;
		}
		return hf_take_int(config, value, key->names, key->required, (int *)(void *)field, err);
	case LK_HF_REAL: return take_real(config, value, key->names, (double *)(void *)field, err);
	default: return hf_take_flag(config, value, key->names, (bool *)field, err);
	}
}

lk_status lk_hf_read_keys(const lk_hf_config *config, const lk_hf_key *const *tables,
                          lk_model *model, lk_error *err) {
	lk_status status = LK_OK;
	lk_error later;
	for (; *tables; tables++)
		for (const lk_hf_key *key = *tables; key->names; key++) {
			lk_status one = read_key(config, key, model, status == LK_OK ? err : &later);
			if (status == LK_OK) status = one;
		}
	return status;
}
