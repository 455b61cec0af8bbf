/* composed.c: operations composed of others; the printed program shows them. Layouts, gradients,
 * schedules and code follow from these.
 *
 * Indexing is a sum over all positions: of the element if the position equals the index, else of 0.
 * This works on slices, and costs as many operations as the product of both extents. */
#include <string.h>

#include "base/check.h"
#include "lang/types/rules.h"

/* ---- shared by the operations ---- */

static lk_status need_dim_of(const lc_asker *ask, const lc_composed_call *call, int d) {
	const lc_node *x = lc_in(ask->p, &call->node, 0);
	char text[LC_SHOWN];
	if (d < x->rank) return LK_OK;
	lc_refuse(ask->p, &call->node, ask->err, "%s has no dim %d",
	          lc_shown(ask->p, call->node.in[0], text), d);
	return x->rank ? lk_hint(ask->err, "its dims count from 0 to %d", x->rank - 1)
	               : lk_hint(ask->err, "it is one number");
}

/* Refuse x if a rank lacks elements along dim d, or holds parts of sums: all elements are
 * compared. */
static lk_status need_whole(const lc_asker *ask, const lc_composed_call *call) {
	LK_TRY(need_dim_of(ask, call, call->node.d));
	for (int a = 0; a < ask->p->axis_count; a++) {
		const lc_layout layout = lc_in(ask->p, &call->node, 0)->layout[a];
		if (layout.kind == LC_P || (layout.kind == LC_S && layout.dim == call->node.d))
			return lc_refuse_layout(ask->p, &call->node, 0, a,
			                        ", and all elements along a dim are compared", ask->err);
	}
	return LK_OK;
}

/* Refuse x and an index whose dims differ; with `but_for_d` dim d may differ. */
static lk_status need_alike(const lc_asker *ask, const lc_composed_call *call, bool but_for_d) {
	const lc_node *x = lc_in(ask->p, &call->node, 0), *index = lc_in(ask->p, &call->node, 1);
	char a[LC_SHOWN], b[LC_SHOWN];
	bool alike = x->rank == index->rank;
	LK_TRY(lc_check_index(ask->p, &call->node, 1, ask->err));
	LK_TRY(need_dim_of(ask, call, call->node.d));
	for (int d = 0; d < x->rank && alike; d++)
		alike = x->dim[d] == index->dim[d] || (but_for_d && d == call->node.d);
	if (alike && x->rank < LC_RANK) return LK_OK;
	if (alike)
		return lc_refuse(ask->p, &call->node, ask->err,
		                 "%s has %d dims, and an index takes one more",
		                 lc_shown(ask->p, call->node.in[0], a), x->rank);
	lc_refuse(ask->p, &call->node, ask->err, "%s and %s do not have the same dims%s",
	          lc_shown(ask->p, call->node.in[0], a), lc_shown(ask->p, call->node.in[1], b),
	          but_for_d ? " except the indexed one" : "");
	return lk_hint(ask->err, "insert dims of 1 with spread(x, d, 1), repeat with spread(x, d, n)");
}

/* The numbers 0, 1, ... along dim d of tensors of a rank: [n,1,...]. */
static lk_status places(const lc_asker *ask, lc_dtype dtype, lc_dim n, int d, int rank, int *out) {
	lc_node iota = lc_ask_draft(ask, LC_IOTA);
	iota.dtype = (uint8_t)dtype;
	iota.count = n;
	LK_TRY(lc_add(ask->p, &iota, out, ask->err));
	for (int k = 0; k < rank - 1 - d; k++)
		LK_TRY(lc_ask_view(ask, LC_SPREAD, *out, k + 1, 0, 0, out)); /* one copy: a dim of 1 */
	return LK_OK;
}

static lk_status choose(const lc_asker *ask, int condition, int a, int b, int *out) {
	lc_node draft = lc_ask_draft(ask, LC_SELECT);
	draft.in[0] = condition;
	draft.in[1] = a;
	draft.in[2] = b;
	return lc_add(ask->p, &draft, out, ask->err);
}

