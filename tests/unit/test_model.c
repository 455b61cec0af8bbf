/* test_model.c: configs of every family against published parameter counts, presets, windows,
 * experts, operations against closed forms, and what wrong configs are told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "io/csv.h"
#include "io/embedded.h"
#include "model/read/hf.h"
#include "model/read/read.h"
#include "data.h"
#include "scratch.h"

static lk_model preset(const char *name) {
	lk_model model;
	lk_error err = {0};
	if (lk_model_preset(name, &model, &err) != LK_OK)
		fail_msg("%s: %s; %s", name, err.what, err.hint);
	return model;
}

static lk_status from_text_as(const char *text, const char *as, lk_model *model, char *warning,
                              lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	lk_stream *in = NULL;
	lk_value *tree = NULL;
	lk_status status = lk_stream_memory(text, strlen(text), "c.json", &in, err);
	if (status == LK_OK) status = lk_json_document(&arena, in, &tree, err);
	if (status == LK_OK) status = lk_model_from_hf(tree, "c.json", as, model, warning, err);
	lk_stream_close(in);
	lk_arena_free(&arena);
	return status;
}

static lk_status from_text(const char *text, lk_model *model, char *warning, lk_error *err) {
	return from_text_as(text, NULL, model, warning, err);
}

static lk_model model_of(const char *text) {
	lk_model model;
	lk_error err = {0};
	if (from_text(text, &model, NULL, &err) != LK_OK)
		fail_msg("%s: %s; %s", err.where, err.what, err.hint);
	return model;
}

static double parts(const lk_model *model) {
	double sum = lk_model_embedding_params(model) + lk_model_head_params(model) + model->beside;
	for (int i = 0; i < model->layers + model->decoder_layers; i++) {
		lk_layer_params p = lk_model_layer_params(model, i);
		assert_true(p.attention > 0 || p.mlp > 0 || p.experts > 0 || lk_model_reuses(model, i));
		assert_true(p.router >= 0 && p.norms >= 0);
		sum += p.attention + p.mlp + p.router + p.experts + p.norms;
	}
	return sum;
}

/* Totals as the model cards state them (number of elements in the published weights). */
static const struct {
	const char *name;
	double params;
} published[] = {
	{"llama-2-7b", 6738415616},
	{"llama-3-8b", 8030261248},
	{"llama-3-70b", 70553706496},
	{"qwen2-7b", 7615616512},
	{"qwen3-8b", 8190735360},
	{"qwen3-30b-a3b", 30532122624},
	{"mistral-7b-v0.1", 7241732096},
	{"mixtral-8x7b", 46702792704},
	{"deepseek-v3", 671026419200},
	{"gpt-oss-20b", 20914757184},
	{"gpt2", 124439808},
	{"gpt2-xl", 1557611200},
	{"gpt-neox-20b", 20554567680},
	{"mpt-7b", 6649286656},
	{"opt-6.7b", 6658473984},
	{"opt-350m", 331196416},
	{"bloom-176b", 176247271424},
	{"falcon-7b", 6921720704},
	{"falcon-40b", 41303293952},
	{"gemma-2-2b", 2614341888},
	{"gemma-3-1b", 999885952},
	{"gemma-3-4b", 3880263168},
	{"phi-3-mini-4k", 3821079552},
	{"bert-base-uncased", 109482240},
	{"t5-base", 222903552},
	{"vit-b16-224", 85798656},
};

static void test_config_files(void **state) {
	(void)state;
	for (size_t i = 0; i < sizeof published / sizeof *published; i++) {
		char path[128], warning[LK_MODEL_WARNING];
		lk_model model;
		lk_error err = {0};
		snprintf(path, sizeof path, "tests/data/hf/%s.json", published[i].name);
		bool vision = strstr(path, "gemma-3-4b") != NULL;
		if (vision) { /* with its encoder of images, then without */
			assert_int_equal(lk_model_read(path, NULL, &model, warning, &err), LK_OK);
			assert_true(lk_model_params(&model) == 4300079472 && !*warning);
		}
		if (lk_model_read(path, vision ? "gemma3" : NULL, &model, warning, &err) != LK_OK)
			fail_msg("%s: %s", err.where, err.what);
		if (lk_model_params(&model) != published[i].params)
			fail_msg("%s: %.0f, published %.0f", path, lk_model_params(&model),
			         published[i].params);
		if (vision) assert_non_null(strstr(warning, "vision_config is not counted"));
		else assert_string_equal(warning, "");
	}
}

/* A preset states its published total beside its shape; reading the two must agree, and so must the
 * parts. */
static void test_presets(void **state) {
	(void)state;
	int count = lk_model_preset_count(), stated = 0, trained = 0;
	assert_true(count > 100);
	for (int i = 0; i < count; i++) {
		const lk_model *model = lk_model_preset_at(i);
		assert_non_null(model);
		assert_true(parts(model) == lk_model_params(model));
		double active = lk_model_active_params(model);
		assert_true(model->experts > 0 ? active < lk_model_params(model)
		                               : active == lk_model_params(model) - model->beside);
		char file[128];
		snprintf(file, sizeof file, "models/%s.json", model->name);
		const char *text = lk_data_file(file, NULL),
				   *total = text ? strstr(text, "\"_params\": ") : NULL;
		assert_non_null(text);
		assert_non_null(strstr(text, "\"_source\": "));
		if (strstr(text, "\"_trained\"")) { /* its numbers are found by its shape */
			lk_arena arena = LK_ARENA_INIT;
			lk_trained numbers;
			assert_int_equal(lk_model_trained(&arena, model, &numbers, NULL), LK_OK);
			assert_non_null(numbers.options);
			lk_arena_free(&arena);
			trained++;
		}
		if (!total) continue;
		stated++;
		if (atof(total + strlen("\"_params\": ")) != lk_model_params(model))
			fail_msg("%s: %.0f", model->name, lk_model_params(model));
		lk_model again = preset(model->name);
		assert_string_equal(again.name, model->name);
		assert_true(lk_model_params(&again) == lk_model_params(model));
	}
	assert_true(stated > 80);
	assert_true(trained >= 5);
	assert_null(lk_model_preset_at(-1));
	assert_null(lk_model_preset_at(count));
}

static void test_known_totals(void **state) {
	(void)state;
	static const struct {
		const char *name;
		double billions, digit;
	} cases[] = {
		{"deepseek-v3.2", 671.88, .01},
		{"jamba1.5-large", 398.6, .1},
		{"bamba-9b", 9.78, .01},
		{"ernie4.5-300b-a47b", 299.5, .1},
		{"gpt-oss-20b", 20.9, .1},
		{"gpt-oss-120b", 116.8, .1},
		{"qwen3-235b-a22b", 235.09, .01},
		{"mixtral-8x22b", 140.6, .1},
		{"llama3.1-405b", 405.85, .01},
		{"qwen2.5-72b", 72.7, .1},
		{"gpt3-175b", 174.6, .1},
		{"gpt-18.4b", 18.4, .1},
		{"gpt-3.6b", 3.6, .1},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		lk_model m = preset(cases[i].name);
		double off = fabs(lk_model_params(&m) / 1e9 - cases[i].billions);
		if (off > cases[i].digit / 2 * 1.1)
			fail_msg("%s: %.0f", cases[i].name, lk_model_params(&m));
	}
	/* Active parameters per token, as the model cards state them: gpt-oss without the embedding
	 * table. */
	lk_model v3 = preset("deepseek-v3"), qwen = preset("qwen3-30b-a3b"),
			 oss = preset("gpt-oss-120b");
	assert_true(fabs(lk_model_active_params(&v3) / 1e9 - 37.5) < .1);
	static const struct {
		const char *name;
		double billions;
	} active[] = {
		{"jamba1.5-large", 94}, {"nemotron3-nano-30b-a3b", 3.6},   {"ernie4.5-300b-a47b", 47.9},
		{"hunyuan-a13b", 12.7}, {"minimax-text-01", 48.4},         {"minimax-m2", 11.0},
		{"kimi-k2", 32.9},      {"llama4-maverick-17b-128e", 17.2}};
	for (size_t i = 0; i < sizeof active / sizeof *active; i++) {
		lk_model m = preset(active[i].name);
		assert_true(fabs(lk_model_active_params(&m) / 1e9 / active[i].billions - 1) < .01);
	}
	assert_true(fabs(lk_model_active_params(&qwen) / 1e9 - 3.3) < .1);
	assert_true(fabs((lk_model_active_params(&oss) - lk_model_embedding_params(&oss)) / 1e9 - 5.1) <
	            .05);
}

#define SMALL "\"num_hidden_layers\": 2, \"hidden_size\": 64, \"num_attention_heads\": 4"

/* ---- encoders of images ---- */

/* Tokens of an image in the sequence as the model cards state them; operations of the encoder by
 * hand: 6 for each weight and token, 12 s s h a layer for all pairs of an image's s patches (of
 * windows of 64 s 64 h), and those of the projector for each token that it gives. */
