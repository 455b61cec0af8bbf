/* step.h: one training step: job and cluster in; graph, times, memory and their split out. The
 * basis of predict, validate and every search. */
#ifndef LK_STEP_STEP_H
#define LK_STEP_STEP_H

#include "cost/calibration/calibration.h"
#include "cost/cost.h"
#include "lockstep/predict.h"
#include "model/layout/job.h"
#include "model/dlrm/dlrm_build.h"
#include "model/read/read.h"
#include "options/command.h"
#include "sim/breakdown.h"
#include "sim/memory/memory.h"
#include "sim/sim.h"
#include "sim/timeline.h"
#include "launch/read.h"

enum {
	/* With jitter, jobs of up to this many chains (ranks of a stage) are simulated operation by
	 * operation. */
	LK_STEP_NOISY_CHAINS = 512,
	/* Most operations simulated if folding would change times: about 100 ms. */
	LK_STEP_SIMULATED = 2000000,
	LK_STEP_CROWDED = 10000000, /* likewise where folded runs are known to share the device */
	LK_STEP_SMALL = 2000,       /* at most this many are simulated as fast as folded */
	LK_STEP_ROUNDS = 4,         /* most times that a step is folded again; then it is simulated
	                       * unfolded */
};

/* Findings of a step's simulation. Reused, they save simulations of the same job, and `unsettled`
 * of similar jobs; they change no time. */
typedef struct lk_step_habits {
	bool crowded;   /* folded runs shared the device, so it was simulated unfolded */
	bool shares;    /* folded runs shared the device */
	bool unsettled; /* with few of its periods it did not reach a steady state */
} lk_step_habits;

typedef struct lk_step lk_step;

/* How to simulate. Zero is the default: with contention, folded if that changes no time or saves
 * much. */
typedef struct lk_step_options {
	bool exact, all_ranks, no_contention;
	double jitter, gpu_spread;
	uint64_t seed;
	const lk_straggler *stragglers;
	uint32_t straggler_count;
	const uint32_t *record; /* ranks to record in addition to the first of each stage */
	uint32_t record_count;
	bool memory_only; /* no times, only whether it fits */
	bool few;     /* graph and events may omit micro-batches in the middle of the step whose times
	             follow from others: see lk_step.left_out */
	bool exactly; /* few: only micro-batches whose times follow to the picosecond */
	int64_t give_up_ps; /* bare: a longer step need not be simulated to its end; sim.gave_up reports
	                       that. 0: none */
	/* bare: give_up_ps of a step whose memory is known, before its times are; negative: it gives up
	 * without any. NULL: give_up_ps */
	int64_t (*give_up_at)(void *context, const lk_step *step);
	void *give_up_context;
	bool bare;    /* for searches: no times if it does not fit; no events, no breakdown */
	bool guesses; /* bare, few: of a step that few micro-batches do not determine, a guess will do
	                 if it is far beyond give_up_ps, or agrees with that of fewer: within 0.01 % */
	lk_step_habits habits;         /* known findings */
	lk_cost_cache *cache;          /* NULL: none */
	const lk_constants *constants; /* NULL: the defaults */
	const lk_graph *update; /* of a program that replaces the end of the step, from gradients to
	                           weights (graph/edit/edit.h); NULL: none */
} lk_step_options;

typedef struct lk_source lk_source; /* launch/emit/emit.h */

/* Memory of a stage as the device sees it, bytes. */
typedef struct lk_stage_use {
	lk_memory walk;
	double low, high; /* 80 % range of the walk's peak; NAN: unknown */
	double reserved, context, nccl, total;
	double usable; /* of the smallest device that holds ranks of the stage */
	double reserved_low, reserved_high, out_of_memory; /* 80 % range; the probability; NAN:
	                                                      unknown */
	int orders, orders_fit; /* of sequences that differ in length: tried, and those that fit; 0: all
	                           are equally long */
} lk_stage_use;

struct lk_step {
	lk_arena arena;
	lk_graph *graph; /* as built */
	int left_out;    /* omitted micro-batches, of each direction */
	int middle;      /* number of a steady micro-batch, of those that are not omitted */
	double share;    /* fraction of its micro-batches that determine its time, in (0, 1]; 0: all.
	                    The limit of operations simulated unfolded is divided by it, so that a step
	                    of all micro-batches takes the same time as one derived from few */
	lk_costs costs;
	lk_fold *fold; /* NULL when exact */
	lk_sim_result sim;
	uint32_t *record; /* [record_count] ranks in sim.events */
	uint32_t record_count;
	lk_step_habits habits;
	int64_t give_up_ps; /* of the options, or what give_up_at said */
	double step_s, simulation_s;
	lk_breakdown breakdown;   /* mean over stages */
	lk_breakdown *stage_time; /* [stages] */
	lk_stage_use *memory;     /* [stages] */
	int fullest;              /* stage with the least free memory */
	double usable;            /* bytes of its smallest device */
	double executed_flops;    /* of all ranks */
};

