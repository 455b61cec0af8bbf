/* hf_gpt.c: derivations of decoders with two-matrix MLPs, their own positions or parallel
 * residuals: GPT-2 and its successors. */
#include "model/read/hf.h"

#include <limits.h>
#include <string.h>

/* ---- derived fields ---- */

lk_status lk_hf_finish_gpt2(const lk_hf_config *config, lk_model *model, lk_error *err) {
	bool multi_query = false;
	if (strcmp(model->family, "gpt_bigcode") == 0) {
		multi_query = true;
		LK_TRY(lk_hf_flag(config, "multi_query", &multi_query, err));
	}
	if (multi_query) model->kv_heads = 1;
	model->position_rows = model->context;
	LK_TRY(lk_hf_four_times(config, model, err));
	return lk_hf_heads(config, model, err);
}

/* gptj, codegen, bloom */
lk_status lk_hf_finish_four_times(const lk_hf_config *config, lk_model *model, lk_error *err) {
	LK_TRY(lk_hf_four_times(config, model, err));
	return lk_hf_heads(config, model, err);
}

/* attention_types: [[["global", "local"], 12]]: kinds of layers and their number of repeats. */
static lk_status neo_windows(const lk_hf_config *config, lk_model *model, lk_error *err) {
	const lk_value *types = lk_hf_find(config, "attention_types");
	double full = 0, all = 0;
	for (size_t i = 0; types && types->kind == LK_JSON_ARRAY && i < types->count; i++) {
		const lk_value *group = &types->items[i];
		if (group->kind != LK_JSON_ARRAY || group->count != 2 ||
		    group->items[0].kind != LK_JSON_ARRAY || group->items[1].kind != LK_JSON_NUMBER)
			return lk_hf_wrong_kind(config, group, "attention_types",
			                        "lists of kinds, each with a number", err);
		for (size_t j = 0; j < group->items[0].count; j++) {
			const lk_value *kind = &group->items[0].items[j];
			all += group->items[1].number;
			if (kind->kind == LK_JSON_STRING && strcmp(kind->text, "global") == 0)
				full += group->items[1].number;
		}
	}
	if (all > 0 && full == all) model->window = 0;
	if (all > 0 && full > 0 && all / full <= model->layers) model->full_every = (int)(all / full);
	if (all > 0 && full == 0) model->full_every = 0;
	return LK_OK;
}

lk_status lk_hf_finish_gpt_neo(const lk_hf_config *config, lk_model *model, lk_error *err) {
	model->position_rows = model->context;
	LK_TRY(lk_hf_four_times(config, model, err));
	LK_TRY(neo_windows(config, model, err));
	return lk_hf_heads(config, model, err);
}

lk_status lk_hf_finish_gpt_neox(const lk_hf_config *config, lk_model *model, lk_error *err) {
	model->out_bias = model->qkv_bias;
	return lk_hf_heads(config, model, err);
}

/* MPT's nested attn_config: positions that are not learned, key/value heads, the window (-1:
 * none). */
static lk_status mpt_attention(const lk_hf_config *config, lk_model *model, bool *positions,
                               lk_error *err) {
	lk_hf_config attn;
	LK_TRY(lk_hf_part(config, "attn_config",
	                  "alibi|alibi_bias_max|attn_impl|attn_type|attn_uses_sequence_id|fused_qkv|"
	                  "kv_n_heads|qk_ln|rope|rope_dail_config|rope_hf_config|rope_impl|"
	                  "sliding_window_size",
	                  &attn, err));
	if (!attn.object) return LK_OK;
	bool alibi = false, rope = false, norms = false;
	LK_TRY(lk_hf_flag(&attn, "alibi", &alibi, err));
	LK_TRY(lk_hf_flag(&attn, "rope", &rope, err));
	LK_TRY(lk_hf_flag(&attn, "qk_ln", &norms, err));
	LK_TRY(lk_hf_int(&attn, "kv_n_heads", &model->kv_heads, err));
	if (lk_hf_says(&attn, "attn_type", "multiquery_attention")) model->kv_heads = 1;
	if (alibi || rope) *positions = false;
	if (rope) model->rotary_base = 1e4; /* llm-foundry's default of rope_theta */
	if (rope) LK_TRY(lk_hf_real(&attn, "rope_theta", &model->rotary_base, err));
	model->qk_norm = model->qk_norm_wide = norms;
	const lk_value *window = lk_hf_find(&attn, "sliding_window_size");
	if (window && window->kind == LK_JSON_NUMBER && window->number < 0) return LK_OK;
	return lk_hf_int(&attn, "sliding_window_size", &model->window, err);
}

