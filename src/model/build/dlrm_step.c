/* dlrm_step.c: the training step of a DLRM as PyTorch runs it: the order of facebookresearch/dlrm's
 * dlrm_s_pytorch.py with table-batched embeddings (--batched-emb), whose lookups of all tables are
 * one kernel and whose backward updates the tables in place.
 *
 *     copy dense features, offsets, indices | bottom MLP | lookup | interaction | top MLP | copy
 *         labels | loss
 *     copy the loss to the host: it waits for the device
 *     zero_grad | backward | optimizer step | wait for the device
 *
 * Each operation is host work before its first launch (T2, with T1 of the gap in front of it), its
 * launches (T4) with T5 between them, and T3 after the last; operations that launch nothing are T5
 * long. Names are those of the tables of overheads: autograd's without the number of their version.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "model/network/dlrm.h"
#include "base/check.h"

/* Indices and offsets are 32-bit, as the table-batched kernels take them. */
enum {
	FLOAT = 4,
	INDEX = 4
};

/* Of an optimizer that takes three for each weight and bias of the longest MLPs. */
enum {
	KERNELS = 3 * 2 * 2 * LK_DLRM_LAYERS
};

struct step {
	lk_graph *graph;
	const lk_dlrm *model;
	const lk_host_times *host;
	double batch;
	double pooling, rows; /* of equal tables that stand for all */
	uint8_t phase;
};

/* ---- host and device ---- */

static uint32_t dlrm_step_spend(struct step *step, const char *name, double seconds,
                                uint32_t join) {
	return lk_graph_add(step->graph, &(lk_op){.kind = LK_OP_HOST,
	                                          .stream = LK_STREAM_HOST,
	                                          .phase = step->phase,
	                                          .name = name,
	                                          .m = seconds,
	                                          .join = join});
}

static double dlrm_step_term(const struct step *step, int which, const char *name) {
	return step->host->seconds(step->host->table, which, name);
}

static void dlrm_step_launch(struct step *step, const char *call, const char *name,
                             const lk_op *kernel) {
	uint32_t issued = dlrm_step_spend(step, call, dlrm_step_term(step, 4, call), 0);
	lk_op op = *kernel;
	op.stream = LK_STREAM_COMPUTE;
	op.phase = step->phase;
	op.dtype = LK_FP32;
	op.name = name;
	op.deps = &issued;
	op.dep_count = 1;
	lk_graph_add(step->graph, &op);
}

/* An operation's kernels, without the gap in front of it. */
static void dlrm_step_inner(struct step *step, const char *name, const lk_op *kernels, int count) {
	dlrm_step_spend(step, name, dlrm_step_term(step, 2, name), 0);
	for (int i = 0; i < count; i++) {
		if (i > 0) dlrm_step_spend(step, name, dlrm_step_term(step, 5, name), 0);
		dlrm_step_launch(step,
		                 kernels[i].kind == LK_OP_COPY ? "cudaMemcpyAsync" : "cudaLaunchKernel",
		                 name, &kernels[i]);
	}
	dlrm_step_spend(step, name, dlrm_step_term(step, 3, name), 0);
}

/* An operation and the kernels that it launches. */
static void dlrm_step_operation(struct step *step, const char *name, const lk_op *kernels,
                                int count) {
	dlrm_step_spend(step, name,
	                dlrm_step_term(step, 1, name) + (count ? 0 : dlrm_step_term(step, 5, name)), 0);
	if (count) dlrm_step_inner(step, name, kernels, count);
}

/* A copy between host and device, which the host waits for. */
static void dlrm_step_copy(struct step *step, double bytes) {
	dlrm_step_spend(step, "aten::to",
	                dlrm_step_term(step, 1, "aten::to") + dlrm_step_term(step, 2, "aten::to"), 0);
	dlrm_step_launch(step, "cudaMemcpyAsync", "aten::to",
	                 &(lk_op){.kind = LK_OP_COPY, .bytes = bytes});
	dlrm_step_spend(step, "cudaStreamSynchronize", 0, LK_JOIN(LK_STREAM_COMPUTE));
	dlrm_step_spend(step, "aten::to", dlrm_step_term(step, 3, "aten::to"), 0);
}

/* ---- kernels ---- */

/* Streams over `elements`, so many times each. */
static lk_op dlrm_step_pass(double elements, double accesses) {
	return (lk_op){.kind = LK_OP_ELEMENTWISE, .bytes = elements * accesses * FLOAT};
}

