/* types.c: lc_add: the one way to append a value; what all type rules share, leaves, updates and outputs. */
#include <math.h>
#include <string.h>

#include "lang/types/program.h"

lc_node lc_draft(lc_op op, int line, int column) {
	lc_node n = {.op = (uint8_t)op, .axis = -1, .list = -1, .symbol = -1, .line = line, .column = column};
	n.inputs = (uint8_t)lc_ops[op].operands;
	n.at.axis = n.from.axis = -1;
	n.fuse = n.overlap = n.bucket = -1;
	n.stride = 1;
	return n;
}

/* ---- messages ---- */

lk_status lc_refuse_layout(const lc_program *p, const lc_node *n, int i, int axis, const char *why, lk_error *err) {
	const lc_layout *l = &lc_in(p, n, i)->layout[axis];
	const char *name = p->axes[axis].name;
	char x[LC_SHOWN];
	lc_shown(p, n->in[i], x);
	switch (l->kind) {
	case LC_P:
		lc_refuse(p, n, err, "%s is partial over %s%s", x, name, why);
		return lk_hint(err, "add allreduce(%s, %s, %s)", x, lc_reduce_name(l->reduce), name);
	case LC_S:
		lc_refuse(p, n, err, "%s is sliced over %s along dim %d%s", x, name, l->dim, why);
		if (l->turn) return lk_hint(err, "turn it back first: permute(%s, %s, shift=%d)", x, name, -l->turn);
		return lk_hint(err, "add allgather(%s, %d, %s)", x, l->dim, name);
	case LC_ROOT:
		lc_refuse(p, n, err, "%s is on rank %d of %s alone%s", x, l->root, name, why);
		return lk_hint(err, "add broadcast(%s, %s)", x, name);
	case LC_L:
		lc_refuse(p, n, err, "%s is local to each rank of %s%s", x, name, why);
		return lk_hint(err, "say what its parts are: sliced(%s, DIM, %s), or declare it partial, P(sum,%s)", x, name,
					   name);
	default:
		lc_refuse(p, n, err, "%s is the same on all ranks of %s%s", x, name, why);
		return lk_hint(err, "take its part of each rank: slice(%s, DIM, %s)", x, name);
	}
}

/* ---- formats ---- */

lk_status lc_join_dtypes(const lc_program *p, const lc_node *n, int first, int last, lc_dtype *out, lk_error *err) {
	int strong = -1;
	bool real = false, weak = false;
	char x[LC_SHOWN], y[LC_SHOWN];
	for (int i = first; i <= last; i++) {
		const lc_node *a = lc_in(p, n, i);
		real |= a->dtype == LC_WEAK_REAL, weak |= lc_is_weak(a->dtype);
		if (lc_is_weak(a->dtype)) continue;
		if (strong >= 0 && lc_in(p, n, strong)->dtype != a->dtype) {
			const char *to = lc_dtype_name(lc_in(p, n, strong)->dtype), *from = lc_dtype_name(a->dtype);
			lc_refuse(p, n, err, "%s is %s and %s is %s", lc_shown(p, n->in[strong], x), to, lc_shown(p, n->in[i], y),
					  from);
			return lk_hint(err, "make them equal: cast(%s, %s)", to, y);
		}
		if (strong < 0) strong = i;
	}
	if (strong < 0) {
		*out = real ? LC_WEAK_REAL : LC_WEAK_INT;
		return LK_OK;
	}
	*out = lc_in(p, n, strong)->dtype;
	if (lc_is_real(*out) || (lc_is_integer(*out) && !real) || (*out == LC_BOOL && !weak)) return LK_OK;
	lc_refuse(p, n, err, "%s is %s, which a number does not fit", lc_shown(p, n->in[strong], x), lc_dtype_name(*out));
	return lk_hint(err, "cast it first: cast(f32, %s)", x);
}

/* ---- slices that the rules insert ---- */

lk_status lc_slice_operand(lc_program *p, lc_node *n, int i, int d, int axis, lk_error *err) {
	lc_node slice = lc_draft(LC_SLICE, n->line, n->column);
	int id;
	slice.in[0] = n->in[i], slice.d = (int8_t)d, slice.axis = (int8_t)axis;
	slice.part_of = n->part_of, slice.fuse = n->fuse, slice.overlap = n->overlap;
	LK_TRY(lc_add(p, &slice, &id, err));
	n->in[i] = id;
	return LK_OK;
}

