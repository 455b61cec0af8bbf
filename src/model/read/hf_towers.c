/* hf_towers.c: image encoders in configs of vision-language models: the encoder, by the model_type
 * of vision_config, and what joins it to the language model, by that of the whole config. Keys and
 * defaults are those of the configuration classes of the transformers library. */
#include "model/read/hf.h"

#include <limits.h>
#include <math.h>
#include <string.h>

#include "base/text.h"

enum { MERGED_MOST = 1 << 20 }; /* width of several merged tokens */

#define TOWER(names, field) \
	{ names, LK_HF_INT, offsetof(lk_model, tower.field), true, false }
#define END LK_HF_END

/* ---- encoders ---- */

typedef struct lk_hf_encoder {
	const char *types;     /* of vision_config, separated by '|' */
	const lk_hf_key *keys; /* ends with names NULL */
	const char *known;     /* other members, which shape nothing or are read by the join */
	lk_tower start;        /* default values; position_rows -1: one per token */
} lk_hf_encoder;

static const lk_hf_key usual_keys[] = {
	TOWER("num_hidden_layers", layers),  TOWER("hidden_size", hidden),
	TOWER("num_attention_heads", heads), TOWER("intermediate_size", ffn),
	TOWER("image_size", image),          TOWER("patch_size", patch),
	TOWER("num_channels", channels),     END,
};

static const lk_hf_key qwen_keys[] = {
	TOWER("depth", layers),
	TOWER("num_heads", heads),
	TOWER("patch_size|spatial_patch_size", patch),
	TOWER("in_chans|in_channels", channels),
	TOWER("temporal_patch_size", frames),
	TOWER("spatial_merge_size", project.merge),
	END,
};

/* glm4v: the MLP of a layer is as wide as the encoder's output. */
static const lk_hf_key glm4v_keys[] = {
	TOWER("depth", layers),
	TOWER("hidden_size", hidden),
	TOWER("num_heads", heads),
	TOWER("out_hidden_size", ffn),
	TOWER("patch_size", patch),
	TOWER("in_channels", channels),
	TOWER("temporal_patch_size", frames),
	TOWER("spatial_merge_size", project.merge),
	END,
};

/* mllama: gated layers follow the others. */
static const lk_hf_key mllama_keys[] = {
	TOWER("num_hidden_layers", layers),
	TOWER("hidden_size", hidden),
	TOWER("attention_heads", heads),
	TOWER("intermediate_size", ffn),
	TOWER("image_size", image),
	TOWER("patch_size", patch),
	TOWER("num_channels", channels),
	TOWER("max_num_tiles", tiles),
	TOWER("vision_output_dim", project.inputs),
	END,
};

#define USUAL_KNOWN                                                                              \
	"num_hidden_layers|hidden_size|num_attention_heads|intermediate_size|image_size|patch_size|" \
	"num_channels|"
#define QWEN_KNOWN                                                                            \
	"depth|num_heads|patch_size|spatial_patch_size|in_chans|in_channels|temporal_patch_size|" \
	"spatial_merge_size|hidden_size|out_hidden_size|intermediate_size|tokens_per_second|"
/* Every image has its own size. */
#define ANY .any_size = 1, .image = LK_IMAGE_PIXELS
/* ViT-Base and ViT-Large (arXiv 2010.11929, table 1). */
#define BASE  .layers = 12, .hidden = 768, .heads = 12, .ffn = 3072, .channels = 3
#define LARGE .layers = 24, .hidden = 1024, .heads = 16, .ffn = 4096, .channels = 3

