/* build_ends.c: what comes before the first layer and after the last: embeddings (tokens,
 * positions, image patches), final norm, output head, cross-entropy over a split vocabulary. */
#include <stdio.h>

#include "model/build/build.h"
#include "model/layout/job.h"

/* Fully sharded parameters of an end: gathered before it runs, for it and its backward; gradients
 * scattered after. */
static void gather_end(lk_builder *builder, lk_rank_params p) {
	if (builder->job->sharding < LK_SHARD_ZERO2 || lk_sizes_dp_ranks(builder->job) <= 1 ||
	    p.dense <= 0)
		return;
	lk_build_traffic(builder, "gather_weights", LK_OP_ALLGATHER, builder->bytes * p.dense, 0, true,
	                 false);
	lk_build_wait(builder, LK_STREAM_DP);
}

/* The head's weights are whole from its forward to its backward pass. */
static double gathered_head(const lk_builder *builder) {
	bool whole = builder->job->sharding < LK_SHARD_ZERO3 || lk_sizes_dp_ranks(builder->job) <= 1;
	return whole ? 0 : builder->bytes * lk_sizes_head(builder->job).dense;
}

static void scatter_end(lk_builder *builder, lk_rank_params p) {
	if (builder->job->sharding < LK_SHARD_ZERO2 || lk_sizes_dp_ranks(builder->job) <= 1) return;
	lk_build_traffic(builder, "scatter_gradients", LK_OP_REDUCESCATTER,
	                 lk_sizes_wire_bytes(builder->job) * p.trained_dense, 0, false, false);
}

/* Bytes of the decoder's embedded tokens, of a network whose encoder listens. */
static double decoder_embedding(lk_builder *builder) {
	lk_build_stack(builder, true);
	double out = builder->bytes * builder->tokens * builder->model->hidden;
	lk_build_stack(builder, false);
	return out;
}

static void embedding_forward(lk_builder *builder) {
	const lk_model *model = builder->model;
	gather_end(builder, lk_sizes_embedding(builder->job));
	if (model->network == LK_NET_CONV) {
		lk_build_conv_stem(builder, true);
		return;
	}
	if (model->network == LK_NET_DIFFUSION) {
		lk_build_dit_stem(builder, true);
		return;
	}
	double out = builder->bytes * builder->tokens * model->hidden;
	if (model->image > 0) {
		lk_build_gemm(builder, "patch_conv", builder->tokens, model->hidden,
		              lk_model_patch_inputs(model));
		if (builder->graph->ops.count)
			builder->graph->ops.kind[builder->graph->ops.count - 1] = LK_OP_CONV;
	} else if (model->audio.convs > 0) {
		lk_build_audio(builder, true);
		if (model->vocab > 0)
			lk_build_memory(builder, LK_OP_EMBEDDING, "embedding", 2 * decoder_embedding(builder));
	} else {
		lk_build_memory(builder, LK_OP_EMBEDDING, "embedding", 2 * out);
	}
	if (model->position_rows > 0)
		lk_build_memory(builder, LK_OP_ELEMENTWISE, "add_positions", 2 * out);
	if (builder->tp > 1)
		lk_build_collective(builder, builder->sp ? LK_OP_REDUCESCATTER : LK_OP_ALLREDUCE,
		                    LK_STREAM_TP, LK_GROUP_TP, "reduce_embedding", out, false);
	if (model->embed_norm)
		lk_build_memory(builder, LK_OP_NORM, "embedding_norm", 2 * lk_build_row_bytes(builder));
	if (builder->train_base)
		lk_build_save(builder, lk_build_mask_bytes(builder), LK_OWN_ACTIVATIONS);
	lk_build_streams_embed(builder, true);
}

static void ends_embedding_backward(lk_builder *builder) {
	double out = builder->bytes * builder->tokens * builder->model->hidden;
	if (!builder->train_base) return;
	if (builder->model->network == LK_NET_CONV) {
		lk_build_conv_stem(builder, false);
		scatter_end(builder, lk_sizes_embedding(builder->job));
		return;
	}
	if (builder->model->network == LK_NET_DIFFUSION) {
		lk_build_dit_stem(builder, false);
		scatter_end(builder, lk_sizes_embedding(builder->job));
		return;
	}
	lk_build_streams_embed(builder, false);
	if (builder->model->embed_norm)
		lk_build_memory(builder, LK_OP_NORM, "embedding_norm_grad",
		                3 * lk_build_row_bytes(builder));
	if (builder->tp > 1 && builder->sp)
		lk_build_collective(builder, LK_OP_ALLGATHER, LK_STREAM_TP, LK_GROUP_TP,
		                    "gather_embedding_grad", out, false);
	if (builder->model->project.width[0] > 0) /* pixels need no gradient */
		lk_build_gemm(builder, "patch_weight_grad", builder->model->hidden,
		              lk_model_patch_inputs(builder->model), builder->tokens);
	else if (builder->model->audio.convs == 0)
		lk_build_memory(builder, LK_OP_EMBEDDING, "embedding_grad", 3 * out);
	if (builder->model->audio.convs > 0) lk_build_audio(builder, false);
	if (builder->model->audio.convs > 0 && builder->model->vocab > 0)
		lk_build_memory(builder, LK_OP_EMBEDDING, "embedding_grad", 3 * decoder_embedding(builder));
	lk_build_release(builder, lk_build_mask_bytes(builder), LK_OWN_ACTIVATIONS);
	scatter_end(builder, lk_sizes_embedding(builder->job));
}