/* ---- leaves, updates, outputs ---- */

static lk_status check_declared_layout(const lc_program *p, const lc_node *n, int axis, lk_error *err) {
	const lc_layout *l = &n->layout[axis];
	if (l->kind == LC_ROOT && p->axes[axis].size && l->root >= p->axes[axis].size)
		return lc_refuse(p, n, err, "there is no rank %d on %s, which has %lld", l->root, p->axes[axis].name,
		                 (long long)p->axes[axis].size);
	if (l->kind != LC_S) return LK_OK;
	if (l->dim >= n->rank || l->dim < 0) {
		lc_refuse(p, n, err, "S(%d,%s) slices dim %d of %d", l->dim, p->axes[axis].name, l->dim, n->rank);
		return n->rank ? lk_hint(err, "dims count from 0 to %d", n->rank - 1)
					   : lk_hint(err, "a scalar cannot be sliced");
	}
	return LK_OK;
}

static lk_status check_shape(const lc_program *p, lc_node *n, lk_error *err) {
	for (int d = 0; d < n->rank; d++) {
		int64_t known;
		int32_t list = lc_dim_list(p, n->dim[d]);
		if (lc_dim_known(p, n->dim[d], &known) && known < 1) {
			lc_refuse(p, n, err, "dim %d has %lld elements", d, (long long)known);
			return lk_hint(err, "dims have 1 element at least");
		}
		if (list < 0 || list == n->list) continue;
		if (n->list >= 0)
			return lc_refuse(p, n, err, "dims of two lists, %s and %s, in one tensor", p->lists.at[n->list],
							 p->lists.at[list]);
		n->list = list;
	}
	return LK_OK;
}

static lk_status type_leaf(lc_program *p, lc_node *n, lk_error *err) {
	n->inputs = 0;
	if (n->op == LC_CONST) {
		if (!isfinite(n->number) || n->number < 0 || signbit(n->number))
			return lc_refuse(p, n, err, "a constant must be finite and not negative");
		n->dtype = n->number == floor(n->number) && n->number <= 9007199254740992.0 ? LC_WEAK_INT : LC_WEAK_REAL;
	} else if (n->op == LC_SIZE) {
		n->dtype = LC_WEAK_INT;
		if (n->axis < 0) n->list = p->named[n->symbol].list;
	} else if (n->op == LC_SCALAR && n->rank != 0) {
		return lc_refuse(p, n, err, "a scalar has no dims");
	}
	for (int a = 0; a < p->axis_count; a++) LK_TRY(check_declared_layout(p, n, a, err));
	return LK_OK;
}

/* The cheapest way from the layout of a new value to that of its state, where one step does it. */
static lk_status update_layout(const lc_program *p, const lc_node *n, int axis, const char *why, lk_error *err) {
	const lc_layout *from = &lc_in(p, n, 1)->layout[axis], *to = &lc_in(p, n, 0)->layout[axis];
	const char *name = p->axes[axis].name;
	char x[LC_SHOWN];
	lc_shown(p, n->in[1], x);
	lc_refuse_layout(p, n, 1, axis, why, err);
	if (to->kind != LC_S || to->turn || from->turn) return LK_ERR_INPUT;
	if (from->kind == LC_R) return lk_hint(err, "take its part: slice(%s, %d, %s)", x, to->dim, name);
	if (from->kind == LC_S) return lk_hint(err, "add alltoall(%s, %d, %d, %s)", x, from->dim, to->dim, name);
	if (from->kind != LC_P) return LK_ERR_INPUT;
	return lk_hint(err, "add reducescatter(%s, %s, %s, dim=%d)", x, lc_reduce_name((lc_reduce)from->reduce), name,
				   to->dim);
}