static const lk_hf_encoder encoders[] = {
	{"clip_vision_model",
     usual_keys,
     USUAL_KNOWN "projection_dim|vocab_size",
     {BASE, .image = 224, .patch = 32, .position_rows = -1, .class_token = 1, .biases = 1,
      .pre_norm = 1, .post_norm = 1}},
	{"siglip_vision_model|siglip|idefics3|idefics3_vision|smolvlm_vision",
     usual_keys,
     USUAL_KNOWN "projection_dim|projector_hidden_act|vision_use_head|num_image_tokens|"
                 "max_image_size|size|use_base_siglip",
     {BASE, .image = 224, .patch = 16, .position_rows = -1, .patch_bias = 1, .biases = 1,
      .post_norm = 1}},
	{"internvl_vision|intern_vit_6b",
     usual_keys,
     USUAL_KNOWN "attention_bias|qkv_bias|qk_normalization|use_qk_norm|layer_scale_init_value|"
                 "norm_type|"
                 "use_absolute_position_embeddings|use_mean_pooling|projection_dropout|"
                 "drop_path_rate|initializer_factor",
     {LARGE, .image = 448, .patch = 14, .position_rows = -1, .class_token = 1, .patch_bias = 1,
      .biases = 1, .layer_scale = 1}},
	{"pixtral",
     usual_keys,
     USUAL_KNOWN "head_dim",
     {LARGE, .any_size = 1, .image = 1024, .patch = 16, .gated = 1, .pre_norm = 1, .rms = 1}},
	{"llama4_vision_model",
     usual_keys,
     USUAL_KNOWN "multi_modal_projector_bias|pixel_shuffle_ratio|projector_input_dim|"
                 "projector_output_dim|vision_output_dim|vision_feature_layer|"
                 "vision_feature_select_strategy",
     {.layers = 34,
      .hidden = 768,
      .heads = 16,
      .ffn = 5632,
      .image = 448,
      .patch = 14,
      .channels = 3,
      .position_rows = -1,
      .class_token = 1,
      .biases = 1,
      .pre_norm = 1,
      .post_norm = 1}},
	{"mllama_vision_model",
     mllama_keys,
     USUAL_KNOWN "attention_heads|max_num_tiles|num_global_layers|vision_output_dim|"
                 "intermediate_layers_indices|supported_aspect_ratios",
     {.layers = 32,
      .hidden = 1280,
      .heads = 16,
      .ffn = 5120,
      .image = 448,
      .patch = 14,
      .channels = 3,
      .tiles = 4,
      .crossed = 1,
      .position_rows = -1,
      .class_token = 1,
      .biases = 1,
      .qkv_plain = 1,
      .out_plain = 1,
      .pre_norm = 1,
      .post_norm = 1,
      .project = {.inputs = 7680}}},
	{"qwen2_vl|qwen2_vl_vision",
     qwen_keys,
     QWEN_KNOWN "embed_dim|mlp_ratio",
     {ANY, .layers = 32, .hidden = 1280, .heads = 16, .patch = 14, .channels = 3, .frames = 2,
      .biases = 1, .project = {.merge = 2}}},
	{"qwen2_5_vl|qwen2_5_vl_vision",
     qwen_keys,
     QWEN_KNOWN "window_size|fullatt_block_indexes",
     {ANY, .layers = 32, .hidden = 3584, .heads = 16, .ffn = 3420, .patch = 14, .channels = 3,
      .frames = 2, .biases = 1, .gated = 1, .rms = 1, .project = {.merge = 2}}},
	{"qwen3_vl|qwen3_vl_vision|qwen3_vl_moe|qwen3_vl_moe_vision|qwen3_omni_moe_vision_encoder|"
     "qwen3_5|qwen3_5_vision|"
     "qwen3_5_moe|qwen3_5_moe_vision",
     qwen_keys,
     QWEN_KNOWN
     "deepstack_visual_indexes|num_position_embeddings|image_size|apply_vit_abs_pos_embed",
     {ANY, .layers = 27, .hidden = 1152, .heads = 16, .ffn = 4304, .patch = 16, .channels = 3,
      .frames = 2, .position_rows = 2304, .patch_bias = 1, .biases = 1, .project = {.merge = 2}}},
	{"glm4v|glm4v_vision|glm4v_moe|glm4v_moe_vision",
     glm4v_keys,
     QWEN_KNOWN "num_channels|image_size|attention_bias",
     {ANY, .layers = 24, .hidden = 1536, .heads = 12, .patch = 14, .channels = 3, .frames = 2,
      .position_rows = 576, .patch_bias = 1, .gated = 1, .rms = 1, .pre_norm = 1, .post_norm = 1,
      .project = {.merge = 2}}},
};

/* ---- joints ---- */

/* Derive the projector; `config` is the whole config, `vision` its vision_config. */
typedef lk_status (*joint_fn)(const lk_hf_config *config, const lk_hf_config *vision,
                              lk_model *model, lk_error *err);

static void project_twice(lk_model *model, int inner) {
	model->tower.project.width[0] = inner;
	model->tower.project.width[1] = model->hidden;
	model->tower.project.bias = true;
}

/* llava: two products; class tokens are dropped. Every image, or tile of one, has the encoder's
 * size. */
static lk_status join_llava(const lk_hf_config *config, const lk_hf_config *vision, lk_model *model,
                            lk_error *err) {
	bool bias = true;
	(void)vision;
	LK_TRY(lk_hf_flag(config, "multimodal_projector_bias", &bias, err));
	project_twice(model, model->hidden);
	model->tower.project.bias = bias;
	return LK_OK;
}

/* llava_next, llava_onevision: plus a learned end-of-row embedding. */
static lk_status join_llava_next(const lk_hf_config *config, const lk_hf_config *vision,
                                 lk_model *model, lk_error *err) {
	model->tower.project.loose = model->hidden;
	return join_llava(config, vision, model, err);
}

