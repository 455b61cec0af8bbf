/* hf_puzzle.c: networks that a search made of another one by leaving parts of its layers out and
 * narrowing others (nemotron-nas: arXiv 2411.19146). block_configs states each layer:
 *
 *     attention   no_op, or heads in a group: key/value heads = heads / n_heads_in_group
 *     ffn         no_op, or ffn_mult: width = 2 ffn_mult h / 3, up to a multiple of 256
 *
 * A half that is left out has no norm either. Halves replaced by one matrix, windows and sinks are
 * refused by name. */
#include "io/json.h"
#include "model/read/hf.h"
#include "base/check.h"
#include "base/noun.h"

#include <stdlib.h>
#include <string.h>

/* Whether a half is removed; its members other than the size must be off. */
static lk_status puzzle_half(const lk_hf_config *config, const lk_value *half, const char *name,
                             bool *skipped, lk_error *err) {
	if (!half || half->kind != LK_JSON_OBJECT) {
		lk_hf_fail(config, half, err, "a layer of block_configs states no %s", name);
		return lk_hint(err, "give an object with no_op, and its size");
	}
	*skipped = false;
	for (size_t i = 0; i < half->count; i++) {
		const char *key = half->keys[i];
		const lk_value *value = &half->items[i];
		bool on = value->kind == LK_JSON_TRUE ||
		          (value->kind != LK_JSON_FALSE && value->kind != LK_JSON_NULL);
		if (strcmp(key, "no_op") == 0) *skipped = on;
		else if (on && strcmp(key, "n_heads_in_group") != 0 && strcmp(key, "ffn_mult") != 0)
			return lk_hf_fail(config, value, err, "%.40s of %s in block_configs is not modelled",
			                  key, name);
	}
	return LK_OK;
}

static lk_status puzzle_attention(const lk_hf_config *config, const lk_value *half, lk_model *model,
                                  lk_layer *layer, lk_error *err) {
	bool skipped;
	LK_TRY(puzzle_half(config, half, "attention", &skipped, err));
	if (skipped) return LK_OK;
	double group = lk_json_get_number(half, "n_heads_in_group", 0);
	if (!(group >= 1 && group <= model->heads) || model->heads % (int)group != 0 ||
	    group != (int)group)
		return lk_hf_fail(config, half, err, "%d heads are not in groups of n_heads_in_group, %g",
		                  model->heads, group);
	int heads = model->heads / (int)group;
	if (model->kv_heads > 0 && heads != model->kv_heads)
		return lk_hf_fail(config, half, err, "layers of %d and %d key/value heads are not modelled",
		                  model->kv_heads, heads);
	model->kv_heads = heads;
	layer->mixers = LK_MIXER_ATTENTION;
	return LK_OK;
}

static lk_status puzzle_ffn(const lk_hf_config *config, const lk_value *half, const lk_model *model,
                            lk_layer *layer, lk_error *err) {
	enum { MULTIPLE = 256 };
	bool skipped;
	LK_TRY(puzzle_half(config, half, "ffn", &skipped, err));
	if (skipped) return LK_OK;
	double width = 2 * lk_json_get_number(half, "ffn_mult", 0) * model->hidden / 3;
	if (!(width >= 1 && width < 1 << 24))
		return lk_hf_fail(config, half, err, "ffn_mult does not give a width of an MLP");
	layer->ffn = LK_FFN_DENSE;
	layer->width = ((int)width + MULTIPLE - 1) / MULTIPLE * MULTIPLE;
	return LK_OK;
}

/* The default width is the widest; layers of that width state none. */
static void puzzle_widest(lk_model *model, lk_layer *layers, int count) {
	LK_ASSERT(count >= 0);
	for (int i = 0; i < count; i++)
		if (layers[i].width > model->ffn) model->ffn = layers[i].width;
	for (int i = 0; i < count; i++)
		if (layers[i].width == model->ffn) layers[i].width = 0;
	if (model->ffn == 0) model->ffn = 1; /* no layer has an MLP */
}

lk_status lk_hf_finish_puzzle(const lk_hf_config *config, lk_model *model, lk_error *err) {
	const lk_value *blocks = lk_hf_find(config, "block_configs");
	if (!blocks || blocks->kind != LK_JSON_ARRAY || blocks->count != (size_t)model->layers) {
		lk_hf_fail(config, blocks, err, "block_configs is not a list of %d %s", model->layers,
		           lk_noun(model->layers, "layer", "layers"));
		return lk_hint(err, "give an object with attention and ffn for each layer");
	}
	lk_layer *layers = calloc(blocks->count + 1, sizeof *layers);
	lk_status status = layers ? LK_OK : lk_oom(err);
	int count = 0; /* layers with anything left */
	model->ffn = model->kv_heads = 0;
	for (size_t i = 0; status == LK_OK && i < blocks->count; i++) {
		const lk_value *block = &blocks->items[i];
		lk_layer *layer = &layers[count];
		*layer = (lk_layer){.causal = true};
		status = puzzle_attention(config, lk_json_get(block, "attention"), model, layer, err);
		if (status == LK_OK)
			status = puzzle_ffn(config, lk_json_get(block, "ffn"), model, layer, err);
		if (layer->mixers || layer->ffn) count++;
	}
	if (status == LK_OK && count == 0)
		status = lk_hf_fail(config, blocks, err, "block_configs leaves no layer");
	if (status == LK_OK) {
		puzzle_widest(model, layers, count);
		model->layers = count;
		status = lk_hf_order(config, layers, count, model, err);
	}
	free(layers);
	return status == LK_OK ? lk_hf_shapes(config, model, err) : status;
}
