/* test_diffusion.c: diffusion transformers: parameters against published totals, operations against
 * hand counts, graphs against both. */
#include <math.h>
#include <string.h>

#include "networks.h"

#define CLASS(name) "{\"_class_name\": \"" name "\", \"_diffusers_version\": \"0.33.0\", "

/* Configs of black-forest-labs/FLUX.1-dev and -schnell, stabilityai/stable-diffusion-3.5-large,
 * Wan-AI/Wan2.1-T2V-14B-Diffusers, hunyuanvideo-community/HunyuanVideo; elements of their weights.
 */
static const char flux[] =
	CLASS("FluxTransformer2DModel") "\"attention_head_dim\": 128, \"guidance_embeds\": true, "
									"\"in_channels\": 64, \"joint_attention_dim\": 4096, "
									"\"num_attention_heads\": 24, \"num_layers\": 19, "
									"\"num_single_layers\": 38, \"patch_size\": 1, "
									"\"pooled_projection_dim\": 768, "
									"\"axes_dims_rope\": [16, 56, 56], \"out_channels\": null}";
static const char sd3[] =
	CLASS("SD3Transformer2DModel") "\"attention_head_dim\": 64, \"caption_projection_dim\": 2432, "
								   "\"in_channels\": 16, \"joint_attention_dim\": 4096, "
								   "\"num_attention_heads\": 38, \"num_layers\": 38, "
								   "\"out_channels\": 16, \"patch_size\": 2, "
								   "\"pooled_projection_dim\": 2048, \"pos_embed_max_size\": 192, "
								   "\"qk_norm\": \"rms_norm\", \"sample_size\": 128, "
								   "\"dual_attention_layers\": []}";
static const char wan[] =
	CLASS("WanTransformer3DModel") "\"added_kv_proj_dim\": null, \"attention_head_dim\": 128, "
								   "\"cross_attn_norm\": true, \"eps\": 1e-06, \"ffn_dim\": 13824, "
								   "\"freq_dim\": 256, \"image_dim\": null, \"in_channels\": 16, "
								   "\"num_attention_heads\": 40, \"num_layers\": 40, "
								   "\"out_channels\": 16, \"patch_size\": [1, 2, 2], "
								   "\"qk_norm\": \"rms_norm_across_heads\", "
								   "\"rope_max_seq_len\": 1024, \"text_dim\": 4096}";
static const char hunyuan[] =
	CLASS("HunyuanVideoTransformer3DModel") "\"attention_head_dim\": 128, \"guidance_embeds\": "
											"true, \"in_channels\": 16, \"mlp_ratio\": 4.0, "
											"\"num_attention_heads\": 24, \"num_layers\": 20, "
											"\"num_refiner_layers\": 2, \"num_single_layers\": "
											"40, \"out_channels\": 16, \"patch_size\": 2, "
											"\"patch_size_t\": 1, \"pooled_projection_dim\": 768, "
											"\"qk_norm\": \"rms_norm\", \"rope_axes_dim\": [16, "
											"56, 56], \"rope_theta\": 256.0, \"text_embed_dim\": "
											"4096}";
/* Its shape is that of SD3.5-medium: the first 13 blocks are dual. */
static const char dual[] =
	CLASS("SD3Transformer2DModel") "\"attention_head_dim\": 64, \"caption_projection_dim\": 1536, "
								   "\"in_channels\": 16, \"joint_attention_dim\": 4096, "
								   "\"num_attention_heads\": 24, \"num_layers\": 24, "
								   "\"out_channels\": 16, \"patch_size\": 2, "
								   "\"pooled_projection_dim\": 2048, \"qk_norm\": \"rms_norm\", "
								   "\"sample_size\": 64, \"dual_attention_layers\": [0, 1, 2, 3, "
								   "4, 5, 6, 7, 8, 9, 10, 11, 12]}";
/* THUDM/CogVideoX-5b, fal/AuraFlow, Alpha-VLLM/Lumina-Image-2.0, Tongyi-MAI/Z-Image-Turbo,
 * black-forest-labs/FLUX.2-dev, Wan-AI/Wan2.1-I2V-14B-480P-Diffusers. */
static const char cogvideox[] = CLASS(
	"CogVideoXTransformer3DModel") "\"num_layers\": 42, \"num_attention_heads\": 48, "
								   "\"attention_head_dim\": 64, \"in_channels\": 16, "
								   "\"out_channels\": 16, "
								   "\"patch_size\": 2, \"time_embed_dim\": 512, "
								   "\"text_embed_dim\": 4096, "
								   "\"max_text_seq_length\": 226, \"sample_width\": 90, "
								   "\"sample_height\": "
								   "60, \"sample_frames\": 49, \"temporal_compression_ratio\": 4, "
								   "\"attention_bias\": true, "
								   "\"use_rotary_positional_embeddings\": true}";
