/* predict_pack.c: predictions as bytes and back: the struct, then what its pointers lead to, in a fixed order. Between
 * processes of one program alone: numbers stand as they lie in memory. */
#include <stdlib.h>
#include <string.h>

#include "predict/predict.h"
#include "base/vec.h"

struct packer {
	LK_VEC(char) out;
	bool failed;
};

static void put(struct packer *p, const void *bytes, size_t size) {
	if (p->failed || !lk_reserve(&p->out, size)) {
		p->failed = true;
		return;
	}
	if (size) memcpy(p->out.at + p->out.count, bytes, size);
	p->out.count += size;
}

/* Length first; UINT32_MAX stands for NULL. */
static void put_text(struct packer *p, const char *text) {
	uint32_t length = text ? (uint32_t)strlen(text) : UINT32_MAX;
	put(p, &length, sizeof length);
	if (text) put(p, text, length);
}

static const size_t texts[] = {
	offsetof(lk_prediction, basis),     offsetof(lk_prediction, peak_label), offsetof(lk_prediction, model),
	offsetof(lk_prediction, cluster),   offsetof(lk_prediction, layout),     offsetof(lk_prediction, warning),
	offsetof(lk_prediction, reproduce), offsetof(lk_prediction, recompute),  offsetof(lk_prediction, dtype),
	offsetof(lk_prediction, schedule),
};
enum { TEXTS = sizeof texts / sizeof *texts };

lk_status lk_predict_pack(const lk_prediction *x, void **bytes, size_t *size, lk_error *err) {
	struct packer p = {0};
	put(&p, x, sizeof *x);
	for (int i = 0; i < TEXTS; i++) put_text(&p, *(const char *const *)((const char *)x + texts[i]));
	for (int i = 0; i < x->breakdown_count; i++) {
		put(&p, &x->breakdown[i], sizeof x->breakdown[i]);
		put_text(&p, x->breakdown[i].key);
		put_text(&p, x->breakdown[i].label);
	}
	put(&p, x->memory, (size_t)x->memory_count * sizeof *x->memory);
	put(&p, x->fixes, (size_t)x->fix_count * sizeof *x->fixes);
	for (int i = 0; i < x->assumption_count; i++) put_text(&p, x->assumptions[i]);
	for (int i = 0; i < x->ignored_count; i++) put_text(&p, x->ignored[i]);
	for (int i = 0; i < x->inputs.count; i++) put_text(&p, x->inputs.paths[i]);
	*bytes = p.out.at, *size = p.out.count;
	if (!p.failed) return LK_OK;
	lk_vec_free(&p.out);
	return lk_oom(err);
}

struct unpacker {
	const char *at;
	size_t left;
	lk_arena *arena;
	bool failed;
};

static const void *take(struct unpacker *u, size_t size) {
	const char *at = u->at;
	if (u->failed || size > u->left) {
		u->failed = true;
		return NULL;
	}
	u->at += size, u->left -= size;
	return at;
}

static void *take_copy(struct unpacker *u, size_t count, size_t size) {
	const void *from = take(u, count * size);
	void *to = from ? lk_arena_array(u->arena, count, size) : NULL;
	if (!to)
		u->failed = true;
	else if (count)
		memcpy(to, from, count * size);
	return to;
}

static const char *take_text(struct unpacker *u) {
	const void *at = take(u, sizeof(uint32_t));
	uint32_t length = UINT32_MAX;
	if (at) memcpy(&length, at, sizeof length);
	if (length == UINT32_MAX) return NULL;
	const char *text = take(u, length), *copy = text ? lk_arena_strndup(u->arena, text, length) : NULL;
	u->failed |= !copy;
	return copy;
}

static const char *const *take_texts(struct unpacker *u, int count) {
	const char **list = LK_ARRAY(u->arena, const char *, count);
	for (int i = 0; list && i < count && !u->failed; i++) list[i] = take_text(u);
	u->failed |= !list;
	return list;
}

static lk_time_part *take_parts(struct unpacker *u, int count) {
	lk_time_part *parts = LK_ARRAY(u->arena, lk_time_part, count);
	for (int i = 0; parts && i < count && !u->failed; i++) {
		const void *at = take(u, sizeof *parts);
		if (at) memcpy(&parts[i], at, sizeof *parts);
		parts[i].key = take_text(u);
		parts[i].label = take_text(u);
	}
	u->failed |= !parts;
	return parts;
}

lk_status lk_predict_unpack(const void *bytes, size_t size, lk_prediction **out, lk_error *err) {
	struct unpacker u = {.at = bytes, .left = size};
	lk_prediction *x = lk_prediction_new(&u.arena);
	const void *head = x ? take(&u, sizeof *x) : NULL;
	*out = NULL;
	if (!x) return lk_oom(err);
	if (head) {
		void *owner = x->memory_owner;
		memcpy(x, head, sizeof *x);
		x->memory_owner = owner;
		x->detail = NULL;
		for (int i = 0; i < TEXTS; i++) *(const char **)((char *)x + texts[i]) = take_text(&u);
		x->breakdown = take_parts(&u, x->breakdown_count);
		x->memory = take_copy(&u, (size_t)x->memory_count, sizeof *x->memory);
		x->fixes = take_copy(&u, (size_t)x->fix_count, sizeof *x->fixes);
		x->assumptions = take_texts(&u, x->assumption_count);
		x->ignored = take_texts(&u, x->ignored_count);
		x->inputs.paths = take_texts(&u, x->inputs.count);
	}
	if (!u.failed) {
		*out = x;
		return LK_OK;
	}
	lk_predict_free(x);
	return lk_fail(err, LK_ERR_INPUT, "prediction", "the bytes of another process cannot be read");
}
