/* script_commands.c: what a simple command does: assignments, the builtins that change variables,
 * functions, other scripts, launches. Any other program runs as one of its own and cannot change a
 * variable: it is passed over. */
#include "base/arena.h"
#include "launch/script.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Programs that are often given the name of a launcher or a script as an argument. */
static const char *const harmless[] = {
	"echo",     "printf", "cd",      "pushd",  "popd",  "mkdir", "rm",       "cp",
	"mv",       "ln",     "ls",      "cat",    "touch", "chmod", "sleep",    "date",
	"set",      "shopt",  "ulimit",  "module", "ml",    "conda", "mamba",    "nvidia-smi",
	"hostname", "pwd",    "wait",    "trap",   "true",  ":",     "tee",      "pip",
	"pip3",     "git",    "wget",    "curl",   "tar",   "which", "type",     "command",
	"test",     "[",      "[[",      "false",  "kill",  "pkill", "grep",     "sed",
	"awk",      "find",   "head",    "tail",   "sort",  "wandb", "scontrol", "sinfo",
	"squeue",   "apt",    "apt-get", "umask",  "hash",  "]]",    NULL,
};

/* shift [N]; set -- WORDS. */
static lk_status script_move_arguments(lk_shell *shell, const lk_raws *words, size_t first) {
	lk_words expanded = {0};
	lk_status status = lk_script_expand(shell, words, first + 1, &expanded);
	bool shifts = lk_shell_raw_is(&words->at[first], "shift");
	if (status == LK_OK && shifts) {
		long by = expanded.count > 0 ? strtol(expanded.at[0].text, NULL, 10) : 1;
		size_t count = by < 0 ? 0 : (size_t)by;
		/* of more than there are a shell takes none */
		if (count > 0 && count <= shell->arg_count) {
			shell->args += count;
			shell->arg_count -= count;
		}
	} else if (status == LK_OK && expanded.count > 0 && strcmp(expanded.at[0].text, "--") == 0) {
		lk_word *args = LK_ARRAY(shell->arena, lk_word, expanded.count);
		if (args == NULL) status = lk_oom(shell->err);
		else memcpy(args, expanded.at + 1, (expanded.count - 1) * sizeof *args);
		shell->args = args;
		shell->arg_count = expanded.count - 1;
		shell->args_known = true;
	}
	lk_vec_free(&expanded);
	return status;
}

/* Calls a function: its words are $1, $2, ... meanwhile. */
static lk_status script_call(lk_shell *shell, const lk_raws *words, size_t first, uint32_t id,
                             lk_truth certain) {
	lk_words expanded = {0};
	lk_status status = lk_script_expand(shell, words, first + 1, &expanded);
	lk_word *args = LK_ARRAY(shell->arena, lk_word, expanded.count + 1);
	if (status == LK_OK && args == NULL) status = lk_oom(shell->err);
	if (status == LK_OK && expanded.count > 0)
		memcpy(args, expanded.at, expanded.count * sizeof *args);
	const lk_word *outer = shell->args;
	size_t outer_count = shell->arg_count;
	bool known = shell->args_known;
	shell->args = args;
	shell->arg_count = expanded.count;
	shell->args_known = true;
	lk_vec_free(&expanded);
	lk_shell_function body = shell->bodies.at[id];
	if (status == LK_OK)
		status = (body.subshell ? lk_script_subshell : lk_script_body)(shell, body.at, body.end,
		                                                               body.line, certain);
	shell->leaves = '\0';
	shell->args = outer;
	shell->arg_count = outer_count;
	shell->args_known = known;
	return status;
}

/* let N=2*M "K += 1": each as N=$((...)). Any other change of a variable makes it unknown. */
static lk_status script_let(lk_shell *shell, const lk_raws *words, size_t first, lk_truth certain) {
	for (size_t i = first + 1; i < words->count; i++) {
		lk_word one;
		LK_TRY(lk_shell_expand_one(shell, &words->at[i], &one));
		size_t length = lk_shell_name(one.text, one.text + strlen(one.text));
		const char *at = one.text + length + strspn(one.text + length, " ");
		const char *sign = strchr("+-*/%", *at);
		if (one.unknown != NULL || length == 0 ||
		    (*at != '=' && (*at == '\0' || sign == NULL || at[1] != '='))) {
			lk_raw named[] = {words->at[first], words->at[i]};
			lk_raws rest = {.at = named, .count = 2};
			LK_TRY(lk_shell_set_by_command(shell, &rest));
			continue;
		}
		const char *text =
			*at == '='
				? lk_arena_printf(shell->arena, "%.*s=$((%s))", (int)length, one.text, at + 1)
				: lk_arena_printf(shell->arena, "%.*s=$((%.*s%c(%s)))", (int)length, one.text,
		                          (int)length, one.text, *at, at + 2);
		if (text == NULL) return lk_oom(shell->err);
		lk_raw assignment = {text, text + strlen(text), words->at[i].line};
		LK_TRY(lk_shell_assign(shell, &assignment, certain, false));
	}
	return LK_OK;
}

