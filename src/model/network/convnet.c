/* convnet.c: the layers of a convolution net, their parameters and their work. Windows that
 * overhang the image are padded: a stride s leaves ceil(side / s) pixels. */
#include "model/network/model.h"
#include "base/check.h"

#include <math.h>

/* ---- shapes ---- */

static double convnet_strided(double side, double stride) {
	LK_ASSERT(stride > 0);
	return ceil(side / stride);
}

static lk_conv conv(double in, double out, double kernel, double groups, double side, double stride,
                    bool active) {
	return (lk_conv){.in = in,
	                 .out = out,
	                 .kernel = kernel,
	                 .groups = groups,
	                 .side_in = side,
	                 .side_out = convnet_strided(side, stride),
	                 .active = active};
}

lk_conv lk_convnet_stem(const lk_model *model) {
	return conv(model->channels, model->conv.stem_width, model->conv.stem_kernel, 1, model->image,
	            model->conv.stem_stride, true);
}

/* Input channels and side of a stage. */
static void into_stage(const lk_model *model, int stage, double *in, double *side) {
	LK_ASSERT(stage >= 0 && stage < LK_CONV_STAGES);
	const lk_convnet *convnet = &model->conv;
	*in = convnet->stem_width;
	*side = convnet_strided(convnet_strided(model->image, convnet->stem_stride),
	                        convnet->stem_pool ? 2 : 1);
	for (int s = 0; s < stage; s++) {
		*in = convnet->stage[s].width;
		*side = convnet_strided(convnet_strided(*side, convnet->stage[s].stride),
		                        convnet->stage[s].pool ? 2 : 1);
	}
}

static void convnet_plain(const lk_conv_stage *stage, double in, double side, double stride,
                          lk_conv_unit *unit) {
	unit->conv[unit->count++] =
		conv(in, stage->width, stage->kernel, stage->groups, side, stride, true);
}

static void add_shortcut(const lk_conv_stage *stage, double in, double side, double stride,
                         lk_conv_unit *unit) {
	unit->residual = true;
	if (stride == 1 && in == stage->width) return;
	unit->shortcut = true;
	unit->conv[unit->count++] = conv(in, stage->width, 1, 1, side, stride, false);
}

static void basic(const lk_conv_stage *stage, double in, double side, double stride,
                  lk_conv_unit *unit) {
	unit->conv[unit->count++] =
		conv(in, stage->width, stage->kernel, stage->groups, side, stride, true);
	unit->conv[unit->count++] =
		conv(stage->width, stage->width, stage->kernel, stage->groups, unit->side, 1, false);
	add_shortcut(stage, in, side, stride, unit);
}

static void bottleneck(const lk_conv_stage *stage, double in, double side, double stride,
                       lk_conv_unit *unit) {
	unit->conv[unit->count++] = conv(in, stage->inner, 1, 1, side, 1, true);
	unit->conv[unit->count++] =
		conv(stage->inner, stage->inner, stage->kernel, stage->groups, side, stride, true);
	unit->conv[unit->count++] = conv(stage->inner, stage->width, 1, 1, unit->side, 1, false);
	if (stage->squeeze) {
		unit->squeeze_in = stage->width;
		unit->squeeze = floor((double)stage->width / stage->squeeze);
	}
	add_shortcut(stage, in, side, stride, unit);
}

/* The waist of squeeze-and-excitation is relative to the input channels (EfficientNet). */
static void inverted(const lk_conv_stage *stage, double in, double side, double stride,
                     lk_conv_unit *unit) {
	double inner = in * stage->expand;
	if (stage->expand > 1) unit->conv[unit->count++] = conv(in, inner, 1, 1, side, 1, true);
	unit->conv[unit->count++] = conv(inner, inner, stage->kernel, inner, side, stride, true);
	unit->conv[unit->count++] = conv(inner, stage->width, 1, 1, unit->side, 1, false);
	if (stage->squeeze) {
		unit->squeeze_in = inner;
		unit->squeeze = fmax(1, floor(in / stage->squeeze));
	}
	unit->residual = stride == 1 && in == stage->width;
}

/* If the image is halved, both branches see all channels. */
static void convnet_shuffle(const lk_conv_stage *stage, double in, double side, double stride,
                            lk_conv_unit *unit) {
	double half = stage->width / 2.0, from = stride > 1 ? in : half;
	if (stride > 1) {
		unit->conv[unit->count++] = conv(in, in, stage->kernel, in, side, stride, false);
		unit->conv[unit->count++] = conv(in, half, 1, 1, unit->side, 1, true);
	}
	unit->conv[unit->count++] = conv(from, half, 1, 1, side, 1, true);
	unit->conv[unit->count++] = conv(half, half, stage->kernel, half, side, stride, false);
	unit->conv[unit->count++] = conv(half, half, 1, 1, unit->side, 1, true);
	unit->copies = 4;
}

