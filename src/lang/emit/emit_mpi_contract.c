/* emit_mpi_contract.c: matmul, conv2d and gather_rows: calls of the runtime, for each tensor of a list. */
#include "lang/emit/emit_internal.h"

enum { PART = 160 };

void lc_mpi_contraction(lc_mpi *c, int id, int depth) {
	const lc_node *n = &c->p->nodes.at[id];
	char a[PART], b[PART], y[PART];
	lc_mpi_part(c, n->in[0], a, sizeof a), lc_mpi_part(c, n->in[1], b, sizeof b), lc_mpi_part(c, id, y, sizeof y);
	lc_put_tabs(depth, c->out);
	if (n->op == LC_MATMUL)
		fprintf(c->out, "rt_matmul(run, %s, %s, %s, %s, %s);\n", a, n->ta ? "true" : "false", b, n->tb ? "true" : "false", y);
	else if (n->op == LC_CONV2D) fprintf(c->out, "rt_conv2d(run, %s, %s, %s, %d, %d);\n", a, b, y, n->stride, n->pad);
	else fprintf(c->out, "rt_gather_rows(run, %s, %s, %s);\n", a, b, y);
}

lk_status lc_mpi_contract(lc_mpi *c, const lc_step *s) {
	char name[LC_IDENTIFIER], number[LC_IDENTIFIER];
	int id = s->values.at[0];
	fprintf(c->out, "static void %s(rt_run *run) {\n", lc_mpi_function(c, s, name));
	if (s->list >= 0)
		fprintf(c->out, "\tfor (int64_t item = 0; item < rt_items(run, %s); item++)\n", lc_mpi_number(c, id, number));
	lc_mpi_contraction(c, id, s->list >= 0 ? 2 : 1);
	fputs("}\n\n", c->out);
	return LK_OK;
}