/* The share of the step that waits for communication. */
double lk_step_network_share(const lk_step *step);

/* Whether every stage fits in memory. */
static inline bool lk_step_fits(const lk_step *step) {
	return step->memory[step->fullest].total <= step->usable;
}

/* Whether many measured runs like it would run out of memory, where that is known. */
static inline bool lk_step_risky(const lk_step *step) {
	return step->memory[step->fullest].out_of_memory >= LK_OUT_OF_MEMORY_LIKELY;
}

/* Predict the step; free `out` with lk_step_free in every case. */
lk_status lk_step_ask(const lk_job *job, const lk_cluster *cluster, const lk_step_options *options,
                      lk_step *out, lk_error *err);
void lk_step_free(lk_step *step);

/* The part after graph and costs, which `step` holds: fold, simulate, split the time. Also for
 * graphs without a job. */
lk_status lk_step_simulate(const lk_step_options *options, lk_step *step, lk_error *err);
/* Quantiles of a value over seeds. */
typedef struct lk_quantiles {
	double p50, p95, p99;
} lk_quantiles;

typedef struct lk_step_spread {
	lk_quantiles step_s, part_s[LK_PART_COUNT]; /* parts: exposed */
	lk_quantiles straggler_share; /* of the step: its excess over a step with all ranks equally
	                                 fast */
} lk_step_spread;

/* Spread of a simulated step, which had `options->seed`, and of its parts over `seeds` seeds
 * starting at that one. Seeds run on all cores; the result does not depend on their number.
 * `progress`, unless NULL, receives the number of finished seeds. */
lk_status lk_step_spread_over(const lk_step_options *options, const lk_step *step, int seeds,
                              lk_search_progress *progress, void *context, lk_step_spread *out,
                              lk_error *err);
/* The graph that the events of step->sim refer to. */
static inline const lk_graph *lk_step_simulated(const lk_step *step) {
	return step->fold ? step->fold->graph : step->graph;
}

/* few.c: number of micro-batches that determine the step of the job's many, `more` times the
 * default; 0: build all. */
int lk_step_few(const lk_job *job, const lk_step_options *options, int more);
/* A quarter fewer than `few`, by whole periods. */
int lk_step_fewer(const lk_job *job, int few);
/* Split the time of record `r` of a step, omitted events included. */
lk_status lk_step_split(const lk_step *step, uint32_t r, bool pipeline, lk_breakdown *out,
                        lk_error *err);

/* written.c: a completed job in the form that starts a framework or a scheduler (lk_emit), with a
 * note of what the framework will do where it cannot be told all of the job. `source` (NULL: none)
 * is what targets edit and edited change. */
lk_status lk_step_emit(lk_arena *arena, const char *target, const lk_source *source,
                       const lk_job *job, const lk_cluster *cluster, lk_emitted *out,
                       lk_error *err);

/* ---- request: what a user said, as a completed job on a cluster. */

typedef struct lk_asked {
	lk_job job;
	lk_cluster cluster;
	lk_launch launch;          /* facts of a launch line other than the job */
	lk_trained trained;        /* unstated number formats taken from the network's publishers; NULL:
	                              none */
	const char *batch_assumed; /* lk_request_assume_batch; NULL: stated or derived */
	const lk_source *source;   /* the text that states the job; NULL: none */
	char warning[LK_MODEL_WARNING];
} lk_asked;

/* The job's GPUs, else all of the cluster. */
static inline int lk_asked_gpus(const lk_asked *asked) {
	return asked->job.gpus > 0 ? asked->job.gpus : asked->cluster.gpus;
}

/* Order of precedence: options, then the launch line or script, then the DeepSpeed file, then the
 * model's config. */
/* Whether a launch line, script or other file states the job's training. */
bool lk_request_launched(const lk_predict_request *request);
lk_status lk_request_read(lk_arena *arena, const lk_predict_request *request, lk_asked *out,
                          lk_error *err);
