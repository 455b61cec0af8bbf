/* shell_expand.c: where a shell word ends and which words it stands for (POSIX.1-2017, Shell
 * Command Language 2.2, 2.6), with bash's arrays. Unquoted expansions are split at blanks;
 * "${A[@]}" gives one word per element. */
#include <ctype.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "launch/shell/shell.h"

enum {
	EDITED = 4096 /* bytes of a text that ${A%...} and the like edit */
};

/* A word under construction. */
struct builder {
	lk_shell *s;
	lk_words *out;
	LK_VEC(char) text;
	bool open;  /* something belongs to the present word, be it "" */
	bool split; /* expansions are split at blanks */
	bool here;  /* a here-document, in which quotes stand for themselves */
	const char *unknown;
	bool empty_if_unset; /* all that is unknown would be empty in a plain shell */
	bool by_default;     /* ${X:-} of what nobody sets */
	bool argument;
	int line, depth;
};

/* ---- building words ---- */

static lk_status expand_put(struct builder *builder, const char *text, size_t length) {
	if (length == 0) return LK_OK;
	builder->s->produced += length;
	if (builder->s->produced > LK_LAUNCH_BYTES)
		return lk_shell_fail(builder->s, builder->line, "the expanded words are longer than 4 MiB",
		                     "shorten the script");
	if (!lk_reserve(&builder->text, length)) return lk_oom(builder->s->err);
	memcpy(builder->text.at + builder->text.count, text, length);
	builder->text.count += length;
	builder->open = true;
	return LK_OK;
}

static lk_status end_word(struct builder *builder) {
	if (!builder->open) return LK_OK;
	if (builder->out->count >= LK_LAUNCH_WORDS)
		return lk_shell_fail(builder->s, builder->line, "more than 65536 words",
		                     "shorten the script");
	char *text = lk_arena_strndup(
		builder->s->arena, builder->text.count > 0 ? builder->text.at : "", builder->text.count);
	if (text == NULL || !lk_push(builder->out)) return lk_oom(builder->s->err);
	*lk_last(builder->out) =
		(lk_word){.text = text,
	              .unknown = builder->unknown,
	              .empty_if_unset = builder->unknown != NULL
	                                    ? builder->empty_if_unset
	                                    : builder->by_default && builder->text.count == 0,
	              .argument = builder->unknown != NULL && builder->argument};
	builder->text.count = 0;
	builder->open = false;
	builder->unknown = NULL;
	builder->empty_if_unset = builder->by_default = builder->argument = false;
	return LK_OK;
}

static lk_status expand_put_unknown(struct builder *builder, const char *text, size_t length,
                                    const char *why, bool empty_if_unset) {
	if (why == NULL) return lk_oom(builder->s->err);
	builder->empty_if_unset =
		empty_if_unset && (builder->unknown == NULL ? !builder->open || builder->text.count == 0
	                                                : builder->empty_if_unset);
	if (builder->unknown == NULL) builder->unknown = why;
	builder->open = true;
	return expand_put(builder, text, length);
}

static bool expand_blank(char c) {
	return c == ' ' || c == '\t' || c == '\n';
}

/* Bytes up to the blank that ends a word, which none inside of $(..), ${..} and `..` does. */
static size_t expand_word_length(const char *at) {
	const char *end = at + strlen(at), *c = at;
	while (c < end && !expand_blank(*c)) {
		const char *close = NULL;
		if (*c == '$' && c[1] == '(') close = lk_shell_close(c + 1, end, '(', ')');
		if (*c == '$' && c[1] == '{') close = lk_shell_close(c + 1, end, '{', '}');
		if (*c == '`' && strchr(c + 1, '`') != NULL) close = strchr(c + 1, '`') + 1;
		c = close != NULL ? close : c + 1;
	}
	return (size_t)(c - at);
}

/* Whether the text is a variable and nothing else: $NAME, ${NAME}. */
static bool expand_is_variable(const char *at, size_t size) {
	bool braces = size > 3 && at[1] == '{';
	const char *name = at + 1 + braces, *end = at + size - braces;
	size_t length = size > 1 && *at == '$' ? lk_shell_name(name, end) : 0;
	return length > 0 && name + length == end;
}

