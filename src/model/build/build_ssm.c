/* build_ssm.c: selective state spaces. Mamba-2 (arXiv 2405.21060) as the chunked kernels of
 * state-spaces/mamba run it, ssd_combined.py: its backward pass recomputes the convolution and the
 * chunks' states (graph/scan.c). Mamba-1 (arXiv
 * 2312.00752) is one elementwise scan between its products: 9DN, backward 18DN and the scan
 * again. */
#include "model/build/build.h"
#include "model/layout/job.h"

/* Widths on this rank. */
struct lk_ssm_width {
	double inner, mixed, in; /* D; input columns of the convolution; columns of the first product */
	double heads, head, state, groups, rank;
	double chunk, chunks; /* tokens of a chunk; chunks of all sequences */
	double length;        /* tokens of a sequence */
};

static struct lk_ssm_width ssm_width(const lk_builder *builder, const lk_layer_shape *shape) {
	const lk_model *model = builder->model;
	struct lk_ssm_width w = {.inner = model->ssm_inner / builder->tp,
	                         .state = model->ssm_state,
	                         .rank = model->ssm_rank,
	                         .length = shape ? shape->keys : builder->tokens};
	if (model->ssm == 1) {
		w.mixed = w.inner;
		w.in = 2 * w.inner;
		return w;
	}
	w.heads = model->ssm_heads / builder->tp;
	w.groups = model->ssm_groups / builder->tp;
	w.head = (double)model->ssm_inner / model->ssm_heads;
	w.mixed = w.inner + 2 * w.groups * w.state;
	w.in = w.inner + w.mixed + w.heads;
	w.chunk = shape && shape->keys < model->ssm_chunk ? shape->keys : model->ssm_chunk;
	w.chunks = builder->tokens / w.chunk;
	return w;
}

/* Mamba-2: the first product's output, the scan's output, the inputs of the norm and of the second
 * product. Outside Megatron-LM norm and second product belong to the scan's call, which keeps only
 * its output. */
static double ssm_saved(const lk_builder *builder, struct lk_ssm_width w) {
	double t = builder->tokens;
	if (builder->model->ssm == 1)
		return builder->bytes * t * (w.in + w.rank + 2 * w.state) +
		       lk_build_kept_bytes(builder, t * w.inner) + 8 * w.inner * w.state * t / 2048;
	double apart = lk_job_like_megatron(builder->job) ? 2 * builder->bytes * t * w.inner : 0;
	return builder->bytes * t * w.in + apart + lk_build_kept_bytes(builder, t * w.inner);
}

static void convolve(lk_builder *builder, struct lk_ssm_width w, bool backward) {
	lk_build_convolution(builder, backward ? "conv1d_grad" : "conv1d", w.mixed, w.length, backward);
}

/* ---- Mamba-2 ---- */

/* Final states of the chunks, fp32, which are passed from chunk to chunk. */
static double state_bytes(struct lk_ssm_width w) {
	return 4 * w.heads * w.head * w.state * w.chunks;
}

/* The scan of one layer: its sequences are whole, with some of the heads under context
 * parallelism. */
static void mamba2_scan(lk_builder *builder, struct lk_ssm_width w, const char *name,
                        bool backward) {
	lk_state_layer layer = {.kernel = LK_STATE_MAMBA_SCAN,
	                        .batch = builder->tokens / w.length,
	                        .length = w.length,
	                        .heads = w.heads,
	                        .key_heads = w.groups,
	                        .key_dim = w.state,
	                        .value_dim = w.head,
	                        .chunk = w.chunk};
	lk_build_scan(builder, name, LK_SCAN_MAMBA2, &layer, backward);
	/* the chunks' states and a copy in 16 bits, and the products of C and B */
	lk_build_scratch(builder, 1.5 * state_bytes(w) + 4 * builder->tokens * w.chunk * w.groups,
	                 LK_OWN_WORKSPACE);
}

static void mamba2_core(lk_builder *builder, struct lk_ssm_width w) {
	convolve(builder, w, false);
	mamba2_scan(builder, w, "chunk_scan", false);
	lk_build_memory(builder, LK_OP_NORM, "gated_norm",
	                3 * builder->bytes * builder->tokens * w.inner);
}

static void mamba2_core_backward(lk_builder *builder, struct lk_ssm_width w) {
	lk_build_memory(builder, LK_OP_NORM, "gated_norm_grad",
	                5 * builder->bytes * builder->tokens * w.inner);
	convolve(builder, w, false);
	mamba2_scan(builder, w, "chunk_scan_grad", true);
	convolve(builder, w, true);
}