/* Begins the block of a pass over `end`, "embedding" or "head". */
static void begin_end(lk_builder *builder, const char *end, lk_block_pass pass) {
	bool alone = pass == LK_BLOCK_FORWARD_ALONE, forward = pass == LK_BLOCK_FORWARD || alone;
	char name[32];
	builder->phase = forward ? LK_PHASE_FORWARD : LK_PHASE_BACKWARD;
	builder->pending = 0;
	snprintf(name, sizeof name, "%s %s%s", end, forward ? "forward" : "backward",
	         alone ? " alone" : "");
	lk_graph_begin_block(builder->graph, name);
}

lk_status lk_build_embedding(lk_builder *builder, lk_block_pass pass, uint32_t *block) {
	bool alone = pass == LK_BLOCK_FORWARD_ALONE, forward = pass == LK_BLOCK_FORWARD || alone;
	lk_build_stack(builder, false);
	if (!builder->embed_block[pass]) {
		begin_end(builder, "embedding", pass);
		if (forward) embedding_forward(builder);
		else ends_embedding_backward(builder);
		if (alone)
			lk_build_release(builder,
			                 lk_build_mask_bytes(builder) + lk_build_streams_kept(builder, false),
			                 LK_OWN_ACTIVATIONS);
		LK_TRY(lk_graph_end_block(builder->graph, block, builder->err));
		builder->embed_block[pass] = *block + 1;
	}
	*block = builder->embed_block[pass] - 1;
	return LK_OK;
}

/* ---- head ---- */

static double vocabulary(const lk_builder *builder) {
	return builder->job->padded_vocab / builder->tp;
}
static bool ends_fused_loss(const lk_builder *builder) {
	return builder->job->fused_cross_entropy == LK_ON;
}

/* Bytes per logit: most while the loss is computed, kept until the backward pass, most while its
 * gradient is. */
struct lk_logit_bytes {
	double forward, kept, backward;
};

/* Megatron-LM makes one fp32 copy, whose exponentials, softmax and gradient are written in place
 * (core/tensor_parallel/cross_entropy.py); its native fusion makes a second one. PyTorch's
 * cross_entropy makes a second one for the logarithm, which stays, and in the backward pass the
 * gradients of both, while the caller still holds the 16-bit logits; compiled it goes from 16 bits
 * to 16 bits. Transformer Engine's and Liger's kernels write the gradient over the logits. */
static struct lk_logit_bytes logit_bytes(const lk_builder *builder) {
	double narrow = builder->bytes;
	if (ends_fused_loss(builder) && !builder->job->native_loss_fusion)
		return (struct lk_logit_bytes){narrow, narrow, narrow};
	if (builder->job->compile) return (struct lk_logit_bytes){narrow, narrow, 2 * narrow};
	if (!lk_job_like_megatron(builder->job))
		return (struct lk_logit_bytes){narrow + 8, narrow + 4, narrow + 12};
	return (struct lk_logit_bytes){narrow + (ends_fused_loss(builder) ? 8 : 4), 4, narrow + 4};
}

/* Vocabulary-parallel cross-entropy: maximum, predicted logit and sum of exponentials are reduced
 * over TP. */
static void ends_loss(lk_builder *builder) {
	static const char *const names[] = {"loss_max", "loss_target", "loss_sum"};
	double logits = builder->tokens * vocabulary(builder);
	struct lk_logit_bytes each = logit_bytes(builder);
	lk_build_memory(builder, LK_OP_LOSS, "cross_entropy",
	                logits * (ends_fused_loss(builder) ? builder->bytes : builder->bytes + 4 * 4));
	lk_build_save(builder, logits * each.forward, LK_OWN_LOGITS);
	for (int i = 0; i < 3 && builder->tp > 1; i++)
		lk_build_collective(builder, LK_OP_ALLREDUCE, LK_STREAM_TP, LK_GROUP_TP, names[i],
		                    4 * builder->tokens, false);
	if (!ends_fused_loss(builder))
		lk_build_memory(builder, LK_OP_LOSS, "softmax_divide", logits * 8);
	lk_build_release(builder, logits * (each.forward - each.kept), LK_OWN_LOGITS);
}

/* Inputs of the final norm and of the product. */
static double head_saved(const lk_builder *builder) {
	int rows = (builder->model->final_norm ? 2 : 1) +
	           (builder->model->head_transform ? 3 : 0); /* dense, activation, norm */
	return rows * lk_build_row_bytes(builder);
}

/* Whether the last product is over the vocabulary: not of an encoder of texts that are compared. */
static bool predicts_words(const lk_model *model) {
	return model->vocab > 0 && !model->tower.apart;
}

