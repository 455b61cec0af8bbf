/* build_mlp.c: the second half of a layer: dense MLP, or router, dispatch, experts and combine. */
#include "model/build/build.h"
#include "model/layout/job.h"
#include "base/check.h"

/* ---- dense; also the shared experts of an MoE layer ---- */

struct lk_mlp_width {
	double up, inner; /* columns of the first product (gate and up); of the activation's output */
};

static struct lk_mlp_width mlp_width(const lk_builder *builder, double ffn) {
	double inner = ffn / builder->tp;
	return (struct lk_mlp_width){builder->model->gated ? 2 * inner : inner, inner};
}

/* The activation's output, for the second product's weight gradient: not with frozen weights, nor
 * if a replay by operation recomputes it from its input. */
static double inner_saved(const lk_builder *builder, struct lk_mlp_width w) {
	return builder->train_base && !builder->replays
	           ? lk_build_kept_bytes(builder, builder->tokens * w.inner)
	           : 0;
}

/* Bytes of the activation's input: 8 bits per element if the job stores it so. */
static double activation_input_bytes(const lk_builder *builder, double elements) {
	return builder->job->narrow_activations ? lk_build_kept_bytes(builder, elements)
	                                        : builder->bytes * elements;
}

static double up_saved(const lk_builder *builder, struct lk_mlp_width w) {
	double input = activation_input_bytes(builder, builder->tokens * w.up);
	if (builder->replays) return input * 0.5;
	return input + lk_build_activation_kept(builder, builder->tokens * w.inner);
}
static double mlp_saved(const lk_builder *builder, struct lk_mlp_width w) {
	return up_saved(builder, w) + inner_saved(builder, w);
}

/* The norm before the MLP, and the products that read its output: gate and up, separate outside
 * Megatron-LM. */
static double mlp_norm_elements(const lk_builder *builder) {
	return builder->rows * builder->model->hidden;
}
static int mlp_readers(const lk_builder *builder) {
	return builder->model->gated && lk_job_runs_as_written(builder->job) ? 2 : 1;
}
static double mlp_norm_out(const lk_builder *builder) {
	return builder->train_base && !builder->replays
	           ? lk_build_norm_made(builder, mlp_norm_elements(builder), mlp_readers(builder))
	           : 0;
}
static void mlp_norm(lk_builder *builder) {
	lk_build_norm(builder, "post_norm", mlp_norm_elements(builder), mlp_readers(builder));
}

/* The adapters of the first products, which read the norm's output, and of the second. */
static lk_adapter up_adapter(const lk_builder *builder, double rows, double up, double hidden) {
	const lk_model *model = builder->model;
	bool shared = model->parallel_residual && model->norms_per_layer == 1;
	lk_adapter of = {.rows = rows,
	                 .k = hidden,
	                 .readers = {{LK_ADAPT_UP, up}},
	                 .at_hand = shared,
	                 .shared = shared};
	if (!model->gated) return of;
	of.readers[0].out = up / 2;
	of.readers[1] = (lk_reader){LK_ADAPT_GATE, up / 2};
	return of;
}
static lk_adapter down_adapter(double rows, double hidden, double inner) {
	return (lk_adapter){.rows = rows, .k = inner, .readers = {{LK_ADAPT_DOWN, hidden}}};
}
/* Of routed experts. */
static void experts_adapter(lk_builder *builder, lk_adapter of, bool backward) {
	of.experts = true;
	lk_build_adapter(builder, of, backward);
}