/* x if the position along dim d equals the index, else 0. */
static lk_status placed(const lc_asker *ask, int x, int index, lc_dim n, int d, int *out) {
	lc_dtype dtype = (lc_dtype)lc_node_at(ask->p, index)->dtype;
	int at, zero;
	LK_TRY(places(ask, dtype, n, d, lc_node_at(ask->p, index)->rank, &at));
	LK_TRY(lc_ask_binary(ask, LC_EQ, index, at, &at));
	LK_TRY(lc_ask_number(ask, 0, &zero));
	return choose(ask, at, x, zero, out);
}

/* ---- the largest and the least ---- */

/* The first place along a dim with the largest or smallest element; places that are not `alive` do
 * not count (-1: all do). */
static lk_status first_best(const lc_asker *ask, int x, int d, bool least, int alive, bool keep,
                            int *out) {
	int best, at, end, lowest, rank = lc_node_at(ask->p, x)->rank;
	lc_op most = least ? LC_RED_MIN : LC_RED_MAX;
	lc_op other = least ? LC_RED_MAX : LC_RED_MIN;
	lc_dim n = lc_node_at(ask->p, x)->dim[d];
	int among = x;
	if (alive >= 0) {
		LK_TRY(lc_ask_reduced(ask, other, x, 1u << d, true, &lowest));
		LK_TRY(choose(ask, alive, x, lowest, &among));
	}
	LK_TRY(lc_ask_reduced(ask, most, among, 1u << d, true, &best));
	LK_TRY(lc_ask_binary(ask, least ? LC_LE : LC_GE, x, best, &best));
	if (alive >= 0) LK_TRY(choose(ask, alive, best, alive, &best)); /* both hold */
	LK_TRY(places(ask, LC_I32, n, d, rank, &at));
	LK_TRY(lc_ask_reduced(ask, LC_RED_MAX, at, 1, true, &end));
	LK_TRY(choose(ask, best, at, end, &at));
	return lc_ask_reduced(ask, LC_RED_MIN, at, 1u << d, keep, out);
}

static lk_status compose_argmax(const lc_asker *ask, const lc_composed_call *call, int *out) {
	LK_TRY(need_whole(ask, call));
	return first_best(ask, call->node.in[0], call->node.d, false, -1, false, out);
}

static lk_status compose_argmin(const lc_asker *ask, const lc_composed_call *call, int *out) {
	LK_TRY(need_whole(ask, call));
	return first_best(ask, call->node.in[0], call->node.d, true, -1, false, out);
}

enum {
	TOP = 64 /* the most elements found one after the other; more are the first of all sorted */
};

static lk_status cut(const lc_asker *ask, lc_op op, int d, lc_dim n, int *x);

static lk_status compose_topk_index(const lc_asker *ask, const lc_composed_call *call, int *out) {
	int x = call->node.in[0], d = call->node.d, alive = -1, one, at;
	int64_t count, n;
	char text[LC_SHOWN];
	LK_TRY(need_whole(ask, call));
	const lc_dim along = lc_node_at(ask->p, x)->dim[d];
	bool known = lc_dim_known(ask->p, call->size[0], &count);
	if (known && count < 1) {
		lc_refuse(ask->p, &call->node, ask->err, "topk selects %lld elements", (long long)count);
		return lk_hint(ask->err, "select 1 element at least");
	}
	if (lc_dim_known(ask->p, along, &n) && n < count) {
		lc_refuse(ask->p, &call->node, ask->err, "%s has %lld elements along dim %d, not %lld",
		          lc_shown(ask->p, x, text), (long long)n, d, (long long)count);
		return lk_hint(ask->err, "select at most that many");
	}
	if (!known || count > TOP) {
		lc_node sorted = lc_ask_draft(ask, LC_ARGSORT);
		sorted.in[0] = x;
		sorted.d = (int8_t)d;
		sorted.reverse = 1;
		LK_TRY(lc_add(ask->p, &sorted, out, ask->err));
		return cut(ask, LC_FIRST_OF, d, call->size[0], out);
	}
	LK_TRY(places(ask, LC_I32, along, d, lc_node_at(ask->p, x)->rank, &at));
	for (int64_t k = 0; k < count; k++) {
		LK_TRY(first_best(ask, x, d, false, alive, true, &one));
		if (k == 0) *out = one;
		else {
			lc_node joined = lc_ask_draft(ask, LC_CONCAT);
			joined.in[0] = *out;
			joined.in[1] = one;
			joined.d = (int8_t)d;
			LK_TRY(lc_add(ask->p, &joined, out, ask->err));
		}
		if (k == count - 1) break;
		LK_TRY(lc_ask_binary(ask, LC_NE, at, one, &one));
		if (alive >= 0) LK_TRY(choose(ask, alive, one, alive, &alive));
		else alive = one;
	}
	return LK_OK;
}

