/* mixer_attention.c: attention with hidden size h, a heads of size d, g key/value heads:
 *
 *     grouped heads   h a d + 2 h g d + a d h, with an output gate h a d more;
 *                     with values of size v: h a d + h g (d + v) + a v h;
 *                     with a low rank q of queries: h q + q a d for h a d
 *     latent (MLA)    h q + q a (n + e) + h (r + e) + r a (n + v) + a v h
 *     its indexer     q Hi Di + h Di + h Hi, a norm of Di
 *
 * Multiply-adds in addition to the matrices: a (d_qk + d_v) per pair of query and key. With an
 * indexer a query attends to its best k keys in the latent space, 2r + e wide, plus Hi (Di + 1) per
 * scored pair (arXiv 2512.02556). */
#include "model/network/parts.h"
#include "base/check.h"

static lk_weights head_attention(const lk_model *model) {
	double h = model->hidden, in = lk_model_attention_inputs(model),
		   q = (double)model->heads * model->head_dim,
		   kv = (double)model->kv_heads * model->head_dim;
	double values = lk_model_value_dim(model), low = model->q_lora;
	lk_weights sum = lk_weights_linear(in, low > 0 ? low : q, model->qkv_bias);
	if (low > 0) {
		lk_weights_add(&sum, lk_weights_linear(low, q, model->qkv_bias));
		sum.others += lk_weights_norm(model, low);
	}
	lk_weights_add(&sum, lk_weights_linear(in, kv, model->qkv_bias && !model->key_plain));
	lk_weights_add(&sum, lk_weights_linear(in, model->kv_heads * values, model->qkv_bias));
	lk_weights_add(&sum, lk_weights_linear(model->heads * values, h, model->out_bias));
	if (model->output_gate) lk_weights_add(&sum, lk_weights_linear(h, q, model->qkv_bias));
	if (model->qk_norm && model->qk_norm_wide) sum.others += model->norm_plain ? 0 : q + kv;
	else if (model->qk_norm) sum.others += 2 * lk_weights_norm(model, model->head_dim);
	return sum;
}

/* The indexer's keys pass a norm with a bias. */
static lk_weights indexer(const lk_model *model) {
	double width = (double)model->index_heads * model->index_dim,
		   from = model->q_lora > 0 ? model->q_lora : model->hidden;
	if (model->index_heads == 0) return (lk_weights){0};
	return (lk_weights){from * width +
	                        (double)model->hidden * (model->index_dim + model->index_heads),
	                    2.0 * model->index_dim};
}

/* Multi-head latent attention (arXiv 2405.04434, section 2.1): queries and keys/values pass through
 * low ranks, each with a norm; the rotary part of the key is shared by all heads. */
static lk_weights latent_attention(const lk_model *model) {
	double h = model->hidden, a = model->heads, q = a * (model->qk_nope + model->qk_rope);
	bool low = model->q_lora > 0;
	lk_weights sum = lk_weights_linear(h, low ? model->q_lora : q, low && model->qkv_bias);
	if (low) {
		sum.matrices += model->q_lora * q;
		sum.others += lk_weights_norm(model, model->q_lora);
	}
	lk_weights_add(&sum,
	               lk_weights_linear(h, (double)model->kv_lora + model->qk_rope, model->qkv_bias));
	sum.others += lk_weights_norm(model, model->kv_lora);
	sum.matrices += model->kv_lora * a * (model->qk_nope + model->v_dim);
	lk_weights_add(&sum, lk_weights_linear(a * model->v_dim, h, model->out_bias));
	lk_weights_add(&sum, indexer(model));
	return sum;
}

lk_weights lk_attention_weights(const lk_model *model) {
	return model->attention == LK_ATTN_MLA ? latent_attention(model) : head_attention(model);
}

