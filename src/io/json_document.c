/* json_document.c: a JSON document as a tree. Members are collected on one stack; when their object
 * or array ends, they move to the arena in one piece. Objects and arrays that grow while a document
 * of another form is read. */
#include "base/arena.h"
#include "io/document.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include "base/check.h"
#include "base/vec.h"
#include "base/sort.h"

struct member {
	const char *key; /* NULL in arrays */
	lk_value value;
};

struct order {
	const char *key;
	size_t index;
};

struct builder {
	lk_json *json;
	lk_arena *arena;
	LK_VEC(struct member) stack;
	LK_VEC(struct order) sorted;
};

static int clamp_int(long long number) {
	return number > INT_MAX ? INT_MAX : (int)number;
}

static void locate(const lk_json *json, lk_value *value) {
	long long line, column;
	lk_json_position(json, &line, &column);
	value->line = clamp_int(line);
	value->column = clamp_int(column);
}

/* Copy the token's text, with U+FFFD for each NUL, which would end a C string. */
static lk_status copy_text(struct builder *builder, const char **out, lk_error *err) {
	static const char instead[] = "\xef\xbf\xbd";
	const size_t width = sizeof instead - 1;
	size_t length, nuls = 0;
	const char *text = lk_json_text(builder->json, &length);
	for (size_t i = 0; i < length; i++) nuls += text[i] == '\0';
	char *copy = lk_arena_alloc(builder->arena, length + nuls * (width - 1) + 1);
	if (!copy) return lk_oom(err);
	char *end = copy;
	for (size_t i = 0; i < length; i++) {
		if (text[i] == '\0') end = mempcpy(end, instead, width);
		else *end++ = text[i];
	}
	*end = '\0';
	*out = copy;
	return LK_OK;
}

LK_ORDER_BY_TEXT(document_by_key, struct order, key)

/* Merge members with equal keys: the first keeps its place and gets the value of the last; the
 * others are dropped. Returns the number left of the `count` from `members` on; sets *status when
 * memory runs out. */
static size_t merge_duplicates(struct builder *builder, struct member *members, size_t count,
                               lk_status *status, lk_error *err) {
	builder->sorted.count = 0;
	if (!lk_reserve(&builder->sorted, count)) {
		*status = lk_oom(err);
		return 0;
	}
	struct order *sorted = builder->sorted.at;
	for (size_t i = 0; i < count; i++) sorted[i] = (struct order){members[i].key, i};
	lk_sort(sorted, count, sizeof *sorted, document_by_key);
	bool any = false;
	for (size_t i = 0, last; i < count; i = last + 1) {
		for (last = i; last + 1 < count && strcmp(sorted[last + 1].key, sorted[i].key) == 0; last++)
			any = true;
		members[sorted[i].index].value = members[sorted[last].index].value;
		members[sorted[i].index].value.repeated = last > i;
		for (size_t j = i + 1; j <= last; j++) members[sorted[j].index].key = NULL;
	}
	if (!any) return count;
	size_t left = 0;
	for (size_t i = 0; i < count; i++) {
		if (members[i].key) members[left++] = members[i];
	}
	LK_ASSERT(0 < left && left < count);
	return left;
}

/* Move the members from `first` on into `value`. */
static lk_status document_collect(struct builder *builder, size_t first, lk_value *value,
                                  lk_error *err) {
	LK_ASSERT(first <= builder->stack.count);
	struct member *members = builder->stack.at ? builder->stack.at + first : NULL;
	size_t count = builder->stack.count - first;
	bool object = value->kind == LK_JSON_OBJECT;
	lk_status status = LK_OK;
	if (object && count > 1) count = merge_duplicates(builder, members, count, &status, err);
	if (status != LK_OK) return status;
	value->count = count;
	value->items = LK_ARRAY(builder->arena, lk_value, count);
	if (object) value->keys = LK_ARRAY(builder->arena, const char *, count);
	if (!value->items || (object && !value->keys)) return lk_oom(err);
	for (size_t i = 0; i < count; i++) {
		value->items[i] = members[i].value;
		if (object) value->keys[i] = members[i].key;
	}
	builder->stack.count = first;
	return LK_OK;
}

