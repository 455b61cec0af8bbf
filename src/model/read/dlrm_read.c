/* dlrm_read.c: configs and presets of recommendation models. */
#include "base/check.h"
#include "model/read/read.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "io/embedded.h"

enum { CONFIG_LIMIT = 16 << 20, KINDS = 4096 };

struct reader {
	lk_arena *arena;
	const lk_value *root;
	const char *file;
};

/* ---- reading ---- */

static lk_status dlrm_fail_at(const struct reader *reader, const lk_value *value, lk_error *err,
                              const char *what, const char *hint) {
	char where[256];
	const lk_value *at = value ? value : reader->root;
	snprintf(where, sizeof where, "%.200s:%d:%d", reader->file, at->line, at->column);
	lk_fail(err, LK_ERR_INPUT, where, "%s", what);
	return lk_hint(err, "%s", hint);
}

static lk_status dlrm_whole(const struct reader *reader, const lk_value *value, const char *name,
                            double high, double *out, lk_error *err) {
	LK_ASSERT(high >= 1);
	char what[96], hint[96];
	if (value && value->kind == LK_JSON_NUMBER && value->number >= 1 && value->number <= high &&
	    value->number == floor(value->number)) {
		*out = value->number;
		return LK_OK;
	}
	snprintf(what, sizeof what, value ? "%s is no such number" : "%s is missing", name);
	snprintf(hint, sizeof hint, "give a whole number from 1 to %.0f", high);
	return dlrm_fail_at(reader, value, err, what, hint);
}

static lk_status read_widths(const struct reader *reader, const char *name, double *out, int *count,
                             lk_error *err) {
	LK_ASSERT(*count == 0 || *count == 1);
	const lk_value *list = lk_json_get(reader->root, name);
	char what[96];
	snprintf(what, sizeof what, "%s is not a list of 1 to %d widths", name, LK_DLRM_LAYERS - 1);
	if (!list || list->kind != LK_JSON_ARRAY || list->count < 1 || list->count >= LK_DLRM_LAYERS)
		return dlrm_fail_at(reader, list, err, what,
		                    "give the widths of its layers, such as [512, 256, 64]");
	for (size_t i = 0; i < list->count; i++)
		LK_TRY(dlrm_whole(reader, &list->items[i], name, 1 << 20, &out[(*count)++], err));
	return LK_OK;
}

/* Read one of `words`; default: the first. */
static lk_status dlrm_read_choice(const struct reader *reader, const char *name,
                                  const char *const *words, int *out, lk_error *err) {
	LK_ASSERT(words[0] && words[1]);
	const lk_value *value = lk_json_get(reader->root, name);
	char what[96], hint[128];
	*out = 0;
	if (!value) return LK_OK;
	for (int i = 0; words[i] && value->kind == LK_JSON_STRING; i++) {
		if (strcmp(value->text, words[i]) != 0) continue;
		*out = i;
		return LK_OK;
	}
	snprintf(what, sizeof what, "%s is not known", name);
	snprintf(hint, sizeof hint, "give \"%s\"%s%s%s or \"%s\"", words[0], words[2] ? ", \"" : "",
	         words[2] ? words[1] : "", words[2] ? "\"" : "", words[2] ? words[2] : words[1]);
	return dlrm_fail_at(reader, value, err, what, hint);
}

static lk_status read_kind(const struct reader *reader, const lk_value *value, lk_dlrm_tables *out,
                           lk_error *err) {
	*out = (lk_dlrm_tables){1, 0, 1};
	if (value->kind != LK_JSON_OBJECT)
		return dlrm_fail_at(reader, value, err, "tables are not described",
		                    "give {\"count\": 8, \"rows\": 1000000, \"pooling\": 1}");
	const lk_value *count = lk_json_get(value, "count"), *pooling = lk_json_get(value, "pooling");
	if (count) LK_TRY(dlrm_whole(reader, count, "count", LK_DLRM_TABLES, &out->count, err));
	if (pooling) LK_TRY(dlrm_whole(reader, pooling, "pooling", 1 << 20, &out->pooling, err));
	return dlrm_whole(reader, lk_json_get(value, "rows"), "rows", 1e12, &out->rows, err);
}

