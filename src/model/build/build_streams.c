/* build_streams.c: Gemma 3n apart from its attention and MLPs (transformers'
 * Gemma3nTextDecoderLayer; AltUp, arXiv 2301.13310; LAuReL, arXiv 2411.07501). With n streams of h
 * numbers, of which one passes the layer, rank r, and p numbers for each layer and token:
 *
 *     predict   a norm, [h, n], coefficients [n, n n]; all streams mixed
 *     low rank  [h, r], [r, h], a norm, beside attention
 *     correct   a norm, [h, n], [n, n]; all streams moved by what the layer did
 *     inputs    [h, p], times the layer's own embedding of the token, [p, h], a norm, added to all
 *               streams but one
 *
 * Before the first layer tokens are looked up for all layers at once, and h is projected to p for
 * each layer and to the other streams; after the last the streams are projected back and averaged.
 */
#include "model/build/build.h"

/* Streams before and after prediction, their scores, the low-rank pair and its output, the gated
 * input with its factors, the input of the last norm. */
static double streams_saved(const lk_builder *builder) {
	const lk_model *model = builder->model;
	const lk_streams *net = &model->streams;
	double h = model->hidden;
	return builder->bytes * builder->tokens *
	       (2 * net->count * h + 2 * net->count + net->low_rank + 4 * h + 3 * net->inputs);
}

/* The scores of the streams, from a norm of the active one. */
static void score_streams(lk_builder *builder, double coefficients) {
	const lk_model *model = builder->model;
	double n = model->streams.count, h = model->hidden;
	lk_build_token_memory(builder, LK_OP_NORM, "stream_norm", 2 * h);
	lk_build_gemm(builder, "stream_scores", builder->tokens, n, h);
	lk_build_gemm(builder, "stream_coefficients", builder->tokens, coefficients, n);
}

static void score_streams_backward(lk_builder *builder, double coefficients, bool input,
                                   bool weight) {
	const lk_model *model = builder->model;
	double n = model->streams.count, h = model->hidden;
	lk_build_row_backward(builder, "stream_coefficients_grad", coefficients, n, input, weight);
	lk_build_row_backward(builder, "stream_scores_grad", n, h, input, weight);
	if (input) lk_build_token_memory(builder, LK_OP_NORM, "stream_norm_grad", 3 * h);
}

void lk_build_streams_enter(lk_builder *builder) {
	const lk_model *model = builder->model;
	const lk_streams *net = &model->streams;
	double n = net->count, h = model->hidden;
	if (n == 0) return;
	score_streams(builder, n * n);
	lk_build_token_memory(builder, LK_OP_ELEMENTWISE, "predict_streams", 3 * n * h);
	lk_build_gemm(builder, "low_rank_down", builder->tokens, net->low_rank, h);
	lk_build_gemm(builder, "low_rank_up", builder->tokens, h, net->low_rank);
	lk_build_token_memory(builder, LK_OP_NORM, "low_rank_norm", 2 * h);
	lk_build_token_memory(builder, LK_OP_ELEMENTWISE, "low_rank_add", 3 * h);
	lk_build_save(builder, streams_saved(builder), LK_OWN_ACTIVATIONS);
}

void lk_build_streams_leave(lk_builder *builder) {
	const lk_model *model = builder->model;
	const lk_streams *net = &model->streams;
	double n = net->count, h = model->hidden, p = net->inputs;
	if (n == 0) return;
	score_streams(builder, n);
	lk_build_token_memory(builder, LK_OP_ELEMENTWISE, "correct_streams", (2 * n + 1) * h);
	lk_build_gemm(builder, "layer_input_gate", builder->tokens, p, h);
	lk_build_token_memory(builder, LK_OP_ELEMENTWISE, "gate_layer_input", 3 * p);
	lk_build_gemm(builder, "layer_input_proj", builder->tokens, h, p);
	lk_build_token_memory(builder, LK_OP_NORM, "layer_input_norm", 2 * h);
	lk_build_token_memory(builder, LK_OP_ELEMENTWISE, "add_layer_input", (2 * (n - 1) + 1) * h);
}

