/* hf_diffusion.c: families of configs of diffusion transformers, as the diffusers library writes
 * them: the class is in _class_name. Keys and defaults are those of its classes
 * (models/transformers/transformer_{flux,flux2,sd3,wan,hunyuan_video,qwenimage,ltx,lumina2,
 * z_image}.py, pixart_transformer_2d.py, cogvideox_transformer_3d.py, auraflow_transformer_2d.py),
 * lengths of texts those of its pipelines. Text encoders and the VAE are networks of their own,
 * which are not trained. */
#include "model/read/hf.h"
#include "base/noun.h"

#include <limits.h>
#include <string.h>

#define INT  LK_HF_INTEGER
#define FLAG LK_HF_SWITCH
#define BLOCKS(names, block) \
	{ names, LK_HF_INT, LK_HF_FIELD(dit.repeat) + (block) * sizeof(int), false, false }

/* Keys that most classes share. */
#define HEADS   INT("num_attention_heads", heads), INT("attention_head_dim", head_dim)
#define PATCHES INT("in_channels", channels), INT("patch_size", patch)

static const lk_hf_key flux_keys[] = {
	BLOCKS("num_layers", LK_DIT_DOUBLE),
	BLOCKS("num_single_layers", LK_DIT_SINGLE),
	HEADS,
	INT("in_channels", dit.patch_inputs),
	INT("joint_attention_dim", dit.text_width),
	INT("pooled_projection_dim", dit.pooled_width),
	FLAG("guidance_embeds", dit.guidance),
	LK_HF_END,
};

static const lk_hf_key sd3_keys[] = {
	BLOCKS("num_layers", LK_DIT_DOUBLE),
	HEADS,
	INT("in_channels", channels),
	INT("joint_attention_dim", dit.text_width),
	INT("pooled_projection_dim", dit.pooled_width),
	INT("patch_size", patch),
	LK_HF_END,
};

static const lk_hf_key wan_keys[] = {
	BLOCKS("num_layers", LK_DIT_CROSS),
	HEADS,
	INT("ffn_dim", ffn),
	INT("in_channels", channels),
	INT("text_dim", dit.text_width),
	INT("image_dim", dit.image_width),
	LK_HF_END,
};

static const lk_hf_key qwen_image_keys[] = {
	BLOCKS("num_layers", LK_DIT_DOUBLE),        HEADS,     INT("in_channels", dit.patch_inputs),
	INT("joint_attention_dim", dit.text_width), LK_HF_END,
};

/* ltx, pixart: keys and values of the text are as wide as the network; the text is projected
 * first. */
static const lk_hf_key crossed_keys[] = {
	BLOCKS("num_layers", LK_DIT_CROSS),      HEADS,     PATCHES,
	INT("caption_channels", dit.text_width), LK_HF_END,
};

static const lk_hf_key hunyuan_keys[] = {
	BLOCKS("num_refiner_layers", LK_DIT_REFINE),
	BLOCKS("num_layers", LK_DIT_DOUBLE),
	BLOCKS("num_single_layers", LK_DIT_SINGLE),
	HEADS,
	PATCHES,
	INT("text_embed_dim", dit.text_width),
	INT("pooled_projection_dim", dit.pooled_width),
	FLAG("guidance_embeds", dit.guidance),
	LK_HF_END,
};

static const lk_hf_key flux2_keys[] = {
	BLOCKS("num_layers", LK_DIT_DOUBLE),
	BLOCKS("num_single_layers", LK_DIT_SINGLE),
	HEADS,
	INT("in_channels", dit.patch_inputs),
	INT("joint_attention_dim", dit.text_width),
	FLAG("guidance_embeds", dit.guidance),
	LK_HF_END,
};

static const lk_hf_key cogvideox_keys[] = {
	BLOCKS("num_layers", LK_DIT_JOINT),
	HEADS,
	PATCHES,
	INT("time_embed_dim", dit.step_width),
	INT("text_embed_dim", dit.text_width),
	INT("max_text_seq_length", dit.text_tokens),
	LK_HF_END,
};

static const lk_hf_key auraflow_keys[] = {
	BLOCKS("num_mmdit_layers", LK_DIT_DOUBLE),
	BLOCKS("num_single_dit_layers", LK_DIT_JOINT),
	HEADS,
	PATCHES,
	INT("joint_attention_dim", dit.text_width),
	LK_HF_END,
};

