/* script_output.c: what $(name ...) stands for where `name` is a function of the script, or a
 * command that asks for a device (python3 -c 'import torch_npu' && echo npu || echo gpu): its body
 * is read in a shell of its own, as a shell does, whose changes of variables are forgotten, and
 * what echo, printf and cat <<END write is kept. Where anything else may write, the text is not
 * known. */
#include "base/arena.h"
#include "base/check.h"
#include "launch/script/script_internal.h"

#include <string.h>

typedef struct lk_script_written {
	const char *text;
	const char *unknown; /* why a part of it is not known; NULL: all is */
	bool argument;       /* the unknown part is an argument of the script */
	bool unsure;         /* something may write more, or something else */
} lk_script_written;

/* Expands a format of %s, %d and the ends of lines, repeated while there are words; NULL: any other
 * format. */
const char *lk_script_format(lk_arena *arena, const lk_words *words) {
	LK_ASSERT(words->count > 0);
	const char *out = "", *format = words->at[0].text;
	size_t next = 1;
	do {
		size_t before = next;
		for (const char *at = format; *at && out; at++) {
			bool newline = *at == '\\' && at[1] == 'n';
			if ((*at == '\\' && !newline) || (*at == '%' && at[1] != 's' && at[1] != 'd'))
				return NULL;
			if (*at != '%') {
				out = lk_arena_printf(arena, "%s%c", out, newline ? '\n' : *at);
				at += newline;
				continue;
			}
			out = lk_arena_printf(arena, "%s%s", out,
			                      next < words->count ? words->at[next].text : "");
			next++;
			at++;
		}
		if (next == before || !out || strlen(out) > LK_LAUNCH_BYTES) break;
	} while (next < words->count);
	return out;
}

/* echo WORD...: after -n without the end of the line; NULL: with options that are not read. */
const char *lk_script_echo(lk_arena *arena, const lk_words *words) {
	const char *text = "";
	size_t first = 0;
	bool ends = true;
	for (; first < words->count && strcmp(words->at[first].text, "-n") == 0; first++) ends = false;
	if (first < words->count && strcmp(words->at[first].text, "-e") == 0) return NULL;
	for (size_t i = first; i < words->count && text; i++)
		text = lk_arena_printf(arena, "%s%s%s", text, i > first ? " " : "", words->at[i].text);
	return text && ends ? lk_arena_printf(arena, "%s\n", text) : text;
}

static lk_status output_add(lk_shell *shell, lk_script_written *written, const char *text) {
	shell->produced += strlen(text);
	if (shell->produced > LK_LAUNCH_BYTES)
		return lk_shell_fail(shell, shell->line, "the expanded words are longer than 4 MiB",
		                     "shorten the script");
	written->text = lk_arena_printf(shell->arena, "%s%s", written->text, text);
	return written->text ? LK_OK : lk_oom(shell->err);
}

/* Whether what the command writes goes to the next one. */
static bool output_is_piped(const lk_shell *shell) {
	return shell->at < shell->end && *shell->at == '|' &&
	       (shell->at + 1 >= shell->end || shell->at[1] != '|');
}

lk_status lk_script_write(lk_shell *shell, const lk_raws *words, size_t first, lk_truth certain,
                          bool *done) {
	static const char *const silent[] = {
		"cd",    "mkdir",  "rm",   "cp",   "mv",   "ln", "touch", "chmod", "sleep", "set",
		"shopt", "ulimit", "wait", "trap", "true", ":",  "umask", "hash",  "false", NULL};
	lk_script_sought *sought = shell->caller;
	lk_script_written *written = sought->written;
	const lk_raw *name = &words->at[first];
	bool echo = lk_shell_raw_is(name, "echo"), format = lk_shell_raw_is(name, "printf");
	const char *output = shell->output;
	*done = false;
	if (written == NULL || certain == LK_SHELL_FALSE) return LK_OK;
	if (shell->heredocs == 0) shell->output = NULL;
	if (format && words->count > first + 1 && lk_shell_raw_is(&words->at[first + 1], "-v"))
		return LK_OK;
	written->unsure |= output_is_piped(shell);
	if (lk_script_among(name, silent)) return LK_OK;
	if (lk_script_function(shell, name) != UINT32_MAX) {
		written->unsure |= output != NULL || certain != LK_SHELL_TRUE;
		return LK_OK;
	}
	*done = true;
	sought->cats = false;
	if (output != NULL) return LK_OK; /* into a file, or as an error */
	bool document =
		lk_shell_raw_is(name, "cat") && words->count == first + 1 && shell->heredocs > 0;
	written->unsure |= certain != LK_SHELL_TRUE || (!echo && !format && !document);
	sought->cats = document;
	if (!echo && !format) return LK_OK;
	lk_words expanded = {0};
	lk_status status = lk_script_expand(shell, words, first + 1, &expanded);
	for (size_t i = 0; i < expanded.count; i++) {
		if (written->unknown == NULL) written->unknown = expanded.at[i].unknown;
		written->argument |= expanded.at[i].argument;
	}
	const char *text = NULL;
	if (status == LK_OK && echo) text = lk_script_echo(shell->arena, &expanded);
	if (status == LK_OK && format && expanded.count > 0)
		text = lk_script_format(shell->arena, &expanded);
	written->unsure |= text == NULL;
	if (status == LK_OK && text != NULL) status = output_add(shell, written, text);
	lk_vec_free(&expanded);
	return status;
}

