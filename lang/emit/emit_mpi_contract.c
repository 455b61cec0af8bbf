/* emit_mpi_contract.c: matmul, conv2d, rows and views: calls of the runtime, for each tensor of a
 * list. */
#include "lang/emit/emit_internal.h"
#include "base/check.h"

enum { PART = 160 };

/* The part of operand or result `id`, or NULL where there is none. */
static void contract_put_part(const lc_mpi *mpi, int id) {
	char part[PART];
	fprintf(mpi->out, ", %s", id < 0 ? "NULL" : lc_mpi_part(mpi, id, part, sizeof part));
}

/* rt_attention(run, q, k, v, y and lse so far, y, lse, mask), rt_attention_gradients(run, q, k, v,
 * dy, lse, delta, dq, dk, dv, mask): what is not wanted, or not there, is NULL. */
static void contract_attention(const lc_mpi *mpi, const lc_step *step) {
	const lc_node *node = lc_node_at(mpi->p, step->values.at[0]);
	bool backward = node->op >= LC_ATTENTION_DQ;
	int operand[LC_INPUTS] = {-1, -1, -1, -1, -1, -1}, result[3] = {-1, -1, -1};
	for (int i = 0; i < step->values.count; i++) {
		const lc_node *made = lc_node_at(mpi->p, step->values.at[i]);
		int at = made->op == LC_ATTENTION_LSE || made->op == LC_ATTENTION_LSE_MORE;
		if (lc_ops[made->op].family != LC_ATTEND) continue; /* an update's */
		if (backward) at = made->op - LC_ATTENTION_DQ;
		result[at] = step->values.at[i];
		for (int k = 0; k < made->inputs; k++) {
			lc_role role = lc_attend_role(made, k);
			int place = k;
			if (!backward && role == LC_AS_NUMBER) place = 4;
			if (!backward && role == LC_AS_Y) place = 3;
			operand[place] = made->in[k];
		}
	}
	fputs(backward ? "rt_attention_gradients(run" : "rt_attention(run", mpi->out);
	for (int k = 0; k < (backward ? 6 : 5); k++) contract_put_part(mpi, operand[k]);
	for (int k = 0; k < (backward ? 3 : 2); k++) contract_put_part(mpi, result[k]);
	fprintf(mpi->out, ", (rt_mask){%s, %d, ", lk_bool_text(node->causal), node->window);
	lc_put_number(node->number, LC_F64, mpi->out);
	fputs("});\n", mpi->out);
}

void lc_mpi_contraction(lc_mpi *mpi, const lc_step *step, int depth) {
	int id = step->values.at[0];
	const lc_node *node = &mpi->p->nodes.at[id];
	char a[PART] = "", b[PART] = "", y[PART];
	if (node->inputs > 0) lc_mpi_part(mpi, node->in[0], a, sizeof a);
	if (node->inputs > 1) lc_mpi_part(mpi, node->in[1], b, sizeof b);
	lc_mpi_part(mpi, id, y, sizeof y);
	lc_put_tabs(depth, mpi->out);
	if (step->kind == LC_STEP_ATTEND) contract_attention(mpi, step);
	else if (node->op == LC_MATMUL)
		fprintf(mpi->out, "rt_matmul(run, %s, %s, %s, %s, %s);\n", a, lk_bool_text(node->ta), b,
		        lk_bool_text(node->tb), y);
	else if (node->op == LC_CONV2D)
		fprintf(mpi->out, "rt_conv2d(run, %s, %s, %s, %d, %d);\n", a, b, y, node->stride,
		        node->pad);
	else if (lc_ops[node->op].family == LC_BLOCK) {
		static const char *const kinds[] = {"RT_SORT",        "RT_ARGSORT", "RT_CHOLESKY",
		                                    "RT_QR_Q",        "RT_QR_R",    "RT_EIGH_VALUES",
		                                    "RT_EIGH_VECTORS"};
		fprintf(mpi->out, "rt_each_block(run, %s, %s, %s, %d, %s);\n", a, y,
		        kinds[node->op - LC_SORT], node->d, lk_bool_text(node->reverse));
	} else if (node->op == LC_IOTA) fprintf(mpi->out, "rt_iota(run, %s);\n", y);
	else if (node->op == LC_CUMSUM)
		fprintf(mpi->out, "rt_cumsum(run, %s, %s, %d, %s);\n", a, y, node->d,
		        node->reverse ? "true" : "false");
	else if (node->op == LC_CONCAT)
		fprintf(mpi->out, "rt_concat(run, %s, %s, %s, %d);\n", a, b, y, node->d);
	else if (node->op == LC_TRANSPOSE)
		fprintf(mpi->out, "rt_transpose(run, %s, %s, %d, %d);\n", a, y, node->d, node->e);
	else if (lc_ops[node->op].family == LC_VIEW)
		fprintf(mpi->out, "rt_%s(run, %s, %s, %d);\n", lc_ops[node->op].name, a, y, node->d);
	else fprintf(mpi->out, "rt_%s(run, %s, %s, %s);\n", lc_ops[node->op].name, a, b, y);
}

lk_status lc_mpi_contract(lc_mpi *mpi, const lc_step *step) {
	char name[LC_IDENTIFIER], number[LC_IDENTIFIER];
	int id = step->values.at[0];
	fprintf(mpi->out, "static void %s(rt_run *run) {\n", lc_mpi_function(mpi, step, name));
	if (step->list >= 0)
		fprintf(mpi->out, "\tfor (int64_t item = 0; item < rt_items(run, %s); item++)\n",
		        lc_mpi_number(mpi, id, number));
	lc_mpi_contraction(mpi, step, step->list >= 0 ? 2 : 1);
	fputs("}\n\n", mpi->out);
	return LK_OK;
}
