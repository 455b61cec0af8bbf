/* fuzz_inference.c: any bytes are a table of generation or an error with a text; rows that can be
 * predicted have engines of whole GPUs, sequences and a finite time. Nothing is simulated. */
#include <math.h>
#include <stdlib.h>

#include "base/arena.h"
#include "tables/tables.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	lk_arena arena = LK_ARENA_INIT;
	lk_inference_runs runs = {0};
	lk_stream *in = NULL;
	lk_error err = {0};
	if (lk_stream_memory(data, size, "inference.csv", &in, &err) == LK_OK) {
		lk_status status = lk_inference_read(&arena, in, &runs, &err);
		if (status != LK_OK && err.what[0] == '\0') abort();
		for (size_t i = 0; status == LK_OK && i < runs.count; i++) {
			const lk_inference_run *run = &runs.at[i];
			const lk_engine *engine = &run->engine;
			if (run->why_not) continue;
			if (engine->tp < 1 || engine->pp < 1 || engine->tp % engine->ep != 0) abort();
			if (engine->tp * engine->pp > engine->cluster->gpus || engine->sequences < 1) abort();
			if (run->sequences < 1 || run->prompt < 1 || run->response < 1) abort();
			if (!(run->seconds > 0) || !isfinite(run->seconds)) abort();
		}
	}
	lk_stream_close(in);
	lk_vec_free(&runs);
	lk_arena_free(&arena);
	return 0;
}
