/* shell_assign.c: commands that set variables: assignments, arrays, export and its relatives,
 * unset, read. */
#include "base/arena.h"
#include "shell/shell.h"

#include <stdlib.h>
#include <string.h>

size_t lk_shell_assignment(const lk_raw *raw, bool *append, const char **value) {
	size_t n = lk_shell_name(raw->at, raw->end);
	const char *p = raw->at + n;
	if (n == 0 || p >= raw->end) return 0;
	if (*p == '[') {
		p = lk_shell_close(p, raw->end, '[', ']');
		if (p == NULL || p >= raw->end) return 0;
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
				word.end++; /* a bracket or operator of the shell, which bash would refuse */
			LK_TRY(lk_shell_expand(shell, &word, out));
			line += lk_shell_lines(at, word.end);
			at = word.end;
		}
	}
	return LK_OK;
}

static lk_status put_element(lk_shell *shell, lk_shell_var *var, const char *key,
                             const lk_word *value, bool append);

static lk_status assign_put_values(lk_shell *shell, lk_shell_var *var, const lk_words *values,
                                   bool append, bool array) {
	size_t old = append && var->set ? var->values.count : 0;
	if (!array && var->set && var->array)
		return put_element(shell, var, "0", &values->at[0], append);
	if (append && !array && old > 0) { /* append to the text */
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

/* Make an assigned value unknown, because it is not certain that the line runs. */
static lk_status make_unknown(lk_shell *shell, const lk_raw *raw, size_t length, lk_words *values) {
	values->count = 0;
	if (!lk_push(values)) return lk_oom(shell->err);
	const char *why =
		lk_shell_unknown(shell, raw->line, raw->at, length, "is set in a line that may not run");
	if (why != NULL && shell->asks != NULL)
		why = lk_arena_printf(shell->arena, "%s: %s", why, shell->asks);
	char *text =
		lk_arena_printf(shell->arena, "$%.*s", (int)(length > 100 ? 100 : length), raw->at);
	if (why == NULL || text == NULL) return lk_oom(shell->err);
	*lk_last(values) = (lk_word){.text = text, .unknown = why};
	return LK_OK;
}

/* Turn the elements into "[KEY]=VALUE", the form that lists with holes have too. */
static lk_status make_keyed(lk_shell *shell, lk_shell_var *var) {
	for (size_t i = 0; !var->keyed && i < var->values.count; i++) {
		lk_word *element = &var->values.at[i];
		element->text = lk_arena_printf(shell->arena, "[%zu]=%s", i, element->text);
		if (element->text == NULL) return lk_oom(shell->err);
	}
	var->keyed = true;
	return LK_OK;
}

/* Place of an index among the keys of a list. */
static size_t key_place(const lk_shell_var *var, long number) {
	size_t at = var->values.count;
	while (!var->named && at > 0 && strtol(var->values.at[at - 1].text + 1, NULL, 10) > number)
		at--;
	return at;
}

/* Set or append to the element of a key, which is an index unless the variable's keys are names. */
static lk_status put_element(lk_shell *shell, lk_shell_var *var, const char *key,
                             const lk_word *value, bool append) {
	lk_word *at = lk_shell_element(var, key), word = *value;
	const char *old = at != NULL ? at->text + (var->keyed ? lk_shell_key(at->text) : 0) : "";
	long number = strtol(key, NULL, 10);
	if (at != NULL && append && word.unknown == NULL) word.unknown = at->unknown;
	if (append) word.text = lk_arena_printf(shell->arena, "%s%s", old, word.text);
	if (word.text == NULL) return lk_oom(shell->err);
	shell->produced += append ? strlen(word.text) : 0;
	if (shell->produced > LK_LAUNCH_BYTES)
		return lk_shell_fail(shell, shell->line, "the expanded words are longer than 4 MiB",
		                     "shorten the script");
	if (at == NULL && !var->keyed && (var->named || number != (long)var->values.count))
		LK_TRY(make_keyed(shell, var));
	if (var->keyed) {
		word.text = lk_arena_printf(shell->arena, "[%s]=%s", key, word.text);
		if (word.text == NULL) return lk_oom(shell->err);
	}
	if (at == NULL) {
		size_t place = var->keyed ? key_place(var, number) : var->values.count;
		if (!lk_push(&var->values)) return lk_oom(shell->err);
		memmove(var->values.at + place + 1, var->values.at + place,
		        (var->values.count - 1 - place) * sizeof *var->values.at);
		at = &var->values.at[place];
	}
	*at = word;
	var->set = var->array = true;
	return LK_OK;
}

/* Read the key between brackets: a name of declare -A, else the value of an arithmetic
 * expression. */
static lk_status element_key(lk_shell *shell, const lk_shell_var *var, const char *at,
                             const char *end, int line, lk_word *key) {
	lk_raw raw = {.at = at, .end = end, .line = line};
	long long number;
	LK_TRY(lk_shell_expand_one(shell, &raw, key));
	if (var->named || key->unknown != NULL) return LK_OK;
	const char *text = key->text;
	LK_TRY(lk_shell_math(shell, text, text + strlen(text), line, lk_shell_expand_one, &number,
	                     &key->unknown));
	if (number < 0 && !var->keyed) number += (long long)var->values.count;
	if (number < 0 && key->unknown == NULL)
		key->unknown = lk_shell_unknown(shell, line, text, strlen(text), "is no index");
	key->text = lk_arena_printf(shell->arena, "%lld", number);
	return key->text != NULL ? LK_OK : lk_oom(shell->err);
}

/* A[KEY]=VALUE */
static lk_status assign_element(lk_shell *shell, const lk_raw *raw, size_t length,
                                const char *value, bool append) {
	const char *close = lk_shell_close(raw->at + length, raw->end, '[', ']');
	lk_raw value_raw = {.at = value, .end = raw->end, .line = raw->line};
	lk_word key, text;
	lk_shell_var *var;
	LK_TRY(lk_shell_expand_one(shell, &value_raw, &text));
	LK_TRY(lk_shell_var_at(shell, raw->at, length, &var));
	LK_TRY(element_key(shell, var, raw->at + length + 1, close - 1, raw->line, &key));
	LK_TRY(lk_shell_var_at(shell, raw->at, length, &var)); /* it may have moved */
	if (var->held) return LK_OK;
	if (key.unknown == NULL) return put_element(shell, var, key.text, &text, append);
	var->set = true;
	var->keyed = false;
	return make_unknown(shell, raw, length, &var->values);
}

/* Assign. `local`: the variable ends with the function that declares it. */
static lk_status assign_as(lk_shell *shell, const lk_raw *raw, lk_truth certain, bool exported,
                           bool local);

lk_status lk_shell_assign(lk_shell *shell, const lk_raw *raw, lk_truth certain, bool exported) {
	return assign_as(shell, raw, certain, exported, false);
}

static lk_status assign_as(lk_shell *shell, const lk_raw *raw, lk_truth certain, bool exported,
                           bool local) {
	bool append;
	const char *value;
	size_t length = lk_shell_assignment(raw, &append, &value);
	lk_words values = {0};
	lk_shell_var *var;
	bool array = value < raw->end && *value == '(', element = raw->at[length] == '[';
	lk_status status = LK_OK;
	if (element && certain == LK_SHELL_TRUE)
		return assign_element(shell, raw, length, value, append);
	/* a value that might be appended is left out, and the caller is told */
	if (certain == LK_SHELL_UNKNOWN && append && !element)
		return shell->doubt != NULL ? shell->doubt(shell, raw->line) : LK_OK;
	if (certain != LK_SHELL_TRUE || element) {
		lk_word set; /* unused; the expansion may set variables */
		lk_raw text = {.at = value, .end = raw->end, .line = raw->line};
		if (!array && lk_shell_may_set(value, raw->end))
			status = lk_shell_expand_one(shell, &text, &set);
		if (status == LK_OK) status = make_unknown(shell, raw, length, &values);
		append = false;
	} else if (array) {
		status = array_words(shell, raw, value, &values);
	} else {
		lk_raw text = {.at = value, .end = raw->end, .line = raw->line};
		status = lk_push(&values) ? lk_shell_expand_one(shell, &text, &values.at[0])
		                          : lk_oom(shell->err);
	}
	if (status == LK_OK && local) status = lk_shell_hide(shell, raw->at, length);
	if (status == LK_OK) status = lk_shell_var_at(shell, raw->at, length, &var);
	if (status == LK_OK && !var->held && certain != LK_SHELL_TRUE && element) {
		var->values.count = 0; /* any element may be the one that is set */
		var->keyed = var->array = false;
	}
	if (status == LK_OK && !var->held)
		status = assign_put_values(shell, var, &values, append, array);
	if (status == LK_OK && exported) var->exported = true;
	lk_vec_free(&values);
	return status;
}

/* export "$NAME"=VALUE: the name is an expansion. */
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

/* Options of a declaration. */
struct declared {
	bool exported, local, names, other;
};

static void declare_options(struct declared *declared, const lk_raw *raw) {
	for (const char *at = raw->at + 1; at < raw->end; at++) {
		declared->exported |= *at == 'x';
		declared->names |= *at == 'A';
		declared->local &= *at != 'g';
		declared->other |=
			strchr("ilnu", *at) != NULL; /* options that change values when they are set */
	}
}

/* Declare one name without a value: local N, declare -A M, export N. */
static lk_status declare_name(lk_shell *shell, const lk_raw *raw, size_t length,
                              const struct declared *declared) {
	lk_shell_var *var;
	if (declared->local) LK_TRY(lk_shell_hide(shell, raw->at, length));
	LK_TRY(lk_shell_var_at(shell, raw->at, length, &var));
	bool hidden = declared->local && shell->calls > 0 && !var->held;
	if (declared->names || (hidden && !var->set)) var->set = true;
	if (declared->names) var->array = var->named = true;
	if (declared->exported && var->set) var->exported = true;
	return LK_OK;
}

static lk_status declare_one(lk_shell *shell, const lk_raw *raw, lk_truth certain,
                             struct declared *declared) {
	bool append;
	const char *value;
	size_t size = (size_t)(raw->end - raw->at), length = lk_shell_assignment(raw, &append, &value);
	if (*raw->at == '-' || *raw->at == '+') {
		declare_options(declared, raw);
	} else if (length > 0) {
		if (declared->names) LK_TRY(declare_name(shell, raw, length, declared));
		return assign_as(shell, raw, declared->other ? LK_SHELL_UNKNOWN : certain,
		                 declared->exported, declared->local && !append);
	} else if (lk_shell_name(raw->at, raw->end) == size) {
		if (certain != LK_SHELL_FALSE) return declare_name(shell, raw, size, declared);
	} else if (memchr(raw->at, '$', size) != NULL && memchr(raw->at, '=', size) != NULL) {
		return assign_named(shell, raw, certain, declared->exported);
	}
	return LK_OK;
}

/* export, declare, local, readonly, typeset */
lk_status lk_shell_declare(lk_shell *shell, const lk_raws *words, lk_truth certain) {
	static const char *const inside[] = {"local", "declare", "typeset"};
	struct declared declared = {.exported = lk_shell_raw_is(&words->at[0], "export")};
	lk_status status = LK_OK;
	for (size_t i = 0; i < sizeof inside / sizeof *inside; i++)
		declared.local |= lk_shell_raw_is(&words->at[0], inside[i]);
	for (size_t i = 1; status == LK_OK && i < words->count; i++) {
		lk_raws members = {0}; /* declare N={1,2} sets it twice */
		status = lk_shell_sets(shell, &words->at[i], &members);
		for (size_t k = 0; status == LK_OK && k < members.count; k++)
			status = declare_one(shell, &members.at[k],
			                     members.count > 1 ? LK_SHELL_UNKNOWN : certain, &declared);
		lk_vec_free(&members);
	}
	return status;
}

/* unset 'A[KEY]' */
static lk_status unset_element(lk_shell *shell, lk_shell_var *var, const char *text, int line) {
	const char *open = strchr(text, '['), *end = text + strlen(text);
	lk_word key;
	if (end[-1] != ']') return LK_OK;
	LK_TRY(element_key(shell, var, open + 1, end - 1, line, &key));
	lk_raw raw = {text, end, line};
	if (key.unknown != NULL || strcmp(key.text, "@") == 0 || strcmp(key.text, "*") == 0)
		return make_unknown(shell, &raw, (size_t)(open - text), &var->values);
	lk_word *element = lk_shell_element(var, key.text);
	if (element == NULL) return LK_OK;
	size_t place = (size_t)(element - var->values.at);
	if (place + 1 < var->values.count) LK_TRY(make_keyed(shell, var));
	memmove(element, element + 1, (--var->values.count - place) * sizeof *element);
	return LK_OK;
}

lk_status lk_shell_unset(lk_shell *shell, const lk_raws *words, lk_truth certain) {
	for (size_t i = 1; i < words->count; i++) {
		const lk_raw *raw = &words->at[i];
		lk_word word;
		LK_TRY(lk_shell_expand_one(shell, raw, &word));
		if (word.unknown != NULL || word.text[0] == '-') continue;
		size_t length = lk_shell_name(word.text, word.text + strlen(word.text));
		lk_shell_var *var = length > 0 ? lk_shell_find(shell, word.text, length) : NULL;
		if (var == NULL || var->held) continue;
		lk_raw name = {word.text, word.text + length, raw->line};
		if (certain != LK_SHELL_TRUE) {
			LK_TRY(make_unknown(shell, &name, length, &var->values));
		} else if (word.text[length] == '[') {
			LK_TRY(unset_element(shell, var, word.text, raw->line));
		} else {
			var->values.count = 0;
			var->exported = var->array = var->keyed = var->named = false;
		}
	}
	return LK_OK;
}

/* read, mapfile: make the variables unknown, because only execution could determine them. */
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
