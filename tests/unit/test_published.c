/* test_published.c: configs in the form of public repositories, bookkeeping included (lists of
 * labels and tokens left out): each is read without --as and without a warning, its parameters
 * within 0.5 % of the total that is known of it, active ones within 1 %, and its layers add up to
 * its total. Sizes are the networks'; members that no count reads, such as the longest sequence or
 * the base of rotary positions, are not always. Totals are published ones, to the digits that are
 * known.
 *
 * A line of tests/data/hf/published.jsonl holds one: {"name", "params", "active", "config"}. */
#include "networks.h"
#include "rounds.h"
#include "model/layout/sizes.h"

#include <stdio.h>
#include <stdlib.h>

static double number_of(const lk_value *row, const char *name) {
	const lk_value *value = lk_json_get(row, name);
	return value && value->kind == LK_JSON_NUMBER ? value->number : 0;
}

static double sum_of_parts(const lk_model *model) {
	double sum = lk_model_embedding_params(model) + lk_model_head_params(model) + model->beside;
	for (int i = 0; i < model->layers + model->decoder_layers; i++) {
		lk_layer_params layer = lk_model_layer_params(model, i);
		sum += layer.attention + layer.mlp + layer.router + layer.experts + layer.norms;
	}
	return sum;
}

static void check_row(lk_value *row) {
	const char *name = lk_json_get(row, "name")->text;
	char warning[LK_MODEL_WARNING];
	lk_model model;
	lk_error err = {0};
	if (lk_model_from_hf(lk_json_get(row, "config"), name, NULL, &model, warning, &err) != LK_OK)
		fail_msg("%s: %s; %s", err.where, err.what, err.hint);
	double params = number_of(row, "params"), active = number_of(row, "active");
	if (fabs(lk_model_params(&model) / params - 1) > .005)
		fail_msg("%s: %.0f parameters, published %.0f", name, lk_model_params(&model), params);
	if (active > 0 && fabs(lk_model_active_params(&model) / active - 1) > .01)
		fail_msg("%s: %.0f active parameters, published %.0f", name, lk_model_active_params(&model),
		         active);
	if (sum_of_parts(&model) != lk_model_params(&model)) fail_msg("%s: parts are no sum", name);
	if (*warning) fail_msg("%s: %s", name, warning);
}

/* Calls `look` with each row; returns how many there are. */
static int each_row(void (*look)(lk_value *row)) {
	FILE *file = fopen("tests/data/hf/published.jsonl", "r");
	char *line = NULL;
	size_t room = 0;
	int rows = 0;
	assert_non_null(file);
	for (; getline(&line, &room, file) > 0; rows++) {
		lk_arena arena = LK_ARENA_INIT;
		lk_stream *in = NULL;
		lk_value *row = NULL;
		lk_error err = {0};
		assert_int_equal(lk_stream_memory(line, strlen(line), "published.jsonl", &in, &err), LK_OK);
		if (lk_json_document(&arena, in, &row, &err) != LK_OK) fail_msg("%s", err.what);
		look(row);
		lk_stream_close(in);
		lk_arena_free(&arena);
	}
	free(line);
	fclose(file);
	return rows;
}

static void published_configs_are_read(void **state) {
	(void)state;
	assert_true(each_row(check_row) > 150);
}

static void expect_answer_or_error(const lk_value *row, const char *member) {
	lk_model model;
	char warning[LK_MODEL_WARNING];
	lk_error err = {0};
	const char *name = lk_json_get(row, "name")->text;
	if (lk_model_from_hf(lk_json_get(row, "config"), name, NULL, &model, warning, &err) == LK_OK) {
		double params = lk_model_params(&model);
		if (!(params > 0 && params < 1e18)) fail_msg("%s, %s: %g parameters", name, member, params);
	} else if (!*err.where || !*err.what) fail_msg("%s, %s: no error", name, member);
}

