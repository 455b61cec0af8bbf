/* step.h: one training step, asked: job and cluster in; graph, times, memory and their split out.
 * What predict, validate and every search stand on. */
#ifndef LK_STEP_STEP_H
#define LK_STEP_STEP_H

#include "cost/calibration/calibration.h"
#include "cost/cost.h"
#include "lockstep/predict.h"
#include "model/layout/job.h"
#include "model/network/dlrm.h"
#include "options/command.h"
#include "sim/breakdown.h"
#include "sim/memory.h"
#include "sim/sim.h"
#include "sim/timeline.h"

enum {
	/* With jitter, jobs of up to so many chains (ranks of a stage) are simulated operation by
	 * operation. */
	LK_STEP_NOISY_CHAINS = 512,
	/* So many operations are simulated where folding them would change times: some 100 ms. */
	LK_STEP_SIMULATED = 2000000,
	LK_STEP_SMALL = 2000, /* so few are simulated no later than folded */
	LK_STEP_ROUNDS = 4,   /* so often a step is folded anew; then it is simulated as it is */
};

/* What the simulation of a step showed. Passed on, it saves simulations of the same job, and
 * `unsettled` those of similar jobs; it changes no time. */
typedef struct lk_step_habits {
	bool crowded;   /* folded runs shared the device, so that it was simulated as it is */
	bool unsettled; /* simulated with few of its periods it did not come to a steady state */
} lk_step_habits;

/* How to simulate. Zero is the default: with contention, folded where that changes no time or saves
 * much. */
typedef struct lk_step_options {
	bool exact, all_ranks, no_contention;
	double jitter, gpu_spread;
	uint64_t seed;
	const lk_straggler *stragglers;
	uint32_t straggler_count;
	const uint32_t *record; /* more ranks to record than the first of each stage */
	uint32_t record_count;
	bool memory_only; /* no times: does it fit? */
	bool few; /* the graph and the events may lack micro-batches in the middle of the step, whose
	             times are known from others: see lk_step.left_out */
	int64_t give_up_ps; /* bare: a step that takes longer need not be simulated to its end;
	                       sim.gave_up says so. 0 none */
	bool bare;          /* for searches: no times where it does not fit; no events, no breakdown */
	lk_step_habits habits;         /* what is known of the step */
	lk_cost_cache *cache;          /* NULL: none */
	const lk_constants *constants; /* NULL: the defaults */
	const lk_graph *update; /* of a program that replaces the end of the step, from gradients to
	                           weights (graph/edit/edit.h); NULL: none */
} lk_step_options;

/* Memory of a stage as the device sees it, bytes. */
typedef struct lk_stage_use {
	lk_memory walk;
	double low, high; /* 80 % range of the walk's peak; NAN unknown */
	double reserved, context, nccl, total;
	double usable; /* of the smallest device that holds ranks of the stage */
} lk_stage_use;

typedef struct lk_step {
	lk_arena arena;
	lk_graph *graph; /* as built */
	int left_out;    /* micro-batches that it lacks */
	double share;    /* of its micro-batches, how many tell its time; 0: all. How many operations
	                    are simulated as they are goes by these, so that a step that is asked whole
	                    takes as long as one that is told from few */
	lk_costs costs;
	lk_fold *fold; /* NULL when exact */
	lk_sim_result sim;
	uint32_t *record; /* [record_count] ranks in sim.events */
	uint32_t record_count;
	lk_step_habits habits;
	double step_s, simulation_s;
	lk_breakdown breakdown;   /* mean over stages */
	lk_breakdown *stage_time; /* [stages] */
	lk_stage_use *memory;     /* [stages] */
	int fullest;              /* stage with the least room left */
	double usable;            /* bytes of its smallest device */
	double executed_flops;    /* of all ranks */
} lk_step;

/* The share of the step that waits for communication. */
double lk_step_network_share(const lk_step *step);

/* Whether every stage has room. */
static inline bool lk_step_fits(const lk_step *step) {
	return step->memory[step->fullest].total <= step->usable;
}

