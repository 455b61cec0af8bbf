/* hf_recurrent.c: readers of networks with state-space layers, or RWKV's time mix, with and without
 * attention. Keys and defaults are those of the configuration classes of the transformers
 * library. */
#include "model/read/hf.h"
#include "base/noun.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Mamba ---- */

/* The inner width: stated, or heads times their size, or `expand` times the hidden size. */
static lk_status inner_width(const lk_hf_config *config, lk_model *model, int head, double expand,
                             lk_error *err) {
	LK_TRY(lk_hf_real(config, "mamba_expand|expand", &expand, err));
	double wide =
		head > 0 && model->ssm_heads > 0 ? (double)head * model->ssm_heads : expand * model->hidden;
	if (wide > INT_MAX) return lk_hf_fail(config, NULL, err, "Mamba's inner width is too large");
	if (model->ssm_inner == 0) model->ssm_inner = (int)wide;
	return LK_OK;
}

/* Mamba-2 in the form of bamba, falcon_h1 and granitemoehybrid. */
static lk_status bamba_sizes(const lk_hf_config *config, lk_model *model, lk_error *err) {
	int head = 0;
	const lk_value *automatic = lk_hf_find(config, "mamba_d_head");
	if (automatic && automatic->kind == LK_JSON_NUMBER)
		LK_TRY(lk_hf_int(config, "mamba_d_head", &head, err));
	return inner_width(config, model, head, 2, err);
}

lk_status lk_hf_finish_bamba(const lk_hf_config *config, lk_model *model, lk_error *err) {
	const lk_value *list = lk_hf_find(config, "attn_layer_indices"),
				   *types = lk_hf_find(config, "layer_types|layers_block_type");
	LK_TRY(bamba_sizes(config, model, err));
	LK_TRY(lk_hf_shapes(config, model, err));
	if (list && list->kind != LK_JSON_ARRAY)
		return lk_hf_wrong_kind(config, list, "attn_layer_indices", "a list of layers", err);
	if (types && !list) return lk_hf_layer_kinds(config, types, 0, model, err);
	lk_hf_list attends = {list, 0, LK_MIXER_SSM};
	return lk_hf_each_layer(config, model, lk_hf_listed_attention, &attends, err);
}

/* Every layer has attention and Mamba-2 on the same input. */
lk_status lk_hf_finish_falcon_h1(const lk_hf_config *config, lk_model *model, lk_error *err) {
	lk_hf_period all = {1, 0, LK_MIXER_ATTENTION | LK_MIXER_SSM, 0};
	LK_TRY(lk_hf_flag(config, "mamba_rms_norm", &model->ssm_norm, err));
	LK_TRY(bamba_sizes(config, model, err));
	LK_TRY(lk_hf_shapes(config, model, err));
	return lk_hf_each_layer(config, model, lk_hf_periodic_mixer, &all, err);
}

/* Without experts the shared MLP is the only one. */
lk_status lk_hf_finish_granite_hybrid(const lk_hf_config *config, lk_model *model, lk_error *err) {
	const lk_value *types = lk_hf_find(config, "layer_types|layers_block_type");
	LK_TRY(bamba_sizes(config, model, err));
	model->no_positions = lk_hf_says(config, "position_embedding_type", "nope");
	if (model->no_positions) model->rotary_base = 0;
	if (model->experts == 0)
		LK_TRY(lk_hf_int(config, "shared_intermediate_size", &model->ffn, err));
	LK_TRY(lk_hf_shapes(config, model, err));
	if (types) return lk_hf_layer_kinds(config, types, 0, model, err);
	lk_hf_list none = {NULL, 0, LK_MIXER_SSM};
	return lk_hf_each_layer(config, model, lk_hf_listed_attention, &none, err);
}

/* The layers of Zamba2: Mamba-2; "hybrid" layers have one of the shared blocks before it. */
static lk_status zamba2_order(const lk_hf_config *config, lk_model *model, lk_error *err) {
	const lk_value *types = lk_hf_find(config, "layers_block_type|layer_types");
	int count = 0;
	if (!types || types->kind != LK_JSON_ARRAY || types->count != (size_t)model->layers) {
		lk_hf_fail(config, types, err, "layers_block_type does not name %d %s", model->layers,
		           lk_noun(model->layers, "layer", "layers"));
		return lk_hint(err, "give \"mamba\" or \"hybrid\" for each");
	}
	lk_layer *layers = calloc(2 * types->count, sizeof *layers);
	lk_status status = layers ? LK_OK : lk_oom(err);
	for (size_t i = 0; status == LK_OK && i < types->count; i++) {
		const lk_value *item = &types->items[i];
		const char *text = item->kind == LK_JSON_STRING ? item->text : "";
		bool hybrid = strcmp(text, "hybrid") == 0;
		if (hybrid)
			layers[count++] =
				(lk_layer){.mixers = LK_MIXER_ATTENTION, .ffn = LK_FFN_DENSE, .causal = true};
		layers[count++] = (lk_layer){.mixers = LK_MIXER_SSM, .causal = true};
		if (hybrid || strcmp(text, "mamba") == 0) continue;
		status = lk_hf_fail(config, item, err, "layers_block_type is not mamba or hybrid");
	}
	if (status == LK_OK) status = lk_hf_order(config, layers, count, model, err);
	if (status == LK_OK) model->layers = count;
	free(layers);
	return status;
}

