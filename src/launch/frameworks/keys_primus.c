/* keys_primus.c: AMD's Primus: a job of modules.pre_trainer names a preset of a network and one of
 * a trainer, which inherit by extends:, and overrides both. Its back ends are Megatron-LM, whose
 * flags the settings are, and torchtitan.
 *
 *     config < model < overrides;  gpus = NNODES (1) * GPUS_PER_NODE (8) */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/text.h"
#include "launch/config/tables.h"
#include "launch/frameworks/frameworks.h"

LK_KEYS(primus);

static const char *const trainers[] = {"pre_trainer", "post_trainer", "sft_trainer"};

/* The module that trains; NULL: none does. */
static const lk_value *primus_module(const lk_value *root) {
	const lk_value *modules = lk_config_at(root, "modules");
	for (size_t i = 0; i < sizeof trainers / sizeof *trainers; i++) {
		const lk_value *module = lk_config_at(modules, trainers[i]);
		if (module) return module;
	}
	return NULL;
}

/* "llama3.yaml" of models/ or modules/FRAMEWORK/, wherever primus/configs lies above the file. */
static lk_status primus_preset(lk_config *config, const char *kind, const char *framework,
                               const char *name, lk_value **out) {
	lk_arena *arena = config->reading->arena;
	const char *const places[] = {
		lk_arena_printf(arena, "primus/configs/%s/%s/%s", kind, framework, name),
		lk_arena_printf(arena, "configs/%s/%s/%s", kind, framework, name),
		lk_arena_printf(arena, "%s/%s/%s", kind, framework, name)};
	for (size_t i = 0; i < 3; i++) {
		if (!places[i]) return lk_oom(config->reading->err);
		const char *path = lk_config_beside(arena, config->file, places[i]);
		if (!path) continue;
		lk_config part = {.reading = config->reading, .given = config->given};
		LK_TRY(lk_config_load(&part, path));
		*out = part.root;
		return LK_OK;
	}
	return lk_config_fail(config, name, "the preset is not found in primus/configs",
	                      "give the job's file in the tree of Primus");
}

/* Drop the preset's zero-bubble switches unless patch_zero_bubble is on: they need the patch. */
static lk_value *primus_drop_idle(lk_arena *arena, lk_value *all) {
	const char *idle[] = {"enable_zero_bubble", "zero_bubble_v_schedule"};
	lk_value nothing[] = {{.kind = LK_JSON_NULL}, {.kind = LK_JSON_NULL}};
	const lk_value off = {.kind = LK_JSON_OBJECT, .count = 2, .keys = idle, .items = nothing};
	const char *patch = lk_config_text(lk_config_at(all, "patch_zero_bubble"));
	return patch && strcmp(patch, "true") == 0 ? all : lk_config_merge(arena, all, &off);
}

lk_status lk_primus_gather(lk_config *config) {
	lk_arena *arena = config->reading->arena;
	LK_TRY(lk_config_fill(config, config->root));
	const lk_value *module = primus_module(config->root);
	const char *framework = lk_config_text(lk_config_at(module, "framework"));
	const char *trainer = lk_config_text(lk_config_at(module, "config"));
	const char *model = lk_config_text(lk_config_at(module, "model"));
	const lk_value *overrides = lk_config_at(module, "overrides");
	lk_value *all = LK_NEW(arena, lk_value), *part = NULL;
	if (!all) return lk_oom(config->reading->err);
	all->kind = LK_JSON_OBJECT;
	lk_value defaults = {.kind = LK_JSON_NULL};
	const char *const names[][2] = {{"modules", trainer}, {"models", model}};
	for (size_t i = 0; i < 2 && framework; i++) {
		if (!names[i][1]) continue;
		LK_TRY(primus_preset(config, names[i][0], framework, names[i][1], &part));
		if (i == 0) defaults = *part;
		all = lk_config_merge(arena, all, part);
		if (!all) return lk_oom(config->reading->err);
	}
	if (overrides && overrides->kind == LK_JSON_OBJECT)
		all = lk_config_merge(arena, all, overrides);
	if (all) all = primus_drop_idle(arena, all);
	if (!all || !framework) return lk_oom(config->reading->err);
	/* The back end stays known, and what its trainer states for all jobs. */
	lk_members members = {0};
	lk_value name = {.kind = LK_JSON_STRING, .text = framework};
	bool ok = true;
	for (size_t i = 0; ok && i < all->count; i++)
		ok = lk_members_add(&members, all->keys[i], &all->items[i]);
	ok = ok && lk_members_add(&members, "primus_framework", &name);
	ok = ok && lk_members_add(&members, "primus_defaults", &defaults);
	ok = ok && lk_members_end(&members, arena, all);
	lk_members_free(&members);
	if (!ok) return lk_oom(config->reading->err);
	config->root = all;
	return LK_OK;
}