/* Answers; `out` is to be freed with lk_step_free in every case. */
lk_status lk_step_ask(const lk_job *job, const lk_cluster *cluster, const lk_step_options *options,
                      lk_step *out, lk_error *err);
void lk_step_free(lk_step *step);

/* The part after graph and costs, which `step` holds: folds, simulates, splits the time. Also for
 * graphs without a job. */
lk_status lk_step_simulate(const lk_step_options *options, lk_step *step, lk_error *err);
/* Quantiles of a number over seeds. */
typedef struct lk_quantiles {
	double p50, p95, p99;
} lk_quantiles;

typedef struct lk_step_spread {
	lk_quantiles step_s, part_s[LK_PART_COUNT]; /* parts: exposed */
	lk_quantiles straggler_share; /* of the step, by which it is longer than with all ranks
	                                 equally fast */
} lk_step_spread;

/* How far a simulated step, which had `options->seed`, and its parts spread over `seeds` seeds from
 * that one on. Seeds run on all cores; what comes out does not depend on how many there are.
 * `progress`, unless NULL, is told how many of them are done. */
lk_status lk_step_spread_over(const lk_step_options *options, const lk_step *step, int seeds,
                              lk_search_progress *progress, void *context, lk_step_spread *out,
                              lk_error *err);
/* The graph that the events of step->sim refer to. */
static inline const lk_graph *lk_step_simulated(const lk_step *step) {
	return step->fold ? step->fold->graph : step->graph;
}

/* few.c: how many micro-batches show what a step of the job's many takes, `more` times as many as
 * mostly do; 0: they are built all. */
int lk_step_few(const lk_job *job, const lk_step_options *options, int more);
/* The split of the time of record `r` of a step, events left out included. */
lk_status lk_step_split(const lk_step *step, uint32_t r, bool pipeline, lk_breakdown *out,
                        lk_error *err);

/* ---- request: what a user said, as a completed job on a cluster. */

typedef struct lk_asked {
	lk_job job;
	lk_cluster cluster;
	lk_launch launch;   /* what a launch line says in addition to the job */
	lk_trained trained; /* number formats that nobody states and that the job has from its network's
	                       publishers; NULL: from nowhere */
	const char *batch_assumed; /* lk_request_assume_batch; NULL: it is stated or derived */
	char warning[LK_MODEL_WARNING];
} lk_asked;

/* Its GPUs: those of the job, else all of the cluster. */
static inline int lk_asked_gpus(const lk_asked *asked) {
	return asked->job.gpus > 0 ? asked->job.gpus : asked->cluster.gpus;
}

/* Order of precedence: options, then the launch line or script, then the DeepSpeed file, then the
 * model's config. */
/* Whether a launch line, a script or another file of the job says what trains. */
bool lk_request_launched(const lk_predict_request *request);
lk_status lk_request_read(lk_arena *arena, const lk_predict_request *request, lk_asked *out,
                          lk_error *err);
/* Lays number formats, written as options, on a job; those that the request states stay, and
 * *options then lacks them. */
lk_status lk_request_lay_numbers(lk_arena *arena, const char **options,
                                 const lk_predict_request *request, lk_job *job, lk_error *err);
/* request.c: what a request states, on the cluster that it names; number formats, optimizer and
 * task alone. */
lk_status lk_request_take_stated(lk_arena *arena, const lk_predict_request *request, lk_asked *out,
                                 lk_error *err);
lk_status lk_request_take_numbers(const lk_predict_request *request, lk_job *job, lk_error *err);
/* The number formats of a job as the options of a request. */
void lk_request_state_numbers(const lk_job *job, lk_predict_request *request);
/* pack.c: --pack: documents in sequences of the job's length, whose shares it gets. LK_ERR_INPUT,
 * LK_ERR_IO: what it names. */
lk_status lk_request_pack(const char *text, lk_job *job, lk_error *err);
/* The same before the job is completed: what was not given is open. */
lk_status lk_request_take(lk_arena *arena, const lk_predict_request *request, lk_asked *out,
                          lk_error *err);
/* Completes what was taken: an error here is one of the job, not of what was read for it. */
lk_status lk_request_complete(lk_arena *arena, const lk_predict_request *request, lk_asked *asked,
                              lk_error *err);

