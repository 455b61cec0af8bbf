/* build_conv.c: blocks of convolution nets. A convolution is its implicit product; batch norms and
 * activations stream.
 *
 * Passes over memory, by what kernels of cuDNN and PyTorch read and write: a batch norm reads its
 * input twice (statistics, then result) and writes once; its backward reads input and gradient
 * twice and writes once; an activation reads and writes, backward reads two and writes one.
 * torch.compile folds activations into their norms. Kept for the backward pass are the input of
 * each convolution and of each norm.
 */
#include "model/build/build.h"
#include "model/network/model.h"
#include "base/check.h"

static double images(const lk_builder *builder) {
	return builder->job->mbs;
}

static double pixels_out(const lk_builder *builder, const lk_conv *conv) {
	return images(builder) * conv->side_out * conv->side_out;
}

static double elements_in(const lk_builder *builder, const lk_conv *conv) {
	return images(builder) * conv->side_in * conv->side_in * conv->in;
}

static double conv_elements_out(const lk_builder *builder, const lk_conv *conv) {
	return pixels_out(builder, conv) * conv->out;
}

static void conv_stream(lk_builder *builder, unsigned kind, const char *name, double elements,
                        double passes) {
	lk_build_memory(builder, kind, name, builder->bytes * elements * passes);
}

/* ---- one convolution ---- */

static bool is_depthwise(const lk_conv *conv) {
	return conv->groups == conv->in && conv->groups > 1;
}

static double window(const lk_conv *conv) {
	return conv->kernel * conv->kernel;
}

/* 3 x 3 windows at stride 1: libraries have faster algorithms than the product
 * (src/cost/kernel/conv.c). */
static bool filters_minimally(const lk_conv *conv) {
	return conv->kernel == 3 && conv->groups == 1 && conv->side_in == conv->side_out;
}

/* An m x n x k product in each of the groups. Depthwise convolutions are bound by memory: they
 * stream. */
static void conv_product(lk_builder *builder, const lk_conv *conv, const char *name, double m,
                         double n, double k) {
	lk_ops *ops = &builder->graph->ops;
	if (is_depthwise(conv)) {
		conv_stream(builder, LK_OP_ELEMENTWISE, name,
		            elements_in(builder, conv) + conv_elements_out(builder, conv), 1);
		if (ops->count) ops->flops[ops->count - 1] = 2 * m * n * k * conv->groups;
		return;
	}
	lk_build_gemm_batch(builder, name, m, n, k, conv->groups);
	if (!ops->count) return;
	ops->kind[ops->count - 1] = LK_OP_CONV;
	if (filters_minimally(conv)) ops->window[ops->count - 1] = conv->side_out;
	/* each pixel is read once from memory, not once per window that contains it */
	ops->bytes[ops->count - 1] =
		builder->bytes * (elements_in(builder, conv) + conv_elements_out(builder, conv) +
	                      conv->out * conv->in / conv->groups * conv->kernel * conv->kernel);
}

/* At stride 1 the gradient of the input is a convolution with as many windows. */
static void input_grad(lk_builder *builder, const lk_conv *conv) {
	double in = conv->in / conv->groups, out = conv->out / conv->groups,
		   inside = filters_minimally(conv) ? window(conv) : 1;
	conv_product(builder, conv, "conv_input_grad", pixels_out(builder, conv),
	             in * window(conv) / inside, out * inside);
}

static void build_conv_weight_grad(lk_builder *builder, const lk_conv *conv) {
	conv_product(builder, conv, "conv_weight_grad", conv->out / conv->groups,
	             conv->in / conv->groups * window(conv), pixels_out(builder, conv));
	lk_ops *ops = &builder->graph->ops;
	if (ops->count && ops->kind[ops->count - 1] == LK_OP_CONV)
		ops->flags[ops->count - 1] |= LK_OP_SUMS_PIXELS;
}

static bool activates(const lk_builder *builder, const lk_conv *conv) {
	return conv->active && !(builder->job->compile && builder->model->conv.norm);
}