static const char auraflow[] = CLASS(
	"AuraFlowTransformer2DModel") "\"num_mmdit_layers\": 4, \"num_single_dit_layers\": 32, "
								  "\"num_attention_heads\": 12, \"attention_head_dim\": 256, "
								  "\"in_channels\": 4, \"out_channels\": 4, \"patch_size\": 2, "
								  "\"joint_attention_dim\": 2048, \"caption_projection_dim\": "
								  "3072, "
								  "\"pos_embed_max_size\": 1024, \"sample_size\": 64}";
static const char lumina[] =
	CLASS("Lumina2Transformer2DModel") "\"hidden_size\": 2304, \"num_layers\": 26, "
									   "\"num_refiner_layers\": 2, "
									   "\"num_attention_heads\": 24, \"num_kv_heads\": 8, "
									   "\"multiple_of\": "
									   "256, \"in_channels\": 16, \"patch_size\": 2, "
									   "\"cap_feat_dim\": 2304, "
									   "\"sample_size\": 128}";
static const char z_image[] =
	CLASS("ZImageTransformer2DModel") "\"dim\": 3840, \"n_layers\": 30, \"n_refiner_layers\": 2, "
									  "\"n_heads\": "
									  "30, \"n_kv_heads\": 30, \"in_channels\": 16, "
									  "\"cap_feat_dim\": 2560, "
									  "\"qk_norm\": true}";
static const char flux2[] =
	CLASS("Flux2Transformer2DModel") "\"num_layers\": 8, \"num_single_layers\": 48, "
									 "\"num_attention_heads\": "
									 "48, \"attention_head_dim\": 128, \"in_channels\": 128, "
									 "\"joint_attention_dim\": 15360, \"mlp_ratio\": 3.0, "
									 "\"guidance_embeds\": true, \"patch_size\": 1}";
static const char wan_image[] = CLASS(
	"WanTransformer3DModel") "\"num_layers\": 40, \"num_attention_heads\": 40, "
							 "\"attention_head_dim\": 128, \"ffn_dim\": 13824, \"in_channels\": "
							 "36, "
							 "\"out_channels\": 16, \"text_dim\": 4096, \"image_dim\": 1280, "
							 "\"added_kv_proj_dim\": 5120, \"cross_attn_norm\": true, \"qk_norm\": "
							 "\"rms_norm_across_heads\", \"freq_dim\": 256, \"patch_size\": [1, 2, "
							 "2]}";

static const struct {
	const char *text, *unit;
	double params, tokens, text_tokens;
} nets[] = {
	{flux, "image", 11901408320, 4096 + 512, 512},
	{sd3, "image", 8056627520, 4096 + 333, 333},
	{wan, "video", 14288491584, 32760 + 512, 512},
	{hunyuan, "video", 12821012544, 118800 + 256, 256},
	{dual, "image", 0, 1024 + 333, 333},
	{cogvideox, "video", 5570283072, 17550 + 226, 226},
	{auraflow, "image", 6833439744, 1024 + 256, 256},
	{lumina, "image", 2609769152, 4096 + 256, 256},
	{z_image, "image", 6154908736, 4096 + 512, 512},
	{flux2, "image", 32223281152, 4096 + 512, 512},
	{wan_image, "video", 16394878784, 32760 + 512, 512},
};

static void totals_are_as_published(void **state) {
	(void)state;
	for (size_t i = 0; i < sizeof nets / sizeof *nets; i++) {
		lk_model m = model_of(nets[i].text);
		double layers = 0;
		for (int l = 0; l < m.layers; l++) {
			lk_layer_params p = lk_model_layer_params(&m, l);
			layers += p.attention + p.mlp + p.norms;
		}
		assert_true(lk_model_params(&m) ==
		            lk_model_embedding_params(&m) + layers + lk_model_head_params(&m));
		if (nets[i].params > 0 && lk_model_params(&m) != nets[i].params)
			fail_msg("%s: %.0f, not %.0f", m.name, lk_model_params(&m), nets[i].params);
		assert_int_equal(m.context, nets[i].tokens);
		assert_string_equal(lk_model_unit(&m), nets[i].unit);
	}
	/* a second attention of the image: 4 products, norms of queries and keys, 3 outputs of adaLN */
	lk_model with = model_of(dual), without = with;
	without.dit.repeat[LK_DIT_DUAL] = 0;
	without.dit.repeat[LK_DIT_DOUBLE] += 13;
	double d = 1536;
	assert_true(lk_model_params(&with) - lk_model_params(&without) ==
	            13 * (4 * (d * d + d) + 128 + 3 * (d * d + d)));
}

