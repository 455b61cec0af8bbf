/* dlrm_step.c: the training step of a DLRM as PyTorch runs it, operation by operation, with
 * table-batched embeddings: the lookups of all tables are one kernel, and their backward updates
 * the tables in place.
 *
 * One rank, in the order of facebookresearch/dlrm's dlrm_s_pytorch.py (--batched-emb):
 *
 *     copy dense features, offsets, indices | bottom MLP | lookup | interaction | top MLP |
 *         copy labels | loss
 *     copy the loss to the host: it waits for the device
 *     zero_grad | backward | optimizer step | wait for the device
 *
 * Several ranks, as TorchRec's pipelined trainer (TrainPipelineSparseDist) with MLPs under DDP:
 *
 *     copy the batch after the next | bottom MLP | indices of this batch | lookup |
 *         exchange of sums | interaction | top MLP | loss
 *     indices of the next batch: exchange of their counts, for which the host waits, then of them
 *     backward, with the exchange of the sums' gradients in it; gradients of MLPs in buckets, those
 *         of copied tables separately | optimizer step
 *
 * Each operation is host work before its first launch (T2, with T1 of the gap in front of it), its
 * launches (T4) with T5 between them, and T3 after the last; operations that launch nothing are T5
 * long. Names are those of the tables of overheads: autograd's without their version number.
 * Without a host, the same kernels are replayed from a CUDA graph.
 */
#include <math.h>
#include <stdlib.h>

#include "base/units.h"
#include "model/dlrm/dlrm_build.h"
#include "base/check.h"

/* Indices and offsets are 32-bit, as the table-batched kernels take them. */
enum { FLOAT = 4, INDEX = 4 };

/* DDP's buckets: the first is closed at 1 MiB, others at 25. */
static const double first_bucket = 0x1p20, bucket = 25 * 0x1p20;

struct step {
	lk_graph *graph;
	const lk_dlrm *model;
	const lk_dlrm_placed *placed;
	const lk_host_times *host; /* NULL: no host */
	double batch;              /* of the rank */
	double element;            /* bytes per element of the MLPs */
	lk_dtype dtype;
	int rank;
	uint32_t team;
	double gathered, limit; /* bytes of gradients in the open bucket; its limit */
	uint8_t phase;
};

static bool among_many(const struct step *step) {
	return step->placed->ranks > 1;
}

/* ---- host and device ---- */

/* Add host work; returns its place in the block. Without a host nothing is added: UINT32_MAX. */
static uint32_t dlrm_step_spend(struct step *step, const char *name, double seconds,
                                uint32_t join) {
	if (!step->host) return UINT32_MAX;
	return lk_graph_add(step->graph, &(lk_op){.kind = LK_OP_HOST,
	                                          .stream = LK_STREAM_HOST,
	                                          .phase = step->phase,
	                                          .name = name,
	                                          .m = seconds,
	                                          .join = join});
}

static double dlrm_step_term(const struct step *step, int which, const char *name) {
	return !step->host ? 0 : step->host->seconds(step->host->table, which, name);
}

static void dlrm_step_launch(struct step *step, const char *call, const char *name,
                             const lk_op *kernel) {
	uint32_t issued = dlrm_step_spend(step, call, dlrm_step_term(step, 4, call), 0);
	lk_op op = *kernel;
	if (op.stream == LK_STREAM_HOST) op.stream = LK_STREAM_COMPUTE;
	op.phase = step->phase;
	op.dtype = (uint8_t)step->dtype;
	op.name = name;
	op.deps = &issued;
	op.dep_count = step->host != NULL;
	lk_graph_add(step->graph, &op);
}

/* An operation's kernels, without the gap before it. */
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

