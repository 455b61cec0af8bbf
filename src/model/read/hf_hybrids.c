/* hf_hybrids.c: readers of networks whose layers differ in their mixers. Keys and defaults are
 * those of the configuration classes of the transformers library; layer numbers start at 0. */
#include "model/read/hf.h"
#include "base/check.h"
#include "base/noun.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

lk_status lk_hf_each_layer(const lk_hf_config *config, lk_model *model, lk_hf_layer_fn change,
                           const void *context, lk_error *err) {
	LK_ASSERT(change && model->layers >= 0);
	if (model->layers > 10000)
		return lk_hf_fail(config, NULL, err, "%d %s too many", model->layers,
		                  lk_noun(model->layers, "layer is", "layers are"));
	lk_layer *layers = calloc((size_t)model->layers + 1, sizeof *layers);
	if (!layers) return lk_oom(err);
	for (int i = 0; i < model->layers; i++)
		layers[i] = change(context, lk_model_layer(model, i), i);
	lk_status status = lk_hf_order(config, layers, model->layers, model, err);
	free(layers);
	return status;
}

lk_layer lk_hf_periodic_mixer(const void *context, lk_layer start, int layer) {
	LK_ASSERT(layer >= 0);
	const lk_hf_period *at = context;
	bool hit = at->period > 0 && layer % at->period == at->offset % at->period;
	start.mixers = hit ? at->usual : at->other;
	return start;
}

lk_layer lk_hf_listed_attention(const void *context, lk_layer start, int layer) {
	LK_ASSERT(layer >= 0);
	const lk_hf_list *at = context;
	start.mixers = at->other;
	for (size_t i = 0; at->list && i < at->list->count; i++) {
		const lk_value *item = &at->list->items[i];
		if (item->kind == LK_JSON_NUMBER && item->number == layer + at->from)
			start.mixers = LK_MIXER_ATTENTION;
	}
	return start;
}

void lk_hf_no_heads(lk_model *model) {
	model->heads = model->kv_heads = model->head_dim = 1;
	model->rotary_base = 0;
}

/* ---- gated delta net ---- */

lk_status lk_hf_finish_qwen3_next(const lk_hf_config *config, lk_model *model, lk_error *err) {
	lk_hf_period full = {4, 3, LK_MIXER_ATTENTION, LK_MIXER_DELTA};
	LK_TRY(lk_hf_int(config, "full_attention_interval", &full.period, err));
	LK_TRY(lk_hf_shapes(config, model, err));
	model->window = 0;
	if (model->moe_every > 1) model->moe_offset = 1; /* (layer + 1) % decoder_sparse_step == 0 */
	full.offset = full.period - 1;
	const lk_value *types = lk_hf_find(config, "layer_types");
	if (types) return lk_hf_layer_kinds(config, types, LK_MIXER_DELTA, model, err);
	return lk_hf_each_layer(config, model, lk_hf_periodic_mixer, &full, err);
}

/* kimi_linear (moonshotai/Kimi-Linear-48B-A3B, modeling_kimi.py): linear_attn_config lists the
 * attention layers, counted from 1; decay and gate have low-rank projections of a head's size. */
lk_status lk_hf_finish_kimi_linear(const lk_hf_config *config, lk_model *model, lk_error *err) {
	lk_hf_config part;
	bool nope = false;
	LK_TRY(lk_hf_part(config, "linear_attn_config",
	                  "full_attn_layers|kda_layers|head_dim|num_heads|short_conv_kernel_size",
	                  &part, err));
	if (!part.object)
		return lk_hf_fail(config, NULL, err, "linear_attn_config states no delta attention");
	LK_TRY(lk_hf_int(&part, "num_heads", &model->delta_key_heads, err));
	LK_TRY(lk_hf_int(&part, "head_dim", &model->delta_key_dim, err));
	LK_TRY(lk_hf_int(&part, "short_conv_kernel_size", &model->delta_conv, err));
	model->delta_value_heads = model->delta_key_heads;
	model->delta_value_dim = model->delta_rank = model->delta_key_dim;
	LK_TRY(lk_hf_flag(config, "mla_use_nope", &nope, err));
	LK_TRY(lk_hf_int(config, "model_max_length", &model->context, err));
	model->no_positions = nope;
	if (nope) model->rotary_base = 0;
	LK_TRY(lk_hf_shapes(config, model, err));
	lk_hf_list attends = {lk_hf_find(&part, "full_attn_layers"), 1, LK_MIXER_DELTA};
	if (!attends.list || attends.list->kind != LK_JSON_ARRAY)
		return lk_hf_fail(config, attends.list, err, "full_attn_layers is not a list of layers");
	return lk_hf_each_layer(config, model, lk_hf_listed_attention, &attends, err);
}

