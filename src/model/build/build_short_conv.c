/* build_short_conv.c: the gated short convolution (mixer_conv.c): two products, and between them
 * three passes over memory: gate, convolution (one kernel, causal-conv1d) and gate (transformers,
 * modeling_lfm2.py). The last tokens of each piece, which context parallelism would exchange, are
 * too few to count. */
#include "model/build/build.h"

/* Both gates and the value; the gated value, what comes out of the convolution, the gated output.
 */
static double conv_saved(const lk_builder *builder) {
	double elements = builder->tokens * lk_build_hidden_share(builder);
	return 5 * builder->bytes * elements + lk_build_kept_bytes(builder, elements);
}

static void conv_memory(lk_builder *builder, const char *name, double passes) {
	lk_build_memory(builder, LK_OP_ELEMENTWISE, name,
	                passes * builder->bytes * builder->tokens * lk_build_hidden_share(builder));
}

void lk_build_short_conv_forward(lk_builder *builder, const lk_layer_shape *shape) {
	double wide = lk_build_hidden_share(builder), t = builder->tokens, h = builder->model->hidden;
	lk_build_gemm(builder, "conv_in_proj", t, 3 * wide, h);
	conv_memory(builder, "gate_input", 3);
	lk_build_convolution(builder, "conv1d", wide, shape->queries, false);
	conv_memory(builder, "gate_output", 3);
	lk_build_save(builder, conv_saved(builder), LK_OWN_ACTIVATIONS);
	lk_build_quantize(builder, t * wide);
	lk_build_gemm(builder, "conv_out_proj", t, h, wide);
}

/* The second product's input and the gradients after both. */
double lk_build_short_conv_between(const lk_builder *builder) {
	return 4 * lk_build_kept_bytes(builder, builder->tokens * lk_build_hidden_share(builder));
}

void lk_build_short_conv_backward(lk_builder *builder, const lk_layer_shape *shape, bool input,
                                  bool weight) {
	double wide = lk_build_hidden_share(builder), h = builder->model->hidden;
	lk_build_row_backward(builder, "conv_out_proj_grad", h, wide, input, weight);
	if (input) {
		conv_memory(builder, "gate_output_grad", 5);
		lk_build_convolution(builder, "conv1d_grad", wide, shape->queries, true);
		conv_memory(builder, "gate_input_grad", 5);
		lk_build_release(builder, conv_saved(builder), LK_OWN_ACTIVATIONS);
	}
	lk_build_column_backward(builder, "conv_in_proj_grad", 3 * wide, h, input, weight);
}