static const lk_hf_key lumina2_keys[] = {
	BLOCKS("num_layers", LK_DIT_JOINT),
	INT("hidden_size", hidden),
	INT("num_attention_heads", heads),
	INT("num_kv_heads", kv_heads),
	PATCHES,
	INT("cap_feat_dim", dit.text_width),
	LK_HF_END,
};

static const lk_hf_key z_image_keys[] = {
	BLOCKS("n_layers", LK_DIT_JOINT),
	INT("dim", hidden),
	INT("n_heads", heads),
	INT("n_kv_heads", kv_heads),
	INT("in_channels", channels),
	INT("cap_feat_dim", dit.text_width),
	FLAG("qk_norm", qk_norm),
	LK_HF_END,
};

/* ---- derived fields ---- */

/* Check a member that must have one value. */
static lk_status dit_only(const lk_hf_config *config, const char *name, double wanted,
                          lk_error *err) {
	const lk_value *value = lk_hf_find(config, name);
	if (!value || (value->kind == LK_JSON_NUMBER && value->number == wanted)) return LK_OK;
	lk_hf_fail(config, value, err, "%s is not %g, which alone is modelled", name, wanted);
	return lk_hint(err, "give a config of a published network of this class");
}

/* Read the norm of queries and keys, by name, or none. */
static lk_status dit_norms(const lk_hf_config *config, const char *wanted, bool *on,
                           lk_error *err) {
	const lk_value *value = lk_hf_find(config, "qk_norm");
	if (!value) return LK_OK;
	*on = true;
	if (lk_hf_says(config, "qk_norm", wanted)) return LK_OK;
	lk_hf_fail(config, value, err, "qk_norm is not %s, which alone is modelled", wanted);
	return lk_hint(err, "give \"%s\", or null", wanted);
}

/* Read the outputs per patch, `each` per channel. */
static lk_status dit_outputs(const lk_hf_config *config, int each, lk_model *model, lk_error *err) {
	int channels = 0;
	LK_TRY(lk_hf_int(config, "out_channels", &channels, err));
	if (channels > 1 << 16 || each < 1 || each > 1 << 12)
		return lk_hf_fail(config, NULL, err, "out_channels is %d", channels);
	model->dit.patch_outputs = channels * each;
	return LK_OK;
}

/* Set sizes that follow from heads and blocks; inputs and outputs are patches of latents. */
static lk_status dit_sizes(const lk_hf_config *config, lk_model *model, lk_error *err) {
	double hidden = (double)model->heads * model->head_dim, layers = 0;
	for (int i = 0; i < LK_DIT_BLOCKS; i++) layers += model->dit.repeat[i];
	if (!(hidden >= 1 && hidden <= 1 << 20 && layers >= 1 && layers <= 10000))
		return lk_hf_fail(config, NULL, err, "%d heads of %d, %g %s", model->heads, model->head_dim,
		                  layers, lk_noun(layers, "block", "blocks"));
	model->hidden = (int)hidden;
	model->layers = (int)layers;
	if (model->kv_heads == 0) model->kv_heads = model->heads;
	if (model->ffn == 0) model->ffn = 4 * model->hidden;
	model->norm_plain = true;
	double patch = (double)model->channels * model->patch * model->patch;
	if (model->dit.patch_inputs == 0 && patch <= 1 << 20) model->dit.patch_inputs = (int)patch;
	model->channels = model->patch = 0; /* they belong to networks that read pixels */
	double tokens = lk_dit_latent_tokens(&model->dit) + model->dit.text_tokens;
	if (!(tokens <= 1 << 27)) return lk_hf_fail(config, NULL, err, "samples of %g tokens", tokens);
	model->context = (int)tokens;
	return LK_OK;
}

/* T5's 512 tokens, or 256 for the distilled network, which takes no guidance. */
static lk_status finish_flux(const lk_hf_config *config, lk_model *model, lk_error *err) {
	lk_hf_find(config, "axes_dims_rope");
	LK_TRY(dit_only(config, "patch_size", 1, err)); /* latents arrive packed, 2 x 2 of 16
	                                                 * channels */
	LK_TRY(dit_outputs(config, 1, model, err));
	model->dit.text_tokens = model->dit.guidance ? 512 : 256;
	return dit_sizes(config, model, err);
}

