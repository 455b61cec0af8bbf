/* fuzz_hierarchy.c: any bytes are a tree of clients, or an error with a text; a tree that is read
 * costs something with every level at one period. */
#include <math.h>
#include <stdlib.h>

#include "plan/hierarchy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST = 1000 };

static void settle(lk_hierarchy *tree, lk_arena *arena) {
	lk_hierarchy_walk walk;
	lk_error err;
	tree->bytes = 1e6;
	tree->spread = 0.1;
	for (int n = 0; n < tree->count; n++) {
		lk_hierarchy_node *node = &tree->nodes[n];
		if (!(node->step_s > 0)) node->step_s = 1;
		if (!(node->batch > 0)) node->batch = 1;
	}
	if (lk_hierarchy_walk_make(tree, arena, &walk, &err) != LK_OK) abort();
	for (int l = 0; l < tree->levels; l++) walk.way.every[l] = 4, walk.way.rounds[l] = l % 2;
	lk_hierarchy_cost cost = lk_hierarchy_walk_all(&walk);
	if (!(cost.step_s > 0 && isfinite(cost.step_s) && cost.bytes > 0 && cost.drift >= 0)) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	lk_arena arena = LK_ARENA_INIT;
	lk_hierarchy tree;
	lk_stream *in = NULL;
	lk_error err = {0};
	if (lk_stream_memory(data, size, "tree.csv", &in, &err) == LK_OK) {
		lk_status status = lk_hierarchy_read(in, &arena, &tree, &err);
		if (status != LK_OK && err.what[0] == '\0') abort();
		if (status == LK_OK && tree.count <= MOST) settle(&tree, &arena);
	}
	lk_stream_close(in);
	lk_arena_free(&arena);
	return 0;
}
