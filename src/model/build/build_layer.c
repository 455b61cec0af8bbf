/* build_layer.c: the blocks of a transformer layer, one per kind of layer and pass, built on first
 * use. */
#include <stdio.h>
#include <string.h>

#include "model/build/build.h"
#include "model/layout/job.h"
#include "base/check.h"

static bool layer_same_shape(const lk_layer_shape *a, const lk_layer_shape *b) {
	return lk_layer_same(&a->layer, &b->layer) && a->cross == b->cross && a->unit == b->unit &&
	       a->wide == b->wide;
}

static double sequence(const lk_builder *builder) {
	double image = lk_model_image_tokens(builder->model);
	return image > 0 ? image : builder->job->seq;
}

static double decoder_sequence(const lk_builder *builder) {
	return builder->model->network == LK_NET_ENCDEC && builder->job->decoder_seq > 0
	           ? builder->job->decoder_seq
	           : sequence(builder);
}

void lk_build_stack(lk_builder *builder, bool decoder) {
	builder->memory_tokens = builder->job->mbs * sequence(builder) / builder->job->cp;
	builder->tokens = decoder ? builder->job->mbs * decoder_sequence(builder) / builder->job->cp
	                          : builder->memory_tokens;
	if (builder->model->tower.crossed)
		builder->memory_tokens = builder->job->mbs * lk_model_crossed_tokens(builder->model);
	builder->rows = builder->sp ? builder->tokens / builder->tp : builder->tokens;
}

static int shape_index(lk_builder *builder, int layer) {
	const lk_model *model = builder->model;
	bool decoder = model->network == LK_NET_DECODER ||
	               (model->network == LK_NET_ENCDEC && layer >= model->layers);
	double keys = decoder ? decoder_sequence(builder) : sequence(builder);
	lk_layer_shape shape = {
		.layer = lk_model_layer(model, layer),
		.cross = model->network == LK_NET_ENCDEC && decoder,
		.wide = lk_job_is_wide(builder->job, layer),
		.unit = model->network == LK_NET_CONV ? 1 + lk_convnet_unit(model, layer).kind : 0,
		.queries = keys / builder->job->cp,
		.keys = keys,
	};
	shape.across = shape.layer.across;
	if (shape.across) shape.keys = lk_model_crossed_tokens(model);
	for (int i = 0; i < builder->shape_count; i++)
		if (layer_same_shape(&builder->shapes[i], &shape)) return i;
	if (builder->shape_count == LK_LAYER_SHAPES) return LK_LAYER_SHAPES - 1;
	int new = builder->shape_count++;
	builder->shapes[new] = shape;
	memset(builder->layer_block[new], 0, sizeof builder->layer_block[new]);
	memset(builder->layer_kept[new], 0, sizeof builder->layer_kept[new]);
	return new;
}

static lk_layer_shape layer_across(const lk_builder *builder, const lk_layer_shape *shape) {
	lk_layer_shape cross = *shape;
	cross.keys = sequence(builder);
	cross.layer.causal = false;
	cross.layer.window = 0;
	cross.across = true;
	return cross;
}

static void layer_forward(lk_builder *builder, const lk_layer_shape *shape) {
	builder->ffn = lk_layer_ffn(builder->model, &shape->layer);
	lk_layer_shape cross = layer_across(builder, shape);
	if (shape->layer.dit) {
		lk_build_dit_block(builder, shape->layer.dit, true);
		return;
	}
	lk_build_streams_enter(builder);
	if (shape->layer.mixers) lk_build_mixers_forward(builder, shape);
	if (shape->cross) lk_build_mixers_forward(builder, &cross);
	if (shape->layer.ffn == LK_FFN_EXPERTS) lk_build_moe_forward(builder, shape);
	else if (shape->layer.ffn == LK_FFN_DENSE) lk_build_mlp_forward(builder, shape);
	lk_build_use_forward(builder, shape);
	lk_build_streams_leave(builder);
}

/* Selective recomputation outside Megatron-LM (torchtitan's per-operation policy): keep the mixers'
 * cores, rerun every second matrix product and all cheap operations. */