/* The text of a variable of which parts are not known, split: the words that hold none of them are
 * known. "--micro-batch-size 2 --save $DIR" has three of four. */
static lk_status expand_put_partly(struct builder *builder, const lk_word *value) {
	for (const char *at = value->text; *at != '\0';) {
		size_t n = expand_word_length(at);
		bool known = memchr(at, '$', n) == NULL && memchr(at, '`', n) == NULL;
		const char *part = lk_arena_strndup(builder->s->arena, at, n), *why = value->unknown;
		if (part == NULL) return lk_oom(builder->s->err);
		if (!known && strstr(why, part) == NULL)
			why = lk_shell_unknown(builder->s, builder->line, at, n, "is not known");
		builder->argument |= !known && value->argument;
		LK_TRY(known ? expand_put(builder, at, n)
		             : expand_put_unknown(builder, at, n, why,
		                                  value->empty_if_unset || expand_is_variable(at, n)));
		at += n;
		if (*at != '\0') LK_TRY(end_word(builder));
		while (expand_blank(*at)) at++;
	}
	return LK_OK;
}

/* The text of a variable: split where it is not quoted. */
static lk_status expand_put_value(struct builder *builder, const lk_word *value, bool quoted) {
	if (value->unknown != NULL && !quoted && builder->split && strpbrk(value->text, " \t\n"))
		return expand_put_partly(builder, value);
	if (value->unknown != NULL) {
		builder->argument |= value->argument;
		return expand_put_unknown(builder, value->text, strlen(value->text), value->unknown,
		                          value->empty_if_unset);
	}
	const char *at = value->text;
	builder->by_default |= value->empty_if_unset;
	if (quoted || !builder->split) {
		builder->open |= quoted;
		return expand_put(builder, at, strlen(at));
	}
	while (*at != '\0') {
		size_t n = strcspn(at, " \t\n");
		LK_TRY(expand_put(builder, at, n));
		at += n;
		if (*at != '\0') LK_TRY(end_word(builder));
		while (expand_blank(*at)) at++;
	}
	return LK_OK;
}

/* ${A[@]} and ${A[*]}: the elements, each a word of its own with [@]. */
static lk_status put_elements(struct builder *builder, const lk_shell_var *var, char which,
                              bool quoted) {
	for (size_t i = 0; i < var->values.count; i++) {
		lk_word value = var->values.at[i]; /* a copy: the array may move */
		if (var->keyed) value.text += lk_shell_key(value.text);
		bool apart = i > 0 && builder->split && (which == '@' || !quoted);
		if (apart) LK_TRY(end_word(builder));
		else if (i > 0) LK_TRY(expand_put(builder, " ", 1));
		LK_TRY(expand_put_value(builder, &value, quoted));
	}
	return LK_OK;
}

static lk_status expand_range(struct builder *builder, const char *at, const char *end,
                              bool quoted);

/* $1 of known arguments; NULL: it is none, or not known. Those that were not given are empty. */
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

/* $@ and $*: "$@" gives one word per argument. */
static lk_status put_arguments(struct builder *builder, char which, bool quoted) {
	const lk_shell *shell = builder->s;
	for (size_t i = 0; i < shell->arg_count; i++) {
		bool apart = i > 0 && builder->split && (which == '@' || !quoted);
		if (apart) LK_TRY(end_word(builder));
		else if (i > 0) LK_TRY(expand_put(builder, " ", 1));
		LK_TRY(expand_put_value(builder, &shell->args[i], quoted));
	}
	return LK_OK;
}

static lk_status put_unset(struct builder *builder, const char *name, size_t length,
                           const char *text, size_t size) {
	bool positional = length > 0 && isdigit((unsigned char)*name);
	const char *why =
		lk_shell_unknown(builder->s, builder->line, text, size,
	                     positional ? "is an argument of the script" : "is not set in the script");
	if (positional) builder->argument = true;
	return expand_put_unknown(builder, text, size, why, true);
}