/* ---- by index ---- */

/* x[.., N, ..] and index[.., K, ..]: [.., K, N, ..], summed over the N. */
static lk_status take_elements(const lc_asker *ask, int x, int index, int d, int *out) {
	const lc_dim n = lc_node_at(ask->p, x)->dim[d];
	LK_TRY(lc_ask_view(ask, LC_SPREAD, x, d, 0, 0, &x));
	LK_TRY(lc_ask_view(ask, LC_SPREAD, index, d + 1, 0, 0, &index));
	LK_TRY(placed(ask, x, index, n, d + 1, out));
	return lc_ask_reduced(ask, LC_RED_SUM, *out, 1u << (d + 1), false, out);
}

static lk_status compose_gather(const lc_asker *ask, const lc_composed_call *call, int *out) {
	LK_TRY(need_alike(ask, call, true));
	return take_elements(ask, call->node.in[0], call->node.in[1], call->node.d, out);
}

static lk_status compose_topk(const lc_asker *ask, const lc_composed_call *call, int *out) {
	int index;
	LK_TRY(compose_topk_index(ask, call, &index));
	return take_elements(ask, call->node.in[0], index, call->node.d, out);
}

/* x[.., K, ..] and its index: [.., n, K, ..], summed over the K. */
static lk_status compose_scatter_add(const lc_asker *ask, const lc_composed_call *call, int *out) {
	int x = call->node.in[0], index = call->node.in[1], d = call->node.d;
	LK_TRY(need_alike(ask, call, false));
	LK_TRY(lc_ask_view(ask, LC_SPREAD, x, d, 0, 0, &x));
	LK_TRY(lc_ask_view(ask, LC_SPREAD, index, d, 0, 0, &index));
	LK_TRY(placed(ask, x, index, call->size[0], d, out));
	return lc_ask_reduced(ask, LC_RED_SUM, *out, 1u << (d + 1), false, out);
}

static lk_status compose_onehot(const lc_asker *ask, const lc_composed_call *call, int *out) {
	int index = call->node.in[0], at;
	const lc_node *node = lc_node_at(ask->p, index);
	char text[LC_SHOWN];
	LK_TRY(lc_check_index(ask->p, &call->node, 0, ask->err));
	if (node->rank == LC_RANK)
		return lc_refuse(ask->p, &call->node, ask->err, "%s has %d dims, and onehot adds one",
		                 lc_shown(ask->p, index, text), node->rank);
	lc_dtype dtype = (lc_dtype)node->dtype;
	LK_TRY(lc_ask_view(ask, LC_SPREAD, index, node->rank, 0, 0, &index));
	LK_TRY(places(ask, dtype, call->size[0], 0, 1, &at));
	return lc_ask_truth(ask, LC_EQ, index, at, (lc_dtype)call->node.dtype, out);
}

/* ---- shapes ---- */

/* The first or last n elements along d, unless these are all. */
static lk_status cut(const lc_asker *ask, lc_op op, int d, lc_dim n, int *x) {
	if (lc_node_at(ask->p, *x)->dim[d] == n) return LK_OK;
	return lc_ask_view(ask, op, *x, d, 0, n, x);
}

