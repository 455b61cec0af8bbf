/* shell_expand.c: where a shell word ends and which words it stands for (POSIX.1-2017, Shell
 * Command Language 2.2, 2.6), with bash's arrays. Unquoted expansions are split at blanks;
 * "${A[@]}" gives one word per element. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/check.h"
#include "shell/shell_builder.h"

static lk_status expand_range(lk_shell_builder *builder, const char *at, const char *end,
                              bool quoted);

/* Find $1 of known arguments; NULL: no argument, or unknown. Missing arguments are empty. */
static const lk_word *expand_argument(const lk_shell *shell, const char *name, size_t length) {
	static const lk_word none = {.text = ""};
	size_t number = 0;
	if (!shell->args_known || length == 0 || length > 4) return NULL;
	for (size_t i = 0; i < length; i++) {
		if (!isdigit((unsigned char)name[i])) return NULL;
		number = 10 * number + (size_t)(name[i] - '0');
	}
	if (number == 0) return NULL;
	return number <= shell->arg_count ? &shell->args[number - 1] : &none;
}

static lk_status put_unset(lk_shell_builder *builder, const char *name, size_t length,
                           const char *text, size_t size) {
	bool positional = length > 0 && isdigit((unsigned char)*name);
	const char *why =
		lk_shell_unknown(builder->s, builder->line, text, size,
	                     positional ? "is an argument of the script" : "is not set in the script");
	if (positional) builder->argument = true;
	return lk_shell_builder_put_unknown(builder, text, size, why, true);
}

/* What ${...} names: the values of a variable, of one or all of its elements, or the arguments. */
struct expand_named {
	const char *name;
	size_t length;
	const lk_word *values;
	size_t count;
	lk_word held;
	char which; /* '@' or '*': all elements; '\0' */
	bool set;   /* something sets it, even to an empty text */
	bool positional, keyed;
};

static lk_status put_not_evaluated(lk_shell_builder *builder, const char *at, size_t size) {
	return lk_shell_builder_put_unknown(
		builder, at, size,
		lk_shell_unknown(builder->s, builder->line, at, size, "is not evaluated"), false);
}

/* ${name<operator>word}: the part after the name. */
static lk_status put_operator(lk_shell_builder *builder, const struct expand_named *named,
                              const char *op, const char *close, const char *start, bool quoted) {
	const char *word = op + 1 + (op[0] == ':');
	char kind = op[0] == ':' && op + 1 < close ? op[1] : op[0];
	size_t size = (size_t)(close + 1 - start);
	bool none = named->count == 0,
		 blank = op[0] == ':' && named->count == 1 && named->values[0].text[0] == '\0';
	bool empty = none || blank, unsure = !none && named->values[0].unknown != NULL;
	if (kind == '+' && !unsure) { /* a variable that is never set is empty */
		builder->inner++;
		if (!empty) LK_TRY(expand_range(builder, word, close, quoted));
		builder->inner--;
		return LK_OK;
	}
	if (kind == '+') return put_not_evaluated(builder, start, size);
	if (unsure || !empty)
		return lk_shell_builder_put_values(builder, named->values, named->count, named->which,
		                                   quoted);
	if (kind == '?' && !named->set)
		return put_unset(builder, named->name, named->length, start, size);
	if (kind == '?') return put_not_evaluated(builder, start, size);
	builder->by_default |= !named->set && word == close;
	if (kind == '-') {
		builder->inner++;
		LK_TRY(expand_range(builder, word, close, quoted));
		builder->inner--;
		return LK_OK;
	}
	if (named->which || named->positional) return put_not_evaluated(builder, start, size);
	lk_raw raw = {word, close, builder->line};
	lk_word value;
	LK_TRY(lk_shell_expand_one(builder->s, &raw, &value));
	LK_TRY(lk_shell_put(builder->s, named->name, named->length, &value, builder->line));
	return lk_shell_builder_put_value(builder, &value, quoted);
}

/* ${NAME:FROM} and ${NAME:FROM:COUNT}, both arithmetic; negative ones count from the end. */
static lk_status expand_slice(lk_shell_builder *builder, const char *at, const char *close,
                              lk_shell_edit *edit, const char **unknown) {
	const char *colon = memchr(at, ':', (size_t)(close - at));
	const char *end = colon != NULL ? colon : close;
	edit->counted = colon != NULL;
	if (end > at)
		LK_TRY(lk_shell_math(builder->s, at, end, builder->line, lk_shell_expand_one, &edit->from,
		                     unknown));
	if (colon == NULL || *unknown != NULL || colon + 1 == close) return LK_OK;
	return lk_shell_math(builder->s, colon + 1, close, builder->line, lk_shell_expand_one,
	                     &edit->count, unknown);
}

