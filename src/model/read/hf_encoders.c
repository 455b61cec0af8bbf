/* hf_encoders.c: derivations of configs with an encoder: of text, of images, and in front of a
 * decoder. */
#include "model/read/hf.h"
#include "base/noun.h"

#include <math.h>
#include <string.h>

/* ---- derived fields ---- */

lk_status lk_hf_finish_t5(const lk_hf_config *config, lk_model *model, lk_error *err) {
	const lk_value *activation = lk_hf_find(config, "feed_forward_proj");
	if (activation && activation->kind == LK_JSON_STRING)
		model->gated = strncmp(activation->text, "gated-", 6) == 0;
	if (model->decoder_layers == 0) model->decoder_layers = model->layers;
	return lk_hf_heads(config, model, err);
}

/* RoBERTa's positions begin after its padding index, 1: two rows of the table hold no token. */
lk_status lk_hf_finish_bert(const lk_hf_config *config, lk_model *model, lk_error *err) {
	int unused = strcmp(model->family, "bert") == 0 ? 0 : 2;
	model->context =
		model->position_rows > unused ? model->position_rows - unused : model->position_rows;
	return lk_hf_heads(config, model, err);
}

/* BERT without token types and pooler. */
lk_status lk_hf_finish_distilbert(const lk_hf_config *config, lk_model *model, lk_error *err) {
	model->context = model->position_rows;
	model->token_types = 0;
	return lk_hf_heads(config, model, err);
}

/* Add the classifier of a network published with one: it reads one token per image, so its
 * operations are left out. */
static void add_classifier(const lk_hf_config *config, lk_model *model) {
	const lk_value *list = lk_hf_find(config, "architectures"),
				   *labels = lk_hf_find(config, "id2label");
	bool classifies = list && list->kind == LK_JSON_ARRAY && list->count > 0 &&
	                  list->items[0].kind == LK_JSON_STRING &&
	                  strstr(list->items[0].text, "ForImageClassification");
	if (!classifies || !labels || labels->kind != LK_JSON_OBJECT || labels->count > 1 << 16) return;
	bool patches = strcmp(model->family, "dinov2") == 0;              /* reads their mean too */
	bool taught = strstr(list->items[0].text, "WithTeacher") != NULL; /* has a second classifier */
	double head =
		((patches ? 2.0 : 1.0) * model->hidden + 1) * (double)labels->count * (taught ? 2 : 1);
	if (head < 1 << 27) model->loose += (int)head;
}

/* Patches and the class token; the position table has one row each. */
lk_status lk_hf_finish_vit(const lk_hf_config *config, lk_model *model, lk_error *err) {
	int side = model->image / model->patch;
	if (side < 1 || side > 32768) {
		lk_hf_fail(config, NULL, err, "an image of %d pixels has no patches of %d", model->image,
		           model->patch);
		return lk_hint(err, "image_size must be from patch_size to 32768 times patch_size");
	}
	model->context = model->position_rows = side * side + 1 + model->distills;
	add_classifier(config, model);
	return lk_hf_heads(config, model, err);
}

/* albert: all layers share weights; if there are several groups, each has its own. The embedding is
 * narrower than the layers. */
lk_status lk_hf_finish_albert(const lk_hf_config *config, lk_model *model, lk_error *err) {
	int inner = 1;
	LK_TRY(lk_hf_int(config, "inner_group_num", &inner, err));
	if (inner != 1 || model->shared_sets < 1 || model->shared_sets > model->layers) {
		lk_hf_fail(config, NULL, err, "%d %s of %d %s", model->shared_sets,
		           lk_noun(model->shared_sets, "group", "groups"), inner,
		           lk_noun(inner, "layer", "layers"));
		return lk_hint(err, "inner_group_num 1 is modelled, with groups of all %d %s",
		               model->layers, lk_noun(model->layers, "layer", "layers"));
	}
	if (model->embed_dim == model->hidden) model->embed_dim = 0;
	model->context = model->position_rows;
	return lk_hf_heads(config, model, err);
}

/* electra: bert without a pooler; the embedding may be narrower than the layers. */
lk_status lk_hf_finish_electra(const lk_hf_config *config, lk_model *model, lk_error *err) {
	if (model->embed_dim == model->hidden) model->embed_dim = 0;
	model->context = model->position_rows;
	return lk_hf_heads(config, model, err);
}

