/* hf_towers.c: image encoders in configs of vision-language models: the encoder, by the model_type
 * of vision_config, and what joins it to the language model, by that of the whole config. Keys and
 * defaults are those of the configuration classes of the transformers library. */
#include "model/read/hf.h"

#include <limits.h>
#include <math.h>
#include <string.h>

#include "base/text.h"

enum { MERGED_MOST = 1 << 20 }; /* width of several merged tokens */

/* Every image has its own size. */
/* ViT-Base and ViT-Large (arXiv 2010.11929, table 1). */

/* ---- joints ---- */

static void project_twice(lk_model *model, int inner) {
	model->tower.project.width[0] = inner;
	model->tower.project.width[1] = model->hidden;
	model->tower.project.bias = true;
}

/* llava: two products; class tokens are dropped. Every image, or tile of one, has the encoder's
 * size. */
lk_status lk_hf_join_llava(const lk_hf_config *config, const lk_hf_config *vision, lk_model *model,
                           lk_error *err) {
	bool bias = true;
	(void)vision;
	LK_TRY(lk_hf_flag(config, "multimodal_projector_bias", &bias, err));
	project_twice(model, model->hidden);
	model->tower.project.bias = bias;
	return LK_OK;
}

/* llava_next, llava_onevision: plus a learned end-of-row embedding. */
lk_status lk_hf_join_llava_next(const lk_hf_config *config, const lk_hf_config *vision,
                                lk_model *model, lk_error *err) {
	model->tower.project.loose = model->hidden;
	return lk_hf_join_llava(config, vision, model, err);
}

lk_status lk_hf_join_paligemma(const lk_hf_config *config, const lk_hf_config *vision,
                               lk_model *model, lk_error *err) {
	(void)config, (void)vision, (void)err;
	model->tower.project.width[0] = model->hidden;
	model->tower.project.bias = true;
	return LK_OK;
}

/* gemma3: patches are averaged to mm_tokens_per_image tokens, a norm, a product. Averaging keeps
 * the width: the product reads vectors of the encoder's width. */
lk_status lk_hf_join_gemma3(const lk_hf_config *config, const lk_hf_config *vision, lk_model *model,
                            lk_error *err) {
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
lk_status lk_hf_join_glm4v(const lk_hf_config *config, const lk_hf_config *vision, lk_model *model,
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
lk_status lk_hf_join_idefics3(const lk_hf_config *config, const lk_hf_config *vision,
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
lk_status lk_hf_join_internvl(const lk_hf_config *config, const lk_hf_config *vision,
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
lk_status lk_hf_join_llama4(const lk_hf_config *config, const lk_hf_config *vision, lk_model *model,
                            lk_error *err) {
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
lk_status lk_hf_join_mllama(const lk_hf_config *config, const lk_hf_config *vision, lk_model *model,
                            lk_error *err) {
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
lk_status lk_hf_join_mistral3(const lk_hf_config *config, const lk_hf_config *vision,
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

lk_status lk_hf_join_qwen2_vl(const lk_hf_config *config, const lk_hf_config *vision,
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

lk_status lk_hf_join_qwen2_5_vl(const lk_hf_config *config, const lk_hf_config *vision,
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
lk_status lk_hf_join_qwen3_vl(const lk_hf_config *config, const lk_hf_config *vision,
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
lk_status lk_hf_join_qwen3_5(const lk_hf_config *config, const lk_hf_config *vision,
                             lk_model *model, lk_error *err) {
	LK_TRY(lk_hf_join_qwen3_vl(config, vision, model, err));
	model->tower.project.taps = 0;
	return LK_OK;
}

/* gemma3n: a convolution net for images (timm's mobilenetv5_300m_enc: 294,126,912 parameters,
 * output width 2,048) and a conformer for sound. Sequences are text only: a step runs neither. */
lk_status lk_hf_join_gemma3n(const lk_hf_config *config, const lk_hf_config *unused,
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
lk_status lk_hf_join_omni(const lk_hf_config *config, const lk_hf_config *vision, lk_model *model,
                          lk_error *err) {
	lk_hf_config whole = *config;
	bool speaks = true;
	whole.object = config->root;
	LK_TRY(lk_hf_join_qwen3_vl(config, vision, model, err));
	LK_TRY(lk_hf_omni_sound(config, model->hidden, &model->beside, err));
	LK_TRY(lk_hf_flag(&whole, "enable_audio_output", &speaks, err));
	if (!speaks) return LK_OK;
	LK_TRY(lk_hf_talker_params(&whole, &model->beside, err));
	return lk_hf_vocoder_params(&whole, &model->beside, err);
}

/* minicpmv: slices of image_size pixels, whose tokens learned queries read (Resampler of its
 * modeling file: heads of 128, norms of queries, keys and output); one more product. Positions are
 * those of the encoder's own images. */
lk_status lk_hf_join_minicpmv(const lk_hf_config *config, const lk_hf_config *vision,
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
lk_status lk_hf_join_clip(const lk_hf_config *config, const lk_hf_config *vision, lk_model *model,
                          lk_error *err) {
	model->tower.project.width[0] = 512;
	LK_TRY(lk_hf_int(config, "projection_dim", &model->tower.project.width[0], err));
	return join_pair("clip", vision, model,
	                 (double)model->hidden * model->tower.project.width[0] + 1, err);
}

/* siglip: the image's tokens are pooled by attention of one learned query, with an MLP whose
 * operations, 1 % of the encoder's, are left out; a temperature and a bias. */
lk_status lk_hf_join_siglip(const lk_hf_config *config, const lk_hf_config *vision, lk_model *model,
                            lk_error *err) {
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

static const lk_hf_joint *joint_of(const lk_value *type) {
	if (!type || type->kind != LK_JSON_STRING) return NULL;
	for (const lk_hf_joint *row = lk_hf_joints; row->type; row++)
		if (strcmp(row->type, type->text) == 0) return row;
	return NULL;
}

static const lk_hf_encoder *encoder_of(const char *type) {
	for (const lk_hf_encoder *row = lk_hf_encoders; row->types; row++)
		if (lk_hf_listed(type, row->types)) return row;
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
	LK_TRY(lk_hf_read_keys(&vision, encoder->keys, model, err));
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
