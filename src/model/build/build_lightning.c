/* build_lightning.c: lightning attention (arXiv 2501.08313), a heads of size d, blocks of B = 256
 * tokens: attention without softmax within a block, a d x d state per head between blocks: 2 B d +
 * 4 d d operations per token and head, 2.5 times that backward. */
#include "model/build/build.h"

enum { LIGHTNING_BLOCK = 256 };

static double lightning_width(const lk_builder *builder) {
	return builder->model->heads / builder->tp * builder->model->head_dim;
}

/* Queries, keys, values, gate, output; the normed output times the gate. */
static double lightning_saved(const lk_builder *builder) {
	double elements = builder->tokens * lightning_width(builder);
	return 5 * builder->bytes * elements + lk_build_kept_bytes(builder, elements);
}

/* `times`: operations relative to a forward pass. */
static void lightning_core(lk_builder *builder, const lk_layer_shape *shape, const char *within,
                           const char *between, double times) {
	double d = builder->model->head_dim, heads = builder->model->heads / builder->tp,
		   block = shape->keys < LIGHTNING_BLOCK ? shape->keys : LIGHTNING_BLOCK,
		   blocks = builder->tokens / block * heads;
	lk_build_core_gemm(builder, within, block, block / 2, 2 * d * times, blocks);
	lk_build_core_gemm(builder, between, block, d, 2 * d * times, blocks);
}

static void lightning_memory(lk_builder *builder, unsigned kind, const char *name, double passes) {
	lk_build_memory(builder, kind, name,
	                passes * builder->bytes * builder->tokens * lightning_width(builder));
}

void lk_build_lightning_forward(lk_builder *builder, const lk_layer_shape *shape) {
	double width = lightning_width(builder), t = builder->tokens, h = builder->model->hidden;
	lk_build_gemm(builder, "qkvg_proj", t, 4 * width, h);
	lk_build_cp_heads(builder, "exchange_lightning_input", 4 * width);
	lightning_memory(builder, LK_OP_ELEMENTWISE, "qkv_activation", 6);
	lightning_core(builder, shape, "lightning_block", "lightning_states", 1);
	lightning_memory(builder, LK_OP_NORM, "gated_norm", 3);
	lk_build_save(builder, lightning_saved(builder), LK_OWN_ACTIVATIONS);
	lk_build_cp_heads(builder, "exchange_lightning_output", width);
	lk_build_quantize(builder, t * width);
	lk_build_gemm(builder, "lightning_out_proj", t, h, width);
}

/* The second product's input and the gradients after both. */
double lk_build_lightning_between(const lk_builder *builder) {
	return 5 * lk_build_kept_bytes(builder, builder->tokens * lightning_width(builder));
}

void lk_build_lightning_backward(lk_builder *builder, const lk_layer_shape *shape, bool input,
                                 bool weight) {
	double width = lightning_width(builder), h = builder->model->hidden;
	lk_build_row_backward(builder, "lightning_out_proj_grad", h, width, input, weight);
	if (input) {
		lk_build_cp_heads(builder, "exchange_lightning_output_grad", width);
		lightning_memory(builder, LK_OP_NORM, "gated_norm_grad", 5);
		lightning_core(builder, shape, "lightning_block_grad", "lightning_states_grad", 2.5);
		lightning_memory(builder, LK_OP_ELEMENTWISE, "qkv_activation_grad", 9);
		lk_build_release(builder, lightning_saved(builder), LK_OWN_ACTIVATIONS);
		lk_build_cp_heads(builder, "exchange_lightning_input_grad", 4 * width);
	}
	lk_build_column_backward(builder, "qkvg_proj_grad", 4 * width, h, input, weight);
}
