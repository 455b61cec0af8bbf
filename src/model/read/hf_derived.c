/* hf_derived.c: fields of decoders that no key of their configs states, family by family, as in the
 * modeling files of the transformers library. */
#include "model/read/hf.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* qwen's window applies only with use_sliding_window, and only from layer max_window_layers on. */
static lk_status finish_switched_window(const lk_hf_config *config, lk_model *model,
                                        lk_error *err) {
	bool used = false;
	int from = strncmp(model->family, "qwen", 4) == 0 ? 28 : 0; /* the library's default */
	LK_TRY(lk_hf_flag(config, "use_sliding_window", &used, err));
	LK_TRY(lk_hf_int(config, "max_window_layers", &from, err));
	if (!used || from >= model->layers) model->window = 0;
	if (model->window == 0 || from == 0 || lk_hf_find(config, "layer_types")) return LK_OK;
	lk_layer *layers = calloc((size_t)model->layers, sizeof *layers);
	if (!layers) return lk_oom(err);
	for (int i = 0; i < model->layers; i++) {
		layers[i] = lk_model_layer(model, i);
		if (i < from) layers[i].window = 0;
	}
	lk_status status = lk_hf_order(config, layers, model->layers, model, err);
	free(layers);
	return status;
}

/* apertus: each layer's activation has two parameters. */
lk_status lk_hf_finish_apertus(const lk_hf_config *config, lk_model *model, lk_error *err) {
	if (model->layers <= INT_MAX / 2 && lk_hf_says(config, "hidden_act", "xielu"))
		model->loose = 2 * model->layers;
	model->window = 0;
	return lk_hf_shapes(config, model, err);
}

/* llama, gemma, deepseek: windows in the config are ignored. */
lk_status lk_hf_finish_windowless(const lk_hf_config *config, lk_model *model, lk_error *err) {
	model->window = 0;
	return lk_hf_shapes(config, model, err);
}

/* One full layer in N, as a number or spelled out: "LLLG". */
static lk_status window_pattern(const lk_hf_config *config, lk_model *model, lk_error *err) {
	static const char names[] = "sliding_window_pattern|_sliding_window_pattern";
	const lk_value *pattern = lk_hf_find(config, names);
	if (!pattern || pattern->kind != LK_JSON_STRING)
		return lk_hf_int(config, names, &model->full_every, err);
	size_t local = strspn(pattern->text, "L");
	if (local < 64 && strcmp(pattern->text + local, "G") == 0) {
		model->full_every = (int)local + 1;
		return LK_OK;
	}
	lk_hf_fail(config, pattern, err, "sliding_window_pattern is \"%.40s\"", pattern->text);
	return lk_hint(err, "give L for each layer with a window and one G at the end: LLLG");
}

/* All layers have the window unless layer_types or a pattern says otherwise, or its switch is
 * off. */
static lk_status finish_windows(const lk_hf_config *config, lk_model *model, lk_error *err) {
	LK_TRY(window_pattern(config, model, err));
	if (lk_hf_find(config, "use_sliding_window"))
		LK_TRY(finish_switched_window(config, model, err));
	return lk_hf_layer_types(config, model, err);
}

lk_status lk_hf_finish_windowed(const lk_hf_config *config, lk_model *model, lk_error *err) {
	LK_TRY(lk_hf_shapes(config, model, err));
	return finish_windows(config, model, err);
}

/* glm, seed_oss: attention_bias covers only queries, keys and values. */
lk_status lk_hf_finish_qkv_biased(const lk_hf_config *config, lk_model *model, lk_error *err) {
	LK_TRY(lk_hf_flag(config, "attention_bias|qkv_bias", &model->qkv_bias, err));
	LK_TRY(lk_hf_flag(config, "attention_out_bias", &model->out_bias, err));
	model->window = 0;
	return lk_hf_sizes(config, model, err);
}

/* internlm3: one switch for queries, keys and values, one for all other biases. */
lk_status lk_hf_finish_internlm3(const lk_hf_config *config, lk_model *model, lk_error *err) {
	LK_TRY(lk_hf_flag(config, "bias", &model->out_bias, err));
	model->mlp_bias = model->out_bias;
	return lk_hf_finish_qkv_biased(config, model, err);
}

