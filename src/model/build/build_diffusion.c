/* build_diffusion.c: a block, the stem and the head of a diffusion transformer
 * (model/network/diffusion.c states their parts). A block is two halves for each of its streams:
 * norm, adaLN's scale and shift, products, adaLN's gate and the residual sum. Tensor parallelism
 * splits heads and the MLP's width and leaves adaLN whole on every rank; context parallelism splits
 * the tokens of both streams and exchanges tokens for heads around joint attention (arXiv
 * 2309.14509). Every rank computes keys and values of the text that is attended to.
 *
 * Kept of a stream and half: its input, adaLN's output, the output that the gate scales; of
 * attention q, k, v, what their norms read, the output, log-sum-exp; of the MLP 4 d twice. */
#include "model/build/build.h"
#include "base/check.h"
#include "model/layout/job.h"

/* Set the tokens of a stream on this rank while its operations are added. */
struct dit_tokens {
	double image, text, joint; /* of a micro-batch on this rank; both together */
	double text_whole;         /* of all ranks of context parallelism */
};

static struct dit_tokens dit_tokens_of(const lk_builder *builder) {
	const lk_job *job = builder->job;
	double whole = (double)job->mbs * builder->model->dit.text_tokens, text = whole / job->cp,
		   joint = (double)job->mbs * job->seq / job->cp;
	return (struct dit_tokens){joint - text, text, joint, whole};
}

static void dit_take(lk_builder *builder, double tokens) {
	builder->tokens = tokens;
	builder->rows = builder->sp ? tokens / builder->tp : tokens;
}

static double dit_inner(const lk_builder *builder) {
	return builder->model->ffn / builder->tp;
}

static void dit_memory(lk_builder *builder, unsigned kind, const char *name, double passes) {
	lk_build_memory(builder, kind, name, passes * lk_build_row_bytes(builder));
}

/* ---- adaLN: one product per sample of its conditioning ---- */

static void dit_modulation(lk_builder *builder, lk_dit_stream stream, bool forward) {
	const lk_model *model = builder->model;
	double in = model->dit.step_width > 0 ? model->dit.step_width : model->hidden,
		   out = (double)stream.modulation * model->hidden;
	if (out == 0) return;
	if (forward) {
		lk_build_gemm(builder, "modulation", builder->batch, out, in);
		return;
	}
	lk_build_gemm(builder, "modulation_grad", builder->batch, in, out);
	lk_build_gemm(builder, "modulation_weight_grad", out, in, builder->batch);
}

/* The norm; a compiler fuses it with scale and shift. */
static void dit_norm(lk_builder *builder, bool forward) {
	bool compiled = builder->job->compile;
	if (forward) dit_memory(builder, LK_OP_NORM, "norm", 2);
	else dit_memory(builder, LK_OP_NORM, "norm_grad", 3);
	if (!compiled && forward) dit_memory(builder, LK_OP_ELEMENTWISE, "scale_shift", 2);
	if (!compiled && !forward) dit_memory(builder, LK_OP_ELEMENTWISE, "scale_shift_grad", 4);
	if (forward) lk_build_quantize_normed(builder);
}

/* The gate and the residual sum; backward, the gradients of the gate and of its operand. */
static void dit_gate(lk_builder *builder, bool forward) {
	if (forward) dit_memory(builder, LK_OP_ELEMENTWISE, "gate_residual", 3);
	else dit_memory(builder, LK_OP_ELEMENTWISE, "gate_grad", 4);
}

/* Input, adaLN's output, the gate's operand. */
static double half_saved(const lk_builder *builder) {
	return 2 * lk_build_row_bytes(builder) +
	       lk_build_kept_bytes(builder, builder->rows * builder->model->hidden);
}

/* Saved for the first half of a block: a recomputed block already has its input. */
static double first_saved(const lk_builder *builder) {
	bool held = builder->phase == LK_PHASE_RECOMPUTE;
	return half_saved(builder) - (held ? lk_build_row_bytes(builder) : 0);
}

/* ---- attention ---- */

/* Columns of projections on this rank: all of them, and those with norms and positions (not
 * values). */
struct dit_columns {
	double all, turned;
};

