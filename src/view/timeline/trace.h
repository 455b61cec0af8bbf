/* trace.h: a timeline as a file for trace viewers. */
#ifndef LK_VIEW_TRACE_H
#define LK_VIEW_TRACE_H

#include "lockstep/error.h"
#include "sim/timeline.h"

struct lk_step;
struct lk_prediction;

/* Writes by the ending of `path`: .json and .json.gz as Chrome trace events, .pftrace as native
 * Perfetto (TrackEvent protobuf). One process per rank, one thread per stream, slices strictly
 * nested and sorted by start, flows for send/receive, counters for memory. Any other ending is an
 * error that names these three. */
lk_status lk_trace_write(const lk_timeline *timeline, const char *path, lk_error *err);
/* The same of what a step's simulation recorded. */
lk_status lk_trace_write_step(const struct lk_step *step, const char *path, lk_error *err);
/* The same of a prediction that kept its step, with what storage reads and the step waits for. */
lk_status lk_trace_write_prediction(const struct lk_prediction *prediction, const char *path,
                                    lk_error *err);

#endif
