/* nsys.h: Nsight Systems' export to SQLite. */
#ifndef LK_TRACE_NSYS_H
#define LK_TRACE_NSYS_H

#include "trace/capture/capture.h"

/* Reads the database at `path` into a new capture, which the caller finishes. Of a report of several processes the one
 * with most kernels is read, with a warning. */
lk_status lk_nsys_read(const char *path, const lk_read_limits *limits, lk_capture *capture, lk_error *err);

#endif
