/* hf_unread.c: members of a config that no reader requested. In addition to the shape of a network,
 * a config.json holds tokens, dropout, initialisation and generation settings. Anything else could
 * be an unknown part of the network. */
#include <fnmatch.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "model/read/hf.h"

/* Whether the value is the one that alone is harmless. */
static bool value_is(const lk_value *value, const char *text) {
	switch (value->kind) {
	case LK_JSON_STRING:
	case LK_JSON_NUMBER: return strcmp(value->text, text) == 0;
	case LK_JSON_TRUE: return strcmp(text, "true") == 0;
	default: return false;
	}
}

static bool is_off(const lk_value *value) {
	switch (value->kind) {
	case LK_JSON_NULL:
	case LK_JSON_FALSE: return true;
	case LK_JSON_NUMBER: return value->number == 0;
	case LK_JSON_ARRAY:
	case LK_JSON_OBJECT: return value->count == 0;
	default: return false;
	}
}

bool lk_hf_neutral(const char *name, const lk_value *value) {
	if (is_off(value)) return true;
	for (const lk_hf_harmless_key *row = lk_hf_harmless; row->pattern; row++)
		if (fnmatch(row->pattern, name, 0) == 0 && (!row->value || value_is(value, row->value)))
			return true;
	return false;
}

const lk_value *lk_hf_unread(const lk_hf_config *config, char *out, size_t size) {
	const lk_value *object = config->language, *first = NULL;
	size_t more = 0;
	LK_ASSERT(config->read && size >= 64);
	lk_text text = lk_text_begin(out, size);
	for (size_t i = 0; i < object->count; i++) {
		const char *name = object->keys[i];
		if (config->read[i] || lk_hf_neutral(name, &object->items[i])) continue;
		if (!first) first = &object->items[i];
		if (text.used + strlen(name) + 24 < size)
			lk_text_add(&text, "%s%s", text.used ? ", " : "", name);
		else more++;
	}
	if (more) lk_text_add(&text, "%s%zu more", text.used ? " and " : "", more);
	return first;
}
