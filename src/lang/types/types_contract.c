/* types_contract.c: matmul, conv2d and gather_rows. A dim of an operand becomes a dim of the result or is summed over:
 * sliced in the first case the result is sliced, sliced in the second in both operands it is partial. */
#include <string.h>

#include "lang/types/program.h"

enum { SUMMED = -1, FIXED = -2 }; /* summed over; not to be sliced */

/* Of each dim of both operands: where it goes, and the dim of the other operand that must be sliced alike, or -1. */
struct roles {
	int to[2][LC_RANK], partner[2][LC_RANK];
};

/* ---- shapes ---- */

static lk_status same_extent(const lc_program *p, const lc_node *n, int d, int e, lk_error *err) {
	const lc_node *a = lc_in(p, n, 0), *b = lc_in(p, n, 1);
	char x[LC_SHOWN], y[LC_SHOWN], dx[64], dy[64];
	if (a->dim[d] == b->dim[e]) return LK_OK;
	lc_refuse(p, n, err, "%s sums over dim %d of %s, which has %s elements, and dim %d of %s, which has %s",
			  lc_ops[n->op].name, d, lc_shown(p, n->in[0], x), lc_dim_text(p, a->dim[d], dx, sizeof dx), e,
			  lc_shown(p, n->in[1], y), lc_dim_text(p, b->dim[e], dy, sizeof dy));
	return n->op == LC_MATMUL ? lk_hint(err, "transpose with the flags ta or tb, or correct a shape")
	                          : lk_hint(err, "x is [N,C,H,W], w is [O,C,KH,KW]");
}

static lk_status batch(const lc_program *p, lc_node *n, struct roles *r, lk_error *err) {
	int rank[2] = {lc_in(p, n, 0)->rank - 2, lc_in(p, n, 1)->rank - 2}, most = rank[0] > rank[1] ? rank[0] : rank[1];
	char x[64], y[64];
	n->rank = (uint8_t)(most + 2);
	for (int out = 0; out < most; out++) {
		int d[2] = {out - (most - rank[0]), out - (most - rank[1])};
		n->dim[out] = 0;
		for (int i = 0; i < 2; i++) {
			if (d[i] < 0) continue;
			lc_dim extent = lc_in(p, n, i)->dim[d[i]];
			r->to[i][d[i]] = out;
			r->partner[i][d[i]] = d[1 - i] >= 0 && lc_in(p, n, 1 - i)->dim[d[1 - i]] != 0 ? d[1 - i] : -1;
			if (extent == 0 || extent == n->dim[out]) continue;
			if (n->dim[out] != 0) {
				lc_refuse(p, n, err, "batches of %s and of %s", lc_dim_text(p, n->dim[out], x, sizeof x),
				          lc_dim_text(p, extent, y, sizeof y));
				return lk_hint(err, "the dims before the last two are equal or 1");
			}
			n->dim[out] = extent;
		}
	}
	return LK_OK;
}

static lk_status shape_matmul(const lc_program *p, lc_node *n, struct roles *r, lk_error *err) {
	const lc_node *a = lc_in(p, n, 0), *b = lc_in(p, n, 1);
	char x[LC_SHOWN];
	if (a->rank < 2 || b->rank < 2) {
		lc_refuse(p, n, err, "matmul takes matrices, and %s has %d dim(s)", lc_shown(p, n->in[a->rank < 2 ? 0 : 1], x),
		          a->rank < 2 ? a->rank : b->rank);
		return lk_hint(err, "give tensors of two dims at least");
	}
	int m = a->rank - (n->ta ? 1 : 2), ka = a->rank - (n->ta ? 2 : 1);
	int kb = b->rank - (n->tb ? 1 : 2), nb = b->rank - (n->tb ? 2 : 1);
	LK_TRY(same_extent(p, n, ka, kb, err));
	LK_TRY(batch(p, n, r, err));
	n->dim[n->rank - 2] = a->dim[m], n->dim[n->rank - 1] = b->dim[nb];
	r->to[0][m] = n->rank - 2, r->to[1][nb] = n->rank - 1;
	r->partner[0][m] = r->partner[1][nb] = -1;
	r->to[0][ka] = r->to[1][kb] = SUMMED;
	r->partner[0][ka] = kb, r->partner[1][kb] = ka;
	return LK_OK;
}

