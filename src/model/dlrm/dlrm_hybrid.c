/* dlrm_hybrid.c: the training step of a DLRM over many devices, as TorchRec and HugeCTR run it:
 * model-parallel tables with fused lookups, data-parallel MLPs. Frequent rows, or small tables, are
 * also replicated (dlrm_copies.c).
 *
 *     communication  indices  sums                     gradients of sums  gradients of MLPs and
 *                                                                         copies, one bucket
 *     compute        lookups  bottom MLP | interaction, top MLP and back  lookups backward |
 *                                                                         MLPs' optimizer
 *
 * Indices are those of the next batch. The bottom MLP overlaps with the exchange of sums, its
 * backward with that of their gradients; the reduction of the MLPs' gradients overlaps with the
 * lookups' backward, which updates the rows in the same kernel. */
#include "model/dlrm/dlrm_build.h"

enum { FLOAT = 4, INDEX = 4, LENGTH = 4 };

struct hybrid {
	lk_graph *graph;
	const lk_dlrm *model;
	const lk_dlrm_job *job;
	double local;   /* samples per rank */
	double element; /* bytes per element of a sum */
	lk_dlrm_copied copied;
	uint8_t phase;
};

static uint32_t hybrid_add(struct hybrid *hybrid, lk_op op) {
	if (op.stream == 0) op.stream = LK_STREAM_COMPUTE;
	op.phase = hybrid->phase;
	op.dtype = (uint8_t)hybrid->job->dtype;
	return lk_graph_add(hybrid->graph, &op);
}

/* ---- computation ---- */

static void hybrid_product(struct hybrid *hybrid, const char *name, double m, double n, double k,
                           double batch) {
	hybrid_add(hybrid, (lk_op){.kind = LK_OP_GEMM,
	                           .name = name,
	                           .m = m,
	                           .n = n,
	                           .k = k,
	                           .batch = batch,
	                           .flops = 2 * batch * m * n * k,
	                           .bytes = hybrid->element * batch * (m * k + k * n + m * n)});
}

static void hybrid_pass(struct hybrid *hybrid, const char *name, double elements, double accesses) {
	hybrid_add(hybrid, (lk_op){.kind = LK_OP_ELEMENTWISE,
	                           .name = name,
	                           .bytes = elements * accesses * hybrid->element});
}

/* Activations and biases are fused into the products, backward too (cuBLASLt's epilogues). */
static void hybrid_mlp(struct hybrid *hybrid, const char *name, const double *widths, int count) {
	for (int i = 1; i < count; i++)
		hybrid_product(hybrid, name, hybrid->local, widths[i], widths[i - 1], 1);
}

static void hybrid_mlp_backward(struct hybrid *hybrid, const char *name, const double *widths,
                                int count, bool input) {
	for (int i = count - 1; i > 0; i--) {
		if (input || i > 1)
			hybrid_product(hybrid, name, hybrid->local, widths[i - 1], widths[i], 1);
		hybrid_product(hybrid, name, widths[i], widths[i - 1], hybrid->local, 1);
	}
}

/* x' = x0 * (V U x + b) + x; or all dot products in one kernel that reads the vectors once: a
 * sample's vectors fit in shared memory. */
static void hybrid_interact(struct hybrid *hybrid) {
	const lk_dlrm *dlrm = hybrid->model;
	double n = lk_dlrm_vectors(dlrm);
	if (dlrm->interaction == LK_DLRM_DOT)
		hybrid_pass(hybrid, "interaction", hybrid->local * (n * dlrm->dim + dlrm->top[0]), 1);
	else hybrid_pass(hybrid, "concatenate", hybrid->local * n * dlrm->dim, 2);
	for (int i = 0; dlrm->interaction == LK_DLRM_CROSS && i < dlrm->cross_layers; i++) {
		hybrid_product(hybrid, "cross U", hybrid->local, dlrm->cross_rank, dlrm->top[0], 1);
		hybrid_product(hybrid, "cross V", hybrid->local, dlrm->top[0], dlrm->cross_rank, 1);
		hybrid_pass(hybrid, "cross product", hybrid->local * dlrm->top[0], 4);
	}
}

