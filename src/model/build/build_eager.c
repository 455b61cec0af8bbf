/* build_eager.c: element-wise work that nothing fuses: the networks of Hugging Face's transformers
 * as written, one kernel per operation. Each reads its operands and writes its result, and
 * PyTorch's autograd keeps what a gradient reads (tools/autograd/derivatives.yaml).
 * docs/method/memory.md, "Code that nothing fuses", derives every number.
 *
 * Elements have `bytes` as operands and results of products, `wide` in the residual stream, which
 * is fp32 with autocast, and 4 where the code requires fp32. */
#include <math.h>

#include "model/build/build.h"
#include "model/layout/job.h"

/* An operation as `count` kernels of equal size. */
static void kernels(lk_builder *builder, unsigned kind, const char *name, double bytes, int count) {
	for (int i = 0; i < count; i++) lk_build_memory(builder, kind, name, bytes / count);
}

/* Bytes of casting one element between formats; 0 if they are the same. */
static double cast(double from, double to) {
	return from == to ? 0 : from + to;
}

/* ---- norms ---- */

static bool is_rms(const lk_builder *builder) {
	return builder->model->norm == LK_NORM_RMS;
}

/* Bytes per element that an RMS norm moves in six kernels: to fp32, square, mean, times the inverse
 * root, back, times the weight. Backward: times the weight, cast; by the root and by the input,
 * which is summed; the square's gradient in three steps, the sum of both, cast. The weight's own
 * gradient is separate. Without casts there are two kernels fewer. */
static double rms_forward(double wide) {
	return 2 * cast(wide, 4) + 8 + 4 + 8 + 2 * wide;
}

static double rms_backward(double wide) {
	return 2 * wide + 2 * cast(wide, 4) + 8 + 12 + 4 + 24 + 12;
}

enum { RMS_FORWARD = 6, RMS_BACKWARD = 10, RMS_CASTS = 2 };

double lk_build_norm_held(const lk_builder *builder, double elements) {
	if (!builder->eager || !is_rms(builder)) return builder->wide * elements;
	/* the input in fp32; normalised, for the gradient of the weight */
	return elements * (4 + (builder->train_base ? builder->wide : 0));
}

double lk_build_norm_made(const lk_builder *builder, double elements, int readers) {
	/* a compiler makes one copy for several products */
	bool each = builder->wide > builder->bytes && !builder->job->compile;
	double copies = each ? readers : 1;
	return copies * lk_build_kept_bytes(builder, elements);
}

void lk_build_norm(lk_builder *builder, const char *name, double elements, int readers) {
	double wide = builder->wide, out = readers * cast(wide, builder->bytes);
	if (!builder->eager) {
		lk_build_memory(builder, LK_OP_NORM, name, (wide + builder->bytes) * elements);
		return;
	}
	int casts = wide > builder->bytes ? readers : 0;
	if (!is_rms(builder)) {
		kernels(builder, LK_OP_NORM, name, elements * (2 * wide + out), 1 + casts);
		return;
	}
	kernels(builder, LK_OP_NORM, name, elements * (rms_forward(wide) + out),
	        RMS_FORWARD - (wide < 4 ? 0 : RMS_CASTS) + casts);
}

void lk_build_norm_grad(lk_builder *builder, const char *name, double elements, int readers) {
	double wide = builder->wide, bytes = builder->bytes;
	if (!builder->eager) {
		lk_build_memory(builder, LK_OP_NORM, name, (2 * wide + bytes) * elements);
		if (builder->train_base) lk_build_norm_weight_grad(builder, 2 * bytes * elements);
		return;
	}
	/* gradients of the readers, each cast back, are added */
	bool narrow = wide > bytes;
	double in = readers * cast(bytes, wide) + (readers - 1) * 3 * wide;
	int sums = (narrow ? readers : 0) + readers - 1;
	if (!is_rms(builder)) {
		kernels(builder, LK_OP_NORM, name, elements * (3 * wide + in), 1 + sums);
		if (builder->train_base) lk_build_norm_weight_grad(builder, 2 * wide * elements);
		return;
	}
	kernels(builder, LK_OP_NORM, name, elements * (in + rms_backward(wide)),
	        RMS_BACKWARD - (wide < 4 ? 0 : RMS_CASTS) + sums);
	if (builder->train_base) lk_build_norm_weight_grad(builder, 4 * wide * elements);
}

