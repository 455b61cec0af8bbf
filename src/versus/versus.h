/* versus.h: internals of the comparison of a traced run with its job.
 *
 *   versus.c           the question
 *   versus_expected.c  a predicted step as if it had been traced
 *   versus_parts.c     the difference by part, and what was not expected
 *   versus_scaling.c   the measured step as a calibration
 *   versus_causes.c    changes of the job that would give such a step */
#ifndef LK_VERSUS_VERSUS_H
#define LK_VERSUS_VERSUS_H

#include "base/arena.h"
#include "explain/explain.h"
#include "lockstep/diff.h"
#include "predict/predict.h"

/* The comparison in the making; freed with the explanation that it belongs to. */
typedef struct lk_compared_run {
	lk_versus result; /* first */
	lk_arena arena;
	lk_prediction *predicted;
	lk_explanation *expected; /* of the predicted step */
} lk_compared_run;

/* The predicted step as an explanation: of the stages that the measured ranks are in, all where
 * none is known. The prediction kept its step. */
lk_status lk_versus_expected(const lk_prediction *predicted, const lk_explanation *measured,
                             lk_explanation **out, lk_error *err);
/* Fill parts and findings; operations are paired. */
lk_status lk_versus_parts(lk_compared_run *run, const lk_explanation *measured, lk_error *err);
/* Fill the factors that the measured step gives as a calibration. */
lk_status lk_versus_scaling(lk_compared_run *run, const lk_explanation *measured, lk_error *err);
/* Fill causes: predict changed jobs, on up to `threads` threads, and rank them by how well their
 * steps agree. */
lk_status lk_versus_causes(lk_compared_run *run, const lk_explanation *measured,
                           const lk_predict_request *job, int threads, lk_error *err);

#endif
