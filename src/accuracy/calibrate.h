/* calibrate.h: tables of measurements to rows of a calibration, kind by kind. Rows are appended; `source` and `date` stand
 * in each. */
#ifndef LK_ACCURACY_CALIBRATE_H
#define LK_ACCURACY_CALIBRATE_H

#include "accuracy/ops_table.h"
#include "cost/calibration.h"

/* Memory-bound operations of a table of kernel times; products are passed over. */
lk_status lk_calibrate_memory(const lk_op_samples *samples, const char *source, const char *date, lk_calibration *out,
                              lk_error *err);

/* Matrix products; everything else is passed over. */
lk_status lk_calibrate_gemm(const lk_op_samples *samples, const char *source, const char *date, lk_calibration *out,
                            lk_error *err);

/* `lockstep calibrate ops`: both of the above on a table of kernel times. */
lk_status lk_calibrate_ops(lk_stream *in, const char *source, const char *date, lk_calibration *out, lk_error *err);

/* `lockstep calibrate models`: what lies between kernels and whole networks; kernels as calibrated before. */
lk_status lk_calibrate_models(lk_stream *in, const char *source, const char *date, lk_calibration *out, lk_error *err);

#endif
