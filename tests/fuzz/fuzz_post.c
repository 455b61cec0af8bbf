/* fuzz_post.c: any bytes are a table of reinforcement learning or an error with a text; rows that
 * can be predicted state their engines and a finite time. Nothing is predicted. */
#include <math.h>
#include <stdlib.h>

#include "base/arena.h"
#include "tables/tables.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	lk_arena arena = LK_ARENA_INIT;
	lk_post_runs runs = {0};
	lk_stream *in = NULL;
	lk_error err = {0};
	if (lk_stream_memory(data, size, "rl.csv", &in, &err) == LK_OK) {
		lk_status status = lk_post_read(&arena, in, &runs, &err);
		if (status != LK_OK && err.what[0] == '\0') abort();
		for (size_t i = 0; status == LK_OK && i < runs.count; i++) {
			const lk_post_run *run = &runs.at[i];
			const lk_predict_request *request = &run->request;
			if (!request->rollout || !run->kind || !request->task) abort();
			if (run->why_not) continue;
			if (request->gpus < 1 || !(request->response > 0) || request->samples < 1) abort();
			if (!(run->seconds > 0) || !isfinite(run->seconds)) abort();
		}
	}
	lk_stream_close(in);
	lk_vec_free(&runs);
	lk_arena_free(&arena);
	return 0;
}