/* Find the slash between pattern and text of ${A/pattern/text}; `close`: there is none. */
static const char *expand_slash(const char *at, const char *close) {
	while (at < close && *at != '/') {
		const char *next = at + 1;
		if (*at == '\'') next = lk_shell_skip_single(at, close);
		else if (*at == '"') next = lk_shell_skip_double(at, close);
		else if (*at == '\\' && at + 1 < close) next = at + 2;
		else if (*at == '$' && at + 1 < close && at[1] == '{')
			next = lk_shell_close(at + 1, close, '{', '}');
		else if (*at == '$' && at + 1 < close && at[1] == '(')
			next = lk_shell_close(at + 1, close, '(', ')');
		at = next != NULL ? next : at + 1;
	}
	return at;
}

/* Read the operation between a name and the bracket; *known false: there is none, or it is
 * unknown. */
static lk_status expand_read_edit(lk_shell_builder *builder, const char *op, const char *close,
                                  lk_shell_edit *edit, bool *known) {
	const char *unknown = NULL;
	*edit = (lk_shell_edit){.op = *op, .pattern = "", .to = ""};
	*known = false;
	if (strchr("%#/,^:", *op) == NULL) return LK_OK;
	if (*op == ':') {
		LK_TRY(expand_slice(builder, op + 1, close, edit, &unknown));
		*known = unknown == NULL;
		return LK_OK;
	}
	const char *at = op + 1, *end = close;
	bool marked = at < close && (*at == *op || (*op == '/' && (*at == '#' || *at == '%')));
	if (marked) edit->how = *at++;
	if (*op == '/') end = expand_slash(at, close);
	lk_raw raw = {at, end, builder->line};
	lk_word pattern, to = {.text = ""};
	LK_TRY(lk_shell_expand_pattern(builder->s, &raw, &pattern));
	raw = (lk_raw){end < close ? end + 1 : close, close, builder->line};
	if (raw.at < raw.end) LK_TRY(lk_shell_expand_one(builder->s, &raw, &to));
	edit->pattern = pattern.text;
	edit->to = to.text;
	*known = pattern.unknown == NULL && to.unknown == NULL;
	return LK_OK;
}

/* ${NAME<operation>}, applied to each of several values; a slice of several selects some of
 * them. */
static lk_status put_edit(lk_shell_builder *builder, const struct expand_named *named,
                          const char *op, const char *close, const char *start, bool quoted) {
	lk_shell_edit edit;
	static const lk_word blank = {.text = ""};
	bool single = named->which == '\0', known = named->set;
	const lk_word *values = single && named->count == 0 ? &blank : named->values;
	size_t count = single ? 1 : named->count;
	if (known) LK_TRY(expand_read_edit(builder, op, close, &edit, &known));
	for (size_t i = 0; i < count; i++) known = known && values[i].unknown == NULL;
	known = known && (single || edit.op != ':' || !named->keyed); /* slices count over the holes of
	                                                                 its indices */
	lk_word *edited = known ? LK_ARRAY(builder->s->arena, lk_word, count + 1) : NULL;
	if (known && edited == NULL) return lk_oom(builder->s->err);
	if (known && edit.op == ':' && !single) {
		long long from, number, first = named->positional ? 1 : 0;
		if (edit.from > 0) edit.from -= first;
		else if (first == 1 && edit.from == 0) known = false; /* $0 is among them */
		if (edit.counted && edit.count < 0) known = false;    /* an error of the shell */
		if (known && edit.from < 0 && -edit.from > (long long)count)
			return lk_shell_builder_put_values(builder, values, 0, named->which, quoted);
		known = known && lk_shell_edit_bounds(&edit, (long long)count, &from, &number);
		if (known)
			return lk_shell_builder_put_values(builder, values + from, (size_t)number, named->which,
			                                   quoted);
	}
	for (size_t i = 0; known && i < count; i++) {
		edited[i].text = lk_shell_edit_text(builder->s, values[i].text, &edit);
		known = edited[i].text != NULL;
	}
	if (!known) return put_not_evaluated(builder, start, (size_t)(close + 1 - start));
	return lk_shell_builder_put_values(builder, edited, count, named->which, quoted);
}

