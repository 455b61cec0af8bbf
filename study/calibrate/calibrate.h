/* calibrate.h: the kinds of calibration, one function each (calibrate_*.c). */
#ifndef LK_ACCURACY_CALIBRATE_H
#define LK_ACCURACY_CALIBRATE_H

#include "tables/tables.h"
#include "io/stream.h"
#include "cost/calibration/calibration.h"
#include "lockstep/calibrate.h"
#include "calibrate/host/measure.h"

/* Read a table of measurements, the same as for `validate`, and append rows to `out`. The rows
 * borrow `source` and `date`. */
typedef lk_status lk_calibrate_fn(lk_stream *in, const char *source, const char *date,
                                  lk_calibration *out, lk_error *err);
lk_calibrate_fn lk_calibrate_ops, lk_calibrate_collectives, lk_calibrate_peaks,
	lk_calibrate_finetune, lk_calibrate_slowdown;
lk_calibrate_fn lk_calibrate_laws, lk_calibrate_runs, lk_calibrate_overheads,
	lk_calibrate_inference;
/* lk_calibrate_inference with further tables, of served requests. */
lk_status lk_calibrate_inference_tables(lk_stream *in, const char *const *more, int more_count,
                                        const char *source, const char *date, lk_calibration *out,
                                        lk_error *err);
/* lk_calibrate_runs for one or more tables; `watch` may be NULL. */
struct lk_fit_watch; /* Tables of collectives, fitted together. */
lk_status lk_calibrate_collective_tables(lk_stream *in, const char *const *more, int more_count,
                                         const char *source, const char *date, lk_calibration *out,
                                         lk_error *err);
/* fit/fits.h */
lk_status lk_calibrate_run_tables(lk_stream *in, const char *const *more, int more_count,
                                  const struct lk_fit_watch *watch, const char *source,
                                  const char *date, lk_calibration *out, lk_error *err);

/* Parts of lk_calibrate_ops: memory-bound operations of a table of kernel times, and matrix
 * products. Each skips the rows of the other. */
lk_status lk_calibrate_memory(const lk_op_samples *samples, const char *source, const char *date,
                              lk_calibration *out, lk_error *err);

/* The rows of a result, as read by the models, or the measured machine; NULL if it is the other. */
const lk_calibration *lk_calibrated_rows(const lk_calibrated *calibrated);
const lk_host *lk_calibrated_host(const lk_calibrated *calibrated);
/* calibrate_check.c: a validator (base/check.h). `rows`:
 * lk_calibrated_rows. */
const char *lk_calibrated_check(const lk_calibrated *calibrated, const lk_calibration *rows);

#endif