/* xlstm (arXiv 2503.13427): only mLSTM cells. Queries, keys, values, the output gate and two gates
 * per head are those of a gated delta net without a convolution, and so is the state; its chunks
 * need no triangular inverse. The output norm has a scale per element. */
lk_status lk_hf_finish_xlstm(const lk_hf_config *config, lk_model *model, lk_error *err) {
	double keys = .5, values = 1, wide = 8 / 3.;
	int multiple = 64, heads = model->delta_value_heads;
	bool biases = false;
	LK_TRY(lk_hf_real(config, "qk_dim_factor", &keys, err));
	LK_TRY(lk_hf_real(config, "v_dim_factor", &values, err));
	LK_TRY(lk_hf_real(config, "ffn_proj_factor", &wide, err));
	LK_TRY(lk_hf_int(config, "ffn_round_up_to_multiple_of", &multiple, err));
	LK_TRY(lk_hf_flag(config, "use_bias", &biases, err));
	double h = model->hidden, key = keys * h / fmax(heads, 1), value = values * h / fmax(heads, 1);
	bool whole = key == floor(key) && value == floor(value) && key >= 1 && value >= 1;
	if (biases || heads < 1 || !whole || (key + value) * heads > 1 << 24 || multiple < 1 ||
	    multiple > 1 << 16 || !(wide * h >= 1 && wide * h <= 1 << 24) || model->layers > 10000)
		return lk_hf_fail(config, NULL, err,
		                  "use_bias, or %d heads of %g numbers for keys and %g for values", heads,
		                  key, value);
	model->delta_key_heads = heads;
	model->delta_key_dim = (int)key;
	model->delta_value_dim = (int)value;
	model->ffn = (int)ceil((double)(int)(wide * h) / multiple) * multiple;
	double scales = (double)model->layers * (heads - 1) * value;
	if (scales > 1 << 30) return lk_hf_fail(config, NULL, err, "norms of %g numbers", scales);
	model->loose = (int)scales;
	lk_hf_no_heads(model);
	lk_hf_warn(config, "mLSTM is priced as a gated delta net, whose chunks do a little more");
	lk_hf_period all = {1, 0, LK_MIXER_DELTA, 0};
	return lk_hf_each_layer(config, model, lk_hf_periodic_mixer, &all, err);
}

/* ---- short convolutions ---- */

static lk_status lfm2_order(const lk_hf_config *config, lk_model *model, lk_error *err) {
	const lk_value *types = lk_hf_find(config, "layer_types");
	lk_hf_list attends = {lk_hf_find(config, "full_attn_idxs"), 0, LK_MIXER_CONV};
	bool biases = false;
	LK_TRY(lk_hf_flag(config, "conv_bias", &biases, err));
	if (biases) return lk_hf_fail(config, NULL, err, "conv_bias is not modelled");
	LK_TRY(lk_hf_shapes(config, model, err));
	if (types) return lk_hf_layer_kinds(config, types, 0, model, err);
	if (attends.list && attends.list->kind != LK_JSON_ARRAY)
		return lk_hf_wrong_kind(config, attends.list, "full_attn_idxs", "a list of layers", err);
	if (!attends.list)
		return lk_hf_fail(config, NULL, err, "neither layer_types nor full_attn_idxs is stated");
	return lk_hf_each_layer(config, model, lk_hf_listed_attention, &attends, err);
}

/* lfm2: 2/3 of the stated width, rounded up to a multiple, unless the config switches that off
 * (Lfm2MLP). */