static void head_forward(lk_builder *builder) {
	const lk_model *model = builder->model;
	gather_end(builder, lk_sizes_head(builder->job));
	if (model->network == LK_NET_CONV) {
		lk_build_conv_head(builder, true);
		return;
	}
	if (model->network == LK_NET_DIFFUSION) {
		lk_build_dit_head(builder, true);
		return;
	}
	if (predicts_words(model) && gathered_head(builder) > 0)
		lk_build_save(builder, gathered_head(builder), LK_OWN_BUFFERS);
	lk_build_streams_join(builder, true);
	if (model->final_norm)
		lk_build_memory(builder, LK_OP_NORM, "final_norm", 2 * lk_build_row_bytes(builder));
	if (model->pooler)
		lk_build_gemm(builder, "pooler", builder->batch, model->hidden, model->hidden);
	if (model->project.width[0] > 0) lk_build_projector(builder, true);
	if (!predicts_words(model)) return;
	lk_build_tp_enter(builder, "gather_head_input");
	lk_build_gemm(builder, "lm_head", builder->tokens, vocabulary(builder), model->hidden);
	lk_build_save(builder, head_saved(builder), LK_OWN_ACTIVATIONS);
	ends_loss(builder);
	if (builder->job->teacher) /* both distributions */
		lk_build_memory(builder, LK_OP_LOSS, "distillation",
		                2 * builder->bytes * builder->tokens * vocabulary(builder));
}

static void head_backward(lk_builder *builder) {
	const lk_model *model = builder->model;
	if (model->network == LK_NET_CONV) {
		lk_build_conv_head(builder, false);
		scatter_end(builder, lk_sizes_head(builder->job));
		return;
	}
	if (model->network == LK_NET_DIFFUSION) {
		lk_build_dit_head(builder, false);
		scatter_end(builder, lk_sizes_head(builder->job));
		return;
	}
	if (predicts_words(model)) {
		double logits = builder->tokens * vocabulary(builder);
		struct lk_logit_bytes each = logit_bytes(builder);
		if (builder->job->teacher) /* reads both, adds to the gradient */
			lk_build_memory(builder, LK_OP_LOSS, "distillation_grad", 3 * builder->bytes * logits);
		lk_build_memory(builder, LK_OP_LOSS, "cross_entropy_grad",
		                logits *
		                    (ends_fused_loss(builder) ? 2 * builder->bytes : 8 + builder->bytes));
		lk_build_save(builder, logits * (each.backward - each.kept), LK_OWN_LOGITS);
		lk_build_release(builder, logits * (each.backward - builder->bytes), LK_OWN_LOGITS);
		lk_build_column_backward(builder, "lm_head_grad", vocabulary(builder), model->hidden, true,
		                         builder->train_base);
		lk_build_release(builder, logits * builder->bytes, LK_OWN_LOGITS);
	}
	if (model->project.width[0] > 0) lk_build_projector(builder, false);
	if (model->final_norm && !builder->frozen)
		lk_build_memory(builder, LK_OP_NORM, "final_norm_grad", 3 * lk_build_row_bytes(builder));
	if (predicts_words(model)) lk_build_release(builder, head_saved(builder), LK_OWN_ACTIVATIONS);
	lk_build_streams_join(builder, false);
	if (builder->train_base) scatter_end(builder, lk_sizes_head(builder->job));
	if (predicts_words(model) && gathered_head(builder) > 0)
		lk_build_release(builder, gathered_head(builder), LK_OWN_BUFFERS);
}

/* A reference network's logits and inputs go when the probabilities of the tokens are known. */
static void head_alone(lk_builder *builder) {
	head_forward(builder);
	lk_build_release(builder, builder->tokens * vocabulary(builder) * logit_bytes(builder).kept,
	                 LK_OWN_LOGITS);
	lk_build_release(builder, head_saved(builder) + lk_build_streams_kept(builder, true),
	                 LK_OWN_ACTIVATIONS);
	if (gathered_head(builder) > 0)
		lk_build_release(builder, gathered_head(builder), LK_OWN_BUFFERS);
}

/* A multi-token prediction module is one more layer with its own pass through the head; the builder
 * runs the head once more for each (DeepSeek-V3 report, section 2.2). */
lk_status lk_build_head(lk_builder *builder, lk_block_pass pass, uint32_t *block) {
	bool alone = pass == LK_BLOCK_FORWARD_ALONE, forward = pass == LK_BLOCK_FORWARD || alone;
	double tokens;
	lk_build_stack(builder, true);
	tokens = builder->tokens;
	if (builder->job->logit_share > 0) builder->tokens *= builder->job->logit_share;
	if (!builder->head_block[pass]) {
		begin_end(builder, "head", pass);
		if (alone) head_alone(builder);
		else if (forward) head_forward(builder);
		else head_backward(builder);
		LK_TRY(lk_graph_end_block(builder->graph, block, builder->err));
		builder->head_block[pass] = *block + 1;
	}
	builder->tokens = tokens;
	*block = builder->head_block[pass] - 1;
	return LK_OK;
}
