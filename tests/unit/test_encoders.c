/* test_encoders.c: speech, pairs of images and texts, positions between tokens: parameters against
 * published totals, operations against hand counts, graphs against both. */
#include "networks.h"

static const char whisper[] =
	"{\"model_type\": \"whisper\", \"vocab_size\": 51865, \"num_mel_bins\": 80, \"d_model\": 768, "
	"\"encoder_layers\": 12, \"encoder_attention_heads\": 12, \"encoder_ffn_dim\": 3072, "
	"\"decoder_layers\": 12, \"decoder_attention_heads\": 12, \"decoder_ffn_dim\": 3072, "
	"\"max_source_positions\": 1500, \"max_target_positions\": 448, \"num_hidden_layers\": 12, "
	"\"scale_embedding\": false, \"mask_time_prob\": 0.05, \"median_filter_width\": 7, "
	"\"suppress_tokens\": [1, 2], \"classifier_proj_size\": 256}";
static const char wav2vec2[] =
	"{\"model_type\": \"wav2vec2\", \"hidden_size\": 768, \"num_hidden_layers\": 12, "
	"\"num_attention_heads\": 12, \"intermediate_size\": 3072, \"vocab_size\": 32, "
	"\"conv_dim\": [512, 512, 512, 512, 512, 512, 512], \"conv_kernel\": [10, 3, 3, 3, 3, 2, 2], "
	"\"conv_stride\": [5, 2, 2, 2, 2, 2, 2], \"conv_bias\": false, \"feat_extract_norm\": "
	"\"group\", \"do_stable_layer_norm\": false, \"num_conv_pos_embeddings\": 128, "
	"\"num_conv_pos_embedding_groups\": 16, \"num_feat_extract_layers\": 7}";
static const char clip[] =
	"{\"model_type\": \"clip\", \"projection_dim\": 768, \"logit_scale_init_value\": 2.6592, "
	"\"text_config\": {\"model_type\": \"clip_text_model\", \"hidden_size\": 768, "
	"\"intermediate_size\": 3072, \"num_attention_heads\": 12, \"num_hidden_layers\": 12, "
	"\"vocab_size\": 49408, \"max_position_embeddings\": 77, \"projection_dim\": 768}, "
	"\"vision_config\": {\"model_type\": \"clip_vision_model\", \"hidden_size\": 1024, "
	"\"intermediate_size\": 4096, \"num_attention_heads\": 16, \"num_hidden_layers\": 24, "
	"\"patch_size\": 14, \"image_size\": 224, \"projection_dim\": 768}}";
static const char siglip[] =
	"{\"model_type\": \"siglip\", \"text_config\": {\"model_type\": \"siglip_text_model\"}, "
	"\"vision_config\": {\"model_type\": \"siglip_vision_model\"}}";
static const char deberta[] =
	"{\"model_type\": \"deberta-v2\", \"hidden_size\": 1024, \"num_hidden_layers\": 24, "
	"\"num_attention_heads\": 16, \"intermediate_size\": 4096, \"vocab_size\": 128100, "
	"\"max_position_embeddings\": 512, \"relative_attention\": true, \"position_buckets\": 256, "
	"\"norm_rel_ebd\": \"layer_norm\", \"share_att_key\": true, \"pos_att_type\": \"p2c|c2p\", "
	"\"max_relative_positions\": -1, \"position_biased_input\": false, \"type_vocab_size\": 0, "
	"\"pooler_dropout\": 0, \"pooler_hidden_act\": \"gelu\", \"pooler_hidden_size\": 1024}";

/* Elements of the weights of openai/whisper-small, facebook/wav2vec2-base,
 * openai/clip-vit-large-patch14, google/siglip-base-patch16-224, microsoft/deberta-v3-large. */
static const struct {
	const char *text, *unit;
	double params;
	int context;
} nets[] = {
	{whisper, "clip", 241734912, 1500},    {wav2vec2, "clip", 94371712, 781},
	{clip, "pair", 427616513, 77},         {siglip, "pair", 203155970, 64},
	{deberta, "sequence", 434012160, 512},
};

static void totals_are_as_published(void **state) {
	(void)state;
	for (size_t i = 0; i < sizeof nets / sizeof *nets; i++) {
		lk_model m = model_of(nets[i].text);
		if (lk_model_params(&m) != nets[i].params)
			fail_msg("%s: %.0f, not %.0f", m.name, lk_model_params(&m), nets[i].params);
		assert_string_equal(lk_model_unit(&m), nets[i].unit);
		assert_int_equal(m.context, nets[i].context);
	}
}

