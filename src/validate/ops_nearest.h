/* ops_nearest.h: the simplest way to predict a product: from the measured one that is most like it. */
#ifndef LK_ACCURACY_OPS_NEAREST_H
#define LK_ACCURACY_OPS_NEAREST_H

#include "fit/fit_gemm.h"

/* predicted[count]: the time of the point nearest in ln(batch, m, n, k), times the ratio of floating-point operations. It is
 * of the same device; where whole devices are left out, of another one, times the ratio of peaks. `cross`: only points
 * of other folds, else any but the point itself. NAN where there is none. */
lk_status lk_gemm_nearest(const lk_gemm_table *table, bool cross, bool other_devices, double *predicted, lk_error *err);

/* The longer of peak arithmetic and memory bandwidth. */
double lk_gemm_roofline(const lk_device *device, const lk_gemm_shape *shape);

#endif
