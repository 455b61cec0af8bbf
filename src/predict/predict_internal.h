/* predict_internal.h: the parts of a simulated step for pictures (lockstep/detail.h). One file per
 * part. */
#ifndef LK_PREDICT_PREDICT_INTERNAL_H
#define LK_PREDICT_PREDICT_INTERNAL_H

#include <float.h>

#include "cost/calibration/calibration.h"
#include "base/arena.h"
#include "launch/emit/emit.h"
#include "measured/measured.h"
#include "lockstep/detail.h"
#include "lockstep/predict.h"
#include "options/rollout_words.h"
#include "rollout/rollout.h"
#include "predict/predict.h"
#include "step/step.h"

/* All details of the step. `asked` NULL: the step has no job (recommendation models), and parts
 * that need one are left out. `scale`: factor on all times. Memory from the arena. */
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

/* A prediction with its data; lk_predict frees it. */
struct lk_answer {
	lk_arena arena;
	lk_calibration_hold calibration;
	lk_prediction p;
	lk_step step; /* kept for files that may be written from it */
	lk_emitted emitted;
	const char *batch_assumed; /* for a searched layout: its assumed batch */
	lk_run_words words;        /* its run */
};

typedef lk_status lk_answerer(const lk_predict_request *request, struct lk_answer *answer,
                              lk_error *err);
/* Fill an empty answer by the part that answers such requests, without phases. */
lk_answerer lk_answer_any;
/* Answer as lk_predict does, by this function. */
lk_status lk_answer_with(const lk_predict_request *request, lk_answerer *answer,
                         lk_prediction **out, lk_error *err);
/* Fill an empty answer. `emit`: the target to write the job for; NULL: none. */
lk_status lk_answer_dlrm(const lk_predict_request *request, struct lk_answer *answer,
                         lk_error *err);
lk_status lk_answer_job(const lk_predict_request *request, const char *emit,
                        struct lk_answer *answer, lk_error *err);
/* Likewise for a request that was read into *asked. */
lk_status lk_answer_asked(const lk_predict_request *request, const lk_asked *asked,
                          const char *emit, struct lk_answer *answer, lk_error *err);
/* Memory of a stage at its peak, and the operation that is running then. */
void lk_predict_stage(const lk_step *step, int stage, lk_stage_memory *out);

/* ---- predict_run: the whole training. */

/* Goodput, days and GPU-hours; `per_step`: tokens, or samples if there are none. LK_ERR_INPUT: no
 * useful work is left. */
lk_status lk_predict_training(lk_prediction *prediction, const lk_predict_request *request,
                              double per_step, const lk_run_words *words, lk_error *err);
/* Simulate a run of phases with their work: goodput, days, GPU-hours and figures of a prediction.
 * Settles their checkpoints. LK_ERR_INPUT: no useful work is left. */
lk_status lk_predict_forecast(lk_prediction *prediction, const lk_predict_request *request,
                              lk_long_run *phases, int count, lk_error *err);
/* Add energy and carbon to the figures of a run, from those of the prediction. */
void lk_predict_run_energy(lk_prediction *prediction);

/* ---- predict_phases: --run. */

/* Fill an empty answer to a request with phases. */
lk_answerer lk_predict_phases;

/* ---- fixes: when a job does not fit: the smallest changes that would, found by asking. */

/* Try one change of the request at a time, keep those that fit, and predict their step time with
 * the options of the request. Cheapest in time first. */
lk_status lk_find_fixes(lk_arena *arena, const lk_predict_request *request, const lk_asked *asked,
                        const lk_step_options *options, lk_prediction *out, lk_error *err);

/* ---- predict_search: requests that name no layout. */

/* Whether a request states nothing about the layout. */
bool lk_predict_leaves_layout(const lk_predict_request *request);
/* The request with the fastest layout that fits; unchanged if none does. `searched` describes the
 * search. */
lk_status lk_predict_search(lk_arena *arena, const lk_predict_request *request,
                            const lk_asked *taken, lk_predict_request *out, const char **searched,
                            lk_error *err);

/* ---- predict_dlrm: predictions of recommendation models. */

