/* calibrate.h: fit the numbers of the models to measurements; measure this machine.
 *
 *     lk_calibrate_request request;
 *     lk_calibrate_defaults(&request);
 *     request.kind = "ops", request.table = "ops_fp16.csv.gz", request.source = "kernel times of
 *         our cluster";
 *     lk_calibrated *calibrated;
 *     lk_error err;
 *     if (lk_calibrate(&request, &calibrated, &err) != LK_OK) ...
 *     lk_calibrate_save(calibrated, LK_CALIBRATE_CSV, false, "ours.csv", stdout, &err);
 *     lk_calibrate_free(calibrated); */
#ifndef LOCKSTEP_CALIBRATE_H
#define LOCKSTEP_CALIBRATE_H

#include <stdbool.h>
#include <stdio.h>
#include "lockstep/error.h"
#include "lockstep/options.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Formats, in the order of the option's choices; AUTO depends on the name of the output file, and
 * is text without one. */
enum { LK_CALIBRATE_AUTO = -1, LK_CALIBRATE_TEXT, LK_CALIBRATE_CSV, LK_CALIBRATE_JSON };

/* The request. Texts are borrowed; NULL: not given. */
typedef struct lk_calibrate_request {
	/* ops, kernels, collectives, memory, slowdown, models, inference, runs or host */
	const char *kind;
	const char *table; /* the measurements, .csv or .csv.gz, "-": standard input; not of "host" */
	const char *const *more; /* "runs", "collectives", "inference": further tables, fitted
	                          * together with it */
	int more_count;
	const char *source; /* their origin in words; in every row */
	const char *date;   /* YYYY-MM-DD; default: today */
	const char *name;   /* name of the measured thing instead of the table's; of the device for
	                       "host" */
	/* "host" only */
	double seconds;   /* for all measurements together; 0: 20 */
	const char *disk; /* folder for a temporary file, or a large file to read */
	const char *mpi;  /* launcher of MPI: "mpirun -n 2" */
	void (*progress)(void *context, const char *doing, double share); /* may be NULL */
	void *context;
} lk_calibrate_request;

/* A row of fitted numbers: `family` names the model, `subject` the measured thing, `variant` a part
 * of it. */
typedef struct lk_fitted {
	const char *family, *subject, *variant;
	const char *numbers; /* "efficiency=0.74 fill_us=4.2" */
	int points;          /* number of measurements */
	double error;        /* of the fit, exp(mean |ln(predicted / measured)|) - 1; NAN: not stated */
	const char *date, *source;
} lk_fitted;

/* A measured quantity of the machine. */
typedef struct lk_measured {
	const char *group, *name, *unit;
	double value;     /* median of the repetitions */
	double low, high; /* their 10 % and 90 % quantiles; NAN for counts */
	int repeats;
} lk_measured;

/* The fitted numbers or measured quantities. */
typedef struct lk_calibrated {
	const char *kind;
	const lk_fitted *rows; /* of tables */
	int row_count;
	const lk_measured *measured; /* of "host" */
	int measured_count;
	const char *const *notes; /* for "host": what was not measured and why */
	int note_count;
	const char *reproduce;    /* the command */
	const char *failed_check; /* the consistency check that failed; NULL: all passed */
	void *memory_owner;
} lk_calibrated;

/* Set every field to its default. Call it first, then set fields; later versions may add fields. */
void lk_calibrate_defaults(lk_calibrate_request *request);

/* Fit the numbers of a table, or measure the machine. LK_ERR_INPUT: unreadable or inconsistent
 * input, with its place; LK_ERR_IO; LK_ERR_MEMORY. */
lk_status lk_calibrate(const lk_calibrate_request *request, lk_calibrated **out, lk_error *err);
/* Free a calibration and everything it points to; accepts NULL. */
void lk_calibrate_free(lk_calibrated *calibrated);

/* Write the result. For tables: TEXT is a table for people, CSV the form that --calibration reads,
 * JSON the rows. For "host": TEXT and CSV are the quantities, JSON the file that --cluster reads.
 * AUTO is TEXT here. LK_ERR_IO; LK_ERR_MEMORY. */
lk_status lk_calibrate_print(const lk_calibrated *calibrated, int format, bool colour, FILE *out,
                             lk_error *err);
/* lk_calibrate_print to a path, where the file appears when it is complete, or to `out` if path is
 * NULL; AUTO depends on its extension. LK_ERR_INPUT: unknown extension; LK_ERR_IO;
 * LK_ERR_MEMORY. */
lk_status lk_calibrate_save(const lk_calibrated *calibrated, int format, bool colour,
                            const char *path, FILE *out, lk_error *err);

/* The verb's option table, for parsing, help, man page and completion (options.h). */
extern const lk_verb lk_calibrate_verb;

#ifdef __cplusplus
}
#endif
#endif
