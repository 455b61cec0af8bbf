/* asked.c: makes the values of backward passes and composed operations; one word of the text stands
 * for all of them. */
#include <math.h>

#include "base/check.h"
#include "lang/types/program.h"

lc_node lc_ask_draft(const lc_asker *ask, lc_op op) {
	lc_node draft = lc_draft(op, ask->asked->line, ask->asked->column);
	draft.part_of = ask->asked->part_of;
	return draft;
}

lk_status lc_ask_unary(const lc_asker *ask, lc_op op, int a, int *out) {
	lc_node draft = lc_ask_draft(ask, op);
	draft.in[0] = a;
	return lc_add(ask->p, &draft, out, ask->err);
}

lk_status lc_ask_binary(const lc_asker *ask, lc_op op, int a, int b, int *out) {
	lc_node draft = lc_ask_draft(ask, op);
	draft.in[0] = a;
	draft.in[1] = b;
	return lc_add(ask->p, &draft, out, ask->err);
}

lk_status lc_ask_number(const lc_asker *ask, double number, int *out) {
	lc_node draft = lc_ask_draft(ask, LC_CONST);
	draft.number = number;
	return lc_add(ask->p, &draft, out, ask->err);
}

lk_status lc_ask_with_number(const lc_asker *ask, lc_op op, int a, double number, int *out) {
	int b;
	LK_ASSERT(number >= 0 || op == LC_MUL || op == LC_DIV);
	LK_TRY(lc_ask_number(ask, fabs(number), &b));
	LK_TRY(lc_ask_binary(ask, op, a, b, out));
	return number < 0 ? lc_ask_unary(ask, LC_NEG, *out, out) : LK_OK;
}

lk_status lc_ask_cast(const lc_asker *ask, lc_dtype dtype, int a, int *out) {
	lc_node draft = lc_ask_draft(ask, LC_CAST);
	*out = a;
	if (ask->p->nodes.at[a].dtype == dtype) return LK_OK;
	draft.in[0] = a;
	draft.dtype = (uint8_t)dtype;
	return lc_add(ask->p, &draft, out, ask->err);
}

lk_status lc_ask_truth(const lc_asker *ask, lc_op compares, int a, int b, lc_dtype dtype,
                       int *out) {
	LK_TRY(lc_ask_binary(ask, compares, a, b, out));
	return lc_ask_cast(ask, dtype, *out, out);
}

lk_status lc_ask_view(const lc_asker *ask, lc_op op, int a, int d, int e, lc_dim count, int *out) {
	lc_node draft = lc_ask_draft(ask, op);
	draft.in[0] = a;
	draft.d = (int8_t)d;
	draft.e = (int8_t)e;
	draft.count = count;
	return lc_add(ask->p, &draft, out, ask->err);
}

lk_status lc_ask_reduced(const lc_asker *ask, lc_op op, int a, unsigned dims, bool keep, int *out) {
	lc_node draft = lc_ask_draft(ask, op);
	*out = a;
	if (dims == 0) return LK_OK;
	draft.in[0] = a;
	draft.dims = (uint8_t)dims;
	draft.keep = keep;
	return lc_add(ask->p, &draft, out, ask->err);
}
