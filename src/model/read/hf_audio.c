/* hf_audio.c: families of HuggingFace configs with audio input; rows as in hf_families.c. */
#include "model/read/hf.h"

#include <limits.h>
#include <string.h>

#define INT  LK_HF_INTEGER
#define NEED LK_HF_NEEDED
#define REAL LK_HF_NUMBER

static const lk_hf_key whisper_keys[] = {
	NEED("encoder_layers", layers),
	NEED("decoder_layers", decoder_layers),
	NEED("d_model", hidden),
	NEED("encoder_attention_heads", heads),
	NEED("encoder_ffn_dim", ffn),
	NEED("vocab_size", vocab),
	NEED("max_source_positions", position_rows),
	NEED("max_target_positions", decoder_context),
	NEED("num_mel_bins", audio.channels),
	REAL("dropout", dropout),
	LK_HF_END,
};

static const lk_hf_key wav2vec2_keys[] = {
	NEED("num_hidden_layers", layers),
	NEED("hidden_size", hidden),
	NEED("num_attention_heads", heads),
	NEED("intermediate_size", ffn),
	INT("num_conv_pos_embeddings", audio.position_kernel),
	INT("num_conv_pos_embedding_groups", audio.position_groups),
	REAL("hidden_dropout", dropout),
	LK_HF_END,
};

/* Members about augmentation, decoding and adapters. */
static void audio_pass_over(const lk_hf_config *config) {
	lk_hf_pass(
		config,
		"mask_time_prob|mask_time_length|mask_time_min_masks|mask_feature_prob|"
		"mask_feature_length|mask_feature_min_masks|apply_spec_augment|median_filter_width|"
		"suppress_tokens|begin_suppress_tokens|forced_decoder_ids|classifier_proj_size|"
		"max_target_positions|alignment_heads|conv_bias|vocab_size|num_feat_extract_layers|"
		"ctc_loss_reduction|ctc_zero_infinity|num_codevectors_per_group|num_codevector_groups|"
		"contrastive_logits_temperature|num_negatives|codevector_dim|proj_codevector_dim|"
		"diversity_loss_weight|tdnn_dim|tdnn_kernel|tdnn_dilation|xvector_output_dim|"
		"adapter_kernel_size|adapter_stride|num_adapter_layers|output_hidden_size|"
		"do_stable_layer_norm|feat_extract_activation|feat_extract_norm|gradient_checkpointing|"
		"freeze_feat_extract_train|mask_channel_length|mask_channel_min_space|"
		"mask_channel_selection|mask_channel_prob|mask_channel_other|mask_time_min_space|"
		"mask_time_selection|mask_time_other|no_mask_channel_overlap|no_mask_time_overlap|"
		"feat_proj_layer_norm");
}

/* Two convolutions of frames; the second halves their number. Positions of both stacks are tables;
 * keys have no bias. */
static lk_status finish_whisper(const lk_hf_config *config, lk_model *model, lk_error *err) {
	int heads = model->heads, width = model->ffn;
	lk_audio *audio = &model->audio;
	audio_pass_over(config);
	lk_hf_find(config, "num_hidden_layers"); /* repeats the encoder's */
	LK_TRY(lk_hf_int(config, "decoder_attention_heads", &heads, err));
	LK_TRY(lk_hf_int(config, "decoder_ffn_dim", &width, err));
	if (heads != model->heads || width != model->ffn) {
		lk_hf_fail(config, NULL, err, "stacks of %d and %d heads, of widths %d and %d",
		           model->heads, heads, model->ffn, width);
		return lk_hint(err, "encoders and decoders of different shapes are not modelled");
	}
	double second = (double)model->decoder_context * model->hidden;
	if (second > 1 << 24)
		return lk_hf_fail(config, NULL, err, "a table of positions of %g numbers", second);
	model->loose = (int)second;
	model->context = model->position_rows;
	audio->convs = 2;
	audio->width[0] = audio->width[1] = model->hidden;
	audio->kernel[0] = audio->kernel[1] = 3;
	audio->stride[0] = 1;
	audio->stride[1] = 2;
	return lk_hf_heads(config, model, err);
}