/* zamba2: attention reads twice the hidden size, with heads for that width. The low-rank pairs
 * parallel to the MLP's products are always present (Zamba2MLP). */
lk_status lk_hf_finish_zamba2(const lk_hf_config *config, lk_model *model, lk_error *err) {
	int rank = 128, inputs = 0, head = 0;
	bool rotary = false, attends = false, biases = false;
	if (model->hidden > INT_MAX / 4 || model->layers > 10000)
		return lk_hf_fail(config, NULL, err, "hidden size %d of %d %s is too large", model->hidden,
		                  model->layers, lk_noun(model->layers, "layer", "layers"));
	if (model->ffn == 0) model->ffn = 4 * model->hidden;
	inputs = model->attention_inputs = 2 * model->hidden;
	LK_TRY(lk_hf_int(config, "attention_hidden_size", &inputs, err));
	LK_TRY(lk_hf_int(config, "mamba_headdim", &head, err));
	LK_TRY(inner_width(config, model, head, 2, err));
	LK_TRY(lk_hf_int(config, "adapter_rank", &rank, err));
	LK_TRY(lk_hf_flag(config, "use_shared_attention_adapter", &attends, err));
	LK_TRY(lk_hf_flag(config, "use_mem_rope", &rotary, err));
	LK_TRY(lk_hf_flag(config, "add_bias_linear", &biases, err));
	if (biases || inputs != model->attention_inputs)
		return lk_hf_fail(config, NULL, err,
		                  "add_bias_linear, or an attention_hidden_size that is not twice the "
		                  "hidden_size, is not modelled");
	model->use_mlp_rank = rank;
	model->use_qkv_rank = attends ? rank : 0;
	model->no_positions = !rotary;
	if (!rotary) model->rotary_base = 0;
	if (model->kv_heads == 0) model->kv_heads = model->heads;
	if (model->head_dim == 0) model->head_dim = model->attention_inputs / model->heads;
	return zamba2_order(config, model, err);
}

/* Mamba-1 with norms on its small products; attention without positions. */
lk_status lk_hf_finish_jamba(const lk_hf_config *config, lk_model *model, lk_error *err) {
	lk_hf_period full = {8, 4, LK_MIXER_ATTENTION, LK_MIXER_SSM};
	const lk_value *rank = lk_hf_find(config, "mamba_dt_rank");
	int every = 2, offset = 1;
	LK_TRY(lk_hf_int(config, "attn_layer_period", &full.period, err));
	LK_TRY(lk_hf_int(config, "attn_layer_offset", &full.offset, err));
	LK_TRY(lk_hf_int(config, "expert_layer_period", &every, err));
	LK_TRY(lk_hf_int(config, "expert_layer_offset", &offset, err));
	if (rank && rank->kind == LK_JSON_NUMBER)
		LK_TRY(lk_hf_int(config, "mamba_dt_rank", &model->ssm_rank, err));
	if (model->ssm_rank == 0) model->ssm_rank = (model->hidden + 15) / 16;
	LK_TRY(inner_width(config, model, 0, 2, err));
	model->moe_every = every;
	model->moe_offset = every > 0 ? (every - offset % every) % every : 0;
	if (model->experts == 1) model->experts = 0; /* one expert is a dense MLP */
	LK_TRY(lk_hf_shapes(config, model, err));
	model->window = 0;
	return lk_hf_each_layer(config, model, lk_hf_periodic_mixer, &full, err);
}

/* Configs of state-spaces/mamba: the embedding is padded to a multiple of rows. Members that add
 * attention, MLPs or mixers other than Mamba-1 to some layers are refused. */