/* Multiply-adds forward of each sample: products of all, attention's pairs apart. */
struct hand {
	double products, fused, first; /* `first`: of what reads the input, which needs no gradient */
};

static struct hand hand_whisper(void) {
	double d = 768, layer = 4 * d * d + 2 * d * 3072, s = 1500, t = 448;
	return (struct hand){.first = 3000 * 3 * 80 * d,
	                     .products = 3000 * 3 * 80 * d + s * 3 * d * d + 12 * s * layer +
	                                 12 * (t * (layer + 2 * d * d) + s * 2 * d * d) + t * d * 51865,
	                     .fused = 12 * 2 * d * (s * s + t * t / 2 + t * s)};
}

static struct hand hand_wav2vec2(void) {
	double d = 768, s = 781, products = 0, frames = s, first = 0;
	static const double kernel[] = {10, 3, 3, 3, 3, 2, 2}, stride[] = {5, 2, 2, 2, 2, 2, 2};
	for (int i = 6; i >= 0; i--) {
		first = frames * kernel[i] * 512 * (i > 0 ? 512 : 1);
		products += first;
		frames *= stride[i];
	}
	products += s * (512 * d + 128 * d * d / 16 + 12 * (4 * d * d + 2 * d * 3072));
	return (struct hand){.first = first, .products = products, .fused = 12 * 2 * d * s * s};
}

static struct hand hand_clip(void) {
	double d = 768, s = 77, h = 1024, patches = 256, first = patches * 3 * 14 * 14 * h;
	return (struct hand){.first = first,
	                     .products = first + 24 * 257 * 12 * h * h + h * 768 + 12 * s * 12 * d * d,
	                     .fused = 24 * 2 * h * 257 * 257 + 12 * 2 * d * s * s / 2};
}

static void works(const char *text, struct hand hand, double more) {
	lk_arena arena = LK_ARENA_INIT;
	lk_model m = model_of(text);
	double macs = hand.products + hand.fused;
	if (fabs(lk_model_flops(&m, m.context) / (6 * macs) - 1) > 1e-12)
		fail_msg("%s: %.12g operations, not %.12g", m.name, lk_model_flops(&m, m.context),
		         6 * macs);
	lk_job job = {.gpus = 1, .mbs = 2, .gbs = 2, .seq = m.context};
	lk_step step = ask(&m, job, &arena);
	double want = 2 * (6 * macs + hand.fused - 2 * hand.first) + more;
	if (fabs(step.executed_flops / want - 1) > 1e-3)
		fail_msg("%s: %.9g executed, not %.9g", m.name, step.executed_flops, want);
	lk_step_free(&step);
	lk_arena_free(&arena);
}

/* Flash attention's backward pass is 2.5 times its forward. */
static void work_is_a_hand_count(void **state) {
	(void)state;
	works(whisper, hand_whisper(), 0);
	works(wav2vec2, hand_wav2vec2(), 0);
	works(clip, hand_clip(), 0);
	/* DeBERTa: products of all pairs, unfused; of tokens with 512 positions, which are projected
	 * once for all sequences; the product over the vocabulary that trains it is not of the backbone
	 */
	double d = 1024, s = 512;
	struct hand hand = {.products = 24 * (s * 12 * d * d + 2 * d * s * s + 2 * d * s * 512)};
	works(deberta, hand, 6 * 24 * 512 * 2 * d * d + 2 * 6 * s * d * 128100);
}

/* Attention with learned queries between an encoder of 16 patches and a text of 512 tokens
 * (minicpmv): a product, keys and values of patches, queries, output and a product of 8 tokens. */
static void queries_pool_an_image(void **state) {
	(void)state;
	static const char text[] =
		"{\"model_type\": \"minicpmv\", \"version\": 2.6, \"hidden_size\": 256, "
		"\"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, "
		"\"intermediate_size\": 512, \"vocab_size\": 1024, \"max_position_embeddings\": 512, "
		"\"image_size\": 56, \"query_num\": 8, \"vision_config\": {\"hidden_size\": 64, "
		"\"image_size\": 112, \"intermediate_size\": 128, \"model_type\": \"siglip\", "
		"\"num_attention_heads\": 4, \"num_hidden_layers\": 2, \"patch_size\": 14}}";
	double h = 256, d = 64, s = 512, n = 16, t = 8, first = n * 588 * d,
		   layer = 2 * h * h + h * h + 3 * h * 512, see = 4 * d * d + 2 * d * 128,
		   pool = n * (d * h + 2 * h * h) + t * (2 * h * h + 2 * h * n);
	works(text,
	      (struct hand){.first = first,
	                    .products =
	                        s * (2 * layer + h * 1024) + first + n * 2 * see + pool + t * h * h,
	                    .fused = 2 * 2 * h * s * s / 2 + 2 * 2 * d * n * n},
	      0);
}

