/* types_comm.c: collectives and changes of layout: each takes exactly one layout and gives one; send between groups. */
#include <string.h>

#include "lang/types/program.h"

static lk_status need_dim(const lc_program *p, const lc_node *n, int d, lk_error *err) {
	const lc_node *x = lc_in(p, n, 0);
	char text[LC_SHOWN];
	if (d >= 0 && d < x->rank) return LK_OK;
	lc_refuse(p, n, err, "%s has no dim %d", lc_shown(p, n->in[0], text), d);
	return x->rank ? lk_hint(err, "its dims count from 0 to %d", x->rank - 1) : lk_hint(err, "it is one number");
}

static lk_status need_partial(const lc_program *p, const lc_node *n, lk_error *err) {
	const lc_layout *l = &lc_in(p, n, 0)->layout[n->axis];
	char x[LC_SHOWN];
	if (l->kind == LC_P && l->reduce == n->reduce) return LK_OK;
	lc_shown(p, n->in[0], x);
	if (l->kind == LC_P) {
		lc_refuse(p, n, err, "%s is partial by %s, not by %s", x, lc_reduce_name(l->reduce), lc_reduce_name(n->reduce));
		return lk_hint(err, "write %s(%s, %s, ...)", lc_ops[n->op].name, x, lc_reduce_name(l->reduce));
	}
	if (l->kind != LC_R) return lc_refuse_layout(p, n, 0, n->axis, ", not partial", err);
	lc_refuse(p, n, err, "%s is the same on all ranks of %s, not partial", x, p->axes[n->axis].name);
	return n->op == LC_REDUCESCATTER ? lk_hint(err, "add slice(%s, %d, %s) instead", x, n->d, p->axes[n->axis].name)
	                                 : lk_hint(err, "leave %s out", lc_ops[n->op].name);
}

/* A dim that is sliced over several axes is cut by the first of them, its slices by the next: a cut is made, and undone,
 * as the innermost one. */
static lk_status need_innermost(const lc_program *p, const lc_node *n, int d, lk_error *err) {
	const lc_node *x = lc_in(p, n, 0);
	char text[LC_SHOWN];
	for (int a = n->axis + 1; a < p->axis_count; a++) {
		if (x->layout[a].kind != LC_S || x->layout[a].dim != d) continue;
		lc_refuse(p, n, err, "dim %d of %s is sliced over %s, inside of its slices over %s", d,
		          lc_shown(p, n->in[0], text), p->axes[a].name, p->axes[n->axis].name);
		return lk_hint(err, "gather first: allgather(%s, %d, %s)", text, d, p->axes[a].name);
	}
	return LK_OK;
}

static lk_status need_sliced(const lc_program *p, const lc_node *n, lk_error *err) {
	const lc_layout *l = &lc_in(p, n, 0)->layout[n->axis];
	char x[LC_SHOWN];
	if (l->kind == LC_S && l->dim == n->d && !l->turn) return need_innermost(p, n, n->d, err);
	lc_shown(p, n->in[0], x);
	if (l->kind == LC_S && !l->turn) {
		lc_refuse(p, n, err, "%s is sliced over %s along dim %d, not %d", x, p->axes[n->axis].name, l->dim, n->d);
		return lk_hint(err, "write %d", l->dim);
	}
	if (l->kind != LC_R) return lc_refuse_layout(p, n, 0, n->axis, "", err);
	lc_refuse(p, n, err, "%s is whole on every rank of %s already", x, p->axes[n->axis].name);
	return n->op == LC_ALLTOALL ? lk_hint(err, "write slice(%s, %d, %s)", x, n->e, p->axes[n->axis].name)
	                            : lk_hint(err, "leave %s out", lc_ops[n->op].name);
}

static lk_status need(const lc_program *p, const lc_node *n, lc_layout_kind kind, const char *why, lk_error *err) {
	if (lc_in(p, n, 0)->layout[n->axis].kind == kind) return LK_OK;
	return lc_refuse_layout(p, n, 0, n->axis, why, err);
}

