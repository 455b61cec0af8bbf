/* build_rwkv.c: RWKV-4 (arXiv 2305.13048), both halves of a layer as the transformers library and
 * the authors' CUDA kernel run them. Hidden size h, time mix of width A:
 *
 *     time mix     three mixes of each token with the one before; keys, values, receptance; the
 *                  recurrence, 10 A operations a token; backward 30 A, an assumption: its states
 *                  again, and twice the forward pass; its output times the sigmoid of the
 *                  receptance; the output product
 *     channel mix  two mixes; the MLP of one, times the sigmoid of a product [h, h] of the other
 *
 * No split over tensor- or context-parallel ranks: the job refuses both. */
#include "model/build/build.h"
#include "model/layout/job.h"

static void rwkv_memory(lk_builder *builder, const char *name, double columns) {
	lk_build_memory(builder, LK_OP_ELEMENTWISE, name, builder->bytes * builder->tokens * columns);
}

/* The token before is copied; `inputs` mixes read both. */
static void mix(lk_builder *builder, double inputs) {
	double h = builder->model->hidden;
	rwkv_memory(builder, "token_shift", 2 * h);
	rwkv_memory(builder, "token_mix", (2 + inputs) * h);
	lk_build_quantize(builder, builder->tokens * inputs * h);
}

/* The gradients of the mixes and both tokens make the gradient of the input and of the shares. */
static void mix_backward(lk_builder *builder, double inputs) {
	double h = builder->model->hidden;
	rwkv_memory(builder, "token_mix_grad", (inputs + 4) * h);
	rwkv_memory(builder, "token_shift_grad", 3 * h);
}

/* ---- time mix ---- */

static void wkv(lk_builder *builder, bool backward) {
	double a = builder->model->rwkv_inner;
	rwkv_memory(builder, backward ? "wkv_grad" : "wkv", (backward ? 6 : 3) * a);
	lk_ops *ops = &builder->graph->ops;
	if (ops->count) ops->flops[ops->count - 1] = builder->tokens * (backward ? 30 : 10) * a;
}

/* The tokens before; the inputs of the products; keys, values, receptance, the recurrence. */
static double time_saved(const lk_builder *builder) {
	double h = builder->model->hidden, a = builder->model->rwkv_inner, t = builder->tokens;
	return builder->bytes * t * (h + 4 * a) + lk_build_kept_bytes(builder, t * (3 * h + a));
}

void lk_build_rwkv_forward(lk_builder *builder, const lk_layer_shape *shape) {
	(void)shape;
	double h = builder->model->hidden, a = builder->model->rwkv_inner, t = builder->tokens;
	mix(builder, 3);
	lk_build_gemm(builder, "key_proj", t, a, h);
	lk_build_gemm(builder, "value_proj", t, a, h);
	lk_build_gemm(builder, "receptance_proj", t, a, h);
	wkv(builder, false);
	rwkv_memory(builder, "receptance_gate", 5 * a);
	lk_build_save(builder, time_saved(builder), LK_OWN_ACTIVATIONS);
	lk_build_quantize(builder, t * a);
	lk_build_gemm(builder, "rwkv_out_proj", t, h, a);
}

/* The inputs of all products and the gradients after the first three. */
double lk_build_rwkv_between(const lk_builder *builder) {
	double h = builder->model->hidden, a = builder->model->rwkv_inner;
	return lk_build_kept_bytes(builder, builder->tokens * (3 * h + a + 3 * a));
}

void lk_build_rwkv_backward(lk_builder *builder, const lk_layer_shape *shape, bool input,
                            bool weight) {
	(void)shape;
	double h = builder->model->hidden, a = builder->model->rwkv_inner;
	lk_build_row_backward(builder, "rwkv_out_proj_grad", h, a, input, weight);
	if (input) {
		rwkv_memory(builder, "receptance_gate_grad", 5 * a);
		wkv(builder, true);
	}
	lk_build_column_backward(builder, "receptance_proj_grad", a, h, input, weight);
	lk_build_column_backward(builder, "value_proj_grad", a, h, input, weight);
	lk_build_column_backward(builder, "key_proj_grad", a, h, input, weight);
	if (!input) return;
	mix_backward(builder, 3);
	lk_build_release(builder, time_saved(builder), LK_OWN_ACTIVATIONS);
}

/* ---- channel mix ---- */

/* The tokens before, the receptance and what it multiplies. */
static double channel_saved(const lk_builder *builder) {
	return 3 * builder->bytes * builder->tokens * builder->model->hidden;
}

/* `count` mixes, or gradients, that products of weight gradients read. */
static double channel_operands(const lk_builder *builder, double count) {
	return builder->train_base
	           ? lk_build_kept_bytes(builder, builder->tokens * count * builder->model->hidden)
	           : 0;
}

void lk_build_channel_mix(lk_builder *builder) {
	double h = builder->model->hidden;
	mix(builder, 2);
	lk_build_gemm(builder, "channel_receptance", builder->tokens, h, h);
	lk_build_save(builder, channel_saved(builder) + channel_operands(builder, 2),
	              LK_OWN_ACTIVATIONS);
}

void lk_build_channel_gate(lk_builder *builder, bool forward) {
	rwkv_memory(builder, forward ? "channel_gate" : "channel_gate_grad",
	            5.0 * builder->model->hidden);
}

void lk_build_channel_mix_backward(lk_builder *builder, bool input, bool weight) {
	double h = builder->model->hidden;
	lk_build_column_backward(builder, "channel_receptance_grad", h, h, input, weight);
	if (input) {
		mix_backward(builder, 2);
		lk_build_release(builder, channel_saved(builder), LK_OWN_ACTIVATIONS);
	}
	/* a split backward keeps the mixes and the receptance's gradient for its second pass */
	if (input && !weight) lk_build_save(builder, channel_operands(builder, 1), LK_OWN_ACTIVATIONS);
	if (weight)
		lk_build_release(builder, channel_operands(builder, input ? 2 : 3), LK_OWN_ACTIVATIONS);
}
