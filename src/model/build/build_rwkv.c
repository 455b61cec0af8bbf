/* build_rwkv.c: RWKV (model/network/mixer_rwkv.c states the versions), both halves of a layer;
 * version 4 (arXiv 2305.13048) as in the transformers library and the authors' CUDA kernel. Hidden
 * size h, time mix of width A:
 *
 *     time mix     three mixes of each token with the one before; keys, values, receptance; the
 *                  recurrence, 10 A operations a token; backward 30 A, an assumption: its states
 *                  again, and twice the forward pass; its output times the sigmoid of the
 *                  receptance; the output product
 *     channel mix  two mixes; the MLP of one, times the sigmoid of a product [h, h] of the other
 *
 * No split over tensor- or context-parallel ranks: the job refuses both. */
#include "model/build/build.h"

static void rwkv_memory(lk_builder *builder, const char *name, double columns) {
	lk_build_memory(builder, LK_OP_ELEMENTWISE, name, builder->bytes * builder->tokens * columns);
}

/* Copy the token before; `inputs` mixes read both. */
static void mix(lk_builder *builder, double inputs) {
	double h = builder->model->hidden;
	rwkv_memory(builder, "token_shift", 2 * h);
	rwkv_memory(builder, "token_mix", (2 + inputs) * h);
	lk_build_quantize(builder, builder->tokens * inputs * h);
}

/* The mixes' gradients and both tokens give the gradients of the input and of the shares. */
static void mix_backward(lk_builder *builder, double inputs) {
	double h = builder->model->hidden;
	rwkv_memory(builder, "token_mix_grad", (inputs + 4) * h);
	rwkv_memory(builder, "token_shift_grad", 3 * h);
}

/* ---- time mix ---- */

/* From version 5 on, chunked like linear attention: all pairs within a chunk, S x S states per head
 * between chunks; version 7 does both twice, for what it removes (fla's chunk kernels). */
static void chunked_wkv(lk_builder *builder, const lk_layer_shape *shape, bool backward) {
	enum { CHUNK = 64 };
	const lk_model *model = builder->model;
	double s = model->rwkv_head, heads = model->rwkv_inner / s,
		   chunk = shape->keys < CHUNK ? shape->keys : CHUNK,
		   blocks = builder->tokens / chunk * heads;
	double times = model->rwkv == 7 ? 2 : 1;
	if (backward) times *= 2.5;
	lk_build_core_gemm(builder, backward ? "wkv_chunk_grad" : "wkv_chunk", chunk, chunk / 2,
	                   2 * s * times, blocks);
	lk_build_core_gemm(builder, backward ? "wkv_states_grad" : "wkv_states", chunk, s,
	                   2 * s * times, blocks);
	if (backward) rwkv_memory(builder, "wkv_norm_grad", 5 * model->rwkv_inner);
	else rwkv_memory(builder, "wkv_norm", 3 * model->rwkv_inner);
}

static void wkv(lk_builder *builder, const lk_layer_shape *shape, bool backward) {
	double a = builder->model->rwkv_inner;
	if (builder->model->rwkv >= 5) {
		chunked_wkv(builder, shape, backward);
		return;
	}
	if (backward) rwkv_memory(builder, "wkv_grad", 6 * a);
	else rwkv_memory(builder, "wkv", 3 * a);
	lk_ops *ops = &builder->graph->ops;
	if (ops->count) ops->flops[ops->count - 1] = builder->tokens * (backward ? 30 : 10) * a;
}

/* Low-rank products: into each mix, into decay and others. */
static void rwkv_low_ranks(lk_builder *builder) {
	const lk_model *model = builder->model;
	double h = model->hidden, a = model->rwkv_inner, t = builder->tokens;
	if (model->rwkv == 6) {
		lk_build_gemm(builder, "mix_down", t, 5.0 * model->rwkv_ranks[0], h);
		lk_build_gemm_batch(builder, "mix_up", t, h, model->rwkv_ranks[0], 5);
	}
	for (int i = model->rwkv == 6; i < 4 && model->rwkv >= 6; i++) {
		if (model->rwkv_ranks[i] == 0) continue;
		lk_build_gemm(builder, "rank_down", t, model->rwkv_ranks[i], h);
		lk_build_gemm(builder, "rank_up", t, a, model->rwkv_ranks[i]);
		rwkv_memory(builder, "rank_activation", 3 * a);
	}
}

static void rwkv_low_ranks_backward(lk_builder *builder, bool input, bool weight) {
	const lk_model *model = builder->model;
	double h = model->hidden, a = model->rwkv_inner, t = builder->tokens;
	for (int i = model->rwkv == 6; i < 4 && model->rwkv >= 6; i++) {
		if (model->rwkv_ranks[i] == 0) continue;
		if (input) rwkv_memory(builder, "rank_activation_grad", 3 * a);
		lk_build_row_backward(builder, "rank_up_grad", a, model->rwkv_ranks[i], input, weight);
		lk_build_row_backward(builder, "rank_down_grad", model->rwkv_ranks[i], h, input, weight);
	}
	if (model->rwkv != 6) return;
	if (input) lk_build_gemm_batch(builder, "mix_up_grad", t, model->rwkv_ranks[0], h, 5);
	if (weight) lk_build_gemm_batch(builder, "weight_grad", h, model->rwkv_ranks[0], t, 5);
	lk_build_row_backward(builder, "mix_down_grad", 5.0 * model->rwkv_ranks[0], h, input, weight);
}