/* What a request states below its options: its file or line, its network, and the formats that the
 * network's publishers trained it in. Requests that differ in options alone are read from one,
 * whose arena outlives theirs; they list nothing of what the file says. */
typedef struct lk_ground {
	lk_asked asked;
	lk_trained trained;
	int launched; /* GPUs stated by the launch line */
} lk_ground;
lk_status lk_request_ground(lk_arena *arena, const lk_predict_request *request, lk_ground *out,
                            lk_error *err);
lk_status lk_request_read_on(lk_arena *arena, const lk_ground *ground,
                             const lk_predict_request *request, lk_asked *out, lk_error *err);
/* request.c: without the publishers' formats and what is derived. */
lk_status lk_request_lay(lk_arena *arena, const lk_ground *ground,
                         const lk_predict_request *request, lk_asked *out, lk_error *err);
/* Apply number formats, written as options, to a job; those stated by the request stay, and are
 * removed from *options. */
lk_status lk_request_lay_numbers(lk_arena *arena, const char **options,
                                 const lk_predict_request *request, lk_job *job, lk_error *err);
/* request.c: the stated part of a request, on its cluster; only number formats, optimizer and
 * task. */
lk_status lk_request_take_stated(lk_arena *arena, const lk_predict_request *request, lk_asked *out,
                                 lk_error *err);
/* The file or line of a request as a text that can be changed, of a framework (NULL: not known);
 * NULL: the request has neither. */
lk_status lk_request_source(lk_arena *arena, const lk_predict_request *request,
                            const char *framework, const lk_source **out, lk_error *err);
lk_status lk_request_take_numbers(const lk_predict_request *request, lk_job *job, lk_error *err);
/* request_options.c: lay the layout, then the switches and the software of a request over a job. */
lk_status lk_request_take_layout(const lk_predict_request *request, lk_job *job, lk_error *err);
void lk_request_take_switches(const lk_predict_request *request, lk_job *job);
/* Read the task into *task, which is unchanged if the request states none. */
lk_status lk_request_take_task(const lk_predict_request *request, int *task, lk_error *err);
/* The objective of fine-tuning that a request states. */
lk_objective lk_request_objective(const lk_predict_request *request);
/* Check the job's NCCL settings, from an option or the launch line. */
/* Check the settings of PyTorch's allocator. */
lk_status lk_request_check_alloc(const lk_predict_request *request, const lk_job *job,
                                 lk_error *err);
lk_status lk_request_check_nccl(const lk_predict_request *request, const lk_job *job,
                                lk_error *err);
/* State the fields of a launch line's job as options; texts belong to the job. */
void lk_request_state(const lk_job *job, lk_predict_request *out);
/* Write the number formats of a job as options of a request. */
void lk_request_state_numbers(const lk_job *job, lk_predict_request *request);
/* pack.c: --pack: set the job's shares for documents packed into its sequences. LK_ERR_INPUT,
 * LK_ERR_IO: about the text or file. */
lk_status lk_request_pack(const char *text, lk_job *job, lk_error *err);
/* --ragged-lengths: set the median and spread of the lengths of its sequences; errors likewise. */
lk_status lk_request_ragged(const char *text, lk_job *job, lk_error *err);
/* Read the request before the job is completed: unstated fields stay open. */
lk_status lk_request_take(lk_arena *arena, const lk_predict_request *request, lk_asked *out,
                          lk_error *err);
/* Complete what was read: an error here concerns the job, not its inputs. */
lk_status lk_request_complete(lk_arena *arena, const lk_predict_request *request, lk_asked *asked,
                              lk_error *err);

/* The default global batch of a request without one (lk_job_assumed_batch), for the network of
 * --model; 0: no default. *note describes it. */
lk_status lk_request_assume_batch(lk_arena *arena, const lk_predict_request *request, int *batch,
                                  const char **note, lk_error *err);
/* Likewise for a request that was read but has no layout yet, for `gpus` GPUs. */
lk_status lk_request_fill_batch(lk_arena *arena, const lk_predict_request *request, int gpus,
                                lk_asked *asked, lk_error *err);
/* Describe an assumed batch: "a global batch of 512 sequences, at most 4 Mi tokens a step
 * (--gbs)". */
lk_status lk_request_note_batch(lk_arena *arena, const lk_job *job, const char **note,
                                lk_error *err);

/* Refuse requests that are wrong on any machine. */
lk_status lk_request_check(const lk_predict_request *request, lk_error *err);

/* Express the launch line, script and DeepSpeed file of a request as the equivalent options;
 * options missing from *out are not stated. *network: they state the network, which is not an
 * option of *out. */