static lk_status join_paligemma(const lk_hf_config *config, const lk_hf_config *vision,
                                lk_model *model, lk_error *err) {
	(void)config, (void)vision, (void)err;
	model->tower.project.width[0] = model->hidden;
	model->tower.project.bias = true;
	return LK_OK;
}

/* gemma3: patches are averaged to mm_tokens_per_image tokens, a norm, a product. Averaging keeps
 * the width: the product reads vectors of the encoder's width. */
static lk_status join_gemma3(const lk_hf_config *config, const lk_hf_config *vision,
                             lk_model *model, lk_error *err) {
	int tokens = 256, side = model->tower.image / model->tower.patch, each = 0;
	(void)vision;
	LK_TRY(lk_hf_int(config, "mm_tokens_per_image", &tokens, err));
	while (each < 4096 && (each + 1) * (each + 1) <= tokens) each++;
	if (each == 0 || each * each != tokens || side % each != 0) {
		lk_hf_fail(config, NULL, err, "%d x %d patches are not averaged to %d tokens", side, side,
		           tokens);
		return lk_hint(err, "mm_tokens_per_image must be the square of a divisor of %d", side);
	}
	model->tower.project.merge = side / each;
	model->tower.project.averages = 1;
	model->tower.project.width[0] = model->hidden;
	model->tower.project.norms = model->tower.hidden;
	return LK_OK;
}

/* glm4v (modeling_glm4v.py, Glm4vVisionPatchMerger): adjacent tokens through a product with a bias,
 * then one of [d, d], a norm and a gated MLP of c numbers, which together have as many weights and
 * operations as two products with (d + 3 c) / 2 columns between them. */
static lk_status join_glm4v(const lk_hf_config *config, const lk_hf_config *vision, lk_model *model,
                            lk_error *err) {
	lk_tower *tower = &model->tower;
	int inner = 13696, side = 336;
	bool biases = false;
	(void)config;
	LK_TRY(lk_hf_int(vision, "intermediate_size", &inner, err));
	LK_TRY(lk_hf_int(vision, "image_size", &side, err));
	LK_TRY(lk_hf_flag(vision, "attention_bias", &biases, err));
	double between = (model->hidden + 3.0 * inner) / 2,
		   rows = tower->patch > 0 ? (double)(side / tower->patch) * (side / tower->patch) : 0;
	if (biases || inner < 1 || between > 1 << 20 || rows > 1 << 20 || tower->ffn != model->hidden)
		return lk_hf_fail(vision, NULL, err,
		                  "attention_bias, an out_hidden_size of %d that is not the hidden size, "
		                  "or sizes of %d and %d",
		                  tower->ffn, inner, side);
	tower->position_rows = (int)rows;
	tower->project.width[0] = tower->project.width[2] = model->hidden;
	tower->project.width[1] = (int)between;
	tower->project.norms = 3 * model->hidden; /* and the first product's bias */
	return LK_OK;
}

/* idefics3, smolvlm: scale_factor x scale_factor adjacent tokens. */
static lk_status join_idefics3(const lk_hf_config *config, const lk_hf_config *vision,
                               lk_model *model, lk_error *err) {
	model->tower.project.merge = 2;
	(void)vision;
	LK_TRY(lk_hf_int(config, "scale_factor", &model->tower.project.merge, err));
	model->tower.project.width[0] = model->hidden;
	return LK_OK;
}

/* Convert a ratio of sides below 1 (0.5) to the tokens per side that are merged. */
static lk_status merged_side(const lk_hf_config *config, const char *name, int *merge,
                             lk_error *err) {
	double ratio = 0.5;
	LK_TRY(lk_hf_real(config, name, &ratio, err));
	int side = ratio > 1e-3 && ratio <= 1 ? (int)(1 / ratio + 0.5) : 0;
	if (side == 0 || side * ratio != 1) {
		lk_hf_fail(config, NULL, err, "%s is %g", name, ratio);
		return lk_hint(err, "give 1 over a whole number, such as 0.5");
	}
	*merge = side;
	return LK_OK;
}

/* Width of a merged token. */
static lk_status merged_width(const lk_hf_config *vision, const lk_tower *tower, int *wide,
                              lk_error *err) {
	double width = (double)tower->hidden * tower->project.merge * tower->project.merge;
	*wide = (int)fmin(width, MERGED_MOST);
	if (width <= MERGED_MOST) return LK_OK;
	lk_hf_fail(vision, NULL, err, "%d x %d tokens of %d numbers become one of %g",
	           tower->project.merge, tower->project.merge, tower->hidden, width);
	return lk_hint(err, "at most %d are read", MERGED_MOST);
}

