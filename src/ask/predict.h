/* predict.h: the step behind a prediction, for what is written of it. */
#ifndef LK_ASK_PREDICT_H
#define LK_ASK_PREDICT_H

#include "ask/step.h"
#include "lockstep/predict.h"

/* Owned by the prediction. */
const lk_step *lk_prediction_step(const lk_prediction *prediction);

/* An empty prediction and the arena that it owns; NULL when memory is out. */
lk_prediction *lk_prediction_new(lk_arena **arena);

#endif