static void mlp_products_forward(lk_builder *builder, struct lk_mlp_width w) {
	double h = builder->model->hidden;
	lk_build_gemm(builder, "mlp_up", builder->tokens, w.up, h);
	lk_build_adapter(builder, up_adapter(builder, builder->tokens, w.up, h), false);
	if (builder->eager)
		lk_build_activation(builder, "activation", builder->tokens * w.inner, false);
	else if (!builder->job->fused_kernels)
		lk_build_memory(builder, LK_OP_ELEMENTWISE, "activation",
		                builder->bytes * builder->tokens * (w.up + w.inner));
	lk_build_save(builder, mlp_saved(builder, w), LK_OWN_ACTIVATIONS);
	if (builder->job->fused_kernels) lk_build_transpose_narrow(builder, builder->tokens * w.inner);
	else lk_build_quantize(builder, builder->tokens * w.inner);
	lk_build_gemm(builder, "mlp_down", builder->tokens, h, w.inner);
	lk_build_adapter(builder, down_adapter(builder->tokens, h, w.inner), false);
}

/* Output gradients of both products, which a split backward keeps for its weight pass. */
static double mlp_gradients(const lk_builder *builder, struct lk_mlp_width w) {
	return lk_build_kept_bytes(builder,
	                           builder->rows * builder->model->hidden + builder->tokens * w.up);
}

static void mlp_products_backward(lk_builder *builder, struct lk_mlp_width w, bool input,
                                  bool weight) {
	double h = builder->model->hidden;
	if (weight && builder->model->mlp_bias)
		lk_build_bias_grad(builder, "mlp_down_bias_grad", builder->rows, h);
	lk_build_row_backward(builder, "mlp_down_grad", h, w.inner, input, weight);
	if (input) {
		lk_build_adapter(builder, down_adapter(builder->tokens, h, w.inner), true);
		/* fused: the kernel that casts the gradient, or the product's epilogue, also reads the
		 * activation's input */
		double passes = builder->job->fused_kernels ? w.up : 2 * w.up + w.inner;
		if (builder->eager)
			lk_build_activation(builder, "activation_grad", builder->tokens * w.inner, true);
		else
			lk_build_memory(builder, LK_OP_ELEMENTWISE, "activation_grad",
			                builder->bytes * builder->tokens * passes);
		/* the gradients of the output, of the activation's output and of its input, which
		 * Liger's and Unsloth's kernels write over the input (liger_kernel/ops/swiglu.py,
		 * unsloth/kernels/swiglu.py) */
		double made = lk_job_writes_in_place(builder->job) ? w.inner : w.up + w.inner;
		lk_build_scratch(builder,
		                 lk_build_row_bytes(builder) + builder->bytes * builder->tokens * made,
		                 LK_OWN_WORKSPACE);
		if (weight || !builder->train_base)
			lk_build_release(builder, mlp_saved(builder, w), LK_OWN_ACTIVATIONS);
		else lk_build_release(builder, up_saved(builder, w), LK_OWN_ACTIVATIONS);
	}
	if (input) lk_build_adapter(builder, up_adapter(builder, builder->tokens, w.up, h), true);
	if (weight && builder->model->mlp_bias)
		lk_build_bias_grad(builder, "mlp_up_bias_grad", builder->tokens, w.up);
	lk_build_column_backward(builder, "mlp_up_grad", w.up, h, input, weight);
	if (input && !weight && builder->train_base)
		lk_build_save(builder, mlp_gradients(builder, w), LK_OWN_ACTIVATIONS);
	if (!input && weight)
		lk_build_release(builder, inner_saved(builder, w) + mlp_gradients(builder, w),
		                 LK_OWN_ACTIVATIONS);
}

static void residual_forward(lk_builder *builder) {
	lk_build_residual(builder, "mlp_residual", false);
	lk_build_save(builder, lk_build_mask_bytes(builder), LK_OWN_ACTIVATIONS);
}

static void residual_backward(lk_builder *builder) {
	lk_build_residual(builder, "mlp_residual_grad", true);
	lk_build_release(builder, lk_build_mask_bytes(builder), LK_OWN_ACTIVATIONS);
}

static void norm_forward(lk_builder *builder, const lk_layer_shape *shape) {
	/* the layer's input is at hand when it runs again */
	bool held = builder->phase == LK_PHASE_RECOMPUTE && !shape->layer.mixers;
	mlp_norm(builder);
	lk_build_save(builder,
	              lk_build_norm_held(builder, mlp_norm_elements(builder)) -
	                  (held ? lk_build_stream_bytes(builder) : 0) + mlp_norm_out(builder),
	              LK_OWN_ACTIVATIONS);
}

