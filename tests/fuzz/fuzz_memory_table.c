/* fuzz_memory_table.c: any bytes are a table of measured memory or an error; every row that is read
 * is a job that can be completed again, or says why not. */
#include <stdlib.h>

#include "base/arena.h"
#include "tables/tables.h"
#include "validate/validate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	lk_arena arena = LK_ARENA_INIT;
	lk_memory_runs runs = {0};
	lk_stream *in = NULL;
	lk_error err = {0};
	if (lk_stream_memory(data, size, "memory.csv", &in, &err) == LK_OK) {
		lk_status status = lk_memory_read(&arena, in, &runs, &err);
		if (status != LK_OK && err.what[0] == '\0') abort();
		for (size_t i = 0; status == LK_OK && i < runs.count; i++) {
			lk_memory_run *run = &runs.at[i];
			if (*run->refused) continue;
			if (run->job.gpus > run->cluster.gpus) abort();
			if (lk_job_complete(&run->job, &run->cluster, &err) != LK_OK) abort();
			if (!(lk_memory_closed_form(&run->job) >= 0)) abort();
		}
	}
	lk_stream_close(in);
	lk_vec_free(&runs);
	lk_arena_free(&arena);
	return 0;
}