/* The global batch that is assumed where the request states none (lk_job_assumed_batch), of the
 * network of --model; 0: none is. *note says so. */
lk_status lk_request_assume_batch(lk_arena *arena, const lk_predict_request *request, int *batch,
                                  const char **note, lk_error *err);
/* The same of a request that was taken, before its layout is known, for so many GPUs. */
lk_status lk_request_fill_batch(lk_arena *arena, const lk_predict_request *request, int gpus,
                                lk_asked *asked, lk_error *err);
/* How a batch that was assumed is said: "a global batch of 512 sequences, at most 4 Mi tokens a
 * step
 * (--gbs)". */
lk_status lk_request_note_batch(lk_arena *arena, const lk_job *job, const char **note,
                                lk_error *err);

/* What is wrong with a request whatever machine it is for. */
lk_status lk_request_check(const lk_predict_request *request, lk_error *err);

/* What the launch line, the script and the DeepSpeed file of a request state, as the options that
 * state it too: options that *out does not have are not stated. *network: they state the network,
 * which is no option of *out. */
lk_status lk_request_stated(lk_arena *arena, const lk_predict_request *request,
                            lk_predict_request *out, bool *network, lk_error *err);

/* ---- applies: options and flags that cannot act on a job. */

/* Whether the request says something for an option of predict. */
bool lk_request_gives(const lk_predict_request *request, const lk_option *option);
/* Refuses an option that cannot act on a job of this network, however it is laid out; on this
 * completed job. Each message says why and what to do. */
lk_status lk_request_check_network(const lk_predict_request *request, const lk_job *job,
                                   lk_error *err);
lk_status lk_request_check_job(const lk_predict_request *request, const lk_job *job, lk_error *err);
/* Takes out of the request what cannot act on the completed job. */
void lk_request_keep_acting(const lk_job *job, lk_predict_request *request);
/* Adds the flags that cannot act on the completed job to those of the launch line that are ignored.
 */
lk_status lk_launch_list_idle(lk_arena *arena, const lk_job *job, lk_launch *launch, lk_error *err);

/* NULL, or a software stack that is known; else an error that names the nearest. */
lk_status lk_request_check_stack(const char *stack, lk_error *err);
/* NULL, or what may be the number of a release. */
lk_status lk_request_check_release(const char *release, lk_error *err);

/* ---- range: the 80 % range of a predicted step time. */

/* From the cross-validated errors of the job's class of runs (calibration rows of family "range");
 * wider on an architecture that no run was measured on, with a stack that none is known of, and on
 * a network far from those of the runs by its `network_share`, that of the step which waits for
 * communication. `basis` (may be NULL) says which, in words that the arena owns; NULL there when
 * out of memory. */
void lk_range_of(lk_arena *arena, const lk_job *job, const lk_cluster *cluster,
                 double network_share, double seconds, double *low, double *high,
                 const char **basis);
/* Of a recommendation model's step, as shares of it: what `validate --mlperf --cross-validate`
 * missed by in four of five rows. */
void lk_range_recommender(double *low, double *high);

/* The calibration row that the range rests on: the narrowest class of runs that has one; NULL none.
 */
const lk_calibration_row *lk_range_row(lk_arena *arena, const lk_job *job);

/* Whether the job divides each layer among as many ranks as a typical node has GPUs: products are
 * thin and communication is exposed, so that the prediction is less certain, and its range `times`
 * as wide (ln), from the calibration row "divided". */
bool lk_range_divided(const lk_job *job);

/* How far a side of a range reaches (ln) with what the unseen adds to it, errors that have nothing
 * to do with one another; at least as far as those of all runs that were left out that way.
 * `unseen`, `usual`: that side where such runs were left out, and where a network was. */
double lk_range_wider(double side, double unseen, double usual);

/* The variant of a class's row: "nemo experts", "b200 dense", "unseen stack dense"; of all runs
 * (NULL) "experts" or "dense". NULL when memory runs out. */
char *lk_range_class(lk_arena *arena, const char *of, bool experts);

/* ---- profile: how well a software stack uses the hardware, as factors on the constants of the
 * cost models. */