/* Copy the values without their keys. */
static lk_status expand_elements(lk_shell_builder *builder, const lk_shell_var *var,
                                 struct expand_named *named) {
	named->values = var->values.at;
	named->count = var->values.count;
	named->keyed = var->keyed;
	if (!var->keyed) return LK_OK;
	lk_word *plain = LK_ARRAY(builder->s->arena, lk_word, named->count + 1);
	if (plain == NULL) return lk_oom(builder->s->err);
	for (size_t i = 0; i < named->count; i++) {
		plain[i] = named->values[i];
		plain[i].text += lk_shell_key(plain[i].text);
	}
	named->values = plain;
	return LK_OK;
}

/* Find what the name at the start of ${...} and the brackets after it refer to; *op moves after
 * them. *known false: an unknown element. */
static lk_status expand_name(lk_shell_builder *builder, const char *name, const char *close,
                             const char **op, struct expand_named *named, bool *known) {
	size_t n = lk_shell_name(name, close);
	const lk_shell *shell = builder->s;
	*known = true;
	if (n == 0 && name < close && (*name == '@' || *name == '*')) {
		*named = (struct expand_named){.name = name,
		                               .length = 1,
		                               .values = shell->args,
		                               .count = shell->arg_count,
		                               .which = *name,
		                               .set = true,
		                               .positional = true};
		*op = name + 1;
		return LK_OK;
	}
	if (n == 0)
		while (name + n < close && isdigit((unsigned char)name[n])) n++;
	*named = (struct expand_named){.name = name, .length = n};
	*op = name + n;
	if (n > 0 && isdigit((unsigned char)*name)) {
		const lk_word *argument = expand_argument(shell, name, n);
		size_t number = strtoul(name, NULL, 10);
		named->positional = true;
		named->set = argument != NULL;
		named->values = argument;
		named->count = argument != NULL && number <= shell->arg_count;
		return LK_OK;
	}
	const lk_shell_var *var = lk_shell_find(builder->s, name, n);
	named->set = var != NULL;
	const char *bracket =
		n > 0 && *op < close && **op == '[' ? lk_shell_close(*op, close, '[', ']') : NULL;
	const char *key = *op + 1;
	if (bracket != NULL && bracket - key == 2 && (*key == '@' || *key == '*')) {
		named->which = *key;
		*op = bracket;
		/* only bash knows the order of the elements of declare -A */
		*known = var == NULL || !var->named || var->values.count < 2;
		return var != NULL ? expand_elements(builder, var, named) : LK_OK;
	}
	if (var == NULL && bracket == NULL) return LK_OK;
	const char *text = "0";
	if (bracket != NULL) {
		lk_raw index = {key, bracket - 1, builder->line};
		lk_word word;
		*op = bracket;
		LK_TRY(lk_shell_expand_one(builder->s, &index, &word));
		*known = var != NULL && word.unknown == NULL;
		text = word.text;
		if (*known && !var->named) {
			const char *unknown = NULL;
			long long number;
			LK_TRY(lk_shell_math(builder->s, text, text + strlen(text), builder->line,
			                     lk_shell_expand_one, &number, &unknown));
			*known = unknown == NULL;
			text = lk_arena_printf(shell->arena, "%lld", number);
			if (text == NULL) return lk_oom(shell->err);
		}
		if (!*known) return LK_OK;
	}
	const lk_word *element = lk_shell_element(var, text);
	if (element == NULL) {
		*known = bracket == NULL || *text != '-'; /* an error of the shell */
		return LK_OK;
	}
	named->held = *element;
	named->held.text += var->keyed ? lk_shell_key(element->text) : 0;
	named->values = &named->held;
	named->count = 1;
	return LK_OK;
}

