/* fuzz_dlrm.c: any bytes are a recommendation model, a table of host overheads, a table of steps,
 * or an error that says where; what is read gives a step of finite time. */
#include <math.h>
#include <stdlib.h>

#include "base/arena.h"
#include "tables/tables.h"
#include "validate/validate.h"
#include "model/dlrm/dlrm_build.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static lk_stream *stream_of(const uint8_t *data, size_t size) {
	lk_stream *in;
	lk_error err;
	return lk_stream_memory(data, size, "dlrm", &in, &err) == LK_OK ? in : NULL;
}

static void try_model(const uint8_t *data, size_t size, const lk_host_terms *host) {
	lk_arena arena = LK_ARENA_INIT;
	lk_stream *in = stream_of(data, size);
	lk_error err = {0};
	lk_dlrm model;
	if (!in) return;
	lk_status status = lk_dlrm_read(&arena, in, &model, &err);
	if (status != LK_OK && (!err.where[0] || !err.what[0])) abort();
	if (status == LK_OK) {
		lk_dlrm_time time;
		lk_graph *graph = NULL;
		if (lk_dlrm_hybrid(&model, &(lk_dlrm_job){4096, 8, LK_FP16, 4}, &graph, &err) != LK_OK ||
		    lk_graph_check(graph, &err) != LK_OK)
			abort();
		lk_graph_free(graph);
		if (lk_dlrm_predict(&model, 512, lk_device_find("V100"), host, &time, &err) != LK_OK)
			abort();
		if (!isfinite(time.step_s) || !(time.step_s > 0) || !isfinite(lk_dlrm_params(&model)))
			abort();
	}
	lk_stream_close(in);
	lk_arena_free(&arena);
}

static void try_table(const uint8_t *data, size_t size) {
	lk_arena arena = LK_ARENA_INIT;
	lk_dlrm_runs runs = {0};
	lk_stream *in = stream_of(data, size);
	lk_error err = {0};
	if (!in) return;
	if (lk_dlrm_runs_read(&arena, in, &runs, &err) != LK_OK && !err.what[0]) abort();
	lk_stream_close(in);
	lk_vec_free(&runs);
	lk_arena_free(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	lk_host_terms host = {0};
	lk_stream *in = stream_of(data, size);
	lk_error err = {0};
	if (!in) return 0;
	lk_status status = lk_host_terms_read(in, &(lk_host_kind){"DLRM", 1, 1e6}, &host, &err);
	if (status != LK_OK && !err.what[0]) abort();
	lk_stream_close(in);
	for (int term = 0; term < 7; term++)
		if (!isfinite(lk_host_terms_seconds(&host, term, "aten::linear"))) abort();
	try_model(data, size, &host);
	try_table(data, size);
	lk_host_terms_free(&host);
	return 0;
}
