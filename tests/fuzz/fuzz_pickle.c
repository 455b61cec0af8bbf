/* fuzz_pickle.c: any bytes are plain data or an error with a place; what is read is a tree of
 * limited depth whose texts and numbers can be written. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "pickle/pickle.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
	MOST = 100000 /* values that are visited: shared ones can be reached by any number of paths */
};

static size_t visit(const lk_value *value, int depth, size_t most) {
	size_t n = 1;
	if (depth > LK_JSON_DEPTH) abort();
	if (value->kind == LK_JSON_STRING && strlen(value->text) > SIZE_MAX / 2) abort();
	if ((value->kind != LK_JSON_ARRAY && value->kind != LK_JSON_OBJECT) && value->count) abort();
	for (size_t i = 0; i < value->count && n < most; i++) {
		if (value->kind == LK_JSON_OBJECT && !value->keys[i]) abort();
		n += visit(&value->items[i], depth + 1, most - n);
	}
	return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	lk_arena arena = LK_ARENA_INIT;
	lk_value *root = NULL;
	lk_error err = {0};
	lk_status status = lk_pickle_document(&arena, data, size, "p", &root, &err);
	if (status != LK_OK && (!err.where[0] || !err.what[0])) abort();
	if (status == LK_OK && !lk_pickle_is(data, size)) abort();
	if (status == LK_OK) visit(root, 0, MOST);
	lk_arena_free(&arena);
	return 0;
}