/* ${!NAME}: the value of the variable that another one names; ${!A[@]}: the keys of an array. */
static lk_status put_indirect(lk_shell_builder *builder, const char *at, const char *close,
                              bool quoted) {
	struct expand_named named, meant;
	const char *op, *rest;
	bool known, good;
	size_t size = (size_t)(close + 1 - at);
	LK_TRY(expand_name(builder, at + 3, close, &op, &named, &known));
	if (known && named.which && !named.positional && op == close) {
		lk_word *keys = LK_ARRAY(builder->s->arena, lk_word, named.count + 1);
		const lk_shell_var *var = lk_shell_find(builder->s, named.name, named.length);
		for (size_t i = 0; keys != NULL && i < named.count; i++) {
			const char *text = var->values.at[i].text;
			keys[i].text =
				var->keyed ? lk_arena_strndup(builder->s->arena, text + 1, lk_shell_key(text) - 3)
						   : lk_arena_printf(builder->s->arena, "%zu", i);
			if (keys[i].text == NULL) return lk_oom(builder->s->err);
		}
		if (keys == NULL) return lk_oom(builder->s->err);
		return lk_shell_builder_put_values(builder, keys, named.count, named.which, quoted);
	}
	known = known && !named.which && named.count == 1 && named.values[0].unknown == NULL;
	if (!known) return put_not_evaluated(builder, at, size);
	const char *text = named.values[0].text, *end = text + strlen(text);
	LK_TRY(expand_name(builder, text, end, &rest, &meant, &good));
	if (!good || rest != end || text == end || !meant.set)
		return put_not_evaluated(builder, at, size);
	if (op == close)
		return lk_shell_builder_put_values(builder, meant.values, meant.count, meant.which, quoted);
	if (strchr("-=+?", *op) != NULL || (*op == ':' && op + 1 < close && strchr("-=+?", op[1])))
		return put_operator(builder, &meant, op, close, at, quoted);
	return put_edit(builder, &meant, op, close, at, quoted);
}

/* ${#NAME}: characters of a value; ${#A[@]}: number of elements. */
static lk_status put_length(lk_shell_builder *builder, const struct expand_named *named,
                            const char *start, size_t size) {
	char number[24];
	const char *text = named->count > 0 ? named->values[0].text : "";
	bool known = named->set && (named->which || named->count == 0 ||
	                            (named->values[0].unknown == NULL && lk_shell_is_ascii(text)));
	if (!known) return put_not_evaluated(builder, start, size);
	return lk_shell_builder_put(
		builder, number,
		(size_t)snprintf(number, sizeof number, "%zu", named->which ? named->count : strlen(text)));
}

/* ${...}; `at` is the '$'. */
static lk_status put_braces(lk_shell_builder *builder, const char *at, const char *end,
                            const char **next, bool quoted) {
	const char *close = lk_shell_close(at + 1, end, '{', '}');
	if (close == NULL)
		return lk_shell_fail(builder->s, builder->line, "a '${' is not closed", "close it");
	*next = close--;
	size_t size = (size_t)(close + 1 - at);
	const char *name = at + 2, *op;
	struct expand_named named;
	bool counted = name < close && *name == '#' && name + 1 < close, known;
	if (name + 1 < close && *name == '!') return put_indirect(builder, at, close, quoted);
	if (close - name == 1 && *name == '#' && builder->s->args_known) {
		named = (struct expand_named){.count = builder->s->arg_count, .which = '@', .set = true};
		return put_length(builder, &named, at, size);
	}
	LK_TRY(expand_name(builder, name + counted, close, &op, &named, &known));
	if (named.length == 0 || !known) return put_not_evaluated(builder, at, size);
	if (counted && op == close) return put_length(builder, &named, at, size);
	if (counted) return put_not_evaluated(builder, at, size);
	bool operator= op<close &&(strchr("-=+?", *op) != NULL ||
	                           (*op == ':' && op + 1 < close && strchr("-=+?", op[1]) != NULL));
	if (operator) return put_operator(builder, &named, op, close, at, quoted);
	if (op < close) return put_edit(builder, &named, op, close, at, quoted);
	if (!named.set) return put_unset(builder, name, named.length, at, size);
	return lk_shell_builder_put_values(builder, named.values, named.count, named.which, quoted);
}

