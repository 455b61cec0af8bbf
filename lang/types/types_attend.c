/* types_attend.c: attention whose scores are never stored, and its gradients.
 *
 * With scores s = scale q k^T of the keys that a query sees, lse = log(sum exp(s)) and p = exp(s -
 * lse), attention is p v. Its gradients for an adjoint dy need lse and delta = sum(dy * y) of each
 * query (Dao et al., FlashAttention, 2022, appendix B): ds = p*(dy v^T - delta), dq = scale ds k,
 * dk = scale ds^T q, dv = p^T dy. attention_more goes on with further keys from the y and the lse
 * of earlier ones.
 *
 * Operands are as the queries (q, y, dy, one number a query) or as the keys (k, v); so is the
 * result. Along a dim of batches or heads all are cut alike. Queries may be cut by themselves: what
 * is as the keys is then a sum over ranks. Keys may be cut only where results are sums over them,
 * as dq is, or by `part`: each rank then attends to the keys that it holds. */
#include <string.h>

#include "base/check.h"
#include "lang/types/rules.h"

static const struct {
	uint8_t operand[LC_INPUTS], result; /* lc_role */
} roles[] = {
	[LC_ATTENTION - LC_ATTENTION] = {{LC_AS_Q, LC_AS_K, LC_AS_V}, LC_AS_Y},
	[LC_ATTENTION_LSE - LC_ATTENTION] = {{LC_AS_Q, LC_AS_K}, LC_AS_NUMBER},
	[LC_ATTENTION_MORE -
		LC_ATTENTION] = {{LC_AS_Q, LC_AS_K, LC_AS_V, LC_AS_Y, LC_AS_NUMBER}, LC_AS_Y},
	[LC_ATTENTION_LSE_MORE - LC_ATTENTION] = {{LC_AS_Q, LC_AS_K, LC_AS_NUMBER}, LC_AS_NUMBER},
#define BACKWARD \
	{ LC_AS_Q, LC_AS_K, LC_AS_V, LC_AS_Y, LC_AS_NUMBER, LC_AS_NUMBER }
	[LC_ATTENTION_DQ - LC_ATTENTION] = {BACKWARD, LC_AS_Q},
	[LC_ATTENTION_DK - LC_ATTENTION] = {BACKWARD, LC_AS_K},
	[LC_ATTENTION_DV - LC_ATTENTION] = {BACKWARD, LC_AS_V},
#undef BACKWARD
};

lc_role lc_attend_role(const lc_node *node, int k) {
	LK_ASSERT(lc_ops[node->op].family == LC_ATTEND && k >= LC_ATTENDED && k < node->inputs);
	return (lc_role)(k == LC_ATTENDED ? roles[node->op - LC_ATTENTION].result
	                                  : roles[node->op - LC_ATTENTION].operand[k]);
}

bool lc_attend_siblings(const lc_node *a, const lc_node *b) {
	static const uint8_t kind[] = {0, 0, 1, 1, 2, 2, 2}; /* one kernel makes all of a kind */
	int x = a->op - LC_ATTENTION, y = b->op - LC_ATTENTION;
	if (lc_ops[a->op].family != LC_ATTEND || lc_ops[b->op].family != LC_ATTEND ||
	    kind[x] != kind[y] || a->causal != b->causal || a->part != b->part ||
	    a->window != b->window || a->number != b->number)
		return false;
	if (kind[x] == 2) return memcmp(a->in, b->in, sizeof a->in) == 0;
	return a->in[0] == b->in[0] && a->in[1] == b->in[1] &&
	       (kind[x] == 0 || a->in[a->inputs - 1] == b->in[b->inputs - 1]);
}

/* ---- formats and shapes ---- */

static lk_status attend_formats(const lc_program *program, const lc_node *node, lk_error *err) {
	lc_dtype format = (lc_dtype)lc_in(program, node, 0)->dtype;
	lc_dtype numbers = format == LC_F64 ? LC_F64 : LC_F32;
	char x[LC_SHOWN], q[LC_SHOWN];
	for (int k = 0; k < node->inputs; k++) {
		lc_dtype have = (lc_dtype)lc_in(program, node, k)->dtype,
				 want = lc_attend_role(node, k) == LC_AS_NUMBER ? numbers : format;
		lc_shown(program, node->in[k], x);
		if (!lc_is_real(have) || lc_is_weak(have)) {
			lc_refuse(program, node, err, "%s is %s, and attention takes real numbers", x,
			          lc_dtype_name(have));
			return lk_hint(err, "cast it: cast(f32, %s)", x);
		}
		if (have == want) continue;
		lc_refuse(program, node, err, "%s is %s, not %s, where %s is %s", x, lc_dtype_name(have),
		          lc_dtype_name(want), lc_shown(program, node->in[0], q), lc_dtype_name(format));
		return lk_hint(err, "make them equal: cast(%s, %s)", lc_dtype_name(want), x);
	}
	return LK_OK;
}