static void convnet_fire(const lk_conv_stage *stage, double in, double side, lk_conv_unit *unit) {
	double half = stage->width / 2.0;
	unit->conv[unit->count++] = conv(in, stage->inner, 1, 1, side, 1, true);
	unit->conv[unit->count++] = conv(stage->inner, half, 1, 1, side, 1, true);
	unit->conv[unit->count++] = conv(stage->inner, half, stage->kernel, 1, side, 1, true);
	unit->copies = 2;
}

/* Attention and MLP as products over pixels, after the one that merges 2 x 2 of them. */
static void convnet_window(const lk_conv_stage *stage, double in, double side, double stride,
                           lk_conv_unit *unit) {
	double width = stage->width, here = unit->side;
	if (stride > 1) {
		unit->conv[unit->count] = conv(in, width, 2, 1, side, stride, false);
		unit->conv[unit->count++].plain = true;
	}
	unit->conv[unit->count++] = conv(width, 3 * width, 1, 1, here, 1, false);
	unit->conv[unit->count++] = conv(width, width, 1, 1, here, 1, false);
	unit->conv[unit->count++] = conv(width, stage->inner, 1, 1, here, 1, true);
	unit->conv[unit->count++] = conv(stage->inner, width, 1, 1, here, 1, false);
	unit->heads = stage->heads;
	unit->window = fmin(stage->window, here);
}

/* Before the first block of every stage but the first, 2 x 2 pixels are merged. */
static void convnet_next(const lk_conv_stage *stage, double in, double side, double stride,
                         lk_conv_unit *unit) {
	double width = stage->width, here = unit->side;
	if (stride > 1) {
		unit->conv[unit->count] = conv(in, width, 2, 1, side, stride, false);
		unit->conv[unit->count++].layer_norm = true;
	}
	unit->conv[unit->count++] = conv(width, width, stage->kernel, width, here, 1, false);
	unit->conv[unit->count] = conv(width, stage->inner, 1, 1, here, 1, true);
	unit->conv[unit->count++].layer_norm = true;
	unit->conv[unit->count++] = conv(stage->inner, width, 1, 1, here, 1, false);
	unit->residual = true;
	unit->scale = stage->layer_scale ? width : 0;
	unit->response = stage->response_norm ? stage->inner : 0;
}

lk_conv_unit lk_convnet_unit(const lk_model *model, int layer) {
	LK_ASSERT(layer >= 0 && model->conv.stages <= LK_CONV_STAGES);
	int stage = 0, index = layer;
	while (stage + 1 < model->conv.stages && index >= model->conv.stage[stage].repeat)
		index -= model->conv.stage[stage++].repeat;
	const lk_conv_stage *conv_stage = &model->conv.stage[stage];
	double in, side, stride = index == 0 ? conv_stage->stride : 1;
	into_stage(model, stage, &in, &side);
	if (index > 0) {
		side = convnet_strided(side, conv_stage->stride);
		in = conv_stage->width;
	}
	lk_conv_unit u = {.width = conv_stage->width, .side = convnet_strided(side, stride)};
	switch (conv_stage->block) {
	case LK_CONV_PLAIN: convnet_plain(conv_stage, in, side, stride, &u); break;
	case LK_CONV_BASIC: basic(conv_stage, in, side, stride, &u); break;
	case LK_CONV_BOTTLENECK: bottleneck(conv_stage, in, side, stride, &u); break;
	case LK_CONV_SHUFFLE: convnet_shuffle(conv_stage, in, side, stride, &u); break;
	case LK_CONV_WINDOW: convnet_window(conv_stage, in, side, stride, &u); break;
	case LK_CONV_NEXT: convnet_next(conv_stage, in, side, stride, &u); break;
	case LK_CONV_FIRE: convnet_fire(conv_stage, in, side, &u); break;
	default: inverted(conv_stage, in, side, stride, &u);
	}
	u.pool = conv_stage->pool && index == conv_stage->repeat - 1;
	u.kind = 3 * stage + (u.pool && index > 0 ? 2 : index > 0);
	return u;
}

static double last_width(const lk_model *model) {
	return model->conv.stage[model->conv.stages - 1].width;
}

lk_conv lk_convnet_top(const lk_model *model) {
	double in, side;
	into_stage(model, model->conv.stages, &in, &side);
	return conv(last_width(model), model->conv.top, 1, 1, side, 1, true);
}

double lk_convnet_features(const lk_model *model) {
	return (model->conv.top ? model->conv.top : last_width(model)) * model->conv.pool_side *
	       model->conv.pool_side;
}

/* ---- parameters ---- */

/* Norms with scale and bias in networks with layer norms: after the stem and before the
 * classifier. */