/* A profile: at most six numbers for a stack, release and precision. Above 1 is better: faster. */
typedef enum lk_knob {
	LK_KNOB_GEMM,      /* rate of matrix products */
	LK_KNOB_ATTENTION, /* of attention */
	LK_KNOB_MEMORY,    /* of memory-bound kernels */
	LK_KNOB_HOST,      /* of the host's launches */
	LK_KNOB_NETWORK,   /* of communication */
	LK_KNOB_EXPERTS,   /* of kernels that only mixture-of-experts layers have */
	LK_KNOBS,
} lk_knob;

const char *lk_knob_name(lk_knob knob); /* "gemm" */

/* Formats that share a profile: "16-bit" (and wider), "fp8", "fp4". */
const char *lk_precision_class(lk_dtype dtype);

/* The row of family "stack" for a job: of its stack and precision the latest release that is not
 * after the job's; where the precision has none, that of the nearest one. NULL: unknown stack.
 * Variants are "RELEASE", "PRECISION" or "PRECISION RELEASE"; a row without a precision holds for
 * all. */
const lk_calibration_row *lk_profile_find(const lk_calibration *calibration, const lk_job *job);

/* Whether there are rows of releases of the job's stack. */
bool lk_profile_has_releases(const lk_calibration *calibration, const lk_job *job);

/* Whether runs on the architecture are after the shares. Ampere is what the shares of others are
 * of. */
bool lk_profile_measured(const lk_calibration *calibration, lk_arch arch);

/* The constants without a profile: family "step". */
void lk_profile_base(const lk_calibration *calibration, lk_constants *out);

/* Whose attention kernels a completed job runs. */
lk_attention_kernel lk_profile_attention(const lk_job *job);
/* Shares of bandwidth of kernels measured alone, for graphs that list every pass over memory. */
void lk_profile_streaming(lk_constants *out);
/* Lays a profile on top. */
void lk_profile_apply(const double knobs[LK_KNOBS], lk_constants *constants);
/* Both, with the calibration in use: what a job is predicted with. */
void lk_profile_constants(const lk_job *job, lk_constants *out);

/* What a graph says of the job that it was built of: software, format, whether it has experts. */
lk_job lk_profile_job(const lk_graph *graph, const char *stack, const char *release,
                      lk_dtype dtype);

/* The constants and switches that a graph's operations are priced with: those of its own software,
 * which `stack` and `release` override where they are not NULL. A graph that does not say has
 * LK_STACK_DEFAULT's. */
void lk_profile_of_graph(const lk_graph *graph, const char *stack, const char *release,
                         lk_dtype dtype, lk_constants *constants, lk_cost_options *options);

/* ---- memory_use: the memory of every stage as the device sees it. Private to ask/ and to
 * searches. */

/* Fills out->memory, out->fullest and out->usable from out->graph. */
lk_status lk_memory_ask(const lk_job *job, const lk_cluster *cluster, lk_step *out, lk_error *err);
/* The same of a step graph that lockstep predict wrote, whose workspace is in it: the stage with
 * the least room left. */
lk_stage_use lk_memory_of_graph(const lk_graph *graph, const lk_cluster *cluster);

/* The total of a stage that holds `resident` bytes throughout (workspaces left out) and at some
 * moment `held` more: no more than lk_memory_ask says where those are no more than there are.
 * *usable: of its smallest device. */
double lk_memory_least(const lk_job *job, const lk_cluster *cluster, const lk_ranks *ranks,
                       int stage, double resident, double held, double *usable);

/* ---- memory_range: the band around a predicted peak, by class of network. */

/* "bert", "gpt with experts", "gpt without experts", "t5". */
enum { LK_MEMORY_CLASSES = 4 };
extern const char *const lk_memory_classes[LK_MEMORY_CLASSES];
const char *lk_memory_class(const lk_model *model);

/* 80 % of measured peaks lie in [p exp(low / scale), p exp(high / scale)], p predicted. */
typedef struct lk_memory_band {
	double low, high, error; /* error: exp(mean |ln(p / m)|) - 1 of the rows after it */
	int rows;                /* 0: nothing is known of the class */
} lk_memory_band;