/* internvl: a norm of the concatenated tokens, two products. */
static lk_status join_internvl(const lk_hf_config *config, const lk_hf_config *vision,
                               lk_model *model, lk_error *err) {
	lk_tower *tower = &model->tower;
	bool bias = true, mean = true, norms = false;
	int wide = 0;
	LK_TRY(merged_side(config, "downsample_ratio", &tower->project.merge, err));
	LK_TRY(lk_hf_flag(vision, "attention_bias|qkv_bias", &bias, err));
	LK_TRY(lk_hf_flag(vision, "use_mean_pooling", &mean, err));
	LK_TRY(lk_hf_flag(vision, "qk_normalization|use_qk_norm", &norms, err));
	tower->rms = lk_hf_says(vision, "norm_type", "rms_norm"); /* as in InternViT-6B */
	tower->qkv_plain = !bias;
	tower->qk_norm = norms;
	tower->post_norm = !mean;
	LK_TRY(merged_width(vision, tower, &wide, err));
	tower->project.norms = 2 * wide;
	project_twice(model, model->hidden);
	return LK_OK;
}

/* llama4: concatenated tokens, two products of the adapter, one of the projector. */
static lk_status join_llama4(const lk_hf_config *config, const lk_hf_config *vision,
                             lk_model *model, lk_error *err) {
	lk_projector *project = &model->tower.project;
	bool bias = false;
	(void)config;
	project->width[0] = project->width[1] = 4096;
	LK_TRY(merged_side(vision, "pixel_shuffle_ratio", &project->merge, err));
	LK_TRY(lk_hf_int(vision, "projector_input_dim", &project->width[0], err));
	LK_TRY(lk_hf_int(vision, "projector_output_dim|vision_output_dim", &project->width[1], err));
	LK_TRY(lk_hf_flag(vision, "multi_modal_projector_bias", &bias, err));
	if (bias) return lk_hf_fail(vision, NULL, err, "a projector with biases is not modelled");
	project->width[2] = model->hidden;
	return LK_OK;
}

/* mllama: the outputs of the listed layers and of the last, concatenated, through one product.
 * Tables of places within an image and of its aspect ratio, which all rows read. */
static lk_status join_mllama(const lk_hf_config *config, const lk_hf_config *vision,
                             lk_model *model, lk_error *err) {
	lk_tower *tower = &model->tower;
	const lk_value *shapes = lk_hf_find(vision, "supported_aspect_ratios");
	int gated = 8;
	double ratios = shapes && shapes->kind == LK_JSON_ARRAY ? (double)shapes->count : 8,
		   side = tower->patch > 0 ? tower->image / tower->patch : 0;
	(void)config;
	LK_TRY(lk_hf_int(vision, "num_global_layers", &gated, err));
	double each = (ratios + 1) * tower->tiles * tower->hidden,
		   loose = each * (side * side + 1) + 2 * each + 3 + 2.0 * gated;
	if (!(loose < INT_MAX && tower->layers < 10000 && gated < 10000))
		return lk_hf_fail(vision, NULL, err, "tables of %g places within an image", loose);
	tower->loose = (int)loose;
	tower->layers += gated;
	tower->project.width[0] = model->hidden;
	tower->project.bias = true;
	return LK_OK;
}

/* mistral3: a norm, a merging product, two more. */
static lk_status join_mistral3(const lk_hf_config *config, const lk_hf_config *vision,
                               lk_model *model, lk_error *err) {
	lk_projector *project = &model->tower.project;
	bool bias = false;
	(void)vision;
	project->merge = 2;
	LK_TRY(lk_hf_int(config, "spatial_merge_size", &project->merge, err));
	LK_TRY(lk_hf_flag(config, "multimodal_projector_bias", &bias, err));
	if (bias) return lk_hf_fail(config, NULL, err, "a projector with biases is not modelled");
	project->norms = model->tower.hidden;
	project->width[0] = model->tower.hidden;
	project->width[1] = project->width[2] = model->hidden;
	return LK_OK;
}

/* The merger of Qwen's encoders: a norm per token, a product of the concatenated ones, another to
 * the language model. */
static lk_status merge_qwen(const lk_hf_config *vision, lk_model *model, int out, lk_error *err) {
	lk_tower *tower = &model->tower;
	int wide;
	LK_TRY(merged_width(vision, tower, &wide, err));
	if (out != model->hidden) {
		lk_hf_fail(vision, NULL, err, "tokens of %d numbers for a language model of %d", out,
		           model->hidden);
		return lk_hint(err, "correct out_hidden_size or the language model's hidden_size");
	}
	tower->project.norms = tower->rms ? tower->hidden : 2 * tower->hidden;
	project_twice(model, model->hidden);
	tower->project.width[0] = wide;
	return LK_OK;
}

