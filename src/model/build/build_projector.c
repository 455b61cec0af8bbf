/* build_projector.c: from the tokens of an image encoder to those of the language model: the norm,
 * adjacent tokens merged or pooled by attention, successive products, and the copy of the result
 * into the sequence. Tensor parallelism splits products in pairs, the first by columns, the second
 * by rows; the last of an odd number is whole on every rank, as is pooling attention. */
#include "model/build/build.h"
#include "base/check.h"

/* ---- pooling attention ---- */

/* Tokens read, of all images. */
static double pool_tokens(const lk_builder *builder) {
	return builder->job->mbs * lk_model_pool_tokens(builder->model);
}

/* Input and output of the first product, queries, keys, values, and the output product's input. */
static double pool_saved(const lk_builder *builder) {
	const lk_pool *pool = &builder->model->project.pool;
	double read = pool->inputs + pool->before + 2.0 * pool->width, made = 2.0 * pool->width;
	if (pool->width == 0) return 0;
	return builder->bytes * (pool_tokens(builder) * read + builder->tokens * made);
}

/* Scores and weighted values of all heads, as one product of both depths; `times`: relative to a
 * forward pass. */
static void pool_core(lk_builder *builder, const char *name, double times) {
	const lk_pool *pool = &builder->model->project.pool;
	double keys = lk_model_pool_keys(builder->model),
		   queries = pool->queries > 0 ? pool->queries : 1;
	lk_build_core_gemm(builder, name, queries, keys, times * 2 * pool->width / pool->heads,
	                   builder->tokens / queries * pool->heads);
}

static double pool_query_inputs(const lk_builder *builder) {
	const lk_pool *pool = &builder->model->project.pool;
	return pool->queries > 0 ? pool->width : lk_model_pool_reads(builder->model);
}

static void pool_forward(lk_builder *builder) {
	const lk_pool *pool = &builder->model->project.pool;
	double tokens = pool_tokens(builder), reads = lk_model_pool_reads(builder->model);
	if (pool->width == 0) return;
	if (pool->before > 0) lk_build_gemm(builder, "pool_input", tokens, pool->before, pool->inputs);
	if (pool->queries == 0)
		lk_build_memory(builder, LK_OP_ELEMENTWISE, "pool_means",
		                builder->bytes * (tokens + builder->tokens) * reads);
	lk_build_gemm(builder, "pool_keys_values", tokens, 2.0 * pool->width, reads);
	lk_build_gemm(builder, "pool_queries", builder->tokens, pool->width,
	              pool_query_inputs(builder));
	pool_core(builder, "pool_attention", 1);
	lk_build_gemm(builder, "pool_output", builder->tokens, pool->width, pool->width);
}

/* Gradients of weights and of their inputs; of the encoder's tokens only if it is trained. */
static void pool_backward(lk_builder *builder) {
	const lk_pool *pool = &builder->model->project.pool;
	double tokens = builder->tokens, reads = lk_model_pool_reads(builder->model);
	bool trained = !builder->frozen;
	if (pool->width == 0) return;
	lk_build_row_backward(builder, "pool_output_grad", pool->width, pool->width, true, true);
	pool_core(builder, "pool_attention_grad", 2);
	lk_build_row_backward(builder, "pool_queries_grad", pool->width, pool_query_inputs(builder),
	                      trained || pool->queries > 0, true);
	builder->tokens = pool_tokens(builder);
	lk_build_row_backward(builder, "pool_keys_values_grad", 2.0 * pool->width, reads,
	                      trained || pool->before > 0, true);
	if (pool->before > 0)
		lk_build_row_backward(builder, "pool_input_grad", pool->before, pool->inputs, trained,
		                      true);
	builder->tokens = tokens;
}

/* ---- products ---- */

struct lk_project {
	double in, out; /* on this rank */
	bool sums;      /* rows are split: its output is summed over the ranks */
	bool split;     /* columns are split: the gradient of its input is summed */
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
	LK_ASSERT(i >= 0 && i < LK_PROJECTOR_WIDTHS);
	const lk_model *model = builder->model;
	bool rows = i % 2 == 1, columns = !rows && i + 1 < project_count(&model->project);
	struct lk_project at = {.in = project_width(model, i), .out = model->project.width[i]};
	if (i == 0 && model->project.gated) at.out *= 2;
	if (rows) at.in /= builder->tp;
	if (columns) at.out /= builder->tp;
	at.sums = rows && builder->tp > 1;
	at.split = columns && builder->tp > 1;
	return at;
}

/* Inputs of the norm, of all products and of the operations between them. */
static double project_saved(const lk_builder *builder) {
	int count = project_count(&builder->model->project);
	double sum = 0;
	for (int i = 0; i < count; i++) {
		struct lk_project each = project_at(builder, i);
		sum += each.in + (i + 1 < count ? each.out : 0);
	}
	if (builder->model->project.norms > 0 && !builder->frozen)
		sum += project_width(builder->model, 0);
	return builder->bytes * builder->tokens * sum * (1 + builder->model->project.taps) +
	       pool_saved(builder);
}

/* Whether adjacent tokens are merged by moving them. */
static bool merges(const lk_projector *project) {
	return project->merge > 1 && project->pool.width == 0;
}

static void project_forward(lk_builder *builder) {
	const lk_projector *project = &builder->model->project;
	int count = project_count(project);
	double each = builder->bytes * builder->tokens, in = each * project_width(builder->model, 0);
	if (project->norms > 0) lk_build_memory(builder, LK_OP_NORM, "project_norm", 2 * in);
	if (merges(project)) lk_build_memory(builder, LK_OP_ELEMENTWISE, "merge_tokens", 2 * in);
	pool_forward(builder);
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
		bool input = i > 0 || !builder->frozen || project->pool.width > 0;
		if (i + 1 < count)
			lk_build_memory(builder, LK_OP_ELEMENTWISE, "project_activation_grad",
			                3 * each * at.out);
		lk_build_row_backward(builder, "project_grad", at.out, at.in, input, true);
		if (input && at.split)
			lk_build_collective(builder, LK_OP_ALLREDUCE, LK_STREAM_TP, LK_GROUP_TP,
			                    "reduce_projector_grad", each * at.in, false);
	}
	pool_backward(builder);
	if (builder->frozen) return;
	if (merges(project)) lk_build_memory(builder, LK_OP_ELEMENTWISE, "merge_tokens_grad", 2 * in);
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
