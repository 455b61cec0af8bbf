/* parse_call.c: calls, their arguments read as the table of operations says. */
#include <string.h>

#include "lang/syntax/lexer.h"

static int called(const lc_token *t) {
	for (int i = 0; i < LC_OP_COUNT; i++) {
		const char *name = lc_ops[i].name;
		if (!*lc_ops[i].arguments && i != LC_SEND) continue;
		if (lc_choice(t, &name, 1) == 0) return i;
	}
	return -1;
}

bool lc_is_call(const lc_token *t) { return t->kind == LC_NAME_TOKEN && called(t) >= 0; }

/* [NAME =] INT; the name may be left out unless it is needed. */
static lk_status named_integer(lc_parser *s, const char *name, bool needed, int64_t low, int64_t high, int64_t *out,
							   lk_error *err) {
	char what[64];
	snprintf(what, sizeof what, "%s%s", name, needed ? "=INTEGER" : "");
	if (lc_take_word(s, name)) LK_TRY(lc_expect(s, '=', name, err));
	else if (needed) return lc_unexpected(s, what, err);
	return lc_integer(s, what, low, high, out, err);
}

static lk_status reduction(lc_parser *s, lc_node *n, lk_error *err) {
	static const char *const names[] = {"sum", "max", "min"};
	int found = lc_choice(lc_peek(s), names, LC_REDUCES);
	if (found < 0) return lc_unexpected(s, "sum, max or min", err);
	n->reduce = (uint8_t)found;
	s->at++;
	return LK_OK;
}

static lk_status dim(lc_parser *s, int8_t *out, lk_error *err) {
	int64_t number;
	LK_TRY(named_integer(s, "dim", false, 0, LC_RANK - 1, &number, err));
	*out = (int8_t)number;
	return LK_OK;
}

static lk_status probability(lc_parser *s, lc_node *n, lk_error *err) {
	if (lc_peek(s)->kind != LC_NUMBER_TOKEN) return lc_unexpected(s, "a probability", err);
	n->number = lc_peek(s)->number;
	s->at++;
	return LK_OK;
}

static lk_status integer32(lc_parser *s, const char *name, int32_t low, int32_t *out, lk_error *err) {
	int64_t number;
	LK_TRY(named_integer(s, name, true, low, 1 << 20, &number, err));
	*out = (int32_t)number;
	return LK_OK;
}

/* Optional arguments: one of them, behind its comma. */
static lk_status optional(lc_parser *s, char kind, lc_node *n, lk_error *err) {
	int8_t d;
	switch (kind) {
	case 'T':
		if (lc_take_word(s, "ta")) return n->ta = 1, LK_OK;
		if (lc_take_word(s, "tb")) return n->tb = 1, LK_OK;
		return lc_unexpected(s, "ta, tb or ')'", err);
	case 'W':
		if (lc_sees_word(s, "stride")) return integer32(s, "stride", 1, &n->stride, err);
		if (lc_sees_word(s, "pad")) return integer32(s, "pad", 0, &n->pad, err);
		return lc_unexpected(s, "stride=, pad= or ')'", err);
	default:
		if (lc_take_word(s, "keep")) return n->keep = 1, LK_OK;
		LK_TRY(dim(s, &d, err));
		n->dims |= (uint8_t)(1u << d);
		return LK_OK;
	}
}

static lk_status argument(lc_parser *s, char kind, lc_node *n, int *operand, lk_error *err) {
	lc_dtype dtype;
	int axis;
	switch (kind) {
	case 'x': return lc_expression(s, &n->in[(*operand)++], err);
	case 't': LK_TRY(lc_dtype_next(s, &dtype, err)); n->dtype = (uint8_t)dtype; return LK_OK;
	case 'p': return probability(s, n, err);
	case 'k': return named_integer(s, "key", true, 0, (int64_t)1 << 53, &n->key, err);
	case 'o': return reduction(s, n, err);
	case 'a': LK_TRY(lc_axis_next(s, &axis, err)); n->axis = (int8_t)axis; return LK_OK;
	case 'd': return dim(s, &n->d, err);
	case 'e': return dim(s, &n->e, err);
	case 'r': return integer32(s, "root", 0, &n->root, err);
	default: return integer32(s, "shift", -(1 << 20), &n->shift, err);
	}
}

/* send(x, AXIS: GROUP -> GROUP) */
static lk_status send(lc_parser *s, lc_node *n, lk_error *err) {
	int axis;
	LK_TRY(lc_expression(s, &n->in[0], err));
	LK_TRY(lc_expect(s, ',', "the value", err));
	LK_TRY(lc_axis_next(s, &axis, err));
	LK_TRY(lc_expect(s, ':', "the axis", err));
	LK_TRY(lc_group_next(s, axis, &n->from, err));
	if (lc_peek(s)->kind != LC_ARROW_RIGHT) return lc_unexpected(s, "\"->\"", err);
	s->at++;
	return lc_group_next(s, axis, &n->at, err);
}

lk_status lc_call(lc_parser *s, int *id, lk_error *err) {
	const lc_token *t = lc_peek(s);
	lc_op op = (lc_op)called(t);
	lc_node n = lc_draft(op, t->line, t->column);
	const char *kind = lc_ops[op].arguments;
	int operand = 0;
	s->at += 2; /* name and parenthesis */
	if (op == LC_SEND) LK_TRY(send(s, &n, err));
	for (; *kind && *kind >= 'a'; kind++) {
		if (kind != lc_ops[op].arguments) LK_TRY(lc_expect(s, ',', "the argument", err));
		LK_TRY(argument(s, *kind, &n, &operand, err));
	}
	while (*kind && lc_take(s, ',')) LK_TRY(optional(s, *kind, &n, err));
	LK_TRY(lc_expect(s, ')', "the arguments", err));
	return lc_add(s->p, &n, id, err);
}
