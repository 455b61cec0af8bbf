/* gradient.c: the gradient of one number with respect to a value, as values of the same program.
 *
 * The adjoint of a value is the gradient of the loss with respect to it: the sum of contributions
 * of its users' adjoints; each rule below is linear in the adjoint of the user. Adjoints are
 * computed on demand: only values between the loss and the requested value get one, and those of
 * one loss are shared by all requests.
 *
 * Layouts follow from the type rules and from the required layout of an adjoint: for a sliced value
 * it is sliced alike, for a partial one whole (each part is added to the sum as it is), for a whole
 * one whole or partial, where each rank knows the contribution of its own slice. So the gradient of
 * an all-gather is a reduce-scatter or a slice, of a reduce-scatter an all-gather, of an all-reduce
 * nothing or an all-reduce.
 *
 * The adjoint of a local value is local: the gradient of the sum of all ranks' losses with respect
 * to this rank's tensor. If a whole value was used locally, such adjoints are the parts of its
 * gradient. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "lang/types/program.h"

enum { NO_ADJOINT = -1 };

struct gradient {
	lc_asker ask;
	int loss;
	int *adjoint; /* [values up to the loss] */
};

/* ---- sizes ---- */

/* A number of elements as a value. */
static lk_status extent(const struct gradient *g, lc_dim dim, int *out) {
	int sum = -1;
	for (int i = 0; i < g->ask.p->dims.at[dim].count; i++) {
		const lc_term term = g->ask.p->dims.at[dim].terms[i];
		int product;
		LK_TRY(lc_ask_number(&g->ask, (double)llabs(term.number), &product));
		if (term.number < 0) LK_TRY(lc_ask_unary(&g->ask, LC_NEG, product, &product));
		for (int s = 0; s < LC_SYMBOLS; s++) {
			lc_node size = lc_ask_draft(&g->ask, LC_SIZE);
			int symbol = -1;
			size.axis = (int8_t)(s < LC_AXES ? s : -1);
			size.symbol = s < LC_AXES ? -1 : s - LC_AXES;
			if (term.power[s]) LK_TRY(lc_add(g->ask.p, &size, &symbol, g->ask.err));
			for (int k = 0; k < term.power[s]; k++)
				LK_TRY(lc_ask_binary(&g->ask, LC_MUL, product, symbol, &product));
			for (int k = 0; k < -term.power[s]; k++)
				LK_TRY(lc_ask_binary(&g->ask, LC_DIV, product, symbol, &product));
		}
		if (term.divisor != 1)
			LK_TRY(lc_ask_with_number(&g->ask, LC_DIV, product, (double)term.divisor, &product));
		if (sum >= 0) LK_TRY(lc_ask_binary(&g->ask, LC_ADD, sum, product, &sum));
		else sum = product;
	}
	*out = sum;
	return LK_OK;
}

/* ---- layouts ---- */

static lk_status collect(const struct gradient *g, lc_op op, int axis, lc_reduce reduce, int d,
                         int e, int *id) {
	lc_node draft = lc_ask_draft(&g->ask, op);
	draft.in[0] = *id;
	draft.axis = (int8_t)axis;
	draft.reduce = (uint8_t)reduce;
	draft.d = (int8_t)d;
	draft.e = (int8_t)e;
	return lc_add(g->ask.p, &draft, id, g->ask.err);
}

/* Whole on every rank. */
static lk_status whole(const struct gradient *g, int *id) {
	for (int axis = 0; axis < g->ask.p->axis_count; axis++) {
		const lc_layout layout = lc_node_at(g->ask.p, *id)->layout[axis];
		if (layout.kind == LC_P)
			LK_TRY(collect(g, LC_ALLREDUCE, axis, (lc_reduce)layout.reduce, 0, 0, id));
	}
	return LK_OK;
}

/* Turn slices, so that they are on the same ranks. */
static lk_status turn_by(const struct gradient *g, int axis, int shift, int *id) {
	lc_node draft = lc_ask_draft(&g->ask, LC_PERMUTE);
	if (shift == 0) return LK_OK;
	draft.in[0] = *id;
	draft.axis = (int8_t)axis;
	draft.shift = shift;
	return lc_add(g->ask.p, &draft, id, g->ask.err);
}