/* ${name<operator>word}: the part after the name. */
static lk_status put_operator(struct builder *builder, const lk_shell_var *var, const char *name,
                              size_t length, const char *op, const char *close, const char *start,
                              bool quoted) {
	const char *word = op + 1 + (op[0] == ':');
	char kind = op[0] == ':' && op + 1 < close ? op[1] : op[0];
	bool empty = var == NULL ||
	             (op[0] == ':' && var->values.count == 1 && var->values.at[0].text[0] == '\0');
	bool unsure = var != NULL && var->values.count > 0 && var->values.at[0].unknown != NULL;
	if (kind == '-' || kind == '=') {
		bool given = builder->s->args_known && isdigit((unsigned char)*name);
		builder->by_default |= var == NULL && !given && word == close;
		if (unsure || !empty) return put_elements(builder, var, '@', quoted);
		if (kind == '-') return expand_range(builder, word, close, quoted);
		lk_raw raw = {word, close, builder->line};
		lk_word value;
		lk_shell_var *target;
		LK_TRY(lk_shell_expand_one(builder->s, &raw, &value));
		LK_TRY(lk_shell_var_at(builder->s, name, length, &target));
		target->values.count = 0;
		target->set = true;
		if (!lk_push(&target->values)) return lk_oom(builder->s->err);
		*lk_last(&target->values) = value;
		return expand_put_value(builder, &value, quoted);
	}
	if (kind == '+' && !unsure) /* what is never set is empty */
		return empty ? LK_OK : expand_range(builder, word, close, quoted);
	if (kind == '?' && var != NULL) return put_elements(builder, var, '@', quoted);
	size_t size = (size_t)(close + 1 - start);
	if (var == NULL) return put_unset(builder, name, length, start, size);
	return expand_put_unknown(
		builder, start, size,
		lk_shell_unknown(builder->s, builder->line, start, size, "is not evaluated"), false);
}

/* What ${A%*.sh}, ${A##*-}, ${A/from/to}, ${A,,} and ${A:2:3} make of a text; NULL: not known. */
static const char *expand_edit(lk_shell *shell, const char *text, const char *op,
                               const char *word) {
	size_t length = strlen(text);
	bool twice = op[1] == op[0];
	char *copy = length <= EDITED ? lk_arena_strdup(shell->arena, text) : NULL;
	if (copy == NULL) return NULL;
	for (size_t k = 0; (*op == '%' || *op == '#') && k <= length; k++) {
		bool front = *op == '#';
		size_t cut = front == twice ? length - k : k; /* the shortest piece first, or the longest */
		char kept = copy[cut];
		if (front) copy[cut] = '\0';
		bool matches = fnmatch(word, front ? copy : copy + cut, 0) == 0;
		copy[cut] = kept;
		if (!matches) continue;
		if (front) return copy + cut;
		copy[cut] = '\0';
		return copy;
	}
	if (*op == '%' || *op == '#') return copy;
	if (*op == ',' || *op == '^') {
		for (char *c = copy; *c && (twice || c == copy); c++)
			*c = (char)(*op == ',' ? tolower((unsigned char)*c) : toupper((unsigned char)*c));
		return copy;
	}
	if (*op == '/') {
		const char *slash = strchr(word, '/');
		size_t size = slash != NULL ? (size_t)(slash - word) : strlen(word);
		const char *to = slash != NULL ? slash + 1 : "", *out = "";
		if (size == 0 || strpbrk(word, "*?[") != NULL) return NULL;
		for (const char *at = text; out != NULL;) {
			const char *hit = at;
			while (*hit && strncmp(hit, word, size) != 0) hit++;
			bool found = *hit != '\0' && (twice || at == text);
			if (!found) return lk_arena_printf(shell->arena, "%s%s", out, at);
			out = lk_arena_printf(shell->arena, "%s%.*s%s", out, (int)(hit - at), at, to);
			at = hit + size;
			if (!twice) return out ? lk_arena_printf(shell->arena, "%s%s", out, at) : NULL;
		}
		return NULL;
	}
	return NULL;
}

