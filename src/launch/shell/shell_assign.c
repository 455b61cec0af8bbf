/* shell_assign.c: what sets variables: assignments, arrays, export and its relatives, unset, read.
 */
#include "base/arena.h"
#include "launch/shell/shell.h"

#include <stdlib.h>
#include <string.h>

size_t lk_shell_assignment(const lk_raw *raw, bool *append, const char **value) {
	size_t n = lk_shell_name(raw->at, raw->end);
	const char *p = raw->at + n;
	if (n == 0 || p >= raw->end) return 0;
	if (*p == '[') {
		p = memchr(p, ']', (size_t)(raw->end - p));
		if (p == NULL || ++p >= raw->end) return 0;
	}
	*append = *p == '+';
	if (*append) p++;
	if (p >= raw->end || *p != '=') return 0;
	*value = p + 1;
	return n;
}

static lk_status array_words(lk_shell *shell, const lk_raw *raw, const char *value, lk_words *out) {
	const char *at = value + 1, *end = raw->end - 1;
	int line = raw->line;
	while (at < end) {
		if (*at == '#') {
			const char *stop = memchr(at, '\n', (size_t)(end - at));
			at = stop != NULL ? stop : end;
		} else if (*at == '\\' && at + 1 < end && at[1] == '\n') {
			line++;
			at += 2;
		} else if (strchr(" \t\r\n", *at) != NULL) {
			line += *at++ == '\n';
		} else {
			lk_raw word = {.at = at, .line = line};
			word.end = lk_shell_word_end(shell, at, end, line);
			if (word.end == NULL) return LK_ERR_INPUT;
			if (word.end == at)
				word.end++; /* a bracket or sign of the shell, where bash would object */
			LK_TRY(lk_shell_expand(shell, &word, out));
			line += lk_shell_lines(at, word.end);
			at = word.end;
		}
	}
	return LK_OK;
}

static lk_status assign_put_values(lk_shell *shell, lk_shell_var *var, const lk_words *values,
                                   bool append, bool array) {
	size_t old = append && var->set ? var->values.count : 0;
	if (append && !array && old > 0) { /* text is glued to the text */
		lk_word *target = &var->values.at[0];
		char *text = lk_arena_printf(shell->arena, "%s%s", target->text, values->at[0].text);
		shell->produced += text != NULL ? strlen(text) : 0;
		if (text == NULL) return lk_oom(shell->err);
		if (shell->produced > LK_LAUNCH_BYTES)
			return lk_shell_fail(shell, shell->line, "the expanded words are longer than 4 MiB",
			                     "shorten the script");
		target->text = text;
		if (target->unknown == NULL) target->unknown = values->at[0].unknown;
		target->empty_if_unset = false;
		return LK_OK;
	}
	if (!lk_reserve(&var->values, values->count + 1)) return lk_oom(shell->err);
	var->values.count = old;
	for (size_t i = 0; i < values->count; i++) var->values.at[var->values.count++] = values->at[i];
	var->set = true;
	var->array |= array;
	if (array) var->keyed = var->values.count > 0 && lk_shell_key(var->values.at[0].text) > 0;
	return LK_OK;
}

/* What is assigned where it is not certain that the line runs. */
static lk_status make_unknown(lk_shell *shell, const lk_raw *raw, size_t length, lk_words *values) {
	values->count = 0;
	if (!lk_push(values)) return lk_oom(shell->err);
	const char *why =
		lk_shell_unknown(shell, raw->line, raw->at, length, "is set in a line that may not run");
	char *text =
		lk_arena_printf(shell->arena, "$%.*s", (int)(length > 100 ? 100 : length), raw->at);
	if (why == NULL || text == NULL) return lk_oom(shell->err);
	*lk_last(values) = (lk_word){.text = text, .unknown = why};
	return LK_OK;
}

/* A[KEY]=VALUE: kept as "[KEY]=VALUE", or in its place of a list. */
static lk_status assign_element(lk_shell *shell, const lk_raw *raw, size_t length,
                                const char *value) {
	const char *bracket =
		memchr(raw->at + length, ']', (size_t)(raw->end - raw->at - (long)length));
	lk_raw key_raw = {.at = raw->at + length + 1, .end = bracket, .line = raw->line},
		   value_raw = {.at = value, .end = raw->end, .line = raw->line};
	lk_word key, text;
	lk_shell_var *var;
	LK_TRY(lk_shell_expand_one(shell, &key_raw, &key));
	LK_TRY(lk_shell_expand_one(shell, &value_raw, &text));
	LK_TRY(lk_shell_var_at(shell, raw->at, length, &var));
	if (var->held) return LK_OK;
	lk_word *at = lk_shell_element(var, key.text);
	bool number = *key.text && strspn(key.text, "0123456789") == strlen(key.text);
	bool next = !var->keyed && number && strtoul(key.text, NULL, 10) == var->values.count;
	if (at == NULL && !lk_push(&var->values)) return lk_oom(shell->err);
	if (at == NULL) at = lk_last(&var->values);
	if (key.unknown != NULL && text.unknown == NULL) text.unknown = key.unknown;
	var->set = var->array = true;
	if (!next && at == lk_last(&var->values)) var->keyed |= !number || var->values.count == 1;
	*at = text;
	if (!var->keyed) return LK_OK;
	at->text = lk_arena_printf(shell->arena, "[%s]=%s", key.text, text.text);
	return at->text != NULL ? LK_OK : lk_oom(shell->err);
}