/* internlm: a switch for the biases of attention, default on. */
lk_status lk_hf_finish_internlm(const lk_hf_config *config, lk_model *model, lk_error *err) {
	LK_TRY(lk_hf_flag(config, "bias", &model->out_bias, err));
	model->qkv_bias = model->out_bias;
	return lk_hf_sizes(config, model, err);
}

/* starcoder2, ernie4_5: one switch for all biases. */
lk_status lk_hf_finish_all_biased(const lk_hf_config *config, lk_model *model, lk_error *err) {
	LK_TRY(lk_hf_flag(config, "use_bias", &model->mlp_bias, err));
	lk_hf_all_biases(model, model->mlp_bias);
	LK_TRY(lk_hf_sizes(config, model, err));
	return finish_windows(config, model, err);
}

/* Experts from moe_layer_start_index to moe_layer_end_index (-1: the last layer), every
 * moe_layer_interval layers; a bias balances their load unless moe_use_aux_free is off. */
lk_status lk_hf_finish_ernie_moe(const lk_hf_config *config, lk_model *model, lk_error *err) {
	const lk_value *end = lk_hf_find(config, "moe_layer_end_index");
	LK_TRY(lk_hf_flag(config, "moe_use_aux_free", &model->router_bias, err));
	LK_TRY(lk_hf_finish_all_biased(config, model, err));
	if (model->moe_every > 1) model->moe_offset = 1; /* HF: (layer + 1) % interval == 0 */
	if (!end ||
	    (end->kind == LK_JSON_NUMBER && (end->number == -1 || end->number == model->layers - 1)))
		return LK_OK;
	lk_hf_fail(config, end, err, "moe_layer_end_index is not the last layer");
	return lk_hint(err, "dense layers after the experts are not modelled; give %d",
	               model->layers - 1);
}

lk_status lk_hf_finish_stablelm(const lk_hf_config *config, lk_model *model, lk_error *err) {
	if (model->parallel_residual) model->norms_per_layer = 1;
	model->window = 0;
	return lk_hf_sizes(config, model, err);
}

/* The first qwen states the joint width of both inputs of its gated MLP. */
lk_status lk_hf_finish_qwen1(const lk_hf_config *config, lk_model *model, lk_error *err) {
	bool no_bias = true;
	LK_TRY(lk_hf_flag(config, "no_bias", &no_bias, err));
	/* overrides the base of rope_parameters */
	LK_TRY(lk_hf_real(config, "rotary_emb_base", &model->rotary_base, err));
	model->out_bias = model->mlp_bias = !no_bias;
	model->ffn /= 2;
	return lk_hf_heads(config, model, err);
}

/* minicpm3: values are as wide as a head's share of the hidden size. */
lk_status lk_hf_finish_minicpm3(const lk_hf_config *config, lk_model *model, lk_error *err) {
	if (model->v_dim == 0) model->v_dim = model->hidden / model->heads;
	return lk_hf_finish_windowless(config, model, err);
}

/* hunyuan: keys and values shared by layers (use_cla) are not modelled; without sharing their
 * number means nothing. */
lk_status lk_hf_finish_hunyuan(const lk_hf_config *config, lk_model *model, lk_error *err) {
	const lk_value *shared = lk_json_get(config->object, "use_cla");
	if (!shared || shared->kind == LK_JSON_FALSE) lk_hf_find(config, "cla_share_factor");
	return lk_hf_finish_windowless(config, model, err);
}

