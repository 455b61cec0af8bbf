/* predict.h: a prediction's step, for writing files from it. */
#ifndef LK_PREDICT_PREDICT_H
#define LK_PREDICT_PREDICT_H

#include "lockstep/predict.h"
#include "lockstep/simulate.h"
#include "run/run.h"
#include "step/step.h"

/* Default checkpoint rate of a node, GB/s (10^9 bytes): storage for 16 K GPUs in nodes of 8 that
 * accepts 2 TB/s (Llama 3, arXiv 2407.21783, section 3.3.1). */
#define LK_CHECKPOINT_WRITE 1.0

/* Owned by the prediction. */
const lk_step *lk_prediction_step(const lk_prediction *prediction);

/* What a request says of its run, on so many GPUs of so many nodes. */
lk_run_words lk_predict_run_words(const lk_predict_request *request, double gpus, double nodes,
                                  double replicas, double bytes);
/* Bytes of a checkpoint of a completed job (an lk_job, as in lk_plan_choice). */
double lk_checkpoint_bytes(const void *job);

/* Parse options of the simulation, NULL: none: "RANK:FACTOR[,...]"; "0,8", with the option's name
 * for errors. */
lk_status lk_read_stragglers(lk_arena *arena, const char *text, lk_step_options *out,
                             lk_error *err);
lk_status lk_read_ranks(lk_arena *arena, const char *text, const char *where, lk_step_options *out,
                        lk_error *err);

/* Whether the request's model is a recommendation model: a preset of data/recommenders, or a config
 * whose model_type is dlrm. LK_ERR_MEMORY. */
lk_status lk_predict_is_dlrm(const lk_predict_request *request, bool *is, lk_error *err);

/* `predict --task generate`; the arena owns the texts. `model`: the network if the request names
 * none; else NULL. */
lk_status lk_predict_generate(lk_arena *arena, const lk_predict_request *request,
                              const lk_model *model, lk_prediction *out, lk_error *err);
/* Measured over predicted times of generation: eight of ten rows are within. */
void lk_generation_range(double *low, double *high);

/* ---- steps of reinforcement learning ---- */

/* Whether the request's task is reinforcement learning. */
bool lk_predict_posts(const lk_predict_request *request);
/* Whether the request's launch line or file states a step of reinforcement learning, and the
 * request states no task of its own. *alone (may be NULL): why only the training is predicted; NULL
 * where the whole step is. */
lk_status lk_rollout_stated(lk_arena *arena, const lk_predict_request *request, bool *stated,
                            const char **alone, lk_error *err);
/* LK_ERR_INPUT: an option does not act on a step of several phases, which a task names or (NULL) a
 * launch line states. */
lk_status lk_post_no_effect(const char *where, const char *task, lk_error *err);

/* An empty prediction and the arena that it owns; NULL when memory runs out. */
lk_prediction *lk_prediction_new(lk_arena **arena);

/* ---- expect_each: changes of a job that may be why a run differs from its prediction. */

/* A cause, the odds that it is one, and the step that it makes, which the caller frees. */
typedef struct lk_cause_step {
	size_t index;                   /* of the cause, below lk_predict_causes() */
	const char *key, *what, *check; /* constants */
	const char *option;             /* as options of predict; valid while it is seen */
	double prior;                   /* share of runs off their prediction that it explains */
	const lk_step *step;
} lk_cause_step;
typedef lk_status lk_cause_seen(void *context, const lk_cause_step *cause, lk_error *err);
size_t lk_predict_causes(void); /* their number */
/* Show the step of the request with each cause that applies and changes the job or its cluster, on
 * up to `threads` threads (0: one per core), in any order. Steps may omit micro-batches whose times
 * follow exactly (lk_step_options.few). `devices_known`: the GPUs are not in question. */
lk_status lk_predict_each_cause(const lk_predict_request *request, bool devices_known, int threads,
                                lk_cause_seen *see, void *context, lk_error *err);

/* ---- simulate: a simulation's step, for writing files from it. */

/* Owned by the simulation. */
const lk_step *lk_simulation_step(const lk_simulation *simulation);

#endif
