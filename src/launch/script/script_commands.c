/* script_commands.c: what a simple command does: assignments, the builtins that change variables,
 * functions, other scripts, launches. Any other program runs as one of its own and cannot change a
 * variable: it is passed over. */
#include "base/arena.h"
#include "base/check.h"
#include "launch/script/script_internal.h"

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
static lk_status script_move_arguments(lk_shell *shell, const lk_raws *words, size_t first,
                                       lk_truth certain) {
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
	} else if (status == LK_OK && expanded.count > 0) {
		size_t options = 0; /* set -e; set -euo pipefail -- A B */
		while (options < expanded.count && strchr("-+", expanded.at[options].text[0]) != NULL &&
		       expanded.at[options].text[0] != '\0' && strcmp(expanded.at[options].text, "--") != 0)
			options += 1 + (strchr(expanded.at[options].text, 'o') != NULL);
		if (options < expanded.count) {
			size_t from = options + (strcmp(expanded.at[options].text, "--") == 0);
			lk_word *args = LK_ARRAY(shell->arena, lk_word, expanded.count);
			if (args == NULL) status = lk_oom(shell->err);
			else if (from < expanded.count)
				memcpy(args, expanded.at + from, (expanded.count - from) * sizeof *args);
			shell->args = args;
			shell->arg_count = expanded.count - from;
			shell->args_known = true;
		}
	}
	if (certain == LK_SHELL_UNKNOWN) {
		shell->args_known = false;
		shell->arg_count = 0;
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
	shell->calls++;
	for (size_t i = 0; status == LK_OK && i < first; i++) { /* N=2 name: for the function alone */
		bool append;
		const char *value;
		size_t length = lk_shell_assignment(&words->at[i], &append, &value);
		lk_word kept;
		lk_raw raw = {value, words->at[i].end, words->at[i].line};
		status = lk_shell_expand_one(shell, &raw, &kept);
		if (status == LK_OK) status = lk_shell_hide(shell, words->at[i].at, length);
		if (status == LK_OK)
			status = lk_shell_put(shell, words->at[i].at, length, &kept, words->at[i].line);
	}
	shell->succeeded = LK_SHELL_TRUE;
	if (status == LK_OK)
		status = (body.subshell ? lk_script_subshell : lk_script_body)(shell, body.at, body.end,
		                                                               body.line, certain);
	lk_shell_show(shell);
	shell->calls--;
	shell->leaves = '\0';
	shell->args = outer;
	shell->arg_count = outer_count;
	shell->args_known = known;
	return status;
}

