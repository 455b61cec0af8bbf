/* fuzz_throughput.c: any bytes are a table of throughput or an error with a text; rows that can be
 * predicted have whole batches and finite times. */
#include <math.h>
#include <stdlib.h>

#include "base/arena.h"
#include "tables/tables.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	lk_arena arena = LK_ARENA_INIT;
	lk_throughput_runs runs = {0};
	lk_stream *in = NULL;
	lk_error err = {0};
	if (lk_stream_memory(data, size, "throughput.csv", &in, &err) == LK_OK) {
		lk_status status = lk_throughput_read(&arena, in, &runs, &err);
		if (status != LK_OK && err.what[0] == '\0') abort();
		for (size_t i = 0; status == LK_OK && i < runs.count; i++) {
			const lk_throughput_run *run = &runs.at[i];
			if (run->why_not) continue;
			if (run->mbs < 1 || run->steps < 1 || run->gpus < 1 || !(run->seconds > 0) ||
			    !isfinite(run->seconds))
				abort();
		}
	}
	lk_stream_close(in);
	lk_vec_free(&runs);
	lk_arena_free(&arena);
	return 0;
}
