/* parse_words.c: looking at, taking or refusing the next token, and the small elements of every
 * grammar rule. */
#include <string.h>

#include "base/arena.h"
#include "lang/syntax/lexer.h"

const lc_loop *lc_loop_find(const lc_parser *parser, const lc_token *token) {
	for (int i = parser->loop_count; i-- > 0;)
		if (lc_choice(token, &parser->loops[i].name, 1) == 0) return &parser->loops[i];
	return NULL;
}

bool lc_sees(const lc_parser *parser, char sign) {
	return lc_peek(parser)->kind == LC_SIGN && lc_peek(parser)->sign == sign;
}

static bool is_word(const lc_token *token, const char *word) {
	return token->kind == LC_NAME_TOKEN && (size_t)token->length == strlen(word) &&
	       memcmp(token->text, word, (size_t)token->length) == 0;
}

bool lc_sees_word(const lc_parser *parser, const char *word) {
	return is_word(lc_peek(parser), word);
}

bool lc_take(lc_parser *parser, char sign) {
	return lc_sees(parser, sign) ? parser->at++, true : false;
}

bool lc_take_word(lc_parser *parser, const char *word) {
	return lc_sees_word(parser, word) ? parser->at++, true : false;
}

lk_status lc_at(lc_parser *parser, const lc_token *token, lk_error *err, const char *fmt, ...) {
	char where[sizeof err->where], what[sizeof err->what];
	va_list args;
	va_start(args, fmt);
	vsnprintf(what, sizeof what, fmt, args);
	va_end(args);
	parser->file->mistake.line = token->line;
	parser->file->mistake.column = token->column;
	snprintf(where, sizeof where, "%.200s:%d:%d", parser->file->path, token->line, token->column);
	return lk_fail(err, LK_ERR_INPUT, where, "%s", what);
}

lk_status lc_unexpected(lc_parser *parser, const char *wanted, lk_error *err) {
	const lc_token *token = lc_peek(parser);
	if (token->kind == LC_END)
		return lc_at(parser, token, err, "the text ends where %s is expected", wanted);
	return lc_at(parser, token, err, "\"%.*s\" where %s is expected", token->length, token->text,
	             wanted);
}

lk_status lc_expect(lc_parser *parser, char sign, const char *after, lk_error *err) {
	char wanted[96];
	if (lc_take(parser, sign)) return LK_OK;
	snprintf(wanted, sizeof wanted, "'%c' after %s", sign, after);
	return lc_unexpected(parser, wanted, err);
}

lk_status lc_word_next(lc_parser *parser, const char *what, const char **out, lk_error *err) {
	const lc_token *token = lc_peek(parser);
	if (token->kind != LC_NAME_TOKEN) return lc_unexpected(parser, what, err);
	*out = lk_arena_strndup(&parser->file->arena, token->text, (size_t)token->length);
	if (!*out) return lk_oom(err);
	parser->at++;
	return LK_OK;
}

lk_status lc_integer(lc_parser *parser, const char *what, int64_t low, int64_t high, int64_t *out,
                     lk_error *err) {
	LK_ASSERT(low <= high);
	size_t begin = parser->at;
	bool minus = low < 0 && lc_take(parser, '-');
	const lc_token *token = lc_peek(parser);
	const lc_loop *loop = lc_loop_find(parser, token);
	if (!loop && (token->kind != LC_NUMBER_TOKEN || !token->whole)) {
		parser->at = begin;
		return lc_unexpected(parser, what, err);
	}
	double value = loop ? (double)loop->value : token->number;
	if (minus) value = -value;
	if (value < (double)low || value > (double)high) {
		lc_at(parser, token, err, "%s is %.17g", what, value);
		return lk_hint(err, "it is from %lld to %lld", (long long)low, (long long)high);
	}
	*out = (int64_t)value;
	parser->at++;
	return LK_OK;
}

int lc_choice(const lc_token *token, const char *const *names, int count) {
	for (int i = 0; i < count; i++)
		if (is_word(token, names[i])) return i;
	return -1;
}

lk_status lc_suggest(lk_error *err, const char *text, const char *const *names, size_t count,
                     const char *otherwise) {
	const char *near = lk_nearest(text, names, count);
	return near ? lk_hint(err, "do you mean %s?", near) : lk_hint(err, "%s", otherwise);
}

lk_status lc_axis_next(lc_parser *parser, int *axis, lk_error *err) {
	const char *name, *names[LC_AXES];
	LK_TRY(lc_word_next(parser, "a mesh axis", &name, err));
	*axis = lc_axis_find(parser->p, name);
	if (*axis >= 0) return LK_OK;
	for (int i = 0; i < parser->p->axis_count; i++) names[i] = parser->p->axes[i].name;
	lc_at(parser, &parser->tokens.at[parser->at - 1], err, "unknown mesh axis %s", name);
	return lc_suggest(err, name, names, (size_t)parser->p->axis_count, "the axes follow \"mesh\"");
}

lk_status lc_dtype_next(lc_parser *parser, lc_dtype *out, lk_error *err) {
	const char *names[LC_WEAK_INT], *name;
	for (int i = 0; i < LC_WEAK_INT; i++) names[i] = lc_dtype_name((lc_dtype)i);
	int found = lc_choice(lc_peek(parser), names, LC_WEAK_INT);
	LK_TRY(lc_word_next(parser, "a number format (f32, bf16, i32, ...)", &name, err));
	*out = (lc_dtype)found;
	if (found >= 0) return LK_OK;
	lc_at(parser, &parser->tokens.at[parser->at - 1], err, "unknown number format %s", name);
	return lc_suggest(err, name, names, LC_WEAK_INT,
	                  "give f64, f32, f16, bf16, f8, i64 to i8, u64 to u8 or bool");
}
