/* ops_table.h: a table of measured kernel times: one row is one operation of one shape on one device. Two forms of the
 * table are read, told apart by their columns (docs/METHOD.md, "Tables of kernels"):
 *
 *     gpu,op,m,n,k,dtype,time_ms,n_meas,model                matrix products have k, memory-bound operations do not
 *     op,gpu,...,d0,d1,d2,d3,...,latency_ms                  fp32; products: batch, m, n, k; others: rows, width
 */
#ifndef LK_ACCURACY_OPS_TABLE_H
#define LK_ACCURACY_OPS_TABLE_H

#include "base/arena.h"
#include "io/stream.h"
#include "base/vec.h"
#include "hw/hw.h"

typedef enum lk_op_family {
	LK_FAMILY_GEMM,      /* C[b] = A[b] B[b]: m x k times k x n, b times */
	LK_FAMILY_MEMORY,    /* over m rows of n elements; batch 1, k 0 */
} lk_op_family;

typedef struct lk_op_sample {
	const char *op, *gpu, *where; /* as in the table; "file:line". Equal texts of op and gpu are one pointer */
	const char *model;            /* the network it was profiled for; "" not stated */
	const lk_device *device;      /* of the catalogue; NULL: not known */
	lk_op_family family;
	lk_dtype dtype;
	double batch, m, n, k;        /* whole numbers from 1 */
	double seconds;
	int points;                   /* measurements behind it, 1 where not stated */
} lk_op_sample;

typedef LK_VEC(lk_op_sample) lk_op_samples;

/* Reads all rows; texts are owned by the arena, and the vector is to be freed with lk_vec_free in every case. A value that
 * cannot be read is an error with file, line and column. */
lk_status lk_ops_read(lk_arena *arena, lk_stream *in, lk_op_samples *out, lk_error *err);

#endif
