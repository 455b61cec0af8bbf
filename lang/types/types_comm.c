/* types_comm.c: collectives and changes of layout: each takes exactly one layout and gives one;
 * send between groups. */
#include <string.h>

#include "lang/types/rules.h"
#include "base/check.h"

static lk_status need_dim(const lc_program *program, const lc_node *node, int d, lk_error *err) {
	const lc_node *value = lc_in(program, node, 0);
	char text[LC_SHOWN];
	if (d >= 0 && d < value->rank) return LK_OK;
	lc_refuse(program, node, err, "%s has no dim %d", lc_shown(program, node->in[0], text), d);
	return value->rank ? lk_hint(err, "its dims count from 0 to %d", value->rank - 1)
	                   : lk_hint(err, "it is one number");
}

static lk_status need_partial(const lc_program *program, const lc_node *node, lk_error *err) {
	const lc_layout *layout = &lc_in(program, node, 0)->layout[node->axis];
	char x[LC_SHOWN];
	if (layout->kind == LC_P && layout->reduce == node->reduce) return LK_OK;
	lc_shown(program, node->in[0], x);
	if (layout->kind == LC_P) {
		lc_refuse(program, node, err, "%s is partial by %s, not by %s", x,
		          lc_reduce_name(layout->reduce), lc_reduce_name(node->reduce));
		return lk_hint(err, "write %s(%s, %s, ...)", lc_ops[node->op].name, x,
		               lc_reduce_name(layout->reduce));
	}
	if (layout->kind == LC_S && !layout->turn && node->op == LC_ALLREDUCE) {
		lc_refuse_layout(program, node, 0, node->axis, ", and slices are not added", err);
		return lk_hint(err, "leave allreduce out, or gather them: allgather(%s, %d, %s)", x,
		               layout->dim, program->axes[node->axis].name);
	}
	if (layout->kind != LC_R)
		return lc_refuse_layout(program, node, 0, node->axis, ", not partial", err);
	lc_refuse(program, node, err, "%s is the same on all ranks of %s, not partial", x,
	          program->axes[node->axis].name);
	return node->op == LC_REDUCESCATTER ? lk_hint(err, "add slice(%s, %d, %s) instead", x, node->d,
	                                              program->axes[node->axis].name)
	                                    : lk_hint(err, "leave %s out", lc_ops[node->op].name);
}

/* A dim that is sliced over several axes is cut by the first of them, its slices by the next: a cut
 * is only made, or undone, as the innermost one. */
static lk_status need_innermost(const lc_program *program, const lc_node *node, int d,
                                lk_error *err) {
	const lc_node *value = lc_in(program, node, 0);
	char text[LC_SHOWN];
	for (int a = node->axis + 1; a < program->axis_count; a++) {
		if (value->layout[a].kind != LC_S || value->layout[a].dim != d) continue;
		lc_refuse(program, node, err,
		          "dim %d of %s is sliced over %s, inside of its slices over %s", d,
		          lc_shown(program, node->in[0], text), program->axes[a].name,
		          program->axes[node->axis].name);
		return lk_hint(err, "gather first: allgather(%s, %d, %s)", text, d, program->axes[a].name);
	}
	return LK_OK;
}

static lk_status need_sliced(const lc_program *program, const lc_node *node, lk_error *err) {
	const lc_layout *layout = &lc_in(program, node, 0)->layout[node->axis];
	char x[LC_SHOWN];
	if (layout->kind == LC_S && layout->dim == node->d && !layout->turn)
		return need_innermost(program, node, node->d, err);
	lc_shown(program, node->in[0], x);
	if (layout->kind == LC_S && !layout->turn) {
		lc_refuse(program, node, err, "%s is sliced over %s along dim %d, not %d", x,
		          program->axes[node->axis].name, layout->dim, node->d);
		return lk_hint(err, "write %d", layout->dim);
	}
	if (layout->kind != LC_R) return lc_refuse_layout(program, node, 0, node->axis, "", err);
	lc_refuse(program, node, err, "%s is whole on every rank of %s already", x,
	          program->axes[node->axis].name);
	return node->op == LC_ALLTOALL
	           ? lk_hint(err, "write slice(%s, %d, %s)", x, node->e, program->axes[node->axis].name)
	           : lk_hint(err, "leave %s out", lc_ops[node->op].name);
}