/* A copy between host and device that the host waits for. */
static void dlrm_step_copy(struct step *step, double bytes) {
	if (!step->host) return; /* a replayed graph reads nothing back */
	dlrm_step_spend(step, "aten::to",
	                dlrm_step_term(step, 1, "aten::to") + dlrm_step_term(step, 2, "aten::to"), 0);
	dlrm_step_launch(step, "cudaMemcpyAsync", "aten::to",
	                 &(lk_op){.kind = LK_OP_COPY, .bytes = bytes});
	dlrm_step_spend(step, "cudaStreamSynchronize", 0, LK_JOIN(LK_STREAM_COMPUTE));
	dlrm_step_spend(step, "aten::to", dlrm_step_term(step, 3, "aten::to"), 0);
}

/* ---- kernels ---- */

/* Streams over `elements`, `accesses` times each. */
static lk_op dlrm_step_pass(const struct step *step, double elements, double accesses) {
	return (lk_op){.kind = LK_OP_ELEMENTWISE, .bytes = elements * accesses * step->element};
}

/* Likewise for weights, which are fp32 whatever the MLPs compute in. */
static lk_op pass_weights(double elements, double accesses) {
	return (lk_op){.kind = LK_OP_ELEMENTWISE, .bytes = elements * accesses * FLOAT};
}

/* `again`: how often the result is read as well. */
static lk_op dlrm_step_product(const struct step *step, double batch, double m, double n, double k,
                               double again) {
	return (lk_op){.kind = LK_OP_GEMM,
	               .m = m,
	               .n = n,
	               .k = k,
	               .batch = batch,
	               .flops = 2 * batch * m * n * k,
	               .bytes = step->element * batch * (m * k + k * n + (1 + again) * m * n)};
}

/* Concatenations reach 0.79 of the rate of plain copies (Lin et al., arXiv 2201.07821). */
static lk_op concatenate(const struct step *step, double elements) {
	return dlrm_step_pass(step, elements, 2 / 0.79);
}

static void dlrm_step_one(struct step *step, const char *name, lk_op kernel) {
	dlrm_step_operation(step, name, &kernel, 1);
}

/* Work of autograd within another node's call: sums for biases, additions for a tensor used
 * twice. */
static void dlrm_step_within(struct step *step, const char *name, lk_op kernel) {
	dlrm_step_inner(step, name, &kernel, 1);
}

static void dlrm_step_none(struct step *step, const char *name) {
	dlrm_step_operation(step, name, NULL, 0);
}

/* `count` operations that launch nothing. */
static void dlrm_step_nones(struct step *step, const char *name, int count) {
	for (int i = 0; i < count; i++) dlrm_step_none(step, name);
}

/* An operation of `count` small kernels of `bytes` each: on indices, lengths and offsets. */
static void dlrm_step_small(struct step *step, const char *name, int count, double bytes) {
	enum { MOST = 16 };
	lk_op kernels[MOST];
	LK_ASSERT(count > 0 && count <= MOST);
	for (int i = 0; i < count; i++) kernels[i] = (lk_op){.kind = LK_OP_ELEMENTWISE, .bytes = bytes};
	dlrm_step_operation(step, name, kernels, count);
}

/* ---- communication ---- */

/* A collective of all ranks, after the compute issued so far; `seconds` 0: priced by its bytes. */
static lk_op dlrm_step_message(const struct step *step, lk_op_kind kind, unsigned stream,
                               double bytes, double seconds) {
	return (lk_op){.kind = (uint8_t)kind,
	               .stream = (uint8_t)stream,
	               .group = LK_GROUP_TEAM,
	               .channel = (int32_t)step->team,
	               .bytes = bytes,
	               .measured_ps = llround(fmin(seconds, 1e6) * LK_PS_PER_S),
	               .join = LK_JOIN(LK_STREAM_COMPUTE)};
}

static void dlrm_step_await(struct step *step, const char *name, unsigned stream) {
	lk_graph_add(step->graph, &(lk_op){.kind = LK_OP_WAIT,
	                                   .stream = LK_STREAM_COMPUTE,
	                                   .phase = step->phase,
	                                   .name = name,
	                                   .join = LK_JOIN(stream)});
}