/* Copy a result that would be the operand itself. */
static lk_status own(const lc_asker *ask, const lc_composed_call *call, int *out) {
	return *out == call->node.in[0] ? lc_ask_unary(ask, LC_COPY, *out, out) : LK_OK;
}

static lk_status compose_pad(const lc_asker *ask, const lc_composed_call *call, int *out) {
	int d = call->node.d;
	int64_t count;
	LK_TRY(need_dim_of(ask, call, d));
	for (int i = 0; i < 2; i++) {
		if (!lc_dim_known(ask->p, call->size[i], &count) || count >= 0) continue;
		lc_refuse(ask->p, &call->node, ask->err, "pad would add %lld elements", (long long)count);
		return lk_hint(ask->err, "narrow(x, d, begin, n) takes a part of a tensor");
	}
	*out = call->node.in[0];
	lc_dim n = lc_node_at(ask->p, *out)->dim[d];
	LK_TRY(lc_dim_plus(ask->p, n, call->size[1], 1, &n, ask->err));
	LK_TRY(cut(ask, LC_FIRST_OF, d, n, out));
	LK_TRY(lc_dim_plus(ask->p, n, call->size[0], 1, &n, ask->err));
	LK_TRY(cut(ask, LC_LAST_OF, d, n, out));
	return own(ask, call, out);
}

static lk_status compose_narrow(const lc_asker *ask, const lc_composed_call *call, int *out) {
	int x = call->node.in[0], d = call->node.d;
	lc_dim end;
	int64_t last, n;
	char text[LC_SHOWN];
	LK_TRY(need_dim_of(ask, call, d));
	if (lc_dim_known(ask->p, call->size[0], &last) && last < 0) {
		lc_refuse(ask->p, &call->node, ask->err, "narrow begins at place %lld, before the first",
		          (long long)last);
		return lk_hint(ask->err, "begin at 0; pad(x, d, before, after) adds zeros");
	}
	LK_TRY(lc_dim_plus(ask->p, call->size[0], call->size[1], 1, &end, ask->err));
	if (lc_dim_known(ask->p, end, &last) &&
	    lc_dim_known(ask->p, lc_node_at(ask->p, x)->dim[d], &n) && last > n) {
		lc_refuse(ask->p, &call->node, ask->err, "%s has %lld elements along dim %d, not %lld",
		          lc_shown(ask->p, x, text), (long long)n, d, (long long)last);
		return lk_hint(ask->err, "narrow(x, d, begin, n) takes n elements from place begin on");
	}
	*out = x;
	LK_TRY(cut(ask, LC_FIRST_OF, d, end, out));
	LK_TRY(cut(ask, LC_LAST_OF, d, call->size[1], out));
	return own(ask, call, out);
}

/* Removes dim d, whose extent is 1, by joining it with a neighbour. */
static lk_status without(const lc_asker *ask, int d, int *x) {
	bool last = d + 1 == lc_node_at(ask->p, *x)->rank;
	if (lc_node_at(ask->p, *x)->rank == 1) return lc_ask_reduced(ask, LC_RED_SUM, *x, 1, false, x);
	return lc_ask_view(ask, LC_JOIN, *x, last ? d - 1 : d, 0, 0, x);
}