/* One member at a time is missing or something else: an answer or an error, whatever it is. */
static void confuse_members(const lk_value *row, lk_value *object) {
	static const lk_value others[] = {
		{.kind = LK_JSON_NULL},
		{.kind = LK_JSON_TRUE},
		{.kind = LK_JSON_FALSE},
		{.kind = LK_JSON_ARRAY},
		{.kind = LK_JSON_OBJECT},
		{.kind = LK_JSON_STRING, .text = "x"},
		{.kind = LK_JSON_NUMBER, .number = 0, .text = "0"},
		{.kind = LK_JSON_NUMBER, .number = -1, .text = "-1"},
		{.kind = LK_JSON_NUMBER, .number = .5, .text = "0.5"},
		{.kind = LK_JSON_NUMBER, .number = 2147483647, .text = "2147483647"},
		{.kind = LK_JSON_NUMBER, .number = 1e300, .text = "1e300"},
	};
	enum { OTHERS = sizeof others / sizeof *others };
	static unsigned turn;
	for (size_t i = 0; i < object->count; i++) {
		lk_value kept = object->items[i];
		for (int k = 0, tries = takes_long() ? OTHERS : 2; k < tries; k++) {
			object->items[i] = others[turn++ % OTHERS];
			expect_answer_or_error(row, object->keys ? object->keys[i] : "a list");
		}
		object->items[i] = kept;
		bool nested = kept.kind == LK_JSON_OBJECT || kept.kind == LK_JSON_ARRAY;
		if (nested && kept.count < 70) confuse_members(row, &object->items[i]);
	}
}

static void confuse_row(lk_value *row) {
	confuse_members(row, (lk_value *)lk_json_get(row, "config"));
}

static void wrong_members_are_answered(void **state) {
	(void)state;
	each_row(confuse_row);
}

/* nemotron-nas: halves left out, MLPs of two widths: parameters and operations by hand, and a step
 * that keeps nothing. */
static void narrowed_layers_are_counted(void **state) {
	(void)state;
	static const char text[] =
		"{\"model_type\": \"nemotron-nas\", \"num_hidden_layers\": 5, \"hidden_size\": 1536, "
		"\"num_attention_heads\": 12, \"num_key_value_heads\": null, \"intermediate_size\": null, "
		"\"vocab_size\": 1000, \"max_position_embeddings\": 1024, \"block_configs\": ["
		"{\"attention\": {\"n_heads_in_group\": 3, \"no_op\": false}, \"ffn\": {\"ffn_mult\": "
		"2.0}}, "
		"{\"attention\": {\"no_op\": true}, \"ffn\": {\"ffn_mult\": 0.55, \"no_op\": false}}, "
		"{\"attention\": {\"n_heads_in_group\": 3}, \"ffn\": {\"no_op\": true}}, "
		"{\"attention\": {\"no_op\": true}, \"ffn\": {\"no_op\": true}}, "
		"{\"attention\": {\"n_heads_in_group\": 3}, \"ffn\": {\"ffn_mult\": 0.55}}]}";
	lk_model model = model_of(text);
	/* 2 * 2 * 1536 / 3 = 2048; 2 * 0.55 * 1536 / 3 = 563.2, a multiple of 256: 768 */
	double h = 1536, attention = 2 * h * h + 2 * h * 512, wide = 3 * h * 2048, narrow = 3 * h * 768,
		   matrices = 3 * attention + wide + 2 * narrow;
	assert_int_equal(model.layers, 4);
	assert_string_equal(model.order, "*- -768 * *-768");
	assert_true(lk_model_params(&model) == matrices + 6 * h + h + 2 * 1000 * h);
	double s = 1024, forward = s * (matrices + 1000 * h), pairs = 3 * 2 * h * s * s / 2;
	assert_true(fabs(lk_model_flops(&model, 1024) / (6 * (forward + pairs)) - 1) < 1e-12);
	for (int tp = 1; tp <= 4; tp *= 4) {
		lk_arena arena = LK_ARENA_INIT;
		lk_job job = {.gpus = 4, .tp = tp, .mbs = 2, .gbs = 8, .seq = 1024};
		lk_step step = ask(&model, job, &arena);
		double made, want = 8 * (6 * (forward + pairs) + pairs); /* flash attention's backward */
		assert_true(fabs(left_over(step.graph, &made)) <= 1e-9 * made);
		if (fabs(step.executed_flops / want - 1) > 1e-3)
			fail_msg("%.9g operations, not %.9g", step.executed_flops, want);
		lk_step_free(&step);
		lk_arena_free(&arena);
	}
}