static void attention_head_matrices(const lk_model *model, lk_matrices *list) {
	double h = model->hidden, in = lk_model_attention_inputs(model),
		   q = (double)model->heads * model->head_dim,
		   kv = (double)model->kv_heads * model->head_dim;
	double v = (double)model->heads * lk_model_value_dim(model), low = model->q_lora;
	if (low > 0) lk_matrices_add(list, low, in, 1, LK_CUT_NONE);
	lk_matrices_add(list, q, low > 0 ? low : in, model->output_gate && v == q ? 2 : 1, LK_CUT_OUT);
	bool alike = lk_model_value_dim(model) == model->head_dim;
	lk_matrices_add(list, kv, in, alike ? 2 : 1, LK_CUT_OUT);
	if (!alike) lk_matrices_add(list, (double)model->kv_heads * model->v_dim, in, 1, LK_CUT_OUT);
	lk_matrices_add(list, h, v, 1, LK_CUT_IN);
}

/* Tensor parallelism keeps the matrices before the heads, and the indexer, whole on every rank. */
static void latent_matrices(const lk_model *model, lk_matrices *list) {
	double h = model->hidden, a = model->heads, q = a * (model->qk_nope + model->qk_rope),
		   from = model->q_lora > 0 ? model->q_lora : h;
	lk_matrices_add(list, model->q_lora, h, 1, LK_CUT_NONE);
	lk_matrices_add(list, q, from, 1, LK_CUT_OUT);
	lk_matrices_add(list, (double)model->kv_lora + model->qk_rope, h, 1, LK_CUT_NONE);
	lk_matrices_add(list, a * (model->qk_nope + model->v_dim), model->kv_lora, 1, LK_CUT_OUT);
	lk_matrices_add(list, h, a * model->v_dim, 1, LK_CUT_IN);
	lk_matrices_add(list, (double)model->index_heads * model->index_dim, from, 1, LK_CUT_NONE);
	if (model->index_heads > 0) lk_matrices_add(list, model->index_dim, h, 1, LK_CUT_NONE);
	lk_matrices_add(list, model->index_heads, h, 1, LK_CUT_NONE);
}

void lk_attention_matrices(const lk_model *model, lk_matrices *list) {
	if (model->attention == LK_ATTN_MLA) latent_matrices(model, list);
	else attention_head_matrices(model, list);
}

static double pair_width(const lk_model *model) {
	if (model->attention == LK_ATTN_MLA)
		return (double)model->heads * (model->qk_nope + model->qk_rope + model->v_dim);
	return (double)model->heads * (model->head_dim + lk_model_value_dim(model));
}

static double causal_pairs(double s, double window) {
	LK_ASSERT(s >= 0 && window >= 0);
	if (window <= 0 || window >= s) return s * s / 2;
	return s * window - window * window / 2;
}

static double layer_pairs(double s, const lk_layer *layer) {
	double window = layer->window, half = layer->causal ? 0.5 : 1;
	if (window > 0 && window < s && layer->chunked) {
		double whole = s - (double)((long long)s % (long long)window);
		return half * (whole * window + (s - whole) * (s - whole));
	}
	if (layer->causal) return causal_pairs(s, window);
	return window > 0 && window < s ? s * window : s * s;
}

double lk_attention_core(const lk_model *model, const lk_layer *layer, double s) {
	if (model->index_heads > 0) {
		double best = model->index_topk, latent = 2.0 * model->kv_lora + model->qk_rope;
		return model->heads * latent * causal_pairs(s, best) +
		       model->index_heads * (model->index_dim + 1.0) * causal_pairs(s, 0);
	}
	/* every token with every position between tokens, as query and as key; the projection of the
	 * position rows, once for all sequences, is left out */
	double relative = 2.0 * model->relative_rows * s * model->heads * model->head_dim;
	return pair_width(model) * layer_pairs(s, layer) + relative;
}

double lk_attention_cross(const lk_model *model, double queries, double keys) {
	return pair_width(model) * queries * keys;
}