static double rank_columns(const lk_model *model) {
	double sum = model->rwkv == 6 ? 5.0 * model->rwkv_ranks[0] : 0;
	for (int i = model->rwkv == 6; i < 4 && model->rwkv >= 6; i++)
		sum += model->rwkv_ranks[i] + (model->rwkv_ranks[i] > 0 ? model->rwkv_inner : 0);
	return sum;
}

/* The tokens before; the products' inputs and outputs, low-rank ones included; the recurrence. */
static double time_saved(const lk_builder *builder) {
	const lk_model *model = builder->model;
	double h = model->hidden, a = model->rwkv_inner, t = builder->tokens;
	return builder->bytes * t * (h + (lk_rwkv_inputs(model) + 1) * a + rank_columns(model)) +
	       lk_build_kept_bytes(builder, t * (lk_rwkv_mixes(model) * h + a));
}

static const char *const time_products[] = {"key_proj", "value_proj", "receptance_proj",
                                            "gate_proj"};
static const char *const time_gradients[] = {"key_proj_grad", "value_proj_grad",
                                             "receptance_proj_grad", "gate_proj_grad"};

void lk_build_rwkv_forward(lk_builder *builder, const lk_layer_shape *shape) {
	const lk_model *model = builder->model;
	double h = model->hidden, a = model->rwkv_inner, t = builder->tokens;
	mix(builder, lk_rwkv_mixes(model));
	rwkv_low_ranks(builder);
	for (int i = 0; i < lk_rwkv_inputs(model); i++)
		lk_build_gemm(builder, time_products[i], t, a, h);
	wkv(builder, shape, false);
	rwkv_memory(builder, "receptance_gate", 5 * a);
	lk_build_save(builder, time_saved(builder), LK_OWN_ACTIVATIONS);
	lk_build_quantize(builder, t * a);
	lk_build_gemm(builder, "rwkv_out_proj", t, h, a);
}

/* The inputs of all products and the output gradients of the first ones. */
double lk_build_rwkv_between(const lk_builder *builder) {
	const lk_model *model = builder->model;
	double h = model->hidden, a = model->rwkv_inner;
	return lk_build_kept_bytes(builder, builder->tokens *
	                                        (lk_rwkv_mixes(model) * h + a +
	                                         lk_rwkv_inputs(model) * a + 2 * rank_columns(model)));
}

void lk_build_rwkv_backward(lk_builder *builder, const lk_layer_shape *shape, bool input,
                            bool weight) {
	const lk_model *model = builder->model;
	double h = model->hidden, a = model->rwkv_inner;
	lk_build_row_backward(builder, "rwkv_out_proj_grad", h, a, input, weight);
	if (input) {
		rwkv_memory(builder, "receptance_gate_grad", 5 * a);
		wkv(builder, shape, true);
	}
	for (int i = lk_rwkv_inputs(model); i-- > 0;)
		lk_build_column_backward(builder, time_gradients[i], a, h, input, weight);
	rwkv_low_ranks_backward(builder, input, weight);
	if (!input) return;
	mix_backward(builder, lk_rwkv_mixes(model));
	lk_build_release(builder, time_saved(builder), LK_OWN_ACTIVATIONS);
}

/* ---- channel mix ---- */

/* Version 7 has no receptance. */
static bool has_receptance(const lk_builder *builder) {
	return builder->model->rwkv != 7;
}

/* The tokens before, the receptance and its operand. */
static double channel_saved(const lk_builder *builder) {
	return (has_receptance(builder) ? 3 : 1) * builder->bytes * builder->tokens *
	       builder->model->hidden;
}

/* `count` mixes, or gradients, that weight gradients read. */
static double channel_operands(const lk_builder *builder, double count) {
	return builder->train_base
	           ? lk_build_kept_bytes(builder, builder->tokens * count * builder->model->hidden)
	           : 0;
}

void lk_build_channel_mix(lk_builder *builder) {
	double h = builder->model->hidden, mixes = has_receptance(builder) ? 2 : 1;
	mix(builder, mixes);
	if (has_receptance(builder))
		lk_build_gemm(builder, "channel_receptance", builder->tokens, h, h);
	lk_build_save(builder, channel_saved(builder) + channel_operands(builder, mixes),
	              LK_OWN_ACTIVATIONS);
}

void lk_build_channel_gate(lk_builder *builder, bool forward) {
	if (has_receptance(builder))
		rwkv_memory(builder, forward ? "channel_gate" : "channel_gate_grad",
		            5.0 * builder->model->hidden);
}

void lk_build_channel_mix_backward(lk_builder *builder, bool input, bool weight) {
	double h = builder->model->hidden, gradients = has_receptance(builder), mixes = 1 + gradients;
	if (has_receptance(builder))
		lk_build_column_backward(builder, "channel_receptance_grad", h, h, input, weight);
	if (input) {
		mix_backward(builder, mixes);
		lk_build_release(builder, channel_saved(builder), LK_OWN_ACTIVATIONS);
	}
	/* a split backward keeps the mixes and the receptance's gradient for its second pass */
	if (input && !weight)
		lk_build_save(builder, channel_operands(builder, gradients), LK_OWN_ACTIVATIONS);
	if (weight)
		lk_build_release(builder, channel_operands(builder, input ? mixes : mixes + gradients),
		                 LK_OWN_ACTIVATIONS);
}
