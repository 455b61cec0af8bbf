/* hf_families.c: one row per family of HuggingFace decoder configs: its keys, its start values
 * (what a config of the family may leave out), and its derivations. Keys and defaults are those of
 * the configuration classes of the transformers library; the published parameter counts of each
 * family are the test (tests/unit/test_model.c). */
#include "model/network/hf.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define INT   LK_HF_INTEGER
#define NEED  LK_HF_NEEDED
#define CLEAR LK_HF_CLEARED
#define REAL  LK_HF_NUMBER
#define FLAG  LK_HF_SWITCH
#define END   LK_HF_END

/* ---- keys ---- */

/* llama and its many relatives, mixtures of experts and multi-head latent attention included. */
static const lk_hf_key llama_keys[] = {
	NEED("num_hidden_layers|n_layers|num_layers", layers),
	NEED("hidden_size|dim", hidden),
	NEED("num_attention_heads|n_heads|num_heads", heads),
	CLEAR("num_key_value_heads|n_kv_heads|num_kv_heads", kv_heads),
	INT("head_dim|attention_head_dim", head_dim),
	NEED("intermediate_size|ffn_hidden_size|block_ff_dim|ff_intermediate_size", ffn),
	NEED("vocab_size", vocab),
	INT("max_position_embeddings", context),
	REAL("rope_theta|theta", rotary_base),
	FLAG("tie_word_embeddings|tie_embedding", tied),
	FLAG("mlp_bias", mlp_bias),
	FLAG("use_qk_norm|qk_norm|qk_layernorm", qk_norm),
	FLAG("lm_head_bias", head_bias),
	CLEAR("sliding_window", window),
	INT("num_experts|num_local_experts|n_routed_experts|moe_num_experts", experts),
	INT("num_experts_per_tok|num_experts_per_token|experts_per_token|moe_topk|moe_k", topk),
	INT("moe_intermediate_size|expert_ffn_hidden_size", expert_ffn),
	INT("first_k_dense_replace|moe_layer_start_index|num_dense_layers", dense_layers),
	INT("decoder_sparse_step|moe_layer_freq|moe_layer_interval", moe_every),
	INT("num_nextn_predict_layers", mtp_layers),
	CLEAR("q_lora_rank", q_lora),
	CLEAR("kv_lora_rank", kv_lora),
	INT("qk_nope_head_dim", qk_nope),
	INT("qk_rope_head_dim", qk_rope),
	INT("v_head_dim", v_dim),
	REAL("resid_pdrop", dropout),
	END,
};

static const lk_hf_key molmo_keys[] = {
	NEED("num_hidden_layers", layers),
	NEED("hidden_size", hidden),
	NEED("num_attention_heads", heads),
	CLEAR("num_key_value_heads", kv_heads),
	NEED("intermediate_size", ffn),
	NEED("embedding_size|vocab_size", vocab),
	INT("max_position_embeddings", context),
	REAL("rope_theta", rotary_base),
	FLAG("weight_tying|tie_word_embeddings", tied),
	FLAG("qkv_bias", qkv_bias),
	END,
};

static const lk_hf_key mimo_v2_keys[] = {
	NEED("num_hidden_layers", layers),
	NEED("hidden_size", hidden),
	NEED("num_attention_heads", heads),
	NEED("num_key_value_heads", kv_heads),
	NEED("head_dim", head_dim),
	INT("v_head_dim", v_dim),
	INT("swa_num_key_value_heads", window_kv_heads),
	NEED("intermediate_size", ffn),
	NEED("vocab_size", vocab),
	INT("max_position_embeddings", context),
	REAL("rope_theta", rotary_base),
	FLAG("tie_word_embeddings", tied),
	INT("sliding_window|sliding_window_size", window),
	INT("n_routed_experts", experts),
	INT("num_experts_per_tok", topk),
	INT("moe_intermediate_size", expert_ffn),
	END,
};

/* Queries pass a low-rank projection, share_q_dim, and a norm (Step3TextAttention). */
static const lk_hf_key step3_keys[] = {
	NEED("num_hidden_layers", layers),
	NEED("hidden_size", hidden),
	NEED("num_attention_heads", heads),
	NEED("num_attention_groups", kv_heads),
	NEED("head_dim", head_dim),
	INT("share_q_dim", q_lora),
	NEED("intermediate_size", ffn),
	NEED("vocab_size", vocab),
	INT("max_position_embedding|max_seq_len", context),
	REAL("rope_theta", rotary_base),
	FLAG("tie_word_embeddings", tied),
	INT("moe_num_experts", experts),
	INT("moe_top_k", topk),
	INT("moe_intermediate_size", expert_ffn),
	INT("share_expert_dim", shared_ffn),
	END,
};

static const lk_hf_key chatglm_keys[] = {
	NEED("num_layers", layers),          NEED("hidden_size", hidden),
	NEED("num_attention_heads", heads),  INT("kv_channels", head_dim),
	NEED("ffn_hidden_size", ffn),        NEED("padded_vocab_size|vocab_size", vocab),
	INT("seq_length", context),          FLAG("add_qkv_bias", qkv_bias),
	FLAG("post_layer_norm", final_norm), FLAG("tie_word_embeddings", tied),
	REAL("hidden_dropout", dropout),     END,
};

static const lk_hf_key mamba_keys[] = {
	NEED("num_hidden_layers|n_layer", layers),
	NEED("hidden_size|d_model", hidden),
	NEED("vocab_size", vocab),
	INT("max_position_embeddings", context),
	FLAG("tie_word_embeddings", tied),
	END,
};

