/* validate.h: shared by the files of validate. */
#ifndef LK_VALIDATE_VALIDATE_H
#define LK_VALIDATE_VALIDATE_H

#include "cost/calibration/calibration.h"
#include "fit/fits.h"
#include "hw/hw.h"
#include "io/stream.h"
#include "lockstep/validate.h"
#include "model/network/dlrm.h"
#include "tables/tables.h"

typedef struct lk_arena lk_arena; /* base/arena.h */

/* validate_check.c: a validator (base/check.h). */
const char *lk_validation_check(const lk_validation *validation);

/* ---- summary: statistics of predicted against measured, for every kind of validation. */

/* One row for the statistics. */
typedef struct lk_score {
	double predicted, measured; /* NAN if there is none */
	double low, high;
	bool suspect;
	const char *stack;  /* for the macro mean; "" none */
	const char *group;  /* rows with equal texts are ranked against each other; NULL: never */
	const char *series; /* rows with equal texts are one scaling series; NULL: none */
	int gpus;           /* of a row of a series */
	double work;        /* of a row of a series: work done in the measured time (tokens) */
	const char *layout; /* what is ranked; rows of a group with equal texts are one, by their
	                       geometric mean */
} lk_score;

/* Whether the row counts in the errors. */
bool lk_score_counts(const lk_score *score);

/* Fill everything except `by` and `name`. */
lk_status lk_summarise(const lk_score *scores, size_t count, lk_accuracy *out, lk_error *err);

/* A row's part in a division of the rows. */
typedef struct lk_score_key {
	const char *name;
	int order; /* of the names, before the alphabet */
} lk_score_key;

/* Make one summary for each different key, in the order of the keys; appended to groups[*filled].
 * `groups` has room for `count` more. */
lk_status lk_summarise_by(const char *by, const lk_score *scores, const lk_score_key *keys,
                          size_t count, lk_accuracy *groups, int *filled, lk_error *err);

/* Name and order of a number of GPUs: "1-8", "9-64", "65-512", "over 512". */
lk_score_key lk_scale_key(int gpus);

/* ---- scoring: the result of every kind of validation: predicted and measured, row by row, and how
 * the rows divide. One file per kind (score_*.c); validate.c summarises and view/ prints, the same
 * way for all of them. */

enum { LK_DIVISIONS = 8, LK_BASELINES = 5 };

/* Another way to predict the same rows, for comparison: on the same folds. */
typedef struct lk_baseline {
	const char *name;  /* "roofline" */
	int parameters;    /* fitted for it */
	double *predicted; /* [count], NAN without an answer */
} lk_baseline;

/* How the rows divide: keys[i] is the part of row i; a key without a name leaves the row out. */
typedef struct lk_division {
	const char *by;     /* "gpu" */
	lk_score_key *keys; /* [count] */
} lk_division;

typedef struct lk_scoring {
	lk_validated *rows; /* [count]; `scored` and `error` are filled by lk_scoring_finish */
	lk_score *scores; /* [count]; `predicted`, `measured`, `low`, `high` likewise, from the rows */
	size_t count;
	lk_division divisions[LK_DIVISIONS];
	int division_count;
	lk_baseline baselines[LK_BASELINES];
	int baseline_count;
	int parameters;    /* fitted numbers */
	const char *folds; /* "": predicted with the current calibration; else what was left out of the
	                      fit that predicts it: "(n, k) pair" */
	const char *unit_of_rows; /* "run", "kernel", "size": one row, for the heading */
} lk_scoring;

/* Read the table, predict every row (with request->cross: from fits that have not seen its fold)
 * and fill `out`; memory from the arena. Rows that cannot be predicted stay, with their reason. */
typedef lk_status lk_scoring_fn(lk_arena *arena, const lk_validate_request *request, lk_stream *in,
                                lk_scoring *out, lk_error *err);
lk_scoring_fn lk_score_runs, lk_score_ops, lk_score_collectives, lk_score_memory, lk_score_slowdown,
	lk_score_models, lk_score_dlrm, lk_score_scaling, lk_score_plans, lk_score_mlperf,
	lk_score_inference, lk_score_serving, lk_score_post, lk_score_refit, lk_score_kernels,
	lk_score_finetune, lk_score_history, lk_score_storage, lk_score_noise;