/* The dims of a role: those of q or k up to the rows, and the size of a head. */
static lc_node shape_of_role(const lc_program *program, const lc_node *node, lc_role role) {
	const lc_node *q = lc_in(program, node, 0), *k = lc_in(program, node, 1);
	lc_node shape = *(role == LC_AS_K || role == LC_AS_V ? k : q);
	if (role == LC_AS_NUMBER) shape.rank--;
	for (int i = 2; i < node->inputs && (role == LC_AS_Y || role == LC_AS_V); i++)
		if (lc_attend_role(node, i) == LC_AS_V && lc_in(program, node, i)->rank == k->rank)
			shape.dim[shape.rank - 1] = lc_in(program, node, i)->dim[k->rank - 1];
	return shape;
}

static lk_status attend_q_and_k(lc_program *program, const lc_node *node, lk_error *err) {
	const lc_node *q = lc_in(program, node, 0), *k = lc_in(program, node, 1);
	char x[LC_SHOWN], y[LC_SHOWN], a[64], b[64];
	lc_dim group;
	int heads = q->rank - 3;
	lc_shown(program, node->in[0], x);
	lc_shown(program, node->in[1], y);
	if (q->rank < 2 || k->rank != q->rank) {
		lc_refuse(program, node, err, "%s has %d dims and %s %d", x, q->rank, y, k->rank);
		return lk_hint(err, "queries, keys and values are [.., heads, positions, size of a head]");
	}
	for (int d = 0; d < q->rank; d++) {
		if (q->dim[d] == k->dim[d] || d == q->rank - 2) continue;
		lc_dim_text(program, q->dim[d], a, sizeof a);
		lc_dim_text(program, k->dim[d], b, sizeof b);
		if (d == heads && lc_dim_over(program, q->dim[d], k->dim[d], node->line, node->column,
		                              &group, NULL) == LK_OK)
			continue;
		lc_refuse(program, node, err, "%s has %s elements along dim %d and %s %s", x, a, d, y, b);
		if (d == heads)
			return lk_hint(err, "heads of queries are a multiple of those of keys: K*G and K");
		return lk_hint(err, "queries, keys and values are [.., heads, positions, size of a head]");
	}
	return LK_OK;
}

static lk_status attend_shape(lc_program *program, lc_node *node, lk_error *err) {
	char x[LC_SHOWN], have[128], want[128];
	LK_TRY(attend_q_and_k(program, node, err));
	for (int k = 2; k < node->inputs; k++) {
		lc_node need = shape_of_role(program, node, lc_attend_role(node, k)),
				got = *lc_in(program, node, k);
		if (got.rank == need.rank &&
		    memcmp(got.dim, need.dim, sizeof *got.dim * (size_t)need.rank) == 0)
			continue;
		need.dtype = got.dtype;
		need.list = got.list;
		memset(need.layout, 0, sizeof need.layout);
		memset(got.layout, 0, sizeof got.layout);
		lc_refuse(program, node, err, "%s is %s, not %s", lc_shown(program, node->in[k], x),
		          lc_type_text(program, &got, have, sizeof have),
		          lc_type_text(program, &need, want, sizeof want));
		return lk_hint(err, "values have the dims of keys but the last; what there is for each "
		                    "query has its dims");
	}
	lc_node result = shape_of_role(program, node, lc_attend_role(node, LC_ATTENDED));
	node->rank = result.rank;
	memcpy(node->dim, result.dim, sizeof node->dim);
	bool numbers = lc_attend_role(node, LC_ATTENDED) == LC_AS_NUMBER && result.dtype != LC_F64;
	node->dtype = numbers ? LC_F32 : result.dtype;
	return LK_OK;
}

/* ---- layouts ---- */

static bool like_keys(const lc_node *node, int k) {
	lc_role role = lc_attend_role(node, k);
	return role == LC_AS_K || role == LC_AS_V;
}

/* The common cut of the operands as the queries, or as the keys: R if none is sliced. */
static lk_status attend_cut(lc_program *program, lc_node *node, int axis, bool keys, lc_layout *cut,
                            lc_adder *add, lk_error *err) {
	int rows = lc_in(program, node, 0)->rank - 2;
	*cut = (lc_layout){.kind = LC_R};
	for (int k = 0; k < node->inputs; k++) {
		const lc_layout *l = &lc_in(program, node, k)->layout[axis];
		if (like_keys(node, k) != keys || l->kind != LC_S) continue;
		if (l->dim > rows)
			return lc_refuse_layout(program, node, k, axis, ", the size of a head", err);
		if (cut->kind == LC_S && !lc_same_layout(cut, l))
			return lc_refuse_layout(program, node, k, axis, ", and another operand otherwise", err);
		*cut = *l;
	}
	for (int k = 0; k < node->inputs && cut->kind == LC_S; k++) {
		if (like_keys(node, k) != keys || lc_in(program, node, k)->layout[axis].kind == LC_S)
			continue;
		if (cut->turn) return lc_refuse_layout(program, node, k, axis, "", err);
		LK_TRY(lc_slice_operand(program, node, k, cut->dim, axis, add, err));
	}
	return LK_OK;
}

