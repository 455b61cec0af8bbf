/* types_contract.c: matmul and conv2d. A dim of an operand becomes a dim of the result or is summed
 * over: if the former is sliced, so is the result; if the latter is sliced in both operands, the
 * result is partial. */
#include <string.h>

#include "lang/types/rules.h"
#include "base/check.h"

enum { SUMMED = -1, FIXED = -2 }; /* summed over; not to be sliced */

/* For each dim of both operands: its dim of the result, and the dim of the other operand that must
 * be sliced alike, or -1. */
struct roles {
	int to[2][LC_RANK], partner[2][LC_RANK];
};

/* ---- shapes ---- */

static lk_status same_extent(const lc_program *program, const lc_node *node, int d, int e,
                             lk_error *err) {
	const lc_node *value = lc_in(program, node, 0), *b = lc_in(program, node, 1);
	char x[LC_SHOWN], y[LC_SHOWN], dx[64], dy[64];
	if (value->dim[d] == b->dim[e]) return LK_OK;
	lc_refuse(program, node, err,
	          "%s sums over dim %d of %s, which has %s elements, and dim %d of %s, which has %s",
	          lc_ops[node->op].name, d, lc_shown(program, node->in[0], x),
	          lc_dim_text(program, value->dim[d], dx, sizeof dx), e,
	          lc_shown(program, node->in[1], y), lc_dim_text(program, b->dim[e], dy, sizeof dy));
	return node->op == LC_MATMUL
	           ? lk_hint(err, "transpose with the flags ta or tb, or correct a shape")
	           : lk_hint(err, "x is [N,C,H,W], w is [O,C,KH,KW]");
}

static lk_status batch(const lc_program *program, lc_node *node, struct roles *roles,
                       lk_error *err) {
	int rank[2] = {lc_in(program, node, 0)->rank - 2, lc_in(program, node, 1)->rank - 2},
		most = rank[0] > rank[1] ? rank[0] : rank[1];
	char x[64], y[64];
	node->rank = (uint8_t)(most + 2);
	for (int out = 0; out < most; out++) {
		int d[2] = {out - (most - rank[0]), out - (most - rank[1])};
		node->dim[out] = 0;
		for (int i = 0; i < 2; i++) {
			if (d[i] < 0) continue;
			lc_dim extent = lc_in(program, node, i)->dim[d[i]];
			roles->to[i][d[i]] = out;
			roles->partner[i][d[i]] =
				d[1 - i] >= 0 && lc_in(program, node, 1 - i)->dim[d[1 - i]] != 0 ? d[1 - i] : -1;
			if (extent == 0 || extent == node->dim[out]) continue;
			if (node->dim[out] != 0) {
				lc_refuse(program, node, err, "batches of %s and of %s",
				          lc_dim_text(program, node->dim[out], x, sizeof x),
				          lc_dim_text(program, extent, y, sizeof y));
				return lk_hint(err, "the dims before the last two are equal or 1");
			}
			node->dim[out] = extent;
		}
	}
	return LK_OK;
}

static lk_status shape_matmul(const lc_program *program, lc_node *node, struct roles *roles,
                              lk_error *err) {
	const lc_node *value = lc_in(program, node, 0), *b = lc_in(program, node, 1);
	char x[LC_SHOWN];
	if (value->rank < 2 || b->rank < 2) {
		int wrong = value->rank < 2 ? 0 : 1;
		lc_refuse(program, node, err, "matmul takes matrices, and %s has %d dim(s)",
		          lc_shown(program, node->in[wrong], x), lc_in(program, node, wrong)->rank);
		return lk_hint(err, "give tensors of two dims at least");
	}
	int m = value->rank - 2, ka = value->rank - 1, kb = b->rank - 2, nb = b->rank - 1;
	if (node->ta) m = value->rank - 1, ka = value->rank - 2;
	if (node->tb) kb = b->rank - 1, nb = b->rank - 2;
	LK_TRY(same_extent(program, node, ka, kb, err));
	LK_TRY(batch(program, node, roles, err));
	node->dim[node->rank - 2] = value->dim[m];
	node->dim[node->rank - 1] = b->dim[nb];
	roles->to[0][m] = node->rank - 2;
	roles->to[1][nb] = node->rank - 1;
	roles->partner[0][m] = roles->partner[1][nb] = -1;
	roles->to[0][ka] = roles->to[1][kb] = SUMMED;
	roles->partner[0][ka] = kb;
	roles->partner[1][kb] = ka;
	return LK_OK;
}

/* (image + 2 pad - kernel) / stride + 1, which must be an integer. */
static lk_status contract_extent(lc_program *program, lc_node *node, int d, lk_error *err) {
	lc_dim pad, stride, sum, one = 0;
	LK_TRY(lc_dim_number(program, 2 * (int64_t)node->pad, &pad, err));
	LK_TRY(lc_dim_number(program, node->stride, &stride, err));
	LK_TRY(lc_dim_plus(program, lc_in(program, node, 0)->dim[d], pad, 1, &sum, err));
	LK_TRY(lc_dim_plus(program, sum, lc_in(program, node, 1)->dim[d], -1, &sum, err));
	LK_TRY(lc_dim_over(program, sum, stride, node->line, node->column, &sum, err));
	return lc_dim_plus(program, sum, one, 1, &node->dim[d], err);
}

