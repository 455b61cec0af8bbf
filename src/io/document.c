/* document.c: objects and arrays that grow while a document is read. */
#include "io/document.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"

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

void lk_members_free(lk_members *members) {
	free(members->keys);
	free(members->items);
	*members = (lk_members){0};
}

bool lk_members_end(lk_members *members, lk_arena *arena, lk_value *out) {
	size_t count = members->count;
	bool object = out->kind == LK_JSON_OBJECT;
	out->count = count;
	out->items = LK_ARRAY(arena, lk_value, count + 1);
	out->keys = object ? LK_ARRAY(arena, const char *, count + 1) : NULL;
	bool ok = out->items && (out->keys || !object);
	if (ok && count) memcpy(out->items, members->items, count * sizeof *out->items);
	if (ok && count && object) memcpy(out->keys, members->keys, count * sizeof *out->keys);
	lk_members_free(members);
	return ok;
}
