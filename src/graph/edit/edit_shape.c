/* edit_shape.c: larger batches and other number formats: edits that change the shapes of
 * operations.
 *
 * Batch. With f times the samples on a rank, products have f times the rows of tokens: `m` of a
 * forward product and of an input's gradient, `k` of a weight's gradient, whose `m` is a width of
 * the network. Sizes distinguish the two: rows of tokens are the `m` of forward products. Bytes of
 * a product grow with its operands. Attention has f times the heads, memory-bound kernels f times
 * the bytes. The optimizer, weights, gradients and their communication do not depend on the batch.
 *
 * Formats. Operands of products are read in the new format. Tensors in memory are stored in 16 bits
 * for 8-bit and 4-bit formats too, so activations and gradients change only between 16 and 32 bits.
 * Products of 8 and 4 bits read converted rows: a conversion precedes each, except after a norm
 * that writes the format itself, and except for weights' gradients, which share the operands of the
 * other products. */
#include "graph/edit/edit.h"

#include <math.h>

static bool shape_streams(unsigned kind) {
	return kind >= LK_OP_SOFTMAX && kind <= LK_OP_OPTIMIZER;
}

/* ---- batch ---- */

enum { MOST_ROWS = 64 };

/* Distinct numbers of token rows: those of the forward products; most layers of a model share
 * one. */
struct rows {
	double at[MOST_ROWS];
	int count;
};

static bool shape_has(const struct rows *rows, double m) {
	for (int i = 0; i < rows->count; i++)
		if (rows->at[i] == m) return true;
	return false;
}

static void find_rows(const lk_graph *graph, struct rows *out) {
	out->count = 0;
	for (uint32_t i = 0; i < graph->ops.count && out->count < MOST_ROWS; i++) {
		bool forward =
			graph->ops.phase[i] == LK_PHASE_FORWARD && lk_op_multiplies(graph->ops.kind[i]);
		if (forward && graph->ops.m[i] > 0 && !shape_has(out, graph->ops.m[i]))
			out->at[out->count++] = graph->ops.m[i];
	}
}

/* A gradient with a row count of tokens may still be of a weight: then the sum runs over tokens,
 * and `m` is a width of the network. If both could be tokens, names decide. */
static bool sums_tokens(const lk_graph *graph, uint32_t i, const struct rows *rows) {
	const lk_ops *ops = &graph->ops;
	if (ops->phase[i] == LK_PHASE_FORWARD || ops->phase[i] == LK_PHASE_RECOMPUTE) return false;
	if (ops->phase[i] == LK_PHASE_WEIGHT) return true;
	const char *name = lk_intern_text(graph->names, ops->name[i]);
	if (lk_glob("*weight*", name) || lk_glob("*wgrad*", name)) return true;
	return !shape_has(rows, ops->m[i]) && shape_has(rows, ops->k[i]);
}

static double shape_elements(const lk_ops *ops, uint32_t i) {
	double m = ops->m[i], n = ops->n[i], k = ops->k[i];
	return fmax(ops->batch[i], 1) * (m * k + k * n + m * n);
}

static void grow_product(lk_edit *edit, uint32_t i, const struct rows *rows, double f) {
	lk_ops *ops = &edit->graph->ops;
	double before = shape_elements(ops, i);
	if (sums_tokens(edit->graph, i, rows)) ops->k[i] *= f;
	else ops->m[i] *= f;
	double size = ops->dtype[i] >= LK_FP8 ? 2 : lk_dtype_bytes((lk_dtype)ops->dtype[i]);
	if (ops->bytes[i] > 0)
		ops->bytes[i] = fmax(0, ops->bytes[i] + size * (shape_elements(ops, i) - before));
	ops->flops[i] *= f;
}