static lk_status join_qwen2_vl(const lk_hf_config *config, const lk_hf_config *vision,
                               lk_model *model, lk_error *err) {
	double ratio = 4;
	int out = model->hidden;
	(void)config;
	LK_TRY(lk_hf_int(vision, "embed_dim", &model->tower.hidden, err));
	LK_TRY(lk_hf_int(vision, "hidden_size", &out, err)); /* the language model's */
	LK_TRY(lk_hf_real(vision, "mlp_ratio", &ratio, err));
	if (ratio * model->tower.hidden > INT_MAX)
		return lk_hf_fail(vision, NULL, err, "mlp_ratio is too large");
	model->tower.ffn = (int)(ratio * model->tower.hidden);
	return merge_qwen(vision, model, out, err);
}

/* Windows of window_size pixels except in the listed layers, the last of every group. */
static lk_status qwen_windows(const lk_hf_config *vision, lk_model *model, lk_error *err) {
	lk_tower *tower = &model->tower;
	const lk_value *full = lk_hf_find(vision, "fullatt_block_indexes");
	int pixels = 112;
	LK_TRY(lk_hf_int(vision, "window_size", &pixels, err));
	int side = pixels / tower->patch;
	if (side < 1 || side > 4096) return LK_OK;
	tower->window = side * side;
	tower->full_every = 8;
	if (!full) return LK_OK;
	if (full->kind != LK_JSON_ARRAY || full->count == 0 || tower->layers % (int)full->count != 0)
		return lk_hf_wrong_kind(vision, full, "fullatt_block_indexes",
		                        "the last layers of groups of one size", err);
	tower->full_every = tower->layers / (int)full->count;
	for (size_t i = 0; i < full->count; i++) {
		double last = (double)(i + 1) * tower->full_every - 1;
		if (full->items[i].kind == LK_JSON_NUMBER && full->items[i].number == last) continue;
		lk_hf_fail(vision, &full->items[i], err,
		           "fullatt_block_indexes are not the last layers of groups of one size");
		return lk_hint(err, "give 7, 15, 23, ...");
	}
	return LK_OK;
}

static lk_status join_qwen2_5_vl(const lk_hf_config *config, const lk_hf_config *vision,
                                 lk_model *model, lk_error *err) {
	int out = model->hidden;
	(void)config;
	LK_TRY(lk_hf_int(vision, "hidden_size", &model->tower.hidden, err));
	LK_TRY(lk_hf_int(vision, "intermediate_size", &model->tower.ffn, err));
	LK_TRY(lk_hf_int(vision, "out_hidden_size", &out, err));
	LK_TRY(qwen_windows(vision, model, err));
	return merge_qwen(vision, model, out, err);
}

/* Intermediate layers have their own mergers, whose norms are over the concatenated tokens. */
static lk_status join_qwen3_vl(const lk_hf_config *config, const lk_hf_config *vision,
                               lk_model *model, lk_error *err) {
	const lk_value *taps = lk_hf_find(vision, "deepstack_visual_indexes");
	int out = model->hidden;
	(void)config;
	LK_TRY(lk_hf_int(vision, "hidden_size", &model->tower.hidden, err));
	LK_TRY(lk_hf_int(vision, "intermediate_size", &model->tower.ffn, err));
	LK_TRY(lk_hf_int(vision, "num_position_embeddings", &model->tower.position_rows, err));
	LK_TRY(lk_hf_int(vision, "out_hidden_size", &out, err));
	LK_TRY(merge_qwen(vision, model, out, err));
	if (taps && (taps->kind != LK_JSON_ARRAY || taps->count > (size_t)model->tower.layers))
		return lk_hf_wrong_kind(vision, taps, "deepstack_visual_indexes", "a list of layers", err);
	model->tower.project.taps = taps ? (int)taps->count : 3;
	model->tower.project.tap_norms = 2 * model->tower.project.width[0];
	return LK_OK;
}

/* qwen3_5: qwen3_vl without intermediate mergers. */
static lk_status join_qwen3_5(const lk_hf_config *config, const lk_hf_config *vision,
                              lk_model *model, lk_error *err) {
	LK_TRY(join_qwen3_vl(config, vision, model, err));
	model->tower.project.taps = 0;
	return LK_OK;
}

/* gemma3n: a convolution net for images (timm's mobilenetv5_300m_enc: 294,126,912 parameters,
 * output width 2,048) and a conformer for sound. Sequences are text only: a step runs neither. */
