/* emit_cuda_overlap.c: OVERLAP steps on two streams, one for what communicates.
 *
 * A matmul whose result is reduce-scattered runs slice by slice: while rows of slice s + 1 are multiplied, slice s is
 * reduced to rank s, by ncclReduce; all slices make the reduce-scatter. An all-gather before a matmul likewise, by
 * ncclBroadcast. All ranks take the slices in the same order, as NCCL wants it. That needs slices whose elements lie
 * together, which is known when the program runs. Other chains run as pipelines of chunks (target_cuda_chunks.c). What
 * neither can is done whole: parts that do not wait for each other, side by side.
 */
#include "lang/emit/emit_cuda.h"

enum { PART = 160 };

static const lc_node *node(const lc_mpi *c, int id) { return &c->p->nodes.at[id]; }

static bool waits_for(const lc_step *s, int other) {
	for (int i = 0; i < s->after.count; i++)
		if (s->after.at[i] == other) return true;
	return false;
}

static bool communicates(const lc_step *s) {
	return s->kind == LC_STEP_COMM || s->kind == LC_STEP_SEND || s->kind == LC_STEP_RING;
}

/* ---- whole parts ---- */

static void put_part(lc_mpi *c, const lc_step *s, int i) {
	char part[LC_IDENTIFIER];
	bool side = communicates(&s->parts[i]), crosses = false;
	for (int other = 0; other < i; other++)
		crosses |= communicates(&s->parts[other]) != side && waits_for(&s->parts[i], other);
	fprintf(c->out, "\trt_on(run, %s, %s);\n", side ? "run->side_stream" : "run->main_stream", crosses ? "true" : "false");
	fprintf(c->out, "\t%s(run);\n", lc_mpi_function(c, &s->parts[i], part));
}

/* ---- slices ---- */

/* A matmul and the collective that its slices go through. */
struct slices {
	int product, collective, axis, dim;
	bool scatters;
};

/* A product of rows by one matrix, along whose rows the collective cuts. */
static bool rows_of(const lc_mpi *c, int product, int dim) {
	const lc_node *y = node(c, product);
	if (y->op != LC_MATMUL || y->list >= 0 || y->ta || dim < 0 || dim >= y->rank - 1) return false;
	const lc_node *a = node(c, y->in[0]), *b = node(c, y->in[1]);
	return a->rank == y->rank && b->rank == 2 && a->dim[dim] == y->dim[dim];
}

static int scatter_of(const lc_mpi *c, const lc_step *s) {
	if (s->kind == LC_STEP_RING) return s->scatter;
	return s->kind == LC_STEP_COMM && s->values.count == 1 && node(c, s->values.at[0])->op == LC_REDUCESCATTER
		? s->values.at[0]
		: -1;
}

static bool reducible(lc_dtype t) { return t != LC_F8 && t != LC_I16 && t != LC_U16; }

static bool find_slices(const lc_mpi *c, const lc_step *s, struct slices *out) {
	const lc_step *first = &s->parts[0], *second = &s->parts[1];
	if (s->part_count < 2 || first->list >= 0 || second->list >= 0) return false;
	if (first->kind == LC_STEP_CONTRACT && s->part_count == 2 && first->values.count == 1) {
		int product = first->values.at[0], collective = scatter_of(c, second);
		if (collective < 0 || node(c, collective)->in[0] != product) return false;
		*out = (struct slices){product, collective, node(c, collective)->axis, node(c, collective)->d, true};
		return reducible((lc_dtype)node(c, product)->dtype) && rows_of(c, product, out->dim);
	}
	if (first->kind != LC_STEP_COMM || second->kind != LC_STEP_CONTRACT || first->values.count != 1 ||
		second->values.count != 1)
		return false;
	int collective = first->values.at[0], product = second->values.at[0];
	const lc_node *g = node(c, collective);
	if (g->op != LC_ALLGATHER || node(c, product)->in[0] != collective) return false;
	*out = (struct slices){product, collective, g->axis, g->d, false};
	for (int a = 0; a < c->p->axis_count; a++)
		if (node(c, g->in[0])->layout[a].turn != 0) return false;
	return rows_of(c, product, out->dim);
}

