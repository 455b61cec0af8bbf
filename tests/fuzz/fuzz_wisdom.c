/* fuzz_wisdom.c: any bytes are wisdom, lines that are ignored with a warning, or no wisdom file;
 * schedules in it are legal, or there is a reason. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lang/tune/tune.h"
#include "lang/syntax/parse.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char adam[] =
	"program adam(mesh dp) { dim N scalar f32 lr, b1, b2, eps in g : f16[N] @ P(sum,dp)\n"
	"state w : f32[N], m : f32[N], v : f32[N] gr = cast(f32, allreduce(g, sum, dp))\n"
	"m <- b1*m + gr v <- b2*v + gr^2 w <- w - lr*m/(sqrt(v) + eps) out cast(f16, w) }";

static void use(const lc_program *program, const lk_wise *entry) {
	lc_file *file = NULL;
	const lc_schedule *schedule;
	lc_program *q = NULL;
	lk_error err = {0};
	lk_status status = lk_wisdom_schedule(program, entry->schedule, &file, &schedule, &err);
	if (status == LK_OK) status = lc_rewrite_all(program, schedule, &q, &err);
	if (status != LK_OK && !err.what[0]) abort();
	lc_program_free(q);
	lc_file_free(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	lk_wisdom w;
	lc_file *file = NULL;
	lk_error err = {0};
	if (lc_parse("adam", adam, strlen(adam), &file, &err) != LK_OK) abort();
	lk_status status = lk_wisdom_parse("w", (const char *)data, size, &w, &err);
	if (status != LK_OK && !err.what[0]) abort();
	for (size_t i = 0; i < w.entries.count && i < 8; i++) {
		const lk_wise *wise = &w.entries.at[i];
		if (lk_wisdom_find(&w, wise->hash, wise->where) != wise || !(wise->seconds > 0)) abort();
		use(file->programs.at[0], wise);
	}
	lk_wisdom_free(&w);
	lc_file_free(file);
	return 0;
}