/* As the adjoint of such a value has to lie over an axis. */
static lk_status fit_axis(const struct gradient *g, const lc_node *value, int axis, int *id) {
	const lc_layout want = value->layout[axis];
	if (lc_node_at(g->ask.p, *id)->layout[axis].kind == LC_ROOT && want.kind != LC_ROOT)
		LK_TRY(collect(g, LC_BROADCAST, axis, LC_SUM, 0, 0, id));
	const lc_layout have = lc_node_at(g->ask.p, *id)->layout[axis];
	switch (want.kind) {
	case LC_S:
		if (have.kind == LC_R) LK_TRY(collect(g, LC_SLICE, axis, LC_SUM, want.dim, 0, id));
		if (have.kind == LC_P) LK_TRY(collect(g, LC_REDUCESCATTER, axis, LC_SUM, want.dim, 0, id));
		if (have.kind == LC_S && have.dim != want.dim)
			LK_TRY(collect(g, LC_ALLTOALL, axis, LC_SUM, have.dim, want.dim, id));
		return turn_by(g, axis, want.turn - lc_node_at(g->ask.p, *id)->layout[axis].turn, id);
	case LC_P:
		if (have.kind == LC_P) return collect(g, LC_ALLREDUCE, axis, LC_SUM, 0, 0, id);
		/* fall through */
	case LC_R:
		if (have.kind == LC_S) return collect(g, LC_ALLGATHER, axis, LC_SUM, have.dim, 0, id);
		if (have.kind == LC_L) return collect(g, LC_PARTIAL, axis, LC_SUM, 0, 0, id);
		return LK_OK;
	case LC_L:
		if (have.kind == LC_P) LK_TRY(collect(g, LC_ALLREDUCE, axis, LC_SUM, 0, 0, id));
		if (have.kind != LC_L) return collect(g, LC_LOCAL, axis, LC_SUM, 0, 0, id);
		return LK_OK;
	case LC_ROOT: /* where it is whole, the root has it, too */
		if (have.kind == LC_P) return collect(g, LC_ALLREDUCE, axis, LC_SUM, 0, 0, id);
		if (have.kind == LC_S) return collect(g, LC_ALLGATHER, axis, LC_SUM, have.dim, 0, id);
		return LK_OK;
	default: return LK_OK;
	}
}

static lk_status fit(const struct gradient *g, int value, int *id) {
	for (int axis = 0; axis < g->ask.p->axis_count; axis++) {
		const lc_node node = *lc_node_at(g->ask.p, value);
		LK_TRY(fit_axis(g, &node, axis, id));
	}
	return LK_OK;
}

/* a + b of one shape; what is partial is added up where the other is whole. */
static lk_status add_up(const struct gradient *g, int a, int b, int *out) {
	int id[2] = {a, b};
	for (int axis = 0; axis < g->ask.p->axis_count; axis++)
		for (int i = 0; i < 2; i++) {
			int own = lc_node_at(g->ask.p, id[i])->layout[axis].kind,
				other = lc_node_at(g->ask.p, id[1 - i])->layout[axis].kind;
			if (own == LC_P && other != LC_P)
				LK_TRY(collect(g, LC_ALLREDUCE, axis, LC_SUM, 0, 0, &id[i]));
		}
	return lc_ask_binary(&g->ask, LC_ADD, id[0], id[1], out);
}

/* ---- shapes ---- */

/* Summed over what was repeated of operand k. */
static lk_status unrepeated(const struct gradient *g, int like, int *id) {
	const lc_node *x = lc_node_at(g->ask.p, like), *y = lc_node_at(g->ask.p, *id);
	unsigned ahead = 0, ones = 0;
	int more = y->rank - x->rank;
	for (int d = 0; d < more; d++) ahead |= 1u << d;
	for (int d = 0; d < x->rank; d++)
		if (x->dim[d] == 0 && y->dim[d + more] != 0) ones |= 1u << d;
	LK_TRY(lc_ask_reduced(&g->ask, LC_RED_SUM, *id, ahead, false, id));
	return lc_ask_reduced(&g->ask, LC_RED_SUM, *id, ones, true, id);
}

