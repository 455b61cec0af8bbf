/* dlrm_step.c: the training step of a DLRM as PyTorch runs it: the order of facebookresearch/dlrm's dlrm_s_pytorch.py with
 * table-batched embeddings (--batched-emb), whose lookups of all tables are one kernel and whose backward updates the
 * tables in place.
 *
 *     copy dense features, offsets, indices | bottom MLP | lookup | interaction | top MLP | copy labels | loss
 *     copy the loss to the host: it waits for the device
 *     zero_grad | backward | optimizer step | wait for the device
 *
 * Each operation is host work before its first launch (T2, with T1 of the gap in front of it), its launches (T4) with T5
 * between them, and T3 behind the last; operations that launch nothing are T5 long. Names are those of the tables of
 * overheads: autograd's without the number of their version.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "model/network/dlrm.h"

/* Indices and offsets are 32-bit, as the table-batched kernels take them. */
enum { FLOAT = 4, INDEX = 4 };

/* Of an optimizer that takes three for each weight and bias of the longest MLPs. */
enum { KERNELS = 3 * 2 * 2 * LK_DLRM_LAYERS };

struct step {
	lk_graph *graph;
	const lk_dlrm *model;
	const lk_host_times *host;
	double batch;
	double pooling, rows;   /* of equal tables that stand for all */
	uint8_t phase;
};

/* ---- host and device ---- */

static uint32_t spend(struct step *s, const char *name, double seconds, uint32_t join) {
	return lk_graph_add(s->graph, &(lk_op){.kind = LK_OP_HOST, .stream = LK_STREAM_HOST, .phase = s->phase, .name = name,
	                                       .m = seconds, .join = join});
}

static double term(const struct step *s, int which, const char *name) {
	return s->host->seconds(s->host->table, which, name);
}

static void launch(struct step *s, const char *call, const char *name, const lk_op *kernel) {
	uint32_t issued = spend(s, call, term(s, 4, call), 0);
	lk_op op = *kernel;
	op.stream = LK_STREAM_COMPUTE, op.phase = s->phase, op.dtype = LK_FP32, op.name = name;
	op.deps = &issued, op.dep_count = 1;
	lk_graph_add(s->graph, &op);
}

/* An operation's kernels, without the gap in front of it. */
static void inner(struct step *s, const char *name, const lk_op *kernels, int count) {
	spend(s, name, term(s, 2, name), 0);
	for (int i = 0; i < count; i++) {
		if (i > 0) spend(s, name, term(s, 5, name), 0);
		launch(s, kernels[i].kind == LK_OP_COPY ? "cudaMemcpyAsync" : "cudaLaunchKernel", name, &kernels[i]);
	}
	spend(s, name, term(s, 3, name), 0);
}

/* An operation and the kernels that it launches. */
static void operation(struct step *s, const char *name, const lk_op *kernels, int count) {
	spend(s, name, term(s, 1, name) + (count ? 0 : term(s, 5, name)), 0);
	if (count) inner(s, name, kernels, count);
}

/* A copy between host and device, which the host waits for. */
static void copy(struct step *s, double bytes) {
	spend(s, "aten::to", term(s, 1, "aten::to") + term(s, 2, "aten::to"), 0);
	launch(s, "cudaMemcpyAsync", "aten::to", &(lk_op){.kind = LK_OP_COPY, .bytes = bytes});
	spend(s, "cudaStreamSynchronize", 0, LK_JOIN(LK_STREAM_COMPUTE));
	spend(s, "aten::to", term(s, 3, "aten::to"), 0);
}

/* ---- kernels ---- */

/* Streams over `elements`, so many times each. */
static lk_op pass(double elements, double accesses) {
	return (lk_op){.kind = LK_OP_ELEMENTWISE, .bytes = elements * accesses * FLOAT};
}

/* `again`: how often the result is read too. */
static lk_op product(double batch, double m, double n, double k, double again) {
	return (lk_op){.kind = LK_OP_GEMM, .m = m, .n = n, .k = k, .batch = batch, .flops = 2 * batch * m * n * k,
	               .bytes = FLOAT * batch * (m * k + k * n + (1 + again) * m * n)};
}

/* Concatenations reach 0.79 of the rate of plain copies (Lin et al., arXiv 2201.07821). */
static lk_op concatenate(double elements) {
	return pass(elements, 2 / 0.79);
}

static void one(struct step *s, const char *name, lk_op kernel) {
	operation(s, name, &kernel, 1);
}

/* What autograd does within another node's call: sums for biases, additions where a tensor was used twice. */
static void within(struct step *s, const char *name, lk_op kernel) {
	inner(s, name, &kernel, 1);
}

static void none(struct step *s, const char *name) {
	operation(s, name, NULL, 0);
}

/* ---- lookups ---- */

static lk_op lookup(const struct step *s) {
	const lk_dlrm *m = s->model;
	return (lk_op){.kind = LK_OP_EMBEDDING, .m = s->batch, .n = m->dim, .k = s->pooling, .batch = m->tables, .window = s->rows};
}