/* $(command) and `command`; `inner`: its text, up to one byte before `close`. */
static lk_status put_command(lk_shell_builder *builder, const char *at, const char *inner,
                             const char *close, const char **next, bool quoted) {
	if (close == NULL)
		return lk_shell_fail(builder->s, builder->line, "a command substitution is not closed",
		                     "close it");
	*next = close;
	size_t size = (size_t)(close - at);
	lk_word value = {0};
	static const lk_shell_expanders expanders = {lk_shell_expand, lk_shell_expand_one,
	                                             lk_shell_expand_here};
	lk_shell_vars saved;
	bool sets = lk_shell_may_set(inner, close - 1); /* only for the command itself */
	if (sets) LK_TRY(lk_shell_save(builder->s, &saved));
	lk_status status =
		lk_shell_command(builder->s, &expanders, inner, close - 1, builder->line, &value);
	if (sets) lk_shell_restore(builder->s, &saved);
	LK_TRY(status);
	size_t size_of_text = value.text != NULL ? strlen(value.text) : 0, kept = size_of_text;
	while (kept > 0 && value.text[kept - 1] == '\n') kept--;
	if (kept < size_of_text) value.text = lk_arena_strndup(builder->s->arena, value.text, kept);
	if (kept < size_of_text && value.text == NULL) return lk_oom(builder->s->err);
	bool nothing = value.text == NULL && value.empty_if_unset;
	value.empty_if_unset = false;
	if (value.text == NULL && builder->s->substitute != NULL)
		LK_TRY(builder->s->substitute(builder->s, inner, close - 1, builder->line, &value));
	if (value.text != NULL) return lk_shell_builder_put_value(builder, &value, quoted);
	return lk_shell_builder_put_unknown(
		builder, at, size, lk_shell_unknown(builder->s, builder->line, at, size, "is not executed"),
		nothing);
}

static lk_status put_math(lk_shell_builder *builder, const char *at, const char *end,
                          const char **next, bool quoted) {
	const char *close = lk_shell_close(at + 1, end, '(', ')');
	long long value;
	const char *unknown = NULL;
	char number[24];
	if (close == NULL || close - at < 5)
		return lk_shell_fail(builder->s, builder->line, "a '$((' is not closed", "close it");
	if (close[-2] != ')') /* $((cd x; ls) | wc) */
		return put_command(builder, at, at + 2, close, next, quoted);
	*next = close;
	LK_TRY(lk_shell_math(builder->s, at + 3, close - 2, builder->line, lk_shell_expand_one, &value,
	                     &unknown));
	if (unknown != NULL)
		return lk_shell_builder_put_unknown(builder, at, (size_t)(close - at), unknown, false);
	return lk_shell_builder_put(builder, number,
	                            (size_t)snprintf(number, sizeof number, "%lld", value));
}

/* Put text that a quote makes literal. */
static lk_status put_literal(lk_shell_builder *builder, const char *text, size_t length) {
	bool was = builder->quoted;
	builder->quoted = builder->open = true;
	lk_status status = lk_shell_builder_put(builder, text, length);
	builder->quoted = was;
	return status;
}

/* Encode the character of $'\u20ac' as UTF-8; return its length. */
static size_t expand_encode(unsigned long code, char out[4]) {
	LK_ASSERT(code < 0x200000); /* four bytes hold 21 bits */
	size_t length = 4;
	if (code < 0x10000) length = 3;
	if (code < 0x800) length = 2;
	if (code < 0x80) length = 1;
	static const unsigned char marks[] = {0, 0, 0xc0, 0xe0, 0xf0};
	for (size_t i = length; i-- > 1; code >>= 6) out[i] = (char)(0x80 | (code & 0x3f));
	out[0] = (char)(marks[length] | code);
	return length;
}

/* $'...': escapes as in C; `at` is the '$'. */
static lk_status put_ansi(lk_shell_builder *builder, const char *at, const char *end,
                          const char **next) {
	static const char letters[] = "abeEfnrtv", stand[] = "\a\b\033\033\f\n\r\t\v";
	const char *close = lk_shell_skip_ansi(at, end);
	if (close == NULL)
		return lk_shell_fail(builder->s, builder->line, "a quote is not closed", "close it");
	*next = close--;
	LK_TRY(put_literal(builder, "", 0));
	for (at += 2; at < close;) {
		const char *from = at;
		while (at < close && *at != '\\') at++;
		LK_TRY(put_literal(builder, from, (size_t)(at - from)));
		if (at + 1 >= close) break;
		const char *letter = strchr(letters, at[1]);
		bool octal = at[1] >= '0' && at[1] <= '7', hex = strchr("xuU", at[1]) != NULL;
		int most = octal ? 3 : at[1] == 'x' ? 2 : at[1] == 'u' ? 4 : 8, base = octal ? 8 : 16;
		char text[16] = "", *stop;
		const char *digits = at + 1 + hex;
		for (int i = 0; i < most && digits + i < close; i++) text[i] = digits[i];
		if (letter != NULL) {
			LK_TRY(put_literal(builder, &stand[letter - letters], 1));
			at += 2;
		} else if ((octal || hex) && isxdigit((unsigned char)text[0])) {
			unsigned long code = strtoul(text, &stop, base);
			char out[4] = {(char)code};
			bool wide = at[1] == 'u' || at[1] == 'U';
			if (code == 0) return LK_OK; /* the end of the text */
			LK_TRY(put_literal(builder, out, wide ? expand_encode(code & 0x1fffff, out) : 1));
			at = digits + (stop - text);
		} else if (strchr("\\'\"?", at[1]) != NULL) {
			LK_TRY(put_literal(builder, at + 1, 1));
			at += 2;
		} else {
			LK_TRY(put_literal(builder, at, 2));
			at += 2;
		}
	}
	return LK_OK;
}

