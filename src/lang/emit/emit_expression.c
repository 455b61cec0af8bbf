/* emit_expression.c: pointwise values as expressions of C. */
#include "lang/emit/emit_internal.h"

#include <string.h>

enum {
	COMPARED = 1,
	ADDED,
	MULTIPLIED,
	SIGNED,
	ATOM
}; /* how tightly an operation binds */

static const lc_node *node(const lc_text *text, int id) {
	return &text->p->nodes.at[id];
}

bool lc_is_pointwise(const lc_node *node) {
	lc_family family = lc_ops[node->op].family;
	return family == LC_MAP || family == LC_DROP || node->op == LC_SLICE || node->op == LC_CONST ||
	       node->op == LC_SIZE || node->op == LC_SCALAR;
}

static bool compares(int op) {
	return op >= LC_LT && op <= LC_NE;
}
static bool whole(lc_dtype t) {
	return lc_is_integer(t) && t != LC_WEAK_INT;
}

/* The format in which an operation's operands meet. */
static lc_dtype meeting(const lc_text *text, const lc_node *value) {
	if (!compares(value->op)) return (lc_dtype)value->dtype;
	lc_dtype a = (lc_dtype)node(text, value->in[0])->dtype,
			 b = (lc_dtype)node(text, value->in[1])->dtype;
	return lc_is_weak(a) ? b : a;
}

/* C's operator, or NULL where the runtime has a function: whole numbers wrap, and their divisor may
 * be zero. */
static const char *operator(const lc_node *node, lc_dtype in, int *tight) {
	*tight = compares(node->op)                         ? COMPARED
	         : node->op == LC_ADD || node->op == LC_SUB ? ADDED
	                                                    : MULTIPLIED;
	bool plain =
		node->op == LC_ADD || node->op == LC_SUB || node->op == LC_MUL || node->op == LC_DIV;
	return compares(node->op) || (plain && !whole(in)) ? lc_ops[node->op].name : NULL;
}

static void put(const lc_text *text, int id, lc_dtype wanted, int tight);

static const char *suffix(lc_dtype t) {
	return t == LC_F64 || lc_is_weak(t) ? "" : t == LC_U64 ? "u" : whole(t) ? "l" : "f";
}

static const char *function(int op) {
	static const char *const names[LC_OP_COUNT] = {
		[LC_ADD] = "add",      [LC_SUB] = "sub",   [LC_MUL] = "mul",   [LC_NEG] = "neg",
		[LC_DIV] = "quotient", [LC_POW] = "pow",   [LC_MIN] = "min",   [LC_MAX] = "max",
		[LC_SQRT] = "sqrt",    [LC_EXP] = "exp",   [LC_LOG] = "log",   [LC_TANH] = "tanh",
		[LC_ERF] = "erf",      [LC_RELU] = "relu", [LC_GELU] = "gelu", [LC_SIGMOID] = "sigmoid",
		[LC_ABS] = "abs",
	};
	return names[op];
}

static bool is_two(const lc_text *text, int id) {
	return node(text, id)->op == LC_CONST && node(text, id)->number == 2;
}

static void put_call(const lc_text *text, const lc_node *node, lc_dtype in) {
	bool square = node->op == LC_POW && is_two(text, node->in[1]);
	bool wraps =
		whole(in) && in != LC_I64 && in != LC_U64 && node->op != LC_MIN && node->op != LC_MAX;
	if (wraps) fprintf(text->out, "(%s)", lc_memory_type(in));
	fprintf(text->out, "rt_%s%s(", square ? "square" : function(node->op), suffix(in));
	for (int i = 0; i < (square ? 1 : node->inputs); i++) {
		if (i) fputs(", ", text->out);
		put(text, node->in[i], in, COMPARED);
	}
	fputc(')', text->out);
}

static bool same_register(lc_dtype a, lc_dtype b) {
	return strcmp(lc_register_type(a), lc_register_type(b)) == 0;
}

