/* build_ops.c: how the builder adds operations: shapes to flops and bytes, joins, saved
 * activations. */
#include "model/build/build.h"
#include "base/check.h"

double lk_build_row_bytes(const lk_builder *builder) {
	return builder->bytes * builder->rows * builder->model->hidden;
}

double lk_build_mask_bytes(const lk_builder *builder) {
	return builder->model->dropout > 0 && !builder->job->compile
	           ? builder->rows * builder->model->hidden
	           : 0;
}

double lk_build_kept_bytes(const lk_builder *builder, double elements) {
	double operand = lk_job_operand_bytes(builder->job);
	return elements * (operand < builder->bytes ? operand : builder->bytes);
}

static uint32_t add_compute(lk_builder *builder, lk_op *op) {
	op->stream = LK_STREAM_COMPUTE;
	op->phase = builder->phase;
	op->join = builder->pending;
	builder->pending = 0;
	uint32_t dep = builder->needs - 1;
	lk_op with = *op;
	if (builder->needs) {
		with.deps = &dep;
		with.dep_count = 1;
	}
	builder->needs = 0;
	return lk_graph_add(builder->graph, &with);
}

uint32_t lk_build_gemm_batch(lk_builder *builder, const char *name, double m, double n, double k,
                             double batch) {
	LK_ASSERT(m >= 0 && n >= 0 && k >= 0 && batch >= 0);
	double operand = lk_job_operand_bytes(builder->job);
	if (operand > builder->bytes) operand = builder->bytes;
	lk_op op = {
		.kind = LK_OP_GEMM,
		.flags = lk_job_scales_rows(builder->job) ? LK_OP_ROW_FACTORS : 0,
		.dtype = (uint8_t)builder->job->dtype,
		.name = name,
		.m = m,
		.n = n,
		.k = k,
		.batch = batch,
		.flops = 2 * m * n * k * batch,
		.bytes = batch * ((m * k + k * n) * operand + m * n * builder->bytes),
	};
	return add_compute(builder, &op);
}

uint32_t lk_build_gemm(lk_builder *builder, const char *name, double m, double n, double k) {
	return lk_build_gemm_batch(builder, name, m, n, k, 1);
}

lk_dtype lk_build_core_format(const lk_builder *builder) {
	return builder->bytes > 2 ? builder->job->dtype : LK_BF16;
}

void lk_build_core_gemm(lk_builder *builder, const char *name, double m, double n, double k,
                        double batch) {
	lk_build_gemm_batch(builder, name, m, n, k, batch);
	lk_ops *ops = &builder->graph->ops;
	if (!ops->count || builder->graph->failed || builder->bytes > 2) return;
	ops->dtype[ops->count - 1] = lk_build_core_format(builder);
	ops->bytes[ops->count - 1] = batch * (m * k + k * n + m * n) * builder->bytes;
}

void lk_build_scan(lk_builder *builder, const char *name, lk_scan kind, const lk_state_layer *layer,
                   bool backward) {
	lk_state_work work = lk_state_work_of(layer);
	double tokens = layer->batch * layer->length,
		   times = backward ? lk_state_backward(layer->kernel) : 1;
	lk_op op = {.kind = backward ? LK_OP_SCAN_BWD : LK_OP_SCAN,
	            .dtype = (uint8_t)lk_build_core_format(builder),
	            .name = name,
	            .m = layer->length,
	            .n = work.chains,
	            .k = work.chunk,
	            .batch = layer->batch,
	            .window = work.key_channels,
	            .channel = (int32_t)kind,
	            .flops = tokens * (backward ? work.token_flops_back : work.token_flops),
	            .bytes = times * (tokens * work.token_bytes + layer->batch * work.sequence_bytes)};
	add_compute(builder, &op);
}

void lk_build_convolution(lk_builder *builder, const char *name, double channels, double length,
                          bool backward) {
	lk_state_layer layer = {.kernel = LK_STATE_CONVOLUTION,
	                        .batch = builder->tokens / length,
	                        .length = length,
	                        .channels = channels,
	                        .chunk = LK_CONVOLUTION_CHUNK};
	lk_build_scan(builder, name, LK_SCAN_CONVOLUTION, &layer, backward);
}