/* Slices of heads of queries are those of their keys' heads if the latter are divided evenly. */
static lk_status heads_divide(lc_program *program, const lc_node *node, int d, lk_error *err) {
	const lc_node *k = lc_in(program, node, 1);
	lc_dim ranks = 0, one;
	if (lc_in(program, node, 0)->dim[d] == k->dim[d]) return LK_OK;
	for (int a = 0; a < program->axis_count; a++) {
		if (k->layout[a].kind != LC_S || k->layout[a].dim != d) continue;
		LK_TRY(lc_dim_axis(program, a, &one, err));
		LK_TRY(lc_dim_times(program, ranks, one, &ranks, err));
	}
	return lc_divides(program, k->dim[d], ranks, node->line, node->column, err);
}

static lk_status attend_sliced(lc_program *program, lc_node *node, int axis, lc_adder *add,
                               lk_error *err) {
	int rows = lc_in(program, node, 0)->rank - 2;
	bool keyed = like_keys(node, LC_ATTENDED);
	lc_layout q, k, *to = &node->layout[axis];
	LK_TRY(attend_cut(program, node, axis, true, &k, add, err));
	LK_TRY(attend_cut(program, node, axis, false, &q, add, err));
	if (k.kind == LC_S && k.dim < rows) {
		if (q.kind == LC_S && !lc_same_layout(&q, &k))
			return lc_refuse_layout(program, node, 0, axis, ", and keys otherwise", err);
		for (int i = 0; i < node->inputs && q.kind != LC_S; i++)
			if (!like_keys(node, i))
				LK_TRY(lc_slice_operand(program, node, i, k.dim, axis, add, err));
		LK_TRY(heads_divide(program, node, k.dim, err));
		*to = k;
		return LK_OK;
	}
	bool sums = keyed || node->op == LC_ATTENTION_DQ; /* over keys, or without any */
	if (k.kind == LC_S && (q.kind == LC_S ? q.dim < rows || !node->part : !sums && !node->part))
		return lc_refuse_layout(program, node, 1, axis, ", and each query needs all keys", err);
	if (k.kind == LC_S && q.kind != LC_S && node->part) {
		lc_refuse(program, node, err,
		          "part attends to slices of keys over %s, and queries are whole",
		          program->axes[axis].name);
		return lk_hint(err, "slice the queries, too, or leave part out");
	}
	const lc_layout own = keyed ? k : q;
	*to = own.kind == LC_S ? own : (lc_layout){.kind = LC_P, .reduce = LC_SUM};
	return LK_OK;
}

static lk_status attend_layout(lc_program *program, lc_node *node, int axis, lc_adder *add,
                               lk_error *err) {
	lc_layout whole = {.kind = LC_R}, found = whole;
	int first = -1, sliced = -1;
	for (int k = 0; k < node->inputs; k++) {
		const lc_layout l = lc_in(program, node, k)->layout[axis];
		if (l.kind == LC_R) continue;
		if (l.kind == LC_S) {
			sliced = k;
			continue;
		}
		bool linear = l.kind == LC_P && l.reduce == LC_SUM && node->op == LC_ATTENTION && k == 2;
		if (l.kind == LC_P && !linear)
			return lc_refuse_layout(program, node, k, axis, ", and attention of parts is no part",
			                        err);
		if (first >= 0 && !lc_same_layout(&found, &l))
			return lc_refuse_layout(program, node, k, axis, ", and another operand otherwise", err);
		found = l;
		first = k;
	}
	node->layout[axis] = found;
	if (first >= 0 && sliced >= 0)
		return lc_refuse_layout(program, node, sliced, axis, ", and another operand otherwise",
		                        err);
	return sliced >= 0 ? attend_sliced(program, node, axis, add, err) : LK_OK;
}

lk_status lc_type_attend(lc_program *program, lc_node *node, lc_adder *add, lk_error *err) {
	LK_TRY(attend_formats(program, node, err));
	LK_TRY(attend_shape(program, node, err));
	for (int a = 0; a < program->axis_count; a++) LK_TRY(attend_layout(program, node, a, add, err));
	return LK_OK;
}