lk_status lk_hf_equal_stacks(const lk_hf_config *config, const lk_model *model, lk_error *err) {
	int heads = model->heads, width = model->ffn;
	LK_TRY(lk_hf_int(config, "decoder_attention_heads", &heads, err));
	LK_TRY(lk_hf_int(config, "decoder_ffn_dim", &width, err));
	if (heads != model->heads || width != model->ffn) {
		lk_hf_fail(config, NULL, err, "stacks of %d and %d heads, of widths %d and %d",
		           model->heads, heads, model->ffn, width);
		return lk_hint(err, "encoders and decoders of different shapes are not modelled");
	}
	return LK_OK;
}

/* bart, mbart, pegasus, m2m_100: both stacks differ only in their number of layers. BART's table of
 * positions has two rows for padding, and each stack has one, followed by a norm; pegasus and
 * m2m_100 use sines. All stacks but BART's end with a norm. */
lk_status lk_hf_finish_bart(const lk_hf_config *config, lk_model *model, lk_error *err) {
	bool first = model->final_norm, sines = !model->embed_norm, sums = first, last = first,
		 embedded = !sines;
	LK_TRY(lk_hf_flag(config, "normalize_before", &sums, err));
	LK_TRY(lk_hf_flag(config, "add_final_layer_norm", &last, err));
	LK_TRY(lk_hf_flag(config, "normalize_embedding", &embedded, err));
	if (sums != first || last != first || embedded == sines)
		return lk_hf_fail(config, NULL, err,
		                  "norms in other places than those of the type %s are "
		                  "not modelled",
		                  model->family);
	LK_TRY(lk_hf_equal_stacks(config, model, err));
	if (model->context > 1 << 20)
		return lk_hf_fail(config, NULL, err, "max_position_embeddings is too large");
	model->no_positions = sines; /* not in attention: both kinds are added to the embedding */
	if (!sines) {
		model->position_rows = model->context + 2;
		double second = (model->position_rows + 2.0) * model->hidden; /* table and norm */
		if (second > 1 << 24)
			return lk_hf_fail(config, NULL, err, "a table of positions of %g numbers", second);
		model->loose = (int)second;
	}
	return lk_hf_heads(config, model, err);
}

/* dinov2: ViT with a factor after each half and a token for masked patches. */
lk_status lk_hf_finish_dinov2(const lk_hf_config *config, lk_model *model, lk_error *err) {
	double ratio = 4;
	bool gated = false, masks = true;
	LK_TRY(lk_hf_real(config, "mlp_ratio", &ratio, err));
	LK_TRY(lk_hf_flag(config, "use_swiglu_ffn", &gated, err));
	LK_TRY(lk_hf_flag(config, "use_mask_token", &masks, err));
	if (!(ratio * model->hidden >= 1 && ratio * model->hidden <= 1 << 24))
		return lk_hf_fail(config, NULL, err, "mlp_ratio is %g", ratio);
	model->ffn = (int)(ratio * model->hidden);
	model->gated = gated;
	if (gated)
		model->ffn = (model->ffn * 2 / 3 + 7) / 8 * 8; /* as many weights as without a
		                                                * gate */
	model->loose = masks ? model->hidden : 0;
	return lk_hf_finish_vit(config, model, err);
}

/* dinov3: dinov2 with rotary positions and registers, tokens that belong to no patch. */
lk_status lk_hf_finish_dinov3(const lk_hf_config *config, lk_model *model, lk_error *err) {
	int registers = 0;
	bool keys = false, values = model->qkv_bias;
	LK_TRY(lk_hf_int(config, "num_register_tokens", &registers, err));
	LK_TRY(lk_hf_flag(config, "key_bias", &keys, err));
	LK_TRY(lk_hf_flag(config, "value_bias", &values, err));
	if (values != model->qkv_bias || (keys && !model->qkv_bias) || registers < 0 ||
	    registers > 1 << 10 || model->hidden > 1 << 20)
		return lk_hf_fail(config, NULL, err,
		                  "biases of keys or values alone, or %d registers, are not modelled",
		                  registers);
	model->key_plain = model->qkv_bias && !keys;
	LK_TRY(lk_hf_finish_vit(config, model, err));
	model->position_rows = 0;
	model->loose += (1 + registers) * model->hidden; /* and the token of masked patches */
	return LK_OK;
}