/* printf -v NAME FORMAT WORD...; without -v it prints. */
static lk_status script_printf(lk_shell *shell, const lk_raws *words, size_t first,
                               lk_truth certain) {
	if (words->count < first + 4 || !lk_shell_raw_is(&words->at[first + 1], "-v")) return LK_OK;
	lk_words expanded = {0};
	lk_status status = lk_script_expand(shell, words, first + 3, &expanded);
	bool known = certain == LK_SHELL_TRUE && expanded.count > 0;
	for (size_t i = 0; i < expanded.count; i++) known &= expanded.at[i].unknown == NULL;
	const char *text = status == LK_OK && known ? lk_script_format(shell->arena, &expanded) : NULL;
	const lk_raw *name = &words->at[first + 2];
	lk_vec_free(&expanded);
	LK_TRY(status);
	if (text == NULL) {
		lk_raw named[] = {words->at[first], *name};
		lk_raws rest = {.at = named, .count = 2};
		return lk_shell_set_by_command(shell, &rest);
	}
	text = lk_arena_printf(shell->arena, "%.*s=%s", (int)(name->end - name->at), name->at, text);
	return text != NULL ? lk_shell_set(shell, text, strlen(text)) : lk_oom(shell->err);
}

/* getopts OPTIONS NAME: the next option of the script's arguments. */
lk_truth lk_script_getopts(lk_shell *shell, const lk_raws *words, lk_status *status) {
	lk_script_sought *sought = shell->caller;
	lk_word known;
	if (words->count < 3 || !shell->args_known || sought->option >= shell->arg_count)
		return LK_SHELL_FALSE;
	if (shell->blocks.count > 0 && lk_last(&shell->blocks)->kind == 'l')
		return LK_SHELL_TRUE; /* the loop is read; it is asked when it runs */
	const lk_word *arg = &shell->args[sought->option];
	*status = lk_shell_expand_one(shell, &words->at[1], &known);
	char *name = lk_arena_strndup(shell->arena, words->at[2].at,
	                              (size_t)(words->at[2].end - words->at[2].at));
	if (*status == LK_OK && name == NULL) *status = lk_oom(shell->err);
	if (*status != LK_OK || arg->unknown != NULL || arg->text[0] != '-' || arg->text[1] == '\0' ||
	    strcmp(arg->text, "--") == 0)
		return LK_SHELL_FALSE;
	sought->option++;
	const char *at = strchr(known.text, arg->text[1]);
	lk_word letter = {.text = lk_arena_strndup(shell->arena, at != NULL ? at : "?", 1)},
			value = {.text = arg->text + 2};
	if (at != NULL && at[1] == ':' && *value.text == '\0' && sought->option < shell->arg_count)
		value = shell->args[sought->option++];
	lk_word next = {.text = lk_arena_printf(shell->arena, "%zu", sought->option + 1)};
	if (letter.text == NULL || next.text == NULL) *status = lk_oom(shell->err);
	if (*status == LK_OK) *status = lk_script_set(shell, name, &letter);
	if (*status == LK_OK) *status = lk_script_set(shell, "OPTARG", &value);
	if (*status == LK_OK) *status = lk_script_set(shell, "OPTIND", &next);
	return *status == LK_OK ? LK_SHELL_TRUE : LK_SHELL_UNKNOWN;
}

/* read NAME <<END: what it reads follows; of other input nothing is known. */
static lk_status script_read(lk_shell *shell, const lk_raws *words, lk_truth certain) {
	lk_script_sought *sought = shell->caller;
	const lk_raw *name = lk_last(words);
	if (certain == LK_SHELL_TRUE && lk_shell_raw_is(&words->at[0], "read") &&
	    lk_shell_name(name->at, name->end) > 0) {
		sought->reads = lk_arena_strndup(shell->arena, name->at, (size_t)(name->end - name->at));
		if (sought->reads == NULL) return lk_oom(shell->err);
		sought->reads_all = false;
		for (size_t i = 1; i < words->count; i++)
			sought->reads_all |= lk_shell_raw_is(&words->at[i], "-d");
	}
	return lk_shell_set_by_command(shell, words);
}