/* Repeat a reduction's result for each element of x. */
static lk_status repeated(const struct gradient *g, const lc_node *reduction, int *id) {
	const lc_node x = *lc_in(g->ask.p, reduction, 0);
	if (reduction->keep)
		LK_TRY(lc_ask_reduced(&g->ask, LC_RED_SUM, *id, reduction->dims, false, id));
	for (int d = 0; d < x.rank; d++)
		if (reduction->dims >> d & 1)
			LK_TRY(lc_ask_view(&g->ask, LC_SPREAD, *id, d, 0, x.dim[d], id));
	return LK_OK;
}

/* ---- rules: of operand k of value u, whose adjoint is `a` ---- */

static lk_status grad_refuse(const struct gradient *g, const lc_node *node) {
	char x[LC_SHOWN];
	lc_wrong(g->ask.p, g->ask.asked->line, g->ask.asked->column, g->ask.err,
	         "%s has no gradient rule", lc_ops[node->op].name);
	return lk_hint(g->ask.err,
	               "%s is between the loss and what it is differentiated by; write that part of "
	               "the backward pass yourself",
	               node->name
	                   ? node->name
	                   : lc_value_text(g->ask.p, (int)(node - g->ask.p->nodes.at), x, sizeof x));
}

/* The derivative of a function of one operand, at x with the result u. */
static lk_status slope(const struct gradient *g, const lc_node *node, int x, int u, int *out) {
	lc_dtype dtype = (lc_dtype)node->dtype;
	int zero, other;
	switch (node->op) {
	case LC_SQRT: /* 1/(2 u) */
		LK_TRY(lc_ask_with_number(&g->ask, LC_MUL, u, 2, &other));
		LK_TRY(lc_ask_number(&g->ask, 1, out));
		return lc_ask_binary(&g->ask, LC_DIV, *out, other, out);
	case LC_EXP: *out = u; return LK_OK;
	case LC_EXP2: return lc_ask_with_number(&g->ask, LC_MUL, u, 0.69314718055994530942, out);
	case LC_LOG:
		LK_TRY(lc_ask_number(&g->ask, 1, out));
		return lc_ask_binary(&g->ask, LC_DIV, *out, x, out);
	case LC_TANH:    /* 1 - u^2 */
	case LC_SIGMOID: /* u (1 - u) = u - u^2 */
		LK_TRY(lc_ask_binary(&g->ask, LC_MUL, u, u, &other));
		if (node->op == LC_SIGMOID) *out = u;
		else LK_TRY(lc_ask_number(&g->ask, 1, out));
		return lc_ask_binary(&g->ask, LC_SUB, *out, other, out);
	case LC_ERF: /* 2/sqrt(pi) exp(-x^2) */
		LK_TRY(lc_ask_binary(&g->ask, LC_MUL, x, x, &other));
		LK_TRY(lc_ask_unary(&g->ask, LC_NEG, other, &other));
		LK_TRY(lc_ask_unary(&g->ask, LC_EXP, other, &other));
		return lc_ask_with_number(&g->ask, LC_MUL, other, 1.12837916709551257390, out);
	case LC_GELU: /* Phi(x) + x phi(x) */
		LK_TRY(lc_ask_binary(&g->ask, LC_MUL, x, x, &other));
		LK_TRY(lc_ask_with_number(&g->ask, LC_MUL, other, -0.5, &other));
		LK_TRY(lc_ask_unary(&g->ask, LC_EXP, other, &other));
		LK_TRY(lc_ask_with_number(&g->ask, LC_MUL, other, 0.39894228040143267794, &other));
		LK_TRY(lc_ask_binary(&g->ask, LC_MUL, x, other, &other));
		LK_TRY(lc_ask_with_number(&g->ask, LC_MUL, x, 0.70710678118654752440, out));
		LK_TRY(lc_ask_unary(&g->ask, LC_ERF, *out, out));
		LK_TRY(lc_ask_with_number(&g->ask, LC_ADD, *out, 1, out));
		LK_TRY(lc_ask_with_number(&g->ask, LC_MUL, *out, 0.5, out));
		return lc_ask_binary(&g->ask, LC_ADD, *out, other, out);
	case LC_SIN: return lc_ask_unary(&g->ask, LC_COS, x, out);
	case LC_COS:
		LK_TRY(lc_ask_unary(&g->ask, LC_SIN, x, out));
		return lc_ask_unary(&g->ask, LC_NEG, *out, out);
	case LC_RELU:
		LK_TRY(lc_ask_number(&g->ask, 0, &zero));
		return lc_ask_truth(&g->ask, LC_GT, x, zero, dtype, out);
	default: /* abs */
		LK_TRY(lc_ask_number(&g->ask, 0, &zero));
		LK_TRY(lc_ask_truth(&g->ask, LC_GT, x, zero, dtype, out));
		LK_TRY(lc_ask_truth(&g->ask, LC_LT, x, zero, dtype, &other));
		return lc_ask_binary(&g->ask, LC_SUB, *out, other, out);
	}
}