/* Keys of 64 and values of 32 numbers, two key/value heads with a window of 64 tokens and one
 * elsewhere (mimo_v2_flash); queries of a low rank (step3). */
static void heads_of_other_shapes(void **state) {
	(void)state;
	static const char mimo[] =
		"{\"model_type\": \"mimo_v2_flash\", \"hidden_size\": 256, \"num_hidden_layers\": 3, "
		"\"num_attention_heads\": 4, \"num_key_value_heads\": 1, \"head_dim\": 64, "
		"\"v_head_dim\": 32, \"swa_num_key_value_heads\": 2, \"intermediate_size\": 512, "
		"\"vocab_size\": 1024, \"max_position_embeddings\": 512, \"sliding_window\": 64, "
		"\"hybrid_layer_pattern\": [0, 1, 1], \"moe_layer_freq\": [0, 0, 0], "
		"\"add_swa_attention_sink_bias\": true}";
	static const char step3[] =
		"{\"model_type\": \"step3_text\", \"hidden_size\": 256, \"num_hidden_layers\": 2, "
		"\"num_attention_heads\": 4, \"num_attention_groups\": 1, \"head_dim\": 64, "
		"\"share_q_dim\": 128, \"intermediate_size\": 512, \"vocab_size\": 1024, "
		"\"max_position_embedding\": 512, \"moe_layers_enum\": \"\"}";
	double h = 256, s = 512, w = 64, mlp = 3 * h * 512, head = h * 1024,
		   full = 4 * h * 64 + h * (64 + 32) + 4 * 32 * h, near = full + h * (64 + 32);
	works(mimo,
	      (struct hand){.products = s * (full + 2 * near + 3 * mlp + head),
	                    .fused = 4 * (64 + 32) * (s * s / 2 + 2 * (s * w - w * w / 2))},
	      0);
	lk_model m = model_of(mimo);
	assert_true(lk_model_params(&m) == full + 2 * near + 3 * mlp + 2 * head + 7 * h + 2 * 4);
	works(step3,
	      (struct hand){.products =
	                        s * (2 * (h * 128 + 128 * 256 + 2 * h * 64 + 256 * h + mlp) + head),
	                    .fused = 2 * 4 * 128 * s * s / 2},
	      0);
}

/* Layers that read an image (mllama): a text of 512 tokens and two tiles of 4 x 4 patches and a
 * class, three layers in the encoder, of which one has gates, one layer in two across. */
