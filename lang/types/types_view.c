/* types_view.c: operations that move elements. Each element of the result is one of the operand's,
 * or 0 outside it: dims are exchanged, divided, joined, repeated, cut and lengthened. A sliced dim
 * stays sliced if every slice of the one is a slice of the other. iota has no operand: its elements
 * are their own positions. cumsum is here only for its shapes and layouts: it adds up what it
 * traverses. */
#include <string.h>

#include "base/check.h"
#include "lang/types/rules.h"

/* ---- shapes ---- */

static lk_status view_dims(const lc_program *program, const lc_node *node, lk_error *err) {
	const lc_node *value = lc_in(program, node, 0);
	char x[LC_SHOWN];
	int last = node->op == LC_SPREAD ? value->rank : value->rank - 1;
	int d = node->op == LC_TRANSPOSE && node->e > node->d ? node->e : node->d;
	bool longer = node->op == LC_PARTS || node->op == LC_SPREAD;
	lc_shown(program, node->in[0], x);
	if (longer && value->rank == LC_RANK)
		return lc_refuse(program, node, err, "a tensor has at most %d dims", LC_RANK);
	if (node->op == LC_JOIN && d + 1 == value->rank) {
		lc_refuse(program, node, err, "no dim follows dim %d of %s", d, x);
		return lk_hint(err, "join(x, d) makes one dim of the dims d and d + 1");
	}
	if (d <= last) return LK_OK;
	lc_refuse(program, node, err, "%s has no dim %d", x, d);
	if (node->op == LC_PARTS && d == value->rank)
		return lk_hint(err, "a last dim of 1 is made by spread(%s, %d, 1)", x, d);
	return last < 0 ? lk_hint(err, "it is one number")
	                : lk_hint(err, "dims count from 0 to %d", last);
}

/* Insert a dim before dim d, or remove dim d. */
static void open_dim(lc_node *node, int d) {
	memmove(&node->dim[d + 1], &node->dim[d], sizeof *node->dim * (size_t)(node->rank - d));
	node->rank++;
}
static void close_dim(lc_node *node, int d) {
	memmove(&node->dim[d], &node->dim[d + 1], sizeof *node->dim * (size_t)(node->rank - d - 1));
	node->rank--;
}

static lk_status view_shape(lc_program *program, lc_node *node, lk_error *err) {
	const lc_dim of = node->dim[node->d];
	switch (node->op) {
	case LC_TRANSPOSE:
		node->dim[node->d] = node->dim[node->e];
		node->dim[node->e] = of;
		return LK_OK;
	case LC_PARTS:
		open_dim(node, node->d);
		node->dim[node->d] = node->count;
		return lc_dim_over(program, of, node->count, node->line, node->column,
		                   &node->dim[node->d + 1], err);
	case LC_JOIN:
		LK_TRY(lc_dim_times(program, of, node->dim[node->d + 1], &node->dim[node->d + 1], err));
		close_dim(node, node->d);
		return LK_OK;
	case LC_SPREAD: open_dim(node, node->d); break;
	case LC_CUMSUM: return LK_OK;
	default: break; /* first, last */
	}
	node->dim[node->d] = node->count;
	return LK_OK;
}

/* ---- layouts ---- */

/* Slices of the outer dim are slices of the joined one if all have equally many parts. */
static lk_status equal_parts(lc_program *program, const lc_node *node, lc_dim outer,
                             lk_error *err) {
	const lc_node *value = lc_in(program, node, 0);
	lc_dim ranks = 0, one;
	for (int a = 0; a < program->axis_count; a++) {
		if (value->layout[a].kind != LC_S || value->layout[a].dim != node->d) continue;
		LK_TRY(lc_dim_axis(program, a, &one, err));
		LK_TRY(lc_dim_times(program, ranks, one, &ranks, err));
	}
	return lc_divides(program, outer, ranks, node->line, node->column, err);
}

static lk_status view_sliced(lc_program *program, lc_node *node, int axis, lk_error *err) {
	LK_ASSERT(axis >= 0 && axis < program->axis_count);
	const lc_node *value = lc_in(program, node, 0);
	int d = value->layout[axis].dim, to = d;
	bool here = d == node->d;
	switch (node->op) {
	case LC_TRANSPOSE:
		if (here) to = node->e;
		else if (d == node->e) to = node->d;
		break;
	case LC_PARTS:
		if (d > node->d || (here && node->count == 0)) to = d + 1; /* a dim of 1 put before it */
		else if (here) LK_TRY(equal_parts(program, node, node->count, err));
		break;
	case LC_JOIN:
		if (here) LK_TRY(equal_parts(program, node, value->dim[d], err));
		if (d == node->d + 1 && value->dim[node->d] != 0)
			return lc_refuse_layout(program, node, 0, axis,
			                        ", the inner of the two that join: slices would be scattered",
			                        err);
		if (d > node->d) to = d - 1;
		break;
	case LC_SPREAD: to = d >= node->d ? d + 1 : d; break;
	case LC_CUMSUM:
		if (here)
			return lc_refuse_layout(program, node, 0, axis,
			                        ", along which the sums go on from rank to rank", err);
		break;
	default:
		if (here) return lc_refuse_layout(program, node, 0, axis, ", which is to be cut", err);
		break;
	}
	node->layout[axis].dim = (int8_t)to;
	if (node->dim[to] == value->dim[d] ||
	    (lc_dim_across(program, node->dim[to]) < 0 && lc_dim_across(program, value->dim[d]) < 0))
		return LK_OK;
	return lc_refuse_layout(program, node, 0, axis,
	                        ", across the tensors of its list, which would be cut elsewhere", err);
}

