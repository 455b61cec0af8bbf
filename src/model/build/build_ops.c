/* build_ops.c: how the builder adds operations: shapes to flops and bytes, joins, saved activations. */
#include "model/build/build.h"

double lk_build_row_bytes(const lk_builder *b) {
	return b->bytes * b->rows * b->model->hidden;
}

double lk_build_residual_bytes(const lk_builder *b) {
	return (b->job->compile ? 1 : 3) * lk_build_row_bytes(b);
}

double lk_build_mask_bytes(const lk_builder *b) {
	return b->model->dropout > 0 && !b->job->compile ? b->rows * b->model->hidden : 0;
}

double lk_build_kept_bytes(const lk_builder *b, double elements) {
	double operand = lk_dtype_bytes(b->job->dtype);
	return elements * (operand < b->bytes ? operand : b->bytes);
}

static uint32_t add_compute(lk_builder *b, lk_op *op) {
	op->stream = LK_STREAM_COMPUTE;
	op->phase = b->phase;
	op->join = b->pending;
	b->pending = 0;
	uint32_t dep = b->needs - 1;
	lk_op with = *op;
	if (b->needs) with.deps = &dep, with.dep_count = 1;
	b->needs = 0;
	return lk_graph_add(b->graph, &with);
}

uint32_t lk_build_gemm_batch(lk_builder *b, const char *name, double m, double n, double k, double batch) {
	double operand = lk_dtype_bytes(b->job->dtype);
	if (operand > b->bytes) operand = b->bytes;
	lk_op op = {
		.kind = LK_OP_GEMM,
		.dtype = (uint8_t)b->job->dtype,
		.name = name,
		.m = m,
		.n = n,
		.k = k,
		.batch = batch,
		.flops = 2 * m * n * k * batch,
		.bytes = batch * ((m * k + k * n) * operand + m * n * b->bytes),
	};
	return add_compute(b, &op);
}

uint32_t lk_build_gemm(lk_builder *b, const char *name, double m, double n, double k) {
	return lk_build_gemm_batch(b, name, m, n, k, 1);
}

uint32_t lk_build_memory(lk_builder *b, unsigned kind, const char *name, double bytes) {
	lk_op op = {.kind = (uint8_t)kind, .name = name, .bytes = bytes, .dtype = LK_BF16};
	return add_compute(b, &op);
}

uint32_t lk_build_norm_weight_grad(lk_builder *b, double bytes) {
	lk_op op = {.kind = LK_OP_NORM, .name = "norm_weight_grad", .n = b->model->hidden, .bytes = bytes, .dtype = LK_BF16};
	return add_compute(b, &op);
}

/* 8- and 4-bit products read operands that a kernel of their own has scaled, cast and, for the weight gradient,
 * transposed: read once in 16 bits, written twice (Transformer Engine's cast-transpose). */
void lk_build_quantize(lk_builder *b, double elements) {
	double operand = lk_dtype_bytes(b->job->dtype);
	if (operand < b->bytes) lk_build_memory(b, LK_OP_ELEMENTWISE, "quantize", elements * (b->bytes + 2 * operand));
}

/* Behind a norm whose result is the residual stream, too (BERT), the cast is a kernel of its own; else the norm writes
 * the operand itself. */
void lk_build_quantize_normed(lk_builder *b) {
	if (b->job->fused_kernels && b->model->network == LK_NET_ENCODER && !b->model->final_norm)
		lk_build_quantize(b, b->rows * b->model->hidden);
}

/* What a product wrote in its narrow format is transposed for the weight gradient. */
void lk_build_transpose_narrow(lk_builder *b, double elements) {
	double operand = lk_dtype_bytes(b->job->dtype);
	if (operand < b->bytes) lk_build_memory(b, LK_OP_ELEMENTWISE, "transpose", elements * 2 * operand);
}

uint32_t lk_build_collective(lk_builder *b, unsigned kind, unsigned stream, unsigned group, const char *name,
							 double bytes, bool async) {
	lk_op op = {
		.kind = (uint8_t)kind,
		.stream = (uint8_t)stream,
		.group = (uint8_t)group,
		.phase = b->phase,
		.join = LK_JOIN(LK_STREAM_COMPUTE) | b->pending,
		.name = name,
		.bytes = bytes,
	};
	if (stream == LK_STREAM_TP && b->job->tp_overlap == LK_ON) op.flags = LK_OP_OVERLAPPED;
	if (!async) b->pending |= LK_JOIN(stream);
	return lk_graph_add(b->graph, &op);
}

void lk_build_wait(lk_builder *b, unsigned stream) {
	b->pending |= LK_JOIN(stream);
}

static lk_ops *columns(lk_builder *b, uint32_t *last) {
	*last = b->graph->ops.count ? b->graph->ops.count - 1 : 0;
	return &b->graph->ops;
}

/* A change of memory stands at the last operation of the block; where there is none yet, or where that one changes the
 * memory of another owner, at a WAIT for nothing, which takes no time. */