static lk_status of_power(const struct gradient *g, const lc_node *node, int u, int k, int a,
                          int *out) {
	int x = node->in[0], y = node->in[1], other;
	if (k == 1) { /* u log x */
		LK_TRY(lc_ask_unary(&g->ask, LC_LOG, x, &other));
		LK_TRY(lc_ask_binary(&g->ask, LC_MUL, u, other, &other));
		return lc_ask_binary(&g->ask, LC_MUL, a, other, out);
	}
	double number = lc_node_at(g->ask.p, y)->op == LC_CONST ? lc_node_at(g->ask.p, y)->number : 0;
	other = x; /* y x^(y-1) */
	if (number >= 1) LK_TRY(lc_ask_number(&g->ask, number - 1, &other));
	else LK_TRY(lc_ask_with_number(&g->ask, LC_SUB, y, 1, &other));
	LK_TRY(lc_ask_binary(&g->ask, LC_POW, x, other, &other));
	LK_TRY(lc_ask_binary(&g->ask, LC_MUL, y, other, &other));
	return lc_ask_binary(&g->ask, LC_MUL, a, other, out);
}

static lk_status of_map(const struct gradient *g, int u, int k, int a, int *out) {
	const lc_node node = *lc_node_at(g->ask.p, u);
	int x = node.in[0], y = node.in[1], other;
	lc_dtype dtype = (lc_dtype)node.dtype;
	*out = a;
	switch (node.op) {
	case LC_ADD:
	case LC_COPY: return LK_OK;
	case LC_SUB: return k ? lc_ask_unary(&g->ask, LC_NEG, a, out) : LK_OK;
	case LC_NEG: return lc_ask_unary(&g->ask, LC_NEG, a, out);
	case LC_MUL: return lc_ask_binary(&g->ask, LC_MUL, a, k ? x : y, out);
	case LC_DIV:
		LK_TRY(lc_ask_binary(&g->ask, LC_DIV, a, y, out));
		if (k == 0) return LK_OK;
		LK_TRY(lc_ask_binary(&g->ask, LC_MUL, *out, u, out)); /* -a u/y */
		return lc_ask_unary(&g->ask, LC_NEG, *out, out);
	case LC_POW: return of_power(g, &node, u, k, a, out);
	case LC_CAST: return lc_ask_cast(&g->ask, (lc_dtype)lc_node_at(g->ask.p, x)->dtype, a, out);
	case LC_MIN:
	case LC_MAX: { /* to the first of two that are equal */
		static const lc_op least[] = {LC_LE, LC_GT}, most[] = {LC_GE, LC_LT};
		lc_op compares = node.op == LC_MIN ? least[k] : most[k];
		LK_TRY(lc_ask_truth(&g->ask, compares, x, y, dtype, &other));
		return lc_ask_binary(&g->ask, LC_MUL, a, other, out);
	}
	case LC_SELECT: { /* 0, not a product with 0, of an adjoint that may be infinite */
		lc_node draft = lc_ask_draft(&g->ask, LC_SELECT);
		LK_TRY(lc_ask_number(&g->ask, 0, &other));
		draft.in[0] = x;
		draft.in[1] = k == 1 ? a : other;
		draft.in[2] = k == 1 ? other : a;
		return lc_add(g->ask.p, &draft, out, g->ask.err);
	}
	default:
		LK_TRY(slope(g, &node, x, u, &other));
		return lc_ask_binary(&g->ask, LC_MUL, a, other, out);
	}
}

