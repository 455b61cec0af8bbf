/* fuzz_models.c: any bytes are a table of whole networks or an error with a text; rows that are
 * read give operator lists and finite times. */
#include <math.h>
#include <stdlib.h>

#include "base/arena.h"
#include "tables/tables.h"
#include "validate/validate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	lk_arena arena = LK_ARENA_INIT;
	lk_model_runs runs = {0};
	lk_stream *in = NULL;
	lk_error err = {0};
	if (lk_stream_memory(data, size, "models.csv", &in, &err) == LK_OK) {
		lk_status status = lk_models_read(&arena, in, &runs, &err);
		if (status != LK_OK && err.what[0] == '\0') abort();
		for (size_t i = 0; status == LK_OK && i < runs.count; i++) {
			lk_network_work work;
			if (!runs.at[i].device || !runs.at[i].known) continue;
			lk_network_model usual = lk_network_usual();
			if (lk_network_work_of(lk_calibration_current(), &runs.at[i], &work, &err) != LK_OK)
				abort();
			if (!isfinite(lk_network_seconds(&usual, &work))) abort();
		}
	}
	lk_stream_close(in);
	lk_vec_free(&runs);
	lk_arena_free(&arena);
	return 0;
}