/* Answer; the arena owns the texts. `saved_bytes`: of a checkpoint. */
lk_status lk_predict_dlrm(lk_arena *arena, const lk_predict_request *request,
                          const lk_step_options *options, lk_step *step, lk_prediction *out,
                          double *saved_bytes, lk_error *err);

/* ---- predict_generate: generation by inference engines, without training. */

/* Whether the request's task is generation. */
bool lk_predict_generates(const lk_predict_request *request);

/* ---- predict_rollout: phases that the file of a job states. */

/* Fill what the launch line or file states about generation into options that are not given.
 * *mean_open: the mean length of responses is not stated. */
lk_status lk_rollout_fill(lk_arena *arena, const lk_predict_request *request, const lk_asked *asked,
                          lk_predict_request *out, bool *mean_open, lk_error *err);

/* ---- post_rows: sequences of a step in the rows that are trained. */

typedef struct lk_post_rows {
	int rows;
	double tokens; /* of all sequences, each cut at the end of a row */
	double pairs;  /* sum of their squares: the pairs of attention within sequences */
	double spread; /* deviation of the pairs of a row */
} lk_post_rows;

/* `shared`: sequences share rows of `room` tokens; else each is a row. Sorts `lengths`. */
lk_status lk_post_rows_fill(lk_arena *arena, double *lengths, size_t count, double room,
                            bool shared, lk_post_rows *out, lk_error *err);
/* At least this many rows, such that every rank gets a whole number of micro-batches, and of the
 * groups that chunks of an interleaved pipeline alternate. */
int lk_post_rows_dealt(double rows, const lk_job *job);

/* ---- post_networks: networks of a step besides the policy: critic, reward model, teacher. */

typedef struct lk_post_network {
	const lk_model *model;
	double pass_s;                        /* a forward pass over the sequences of a step */
	double update_s;                      /* of one update; 0 if frozen */
	double weights, gradients, optimizer; /* bytes on a GPU of the largest stage */
	/* without the policy on its GPUs: the stage with the least free memory, and the bytes of its
	 * GPU */
	lk_stage_memory memory;
	double usable;
} lk_post_network;

/* The layout is that of `policy`, except for separate `gpus` and `tp` (0: the policy's). `name`: a
 * preset or a name of Hugging Face; NULL or "policy": the policy's shape. `scalar`: its head gives
 * one number per token. `rows`: per step; `update_rows`: per update, 0: frozen. LK_ERR_INPUT: an
 * unknown network, a layout that does not divide it; `where` names it. */
typedef struct lk_post_network_request {
	const lk_asked *policy;
	const char *name, *where;
	int gpus, tp, rows, update_rows;
	bool scalar;
} lk_post_network_request;
lk_status lk_post_network_of(lk_arena *arena, const lk_post_network_request *request,
                             lk_post_network *out, lk_error *err);

/* ---- predict_post: a step of reinforcement learning. */

/* What an algorithm needs in addition to the policy. */
typedef struct lk_post_algorithm {
	const char *name;
	bool policy, reference, critic, teacher;
} lk_post_algorithm;

/* A step of reinforcement learning being answered. Times are seconds, sizes bytes. */
typedef struct lk_post {
	lk_arena *arena;
	const lk_predict_request *request; /* completed from its launch line or file */
	const lk_predict_request *given;   /* as given */
	bool launched, mean_open, prompt_open;
	const lk_post_algorithm *algorithm;
	lk_rollout_words said;
	bool apart;                   /* engines have their own GPUs */
	lk_asked asked;               /* the training */
	const char *cluster;          /* all GPUs */
	double *lengths;              /* [sequences], prompt and response */
	int sequences, gpus, updates; /* updates: per pass over the sequences */
	double generation, generation_low, generation_high;
	double scoring; /* forward passes of policy and reference over all sequences */
	double update, offload;
	lk_post_rows rows;                                     /* per step */
	lk_post_network critic, rewarding, teacher, reference; /* without a model: absent */
	double kept;  /* stays on a training GPU while engines run there */
	double awake; /* part of the engines that always stays there */
	lk_refit refit;
	lk_stage_memory *memory; /* [trained->memory_count] */
	lk_prediction *written, *trained;
} lk_post;