static void test_encoders_of_images(void **state) {
	(void)state;
	const double clip = 4 * 1024. * 1024 + 2 * 1024. * 4096,
				 siglip = 4 * 1152. * 1152 + 2 * 1152. * 4304,
				 gated = 4 * 1280. * 1280 + 3 * 1280. * 3420;
	const struct {
		const char *name;
		double tokens, encoder, projector;
	} cases[] = {
		/* 336 / 14: 24 x 24 patches and the class; 1024 -> 4096 -> 4096 */
		{"llava-v1.6-mistral-7b", 576,
	     6 * (24 * (577 * clip + 2 * 577. * 577 * 1024) + 576. * 3 * 14 * 14 * 1024),
	     6 * 576. * (1024. * 4096 + 4096. * 4096)},
		/* 224 / 14: 16 x 16; one product */
		{"paligemma-3b", 256,
	     6 * (27 * (256 * siglip + 2 * 256. * 256 * 1152) + 256. * 3 * 14 * 14 * 1152),
	     6 * 256. * 1152 * 2048},
		/* 448 / 14: 32 x 32, four become one; 28 of 32 layers in windows of 64 */
		{"qwen2.5-vl-3b", 256,
	     6 * (32 * 1024 * gated + 4 * 2 * 1024. * 1024 * 1280 + 28 * 2 * 1024. * 64 * 1280 +
	          1024. * 2 * 3 * 14 * 14 * 1280),
	     6 * 256. * (5120. * 5120 + 5120. * 2048)},
		/* four projectors: three of layers in between */
		{"qwen3-vl-4b", 196,
	     6 * (24 * (784 * clip + 2 * 784. * 784 * 1024) + 784. * 2 * 3 * 16 * 16 * 1024),
	     4 * 6 * 196. * (4096. * 4096 + 4096. * 2560)},
		{"internvl3-8b", 256,
	     6 * (24 * (1025 * clip + 2 * 1025. * 1025 * 1024) + 1024. * 3 * 14 * 14 * 1024),
	     6 * 256. * (4096. * 3584 + 3584. * 3584)},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		lk_model m = preset(cases[i].name), tower, words = m;
		assert_true(lk_model_tower(&m, &tower));
		assert_true(lk_tower_tokens(&m.tower) == cases[i].tokens);
		words.tower = (lk_tower){0};
		assert_true(lk_model_params(&m) - lk_model_params(&words) == lk_model_params(&tower));
		double encoder = lk_model_tower_flops(&m), projector = lk_model_projector_flops(&m);
		if (fabs(encoder / cases[i].encoder - 1) > 1e-12 || projector != cases[i].projector)
			fail_msg("%s: %.9g and %.9g operations, not %.9g and %.9g", m.name, encoder, projector,
			         cases[i].encoder, cases[i].projector);
		double all = lk_model_flops(&words, 2048) + encoder + projector;
		assert_true(fabs(lk_model_flops(&m, 2048) / all - 1) < 1e-12);
		m.tower.images = 3;
		assert_true(fabs(lk_model_tower_flops(&m) / (3 * encoder) - 1) < 1e-12);
		assert_false(lk_model_tower(&words, &tower));
	}
}

/* Other networks, each against its published total. */
static void test_other_encoders(void **state) {
	(void)state;
	static const struct {
		const char *text;
		double params;
	} cases[] = {
		{"{\"model_type\": \"bart\", \"d_model\": 768, \"encoder_layers\": 6, \"decoder_layers\": "
	     "6, "
	     "\"encoder_attention_heads\": 12, \"decoder_attention_heads\": 12, \"encoder_ffn_dim\": "
	     "3072, \"decoder_ffn_dim\": 3072, \"vocab_size\": 50265, \"max_position_embeddings\": "
	     "1024, \"activation_function\": \"gelu\", \"normalize_embedding\": true, "
	     "\"add_bias_logits\": false, \"normalize_before\": false, \"scale_embedding\": false, "
	     "\"add_final_layer_norm\": false, \"num_hidden_layers\": 6, \"encoder_layerdrop\": 0.0}",
	     139420416},
		{"{\"model_type\": \"pegasus\", \"d_model\": 1024, \"encoder_layers\": 16, "
	     "\"decoder_layers\": 16, \"encoder_attention_heads\": 16, \"decoder_attention_heads\": "
	     "16, \"encoder_ffn_dim\": 4096, \"decoder_ffn_dim\": 4096, \"vocab_size\": 96103, "
	     "\"max_position_embeddings\": 512, \"static_position_embeddings\": true, "
	     "\"extra_pos_embeddings\": 1, \"normalize_before\": true, \"scale_embedding\": true, "
	     "\"add_final_layer_norm\": true}",
	     568699904},
		{"{\"model_type\": \"dinov2\", \"hidden_size\": 1024, \"num_hidden_layers\": 24, "
	     "\"num_attention_heads\": 16, \"mlp_ratio\": 4, \"image_size\": 518, \"patch_size\": 14, "
	     "\"qkv_bias\": true, \"layerscale_value\": 1.0, \"use_swiglu_ffn\": false, "
	     "\"out_features\": [\"stage24\"], \"stage_names\": [\"stem\"], \"apply_layernorm\": "
	     "true, \"reshape_hidden_states\": true, \"drop_path_rate\": 0.0}",
	     304368640},
		/* google/electra-base-discriminator: the encoder of BERT without its pooler */
		{"{\"model_type\": \"electra\", \"hidden_size\": 768, \"embedding_size\": 768, "
	     "\"num_hidden_layers\": 12, \"num_attention_heads\": 12, \"intermediate_size\": 3072, "
	     "\"vocab_size\": 30522, \"max_position_embeddings\": 512, \"type_vocab_size\": 2}",
	     109482240 - 768 * 769},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		lk_model m = model_of(cases[i].text);
		if (lk_model_params(&m) != cases[i].params)
			fail_msg("%s: %.0f, not %.0f", m.name, lk_model_params(&m), cases[i].params);
	}
	/* google/electra-small-discriminator: an embedding, with its norm, half as wide as the layers
	 */
	lk_model m = model_of("{\"model_type\": \"electra\", \"embedding_size\": 128, \"hidden_size\": "
	                      "256, \"num_hidden_layers\": 12, \"num_attention_heads\": 4, "
	                      "\"intermediate_size\": 1024, \"vocab_size\": 30522, "
	                      "\"max_position_embeddings\": 512, \"type_vocab_size\": 2}");
	assert_true(lk_model_params(&m) == (30522 + 512 + 2 + 2) * 128. + 129 * 256. +
	                                       12. * (4 * 257 * 256 + 2 * 1024 * 256 + 5 * 256 + 1024));
}

#define IDEFICS3                                                                                  \
	"{\"model_type\": \"idefics3\", \"scale_factor\": 2, \"text_config\": {\"model_type\": "      \
	"\"llama\", \"hidden_size\": 4096, \"intermediate_size\": 14336, \"num_hidden_layers\": 32, " \
	"\"num_attention_heads\": 32, \"num_key_value_heads\": 8, \"vocab_size\": 128259}, "          \
	"\"vision_config\": {\"model_type\": \"idefics3\", \"hidden_size\": 1152, "                   \
	"\"intermediate_size\": 4304, \"num_hidden_layers\": 27, \"num_attention_heads\": 16, "       \
	"\"image_size\": 364, \"patch_size\": 14"
#define LLAVA                                                                    \
	"{\"model_type\": \"llava\", \"text_config\": {\"model_type\": \"llama\"}, " \
	"\"vision_config\": "

static void test_vision_configs(void **state) {
	(void)state;
	lk_model m = model_of(IDEFICS3 "}}");
	assert_true(fabs(lk_model_params(&m) / 8.46e9 - 1) < .001);
	assert_true(lk_tower_tokens(&m.tower) == 169);
	m = preset("pixtral-12b");
	assert_true(fabs(lk_model_params(&m) / 12.68e9 - 1) < .001);
	/* encoder, adapter and projector of Llama 4: a class, 577 positions, 5632 -> 4096 -> 4096 -> h
	 */
	m = model_of(
		"{\"model_type\": \"llama4\", \"text_config\": {\"model_type\": \"llama4_text\", " SMALL
		", \"intermediate_size\": 64, \"intermediate_size_mlp\": 128, \"vocab_size\": 100}, "
		"\"vision_config\": {\"model_type\": \"llama4_vision_model\", \"hidden_size\": 1408, "
		"\"image_size\": 336, \"intermediate_size\": 5632, \"num_attention_heads\": 16, "
		"\"num_hidden_layers\": 34, \"patch_size\": 14, \"pixel_shuffle_ratio\": 0.5, "
		"\"projector_input_dim\": 4096, \"projector_output_dim\": 4096, "
		"\"vision_output_dim\": 4096, \"multi_modal_projector_bias\": false}}");
	lk_model maverick = preset("llama4-maverick-17b-128e");
	double tower = lk_model_tower_params(&m) + 4096. * (5120 - m.hidden);
	assert_true(maverick.beside == tower && lk_model_params(&maverick) == 401583781376);
	assert_true(lk_tower_tokens(&m.tower) == 144);
	m = preset("gemma3-4b");
	assert_true(lk_model_params(&m) == 4300079472);
	/* what text_config leaves out is the class's: LLaVA-1.5 of 7 B */
	m = model_of(LLAVA "{\"hidden_size\": 1024, \"image_size\": 336, \"intermediate_size\": 4096, "
	                   "\"num_attention_heads\": 16, \"num_hidden_layers\": 24, "
	                   "\"patch_size\": 14}}");
	assert_true(lk_model_params(&m) == 6738415616 + 303507456 + 4096 * (1025. + 4097));
	static const struct {
		const char *text, *what;
	} wrong[] = {
		{LLAVA "7}", "vision_config is a number"},
		{LLAVA "{\"model_type\": \"swin\"}}", "encoders of the type \"swin\""},
		{LLAVA "{\"patch_size\": 500}}", "no patches of 500"},
		{LLAVA "{\"num_attention_heads\": 7}}", "7 heads"},
		{LLAVA "{\"hidden_size\": -1}}", "hidden_size is -1"},
		{LLAVA "{\"moe_layers\": 3}}", "moe_layers of vision_config is not modelled"},
		{LLAVA "{}, \"audio_config\": {\"layers\": 3}}", "audio_config is not modelled"},
		{LLAVA "{}, \"resampler\": 3}", "resampler is not modelled"},
		{IDEFICS3 ", \"registers\": 4}}", "registers"},
	};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		lk_error err = {0};
		if (from_text(wrong[i].text, &m, NULL, &err) == LK_OK)
			fail_msg("accepted: %s", wrong[i].text);
		if (!strstr(err.what, wrong[i].what)) fail_msg("%zu: %s", i, err.what);
	}
}

