/* fuzz_yaml.c: YAML and TOML documents; what is read of either, written as JSON, is the same
 * document as YAML and as JSON. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "io/document.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
	MOST = 1000 /* values; aliases make any number of few bytes */
};

static size_t count(const lk_value *value, size_t most) {
	size_t n = 1;
	for (size_t i = 0; i < value->count && n < most; i++) n += count(&value->items[i], most - n);
	return n;
}

/* Numbers that JSON has none for are null there. */
static bool equal(const lk_value *a, const lk_value *b) {
	if (a->kind == LK_JSON_NUMBER && !isfinite(a->number)) return b->kind == LK_JSON_NULL;
	if (a->kind != b->kind || a->count != b->count) return false;
	if (a->kind == LK_JSON_NUMBER && a->number != b->number) return false;
	if (a->kind == LK_JSON_STRING && strcmp(a->text, b->text) != 0) return false;
	for (size_t i = 0; i < a->count; i++) {
		if (a->kind == LK_JSON_OBJECT && strcmp(a->keys[i], b->keys[i]) != 0) return false;
		if (!equal(&a->items[i], &b->items[i])) return false;
	}
	return true;
}

static bool is_ascii(const uint8_t *data, size_t size) {
	for (size_t i = 0; i < size; i++)
		if (data[i] >= 0x80) return false;
	return true;
}

static void check(lk_arena *arena, const lk_value *root) {
	char *text = NULL;
	size_t length = 0;
	lk_json_writer writer;
	lk_stream *in;
	lk_value *json, *yaml;
	lk_error err;
	if (count(root, MOST) >= MOST) return;
	FILE *out = open_memstream(&text, &length);
	if (!out) abort();
	lk_json_begin(&writer, out, length % 2);
	lk_json_put_value(&writer, NULL, root);
	if (lk_json_finish(&writer, &err) != LK_OK) abort();
	fclose(out);
	if (lk_stream_memory(text, length, "json", &in, &err) != LK_OK ||
	    lk_json_document(arena, in, &json, &err) != LK_OK || !equal(root, json))
		abort();
	lk_stream_close(in);
	/* YAML has no plain keys of more than 1,024 characters */
	lk_status status = lk_yaml_document(arena, text, length, "yaml", &yaml, &err);
	if (status == LK_OK ? !equal(root, yaml) : length < 1024) abort();
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	lk_arena arena = LK_ARENA_INIT;
	lk_error err = {0};
	lk_value *root;
	if (lk_yaml_document(&arena, (const char *)data, size, "fuzz.yaml", &root, &err) != LK_OK) {
		if (!err.what[0]) abort();
	} else if (is_ascii(data, size)) check(&arena, root);
	err = (lk_error){0};
	if (lk_toml_document(&arena, (const char *)data, size, "fuzz.toml", &root, &err) != LK_OK) {
		if (!err.what[0]) abort();
	} else if (is_ascii(data, size)) check(&arena, root);
	lk_arena_free(&arena);
	return 0;
}