lk_status lk_hf_finish_lfm2(const lk_hf_config *config, lk_model *model, lk_error *err) {
	bool adjusts = true;
	int multiple = 256;
	double times = 1;
	LK_TRY(lk_hf_flag(config, "block_auto_adjust_ff_dim", &adjusts, err));
	LK_TRY(lk_hf_int(config, "block_multiple_of", &multiple, err));
	LK_TRY(lk_hf_real(config, "block_ffn_dim_multiplier", &times, err));
	/* block_ff_dim overrides intermediate_size in the class */
	LK_TRY(lk_hf_int(config, "block_ff_dim", &model->ffn, err));
	if (adjusts) {
		double wide = floor(times * floor(2.0 * model->ffn / 3));
		if (multiple < 1 || multiple > 1 << 24 || !(wide >= 1 && wide <= 1 << 24))
			return lk_hf_fail(config, NULL, err, "block_ff_dim %d, in multiples of %d", model->ffn,
			                  multiple);
		model->ffn = ((int)wide + multiple - 1) / multiple * multiple;
	}
	return lfm2_order(config, model, err);
}

/* The bias that balances experts (use_expert_bias) is a buffer. */
lk_status lk_hf_finish_lfm2_moe(const lk_hf_config *config, lk_model *model, lk_error *err) {
	return lfm2_order(config, model, err);
}

/* ---- two attentions in a layer ---- */

/* longcat_flash (arXiv 2509.01322): a layer is attention and MLP twice, and experts that read the
 * first attention's output. Some experts do nothing: on average a token has topk times the share of
 * real ones among all experts. */
lk_status lk_hf_finish_longcat(const lk_hf_config *config, lk_model *model, lk_error *err) {
	int idle = 0, count = 0, listed = 0;
	LK_TRY(lk_hf_int(config, "zero_expert_num", &idle, err));
	LK_TRY(lk_hf_int(config, "num_layers", &model->layers, err));
	LK_TRY(lk_hf_int(config, "num_hidden_layers", &listed, err)); /* twice as many */
	LK_TRY(lk_hf_shapes(config, model, err));
	if (model->layers > 3000 || idle < 0 || idle > 1 << 20)
		return lk_hf_fail(config, NULL, err, "%d layers with %d experts that do nothing",
		                  model->layers, idle);
	if (model->experts > 0)
		model->topk =
			(int)((double)model->topk * model->experts / ((double)model->experts + idle) + 0.5);
	lk_layer *layers = calloc(3 * (size_t)model->layers + 1, sizeof *layers);
	if (!layers) return lk_oom(err);
	for (int i = 0; i < model->layers; i++) {
		lk_layer both = {.mixers = LK_MIXER_ATTENTION, .ffn = LK_FFN_DENSE, .causal = true};
		layers[count++] = both;
		layers[count++] = (lk_layer){.ffn = LK_FFN_EXPERTS, .causal = true};
		layers[count++] = both;
	}
	lk_status status = lk_hf_order(config, layers, count, model, err);
	model->layers = count;
	free(layers);
	return status;
}

/* ---- layers that read images ---- */

static lk_layer listed_across(const void *context, lk_layer start, int layer) {
	const lk_value *list = context;
	for (size_t i = 0; i < list->count; i++)
		start.across |= list->items[i].kind == LK_JSON_NUMBER && list->items[i].number == layer;
	return start;
}

/* mllama: the listed layers attend only to the tokens of an image. The embedding has eight more
 * rows than the head. */
lk_status lk_hf_finish_mllama(const lk_hf_config *config, lk_model *model, lk_error *err) {
	const lk_value *list = lk_hf_find(config, "cross_attention_layers");
	LK_TRY(lk_hf_shapes(config, model, err));
	if (!list || list->kind != LK_JSON_ARRAY || config->object == config->root || config->as) {
		lk_hf_fail(config, list, err,
		           "the layers of the type mllama read an image, of which the "
		           "config of text alone states nothing");
		return lk_hint(err, "give the whole config, with cross_attention_layers and vision_config");
	}
	if (model->hidden <= INT_MAX / 8) model->loose = 8 * model->hidden;
	return lk_hf_each_layer(config, model, listed_across, list, err);
}

/* ---- lightning attention ---- */

struct minimax_types {
	const lk_value *list; /* 1: full attention */
};

static lk_layer minimax_mixer(const void *context, lk_layer start, int layer) {
	const struct minimax_types *types = context;
	bool full =
		types->list->items[layer].kind == LK_JSON_NUMBER && types->list->items[layer].number == 1;
	start.mixers = full ? LK_MIXER_ATTENTION : LK_MIXER_LIGHTNING;
	return start;
}