/* ---- Mamba-1 ---- */

static void scan(lk_builder *builder, struct lk_ssm_width w, bool backward) {
	double t = builder->tokens, columns = w.inner * (backward ? 8 : 4) + 2 * w.state;
	lk_build_token_memory(builder, LK_OP_ELEMENTWISE, backward ? "scan_grad" : "scan", columns);
	lk_ops *ops = &builder->graph->ops;
	if (ops->count) ops->flops[ops->count - 1] = t * (backward ? 27 : 9) * w.inner * w.state;
}

static void mamba1_core(lk_builder *builder, struct lk_ssm_width w) {
	double t = builder->tokens, small = w.rank + 2 * w.state;
	convolve(builder, w, false);
	lk_build_gemm(builder, "x_proj", t, small, w.inner);
	if (builder->tp > 1)
		lk_build_collective(builder, LK_OP_ALLREDUCE, LK_STREAM_TP, LK_GROUP_TP, "reduce_x_proj",
		                    builder->bytes * t * small, false);
	if (builder->model->ssm_norm)
		lk_build_memory(builder, LK_OP_NORM, "x_norm", 2 * builder->bytes * t * small);
	lk_build_gemm(builder, "dt_proj", t, w.inner, w.rank);
	scan(builder, w, false);
}

static void mamba1_core_backward(lk_builder *builder, struct lk_ssm_width w, bool input,
                                 bool weight) {
	double t = builder->tokens, small = w.rank + 2 * w.state;
	if (input) {
		/* the convolution and the step sizes are recomputed */
		convolve(builder, w, false);
		lk_build_gemm(builder, "dt_proj", t, w.inner, w.rank);
		scan(builder, w, true);
	}
	lk_build_row_backward(builder, "dt_proj_grad", w.inner, w.rank, input, weight);
	if (input && builder->model->ssm_norm)
		lk_build_memory(builder, LK_OP_NORM, "x_norm_grad", 3 * builder->bytes * t * small);
	if (input && builder->tp > 1)
		lk_build_collective(builder, LK_OP_ALLREDUCE, LK_STREAM_TP, LK_GROUP_TP,
		                    "reduce_x_proj_grad", builder->bytes * t * small, false);
	lk_build_row_backward(builder, "x_proj_grad", small, w.inner, input, weight);
	if (input) convolve(builder, w, true);
}

/* ---- both ---- */

void lk_build_ssm_forward(lk_builder *builder, const lk_layer_shape *shape) {
	struct lk_ssm_width w = ssm_width(builder, shape);
	double t = builder->tokens, h = builder->model->hidden;
	lk_build_gemm(builder, "in_proj", t, w.in, h);
	lk_build_cp_heads(builder, "exchange_scan_input", w.in);
	if (builder->model->ssm == 1) mamba1_core(builder, w);
	else mamba2_core(builder, w);
	lk_build_save(builder, ssm_saved(builder, w), LK_OWN_ACTIVATIONS);
	lk_build_cp_heads(builder, "exchange_scan_output", w.inner);
	lk_build_quantize(builder, t * w.inner);
	lk_build_gemm(builder, "scan_out_proj", t, h, w.inner);
}

/* The second product's input and the gradients after both. */
double lk_build_ssm_between(const lk_builder *builder) {
	struct lk_ssm_width w = ssm_width(builder, NULL);
	double inner = builder->model->ssm == 1 ? 3 * w.inner + 2 * (w.rank + 2 * w.state) : w.inner;
	return lk_build_kept_bytes(builder, builder->tokens * (inner + w.in));
}

void lk_build_ssm_backward(lk_builder *builder, const lk_layer_shape *shape, bool input,
                           bool weight) {
	struct lk_ssm_width w = ssm_width(builder, shape);
	double h = builder->model->hidden;
	lk_build_row_backward(builder, "scan_out_proj_grad", h, w.inner, input, weight);
	if (input) lk_build_cp_heads(builder, "exchange_scan_output_grad", w.inner);
	if (builder->model->ssm == 1) mamba1_core_backward(builder, w, input, weight);
	else if (input) mamba2_core_backward(builder, w);
	if (input) {
		lk_build_release(builder, ssm_saved(builder, w), LK_OWN_ACTIVATIONS);
		lk_build_cp_heads(builder, "exchange_scan_input_grad", w.in);
	}
	lk_build_column_backward(builder, "in_proj_grad", w.in, h, input, weight);
}
