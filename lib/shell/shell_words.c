/* shell_words.c: errors and variables of a script, and where its quotes, brackets and words end:
 * the base of the rest of the reader. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/check.h"
#include "shell/shell.h"

lk_status lk_shell_fail(lk_shell *shell, int line, const char *what, const char *hint) {
	char where[256];
	snprintf(where, sizeof where, "%.200s:%d", shell->where, line);
	lk_fail(shell->err, LK_ERR_INPUT, where, "%s", what);
	return lk_hint(shell->err, "%s", hint);
}

char *lk_shell_unknown(lk_shell *shell, int line, const char *what, size_t length,
                       const char *why) {
	int shown = length > 60 ? 60 : (int)length;
	return lk_arena_printf(shell->arena, "line %d: %.*s%s %s", line, shown, what,
	                       length > 60 ? "..." : "", why);
}

size_t lk_shell_name(const char *at, const char *end) {
	size_t n = 0;
	if (at < end && isdigit((unsigned char)*at)) return 0;
	while (at + n < end && (isalnum((unsigned char)at[n]) || at[n] == '_')) n++;
	return n;
}

int lk_shell_lines(const char *at, const char *end) {
	int lines = 0;
	for (; at < end; at++) lines += *at == '\n';
	return lines;
}

bool lk_shell_raw_is(const lk_raw *raw, const char *text) {
	size_t length = strlen(text);
	return (size_t)(raw->end - raw->at) == length && memcmp(raw->at, text, length) == 0;
}

/* ---- variables ---- */

lk_shell_var *lk_shell_find(lk_shell *shell, const char *name, size_t length) {
	char text[128];
	if (length >= sizeof text) return NULL;
	memcpy(text, name, length);
	text[length] = '\0';
	uint32_t id = lk_intern_find(shell->names, text);
	if (id >= shell->vars.count || !shell->vars.at[id].set) return NULL;
	shell->vars.at[id].seen = true;
	return &shell->vars.at[id];
}

lk_status lk_shell_var_at(lk_shell *shell, const char *name, size_t length, lk_shell_var **out) {
	char text[128];
	if (length >= sizeof text)
		return lk_shell_fail(shell, shell->line, "a name of more than 127 characters",
		                     "shorten it");
	memcpy(text, name, length);
	text[length] = '\0';
	uint32_t id = lk_intern_id(shell->names, text);
	if (id == UINT32_MAX) return lk_oom(shell->err);
	while (shell->vars.count <= id)
		if (!lk_push(&shell->vars)) return lk_oom(shell->err);
	LK_ASSERT(id < shell->vars.count);
	*out = &shell->vars.at[id];
	return LK_OK;
}

size_t lk_shell_key(const char *text) {
	const char *end = *text == '[' ? strstr(text, "]=") : NULL;
	return end != NULL ? (size_t)(end - text) + 2 : 0;
}

lk_word *lk_shell_element(const lk_shell_var *var, const char *key) {
	size_t length = strlen(key);
	char *end;
	long number = strtol(key, &end, 10);
	for (size_t i = var->values.count; var->keyed && i > 0; i--) {
		const char *text = var->values.at[i - 1].text;
		if (lk_shell_key(text) == length + 3 && strncmp(text + 1, key, length) == 0)
			return &var->values.at[i - 1];
	}
	if (var->keyed || *key == '\0' || *end != '\0') return NULL;
	if (number < 0) number += (long)var->values.count;
	return number >= 0 && (size_t)number < var->values.count ? &var->values.at[number] : NULL;
}

lk_status lk_shell_set(lk_shell *shell, const char *text, size_t length) {
	lk_shell_var *var;
	size_t name = lk_shell_name(text, text + length);
	char *value = lk_arena_strndup(shell->arena, text + name + 1, length - name - 1);
	if (value == NULL) return lk_oom(shell->err);
	LK_TRY(lk_shell_var_at(shell, text, name, &var));
	if (var->values.count == 0 && !lk_push(&var->values)) return lk_oom(shell->err);
	var->values.at[0] = (lk_word){.text = value};
	var->set = true;
	return LK_OK;
}