/* For `count` projections: q, k and v; k and v; q. */
static struct dit_columns columns_of(const lk_builder *builder, int count) {
	const lk_model *model = builder->model;
	LK_ASSERT(count >= 1 && count <= 3);
	double queries = lk_build_hidden_share(builder),
		   keys = (double)model->kv_heads * model->head_dim / builder->tp;
	if (count == 2) queries = 0;
	if (count == 1) keys = 0;
	return (struct dit_columns){queries + 2 * keys, queries + keys};
}

/* Outputs, and what their norms read. */
static double projected_saved(const lk_builder *builder, struct dit_columns columns) {
	double normed = builder->model->qk_norm ? columns.turned : 0;
	return builder->bytes * builder->tokens * (columns.all + normed);
}

static void project_in(lk_builder *builder, const char *name, int count) {
	struct dit_columns columns = columns_of(builder, count);
	lk_build_gemm(builder, name, builder->tokens, columns.all, builder->model->hidden);
	double each = builder->bytes * builder->tokens * columns.turned;
	if (builder->model->qk_norm) lk_build_memory(builder, LK_OP_NORM, "qk_norm", 2 * each);
	lk_build_memory(builder, LK_OP_ELEMENTWISE, "rotary", 2 * each);
	lk_build_save(builder, projected_saved(builder, columns), LK_OWN_ACTIVATIONS);
}

static void project_in_backward(lk_builder *builder, const char *name, int count) {
	struct dit_columns columns = columns_of(builder, count);
	double each = builder->bytes * builder->tokens * columns.turned;
	lk_build_memory(builder, LK_OP_ELEMENTWISE, "rotary_grad", 2 * each);
	if (builder->model->qk_norm) lk_build_memory(builder, LK_OP_NORM, "qk_norm_grad", 3 * each);
	lk_build_release(builder, projected_saved(builder, columns), LK_OWN_ACTIVATIONS);
	if (!builder->model->dit.plain)
		lk_build_bias_grad(builder, "qkv_bias_grad", builder->tokens, columns.all);
	lk_build_column_backward(builder, name, columns.all, builder->model->hidden, true, true);
}

/* Heads of this rank and the tokens that each sees, whole samples; output and log-sum-exp are
 * kept. */
static void dit_core(lk_builder *builder, double queries, double keys, bool split, bool forward) {
	LK_ASSERT(queries >= 0 && keys >= 0);
	const lk_job *job = builder->job;
	double cp = split ? job->cp : 1, wide = lk_build_hidden_share(builder) / cp,
		   heads = builder->model->heads / builder->tp / cp, mbs = job->mbs,
		   saved = mbs * queries * (builder->bytes * wide + 4 * heads);
	if (split) lk_build_cp_heads(builder, "exchange_qkv", columns_of(builder, 3).all);
	lk_op op = {
		.kind = LK_OP_ATTENTION,
		.dtype = lk_build_core_format(builder),
		.stream = LK_STREAM_COMPUTE,
		.phase = builder->phase,
		.join = builder->pending,
		.name = "attention",
		.m = queries,
		.n = keys,
		.k = builder->model->head_dim,
		.batch = mbs * heads,
		.flops = 4 * mbs * queries * keys * wide,
		.bytes = builder->bytes * mbs * 2 * (queries + keys) * wide,
	};
	if (!forward) {
		op.kind = LK_OP_ATTENTION_BWD;
		op.name = "attention_grad";
		op.flops *= 2.5;
		op.bytes *= 3;
	}
	builder->pending = 0;
	lk_graph_add(builder->graph, &op);
	if (forward) {
		lk_build_save(builder, saved, LK_OWN_ACTIVATIONS);
	} else {
		/* gradients of q, k, v, that of q in fp32 */
		lk_build_scratch(builder,
		                 mbs * wide * (queries * (builder->bytes + 4) + 2 * keys * builder->bytes),
		                 LK_OWN_WORKSPACE);
		lk_build_release(builder, saved, LK_OWN_ACTIVATIONS);
	}
	if (split) lk_build_cp_heads(builder, "exchange_heads", lk_build_hidden_share(builder));
}

