/* shell_builder.c: words under construction, to which expansions add what they found. */
#include <string.h>

#include "base/arena.h"
#include "base/check.h"
#include "shell/shell_builder.h"

static lk_status builder_put_raw(lk_shell_builder *builder, const char *text, size_t length) {
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

lk_status lk_shell_builder_put(lk_shell_builder *builder, const char *text, size_t length) {
	if (!builder->pattern || !builder->quoted) return builder_put_raw(builder, text, length);
	for (size_t i = 0; i < length; i++) {
		if (strchr("*?[]\\", text[i]) != NULL && text[i] != '\0')
			LK_TRY(builder_put_raw(builder, "\\", 1));
		LK_TRY(builder_put_raw(builder, text + i, 1));
	}
	return LK_OK;
}

lk_status lk_shell_builder_end_word(lk_shell_builder *builder) {
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

lk_status lk_shell_builder_put_unknown(lk_shell_builder *builder, const char *text, size_t length,
                                       const char *why, bool empty_if_unset) {
	if (why == NULL) return lk_oom(builder->s->err);
	builder->empty_if_unset =
		empty_if_unset && (builder->unknown == NULL ? !builder->open || builder->text.count == 0
	                                                : builder->empty_if_unset);
	if (builder->unknown == NULL) builder->unknown = why;
	builder->open = true;
	return lk_shell_builder_put(builder, text, length);
}

static bool builder_blank(char c) {
	return c == ' ' || c == '\t' || c == '\n';
}

/* Bytes up to the blank that ends a word; blanks inside $(..), ${..} and `..` do not. */
static size_t builder_word_length(const char *at) {
	const char *end = at + strlen(at), *c = at;
	while (c < end && !builder_blank(*c)) {
		const char *close = NULL;
		if (*c == '$' && c[1] == '(') close = lk_shell_close(c + 1, end, '(', ')');
		if (*c == '$' && c[1] == '{') close = lk_shell_close(c + 1, end, '{', '}');
		if (*c == '`' && strchr(c + 1, '`') != NULL) close = strchr(c + 1, '`') + 1;
		c = close != NULL ? close : c + 1;
	}
	return (size_t)(c - at);
}

/* Whether the text is a variable and nothing else: $NAME, ${NAME}. */
static bool builder_is_variable(const char *at, size_t size) {
	bool braces = size > 3 && at[1] == '{';
	const char *name = at + 1 + braces, *end = at + size - braces;
	size_t length = size > 1 && *at == '$' ? lk_shell_name(name, end) : 0;
	return length > 0 && name + length == end;
}

/* Put the partly unknown text of a variable, split: words without unknown parts are known.
 * "--micro-batch-size 2 --save $DIR" has three known words of four. */
static lk_status builder_put_partly(lk_shell_builder *builder, const lk_word *value) {
	for (const char *at = value->text; *at != '\0';) {
		size_t n = builder_word_length(at);
		bool known = memchr(at, '$', n) == NULL && memchr(at, '`', n) == NULL;
		const char *part = lk_arena_strndup(builder->s->arena, at, n), *why = value->unknown;
		if (part == NULL) return lk_oom(builder->s->err);
		if (!known && strstr(why, part) == NULL)
			why = lk_shell_unknown(builder->s, builder->line, at, n, "is not known");
		builder->argument |= !known && value->argument;
		LK_TRY(known
		           ? lk_shell_builder_put(builder, at, n)
		           : lk_shell_builder_put_unknown(
						 builder, at, n, why, value->empty_if_unset || builder_is_variable(at, n)));
		at += n;
		if (*at != '\0') LK_TRY(lk_shell_builder_end_word(builder));
		while (builder_blank(*at)) at++;
	}
	return LK_OK;
}

/* The characters that split words. */
static const char *builder_separators(const lk_shell_builder *builder) {
	static const char blanks[] = " \t\n";
	const lk_shell_var *ifs = lk_shell_find(builder->s, "IFS", 3);
	bool known = ifs != NULL && ifs->values.count > 0 && ifs->values.at[0].unknown == NULL;
	return known ? ifs->values.at[0].text : blanks;
}

lk_status lk_shell_builder_split(lk_shell_builder *builder, const char *at, const char *end) {
	const char *separators = builder_separators(builder);
	while (at < end) {
		const char *from = at;
		while (at < end && (*at == '\0' || strchr(separators, *at) == NULL)) at++;
		LK_TRY(lk_shell_builder_put(builder, from, (size_t)(at - from)));
		if (at == end) break;
		while (at < end && builder_blank(*at) && strchr(separators, *at) != NULL) at++;
		if (at < end && *at != '\0' && !builder_blank(*at) && strchr(separators, *at) != NULL) {
			builder->open = true; /* an empty word is one */
			for (at++; at < end && builder_blank(*at) && strchr(separators, *at) != NULL;) at++;
		}
		LK_TRY(lk_shell_builder_end_word(builder));
	}
	return LK_OK;
}

lk_status lk_shell_builder_put_value(lk_shell_builder *builder, const lk_word *value, bool quoted) {
	if (value->unknown != NULL && !quoted && builder->split && strpbrk(value->text, " \t\n"))
		return builder_put_partly(builder, value);
	if (value->unknown != NULL) {
		builder->argument |= value->argument;
		return lk_shell_builder_put_unknown(builder, value->text, strlen(value->text),
		                                    value->unknown, value->empty_if_unset);
	}
	const char *at = value->text;
	builder->by_default |= value->empty_if_unset;
	if (quoted || !builder->split) {
		builder->open |= quoted;
		return lk_shell_builder_put(builder, at, strlen(at));
	}
	return lk_shell_builder_split(builder, at, at + strlen(at));
}

lk_status lk_shell_builder_put_values(lk_shell_builder *builder, const lk_word *values,
                                      size_t count, char which, bool quoted) {
	LK_ASSERT(which == '\0' || which == '@' || which == '*');
	const char *joint = which == '*' ? builder_separators(builder) : " ";
	builder->nothing |= which == '@' && quoted && count == 0;
	for (size_t i = 0; i < count; i++) {
		lk_word value = values[i]; /* a copy: the array may move */
		bool apart = i > 0 && builder->split && (which == '@' || !quoted);
		if (apart) LK_TRY(lk_shell_builder_end_word(builder));
		else if (i > 0) LK_TRY(lk_shell_builder_put(builder, joint, *joint != '\0'));
		LK_TRY(lk_shell_builder_put_value(builder, &value, quoted));
	}
	return LK_OK;
}
