/* dlrm_hybrid.c: the training step of a DLRM over many devices, as TorchRec and HugeCTR run it: model-parallel tables with
 * fused lookups, data-parallel MLPs. Rows that are looked up often, or small tables, are copied, too (dlrm_copies.c).
 *
 *     communication   indices   sums                       gradients of sums   gradients of MLPs and copies, one bucket
 *     compute         lookups   bottom MLP | interaction, top MLP and back     lookups backward | MLPs' optimizer
 *
 * Indices are those of the next batch. The bottom MLP runs beside the exchange of sums, its backward beside that of their
 * gradients; the gradients of the MLPs are summed beside the lookups' backward, which updates its rows in the same kernel.
 */
#include <math.h>

#include "base/stats.h"
#include "model/network/dlrm.h"

enum { FLOAT = 4, INDEX = 4, LENGTH = 4 };

struct hybrid {
	lk_graph *graph;
	const lk_dlrm *model;
	const lk_dlrm_job *job;
	double local;            /* samples of a rank */
	double element;          /* bytes of a sum's number */
	lk_dlrm_copied copied;
	uint8_t phase;
};

static uint32_t add(struct hybrid *h, lk_op op) {
	if (op.stream == 0) op.stream = LK_STREAM_COMPUTE;
	op.phase = h->phase, op.dtype = (uint8_t)h->job->dtype;
	return lk_graph_add(h->graph, &op);
}

/* ---- computation ---- */

static void product(struct hybrid *h, const char *name, double m, double n, double k, double batch) {
	add(h, (lk_op){.kind = LK_OP_GEMM, .name = name, .m = m, .n = n, .k = k, .batch = batch, .flops = 2 * batch * m * n * k,
	               .bytes = h->element * batch * (m * k + k * n + m * n)});
}

static void pass(struct hybrid *h, const char *name, double elements, double accesses) {
	add(h, (lk_op){.kind = LK_OP_ELEMENTWISE, .name = name, .bytes = elements * accesses * h->element});
}

/* Activations and biases ride on the products, backward too (cuBLASLt's epilogues). */
static void mlp(struct hybrid *h, const char *name, const double *widths, int count) {
	for (int i = 1; i < count; i++) product(h, name, h->local, widths[i], widths[i - 1], 1);
}

static void mlp_backward(struct hybrid *h, const char *name, const double *widths, int count, bool input) {
	for (int i = count - 1; i > 0; i--) {
		if (input || i > 1) product(h, name, h->local, widths[i - 1], widths[i], 1);
		product(h, name, widths[i], widths[i - 1], h->local, 1);
	}
}

/* x' = x0 * (V U x + b) + x; or all dot products in one kernel that reads the vectors once: a sample's fit shared memory. */
static void interact(struct hybrid *h) {
	const lk_dlrm *m = h->model;
	double n = lk_dlrm_vectors(m);
	if (m->interaction == LK_DLRM_DOT) pass(h, "interaction", h->local * (n * m->dim + m->top[0]), 1);
	else pass(h, "concatenate", h->local * n * m->dim, 2);
	for (int i = 0; m->interaction == LK_DLRM_CROSS && i < m->cross_layers; i++) {
		product(h, "cross U", h->local, m->cross_rank, m->top[0], 1);
		product(h, "cross V", h->local, m->top[0], m->cross_rank, 1);
		pass(h, "cross product", h->local * m->top[0], 4);
	}
}

static void interact_backward(struct hybrid *h) {
	const lk_dlrm *m = h->model;
	double n = lk_dlrm_vectors(m);
	if (m->interaction == LK_DLRM_DOT) pass(h, "interaction backward", h->local * (2 * n * m->dim + m->top[0]), 1);
	for (int i = 0; m->interaction == LK_DLRM_CROSS && i < m->cross_layers; i++) {
		pass(h, "cross backward", h->local * m->top[0], 6);
		product(h, "cross V backward", h->local, m->cross_rank, m->top[0], 1);
		product(h, "cross V weights", m->top[0], m->cross_rank, h->local, 1);
		product(h, "cross U backward", h->local, m->top[0], m->cross_rank, 1);
		product(h, "cross U weights", m->cross_rank, m->top[0], h->local, 1);
	}
}

/* A rank's tables for the samples of all. */
static void lookup(struct hybrid *h, const char *name, double join) {
	const lk_dlrm *m = h->model;
	double tables = m->tables / h->job->ranks;
	add(h, (lk_op){.kind = LK_OP_EMBEDDING, .name = name, .m = h->job->batch, .n = m->dim, .k = lk_dlrm_lookups(m) / m->tables,
	               .batch = tables, .window = lk_dlrm_equal_rows(m, h->job->batch), .join = (uint32_t)join});
}