/* Products of attention and their backward pass, 2.5 times the forward's: what the graph does more
 * than 3 times the multiply-adds. Written out, kind by kind. */
static double hand_attention(const lk_model *m, double s) {
	const int *n = m->dit.repeat;
	double text = m->dit.text_tokens, image = s - text, d = m->hidden;
	double joint =
		n[LK_DIT_DOUBLE] + n[LK_DIT_LAST] + n[LK_DIT_SINGLE] + n[LK_DIT_DUAL] + n[LK_DIT_JOINT];
	double read = m->dit.image_width > 0 ? 257 : 0; /* CLIP's tokens of an image */
	return 2 * d *
	       (joint * s * s + n[LK_DIT_DUAL] * image * image + n[LK_DIT_REFINE] * text * text +
	        n[LK_DIT_CROSS] * image * (image + text + read));
}

/* Flux.1 at 1,024 pixels: 59.5 TFLOP of products and 14.9 of attention a forward pass; a product of
 * adaLN once a sample, so that 2 x parameters x tokens would be 109.7. */
static void work_is_a_hand_count(void **state) {
	(void)state;
	lk_model m = model_of(flux);
	double d = 3072, s = 4608;
	assert_true(fabs(2 * hand_attention(&m, s) / 14.87e12 - 1) < 1e-3);
	double blocks = 57 * 12 * d * d * s + (19 * 12 + 38 * 3) * d * d,
		   stem = 4096 * 2 * 64 * d + 512 * 4096 * d + 2 * (256 * d + d * d) + 768 * d + d * d +
	              2 * d * d;
	assert_true(fabs(lk_model_flops(&m, (int)s) / 6 / (blocks + stem + hand_attention(&m, s)) - 1) <
	            1e-12);
	assert_true(fabs(2 * 57 * 12 * d * d * s / 59.5e12 - 1) < 1e-3);
	/* Wan: self-attention and products of 32,760 tokens, keys and values of 512 */
	m = model_of(wan);
	d = 5120;
	double image = 32760, text = 512;
	blocks = 40 * (image * (6 * d * d + 2 * d * 13824) + text * 2 * d * d);
	stem = 2 * image * 64 * d + 256 * d + d * d + text * (4096 * d + d * d) + 6 * d * d;
	assert_true(fabs(lk_model_flops(&m, 33272) / 6 / (blocks + stem + hand_attention(&m, 33272)) -
	                 1) < 1e-12);
}

/* Three times the multiply-adds and half of attention's once more, but for the gradients of what
 * comes in; all layouts do the same work and release what they keep. */
static void graphs_do_the_work(void **state) {
	(void)state;
	static const struct {
		int gpus, tp, cp, pp;
		lk_recompute recompute;
	} layouts[] = {{1, 1, 1, 1, LK_RECOMPUTE_NONE},
	               {8, 1, 1, 1, LK_RECOMPUTE_FULL},
	               {2, 2, 1, 1, LK_RECOMPUTE_NONE},
	               {2, 1, 2, 1, LK_RECOMPUTE_FULL},
	               {2, 1, 1, 2, LK_RECOMPUTE_FULL}};
	for (size_t i = 0; i < sizeof nets / sizeof *nets; i++) {
		lk_model m = model_of(nets[i].text);
		int text = m.dit.text_tokens & ~3, seq = 1024 + text;
		m.dit.text_tokens = text;
		for (size_t l = 0; l < sizeof layouts / sizeof *layouts; l++) {
			lk_arena arena = LK_ARENA_INIT;
			lk_job job = {.gpus = layouts[l].gpus,
			              .tp = layouts[l].tp,
			              .cp = layouts[l].cp,
			              .pp = layouts[l].pp,
			              .mbs = 2,
			              .seq = seq,
			              .recompute = layouts[l].recompute};
			lk_step step = ask(&m, job, &arena);
			double made, left = left_over(step.graph, &made);
			assert_true(made > 0);
			if (fabs(left) > 1e-9 * made)
				fail_msg("%s, layout %zu: %g bytes stay, of %g", m.name, l, left, made);
			if (l == 0) {
				double d = m.hidden, image = seq - text, once = 0;
				once += m.dit.guidance * LK_DIT_STEP_WIDTH + LK_DIT_STEP_WIDTH;
				once += m.dit.pooled_width;
				if (m.dit.repeat[LK_DIT_REFINE] && !m.dit.repeat[LK_DIT_JOINT])
					once += LK_DIT_STEP_WIDTH + m.dit.text_width;
				double first = d * (image * m.dit.patch_inputs + text * m.dit.text_width + once),
					   want = 2 * (6 * lk_dit_macs(&m, seq) + hand_attention(&m, seq) - 2 * first);
				if (fabs(step.executed_flops / want - 1) > 1e-9)
					fail_msg("%s: %.9g, not %.9g", m.name, step.executed_flops, want);
			}
			lk_step_free(&step);
			lk_arena_free(&arena);
		}
	}
}