static lk_status document_build(struct builder *builder, lk_json_token token, lk_value *value,
                                lk_error *err);

/* Read the members up to the end of the object or array; the reader limits the depth. */
static lk_status build_members(struct builder *builder, lk_value *value, lk_error *err) {
	size_t first = builder->stack.count;
	for (;;) {
		struct member m = {0};
		lk_json_token token;
		LK_TRY(lk_json_next(builder->json, &token, err));
		if (token == LK_JSON_OBJECT_END || token == LK_JSON_ARRAY_END)
			return document_collect(builder, first, value, err);
		if (token == LK_JSON_KEY) {
			LK_TRY(copy_text(builder, &m.key, err));
			LK_TRY(lk_json_next(builder->json, &token, err));
		}
		LK_TRY(document_build(builder, token, &m.value, err));
		if (!lk_push(&builder->stack)) return lk_oom(err);
		*lk_last(&builder->stack) = m;
	}
}

static lk_status document_build(struct builder *builder, lk_json_token token, lk_value *value,
                                lk_error *err) {
	value->kind = token;
	locate(builder->json, value);
	if (token == LK_JSON_OBJECT || token == LK_JSON_ARRAY)
		return build_members(builder, value, err);
	if (token == LK_JSON_NUMBER) value->number = lk_json_number(builder->json);
	if (token == LK_JSON_NUMBER || token == LK_JSON_STRING)
		return copy_text(builder, &value->text, err);
	return LK_OK;
}

static lk_status build_document(struct builder *builder, lk_value **out, lk_error *err) {
	lk_json_token token;
	lk_value *root = LK_NEW(builder->arena, lk_value);
	if (!root) return lk_oom(err);
	LK_TRY(lk_json_next(builder->json, &token, err));
	LK_TRY(document_build(builder, token, root, err));
	LK_TRY(lk_json_next(builder->json, &token, err)); /* nothing but the end may follow */
	*out = root;
	return LK_OK;
}

lk_status lk_json_document(lk_arena *arena, lk_stream *in, lk_value **out, lk_error *err) {
	struct builder b = {.json = lk_json_open(in), .arena = arena};
	*out = NULL;
	lk_status status = b.json ? build_document(&b, out, err) : lk_oom(err);
	LK_ASSERT(status != LK_OK || b.stack.count == 0);
	lk_json_close(b.json);
	lk_vec_free(&b.stack);
	lk_vec_free(&b.sorted);
	return status;
}

const lk_value *lk_json_get(const lk_value *value, const char *key) {
	if (!value || value->kind != LK_JSON_OBJECT) return NULL;
	for (size_t i = 0; i < value->count; i++) {
		if (strcmp(value->keys[i], key) == 0) return &value->items[i];
	}
	return NULL;
}

double lk_json_get_number(const lk_value *value, const char *key, double otherwise) {
	const lk_value *member = lk_json_get(value, key);
	return member && member->kind == LK_JSON_NUMBER ? member->number : otherwise;
}

const char *lk_json_get_text(const lk_value *value, const char *key, const char *otherwise) {
	const lk_value *member = lk_json_get(value, key);
	return member && member->kind == LK_JSON_STRING ? member->text : otherwise;
}

/* ---- objects and arrays that grow ---- */

bool lk_members_add(lk_members *members, const char *key, const lk_value *item) {
	LK_ASSERT(members->count <= members->capacity);
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

LK_ORDER_BY_TEXT(members_by_key, struct keyed, key)

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
		members->items[sorted[i].at].repeated = last > i;
		for (size_t k = i + 1; k <= last; k++) members->keys[sorted[k].at] = NULL;
	}
	free(sorted);
	for (size_t i = 0; i < count; i++) {
		if (members->keys[i] == NULL) continue;
		members->keys[kept] = members->keys[i];
		members->items[kept++] = members->items[i];
	}
	LK_ASSERT(0 < kept && kept <= count);
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
