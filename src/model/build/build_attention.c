/* build_attention.c: attention: projections (heads or latent), rotary positions, the core (fused or
 * not, causal, windowed, over context-parallel ranks), output projection. Saved tensors: arXiv
 * 2205.05198 section 4, itemised in docs/method/memory.md ("Memory"). */
#include "model/build/build.h"
#include "model/layout/job.h"
#include "base/check.h"

#include <math.h>

/* Widths on this rank. */
struct lk_widths {
	double q, kv, v;     /* columns of q, of k and v together, of the output */
	double score, value; /* head sizes of q.k and p.v */
	double heads;
	double gate; /* columns of the output gate; 0: none */
};

/* `window`: of the layer; 0: none. */
static struct lk_widths attention_widths(const lk_builder *builder, int window) {
	const lk_model *model = builder->model;
	double heads = model->heads / builder->tp,
		   kv_heads = lk_model_kv_heads(model, window) / builder->tp;
	if (kv_heads < 1) kv_heads = 1; /* replicated if TP is wider than the groups */
	if (model->attention == LK_ATTN_MLA) {
		double score = model->qk_nope + model->qk_rope;
		return (struct lk_widths){heads * score,
		                          heads * (model->qk_nope + model->v_dim),
		                          heads * model->v_dim,
		                          score,
		                          model->v_dim,
		                          heads,
		                          0};
	}
	double value = lk_model_value_dim(model);
	return (struct lk_widths){heads * model->head_dim,
	                          kv_heads * (model->head_dim + value),
	                          heads * value,
	                          model->head_dim,
	                          value,
	                          heads,
	                          model->output_gate ? heads * model->head_dim : 0};
}

/* Tokens from which keys and values are computed. */
static double key_tokens(const lk_builder *builder, bool cross) {
	return cross ? builder->memory_tokens : builder->tokens;
}

/* Latent attention: the output of the down-projections; what the norms, up-projections and rotary
 * positions make of it, which their checkpoint recomputes. */
static double latent_saved(const lk_builder *builder) {
	const lk_model *model = builder->model;
	return builder->bytes * builder->tokens * (model->q_lora + model->kv_lora + model->qk_rope);
}

static bool is_sparse(const lk_builder *builder) {
	return builder->model->index_heads > 0;
}

/* Keys and values of all heads; with an indexer, queries in the latent space. */
static double raised_saved(const lk_builder *builder, struct lk_widths w) {
	const lk_model *model = builder->model;
	double normed = model->q_lora + model->kv_lora,
		   keys = w.heads * (is_sparse(builder) ? (double)model->kv_lora + model->qk_rope
	                                            : w.score + w.value);
	return builder->bytes * builder->tokens * (normed + w.q + keys);
}

static bool raises_again(const lk_builder *builder) {
	return builder->model->attention == LK_ATTN_MLA &&
	       lk_build_runs_again(builder, LK_MODULE_MLA_UP_PROJ);
}

static double qkv_saved(const lk_builder *builder, struct lk_widths w, bool cross) {
	if (builder->model->attention == LK_ATTN_MLA)
		return latent_saved(builder) + raised_saved(builder, w);
	/* what the norms of queries and keys read; low-rank queries and their norm */
	double normed = builder->model->qk_norm
	                    ? lk_build_heads_norm_held(builder, builder->tokens * (w.q + w.kv / 2))
	                    : 0;
	return normed +
	       builder->bytes * (builder->tokens * (w.q + w.gate + 2.0 * builder->model->q_lora) +
	                         key_tokens(builder, cross) * w.kv);
}
/* The flash-attention package works on batch-first tensors: its output is kept, and again as the
 * sequence-first input of the next product. */
static bool copies_output(const lk_builder *builder) {
	return builder->job->attn_library >= LK_ATTN_LIBRARY_FLASH && builder->batch > 1 &&
	       lk_job_like_megatron(builder->job);
}