/* The norm's output is not kept: it is discarded separately, or the norm belongs to the
 * checkpointed MLP, whose input is the layer's. */
static bool makes_norm_again(const lk_builder *builder, bool moe) {
	if (lk_job_norm_apart(builder->job, false, moe))
		return lk_build_runs_again(builder, LK_MODULE_LAYERNORM);
	return !moe && lk_build_runs_again(builder, LK_MODULE_MLP);
}

static void forget_norm(lk_builder *builder, bool moe) {
	if (makes_norm_again(builder, moe))
		lk_build_release(builder, mlp_norm_out(builder), LK_OWN_ACTIVATIONS);
}

static void norm_again(lk_builder *builder, bool moe) {
	if (!makes_norm_again(builder, moe)) return;
	mlp_norm(builder);
	lk_build_save(builder, mlp_norm_out(builder), LK_OWN_ACTIVATIONS);
}

static void norm_backward(lk_builder *builder, bool input, bool weight) {
	bool last = weight && builder->train_base;
	if (last) lk_build_release(builder, mlp_norm_out(builder), LK_OWN_ACTIVATIONS);
	if (!input) return;
	double elements = mlp_norm_elements(builder);
	lk_build_norm_grad(builder, "post_norm_grad", elements, mlp_readers(builder));
	lk_build_release(builder, lk_build_norm_held(builder, elements), LK_OWN_ACTIVATIONS);
}

/* What --recompute-modules mlp checkpoints, except a norm in the first product. */
static void dense_forward(lk_builder *builder) {
	lk_build_quantize_normed(builder);
	lk_build_tp_enter(builder, "gather_mlp_input");
	if (builder->model->rwkv_inner > 0) lk_build_channel_mix(builder);
	mlp_products_forward(builder, mlp_width(builder, builder->ffn));
	if (builder->model->rwkv_inner > 0) lk_build_channel_gate(builder, true);
	lk_build_tp_leave(builder, "reduce_mlp_output");
}

void lk_build_mlp_forward(lk_builder *builder, const lk_layer_shape *shape) {
	norm_forward(builder, shape);
	double before = builder->saved;
	dense_forward(builder);
	if (lk_build_runs_again(builder, LK_MODULE_MLP)) lk_build_forget(builder, before, 0);
	forget_norm(builder, false);
	if (builder->model->norms_per_layer >= 4)
		lk_build_memory(builder, LK_OP_NORM, "post_mlp_norm", 2 * lk_build_row_bytes(builder));
	residual_forward(builder);
}

static void dense_again(lk_builder *builder) {
	lk_build_begin_again(builder);
	norm_again(builder, false);
	if (lk_build_runs_again(builder, LK_MODULE_MLP)) dense_forward(builder);
	lk_build_end_again(builder);
}

void lk_build_mlp_backward(lk_builder *builder, bool input, bool weight) {
	if (input) residual_backward(builder);
	if (input && builder->model->norms_per_layer >= 4)
		lk_build_memory(builder, LK_OP_NORM, "post_mlp_norm_grad", 3 * lk_build_row_bytes(builder));
	if (input) dense_again(builder);
	if (input || builder->sp) lk_build_tp_leave_backward(builder, "gather_mlp_grad");
	bool channel_mix = builder->model->rwkv_inner > 0;
	if (channel_mix && input) lk_build_channel_gate(builder, false);
	mlp_products_backward(builder, mlp_width(builder, builder->ffn), input, weight);
	if (channel_mix) lk_build_channel_mix_backward(builder, input, weight);
	norm_backward(builder, input, weight);
}

/* ---- mixture of experts ---- */

/* Sizes on one rank: the busiest expert-parallel rank decides, so routed rows are the mean times
 * the imbalance. */
