/* config_words.c: settings as the words of a launch line, for the frameworks whose files are a
 * command line in another form. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/arena.h"
#include "base/check.h"
#include "base/text.h"
#include "launch/config/tables.h"

lk_status lk_config_word(const lk_config *config, const char *text, lk_words *words) {
	if (!text || !lk_push(words)) return lk_oom(config->reading->err);
	const char *open = strstr(text, "${");
	if (!open) open = text[0] == '$' && text[1] != '\0' ? text : NULL;
	*lk_last(words) = (lk_word){.text = text};
	if (!open) return LK_OK;
	char shown[64];
	lk_last(words)->unknown = lk_arena_printf(config->reading->arena, "%s is not known",
	                                          lk_escape(text, shown, sizeof shown));
	return lk_last(words)->unknown ? LK_OK : lk_oom(config->reading->err);
}

/* "[a b]" is several words, as Megatron-LM's tests write lists. */
static lk_status config_bracket_words(const lk_config *config, const char *text, lk_words *words) {
	char *copy = lk_arena_strdup(config->reading->arena, text + 1), *save = NULL;
	if (!copy) return lk_oom(config->reading->err);
	LK_ASSERT(text[0] == '[' && *copy != '\0');
	copy[strlen(copy) - 1] = '\0';
	for (char *at = strtok_r(copy, " ,", &save); at; at = strtok_r(NULL, " ,", &save))
		LK_TRY(lk_config_word(config, at, words));
	return LK_OK;
}

lk_status lk_config_flag_words(const lk_config *config, const char *name, const lk_value *value,
                               lk_words *words) {
	bool list = value->kind == LK_JSON_ARRAY;
	const char *text = lk_config_text(value);
	if (!text && !list) return LK_OK;
	if (value->kind == LK_JSON_FALSE) return LK_OK;
	LK_TRY(lk_config_word(config, lk_arena_printf(config->reading->arena, "--%s", name), words));
	if (value->kind == LK_JSON_TRUE) return LK_OK;
	for (size_t i = 0; list && i < value->count; i++) {
		const char *item = lk_config_text(&value->items[i]);
		if (item) LK_TRY(lk_config_word(config, item, words));
	}
	if (list) return LK_OK;
	size_t length = strlen(text);
	bool several = length > 1 && text[0] == '[' && text[length - 1] == ']' && strchr(text, ' ');
	if (several) return config_bracket_words(config, text, words);
	return lk_config_word(config, text, words);
}

lk_status lk_config_launcher_words(const lk_config *config, const char *program, int nodes,
                                   int per_node, lk_words *words) {
	lk_arena *arena = config->reading->arena;
	LK_TRY(lk_config_word(config, "torchrun", words));
	if (per_node > 0)
		LK_TRY(
			lk_config_word(config, lk_arena_printf(arena, "--nproc_per_node=%d", per_node), words));
	if (nodes > 0)
		LK_TRY(lk_config_word(config, lk_arena_printf(arena, "--nnodes=%d", nodes), words));
	return lk_config_word(config, program, words);
}

/* Values with another spelling. */
static const struct {
	const char *name, *theirs, *ours;
} respelt[] = {
	{"normalization", "rmsnorm", "RMSNorm"},
	{"normalization", "layernorm", "LayerNorm"},
	{"normalization", "layernorm1p", "LayerNorm"},
	{"normalization", "low_precision_layernorm", "LayerNorm"},
};

static lk_value config_respelt(const char *name, const lk_value *value) {
	lk_value out = *value;
	const char *text = lk_config_text(value);
	for (size_t i = 0; text && i < sizeof respelt / sizeof *respelt; i++)
		if (strcmp(respelt[i].name, name) == 0 && strcasecmp(respelt[i].theirs, text) == 0)
			out.text = respelt[i].ours;
	return out;
}

const char *lk_name_of(const lk_renamed *names, const char *name) {
	for (; names && names->name; names++)
		if (strcmp(names->name, name) == 0) return names->flag;
	return name;
}