static double core_saved(const lk_builder *builder, const lk_layer_shape *shape,
                         struct lk_widths w) {
	double out = builder->bytes * builder->tokens * w.v;
	if (is_sparse(builder)) /* the output once more in the latent space */
		return out + builder->bytes * builder->tokens * w.heads * builder->model->kv_lora +
		       4 * builder->tokens * w.heads + lk_build_index_saved(builder);
	if (builder->job->attn_kernel != LK_KERNEL_UNFUSED)
		return out * (copies_output(builder) ? 2 : 1) +
		       4 * builder->tokens * w.heads; /* log-sum-exp */
	double pairs = builder->batch * w.heads * shape->queries * shape->keys;
	return out + pairs * (builder->bytes + (builder->model->dropout > 0 ? 1 + builder->bytes : 0));
}

/* What a checkpoint of the core keeps: its output, as the input of the next product. */
static double core_kept(const lk_builder *builder, struct lk_widths w) {
	return lk_build_kept_bytes(builder, builder->tokens * w.v);
}

/* Keys of the chunk that a query attends to, on average: the last chunk may be shorter. */
static double chunk_keys(const lk_layer_shape *shape) {
	double size = shape->layer.window, keys = shape->keys;
	if (size >= keys) return keys;
	double rest = keys - size * (double)(long long)(keys / size);
	return ((keys - rest) * size + rest * rest) / keys;
}

/* Length of equal sequences with as many pairs as are attended to on the rank with the most: less
 * than all keys for packed documents. */
static double attended_keys(const lk_builder *builder, const lk_layer_shape *shape) {
	const lk_job *job = builder->job;
	return shape->keys * lk_job_pack_share(job) * lk_job_pack_busiest(job);
}

/* Query-key pairs that are computed: the lower triangle, or a band. Unbalanced context parallelism
 * makes the last rank's share 2 cp / (cp + 1) times the mean. */
static double attention_pairs(const lk_builder *builder, const lk_layer_shape *shape) {
	double keys = attended_keys(builder, shape), all = shape->queries * keys;
	if (shape->layer.chunked)
		all = shape->queries * fmin(keys, chunk_keys(shape)) * (shape->layer.causal ? 0.5 : 1);
	else if (shape->layer.window > 0 && shape->layer.window < keys)
		all = shape->queries * shape->layer.window *
		      (shape->layer.causal ? 1 - 0.5 * shape->layer.window / keys : 1);
	else if (shape->layer.causal) all *= 0.5;
	double cp = builder->job->cp / lk_job_head_ranks(builder->job);
	if (shape->layer.causal && cp > 1 && builder->job->cp_balanced == LK_OFF)
		all *= 2 * cp / (cp + 1);
	return all * builder->batch;
}

/* Add a fused kernel; `op` states its shape. */
static void attention_add(lk_builder *builder, bool backward, lk_op op) {
	LK_ASSERT(op.flops >= 0 && op.bytes >= 0);
	op.kind = backward ? LK_OP_ATTENTION_BWD : LK_OP_ATTENTION;
	op.name = backward ? "attention_grad" : "attention";
	op.dtype = lk_build_core_format(builder);
	op.stream = LK_STREAM_COMPUTE;
	op.phase = builder->phase;
	op.join = builder->pending;
	builder->pending = 0;
	lk_graph_add(builder->graph, &op);
}

static void attention_flash(lk_builder *builder, const lk_layer_shape *shape, struct lk_widths w,
                            bool backward) {
	double flops =
		2 * attention_pairs(builder, shape) * w.heads * (w.score + w.value) * (backward ? 2.5 : 1);
	double bytes = builder->bytes * builder->tokens * (w.q + w.v) +
	               builder->bytes * builder->batch * shape->keys * w.kv;
	int window = shape->layer.chunked ? 0 : shape->layer.window;
	int flags = shape->layer.causal ? LK_OP_CAUSAL : 0;
	/* chunks and documents are sequences of their own */
	bool chunked = shape->layer.chunked && shape->layer.window < shape->keys;
	double chunk = chunked ? chunk_keys(shape) : shape->keys,
		   chunks = shape->keys / fmin(chunk, attended_keys(builder, shape));
	attention_add(builder, backward,
	              (lk_op){
					  .m = shape->queries / chunks,
					  .n = shape->keys / chunks,
					  .k = w.score,
					  .batch = builder->batch * w.heads * chunks,
					  .flops = flops,
					  .bytes = bytes * (backward ? 3 : 1),
					  .window = window,
					  .flags = flags,
				  });
	/* gradients of queries, keys and values; query gradients are accumulated in fp32 */
	if (backward)
		lk_build_scratch(builder, builder->tokens * (builder->bytes * (w.q + w.kv) + 4 * w.q),
		                 LK_OWN_WORKSPACE);
}

