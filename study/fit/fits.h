/* fits.h: the numbers of a fabric from measured collectives, cross-validation of them, and other
 * models to compare with. */
#ifndef LK_FIT_FITS_H
#define LK_FIT_FITS_H

#include "base/vec.h"
#include "cost/calibration/calibration.h"
#include "cost/collective/collective.h"
#include "cost/cost.h"
#include "cost/host_terms.h"
#include "cost/kernel/kernel.h"
#include "io/stream.h"
#include "lockstep/validate.h"
#include "rollout/rollout.h"
#include "step/step.h"
#include "tables/tables.h"

typedef struct lk_arena lk_arena; /* base/arena.h */

/* Length of the part of a source that names the publication: "owner/repository" of a file in a
 * repository, else the first word's site or name; and whether two sources are of one. */
size_t lk_publication(const char *source);
bool lk_same_publication(const char *a, const char *b);

/* A fabric with fewer rows is predicted from the catalogue, not fitted. */
enum { LK_COLL_FIT_ROWS = 60 };

/* What a fold leaves out of the rows of a fabric. */
typedef enum lk_coll_folds {
	LK_COLL_FOLDS_SIZE,
	LK_COLL_FOLDS_GPUS,
	/* all rows of a fabric, of a device, of a publication; the common numbers come from others */
	LK_COLL_FOLDS_FABRIC,
	LK_COLL_FOLDS_GPU,
	LK_COLL_FOLDS_SOURCE,
} lk_coll_folds;

/* Whether such folds span fabrics, so that what was seen is of others. */
bool lk_coll_folds_apart(lk_coll_folds folds);

typedef const lk_coll_row *lk_coll_pick; /* a row among many */

/* Predict `held` in us from a fit to `seen`. All rows are of one fabric; if a fabric is left out,
 * `seen` holds the rows of all others. `start`: where fits of a fabric start, with the laws that
 * hold. */
typedef lk_status lk_coll_predictor(const lk_fabric *start, const lk_coll_pick *seen,
                                    size_t seen_count, const lk_coll_pick *held, size_t held_count,
                                    double *us, lk_error *err);

/* The model with the fabric's five numbers and curves; one latency and rate per collective and
 * group; NCCL's own estimate; and the five scalars launch, latency factor and efficiency of each
 * protocol on NCCL's latencies and bandwidths. */
lk_coll_predictor lk_coll_predict_model, lk_coll_predict_alpha_beta, lk_coll_predict_raw,
	lk_coll_predict_scalars;

/* The same for a fabric that was not seen, with the numbers common to the others. */
lk_coll_predictor lk_coll_predict_laws;

/* Fit the numbers common to all fabrics, and those of a fabric that nobody measured; *error is the
 * mean |ln(predicted / measured)|. */
lk_status lk_coll_laws_fit(const lk_coll_pick *rows, size_t count, lk_nccl_laws *laws,
                           lk_fabric *fabric, double *error, lk_error *err);
/* Whether a row is used for it: measured, not known as slow, over a stated network. */
bool lk_coll_teaches_laws(const lk_coll_row *row);

/* Find the numbers that minimise mean |ln(predicted / measured)|; numbers that the rows do not
 * determine stay as in `start`. */
void lk_fabric_fit(const lk_coll_pick *rows, size_t count, const lk_fabric *start, lk_fabric *out,
                   double *error);

/* Fit the residuals between the rows and the model with these numbers, curve by curve. */
void lk_coll_curves_fit(const lk_coll_pick *rows, size_t count, const lk_fabric *fabric,
                        lk_curves *out);

/* Predicted time, us. */
double lk_coll_row_time(const lk_coll_row *row, const lk_fabric *fabric);

/* Names of the fabrics of a table that are fitted, in the order of the table. */
typedef LK_VEC(const char *) lk_coll_fabrics;
lk_status lk_coll_fabrics_of(const lk_coll_rows *rows, lk_coll_fabrics *out, lk_error *err);
bool lk_coll_fitted(const lk_coll_fabrics *fabrics, const lk_coll_row *row);

/* Fill us[i] of every row of a fitted fabric, each from rows outside its fold; others are left
 * unchanged. */
