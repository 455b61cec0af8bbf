/* validate.h: what the files of validate share. */
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

/* One row as the statistics see it. */
typedef struct lk_score {
	double predicted, measured; /* NAN where there is none */
	double low, high;
	bool suspect;
	const char *stack;  /* for the macro mean; "" none */
	const char *group;  /* rows with equal texts are ranked against each other; NULL: never */
	const char *series; /* rows with equal texts are one scaling series; NULL: none */
	int gpus;           /* of a row of a series */
	double work;        /* of a row of a series: what is done in the measured time (tokens) */
	const char *layout; /* what is ranked; rows with equal texts of a group are one, by their
	                       geometric mean */
} lk_score;

/* Whether the row counts in the errors. */
bool lk_score_counts(const lk_score *score);

/* Fills everything but `by` and `name`. */
lk_status lk_summarise(const lk_score *scores, size_t count, lk_accuracy *out, lk_error *err);

/* A row's place in a division of the rows. */
typedef struct lk_score_key {
	const char *name;
	int order; /* of the names, before the alphabet */
} lk_score_key;

/* One summary for each different key, in the order of the keys; appended to groups[*filled].
 * `groups` has room for `count` more. */
lk_status lk_summarise_by(const char *by, const lk_score *scores, const lk_score_key *keys,
                          size_t count, lk_accuracy *groups, int *filled, lk_error *err);

/* Name and order of a number of GPUs: "1-8", "9-64", "65-512", "over 512". */
lk_score_key lk_scale_key(int gpus);

/* ---- scoring: what every kind of validation hands over: predicted alongside measured, row by row,
 * and how the rows divide. One file per kind (score_*.c); validate.c sums up and view/ prints, the
 * same way for all of them. */

enum { LK_DIVISIONS = 5, LK_BASELINES = 5 };

/* Another way to predict the same rows, for comparison: on the same folds. */
typedef struct lk_baseline {
	const char *name;  /* "roofline" */
	int parameters;    /* numbers that were fitted for it */
	double *predicted; /* [count], NAN where it has no answer */
} lk_baseline;

/* How the rows divide: keys[i] is the part that row i belongs to; a key without a name leaves the
 * row out. */
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
	int parameters;    /* fitted numbers after the predictions */
	const char *folds; /* "": predicted with the calibration in use; else what was left out of the
	                      fit that predicts it: "(n, k) pair" */
	const char *unit_of_rows; /* "run", "kernel", "size": one row, for the heading */
} lk_scoring;

/* Reads the table, predicts every row (with request->cross: from fits that have not seen its fold)
 * and fills `out`; memory from the arena. Rows that cannot be predicted stay, with their reason. */
typedef lk_status lk_scoring_fn(lk_arena *arena, const lk_validate_request *request, lk_stream *in,
                                lk_scoring *out, lk_error *err);
lk_scoring_fn lk_score_runs, lk_score_ops, lk_score_collectives, lk_score_memory, lk_score_slowdown,
	lk_score_models, lk_score_dlrm, lk_score_scaling, lk_score_plans, lk_score_mlperf,
	lk_score_inference, lk_score_post, lk_score_refit;

/* Rooms for `count` rows and scores, zeroed, with every number of a row NAN and every text "". */
lk_status lk_scoring_rows(lk_arena *arena, size_t count, lk_scoring *out, lk_error *err);
/* A division by a name; its keys are to be filled. NULL when memory runs out. */
lk_score_key *lk_scoring_divide(lk_arena *arena, lk_scoring *out, const char *by);
/* A baseline; its predictions are NAN until they are filled. NULL when memory runs out. */
lk_baseline *lk_scoring_baseline(lk_arena *arena, lk_scoring *out, const char *name,
                                 int parameters);

/* Fills a row with what `predict` answers to a request: time, range, layout; or the reason why it
 * is refused. `mfu` may be NULL. */
lk_status lk_scoring_ask(lk_arena *arena, const lk_predict_request *request, lk_validated *row,
                         double *mfu, lk_error *err);

/* ---- baselines: simple ways to predict the same rows, so that a figure can be judged. They are
 * fitted on the same folds as what they are compared with. */

/* Adds the baselines of training runs to `out`, whose rows are those of `runs`. Each row is
 * predicted from the rows of other folds; suspect rows teach nothing. Tables of over 8192 runs get
 * none. baseline_runs.c states the formulas. */
lk_status lk_baselines_runs(lk_arena *arena, const lk_runs *runs, const int *fold, lk_scoring *out,
                            lk_error *err);

/* ---- dlrm_time: a recommendation model's training step on one device, as predict says it, with
 * the host overheads given. */

typedef struct lk_dlrm_time {
	double step_s;
	double kernels_s;  /* the device's work alone */
	double host_s;     /* the host's work alone */
	const char *class; /* which of both is more: lk_shard_step_class */
} lk_dlrm_time;

lk_status lk_dlrm_predict(const lk_dlrm *model, double batch, const lk_device *device,
                          const lk_host_terms *host, lk_dlrm_time *out, lk_error *err);

/* ---- network_time: time of a whole network that runs operator by operator, from the times of its
 * kernels. */

/* What a row needs, before anything is fitted; [0] forward, [1] backward. */
typedef struct lk_network_work {
	double products_s[2]; /* matrix products alone */
	double passes_s[2];   /* memory-bound operations alone, without launch */
	double launches[2];
	double exchange_s[2]; /* between devices */
	double call_s;  /* shortest call that is measured on the device: what its host needs for one */
	double fetches; /* of memory from the driver in a training forward */
	double fill;    /* share of the device's memory in use at its end */
	double bubble;  /* factor of pipeline stages that wait */
	double roofline_s; /* products at peak, passes at memory bandwidth */
	bool train;
	bool borrowed; /* kernels of this device were not measured */
} lk_network_work;

