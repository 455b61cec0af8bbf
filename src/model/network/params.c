/* params.c: exact parameter counts, part by part, as the transformers library counts them. For
 * llama's relatives with hidden size h, heads a of width d, g key/value heads, MLP width f:
 *
 *     attention  h*(a + 2g)*d + a*d*h,  latent attention: see latent_attention
 *     MLP        3*h*f (gated) or 2*h*f
 *     norms      n*h, twice that with a bias
 *
 * Whole numbers below 2^53 are exact in a double; lk_model_check refuses larger networks. */
#include "model/network/model.h"

static double params_linear(double in, double out, bool bias) {
	return in * out + (bias ? out : 0);
}

/* A norm over `width` numbers. */
static double params_norm(const lk_model *model, double width) {
	if (model->norm_plain) return 0;
	return model->norm == LK_NORM_LAYER && model->norm_bias ? 2 * width : width;
}

static double head_attention(const lk_model *model) {
	double h = model->hidden, q = (double)model->heads * model->head_dim,
		   kv = (double)model->kv_heads * model->head_dim;
	double sum = params_linear(h, q, model->qkv_bias) + 2 * params_linear(h, kv, model->qkv_bias) +
	             params_linear(q, h, model->out_bias);
	if (model->qk_norm && model->qk_norm_wide) sum += model->norm_plain ? 0 : q + kv;
	else if (model->qk_norm) sum += 2 * params_norm(model, model->head_dim);
	return sum;
}

/* Multi-head latent attention (arXiv 2405.04434, section 2.1): queries and keys/values pass through
 * low ranks, each with a norm; the rotary part of the key is shared by all heads. */
static double latent_attention(const lk_model *model) {
	double h = model->hidden, a = model->heads, q = a * (model->qk_nope + model->qk_rope);
	double sum = model->q_lora > 0 ? params_linear(h, model->q_lora, model->qkv_bias) +
	                                     params_norm(model, model->q_lora) + model->q_lora * q
	                               : params_linear(h, q, false);
	sum += params_linear(h, (double)model->kv_lora + model->qk_rope, model->qkv_bias) +
	       params_norm(model, model->kv_lora);
	sum += model->kv_lora * a * (model->qk_nope + model->v_dim);
	return sum + params_linear(a * model->v_dim, h, model->out_bias);
}

static double params_mlp(const lk_model *model, double width, bool bias) {
	int inputs = model->gated ? 2 : 1;
	return inputs * params_linear(model->hidden, width, bias) +
	       params_linear(width, model->hidden, bias);
}

bool lk_model_is_moe(const lk_model *model, int layer) {
	if (model->experts <= 0 || layer < model->dense_layers || layer >= model->layers) return false;
	return model->moe_every <= 1 || (layer + model->moe_offset) % model->moe_every == 0;
}

int lk_model_window(const lk_model *model, int layer) {
	if (model->window <= 0) return 0;
	return model->full_every > 0 && (layer + 1) % model->full_every == 0 ? 0 : model->window;
}

static bool is_decoder_layer(const lk_model *model, int layer) {
	return model->network == LK_NET_ENCDEC && layer >= model->layers;
}

static void add_moe(const lk_model *model, lk_layer_params *params) {
	params->router = params_linear(model->hidden, model->experts, model->router_bias);
	if (model->shared_gate) params->router += model->hidden;
	params->experts = model->experts * params_mlp(model, model->expert_ffn, model->expert_bias);
	params->mlp = model->shared_ffn > 0 ? params_mlp(model, model->shared_ffn, model->mlp_bias) : 0;
}

lk_layer_params lk_model_layer_params(const lk_model *model, int layer) {
	lk_layer_params p = {0};
	if (model->network == LK_NET_CONV) {
		lk_conv_unit unit = lk_convnet_unit(model, layer);
		return (lk_layer_params){.mlp = lk_convnet_unit_matrices(model, &unit),
		                         .norms = lk_convnet_unit_norms(model, &unit)};
	}
	p.attention = model->attention == LK_ATTN_MLA ? latent_attention(model) : head_attention(model);
	if (is_decoder_layer(model, layer)) p.attention *= 2; /* self- and cross-attention */
	p.attention += model->attention_sinks;
	if (layer == 0 || (is_decoder_layer(model, layer) && layer == model->layers))
		p.attention += (double)model->relative_buckets * model->heads;
	if (lk_model_is_moe(model, layer)) add_moe(model, &p);
	else p.mlp = params_mlp(model, model->ffn, model->mlp_bias);
	p.norms = (model->norms_per_layer + is_decoder_layer(model, layer)) *
	          params_norm(model, model->hidden);
	return p;
}

static double embed_width(const lk_model *model) {
	return model->embed_dim > 0 ? model->embed_dim : model->hidden;
}

double lk_model_embedding_params(const lk_model *model) {
	if (model->network == LK_NET_CONV) return lk_convnet_stem_params(model);
	double h = model->hidden, sum = model->vocab * embed_width(model);
	sum += ((double)model->position_rows + model->token_types) * h;
	if (model->embed_dim > 0) sum += model->embed_dim * h; /* projection to the hidden size */
	if (model->embed_norm) sum += params_norm(model, h);
	if (model->image > 0)
		sum += params_linear((double)model->patch * model->patch * model->channels, h, true) +
		       h; /* patches, class token */
	return sum;
}

double lk_model_head_params(const lk_model *model) {
	if (model->network == LK_NET_CONV) return lk_convnet_head_params(model);
	double h = model->hidden, sum = 0;
	if (model->final_norm)
		sum +=
			(model->network == LK_NET_ENCDEC ? 2 : 1) * params_norm(model, h); /* one per stack */
	if (model->pooler) sum += params_linear(h, h, true);
	if (model->head_transform) sum += params_linear(h, h, true) + params_norm(model, h);
	if (model->lm_head && model->embed_dim > 0) sum += model->embed_dim * h;
	if (model->lm_head && !model->tied) sum += model->vocab * embed_width(model);
	if (model->lm_head && model->head_bias) sum += model->vocab;
	return sum;
}

double lk_model_params(const lk_model *model) {
	double sum = lk_model_embedding_params(model) + lk_model_head_params(model);
	for (int i = 0; i < model->layers + model->decoder_layers; i++) {
		lk_layer_params p = lk_model_layer_params(model, i);
		sum += p.attention + p.mlp + p.router + p.experts + p.norms;
	}
	return sum;
}

double lk_model_active_params(const lk_model *model) {
	double idle = 0;
	if (model->experts > 0)
		idle = (model->experts - model->topk) *
		       params_mlp(model, model->expert_ffn, model->expert_bias);
	double sum = lk_model_params(model);
	for (int i = 0; i < model->layers; i++)
		if (lk_model_is_moe(model, i)) sum -= idle;
	return sum;
}