/* Leading and trailing equal dims stay; those between are joined into one, then divided. */
static lk_status compose_reshape(const lc_asker *ask, const lc_composed_call *call, int *out) {
	const lc_dim *to = call->size;
	const lc_node *x = lc_in(ask->p, &call->node, 0);
	int front = 0, end = 0, from = x->rank, count = call->sizes;
	char text[LC_SHOWN];
	while (front < from && front < count && x->dim[front] == to[front]) front++;
	while (end < from - front && end < count - front &&
	       x->dim[from - 1 - end] == to[count - 1 - end])
		end++;
	int had = from - front - end, has = count - front - end;
	*out = call->node.in[0];
	for (int k = 1; k < had; k++) LK_TRY(lc_ask_view(ask, LC_JOIN, *out, front, 0, 0, out));
	if (had > 0 && has == 0 && lc_node_at(ask->p, *out)->dim[front] == 0)
		LK_TRY(without(ask, front, out));
	for (int k = 0; had == 0 && k < has; k++)
		LK_TRY(lc_ask_view(ask, LC_SPREAD, *out, front + k, 0, 0, out));
	for (int k = 0; had > 0 && k + 1 < has; k++)
		LK_TRY(lc_ask_view(ask, LC_PARTS, *out, front + k, 0, to[front + k], out));
	x = lc_node_at(ask->p, *out);
	if (x->rank == count && memcmp(x->dim, to, sizeof *to * (size_t)count) == 0)
		return own(ask, call, out);
	lc_refuse(ask->p, &call->node, ask->err, "reshape would change the number of elements of %s",
	          lc_shown(ask->p, call->node.in[0], text));
	return lk_hint(ask->err, "the products of the sizes before and after must be equal");
}

/* x less its maximum, whose exponentials are at most 1, and their sum. The result does not depend
 * on the subtracted value, so no gradient passes through it. */
static lk_status exponentials(const lc_asker *ask, const lc_composed_call *call, int *less, int *e,
                              int *sum) {
	int x = call->node.in[0], top;
	unsigned along = 1u << call->node.d;
	LK_TRY(need_whole(ask, call));
	LK_TRY(lc_ask_reduced(ask, LC_RED_MAX, x, along, true, &top));
	ask->p->nodes.at[top].stops = true;
	LK_TRY(lc_ask_binary(ask, LC_SUB, x, top, less));
	LK_TRY(lc_ask_unary(ask, LC_EXP, *less, e));
	return lc_ask_reduced(ask, LC_RED_SUM, *e, along, true, sum);
}

static lk_status compose_softmax(const lc_asker *ask, const lc_composed_call *call, int *out) {
	int less, e, sum;
	LK_TRY(exponentials(ask, call, &less, &e, &sum));
	return lc_ask_binary(ask, LC_DIV, e, sum, out);
}

static lk_status compose_log_softmax(const lc_asker *ask, const lc_composed_call *call, int *out) {
	int less, e, sum;
	LK_TRY(exponentials(ask, call, &less, &e, &sum));
	LK_TRY(lc_ask_unary(ask, LC_LOG, sum, &sum));
	return lc_ask_binary(ask, LC_SUB, less, sum, out);
}

/* ---- alltoallv ---- */

static lk_status need_rows_of_ranks(const lc_asker *ask, const lc_composed_call *call) {
	const lc_node *x = lc_in(ask->p, &call->node, 0), *counts = lc_in(ask->p, &call->node, 1);
	int axis = call->node.axis;
	lc_dim ranks;
	char text[LC_SHOWN];
	LK_TRY(lc_check_index(ask->p, &call->node, 1, ask->err));
	LK_TRY(lc_dim_axis(ask->p, axis, &ranks, ask->err));
	for (int i = 0; i < 2; i++) {
		if (lc_in(ask->p, &call->node, i)->layout[axis].kind == LC_L) continue;
		lc_refuse(ask->p, &call->node, ask->err, "%s is not local to each rank of %s",
		          lc_shown(ask->p, call->node.in[i], text), ask->p->axes[axis].name);
		return lk_hint(ask->err, "declare it @ L(%s), or make it of slices: local(x, %s)",
		               ask->p->axes[axis].name, ask->p->axes[axis].name);
	}
	bool rows = x->rank >= 2 && x->rank < LC_RANK && x->dim[0] == ranks;
	if (rows && counts->rank == 1 && counts->dim[0] == ranks) return LK_OK;
	lc_refuse(ask->p, &call->node, ask->err, "%s does not have %s for each rank of %s",
	          lc_shown(ask->p, call->node.in[rows ? 1 : 0], text), rows ? "a number" : "rows",
	          ask->p->axes[axis].name);
	return lk_hint(ask->err, "alltoallv(x[size(%s),C,..], counts[size(%s)], %s)",
	               ask->p->axes[axis].name, ask->p->axes[axis].name, ask->p->axes[axis].name);
}