static void replay_selected(lk_builder *builder, const lk_layer_shape *shape) {
	const lk_model *model = builder->model;
	double row = builder->bytes * builder->rows * model->hidden,
		   heads = (double)model->heads * model->head_dim / builder->tp;
	double up = builder->ffn / builder->tp;
	uint8_t phase = builder->phase;
	builder->phase = LK_PHASE_RECOMPUTE;
	if (shape->layer.mixers) lk_build_memory(builder, LK_OP_NORM, "input_norm", 2 * row);
	if (shape->layer.mixers & LK_MIXER_ATTENTION) {
		lk_build_memory(builder, LK_OP_ELEMENTWISE, "rotary",
		                4 * builder->bytes * builder->tokens * heads);
		lk_build_gemm(builder, "out_proj", builder->tokens, model->hidden, heads);
	}
	if (shape->layer.ffn != LK_FFN_NONE) lk_build_memory(builder, LK_OP_NORM, "post_norm", 2 * row);
	if (shape->layer.ffn == LK_FFN_DENSE) {
		lk_build_gemm(builder, "mlp_up", builder->tokens, up, model->hidden);
		lk_build_memory(builder, LK_OP_ELEMENTWISE, "activation",
		                builder->bytes * builder->tokens * up * (model->gated ? 3 : 2));
	}
	builder->phase = phase;
}

static void layer_backward(lk_builder *builder, const lk_layer_shape *shape, bool input,
                           bool weight) {
	builder->ffn = lk_layer_ffn(builder->model, &shape->layer);
	if (shape->layer.dit) { /* these schedules never split the backward pass */
		lk_build_dit_block(builder, shape->layer.dit, false);
		return;
	}
	if (input && builder->replays) replay_selected(builder, shape);
	lk_build_streams_leave_backward(builder, input, weight);
	lk_build_use_backward(builder, shape, input, weight);
	if (shape->layer.ffn == LK_FFN_EXPERTS) lk_build_moe_backward(builder, input, weight);
	else if (shape->layer.ffn == LK_FFN_DENSE) lk_build_mlp_backward(builder, input, weight);
	lk_layer_shape cross = layer_across(builder, shape);
	if (shape->cross) lk_build_mixers_backward(builder, &cross, input, weight);
	if (shape->layer.mixers) lk_build_mixers_backward(builder, shape, input, weight);
	lk_build_streams_enter_backward(builder, input, weight);
}

/* Keep only the layer's input of what the forward saved: the rest is released at the end of the
 * block. */
static void drop_saved(lk_builder *builder) {
	double input = lk_build_stream_bytes(builder);
	lk_build_release(builder, builder->saved - input, LK_OWN_ACTIVATIONS);
}

static const char *const pass_names[LK_BLOCK_PASSES] = {
	"forward",
	"forward, checkpointed",
	"forward alone",
	"backward",
	"backward, recomputed",
	"input gradient",
	"input gradient, recomputed",
	"weight gradient",
};

static void layer_name(const lk_layer_shape *shape, lk_block_pass pass, char *out, size_t size) {
	const lk_layer *layer = &shape->layer;
	char mixers[64] = "";
	for (int i = 0; i < LK_MIXER_BUILDS; i++)
		if (layer->mixers & lk_mixer_builds[i].mixer)
			snprintf(mixers + strlen(mixers), sizeof mixers - strlen(mixers), "%s",
			         lk_mixer_builds[i].name);
	const char *block = lk_dit_block_name(layer->dit);
	const char *gap = *block ? " " : "", *experts = layer->ffn == LK_FFN_EXPERTS ? "moe " : "";
	const char *decoder = shape->cross ? "decoder " : "", *window = "";
	if (layer->window != 0) window = layer->chunked ? "chunked " : "windowed ";
	snprintf(out, size, "layer %s%s%s%s%s%s%s", block, gap, experts, decoder, mixers, window,
	         pass_names[pass]);
}

/* DeepSpeed's ZeRO-3 gathers parameters one by one where it cannot know which come next: those of
 * experts, which transformers runs in a loop. Its hooks before and after each cost host time, about
 * as much as in the one public run that tells (docs/method/step.md, "Experts in a loop"). FSDP
 * gathers whole layers. */
