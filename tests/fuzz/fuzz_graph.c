/* fuzz_graph.c: any bytes are a step graph that the checker accepts, or an error; and what was read
 * can be printed, and written and read again. */
#include <stdlib.h>

#include "graph/graph.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	lk_error err = {0};
	lk_graph *graph = NULL, *again = NULL;
	lk_stream *in = NULL;
	FILE *nowhere = fopen("/dev/null", "w");
	if (lk_stream_memory(data, size, "fuzz", &in, &err) != LK_OK || !nowhere) abort();
	if (lk_graph_read_stream(in, &graph, &err) == LK_OK) {
		if (lk_graph_check(graph, &err) != LK_OK) abort();
		lk_graph_print(graph, nowhere);
		if (size < 512) { /* a file: not for every input */
			char path[] = "/tmp/fuzz_graph.XXXXXX";
			int fd = mkstemp(path);
			if (fd < 0 || lk_graph_write(graph, path, &err) != LK_OK ||
			    lk_graph_read(path, &again, &err) != LK_OK)
				abort();
			if (again->ops.count != graph->ops.count ||
			    again->programs.count != graph->programs.count)
				abort();
			fclose(fdopen(fd, "r"));
			remove(path);
		}
	} else if (graph || err.status == LK_OK) {
		abort();
	}
	lk_graph_free(again);
	lk_graph_free(graph);
	lk_stream_close(in);
	fclose(nowhere);
	return 0;
}