static lk_status mamba_rows(const lk_hf_config *config, lk_model *model, lk_error *err) {
	int multiple = 8;
	lk_hf_config mixer;
	if (lk_json_get(config->object, "model_type")) return LK_OK;
	LK_TRY(lk_hf_part(config, "ssm_cfg", model->ssm == 2 ? "layer" : "", &mixer, err));
	LK_TRY(lk_hf_int(config, "pad_vocab_size_multiple", &multiple, err));
	if (multiple > 1 && model->vocab <= INT_MAX - multiple)
		model->vocab = (model->vocab + multiple - 1) / multiple * multiple;
	return LK_OK;
}

/* mamba, falcon_mamba: only Mamba-1. */
lk_status lk_hf_finish_mamba(const lk_hf_config *config, lk_model *model, lk_error *err) {
	LK_TRY(mamba_rows(config, model, err));
	const lk_value *rank = lk_hf_find(config, "time_step_rank");
	LK_TRY(lk_hf_int(config, "intermediate_size|d_inner", &model->ssm_inner, err));
	if (rank && rank->kind == LK_JSON_NUMBER)
		LK_TRY(lk_hf_int(config, "time_step_rank", &model->ssm_rank, err));
	if (model->ssm_rank == 0) model->ssm_rank = (model->hidden + 15) / 16;
	LK_TRY(inner_width(config, model, 0, 2, err));
	lk_hf_no_heads(model);
	snprintf(model->order, sizeof model->order, "M");
	return LK_OK;
}

lk_status lk_hf_finish_mamba2(const lk_hf_config *config, lk_model *model, lk_error *err) {
	int head = 64;
	if (!lk_json_get(config->object,
	                 "model_type")) { /* state-spaces/mamba: twice the width, one group */
		model->ssm_heads = model->hidden / 32;
		model->ssm_groups = 1;
	}
	LK_TRY(lk_hf_int(config, "num_heads", &model->ssm_heads, err));
	LK_TRY(lk_hf_int(config, "head_dim", &head, err));
	LK_TRY(lk_hf_int(config, "n_groups", &model->ssm_groups, err));
	LK_TRY(lk_hf_int(config, "chunk_size", &model->ssm_chunk, err));
	if (model->ssm_heads > 0 && head > 0 && head <= INT_MAX / model->ssm_heads)
		model->ssm_inner = head * model->ssm_heads;
	model->ssm_rank = 1; /* it has none */
	LK_TRY(lk_hf_finish_mamba(config, model, err));
	model->ssm_rank = 0;
	return LK_OK;
}

/* rwkv: RWKV-4. A missing width follows from the hidden size. */
lk_status lk_hf_finish_rwkv(const lk_hf_config *config, lk_model *model, lk_error *err) {
	if (model->rwkv_inner == 0) model->rwkv_inner = model->hidden;
	LK_TRY(lk_hf_four_times(config, model, err));
	lk_hf_no_heads(model);
	snprintf(model->order, sizeof model->order, "R-");
	return LK_OK;
}

/* rwkv5, rwkv6: an MLP 3.5 times as wide, rounded down to a multiple of 32; low ranks of version 6
 * twice as wide at the largest size (modeling_rwkv6.py). */
lk_status lk_hf_finish_rwkv5(const lk_hf_config *config, lk_model *model, lk_error *err) {
	bool large = model->hidden == 4096;
	LK_TRY(lk_hf_int(config, "head_size", &model->rwkv_head, err));
	if (model->hidden > INT_MAX / 4)
		return lk_hf_fail(config, NULL, err, "hidden size %d is too large", model->hidden);
	if (model->ffn == 0) model->ffn = (int)(3.5 * model->hidden) / 32 * 32;
	model->rwkv_ranks[0] = model->rwkv == 6 ? (large ? 64 : 32) : 0;
	model->rwkv_ranks[1] = model->rwkv == 6 ? (large ? 128 : 64) : 0;
	return lk_hf_finish_rwkv(config, model, err);
}

