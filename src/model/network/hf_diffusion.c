/* hf_diffusion.c: families of configs of diffusion transformers, as the diffusers library writes
 * them: the class is in _class_name. Keys and defaults are those of its classes
 * (models/transformers/transformer_{flux,sd3,wan,hunyuan_video,qwenimage,ltx}.py,
 * pixart_transformer_2d.py), lengths of texts those of its
 * pipelines. Text encoders and the VAE are networks of their own, which are not trained. */
#include "model/network/hf.h"
#include "base/noun.h"

#include <limits.h>
#include <string.h>

#define INT  LK_HF_INTEGER
#define FLAG LK_HF_SWITCH
#define BLOCKS(names, block) \
	{ names, LK_HF_INT, LK_HF_FIELD(dit.repeat) + (block) * sizeof(int), false, false }

static const lk_hf_key flux_keys[] = {
	BLOCKS("num_layers", LK_DIT_DOUBLE),
	BLOCKS("num_single_layers", LK_DIT_SINGLE),
	INT("num_attention_heads", heads),
	INT("attention_head_dim", head_dim),
	INT("in_channels", dit.patch_inputs),
	INT("joint_attention_dim", dit.text_width),
	INT("pooled_projection_dim", dit.pooled_width),
	FLAG("guidance_embeds", dit.guidance),
	LK_HF_END,
};

static const lk_hf_key sd3_keys[] = {
	BLOCKS("num_layers", LK_DIT_DOUBLE),
	INT("num_attention_heads", heads),
	INT("attention_head_dim", head_dim),
	INT("in_channels", channels),
	INT("joint_attention_dim", dit.text_width),
	INT("pooled_projection_dim", dit.pooled_width),
	INT("patch_size", patch),
	LK_HF_END,
};

static const lk_hf_key wan_keys[] = {
	BLOCKS("num_layers", LK_DIT_CROSS),
	INT("num_attention_heads", heads),
	INT("attention_head_dim", head_dim),
	INT("ffn_dim", ffn),
	INT("in_channels", channels),
	INT("text_dim", dit.text_width),
	LK_HF_END,
};

static const lk_hf_key qwen_image_keys[] = {
	BLOCKS("num_layers", LK_DIT_DOUBLE),        INT("num_attention_heads", heads),
	INT("attention_head_dim", head_dim),        INT("in_channels", dit.patch_inputs),
	INT("joint_attention_dim", dit.text_width), LK_HF_END,
};

/* ltx, pixart: keys and values of the text are as wide as the network; it is projected before. */
static const lk_hf_key crossed_keys[] = {
	BLOCKS("num_layers", LK_DIT_CROSS),
	INT("num_attention_heads", heads),
	INT("attention_head_dim", head_dim),
	INT("in_channels", channels),
	INT("patch_size", patch),
	INT("caption_channels", dit.text_width),
	LK_HF_END,
};

static const lk_hf_key hunyuan_keys[] = {
	BLOCKS("num_refiner_layers", LK_DIT_REFINE),
	BLOCKS("num_layers", LK_DIT_DOUBLE),
	BLOCKS("num_single_layers", LK_DIT_SINGLE),
	INT("num_attention_heads", heads),
	INT("attention_head_dim", head_dim),
	INT("in_channels", channels),
	INT("patch_size", patch),
	INT("text_embed_dim", dit.text_width),
	INT("pooled_projection_dim", dit.pooled_width),
	FLAG("guidance_embeds", dit.guidance),
	LK_HF_END,
};

/* ---- what must be derived ---- */

/* A member that has to have one value. */
static lk_status dit_only(const lk_hf_config *config, const char *name, double wanted,
                          lk_error *err) {
	const lk_value *value = lk_hf_find(config, name);
	if (!value || (value->kind == LK_JSON_NUMBER && value->number == wanted)) return LK_OK;
	lk_hf_fail(config, value, err, "%s is not %g, which alone is modelled", name, wanted);
	return lk_hint(err, "give a config of a published network of this class");
}

/* The norm of queries and keys, by its name, or none. */
static lk_status dit_norms(const lk_hf_config *config, const char *wanted, bool *on,
                           lk_error *err) {
	const lk_value *value = lk_hf_find(config, "qk_norm");
	if (!value) return LK_OK;
	*on = true;
	if (lk_hf_says(config, "qk_norm", wanted)) return LK_OK;
	lk_hf_fail(config, value, err, "qk_norm is not %s, which alone is modelled", wanted);
	return lk_hint(err, "give \"%s\", or null", wanted);
}

