/* keys_megatron.c: Megatron-LM's functional tests (model_config.yaml), as the words of a launch
 * line, which megatron.c reads. A test's program is in its folder's name (bert, t5, ...). */
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/text.h"
#include "base/noun.h"
#include "launch/frameworks/frameworks.h"

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

lk_status lk_megatron_test(const lk_config *config, lk_words *words) {
	const lk_value *root = config->root, *variables = lk_config_at(root, "ENV_VARS");
	int nodes, per_node;
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