static lk_status dlrm_read_tables(const struct reader *reader, lk_dlrm *out, lk_error *err) {
	const lk_value *list = lk_json_get(reader->root, "tables");
	if (!list || list->kind != LK_JSON_ARRAY || list->count < 1 || list->count > KINDS)
		return dlrm_fail_at(reader, list, err, "tables is not a list of 1 to 4096 kinds of tables",
		                    "give [{\"count\": 8, \"rows\": 1000000, \"pooling\": 1}]");
	lk_dlrm_tables *kinds = LK_ARRAY(reader->arena, lk_dlrm_tables, list->count);
	if (!kinds) return lk_oom(err);
	for (size_t i = 0; i < list->count; i++) {
		LK_TRY(read_kind(reader, &list->items[i], &kinds[i], err));
		out->tables += kinds[i].count;
	}
	out->kinds = kinds;
	out->kind_count = (int)list->count;
	if (out->tables <= LK_DLRM_TABLES) return LK_OK;
	return dlrm_fail_at(reader, list, err, "too many tables", "give at most 65536 in all");
}

static lk_status dlrm_read_words(const struct reader *reader, lk_dlrm *out, lk_error *err) {
	static const char *const interactions[] = {"dot", "cat", "cross", NULL}, *const losses[] = {
																				 "mse", "bce",
																				 NULL};
	static const char *const optimizers[] = {"sgd", "adagrad", "adam", NULL};
	LK_TRY(dlrm_read_choice(reader, "interaction", interactions, &out->interaction, err));
	LK_TRY(dlrm_read_choice(reader, "loss", losses, &out->loss, err));
	LK_TRY(dlrm_read_choice(reader, "optimizer", optimizers, &out->optimizer, err));
	if (out->interaction == LK_DLRM_CROSS) {
		LK_TRY(dlrm_whole(reader, lk_json_get(reader->root, "cross_layers"), "cross_layers",
		                  LK_DLRM_LAYERS, &out->cross_layers, err));
		LK_TRY(dlrm_whole(reader, lk_json_get(reader->root, "cross_rank"), "cross_rank", 1 << 16,
		                  &out->cross_rank, err));
	}
	const lk_value *self = lk_json_get(reader->root, "self_interaction");
	out->self = self && self->kind == LK_JSON_TRUE;
	if (!self || self->kind == LK_JSON_TRUE || self->kind == LK_JSON_FALSE) return LK_OK;
	return dlrm_fail_at(reader, self, err, "self_interaction is neither true nor false",
	                    "give true or false");
}

static lk_status check_widths(const struct reader *reader, const lk_dlrm *dlrm, lk_error *err) {
	if (dlrm->bottom_widths < 2)
		return dlrm_fail_at(reader, lk_json_get(reader->root, "bottom_mlp"), err,
		                    "the bottom MLP has no layer",
		                    "give the dense features and the width of a layer or more");
	if (dlrm->bottom[dlrm->bottom_widths - 1] == dlrm->dim) return LK_OK;
	return dlrm_fail_at(reader, lk_json_get(reader->root, "bottom_mlp"), err,
	                    "the bottom MLP does not end in embedding_dim",
	                    "make its last width the tables' dimension");
}