static double sums_of(const struct step *step) {
	return step->batch * step->model->tables * step->model->dim;
}

static void exchange_sums(struct step *step) {
	dlrm_step_one(step, "All2All_Req",
	              dlrm_step_message(step, LK_OP_ALLTOALL, LK_STREAM_EP, sums_of(step) * FLOAT,
	                                step->placed->exchange_s));
}

/* DDP's reducer: divide the bucket by the number of ranks and send it. */
static void close_bucket(struct step *step) {
	if (!(step->gathered > 0)) return;
	dlrm_step_within(step, "torch.distributed.ddp.reducer::copy_bucket_to_grad",
	                 dlrm_step_pass(step, step->gathered / step->element, 2));
	dlrm_step_within(step, "all_reduce",
	                 dlrm_step_message(step, LK_OP_ALLREDUCE, LK_STREAM_DP, step->gathered, 0));
	step->gathered = 0;
	step->limit = bucket;
}

static void gather_gradient(struct step *step, double elements) {
	if (!among_many(step)) return;
	step->gathered += elements * step->element;
	if (step->gathered >= step->limit) close_bucket(step);
}

/* ---- the batch ---- */

static double index_bytes(const struct step *step) {
	return step->batch * lk_dlrm_lookups(step->model) * INDEX;
}

static double length_bytes(const struct step *step) {
	return step->batch * step->model->tables * INDEX;
}

static void copy_batch(struct step *step) {
	dlrm_step_copy(step, step->batch * step->model->bottom[0] * FLOAT);
	dlrm_step_copy(step, length_bytes(step));
	dlrm_step_copy(step, index_bytes(step));
}

/* Copy the batch after the next from pinned memory on a separate stream: nothing waits for it. */
static void copy_ahead(struct step *step) {
	const double bytes[] = {step->batch * step->model->bottom[0] * FLOAT, step->batch * FLOAT,
	                        index_bytes(step), length_bytes(step)};
	for (int i = 0; i < 4 && step->host; i++)
		dlrm_step_one(step, "aten::to",
		              (lk_op){.kind = LK_OP_COPY, .stream = LK_STREAM_COPY, .bytes = bytes[i]});
	dlrm_step_nones(step, "aten::view", 4); /* recorded on the compute stream */
}

/* Reorder this batch's features, which arrived during the previous step, into the rank's order of
 * tables; the host reads their counts. */
static void take_indices(struct step *step) {
	dlrm_step_await(step, "indices are here", LK_STREAM_EP);
	dlrm_step_small(step, "fbgemm::permute_2D_sparse_data", 7, 2 * index_bytes(step));
	dlrm_step_nones(step, "aten::view", 2);
	dlrm_step_small(step, "aten::sum", 2, length_bytes(step));
	dlrm_step_copy(step, step->model->tables * INDEX);
	dlrm_step_nones(step, "aten::view", 4);
}

/* For the next batch: features in the order of the ranks, three permutations copied to the device,
 * the counts of indices per destination, which the host waits for, and the indices. */
static void send_indices(struct step *step) {
	dlrm_step_nones(step, "aten::view", 6);
	dlrm_step_small(step, "fbgemm::permute_2D_sparse_data", 7, 2 * index_bytes(step));
	dlrm_step_nones(step, "aten::slice", 4);
	for (int i = 0; i < 3; i++) {
		dlrm_step_none(step, "aten::empty");
		dlrm_step_copy(step, step->model->tables * INDEX);
		dlrm_step_none(step, "aten::detach_");
	}
	dlrm_step_small(step, "aten::cat", 1, step->model->tables * INDEX);
	dlrm_step_none(step, "aten::view");
	dlrm_step_one(
		step, "All2All_Req",
		dlrm_step_message(step, LK_OP_ALLTOALL, LK_STREAM_EP, 2 * step->model->tables * INDEX, 0));
	dlrm_step_spend(step, "cudaStreamSynchronize", 0, LK_JOIN(LK_STREAM_EP));
	dlrm_step_copy(step, step->model->tables * INDEX);
	dlrm_step_none(step, "aten::empty");
	dlrm_step_copy(step, step->model->tables * INDEX);
	dlrm_step_none(step, "aten::empty");
	dlrm_step_one(step, "All2All_Req",
	              dlrm_step_message(step, LK_OP_ALLTOALL, LK_STREAM_EP,
	                                index_bytes(step) + length_bytes(step), step->placed->index_s));
}

