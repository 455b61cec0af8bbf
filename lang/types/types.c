/* types.c: lc_add: the only way to append a value; shared parts of the type rules, leaves, updates
 * and outputs. */
#include <math.h>
#include <string.h>

#include "base/check.h"
#include "lang/types/rules.h"

/* ---- leaves, updates, outputs ---- */

static lk_status check_declared_layout(const lc_program *program, const lc_node *node, int axis,
                                       lk_error *err) {
	LK_ASSERT(axis >= 0 && axis < program->axis_count);
	const lc_layout *layout = &node->layout[axis];
	if (layout->kind == LC_ROOT && program->axes[axis].size &&
	    layout->root >= program->axes[axis].size)
		return lc_refuse(program, node, err, "there is no rank %d on %s, which has %lld",
		                 layout->root, program->axes[axis].name,
		                 (long long)program->axes[axis].size);
	if (layout->kind != LC_S) return LK_OK;
	if (layout->dim >= node->rank || layout->dim < 0) {
		lc_refuse(program, node, err, "S(%d,%s) slices dim %d of %d", layout->dim,
		          program->axes[axis].name, layout->dim, node->rank);
		return node->rank ? lk_hint(err, "dims count from 0 to %d", node->rank - 1)
		                  : lk_hint(err, "a scalar cannot be sliced");
	}
	return LK_OK;
}

static lk_status check_shape(const lc_program *program, lc_node *node, lk_error *err) {
	for (int d = 0; d < node->rank; d++) {
		int64_t known;
		int32_t list = lc_dim_list(program, node->dim[d]);
		if (lc_dim_known(program, node->dim[d], &known) && known < 1) {
			lc_refuse(program, node, err, "dim %d has %lld elements", d, (long long)known);
			return lk_hint(err, "dims have 1 element at least");
		}
		if (list < 0 || list == node->list) continue;
		if (node->list >= 0)
			return lc_refuse(program, node, err, "dims of two lists, %s and %s, in one tensor",
			                 program->lists.at[node->list], program->lists.at[list]);
		node->list = list;
	}
	return LK_OK;
}

static lk_status type_leaf(lc_program *program, lc_node *node, lk_error *err) {
	node->inputs = 0;
	if (node->op == LC_CONST) {
		if (!isfinite(node->number) || node->number < 0 || signbit(node->number))
			return lc_refuse(program, node, err, "a constant must be finite and not negative");
		node->dtype = node->number == floor(node->number) && node->number <= 9007199254740992.0
		                  ? LC_WEAK_INT
		                  : LC_WEAK_REAL;
	} else if (node->op == LC_SIZE) {
		node->dtype = LC_WEAK_INT;
		if (node->axis < 0) node->list = program->named[node->symbol].list;
	} else if (node->op == LC_SCALAR && node->rank != 0) {
		return lc_refuse(program, node, err, "a scalar has no dims");
	}
	for (int a = 0; a < program->axis_count; a++)
		LK_TRY(check_declared_layout(program, node, a, err));
	return LK_OK;
}

/* Suggest the cheapest conversion from a new value's layout to its state's, if one step does it. */
static lk_status update_layout(const lc_program *program, const lc_node *node, int axis,
                               const char *why, lk_error *err) {
	LK_ASSERT(axis >= 0 && axis < program->axis_count);
	const lc_layout *from = &lc_in(program, node, 1)->layout[axis],
					*to = &lc_in(program, node, 0)->layout[axis];
	const char *name = program->axes[axis].name;
	char x[LC_SHOWN];
	lc_shown(program, node->in[1], x);
	lc_refuse_layout(program, node, 1, axis, why, err);
	if (to->kind != LC_S || to->turn || from->turn) return LK_ERR_INPUT;
	if (from->kind == LC_R)
		return lk_hint(err, "take its part: slice(%s, %d, %s)", x, to->dim, name);
	if (from->kind == LC_S)
		return lk_hint(err, "add alltoall(%s, %d, %d, %s)", x, from->dim, to->dim, name);
	if (from->kind != LC_P) return LK_ERR_INPUT;
	return lk_hint(err, "add reducescatter(%s, %s, %s, dim=%d)", x,
	               lc_reduce_name((lc_reduce)from->reduce), name, to->dim);
}