static lk_status view_layout(lc_program *program, lc_node *node, int axis, lk_error *err) {
	LK_ASSERT(axis >= 0 && axis < program->axis_count);
	const lc_layout l = lc_in(program, node, 0)->layout[axis];
	node->layout[axis] = l;
	if (l.kind == LC_S) return view_sliced(program, node, axis, err);
	if (l.kind == LC_P && l.reduce != LC_SUM && (node->op == LC_FIRST_OF || node->op == LC_LAST_OF))
		return lc_refuse_layout(program, node, 0, axis, ", and zeros would count in it", err);
	if (l.kind == LC_P && l.reduce != LC_SUM && node->op == LC_CUMSUM)
		return lc_refuse_layout(program, node, 0, axis, ", and sums of it are not sums of parts",
		                        err);
	return LK_OK;
}

/* ---- two tensors, one after the other ---- */

static lk_status type_concat(lc_program *program, lc_node *node, lc_adder *add, lk_error *err) {
	const lc_node *a = lc_in(program, node, 0), *b = lc_in(program, node, 1);
	char x[LC_SHOWN], y[LC_SHOWN];
	lc_dtype joined;
	LK_TRY(lc_join_dtypes(program, node, 0, 1, &joined, err));
	node->dtype = (uint8_t)joined;
	node->rank = a->rank;
	memcpy(node->dim, a->dim, sizeof node->dim);
	LK_TRY(view_dims(program, node, err));
	for (int d = 0; d < a->rank; d++) {
		if (b->rank == a->rank && (d == node->d || b->dim[d] == a->dim[d])) continue;
		lc_refuse(program, node, err, "%s and %s differ in dims other than dim %d",
		          lc_shown(program, node->in[0], x), lc_shown(program, node->in[1], y), node->d);
		return lk_hint(err, "concat(a, b, d) puts one after the other along dim d");
	}
	LK_TRY(lc_dim_plus(program, a->dim[node->d], b->dim[node->d], 1, &node->dim[node->d], err));
	for (int axis = 0; axis < program->axis_count; axis++) {
		for (int i = 0; i < 2; i++) {
			const lc_layout *layout = &lc_in(program, node, i)->layout[axis];
			if (layout->kind == LC_S && layout->dim == node->d)
				return lc_refuse_layout(program, node, i, axis, ", which is to grow", err);
		}
		LK_TRY(lc_map_layout(program, node, axis, add, err));
	}
	return LK_OK;
}

/* ---- the rule ---- */

static lk_status type_iota(lc_program *program, lc_node *node, lk_error *err) {
	if (node->dtype == LC_BOOL) {
		lc_refuse(program, node, err, "places are numbers, not bool");
		return lk_hint(err, "write iota(i32, ...)");
	}
	node->rank = 1;
	node->dim[0] = node->count;
	for (int a = 0; a < program->axis_count; a++) node->layout[a] = (lc_layout){.kind = LC_R};
	return LK_OK;
}

lk_status lc_type_view(lc_program *program, lc_node *node, lc_adder *add, lk_error *err) {
	char x[LC_SHOWN];
	if (node->op == LC_IOTA) return type_iota(program, node, err);
	for (int i = 0; i < node->inputs; i++) {
		if (!lc_is_weak(lc_in(program, node, i)->dtype)) continue;
		lc_refuse(program, node, err, "%s has no number format", lc_shown(program, node->in[i], x));
		return lk_hint(err, "give it one: cast(f32, %s)", x);
	}
	if (node->op == LC_CONCAT) return type_concat(program, node, add, err);
	const lc_node *value = lc_in(program, node, 0);
	LK_TRY(view_dims(program, node, err));
	if (node->op == LC_CUMSUM && value->dtype == LC_BOOL) {
		lc_refuse(program, node, err, "%s is bool, which cumsum does not add",
		          lc_shown(program, node->in[0], x));
		return lk_hint(err, "cast it: cast(i32, %s)", x);
	}
	node->dtype = value->dtype;
	node->rank = value->rank;
	memcpy(node->dim, value->dim, sizeof node->dim);
	LK_TRY(view_shape(program, node, err));
	for (int a = 0; a < program->axis_count; a++) LK_TRY(view_layout(program, node, a, err));
	return LK_OK;
}