uint32_t lk_build_memory(lk_builder *builder, unsigned kind, const char *name, double bytes) {
	LK_ASSERT(bytes >= 0);
	lk_op op = {.kind = (uint8_t)kind, .name = name, .bytes = bytes, .dtype = LK_BF16};
	return add_compute(builder, &op);
}

uint32_t lk_build_norm_weight_grad(lk_builder *builder, double bytes) {
	lk_op op = {.kind = LK_OP_NORM,
	            .name = "norm_weight_grad",
	            .n = builder->model->hidden,
	            .bytes = bytes,
	            .dtype = LK_BF16};
	return add_compute(builder, &op);
}

lk_conversion lk_build_conversion(const lk_job *job, double stored) {
	bool tensor = job->dtype == LK_FP8 && job->fp8_recipe == LK_FP8_TENSORWISE,
		 delayed = job->dtype == LK_FP8 && job->fp8_recipe == LK_FP8_DELAYED;
	return (lk_conversion){
		.stored = stored,
		.operand = lk_job_operand_bytes(job),
		.largest = job->dtype == LK_NVFP4 ? 2 : tensor,
		.rows = lk_job_scales_rows(job),
		.norms = job->dtype == LK_MXFP8 || delayed,
		.weights = lk_job_casts_by_torchao(job),
	};
}

void lk_build_quantize(lk_builder *builder, double elements) {
	lk_conversion how = lk_build_conversion(builder->job, builder->bytes);
	lk_conversion_pass pass[LK_CONVERSION_PASSES];
	int passes = lk_conversion_passes(&how, pass);
	for (int i = 0; i < passes; i++)
		lk_build_memory(builder, LK_OP_ELEMENTWISE, pass[i].name, elements * pass[i].bytes);
}

/* Norms write the operand themselves, except where their result is also the residual stream (BERT),
 * or where its factors depend on it: Transformer Engine's norms cast only with delayed factors and
 * MXFP8's. */
void lk_build_quantize_normed(lk_builder *builder) {
	const lk_job *job = builder->job;
	bool residual = job->fused_kernels && builder->model->network == LK_NET_ENCODER &&
	                !builder->model->final_norm;
	/* torchao's tensor parallelism casts before it gathers only with factors of tensors */
	double rows = lk_job_scales_rows(job) ? builder->tokens : builder->rows;
	if (residual || !lk_build_conversion(job, builder->bytes).norms)
		lk_build_quantize(builder, rows * builder->model->hidden);
}

/* torchao casts a weight in every pass, as FSDP gathers it then. Transformer Engine casts it once a
 * step. */
static void quantize_weight(lk_builder *builder, double n, double k) {
	lk_conversion how = lk_build_conversion(builder->job, builder->bytes);
	double bytes = lk_conversion_weight_bytes(&how);
	if (bytes > 0) lk_build_memory(builder, LK_OP_ELEMENTWISE, "quantize_weight", n * k * bytes);
}

/* Transpose a product's narrow output for the weight gradient. */
void lk_build_transpose_narrow(lk_builder *builder, double elements) {
	double operand = lk_job_operand_bytes(builder->job);
	if (operand < builder->bytes)
		lk_build_memory(builder, LK_OP_ELEMENTWISE, "transpose", elements * 2 * operand);
}

uint32_t lk_build_collective(lk_builder *builder, unsigned kind, unsigned stream, unsigned group,
                             const char *name, double bytes, bool async) {
	LK_ASSERT(bytes >= 0 && stream != LK_STREAM_COMPUTE && group < LK_GROUPS);
	lk_op op = {
		.kind = (uint8_t)kind,
		.stream = (uint8_t)stream,
		.group = (uint8_t)group,
		.phase = builder->phase,
		.join = LK_JOIN(LK_STREAM_COMPUTE) | builder->pending,
		.name = name,
		.bytes = bytes,
	};
	/* what runs beside other kernels as a whole is not cut */
	if (stream == LK_STREAM_TP && !async && builder->job->tp_overlap == LK_ON)
		op.flags = LK_OP_OVERLAPPED;
	if (!async) builder->pending |= LK_JOIN(stream);
	return lk_graph_add(builder->graph, &op);
}