/* minimax_m2: intermediate_size is an expert's; all layers have full attention. */
lk_status lk_hf_finish_minimax_m2(const lk_hf_config *config, lk_model *model, lk_error *err) {
	const lk_value *types = lk_hf_find(config, "attn_type_list");
	bool predicts = false;
	if (lk_hf_says(config, "qk_norm_type", "per_head"))
		return lk_hf_fail(config, NULL, err,
		                  "norms of single heads (qk_norm_type) are not modelled");
	LK_TRY(lk_hf_flag(config, "use_routing_bias", &model->router_bias, err));
	LK_TRY(lk_hf_flag(config, "use_mtp", &predicts, err));
	if (predicts) LK_TRY(lk_hf_int(config, "num_mtp_modules", &model->mtp_layers, err));
	for (size_t i = 0; types && types->kind == LK_JSON_ARRAY && i < types->count; i++) {
		if (types->items[i].kind == LK_JSON_NUMBER && types->items[i].number == 1) continue;
		lk_hf_fail(config, &types->items[i], err, "attn_type_list is not 1 in all layers");
		return lk_hint(err, "other attention of minimax_m2 is not modelled");
	}
	return lk_hf_finish_windowless(config, model, err);
}

/* grok-1 has only experts; grok-2 (residual_moe) adds an MLP that all tokens pass, and an untied
 * head. */
lk_status lk_hf_finish_grok(const lk_hf_config *config, lk_model *model, lk_error *err) {
	bool residual = false;
	LK_TRY(lk_hf_flag(config, "residual_moe", &residual, err));
	if (residual) {
		model->shared_ffn = model->ffn;
		model->tied = false;
	}
	return lk_hf_finish_windowless(config, model, err);
}

/* hunyuan_v1_moe: each shared expert is as wide as an expert. */
lk_status lk_hf_finish_hunyuan_moe(const lk_hf_config *config, lk_model *model, lk_error *err) {
	int shared = 0;
	bool mixed = false;
	LK_TRY(lk_hf_int(config, "num_shared_expert", &shared, err));
	LK_TRY(lk_hf_flag(config, "use_mixed_mlp_moe", &mixed, err));
	if (!lk_hf_find(config, "vit_type")) /* no image encoder: its members shape nothing */
		lk_hf_pass(config, "anyres_pooling_size|vit_input_resolution|vit_mapping_type|"
		                   "vit_norm_type|vit_patch|vit_token|max_image_size|min_image_size|"
		                   "video_max_frames");
	LK_TRY(lk_hf_finish_hunyuan(config, model, err));
	if (mixed && shared > 0 && model->expert_ffn <= INT_MAX / shared)
		model->shared_ffn = shared * model->expert_ffn;
	return LK_OK;
}

/* bailing_moe (Ling): switches for biases, including the router's. */
lk_status lk_hf_finish_bailing(const lk_hf_config *config, lk_model *model, lk_error *err) {
	model->out_bias = model->mlp_bias;
	model->window = 0;
	LK_TRY(lk_hf_sizes(config, model, err));
	int each = model->expert_ffn, width = each;
	LK_TRY(lk_hf_int(config, "moe_shared_expert_intermediate_size", &width, err));
	if (width == each || model->shared_ffn == 0) return LK_OK;
	lk_hf_fail(config, NULL, err, "shared experts of %d, not as wide as the others, %d", width,
	           each);
	return lk_hint(err, "other widths of them are not modelled");
}

/* qwen: the window must be switched on. */
lk_status lk_hf_finish_qwen(const lk_hf_config *config, lk_model *model, lk_error *err) {
	if (!lk_hf_find(config, "use_sliding_window")) model->window = 0;
	LK_TRY(lk_hf_shapes(config, model, err));
	if (model->moe_every > 1)
		model->moe_offset = 1; /* HF: (layer + 1) % decoder_sparse_step == 0 */
	return finish_windows(config, model, err);
}

lk_status lk_hf_finish_gpt_oss(const lk_hf_config *config, lk_model *model, lk_error *err) {
	LK_TRY(lk_hf_finish_windowed(config, model, err));
	model->qkv_bias = model->out_bias = true;
	model->attention_sinks = model->heads;
	if (lk_hf_find(config, "swiglu_limit")) model->clipped_glu = true;
	return LK_OK;
}