static void gather_one_by_one(lk_builder *builder, lk_block_pass pass) {
	static const double each_s = 1.5e-3;
	bool again = pass == LK_BLOCK_BACKWARD_CHECKPOINT || pass == LK_BLOCK_INPUT_GRADIENT_CHECKPOINT;
	const lk_job *job = builder->job;
	const lk_model *model = builder->model;
	if (!lk_job_uses_deepspeed(job) || !lk_job_runs_as_written(job)) return;
	double matrices = model->experts / (double)lk_job_ep(job) * (model->gated ? 3 : 2);
	lk_op op = {.kind = LK_OP_HOST,
	            .stream = LK_STREAM_HOST,
	            .phase = builder->phase,
	            .m = matrices * each_s * (again ? 2 : 1),
	            .name = "gather_experts_one_by_one"};
	lk_graph_add(builder->graph, &op);
}

/* Fully sharded parameters (ZeRO-3, FSDP): a layer waits for its own gathered weights, requests the
 * next layer's while it computes, and scatters its gradients after its backward. The order of
 * layers does not matter: each block gathers as many bytes as it uses. Where adapters are units,
 * its weights are requested when the layer before has ended. */
static double gather_before(lk_builder *builder, int layer, lk_block_pass pass) {
	bool backward = pass >= LK_BLOCK_BACKWARD;
	if (!lk_build_shards_layers(builder->job) || pass == LK_BLOCK_WEIGHT_GRADIENT) return 0;
	if (backward && builder->job->sharding == LK_SHARD_ZERO2) return 0; /* kept since the forward */
	double dense, experts;
	lk_sizes_layer_bytes(builder->job, layer, builder->bytes, &dense, &experts);
	bool late = lk_job_wraps_adapters(builder->job);
	lk_op wait = {.kind = LK_OP_WAIT,
	              .stream = LK_STREAM_COMPUTE,
	              .phase = builder->phase,
	              .wait = 1,
	              .name = "wait_weights"};
	if (!late) lk_graph_add(builder->graph, &wait);
	lk_build_traffic(builder, "gather_weights", LK_OP_ALLGATHER, dense, experts, !late, !late);
	if (late) lk_build_wait(builder, LK_STREAM_DP);
	if (builder->job->sharding == LK_SHARD_ZERO2)
		return 0; /* the whole weights are resident there */
	if (experts > 0) gather_one_by_one(builder, pass);
	double bytes = 2 * (dense + experts); /* its own and those of the layer being prefetched */
	lk_build_save(builder, bytes, LK_OWN_BUFFERS);
	builder->saved -= bytes;
	return bytes;
}

static void scatter_behind(lk_builder *builder, int layer, lk_block_pass pass, double gathered) {
	lk_rank_params p = lk_sizes_layer(builder->job, layer);
	bool gradients = pass == LK_BLOCK_BACKWARD || pass == LK_BLOCK_BACKWARD_CHECKPOINT ||
	                 pass == LK_BLOCK_WEIGHT_GRADIENT;
	double wire = lk_sizes_wire_bytes(builder->job);
	if (gradients && lk_build_shards_layers(builder->job) &&
	    p.trained_dense + p.trained_experts > 0) {
		lk_build_traffic(builder, "scatter_gradients", LK_OP_REDUCESCATTER, wire * p.trained_dense,
		                 wire * p.trained_experts, false, false);
		/* gradients as computed and as sent */
		lk_build_scratch(builder, (builder->bytes + wire) * (p.trained_dense + p.trained_experts),
		                 LK_OWN_BUFFERS);
	}
	if (gathered > 0) {
		lk_op op = {.kind = LK_OP_WAIT,
		            .stream = LK_STREAM_COMPUTE,
		            .phase = builder->phase,
		            .name = "free_weights",
		            .release = gathered,
		            .release_owner = LK_OWN_BUFFERS};
		lk_graph_add(builder->graph, &op);
	}
}

/* Ranks that share a matrix, or the experts of one kind. */
static double ranks_of(const lk_job *job, const lk_matrix *matrix) {
	if (matrix->expert) return (double)job->ep * job->etp;
	return matrix->cut == LK_CUT_NONE ? 1 : job->tp;
}

/* A frozen matrix in fewer bits is widened before a product that reads it, one at a time: read with
 * its factors, written in 16 bits (arXiv 2305.14314, equation 6). Experts of one kind are one
 * operation. */