static void layers_read_images(void **state) {
	(void)state;
	static const char text[] =
		"{\"model_type\": \"mllama\", \"text_config\": {\"model_type\": \"mllama_text_model\", "
		"\"num_hidden_layers\": 4, \"hidden_size\": 512, \"num_attention_heads\": 8, "
		"\"num_key_value_heads\": 2, \"intermediate_size\": 1024, \"vocab_size\": 1024, "
		"\"max_position_embeddings\": 512, \"cross_attention_layers\": [1, 3]}, \"vision_config\": "
		"{\"model_type\": \"mllama_vision_model\", \"hidden_size\": 256, \"attention_heads\": 4, "
		"\"num_hidden_layers\": 2, \"num_global_layers\": 1, \"intermediate_size\": 512, "
		"\"image_size\": 64, \"patch_size\": 16, \"max_num_tiles\": 2, \"vision_output_dim\": 768, "
		"\"intermediate_layers_indices\": [0, 1], \"supported_aspect_ratios\": [[1, 1], [1, 2], "
		"[2, 1]]}}";
	double h = 512, d = 64, s = 512, heads = 2 * h * h, keys = 2 * h * 128, mlp = 3 * h * 1024,
		   e = 256, image = 2 * 17, shapes = 4 * 2 * e, half = 4 * e * e + 2 * e * 512,
		   tower = 3 * (half + 512 + e + 4 * e) + 3 * 16 * 16 * e + e + 17 * e + 2 * 2 * e +
	               17 * shapes + 2 * shapes + 3 + 2 * 1,
		   projector = 768 * h + h;
	lk_model model = model_of(text);
	assert_string_equal(model.order, "*- x-");
	assert_true(lk_model_params(&model) == 4 * (heads + keys + mlp + 2 * h) + 2 * (2 * d + 2) +
	                                           (2 * 1024 + 8) * h + h + tower + projector);
	struct hand hand = {
		.first = 2 * 16 * 3 * 16 * 16 * e,
		.products = 2 * s * (2 * (heads + mlp) + keys) + 2 * image * keys + s * 1024 * h +
	                image * 3 * half + 2 * 16 * 3 * 16 * 16 * e + image * 768 * h,
		.fused = 2 * 2 * h * s * s / 2 + 2 * 2 * h * s * image + 3 * 2 * e * image * image};
	assert_true(lk_model_crossed_tokens(&model) == image);
	works(text, hand, 0);
	for (int layout = 0; layout < 3; layout++) {
		lk_arena arena = LK_ARENA_INIT;
		lk_job job = {.gpus = 2,
		              .mbs = 2,
		              .gbs = 4,
		              .seq = 512,
		              .tp = layout == 1 ? 2 : 1,
		              .recompute = layout == 2 ? LK_RECOMPUTE_FULL : LK_RECOMPUTE_NONE};
		lk_step step = ask(&model, job, &arena);
		double made, left = left_over(step.graph, &made);
		if (fabs(left) > 1e-9 * made) fail_msg("layout %d: %.9g of %.9g stay", layout, left, made);
		lk_step_free(&step);
		lk_arena_free(&arena);
	}
}

/* All that a step keeps it releases, in every layout. */
static void nothing_stays(void **state) {
	(void)state;
	for (size_t i = 0; i < sizeof nets / sizeof *nets; i++)
		for (int layout = 0; layout < 4; layout++) {
			lk_arena arena = LK_ARENA_INIT;
			lk_model m = model_of(nets[i].text);
			lk_job job = {.gpus = layout == 0 ? 1 : 2,
			              .tp = layout == 1 ? 2 : 1,
			              .pp = layout == 3 ? 2 : 1,
			              .mbs = 2,
			              .sequence_parallel = LK_OFF,
			              .recompute = layout >= 2 ? LK_RECOMPUTE_FULL : LK_RECOMPUTE_NONE};
			lk_step step = ask(&m, job, &arena);
			double made, left = left_over(step.graph, &made);
			assert_true(made > 0);
			if (fabs(left) > 1e-9 * made)
				fail_msg("%s, layout %d: %g bytes stay, of %g", m.name, layout, left, made);
			lk_step_free(&step);
			lk_arena_free(&arena);
		}
}

static void what_is_not_modelled_is_refused(void **state) {
	(void)state;
	static const char *const wrong[][2] = {
		{"{\"model_type\": \"clip_text_model\", \"hidden_size\": 512}", "alone"},
		{"{\"model_type\": \"deberta-v2\", \"hidden_size\": 64, \"num_hidden_layers\": 2, "
	     "\"num_attention_heads\": 2, \"intermediate_size\": 128, \"vocab_size\": 100}",
	     "relative_attention"},
		{"{\"model_type\": \"wav2vec2\", \"hidden_size\": 64, \"num_hidden_layers\": 2, "
	     "\"num_attention_heads\": 2, \"intermediate_size\": 128, \"conv_dim\": [1, 2]}",
	     "conv_"},
		{"{\"model_type\": \"wav2vec2\", \"hidden_size\": 64, \"num_hidden_layers\": 2, "
	     "\"num_attention_heads\": 2, \"intermediate_size\": 128, \"add_adapter\": true}",
	     "add_adapter"},
	};
	lk_model m;
	lk_error err;
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		if (read_text(wrong[i][0], &m, &err) == LK_OK) fail_msg("%s was read", wrong[i][0]);
		if (!strstr(err.what, wrong[i][1])) fail_msg("%s: %s", wrong[i][0], err.what);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(totals_are_as_published),
		cmocka_unit_test(work_is_a_hand_count),
		cmocka_unit_test(queries_pool_an_image),
		cmocka_unit_test(heads_of_other_shapes),
		cmocka_unit_test(layers_read_images),
		cmocka_unit_test(nothing_stays),
		cmocka_unit_test(what_is_not_modelled_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