static lk_status shape_conv(lc_program *program, lc_node *node, struct roles *roles,
                            lk_error *err) {
	static const struct roles conv = {{{0, SUMMED, FIXED, FIXED}, {1, SUMMED, FIXED, FIXED}},
	                                  {{-1, 1, -1, -1}, {-1, 1, -1, -1}}};
	if (lc_in(program, node, 0)->rank != 4 || lc_in(program, node, 1)->rank != 4) {
		lc_refuse(program, node, err, "conv2d takes an image of 4 dims and a kernel of 4");
		return lk_hint(err, "x is [N,C,H,W], w is [O,C,KH,KW]");
	}
	if (node->stride < 1 || node->pad < 0)
		return lc_refuse(program, node, err, "stride is at least 1, pad at least 0");
	LK_TRY(same_extent(program, node, 1, 1, err));
	*roles = conv;
	node->rank = 4;
	node->dim[0] = lc_in(program, node, 0)->dim[0];
	node->dim[1] = lc_in(program, node, 1)->dim[0];
	LK_TRY(contract_extent(program, node, 2, err));
	return contract_extent(program, node, 3, err);
}

/* ---- layouts ---- */

static lk_status one_sliced(lc_program *program, lc_node *node, const struct roles *roles, int axis,
                            int i, lc_adder *add, lk_error *err) {
	LK_ASSERT(axis >= 0 && axis < program->axis_count);
	LK_ASSERT(i >= 0 && i < node->inputs);
	lc_layout l = lc_in(program, node, i)->layout[axis];
	int to = roles->to[i][l.dim], partner = roles->partner[i][l.dim];
	if (to == FIXED)
		return lc_refuse_layout(program, node, i, axis, ", where neighbours are needed", err);
	if (to >= 0 && lc_in(program, node, i)->dim[l.dim] == 0 && node->dim[to] != 0)
		return lc_refuse_layout(program, node, i, axis,
		                        ", where its one matrix is repeated on all ranks", err);
	if (partner >= 0) {
		if (l.turn)
			return lc_refuse_layout(program, node, i, axis, " and turned, with a replicated value",
			                        err);
		LK_TRY(lc_slice_operand(program, node, 1 - i, partner, axis, add, err));
	}
	node->layout[axis] = to == SUMMED
	                         ? (lc_layout){.kind = LC_P, .reduce = LC_SUM}
	                         : (lc_layout){.kind = LC_S, .dim = (int8_t)to, .turn = l.turn};
	return LK_OK;
}

static lk_status both_sliced(const lc_program *program, lc_node *node, const struct roles *roles,
                             int axis, lk_error *err) {
	LK_ASSERT(axis >= 0 && axis < program->axis_count);
	const lc_layout *a = &lc_in(program, node, 0)->layout[axis],
					*b = &lc_in(program, node, 1)->layout[axis];
	int to = roles->to[0][a->dim];
	if (to == roles->to[1][b->dim] && roles->partner[0][a->dim] == b->dim && a->turn == b->turn &&
	    to != FIXED) {
		node->layout[axis] = to == SUMMED
		                         ? (lc_layout){.kind = LC_P, .reduce = LC_SUM}
		                         : (lc_layout){.kind = LC_S, .dim = (int8_t)to, .turn = a->turn};
		return LK_OK;
	}
	return lc_refuse_layout(
		program, node, 1, axis,
		", and the other operand along another dim: ranks would hold blocks that do not fit", err);
}

static lk_status contract_layout(lc_program *program, lc_node *node, const struct roles *roles,
                                 int axis, lc_adder *add, lk_error *err) {
	LK_ASSERT(axis >= 0 && axis < program->axis_count);
	const lc_layout a = lc_in(program, node, 0)->layout[axis],
					b = lc_in(program, node, 1)->layout[axis];
	if (a.kind == LC_S && b.kind == LC_S) return both_sliced(program, node, roles, axis, err);
	int i = a.kind != LC_R ? 0 : 1; /* the operand that is not replicated, if only one is */
	const lc_layout l = i ? b : a;
	const lc_layout other = i ? a : b;
	node->layout[axis] = l;
	if (other.kind != LC_R && !(l.kind == LC_L && other.kind == LC_L) &&
	    !(l.kind == LC_ROOT && lc_same_layout(&l, &other))) {
		int wrong = l.kind == LC_P || other.kind != LC_P ? i : 1 - i;
		return lc_refuse_layout(program, node, wrong, axis,
		                        ", and the other operand is not replicated", err);
	}
	if (l.kind == LC_S) return one_sliced(program, node, roles, axis, i, add, err);
	if (l.kind == LC_P && l.reduce != LC_SUM)
		return lc_refuse_layout(program, node, i, axis,
		                        ", and products of its parts are not parts of the product", err);
	return LK_OK;
}

lk_status lc_type_contract(lc_program *program, lc_node *node, lc_adder *add, lk_error *err) {
	struct roles r;
	lc_dtype joined;
	char x[LC_SHOWN];
	memset(&r, 0xff, sizeof r);
	LK_TRY(lc_join_dtypes(program, node, 0, 1, &joined, err));
	if (joined == LC_BOOL)
		return lc_refuse(program, node, err, "%s is bool, which %s does not take",
		                 lc_shown(program, node->in[0], x), lc_ops[node->op].name);
	node->dtype = (uint8_t)joined;
	LK_TRY(node->op == LC_MATMUL ? shape_matmul(program, node, &r, err)
	                             : shape_conv(program, node, &r, err));
	for (int a = 0; a < program->axis_count; a++)
		LK_TRY(contract_layout(program, node, &r, a, add, err));
	return LK_OK;
}
