/* throughput.h: measured training throughput of BERT and of convolution nets, from published tables. */
#ifndef LK_ACCURACY_THROUGHPUT_H
#define LK_ACCURACY_THROUGHPUT_H

#include "base/arena.h"
#include "io/stream.h"
#include "base/vec.h"
#include "hw/hw.h"

/* One row, as far as its table tells. */
typedef struct lk_throughput_run {
	const char *id, *where;
	const char *stack;       /* whose code: "tensorflow", "mlperf bert" */
	const char *model;       /* a preset */
	const char *gpu;         /* as the table has it */
	const lk_device *device; /* NULL: not known */
	lk_dtype dtype;
	const char *precision;   /* "fp32", "tf32", "fp16" */
	int gpus, nodes;         /* nodes 0: not stated */
	int mbs, steps;          /* samples of a GPU at once; times that before an update */
	int seq;                 /* 0: images */
	double logit_share;      /* of the logits, that are computed; 0: all */
	bool host_ahead;         /* the device never waits for the host */
	bool reduces_late;       /* gradients are reduced behind the backward pass */
	bool unfused;            /* attention as separate kernels */
	bool compiled;           /* element-wise work is fused */
	const char *optimizer;   /* NULL: lamb of BERT, sgd of images */
	bool fused_kernels;      /* as of a job */
	bool fused;              /* compiled: element-wise work is fused, steps are replayed from CUDA graphs */
	double seconds;          /* of a step of all GPUs */
	const char *why_not;     /* cannot be predicted, because; NULL */
} lk_throughput_run;
typedef LK_VEC(lk_throughput_run) lk_throughput_runs;

/* Tables of throughput by GPUs (cnn_bert_scaling.csv): framework, model_path, gpu, n_gpu, batch_cols, precision, throughput,
 * extra, section. Texts belong to the arena. */
lk_status lk_throughput_read(lk_arena *arena, lk_stream *in, lk_throughput_runs *out, lk_error *err);

/* The predicted step of a row without why_not, and what it would take at the device's peak. */
lk_status lk_throughput_step(const lk_throughput_run *run, double *seconds, double *ideal, lk_error *err);

#endif
