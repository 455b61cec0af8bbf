/* script_arguments.c: a script that only holds the arguments, for another one that reads it. */
#include "base/arena.h"
#include "launch/megatron/megatron.h"
#include "launch/script/script_internal.h"

#include <stdio.h>
#include <string.h>

/* How many flags of Megatron-LM a variable holds. */
static int script_flags_held(const lk_shell_var *var) {
	int count = 0;
	for (size_t i = 0; var->set && i < var->values.count; i++) {
		for (const char *at = var->values.at[i].text; (at = strstr(at, "--")) != NULL;) {
			char name[64];
			size_t length = strcspn(at + 2, " =\t\n");
			snprintf(name, sizeof name, "%.*s", (int)(length < 63 ? length : 63), at + 2);
			count += lk_megatron_flag(name) != NULL;
			at += 2 + length;
		}
	}
	return count;
}

/* Whether all that one variable holds is part of another's text. */
static bool script_held_by_other(const lk_shell *shell, uint32_t id) {
	const lk_shell_var *own = &shell->vars.at[id];
	for (uint32_t other = 0; other < shell->vars.count; other++) {
		const lk_shell_var *var = &shell->vars.at[other];
		if (other == id || !var->set || var->values.count == 0 || own->values.count == 0) continue;
		const char *text = var->values.at[0].text, *part = own->values.at[0].text;
		if (strlen(text) > strlen(part) && strstr(text, part) != NULL) return true;
	}
	return false;
}

/* The value of the first of several variables that is a number; NULL: none is. */
static const char *script_number(lk_shell *shell, const char *const *names) {
	for (; *names != NULL; names++) {
		const lk_shell_var *var = lk_shell_find(shell, *names, strlen(*names));
		if (var == NULL || var->values.count == 0 || var->values.at[0].unknown != NULL) continue;
		const char *text = var->values.at[0].text;
		if (*text != '\0' && strspn(text, "0123456789") == strlen(text)) return text;
	}
	return NULL;
}

static lk_status script_put(lk_shell *shell, lk_words *words, const char *text) {
	if (text == NULL || !lk_push(words)) return lk_oom(shell->err);
	*lk_last(words) = (lk_word){.text = text};
	return LK_OK;
}

/* Splits a text that holds flags into words. */
static lk_status script_split(lk_shell *shell, const lk_word *value, lk_words *words) {
	char *text = lk_arena_strdup(shell->arena, value->text), *save = NULL;
	if (text == NULL) return lk_oom(shell->err);
	for (char *at = strtok_r(text, " \t\n\\", &save); at != NULL;
	     at = strtok_r(NULL, " \t\n\\", &save)) {
		LK_TRY(script_put(shell, words, at));
		if (strchr(at, '$') != NULL && at[0] != '-')
			lk_last(words)->unknown = value->unknown != NULL ? value->unknown : "it is not known";
	}
	return LK_OK;
}

/* The tokenizer, which whoever reads the script names by a variable of it. */
static lk_status script_put_tokenizer(lk_shell *shell, lk_words *words) {
	static const char *const names[] = {"TOKENIZER_MODEL", "HF_MODEL_CKPT"};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		const lk_shell_var *var = lk_shell_find(shell, names[i], strlen(names[i]));
		if (var == NULL || var->values.count == 0 || var->values.at[0].unknown != NULL) continue;
		LK_TRY(script_put(shell, words, "--tokenizer-model"));
		return script_put(shell, words, var->values.at[0].text);
	}
	return LK_OK;
}

/* The variables that hold flags, as the words of a launch; rank stays 0 where none does. The
 * degrees are those that the usual variables state, where no flag does. */
lk_status lk_script_arguments(lk_shell *shell, lk_script_sought *sought) {
	static const char *const degrees[][6] = {
		{"--tensor-model-parallel-size", "TP", "TP_SIZE", "TENSOR_PARALLEL", NULL},
		{"--pipeline-model-parallel-size", "PP", "PP_SIZE", "PIPELINE_PARALLEL", NULL},
		{"--context-parallel-size", "CP", "CP_SIZE", NULL},
		{"--expert-model-parallel-size", "EP", "EP_SIZE", NULL},
		{"--expert-tensor-parallel-size", "ETP", "ETP_SIZE", NULL},
		{"--micro-batch-size", "MBS", "MICRO_BATCH_SIZE", NULL},
		{"--global-batch-size", "GBS", "GLOBAL_BATCH_SIZE", NULL}};
	static const char *const nodes[] = {"NNODES", "NUM_NODES", "NODES", "NODES_REQUIRED", NULL};
	static const char *const per_node[] = {"GPUS_PER_NODE", "NUM_GPUS", "NPROC_PER_NODE", NULL};
	lk_words *words = &sought->words;
	int held = 0;
	for (uint32_t id = 0; id < shell->vars.count; id++)
		held += script_flags_held(&shell->vars.at[id]);
	if (held < 3) return LK_OK;
	const char *count = script_number(shell, per_node), *machines = script_number(shell, nodes);
	words->count = 0;
	LK_TRY(script_put(shell, words, "torchrun"));
	if (count != NULL)
		LK_TRY(
			script_put(shell, words, lk_arena_printf(shell->arena, "--nproc_per_node=%s", count)));
	else if (machines != NULL) {
		LK_TRY(script_put(shell, words, "--nproc_per_node=8"));
		LK_TRY(
			lk_launch_assume(sought->reading, "8 GPUs a node: the script states its nodes alone"));
	}
	if (machines != NULL)
		LK_TRY(script_put(shell, words, lk_arena_printf(shell->arena, "--nnodes=%s", machines)));
	LK_TRY(script_put(shell, words, "pretrain_gpt.py"));
	size_t flags = words->count;
	for (uint32_t id = 0; id < shell->vars.count; id++) {
		if (script_flags_held(&shell->vars.at[id]) == 0 || script_held_by_other(shell, id))
			continue;
		for (size_t i = 0; i < shell->vars.at[id].values.count; i++)
			LK_TRY(script_split(shell, &shell->vars.at[id].values.at[i], words));
	}
	LK_TRY(script_put_tokenizer(shell, words));
	for (size_t k = 0; k < sizeof degrees / sizeof *degrees; k++) {
		const char *value = script_number(shell, degrees[k] + 1);
		bool said = false;
		for (size_t i = flags; i < words->count; i++)
			said |= strcmp(words->at[i].text, degrees[k][0]) == 0;
		if (value == NULL || said) continue;
		LK_TRY(script_put(shell, words, degrees[k][0]));
		LK_TRY(script_put(shell, words, value));
	}
	lk_megatron_hybrid_program(words);
	sought->rank = 1;
	sought->certain = true;
	return lk_launch_assume(
		sought->reading, "the script launches nothing: the flags that it holds are taken as those "
						 "of pretrain_gpt.py, or of pretrain_mamba.py where one is of hybrids");
}