/* ${NAME:FROM} and ${NAME:FROM:COUNT}, both sums; negative ones are from the end. */
static lk_status expand_slice(struct builder *builder, const char *text, const char *at,
                              const char *close, const char **out) {
	const char *unknown = NULL, *colon = memchr(at, ':', (size_t)(close - at));
	const char *end = colon != NULL ? colon : close;
	long long from = 0, length = (long long)strlen(text), count = length;
	LK_TRY(lk_shell_math(builder->s, at, end, builder->line, lk_shell_expand_one, &from, &unknown));
	if (colon != NULL && unknown == NULL)
		LK_TRY(lk_shell_math(builder->s, colon + 1, close, builder->line, lk_shell_expand_one,
		                     &count, &unknown));
	if (unknown != NULL) return LK_OK;
	if (from < 0) from = from + length < 0 ? length : from + length;
	if (from > length) from = length;
	if (count < 0 && count < from - length) return LK_OK; /* an error of the shell */
	if (count < 0) count += length - from;
	if (count > length - from) count = length - from;
	*out = lk_arena_strndup(builder->s->arena, text + from, (size_t)count);
	return *out != NULL ? LK_OK : lk_oom(builder->s->err);
}

/* ${NAME<operator>WORD} that edits a known value; *known false: it is none of these. */
static lk_status put_edit(struct builder *builder, const lk_shell_var *var, const char *op,
                          const char *close, bool quoted, bool *known) {
	bool slice = *op == ':' && op + 1 < close && strchr("-=+?", op[1]) == NULL;
	const char *text = NULL;
	*known = false;
	if (strchr("%#/,^", *op) == NULL && !slice) return LK_OK;
	if (var == NULL || var->values.count != 1 || var->values.at[0].unknown != NULL) return LK_OK;
	if (slice) {
		LK_TRY(expand_slice(builder, var->values.at[0].text, op + 1, close, &text));
	} else {
		size_t skip = 1 + (op + 1 < close && op[1] == op[0]);
		lk_raw raw = {op + skip, close, builder->line};
		lk_word word = {.text = ""};
		if (raw.at < raw.end) LK_TRY(lk_shell_expand_one(builder->s, &raw, &word));
		if (word.unknown != NULL) return LK_OK;
		text = expand_edit(builder->s, var->values.at[0].text, op, word.text);
	}
	lk_word value = {.text = text};
	if (text == NULL) return LK_OK;
	*known = true;
	return expand_put_value(builder, &value, quoted);
}

