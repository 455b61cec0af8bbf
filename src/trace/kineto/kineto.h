/* kineto.h: the reader of Kineto's and Chrome's JSON. */
#ifndef LK_TRACE_KINETO_H
#define LK_TRACE_KINETO_H

#include "io/stream.h"
#include "trace/capture/capture.h"

/* Add everything of the file to a new capture; the caller finishes it. */
lk_status lk_kineto_read(lk_stream *in, const lk_read_limits *limits, lk_capture *capture,
                         lk_error *err);

#endif
