/* types_red.c: reductions over dims, and the sum over a list. Over a sliced dim the result is
 * partial: every rank has reduced its slice. */
#include <string.h>

#include "lang/types/rules.h"
#include "base/check.h"

static lc_reduce red_reduction(int op) {
	if (op == LC_RED_MAX) return LC_RMAX;
	if (op == LC_RED_MIN) return LC_RMIN;
	return LC_SUM;
}

static lk_status check_operand(const lc_program *program, const lc_node *node, lk_error *err) {
	const lc_node *value = lc_in(program, node, 0);
	char text[LC_SHOWN];
	lc_shown(program, node->in[0], text);
	if (value->rank == 0) {
		lc_refuse(program, node, err, "%s is one number, and has no dims for %s", text,
		          lc_ops[node->op].name);
		if (node->op == LC_RED_MAX || node->op == LC_RED_MIN)
			return lk_hint(err, "of two values, write maximum(a, b) or minimum(a, b)");
		return lk_hint(err, "leave %s out", lc_ops[node->op].name);
	}
	for (int d = value->rank; d < 8; d++) {
		if (!(node->dims >> d & 1)) continue;
		lc_refuse(program, node, err, "%s has no dim %d", text, d);
		return lk_hint(err, "its dims count from 0 to %d", value->rank - 1);
	}
	bool real = node->op == LC_RED_MEAN || node->op == LC_RED_NORM;
	if (value->dtype != LC_BOOL && (lc_is_real(value->dtype) || !real)) return LK_OK;
	lc_refuse(program, node, err, "%s is %s, which %s does not take", text,
	          lc_dtype_name(value->dtype), lc_ops[node->op].name);
	return lk_hint(err, "cast it: cast(f32, %s)", text);
}

static void red_shape(const lc_program *program, lc_node *node) {
	const lc_node *value = lc_in(program, node, 0);
	node->rank = 0;
	for (int d = 0; d < value->rank; d++) {
		bool gone = node->dims >> d & 1;
		if (!gone || node->keep) node->dim[node->rank++] = gone ? 0 : value->dim[d];
	}
}

/* Dim d of the operand as a dim of the result. */
static int red_moved(const lc_node *node, int d) {
	int at = d;
	for (int below = 0; below < d && !node->keep; below++) at -= node->dims >> below & 1;
	return at;
}

static lk_status red_layout(const lc_program *program, lc_node *node, int axis, lk_error *err) {
	LK_ASSERT(axis >= 0 && axis < program->axis_count);
	const lc_layout l = lc_in(program, node, 0)->layout[axis];
	char x[LC_SHOWN];
	node->layout[axis] = l;
	if (l.kind == LC_P) {
		bool alike = node->op != LC_RED_NORM && l.reduce == red_reduction(node->op);
		return alike ? LK_OK
		             : lc_refuse_layout(program, node, 0, axis,
		                                ", and this reduction of parts is not a part of the result",
		                                err);
	}
	if (l.kind != LC_S) return LK_OK;
	if (!(node->dims >> l.dim & 1)) {
		node->layout[axis].dim = (int8_t)red_moved(node, l.dim);
		return LK_OK;
	}
	node->layout[axis] = (lc_layout){.kind = LC_P, .reduce = (uint8_t)red_reduction(node->op)};
	if (node->op != LC_RED_NORM) return LK_OK;
	lc_shown(program, node->in[0], x);
	lc_refuse(program, node, err,
	          "norm over a dim that is sliced over %s: roots of parts do not add up",
	          program->axes[axis].name);
	return lk_hint(err, "write sqrt(allreduce(sum(%s^2), sum, %s))", x, program->axes[axis].name);
}

static lk_status red_total(const lc_program *program, lc_node *node, lk_error *err) {
	const lc_node *value = lc_in(program, node, 0);
	char text[LC_SHOWN];
	lc_shown(program, node->in[0], text);
	if (value->list < 0) {
		lc_refuse(program, node, err, "%s is not a list of tensors", text);
		return lk_hint(err, "over dims, write sum(%s)", text);
	}
	for (int d = 0; d < value->rank; d++) {
		if (lc_dim_list(program, value->dim[d]) < 0) continue;
		lc_refuse(program, node, err, "the tensors of %s have different sizes", text);
		return lk_hint(err, "reduce them first: total(sum(%s))", text);
	}
	if (value->dtype == LC_BOOL)
		return lc_refuse(program, node, err, "%s is bool, which total does not take", text);
	node->list = -1;
	node->dtype = value->dtype;
	node->rank = value->rank;
	memcpy(node->dim, value->dim, sizeof node->dim);
	memcpy(node->layout, value->layout, sizeof node->layout);
	for (int a = 0; a < program->axis_count; a++)
		if (node->layout[a].kind == LC_P && node->layout[a].reduce != LC_SUM)
			return lc_refuse_layout(program, node, 0, a,
			                        ", and sums of its parts are not parts of the total", err);
	return LK_OK;
}

lk_status lc_type_red(lc_program *program, lc_node *node, lk_error *err) {
	if (node->op == LC_TOTAL) return red_total(program, node, err);
	LK_TRY(check_operand(program, node, err));
	if (node->dims == 0) node->dims = (uint8_t)((1u << lc_in(program, node, 0)->rank) - 1);
	node->dtype = lc_in(program, node, 0)->dtype;
	red_shape(program, node);
	for (int a = 0; a < program->axis_count; a++) LK_TRY(red_layout(program, node, a, err));
	return LK_OK;
}
