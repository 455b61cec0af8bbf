/* works_memory.h: execution traces read from memory. */
#ifndef LK_TEST_WORKS_MEMORY_H
#define LK_TEST_WORKS_MEMORY_H

#include "io/stream.h"
#include "trace/read/read.h"

static inline lk_status read_works_memory(const void *bytes, size_t size, const char *name,
                                          const lk_read_limits *limits, lk_works **out,
                                          lk_error *err) {
	lk_stream *in;
	*out = NULL;
	LK_TRY(lk_stream_memory(bytes, size, name, &in, err));
	lk_status status = lk_works_read_stream(in, limits, out, err);
	lk_stream_close(in);
	return status;
}

#endif