/* ---- communication ---- */

/* HugeCTR's models of one lookup a table communicate by code of their own (collectives/ib_comm.cu, ib_comm_ar.cu; peer pointers
 * inside a node), others through NCCL. */
static uint8_t exchange_flags(const struct hybrid *h) {
	return lk_dlrm_lookups(h->model) == h->model->tables ? LK_OP_DIRECT : 0;
}

static void communicate(struct hybrid *h, const char *name, lk_op_kind kind, unsigned stream, unsigned group, double bytes) {
	if (h->job->ranks < 2 || bytes <= 0) return;
	add(h, (lk_op){.kind = (uint8_t)kind, .stream = (uint8_t)stream, .group = (uint8_t)group, .name = name, .bytes = bytes,
	               .join = LK_JOIN(LK_STREAM_COMPUTE), .flags = exchange_flags(h)});
}

/* Over nodes in two steps: inside the node to the GPU that has the receiver's place, then between GPUs of one place, so that
 * each sends to as many peers as there are nodes (HugeCTR's hierarchical exchange). */
static void exchange(struct hybrid *h, const char *name, double bytes) {
	int in_node = h->job->node_ranks;
	if (in_node <= 0 || in_node >= h->job->ranks) {
		communicate(h, name, LK_OP_ALLTOALL, LK_STREAM_EP, LK_GROUP_DP, bytes);
		return;
	}
	if (in_node > 1) communicate(h, name, LK_OP_ALLTOALL, LK_STREAM_EP, LK_GROUP_TP, bytes);
	communicate(h, name, LK_OP_ALLTOALL, LK_STREAM_EP, LK_GROUP_CP, bytes);
}

static double sums_bytes(const struct hybrid *h) {
	return h->local * h->model->tables * h->copied.sums * h->model->dim * h->element;
}

/* ---- the step ---- */

static void forward(struct hybrid *h) {
	const lk_dlrm *m = h->model;
	h->phase = LK_PHASE_FORWARD;
	/* those of the next batch: readers run ahead */
	exchange(h, "indices", h->local * (lk_dlrm_lookups(m) * h->copied.lookups * INDEX + m->tables * h->copied.sums * LENGTH));
	lookup(h, "lookups", 0);
	exchange(h, "pooled sums", sums_bytes(h));
	mlp(h, "bottom MLP", m->bottom, m->bottom_widths);
	add(h, (lk_op){.kind = LK_OP_WAIT, .name = "sums are here", .join = LK_JOIN(LK_STREAM_EP)});
	interact(h);
	mlp(h, "top MLP", m->top, m->top_widths);
	add(h, (lk_op){.kind = LK_OP_LOSS, .name = "loss", .bytes = h->local * 4 * FLOAT});
}

static void backward(struct hybrid *h) {
	const lk_dlrm *m = h->model;
	h->phase = LK_PHASE_BACKWARD;
	mlp_backward(h, "top MLP backward", m->top, m->top_widths, true);
	interact_backward(h);
	exchange(h, "gradients of sums", sums_bytes(h));
	mlp_backward(h, "bottom MLP backward", m->bottom, m->bottom_widths, false);
	communicate(h, "gradients of MLPs and copied rows", LK_OP_ALLREDUCE, LK_STREAM_DP, LK_GROUP_DP,
	            (lk_dlrm_dense_params(m) + h->copied.reduced * m->dim) * h->element);
	lookup(h, "lookups backward", LK_JOIN(LK_STREAM_EP));
}

static void update(struct hybrid *h) {
	double each = 3 * FLOAT + 2 * lk_dlrm_dense_state(h->model);
	h->phase = LK_PHASE_OPTIMIZER;
	add(h, (lk_op){.kind = LK_OP_OPTIMIZER, .name = "optimizer of MLPs", .bytes = lk_dlrm_dense_params(h->model) * each,
	               .join = LK_JOIN(LK_STREAM_DP) | LK_JOIN(LK_STREAM_EP)});
}

/* Numbers that a sample's activations take: layers, vectors, what cross layers keep. */
static double activations(const lk_dlrm *m) {
	double sum = 2 * lk_dlrm_vectors(m) * m->dim;
	for (int i = 0; i < m->bottom_widths; i++) sum += m->bottom[i];
	for (int i = 0; i < m->top_widths; i++) sum += m->top[i];
	if (m->interaction == LK_DLRM_CROSS) sum += m->cross_layers * (2 * m->top[0] + m->cross_rank);
	return sum;
}