static void project_out(lk_builder *builder, const char *name, double width, bool forward) {
	double d = builder->model->hidden;
	if (forward) {
		lk_build_quantize(builder, builder->tokens * width);
		lk_build_gemm(builder, name, builder->tokens, d, width);
		lk_build_tp_leave(builder, "reduce_output");
		return;
	}
	lk_build_tp_leave_backward(builder, "gather_output_grad");
	if (!builder->model->dit.plain) lk_build_bias_grad(builder, "out_bias_grad", builder->rows, d);
	lk_build_row_backward(builder, name, d, width, true, true);
}

/* ---- halves of a stream ---- */

static void attention_begin(lk_builder *builder, bool forward) {
	if (forward) {
		dit_norm(builder, true);
		lk_build_tp_enter(builder, "gather_attention_input");
		project_in(builder, "qkv_proj", 3);
		return;
	}
	project_in_backward(builder, "qkv_proj_grad", 3);
	dit_norm(builder, false);
}

/* A norm of a half's output, in blocks with four norms. */
static void post_norm(lk_builder *builder, bool forward) {
	if (builder->model->norms_per_layer < 4) return;
	if (forward) dit_memory(builder, LK_OP_NORM, "post_norm", 2);
	else dit_memory(builder, LK_OP_NORM, "post_norm_grad", 3);
}

static void attention_end(lk_builder *builder, bool forward) {
	if (forward) {
		project_out(builder, "out_proj", lk_build_hidden_share(builder), true);
		post_norm(builder, true);
		dit_gate(builder, true);
		lk_build_save(builder, first_saved(builder), LK_OWN_ACTIVATIONS);
		return;
	}
	dit_gate(builder, false);
	post_norm(builder, false);
	lk_build_release(builder, first_saved(builder), LK_OWN_ACTIVATIONS);
	project_out(builder, "out_proj_grad", lk_build_hidden_share(builder), false);
}

/* Input products of the MLP: two with a gate. */
static int mlp_inputs(const lk_builder *builder) {
	return builder->model->gated ? 2 : 1;
}

static double activation_saved(const lk_builder *builder) {
	double elements = builder->tokens * dit_inner(builder);
	return mlp_inputs(builder) * builder->bytes * elements + lk_build_kept_bytes(builder, elements);
}

static void mlp_in(lk_builder *builder, bool forward) {
	double inner = dit_inner(builder), bytes = builder->bytes * builder->tokens * inner,
		   inputs = mlp_inputs(builder), columns = inputs * inner;
	if (forward) {
		lk_build_gemm(builder, "mlp_up", builder->tokens, columns, builder->model->hidden);
		lk_build_memory(builder, LK_OP_ELEMENTWISE, "activation", (inputs + 1) * bytes);
		lk_build_save(builder, activation_saved(builder), LK_OWN_ACTIVATIONS);
		return;
	}
	lk_build_memory(builder, LK_OP_ELEMENTWISE, "activation_grad", (2 * inputs + 1) * bytes);
	lk_build_release(builder, activation_saved(builder), LK_OWN_ACTIVATIONS);
	if (!builder->model->dit.plain)
		lk_build_bias_grad(builder, "mlp_up_bias_grad", builder->tokens, columns);
	lk_build_column_backward(builder, "mlp_up_grad", columns, builder->model->hidden, true, true);
}

static void mlp_half(lk_builder *builder, bool forward) {
	if (forward) {
		dit_norm(builder, true);
		lk_build_tp_enter(builder, "gather_mlp_input");
		mlp_in(builder, true);
		project_out(builder, "mlp_down", dit_inner(builder), true);
		post_norm(builder, true);
		dit_gate(builder, true);
		lk_build_save(builder, half_saved(builder), LK_OWN_ACTIVATIONS);
		return;
	}
	dit_gate(builder, false);
	post_norm(builder, false);
	lk_build_release(builder, half_saved(builder), LK_OWN_ACTIVATIONS);
	project_out(builder, "mlp_down_grad", dit_inner(builder), false);
	mlp_in(builder, false);
	dit_norm(builder, false);
}

/* ---- blocks ---- */

