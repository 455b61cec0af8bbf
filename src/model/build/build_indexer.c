/* build_indexer.c: the sparse attention of DeepSeek-V3.2 (arXiv 2512.02556): in addition to latent
 * attention, an indexer with Hi heads of size Di scores every query with every key before it, and
 * each query attends to its best k keys in the latent space: keys of r + e and values of r that all
 * heads share. Per token, forward, with s/2 pairs:
 *
 *     indexer    2 Hi (Di + 1) s/2
 *     attention  2 a (2r + e) min(position, k), backward 2.5 times
 *
 * The up-projection of keys and values is applied to queries and outputs instead, in as many
 * operations. The indexer learns from a loss of its own: its inputs get no gradient. It is whole on
 * every tensor-parallel rank. */
#include "model/build/build.h"

/* Queries, keys and weights of the indexer, and the chosen keys. */
double lk_build_index_saved(const lk_builder *builder) {
	const lk_model *model = builder->model;
	double heads = model->index_heads;
	if (heads <= 0) return 0;
	return builder->tokens *
	       (builder->bytes * (heads * model->index_dim + model->index_dim + heads) +
	        4.0 * model->index_topk);
}

static double index_from(const lk_model *model) {
	return model->q_lora > 0 ? model->q_lora : model->hidden;
}

void lk_build_index_forward(lk_builder *builder, const lk_layer_shape *shape) {
	const lk_model *model = builder->model;
	double heads = model->index_heads, dim = model->index_dim, t = builder->tokens;
	lk_build_gemm(builder, "index_q", t, heads * dim, index_from(model));
	lk_build_gemm(builder, "index_k", t, dim + heads, model->hidden);
	lk_build_memory(builder, LK_OP_NORM, "index_norm", 2 * builder->bytes * t * dim);
	lk_build_core_gemm(builder, "index_scores", shape->queries, shape->keys / 2, dim + 1,
	                   builder->batch * heads);
	lk_build_memory(builder, LK_OP_NORM, "index_topk",
	                4 * builder->batch * shape->queries * shape->keys / 2);
}

/* Gradients of both sides of the scores, then of the weights. */
void lk_build_index_backward(lk_builder *builder, const lk_layer_shape *shape, bool input,
                             bool weight) {
	const lk_model *model = builder->model;
	double heads = model->index_heads, dim = model->index_dim;
	if (!builder->train_base) return;
	if (input)
		lk_build_core_gemm(builder, "index_scores_grad", shape->queries, dim + 1, shape->keys / 2,
		                   2 * builder->batch * heads);
	lk_build_row_backward(builder, "index_q_grad", heads * dim, index_from(model), false, weight);
	lk_build_row_backward(builder, "index_k_grad", dim + heads, model->hidden, false, weight);
}

double lk_build_sparse_pairs(const lk_model *model, const lk_layer_shape *shape) {
	double best = model->index_topk, keys = shape->keys;
	return shape->queries * (best < keys ? best - best * best / (2 * keys) : keys / 2);
}