static lk_status type_update(lc_program *p, lc_node *n, lk_error *err) {
	const lc_node *t = lc_in(p, n, 0), *e = lc_in(p, n, 1);
	char x[LC_SHOWN], have[128], want[128];
	if (t->op != LC_STATE && t->op != LC_UPDATE) {
		lc_refuse(p, n, err, "%s is no state and keeps its value", lc_shown(p, n->in[0], x));
		return lk_hint(err, "declare it with state, or define a new value: NAME = ...");
	}
	if (!lc_same_group(&n->at, &t->at)) {
		lc_refuse(p, n, err, "the state %s is everywhere, and its new value at %s alone", t->name ? t->name : "?",
				  lc_group_text(p, &n->at, have, sizeof have));
		return lk_hint(err, "declare the state at %s", have);
	}
	lc_node got = *e, wanted = *t;
	got.list = wanted.list = t->list;
	bool same = e->rank == t->rank && e->dtype == t->dtype && e->list == t->list &&
	            memcmp(e->dim, t->dim, sizeof *e->dim * t->rank) == 0;
	for (int a = 0; a < p->axis_count; a++) {
		if (lc_same_layout(&t->layout[a], &e->layout[a]) || !same) continue;
		lc_type_text(p, &wanted, want, sizeof want);
		char why[216];
		snprintf(why, sizeof why, ", but the state %.63s is %.120s", t->name ? t->name : "?", want);
		return update_layout(p, n, a, why, err);
	}
	n->name = t->name, n->dtype = t->dtype, n->rank = t->rank;
	memcpy(n->dim, t->dim, sizeof n->dim);
	memcpy(n->layout, t->layout, sizeof n->layout);
	if (same) return LK_OK;
	lc_type_text(p, &got, have, sizeof have);
	lc_type_text(p, &wanted, want, sizeof want);
	lc_refuse(p, n, err, "the state %s is %s and its new value %s", t->name ? t->name : "?", want, have);
	if (e->dtype != t->dtype) return lk_hint(err, "add cast(%s, ...)", lc_dtype_name(t->dtype));
	return lk_hint(err, "a state keeps its shape");
}

static lk_status type_out(lc_program *p, lc_node *n, lk_error *err) {
	const lc_node *x = lc_in(p, n, 0);
	char text[LC_SHOWN];
	if (lc_is_weak(x->dtype)) {
		lc_refuse(p, n, err, "%s has no number format", lc_shown(p, n->in[0], text));
		return lk_hint(err, "give it one: cast(f32, %s)", text);
	}
	n->dtype = x->dtype, n->rank = x->rank;
	memcpy(n->dim, x->dim, sizeof n->dim);
	memcpy(n->layout, x->layout, sizeof n->layout);
	return LK_OK;
}

/* ---- lists and groups: operands must agree; those without go with any ---- */

static lk_status join_lists(lc_program *p, lc_node *n, lk_error *err) {
	for (int i = 0; i < n->inputs && n->op != LC_TOTAL; i++) {
		int32_t list = lc_in(p, n, i)->list;
		char x[LC_SHOWN];
		if (list < 0 || list == n->list) continue;
		if (n->list >= 0) {
			lc_refuse(p, n, err, "%s belongs to the list %s, the other operand to %s", lc_shown(p, n->in[i], x),
					  p->lists.at[list], p->lists.at[n->list]);
			return lk_hint(err, "take total(...) of one, or make both of one list");
		}
		n->list = list;
	}
	return LK_OK;
}

static lk_status join_groups(lc_program *p, lc_node *n, lk_error *err) {
	char x[LC_SHOWN], a[96], b[96];
	lc_group wanted = n->at;
	n->at.axis = -1;
	for (int i = 0; i < n->inputs; i++) {
		const lc_group *g = &lc_in(p, n, i)->at;
		if (g->axis < 0 || lc_same_group(g, &n->at)) continue;
		if (n->at.axis >= 0) {
			lc_refuse(p, n, err, "%s lives at %s, the other operand at %s", lc_shown(p, n->in[i], x),
			          lc_group_text(p, g, a, sizeof a), lc_group_text(p, &n->at, b, sizeof b));
			return g->axis == n->at.axis ? lk_hint(err, "send one to the other's group")
										 : lk_hint(err, "use one axis for groups");
		}
		n->at = *g;
	}
	if (n->op == LC_SEND) {
		lc_group here = n->at;
		n->at = wanted; /* where it goes */
		if (here.axis < 0 || lc_same_group(&here, &n->from)) return LK_OK;
		lc_refuse(p, n, err, "%s lives at %s and is sent from %s", lc_shown(p, n->in[0], x),
				  lc_group_text(p, &here, a, sizeof a), lc_group_text(p, &n->from, b, sizeof b));
		return lk_hint(err, "send it from where it is");
	}
	if (wanted.axis < 0 || lc_same_group(&wanted, &n->at)) return LK_OK;
	if (n->at.axis < 0) {
		n->at = wanted;
		return LK_OK;
	}
	lc_refuse(p, n, err, "what it is made of lives at %s, not at %s", lc_group_text(p, &n->at, a, sizeof a),
	          lc_group_text(p, &wanted, b, sizeof b));
	return lk_hint(err, "add send(..., %s: from -> to)", p->axes[wanted.axis].name);
}