/* Attention in the latent space to the keys chosen by the indexer, which are gathered for each
 * query. */
static void attention_sparse(lk_builder *builder, const lk_layer_shape *shape, struct lk_widths w,
                             bool backward) {
	const lk_model *model = builder->model;
	double key = (double)model->kv_lora + model->qk_rope, both = key + model->kv_lora;
	double pairs = builder->batch * lk_build_sparse_pairs(model, shape),
		   keys = pairs / (builder->batch * shape->queries);
	double flops = 2 * pairs * w.heads * both;
	double bytes = builder->bytes * (builder->tokens * w.heads * both + pairs * key);
	if (backward) lk_build_index_backward(builder, shape, true, false);
	else lk_build_index_forward(builder, shape);
	attention_add(builder, backward,
	              (lk_op){
					  .m = shape->queries,
					  .n = keys,
					  .k = key,
					  .batch = builder->batch * w.heads,
					  .flops = backward ? 2.5 * flops : flops,
					  .bytes = backward ? 3 * bytes : bytes,
				  });
}

/* Products over all pairs (batched-product libraries do not skip the masked half) and a fused
 * scale-mask-softmax. */
static void unfused(lk_builder *builder, const lk_layer_shape *shape, struct lk_widths w,
                    bool backward) {
	double batch = builder->batch * w.heads,
		   score_bytes = batch * shape->queries * shape->keys * builder->bytes;
	double passes = builder->model->dropout > 0
	                    ? 4.5
	                    : 2; /* read + write; dropout reads, writes and keeps a byte mask */
	if (!backward) {
		lk_build_gemm_batch(builder, "scores", shape->queries, shape->keys, w.score, batch);
		lk_build_memory(builder, LK_OP_SOFTMAX, "mask_softmax", score_bytes * passes);
		lk_build_gemm_batch(builder, "weighted_values", shape->queries, w.value, shape->keys,
		                    batch);
		return;
	}
	lk_build_gemm_batch(builder, "probabilities_grad", shape->queries, shape->keys, w.value, batch);
	lk_build_scratch(builder, score_bytes * (builder->model->dropout > 0 ? 2 : 1),
	                 LK_OWN_WORKSPACE);
	lk_build_gemm_batch(builder, "values_grad", shape->keys, w.value, shape->queries, batch);
	lk_build_memory(builder, LK_OP_SOFTMAX, "mask_softmax_grad", score_bytes * (passes + 1));
	lk_build_gemm_batch(builder, "query_grad", shape->queries, w.score, shape->keys, batch);
	lk_build_gemm_batch(builder, "key_grad", shape->keys, w.score, shape->queries, batch);
}

/* DeBERTa's positions (arXiv 2006.03654): a row for each distance, projected to keys and queries
 * once for all sequences; scores of queries with position keys and of keys with position queries,
 * each gathered by distance and added to the content scores. */
static double relative_saved(const lk_builder *builder, struct lk_widths w) {
	return builder->bytes * builder->model->relative_rows * 2 * w.q;
}

static void relative_scores(lk_builder *builder, const lk_layer_shape *shape, struct lk_widths w,
                            bool backward) {
	double rows = builder->model->relative_rows, batch = builder->batch * w.heads,
		   h = builder->model->hidden,
		   picked = 2 * builder->bytes * batch * shape->queries * shape->keys;
	if (!backward) {
		lk_build_gemm(builder, "position_proj", rows, 2 * w.q, h);
		lk_build_gemm_batch(builder, "content_to_position", shape->queries, rows, w.score, batch);
		lk_build_gemm_batch(builder, "position_to_content", shape->keys, rows, w.score, batch);
		lk_build_memory(builder, LK_OP_ELEMENTWISE, "pick_positions", 3 * picked);
		lk_build_save(builder, relative_saved(builder, w), LK_OWN_ACTIVATIONS);
		return;
	}
	lk_build_memory(builder, LK_OP_ELEMENTWISE, "pick_positions_grad", 3 * picked);
	for (int side = 0; side < 2; side++) {
		lk_build_gemm_batch(builder, "content_grad", shape->queries, w.score, rows, batch);
		lk_build_gemm_batch(builder, "position_grad", rows, w.score, shape->queries, batch);
	}
	lk_build_gemm(builder, "position_input_grad", rows, h, 2 * w.q);
	lk_build_gemm(builder, "position_weight_grad", 2 * w.q, h, rows);
	lk_build_release(builder, relative_saved(builder, w), LK_OWN_ACTIVATIONS);
}

