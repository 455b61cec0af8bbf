/* params.c: exact parameter counts, part by part, as the transformers library counts them. For llama's relatives with
 * hidden size h, heads a of width d, g key/value heads, MLP width f:
 *
 *     attention  h*(a + 2g)*d + a*d*h,  latent attention: see latent_attention
 *     MLP        3*h*f (gated) or 2*h*f
 *     norms      n*h, twice that with a bias
 *
 * Whole numbers below 2^53 are exact in a double; lk_model_check refuses larger networks. */
#include "model/network/model.h"

static double linear(double in, double out, bool bias) {
	return in * out + (bias ? out : 0);
}

/* A norm over `width` numbers. */
static double norm(const lk_model *m, double width) {
	if (m->norm_plain) return 0;
	return m->norm == LK_NORM_LAYER && m->norm_bias ? 2 * width : width;
}

static double head_attention(const lk_model *m) {
	double h = m->hidden, q = (double)m->heads * m->head_dim, kv = (double)m->kv_heads * m->head_dim;
	double sum = linear(h, q, m->qkv_bias) + 2 * linear(h, kv, m->qkv_bias) + linear(q, h, m->out_bias);
	if (m->qk_norm) sum += 2 * norm(m, m->head_dim);
	return sum;
}

/* Multi-head latent attention (arXiv 2405.04434, section 2.1): queries and keys/values pass through low ranks, each
 * with a norm; the rotary part of the key is shared by all heads. */
static double latent_attention(const lk_model *m) {
	double h = m->hidden, a = m->heads, q = a * (m->qk_nope + m->qk_rope);
	double sum = m->q_lora > 0
		? linear(h, m->q_lora, m->qkv_bias) + norm(m, m->q_lora) + m->q_lora * q
		: linear(h, q, false);
	sum += linear(h, (double)m->kv_lora + m->qk_rope, m->qkv_bias) + norm(m, m->kv_lora);
	sum += m->kv_lora * a * (m->qk_nope + m->v_dim);
	return sum + linear(a * m->v_dim, h, m->out_bias);
}

static double mlp(const lk_model *m, double width, bool bias) {
	int inputs = m->gated ? 2 : 1;
	return inputs * linear(m->hidden, width, bias) + linear(width, m->hidden, bias);
}

bool lk_model_is_moe(const lk_model *m, int layer) {
	if (m->experts <= 0 || layer < m->dense_layers || layer >= m->layers) return false;
	return m->moe_every <= 1 || (layer + m->moe_offset) % m->moe_every == 0;
}

int lk_model_window(const lk_model *m, int layer) {
	if (m->window <= 0) return 0;
	return m->full_every > 0 && (layer + 1) % m->full_every == 0 ? 0 : m->window;
}

static bool is_decoder_layer(const lk_model *m, int layer) {
	return m->network == LK_NET_ENCDEC && layer >= m->layers;
}

static void add_moe(const lk_model *m, lk_layer_params *p) {
	p->router = linear(m->hidden, m->experts, m->router_bias);
	if (m->shared_gate) p->router += m->hidden;
	p->experts = m->experts * mlp(m, m->expert_ffn, m->expert_bias);
	p->mlp = m->shared_ffn > 0 ? mlp(m, m->shared_ffn, m->mlp_bias) : 0;
}

lk_layer_params lk_model_layer_params(const lk_model *m, int layer) {
	lk_layer_params p = {0};
	if (m->network == LK_NET_CONV) {
		lk_conv_unit unit = lk_convnet_unit(m, layer);
		return (lk_layer_params){.mlp = lk_convnet_unit_matrices(m, &unit), .norms = lk_convnet_unit_norms(m, &unit)};
	}
	p.attention = m->attention == LK_ATTN_MLA ? latent_attention(m) : head_attention(m);
	if (is_decoder_layer(m, layer)) p.attention *= 2; /* self- and cross-attention */
	p.attention += m->attention_sinks;
	if (layer == 0 || (is_decoder_layer(m, layer) && layer == m->layers))
		p.attention += (double)m->relative_buckets * m->heads;
	if (lk_model_is_moe(m, layer)) add_moe(m, &p);
	else p.mlp = mlp(m, m->ffn, m->mlp_bias);
	p.norms = (m->norms_per_layer + is_decoder_layer(m, layer)) * norm(m, m->hidden);
	return p;
}

static double embed_width(const lk_model *m) {
	return m->embed_dim > 0 ? m->embed_dim : m->hidden;
}

double lk_model_embedding_params(const lk_model *m) {
	if (m->network == LK_NET_CONV) return lk_convnet_stem_params(m);
	double h = m->hidden, sum = m->vocab * embed_width(m);
	sum += ((double)m->position_rows + m->token_types) * h;
	if (m->embed_dim > 0) sum += m->embed_dim * h; /* projection to the hidden size */
	if (m->embed_norm) sum += norm(m, h);
	if (m->image > 0) sum += linear((double)m->patch * m->patch * m->channels, h, true) + h; /* patches, class token */
	return sum;
}

double lk_model_head_params(const lk_model *m) {
	if (m->network == LK_NET_CONV) return lk_convnet_head_params(m);
	double h = m->hidden, sum = 0;
	if (m->final_norm) sum += (m->network == LK_NET_ENCDEC ? 2 : 1) * norm(m, h); /* one per stack */
	if (m->pooler) sum += linear(h, h, true);
	if (m->head_transform) sum += linear(h, h, true) + norm(m, h);
	if (m->lm_head && m->embed_dim > 0) sum += m->embed_dim * h;
	if (m->lm_head && !m->tied) sum += m->vocab * embed_width(m);
	if (m->lm_head && m->head_bias) sum += m->vocab;
	return sum;
}

double lk_model_params(const lk_model *m) {
	double sum = lk_model_embedding_params(m) + lk_model_head_params(m);
	for (int i = 0; i < m->layers + m->decoder_layers; i++) {
		lk_layer_params p = lk_model_layer_params(m, i);
		sum += p.attention + p.mlp + p.router + p.experts + p.norms;
	}
	return sum;
}

double lk_model_active_params(const lk_model *m) {
	double idle = 0;
	if (m->experts > 0) idle = (m->experts - m->topk) * mlp(m, m->expert_ffn, m->expert_bias);
	double sum = lk_model_params(m);
	for (int i = 0; i < m->layers; i++)
		if (lk_model_is_moe(m, i)) sum -= idle;
	return sum;
}
