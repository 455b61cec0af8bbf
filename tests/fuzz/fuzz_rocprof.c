/* fuzz_rocprof.c: any bytes as rocprof JSON. */
#include "capture.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	fuzz_capture(data, size, "results.json", "rocprof JSON", lk_rocprof_read);
	return 0;
}
