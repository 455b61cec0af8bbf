/* validate.h: compare predictions with measurements.
 *
 *     lk_validate_request request;
 *     lk_validate_defaults(&request);
 *     request.table = "llm_runs.csv";
 *     lk_validation *validation;
 *     lk_error err;
 *     if (lk_validate(&request, &validation, &err) != LK_OK) ...
 *     lk_validate_print(validation, LK_VALIDATE_TEXT, false, stdout, &err);
 *     lk_validate_free(validation); */
#ifndef LOCKSTEP_VALIDATE_H
#define LOCKSTEP_VALIDATE_H

#include <stdbool.h>
#include <stdio.h>
#include "lockstep/error.h"
#include "lockstep/options.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Formats of lk_validate_print, in the order of the option's choices. */
enum {
	LK_VALIDATE_TEXT,
	LK_VALIDATE_MD,
	LK_VALIDATE_CSV,
	LK_VALIDATE_JSON,
	LK_VALIDATE_JSONL,
	LK_VALIDATE_SQLITE,
};

/* The unit of cross-validation folds, in the order of the option's choices. */
enum {
	LK_FOLDS_SHAPE,  /* the default; kernels: rows of similar shape, on one device: whole (n, k)
	                    pairs, size octaves ... */
	LK_FOLDS_GPU,    /* kernels, collectives and training runs: all rows of a device */
	LK_FOLDS_SIZE,   /* collectives, the default there: a share of a fabric's sizes */
	LK_FOLDS_GPUS,   /* collectives: all rows of a number of GPUs of a fabric */
	LK_FOLDS_FABRIC, /* collectives: all rows of a fabric */
	/* training runs: all rows of a network, of a GPU architecture, of a software stack, of one
	   publication (the beginning of `source`: owner/repository, or a site; collectives too) */
	LK_FOLDS_NETWORK,
	LK_FOLDS_ARCHITECTURE,
	LK_FOLDS_STACK,
	LK_FOLDS_SOURCE,
};

/* The request. Texts are borrowed. */
typedef struct lk_validate_request {
	const char *table; /* the measurements, .csv or .csv.gz; "-" standard input */
	const char *const
		*more; /* further tables of training runs or of collectives, evaluated together with it */
	int more_count;
	/* the contents of the table: at most one of them; none: training runs */
	bool ops;         /* kernels: ops_*.csv */
	bool kernels;     /* isolated kernels: kernels_*_2026.csv.gz, dispatch_2026.csv.gz */
	bool collectives; /* collectives.csv */
	bool memory;      /* peak memory: megatron_ci_memory.csv */
	bool slowdown;    /* kernels overlapped with communication: overlap_slowdown_*.csv */
	bool models;      /* whole networks on one device: fp32_models_e2e.csv */
	bool plan;      /* training runs again: among those with the same network, GPUs and batch, would
	                   the search for a layout have found the fastest? */
	bool dlrm;      /* recommendation models on one device: dlrm_single_gpu_iter.csv */
	bool scaling;   /* throughput of BERT and convolution nets by GPUs: cnn_bert_scaling.csv */
	bool mlperf;    /* MLPerf steps of recommendation models, BERT, ResNet: mlperf_other_runs.csv */
	bool inference; /* throughput of inference engines: inference_throughput.csv */
	bool serving;   /* time per token of served requests: serving_2026.csv */
	bool first_token;      /* with `serving`: the time to the first token instead */
	bool rl;               /* steps of reinforcement learning: rl_runs.csv */
	bool refit;            /* weight updates to the engines: weight_update.csv */
	bool finetune;         /* memory, verdicts and times of fine-tuning: finetune_runs.csv */
	bool history;          /* published long runs: goodput and days: run_history.csv */
	bool storage;          /* training that waits for storage: storage_runs.csv */
	bool noise;            /* tails of step times: `table` is a folder, step_series/ */
	const char *overheads; /* with `dlrm`: host time by operation, T1 to T5; NULL: the tables next
	                          to `table` */
	bool cross; /* predict every row from a fit to the other folds, instead of the current
	               calibration */
	int folds;  /* with `cross`: LK_FOLDS_SHAPE ..., the unit of a fold; 0: the kind's default */
	const char
		*calibration;  /* a file of `lockstep calibrate`, which overrides the built-in one; NULL:
		                * none */
	const char *stack; /* training runs: only rows of this software stack; NULL: all */
	int sort;          /* of the rows: 0 as in the file, 1 largest error first */
	const struct lk_plan_team
		*team;        /* processes that share the predictions of training runs (lockstep-mpi); NULL:
		               * none */
	bool rows;        /* text and md list every row, not only the worst ten */
	const char *plot; /* file of lk_validate_plot, checked before the work; NULL: none */
} lk_validate_request;

