/* hf_whole.c: vision-language models whose configs state only the language model: the image encoder
 * is fixed in their code (Molmo, arXiv 2409.17146; Phi-4-multimodal, 2503.01743). */
#include "model/read/hf.h"

#include <math.h>

/* molmo's config states only the language model; the rest is fixed (its config.py:
 * VisionBackboneConfig): CLIP's ViT-L/14 of 336 pixels without its last layer and norm; two layers'
 * concatenated outputs are pooled 2 x 2, then a gated MLP as wide as the language model's. A step
 * of whole crops reads neither the two learned image paddings nor the 128 extra tokens. */
lk_status lk_hf_finish_molmo(const lk_hf_config *config, lk_model *model, lk_error *err) {
	bool qk_norm = false;
	LK_TRY(lk_hf_flag(config, "attention_layer_norm", &qk_norm, err));
	model->qk_norm = model->qk_norm_wide = qk_norm;
	if (lk_hf_find(config, "layer_norm_type") && !lk_hf_says(config, "layer_norm_type", "rms"))
		return lk_hf_wrong_kind(config, lk_hf_find(config, "layer_norm_type"), "layer_norm_type",
		                        "rms", err);
	model->ffn /= 2; /* joint width of both inputs of the gated MLP */
	model->window = 0;
	LK_TRY(lk_hf_heads(config, model, err));
	if (model->hidden > 1 << 20) return LK_OK; /* lk_model_check refuses it */
	model->loose = 128 * model->hidden;
	model->tower = (lk_tower){
		.layers = 23, /* ViT-Large (arXiv 2010.11929, table 1), without its last layer */
		.hidden = 1024,
		.heads = 16,
		.ffn = 4096,
		.channels = 3,
		.image = 336,
		.patch = 14,
		.position_rows = 577,
		.class_token = 1,
		.biases = 1,
		.pre_norm = 1,
		.images = 1,
		.project = {.merge = 2,
	                .width = {model->ffn, model->hidden},
	                .gated = 1,
	                .loose = 2 * 2048,
	                .pool = {.width = 1024, .heads = 16, .inputs = 2 * 1024}},
	};
	return LK_OK;
}

/* Parameters of phi4mm's audio encoder, a conformer of width d on frames of `bins` values:
 * convolutions of C channels that halve them three times; two gated MLPs of f, attention, two
 * products around a separable convolution of K; a table of distances. Two products to the language
 * model, separate ones for sound only and for sound with images. */
static lk_status phi4mm_sound(const lk_hf_config *sound, double out, double *sum, lk_error *err) {
	lk_hf_config distances, nemo;
	int layers = 24, width = 1024, ffn = 1536, heads = 16, kernel = 3, channels = 1024, bins = 80,
		far = 1000;
	LK_TRY(lk_hf_int(sound, "num_blocks", &layers, err));
	LK_TRY(lk_hf_int(sound, "attention_dim|hidden_size", &width, err));
	LK_TRY(lk_hf_int(sound, "linear_units|intermediate_size", &ffn, err));
	LK_TRY(lk_hf_int(sound, "attention_heads|num_attention_heads", &heads, err));
	LK_TRY(lk_hf_int(sound, "kernel_size", &kernel, err));
	LK_TRY(lk_hf_int(sound, "input_size", &bins, err));
	LK_TRY(lk_hf_int(sound, "nemo_conv_channels", &channels, err));
	LK_TRY(lk_hf_int(sound, "bias_max_distance", &far, err));
	LK_TRY(lk_hf_part(sound, "nemo_conv_settings", "conv_channels", &nemo, err));
	if (nemo.object) LK_TRY(lk_hf_int(&nemo, "conv_channels", &channels, err));
	LK_TRY(lk_hf_part(sound, "relative_attention_bias_args", "t5_bias_max_distance|type",
	                  &distances, err));
	if (distances.object) LK_TRY(lk_hf_int(&distances, "t5_bias_max_distance", &far, err));
	double d = width, f = ffn, c = channels, mlp = 2 * d + d * 2 * f + 2 * f + f * d + d,
		   attention = 4 * (d * d + d),
		   convolution = 2 * d + 2 * d * d + 4 * d + (kernel + 1.0) * d + 2 * (d * d + d),
		   frames = 10 * c + 2 * (10 * c + c * c + c) + ceil(bins / 8.) * c * d + d,
		   project = d * out + out + out * out + out;
	*sum = layers * (2 * mlp + attention + convolution + 4 * d) + frames + 2.0 * far * heads +
	       2 * project;
	return LK_OK;
}