static lk_status put_dollar(lk_shell_builder *builder, const char *at, const char *end,
                            const char **next, bool quoted) {
	LK_ASSERT(at < end && *at == '$');
	const char *name = at + 1;
	*next = name;
	if (name >= end) return lk_shell_builder_put(builder, "$", 1);
	if (*name == '(' && name + 1 < end && name[1] == '(')
		return put_math(builder, at, end, next, quoted);
	if (*name == '(')
		return put_command(builder, at, name + 1, lk_shell_close(name, end, '(', ')'), next,
		                   quoted);
	if (*name == '{') return put_braces(builder, at, end, next, quoted);
	size_t n = lk_shell_name(name, end);
	if (n > 0) {
		*next = name + n;
		lk_shell_var *var = lk_shell_find(builder->s, name, n);
		if (var == NULL) return put_unset(builder, name, n, at, n + 1);
		lk_word value = var->values.count > 0 ? var->values.at[0] : (lk_word){.text = ""};
		return lk_shell_builder_put_value(builder, &value, quoted);
	}
	if (*name == '\'' && !quoted && !builder->here) return put_ansi(builder, at, end, next);
	if (*name == '"' && !quoted && !builder->here) return LK_OK; /* $"...": a translated text */
	if (strchr("0123456789@*#?$!-", *name) == NULL) return lk_shell_builder_put(builder, "$", 1);
	*next = name + 1;
	if (*name == '@' || *name == '*')
		return lk_shell_builder_put_values(builder, builder->s->args, builder->s->arg_count, *name,
		                                   quoted);
	const lk_word *argument = expand_argument(builder->s, name, 1);
	bool beyond = argument != NULL && (size_t)(*name - '0') > builder->s->arg_count;
	if (beyond) return LK_OK; /* unset: not even an empty word in quotes */
	if (argument != NULL) return lk_shell_builder_put_value(builder, argument, quoted);
	if (*name == '#' && builder->s->args_known) {
		char number[24];
		return lk_shell_builder_put(
			builder, number, (size_t)snprintf(number, sizeof number, "%zu", builder->s->arg_count));
	}
	if (*name == '?' && builder->s->succeeded != LK_SHELL_UNKNOWN)
		return lk_shell_builder_put(builder, builder->s->succeeded == LK_SHELL_TRUE ? "0" : "1", 1);
	return put_unset(builder, name, 1, at, 2);
}

static lk_status expand_double(lk_shell_builder *builder, const char *at, const char *end,
                               const char **next) {
	const char *close = lk_shell_skip_double(at, end);
	if (close == NULL)
		return lk_shell_fail(builder->s, builder->line, "a '\"' is not closed", "close it");
	*next = close;
	size_t words = builder->out->count;
	bool was_open = builder->open, was_quoted = builder->quoted;
	builder->quoted = true;
	builder->nothing = false;
	LK_TRY(expand_range(builder, at + 1, close - 1, true));
	builder->quoted = was_quoted;
	/* "" is a word; "${A[@]}" of an empty array is none. */
	if (words == builder->out->count && !was_open && !builder->open)
		builder->open = !builder->nothing;
	return LK_OK;
}

static lk_status expand_escape(lk_shell_builder *builder, const char *at, const char *end,
                               bool quoted) {
	if (at + 1 >= end) return lk_shell_builder_put(builder, "\\", 1);
	if (at[1] == '\n') return LK_OK;
	if (quoted && (strchr("$`\"\\", at[1]) == NULL || (builder->here && at[1] == '"')))
		return lk_shell_builder_put(builder, at, 2);
	return put_literal(builder, at + 1, 1);
}