static lk_status of_matmul(const struct gradient *g, const lc_node *node, int k, int a, int *out) {
	lc_node draft = lc_ask_draft(&g->ask, LC_MATMUL);
	bool own = k ? node->tb : node->ta, others = k ? node->ta : node->tb;
	bool first = (k == 0) != own; /* the adjoint is the left factor */
	draft.in[first ? 0 : 1] = a;
	draft.in[first ? 1 : 0] = node->in[1 - k];
	/* in the product, the operand's rows and columns come from the adjoint and the other operand */
	if (k == 0) {
		draft.ta = own && others;
		draft.tb = own || !others;
	} else {
		draft.ta = own || !others;
		draft.tb = own && others;
	}
	return lc_add(g->ask.p, &draft, out, g->ask.err);
}

static lk_status of_reduction(const struct gradient *g, int u, int a, int *out) {
	const lc_node node = *lc_node_at(g->ask.p, u);
	int x = node.in[0], other = u;
	*out = a;
	if (node.op == LC_RED_MEAN)
		for (int d = 0; d < lc_node_at(g->ask.p, x)->rank; d++) {
			if (!(node.dims >> d & 1)) continue;
			LK_TRY(extent(g, lc_node_at(g->ask.p, x)->dim[d], &other));
			LK_TRY(lc_ask_binary(&g->ask, LC_DIV, *out, other, out));
		}
	if (node.op == LC_RED_NORM) LK_TRY(lc_ask_binary(&g->ask, LC_DIV, *out, u, out));
	LK_TRY(repeated(g, &node, out));
	if (node.op == LC_RED_SUM || node.op == LC_RED_MEAN) return LK_OK;
	if (node.op == LC_RED_NORM) return lc_ask_binary(&g->ask, LC_MUL, *out, x, out);
	LK_TRY(whole(g, &other)); /* all that reach the maximum */
	LK_TRY(repeated(g, &node, &other));
	LK_TRY(fit(g, x, out));
	LK_TRY(lc_ask_truth(&g->ask, LC_EQ, x, other, (lc_dtype)node.dtype, &other));
	return lc_ask_binary(&g->ask, LC_MUL, *out, other, out);
}

static lk_status of_view(const struct gradient *g, const lc_node *node, int k, int a, int *out) {
	const lc_dim had = lc_in(g->ask.p, node, k)->dim[node->op == LC_SPREAD ? 0 : node->d];
	switch (node->op) {
	case LC_TRANSPOSE: return lc_ask_view(&g->ask, LC_TRANSPOSE, a, node->d, node->e, 0, out);
	case LC_PARTS: return lc_ask_view(&g->ask, LC_JOIN, a, node->d, 0, 0, out);
	case LC_JOIN: return lc_ask_view(&g->ask, LC_PARTS, a, node->d, 0, had, out);
	case LC_SPREAD: return lc_ask_reduced(&g->ask, LC_RED_SUM, a, 1u << node->d, false, out);
	case LC_CUMSUM: {
		lc_node draft = lc_ask_draft(&g->ask, LC_CUMSUM);
		draft.in[0] = a;
		draft.d = node->d;
		draft.reverse = !node->reverse;
		return lc_add(g->ask.p, &draft, out, g->ask.err);
	}
	case LC_FIRST_OF: return lc_ask_view(&g->ask, LC_FIRST_OF, a, node->d, 0, had, out);
	case LC_LAST_OF: return lc_ask_view(&g->ask, LC_LAST_OF, a, node->d, 0, had, out);
	default:
		return lc_ask_view(&g->ask, k ? LC_LAST_OF : LC_FIRST_OF, a, node->d, 0, had,
		                   out); /* concat */
	}
}