struct lk_moe_size {
	double routed;    /* rows on this rank after the dispatch, over all its experts */
	double sent;      /* rows sent: tokens * top-k */
	double local;     /* experts of this rank */
	double up, inner; /* widths of one expert's shard */
	double hidden;
};

static struct lk_moe_size moe_size(const lk_builder *builder) {
	LK_ASSERT(builder->model->experts > 0 && builder->model->topk > 0);
	const lk_model *model = builder->model;
	double ep = lk_job_ep(builder->job), etp = lk_job_etp(builder->job);
	double imbalance = ep > 1 ? builder->job->moe_imbalance : 1;
	double inner = model->expert_ffn / etp;
	double sent = builder->rows * model->topk;
	double hidden = model->expert_latent > 0 ? model->expert_latent : model->hidden;
	return (struct lk_moe_size){sent * imbalance * etp,           sent,  model->experts / ep,
	                            model->gated ? 2 * inner : inner, inner, hidden};
}

/* The output of the experts' activation: the second product's input, and, for the router's weight
 * gradient, the weighted tensor: Megatron-LM weights after the activation, in a separate kernel for
 * gated ones. */
static double activated_saved(const lk_builder *builder, struct lk_moe_size z) {
	bool weighed = lk_job_like_megatron(builder->job) && !builder->model->gated;
	double kept = builder->train_base ? lk_build_kept_bytes(builder, z.routed * z.inner) : 0;
	return weighed ? kept + builder->bytes * z.routed * z.inner : kept;
}

static double moe_saved(const lk_builder *builder, struct lk_moe_size z) {
	double up = activation_input_bytes(builder, z.routed * z.up);
	double inputs = builder->train_base ? lk_build_kept_bytes(builder, z.routed * z.hidden) : 0;
	/* other stacks weight the outputs */
	double weighed = lk_job_like_megatron(builder->job) ? 0 : builder->bytes * z.sent * z.hidden;
	return up + inputs + weighed + activated_saved(builder, z) +
	       lk_build_activation_kept(builder, z.routed * z.inner);
}

/* Rows go to the ranks that hold their experts, backward as gradients of what came back; or they
 * come back. Outgoing rows may travel in 8 bits, with their factors; returning rows are summed on
 * the way and do not (DeepSeek-V3 report, section 3.3.3). */
typedef enum lk_way { LK_WAY_OUT, LK_WAY_BACK } lk_way;

static double exchanged_bytes(const lk_builder *builder, lk_way way) {
	bool narrow = way == LK_WAY_OUT && builder->job->fp8_dispatch == LK_ON && builder->job->ep > 1;
	return narrow ? LK_DISPATCH_NARROW : builder->bytes;
}

/* With one copy per node the message is smaller; comm.c counts the distinct nodes among the top-k
 * (`k`), which come from `m` of `n` groups, and takes `batch` SMs. */
static void mlp_exchange(lk_builder *builder, const char *name, struct lk_moe_size z, lk_way way) {
	if (builder->job->ep <= 1) return;
	double bytes = exchanged_bytes(builder, way) * z.sent * z.hidden;
	if (builder->job->dispatcher == LK_DISPATCH_ALLGATHER) {
		bool back = way == LK_WAY_BACK;
		lk_build_collective(
			builder, back ? LK_OP_REDUCESCATTER : LK_OP_ALLGATHER, LK_STREAM_EP, LK_GROUP_EP, name,
			exchanged_bytes(builder, way) * builder->rows * z.hidden * builder->job->ep, false);
		return;
	}
	lk_op op = {
		.kind = LK_OP_ALLTOALL,
		.stream = LK_STREAM_EP,
		.group = LK_GROUP_EP,
		.phase = builder->phase,
		.join = LK_JOIN(LK_STREAM_COMPUTE) | builder->pending,
		.name = name,
		.bytes = bytes * builder->job->moe_imbalance,
	};
	if (builder->job->dispatcher == LK_DISPATCH_NODE) {
		op.k = builder->model->topk;
		op.m = builder->model->router_group_limit;
		op.n = builder->model->router_groups;
		op.batch = builder->job->dispatch_sms;
	}
	lk_graph_add(builder->graph, &op);
	builder->pending |= LK_JOIN(LK_STREAM_EP);
}

