/* recipes.c: networks by the names of recipes: of NeMo 2.0 (nemo llm pretrain --factory llama3_70b)
 * and Megatron-Bridge (--recipe llama3_70b_pretrain_config, NVIDIA-NeMo/Megatron-Bridge,
 * src/megatron/bridge/recipes), which share their stems, and of torchtitan (--module llama3
 * --config llama3_70b, pytorch/torchtitan, torchtitan/models/NAME/config_registry.py); and how
 * Bridge's library lays them out where the command line does not say. */
#include <string.h>

#include "base/arena.h"
#include "base/text.h"
#include "launch/launch.h"

/* clang-format off */
/* preset, stem of NeMo 2.0 and Megatron-Bridge */
#define NAMED(preset, stem) {preset, stem, {0}, {0}}
/* module, configuration, micro-batch, tokens, tp, ep, all recomputed */
#define TITAN(module, config, mbs, seq, tp, ep, full) {module, config, mbs, seq, tp, ep, full}
/* GPUs, tp, pp, vp, cp, ep, global batch, tokens */
#define BRIDGE(gpus, tp, pp, vp, cp, ep, gbs, seq) {gpus, tp, pp, vp, cp, ep, gbs, seq}

static const lk_recipe recipes[] = {
	NAMED("llama2-7b", "llama2_7b"),
	{"llama3-8b", "llama3_8b",
	 TITAN("llama3", "llama3_8b", 1, 8192, 1, 1, false), BRIDGE(2, 1, 1, 0, 2, 1, 512, 8192)},
	{"llama3-70b", "llama3_70b",
	 TITAN("llama3", "llama3_70b", 8, 8192, 8, 1, true), BRIDGE(32, 4, 4, 5, 2, 1, 512, 8192)},
	NAMED("llama3.1-8b", "llama31_8b"),
	NAMED("llama3.1-70b", "llama31_70b"),
	{"llama3.1-405b", "llama31_405b",
	 TITAN("llama3", "llama3_405b", 2, 8192, 8, 1, true), BRIDGE(256, 8, 8, 2, 4, 1, 512, 131072)},
	NAMED("llama3.2-1b", "llama32_1b"),
	NAMED("llama3.2-3b", "llama32_3b"),
	NAMED("qwen2-0.5b", "qwen2_500m"),
	NAMED("qwen2-1.5b", "qwen2_1p5b"),
	NAMED("qwen2-7b", "qwen2_7b"),
	NAMED("qwen2-72b", "qwen2_72b"),
	NAMED("qwen2.5-0.5b", "qwen25_500m"),
	NAMED("qwen2.5-1.5b", "qwen25_1p5b"),
	NAMED("qwen2.5-7b", "qwen25_7b"),
	NAMED("qwen2.5-14b", "qwen25_14b"),
	NAMED("qwen2.5-32b", "qwen25_32b"),
	NAMED("qwen2.5-72b", "qwen25_72b"),
	{"qwen3-0.6b", "qwen3_600m", TITAN("qwen3", "qwen3_0_6b", 4, 4096, 1, 1, false), {0}},
	{"qwen3-1.7b", "qwen3_1p7b", TITAN("qwen3", "qwen3_1_7b", 4, 4096, 1, 1, false), {0}},
	NAMED("qwen3-4b", "qwen3_4b"),
	NAMED("qwen3-8b", "qwen3_8b"),
	{"qwen3-14b", "qwen3_14b", TITAN("qwen3", "qwen3_14b", 4, 4096, 1, 1, true), {0}},
	{"qwen3-32b", "qwen3_32b", TITAN("qwen3", "qwen3_32b", 2, 4096, 1, 1, true), {0}},
	{"qwen3-30b-a3b", "qwen3_30b_a3b", TITAN("qwen3", "qwen3_30b_a3b", 2, 4096, 1, 1, true), {0}},
	NAMED("qwen3-235b-a22b", "qwen3_235b_a22b"),
	NAMED("deepseek-v2", "deepseek_v2"),
	{"deepseek-v2-lite", "deepseek_v2_lite",
	 TITAN("deepseek_v3", "deepseek_v3_16b", 4, 4096, 1, 8, false), {0}},
	{"deepseek-v3", "deepseek_v3",
	 TITAN("deepseek_v3", "deepseek_v3_671b", 4, 4096, 1, 2, false),
	 BRIDGE(1024, 2, 16, 0, 1, 64, 4096, 4096)},
	NAMED("moonlight-16b-a3b", "moonlight_16b"),
	{"gpt-oss-20b", "gpt_oss_20b",
	 TITAN("gpt_oss", "gpt_oss_20b", 1, 8192, 1, 1, true), BRIDGE(16, 2, 4, 0, 1, 4, 512, 4096)},
	{"gpt-oss-120b", "gpt_oss_120b", TITAN("gpt_oss", "gpt_oss_120b", 1, 8192, 1, 1, true), {0}},
	NAMED("glm4.5-air", "glm45_air_106b"),
	NAMED("gemma2-2b", "gemma2_2b"),
	NAMED("gemma2-9b", "gemma2_9b"),
	NAMED("gemma2-27b", "gemma2_27b"),
	NAMED("gemma3-1b", "gemma3_1b"),
	NAMED("mixtral-8x7b", "mixtral_8x7b"),
	NAMED("mixtral-8x22b", "mixtral_8x22b"),
	NAMED("gpt3-175b", "gpt3_175b"),
};
/* clang-format on */

enum {
	RECIPES = sizeof recipes / sizeof *recipes
};

const lk_recipe *lk_recipe_of_preset(const char *preset) {
	for (size_t i = 0; i < RECIPES; i++)
		if (strcmp(recipes[i].preset, preset) == 0) return &recipes[i];
	return NULL;
}

/* "llama3_70b", "llama3_70b_pretrain_config", "llama3_70b_pretrain_64gpu_h100_bf16_config",
 * "llama3_70b(num_nodes=4)": the longest stem that a name begins with. */
const lk_recipe *lk_recipe_of_stem(const char *name) {
	const lk_recipe *best = NULL;
	size_t most = 0;
	for (size_t i = 0; i < RECIPES; i++) {
		size_t length = strlen(recipes[i].stem);
		bool whole = strncmp(name, recipes[i].stem, length) == 0 &&
		             strchr("_(", name[length]) != NULL; /* strchr finds the end too */
		if (whole && length > most) best = &recipes[i], most = length;
	}
	return best;
}

/* Of several networks with one configuration the first. */
const lk_recipe *lk_recipe_of_titan(const char *config) {
	for (size_t i = 0; i < RECIPES; i++)
		if (recipes[i].titan.config && strcmp(recipes[i].titan.config, config) == 0)
			return &recipes[i];
	return NULL;
}

/* A stem without a row is the network that it names: "llama3_70b_pretrain_config" llama3_70b. */
const char *lk_recipe_network(lk_arena *arena, const char *name) {
	static const char *const ends[] = {"_pretrain", "_finetune", "_sft", "_peft", "_config", "("};
	const lk_recipe *recipe = lk_recipe_of_stem(name);
	if (recipe) return recipe->preset;
	size_t length = strlen(name);
	for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
		const char *at = strstr(name, ends[i]);
		if (at && at > name && (size_t)(at - name) < length) length = (size_t)(at - name);
	}
	return lk_arena_strndup(arena, name, length);
}