/* Layers that take turns with sets of weights: parameters once, operations of every use, by hand; a
 * step that keeps nothing; what stages would share is refused. */
static void sets_of_weights_are_shared(void **state) {
	(void)state;
	static const char text[] =
		"{\"model_type\": \"zamba2\", \"num_hidden_layers\": 6, \"hidden_size\": 512, "
		"\"num_attention_heads\": 8, \"intermediate_size\": 1024, \"vocab_size\": 1000, "
		"\"max_position_embeddings\": 1024, \"num_mem_blocks\": 2, \"adapter_rank\": 16, "
		"\"use_shared_attention_adapter\": true, \"n_mamba_heads\": 16, \"mamba_headdim\": 64, "
		"\"layers_block_type\": [\"mamba\", \"hybrid\", \"mamba\", \"hybrid\", \"mamba\", "
		"\"hybrid\"]}";
	lk_model model = model_of(text);
	double h = 512, f = 1024, s = 1024, block = 14 * h * h + 3 * h * f,
		   use = h * h + 16 * (h + 2 * f) + 16 * 12 * h, d = 1024, n = 64, wide = d + 2 * n,
		   in = d + wide + 16, scan = in * h + d * h, mamba = scan + wide * 5 + 3 * 16 + d + h;
	assert_string_equal(model.order, "M *- M");
	assert_int_equal(model.layers, 9);
	assert_true(lk_model_params(&model) ==
	            2 * (block + 3 * h) + 3 * use + 6 * mamba + 1000 * h + h);
	double forward = s * (3 * (block + use) + 6 * (scan + 3.5 * d * n) + 1000 * h),
		   pairs = 3 * 2 * 1024 * s * s / 2;
	assert_true(fabs(lk_model_flops(&model, 1024) / (6 * (forward + pairs)) - 1) < 1e-12);
	static const char bert[] = "{\"model_type\": \"albert\", \"num_hidden_layers\": 4, "
							   "\"hidden_size\": 512, \"num_attention_heads\": 8, "
							   "\"intermediate_size\": 2048, \"vocab_size\": 1000}";
	lk_model all = model_of(bert), *both[] = {&model, &all};
	for (int i = 0; i < 2; i++) {
		lk_arena arena = LK_ARENA_INIT;
		lk_job job = {.gpus = 1, .mbs = 2, .gbs = 4, .seq = 512};
		lk_step step = ask(both[i], job, &arena);
		double made;
		assert_true(fabs(left_over(step.graph, &made)) <= 1e-9 * made);
		/* Mamba-2's chunks take more operations than the recurrence counts */
		double counted = 4 * lk_model_flops(both[i], 512);
		assert_true(step.executed_flops > counted * .999 && step.executed_flops < counted * 1.5);
		lk_step_free(&step);
		lk_cluster cluster;
		lk_error err;
		assert_int_equal(
			lk_cluster_parse(&arena, "1 node * 8 h100-sxm nvlink4, nic 8*400g", &cluster, &err),
			LK_OK);
		job = (lk_job){.model = *both[i], .gpus = 2, .pp = 2, .mbs = 1, .gbs = 4, .seq = 512};
		assert_int_equal(lk_job_complete(&job, &cluster, &err), LK_ERR_INPUT);
		assert_string_equal(err.where, "--pp");
		lk_arena_free(&arena);
	}
}