static lk_status comm_need(const lc_program *program, const lc_node *node, lc_layout_kind kind,
                           const char *why, lk_error *err) {
	if (lc_in(program, node, 0)->layout[node->axis].kind == kind) return LK_OK;
	return lc_refuse_layout(program, node, 0, node->axis, why, err);
}

/* Require a local operand; suggest local() for one that is the same on all ranks, or sliced. */
static lk_status need_local(const lc_program *program, const lc_node *node, lk_error *err) {
	const lc_layout *layout = &lc_in(program, node, 0)->layout[node->axis];
	const char *axis = program->axes[node->axis].name;
	char x[LC_SHOWN];
	if (layout->kind == LC_L) return LK_OK;
	lc_refuse_layout(program, node, 0, node->axis, ", not local", err);
	lc_shown(program, node->in[0], x);
	if (layout->kind == LC_R || (layout->kind == LC_S && !layout->turn))
		return lk_hint(err, "write partial(local(%s, %s), ...)", x, axis);
	return layout->kind == LC_P ? lk_hint(err, "leave %s out", lc_ops[node->op].name)
	                            : LK_ERR_INPUT;
}

static lk_status give_slices(const lc_program *program, lc_node *node, int d, lk_error *err) {
	LK_TRY(need_dim(program, node, d, err));
	LK_TRY(need_innermost(program, node, d, err));
	node->layout[node->axis] = (lc_layout){.kind = LC_S, .dim = (int8_t)d};
	return LK_OK;
}

/* Slices that cut across the tensors of a list are no tensors of one size. */
static lk_status need_equal_slices(const lc_program *program, const lc_node *node, int d,
                                   lk_error *err) {
	char text[LC_SHOWN];
	int across = lc_dim_across(program, node->dim[d]);
	if (across < 0) return LK_OK;
	lc_refuse(program, node, err, "slices along %s cut across the tensors of %s",
	          program->named[across].name, program->lists.at[program->named[across].list]);
	return node->op == LC_LOCAL
	           ? lk_hint(err, "gather first: local(allgather(%s, %d, %s), ...)",
	                     lc_shown(program, node->in[0], text), d, program->axes[node->axis].name)
	           : lk_hint(err, "declare the local tensors without a quotient");
}

/* Slices that moved by different distances are no slices of one tensor. */
static lk_status shift_local(const lc_program *program, const lc_node *node, lk_error *err) {
	char x[LC_SHOWN];
	lc_refuse(program, node, err,
	          "ranks shift %s by their places, and only local tensors may differ",
	          lc_shown(program, node->in[0], x));
	return lk_hint(err, "write permute(local(%s, %s), ...)", x, program->axes[node->axis].name);
}

/* Ranks that differ along the axis itself would not all be sent to, or twice. */
static lk_status shift_axis(const lc_program *program, const lc_node *node, lk_error *err) {
	if (node->by != node->axis + 1) return LK_OK;
	lc_refuse(program, node, err, "ranks of %s shift along %s by their own place",
	          program->axes[node->axis].name, program->axes[node->axis].name);
	return lk_hint(err, "shift by the place along another axis, as in Cannon's algorithm");
}