/* ---- forward ---- */

static void linear(struct step *s, double in, double out) {
	/* the bias is spread over the result, which the product then adds to */
	const lk_op kernels[] = {pass(s->batch * out, 1), product(1, s->batch, out, in, 1)};
	operation(s, "aten::linear", kernels, 2);
}

static void mlp(struct step *s, const double *widths, int count, bool sigmoid) {
	for (int i = 1; i < count; i++) {
		linear(s, widths[i - 1], widths[i]);
		bool last = sigmoid && i == count - 1;
		one(s, last ? "aten::sigmoid" : "aten::relu", pass(s->batch * widths[i], 2));
	}
}

static void interact(struct step *s) {
	const lk_dlrm *m = s->model;
	double n = lk_dlrm_vectors(m), pairs = lk_dlrm_pairs(m);
	one(s, "aten::cat", concatenate(s->batch * n * m->dim));
	if (m->interaction == LK_DLRM_CAT) return;
	none(s, "aten::view");
	none(s, "aten::transpose");
	one(s, "aten::bmm", product(s->batch, n, n, m->dim, 0));
	none(s, "aten::slice");
	one(s, "aten::index", pass(s->batch * (n * n + pairs), 1));
	one(s, "aten::cat", concatenate(s->batch * m->top[0]));
}

static void forward(struct step *s) {
	const lk_dlrm *m = s->model;
	copy(s, s->batch * m->bottom[0] * FLOAT);
	copy(s, s->batch * m->tables * INDEX);
	copy(s, s->batch * lk_dlrm_lookups(m) * INDEX);
	mlp(s, m->bottom, m->bottom_widths, false);
	one(s, "LookupFunction", lookup(s));
	interact(s);
	mlp(s, m->top, m->top_widths, true);
}

/* Element by element, then the mean. */
static void loss(struct step *s) {
	const lk_op kernels[] = {pass(s->batch, 3), pass(s->batch, 1)};
	copy(s, s->batch * FLOAT);
	operation(s, s->model->loss == LK_DLRM_MSE ? "aten::mse_loss" : "aten::binary_cross_entropy", kernels, 2);
	none(s, "aten::detach");
	copy(s, FLOAT);
}

/* ---- backward ---- */

/* The weight's gradient is a long sum over the batch. cuBLAS does it in parts, which a second kernel adds up, where tiles of
 * 128 x 128 are too few for half of a device of these years (56 to 80 SMs). */
static bool in_parts(double in, double out) {
	return ceil(in / 128) * ceil(out / 128) <= 32;
}

/* Products for the gradients of inputs and weight, the bias's sum, and both added to what zero_grad left. */
static void linear_backward(struct step *s, double in, double out, bool input) {
	lk_op kernels[3];
	int count = 0;
	if (input) kernels[count++] = product(1, s->batch, in, out, 0);
	kernels[count++] = product(1, out, in, s->batch, 0);
	if (in_parts(in, out)) kernels[count++] = pass(out * in, 2);
	operation(s, "AddmmBackward", kernels, count);
	within(s, "aten::sum", pass(s->batch * out, 1));
	one(s, "torch::autograd::AccumulateGrad", pass(out, 3));
	none(s, "TBackward");
	one(s, "torch::autograd::AccumulateGrad", pass(out * in, 3));
}

static void mlp_backward(struct step *s, const double *widths, int count, bool sigmoid, bool input) {
	for (int i = count - 1; i > 0; i--) {
		bool last = sigmoid && i == count - 1;
		one(s, last ? "SigmoidBackward" : "ReluBackward", pass(s->batch * widths[i], 3));
		linear_backward(s, widths[i - 1], widths[i], input || i > 1);
	}
}

/* index_put_ with accumulation: zeros, the indices sorted (small), then a warp for each selected element, which reads its
 * index, the neighbour's, the place of the gradient, and gradient and target: four loads one after the other. */
static void index_backward(struct step *s, double square, double pairs) {
	enum { LAUNCHES = 11 }; /* of PyTorch 1.8 to 1.11, as the table of overheads has them */
	lk_op kernels[LAUNCHES];
	for (int i = 0; i < LAUNCHES; i++) kernels[i] = pass(pairs, 4);
	kernels[0] = pass(s->batch * square, 1);
	kernels[LAUNCHES - 1] = (lk_op){.kind = LK_OP_PERMUTE, .m = s->batch * pairs, .k = 4,
	                                .bytes = s->batch * (pairs + 2 * square) * FLOAT};
	operation(s, "IndexBackward", kernels, LAUNCHES);
}

