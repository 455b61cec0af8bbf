/* nccl_log.h: what nccl-tests print (NVIDIA/nccl-tests@a0b82b2), as text or as JSON (-J), read as measurements. */
#ifndef LK_ACCURACY_NCCL_LOG_H
#define LK_ACCURACY_NCCL_LOG_H

#include "io/stream.h"
#include "base/vec.h"
#include "cost/collective/collective.h"

typedef struct lk_nccl_point {
	double bytes;
	double us, in_place_us; /* mean over equal sizes of a run; NAN not measured */
	double busbw;           /* GB/s, of the time that counts; NAN */
	int runs;               /* lines that the means are over */
} lk_nccl_point;

/* One run of one test. */
typedef struct lk_nccl_run {
	lk_coll_kind kind;
	bool kind_known;       /* the log names the test, or its rates tell it */
	int gpus, nodes;       /* 0: not stated */
	const char *device;    /* "NVIDIA A100-SXM4-40GB"; "" not stated */
	const char *where;     /* "file:line" of its first row */
	lk_nccl_point *points; /* by size */
	int count;
} lk_nccl_run;

typedef LK_VEC(lk_nccl_run) lk_nccl_runs;

/* Reads all runs of a log; what they hold is owned by the arena, the vector is to be freed with lk_vec_free in every
 * case. Lines that are no rows of a table are passed over; a text without any row is an error. */
lk_status lk_nccl_log_read(lk_arena *arena, lk_stream *in, lk_nccl_runs *out, lk_error *err);

/* The time that counts: out of place where there is one. */
double lk_nccl_point_us(const lk_nccl_point *point);

/* The whole of a stream, owned by the arena, '\0' behind it. */
lk_status lk_nccl_log_text(lk_arena *arena, lk_stream *in, char **text, size_t *size, lk_error *err);

#endif