/* Keys and values of the other context-parallel ranks, or between groups that exchange heads: a
 * ring overlaps with the attention it feeds, an all-gather does not. Backward, keys and values are
 * sent again and their gradients go back. */
static void core_across(lk_builder *builder, const lk_layer_shape *shape, struct lk_widths w,
                        bool backward) {
	const lk_model *model = builder->model;
	int heads = lk_job_head_ranks(builder->job);
	unsigned group = heads > 1 ? LK_GROUP_CP_RING : LK_GROUP_CP;
	double wide = w.kv;
	if (is_sparse(builder)) wide = model->index_dim + model->kv_lora + model->qk_rope;
	else if (model->attention == LK_ATTN_MLA) wide = w.heads * (w.score + w.value);
	double total = builder->bytes * builder->batch * shape->keys * wide;
	bool ring = builder->job->cp_kind != LK_CP_ALLGATHER, exchange = builder->job->cp > heads;
	if (exchange)
		lk_build_collective(builder, LK_OP_ALLGATHER, LK_STREAM_CP, group, "exchange_kv", total,
		                    ring);
	if (model->relative_rows > 0 && !backward) relative_scores(builder, shape, w, false);
	if (is_sparse(builder)) attention_sparse(builder, shape, w, backward);
	else if (builder->job->attn_kernel == LK_KERNEL_UNFUSED) unfused(builder, shape, w, backward);
	else attention_flash(builder, shape, w, backward);
	if (model->relative_rows > 0 && backward) relative_scores(builder, shape, w, true);
	if (exchange && backward)
		lk_build_collective(builder, LK_OP_REDUCESCATTER, LK_STREAM_CP, group, "exchange_kv_grad",
		                    total, false);
	if (exchange) lk_build_wait(builder, LK_STREAM_CP);
}

static void exchange_heads(lk_builder *builder, const char *name, double columns) {
	LK_ASSERT(columns >= 0);
	bool some = lk_job_head_ranks(builder->job) < builder->job->cp;
	lk_build_collective(builder, LK_OP_ALLTOALL, LK_STREAM_CP,
	                    some ? LK_GROUP_CP_HEADS : LK_GROUP_CP, name,
	                    builder->bytes * builder->tokens * columns, false);
}

/* Attention over context-parallel ranks. If they exchange tokens for heads (DeepSpeed-Ulysses,
 * arXiv 2309.14509), each of u ranks has u times the tokens and 1/u of the heads in between: the
 * same bytes and pairs. */
static void core(lk_builder *builder, const lk_layer_shape *shape, struct lk_widths w,
                 bool backward) {
	double ranks = lk_job_head_ranks(builder->job);
	if (ranks <= 1) {
		core_across(builder, shape, w, backward);
		return;
	}
	bool latent = builder->model->attention == LK_ATTN_MLA;
	double keys = latent ? w.heads * (w.score + w.value) : w.kv;
	struct lk_widths part = w;
	lk_layer_shape longer = *shape;
	part.q /= ranks, part.kv /= ranks, part.v /= ranks, part.heads /= ranks;
	longer.queries *= ranks;
	if (backward) exchange_heads(builder, "exchange_output_grad", w.v);
	else exchange_heads(builder, "exchange_qkv", w.q + keys);
	builder->tokens *= ranks;
	core_across(builder, &longer, part, backward);
	builder->tokens /= ranks;
	if (backward) exchange_heads(builder, "exchange_qkv_grad", w.q + keys);
	else exchange_heads(builder, "exchange_output", w.v);
}