lk_status lk_script_command(lk_shell *shell, lk_raws *words, lk_truth certain) {
	static const char *const declaring[] = {"export",   "declare", "local",
	                                        "readonly", "typeset", NULL};
	static const char *const setting[] = {"read", "mapfile", "readarray", NULL};
	static const char *const passed[] = {"getopts", "alias", NULL};
	bool append;
	const char *value;
	size_t first = 0;
	while (first < words->count && lk_shell_assignment(&words->at[first], &append, &value) > 0)
		first++;
	if (first == words->count) {
		for (size_t i = 0; i < first; i++)
			LK_TRY(lk_shell_assign(shell, &words->at[i], certain, false));
		return LK_OK;
	}
	static const char *const fed[] = {"bash", "sh", "zsh", "sbatch", "ssh", "srun", NULL};
	lk_script_sought *sought = shell->caller;
	const lk_raw *name = &words->at[first];
	sought->fed = certain == LK_SHELL_TRUE && lk_script_among(name, fed);
	sought->reads = NULL;
	if (lk_script_among(name, declaring)) return lk_shell_declare(shell, words, certain);
	if (lk_shell_raw_is(name, "unset")) return lk_shell_unset(shell, words, certain);
	if (lk_script_among(name, setting)) return script_read(shell, words, certain);
	if (lk_shell_raw_is(name, "source") || lk_shell_raw_is(name, "."))
		return lk_script_source(shell, words);
	if (lk_shell_raw_is(name, "exit")) {
		shell->stop = certain == LK_SHELL_TRUE && !lk_script_assumed(shell);
		if (shell->stop) sought->ended = name->line;
		return LK_OK;
	}
	if (lk_shell_raw_is(name, "exec") && words->count == first + 1) return LK_OK;
	if (lk_shell_raw_is(name, "break") || lk_shell_raw_is(name, "return") ||
	    lk_shell_raw_is(name, "continue")) {
		if (certain == LK_SHELL_TRUE && shell->base > 0) shell->leaves = *name->at;
		return LK_OK;
	}
	if (lk_shell_raw_is(name, "shift") || lk_shell_raw_is(name, "set"))
		return certain == LK_SHELL_FALSE ? LK_OK : script_move_arguments(shell, words, first);
	if (lk_shell_raw_is(name, "eval")) {
		if (certain == LK_SHELL_TRUE) return lk_script_eval(shell, words);
		return lk_shell_fail(shell, name->line, "eval in a line that may not run",
		                     "write the command itself");
	}
	bool done;
	LK_TRY(lk_script_write(shell, words, first, certain, &done));
	if (done) return LK_OK;
	if (lk_shell_raw_is(name, "let")) return script_let(shell, words, first, certain);
	if (lk_shell_raw_is(name, "printf")) return script_printf(shell, words, first, certain);
	if (lk_shell_raw_is(name, ":")) { /* it may set variables: ": ${MBS:=2}" */
		lk_words expanded = {0};
		lk_status status = lk_script_expand(shell, words, first + 1, &expanded);
		lk_vec_free(&expanded);
		return status;
	}
	if (lk_script_among(name, passed)) return LK_OK;
	if (lk_script_among(name, harmless)) return LK_OK;
	uint32_t function = lk_script_function(shell, name);
	if (function != UINT32_MAX) return script_call(shell, words, first, function, certain);
	bool ran = false, remote = lk_shell_raw_is(name, "ssh");
	if (remote && certain == LK_SHELL_TRUE) return lk_script_remote(shell, words);
	static const char *const containers[] = {"docker",    "podman", "singularity",
	                                         "apptainer", "srun",   NULL};
	if (certain != LK_SHELL_FALSE && first == 0 && lk_script_among(name, containers))
		LK_TRY(lk_script_inside(shell, words, &ran));
	if (!ran && certain != LK_SHELL_FALSE && first == 0)
		LK_TRY(lk_script_start(shell, words, &ran));
	if (ran) return LK_OK;
	return lk_script_program(shell, words, certain);
}