lk_status lk_coll_cross(const lk_coll_rows *rows, const lk_coll_fabrics *fabrics,
                        lk_coll_folds folds, lk_coll_predictor *predict, const lk_fabric *start,
                        double *us, lk_error *err);

/* Whether two rows, neither refused, are left out together by folds that span fabrics. */
bool lk_coll_one_fold(const lk_coll_row *a, const lk_coll_row *b, lk_coll_folds folds);

/* Why a row cannot be scored with its fold left out; NULL: it can. */
const char *lk_coll_no_relatives(const lk_coll_rows *rows, const lk_coll_row *row,
                                 lk_coll_folds folds);

static inline bool lk_coll_is_message(const lk_coll_row *row) {
	return row->kind == LK_COLL_SENDRECV;
}

/* ---- collective_range: the range of collectives on fabrics that no fit had seen, from rows that
 * were predicted so: us[i] of rows->at[i], NAN where it was not. */

/* Fit the range to the rows of this class except those in a fold with `without` (NULL: all); if
 * fewer than ten remain, to all rows over a network, or inside nodes. `out` stays unchanged if
 * these are too few. *points: rows used. */
lk_status lk_coll_range_fit(const lk_coll_rows *rows, const double *us, lk_coll_place place,
                            bool messages, lk_coll_pick without, lk_coll_folds folds,
                            lk_coll_range *out, int *points, lk_error *err);

/* ---- kernel_fit: numbers of kernel laws (cost/kernel/laws.h) from tables of isolated kernels. */

/* The rows of one series on one device. */
typedef struct lk_kernel_group {
	const lk_kernel_row **rows;
	size_t count;
} lk_kernel_group;

enum { LK_KERNEL_FOLDS = 5 };

/* Divide the rows that are not refused into groups; memory from the arena. */
lk_status lk_kernel_groups_of(lk_arena *arena, const lk_kernel_rows *rows, lk_kernel_group **groups,
                              size_t *count, lk_error *err);
/* The fold of a row: whole shapes. */
int lk_kernel_fold(const lk_kernel_row *row);
/* Fit numbers[law->count] to the rows outside a fold; -1: to all. */
lk_status lk_kernel_fit(const lk_kernel_group *group, int without, double *numbers, lk_error *err);
/* Fill seconds[row] of every row of a group that is large enough, from fits without its fold. */
lk_status lk_kernel_cross(const lk_kernel_rows *rows, const lk_kernel_group *groups, size_t count,
                          double *seconds, lk_error *err);
/* Likewise from other devices: numbers in use of them, trees fitted to their rows. */
lk_status lk_kernel_cross_devices(const lk_kernel_rows *rows, const lk_kernel_group *groups,
                                  size_t count, double *seconds, lk_error *err);
/* Append a calibration row for each group that is large enough, the trees of each part of a law,
 * and how far rows are from the numbers of others (family "farther"). */
lk_status lk_kernel_fit_rows(const lk_kernel_rows *rows, const char *source, const char *date,
                             lk_calibration *out, lk_error *err);

/* ---- fit_runs: base constants and stack profiles from measured training runs. */

typedef struct lk_runs_fit lk_runs_fit;

/* The step time of a run that is not refused, with these constants; NULL: those of its stack in the
 * calibration in use; and the share of it that waits for communication (NULL: not wanted). A job
 * that cannot be built is an error, and *seconds NAN. */
lk_status lk_run_predict(const lk_run *run, const lk_constants *constants, double *seconds,
                         double *network_share, lk_error *err);
/* The architecture of its first node. */
lk_arch lk_run_arch(const lk_run *run);

/* Observer of the progress of a fit; the share is from 0 to 1. */
typedef struct lk_fit_watch {
	void (*progress)(void *context, const char *doing, double share);
	void *context;
} lk_fit_watch;

/* Fit all numbers to the runs that are measured, predictable and not suspect; memory from the
 * arena. `watch` may be NULL. */
lk_status lk_runs_fit_all(lk_arena *arena, const lk_runs *runs, const lk_fit_watch *watch,
                          lk_runs_fit **out, lk_error *err);