/* `again`: how often the result is read too. */
static lk_op dlrm_step_product(double batch, double m, double n, double k, double again) {
	return (lk_op){.kind = LK_OP_GEMM,
	               .m = m,
	               .n = n,
	               .k = k,
	               .batch = batch,
	               .flops = 2 * batch * m * n * k,
	               .bytes = FLOAT * batch * (m * k + k * n + (1 + again) * m * n)};
}

/* Concatenations reach 0.79 of the rate of plain copies (Lin et al., arXiv 2201.07821). */
static lk_op concatenate(double elements) {
	return dlrm_step_pass(elements, 2 / 0.79);
}

static void dlrm_step_one(struct step *step, const char *name, lk_op kernel) {
	dlrm_step_operation(step, name, &kernel, 1);
}

/* What autograd does within another node's call: sums for biases, additions where a tensor was used
 * twice. */
static void dlrm_step_within(struct step *step, const char *name, lk_op kernel) {
	dlrm_step_inner(step, name, &kernel, 1);
}

static void dlrm_step_none(struct step *step, const char *name) {
	dlrm_step_operation(step, name, NULL, 0);
}

/* ---- lookups ---- */

static lk_op dlrm_step_lookup(const struct step *step) {
	const lk_dlrm *dlrm = step->model;
	return (lk_op){.kind = LK_OP_EMBEDDING,
	               .m = step->batch,
	               .n = dlrm->dim,
	               .k = step->pooling,
	               .batch = dlrm->tables,
	               .window = step->rows};
}

/* ---- forward ---- */

static void dlrm_step_linear(struct step *step, double in, double out) {
	/* the bias is spread over the result, which the product then adds to */
	const lk_op kernels[] = {dlrm_step_pass(step->batch * out, 1),
	                         dlrm_step_product(1, step->batch, out, in, 1)};
	dlrm_step_operation(step, "aten::linear", kernels, 2);
}

static void dlrm_step_mlp(struct step *step, const double *widths, int count, bool sigmoid) {
	for (int i = 1; i < count; i++) {
		dlrm_step_linear(step, widths[i - 1], widths[i]);
		bool last = sigmoid && i == count - 1;
		dlrm_step_one(step, last ? "aten::sigmoid" : "aten::relu",
		              dlrm_step_pass(step->batch * widths[i], 2));
	}
}

static void dlrm_step_interact(struct step *step) {
	const lk_dlrm *dlrm = step->model;
	double n = lk_dlrm_vectors(dlrm), pairs = lk_dlrm_pairs(dlrm);
	dlrm_step_one(step, "aten::cat", concatenate(step->batch * n * dlrm->dim));
	if (dlrm->interaction == LK_DLRM_CAT) return;
	dlrm_step_none(step, "aten::view");
	dlrm_step_none(step, "aten::transpose");
	dlrm_step_one(step, "aten::bmm", dlrm_step_product(step->batch, n, n, dlrm->dim, 0));
	dlrm_step_none(step, "aten::slice");
	dlrm_step_one(step, "aten::index", dlrm_step_pass(step->batch * (n * n + pairs), 1));
	dlrm_step_one(step, "aten::cat", concatenate(step->batch * dlrm->top[0]));
}

static void dlrm_step_forward(struct step *step) {
	const lk_dlrm *dlrm = step->model;
	dlrm_step_copy(step, step->batch * dlrm->bottom[0] * FLOAT);
	dlrm_step_copy(step, step->batch * dlrm->tables * INDEX);
	dlrm_step_copy(step, step->batch * lk_dlrm_lookups(dlrm) * INDEX);
	dlrm_step_mlp(step, dlrm->bottom, dlrm->bottom_widths, false);
	dlrm_step_one(step, "LookupFunction", dlrm_step_lookup(step));
	dlrm_step_interact(step);
	dlrm_step_mlp(step, dlrm->top, dlrm->top_widths, true);
}

/* Element by element, then the mean. */
static void dlrm_step_loss(struct step *step) {
	const lk_op kernels[] = {dlrm_step_pass(step->batch, 3), dlrm_step_pass(step->batch, 1)};
	dlrm_step_copy(step, step->batch * FLOAT);
	dlrm_step_operation(
		step, step->model->loss == LK_DLRM_MSE ? "aten::mse_loss" : "aten::binary_cross_entropy",
		kernels, 2);
	dlrm_step_none(step, "aten::detach");
	dlrm_step_copy(step, FLOAT);
}

/* ---- backward ---- */

