/* fuzz_graph.c: any bytes are a step graph that the checker accepts, or an error; and what was read
 * can be printed, written, read again, and is then written as the same bytes. */
#include <stdlib.h>
#include <string.h>

#include "graph/graph.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static lk_graph *read(const void *data, size_t size, lk_error *err) {
	lk_graph *graph = NULL;
	lk_stream *in = NULL;
	if (lk_stream_memory(data, size, "fuzz", &in, err) != LK_OK) abort();
	lk_status status = lk_graph_read_stream(in, &graph, err);
	if ((status == LK_OK) != (graph != NULL) || (!graph && err->status == LK_OK)) abort();
	lk_stream_close(in);
	return graph;
}

static char *written(const lk_graph *graph, size_t *size) {
	char *text = NULL;
	lk_error err = {0};
	FILE *out = open_memstream(&text, size);
	if (!out || lk_graph_put(graph, out, &err) != LK_OK || fclose(out) != 0) abort();
	return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	lk_error err = {0};
	lk_graph *graph = read(data, size, &err);
	if (graph) {
		size_t length, more;
		if (lk_graph_check(graph, &err) != LK_OK) abort();
		char *text = written(graph, &length);
		lk_graph *again = read(text, length, &err);
		if (!again) abort();
		char *twice = written(again, &more);
		if (length != more || memcmp(text, twice, length) != 0) abort();
		free(text);
		free(twice);
		lk_graph_free(again);
	}
	lk_graph_free(graph);
	return 0;
}
