/* build_mlp.c: the second half of a layer: dense MLP, or router, dispatch, experts and combine. */
#include "model/build/build.h"
#include "model/layout/job.h"

/* ---- dense, also the shared experts of an MoE layer ---- */

struct lk_mlp_width {
	double up, inner; /* columns of the first product (gate and up), of the activation's output */
};

static struct lk_mlp_width mlp_width(const lk_builder *b, double ffn) {
	double inner = ffn / b->tp;
	return (struct lk_mlp_width){b->model->gated ? 2 * inner : inner, inner};
}

/* The activation's output, for the weight gradient of the second product: not with frozen weights, nor where selective
 * recomputation makes it again from its input. */
static bool remakes_inner(const lk_builder *b) {
	return b->replays || (b->job->recompute == LK_RECOMPUTE_SELECTIVE && b->job->recompute_mlp);
}

static double inner_saved(const lk_builder *b, struct lk_mlp_width w) {
	return b->train_base && !remakes_inner(b) ? lk_build_kept_bytes(b, b->tokens * w.inner) : 0;
}

static double up_saved(const lk_builder *b, struct lk_mlp_width w) {
	return b->bytes * b->tokens * w.up * (b->replays ? 0.5 : 1);
}
static double mlp_saved(const lk_builder *b, struct lk_mlp_width w) {
	return up_saved(b, w) + inner_saved(b, w);
}
static double norm_out(const lk_builder *b) {
	bool made_again = b->replays || b->job->recompute_norms;
	return b->train_base && !made_again ? lk_build_kept_bytes(b, b->rows * b->model->hidden) : 0;
}

static void mlp_products_forward(lk_builder *b, struct lk_mlp_width w) {
	double h = b->model->hidden;
	lk_build_gemm(b, "mlp_up", b->tokens, w.up, h);
	if (!b->job->fused_kernels) lk_build_memory(b, LK_OP_ELEMENTWISE, "activation", b->bytes * b->tokens * (w.up + w.inner));
	lk_build_save(b, mlp_saved(b, w), LK_OWN_ACTIVATIONS);
	if (b->job->fused_kernels) lk_build_transpose_narrow(b, b->tokens * w.inner);
	else lk_build_quantize(b, b->tokens * w.inner);
	lk_build_gemm(b, "mlp_down", b->tokens, h, w.inner);
}

/* Gradients behind both products, which a split backward keeps until its weight pass. */
static double mlp_gradients(const lk_builder *b, struct lk_mlp_width w) {
	return b->bytes * (b->rows * b->model->hidden + b->tokens * w.up);
}

static void mlp_products_backward(lk_builder *b, struct lk_mlp_width w, bool input, bool weight) {
	double h = b->model->hidden;
	if (weight && remakes_inner(b) && !b->replays)
		lk_build_memory(b, LK_OP_ELEMENTWISE, "activation_again", b->bytes * b->tokens * (w.up + w.inner));
	if (weight && b->model->mlp_bias) lk_build_bias_grad(b, "mlp_down_bias_grad", b->rows, h);
	lk_build_row_backward(b, "mlp_down_grad", h, w.inner, input, weight);
	if (input) {
		/* fused: the kernel that casts the gradient, or the product's epilogue, reads the activation's input beside it */
		double passes = b->job->fused_kernels ? w.up : 2 * w.up + w.inner;
		lk_build_memory(b, LK_OP_ELEMENTWISE, "activation_grad", b->bytes * b->tokens * passes);
		/* the gradients of the output, of what the activation gave and of what it took */
		lk_build_scratch(b, lk_build_row_bytes(b) + b->bytes * b->tokens * (w.up + w.inner), LK_OWN_WORKSPACE);
		if (weight || !b->train_base)
			lk_build_release(b, mlp_saved(b, w), LK_OWN_ACTIVATIONS);
		else
			lk_build_release(b, up_saved(b, w), LK_OWN_ACTIVATIONS);
	}
	if (weight && b->model->mlp_bias) lk_build_bias_grad(b, "mlp_up_bias_grad", b->tokens, w.up);
	lk_build_column_backward(b, "mlp_up_grad", w.up, h, input, weight);
	if (input && !weight && b->train_base) lk_build_save(b, mlp_gradients(b, w), LK_OWN_ACTIVATIONS);
	if (!input && weight) lk_build_release(b, inner_saved(b, w) + mlp_gradients(b, w), LK_OWN_ACTIVATIONS);
}

