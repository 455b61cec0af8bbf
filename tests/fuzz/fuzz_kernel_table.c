/* fuzz_kernel_table.c: any bytes are a table of isolated kernels or an error; every row that is
 * read has a positive time by its law, or says why not. */
#include <math.h>
#include <stdlib.h>

#include "base/arena.h"
#include "tables/tables.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	lk_arena arena = LK_ARENA_INIT;
	lk_kernel_rows rows = {0};
	lk_stream *in = NULL;
	lk_error err = {0};
	if (lk_stream_memory(data, size, "kernels.csv", &in, &err) == LK_OK) {
		lk_status status = lk_kernel_rows_read(&arena, in, &rows, &err);
		if (status != LK_OK && err.what[0] == '\0') abort();
		for (size_t i = 0; status == LK_OK && i < rows.count; i++) {
			const lk_kernel_row *row = &rows.at[i];
			double numbers[LK_LAW_NUMBERS];
			if (*row->refused) continue;
			for (int n = 0; n < row->law->count; n++) numbers[n] = row->law->numbers[n].start;
			double seconds = row->law->seconds(numbers, &row->call);
			if (!(seconds > 0) || !isfinite(seconds)) abort();
		}
	}
	lk_stream_close(in);
	lk_vec_free(&rows);
	lk_arena_free(&arena);
	return 0;
}