static lk_status join_gemma3n(const lk_hf_config *config, const lk_hf_config *unused,
                              lk_model *model, lk_error *err) {
	lk_hf_config vision;
	double sound, width = 2048;
	(void)unused;
	LK_TRY(lk_hf_part(config, "vision_config",
	                  "architecture|do_pooling|model_args|num_classes|hidden_size|vocab_offset|"
	                  "vocab_size|label_names",
	                  &vision, err));
	if (vision.object && lk_hf_find(&vision, "architecture") &&
	    !lk_hf_says(&vision, "architecture", "mobilenetv5_300m_enc")) {
		lk_hf_fail(&vision, lk_hf_find(&vision, "architecture"), err,
		           "only the architecture mobilenetv5_300m_enc is known");
		return lk_hint(err, "--as gemma3n_text reads the language model alone");
	}
	LK_TRY(lk_hf_conformer_params(config, model->hidden, &sound, err));
	model->beside = 294126912 + 130 * width + width * model->hidden + sound;
	return LK_OK;
}

/* qwen3_omni: the thinker's vision is that of qwen3_vl. Audio encoder and speech generator run in
 * no step. */
static lk_status join_omni(const lk_hf_config *config, const lk_hf_config *vision, lk_model *model,
                           lk_error *err) {
	lk_hf_config whole = *config;
	bool speaks = true;
	whole.object = config->root;
	LK_TRY(join_qwen3_vl(config, vision, model, err));
	LK_TRY(lk_hf_omni_sound(config, model->hidden, &model->beside, err));
	LK_TRY(lk_hf_flag(&whole, "enable_audio_output", &speaks, err));
	if (!speaks) return LK_OK;
	LK_TRY(lk_hf_talker_params(&whole, &model->beside, err));
	return lk_hf_vocoder_params(&whole, &model->beside, err);
}

/* minicpmv: slices of image_size pixels, whose tokens learned queries read (Resampler of its
 * modeling file: heads of 128, norms of queries, keys and output); one more product. Positions are
 * those of the encoder's own images. */
static lk_status join_minicpmv(const lk_hf_config *config, const lk_hf_config *vision,
                               lk_model *model, lk_error *err) {
	lk_tower *tower = &model->tower;
	lk_pool *pool = &tower->project.pool;
	bool drops = false;
	double rows = tower->patch > 0 ? tower->image / tower->patch : 0;
	(void)vision;
	tower->image = 448;
	pool->queries = 64;
	LK_TRY(lk_hf_int(config, "image_size", &tower->image, err));
	LK_TRY(lk_hf_int(config, "query_num", &pool->queries, err));
	LK_TRY(lk_hf_flag(config, "drop_vision_last_layer", &drops, err));
	tower->layers -= drops;
	if (rows > 1 << 12 || pool->queries < 1 || pool->queries > 1 << 12 || model->hidden > 1 << 18 ||
	    model->hidden % 128 != 0)
		return lk_hf_fail(config, NULL, err, "%d queries of %d numbers", pool->queries,
		                  model->hidden);
	tower->position_rows = (int)(rows * rows);
	pool->width = pool->before = tower->project.width[0] = model->hidden;
	pool->heads = model->hidden / 128;
	pool->inputs = tower->hidden;
	tower->project.norms = 6 * model->hidden;
	tower->project.loose = pool->queries * model->hidden;
	return LK_OK;
}

/* Contrastive pair: one token of an image is compared with one of a text. */
static lk_status join_pair(const char *name, const lk_hf_config *vision, lk_model *model,
                           double loose, lk_error *err) {
	lk_tower *tower = &model->tower;
	if (tower->patch < 1 || tower->image / tower->patch < 1)
		return LK_OK; /* tower_positions refuses it */
	if (loose > 1 << 24) return lk_hf_fail(vision, NULL, err, "a head of %g parameters", loose);
	model->loose = (int)loose;
	tower->project.merge = tower->image / tower->patch;
	tower->project.averages = 1;
	tower->apart = 1;
	lk_copy(model->name, sizeof model->name, name);
	return LK_OK;
}

/* clip: the class token and the text's last token are projected; a temperature. */
static lk_status join_clip(const lk_hf_config *config, const lk_hf_config *vision, lk_model *model,
                           lk_error *err) {
	model->tower.project.width[0] = 512;
	LK_TRY(lk_hf_int(config, "projection_dim", &model->tower.project.width[0], err));
	return join_pair("clip", vision, model,
	                 (double)model->hidden * model->tower.project.width[0] + 1, err);
}

/* siglip: the image's tokens are pooled by attention of one learned query, with an MLP whose
 * operations, 1 % of the encoder's, are left out; a temperature and a bias. */
