/* build_ends.c: operations before the first layer and after the last: embeddings (tokens,
 * positions, image patches), final norm and output head; build_loss.c has the loss. */
#include <stdio.h>
#include <string.h>

#include "model/build/build.h"
#include "model/layout/job.h"
#include "base/check.h"

/* Fully sharded parameters of an end: gathered before it runs, for its forward and its backward;
 * gradients scattered after. */
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

/* FSDP's root unit, which holds what no layer does, is not sharded again after the forward pass
 * (torch/distributed/fsdp/_runtime_utils.py, _root_pre_forward): where Hugging Face's networks are
 * wrapped by layers, the embedding is whole from its forward to its backward pass. */
static double gathered_embedding(const lk_builder *builder) {
	bool root = strcmp(builder->job->stack, "fsdp") == 0 && lk_job_tokens(builder->job) > 0;
	if (!root || gathered_head(builder) <= 0) return 0;
	return builder->bytes * lk_sizes_embedding(builder->job).dense;
}

static void scatter_end(lk_builder *builder, lk_rank_params p) {
	if (builder->job->sharding < LK_SHARD_ZERO2 || lk_sizes_dp_ranks(builder->job) <= 1) return;
	double wire = lk_sizes_wire_bytes(builder->job);
	lk_build_traffic(builder, "scatter_gradients", LK_OP_REDUCESCATTER, wire * p.trained_dense, 0,
	                 false, false);
	/* gradients as computed and as sent */
	lk_build_scratch(builder, (builder->bytes + wire) * p.trained_dense, LK_OWN_BUFFERS);
}

/* Bytes of the decoder's embedded tokens, in a network with an audio encoder. */
static double decoder_embedding(lk_builder *builder) {
	lk_build_stack(builder, true);
	double out = builder->bytes * builder->tokens * builder->model->hidden;
	lk_build_stack(builder, false);
	return out;
}

