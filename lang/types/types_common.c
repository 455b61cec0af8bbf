/* types_common.c: shared by the type rules of all families: refusing a layout with the fitting
 * remedy, the common number format of operands, and the slices that rules insert. */
#include "base/check.h"
#include "lang/types/rules.h"

lc_node lc_draft(lc_op op, int line, int column) {
	lc_node n = {
		.op = (uint8_t)op, .axis = -1, .list = -1, .symbol = -1, .line = line, .column = column};
	n.inputs = (uint8_t)lc_ops[op].operands;
	n.at.axis = n.from.axis = -1;
	n.fuse = n.overlap = n.bucket = -1;
	n.stride = 1;
	return n;
}

lk_status lc_refuse_layout(const lc_program *program, const lc_node *node, int i, int axis,
                           const char *why, lk_error *err) {
	LK_ASSERT(axis >= 0 && axis < program->axis_count);
	LK_ASSERT(i >= 0 && i < node->inputs);
	const lc_layout *layout = &lc_in(program, node, i)->layout[axis];
	const char *name = program->axes[axis].name;
	char x[LC_SHOWN];
	lc_shown(program, node->in[i], x);
	switch (layout->kind) {
	case LC_P:
		lc_refuse(program, node, err, "%s is partial over %s%s", x, name, why);
		return lk_hint(err, "add allreduce(%s, %s, %s)", x, lc_reduce_name(layout->reduce), name);
	case LC_S:
		lc_refuse(program, node, err, "%s is sliced over %s along dim %d%s", x, name, layout->dim,
		          why);
		if (layout->turn)
			return lk_hint(err, "turn it back first: permute(%s, %s, shift=%d)", x, name,
			               -layout->turn);
		return lk_hint(err, "add allgather(%s, %d, %s)", x, layout->dim, name);
	case LC_ROOT:
		lc_refuse(program, node, err, "%s is on rank %d of %s alone%s", x, layout->root, name, why);
		return lk_hint(err, "add broadcast(%s, %s)", x, name);
	case LC_L:
		lc_refuse(program, node, err, "%s is local to each rank of %s%s", x, name, why);
		return lk_hint(
			err,
			"add partial(%s, sum, %s) where it is a part of a sum, sliced(%s, DIM, %s) where "
			"it is a slice",
			x, name, x, name);
	default:
		lc_refuse(program, node, err, "%s is the same on all ranks of %s%s", x, name, why);
		return lk_hint(err, "take its part of each rank: slice(%s, DIM, %s)", x, name);
	}
}

/* ---- formats ---- */

lk_status lc_join_dtypes(const lc_program *program, const lc_node *node, int first, int last,
                         lc_dtype *out, lk_error *err) {
	int strong = -1;
	bool real = false, weak = false;
	char x[LC_SHOWN], y[LC_SHOWN];
	for (int i = first; i <= last; i++) {
		const lc_node *value = lc_in(program, node, i);
		real |= value->dtype == LC_WEAK_REAL, weak |= lc_is_weak(value->dtype);
		if (lc_is_weak(value->dtype)) continue;
		if (strong >= 0 && lc_in(program, node, strong)->dtype != value->dtype) {
			const char *to = lc_dtype_name(lc_in(program, node, strong)->dtype),
					   *from = lc_dtype_name(value->dtype);
			lc_refuse(program, node, err, "%s is %s and %s is %s",
			          lc_shown(program, node->in[strong], x), to, lc_shown(program, node->in[i], y),
			          from);
			bool wider = value->dtype < lc_in(program, node, strong)->dtype; /* or real */
			if (wider) return lk_hint(err, "make them equal: cast(%s, %s)", from, x);
			return lk_hint(err, "make them equal: cast(%s, %s)", to, y);
		}
		if (strong < 0) strong = i;
	}
	if (strong < 0) {
		*out = real ? LC_WEAK_REAL : LC_WEAK_INT;
		return LK_OK;
	}
	*out = lc_in(program, node, strong)->dtype;
	if (lc_is_real(*out) || (lc_is_integer(*out) && !real) || (*out == LC_BOOL && !weak))
		return LK_OK;
	lc_refuse(program, node, err, "%s is %s, which a number does not fit",
	          lc_shown(program, node->in[strong], x), lc_dtype_name(*out));
	return lk_hint(err, "cast it first: cast(f32, %s)", x);
}

lk_status lc_check_index(const lc_program *program, const lc_node *node, int i, lk_error *err) {
	const lc_node *index = lc_in(program, node, i);
	char x[LC_SHOWN];
	if (lc_is_integer(index->dtype)) return LK_OK;
	lc_refuse(program, node, err, "%s is %s, and an integer format is needed",
	          lc_shown(program, node->in[i], x), lc_dtype_name(index->dtype));
	return lk_hint(err, "add cast(i32, %s)", x);
}

/* ---- slices that the rules insert ---- */

lk_status lc_slice_operand(lc_program *program, lc_node *node, int i, int d, int axis,
                           lc_adder *add, lk_error *err) {
	LK_ASSERT(i >= 0 && i < node->inputs);
	LK_ASSERT(axis >= 0 && axis < program->axis_count);
	LK_ASSERT(d >= 0 && d < lc_in(program, node, i)->rank);
	lc_node slice = lc_draft(LC_SLICE, node->line, node->column);
	int id;
	slice.in[0] = node->in[i];
	slice.d = (int8_t)d;
	slice.axis = (int8_t)axis;
	slice.part_of = node->part_of;
	slice.fuse = node->fuse;
	slice.overlap = node->overlap;
	LK_TRY(add(program, &slice, &id, err));
	node->in[i] = id;
	return LK_OK;
}