static void residual_forward(lk_builder *b) {
	lk_build_memory(b, LK_OP_ELEMENTWISE, "mlp_residual", lk_build_residual_bytes(b));
	lk_build_save(b, lk_build_mask_bytes(b), LK_OWN_ACTIVATIONS);
}

static void residual_backward(lk_builder *b) {
	lk_build_memory(b, LK_OP_ELEMENTWISE, "mlp_residual_grad", lk_build_residual_bytes(b));
	lk_build_release(b, lk_build_mask_bytes(b), LK_OWN_ACTIVATIONS);
}

static void norm_forward(lk_builder *b) {
	lk_build_memory(b, LK_OP_NORM, "post_norm", 2 * lk_build_row_bytes(b));
	lk_build_save(b, lk_build_row_bytes(b) + norm_out(b), LK_OWN_ACTIVATIONS);
}

static void norm_backward(lk_builder *b, bool input, bool weight) {
	bool last = weight && b->train_base;
	if (last) lk_build_release(b, norm_out(b), LK_OWN_ACTIVATIONS);
	if (!input) return;
	lk_build_memory(b, LK_OP_NORM, "post_norm_grad", 3 * lk_build_row_bytes(b));
	lk_build_release(b, lk_build_row_bytes(b), LK_OWN_ACTIVATIONS);
	if (b->train_base) lk_build_norm_weight_grad(b, 2 * lk_build_row_bytes(b));
}

void lk_build_mlp_forward(lk_builder *b, const lk_layer_shape *shape) {
	(void)shape;
	norm_forward(b);
	lk_build_quantize_normed(b);
	lk_build_tp_enter(b, "gather_mlp_input");
	mlp_products_forward(b, mlp_width(b, b->model->ffn));
	lk_build_tp_leave(b, "reduce_mlp_output");
	if (b->model->norms_per_layer >= 4) lk_build_memory(b, LK_OP_NORM, "post_mlp_norm", 2 * lk_build_row_bytes(b));
	residual_forward(b);
}

void lk_build_mlp_backward(lk_builder *b, const lk_layer_shape *shape, bool input, bool weight) {
	(void)shape;
	if (input) residual_backward(b);
	if (input && b->model->norms_per_layer >= 4) lk_build_memory(b, LK_OP_NORM, "post_mlp_norm_grad", 3 * lk_build_row_bytes(b));
	if (input || b->sp) lk_build_tp_leave_backward(b, "gather_mlp_grad");
	mlp_products_backward(b, mlp_width(b, b->model->ffn), input, weight);
	norm_backward(b, input, weight);
}

/* ---- mixture of experts ---- */

/* Sizes on one rank: the busiest expert-parallel rank decides, so routed rows are the mean times the imbalance. */
struct lk_moe_size {
	double routed;    /* rows behind the dispatch on this rank, all its experts */
	double sent;      /* rows that leave: tokens * top-k */
	double local;     /* experts of this rank */
	double up, inner; /* widths of one expert's shard */
	double hidden;
};

static struct lk_moe_size moe_size(const lk_builder *b) {
	const lk_model *m = b->model;
	double ep = b->job->ep > 1 ? b->job->ep : 1, etp = b->job->etp > 1 ? b->job->etp : 1;
	double imbalance = ep > 1 ? b->job->moe_imbalance : 1;
	double inner = m->expert_ffn / etp;
	double sent = b->rows * m->topk;
	return (struct lk_moe_size){sent * imbalance * etp, sent, m->experts / ep, m->gated ? 2 * inner : inner, inner, m->hidden};
}

static double moe_saved(const lk_builder *b, struct lk_moe_size z) {
	double up = b->bytes * z.routed * z.up;
	double inner = b->job->recompute_expert_activation ? 0 : z.inner;
	double inputs = b->train_base ? lk_build_kept_bytes(b, z.routed * (z.hidden + inner)) : 0;
	/* for the gradient of the router's weights: Megatron-LM weighs behind the activation, with a kernel of its own for
	 * gated ones; others weigh the outputs */
	double weighed = !lk_job_like_megatron(b->job) ? z.sent * z.hidden : b->model->gated ? 0 : z.routed * inner;
	return up + inputs + b->bytes * weighed;
}

/* Rows to the ranks that hold their experts, or back. With one copy per node the message is smaller; comm.c counts the
 * distinct nodes among top-k (`k`). */
