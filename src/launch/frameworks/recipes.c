/* recipes.c: networks by the names of recipes: of NeMo 2.0 (nemo llm pretrain --factory llama3_70b)
 * and Megatron-Bridge (--recipe llama3_70b_pretrain_config, NVIDIA-NeMo/Megatron-Bridge,
 * src/megatron/bridge/recipes), which share their stems, and of torchtitan (--module llama3
 * --config llama3_70b, pytorch/torchtitan, torchtitan/models/NAME/config_registry.py); and how
 * Bridge's library lays them out where the command line does not say. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/arena.h"
#include "base/check.h"
#include "base/text.h"
#include "launch/frameworks/frameworks.h"
#include "model/read/read.h"

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
	NAMED("kimi-k2", "kimi_k2"),
	NAMED("nemotron4-340b", "nemotron4_340b"),
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
	NAMED("nemotron-nano-9b-v2", "nemotron_nano_9b_v2"),
	NAMED("nemotron-nano-12b-v2", "nemotron_nano_12b_v2"),
	NAMED("nemotron-h-4b", "nemotronh_4b"),
	NAMED("nemotron-h-8b", "nemotronh_8b"),
	NAMED("nemotron-h-47b", "nemotronh_47b"),
	NAMED("nemotron-h-56b", "nemotronh_56b"),
	NAMED("nemotron3-nano-30b-a3b", "nemotron_3_nano"),
	NAMED("nemotron3-nano-30b-a3b", "nemotron_3_nano_omni"),
	NAMED("nemotron3-nano-30b-a3b", "nemotron_omni"),
	NAMED("nemotron3-super-120b-a12b", "nemotron_3_super"),
	NAMED("nemotron3-ultra-550b-a55b", "nemotron_3_ultra"),
	NAMED("glm4.5", "glm45_355b"),
	NAMED("glm4.5v", "glm_45v"),
	NAMED("glm4.7-flash", "glm47_flash"),
	NAMED("glm5", "glm5"),
	NAMED("gemma3-4b", "gemma3_4b"),
	NAMED("gemma3-12b", "gemma3_12b"),
	NAMED("gemma3-27b", "gemma3_27b"),
	NAMED("gemma3-4b", "gemma3_vl_4b"),
	NAMED("gemma3-12b", "gemma3_vl_12b"),
	NAMED("gemma3-27b", "gemma3_vl_27b"),
	NAMED("qwen2.5-vl-3b", "qwen25_vl_3b"),
	NAMED("qwen2.5-vl-7b", "qwen25_vl_7b"),
	NAMED("qwen2.5-vl-32b", "qwen25_vl_32b"),
	NAMED("qwen2.5-vl-72b", "qwen25_vl_72b"),
	NAMED("qwen3-vl-4b", "qwen3_vl_4b"),
	NAMED("qwen3-vl-8b", "qwen3_vl_8b"),
	NAMED("qwen3-vl-30b-a3b", "qwen3_vl_30b_a3b"),
	NAMED("qwen3-vl-235b-a22b", "qwen3_vl_235b_a22b"),
	NAMED("qwen3.5-0.8b", "qwen35_vl_800m"),
	NAMED("qwen3.5-2b", "qwen35_vl_2b"),
	NAMED("qwen3.5-4b", "qwen35_vl_4b"),
	NAMED("qwen3.5-9b", "qwen35_vl_9b"),
	NAMED("qwen3.5-27b", "qwen35_vl_27b"),
	NAMED("qwen3.5-35b-a3b", "qwen35_vl_35b_a3b"),
	NAMED("qwen3.5-122b-a10b", "qwen35_vl_122b_a10b"),
	NAMED("qwen3.5-397b-a17b", "qwen35_vl_397b_a17b"),
	NAMED("qwen3-omni-30b-a3b", "qwen3_omni_30b_a3b"),
	NAMED("qwen3-next-80b-a3b", "qwen3_next_80b_a3b"),
	NAMED("kimi-k2", "kimi_k2"),
	NAMED("minimax-m2", "minimax_m2"),
	NAMED("olmoe-1b-7b", "olmoe_7b"),
	NAMED("ministral3-3b", "ministral3_3b"),
	NAMED("ministral3-8b", "ministral3_8b"),
	NAMED("ministral3-14b", "ministral3_14b"),
	NAMED("mistral-7b-v0.3", "mistral_7b"),
	NAMED("mistral-nemo-12b", "mistral_nemo_12b"),
	NAMED("starcoder2-3b", "starcoder2_3b"),
	NAMED("starcoder2-7b", "starcoder2_7b"),
	NAMED("starcoder2-15b", "starcoder2_15b"),
	NAMED("llama3.3-70b", "llama33_70b"),
	NAMED("falcon-h1-0.5b", "falcon_h1_500m"),
	NAMED("falcon-h1-7b", "falcon_h1_7b"),
	NAMED("falcon-h1-34b", "falcon_h1_34b"),
	NAMED("ernie4.5-21b-a3b", "ernie45_21b_a3b"),
	NAMED("ernie4.5-300b-a47b", "ernie45_300b_a47b"),
	NAMED("ling-mini-2.0", "ling_mini_v2"),
};
/* clang-format on */