/* Kept of the convolution's output: the norm's input, if there is a norm. The norm's result is the
 * next operation's input, which that operation keeps; the same holds for a layer norm before the
 * convolution. */
static double conv_kept(const lk_builder *builder, const lk_conv *conv) {
	double kept = conv_elements_out(builder, conv);
	if (builder->model->conv.norm) kept *= 2;
	if (conv->layer_norm) kept += elements_in(builder, conv);
	return builder->bytes * kept;
}

static void conv_forward(lk_builder *builder, const lk_conv *conv) {
	if (conv->layer_norm)
		conv_stream(builder, LK_OP_NORM, "layer_norm", elements_in(builder, conv), 2);
	conv_product(builder, conv, "conv", pixels_out(builder, conv), conv->out / conv->groups,
	             conv->in / conv->groups * window(conv));
	if (builder->model->conv.norm) {
		conv_stream(builder, LK_OP_NORM, "batch_norm_statistics", conv_elements_out(builder, conv),
		            1);
		conv_stream(builder, LK_OP_ELEMENTWISE, "batch_norm", conv_elements_out(builder, conv), 2);
	}
	if (activates(builder, conv))
		conv_stream(builder, LK_OP_ELEMENTWISE, "activation", conv_elements_out(builder, conv), 2);
	lk_build_save(builder, conv_kept(builder, conv), LK_OWN_ACTIVATIONS);
}

static void conv_backward(lk_builder *builder, const lk_conv *conv, bool input) {
	if (activates(builder, conv))
		conv_stream(builder, LK_OP_ELEMENTWISE, "activation_grad", conv_elements_out(builder, conv),
		            3);
	if (builder->model->conv.norm) {
		conv_stream(builder, LK_OP_NORM, "batch_norm_sums", conv_elements_out(builder, conv), 2);
		conv_stream(builder, LK_OP_ELEMENTWISE, "batch_norm_grad", conv_elements_out(builder, conv),
		            3);
	}
	if (input) input_grad(builder, conv);
	build_conv_weight_grad(builder, conv);
	if (conv->layer_norm)
		conv_stream(builder, LK_OP_NORM, "layer_norm_grad", elements_in(builder, conv), 3);
	lk_build_scratch(
		builder, builder->bytes * (elements_in(builder, conv) + conv_elements_out(builder, conv)),
		LK_OWN_WORKSPACE);
	lk_build_release(builder, conv_kept(builder, conv), LK_OWN_ACTIVATIONS);
}

/* ---- a block ---- */

static double width_elements(const lk_builder *builder, const lk_conv_unit *unit) {
	return images(builder) * unit->side * unit->side * unit->width;
}

/* Elements that the excitation scales: the channels within a bottleneck's output or an inverted
 * block's waist. */
static double squeezed(const lk_builder *builder, const lk_conv_unit *unit) {
	const lk_conv *before =
		&unit->conv[unit->count - 1 - unit->shortcut - (unit->squeeze_in != unit->width)];
	return images(builder) * before->side_out * before->side_out * unit->squeeze_in;
}

static void squeeze_forward(lk_builder *builder, const lk_conv_unit *unit) {
	if (unit->squeeze <= 0) return;
	conv_stream(builder, LK_OP_NORM, "squeeze", squeezed(builder, unit), 1);
	lk_build_gemm(builder, "squeeze_in", images(builder), unit->squeeze, unit->squeeze_in);
	lk_build_gemm(builder, "squeeze_out", images(builder), unit->squeeze_in, unit->squeeze);
	conv_stream(builder, LK_OP_ELEMENTWISE, "excite", squeezed(builder, unit), 2);
	lk_build_save(builder, builder->bytes * squeezed(builder, unit), LK_OWN_ACTIVATIONS);
}