/* One or two streams with joint attention. */
static void streams_forward(lk_builder *builder, const lk_dit_unit *unit, double keys) {
	struct dit_tokens tokens = dit_tokens_of(builder);
	const lk_dit_stream streams[] = {unit->image, unit->text};
	const double counts[] = {tokens.image, tokens.text};
	double joint = 0;
	for (int i = 0; i < 2; i++) {
		if (!streams[i].used) continue;
		dit_take(builder, counts[i]);
		dit_modulation(builder, streams[i], true);
		attention_begin(builder, true);
		joint += counts[i];
	}
	dit_take(builder, joint);
	dit_core(builder, keys, keys, true, true);
	for (int i = 0; i < 2; i++) {
		if (!streams[i].used) continue;
		dit_take(builder, counts[i]);
		if (streams[i].out) attention_end(builder, true);
		else lk_build_save(builder, first_saved(builder), LK_OWN_ACTIVATIONS);
		if (streams[i].mlp) mlp_half(builder, true);
	}
}

static void streams_backward(lk_builder *builder, const lk_dit_unit *unit, double keys) {
	struct dit_tokens tokens = dit_tokens_of(builder);
	const lk_dit_stream streams[] = {unit->image, unit->text};
	const double counts[] = {tokens.image, tokens.text};
	double joint = 0;
	for (int i = 1; i >= 0; i--) {
		if (!streams[i].used) continue;
		dit_take(builder, counts[i]);
		if (streams[i].mlp) mlp_half(builder, false);
		if (streams[i].out) attention_end(builder, false);
		else lk_build_release(builder, first_saved(builder), LK_OWN_ACTIVATIONS);
		joint += counts[i];
	}
	dit_take(builder, joint);
	dit_core(builder, keys, keys, true, false);
	for (int i = 1; i >= 0; i--) {
		if (!streams[i].used) continue;
		dit_take(builder, counts[i]);
		attention_begin(builder, false);
		dit_modulation(builder, streams[i], false);
	}
}

/* The second attention of a dual block: over the image's tokens, from the same norm. */
static void second_attention(lk_builder *builder, bool forward) {
	struct dit_tokens tokens = dit_tokens_of(builder);
	dit_take(builder, tokens.image);
	double keys = builder->job->seq - builder->model->dit.text_tokens,
		   gated = lk_build_row_bytes(builder);
	if (forward) {
		project_in(builder, "second_qkv_proj", 3);
		dit_core(builder, keys, keys, true, true);
		project_out(builder, "second_out_proj", lk_build_hidden_share(builder), true);
		dit_gate(builder, true);
		lk_build_save(builder, gated, LK_OWN_ACTIVATIONS);
		return;
	}
	dit_gate(builder, false);
	lk_build_release(builder, gated, LK_OWN_ACTIVATIONS);
	project_out(builder, "second_out_proj_grad", lk_build_hidden_share(builder), false);
	dit_core(builder, keys, keys, true, false);
	project_in_backward(builder, "second_qkv_proj_grad", 3);
}

/* Attention and MLP read the same input, one product adds their outputs. */
static void single_block(lk_builder *builder, const lk_dit_unit *unit, bool forward) {
	double keys = builder->job->seq, both = lk_build_hidden_share(builder) + dit_inner(builder);
	dit_take(builder, dit_tokens_of(builder).joint);
	if (forward) {
		dit_modulation(builder, unit->image, true);
		dit_norm(builder, true);
		lk_build_tp_enter(builder, "gather_block_input");
		project_in(builder, "qkv_proj", 3);
		mlp_in(builder, true);
		dit_core(builder, keys, keys, true, true);
		project_out(builder, "block_out", both, true);
		dit_gate(builder, true);
		lk_build_save(builder, first_saved(builder), LK_OWN_ACTIVATIONS);
		return;
	}
	dit_gate(builder, false);
	lk_build_release(builder, first_saved(builder), LK_OWN_ACTIVATIONS);
	project_out(builder, "block_out_grad", both, false);
	dit_core(builder, keys, keys, true, false);
	mlp_in(builder, false);
	project_in_backward(builder, "qkv_proj_grad", 3);
	dit_norm(builder, false);
	dit_modulation(builder, unit->image, false);
}

