/* predict_internal.h: a simulated step, taken apart for pictures (lockstep/detail.h). A file per
 * part. */
#ifndef LK_PREDICT_PREDICT_INTERNAL_H
#define LK_PREDICT_PREDICT_INTERNAL_H

#include "base/arena.h"
#include "launch/emit.h"
#include "lockstep/detail.h"
#include "lockstep/predict.h"
#include "step/step.h"

/* Everything that can be said of the step. `asked` NULL: the step has no job (recommendation
 * models), and what needs one is left out. `scale`: of all times. Memory from the arena. */
lk_status lk_detail_of(lk_arena *arena, const lk_asked *asked, const lk_step *step, double scale,
                       bool no_sensitivity, const lk_prediction_detail **out, lk_error *err);

/* The parts. */
lk_status lk_detail_spans(lk_arena *arena, const lk_step *step, double scale,
                          lk_prediction_detail *out, lk_error *err);
lk_status lk_detail_work(lk_arena *arena, const lk_step *step, lk_prediction_detail *out,
                         lk_error *err);
lk_status lk_detail_curves(lk_arena *arena, const lk_asked *asked, const lk_step *step,
                           lk_prediction_detail *out, lk_error *err);
lk_status lk_detail_formulas(lk_arena *arena, const lk_job *job, const lk_step *step,
                             lk_prediction_detail *out, lk_error *err);

/* ---- predict: training jobs. */

/* A prediction with what it owns; lk_predict frees it. */
struct lk_answer {
	lk_arena arena;
	lk_prediction p;
	lk_step step; /* kept for the files that may be written of it */
	lk_emitted emitted;
};

/* Answers into an empty one. `emit`: the target to write the job for; NULL: none. */
lk_status lk_answer_dlrm(const lk_predict_request *request, struct lk_answer *answer,
                         lk_error *err);
lk_status lk_answer_job(const lk_predict_request *request, const char *emit,
                        struct lk_answer *answer, lk_error *err);

/* ---- fixes: when a job does not fit: the smallest changes that would, found by asking. */

/* Tries one change of the request at a time, keeps those that fit, and asks for their step time, as
 * the request itself was asked for. Cheapest in time first. */
lk_status lk_find_fixes(lk_arena *arena, const lk_predict_request *request, const lk_asked *asked,
                        const lk_step_options *options, lk_prediction *out, lk_error *err);

/* ---- predict_search: requests that name no layout. */

/* Whether a request says nothing of the layout. */
bool lk_predict_leaves_layout(const lk_predict_request *request);
/* The request with the fastest layout that fits; as it was where none does. `searched` tells it. */
lk_status lk_predict_search(lk_arena *arena, const lk_predict_request *request,
                            const lk_asked *taken, lk_predict_request *out, const char **searched,
                            lk_error *err);

/* ---- predict_dlrm: predictions of recommendation models. */

/* Answers; texts are owned by the arena. `saved_bytes`: of a checkpoint. */
lk_status lk_predict_dlrm(lk_arena *arena, const lk_predict_request *request,
                          const lk_step_options *options, lk_step *step, lk_prediction *out,
                          double *saved_bytes, lk_error *err);

/* ---- predict_generate: generation by inference engines, without training. */

/* Whether the request's task is generation. */
bool lk_predict_generates(const lk_predict_request *request);
/* Answers; texts are owned by the arena. `model`: the network where the request names none, as a
 * file of a job states it; else NULL. */
lk_status lk_predict_generate(lk_arena *arena, const lk_predict_request *request,
                              const lk_model *model, lk_prediction *out, lk_error *err);

/* ---- predict_rollout: phases that the file of a job states. */

/* Whether the request's launch line or file states a step of reinforcement learning, and the
 * request states no task of its own. *alone (may be NULL): why only the training is predicted; NULL
 * where the whole step is. */
lk_status lk_rollout_stated(lk_arena *arena, const lk_predict_request *request, bool *stated,
                            const char **alone, lk_error *err);
/* The request, with what its launch line or file states of generation filled into the fields of
 * options that are not given. *mean_open: the mean length of responses is not stated. */
lk_status lk_rollout_fill(lk_arena *arena, const lk_predict_request *request, const lk_asked *asked,
                          lk_predict_request *out, bool *mean_open, lk_error *err);

/* ---- predict_post: a step of reinforcement learning. */

/* Whether the request's task is one. */
bool lk_predict_posts(const lk_predict_request *request);
/* Answers; texts are owned by the arena. */
lk_status lk_predict_post(lk_arena *arena, const lk_predict_request *request, lk_prediction *out,
                          lk_error *err);

#endif
