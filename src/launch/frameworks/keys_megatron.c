/* keys_megatron.c: the files in which Megatron-LM and what is built on Megatron-Core keep their
 * flags: the functional tests' model_config.yaml, --yaml-cfg, NeMo 1's Hydra files and
 * Megatron-Bridge's. All become the words of a launch line, which megatron.c reads.
 *
 * A functional test does not say its program: the folder of the test does (bert, t5, ...). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/arena.h"
#include "base/text.h"
#include "base/noun.h"
#include "launch/frameworks/frameworks.h"

/* ---- functional tests */

static bool test_is(const lk_value *root) {
	return lk_config_at(root, "MODEL_ARGS") != NULL;
}

/* Nodes and GPUs by the end of the folder's name, "dgx_a100_1N8G": 1 and 8. */
static void test_gpus(const char *file, int *nodes, int *per_node) {
	*nodes = 1;
	*per_node = 8;
	for (const char *at = file; (at = strchr(at, '_')) != NULL; at++) {
		int n, g, end = 0;
		if (sscanf(at, "_%dN%dG%n", &n, &g, &end) != 2 || end == 0) continue;
		if (n < 1 || g < 1 || n > 4096 || g > 64 || (at[end] != '/' && at[end] != '_')) continue;
		*nodes = n;
		*per_node = g;
	}
	if (*per_node == 8 && strstr(file, "gb200") && !strstr(file, "N8G")) *per_node = 4;
}

static const char *test_program(const char *file) {
	static const char *const kinds[][2] = {{"/bert/", "pretrain_bert.py"},
	                                       {"/t5/", "pretrain_t5.py"},
	                                       {"/multimodal-llava/", "pretrain_vlm.py"},
	                                       {"/mimo/", "pretrain_vlm.py"}};
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
		if (strstr(file, kinds[i][0])) return kinds[i][1];
	return "pretrain_gpt.py";
}

static lk_status test_flags(const lk_config *config, const lk_value *flags, lk_words *words) {
	for (size_t i = 0; flags && flags->kind == LK_JSON_OBJECT && i < flags->count; i++) {
		const char *name = flags->keys[i] + strspn(flags->keys[i], "-");
		LK_TRY(lk_config_flag_words(config, name, &flags->items[i], words));
	}
	return LK_OK;
}

static lk_status test_translate(const lk_config *config, lk_words *words) {
	const lk_value *root = config->root, *variables = lk_config_at(root, "ENV_VARS");
	const char *mode = lk_config_text(lk_config_at(root, "MODE"));
	const char *type = lk_config_text(lk_config_at(root, "TEST_TYPE"));
	bool generates =
		(mode && (strcasecmp(mode, "inference") == 0 || strcasecmp(mode, "rl") == 0)) ||
		lk_config_at(root, "INFERENCE_ARGS");
	int nodes, per_node;
	(void)type;
	if (generates)
		return lk_config_fail(config, "MODE", "the test generates, and trains nothing",
		                      "give one that trains");
	for (size_t i = 0; variables && variables->kind == LK_JSON_OBJECT && i < variables->count;
	     i++) {
		const char *value = lk_config_text(&variables->items[i]);
		if (value)
			LK_TRY(lk_config_word(
				config, lk_arena_printf(config->reading->arena, "%s=%s", variables->keys[i], value),
				words));
	}
	test_gpus(config->file, &nodes, &per_node);
	LK_TRY(lk_launch_assume(config->reading, "%d %s of %d %s, as the tests run (--gpus)", nodes,
	                        lk_noun(nodes, "node", "nodes"), per_node,
	                        lk_noun(per_node, "GPU", "GPUs")));
	config->reading->usual_gpus = nodes * per_node;
	LK_TRY(lk_config_launcher_words(config, test_program(config->file), 0, 0, words));
	LK_TRY(test_flags(config, lk_config_at(root, "MODEL_ARGS"), words));
	lk_megatron_hybrid_program(words);
	return LK_OK;
}

const lk_framework lk_framework_megatron_test = {"megatron", test_is, NULL, test_translate};

