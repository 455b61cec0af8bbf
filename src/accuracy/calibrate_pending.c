/* calibrate_pending.c: kinds of calibration that are not written yet. */
#include "accuracy/calibrate.h"

static lk_status pending(lk_stream *in, lk_error *err) {
	return lk_fail(err, LK_ERR_INPUT, lk_stream_name(in), "this version fits no numbers to such tables yet");
}

#define PENDING(name)                                                                                            \
	lk_status name(lk_stream *in, const char *source, const char *date, lk_calibration *out, lk_error *err) {    \
		(void)source, (void)date, (void)out;                                                                     \
		return pending(in, err);                                                                                 \
	}

PENDING(lk_calibrate_collectives)