static void positions(lk_builder *builder, const lk_layer_shape *shape, struct lk_widths w,
                      bool backward) {
	const lk_model *model = builder->model;
	if (model->qk_norm) lk_build_heads_norm(builder, builder->tokens * (w.q + w.kv / 2), backward);
	if (model->no_positions || model->relative_rows > 0) return;
	if (model->position_rows > 0) return;  /* learned: added to the embedding */
	if (model->network == LK_NET_ENCDEC) { /* one bias per head and distance, read with the
	                                        * scores */
		double bias = builder->bytes * w.heads * shape->queries * shape->keys;
		if (backward) lk_build_memory(builder, LK_OP_ELEMENTWISE, "relative_bias_grad", 2 * bias);
		else lk_build_memory(builder, LK_OP_ELEMENTWISE, "relative_bias", bias);
		return;
	}
	double q = w.q, k = w.kv * w.score / (w.score + w.value);
	if (model->attention == LK_ATTN_MLA) q = k = w.heads * model->qk_rope;
	lk_build_rotary(builder, backward ? "rotary_q_grad" : "rotary_q", builder->tokens * q,
	                backward);
	lk_build_rotary(builder, backward ? "rotary_k_grad" : "rotary_k", builder->tokens * k,
	                backward);
}

/* The adapters of queries, keys and values, which latent attention and low ranks make in two steps,
 * and of the output. What they read is kept for the norm and by the core. */
static void adapt_inputs(lk_builder *builder, struct lk_widths w, bool backward) {
	const lk_model *model = builder->model;
	double low = model->q_lora, q = w.q + w.gate, score = w.kv * w.score / (w.score + w.value);
	bool latent = model->attention == LK_ATTN_MLA;
	lk_adapter of = {.rows = builder->tokens,
	                 .k = lk_model_attention_inputs(model),
	                 .readers = {{LK_ADAPT_QUERY, low > 0 ? low : q},
	                             {LK_ADAPT_KEY, score},
	                             {LK_ADAPT_VALUE, w.kv - score}},
	                 .at_hand = true};
	if (latent) {
		of.readers[1] =
			(lk_reader){LK_ADAPT_KEY | LK_ADAPT_VALUE, (double)model->kv_lora + model->qk_rope};
		of.readers[2] = (lk_reader){0};
	}
	lk_build_adapter(builder, of, backward);
	of.readers[1] = of.readers[2] = (lk_reader){0};
	of.readers[0].out = q;
	of.k = low;
	if (low > 0) lk_build_adapter(builder, of, backward);
	of.readers[0] = (lk_reader){LK_ADAPT_KEY | LK_ADAPT_VALUE, w.kv};
	of.k = model->kv_lora;
	if (latent) lk_build_adapter(builder, of, backward);
}
static lk_adapter out_adapter(const lk_builder *builder, struct lk_widths w) {
	return (lk_adapter){.rows = builder->tokens,
	                    .k = w.v,
	                    .readers = {{LK_ADAPT_OUT, builder->model->hidden}},
	                    .at_hand = true};
}

/* Columns of the first product that serve queries: the queries, or their low rank. */
static double queries(const lk_builder *builder, struct lk_widths w) {
	return builder->model->q_lora > 0 ? builder->model->q_lora : w.q;
}

static void projections_forward(lk_builder *builder, struct lk_widths w, bool cross) {
	const lk_model *model = builder->model;
	if (cross && builder->memory_tokens != builder->tokens) {
		lk_build_gemm(builder, "q_proj", builder->tokens, w.q, model->hidden);
		lk_build_gemm(builder, "kv_proj", builder->memory_tokens, w.kv, model->hidden);
		return;
	}
	if (model->attention != LK_ATTN_MLA) {
		lk_build_gemm(builder, "qkv_proj", builder->tokens, queries(builder, w) + w.gate + w.kv,
		              lk_model_attention_inputs(model));
		if (model->qkv_bias && !builder->job->fused_kernels)
			lk_build_memory(builder, LK_OP_ELEMENTWISE, "qkv_bias",
			                2 * builder->bytes * builder->tokens * (w.q + w.kv));
		return;
	}
	if (model->q_lora)
		lk_build_gemm(builder, "q_down", builder->tokens, model->q_lora, model->hidden);
	lk_build_gemm(builder, "kv_down", builder->tokens, model->kv_lora + model->qk_rope,
	              model->hidden);
}