/* By default its MLP is four times as wide as the hidden size. */
static const lk_hf_key zamba2_keys[] = {
	NEED("num_hidden_layers", layers),
	NEED("hidden_size", hidden),
	NEED("num_attention_heads", heads),
	CLEAR("num_key_value_heads", kv_heads),
	INT("attention_head_dim", head_dim),
	CLEAR("intermediate_size", ffn),
	NEED("vocab_size", vocab),
	INT("max_position_embeddings", context),
	REAL("rope_theta", rotary_base),
	FLAG("tie_word_embeddings", tied),
	END,
};

static const lk_hf_key xlstm_keys[] = {
	NEED("num_hidden_layers|num_blocks", layers),
	NEED("hidden_size|embedding_dim", hidden),
	NEED("num_heads", delta_value_heads),
	NEED("vocab_size", vocab),
	INT("max_position_embeddings", context),
	FLAG("tie_word_embeddings", tied),
	END,
};

static const lk_hf_key rwkv_keys[] = {
	NEED("num_hidden_layers", layers),
	NEED("hidden_size", hidden),
	NEED("vocab_size", vocab),
	INT("context_length|max_position_embeddings", context),
	CLEAR("attention_hidden_size", rwkv_inner),
	CLEAR("intermediate_size", ffn),
	FLAG("tie_word_embeddings", tied),
	END,
};

static const lk_hf_key puzzle_keys[] = {
	NEED("num_hidden_layers", layers),
	NEED("hidden_size", hidden),
	NEED("num_attention_heads", heads),
	NEED("vocab_size", vocab),
	INT("max_position_embeddings", context),
	REAL("rope_theta", rotary_base),
	FLAG("tie_word_embeddings", tied),
	FLAG("mlp_bias", mlp_bias),
	END,
};

static const lk_hf_key no_keys[] = {END};

/* ---- derived fields ---- */

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
static lk_status finish_apertus(const lk_hf_config *config, lk_model *model, lk_error *err) {
	if (model->layers <= INT_MAX / 2 && lk_hf_says(config, "hidden_act", "xielu"))
		model->loose = 2 * model->layers;
	model->window = 0;
	return lk_hf_shapes(config, model, err);
}