static int primus_variable(const lk_config *config, const char *name) {
	size_t length = strlen(name);
	int at = 0;
	for (const char *line = config->given.vars; line && *line; at++) {
		if (strncmp(line, name, length) == 0 && line[length] == '=') {
			if (config->given.vars_read && at < 64) *config->given.vars_read |= UINT64_C(1) << at;
			long value = strtol(line + length + 1, NULL, 10);
			if (value > 0 && value <= 1 << 16) return (int)value;
		}
		line += strcspn(line, "\n");
		line += *line == '\n';
	}
	return 0;
}

static lk_status primus_titan_words(const lk_config *config, lk_words *words) {
	static const char *const sections[] = {
		"parallelism.", "training.", "model.", "compile.", "activation_checkpoint.", "quantize."};
	for (size_t i = 0; i < config->count; i++) {
		const char *path = config->settings[i].path;
		bool ours = false;
		for (size_t k = 0; k < sizeof sections / sizeof *sections; k++)
			ours |= strncmp(path, sections[k], strlen(sections[k])) == 0;
		const char *text = lk_config_text(config->settings[i].value);
		if (!ours || !text || strcmp(text, "-1") == 0 || *text == '\0') continue;
		LK_TRY(lk_config_word(
			config, lk_arena_printf(config->reading->arena, "--%s=%s", path, text), words));
	}
	return LK_OK;
}

/* Jobs lie in a folder for each kind of GPU: configs/MI300X/. */
static lk_status primus_device(const lk_config *config) {
	const char *kind = strstr(config->file, "/MI");
	if (!kind) return LK_OK;
	return lk_launch_device(config->reading, kind + 1, strcspn(kind + 1, "/"));
}

/* The settings of a Megatron job without those that are no flags of Megatron-LM and that it leaves
 * as the trainer's preset, of hundreds of keys, has them. */
static lk_status primus_own_settings(const lk_config *config, lk_config *own) {
	const lk_value *defaults = lk_config_at(config->root, "primus_defaults");
	lk_setting *kept = LK_ARRAY(config->reading->arena, lk_setting, config->count + 1);
	if (!kept) return lk_oom(config->reading->err);
	*own = *config;
	own->settings = kept;
	own->count = 0;
	for (size_t i = 0; i < config->count; i++) {
		const lk_setting *one = &config->settings[i];
		char flag[128];
		if (strcmp(one->path, "primus_framework") == 0) continue;
		lk_copy(flag, sizeof flag, one->path);
		for (char *c = flag; *c; c++)
			if (*c == '_') *c = '-';
		const lk_value *usual = lk_config_at(defaults, one->path);
		const char *stated = lk_config_text(one->value), *as = lk_config_text(usual);
		bool same = !stated ? !as : as && strcmp(stated, as) == 0;
		bool given = usual || lk_json_get(defaults, one->path);
		const char *reason = NULL;
		for (const lk_key *key = lk_keys_primus; key->path && !reason; key++)
			if (strcmp(key->path, one->path) == 0) reason = key->reason;
		if (reason && !same) LK_TRY(lk_launch_skip(config->reading, one->path, reason));
		if (reason) continue;
		if (!given || !same || lk_megatron_flag(flag)) kept[own->count++] = *one;
	}
	return LK_OK;
}

lk_status lk_primus_words(const lk_config *config, lk_words *words) {
	const char *framework = lk_config_text(lk_config_at(config->root, "primus_framework"));
	int nodes = primus_variable(config, "NNODES"),
		per_node = primus_variable(config, "GPUS_PER_NODE");
	config->reading->usual_gpus = 8;
	LK_TRY(primus_device(config));
	if (nodes > 0 && per_node == 0) per_node = 8;
	if (nodes == 0 && per_node == 0)
		LK_TRY(lk_launch_assume(
			config->reading, "a node of 8 GPUs, or as many as the degrees need (--var NNODES=)"));
	if (strcmp(framework, "megatron") == 0) {
		lk_config own;
		LK_TRY(primus_own_settings(config, &own));
		LK_TRY(lk_config_megatron_words(&own, "*", "pretrain_gpt.py", nodes, per_node, words));
		if (lk_config_on(config->root, "use_turbo_deepep")) {
			LK_TRY(lk_config_word(config, "--moe-token-dispatcher-type", words));
			LK_TRY(lk_config_word(config, "flex", words));
			LK_TRY(lk_config_word(config, "--moe-enable-deepep", words));
		}
		return LK_OK;
	}
	if (strcmp(framework, "torchtitan") == 0) {
		LK_TRY(lk_titan_numbers(config, words));
		LK_TRY(lk_config_launcher_words(config, "-m", nodes, per_node, words));
		LK_TRY(lk_config_word(config, "torchtitan.train", words));
		return primus_titan_words(config, words);
	}
	char what[96];
	snprintf(what, sizeof what, "the back end %.40s is not read", framework);
	return lk_config_fail(config, "framework", what, "megatron and torchtitan are");
}
