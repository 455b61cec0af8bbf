/* calibrate.h: the kinds of calibration, one function each (calibrate_*.c). */
#ifndef LK_ACCURACY_CALIBRATE_H
#define LK_ACCURACY_CALIBRATE_H

#include "tables/tables.h"
#include "io/stream.h"
#include "cost/calibration/calibration.h"
#include "lockstep/calibrate.h"
#include "calibrate/host/measure.h"

/* Reads a table of measurements, the same that `validate` reads, and appends rows to `out`.
 * `source` and `date` are in the rows; they are borrowed. */
typedef lk_status lk_calibrate_fn(lk_stream *in, const char *source, const char *date,
                                  lk_calibration *out, lk_error *err);
lk_calibrate_fn lk_calibrate_ops, lk_calibrate_collectives, lk_calibrate_peaks,
	lk_calibrate_slowdown;
lk_calibrate_fn lk_calibrate_runs, lk_calibrate_overheads, lk_calibrate_inference;
/* lk_calibrate_runs of one table or several; `watch` may be NULL. */
struct lk_fit_watch; /* fit/fits.h */
lk_status lk_calibrate_run_tables(lk_stream *in, const char *const *more, int more_count,
                                  const struct lk_fit_watch *watch, const char *source,
                                  const char *date, lk_calibration *out, lk_error *err);

/* Parts of lk_calibrate_ops: memory-bound operations of a table of kernel times, and matrix
 * products. Each passes over the rows of the other. */
lk_status lk_calibrate_memory(const lk_op_samples *samples, const char *source, const char *date,
                              lk_calibration *out, lk_error *err);

/* What a result was made from: rows as the models read them, or the machine; NULL where it is the
 * other. */
const lk_calibration *lk_calibrated_rows(const lk_calibrated *calibrated);
const lk_host *lk_calibrated_host(const lk_calibrated *calibrated);
/* calibrate_check.c: a validator (base/check.h). `rows`:
 * lk_calibrated_rows. */
const char *lk_calibrated_check(const lk_calibrated *calibrated, const lk_calibration *rows);

#endif
