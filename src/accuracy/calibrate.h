/* calibrate.h: measured tables to calibration rows, one function for each kind of table. */
#ifndef LK_ACCURACY_CALIBRATE_H
#define LK_ACCURACY_CALIBRATE_H

#include "cost/calibration.h"

/* calibrate_peaks.c: the range of predicted memory, by class of network. */
lk_status lk_calibrate_peaks(lk_stream *in, const char *source, const char *date, lk_calibration *out, lk_error *err);

#endif