/* The weight's gradient is a long sum over the batch. cuBLAS does it in parts, which a second
 * kernel adds up, where tiles of 128 x 128 are too few for half of a device of these years (56 to
 * 80 SMs). */
static bool in_parts(double in, double out) {
	return ceil(in / 128) * ceil(out / 128) <= 32;
}

/* Products for the gradients of inputs and weight, the bias's sum, and both added to what zero_grad
 * left. */
static void linear_backward(struct step *step, double in, double out, bool input) {
	lk_op kernels[3];
	int count = 0;
	if (input) kernels[count++] = dlrm_step_product(1, step->batch, in, out, 0);
	kernels[count++] = dlrm_step_product(1, out, in, step->batch, 0);
	if (in_parts(in, out)) kernels[count++] = dlrm_step_pass(out * in, 2);
	dlrm_step_operation(step, "AddmmBackward", kernels, count);
	dlrm_step_within(step, "aten::sum", dlrm_step_pass(step->batch * out, 1));
	dlrm_step_one(step, "torch::autograd::AccumulateGrad", dlrm_step_pass(out, 3));
	dlrm_step_none(step, "TBackward");
	dlrm_step_one(step, "torch::autograd::AccumulateGrad", dlrm_step_pass(out * in, 3));
}

static void dlrm_step_mlp_backward(struct step *step, const double *widths, int count, bool sigmoid,
                                   bool input) {
	for (int i = count - 1; i > 0; i--) {
		bool last = sigmoid && i == count - 1;
		dlrm_step_one(step, last ? "SigmoidBackward" : "ReluBackward",
		              dlrm_step_pass(step->batch * widths[i], 3));
		linear_backward(step, widths[i - 1], widths[i], input || i > 1);
	}
}

/* index_put_ with accumulation: zeros, the indices sorted (small), then a warp for each selected
 * element, which reads its index, the neighbour's, the place of the gradient, and gradient and
 * target: four loads one after the other. */
static void index_backward(struct step *step, double square, double pairs) {
	enum {
		LAUNCHES = 11
	}; /* of PyTorch 1.8 to 1.11, as the table of overheads has them */
	lk_op kernels[LAUNCHES];
	for (int i = 0; i < LAUNCHES; i++) kernels[i] = dlrm_step_pass(pairs, 4);
	kernels[0] = dlrm_step_pass(step->batch * square, 1);
	kernels[LAUNCHES - 1] = (lk_op){.kind = LK_OP_PERMUTE,
	                                .m = step->batch * pairs,
	                                .k = 4,
	                                .bytes = step->batch * (pairs + 2 * square) * FLOAT};
	dlrm_step_operation(step, "IndexBackward", kernels, LAUNCHES);
}

static void dlrm_step_interact_backward(struct step *step) {
	const lk_dlrm *dlrm = step->model;
	double n = lk_dlrm_vectors(dlrm), square = n * n;
	dlrm_step_none(step, "CatBackward");
	if (dlrm->interaction == LK_DLRM_CAT) return;
	index_backward(step, square, lk_dlrm_pairs(dlrm));
	const lk_op slices[] = {dlrm_step_pass(step->batch * square, 1),
	                        dlrm_step_pass(step->batch * square, 2)};
	dlrm_step_operation(step, "SliceBackward", slices, 2);
	const lk_op products[] = {dlrm_step_product(step->batch, n, dlrm->dim, n, 0),
	                          dlrm_step_product(step->batch, n, dlrm->dim, n, 0)};
	dlrm_step_operation(step, "BmmBackward", products, 2);
	dlrm_step_none(step, "TransposeBackward");
	dlrm_step_within(step, "aten::add", dlrm_step_pass(step->batch * n * dlrm->dim, 3));
	dlrm_step_one(
		step, "ViewBackward",
		dlrm_step_pass(step->batch * n * dlrm->dim, 2)); /* the sum lies transposed: it is copied */
	dlrm_step_none(step, "CatBackward");
	dlrm_step_within(
		step, "aten::add",
		dlrm_step_pass(step->batch * dlrm->dim, 3)); /* the bottom MLP's vector is used twice */
}

static void dlrm_step_backward(struct step *step) {
	const lk_dlrm *dlrm = step->model;
	const lk_op gradient[] = {dlrm_step_pass(step->batch, 1), dlrm_step_pass(step->batch, 4)};
	dlrm_step_one(step, "aten::ones_like", dlrm_step_pass(1, 1));
	dlrm_step_operation(
		step, dlrm->loss == LK_DLRM_MSE ? "MseLossBackward" : "BinaryCrossEntropyBackward",
		gradient, 2);
	dlrm_step_mlp_backward(step, dlrm->top, dlrm->top_widths, true, true);
	dlrm_step_interact_backward(step);
	dlrm_step_one(step, "LookupFunctionBackward", dlrm_step_lookup(step));
	dlrm_step_mlp_backward(step, dlrm->bottom, dlrm->bottom_widths, false, false);
}