/* (image + 2 pad - kernel) / stride + 1, which must be whole. */
static lk_status extent(lc_program *p, lc_node *n, int d, lk_error *err) {
	lc_dim pad, stride, sum, one = 0;
	LK_TRY(lc_dim_number(p, 2 * (int64_t)n->pad, &pad, err));
	LK_TRY(lc_dim_number(p, n->stride, &stride, err));
	LK_TRY(lc_dim_plus(p, lc_in(p, n, 0)->dim[d], pad, 1, &sum, err));
	LK_TRY(lc_dim_plus(p, sum, lc_in(p, n, 1)->dim[d], -1, &sum, err));
	LK_TRY(lc_dim_over(p, sum, stride, n->line, n->column, &sum, err));
	return lc_dim_plus(p, sum, one, 1, &n->dim[d], err);
}

static lk_status shape_conv(lc_program *p, lc_node *n, struct roles *r, lk_error *err) {
	static const struct roles conv = {{{0, SUMMED, FIXED, FIXED}, {1, SUMMED, FIXED, FIXED}},
							   {{-1, 1, -1, -1}, {-1, 1, -1, -1}}};
	if (lc_in(p, n, 0)->rank != 4 || lc_in(p, n, 1)->rank != 4) {
		lc_refuse(p, n, err, "conv2d takes an image of 4 dims and a kernel of 4");
		return lk_hint(err, "x is [N,C,H,W], w is [O,C,KH,KW]");
	}
	if (n->stride < 1 || n->pad < 0) return lc_refuse(p, n, err, "stride is at least 1, pad at least 0");
	LK_TRY(same_extent(p, n, 1, 1, err));
	*r = conv;
	n->rank = 4;
	n->dim[0] = lc_in(p, n, 0)->dim[0], n->dim[1] = lc_in(p, n, 1)->dim[0];
	LK_TRY(extent(p, n, 2, err));
	return extent(p, n, 3, err);
}

/* ---- layouts ---- */

static lk_status one_sliced(lc_program *p, lc_node *n, const struct roles *r, int axis, int i, lk_error *err) {
	lc_layout l = lc_in(p, n, i)->layout[axis];
	int to = r->to[i][l.dim], partner = r->partner[i][l.dim];
	if (to == FIXED) return lc_refuse_layout(p, n, i, axis, ", where neighbours are needed", err);
	if (to >= 0 && lc_in(p, n, i)->dim[l.dim] == 0 && n->dim[to] != 0)
		return lc_refuse_layout(p, n, i, axis, ", where its one matrix is repeated on all ranks", err);
	if (partner >= 0) {
		if (l.turn) return lc_refuse_layout(p, n, i, axis, " and turned, beside a replicated value", err);
		LK_TRY(lc_slice_operand(p, n, 1 - i, partner, axis, err));
	}
	n->layout[axis] = to == SUMMED ? (lc_layout){.kind = LC_P, .reduce = LC_SUM}
	                               : (lc_layout){.kind = LC_S, .dim = (int8_t)to, .turn = l.turn};
	return LK_OK;
}

static lk_status both_sliced(const lc_program *p, lc_node *n, const struct roles *r, int axis, lk_error *err) {
	const lc_layout *a = &lc_in(p, n, 0)->layout[axis], *b = &lc_in(p, n, 1)->layout[axis];
	int to = r->to[0][a->dim];
	if (to == r->to[1][b->dim] && r->partner[0][a->dim] == b->dim && a->turn == b->turn && to != FIXED) {
		n->layout[axis] = to == SUMMED ? (lc_layout){.kind = LC_P, .reduce = LC_SUM}
		                               : (lc_layout){.kind = LC_S, .dim = (int8_t)to, .turn = a->turn};
		return LK_OK;
	}
	return lc_refuse_layout(p, n, 1, axis, ", and the other operand otherwise: ranks would hold blocks that do not fit",
							err);
}

static lk_status layout(lc_program *p, lc_node *n, const struct roles *r, int axis, lk_error *err) {
	const lc_layout a = lc_in(p, n, 0)->layout[axis], b = lc_in(p, n, 1)->layout[axis];
	if (a.kind == LC_S && b.kind == LC_S) return both_sliced(p, n, r, axis, err);
	int i = a.kind != LC_R ? 0 : 1; /* the operand that is not replicated, if only one is */
	const lc_layout l = i ? b : a, other = i ? a : b;
	n->layout[axis] = l;
	if (other.kind != LC_R && !(l.kind == LC_L && other.kind == LC_L) &&
		!(l.kind == LC_ROOT && lc_same_layout(&l, &other))) {
		int wrong = l.kind == LC_P || other.kind != LC_P ? i : 1 - i;
		return lc_refuse_layout(p, n, wrong, axis, ", and the other operand is not replicated", err);
	}
	if (l.kind == LC_S) return one_sliced(p, n, r, axis, i, err);
	if (l.kind == LC_P && l.reduce != LC_SUM)
		return lc_refuse_layout(p, n, i, axis, ", and products of parts are no parts", err);
	return LK_OK;
}

