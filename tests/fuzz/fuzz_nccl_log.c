/* fuzz_nccl_log.c: any text is a log of nccl-tests or an error; what was read has sizes in order
 * and times above 0. */
#include <stdint.h>
#include <stdlib.h>

#include "base/arena.h"
#include "tables/tables.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	lk_arena arena = LK_ARENA_INIT;
	lk_nccl_runs runs = {0};
	lk_error err = {0};
	lk_stream *in;
	if (lk_stream_memory(data, size, "log", &in, &err) != LK_OK) return 0;
	if (lk_nccl_log_read(&arena, in, &runs, &err) == LK_OK)
		for (size_t i = 0; i < runs.count; i++)
			for (int p = 0; p < runs.at[i].count; p++) {
				const lk_nccl_point *point = &runs.at[i].points[p];
				if (!(point->bytes > 0) || !(lk_nccl_point_us(point) > 0)) abort();
				if (p > 0 && !(point[-1].bytes < point->bytes)) abort();
			}
	lk_stream_close(in);
	lk_vec_free(&runs);
	lk_arena_free(&arena);
	return 0;
}