void lk_build_cp_heads(lk_builder *builder, const char *name, double columns) {
	if (builder->job->cp > 1)
		lk_build_collective(builder, LK_OP_ALLTOALL, LK_STREAM_CP, LK_GROUP_CP, name,
		                    builder->bytes * builder->tokens * columns, false);
}

void lk_build_wait(lk_builder *builder, unsigned stream) {
	LK_ASSERT(stream != LK_STREAM_COMPUTE);
	builder->pending |= LK_JOIN(stream);
}

static lk_ops *columns(lk_builder *builder, uint32_t *last) {
	*last = builder->graph->ops.count ? builder->graph->ops.count - 1 : 0;
	return &builder->graph->ops;
}

/* The operation that carries a change of memory: the last of the block; a WAIT for nothing, which
 * takes no time, if the block is empty or that operation changes another owner's memory. */
static lk_ops *carrier(lk_builder *builder, double *const *column, uint8_t *const *owners,
                       unsigned owner, uint32_t *last) {
	lk_ops *ops = columns(builder, last);
	bool empty =
		builder->graph->blocks.count && lk_last(&builder->graph->blocks)->begin == ops->count;
	if (builder->graph->failed || !(empty || ((*column)[*last] > 0 && (*owners)[*last] != owner)))
		return ops;
	lk_op op = {
		.kind = LK_OP_WAIT, .stream = LK_STREAM_COMPUTE, .phase = builder->phase, .name = "memory"};
	lk_graph_add(builder->graph, &op);
	return columns(builder, last);
}

void lk_build_save(lk_builder *builder, double bytes, unsigned owner) {
	LK_ASSERT(owner < LK_OWNERS);
	uint32_t i;
	lk_ops *ops =
		carrier(builder, &builder->graph->ops.alloc, &builder->graph->ops.alloc_owner, owner, &i);
	if (!ops->count) return;
	ops->alloc[i] += bytes;
	ops->alloc_owner[i] = (uint8_t)owner;
	builder->saved += bytes;
}

void lk_build_release(lk_builder *builder, double bytes, unsigned owner) {
	LK_ASSERT(owner < LK_OWNERS);
	uint32_t i;
	lk_ops *ops = carrier(builder, &builder->graph->ops.release, &builder->graph->ops.release_owner,
	                      owner, &i);
	if (!ops->count) return;
	ops->release[i] += bytes;
	ops->release_owner[i] = (uint8_t)owner;
	builder->saved -= bytes;
}

/* Other stacks' replay by operation keeps attention, but not the scores of unfused attention. */
bool lk_build_runs_again(const lk_builder *builder, lk_module module) {
	if (builder->replays)
		return module == LK_MODULE_CORE_ATTN && builder->job->attn_kernel == LK_KERNEL_UNFUSED;
	return lk_job_recomputes(builder->job, module);
}

void lk_build_forget(lk_builder *builder, double before, double kept) {
	lk_build_release(builder, builder->saved - before - kept, LK_OWN_ACTIVATIONS);
}

void lk_build_begin_again(lk_builder *builder) {
	builder->phase = LK_PHASE_RECOMPUTE;
}

void lk_build_end_again(lk_builder *builder) {
	builder->phase = LK_PHASE_BACKWARD;
}

void lk_build_scratch(lk_builder *builder, double bytes, unsigned owner) {
	LK_ASSERT(owner < LK_OWNERS);
	uint32_t i;
	lk_ops *ops = columns(builder, &i);
	if (!ops->count || ops->alloc[i] > 0 || ops->release[i] > 0) return; /* already counted there */
	ops->alloc[i] = ops->release[i] = bytes;
	ops->alloc_owner[i] = ops->release_owner[i] = (uint8_t)owner;
}

/* ---- tensor parallelism around linear layers (Megatron-LM; sequence parallelism: arXiv
 * 2205.05198, figure 5) ---- */

