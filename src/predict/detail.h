/* detail.h: a simulated step, taken apart for pictures (lockstep/detail.h). A file per part. */
#ifndef LK_ASK_DETAIL_H
#define LK_ASK_DETAIL_H

#include "step/request.h"
#include "step/step.h"
#include "lockstep/detail.h"

/* Everything that can be said of the step. `asked` NULL: no job stands behind it (recommendation models), and what needs
 * one is left out. `scale`: of all times. Memory from the arena. */
lk_status lk_detail_of(lk_arena *arena, const lk_asked *asked, const lk_step *step, double scale,
                       bool no_sensitivity, const lk_prediction_detail **out, lk_error *err);

/* The parts. */
lk_status lk_detail_spans(lk_arena *arena, const lk_step *step, double scale, lk_prediction_detail *out, lk_error *err);
lk_status lk_detail_work(lk_arena *arena, const lk_step *step, lk_prediction_detail *out, lk_error *err);
lk_status lk_detail_curves(lk_arena *arena, const lk_asked *asked, const lk_step *step, lk_prediction_detail *out,
                           lk_error *err);
lk_status lk_detail_formulas(lk_arena *arena, const lk_job *job, const lk_step *step, lk_prediction_detail *out, lk_error *err);

#endif