/* Gemma 3n: streams beside the residual one; operations by hand, a step that keeps nothing. */
static void streams_are_counted(void **state) {
	(void)state;
	static const char text[] =
		"{\"model_type\": \"gemma3n_text\", \"num_hidden_layers\": 5, \"hidden_size\": 512, "
		"\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"head_dim\": 128, "
		"\"intermediate_size\": 1024, \"vocab_size\": 1000, \"vocab_size_per_layer_input\": 900, "
		"\"hidden_size_per_layer_input\": 64, \"laurel_rank\": 16, \"sliding_window\": 128}";
	lk_model model = model_of(text);
	double h = 512, s = 512, p = 64, n = 4, w = 128,
		   streams = n * h + n * n * n + n * n + 2 * h * 16 + 2 * h * p,
		   layer = 2 * h * 512 + 2 * h * 256 + 3 * h * 1024 + streams,
		   edges = 6 * h * h + h * p * 5;
	assert_true(lk_model_params(&model) ==
	            5 * (layer + 8 * h + 2 * 128) + edges + 900 * p * 5 + p + h + 1000 * h);
	double products = s * (5 * layer + edges + 1000 * h),
		   pairs = 2 * 512 * (4 * (s * w - w * w / 2) + s * s / 2);
	assert_true(fabs(lk_model_flops(&model, 512) / (6 * (products + pairs)) - 1) < 1e-12);
	lk_arena arena = LK_ARENA_INIT;
	lk_job job = {.gpus = 1, .mbs = 2, .gbs = 4, .seq = 512};
	lk_step step = ask(&model, job, &arena);
	/* flash attention's backward; streams are scored twice */
	double made, want = 4 * (6 * (products + pairs) + pairs + 6 * s * 5 * n * h);
	assert_true(fabs(left_over(step.graph, &made)) <= 1e-9 * made);
	if (fabs(step.executed_flops / want - 1) > 1e-3)
		fail_msg("%.9g operations, not %.9g", step.executed_flops, want);
	lk_step_free(&step);
	lk_arena_free(&arena);
}

/* Swin: windows of a stage's images, and the products over their pixels, by hand. */
static void windows_of_images_are_counted(void **state) {
	(void)state;
	static const char text[] =
		"{\"model_type\": \"swin\", \"image_size\": 56, \"embed_dim\": 32, \"depths\": [2, 1], "
		"\"num_heads\": [2, 4], \"window_size\": 7, \"num_labels\": 10}";
	lk_model model = model_of(text);
	double d = 32, first = 12 * d * d + 13 * d + 169 * 2, e = 64,
		   second = 12 * e * e + 13 * e + 169 * 4 + 8 * d * d + 8 * d;
	assert_true(lk_model_params(&model) ==
	            48 * d + d + 2 * d + 2 * first + second + 2 * e + (e + 1) * 10);
	/* 14 x 14 pixels in four windows, then 7 x 7 in one */
	double macs = 196 * (48 * d + 2 * (12 * d * d + 2 * 49 * d)) +
	              49 * (8 * d * d + 12 * e * e + 2 * 49 * e) + e * 10;
	assert_true(fabs(lk_model_flops(&model, 1) / (6 * macs) - 1) < 1e-12);
	lk_arena arena = LK_ARENA_INIT;
	lk_job job = {.gpus = 1, .mbs = 8, .gbs = 16};
	lk_step step = ask(&model, job, &arena);
	double made, want = 16 * (6 * macs - 2 * 196 * 48 * d); /* pixels need no gradient */
	assert_true(fabs(left_over(step.graph, &made)) <= 1e-9 * made);
	if (fabs(step.executed_flops / want - 1) > 2e-2)
		fail_msg("%.9g operations, not %.9g", step.executed_flops, want);
	lk_step_free(&step);
	lk_arena_free(&arena);
}

/* RWKV-5 to 7: products by hand, steps that keep nothing, whole and with split backward passes. */
static void rwkv_versions(void **state) {
	(void)state;
	static const char *const rest[] = {
		"\"rwkv5\", \"head_size\": 64", "\"rwkv6\", \"head_size\": 64",
		("\"rwkv7\", \"head_dim\": 64, \"decay_low_rank_dim\": 32, \"a_low_rank_dim\": 16, "
	     "\"v_low_rank_dim\": 24, \"gate_low_rank_dim\": 48")};
	double h = 512, s = 512, f[] = {1792, 1792, 2048},
		   time[] = {5 * h * h, 5 * h * h + 320 * h + 2 * 64 * h, 4 * h * h + 2 * 120 * h},
		   channel[] = {h * h, h * h, 0}, core[] = {3, 3, 5};
	for (int i = 0; i < 3; i++) {
		char text[512];
		snprintf(text, sizeof text,
		         "{\"hidden_size\": 512, \"num_hidden_layers\": 4, \"vocab_size\": 1000, "
		         "\"model_type\": %s}",
		         rest[i]);
		lk_model model = model_of(text);
		double products = 4 * (time[i] + channel[i] + 2 * h * f[i]) + 1000 * h,
			   want = 6 * s * (products + 4 * core[i] * 64 * h);
		assert_true(fabs(lk_model_flops(&model, 512) / want - 1) < 1e-12);
		assert_true(sum_of_parts(&model) == lk_model_params(&model));
		for (int pp = 1; pp <= 2; pp++) {
			lk_arena arena = LK_ARENA_INIT;
			lk_job job = {.gpus = pp, .pp = pp, .mbs = 2, .gbs = 8, .seq = 512};
			if (pp > 1) job.schedule = LK_SCHED_ZB_H1;
			lk_step step = ask(&model, job, &arena);
			double made;
			assert_true(fabs(left_over(step.graph, &made)) <= 1e-9 * made);
			assert_true(step.executed_flops > 8 * want * .95 &&
			            step.executed_flops < 8 * want * 1.2);
			lk_step_free(&step);
			lk_arena_free(&arena);
		}
	}
}