/* Up-projection of low-rank queries. */
static void raise_queries(lk_builder *builder, struct lk_widths w) {
	const lk_model *model = builder->model;
	if (model->q_lora == 0) return;
	lk_build_memory(builder, LK_OP_NORM, "q_norm",
	                2 * builder->bytes * builder->tokens * model->q_lora);
	lk_build_gemm(builder, "q_up", builder->tokens, w.q, model->q_lora);
}

/* Latent attention's queries, keys and values from the output of the down-projections. */
static void raise_latent(lk_builder *builder, struct lk_widths w) {
	const lk_model *model = builder->model;
	raise_queries(builder, w);
	if (model->q_lora == 0) lk_build_gemm(builder, "q_up", builder->tokens, w.q, model->hidden);
	lk_build_memory(builder, LK_OP_NORM, "kv_norm",
	                2 * builder->bytes * builder->tokens * model->kv_lora);
	lk_build_gemm(builder, "kv_up", builder->tokens, w.kv, model->kv_lora);
}

/* From projected heads to the core's inputs. */
static void place_heads(lk_builder *builder, const lk_layer_shape *shape, struct lk_widths w) {
	if (!shape->across) positions(builder, shape, w, false);
	if (!builder->job->fused_kernels)
		lk_build_memory(builder, LK_OP_ELEMENTWISE, "split_heads",
		                2 * builder->bytes * builder->tokens * (w.q + w.kv) / 2);
}

static void projections_backward(lk_builder *builder, struct lk_widths w, bool cross, bool input,
                                 bool weight) {
	const lk_model *model = builder->model;
	double tokens = builder->tokens;
	if (cross && builder->memory_tokens != tokens) {
		lk_build_column_backward(builder, "q_proj_grad", w.q, model->hidden, input, weight);
		builder->tokens = builder->memory_tokens;
		lk_build_column_backward(builder, "kv_proj_grad", w.kv, model->hidden, input, weight);
		builder->tokens = tokens;
		return;
	}
	if (model->attention != LK_ATTN_MLA) {
		if (model->q_lora) {
			lk_build_row_backward(builder, "q_up_grad", w.q, model->q_lora, input, weight);
			if (input)
				lk_build_memory(builder, LK_OP_NORM, "q_norm_grad",
				                3 * builder->bytes * builder->tokens * model->q_lora);
		}
		lk_build_column_backward(builder, "qkv_proj_grad", queries(builder, w) + w.gate + w.kv,
		                         lk_model_attention_inputs(model), input, weight);
		return;
	}
	lk_build_row_backward(builder, "kv_up_grad", w.kv, model->kv_lora, input, weight);
	if (input)
		lk_build_memory(builder, LK_OP_NORM, "kv_norm_grad",
		                3 * builder->bytes * builder->tokens * model->kv_lora);
	lk_build_row_backward(builder, "kv_down_grad", model->kv_lora + model->qk_rope, model->hidden,
	                      input, weight);
	lk_build_row_backward(builder, "q_up_grad", w.q, model->q_lora ? model->q_lora : model->hidden,
	                      input, weight);
	if (model->q_lora) {
		if (input)
			lk_build_memory(builder, LK_OP_NORM, "q_norm_grad",
			                3 * builder->bytes * builder->tokens * model->q_lora);
		lk_build_column_backward(builder, "q_down_grad", model->q_lora, model->hidden, input,
		                         weight);
	}
}

/* The output times the gate's sigmoid; the product is kept in addition to both. */
static double gated_saved(const lk_builder *builder, struct lk_widths w) {
	return lk_build_kept_bytes(builder, builder->tokens * w.gate);
}