/* Answer; the arena owns the texts. */
lk_status lk_predict_post(lk_arena *arena, const lk_predict_request *request, lk_prediction *out,
                          lk_error *err);

/* ---- post_training: rows, forward passes and updates. */

/* The request of the training without other phases. */
lk_predict_request lk_post_training_request(const lk_predict_request *request, bool launched);
/* Train on the sequences: set the costs of the training and the other networks. */
lk_status lk_post_train(lk_post *post, lk_predict_request *training, lk_error *err);

/* ---- post_writing: the engines. */

/* The request of the generation without other phases. */
lk_predict_request lk_post_writing_request(const lk_post *post);
lk_status lk_post_write(lk_post *post, lk_predict_request *writing, lk_error *err);
void lk_post_refit(lk_post *post);

/* ---- post_memory: who has the memory of a GPU when. */

/* What the training keeps on its GPUs, and what is copied to the host and back. */
void lk_post_offload(lk_post *post);
/* Add what other networks keep there to the memory of the training. */
void lk_post_keep(lk_post *post);
/* Set the engines' default share of memory. */
void lk_post_leave_room(const lk_post *post, lk_predict_request *writing);
/* Engines and training on the same GPUs; `share`: the engines' share of the memory. */
lk_status lk_post_share(lk_post *post, double share, lk_error *err);
/* Check that networks other than the policy fit; otherwise the warning names them with their
 * memory. */
lk_status lk_post_check_room(const lk_post *post, lk_prediction *prediction, lk_error *err);

/* ---- post_phases: one timeline, and what follows of it. */

lk_status lk_post_fill_times(const lk_post *post, lk_prediction *prediction, lk_error *err);
void lk_post_fill_speed(const lk_post *post, lk_prediction *prediction);
void lk_post_fill_layout(const lk_post *post, lk_prediction *prediction);

/* ---- post_notes: assumptions, layouts in words, the command that reproduces the answer. */

lk_status lk_post_note(const lk_post *post, lk_prediction *prediction, lk_error *err);

/* ---- asked_options: of the simulation. */

/* Options of the simulation that a request states; `world`: its ranks. */
lk_status lk_predict_simulation(lk_arena *arena, const lk_predict_request *request, uint32_t world,
                                lk_step_options *out, lk_error *err);
/* Mean dense peak of the GPUs of the job's ranks; `mixed`: they are of several kinds. */
double lk_predict_peak(const lk_job *job, const lk_cluster *cluster, bool *mixed);

/* ---- expect_causes: what may make a run differ from its prediction: rows of data/causes/
 * (tools/pack_causes.c). */

enum { LK_CAUSES_AT_ONCE = 2 };

typedef struct lk_cause lk_cause;

/* Factors of what a run reports as FLOP/s, as MFU, and as tokens or samples per second. */
typedef struct lk_counting {
	double flops, peak, speed;
} lk_counting;

/* A request with causes applied to it. */
typedef struct lk_caused {
	lk_arena *arena;
	const lk_job *job; /* completed, without the causes */
	const lk_measured *measured;
	lk_predict_request request;
	lk_cluster cluster; /* with the causes */
	bool cluster_changed;
	const lk_cause *causes[LK_CAUSES_AT_ONCE];
	int count;
	lk_args args[LK_CAUSES_AT_ONCE]; /* hold texts of the request */
	double peak;                     /* of a GPU as stated, FLOP/s: what a run divides by */
	lk_counting counting;
	const char *option;
} lk_caused;

/* What a cause changes, X(symbol, name in data/causes/). */
#define LK_CAUSE_CHANGES(X)         \
	X(OPTIONS, "options")           \
	X(JOB, "job")                   \
	X(FAULT, "fault")               \
	X(NICS, "nics")                 \
	X(ONE_NIC, "one_nic")           \
	X(LINKS, "links")               \
	X(PCIE, "pcie")                 \
	X(POWER, "power")               \
	X(STATED_POWER, "stated_power") \
	X(COUNT, "count")               \
	X(PEAK, "peak")

enum lk_cause_change {
#define LK_CAUSE_SYMBOL(symbol, name) LK_CAUSE_##symbol,
	LK_CAUSE_CHANGES(LK_CAUSE_SYMBOL)
#undef LK_CAUSE_SYMBOL
};