/* ---- optimizer ---- */

/* A kernel for each weight and bias, in the order of the layers. */
static int each_parameter(const double *widths, int count, double accesses, int times, lk_op *out,
                          int used) {
	for (int i = 1; i < count; i++) {
		const double sizes[] = {widths[i - 1] * widths[i], widths[i]};
		for (int p = 0; p < 2; p++)
			for (int t = 0; t < times; t++) out[used++] = dlrm_step_pass(sizes[p], accesses);
	}
	return used;
}

static void over_parameters(struct step *step, const char *name, double accesses, int times) {
	const lk_dlrm *dlrm = step->model;
	lk_op kernels[KERNELS];
	int used = each_parameter(dlrm->bottom, dlrm->bottom_widths, accesses, times, kernels, 0);
	used = each_parameter(dlrm->top, dlrm->top_widths, accesses, times, kernels, used);
	dlrm_step_operation(step, name, kernels, used);
}

static void optimizer_step(struct step *step) {
	if (step->model->optimizer == LK_DLRM_SGD)
		over_parameters(step, "Optimizer.step#SGD.step", 3, 1);
	else
		over_parameters(step, "Optimizer.step#Adagrad.step", 3,
		                3); /* squares added, their root, the quotient subtracted */
}

static void zero_grad(struct step *step) {
	bool sgd = step->model->optimizer == LK_DLRM_SGD;
	over_parameters(
		step, sgd ? "Optimizer.zero_grad#SGD.zero_grad" : "Optimizer.zero_grad#Adagrad.zero_grad",
		1, 1);
}

/* ---- the step ---- */

static void whole_step(struct step *step) {
	step->phase = LK_PHASE_FORWARD;
	dlrm_step_forward(step);
	dlrm_step_loss(step);
	step->phase = LK_PHASE_BACKWARD;
	zero_grad(step);
	dlrm_step_backward(step);
	step->phase = LK_PHASE_OPTIMIZER;
	optimizer_step(step);
	dlrm_step_spend(step, "cudaDeviceSynchronize", 0, LK_JOIN(LK_STREAM_COMPUTE));
}

static lk_status one_rank(lk_graph *graph, uint32_t block, lk_error *err) {
	LK_ASSERT(block < graph->blocks.count);
	graph->ranks.world = graph->ranks.stages = graph->ranks.chains = 1;
	for (int g = 0; g < LK_GROUPS; g++)
		graph->ranks.group[g].size = graph->ranks.group[g].stride = 1;
	LK_TRY(lk_graph_set_programs(graph, 1, 0, err));
	graph->programs.at[0].threads = 1u << LK_STREAM_HOST;
	return lk_graph_call(
		graph, 0, &(lk_call){.block = block, .repeat = 1, .microbatch = -1, .layer = -1}, err);
}

lk_status lk_dlrm_step(const lk_dlrm *model, double batch, const lk_host_times *host,
                       lk_graph **out, lk_error *err) {
	double pooling = lk_dlrm_lookups(model) / model->tables;
	struct step s = {lk_graph_new(), model, host, batch, pooling, lk_dlrm_equal_rows(model, batch),
	                 LK_PHASE_OTHER};
	uint32_t block;
	*out = NULL;
	if (!s.graph) return lk_oom(err);
	if (model->interaction == LK_DLRM_CROSS || model->optimizer == LK_DLRM_ADAM) {
		lk_graph_free(s.graph);
		lk_fail(err, LK_ERR_INPUT, model->name,
		        "cross layers and Adam have no step operation by operation");
		return lk_hint(err, "ask lockstep predict, or use dot or cat, SGD or Adagrad");
	}
	lk_graph_begin_block(s.graph, "training step");
	whole_step(&s);
	lk_status status = lk_graph_end_block(s.graph, &block, err);
	if (status == LK_OK) status = one_rank(s.graph, block, err);
	s.graph->traced = true;
	s.graph->samples = batch;
	s.graph->peak_dtype = LK_FP32;
	s.graph->model_flops = lk_dlrm_flops(model, batch);
	if (status == LK_OK) *out = s.graph;
	else lk_graph_free(s.graph);
	return status;
}