static void squeeze_backward(lk_builder *builder, const lk_conv_unit *unit) {
	if (unit->squeeze <= 0) return;
	conv_stream(builder, LK_OP_ELEMENTWISE, "excite_grad", squeezed(builder, unit), 5);
	for (int i = 0; i < 2; i++) {
		lk_build_gemm(builder, "squeeze_out_grad", images(builder), unit->squeeze,
		              unit->squeeze_in);
		lk_build_gemm(builder, "squeeze_in_grad", images(builder), unit->squeeze_in, unit->squeeze);
	}
	lk_build_release(builder, builder->bytes * squeezed(builder, unit), LK_OWN_ACTIVATIONS);
}

static double wide_elements(const lk_builder *builder, const lk_conv_unit *unit) {
	return images(builder) * unit->side * unit->side * unit->response;
}

/* The norm by channel response (GRN): it reads once for the responses, then reads and writes, and
 * keeps its input. */
static void response_forward(lk_builder *builder, const lk_conv_unit *unit) {
	if (unit->response <= 0) return;
	conv_stream(builder, LK_OP_NORM, "response_norm", wide_elements(builder, unit), 3);
	lk_build_save(builder, builder->bytes * wide_elements(builder, unit), LK_OWN_ACTIVATIONS);
}

static void response_backward(lk_builder *builder, const lk_conv_unit *unit) {
	if (unit->response <= 0) return;
	conv_stream(builder, LK_OP_NORM, "response_norm_grad", wide_elements(builder, unit), 5);
	lk_build_release(builder, builder->bytes * wide_elements(builder, unit), LK_OWN_ACTIVATIONS);
}

/* Scale the output channels: the unscaled ones, from the last convolution, are kept. */
static void scale_block(lk_builder *builder, const lk_conv_unit *unit, bool forward) {
	double elements = width_elements(builder, unit);
	if (unit->scale <= 0) return;
	if (forward) conv_stream(builder, LK_OP_ELEMENTWISE, "layer_scale", elements, 2);
	else conv_stream(builder, LK_OP_ELEMENTWISE, "layer_scale_grad", elements, 3);
}

static void unit_forward(lk_builder *builder, const lk_conv_unit *unit) {
	if (unit->heads > 0) {
		lk_build_window_forward(builder, unit);
		return;
	}
	for (int i = 0; i < unit->count; i++) {
		if (i + 1 == unit->count) response_forward(builder, unit);
		conv_forward(builder, &unit->conv[i]);
	}
	scale_block(builder, unit, true);
	squeeze_forward(builder, unit);
	if (unit->residual)
		conv_stream(builder, LK_OP_ELEMENTWISE, "residual", width_elements(builder, unit), 3);
	if (unit->copies > 0)
		conv_stream(builder, LK_OP_ELEMENTWISE, "join", width_elements(builder, unit),
		            unit->copies);
	if (unit->pool)
		conv_stream(builder, LK_OP_ELEMENTWISE, "pool", width_elements(builder, unit), 1.25);
}

static void unit_backward(lk_builder *builder, const lk_conv_unit *unit) {
	if (unit->heads > 0) {
		lk_build_window_backward(builder, unit);
		return;
	}
	if (unit->pool)
		conv_stream(builder, LK_OP_ELEMENTWISE, "pool_grad", width_elements(builder, unit), 2.25);
	if (unit->residual)
		conv_stream(builder, LK_OP_ELEMENTWISE, "residual_grad", width_elements(builder, unit), 3);
	if (unit->copies > 0)
		conv_stream(builder, LK_OP_ELEMENTWISE, "join_grad", width_elements(builder, unit),
		            unit->copies);
	squeeze_backward(builder, unit);
	scale_block(builder, unit, false);
	for (int i = unit->count; i-- > 0;) {
		conv_backward(builder, &unit->conv[i], true);
		if (i + 1 == unit->count) response_backward(builder, unit);
	}
}

/* A checkpointed layer keeps only its input. It may exceed all that the layer makes: the layer
 * before does not keep it. */
static void keep_input(lk_builder *builder, double input) {
	if (builder->saved >= input)
		lk_build_release(builder, builder->saved - input, LK_OWN_ACTIVATIONS);
	else lk_build_save(builder, input - builder->saved, LK_OWN_ACTIVATIONS);
}

