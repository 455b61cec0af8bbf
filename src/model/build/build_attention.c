/* build_attention.c: the attention half of a layer: norm, projections (heads or latent), rotary positions, the core
 * (fused or not, causal, windowed, over context-parallel ranks), output projection. Saved tensors: arXiv 2205.05198
 * section 4, itemised in docs/METHOD.md ("Memory"). */
#include "model/build/build.h"
#include "model/layout/job.h"

/* Widths on this rank. */
struct lk_widths {
	double q, kv, v;     /* columns of q, of k and v together, of the output */
	double score, value; /* head sizes of q.k and p.v */
	double heads;
};

static struct lk_widths widths(const lk_builder *b) {
	const lk_model *m = b->model;
	double heads = m->heads / b->tp, kv_heads = m->kv_heads / b->tp;
	if (kv_heads < 1) kv_heads = 1; /* replicated where TP is wider than the groups */
	if (m->attention == LK_ATTN_MLA) {
		double score = m->qk_nope + m->qk_rope;
		return (struct lk_widths){heads * score, heads * (m->qk_nope + m->v_dim), heads * m->v_dim, score, m->v_dim, heads};
	}
	return (struct lk_widths){
		heads * m->head_dim, 2 * kv_heads * m->head_dim, heads * m->head_dim, m->head_dim, m->head_dim, heads};
}

static double norm_out(const lk_builder *b) {
	return b->replays || b->job->recompute_norms ? 0 : lk_build_kept_bytes(b, b->rows * b->model->hidden);
}
/* Tokens that keys and values are made of. */
static double key_tokens(const lk_builder *b, bool cross) {
	return cross ? b->memory_tokens : b->tokens;
}

static double qkv_saved(const lk_builder *b, struct lk_widths w, bool cross) {
	double latent =
		b->model->attention == LK_ATTN_MLA ? 2.0 * (b->model->q_lora + b->model->kv_lora) + b->model->qk_rope : 0;
	double keys = b->model->attention == LK_ATTN_MLA ? w.heads * (w.score + w.value) : w.kv;
	if (b->job->recompute_latent_up && b->model->attention == LK_ATTN_MLA) return b->bytes * b->tokens * latent;
	bool reads = b->model->qk_norm && b->model->attention != LK_ATTN_MLA;
	double normed = reads ? w.q + w.kv / 2 : 0; /* what the norms of queries and keys read */
	return b->bytes * (b->tokens * (w.q + latent + normed) + key_tokens(b, cross) * keys);
}
/* The flash-attention package works on batch-first tensors: what it returns is kept, and once more as the
 * sequence-first input of the next product. */
static bool copies_output(const lk_builder *b) {
	return b->job->attn_library == LK_ATTN_LIBRARY_FLASH && b->batch > 1 && lk_job_like_megatron(b->job);
}

static double core_saved(const lk_builder *b, const lk_layer_shape *s, struct lk_widths w) {
	double out = b->bytes * b->tokens * w.v;
	if (b->job->attn_kernel != LK_KERNEL_UNFUSED)
		return out * (copies_output(b) ? 2 : 1) + 4 * b->tokens * w.heads; /* log-sum-exp */
	double pairs = b->batch * w.heads * s->queries * s->keys;
	if (b->job->recompute == LK_RECOMPUTE_SELECTIVE) return out;
	return out + pairs * (b->bytes + (b->model->dropout > 0 ? 1 + b->bytes : 0));
}

/* Query-key pairs that are computed: the lower triangle, or a band. Unbalanced context parallelism makes the last
 * rank's share 2 cp / (cp + 1) times the mean. */
static double pairs(const lk_builder *b, const lk_layer_shape *s) {
	double all = s->queries * s->keys;
	if (s->window > 0 && s->window < s->keys)
		all = s->queries * s->window * (s->causal ? 1 - 0.5 * s->window / s->keys : 1);
	else if (s->causal)
		all *= 0.5;
	double cp = b->job->cp;
	if (s->causal && cp > 1 && b->job->cp_balanced == LK_OFF) all *= 2 * cp / (cp + 1);
	return all * b->batch;
}