/* The leading blocks with a second attention are listed one by one. */
static lk_status dual_blocks(const lk_hf_config *config, lk_model *model, lk_error *err) {
	const lk_value *list = lk_hf_find(config, "dual_attention_layers");
	int *repeat = model->dit.repeat;
	if (!list) return LK_OK;
	if (list->kind != LK_JSON_ARRAY || list->count >= (size_t)repeat[LK_DIT_DOUBLE])
		return lk_hf_wrong_kind(config, list, "dual_attention_layers",
		                        "a list of fewer layers than there are", err);
	for (size_t i = 0; i < list->count; i++) {
		const lk_value *item = &list->items[i];
		if (item->kind == LK_JSON_NUMBER && item->number == (double)i) continue;
		lk_hf_fail(config, item, err, "dual_attention_layers are not the first layers");
		return lk_hint(err, "list them as 0, 1, 2, ...");
	}
	repeat[LK_DIT_DUAL] = (int)list->count;
	repeat[LK_DIT_DOUBLE] -= repeat[LK_DIT_DUAL];
	return LK_OK;
}

/* The text output of the last block is unused. 77 tokens of CLIP and 256 of T5. */
static lk_status finish_sd3(const lk_hf_config *config, lk_model *model, lk_error *err) {
	int side = 128, width = model->heads <= 1 << 10 && model->head_dim <= 1 << 10
	                            ? model->heads * model->head_dim
	                            : 0;
	lk_hf_find(config, "pos_embed_max_size"); /* a table of sines */
	LK_TRY(lk_hf_int(config, "sample_size", &side, err));
	LK_TRY(dit_only(config, "caption_projection_dim", width, err));
	LK_TRY(dit_only(config, "out_channels", model->channels, err));
	LK_TRY(dit_norms(config, "rms_norm", &model->qk_norm, err));
	LK_TRY(dual_blocks(config, model, err));
	if (side < 1 || side > 8192 || model->dit.repeat[LK_DIT_DOUBLE] < 1 || model->patch > 64)
		return lk_hf_fail(config, NULL, err, "%d %s, latents of %d a side in patches of %d",
		                  model->dit.repeat[LK_DIT_DOUBLE],
		                  lk_noun(model->dit.repeat[LK_DIT_DOUBLE], "block", "blocks"), side,
		                  model->patch);
	model->dit.repeat[LK_DIT_DOUBLE]--;
	model->dit.repeat[LK_DIT_LAST] = 1;
	model->dit.height = model->dit.width = 8 * side;
	model->dit.scale = 8 * model->patch;
	return dit_sizes(config, model, err);
}

/* Patches of 1 frame and 2 x 2 latents. Wan2.2's 5B has a VAE of 48 channels with 16 x 16 pixels
 * per latent. */
static lk_status finish_wan(const lk_hf_config *config, lk_model *model, lk_error *err) {
	static const double sides[] = {1, 2, 2};
	const lk_value *patch = lk_hf_find(config, "patch_size"),
				   *norm = lk_hf_find(config, "cross_attn_norm");
	lk_hf_find(config, "eps");
	lk_hf_find(config, "freq_dim");
	lk_hf_find(config, "rope_max_seq_len");
	for (size_t i = 0; patch && i < 3; i++)
		if (patch->kind != LK_JSON_ARRAY || patch->count != 3 ||
		    patch->items[i].kind != LK_JSON_NUMBER || patch->items[i].number != sides[i])
			return lk_hf_wrong_kind(config, patch, "patch_size", "[1, 2, 2]", err);
	LK_TRY(dit_only(config, "freq_dim", 256, err));
	LK_TRY(dit_outputs(config, 4, model, err));
	LK_TRY(dit_norms(config, "rms_norm_across_heads", &model->qk_norm, err));
	if (norm && norm->kind != LK_JSON_TRUE)
		return lk_hf_fail(config, norm, err,
		                  "cross_attn_norm is not true, which alone is modelled");
	model->patch = 2;
	if (model->channels == 48) model->dit.scale = 32;
	/* blocks also attend to tokens of an image, with products as wide as the network */
	LK_TRY(dit_only(config, "added_kv_proj_dim", (double)model->heads * model->head_dim, err));
	lk_hf_find(config, "pos_embed_seq_len");
	return dit_sizes(config, model, err);
}

