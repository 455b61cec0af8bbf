/* build_ends.c: what stands before the first layer and behind the last: embeddings (tokens, positions, image patches),
 * final norm, output head, cross-entropy over a split vocabulary. */
#include "model/build/build.h"
#include "model/layout/job.h"

/* Fully sharded parameters of an end: gathered before it runs, for it and its backward; gradients scattered behind. */
static void gather_end(lk_builder *b, lk_rank_params p) {
	if (b->job->sharding < LK_SHARD_ZERO2 || lk_sizes_dp_ranks(b->job) <= 1 || p.dense <= 0) return;
	lk_build_traffic(b, "gather_weights", LK_OP_ALLGATHER, b->bytes * p.dense, 0, true, false);
	lk_build_wait(b, LK_STREAM_DP);
}

/* The head's weights are whole from its forward to its backward pass. */
static double gathered_head(const lk_builder *b) {
	bool whole = b->job->sharding < LK_SHARD_ZERO3 || lk_sizes_dp_ranks(b->job) <= 1;
	return whole ? 0 : b->bytes * lk_sizes_head(b->job).dense;
}

static void scatter_end(lk_builder *b, lk_rank_params p) {
	if (b->job->sharding < LK_SHARD_ZERO2 || lk_sizes_dp_ranks(b->job) <= 1) return;
	lk_build_traffic(b, "scatter_gradients", LK_OP_REDUCESCATTER, lk_sizes_wire_bytes(b->job) * p.trained_dense, 0,
					 false, false);
}

static void embedding_forward(lk_builder *b) {
	const lk_model *m = b->model;
	gather_end(b, lk_sizes_embedding(b->job));
	if (m->network == LK_NET_CONV) {
		lk_build_conv_stem(b, true);
		return;
	}
	double out = b->bytes * b->tokens * m->hidden;
	if (m->image > 0) {
		lk_build_gemm(b, "patch_conv", b->tokens, m->hidden, (double)m->patch * m->patch * m->channels);
		if (b->graph->ops.count) b->graph->ops.kind[b->graph->ops.count - 1] = LK_OP_CONV;
	} else {
		lk_build_memory(b, LK_OP_EMBEDDING, "embedding", 2 * out);
	}
	if (m->position_rows > 0) lk_build_memory(b, LK_OP_ELEMENTWISE, "add_positions", 2 * out);
	if (b->tp > 1)
		lk_build_collective(b, b->sp ? LK_OP_REDUCESCATTER : LK_OP_ALLREDUCE, LK_STREAM_TP, LK_GROUP_TP,
							"reduce_embedding", out, false);
	if (m->embed_norm) lk_build_memory(b, LK_OP_NORM, "embedding_norm", 2 * lk_build_row_bytes(b));
	if (b->train_base) lk_build_save(b, lk_build_mask_bytes(b), LK_OWN_ACTIVATIONS);
}

static void embedding_backward(lk_builder *b) {
	double out = b->bytes * b->tokens * b->model->hidden;
	if (!b->train_base) return;
	if (b->model->network == LK_NET_CONV) {
		lk_build_conv_stem(b, false);
		scatter_end(b, lk_sizes_embedding(b->job));
		return;
	}
	if (b->model->embed_norm) lk_build_memory(b, LK_OP_NORM, "embedding_norm_grad", 3 * lk_build_row_bytes(b));
	if (b->tp > 1 && b->sp)
		lk_build_collective(b, LK_OP_ALLGATHER, LK_STREAM_TP, LK_GROUP_TP, "gather_embedding_grad", out, false);
	lk_build_memory(b, LK_OP_EMBEDDING, "embedding_grad", 3 * out);
	lk_build_release(b, lk_build_mask_bytes(b), LK_OWN_ACTIVATIONS);
	scatter_end(b, lk_sizes_embedding(b->job));
}

lk_status lk_build_embedding(lk_builder *b, lk_block_pass pass, uint32_t *block) {
	bool forward = pass == LK_BLOCK_FORWARD;
	lk_build_stack(b, false);
	if (!b->embed_block[pass]) {
		b->phase = forward ? LK_PHASE_FORWARD : LK_PHASE_BACKWARD;
		b->pending = 0;
		lk_graph_begin_block(b->graph, forward ? "embedding forward" : "embedding backward");
		if (forward)
			embedding_forward(b);
		else
			embedding_backward(b);
		LK_TRY(lk_graph_end_block(b->graph, block, b->err));
		b->embed_block[pass] = *block + 1;
	}
	*block = b->embed_block[pass] - 1;
	return LK_OK;
}

/* ---- head ---- */

static double vocabulary(const lk_builder *b) {
	return b->job->padded_vocab / b->tp;
}
static bool fused_loss(const lk_builder *b) {
	return b->job->fused_cross_entropy == LK_ON;
}

/* Bytes per logit: most while the loss is computed, kept until the backward pass, most while its gradient is. */
struct lk_logit_bytes {
	double forward, kept, backward;
};

/* Megatron-LM makes one fp32 copy, whose exponentials, softmax and gradient are written in place
 * (core/tensor_parallel/cross_entropy.py); its native fusion makes a second one. PyTorch's cross_entropy makes a second
 * one for the logarithm, which stays, and in the backward pass the gradients of both, while the caller still holds the
 * 16-bit logits; compiled it goes from 16 bits to 16 bits. Transformer Engine's and Liger's kernels write the gradient
 * over the logits. */