static void hybrid_interact_backward(struct hybrid *hybrid) {
	const lk_dlrm *dlrm = hybrid->model;
	double n = lk_dlrm_vectors(dlrm);
	if (dlrm->interaction == LK_DLRM_DOT)
		hybrid_pass(hybrid, "interaction backward",
		            hybrid->local * (2 * n * dlrm->dim + dlrm->top[0]), 1);
	for (int i = 0; dlrm->interaction == LK_DLRM_CROSS && i < dlrm->cross_layers; i++) {
		hybrid_pass(hybrid, "cross backward", hybrid->local * dlrm->top[0], 6);
		hybrid_product(hybrid, "cross V backward", hybrid->local, dlrm->cross_rank, dlrm->top[0],
		               1);
		hybrid_product(hybrid, "cross V weights", dlrm->top[0], dlrm->cross_rank, hybrid->local, 1);
		hybrid_product(hybrid, "cross U backward", hybrid->local, dlrm->top[0], dlrm->cross_rank,
		               1);
		hybrid_product(hybrid, "cross U weights", dlrm->cross_rank, dlrm->top[0], hybrid->local, 1);
	}
}

/* A rank's tables for the samples of all ranks. */
static void hybrid_lookup(struct hybrid *hybrid, const char *name, double join) {
	const lk_dlrm *dlrm = hybrid->model;
	double tables = dlrm->tables / hybrid->job->ranks;
	hybrid_add(hybrid, (lk_op){.kind = LK_OP_EMBEDDING,
	                           .name = name,
	                           .m = hybrid->job->batch,
	                           .n = dlrm->dim,
	                           .k = lk_dlrm_lookups(dlrm) / dlrm->tables,
	                           .batch = tables,
	                           .window = lk_dlrm_equal_rows(dlrm, hybrid->job->batch),
	                           .join = (uint32_t)join});
}

/* ---- communication ---- */

/* HugeCTR's models with one lookup per table use their own communication (collectives/ib_comm.cu,
 * ib_comm_ar.cu; peer pointers within a node), others NCCL. */
static uint8_t exchange_flags(const struct hybrid *hybrid) {
	return lk_dlrm_lookups(hybrid->model) == hybrid->model->tables ? LK_OP_DIRECT : 0;
}

static void hybrid_communicate(struct hybrid *hybrid, const char *name, lk_op_kind kind,
                               unsigned stream, unsigned group, double bytes) {
	if (hybrid->job->ranks < 2 || bytes <= 0) return;
	hybrid_add(hybrid, (lk_op){.kind = (uint8_t)kind,
	                           .stream = (uint8_t)stream,
	                           .group = (uint8_t)group,
	                           .name = name,
	                           .bytes = bytes,
	                           .join = LK_JOIN(LK_STREAM_COMPUTE),
	                           .flags = exchange_flags(hybrid)});
}

/* Across nodes in two steps: within the node to the GPU at the receiver's place, then between GPUs
 * at the same place, so that each sends to as many peers as there are nodes (HugeCTR's hierarchical
 * exchange). */
static void hybrid_exchange(struct hybrid *hybrid, const char *name, double bytes) {
	int in_node = hybrid->job->node_ranks;
	if (in_node <= 0 || in_node >= hybrid->job->ranks) {
		hybrid_communicate(hybrid, name, LK_OP_ALLTOALL, LK_STREAM_EP, LK_GROUP_DP, bytes);
		return;
	}
	if (in_node > 1)
		hybrid_communicate(hybrid, name, LK_OP_ALLTOALL, LK_STREAM_EP, LK_GROUP_TP, bytes);
	hybrid_communicate(hybrid, name, LK_OP_ALLTOALL, LK_STREAM_EP, LK_GROUP_CP, bytes);
}

static double sums_bytes(const struct hybrid *hybrid) {
	return hybrid->local * hybrid->model->tables * hybrid->copied.sums * hybrid->model->dim *
	       hybrid->element;
}

/* ---- the step ---- */

static void hybrid_forward(struct hybrid *hybrid) {
	const lk_dlrm *dlrm = hybrid->model;
	hybrid->phase = LK_PHASE_FORWARD;
	/* of the next batch: readers run ahead */
	hybrid_exchange(hybrid, "indices",
	                hybrid->local * (lk_dlrm_lookups(dlrm) * hybrid->copied.lookups * INDEX +
	                                 dlrm->tables * hybrid->copied.sums * LENGTH));
	hybrid_lookup(hybrid, "lookups", 0);
	hybrid_exchange(hybrid, "pooled sums", sums_bytes(hybrid));
	hybrid_mlp(hybrid, "bottom MLP", dlrm->bottom, dlrm->bottom_widths);
	hybrid_add(hybrid,
	           (lk_op){.kind = LK_OP_WAIT, .name = "sums are here", .join = LK_JOIN(LK_STREAM_EP)});
	hybrid_interact(hybrid);
	hybrid_mlp(hybrid, "top MLP", dlrm->top, dlrm->top_widths);
	hybrid_add(hybrid,
	           (lk_op){.kind = LK_OP_LOSS, .name = "loss", .bytes = hybrid->local * 4 * FLOAT});
}

