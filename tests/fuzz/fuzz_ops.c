/* fuzz_ops.c: any bytes are a table of kernel times or an error, and a text of trees or an error;
 * what is read can be used. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "tables/tables.h"
#include "base/trees.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_table(lk_arena *arena, const uint8_t *data, size_t size) {
	lk_op_samples samples = {0};
	lk_stream *in = NULL;
	lk_error err = {0};
	if (lk_stream_memory(data, size, "ops.csv", &in, &err) == LK_OK) {
		lk_status status = lk_ops_read(arena, in, &samples, &err);
		if (status != LK_OK && err.what[0] == '\0') abort();
		for (size_t i = 0; status == LK_OK && i < samples.count; i++)
			if (!(samples.at[i].seconds > 0) || samples.at[i].m < 1 || samples.at[i].n < 1) abort();
	}
	lk_stream_close(in);
	lk_vec_free(&samples);
}

static void read_trees(lk_arena *arena, const uint8_t *data, size_t size) {
	static lk_trees trees;
	static const float x[LK_TREE_FEATURES] = {1, 2, 3};
	lk_error err = {0};
	char *text = lk_arena_strndup(arena, (const char *)data, size);
	if (text && lk_trees_read(arena, text, "trees", &trees, &err) == LK_OK &&
	    !isfinite(lk_trees_at(&trees, x)))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	lk_arena arena = LK_ARENA_INIT;
	read_table(&arena, data, size);
	read_trees(&arena, data, size);
	lk_arena_free(&arena);
	return 0;
}