/* A row; the columns are described in data/causes/causes.csv. */
struct lk_cause {
	const char *key;    /* NULL ends the table */
	const char *family; /* causes of one family do not occur together */
	double prior;       /* share of runs off their prediction in which it is the reason */
	enum lk_cause_change change;
	const char *argument, *shown; /* NULL: none */
	const char *what, *check;
};
extern const lk_cause lk_causes[];

/* Whether it changes the cluster, or only how the run counts its work. */
bool lk_cause_rewires(const lk_cause *cause);
bool lk_cause_counts(const lk_cause *cause);
/* A request as it was answered, open to causes. */
lk_status lk_caused_begin(lk_arena *arena, const lk_predict_request *request, const lk_asked *asked,
                          const lk_measured *measured, lk_caused *out, lk_error *err);
/* Apply a cause to the request; *applies is false where it cannot occur. */
lk_status lk_cause_apply(lk_caused *caused, const lk_cause *cause, bool *applies, lk_error *err);
/* Read the request with its causes as a completed job. */
lk_status lk_caused_read(lk_caused *caused, lk_asked *out, lk_error *err);
/* Whether its causes leave the job, its machine and what is counted as they are; jobs that differ
 * only between their members are predicted in vain. */
bool lk_caused_is_same(const lk_caused *caused, const lk_job *job);
void lk_caused_free(lk_caused *caused);

/* ---- expect_values: what a run states, and how well it agrees with a predicted step. */

#define LK_EIGHTY 1.2816 /* deviations on one side of an 80 % range */

/* A predicted step, as far as a run can state it. */
typedef struct lk_expected_step {
	bool known; /* it can run */
	double step_s, low_s, high_s;
	double tokens, samples, flops, peak; /* of a step, all GPUs; peak of one as stated, FLOP/s */
	double gpus, gbs, seq, power;
	double memory[LK_MEMORY_KINDS], memory_low, memory_high; /* factors of the range */
	double fits;                                             /* probability */
	double part_s[LK_PART_COUNT];
	lk_counting counting;
} lk_expected_step;

typedef enum lk_value_kind {
	LK_VALUE_TIME,
	LK_VALUE_RATE,
	LK_VALUE_MEMORY,
	LK_VALUE_FACT, /* no estimate: batch, length, GPUs */
	LK_VALUE_SHARE /* of a timed part */
} lk_value_kind;

/* A measured value, and how its prediction follows from a step. */
typedef struct lk_value_stated {
	lk_value_kind kind;
	const char *key, *label, *unit;
	double measured;
	double (*of)(const lk_expected_step *step); /* its prediction; NULL: by kind */
	lk_memory_kind memory;
	unsigned parts; /* of a share: lk_parts as bits */
} lk_value_stated;

enum { LK_PARTS_MOST = 8, LK_VALUES_MOST = 8 + LK_PARTS_MOST };
typedef struct lk_values {
	lk_value_stated at[LK_VALUES_MOST];
	int count;
} lk_values;

typedef struct lk_agreement {
	double predicted, low, high;
	bool inside;
	double likelihood; /* ln of its density */
} lk_agreement;

static inline double lk_or_else(double value, double otherwise) {
	return value > 0 && value <= DBL_MAX ? value : otherwise;
}

double lk_expected_mfu(const lk_expected_step *step);
/* The values that can be compared; `base`: the step of the job as stated. */
void lk_values_fill(lk_values *values, const lk_measured *measured, const lk_expected_step *base);
double lk_value_predicted(const lk_value_stated *value, const lk_expected_step *step);
lk_agreement lk_value_agrees(const lk_value_stated *value, const lk_expected_step *step);
/* Fill the notes: long steps, drift, clocks, data. */
lk_status lk_expect_steps(lk_arena *arena, const lk_measured *measured, lk_expected *out,
                          lk_error *err);

/* ---- expect: a measured run against its prediction. */

/* Compare what request->measured names with the prediction of the request, and search causes where
 * they differ. `options`: of its simulation. */
lk_status lk_expect(lk_arena *arena, const lk_predict_request *request, const lk_asked *asked,
                    const lk_step_options *options, const lk_expected **out, lk_error *err);

#endif