/* nomic_bert: BERT's norms, gated MLPs, rotary positions, no biases. */
lk_status lk_hf_finish_nomic(const lk_hf_config *config, lk_model *model, lk_error *err) {
	bool first = false, parallel = false, rms = false, biases[3] = {false, false, false};
	double share = 1;
	LK_TRY(lk_hf_flag(config, "prenorm", &first, err));
	LK_TRY(lk_hf_flag(config, "parallel_block", &parallel, err));
	LK_TRY(lk_hf_flag(config, "use_rms_norm", &rms, err));
	LK_TRY(lk_hf_flag(config, "qkv_proj_bias", &biases[0], err));
	LK_TRY(lk_hf_flag(config, "mlp_fc1_bias", &biases[1], err));
	LK_TRY(lk_hf_flag(config, "mlp_fc2_bias", &biases[2], err));
	LK_TRY(lk_hf_real(config, "rotary_emb_fraction", &share, err));
	if (!first && !parallel && !rms && !biases[0] && !biases[1] && !biases[2] && share == 1 &&
	    lk_hf_says(config, "activation_function", "swiglu"))
		return lk_hf_heads(config, model, err);
	return lk_hf_fail(config, NULL, err,
	                  "biases, prenorm, parallel_block, use_rms_norm, "
	                  "rotary_emb_fraction below 1, or an activation that is "
	                  "not swiglu");
}

/* esm: BERT with norms before each half and rotary positions; ESM-2 of proteins, whose vocabulary
 * is amino acids. */
lk_status lk_hf_finish_esm(const lk_hf_config *config, lk_model *model, lk_error *err) {
	LK_TRY(lk_hf_flag(config, "emb_layer_norm_before", &model->embed_norm, err));
	if (!lk_hf_says(config, "position_embedding_type", "rotary"))
		return lk_hf_fail(config, NULL, err,
		                  "position_embedding_type is not rotary, which alone "
		                  "is modelled of esm");
	model->context = model->position_rows > 2 ? model->position_rows - 2 : model->position_rows;
	model->position_rows = 0;
	return lk_hf_heads(config, model, err);
}

/* In DeBERTa-v2 the first layer's output also gets a convolution of the embeddings, with a norm:
 * one product in addition to a layer's dozen, whose operations are left out. */
static lk_status deberta_convolution(const lk_hf_config *config, lk_model *model, lk_error *err) {
	int kernel = 0, groups = 1;
	LK_TRY(lk_hf_int(config, "conv_kernel_size", &kernel, err));
	LK_TRY(lk_hf_int(config, "conv_groups", &groups, err));
	if (kernel == 0) return LK_OK;
	double h = model->hidden, weights = kernel * h * h / fmax(groups, 1) + 3 * h;
	if (groups < 1 || model->hidden % groups != 0 || weights > 1 << 24)
		return lk_hf_fail(config, NULL, err, "a convolution of %d tokens in %d groups", kernel,
		                  groups);
	model->loose = (int)weights;
	lk_hf_warn(config, "the convolution after the first layer is counted, but not in the step");
	return LK_OK;
}

/* deberta-v2: positions between tokens instead of positions of tokens. Positions share the keys and
 * queries of contents (share_att_key). */
lk_status lk_hf_finish_deberta(const lk_hf_config *config, lk_model *model, lk_error *err) {
	bool relative = false, shared = false, placed = true;
	int buckets = 0;
	LK_TRY(lk_hf_flag(config, "relative_attention", &relative, err));
	LK_TRY(lk_hf_flag(config, "share_att_key", &shared, err));
	LK_TRY(lk_hf_flag(config, "position_biased_input", &placed, err));
	LK_TRY(lk_hf_int(config, "position_buckets", &buckets, err));
	LK_TRY(lk_hf_int(config, "attention_head_size", &model->head_dim, err));
	if (!relative || !shared || placed || buckets < 1 || buckets > 1 << 16 ||
	    !lk_hf_says(config, "norm_rel_ebd", "layer_norm")) {
		lk_hf_fail(config, NULL, err,
		           "relative_attention, share_att_key, position_biased_input, position_buckets or "
		           "norm_rel_ebd are not those of DeBERTa-v3");
		return lk_hint(err, "other positions of networks of the type deberta-v2 are not modelled");
	}
	model->context = model->position_rows;
	model->position_rows = 0;
	model->relative_rows = 2 * buckets;
	LK_TRY(deberta_convolution(config, model, err));
	return lk_hf_heads(config, model, err);
}

/* The text encoder paired with an image encoder: causal in CLIP. */
lk_status lk_hf_finish_pair_text(const lk_hf_config *config, lk_model *model, lk_error *err) {
	if (config->object == config->root) {
		lk_hf_fail(config, NULL, err, "an encoder of text alone, without one of images");
		return lk_hint(err, "give the config of the pair, of the type clip or siglip");
	}
	model->position_rows = model->context;
	return lk_hf_heads(config, model, err);
}