lk_status lk_hf_finish_minimax(const lk_hf_config *config, lk_model *model, lk_error *err) {
	lk_hf_period full = {2, 0, LK_MIXER_ATTENTION, LK_MIXER_LIGHTNING};
	struct minimax_types listed = {lk_hf_find(config, "attn_type_list")};
	const lk_value *types = lk_hf_find(config, "layer_types");
	LK_TRY(lk_hf_shapes(config, model, err));
	model->window = 0;
	if (types) return lk_hf_layer_kinds(config, types, LK_MIXER_LIGHTNING, model, err);
	if (!listed.list) return lk_hf_each_layer(config, model, lk_hf_periodic_mixer, &full, err);
	if (listed.list->kind != LK_JSON_ARRAY || listed.list->count != (size_t)model->layers) {
		lk_hf_fail(config, listed.list, err, "attn_type_list is not a list of %d %s", model->layers,
		           lk_noun(model->layers, "layer", "layers"));
		return lk_hint(err, "give 0 or 1 for each layer");
	}
	return lk_hf_each_layer(config, model, minimax_mixer, &listed, err);
}

/* ---- attention of two shapes, listed layers with experts ---- */

struct marked_layers {
	const lk_value *windows, *experts; /* 1: the layer has a window; the layer has experts */
	int window;
};

static bool is_marked(const lk_value *list, int layer) {
	return list->items[layer].kind == LK_JSON_NUMBER && list->items[layer].number == 1;
}

static lk_layer marked_layer(const void *context, lk_layer start, int layer) {
	const struct marked_layers *at = context;
	start.window = is_marked(at->windows, layer) ? at->window : 0;
	start.ffn = is_marked(at->experts, layer) ? LK_FFN_EXPERTS : LK_FFN_DENSE;
	return start;
}

/* mimo_v2_flash: window layers have their own number of key/value heads and may be the only ones
 * with sinks; their queries and head sizes are those of all layers. */
lk_status lk_hf_finish_mimo_v2(const lk_hf_config *config, lk_model *model, lk_error *err) {
	struct marked_layers marked = {lk_hf_find(config, "hybrid_layer_pattern"),
	                               lk_hf_find(config, "moe_layer_freq"), model->window};
	int heads = model->heads, keys = model->head_dim, values = model->v_dim;
	bool window_sinks = false, sinks = false;
	LK_TRY(lk_hf_flag(config, "add_swa_attention_sink_bias", &window_sinks, err));
	LK_TRY(lk_hf_flag(config, "add_full_attention_sink_bias", &sinks, err));
	LK_TRY(lk_hf_int(config, "swa_num_attention_heads", &heads, err));
	LK_TRY(lk_hf_int(config, "swa_head_dim", &keys, err));
	LK_TRY(lk_hf_int(config, "swa_v_head_dim", &values, err));
	if (heads != model->heads || keys != model->head_dim || values != model->v_dim ||
	    (sinks && !window_sinks))
		return lk_hf_fail(config, NULL, err,
		                  "layers with a window of %d heads of %d and %d, or sinks in others alone",
		                  heads, keys, values);
	if (sinks || window_sinks) model->attention_sinks = model->heads;
	model->window_sinks = window_sinks && !sinks;
	if (model->window < 1) return lk_hf_fail(config, NULL, err, "sliding_window is not stated");
	for (int i = 0; i < 2; i++) {
		const lk_value *list = i == 0 ? marked.windows : marked.experts;
		if (!list || list->kind != LK_JSON_ARRAY || list->count != (size_t)model->layers)
			return lk_hf_wrong_kind(config, list,
			                        i == 0 ? "hybrid_layer_pattern" : "moe_layer_freq",
			                        "a list of 0 or 1 for each layer", err);
	}
	LK_TRY(lk_hf_shapes(config, model, err));
	return lk_hf_each_layer(config, model, marked_layer, &marked, err);
}

/* Layers with experts, as a text ("4,5,6") or a list. */
static lk_layer step3_layer(const void *context, lk_layer start, int layer) {
	const lk_value *listed = context;
	bool found = false;
	if (listed->kind == LK_JSON_STRING)
		for (const char *at = listed->text; *at && !found; at += *at == ',') {
			char *end;
			found = strtol(at, &end, 10) == layer && end > at;
			at = end + strcspn(end, ",");
		}
	else
		for (size_t i = 0; i < listed->count && !found; i++)
			found = listed->items[i].kind == LK_JSON_NUMBER && listed->items[i].number == layer;
	start.ffn = found ? LK_FFN_EXPERTS : LK_FFN_DENSE;
	return start;
}

