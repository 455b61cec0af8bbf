/* predict_dlrm.h: predictions of recommendation models. */
#ifndef LK_ASK_PREDICT_DLRM_H
#define LK_ASK_PREDICT_DLRM_H

#include "step/step.h"
#include "lockstep/predict.h"

/* Whether the request's model is one: a preset of data/recommenders, or a config whose model_type is dlrm. */
bool lk_predict_is_dlrm(const lk_predict_request *request);
/* Answers; texts are owned by the arena. */
lk_status lk_predict_dlrm(lk_arena *arena, const lk_predict_request *request, const lk_step_options *options, lk_step *step,
                          lk_prediction *out, lk_error *err);

#endif