/* Low-rank adapters stored with the network, on all products of its layers. */
static lk_status stored_adapters(const lk_hf_config *config, const char *name,
                                 const lk_model *model, double *sum, lk_error *err) {
	lk_hf_config adapter;
	int rank = 0;
	LK_TRY(lk_hf_part(config, name, "r|lora_alpha|layer|dp", &adapter, err));
	if (!adapter.object) return LK_OK;
	LK_TRY(lk_hf_int(&adapter, "r", &rank, err));
	double h = model->hidden, q = (double)model->heads * model->head_dim,
		   kv = 2.0 * model->kv_heads * model->head_dim, f = model->ffn;
	*sum += (double)rank * model->layers * (h + q + kv + q + h + h + 2 * f + f + h);
	return LK_OK;
}

/* phi4mm: SigLIP's encoder for crops of 448 pixels, read before its last layer; the rest of it, a
 * layer, a norm and a pooling head, is stored (Phi4MultimodalVisionModel). Tokens are averaged 2 x
 * 2. Sequences are text and images: the audio encoder, and adapters for both, run in no step. */
lk_status lk_hf_finish_phi4mm(const lk_hf_config *config, lk_model *model, lk_error *err) {
	static const char known[] =
		"activation|activation_checkpointing|attention_dim|attention_heads|batch_norm|bias_in_glu|"
		"bias_max_distance|bias_symmetric|causal|chunk_size|cnn_layer_norm|conv_activation|"
		"conv_glu_type|depthwise_multiplier|depthwise_separable_out_channel|"
		"depthwise_seperable_out_channel|downsample_rate|encoder_embedding_config|"
		"ext_pw_kernel_size|ext_pw_out_channel|feature_layer|hidden_size|input_layer|input_size|"
		"intermediate_size|kernel_size|left_chunk|linear_units|nemo_activation|nemo_conv_channels|"
		"nemo_conv_settings|nemo_final_size|num_attention_heads|num_blocks|"
		"relative_attention_bias_args|time_reduction";
	lk_hf_config processor, sound, vision;
	double beside = 0, h = 1152, f = 4304, layer = 4 * (h * h + h) + 2 * h * f + f + h + 4 * h,
		   pool = h + 4 * (h * h + h) + 2 * h + 2 * h * f + f + h;
	model->window = 0;
	LK_TRY(lk_hf_shapes(config, model, err));
	LK_TRY(lk_hf_part(config, "audio_processor", "config|name", &processor, err));
	if (processor.object) LK_TRY(lk_hf_part(&processor, "config", known, &sound, err));
	else LK_TRY(lk_hf_part(config, "audio_config", known, &sound, err));
	if (sound.object) LK_TRY(phi4mm_sound(&sound, model->hidden, &beside, err));
	LK_TRY(stored_adapters(config, "vision_lora", model, &beside, err));
	LK_TRY(stored_adapters(config, "speech_lora", model, &beside, err));
	LK_TRY(lk_hf_part(config, "vision_config",
	                  "num_hidden_layers|hidden_size|num_attention_heads|intermediate_size|"
	                  "image_size|patch_size|num_channels|crop_size|feature_layer",
	                  &vision, err));
	model->beside = beside;
	model->tower = (lk_tower){
		.layers = 26,
		.hidden = 1152,
		.heads = 16,
		.ffn = 4304,
		.image = 448,
		.patch = 14,
		.channels = 3,
		.position_rows = 32 * 32,
		.patch_bias = 1,
		.biases = 1,
		.images = 1,
		.loose = (int)(layer + 2 * h + pool),
		.project = {.merge = 2,
	                .averages = 1,
	                .width = {model->hidden, model->hidden},
	                .bias = true,
	                .loose = 2 * 1152},
	};
	return LK_OK;
}
