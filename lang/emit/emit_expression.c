/* emit_expression.c: pointwise values as expressions of C. */
#include "lang/emit/emit_internal.h"
#include "base/check.h"

#include <string.h>

enum { COMPARED = 1, ADDED, MULTIPLIED, SIGNED, ATOM }; /* how tightly an operation binds */

bool lc_is_expression(const lc_node *node) {
	lc_family family = lc_ops[node->op].family;
	return family == LC_MAP || family == LC_DROP || node->op == LC_SLICE || node->op == LC_CONST ||
	       node->op == LC_SIZE || node->op == LC_SCALAR;
}

static bool expression_whole(lc_dtype t) {
	return lc_is_integer(t) && t != LC_WEAK_INT;
}

/* The common format of an operation's operands. */
static lc_dtype meeting(const lc_text *text, const lc_node *value) {
	if (!lc_compares(value->op)) return (lc_dtype)value->dtype;
	lc_dtype a = (lc_dtype)lc_node_at(text->p, value->in[0])->dtype,
			 b = (lc_dtype)lc_node_at(text->p, value->in[1])->dtype;
	return lc_is_weak(a) ? b : a;
}

/* C's operator, or NULL if the runtime has a function: integers wrap, and their divisor may be
 * zero. */
static const char *operator(const lc_node *node, lc_dtype in, int *tight) {
	if (lc_compares(node->op)) *tight = COMPARED;
	else if (node->op == LC_ADD || node->op == LC_SUB) *tight = ADDED;
	else *tight = MULTIPLIED;
	bool plain =
		node->op == LC_ADD || node->op == LC_SUB || node->op == LC_MUL || node->op == LC_DIV;
	return lc_compares(node->op) || (plain && !expression_whole(in)) ? lc_ops[node->op].name : NULL;
}

static void expression_put(const lc_text *text, int id, lc_dtype wanted, int tight);

static const char *expression_suffix(lc_dtype t) {
	if (t == LC_F64 || lc_is_weak(t)) return "";
	if (t == LC_U64) return "u";
	if (expression_whole(t)) return "l";
	return "f";
}

static const char *expression_function(int op) {
	static const char *const names[LC_OP_COUNT] = {
		[LC_ADD] = "add",      [LC_SUB] = "sub",   [LC_MUL] = "mul",   [LC_NEG] = "neg",
		[LC_DIV] = "quotient", [LC_POW] = "pow",   [LC_MIN] = "min",   [LC_MAX] = "max",
		[LC_SQRT] = "sqrt",    [LC_EXP] = "exp",   [LC_LOG] = "log",   [LC_TANH] = "tanh",
		[LC_ERF] = "erf",      [LC_RELU] = "relu", [LC_GELU] = "gelu", [LC_SIGMOID] = "sigmoid",
		[LC_ABS] = "abs",      [LC_SIN] = "sin",   [LC_COS] = "cos",   [LC_EXP2] = "exp2",
		[LC_ROUND] = "round",
	};
	return names[op];
}

static bool is_two(const lc_text *text, int id) {
	return lc_node_at(text->p, id)->op == LC_CONST && lc_node_at(text->p, id)->number == 2;
}

static void expression_put_call(const lc_text *text, const lc_node *node, lc_dtype in) {
	bool square = node->op == LC_POW && is_two(text, node->in[1]);
	bool wraps = expression_whole(in) && in != LC_I64 && in != LC_U64 && node->op != LC_MIN &&
	             node->op != LC_MAX;
	if (wraps) fprintf(text->out, "(%s)", lc_memory_type(in));
	fprintf(text->out, "rt_%s%s(", square ? "square" : expression_function(node->op),
	        expression_suffix(in));
	for (int i = 0; i < (square ? 1 : node->inputs); i++) {
		if (i) fputs(", ", text->out);
		expression_put(text, node->in[i], in, COMPARED);
	}
	fputc(')', text->out);
}

static bool same_register(lc_dtype a, lc_dtype b) {
	return strcmp(lc_register_type(a), lc_register_type(b)) == 0;
}

/* Formats narrower than f32 are rounded before and after a cast. */
static void put_cast(const lc_text *text, const lc_node *value, bool stored) {
	lc_dtype to = (lc_dtype)value->dtype, from = (lc_dtype)lc_node_at(text->p, value->in[0])->dtype;
	bool rounds = lc_is_narrow(to) && to != from && !stored,
		 takes = lc_is_narrow(from) && to != from && !text->rounded(text->context, value->in[0]);
	int closing = 0;
	if (rounds) closing += fprintf(text->out, "rt_round_%s(", lc_dtype_name(to)) > 0;
	if (to == LC_BOOL && from != LC_BOOL) closing += fputs("rt_truth(", text->out) >= 0;
	else if (expression_whole(to) && lc_is_real(from))
		closing += fprintf(text->out, "rt_to_%s(", lc_dtype_name(to)) > 0;
	else if (expression_whole(to)) closing += fprintf(text->out, "(%s)(", lc_memory_type(to)) > 0;
	else if (lc_is_narrow(to) && !same_register(to, from) && !expression_whole(from) &&
	         from != LC_BOOL)
		closing += fputs("rt_odd(", text->out) >= 0;
	else if (!same_register(to, from))
		closing += fprintf(text->out, "(%s)(", lc_register_type(to)) > 0;
	if (takes) closing += fprintf(text->out, "rt_round_%s(", lc_dtype_name(from)) > 0;
	expression_put(text, value->in[0], from, closing || stored ? COMPARED : ATOM);
	while (closing-- > 0) fputc(')', text->out);
}