/* Of a double block at 1,024 + 512 tokens, 2 bytes a number, by hand: a half keeps its input, what
 * adaLN made of the norm and what the gate scales, 6 d; attention q, k, v, what the norms of q and
 * k read and the output, 12 d, and 4 bytes a head; the MLP what its activation reads and gives, 16
 * d.
 */
static void kept_is_a_hand_count(void **state) {
	(void)state;
	lk_arena arena = LK_ARENA_INIT;
	double kept[2];
	for (int more = 0; more < 2; more++) {
		lk_model m = model_of(flux);
		m.dit.repeat[LK_DIT_DOUBLE] += more;
		m.layers += more;
		lk_job job = {.gpus = 1, .mbs = 1, .gbs = 1, .seq = 1536, .recompute = LK_RECOMPUTE_NONE};
		lk_step step = ask(&m, job, &arena);
		kept[more] = 0;
		const lk_graph *graph = step.graph;
		for (size_t c = 0; c < graph->programs.at[0].calls.count; c++) {
			const lk_call *call = &graph->programs.at[0].calls.at[c];
			const lk_block *block = &graph->blocks.at[call->block];
			for (uint32_t op = block->begin; op < block->end; op++)
				if (graph->ops.phase[op] == LK_PHASE_FORWARD)
					kept[more] += call->repeat * (graph->ops.alloc[op] - graph->ops.release[op]);
		}
		lk_step_free(&step);
	}
	double each = 1536 * (3072.0 * (6 + 12 + 6 + 16) + 24 * 4);
	if (fabs((kept[1] - kept[0]) / each - 1) > 1e-6)
		fail_msg("%.9g bytes a block, not %.9g", kept[1] - kept[0], each);
	lk_arena_free(&arena);
}

static void what_is_not_modelled_is_refused(void **state) {
	(void)state;
	lk_model m = model_of(flux);
	lk_error err;
	lk_job lora = {.model = m, .gpus = 1, .task = LK_TASK_LORA},
		   some = {.model = m,
	               .gpus = 1,
	               .recompute = LK_RECOMPUTE_SELECTIVE,
	               .recompute_said = true},
		   text = {.model = m, .gpus = 1, .seq = 512};
	assert_int_equal(lk_job_complete(&lora, NULL, &err), LK_ERR_INPUT);
	assert_string_equal(err.where, "--task");
	assert_int_equal(lk_job_complete(&some, NULL, &err), LK_ERR_INPUT);
	assert_string_equal(err.where, "--recompute");
	assert_int_equal(lk_job_complete(&text, NULL, &err), LK_ERR_INPUT);
	assert_string_equal(err.where, "--seq");
	static const char *const wrong[][2] = {
		{CLASS("UNet2DConditionModel") "\"block_out_channels\": [320, 640]}",
	     "UNet2DConditionModel"},
		{CLASS("SanaTransformer2DModel") "\"num_layers\": 20}", "SanaTransformer2DModel"},
		{CLASS("Flux2Transformer2DModel") "\"patch_size\": 2}", "patch_size"},
		{CLASS("CogVideoXTransformer3DModel") "\"patch_size_t\": 2}", "patch_size_t"},
		{CLASS("Lumina2Transformer2DModel") "\"ffn_dim_multiplier\": 2}", "ffn_dim_multiplier"},
		{CLASS("FluxTransformer2DModel") "\"patch_size\": 2}", "patch_size"},
		{CLASS("FluxTransformer2DModel") "\"mlp_ratio\": 3}", "mlp_ratio"},
		{CLASS("SD3Transformer2DModel") "\"dual_attention_layers\": [1]}", "dual_attention_layers"},
		{CLASS("SD3Transformer2DModel") "\"num_layers\": 0}", "0 blocks"},
		{CLASS("WanTransformer3DModel") "\"added_kv_proj_dim\": 1280}", "added_kv_proj_dim"},
		{CLASS("WanTransformer3DModel") "\"qk_norm\": \"layer\"}", "qk_norm"},
		{CLASS("HunyuanVideoTransformer3DModel") "\"out_channels\": 32}", "out_channels"},
	};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		if (read_text(wrong[i][0], &m, &err) == LK_OK) fail_msg("%s was read", wrong[i][0]);
		if (!strstr(err.what, wrong[i][1])) fail_msg("%s: %s", wrong[i][0], err.what);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(totals_are_as_published),
		cmocka_unit_test(work_is_a_hand_count),
		cmocka_unit_test(graphs_do_the_work),
		cmocka_unit_test(kept_is_a_hand_count),
		cmocka_unit_test(what_is_not_modelled_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
