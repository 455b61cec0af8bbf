/* emit_mpi_comm.c: collectives and sends: calls of the runtime, one for all tensors that may share a message. */
#include "lang/emit/emit_internal.h"

static const char *function(int op) {
	static const char *const names[LC_OP_COUNT] = {
		[LC_ALLREDUCE] = "allreduce", [LC_REDUCESCATTER] = "reducescatter", [LC_ALLGATHER] = "allgather",
		[LC_ALLTOALL] = "alltoall", [LC_BROADCAST] = "broadcast", [LC_REDUCE] = "reduce", [LC_PERMUTE] = "permute",
		[LC_SEND] = "send",
	};
	return names[op];
}

static void put_group(lc_mpi *c, const char *field, const lc_group *g) {
	int index = lc_mpi_index(c, g->index);
	fprintf(c->out, ", .%s = ", field);
	if (index >= 0) fprintf(c->out, "(int)run->sizes->index[%d] + %lld", index, (long long)g->offset);
	else fprintf(c->out, "%lld", (long long)g->offset);
}

void lc_put_settings(lc_mpi *c, const lc_node *n) {
	static const char *const reduces[LC_REDUCES] = {[LC_SUM] = "RT_SUM", [LC_RMAX] = "RT_MAX", [LC_RMIN] = "RT_MIN"};
	fprintf(c->out, "(rt_collective){.axis = %d", n->op == LC_SEND ? n->at.axis : n->axis);
	switch (n->op) {
	case LC_ALLREDUCE: fprintf(c->out, ", .reduce = %s", reduces[n->reduce]); break;
	case LC_REDUCESCATTER: fprintf(c->out, ", .reduce = %s, .d = %d", reduces[n->reduce], n->d); break;
	case LC_ALLGATHER: fprintf(c->out, ", .d = %d", n->d); break;
	case LC_ALLTOALL: fprintf(c->out, ", .d = %d, .e = %d", n->d, n->e); break;
	case LC_REDUCE: fprintf(c->out, ", .reduce = %s, .root = %d", reduces[n->reduce], n->root); break;
	case LC_PERMUTE: fprintf(c->out, ", .shift = %d", n->shift); break;
	case LC_SEND: put_group(c, "d", &n->from), put_group(c, "e", &n->at); break;
	case LC_BROADCAST: fprintf(c->out, ", .root = %d", c->p->nodes.at[n->in[0]].layout[n->axis].root); break;
	default: break;
	}
	fputc('}', c->out);
}

lk_status lc_mpi_collectives(lc_mpi *c, const int *ids, int count, int64_t bucket, int depth) {
	const lc_node *n = &c->p->nodes.at[ids[0]];
	char name[LC_IDENTIFIER];
	for (int side = 0; side < 2; side++) {
		lc_put_tabs(depth, c->out);
		fprintf(c->out, "rt_part *const %s[] = {", side ? "to" : "from");
		for (int i = 0; i < count; i++)
			fprintf(c->out, "%srun->part[%s]", i ? ", " : "", lc_mpi_number(c, side ? ids[i] : c->p->nodes.at[ids[i]].in[0], name));
		fputs("};\n", c->out);
	}
	lc_put_tabs(depth, c->out);
	fprintf(c->out, "rt_collect(run, rt_%s_pairs, ", function(n->op));
	lc_put_settings(c, n);
	fprintf(c->out, ", from, to, %d, rt_items(run, %s), %lld);\n", count, lc_mpi_number(c, ids[0], name), (long long)bucket);
	return LK_OK;
}

lk_status lc_mpi_comm(lc_mpi *c, const lc_step *s) {
	char name[LC_IDENTIFIER];
	int ids[LC_VALUES], count = 0;
	for (int i = 0; i < s->values.count; i++)
		if (function(c->p->nodes.at[s->values.at[i]].op)) ids[count++] = s->values.at[i];
	if (count == 0) return lk_fail(c->err, LK_ERR_INTERNAL, s->name, "a collective step without a collective");
	fprintf(c->out, "static void %s(rt_run *run) {\n", lc_mpi_function(c, s, name));
	LK_TRY(lc_mpi_collectives(c, ids, count, s->bucket, 1));
	fputs("}\n\n", c->out);
	return LK_OK;
}
