/* fuzz_darshan.c: any bytes are what darshan-parser writes, or an error with a text; what is staged
 * of its files fits. */
#include <stdlib.h>

#include "stalls/stalls.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	lk_arena arena = LK_ARENA_INIT;
	lk_stalls_profile profile = {0};
	lk_stalls_staging staging;
	lk_stream *in = NULL;
	lk_error err = {0};
	if (lk_stream_memory(data, size, "darshan.txt", &in, &err) == LK_OK) {
		lk_status status = lk_stalls_darshan_read(in, &arena, &profile, &err);
		if (status != LK_OK && err.what[0] == '\0') abort();
		if (status == LK_OK &&
		    (lk_stalls_stage(&profile, "size=1GB", &arena, &staging, &err) != LK_OK ||
		     staging.used > staging.size))
			abort();
	}
	lk_stream_close(in);
	lk_stalls_profile_free(&profile);
	lk_arena_free(&arena);
	return 0;
}
