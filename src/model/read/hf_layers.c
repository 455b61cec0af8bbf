/* hf_layers.c: lists of layers in configs. */
#include "model/read/hf.h"
#include "base/check.h"
#include "base/noun.h"

#include <stdlib.h>
#include <string.h>

lk_status lk_hf_order(const lk_hf_config *config, const lk_layer *layers, int count,
                      lk_model *model, lk_error *err) {
	LK_ASSERT(count >= 0);
	char order[sizeof model->order];
	lk_model listed = *model;
	if (lk_model_set_order(&listed, layers, count)) {
		memcpy(model->order, listed.order, sizeof order);
		return LK_OK;
	}
	lk_hf_fail(config, NULL, err, "%d %s change their kind too often to be listed", count,
	           lk_noun(count, "layer", "layers"));
	return lk_hint(err, "%d characters of items such as 3M- are kept; state fewer layers",
	               LK_MODEL_ORDER - 1);
}

/* The mixers of a layer kind, 0: unknown. */
static int kind_mixers(const char *kind, int linear, bool *window, bool *chunked) {
	*window = strcmp(kind, "sliding_attention") == 0;
	*chunked = strcmp(kind, "chunked_attention") == 0;
	if (*window || *chunked || strcmp(kind, "full_attention") == 0 ||
	    strcmp(kind, "attention") == 0)
		return LK_MIXER_ATTENTION;
	if (strcmp(kind, "mamba") == 0) return LK_MIXER_SSM;
	if (strcmp(kind, "conv") == 0) return LK_MIXER_CONV;
	if (strcmp(kind, "hybrid") == 0) return LK_MIXER_SSM | LK_MIXER_ATTENTION;
	return strcmp(kind, "linear_attention") == 0 ? linear : 0;
}

static lk_status check_layer_types(const lk_hf_config *config, const lk_value *types,
                                   const lk_model *model, lk_error *err) {
	if (types->kind != LK_JSON_ARRAY)
		return lk_hf_wrong_kind(config, types, "layer_types", "a list of texts", err);
	if (types->count == (size_t)model->layers) return LK_OK;
	lk_hf_fail(config, types, err, "layer_types has %zu %s for %d %s", types->count,
	           lk_noun(types->count, "entry", "entries"), model->layers,
	           lk_noun(model->layers, "layer", "layers"));
	return lk_hint(err, "give one entry per layer");
}

lk_status lk_hf_layer_kinds(const lk_hf_config *config, const lk_value *types, int linear,
                            lk_model *model, lk_error *err) {
	LK_TRY(check_layer_types(config, types, model, err));
	lk_layer *layers = calloc(types->count + 1, sizeof *layers);
	lk_status status = layers ? LK_OK : lk_oom(err);
	for (int i = 0; status == LK_OK && i < model->layers; i++) {
		const lk_value *item = &types->items[i];
		const char *text = item->kind == LK_JSON_STRING ? item->text : "no text";
		bool window, chunked;
		layers[i] = lk_model_layer(model, i);
		layers[i].mixers = kind_mixers(text, linear, &window, &chunked);
		layers[i].chunked = chunked;
		layers[i].window = window || chunked ? model->window : 0;
		if (layers[i].mixers && (!window || model->window > 0)) continue;
		status =
			lk_hf_fail(config, item, err, "layer_types names %.60s, which is not modelled", text);
		lk_hint(err, "use full_attention, or sliding_attention together with sliding_window");
	}
	if (status == LK_OK) status = lk_hf_order(config, layers, model->layers, model, err);
	free(layers);
	return status;
}

/* Whether layer i of the list is a window layer; unknown kinds are errors, since their cost is not
 * modelled. */
static lk_status layer_windowed(const lk_hf_config *config, const lk_value *item, bool *out,
                                lk_error *err) {
	const char *text = item->kind == LK_JSON_STRING ? item->text : "no text";
	*out = strcmp(text, "sliding_attention") == 0;
	if (*out || strcmp(text, "full_attention") == 0 || config->as) return LK_OK;
	lk_hf_fail(config, item, err, "layer_types names %.60s, which is not modelled", text);
	return lk_hint(err, "use full_attention or sliding_attention");
}

static lk_status count_full(const lk_hf_config *config, const lk_value *types, int *full,
                            int *first, lk_error *err) {
	*full = 0;
	*first = -1;
	for (size_t i = 0; i < types->count; i++) {
		bool windowed;
		LK_TRY(layer_windowed(config, &types->items[i], &windowed, err));
		if (windowed) continue;
		if (*first < 0) *first = (int)i;
		(*full)++;
	}
	return LK_OK;
}

/* Whether the full layers are exactly the last of each group of `every`. */
static bool repeats(const lk_value *types, int every) {
	for (size_t i = 0; i < types->count; i++) {
		bool full = strcmp(types->items[i].text, "full_attention") == 0;
		if (full != ((i + 1) % (size_t)every == 0)) return false;
	}
	return true;
}

lk_status lk_hf_layer_types(const lk_hf_config *config, lk_model *model, lk_error *err) {
	const lk_value *types = lk_hf_find(config, "layer_types");
	if (!types) return LK_OK;
	LK_TRY(check_layer_types(config, types, model, err));
	int full, first;
	LK_TRY(count_full(config, types, &full, &first, err));
	if (full == model->layers) {
		model->window = 0;
		model->full_every = 0;
		return LK_OK;
	}
	if (model->window == 0) {
		lk_hf_fail(config, types, err,
		           "layer_types names sliding_attention, but sliding_window is not stated");
		return lk_hint(err, "add \"sliding_window\": NUMBER");
	}
	model->full_every = full == 0 ? 0 : first + 1;
	if (full > 0 && !repeats(types, first + 1)) {
		model->full_every = 0;
		return lk_hf_layer_kinds(config, types, 0, model, err);
	}
	return LK_OK;
}