lk_status lk_shell_assign(lk_shell *shell, const lk_raw *raw, lk_truth certain, bool exported) {
	bool append;
	const char *value;
	size_t length = lk_shell_assignment(raw, &append, &value);
	lk_words values = {0};
	lk_shell_var *var;
	bool array = value < raw->end && *value == '(', element = raw->at[length] == '[';
	lk_status status = LK_OK;
	if (element && certain == LK_SHELL_TRUE && !append)
		return assign_element(shell, raw, length, value);
	/* What may be added to a list is left out: whoever reads on is told so. */
	if (certain == LK_SHELL_UNKNOWN && append && !element)
		return shell->doubt != NULL ? shell->doubt(shell, raw->line) : LK_OK;
	if (certain != LK_SHELL_TRUE || element) {
		status = make_unknown(shell, raw, length, &values);
		append = false;
	} else if (array) {
		status = array_words(shell, raw, value, &values);
	} else {
		lk_raw text = {.at = value, .end = raw->end, .line = raw->line};
		status = lk_push(&values) ? lk_shell_expand_one(shell, &text, &values.at[0])
		                          : lk_oom(shell->err);
	}
	if (status == LK_OK) status = lk_shell_var_at(shell, raw->at, length, &var);
	if (status == LK_OK && !var->held)
		status = assign_put_values(shell, var, &values, append, array);
	if (status == LK_OK && exported) var->exported = true;
	lk_vec_free(&values);
	return status;
}

/* export "$NAME"=VALUE: a name that is worked out. */
static lk_status assign_named(lk_shell *shell, const lk_raw *raw, lk_truth certain, bool exported) {
	lk_word word;
	lk_shell_var *var;
	LK_TRY(lk_shell_expand_one(shell, raw, &word));
	size_t length = lk_shell_name(word.text, word.text + strlen(word.text));
	if (word.unknown != NULL || length == 0 || word.text[length] != '=' || certain != LK_SHELL_TRUE)
		return shell->doubt != NULL ? shell->doubt(shell, raw->line) : LK_OK;
	LK_TRY(lk_shell_var_at(shell, word.text, length, &var));
	var->exported |= exported;
	if (var->held) return LK_OK;
	var->values.count = 0;
	if (!lk_push(&var->values)) return lk_oom(shell->err);
	*lk_last(&var->values) = (lk_word){.text = word.text + length + 1};
	var->set = true;
	var->array = var->keyed = false;
	return LK_OK;
}

/* export, declare, local, readonly, typeset */
lk_status lk_shell_declare(lk_shell *shell, const lk_raws *words, lk_truth certain) {
	bool exported = lk_shell_raw_is(&words->at[0], "export");
	for (size_t i = 1; i < words->count; i++) {
		const lk_raw *raw = &words->at[i];
		bool append;
		const char *value;
		if (*raw->at == '-') {
			exported |= memchr(raw->at, 'x', (size_t)(raw->end - raw->at)) != NULL;
		} else if (lk_shell_assignment(raw, &append, &value) > 0) {
			LK_TRY(lk_shell_assign(shell, raw, certain, exported));
		} else if (exported && lk_shell_name(raw->at, raw->end) > 0) {
			lk_shell_var *var = lk_shell_find(shell, raw->at, lk_shell_name(raw->at, raw->end));
			if (var != NULL) var->exported = true;
		} else if (memchr(raw->at, '$', (size_t)(raw->end - raw->at)) != NULL &&
		           memchr(raw->at, '=', (size_t)(raw->end - raw->at)) != NULL) {
			LK_TRY(assign_named(shell, raw, certain, exported));
		}
	}
	return LK_OK;
}

lk_status lk_shell_unset(lk_shell *shell, const lk_raws *words, lk_truth certain) {
	for (size_t i = 1; i < words->count; i++) {
		const lk_raw *raw = &words->at[i];
		size_t length = lk_shell_name(raw->at, raw->end);
		lk_shell_var *var = length > 0 ? lk_shell_find(shell, raw->at, length) : NULL;
		if (var == NULL) continue;
		if (certain == LK_SHELL_TRUE) {
			var->values.count = 0;
			var->exported = false;
		} else {
			LK_TRY(make_unknown(shell, raw, length, &var->values));
		}
	}
	return LK_OK;
}

/* read, mapfile: what they set only an execution could tell. */
lk_status lk_shell_set_by_command(lk_shell *shell, const lk_raws *words) {
	for (size_t i = 1; i < words->count; i++) {
		const lk_raw *raw = &words->at[i];
		size_t length = lk_shell_name(raw->at, raw->end);
		lk_shell_var *var;
		if (length == 0) continue;
		LK_TRY(lk_shell_var_at(shell, raw->at, length, &var));
		if (var->held) continue;
		var->set = true;
		LK_TRY(make_unknown(shell, raw, length, &var->values));
	}
	return LK_OK;
}