static lk_status of_rows(const struct gradient *g, const lc_node *node, int a, int *out) {
	lc_node draft =
		lc_ask_draft(&g->ask, node->op == LC_GATHER_ROWS ? LC_ADD_ROWS : LC_GATHER_ROWS);
	draft.in[0] = a;
	draft.in[1] = node->in[1];
	draft.count = lc_in(g->ask.p, node, 0)->dim[0];
	return lc_add(g->ask.p, &draft, out, g->ask.err);
}

/* Of parts of a maximum: to the ranks that reach it. */
static lk_status of_parts(const struct gradient *g, int u, int a, int *out) {
	const lc_node node = *lc_node_at(g->ask.p, u);
	int reach = u;
	*out = a;
	if (node.reduce == LC_SUM) return LK_OK;
	LK_TRY(whole(g, &reach));
	LK_TRY(lc_ask_truth(&g->ask, LC_EQ, node.in[0], reach, (lc_dtype)node.dtype, &reach));
	return lc_ask_binary(&g->ask, LC_MUL, a, reach, out);
}

/* Collectives: what fit() makes of the adjoint is their gradient. */
static lk_status of_collective(const struct gradient *g, int u, int a, int *out) {
	const lc_node copy = *lc_node_at(g->ask.p, u), *node = &copy;
	lc_node draft = lc_ask_draft(&g->ask, LC_PERMUTE);
	const lc_layout from = lc_in(g->ask.p, node, 0)->layout[node->axis];
	*out = a;
	draft.in[0] = a;
	draft.axis = node->axis;
	if (node->op == LC_PARTIAL) return of_parts(g, u, a, out);
	draft.by = node->by;
	if (node->op == LC_PERMUTE) draft.shift = -node->shift;
	else if (node->op == LC_LOCAL) {
		draft.op = LC_SLICED;
		draft.d = from.dim;
		if (from.kind == LC_R) return LK_OK;
	} else if (node->op == LC_SLICED) draft.op = LC_LOCAL;
	else return LK_OK;
	return lc_add(g->ask.p, &draft, out, g->ask.err);
}

/* Each element of the adjoint goes back to where its element came from. */
static lk_status of_sorted(const struct gradient *g, int u, int a, int *out) {
	const lc_node copy = *lc_node_at(g->ask.p, u), *node = &copy;
	lc_composed_call call = {.node = lc_ask_draft(&g->ask, LC_COPY), .sizes = 1};
	lc_node place = lc_ask_draft(&g->ask, LC_ARGSORT);
	if (node->op != LC_SORT) return grad_refuse(g, lc_node_at(g->ask.p, u));
	place.in[0] = node->in[0];
	place.d = node->d;
	place.reverse = node->reverse;
	LK_TRY(whole(g, &a));
	LK_TRY(lc_add(g->ask.p, &place, &call.node.in[1], g->ask.err));
	call.node.in[0] = a;
	call.node.inputs = 2;
	call.node.d = node->d;
	call.size[0] = lc_in(g->ask.p, node, 0)->dim[node->d];
	for (int i = 0; i < LC_COMPOSED; i++)
		if (strcmp(lc_composed[i].name, "scatter_add") == 0)
			return lc_composed[i].make(&g->ask, &call, out);
	return lk_fail(g->ask.err, LK_ERR_INTERNAL, NULL, "scatter_add is gone");
}

static lk_status contribution(const struct gradient *g, int u, int k, int a, int *out) {
	const lc_node node = *lc_node_at(g->ask.p, u);
	switch (lc_ops[node.op].family) {
	case LC_MAP: LK_TRY(of_map(g, u, k, a, out)); return unrepeated(g, node.in[k], out);
	case LC_DROP: {
		lc_node draft = lc_ask_draft(&g->ask, LC_DROPOUT);
		LK_TRY(whole(g, &a));
		draft.in[0] = a;
		draft.key = node.key;
		draft.number = node.number;
		return lc_add(g->ask.p, &draft, out, g->ask.err);
	}
	case LC_CONTRACT:
		if (node.op == LC_CONV2D) return lc_gradient_conv(&g->ask, &node, k, a, out);
		LK_TRY(of_matmul(g, &node, k, a, out));
		return unrepeated(g, node.in[k], out);
	case LC_ROWS: return of_rows(g, &node, a, out);
	case LC_ATTEND: LK_TRY(whole(g, &a)); return lc_gradient_attend(&g->ask, u, k, a, out);
	case LC_RED: return of_reduction(g, u, a, out);
	case LC_BLOCK: return of_sorted(g, u, a, out);
	case LC_VIEW: return of_view(g, &node, k, a, out);
	case LC_COMM: return of_collective(g, u, a, out);
	case LC_TOTALS: *out = a; return LK_OK; /* each tensor of the list counts once */
	case LC_MOVE: {                         /* sent back */
		lc_node draft = lc_ask_draft(&g->ask, LC_SEND);
		draft.in[0] = a;
		draft.from = node.at;
		draft.at = node.from;
		return lc_add(g->ask.p, &draft, out, g->ask.err);
	}
	default: break;
	}
	return grad_refuse(g, lc_node_at(g->ask.p, u));
}