/* Allocate `count` rows and scores, zeroed, with every number of a row NAN and every text "". */
lk_status lk_scoring_rows(lk_arena *arena, size_t count, lk_scoring *out, lk_error *err);
/* Add a division by a name; its keys are to be filled. NULL when memory runs out. */
lk_score_key *lk_scoring_divide(lk_arena *arena, lk_scoring *out, const char *by);
/* Add a baseline; its predictions are NAN until they are filled. NULL when memory runs out. */
lk_baseline *lk_scoring_baseline(lk_arena *arena, lk_scoring *out, const char *name,
                                 int parameters);

/* Fill a row with the answer of `predict` to a request: time, range, layout; or the reason for a
 * refusal. `mfu` may be NULL. */
lk_status lk_scoring_ask(lk_arena *arena, const lk_predict_request *request, lk_validated *row,
                         double *mfu, lk_error *err);

/* ---- baselines: simple ways to predict the same rows, so that a figure can be judged. They are
 * fitted on the same folds. */

/* Add the baselines of training runs to `out`, whose rows are those of `runs`. Each row is
 * predicted from the rows of other folds, without suspect rows. Tables of over 8192 runs get none.
 * baseline_runs.c states the formulas. */
lk_status lk_baselines_runs(lk_arena *arena, const lk_runs *runs, const int *fold, lk_scoring *out,
                            lk_error *err);

/* ---- dlrm_time: a recommendation model's training step on one device, as in predict, with the
 * given host overheads. */

typedef struct lk_dlrm_time {
	double step_s;
	double kernels_s;  /* the device's work only */
	double host_s;     /* the host's work only */
	const char *class; /* which of both is more: lk_shard_step_class */
} lk_dlrm_time;

lk_status lk_dlrm_predict(const lk_dlrm *model, double batch, const lk_device *device,
                          const lk_host_terms *host, lk_dlrm_time *out, lk_error *err);

/* ---- network_time: time of a whole network that runs operator by operator, from the times of its
 * kernels. */

/* A row's terms, before fitting; [0] forward, [1] backward. */
typedef struct lk_network_work {
	double products_s[2]; /* matrix products only */
	double passes_s[2];   /* memory-bound operations only, without launch */
	double launches[2];
	double exchange_s[2]; /* between devices */
	double call_s;        /* shortest measured call on the device: the host's time per call */
	double fetches;       /* of memory from the driver in a training forward */
	double fill;          /* share of the device's memory in use at its end */
	double bubble;        /* factor of waiting pipeline stages */
	double roofline_s;    /* products at peak, passes at memory bandwidth */
	bool train;
	bool borrowed; /* kernels of this device were not measured */
} lk_network_work;

lk_status lk_network_work_of(const lk_calibration *calibration, const lk_model_run *run,
                             lk_network_work *out, lk_error *err);

/* Numbers common to all networks and devices. */
typedef struct lk_network_model {
	double gap_s;    /* between two kernels of a queue */
	double products; /* in a long run relative to single: clocks drop */
	double passes;   /* likewise, also for operations not listed */
	double host;     /* relative to a call, for the host to issue one kernel */
	double fetch_s;  /* of memory from the driver */
	double squeeze;  /* lengthening of the forward pass when memory is nearly full */
} lk_network_model;

enum { LK_NETWORK_NUMBERS = 6 };
lk_network_model lk_network_usual(void);
double lk_network_seconds(const lk_network_model *model, const lk_network_work *work);

/* One row for fitting. */
typedef struct lk_network_row {
	const lk_network_work *work;
	const lk_device *device;
	double seconds;
} lk_network_row;

/* Devices with borrowed kernels get their own factor from the rows: `factor` of each. */
typedef struct lk_network_fit {
	lk_network_model model;
	struct {
		const lk_device *device;
		double factor;
	} own[32];
	int owners;
} lk_network_fit;

/* Write a row of family "network": the model as subject "all", factors by device. */
lk_status lk_network_write(const lk_network_fit *fit, int points, double error, const char *source,
                           const char *date, lk_calibration *into, lk_error *err);
void lk_network_read(const lk_calibration *calibration, lk_network_fit *out);

void lk_network_fit_rows(const lk_network_row *rows, size_t count, lk_network_fit *out);
double lk_network_predict(const lk_network_fit *fit, const lk_network_row *row);

/* ---- ops_parts: a table of kernel times is scored in two parts, products and memory-bound
 * operations; each part fills the rows of its own family. */