lk_status lk_dlrm_from_json(lk_arena *arena, const lk_value *root, const char *file, lk_dlrm *out,
                            lk_error *err) {
	struct reader r = {arena, root, file};
	const lk_value *type = lk_json_get(root, "model_type");
	memset(out, 0, sizeof *out);
	if (!type || type->kind != LK_JSON_STRING || strcmp(type->text, "dlrm") != 0)
		return dlrm_fail_at(&r, type, err, "this is not a config of a DLRM",
		                    "give an object with \"model_type\": \"dlrm\"");
	LK_TRY(read_widths(&r, "bottom_mlp", out->bottom, &out->bottom_widths, err));
	out->top_widths = 1; /* the first is the interaction's output */
	LK_TRY(read_widths(&r, "top_mlp", out->top, &out->top_widths, err));
	LK_ASSERT(out->bottom_widths < LK_DLRM_LAYERS && out->top_widths <= LK_DLRM_LAYERS);
	LK_TRY(dlrm_whole(&r, lk_json_get(root, "embedding_dim"), "embedding_dim", 1 << 16, &out->dim,
	                  err));
	LK_TRY(dlrm_read_tables(&r, out, err));
	LK_TRY(dlrm_read_words(&r, out, err));
	LK_TRY(check_widths(&r, out, err));
	const lk_value *note = lk_json_get(root, "_note");
	if (note && note->kind == LK_JSON_STRING && !(out->note = lk_arena_strdup(arena, note->text)))
		return lk_oom(err);
	out->top[0] = out->interaction != LK_DLRM_DOT ? lk_dlrm_vectors(out) * out->dim
	                                              : out->dim + lk_dlrm_pairs(out);
	return LK_OK;
}

lk_status lk_dlrm_read(lk_arena *arena, lk_stream *in, lk_dlrm *out, lk_error *err) {
	lk_value *root = NULL;
	LK_TRY(lk_json_document(arena, in, &root, err));
	return lk_dlrm_from_json(arena, root, lk_stream_name(in), out, err);
}

lk_status lk_dlrm_file(lk_arena *arena, const char *path, lk_dlrm *out, lk_error *err) {
	char *text = NULL;
	size_t size = 0;
	lk_stream *in = NULL;
	LK_TRY(lk_stream_slurp(path, CONFIG_LIMIT, &text, &size, err));
	lk_status status = lk_stream_memory(text, size, path, &in, err);
	if (status == LK_OK) status = lk_dlrm_read(arena, in, out, err);
	lk_stream_close(in);
	free(text);
	return status;
}

/* ---- presets ---- */

static lk_status unknown_preset(const char *name, lk_error *err) {
	lk_fail(err, LK_ERR_INPUT, "--model", "\"%.60s\" is not a recommendation model", name);
	return lk_hint(err, "give one of `lockstep models dlrm`, or a file");
}

/* The next preset from *index on: its file; NULL: no more presets. */
static const char *dlrm_next_file(int *index, char name[LK_DLRM_NAME], const char **file,
                                  size_t *size) {
	const char *bytes;
	size_t head = strlen("recommenders/"), tail = strlen(".json");
	while ((bytes = lk_data_file_at((*index)++, file, size)) != NULL) {
		if (strncmp(*file, "recommenders/", head) != 0 || !lk_ends_in(*file, ".json")) continue;
		snprintf(name, LK_DLRM_NAME, "%.*s", (int)(strlen(*file) - head - tail), *file + head);
		return bytes;
	}
	return NULL;
}

bool lk_dlrm_next(int *index, char name[LK_DLRM_NAME]) {
	const char *file;
	size_t size;
	return dlrm_next_file(index, name, &file, &size) != NULL;
}

lk_status lk_dlrm_preset(lk_arena *arena, const char *name, lk_dlrm *out, lk_error *err) {
	const char *file, *bytes;
	char preset[LK_DLRM_NAME];
	size_t size;
	for (int i = 0; (bytes = dlrm_next_file(&i, preset, &file, &size)) != NULL;) {
		if (!lk_same_name(preset, name)) continue;
		lk_stream *in;
		LK_TRY(lk_stream_memory(bytes, size, file, &in, err));
		lk_status status = lk_dlrm_read(arena, in, out, err);
		lk_stream_close(in);
		lk_copy(out->name, sizeof out->name, preset);
		return status;
	}
	return unknown_preset(name, err);
}

bool lk_dlrm_is_file(const char *name) {
	return strchr(name, '/') || lk_ends_in(name, ".json");
}

lk_status lk_dlrm_named(lk_arena *arena, const char *name, lk_dlrm *out, lk_error *err) {
	return lk_dlrm_is_file(name) ? lk_dlrm_file(arena, name, out, err)
	                             : lk_dlrm_preset(arena, name, out, err);
}