static double end_norm(const lk_model *model, double width) {
	int block = model->conv.stage[0].block;
	return block == LK_CONV_WINDOW || block == LK_CONV_NEXT ? 2 * width : 0;
}

double lk_convnet_conv_params(const lk_model *model, const lk_conv *conv) {
	return conv->out * conv->in / conv->groups * conv->kernel * conv->kernel +
	       (model->conv.norm || conv->plain ? 0 : conv->out);
}

double lk_convnet_norm_params(const lk_model *model, const lk_conv *conv) {
	return model->conv.norm ? 2 * conv->out : 0;
}

double lk_convnet_unit_matrices(const lk_model *model, const lk_conv_unit *unit) {
	double sum = unit->squeeze > 0
	                 ? 2 * unit->squeeze_in * unit->squeeze + unit->squeeze + unit->squeeze_in
	                 : 0;
	for (int i = 0; i < unit->count; i++) sum += lk_convnet_conv_params(model, &unit->conv[i]);
	double distances = 2 * unit->window - 1; /* one bias per distance and head */
	if (unit->heads > 0) sum += distances * distances * unit->heads;
	return sum;
}

double lk_convnet_unit_norms(const lk_model *model, const lk_conv_unit *unit) {
	double sum = 0;
	if (unit->heads > 0) /* before both halves, and of the merged pixels */
		return 4 * unit->width + (unit->count > 4 ? 2 * 4 * unit->conv[0].in : 0);
	for (int i = 0; i < unit->count; i++)
		sum += lk_convnet_norm_params(model, &unit->conv[i]) +
		       (unit->conv[i].layer_norm ? 2 * unit->conv[i].in : 0);
	return sum + unit->scale + 2 * unit->response;
}

double lk_convnet_stem_params(const lk_model *model) {
	lk_conv stem = lk_convnet_stem(model);
	return lk_convnet_conv_params(model, &stem) + lk_convnet_norm_params(model, &stem) +
	       end_norm(model, stem.out);
}

static double dense_params(const lk_model *model, bool biases) {
	double in = lk_convnet_features(model), sum = 0;
	for (int i = 0; i < model->conv.dense_count; i++) {
		sum += (in + biases) * model->conv.dense[i];
		in = model->conv.dense[i];
	}
	return sum + (in + biases) * model->conv.classes;
}

double lk_convnet_head_params(const lk_model *model) {
	lk_conv top = lk_convnet_top(model);
	double sum = dense_params(model, true) + end_norm(model, last_width(model));
	return model->conv.top
	           ? sum + lk_convnet_conv_params(model, &top) + lk_convnet_norm_params(model, &top)
	           : sum;
}

/* One weight, and one bias or the two parameters of a norm. */
static double conv_tensors(const lk_model *model) {
	return model->conv.norm ? 3 : 2;
}

double lk_convnet_unit_tensors(const lk_model *model, const lk_conv_unit *unit) {
	if (unit->heads > 0) return 13 + (unit->count > 4 ? 3 : 0);
	double sum = unit->count * conv_tensors(model) + (unit->squeeze > 0 ? 4 : 0) +
	             (unit->scale > 0 ? 1 : 0) + (unit->response > 0 ? 2 : 0);
	for (int i = 0; i < unit->count; i++) sum += unit->conv[i].layer_norm ? 2 : 0;
	return sum;
}

double lk_convnet_stem_tensors(const lk_model *model) {
	return conv_tensors(model);
}

double lk_convnet_head_tensors(const lk_model *model) {
	return 2 * (model->conv.dense_count + 1) + (model->conv.top ? conv_tensors(model) : 0);
}

/* ---- work ---- */

static double conv_macs(const lk_conv *conv) {
	return conv->out * conv->in / conv->groups * conv->kernel * conv->kernel * conv->side_out *
	       conv->side_out;
}

double lk_convnet_stem_macs(const lk_model *model) {
	lk_conv stem = lk_convnet_stem(model);
	return conv_macs(&stem);
}

double lk_convnet_macs(const lk_model *model) {
	lk_conv stem = lk_convnet_stem(model), top = lk_convnet_top(model);
	double pixels = model->conv.class_maps ? top.side_out * top.side_out : 1;
	double sum = conv_macs(&stem) + dense_params(model, false) * pixels +
	             (model->conv.top ? conv_macs(&top) : 0);
	for (int layer = 0; layer < model->layers; layer++) {
		lk_conv_unit u = lk_convnet_unit(model, layer);
		for (int i = 0; i < u.count; i++) sum += conv_macs(&u.conv[i]);
		sum += 2 * u.squeeze_in * u.squeeze;
		if (u.heads > 0) /* scores and weighted values */
			sum += 2 * u.window * u.window * u.width * u.side * u.side;
	}
	return sum;
}
