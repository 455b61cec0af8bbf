/* rollout_internal.h: shared by the files of an engine. */
#ifndef LK_ROLLOUT_INTERNAL_H
#define LK_ROLLOUT_INTERNAL_H

#include "cost/kernel/kernel.h"
#include "cost/kernel/laws.h"
#include "rollout/rollout.h"

/* Key-value heads on a GPU; bytes that one layer caches per token there. */
double lk_engine_kv_heads(const lk_engine *engine);
double lk_engine_token_bytes(const lk_engine *engine);
/* GPUs that split a layer's matrices except experts: 1 if each attends to its own sequences. */
double lk_engine_split(const lk_engine *engine);

/* Kernels of an iteration that decodes, alone in a CUDA graph (kernels.c). */
typedef struct lk_decode_kernels {
	const lk_device *device;
	/* products with a weight, by lk_product_of: of up to LK_LAW_FEW_ROWS rows, of more */
	lk_gemm_numbers few[LK_PRODUCTS], many[LK_PRODUCTS];
	lk_law_fit whole[LK_PRODUCTS];              /* of few rows, with what converts them */
	const lk_law_format *converts[LK_PRODUCTS]; /* its format; NULL: a pass converts */
	double state_start_s;                       /* a recurrence's kernels */
	double attention_start_s, cache_memory; /* attention over the cache: share of the bandwidth */
	double expert_start_s, expert_memory;   /* a layer's experts in one call: likewise */
	double expert_more_s;    /* added to its start with many rows, half of it at 512 */
	double expert_row_bytes; /* moved per element of a routed row, at the whole bandwidth */
	double reduce_start_s;   /* the engines' own all-reduce */
	double reduce_again_s;   /* its second step */
	double reduce_rate;      /* bytes/s; 0: it cannot run */
} lk_decode_kernels;
lk_decode_kernels lk_decode_kernels_of(const lk_engine *engine);
/* Seconds of a product of m rows with a weight. */
double lk_decode_product(const lk_decode_kernels *kernels, lk_dtype dtype, double m, double n,
                         double k);
/* Seconds of an all-reduce of few bytes; INFINITY where it cannot run. */
double lk_decode_allreduce(const lk_decode_kernels *kernels, const lk_group_shape *group,
                           double bytes);

/* Bytes per element of a recurrence's state. */
extern const double LK_STATE_BYTES;
/* Bytes per element in MXFP4. */
extern const double lk_engine_mxfp4_bytes;

#endif
