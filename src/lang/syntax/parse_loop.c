/* parse_loop.c: loops, `for i = 1 to size(cp) - 1 { ... }`: repeated text. The bounds are numbers when the text is read;
 * the body is read once for each, and k[i-1] in it is the name k0, k1, ... No loop is left in the program. */
#include <string.h>

#include "lang/syntax/lexer.h"

enum { TURNS = 1 << 14, LAST = 1 << 20 }; /* of all loops of a file, so that nested empty ones end; a variable */

const lc_loop *lc_loop_find(const lc_parser *s, const lc_token *t) {
	for (int i = s->loop_count; i-- > 0;)
		if (lc_choice(t, &s->loops[i].name, 1) == 0) return &s->loops[i];
	return NULL;
}

lk_status lc_known(lc_parser *s, int64_t *out, lk_error *err) {
	const lc_token *t = lc_peek(s);
	lc_dim sum;
	LK_TRY(lc_size(s, &sum, err));
	if (lc_dim_known(s->p, sum, out)) return LK_OK;
	lc_at(s, t, err, "this is no number when the text is read");
	return lk_hint(err, "use integers, loop variables and size(axis) of an axis of fixed size: mesh cp=4");
}

/* NAME, or NAME [ size ]: the number is appended to the name. */
lk_status lc_indexed(lc_parser *s, const char *what, const char **out, lk_error *err) {
	const lc_token *t = lc_peek(s);
	int64_t index;
	LK_TRY(lc_word_next(s, what, out, err));
	if (!lc_take(s, '[')) return LK_OK;
	LK_TRY(lc_known(s, &index, err));
	LK_TRY(lc_expect(s, ']', "the index", err));
	if (index < 0) return lc_at(s, t, err, "the index of %s is %lld", *out, (long long)index);
	*out = lk_arena_printf(&s->file->arena, "%s%lld", *out, (long long)index);
	if (!*out) return lk_oom(err);
	return strlen(*out) < LC_NAME ? LK_OK : lc_at(s, t, err, "the name %s is too long", *out);
}

/* The token behind a name and its index, if it has one. */
const lc_token *lc_behind_name(const lc_parser *s) {
	const lc_token *t = lc_peek(s) + 1;
	if (t->kind != LC_SIGN || t->sign != '[') return t;
	while (t->kind != LC_END && !(t->kind == LC_SIGN && t->sign == ']')) t++;
	return t->kind == LC_END ? t : t + 1;
}

static lk_status head(lc_parser *s, lc_loop *loop, int64_t *last, lk_error *err) {
	const lc_token *t = lc_peek(s);
	LK_TRY(lc_word_next(s, "the name of a loop's variable", &loop->name, err));
	if (lc_loop_find(s, t)) return lc_at(s, t, err, "%s is the variable of another loop here", loop->name);
	LK_TRY(lc_name_free(s->p, loop->name, t->line, t->column, err));
	LK_TRY(lc_expect(s, '=', "the loop's variable", err));
	LK_TRY(lc_known(s, &loop->value, err));
	if (!lc_take_word(s, "to")) return lc_unexpected(s, "\"to\" and the last value", err);
	LK_TRY(lc_known(s, last, err));
	if (loop->value >= 0 && *last <= LAST) return LK_OK;
	return lc_at(s, t, err, "a loop runs from 0 at least, to %d at most", LAST);
}

static lk_status skip_body(lc_parser *s, lk_error *err) {
	for (int depth = 1; depth > 0; s->at++) {
		if (lc_peek(s)->kind == LC_END) return lc_unexpected(s, "'}' of the loop", err);
		depth += lc_sees(s, '{') - lc_sees(s, '}');
	}
	return LK_OK;
}

static lk_status turns(lc_parser *s, lc_loop *loop, int64_t last, lc_item *item, void *context, lk_error *err) {
	size_t begin = s->at;
	for (; loop->value <= last; loop->value++) {
		if (++s->turns > TURNS) return lc_at(s, lc_peek(s), err, "the loops turn more than %d times", TURNS);
		s->at = begin;
		while (!lc_take(s, '}')) LK_TRY(item(s, context, err));
	}
	return LK_OK;
}

lk_status lc_loop_next(lc_parser *s, lc_item *item, void *context, lk_error *err) {
	const lc_token *t = lc_peek(s);
	lc_loop *loop = &s->loops[s->loop_count];
	int64_t last;
	if (s->loop_count == LC_LOOPS) return lc_at(s, t, err, "more than %d loops in each other", LC_LOOPS);
	LK_TRY(head(s, loop, &last, err));
	LK_TRY(lc_expect(s, '{', "the loop's bounds", err));
	size_t begin = s->at;
	s->loop_count++;
	lk_status status = turns(s, loop, last, item, context, err);
	s->loop_count--;
	if (status == LK_ERR_INPUT && err && !strstr(err->what, ", where ")) {
		size_t used = strlen(err->what);
		snprintf(err->what + used, sizeof err->what - used, ", where %s is %lld", loop->name, (long long)loop->value);
	}
	LK_TRY(status);
	s->at = begin;
	return skip_body(s, err);
}