static void embedding_forward(lk_builder *builder) {
	const lk_model *model = builder->model;
	gather_end(builder, lk_sizes_embedding(builder->job));
	if (gathered_embedding(builder) > 0) {
		lk_build_save(builder, gathered_embedding(builder), LK_OWN_BUFFERS);
		builder->saved -= gathered_embedding(builder);
	}
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

/* With updates in the backward pass: a rank's parameters of the matrix that the embedding shares
 * with the head, whose gradient is complete only at the embedding; 0: none. */
static double shared_parameters(const lk_job *job) {
	double dense, experts;
	if (!job->optimizer_in_backward || !job->model.tied || job->task == LK_TASK_LORA) return 0;
	lk_sizes_shards(job, &dense, &experts);
	double whole = (double)job->padded_vocab * job->model.hidden / job->tp;
	return job->sharding == LK_SHARD_ZERO3 ? whole / dense : whole;
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
	double shared = shared_parameters(builder->job);
	if (shared > 0) {
		lk_build_scratch(builder, lk_build_update_scratch(builder->job, shared), LK_OWN_WORKSPACE);
		lk_build_release(builder, lk_sizes_shard_gradient_bytes(builder->job) * shared,
		                 LK_OWN_GRADIENTS);
	} else lk_build_gradients(builder, -1, lk_sizes_embedding(builder->job));
}

/* Begin the block of a pass over `end`, "embedding" or "head". */
static void begin_end(lk_builder *builder, const char *end, lk_block_pass pass) {
	bool alone = pass == LK_BLOCK_FORWARD_ALONE, forward = pass == LK_BLOCK_FORWARD || alone;
	char name[32];
	builder->phase = forward ? LK_PHASE_FORWARD : LK_PHASE_BACKWARD;
	builder->pending = 0;
	const char *direction = forward ? "forward" : "backward";
	snprintf(name, sizeof name, "%s %s%s", end, direction, alone ? " alone" : "");
	lk_graph_begin_block(builder->graph, name);
}

lk_status lk_build_embedding(lk_builder *builder, lk_block_pass pass, uint32_t *block) {
	LK_ASSERT(pass < LK_BLOCK_PASSES);
	bool alone = pass == LK_BLOCK_FORWARD_ALONE, forward = pass == LK_BLOCK_FORWARD || alone;
	lk_build_stack(builder, false);
	if (!builder->embed_block[pass]) {
		begin_end(builder, "embedding", pass);
		if (forward) embedding_forward(builder);
		else ends_embedding_backward(builder);
		lk_build_settle(builder);
		if ((alone || !forward) && gathered_embedding(builder) > 0)
			lk_build_release(builder, gathered_embedding(builder), LK_OWN_BUFFERS);
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

/* Inputs of the final norm and of the product. */
static double head_saved(const lk_builder *builder) {
	double elements = builder->rows * builder->model->hidden,
		   norm = builder->model->final_norm ? lk_build_norm_held(builder, elements) : 0;
	return norm + lk_build_row_bytes(builder) *
	                  (builder->model->head_transform ? 4 : 1); /* dense, activation, norm */
}

/* Whether the last product is over the vocabulary: not in a text encoder trained by comparison. */
static bool predicts_words(const lk_model *model) {
	return model->vocab > 0 && !model->tower.apart;
}

/* A classifier's head: decoders score every token, as transformers' ForSequenceClassification does
 * before it takes the last one's; encoders score one vector a
 * sequence, from a dense layer. */
static double scored_rows(const lk_builder *builder) {
	return builder->model->network == LK_NET_DECODER ? builder->tokens : builder->batch;
}

static void score_forward(lk_builder *builder) {
	lk_build_gemm(builder, "score", scored_rows(builder), builder->job->labels,
	              builder->model->hidden);
	lk_build_save(builder, head_saved(builder), LK_OWN_ACTIVATIONS);
	if (builder->job->value_head) lk_build_loss_unread(builder);
}

static void score_backward(lk_builder *builder) {
	double tokens = builder->tokens;
	builder->tokens = scored_rows(builder);
	lk_build_column_backward(builder, "score_grad", builder->job->labels, builder->model->hidden,
	                         true, true);
	builder->tokens = tokens;
}

/* The job whose products over the vocabulary stay in 16 bits when those of layers have fewer:
 * Megatron-Core's output_layer is no layer of Transformer Engine, torchtitan's configurations
 * filter "output" from float8, DeepSeek-V3 keeps its head (arXiv 2412.19437, 3.3.1). */
static lk_job head_job(const lk_job *job) {
	lk_job own = *job;
	if (job->dtype >= LK_FP8) own.dtype = LK_BF16;
	return own;
}

static void head_forward(lk_builder *builder, bool learns) {
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
	if (model->final_norm) lk_build_norm(builder, "final_norm", builder->rows * model->hidden, 1);
	if (model->pooler)
		lk_build_gemm(builder, "pooler", builder->batch, model->hidden, model->hidden);
	if (model->project.width[0] > 0) lk_build_projector(builder, true);
	if (!predicts_words(model)) return;
	const lk_job *job = builder->job;
	lk_job own = head_job(job);
	builder->job = &own;
	lk_build_tp_enter(builder, "gather_head_input");
	if (own.labels > 0) score_forward(builder);
	else lk_build_loss_forward(builder, head_saved(builder), learns);
	builder->job = job;
	if (learns) lk_build_release(builder, builder->all_reads, LK_OWN_ACTIVATIONS);
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
	const lk_job *job = builder->job;
	lk_job own = head_job(job);
	builder->job = &own;
	if (own.labels > 0) score_backward(builder);
	else if (predicts_words(model)) lk_build_loss_backward(builder);
	builder->job = job;
	if (model->project.width[0] > 0) lk_build_projector(builder, false);
	if (model->final_norm && !builder->frozen)
		lk_build_memory(builder, LK_OP_NORM, "final_norm_grad", 3 * lk_build_row_bytes(builder));
	if (predicts_words(model)) lk_build_release(builder, head_saved(builder), LK_OWN_ACTIVATIONS);
	lk_build_streams_join(builder, false);
	if (builder->train_base) scatter_end(builder, lk_sizes_head(builder->job));
	lk_build_gradients(builder, -1, lk_sizes_head(builder->job));
	double shared = shared_parameters(builder->job);
	if (shared > 0)
		lk_build_save(builder, lk_sizes_shard_gradient_bytes(builder->job) * shared,
		              LK_OWN_GRADIENTS);
	if (predicts_words(model) && gathered_head(builder) > 0)
		lk_build_release(builder, gathered_head(builder), LK_OWN_BUFFERS);
}

/* A reference network's logits and inputs are released once the tokens' probabilities are known. */
static void head_alone(lk_builder *builder) {
	head_forward(builder, false);
	if (builder->job->labels == 0) lk_build_loss_drop(builder);
	lk_build_release(builder, head_saved(builder) + lk_build_streams_kept(builder, true),
	                 LK_OWN_ACTIVATIONS);
	if (gathered_head(builder) > 0)
		lk_build_release(builder, gathered_head(builder), LK_OWN_BUFFERS);
}

/* A multi-token prediction module is a layer with its own pass through the head; the builder runs
 * the head once more per module (DeepSeek-V3 report, section 2.2). */
lk_status lk_build_head(lk_builder *builder, lk_block_pass pass, uint32_t *block) {
	LK_ASSERT(pass < LK_BLOCK_PASSES);
	bool alone = pass == LK_BLOCK_FORWARD_ALONE, forward = pass == LK_BLOCK_FORWARD || alone;
	double tokens;
	lk_build_stack(builder, true);
	tokens = builder->tokens;
	if (builder->job->logit_share > 0) builder->tokens *= builder->job->logit_share;
	if (!builder->head_block[pass]) {
		begin_end(builder, "head", pass);
		if (alone) head_alone(builder);
		else if (forward) head_forward(builder, true);
		else head_backward(builder);
		lk_build_settle(builder);
		LK_TRY(lk_graph_end_block(builder->graph, block, builder->err));
		builder->head_block[pass] = *block + 1;
	}
	builder->tokens = tokens;
	*block = builder->head_block[pass] - 1;
	return LK_OK;
}
