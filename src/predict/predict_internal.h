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
/* Memory of a stage at its peak, and what runs then. */
void lk_predict_stage(const lk_step *step, int stage, lk_stage_memory *out);

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

/* ---- post_words: the words of --rollout. */

typedef struct lk_post_words {
	double sequences, oversample, epochs; /* of a step; written for one that is kept; passes */
	double gpus, tp, pp, ep;              /* engines' own GPUs, 0: those that train; an engine */
	double lag;                           /* batches that the engines may be ahead */
	double reward;                        /* seconds */
	double policy, reference;             /* passes of log-probabilities: 0 or 1 */
	double eager;                         /* engines without CUDA graphs */
	double padded;      /* each sequence is a row that is padded to the longest of the step */
	double full_rows;   /* rows that sequences share are padded to --seq */
	double by_sequence; /* a row is one sequence, as long as it is */
	/* what is in the host's memory while it is not used; engines on the GPUs that train alone */
	double offload_params, offload_optimizer, offload_reference;
	/* of the critic; below 0: as the policy's */
	double critic_epochs, critic_offload_params, critic_offload_optimizer;
	double sleep; /* such engines give their memory back while training */
	double critic_gpus, teacher_gpus, teacher_tp; /* own GPUs; 0: those that train */
	const char *dtype;                            /* of the engines; NULL: that of the training */
	const char *critic, *reward_model, *teacher;  /* networks; NULL: as the policy; none; none */
} lk_post_words;

/* Words of `text` (may be NULL) replace what *out has. LK_ERR_INPUT: an unknown word, a value
 * outside of its limits. Texts are owned by the arena. */
lk_status lk_post_words_read(lk_arena *arena, const char *text, lk_post_words *out, lk_error *err);

/* ---- post_rows: sequences of a step in the rows that are trained. */

typedef struct lk_post_rows {
	int rows;
	double tokens; /* of all sequences, each cut where a row ends */
	double pairs;  /* sum of their squares: what attention within sequences goes over */
} lk_post_rows;

/* `shared`: sequences share rows of `room` tokens; else each is a row. Sorts `lengths`. */
lk_status lk_post_rows_fill(lk_arena *arena, double *lengths, size_t count, double room,
                            bool shared, lk_post_rows *out, lk_error *err);
/* So many rows or more that every rank gets a whole number of micro-batches, and of groups of them
 * where chunks of an interleaved pipeline take turns. */
int lk_post_rows_dealt(double rows, const lk_job *job);

/* ---- post_networks: networks of a step besides the policy: critic, reward model, teacher. */

typedef struct lk_post_network {
	const lk_model *model;
	double pass_s;                        /* a forward pass over the sequences of a step */
	double update_s;                      /* of one update; frozen ones: 0 */
	double weights, gradients, optimizer; /* bytes on a GPU of the stage that has most */
	/* alone on its GPUs: the stage with the least room left, and the bytes of its GPU */
	lk_stage_memory memory;
	double usable;
} lk_post_network;

/* `policy` lays it out, but for `gpus` and `tp` of its own (0: those of the policy). `name`: a
 * preset or a name of Hugging Face; NULL or "policy": shaped as the policy. `scalar`: its head
 * gives one number a token. `rows`: of a step; `update_rows`: of an update, 0: it is frozen.
 * LK_ERR_INPUT: an unknown network, a layout that does not divide it; `where` names it. */
typedef struct lk_post_network_request {
	const lk_asked *policy;
	const char *name, *where;
	int gpus, tp, rows, update_rows;
	bool scalar;
} lk_post_network_request;
lk_status lk_post_network_of(lk_arena *arena, const lk_post_network_request *request,
                             lk_post_network *out, lk_error *err);

/* Bytes of a frozen copy of the job's network in 16 bits, on a GPU of the stage that has most:
 * sharded where its training shards weights. */
double lk_post_frozen_bytes(const lk_job *job);

/* ---- predict_post: a step of reinforcement learning. */

/* Whether the request's task is one. */
bool lk_predict_posts(const lk_predict_request *request);
/* Answers; texts are owned by the arena. */
lk_status lk_predict_post(lk_arena *arena, const lk_predict_request *request, lk_prediction *out,
                          lk_error *err);

#endif