static lk_status give_slices(const lc_program *p, lc_node *n, int d, lk_error *err) {
	LK_TRY(need_dim(p, n, d, err));
	LK_TRY(need_innermost(p, n, d, err));
	n->layout[n->axis] = (lc_layout){.kind = LC_S, .dim = (int8_t)d};
	return LK_OK;
}

static lk_status collective(lc_program *p, lc_node *n, lk_error *err) {
	lc_layout *to = &n->layout[n->axis];
	lc_layout from = *to;
	lc_dim ranks;
	*to = (lc_layout){.kind = LC_R};
	LK_TRY(lc_dim_axis(p, n->axis, &ranks, err));
	switch (n->op) {
	case LC_ALLREDUCE: return need_partial(p, n, err);
	case LC_REDUCESCATTER: LK_TRY(need_partial(p, n, err)); return give_slices(p, n, n->d, err);
	case LC_REDUCE: *to = (lc_layout){.kind = LC_ROOT, .root = n->root}; return need_partial(p, n, err);
	case LC_BROADCAST: return need(p, n, LC_ROOT, ", not on one", err);
	case LC_SLICE: LK_TRY(need(p, n, LC_R, ", not replicated", err)); return give_slices(p, n, n->d, err);
	case LC_ALLGATHER: LK_TRY(need_dim(p, n, n->d, err)); return need_sliced(p, n, err);
	case LC_ALLTOALL:
		LK_TRY(need_dim(p, n, n->d, err));
		LK_TRY(need_sliced(p, n, err));
		return give_slices(p, n, n->e, err);
	case LC_PERMUTE:
		*to = from;
		if (from.kind == LC_L) return LK_OK;
		if (from.kind == LC_R) return need(p, n, LC_S, ", so that handing it round changes nothing", err);
		if (__builtin_add_overflow(to->turn, n->shift, &to->turn))
			return lc_refuse(p, n, err, "the shifts add up to too much");
		if (p->axes[n->axis].size) to->turn = (int32_t)(to->turn % p->axes[n->axis].size);
		return need(p, n, LC_S, ", not sliced", err);
	case LC_LOCAL:
		LK_TRY(need(p, n, LC_S, ", not sliced", err));
		LK_TRY(need_innermost(p, n, from.dim, err));
		to->kind = LC_L;
		return lc_dim_over(p, n->dim[from.dim], ranks, n->line, n->column, &n->dim[from.dim], err);
	case LC_SLICED:
		LK_TRY(need_dim(p, n, n->d, err));
		LK_TRY(need(p, n, LC_L, ", not local", err));
		LK_TRY(lc_dim_times(p, n->dim[n->d], ranks, &n->dim[n->d], err));
		return give_slices(p, n, n->d, err);
	default: return lk_fail(err, LK_ERR_INTERNAL, NULL, "a collective without a rule");
	}
}

lk_status lc_type_comm(lc_program *p, lc_node *n, lk_error *err) {
	const lc_node *x = lc_in(p, n, 0);
	char text[LC_SHOWN];
	n->dtype = x->dtype, n->rank = x->rank;
	memcpy(n->dim, x->dim, sizeof n->dim);
	memcpy(n->layout, x->layout, sizeof n->layout);
	if (n->op == LC_SEND) {
		if (n->at.axis >= 0 && n->at.axis == n->from.axis) return LK_OK;
		return lc_refuse(p, n, err, "send goes from one group of an axis to another of the same axis");
	}
	if (lc_is_weak(x->dtype)) {
		lc_refuse(p, n, err, "%s has no number format", lc_shown(p, n->in[0], text));
		return lk_hint(err, "give it one: cast(f32, %s)", text);
	}
	if (n->at.axis == n->axis) {
		lc_refuse(p, n, err, "%s lives at one group of %s", lc_shown(p, n->in[0], text), p->axes[n->axis].name);
		return lk_hint(err, "between groups, write send(%s, %s: k -> k+1)", text, p->axes[n->axis].name);
	}
	return collective(p, n, err);
}
