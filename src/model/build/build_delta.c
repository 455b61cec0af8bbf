/* build_delta.c: the gated delta net (arXiv 2412.06464) as the chunked kernels of
 * fla-org/flash-linear-attention run it, gated_delta_rule/chunk.py, chunks of 64 tokens
 * (graph/scan.c). First queries and keys are repeated to match the value heads. The backward pass
 * recomputes the chunks' states. Kimi delta attention (ops/kda) has the same products; its decay,
 * one value per key channel, is in fp32. */
#include "model/build/build.h"

enum { DELTA_CHUNK = 64 };

/* Widths on this rank. */
struct lk_delta_width {
	double keys, values, heads, dk, dv; /* columns of keys, of values; value heads, their sizes */
	double mixed, in;     /* input columns of the convolution; columns of the first product */
	double rank;          /* of decay and gate (Kimi delta attention); 0: none */
	double chunk, pieces; /* tokens of a chunk; chunks of all heads and sequences */
	double length;        /* tokens of a sequence */
};

static struct lk_delta_width delta_width(const lk_builder *builder, const lk_layer_shape *shape) {
	const lk_model *model = builder->model;
	struct lk_delta_width w = {.heads = model->delta_value_heads / builder->tp,
	                           .dk = model->delta_key_dim,
	                           .dv = model->delta_value_dim};
	w.keys = model->delta_key_heads / builder->tp * w.dk;
	w.values = w.heads * w.dv;
	w.mixed = 2 * w.keys + w.values;
	w.rank = model->delta_rank;
	w.in = w.mixed + (w.rank > 0 ? w.heads + 2 * w.rank : w.values + 2 * w.heads);
	w.chunk = shape && shape->keys < DELTA_CHUNK ? shape->keys : DELTA_CHUNK;
	w.pieces = builder->tokens / w.chunk * w.heads;
	w.length = shape ? shape->keys : builder->tokens;
	return w;
}

/* Decay values per token: one per head, or one per key channel. */
static double decays(struct lk_delta_width w) {
	return w.rank > 0 ? w.keys : w.heads;
}

/* Input and output of the convolution for queries, keys (both repeated) and values, the triangular
 * inverse; gate, output, normed output; decay and step in fp32 and 16 bits. */
static double delta_saved(const lk_builder *builder, struct lk_delta_width w) {
	double wide =
		w.mixed + 2 * w.keys + 2 * w.heads * w.dk + w.values + w.chunk * w.heads + 2 * w.values;
	return builder->tokens * (builder->bytes * (wide + 2 * w.rank) + 6 * decays(w)) +
	       lk_build_kept_bytes(builder, builder->tokens * w.values);
}

/* Decay and gate through their low-rank products. */
static void low_ranks(lk_builder *builder, struct lk_delta_width w) {
	if (w.rank <= 0) return;
	lk_build_gemm(builder, "decay_proj", builder->tokens, w.keys, w.rank);
	lk_build_gemm(builder, "gate_proj", builder->tokens, w.values, w.rank);
}

static void low_ranks_backward(lk_builder *builder, struct lk_delta_width w, bool input,
                               bool weight) {
	if (w.rank <= 0) return;
	lk_build_row_backward(builder, "gate_proj_grad", w.values, w.rank, input, weight);
	lk_build_row_backward(builder, "decay_proj_grad", w.keys, w.rank, input, weight);
}

static void delta_scan(lk_builder *builder, struct lk_delta_width w, const char *name,
                       bool backward) {
	lk_state_layer layer = {.kernel = LK_STATE_DELTA_SCAN,
	                        .batch = builder->tokens / w.length,
	                        .length = w.length,
	                        .heads = w.heads,
	                        .key_heads = w.keys / w.dk,
	                        .key_dim = w.dk,
	                        .value_dim = w.dv};
	lk_build_scan(builder, name, w.rank > 0 ? LK_SCAN_KDA : LK_SCAN_GDN, &layer, backward);
}

void lk_build_delta_forward(lk_builder *builder, const lk_layer_shape *shape) {
	struct lk_delta_width w = delta_width(builder, shape);
	double t = builder->tokens, h = builder->model->hidden;
	lk_build_gemm(builder, "in_proj", t, w.in, h);
	lk_build_cp_heads(builder, "exchange_delta_input", w.in);
	low_ranks(builder, w);
	lk_build_convolution(builder, "conv1d", w.mixed, w.length, false);
	lk_build_token_memory(builder, LK_OP_NORM, "qk_norm", 2 * w.keys + 2 * w.heads * w.dk);
	lk_build_token_memory(builder, LK_OP_ELEMENTWISE, "decay", 6 * decays(w));
	delta_scan(builder, w, "delta_scan", false);
	lk_build_scratch(builder, 2 * w.dk * w.dv * w.pieces, LK_OWN_WORKSPACE);
	lk_build_token_memory(builder, LK_OP_NORM, "gated_norm", 3 * w.values);
	lk_build_save(builder, delta_saved(builder, w), LK_OWN_ACTIVATIONS);
	lk_build_cp_heads(builder, "exchange_delta_output", w.values);
	lk_build_quantize(builder, t * w.values);
	lk_build_gemm(builder, "delta_out_proj", t, h, w.values);
}

static void delta_core_backward(lk_builder *builder, struct lk_delta_width w) {
	lk_build_token_memory(builder, LK_OP_NORM, "gated_norm_grad", 5 * w.values);
	delta_scan(builder, w, "delta_scan_grad", true);
	lk_build_scratch(builder, 4 * w.dk * w.dv * w.pieces, LK_OWN_WORKSPACE);
	lk_build_token_memory(builder, LK_OP_ELEMENTWISE, "decay_grad", 6 * decays(w));
	lk_build_token_memory(builder, LK_OP_NORM, "qk_norm_grad", 4 * w.keys + 2 * w.heads * w.dk);
	lk_build_convolution(builder, "conv1d_grad", w.mixed, w.length, true);
}

/* The second product's input and the gradients after both. */
double lk_build_delta_between(const lk_builder *builder) {
	struct lk_delta_width w = delta_width(builder, NULL);
	double ranks = w.rank > 0 ? w.keys + w.values : 0;
	return lk_build_kept_bytes(builder, builder->tokens * (w.values + w.in + ranks));
}

void lk_build_delta_backward(lk_builder *builder, const lk_layer_shape *shape, bool input,
                             bool weight) {
	struct lk_delta_width w = delta_width(builder, shape);
	double h = builder->model->hidden;
	lk_build_row_backward(builder, "delta_out_proj_grad", h, w.values, input, weight);
	if (input) {
		lk_build_cp_heads(builder, "exchange_delta_output_grad", w.values);
		delta_core_backward(builder, w);
		lk_build_release(builder, delta_saved(builder, w), LK_OWN_ACTIVATIONS);
		lk_build_cp_heads(builder, "exchange_delta_input_grad", w.in);
	}
	low_ranks_backward(builder, w, input, weight);
	lk_build_column_backward(builder, "in_proj_grad", w.in, h, input, weight);
}