static void test_names(void **state) {
	(void)state;
	static const char *const same[][2] = {
		{"meta-llama/Llama-3.1-70B-Instruct", "llama3.1-70b"},
		{"LLAMA_3_8B", "llama3-8b"},
		{"Phi-3-mini-4k-instruct", "phi3-mini-4k"},
		{"Qwen/Qwen3-30B-A3B", "qwen3-30b-a3b"},
		{"QWEN3 30B-A3B", "qwen3-30b-a3b"},
		{"bert-base-uncased", "bert-base"},
		{"google/gemma-2-2b-it", "gemma2-2b"},
		{"gpt2", "gpt2"},
		{"mistralai/Mixtral-8x7B-v0.1", "mixtral-8x7b"},
		{"opt-1.3b", "opt-1.3b"},
		{"opt-13b", "opt-13b"},
		{"deepseek-ai/DeepSeek-V3", "deepseek-v3"},
		{"deepseek-ai/DeepSeek-V3.2", "deepseek-v3.2"},
		{"deepseek-ai/deepseek-r1", "deepseek-v3"},
		{"meta-llama/Llama-3.1-8B", "llama3.1-8b"},
		{"meta-llama/Meta-Llama-3-8B-Instruct", "llama3-8b"},
		{"Qwen/Qwen3-235B-A22B", "qwen3-235b-a22b"},
		{"Qwen/Qwen3-235B-A22B-Instruct-2507", "qwen3-235b-a22b"},
		{"Qwen/Qwen3-Next-80B-A3B-Instruct", "qwen3-next-80b-a3b"},
		{"moonshotai/Kimi-K2-Instruct", "kimi-k2"},
		{"zai-org/GLM-4.5-Air", "glm4.5-air"},
		{"nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "nemotron3-nano-30b-a3b"},
		{"ai21labs/AI21-Jamba-1.5-Large", "jamba1.5-large"},
		{"ibm-granite/granite-4.0-h-tiny", "granite4.0-h-tiny"},
		{"state-spaces/mamba-130m-hf", "mamba-130m"},
		{"MiniMaxAI/MiniMax-M2", "minimax-m2"},
		{"bigscience/bloom", "bloom-176b"},
		{"axolotl-quants/Llama-4-Scout-17B-16E-Linearized-bnb-nf4-bf16", "llama4-scout-17b-16e"},
		{"nvidia/Qwen3-30B-A3B-NVFP4", "qwen3-30b-a3b"},
		{"unsloth/Qwen3-8B-bnb-4bit", "qwen3-8b"},
		{"deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B", "deepseek-r1-distill-qwen-1.5b"},
		{"baichuan-inc/Baichuan2-7B-Chat", "baichuan2-7b"},
		{"ByteDance-Seed/Seed-Coder-8B-Instruct", "seed-coder-8b"},
		{"zai-org/glm-4-9b-chat-hf", "glm4-9b"},
		{"bigcode/starcoder2-7b", "starcoder2-7b"},
		{"ibm-granite/granite-3.3-2b-instruct", "granite3.3-2b"},
		{"CohereForAI/c4ai-command-r7b-12-2024", "command-r7b"},
		{"meta-llama/Llama-3.2-11B-Vision-Instruct", "llama3.2-11b-vision"},
		{"nvidia/NVIDIA-Nemotron-Nano-9B-v2", "nemotron-nano-9b-v2"},
		{"Qwen/Qwen3-VL-235B-A22B-Instruct", "qwen3-vl-235b-a22b"},
		{"black-forest-labs/FLUX.1-dev", "flux.1-dev"},
		{"openai/whisper-large-v3", "whisper-large-v3"},
		{"xai-org/grok-2", "grok2-270b"},
		{"deepseek-ai/DeepSeek-R1", "deepseek-v3"},
		{"deepseek-r1", "deepseek-v3"},
		{"DeepSeek-R1-Distill-Qwen-14B", "qwen2.5-14b"},
		{"Llama-4-Scout", "llama4-scout-17b-16e"},
		{"nemotron-3-super", "nemotron3-super-120b-a12b"},
	};
	for (size_t i = 0; i < sizeof same / sizeof *same; i++)
		assert_string_equal(preset(same[i][0]).name, same[i][1]);
	static const struct {
		const char *name, *what, *hint;
	} wrong[] = {
		{"llama3.1-71b", "no model is named", "llama3.1-7"},
		{"mistral-7b", "no model is named", "mistral-7b-v0.1, mistral-7b-v0.3"},
		{"llama3.1-4", "no model is named", "did you mean llama3.1-405b?"},
		{"qwen", "no model is named", "qwen-image, qwen1.5-"},
		{"deepseek-r1-distill", "no model is named", "did you mean deepseek-r1-distill-qwen-1.5b?"},
		{"phi3mini", "no model is named", "did you mean phi3-mini-4k?"},
		{"nemotron-3-super-9b", "no model is named", ""},
		{"", "no model is named", "config.json"},
		{"../models/gpt", "models", "gpt"},
		{"zzzzzzzzzzzzzzzzzzzzzzzz", "no model", "config.json"},
	};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		lk_model model;
		lk_error err = {0};
		assert_int_equal(lk_model_preset(wrong[i].name, &model, &err), LK_ERR_INPUT);
		if (!strstr(err.what, wrong[i].what) || !strstr(err.hint, wrong[i].hint))
			fail_msg("%s: %s; %s", wrong[i].name, err.what, err.hint);
	}
}

/* Whether a preset states a published id that is `part` after its owner, or data/model_names.csv
 * has that name as a whole. */
static bool is_published(const char *preset, const char *part) {
	char file[128], text[80];
	snprintf(file, sizeof file, "models/%s.json", preset);
	snprintf(text, sizeof text, "/%s\"", part);
	static const char *const whole[] = {"llama4-scout", "llama4-maverick", "nemotron3-super",
	                                    "nemotron3-ultra", "tinyllama"};
	for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
		if (strcmp(whole[i], part) == 0) return true;
	return strcasestr(lk_data_file(file, NULL), text) != NULL;
}

/* A beginning of a name chooses nothing: it is a published name of its own, or is refused. */
static void test_beginnings(void **state) {
	(void)state;
	for (int i = 0; lk_model_preset_at(i); i++) {
		const char *name = lk_model_preset_at(i)->name;
		for (const char *dash = strchr(name, '-'); dash; dash = strchr(dash + 1, '-')) {
			char head[64];
			lk_model model;
			snprintf(head, sizeof head, "%.*s", (int)(dash - name), name);
			if (lk_model_preset(head, &model, NULL) == LK_OK && strcmp(model.name, head) != 0 &&
			    !is_published(model.name, head))
				fail_msg("%s is taken as %s", head, model.name);
		}
	}
}

#define LLAMA \
	"{\"model_type\": \"llama\", " SMALL ", \"intermediate_size\": 128, \"vocab_size\": 100"

static void test_wrong_configs(void **state) {
	(void)state;
	static const struct {
		const char *text, *where, *what, *hint;
	} cases[] = {
		{"[1]", "c.json:1:1", "a list", "a JSON object"},
		{"{}", "c.json:1:1", "no model_type", "\"model_type\": TYPE"},
		{"{\"model_type\": 7}", "c.json:1:16", "a number", "a text"},
		{"{\"model_type\": \"hyena\"}", "c.json:1:16", "\"hyena\"", "a preset"},
		{"{\"model_type\": \"llama\"}", "c.json:1:1", "num_hidden_layers", "NUMBER"},
		{"{\"model_type\": \"llama\", " SMALL ",\n \"vocab_size\": 100}", "c.json:1:1",
	     "intermediate_size", "NUMBER"},
		{LLAMA ",\n  \"num_key_value_heads\": 3}", "c.json:1:1", "4 heads", "num_key_value_heads"},
		{LLAMA ",\n  \"num_key_value_heads\": -4}", "c.json:2:26", "-4", "whole number"},
		{LLAMA ",\n  \"num_key_value_heads\": 1.5}", "c.json:2:26", "1.5", "whole number"},
		{LLAMA ",\n  \"num_key_value_heads\": NaN}", "c.json:2:26", "NaN", "whole number"},
		{LLAMA ",\n  \"num_key_value_heads\": 1e300}", "c.json:2:26", "1e300", "whole number"},
		{LLAMA ",\n  \"num_key_value_heads\": \"4\"}", "c.json:2:26", "a text", "whole number"},
		{LLAMA ",\n  \"tie_word_embeddings\": 1}", "c.json:2:26", "a number", "true or false"},
		{LLAMA ", \"vocab_size\": 0}", "c.json:1:", "vocab_size is 0", "from 1"},
		{LLAMA ", \"head_dim\": 2000000000}", "c.json:1:1", "head_dim is 2000000000", "from 1"},
		{LLAMA ", \"num_attention_heads\": 5}", "c.json:1:1", "not a multiple of 5", "head_dim"},
		{LLAMA ", \"num_experts\": 8}", "c.json:1:1", "0 of 8 experts", "num_experts_per_tok"},
		{LLAMA ", \"num_experts\": 8, \"num_experts_per_tok\": 9}", "c.json:1:1", "9 of 8",
	     "from 1 to 8"},
		{LLAMA ", \"kv_lora_rank\": 8}", "c.json:1:1", "latent attention", "qk_nope_head_dim"},
		{LLAMA ", \"first_k_dense_replace\": 3}", "c.json:1:1", "3 dense layers of 2",
	     "first_k_dense_replace"},
		{"{\"model_type\": \"mistral\", " SMALL ", \"intermediate_size\": 9, \"vocab_size\": 9,\n"
	     "\"layer_types\": [\"full_attention\"]}",
	     "c.json:2:16", "1 entry for 2 layers", "one entry per layer"},
		{"{\"model_type\": \"mistral\", " SMALL ", \"intermediate_size\": 9, \"vocab_size\": 9,\n"
	     "\"layer_types\": [\"full_attention\", \"linear_attention\"]}",
	     "c.json:2:35", "linear_attention", "full_attention"},
		{"{\"model_type\": \"mistral\", " SMALL ", \"intermediate_size\": 9, \"vocab_size\": 9,\n"
	     "\"layer_types\": [\"full_attention\", \"sliding_attention\"]}",
	     "c.json:2:16", "sliding_window", "sliding_window"},
		{"{\"model_type\": \"qwen3_moe\", " SMALL
	     ", \"intermediate_size\": 9, \"vocab_size\": 9, \"num_experts\": 4,\n"
	     "\"num_experts_per_tok\": 1, \"mlp_only_layers\": [1]}",
	     "c.json:2:47", "mlp_only_layers", "0, 1, 2"},
		{"{\"model_type\": \"vit\", " SMALL ", \"intermediate_size\": 9, \"patch_size\": 500}",
	     "c.json:1:1", "patches", "image_size"},
		{"{\"model_type\": \"bert\", " SMALL
	     ", \"intermediate_size\": 9, \"vocab_size\": 9, \"hidden_dropout_prob\": 1}",
	     "c.json:1:1", "dropout", "below 1"},
		{"{\"model_type\": \"llama\",\n \"num_hidden_layers\": ", "c.json:2", "", ""},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		lk_model model;
		lk_error err = {0};
		char line[1024];
		if (from_text(cases[i].text, &model, NULL, &err) != LK_ERR_INPUT)
			fail_msg("accepted: %s", cases[i].text);
		lk_error_text(&err, line, sizeof line);
		if (strncmp(err.where, cases[i].where, strlen(cases[i].where)) != 0 ||
		    !strstr(err.what, cases[i].what) || !strstr(err.hint, cases[i].hint) ||
		    strchr(line, '\n'))
			fail_msg("case %zu: %s", i, line);
	}
}