lk_status lk_request_stated(lk_arena *arena, const lk_predict_request *request,
                            lk_predict_request *out, bool *network, lk_error *err);

/* ---- applies: options and flags that cannot act on a job. */

/* Whether the request sets an option of predict. */
bool lk_request_gives(const lk_predict_request *request, const lk_option *option);
/* Refuse an option that cannot act on any layout of this network; on this completed job. Each
 * message says why and what to do. */
lk_status lk_request_check_network(const lk_predict_request *request, const lk_job *job,
                                   lk_error *err);
lk_status lk_request_check_job(const lk_predict_request *request, const lk_job *job, lk_error *err);
/* Remove from the request what cannot act on the completed job. */
void lk_request_keep_acting(const lk_job *job, lk_predict_request *request);
/* Add the flags that cannot act on the completed job to the ignored flags of the launch line. */
lk_status lk_launch_list_idle(lk_arena *arena, const lk_job *job, lk_launch *launch, lk_error *err);

/* Accept NULL or a known software stack; the error names the nearest one. */
lk_status lk_request_check_stack(const char *stack, lk_error *err);
/* Accept NULL or a plausible release number. */
lk_status lk_request_check_release(const char *release, lk_error *err);

/* ---- range: the 80 % range of a predicted step time. */

/* From the cross-validated errors of the job's class of runs (calibration rows of family "range");
 * wider on an architecture without measured runs, with an unknown stack, and, in proportion to
 * `network_share` (the share of the step that waits for communication), on a network far from those
 * of the runs. `basis` (may be NULL) describes this in words owned by the arena; NULL when out of
 * memory. */
void lk_range_of(lk_arena *arena, const lk_job *job, const lk_cluster *cluster,
                 double network_share, double seconds, double *low, double *high,
                 const char **basis);
/* For a recommendation model's step, as shares of it: the error of `validate --mlperf
 * --cross-validate` in four of five rows. */
void lk_range_recommender(double *low, double *high);

/* The calibration row behind the range: the narrowest class of runs that has one; NULL: none. */
const lk_calibration_row *lk_range_row(lk_arena *arena, const lk_job *job);

/* Whether the job divides each layer among as many ranks as a typical node has GPUs: products are
 * thin and communication is exposed, so the prediction is less certain and its range is multiplied
 * (in ln) by `times` of the calibration row "divided". */
bool lk_range_divided(const lk_job *job);

/* The reach (ln) of one side of a range including the unseen property, whose errors are
 * independent; at least that of all runs that were left out that way. `unseen`, `usual`: that side
 * if such runs were left out, and if a network was. */
double lk_range_wider(double side, double unseen, double usual);

/* The variant of a class's row: "nemo experts", "b200 dense", "unseen stack dense"; for all runs
 * (NULL) "experts" or "dense". NULL when memory runs out. */
char *lk_range_class(lk_arena *arena, const char *of, bool experts);
/* Whether the network has layers with a state, whose runs are a class of their own: "hybrid". */
bool lk_range_hybrid(const lk_job *job);

/* ---- profile: the constants of a job's prediction, and which runs stand behind them. */

/* The row of family "stack" that counts the measured runs of the job's codebase; NULL: none. */
const lk_calibration_row *lk_profile_find(const lk_calibration *calibration, const lk_job *job);

/* Whether the shares are backed by runs on the architecture. Ampere is the reference for the
 * others. */
bool lk_profile_measured(const lk_calibration *calibration, lk_arch arch);

/* The constants of all jobs: family "step". */
void lk_profile_base(const lk_calibration *calibration, lk_constants *out);

/* The library whose attention kernels a completed job runs. */
lk_attention_kernel lk_profile_attention(const lk_job *job);
/* Set which kernels the job's software runs. */
void lk_profile_kernels(const lk_job *job, lk_constants *out);
/* Shares of bandwidth of separately measured kernels, for graphs that list every pass over
 * memory. */
void lk_profile_streaming(lk_constants *out);
/* The constants of a job's prediction, with the calibration in use. */
void lk_profile_constants(const lk_job *job, lk_constants *out);

/* The job that a graph states: software, format, whether it has experts. */
lk_job lk_profile_job(const lk_graph *graph, const char *stack, const char *release,
                      lk_dtype dtype);
/* How its software casts operands that are stored in 16 bits. */
struct lk_conversion lk_profile_conversion(const lk_graph *graph, const char *stack,
                                           const char *release, lk_dtype dtype);

