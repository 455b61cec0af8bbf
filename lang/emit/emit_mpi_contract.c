/* emit_mpi_contract.c: matmul, conv2d, rows and views: calls of the runtime, for each tensor of a
 * list. */
#include "lang/emit/emit_internal.h"
#include "base/check.h"

enum { PART = 160 };

void lc_mpi_contraction(lc_mpi *mpi, int id, int depth) {
	LK_ASSERT(id >= 0 && (size_t)id < mpi->p->nodes.count);
	const lc_node *node = &mpi->p->nodes.at[id];
	char a[PART] = "", b[PART] = "", y[PART];
	if (node->inputs > 0) lc_mpi_part(mpi, node->in[0], a, sizeof a);
	if (node->inputs > 1) lc_mpi_part(mpi, node->in[1], b, sizeof b);
	lc_mpi_part(mpi, id, y, sizeof y);
	lc_put_tabs(depth, mpi->out);
	if (node->op == LC_MATMUL)
		fprintf(mpi->out, "rt_matmul(run, %s, %s, %s, %s, %s);\n", a, lk_bool_text(node->ta), b,
		        lk_bool_text(node->tb), y);
	else if (node->op == LC_CONV2D)
		fprintf(mpi->out, "rt_conv2d(run, %s, %s, %s, %d, %d);\n", a, b, y, node->stride,
		        node->pad);
	else if (node->op == LC_IOTA) fprintf(mpi->out, "rt_iota(run, %s);\n", y);
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
	lc_mpi_contraction(mpi, id, step->list >= 0 ? 2 : 1);
	fputs("}\n\n", mpi->out);
	return LK_OK;
}
