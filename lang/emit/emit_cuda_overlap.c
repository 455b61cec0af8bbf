/* emit_cuda_overlap.c: OVERLAP steps on two streams, one for communication.
 *
 * A matmul whose result is reduce-scattered runs slice by slice: while rows of slice s + 1 are
 * multiplied, slice s is reduced to rank s, by ncclReduce; all slices make the reduce-scatter. An
 * all-gather before a matmul likewise, by ncclBroadcast. All ranks take the slices in the same
 * order, as NCCL requires. Slices must be contiguous, which is known when the program runs. Other
 * chains run as pipelines of chunks (emit_cuda_chunks.c). Everything else runs whole, independent
 * parts concurrently. */
#include "lang/emit/emit_cuda.h"

enum { PART = 160 };

static bool overlap_waits_for(const lc_step *step, int other) {
	for (int i = 0; i < step->after.count; i++)
		if (step->after.at[i] == other) return true;
	return false;
}

static bool overlap_communicates(const lc_step *step) {
	return step->kind == LC_STEP_COMM || step->kind == LC_STEP_SEND || step->kind == LC_STEP_RING;
}

/* ---- whole parts ---- */

static void overlap_put_part(lc_mpi *mpi, const lc_step *step, int i) {
	char part[LC_IDENTIFIER];
	bool side = overlap_communicates(&step->parts[i]), crosses = false;
	for (int other = 0; other < i; other++)
		crosses |= overlap_communicates(&step->parts[other]) != side &&
		           overlap_waits_for(&step->parts[i], other);
	fprintf(mpi->out, "\trt_on(run, %s, %s);\n", side ? "run->side_stream" : "run->main_stream",
	        lk_bool_text(crosses));
	fprintf(mpi->out, "\t%s(run);\n", lc_mpi_function(mpi, &step->parts[i], part));
}

/* ---- slices ---- */

/* A matmul and the collective of its slices. */
struct slices {
	int product, collective, axis, dim;
	bool scatters;
};

/* Whether this is a product of rows by one matrix, whose rows the collective cuts. */
static bool overlap_rows_of(const lc_mpi *mpi, int product, int dim) {
	const lc_node *value = lc_node_at(mpi->p, product);
	if (value->op != LC_MATMUL || value->list >= 0 || value->ta || dim < 0 ||
	    dim >= value->rank - 1)
		return false;
	const lc_node *a = lc_node_at(mpi->p, value->in[0]), *b = lc_node_at(mpi->p, value->in[1]);
	return a->rank == value->rank && b->rank == 2 && a->dim[dim] == value->dim[dim];
}

static int scatter_of(const lc_mpi *mpi, const lc_step *step) {
	if (step->kind == LC_STEP_RING) return step->scatter;
	return step->kind == LC_STEP_COMM && step->values.count == 1 &&
	               lc_node_at(mpi->p, step->values.at[0])->op == LC_REDUCESCATTER
	           ? step->values.at[0]
	           : -1;
}

static bool reducible(lc_dtype t) {
	return t != LC_F8 && t != LC_I16 && t != LC_U16;
}

static bool find_slices(const lc_mpi *mpi, const lc_step *step, struct slices *out) {
	const lc_step *first = &step->parts[0], *second = &step->parts[1];
	if (step->part_count < 2 || first->list >= 0 || second->list >= 0) return false;
	if (first->kind == LC_STEP_CONTRACT && step->part_count == 2 && first->values.count == 1) {
		int product = first->values.at[0], collective = scatter_of(mpi, second);
		if (collective < 0 || lc_node_at(mpi->p, collective)->in[0] != product) return false;
		*out = (struct slices){product, collective, lc_node_at(mpi->p, collective)->axis,
		                       lc_node_at(mpi->p, collective)->d, true};
		return reducible((lc_dtype)lc_node_at(mpi->p, product)->dtype) &&
		       overlap_rows_of(mpi, product, out->dim);
	}
	if (first->kind != LC_STEP_COMM || second->kind != LC_STEP_CONTRACT ||
	    first->values.count != 1 || second->values.count != 1)
		return false;
	int collective = first->values.at[0], product = second->values.at[0];
	const lc_node *value = lc_node_at(mpi->p, collective);
	if (value->op != LC_ALLGATHER || lc_node_at(mpi->p, product)->in[0] != collective) return false;
	*out = (struct slices){product, collective, value->axis, value->d, false};
	for (int a = 0; a < mpi->p->axis_count; a++)
		if (lc_node_at(mpi->p, value->in[0])->layout[a].turn != 0) return false;
	return overlap_rows_of(mpi, product, out->dim);
}

