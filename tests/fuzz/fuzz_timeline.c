/* fuzz_timeline.c: any bytes as a timeline of --trace, Chrome's events or Perfetto's packets. */
#include "capture.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static lk_status read_chrome(lk_stream *in, const lk_read_limits *limits, lk_capture *capture,
                             lk_error *err) {
	return lk_timeline_read(in, LK_TRACE_TIMELINE, limits, capture, err);
}

static lk_status read_perfetto(lk_stream *in, const lk_read_limits *limits, lk_capture *capture,
                               lk_error *err) {
	return lk_timeline_read(in, LK_TRACE_PERFETTO, limits, capture, err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	fuzz_capture(data, size, "t.json", "lockstep timeline JSON", read_chrome);
	fuzz_capture(data, size, "t.pftrace", "lockstep timeline", read_perfetto);
	return 0;
}
