/* parse_loop.c: loops, `for i = 1 to size(cp) - 1 { ... }`: repeated text. The bounds are known
 * when the text is read; the body is read once per iteration, and k[i-1] in it is the name k0, k1,
 * ... No loop is left in the program. Sizes are here too, because bounds are sizes, and sizes use
 * indices. */
#include <string.h>

#include "base/arena.h"
#include "lang/syntax/lexer.h"
#include "base/check.h"

lk_status lc_group_next(lc_parser *parser, int axis, lc_group *out, lk_error *err) {
	LK_ASSERT(axis >= 0 && axis < parser->p->axis_count);
	*out = (lc_group){.axis = axis};
	if (lc_loop_find(parser, lc_peek(parser))) return lc_known(parser, &out->offset, err);
	if (lc_peek(parser)->kind == LC_NUMBER_TOKEN)
		return lc_integer(parser, "a group", 0, INT32_MAX, &out->offset, err);
	const lc_token *token = lc_peek(parser);
	LK_TRY(lc_word_next(parser, "a group (k, k+1 or a number)", &out->index, err));
	if (lc_axis_find(parser->p, out->index) >= 0 || lc_dim_find(parser->p, out->index) >= 0)
		return lc_at(parser, token, err, "%s is an axis or a dim, not an index of groups",
		             out->index);
	if (!lc_sees(parser, '+') && !lc_sees(parser, '-')) return LK_OK;
	int64_t sign = lc_take(parser, '+') ? 1 : (parser->at++, -1);
	LK_TRY(lc_integer(parser, "a number of groups", 0, INT32_MAX, &out->offset, err));
	out->offset *= sign;
	return LK_OK;
}

/* Iterations of all loops of a file, which also ends nested empty ones; the largest value of a
 * variable. */
enum { TURNS = 1 << 14, LAST = 1 << 20 };

lk_status lc_known(lc_parser *parser, int64_t *out, lk_error *err) {
	const lc_token *token = lc_peek(parser);
	lc_dim sum;
	LK_TRY(lc_size(parser, &sum, err));
	if (lc_dim_known(parser->p, sum, out)) return LK_OK;
	lc_at(parser, token, err, "this is not a number when the text is read");
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

/* The token after a name and its index, if it has one. */
const lc_token *lc_behind_name(const lc_parser *parser) {
	const lc_token *token = lc_peek(parser) + 1;
	if (token->kind != LC_SIGN || token->sign != '[') return token;
	while (token->kind != LC_END && !(token->kind == LC_SIGN && token->sign == ']')) token++;
	return token->kind == LC_END ? token : token + 1;
}

/* ---- sizes: sums and products of names and numbers ---- */

static lk_status dim_sum(lc_parser *parser, lc_dim *out, lk_error *err);

static lk_status dim_name(lc_parser *parser, lc_dim *out, lk_error *err) {
	const char *name, *names[LC_DIMS];
	const lc_token *token = lc_peek(parser);
	int axis, found;
	const lc_loop *loop = lc_loop_find(parser, token);
	LK_TRY(lc_word_next(parser, "a dim (a name, a number or size(axis))", &name, err));
	if (loop) return lc_dim_number(parser->p, loop->value, out, err);
	if (strcmp(name, "size") == 0 && lc_take(parser, '(')) {
		LK_TRY(lc_axis_next(parser, &axis, err));
		LK_TRY(lc_expect(parser, ')', "the axis", err));
		return lc_dim_axis(parser->p, axis, out, err);
	}
	found = lc_dim_find(parser->p, name);
	if (found >= 0) return lc_dim_named(parser->p, found, out, err);
	for (int i = 0; i < parser->p->named_count; i++) names[i] = parser->p->named[i].name;
	lc_at(parser, token, err, "unknown dim %s", name);
	char otherwise[LC_NAME + 32];
	snprintf(otherwise, sizeof otherwise, "declare it: dim %s", name);
	return lc_suggest(err, name, names, (size_t)parser->p->named_count, otherwise);
}

static lk_status dim_factor(lc_parser *parser, lc_dim *out, lk_error *err) {
	int64_t number;
	if (lc_peek(parser)->kind == LC_NUMBER_TOKEN) {
		LK_TRY(lc_integer(parser, "a size", 0, (int64_t)1 << 53, &number, err));
		return lc_dim_number(parser->p, number, out, err);
	}
	if (!lc_sees(parser, '(')) return dim_name(parser, out, err);
	if (parser->depth >= LC_DEPTH)
		return lc_at(parser, lc_peek(parser), err, "parentheses are nested too deep");
	parser->at++;
	parser->depth++;
	LK_TRY(dim_sum(parser, out, err));
	parser->depth--;
	return lc_expect(parser, ')', "a size", err);
}

static lk_status dim_product(lc_parser *parser, lc_dim *out, lk_error *err) {
	lc_dim factor;
	LK_TRY(dim_factor(parser, out, err));
	while (lc_sees(parser, '*') || lc_sees(parser, '/')) {
		const lc_token *token = lc_peek(parser);
		parser->at++;
		LK_TRY(dim_factor(parser, &factor, err));
		if (token->sign == '*') {
			LK_TRY(lc_dim_times(parser->p, *out, factor, out, err));
			continue;
		}
		if (parser->p->dims.at[*out].count > 1) {
			lc_at(parser, token, err, "a sum of sizes is divided");
			return lk_hint(err, "divide its parts: N/2 + M/2");
		}
		LK_TRY(lc_dim_over(parser->p, *out, factor, token->line, token->column, out, err));
	}
	return LK_OK;
}

static lk_status dim_sum(lc_parser *parser, lc_dim *out, lk_error *err) {
	lc_dim part;
	LK_TRY(dim_product(parser, out, err));
	while (lc_sees(parser, '+') || lc_sees(parser, '-')) {
		int sign = lc_take(parser, '+') ? 1 : (parser->at++, -1);
		LK_TRY(dim_product(parser, &part, err));
		LK_TRY(lc_dim_plus(parser->p, *out, part, sign, out, err));
	}
	return LK_OK;
}

lk_status lc_size(lc_parser *parser, lc_dim *out, lk_error *err) {
	const lc_token *token = lc_peek(parser);
	lk_status status = dim_sum(parser, out, err);
	if (status != LK_ERR_INPUT || !err || err->where[0]) return status;
	lk_error found = *err;
	lc_at(parser, token, err, "%s", found.what);
	return lk_hint(err, "%s", found.hint);
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
			return lc_at(parser, lc_peek(parser), err, "the loops run more than %d times", TURNS);
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
	LK_ASSERT(loop == &parser->loops[parser->loop_count]);
	if (status == LK_ERR_INPUT && err && !strstr(err->what, ", where ")) {
		size_t used = strlen(err->what);
		snprintf(err->what + used, sizeof err->what - used, ", where %s is %lld", loop->name,
		         (long long)loop->value);
	}
	LK_TRY(status);
	parser->at = begin;
	return skip_body(parser, err);
}