/* llama, gemma, deepseek: windows in the config are ignored. */
static lk_status finish_windowless(const lk_hf_config *config, lk_model *model, lk_error *err) {
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

static lk_status finish_windowed(const lk_hf_config *config, lk_model *model, lk_error *err) {
	LK_TRY(lk_hf_shapes(config, model, err));
	return finish_windows(config, model, err);
}

/* glm, seed_oss: attention_bias covers only queries, keys and values. */
static lk_status finish_qkv_biased(const lk_hf_config *config, lk_model *model, lk_error *err) {
	LK_TRY(lk_hf_flag(config, "attention_bias|qkv_bias", &model->qkv_bias, err));
	LK_TRY(lk_hf_flag(config, "attention_out_bias", &model->out_bias, err));
	model->window = 0;
	return lk_hf_sizes(config, model, err);
}

/* internlm3: one switch for queries, keys and values, one for all other biases. */
static lk_status finish_internlm3(const lk_hf_config *config, lk_model *model, lk_error *err) {
	LK_TRY(lk_hf_flag(config, "bias", &model->out_bias, err));
	model->mlp_bias = model->out_bias;
	return finish_qkv_biased(config, model, err);
}

/* internlm: a switch for the biases of attention, default on. */
static lk_status finish_internlm(const lk_hf_config *config, lk_model *model, lk_error *err) {
	LK_TRY(lk_hf_flag(config, "bias", &model->out_bias, err));
	model->qkv_bias = model->out_bias;
	return lk_hf_sizes(config, model, err);
}

/* starcoder2, ernie4_5: one switch for all biases. */
static lk_status finish_all_biased(const lk_hf_config *config, lk_model *model, lk_error *err) {
	LK_TRY(lk_hf_flag(config, "use_bias", &model->mlp_bias, err));
	lk_hf_all_biases(model, model->mlp_bias);
	LK_TRY(lk_hf_sizes(config, model, err));
	return finish_windows(config, model, err);
}

/* Experts from moe_layer_start_index to moe_layer_end_index (-1: the last layer), every
 * moe_layer_interval layers; a bias balances their load unless moe_use_aux_free is off. */
static lk_status finish_ernie_moe(const lk_hf_config *config, lk_model *model, lk_error *err) {
	const lk_value *end = lk_hf_find(config, "moe_layer_end_index");
	LK_TRY(lk_hf_flag(config, "moe_use_aux_free", &model->router_bias, err));
	LK_TRY(finish_all_biased(config, model, err));
	if (model->moe_every > 1) model->moe_offset = 1; /* HF: (layer + 1) % interval == 0 */
	if (!end ||
	    (end->kind == LK_JSON_NUMBER && (end->number == -1 || end->number == model->layers - 1)))
		return LK_OK;
	lk_hf_fail(config, end, err, "moe_layer_end_index is not the last layer");
	return lk_hint(err, "dense layers after the experts are not modelled; give %d",
	               model->layers - 1);
}

static lk_status finish_stablelm(const lk_hf_config *config, lk_model *model, lk_error *err) {
	LK_TRY(lk_hf_flag(config, "use_qkv_bias", &model->qkv_bias, err));
	LK_TRY(lk_hf_flag(config, "use_parallel_residual", &model->parallel_residual, err));
	if (model->parallel_residual) model->norms_per_layer = 1;
	model->window = 0;
	return lk_hf_sizes(config, model, err);
}

/* The first qwen states the joint width of both inputs of its gated MLP. */
static lk_status finish_qwen1(const lk_hf_config *config, lk_model *model, lk_error *err) {
	bool no_bias = true;
	LK_TRY(lk_hf_flag(config, "no_bias", &no_bias, err));
	LK_TRY(lk_hf_int(config, "kv_channels", &model->head_dim, err));
	LK_TRY(lk_hf_real(config, "rotary_emb_base", &model->rotary_base, err));
	model->out_bias = model->mlp_bias = !no_bias;
	model->ffn /= 2;
	return lk_hf_heads(config, model, err);
}

/* minicpm3: values are as wide as a head's share of the hidden size. */
static lk_status finish_minicpm3(const lk_hf_config *config, lk_model *model, lk_error *err) {
	if (model->v_dim == 0) model->v_dim = model->hidden / model->heads;
	return finish_windowless(config, model, err);
}

/* hunyuan: keys and values shared by layers (use_cla) are not modelled; without sharing their
 * number means nothing. */
static lk_status finish_hunyuan(const lk_hf_config *config, lk_model *model, lk_error *err) {
	const lk_value *shared = lk_json_get(config->object, "use_cla");
	if (!shared || shared->kind == LK_JSON_FALSE) lk_hf_find(config, "cla_share_factor");
	return finish_windowless(config, model, err);
}

/* The indexer of DeepSeek's sparse attention. */
static lk_status finish_deepseek_v32(const lk_hf_config *config, lk_model *model, lk_error *err) {
	LK_TRY(lk_hf_int(config, "index_n_heads", &model->index_heads, err));
	LK_TRY(lk_hf_int(config, "index_head_dim", &model->index_dim, err));
	LK_TRY(lk_hf_int(config, "index_topk", &model->index_topk, err));
	return finish_windowless(config, model, err);
}

/* minimax_m2: intermediate_size is an expert's; all layers have full attention. */
static lk_status finish_minimax_m2(const lk_hf_config *config, lk_model *model, lk_error *err) {
	const lk_value *types = lk_hf_find(config, "attn_type_list");
	bool predicts = false;
	lk_hf_pass(config, "layernorm_full_attention_beta|layernorm_linear_attention_alpha|"
	                   "layernorm_linear_attention_beta|layernorm_full_attention_alpha|"
	                   "layernorm_mlp_alpha|layernorm_mlp_beta|mlp_intermediate_size|"
	                   "mtp_transformer_layers|shared_moe_mode|use_grouped_topk");
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
	return finish_windowless(config, model, err);
}

/* grok-1 has only experts; grok-2 (residual_moe) adds an MLP that all tokens pass, and an untied
 * head. */
static lk_status finish_grok(const lk_hf_config *config, lk_model *model, lk_error *err) {
	bool residual = false;
	LK_TRY(lk_hf_flag(config, "residual_moe", &residual, err));
	lk_hf_pass(config, "global_attn_every_n"); /* every layer: there is no window */
	if (residual) {
		model->shared_ffn = model->ffn;
		model->tied = false;
	}
	return finish_windowless(config, model, err);
}

/* hunyuan_v1_moe: each shared expert is as wide as an expert. */
static lk_status finish_hunyuan_moe(const lk_hf_config *config, lk_model *model, lk_error *err) {
	int shared = 0;
	bool mixed = false;
	LK_TRY(lk_hf_int(config, "num_shared_expert", &shared, err));
	LK_TRY(lk_hf_flag(config, "use_mixed_mlp_moe", &mixed, err));
	if (!lk_hf_find(config, "vit_type")) /* no image encoder: its members shape nothing */
		lk_hf_pass(config, "anyres_pooling_size|vit_input_resolution|vit_mapping_type|"
		                   "vit_norm_type|vit_patch|vit_token|max_image_size|min_image_size|"
		                   "video_max_frames");
	LK_TRY(finish_hunyuan(config, model, err));
	if (mixed && shared > 0 && model->expert_ffn <= INT_MAX / shared)
		model->shared_ffn = shared * model->expert_ffn;
	return LK_OK;
}

/* bailing_moe (Ling): switches for biases, including the router's. */
static lk_status finish_bailing(const lk_hf_config *config, lk_model *model, lk_error *err) {
	lk_hf_pass(config, "use_rmsnorm|using_split_qkv_in_self_attention|rotary_type");
	LK_TRY(lk_hf_flag(config, "use_bias", &model->mlp_bias, err));
	model->out_bias = model->mlp_bias;
	LK_TRY(lk_hf_flag(config, "use_qkv_bias", &model->qkv_bias, err));
	LK_TRY(lk_hf_flag(config, "moe_router_enable_expert_bias", &model->router_bias, err));
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
static lk_status finish_qwen(const lk_hf_config *config, lk_model *model, lk_error *err) {
	if (!lk_hf_find(config, "use_sliding_window")) model->window = 0;
	LK_TRY(lk_hf_shapes(config, model, err));
	if (model->moe_every > 1)
		model->moe_offset = 1; /* HF: (layer + 1) % decoder_sparse_step == 0 */
	return finish_windows(config, model, err);
}

/* gemma3n: streams in addition to the residual one. Keys and values that the last layers take from
 * earlier ones are counted as if each made its own, since the weights exist; gates whose smallest
 * values are zeroed are still dense products. */
static lk_status finish_gemma3n(const lk_hf_config *config, lk_model *model, lk_error *err) {
	lk_hf_pass(config, "activation_sparsity_pattern|altup_active_idx|altup_coef_clip|"
	                   "altup_correct_scale|altup_lr_multiplier|num_kv_shared_layers");
	LK_TRY(lk_hf_int(config, "altup_num_inputs", &model->streams.count, err));
	LK_TRY(lk_hf_int(config, "laurel_rank", &model->streams.low_rank, err));
	LK_TRY(lk_hf_int(config, "hidden_size_per_layer_input", &model->streams.inputs, err));
	LK_TRY(lk_hf_int(config, "vocab_size_per_layer_input", &model->streams.input_rows, err));
	return finish_windowed(config, model, err);
}

static lk_status finish_gpt_oss(const lk_hf_config *config, lk_model *model, lk_error *err) {
	LK_TRY(finish_windowed(config, model, err));
	model->qkv_bias = model->out_bias = true;
	model->attention_sinks = model->heads;
	if (lk_hf_find(config, "swiglu_limit")) model->clipped_glu = true;
	return LK_OK;
}

static lk_status finish_chatglm(const lk_hf_config *config, lk_model *model, lk_error *err) {
	bool grouped = false, biases = false;
	LK_TRY(lk_hf_flag(config, "multi_query_attention", &grouped, err));
	LK_TRY(lk_hf_flag(config, "add_bias_linear", &biases, err));
	if (grouped) LK_TRY(lk_hf_int(config, "multi_query_group_num", &model->kv_heads, err));
	model->out_bias = model->mlp_bias = biases;
	model->qkv_bias = model->qkv_bias || biases;
	return lk_hf_heads(config, model, err);
}

/* afmoe: one layer in N attends fully, all norms twice, and a gate after attention. */
static lk_status finish_afmoe(const lk_hf_config *config, lk_model *model, lk_error *err) {
	LK_TRY(lk_hf_int(config, "global_attn_every_n_layers", &model->full_every, err));
	lk_hf_pass(config, "mup_enabled|route_norm|route_scale|score_func|load_balance_coeff|"
	                   "num_expert_groups|num_limited_groups|use_grouped_mm");
	LK_TRY(lk_hf_shapes(config, model, err));
	return lk_hf_layer_types(config, model, err);
}

/* gemma3_text: an encoder if every token sees all others (EmbeddingGemma). */
static lk_status finish_gemma3(const lk_hf_config *config, lk_model *model, lk_error *err) {
	bool both = false;
	LK_TRY(lk_hf_flag(config, "use_bidirectional_attention", &both, err));
	if (both) model->network = LK_NET_ENCODER, model->lm_head = false;
	return finish_windowed(config, model, err);
}

/* arctic: every layer has experts, and a dense MLP with its own norm that all tokens pass. */
static lk_status finish_arctic(const lk_hf_config *config, lk_model *model, lk_error *err) {
	bool residual = true, parallel = true, tensor = false;
	LK_TRY(lk_hf_int(config, "moe_layer_frequency", &model->moe_every, err));
	LK_TRY(lk_hf_flag(config, "use_residual", &residual, err));
	LK_TRY(lk_hf_flag(config, "parallel_attn_mlp_res", &parallel, err));
	LK_TRY(lk_hf_flag(config, "enable_expert_tensor_parallelism", &tensor, err));
	lk_hf_pass(config, "moe_eval_capacity_factor|moe_train_capacity_factor|moe_token_dropping|"
	                   "moe_min_capacity");
	if (!residual || !parallel || model->moe_every != 1)
		return lk_hf_fail(config, NULL, err,
		                  "moe_layer_frequency %d, or layers without "
		                  "use_residual and parallel_attn_mlp_res",
		                  model->moe_every);
	model->shared_ffn = model->ffn;
	return finish_windowless(config, model, err);
}

/* eurobert: llama's layers with bidirectional attention. */
static lk_status finish_eurobert(const lk_hf_config *config, lk_model *model, lk_error *err) {
	lk_hf_pass(config, "mask_token|bos_token|eos_token|pad_token");
	return finish_windowless(config, model, err);
}

/* phi3small: every second layer attends fully, the others to the last blocks of 64 tokens; the
 * stripes of earlier blocks that they also see are left out. */
static lk_status finish_phi3small(const lk_hf_config *config, lk_model *model, lk_error *err) {
	int block = 64, local = 16, every = 2;
	LK_TRY(lk_hf_int(config, "blocksparse_block_size", &block, err));
	LK_TRY(lk_hf_int(config, "blocksparse_num_local_blocks", &local, err));
	LK_TRY(lk_hf_int(config, "dense_attention_every_n_layers", &every, err));
	LK_TRY(lk_hf_real(config, "rope_embedding_base", &model->rotary_base, err));
	lk_hf_pass(config, "blocksparse_vert_stride|blocksparse_homo_head_pattern|"
	                   "blocksparse_triton_kernel_block_size|ff_dim_multiplier|"
	                   "gegelu_limit|gegelu_pad_to_256|mup_attn_multiplier|"
	                   "mup_embedding_multiplier|mup_use_scaling|mup_width_multiplier|"
	                   "rope_position_scale|pad_sequence_to_multiple_of_64|"
	                   "dummy_token_indices|embedding_dropout_prob|attention_bias");
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
static lk_status finish_minicpmv(const lk_hf_config *config, lk_model *model, lk_error *err) {
	double version = 2.6;
	LK_TRY(lk_hf_real(config, "version", &version, err));
	lk_hf_pass(config, "batch_vision_input|slice_config|slice_mode|patch_size|im_start|im_end|"
	                   "use_image_id|vision_batch_size");
	model->qkv_bias = version == 2.6;
	model->qk_norm = version == 4.5;
	if (version == 2.5 || version == 2.6 || version == 4.5) return finish_qwen(config, model, err);
	lk_hf_fail(config, lk_hf_find(config, "version"), err, "MiniCPM-V %g is not modelled", version);
	return lk_hint(err, "2.5, 2.6 and 4.5 are");
}

/* ---- start values ---- */

#define ROTARY(norms, base)                                                                   \
	.network = LK_NET_DECODER, .norms_per_layer = norms, .final_norm = true, .lm_head = true, \
	.rotary_base = base
#define PLAIN(norms, base) ROTARY(norms, base), .norm = LK_NORM_RMS
#define LLAMA(norms, base) PLAIN(norms, base), .gated = true
#define LAYER(norms, base) ROTARY(norms, base), .norm = LK_NORM_LAYER
#define GEMMA(norms, base) LLAMA(norms, base), .tied = true, .head_dim = 256
#define GPT                                                                                     \
	.network = LK_NET_DECODER, .norm = LK_NORM_LAYER, .norms_per_layer = 2, .final_norm = true, \
	.norm_bias = true, .lm_head = true
#define BIASES .qkv_bias = true, .out_bias = true, .mlp_bias = true

static const lk_model llama_start = {LLAMA(2, 1e4)};
static const lk_model qwen2_start = {LLAMA(2, 1e4), .qkv_bias = true};
static const lk_model qwen2_moe_start = {LLAMA(2, 1e4), .qkv_bias = true, .shared_gate = true};
static const lk_model qwen3_start = {LLAMA(2, 1e4), .qk_norm = true, .head_dim = 128};
static const lk_model qwen3_moe_start = {LLAMA(2, 1e4), .qk_norm = true};
static const lk_model omni_talker_start = {LLAMA(2, 1e6), .qk_norm = true, .shared_gate = true};
static const lk_model mistral_start = {LLAMA(2, 1e4), .kv_heads = 8};
static const lk_model mixtral_start = {LLAMA(2, 1e6), .experts = 8, .topk = 2, .kv_heads = 8};
static const lk_model deepseek_v3_start = {LLAMA(2, 1e4), .router_bias = true, .dense_layers = 3};
static const lk_model gpt_oss_start = {LLAMA(2, 15e4),     .head_dim = 64,      .window = 128,
                                       .full_every = 2,    .router_bias = true, .expert_bias = true,
                                       .clipped_glu = true};
static const lk_model gemma_start = {GEMMA(2, 1e4)};
static const lk_model gemma2_start = {GEMMA(4, 1e4),   .window = 4096, .full_every = 2,
                                      .vocab = 256000, .layers = 26,   .hidden = 2304,
                                      .heads = 8,      .kv_heads = 4,  .ffn = 9216};
/* The published gemma3 configs leave out values that equal the class's defaults
 * (Gemma3TextConfig). */
static const lk_model gemma3_start = {GEMMA(4, 1e6),   .qk_norm = true,  .window = 4096,
                                      .full_every = 6, .vocab = 262208,  .heads = 8,
                                      .kv_heads = 4,   .context = 131072};
static const lk_model gemma3n_start = {
	GEMMA(4, 1e6), .qk_norm = true, .window = 512,    .full_every = 5,
	.layers = 35,  .hidden = 2048,  .heads = 8,       .kv_heads = 2,
	.ffn = 16384,  .vocab = 262400, .context = 32768, .streams = {4, 64, 256, 262144}};
static const lk_model mixed_deepseek_start = {LLAMA(2, 1e4), .qk_norm = true, .router_bias = true};
static const lk_model tied_llama_start = {LLAMA(2, 1e4), .tied = true};
static const lk_model arcee_start = {PLAIN(2, 1e4)};
static const lk_model apertus_start = {PLAIN(2, 12e6), .qk_norm = true};
static const lk_model ernie_start = {LLAMA(2, 5e5), .tied = true};
static const lk_model ernie_moe_start = {LLAMA(2, 5e5), .tied = true, .router_bias = true};
static const lk_model glm_start = {LLAMA(2, 1e4), .qkv_bias = true};
static const lk_model glm4_start = {LLAMA(4, 1e4)};
static const lk_model glm4_moe_start = {LLAMA(2, 1e4), .router_bias = true, .dense_layers = 1};
static const lk_model seed_oss_start = {LLAMA(2, 1e4), .qkv_bias = true};
static const lk_model internlm_start = {LLAMA(2, 1e4), .qkv_bias = true, .out_bias = true};
static const lk_model llama4_start = {LLAMA(2, 5e5), .experts = 16, .topk = 1, .moe_every = 1};
#define DELTA                                                                                  \
	LLAMA(2, 1e7), .qk_norm = true, .output_gate = true, .shared_gate = true, .head_dim = 256, \
				   .delta_key_heads = 16, .delta_value_heads = 32, .delta_key_dim = 128,       \
				   .delta_value_dim = 128, .delta_conv = 4
static const lk_model qwen3_next_start = {DELTA};
/* Qwen3_5MoeTextConfig states no dense MLP width. */
static const lk_model qwen3_5_moe_start = {DELTA, .experts = 256, .topk = 8, .ffn = 512};
/* Sizes that these configs may leave out (the classes' defaults). */
#define MAMBA1(rank_norms) \
	.ssm = 1, .ssm_state = 16, .ssm_conv = 4, .ssm_conv_bias = true, .ssm_norm = rank_norms
#define MAMBA2(states, groups, tokens, gated_norm)                                           \
	.ssm = 2, .ssm_state = states, .ssm_groups = groups, .ssm_conv = 4, .ssm_chunk = tokens, \
	.ssm_conv_bias = true, .ssm_norm = gated_norm
static const lk_model nemotron_h_start = {PLAIN(2, 0), MAMBA2(128, 8, 128, true)};
static const lk_model jamba_start = {LLAMA(2, 0), MAMBA1(true), .experts = 16, .topk = 2,
                                     .no_positions = true};
static const lk_model bamba_start = {LLAMA(2, 1e4), MAMBA2(256, 1, 256, true)};
static const lk_model falcon_h1_start = {LLAMA(2, 1e5), MAMBA2(256, 1, 256, false)};
static const lk_model granite_hybrid_start = {LLAMA(2, 1e4), MAMBA2(256, 1, 256, true)};
static const lk_model zamba2_start = {
	LLAMA(2, 1e4),  MAMBA2(64, 1, 256, true), .tied = true,        .heads = 32,
	.ssm_heads = 8, .shared_sets = 1,         .use_product = true, .context = 4096};
static const lk_model mamba_start = {PLAIN(2, 0), MAMBA1(false), .tied = true, .ffn = 1};
static const lk_model falcon_mamba_start = {PLAIN(2, 0), MAMBA1(false), .ffn = 1};
static const lk_model mamba2_start = {PLAIN(2, 0), MAMBA2(128, 8, 256, true), .tied = true,
                                      .ffn = 1};
static const lk_model rwkv_start = {GPT, .embed_norm = true, .context = 1024};
#define RWKV(version) GPT, .embed_norm = true, .context = 4096, .rwkv = version, .rwkv_head = 64
static const lk_model rwkv5_start = {RWKV(5)};
static const lk_model rwkv6_start = {RWKV(6)};
static const lk_model rwkv7_start = {RWKV(7)};
static const lk_model minimax_start = {LLAMA(2, 1e6), .experts = 8, .topk = 2};
static const lk_model minimax_m2_start = {LLAMA(2, 5e6), .qk_norm = true, .qk_norm_wide = true,
                                          .router_bias = true};
static const lk_model grok_start = {LLAMA(4, 1e4), .experts = 8, .topk = 2, .tied = true};
static const lk_model hunyuan_moe_start = {LLAMA(2, 1e4), .topk = 1};
static const lk_model xlstm_start = {LLAMA(2, 0), .context = 8192};
static const lk_model arctic_start = {LLAMA(3, 1e6), .experts = 128, .topk = 2, .moe_every = 2};
static const lk_model eurobert_start = {.network = LK_NET_ENCODER,
                                        .norm = LK_NORM_RMS,
                                        .norms_per_layer = 2,
                                        .final_norm = true,
                                        .gated = true,
                                        .tied = true,
                                        .rotary_base = 25e4};
static const lk_model vaultgemma_start = {GEMMA(2, 1e4), .window = 4096, .full_every = 2};
static const lk_model phi3small_start = {LAYER(2, 1e6), .gated = true, .norm_bias = true, BIASES,
                                         .tied = true};
static const lk_model afmoe_start = {LLAMA(4, 1e4),       .qk_norm = true, .output_gate = true,
                                     .router_bias = true, .window = 1024,  .full_every = 4};
static const lk_model lfm2_start = {LLAMA(2, 1e6), .qk_norm = true, .tied = true, .short_conv = 3,
                                    .context = 128000};
static const lk_model kimi_linear_start = {LLAMA(2, 1e4), .router_bias = true, .delta_conv = 4};
static const lk_model longcat_start = {LLAMA(2, 1e7), .router_bias = true};
static const lk_model exaone_moe_start = {LLAMA(2, 1e6), .qk_norm = true, .router_bias = true};
static const lk_model exaone4_start = {LLAMA(2, 1e6), .qk_norm = true};
static const lk_model olmo_start = {LAYER(2, 1e4), .gated = true, .norm_plain = true};
static const lk_model olmo2_start = {LLAMA(2, 5e5), .qk_norm = true, .qk_norm_wide = true};
static const lk_model cohere_start = {LAYER(1, 1e4), .gated = true, .qk_norm_wide = true,
                                      .parallel_residual = true, .tied = true};
static const lk_model cohere2_start = {LAYER(1, 1e4), .gated = true,  .parallel_residual = true,
                                       .tied = true,  .window = 4096, .full_every = 4};
static const lk_model orion_start = {LAYER(2, 1e4), .gated = true, .norm_bias = true};
static const lk_model stablelm_start = {LAYER(2, 1e4), .gated = true, .norm_bias = true,
                                        .qk_norm_wide = true};
static const lk_model phimoe_start = {LAYER(2, 1e6), .gated = true, .norm_bias = true,
                                      .experts = 16, .topk = 2};
static const lk_model nemotron_start = {GPT, .rotary_base = 1e4};
static const lk_model persimmon_start = {GPT, BIASES, .qk_norm = true, .rotary_base = 25e3};
static const lk_model starcoder2_start = {GPT, BIASES, .tied = true, .rotary_base = 1e4};
static const lk_model chatglm_start = {LLAMA(2, 1e4), .context = 2048};
/* One norm feeds attention and MLP. */
static const lk_model phi_start = {.network = LK_NET_DECODER,
                                   .norm = LK_NORM_LAYER,
                                   .norms_per_layer = 1,
                                   .final_norm = true,
                                   .norm_bias = true,
                                   .lm_head = true,
                                   .head_bias = true,
                                   BIASES,
                                   .parallel_residual = true,
                                   .context = 2048,
                                   .rotary_base = 1e4};
static const lk_model convnet_start = {.network = LK_NET_CONV,
                                       .heads = 1,
                                       .kv_heads = 1,
                                       .head_dim = 1,
                                       .ffn = 1,
                                       .context = 1,
                                       .channels = 3,
                                       .conv.classes = 1000};
/* ---- the table ---- */

const lk_hf_family lk_hf_decoders[] = {
	{"llama", llama_keys, &llama_start, finish_windowless},
	{"qwen2", llama_keys, &qwen2_start, finish_qwen},
	{"qwen2_moe", llama_keys, &qwen2_moe_start, finish_qwen},
	{"qwen3", llama_keys, &qwen3_start, finish_qwen},
	{"qwen3_moe", llama_keys, &qwen3_moe_start, finish_qwen},
	{"qwen2_vl", llama_keys, &qwen2_start, finish_qwen},
	{"qwen2_vl_text", llama_keys, &qwen2_start, finish_qwen},
	{"qwen2_5_vl", llama_keys, &qwen2_start, finish_qwen},
	{"qwen2_5_vl_text", llama_keys, &qwen2_start, finish_qwen},
	{"qwen3_vl_text", llama_keys, &qwen3_start, finish_qwen},
	{"qwen3_vl_moe_text", llama_keys, &qwen3_moe_start, finish_qwen},
	{"qwen3_omni_moe_text", llama_keys, &qwen3_moe_start, finish_qwen},
	{"qwen3_omni_moe_talker_text", llama_keys, &omni_talker_start, finish_qwen},
	{"mistral", llama_keys, &mistral_start, finish_windowed},
	{"mixtral", llama_keys, &mixtral_start, finish_windowed},
	{"deepseek_v2", llama_keys, &llama_start, finish_windowless},
	{"deepseek_v3", llama_keys, &deepseek_v3_start, finish_windowless},
	{"deepseek", llama_keys, &llama_start, finish_windowless},
	{"kimi_k2", llama_keys, &deepseek_v3_start, finish_windowless},
	{"glm4_moe_lite", llama_keys, &deepseek_v3_start, finish_windowless},
	{"mistral4", llama_keys, &llama_start, finish_windowless},
	{"mimo", llama_keys, &qwen2_start, finish_qwen},
	{"mimo_v2_flash", mimo_v2_keys, &llama_start, lk_hf_mimo_v2},
	{"step3_text", step3_keys, &llama_start, lk_hf_step3},
	{"dots1", llama_keys, &mixed_deepseek_start, finish_qwen},
	{"gpt_oss", llama_keys, &gpt_oss_start, finish_gpt_oss},
	{"llama4_text", llama_keys, &llama4_start, lk_hf_llama4},
	{"qwen3_next", llama_keys, &qwen3_next_start, lk_hf_qwen3_next},
	{"qwen3_5_text", llama_keys, &qwen3_next_start, lk_hf_qwen3_next},
	{"qwen3_5_moe_text", llama_keys, &qwen3_5_moe_start, lk_hf_qwen3_next},
	{"deepseek_v32", llama_keys, &deepseek_v3_start, finish_deepseek_v32},
	{"glm_moe_dsa", llama_keys, &deepseek_v3_start, finish_deepseek_v32},
	{"nemotron_h", llama_keys, &nemotron_h_start, lk_hf_nemotron_h},
	{"jamba", llama_keys, &jamba_start, lk_hf_jamba},
	{"bamba", llama_keys, &bamba_start, lk_hf_bamba},
	{"falcon_h1", llama_keys, &falcon_h1_start, lk_hf_falcon_h1},
	{"zamba2", zamba2_keys, &zamba2_start, lk_hf_zamba2},
	{"granitemoehybrid", llama_keys, &granite_hybrid_start, lk_hf_granite_hybrid},
	{"mamba", mamba_keys, &mamba_start, lk_hf_mamba},
	{"falcon_mamba", mamba_keys, &falcon_mamba_start, lk_hf_mamba},
	{"mamba2", mamba_keys, &mamba2_start, lk_hf_mamba2},
	{"rwkv", rwkv_keys, &rwkv_start, lk_hf_rwkv},
	{"rwkv5", rwkv_keys, &rwkv5_start, lk_hf_rwkv5},
	{"rwkv6", rwkv_keys, &rwkv6_start, lk_hf_rwkv5},
	{"rwkv7", rwkv_keys, &rwkv7_start, lk_hf_rwkv7},
	{"minimax", llama_keys, &minimax_start, lk_hf_minimax},
	{"minimax_text_01", llama_keys, &minimax_start, lk_hf_minimax},
	{"minimax_m2", llama_keys, &minimax_m2_start, finish_minimax_m2},
	{"nemotron-nas", puzzle_keys, &llama_start, lk_hf_puzzle},
	{"mllama_text_model", llama_keys, &llama_start, lk_hf_mllama},
	{"bailing_moe", llama_keys, &llama_start, finish_bailing},
	{"bailing_moe_v2", llama_keys, &llama_start, finish_bailing},
	{"grok-1", llama_keys, &grok_start, finish_grok},
	{"hunyuan_v1_moe", llama_keys, &hunyuan_moe_start, finish_hunyuan_moe},
	{"ministral3", llama_keys, &llama_start, finish_windowed},
	{"smollm3", llama_keys, &tied_llama_start, finish_qwen},
	{"granite", llama_keys, &llama_start, finish_windowless},
	{"granitemoe", llama_keys, &llama_start, finish_windowless},
	{"granitemoeshared", llama_keys, &llama_start, finish_windowless},
	{"arcee", llama_keys, &arcee_start, finish_windowless},
	{"apertus", llama_keys, &apertus_start, finish_apertus},
	{"baichuan", llama_keys, &llama_start, finish_windowless},
	{"Yi", llama_keys, &llama_start, finish_windowless},
	{"xverse", llama_keys, &llama_start, finish_windowless},
	{"orion", llama_keys, &orion_start, finish_windowless},
	{"internlm", llama_keys, &internlm_start, finish_internlm},
	{"internlm2", llama_keys, &llama_start, finish_windowless},
	{"internlm3", llama_keys, &llama_start, finish_internlm3},
	{"minicpm", llama_keys, &tied_llama_start, finish_windowless},
	{"minicpm3", llama_keys, &tied_llama_start, finish_minicpm3},
	{"qwen", llama_keys, &qwen2_start, finish_qwen1},
	{"minicpmv", llama_keys, &llama_start, finish_minicpmv},
	{"molmo", molmo_keys, &llama_start, lk_hf_molmo},
	{"chatglm", chatglm_keys, &chatglm_start, finish_chatglm},
	{"glm", llama_keys, &glm_start, finish_qkv_biased},
	{"glm4", llama_keys, &glm4_start, finish_qkv_biased},
	{"glm4_moe", llama_keys, &glm4_moe_start, finish_qkv_biased},
	{"seed_oss", llama_keys, &seed_oss_start, finish_qkv_biased},
	{"ernie4_5", llama_keys, &ernie_start, finish_all_biased},
	{"ernie4_5_moe", llama_keys, &ernie_moe_start, finish_ernie_moe},
	{"hunyuan_v1_dense", llama_keys, &llama_start, finish_hunyuan},
	{"afmoe", llama_keys, &afmoe_start, finish_afmoe},
	{"lfm2", llama_keys, &lfm2_start, lk_hf_lfm2},
	{"lfm2_moe", llama_keys, &lfm2_start, lk_hf_lfm2_moe},
	{"kimi_linear", llama_keys, &kimi_linear_start, lk_hf_kimi_linear},
	{"longcat_flash", llama_keys, &longcat_start, lk_hf_longcat},
	{"solar_open", llama_keys, &glm4_moe_start, finish_qkv_biased},
	{"exaone_moe", llama_keys, &exaone_moe_start, finish_windowed},
	{"helium", llama_keys, &llama_start, finish_windowless},
	{"xlstm", xlstm_keys, &xlstm_start, lk_hf_xlstm},
	{"arctic", llama_keys, &arctic_start, finish_arctic},
	{"eurobert", llama_keys, &eurobert_start, finish_eurobert},
	{"vaultgemma", llama_keys, &vaultgemma_start, finish_windowed},
	{"phi3small", llama_keys, &phi3small_start, finish_phi3small},
	{"flex_olmo", llama_keys, &olmo2_start, finish_windowless},
	{"glm4v_text", llama_keys, &glm4_start, finish_qkv_biased},
	{"glm4v_moe_text", llama_keys, &glm4_moe_start, finish_qkv_biased},
	{"cwm", llama_keys, &llama_start, finish_windowed},
	{"exaone", llama_keys, &llama_start, finish_windowless},
	{"exaone4", llama_keys, &exaone4_start, finish_windowed},
	{"olmo", llama_keys, &olmo_start, finish_windowless},
	{"olmo2", llama_keys, &olmo2_start, finish_windowless},
	{"olmo3", llama_keys, &olmo2_start, finish_windowed},
	{"olmoe", llama_keys, &olmo2_start, finish_windowless},
	{"cohere", llama_keys, &cohere_start, finish_windowless},
	{"cohere2", llama_keys, &cohere2_start, finish_windowed},
	{"stablelm", llama_keys, &stablelm_start, finish_stablelm},
	{"starcoder2", llama_keys, &starcoder2_start, finish_all_biased},
	{"nemotron", llama_keys, &nemotron_start, finish_windowless},
	{"persimmon", llama_keys, &persimmon_start, finish_windowless},
	{"phimoe", llama_keys, &phimoe_start, finish_windowed},
	{"phi", llama_keys, &phi_start, finish_windowless},
	{"phi4mm", llama_keys, &llama_start, lk_hf_phi4mm},
	{"phi4_multimodal", llama_keys, &llama_start, lk_hf_phi4mm},
	{"phi3", llama_keys, &llama_start, finish_windowed},
	{"gemma", llama_keys, &gemma_start, finish_windowless},
	{"gemma2", llama_keys, &gemma2_start, finish_windowed},
	{"gemma3n_text", llama_keys, &gemma3n_start, finish_gemma3n},
	{"gemma3n", llama_keys, &gemma3n_start, finish_gemma3n},
	{"gemma3_text", llama_keys, &gemma3_start, finish_gemma3},
	{"gemma3", llama_keys, &gemma3_start, finish_windowed},
	{"convnet", no_keys, &convnet_start, lk_hf_convnet},
	{"swin", no_keys, &convnet_start, lk_hf_swin},
	{"resnet", no_keys, &convnet_start, lk_hf_resnet},
	{"convnext", no_keys, &convnet_start, lk_hf_convnext},
	{"convnextv2", no_keys, &convnet_start, lk_hf_convnextv2},
	{NULL, NULL, NULL, NULL},
};

/* ---- all tables ---- */

static const lk_hf_family *const tables[] = {lk_hf_decoders, lk_hf_gpts, lk_hf_encoders,
                                             lk_hf_audio, lk_hf_diffusers};

const lk_hf_family *lk_hf_family_of(const char *type) {
	for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
		for (const lk_hf_family *row = tables[i]; row->type; row++)
			if (strcmp(row->type, type) == 0) return row;
	return NULL;
}

const char *lk_hf_family_name(int index) {
	for (size_t i = 0; i < sizeof tables / sizeof *tables && index >= 0; i++)
		for (const lk_hf_family *row = tables[i]; row->type; row++)
			if (index-- == 0) return row->type;
	return NULL;
}

lk_status lk_hf_network(const lk_hf_config *config, const char *name, const char *type,
                        lk_model *out, lk_error *err) {
	const lk_hf_family *family = lk_hf_family_of(type);
	const lk_value *object = lk_hf_find(config, name);
	lk_hf_config part = *config;
	if (!object || object->kind != LK_JSON_OBJECT)
		return lk_hf_fail(config, object, err, "%s states no network", name);
	part.object = part.root = object;
	part.warning = NULL;
	part.as = true;
	*out = *family->start;
	for (const lk_hf_key *key = family->keys; key->names; key++)
		LK_TRY(lk_hf_read_key(&part, key, out, err));
	LK_TRY(family->finish(&part, out, err));
	char where[256];
	lk_hf_place(&part, NULL, where, sizeof where);
	return lk_model_check(out, where, err);
}