static void hold(const struct hybrid *h, double *resident) {
	const lk_dlrm *m = h->model;
	double dense = lk_dlrm_dense_params(m), rows = (lk_dlrm_params(m) - dense) / m->dim / h->job->ranks;
	resident[LK_OWN_WEIGHTS] = (rows + h->copied.rows) * m->dim * FLOAT + dense * FLOAT + (h->element < FLOAT ? dense * h->element : 0);
	resident[LK_OWN_GRADIENTS] = dense * h->element;
	resident[LK_OWN_OPTIMIZER] = rows * lk_dlrm_row_state(m) + dense * lk_dlrm_dense_state(m);
	resident[LK_OWN_ACTIVATIONS] = h->local * activations(m) * h->element;
	/* sums and their gradients before and behind the exchange; indices before and behind theirs */
	resident[LK_OWN_BUFFERS] = h->local * (4 * m->tables * m->dim * h->element + 2 * lk_dlrm_lookups(m) * INDEX);
}

static lk_status build(struct hybrid *h, lk_error *err) {
	lk_graph *g = h->graph;
	uint32_t block;
	lk_graph_begin_block(g, "training step");
	forward(h);
	backward(h);
	update(h);
	LK_TRY(lk_graph_end_block(g, &block, err));
	g->ranks.world = g->ranks.chains = (uint32_t)h->job->ranks, g->ranks.stages = 1;
	for (int i = 0; i < LK_GROUPS; i++) g->ranks.group[i].size = g->ranks.group[i].stride = 1;
	g->ranks.group[LK_GROUP_DP].size = (uint32_t)h->job->ranks;
	if (h->job->node_ranks > 0 && h->job->node_ranks < h->job->ranks) {
		uint32_t in_node = (uint32_t)h->job->node_ranks;
		g->ranks.group[LK_GROUP_TP].size = in_node;
		g->ranks.group[LK_GROUP_CP].size = (uint32_t)h->job->ranks / in_node, g->ranks.group[LK_GROUP_CP].stride = in_node;
	}
	LK_TRY(lk_graph_set_programs(g, 1, 0, err));
	hold(h, g->programs.at[0].resident);
	return lk_graph_call(g, 0, &(lk_call){.block = block, .repeat = 1, .microbatch = -1, .layer = -1}, err);
}

lk_status lk_dlrm_hybrid(const lk_dlrm *model, const lk_dlrm_job *job, lk_graph **out, lk_error *err) {
	struct hybrid h = {.graph = lk_graph_new(), .model = model, .job = job, .local = job->batch / job->ranks,
	            .element = job->dtype <= LK_TF32 ? 4 : 2, .copied = lk_dlrm_copies(model, job), .phase = LK_PHASE_OTHER};
	*out = NULL;
	if (!h.graph) return lk_oom(err);
	lk_status status = build(&h, err);
	h.graph->samples = job->batch, h.graph->peak_dtype = job->dtype, h.graph->model_flops = lk_dlrm_flops(model, job->batch);
	if (status == LK_OK) *out = h.graph;
	else lk_graph_free(h.graph);
	return status;
}

/* ---- random models ---- */

lk_status lk_dlrm_random(lk_arena *arena, int gpus, uint64_t seed, lk_dlrm *out, lk_error *err) {
	static const double bottom[] = {512, 1024, 256, 128}, top[] = {0, 1024, 512, 256, 1};
	uint64_t key = lk_hash64(seed);
	int count = (int)lround(13 * gpus * (0.7 + 0.6 * lk_uniform(key, 0)));
	lk_dlrm_tables *kinds = LK_ARRAY(arena, lk_dlrm_tables, count);
	if (!kinds) return lk_oom(err);
	*out = (lk_dlrm){.bottom_widths = 4, .top_widths = 5, .dim = 128, .kinds = kinds, .kind_count = count, .tables = count,
	                 .interaction = LK_DLRM_DOT, .loss = LK_DLRM_BCE, .optimizer = LK_DLRM_SGD};
	for (int i = 0; i < 4; i++) out->bottom[i] = bottom[i];
	for (int i = 1; i < 5; i++) out->top[i] = top[i];
	for (int i = 0; i < count; i++) {
		uint64_t at = 3 * (uint64_t)i + 1;
		/* rows log-uniform from 100 to 10 million; pooling log-normal, of heavy tables 20 and more */
		double pooling = seed % 2 ? 20 * exp(0.5 * fabs(lk_normal(key, at + 1))) : exp(1.2 + 1.1 * lk_normal(key, at + 1));
		kinds[i] = (lk_dlrm_tables){1, floor(pow(10, 2 + 5 * lk_uniform(key, at))), fmin(fmax(round(pooling), 1), 200)};
	}
	out->top[0] = out->dim + lk_dlrm_pairs(out);
	snprintf(out->name, sizeof out->name, "dlrm-random-%llu", (unsigned long long)seed);
	return LK_OK;
}