/* Read one number per convolution, listed as conv_NAME; `count`: length of the lists before, 0:
 * none yet. A missing list has the class's seven. */
static lk_status read_convs(const lk_hf_config *config, const char *name, int *out, int *count,
                            lk_error *err) {
	enum { USUAL = 7 };
	const lk_value *list = lk_hf_find(config, name);
	if (!list && *count > 0 && *count != USUAL)
		return lk_hf_fail(config, NULL, err, "%s is not stated for %d convolutions", name, *count);
	if (!list) *count = USUAL;
	if (!list) return LK_OK;
	if (list->kind != LK_JSON_ARRAY || list->count < 1 || list->count > LK_AUDIO_CONVS)
		return lk_hf_wrong_kind(config, list, name, "a list of up to 8 numbers", err);
	for (size_t i = 0; i < list->count; i++) {
		const lk_value *item = &list->items[i];
		if (item->kind != LK_JSON_NUMBER || !(item->number >= 1 && item->number <= 65536) ||
		    item->number != (int)item->number)
			return lk_hf_wrong_kind(config, item, name, "whole numbers from 1 to 65536", err);
		out[i] = (int)item->number;
	}
	if (*count > 0 && (size_t)*count != list->count)
		return lk_hf_fail(config, list, err, "%s has %zu numbers, others %d", name, list->count,
		                  *count);
	*count = (int)list->count;
	return LK_OK;
}

/* Norms before the layers, or, "stable", after them; of the first convolution, or of all. The heads
 * of pre-training and recognition are left out, like BERT's. */
static lk_status finish_wav2vec2(const lk_hf_config *config, lk_model *model, lk_error *err) {
	lk_audio *audio = &model->audio;
	bool stable = false;
	LK_TRY(lk_hf_flag(config, "conv_bias", &audio->bias, err));
	LK_TRY(lk_hf_flag(config, "do_stable_layer_norm", &stable, err));
	LK_TRY(read_convs(config, "conv_dim", audio->width, &audio->convs, err));
	LK_TRY(read_convs(config, "conv_kernel", audio->kernel, &audio->convs, err));
	LK_TRY(read_convs(config, "conv_stride", audio->stride, &audio->convs, err));
	audio->normed = lk_hf_says(config, "feat_extract_norm", "layer") ? audio->convs : 1;
	audio_pass_over(config);
	model->embed_norm = !stable;
	model->final_norm = stable;
	model->loose = model->hidden; /* the embedding of masked tokens */
	return lk_hf_heads(config, model, err);
}

#define STACK                                                                         \
	.norm = LK_NORM_LAYER, .norms_per_layer = 2, .norm_bias = true, .qkv_bias = true, \
	.out_bias = true, .mlp_bias = true, .no_positions = true

static const lk_model whisper_start = {STACK,
                                       .network = LK_NET_ENCDEC,
                                       .final_norm = true,
                                       .lm_head = true,
                                       .tied = true,
                                       .key_plain = true,
                                       .position_rows = 1500,
                                       .decoder_context = 448,
                                       .audio = {.channels = 80, .bias = true}};
/* 250,000 samples: the longest in the training of the published base network. */
static const lk_model wav2vec2_start = {STACK, .network = LK_NET_ENCODER, .context = 781,
                                        .audio = {.channels = 1,
                                                  .width = {512, 512, 512, 512, 512, 512, 512},
                                                  .kernel = {10, 3, 3, 3, 3, 2, 2},
                                                  .stride = {5, 2, 2, 2, 2, 2, 2},
                                                  .projected = true,
                                                  .position_kernel = 128,
                                                  .position_groups = 16}};

const lk_hf_family lk_hf_audio[] = {
	{"whisper", whisper_keys, &whisper_start, finish_whisper},
	{"wav2vec2", wav2vec2_keys, &wav2vec2_start, finish_wav2vec2},
	{"hubert", wav2vec2_keys, &wav2vec2_start, finish_wav2vec2},
	{NULL, NULL, NULL, NULL},
};
