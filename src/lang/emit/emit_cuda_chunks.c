/* emit_cuda_chunks.c: OVERLAP steps as pipelines of chunks: a table of parts, each a function of the program with the
 * tensors that are cut for it, which the runtime (data/target/cuda_chunks.h) runs chunk by chunk on two streams.
 *
 * Parts are collectives of one value, products, and pointwise passes. What the table cannot say is left to the caller: joined
 * kernels, states that change in place, views of other tensors, dropout and groups of ranks.
 */
#include "lang/rewrite/rewrite_internal.h"
#include "lang/emit/emit_cuda.h"

enum { PARTS = 16, VALUES = 15 }; /* RT_CHUNK_PARTS; RT_CHUNK_VALUES but for the end */

struct cut {
	int value, dim;
	bool written;
};

struct pipeline {
	lc_mpi *c;
	const lc_step *step;
	struct cut cuts[PARTS][VALUES];
	int count[PARTS];
	int axis; /* over which some values have slices of the dim that is cut, and others all of it; -1 */
};

static const lc_node *node(const struct pipeline *x, int id) { return &x->c->p->nodes.at[id]; }
static bool sliced(const struct pipeline *x, const struct cut *v, int axis) {
	const lc_layout *l = &node(x, v->value)->layout[axis];
	return l->kind == LC_S && l->dim == v->dim;
}

/* ---- what is cut ---- */

static bool can_be_cut(const struct pipeline *x, const lc_step *s) {
	if (s->list >= 0) return false;
	for (int i = 0; i < s->values.count; i++) {
		const lc_node *n = node(x, s->values.at[i]);
		bool communicates = s->kind == LC_STEP_COMM && s->values.count == 1;
		bool moves = n->op == LC_ALLREDUCE || n->op == LC_REDUCESCATTER || n->op == LC_ALLGATHER || n->op == LC_ALLTOALL;
		bool computes = (s->kind == LC_STEP_CONTRACT && n->op == LC_MATMUL) ||
			(s->kind == LC_STEP_MAP && lc_is_pointwise(n) && lc_ops[n->op].family == LC_MAP);
		if (n->at.axis >= 0 || !(communicates ? moves : computes)) return false;
	}
	return s->kind == LC_STEP_COMM || s->kind == LC_STEP_CONTRACT || s->kind == LC_STEP_MAP;
}

/* Together with its operand: a view of one could not be cut as both. */
static bool add(struct pipeline *x, int part, int value, int dim, bool written) {
	for (int i = 0; i < x->count[part]; i++)
		if (x->cuts[part][i].value == value) return x->cuts[part][i].dim == dim && !written;
	bool plain = lc_mpi_owner(x->c, value) == value && x->c->steps->storage[value] == value;
	for (int a = 0; a < x->c->p->axis_count; a++) plain &= node(x, value)->layout[a].kind != LC_ROOT;
	if (!plain || node(x, value)->list >= 0 || x->count[part] == VALUES) return false;
	x->cuts[part][x->count[part]++] = (struct cut){value, dim, written};
	return true;
}

static bool computed_by(const lc_step *s, int id) {
	for (int i = 0; i < s->values.count; i++)
		if (s->values.at[i] == id) return true;
	return false;
}

static bool in_memory(const struct pipeline *x, int id) { return x->c->steps->storage[id] >= 0 && node(x, id)->rank > 0; }

/* The operand of a value that is cut: along the dim that becomes the value's, or whole. */
static bool add_operand(struct pipeline *x, int part, int id, int k) {
	int operand = node(x, id)->in[k], dim = -1;
	if (!in_memory(x, operand) || computed_by(&x->step->parts[part], operand)) return true;
	for (int d = 0; d < node(x, operand)->rank; d++)
		if (lc_dim_to(x->c->p, id, k, d) == x->c->steps->cut[id]) dim = d;
	if (dim >= 0) return add(x, part, operand, dim, false);
	for (int i = 0; i < x->count[part]; i++)
		if (x->cuts[part][i].value == operand) return false;
	return true;
}