static void grow_memory(lk_ops *ops, uint32_t i, double f) {
	unsigned taken = ops->alloc_owner[i], back = ops->release_owner[i];
	if (taken == LK_OWN_ACTIVATIONS || taken == LK_OWN_LOGITS) ops->alloc[i] *= f;
	if (back == LK_OWN_ACTIVATIONS || back == LK_OWN_LOGITS) ops->release[i] *= f;
}

static bool of_weights(const lk_graph *graph, uint32_t i, const bool *mask) {
	const lk_ops *ops = &graph->ops;
	return ops->phase[i] == LK_PHASE_OPTIMIZER || ops->kind[i] == LK_OP_OPTIMIZER ||
	       (lk_op_is_comm(ops->kind[i]) && lk_edit_is_data_parallel(graph, i, mask)) ||
	       ops->group[i] == LK_GROUP_EMBEDDING || ops->group[i] == LK_GROUP_MODEL;
}

static bool grows(lk_edit *edit, uint32_t i, const struct rows *rows, double f) {
	lk_ops *ops = &edit->graph->ops;
	unsigned kind = ops->kind[i];
	if (kind == LK_OP_HOST || kind == LK_OP_WAIT || kind == LK_OP_MACRO) return false;
	if (lk_op_multiplies(kind)) grow_product(edit, i, rows, f);
	else if (lk_op_is_attention(kind) && ops->batch[i] > 0) {
		ops->batch[i] *= f;
		ops->flops[i] *= f;
		ops->bytes[i] *= f;
	} else {
		ops->bytes[i] *= f;
		ops->flops[i] *= f;
	}
	return true;
}

void lk_edit_batch(lk_edit *edit, double factor, const bool *mask) {
	lk_graph *graph = edit->graph;
	struct rows r;
	edit->changed = 0;
	find_rows(graph, &r);
	for (uint32_t i = 0; i < edit->op.count; i++) {
		grow_memory(&graph->ops, i, factor);
		if (!of_weights(graph, i, mask)) edit->changed += grows(edit, i, &r, factor);
	}
	graph->model_flops *= factor;
	graph->tokens *= factor;
	graph->samples *= factor;
}

/* ---- number formats ---- */

/* Bytes of a stored activation. */
static double shape_stored(lk_dtype dtype) {
	return dtype >= LK_FP8 ? 2 : lk_dtype_bytes(dtype);
}

/* The format of a block's products: at both ends of a network it has 16 bits at least, as
 * model/build_ends.c builds them. */
static lk_dtype block_format(const lk_graph *graph, const lk_block *block, lk_dtype dtype) {
	const char *name = lk_intern_text(graph->names, block->name);
	bool end = lk_glob("head *", name) || lk_glob("embedding *", name);
	return end && dtype >= LK_FP8 ? LK_BF16 : dtype;
}

static void retype_product(lk_edit *edit, uint32_t i, lk_dtype dtype) {
	lk_ops *ops = &edit->graph->ops;
	lk_dtype old = (lk_dtype)ops->dtype[i];
	double batch = fmax(ops->batch[i], 1), k = ops->k[i];
	double operands = batch * k * (ops->m[i] + ops->n[i]), result = batch * ops->m[i] * ops->n[i];
	double less = operands * (lk_dtype_bytes(old) - lk_dtype_bytes(dtype)) +
	              result * (shape_stored(old) - shape_stored(dtype));
	if (ops->bytes[i] > 0) ops->bytes[i] = fmax(0, ops->bytes[i] - less);
	ops->dtype[i] = (uint8_t)dtype;
	if (dtype < LK_FP8) ops->flags[i] &= (uint8_t)~LK_OP_ROW_FACTORS;
}

/* Whether the compute operation before it on its stream is a norm. */
static bool behind_norm(const lk_graph *graph, const lk_block *block, uint32_t i) {
	for (uint32_t b = i; b-- > block->begin;)
		if (graph->ops.stream[b] == graph->ops.stream[i] && graph->ops.kind[b] != LK_OP_WAIT)
			return graph->ops.kind[b] == LK_OP_NORM;
	return false;
}