/* clang-format off */
/* Megatron-Bridge's recipes for performance (scripts/performance/configs), whose names say GPUs, kind
 * and format: llama3_70b_pretrain_64gpu_h100_fp8cs_config. Kinds and formats between blanks. */
static const struct perf_recipe {
	const char *stem, *kinds, *formats;
	lk_recipe_perf is; /* GPUs, tp, pp, vp, cp, ep, mbs, gbs, seq, recomputed layers, sharded */
} perfs[] = {
	{"llama3_8b", " h100 ", " bf16 ", {8, 1, 1, 0, 2, 1, 1, 128, 8192, 0, false}},
	{"llama3_8b", " h100 ", " fp8cs ", {8, 1, 1, 0, 1, 1, 1, 128, 8192, 5, false}},
	{"llama3_8b", " b200 gb200 ", " bf16 fp8cs fp8mx nvfp4 ", {8, 1, 1, 0, 1, 1, 2, 128, 8192, 0, false}},
	{"llama3_8b", " gb300 ", " bf16 fp8cs fp8mx nvfp4 ", {8, 1, 1, 0, 1, 1, 4, 128, 8192, 0, false}},
	{"llama3_70b", " h100 ", " bf16 ", {64, 4, 4, 5, 2, 1, 1, 256, 8192, 0, false}},
	{"llama3_70b", " h100 ", " fp8cs ", {64, 4, 8, 5, 1, 1, 1, 256, 8192, 0, false}},
	{"llama3_70b", " b200 ", " bf16 ", {64, 2, 4, 5, 2, 1, 1, 256, 8192, 0, false}},
	{"llama3_70b", " gb200 ", " bf16 ", {64, 1, 1, 0, 1, 1, 1, 256, 8192, 0, true}},
	{"llama3_70b", " b200 gb200 ", " fp8cs ", {64, 1, 1, 0, 1, 1, 1, 256, 8192, 0, true}},
	{"llama3_70b", " b200 gb200 ", " fp8mx nvfp4 ", {64, 2, 4, 5, 1, 1, 1, 256, 8192, 0, false}},
	{"llama31_405b", " h100 ", " bf16 fp8cs ", {1024, 8, 8, 8, 2, 1, 1, 1536, 8192, 0, false}},
	{"llama31_405b", " gb200 ", " bf16 fp8mx nvfp4 ", {128, 4, 16, 8, 1, 1, 1, 768, 8192, 0, false}},
	{"llama31_405b", " gb200 ", " fp8cs ", {128, 4, 16, 4, 1, 1, 1, 768, 8192, 0, false}},
	{"deepseek_v3", " h100 ", " bf16 ", {1024, 2, 8, 4, 1, 64, 1, 16384, 4096, 0, false}},
	{"deepseek_v3", " h100 ", " fp8sc ", {1024, 2, 8, 2, 1, 64, 1, 16384, 4096, 0, false}},
	{"deepseek_v3", " gb200 gb300 ", " bf16 fp8cs ", {256, 1, 4, 4, 1, 64, 1, 4096, 4096, 0, false}},
	{"deepseek_v3", " gb300 ", " fp8mx ", {256, 1, 2, 8, 1, 32, 1, 4096, 4096, 0, false}},
	{"qwen3_235b_a22b", " h100 ", " bf16 fp8cs ", {256, 2, 8, 4, 1, 32, 1, 8192, 4096, 0, false}},
	{"qwen3_235b_a22b", " gb200 ", " fp8mx ", {256, 1, 8, 3, 1, 32, 1, 8192, 4096, 0, false}},
	{"qwen3_30b_a3b", " h100 ", " bf16 fp8cs ", {16, 1, 1, 0, 1, 16, 1, 1024, 4096, 0, false}},
	{"qwen3_30b_a3b", " gb200 ", " bf16 fp8cs fp8mx ", {8, 1, 1, 0, 1, 8, 4, 512, 4096, 0, false}},
	{"gpt_oss_120b", " h100 ", " bf16 fp8cs ", {64, 1, 4, 0, 1, 8, 1, 1280, 4096, 0, false}},
	{"gpt_oss_120b", " gb200 ", " bf16 fp8mx ", {64, 1, 1, 0, 1, 64, 4, 1280, 4096, 0, false}},
};
/* clang-format on */

