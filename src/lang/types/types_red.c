/* types_red.c: reductions over dims, and the sum over a list. Over a sliced dim the result is partial: every rank has
 * reduced its slice. */
#include <string.h>

#include "lang/types/program.h"

static lc_reduce reduction(int op) { return op == LC_RED_MAX ? LC_RMAX : op == LC_RED_MIN ? LC_RMIN : LC_SUM; }

static lk_status check_operand(const lc_program *p, const lc_node *n, lk_error *err) {
	const lc_node *x = lc_in(p, n, 0);
	char text[LC_SHOWN];
	lc_shown(p, n->in[0], text);
	if (x->rank == 0) {
		lc_refuse(p, n, err, "%s is one number, and has no dims for %s", text, lc_ops[n->op].name);
		if (n->op == LC_RED_MAX || n->op == LC_RED_MIN)
			return lk_hint(err, "of two values, write maximum(a, b) or minimum(a, b)");
		return lk_hint(err, "leave %s out", lc_ops[n->op].name);
	}
	for (int d = x->rank; d < 8; d++) {
		if (!(n->dims >> d & 1)) continue;
		lc_refuse(p, n, err, "%s has no dim %d", text, d);
		return lk_hint(err, "its dims count from 0 to %d", x->rank - 1);
	}
	bool real = n->op == LC_RED_MEAN || n->op == LC_RED_NORM;
	if (x->dtype != LC_BOOL && (lc_is_real(x->dtype) || !real)) return LK_OK;
	lc_refuse(p, n, err, "%s is %s, which %s does not take", text, lc_dtype_name(x->dtype), lc_ops[n->op].name);
	return lk_hint(err, "cast it: cast(f32, %s)", text);
}

static void shape(const lc_program *p, lc_node *n) {
	const lc_node *x = lc_in(p, n, 0);
	n->rank = 0;
	for (int d = 0; d < x->rank; d++) {
		bool gone = n->dims >> d & 1;
		if (!gone || n->keep) n->dim[n->rank++] = gone ? 0 : x->dim[d];
	}
}

/* Dim d of the operand as a dim of the result. */
static int moved(const lc_node *n, int d) {
	int at = d;
	for (int below = 0; below < d && !n->keep; below++) at -= n->dims >> below & 1;
	return at;
}

static lk_status layout(const lc_program *p, lc_node *n, int axis, lk_error *err) {
	const lc_layout l = lc_in(p, n, 0)->layout[axis];
	char x[LC_SHOWN];
	n->layout[axis] = l;
	if (l.kind == LC_P) {
		bool alike = n->op != LC_RED_NORM && l.reduce == reduction(n->op);
		return alike ? LK_OK
					 : lc_refuse_layout(p, n, 0, axis, ", and this reduction of parts is no part of the result", err);
	}
	if (l.kind != LC_S) return LK_OK;
	if (!(n->dims >> l.dim & 1)) {
		n->layout[axis].dim = (int8_t)moved(n, l.dim);
		return LK_OK;
	}
	n->layout[axis] = (lc_layout){.kind = LC_P, .reduce = (uint8_t)reduction(n->op)};
	if (n->op != LC_RED_NORM) return LK_OK;
	lc_shown(p, n->in[0], x);
	lc_refuse(p, n, err, "norm over a dim that is sliced over %s: roots of parts do not add up", p->axes[axis].name);
	return lk_hint(err, "write sqrt(allreduce(sum(%s^2), sum, %s))", x, p->axes[axis].name);
}

static lk_status total(const lc_program *p, lc_node *n, lk_error *err) {
	const lc_node *x = lc_in(p, n, 0);
	char text[LC_SHOWN];
	lc_shown(p, n->in[0], text);
	if (x->list < 0) {
		lc_refuse(p, n, err, "%s is no list of tensors", text);
		return lk_hint(err, "over dims, write sum(%s)", text);
	}
	for (int d = 0; d < x->rank; d++) {
		if (lc_dim_list(p, x->dim[d]) < 0) continue;
		lc_refuse(p, n, err, "the tensors of %s have different sizes", text);
		return lk_hint(err, "reduce them first: total(sum(%s))", text);
	}
	if (x->dtype == LC_BOOL) return lc_refuse(p, n, err, "%s is bool, which total does not take", text);
	n->list = -1, n->dtype = x->dtype, n->rank = x->rank;
	memcpy(n->dim, x->dim, sizeof n->dim);
	memcpy(n->layout, x->layout, sizeof n->layout);
	for (int a = 0; a < p->axis_count; a++)
		if (n->layout[a].kind == LC_P && n->layout[a].reduce != LC_SUM)
			return lc_refuse_layout(p, n, 0, a, ", and sums of such parts are no parts", err);
	return LK_OK;
}

lk_status lc_type_red(lc_program *p, lc_node *n, lk_error *err) {
	if (n->op == LC_TOTAL) return total(p, n, err);
	LK_TRY(check_operand(p, n, err));
	if (n->dims == 0) n->dims = (uint8_t)((1u << lc_in(p, n, 0)->rank) - 1);
	n->dtype = lc_in(p, n, 0)->dtype;
	shape(p, n);
	for (int a = 0; a < p->axis_count; a++) LK_TRY(layout(p, n, a, err));
	return LK_OK;
}