/* Numbers that come out of a patch, of `each` numbers for every channel. */
static lk_status dit_outputs(const lk_hf_config *config, int each, lk_model *model, lk_error *err) {
	int channels = 0;
	LK_TRY(lk_hf_int(config, "out_channels", &channels, err));
	if (channels > 1 << 16 || each < 1 || each > 1 << 12)
		return lk_hf_fail(config, NULL, err, "out_channels is %d", channels);
	model->dit.patch_outputs = channels * each;
	return LK_OK;
}

/* Sizes that follow from heads and blocks; what comes in and out are patches of latents. */
static lk_status dit_sizes(const lk_hf_config *config, lk_model *model, lk_error *err) {
	double hidden = (double)model->heads * model->head_dim, layers = 0;
	for (int i = 0; i < LK_DIT_BLOCKS; i++) layers += model->dit.repeat[i];
	if (!(hidden >= 1 && hidden <= 1 << 20 && layers >= 1 && layers <= 10000))
		return lk_hf_fail(config, NULL, err, "%d heads of %d, %g %s", model->heads, model->head_dim,
		                  layers, lk_noun(layers, "block", "blocks"));
	model->hidden = (int)hidden;
	model->layers = (int)layers;
	model->kv_heads = model->heads;
	if (model->ffn == 0) model->ffn = 4 * model->hidden;
	model->norm_plain = true;
	double patch = (double)model->channels * model->patch * model->patch;
	if (model->dit.patch_inputs == 0 && patch <= 1 << 20) model->dit.patch_inputs = (int)patch;
	model->channels = model->patch = 0; /* those of networks that read pixels */
	double tokens = lk_dit_latent_tokens(&model->dit) + model->dit.text_tokens;
	if (!(tokens <= 1 << 27)) return lk_hf_fail(config, NULL, err, "samples of %g tokens", tokens);
	model->context = (int)tokens;
	return LK_OK;
}

/* T5's 512 tokens, and 256 for the distilled network, which takes no guidance. */
static lk_status finish_flux(const lk_hf_config *config, lk_model *model, lk_error *err) {
	lk_hf_find(config, "axes_dims_rope");
	LK_TRY(dit_only(config, "patch_size", 1, err)); /* latents come packed, 2 x 2 of 16 channels */
	LK_TRY(dit_outputs(config, 1, model, err));
	model->dit.text_tokens = model->dit.guidance ? 512 : 256;
	return dit_sizes(config, model, err);
}

/* The first blocks with a second attention are listed one by one. */
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

/* The last block's text goes nowhere. 77 tokens of CLIP and 256 of T5. */
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

/* Patches of 1 frame and 2 x 2 latents. Wan2.2's 5B has a VAE of 48 channels, 16 x 16 pixels for a
 * latent. */
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

/* Latents come packed, 2 x 2 of 16 channels, and go out as they are. A norm of the text. */
static lk_status finish_qwen_image(const lk_hf_config *config, lk_model *model, lk_error *err) {
	lk_hf_find(config, "axes_dims_rope");
	lk_hf_find(config, "pooled_projection_dim"); /* unused: there is no pooled projection */
	LK_TRY(dit_only(config, "patch_size", 2, err));
	LK_TRY(dit_outputs(config, 4, model, err));
	model->dit.text_norm = model->dit.text_width;
	return dit_sizes(config, model, err);
}

/* What attention to the text reads is as wide as the network. */
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

/* A VAE of 32 x 32 pixels and 8 frames, patches of one. */
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

/* Sizes of images as further conditions are PixArt-alpha's alone. */
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

/* ---- the table ---- */

const lk_hf_family lk_hf_diffusers[] = {
	{"FluxTransformer2DModel", flux_keys, &flux_start, finish_flux},
	{"SD3Transformer2DModel", sd3_keys, &sd3_start, finish_sd3},
	{"WanTransformer3DModel", wan_keys, &wan_start, finish_wan},
	{"QwenImageTransformer2DModel", qwen_image_keys, &qwen_image_start, finish_qwen_image},
	{"LTXVideoTransformer3DModel", crossed_keys, &ltx_start, finish_ltx},
	{"PixArtTransformer2DModel", crossed_keys, &pixart_start, finish_pixart},
	{"HunyuanVideoTransformer3DModel", hunyuan_keys, &hunyuan_video_start, finish_hunyuan_video},
	{NULL, NULL, NULL, NULL},
};
