/* build_loss.c: the product with the vocabulary and the cross-entropy over it, split over
 * tensor-parallel ranks, by how many logits exist at a time (job_loss.c; docs/method/memory.md,
 * "Logits").
 *
 * Losses in pieces compute each piece's products and their gradients in the forward pass, and keep
 * gradients instead of logits: those of the hidden states replace the product's input, those of the
 * weights are added. */
#include <math.h>

#include "model/build/build.h"
#include "model/layout/job.h"
#include "base/check.h"

/* A block has few operations: more pieces than this are priced as this many. */
static const double MOST_PIECES = 256;

/* torchtune's CEWithChunkedOutputLoss (num_output_chunks). */
enum { OUTPUT_PIECES = 8 };

/* Cut Cross-Entropy skips, for both gradients, blocks without a probability over 2^-12. With the
 * recomputed logits the backward pass takes 2.2 times as long as the forward pass (arXiv
 * 2411.09009, table 1): half of the blocks. */
static const double CUT_SHARE = .5;

static double vocabulary(const lk_builder *builder) {
	return builder->job->padded_vocab / builder->tp;
}

static bool in_place(const lk_builder *builder) {
	lk_loss_kind loss = builder->job->loss;
	return loss == LK_LOSS_LINEAR || loss == LK_LOSS_OUTPUTS ||
	       builder->job->fused_cross_entropy == LK_ON;
}

/* Bytes per logit: peak in the loss, kept until the backward pass, peak in its gradient. */
struct lk_logit_bytes {
	double forward, kept, backward;
};

/* Megatron-LM makes one fp32 copy, which exponentials, softmax and gradient overwrite
 * (core/tensor_parallel/cross_entropy.py); its native fusion makes a second one. PyTorch's
 * cross_entropy makes a second one for the logarithm, which it keeps, and in the backward pass the
 * gradients of both, while the caller still holds the 16-bit logits (Hugging Face's Trainer does
 * not); compiled, it goes from 16 bits to 16 bits. Transformer Engine's and Liger's kernels
 * overwrite the logits with the gradient. */
static struct lk_logit_bytes logit_bytes(const lk_builder *builder) {
	double narrow = builder->bytes;
	if (in_place(builder) && !builder->job->native_loss_fusion)
		return (struct lk_logit_bytes){narrow, narrow, narrow};
	if (builder->job->compile) return (struct lk_logit_bytes){narrow, narrow, 2 * narrow};
	if (lk_job_runs_as_written(builder->job)) return (struct lk_logit_bytes){narrow + 8, 4, 12};
	if (!lk_job_like_megatron(builder->job))
		return (struct lk_logit_bytes){narrow + 8, narrow + 4, narrow + 12};
	return (struct lk_logit_bytes){narrow + (in_place(builder) ? 8 : 4), 4, narrow + 4};
}

/* Vocabulary-parallel cross-entropy: maximum, predicted logit and sum of exponentials are reduced
 * over TP. */
static void loss_reduce(lk_builder *builder) {
	static const char *const names[] = {"loss_max", "loss_target", "loss_sum"};
	for (int i = 0; i < 3 && builder->tp > 1; i++)
		lk_build_collective(builder, LK_OP_ALLREDUCE, LK_STREAM_TP, LK_GROUP_TP, names[i],
		                    4 * builder->tokens, false);
}

static void cross_entropy(lk_builder *builder) {
	double logits = builder->tokens * vocabulary(builder);
	struct lk_logit_bytes each = logit_bytes(builder);
	lk_build_memory(builder, LK_OP_LOSS, "cross_entropy",
	                logits * (in_place(builder) ? builder->bytes : builder->bytes + 4 * 4));
	lk_build_save(builder, logits * each.forward, LK_OWN_LOGITS);
	loss_reduce(builder);
	if (!in_place(builder)) lk_build_memory(builder, LK_OP_LOSS, "softmax_divide", logits * 8);
	lk_build_release(builder, logits * (each.forward - each.kept), LK_OWN_LOGITS);
}

/* From what was kept of the logits to their 16-bit gradient. */
static void cross_entropy_grad(lk_builder *builder) {
	double logits = builder->tokens * vocabulary(builder);
	struct lk_logit_bytes each = logit_bytes(builder);
	lk_build_memory(builder, LK_OP_LOSS, "cross_entropy_grad",
	                logits * (in_place(builder) ? 2 * builder->bytes : 8 + builder->bytes));
	lk_build_save(builder, logits * (each.backward - each.kept), LK_OWN_LOGITS);
	lk_build_release(builder, logits * (each.backward - builder->bytes), LK_OWN_LOGITS);
}

static void loss_product(lk_builder *builder, const char *name) {
	lk_build_gemm(builder, name, builder->tokens, vocabulary(builder), builder->model->hidden);
}

static void loss_product_grad(lk_builder *builder) {
	lk_build_column_backward(builder, "lm_head_grad", vocabulary(builder), builder->model->hidden,
	                         true, builder->train_base);
}

/* Logits that a value head's class computes and widens to fp32, and that nothing reads (TRL,
 * models/modeling_value_head.py). */
void lk_build_loss_unread(lk_builder *builder) {
	double wide = builder->bytes < 4 ? 4 : 0;
	loss_product(builder, "lm_head");
	if (wide > 0)
		lk_build_memory(builder, LK_OP_LOSS, "widen_logits",
		                builder->tokens * vocabulary(builder) * (builder->bytes + wide));
	lk_build_scratch(builder, builder->tokens * vocabulary(builder) * (builder->bytes + wide),
	                 LK_OWN_LOGITS);
}