/* umt5 is mt5 with a table of distances in every layer. */
static void tables_of_distances(void **state) {
	(void)state;
	static const char rest[] = "\"d_model\": 512, \"d_kv\": 64, \"d_ff\": 1024, \"num_heads\": 6, "
							   "\"num_layers\": 8, \"vocab_size\": 1000}";
	char one[256], all[256];
	snprintf(one, sizeof one, "{\"model_type\": \"mt5\", %s", rest);
	snprintf(all, sizeof all, "{\"model_type\": \"umt5\", %s", rest);
	lk_model first = model_of(one), every = model_of(all);
	assert_true(lk_model_params(&every) - lk_model_params(&first) == (16 - 2) * 32 * 6);
	assert_true(sum_of_parts(&every) == lk_model_params(&every));
}

/* deberta-v2-xlarge: a convolution over three tokens and its norm. */
static void convolution_of_deberta(void **state) {
	(void)state;
	static const char text[] =
		"{\"model_type\": \"deberta-v2\", \"hidden_size\": 256, \"num_hidden_layers\": 2, "
		"\"num_attention_heads\": 4, \"attention_head_size\": 64, \"intermediate_size\": 1024, "
		"\"vocab_size\": 1000, \"relative_attention\": true, \"share_att_key\": true, "
		"\"norm_rel_ebd\": \"layer_norm\", \"position_biased_input\": false, "
		"\"position_buckets\": 32, \"conv_kernel_size\": %d, \"conv_act\": \"gelu\"}";
	char with[512], without[512];
	snprintf(with, sizeof with, text, 3);
	snprintf(without, sizeof without, text, 0);
	lk_model convolved = model_of(with), plain = model_of(without);
	double h = 256;
	assert_true(lk_model_params(&convolved) - lk_model_params(&plain) == 3 * h * h + 3 * h);
	assert_true(sum_of_parts(&convolved) == lk_model_params(&convolved));
}

/* A network published with a classifier has its weights: a row for each label. */
static void classifiers_are_counted(void **state) {
	(void)state;
	static const char text[] =
		"{\"model_type\": \"vit\", \"hidden_size\": 192, \"intermediate_size\": 768, "
		"\"num_attention_heads\": 3, \"num_hidden_layers\": 12, \"architectures\": [\"%s\"], "
		"\"id2label\": {\"0\": \"tench\", \"1\": \"goldfish\", \"2\": \"shark\"}}";
	char with[512], without[512];
	snprintf(with, sizeof with, text, "ViTForImageClassification");
	snprintf(without, sizeof without, text, "ViTModel");
	lk_model classifier = model_of(with), backbone = model_of(without);
	assert_true(lk_model_params(&classifier) - lk_model_params(&backbone) == 3 * 193);
}