static void widen_base(lk_builder *builder, int layer) {
	const lk_job *job = builder->job;
	lk_matrices list;
	lk_model_matrices(&job->model, layer, lk_job_like_megatron(job), &list);
	for (int i = 0; i < list.count; i++) {
		const lk_matrix *matrix = &list.at[i];
		if (matrix->expert && lk_base_of(job)->dense) continue;
		double times = matrix->expert ? 1 : matrix->count,
			   each = matrix->out * matrix->in * matrix->count / times / ranks_of(job, matrix);
		for (int k = 0; k < times; k++) {
			lk_build_memory(builder, LK_OP_ELEMENTWISE, "widen_weight",
			                each * (lk_base_bytes(job) + builder->bytes));
			lk_build_scratch(builder,
			                 builder->bytes * each / (matrix->expert ? matrix->count / job->ep : 1),
			                 LK_OWN_WORKSPACE);
		}
	}
}

/* Products of integers (arXiv 2208.07339, section 3; bitsandbytes, MatMul8bitLt): the input is
 * quantised by rows, and cast to fp16 before if it is in bf16; sums in int32 become fp16, and bf16
 * again. The product is priced as one in 16 bits, as are the few columns of outliers. */
static void quantise_inputs(lk_builder *builder, int layer) {
	const lk_job *job = builder->job;
	double cast = job->dtype == LK_FP16 ? 0 : 2 + 2;
	lk_matrices list;
	lk_model_matrices(&job->model, layer, lk_job_like_megatron(job), &list);
	for (int i = 0; i < list.count; i++) {
		const lk_matrix *matrix = &list.at[i];
		if (matrix->expert && lk_base_of(job)->dense) continue;
		double parts = ranks_of(job, matrix), times = matrix->expert ? 1 : matrix->count,
			   rows = builder->tokens * (matrix->expert ? job->model.topk : 1),
			   in = rows * matrix->in / (matrix->cut == LK_CUT_IN ? parts : 1),
			   out = rows * matrix->out / (matrix->cut == LK_CUT_OUT ? parts : 1);
		for (int k = 0; k < times; k++) {
			lk_build_memory(builder, LK_OP_ELEMENTWISE, "quantise_input", in * (2 + 1 + cast));
			/* the product writes 4 bytes instead of its own */
			lk_build_memory(builder, LK_OP_ELEMENTWISE, "rescale_sums",
			                out * (4 - builder->bytes + 4 + 2 + cast));
			lk_build_scratch(builder, in + out * (4 + 2), LK_OWN_WORKSPACE);
		}
	}
}

/* What reading a frozen base in fewer bits costs before the products of a pass. */
static void read_base(lk_builder *builder, int layer, lk_block_pass pass, bool again) {
	bool forward = pass < LK_BLOCK_BACKWARD, integers = lk_base_of(builder->job)->integers;
	if (!builder->job->narrow_base || pass == LK_BLOCK_WEIGHT_GRADIENT) return;
	if (integers && (forward || again)) quantise_inputs(builder, layer);
	if (!integers && again) widen_base(builder, layer);
	if (!integers || !forward) widen_base(builder, layer);
}

static void layer_fill(lk_builder *builder, const lk_layer_shape *shape, int layer,
                       lk_block_pass pass) {
	bool weight = builder->train_base;
	bool again = pass == LK_BLOCK_BACKWARD_CHECKPOINT || pass == LK_BLOCK_INPUT_GRADIENT_CHECKPOINT;
	read_base(builder, layer, pass, again);
	if (again || pass < LK_BLOCK_BACKWARD) lk_build_cast_weights(builder, layer, false);
	switch (pass) {
	case LK_BLOCK_FORWARD: layer_forward(builder, shape); break;
	case LK_BLOCK_FORWARD_CHECKPOINT:
		layer_forward(builder, shape);
		drop_saved(builder);
		break;
	case LK_BLOCK_FORWARD_ALONE:
		layer_forward(builder, shape);
		lk_build_release(builder, builder->saved, LK_OWN_ACTIVATIONS);
		break;
	case LK_BLOCK_BACKWARD_CHECKPOINT:
	case LK_BLOCK_INPUT_GRADIENT_CHECKPOINT:
		builder->phase = LK_PHASE_RECOMPUTE;
		layer_forward(builder, shape);
		builder->phase = LK_PHASE_BACKWARD;
		layer_backward(builder, shape, true, weight && pass == LK_BLOCK_BACKWARD_CHECKPOINT);
		break;
	case LK_BLOCK_BACKWARD: layer_backward(builder, shape, true, weight); break;
	case LK_BLOCK_INPUT_GRADIENT: layer_backward(builder, shape, true, false); break;
	default: /* adapters have theirs in the backward pass */
		if (weight) layer_backward(builder, shape, false, true);
	}
	bool input_alone =
		pass == LK_BLOCK_INPUT_GRADIENT || pass == LK_BLOCK_INPUT_GRADIENT_CHECKPOINT;
	if (pass >= LK_BLOCK_BACKWARD && !input_alone) {
		if (weight) lk_build_cast_weights(builder, layer, true);
		lk_build_gradients(builder, layer, lk_sizes_layer(builder->job, layer));
	}
	lk_build_settle(builder);
}