static lk_status comm_collective(lc_program *program, lc_node *node, lk_error *err) {
	lc_layout *to = &node->layout[node->axis];
	lc_layout from = *to;
	lc_dim ranks;
	*to = (lc_layout){.kind = LC_R};
	LK_TRY(lc_dim_axis(program, node->axis, &ranks, err));
	switch (node->op) {
	case LC_ALLREDUCE: return need_partial(program, node, err);
	case LC_REDUCESCATTER:
		LK_TRY(need_partial(program, node, err));
		return give_slices(program, node, node->d, err);
	case LC_REDUCE:
		*to = (lc_layout){.kind = LC_ROOT, .root = node->root};
		return need_partial(program, node, err);
	case LC_BROADCAST: return comm_need(program, node, LC_ROOT, ", not on one", err);
	case LC_SLICE:
		LK_TRY(comm_need(program, node, LC_R, ", not replicated", err));
		return give_slices(program, node, node->d, err);
	case LC_ALLGATHER:
		LK_TRY(need_dim(program, node, node->d, err));
		return need_sliced(program, node, err);
	case LC_ALLTOALL:
		LK_TRY(need_dim(program, node, node->d, err));
		LK_TRY(need_sliced(program, node, err));
		if (node->d == node->e) {
			char x[LC_SHOWN];
			lc_refuse(program, node, err, "%s is sliced along dim %d already",
			          lc_shown(program, node->in[0], x), node->e);
			return lk_hint(err, "leave alltoall out, or name another dim");
		}
		return give_slices(program, node, node->e, err);
	case LC_PERMUTE:
		*to = from;
		if (from.kind == LC_L) return shift_axis(program, node, err);
		if (node->by) return shift_local(program, node, err);
		if (from.kind == LC_R)
			return comm_need(program, node, LC_S, ", so that permute would change nothing", err);
		if (__builtin_add_overflow(to->turn, node->shift, &to->turn))
			return lc_refuse(program, node, err, "the sum of the shifts exceeds 2^31 - 1");
		if (program->axes[node->axis].size)
			to->turn = (int32_t)(to->turn % program->axes[node->axis].size);
		return comm_need(program, node, LC_S, ", not sliced", err);
	case LC_LOCAL:
		to->kind = LC_L;
		if (from.kind == LC_R) return LK_OK; /* a copy with which each rank continues by itself */
		LK_TRY(comm_need(program, node, LC_S, ", neither sliced nor replicated", err));
		LK_TRY(need_innermost(program, node, from.dim, err));
		LK_TRY(need_equal_slices(program, node, from.dim, err));
		return lc_dim_over(program, node->dim[from.dim], ranks, node->line, node->column,
		                   &node->dim[from.dim], err);
	case LC_SLICED:
		LK_TRY(need_dim(program, node, node->d, err));
		LK_TRY(comm_need(program, node, LC_L, ", not local", err));
		LK_TRY(lc_dim_times(program, node->dim[node->d], ranks, &node->dim[node->d], err));
		LK_TRY(need_equal_slices(program, node, node->d, err));
		return give_slices(program, node, node->d, err);
	case LC_PARTIAL:
		*to = (lc_layout){.kind = LC_P, .reduce = node->reduce};
		return need_local(program, node, err);
	default: return lk_fail(err, LK_ERR_INTERNAL, NULL, "a collective without a rule");
	}
}

lk_status lc_type_comm(lc_program *program, lc_node *node, lk_error *err) {
	const lc_node *value = lc_in(program, node, 0);
	char text[LC_SHOWN];
	node->dtype = value->dtype;
	node->rank = value->rank;
	memcpy(node->dim, value->dim, sizeof node->dim);
	memcpy(node->layout, value->layout, sizeof node->layout);
	if (node->op == LC_SEND) {
		if (node->at.axis >= 0 && node->at.axis == node->from.axis) return LK_OK;
		return lc_refuse(program, node, err,
		                 "send goes from one group of an axis to another of the same axis");
	}
	if (lc_is_weak(value->dtype)) {
		lc_refuse(program, node, err, "%s has no number format",
		          lc_shown(program, node->in[0], text));
		return lk_hint(err, "give it one: cast(f32, %s)", text);
	}
	if (node->at.axis == node->axis) {
		lc_refuse(program, node, err, "%s lives at one group of %s",
		          lc_shown(program, node->in[0], text), program->axes[node->axis].name);
		return lk_hint(err, "between groups, write send(%s, %s: k -> k+1)", text,
		               program->axes[node->axis].name);
	}
	return comm_collective(program, node, err);
}