static lk_status finish_hunyuan_video(const lk_hf_config *config, lk_model *model, lk_error *err) {
	lk_hf_find(config, "rope_axes_dim");
	LK_TRY(dit_only(config, "patch_size", 2, err));
	LK_TRY(dit_only(config, "patch_size_t", 1, err));
	LK_TRY(dit_only(config, "mlp_ratio", 4, err));
	LK_TRY(dit_only(config, "out_channels", model->channels, err));
	LK_TRY(dit_norms(config, "rms_norm", &model->qk_norm, err));
	return dit_sizes(config, model, err);
}

/* Latents arrive packed, 2 x 2 of 16 channels, and leave packed. The text has a norm. */
static lk_status finish_qwen_image(const lk_hf_config *config, lk_model *model, lk_error *err) {
	lk_hf_find(config, "axes_dims_rope");
	lk_hf_find(config, "pooled_projection_dim"); /* unused: there is no pooled projection */
	LK_TRY(dit_only(config, "patch_size", 2, err));
	LK_TRY(dit_outputs(config, 4, model, err));
	model->dit.text_norm = model->dit.text_width;
	return dit_sizes(config, model, err);
}

/* Attention to the text reads vectors as wide as the network. */
static lk_status crossed_sizes(const lk_hf_config *config, lk_model *model, lk_error *err) {
	double width = (double)model->heads * model->head_dim;
	const lk_value *activation = lk_hf_find(config, "activation_fn"),
				   *norm = lk_hf_find(config, "norm_type");
	if (activation && !lk_hf_says(config, "activation_fn", "gelu-approximate"))
		return lk_hf_wrong_kind(config, activation, "activation_fn", "gelu-approximate", err);
	if (norm && !lk_hf_says(config, "norm_type", "ada_norm_single"))
		return lk_hf_wrong_kind(config, norm, "norm_type", "ada_norm_single", err);
	if (model->patch < 1 || model->patch > 64)
		return lk_hf_fail(config, NULL, err, "patches of %d", model->patch);
	LK_TRY(dit_only(config, "cross_attention_dim", width, err));
	LK_TRY(dit_outputs(config, model->patch * model->patch, model, err));
	return dit_sizes(config, model, err);
}

/* A VAE of 32 x 32 pixels and 8 frames, patches of one latent. */
static lk_status finish_ltx(const lk_hf_config *config, lk_model *model, lk_error *err) {
	bool biases = true, affine = false;
	LK_TRY(dit_only(config, "patch_size", 1, err));
	LK_TRY(dit_only(config, "patch_size_t", 1, err));
	LK_TRY(lk_hf_flag(config, "attention_bias", &biases, err));
	LK_TRY(lk_hf_flag(config, "norm_elementwise_affine", &affine, err));
	lk_hf_find(config, "attention_out_bias");
	if (!biases || affine)
		return lk_hf_fail(config, NULL, err,
		                  "attention_bias false, or norm_elementwise_affine, is not modelled");
	LK_TRY(dit_norms(config, "rms_norm_across_heads", &model->qk_norm, err));
	return crossed_sizes(config, model, err);
}

/* Only PixArt-alpha is conditioned on image sizes. */
static lk_status finish_pixart(const lk_hf_config *config, lk_model *model, lk_error *err) {
	int side = 128;
	bool more = false, affine = false, biases = true;
	LK_TRY(lk_hf_int(config, "sample_size", &side, err));
	LK_TRY(lk_hf_flag(config, "use_additional_conditions", &more, err));
	LK_TRY(lk_hf_flag(config, "norm_elementwise_affine", &affine, err));
	LK_TRY(lk_hf_flag(config, "attention_bias", &biases, err));
	lk_hf_pass(config, "interpolation_scale|num_embeds_ada_norm|norm_num_groups|upcast_attention|"
	                   "attention_type");
	if (!lk_hf_find(config, "use_additional_conditions") && side == 128) more = true;
	if (more || affine || !biases || side < 1 || side > 8192)
		return lk_hf_fail(config, NULL, err,
		                  "use_additional_conditions, norm_elementwise_affine, or attention_bias "
		                  "false, is not modelled");
	model->dit.height = model->dit.width = 8 * side;
	model->dit.scale = 8 * model->patch;
	return crossed_sizes(config, model, err);
}