/* The constants and switches that price a graph's operations: those of its own software, unless
 * `stack` and `release` (not NULL) override them. A graph without software uses
 * LK_STACK_DEFAULT. */
/* On another cluster: where attention has the kernels that the software chose on the one before,
 * choose those that it would there. Returns why the graph's attention is not what it would
 * run there; NULL: it is. */
const char *lk_profile_move(lk_graph *graph, const char *stack, const char *release,
                            const lk_cluster *from, const lk_cluster *to);
void lk_profile_of_graph(const lk_graph *graph, const char *stack, const char *release,
                         lk_dtype dtype, lk_constants *constants, lk_cost_options *options);

/* ---- memory_use: the memory of every stage as the device sees it. Private to step and to
 * searches. */

/* Fill out->memory, out->fullest and out->usable from out->graph. `search`: what the allocator
 * holds of a job whose tensors alone are too many is not asked. */
lk_status lk_memory_ask(const lk_job *job, const lk_cluster *cluster, bool search, lk_step *out,
                        lk_error *err);
/* Likewise for a step graph written by lockstep predict, which includes its workspace: the stage
 * with the least free memory. */
lk_stage_use lk_memory_of_graph(const lk_graph *graph, const lk_cluster *cluster);

/* Lower bound of the total of a stage that holds `resident` bytes throughout (workspaces excluded)
 * and `held` more at some moment: at most what lk_memory_ask reports if the stage really holds that
 * much. *usable: of its smallest device. */
double lk_memory_least(const lk_job *job, const lk_cluster *cluster, const lk_ranks *ranks,
                       int stage, double resident, double held, double *usable);

/* Whether some stage has no room for what it holds throughout, weights and states, whatever its
 * passes keep: such a job need not be built to see that it does not fit. */
bool lk_memory_hopeless(const lk_job *job, const lk_cluster *cluster);

/* ---- memory_range: the band around a predicted peak, by class of network. */

/* "bert", "gpt with experts", "gpt without experts", "t5". */
enum { LK_MEMORY_CLASSES = 4 };
extern const char *const lk_memory_classes[LK_MEMORY_CLASSES];
const char *lk_memory_class(const lk_model *model);

/* 80 % of measured peaks lie in [p exp(low / scale), p exp(high / scale)], p predicted. */
typedef struct lk_memory_band {
	double low, high, error; /* error: exp(mean |ln(p / m)|) - 1 of the rows after it */
	int rows;                /* 0: class unknown */
} lk_memory_band;

double lk_memory_scale(double predicted);
/* The band of the calibration in use. */
lk_memory_band lk_memory_band_known(const char *class);
/* NAN if unknown. */
/* Bytes by which a stage's peak may well exceed its prediction: twice the upper side of the
 * measured range (an allocation that does not fit ends the job); for software without memory
 * measurements, of the widest range. */
double lk_memory_spread(const lk_stage_use *use, const lk_model *model);
void lk_memory_band_apply(const lk_memory_band *band, double predicted, double *low, double *high);

/* How far what PyTorch's allocator held in measured runs lies from its prediction: deciles of
 * ln(measured / predicted), a row of these. False: the calibration has none. */
enum { LK_MEMORY_DECILES = 9 };
extern const char *const lk_memory_deciles[LK_MEMORY_DECILES]; /* their names */
#define LK_MEMORY_PYTORCH "pytorch"
#define LK_MEMORY_TUNED   "megatron fine-tuning"
/* The class of lk_memory_band_known of what tensors take there, and of lk_range_class. */
#define LK_MEMORY_TENSORS "pytorch tensors"
#define LK_RANGE_ADAPTERS "adapters"
typedef struct lk_memory_odds {
	double decile[LK_MEMORY_DECILES];
	int rows;
} lk_memory_odds;
bool lk_memory_odds_known(const char *variant, lk_memory_odds *out);
/* The share of such runs that hold more than `room` where `predicted` is predicted. */
double lk_memory_odds_of(const lk_memory_odds *odds, double predicted, double room);

/* ---- sensitivity: what a rate that is a little lower or higher makes of a step. */

/* The rates that are changed, one at a time, and the factors. */
enum { LK_SENSITIVE_COSTS = 4, LK_SENSITIVE_WAYS = 2 };
extern const char
	*const lk_sensitive_costs[LK_SENSITIVE_COSTS]; /* "compute", "memory bandwidth", ... */
extern const double lk_sensitive_factors[LK_SENSITIVE_WAYS]; /* 0.9, 1.1 */