/* ---- lookups ---- */

/* Lookup of the rank's tables, in a kernel whose time the placement states; no kernel without
 * tables. */
static void dlrm_step_lookup(struct step *step, const char *name, double seconds) {
	if (!(seconds > 0)) return;
	lk_op lookup = {.kind = LK_OP_EMBEDDING,
	                .measured_ps = llround(fmin(seconds, 1e6) * LK_PS_PER_S)};
	dlrm_step_one(step, name, lookup);
}

/* Check indices, accumulate lengths into offsets. */
static void prepare_lookup(struct step *step) {
	dlrm_step_small(step, "aten::to", 1, length_bytes(step));
	dlrm_step_small(step, "fbgemm::asynchronous_complete_cumsum", 3, length_bytes(step));
	dlrm_step_small(step, "aten::to", 1, index_bytes(step));
	dlrm_step_small(step, "fbgemm::bounds_check_indices", 2, index_bytes(step));
}

static void look_up(struct step *step) {
	const lk_dlrm_placed *placed = step->placed;
	if (among_many(step)) prepare_lookup(step);
	dlrm_step_lookup(step, "LookupFunction", placed->forward_s[step->rank]);
	if (!among_many(step)) return;
	dlrm_step_none(step, "aten::empty");
	exchange_sums(step);
	if (placed->copies_s > 0) prepare_lookup(step); /* their lookups are in the kernel above */
	dlrm_step_await(step, "sums are here", LK_STREAM_EP);
	dlrm_step_one(step, "aten::cat", concatenate(step, sums_of(step)));
	dlrm_step_nones(step, "aten::view", 3);
}

/* Sort by table and row in some fifteen launches before the kernel that changes the rows. */
static void look_up_backward(struct step *step) {
	const lk_dlrm_placed *placed = step->placed;
	if (!among_many(step)) {
		dlrm_step_lookup(step, "LookupFunctionBackward", placed->backward_s[step->rank]);
		return;
	}
	/* each rank's columns are sliced out of the gradient */
	dlrm_step_spend(step, "CatBackward",
	                placed->ranks * (dlrm_step_term(step, 4, "cudaLaunchKernel") +
	                                 dlrm_step_term(step, 5, "aten::view")),
	                0);
	dlrm_step_one(step, "CatBackward", dlrm_step_pass(step, sums_of(step), 4));
	exchange_sums(step);
	if (placed->copies_s > 0) {
		dlrm_step_small(step, "LookupFunctionBackward", 14, index_bytes(step));
		dlrm_step_within(
			step, "all_reduce",
			dlrm_step_message(step, LK_OP_ALLREDUCE, LK_STREAM_DP, 0, placed->copies_s));
	}
	dlrm_step_await(step, "gradients of sums are here", LK_STREAM_EP);
	if (!(placed->backward_s[step->rank] > 0)) return;
	dlrm_step_small(step, "LookupFunctionBackward", 14, index_bytes(step));
	dlrm_step_lookup(step, "LookupFunctionBackward", placed->backward_s[step->rank]);
}

/* ---- forward ---- */

static void dlrm_step_linear(struct step *step, double in, double out, bool bias) {
	/* the bias is broadcast over the result, to which the product then adds */
	const lk_op kernels[] = {dlrm_step_pass(step, step->batch * out, 1),
	                         dlrm_step_product(step, 1, step->batch, out, in, bias)};
	dlrm_step_operation(step, "aten::linear", kernels + !bias, 1 + bias);
}

