/* hf_unread.c: members of a config that no reader requested. In addition to the shape of a network,
 * a config.json holds tokens, dropout, initialisation and generation settings. Anything else could
 * be an unknown part of the network. */
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "model/read/hf.h"

/* Bookkeeping names, as file name patterns separated by blanks: the library's, tokens, numerics,
 * initialisation, generation, other software. `name=value` is neutral only with that value. A
 * member that is not listed, was not requested and is switched on is refused, so that nothing that
 * shapes a network is ignored silently. */
static const char harmless[] =
	"_* *_version *token_id *token_ids *token_index *dropout* *_drop *pdrop *_eps *_epsilon "
	"initializer_* init_* *_init_value *_std attn_implementation* *_aux_loss_* aux_loss_alpha "
	"*_coef *_loss_weight architectures auto_map torch_dtype dtype model_type name use_cache "
	"hidden_act hidden_activation hidden_activations activation activation_function act_fn "
	"dense_act_fn pooler_act pooler_output_size pretraining_tp rope_scaling rope_parameters "
	"rope_theta rope_type rope_percent rope_local* rope_ratio rope_interleaved original_rope "
	"rotary rotary_* "
	"*rotary_factor no_rope_* use_dynamic_ntk use_logn_attn tie_* output_* return_* "
	"gradient_checkpointing* scoring_func norm_topk_prob norm_softmax routed_scaling_factor "
	"seq_aux n_group topk_group topk_method ep_size *_jitter_noise *_jitter_eps moe_capacity* "
	"moe_gate compression_ratio quantization* *_softcapping *_softcap "
	"query_pre_attn_scalar *_multiplier logit_scale logits_scaling dim_model_base scale_attn* "
	"scale_emb scale_depth scale_embedding scale_attention_softmax_in_fp32 attn_scale "
	"attn_temperature_tuning floor_scale softmax_scale apply_query_key_layer_scaling clip_qkv "
	"id2label label2id num_labels task_specific_params unsloth* problem_type torchscript "
	"use_bfloat16 pruned_heads is_decoder is_encoder_decoder is_llama_config is_gated_act "
	"chunk_size_feed_forward temperature top_k top_p typical_p num_beams num_beam_groups "
	"num_return_sequences *_penalty max_length min_length do_sample prefix summary_* embd_* "
	"max_window_layers use_sliding_window cache_* model_max_length max_sequence_length "
	"max_batch_size seq_length context_length sliding_window_size use_mrope "
	"original_max_position_embeddings initial_context_length max_tokenizer_truncation "
	"tokenizer_* onnx_safe fp16 bf16 fp32 softmax_in_fp32 attention_softmax_in_fp32 *_fusion "
	"fused_* flash_* use_flash_attn* skip_bias_add offset_alibi slow_but_exact "
	"inference_runner validate_runner_input pad_key_length transformers.js_config "
	"predict_special_tokens relative_attention_max_distance encoder_stride directionality "
	"pooler_fc_size pooler_num_* pooler_size_per_head pooler_type embedding_fraction "
	"use_embedding_sharing use_rmsnorm=true rmsnorm=true ff_factor=4 full_attn_mod=1 "
	"interpolate_factor=1 position_embedding_type=absolute position_embedding_type=rope_gptj "
	"norm_type=layer_norm norm_type=low_precision_layernorm mlp_type=default "
	"use_gated_activation=true gated_linear_unit=true use_parallel_block=true "
	"use_parallel_embedding "
	"order_of_interleaved_layers layer_switch rescale_every "
	/* Mamba's step sizes, caches and numerics */
	"time_step_floor time_step_limit time_step_max time_step_min time_step_scale "
	"time_step_init_scheme time_step_rank=auto rescale_prenorm_residual residual_in_fp32 "
	"use_mamba_kernels "
	"mamba_ssm_cache_dtype num_logits_to_keep norm_before_gate pad_vocab_size_multiple "
	"rms_norm=true mamba_use_mlp=true mlp_expansion_factor attn_rotary_emb ssm_cfg "
	/* other numerics and bookkeeping */
	"*_hidden_act *_multipliers *_multiplier_scale max_attn_value z_loss* neftune_noise_alpha "
	"normalization_function=rmsnorm norm_type=rms use_rotary_pos_emb=true *_rope_theta "
	"*_id max_model_len org_vocab_size num_media_embeds enable_lm_head_fp32 pool_type "
	"early_stopping no_repeat_ngram_size is_composition *_token_index num_image_tokens "
	"num_positions classifier_* use_reentrant_checkpointing perceiver_config "
	"pixel_shuffle_factor moe_shared_expert_overlap attn_temperature_len stage_names "
	"use_weighted_layer_sum suppress_tokens bad_words_ids scale_qk_attn* rope_interleave "
	"moe_norm_min score_function norm_head fuse_* "
	"dual_chunk_attention_config router_dtype drop_path_rate "
	/* generation, tokens, files and other software */
	"max_new_tokens min_new_tokens min_p penalty_alpha encoder_no_repeat_ngram_size force_bos_* "
	"forced_* *_suppress_tokens remove_invalid_values renormalize_logits low_memory "
	"exponential_decay_* finetuning_task tf_legacy_loss student_*_layers *layerdrop save_step "
	"bos_token eos_token "
	"pad_token unk_token sep_token cls_token mask_token image_token audio_token video_token "
	"vocab_file trust_remote_code transformers_weights name_or_path library_name license tags "
	"language pipeline_tag seed precision compression_config max_seq_len max_seq_length n_ctx "
	"freeze_config ignore_index loss_type use_flash_* use_fused_* use_triton* use_sdpa "
	"use_xformers";