/* Dispatchers that send one copy per place read and write tokens in place; the others first group
 * the copies of a destination. */
static void permute(lk_builder *builder, const char *name, struct lk_moe_size z) {
	if (builder->job->ep > 1 && builder->job->dispatcher == LK_DISPATCH_NODE) return;
	lk_build_memory(builder, LK_OP_PERMUTE, name,
	                builder->bytes * (builder->rows + z.sent) * z.hidden);
}

static void mlp_expert_shards(lk_builder *builder, unsigned kind, const char *name,
                              struct lk_moe_size z) {
	if (builder->job->etp > 1)
		lk_build_collective(builder, kind, LK_STREAM_TP, LK_GROUP_ETP, name,
		                    builder->bytes * z.routed * z.hidden, false);
}

static void experts_gemm(lk_builder *builder, const char *name, double m, double n, double k,
                         double batch) {
	lk_build_gemm_batch(builder, name, m, n, k, batch);
	if (builder->graph->ops.count)
		builder->graph->ops.kind[builder->graph->ops.count - 1] = LK_OP_GROUPED_GEMM;
}

/* The dispatcher needs the rows per expert on the host to size its buffers: the host waits for the
 * device. */
static void host_sync(lk_builder *builder) {
	if (builder->job->cuda_graphs == LK_ON && builder->job->graph_experts == LK_ON) return;
	lk_op op = {.kind = LK_OP_HOST,
	            .stream = LK_STREAM_HOST,
	            .phase = builder->phase,
	            .join = LK_JOIN(LK_STREAM_COMPUTE) | builder->pending,
	            .name = "read_expert_counts"};
	lk_graph_add(builder->graph, &op);
}

/* Biases of experts, and clipping, as in Megatron-LM's TEGroupedMLP
 * (megatron/core/transformer/moe/experts.py, _apply_bias; fusions/fused_bias_geglu.py): plain
 * tensor operations, each a pass over memory. The bias of the first product is added by the product
 * itself.
 *
 * Clipping: both halves clamped, then joined: 2 reads and 2 writes; backward a mask each, then
 * joined: 3 and 2. Bias of the second product: weighed by the probability, added, the experts'
 * parts joined: 3 reads and 3 writes; backward the parts joined, and for each of probability and
 * bias a product and its sum: 5 and 3. */
static double clip_bytes(const lk_builder *builder, struct lk_moe_size z, int passes) {
	return builder->model->clipped_glu ? passes * builder->bytes * z.routed * z.up : 0;
}

static double weighed_bias_bytes(const lk_builder *builder, struct lk_moe_size z, int passes) {
	return builder->model->expert_bias ? passes * builder->bytes * z.routed * z.hidden : 0;
}

static void experts_memory(lk_builder *builder, const char *name, double bytes) {
	if (bytes > 0) lk_build_memory(builder, LK_OP_ELEMENTWISE, name, bytes);
}

static void activate_experts(lk_builder *builder, struct lk_moe_size z) {
	experts_memory(builder, "expert_clip", clip_bytes(builder, z, 4));
	if (builder->eager)
		lk_build_activation(builder, "expert_activation", z.routed * z.inner, false);
	else
		lk_build_memory(builder, LK_OP_ELEMENTWISE, "expert_activation",
		                builder->bytes * z.routed * (z.up + z.inner));
}

/* Rows that travel in 8 bits are cast before sending, once each, and arrive in the products'
 * format; for the weight gradient they are cast along the other axis later. */
static bool arrives_narrow(const lk_builder *builder) {
	return exchanged_bytes(builder, LK_WAY_OUT) < builder->bytes;
}

