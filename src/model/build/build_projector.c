/* build_projector.c: from the tokens of an encoder of images to those of the language model: the
 * norm, tokens side by side made one, products one after the other, and the place of the result in
 * the sequence. Tensor parallelism splits products in pairs, the first by columns, the second by
 * rows; the last of an odd number is whole on every rank. */
#include "model/build/build.h"

struct lk_project {
	double in, out; /* of this rank */
	bool sums;      /* rows are split: its output is summed over the ranks */
	bool split;     /* columns are split: so is the gradient of its input */
};

static int project_count(const lk_projector *project) {
	int count = 0;
	while (count < LK_PROJECTOR_WIDTHS && project->width[count] > 0) count++;
	return count;
}

static double project_width(const lk_model *model, int i) {
	return i == 0 ? lk_model_projector_inputs(model) : model->project.width[i - 1];
}

static struct lk_project project_at(const lk_builder *builder, int i) {
	const lk_model *model = builder->model;
	bool rows = i % 2 == 1, columns = !rows && i + 1 < project_count(&model->project);
	return (struct lk_project){.in = project_width(model, i) / (rows ? builder->tp : 1),
	                           .out = model->project.width[i] / (columns ? builder->tp : 1),
	                           .sums = rows && builder->tp > 1,
	                           .split = columns && builder->tp > 1};
}

/* Inputs of the norm, of all products, of what is between them. */
static double project_saved(const lk_builder *builder) {
	int count = project_count(&builder->model->project);
	double sum = 0;
	for (int i = 0; i < count; i++) {
		struct lk_project each = project_at(builder, i);
		sum += each.in + (i + 1 < count ? each.out : 0);
	}
	if (builder->model->project.norms > 0 && !builder->frozen)
		sum += project_width(builder->model, 0);
	return builder->bytes * builder->tokens * sum * (1 + builder->model->project.taps);
}

static void project_forward(lk_builder *builder) {
	const lk_projector *project = &builder->model->project;
	int count = project_count(project);
	double each = builder->bytes * builder->tokens, in = each * project_width(builder->model, 0);
	if (project->norms > 0) lk_build_memory(builder, LK_OP_NORM, "project_norm", 2 * in);
	if (project->merge > 1) lk_build_memory(builder, LK_OP_ELEMENTWISE, "merge_tokens", 2 * in);
	for (int i = 0; i < count; i++) {
		struct lk_project at = project_at(builder, i);
		lk_build_gemm(builder, "project", builder->tokens, at.out, at.in);
		if (at.sums)
			lk_build_collective(builder, LK_OP_ALLREDUCE, LK_STREAM_TP, LK_GROUP_TP,
			                    "reduce_projected", each * at.out, false);
		if (i + 1 < count)
			lk_build_memory(builder, LK_OP_ELEMENTWISE, "project_activation", 2 * each * at.out);
	}
}

static void project_backward(lk_builder *builder) {
	const lk_projector *project = &builder->model->project;
	int count = project_count(project);
	double each = builder->bytes * builder->tokens, in = each * project_width(builder->model, 0);
	for (int i = count - 1; i >= 0; i--) {
		struct lk_project at = project_at(builder, i);
		bool input = i > 0 || !builder->frozen;
		if (i + 1 < count)
			lk_build_memory(builder, LK_OP_ELEMENTWISE, "project_activation_grad",
			                3 * each * at.out);
		lk_build_row_backward(builder, "project_grad", at.out, at.in, input, true);
		if (input && at.split)
			lk_build_collective(builder, LK_OP_ALLREDUCE, LK_STREAM_TP, LK_GROUP_TP,
			                    "reduce_projector_grad", each * at.in, false);
	}
	if (builder->frozen) return;
	if (project->merge > 1)
		lk_build_memory(builder, LK_OP_ELEMENTWISE, "merge_tokens_grad", 2 * in);
	if (project->norms > 0) lk_build_memory(builder, LK_OP_NORM, "project_norm_grad", 3 * in);
}

void lk_build_projector(lk_builder *builder, bool forward) {
	const lk_projector *project = &builder->model->project;
	double tokens = builder->tokens, last = project->width[project_count(project) - 1];
	double normed =
		builder->model->final_norm && !builder->frozen ? lk_build_row_bytes(builder) : 0;
	builder->tokens = builder->job->mbs * lk_model_projected_tokens(builder->model);
	double placed = 2 * builder->bytes * builder->tokens * last * (1 + project->taps);
	if (!forward) lk_build_memory(builder, LK_OP_ELEMENTWISE, "place_images_grad", placed);
	for (int i = 0; i <= project->taps; i++)
		if (forward) project_forward(builder);
		else project_backward(builder);
	if (forward) lk_build_memory(builder, LK_OP_ELEMENTWISE, "place_images", placed);
	if (forward && !builder->discards)
		lk_build_save(builder, normed + project_saved(builder), LK_OWN_ACTIVATIONS);
	if (!forward) lk_build_release(builder, normed + project_saved(builder), LK_OWN_ACTIVATIONS);
	builder->tokens = tokens;
}