lk_status lk_shell_put(lk_shell *shell, const char *name, size_t length, const lk_word *value,
                       int line) {
	lk_shell_var *var;
	lk_word unsure = *value;
	if (shell->certain == LK_SHELL_FALSE) return LK_OK;
	LK_TRY(lk_shell_var_at(shell, name, length, &var));
	if (var->held) return LK_OK;
	if (var->values.count == 0 && !lk_push(&var->values)) return lk_oom(shell->err);
	if (shell->certain == LK_SHELL_UNKNOWN) {
		unsure.unknown =
			lk_shell_unknown(shell, line, name, length, "is set in a line that may not run");
		unsure.text = lk_arena_printf(shell->arena, "$%.*s", (int)length, name);
		if (unsure.unknown == NULL || unsure.text == NULL) return lk_oom(shell->err);
	}
	var->values.at[0] = unsure;
	var->set = true;
	return LK_OK;
}

lk_status lk_shell_hide(lk_shell *shell, const char *name, size_t length) {
	lk_shell_var *var;
	if (shell->calls == 0) return LK_OK;
	LK_TRY(lk_shell_var_at(shell, name, length, &var));
	uint32_t id = (uint32_t)(var - shell->vars.at);
	bool hidden = var->held;
	for (size_t i = shell->hidden.count; i > 0 && shell->hidden.at[i - 1].call == shell->calls; i--)
		hidden |= shell->hidden.at[i - 1].id == id;
	if (hidden) return LK_OK;
	if (!lk_push(&shell->hidden)) return lk_oom(shell->err);
	*lk_last(&shell->hidden) = (lk_shell_hidden){.id = id, .call = shell->calls, .var = *var};
	*var = (lk_shell_var){.exported = var->exported, .seen = var->seen};
	return LK_OK;
}

void lk_shell_show(lk_shell *shell) {
	while (shell->hidden.count > 0 && lk_last(&shell->hidden)->call == shell->calls) {
		const lk_shell_hidden *one = lk_last(&shell->hidden);
		LK_ASSERT(one->id < shell->vars.count);
		lk_shell_var *var = &shell->vars.at[one->id];
		bool seen = var->seen;
		lk_vec_free(&var->values);
		*var = one->var;
		var->seen |= seen;
		shell->hidden.count--;
	}
}

void lk_shell_forget_hidden(lk_shell *shell, size_t count) {
	while (shell->hidden.count > count) {
		lk_vec_free(&lk_last(&shell->hidden)->var.values);
		shell->hidden.count--;
	}
}

void lk_shell_vars_free(lk_shell_vars *vars) {
	for (size_t i = 0; i < vars->count; i++) lk_vec_free(&vars->at[i].values);
	lk_vec_free(vars);
}

lk_status lk_shell_save(lk_shell *shell, lk_shell_vars *out) {
	*out = (lk_shell_vars){0};
	if (!lk_reserve(out, shell->vars.count)) return lk_oom(shell->err);
	for (size_t i = 0; i < shell->vars.count; i++) {
		const lk_shell_var *var = &shell->vars.at[i];
		lk_shell_var *copy = &out->at[out->count++];
		*copy = *var;
		copy->values = (lk_words){0};
		if (!lk_reserve(&copy->values, var->values.count)) {
			lk_shell_vars_free(out);
			return lk_oom(shell->err);
		}
		for (size_t k = 0; k < var->values.count; k++)
			copy->values.at[copy->values.count++] = var->values.at[k];
	}
	return LK_OK;
}

void lk_shell_restore(lk_shell *shell, lk_shell_vars *saved) {
	lk_shell_vars_free(&shell->vars);
	shell->vars = *saved;
	*saved = (lk_shell_vars){0};
}

/* ---- where things end ---- */

const char *lk_shell_skip_single(const char *at, const char *end) {
	LK_ASSERT(at < end && *at == '\'');
	const char *close = at + 1 < end ? memchr(at + 1, '\'', (size_t)(end - at - 1)) : NULL;
	return close == NULL ? NULL : close + 1;
}

const char *lk_shell_skip_ansi(const char *at, const char *end) {
	LK_ASSERT(end - at >= 2 && at[0] == '$' && at[1] == '\'');
	for (at += 2; at < end; at++) {
		if (*at == '\'') return at + 1;
		if (*at == '\\' && at + 1 < end) at++;
	}
	return NULL;
}

/* Deepest nesting of quotes and brackets: deeper ones count as not closed. */
enum { NESTED = 64 };

static const char *close_nested(const char *at, const char *end, char open, char close, int depth);

static const char *skip_dollar(const char *at, const char *end, int depth) {
	if (at + 1 >= end) return at + 1;
	if (at[1] == '(') return close_nested(at + 1, end, '(', ')', depth);
	if (at[1] == '{') return close_nested(at + 1, end, '{', '}', depth);
	return at + 1;
}

