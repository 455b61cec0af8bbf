/* capture.h: what readers of traces promise of any bytes: a capture that keeps its promises
 * (lk_capture_finish asserts them) and has steps that do not end before they begin, or an error
 * that names a place. */
#ifndef LK_FUZZ_CAPTURE_H
#define LK_FUZZ_CAPTURE_H

#include <stdint.h>
#include <stdlib.h>
#include "trace/read/read.h"

typedef lk_status fuzz_reader(lk_stream *in, const lk_read_limits *limits, lk_capture *capture,
                              lk_error *err);

static inline void fuzz_capture(const uint8_t *data, size_t size, const char *name,
                                const char *kind, fuzz_reader *read) {
	const lk_read_limits limits = {.bytes = 1 << 22, .events = 100000, .names = 10000};
	lk_stream *in;
	lk_error err = {0};
	lk_capture_steps steps = {0};
	if (lk_stream_memory(data, size, name, &in, &err) != LK_OK) return;
	lk_capture *capture = lk_capture_new(name, kind);
	if (!capture) abort();
	lk_status status = read(in, &limits, capture, &err);
	if (status == LK_OK) status = lk_capture_finish(capture, &err);
	if (status == LK_OK) status = lk_capture_find_steps(capture, &steps, &err);
	for (size_t i = 0; i < steps.count; i++)
		if (steps.at[i].end_ns < steps.at[i].start_ns) abort();
	if (status != LK_OK && (!err.where[0] || !err.what[0])) abort();
	lk_vec_free(&steps);
	lk_capture_free(capture);
	lk_stream_close(in);
}

#endif