static bool recipes_lists(const char *list, const char *word) {
	char spaced[32];
	snprintf(spaced, sizeof spaced, " %.20s ", word);
	return strstr(list, spaced) != NULL;
}

const lk_recipe_perf *lk_recipe_perf_of(const char *stem, const char *kind, const char *format) {
	for (size_t i = 0; i < sizeof perfs / sizeof *perfs; i++)
		if (strcmp(perfs[i].stem, stem) == 0 && recipes_lists(perfs[i].kinds, kind) &&
		    recipes_lists(perfs[i].formats, format))
			return &perfs[i].is;
	return NULL;
}

int lk_recipe_perf_seq(const char *stem) {
	for (size_t i = 0; i < sizeof perfs / sizeof *perfs; i++)
		if (strcmp(perfs[i].stem, stem) == 0) return perfs[i].is.seq;
	return 0;
}

/* "..._64gpu_h100_fp8cs_...": false where the name says no kind. */
bool lk_recipe_perf_name(const char *name, lk_recipe_named *out) {
	const char *at = strstr(name, "gpu_");
	if (at == NULL || at == name) return false;
	const char *number = at;
	while (number > name && number[-1] >= '0' && number[-1] <= '9') number--;
	size_t kind = strcspn(at + 4, "_"), format = 0;
	if (number == at || at - number > 6 || kind == 0 || kind >= sizeof out->kind) return false;
	*out = (lk_recipe_named){.gpus = atoi(number)};
	snprintf(out->kind, sizeof out->kind, "%.*s", (int)kind, at + 4);
	if (at[4 + kind] == '_') format = strcspn(at + 5 + kind, "_");
	if (format > 0 && format < sizeof out->format)
		snprintf(out->format, sizeof out->format, "%.*s", (int)format, at + 5 + kind);
	return out->gpus > 0;
}

enum { RECIPES = sizeof recipes / sizeof *recipes };

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

/* ---- networks by frameworks' own names ---- */

static bool recipes_is_named(const char *pattern, const char *name) {
	size_t length = strlen(pattern);
	if (pattern[length - 1] != '*') return strcasecmp(pattern, name) == 0;
	return strncasecmp(pattern, name, length - 1) == 0;
}

lk_status lk_launch_own_network(lk_reading *reading, const lk_named_network *rows, const char *flag,
                                const char *name, lk_job *job, bool *found) {
	char field[64], value[64];
	while (rows->name != NULL && !recipes_is_named(rows->name, name)) rows++;
	*found = rows->name != NULL;
	if (!*found) return LK_OK;
	if (*rows->sizes == '\0') return lk_launch_network(reading, flag, rows->preset);
	LK_TRY(lk_model_preset(rows->preset, &job->model, reading->err));
	for (const char *at = rows->sizes; *at; at += strspn(at, "; ")) {
		size_t equals = strcspn(at, "="), end = strcspn(at, ";");
		bool known;
		LK_ASSERT(equals < end);
		snprintf(field, sizeof field, "%.*s", (int)equals, at);
		snprintf(value, sizeof value, "%.*s", (int)(end - equals) - 1, at + equals + 1);
		LK_TRY(lk_field_set(job, field, equals, value, &known, reading->err));
		LK_ASSERT(known);
		at += end;
	}
	lk_copy(job->model.name, sizeof job->model.name, name);
	job->model.beside = 0;
	LK_TRY(lk_launch_understood(reading, flag, name));
	return lk_model_check(&job->model, reading->where, reading->err);
}