static lk_status type_update(lc_program *program, lc_node *node, lk_error *err) {
	const lc_node *value = lc_in(program, node, 0), *e = lc_in(program, node, 1);
	char x[LC_SHOWN], have[128], want[128];
	if (value->op != LC_STATE && value->op != LC_UPDATE) {
		lc_refuse(program, node, err, "%s is not a state, and its value cannot change",
		          lc_shown(program, node->in[0], x));
		return lk_hint(err, "declare it with state, or define a new value: NAME = ...");
	}
	if (!lc_same_group(&node->at, &value->at)) {
		lc_refuse(program, node, err, "the state %s is everywhere, and its new value at %s alone",
		          value->name ? value->name : "?",
		          lc_group_text(program, &node->at, have, sizeof have));
		return lk_hint(err, "declare the state at %s", have);
	}
	lc_node got = *e, wanted = *value;
	got.list = wanted.list = value->list;
	bool same = e->rank == value->rank && e->dtype == value->dtype && e->list == value->list &&
	            memcmp(e->dim, value->dim, sizeof *e->dim * value->rank) == 0;
	for (int a = 0; a < program->axis_count; a++) {
		if (lc_same_layout(&value->layout[a], &e->layout[a]) || !same) continue;
		lc_type_text(program, &wanted, want, sizeof want);
		char why[216];
		snprintf(why, sizeof why, ", but the state %.63s is %.120s",
		         value->name ? value->name : "?", want);
		return update_layout(program, node, a, why, err);
	}
	node->name = value->name;
	node->dtype = value->dtype;
	node->rank = value->rank;
	memcpy(node->dim, value->dim, sizeof node->dim);
	memcpy(node->layout, value->layout, sizeof node->layout);
	if (same) return LK_OK;
	lc_type_text(program, &got, have, sizeof have);
	lc_type_text(program, &wanted, want, sizeof want);
	lc_refuse(program, node, err, "the state %s is %s and its new value %s",
	          value->name ? value->name : "?", want, have);
	if (e->dtype != value->dtype)
		return lk_hint(err, "add cast(%s, ...)", lc_dtype_name(value->dtype));
	return lk_hint(err, "a state keeps its shape");
}

static lk_status type_out(lc_program *program, lc_node *node, lk_error *err) {
	const lc_node *value = lc_in(program, node, 0);
	char text[LC_SHOWN];
	if (lc_is_weak(value->dtype)) {
		lc_refuse(program, node, err, "%s has no number format",
		          lc_shown(program, node->in[0], text));
		return lk_hint(err, "give it one: cast(f32, %s)", text);
	}
	node->dtype = value->dtype;
	node->rank = value->rank;
	memcpy(node->dim, value->dim, sizeof node->dim);
	memcpy(node->layout, value->layout, sizeof node->layout);
	return LK_OK;
}

/* ---- lists and groups: operands must agree; those without one match any ---- */

static lk_status join_lists(lc_program *program, lc_node *node, lk_error *err) {
	for (int i = 0; i < node->inputs && node->op != LC_TOTAL; i++) {
		int32_t list = lc_in(program, node, i)->list;
		char x[LC_SHOWN];
		if (list < 0 || list == node->list) continue;
		if (node->list >= 0) {
			lc_refuse(program, node, err, "%s belongs to the list %s, the other operand to %s",
			          lc_shown(program, node->in[i], x), program->lists.at[list],
			          program->lists.at[node->list]);
			return lk_hint(err, "take total(...) of one, or make both of one list");
		}
		node->list = list;
	}
	return LK_OK;
}

