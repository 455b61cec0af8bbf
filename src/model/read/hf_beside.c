/* hf_beside.c: parts of published networks that no step runs, such as audio encoders and speech
 * generators: their parameters, which count only in the total (lk_model's `beside`). */
#include "model/read/hf.h"

#include <math.h>

/* Parameters of gemma3n's audio encoder, a conformer of width D on frames of 128 bins: two MLPs of
 * 4D, attention with relative positions, a convolution of K; of its table of 128 and projection. */
lk_status lk_hf_conformer_params(const lk_hf_config *config, double out, double *sum,
                                 lk_error *err) {
	lk_hf_config sound;
	int layers = 12, width = 1536, kernel = 5, heads = 8, frame = 128;
	LK_TRY(lk_hf_part(config, "audio_config",
	                  "conf_attention_chunk_size|conf_attention_context_left|"
	                  "conf_attention_context_right|conf_attention_logit_cap|"
	                  "conf_num_attention_heads|conf_num_hidden_layers|conf_conv_kernel_size|"
	                  "conf_positional_bias_size|conf_reduction_factor|conf_residual_weight|"
	                  "gradient_clipping|hidden_size|input_feat_size|sscp_conv_channel_size|"
	                  "sscp_conv_group_norm_eps|sscp_conv_kernel_size|sscp_conv_stride_size|"
	                  "sscp_conv_eps|vocab_offset|vocab_size",
	                  &sound, err));
	*sum = 0;
	if (!sound.object) return LK_OK;
	LK_TRY(lk_hf_int(&sound, "conf_num_hidden_layers", &layers, err));
	LK_TRY(lk_hf_int(&sound, "hidden_size", &width, err));
	LK_TRY(lk_hf_int(&sound, "conf_conv_kernel_size", &kernel, err));
	LK_TRY(lk_hf_int(&sound, "conf_num_attention_heads", &heads, err));
	LK_TRY(lk_hf_int(&sound, "input_feat_size", &frame, err));
	double d = width, mlp = 8 * d * d + 2 * d, attention = 5 * d * d + d / fmax(heads, 1) + 2 * d,
		   convolution = 3 * d * d + kernel * d + 2 * d,
		   frames = 9 * 128 + 9 * 128 * 32 + 128 + 32 + 32 * frame / 4. * d;
	*sum = layers * (2 * mlp + attention + convolution + d) + frames + 130 * d + d * out;
	return LK_OK;
}

/* Parameters of qwen3_omni's audio encoder: convolutions of w channels that halve frames of `bins`
 * values and their number three times, an encoder of width d, two products to `out` columns. */
lk_status lk_hf_omni_sound(const lk_hf_config *config, double out, double *sum, lk_error *err) {
	lk_hf_config sound;
	int layers = 32, width = 1280, ffn = 5120, bins = 128, channels = 480, given = (int)out;
	LK_TRY(lk_hf_part(config, "audio_config",
	                  "num_mel_bins|encoder_layers|encoder_attention_heads|encoder_ffn_dim|d_model|"
	                  "max_source_positions|n_window|n_window_infer|output_dim|conv_chunksize|"
	                  "downsample_hidden_size|num_hidden_layers|encoder_layerdrop",
	                  &sound, err));
	*sum = 0;
	if (!sound.object) return LK_OK;
	LK_TRY(lk_hf_int(&sound, "encoder_layers", &layers, err));
	LK_TRY(lk_hf_int(&sound, "d_model", &width, err));
	LK_TRY(lk_hf_int(&sound, "encoder_ffn_dim", &ffn, err));
	LK_TRY(lk_hf_int(&sound, "num_mel_bins", &bins, err));
	LK_TRY(lk_hf_int(&sound, "downsample_hidden_size", &channels, err));
	LK_TRY(lk_hf_int(&sound, "output_dim", &given, err));
	double d = width, f = ffn, w = channels, high = ceil(bins / 8.),
		   layer = 4 * (d * d + d) + 2 * d * f + d + f + 4 * d,
		   before = 10 * w + 2 * (9 * w * w + w) + w * high * d;
	*sum = layers * layer + before + 2 * d + d * d + d + (d + 1) * given;
	return LK_OK;
}