double lk_memory_scale(double predicted);
/* The band of the calibration in use. */
lk_memory_band lk_memory_band_known(const char *class);
/* NAN where nothing is known. */
/* Bytes by which the peak of a stage can well exceed the predicted one: twice the upper side of the
 * measured range (for an allocation too large ends the job); of software whose memory was not
 * measured, of the widest range of all. */
double lk_memory_spread(const lk_stage_use *use, const lk_model *model);
void lk_memory_band_apply(const lk_memory_band *band, double predicted, double *low, double *high);

/* ---- sensitivity: what a rate that is a little lower or higher makes of a step. */

/* Rates that are changed, one at a time, and by what. */
enum { LK_SENSITIVE_COSTS = 4, LK_SENSITIVE_WAYS = 2 };
extern const char
	*const lk_sensitive_costs[LK_SENSITIVE_COSTS]; /* "compute", "memory bandwidth", ... */
extern const double lk_sensitive_factors[LK_SENSITIVE_WAYS]; /* 0.9, 1.1 */

/* The step of a completed job with rate `cost` times factor `way`, predicted as lk_step_ask does;
 * NAN where it is refused, INFINITY where it takes longer than `limit_s` and was not simulated to
 * its end (0: no limit). `habits` of the step as it is. */
lk_status lk_sensitivity_ask(const lk_job *job, const lk_cluster *cluster, lk_step_habits habits,
                             int cost, int way, double limit_s, double *seconds, lk_error *err);

/* The same for all rates, for pictures: seconds[cost * LK_SENSITIVE_WAYS + way], where the step
 * itself takes `step_s`. A long pipeline grows evenly with its micro-batches, so it is simulated
 * with a few and with twice as many, which tells the rest. */
lk_status lk_sensitivity_all(const lk_job *job, const lk_cluster *cluster, double step_s,
                             double *seconds, lk_error *err);

/* ---- assumptions: a job told in words: one line each for model, cluster and layout, what was
 * assumed, the command to repeat it. */

/* What may make the answer wrong, in one line: a network read as another kind, flags that are not
 * known; NULL: nothing. */
lk_status lk_note_warning(lk_arena *arena, const lk_asked *asked, const char **out, lk_error *err);
/* How many of the assumptions, the first ones, stand for what a user could have stated and is not
 * usual: people see them without asking. */
int lk_note_taken(const lk_asked *asked);
/* `answer`: what was predicted of it already; or NULL. */
lk_status lk_note_assumptions(lk_arena *arena, const lk_predict_request *request,
                              const lk_asked *asked, const lk_prediction *answer,
                              const char *const **out, int *count, lk_error *err);
lk_status lk_note_job(lk_arena *arena, const lk_predict_request *request, const lk_asked *asked,
                      lk_prediction *out, lk_error *err);

/* The command that asks the request again; `job` is its completed job. NULL when memory runs out.
 */
const char *lk_reproduce(lk_arena *arena, const lk_predict_request *request, const lk_job *job);
/* The command of the options as they were given. */
const char *lk_reproduce_given(lk_arena *arena, const lk_predict_request *request);
/* "--gpu h200 --gpus 256" or "--cluster TEXT" of that command. */
void lk_reproduce_where(lk_command_line *line, const lk_predict_request *request, int gpus);

/* ---- dlrm_step: one hybrid-parallel step of a recommendation model, asked. */

/* Graph, costs, times; `out` is to be freed with lk_step_free in every case. */
lk_status lk_dlrm_ask(const lk_dlrm *model, const lk_dlrm_job *job, const lk_cluster *cluster,
                      const lk_step_options *options, lk_step *out, lk_error *err);

/* ---- timeline: a simulated step as tracks, slices, flows and counters for the views. */

/* The recorded ranks of a step. Folded runs of layers are one slice each, with the operations of
 * their first repetitions nested inside; an exact simulation has every operation. */
lk_status lk_step_timeline(const lk_step *step, lk_timeline **out, lk_error *err);

/* By lk_dispatcher, ended by NULL: the values of --dispatcher. */
extern const char *const lk_dispatcher_names[];

#endif