static void dlrm_step_mlp(struct step *step, const double *widths, int count, bool sigmoid) {
	for (int i = 1; i < count; i++) {
		dlrm_step_linear(step, widths[i - 1], widths[i], true);
		bool last = sigmoid && i == count - 1;
		dlrm_step_one(step, last ? "aten::sigmoid" : "aten::relu",
		              dlrm_step_pass(step, step->batch * widths[i], 2));
	}
}

static void dlrm_step_dots(struct step *step) {
	const lk_dlrm *dlrm = step->model;
	double n = lk_dlrm_vectors(dlrm), pairs = lk_dlrm_pairs(dlrm);
	dlrm_step_none(step, "aten::view");
	dlrm_step_none(step, "aten::transpose");
	dlrm_step_one(step, "aten::bmm", dlrm_step_product(step, step->batch, n, n, dlrm->dim, 0));
	dlrm_step_none(step, "aten::slice");
	dlrm_step_one(step, "aten::index", dlrm_step_pass(step, step->batch * (n * n + pairs), 1));
	dlrm_step_one(step, "aten::cat", concatenate(step, step->batch * dlrm->top[0]));
}

/* x' = x0 * (W V x + b) + x. */
static void dlrm_step_cross(struct step *step) {
	const lk_dlrm *dlrm = step->model;
	for (int i = 0; i < dlrm->cross_layers; i++) {
		dlrm_step_linear(step, dlrm->top[0], dlrm->cross_rank, false);
		dlrm_step_linear(step, dlrm->cross_rank, dlrm->top[0], true);
		dlrm_step_one(step, "aten::mul", dlrm_step_pass(step, step->batch * dlrm->top[0], 3));
		dlrm_step_one(step, "aten::add", dlrm_step_pass(step, step->batch * dlrm->top[0], 3));
	}
}

static void dlrm_step_interact(struct step *step) {
	const lk_dlrm *dlrm = step->model;
	double all = step->batch * lk_dlrm_vectors(dlrm) * dlrm->dim;
	dlrm_step_one(step, "aten::cat", concatenate(step, all));
	if (dlrm->interaction == LK_DLRM_DOT) dlrm_step_dots(step);
	if (dlrm->interaction == LK_DLRM_CROSS) dlrm_step_cross(step);
}

static void dlrm_step_forward(struct step *step) {
	const lk_dlrm *dlrm = step->model;
	if (among_many(step)) copy_ahead(step);
	else copy_batch(step);
	dlrm_step_mlp(step, dlrm->bottom, dlrm->bottom_widths, false);
	if (among_many(step)) take_indices(step);
	look_up(step);
	dlrm_step_interact(step);
	dlrm_step_mlp(step, dlrm->top, dlrm->top_widths, true);
}

/* Element by element, then the mean. The single-device script reads it. */
static void dlrm_step_loss(struct step *step) {
	const lk_op kernels[] = {dlrm_step_pass(step, step->batch, 3),
	                         dlrm_step_pass(step, step->batch, 1)};
	if (!among_many(step)) dlrm_step_copy(step, step->batch * FLOAT);
	dlrm_step_operation(
		step, step->model->loss == LK_DLRM_MSE ? "aten::mse_loss" : "aten::binary_cross_entropy",
		kernels, 2);
	dlrm_step_none(step, "aten::detach");
	if (!among_many(step)) dlrm_step_copy(step, FLOAT);
}

/* ---- backward ---- */

/* The weight's gradient is a long sum over the batch. cuBLAS splits it, and a second kernel adds up
 * the parts, if 128 x 128 tiles are too few for half of a device of these years (56 to 80 SMs). */
static bool in_parts(double in, double out) {
	return ceil(in / 128) * ceil(out / 128) <= 32;
}