static lk_status join_siglip(const lk_hf_config *config, const lk_hf_config *vision,
                             lk_model *model, lk_error *err) {
	double h = model->tower.hidden, f = model->tower.ffn,
		   pool = h + 4 * (h * h + h) + 2 * h + 2 * h * f + f + h;
	bool head = true;
	(void)config;
	LK_TRY(lk_hf_flag(vision, "vision_use_head", &head, err));
	if (pool > 1 << 24 || model->tower.hidden != model->hidden) {
		lk_hf_fail(vision, NULL, err, "encoders of %d and %d numbers", model->tower.hidden,
		           model->hidden);
		return lk_hint(err, "pairs of one width of at most 1,152 are modelled");
	}
	if (head) model->tower.loose = (int)pool;
	return join_pair("siglip", vision, model, 2, err);
}

typedef struct lk_hf_joint {
	const char *type;    /* model_type of the whole config */
	const char *text;    /* default for the language model's part */
	const char *encoder; /* default of vision_config's model_type; NULL: runs in no step */
	joint_fn join;
	const char *known; /* members of the whole config that are read or shape nothing */
} lk_hf_joint;

#define LLAVA_KNOWN                                                                          \
	"projector_hidden_act|vision_feature_layer|vision_feature_select_strategy|ignore_index|" \
	"image_seq_length|multimodal_projector_bias|image_grid_pinpoints|vision_aspect_ratio|"   \
	"use_image_newline_parameter|"
#define QWEN_JOINT_KNOWN "vision_token_id|vision_start_token_id|vision_end_token_id|"

static const lk_hf_joint joints[] = {
	{"llava", "llama", "clip_vision_model", join_llava, LLAVA_KNOWN},
	{"llava_next", "llama", "clip_vision_model", join_llava_next, LLAVA_KNOWN},
	{"llava_onevision", "qwen2", "siglip_vision_model", join_llava_next, LLAVA_KNOWN},
	{"paligemma", "gemma", "siglip_vision_model", join_paligemma,
     "ignore_index|projection_dim|hidden_size|num_hidden_layers"},
	{"gemma3", "gemma3_text", "siglip_vision_model", join_gemma3, "mm_tokens_per_image"},
	{"gemma3n", "gemma3n_text", NULL, join_gemma3n,
     "audio_config|audio_soft_tokens_per_image|vision_soft_tokens_per_image"},
	{"idefics3", "llama", "idefics3", join_idefics3, "scale_factor|image_seq_len"},
	{"smolvlm", "llama", "smolvlm_vision", join_idefics3, "scale_factor|image_seq_len"},
	{"mistral3", "mistral", "pixtral", join_mistral3, LLAVA_KNOWN "spatial_merge_size"},
	{"llama4", "llama4_text", "llama4_vision_model", join_llama4, ""},
	{"mllama", "mllama_text_model", "mllama_vision_model", join_mllama, ""},
	{"internvl", "qwen2", "internvl_vision", join_internvl, LLAVA_KNOWN "downsample_ratio"},
	{"internvl_chat", "llama", "intern_vit_6b", join_internvl,
     "downsample_ratio|dynamic_image_size|force_image_size|max_dynamic_patch|min_dynamic_patch|"
     "ps_version|select_layer|template|use_thumbnail|pad2square|hidden_size|system_message"},
	{"minicpmv", "minicpmv", "siglip_vision_model", join_minicpmv, ""},
	{"clip", "clip_text_model", "clip_vision_model", join_clip,
     "projection_dim|logit_scale_init_value|text_config_dict|vision_config_dict"},
	{"siglip", "siglip_text_model", "siglip_vision_model", join_siglip,
     "text_config_dict|vision_config_dict"},
	{"qwen2_vl", "qwen2_vl_text", "qwen2_vl", join_qwen2_vl, QWEN_JOINT_KNOWN},
	{"qwen2_5_vl", "qwen2_5_vl_text", "qwen2_5_vl", join_qwen2_5_vl, QWEN_JOINT_KNOWN},
	{"qwen3_vl", "qwen3_vl_text", "qwen3_vl", join_qwen3_vl, QWEN_JOINT_KNOWN},
	{"qwen3_vl_moe", "qwen3_vl_moe_text", "qwen3_vl_moe", join_qwen3_vl, QWEN_JOINT_KNOWN},
	{"qwen3_omni_moe", "qwen3_omni_moe_text", "qwen3_vl_moe", join_omni,
     QWEN_JOINT_KNOWN "audio_config|talker_config|code2wav_config|enable_audio_output|"
                      "position_id_per_seconds|seconds_per_chunk"},
	{"glm4v", "glm4v_text", "glm4v", join_glm4v,
     "image_start_token_id|image_end_token_id|video_start_token_id|video_end_token_id"},
	{"glm4v_moe", "glm4v_moe_text", "glm4v_moe", join_glm4v,
     "image_start_token_id|image_end_token_id|video_start_token_id|video_end_token_id"},
	{"qwen3_5", "qwen3_5_text", "qwen3_5", join_qwen3_5, QWEN_JOINT_KNOWN},
	{"qwen3_5_moe", "qwen3_5_moe_text", "qwen3_5_moe", join_qwen3_5, QWEN_JOINT_KNOWN},
};