/* Fit the numbers without the runs whose fold[i] is `left_out`, into x[lk_runs_fit_numbers]. */
lk_status lk_runs_fit_without(const lk_runs_fit *fit, const int *fold, int left_out, double *x,
                              lk_error *err);
int lk_runs_fit_numbers(const lk_runs_fit *fit);
/* Set the constants that run i is predicted with; x NULL: the fit of all runs. */
void lk_runs_fit_constants(const lk_runs_fit *fit, const double *x, size_t i, lk_constants *out);
/* Append the rows of families "step", "architecture" and "stack". */
lk_status lk_runs_fit_rows(const lk_runs_fit *fit, const char *source, const char *date,
                           lk_calibration *out, lk_error *err);

/* ---- cross_runs: training runs predicted from fits that have not seen them, and the ranges that
 * follow from how far off those predictions are. */

typedef struct lk_cross_run {
	double predicted; /* s, from a fit without the run's fold; NAN: not predictable */
	double low, high; /* 80 % range, from such errors of similar runs in other folds */
} lk_cross_run;

/* What the runs of a fold have in common: stack, network and GPU, or one of them. */
typedef enum lk_runs_alike {
	LK_RUNS_GROUP,
	LK_RUNS_NETWORK,
	LK_RUNS_GPU,
	LK_RUNS_ARCHITECTURE,
	LK_RUNS_STACK,
	LK_RUNS_SOURCE, /* one publication: a repository or site */
} lk_runs_alike;
/* "(stack, network, GPU)", "network", ... */
const char *lk_runs_alike_name(lk_runs_alike alike);

/* Set fold[i] of each run i to 0 .. *count - 1. */
lk_status lk_runs_folds(const lk_runs *runs, lk_runs_alike alike, int *fold, int *count,
                        lk_error *err);

/* Set out[i] of each run i; folds as lk_runs_folds gives them for `alike`. */
lk_status lk_runs_cross(lk_arena *arena, const lk_runs *runs, const lk_runs_fit *fit,
                        lk_runs_alike alike, const int *fold, int folds, lk_cross_run *out,
                        lk_error *err);

/* Append the rows of family "range", subject "step": errors of fits on runs of a class without
 * their network, and on what no fit had seen: GPU, architecture, stack. */
lk_status lk_runs_range_rows(lk_arena *arena, const lk_runs *runs, const lk_runs_fit *fit,
                             const char *source, const char *date, lk_calibration *out,
                             lk_error *err);

/* ---- fit_gemm: products of a table of kernel times, and fits to a part of them. */

enum { LK_GEMM_DEVICES = 32 };

typedef struct lk_gemm_point {
	size_t row; /* of the table */
	const lk_op_sample *sample;
	lk_gemm_shape shape;
	int device; /* of the list */
	int fold;
} lk_gemm_point;

/* The products of one format. */
typedef struct lk_gemm_table {
	lk_dtype dtype;
	lk_gemm_point *points;
	size_t count;
	const lk_device *device[LK_GEMM_DEVICES];
	int devices, folds;
	const char *held_out; /* "whole (n, k) pairs" */
} lk_gemm_table;

/* Collect the rows of known devices and this format, with folds of a kind: LK_FOLDS_SHAPE,
 * LK_FOLDS_GPU. */
lk_status lk_gemm_table_build(lk_arena *arena, const lk_op_sample *samples, size_t count,
                              lk_dtype dtype, int folds, lk_gemm_table *out, lk_error *err);

/* A fit. `general`: one set of numbers for all devices and a correction that does not distinguish
 * them, for devices that were not measured. */
typedef struct lk_gemm_fitted {
	bool general;
	lk_gemm_numbers numbers[LK_GEMM_DEVICES];
	lk_trees trees;
} lk_gemm_fitted;

/* Fit to the points outside a fold (-1: to all). The trees' memory is from the arena. */
lk_status lk_gemm_fit(lk_arena *arena, const lk_gemm_table *table, int without, bool general,
                      lk_gemm_fitted *out, lk_error *err);