static void quantize_sent(lk_builder *builder, struct lk_moe_size z) {
	if (arrives_narrow(builder))
		lk_build_memory(builder, LK_OP_ELEMENTWISE, "quantize_sent",
		                (builder->bytes + LK_DISPATCH_NARROW) * builder->rows * z.hidden);
}

static void quantize_arrived(lk_builder *builder, struct lk_moe_size z) {
	if (!arrives_narrow(builder)) lk_build_quantize(builder, z.routed * z.hidden);
}

/* Sort rows by expert, in either direction: read and written. */
static void sort_rows(lk_builder *builder, const char *name, struct lk_moe_size z, lk_way way) {
	lk_build_memory(builder, LK_OP_PERMUTE, name,
	                2 * exchanged_bytes(builder, way) * z.routed * z.hidden);
}

/* In MXFP8, CUDA graphs of the experts use products that apply the activation, or its gradient, to
 * their result and cast it before writing (Megatron-Bridge's cutedsl_fused_grouped_mlp):
 * Transformer Engine's ForwardGroupedMLP_CuTeGEMMSwiGLU_MXFP8, which supports only plain SwiGLU. */
static bool experts_fused(const lk_builder *builder) {
	const lk_job *job = builder->job;
	const lk_model *model = &job->model;
	return job->dtype == LK_MXFP8 && job->cuda_graphs == LK_ON && job->graph_experts == LK_ON &&
	       model->gated && !model->clipped_glu && !model->expert_bias;
}

static void experts_forward(lk_builder *builder, struct lk_moe_size z) {
	double rows = z.routed / z.local;
	quantize_arrived(builder, z);
	experts_gemm(builder, "experts_up", rows, z.up, z.hidden, z.local);
	experts_adapter(builder, up_adapter(builder, z.routed, z.up, z.hidden), false);
	bool fused = experts_fused(builder);
	if (!fused) activate_experts(builder, z);
	lk_build_save(builder, moe_saved(builder, z), LK_OWN_ACTIVATIONS);
	if (!fused) lk_build_quantize(builder, z.routed * z.inner);
	experts_gemm(builder, "experts_down", rows, z.hidden, z.inner, z.local);
	experts_adapter(builder, down_adapter(z.routed, z.hidden, z.inner), false);
	if (lk_build_runs_again(builder, LK_MODULE_MOE_ACT))
		lk_build_release(builder, activated_saved(builder, z), LK_OWN_ACTIVATIONS);
	experts_memory(builder, "expert_bias", weighed_bias_bytes(builder, z, 6));
}

static void shared_forward(lk_builder *builder) {
	lk_build_tp_enter(builder, "gather_shared_input");
	mlp_products_forward(builder, mlp_width(builder, builder->model->shared_ffn));
	lk_build_tp_leave(builder, "reduce_shared_output");
}

/* Routed experts with their own width: a product before the dispatch and one after the combine,
 * whole on every rank. The combined rows are kept for the second one's weights. */
static double latent_experts_saved(const lk_builder *builder) {
	return builder->train_base
	           ? lk_build_kept_bytes(builder, builder->rows * builder->model->expert_latent)
	           : 0;
}

static void narrow_experts(lk_builder *builder) {
	const lk_model *model = builder->model;
	if (model->expert_latent > 0)
		lk_build_gemm(builder, "experts_narrow", builder->rows, model->expert_latent,
		              model->hidden);
}

static void widen_experts(lk_builder *builder) {
	const lk_model *model = builder->model;
	if (model->expert_latent <= 0) return;
	lk_build_gemm(builder, "experts_widen", builder->rows, model->hidden, model->expert_latent);
	lk_build_save(builder, latent_experts_saved(builder), LK_OWN_ACTIVATIONS);
}