static lk_status dit_ends(const lk_hf_config *config, double ends, lk_model *model, lk_error *err) {
	if (!(ends >= 1 && ends < INT_MAX))
		return lk_hf_fail(config, NULL, err, "the ends of the network are too wide");
	model->dit.ends = (int)ends;
	return LK_OK;
}

/* Flux.2: latents come packed; adaLN is shared by all blocks, and nothing has a bias. */
static lk_status finish_flux2(const lk_hf_config *config, lk_model *model, lk_error *err) {
	double ratio = 3;
	lk_diffusion *net = &model->dit;
	lk_hf_pass(config, "axes_dims_rope|rope_theta|eps");
	LK_TRY(dit_only(config, "patch_size", 1, err));
	LK_TRY(dit_only(config, "timestep_guidance_channels", 256, err));
	LK_TRY(dit_only(config, "out_channels", net->patch_inputs, err));
	LK_TRY(lk_hf_real(config, "mlp_ratio", &ratio, err));
	LK_TRY(dit_sizes(config, model, err));
	double d = model->hidden, inner = ratio * d;
	if (!(inner >= 1 && inner <= 1 << 24))
		return lk_hf_fail(config, NULL, err, "mlp_ratio is %g", ratio);
	model->ffn = (int)inner;
	double step = lk_linear_params(LK_DIT_STEP_WIDTH, d, false) + lk_linear_params(d, d, false);
	return dit_ends(config,
	                2 * lk_linear_params(net->patch_inputs, d, false) +
	                    lk_linear_params(net->text_width, d, false) +
	                    (net->guidance ? 2 : 1) * step + (6 + 6 + 3 + 2) * d * d,
	                model, err);
}

/* CogVideoX: latents of 8 x 8 pixels and 4 frames. The norms of a block, of queries and keys too,
 * have a scale and a shift; adaLN of the text is a part of the image's. */
static lk_status finish_cogvideox(const lk_hf_config *config, lk_model *model, lk_error *err) {
	int wide = 90, high = 60, frames = 49, out = 16;
	bool biases = true, learned = false;
	lk_diffusion *net = &model->dit;
	lk_hf_pass(config, "flip_sin_to_cos|freq_shift|activation_fn|timestep_activation_fn|"
	                   "norm_elementwise_affine|norm_eps|spatial_interpolation_scale|"
	                   "temporal_interpolation_scale|use_rotary_positional_embeddings");
	LK_TRY(dit_only(config, "temporal_compression_ratio", 4, err));
	LK_TRY(lk_hf_int(config, "sample_width", &wide, err));
	LK_TRY(lk_hf_int(config, "sample_height", &high, err));
	LK_TRY(lk_hf_int(config, "sample_frames", &frames, err));
	LK_TRY(lk_hf_int(config, "out_channels", &out, err));
	LK_TRY(lk_hf_flag(config, "attention_bias", &biases, err));
	LK_TRY(lk_hf_flag(config, "use_learned_positional_embeddings", &learned, err));
	double patch = (double)model->patch * model->patch;
	if (!biases || wide < 1 || high < 1 || frames < 1 || wide > 8192 || high > 8192 || out < 1 ||
	    out > 1 << 16 || model->patch < 1 || model->patch > 64)
		return lk_hf_fail(config, NULL, err,
		                  "samples of %d x %d latents and %d frames, or "
		                  "attention without biases",
		                  wide, high, frames);
	net->patch_outputs = (int)(out * patch);
	net->height = 8 * high, net->width = 8 * wide, net->frames = frames;
	net->scale = 8 * model->patch;
	LK_TRY(dit_sizes(config, model, err));
	double d = model->hidden, step = net->step_width;
	net->joint_norms = 2 * 2 * model->hidden + 2 * model->head_dim;
	/* learned positions of the text and of every patch */
	double places = learned ? net->text_tokens + lk_dit_latent_tokens(net) : 0;
	return dit_ends(config,
	                lk_linear_params(net->patch_inputs, d, true) +
	                    lk_linear_params(net->text_width, d, true) +
	                    lk_linear_params(d, step, true) + lk_linear_params(step, step, true) +
	                    2 * d + lk_linear_params(step, 2 * d, true) + 2 * d +
	                    lk_linear_params(d, net->patch_outputs, true) + places * d,
	                model, err);
}

