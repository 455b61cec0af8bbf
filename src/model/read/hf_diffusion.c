/* hf_diffusion.c: families of configs of diffusion transformers, as the diffusers library writes
 * them: the class is in _class_name. Keys and defaults are those of its classes
 * (models/transformers/transformer_{flux,flux2,sd3,wan,hunyuan_video,qwenimage,ltx,lumina2,
 * z_image}.py, pixart_transformer_2d.py, cogvideox_transformer_3d.py, auraflow_transformer_2d.py),
 * lengths of texts those of its pipelines. Text encoders and the VAE are networks of their own,
 * which are not trained. */
#include "model/read/hf.h"
#include "base/noun.h"

#include <limits.h>

/* Keys that most classes share. */

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
lk_status lk_hf_finish_flux(const lk_hf_config *config, lk_model *model, lk_error *err) {
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
lk_status lk_hf_finish_sd3(const lk_hf_config *config, lk_model *model, lk_error *err) {
	int side = 128, width = model->heads <= 1 << 10 && model->head_dim <= 1 << 10
	                            ? model->heads * model->head_dim
	                            : 0;
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
lk_status lk_hf_finish_wan(const lk_hf_config *config, lk_model *model, lk_error *err) {
	static const double sides[] = {1, 2, 2};
	const lk_value *patch = lk_hf_find(config, "patch_size"),
				   *norm = lk_hf_find(config, "cross_attn_norm");
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
	return dit_sizes(config, model, err);
}

lk_status lk_hf_finish_hunyuan_video(const lk_hf_config *config, lk_model *model, lk_error *err) {
	LK_TRY(dit_only(config, "patch_size", 2, err));
	LK_TRY(dit_only(config, "patch_size_t", 1, err));
	LK_TRY(dit_only(config, "mlp_ratio", 4, err));
	LK_TRY(dit_only(config, "out_channels", model->channels, err));
	LK_TRY(dit_norms(config, "rms_norm", &model->qk_norm, err));
	return dit_sizes(config, model, err);
}

/* Latents arrive packed, 2 x 2 of 16 channels, and leave packed. The text has a norm. */
lk_status lk_hf_finish_qwen_image(const lk_hf_config *config, lk_model *model, lk_error *err) {
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
lk_status lk_hf_finish_ltx(const lk_hf_config *config, lk_model *model, lk_error *err) {
	bool biases = true, affine = false;
	LK_TRY(dit_only(config, "patch_size", 1, err));
	LK_TRY(dit_only(config, "patch_size_t", 1, err));
	LK_TRY(lk_hf_flag(config, "attention_bias", &biases, err));
	LK_TRY(lk_hf_flag(config, "norm_elementwise_affine", &affine, err));
	if (!biases || affine)
		return lk_hf_fail(config, NULL, err,
		                  "attention_bias false, or norm_elementwise_affine, is not modelled");
	LK_TRY(dit_norms(config, "rms_norm_across_heads", &model->qk_norm, err));
	return crossed_sizes(config, model, err);
}

/* Only PixArt-alpha is conditioned on image sizes. */
lk_status lk_hf_finish_pixart(const lk_hf_config *config, lk_model *model, lk_error *err) {
	int side = 128;
	bool more = false, affine = false, biases = true;
	LK_TRY(lk_hf_int(config, "sample_size", &side, err));
	LK_TRY(lk_hf_flag(config, "use_additional_conditions", &more, err));
	LK_TRY(lk_hf_flag(config, "norm_elementwise_affine", &affine, err));
	LK_TRY(lk_hf_flag(config, "attention_bias", &biases, err));
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
lk_status lk_hf_finish_flux2(const lk_hf_config *config, lk_model *model, lk_error *err) {
	double ratio = 3;
	lk_diffusion *net = &model->dit;
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
lk_status lk_hf_finish_cogvideox(const lk_hf_config *config, lk_model *model, lk_error *err) {
	int wide = 90, high = 60, frames = 49, out = 16;
	bool biases = true, learned = false;
	lk_diffusion *net = &model->dit;
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
lk_status lk_hf_finish_auraflow(const lk_hf_config *config, lk_model *model, lk_error *err) {
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

lk_status lk_hf_finish_lumina2(const lk_hf_config *config, lk_model *model, lk_error *err) {
	int side = 128, refiners = 2, multiple = 256;
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
lk_status lk_hf_finish_z_image(const lk_hf_config *config, lk_model *model, lk_error *err) {
	int refiners = 2;
	LK_TRY(lk_hf_int(config, "n_refiner_layers", &refiners, err));
	if (model->hidden < 1 || model->hidden > 1 << 20)
		return lk_hf_fail(config, NULL, err, "a network %d wide", model->hidden);
	model->ffn = (int)(model->hidden / 3. * 8);
	double step = model->hidden < 256 ? model->hidden : 256;
	return next_dit(config, refiners, step, 1024, 2. * model->hidden, model, err);
}