/* Products for the gradients of inputs and weight, the bias's sum, and the addition of both to what
 * zero_grad left. */
static void linear_backward(struct step *step, double in, double out, bool input, bool bias) {
	lk_op kernels[3];
	int count = 0;
	if (input) kernels[count++] = dlrm_step_product(step, 1, step->batch, in, out, 0);
	kernels[count++] = dlrm_step_product(step, 1, out, in, step->batch, 0);
	if (in_parts(in, out)) kernels[count++] = dlrm_step_pass(step, out * in, 2);
	dlrm_step_operation(step, "AddmmBackward", kernels, count);
	if (bias) {
		dlrm_step_within(step, "aten::sum", dlrm_step_pass(step, step->batch * out, 1));
		dlrm_step_one(step, "torch::autograd::AccumulateGrad", dlrm_step_pass(step, out, 3));
		gather_gradient(step, out);
	}
	dlrm_step_none(step, "TBackward");
	dlrm_step_one(step, "torch::autograd::AccumulateGrad", dlrm_step_pass(step, out * in, 3));
	gather_gradient(step, out * in);
}

static void dlrm_step_mlp_backward(struct step *step, const double *widths, int count, bool sigmoid,
                                   bool input) {
	for (int i = count - 1; i > 0; i--) {
		bool last = sigmoid && i == count - 1;
		dlrm_step_one(step, last ? "SigmoidBackward" : "ReluBackward",
		              dlrm_step_pass(step, step->batch * widths[i], 3));
		linear_backward(step, widths[i - 1], widths[i], input || i > 1, true);
	}
}

/* index_put_ with accumulation: zeros, the indices sorted (small), then one warp per selected
 * element, which reads its index, the neighbour's, the gradient's place, and gradient and target:
 * four dependent loads. */
static void index_backward(struct step *step, double square, double pairs) {
	enum { LAUNCHES = 11 }; /* PyTorch 1.8 to 1.11, from the table of overheads */
	lk_op kernels[LAUNCHES];
	for (int i = 0; i < LAUNCHES; i++) kernels[i] = dlrm_step_pass(step, pairs, 4);
	kernels[0] = dlrm_step_pass(step, step->batch * square, 1);
	kernels[LAUNCHES - 1] = (lk_op){.kind = LK_OP_PERMUTE,
	                                .m = step->batch * pairs,
	                                .k = 4,
	                                .bytes = step->batch * (pairs + 2 * square) * step->element};
	dlrm_step_operation(step, "IndexBackward", kernels, LAUNCHES);
}

static void dots_backward(struct step *step) {
	const lk_dlrm *dlrm = step->model;
	double n = lk_dlrm_vectors(dlrm), square = n * n;
	index_backward(step, square, lk_dlrm_pairs(dlrm));
	const lk_op slices[] = {dlrm_step_pass(step, step->batch * square, 1),
	                        dlrm_step_pass(step, step->batch * square, 2)};
	dlrm_step_operation(step, "SliceBackward", slices, 2);
	const lk_op products[] = {dlrm_step_product(step, step->batch, n, dlrm->dim, n, 0),
	                          dlrm_step_product(step, step->batch, n, dlrm->dim, n, 0)};
	dlrm_step_operation(step, "BmmBackward", products, 2);
	dlrm_step_none(step, "TransposeBackward");
	dlrm_step_within(step, "aten::add", dlrm_step_pass(step, step->batch * n * dlrm->dim, 3));
	/* the sum is transposed: it is copied */
	dlrm_step_one(step, "ViewBackward", dlrm_step_pass(step, step->batch * n * dlrm->dim, 2));
}