double lk_gemm_fitted_seconds(const lk_gemm_fitted *fitted, const lk_gemm_table *table,
                              const lk_gemm_point *point);
/* Number of fitted numbers. */
int lk_gemm_fitted_count(const lk_gemm_fitted *fitted, const lk_gemm_table *table);

/* Predict every point from a fit that has not seen its fold, into predicted[count]. `fitted` (may
 * be NULL): number of fitted numbers of one fit. */
lk_status lk_gemm_cross(const lk_gemm_table *table, bool general, double *predicted, int *fitted,
                        lk_error *err);

/* ---- fit_memory: the numbers of lk_memory_model from measurements of one operation on one device.
 */

/* One measured call. */
typedef struct lk_memory_point {
	double rows, width, seconds;
} lk_memory_point;

enum { LK_MEMORY_POINTS_LEAST = 8 }; /* fewer are not fitted: related devices predict better */

/* Points that are fitted together. */
typedef struct lk_memory_group {
	const lk_device *device;
	const lk_memory_kernel *kernel;
	lk_dtype dtype;
	const lk_memory_point *points;
	size_t count;
} lk_memory_group;

/* Find the model with the least mean error by ratio; numbers that the points do not determine stay
 * near the default. */
lk_memory_model lk_memory_fit(const lk_memory_group *group);

/* exp(mean |ln(predicted / measured)|) - 1 over the points. */
double lk_memory_fit_error(const lk_memory_group *group, const lk_memory_model *model);

/* Append the model as a row of family "memory"; the caller keeps owning the texts. */
lk_status lk_memory_fit_row(lk_calibration *into, const lk_memory_group *group,
                            const lk_memory_model *model, const char *source, const char *date,
                            lk_error *err);

/* Number of fitted numbers of a model. */
int lk_memory_fit_numbers(const lk_memory_kernel *kernel);

/* ---- host_terms: tables of measured host overheads (cost/host_terms.h), merged: "shared
 * overheads".
 *
 *     type,name,mean_us[,model][,batch_size][,count]
 */

/* Selection of rows: runs of models whose names begin with this, at batches from `least` to
 * `most`. */
typedef struct lk_host_kind {
	const char *models;
	double least, most;
} lk_host_kind;

/* Read a table. Rows that name other runs are left out; means of one name are weighted by their
 * counts. */
lk_status lk_host_terms_read(lk_stream *in, const lk_host_kind *kind, lk_host_terms *out,
                             lk_error *err);
/* Take terms that `terms` lacks from `more`, times the ratio of the name's T2 in the two (for names
 * that are not in both, the median ratio), at most 1: profilers differ in what they add to all
 * times of an operation, releases in how long it takes; a longer T2 comes from what a release
 * counts before the call. */
lk_status lk_host_terms_fill(lk_host_terms *terms, const lk_host_terms *more, lk_error *err);

/* ---- memory_range: how far measured memory lies from its prediction, by class of network. */

/* A measured row and its prediction, bytes. */
typedef struct lk_memory_residual {
	const char *class, *fold;
	double predicted, measured;
} lk_memory_residual;

/* Fit the band of a class to all rows except those of one fold (NULL: to all). */
lk_status lk_memory_band_fit(const lk_memory_residual *rows, size_t count, const char *class,
                             const char *without, lk_memory_band *out, lk_error *err);

/* ---- misses: widths of ranges from how far predictions missed: the same share of the rows of a
 * class lies inside. */

/* A row's prediction by a fit that had not seen its fold. */
typedef struct lk_miss {
	const char *name; /* class of the row */
	int fold;
	double by;    /* |ln(predicted / measured)|; NAN: not predicted */
	double width; /* filled: half the range, as ln; from the rows of the class in other folds */
} lk_miss;

/* Fill the widths. A class with too few rows in other folds takes all rows of other folds. */
lk_status lk_misses_widths(lk_arena *arena, lk_miss *misses, size_t count, lk_error *err);
/* The same for another share of the errors than the default. */
lk_status lk_misses_widths_of(lk_arena *arena, lk_miss *misses, size_t count, double share,
                              lk_error *err);

