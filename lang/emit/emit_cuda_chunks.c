/* emit_cuda_chunks.c: OVERLAP steps as pipelines of chunks: a table of parts, each a function of
 * the program with the tensors to cut for it, which the runtime (data/target/cuda_chunks.h) runs
 * chunk by chunk on two streams.
 *
 * Parts are collectives of one value, products, and pointwise passes. Not supported, and left to
 * the caller: joined kernels, states that change in place, views of other tensors, dropout and
 * groups of ranks. */
#include "lang/rewrite/rewrite_internal.h"
#include "lang/emit/emit_cuda.h"

enum { PARTS = 16, VALUES = 15 }; /* RT_CHUNK_PARTS; RT_CHUNK_VALUES without the end */

struct cut {
	int value, dim;
	bool written;
};

struct pipeline {
	lc_mpi *c;
	const lc_step *step;
	struct cut cuts[PARTS][VALUES];
	int count[PARTS];
	int axis; /* over which some values have slices of the cut dim, and others all of it; -1 */
};

static bool chunks_sliced(const struct pipeline *pipeline, const struct cut *cut, int axis) {
	const lc_layout *layout = &lc_node_at(pipeline->c->p, cut->value)->layout[axis];
	return layout->kind == LC_S && layout->dim == cut->dim;
}

/* ---- cuts ---- */

static bool can_be_cut(const struct pipeline *pipeline, const lc_step *step) {
	if (step->list >= 0) return false;
	for (int i = 0; i < step->values.count; i++) {
		const lc_node *value = lc_node_at(pipeline->c->p, step->values.at[i]);
		bool communicates = step->kind == LC_STEP_COMM && step->values.count == 1;
		bool moves = value->op == LC_ALLREDUCE || value->op == LC_REDUCESCATTER ||
		             value->op == LC_ALLGATHER || value->op == LC_ALLTOALL;
		bool computes = (step->kind == LC_STEP_CONTRACT && value->op == LC_MATMUL) ||
		                (step->kind == LC_STEP_MAP && lc_is_expression(value) &&
		                 lc_ops[value->op].family == LC_MAP);
		if (value->at.axis >= 0 || !(communicates ? moves : computes)) return false;
	}
	return step->kind == LC_STEP_COMM || step->kind == LC_STEP_CONTRACT ||
	       step->kind == LC_STEP_MAP;
}

/* Add a value. One that shares memory with its operand cannot be cut both ways. */
static bool chunks_add(struct pipeline *pipeline, int part, int value, int dim, bool written) {
	for (int i = 0; i < pipeline->count[part]; i++)
		if (pipeline->cuts[part][i].value == value)
			return pipeline->cuts[part][i].dim == dim && !written;
	bool plain =
		lc_mpi_owner(pipeline->c, value) == value && pipeline->c->steps->storage[value] == value;
	for (int a = 0; a < pipeline->c->p->axis_count; a++)
		plain &= lc_node_at(pipeline->c->p, value)->layout[a].kind != LC_ROOT;
	if (!plain || lc_node_at(pipeline->c->p, value)->list >= 0 || pipeline->count[part] == VALUES)
		return false;
	pipeline->cuts[part][pipeline->count[part]++] = (struct cut){value, dim, written};
	return true;
}

static bool computed_by(const lc_step *step, int id) {
	for (int i = 0; i < step->values.count; i++)
		if (step->values.at[i] == id) return true;
	return false;
}

static bool in_memory(const struct pipeline *pipeline, int id) {
	return pipeline->c->steps->storage[id] >= 0 && lc_node_at(pipeline->c->p, id)->rank > 0;
}

/* Add the operand of a cut value: cut along the dim that becomes the value's, or whole. */
static bool add_operand(struct pipeline *pipeline, int part, int id, int k) {
	int operand = lc_node_at(pipeline->c->p, id)->in[k], dim = -1;
	if (!in_memory(pipeline, operand) || computed_by(&pipeline->step->parts[part], operand))
		return true;
	for (int d = 0; d < lc_node_at(pipeline->c->p, operand)->rank; d++)
		if (lc_dim_to(pipeline->c->p, id, k, d) == pipeline->c->steps->cut[id]) dim = d;
	if (dim >= 0) return chunks_add(pipeline, part, operand, dim, false);
	for (int i = 0; i < pipeline->count[part]; i++)
		if (pipeline->cuts[part][i].value == operand) return false;
	return true;
}

