/* memory_table.h: a table of measured memory: launch flags of Megatron-LM as columns, allocated and peak bytes of the
 * last pipeline stage. Each row becomes a job through the same readers as a pasted launch line. */
#ifndef LK_ACCURACY_MEMORY_TABLE_H
#define LK_ACCURACY_MEMORY_TABLE_H

#include "io/stream.h"
#include "base/vec.h"
#include "model/layout/job.h"

typedef struct lk_memory_run {
	const char *where;          /* "file:line" */
	const char *model, *test, *env; /* as in the table */
	const char *gpu, *class;    /* device; one of lk_memory_classes */
	const char *refused;        /* why it cannot be predicted; "" */
	const char *suspect;        /* why it is not to be scored; "" */
	const char *note;           /* what was assumed; "" */
	double steady, peak;        /* bytes that torch had allocated behind a step, and at most; NAN not stated */
	lk_job job;                 /* completed, unless refused */
	lk_cluster cluster;
} lk_memory_run;

typedef LK_VEC(lk_memory_run) lk_memory_runs;

/* Peak of the last stage, bytes: score_memory.c. Fails on jobs that cannot be built. */
lk_status lk_memory_predict(const lk_memory_run *run, double *bytes, lk_error *err);

/* Reads all rows; texts are owned by the arena, and the vector is to be freed with lk_vec_free in every case. */
lk_status lk_memory_read(lk_arena *arena, lk_stream *in, lk_memory_runs *out, lk_error *err);

/* memory_flags.c: flags that the table has no column for, by the test's name, as one text; NULL when memory is out. */
const char *lk_memory_flags(lk_arena *arena, const char *model, const char *test);

/* memory_baseline.c: the closed form of docs/METHOD.md, bytes at the peak of the last stage. */
double lk_memory_closed_form(const lk_job *job);

#endif