/* Name the flag of a setting; NULL: its value states nothing. *means: the value turns the switch
 * on, even where it is false. */
static const char *config_flag_name(lk_arena *arena, const char *name, const lk_value *value,
                                    bool *means) {
	const char *text = lk_config_text(value);
	bool known = false;
	*means = false;
	for (const lk_renamed *row = lk_megatron_names; row->name; row++) {
		if (strcmp(row->name, name) != 0) continue;
		known = true;
		if (!row->when) return row->flag;
		if (!text || strcasecmp(row->when, text) != 0) continue;
		*means = true;
		return row->flag;
	}
	if (known) return NULL;
	char *dashed = lk_arena_strdup(arena, name);
	for (char *c = dashed; c && *c; c++)
		if (*c == '_') *c = '-';
	return dashed;
}

/* Suggest a setting that `name` is a slip of, by its own name or its flag's; NULL: none. */
static const char *config_near(const char *flag, const char *name) {
	for (const lk_renamed *row = lk_megatron_names; row->name; row++)
		if (lk_is_slip(name, row->name)) return row->name;
	return lk_megatron_near(flag);
}

static lk_status config_one_flag(const lk_config *config, const char *name, const lk_value *value,
                                 lk_words *words) {
	static const lk_value truth = {.kind = LK_JSON_TRUE};
	bool means;
	const char *flag = config_flag_name(config->reading->arena, name, value, &means);
	if (!flag) return LK_OK;
	const lk_flag *row = lk_megatron_flag(flag);
	const char *text = lk_config_text(value);
	if (!text && value->kind != LK_JSON_ARRAY) return LK_OK;
	bool off =
		value->kind == LK_JSON_FALSE || (value->kind == LK_JSON_NUMBER && value->number == 0);
	const char *near = row ? NULL : config_near(flag, name);
	/* Report an unknown key only if it is enabled, and if no flag disables it: --no-rope-fusion. */
	static const char *const off_by[] = {"no-", "disable-"};
	for (size_t i = 0; !row && i < sizeof off_by / sizeof *off_by; i++) {
		char turns[128];
		snprintf(turns, sizeof turns, "%s%s", off_by[i], flag);
		if (lk_megatron_flag(turns)) return LK_OK;
	}
	if (!row) return off && !near ? LK_OK : lk_launch_unknown(config->reading, name, near);
	if (row->kind == LK_FLAG_SET || row->kind == LK_FLAG_CLEAR)
		return off && !means ? LK_OK : lk_config_flag_words(config, flag, &truth, words);
	if (off && row->kind >= LK_FLAG_IGNORED) return LK_OK;
	bool below =
		row->kind == LK_FLAG_INT && value->kind == LK_JSON_NUMBER && value->number < row->low;
	if (below || (value->kind == LK_JSON_FALSE && row->kind < LK_FLAG_IGNORED)) return LK_OK;
	LK_ASSERT(row != NULL && !(row->kind == LK_FLAG_SET || row->kind == LK_FLAG_CLEAR));
	lk_value spelt = config_respelt(name, value);
	return lk_config_flag_words(config, flag, &spelt, words);
}

/* The setting's name below the first of the sections that it lies in; NULL: in none. */
static const char *config_name_below(const char *path, const char *sections) {
	for (size_t length; *sections; sections += length + (sections[length] == ' ')) {
		length = strcspn(sections, " ");
		if (length == 1 && *sections == '*') return path;
		if (strncmp(path, sections, length) == 0) return path + length;
	}
	return NULL;
}

lk_status lk_config_megatron_words(const lk_config *config, const char *sections,
                                   const char *program, int nodes, int per_node, lk_words *words) {
	LK_TRY(lk_config_launcher_words(config, program, nodes, per_node, words));
	for (size_t i = 0; i < config->count; i++) {
		const char *name = config_name_below(config->settings[i].path, sections);
		if (!name || strchr(name, '.')) continue;
		LK_TRY(config_one_flag(config, name, config->settings[i].value, words));
	}
	lk_megatron_hybrid_program(words);
	return LK_OK;
}