static bool chunks_cut_part(struct pipeline *pipeline, int part) {
	const lc_step *step = &pipeline->step->parts[part];
	if (!can_be_cut(pipeline, step)) return false;
	for (int i = 0; i < step->values.count; i++) {
		int id = step->values.at[i], dim = pipeline->c->steps->cut[id];
		if (lc_node_at(pipeline->c->p, id)->rank == 0) continue;
		if (dim < 0 || (in_memory(pipeline, id) && !chunks_add(pipeline, part, id, dim, true)))
			return false;
	}
	for (int i = 0; i < step->values.count; i++)
		for (int k = 0; k < lc_node_at(pipeline->c->p, step->values.at[i])->inputs; k++)
			if (lc_node_at(pipeline->c->p, step->values.at[i])->rank &&
			    !add_operand(pipeline, part, step->values.at[i], k))
				return false;
	return pipeline->count[part] > 0;
}

/* Find the axis: pieces of slices are slices again along one axis only. */
static bool chunks_find_axis(struct pipeline *pipeline) {
	pipeline->axis = -1;
	for (int a = 0; a < pipeline->c->p->axis_count; a++) {
		bool slices = false, others = false;
		for (int part = 0; part < pipeline->step->part_count; part++)
			for (int i = 0; i < pipeline->count[part]; i++) {
				bool one = chunks_sliced(pipeline, &pipeline->cuts[part][i], a);
				slices |= one;
				others |=
					!one &&
					lc_node_at(pipeline->c->p, pipeline->cuts[part][i].value)->layout[a].kind !=
						LC_L;
			}
		if (slices && pipeline->axis >= 0) return false;
		if (slices && others) pipeline->axis = a;
	}
	return true;
}

/* ---- text ---- */

static void chunks_put_row(const struct pipeline *pipeline, int part, const char *number) {
	const lc_step *step = &pipeline->step->parts[part];
	FILE *out = pipeline->c->out;
	char name[LC_IDENTIFIER];
	uint32_t needs = 0;
	for (int i = 0; i < step->after.count; i++) needs |= UINT32_C(1) << step->after.at[i];
	fprintf(out, "\t\t\t{%s, %s, %u, {", number, step->kind == LC_STEP_COMM ? "true" : "false",
	        (unsigned)needs);
	for (int i = 0; i < pipeline->count[part]; i++) {
		const struct cut *cut = &pipeline->cuts[part][i];
		bool joint = pipeline->axis >= 0 && !chunks_sliced(pipeline, cut, pipeline->axis) &&
		             lc_node_at(pipeline->c->p, cut->value)->layout[pipeline->axis].kind != LC_L;
		fprintf(out, "{%s, %d, %s, %s}, ", lc_mpi_number(pipeline->c, cut->value, name), cut->dim,
		        lk_bool_text(joint), lk_bool_text(cut->written));
	}
	fputs("{-1, 0, false, false}}},\n", out);
}

static void put_pipeline(const struct pipeline *pipeline) {
	FILE *out = pipeline->c->out;
	char name[LC_IDENTIFIER];
	if (pipeline->axis >= 0) fprintf(out, "\tif (run->mesh.ranks[%d] > 1) {\n", pipeline->axis);
	else fputs("\tif (run->mesh.size > 1) {\n", out);
	fputs("\t\tstatic const rt_chunk_part parts[] = {\n", out);
	for (int i = 0; i < pipeline->step->part_count; i++)
		chunks_put_row(pipeline, i, lc_mpi_function(pipeline->c, &pipeline->step->parts[i], name));
	fprintf(out, "\t\t};\n\t\trt_chunks_run(run, parts, %d, ", pipeline->step->part_count);
	if (pipeline->axis >= 0) fprintf(out, "run->mesh.ranks[%d], ", pipeline->axis);
	else fputs("1, ", out);
	if (pipeline->step->chunks)
		fprintf(out, "INT64_C(%lld));\n", (long long)pipeline->step->chunks);
	else if (pipeline->step->ring && pipeline->axis >= 0)
		fprintf(out, "run->mesh.ranks[%d]);\n", pipeline->axis);
	else fputs("RT_CHUNKS);\n", out);
	fputs("\t\trt_join_streams(run);\n\t\treturn;\n\t}\n", out);
}

void lc_cuda_chunks(lc_mpi *mpi, const lc_step *step) {
	struct pipeline x = {.c = mpi, .step = step};
	if (step->list >= 0 || step->chunk_dim < 0 || step->part_count < 2 || step->part_count > PARTS)
		return;
	for (int i = 0; i < step->part_count; i++)
		if (!chunks_cut_part(&x, i)) return;
	if (chunks_find_axis(&x)) put_pipeline(&x);
}