/* rwkv7 of flash-linear-attention; missing low ranks are refused. */
lk_status lk_hf_finish_rwkv7(const lk_hf_config *config, lk_model *model, lk_error *err) {
	static const char *const names[] = {"decay_low_rank_dim", "a_low_rank_dim", "v_low_rank_dim",
	                                    "gate_low_rank_dim"};
	const lk_value *attention = lk_hf_find(config, "attn"), *wide = lk_hf_find(config, "value_dim");
	double ratio = 4;
	int width = model->hidden;
	bool biases = true;
	for (int i = 0; i < 4; i++) {
		LK_TRY(lk_hf_int(config, names[i], &model->rwkv_ranks[i], err));
		if (model->rwkv_ranks[i] > 0) continue;
		lk_hf_fail(config, NULL, err, "the rwkv7 config does not state %s", names[i]);
		return lk_hint(err, "add \"%s\": NUMBER", names[i]);
	}
	LK_TRY(lk_hf_int(config, "head_dim", &model->rwkv_head, err));
	LK_TRY(lk_hf_real(config, "hidden_ratio", &ratio, err));
	LK_TRY(lk_hf_flag(config, "norm_bias", &biases, err));
	if (wide) LK_TRY(lk_hf_int(config, "value_dim", &width, err));
	if (attention || width != model->hidden || !biases)
		return lk_hf_fail(config, attention, err,
		                  "layers of attention, values of another width, or norms without biases "
		                  "are not modelled");
	if (!(ratio * model->hidden <= 1 << 24))
		return lk_hf_fail(config, NULL, err, "hidden_ratio is %g", ratio);
	if (model->ffn == 0) model->ffn = ((int)(ratio * model->hidden) + 31) / 32 * 32;
	return lk_hf_finish_rwkv(config, model, err);
}

/* The letter of a named layer kind; '?': unknown. */
static char nemotron_letter(const lk_value *kind) {
	static const char *const names[] = {"mamba", "attention", "mlp", "moe"};
	for (size_t i = 0; kind->kind == LK_JSON_STRING && i < 4; i++)
		if (strcmp(kind->text, names[i]) == 0) return "M*-E"[i];
	return '?';
}

/* hybrid_override_pattern: one letter per layer: M Mamba-2, * attention, - MLP, E experts; or
 * layers_block_type: their names. */
static lk_status nemotron_letters(const lk_hf_config *config, const lk_value *pattern,
                                  lk_model *model, lk_error *err) {
	bool text = pattern->kind == LK_JSON_STRING;
	size_t count = text ? strlen(pattern->text) : pattern->count;
	lk_layer *layers = calloc(count + 1, sizeof *layers);
	lk_status status = layers ? LK_OK : lk_oom(err);
	for (size_t i = 0; i < count && status == LK_OK; i++) {
		char letter = text ? pattern->text[i] : nemotron_letter(&pattern->items[i]);
		if (letter == 'M') layers[i].mixers = LK_MIXER_SSM;
		else if (letter == '*') layers[i].mixers = LK_MIXER_ATTENTION;
		else if (letter == '-') layers[i].ffn = LK_FFN_DENSE;
		else if (letter == 'E') layers[i].ffn = LK_FFN_EXPERTS;
		else {
			lk_hf_fail(config, pattern, err, "hybrid_override_pattern has the letter '%c'",
			           letter >= ' ' && letter <= '~' ? letter : '?');
			status = lk_hint(err, "M, *, - and E are modelled");
		}
	}
	if (status == LK_OK && (count == 0 || count != (size_t)model->layers)) {
		lk_hf_fail(config, pattern, err, "hybrid_override_pattern has %zu letters for %d %s", count,
		           model->layers, lk_noun(model->layers, "layer", "layers"));
		status = lk_hint(err, "give one letter per layer");
	}
	if (status == LK_OK) status = lk_hf_order(config, layers, (int)count, model, err);
	free(layers);
	return status;
}

lk_status lk_hf_finish_nemotron_h(const lk_hf_config *config, lk_model *model, lk_error *err) {
	int head = 0, shared = 1, width = 0;
	const lk_value *pattern = lk_hf_find(config, "hybrid_override_pattern"),
				   *kinds = lk_hf_find(config, "layers_block_type|layer_types");
	if (!pattern) pattern = kinds;
	LK_TRY(lk_hf_int(config, "mamba_head_dim", &head, err));
	LK_TRY(lk_hf_int(config, "moe_shared_expert_intermediate_size", &width, err));
	LK_TRY(inner_width(config, model, head, 2, err));
	if (model->ffn == 0) model->ffn = model->expert_ffn;
	LK_TRY(lk_hf_shapes(config, model, err));
	LK_TRY(lk_hf_int(config, "n_shared_experts", &shared, err));
	if (width > 0 && shared > 0 && width <= INT_MAX / shared) model->shared_ffn = width * shared;
	model->window = 0;
	model->no_positions = true;
	if (pattern && (pattern->kind == LK_JSON_STRING || pattern->kind == LK_JSON_ARRAY))
		return nemotron_letters(config, pattern, model, err);
	lk_hf_fail(config, pattern, err, "the nemotron_h config does not state its layers");
	return lk_hint(err, "add \"hybrid_override_pattern\", a letter of M*-E for each layer");
}
