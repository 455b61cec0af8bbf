/* document.c: objects and arrays that grow while a document is read. */
#include "io/document.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/sort.h"

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