/* Parameters of qwen3_omni's vocoder: embedded codes, a transformer with scaled halves, then
 * upsampling convolutions (Qwen3OmniMoeCode2Wav). */
lk_status lk_hf_vocoder_params(const lk_hf_config *config, double *sum, lk_error *err) {
	lk_hf_config wave;
	int layers = 8, width = 1024, ffn = 3072, heads = 16, kv = 16, codes = 2048, sets = 16,
		last = 1536;
	static const double longer[] = {2, 2}, faster[] = {8, 5, 4, 3}; /* the same in all published
	                                                                 * ones */
	LK_TRY(lk_hf_part(
		config, "code2wav_config",
		"codebook_size|codebook_dim|hidden_size|max_position_embeddings|num_attention_heads|"
		"num_key_value_heads|attention_bias|sliding_window|intermediate_size|"
		"layer_scale_initial_scale|num_hidden_layers|num_quantizers|upsample_rates|"
		"upsampling_ratios|decoder_dim|num_semantic_quantizers|"
		"semantic_codebook_size|vector_quantization_hidden_dimension",
		&wave, err));
	if (!wave.object) return LK_OK;
	LK_TRY(lk_hf_int(&wave, "num_hidden_layers", &layers, err));
	LK_TRY(lk_hf_int(&wave, "hidden_size", &width, err));
	LK_TRY(lk_hf_int(&wave, "intermediate_size", &ffn, err));
	LK_TRY(lk_hf_int(&wave, "num_attention_heads", &heads, err));
	LK_TRY(lk_hf_int(&wave, "num_key_value_heads", &kv, err));
	LK_TRY(lk_hf_int(&wave, "codebook_size", &codes, err));
	LK_TRY(lk_hf_int(&wave, "num_quantizers", &sets, err));
	LK_TRY(lk_hf_int(&wave, "decoder_dim", &last, err));
	double h = width, d = last, layer = 2 * h * h * (1 + kv / fmax(heads, 1)) + 3 * h * ffn + 4 * h;
	*sum += layers * layer + h + (double)codes * sets * h + 7 * h * d + d;
	for (int i = 0; i < 2; i++) *sum += h * h * longer[i] + h + 8 * h * h + 16 * h;
	for (int i = 0; i < 4; i++, d /= 2) {
		double half = d / 2, unit = 4 * half + 7 * half * half + half + half * half + half;
		*sum += 2 * d + 2 * faster[i] * d * half + half + 3 * unit;
	}
	*sum += 2 * d + 7 * d + 1;
	return LK_OK;
}

/* Parameters of qwen3_omni's speech generator: a language model of codes, projections of the
 * thinker's states to it, and a small one that predicts the other codes of a frame, with a table
 * and a head for each. */
lk_status lk_hf_talker_params(const lk_hf_config *config, double *sum, lk_error *err) {
	const lk_value *talker = lk_hf_find(config, "talker_config");
	lk_hf_config part = *config;
	lk_model speaks, predicts;
	int groups = 16, thought = 2048;
	if (!talker || talker->kind != LK_JSON_OBJECT) return LK_OK;
	part.object = part.root = talker;
	LK_TRY(lk_hf_int(&part, "num_code_groups", &groups, err));
	LK_TRY(lk_hf_int(&part, "thinker_hidden_size", &thought, err));
	LK_TRY(lk_hf_network(&part, "text_config", "qwen3_omni_moe_talker_text", &speaks, err));
	LK_TRY(lk_hf_network(&part, "code_predictor_config", "qwen3", &predicts, err));
	double h = speaks.hidden, f = speaks.ffn;
	*sum += lk_model_params(&speaks) + lk_model_params(&predicts) +
	        2 * ((thought + 1.0) * f + (f + 1) * h) +
	        (groups - 2.) * 2 * predicts.vocab * predicts.hidden;
	return LK_OK;
}