/* All arrays have one place per row of the table; a part does not touch the rows of the other. */
typedef struct lk_ops_part {
	const lk_op_sample *samples;
	size_t count;
	bool cross; /* from fits that have not seen a row's fold, else with the current calibration */
	int folds;  /* LK_FOLDS_SHAPE, LK_FOLDS_GPU: what is left out together */
	lk_validated *rows; /* to fill: predicted, low, high; reason if it cannot be predicted */
	lk_score_key
		*classes; /* to fill: name of the row's class, "gemm fp16"; ranges are stated by class */
	double
		*nearest; /* to fill: from the nearest measured shape, among the rows that the fit uses */
	double *roofline; /* to fill: peak arithmetic or memory bandwidth, whichever takes longer */
	int parameters;   /* to fill: fitted numbers of one prediction's fit, all devices together */
	const char *held_out; /* to fill: "whole (n, k) pairs"; "" if no row is of this family or
	                         without `cross` */
} lk_ops_part;

lk_status lk_ops_gemm_score(lk_arena *arena, lk_ops_part *part, lk_error *err);
lk_status lk_ops_memory_score(lk_arena *arena, lk_ops_part *part, lk_error *err);

/* ---- ops_memory: memory-bound operations of a table of kernel times. */

/* Rows of one device, operation and format. */
typedef struct lk_memory_rows {
	const lk_device *device;
	const lk_memory_kernel *kernel;
	lk_dtype dtype;
	LK_VEC(size_t) rows;   /* of the table */
	lk_memory_model whole; /* fitted to all of them, once `fitted` */
	bool fitted;
} lk_memory_rows;

typedef struct lk_memory_table {
	const lk_op_sample *samples;
	size_t count;
	LK_VEC(lk_memory_rows) groups;
	lk_memory_point *points; /* scratch, room for all rows */
	int *fold;               /* [count] */
	int folds;
	bool few_widths; /* each is a fold */
} lk_memory_table;

/* Sort rows into groups; `why` ([count], may be NULL) gets the reason if a row has no group. Free
 * in every case. */
lk_status lk_memory_table_sort(lk_arena *arena, const lk_op_sample *samples, size_t count,
                               const char **why, lk_memory_table *out, lk_error *err);
void lk_memory_table_free(lk_memory_table *table);
/* Fill the folds: widths, or devices. */
lk_status lk_memory_table_folds(lk_arena *arena, lk_memory_table *table, int kind, lk_error *err);

/* The group with the rows outside a fold (-1: all rows) as points. */
lk_memory_group lk_memory_table_points(lk_memory_table *table, const lk_memory_rows *rows,
                                       int fold);
/* The fit to all rows; made once. */
const lk_memory_model *lk_memory_table_whole(lk_memory_table *table, lk_memory_rows *rows);

/* "flat fp16 a40 64 us": rows with similar errors, by the predicted time. */
const char *lk_memory_range_class(lk_arena *arena, const lk_memory_rows *rows, double seconds);

/* Share of the errors of other folds that a range must hold to hold enough of a fold's: few widths
 * have different errors each. */
double lk_memory_inside(const lk_memory_table *table);

/* Errors of rows whose width the fit had not seen, one per sample; and the share of them that a
 * range holds. */
lk_status lk_ops_memory_misses(lk_arena *arena, const lk_op_samples *samples, lk_miss **out,
                               double *share, lk_error *err);

/* ---- ops_nearest: the simplest prediction of a product: from the most similar measured one. */

/* predicted[count]: the time of the point nearest in ln(batch, m, n, k), times the ratio of
 * floating-point operations. It is of the same device; if whole devices are left out, of another
 * one, times the ratio of peaks. `cross`: only points of other folds, else any other point. NAN if
 * there is none. */
lk_status lk_gemm_nearest(const lk_gemm_table *table, bool cross, bool other_devices,
                          double *predicted, lk_error *err);

/* The longer of peak arithmetic and memory bandwidth. */
double lk_gemm_roofline(const lk_device *device, const lk_gemm_shape *shape);

/* ---- used by calibrations: the same fits as in validation, without folds. */

/* Matrix products of a table of kernel times as calibration rows; other kernels are skipped. The
 * rows borrow `source` and `date`. */
lk_status lk_calibrate_gemm(const lk_op_samples *samples, const char *source, const char *date,
                            lk_calibration *out, lk_error *err);
/* Whole networks on one device (network_time.c) as calibration rows. */
lk_status lk_calibrate_models(lk_stream *in, const char *source, const char *date,
                              lk_calibration *out, lk_error *err);

/* ---- score_memory: peaks of memory. */

/* Peak of the last stage, bytes. Fails on jobs that cannot be built. */
lk_status lk_memory_predict(const lk_memory_run *run, double *bytes, lk_error *err);

/* The closed form of docs/method/memory.md, bytes at the peak of the last stage. */
double lk_memory_closed_form(const lk_job *job);

#endif
