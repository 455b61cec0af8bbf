/* calibration.h: numbers fitted to measurements, with their source. Rows of the CSV files in
 * data/calibration, compiled in; `--calibration FILE` adds rows of the same form, which override
 * them.
 *
 *     family,subject,variant,numbers,points,error,date,source
 *     gemm,a100-sxm-80,fp16,efficiency=0.74 fill_us=4.2,8120,0.049,2026-11-21,"microsoft/vidur ..."
 *
 * `family` names the model (gemm, memory, collective, overlap, stack, range, ...), `subject` the
 * measured thing (device, fabric, software stack), `variant` a part of it (precision, operation,
 * release; "" all). */
#ifndef LK_COST_CALIBRATION_H
#define LK_COST_CALIBRATION_H

#include <stdint.h>
#include <stdio.h>
#include "base/arena.h"
#include "io/stream.h"
#include "base/vec.h"

enum {
	LK_CALIBRATION_NUMBERS = 64 /* most numbers of a row */
};

typedef struct lk_calibration_number {
	const char *name;
	double value;
} lk_calibration_number;

typedef struct lk_calibration_row {
	const char *family, *subject, *variant;
	lk_calibration_number *numbers;
	int count;
	const char *text; /* family "trees": the text in place of numbers (base/trees.h); else NULL */
	int points;       /* number of measurements */
	double error;     /* of the fit, exp(mean |ln(p/m)|) - 1; NAN: not stated */
	const char *date, *source;
	const char *where;   /* "file:line" */
	uint32_t key, older; /* the index: hash of the first three; the row before it in its bucket,
	                        counted from 1, 0: none */
} lk_calibration_row;

typedef struct lk_calibration {
	LK_VEC(lk_calibration_row) rows; /* later rows have precedence */
	LK_VEC(uint32_t)
	buckets; /* the last row of each, counted from 1; their number is a power of
	          * two */
	lk_arena arena;
} lk_calibration;

/* Append the rows of a file to `into`. Errors name file and line. */
lk_status lk_calibration_read(lk_stream *in, lk_calibration *into, lk_error *err);
/* Check that the row's number `index` belongs to its family and that a model can use it.
 * calibration_limits.c. */
lk_status lk_calibration_check(const lk_calibration_row *row, int index, lk_error *err);
/* Refuse a family that no model uses; `where` is the place of its row. */
lk_status lk_calibration_check_family(const char *family, const char *where, lk_error *err);
void lk_calibration_free(lk_calibration *calibration);
/* Append a row whose texts stay valid or are owned by calibration->arena. NULL when memory runs
 * out. It is found by the texts given here, even if they change afterwards. */
lk_calibration_row *lk_calibration_add(lk_calibration *into, const char *family,
                                       const char *subject, const char *variant);
void lk_calibration_put(lk_calibration_row *row, const char *name, double value);
/* Write rows in the form above, header line first. */
void lk_calibration_write(const lk_calibration *calibration, FILE *out);

/* The rows in use: the compiled-in ones, overridden by those of the request's file. Every question
 * calls lk_calibration_ready first: models read the rows where no error can be reported, and would
 * answer differently without them. LK_ERR_MEMORY only. */
lk_status lk_calibration_ready(lk_error *err);
const lk_calibration *lk_calibration_current(void);

/* The calibration of one request. From begin to leave, lk_calibration_current has the rows of the
 * file (NULL: those of the enclosing request) on this thread and on those that lk_parallel starts.
 * What was derived from them lives until the release, since answers point to it. A nested request
 * with the same file shares its rows. Begin fails with LK_ERR_INPUT, LK_ERR_IO, LK_ERR_MEMORY, and
 * then there is nothing to leave; release accepts a hold of zeros. */
typedef struct lk_calibration_hold {
	struct lk_laid_calibration *laid, *before;
} lk_calibration_hold;
lk_status lk_calibration_begin(lk_calibration_hold *hold, const char *path, lk_error *err);
void lk_calibration_leave(lk_calibration_hold *hold);
void lk_calibration_release(lk_calibration_hold *hold);
/* Leave and release. */
void lk_calibration_end(lk_calibration_hold *hold);

/* What models derive from the current rows: made at first use, kept with them. */
typedef enum lk_calibration_part {
	LK_CALIBRATION_GEMM,
	LK_CALIBRATION_FABRIC,
	LK_CALIBRATION_LAWS,
	LK_CALIBRATION_KERNELS,
	LK_CALIBRATION_LEARNED,
	LK_CALIBRATION_PARTS
} lk_calibration_part;
typedef lk_status lk_calibration_maker(const lk_calibration *rows, lk_arena *arena,
                                       const void **out, lk_error *err);
lk_status lk_calibration_made(lk_calibration_part part, lk_calibration_maker *make,
                              const void **out, lk_error *err);

/* The row of a family, subject and variant (compared as in lk_same_name), or NULL; by hash. */
const lk_calibration_row *lk_calibration_find(const lk_calibration *calibration, const char *family,
                                              const char *subject, const char *variant);
/* A number of a row; `otherwise` if the row is NULL or lacks it. */
double lk_calibration_value(const lk_calibration_row *row, const char *name, double otherwise);

#endif