static const char *skip_double(const char *at, const char *end, int depth) {
	if (depth > NESTED) return NULL;
	for (at++; at != NULL && at < end;) {
		if (*at == '"') return at + 1;
		if (*at == '\\') at += at + 1 < end ? 2 : 1;
		else if (*at == '$') at = skip_dollar(at, end, depth + 1);
		else at++;
	}
	return NULL;
}

const char *lk_shell_skip_double(const char *at, const char *end) {
	LK_ASSERT(at < end && *at == '"');
	return skip_double(at, end, 0);
}

const char *lk_shell_skip_backtick(const char *at, const char *end) {
	LK_ASSERT(at < end && *at == '`');
	for (at++; at < end; at++) {
		if (*at == '`') return at + 1;
		if (*at == '\\' && at + 1 < end) at++;
	}
	return NULL;
}

bool lk_shell_may_set(const char *at, const char *end) {
	bool dollar = false, sign = false;
	for (; at < end; at++) {
		dollar |= *at == '$' && at + 1 < end && (at[1] == '{' || at[1] == '(');
		sign |= *at == '=' || ((*at == '+' || *at == '-') && at + 1 < end && at[1] == *at);
	}
	return dollar && sign;
}

static const char *close_nested(const char *at, const char *end, char open, char close, int depth) {
	int inner = 0;
	if (depth > NESTED) return NULL;
	while (at != NULL && at < end) {
		bool dollar = *at == '$' && at + 1 < end;
		if (*at == '\'') at = lk_shell_skip_single(at, end);
		else if (dollar && at[1] == '\'') at = lk_shell_skip_ansi(at, end);
		else if (*at == '"') at = skip_double(at, end, depth + 1);
		else if (*at == '\\') at += at + 1 < end ? 2 : 1;
		else if (dollar && inner > 0 && (open == '{' || at[1] == '{'))
			at = skip_dollar(at, end, depth + 1);
		else if (open == '{' && inner > 0 && *at == '{') at++; /* ${A:-{}: the first } ends it */
		else if (open == '(' && *at == '#' && (at[-1] == ' ' || at[-1] == '\t' || at[-1] == '\n')) {
			at = memchr(at, '\n', (size_t)(end - at)); /* a comment inside an array */
		} else {
			inner += (*at == open) - (*at == close);
			at++;
			if (inner == 0) return at;
		}
	}
	return NULL;
}

const char *lk_shell_close(const char *at, const char *end, char open, char close) {
	LK_ASSERT(at < end && *at == open);
	return close_nested(at, end, open, close, 0);
}

/* Whether NAME=( or NAME+=( begins an array, which is one word up to its parenthesis. */
static bool array_begins(const char *start, const char *at) {
	size_t n = lk_shell_name(start, at);
	const char *p = start + n;
	if (n == 0) return false;
	if (p < at && *p == '+') p++;
	return p + 1 == at && *p == '=';
}

const char *lk_shell_placeholder(const char *at, const char *end) {
	const char *from = at + 1, *p = from;
	if (at >= end || *at != '<' || from >= end || !isalpha((unsigned char)*from)) return NULL;
	while (p < end && p - from < 120 &&
	       (isalnum((unsigned char)*p) || strchr(" _,-./'`:", *p) != NULL) && *p != '\0')
		p++;
	bool whole = p < end && *p == '>' && p[-1] != ' ' && p + 1 < end && p[1] != '>';
	return whole || (p + 1 == end && *p == '>') ? p + 1 : NULL;
}

const char *lk_shell_word_end(lk_shell *shell, const char *at, const char *end, int line) {
	const char *start = at;
	while (at != NULL && at < end) {
		char c = *at;
		const char *placeholder = lk_shell_placeholder(at, end);
		if (c == '(' && array_begins(start, at)) at = lk_shell_close(at, end, '(', ')');
		else if (placeholder != NULL) at = placeholder;
		else if (strchr(" \t\n\r;&|<>()", c) != NULL && c != '\0') return at;
		else if (c == '\'') at = lk_shell_skip_single(at, end);
		else if (c == '"') at = lk_shell_skip_double(at, end);
		else if (c == '`') at = lk_shell_skip_backtick(at, end);
		else if (c == '$' && at + 1 < end && at[1] == '\'') at = lk_shell_skip_ansi(at, end);
		else if (c == '$') at = skip_dollar(at, end, 0);
		else if (c == '\\') at += at + 1 < end ? 2 : 1;
		else at++;
	}
	if (at == NULL) lk_shell_fail(shell, line, "a quote or bracket is not closed", "close it");
	return at;
}