/* Text and image as one stream: attention, then MLP. */
static void joint_block(lk_builder *builder, const lk_dit_unit *unit, bool forward) {
	double keys = builder->job->seq;
	dit_take(builder, dit_tokens_of(builder).joint);
	if (forward) {
		dit_modulation(builder, unit->image, true);
		attention_begin(builder, true);
		dit_core(builder, keys, keys, true, true);
		attention_end(builder, true);
		mlp_half(builder, true);
		return;
	}
	mlp_half(builder, false);
	attention_end(builder, false);
	dit_core(builder, keys, keys, true, false);
	attention_begin(builder, false);
	dit_modulation(builder, unit->image, false);
}

/* Attention to the text; every rank computes keys and values of all text tokens. It has a norm with
 * scale and shift and no gate. */
static double to_text_saved(const lk_builder *builder) {
	return lk_build_row_bytes(builder) +
	       lk_build_kept_bytes(builder, builder->rows * builder->model->hidden);
}

static void attention_to_text(lk_builder *builder, bool forward) {
	struct dit_tokens tokens = dit_tokens_of(builder);
	double queries = tokens.image / builder->job->mbs, keys = builder->model->dit.text_tokens,
		   read = builder->model->dit.image_width > 0 ? LK_DIT_IMAGE_TOKENS : 0;
	dit_take(builder, tokens.image);
	if (forward) {
		dit_memory(builder, LK_OP_NORM, "cross_norm", 2);
		lk_build_tp_enter(builder, "gather_cross_input");
		project_in(builder, "cross_q_proj", 1);
		lk_build_save(builder, to_text_saved(builder), LK_OWN_ACTIVATIONS);
		builder->tokens = tokens.text_whole;
		project_in(builder, "cross_kv_proj", 2);
		builder->tokens = read * builder->job->mbs;
		if (read > 0) project_in(builder, "image_kv_proj", 2);
		dit_take(builder, tokens.image);
		dit_core(builder, queries, keys, false, true);
		if (read > 0) dit_core(builder, queries, read, false, true);
		project_out(builder, "cross_out_proj", lk_build_hidden_share(builder), true);
		dit_memory(builder, LK_OP_ELEMENTWISE, "cross_residual", 3);
		return;
	}
	project_out(builder, "cross_out_proj_grad", lk_build_hidden_share(builder), false);
	if (read > 0) dit_core(builder, queries, read, false, false);
	dit_core(builder, queries, keys, false, false);
	builder->tokens = read * builder->job->mbs;
	if (read > 0) project_in_backward(builder, "image_kv_proj_grad", 2);
	builder->tokens = tokens.text_whole;
	project_in_backward(builder, "cross_kv_proj_grad", 2);
	dit_take(builder, tokens.image);
	project_in_backward(builder, "cross_q_proj_grad", 1);
	lk_build_release(builder, to_text_saved(builder), LK_OWN_ACTIVATIONS);
	dit_memory(builder, LK_OP_NORM, "cross_norm_grad", 3);
}

static void cross_block(lk_builder *builder, bool forward) {
	struct dit_tokens tokens = dit_tokens_of(builder);
	double keys = builder->job->seq - builder->model->dit.text_tokens;
	dit_take(builder, tokens.image);
	if (!forward) {
		mlp_half(builder, false);
		attention_to_text(builder, false);
		attention_end(builder, false);
		dit_core(builder, keys, keys, true, false);
		attention_begin(builder, false);
		return;
	}
	attention_begin(builder, true);
	dit_core(builder, keys, keys, true, true);
	attention_end(builder, true);
	attention_to_text(builder, true);
	mlp_half(builder, true);
}

void lk_build_dit_block(lk_builder *builder, lk_dit_block block, bool forward) {
	LK_ASSERT(block > LK_DIT_NONE && block < LK_DIT_BLOCKS);
	lk_dit_unit unit = lk_dit_unit_of(&builder->model->dit, block);
	bool streams = block != LK_DIT_CROSS && block != LK_DIT_SINGLE && block != LK_DIT_JOINT;
	double keys = block == LK_DIT_REFINE ? builder->model->dit.text_tokens : builder->job->seq;
	if (block == LK_DIT_CROSS) cross_block(builder, forward);
	else if (block == LK_DIT_SINGLE) single_block(builder, &unit, forward);
	else if (block == LK_DIT_JOINT) joint_block(builder, &unit, forward);
	else if (forward) streams_forward(builder, &unit, keys);
	if (block == LK_DIT_DUAL) second_attention(builder, forward);
	if (!forward && streams) streams_backward(builder, &unit, keys);
	/* the block's input, which a checkpoint keeps */
	struct dit_tokens tokens = dit_tokens_of(builder);
	if (block == LK_DIT_REFINE) dit_take(builder, tokens.text);
	else dit_take(builder, block == LK_DIT_CROSS ? tokens.image : tokens.joint);
}