/* ---- --yaml-cfg */

static bool yaml_cfg_is(const lk_value *root) {
	return lk_config_at(root, "language_model") && lk_config_at(root, "model_parallel");
}

static lk_status yaml_cfg_translate(const lk_config *config, lk_words *words) {
	static const char *const prefixes[] = {"language_model.", "model_parallel.", "", NULL};
	const lk_value *world = lk_config_at(config->root, "world_size");
	const char *text = lk_config_text(world);
	int gpus = text ? atoi(text) : 0;
	return lk_config_megatron_words(config, prefixes, "pretrain_gpt.py", gpus > 0 ? 1 : 0,
	                                gpus > 0 ? gpus : 0, words);
}

const lk_framework lk_framework_megatron_yaml = {"megatron", yaml_cfg_is, NULL, yaml_cfg_translate};

/* ---- NeMo 1: trainer, model */

static int megatron_whole(const lk_value *root, const char *path) {
	const lk_value *value = lk_config_at(root, path);
	bool fits =
		value && value->kind == LK_JSON_NUMBER && value->number >= 1 && value->number <= 1 << 20;
	return fits ? (int)value->number : 0;
}

static bool nemo_is(const lk_value *root) {
	return lk_config_at(root, "trainer") && lk_config_at(root, "model") &&
	       (lk_config_at(root, "exp_manager") || lk_config_at(root, "trainer.devices") ||
	        lk_config_at(root, "trainer.num_nodes"));
}

/* trainer.precision: bf16, bf16-mixed, 16, 16-mixed, 32. */
static lk_status nemo_numbers(const lk_config *config, lk_words *words) {
	const char *precision = lk_config_text(lk_config_at(config->root, "trainer.precision"));
	if (!precision) return LK_OK;
	if (strncmp(precision, "bf16", 4) == 0) return lk_config_word(config, "--bf16", words);
	return strncmp(precision, "16", 2) == 0 ? lk_config_word(config, "--fp16", words) : LK_OK;
}

static lk_status nemo_translate(const lk_config *config, lk_words *words) {
	static const char *const prefixes[] = {"model.", "model.data.", NULL};
	static const char *const tokenizers[] = {"model.tokenizer.type", "model.tokenizer.model"};
	const char *distributed = lk_config_text(lk_config_at(config->root, "model.optim.name"));
	int nodes = megatron_whole(config->root, "trainer.num_nodes"),
		devices = megatron_whole(config->root, "trainer.devices");
	LK_TRY(lk_config_megatron_words(config, prefixes, "pretrain_gpt.py", nodes, devices, words));
	if (distributed && strstr(distributed, "distributed"))
		LK_TRY(lk_config_word(config, "--use-distributed-optimizer", words));
	LK_TRY(nemo_numbers(config, words));
	for (size_t i = 0; i < 2; i++) {
		const char *name = lk_config_text(lk_config_at(config->root, tokenizers[i]));
		if (!name) continue;
		LK_TRY(lk_config_word(config, "--tokenizer-model", words));
		return lk_config_word(config, name, words);
	}
	return LK_OK;
}

const lk_framework lk_framework_nemo = {"nemo", nemo_is, NULL, nemo_translate};

/* ---- Megatron-Bridge: model, train, dataset, ddp, optimizer */

static bool bridge_is(const lk_value *root) {
	return lk_config_at(root, "model") && lk_config_at(root, "train") &&
	       (lk_config_at(root, "train.global_batch_size") ||
	        lk_config_at(root, "train.micro_batch_size"));
}

static lk_status bridge_translate(const lk_config *config, lk_words *words) {
	static const char *const prefixes[] = {"model.",     "train.",           "dataset.", "ddp.",
	                                       "optimizer.", "mixed_precision.", NULL};
	return lk_config_megatron_words(config, prefixes, "pretrain_gpt.py", 0, 0, words);
}

const lk_framework lk_framework_bridge = {"megatron-bridge", bridge_is, NULL, bridge_translate};
