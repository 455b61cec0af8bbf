/* fuzz_slowdown.c: any bytes are a table of overlapped kernels or an error; every row that is read
 * has a prediction that is a number, from a fit of the rows themselves. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/arena.h"
#include "fit/fits.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	lk_arena arena = LK_ARENA_INIT;
	lk_slowdown_table table = {0};
	lk_overlap model;
	lk_stream *in = NULL;
	lk_error err = {0};
	if (lk_stream_memory(data, size, "kernels.csv", &in, &err) == LK_OK) {
		lk_status status = lk_slowdown_read(&arena, in, &table, &err);
		if (status != LK_OK && err.what[0] == '\0') abort();
		if (status == LK_OK && !lk_slowdown_fit(&arena, &table, NULL, true, &model)) abort();
		for (size_t i = 0; status == LK_OK && i < table.count; i++)
			if (!isfinite(lk_overlap_seconds(&model, &table.at[i].kernel))) abort();
	}
	lk_stream_close(in);
	lk_vec_free(&table);
	lk_arena_free(&arena);
	return 0;
}