/* ---- the ends ---- */

/* Embed with one product, or two with an activation between them: nothing before the first needs a
 * gradient. */
static void embed(lk_builder *builder, double rows, double in, bool twice, bool forward) {
	double d = builder->model->hidden;
	if (forward) {
		lk_build_gemm(builder, "embed", rows, d, in);
		if (twice) lk_build_gemm(builder, "embed_second", rows, d, d);
		lk_build_save(builder, builder->bytes * rows * (in + (twice ? 2 * d : 0)),
		              LK_OWN_ACTIVATIONS);
		return;
	}
	if (twice) lk_build_gemm(builder, "embed_second_grad", rows, d, d);
	if (twice) lk_build_gemm(builder, "embed_second_weight_grad", d, d, rows);
	lk_build_gemm(builder, "embed_weight_grad", d, in, rows);
	lk_build_release(builder, builder->bytes * rows * (in + (twice ? 2 * d : 0)),
	                 LK_OWN_ACTIVATIONS);
}

/* Patches and text become tokens; time step, guidance and pooled text are embedded once per
 * sample. */
void lk_build_dit_stem(lk_builder *builder, bool forward) {
	const lk_diffusion *net = &builder->model->dit;
	struct dit_tokens tokens = dit_tokens_of(builder);
	bool shared = net->repeat[LK_DIT_CROSS] > 0,
		 refined = net->repeat[LK_DIT_REFINE] > 0 && net->repeat[LK_DIT_JOINT] == 0;
	embed(builder, tokens.image, net->patch_inputs, false, forward);
	embed(builder, shared ? tokens.text_whole : tokens.text, net->text_width, shared, forward);
	for (int i = 0; i < 1 + net->guidance + refined; i++)
		embed(builder, builder->batch, LK_DIT_STEP_WIDTH, true, forward);
	if (net->pooled_width > 0) embed(builder, builder->batch, net->pooled_width, true, forward);
	if (refined) embed(builder, builder->batch, net->text_width, true, forward);
	if (shared) dit_modulation(builder, (lk_dit_stream){.modulation = 6}, forward);
	if (net->shared_modulation) /* of both streams, of single blocks */
		dit_modulation(builder, (lk_dit_stream){.modulation = 6 + 6 + 3}, forward);
}

/* The last norm, the predicted noise of every patch, its squared error against the added noise. */
void lk_build_dit_head(lk_builder *builder, bool forward) {
	const lk_model *model = builder->model;
	double image = dit_tokens_of(builder).image, d = model->hidden,
		   out = lk_dit_outputs(&model->dit), saved = 2 * builder->bytes * image * d,
		   noise = image * out * builder->bytes;
	lk_dit_stream last = {.modulation = model->dit.repeat[LK_DIT_CROSS] > 0 ? 0 : 2};
	dit_take(builder, image);
	if (forward) {
		dit_modulation(builder, last, true);
		dit_norm(builder, true);
		lk_build_gemm(builder, "predict_noise", image, out, d);
		lk_build_save(builder, saved, LK_OWN_ACTIVATIONS);
		lk_build_memory(builder, LK_OP_LOSS, "squared_error", 2 * noise);
	} else {
		lk_build_memory(builder, LK_OP_LOSS, "squared_error_grad", 3 * noise);
		lk_build_gemm(builder, "predict_noise_grad", image, d, out);
		lk_build_gemm(builder, "predict_noise_weight_grad", out, d, image);
		dit_norm(builder, false);
		lk_build_release(builder, saved, LK_OWN_ACTIVATIONS);
		dit_modulation(builder, last, false);
	}
	dit_take(builder, dit_tokens_of(builder).joint);
}
