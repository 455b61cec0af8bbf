/* types_map.c: pointwise operations and dropout: shapes align at their last dims, an extent of 1 is
 * repeated; layouts must agree, except for free conversions: a replicated operand next to a sliced
 * one is sliced. */

#include "lang/types/rules.h"
#include "base/check.h"

/* ---- shape ---- */

static lk_status broadcast(const lc_program *program, lc_node *node, lk_error *err) {
	char x[LC_SHOWN], y[LC_SHOWN], dx[64], dy[64];
	int from[LC_RANK] = {0}; /* the operand that an extent comes from */
	node->rank = 0;
	for (int i = 0; i < node->inputs; i++)
		if (lc_in(program, node, i)->rank > node->rank) node->rank = lc_in(program, node, i)->rank;
	for (int d = 0; d < node->rank; d++) node->dim[d] = 0;
	for (int i = 0; i < node->inputs; i++) {
		const lc_node *value = lc_in(program, node, i);
		for (int d = 0; d < value->rank; d++) {
			int at = d + node->rank - value->rank;
			if (value->dim[d] == 0 || value->dim[d] == node->dim[at]) continue;
			if (node->dim[at] == 0) {
				node->dim[at] = value->dim[d];
				from[at] = i;
				continue;
			}
			lc_refuse(program, node, err, "dim %d of %s has %s elements, where %s has %s", d,
			          lc_shown(program, node->in[i], x),
			          lc_dim_text(program, value->dim[d], dx, sizeof dx),
			          lc_shown(program, node->in[from[at]], y),
			          lc_dim_text(program, node->dim[at], dy, sizeof dy));
			return lk_hint(err, "dims align at the last one and are equal or 1");
		}
	}
	return LK_OK;
}

/* ---- format ---- */

static bool needs_real(int op) {
	return op == LC_SQRT || (op >= LC_EXP && op <= LC_ERF) || op == LC_GELU || op == LC_SIGMOID ||
	       (op >= LC_SIN && op <= LC_ROUND);
}

static lk_status types_map_format(const lc_program *program, lc_node *node, lk_error *err) {
	char x[LC_SHOWN];
	lc_dtype joined;
	if (node->op == LC_CAST) return LK_OK; /* its dtype is its argument */
	if (node->op == LC_COPY) {
		node->dtype = lc_in(program, node, 0)->dtype;
		return LK_OK;
	}
	if (node->op == LC_SELECT && lc_in(program, node, 0)->dtype != LC_BOOL) {
		lc_refuse(program, node, err, "%s is %s, and select takes a bool condition",
		          lc_shown(program, node->in[0], x), lc_dtype_name(lc_in(program, node, 0)->dtype));
		return lk_hint(err, "compare it: %s > 0", x);
	}
	for (int i = node->op == LC_SELECT; i < node->inputs; i++) {
		lc_dtype t = lc_in(program, node, i)->dtype;
		bool logical = node->op == LC_SELECT || node->op == LC_EQ ||
		               node->op == LC_NE; /* these take bool as well */
		if ((t != LC_BOOL || logical) &&
		    (lc_is_real(t) || lc_is_weak(t) || !(needs_real(node->op) || node->op == LC_DROPOUT)))
			continue;
		lc_refuse(program, node, err, "%s is %s, which %s does not take",
		          lc_shown(program, node->in[i], x), lc_dtype_name(t), lc_ops[node->op].name);
		return lk_hint(err, "cast it: cast(f32, %s)", x);
	}
	LK_TRY(lc_join_dtypes(program, node, node->op == LC_SELECT, node->inputs - 1, &joined, err));
	if (lc_compares(node->op)) node->dtype = LC_BOOL;
	else if (joined == LC_WEAK_INT && needs_real(node->op)) node->dtype = LC_WEAK_REAL;
	else node->dtype = joined;
	if (joined == LC_WEAK_INT && (node->op == LC_DIV || node->op == LC_POW))
		node->dtype = LC_WEAK_REAL;
	return LK_OK;
}

/* ---- layout ---- */

/* Dim d of operand i as a dim of the result. */
static int types_map_placed(const lc_program *program, const lc_node *node, int i, int d) {
	return d + node->rank - lc_in(program, node, i)->rank;
}