/* The step of a completed job with rate `cost` times factor `way`, seconds, predicted as by
 * lk_step_ask; NAN if refused, INFINITY if longer than `limit_s` and not simulated to its end (0:
 * no limit). `habits`: of the unchanged step. */
lk_status lk_sensitivity_ask(const lk_job *job, const lk_cluster *cluster, lk_step_habits habits,
                             int cost, int way, double limit_s, double *seconds, lk_error *err);

/* Likewise for all rates, for pictures: seconds[cost * LK_SENSITIVE_WAYS + way]; the unchanged step
 * takes `step_s`. A long pipeline grows linearly with its micro-batches, so it is simulated with
 * few and with twice as many, and extrapolated. */
lk_status lk_sensitivity_all(const lk_job *job, const lk_cluster *cluster, double step_s,
                             double *seconds, lk_error *err);

/* ---- assumptions: a job told in words: one line each for model, cluster and layout, what was
 * assumed, the command to repeat it. */

/* One line about what may make the answer wrong: a network read as another kind, unknown flags;
 * NULL: nothing. */
lk_status lk_note_warning(lk_arena *arena, const lk_asked *asked, const char **out, lk_error *err);
/* The number of leading assumptions about values that a user could have stated and that are not
 * defaults: they are always shown. */
int lk_note_taken(const lk_asked *asked);
/* Factors on times, after a measured step; 0: it says nothing of this part. */
typedef struct lk_scaling {
	double kernels, links, host;
} lk_scaling;

/* The factors of the calibration in use; 1 where it has none. */
lk_scaling lk_scaling_current(void);
/* Scale the constants by factors above 0. */
void lk_scaling_apply(const lk_scaling *scaling, lk_constants *constants);
/* "kernels by 1.11, links by 2.00"; "" where nothing is scaled, NULL: out of memory. */
const char *lk_scaling_text(lk_arena *arena, const lk_scaling *scaling);
/* What the calibration in use scales, and after which run, as a sentence; likewise. */
const char *lk_scaling_note(lk_arena *arena);
/* Write factors, on top of those in use, as rows for --calibration. LK_ERR_IO, LK_ERR_MEMORY. */
lk_status lk_scaling_write(const lk_scaling *scaling, const char *source, const char *path,
                           lk_error *err);

/* `answer`: an existing prediction; or NULL. */
lk_status lk_note_assumptions(lk_arena *arena, const lk_predict_request *request,
                              const lk_asked *asked, const lk_prediction *answer,
                              const char *const **out, int *count, lk_error *err);
lk_status lk_note_job(lk_arena *arena, const lk_predict_request *request, const lk_asked *asked,
                      lk_prediction *out, lk_error *err);

/* The command that reproduces the request; `job` is its completed job. NULL when memory runs
 * out. */
const char *lk_reproduce(lk_arena *arena, const lk_predict_request *request, const lk_job *job);
/* The command with the options as given. */
const char *lk_reproduce_given(lk_arena *arena, const lk_predict_request *request);
/* "--gpu h200 --gpus 256" or "--cluster TEXT" of that command. */
void lk_reproduce_where(lk_command_line *line, const lk_predict_request *request, int gpus);

/* ---- dlrm_step: one hybrid-parallel step of a recommendation model, asked. */

/* Graph, costs, times; free `out` with lk_step_free in every case. */
lk_status lk_dlrm_ask(const lk_dlrm *model, const lk_dlrm_job *job, const lk_cluster *cluster,
                      const lk_step_options *options, lk_step *out, lk_error *err);

/* ---- timeline: a simulated step as tracks, slices, flows and counters for the views. */

/* The recorded ranks of a step. Folded runs of layers are one slice each, with the operations of
 * their first repetitions nested inside; an exact simulation has every operation. */
lk_status lk_step_timeline(const lk_step *step, lk_timeline **out, lk_error *err);

/* How often an operation ran, and for how long in sum. */
typedef struct lk_op_time {
	double count, ps;
} lk_op_time;
/* Add what the recorded ranks ran: `simulated` by operations of lk_step_simulated, `inside` by
 * those of step->graph, which folded runs of layers stand for. Omitted micro-batches count. */
lk_status lk_step_op_times(const lk_step *step, lk_op_time *simulated, lk_op_time *inside,
                           lk_error *err);

/* By lk_dispatcher, ended by NULL: the values of --dispatcher. */
extern const char *const lk_dispatcher_names[];

#endif
