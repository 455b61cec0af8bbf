/* types_block.c: operations on whole blocks of a tensor: lines that are sorted, matrices that are
 * factored. A block lies on one rank; the dims of batches may be sliced. */
#include <string.h>

#include "base/check.h"
#include "lang/types/rules.h"

unsigned lc_block_dims(const lc_node *node, int rank) {
	if (node->op == LC_SORT || node->op == LC_ARGSORT) return 1u << node->d;
	return 3u << (rank - 2);
}

static lk_status block_shape(const lc_program *program, lc_node *node, lk_error *err) {
	const lc_node *value = lc_in(program, node, 0);
	bool line = node->op == LC_SORT || node->op == LC_ARGSORT;
	const char *name = lc_ops[node->op].name;
	char x[LC_SHOWN];
	lc_shown(program, node->in[0], x);
	if (lc_is_weak(value->dtype) || value->dtype == LC_BOOL) {
		lc_refuse(program, node, err, "%s is %s, which %s does not take", x,
		          lc_dtype_name(value->dtype), name);
		return lk_hint(err, "cast it: cast(f32, %s)", x);
	}
	node->dtype = node->op == LC_ARGSORT ? LC_I32 : value->dtype;
	node->rank = value->rank;
	memcpy(node->dim, value->dim, sizeof node->dim);
	if (line && node->d < value->rank) return LK_OK;
	if (line) {
		lc_refuse(program, node, err, "%s has no dim %d", x, node->d);
		return value->rank ? lk_hint(err, "dims count from 0 to %d", value->rank - 1)
		                   : lk_hint(err, "it is one number");
	}
	if (!lc_is_real(value->dtype)) {
		lc_refuse(program, node, err, "%s is %s, and %s takes real numbers", x,
		          lc_dtype_name(value->dtype), name);
		return lk_hint(err, "cast it: cast(f32, %s)", x);
	}
	if (value->rank < 2) {
		lc_refuse(program, node, err, "%s takes matrices, and %s has %d dim(s)", name, x,
		          value->rank);
		return lk_hint(err, "give a tensor of two dims at least");
	}
	int rows = value->rank - 2;
	bool square = node->op != LC_QR_Q && node->op != LC_QR_R;
	if (square && value->dim[rows] != value->dim[rows + 1]) {
		char m[64], n[64];
		lc_refuse(program, node, err, "%s takes square matrices, and %s is %s x %s", name, x,
		          lc_dim_text(program, value->dim[rows], m, sizeof m),
		          lc_dim_text(program, value->dim[rows + 1], n, sizeof n));
		return lk_hint(err, "of the symmetric matmul(%s, %s, ta) or matmul(%s, %s, tb), perhaps", x,
		               x, x, x);
	}
	if (node->op == LC_QR_R) node->dim[rows] = value->dim[rows + 1];
	if (node->op == LC_EIGH_VALUES) node->rank--;
	return LK_OK;
}

lk_status lc_type_block(lc_program *program, lc_node *node, lk_error *err) {
	const lc_node *value = lc_in(program, node, 0);
	LK_TRY(block_shape(program, node, err));
	for (int a = 0; a < program->axis_count; a++) {
		const lc_layout l = value->layout[a];
		node->layout[a] = l;
		if (l.kind == LC_P)
			return lc_refuse_layout(program, node, 0, a, ", and this is no sum over parts", err);
		if (l.kind == LC_S && lc_block_dims(node, value->rank) >> l.dim & 1)
			return lc_refuse_layout(program, node, 0, a, ", and a block must be on one rank", err);
	}
	return LK_OK;
}