/* What --recompute-modules moe checkpoints: everything between norm and residual. */
static void mixture_forward(lk_builder *builder, struct lk_moe_size z) {
	const lk_model *model = builder->model;
	lk_build_gemm(builder, "router", builder->rows, model->experts, model->hidden);
	lk_build_memory(builder, LK_OP_NORM, "router_topk", 3 * 4 * builder->rows * model->experts);
	narrow_experts(builder);
	quantize_sent(builder, z);
	permute(builder, "permute_tokens", z);
	host_sync(builder);
	mlp_exchange(builder, "dispatch", z, LK_WAY_OUT);
	mlp_expert_shards(builder, LK_OP_ALLGATHER, "gather_experts", z);
	sort_rows(builder, "sort_by_expert", z, LK_WAY_OUT);
	experts_forward(builder, z);
	sort_rows(builder, "unsort", z, LK_WAY_BACK);
	mlp_expert_shards(builder, LK_OP_REDUCESCATTER, "reduce_experts", z);
	mlp_exchange(builder, "combine", z, LK_WAY_BACK);
	permute(builder, "unpermute_tokens", z);
	widen_experts(builder);
	if (model->shared_ffn <= 0) return;
	double before = builder->saved;
	shared_forward(builder);
	if (lk_build_runs_again(builder, LK_MODULE_SHARED_EXPERTS)) lk_build_forget(builder, before, 0);
}

void lk_build_moe_forward(lk_builder *builder, const lk_layer_shape *shape) {
	norm_forward(builder, shape);
	double before = builder->saved;
	mixture_forward(builder, moe_size(builder));
	if (lk_build_runs_again(builder, LK_MODULE_MOE)) lk_build_forget(builder, before, 0);
	forget_norm(builder, true);
	residual_forward(builder);
}

static void mixture_again(lk_builder *builder, struct lk_moe_size z) {
	lk_build_begin_again(builder);
	norm_again(builder, true);
	if (lk_build_runs_again(builder, LK_MODULE_MOE)) mixture_forward(builder, z);
	lk_build_end_again(builder);
}

static void activation_again(lk_builder *builder, struct lk_moe_size z) {
	if (!lk_build_runs_again(builder, LK_MODULE_MOE_ACT)) return;
	lk_build_begin_again(builder);
	activate_experts(builder, z);
	lk_build_save(builder, activated_saved(builder, z), LK_OWN_ACTIVATIONS);
	lk_build_quantize(builder, z.routed * z.inner);
	lk_build_end_again(builder);
}

static void shared_again(lk_builder *builder) {
	if (!lk_build_runs_again(builder, LK_MODULE_SHARED_EXPERTS)) return;
	lk_build_begin_again(builder);
	shared_forward(builder);
	lk_build_end_again(builder);
}

static void experts_backward(lk_builder *builder, struct lk_moe_size z, bool input, bool weight) {
	double rows = z.routed / z.local, h = z.hidden;
	bool fused = experts_fused(builder);
	if (input) experts_memory(builder, "expert_bias_grad", weighed_bias_bytes(builder, z, 8));
	if (input) activation_again(builder, z);
	if (input) quantize_arrived(builder, z);
	if (weight && arrives_narrow(builder)) lk_build_transpose_narrow(builder, 2 * z.routed * h);
	if (input) {
		experts_adapter(builder, down_adapter(z.routed, h, z.inner), true);
		experts_gemm(builder, "experts_down_grad", rows, z.inner, h, z.local);
	}
	if (weight) experts_gemm(builder, "weight_grad", h, z.inner, rows, z.local);
	if (input) {
		if (builder->eager)
			lk_build_activation(builder, "expert_activation_grad", z.routed * z.inner, true);
		else if (!fused)
			lk_build_memory(builder, LK_OP_ELEMENTWISE, "expert_activation_grad",
			                builder->bytes * z.routed * (2 * z.up + z.inner));
		experts_memory(builder, "expert_clip_grad", clip_bytes(builder, z, 5));
		lk_build_scratch(builder, builder->bytes * z.routed * (h + z.up + z.inner),
		                 LK_OWN_WORKSPACE);
	}
	if (weight && builder->model->expert_bias)
		lk_build_bias_grad(builder, "experts_up_bias_grad", z.routed, z.up);
	if (input && !fused) lk_build_quantize(builder, z.routed * z.up);
	if (input) {
		experts_adapter(builder, up_adapter(builder, z.routed, z.up, h), true);
		experts_gemm(builder, "experts_up_grad", rows, h, z.up, z.local);
	}
	if (weight) experts_gemm(builder, "weight_grad", z.up, h, rows, z.local);
	bool last = weight || !builder->train_base;
	/* kept between the passes of a split backward */
	double gradients = lk_build_kept_bytes(builder, z.routed * (h + z.up));
	if (input && !last) lk_build_save(builder, gradients, LK_OWN_ACTIVATIONS);
	if (last)
		lk_build_release(builder, moe_saved(builder, z) + (input ? 0 : gradients),
		                 LK_OWN_ACTIVATIONS);
}