struct conversion {
	lk_dtype dtype;
	const lk_conversion *how;
	const struct rows *rows;
};

/* A pass over memory that waits for what its product waits for. */
static void put_pass(lk_rewrite *rewrite, const lk_op *product, const char *name, double bytes) {
	lk_op op = {.kind = LK_OP_ELEMENTWISE,
	            .stream = product->stream,
	            .phase = product->phase,
	            .dtype = product->dtype,
	            .join = product->join,
	            .name = name,
	            .deps = product->deps,
	            .dep_count = product->dep_count,
	            .bytes = bytes};
	lk_rewrite_put(rewrite, &op, &(lk_edit_op){.factor = 1});
}

/* Of `share` of a product's rows, as in lk_build_quantize. */
static void put_conversion(lk_rewrite *rewrite, const lk_block *block, uint32_t i, double share) {
	const struct conversion *conversion = rewrite->context;
	lk_op product = lk_rewrite_op(rewrite, block, i);
	lk_conversion_pass pass[LK_CONVERSION_PASSES];
	int passes = lk_conversion_passes(conversion->how, pass);
	double elements = share * fmax(product.batch, 1) * product.m * product.k;
	for (int p = 0; p < passes; p++)
		put_pass(rewrite, &product, pass[p].name, elements * pass[p].bytes);
}

/* The weight of an input's gradient, where weights are cast in every pass. */
static void put_weight(lk_rewrite *rewrite, const lk_block *block, uint32_t i) {
	const struct conversion *conversion = rewrite->context;
	lk_op product = lk_rewrite_op(rewrite, block, i);
	double bytes = lk_conversion_weight_bytes(conversion->how);
	if (bytes > 0 && product.kind == LK_OP_GEMM && product.phase == LK_PHASE_BACKWARD)
		put_pass(rewrite, &product, "quantize_weight", product.k * product.n * bytes);
}

static bool product_waits_for(const lk_graph *graph, const lk_block *block, uint32_t product,
                              uint32_t i) {
	const lk_ops *ops = &graph->ops;
	if (ops->join[product] & LK_JOIN(ops->stream[i])) return true;
	for (uint32_t d = ops->dep_begin[product]; d < ops->dep_begin[product + 1]; d++)
		if (block->begin + ops->deps[d] == i) return true;
	return false;
}

/* The operation before which a product's rows are converted: as in the builder, before
 * communication that overlaps with the product. */
static uint32_t conversion_place(const lk_graph *graph, const lk_block *block, uint32_t product) {
	const lk_ops *ops = &graph->ops;
	uint32_t at = product;
	while (at > block->begin && lk_op_is_comm(ops->kind[at - 1]) &&
	       ops->stream[at - 1] != ops->stream[product] &&
	       !product_waits_for(graph, block, product, at - 1))
		at--;
	return at;
}

static bool product_converts(const lk_graph *graph, uint32_t i, const struct rows *rows) {
	return lk_op_multiplies(graph->ops.kind[i]) && graph->ops.dtype[i] < LK_FP8 &&
	       !sums_tokens(graph, i, rows);
}

/* A norm's output is cast where it is, before tensor parallelism gathers it. */
static double norm_share(const lk_graph *graph, uint32_t norm, uint32_t product) {
	const lk_ops *ops = &graph->ops;
	for (uint32_t i = norm; i < product; i++)
		if (ops->kind[i] == LK_OP_ALLGATHER && ops->group[i] == LK_GROUP_TP)
			return 1. / fmax(1, graph->ranks.group[LK_GROUP_TP].size);
	return 1;
}