/* ---- all logits at once ---- */

static void whole_forward(lk_builder *builder, double saved) {
	loss_product(builder, "lm_head");
	lk_build_save(builder, saved, LK_OWN_ACTIVATIONS);
	cross_entropy(builder);
	if (builder->job->teacher) /* both distributions */
		lk_build_memory(builder, LK_OP_LOSS, "distillation",
		                2 * builder->bytes * builder->tokens * vocabulary(builder));
}

/* Gradients of the weights, accumulated over pieces; 0 if there are fp32 main gradients. */
static double gradient_sum(const lk_builder *builder) {
	if (!builder->train_base || builder->job->fp32_grads == LK_ON) return 0;
	return builder->bytes * vocabulary(builder) * builder->model->hidden;
}

/* Add the weights' gradients of so many pieces: `made` of them exist along with the first. */
static void sum_gradients(lk_builder *builder, int pieces, int made) {
	double sum = gradient_sum(builder);
	if (sum <= 0) return;
	lk_build_memory(builder, LK_OP_ELEMENTWISE, "sum_head_grad", 3 * sum * pieces);
	lk_build_scratch(builder, sum * made, LK_OWN_GRADIENTS);
}

static void whole_backward(lk_builder *builder) {
	double bytes = builder->bytes * builder->tokens * vocabulary(builder);
	if (builder->job->teacher) /* reads both, adds to the gradient */
		lk_build_memory(builder, LK_OP_LOSS, "distillation_grad", 3 * bytes);
	cross_entropy_grad(builder);
	loss_product_grad(builder);
	/* autograd adds the gradients of two uses of a tensor into a third one */
	if (builder->job->loss == LK_LOSS_OUTPUTS) sum_gradients(builder, OUTPUT_PIECES - 1, 2);
	lk_build_release(builder, bytes, LK_OWN_LOGITS);
}

/* ---- in pieces ---- */

static void piece(lk_builder *builder, bool learns, bool first) {
	double logits = builder->tokens * vocabulary(builder);
	loss_product(builder, "lm_head");
	cross_entropy(builder);
	if (!learns) {
		lk_build_release(builder, logits * logit_bytes(builder).kept, LK_OWN_LOGITS);
		return;
	}
	cross_entropy_grad(builder);
	loss_product_grad(builder);
	lk_build_release(builder, logits * builder->bytes, LK_OWN_LOGITS);
	if (!first) sum_gradients(builder, 1, 1);
}

static void pieces_forward(lk_builder *builder, double saved, bool learns) {
	double tokens = builder->tokens, each = lk_loss_tokens(builder->job, tokens),
		   pieces = fmin(MOST_PIECES, ceil(tokens / each));
	LK_ASSERT(pieces >= 1);
	builder->tokens = tokens / pieces;
	for (int i = 0; i < pieces; i++) {
		piece(builder, learns, i == 0);
		if (i == 0 && learns) lk_build_save(builder, gradient_sum(builder), LK_OWN_GRADIENTS);
	}
	builder->tokens = tokens;
	lk_build_save(builder, saved, LK_OWN_ACTIVATIONS);
}

/* ---- no logits ---- */

/* Maximum and sum of exponentials of every token. */
static double cut_kept(const lk_builder *builder) {
	return 2 * 4 * builder->tokens;
}

static void cut_product(lk_builder *builder, const char *name) {
	lk_ops *ops = &builder->graph->ops;
	loss_product(builder, name);
	if (ops->count && !builder->graph->failed) /* logits are not written */
		ops->bytes[ops->count - 1] -= builder->bytes * builder->tokens * vocabulary(builder);
}

static void cut_forward(lk_builder *builder, double saved) {
	cut_product(builder, "lm_head");
	lk_build_save(builder, saved, LK_OWN_ACTIVATIONS);
	lk_build_save(builder, cut_kept(builder), LK_OWN_LOGITS);
	loss_reduce(builder);
}

static void cut_backward(lk_builder *builder) {
	double tokens = builder->tokens;
	lk_build_begin_again(builder);
	cut_product(builder, "lm_head_again");
	lk_build_end_again(builder);
	builder->tokens = CUT_SHARE * tokens;
	loss_product_grad(builder);
	builder->tokens = tokens;
	lk_build_release(builder, cut_kept(builder), LK_OWN_LOGITS);
}

/* ---- by kind ---- */

void lk_build_loss_forward(lk_builder *builder, double saved, bool learns) {
	LK_ASSERT(saved >= 0);
	switch (builder->job->loss) {
	case LK_LOSS_LINEAR:
	case LK_LOSS_CHUNKED: pieces_forward(builder, saved, learns); break;
	case LK_LOSS_CUT: cut_forward(builder, saved); break;
	default: whole_forward(builder, saved);
	}
}

void lk_build_loss_backward(lk_builder *builder) {
	switch (builder->job->loss) {
	case LK_LOSS_LINEAR:
	case LK_LOSS_CHUNKED: lk_build_release(builder, gradient_sum(builder), LK_OWN_GRADIENTS); break;
	case LK_LOSS_CUT: cut_backward(builder); break;
	default: whole_backward(builder);
	}
}

void lk_build_loss_drop(lk_builder *builder) {
	double kept = 0;
	if (builder->job->loss == LK_LOSS_CUT) kept = cut_kept(builder);
	else if (builder->job->loss == LK_LOSS_LOGITS || builder->job->loss == LK_LOSS_OUTPUTS)
		kept = builder->tokens * vocabulary(builder) * logit_bytes(builder).kept;
	lk_build_release(builder, kept, LK_OWN_LOGITS);
}
