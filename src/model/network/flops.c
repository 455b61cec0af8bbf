/* flops.c: floating-point operations of a training step's matrix multiplications, the numerator of
 * MFU. Per sequence of s tokens, forward and backward:
 *
 *     6 * (s * (matrix parameters of a token)  +  what the mixers of all layers do beyond them)
 *
 * 6 = 2 operations per multiply-add, once forward and twice backward. Attention has a * (d_qk +
 * d_v) multiply-adds per pair of query and key: s*s pairs, half of them under a causal mask, s*w -
 * w*w/2 within a causal window of w; for other mixers see mixer_*.c. This is
 * num_floating_point_operations of Megatron-LM's megatron/training/training.py, with two
 * differences: the router's matrix counts, low-rank norms do not. */
#include "model/network/parts.h"
#include "base/check.h"

/* Matrix parameters applied to one token in a layer. */
static double layer_matrices(const lk_model *model, int layer) {
	lk_layer_weights p = lk_layer_weights_of(model, layer);
	double chosen = model->experts > 0 ? (double)model->topk / model->experts : 0;
	return p.mixers.matrices + p.mlp.matrices + p.router.matrices + p.experts.matrices * chosen;
}

static double head_matrices(const lk_model *model) {
	if (!model->lm_head) return 0;
	double width = model->embed_dim > 0 ? model->embed_dim : model->hidden;
	double project = model->embed_dim > 0 ? width * model->hidden : 0;
	return width * model->vocab + project;
}

/* Tokens of the last stack. */
static double decoder_tokens(const lk_model *model, double s) {
	bool own = model->network == LK_NET_ENCDEC && model->decoder_context > 0;
	return own ? model->decoder_context : s;
}

double lk_model_head_flops(const lk_model *model, double seq) {
	LK_ASSERT(seq >= 0);
	return model->network == LK_NET_CONV ? 0
	                                     : 6 * decoder_tokens(model, seq) * head_matrices(model);
}

/* Multiply-adds of a layer's matrices. Keys and values of cross-attention come from the encoder's
 * tokens. */
static double layer_products(const lk_model *model, int layer, double s) {
	LK_ASSERT(layer >= 0 && s >= 0);
	bool decoder = model->network == LK_NET_ENCDEC && layer >= model->layers,
		 across = model->tower.crossed && lk_model_layer(model, layer).across;
	double own = decoder ? decoder_tokens(model, s) : s,
		   read = across ? lk_model_crossed_tokens(model) : s,
		   shared = decoder || across ? 2.0 * model->hidden * model->kv_heads * model->head_dim : 0;
	return own * layer_matrices(model, layer) + (read - own) * shared;
}

/* Multiply-adds of a layer in addition to its matrices, cross-attention included. */
static double layer_core(const lk_model *model, int layer, double s) {
	lk_layer made = lk_model_layer(model, layer);
	double sum = 0, encoded = s;
	if (made.across) return lk_attention_cross(model, s, lk_model_crossed_tokens(model));
	if (model->network == LK_NET_ENCDEC && layer >= model->layers) s = decoder_tokens(model, s);
	for (int i = 0; i < LK_MIXER_KINDS; i++)
		if (made.mixers & lk_mixer_kinds[i].mixer) sum += lk_mixer_kinds[i].core(model, &made, s);
	if (model->network == LK_NET_ENCDEC && layer >= model->layers)
		sum += lk_attention_cross(model, s, encoded);
	return sum;
}

/* Multi-token prediction: each module is one more layer like the last, a projection of two hidden
 * vectors to one, and the head (arXiv 2412.19437, section 2.2). */
static double mtp_flops(const lk_model *model, double s) {
	int last = model->layers - 1;
	double h = model->hidden,
		   matrices = layer_matrices(model, last) + 2 * h * h + head_matrices(model);
	return model->mtp_layers * 6 * (s * matrices + layer_core(model, last, s));
}

static double patch_macs(const lk_model *model, double s) {
	double classes = model->tiles > 1 ? model->tiles : 1;
	if (model->no_class) classes = 0;
	return (s - classes) * lk_model_patch_inputs(model) * model->hidden;
}

/* Work outside the layers that not every token needs: patches (all but the class token), the pooler
 * (one token). */
static double edge_flops(const lk_model *model, double s) {
	double h = model->hidden, sum = 0;
	if (model->image > 0) sum += patch_macs(model, s);
	if (model->pooler) sum += h * h;
	if (model->embed_dim > 0) sum += s * model->embed_dim * h;
	return 6 * (sum + lk_audio_macs(model, s) + s * lk_streams_edges(model));
}

double lk_model_entry_macs(const lk_model *model, double seq, double *first) {
	double sum = *first = 0;
	if (model->network == LK_NET_CONV) return *first = lk_convnet_stem_macs(model);
	if (model->network == LK_NET_DIFFUSION) return 0;
	if (model->image > 0) sum = *first = patch_macs(model, seq);
	if (model->audio.convs == 0) return sum;
	*first = lk_audio_frames(&model->audio, 0, seq) * lk_audio_inputs(&model->audio, 0) *
	         model->audio.width[0];
	return sum + lk_audio_macs(model, seq);
}

double lk_model_projector_flops(const lk_model *model) {
	lk_model tower;
	if (!lk_model_tower(model, &tower)) return 0;
	return 6 * lk_model_projector_macs(&tower) * model->tower.images;
}

double lk_model_tower_flops(const lk_model *model) {
	lk_model tower;
	if (!lk_model_tower(model, &tower)) return 0;
	return lk_model_flops(&tower, (int)lk_model_image_tokens(&tower)) * model->tower.images;
}

double lk_model_flops(const lk_model *model, int seq) {
	if (seq <= 0) return 0;
	if (model->network == LK_NET_CONV) return 6 * lk_convnet_macs(model); /* per image */
	if (model->network == LK_NET_DIFFUSION) return 6 * lk_dit_macs(model, seq);
	double s = seq, last = decoder_tokens(model, s), core = 0, layer = 0, beyond = 0,
		   products = last * head_matrices(model);
	for (int i = 0; i < model->layers + model->decoder_layers; i++) {
		if (!lk_layer_repeats(model, i)) {
			layer = layer_products(model, i, s);
			beyond = layer_core(model, i, s);
		}
		products += layer;
		core += beyond;
	}
	return 6 * (products + core) + mtp_flops(model, s) + edge_flops(model, s) +
	       lk_model_tower_flops(model) + lk_model_projector_flops(model);
}