static void hybrid_backward(struct hybrid *hybrid) {
	const lk_dlrm *dlrm = hybrid->model;
	hybrid->phase = LK_PHASE_BACKWARD;
	hybrid_mlp_backward(hybrid, "top MLP backward", dlrm->top, dlrm->top_widths, true);
	hybrid_interact_backward(hybrid);
	hybrid_exchange(hybrid, "gradients of sums", sums_bytes(hybrid));
	hybrid_mlp_backward(hybrid, "bottom MLP backward", dlrm->bottom, dlrm->bottom_widths, false);
	hybrid_communicate(
		hybrid, "gradients of MLPs and copied rows", LK_OP_ALLREDUCE, LK_STREAM_DP, LK_GROUP_DP,
		(lk_dlrm_dense_params(dlrm) + hybrid->copied.reduced * dlrm->dim) * hybrid->element);
	hybrid_lookup(hybrid, "lookups backward", LK_JOIN(LK_STREAM_EP));
}

static void hybrid_update(struct hybrid *hybrid) {
	double each = 3 * FLOAT + 2 * lk_dlrm_dense_state(hybrid->model);
	hybrid->phase = LK_PHASE_OPTIMIZER;
	hybrid_add(hybrid, (lk_op){.kind = LK_OP_OPTIMIZER,
	                           .name = "optimizer of MLPs",
	                           .bytes = lk_dlrm_dense_params(hybrid->model) * each,
	                           .join = LK_JOIN(LK_STREAM_DP) | LK_JOIN(LK_STREAM_EP)});
}

static void hybrid_hold(const struct hybrid *hybrid, double *resident) {
	const lk_dlrm *dlrm = hybrid->model;
	double rows =
		(lk_dlrm_params(dlrm) - lk_dlrm_dense_params(dlrm)) / dlrm->dim / hybrid->job->ranks;
	lk_dlrm_hold_dense(dlrm, hybrid->local, hybrid->element, resident);
	resident[LK_OWN_WEIGHTS] += (rows + hybrid->copied.rows) * dlrm->dim * FLOAT;
	resident[LK_OWN_OPTIMIZER] += rows * lk_dlrm_row_state(dlrm);
	/* sums and their gradients before and after the exchange; indices before and after theirs */
	resident[LK_OWN_BUFFERS] = hybrid->local * (4 * dlrm->tables * dlrm->dim * hybrid->element +
	                                            2 * lk_dlrm_lookups(dlrm) * INDEX);
}

static lk_status hybrid_build(struct hybrid *hybrid, lk_error *err) {
	lk_graph *graph = hybrid->graph;
	uint32_t block;
	lk_graph_begin_block(graph, "training step");
	hybrid_forward(hybrid);
	hybrid_backward(hybrid);
	hybrid_update(hybrid);
	LK_TRY(lk_graph_end_block(graph, &block, err));
	graph->ranks.world = graph->ranks.chains = (uint32_t)hybrid->job->ranks;
	graph->ranks.stages = 1;
	graph->ranks.group[LK_GROUP_DP].size = (uint32_t)hybrid->job->ranks;
	if (hybrid->job->node_ranks > 0 && hybrid->job->node_ranks < hybrid->job->ranks) {
		uint32_t in_node = (uint32_t)hybrid->job->node_ranks;
		graph->ranks.group[LK_GROUP_TP].size = in_node;
		graph->ranks.group[LK_GROUP_CP].size = (uint32_t)hybrid->job->ranks / in_node;
		graph->ranks.group[LK_GROUP_CP].stride = in_node;
	}
	LK_TRY(lk_graph_set_programs(graph, 1, 0, err));
	hybrid_hold(hybrid, graph->programs.at[0].resident);
	return lk_graph_call(
		graph, 0, &(lk_call){.block = block, .repeat = 1, .microbatch = -1, .layer = -1}, err);
}

lk_status lk_dlrm_hybrid(const lk_dlrm *model, const lk_dlrm_job *job, lk_graph **out,
                         lk_error *err) {
	struct hybrid h = {.graph = lk_graph_new(),
	                   .model = model,
	                   .job = job,
	                   .local = job->batch / job->ranks,
	                   .element = job->dtype <= LK_TF32 ? 4 : 2,
	                   .copied = lk_dlrm_copies(model, job),
	                   .phase = LK_PHASE_OTHER};
	*out = NULL;
	if (!h.graph) return lk_oom(err);
	lk_status status = hybrid_build(&h, err);
	h.graph->samples = job->batch;
	h.graph->peak_dtype = job->dtype;
	h.graph->model_flops = lk_dlrm_flops(model, job->batch);
	if (status == LK_OK) *out = h.graph;
	else lk_graph_free(h.graph);
	return status;
}
