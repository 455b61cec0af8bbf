/* predict_pack.c: predictions as bytes and back: the struct, then the targets of its pointers, in a
 * fixed order. Only between processes of one program: numbers are in memory format. */
#include <stddef.h>
#include <string.h>

#include "base/arena.h"
#include "predict/predict.h"
#include "base/vec.h"

struct packer {
	LK_VEC(char) out;
	bool failed;
};

static void pack_put(struct packer *packer, const void *bytes, size_t size) {
	if (packer->failed || !lk_reserve(&packer->out, size)) {
		packer->failed = true;
		return;
	}
	if (size) memcpy(packer->out.at + packer->out.count, bytes, size);
	packer->out.count += size;
}

/* Length first; UINT32_MAX represents NULL. */
static void pack_put_text(struct packer *packer, const char *text) {
	uint32_t length = text ? (uint32_t)strlen(text) : UINT32_MAX;
	pack_put(packer, &length, sizeof length);
	if (text) pack_put(packer, text, length);
}

static const size_t texts[] = {
	offsetof(lk_prediction, basis),     offsetof(lk_prediction, peak_label),
	offsetof(lk_prediction, model),     offsetof(lk_prediction, cluster),
	offsetof(lk_prediction, layout),    offsetof(lk_prediction, warning),
	offsetof(lk_prediction, reproduce), offsetof(lk_prediction, recompute),
	offsetof(lk_prediction, dtype),     offsetof(lk_prediction, schedule),
	offsetof(lk_prediction, searched),  offsetof(lk_prediction, failed_check),
	offsetof(lk_prediction, unit),      offsetof(lk_prediction, noise),
};
enum { TEXTS = sizeof texts / sizeof *texts };

/* Texts of the structs of a comparison with a measured run; other members are numbers. */
static const size_t expected_texts[] = {offsetof(lk_expected, measured),
                                        offsetof(lk_expected, verdict),
                                        offsetof(lk_expected, scaled)},
					compared_texts[] = {offsetof(lk_compared, key), offsetof(lk_compared, label),
                                        offsetof(lk_compared, unit)},
					suspect_texts[] = {offsetof(lk_suspect, cause), offsetof(lk_suspect, what),
                                       offsetof(lk_suspect, option), offsetof(lk_suspect, check)};
#define COUNT(list) (sizeof(list) / sizeof *(list))

static void pack_put_rows(struct packer *packer, const void *rows, int count, size_t size,
                          const size_t *row_texts, size_t text_count) {
	for (int i = 0; i < count; i++) {
		const char *row = (const char *)rows + (size_t)i * size;
		pack_put(packer, row, size);
		for (size_t t = 0; t < text_count; t++)
			pack_put_text(packer, *(const char *const *)(const void *)(row + row_texts[t]));
	}
}

static void pack_put_expected(struct packer *packer, const lk_expected *expected) {
	pack_put_rows(packer, expected, 1, sizeof *expected, expected_texts, COUNT(expected_texts));
	pack_put_rows(packer, expected->compared, expected->compared_count, sizeof *expected->compared,
	              compared_texts, COUNT(compared_texts));
	pack_put_rows(packer, expected->suspects, expected->suspect_count, sizeof *expected->suspects,
	              suspect_texts, COUNT(suspect_texts));
	for (int i = 0; i < expected->note_count; i++) pack_put_text(packer, expected->notes[i]);
}

