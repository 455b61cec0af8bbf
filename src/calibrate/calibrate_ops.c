/* calibrate_ops.c: `lockstep calibrate ops`: numbers for kernels from a table of their times. */
#include "calibrate/calibrate.h"
#include "validate/validate.h"

lk_status lk_calibrate_ops(lk_stream *in, const char *source, const char *date, lk_calibration *out,
                           lk_error *err) {
	lk_op_samples samples = {0};
	lk_status status = lk_ops_read(&out->arena, in, &samples, err);
	if (status == LK_OK) status = lk_calibrate_gemm(&samples, source, date, out, err);
	if (status == LK_OK) status = lk_calibrate_memory(&samples, source, date, out, err);
	lk_vec_free(&samples);
	return status;
}
