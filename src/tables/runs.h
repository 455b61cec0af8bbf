/* runs.h: a table of measured training runs, read as jobs on clusters. The columns are those of docs/METHOD.md,
 * "Tables of runs": shape of the network, hardware, layout, numbers, software, measured step time. */
#ifndef LK_ACCURACY_RUNS_H
#define LK_ACCURACY_RUNS_H

#include "io/stream.h"
#include "base/vec.h"
#include "cost/cost.h"
#include "model/layout/job.h"

typedef struct lk_run {
	const char *id, *where;     /* as in the table, or its line; "file:line" */
	const char *model, *gpu, *stack, *release; /* as in the table */
	const char *suspect;        /* why it is not to be scored; "" */
	const char *note;           /* what of the row was not used; "" */
	const char *refused;        /* why it cannot be predicted; "" */
	double measured_s;          /* NAN: not stated */
	lk_job job;                 /* completed, unless refused */
	lk_cluster cluster;
} lk_run;

typedef LK_VEC(lk_run) lk_runs;

/* Reads all rows; texts are owned by the arena, and the vector is to be freed with lk_vec_free in every case. A value
 * that cannot be read is an error with file, line and column; a row whose job cannot be, or that lacks what no
 * default can supply, is kept with `refused` set. */
lk_status lk_runs_read(lk_arena *arena, lk_stream *in, lk_runs *out, lk_error *err);

/* "tp4 pp8 vp5 dp2 mbs1 zero1 sp", what a rank comparison varies; NULL when memory is out. */
const char *lk_run_layout(lk_arena *arena, const lk_run *run);

/* The scaling series of a run: what stays the same while GPUs are added, data-parallel ranks with them. Network, task,
 * sequence, GPU and its network, stack and release, number format, all degrees but data parallelism, micro-batch,
 * sharding, recomputation, attention kernel. The batch may grow or stay: speed is per token. NULL when memory is out. */
const char *lk_run_series(lk_arena *arena, const lk_run *run);

/* The step time of a run that is not refused, with these constants; NULL: those of its stack in the calibration in use.
 * A job that cannot be built is an error, and *seconds NAN. */
lk_status lk_run_predict(const lk_run *run, const lk_constants *constants, double *seconds, lk_error *err);
/* The architecture of its first node. */
lk_arch lk_run_arch(const lk_run *run);

#endif