static lk_status check_groups(const lc_program *p, const lc_node *n, lk_error *err) {
	if (n->at.axis < 0 || n->layout[n->at.axis].kind == LC_R) return LK_OK;
	lc_refuse(p, n, err, "a value at one group of %s cannot be divided over %s", p->axes[n->at.axis].name,
			  p->axes[n->at.axis].name);
	return lk_hint(err, "leave %s out of its layout", p->axes[n->at.axis].name);
}

/* ---- adding ---- */

static lk_status apply(lc_program *p, lc_node *n, lk_error *err) {
	switch (lc_ops[n->op].family) {
	case LC_LEAF: return type_leaf(p, n, err);
	case LC_MAP: case LC_DROP: return lc_type_map(p, n, err);
	case LC_CONTRACT: return lc_type_contract(p, n, err);
	case LC_ROWS: return lc_type_rows(p, n, err);
	case LC_RED: case LC_TOTALS: return lc_type_red(p, n, err);
	case LC_COMM: case LC_MOVE: return lc_type_comm(p, n, err);
	case LC_EFFECT: return n->op == LC_UPDATE ? type_update(p, n, err) : type_out(p, n, err);
	}
	return lk_fail(err, LK_ERR_INTERNAL, NULL, "an operation without a family");
}

static lk_status check_draft(const lc_program *p, const lc_node *n, lk_error *err) {
	if (n->op >= LC_OP_COUNT || n->inputs != lc_ops[n->op].operands || n->rank > LC_RANK)
		return lk_fail(err, LK_ERR_INTERNAL, NULL, "a draft that is no operation");
	for (int i = 0; i < n->inputs; i++) {
		if (n->in[i] < 0 || (size_t)n->in[i] >= p->nodes.count)
			return lk_fail(err, LK_ERR_INTERNAL, NULL, "an operand that does not exist");
		if (lc_in(p, n, i)->op == LC_OUT) return lk_fail(err, LK_ERR_INTERNAL, NULL, "an output as operand");
	}
	if (n->axis >= p->axis_count || n->at.axis >= p->axis_count || (n->axis < 0 && lc_ops[n->op].family == LC_COMM))
		return lk_fail(err, LK_ERR_INTERNAL, NULL, "an axis that does not exist");
	return LK_OK;
}

/* A state that was updated since could not be named in the text. */
static lk_status check_versions(const lc_program *p, const lc_node *n, lk_error *err) {
	for (int i = 0; i < n->inputs; i++) {
		const lc_node *x = lc_in(p, n, i);
		if ((x->op != LC_STATE && x->op != LC_UPDATE) || !x->name || lc_value_find(p, x->name) == n->in[i]) continue;
		lc_refuse(p, n, err, "an older value of the state %s is read", x->name);
		return lk_hint(err, "keep it before the update: old = copy(%s)", x->name);
	}
	return LK_OK;
}

lk_status lc_add(lc_program *p, const lc_node *draft, int *id, lk_error *err) {
	lc_node n = *draft;
	LK_TRY(check_draft(p, &n, err));
	LK_TRY(check_versions(p, &n, err));
	LK_TRY(join_lists(p, &n, err));
	LK_TRY(join_groups(p, &n, err));
	lk_status status = apply(p, &n, err);
	if (status == LK_ERR_INPUT && err && !err->where[0]) {
		lk_error found = *err; /* sizes that overflow know no place */
		lc_refuse(p, &n, err, "%s", found.what);
		return lk_hint(err, "%s", found.hint);
	}
	LK_TRY(status);
	LK_TRY(check_shape(p, &n, err));
	if (lc_ops[n.op].family != LC_LEAF)
		for (int a = 0; a < p->axis_count; a++) LK_TRY(check_declared_layout(p, &n, a, err));
	LK_TRY(check_groups(p, &n, err));
	if (p->nodes.count >= LC_VALUES) return lc_refuse(p, &n, err, "a program has at most %d values", LC_VALUES);
	if (!lk_push(&p->nodes)) return lk_oom(err);
	*lk_last(&p->nodes) = n;
	if (id) *id = (int)p->nodes.count - 1;
	return LK_OK;
}
