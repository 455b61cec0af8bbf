/* fuzz_xplane.c: any bytes are an rocprof JSON whose capture keeps its promises (lk_capture_finish
 * asserts them), or an error that names a place. */
#include <stdint.h>
#include <stdlib.h>
#include "trace/read/read.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	const lk_read_limits limits = {.bytes = 1 << 22, .events = 100000, .names = 10000};
	lk_stream *in;
	lk_error err = {0};
	lk_capture_steps steps = {0};
	if (lk_stream_memory(data, size, "results.json", &in, &err) != LK_OK) return 0;
	lk_capture *capture = lk_capture_new("results.json", "rocprof JSON");
	if (!capture) abort();
	lk_status status = lk_rocprof_read(in, &limits, capture, &err);
	if (status == LK_OK) status = lk_capture_finish(capture, &err);
	if (status == LK_OK) status = lk_capture_find_steps(capture, &steps, &err);
	for (size_t i = 0; i < steps.count; i++)
		if (steps.at[i].end_ns < steps.at[i].start_ns) abort();
	if (status != LK_OK && (!err.where[0] || !err.what[0])) abort();
	lk_vec_free(&steps);
	lk_capture_free(capture);
	lk_stream_close(in);
	return 0;
}