static lk_status mpt_mlp(const lk_hf_config *config, lk_model *model, lk_error *err) {
	lk_hf_config ffn;
	double ratio = 4;
	LK_TRY(lk_hf_real(config, "expansion_ratio", &ratio, err));
	LK_TRY(
		lk_hf_part(config, "ffn_config", "ffn_act_fn|ffn_hidden_size|ffn_type|fc_type", &ffn, err));
	if (ffn.object) {
		LK_TRY(lk_hf_int(&ffn, "ffn_hidden_size", &model->ffn, err));
		model->gated = lk_hf_says(&ffn, "ffn_type", "mptglu");
	}
	if (model->ffn != 0) return LK_OK;
	if (ratio * model->hidden > INT_MAX)
		return lk_hf_fail(config, NULL, err, "expansion_ratio is too large");
	model->ffn = (int)(ratio * model->hidden);
	return LK_OK;
}

lk_status lk_hf_finish_mpt(const lk_hf_config *config, lk_model *model, lk_error *err) {
	bool no_bias = true, positions = true;
	LK_TRY(lk_hf_flag(config, "no_bias", &no_bias, err));
	LK_TRY(lk_hf_flag(config, "learned_pos_emb", &positions, err));
	LK_TRY(mpt_attention(config, model, &positions, err));
	LK_TRY(mpt_mlp(config, model, err));
	lk_hf_all_biases(model, !no_bias);
	model->norm_bias = !no_bias;
	model->position_rows = positions ? model->context : 0;
	model->position_setting = positions;
	return lk_hf_heads(config, model, err);
}

/* dbrx: mpt's nested attn_config and ffn_config, with experts. */
lk_status lk_hf_finish_dbrx(const lk_hf_config *config, lk_model *model, lk_error *err) {
	lk_hf_config part;
	LK_TRY(lk_hf_part(config, "attn_config", "kv_n_heads", &part, err));
	if (part.object) {
		LK_TRY(lk_hf_int(&part, "kv_n_heads", &model->kv_heads, err));
		LK_TRY(lk_hf_real(&part, "rope_theta", &model->rotary_base, err));
	}
	LK_TRY(lk_hf_part(config, "ffn_config",
	                  "ffn_act_fn|ffn_hidden_size|moe_num_experts|moe_top_k|"
	                  "moe_normalize_expert_weights",
	                  &part, err));
	if (part.object) {
		LK_TRY(lk_hf_int(&part, "ffn_hidden_size", &model->ffn, err));
		LK_TRY(lk_hf_int(&part, "moe_num_experts", &model->experts, err));
		LK_TRY(lk_hf_int(&part, "moe_top_k", &model->topk, err));
	}
	return lk_hf_sizes(config, model, err);
}

lk_status lk_hf_finish_opt(const lk_hf_config *config, lk_model *model, lk_error *err) {
	bool affine = true;
	LK_TRY(lk_hf_flag(config, "layer_norm_elementwise_affine", &affine, err));
	model->norm_plain = !affine;
	lk_hf_all_biases(model, model->qkv_bias);
	if (model->embed_dim == model->hidden) model->embed_dim = 0;
	/* The position table keeps two rows for padding: HF's OPTLearnedPositionalEmbedding, offset 2.
	 */
	if (model->context > INT_MAX - 2)
		return lk_hf_fail(config, NULL, err, "max_position_embeddings is too large");
	model->position_rows = model->context + 2;
	return lk_hf_heads(config, model, err);
}

/* A Falcon's norms and key/value heads depend on its architecture. "RefinedWebModel" and
 * "RefinedWeb" are the original names of falcon-7b's and falcon-40b's. */
lk_status lk_hf_finish_falcon(const lk_hf_config *config, lk_model *model, lk_error *err) {
	bool multi_query = strcmp(model->family, "RefinedWeb") != 0,
		 second = strcmp(model->family, "RefinedWeb") == 0, alibi = false;
	int parallel_norms = 2;
	LK_TRY(lk_hf_flag(config, "new_decoder_architecture", &second, err));
	LK_TRY(lk_hf_flag(config, "multi_query", &multi_query, err));
	LK_TRY(lk_hf_int(config, "num_ln_in_parallel_attn", &parallel_norms, err));
	LK_TRY(lk_hf_flag(config, "alibi", &alibi, err));
	if (alibi) model->rotary_base = 0;
	if (second) model->parallel_residual = true;
	else model->kv_heads = multi_query ? 1 : model->heads;
	if (second) model->norms_per_layer = parallel_norms;
	else if (model->parallel_residual) model->norms_per_layer = 1;
	else model->norms_per_layer = 2;
	lk_hf_all_biases(model, model->qkv_bias);
	LK_TRY(lk_hf_four_times(config, model, err));
	return lk_hf_heads(config, model, err);
}
