/* emit_mpi_comm.c: collectives and sends: calls of the runtime, one for all tensors that may share
 * a message. */
#include "lang/emit/emit_internal.h"

static const char *comm_function(int op) {
	static const char *const names[LC_OP_COUNT] = {
		[LC_ALLREDUCE] = "allreduce", [LC_REDUCESCATTER] = "reducescatter",
		[LC_ALLGATHER] = "allgather", [LC_ALLTOALL] = "alltoall",
		[LC_BROADCAST] = "broadcast", [LC_REDUCE] = "reduce",
		[LC_PERMUTE] = "permute",     [LC_SEND] = "send",
	};
	return names[op];
}

static void put_group(lc_mpi *mpi, const char *field, const lc_group *group) {
	int index = lc_mpi_index(mpi, group->index);
	fprintf(mpi->out, ", .%s = ", field);
	if (index >= 0)
		fprintf(mpi->out, "(int)run->sizes->index[%d] + %lld", index, (long long)group->offset);
	else fprintf(mpi->out, "%lld", (long long)group->offset);
}

void lc_put_settings(lc_mpi *mpi, const lc_node *node) {
	static const char *const reduces[LC_REDUCES] = {
		[LC_SUM] = "RT_SUM", [LC_RMAX] = "RT_MAX", [LC_RMIN] = "RT_MIN"};
	fprintf(mpi->out, "(rt_collective){.axis = %d",
	        node->op == LC_SEND ? node->at.axis : node->axis);
	switch (node->op) {
	case LC_ALLREDUCE: fprintf(mpi->out, ", .reduce = %s", reduces[node->reduce]); break;
	case LC_REDUCESCATTER:
		fprintf(mpi->out, ", .reduce = %s, .d = %d", reduces[node->reduce], node->d);
		break;
	case LC_ALLGATHER: fprintf(mpi->out, ", .d = %d", node->d); break;
	case LC_ALLTOALL: fprintf(mpi->out, ", .d = %d, .e = %d", node->d, node->e); break;
	case LC_REDUCE:
		fprintf(mpi->out, ", .reduce = %s, .root = %d", reduces[node->reduce], node->root);
		break;
	case LC_PERMUTE:
		fprintf(mpi->out, ", .shift = %d", node->shift);
		if (node->by) fprintf(mpi->out, "*run->mesh.at[%d]", node->by - 1);
		break;
	case LC_SEND:
		put_group(mpi, "d", &node->from);
		put_group(mpi, "e", &node->at);
		break;
	case LC_BROADCAST:
		fprintf(mpi->out, ", .root = %d", mpi->p->nodes.at[node->in[0]].layout[node->axis].root);
		break;
	default: break;
	}
	fputc('}', mpi->out);
}

lk_status lc_mpi_collectives(lc_mpi *mpi, const int *ids, int count, int64_t bucket, int depth) {
	const lc_node *node = &mpi->p->nodes.at[ids[0]];
	char name[LC_IDENTIFIER];
	for (int side = 0; side < 2; side++) {
		lc_put_tabs(depth, mpi->out);
		fprintf(mpi->out, "rt_part *const %s[] = {", side ? "to" : "from");
		for (int i = 0; i < count; i++)
			fprintf(mpi->out, "%srun->part[%s]", lc_comma(i),
			        lc_mpi_number(mpi, side ? ids[i] : mpi->p->nodes.at[ids[i]].in[0], name));
		fputs("};\n", mpi->out);
	}
	lc_put_tabs(depth, mpi->out);
	fprintf(mpi->out, "rt_collect(run, rt_%s_pairs, ", comm_function(node->op));
	lc_put_settings(mpi, node);
	fprintf(mpi->out, ", from, to, %d, rt_items(run, %s), %lld);\n", count,
	        lc_mpi_number(mpi, ids[0], name), (long long)bucket);
	return LK_OK;
}

lk_status lc_mpi_comm(lc_mpi *mpi, const lc_step *step) {
	char name[LC_IDENTIFIER];
	int ids[LC_VALUES], count = 0;
	for (int i = 0; i < step->values.count; i++)
		if (comm_function(mpi->p->nodes.at[step->values.at[i]].op))
			ids[count++] = step->values.at[i];
	if (count == 0)
		return lk_fail(mpi->err, LK_ERR_INTERNAL, step->name,
		               "a collective step without a collective");
	fprintf(mpi->out, "static void %s(rt_run *run) {\n", lc_mpi_function(mpi, step, name));
	LK_TRY(lc_mpi_collectives(mpi, ids, count, step->bucket, 1));
	fputs("}\n\n", mpi->out);
	return LK_OK;
}
