/* fuzz_deepspeed.c: DeepSpeed configuration files. */
#include <stdint.h>
#include "base/arena.h"
#include "launch/config/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	lk_arena arena = LK_ARENA_INIT;
	lk_error err;
	lk_stream *in;
	lk_launch out = {.job = LK_NEW(&arena, lk_job)};
	lk_reading r = {.arena = &arena, .where = "fuzz", .out = &out, .err = &err};
	if (out.job != NULL && lk_stream_memory(data, size, "fuzz", &in, &err) == LK_OK) {
		lk_status status = lk_deepspeed_stream(&r, in);
		out.job->model = (lk_model){.layers = 2,
		                            .hidden = 64,
		                            .heads = 4,
		                            .kv_heads = 4,
		                            .head_dim = 16,
		                            .ffn = 256,
		                            .vocab = 100};
		if (status == LK_OK) (void)lk_job_complete(out.job, NULL, &err);
		lk_stream_close(in);
	}
	lk_arena_free(&arena);
	return 0;
}
