/* types_rows.c: rows of a table selected by indices: taken from it, or added to it. If a table is
 * sliced along its rows, every rank has some of the requested ones, so the result is partial; so is
 * a table to which every rank adds its own rows. */
#include <string.h>

#include "base/check.h"
#include "lang/types/rules.h"

/* ---- gather_rows ---- */

static lk_status gather_layout(lc_program *program, lc_node *node, int axis, lk_error *err) {
	LK_ASSERT(axis >= 0 && axis < program->axis_count);
	const lc_layout table = lc_in(program, node, 0)->layout[axis],
					index = lc_in(program, node, 1)->layout[axis];
	bool whole = index.kind == LC_R;
	node->layout[axis] = (lc_layout){.kind = LC_R};
	if (table.kind == LC_L || index.kind == LC_L) {
		if (table.kind != LC_L && table.kind != LC_R)
			return lc_refuse_layout(program, node, 0, axis, ", and is combined with a local value",
			                        err);
		if (index.kind != LC_L && index.kind != LC_R)
			return lc_refuse_layout(program, node, 1, axis, ", and is combined with a local value",
			                        err);
		node->layout[axis].kind = LC_L;
		return LK_OK;
	}
	if (index.kind == LC_P)
		return lc_refuse_layout(program, node, 1, axis, ", and parts of indices are not indices",
		                        err);
	if (table.kind == LC_R) {
		node->layout[axis] = index;
		return LK_OK;
	}
	if (table.kind == LC_ROOT && (whole || lc_same_layout(&table, &index))) {
		node->layout[axis] = table;
		return LK_OK;
	}
	if (!whole)
		return lc_refuse_layout(program, node, 1, axis,
		                        ", and so must be whole for a table that is divided", err);
	if (table.kind == LC_P) {
		if (table.reduce == LC_SUM) {
			node->layout[axis] = table;
			return LK_OK;
		}
		return lc_refuse_layout(program, node, 0, axis, "", err);
	}
	if (table.turn) return lc_refuse_layout(program, node, 0, axis, " and turned", err);
	node->layout[axis] = table.dim == 0
	                         ? (lc_layout){.kind = LC_P, .reduce = LC_SUM}
	                         : (lc_layout){.kind = LC_S, .dim = (int8_t)(node->rank - 1)};
	return LK_OK;
}

static lk_status type_gather(lc_program *program, lc_node *node, lk_error *err) {
	const lc_node *table = lc_in(program, node, 0), *index = lc_in(program, node, 1);
	char x[LC_SHOWN];
	if (table->rank != 2) {
		lc_refuse(program, node, err, "%s has %d dim%s, and a table of rows 2",
		          lc_shown(program, node->in[0], x), table->rank, table->rank == 1 ? "" : "s");
		return table->rank == 1 ? lk_hint(err, "rows of one element: spread(%s, 1, 1)", x)
		                        : lk_hint(err, "the first operand is the table, the second the "
		                                       "indices");
	}
	LK_TRY(lc_check_index(program, node, 1, err));
	if (index->rank == LC_RANK)
		return lc_refuse(program, node, err, "a tensor has at most %d dims", LC_RANK);
	node->dtype = table->dtype;
	node->rank = (uint8_t)(index->rank + 1);
	memcpy(node->dim, index->dim, sizeof node->dim);
	node->dim[node->rank - 1] = table->dim[1];
	for (int a = 0; a < program->axis_count; a++) LK_TRY(gather_layout(program, node, a, err));
	return LK_OK;
}

/* ---- add_rows ---- */

static lk_status add_layout(lc_program *program, lc_node *node, int axis, lc_adder *add,
                            lk_error *err) {
	LK_ASSERT(axis >= 0 && axis < program->axis_count);
	const lc_layout x = lc_in(program, node, 0)->layout[axis],
					index = lc_in(program, node, 1)->layout[axis];
	int columns = lc_in(program, node, 0)->rank - 1;
	lc_layout *to = &node->layout[axis];
	*to = (lc_layout){.kind = LC_R};
	if (index.kind == LC_P)
		return lc_refuse_layout(program, node, 1, axis, ", and parts of indices are not indices",
		                        err);
	if (x.kind == LC_R && index.kind == LC_R) return LK_OK;
	if (index.kind == LC_R && x.kind == LC_P && x.reduce == LC_SUM) {
		*to = x;
		return LK_OK;
	}
	if (index.kind == LC_R && x.kind == LC_S && x.dim == columns) {
		*to = (lc_layout){.kind = LC_S, .dim = 1, .turn = x.turn};
		return LK_OK;
	}
	if (x.kind == LC_S || index.kind == LC_S) {
		int one = x.kind == LC_S ? 0 : 1; /* the other is sliced alike */
		const lc_layout sliced = one ? index : x, other = one ? x : index;
		if (other.kind == LC_R && !sliced.turn && sliced.dim < columns)
			LK_TRY(lc_slice_operand(program, node, 1 - one, sliced.dim, axis, add, err));
		else if (!lc_same_layout(&x, &index))
			return lc_refuse_layout(program, node, one, axis,
			                        ", and the other operand has another layout", err);
		*to = (lc_layout){.kind = LC_P, .reduce = LC_SUM};
		return LK_OK;
	}
	const lc_layout l = x.kind != LC_R ? x : index;
	const lc_layout other = x.kind != LC_R ? index : x;
	if (l.kind == LC_P || (other.kind != LC_R && !lc_same_layout(&l, &other)))
		return lc_refuse_layout(program, node, x.kind != LC_R ? 0 : 1, axis,
		                        ", and rows of such tensors are not added", err);
	*to = l;
	return LK_OK;
}

static lk_status type_add(lc_program *program, lc_node *node, lc_adder *add, lk_error *err) {
	const lc_node *rows = lc_in(program, node, 0), *index = lc_in(program, node, 1);
	char x[LC_SHOWN], y[LC_SHOWN];
	LK_TRY(lc_check_index(program, node, 1, err));
	if (rows->rank != index->rank + 1 ||
	    memcmp(rows->dim, index->dim, sizeof *rows->dim * index->rank) != 0) {
		lc_refuse(program, node, err, "%s does not have a row for each index of %s",
		          lc_shown(program, node->in[0], x), lc_shown(program, node->in[1], y));
		return lk_hint(err, "its dims are those of the indices, and one more");
	}
	if (rows->dtype == LC_BOOL || lc_is_weak(rows->dtype)) {
		lc_refuse(program, node, err, "%s is %s, which add_rows does not take",
		          lc_shown(program, node->in[0], x), lc_dtype_name(rows->dtype));
		return lk_hint(err, "cast it: cast(f32, %s)", x);
	}
	node->dtype = rows->dtype;
	node->rank = 2;
	node->dim[1] = rows->dim[rows->rank - 1];
	node->dim[0] = node->count;
	for (int a = 0; a < program->axis_count; a++) LK_TRY(add_layout(program, node, a, add, err));
	return LK_OK;
}

lk_status lc_type_rows(lc_program *program, lc_node *node, lc_adder *add, lk_error *err) {
	return node->op == LC_GATHER_ROWS ? type_gather(program, node, err)
	                                  : type_add(program, node, add, err);
}