/* Types that are not known are refused with the members that were not understood, wherever they are
 * stated; read on purpose they are what they are read as. */
static void test_unknown_networks(void **state) {
	(void)state;
	static const struct {
		const char *type, *members, *names, *as;
	} cases[] = {
		{"zamba3", "\"num_mem_blocks\": 1, \"mamba_d_state\": 16", "num_mem_blocks, mamba_d_state",
	     "llama"},
		{"nemotron_hyb", "\"hybrid_pattern\": \"M-M*\", \"use_cache\": true", "hybrid_pattern",
	     "llama"},
		{"gemma3x_text", "\"laurel_rank\": 64, \"num_kv_shared_layers\": 10",
	     "laurel_rank, num_kv_shared_layers", "gemma3"},
		{"deepseek_v33", "\"index_topk\": 2048, \"index_n_heads\": 64", "index_topk, index_n_heads",
	     "deepseek_v3"},
		{"euronet", "\"global_attn_every_n_layers\": 3", "global_attn_every_n_layers", "llama"},
		{"some_other", "\"bos_token_id\": 0, \"num_extra_towers\": 0", "", "llama"},
		{"git", "\"residual_moe\": true", "residual_moe", "llama"},
		{"qwen3_later", "\"full_attention_interval\": 4", "full_attention_interval", "qwen3"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char text[512], warning[LK_MODEL_WARNING], remedy[64];
		lk_model model;
		lk_error err = {0};
		snprintf(text, sizeof text,
		         "{\"model_type\": \"%s\", " SMALL
		         ", \"intermediate_size\": 128, \"vocab_size\": 100, %s}",
		         cases[i].type, cases[i].members);
		assert_int_equal(from_text(text, &model, warning, &err), LK_ERR_INPUT);
		snprintf(remedy, sizeof remedy, "--as %s ", cases[i].as);
		if (!strstr(err.what, cases[i].type) || !strstr(err.what, cases[i].names) ||
		    strncmp(err.hint, remedy, strlen(remedy)) != 0)
			fail_msg("%s: %s; %s", cases[i].type, err.what, err.hint);
		assert_int_equal(from_text_as(text, "llama", &model, warning, &err), LK_OK);
		assert_string_equal(model.family, "llama");
		if (!strstr(warning, "read as llama (--as)") || !strstr(warning, cases[i].names))
			fail_msg("%s: %s", cases[i].type, warning);
		/* The same members under a known type: what could shape the network is refused there too.
		 */
		snprintf(text, sizeof text, LLAMA ", %s}", cases[i].members);
		lk_status status = from_text(text, &model, warning, &err);
		assert_int_equal(status, *cases[i].names ? LK_ERR_INPUT : LK_OK);
	}
	lk_model model;
	lk_error err = {0};
	assert_int_equal(from_text("{" SMALL ", \"intermediate_size\": 128, \"vocab_size\": 100}",
	                           &model, NULL, &err),
	                 LK_ERR_INPUT);
	assert_non_null(strstr(err.what, "no model_type"));
	assert_int_equal(from_text_as(LLAMA "}", "lama", &model, NULL, &err), LK_ERR_INPUT);
	assert_non_null(strstr(err.hint, "llama"));
	assert_int_equal(
		from_text(LLAMA ", \"mamba_d_state\": 0, \"use_cache\": true}", &model, NULL, &err), LK_OK);
	/* Where reading it as another type would fail, that is no remedy. */
	assert_int_equal(from_text("{\"model_type\": \"hyena\", \"hidden_size\": 64, "
	                           "\"num_hidden_layers\": 2, \"state_size\": 16}",
	                           &model, NULL, &err),
	                 LK_ERR_INPUT);
	assert_non_null(strstr(err.what, "state_size"));
	assert_null(strstr(err.hint, "--as"));
}

/* The hint for a slip in the name of a family names that family, wherever its row is. */
static void test_slips_of_types(void **state) {
	(void)state;
	for (const lk_hf_family *row = lk_hf_families; row->type; row++) {
		char slip[80], wanted[96];
		lk_model model;
		lk_error err = {0};
		snprintf(slip, sizeof slip, "%s_", row->type);
		snprintf(wanted, sizeof wanted, "did you mean %s?", row->type);
		assert_int_equal(from_text_as(LLAMA "}", slip, &model, NULL, &err), LK_ERR_INPUT);
		assert_string_equal(err.hint, wanted);
	}
}

/* Members that change a network and that its type does not have, by name; what is switched off or
 * neutral passes; names of one thing that contradict one another do not. */
static void test_unread_members(void **state) {
	(void)state;
	static const struct {
		const char *text, *name;
	} refused[] = {
		{LLAMA ", \"attn_output_gate\": true}", "attn_output_gate"},
		{LLAMA ", \"num_kv_shared_layers\": 1}", "num_kv_shared_layers"},
		{LLAMA ", \"num_key_value_heads_per_layer\": [4, 2]}", "num_key_value_heads_per_layer"},
		{LLAMA ", \"layer_types\": [\"linear_attention\", \"full_attention\"]}", "layer_types"},
		{LLAMA ", \"sliding_window_pattern\": 2}", "sliding_window_pattern"},
		{LLAMA ", \"is_hybrid\": true}", "is_hybrid"},
		{LLAMA ", \"vision_config\": {\"depth\": 9}}", "vision_config"},
		{LLAMA ", \"dim\": 32}", "dim"},
		{LLAMA ", \"position_embedding_type\": \"relative_key\"}", "position_embedding_type"},
		{"{\"text_config\": " LLAMA "}, \"resampler\": {\"depth\": 6}}", "resampler"},
		{"{\"text_config\": " LLAMA "}, \"num_query_tokens\": 64}", "num_query_tokens"},
		{"{\"model_type\": \"mpt\", \"d_model\": 64, \"n_heads\": 4, \"n_layers\": 2, "
	     "\"vocab_size\": 100, \"attn_config\": {\"alibi\": true, \"qk_gn\": true}}",
	     "qk_gn of attn_config"},
		{"{\"model_type\": \"ernie4_5_moe\", " SMALL ", \"intermediate_size\": 128, "
	     "\"vocab_size\": 100, \"moe_num_experts\": 4, \"moe_k\": 1, \"moe_intermediate_size\": "
	     "32, \"moe_layer_end_index\": 0}",
	     "moe_layer_end_index"},
		{"{\"model_type\": \"llama4_text\", " SMALL ", \"intermediate_size\": 128, "
	     "\"vocab_size\": 100, \"interleave_moe_layer_step\": 2, \"moe_layers\": [0]}",
	     "moe_layers"},
		{"{\"model_type\": \"exaone4\", " SMALL ", \"intermediate_size\": 128, \"vocab_size\": "
	     "100, \"sliding_window\": 8, \"sliding_window_pattern\": \"LGLL\"}",
	     "sliding_window_pattern"},
		{"{\"model_type\": \"lfm2\", " SMALL ", \"intermediate_size\": 128, \"vocab_size\": 100, "
	     "\"full_attn_idxs\": [1], \"conv_bias\": true}",
	     "conv_bias"},
		{"{\"model_type\": \"lfm2\", " SMALL ", \"intermediate_size\": 128, \"vocab_size\": 100}",
	     "full_attn_idxs"},
		{"{\"model_type\": \"kimi_linear\", " SMALL
	     ", \"intermediate_size\": 128, \"vocab_size\": 100}",
	     "linear_attn_config"},
		{"{\"model_type\": \"xlstm\", \"hidden_size\": 64, \"num_blocks\": 2, \"num_heads\": 5, "
	     "\"vocab_size\": 100}",
	     "5 heads"},
		{"{\"model_type\": \"esm\", " SMALL ", \"intermediate_size\": 128, \"vocab_size\": 33, "
	     "\"position_embedding_type\": \"absolute\"}",
	     "position_embedding_type"},
	};
	lk_model model;
	for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
		lk_error err = {0};
		if (from_text(refused[i].text, &model, NULL, &err) != LK_ERR_INPUT ||
		    !strstr(err.what, refused[i].name))
			fail_msg("%s: %s", refused[i].text, err.what);
	}
	lk_model plain = model_of(LLAMA "}"),
			 neutral = model_of(LLAMA ", \"attn_output_gate\": false, \"vision_config\": null, "
	                                  "\"dim\": 64, \"position_embedding_type\": \"absolute\", "
	                                  "\"mlp_only_layers\": [], \"use_cache\": true}");
	assert_memory_equal(&plain, &neutral, sizeof plain);
}