/* ---- which values, in which order ---- */

/* Whether a gradient passes from u to its operand k: steps and indices have none. */
static bool passes(const lc_program *program, int u, int k) {
	const lc_node *node = &program->nodes.at[u], *x = &program->nodes.at[node->in[k]];
	if (!lc_is_real((lc_dtype)node->dtype) || !lc_is_real((lc_dtype)x->dtype)) return false;
	if (node->op == LC_ROUND || node->stops) return false;
	return node->op != LC_SELECT || k > 0;
}

static void find_between(const struct gradient *g, int by, bool *between) {
	for (int u = by + 1; u <= g->loss; u++)
		for (int k = 0; k < lc_node_at(g->ask.p, u)->inputs; k++) {
			int x = lc_node_at(g->ask.p, u)->in[k];
			between[u] |= (x == by || between[x]) && passes(g->ask.p, u, k);
		}
	between[by] = true;
	/* of these, what the loss depends on */
	bool reached[LC_VALUES] = {false};
	reached[g->loss] = true;
	for (int u = g->loss; u > by; u--)
		for (int k = 0; k < lc_node_at(g->ask.p, u)->inputs && reached[u]; k++)
			if (passes(g->ask.p, u, k)) reached[lc_node_at(g->ask.p, u)->in[k]] = true;
	for (int u = by; u <= g->loss; u++) between[u] &= reached[u];
}

static lk_status adjoint_of(const struct gradient *g, int id, const bool *between) {
	int sum = NO_ADJOINT;
	for (int u = id + 1; u <= g->loss; u++)
		for (int k = 0; k < lc_node_at(g->ask.p, u)->inputs; k++) {
			int one;
			if (!between[u] || lc_node_at(g->ask.p, u)->in[k] != id || !passes(g->ask.p, u, k))
				continue;
			LK_ASSERT(g->adjoint[u] != NO_ADJOINT);
			LK_TRY(contribution(g, u, k, g->adjoint[u], &one));
			if (lc_node_at(g->ask.p, id)->list < 0 && lc_node_at(g->ask.p, one)->list >= 0)
				LK_TRY(lc_ask_unary(&g->ask, LC_TOTAL, one, &one)); /* read by all tensors of it */
			LK_TRY(lc_ask_cast(&g->ask, (lc_dtype)lc_node_at(g->ask.p, id)->dtype, one, &one));
			LK_TRY(fit(g, id, &one));
			if (sum == NO_ADJOINT) sum = one;
			else LK_TRY(add_up(g, sum, one, &sum));
		}
	g->adjoint[id] = sum;
	return LK_OK;
}