static lk_ops *carrier(lk_builder *b, double *const *column, uint8_t *const *owners, unsigned owner, uint32_t *last) {
	lk_ops *ops = columns(b, last);
	bool empty = b->graph->blocks.count && lk_last(&b->graph->blocks)->begin == ops->count;
	if (b->graph->failed || !(empty || ((*column)[*last] > 0 && (*owners)[*last] != owner))) return ops;
	lk_op op = {.kind = LK_OP_WAIT, .stream = LK_STREAM_COMPUTE, .phase = b->phase, .name = "memory"};
	lk_graph_add(b->graph, &op);
	return columns(b, last);
}

void lk_build_save(lk_builder *b, double bytes, unsigned owner) {
	uint32_t i;
	lk_ops *ops = carrier(b, &b->graph->ops.alloc, &b->graph->ops.alloc_owner, owner, &i);
	if (!ops->count) return;
	ops->alloc[i] += bytes;
	ops->alloc_owner[i] = (uint8_t)owner;
	b->saved += bytes;
}

void lk_build_release(lk_builder *b, double bytes, unsigned owner) {
	uint32_t i;
	lk_ops *ops = carrier(b, &b->graph->ops.release, &b->graph->ops.release_owner, owner, &i);
	if (!ops->count) return;
	ops->release[i] += bytes;
	ops->release_owner[i] = (uint8_t)owner;
	b->saved -= bytes;
}

void lk_build_scratch(lk_builder *b, double bytes, unsigned owner) {
	uint32_t i;
	lk_ops *ops = columns(b, &i);
	if (!ops->count || ops->alloc[i] > 0 || ops->release[i] > 0) return; /* already counted there */
	ops->alloc[i] = ops->release[i] = bytes;
	ops->alloc_owner[i] = ops->release_owner[i] = (uint8_t)owner;
}

/* ---- tensor parallelism around linear layers (Megatron-LM; sequence parallelism: arXiv 2205.05198, figure 5) ---- */

static double full_rows_bytes(const lk_builder *b) {
	return b->tokens * b->model->hidden * b->bytes;
}

void lk_build_tp_enter(lk_builder *b, const char *name) {
	if (b->tp > 1 && b->sp)
		lk_build_collective(b, LK_OP_ALLGATHER, LK_STREAM_TP, LK_GROUP_TP, name, full_rows_bytes(b), false);
}

void lk_build_tp_leave(lk_builder *b, const char *name) {
	if (b->tp > 1)
		lk_build_collective(b, b->sp ? LK_OP_REDUCESCATTER : LK_OP_ALLREDUCE, LK_STREAM_TP, LK_GROUP_TP, name,
							full_rows_bytes(b), false);
}

void lk_build_tp_leave_backward(lk_builder *b, const char *name) {
	if (b->tp > 1 && b->sp)
		lk_build_collective(b, LK_OP_ALLGATHER, LK_STREAM_TP, LK_GROUP_TP, name, full_rows_bytes(b), false);
}

/* y[tokens, n] = x[tokens, k] w: the weight's gradient, added to the main gradient where that is kept in fp32. */
static void weight_grad(lk_builder *b, double n, double k) {
	lk_build_gemm(b, "weight_grad", n, k, b->tokens);
	if (b->job->fp32_grads == LK_ON) {
		uint32_t i;
		lk_ops *ops = columns(b, &i);
		if (ops->count) ops->bytes[i] += n * k * (8 - b->bytes);
	}
}

/* The gather of the input runs beside the input gradient's product, the reduction beside the weight gradient's. */
void lk_build_column_backward(lk_builder *b, const char *name, double n, double k, bool input, bool weight) {
	bool comm = b->tp > 1, gather = comm && b->sp && weight;
	if (input) lk_build_quantize(b, b->tokens * n);
	uint32_t gathered = 0;
	if (gather)
		gathered = 1 + lk_build_collective(b, LK_OP_ALLGATHER, LK_STREAM_TP, LK_GROUP_TP, "gather_input",
										   full_rows_bytes(b), true);
	if (input) lk_build_gemm(b, name, b->tokens, k, n);
	if (comm && input)
		lk_build_collective(b, b->sp ? LK_OP_REDUCESCATTER : LK_OP_ALLREDUCE, LK_STREAM_TP, LK_GROUP_TP,
							"reduce_input_grad", full_rows_bytes(b), true);
	b->needs = gathered;
	if (weight) weight_grad(b, n, k);
	if (comm && input) lk_build_wait(b, LK_STREAM_TP);
}

void lk_build_row_backward(lk_builder *b, const char *name, double n, double k, bool input, bool weight) {
	if (input) lk_build_quantize(b, b->tokens * n);
	if (input) lk_build_gemm(b, name, b->tokens, k, n);
	if (weight) weight_grad(b, n, k);
}

void lk_build_bias_grad(lk_builder *b, const char *name, double rows, double columns) {
	if (!b->job->fused_kernels) lk_build_memory(b, LK_OP_ELEMENTWISE, name, b->bytes * rows * columns);
}
