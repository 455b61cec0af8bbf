/* document.c: what form a text has; objects and arrays that grow while a document is read. */
#include "io/document.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/sort.h"

/* ---- the form of a text ---- */

/* The first sign of the first line that is no comment. */
static const char *document_begin(const char *text, const char *end) {
	while (text < end && (isspace((unsigned char)*text) || *text == '#')) {
		if (*text == '#')
			while (text < end && *text != '\n') text++;
		else text++;
	}
	return text;
}

static const char *document_name_end(const char *at, const char *end, const char *more) {
	while (at < end && *at && (isalnum((unsigned char)*at) || strchr(more, *at))) at++;
	return at;
}

/* "[table]" or "[[tables]]", and nothing but a comment behind it. */
static bool document_table(const char *at, const char *end) {
	bool two = end - at > 1 && at[1] == '[';
	const char *name = at + (two ? 2 : 1);
	at = document_name_end(name, end, "_-.\"'");
	if (at == name) return false;
	for (int i = 0; i < (two ? 2 : 1); i++)
		if (at == end || *at++ != ']') return false;
	while (at < end && (*at == ' ' || *at == '\t' || *at == '\r')) at++;
	return at == end || *at == '\n' || *at == '#';
}

lk_document_form lk_document_form_of(const char *text, size_t size) {
	const char *end = text + size;
	if (size > 1 && text[0] == '#' && text[1] == '!') return LK_DOCUMENT_NONE;
	const char *begin = document_begin(text, end), *at = begin;
	if (at < end && *at == '{') return LK_DOCUMENT_JSON;
	if (at < end && *at == '[') return document_table(at, end) ? LK_DOCUMENT_TOML : LK_DOCUMENT_NONE;
	at = document_name_end(begin, end, "_-.");
	if (at < end && *at == ':' && (at + 1 == end || isspace((unsigned char)at[1])))
		return LK_DOCUMENT_YAML;
	const char *name = at;
	while (at < end && (*at == ' ' || *at == '\t')) at++;
	bool assigned = name > begin && at > name && end - at > 1 && at[0] == '=' &&
	                (at[1] == ' ' || at[1] == '\t');
	return assigned ? LK_DOCUMENT_TOML : LK_DOCUMENT_NONE;
}

/* ---- objects and arrays that grow ---- */

bool lk_members_add(lk_members *members, const char *key, const lk_value *item) {
	if (members->count == members->capacity) {
		size_t capacity = members->capacity ? 2 * members->capacity : 8;
		const char **keys = realloc(members->keys, capacity * sizeof *keys);
		if (keys) members->keys = keys;
		lk_value *items = realloc(members->items, capacity * sizeof *items);
		if (items) members->items = items;
		if (!keys || !items) return false;
		members->capacity = capacity;
	}
	members->keys[members->count] = key;
	members->items[members->count++] = *item;
	return true;
}

struct keyed {
	const char *key;
	size_t at;
};

static int members_by_key(const void *a, const void *b) {
	const struct keyed *one = a, *other = b;
	return strcmp(one->key, other->key);
}

bool lk_members_settle(lk_members *members) {
	size_t count = members->count, kept = 0;
	struct keyed *sorted = count > 1 ? malloc(count * sizeof *sorted) : NULL;
	if (count <= 1) return true;
	if (sorted == NULL) return false;
	for (size_t i = 0; i < count; i++) sorted[i] = (struct keyed){members->keys[i], i};
	lk_sort(sorted, count, sizeof *sorted, members_by_key);
	for (size_t i = 0, last; i < count; i = last + 1) {
		for (last = i; last + 1 < count && strcmp(sorted[last + 1].key, sorted[i].key) == 0;)
			last++;
		members->items[sorted[i].at] = members->items[sorted[last].at];
		for (size_t k = i + 1; k <= last; k++) members->keys[sorted[k].at] = NULL;
	}
	free(sorted);
	for (size_t i = 0; i < count; i++) {
		if (members->keys[i] == NULL) continue;
		members->keys[kept] = members->keys[i];
		members->items[kept++] = members->items[i];
	}
	members->count = kept;
	return true;
}

void lk_members_free(lk_members *members) {
	free(members->keys);
	free(members->items);
	*members = (lk_members){0};
}

bool lk_members_end(lk_members *members, lk_arena *arena, lk_value *out) {
	bool object = out->kind == LK_JSON_OBJECT;
	size_t count = members->count;
	out->count = count;
	out->items = LK_ARRAY(arena, lk_value, count + 1);
	out->keys = object ? LK_ARRAY(arena, const char *, count + 1) : NULL;
	bool ok = out->items && (out->keys || !object);
	if (ok && count) memcpy(out->items, members->items, count * sizeof *out->items);
	if (ok && count && object) memcpy(out->keys, members->keys, count * sizeof *out->keys);
	lk_members_free(members);
	return ok;
}
