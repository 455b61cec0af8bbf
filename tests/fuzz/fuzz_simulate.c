/* fuzz_simulate.c: any step graph that can be read is simulated, or refused: with its own
 * durations, and on a cluster. */
#include <math.h>
#include <stdlib.h>

#include "graph/graph.h"
#include "lockstep/simulate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Large ones are simulated too, but take seconds. */
static int is_short(const uint8_t *data, size_t size) {
	lk_graph *graph = NULL;
	lk_stream *in;
	lk_error err = {0};
	double ops = 0;
	if (lk_stream_memory(data, size, "fuzz", &in, &err) != LK_OK) abort();
	if (lk_graph_read_stream(in, &graph, &err) == LK_OK)
		for (size_t s = 0; s < graph->programs.count; s++)
			for (size_t c = 0; c < graph->programs.at[s].calls.count; c++) {
				const lk_block *block = &graph->blocks.at[graph->programs.at[s].calls.at[c].block];
				ops +=
					(double)graph->programs.at[s].calls.at[c].repeat * (block->end - block->begin);
			}
	int fine = ops < 1e5 && (!graph || (double)graph->ranks.world < 1e5);
	lk_graph_free(graph);
	lk_stream_close(in);
	return fine;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	static const char *const gpus[] = {NULL, "h100-sxm"};
	if (!is_short(data, size)) return 0;
	for (int i = 0; i < 2; i++) {
		lk_simulate_request request;
		lk_simulation *simulation = NULL;
		lk_error err = {0};
		lk_simulate_defaults(&request);
		request.text = (const char *)data;
		request.text_size = size;
		request.gpu = gpus[i];
		lk_status status = lk_simulate(&request, &simulation, &err);
		if ((status == LK_OK) != (simulation != NULL) || (status != LK_OK && err.status != status))
			abort();
		if (simulation && !(isfinite(simulation->step_s) && simulation->step_s >= 0)) abort();
		lk_simulate_free(simulation);
	}
	return 0;
}
