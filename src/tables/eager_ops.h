/* eager_ops.h: the kernels that a network launches when a framework runs it operator by operator: matrix products, and
 * memory-bound operations between them, as the Hugging Face implementations issue them in fp32. */
#ifndef LK_ACCURACY_EAGER_OPS_H
#define LK_ACCURACY_EAGER_OPS_H

#include "base/vec.h"
#include "cost/kernel/memory_model.h"
#include "model/network/model.h"

/* One kernel, launched `count` times. */
typedef struct lk_eager_op {
	double count;
	bool backward;
	bool whole;                     /* not split over tensor-parallel ranks: all tokens, all of hidden */
	bool product;
	double batch, m, n, k;          /* of a product */
	const lk_memory_kernel *kernel; /* else */
	double rows, width, bytes;
} lk_eager_op;
typedef LK_VEC(lk_eager_op) lk_eager_ops;

/* How it is run. */
typedef struct lk_eager_run {
	double batch, seq;
	bool train;    /* forward that keeps what backward needs, and backward; no optimizer */
	bool compiled; /* operations between products fused */
} lk_eager_run;

/* Families gpt2, opt, bert and switch_transformers; false for others. */
bool lk_eager_known(const lk_model *model);

/* Appends the kernels. */
lk_status lk_eager_list(const lk_model *model, const lk_eager_run *run, lk_eager_ops *out, lk_error *err);

/* What is on the device at the end of a training forward. */
typedef struct lk_eager_kept {
	double bytes;    /* weights, gradients, what backward needs */
	double fetches;  /* requests to the driver for it, when the allocator begins with nothing */
} lk_eager_kept;
lk_eager_kept lk_eager_keeps(const lk_model *model, const lk_eager_run *run);

/* Switch Transformer shapes that are measured and no preset: an encoder and a decoder, every second MLP of experts. */
bool lk_eager_switch(const char *name, lk_model *out);

#endif
