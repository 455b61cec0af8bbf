/* parse_expression.c: expressions, by precedence: comparison; + -; * /; minus sign; ^ (to the right). */
#include <string.h>

#include "lang/syntax/lexer.h"

static lk_status unary(lc_parser *s, int *id, lk_error *err);

static lk_status build(lc_parser *s, lc_op op, const lc_token *t, int a, int b, int *id, lk_error *err) {
	lc_node n = lc_draft(op, t->line, t->column);
	n.in[0] = a, n.in[1] = b;
	return lc_add(s->p, &n, id, err);
}

static lk_status size_of(lc_parser *s, const lc_token *t, int *id, lk_error *err) {
	lc_node n = lc_draft(LC_SIZE, t->line, t->column);
	const char *name, *names[LC_SYMBOLS];
	int count = 0;
	LK_TRY(lc_expect(s, '(', "size", err));
	const lc_token *at = lc_peek(s);
	LK_TRY(lc_word_next(s, "an axis or a dim", &name, err));
	n.axis = (int8_t)lc_axis_find(s->p, name);
	n.symbol = n.axis >= 0 ? -1 : lc_dim_find(s->p, name);
	if (n.axis < 0 && n.symbol < 0) {
		for (int i = 0; i < s->p->axis_count; i++) names[count++] = s->p->axes[i].name;
		for (int i = 0; i < s->p->named_count; i++) names[count++] = s->p->named[i].name;
		lc_at(s, at, err, "there is no axis or dim %s", name);
		return lc_suggest(err, name, names, (size_t)count, "size takes an axis of the mesh or a dim");
	}
	LK_TRY(lc_expect(s, ')', "the name", err));
	return lc_add(s->p, &n, id, err);
}

static lk_status number(lc_parser *s, int *id, lk_error *err) {
	const lc_token *t = lc_peek(s);
	lc_node n = lc_draft(LC_CONST, t->line, t->column);
	const lc_loop *loop = lc_loop_find(s, t);
	n.number = loop ? (double)loop->value : t->number;
	s->at++;
	return lc_add(s->p, &n, id, err);
}

static lk_status unknown(lc_parser *s, const lc_token *t, const char *name, lk_error *err) {
	const char *names[512];
	size_t count = 0;
	bool call = lc_sees(s, '(');
	for (int i = 0; call && i < LC_OP_COUNT; i++)
		if (*lc_ops[i].arguments) names[count++] = lc_ops[i].name;
	if (call) names[count++] = "send", names[count++] = "size";
	for (size_t i = s->p->nodes.count; !call && i-- > 0 && count < 512;)
		if (s->p->nodes.at[i].name) names[count++] = s->p->nodes.at[i].name;
	lc_at(s, t, err, call ? "there is no operation %s" : "%s is not defined", name);
	if (!call && (lc_dim_find(s->p, name) >= 0 || lc_axis_find(s->p, name) >= 0))
		return lk_hint(err, "as a number, write size(%s)", name);
	return lc_suggest(err, name, names, count,
					  call ? "see docs/LANGUAGE.md for the operations"
						   : "declare it: in, state or scalar, or define it before");
}

static lk_status primary(lc_parser *s, int *id, lk_error *err) {
	const lc_token *t = lc_peek(s);
	const char *name;
	if (t->kind == LC_NUMBER_TOKEN || lc_loop_find(s, t)) return number(s, id, err);
	if (lc_take(s, '(')) {
		LK_TRY(lc_expression(s, id, err));
		return lc_expect(s, ')', "the expression", err);
	}
	if (t->kind != LC_NAME_TOKEN) return lc_unexpected(s, "a value", err);
	bool called = s->tokens.at[s->at + 1].kind == LC_SIGN && s->tokens.at[s->at + 1].sign == '(';
	if (called && lc_is_call(t)) return lc_call(s, id, err);
	LK_TRY(lc_indexed(s, "a value", &name, err));
	if (called && strcmp(name, "size") == 0) return size_of(s, t, id, err);
	*id = called ? -1 : lc_value_find(s->p, name);
	return *id >= 0 ? LK_OK : unknown(s, t, name, err);
}

static lk_status power(lc_parser *s, int *id, lk_error *err) {
	int exponent;
	LK_TRY(primary(s, id, err));
	if (!lc_sees(s, '^')) return LK_OK;
	const lc_token *t = lc_peek(s);
	s->at++;
	LK_TRY(unary(s, &exponent, err));
	return build(s, LC_POW, t, *id, exponent, id, err);
}

static lk_status unary(lc_parser *s, int *id, lk_error *err) {
	const lc_token *t = lc_peek(s);
	if (s->depth >= LC_DEPTH) {
		lc_at(s, t, err, "the expression is nested too deep");
		return lk_hint(err, "name parts of it: y = ...");
	}
	s->depth++;
	lk_status status = LK_OK;
	if (lc_take(s, '-')) {
		status = unary(s, id, err);
		if (status == LK_OK) status = build(s, LC_NEG, t, *id, 0, id, err);
	} else {
		status = power(s, id, err);
	}
	s->depth--;
	return status;
}

static lk_status product(lc_parser *s, int *id, lk_error *err) {
	int right;
	LK_TRY(unary(s, id, err));
	while (lc_sees(s, '*') || lc_sees(s, '/')) {
		const lc_token *t = lc_peek(s);
		s->at++;
		LK_TRY(unary(s, &right, err));
		LK_TRY(build(s, t->sign == '*' ? LC_MUL : LC_DIV, t, *id, right, id, err));
	}
	return LK_OK;
}

static lk_status sum(lc_parser *s, int *id, lk_error *err) {
	int right;
	LK_TRY(product(s, id, err));
	while (lc_sees(s, '+') || lc_sees(s, '-')) {
		const lc_token *t = lc_peek(s);
		s->at++;
		LK_TRY(product(s, &right, err));
		LK_TRY(build(s, t->sign == '+' ? LC_ADD : LC_SUB, t, *id, right, id, err));
	}
	return LK_OK;
}

static int comparison(const lc_token *t) {
	switch (t->kind) {
	case LC_AT_MOST: return LC_LE;
	case LC_AT_LEAST: return LC_GE;
	case LC_EQUAL: return LC_EQ;
	case LC_UNEQUAL: return LC_NE;
	case LC_SIGN: return t->sign == '<' ? LC_LT : t->sign == '>' ? LC_GT : -1;
	default: return -1;
	}
}

lk_status lc_expression(lc_parser *s, int *id, lk_error *err) {
	int right;
	LK_TRY(sum(s, id, err));
	const lc_token *t = lc_peek(s);
	/* NAME <- inside of an expression: the next statement begins with the state's name, so the arrow is misplaced. */
	if (t->kind == LC_ARROW_LEFT) {
		lc_at(s, t, err, "\"<-\" updates a state, and stands in an expression here");
		return lk_hint(err, "less than a negative value is written a < -b, with a blank");
	}
	int op = comparison(t);
	if (op < 0) return LK_OK;
	s->at++;
	LK_TRY(sum(s, &right, err));
	LK_TRY(build(s, (lc_op)op, t, *id, right, id, err));
	if (comparison(lc_peek(s)) < 0) return LK_OK;
	lc_at(s, lc_peek(s), err, "comparisons in a row");
	return lk_hint(err, "put one into parentheses, or use select");
}