static void exchange(lk_builder *b, const char *name, struct lk_moe_size z) {
	if (b->job->ep <= 1) return;
	double bytes = b->bytes * z.sent * z.hidden;
	if (b->job->dispatcher == LK_DISPATCH_ALLGATHER) {
		bool back = name[0] == 'c';
		lk_build_collective(b, back ? LK_OP_REDUCESCATTER : LK_OP_ALLGATHER, LK_STREAM_EP, LK_GROUP_EP, name,
							b->bytes * b->rows * z.hidden * b->job->ep, false);
		return;
	}
	lk_op op = {
		.kind = LK_OP_ALLTOALL,
		.stream = LK_STREAM_EP,
		.group = LK_GROUP_EP,
		.phase = b->phase,
		.join = LK_JOIN(LK_STREAM_COMPUTE) | b->pending,
		.name = name,
		.bytes = bytes * b->job->moe_imbalance,
		.k = b->job->dispatcher == LK_DISPATCH_NODE ? b->model->topk : 0,
	};
	lk_graph_add(b->graph, &op);
	b->pending |= LK_JOIN(LK_STREAM_EP);
}

/* Dispatchers that send one copy per place read and write the tokens where they are; the others bring the copies of a
 * destination together first. */
static void permute(lk_builder *b, const char *name, struct lk_moe_size z) {
	if (b->job->ep > 1 && b->job->dispatcher == LK_DISPATCH_NODE) return;
	lk_build_memory(b, LK_OP_PERMUTE, name, b->bytes * (b->rows + z.sent) * z.hidden);
}

static void expert_shards(lk_builder *b, unsigned kind, const char *name, struct lk_moe_size z) {
	if (b->job->etp > 1)
		lk_build_collective(b, kind, LK_STREAM_TP, LK_GROUP_ETP, name, b->bytes * z.routed * z.hidden, false);
}

static void experts_gemm(lk_builder *b, const char *name, double m, double n, double k, double batch) {
	lk_build_gemm_batch(b, name, m, n, k, batch);
	if (b->graph->ops.count) b->graph->ops.kind[b->graph->ops.count - 1] = LK_OP_GROUPED_GEMM;
}

/* The dispatcher needs the rows per expert on the host before it can size its buffers: the host waits for the device.
 */
static void host_sync(lk_builder *b) {
	if (b->job->cuda_graphs == LK_ON && b->job->graph_experts == LK_ON) return;
	lk_op op = {.kind = LK_OP_HOST,
				.stream = LK_STREAM_HOST,
				.phase = b->phase,
				.join = LK_JOIN(LK_STREAM_COMPUTE) | b->pending,
				.name = "read_expert_counts"};
	lk_graph_add(b->graph, &op);
}

/* Biases of experts, and clipping, as Megatron-LM's TEGroupedMLP has them (megatron/core/transformer/moe/experts.py,
 * _apply_bias; fusions/fused_bias_geglu.py): plain tensor operations, each a pass over memory. The bias of the first
 * product is added by the product itself.
 *
 * Clipping: both halves clamped, then joined: 2 reads and 2 writes; backward a mask each, then joined: 3 and 2.
 * Bias of the second product: weighed by the probability, added, the experts' parts joined: 3 reads and 3 writes; backward
 * the parts joined, and for each of probability and bias a product and its sum: 5 and 3. */
static double clip_bytes(const lk_builder *b, struct lk_moe_size z, int passes) {
	return b->model->clipped_glu ? passes * b->bytes * z.routed * z.up : 0;
}

static double weighed_bias_bytes(const lk_builder *b, struct lk_moe_size z, int passes) {
	return b->model->expert_bias ? passes * b->bytes * z.routed * z.hidden : 0;
}

static void experts_memory(lk_builder *b, const char *name, double bytes) {
	if (bytes > 0) lk_build_memory(b, LK_OP_ELEMENTWISE, name, bytes);
}