/* The accuracy on a set of rows. Errors are fractions (0.1 is 10 %), over the scored rows:
 * predicted, with a measured value, not suspect. With p predicted and m measured: error = p/m - 1.
 * Values that do not apply are NAN. */
typedef struct lk_accuracy {
	const char *by, *name; /* "stack", "nemo"; "all", "all" for the whole */
	int rows, predicted, skipped, suspect, scored;
	double geomean_error;       /* exp(mean |ln(p/m)|) - 1: the figure with accuracy bars */
	double macro_geomean_error; /* its mean over the stacks with at least 10 scored rows */
	double mape;                /* mean |p/m - 1| */
	double median_error;        /* median of |p/m - 1| */
	double p90_error;           /* 90th percentile of |p/m - 1|, interpolated between order
	                             * statistics */
	double bias;                /* exp(mean ln(p/m)) - 1: above 0 if predictions are too long */
	double kendall_tau; /* tau-b of predicted and measured over the layouts of a group, mean over
	                       groups */
	double mean_top1_regret; /* measured time of the layout predicted best / best measured - 1, mean
	                            over groups */
	double coverage;         /* share of rows whose measured value lies in [low, high] */
	int rank_groups;         /* groups behind the two rank figures */
	double within_5;         /* share of rows with |p/m - 1| <= 0.05 */
	double weighted_error;   /* sum |p - m| / sum m */
	double half_width;       /* median of sqrt(high/low) - 1: half the width of the 80 % range */
	double scaling_error;    /* exp(mean |ln|) - 1 of predicted over measured speed-up, between the
	                            runs of a series */
	int series;              /* number of series */
	int parameters;          /* numbers fitted for the predictions; 0 in parts */
} lk_accuracy;

/* One row. */
typedef struct lk_validated {
	int row;                /* 1-based place in the table */
	const char *id, *where; /* from the table; "file:line" */
	const char *stack, *release, *model, *gpu, *layout, *precision;
	int gpus;
	double predicted, measured; /* NAN: not predicted, not stated */
	const char *unit;           /* "s" */
	double error;               /* predicted / measured - 1 */
	double low, high;           /* 80 % range of the prediction */
	const char *reason; /* why it was skipped or is not scored, or what was ignored; NULL: no
	                       remark */
	bool scored;
	const char *part; /* name of its group in the division `parts` of the validation; NULL: none */
} lk_validated;

/* All rows and their accuracy: overall, by part, and for baselines. */
typedef struct lk_validation {
	lk_accuracy summary;
	const lk_accuracy *groups; /* by stack, by GPU, by scale ...: the divisions of this kind of
	                            * table */
	int group_count;
	const char *parts;            /* the first division that distinguishes rows: "stack"; "" none */
	const lk_accuracy *baselines; /* other ways to predict the same rows, on the same folds */
	int baseline_count;
	const char *folds; /* what was left out of the fit that predicts a row; "" with the current
	                      calibration */
	const char *unit_of_rows; /* "run", "kernel" */
	const lk_validated *rows;
	int row_count;
	bool all_rows;            /* from the request: text lists them all */
	const char *source;       /* the input */
	const char *reproduce;    /* the command */
	const char *failed_check; /* the consistency check that failed; NULL: all passed */
	void *memory_owner;
} lk_validation;

/* Set every field to its default. Call it first, then set fields; later versions may add fields. */
void lk_validate_defaults(lk_validate_request *request);

/* Predict every row of a table of runs. Rows that cannot be predicted are kept with their reason; a
 * file that cannot be read is LK_ERR_INPUT with its line; LK_ERR_IO; LK_ERR_MEMORY. */
lk_status lk_validate(const lk_validate_request *request, lk_validation **out, lk_error *err);
/* Free a validation and everything it points to; accepts NULL. */
void lk_validate_free(lk_validation *validation);

/* Write the result. CSV and JSONL hold only the rows, JSON `summary`, `groups` and `rows`. SQLITE
 * needs a path: use lk_validate_sqlite, which writes the tables validate_summary and validate_rows.
 * LK_ERR_INPUT for SQLITE without; LK_ERR_IO; LK_ERR_MEMORY. */
lk_status lk_validate_print(const lk_validation *validation, int format, bool colour, FILE *out,
                            lk_error *err);
lk_status lk_validate_sqlite(const lk_validation *validation, const char *path, lk_error *err);

/* Draw predicted over measured as SVG: a point per scored row, coloured by its part; both axes
 * logarithmic. Above 3000 rows a fixed sample is drawn. The file appears when it is complete.
 * LK_ERR_IO; LK_ERR_MEMORY. */
lk_status lk_validate_plot(const lk_validation *validation, const char *path, lk_error *err);

/* The verb's option table, for parsing, help, man page and completion (options.h). */
extern const lk_verb lk_validate_verb;

#ifdef __cplusplus
}
#endif
#endif
