/* build_layer.c: the blocks of a transformer layer, one for each kind of layer and pass, built when first asked for. */
#include <stdio.h>

#include "model/build/build.h"
#include "model/layout/job.h"

static bool same_shape(const lk_layer_shape *a, const lk_layer_shape *b) {
	return a->moe == b->moe && a->cross == b->cross && a->causal == b->causal && a->window == b->window &&
	       a->unit == b->unit;
}

static double sequence(const lk_builder *b) {
	const lk_model *m = b->model;
	if (m->image > 0 && m->patch > 0) return (double)(m->image / m->patch) * (m->image / m->patch) + 1;
	return b->job->seq;
}

static double decoder_sequence(const lk_builder *b) {
	return b->model->network == LK_NET_ENCDEC && b->job->decoder_seq > 0 ? b->job->decoder_seq : sequence(b);
}

void lk_build_stack(lk_builder *b, bool decoder) {
	b->memory_tokens = b->job->mbs * sequence(b) / b->job->cp;
	b->tokens = decoder ? b->job->mbs * decoder_sequence(b) / b->job->cp : b->memory_tokens;
	b->rows = b->sp ? b->tokens / b->tp : b->tokens;
}

static int shape_index(lk_builder *b, int layer) {
	const lk_model *m = b->model;
	bool decoder = m->network == LK_NET_DECODER || (m->network == LK_NET_ENCDEC && layer >= m->layers);
	lk_layer_shape shape = {
		.moe = lk_model_is_moe(m, layer),
		.cross = m->network == LK_NET_ENCDEC && decoder,
		.causal = decoder,
		.window = lk_model_window(m, layer),
		.unit = m->network == LK_NET_CONV ? 1 + lk_convnet_unit(m, layer).kind : 0,
		.queries = (decoder ? decoder_sequence(b) : sequence(b)) / b->job->cp,
		.keys = decoder ? decoder_sequence(b) : sequence(b),
	};
	for (int i = 0; i < b->shape_count; i++)
		if (same_shape(&b->shapes[i], &shape)) return i;
	if (b->shape_count == LK_LAYER_SHAPES) return LK_LAYER_SHAPES - 1;
	b->shapes[b->shape_count] = shape;
	return b->shape_count++;
}

/* Cross-attention: every query sees the whole of the encoder's output. */
static lk_layer_shape across(const lk_builder *b, const lk_layer_shape *shape) {
	lk_layer_shape cross = *shape;
	cross.keys = sequence(b);
	cross.causal = false;
	cross.window = 0;
	return cross;
}

static void forward(lk_builder *b, const lk_layer_shape *shape) {
	lk_layer_shape cross = across(b, shape);
	lk_build_attention_forward(b, shape, false);
	if (shape->cross) lk_build_attention_forward(b, &cross, true);
	if (shape->moe)
		lk_build_moe_forward(b);
	else
		lk_build_mlp_forward(b, shape);
}

/* Selective recomputation outside Megatron-LM (torchtitan's per-operation policy): attention is kept, every second
 * matrix product and all that is cheap is done again. */
static void replay_selected(lk_builder *b, const lk_layer_shape *shape) {
	const lk_model *m = b->model;
	double row = b->bytes * b->rows * m->hidden, heads = (double)m->heads * m->head_dim / b->tp;
	double up = m->ffn / b->tp;
	uint8_t phase = b->phase;
	b->phase = LK_PHASE_RECOMPUTE;
	lk_build_memory(b, LK_OP_NORM, "input_norm", 2 * row);
	lk_build_memory(b, LK_OP_ELEMENTWISE, "rotary", 4 * b->bytes * b->tokens * heads);
	lk_build_gemm(b, "out_proj", b->tokens, m->hidden, heads);
	lk_build_memory(b, LK_OP_NORM, "post_norm", 2 * row);
	if (!shape->moe) {
		lk_build_gemm(b, "mlp_up", b->tokens, up, m->hidden);
		lk_build_memory(b, LK_OP_ELEMENTWISE, "activation", b->bytes * b->tokens * up * (m->gated ? 3 : 2));
	}
	b->phase = phase;
}

static void backward(lk_builder *b, const lk_layer_shape *shape, bool input, bool weight) {
	if (input && b->replays) replay_selected(b, shape);
	if (shape->moe)
		lk_build_moe_backward(b, input, weight);
	else
		lk_build_mlp_backward(b, shape, input, weight);
	lk_layer_shape cross = across(b, shape);
	if (shape->cross) lk_build_attention_backward(b, &cross, true, input, weight);
	lk_build_attention_backward(b, shape, false, input, weight);
}

/* Keeps only the layer's input of what the forward saved: the rest goes when the block ends. */
static void drop_saved(lk_builder *b) {
	double input = b->bytes * b->rows * b->model->hidden;
	lk_build_release(b, b->saved - input, LK_OWN_ACTIVATIONS);
}

/* Streams joined by an operation that never came would be lost between blocks; a WAIT keeps the order. */
static void settle(lk_builder *b) {
	if (!b->pending) return;
	lk_op op = {.kind = LK_OP_WAIT, .stream = LK_STREAM_COMPUTE, .phase = b->phase, .join = b->pending, .name = "wait"};
	b->pending = 0;
	lk_graph_add(b->graph, &op);
}

