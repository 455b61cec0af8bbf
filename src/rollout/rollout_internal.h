/* rollout_internal.h: shared by the files of an engine. */
#ifndef LK_ROLLOUT_INTERNAL_H
#define LK_ROLLOUT_INTERNAL_H

#include "rollout/rollout.h"

/* Key-value heads on a GPU; bytes that one layer caches per token there. */
double lk_engine_kv_heads(const lk_engine *engine);
double lk_engine_token_bytes(const lk_engine *engine);
/* Of them, those of an indexer: its key in 8 bits with a scale. */
double lk_engine_index_bytes(const lk_engine *engine);
/* GPUs that split a layer's matrices except experts: 1 if each attends to its own sequences. */
double lk_engine_split(const lk_engine *engine);

/* A product with a weight: of up to LK_LAW_FEW_ROWS rows, of more. */
typedef struct lk_decode_product {
	lk_law_format format;
	lk_kernel_law few, many;
} lk_decode_product;

/* Kernels of an iteration (kernels.c). */
typedef struct lk_decode_kernels {
	const lk_device *device;
	lk_decode_product inside, wide; /* in the layers' format; in 16 bits */
	lk_law_format expert_format;
	lk_kernel_law experts, quick; /* of a network with experts; the kernel for few rows */
	lk_kernel_law absorb[2];      /* products into and out of a latent space */
	lk_decode_cache cache;
	double reduce_start_s; /* the engines' own all-reduce */
	double reduce_again_s; /* its second step */
	double reduce_rate;    /* bytes/s; 0: it cannot run */
} lk_decode_kernels;
lk_decode_kernels lk_decode_kernels_of(const lk_engine *engine);
/* Seconds of a product of m rows with a weight. */
double lk_decode_product_s(const lk_decode_kernels *kernels, const lk_decode_product *product,
                           double m, double n, double k);
/* Seconds of both products that absorb the latent space. */
double lk_decode_absorb_s(const lk_decode_kernels *kernels, double rows);
/* Seconds of a GPU's experts of one layer, of `rows` on all GPUs that hold the layer. */
double lk_decode_experts_s(const lk_decode_kernels *kernels, const lk_engine *engine, double rows);
/* Seconds of an all-reduce of few bytes; INFINITY where it cannot run. */
double lk_decode_allreduce_s(const lk_decode_kernels *kernels, const lk_group_shape *group,
                             double bytes);
/* Seconds of an all-to-all in which each GPU sends `bytes`; INFINITY likewise. */
double lk_decode_alltoall_s(const lk_decode_kernels *kernels, const lk_group_shape *group,
                            double bytes);
/* Seconds in one layer of attention of sequences with `keys` cached tokens each, and of one step of
 * a recurrence with `state` elements a sequence. */
double lk_decode_attention_s(const lk_decode_cache *cache, double sequences, double keys,
                             double window);
double lk_decode_state_s(const lk_decode_cache *cache, double sequences, double state);

/* Bytes per element of a recurrence's state. */
extern const double LK_STATE_BYTES;
/* Bytes per element in MXFP4. */
extern const double lk_engine_mxfp4_bytes;

#endif
