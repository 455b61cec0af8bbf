/* params.c: exact parameter counts, part by part, as the transformers library counts them. A
 * layer's count is the sum of its mixers, its feed-forward and its norms; with hidden size h, MLP
 * width f:
 *
 *     mixers     each in its file, mixer_*.c
 *     MLP        3*h*f (gated) or 2*h*f
 *     norms      n*h, twice that with a bias
 *
 * Whole numbers below 2^53 are exact in a double; lk_model_check refuses larger networks. */
#include "model/network/parts.h"
#include "base/check.h"

static lk_weights params_mlp(const lk_model *model, double hidden, double width, bool bias) {
	lk_weights sum = lk_weights_linear(width, hidden, bias);
	for (int i = 0; i < (model->gated ? 2 : 1); i++)
		lk_weights_add(&sum, lk_weights_linear(hidden, width, bias));
	return sum;
}

static bool is_decoder_layer(const lk_model *model, int layer) {
	return model->network == LK_NET_ENCDEC && layer >= model->layers;
}

/* The width at which routed experts work. */
static double expert_hidden(const lk_model *model) {
	return model->expert_latent > 0 ? model->expert_latent : model->hidden;
}

static lk_weights expert_weights(const lk_model *model) {
	return params_mlp(model, expert_hidden(model), model->expert_ffn, model->expert_bias);
}

static void add_experts(const lk_model *model, lk_layer_weights *sum) {
	lk_weights each = expert_weights(model);
	sum->router = lk_weights_linear(model->hidden, model->experts, model->router_bias);
	if (model->shared_gate) sum->router.matrices += model->hidden;
	if (model->expert_latent > 0)
		sum->router.matrices += 2.0 * model->hidden * model->expert_latent;
	sum->experts = (lk_weights){model->experts * each.matrices, model->experts * each.others};
	if (model->shared_ffn > 0)
		sum->mlp = params_mlp(model, model->hidden, model->shared_ffn, model->mlp_bias);
}

static lk_layer_weights conv_weights(const lk_model *model, int layer) {
	LK_ASSERT(model->network == LK_NET_CONV);
	lk_conv_unit unit = lk_convnet_unit(model, layer);
	return (lk_layer_weights){.mlp = {lk_convnet_unit_matrices(model, &unit), 0},
	                          .norms = {0, lk_convnet_unit_norms(model, &unit)}};
}

/* Norms over the hidden size: a layer with one half has only that half's. */
static double layer_norms(const lk_model *model, const lk_layer *layer) {
	bool half = !layer->mixers || layer->ffn == LK_FFN_NONE;
	return half ? (model->norms_per_layer + 1) / 2 : model->norms_per_layer;
}

/* Zamba2: weights of each use of a shared set (Zamba2HybridLayer and its adapters). */
static lk_weights use_weights(const lk_model *model, const lk_layer *layer) {
	double h = model->hidden, in = lk_model_attention_inputs(model), f = model->ffn,
		   out = ((double)model->heads + 2 * model->kv_heads) * model->head_dim;
	if (!model->use_product || !(layer->mixers & LK_MIXER_ATTENTION)) return (lk_weights){0};
	return (lk_weights){
		h * h + model->use_mlp_rank * (h + 2 * f) + model->use_qkv_rank * (3 * in + out), 0};
}

lk_layer_weights lk_layer_weights_of(const lk_model *model, int layer) {
	if (model->network == LK_NET_CONV) return conv_weights(model, layer);
	if (model->network == LK_NET_DIFFUSION) return lk_dit_weights(model, layer);
	lk_layer made = lk_model_layer(model, layer);
	lk_layer_weights sum = {0};
	lk_model room;
	const lk_model *seen = lk_model_seen(model, &made, &room);
	bool decoder = is_decoder_layer(model, layer), attends = made.mixers & LK_MIXER_ATTENTION;
	for (int i = 0; i < LK_MIXER_KINDS; i++)
		if (made.mixers & lk_mixer_kinds[i].mixer)
			lk_weights_add(&sum.mixers, lk_mixer_kinds[i].weights(seen));
	if (decoder) lk_weights_add(&sum.mixers, sum.mixers); /* self- and cross-attention */
	if (attends && (made.window > 0 || !model->window_sinks))
		sum.mixers.others += model->attention_sinks;
	lk_weights_add(&sum.mixers, use_weights(model, &made));
	lk_weights_add(&sum.mixers, lk_streams_layer(model));
	/* norms of queries and keys, two gates (Llama 3.2: MllamaCrossAttentionDecoderLayer) */
	if (made.across) sum.mixers.others += 2.0 * model->head_dim + 2;
	if (model->relative_all || layer == 0 || (decoder && layer == model->layers))
		sum.mixers.others += (double)model->relative_buckets * model->heads;
	if (made.ffn == LK_FFN_EXPERTS) add_experts(model, &sum);
	else if (made.ffn == LK_FFN_DENSE)
		sum.mlp = params_mlp(model, model->hidden, lk_layer_ffn(model, &made), model->mlp_bias);
	if (made.ffn == LK_FFN_DENSE) lk_weights_add(&sum.mlp, lk_rwkv_channel_weights(model));
	sum.norms.others =
		(layer_norms(model, &made) + decoder) * lk_weights_norm(model, model->hidden);
	if (attends) /* the norm of attention's input */
		sum.norms.others += lk_weights_norm(model, lk_model_attention_inputs(model)) -
		                    lk_weights_norm(model, model->hidden);
	if (model->layer_scale) sum.norms.others += 2.0 * model->hidden;
	return sum;
}