/* ---- parameters of every family against counts of its own ---- */

#define TEXT_OF(number) #number
#define SHAPE(layers, hidden, heads, kv_heads, ffn, vocab)                   \
	"\"num_hidden_layers\": " TEXT_OF(layers) ", \"hidden_size\": " TEXT_OF( \
		hidden) ", "                                                         \
				"\"num_"                                                     \
				"attention_"                                                 \
				"heads\":"                                                   \
				" " TEXT_OF(heads) ", \"num_key_value_heads\": " TEXT_OF(    \
					kv_heads) ", \"intermediate_size\": " TEXT_OF(ffn) ", "  \
																	   "\"v" \
																	   "oca" \
																	   "b_"  \
																	   "siz" \
																	   "e\"" \
																	   ":"   \
																	   " " TEXT_OF(vocab)

#define TENTH                                                                                  \
	"\"mamba\", \"mamba\", \"mamba\", \"mamba\", \"mamba\", \"mamba\", \"mamba\", \"mamba\", " \
	"\"mamba\", \"attention\""
#define TENTHS TENTH ", "

/* Elements of the weights as published (the totals that the hubs state with each model). */
static const struct {
	const char *type, *members;
	double params;
} published_shapes[] = {
	{"gemma3_text",
     "\"num_hidden_layers\": 24, \"hidden_size\": 768, \"num_attention_heads\": 3, "
     "\"num_key_value_heads\": 1, \"head_dim\": 256, \"intermediate_size\": 1152, \"vocab_size\": "
     "262144, \"sliding_window\": 512, \"use_bidirectional_attention\": true",
     302863104},
	{"nomic_bert",
     "\"n_layer\": 12, \"n_embd\": 768, \"n_head\": 12, \"n_inner\": 3072, \"vocab_size\": 30528, "
     "\"activation_function\": \"swiglu\", \"prenorm\": false, \"rotary_emb_fraction\": 1.0",
     136731648},
	{"xlstm",
     "\"num_blocks\": 32, \"embedding_dim\": 4096, \"num_heads\": 8, \"qk_dim_factor\": 0.5, "
     "\"v_dim_factor\": 1.0, \"ffn_proj_factor\": 2.667, \"ffn_round_up_to_multiple_of\": 64, "
     "\"vocab_size\": 50304, \"use_bias\": false",
     6865424896},
	{"arctic",
     "\"num_hidden_layers\": 35, \"hidden_size\": 7168, \"num_attention_heads\": 56, "
     "\"num_key_value_heads\": 8, \"intermediate_size\": 4864, \"vocab_size\": 32000, "
     "\"num_local_experts\": 128, \"num_experts_per_tok\": 2, \"moe_layer_frequency\": 1",
     476850526208},
	{"esm",
     "\"num_hidden_layers\": 33, \"hidden_size\": 1280, \"num_attention_heads\": 20, "
     "\"intermediate_size\": 5120, \"vocab_size\": 33, \"position_embedding_type\": \"rotary\", "
     "\"token_dropout\": true",
     649400320},
	{"eurobert",
     "\"num_hidden_layers\": 12, \"hidden_size\": 768, \"num_attention_heads\": 12, "
     "\"num_key_value_heads\": 12, \"intermediate_size\": 3072, \"vocab_size\": 128256, "
     "\"mask_token\": \"<|mask|>\"",
     211766016},
	{"dinov3_vit",
     "\"num_hidden_layers\": 24, \"hidden_size\": 1024, \"num_attention_heads\": 16, "
     "\"intermediate_size\": 4096, \"image_size\": 224, \"patch_size\": 16, \"num_channels\": 3, "
     "\"num_register_tokens\": 4, \"query_bias\": true, \"key_bias\": false, \"value_bias\": true",
     303129600},
	{"phi3small",
     "\"num_hidden_layers\": 32, \"hidden_size\": 4096, \"num_attention_heads\": 32, "
     "\"num_key_value_heads\": 8, \"ff_intermediate_size\": 14336, \"vocab_size\": 100352, "
     "\"blocksparse_block_size\": 64, \"blocksparse_num_local_blocks\": 16, "
     "\"blocksparse_vert_stride\": 8, \"dense_attention_every_n_layers\": 2",
     7392272384},
	{"vaultgemma",
     "\"num_hidden_layers\": 26, \"hidden_size\": 1152, \"num_attention_heads\": 4, "
     "\"num_key_value_heads\": 4, \"head_dim\": 256, \"intermediate_size\": 6912, \"vocab_size\": "
     "256000, \"sliding_window\": 512",
     1038741120},
	{"xlm-roberta-xl",
     "\"num_hidden_layers\": 36, \"hidden_size\": 2560, \"num_attention_heads\": 32, "
     "\"intermediate_size\": 10240, \"vocab_size\": 250880, \"max_position_embeddings\": 514, "
     "\"type_vocab_size\": 1",
     3482485760},
	{"flex_olmo",
     "\"num_hidden_layers\": 32, \"hidden_size\": 4096, \"num_attention_heads\": 32, "
     "\"intermediate_size\": 11008, \"vocab_size\": 100352, \"num_experts\": 2, "
     "\"num_experts_per_tok\": 2",
     11627401216},
	{"solar_open",
     "\"num_hidden_layers\": 48, \"hidden_size\": 4096, \"num_attention_heads\": 64, "
     "\"num_key_value_heads\": 8, \"head_dim\": 128, \"intermediate_size\": 10240, \"vocab_size\": "
     "196608, \"n_routed_experts\": 128, \"num_experts_per_tok\": 8, \"moe_intermediate_size\": "
     "1280, \"n_shared_experts\": 1, \"first_k_dense_replace\": 0",
     102651799552},
	{"exaone_moe",
     "\"num_hidden_layers\": 48, \"hidden_size\": 6144, \"num_attention_heads\": 64, "
     "\"num_key_value_heads\": 8, \"head_dim\": 128, \"intermediate_size\": 18432, \"vocab_size\": "
     "153600, \"num_experts\": 128, \"num_experts_per_tok\": 8, \"moe_intermediate_size\": 2048, "
     "\"num_shared_experts\": 1, \"first_k_dense_replace\": 1, \"sliding_window\": 128, "
     "\"sliding_window_pattern\": \"LLLG\"",
     236571156352},
	{"helium",
     "\"num_hidden_layers\": 24, \"hidden_size\": 2560, \"num_attention_heads\": 20, "
     "\"num_key_value_heads\": 20, \"head_dim\": 128, \"intermediate_size\": 7040, \"vocab_size\": "
     "48000",
     2172643840},
	{"lfm2",
     "\"num_hidden_layers\": 16, \"hidden_size\": 1024, \"num_attention_heads\": 16, "
     "\"num_key_value_heads\": 8, \"intermediate_size\": 4608, \"block_auto_adjust_ff_dim\": "
     "false, \"conv_L_cache\": 3, \"vocab_size\": 65536, \"full_attn_idxs\": [2, 5, 8, 10, 12, 14]",
     354483968},
	{"olmo", SHAPE(32, 4096, 32, 32, 11008, 50304), 6888095744},
	{"olmo2", SHAPE(32, 4096, 32, 32, 11008, 100352), 7298617344},
	{"olmoe",
     SHAPE(16, 2048, 16, 16, 1024, 50304) ", \"num_experts\": 64, \"num_experts_per_tok\": 8",
     6919161856},
	{"starcoder2", SHAPE(32, 4608, 36, 4, 18432, 49152) ", \"use_bias\": true", 7173923840},
	{"stablelm", SHAPE(32, 2560, 32, 32, 6912, 50304), 2795443200},
	{"stablelm", SHAPE(24, 2048, 32, 32, 5632, 100352) ", \"use_qkv_bias\": true", 1644515328},
	{"internlm2", SHAPE(32, 4096, 32, 8, 14336, 92544) ", \"bias\": false", 7737708544},
	{"glm", SHAPE(40, 4096, 32, 2, 13696, 151552) ", \"head_dim\": 128", 9399951360},
	{"chatglm",
     "\"num_layers\": 28, \"hidden_size\": 4096, \"num_attention_heads\": 32, \"kv_channels\": "
     "128, "
     "\"ffn_hidden_size\": 13696, \"padded_vocab_size\": 65024, \"multi_query_attention\": true, "
     "\"multi_query_group_num\": 2, \"add_qkv_bias\": true, \"post_layer_norm\": true",
     6243584000},
	{"granite", SHAPE(40, 4096, 32, 8, 12800, 49155) ", \"tie_word_embeddings\": true", 8170848256},
	{"phimoe",
     SHAPE(32, 4096, 32, 8, 6400, 32064) ", \"attention_bias\": true, \"lm_head_bias\": true",
     41873153344},
	{"ernie4_5", SHAPE(18, 1024, 16, 2, 3072, 103424) ", \"head_dim\": 128", 360748032},
	{"seed_oss",
     SHAPE(64, 5120, 80, 8, 27648, 155136) ", \"head_dim\": 128, \"attention_out_bias\": false",
     36151104512},
	{"exaone", SHAPE(32, 4096, 32, 8, 14336, 102400), 7818448896},
	{"smollm3", SHAPE(36, 2048, 16, 4, 11008, 128256), 3075098624},
	{"qwen", SHAPE(32, 4096, 32, 32, 22016, 151936) ", \"kv_channels\": 128, \"no_bias\": true",
     7721324544},
	{"deepseek",
     SHAPE(28, 2048, 16, 16, 10944, 102400) ", \"first_k_dense_replace\": 1, \"n_routed_experts\": "
                                            "64, \"n_shared_experts\": 2, \"num_experts_per_tok\": "
                                            "6, \"moe_intermediate_size\": 1408",
     16375728128},
	{"dbrx",
     "\"d_model\": 6144, \"n_heads\": 48, \"n_layers\": 40, \"vocab_size\": 100352, "
     "\"attn_config\": "
     "{\"kv_n_heads\": 8}, \"ffn_config\": {\"ffn_hidden_size\": 10752, \"moe_num_experts\": 16, "
     "\"moe_top_k\": 4}",
     131596523520},
	{"gptj", "\"n_embd\": 4096, \"n_head\": 16, \"n_layer\": 28, \"vocab_size\": 50400",
     6050882784},
	{"granitemoe",
     SHAPE(24, 1024, 16, 8, 512, 49155) ", \"num_local_experts\": 32, \"num_experts_per_tok\": 8, "
                                        "\"tie_word_embeddings\": true",
     1334628352},
	{"cohere", SHAPE(64, 12288, 96, 8, 33792, 256000) ", \"use_qk_norm\": true", 103810674688},
	{"stablelm",
     SHAPE(40, 5120, 32, 8, 13824,
           100352) ", \"use_parallel_residual\": true, \"qk_layernorm\": true",
     12143185920},
	{"exaone4",
     SHAPE(30, 2048, 32, 8, 4096, 102400) ", \"head_dim\": 64, \"tie_word_embeddings\": true",
     1279391488},
	{"olmo3", SHAPE(64, 5120, 40, 8, 27648, 100278), 32233522176},
	{"mt5",
     "\"vocab_size\": 250112, \"d_model\": 768, \"num_layers\": 12, \"num_heads\": 12, \"d_kv\": "
     "64, "
     "\"d_ff\": 2048, \"tie_word_embeddings\": false, \"feed_forward_proj\": \"gated-gelu\"",
     582401280},
	{"hunyuan_v1_moe",
     SHAPE(32, 4096, 32, 8, 3072, 128167) ", \"num_experts\": 64, \"moe_topk\": [8, 8], "
                                          "\"moe_intermediate_size\": [3072, 3072], "
                                          "\"num_shared_expert\": [1, 1], \"use_mixed_mlp_moe\": "
                                          "true, \"use_qk_norm\": true, "
                                          "\"tie_word_embeddings\": true",
     80393183232},
	{"modernbert",
     "\"num_hidden_layers\": 28, \"hidden_size\": 1024, \"num_attention_heads\": 16, "
     "\"intermediate_size\": 2624, \"vocab_size\": 50368, \"global_attn_every_n_layers\": 3, "
     "\"local_attention\": 128",
     394781696},
	{"mamba",
     "\"vocab_size\": 50280, \"hidden_size\": 768, \"num_hidden_layers\": 24, \"state_size\": 16, "
     "\"expand\": 2, \"time_step_rank\": 48",
     129135360},
	{"falcon_mamba",
     "\"vocab_size\": 65024, \"hidden_size\": 4096, \"num_hidden_layers\": 64, \"state_size\": 16, "
     "\"intermediate_size\": 8192",
     7272665088},
	{"mamba2",
     "\"vocab_size\": 50288, \"hidden_size\": 768, \"num_hidden_layers\": 24, \"num_heads\": 24, "
     "\"head_dim\": 64, \"n_groups\": 1",
     128989632},
	{"rwkv", "\"vocab_size\": 50277, \"hidden_size\": 768, \"num_hidden_layers\": 12", 169342464},
	{"falcon_h1",
     SHAPE(36, 1024, 8, 2, 2048, 32784) ", \"head_dim\": 64, \"mamba_d_ssm\": 1536, "
                                        "\"mamba_n_heads\": 24, \"mamba_d_head\": 64, "
                                        "\"mamba_d_state\": 128, \"mamba_n_groups\": 1",
     521411104},
	{"granitemoehybrid",
     SHAPE(40, 1536, 12, 4, 512, 100352) ", \"num_local_experts\": 64, \"num_experts_per_tok\": 6, "
                                         "\"shared_intermediate_size\": 1024, "
                                         "\"tie_word_embeddings\": true, \"mamba_n_heads\": 48, "
                                         "\"mamba_d_head\": 64, \"mamba_d_state\": 128, "
                                         "\"position_embedding_type\": \"nope\", "
                                         "\"layer_types\": [" TENTHS TENTHS TENTHS TENTH "]",
     6939037248},
	{"gpt_neo",
     "\"hidden_size\": 2048, \"num_heads\": 16, \"num_layers\": 24, \"vocab_size\": 50257, "
     "\"attention_types\": [[[\"global\", \"local\"], 12]]",
     1315575808},
};

