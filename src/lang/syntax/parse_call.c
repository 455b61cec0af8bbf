/* parse_call.c: calls, their arguments read as the table of operations says. */
#include <string.h>

#include "lang/syntax/lexer.h"

static int called(const lc_token *token) {
	for (int i = 0; i < LC_OP_COUNT; i++) {
		const char *name = lc_ops[i].name;
		if (!*lc_ops[i].arguments && i != LC_SEND) continue;
		if (lc_choice(token, &name, 1) == 0) return i;
	}
	return -1;
}

bool lc_is_call(const lc_token *token) {
	return token->kind == LC_NAME_TOKEN && called(token) >= 0;
}

/* [NAME =] INT; the name may be left out unless it is needed. */
static lk_status named_integer(lc_parser *parser, const char *name, bool needed, int64_t low,
                               int64_t high, int64_t *out, lk_error *err) {
	char what[64];
	snprintf(what, sizeof what, "%s%s", name, needed ? "=INTEGER" : "");
	if (lc_take_word(parser, name)) LK_TRY(lc_expect(parser, '=', name, err));
	else if (needed) return lc_unexpected(parser, what, err);
	return lc_integer(parser, what, low, high, out, err);
}

static lk_status call_reduction(lc_parser *parser, lc_node *node, lk_error *err) {
	static const char *const names[] = {"sum", "max", "min"};
	int found = lc_choice(lc_peek(parser), names, LC_REDUCES);
	if (found < 0) return lc_unexpected(parser, "sum, max or min", err);
	node->reduce = (uint8_t)found;
	parser->at++;
	return LK_OK;
}

static lk_status dim(lc_parser *parser, int8_t *out, lk_error *err) {
	int64_t number;
	LK_TRY(named_integer(parser, "dim", false, 0, LC_RANK - 1, &number, err));
	*out = (int8_t)number;
	return LK_OK;
}

static lk_status probability(lc_parser *parser, lc_node *node, lk_error *err) {
	if (lc_peek(parser)->kind != LC_NUMBER_TOKEN)
		return lc_unexpected(parser, "a probability", err);
	node->number = lc_peek(parser)->number;
	parser->at++;
	return LK_OK;
}

static lk_status integer32(lc_parser *parser, const char *name, int32_t low, int32_t *out,
                           lk_error *err) {
	int64_t number;
	LK_TRY(named_integer(parser, name, true, low, 1 << 20, &number, err));
	*out = (int32_t)number;
	return LK_OK;
}

/* Optional arguments: one of them, behind its comma. */
static lk_status optional(lc_parser *parser, char kind, lc_node *node, lk_error *err) {
	int8_t d;
	switch (kind) {
	case 'T':
		if (lc_take_word(parser, "ta")) return node->ta = 1, LK_OK;
		if (lc_take_word(parser, "tb")) return node->tb = 1, LK_OK;
		return lc_unexpected(parser, "ta, tb or ')'", err);
	case 'W':
		if (lc_sees_word(parser, "stride"))
			return integer32(parser, "stride", 1, &node->stride, err);
		if (lc_sees_word(parser, "pad")) return integer32(parser, "pad", 0, &node->pad, err);
		return lc_unexpected(parser, "stride=, pad= or ')'", err);
	default:
		if (lc_take_word(parser, "keep")) return node->keep = 1, LK_OK;
		LK_TRY(dim(parser, &d, err));
		node->dims |= (uint8_t)(1u << d);
		return LK_OK;
	}
}

static lk_status call_argument(lc_parser *parser, char kind, lc_node *node, int *operand,
                               lk_error *err) {
	lc_dtype dtype;
	int axis;
	switch (kind) {
	case 'x': return lc_expression(parser, &node->in[(*operand)++], err);
	case 't':
		LK_TRY(lc_dtype_next(parser, &dtype, err));
		node->dtype = (uint8_t)dtype;
		return LK_OK;
	case 'p': return probability(parser, node, err);
	case 'k': return named_integer(parser, "key", true, 0, (int64_t)1 << 53, &node->key, err);
	case 'o': return call_reduction(parser, node, err);
	case 'a':
		LK_TRY(lc_axis_next(parser, &axis, err));
		node->axis = (int8_t)axis;
		return LK_OK;
	case 'd': return dim(parser, &node->d, err);
	case 'e': return dim(parser, &node->e, err);
	case 'r': return integer32(parser, "root", 0, &node->root, err);
	default: return integer32(parser, "shift", -(1 << 20), &node->shift, err);
	}
}

/* send(x, AXIS: GROUP -> GROUP) */
static lk_status call_send(lc_parser *parser, lc_node *node, lk_error *err) {
	int axis;
	LK_TRY(lc_expression(parser, &node->in[0], err));
	LK_TRY(lc_expect(parser, ',', "the value", err));
	LK_TRY(lc_axis_next(parser, &axis, err));
	LK_TRY(lc_expect(parser, ':', "the axis", err));
	LK_TRY(lc_group_next(parser, axis, &node->from, err));
	if (lc_peek(parser)->kind != LC_ARROW_RIGHT) return lc_unexpected(parser, "\"->\"", err);
	parser->at++;
	return lc_group_next(parser, axis, &node->at, err);
}

lk_status lc_call(lc_parser *parser, int *id, lk_error *err) {
	const lc_token *token = lc_peek(parser);
	lc_op op = (lc_op)called(token);
	lc_node n = lc_draft(op, token->line, token->column);
	const char *kind = lc_ops[op].arguments;
	int operand = 0;
	parser->at += 2; /* name and parenthesis */
	if (op == LC_SEND) LK_TRY(call_send(parser, &n, err));
	for (; *kind && *kind >= 'a'; kind++) {
		if (kind != lc_ops[op].arguments) LK_TRY(lc_expect(parser, ',', "the argument", err));
		LK_TRY(call_argument(parser, *kind, &n, &operand, err));
	}
	while (*kind && lc_take(parser, ',')) LK_TRY(optional(parser, *kind, &n, err));
	LK_TRY(lc_expect(parser, ')', "the arguments", err));
	return lc_add(parser->p, &n, id, err);
}