/* Rows beyond a count are 0, rows beyond the bound, dim 1, have no place; then the padded blocks go
 * to every rank. */
static lk_status compose_alltoallv(const lc_asker *ask, const lc_composed_call *call, int *out) {
	int x = call->node.in[0], counts = call->node.in[1], row, zero;
	LK_TRY(need_rows_of_ranks(ask, call));
	lc_dim ranks = lc_node_at(ask->p, x)->dim[0], bound = lc_node_at(ask->p, x)->dim[1];
	int rank = lc_node_at(ask->p, x)->rank;
	LK_TRY(places(ask, (lc_dtype)lc_node_at(ask->p, counts)->dtype, bound, 1, rank, &row));
	for (int d = 1; d < rank; d++) LK_TRY(lc_ask_view(ask, LC_SPREAD, counts, d, 0, 0, &counts));
	LK_TRY(lc_ask_binary(ask, LC_LT, row, counts, &row));
	LK_TRY(lc_ask_number(ask, 0, &zero));
	LK_TRY(choose(ask, row, x, zero, out));
	lc_node move = lc_ask_draft(ask, LC_SLICED);
	move.axis = call->node.axis;
	move.d = 1;
	move.in[0] = *out;
	LK_TRY(lc_add(ask->p, &move, out, ask->err));
	move = lc_ask_draft(ask, LC_ALLTOALL);
	move.axis = call->node.axis;
	move.d = 1;
	move.in[0] = *out;
	LK_TRY(lc_add(ask->p, &move, out, ask->err)); /* sliced along dim 0 */
	move = lc_ask_draft(ask, LC_LOCAL);
	move.axis = call->node.axis;
	move.in[0] = *out;
	LK_TRY(lc_add(ask->p, &move, out, ask->err));
	LK_TRY(lc_ask_view(ask, LC_JOIN, *out, 0, 0, 0, out));
	return lc_ask_view(ask, LC_PARTS, *out, 0, 0, ranks, out);
}

static lk_status compose_stop(const lc_asker *ask, const lc_composed_call *call, int *out) {
	lc_node copy = lc_ask_draft(ask, LC_COPY);
	copy.in[0] = call->node.in[0];
	copy.stops = true;
	return lc_add(ask->p, &copy, out, ask->err);
}

const lc_composed_row lc_composed[LC_COMPOSED] = {
	{"argmax", compose_argmax, {LC_A_OPERAND, LC_A_DIM}},
	{"argmin", compose_argmin, {LC_A_OPERAND, LC_A_DIM}},
	{"topk", compose_topk, {LC_A_OPERAND, LC_A_DIM, LC_A_COUNT}},
	{"topk_index", compose_topk_index, {LC_A_OPERAND, LC_A_DIM, LC_A_COUNT}},
	{"gather", compose_gather, {LC_A_OPERAND, LC_A_OPERAND, LC_A_DIM}},
	{"scatter_add", compose_scatter_add, {LC_A_OPERAND, LC_A_OPERAND, LC_A_DIM, LC_A_COUNT}},
	{"onehot", compose_onehot, {LC_A_DTYPE, LC_A_OPERAND, LC_A_COUNT}},
	{"pad", compose_pad, {LC_A_OPERAND, LC_A_DIM, LC_A_COUNT, LC_A_COUNT}},
	{"narrow", compose_narrow, {LC_A_OPERAND, LC_A_DIM, LC_A_COUNT, LC_A_COUNT}},
	{"reshape", compose_reshape, {LC_A_OPERAND, LC_A_SIZES}},
	{"softmax", compose_softmax, {LC_A_OPERAND, LC_A_DIM}},
	{"log_softmax", compose_log_softmax, {LC_A_OPERAND, LC_A_DIM}},
	{"alltoallv", compose_alltoallv, {LC_A_OPERAND, LC_A_OPERAND, LC_A_AXIS}},
	{"stop", compose_stop, {LC_A_OPERAND}},
};