/* Gradients of the product after the combine, or of the one before the dispatch. */
static void latent_experts_backward(lk_builder *builder, bool widen, bool input, bool weight) {
	double out = builder->model->expert_latent, in = builder->model->hidden;
	if (out <= 0) return;
	if (widen) {
		out = builder->model->hidden;
		in = builder->model->expert_latent;
	}
	if (input)
		lk_build_gemm(builder, widen ? "experts_widen_grad" : "experts_narrow_grad", builder->rows,
		              in, out);
	if (weight) lk_build_gemm(builder, "weight_grad", out, in, builder->rows);
	if (widen && (weight || !builder->train_base))
		lk_build_release(builder, latent_experts_saved(builder), LK_OWN_ACTIVATIONS);
}

/* The experts' weight gradients, overlapped with the return of their input gradients (Megatron-LM's
 * --delay-wgrad-compute; DualPipe's "MLP W"). */
static void delayed_weights(lk_builder *builder, struct lk_moe_size z) {
	uint32_t under_way = builder->pending;
	builder->pending = 0;
	experts_backward(builder, z, false, true);
	builder->pending |= under_way;
}

void lk_build_moe_backward(lk_builder *builder, bool input, bool weight) {
	const lk_model *model = builder->model;
	struct lk_moe_size z = moe_size(builder);
	bool later = input && weight && builder->job->delay_weights && lk_job_pairs(builder->job);
	if (input) {
		residual_backward(builder);
		mixture_again(builder, z);
	}
	latent_experts_backward(builder, true, input, weight);
	if (input) {
		quantize_sent(builder, z);
		permute(builder, "unpermute_tokens_grad", z);
		mlp_exchange(builder, "combine_grad", z, LK_WAY_OUT);
		mlp_expert_shards(builder, LK_OP_ALLGATHER, "gather_experts_grad", z);
		sort_rows(builder, "unsort_grad", z, LK_WAY_OUT);
	}
	experts_backward(builder, z, input, weight && !later);
	if (input) {
		sort_rows(builder, "sort_by_expert_grad", z, LK_WAY_BACK);
		mlp_expert_shards(builder, LK_OP_REDUCESCATTER, "reduce_experts_grad", z);
		mlp_exchange(builder, "dispatch_grad", z, LK_WAY_BACK);
		if (later) delayed_weights(builder, z);
		permute(builder, "permute_tokens_grad", z);
	}
	latent_experts_backward(builder, false, input, weight);
	if (model->shared_ffn > 0) {
		if (input) shared_again(builder);
		if (input || builder->sp) lk_build_tp_leave_backward(builder, "gather_shared_grad");
		mlp_products_backward(builder, mlp_width(builder, model->shared_ffn), input, weight);
	}
	if (input)
		lk_build_memory(builder, LK_OP_NORM, "router_topk_grad",
		                4 * 4 * builder->rows * model->experts);
	if (input) lk_build_gemm(builder, "router_grad", builder->rows, model->hidden, model->experts);
	if (weight)
		lk_build_gemm(builder, "router_weight_grad", model->experts, model->hidden, builder->rows);
	norm_backward(builder, input, weight);
}
