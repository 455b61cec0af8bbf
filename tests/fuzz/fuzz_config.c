/* fuzz_config.c: any bytes -> JSON document -> network -> parameters and operations. */
#include <stdint.h>
#include <stdlib.h>

#include "base/arena.h"
#include "model/read/read.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	lk_arena arena = LK_ARENA_INIT;
	lk_stream *in = NULL;
	lk_value *tree = NULL;
	lk_model model;
	lk_error err;
	char warning[LK_MODEL_WARNING];
	if (lk_stream_memory(data, size, "fuzz.json", &in, &err) == LK_OK &&
	    lk_json_document(&arena, in, &tree, &err) == LK_OK &&
	    lk_model_from_hf(tree, "fuzz.json", NULL, &model, warning, &err) == LK_OK) {
		double params = lk_model_params(&model), active = lk_model_active_params(&model);
		if (!(params > 0 && params < 9.1e15 && active > 0 && active <= params)) abort();
		if (!(lk_model_flops(&model, 4096) > 0 && lk_model_flops(&model, INT32_MAX) < 1e40))
			abort();
	}
	lk_stream_close(in);
	lk_arena_free(&arena);
	return 0;
}