/* AuraFlow: gated MLPs of two thirds of 4 d, norms of queries and keys without parameters, eight
 * learned tokens before the text, a table of positions. */
static lk_status finish_auraflow(const lk_hf_config *config, lk_model *model, lk_error *err) {
	int side = 64, places = 1024;
	lk_diffusion *net = &model->dit;
	double width = (double)model->heads * model->head_dim;
	LK_TRY(lk_hf_int(config, "sample_size", &side, err));
	LK_TRY(lk_hf_int(config, "pos_embed_max_size", &places, err));
	LK_TRY(dit_only(config, "caption_projection_dim", width, err));
	LK_TRY(dit_only(config, "out_channels", model->channels, err));
	if (side < 1 || side > 8192 || places < 1 || places > 1 << 16 || model->patch < 1 ||
	    model->patch > 64)
		return lk_hf_fail(config, NULL, err, "latents of %d a side, %d positions", side, places);
	net->height = net->width = 8 * side;
	net->scale = 8 * model->patch;
	LK_TRY(dit_sizes(config, model, err));
	double d = model->hidden;
	model->ffn = (int)((8 * d / 3 + 255) / 256) * 256;
	return dit_ends(config,
	                lk_linear_params(net->patch_inputs, d, true) + places * d +
	                    lk_linear_params(net->text_width, d, false) +
	                    lk_linear_params(LK_DIT_STEP_WIDTH, d, true) +
	                    lk_linear_params(d, d, true) + 8 * d + lk_linear_params(d, 2 * d, false) +
	                    lk_linear_params(d, lk_dit_outputs(net), false),
	                model, err);
}

/* Lumina-Image 2.0 and Z-Image: blocks of four norms, MLPs with a gate, adaLN from a narrow vector;
 * as many blocks of the image alone before them, priced as of both, and of the text alone, without
 * adaLN. */
static lk_status next_dit(const lk_hf_config *config, int refiners, double step, double step_inner,
                          double loose, lk_model *model, lk_error *err) {
	lk_diffusion *net = &model->dit;
	if (model->heads < 1 || model->hidden % model->heads != 0)
		return lk_hf_fail(config, NULL, err, "%d heads of a network %d wide", model->heads,
		                  model->hidden);
	model->head_dim = model->hidden / model->heads;
	int main = net->repeat[LK_DIT_JOINT];
	if (refiners < 0 || refiners > 100 || main > 10000)
		return lk_hf_fail(config, NULL, err, "%d refining blocks", refiners);
	net->repeat[LK_DIT_REFINE] = refiners;
	net->repeat[LK_DIT_JOINT] = main + refiners;
	net->step_width = (int)step;
	LK_TRY(dit_sizes(config, model, err));
	double d = model->hidden, text = net->text_width;
	net->joint_norms = 4 * model->hidden;
	return dit_ends(config,
	                lk_linear_params(net->patch_inputs, d, true) + text +
	                    lk_linear_params(text, d, true) +
	                    lk_linear_params(LK_DIT_STEP_WIDTH, step_inner, true) +
	                    lk_linear_params(step_inner, step, true) + lk_linear_params(step, d, true) +
	                    lk_linear_params(d, lk_dit_outputs(net), true) + loose,
	                model, err);
}

static lk_status finish_lumina2(const lk_hf_config *config, lk_model *model, lk_error *err) {
	int side = 128, refiners = 2, multiple = 256;
	lk_hf_pass(config, "norm_eps|scaling_factor|axes_dim_rope|axes_lens|ffn_dim_multiplier");
	if (lk_hf_find(config, "ffn_dim_multiplier"))
		return lk_hf_fail(config, NULL, err, "ffn_dim_multiplier is not modelled");
	LK_TRY(lk_hf_int(config, "sample_size", &side, err));
	LK_TRY(lk_hf_int(config, "num_refiner_layers", &refiners, err));
	LK_TRY(lk_hf_int(config, "multiple_of", &multiple, err));
	LK_TRY(dit_only(config, "out_channels", model->channels, err));
	if (side < 1 || side > 8192 || multiple < 1 || multiple > 1 << 16 || model->patch < 1 ||
	    model->patch > 64 || model->hidden < 1 || model->hidden > 1 << 20)
		return lk_hf_fail(config, NULL, err, "latents of %d a side, a network %d wide", side,
		                  model->hidden);
	model->ffn = (4 * model->hidden + multiple - 1) / multiple * multiple;
	model->dit.height = model->dit.width = 8 * side;
	model->dit.scale = 8 * model->patch;
	double step = model->hidden < 1024 ? model->hidden : 1024;
	return next_dit(config, refiners, step, step, 0, model, err);
}

