/* build_conv.c: blocks of convolution nets. A convolution is its implicit product; batch norms and activations stream.
 *
 * Passes over memory, by what kernels of cuDNN and PyTorch read and write: a batch norm reads its input twice (statistics,
 * then result) and writes once; its backward reads input and gradient twice and writes once; an activation reads and writes,
 * backward reads two and writes one. torch.compile folds activations into their norms. Kept for the backward pass are the
 * input of each convolution and of each norm.
 */
#include "model/build/build.h"
#include "model/network/model.h"

static double images(const lk_builder *b) {
	return b->job->mbs;
}

static double pixels_out(const lk_builder *b, const lk_conv *c) {
	return images(b) * c->side_out * c->side_out;
}

static double elements_in(const lk_builder *b, const lk_conv *c) {
	return images(b) * c->side_in * c->side_in * c->in;
}

static double elements_out(const lk_builder *b, const lk_conv *c) {
	return pixels_out(b, c) * c->out;
}

static void stream(lk_builder *b, unsigned kind, const char *name, double elements, double passes) {
	lk_build_memory(b, kind, name, b->bytes * elements * passes);
}

/* ---- one convolution ---- */

static bool is_depthwise(const lk_conv *c) {
	return c->groups == c->in && c->groups > 1;
}

static double window(const lk_conv *c) {
	return c->kernel * c->kernel;
}

/* Windows of 3 x 3 at stride 1: libraries have faster ways than the product (src/cost/kernel/conv.c). */
static bool filters_minimally(const lk_conv *c) {
	return c->kernel == 3 && c->groups == 1 && c->side_in == c->side_out;
}

/* As a product m x n x k in each of the groups. Depthwise ones have no product worth the name: they stream. */
static void product(lk_builder *b, const lk_conv *c, const char *name, double m, double n, double k) {
	if (is_depthwise(c)) {
		stream(b, LK_OP_ELEMENTWISE, name, elements_in(b, c) + elements_out(b, c), 1);
		return;
	}
	lk_build_gemm_batch(b, name, m, n, k, c->groups);
	lk_ops *ops = &b->graph->ops;
	if (!ops->count) return;
	ops->kind[ops->count - 1] = LK_OP_CONV;
	if (filters_minimally(c)) ops->window[ops->count - 1] = c->side_out;
	/* each pixel is read once from memory, not once for each window that it lies in */
	ops->bytes[ops->count - 1] = b->bytes * (elements_in(b, c) + elements_out(b, c) + c->out * c->in / c->groups * c->kernel * c->kernel);
}

/* The gradient of the input is a convolution with as many windows where the stride is 1. */
static void input_grad(lk_builder *b, const lk_conv *c) {
	double in = c->in / c->groups, out = c->out / c->groups, inside = filters_minimally(c) ? window(c) : 1;
	product(b, c, "conv_input_grad", pixels_out(b, c), in * window(c) / inside, out * inside);
}

static void weight_grad(lk_builder *b, const lk_conv *c) {
	product(b, c, "conv_weight_grad", c->out / c->groups, c->in / c->groups * window(c), pixels_out(b, c));
	lk_ops *ops = &b->graph->ops;
	if (ops->count && ops->kind[ops->count - 1] == LK_OP_CONV) ops->flags[ops->count - 1] |= LK_OP_SUMS_PIXELS;
}

static bool activates(const lk_builder *b, const lk_conv *c) {
	return c->active && !(b->job->compile && b->model->conv.norm);
}

/* Of the convolution's output: the norm's input, where there is a norm. Its result is the input of what follows, which
 * keeps it. */
static double kept(const lk_builder *b, const lk_conv *c) {
	return b->bytes * elements_out(b, c) * (b->model->conv.norm ? 2 : 1);
}

