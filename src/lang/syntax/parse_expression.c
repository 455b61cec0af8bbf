/* parse_expression.c: expressions, by precedence: comparison; + -; * /; minus sign; ^ (to the
 * right). */
#include <string.h>

#include "lang/syntax/lexer.h"

static lk_status unary(lc_parser *parser, int *id, lk_error *err);

static lk_status expression_build(lc_parser *parser, lc_op op, const lc_token *token, int a, int b,
                                  int *id, lk_error *err) {
	lc_node n = lc_draft(op, token->line, token->column);
	n.in[0] = a;
	n.in[1] = b;
	return lc_add(parser->p, &n, id, err);
}

static lk_status expression_size_of(lc_parser *parser, const lc_token *token, int *id,
                                    lk_error *err) {
	lc_node n = lc_draft(LC_SIZE, token->line, token->column);
	const char *name, *names[LC_SYMBOLS];
	int count = 0;
	LK_TRY(lc_expect(parser, '(', "size", err));
	const lc_token *at = lc_peek(parser);
	LK_TRY(lc_word_next(parser, "an axis or a dim", &name, err));
	n.axis = (int8_t)lc_axis_find(parser->p, name);
	n.symbol = n.axis >= 0 ? -1 : lc_dim_find(parser->p, name);
	if (n.axis < 0 && n.symbol < 0) {
		for (int i = 0; i < parser->p->axis_count; i++) names[count++] = parser->p->axes[i].name;
		for (int i = 0; i < parser->p->named_count; i++) names[count++] = parser->p->named[i].name;
		lc_at(parser, at, err, "unknown axis or dim %s", name);
		return lc_suggest(err, name, names, (size_t)count,
		                  "size takes an axis of the mesh or a dim");
	}
	LK_TRY(lc_expect(parser, ')', "the name", err));
	return lc_add(parser->p, &n, id, err);
}

static lk_status expression_number(lc_parser *parser, int *id, lk_error *err) {
	const lc_token *token = lc_peek(parser);
	lc_node n = lc_draft(LC_CONST, token->line, token->column);
	const lc_loop *loop = lc_loop_find(parser, token);
	n.number = loop ? (double)loop->value : token->number;
	parser->at++;
	return lc_add(parser->p, &n, id, err);
}

static lk_status expression_unknown(lc_parser *parser, const lc_token *token, const char *name,
                                    lk_error *err) {
	const char *names[512];
	size_t count = 0;
	bool call = lc_sees(parser, '(');
	for (int i = 0; call && i < LC_OP_COUNT; i++)
		if (*lc_ops[i].arguments) names[count++] = lc_ops[i].name;
	if (call) {
		names[count++] = "send";
		names[count++] = "size";
	}
	for (size_t i = parser->p->nodes.count; !call && i-- > 0 && count < 512;)
		if (parser->p->nodes.at[i].name) names[count++] = parser->p->nodes.at[i].name;
	lc_at(parser, token, err, call ? "unknown operation %s" : "%s is not defined", name);
	if (!call && (lc_dim_find(parser->p, name) >= 0 || lc_axis_find(parser->p, name) >= 0))
		return lk_hint(err, "as a number, write size(%s)", name);
	return lc_suggest(err, name, names, count,
	                  call ? "see docs/reference/language.md for the operations"
	                       : "declare it: in, state or scalar, or define it before");
}

static lk_status primary(lc_parser *parser, int *id, lk_error *err) {
	const lc_token *token = lc_peek(parser);
	const char *name;
	if (token->kind == LC_NUMBER_TOKEN || lc_loop_find(parser, token))
		return expression_number(parser, id, err);
	if (lc_take(parser, '(')) {
		LK_TRY(lc_expression(parser, id, err));
		return lc_expect(parser, ')', "the expression", err);
	}
	if (token->kind != LC_NAME_TOKEN) return lc_unexpected(parser, "a value", err);
	bool called = parser->tokens.at[parser->at + 1].kind == LC_SIGN &&
	              parser->tokens.at[parser->at + 1].sign == '(';
	if (called && lc_is_call(token)) return lc_call(parser, id, err);
	LK_TRY(lc_indexed(parser, "a value", &name, err));
	if (called && strcmp(name, "size") == 0) return expression_size_of(parser, token, id, err);
	*id = called ? -1 : lc_value_find(parser->p, name);
	return *id >= 0 ? LK_OK : expression_unknown(parser, token, name, err);
}