lk_status lk_script_document(lk_shell *shell, const char *text) {
	lk_script_sought *sought = shell->caller;
	lk_script_written *written = sought->written;
	sought->cats = false;
	written->unsure |= strchr(text, '$') != NULL || strchr(text, '`') != NULL;
	return output_add(shell, written, text);
}

/* A copy of all variables, which the function may change. */
static lk_status output_copy_variables(lk_shell *shell) {
	size_t count = shell->vars.count;
	const lk_shell_var *vars = shell->vars.at;
	memset(&shell->vars, 0, sizeof shell->vars);
	if (!lk_reserve(&shell->vars, count + 1)) return lk_oom(shell->err);
	for (size_t i = 0; i < count; i++) {
		lk_shell_var *copy = &shell->vars.at[shell->vars.count++];
		*copy = vars[i];
		memset(&copy->values, 0, sizeof copy->values);
		if (!lk_reserve(&copy->values, vars[i].values.count + 1)) return lk_oom(shell->err);
		copy->values.count = vars[i].values.count;
		if (copy->values.count > 0)
			memcpy(copy->values.at, vars[i].values.at,
			       copy->values.count * sizeof *copy->values.at);
	}
	return LK_OK;
}

static void output_free_variables(lk_shell *shell) {
	for (size_t i = 0; i < shell->vars.count; i++) lk_vec_free(&shell->vars.at[i].values);
	lk_vec_free(&shell->vars);
}

lk_status lk_script_output(lk_shell *shell, const char *at, const char *end, int line,
                           lk_word *out) {
	lk_script_sought *sought = shell->caller;
	while (at < end && strchr(" \t\n", *at) != NULL) at++;
	lk_raw name = {.at = at, .end = at, .line = line};
	while (name.end < end && strchr(" \t\n;|&<>()", *name.end) == NULL) name.end++;
	const char *first = at; /* of the commands, its own end: "... && echo npu || echo gpu" */
	while (first < end && strchr(";|&\n", *first) == NULL) first++;
	if (lk_script_function(shell, &name) == UINT32_MAX && !lk_script_asks_device(at, first))
		return LK_OK;
	lk_script_written written = {.text = ""};
	lk_script_sought outer = *sought;
	lk_shell kept = *shell;
	lk_status status = output_copy_variables(shell);
	memset(&shell->blocks, 0, sizeof shell->blocks); /* whether this line runs is another matter */
	shell->base = 0;
	shell->heredocs = 0;
	shell->output = NULL;
	shell->leaves = '\0';
	sought->written = &written;
	sought->cats = false;
	size_t hidden = shell->hidden.count;
	if (status == LK_OK) status = lk_script_body(shell, at, end, line, LK_SHELL_TRUE);
	lk_shell_forget_hidden(shell, hidden);
	kept.hidden = shell->hidden; /* it may have moved */
	output_free_variables(shell);
	lk_vec_free(&shell->blocks);
	size_t produced = shell->produced;
	int runs = shell->runs;
	kept.bodies = shell->bodies; /* a function that is defined inside stays: none of its name was */
	*shell = kept;
	shell->produced = produced;
	shell->runs = runs;
	outer.sources = sought->sources;
	outer.reads = sought->reads;
	*sought = outer;
	if (status != LK_OK || written.unsure) return status;
	LK_ASSERT(written.text != NULL && shell->produced >= kept.produced);
	size_t size = strlen(written.text);
	while (size > 0 && written.text[size - 1] == '\n') size--;
	out->text = lk_arena_strndup(shell->arena, written.text, size);
	out->unknown = written.unknown;
	out->argument = written.argument;
	return out->text ? LK_OK : lk_oom(shell->err);
}
