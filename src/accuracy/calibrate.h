/* calibrate.h: the kinds of calibration, one function each (calibrate_*.c). */
#ifndef LK_ACCURACY_CALIBRATE_H
#define LK_ACCURACY_CALIBRATE_H

#include "base/stream.h"
#include "cost/calibration.h"

/* Appends rows of the family "collective": of a table of collectives (the form of collectives.csv) one for each fabric with
 * rows enough, named after it, and the default; of a log of nccl-tests, as text or JSON, the default alone. */
lk_status lk_calibrate_collectives(lk_stream *in, const char *source, const char *date, lk_calibration *out,
                                   lk_error *err);

#endif