/* Of what `leave` added: the gradient reaches the streams before the layer's does. */
void lk_build_streams_leave_backward(lk_builder *builder, bool input, bool weight) {
	const lk_model *model = builder->model;
	const lk_streams *net = &model->streams;
	double n = net->count, h = model->hidden, p = net->inputs;
	if (n == 0) return;
	if (input) {
		lk_build_token_memory(builder, LK_OP_ELEMENTWISE, "add_layer_input_grad", n * h);
		lk_build_token_memory(builder, LK_OP_NORM, "layer_input_norm_grad", 3 * h);
	}
	lk_build_row_backward(builder, "layer_input_proj_grad", h, p, input, weight);
	if (input) lk_build_token_memory(builder, LK_OP_ELEMENTWISE, "gate_layer_input_grad", 5 * p);
	lk_build_row_backward(builder, "layer_input_gate_grad", p, h, input, weight);
	if (input)
		lk_build_token_memory(builder, LK_OP_ELEMENTWISE, "correct_streams_grad", (2 * n + 2) * h);
	score_streams_backward(builder, n, input, weight);
}

void lk_build_streams_enter_backward(lk_builder *builder, bool input, bool weight) {
	const lk_model *model = builder->model;
	const lk_streams *net = &model->streams;
	double n = net->count, h = model->hidden;
	if (n == 0) return;
	if (input) lk_build_token_memory(builder, LK_OP_NORM, "low_rank_norm_grad", 3 * h);
	lk_build_row_backward(builder, "low_rank_up_grad", h, net->low_rank, input, weight);
	lk_build_row_backward(builder, "low_rank_down_grad", net->low_rank, h, input, weight);
	if (input) lk_build_token_memory(builder, LK_OP_ELEMENTWISE, "predict_streams_grad", 4 * n * h);
	score_streams_backward(builder, n * n, input, weight);
	if (input) lk_build_release(builder, streams_saved(builder), LK_OWN_ACTIVATIONS);
}

/* ---- before the first layer, after the last ---- */

/* Kept by the ends: each layer's input, before and after its norm, and the embedding, if weights
 * train; the streams that are projected back. */
double lk_build_streams_kept(const lk_builder *builder, bool head) {
	const lk_model *model = builder->model;
	const lk_streams *net = &model->streams;
	double h = model->hidden, all = (double)net->inputs * model->layers;
	if (net->count == 0 || !builder->train_base) return 0;
	return builder->bytes * builder->tokens * (head ? (net->count - 1) * h : 2 * all + h);
}

void lk_build_streams_embed(lk_builder *builder, bool forward) {
	const lk_model *model = builder->model;
	const lk_streams *net = &model->streams;
	double n = net->count, h = model->hidden, all = (double)net->inputs * model->layers;
	if (n == 0) return;
	if (forward) {
		lk_build_token_memory(builder, LK_OP_EMBEDDING, "layer_embedding", 2 * all);
		lk_build_gemm(builder, "layer_inputs", builder->tokens, all, h);
		lk_build_token_memory(builder, LK_OP_NORM, "layer_inputs_norm", 4 * all);
		for (int i = 1; i < net->count; i++)
			lk_build_gemm(builder, "stream_proj", builder->tokens, h, h);
		lk_build_token_memory(builder, LK_OP_ELEMENTWISE, "scale_streams", 2 * (n - 1) * h);
		lk_build_save(builder, lk_build_streams_kept(builder, false), LK_OWN_ACTIVATIONS);
		return;
	}
	lk_build_token_memory(builder, LK_OP_ELEMENTWISE, "scale_streams_grad", 3 * (n - 1) * h);
	for (int i = 1; i < net->count; i++)
		lk_build_row_backward(builder, "stream_proj_grad", h, h, true, true);
	lk_build_token_memory(builder, LK_OP_NORM, "layer_inputs_norm_grad", 5 * all);
	lk_build_row_backward(builder, "layer_inputs_grad", all, h, true, true);
	lk_build_token_memory(builder, LK_OP_EMBEDDING, "layer_embedding_grad", 3 * all);
	lk_build_release(builder, lk_build_streams_kept(builder, false), LK_OWN_ACTIVATIONS);
}

void lk_build_streams_join(lk_builder *builder, bool forward) {
	const lk_model *model = builder->model;
	double n = model->streams.count, h = model->hidden;
	if (n == 0) return;
	for (int i = 1; i < model->streams.count; i++)
		if (forward) lk_build_gemm(builder, "stream_unproj", builder->tokens, h, h);
		else lk_build_row_backward(builder, "stream_unproj_grad", h, h, true, builder->train_base);
	lk_build_token_memory(builder, LK_OP_ELEMENTWISE,
	                      forward ? "join_streams" : "join_streams_grad", (n + 1) * h);
	if (forward) lk_build_save(builder, lk_build_streams_kept(builder, true), LK_OWN_ACTIVATIONS);
	else lk_build_release(builder, lk_build_streams_kept(builder, true), LK_OWN_ACTIVATIONS);
}