static lk_status local(const lc_program *program, lc_node *node, int axis, lk_error *err) {
	LK_ASSERT(axis >= 0 && axis < program->axis_count);
	for (int i = 0; i < node->inputs; i++) {
		int kind = lc_in(program, node, i)->layout[axis].kind;
		if (kind != LC_L && kind != LC_R)
			return lc_refuse_layout(program, node, i, axis, ", and is combined with a local value",
			                        err);
	}
	node->layout[axis] = (lc_layout){.kind = LC_L};
	return LK_OK;
}

/* Sums of partial values are partial; a whole operand would be added once per rank. Products,
 * quotients and choices are linear in one operand. A copy or a change of format may precede any
 * reduction (it then rounds earlier). */
static lk_status types_map_partial(const lc_program *program, lc_node *node, int axis,
                                   lk_error *err) {
	LK_ASSERT(axis >= 0 && axis < program->axis_count);
	int parts = 0, which = 0, others = -1;
	for (int i = 0; i < node->inputs; i++) {
		int kind = lc_in(program, node, i)->layout[axis].kind;
		if (kind == LC_P) {
			parts++;
			which = i;
		} else if (kind != LC_R || others < 0) others = i;
	}
	const lc_layout *layout = &lc_in(program, node, which)->layout[axis];
	bool others_whole = others < 0 || lc_in(program, node, others)->layout[axis].kind == LC_R,
		 sum = layout->reduce == LC_SUM;
	bool fine = false;
	const char *why = "";
	char text[160];
	switch (node->op) {
	case LC_CAST:
		fine = lc_is_real(lc_in(program, node, 0)->dtype) && lc_is_real(node->dtype);
		why = ", and this cast is not linear";
		break;
	case LC_COPY: fine = true; break;
	case LC_NEG: fine = sum; break;
	case LC_CONCAT:
	case LC_ADD:
	case LC_SUB:
		fine = sum && parts == 2 && lc_in(program, node, 0)->layout[axis].reduce == LC_SUM;
		if (!fine && parts == 1 && others_whole) {
			char x[LC_SHOWN];
			snprintf(text, sizeof text, "; every rank would add %s, size(%s) times in all",
			         lc_shown(program, node->in[others], x), program->axes[axis].name);
			why = text;
		}
		break;
	case LC_MUL:
		fine = sum && parts == 1 && others_whole;
		why = parts == 2 ? ", and so is the other factor" : "";
		break;
	case LC_DIV: /* integer quotients are rounded, and so are not linear */
		fine = sum && parts == 1 && which == 0 && others_whole && lc_is_real((lc_dtype)node->dtype);
		why = which == 0 ? "" : ", and so cannot be divided by";
		break;
	case LC_SELECT:
		fine = sum && lc_in(program, node, 0)->layout[axis].kind == LC_R;
		for (int i = 1; i <= 2 && fine; i++) { /* 0 on every rank is part of a sum, too */
			const lc_node *value = lc_in(program, node, i);
			const lc_layout *l = &value->layout[axis];
			fine = (l->kind == LC_P && l->reduce == LC_SUM) ||
			       (value->op == LC_CONST && value->number == 0);
		}
		break;
	default: break;
	}
	if (!fine && !*why) {
		snprintf(text, sizeof text, ", and %s of parts is not a part of the result",
		         lc_ops[node->op].name);
		why = text;
	}
	if (!fine) return lc_refuse_layout(program, node, which, axis, why, err);
	node->layout[axis] = *layout;
	return LK_OK;
}

