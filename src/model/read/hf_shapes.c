/* hf_shapes.c: derivations shared by many families: heads, experts, latent attention. */
#include "model/read/hf.h"

#include <limits.h>
#include <string.h>

/* Whether a text member has this value. */
bool lk_hf_says(const lk_hf_config *config, const char *name, const char *text) {
	const lk_value *value = lk_hf_find(config, name);
	return value && value->kind == LK_JSON_STRING && strcmp(value->text, text) == 0;
}

/* Default heads: as many key/value heads as heads, each with its share of the hidden size. */
lk_status lk_hf_heads(const lk_hf_config *config, lk_model *model, lk_error *err) {
	/* the class's default applies if it divides the number of heads */
	bool fits = model->kv_heads > 0 && model->heads % model->kv_heads == 0;
	if (model->kv_heads == 0 || (!fits && !lk_hf_find(config, "num_key_value_heads")))
		model->kv_heads = model->heads;
	if (model->head_dim != 0) return LK_OK;
	if (model->hidden % model->heads != 0) {
		lk_hf_fail(config, NULL, err, "hidden size %d is not a multiple of %d heads", model->hidden,
		           model->heads);
		return lk_hint(err, "correct one of them or state head_dim");
	}
	model->head_dim = model->hidden / model->heads;
	return LK_OK;
}

/* Dense layers listed one by one: only a run from the first layer on is supported. */
static lk_status dense_list(const lk_hf_config *config, lk_model *model, lk_error *err) {
	const lk_value *list = lk_hf_find(config, "mlp_only_layers");
	if (!list || model->experts == 0 || list->kind != LK_JSON_ARRAY) return LK_OK;
	for (size_t i = 0; i < list->count; i++) {
		if (list->items[i].kind == LK_JSON_NUMBER && list->items[i].number == (double)i &&
		    i < INT_MAX)
			continue;
		lk_hf_fail(config, &list->items[i], err, "mlp_only_layers are not the first layers");
		return lk_hint(err, "list dense layers as 0, 1, 2, ... or leave the list empty");
	}
	if (list->count > 0) model->dense_layers = (int)list->count;
	return LK_OK;
}

/* mlp_layer_types: dense layers, then those with experts ("sparse"). */
static lk_status dense_kinds(const lk_hf_config *config, lk_model *model, lk_error *err) {
	const lk_value *kinds = lk_hf_find(config, "mlp_layer_types");
	size_t dense = 0;
	if (!kinds) return LK_OK;
	if (kinds->kind != LK_JSON_ARRAY || kinds->count != (size_t)model->layers)
		return lk_hf_wrong_kind(config, kinds, "mlp_layer_types", "a text for each layer", err);
	for (size_t i = 0; i < kinds->count; i++) {
		const char *text = kinds->items[i].kind == LK_JSON_STRING ? kinds->items[i].text : "";
		if (strcmp(text, "dense") == 0 && dense == i) dense++;
		else if (strcmp(text, "sparse") != 0)
			return lk_hf_fail(config, &kinds->items[i], err,
			                  "mlp_layer_types is not dense layers and sparse ones after them");
	}
	model->dense_layers = (int)dense;
	return LK_OK;
}

/* The class's number of dense layers applies to networks with experts and more layers than that. */
static void usual_dense(const lk_hf_config *config, lk_model *model) {
	if (lk_hf_find(config, "first_k_dense_replace|moe_layer_start_index")) return;
	if (model->experts == 0 || model->dense_layers > model->layers) model->dense_layers = 0;
}

static lk_status finish_experts(const lk_hf_config *config, lk_model *model, lk_error *err) {
	usual_dense(config, model);
	if (model->experts == 0) return LK_OK;
	int shared = 0;
	if (model->expert_ffn == 0) model->expert_ffn = model->ffn;
	if (model->moe_every == 0) model->moe_every = 1;
	LK_TRY(lk_hf_int(config, "shared_expert_intermediate_size", &model->shared_ffn, err));
	LK_TRY(lk_hf_int(config, "shared_intermediate_size", &model->shared_ffn, err));
	LK_TRY(lk_hf_int(config, "n_shared_experts|num_shared_experts|moe_num_shared_experts", &shared,
	                 err));
	if (shared > 0 && model->expert_ffn > INT_MAX / shared)
		return lk_hf_fail(config, NULL, err, "%d shared experts of width %d are too many", shared,
		                  model->expert_ffn);
	if (shared > 0) model->shared_ffn = shared * model->expert_ffn;
	LK_TRY(lk_hf_int(config, "n_group", &model->router_groups, err));
	LK_TRY(lk_hf_int(config, "topk_group", &model->router_group_limit, err));
	/* A bias per expert balances their load (arXiv 2412.19437, section 2.1.2). */
	if (lk_hf_says(config, "topk_method", "noaux_tc")) model->router_bias = true;
	LK_TRY(dense_kinds(config, model, err));
	return dense_list(config, model, err);
}

static lk_status finish_latent(const lk_hf_config *config, lk_model *model, lk_error *err) {
	if (model->kv_lora == 0) return LK_OK;
	model->attention = LK_ATTN_MLA;
	model->kv_heads = model->heads;
	if (model->qk_nope > INT_MAX - model->qk_rope)
		return lk_hf_fail(config, NULL, err, "qk_nope_head_dim %d is too large", model->qk_nope);
	model->head_dim = model->qk_nope + model->qk_rope;
	int both = model->head_dim;
	LK_TRY(lk_hf_int(config, "qk_head_dim", &both, err));
	if (both == model->head_dim) return LK_OK;
	lk_hf_fail(config, NULL, err, "qk_head_dim is %d, qk_nope_head_dim and qk_rope_head_dim %d",
	           both, model->head_dim);
	return lk_hint(err, "it is their sum");
}

/* Derivations common to llama's relatives, except their biases. */
lk_status lk_hf_sizes(const lk_hf_config *config, lk_model *model, lk_error *err) {
	LK_TRY(finish_latent(config, model, err));
	LK_TRY(lk_hf_heads(config, model, err));
	return finish_experts(config, model, err);
}

/* Derivations common to llama's relatives. */
lk_status lk_hf_shapes(const lk_hf_config *config, lk_model *model, lk_error *err) {
	bool bias = false;
	LK_TRY(lk_hf_flag(config, "attention_bias|bias", &bias, err));
	if (bias) model->qkv_bias = model->out_bias = true;
	return lk_hf_sizes(config, model, err);
}

void lk_hf_all_biases(lk_model *model, bool on) {
	model->qkv_bias = model->out_bias = model->mlp_bias = on;
}

lk_status lk_hf_four_times(const lk_hf_config *config, lk_model *model, lk_error *err) {
	if (model->ffn != 0) return LK_OK;
	if (model->hidden > INT_MAX / 4)
		return lk_hf_fail(config, NULL, err, "hidden size %d is too large", model->hidden);
	model->ffn = 4 * model->hidden;
	return LK_OK;
}
