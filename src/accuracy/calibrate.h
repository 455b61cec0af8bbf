/* calibrate.h: fits of the models to tables of measurements, as rows of a calibration. */
#ifndef LK_ACCURACY_CALIBRATE_H
#define LK_ACCURACY_CALIBRATE_H

#include "base/stream.h"
#include "cost/calibration.h"

lk_status lk_calibrate_slowdown(lk_stream *in, const char *source, const char *date, lk_calibration *out, lk_error *err);

#endif