lk_status lk_network_work_of(const lk_calibration *calibration, const lk_model_run *run,
                             lk_network_work *out, lk_error *err);

/* Numbers that are alike for all networks and devices. */
typedef struct lk_network_model {
	double gap_s;    /* between two kernels of a queue */
	double products; /* in a long run over alone: clocks sink */
	double passes;   /* likewise, and operations not listed */
	double host;     /* of a call that the host needs to issue one kernel */
	double fetch_s;  /* of memory from the driver */
	double squeeze;  /* forward longer by so much, when memory runs full */
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

/* Devices whose kernels are borrowed get a factor of their own from the rows: `factor` of each. */
typedef struct lk_network_fit {
	lk_network_model model;
	struct {
		const lk_device *device;
		double factor;
	} own[32];
	int owners;
} lk_network_fit;

/* Row of family "network": the model as subject "all", factors by device. */
lk_status lk_network_write(const lk_network_fit *fit, int points, double error, const char *source,
                           const char *date, lk_calibration *into, lk_error *err);
void lk_network_read(const lk_calibration *calibration, lk_network_fit *out);

void lk_network_fit_rows(const lk_network_row *rows, size_t count, lk_network_fit *out);
double lk_network_predict(const lk_network_fit *fit, const lk_network_row *row);

/* ---- ops_parts: a table of kernel times is scored in two parts, products and memory-bound
 * operations; each part fills the rows of its own family. */

/* All arrays have one place per row of the table; a part leaves the rows of the other alone. */
typedef struct lk_ops_part {
	const lk_op_sample *samples;
	size_t count;
	bool cross; /* from fits that have not seen a row's fold, else with the calibration in use */
	int folds;  /* LK_FOLDS_SHAPE, LK_FOLDS_GPU: what is left out together */
	lk_validated *rows; /* to fill: predicted, low, high; reason where it cannot be predicted */
	lk_score_key
		*classes; /* to fill: name of the row's class, "gemm fp16"; ranges are stated by class */
	double
		*nearest; /* to fill: from the nearest measured shape, of the rows that the fit sees too */
	double *roofline; /* to fill: peak arithmetic or memory bandwidth, whichever takes longer */
	int parameters;   /* to fill: fitted numbers after one prediction's fit, all devices together */
	const char *held_out; /* to fill: "whole (n, k) pairs"; "" when no row is of this family or
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

/* Sorts rows into groups; `why` ([count], may be NULL) gets the reason where a row has no place.
 * Free in every case. */
lk_status lk_memory_table_sort(lk_arena *arena, const lk_op_sample *samples, size_t count,
                               const char **why, lk_memory_table *out, lk_error *err);
void lk_memory_table_free(lk_memory_table *table);
/* Fills the folds: widths, or devices. */
lk_status lk_memory_table_folds(lk_arena *arena, lk_memory_table *table, int kind, lk_error *err);

/* The group with the rows outside a fold (-1: all rows) as points. */
lk_memory_group lk_memory_table_points(lk_memory_table *table, const lk_memory_rows *rows,
                                       int fold);
/* The fit to all rows; done once. */
const lk_memory_model *lk_memory_table_whole(lk_memory_table *table, lk_memory_rows *rows);

/* "flat fp16 a40 64 us": rows that miss alike, by the predicted time. */
const char *lk_memory_range_class(lk_arena *arena, const lk_memory_rows *rows, double seconds);

/* Share of the misses of other folds that a range must hold to hold enough of a fold's: few widths
 * miss each in its own way. */
double lk_memory_inside(const lk_memory_table *table);

/* Misses of rows whose width the fit had not seen, one for each sample; and the share of them that
 * a range holds. */
lk_status lk_ops_memory_misses(lk_arena *arena, const lk_op_samples *samples, lk_miss **out,
                               double *share, lk_error *err);

/* ---- ops_nearest: the simplest way to predict a product: from the measured one that is most like
 * it. */

/* predicted[count]: the time of the point nearest in ln(batch, m, n, k), times the ratio of
 * floating-point operations. It is of the same device; where whole devices are left out, of another
 * one, times the ratio of peaks. `cross`: only points of other folds, else any but the point
 * itself. NAN where there is none. */
lk_status lk_gemm_nearest(const lk_gemm_table *table, bool cross, bool other_devices,
                          double *predicted, lk_error *err);

/* The longer of peak arithmetic and memory bandwidth. */
double lk_gemm_roofline(const lk_device *device, const lk_gemm_shape *shape);

/* ---- what calibrations take from here: the same fits that validation makes without a fold. */

/* Matrix products of a table of kernel times as calibration rows; other kernels are passed over.
 * `source` and `date` are borrowed by the rows. */
lk_status lk_calibrate_gemm(const lk_op_samples *samples, const char *source, const char *date,
                            lk_calibration *out, lk_error *err);
/* Whole networks on one device (network_time.c) as calibration rows. */
lk_status lk_calibrate_models(lk_stream *in, const char *source, const char *date,
                              lk_calibration *out, lk_error *err);

/* ---- score_memory, memory_baseline: peaks of memory. */

/* Peak of the last stage, bytes. Fails on jobs that cannot be built. */
lk_status lk_memory_predict(const lk_memory_run *run, double *bytes, lk_error *err);

/* The closed form of docs/method/memory.md, bytes at the peak of the last stage. */
double lk_memory_closed_form(const lk_job *job);

#endif