static void put_collective(lc_mpi *c, const struct slices *x) {
	static const char *const reduces[LC_REDUCES] = {[LC_SUM] = "RT_SUM", [LC_RMAX] = "RT_MAX", [LC_RMIN] = "RT_MIN"};
	char to[PART], from[PART];
	const lc_node *n = node(c, x->collective);
	lc_mpi_part(c, x->collective, to, sizeof to), lc_mpi_part(c, n->in[0], from, sizeof from);
	fprintf(c->out, "\t\t\trt_on(run, run->side_stream, %s);\n", x->scatters ? "true" : "false");
	if (x->scatters)
		fprintf(c->out, "\t\t\trt_reduce_slice(run, %s, %s, %d, %s, %d, s);\n", to, from, x->axis, reduces[n->reduce],
			x->dim);
	else fprintf(c->out, "\t\t\trt_broadcast_slice(run, %s, %s, %d, %d, s);\n", to, from, x->axis, x->dim);
}

static void put_product(lc_mpi *c, const lc_step *part, const struct slices *x) {
	char a[PART], y[PART], name[LC_IDENTIFIER];
	lc_mpi_part(c, node(c, x->product)->in[0], a, sizeof a), lc_mpi_part(c, x->product, y, sizeof y);
	fprintf(c->out, "\t\t\trt_on(run, run->main_stream, %s);\n", x->scatters ? "false" : "true");
	fprintf(c->out,
		"\t\t\tconst rt_part rows = rt_narrow(%s, %d, ranks, s), product = rt_narrow(%s, %d, ranks, s);\n", a, x->dim,
		y, x->dim);
	fprintf(c->out, "\t\t\t%s(run);\n\t\t\t*(%s) = rows, *(%s) = product;\n", lc_mpi_function(c, part, name), a, y);
}

/* What comes behind the slices: the pass of a ring and its gathers; further parts. */
static lk_status put_rest(lc_mpi *c, const lc_step *s) {
	const lc_step *second = &s->parts[1];
	char name[LC_NAME + 8], function[LC_IDENTIFIER];
	if (second->kind == LC_STEP_RING) {
		snprintf(name, sizeof name, "%s_pass", second->name);
		lc_step pass = {.name = name};
		fprintf(c->out, "\t\t%s(run);\n", lc_mpi_function(c, &pass, function));
		if (second->gathers.count)
			LK_TRY(lc_mpi_collectives(c, second->gathers.at, second->gathers.count, second->bucket, 2));
	}
	for (int i = 2; i < s->part_count; i++) {
		fprintf(c->out, "\t\trt_on(run, run->main_stream, true);\n");
		fprintf(c->out, "\t\t%s(run);\n", lc_mpi_function(c, &s->parts[i], function));
	}
	return LK_OK;
}

static lk_status put_slices(lc_mpi *c, const lc_step *s, const struct slices *x) {
	char a[PART], y[PART];
	lc_mpi_part(c, node(c, x->product)->in[0], a, sizeof a), lc_mpi_part(c, x->product, y, sizeof y);
	fprintf(c->out,
		"\tif (!rt_reaches(run, %d) && run->mesh.ranks[%d] > 1 && rt_in_slices(%s, %d) && rt_in_slices(%s, %d)) {\n",
		x->axis, x->axis, a, x->dim, y, x->dim);
	fprintf(c->out, "\t\tconst int ranks = run->mesh.ranks[%d];\n\t\tfor (int s = 0; s < ranks; s++) {\n", x->axis);
	if (x->scatters) put_product(c, &s->parts[0], x), put_collective(c, x);
	else put_collective(c, x), put_product(c, &s->parts[1], x);
	fputs("\t\t}\n", c->out);
	LK_TRY(put_rest(c, s));
	fputs("\t\trt_join_streams(run);\n\t\treturn;\n\t}\n", c->out);
	return LK_OK;
}

lk_status lc_cuda_overlap(lc_mpi *c, const lc_step *s) {
	char name[LC_IDENTIFIER];
	struct slices x;
	for (int i = 0; i < s->part_count; i++) LK_TRY(lc_cuda_any(c, &s->parts[i]));
	fprintf(c->out, "static void %s(rt_run *run) {\n\trt_fork(run);\n", lc_mpi_function(c, s, name));
	if (find_slices(c, s, &x)) LK_TRY(put_slices(c, s, &x));
	lc_cuda_chunks(c, s);
	for (int i = 0; i < s->part_count; i++) put_part(c, s, i);
	fputs("\trt_join_streams(run);\n}\n\n", c->out);
	return LK_OK;
}
