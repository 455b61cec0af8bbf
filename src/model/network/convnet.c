/* convnet.c: what the layers of a convolution net are, their parameters and their work. Windows that overhang the image are
 * padded: a stride s leaves ceil(side / s) pixels. */
#include "model/network/model.h"

#include <math.h>

/* ---- shapes ---- */

static double strided(double side, double stride) {
	return ceil(side / stride);
}

static lk_conv conv(double in, double out, double kernel, double groups, double side, double stride, bool active) {
	return (lk_conv){in, out, kernel, groups, side, strided(side, stride), active};
}

lk_conv lk_convnet_stem(const lk_model *m) {
	return conv(m->channels, m->conv.stem_width, m->conv.stem_kernel, 1, m->image, m->conv.stem_stride, true);
}

/* Channels and side that a stage takes. */
static void into_stage(const lk_model *m, int stage, double *in, double *side) {
	const lk_convnet *c = &m->conv;
	*in = c->stem_width;
	*side = strided(strided(m->image, c->stem_stride), c->stem_pool ? 2 : 1);
	for (int s = 0; s < stage; s++) {
		*in = c->stage[s].width;
		*side = strided(strided(*side, c->stage[s].stride), c->stage[s].pool ? 2 : 1);
	}
}

static void plain(const lk_conv_stage *s, double in, double side, double stride, lk_conv_unit *u) {
	u->conv[u->count++] = conv(in, s->width, s->kernel, s->groups, side, stride, true);
}

static void add_shortcut(const lk_conv_stage *s, double in, double side, double stride, lk_conv_unit *u) {
	u->residual = true;
	if (stride == 1 && in == s->width) return;
	u->shortcut = true;
	u->conv[u->count++] = conv(in, s->width, 1, 1, side, stride, false);
}

static void basic(const lk_conv_stage *s, double in, double side, double stride, lk_conv_unit *u) {
	u->conv[u->count++] = conv(in, s->width, s->kernel, s->groups, side, stride, true);
	u->conv[u->count++] = conv(s->width, s->width, s->kernel, s->groups, u->side, 1, false);
	add_shortcut(s, in, side, stride, u);
}

static void bottleneck(const lk_conv_stage *s, double in, double side, double stride, lk_conv_unit *u) {
	u->conv[u->count++] = conv(in, s->inner, 1, 1, side, 1, true);
	u->conv[u->count++] = conv(s->inner, s->inner, s->kernel, s->groups, side, stride, true);
	u->conv[u->count++] = conv(s->inner, s->width, 1, 1, u->side, 1, false);
	if (s->squeeze) u->squeeze_in = s->width, u->squeeze = floor((double)s->width / s->squeeze);
	add_shortcut(s, in, side, stride, u);
}

/* The waist of squeeze-and-excitation is of the channels that came in (EfficientNet). */
static void inverted(const lk_conv_stage *s, double in, double side, double stride, lk_conv_unit *u) {
	double inner = in * s->expand;
	if (s->expand > 1) u->conv[u->count++] = conv(in, inner, 1, 1, side, 1, true);
	u->conv[u->count++] = conv(inner, inner, s->kernel, inner, side, stride, true);
	u->conv[u->count++] = conv(inner, s->width, 1, 1, u->side, 1, false);
	if (s->squeeze) u->squeeze_in = inner, u->squeeze = fmax(1, floor(in / s->squeeze));
	u->residual = stride == 1 && in == s->width;
}

/* Where the image is halved, both branches see all channels. */
static void shuffle(const lk_conv_stage *s, double in, double side, double stride, lk_conv_unit *u) {
	double half = s->width / 2.0, from = stride > 1 ? in : half;
	if (stride > 1) {
		u->conv[u->count++] = conv(in, in, s->kernel, in, side, stride, false);
		u->conv[u->count++] = conv(in, half, 1, 1, u->side, 1, true);
	}
	u->conv[u->count++] = conv(from, half, 1, 1, side, 1, true);
	u->conv[u->count++] = conv(half, half, s->kernel, half, side, stride, false);
	u->conv[u->count++] = conv(half, half, 1, 1, u->side, 1, true);
	u->copies = 4;
}

static void fire(const lk_conv_stage *s, double in, double side, lk_conv_unit *u) {
	double half = s->width / 2.0;
	u->conv[u->count++] = conv(in, s->inner, 1, 1, side, 1, true);
	u->conv[u->count++] = conv(s->inner, half, 1, 1, side, 1, true);
	u->conv[u->count++] = conv(s->inner, half, s->kernel, 1, side, 1, true);
	u->copies = 2;
}