/* Whether the value equals the one at the end of a pattern "name=value". */
static bool value_is(const lk_value *value, const char *text) {
	switch (value->kind) {
	case LK_JSON_STRING:
	case LK_JSON_NUMBER: return strcmp(value->text, text) == 0;
	case LK_JSON_TRUE: return strcmp(text, "true") == 0;
	default: return false;
	}
}

static bool is_off(const lk_value *value) {
	switch (value->kind) {
	case LK_JSON_NULL:
	case LK_JSON_FALSE: return true;
	case LK_JSON_NUMBER: return value->number == 0;
	case LK_JSON_ARRAY:
	case LK_JSON_OBJECT: return value->count == 0;
	default: return false;
	}
}

bool lk_hf_neutral(const char *name, const lk_value *value) {
	if (is_off(value)) return true;
	for (const char *at = harmless; *at;) {
		char pattern[64];
		size_t length = strcspn(at, " ");
		LK_ASSERT(length < sizeof pattern);
		snprintf(pattern, sizeof pattern, "%.*s", (int)length, at);
		char *wanted = strchr(pattern, '=');
		if (wanted) *wanted++ = '\0';
		if (fnmatch(pattern, name, 0) == 0 && (!wanted || value_is(value, wanted))) return true;
		at += length + (at[length] == ' ');
	}
	return false;
}

const lk_value *lk_hf_unread(const lk_hf_config *config, char *out, size_t size) {
	const lk_value *object = config->language, *first = NULL;
	size_t more = 0;
	LK_ASSERT(config->read && size >= 64);
	lk_text text = lk_text_begin(out, size);
	for (size_t i = 0; i < object->count; i++) {
		const char *name = object->keys[i];
		if (config->read[i] || lk_hf_neutral(name, &object->items[i])) continue;
		if (!first) first = &object->items[i];
		if (text.used + strlen(name) + 24 < size)
			lk_text_add(&text, "%s%s", text.used ? ", " : "", name);
		else more++;
	}
	if (more) lk_text_add(&text, "%s%zu more", text.used ? " and " : "", more);
	return first;
}