lk_status lk_predict_pack(const lk_prediction *prediction, void **bytes, size_t *size,
                          lk_error *err) {
	struct packer p = {0};
	pack_put(&p, prediction, sizeof *prediction);
	for (int i = 0; i < TEXTS; i++)
		pack_put_text(&p, *(const char *const *)((const char *)prediction + texts[i]));
	for (int i = 0; i < prediction->breakdown_count; i++) {
		pack_put(&p, &prediction->breakdown[i], sizeof prediction->breakdown[i]);
		pack_put_text(&p, prediction->breakdown[i].key);
		pack_put_text(&p, prediction->breakdown[i].label);
	}
	for (int i = 0; i < prediction->spread_count; i++) {
		pack_put(&p, &prediction->spread[i], sizeof prediction->spread[i]);
		pack_put_text(&p, prediction->spread[i].key);
		pack_put_text(&p, prediction->spread[i].label);
	}
	for (int i = 0; i < prediction->run.phase_count; i++) {
		pack_put(&p, &prediction->run.phases[i], sizeof prediction->run.phases[i]);
		pack_put_text(&p, prediction->run.phases[i].name);
	}
	pack_put(&p, prediction->memory, (size_t)prediction->memory_count * sizeof *prediction->memory);
	pack_put(&p, prediction->fixes, (size_t)prediction->fix_count * sizeof *prediction->fixes);
	for (int i = 0; i < prediction->found_count; i++) pack_put_text(&p, prediction->found[i]);
	for (int i = 0; i < prediction->assumption_count; i++)
		pack_put_text(&p, prediction->assumptions[i]);
	for (int i = 0; i < prediction->understood_count; i++)
		pack_put_text(&p, prediction->understood[i]);
	for (int i = 0; i < prediction->ignored_count; i++) pack_put_text(&p, prediction->ignored[i]);
	for (int i = 0; i < prediction->inputs.count; i++)
		pack_put_text(&p, prediction->inputs.paths[i]);
	if (prediction->expected) pack_put_expected(&p, prediction->expected);
	*bytes = p.out.at;
	*size = p.out.count;
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

static const void *pack_take(struct unpacker *unpacker, size_t size) {
	const char *at = unpacker->at;
	if (unpacker->failed || size > unpacker->left) {
		unpacker->failed = true;
		return NULL;
	}
	unpacker->at += size;
	unpacker->left -= size;
	return at;
}

static void *take_copy(struct unpacker *unpacker, size_t count, size_t size) {
	const void *from = pack_take(unpacker, count * size);
	void *to = from ? lk_arena_array(unpacker->arena, count, size) : NULL;
	if (!to) unpacker->failed = true;
	else if (count) memcpy(to, from, count * size);
	return to;
}

static const char *pack_take_text(struct unpacker *unpacker) {
	const void *at = pack_take(unpacker, sizeof(uint32_t));
	uint32_t length = UINT32_MAX;
	if (at) memcpy(&length, at, sizeof length);
	if (length == UINT32_MAX) return NULL;
	const char *text = pack_take(unpacker, length),
			   *copy = text ? lk_arena_strndup(unpacker->arena, text, length) : NULL;
	unpacker->failed |= !copy;
	return copy;
}

static const lk_run_phase *take_phases(struct unpacker *unpacker, int count) {
	lk_run_phase *phases = LK_ARRAY(unpacker->arena, lk_run_phase, (size_t)count);
	for (int i = 0; phases && i < count && !unpacker->failed; i++) {
		const void *at = pack_take(unpacker, sizeof *phases);
		if (at) memcpy(&phases[i], at, sizeof *phases);
		phases[i].name = pack_take_text(unpacker);
	}
	unpacker->failed |= !phases;
	return phases;
}

static const char *const *take_texts(struct unpacker *unpacker, int count) {
	const char **list = LK_ARRAY(unpacker->arena, const char *, count);
	for (int i = 0; list && i < count && !unpacker->failed; i++) list[i] = pack_take_text(unpacker);
	unpacker->failed |= !list;
	return list;
}

/* Structs that begin with two names. */
struct labelled {
	const char *key, *label;
};
_Static_assert(offsetof(lk_time_part, key) == offsetof(struct labelled, key) &&
                   offsetof(lk_time_part, label) == offsetof(struct labelled, label) &&
                   offsetof(lk_seed_spread, key) == offsetof(struct labelled, key) &&
                   offsetof(lk_seed_spread, label) == offsetof(struct labelled, label),
               "names first");

static void *take_labelled(struct unpacker *unpacker, int count, size_t size) {
	char *items = lk_arena_array(unpacker->arena, (size_t)count, size);
	for (int i = 0; items && i < count && !unpacker->failed; i++) {
		const void *at = pack_take(unpacker, size);
		struct labelled *item = (struct labelled *)(void *)(items + (size_t)i * size);
		if (at) memcpy(item, at, size);
		item->key = pack_take_text(unpacker);
		item->label = pack_take_text(unpacker);
	}
	unpacker->failed |= !items;
	return items;
}

static void *take_rows(struct unpacker *unpacker, int count, size_t size, const size_t *row_texts,
                       size_t text_count) {
	char *rows = lk_arena_array(unpacker->arena, (size_t)count, size);
	for (int i = 0; rows && i < count && !unpacker->failed; i++) {
		const void *at = pack_take(unpacker, size);
		char *row = rows + (size_t)i * size;
		if (at) memcpy(row, at, size);
		for (size_t t = 0; t < text_count; t++)
			*(const char **)(void *)(row + row_texts[t]) = pack_take_text(unpacker);
	}
	unpacker->failed |= !rows;
	return rows;
}

static const lk_expected *take_expected(struct unpacker *unpacker) {
	lk_expected *expected =
		take_rows(unpacker, 1, sizeof *expected, expected_texts, COUNT(expected_texts));
	if (unpacker->failed) return NULL;
	expected->compared = take_rows(unpacker, expected->compared_count, sizeof *expected->compared,
	                               compared_texts, COUNT(compared_texts));
	expected->suspects = take_rows(unpacker, expected->suspect_count, sizeof *expected->suspects,
	                               suspect_texts, COUNT(suspect_texts));
	expected->notes = take_texts(unpacker, expected->note_count);
	return expected;
}

lk_status lk_predict_unpack(const void *bytes, size_t size, lk_prediction **out, lk_error *err) {
	struct unpacker u = {.at = bytes, .left = size};
	lk_prediction *prediction = lk_prediction_new(&u.arena);
	const void *head = prediction ? pack_take(&u, sizeof *prediction) : NULL;
	*out = NULL;
	if (!prediction) return lk_oom(err);
	if (head) {
		void *owner = prediction->memory_owner;
		memcpy(prediction, head, sizeof *prediction);
		prediction->memory_owner = owner;
		prediction->detail = NULL;
		for (int i = 0; i < TEXTS; i++)
			*(const char **)((char *)prediction + texts[i]) = pack_take_text(&u);
		prediction->breakdown =
			take_labelled(&u, prediction->breakdown_count, sizeof *prediction->breakdown);
		prediction->spread =
			take_labelled(&u, prediction->spread_count, sizeof *prediction->spread);
		prediction->run.phases = take_phases(&u, prediction->run.phase_count);
		prediction->memory =
			take_copy(&u, (size_t)prediction->memory_count, sizeof *prediction->memory);
		prediction->fixes = take_copy(&u, (size_t)prediction->fix_count, sizeof *prediction->fixes);
		prediction->found = take_texts(&u, prediction->found_count);
		prediction->assumptions = take_texts(&u, prediction->assumption_count);
		prediction->understood = take_texts(&u, prediction->understood_count);
		prediction->ignored = take_texts(&u, prediction->ignored_count);
		prediction->inputs.paths = take_texts(&u, prediction->inputs.count);
		if (prediction->expected) prediction->expected = take_expected(&u);
	}
	if (!u.failed) {
		*out = prediction;
		return LK_OK;
	}
	lk_predict_free(prediction);
	return lk_fail(err, LK_ERR_INPUT, "prediction", "the bytes of another process cannot be read");
}