static double full_rows_bytes(const lk_builder *builder) {
	return builder->tokens * builder->model->hidden * builder->bytes;
}

/* Of rows that products alone read: they are cast before they are gathered, but where a factor
 * needs the whole row (Transformer Engine's gather_along_first_dim; torchtitan's
 * Float8ColwiseParallel). */
static double operand_rows_bytes(const lk_builder *builder) {
	if (lk_job_scales_rows(builder->job)) return full_rows_bytes(builder);
	return lk_build_kept_bytes(builder, builder->tokens * builder->model->hidden);
}

void lk_build_tp_enter(lk_builder *builder, const char *name) {
	if (builder->tp > 1 && builder->sp)
		lk_build_collective(builder, LK_OP_ALLGATHER, LK_STREAM_TP, LK_GROUP_TP, name,
		                    operand_rows_bytes(builder), false);
}

void lk_build_tp_leave(lk_builder *builder, const char *name) {
	if (builder->tp > 1)
		lk_build_collective(builder, builder->sp ? LK_OP_REDUCESCATTER : LK_OP_ALLREDUCE,
		                    LK_STREAM_TP, LK_GROUP_TP, name, full_rows_bytes(builder), false);
}

void lk_build_tp_leave_backward(lk_builder *builder, const char *name) {
	/* factors of blocks differ between rows and columns: both copies travel */
	lk_dtype dtype = builder->job->dtype;
	double copies = dtype == LK_MXFP8 || dtype == LK_NVFP4 ? 2 : 1;
	if (builder->tp > 1 && builder->sp)
		lk_build_collective(builder, LK_OP_ALLGATHER, LK_STREAM_TP, LK_GROUP_TP, name,
		                    copies * operand_rows_bytes(builder), false);
}

/* y[tokens, n] = x[tokens, k] w: the weight's gradient, added to the main gradient if that is in
 * fp32. */
static void ops_weight_grad(lk_builder *builder, double n, double k) {
	lk_build_gemm(builder, "weight_grad", n, k, builder->tokens);
	if (builder->job->fp32_grads == LK_ON) {
		uint32_t i;
		lk_ops *ops = columns(builder, &i);
		if (ops->count) ops->bytes[i] += n * k * (8 - builder->bytes);
	}
}

/* Overlap the gather of the input with the input gradient's product, the reduction with the weight
 * gradient's. */
void lk_build_column_backward(lk_builder *builder, const char *name, double n, double k, bool input,
                              bool weight) {
	bool comm = builder->tp > 1, gather = comm && builder->sp && weight;
	if (input) lk_build_quantize(builder, builder->tokens * n);
	uint32_t gathered = 0;
	if (gather)
		gathered = 1 + lk_build_collective(builder, LK_OP_ALLGATHER, LK_STREAM_TP, LK_GROUP_TP,
		                                   "gather_input", operand_rows_bytes(builder), true);
	if (input) quantize_weight(builder, n, k);
	if (input) lk_build_gemm(builder, name, builder->tokens, k, n);
	if (comm && input)
		lk_build_collective(builder, builder->sp ? LK_OP_REDUCESCATTER : LK_OP_ALLREDUCE,
		                    LK_STREAM_TP, LK_GROUP_TP, "reduce_input_grad",
		                    full_rows_bytes(builder), true);
	builder->needs = gathered;
	if (weight) ops_weight_grad(builder, n, k);
	if (comm && input) lk_build_wait(builder, LK_STREAM_TP);
}

void lk_build_row_backward(lk_builder *builder, const char *name, double n, double k, bool input,
                           bool weight) {
	if (input) lk_build_quantize(builder, builder->tokens * n);
	if (input) quantize_weight(builder, n, k);
	if (input) lk_build_gemm(builder, name, builder->tokens, k, n);
	if (weight) ops_weight_grad(builder, n, k);
}

void lk_build_bias_grad(lk_builder *builder, const char *name, double rows, double columns) {
	if (!builder->job->fused_kernels)
		lk_build_memory(builder, LK_OP_ELEMENTWISE, name, builder->bytes * rows * columns);
}