lk_conv_unit lk_convnet_unit(const lk_model *m, int layer) {
	int stage = 0, index = layer;
	while (stage + 1 < m->conv.stages && index >= m->conv.stage[stage].repeat) index -= m->conv.stage[stage++].repeat;
	const lk_conv_stage *s = &m->conv.stage[stage];
	double in, side, stride = index == 0 ? s->stride : 1;
	into_stage(m, stage, &in, &side);
	if (index > 0) side = strided(side, s->stride), in = s->width;
	lk_conv_unit u = {.width = s->width, .side = strided(side, stride)};
	switch (s->block) {
	case LK_CONV_PLAIN: plain(s, in, side, stride, &u); break;
	case LK_CONV_BASIC: basic(s, in, side, stride, &u); break;
	case LK_CONV_BOTTLENECK: bottleneck(s, in, side, stride, &u); break;
	case LK_CONV_SHUFFLE: shuffle(s, in, side, stride, &u); break;
	case LK_CONV_FIRE: fire(s, in, side, &u); break;
	default: inverted(s, in, side, stride, &u);
	}
	u.pool = s->pool && index == s->repeat - 1;
	u.kind = 3 * stage + (u.pool && index > 0 ? 2 : index > 0);
	return u;
}

static double last_width(const lk_model *m) {
	return m->conv.stage[m->conv.stages - 1].width;
}

lk_conv lk_convnet_top(const lk_model *m) {
	double in, side;
	into_stage(m, m->conv.stages, &in, &side);
	return conv(last_width(m), m->conv.top, 1, 1, side, 1, true);
}

double lk_convnet_features(const lk_model *m) {
	return (m->conv.top ? m->conv.top : last_width(m)) * m->conv.pool_side * m->conv.pool_side;
}

/* ---- parameters ---- */

double lk_convnet_conv_params(const lk_model *m, const lk_conv *c) {
	return c->out * c->in / c->groups * c->kernel * c->kernel + (m->conv.norm ? 0 : c->out);
}

double lk_convnet_norm_params(const lk_model *m, const lk_conv *c) {
	return m->conv.norm ? 2 * c->out : 0;
}

double lk_convnet_unit_matrices(const lk_model *m, const lk_conv_unit *u) {
	double sum = u->squeeze > 0 ? 2 * u->squeeze_in * u->squeeze + u->squeeze + u->squeeze_in : 0;
	for (int i = 0; i < u->count; i++) sum += lk_convnet_conv_params(m, &u->conv[i]);
	return sum;
}

double lk_convnet_unit_norms(const lk_model *m, const lk_conv_unit *u) {
	double sum = 0;
	for (int i = 0; i < u->count; i++) sum += lk_convnet_norm_params(m, &u->conv[i]);
	return sum;
}

double lk_convnet_stem_params(const lk_model *m) {
	lk_conv stem = lk_convnet_stem(m);
	return lk_convnet_conv_params(m, &stem) + lk_convnet_norm_params(m, &stem);
}

static double dense_params(const lk_model *m, bool biases) {
	double in = lk_convnet_features(m), sum = 0;
	for (int i = 0; i < m->conv.dense_count; i++) {
		sum += (in + biases) * m->conv.dense[i];
		in = m->conv.dense[i];
	}
	return sum + (in + biases) * m->conv.classes;
}

double lk_convnet_head_params(const lk_model *m) {
	lk_conv top = lk_convnet_top(m);
	double sum = dense_params(m, true);
	return m->conv.top ? sum + lk_convnet_conv_params(m, &top) + lk_convnet_norm_params(m, &top) : sum;
}

/* A weight, and a bias or the two of a norm. */
static double conv_tensors(const lk_model *m) {
	return m->conv.norm ? 3 : 2;
}

double lk_convnet_unit_tensors(const lk_model *m, const lk_conv_unit *u) {
	return u->count * conv_tensors(m) + (u->squeeze > 0 ? 4 : 0);
}

double lk_convnet_stem_tensors(const lk_model *m) {
	return conv_tensors(m);
}

double lk_convnet_head_tensors(const lk_model *m) {
	return 2 * (m->conv.dense_count + 1) + (m->conv.top ? conv_tensors(m) : 0);
}

/* ---- work ---- */

static double conv_macs(const lk_conv *c) {
	return c->out * c->in / c->groups * c->kernel * c->kernel * c->side_out * c->side_out;
}

double lk_convnet_macs(const lk_model *m) {
	lk_conv stem = lk_convnet_stem(m), top = lk_convnet_top(m);
	double pixels = m->conv.class_maps ? top.side_out * top.side_out : 1;
	double sum = conv_macs(&stem) + dense_params(m, false) * pixels + (m->conv.top ? conv_macs(&top) : 0);
	for (int layer = 0; layer < m->layers; layer++) {
		lk_conv_unit u = lk_convnet_unit(m, layer);
		for (int i = 0; i < u.count; i++) sum += conv_macs(&u.conv[i]);
		sum += 2 * u.squeeze_in * u.squeeze;
	}
	return sum;
}
