/* emit_expression.c: pointwise values as expressions of C. */
#include "lang/emit/emit_internal.h"

#include <string.h>

enum { COMPARED = 1, ADDED, MULTIPLIED, SIGNED, ATOM }; /* how tightly an operation binds */

static const lc_node *node(const lc_text *t, int id) { return &t->p->nodes.at[id]; }

bool lc_is_pointwise(const lc_node *n) {
	lc_family family = lc_ops[n->op].family;
	return family == LC_MAP || family == LC_DROP || n->op == LC_SLICE || n->op == LC_CONST || n->op == LC_SIZE ||
	       n->op == LC_SCALAR;
}

static bool compares(int op) { return op >= LC_LT && op <= LC_NE; }
static bool whole(lc_dtype t) { return lc_is_integer(t) && t != LC_WEAK_INT; }

/* The format in which an operation's operands meet. */
static lc_dtype meeting(const lc_text *t, const lc_node *n) {
	if (!compares(n->op)) return (lc_dtype)n->dtype;
	lc_dtype a = (lc_dtype)node(t, n->in[0])->dtype, b = (lc_dtype)node(t, n->in[1])->dtype;
	return lc_is_weak(a) ? b : a;
}

/* C's operator, or NULL where the runtime has a function: whole numbers wrap, and their divisor may be zero. */
static const char *operator(const lc_node *n, lc_dtype in, int *tight) {
	*tight = compares(n->op) ? COMPARED : n->op == LC_ADD || n->op == LC_SUB ? ADDED : MULTIPLIED;
	bool plain = n->op == LC_ADD || n->op == LC_SUB || n->op == LC_MUL || n->op == LC_DIV;
	return compares(n->op) || (plain && !whole(in)) ? lc_ops[n->op].name : NULL;
}

static void put(const lc_text *t, int id, lc_dtype wanted, int tight);

static const char *suffix(lc_dtype t) {
	return t == LC_F64 || lc_is_weak(t) ? "" : t == LC_U64 ? "u" : whole(t) ? "l" : "f";
}

static const char *function(int op) {
	static const char *const names[LC_OP_COUNT] = {
		[LC_ADD] = "add", [LC_SUB] = "sub", [LC_MUL] = "mul", [LC_NEG] = "neg", [LC_DIV] = "quotient", [LC_POW] = "pow", [LC_MIN] = "min", [LC_MAX] = "max", [LC_SQRT] = "sqrt", [LC_EXP] = "exp",
		[LC_LOG] = "log", [LC_TANH] = "tanh", [LC_ERF] = "erf", [LC_RELU] = "relu", [LC_GELU] = "gelu",
		[LC_SIGMOID] = "sigmoid", [LC_ABS] = "abs",
	};
	return names[op];
}

static bool is_two(const lc_text *t, int id) { return node(t, id)->op == LC_CONST && node(t, id)->number == 2; }

static void put_call(const lc_text *t, const lc_node *n, lc_dtype in) {
	bool square = n->op == LC_POW && is_two(t, n->in[1]);
	bool wraps = whole(in) && in != LC_I64 && in != LC_U64 && n->op != LC_MIN && n->op != LC_MAX;
	if (wraps) fprintf(t->out, "(%s)", lc_memory_type(in));
	fprintf(t->out, "rt_%s%s(", square ? "square" : function(n->op), suffix(in));
	for (int i = 0; i < (square ? 1 : n->inputs); i++) {
		if (i) fputs(", ", t->out);
		put(t, n->in[i], in, COMPARED);
	}
	fputc(')', t->out);
}

static bool same_register(lc_dtype a, lc_dtype b) { return strcmp(lc_register_type(a), lc_register_type(b)) == 0; }

/* Formats narrower than f32 are rounded when a cast takes them up, and when it makes them. */
static void put_cast(const lc_text *t, const lc_node *n, bool stored) {
	lc_dtype to = (lc_dtype)n->dtype, from = (lc_dtype)node(t, n->in[0])->dtype;
	bool rounds = lc_is_narrow(to) && to != from && !stored, takes = lc_is_narrow(from) && to != from && !t->rounded(t->context, n->in[0]);
	int closing = 0;
	if (rounds) closing += fprintf(t->out, "rt_round_%s(", lc_dtype_name(to)) > 0;
	if (to == LC_BOOL && from != LC_BOOL) closing += fputs("rt_truth(", t->out) >= 0;
	else if (whole(to) && lc_is_real(from)) closing += fprintf(t->out, "rt_to_%s(", lc_dtype_name(to)) > 0;
	else if (whole(to)) closing += fprintf(t->out, "(%s)(", lc_memory_type(to)) > 0;
	else if (lc_is_narrow(to) && !same_register(to, from) && !whole(from) && from != LC_BOOL) closing += fputs("rt_odd(", t->out) >= 0;
	else if (!same_register(to, from)) closing += fprintf(t->out, "(%s)(", lc_register_type(to)) > 0;
	if (takes) closing += fprintf(t->out, "rt_round_%s(", lc_dtype_name(from)) > 0;
	put(t, n->in[0], from, closing || stored ? COMPARED : ATOM);
	while (closing-- > 0) fputc(')', t->out);
}

