/* profile.h: how well a software stack uses the hardware, as factors on the constants of the cost models. */
#ifndef LK_ASK_PROFILE_H
#define LK_ASK_PROFILE_H

#include "cost/calibration/calibration.h"
#include "cost/cost.h"
#include "model/layout/job.h"

/* A profile: at most six numbers for a stack, release and precision. Above 1 is better: faster. */
typedef enum lk_knob {
	LK_KNOB_GEMM,       /* rate of matrix products */
	LK_KNOB_ATTENTION,  /* of attention */
	LK_KNOB_MEMORY,     /* of memory-bound kernels */
	LK_KNOB_HOST,       /* of the host's launches */
	LK_KNOB_NETWORK,    /* of communication */
	LK_KNOB_EXPERTS,    /* of kernels that only mixture-of-experts layers have */
	LK_KNOBS,
} lk_knob;

const char *lk_knob_name(lk_knob knob); /* "gemm" */

/* Formats that share a profile: "16-bit" (and wider), "fp8", "fp4". */
const char *lk_precision_class(lk_dtype dtype);

/* The row of family "stack" for a job: of its stack and precision the latest release that is not after the job's; where
 * the precision has none, that of the nearest one. NULL: unknown stack. Variants are "PRECISION" or "PRECISION
 * RELEASE". */
const lk_calibration_row *lk_profile_find(const lk_calibration *c, const lk_job *job);

/* Whether runs on the architecture are behind the shares. Ampere is what the shares of others are of. */
bool lk_profile_measured(const lk_calibration *c, lk_arch arch);

/* The constants without a profile: family "step". */
void lk_profile_base(const lk_calibration *c, lk_constants *out);
/* Shares of bandwidth of kernels measured alone, for graphs that list every pass over memory. */
void lk_profile_streaming(lk_constants *out);
/* Lays a profile on top. */
void lk_profile_apply(const double knobs[LK_KNOBS], lk_constants *constants);
/* Both, with the calibration in use: what a job is predicted with. */
void lk_profile_constants(const lk_job *job, lk_constants *out);

/* Compares releases by their numbers: "v4.1" < "v5.0", "26.04" < "26.04.01"; "" comes first. As strcmp. */
int lk_release_compare(const char *a, const char *b);

#endif