static double params_all(lk_weights part) {
	return part.matrices + part.others;
}

lk_layer_params lk_model_layer_params(const lk_model *model, int layer) {
	lk_layer made = lk_model_layer(model, layer);
	if (lk_model_reuses(model, layer))
		return (lk_layer_params){.attention = params_all(use_weights(model, &made))};
	lk_layer_weights sum = lk_layer_weights_of(model, layer);
	return (lk_layer_params){.attention = params_all(sum.mixers),
	                         .mlp = params_all(sum.mlp),
	                         .router = params_all(sum.router),
	                         .experts = params_all(sum.experts),
	                         .norms = params_all(sum.norms)};
}

static double embed_width(const lk_model *model) {
	return model->embed_dim > 0 ? model->embed_dim : model->hidden;
}

double lk_model_embedding_params(const lk_model *model) {
	if (model->network == LK_NET_CONV) return lk_convnet_stem_params(model);
	if (model->network == LK_NET_DIFFUSION) return lk_dit_stem_params(model);
	bool encodes = model->network == LK_NET_ENCODER; /* its projection comes last and has a bias */
	double h = model->hidden, sum = model->vocab * embed_width(model),
		   wide = encodes ? embed_width(model) : h;
	sum += ((double)model->position_rows + model->token_types) * wide;
	if (model->embed_dim > 0) sum += lk_linear_params(model->embed_dim, h, encodes);
	if (model->embed_norm) sum += lk_weights_norm(model, wide);
	if (model->relative_rows > 0) sum += model->relative_rows * h + lk_weights_norm(model, h);
	if (model->image > 0)
		sum += lk_linear_params(lk_model_patch_inputs(model), h, !model->patch_plain) +
		       (!model->no_class + model->distills) * h; /* patches, class token */
	return sum + model->loose + lk_audio_params(model) + lk_model_tower_params(model) +
	       lk_streams_embedding(model);
}

double lk_model_tower_params(const lk_model *model) {
	lk_model tower;
	return lk_model_tower(model, &tower) ? lk_model_params(&tower) : 0;
}

/* A projector and those of intermediate layers. */
static double projector_params(const lk_model *model) {
	const lk_projector *project = &model->project;
	return lk_model_projector_products(model) + project->norms +
	       (double)project->taps * project->tap_norms + project->loose;
}

double lk_model_head_params(const lk_model *model) {
	if (model->network == LK_NET_CONV) return lk_convnet_head_params(model);
	if (model->network == LK_NET_DIFFUSION) return lk_dit_head_params(model);
	double h = model->hidden, sum = 0;
	if (model->final_norm)
		sum += (model->network == LK_NET_ENCDEC ? 2 : 1) *
		       lk_weights_norm(model, h); /* one per stack */
	if (model->pooler) sum += lk_linear_params(h, h, true);
	if (model->head_transform) sum += lk_linear_params(h, h, true) + lk_weights_norm(model, h);
	if (model->lm_head && model->embed_dim > 0) sum += model->embed_dim * h;
	if (model->lm_head && !model->tied) sum += model->vocab * embed_width(model);
	if (model->lm_head && model->head_bias) sum += model->vocab;
	return sum + projector_params(model) + lk_streams_head(model);
}

double lk_model_params(const lk_model *model) {
	double sum = lk_model_embedding_params(model) + lk_model_head_params(model) + model->beside;
	lk_layer_params p = {0};
	for (int i = 0; i < model->layers + model->decoder_layers; i++) {
		if (!lk_layer_repeats(model, i)) p = lk_model_layer_params(model, i);
		sum += p.attention + p.mlp + p.router + p.experts + p.norms;
	}
	return sum;
}

double lk_model_active_params(const lk_model *model) {
	double idle = 0;
	if (model->experts > 0)
		idle = (model->experts - model->topk) * params_all(expert_weights(model));
	double sum = lk_model_params(model) - model->beside;
	for (int i = 0; i < model->layers; i++)
		if (lk_model_is_moe(model, i)) sum -= idle;
	return sum;
}
