/* fuzz_json.c: any bytes are a document or an error with a position. The pull reader, skipping and
 * the tree agree on what is accepted; what is read, written and read again is the same. Mending
 * leaves JSON as it is, and what it made as well. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "base/arena.h"
#include "io/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool pull(const uint8_t *data, size_t size, bool skip) {
	lk_stream *in;
	lk_error err;
	if (lk_stream_memory(data, size, "f", &in, &err) != LK_OK) return false;
	lk_json *json = lk_json_open(in);
	lk_json_token token = LK_JSON_NULL;
	bool good = json && (!skip || lk_json_skip(json, &err) == LK_OK);
	while (good && token != LK_JSON_END) {
		size_t length;
		good = lk_json_next(json, &token, &err) == LK_OK;
		const char *text = lk_json_text(json, &length);
		if (text[length] != '\0') abort();
		lk_json_number(json);
	}
	lk_json_close(json);
	lk_stream_close(in);
	return good;
}

static lk_value *tree(lk_arena *arena, const void *data, size_t size) {
	lk_stream *in;
	lk_value *root = NULL;
	lk_error err;
	if (lk_stream_memory(data, size, "f", &in, &err) != LK_OK) return NULL;
	if (lk_json_document(arena, in, &root, &err) != LK_OK && !err.where[0]) abort();
	lk_stream_close(in);
	return root;
}

static void rewrite(lk_json_writer *writer, const char *key, const lk_value *value) {
	bool object = value->kind == LK_JSON_OBJECT, array = value->kind == LK_JSON_ARRAY;
	if (object) lk_json_object(writer, key);
	if (array) lk_json_array(writer, key);
	for (size_t i = 0; i < value->count; i++)
		rewrite(writer, object ? value->keys[i] : NULL, &value->items[i]);
	if (object) lk_json_object_end(writer);
	if (array) lk_json_array_end(writer);
	if (value->kind == LK_JSON_STRING) lk_json_put_text(writer, key, value->text);
	if (value->kind == LK_JSON_NUMBER) lk_json_put_number(writer, key, value->number);
	if (value->kind == LK_JSON_TRUE || value->kind == LK_JSON_FALSE)
		lk_json_put_bool(writer, key, value->kind == LK_JSON_TRUE);
	if (value->kind == LK_JSON_NULL) lk_json_put_null(writer, key);
}

static char *written(const lk_value *value, bool compact, size_t *size) {
	char *text;
	lk_json_writer w;
	FILE *file = open_memstream(&text, size);
	if (!file) abort();
	lk_json_begin(&w, file, compact);
	rewrite(&w, NULL, value);
	if (lk_json_finish(&w, NULL) != LK_OK) abort();
	fclose(file);
	return text;
}

static char *mended(const void *data, size_t size, size_t *length) {
	char *text = malloc(size + 1);
	lk_json_mended found;
	lk_error err;
	if (!text) abort();
	if (size) memcpy(text, data, size);
	text[size] = '\0';
	*length = size;
	if (lk_json_mend(&text, length, &found, &err) != LK_OK) abort();
	return text;
}

static void mend(const uint8_t *data, size_t size, bool good) {
	size_t first, second;
	char *once = mended(data, size, &first), *twice = mended(once, first, &second);
	if (good && (first != size || (size && memcmp(once, data, size) != 0))) abort();
	if (pull((uint8_t *)once, first, true) && (second != first || memcmp(once, twice, first) != 0))
		abort();
	free(once);
	free(twice);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	lk_arena arena = LK_ARENA_INIT;
	bool good = pull(data, size, false);
	if (good != pull(data, size, true)) abort();
	lk_value *root = tree(&arena, data, size);
	if ((root != NULL) != good) abort();
	if (root) {
		size_t first, second;
		char *once = written(root, size % 2, &first);
		lk_value *again = tree(&arena, once, first);
		if (!again) abort();
		char *twice = written(again, size % 2, &second);
		if (first != second || memcmp(once, twice, first) != 0) abort();
		free(once);
		free(twice);
	}
	lk_arena_free(&arena);
	mend(data, size, good);
	return 0;
}