/* Two layers of 64, four heads of 16 with two for keys and values, MLPs of 128, 100 words: */
#define TINY SHAPE(2, 64, 4, 2, 128, 100)
enum {
	TINY_WORDS = 100 * 64,
	TINY_HEADS = 2 * 64 * 64 + 2 * 64 * 32,
	TINY_QKV_BIAS = 64 + 2 * 32,
	TINY_GATED = 3 * 64 * 128,
	TINY_PLAIN = 2 * 64 * 128,
	TINY_EXPERT = 3 * 64 * 32
};

static const struct {
	const char *type, *members;
	double params;
} tiny_shapes[] = {
	{"llama", "", 2 * TINY_WORDS + 2 * (TINY_HEADS + TINY_GATED + 2 * 64) + 64},
	{"ministral3", "", 2 * TINY_WORDS + 2 * (TINY_HEADS + TINY_GATED + 2 * 64) + 64},
	{"baichuan", "", 2 * TINY_WORDS + 2 * (TINY_HEADS + TINY_GATED + 2 * 64) + 64},
	{"xverse", "", 2 * TINY_WORDS + 2 * (TINY_HEADS + TINY_GATED + 2 * 64) + 64},
	{"minicpm", "", TINY_WORDS + 2 * (TINY_HEADS + TINY_GATED + 2 * 64) + 64},
	{"arcee", "", 2 * TINY_WORDS + 2 * (TINY_HEADS + TINY_PLAIN + 2 * 64) + 64},
	{"orion", "", 2 * TINY_WORDS + 2 * (TINY_HEADS + TINY_GATED + 4 * 64) + 2 * 64},
	{"nemotron", "", 2 * TINY_WORDS + 2 * (TINY_HEADS + TINY_PLAIN + 4 * 64) + 2 * 64},
	{"apertus", ", \"qk_norm\": true",
     2 * TINY_WORDS + 2 * (TINY_HEADS + TINY_PLAIN + 2 * 64 + 2 * 16) + 64},
	{"internlm", ", \"bias\": true",
     2 * TINY_WORDS + 2 * (TINY_HEADS + TINY_QKV_BIAS + 64 + TINY_GATED + 2 * 64) + 64},
	{"internlm3", ", \"qkv_bias\": true",
     2 * TINY_WORDS + 2 * (TINY_HEADS + TINY_QKV_BIAS + TINY_GATED + 2 * 64) + 64},
	{"glm4", "", 2 * TINY_WORDS + 2 * (TINY_HEADS + TINY_GATED + 4 * 64) + 64},
	{"exaone4", ", \"sliding_window\": 8, \"sliding_window_pattern\": \"LG\"",
     2 * TINY_WORDS + 2 * (TINY_HEADS + TINY_GATED + 2 * 64 + 2 * 16) + 64},
	{"hunyuan_v1_dense", ", \"use_qk_norm\": true, \"use_cla\": false, \"cla_share_factor\": 2",
     2 * TINY_WORDS + 2 * (TINY_HEADS + TINY_GATED + 2 * 64 + 2 * 16) + 64},
	{"olmo3", "", 2 * TINY_WORDS + 2 * (TINY_HEADS + TINY_GATED + 2 * 64 + 64 + 32) + 64},
	{"cohere", ", \"use_qk_norm\": true",
     TINY_WORDS + 2 * (TINY_HEADS + TINY_GATED + 64 + 64 + 32) + 64},
	{"cohere2", "", TINY_WORDS + 2 * (TINY_HEADS + TINY_GATED + 64) + 64},
	{"stablelm", ", \"qk_layernorm\": true, \"use_parallel_residual\": true",
     2 * TINY_WORDS + 2 * (TINY_HEADS + TINY_GATED + 2 * 64 + 64 + 32) + 2 * 64},
	{"persimmon", "",
     2 * TINY_WORDS +
         2 * (TINY_HEADS + TINY_QKV_BIAS + 64 + TINY_PLAIN + 128 + 64 + 4 * 64 + 4 * 16) + 2 * 64},
	{"granitemoe", ", \"num_local_experts\": 4, \"num_experts_per_tok\": 2",
     2 * TINY_WORDS + 2 * (TINY_HEADS + 4 * TINY_GATED + 4 * 64 + 2 * 64) + 64},
	{"granitemoeshared",
     ", \"num_local_experts\": 4, \"num_experts_per_tok\": 2, \"shared_intermediate_size\": 32",
     2 * TINY_WORDS + 2 * (TINY_HEADS + 4 * TINY_GATED + TINY_EXPERT + 4 * 64 + 2 * 64) + 64},
	{"glm4_moe",
     ", \"n_routed_experts\": 4, \"num_experts_per_tok\": 2, \"n_shared_experts\": 1, "
     "\"first_k_dense_replace\": 1, \"moe_intermediate_size\": 32, \"attention_bias\": true",
     2 * TINY_WORDS + 2 * (TINY_HEADS + TINY_QKV_BIAS + 2 * 64) + TINY_GATED + 5 * TINY_EXPERT +
         4 * 64 + 4 + 64},
	{"dots1",
     ", \"n_routed_experts\": 4, \"num_experts_per_tok\": 2, \"n_shared_experts\": 2, "
     "\"first_k_dense_replace\": 1, \"moe_intermediate_size\": 32",
     2 * TINY_WORDS + 2 * (TINY_HEADS + 2 * 64 + 2 * 16) + TINY_GATED + 6 * TINY_EXPERT + 4 * 64 +
         4 + 64},
	{"ernie4_5_moe",
     ", \"moe_num_experts\": 4, \"moe_k\": 2, \"moe_num_shared_experts\": 2, "
     "\"moe_layer_start_index\": 1, \"moe_layer_end_index\": 1, \"moe_layer_interval\": 1, "
     "\"moe_intermediate_size\": 32",
     TINY_WORDS + 2 * (TINY_HEADS + 2 * 64) + TINY_GATED + 6 * TINY_EXPERT + 4 * 64 + 4 + 64},
	{"llama4_text",
     ", \"num_local_experts\": 4, \"num_experts_per_tok\": 1, \"interleave_moe_layer_step\": 2, "
     "\"moe_layers\": [1], \"intermediate_size_mlp\": 256, \"use_qk_norm\": true",
     2 * TINY_WORDS + 2 * (TINY_HEADS + 2 * 64) + 2 * TINY_GATED + 5 * TINY_GATED + 4 * 64 + 64},
	{"kimi_k2",
     ", \"kv_lora_rank\": 8, \"qk_nope_head_dim\": 16, \"qk_rope_head_dim\": 8, \"v_head_dim\": 12",
     2 * TINY_WORDS +
         2 * (64 * 4 * 24 + 64 * 16 + 8 + 8 * 4 * 28 + 4 * 12 * 64 + TINY_GATED + 2 * 64) + 64},
	{"minicpm3",
     ", \"kv_lora_rank\": 8, \"qk_nope_head_dim\": 16, \"qk_rope_head_dim\": 8, \"q_lora_rank\": "
     "24",
     TINY_WORDS +
         2 * (64 * 24 + 24 + 24 * 4 * 24 + 64 * 16 + 8 + 8 * 4 * 32 + 64 * 64 + TINY_GATED +
              2 * 64) +
         64},
};