static void convert_block(lk_rewrite *rewrite, const lk_block *block) {
	const struct conversion *conversion = rewrite->context;
	const lk_graph *graph = rewrite->from;
	bool narrow = block_format(graph, block, conversion->dtype) >= LK_FP8;
	for (uint32_t i = block->begin; i < block->end; i++) {
		uint32_t next = i; /* what follows the communication from here on */
		while (next < block->end && lk_op_is_comm(graph->ops.kind[next])) next++;
		bool converts =
			narrow && next < block->end && product_converts(graph, next, conversion->rows);
		bool normed = converts && behind_norm(graph, block, next);
		if (normed && !conversion->how->norms && !lk_op_is_comm(graph->ops.kind[i - 1]))
			put_conversion(rewrite, block, next, norm_share(graph, i, next));
		if (converts && !normed && conversion_place(graph, block, next) == i)
			put_conversion(rewrite, block, next, 1);
		if (converts && next == i) put_weight(rewrite, block, i);
		lk_rewrite_copy(rewrite, block, i);
	}
}

static lk_status add_conversions(lk_edit *edit, lk_dtype dtype, const lk_conversion *how,
                                 lk_error *err) {
	struct rows r;
	find_rows(edit->graph, &r);
	return dtype >= LK_FP8 ? lk_edit_rewrite(edit, convert_block, NULL,
	                                         &(struct conversion){dtype, how, &r}, err)
	                       : LK_OK;
}

/* Bytes an element of rows that tensor parallelism gathers for a product: they are cast before, and
 * where factors of blocks differ between rows and columns, both copies of a gradient travel. What
 * is gathered beside the next product is the input of the weight's gradient. */
static double gathered_bytes(const lk_graph *graph, const lk_block *block, uint32_t i,
                             lk_dtype dtype) {
	const lk_ops *ops = &graph->ops;
	bool both = dtype == LK_MXFP8 || dtype == LK_NVFP4;
	uint32_t next = i + 1;
	while (next < block->end && lk_op_is_comm(ops->kind[next])) next++;
	bool gradient = ops->phase[i] == LK_PHASE_BACKWARD && next < block->end &&
	                product_waits_for(graph, block, next, i);
	return lk_dtype_bytes(dtype) * (both && gradient ? 2 : 1);
}

static void retype_block(lk_edit *edit, const lk_block *block, lk_dtype dtype) {
	lk_graph *graph = edit->graph;
	lk_ops *ops = &graph->ops;
	lk_dtype old = block_format(graph, block, (lk_dtype)graph->peak_dtype);
	double size = shape_stored(dtype) / shape_stored(old);
	for (uint32_t i = block->begin; i < block->end; i++) {
		unsigned kind = ops->kind[i];
		double factor = size;
		if (lk_op_multiplies(kind)) {
			edit->changed += ops->dtype[i] != dtype;
			retype_product(edit, i, dtype);
			continue;
		}
		if (kind == LK_OP_OPTIMIZER || ops->phase[i] == LK_PHASE_OPTIMIZER) continue;
		if (dtype < LK_FP8 && (lk_op_is_attention(kind) || shape_streams(kind)))
			ops->dtype[i] = (uint8_t)dtype;
		if (kind == LK_OP_ALLGATHER && ops->group[i] == LK_GROUP_TP)
			factor = gathered_bytes(graph, block, i, dtype) / gathered_bytes(graph, block, i, old);
		if (factor == 1 ||
		    !(lk_op_is_attention(kind) || shape_streams(kind) || lk_op_is_comm(kind)))
			continue;
		ops->bytes[i] *= factor;
		edit->changed++;
	}
}

lk_status lk_edit_dtype(lk_edit *edit, lk_dtype dtype, const lk_conversion *how, lk_error *err) {
	LK_TRY(add_conversions(edit, dtype, how, err));
	lk_graph *graph = edit->graph;
	edit->changed = 0;
	for (size_t b = 0; b < graph->blocks.count; b++) {
		const lk_block *block = &graph->blocks.at[b];
		retype_block(edit, block, block_format(graph, block, dtype));
	}
	graph->peak_dtype = dtype;
	return LK_OK;
}