static lk_status expand_range(lk_shell_builder *builder, const char *at, const char *end,
                              bool quoted) {
	if (++builder->depth > LK_SHELL_DEPTH)
		return lk_shell_fail(builder->s, builder->line, "expansions are nested too deeply",
		                     "simplify the line");
	while (at < end) {
		const char *next = at + 1;
		if (*at == '\\') {
			LK_TRY(expand_escape(builder, at, end, quoted));
			next = at + 2;
		} else if (*at == '\'' && !quoted && !builder->here) {
			next = lk_shell_skip_single(at, end);
			if (next == NULL)
				return lk_shell_fail(builder->s, builder->line, "a quote is not closed",
				                     "close it");
			LK_TRY(put_literal(builder, at + 1, (size_t)(next - at - 2)));
		} else if (*at == '"' && !builder->here) { /* inside quotes only in ${X:-"..."} */
			LK_TRY(expand_double(builder, at, end, &next));
		} else if (*at == '`') {
			LK_TRY(
				put_command(builder, at, at + 1, lk_shell_skip_backtick(at, end), &next, quoted));
		} else if (*at == '$') {
			LK_TRY(put_dollar(builder, at, end, &next, quoted));
		} else {
			while (next < end && strchr("\\'\"`$", *next) == NULL) next++;
			if (builder->inner > 0 && builder->split && !quoted)
				LK_TRY(lk_shell_builder_split(builder, at, next));
			else LK_TRY(lk_shell_builder_put(builder, at, (size_t)(next - at)));
		}
		at = next;
	}
	LK_ASSERT(builder->depth > 0);
	builder->depth--;
	return LK_OK;
}

static lk_status expand_raw(lk_shell *shell, const lk_raw *raw, lk_words *out, bool split,
                            bool pattern) {
	lk_shell_builder b = {.s = shell,
	                      .out = out,
	                      .split = split,
	                      .pattern = pattern,
	                      .line = raw->line,
	                      .depth = shell->depth};
	int depth = shell->depth;
	shell->depth++;
	lk_status status = shell->depth > LK_SHELL_DEPTH
	                       ? lk_shell_fail(shell, raw->line, "expansions are nested too deeply",
	                                       "simplify the line")
	                       : expand_range(&b, raw->at, raw->end, false);
	if (status == LK_OK && !split) b.open = true;
	if (status == LK_OK) status = lk_shell_builder_end_word(&b);
	shell->depth = depth;
	lk_vec_free(&b.text);
	return status;
}

lk_status lk_shell_expand(lk_shell *shell, const lk_raw *raw, lk_words *out) {
	if (memchr(raw->at, '{', (size_t)(raw->end - raw->at)) == NULL)
		return expand_raw(shell, raw, out, true, false);
	lk_raws members = {0};
	lk_status status = lk_shell_sets(shell, raw, &members);
	for (size_t i = 0; status == LK_OK && i < members.count; i++)
		status = expand_raw(shell, &members.at[i], out, true, false);
	lk_vec_free(&members);
	return status;
}

static lk_status expand_single(lk_shell *shell, const lk_raw *raw, bool pattern, lk_word *out) {
	lk_words words = {0};
	lk_status status = expand_raw(shell, raw, &words, false, pattern);
	LK_ASSERT(status != LK_OK || words.count == 1);
	if (status == LK_OK) *out = words.at[0];
	lk_vec_free(&words);
	return status;
}

lk_status lk_shell_expand_one(lk_shell *shell, const lk_raw *raw, lk_word *out) {
	return expand_single(shell, raw, false, out);
}

lk_status lk_shell_expand_pattern(lk_shell *shell, const lk_raw *raw, lk_word *out) {
	return expand_single(shell, raw, true, out);
}

lk_status lk_shell_expand_here(lk_shell *shell, const char *at, const char *end, int line,
                               lk_word *out) {
	lk_words words = {0};
	lk_shell_builder b = {
		.s = shell, .out = &words, .here = true, .line = line, .open = true, .depth = shell->depth};
	lk_status status = expand_range(&b, at, end, true);
	b.open = true;
	if (status == LK_OK) status = lk_shell_builder_end_word(&b);
	LK_ASSERT(status != LK_OK || words.count == 1);
	if (status == LK_OK) *out = words.at[0];
	lk_vec_free(&b.text);
	lk_vec_free(&words);
	return status;
}