void lk_build_conv_layer(lk_builder *builder, int layer, lk_block_pass pass) {
	LK_ASSERT(builder->model->network == LK_NET_CONV);
	lk_conv_unit u = lk_convnet_unit(builder->model, layer);
	bool again = pass == LK_BLOCK_BACKWARD_CHECKPOINT;
	if (again) builder->phase = LK_PHASE_RECOMPUTE;
	if (again || pass == LK_BLOCK_FORWARD || pass == LK_BLOCK_FORWARD_CHECKPOINT)
		unit_forward(builder, &u);
	if (again) builder->phase = LK_PHASE_BACKWARD;
	if (pass == LK_BLOCK_FORWARD_CHECKPOINT)
		keep_input(builder, builder->bytes * elements_in(builder, &u.conv[0]));
	if (again || pass == LK_BLOCK_BACKWARD) unit_backward(builder, &u);
	if (again)
		lk_build_release(builder, builder->bytes * elements_in(builder, &u.conv[0]),
		                 LK_OWN_ACTIVATIONS);
}

/* ---- the ends ---- */

static double stem_pooled(const lk_builder *builder, const lk_conv *stem) {
	return builder->model->conv.stem_pool ? conv_elements_out(builder, stem) : 0;
}

void lk_build_conv_stem(lk_builder *builder, bool forward) {
	lk_conv stem = lk_convnet_stem(builder->model);
	if (forward) {
		conv_forward(builder, &stem);
		if (stem_pooled(builder, &stem) > 0)
			conv_stream(builder, LK_OP_ELEMENTWISE, "pool", stem_pooled(builder, &stem), 1.25);
		lk_build_save(builder, builder->bytes * elements_in(builder, &stem), LK_OWN_ACTIVATIONS);
		return;
	}
	if (stem_pooled(builder, &stem) > 0)
		conv_stream(builder, LK_OP_ELEMENTWISE, "pool_grad", stem_pooled(builder, &stem), 2.25);
	conv_backward(builder, &stem, false);
	lk_build_release(builder, builder->bytes * elements_in(builder, &stem), LK_OWN_ACTIVATIONS);
}

/* The fully connected layers, the last with one column per class; or one map per class, whose mean
 * counts. */
static void classifier(lk_builder *builder, bool forward) {
	const lk_convnet *net = &builder->model->conv;
	lk_conv top = lk_convnet_top(builder->model);
	double in = lk_convnet_features(builder->model),
		   rows = net->class_maps ? pixels_out(builder, &top) : images(builder);
	for (int i = 0; i <= net->dense_count; i++) {
		double out = i < net->dense_count ? net->dense[i] : net->classes;
		if (forward) {
			lk_build_gemm(builder, "classifier", rows, out, in);
		} else {
			lk_build_gemm(builder, "classifier_input_grad", rows, in, out);
			lk_build_gemm(builder, "classifier_weight_grad", out, in, rows);
		}
		in = out;
	}
}

static double conv_pooled(const lk_builder *builder) {
	lk_conv top = lk_convnet_top(builder->model);
	return pixels_out(builder, &top) * (builder->model->conv.top ? top.out : top.in);
}

void lk_build_conv_head(lk_builder *builder, bool forward) {
	lk_conv top = lk_convnet_top(builder->model);
	double classes = images(builder) * builder->model->conv.classes;
	if (forward) {
		if (builder->model->conv.top) conv_forward(builder, &top);
		conv_stream(builder, LK_OP_NORM, "average_pool", conv_pooled(builder), 1);
		classifier(builder, true);
		conv_stream(builder, LK_OP_LOSS, "cross_entropy", classes, 4);
		return;
	}
	conv_stream(builder, LK_OP_LOSS, "cross_entropy_grad", classes, 3);
	classifier(builder, false);
	conv_stream(builder, LK_OP_ELEMENTWISE, "average_pool_grad", conv_pooled(builder), 1);
	if (builder->model->conv.top) conv_backward(builder, &top, true);
}