/* ${...}; `at` is the '$'. */
static lk_status put_braces(struct builder *builder, const char *at, const char *end,
                            const char **next, bool quoted) {
	const char *close = lk_shell_close(at + 1, end, '{', '}');
	if (close == NULL)
		return lk_shell_fail(builder->s, builder->line, "a '${' is not closed", "close it");
	*next = close--;
	size_t size = (size_t)(close + 1 - at);
	const char *name = at + 2;
	bool counted = name < close && *name == '#' && name + 1 < close;
	if (counted) name++;
	size_t n = lk_shell_name(name, close);
	if (n == 0 && name < close && (*name == '@' || *name == '*')) n = 1;
	if (n == 0)
		while (name + n < close && isdigit((unsigned char)name[n])) n++;
	lk_shell_var *var = lk_shell_find(builder->s, name, n);
	const lk_word *argument = expand_argument(builder->s, name, n);
	lk_shell_var positional = {.set = true};
	lk_word held;
	if (argument != NULL && argument->text[0] != '\0') {
		held = *argument;
		positional.values.at = &held;
		positional.values.count = 1;
		var = &positional;
	}
	const char *op = name + n;
	char which = '0';
	if (op + 2 < close && *op == '[' && memchr(op, ']', (size_t)(close - op)) != NULL) {
		const char *bracket = memchr(op, ']', (size_t)(close - op));
		which = bracket == op + 2 ? op[1] : 'k';
		if (which != '@' && which != '*') { /* one element */
			lk_raw index = {op + 1, bracket, builder->line};
			lk_word key;
			LK_TRY(lk_shell_expand_one(builder->s, &index, &key));
			const lk_word *element =
				var != NULL && key.unknown == NULL ? lk_shell_element(var, key.text) : NULL;
			if (element == NULL)
				return expand_put_unknown(
					builder, at, size,
					lk_shell_unknown(builder->s, builder->line, at, size, "is not evaluated"),
					false);
			held = *element;
			held.text += var->keyed ? lk_shell_key(held.text) : 0;
			positional.values.at = &held;
			positional.values.count = 1;
			var = &positional;
			which = '0';
		}
		op = bracket + 1;
	}
	bool edited = false;
	if (!counted && op < close && n > 0) LK_TRY(put_edit(builder, var, op, close, quoted, &edited));
	if (edited) return LK_OK;
	if (counted && op == close && var != NULL && which == '0' && var->values.count == 1 &&
	    var->values.at[0].unknown == NULL) {
		char number[24];
		return expand_put(
			builder, number,
			(size_t)snprintf(number, sizeof number, "%zu", strlen(var->values.at[0].text)));
	}
	if (counted && op == close && var != NULL && which != '0') {
		char number[24];
		return expand_put(builder, number,
		                  (size_t)snprintf(number, sizeof number, "%zu", var->values.count));
	}
	if (counted || n == 0 || (op < close && strchr(":-=+?", *op) == NULL))
		return expand_put_unknown(
			builder, at, size,
			lk_shell_unknown(builder->s, builder->line, at, size, "is not evaluated"), false);
	if (op < close) return put_operator(builder, var, name, n, op, close, at, quoted);
	if (n == 1 && (*name == '@' || *name == '*')) return put_arguments(builder, *name, quoted);
	if (argument != NULL && var == NULL) return LK_OK;
	if (var == NULL) return put_unset(builder, name, n, at, size);
	if (which != '0') return put_elements(builder, var, which, quoted);
	lk_word value = var->values.count > 0 ? var->values.at[0] : (lk_word){.text = ""};
	return expand_put_value(builder, &value, quoted);
}

/* $(command) and `command`; `inner`: its text, up to one byte before `close`. */
static lk_status put_command(struct builder *builder, const char *at, const char *inner,
                             const char *close, const char **next, bool quoted) {
	if (close == NULL)
		return lk_shell_fail(builder->s, builder->line, "a command substitution is not closed",
		                     "close it");
	*next = close;
	size_t size = (size_t)(close - at);
	lk_word value = {0};
	static const lk_shell_expanders expanders = {lk_shell_expand, lk_shell_expand_one,
	                                             lk_shell_expand_here};
	LK_TRY(lk_shell_command(builder->s, &expanders, inner, close - 1, builder->line, &value));
	bool nothing = value.text == NULL && value.empty_if_unset;
	value.empty_if_unset = false;
	if (value.text == NULL && builder->s->substitute != NULL)
		LK_TRY(builder->s->substitute(builder->s, inner, close - 1, builder->line, &value));
	if (value.text != NULL) return expand_put_value(builder, &value, quoted);
	return expand_put_unknown(
		builder, at, size, lk_shell_unknown(builder->s, builder->line, at, size, "is not executed"),
		nothing);
}

static lk_status put_math(struct builder *builder, const char *at, const char *end,
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
		return expand_put_unknown(builder, at, (size_t)(close - at), unknown, false);
	return expand_put(builder, number, (size_t)snprintf(number, sizeof number, "%lld", value));
}

static lk_status put_dollar(struct builder *builder, const char *at, const char *end,
                            const char **next, bool quoted) {
	const char *name = at + 1;
	*next = name;
	if (name >= end) return expand_put(builder, "$", 1);
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
		return expand_put_value(builder, &value, quoted);
	}
	if (strchr("0123456789@*#?$!-", *name) == NULL) return expand_put(builder, "$", 1);
	*next = name + 1;
	if (*name == '@' || *name == '*') return put_arguments(builder, *name, quoted);
	const lk_word *argument = expand_argument(builder->s, name, 1);
	if (argument != NULL) return expand_put_value(builder, argument, quoted);
	if (*name == '#' && builder->s->args_known) {
		char number[24];
		return expand_put(builder, number,
		                  (size_t)snprintf(number, sizeof number, "%zu", builder->s->arg_count));
	}
	if (*name == '?' && builder->s->succeeded != LK_SHELL_UNKNOWN)
		return expand_put(builder, builder->s->succeeded == LK_SHELL_TRUE ? "0" : "1", 1);
	return put_unset(builder, name, 1, at, 2);
}