static void flash(lk_builder *b, const lk_layer_shape *s, struct lk_widths w, bool backward) {
	double flops = 2 * pairs(b, s) * w.heads * (w.score + w.value) * (backward ? 2.5 : 1);
	double bytes = b->bytes * b->tokens * (w.q + w.v) + b->bytes * b->batch * s->keys * w.kv;
	lk_op op = {
		.kind = backward ? LK_OP_ATTENTION_BWD : LK_OP_ATTENTION,
		.dtype = LK_BF16,
		.stream = LK_STREAM_COMPUTE,
		.phase = b->phase,
		.join = b->pending,
		.name = backward ? "attention_grad" : "attention",
		.m = s->queries,
		.n = s->keys,
		.k = w.score,
		.batch = b->batch * w.heads,
		.flops = flops,
		.bytes = bytes * (backward ? 3 : 1),
		.window = s->window,
		.flags = s->causal ? LK_OP_CAUSAL : 0,
	};
	b->pending = 0;
	lk_graph_add(b->graph, &op);
	/* gradients of queries, keys and values; those of the queries are summed up in fp32 */
	if (backward) lk_build_scratch(b, b->tokens * (b->bytes * (w.q + w.kv) + 4 * w.q), LK_OWN_WORKSPACE);
}

/* Products over all pairs (libraries of batched products do not skip the masked half) and a fused scale-mask-softmax.
 */
static void unfused(lk_builder *b, const lk_layer_shape *s, struct lk_widths w, bool backward) {
	double batch = b->batch * w.heads, score_bytes = batch * s->queries * s->keys * b->bytes;
	double passes = b->model->dropout > 0 ? 4.5 : 2; /* read + write; dropout reads, writes and keeps a byte mask */
	if (!backward) {
		lk_build_gemm_batch(b, "scores", s->queries, s->keys, w.score, batch);
		lk_build_memory(b, LK_OP_SOFTMAX, "mask_softmax", score_bytes * passes);
		lk_build_gemm_batch(b, "weighted_values", s->queries, w.value, s->keys, batch);
		return;
	}
	if (b->job->recompute == LK_RECOMPUTE_SELECTIVE) {
		lk_build_gemm_batch(b, "scores_again", s->queries, s->keys, w.score, batch);
		lk_build_memory(b, LK_OP_SOFTMAX, "mask_softmax_again", score_bytes * passes);
	}
	lk_build_gemm_batch(b, "probabilities_grad", s->queries, s->keys, w.value, batch);
	lk_build_scratch(b, score_bytes * (b->model->dropout > 0 ? 2 : 1), LK_OWN_WORKSPACE);
	lk_build_gemm_batch(b, "values_grad", s->keys, w.value, s->queries, batch);
	lk_build_memory(b, LK_OP_SOFTMAX, "mask_softmax_grad", score_bytes * (passes + 1));
	lk_build_gemm_batch(b, "query_grad", s->queries, w.score, s->keys, batch);
	lk_build_gemm_batch(b, "key_grad", s->keys, w.score, s->queries, batch);
}

/* Keys and values of the other context-parallel ranks: a ring hides behind the attention it feeds, an all-gather does
 * not. Backward, keys and values come again and their gradients go back. */
static void core(lk_builder *b, const lk_layer_shape *s, struct lk_widths w, bool backward) {
	double total =
		b->bytes * b->batch * s->keys * (b->model->attention == LK_ATTN_MLA ? w.heads * (w.score + w.value) : w.kv);
	bool ring = b->job->cp_kind == LK_CP_RING, exchange = b->job->cp > 1;
	if (exchange) lk_build_collective(b, LK_OP_ALLGATHER, LK_STREAM_CP, LK_GROUP_CP, "exchange_kv", total, ring);
	if (b->job->attn_kernel == LK_KERNEL_UNFUSED)
		unfused(b, s, w, backward);
	else
		flash(b, s, w, backward);
	if (exchange && backward)
		lk_build_collective(b, LK_OP_REDUCESCATTER, LK_STREAM_CP, LK_GROUP_CP, "exchange_kv_grad", total, false);
	if (exchange) lk_build_wait(b, LK_STREAM_CP);
}