static lk_status expression_power(lc_parser *parser, int *id, lk_error *err) {
	int exponent;
	LK_TRY(primary(parser, id, err));
	if (!lc_sees(parser, '^')) return LK_OK;
	const lc_token *token = lc_peek(parser);
	parser->at++;
	LK_TRY(unary(parser, &exponent, err));
	return expression_build(parser, LC_POW, token, *id, exponent, id, err);
}

static lk_status unary(lc_parser *parser, int *id, lk_error *err) {
	const lc_token *token = lc_peek(parser);
	if (parser->depth >= LC_DEPTH) {
		lc_at(parser, token, err, "the expression is nested too deep");
		return lk_hint(err, "name parts of it: y = ...");
	}
	parser->depth++;
	lk_status status = LK_OK;
	if (lc_take(parser, '-')) {
		status = unary(parser, id, err);
		if (status == LK_OK) status = expression_build(parser, LC_NEG, token, *id, 0, id, err);
	} else {
		status = expression_power(parser, id, err);
	}
	parser->depth--;
	return status;
}

static lk_status expression_product(lc_parser *parser, int *id, lk_error *err) {
	int right;
	LK_TRY(unary(parser, id, err));
	while (lc_sees(parser, '*') || lc_sees(parser, '/')) {
		const lc_token *token = lc_peek(parser);
		parser->at++;
		LK_TRY(unary(parser, &right, err));
		LK_TRY(expression_build(parser, token->sign == '*' ? LC_MUL : LC_DIV, token, *id, right, id,
		                        err));
	}
	return LK_OK;
}

static lk_status expression_sum(lc_parser *parser, int *id, lk_error *err) {
	int right;
	LK_TRY(expression_product(parser, id, err));
	while (lc_sees(parser, '+') || lc_sees(parser, '-')) {
		const lc_token *token = lc_peek(parser);
		parser->at++;
		LK_TRY(expression_product(parser, &right, err));
		LK_TRY(expression_build(parser, token->sign == '+' ? LC_ADD : LC_SUB, token, *id, right, id,
		                        err));
	}
	return LK_OK;
}

static int comparison(const lc_token *token) {
	switch (token->kind) {
	case LC_AT_MOST: return LC_LE;
	case LC_AT_LEAST: return LC_GE;
	case LC_EQUAL: return LC_EQ;
	case LC_UNEQUAL: return LC_NE;
	case LC_SIGN: {
		if (token->sign == '<') return LC_LT;
		if (token->sign == '>') return LC_GT;
		return -1;
	}
	default: return -1;
	}
}

lk_status lc_expression(lc_parser *parser, int *id, lk_error *err) {
	int right;
	LK_TRY(expression_sum(parser, id, err));
	const lc_token *token = lc_peek(parser);
	/* NAME <- inside of an expression: the next statement begins with the state's name, so the
	 * arrow is misplaced. */
	if (token->kind == LC_ARROW_LEFT) {
		lc_at(parser, token, err, "\"<-\" updates a state, and cannot be part of an expression");
		return lk_hint(err, "less than a negative value is written a < -b, with a blank");
	}
	int op = comparison(token);
	if (op < 0) return LK_OK;
	parser->at++;
	LK_TRY(expression_sum(parser, &right, err));
	LK_TRY(expression_build(parser, (lc_op)op, token, *id, right, id, err));
	if (comparison(lc_peek(parser)) < 0) return LK_OK;
	lc_at(parser, lc_peek(parser), err, "comparisons in a row");
	return lk_hint(err, "put one into parentheses, or use select");
}