/* Two learned tokens pad image and text. */
static lk_status finish_z_image(const lk_hf_config *config, lk_model *model, lk_error *err) {
	int refiners = 2;
	lk_hf_pass(config, "all_patch_size|all_f_patch_size|norm_eps|rope_theta|t_scale|axes_dims|"
	                   "axes_lens|siglip_feat_dim");
	LK_TRY(lk_hf_int(config, "n_refiner_layers", &refiners, err));
	if (model->hidden < 1 || model->hidden > 1 << 20)
		return lk_hf_fail(config, NULL, err, "a network %d wide", model->hidden);
	model->ffn = (int)(model->hidden / 3. * 8);
	double step = model->hidden < 256 ? model->hidden : 256;
	return next_dit(config, refiners, step, 1024, 2. * model->hidden, model, err);
}

/* ---- start values ---- */

#define DIFFUSION .network = LK_NET_DIFFUSION, .norm = LK_NORM_LAYER, .norms_per_layer = 2

static const lk_model flux_start = {DIFFUSION, .qk_norm = true, .heads = 24, .head_dim = 128,
                                    .dit = {.repeat = {[LK_DIT_DOUBLE] = 19, [LK_DIT_SINGLE] = 38},
                                            .text_width = 4096,
                                            .pooled_width = 768,
                                            .patch_inputs = 64,
                                            .height = 1024,
                                            .width = 1024,
                                            .scale = 16}};
static const lk_model sd3_start = {DIFFUSION,
                                   .heads = 18,
                                   .head_dim = 64,
                                   .channels = 16,
                                   .patch = 2,
                                   .dit = {.repeat = {[LK_DIT_DOUBLE] = 18},
                                           .text_tokens = 77 + 256,
                                           .text_width = 4096,
                                           .pooled_width = 2048}};
static const lk_model wan_start = {DIFFUSION,
                                   .qk_norm = true,
                                   .qk_norm_wide = true,
                                   .heads = 40,
                                   .head_dim = 128,
                                   .ffn = 13824,
                                   .channels = 16,
                                   .dit = {.repeat = {[LK_DIT_CROSS] = 40},
                                           .text_tokens = 512,
                                           .text_width = 4096,
                                           .height = 480,
                                           .width = 832,
                                           .frames = 81,
                                           .video = true,
                                           .scale = 16}};
static const lk_model hunyuan_video_start = {
	DIFFUSION,
	.qk_norm = true,
	.heads = 24,
	.head_dim = 128,
	.channels = 16,
	.patch = 2,
	.dit = {.repeat = {[LK_DIT_REFINE] = 2, [LK_DIT_DOUBLE] = 20, [LK_DIT_SINGLE] = 40},
            .text_tokens = 256,
            .text_width = 4096,
            .pooled_width = 768,
            .height = 720,
            .width = 1280,
            .frames = 129,
            .video = true,
            .guidance = true,
            .scale = 16}};

static const lk_model qwen_image_start = {DIFFUSION, .qk_norm = true, .heads = 24, .head_dim = 128,
                                          .dit = {.repeat = {[LK_DIT_DOUBLE] = 60},
                                                  .text_tokens = 512,
                                                  .text_width = 3584,
                                                  .patch_inputs = 64,
                                                  .patch_outputs = 64,
                                                  .height = 1328,
                                                  .width = 1328,
                                                  .scale = 16}};
static const lk_model ltx_start = {DIFFUSION,
                                   .qk_norm = true,
                                   .qk_norm_wide = true,
                                   .heads = 32,
                                   .head_dim = 64,
                                   .channels = 128,
                                   .patch = 1,
                                   .dit = {.repeat = {[LK_DIT_CROSS] = 28},
                                           .text_tokens = 128,
                                           .text_width = 4096,
                                           .cross_plain = true,
                                           .height = 512,
                                           .width = 704,
                                           .frames = 161,
                                           .frame_scale = 8,
                                           .video = true,
                                           .scale = 32}};
