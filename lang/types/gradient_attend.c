/* gradient_attend.c: gradients of attention: calls of attention_dq, _dk and _dv with the lse and
 * delta = sum(dy * y) of each query.
 *
 * The lse l of a query has the gradient dl: p dl is added to the scores' gradient p*(dy v^T -
 * delta), so that -dl stands for delta, and nothing for dy. */
#include <string.h>

#include "base/check.h"
#include "lang/types/program.h"

/* A draft with the mask of an attention. */
static lc_node draft_like(const lc_asker *ask, const lc_node *node, lc_op op) {
	lc_node draft = lc_ask_draft(ask, op);
	draft.causal = node->causal;
	draft.window = node->window;
	draft.number = node->number;
	draft.part = node->part;
	return draft;
}

/* A value after `first` that computes what a draft does, or a new one. */
static lk_status found_or_added(const lc_asker *ask, const lc_node *draft, int first, int *out) {
	for (int id = first; id < (int)ask->p->nodes.count; id++) {
		const lc_node *node = lc_node_at(ask->p, id);
		if (node->op != draft->op || node->inputs != draft->inputs ||
		    memcmp(node->in, draft->in, sizeof *node->in * node->inputs) != 0 ||
		    node->dims != draft->dims ||
		    (lc_ops[node->op].family == LC_ATTEND && !lc_attend_siblings(node, draft)))
			continue;
		*out = id;
		return LK_OK;
	}
	return lc_add(ask->p, draft, out, ask->err);
}

/* dy of the queries' kind, delta and lse: the last operands of the backward kernels. */
static lk_status backward_operands(const lc_asker *ask, int u, int a, int in[LC_INPUTS]) {
	const lc_node node = *lc_node_at(ask->p, u);
	lc_node draft = draft_like(ask, &node, LC_ATTENTION_LSE);
	memcpy(in, node.in, sizeof node.in);
	draft.in[0] = in[0];
	draft.in[1] = in[1];
	if (node.op == LC_ATTENTION_LSE) {
		LK_TRY(lc_ask_unary(ask, LC_NEG, a, &in[5]));
		LK_TRY(lc_ask_with_number(ask, LC_MUL, in[0], 0, &in[3]));
		in[2] = in[1];
		in[4] = u;
		return LK_OK;
	}
	LK_TRY(found_or_added(ask, &draft, 0, &in[4]));
	in[3] = a;
	lc_node product = lc_ask_draft(ask, LC_MUL), sum = lc_ask_draft(ask, LC_RED_SUM);
	lc_dtype numbers = (lc_dtype)lc_node_at(ask->p, in[4])->dtype;
	int y = u;
	LK_TRY(lc_ask_cast(ask, numbers, a, &a));
	LK_TRY(lc_ask_cast(ask, numbers, y, &y));
	product.in[0] = a;
	product.in[1] = y;
	LK_TRY(found_or_added(ask, &product, u, &sum.in[0]));
	sum.dims = (uint8_t)(1u << (node.rank - 1));
	return found_or_added(ask, &sum, u, &in[5]);
}

lk_status lc_gradient_attend(const lc_asker *ask, int u, int k, int a, int *out) {
	const lc_node node = *lc_node_at(ask->p, u);
	static const lc_op gradients[] = {LC_ATTENTION_DQ, LC_ATTENTION_DK, LC_ATTENTION_DV};
	if (node.op != LC_ATTENTION && node.op != LC_ATTENTION_LSE) {
		lc_refuse(ask->p, ask->asked, ask->err, "%s has no gradient", lc_ops[node.op].name);
		return lk_hint(ask->err, "differentiate attention(q, k, v), and let a schedule divide it");
	}
	lc_node draft = draft_like(ask, &node, gradients[k]);
	for (int id = u; id < (int)ask->p->nodes.count; id++) { /* made for another operand */
		const lc_node *other = lc_node_at(ask->p, id);
		draft.in[0] = node.in[0];
		if (other->op < LC_ATTENTION_DQ || other->op > LC_ATTENTION_DV || other->in[3] != a ||
		    memcmp(other->in, node.in, sizeof *node.in * 3) != 0)
			continue;
		memcpy(draft.in, other->in, sizeof draft.in);
		if (lc_attend_siblings(other, &draft)) return lc_add(ask->p, &draft, out, ask->err);
	}
	LK_TRY(backward_operands(ask, u, a, draft.in));
	return lc_add(ask->p, &draft, out, ask->err);
}