void lk_build_moe_forward(lk_builder *b) {
	const lk_model *m = b->model;
	struct lk_moe_size z = moe_size(b);
	double rows_local = z.routed / z.local;
	norm_forward(b);
	lk_build_gemm(b, "router", b->rows, m->experts, m->hidden);
	lk_build_memory(b, LK_OP_NORM, "router_topk", 3 * 4 * b->rows * m->experts);
	permute(b, "permute_tokens", z);
	host_sync(b);
	exchange(b, "dispatch", z);
	expert_shards(b, LK_OP_ALLGATHER, "gather_experts", z);
	lk_build_memory(b, LK_OP_PERMUTE, "sort_by_expert", 2 * b->bytes * z.routed * m->hidden);
	lk_build_quantize(b, z.routed * m->hidden);
	experts_gemm(b, "experts_up", rows_local, z.up, m->hidden, z.local);
	experts_memory(b, "expert_clip", clip_bytes(b, z, 4));
	lk_build_memory(b, LK_OP_ELEMENTWISE, "expert_activation", b->bytes * z.routed * (z.up + z.inner));
	lk_build_save(b, moe_saved(b, z), LK_OWN_ACTIVATIONS);
	lk_build_quantize(b, z.routed * z.inner);
	experts_gemm(b, "experts_down", rows_local, m->hidden, z.inner, z.local);
	experts_memory(b, "expert_bias", weighed_bias_bytes(b, z, 6));
	lk_build_memory(b, LK_OP_PERMUTE, "unsort", 2 * b->bytes * z.routed * m->hidden);
	expert_shards(b, LK_OP_REDUCESCATTER, "reduce_experts", z);
	exchange(b, "combine", z);
	permute(b, "unpermute_tokens", z);
	if (m->shared_ffn > 0) {
		lk_build_tp_enter(b, "gather_shared_input");
		mlp_products_forward(b, mlp_width(b, m->shared_ffn));
		lk_build_tp_leave(b, "reduce_shared_output");
	}
	residual_forward(b);
}

static void experts_backward(lk_builder *b, struct lk_moe_size z, bool input, bool weight) {
	double rows = z.routed / z.local, h = z.hidden;
	if (input) experts_memory(b, "expert_bias_grad", weighed_bias_bytes(b, z, 8));
	if (input) lk_build_quantize(b, z.routed * h);
	if (input) experts_gemm(b, "experts_down_grad", rows, z.inner, h, z.local);
	if (weight) experts_gemm(b, "weight_grad", h, z.inner, rows, z.local);
	if (input) {
		lk_build_memory(b, LK_OP_ELEMENTWISE, "expert_activation_grad", b->bytes * z.routed * (2 * z.up + z.inner));
		experts_memory(b, "expert_clip_grad", clip_bytes(b, z, 5));
		lk_build_scratch(b, b->bytes * z.routed * (h + z.up + z.inner), LK_OWN_WORKSPACE);
	}
	if (weight && b->model->expert_bias) lk_build_bias_grad(b, "experts_up_bias_grad", z.routed, z.up);
	if (input) lk_build_quantize(b, z.routed * z.up);
	if (input) experts_gemm(b, "experts_up_grad", rows, h, z.up, z.local);
	if (weight) experts_gemm(b, "weight_grad", z.up, h, rows, z.local);
	bool last = weight || !b->train_base;
	double gradients = b->bytes * z.routed * (h + z.up); /* kept between the passes of a split backward */
	if (input && !last) lk_build_save(b, gradients, LK_OWN_ACTIVATIONS);
	if (last) lk_build_release(b, moe_saved(b, z) + (input ? 0 : gradients), LK_OWN_ACTIVATIONS);
}

void lk_build_moe_backward(lk_builder *b, bool input, bool weight) {
	const lk_model *m = b->model;
	struct lk_moe_size z = moe_size(b);
	if (input) {
		residual_backward(b);
		permute(b, "unpermute_tokens_grad", z);
		exchange(b, "combine_grad", z);
		expert_shards(b, LK_OP_ALLGATHER, "gather_experts_grad", z);
		lk_build_memory(b, LK_OP_PERMUTE, "unsort_grad", 2 * b->bytes * z.routed * m->hidden);
	}
	experts_backward(b, z, input, weight);
	if (input) {
		lk_build_memory(b, LK_OP_PERMUTE, "sort_by_expert_grad", 2 * b->bytes * z.routed * m->hidden);
		expert_shards(b, LK_OP_REDUCESCATTER, "reduce_experts_grad", z);
		exchange(b, "dispatch_grad", z);
		permute(b, "permute_tokens_grad", z);
	}
	if (m->shared_ffn > 0) {
		if (input || b->sp) lk_build_tp_leave_backward(b, "gather_shared_grad");
		mlp_products_backward(b, mlp_width(b, m->shared_ffn), input, weight);
	}
	if (input) lk_build_memory(b, LK_OP_NORM, "router_topk_grad", 4 * 4 * b->rows * m->experts);
	if (input) lk_build_gemm(b, "router_grad", b->rows, m->hidden, m->experts);
	if (weight) lk_build_gemm(b, "router_weight_grad", m->experts, m->hidden, b->rows);
	norm_backward(b, input, weight);
}