static void cross_backward(struct step *step) {
	const lk_dlrm *dlrm = step->model;
	double all = step->batch * dlrm->top[0];
	for (int i = 0; i < dlrm->cross_layers; i++) {
		const lk_op both[] = {dlrm_step_pass(step, all, 3), dlrm_step_pass(step, all, 3)};
		dlrm_step_operation(step, "MulBackward", both, 2);
		linear_backward(step, dlrm->cross_rank, dlrm->top[0], true, true);
		linear_backward(step, dlrm->top[0], dlrm->cross_rank, true, false);
		dlrm_step_within(step, "aten::add", dlrm_step_pass(step, all, 3)); /* x is used twice */
		dlrm_step_within(step, "aten::add", dlrm_step_pass(step, all, 3)); /* x0 in each layer */
	}
}

static void dlrm_step_interact_backward(struct step *step) {
	const lk_dlrm *dlrm = step->model;
	if (dlrm->interaction == LK_DLRM_DOT) dlrm_step_none(step, "CatBackward");
	if (dlrm->interaction == LK_DLRM_DOT) dots_backward(step);
	if (dlrm->interaction == LK_DLRM_CROSS) cross_backward(step);
	dlrm_step_none(step, "CatBackward");
	/* the bottom MLP's vector is used twice */
	if (dlrm->interaction == LK_DLRM_DOT)
		dlrm_step_within(step, "aten::add", dlrm_step_pass(step, step->batch * dlrm->dim, 3));
}

static void dlrm_step_backward(struct step *step) {
	const lk_dlrm *dlrm = step->model;
	const lk_op gradient[] = {dlrm_step_pass(step, step->batch, 1),
	                          dlrm_step_pass(step, step->batch, 4)};
	dlrm_step_one(step, "aten::ones_like", dlrm_step_pass(step, 1, 1));
	dlrm_step_operation(
		step, dlrm->loss == LK_DLRM_MSE ? "MseLossBackward" : "BinaryCrossEntropyBackward",
		gradient, 2);
	dlrm_step_mlp_backward(step, dlrm->top, dlrm->top_widths, true, true);
	dlrm_step_interact_backward(step);
	look_up_backward(step);
	dlrm_step_mlp_backward(step, dlrm->bottom, dlrm->bottom_widths, false, false);
	close_bucket(step);
}

/* ---- optimizer ---- */

enum {
	TIMES = 6, /* most kernels of an optimizer per parameter */
	KERNELS = TIMES * 2 * 3 * LK_DLRM_LAYERS
};

static int each_time(double elements, double accesses, int times, lk_op *out, int used) {
	for (int t = 0; t < times; t++) out[used++] = pass_weights(elements, accesses);
	return used;
}

static int each_layer(const double *widths, int count, double accesses, int times, lk_op *out,
                      int used) {
	for (int i = 1; i < count; i++) {
		used = each_time(widths[i - 1] * widths[i], accesses, times, out, used);
		used = each_time(widths[i], accesses, times, out, used);
	}
	return used;
}

/* Kernels for each weight and bias, in layer order. */
static void over_parameters(struct step *step, const char *name, double accesses, int times) {
	const lk_dlrm *dlrm = step->model;
	lk_op kernels[KERNELS];
	int used = each_layer(dlrm->bottom, dlrm->bottom_widths, accesses, times, kernels, 0);
	for (int i = 0; dlrm->interaction == LK_DLRM_CROSS && i < dlrm->cross_layers; i++) {
		used = each_time(dlrm->top[0] * dlrm->cross_rank, accesses, times, kernels, used);
		used = each_time(dlrm->top[0] * dlrm->cross_rank, accesses, times, kernels, used);
		used = each_time(dlrm->top[0], accesses, times, kernels, used);
	}
	used = each_layer(dlrm->top, dlrm->top_widths, accesses, times, kernels, used);
	dlrm_step_operation(step, name, kernels, used);
}

/* Adagrad: add squares, their root, add epsilon, subtract the quotient. Adam: scale and add to two
 * moments, then the same. */