static void assert_params(const char *type, const char *members, double params) {
	char text[2048];
	snprintf(text, sizeof text, "{\"model_type\": \"%s\", %s}", type, members);
	lk_model model = model_of(text);
	assert_string_equal(model.family, type);
	if (lk_model_params(&model) != params || parts(&model) != params)
		fail_msg("%s: %.0f, expected %.0f", type, lk_model_params(&model), params);
}

static void test_family_counts(void **state) {
	(void)state;
	for (size_t i = 0; i < sizeof published_shapes / sizeof *published_shapes; i++)
		assert_params(published_shapes[i].type, published_shapes[i].members,
		              published_shapes[i].params);
	for (size_t i = 0; i < sizeof tiny_shapes / sizeof *tiny_shapes; i++) {
		char members[768];
		snprintf(members, sizeof members, "%s%s", TINY, tiny_shapes[i].members);
		assert_params(tiny_shapes[i].type, members, tiny_shapes[i].params);
	}
	lk_model codegen = model_of("{\"model_type\": \"codegen\", \"n_embd\": 64, \"n_head\": 4, "
	                            "\"n_layer\": 2, \"n_ctx\": 2048, \"n_positions\": 2048, "
	                            "\"vocab_size\": 100}");
	assert_true(lk_model_params(&codegen) ==
	            2 * TINY_WORDS + 100 + 2 * (4 * 64 * 64 + 8 * 64 * 64 + 5 * 64 + 2 * 64) + 2 * 64);
}

static void test_warnings(void **state) {
	(void)state;
	lk_model model;
	lk_error err;
	char warning[LK_MODEL_WARNING];
	lk_model llama = model_of(LLAMA "}");
	static const char nested[] =
		"{\"thinker_config\": {\"text_config\": " LLAMA "}, \"audio_config\": {\"d_model\": 9}}, "
		"\"tie_word_embeddings\": true}";
	assert_int_equal(from_text(nested, &model, warning, &err), LK_ERR_INPUT);
	assert_non_null(strstr(err.what, "audio_config"));
	assert_non_null(strstr(err.hint, "--as llama"));
	assert_int_equal(from_text_as(nested, "llama", &model, warning, &err), LK_OK);
	assert_non_null(strstr(warning, "audio_config is not counted"));
	assert_true(lk_model_params(&llama) - lk_model_params(&model) == 100 * 64);

	static const char odd[] = "{\"model_type\": \"mistral\", " SMALL
							  ", \"num_hidden_layers\": 4, \"intermediate_size\": 9, "
							  "\"vocab_size\": 9, \"sliding_window\": 8, \"layer_types\": "
							  "[\"full_attention\", \"sliding_attention\", "
							  "\"sliding_attention\", \"full_attention\"]}";
	assert_int_equal(from_text(odd, &model, warning, &err), LK_OK);
	assert_string_equal(warning, "");
	assert_string_equal(model.order, "*- 2w-");
	for (int i = 0; i < 4; i++)
		assert_int_equal(lk_model_window(&model, i), i == 1 || i == 2 ? 8 : 0);
}

static int full_layers(const char *name) {
	lk_model m = preset(name);
	int count = 0;
	for (int i = 0; i < m.layers; i++) count += lk_model_window(&m, i) == 0;
	return count;
}

static void test_windows(void **state) {
	(void)state;
	assert_int_equal(full_layers("gemma3-1b"), 4);
	assert_int_equal(full_layers("gemma3-27b"), 10);
	assert_int_equal(full_layers("gemma2-9b"), 21);
	assert_int_equal(full_layers("gpt-oss-120b"), 18);
	assert_int_equal(full_layers("mistral-7b-v0.1"), 0);
	assert_int_equal(full_layers("llama3-8b"), 32);
	assert_int_equal(full_layers("qwen2-7b"), 28);
	lk_model oss = preset("gpt-oss-20b");
	assert_int_equal(lk_model_window(&oss, 0), 128);
	assert_int_equal(lk_model_window(&oss, 1), 0);
}

static int moe_layers(const lk_model *model) {
	int count = 0;
	for (int i = -1; i <= model->layers; i++) count += lk_model_is_moe(model, i);
	return count;
}

static void test_moe_layers(void **state) {
	(void)state;
	lk_model v3 = preset("deepseek-v3"), qwen = preset("qwen3-30b-a3b"),
			 llama = preset("llama3-8b");
	assert_int_equal(moe_layers(&v3), 58);
	assert_false(lk_model_is_moe(&v3, 2));
	assert_true(lk_model_is_moe(&v3, 3));
	assert_int_equal(moe_layers(&qwen), 48);
	assert_int_equal(moe_layers(&llama), 0);
	lk_model step = model_of("{\"model_type\": \"qwen3_moe\", " SMALL
	                         ", \"num_hidden_layers\": 5, \"intermediate_size\": 9, "
	                         "\"vocab_size\": 9, \"num_experts\": 4, \"num_experts_per_tok\": 1, "
	                         "\"decoder_sparse_step\": 2}");
	for (int i = 0; i < 5; i++) assert_int_equal(lk_model_is_moe(&step, i), i % 2 == 1);
	lk_layer_params dense = lk_model_layer_params(&step, 0), moe = lk_model_layer_params(&step, 1);
	assert_true(dense.experts == 0 && dense.router == 0 && dense.mlp == 3 * 64 * 9);
	assert_true(moe.experts == 4 * 3 * 64 * 9 && moe.router == 4 * 64 && moe.mlp == 0);
}

static void assert_near(double a, double b, double relative) {
	if (!(fabs(a - b) <= relative * fabs(b))) fail_msg("%.17g, expected %.17g", a, b);
}

/* GPT, llama and latent attention against formulas written out by hand. */
static void test_flops_closed_forms(void **state) {
	(void)state;
	lk_model gpt = preset("gpt3-175b");
	double s = 2048, h = 12288, l = 96, v = 51200;
	/* 72 s l h^2 (1 + s/6h + V/12lh) of arXiv 2104.04473, equation 3 less recomputation, its scores
	 * halved as causal. */
	assert_near(lk_model_flops(&gpt, 2048),
	            72 * s * l * h * h * (1 + s / (12 * h) + v / (12 * l * h)), 1e-12);

	lk_model llama = preset("llama3.1-8b");
	s = 8192;
	double layer = 4096 * (4096 + 1024 + 1024) + 4096. * 4096 + 3. * 4096 * 14336 + 4096 * s;
	assert_near(lk_model_flops(&llama, 8192), 6 * s * (32 * layer + 4096. * 128256), 1e-12);

	lk_model v3 = preset("deepseek-v3");
	v3.mtp_layers = 0;
	s = 4096;
	double mla =
		7168. * 1536 + 1536. * 128 * 192 + 7168. * 576 + 512. * 128 * 256 + 128. * 128 * 7168;
	double scores = s / 2 * 128 * (192 + 128), moe = 9 * 3. * 7168 * 2048 + 7168 * 256;
	double want = 6 * s * (61 * (mla + scores) + 3 * 3. * 7168 * 18432 + 58 * moe + 7168. * 129280);
	assert_near(lk_model_flops(&v3, 4096), want, 1e-12);
	v3.mtp_layers = 1;
	want += 6 * s * (mla + scores + moe + 2. * 7168 * 7168 + 7168. * 129280);
	assert_near(lk_model_flops(&v3, 4096), want, 1e-12);
}

static void test_flops_other_networks(void **state) {
	(void)state;
	lk_model bert = preset("bert-base"), vit = preset("vit-b16-224"), t5 = preset("t5-base");
	double h = 768, s = 512, layer = 12 * h * h;
	assert_near(lk_model_flops(&bert, 512), 6 * (12 * (s * layer + 2 * h * s * s) + h * h), 1e-12);
	s = 197;
	assert_near(lk_model_flops(&vit, 197), 6 * (12 * (s * layer + 2 * h * s * s) + 196 * h * h),
	            1e-12);
	s = 512;
	double encoder = s * layer + 2 * h * s * s,
		   decoder = s * (layer + 4 * h * h) + 2 * h * (s * s / 2 + s * s);
	assert_near(lk_model_flops(&t5, 512), 6 * (12 * (encoder + decoder) + s * h * 32128), 1e-12);
	assert_true(lk_model_flops(&t5, 0) == 0 && lk_model_flops(&t5, -5) == 0);
}

