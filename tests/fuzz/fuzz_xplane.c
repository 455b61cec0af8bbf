/* fuzz_xplane.c: any bytes as XSpace. */
#include "capture.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	fuzz_capture(data, size, "t.xplane.pb", "XSpace", lk_xplane_read);
	return 0;
}