static lk_status check_loss(const struct gradient *g) {
	const lc_node *loss = lc_node_at(g->ask.p, g->loss);
	const lc_dtype dtype = (lc_dtype)loss->dtype;
	char x[LC_SHOWN];
	lc_value_text(g->ask.p, g->loss, x, sizeof x);
	if (loss->rank != 0 || !lc_is_real(dtype) || lc_is_weak(dtype) || loss->list >= 0) {
		lc_wrong(g->ask.p, g->ask.asked->line, g->ask.asked->column, g->ask.err,
		         "the loss %s is not one real number", x);
		if (!lc_is_real(dtype))
			return lk_hint(g->ask.err, "it is %s; cast what it is made of: cast(f32, ...)",
			               lc_dtype_name(dtype));
		return lk_hint(g->ask.err, "reduce it: sum(%s) or mean(%s)", x, x);
	}
	for (int axis = 0; axis < g->ask.p->axis_count; axis++) {
		const lc_layout *layout = &loss->layout[axis];
		const char *name = g->ask.p->axes[axis].name;
		if (layout->kind == LC_R || layout->kind == LC_L ||
		    (layout->kind == LC_P && layout->reduce == LC_SUM))
			continue;
		lc_wrong(g->ask.p, g->ask.asked->line, g->ask.asked->column, g->ask.err,
		         "the loss %s is neither whole on the ranks of %s nor a sum over them", x, name);
		return layout->kind == LC_P ? lk_hint(g->ask.err, "reduce it: allreduce(%s, %s, %s)", x,
		                                      lc_reduce_name((lc_reduce)layout->reduce), name)
		                            : lk_hint(g->ask.err, "add broadcast(%s, %s)", x, name);
	}
	return LK_OK;
}

/* Whether the loss is computed from a value, by whatever operations. */
static bool computed_from(const struct gradient *g, int by) {
	bool from[LC_VALUES] = {false};
	from[by] = true;
	for (int u = by + 1; u <= g->loss; u++)
		for (int k = 0; k < lc_node_at(g->ask.p, u)->inputs; k++)
			from[u] |= from[lc_node_at(g->ask.p, u)->in[k]];
	return from[g->loss];
}

static lk_status not_dependent(const struct gradient *g, int by) {
	char x[LC_SHOWN], y[LC_SHOWN];
	const lc_node *value = lc_node_at(g->ask.p, by);
	lc_value_text(g->ask.p, g->loss, x, sizeof x);
	lc_value_text(g->ask.p, by, y, sizeof y);
	lc_wrong(g->ask.p, g->ask.asked->line, g->ask.asked->column, g->ask.err,
	         "%s does not depend on %s", x, y);
	if (by < g->loss && computed_from(g, by))
		return lk_hint(g->ask.err, "comparisons, rounding, indices and stop() have no gradient");
	for (int old = by; value->op == LC_UPDATE; value = lc_node_at(g->ask.p, old)) {
		old = value->in[0];
		if (computed_from(g, old))
			return lk_hint(g->ask.err,
			               "%s depends on %s as it was before its update in line %d; ask for "
			               "the gradient ahead of that line",
			               x, y, lc_node_at(g->ask.p, by)->line);
	}
	return lk_hint(g->ask.err, "name a value that %s is computed from", x);
}

lk_status lc_gradient(lc_program *program, int loss, int by, const lc_node *asked, int *out,
                      lk_error *err) {
	LK_ASSERT(loss >= 0 && (size_t)loss < program->nodes.count);
	LK_ASSERT(by >= 0 && (size_t)by < program->nodes.count);
	struct gradient g = {.ask = {.p = program, .asked = asked, .err = err}, .loss = loss};
	bool between[LC_VALUES] = {false};
	program->derived = true;
	LK_TRY(check_loss(&g));
	if (by < loss) find_between(&g, by, between);
	if (!between[loss] || by >= loss) return not_dependent(&g, by);
	if (program->gradients.loss != loss || program->gradients.of == NULL) {
		program->gradients.of = LK_ARRAY(&program->file->arena, int, LC_VALUES);
		if (program->gradients.of == NULL) return lk_oom(err);
		for (int i = 0; i < LC_VALUES; i++) program->gradients.of[i] = NO_ADJOINT;
		program->gradients.loss = loss;
	}
	g.adjoint = program->gradients.of;
	if (g.adjoint[loss] == NO_ADJOINT) {
		int one;
		LK_TRY(lc_ask_number(&g.ask, 1, &one));
		LK_TRY(
			lc_ask_cast(&g.ask, (lc_dtype)lc_node_at(g.ask.p, loss)->dtype, one, &g.adjoint[loss]));
	}
	for (int id = loss - 1; id >= by; id--)
		if (between[id] && g.adjoint[id] == NO_ADJOINT) LK_TRY(adjoint_of(&g, id, between));
	*out = g.adjoint[by];
	return LK_OK;
}
