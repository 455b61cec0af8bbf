/* fuzz_run.c: any bytes are a table of long runs, of training from storage, or an error; every figure
 * that is predicted is a finite number. */
#include <math.h>
#include <stdlib.h>

#include "base/arena.h"
#include "validate/validate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_as(lk_scoring_fn *score, const uint8_t *data, size_t size) {
	lk_arena arena = LK_ARENA_INIT;
	lk_validate_request request;
	lk_scoring scoring = {0};
	lk_stream *in = NULL;
	lk_error err = {0};
	lk_validate_defaults(&request);
	if (lk_stream_memory(data, size, "runs.csv", &in, &err) == LK_OK) {
		lk_status status = score(&arena, &request, in, &scoring, &err);
		if (status != LK_OK && err.what[0] == '\0') abort();
		for (size_t i = 0; status == LK_OK && i < scoring.count; i++)
			if (isinf(scoring.rows[i].predicted)) abort();
	}
	lk_stream_close(in);
	lk_arena_free(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	read_as(lk_score_history, data, size);
	read_as(lk_score_storage, data, size);
	return 0;
}