/* Query and key heads: the norm reads a product's output, so it is cast to fp32 and back whatever
 * the stream's format. */
double lk_build_heads_norm_held(const lk_builder *builder, double elements) {
	if (!builder->eager) return builder->bytes * elements;
	return elements * (4 + (builder->train_base ? builder->bytes : 0));
}

void lk_build_heads_norm(lk_builder *builder, double elements, bool backward) {
	const char *name = backward ? "qk_norm_grad" : "qk_norm";
	double bytes = builder->bytes, each = backward ? rms_backward(bytes) : rms_forward(bytes);
	if (!builder->eager) {
		lk_build_memory(builder, LK_OP_NORM, name, (backward ? 3 : 2) * bytes * elements);
		return;
	}
	if (backward && builder->train_base) each += 4 * bytes;
	/* queries and keys separately */
	kernels(builder, LK_OP_NORM, name, elements * each,
	        2 * (backward ? RMS_BACKWARD : RMS_FORWARD));
}

/* ---- rotary positions ---- */

/* q cos + rotate_half(q) sin, whose halves are negated and joined; with autocast cos and sin are
 * fp32. */
void lk_build_rotary(lk_builder *builder, const char *name, double elements, bool backward) {
	double bytes = builder->bytes, made = builder->wide;
	if (!builder->eager) {
		lk_build_memory(builder, LK_OP_ELEMENTWISE, name, 2 * bytes * elements);
		return;
	}
	double halves = 3 * bytes;
	double each = backward
	                  ? cast(made, bytes) + 4 * made + 2 * cast(made, bytes) + halves + 3 * bytes
	                  : 2 * (bytes + made) + halves + 3 * made + cast(made, bytes);
	kernels(builder, LK_OP_ELEMENTWISE, name, elements * each, 5 + (made > bytes));
}

/* ---- activations ---- */

/* GELU step by step, 0.5 x (1 + tanh(c (x + d x^3))): autocast raises the power to fp32, and
 * everything computed from it. */
static double steps_forward(double bytes, double wide) {
	const double one = 2 * wide, /* power, two factors, tanh, 1 + */
		both = bytes + 2 * wide; /* the sum with x, the product with half of it */
	return cast(bytes, wide) + 5 * one + 2 * both + 2 * bytes /* half */ + cast(wide, bytes);
}

static double steps_backward(double bytes, double wide) {
	double product = 3 * wide + 2 * wide + bytes, tanh_and_factors = 3 * wide + 2 * 2 * wide,
		   power = 7 * wide;
	return 4 * cast(wide, bytes) + product + tanh_and_factors + power + 2 * bytes /* half */ +
	       2 * 3 * bytes /* sums of three paths */;
}

/* Bytes kept per element in addition to a single kernel's input and result. */
static double steps_kept(double bytes, double wide) {
	/* the power's input in fp32; tanh, 1 + tanh, half of the input */
	return wide - bytes + 2 * wide + bytes;
}

double lk_build_activation_kept(const lk_builder *builder, double inner) {
	const lk_model *model = builder->model;
	if (!builder->eager) return 0;
	double bytes = builder->bytes, each = model->gated ? bytes : 0; /* with a gate: its result */
	if (model->activation == LK_ACT_STEPS) each += steps_kept(bytes, builder->wide);
	if (model->activation == LK_ACT_RELU) each -= bytes;
	return each * inner;
}

void lk_build_activation(lk_builder *builder, const char *name, double inner, bool backward) {
	const lk_model *model = builder->model;
	double bytes = builder->bytes, wide = builder->wide, each = (backward ? 3 : 2) * bytes;
	int count = 1;
	if (model->activation == LK_ACT_STEPS) {
		each = backward ? steps_backward(bytes, wide) : steps_forward(bytes, wide);
		count = backward ? 12 : 8;
		if (wide > bytes) count += backward ? 4 : 2;
	}
	if (model->gated) { /* times the other half; backward, one product each */
		each += (backward ? 6 : 3) * bytes;
		count += backward ? 2 : 1;
	}
	kernels(builder, LK_OP_ELEMENTWISE, name, inner * each, count);
}