static lk_status types_map_sliced(lc_program *program, lc_node *node, int axis, int which,
                                  lc_adder *add, lk_error *err) {
	LK_ASSERT(axis >= 0 && axis < program->axis_count);
	lc_layout l = lc_in(program, node, which)->layout[axis];
	char x[LC_SHOWN], y[LC_SHOWN];
	l.dim = (int8_t)types_map_placed(program, node, which, l.dim);
	for (int i = 0; i < node->inputs; i++) {
		const lc_node *value = lc_in(program, node, i);
		const lc_layout *other = &value->layout[axis];
		int d = l.dim - (node->rank - value->rank);
		if (other->kind == LC_S && value->dim[other->dim] == 0 &&
		    node->dim[types_map_placed(program, node, i, other->dim)] != 0)
			return lc_refuse_layout(program, node, i, axis,
			                        ", where its one element is repeated on all ranks", err);
		if (other->kind == LC_S) {
			if (types_map_placed(program, node, i, other->dim) == l.dim && other->turn == l.turn)
				continue;
			lc_shown(program, node->in[which], x);
			lc_shown(program, node->in[i], y);
			if (types_map_placed(program, node, i, other->dim) == l.dim) {
				lc_refuse(program, node, err,
				          "the slices of %s and %s are of different ranks of %s", x, y,
				          program->axes[axis].name);
				return lk_hint(err, "turn one: permute(%s, %s, shift=%d)", y,
				               program->axes[axis].name, l.turn - other->turn);
			}
			lc_refuse(program, node, err, "over %s, %s is sliced along another dim than %s",
			          program->axes[axis].name, y, x);
			return d < 0 ? lk_hint(err, "add allgather(%s, %d, %s)", y, other->dim,
			                       program->axes[axis].name)
			             : lk_hint(err, "add alltoall(%s, %d, %d, %s)", y, other->dim, d,
			                       program->axes[axis].name);
		}
		if (other->kind != LC_R)
			return lc_refuse_layout(program, node, i, axis, ", and is combined with a sliced value",
			                        err);
		if (d < 0 || value->dim[d] == 0)
			continue; /* repeated along the sliced dim: every slice sees all of it */
		if (l.turn)
			return lc_refuse_layout(program, node, which, axis,
			                        " and turned, with a replicated value", err);
		LK_TRY(lc_slice_operand(program, node, i, d, axis, add, err));
	}
	node->layout[axis] = l;
	return LK_OK;
}

static lk_status rooted(const lc_program *program, lc_node *node, int axis, int which,
                        lk_error *err) {
	LK_ASSERT(axis >= 0 && axis < program->axis_count);
	lc_layout l = lc_in(program, node, which)->layout[axis];
	for (int i = 0; i < node->inputs; i++) {
		const lc_layout *other = &lc_in(program, node, i)->layout[axis];
		if (other->kind != LC_R && !lc_same_layout(other, &l))
			return lc_refuse_layout(program, node, i, axis,
			                        ", and the other operand has another layout", err);
	}
	node->layout[axis] = l;
	return LK_OK;
}

lk_status lc_map_layout(lc_program *program, lc_node *node, int axis, lc_adder *add,
                        lk_error *err) {
	LK_ASSERT(axis >= 0 && axis < program->axis_count);
	int seen[LC_L + 1] = {-1, -1, -1, -1, -1};
	for (int i = node->inputs; i-- > 0;) seen[lc_in(program, node, i)->layout[axis].kind] = i;
	node->layout[axis] = (lc_layout){.kind = LC_R};
	if (node->op == LC_DROPOUT && seen[LC_L] >= 0)
		return lc_refuse_layout(program, node, 0, axis,
		                        ", so that its elements have no global index to draw by", err);
	if (node->op == LC_DROPOUT && seen[LC_P] >= 0)
		return lc_refuse_layout(program, node, 0, axis,
		                        ", and dropout of parts would drop each part differently", err);
	if (seen[LC_L] >= 0) return local(program, node, axis, err);
	if (seen[LC_P] >= 0) {
		if (seen[LC_S] >= 0)
			return lc_refuse_layout(program, node, seen[LC_P], axis,
			                        ", and is combined with a sliced value", err);
		return types_map_partial(program, node, axis, err);
	}
	if (seen[LC_S] >= 0) return types_map_sliced(program, node, axis, seen[LC_S], add, err);
	if (seen[LC_ROOT] >= 0) return rooted(program, node, axis, seen[LC_ROOT], err);
	return LK_OK;
}

lk_status lc_type_map(lc_program *program, lc_node *node, lc_adder *add, lk_error *err) {
	if (node->op == LC_DROPOUT && !(node->number >= 0 && node->number < 1)) {
		lc_refuse(program, node, err, "dropout has probability %g", node->number);
		return lk_hint(err, "give a probability of at least 0 and less than 1");
	}
	LK_TRY(broadcast(program, node, err));
	LK_TRY(types_map_format(program, node, err));
	for (int a = 0; a < program->axis_count; a++) LK_TRY(lc_map_layout(program, node, a, add, err));
	return LK_OK;
}