static const char *const pass_names[LK_BLOCK_PASSES] = {
	"forward",        "forward, checkpointed",      "backward",        "backward, recomputed",
	"input gradient", "input gradient, recomputed", "weight gradient",
};

/* Fully sharded parameters (ZeRO-3, FSDP): a layer waits for its own gathered weights, asks for the next layer's while
 * it computes, and scatters its gradients behind its backward. The order of layers does not matter here: each block
 * gathers as many bytes as it uses. */
static double gather_before(lk_builder *b, int layer, lk_block_pass pass) {
	bool backward = pass >= LK_BLOCK_BACKWARD;
	if (!lk_build_shards_layers(b->job) || pass == LK_BLOCK_WEIGHT_GRADIENT) return 0;
	if (backward && b->job->sharding == LK_SHARD_ZERO2) return 0; /* kept since the forward */
	lk_rank_params p = lk_sizes_layer(b->job, layer);
	lk_op wait = {
		.kind = LK_OP_WAIT, .stream = LK_STREAM_COMPUTE, .phase = b->phase, .wait = 1, .name = "wait_weights"};
	lk_graph_add(b->graph, &wait);
	lk_build_traffic(b, "gather_weights", LK_OP_ALLGATHER, b->bytes * p.dense, b->bytes * p.experts, true, true);
	if (b->job->sharding == LK_SHARD_ZERO2) return 0; /* the whole weights are resident there */
	double bytes = 2 * b->bytes * (p.dense + p.experts); /* its own and those of the layer that is fetched ahead */
	lk_build_save(b, bytes, LK_OWN_BUFFERS);
	b->saved -= bytes;
	return bytes;
}

static void scatter_behind(lk_builder *b, int layer, lk_block_pass pass, double gathered) {
	lk_rank_params p = lk_sizes_layer(b->job, layer);
	bool gradients =
		pass == LK_BLOCK_BACKWARD || pass == LK_BLOCK_BACKWARD_CHECKPOINT || pass == LK_BLOCK_WEIGHT_GRADIENT;
	double wire = lk_sizes_wire_bytes(b->job);
	if (gradients && lk_build_shards_layers(b->job) && p.trained_dense + p.trained_experts > 0) {
		lk_build_traffic(b, "scatter_gradients", LK_OP_REDUCESCATTER, wire * p.trained_dense, wire * p.trained_experts,
						 false, false);
		/* gradients as made and as sent */
		lk_build_scratch(b, (b->bytes + wire) * (p.trained_dense + p.trained_experts), LK_OWN_BUFFERS);
	}
	if (gathered > 0) {
		lk_op op = {.kind = LK_OP_WAIT,
					.stream = LK_STREAM_COMPUTE,
					.phase = b->phase,
					.name = "free_weights",
					.release = gathered,
					.release_owner = LK_OWN_BUFFERS};
		lk_graph_add(b->graph, &op);
	}
}

static void fill(lk_builder *b, const lk_layer_shape *shape, lk_block_pass pass) {
	bool weight = b->train_base;
	switch (pass) {
	case LK_BLOCK_FORWARD:
		forward(b, shape);
		break;
	case LK_BLOCK_FORWARD_CHECKPOINT:
		forward(b, shape);
		drop_saved(b);
		break;
	case LK_BLOCK_BACKWARD_CHECKPOINT:
	case LK_BLOCK_INPUT_GRADIENT_CHECKPOINT:
		b->phase = LK_PHASE_RECOMPUTE;
		forward(b, shape);
		b->phase = LK_PHASE_BACKWARD;
		backward(b, shape, true, weight && pass == LK_BLOCK_BACKWARD_CHECKPOINT);
		break;
	case LK_BLOCK_BACKWARD:
		backward(b, shape, true, weight);
		break;
	case LK_BLOCK_INPUT_GRADIENT:
		backward(b, shape, true, false);
		break;
	default: /* adapters have theirs in the backward pass */
		if (weight) backward(b, shape, false, true);
	}
	settle(b);
}

lk_status lk_build_layer(lk_builder *b, int layer, lk_block_pass pass, uint32_t *block) {
	int s = shape_index(b, layer);
	lk_build_stack(b, layer >= b->model->layers);
	if (!b->layer_block[s][pass]) {
		const lk_layer_shape *shape = &b->shapes[s];
		char name[96];
		snprintf(name, sizeof name, "layer %s%s%s%s", shape->moe ? "moe " : "", shape->cross ? "decoder " : "",
				 shape->window ? "windowed " : "", pass_names[pass]);
		bool first = pass == LK_BLOCK_FORWARD || pass == LK_BLOCK_FORWARD_CHECKPOINT;
		b->phase = first ? LK_PHASE_FORWARD : pass == LK_BLOCK_WEIGHT_GRADIENT ? LK_PHASE_WEIGHT : LK_PHASE_BACKWARD;
		b->saved = 0;
		b->pending = 0;
		lk_graph_begin_block(b->graph, name);
		double gathered = gather_before(b, layer, pass);
		if (shape->unit) lk_build_conv_layer(b, layer, pass);
		else fill(b, shape, pass);
		scatter_behind(b, layer, pass, gathered);
		LK_TRY(lk_graph_end_block(b->graph, block, b->err));
		b->layer_block[s][pass] = *block + 1;
	}
	*block = b->layer_block[s][pass] - 1;
	return LK_OK;
}
