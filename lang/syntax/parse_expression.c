/* parse_expression.c: expressions, by precedence: comparison; + -; * /; minus sign; ^ (to the
 * right). */
#include <string.h>

#include "base/text.h"
#include "lang/syntax/lexer.h"

/* ---- calls: their arguments are read by the table of operations ---- */

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

/* [NAME =] INT; the name may be omitted unless it is needed. */
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
	if (found < 0) {
		lc_unexpected(parser, "sum, max or min", err);
		return lk_hint(err, "the reduction comes before the axis: (x, sum, axis)");
	}
	node->reduce = (uint8_t)found;
	parser->at++;
	return LK_OK;
}

static lk_status dim(lc_parser *parser, int8_t *out, lk_error *err) {
	int64_t number;
	if (lc_sees_word(parser, "axis") || lc_sees_word(parser, "dims") ||
	    lc_sees_word(parser, "keepdims")) {
		lc_unexpected(parser, "a dim", err);
		return lk_hint(err, "a dim is a number, as in max(x, 1); \"keep\" leaves it with "
		                    "extent 1");
	}
	if (lc_sees(parser, '-')) {
		lc_unexpected(parser, "a dim", err);
		return lk_hint(err, "dims count from 0, the first, not from the last");
	}
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

/* What an attention leaves out of its scores, and their scale. */
static lk_status mask(lc_parser *parser, lc_node *node, lk_error *err) {
	if (lc_take_word(parser, "causal")) {
		node->causal = 1;
		return LK_OK;
	}
	if (lc_take_word(parser, "part")) {
		node->part = 1;
		return LK_OK;
	}
	if (lc_sees_word(parser, "window")) return integer32(parser, "window", 1, &node->window, err);
	if (!lc_take_word(parser, "scale"))
		return lc_unexpected(parser, "causal, window=, scale=, part or ')'", err);
	LK_TRY(lc_expect(parser, '=', "scale", err));
	if (lc_peek(parser)->kind != LC_NUMBER_TOKEN || !(lc_peek(parser)->number > 0)) {
		lc_unexpected(parser, "a number above 0", err);
		return lk_hint(err, "scale is a number, as in scale=0.125; multiply q by anything else");
	}
	node->number = lc_peek(parser)->number;
	parser->at++;
	return LK_OK;
}

/* Read one optional argument, after its comma. */
static lk_status optional(lc_parser *parser, unsigned kind, lc_node *node, lk_error *err) {
	int8_t d;
	switch (kind) {
	case LC_A_TRANSPOSES:
		if (lc_take_word(parser, "ta")) {
			node->ta = 1;
			return LK_OK;
		}
		if (lc_take_word(parser, "tb")) {
			node->tb = 1;
			return LK_OK;
		}
		return lc_unexpected(parser, "ta, tb or ')'", err);
	case LC_A_WINDOW:
		if (lc_sees_word(parser, "stride"))
			return integer32(parser, "stride", 1, &node->stride, err);
		if (lc_sees_word(parser, "pad")) return integer32(parser, "pad", 0, &node->pad, err);
		return lc_unexpected(parser, "stride=, pad= or ')'", err);
	case LC_A_MASK: return mask(parser, node, err);
	case LC_A_REVERSE:
		if (lc_take_word(parser, "reverse")) {
			node->reverse = 1;
			return LK_OK;
		}
		return lc_unexpected(parser, "reverse or ')'", err);
	default:
		if (lc_take_word(parser, "keep")) {
			node->keep = 1;
			return LK_OK;
		}
		LK_TRY(dim(parser, &d, err));
		node->dims |= (uint8_t)(1u << d);
		return LK_OK;
	}
}

/* shift=INT, shift=INT*rank(AXIS), shift=rank(AXIS), shift=-rank(AXIS) */
static lk_status call_shift(lc_parser *parser, lc_node *node, lk_error *err) {
	int axis, sign = 1;
	bool times = false;
	size_t at = parser->at;
	if (lc_take_word(parser, "shift") && lc_take(parser, '=')) {
		if (lc_take(parser, '-')) sign = -1;
		times = lc_sees_word(parser, "rank");
	}
	if (!times) {
		parser->at = at;
		LK_TRY(integer32(parser, "shift", -(1 << 20), &node->shift, err));
		if (!lc_take(parser, '*')) return LK_OK;
		if (!lc_sees_word(parser, "rank")) return lc_unexpected(parser, "rank(AXIS)", err);
	} else node->shift = sign;
	parser->at++;
	LK_TRY(lc_expect(parser, '(', "rank", err));
	LK_TRY(lc_axis_next(parser, &axis, err));
	node->by = (int8_t)(axis + 1);
	return lc_expect(parser, ')', "the axis", err);
}

static lk_status call_argument(lc_parser *parser, unsigned kind, lc_node *node, int *operand,
                               lk_error *err) {
	lc_dtype dtype;
	int axis;
	switch (kind) {
	case LC_A_OPERAND: return lc_expression(parser, &node->in[(*operand)++], err);
	case LC_A_DTYPE:
		LK_TRY(lc_dtype_next(parser, &dtype, err));
		node->dtype = (uint8_t)dtype;
		return LK_OK;
	case LC_A_PROBABILITY: return probability(parser, node, err);
	case LC_A_KEY: return named_integer(parser, "key", true, 0, (int64_t)1 << 53, &node->key, err);
	case LC_A_REDUCTION: return call_reduction(parser, node, err);
	case LC_A_AXIS:
		LK_TRY(lc_axis_next(parser, &axis, err));
		node->axis = (int8_t)axis;
		return LK_OK;
	case LC_A_DIM: return dim(parser, &node->d, err);
	case LC_A_OTHER_DIM: return dim(parser, &node->e, err);
	case LC_A_ROOT: return integer32(parser, "root", 0, &node->root, err);
	case LC_A_COUNT: return lc_size(parser, &node->count, err);
	case LC_A_SHIFT: return call_shift(parser, node, err);
	default: break;
	}
	return lk_fail(err, LK_ERR_INTERNAL, NULL, "an argument of unknown kind");
}

/* ---- calls of composed operations ---- */

static const lc_composed_row *expression_composed(const lc_token *token) {
	for (int i = 0; i < LC_COMPOSED; i++)
		if (lc_choice(token, &lc_composed[i].name, 1) == 0) return &lc_composed[i];
	return NULL;
}

static lk_status composed_size(lc_parser *parser, lc_composed_call *call, lk_error *err) {
	if (call->sizes == LC_RANK)
		return lc_at(parser, lc_peek(parser), err, "a tensor has at most %d dims", LC_RANK);
	return lc_size(parser, &call->size[call->sizes++], err);
}

/* Note the text of a call for messages about its result. */
static lk_status expression_say(lc_parser *parser, const lc_token *from, int id, lk_error *err) {
	const lc_token *to = &parser->tokens.at[parser->at - 1];
	lc_node *node = &parser->p->nodes.at[id];
	char said[LC_SHOWN];
	size_t used = 0, length = (size_t)(to->text + to->length - from->text);
	if (node->name || node->said || memchr(from->text, '#', length)) return LK_OK;
	for (size_t i = 0; i < length && used < sizeof said - 4; i++) {
		bool space = from->text[i] <= ' ';
		if (space && (used == 0 || said[used - 1] == ' ')) continue;
		said[used++] = space ? ' ' : from->text[i];
	}
	if (used == sizeof said - 4) {
		memcpy(said + used, "...", 3);
		used += 3;
	}
	node->said = lk_arena_strndup(&parser->file->arena, said, used);
	return node->said ? LK_OK : lk_oom(err);
}

/* "narrow(a, dim, size, size)", for a missing or superfluous argument. */
static lk_status argument_form(lc_parser *parser, const char *name, const uint8_t *arguments,
                               bool surplus, lk_error *err) {
	static const char *const said[] = {
		[LC_A_DTYPE] = "format",    [LC_A_PROBABILITY] = "probability",
		[LC_A_KEY] = "key=n",       [LC_A_REDUCTION] = "sum",
		[LC_A_AXIS] = "axis",       [LC_A_DIM] = "dim",
		[LC_A_OTHER_DIM] = "dim",   [LC_A_ROOT] = "root=n",
		[LC_A_SHIFT] = "shift=n",   [LC_A_COUNT] = "size",
		[LC_A_SIZES] = "size, ...",
	};
	char form[128] = "", operand = 'a';
	lk_text text = lk_text_begin(form, sizeof form);
	for (const uint8_t *kind = arguments; *kind && *kind < LC_A_OPTIONAL; kind++) {
		if (kind != arguments) lk_text_add(&text, ", ");
		if (*kind == LC_A_OPERAND) lk_text_add(&text, "%c", operand++);
		else lk_text_add(&text, "%s", said[*kind]);
	}
	lc_at(parser, lc_peek(parser), err,
	      surplus ? "%s has no further argument" : "an argument of %s is missing", name);
	return lk_hint(err, "write %s(%s)", name, form);
}

/* Check the end of the arguments. */
static lk_status last_argument(lc_parser *parser, const char *name, const uint8_t *arguments,
                               lk_error *err) {
	if (lc_sees(parser, ',') && *arguments)
		return argument_form(parser, name, arguments, true, err);
	return lc_expect(parser, ')', "the arguments", err);
}

static lk_status next_argument(lc_parser *parser, const char *name, const uint8_t *arguments,
                               lk_error *err) {
	if (lc_take(parser, ',')) return LK_OK;
	if (!lc_sees(parser, ')')) return lc_expect(parser, ',', "the argument", err);
	return argument_form(parser, name, arguments, false, err);
}

static lk_status composed_next(lc_parser *parser, const lc_composed_row *row, int *id,
                               lk_error *err) {
	const lc_token *token = lc_peek(parser);
	lc_composed_call call = {.node = lc_draft(LC_COPY, token->line, token->column)};
	lc_asker ask = {.p = parser->p, .asked = &call.node, .err = err};
	int operand = 0;
	parser->at += 2; /* name and parenthesis */
	for (const uint8_t *kind = row->arguments; *kind; kind++) {
		if (kind != row->arguments) LK_TRY(next_argument(parser, row->name, row->arguments, err));
		if (*kind != LC_A_COUNT && *kind != LC_A_SIZES)
			LK_TRY(call_argument(parser, *kind, &call.node, &operand, err));
		else LK_TRY(composed_size(parser, &call, err));
		while (*kind == LC_A_SIZES && lc_take(parser, ','))
			LK_TRY(composed_size(parser, &call, err));
	}
	LK_TRY(last_argument(parser, row->name, row->arguments, err));
	call.node.inputs = (uint8_t)operand;
	for (int i = 0; i < operand; i++) {
		char x[LC_SHOWN];
		if (!lc_is_weak((lc_dtype)parser->p->nodes.at[call.node.in[i]].dtype)) continue;
		lc_at(parser, token, err, "%s has no number format",
		      lc_value_text(parser->p, call.node.in[i], x, sizeof x));
		return lk_hint(err, "give it one: cast(f32, %s)", x);
	}
	parser->p->derived = true;
	LK_TRY(row->make(&ask, &call, id));
	return expression_say(parser, token, *id, err);
}

/* send(x, AXIS: GROUP -> GROUP) */
static lk_status call_send(lc_parser *parser, lc_node *node, lk_error *err) {
	int axis;
	LK_TRY(lc_expression(parser, &node->in[0], err));
	LK_TRY(lc_expect(parser, ',', "the value", err));
	LK_TRY(lc_axis_next(parser, &axis, err));
	if (!lc_take(parser, ':')) {
		lc_unexpected(parser, "':' after the axis", err);
		return lk_hint(err, "write send(x, %s: k -> k+1)", parser->p->axes[axis].name);
	}
	LK_TRY(lc_group_next(parser, axis, &node->from, err));
	if (lc_peek(parser)->kind != LC_ARROW_RIGHT) return lc_unexpected(parser, "\"->\"", err);
	parser->at++;
	return lc_group_next(parser, axis, &node->at, err);
}

static lk_status call_next(lc_parser *parser, int *id, lk_error *err) {
	const lc_token *token = lc_peek(parser);
	lc_op op = (lc_op)called(token);
	lc_node n = lc_draft(op, token->line, token->column);
	const uint8_t *kind = lc_ops[op].arguments;
	int operand = 0;
	parser->at += 2; /* name and parenthesis */
	if (op == LC_SEND) LK_TRY(call_send(parser, &n, err));
	for (; *kind && *kind < LC_A_OPTIONAL; kind++) {
		if (kind != lc_ops[op].arguments)
			LK_TRY(next_argument(parser, lc_ops[op].name, lc_ops[op].arguments, err));
		LK_TRY(call_argument(parser, *kind, &n, &operand, err));
	}
	while (*kind && lc_take(parser, ',')) LK_TRY(optional(parser, *kind, &n, err));
	LK_TRY(last_argument(parser, lc_ops[op].name, lc_ops[op].arguments, err));
	return lc_add(parser->p, &n, id, err);
}

/* ---- operators, by precedence ---- */

static lk_status unary(lc_parser *parser, int *id, lk_error *err);

static lk_status expression_build(lc_parser *parser, lc_op op, const lc_token *token, int a, int b,
                                  int *id, lk_error *err) {
	lc_node n = lc_draft(op, token->line, token->column);
	n.in[0] = a;
	n.in[1] = b;
	return lc_add(parser->p, &n, id, err);
}

/* grad(LOSS, VALUE): values of the backward pass. */
static lk_status expression_gradient(lc_parser *parser, const lc_token *token, int *id,
                                     lk_error *err) {
	lc_node asked = lc_draft(LC_COPY, token->line, token->column);
	int loss, by;
	LK_TRY(lc_expect(parser, '(', "grad", err));
	LK_TRY(lc_expression(parser, &loss, err));
	LK_TRY(lc_expect(parser, ',', "the loss", err));
	LK_TRY(lc_expression(parser, &by, err));
	LK_TRY(lc_expect(parser, ')', "what it is differentiated by", err));
	LK_TRY(lc_gradient(parser->p, loss, by, &asked, id, err));
	return expression_say(parser, token, *id, err);
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
		names[count++] = "grad";
		for (int i = 0; i < LC_COMPOSED; i++) names[count++] = lc_composed[i].name;
	}
	for (size_t i = parser->p->nodes.count; !call && i-- > 0 && count < 512;)
		if (parser->p->nodes.at[i].name) names[count++] = parser->p->nodes.at[i].name;
	if (!call && (lc_dim_find(parser->p, name) >= 0 || lc_axis_find(parser->p, name) >= 0)) {
		lc_at(parser, token, err, "%s is %s, not a value", name,
		      lc_dim_find(parser->p, name) >= 0 ? "a dim" : "an axis");
		return lk_hint(err, "as a number, write size(%s)", name);
	}
	char first[LC_NAME];
	snprintf(first, sizeof first, "%.*s", token->length, token->text);
	if (strcmp(first, name) != 0 && lc_value_find(parser->p, first) >= 0) {
		lc_at(parser, token, err, "%s[...] is the name %s, which is not defined", first, name);
		return lk_hint(
			err, "elements of %s are read by narrow(%s, dim, begin, n), gather or gather_rows",
			first, first);
	}
	lc_at(parser, token, err, call ? "unknown operation %s" : "%s is not defined", name);
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
	if (token->kind != LC_NAME_TOKEN) {
		bool power = token->kind == LC_SIGN && token->sign == '*';
		lc_unexpected(parser, "a value", err);
		return power ? lk_hint(err, "a power is written a^b") : LK_ERR_INPUT;
	}
	bool called = parser->tokens.at[parser->at + 1].kind == LC_SIGN &&
	              parser->tokens.at[parser->at + 1].sign == '(';
	if (called && lc_is_call(token)) return call_next(parser, id, err);
	if (called && expression_composed(token))
		return composed_next(parser, expression_composed(token), id, err);
	LK_TRY(lc_indexed(parser, "a value", &name, err));
	if (called && strcmp(name, "size") == 0) return expression_size_of(parser, token, id, err);
	if (called && strcmp(name, "grad") == 0) return expression_gradient(parser, token, id, err);
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
	LK_ASSERT(parser->depth > 0);
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
	/* NAME <- inside an expression: the next statement begins with the state's name, so the arrow
	 * is misplaced. */
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