static const lk_model pixart_start = {DIFFUSION,
                                      .heads = 16,
                                      .head_dim = 72,
                                      .channels = 4,
                                      .patch = 2,
                                      .dit = {.repeat = {[LK_DIT_CROSS] = 28},
                                              .text_tokens = 300,
                                              .text_width = 4096,
                                              .cross_plain = true}};

#define SQUARE(pixels) .height = pixels, .width = pixels
static const lk_model flux2_start = {DIFFUSION,
                                     .qk_norm = true,
                                     .gated = true,
                                     .heads = 48,
                                     .head_dim = 128,
                                     .dit = {.repeat = {[LK_DIT_DOUBLE] = 8, [LK_DIT_SINGLE] = 48},
                                             .text_tokens = 512,
                                             .text_width = 15360,
                                             .patch_inputs = 128,
                                             .guidance = true,
                                             .plain = true,
                                             .mod_plain = true,
                                             .shared_modulation = true,
                                             SQUARE(1024),
                                             .scale = 16}};
static const lk_model cogvideox_start = {DIFFUSION,
                                         .qk_norm = true,
                                         .heads = 30,
                                         .head_dim = 64,
                                         .channels = 16,
                                         .patch = 2,
                                         .dit = {.repeat = {[LK_DIT_JOINT] = 30},
                                                 .text_tokens = 226,
                                                 .text_width = 4096,
                                                 .step_width = 512,
                                                 .joint_modulation = 12,
                                                 .video = true}};
static const lk_model auraflow_start = {
	DIFFUSION,
	.gated = true,
	.heads = 12,
	.head_dim = 256,
	.channels = 4,
	.patch = 2,
	.dit = {.repeat = {[LK_DIT_DOUBLE] = 4, [LK_DIT_JOINT] = 32},
            .text_tokens = 256,
            .text_width = 2048,
            .joint_modulation = 6,
            .plain = true,
            .mod_plain = true}};
#define NEXT_DIT                                                                             \
	.network = LK_NET_DIFFUSION, .norm = LK_NORM_RMS, .norms_per_layer = 4, .qk_norm = true, \
	.gated = true, .channels = 16, .patch = 2
static const lk_model lumina2_start = {NEXT_DIT, .hidden = 2304, .heads = 24, .kv_heads = 8,
                                       .dit = {.repeat = {[LK_DIT_JOINT] = 26},
                                               .text_tokens = 256,
                                               .text_width = 1024,
                                               .joint_modulation = 4,
                                               .plain = true}};
static const lk_model z_image_start = {NEXT_DIT, .hidden = 3840, .heads = 30, .kv_heads = 30,
                                       .dit = {.repeat = {[LK_DIT_JOINT] = 30},
                                               .text_tokens = 512,
                                               .text_width = 2560,
                                               .joint_modulation = 4,
                                               .plain = true,
                                               SQUARE(1024),
                                               .scale = 16}};

/* ---- the table ---- */

const lk_hf_family lk_hf_diffusers[] = {
	{"FluxTransformer2DModel", flux_keys, &flux_start, finish_flux},
	{"Flux2Transformer2DModel", flux2_keys, &flux2_start, finish_flux2},
	{"CogVideoXTransformer3DModel", cogvideox_keys, &cogvideox_start, finish_cogvideox},
	{"AuraFlowTransformer2DModel", auraflow_keys, &auraflow_start, finish_auraflow},
	{"Lumina2Transformer2DModel", lumina2_keys, &lumina2_start, finish_lumina2},
	{"ZImageTransformer2DModel", z_image_keys, &z_image_start, finish_z_image},
	{"SD3Transformer2DModel", sd3_keys, &sd3_start, finish_sd3},
	{"WanTransformer3DModel", wan_keys, &wan_start, finish_wan},
	{"QwenImageTransformer2DModel", qwen_image_keys, &qwen_image_start, finish_qwen_image},
	{"LTXVideoTransformer3DModel", crossed_keys, &ltx_start, finish_ltx},
	{"PixArtTransformer2DModel", crossed_keys, &pixart_start, finish_pixart},
	{"HunyuanVideoTransformer3DModel", hunyuan_keys, &hunyuan_video_start, finish_hunyuan_video},
	{NULL, NULL, NULL, NULL},
};