static void interact_backward(struct step *s) {
	const lk_dlrm *m = s->model;
	double n = lk_dlrm_vectors(m), square = n * n;
	none(s, "CatBackward");
	if (m->interaction == LK_DLRM_CAT) return;
	index_backward(s, square, lk_dlrm_pairs(m));
	const lk_op slices[] = {pass(s->batch * square, 1), pass(s->batch * square, 2)};
	operation(s, "SliceBackward", slices, 2);
	const lk_op products[] = {product(s->batch, n, m->dim, n, 0), product(s->batch, n, m->dim, n, 0)};
	operation(s, "BmmBackward", products, 2);
	none(s, "TransposeBackward");
	within(s, "aten::add", pass(s->batch * n * m->dim, 3));
	one(s, "ViewBackward", pass(s->batch * n * m->dim, 2)); /* the sum lies transposed: it is copied */
	none(s, "CatBackward");
	within(s, "aten::add", pass(s->batch * m->dim, 3)); /* the bottom MLP's vector is used twice */
}

static void backward(struct step *s) {
	const lk_dlrm *m = s->model;
	const lk_op gradient[] = {pass(s->batch, 1), pass(s->batch, 4)};
	one(s, "aten::ones_like", pass(1, 1));
	operation(s, m->loss == LK_DLRM_MSE ? "MseLossBackward" : "BinaryCrossEntropyBackward", gradient, 2);
	mlp_backward(s, m->top, m->top_widths, true, true);
	interact_backward(s);
	one(s, "LookupFunctionBackward", lookup(s));
	mlp_backward(s, m->bottom, m->bottom_widths, false, false);
}

/* ---- optimizer ---- */

/* A kernel for each weight and bias, in the order of the layers. */
static int each_parameter(const double *widths, int count, double accesses, int times, lk_op *out, int used) {
	for (int i = 1; i < count; i++) {
		const double sizes[] = {widths[i - 1] * widths[i], widths[i]};
		for (int p = 0; p < 2; p++)
			for (int t = 0; t < times; t++) out[used++] = pass(sizes[p], accesses);
	}
	return used;
}

static void over_parameters(struct step *s, const char *name, double accesses, int times) {
	const lk_dlrm *m = s->model;
	lk_op kernels[KERNELS];
	int used = each_parameter(m->bottom, m->bottom_widths, accesses, times, kernels, 0);
	used = each_parameter(m->top, m->top_widths, accesses, times, kernels, used);
	operation(s, name, kernels, used);
}

static void optimizer_step(struct step *s) {
	if (s->model->optimizer == LK_DLRM_SGD) over_parameters(s, "Optimizer.step#SGD.step", 3, 1);
	else over_parameters(s, "Optimizer.step#Adagrad.step", 3, 3); /* squares added, their root, the quotient subtracted */
}

static void zero_grad(struct step *s) {
	bool sgd = s->model->optimizer == LK_DLRM_SGD;
	over_parameters(s, sgd ? "Optimizer.zero_grad#SGD.zero_grad" : "Optimizer.zero_grad#Adagrad.zero_grad", 1, 1);
}

/* ---- the step ---- */

static void whole_step(struct step *s) {
	s->phase = LK_PHASE_FORWARD;
	forward(s);
	loss(s);
	s->phase = LK_PHASE_BACKWARD;
	zero_grad(s);
	backward(s);
	s->phase = LK_PHASE_OPTIMIZER;
	optimizer_step(s);
	spend(s, "cudaDeviceSynchronize", 0, LK_JOIN(LK_STREAM_COMPUTE));
}

static lk_status one_rank(lk_graph *graph, uint32_t block, lk_error *err) {
	graph->ranks.world = graph->ranks.stages = graph->ranks.chains = 1;
	for (int g = 0; g < LK_GROUPS; g++) graph->ranks.group[g].size = graph->ranks.group[g].stride = 1;
	LK_TRY(lk_graph_set_programs(graph, 1, 0, err));
	graph->programs.at[0].threads = 1u << LK_STREAM_HOST;
	return lk_graph_call(graph, 0, &(lk_call){.block = block, .repeat = 1, .microbatch = -1, .layer = -1}, err);
}

lk_status lk_dlrm_step(const lk_dlrm *model, double batch, const lk_host_times *host, lk_graph **out, lk_error *err) {
	double pooling = lk_dlrm_lookups(model) / model->tables;
	struct step s = {lk_graph_new(), model, host, batch, pooling, lk_dlrm_equal_rows(model, batch), LK_PHASE_OTHER};
	uint32_t block;
	*out = NULL;
	if (!s.graph) return lk_oom(err);
	if (model->interaction == LK_DLRM_CROSS || model->optimizer == LK_DLRM_ADAM) {
		lk_graph_free(s.graph);
		lk_fail(err, LK_ERR_INPUT, model->name, "cross layers and Adam have no step operation by operation");
		return lk_hint(err, "ask lockstep predict, or use dot or cat, SGD or Adagrad");
	}
	lk_graph_begin_block(s.graph, "training step");
	whole_step(&s);
	lk_status status = lk_graph_end_block(s.graph, &block, err);
	if (status == LK_OK) status = one_rank(s.graph, block, err);
	s.graph->traced = true, s.graph->samples = batch, s.graph->peak_dtype = LK_FP32;
	s.graph->model_flops = lk_dlrm_flops(model, batch);
	if (status == LK_OK) *out = s.graph;
	else lk_graph_free(s.graph);
	return status;
}