/* Adapters are on attention alone: of a hybrid on four layers in forty, of Mamba nowhere. */
static void adapters_of_hybrids(void **state) {
	(void)state;
	lk_model model;
	lk_error err = {0};
	assert_int_equal(lk_model_preset("granite4.0-h-micro", &model, &err), LK_OK);
	lk_job job = {.task = LK_TASK_LORA, .gpus = 1, .mbs = 1, .gbs = 2, .seq = 1024};
	lk_arena arena = LK_ARENA_INIT;
	lk_step step = ask(&model, job, &arena);
	double made, left = left_over(step.graph, &made), trained = 0;
	assert_true(fabs(left) <= 1e-9 * made);
	job.model = model;
	assert_int_equal(lk_job_complete(&job, NULL, &err), LK_OK);
	for (int i = 0; i < model.layers; i++) trained += lk_sizes_layer(&job, i).trained_dense;
	assert_true(trained == 4 * 16 * (2 * (2048 + 2048) + 2 * (2048 + 512.)));
	lk_step_free(&step);
	lk_arena_free(&arena);
	assert_int_equal(lk_model_preset("mamba-130m", &job.model, &err), LK_OK);
	assert_int_equal(lk_job_complete(&job, NULL, &err), LK_ERR_INPUT);
	assert_non_null(strstr(err.what, "of which this network has none"));
}

/* Windows begin at a layer, or there is none: null, or -1. */
static void windows_begin_at_a_layer(void **state) {
	(void)state;
	static const char text[] =
		"{\"model_type\": \"%s\", \"hidden_size\": 256, \"intermediate_size\": 512, "
		"\"num_attention_heads\": 4, \"num_hidden_layers\": 40, \"vocab_size\": 1000, "
		"\"sliding_window\": %s%s}";
	static const struct {
		const char *type, *window, *more;
		int from; /* the first layer that attends through the window */
	} cases[] = {
		{"mistral", "-1", "", 40},
		{"mistral", "null", "", 40},
		{"mistral", "64", "", 0},
		{"qwen2", "64", "", 40},
		{"qwen2", "64", ", \"use_sliding_window\": true", 28},
		{"qwen2", "64", ", \"use_sliding_window\": true, \"max_window_layers\": 7", 7},
		{"qwen3_moe", "64",
	     ", \"use_sliding_window\": true, \"max_window_layers\": 3, \"num_experts\": 4, "
	     "\"num_experts_per_tok\": 2, \"moe_intermediate_size\": 128, \"decoder_sparse_step\": 2",
	     3},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char config[512];
		snprintf(config, sizeof config, text, cases[i].type, cases[i].window, cases[i].more);
		lk_model model = model_of(config);
		for (int layer = 0; layer < 40; layer++)
			assert_int_equal(lk_model_window(&model, layer), layer < cases[i].from ? 0 : 64);
		for (int layer = 0; layer < 40 && model.experts > 0; layer++)
			assert_int_equal(lk_model_is_moe(&model, layer), layer % 2);
	}
}

/* A network that sees is not its language model alone. */
static void encoders_are_stated(void **state) {
	(void)state;
	static const char *const configs[] = {
		"{\"model_type\": \"qwen2_5_vl\", \"hidden_size\": 256, \"intermediate_size\": 512, "
		"\"num_attention_heads\": 4, \"num_hidden_layers\": 4, \"vocab_size\": 1000%s}",
		"{\"model_type\": \"llava\", \"text_config\": {\"model_type\": \"llama\", "
		"\"hidden_size\": 256, \"num_hidden_layers\": 4}%s}",
	};
	static const char *const without[] = {"", ", \"vision_config\": null"};
	for (size_t i = 0; i < 4; i++) {
		char config[512];
		lk_model model;
		lk_error err = {0};
		snprintf(config, sizeof config, configs[i / 2], without[i % 2]);
		assert_int_equal(read_text(config, &model, &err), LK_ERR_INPUT);
		assert_non_null(strstr(err.what, "vision_config"));
		assert_non_null(strstr(err.hint, "--as "));
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(published_configs_are_read),
	                                   cmocka_unit_test(wrong_members_are_answered),
	                                   cmocka_unit_test(narrowed_layers_are_counted),
	                                   cmocka_unit_test(sets_of_weights_are_shared),
	                                   cmocka_unit_test(streams_are_counted),
	                                   cmocka_unit_test(rwkv_versions),
	                                   cmocka_unit_test(windows_of_images_are_counted),
	                                   cmocka_unit_test(tables_of_distances),
	                                   cmocka_unit_test(convolution_of_deberta),
	                                   cmocka_unit_test(classifiers_are_counted),
	                                   cmocka_unit_test(windows_begin_at_a_layer),
	                                   cmocka_unit_test(encoders_are_stated),
	                                   cmocka_unit_test(adapters_of_hybrids)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