static const lk_hf_joint *joint_of(const lk_value *type) {
	for (size_t i = 0; type && type->kind == LK_JSON_STRING && i < sizeof joints / sizeof *joints;
	     i++)
		if (strcmp(joints[i].type, type->text) == 0) return &joints[i];
	return NULL;
}

static const lk_hf_encoder *encoder_of(const char *type) {
	for (size_t i = 0; i < sizeof encoders / sizeof *encoders; i++)
		if (lk_hf_listed(type, encoders[i].types)) return &encoders[i];
	return NULL;
}

const char *lk_hf_joint_text(const lk_hf_config *config) {
	const lk_hf_joint *joint = joint_of(lk_json_get(config->root, "model_type"));
	return joint && config->object != config->root ? joint->text : NULL;
}

bool lk_hf_beside_tower(const lk_hf_config *config, const char *name) {
	const lk_hf_joint *joint = joint_of(lk_json_get(config->root, "model_type"));
	if (!joint || config->as) return false;
	return strcmp(name, "vision_config") == 0 || lk_hf_listed(name, joint->known);
}

/* Positions of a table with one row per token. */
static lk_status tower_positions(const lk_hf_config *vision, lk_tower *tower, lk_error *err) {
	int side = tower->patch > 0 ? tower->image / tower->patch : 0;
	if (side < 1 || side > 4096) {
		lk_hf_fail(vision, NULL, err, "an image of %d pixels has no patches of %d", tower->image,
		           tower->patch);
		return lk_hint(err, "image_size must be from patch_size to 4096 times patch_size");
	}
	if (tower->position_rows < 0) tower->position_rows = side * side + tower->class_token;
	return LK_OK;
}

lk_status lk_hf_tower(const lk_hf_config *config, lk_model *model, lk_error *err) {
	const lk_hf_joint *joint = joint_of(lk_json_get(config->root, "model_type"));
	if (!joint || config->as) return LK_OK;
	lk_hf_config whole = *config, vision = *config;
	const lk_value *thinker = lk_json_get(config->root, "thinker_config");
	whole.object = thinker && thinker->kind == LK_JSON_OBJECT ? thinker : config->root;
	const lk_value *object = lk_json_get(whole.object, "vision_config");
	if (!object || object->kind == LK_JSON_NULL) {
		lk_hf_fail(config, object, err, "a network of the type %s sees, but %s", joint->type,
		           object ? "vision_config is null" : "the config states no vision_config");
		return lk_hint(err, "add its encoder's sizes; --as %s reads the language model alone",
		               model->family);
	}
	if (!joint->encoder) return joint->join(&whole, NULL, model, err);
	if (object->kind != LK_JSON_OBJECT)
		return lk_hf_wrong_kind(config, object, "vision_config", "an object", err);
	const lk_value *type = lk_json_get(object, "model_type");
	const lk_hf_encoder *encoder =
		encoder_of(type && type->kind == LK_JSON_STRING ? type->text : joint->encoder);
	if (!encoder) {
		lk_hf_fail(config, type, err, "encoders of the type \"%.60s\" are not modelled",
		           type->text);
		return lk_hint(err, "--as %s reads the language model alone", model->family);
	}
	LK_TRY(lk_hf_part(&whole, "vision_config", encoder->known, &vision, err));
	model->tower = encoder->start;
	model->tower.images = 1;
	for (const lk_hf_key *key = encoder->keys; key->names; key++)
		LK_TRY(lk_hf_read_key(&vision, key, model, err));
	LK_TRY(joint->join(&whole, &vision, model, err));
	return tower_positions(&vision, &model->tower, err);
}

/* ---- defaults of the text_config of a joined model ---- */

void lk_hf_text_defaults(const lk_hf_config *config, const char *type, lk_model *model) {
	bool mistral = strcmp(type, "mistral") == 0;
	if (config->object == config->root || (!mistral && strcmp(type, "llama") != 0) ||
	    !joint_of(lk_json_get(config->root, "model_type")))
		return;
	model->hidden = 4096;
	model->layers = model->heads = 32;
	if (mistral) model->kv_heads = 8;
	model->ffn = mistral ? 14336 : 11008;
	model->vocab = 32000;
	model->context = mistral ? 131072 : 2048;
}