static lk_status types_join_groups(lc_program *program, lc_node *node, lk_error *err) {
	char x[LC_SHOWN], a[96], b[96];
	lc_group wanted = node->at;
	node->at.axis = -1;
	for (int i = 0; i < node->inputs; i++) {
		const lc_group *group = &lc_in(program, node, i)->at;
		if (group->axis < 0 || lc_same_group(group, &node->at)) continue;
		if (node->at.axis >= 0) {
			lc_refuse(program, node, err, "%s lives at %s, the other operand at %s",
			          lc_shown(program, node->in[i], x), lc_group_text(program, group, a, sizeof a),
			          lc_group_text(program, &node->at, b, sizeof b));
			return group->axis == node->at.axis ? lk_hint(err, "send one to the other's group")
			                                    : lk_hint(err, "use one axis for groups");
		}
		node->at = *group;
	}
	if (node->op == LC_SEND) {
		lc_group here = node->at;
		node->at = wanted; /* its destination */
		if (here.axis < 0 || lc_same_group(&here, &node->from)) return LK_OK;
		lc_refuse(program, node, err, "%s lives at %s and is sent from %s",
		          lc_shown(program, node->in[0], x), lc_group_text(program, &here, a, sizeof a),
		          lc_group_text(program, &node->from, b, sizeof b));
		return lk_hint(err, "send it from where it is");
	}
	if (wanted.axis < 0 || lc_same_group(&wanted, &node->at)) return LK_OK;
	if (node->at.axis < 0) {
		node->at = wanted;
		return LK_OK;
	}
	lc_refuse(program, node, err, "what it is made of lives at %s, not at %s",
	          lc_group_text(program, &node->at, a, sizeof a),
	          lc_group_text(program, &wanted, b, sizeof b));
	return lk_hint(err, "add send(..., %s: from -> to)", program->axes[wanted.axis].name);
}

static lk_status types_check_groups(const lc_program *program, const lc_node *node, lk_error *err) {
	if (node->at.axis < 0 || node->layout[node->at.axis].kind == LC_R) return LK_OK;
	lc_refuse(program, node, err, "a value at one group of %s cannot be divided over %s",
	          program->axes[node->at.axis].name, program->axes[node->at.axis].name);
	return lk_hint(err, "leave %s out of its layout", program->axes[node->at.axis].name);
}

/* ---- adding ---- */

static lk_status types_apply(lc_program *program, lc_node *node, lk_error *err) {
	switch (lc_ops[node->op].family) {
	case LC_LEAF: return type_leaf(program, node, err);
	case LC_MAP:
	case LC_DROP: return lc_type_map(program, node, lc_add, err);
	case LC_CONTRACT: return lc_type_contract(program, node, lc_add, err);
	case LC_ROWS: return lc_type_rows(program, node, lc_add, err);
	case LC_ATTEND: return lc_type_attend(program, node, lc_add, err);
	case LC_BLOCK: return lc_type_block(program, node, err);
	case LC_VIEW: return lc_type_view(program, node, lc_add, err);
	case LC_RED:
	case LC_TOTALS: return lc_type_red(program, node, err);
	case LC_COMM:
	case LC_MOVE: return lc_type_comm(program, node, err);
	case LC_EFFECT:
		return node->op == LC_UPDATE ? type_update(program, node, err)
		                             : type_out(program, node, err);
	}
	return lk_fail(err, LK_ERR_INTERNAL, NULL, "an operation without a family");
}

static lk_status check_draft(const lc_program *program, const lc_node *node, lk_error *err) {
	if (node->op >= LC_OP_COUNT || node->inputs != lc_ops[node->op].operands ||
	    node->rank > LC_RANK)
		return lk_fail(err, LK_ERR_INTERNAL, NULL, "a draft that is not an operation");
	for (int i = 0; i < node->inputs; i++) {
		if (node->in[i] < 0 || (size_t)node->in[i] >= program->nodes.count)
			return lk_fail(err, LK_ERR_INTERNAL, NULL, "an operand that does not exist");
		if (lc_in(program, node, i)->op == LC_OUT)
			return lk_fail(err, LK_ERR_INTERNAL, NULL, "an output as operand");
	}
	if (node->axis >= program->axis_count || node->at.axis >= program->axis_count ||
	    (node->axis < 0 && lc_ops[node->op].family == LC_COMM))
		return lk_fail(err, LK_ERR_INTERNAL, NULL, "an axis that does not exist");
	return LK_OK;
}

