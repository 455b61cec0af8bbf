/* parse_loop.c: loops, `for i = 1 to size(cp) - 1 { ... }`: repeated text. The bounds are numbers
 * when the text is read; the body is read once for each, and k[i-1] in it is the name k0, k1, ...
 * No loop is left in the program. */
#include <string.h>

#include "lang/syntax/lexer.h"

enum {
	TURNS = 1 << 14,
	LAST = 1 << 20
}; /* of all loops of a file, so that nested empty ones end; a variable */

const lc_loop *lc_loop_find(const lc_parser *parser, const lc_token *token) {
	for (int i = parser->loop_count; i-- > 0;)
		if (lc_choice(token, &parser->loops[i].name, 1) == 0) return &parser->loops[i];
	return NULL;
}

lk_status lc_known(lc_parser *parser, int64_t *out, lk_error *err) {
	const lc_token *token = lc_peek(parser);
	lc_dim sum;
	LK_TRY(lc_size(parser, &sum, err));
	if (lc_dim_known(parser->p, sum, out)) return LK_OK;
	lc_at(parser, token, err, "this is no number when the text is read");
	return lk_hint(
		err, "use integers, loop variables and size(axis) of an axis of fixed size: mesh cp=4");
}

/* NAME, or NAME [ size ]: the number is appended to the name. */
lk_status lc_indexed(lc_parser *parser, const char *what, const char **out, lk_error *err) {
	const lc_token *token = lc_peek(parser);
	int64_t index;
	LK_TRY(lc_word_next(parser, what, out, err));
	if (!lc_take(parser, '[')) return LK_OK;
	LK_TRY(lc_known(parser, &index, err));
	LK_TRY(lc_expect(parser, ']', "the index", err));
	if (index < 0)
		return lc_at(parser, token, err, "the index of %s is %lld", *out, (long long)index);
	*out = lk_arena_printf(&parser->file->arena, "%s%lld", *out, (long long)index);
	if (!*out) return lk_oom(err);
	return strlen(*out) < LC_NAME ? LK_OK
	                              : lc_at(parser, token, err, "the name %s is too long", *out);
}

/* The token behind a name and its index, if it has one. */
const lc_token *lc_behind_name(const lc_parser *parser) {
	const lc_token *token = lc_peek(parser) + 1;
	if (token->kind != LC_SIGN || token->sign != '[') return token;
	while (token->kind != LC_END && !(token->kind == LC_SIGN && token->sign == ']')) token++;
	return token->kind == LC_END ? token : token + 1;
}

static lk_status loop_head(lc_parser *parser, lc_loop *loop, int64_t *last, lk_error *err) {
	const lc_token *token = lc_peek(parser);
	LK_TRY(lc_word_next(parser, "the name of a loop's variable", &loop->name, err));
	if (lc_loop_find(parser, token))
		return lc_at(parser, token, err, "%s is the variable of another loop here", loop->name);
	LK_TRY(lc_name_free(parser->p, loop->name, token->line, token->column, err));
	LK_TRY(lc_expect(parser, '=', "the loop's variable", err));
	LK_TRY(lc_known(parser, &loop->value, err));
	if (!lc_take_word(parser, "to")) return lc_unexpected(parser, "\"to\" and the last value", err);
	LK_TRY(lc_known(parser, last, err));
	if (loop->value >= 0 && *last <= LAST) return LK_OK;
	return lc_at(parser, token, err, "a loop runs from 0 at least, to %d at most", LAST);
}

static lk_status skip_body(lc_parser *parser, lk_error *err) {
	for (int depth = 1; depth > 0; parser->at++) {
		if (lc_peek(parser)->kind == LC_END) return lc_unexpected(parser, "'}' of the loop", err);
		depth += lc_sees(parser, '{') - lc_sees(parser, '}');
	}
	return LK_OK;
}

static lk_status turns(lc_parser *parser, lc_loop *loop, int64_t last, lc_item *item, void *context,
                       lk_error *err) {
	size_t begin = parser->at;
	for (; loop->value <= last; loop->value++) {
		if (++parser->turns > TURNS)
			return lc_at(parser, lc_peek(parser), err, "the loops turn more than %d times", TURNS);
		parser->at = begin;
		while (!lc_take(parser, '}')) LK_TRY(item(parser, context, err));
	}
	return LK_OK;
}

lk_status lc_loop_next(lc_parser *parser, lc_item *item, void *context, lk_error *err) {
	const lc_token *token = lc_peek(parser);
	lc_loop *loop = &parser->loops[parser->loop_count];
	int64_t last;
	if (parser->loop_count == LC_LOOPS)
		return lc_at(parser, token, err, "more than %d loops in each other", LC_LOOPS);
	LK_TRY(loop_head(parser, loop, &last, err));
	LK_TRY(lc_expect(parser, '{', "the loop's bounds", err));
	size_t begin = parser->at;
	parser->loop_count++;
	lk_status status = turns(parser, loop, last, item, context, err);
	parser->loop_count--;
	if (status == LK_ERR_INPUT && err && !strstr(err->what, ", where ")) {
		size_t used = strlen(err->what);
		snprintf(err->what + used, sizeof err->what - used, ", where %s is %lld", loop->name,
		         (long long)loop->value);
	}
	LK_TRY(status);
	parser->at = begin;
	return skip_body(parser, err);
}