static lk_status expand_double(struct builder *builder, const char *at, const char *end,
                               const char **next) {
	const char *close = lk_shell_skip_double(at, end);
	if (close == NULL)
		return lk_shell_fail(builder->s, builder->line, "a '\"' is not closed", "close it");
	*next = close;
	size_t words = builder->out->count;
	bool was_open = builder->open;
	LK_TRY(expand_range(builder, at + 1, close - 1, true));
	/* "" is a word; "${A[@]}" of an empty array is none. */
	bool elements =
		close - at > 6 && strncmp(at + 1, "${", 2) == 0 && strncmp(close - 5, "[@]}", 4) == 0;
	bool arguments = close - at == 4 && at[1] == '$' && at[2] == '@';
	if (words == builder->out->count && !was_open && !builder->open)
		builder->open = !elements && !arguments;
	return LK_OK;
}

static lk_status expand_escape(struct builder *builder, const char *at, const char *end,
                               bool quoted) {
	if (at + 1 >= end) return expand_put(builder, "\\", 1);
	if (at[1] == '\n') return LK_OK;
	if (quoted && strchr("$`\"\\", at[1]) == NULL) return expand_put(builder, at, 2);
	return expand_put(builder, at + 1, 1);
}

static lk_status expand_range(struct builder *builder, const char *at, const char *end,
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
			builder->open = true;
			LK_TRY(expand_put(builder, at + 1, (size_t)(next - at - 2)));
		} else if (*at == '"' && !builder->here) { /* inside quotes only in ${X:-"..."} */
			LK_TRY(expand_double(builder, at, end, &next));
		} else if (*at == '`') {
			LK_TRY(
				put_command(builder, at, at + 1, lk_shell_skip_backtick(at, end), &next, quoted));
		} else if (*at == '$') {
			LK_TRY(put_dollar(builder, at, end, &next, quoted));
		} else {
			LK_TRY(expand_put(builder, at, 1));
		}
		at = next;
	}
	builder->depth--;
	return LK_OK;
}

static lk_status expand_raw(lk_shell *shell, const lk_raw *raw, lk_words *out, bool split) {
	struct builder b = {
		.s = shell, .out = out, .split = split, .line = raw->line, .depth = shell->depth};
	int depth = shell->depth;
	shell->depth++;
	lk_status status = shell->depth > LK_SHELL_DEPTH
	                       ? lk_shell_fail(shell, raw->line, "expansions are nested too deeply",
	                                       "simplify the line")
	                       : expand_range(&b, raw->at, raw->end, false);
	if (status == LK_OK && !split) b.open = true;
	if (status == LK_OK) status = end_word(&b);
	shell->depth = depth;
	lk_vec_free(&b.text);
	return status;
}

lk_status lk_shell_expand(lk_shell *shell, const lk_raw *raw, lk_words *out) {
	return expand_raw(shell, raw, out, true);
}

lk_status lk_shell_expand_one(lk_shell *shell, const lk_raw *raw, lk_word *out) {
	lk_words words = {0};
	lk_status status = expand_raw(shell, raw, &words, false);
	if (status == LK_OK) *out = words.at[0];
	lk_vec_free(&words);
	return status;
}

lk_status lk_shell_expand_here(lk_shell *shell, const char *at, const char *end, int line,
                               lk_word *out) {
	lk_words words = {0};
	struct builder b = {
		.s = shell, .out = &words, .here = true, .line = line, .open = true, .depth = shell->depth};
	lk_status status = expand_range(&b, at, end, true);
	b.open = true;
	if (status == LK_OK) status = end_word(&b);
	if (status == LK_OK) *out = words.at[0];
	lk_vec_free(&b.text);
	lk_vec_free(&words);
	return status;
}