static void positions(lk_builder *b, const lk_layer_shape *shape, struct lk_widths w, bool backward) {
	const lk_model *m = b->model;
	if (m->qk_norm)
		lk_build_memory(b, LK_OP_NORM, backward ? "qk_norm_grad" : "qk_norm",
						(backward ? 3 : 2) * b->bytes * b->tokens * (w.q + w.kv / 2));
	if (m->position_rows > 0) return;  /* learned: added to the embedding */
	if (m->network == LK_NET_ENCDEC) { /* a bias per head and distance, read with the scores */
		double bias = b->bytes * w.heads * shape->queries * shape->keys;
		lk_build_memory(b, LK_OP_ELEMENTWISE, backward ? "relative_bias_grad" : "relative_bias",
						(backward ? 2 : 1) * bias);
		return;
	}
	bool latent = m->attention == LK_ATTN_MLA;
	double q = latent ? w.heads * m->qk_rope : w.q, k = latent ? w.heads * m->qk_rope : w.kv / 2;
	lk_build_memory(b, LK_OP_ELEMENTWISE, backward ? "rotary_q_grad" : "rotary_q", 2 * b->bytes * b->tokens * q);
	lk_build_memory(b, LK_OP_ELEMENTWISE, backward ? "rotary_k_grad" : "rotary_k", 2 * b->bytes * b->tokens * k);
}

/* Low-rank adapters beside a frozen projection [k -> n]: two thin products. */
static void adapter(lk_builder *b, double n, double k, bool backward) {
	if (b->train_base) return;
	double r = b->job->lora_rank;
	lk_build_gemm(b, "adapter_a", b->tokens, r, k);
	lk_build_gemm(b, "adapter_b", b->tokens, n, r);
	if (!backward) return;
	lk_build_gemm(b, "adapter_a_grad", r, k, b->tokens);
	lk_build_gemm(b, "adapter_b_grad", n, r, b->tokens);
}

static void projections_forward(lk_builder *b, struct lk_widths w, bool cross) {
	const lk_model *m = b->model;
	if (cross && b->memory_tokens != b->tokens) {
		lk_build_gemm(b, "q_proj", b->tokens, w.q, m->hidden);
		lk_build_gemm(b, "kv_proj", b->memory_tokens, w.kv, m->hidden);
		return;
	}
	if (m->attention != LK_ATTN_MLA) {
		lk_build_gemm(b, "qkv_proj", b->tokens, w.q + w.kv, m->hidden);
		if (m->qkv_bias && !b->job->fused_kernels)
			lk_build_memory(b, LK_OP_ELEMENTWISE, "qkv_bias", 2 * b->bytes * b->tokens * (w.q + w.kv));
		return;
	}
	if (m->q_lora) {
		lk_build_gemm(b, "q_down", b->tokens, m->q_lora, m->hidden);
		lk_build_memory(b, LK_OP_NORM, "q_norm", 2 * b->bytes * b->tokens * m->q_lora);
	}
	lk_build_gemm(b, "q_up", b->tokens, w.q, m->q_lora ? m->q_lora : m->hidden);
	lk_build_gemm(b, "kv_down", b->tokens, m->kv_lora + m->qk_rope, m->hidden);
	lk_build_memory(b, LK_OP_NORM, "kv_norm", 2 * b->bytes * b->tokens * m->kv_lora);
	lk_build_gemm(b, "kv_up", b->tokens, w.kv, m->kv_lora);
}

static void projections_backward(lk_builder *b, struct lk_widths w, bool input, bool weight) {
	const lk_model *m = b->model;
	if (m->attention != LK_ATTN_MLA) {
		lk_build_column_backward(b, "qkv_proj_grad", w.q + w.kv, m->hidden, input, weight);
		return;
	}
	lk_build_row_backward(b, "kv_up_grad", w.kv, m->kv_lora, input, weight);
	if (input) lk_build_memory(b, LK_OP_NORM, "kv_norm_grad", 3 * b->bytes * b->tokens * m->kv_lora);
	lk_build_row_backward(b, "kv_down_grad", m->kv_lora + m->qk_rope, m->hidden, input, weight);
	lk_build_row_backward(b, "q_up_grad", w.q, m->q_lora ? m->q_lora : m->hidden, input, weight);
	if (m->q_lora) {
		if (input) lk_build_memory(b, LK_OP_NORM, "q_norm_grad", 3 * b->bytes * b->tokens * m->q_lora);
		lk_build_column_backward(b, "q_down_grad", m->q_lora, m->hidden, input, weight);
	}
}