/* The forward pass whose activations a backward pass needs; false for other passes. */
static bool layer_forward_of(lk_block_pass pass, lk_block_pass *out) {
	*out = pass == LK_BLOCK_BACKWARD_CHECKPOINT ? LK_BLOCK_FORWARD_CHECKPOINT : LK_BLOCK_FORWARD;
	return pass == LK_BLOCK_BACKWARD || pass == LK_BLOCK_BACKWARD_CHECKPOINT;
}

/* What the forward pass kept for this backward pass; known once the forward block is built. */
static lk_status layer_kept_of(lk_builder *builder, int layer, int s, lk_block_pass pass,
                               double *kept) {
	lk_block_pass forward;
	uint32_t block;
	if (!builder->job->offload_activations || !layer_forward_of(pass, &forward)) return LK_OK;
	LK_TRY(lk_build_layer(builder, layer, forward, &block));
	*kept = builder->layer_kept[s][forward];
	return LK_OK;
}

static void keep_behind(lk_builder *builder, int s, lk_block_pass pass) {
	if (pass != LK_BLOCK_FORWARD && pass != LK_BLOCK_FORWARD_CHECKPOINT) return;
	builder->layer_kept[s][pass] = builder->saved;
	lk_build_keep_on_host(builder, builder->saved);
}

lk_status lk_build_layer(lk_builder *builder, int layer, lk_block_pass pass, uint32_t *block) {
	LK_ASSERT(layer >= 0 && pass < LK_BLOCK_PASSES);
	int s = shape_index(builder, layer);
	double kept = 0;
	if (!builder->layer_block[s][pass]) LK_TRY(layer_kept_of(builder, layer, s, pass, &kept));
	lk_build_stack(builder, layer >= builder->model->layers);
	if (!builder->layer_block[s][pass]) {
		const lk_layer_shape *shape = &builder->shapes[s];
		char name[96];
		layer_name(shape, pass, name, sizeof name);
		bool first = pass <= LK_BLOCK_FORWARD_ALONE;
		if (first) builder->phase = LK_PHASE_FORWARD;
		else if (pass == LK_BLOCK_WEIGHT_GRADIENT) builder->phase = LK_PHASE_WEIGHT;
		else builder->phase = LK_PHASE_BACKWARD;
		builder->saved = builder->layer_reads = 0;
		builder->pending = 0;
		lk_graph_begin_block(builder->graph, name);
		lk_build_fetch_kept(builder, kept);
		double gathered = gather_before(builder, layer, pass);
		const lk_job *job = builder->job;
		lk_job wide;
		if (shape->wide) {
			wide = *job;
			wide.dtype = LK_BF16;
			builder->job = &wide;
		}
		if (shape->unit) lk_build_conv_layer(builder, layer, pass);
		else layer_fill(builder, shape, layer, pass);
		builder->job = job;
		keep_behind(builder, s, pass);
		scatter_behind(builder, layer, pass, gathered);
		LK_TRY(lk_graph_end_block(builder->graph, block, builder->err));
		builder->layer_block[s][pass] = *block + 1;
		if (pass == LK_BLOCK_FORWARD) builder->layer_read[s] = builder->layer_reads;
	}
	if (pass == LK_BLOCK_FORWARD) builder->all_reads += builder->layer_read[s];
	*block = builder->layer_block[s][pass] - 1;
	return LK_OK;
}
