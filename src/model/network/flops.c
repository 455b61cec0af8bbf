/* flops.c: floating-point operations of a training step's matrix multiplications, the numerator of
 * MFU. Per sequence of s tokens, forward and backward:
 *
 *     6 * s * (matrix parameters of a token)  +  6 * a * (d_qk + d_v) * (pairs of query and key)
 *
 * 6 = 2 operations per multiply-add, once forward and twice backward. Pairs are s*s, half of it
 * under a causal mask, s*w - w*w/2 within a causal window of w. This is
 * num_floating_point_operations of Megatron-LM's megatron/training/training.py, with two
 * differences: the router's matrix counts, low-rank norms do not. */
#include "model/network/model.h"

/* The same network without anything but matrices. */
static lk_model matrices_of(const lk_model *model) {
	lk_model m = *model;
	m.qkv_bias = m.out_bias = m.mlp_bias = m.head_bias = m.router_bias = m.expert_bias = false;
	m.norm_plain = true;
	m.attention_sinks = 0;
	m.relative_buckets = 0;
	return m;
}

/* Matrix parameters that one token meets in a layer. */
static double layer_matrices(const lk_model *model, int layer) {
	lk_layer_params p = lk_model_layer_params(model, layer);
	double chosen = model->experts > 0 ? (double)model->topk / model->experts : 0;
	return p.attention + p.mlp + p.router + p.experts * chosen;
}

static double head_matrices(const lk_model *model) {
	if (!model->lm_head) return 0;
	double width = model->embed_dim > 0 ? model->embed_dim : model->hidden;
	double project = model->embed_dim > 0 ? width * model->hidden : 0;
	return width * model->vocab + project;
}

double lk_model_head_flops(const lk_model *model, double seq) {
	return model->network == LK_NET_CONV ? 0 : 6 * seq * head_matrices(model);
}

static double causal_pairs(double s, double window) {
	if (window <= 0 || window >= s) return s * s / 2;
	return s * window - window * window / 2;
}

/* Pairs of query and key in a layer, cross-attention included. */
static double layer_pairs(const lk_model *model, int layer, double s) {
	double window = lk_model_window(model, layer);
	if (model->network == LK_NET_DECODER) return causal_pairs(s, window);
	if (model->network == LK_NET_ENCDEC && layer >= model->layers)
		return causal_pairs(s, window) + s * s;
	return window > 0 && window < s ? s * window : s * s;
}

static double pair_width(const lk_model *model) {
	if (model->attention == LK_ATTN_MLA)
		return (double)model->heads * (model->qk_nope + model->qk_rope + model->v_dim);
	return 2.0 * model->heads * model->head_dim;
}

/* Multi-token prediction: each module is one more layer like the last, a projection of two hidden
 * vectors to one, and the head (arXiv 2412.19437, section 2.2). */
static double mtp_flops(const lk_model *model, double s) {
	int last = model->layers - 1;
	double h = model->hidden,
		   matrices = layer_matrices(model, last) + 2 * h * h + head_matrices(model);
	return model->mtp_layers * 6 * (s * matrices + pair_width(model) * layer_pairs(model, last, s));
}

/* Work outside the layers that not every token has: patches (all but the class token), the pooler
 * (one token). */
static double edge_flops(const lk_model *model, double s) {
	double h = model->hidden, sum = 0;
	if (model->image > 0) sum += (s - 1) * model->patch * model->patch * model->channels * h;
	if (model->pooler) sum += h * h;
	if (model->embed_dim > 0) sum += s * model->embed_dim * h;
	return 6 * sum;
}

double lk_model_flops(const lk_model *model, int seq) {
	if (seq <= 0) return 0;
	if (model->network == LK_NET_CONV) return 6 * lk_convnet_macs(model); /* of an image */
	lk_model m = matrices_of(model);
	double s = seq, matrices = head_matrices(&m), pairs = 0;
	for (int i = 0; i < m.layers + m.decoder_layers; i++) {
		matrices += layer_matrices(&m, i);
		pairs += layer_pairs(&m, i, s);
	}
	return 6 * (s * matrices + pair_width(&m) * pairs) + mtp_flops(&m, s) + edge_flops(&m, s);
}