void lk_build_attention_forward(lk_builder *b, const lk_layer_shape *s, bool cross) {
	struct lk_widths w = widths(b);
	double row = lk_build_row_bytes(b);
	lk_build_memory(b, LK_OP_NORM, cross ? "cross_norm" : "input_norm", 2 * row);
	if (b->phase != LK_PHASE_RECOMPUTE || cross) lk_build_save(b, row, LK_OWN_ACTIVATIONS); /* a replay has its input */
	lk_build_save(b, norm_out(b), LK_OWN_ACTIVATIONS);
	lk_build_quantize_normed(b);
	lk_build_tp_enter(b, "gather_attention_input");
	projections_forward(b, w, cross);
	lk_build_save(b, qkv_saved(b, w, cross), LK_OWN_ACTIVATIONS);
	adapter(b, w.q + w.kv, b->model->hidden, false);
	if (!cross) positions(b, s, w, false);
	if (!b->job->fused_kernels)
		lk_build_memory(b, LK_OP_ELEMENTWISE, "split_heads", 2 * b->bytes * b->tokens * (w.q + w.kv) / 2);
	core(b, s, w, false);
	lk_build_save(b, core_saved(b, s, w), LK_OWN_ACTIVATIONS);
	lk_build_quantize(b, b->tokens * w.v);
	lk_build_gemm(b, "out_proj", b->tokens, b->model->hidden, w.v);
	adapter(b, b->model->hidden, w.v, false);
	lk_build_tp_leave(b, "reduce_attention_output");
	if (b->model->norms_per_layer >= 4) lk_build_memory(b, LK_OP_NORM, "post_attention_norm", 2 * row);
	lk_build_memory(b, LK_OP_ELEMENTWISE, "attention_residual", lk_build_residual_bytes(b));
	lk_build_save(b, lk_build_mask_bytes(b), LK_OWN_ACTIVATIONS);
}

/* What a split backward keeps between its two passes: the output of the core and the gradients behind both products. */
static double kept_for_weights(const lk_builder *b, struct lk_widths w) {
	return b->bytes * (b->rows * b->model->hidden + b->tokens * (w.v + w.q + w.kv));
}

void lk_build_attention_backward(lk_builder *b, const lk_layer_shape *s, bool cross, bool input, bool weight) {
	struct lk_widths w = widths(b);
	double row = lk_build_row_bytes(b);
	bool last = weight || !b->train_base; /* this block is the last that needs the inputs of products */
	if (input) {
		lk_build_memory(b, LK_OP_ELEMENTWISE, "attention_residual_grad", lk_build_residual_bytes(b));
		lk_build_release(b, lk_build_mask_bytes(b), LK_OWN_ACTIVATIONS);
	}
	if (input && b->model->norms_per_layer >= 4) lk_build_memory(b, LK_OP_NORM, "post_attention_norm_grad", 3 * row);
	if (input || b->sp) lk_build_tp_leave_backward(b, "gather_attention_grad");
	if (weight && b->model->out_bias) lk_build_bias_grad(b, "out_bias_grad", b->rows, b->model->hidden);
	lk_build_row_backward(b, "out_proj_grad", b->model->hidden, w.v, input, weight);
	if (input) {
		adapter(b, b->model->hidden, w.v, true);
		core(b, s, w, true);
		lk_build_release(b, core_saved(b, s, w), LK_OWN_ACTIVATIONS);
		if (!b->job->fused_kernels)
			lk_build_memory(b, LK_OP_ELEMENTWISE, "merge_heads_grad", 2 * b->bytes * b->tokens * (w.q + w.kv) / 2);
		if (!cross) positions(b, s, w, true);
		adapter(b, w.q + w.kv, b->model->hidden, true);
	}
	if (weight && b->model->qkv_bias) lk_build_bias_grad(b, "qkv_bias_grad", b->tokens, w.q + w.kv);
	projections_backward(b, w, input, weight);
	if (input) lk_build_release(b, qkv_saved(b, w, cross), LK_OWN_ACTIVATIONS);
	if (last) lk_build_release(b, norm_out(b), LK_OWN_ACTIVATIONS);
	if (input && !last) lk_build_save(b, kept_for_weights(b, w), LK_OWN_ACTIVATIONS);
	if (!input && weight) lk_build_release(b, kept_for_weights(b, w), LK_OWN_ACTIVATIONS);
	if (!input) return;
	lk_build_memory(b, LK_OP_NORM, cross ? "cross_norm_grad" : "input_norm_grad", 3 * row);
	lk_build_release(b, row, LK_OWN_ACTIVATIONS);
	if (b->train_base) lk_build_norm_weight_grad(b, 2 * row);
}