static void put_dropout(const lc_text *t, int id) {
	const lc_node *n = node(t, id);
	fprintf(t->out, "rt_dropout%s(", suffix((lc_dtype)n->dtype));
	put(t, n->in[0], (lc_dtype)n->dtype, COMPARED);
	fputs(", ", t->out);
	lc_put_number(n->number, LC_F64, t->out);
	fprintf(t->out, ", UINT64_C(%llu), ", (unsigned long long)n->key);
	t->place(t->context, id, t->view, t->out);
	fputc(')', t->out);
}

static void put_select(const lc_text *t, const lc_node *n) {
	put(t, n->in[0], LC_BOOL, ADDED);
	fputs(" ? ", t->out);
	put(t, n->in[1], (lc_dtype)n->dtype, ADDED);
	fputs(" : ", t->out);
	put(t, n->in[2], (lc_dtype)n->dtype, ADDED);
}

static int binding(const lc_text *t, int id) {
	const lc_node *n = node(t, id);
	int tight;
	if (n->op == LC_SELECT) return 0;
	if (n->op == LC_NEG) return whole((lc_dtype)n->dtype) ? ATOM : SIGNED;
	if (n->op == LC_COPY || n->op == LC_SLICE || lc_ops[n->op].family != LC_MAP) return ATOM;
	return operator(n, meeting(t, n), &tight) ? tight : ATOM;
}

static void put_binary(const lc_text *t, const lc_node *n, const char *sign, int tight, lc_dtype in) {
	put(t, n->in[0], in, tight == COMPARED ? ADDED : tight);
	fprintf(t->out, tight == MULTIPLIED ? "%s" : " %s ", sign);
	put(t, n->in[1], in, tight + 1);
}

/* A slice of what lies in no memory: all that it is made of is read through the slice. */
static void put_slice(const lc_text *t, int id) {
	lc_text through = *t;
	if (through.view < 0) through.view = id;
	put(&through, node(t, id)->in[0], (lc_dtype)node(t, id)->dtype, ATOM);
}

void lc_put_operation(const lc_text *t, int id, bool stored) {
	const lc_node *n = node(t, id);
	lc_dtype in = meeting(t, n);
	int tight;
	switch (n->op) {
	case LC_CONST: lc_put_number(n->number, LC_F64, t->out); return;
	case LC_COPY: put(t, n->in[0], in, ATOM); return;
	case LC_SLICE: put_slice(t, id); return;
	case LC_CAST: put_cast(t, n, stored); return;
	case LC_DROPOUT: put_dropout(t, id); return;
	case LC_SELECT: put_select(t, n); return;
	case LC_NEG:
		if (whole(in)) break;
		fputc('-', t->out);
		put(t, n->in[0], in, ATOM);
		return;
	default: break;
	}
	const char *sign = operator(n, in, &tight);
	if (sign) put_binary(t, n, sign, tight, in);
	else put_call(t, n, in);
}

/* A weak number becomes the format of what it meets. */
static void put(const lc_text *t, int id, lc_dtype wanted, int tight) {
	const lc_node *n = node(t, id);
	bool turns = lc_is_weak((lc_dtype)n->dtype) && !lc_is_weak(wanted) && wanted != LC_F64;
	if (n->op == LC_CONST) {
		lc_put_number(n->number, wanted, t->out);
		return;
	}
	if (turns) fprintf(t->out, "(%s)(", lc_register_type(wanted));
	bool wrapped = false;
	if (!t->leaf(t->context, id, t->view, t->out)) {
		wrapped = !turns && binding(t, id) < tight;
		if (wrapped) fputc('(', t->out);
		lc_put_operation(t, id, false);
		if (wrapped) fputc(')', t->out);
	}
	if (turns) fputc(')', t->out);
}

void lc_put_value(const lc_text *t, int id, lc_dtype wanted) { put(t, id, wanted, COMPARED); }