/* ---- the residual stream ---- */

double lk_build_stream_bytes(const lk_builder *builder) {
	return builder->wide * builder->rows * builder->model->hidden;
}

void lk_build_residual(lk_builder *builder, const char *name, bool backward) {
	double elements = builder->rows * builder->model->hidden, bytes = builder->bytes,
		   wide = builder->wide;
	if (!builder->eager) { /* torch.compile folds the sum into the next norm */
		double each = builder->job->compile ? wide : 2 * wide + bytes;
		lk_build_memory(builder, LK_OP_ELEMENTWISE, name, each * elements);
		return;
	}
	bool drops = builder->model->dropout > 0;
	double each = backward ? 3 * wide + cast(wide, bytes) : 2 * wide + bytes;
	if (drops) each += 2 * bytes + 1;
	kernels(builder, LK_OP_ELEMENTWISE, name, elements * each,
	        1 + drops + (backward && wide > bytes));
}

/* Autocast casts every weight for each forward pass, and its gradient back. */
void lk_build_cast_weights(lk_builder *builder, int layer, bool backward) {
	if (builder->wide == builder->bytes) return;
	lk_rank_params p = lk_sizes_layer(builder->job, layer);
	double weights = p.trained_dense + p.trained_experts;
	lk_build_memory(builder, LK_OP_ELEMENTWISE, backward ? "cast_gradients" : "cast_weights",
	                weights * cast(builder->bytes, 4));
}

/* ---- gradients ---- */

bool lk_build_late_gradients(const lk_job *job) {
	bool single = lk_sizes_dp_ranks(job) == 1 && lk_sizes_edp_ranks(job) == 1 && job->pp == 1 &&
	              job->model.tower.layers == 0 && job->model.mtp_layers == 0;
	if (!lk_job_runs_as_written(job) || !single || job->microbatches != 1 || job->forward_only ||
	    job->sharding != LK_SHARD_NONE || job->offload_optimizer || job->optimizer_in_backward)
		return false;
	/* not with shared weights: their gradients exist after the first of those layers */
	lk_rank_params all = lk_sizes_stage(job, 0), sum = lk_sizes_head(job);
	lk_rank_params_add(&sum, lk_sizes_embedding(job));
	for (int layer = 0; layer < job->model.layers + job->model.decoder_layers; layer++)
		lk_rank_params_add(&sum, lk_sizes_layer(job, layer));
	return fabs(sum.trained_dense + sum.trained_experts - all.trained_dense - all.trained_experts) <
	       0.5;
}

/* Parameters of a rank's piece of the block's largest tensor. */
static double largest_tensor(const lk_job *job, int layer, lk_rank_params part) {
	lk_rank_tensors tensors[LK_LAYER_TENSORS];
	double dense = 1, experts = 1, most = 0;
	if (job->sharding == LK_SHARD_ZERO3) lk_sizes_shards(job, &dense, &experts);
	int kinds = lk_sizes_tensors(job, layer, part, tensors);
	for (int i = 0; i < kinds; i++)
		most = fmax(most, tensors[i].dense / dense + tensors[i].experts / experts);
	return most;
}

void lk_build_gradients(lk_builder *builder, int layer, lk_rank_params part) {
	const lk_job *job = builder->job;
	if (job->optimizer_in_backward) {
		double largest = largest_tensor(job, layer, part);
		lk_build_scratch(builder,
		                 lk_sizes_shard_gradient_bytes(job) * largest +
		                     lk_build_update_scratch(job, largest),
		                 LK_OWN_GRADIENTS);
	}
	if (!builder->late_gradients) return;
	double bytes =
			   lk_sizes_gradient_bytes(builder->job) * (part.trained_dense + part.trained_experts),
		   saved = builder->saved;
	lk_build_save(builder, bytes, LK_OWN_GRADIENTS);
	builder->saved = saved;
}
