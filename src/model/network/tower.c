/* tower.c: an image encoder before a language model (ViT, arXiv 2010.11929) as a network of its
 * own: patches, layers, a projector instead of the head. */
#include <stdio.h>

#include "model/network/parts.h"
#include "base/check.h"

bool lk_model_tower(const lk_model *model, lk_model *out) {
	LK_ASSERT(out != model);
	const lk_tower *tower = &model->tower;
	if (tower->layers <= 0) return false;
	bool biases = tower->biases > 0;
	*out = (lk_model){
		.name = "tower",
		.family = "vit",
		.network = LK_NET_ENCODER,
		.layers = tower->layers,
		.hidden = tower->hidden,
		.heads = tower->heads,
		.kv_heads = tower->heads,
		.head_dim = tower->heads > 0 ? tower->hidden / tower->heads : 0,
		.ffn = tower->ffn,
		.norm = tower->rms ? LK_NORM_RMS : LK_NORM_LAYER,
		.norm_bias = !tower->rms,
		.norms_per_layer = 2,
		.embed_norm = tower->pre_norm > 0,
		.final_norm = tower->post_norm > 0,
		.qkv_bias = biases && !tower->qkv_plain,
		.qk_norm = tower->qk_norm > 0,
		.qk_norm_wide = tower->qk_norm > 0,
		.out_bias = biases && !tower->out_plain,
		.mlp_bias = biases,
		.gated = tower->gated > 0,
		.position_rows = tower->position_rows,
		.image = tower->image,
		.patch = tower->patch,
		.channels = tower->channels,
		.patch_frames = tower->frames,
		.patch_plain = !tower->patch_bias,
		.no_class = !tower->class_token,
		.tiles = tower->tiles,
		.layer_scale = tower->layer_scale > 0,
		.loose = tower->loose,
		.project = tower->project,
	};
	if (tower->window > 0) { /* windows do not overlap */
		out->window = tower->window;
		if (tower->full_every > 1)
			snprintf(out->order, sizeof out->order, "%dc- *-", tower->full_every - 1);
		else snprintf(out->order, sizeof out->order, "c-");
	}
	return true;
}

double lk_model_image_tokens(const lk_model *model) {
	if (model->image <= 0 || model->patch <= 0) return 0;
	int side = model->image / model->patch;
	return ((double)side * side + !model->no_class + model->distills) *
	       (model->tiles > 1 ? model->tiles : 1);
}

static double projected_tokens(int image, int patch, const lk_projector *project) {
	int merge = project->merge > 1 ? project->merge : 1;
	if (patch <= 0) return 0;
	if (project->pool.queries > 0) return project->pool.queries;
	int side = image / patch / merge;
	return (double)side * side;
}

double lk_model_projected_tokens(const lk_model *model) {
	if (model->project.inputs > 0) return lk_model_image_tokens(model); /* class tokens included */
	return projected_tokens(model->image, model->patch, &model->project);
}

double lk_tower_tokens(const lk_tower *tower) {
	if (tower->crossed) { /* directly from the encoder */
		double side = tower->patch > 0 ? tower->image / tower->patch : 0;
		return (side * side + tower->class_token) * (tower->tiles > 1 ? tower->tiles : 1);
	}
	return projected_tokens(tower->image, tower->patch, &tower->project);
}

double lk_model_patch_inputs(const lk_model *model) {
	int frames = model->patch_frames > 1 ? model->patch_frames : 1;
	return (double)model->patch * model->patch * model->channels * frames;
}

double lk_model_crossed_tokens(const lk_model *model) {
	return model->tower.images * lk_tower_tokens(&model->tower);
}

double lk_model_projector_inputs(const lk_model *model) {
	if (model->project.inputs > 0) return model->project.inputs;
	if (model->project.pool.width > 0) return model->project.pool.width;
	double merge = model->project.merge > 1 && !model->project.averages ? model->project.merge : 1;
	return model->hidden * merge * merge;
}

double lk_model_pool_tokens(const lk_model *model) {
	lk_projector unmerged = {0};
	return projected_tokens(model->image, model->patch, &unmerged);
}

double lk_model_pool_keys(const lk_model *model) {
	const lk_projector *project = &model->project;
	double side = project->merge > 1 ? project->merge : 1;
	return project->pool.queries > 0 ? lk_model_pool_tokens(model) : side * side;
}

double lk_model_pool_reads(const lk_model *model) {
	const lk_pool *pool = &model->project.pool;
	return pool->before > 0 ? pool->before : pool->inputs;
}

/* Learned queries are as wide as the projected ones. */
static double pool_query(const lk_model *model) {
	const lk_pool *pool = &model->project.pool;
	return (pool->queries > 0 ? pool->width : lk_model_pool_reads(model)) * (double)pool->width;
}

static double pool_params(const lk_model *model) {
	const lk_pool *pool = &model->project.pool;
	double w = pool->width, reads = lk_model_pool_reads(model);
	if (pool->width == 0) return 0;
	return (double)pool->inputs * pool->before + 2 * reads * w + pool_query(model) + w * w + 4 * w;
}

static double pool_macs(const lk_model *model) {
	const lk_pool *pool = &model->project.pool;
	double w = pool->width, reads = lk_model_pool_reads(model);
	if (pool->width == 0) return 0;
	return lk_model_pool_tokens(model) * ((double)pool->inputs * pool->before + 2 * reads * w) +
	       lk_model_projected_tokens(model) *
	           (pool_query(model) + w * w + 2 * w * lk_model_pool_keys(model));
}

static double product_weights(const lk_model *model, bool biases) {
	const lk_projector *project = &model->project;
	double sum = 0, in = lk_model_projector_inputs(model);
	for (int i = 0; i < LK_PROJECTOR_WIDTHS && project->width[i] > 0; i++) {
		double out = project->width[i];
		sum += (i == 0 && project->gated ? 2 : 1) * (in * out + (biases ? out : 0));
		in = out;
	}
	return sum;
}

double lk_model_projector_products(const lk_model *model) {
	const lk_projector *project = &model->project;
	return product_weights(model, project->bias) * (1 + project->taps) + pool_params(model);
}

double lk_model_projector_macs(const lk_model *model) {
	return product_weights(model, false) * (1 + model->project.taps) *
	           lk_model_projected_tokens(model) +
	       pool_macs(model);
}