static void put_dropout(const lc_text *text, int id) {
	LK_ASSERT(id >= 0 && (size_t)id < text->p->nodes.count);
	const lc_node *value = lc_node_at(text->p, id);
	fprintf(text->out, "rt_dropout%s(", expression_suffix((lc_dtype)value->dtype));
	expression_put(text, value->in[0], (lc_dtype)value->dtype, COMPARED);
	fputs(", ", text->out);
	lc_put_number(value->number, LC_F64, text->out);
	fprintf(text->out, ", UINT64_C(%llu), ", (unsigned long long)value->key);
	text->place(text->context, id, text->view, text->out);
	fputc(')', text->out);
}

static void put_select(const lc_text *text, const lc_node *node) {
	expression_put(text, node->in[0], LC_BOOL, ADDED);
	fputs(" ? ", text->out);
	expression_put(text, node->in[1], (lc_dtype)node->dtype, ADDED);
	fputs(" : ", text->out);
	expression_put(text, node->in[2], (lc_dtype)node->dtype, ADDED);
}

static int expression_binding(const lc_text *text, int id) {
	LK_ASSERT(id >= 0 && (size_t)id < text->p->nodes.count);
	const lc_node *value = lc_node_at(text->p, id);
	int tight;
	if (value->op == LC_SELECT) return 0;
	if (value->op == LC_NEG) return expression_whole((lc_dtype)value->dtype) ? ATOM : SIGNED;
	if (value->op == LC_COPY || value->op == LC_SLICE || lc_ops[value->op].family != LC_MAP)
		return ATOM;
	return operator(value, meeting(text, value), &tight) ? tight : ATOM;
}

/* If one number divides all elements, they are multiplied by its reciprocal, which compilers move
 * out of the loop. A division costs as much as ten products. run_bound.c accounts for the second
 * rounding. */
static void put_quotient(const lc_text *text, const lc_node *node, lc_dtype in) {
	expression_put(text, node->in[0], in, MULTIPLIED);
	fputs(in == LC_F64 ? "*(1.0/" : "*(1.0f/", text->out);
	expression_put(text, node->in[1], in, ATOM);
	fputc(')', text->out);
}

static void put_binary(const lc_text *text, const lc_node *node, const char *sign, int tight,
                       lc_dtype in) {
	if (lc_divides_all(text->p, node)) {
		put_quotient(text, node, in);
		return;
	}
	expression_put(text, node->in[0], in, tight == COMPARED ? ADDED : tight);
	fprintf(text->out, tight == MULTIPLIED ? "%s" : " %s ", sign);
	expression_put(text, node->in[1], in, tight + 1);
}

/* A slice of a value without memory: all its operands are read through the slice. */
static void expression_put_slice(const lc_text *text, int id) {
	LK_ASSERT(id >= 0 && (size_t)id < text->p->nodes.count);
	lc_text through = *text;
	if (through.view < 0) through.view = id;
	expression_put(&through, lc_node_at(text->p, id)->in[0],
	               (lc_dtype)lc_node_at(text->p, id)->dtype, ATOM);
}

void lc_put_operation(const lc_text *text, int id, bool stored) {
	LK_ASSERT(id >= 0 && (size_t)id < text->p->nodes.count);
	const lc_node *value = lc_node_at(text->p, id);
	lc_dtype in = meeting(text, value);
	int tight;
	switch (value->op) {
	case LC_CONST: lc_put_number(value->number, LC_F64, text->out); return;
	case LC_COPY: expression_put(text, value->in[0], in, ATOM); return;
	case LC_SLICE: expression_put_slice(text, id); return;
	case LC_CAST: put_cast(text, value, stored); return;
	case LC_DROPOUT: put_dropout(text, id); return;
	case LC_SELECT: put_select(text, value); return;
	case LC_NEG:
		if (expression_whole(in)) break;
		fputc('-', text->out);
		expression_put(text, value->in[0], in, ATOM);
		return;
	default: break;
	}
	const char *sign = operator(value, in, &tight);
	if (sign) put_binary(text, value, sign, tight, in);
	else expression_put_call(text, value, in);
}

/* A weak number takes the format of the other operand. */
static void expression_put(const lc_text *text, int id, lc_dtype wanted, int tight) {
	LK_ASSERT(id >= 0 && (size_t)id < text->p->nodes.count);
	const lc_node *value = lc_node_at(text->p, id);
	bool turns = lc_is_weak((lc_dtype)value->dtype) && !lc_is_weak(wanted) && wanted != LC_F64;
	if (value->op == LC_CONST) {
		lc_put_number(value->number, wanted, text->out);
		return;
	}
	if (turns) fprintf(text->out, "(%s)(", lc_register_type(wanted));
	bool wrapped = false;
	if (!text->leaf(text->context, id, text->view, text->out)) {
		wrapped = !turns && expression_binding(text, id) < tight;
		if (wrapped) fputc('(', text->out);
		lc_put_operation(text, id, false);
		if (wrapped) fputc(')', text->out);
	}
	if (turns) fputc(')', text->out);
}

void lc_put_value(const lc_text *text, int id, lc_dtype wanted) {
	expression_put(text, id, wanted, COMPARED);
}