/* Append one row per class: family "range", subject `kind`, number "half". */
lk_status lk_misses_write(lk_arena *arena, const lk_miss *misses, size_t count, const char *kind,
                          const char *source, const char *date, lk_calibration *into,
                          lk_error *err);

/* The same for another share. */
lk_status lk_misses_write_of(lk_arena *arena, const lk_miss *misses, size_t count, double share,
                             const char *kind, const char *source, const char *date,
                             lk_calibration *into, lk_error *err);

/* Width of a class in a calibration; `otherwise` if it has none. */
double lk_misses_width(const lk_calibration *calibration, const char *kind, const char *name,
                       double otherwise);

/* ---- slowdown_fit: the overlap model fitted to kernels measured concurrently with communication.
 */

/* Fit the model to the rows with use[i] set (NULL: all). False when memory runs out. */
bool lk_slowdown_fit(lk_arena *arena, const lk_slowdown_table *table, const bool *use, bool kinds,
                     lk_overlap *out);
/* Fill the errors of predictions of each kind: miss[i] is |ln(predicted / measured)| of row i by a
 * fit that had not seen it, NAN for rows that do not count. False when memory runs out. */
bool lk_slowdown_spreads(lk_arena *arena, const lk_slowdown_table *table, const bool *use,
                         const double *miss, lk_overlap *model);
/* Median, weighted by time, of slower = (measured / alone - 1) / ratio / strength of the rows with
 * strength[i] above 0. */
double lk_slowdown_median(lk_arena *arena, const lk_slowdown_table *table, const double *strength);

/* ---- engine_fit: the numbers of inference engines from measured generation. What an engine does
 * one after another does not depend on how long it takes, so that device and host time of each
 * iteration are linear in the inverse or the value of each number but that of experts, whose
 * products are bound by memory or by arithmetic. */

enum { LK_EXPERT_PLACES = 8 };

/* Nearly equal iterations, per iteration. */
typedef struct lk_engine_iterations {
	double count;
	double products_s[LK_EXPERT_PLACES]; /* by the share that experts reach (engine_fit.c) */
	double attention_s;                  /* at a number of 1 */
	double exchange_s;
	double kernels;   /* kernels that take the floor */
	double sequences; /* decoding sequences */
	double launches;  /* outside CUDA graphs */
} lk_engine_iterations;

typedef struct lk_engine_terms {
	const lk_engine_iterations *spans;
	size_t count;
	bool overlaps; /* of the software */
	bool early;    /* of the software */
	bool requests; /* the time to a first token, with a request's own */
	double host;   /* factor on host times */
} lk_engine_terms;

/* Compute the terms of `sequences` equal sequences on the engine; its own numbers are ignored. */
lk_status lk_engine_terms_of(lk_arena *arena, const lk_engine *engine, double prompt,
                             double response, size_t sequences, lk_engine_terms *out,
                             lk_error *err);
/* Prices of an engine, kept from row to row. */
typedef struct lk_engine_priced lk_engine_priced;
/* Compute the terms of a row, of what its `seconds` measure, or of its first token. *priced starts
 * as NULL and belongs to the arena. */
lk_status lk_inference_terms(lk_arena *arena, const lk_inference_run *run, bool first,
                             lk_engine_priced **priced, lk_engine_terms *out, lk_error *err);
double lk_engine_seconds(const lk_engine_numbers *numbers, const lk_engine_terms *terms);

/* Rows to fit: weight[i] is 0 if a row has no part. */
typedef struct lk_engine_rows {
	const lk_engine_terms *terms;
	const double *measured, *weight;
	size_t count;
} lk_engine_rows;
typedef enum lk_engine_fitted {
	LK_ENGINE_FIT_ALL,     /* but the time of a request */
	LK_ENGINE_FIT_HOST,    /* per iteration and per sequence */
	LK_ENGINE_FIT_REQUEST, /* of first tokens */
} lk_engine_fitted;
/* Find the numbers of a kind that minimise the weighted mean of |ln(predicted / measured)|; the
 * others stay as they are. */
void lk_engine_fit(const lk_engine_rows *rows, lk_engine_fitted kind, lk_engine_numbers *numbers);
#endif
