/* fuzz_whatif.c: any texts of --set, and any graph that can be read, give an answer or an error.
 * The input is lines "KEY=VALUE" up to an empty line, then a step graph; without one a small graph
 * of two ranks is asked about. */
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "whatif/whatif.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static lk_graph *small(void) {
	lk_graph *graph = lk_graph_new();
	lk_error err = {0};
	uint32_t id;
	if (!graph || lk_graph_set_programs(graph, 1, 0, &err) != LK_OK) abort();
	graph->ranks.chains = graph->ranks.world = 2;
	graph->ranks.group[LK_GROUP_DP].size = 2;
	graph->peak_dtype = LK_BF16;
	const lk_op ops[] = {
		{.kind = LK_OP_HOST, .stream = LK_STREAM_HOST, .name = "DataLoader", .m = 1e-3},
		{.kind = LK_OP_GEMM,
	     .stream = LK_STREAM_COMPUTE,
	     .name = "product",
	     .dtype = LK_BF16,
	     .m = 512,
	     .n = 512,
	     .k = 512,
	     .batch = 1,
	     .measured_ps = 20000000},
		{.kind = LK_OP_ALLREDUCE,
	     .stream = LK_STREAM_DP,
	     .phase = LK_PHASE_BACKWARD,
	     .group = LK_GROUP_DP,
	     .name = "reduce",
	     .bytes = 1e6,
	     .join = LK_JOIN(LK_STREAM_COMPUTE)},
		{.kind = LK_OP_OPTIMIZER,
	     .stream = LK_STREAM_COMPUTE,
	     .phase = LK_PHASE_OPTIMIZER,
	     .name = "adam",
	     .bytes = 1e7,
	     .join = LK_JOIN(LK_STREAM_DP)},
	};
	lk_graph_begin_block(graph, "step");
	for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) lk_graph_add(graph, &ops[i]);
	if (lk_graph_end_block(graph, &id, &err) != LK_OK) abort();
	lk_call call = {.block = id, .repeat = 1, .microbatch = -1, .layer = -1};
	if (lk_graph_call(graph, 0, &call, &err) != LK_OK || lk_graph_check(graph, &err) != LK_OK)
		abort();
	return graph;
}

static lk_graph *read(const char *text, size_t size) {
	lk_graph *graph = NULL;
	lk_stream *in;
	lk_error err = {0};
	if (lk_stream_memory(text, size, "fuzz", &in, &err) != LK_OK) abort();
	if (lk_graph_read_stream(in, &graph, &err) != LK_OK && err.status == LK_OK) abort();
	lk_stream_close(in);
	return graph;
}

/* Small enough for thousands of runs a second; larger ones are the simulator's matter. */
static bool quick(const lk_graph *graph) {
	double ops = 0;
	for (size_t s = 0; s < graph->programs.count; s++)
		for (size_t c = 0; c < graph->programs.at[s].calls.count; c++)
			ops += (double)graph->programs.at[s].calls.at[c].repeat * graph->ops.count;
	return graph->ranks.world <= 64 && ops < 1e4;
}

static void try_all(const lk_graph *graph, char *sets, lk_arena *arena) {
	const lk_device *device = lk_device_find("a100-sxm-80");
	lk_whatif_site site = {0};
	lk_whatif_base *base = NULL;
	lk_whatif_sets list = {0};
	lk_whatif_outcome outcome = {0};
	lk_error err = {0};
	if (lk_cluster_simple(arena, device, (int)graph->ranks.world, 0, 0, &site.cluster, &err) !=
	    LK_OK)
		abort();
	lk_status status = lk_whatif_begin(graph, &site, &base, &err);
	for (char *line; status == LK_OK && (line = strsep(&sets, "\n"));)
		if (!strstr(line, "gpus") && !strstr(line, "ranks") && !strstr(line, "scale"))
			status = lk_whatif_parse(arena, line, &list, &err);
	if (list.count > 16) list.count = 16;
	if (status == LK_OK) status = lk_whatif_try(base, list.at, list.count, &outcome, &err);
	if (status == LK_OK &&
	    (outcome.step.sim.step_ps < 0 || lk_graph_check(outcome.step.graph, &err) != LK_OK))
		abort();
	if (status != LK_OK && !err.what[0]) abort();
	if (status == LK_ERR_INTERNAL && !graph->programs.count) abort();
	lk_whatif_outcome_free(&outcome);
	lk_vec_free(&list);
	lk_whatif_end(base);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	lk_arena arena = LK_ARENA_INIT;
	char *text = lk_arena_strndup(&arena, (const char *)data, size);
	if (!text) abort();
	char *end = strstr(text, "\n\n");
	if (end) *end = '\0';
	lk_graph *graph = end ? read(end + 2, strlen(end + 2)) : small();
	if (graph && quick(graph)) try_all(graph, text, &arena);
	lk_graph_free(graph);
	lk_arena_free(&arena);
	return 0;
}