static struct lk_logit_bytes logit_bytes(const lk_builder *b) {
	double narrow = b->bytes;
	if (fused_loss(b) && !b->job->native_loss_fusion) return (struct lk_logit_bytes){narrow, narrow, narrow};
	if (b->job->compile) return (struct lk_logit_bytes){narrow, narrow, 2 * narrow};
	if (!lk_job_like_megatron(b->job)) return (struct lk_logit_bytes){narrow + 8, narrow + 4, narrow + 12};
	return (struct lk_logit_bytes){narrow + (fused_loss(b) ? 8 : 4), 4, narrow + 4};
}

/* Vocabulary-parallel cross-entropy: maximum, predicted logit and sum of exponentials are reduced over TP. */
static void loss(lk_builder *b) {
	static const char *const names[] = {"loss_max", "loss_target", "loss_sum"};
	double logits = b->tokens * vocabulary(b);
	struct lk_logit_bytes each = logit_bytes(b);
	lk_build_memory(b, LK_OP_LOSS, "cross_entropy", logits * (fused_loss(b) ? b->bytes : b->bytes + 4 * 4));
	lk_build_save(b, logits * each.forward, LK_OWN_LOGITS);
	for (int i = 0; i < 3 && b->tp > 1; i++)
		lk_build_collective(b, LK_OP_ALLREDUCE, LK_STREAM_TP, LK_GROUP_TP, names[i], 4 * b->tokens, false);
	if (!fused_loss(b)) lk_build_memory(b, LK_OP_LOSS, "softmax_divide", logits * 8);
	lk_build_release(b, logits * (each.forward - each.kept), LK_OWN_LOGITS);
}

/* Inputs of the final norm and of the product. */
static double head_saved(const lk_builder *b) {
	int rows = (b->model->final_norm ? 2 : 1) + (b->model->head_transform ? 3 : 0); /* dense, activation, norm */
	return rows * lk_build_row_bytes(b);
}

static void head_forward(lk_builder *b) {
	const lk_model *m = b->model;
	gather_end(b, lk_sizes_head(b->job));
	if (m->network == LK_NET_CONV) {
		lk_build_conv_head(b, true);
		return;
	}
	if (m->vocab > 0 && gathered_head(b) > 0) lk_build_save(b, gathered_head(b), LK_OWN_BUFFERS);
	if (m->final_norm) lk_build_memory(b, LK_OP_NORM, "final_norm", 2 * lk_build_row_bytes(b));
	if (m->pooler) lk_build_gemm(b, "pooler", b->batch, m->hidden, m->hidden);
	if (m->vocab <= 0) return;
	lk_build_tp_enter(b, "gather_head_input");
	lk_build_gemm(b, "lm_head", b->tokens, vocabulary(b), m->hidden);
	lk_build_save(b, head_saved(b), LK_OWN_ACTIVATIONS);
	loss(b);
}

static void head_backward(lk_builder *b) {
	const lk_model *m = b->model;
	if (m->network == LK_NET_CONV) {
		lk_build_conv_head(b, false);
		scatter_end(b, lk_sizes_head(b->job));
		return;
	}
	if (m->vocab > 0) {
		double logits = b->tokens * vocabulary(b);
		struct lk_logit_bytes each = logit_bytes(b);
		lk_build_memory(b, LK_OP_LOSS, "cross_entropy_grad", logits * (fused_loss(b) ? 2 * b->bytes : 8 + b->bytes));
		lk_build_save(b, logits * (each.backward - each.kept), LK_OWN_LOGITS);
		lk_build_release(b, logits * (each.backward - b->bytes), LK_OWN_LOGITS);
		lk_build_column_backward(b, "lm_head_grad", vocabulary(b), m->hidden, true, b->train_base);
		lk_build_release(b, logits * b->bytes, LK_OWN_LOGITS);
	}
	if (m->final_norm) lk_build_memory(b, LK_OP_NORM, "final_norm_grad", 3 * lk_build_row_bytes(b));
	if (m->vocab > 0) lk_build_release(b, head_saved(b), LK_OWN_ACTIVATIONS);
	if (b->train_base) scatter_end(b, lk_sizes_head(b->job));
	if (m->vocab > 0 && gathered_head(b) > 0) lk_build_release(b, gathered_head(b), LK_OWN_BUFFERS);
}

/* A multi-token prediction module is one more layer with its own pass through the head; the builder runs the head once
 * more for each (DeepSeek-V3 report, section 2.2). */
lk_status lk_build_head(lk_builder *b, lk_block_pass pass, uint32_t *block) {
	bool forward = pass == LK_BLOCK_FORWARD;
	double tokens;
	lk_build_stack(b, true);
	tokens = b->tokens;
	if (b->job->logit_share > 0) b->tokens *= b->job->logit_share;
	if (!b->head_block[pass]) {
		b->phase = forward ? LK_PHASE_FORWARD : LK_PHASE_BACKWARD;
		b->pending = 0;
		lk_graph_begin_block(b->graph, forward ? "head forward" : "head backward");
		if (forward)
			head_forward(b);
		else
			head_backward(b);
		LK_TRY(lk_graph_end_block(b->graph, block, b->err));
		b->head_block[pass] = *block + 1;
	}
	b->tokens = tokens;
	*block = b->head_block[pass] - 1;
	return LK_OK;
}