/* Windowed attention against counting pairs one by one; the continuous form is off by less than one
 * pair per token. */
static void test_flops_window(void **state) {
	(void)state;
	lk_model m = preset("mistral-7b-v0.1"), open = m;
	open.window = 0;
	for (int window = 1; window <= 700; window += 37) {
		int seq = 500;
		double missing = 0;
		for (int i = 0; i < seq; i++) missing += i + 1 > window ? i + 1 - window : 0;
		m.window = window;
		double per_pair = 6. * 32 * 2 * 32 * 128,
			   less = (lk_model_flops(&open, seq) - lk_model_flops(&m, seq)) / per_pair;
		assert_true(fabs(less - missing) <= seq);
		assert_true(window < seq ? less > 0 : less == 0);
	}
}

/* Any one field set to any extreme: refused with a hint, or counted without overflow. */
static void test_check_extremes(void **state) {
	(void)state;
	static const int extremes[] = {INT_MIN, -1,    0,       1,       2,       7,
	                               10000,   65536, 1 << 20, 1 << 24, 1 << 26, INT_MAX};
	static const size_t fields[] = {
		offsetof(lk_model, layers),        offsetof(lk_model, decoder_layers),
		offsetof(lk_model, hidden),        offsetof(lk_model, heads),
		offsetof(lk_model, kv_heads),      offsetof(lk_model, head_dim),
		offsetof(lk_model, ffn),           offsetof(lk_model, vocab),
		offsetof(lk_model, context),       offsetof(lk_model, norms_per_layer),
		offsetof(lk_model, position_rows), offsetof(lk_model, token_types),
		offsetof(lk_model, embed_dim),     offsetof(lk_model, relative_buckets),
		offsetof(lk_model, q_lora),        offsetof(lk_model, kv_lora),
		offsetof(lk_model, qk_nope),       offsetof(lk_model, qk_rope),
		offsetof(lk_model, v_dim),         offsetof(lk_model, attention_sinks),
		offsetof(lk_model, experts),       offsetof(lk_model, topk),
		offsetof(lk_model, expert_ffn),    offsetof(lk_model, shared_ffn),
		offsetof(lk_model, dense_layers),  offsetof(lk_model, moe_every),
		offsetof(lk_model, moe_offset),    offsetof(lk_model, window),
		offsetof(lk_model, full_every),    offsetof(lk_model, mtp_layers),
		offsetof(lk_model, image),         offsetof(lk_model, patch),
		offsetof(lk_model, channels),
	};
	static const char *const names[] = {"deepseek-v3", "t5-base", "vit-b16-224", "opt-350m",
	                                    "qwen3-30b-a3b"};
	int refused = 0;
	for (size_t n = 0; n < sizeof names / sizeof *names; n++)
		for (size_t f = 0; f < sizeof fields / sizeof *fields; f++)
			for (size_t x = 0; x < sizeof extremes / sizeof *extremes; x++) {
				lk_model m = preset(names[n]);
				lk_error err = {0};
				memcpy((char *)&m + fields[f], &extremes[x], sizeof(int));
				lk_status status = lk_model_check(&m, "here", &err);
				if (extremes[x] < 0) assert_int_equal(status, LK_ERR_INPUT);
				if (status == LK_OK) {
					assert_true(parts(&m) == lk_model_params(&m) && lk_model_params(&m) < 9.1e15);
					assert_true(isfinite(lk_model_flops(&m, INT_MAX)));
				} else {
					refused++;
					assert_string_equal(err.where, "here");
					assert_true(err.what[0] && err.hint[0]);
				}
			}
	assert_true(refused > 500);
	lk_model m = preset("gpt2");
	m.dropout = NAN;
	lk_error err;
	assert_int_equal(lk_model_check(&m, "here", &err), LK_ERR_INPUT);
}

static void test_read(void **state) {
	(void)state;
	char folder[64], path[96];
	snprintf(path, sizeof path, "%s/config.json", new_folder(folder));
	lk_model model;
	lk_error err = {0};
	assert_int_not_equal(lk_model_read(folder, NULL, &model, NULL, &err), LK_OK);
	assert_non_null(strstr(err.where, "config.json"));
	write_text(path, LLAMA "}");
	assert_int_equal(lk_model_read(folder, NULL, &model, NULL, &err), LK_OK);
	assert_int_equal(model.hidden, 64);
	assert_int_equal(lk_model_read(path, NULL, &model, NULL, &err), LK_OK);
	assert_int_equal(truncate(path, 64 << 20), 0);
	assert_int_not_equal(lk_model_read(path, NULL, &model, NULL, &err), LK_OK);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rmdir(folder), 0);
}

/* ---- against the public tables ---- */

static lk_csv *open_table(const char *name, lk_stream **in) {
	char path[128];
	lk_error err = {0};
	lk_csv *csv = NULL;
	snprintf(path, sizeof path, "measured/%s", name);
	if (lk_stream_open(need_data(path), in, &err) != LK_OK || lk_csv_open(*in, &csv, &err) != LK_OK)
		fail_msg("%s", err.what);
	return csv;
}

static bool next_row(lk_csv *csv) {
	bool more = false;
	lk_error err = {0};
	if (lk_csv_next(csv, &more, &err) != LK_OK) fail_msg("%s: %s", err.where, err.what);
	return more;
}

static const char *field(const lk_csv *csv, const char *column) {
	return lk_csv_field(csv, lk_csv_column(csv, column));
}

static void test_public_counts(void **state) {
	(void)state;
	lk_stream *in = NULL;
	lk_csv *csv = open_table("hf_param_counts.csv", &in);
	int rows = 0;
	for (; next_row(csv); rows++) {
		lk_model m = preset(field(csv, "model")), file;
		char path[128];
		lk_error err = {0};
		snprintf(path, sizeof path, "tests/data/hf/%s.json", field(csv, "model"));
		const char *as = strstr(path, "gemma-3-4b") ? "gemma3_text" : NULL;
		if (lk_model_read(path, as, &file, NULL, &err) != LK_OK)
			fail_msg("%s: %s", err.where, err.what);
		double want = atof(field(csv, "params"));
		if (lk_model_params(&m) != want || lk_model_params(&file) != want)
			fail_msg("%s: preset %.0f, config %.0f, table %.0f", m.name, lk_model_params(&m),
			         lk_model_params(&file), want);
	}
	assert_int_equal(rows, 21);
	lk_csv_close(csv);
	lk_stream_close(in);
}

static void same(const lk_csv *csv, const char *column, int value) {
	const char *text = field(csv, column);
	if (*text && atoi(text) != value)
		fail_msg("%s: %s is %s, preset %d", lk_csv_where(csv), column, text, value);
}

static void test_public_runs(void **state) {
	(void)state;
	lk_stream *in = NULL;
	lk_csv *csv = open_table("llm_runs.csv", &in);
	int rows = 0;
	for (; next_row(csv); rows++) {
		lk_model m = preset(field(csv, "model"));
		same(csv, "layers", m.layers);
		same(csv, "hidden", m.hidden);
		same(csv, "heads", m.heads);
		same(csv, "kv_heads", m.kv_heads);
		same(csv, "head_dim", m.head_dim);
		same(csv, "ffn", m.ffn);
		same(csv, "vocab", m.vocab);
		same(csv, "gated", m.gated);
		same(csv, "experts", m.experts);
		same(csv, "topk", m.topk);
		same(csv, "expert_ffn", m.expert_ffn);
		same(csv, "dense_layers", m.dense_layers);
		same(csv, "shared_experts", m.expert_ffn ? m.shared_ffn / m.expert_ffn : 0);
	}
	assert_true(rows > 300);
	lk_csv_close(csv);
	lk_stream_close(in);
}

/* The public checkpoint of microsoft/resnet-152: convolutions, batch norms, classifier. */
static void resnet_is_a_convnet(void **state) {
	(void)state;
	lk_model m =
		model_of("{\"model_type\": \"resnet\", \"num_channels\": 3, \"embedding_size\": 64,"
	             "\"hidden_sizes\": [256, 512, 1024, 2048], \"depths\": [3, 8, 36, 3],"
	             "\"layer_type\": \"bottleneck\", \"hidden_act\": \"relu\"}");
	assert_true(lk_model_params(&m) == 60192808);
	m = model_of("{\"model_type\": \"resnet\", \"depths\": [2, 2, 2, 2], \"layer_type\": \"basic\","
	             "\"hidden_sizes\": [64, 128, 256, 512], \"num_labels\": 10}");
	assert_true(lk_model_params(&m) == 11689512 - 990 * 513);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(resnet_is_a_convnet),
		cmocka_unit_test(test_config_files),
		cmocka_unit_test(test_presets),
		cmocka_unit_test(test_known_totals),
		cmocka_unit_test(test_encoders_of_images),
		cmocka_unit_test(test_vision_configs),
		cmocka_unit_test(test_other_encoders),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_beginnings),
		cmocka_unit_test(test_wrong_configs),
		cmocka_unit_test(test_unknown_networks),
		cmocka_unit_test(test_slips_of_types),
		cmocka_unit_test(test_unread_members),
		cmocka_unit_test(test_family_counts),
		cmocka_unit_test(test_warnings),
		cmocka_unit_test(test_windows),
		cmocka_unit_test(test_moe_layers),
		cmocka_unit_test(test_flops_closed_forms),
		cmocka_unit_test(test_flops_other_networks),
		cmocka_unit_test(test_flops_window),
		cmocka_unit_test(test_check_extremes),
		cmocka_unit_test(test_read),
		cmocka_unit_test(test_public_counts),
		cmocka_unit_test(test_public_runs),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
