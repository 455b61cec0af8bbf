/* fuzz_config_file.c: configurations of training frameworks; what is read is completed. */
#include <stdint.h>

#include "base/arena.h"
#include "launch/frameworks/frameworks.h"
#include "launch/read.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	static const char *const names[] = {"fuzz.yaml", "fuzz.toml"};
	lk_launch_given given = {.sets = "micro_batch_size=2\n~a.b", .vars = "NNODES=2"};
	for (size_t i = 0; i < 2; i++) {
		lk_arena arena = LK_ARENA_INIT;
		lk_error err;
		lk_launch out = {0};
		lk_words words = {0};
		lk_reading reading = {.arena = &arena, .where = names[i], .out = &out, .err = &err};
		lk_status status =
			lk_config_read_text(&reading, (const char *)data, size, names[i], &given, &words);
		if (status == LK_OK && words.count == 0) (void)lk_job_complete(out.job, NULL, &err);
		lk_vec_free(&words);
		lk_arena_free(&arena);
	}
	return 0;
}