lk_status lk_hf_finish_chatglm(const lk_hf_config *config, lk_model *model, lk_error *err) {
	bool grouped = false, biases = false;
	LK_TRY(lk_hf_flag(config, "multi_query_attention", &grouped, err));
	LK_TRY(lk_hf_flag(config, "add_bias_linear", &biases, err));
	if (grouped) LK_TRY(lk_hf_int(config, "multi_query_group_num", &model->kv_heads, err));
	model->out_bias = model->mlp_bias = biases;
	model->qkv_bias = model->qkv_bias || biases;
	return lk_hf_heads(config, model, err);
}

/* afmoe: one layer in N attends fully, all norms twice, and a gate after attention. */
lk_status lk_hf_finish_afmoe(const lk_hf_config *config, lk_model *model, lk_error *err) {
	LK_TRY(lk_hf_shapes(config, model, err));
	return lk_hf_layer_types(config, model, err);
}

/* gemma3_text: an encoder if every token sees all others (EmbeddingGemma). */
lk_status lk_hf_finish_gemma3(const lk_hf_config *config, lk_model *model, lk_error *err) {
	bool both = false;
	LK_TRY(lk_hf_flag(config, "use_bidirectional_attention", &both, err));
	if (both) model->network = LK_NET_ENCODER, model->lm_head = false;
	return lk_hf_finish_windowed(config, model, err);
}

/* arctic: every layer has experts, and a dense MLP with its own norm that all tokens pass. */
lk_status lk_hf_finish_arctic(const lk_hf_config *config, lk_model *model, lk_error *err) {
	bool residual = true, parallel = true, tensor = false;
	LK_TRY(lk_hf_int(config, "moe_layer_frequency", &model->moe_every, err));
	LK_TRY(lk_hf_flag(config, "use_residual", &residual, err));
	LK_TRY(lk_hf_flag(config, "parallel_attn_mlp_res", &parallel, err));
	LK_TRY(lk_hf_flag(config, "enable_expert_tensor_parallelism", &tensor, err));
	if (!residual || !parallel || model->moe_every != 1)
		return lk_hf_fail(config, NULL, err,
		                  "moe_layer_frequency %d, or layers without "
		                  "use_residual and parallel_attn_mlp_res",
		                  model->moe_every);
	model->shared_ffn = model->ffn;
	return lk_hf_finish_windowless(config, model, err);
}

/* phi3small: every second layer attends fully, the others to the last blocks of 64 tokens; the
 * stripes of earlier blocks that they also see are left out. */
lk_status lk_hf_finish_phi3small(const lk_hf_config *config, lk_model *model, lk_error *err) {
	int block = 64, local = 16, every = 2;
	LK_TRY(lk_hf_int(config, "blocksparse_block_size", &block, err));
	LK_TRY(lk_hf_int(config, "blocksparse_num_local_blocks", &local, err));
	LK_TRY(lk_hf_int(config, "dense_attention_every_n_layers", &every, err));
	LK_TRY(lk_hf_real(config, "rope_embedding_base", &model->rotary_base, err));
	if (block < 1 || block > 1 << 16 || local < 1 || local > 1 << 12 || every < 1)
		return lk_hf_fail(config, NULL, err, "%d local blocks of %d, full attention every %d",
		                  local, block, every);
	model->window = block * local;
	model->full_every = every;
	lk_hf_warn(config, "layers of block-sparse attention are priced as windows of %d tokens",
	           model->window);
	return lk_hf_heads(config, model, err);
}

/* minicpmv: the release decides the language model: Llama 3, Qwen2, Qwen3. */
lk_status lk_hf_finish_minicpmv(const lk_hf_config *config, lk_model *model, lk_error *err) {
	double version = 2.6;
	LK_TRY(lk_hf_real(config, "version", &version, err));
	model->qkv_bias = version == 2.6;
	model->qk_norm = version == 4.5;
	if (version == 2.5 || version == 2.6 || version == 4.5)
		return lk_hf_finish_qwen(config, model, err);
	lk_hf_fail(config, lk_hf_find(config, "version"), err, "MiniCPM-V %g is not modelled", version);
	return lk_hint(err, "2.5, 2.6 and 4.5 are");
}