/* let N=2*M "K += 1": sums. */
static lk_status script_let(lk_shell *shell, const lk_raws *words, size_t first, lk_truth certain) {
	shell->succeeded = LK_SHELL_UNKNOWN;
	for (size_t i = first + 1; i < words->count; i++) {
		lk_word one;
		long long value;
		const char *unknown = NULL;
		LK_TRY(lk_shell_expand_one(shell, &words->at[i], &one));
		if (one.unknown != NULL) { /* it may set any */
			lk_raw named[] = {words->at[first], words->at[i]};
			lk_raws rest = {.at = named, .count = 2};
			LK_TRY(lk_shell_set_by_command(shell, &rest));
			continue;
		}
		shell->certain = certain;
		LK_TRY(lk_shell_math(shell, one.text, one.text + strlen(one.text), words->at[i].line,
		                     lk_shell_expand_one, &value, &unknown));
		if (unknown == NULL) shell->succeeded = value != 0 ? LK_SHELL_TRUE : LK_SHELL_FALSE;
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
	const lk_word value = {.text = text};
	shell->certain = certain;
	return lk_shell_put(shell, name->at, (size_t)(name->end - name->at), &value, name->line);
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

/* ---- read ---- */

/* read NAME... <<END, <<<: what it reads follows; of other input nothing is known. */
static lk_status script_read(lk_shell *shell, const lk_raws *words, size_t first,
                             lk_truth certain) {
	lk_script_sought *sought = shell->caller;
	bool follows = certain == LK_SHELL_TRUE && lk_shell_raw_is(&words->at[first], "read") &&
	               (shell->heredocs > 0 || shell->strung);
	lk_raws names = {0};
	lk_status status = lk_push(&names) ? LK_OK : lk_oom(shell->err);
	bool known = true;
	sought->reads_all = sought->reads_raw = sought->reads_list = false;
	sought->reads_by = NULL;
	for (size_t i = first + 1; status == LK_OK && i < words->count; i++) {
		const lk_raw *raw = &words->at[i];
		if (*raw->at == '-') {
			for (const char *at = raw->at + 1; at < raw->end; at++) {
				sought->reads_raw |= *at == 'r';
				sought->reads_list |= *at == 'a';
				sought->reads_all |= *at == 'd';
				known &= strchr("radp", *at) != NULL;
			}
			i += strchr("dp", raw->end[-1]) != NULL; /* their values */
			continue;
		}
		if (lk_shell_name(raw->at, raw->end) != (size_t)(raw->end - raw->at)) known = false;
		else if (!lk_push(&names)) status = lk_oom(shell->err);
		else *lk_last(&names) = *raw;
	}
	if (status == LK_OK && names.count > 0) status = lk_shell_set_by_command(shell, &names);
	for (size_t i = 1; status == LK_OK && follows && known && i < names.count; i++) {
		lk_word name = {.text = lk_arena_strndup(shell->arena, names.at[i].at,
		                                         (size_t)(names.at[i].end - names.at[i].at))};
		if (name.text == NULL || !lk_push(&sought->reads)) status = lk_oom(shell->err);
		else *lk_last(&sought->reads) = name;
	}
	for (size_t i = 0; status == LK_OK && i < first; i++) { /* IFS=, read */
		bool append;
		const char *value;
		lk_word by;
		if (lk_shell_assignment(&words->at[i], &append, &value) != 3 ||
		    strncmp(words->at[i].at, "IFS", 3) != 0)
			continue;
		lk_raw raw = {value, words->at[i].end, words->at[i].line};
		status = lk_shell_expand_one(shell, &raw, &by);
		if (status == LK_OK && by.unknown != NULL) sought->reads.count = 0;
		if (status == LK_OK) sought->reads_by = by.text;
	}
	lk_vec_free(&names);
	return status;
}

/* The characters of a line, without the backslashes that make one stand for itself. */
struct script_line {
	char *text;
	bool *literal;
	size_t size, at;
	const char *by;
};

static bool line_splits(const struct script_line *line, size_t at) {
	return !line->literal[at] && strchr(line->by, line->text[at]) != NULL;
}

static void line_skip_blanks(struct script_line *line) {
	while (line->at < line->size && line_splits(line, line->at) &&
	       strchr(" \t\n", line->text[line->at]) != NULL)
		line->at++;
}

/* The next word, without what separates it from the one after. */
static const char *line_word(lk_shell *shell, struct script_line *line) {
	size_t from = line->at;
	while (line->at < line->size && !line_splits(line, line->at)) line->at++;
	const char *word = lk_arena_strndup(shell->arena, line->text + from, line->at - from);
	line_skip_blanks(line);
	bool mark = line->at < line->size && line_splits(line, line->at);
	if (mark) line->at++;
	if (mark) line_skip_blanks(line);
	return word;
}

/* The rest: of one word what separates it from the end is dropped, of several blanks alone. */
static const char *line_rest(lk_shell *shell, struct script_line *line) {
	size_t from = line->at, end = line->size;
	const char *word = line_word(shell, line);
	if (line->at >= line->size) return word;
	line->at = end;
	while (end > from && line_splits(line, end - 1) && strchr(" \t\n", line->text[end - 1]) != NULL)
		end--;
	return lk_arena_strndup(shell->arena, line->text + from, end - from);
}

static lk_status line_make(lk_shell *shell, const lk_word *input, struct script_line *line) {
	const lk_script_sought *sought = shell->caller;
	const lk_shell_var *ifs = lk_shell_find(shell, "IFS", 3);
	size_t length = strlen(input->text);
	line->by = ifs != NULL && ifs->values.count > 0 ? ifs->values.at[0].text : " \t\n";
	if (sought->reads_by != NULL) line->by = sought->reads_by;
	line->text = lk_arena_alloc(shell->arena, length + 1);
	line->literal = lk_arena_alloc(shell->arena, length + 1);
	if (line->text == NULL || line->literal == NULL) return lk_oom(shell->err);
	for (const char *at = input->text; *at != '\0'; at++) {
		bool escaped = *at == '\\' && !sought->reads_raw && at[1] != '\0';
		if (escaped && *++at == '\n') continue;
		if (*at == '\n' && !sought->reads_all) break;
		line->literal[line->size] = escaped;
		line->text[line->size++] = *at;
	}
	line_skip_blanks(line);
	return LK_OK;
}

lk_status lk_script_reads(lk_shell *shell, const lk_word *input) {
	lk_script_sought *sought = shell->caller;
	struct script_line line = {0};
	lk_shell_var *var;
	size_t count = sought->reads.count;
	sought->reads.count = 0;
	if (input->unknown != NULL && count > 1) return LK_OK; /* they are not known */
	LK_TRY(line_make(shell, input, &line));
	for (size_t i = 0; i < count && !sought->reads_list; i++) {
		lk_word value = {.unknown = input->unknown};
		value.text = i + 1 < count ? line_word(shell, &line) : line_rest(shell, &line);
		if (value.text == NULL) return lk_oom(shell->err);
		LK_TRY(lk_script_set(shell, sought->reads.at[i].text, &value));
	}
	if (!sought->reads_list || count != 1 || input->unknown != NULL) return LK_OK;
	LK_TRY(
		lk_shell_var_at(shell, sought->reads.at[0].text, strlen(sought->reads.at[0].text), &var));
	if (var->held) return LK_OK;
	var->values.count = 0;
	var->set = var->array = true;
	var->keyed = var->named = false;
	while (line.at < line.size) {
		lk_word value = {.text = line_word(shell, &line)};
		if (value.text == NULL || !lk_push(&var->values)) return lk_oom(shell->err);
		*lk_last(&var->values) = value;
	}
	return LK_OK;
}

/* Words that nobody needs, for what they set: echo $((N++)). */
static lk_status script_expand_setting(lk_shell *shell, const lk_raws *words, size_t from) {
	lk_words expanded = {0};
	lk_status status = LK_OK;
	for (size_t i = from; status == LK_OK && i < words->count; i++)
		if (lk_shell_may_set(words->at[i].at, words->at[i].end))
			status = lk_shell_expand(shell, &words->at[i], &expanded);
	lk_vec_free(&expanded);
	return status;
}

/* Text after that of a file, in a buffer that doubles. */
static lk_status script_append(lk_shell *shell, lk_inner_file *file, const char *text) {
	size_t length = strlen(text);
	if (file->size + length > LK_LAUNCH_BYTES) return LK_OK; /* no launch line is in it */
	if (file->buffer == NULL || file->size + length >= file->room) {
		file->room = 2 * (file->size + length) + 1;
		file->buffer = lk_arena_alloc(shell->arena, file->room);
		if (file->buffer == NULL) return lk_oom(shell->err);
		memcpy(file->buffer, file->text, file->size);
		file->text = file->buffer;
	}
	memcpy(file->buffer + file->size, text, length + 1);
	file->size += length;
	LK_ASSERT(file->size < file->room);
	return LK_OK;
}

/* echo TEXT > FILE, >> FILE: a file that the script writes. What is not known in it stays as
 * written, so that reading it finds it unknown again. */
static lk_status script_echo_to_file(lk_shell *shell, const lk_raws *words, size_t first) {
	const lk_script_sought *sought = shell->caller;
	lk_inner_file *file = shell->appends ? sought->reading->files : NULL;
	lk_words expanded = {0};
	lk_word text = {0};
	lk_status status = lk_script_expand(shell, words, first + 1, &expanded);
	if (status == LK_OK) text.text = lk_script_echo(shell->arena, &expanded);
	lk_vec_free(&expanded);
	if (status != LK_OK || text.text == NULL) return status; /* options that are not read */
	while (file != NULL && strcmp(file->name, shell->output) != 0) file = file->next;
	return file != NULL ? script_append(shell, file, text.text)
	                    : shell->wrote(shell, shell->output, &text);
}

/* Whether the last test asks for a value or a file that a reader is to supply:
 * [ -z "$IMAGE" ], [[ ! -f $DATA ]]. */
static bool script_asks(const lk_script_sought *sought) {
	const char *at = sought->tested.at, *end = sought->tested.end;
	for (; at != NULL && end - at > 3; at++)
		if (at[0] == ' ' && at[1] == '-' && strchr("znfders", at[2]) != NULL && at[3] == ' ')
			return true;
	return false;
}

/* exit [N] ends the script, but not one that fails for want of a value or file, before it has
 * launched: what it would launch is read. */
static lk_status script_exit(lk_shell *shell, const lk_raws *words, size_t first,
                             lk_truth certain) {
	lk_script_sought *sought = shell->caller;
	lk_word code = {.text = "0"};
	if (words->count > first + 1) LK_TRY(lk_shell_expand_one(shell, &words->at[first + 1], &code));
	shell->stop = certain == LK_SHELL_TRUE && !lk_script_assumed(shell);
	if (!shell->stop) return LK_OK;
	bool fails = code.unknown == NULL && strtol(code.text, NULL, 10) != 0;
	if (fails && sought->rank == 0 && script_asks(sought)) {
		shell->stop = false;
		return lk_launch_assume(
			sought->reading,
			"line %d, which ends the script where a value or a file is missing, "
			"is passed over",
			words->at[first].line);
	}
	sought->ended = words->at[first].line;
	return LK_OK;
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
	sought->reads.count = 0;
	if (lk_script_among(name, declaring)) return lk_shell_declare(shell, words, certain);
	if (lk_shell_raw_is(name, "unset")) return lk_shell_unset(shell, words, certain);
	if (lk_script_among(name, setting)) return script_read(shell, words, first, certain);
	if (lk_shell_raw_is(name, "source") || lk_shell_raw_is(name, "."))
		return lk_script_source(shell, words);
	if (lk_shell_raw_is(name, "exit")) return script_exit(shell, words, first, certain);
	if (lk_shell_raw_is(name, "exec") && words->count == first + 1) return LK_OK;
	if (lk_shell_raw_is(name, "break") || lk_shell_raw_is(name, "return") ||
	    lk_shell_raw_is(name, "continue")) {
		if (*name->at == 'r' && words->count > first + 1) {
			lk_word code;
			LK_TRY(lk_shell_expand_one(shell, &words->at[first + 1], &code));
			bool zero = strtol(code.text, NULL, 10) == 0;
			shell->succeeded = zero ? LK_SHELL_TRUE : LK_SHELL_FALSE;
			if (code.unknown != NULL) shell->succeeded = LK_SHELL_UNKNOWN;
		}
		if (certain == LK_SHELL_TRUE && shell->base > 0) shell->leaves = *name->at;
		return LK_OK;
	}
	if (lk_shell_raw_is(name, "shift") || lk_shell_raw_is(name, "set"))
		return script_move_arguments(shell, words, first, certain);
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
	if (certain == LK_SHELL_TRUE && shell->output != NULL && shell->output != lk_shell_errors &&
	    shell->heredocs == 0 && lk_shell_raw_is(name, "echo"))
		return script_echo_to_file(shell, words, first);
	if (lk_script_among(name, passed)) return LK_OK;
	if (lk_script_among(name, harmless)) return script_expand_setting(shell, words, first + 1);
	uint32_t function = lk_script_function(shell, name);
	if (function != UINT32_MAX) return script_call(shell, words, first, function, certain);
	bool ran = false, remote = lk_shell_raw_is(name, "ssh");
	if (remote && certain == LK_SHELL_TRUE) return lk_script_remote(shell, words);
	static const char *const containers[] = {"docker",    "podman", "singularity",
	                                         "apptainer", "srun",   NULL};
	shell->certain = LK_SHELL_FALSE; /* what the words set is set once, below */
	if (certain != LK_SHELL_FALSE && first == 0 && lk_script_among(name, containers))
		LK_TRY(lk_script_inside(shell, words, &ran));
	if (!ran && certain != LK_SHELL_FALSE && first == 0)
		LK_TRY(lk_script_start(shell, words, &ran));
	shell->certain = certain;
	if (ran) return LK_OK;
	return lk_script_program(shell, words, certain);
}