/* Formats narrower than f32 are rounded when a cast takes them up, and when it makes them. */
static void put_cast(const lc_text *text, const lc_node *value, bool stored) {
	lc_dtype to = (lc_dtype)value->dtype, from = (lc_dtype)node(text, value->in[0])->dtype;
	bool rounds = lc_is_narrow(to) && to != from && !stored,
		 takes = lc_is_narrow(from) && to != from && !text->rounded(text->context, value->in[0]);
	int closing = 0;
	if (rounds) closing += fprintf(text->out, "rt_round_%s(", lc_dtype_name(to)) > 0;
	if (to == LC_BOOL && from != LC_BOOL) closing += fputs("rt_truth(", text->out) >= 0;
	else if (whole(to) && lc_is_real(from))
		closing += fprintf(text->out, "rt_to_%s(", lc_dtype_name(to)) > 0;
	else if (whole(to)) closing += fprintf(text->out, "(%s)(", lc_memory_type(to)) > 0;
	else if (lc_is_narrow(to) && !same_register(to, from) && !whole(from) && from != LC_BOOL)
		closing += fputs("rt_odd(", text->out) >= 0;
	else if (!same_register(to, from))
		closing += fprintf(text->out, "(%s)(", lc_register_type(to)) > 0;
	if (takes) closing += fprintf(text->out, "rt_round_%s(", lc_dtype_name(from)) > 0;
	put(text, value->in[0], from, closing || stored ? COMPARED : ATOM);
	while (closing-- > 0) fputc(')', text->out);
}

static void put_dropout(const lc_text *text, int id) {
	const lc_node *value = node(text, id);
	fprintf(text->out, "rt_dropout%s(", suffix((lc_dtype)value->dtype));
	put(text, value->in[0], (lc_dtype)value->dtype, COMPARED);
	fputs(", ", text->out);
	lc_put_number(value->number, LC_F64, text->out);
	fprintf(text->out, ", UINT64_C(%llu), ", (unsigned long long)value->key);
	text->place(text->context, id, text->view, text->out);
	fputc(')', text->out);
}

static void put_select(const lc_text *text, const lc_node *node) {
	put(text, node->in[0], LC_BOOL, ADDED);
	fputs(" ? ", text->out);
	put(text, node->in[1], (lc_dtype)node->dtype, ADDED);
	fputs(" : ", text->out);
	put(text, node->in[2], (lc_dtype)node->dtype, ADDED);
}

static int binding(const lc_text *text, int id) {
	const lc_node *value = node(text, id);
	int tight;
	if (value->op == LC_SELECT) return 0;
	if (value->op == LC_NEG) return whole((lc_dtype)value->dtype) ? ATOM : SIGNED;
	if (value->op == LC_COPY || value->op == LC_SLICE || lc_ops[value->op].family != LC_MAP)
		return ATOM;
	return operator(value, meeting(text, value), &tight) ? tight : ATOM;
}

static void put_binary(const lc_text *text, const lc_node *node, const char *sign, int tight,
                       lc_dtype in) {
	put(text, node->in[0], in, tight == COMPARED ? ADDED : tight);
	fprintf(text->out, tight == MULTIPLIED ? "%s" : " %s ", sign);
	put(text, node->in[1], in, tight + 1);
}

/* A slice of what lies in no memory: all that it is made of is read through the slice. */
static void put_slice(const lc_text *text, int id) {
	lc_text through = *text;
	if (through.view < 0) through.view = id;
	put(&through, node(text, id)->in[0], (lc_dtype)node(text, id)->dtype, ATOM);
}

void lc_put_operation(const lc_text *text, int id, bool stored) {
	const lc_node *value = node(text, id);
	lc_dtype in = meeting(text, value);
	int tight;
	switch (value->op) {
	case LC_CONST: lc_put_number(value->number, LC_F64, text->out); return;
	case LC_COPY: put(text, value->in[0], in, ATOM); return;
	case LC_SLICE: put_slice(text, id); return;
	case LC_CAST: put_cast(text, value, stored); return;
	case LC_DROPOUT: put_dropout(text, id); return;
	case LC_SELECT: put_select(text, value); return;
	case LC_NEG:
		if (whole(in)) break;
		fputc('-', text->out);
		put(text, value->in[0], in, ATOM);
		return;
	default: break;
	}
	const char *sign = operator(value, in, &tight);
	if (sign) put_binary(text, value, sign, tight, in);
	else put_call(text, value, in);
}

/* A weak number becomes the format of what it meets. */
static void put(const lc_text *text, int id, lc_dtype wanted, int tight) {
	const lc_node *value = node(text, id);
	bool turns = lc_is_weak((lc_dtype)value->dtype) && !lc_is_weak(wanted) && wanted != LC_F64;
	if (value->op == LC_CONST) {
		lc_put_number(value->number, wanted, text->out);
		return;
	}
	if (turns) fprintf(text->out, "(%s)(", lc_register_type(wanted));
	bool wrapped = false;
	if (!text->leaf(text->context, id, text->view, text->out)) {
		wrapped = !turns && binding(text, id) < tight;
		if (wrapped) fputc('(', text->out);
		lc_put_operation(text, id, false);
		if (wrapped) fputc(')', text->out);
	}
	if (turns) fputc(')', text->out);
}

void lc_put_value(const lc_text *text, int id, lc_dtype wanted) {
	put(text, id, wanted, COMPARED);
}