lk_status lc_type_contract(lc_program *p, lc_node *n, lk_error *err) {
	struct roles r;
	lc_dtype joined;
	char x[LC_SHOWN];
	memset(&r, 0xff, sizeof r);
	LK_TRY(lc_join_dtypes(p, n, 0, 1, &joined, err));
	if (joined == LC_BOOL)
		return lc_refuse(p, n, err, "%s is bool, which %s does not take", lc_shown(p, n->in[0], x), lc_ops[n->op].name);
	n->dtype = (uint8_t)joined;
	LK_TRY(n->op == LC_MATMUL ? shape_matmul(p, n, &r, err) : shape_conv(p, n, &r, err));
	for (int a = 0; a < p->axis_count; a++) LK_TRY(layout(p, n, &r, a, err));
	return LK_OK;
}

/* ---- rows of a table by index ---- */

static lk_status rows_layout(lc_program *p, lc_node *n, int axis, lk_error *err) {
	const lc_layout table = lc_in(p, n, 0)->layout[axis], index = lc_in(p, n, 1)->layout[axis];
	bool whole = index.kind == LC_R;
	n->layout[axis] = (lc_layout){.kind = LC_R};
	if (table.kind == LC_L || index.kind == LC_L) {
		if (table.kind != LC_L && table.kind != LC_R)
			return lc_refuse_layout(p, n, 0, axis, ", and stands beside a local value", err);
		if (index.kind != LC_L && index.kind != LC_R)
			return lc_refuse_layout(p, n, 1, axis, ", and stands beside a local value", err);
		n->layout[axis].kind = LC_L;
		return LK_OK;
	}
	if (index.kind == LC_P) return lc_refuse_layout(p, n, 1, axis, ", and parts of indices are no indices", err);
	if (table.kind == LC_R) {
		n->layout[axis] = index;
		return LK_OK;
	}
	if (table.kind == LC_ROOT && (whole || lc_same_layout(&table, &index))) {
		n->layout[axis] = table;
		return LK_OK;
	}
	if (!whole) return lc_refuse_layout(p, n, 1, axis, ", and so must be whole for a table that is divided", err);
	if (table.kind == LC_P) {
		if (table.reduce == LC_SUM) return n->layout[axis] = table, LK_OK;
		return lc_refuse_layout(p, n, 0, axis, "", err);
	}
	if (table.turn) return lc_refuse_layout(p, n, 0, axis, " and turned", err);
	n->layout[axis] = table.dim == 0 ? (lc_layout){.kind = LC_P, .reduce = LC_SUM}
	                                 : (lc_layout){.kind = LC_S, .dim = (int8_t)(n->rank - 1)};
	return LK_OK;
}

lk_status lc_type_rows(lc_program *p, lc_node *n, lk_error *err) {
	const lc_node *table = lc_in(p, n, 0), *index = lc_in(p, n, 1);
	char x[LC_SHOWN];
	if (table->rank != 2) {
		lc_refuse(p, n, err, "%s has %d dim(s), and a table of rows 2", lc_shown(p, n->in[0], x), table->rank);
		return lk_hint(err, "the first operand is the table, the second the indices");
	}
	if (!lc_is_integer(index->dtype)) {
		lc_refuse(p, n, err, "%s is %s, and indices are integers", lc_shown(p, n->in[1], x),
				  lc_dtype_name(index->dtype));
		return lk_hint(err, "add cast(i32, %s)", x);
	}
	if (index->rank == LC_RANK) return lc_refuse(p, n, err, "a tensor has at most %d dims", LC_RANK);
	n->dtype = table->dtype, n->rank = (uint8_t)(index->rank + 1);
	memcpy(n->dim, index->dim, sizeof n->dim);
	n->dim[n->rank - 1] = table->dim[1];
	for (int a = 0; a < p->axis_count; a++) LK_TRY(rows_layout(p, n, a, err));
	return LK_OK;
}
