/* build_use.c: operations of each use of a shared set of weights (Zamba2, arXiv 2411.15242):
 * low-rank pairs parallel to the input products of attention and MLP, whose outputs are added, and
 * a product of the block's output. The block reads the hidden state and the embedded token. */
#include "model/build/build.h"

static bool uses(const lk_builder *builder, const lk_layer_shape *shape) {
	return builder->model->use_product && (shape->layer.mixers & LK_MIXER_ATTENTION);
}

/* A low-rank pair parallel to a product from `in` to `out` columns, for `count` such products. */
static void pair_forward(lk_builder *builder, double in, double rank, double out, double count) {
	double t = builder->tokens;
	if (rank <= 0) return;
	lk_build_gemm(builder, "use_down", t, count * rank, in);
	lk_build_gemm(builder, "use_up", t, out, rank);
	lk_build_memory(builder, LK_OP_ELEMENTWISE, "use_add", 3 * builder->bytes * t * out);
}

static void pair_backward(lk_builder *builder, double in, double rank, double out, double count,
                          bool input, bool weight) {
	if (rank <= 0) return;
	lk_build_row_backward(builder, "use_up_grad", out, rank, input, weight);
	lk_build_row_backward(builder, "use_down_grad", count * rank, in, input, weight);
}

static double qkv_columns(const lk_model *model) {
	return ((double)model->heads + 2 * model->kv_heads) * model->head_dim;
}

/* Both low-rank products, and the input of the product. */
static double use_saved(const lk_builder *builder) {
	const lk_model *model = builder->model;
	return lk_build_kept_bytes(builder, builder->tokens * (model->hidden + model->use_mlp_rank +
	                                                       3.0 * model->use_qkv_rank));
}

/* The gradients that the weight pass of a split backward reads. */
static double use_between(const lk_builder *builder) {
	const lk_model *model = builder->model;
	return lk_build_kept_bytes(builder, builder->tokens * model->hidden) + use_saved(builder);
}

void lk_build_use_forward(lk_builder *builder, const lk_layer_shape *shape) {
	const lk_model *model = builder->model;
	if (!uses(builder, shape)) return;
	pair_forward(builder, lk_model_attention_inputs(model), model->use_qkv_rank, qkv_columns(model),
	             3);
	pair_forward(builder, model->hidden, model->use_mlp_rank, 2 * builder->ffn, 1);
	lk_build_gemm(builder, "use_product", builder->tokens, model->hidden, model->hidden);
	lk_build_save(builder, use_saved(builder), LK_OWN_ACTIVATIONS);
}

void lk_build_use_backward(lk_builder *builder, const lk_layer_shape *shape, bool input,
                           bool weight) {
	const lk_model *model = builder->model;
	if (!uses(builder, shape)) return;
	bool last = weight || !builder->train_base;
	lk_build_row_backward(builder, "use_product_grad", model->hidden, model->hidden, input, weight);
	pair_backward(builder, model->hidden, model->use_mlp_rank, 2 * builder->ffn, 1, input, weight);
	pair_backward(builder, lk_model_attention_inputs(model), model->use_qkv_rank,
	              qkv_columns(model), 3, input, weight);
	if (input && !last)
		lk_build_save(builder, use_between(builder) - use_saved(builder), LK_OWN_ACTIVATIONS);
	if (last)
		lk_build_release(builder, input ? use_saved(builder) : use_between(builder),
		                 LK_OWN_ACTIVATIONS);
}