static void gate_output(lk_builder *builder, struct lk_widths w, bool backward) {
	if (w.gate <= 0) return;
	if (backward) {
		lk_build_memory(builder, LK_OP_ELEMENTWISE, "output_gate_grad",
		                5 * builder->bytes * builder->tokens * w.gate);
		lk_build_release(builder, gated_saved(builder, w), LK_OWN_ACTIVATIONS);
	} else {
		lk_build_memory(builder, LK_OP_ELEMENTWISE, "output_gate",
		                3 * builder->bytes * builder->tokens * w.gate);
		lk_build_save(builder, gated_saved(builder, w), LK_OWN_ACTIVATIONS);
	}
}

void lk_build_attention_forward(lk_builder *builder, const lk_layer_shape *shape) {
	struct lk_widths w = attention_widths(builder, shape->layer.window);
	projections_forward(builder, w, shape->across);
	if (builder->model->attention == LK_ATTN_MLA) raise_latent(builder, w);
	else raise_queries(builder, w);
	lk_build_save(builder, qkv_saved(builder, w, shape->across), LK_OWN_ACTIVATIONS);
	adapt_inputs(builder, w, false);
	place_heads(builder, shape, w);
	double before = builder->saved;
	core(builder, shape, w, false);
	lk_build_save(builder, core_saved(builder, shape, w), LK_OWN_ACTIVATIONS);
	if (lk_build_runs_again(builder, LK_MODULE_CORE_ATTN))
		lk_build_forget(builder, before, core_kept(builder, w));
	if (raises_again(builder))
		lk_build_release(builder, raised_saved(builder, w), LK_OWN_ACTIVATIONS);
	gate_output(builder, w, false);
	lk_build_quantize(builder, builder->tokens * w.v);
	lk_build_gemm(builder, "out_proj", builder->tokens, builder->model->hidden, w.v);
	lk_build_adapter(builder, out_adapter(builder, w), false);
}

/* Recompute attention's checkpointed modules before their gradients: after the output
 * projection's. */
static void core_again(lk_builder *builder, const lk_layer_shape *shape, struct lk_widths w) {
	lk_build_begin_again(builder);
	if (raises_again(builder)) {
		raise_latent(builder, w);
		place_heads(builder, shape, w);
		lk_build_save(builder, raised_saved(builder, w), LK_OWN_ACTIVATIONS);
	}
	if (lk_build_runs_again(builder, LK_MODULE_CORE_ATTN)) {
		core(builder, shape, w, false);
		lk_build_save(builder, core_saved(builder, shape, w) - core_kept(builder, w),
		              LK_OWN_ACTIVATIONS);
	}
	lk_build_end_again(builder);
}

/* The output of the core and the gradients after both products. */
double lk_build_attention_between(const lk_builder *builder) {
	struct lk_widths w = attention_widths(builder, 0);
	return lk_build_kept_bytes(builder, builder->tokens * (w.v + w.q + w.gate + w.kv));
}

void lk_build_attention_backward(lk_builder *builder, const lk_layer_shape *shape, bool input,
                                 bool weight) {
	struct lk_widths w = attention_widths(builder, shape->layer.window);
	if (weight && builder->model->out_bias)
		lk_build_bias_grad(builder, "out_bias_grad", builder->rows, builder->model->hidden);
	lk_build_row_backward(builder, "out_proj_grad", builder->model->hidden, w.v, input, weight);
	if (input) {
		lk_build_adapter(builder, out_adapter(builder, w), true);
		gate_output(builder, w, true);
		core_again(builder, shape, w);
		core(builder, shape, w, true);
		lk_build_release(builder, core_saved(builder, shape, w), LK_OWN_ACTIVATIONS);
		if (!builder->job->fused_kernels)
			lk_build_memory(builder, LK_OP_ELEMENTWISE, "merge_heads_grad",
			                2 * builder->bytes * builder->tokens * (w.q + w.kv) / 2);
		if (!shape->across) positions(builder, shape, w, true);
		adapt_inputs(builder, w, true);
	}
	if (weight && builder->model->qkv_bias)
		lk_build_bias_grad(builder, "qkv_bias_grad", builder->tokens, w.q + w.kv);
	if (weight && is_sparse(builder)) lk_build_index_backward(builder, shape, false, true);
	projections_backward(builder, w, shape->across, input, weight);
	if (input) lk_build_release(builder, qkv_saved(builder, w, shape->across), LK_OWN_ACTIVATIONS);
}