/* An old version of an updated state could not be named in the text. */
static lk_status check_versions(const lc_program *program, const lc_node *node, lk_error *err) {
	for (int i = 0; i < node->inputs; i++) {
		const lc_node *value = lc_in(program, node, i);
		if ((value->op != LC_STATE && value->op != LC_UPDATE) || !value->name ||
		    lc_value_find(program, value->name) == node->in[i])
			continue;
		const lc_node *now = &program->nodes.at[lc_value_find(program, value->name)];
		lc_refuse(program, node, err,
		          "this reads the state %s as it was before its update in line %d", value->name,
		          now->line);
		return lk_hint(err, "compute it ahead of that line, or keep the state: old = copy(%s)",
		               value->name);
	}
	return LK_OK;
}

/* Invariants of every value, on which readers of programs rely: operands come before the value
 * (SSA), dims are canonical ids, each layout is well formed. */
static void assert_value_sound(const lc_program *program, const lc_node *node) {
	LK_ASSERT(node->op < LC_OP_COUNT && node->dtype < LC_DTYPE_COUNT && node->rank <= LC_RANK);
	LK_ASSERT(node->inputs == lc_ops[node->op].operands);
	for (int i = 0; i < node->inputs; i++)
		LK_ASSERT(node->in[i] >= 0 && (size_t)node->in[i] < program->nodes.count);
	for (int d = 0; d < node->rank; d++)
		LK_ASSERT(node->dim[d] >= 0 && (size_t)node->dim[d] < program->dims.count);
	for (int axis = 0; axis < program->axis_count; axis++) {
		const lc_layout *layout = &node->layout[axis];
		LK_ASSERT(layout->kind <= LC_L);
		LK_ASSERT(layout->kind != LC_S || (layout->dim >= 0 && layout->dim < node->rank));
		LK_ASSERT(layout->kind != LC_P || layout->reduce < LC_REDUCES);
		LK_ASSERT(layout->kind != LC_ROOT || layout->root >= 0);
	}
	LK_ASSERT(node->at.axis < program->axis_count);
	LK_ASSERT(node->list < (int32_t)program->lists.count);
}

lk_status lc_add(lc_program *program, const lc_node *draft, int *id, lk_error *err) {
	lc_node n = *draft;
	LK_TRY(check_draft(program, &n, err));
	LK_TRY(check_versions(program, &n, err));
	LK_TRY(join_lists(program, &n, err));
	LK_TRY(types_join_groups(program, &n, err));
	lk_status status = types_apply(program, &n, err);
	if (status == LK_ERR_INPUT && err && !err->where[0]) {
		lk_error found = *err; /* overflowing sizes have no place in the text */
		lc_refuse(program, &n, err, "%s", found.what);
		return lk_hint(err, "%s", found.hint);
	}
	LK_TRY(status);
	LK_TRY(check_shape(program, &n, err));
	if (lc_ops[n.op].family != LC_LEAF)
		for (int a = 0; a < program->axis_count; a++)
			LK_TRY(check_declared_layout(program, &n, a, err));
	LK_TRY(types_check_groups(program, &n, err));
	if (program->nodes.count >= LC_VALUES)
		return lc_refuse(program, &n, err, "a program has at most %d values", LC_VALUES);
	assert_value_sound(program, &n);
	if (!lk_push(&program->nodes)) return lk_oom(err);
	*lk_last(&program->nodes) = n;
	if (id) *id = (int)program->nodes.count - 1;
	return LK_OK;
}