lk_status lk_hf_finish_step3(const lk_hf_config *config, lk_model *model, lk_error *err) {
	const lk_value *listed = lk_hf_find(config, "moe_layers_enum");
	if (!listed || (listed->kind != LK_JSON_STRING && listed->kind != LK_JSON_ARRAY))
		return lk_hf_wrong_kind(config, listed, "moe_layers_enum",
		                        "the layers that have experts, as in 4,5,6", err);
	LK_TRY(lk_hf_shapes(config, model, err));
	return lk_hf_each_layer(config, model, step3_layer, listed, err);
}

/* ---- chunks, windows ---- */

/* no_rope_layers: 1 for layers with rotary positions; default: 0 in every fourth. */
struct llama4_layers {
	const lk_value *rope;
	int chunk;
};

static lk_layer llama4_layer(const void *context, lk_layer start, int layer) {
	const struct llama4_layers *layers = context;
	bool rope = (layer + 1) % 4 != 0;
	if (layers->rope && (size_t)layer < layers->rope->count)
		rope = layers->rope->items[layer].kind == LK_JSON_NUMBER &&
		       layers->rope->items[layer].number == 1;
	start.chunked = rope;
	start.window = rope ? layers->chunk : 0;
	return start;
}

/* Every step-th layer has experts and, in addition, one that all tokens pass; dense layers have
 * their own width. Norms of queries and keys have no scale. Layers with rotary positions attend
 * within chunks. */
lk_status lk_hf_finish_llama4(const lk_hf_config *config, lk_model *model, lk_error *err) {
	struct llama4_layers layers = {lk_hf_find(config, "no_rope_layers"), 0};
	model->expert_ffn = model->shared_ffn = model->ffn;
	LK_TRY(lk_hf_int(config, "intermediate_size_mlp", &model->ffn, err));
	LK_TRY(lk_hf_int(config, "interleave_moe_layer_step", &model->moe_every, err));
	LK_TRY(lk_hf_int(config, "attention_chunk_size", &layers.chunk, err));
	LK_TRY(lk_hf_shapes(config, model, err));
	model->window = 0;
	if (model->moe_every > 1) model->moe_offset = 1; /* HF: range(step - 1, layers, step) */
	model->qk_norm = false;
	const lk_value *list = lk_hf_find(config, "moe_layers"),
				   *types = lk_hf_find(config, "layer_types");
	for (size_t i = 0; list && list->kind == LK_JSON_ARRAY && i < list->count; i++) {
		const lk_value *layer = &list->items[i];
		if (layer->kind == LK_JSON_NUMBER && layer->number >= 0 && layer->number < model->layers &&
		    lk_model_is_moe(model, (int)layer->number))
			continue;
		lk_hf_fail(config, layer, err, "moe_layers contradict interleave_moe_layer_step");
		return lk_hint(err, "leave moe_layers out");
	}
	if (layers.chunk == 0) return LK_OK;
	if (layers.rope && (layers.rope->kind != LK_JSON_ARRAY || layers.rope->count == 0))
		layers.rope = NULL;
	model->window = layers.chunk;
	if (types) return lk_hf_layer_kinds(config, types, 0, model, err);
	return lk_hf_each_layer(config, model, llama4_layer, &layers, err);
}

static lk_layer modernbert_layer(const void *context, lk_layer start, int layer) {
	const int *every = context;
	if (*every > 0 && layer % *every == 0) start.window = 0;
	return start;
}

/* Full attention in every third layer, starting with the first; the norm after the embedding
 * replaces that before the first layer's attention. local_attention counts both sides of a
 * token. */
lk_status lk_hf_finish_modernbert(const lk_hf_config *config, lk_model *model, lk_error *err) {
	int every = 3;
	LK_TRY(lk_hf_int(config, "global_attn_every_n_layers", &every, err));
	LK_TRY(lk_hf_int(config, "local_attention", &model->window, err));
	LK_TRY(lk_hf_heads(config, model, err));
	model->context = model->position_rows; /* rotary: no table */
	model->position_rows = 0;
	if (model->window == 0) return LK_OK;
	return lk_hf_each_layer(config, model, modernbert_layer, &every, err);
}