static bool cut_part(struct pipeline *x, int part) {
	const lc_step *s = &x->step->parts[part];
	if (!can_be_cut(x, s)) return false;
	for (int i = 0; i < s->values.count; i++) {
		int id = s->values.at[i], dim = x->c->steps->cut[id];
		if (node(x, id)->rank == 0) continue;
		if (dim < 0 || (in_memory(x, id) && !add(x, part, id, dim, true))) return false;
	}
	for (int i = 0; i < s->values.count; i++)
		for (int k = 0; k < node(x, s->values.at[i])->inputs; k++)
			if (node(x, s->values.at[i])->rank && !add_operand(x, part, s->values.at[i], k)) return false;
	return x->count[part] > 0;
}

/* Pieces of slices are slices again along one axis alone. */
static bool find_axis(struct pipeline *x) {
	x->axis = -1;
	for (int a = 0; a < x->c->p->axis_count; a++) {
		bool slices = false, others = false;
		for (int part = 0; part < x->step->part_count; part++)
			for (int i = 0; i < x->count[part]; i++) {
				bool one = sliced(x, &x->cuts[part][i], a);
				slices |= one;
				others |= !one && node(x, x->cuts[part][i].value)->layout[a].kind != LC_L;
			}
		if (slices && x->axis >= 0) return false;
		if (slices && others) x->axis = a;
	}
	return true;
}

/* ---- text ---- */

static void put_row(const struct pipeline *x, int part, const char *number) {
	const lc_step *s = &x->step->parts[part];
	FILE *out = x->c->out;
	char name[LC_IDENTIFIER];
	uint32_t needs = 0;
	for (int i = 0; i < s->after.count; i++) needs |= UINT32_C(1) << s->after.at[i];
	fprintf(out, "\t\t\t{%s, %s, %u, {", number, s->kind == LC_STEP_COMM ? "true" : "false", (unsigned)needs);
	for (int i = 0; i < x->count[part]; i++) {
		const struct cut *v = &x->cuts[part][i];
		bool joint = x->axis >= 0 && !sliced(x, v, x->axis) && node(x, v->value)->layout[x->axis].kind != LC_L;
		fprintf(out, "{%s, %d, %s, %s}, ", lc_mpi_number(x->c, v->value, name), v->dim, joint ? "true" : "false",
		        v->written ? "true" : "false");
	}
	fputs("{-1, 0, false, false}}},\n", out);
}

static void put_pipeline(const struct pipeline *x) {
	FILE *out = x->c->out;
	char name[LC_IDENTIFIER];
	if (x->axis >= 0) fprintf(out, "\tif (run->mesh.ranks[%d] > 1) {\n", x->axis);
	else fputs("\tif (run->mesh.size > 1) {\n", out);
	fputs("\t\tstatic const rt_chunk_part parts[] = {\n", out);
	for (int i = 0; i < x->step->part_count; i++) put_row(x, i, lc_mpi_function(x->c, &x->step->parts[i], name));
	fprintf(out, "\t\t};\n\t\trt_chunks_run(run, parts, %d, ", x->step->part_count);
	if (x->axis >= 0) fprintf(out, "run->mesh.ranks[%d], ", x->axis);
	else fputs("1, ", out);
	if (x->step->chunks) fprintf(out, "INT64_C(%lld));\n", (long long)x->step->chunks);
	else if (x->step->ring && x->axis >= 0) fprintf(out, "run->mesh.ranks[%d]);\n", x->axis);
	else fputs("RT_CHUNKS);\n", out);
	fputs("\t\trt_join_streams(run);\n\t\treturn;\n\t}\n", out);
}

void lc_cuda_chunks(lc_mpi *c, const lc_step *s) {
	struct pipeline x = {.c = c, .step = s};
	if (s->list >= 0 || s->chunk_dim < 0 || s->part_count < 2 || s->part_count > PARTS) return;
	for (int i = 0; i < s->part_count; i++)
		if (!cut_part(&x, i)) return;
	if (find_axis(&x)) put_pipeline(&x);
}
