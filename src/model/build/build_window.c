/* build_window.c: blocks of attention within windows (Swin, arXiv 2103.14030), as in the
 * transformers library: windows are cut out and put back, every second block after a shift; scores
 * and probabilities are separate tensors, with a bias per distance and head. */
#include "model/build/build.h"

struct lk_window_sizes {
	double pixels, width, inner, windows, tokens, heads; /* of all images; tokens of a window */
};

static struct lk_window_sizes window_sizes(const lk_builder *builder, const lk_conv_unit *unit) {
	double pixels = builder->job->mbs * unit->side * unit->side,
		   tokens = unit->window * unit->window;
	return (struct lk_window_sizes){pixels,          unit->width, unit->conv[unit->count - 1].in,
	                                pixels / tokens, tokens,      unit->heads};
}

static void window_memory(lk_builder *builder, unsigned kind, const char *name, double elements) {
	lk_build_memory(builder, kind, name, builder->bytes * elements);
}

/* Inputs of both norms and of all products, probabilities, and the activation's input. */
static double window_saved(const lk_builder *builder, struct lk_window_sizes w) {
	return builder->bytes * w.pixels * (8 * w.width + 2 * w.inner + w.heads * w.tokens);
}

/* 2 x 2 adjacent pixels, normed. */
static double merge_saved(const lk_builder *builder, const lk_conv_unit *unit) {
	return unit->count > 4 ? 2 * builder->bytes * builder->job->mbs * unit->side * unit->side * 4 *
	                             unit->conv[0].in
	                       : 0;
}

static void merge_forward(lk_builder *builder, const lk_conv_unit *unit, struct lk_window_sizes w) {
	double in = 4 * unit->conv[0].in;
	if (unit->count <= 4) return;
	window_memory(builder, LK_OP_ELEMENTWISE, "join_pixels", 2 * w.pixels * in);
	window_memory(builder, LK_OP_NORM, "join_norm", 2 * w.pixels * in);
	lk_build_gemm(builder, "join_proj", w.pixels, w.width, in);
	lk_build_save(builder, merge_saved(builder, unit), LK_OWN_ACTIVATIONS);
}

static void window_grads(lk_builder *builder, const char *name, double pixels, double out,
                         double in) {
	lk_build_gemm(builder, name, pixels, in, out);
	lk_build_gemm(builder, "weight_grad", out, in, pixels);
}

static void merge_backward(lk_builder *builder, const lk_conv_unit *unit,
                           struct lk_window_sizes w) {
	double in = 4 * unit->conv[0].in;
	if (unit->count <= 4) return;
	window_grads(builder, "join_proj_grad", w.pixels, w.width, in);
	window_memory(builder, LK_OP_NORM, "join_norm_grad", 3 * w.pixels * in);
	window_memory(builder, LK_OP_ELEMENTWISE, "join_pixels_grad", 2 * w.pixels * in);
	lk_build_release(builder, merge_saved(builder, unit), LK_OWN_ACTIVATIONS);
}

void lk_build_window_forward(lk_builder *builder, const lk_conv_unit *unit) {
	struct lk_window_sizes w = window_sizes(builder, unit);
	double all = w.pixels * w.width, scores = w.pixels * w.heads * w.tokens,
		   batch = w.windows * w.heads, head = w.width / w.heads;
	merge_forward(builder, unit, w);
	window_memory(builder, LK_OP_NORM, "window_norm", 2 * all);
	window_memory(builder, LK_OP_ELEMENTWISE, "cut_windows", 3 * all);
	lk_build_gemm(builder, "qkv_proj", w.pixels, 3 * w.width, w.width);
	lk_build_gemm_batch(builder, "scores", w.tokens, w.tokens, head, batch);
	window_memory(builder, LK_OP_SOFTMAX, "bias_softmax", 4 * scores);
	lk_build_gemm_batch(builder, "weighted_values", w.tokens, head, w.tokens, batch);
	lk_build_gemm(builder, "out_proj", w.pixels, w.width, w.width);
	window_memory(builder, LK_OP_ELEMENTWISE, "join_windows", 3 * all);
	window_memory(builder, LK_OP_ELEMENTWISE, "attention_residual", 3 * all);
	window_memory(builder, LK_OP_NORM, "post_norm", 2 * all);
	lk_build_gemm(builder, "mlp_up", w.pixels, w.inner, w.width);
	window_memory(builder, LK_OP_ELEMENTWISE, "activation", 2 * w.pixels * w.inner);
	lk_build_gemm(builder, "mlp_down", w.pixels, w.width, w.inner);
	window_memory(builder, LK_OP_ELEMENTWISE, "mlp_residual", 3 * all);
	lk_build_save(builder, window_saved(builder, w), LK_OWN_ACTIVATIONS);
}

void lk_build_window_backward(lk_builder *builder, const lk_conv_unit *unit) {
	struct lk_window_sizes w = window_sizes(builder, unit);
	double all = w.pixels * w.width, scores = w.pixels * w.heads * w.tokens,
		   batch = w.windows * w.heads, head = w.width / w.heads;
	window_grads(builder, "mlp_down_grad", w.pixels, w.width, w.inner);
	window_memory(builder, LK_OP_ELEMENTWISE, "activation_grad", 3 * w.pixels * w.inner);
	window_grads(builder, "mlp_up_grad", w.pixels, w.inner, w.width);
	window_memory(builder, LK_OP_NORM, "post_norm_grad", 3 * all);
	window_memory(builder, LK_OP_ELEMENTWISE, "mlp_residual_grad", 3 * all);
	window_memory(builder, LK_OP_ELEMENTWISE, "join_windows_grad", 3 * all);
	window_grads(builder, "out_proj_grad", w.pixels, w.width, w.width);
	lk_build_gemm_batch(builder, "probabilities_grad", w.tokens, w.tokens, head, batch);
	lk_build_gemm_batch(builder, "values_grad", w.tokens, head, w.tokens, batch);
	window_memory(builder, LK_OP_SOFTMAX, "bias_softmax_grad", 5 * scores);
	lk_build_gemm_batch(builder, "query_grad", w.tokens, head, w.tokens, batch);
	lk_build_gemm_batch(builder, "key_grad", w.tokens, head, w.tokens, batch);
	window_grads(builder, "qkv_proj_grad", w.pixels, 3 * w.width, w.width);
	window_memory(builder, LK_OP_ELEMENTWISE, "cut_windows_grad", 3 * all);
	window_memory(builder, LK_OP_NORM, "window_norm_grad", 3 * all);
	window_memory(builder, LK_OP_ELEMENTWISE, "attention_residual_grad", 3 * all);
	lk_build_release(builder, window_saved(builder, w), LK_OWN_ACTIVATIONS);
	merge_backward(builder, unit, w);
}
