/* detail.h: data for pictures of a prediction, in addition to its numbers. Computed if
 * lk_predict_request.detail or .html is set; owned by the prediction. Seconds, bytes, FLOP/s. */
#ifndef LOCKSTEP_DETAIL_H
#define LOCKSTEP_DETAIL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The activity in a span of the pipeline. */
typedef enum lk_span_kind {
	LK_SPAN_FORWARD,
	LK_SPAN_BACKWARD,
	LK_SPAN_WEIGHT, /* separate backward pass of the weights, if a schedule splits it */
	LK_SPAN_RECOMPUTE,
	LK_SPAN_OPTIMIZER,
	LK_SPAN_OTHER,
	LK_SPAN_COMM, /* data-parallel traffic, on a separate row */
	LK_SPANS,
} lk_span_kind;
extern const char *const lk_span_kinds[LK_SPANS + 1]; /* "forward", ... */

/* A pass of one micro-batch through one chunk of a stage, on the first rank of the stage. */
typedef struct lk_detail_span {
	int32_t stage, microbatch, chunk; /* microbatch -1: none */
	int32_t kind;                     /* lk_span_kind */
	double start_s, end_s;
} lk_detail_span;

/* Exposed seconds of a stage by part; the parts add up to the step. */
typedef struct lk_stage_time {
	int stage;
	double exposed_s[16], hidden_s[16]; /* by lk_prediction_detail.parts */
} lk_stage_time;

/* A kernel of the step: operations of equal name and shape, per rank (mean over the stages). */
typedef struct lk_detail_kernel {
	const char *name, *family; /* "qkv_proj", "gemm" */
	double count, seconds;     /* per step; of all together */
	double flops, bytes;       /* of each */
	double each_s;             /* when running alone on the device */
} lk_detail_kernel;

/* Messages of one kind, group and size. */
typedef struct lk_detail_message {
	const char *name, *kind, *group; /* "grad_reduce", "reduce_scatter", "dp" */
	int ranks;
	double bytes, seconds, busbw; /* of each, running alone; busbw as defined by nccl-tests */
	double count;                 /* per step of a rank, mean over the stages */
} lk_detail_message;

/* The model's curve of a kind of collective in a group, by size. */
typedef struct lk_detail_curve {
	const char *kind, *group;
	int ranks, count;
	const double *bytes, *busbw;
} lk_detail_curve;

/* Effect on the step of a rate that is 10 % lower or higher. */
typedef struct lk_detail_sensitivity {
	const char *cost; /* "compute", "memory bandwidth", "network", "links inside a node" */
	double factor, step_time_s; /* of the rate: 0.9, 1.1 */
} lk_detail_sensitivity;

/* How a stage's memory is computed: formulas with their numbers, "" if there is none. */
typedef struct lk_stage_formulas {
	const char *weights, *gradients, *optimizer, *activations, *logits, *workspace, *buffers,
		*unused, *context, *nccl;
} lk_stage_formulas;

/* A class of measured runs and its 80 % interval of measured / predicted. */
typedef struct lk_range_class_row {
	const char *name;
	int runs;
	double low, high;
	int own; /* whether this prediction's range is based on it */
} lk_range_class_row;

/* Data for pictures of a prediction; requested with lk_predict_request.detail. */
typedef struct lk_prediction_detail {
	const lk_detail_span *spans; /* by stage, then start */
	size_t span_count;
	const char *const *parts; /* labels of lk_stage_time's columns */
	const char *const *part_keys;
	int part_count;
	const lk_stage_time *stages;
	int stage_count;
	const lk_detail_kernel *kernels; /* by seconds, descending */
	int kernel_count;
	double peak_flops, memory_rate; /* of the first kind of device: the roof */
	const lk_detail_message *messages;
	int message_count;
	const lk_detail_curve *curves;
	int curve_count;
	const lk_detail_sensitivity *sensitivity;
	int sensitivity_count;
	const lk_stage_formulas *formulas; /* [memory_count]; NULL: none */
	const lk_range_class_row *ranges;
	int range_count;
} lk_prediction_detail;

#ifdef __cplusplus
}
#endif
#endif