static void overlap_put_collective(lc_mpi *mpi, const struct slices *slices) {
	static const char *const reduces[LC_REDUCES] = {
		[LC_SUM] = "RT_SUM", [LC_RMAX] = "RT_MAX", [LC_RMIN] = "RT_MIN"};
	char to[PART], from[PART];
	const lc_node *value = lc_node_at(mpi->p, slices->collective);
	lc_mpi_part(mpi, slices->collective, to, sizeof to);
	lc_mpi_part(mpi, value->in[0], from, sizeof from);
	fprintf(mpi->out, "\t\t\trt_on(run, run->side_stream, %s);\n",
	        slices->scatters ? "true" : "false");
	if (slices->scatters)
		fprintf(mpi->out, "\t\t\trt_reduce_slice(run, %s, %s, %d, %s, %d, s);\n", to, from,
		        slices->axis, reduces[value->reduce], slices->dim);
	else
		fprintf(mpi->out, "\t\t\trt_broadcast_slice(run, %s, %s, %d, %d, s);\n", to, from,
		        slices->axis, slices->dim);
}

static void overlap_put_product(lc_mpi *mpi, const lc_step *part, const struct slices *slices) {
	char a[PART], y[PART], name[LC_IDENTIFIER];
	lc_mpi_part(mpi, lc_node_at(mpi->p, slices->product)->in[0], a, sizeof a);
	lc_mpi_part(mpi, slices->product, y, sizeof y);
	fprintf(mpi->out, "\t\t\trt_on(run, run->main_stream, %s);\n",
	        slices->scatters ? "false" : "true");
	fprintf(mpi->out,
	        "\t\t\tconst rt_part rows = rt_narrow(%s, %d, ranks, s), product = rt_narrow(%s, %d, "
	        "ranks, s);\n",
	        a, slices->dim, y, slices->dim);
	fprintf(mpi->out, "\t\t\t%s(run);\n\t\t\t*(%s) = rows, *(%s) = product;\n",
	        lc_mpi_function(mpi, part, name), a, y);
}

/* Write what follows the slices: the pass of a ring and its gathers; further parts. */
static lk_status put_rest(lc_mpi *mpi, const lc_step *step) {
	const lc_step *second = &step->parts[1];
	char name[LC_NAME + 8], function[LC_IDENTIFIER];
	if (second->kind == LC_STEP_RING) {
		snprintf(name, sizeof name, "%s_pass", second->name);
		lc_step pass = {.name = name};
		fprintf(mpi->out, "\t\t%s(run);\n", lc_mpi_function(mpi, &pass, function));
		if (second->gathers.count)
			LK_TRY(lc_mpi_collectives(mpi, second->gathers.at, second->gathers.count,
			                          second->bucket, 2));
	}
	for (int i = 2; i < step->part_count; i++) {
		fprintf(mpi->out, "\t\trt_on(run, run->main_stream, true);\n");
		fprintf(mpi->out, "\t\t%s(run);\n", lc_mpi_function(mpi, &step->parts[i], function));
	}
	return LK_OK;
}

static lk_status put_slices(lc_mpi *mpi, const lc_step *step, const struct slices *slices) {
	char a[PART], y[PART];
	lc_mpi_part(mpi, lc_node_at(mpi->p, slices->product)->in[0], a, sizeof a);
	lc_mpi_part(mpi, slices->product, y, sizeof y);
	fprintf(mpi->out,
	        "\tif (!rt_reaches(run, %d) && run->mesh.ranks[%d] > 1 && rt_in_slices(%s, %d) && "
	        "rt_in_slices(%s, %d)) {\n",
	        slices->axis, slices->axis, a, slices->dim, y, slices->dim);
	fprintf(mpi->out,
	        "\t\tconst int ranks = run->mesh.ranks[%d];\n\t\tfor (int s = 0; s < ranks; s++) {\n",
	        slices->axis);
	if (slices->scatters) {
		overlap_put_product(mpi, &step->parts[0], slices);
		overlap_put_collective(mpi, slices);
	} else {
		overlap_put_collective(mpi, slices);
		overlap_put_product(mpi, &step->parts[1], slices);
	}
	fputs("\t\t}\n", mpi->out);
	LK_TRY(put_rest(mpi, step));
	fputs("\t\trt_join_streams(run);\n\t\treturn;\n\t}\n", mpi->out);
	return LK_OK;
}

lk_status lc_cuda_overlap(lc_mpi *mpi, const lc_step *step) {
	char name[LC_IDENTIFIER];
	struct slices x;
	for (int i = 0; i < step->part_count; i++) LK_TRY(mpi->any(mpi, &step->parts[i]));
	fprintf(mpi->out, "static void %s(rt_run *run) {\n\trt_fork(run);\n",
	        lc_mpi_function(mpi, step, name));
	if (find_slices(mpi, step, &x)) LK_TRY(put_slices(mpi, step, &x));
	lc_cuda_chunks(mpi, step);
	for (int i = 0; i < step->part_count; i++) overlap_put_part(mpi, step, i);
	fputs("\trt_join_streams(run);\n}\n\n", mpi->out);
	return LK_OK;
}
