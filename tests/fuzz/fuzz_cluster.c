/* fuzz_cluster.c: any text is a cluster or an error, in the synthetic form and in JSON; and what
 * was read is written as a text that reads back as the same text. */
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "hw/hw.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	lk_arena arena = LK_ARENA_INIT;
	lk_cluster cluster, again;
	lk_error err = {0};
	char *text = lk_arena_strndup(&arena, (const char *)data, size);
	/* A name of a file would be opened: only the forms that stand in the text are tried. */
	size_t length = text ? strlen(text) : 0;
	bool file = (length >= 5 && strcmp(text + length - 5, ".json") == 0) ||
	            (length >= 4 && strcmp(text + length - 4, ".xml") == 0) ||
	            (text && strstr(text, ".log"));
	if (text && !file && lk_cluster_parse(&arena, text, &cluster, &err) == LK_OK) {
		for (int rank = 0; rank < cluster.gpus && rank < 64; rank++)
			if (lk_cluster_place(&cluster, rank).group >= cluster.groups) abort();
		bool own = memchr(data, '{', size), cut = strstr(cluster.text, "...");
		if (!own && !cut && lk_cluster_parse(&arena, cluster.text, &again, &err) != LK_OK) abort();
		if (!own && !cut && strcmp(cluster.text, again.text) != 0) abort();
	}
	lk_arena_free(&arena);
	return 0;
}