static void conv_forward(lk_builder *b, const lk_conv *c) {
	product(b, c, "conv", pixels_out(b, c), c->out / c->groups, c->in / c->groups * window(c));
	if (b->model->conv.norm) {
		stream(b, LK_OP_NORM, "batch_norm_statistics", elements_out(b, c), 1);
		stream(b, LK_OP_ELEMENTWISE, "batch_norm", elements_out(b, c), 2);
	}
	if (activates(b, c)) stream(b, LK_OP_ELEMENTWISE, "activation", elements_out(b, c), 2);
	lk_build_save(b, kept(b, c), LK_OWN_ACTIVATIONS);
}

static void conv_backward(lk_builder *b, const lk_conv *c, bool input) {
	if (activates(b, c)) stream(b, LK_OP_ELEMENTWISE, "activation_grad", elements_out(b, c), 3);
	if (b->model->conv.norm) {
		stream(b, LK_OP_NORM, "batch_norm_sums", elements_out(b, c), 2);
		stream(b, LK_OP_ELEMENTWISE, "batch_norm_grad", elements_out(b, c), 3);
	}
	if (input) input_grad(b, c);
	weight_grad(b, c);
	lk_build_scratch(b, b->bytes * (elements_in(b, c) + elements_out(b, c)), LK_OWN_WORKSPACE);
	lk_build_release(b, kept(b, c), LK_OWN_ACTIVATIONS);
}

/* ---- a block ---- */

static double width_elements(const lk_builder *b, const lk_conv_unit *u) {
	return images(b) * u->side * u->side * u->width;
}

/* What the excitation scales: the channels within a bottleneck's output or an inverted block's waist. */
static double squeezed(const lk_builder *b, const lk_conv_unit *u) {
	const lk_conv *before = &u->conv[u->count - 1 - u->shortcut - (u->squeeze_in != u->width)];
	return images(b) * before->side_out * before->side_out * u->squeeze_in;
}

static void squeeze_forward(lk_builder *b, const lk_conv_unit *u) {
	if (u->squeeze <= 0) return;
	stream(b, LK_OP_NORM, "squeeze", squeezed(b, u), 1);
	lk_build_gemm(b, "squeeze_in", images(b), u->squeeze, u->squeeze_in);
	lk_build_gemm(b, "squeeze_out", images(b), u->squeeze_in, u->squeeze);
	stream(b, LK_OP_ELEMENTWISE, "excite", squeezed(b, u), 2);
	lk_build_save(b, b->bytes * squeezed(b, u), LK_OWN_ACTIVATIONS);
}

static void squeeze_backward(lk_builder *b, const lk_conv_unit *u) {
	if (u->squeeze <= 0) return;
	stream(b, LK_OP_ELEMENTWISE, "excite_grad", squeezed(b, u), 5);
	for (int i = 0; i < 2; i++) {
		lk_build_gemm(b, "squeeze_out_grad", images(b), u->squeeze, u->squeeze_in);
		lk_build_gemm(b, "squeeze_in_grad", images(b), u->squeeze_in, u->squeeze);
	}
	lk_build_release(b, b->bytes * squeezed(b, u), LK_OWN_ACTIVATIONS);
}

static void unit_forward(lk_builder *b, const lk_conv_unit *u) {
	for (int i = 0; i < u->count; i++) conv_forward(b, &u->conv[i]);
	squeeze_forward(b, u);
	if (u->residual) stream(b, LK_OP_ELEMENTWISE, "residual", width_elements(b, u), 3);
	if (u->copies > 0) stream(b, LK_OP_ELEMENTWISE, "join", width_elements(b, u), u->copies);
	if (u->pool) stream(b, LK_OP_ELEMENTWISE, "pool", width_elements(b, u), 1.25);
}

static void unit_backward(lk_builder *b, const lk_conv_unit *u) {
	if (u->pool) stream(b, LK_OP_ELEMENTWISE, "pool_grad", width_elements(b, u), 2.25);
	if (u->residual) stream(b, LK_OP_ELEMENTWISE, "residual_grad", width_elements(b, u), 3);
	if (u->copies > 0) stream(b, LK_OP_ELEMENTWISE, "join_grad", width_elements(b, u), u->copies);
	squeeze_backward(b, u);
	for (int i = u->count; i-- > 0;) conv_backward(b, &u->conv[i], true);
}