static void optimizer_step(struct step *step) {
	static const int times[] = {[LK_DLRM_SGD] = 1, [LK_DLRM_ADAGRAD] = 4, [LK_DLRM_ADAM] = TIMES};
	if (among_many(step)) dlrm_step_await(step, "gradients are here", LK_STREAM_DP);
	over_parameters(step, "Optimizer.step#SGD.step", 3, times[step->model->optimizer]);
}

/* Under DDP gradients stay in their buckets: none is cleared. */
static void zero_grad(struct step *step) {
	if (among_many(step)) dlrm_step_none(step, "aten::detach_");
	else over_parameters(step, "Optimizer.zero_grad#SGD.zero_grad", 1, 1);
}

/* ---- the step ---- */

static void whole_step(struct step *step) {
	bool many = among_many(step);
	step->phase = LK_PHASE_FORWARD;
	if (many) zero_grad(step);
	dlrm_step_forward(step);
	dlrm_step_loss(step);
	if (many) send_indices(step);
	step->phase = LK_PHASE_BACKWARD;
	if (!many) zero_grad(step);
	dlrm_step_backward(step);
	step->phase = LK_PHASE_OPTIMIZER;
	optimizer_step(step);
	if (!many) dlrm_step_spend(step, "cudaDeviceSynchronize", 0, LK_JOIN(LK_STREAM_COMPUTE));
}

static lk_status dlrm_step_programs(struct step *step, lk_error *err) {
	lk_graph *graph = step->graph;
	uint32_t ranks = (uint32_t)step->placed->ranks, block;
	graph->ranks.world = graph->ranks.stages = ranks;
	graph->ranks.chains = 1;
	LK_TRY(lk_graph_set_programs(graph, ranks, 0, err));
	for (uint32_t rank = 0; rank < ranks; rank++) {
		step->rank = (int)rank;
		step->gathered = 0;
		step->limit = first_bucket;
		lk_graph_begin_block(graph, "training step");
		whole_step(step);
		LK_TRY(lk_graph_end_block(graph, &block, err));
		lk_program *program = &graph->programs.at[rank];
		if (step->host) program->threads = 1u << LK_STREAM_HOST;
		lk_dlrm_hold_dense(step->model, step->batch, step->element, program->resident);
		LK_TRY(lk_graph_call(graph, rank,
		                     &(lk_call){.block = block, .repeat = 1, .microbatch = -1, .layer = -1},
		                     err));
	}
	return LK_OK;
}

static lk_status dlrm_step_build(struct step *step, lk_error *err) {
	uint32_t ranks = (uint32_t)step->placed->ranks;
	uint32_t *all = malloc(ranks * sizeof *all);
	if (!all) return lk_oom(err);
	for (uint32_t i = 0; i < ranks; i++) all[i] = i;
	if (ranks > 1)
		step->team = lk_graph_add_team(step->graph, "all ranks", all, ranks, ranks, false);
	free(all);
	return dlrm_step_programs(step, err);
}

lk_status lk_dlrm_step(const lk_dlrm *model, double batch, lk_dtype dtype,
                       const lk_dlrm_placed *placed, const lk_host_times *host, lk_graph **out,
                       lk_error *err) {
	LK_ASSERT(placed->ranks > 0 && batch >= placed->ranks);
	struct step s = {.graph = lk_graph_new(),
	                 .model = model,
	                 .placed = placed,
	                 .host = host,
	                 .batch = batch / placed->ranks,
	                 .element = dtype <= LK_TF32 ? FLOAT : 2,
	                 .dtype = dtype,
	                 .phase = LK_PHASE_OTHER};
	*out = NULL;
	if (!s.graph) return lk_oom(err);
	lk_status status = dlrm_step_build(&s, err);
	s.graph->traced = true;
	s.graph->samples = batch;
	s.graph->peak_dtype = dtype;
	s.graph->model_flops = lk_dlrm_flops(model, batch);
	if (status == LK_OK) *out = s.graph;
	else lk_graph_free(s.graph);
	return status;
}