/* Checkpointed, a layer's input alone stays. It may be more than all that the layer makes: the layer before does not keep it. */
static void keep_input(lk_builder *b, double input) {
	if (b->saved >= input) lk_build_release(b, b->saved - input, LK_OWN_ACTIVATIONS);
	else lk_build_save(b, input - b->saved, LK_OWN_ACTIVATIONS);
}

void lk_build_conv_layer(lk_builder *b, int layer, lk_block_pass pass) {
	lk_conv_unit u = lk_convnet_unit(b->model, layer);
	bool again = pass == LK_BLOCK_BACKWARD_CHECKPOINT;
	if (again) b->phase = LK_PHASE_RECOMPUTE;
	if (again || pass == LK_BLOCK_FORWARD || pass == LK_BLOCK_FORWARD_CHECKPOINT) unit_forward(b, &u);
	if (again) b->phase = LK_PHASE_BACKWARD;
	if (pass == LK_BLOCK_FORWARD_CHECKPOINT) keep_input(b, b->bytes * elements_in(b, &u.conv[0]));
	if (again || pass == LK_BLOCK_BACKWARD) unit_backward(b, &u);
	if (again) lk_build_release(b, b->bytes * elements_in(b, &u.conv[0]), LK_OWN_ACTIVATIONS);
}

/* ---- the ends ---- */

static double stem_pooled(const lk_builder *b, const lk_conv *stem) {
	return b->model->conv.stem_pool ? elements_out(b, stem) : 0;
}

void lk_build_conv_stem(lk_builder *b, bool forward) {
	lk_conv stem = lk_convnet_stem(b->model);
	if (forward) {
		conv_forward(b, &stem);
		if (stem_pooled(b, &stem) > 0) stream(b, LK_OP_ELEMENTWISE, "pool", stem_pooled(b, &stem), 1.25);
		lk_build_save(b, b->bytes * elements_in(b, &stem), LK_OWN_ACTIVATIONS);
		return;
	}
	if (stem_pooled(b, &stem) > 0) stream(b, LK_OP_ELEMENTWISE, "pool_grad", stem_pooled(b, &stem), 2.25);
	conv_backward(b, &stem, false);
	lk_build_release(b, b->bytes * elements_in(b, &stem), LK_OWN_ACTIVATIONS);
}

/* The fully connected layers, of which the last has a column for each class; or a map for each, of which the mean counts. */
static void classifier(lk_builder *b, bool forward) {
	const lk_convnet *net = &b->model->conv;
	lk_conv top = lk_convnet_top(b->model);
	double in = lk_convnet_features(b->model), rows = net->class_maps ? pixels_out(b, &top) : images(b);
	for (int i = 0; i <= net->dense_count; i++) {
		double out = i < net->dense_count ? net->dense[i] : net->classes;
		if (forward) {
			lk_build_gemm(b, "classifier", rows, out, in);
		} else {
			lk_build_gemm(b, "classifier_input_grad", rows, in, out);
			lk_build_gemm(b, "classifier_weight_grad", out, in, rows);
		}
		in = out;
	}
}

static double pooled(const lk_builder *b) {
	lk_conv top = lk_convnet_top(b->model);
	return pixels_out(b, &top) * (b->model->conv.top ? top.out : top.in);
}

void lk_build_conv_head(lk_builder *b, bool forward) {
	lk_conv top = lk_convnet_top(b->model);
	double classes = images(b) * b->model->conv.classes;
	if (forward) {
		if (b->model->conv.top) conv_forward(b, &top);
		stream(b, LK_OP_NORM, "average_pool", pooled(b), 1);
		classifier(b, true);
		stream(b, LK_OP_LOSS, "cross_entropy", classes, 4);
		return;
	}
	stream(b, LK_OP_LOSS, "cross_entropy_grad", classes, 3);
	classifier(b, false);
	stream(b, LK_OP_ELEMENTWISE, "average_pool_grad", pooled(b), 1);
	if (b->model->conv.top) conv_backward(b, &top, true);
}
