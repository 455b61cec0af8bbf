/* eager_ops.c: operator lists of networks as they run without a compiler.
 *
 * Sizes: T = batch * seq tokens, h hidden, s sequence, a heads. Scores are a * batch matrices of s
 * x s. Matrix products of attention need contiguous operands, so queries, keys and values are
 * copied. What a backward pass launches follows from its forward: two products for one, a gradient
 * pass for each operation, sums over rows for biases and norms, an addition wherever a tensor is
 * used twice, and the addition to the gradients of the step before.
 */
#include "base/check.h"
#include "tables/tables.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct lister {
	const lk_model *model;
	const lk_eager_run *run;
	lk_eager_ops *out;
	double tokens, seq, sequences, hidden, inner; /* inner: heads * head size */
	double layers;                                /* of those being listed */
	bool failed;                                  /* out of memory */
};

/* ---- adding ---- */

static void ops_add(struct lister *lister, lk_eager_op op) {
	if (!lk_push(lister->out)) {
		lister->failed = true;
		return;
	}
	op.count *= lister->layers;
	*lk_last(lister->out) = op;
}

static void one_product(struct lister *lister, double batch, double m, double n, double k,
                        bool backward) {
	ops_add(lister, (lk_eager_op){.count = 1,
	                              .backward = backward,
	                              .product = true,
	                              .batch = batch,
	                              .m = m,
	                              .n = n,
	                              .k = k});
}

/* Add passes that access `accesses` elements per element of rows x width. */
static void ops_pass(struct lister *lister, const char *name, double count, double rows,
                     double width, double accesses, bool backward) {
	ops_add(lister, (lk_eager_op){.count = count,
	                              .backward = backward,
	                              .kernel = lk_memory_kernel_find(name),
	                              .rows = rows,
	                              .width = width,
	                              .bytes = rows * width * accesses * 4,
	                              .whole = rows == lister->tokens && width == lister->hidden});
}

static void ops_forward(struct lister *lister, const char *name, double count, double rows,
                        double width, double accesses) {
	ops_pass(lister, name, count, rows, width, accesses, false);
}

static void ops_backward(struct lister *lister, const char *name, double count, double rows,
                         double width, double accesses) {
	if (lister->run->train) ops_pass(lister, name, count, rows, width, accesses, true);
}

/* Add y = x W + b for `rows` rows; backward: gradients of input and weight, sum of the bias,
 * accumulation of gradients. */
static void ops_linear(struct lister *lister, double rows, double in, double width, bool bias) {
	one_product(lister, 1, rows, width, in, false);
	if (!lister->run->train) return;
	one_product(lister, 1, rows, in, width, true);
	one_product(lister, 1, in, width, rows, true);
	if (bias) ops_backward(lister, "addu", 1, rows, width, 1);
	ops_backward(lister, "add", 1, in, width, 3);
}

static void dropout(struct lister *lister, double rows, double width) {
	if (!lister->run->train) return;
	ops_forward(lister, "addu", 1, rows, width, 2.25);
	ops_backward(lister, "addu", 1, rows, width, 2.25);
}

static void residual(struct lister *lister) {
	if (!lister->run->compiled) ops_forward(lister, "add", 1, lister->tokens, lister->hidden, 3);
	ops_backward(lister, "add", 1, lister->tokens, lister->hidden, 3);
}

static void layer_norm(struct lister *lister) {
	ops_forward(lister, "ln", 1, lister->tokens, lister->hidden, lister->run->compiled ? 3 : 2);
	ops_backward(lister, "ln", 1, lister->tokens, lister->hidden, 3);
	ops_backward(lister, "addu", 1, lister->tokens, lister->hidden,
	             2); /* sums for scale and shift */
}

/* RMSNorm as separate operations: power, mean, product with the root, product with the scale. */
static void rms_norm(struct lister *lister) {
	if (lister->run->compiled) {
		ops_forward(lister, "ln", 1, lister->tokens, lister->hidden, 3);
		return;
	}
	ops_forward(lister, "powu", 1, lister->tokens, lister->hidden, 2);
	ops_forward(lister, "addu", 1, lister->tokens, lister->hidden, 1);
	ops_forward(lister, "mulu", 2, lister->tokens, lister->hidden, 2);
	ops_forward(lister, "addu", 2, lister->tokens, 1, 2);
	ops_backward(lister, "mul", 5, lister->tokens, lister->hidden, 3);
	ops_backward(lister, "addu", 3, lister->tokens, lister->hidden, 1);
}

/* ---- attention ---- */

struct attention {
	double queries, keys;       /* tokens of one sequence */
	double copies, copy_back;   /* of T x inner, before and after the products */
	double before, before_grad; /* accesses per score between product and softmax: scale, mask */
	double launches;            /* number of kernels of these accesses */
	bool dropout;
};

static void ops_attend(struct lister *lister, const struct attention *attention) {
	double heads = lister->model->heads, batch = lister->sequences * heads,
		   head = lister->inner / heads;
	LK_ASSERT(heads > 0 && attention->queries > 0 && attention->keys > 0);
	double rows = batch * attention->queries;
	bool fused = lister->run->compiled;
	ops_forward(lister, "addu", fused ? 1 : attention->copies, lister->tokens, lister->inner, 2);
	one_product(lister, batch, attention->queries, attention->keys, head, false);
	if (!fused && attention->launches > 0)
		ops_forward(lister, "addu", attention->launches, rows, attention->keys,
		            attention->before / attention->launches);
	ops_forward(lister, "softmax", 1, rows, attention->keys, 2);
	if (attention->dropout) dropout(lister, rows, attention->keys);
	one_product(lister, batch, attention->queries, head, attention->keys, false);
	ops_forward(lister, "addu", 1, lister->tokens, lister->inner, 2);
	if (!lister->run->train) return;
	one_product(lister, batch, attention->queries, attention->keys, head, true);
	one_product(lister, batch, attention->keys, head, attention->queries, true);
	ops_backward(lister, "softmax", 1, rows, attention->keys, 3);
	if (attention->launches > 0)
		ops_backward(lister, "addu", attention->launches, rows, attention->keys,
		             attention->before_grad / attention->launches);
	one_product(lister, batch, attention->queries, head, attention->keys, true);
	one_product(lister, batch, attention->keys, head, attention->queries, true);
	ops_backward(lister, "addu", attention->copy_back, lister->tokens, lister->inner, 2);
}

/* ---- the families ---- */

/* 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), operation by operation. */
static void gelu_by_parts(struct lister *lister, double width) {
	double t = lister->tokens;
	if (lister->run->compiled) {
		ops_forward(lister, "gelu", 1, t, width, 2);
		return;
	}
	ops_forward(lister, "powu", 1, t, width, 2);
	ops_forward(lister, "mulu", 3, t, width, 2);
	ops_forward(lister, "add", 1, t, width, 3);
	ops_forward(lister, "tanh", 1, t, width, 2);
	ops_forward(lister, "addu", 1, t, width, 2);
	ops_forward(lister, "mul", 1, t, width, 3);
	ops_backward(lister, "mul", 2, t, width, 3);  /* of the last product */
	ops_backward(lister, "mul", 1, t, width, 3);  /* tanh */
	ops_backward(lister, "mulu", 3, t, width, 2); /* constants */
	ops_backward(lister, "powu", 1, t, width, 2);
	ops_backward(lister, "mulu", 1, t, width, 2);
	ops_backward(lister, "mul", 1, t, width, 3);
	ops_backward(lister, "add", 2, t, width, 3); /* x is used three times */
}

static void gpt2_layer(struct lister *lister) {
	double t = lister->tokens, h = lister->hidden, f = lister->model->ffn;
	layer_norm(lister);
	ops_linear(lister, t, h, 3 * h, true);
	/* division by the root of the head size, where() with the causal mask */
	ops_attend(lister, &(struct attention){lister->seq, lister->seq, 3, 5, 4.25, 4.25, 2, true});
	ops_linear(lister, t, h, h, true);
	dropout(lister, t, h);
	residual(lister);
	layer_norm(lister);
	ops_linear(lister, t, h, f, true);
	gelu_by_parts(lister, f);
	ops_linear(lister, t, f, h, true);
	dropout(lister, t, h);
	residual(lister);
}

static void opt_layer(struct lister *lister) {
	double t = lister->tokens, h = lister->hidden, f = lister->model->ffn;
	layer_norm(lister);
	for (int i = 0; i < 3; i++) ops_linear(lister, t, h, h, true);
	ops_forward(lister, "mulu", 1, t, h, 2);
	ops_backward(lister, "mulu", 1, t, h, 2);
	ops_backward(lister, "add", 2, t, h, 3);
	/* addition of the mask, maximum with the least number */
	ops_attend(lister, &(struct attention){lister->seq, lister->seq, 3, 4, 4.1, 5, 2, false});
	ops_linear(lister, t, h, h, true);
	dropout(lister, t, h);
	residual(lister);
	layer_norm(lister);
	ops_linear(lister, t, h, f, true);
	ops_forward(lister, "relu", 1, t, f, 2);
	ops_backward(lister, "relu", 1, t, f, 3);
	ops_linear(lister, t, f, h, true);
	dropout(lister, t, h);
	residual(lister);
}

static void bert_layer(struct lister *lister) {
	double t = lister->tokens, h = lister->hidden, f = lister->model->ffn;
	for (int i = 0; i < 3; i++) ops_linear(lister, t, h, h, true);
	ops_backward(lister, "add", 2, t, h, 3);
	/* division by the root of the head size, addition of the mask */
	ops_attend(lister, &(struct attention){lister->seq, lister->seq, 3, 4, 4, 2, 2, true});
	ops_linear(lister, t, h, h, true);
	dropout(lister, t, h);
	residual(lister);
	layer_norm(lister);
	ops_linear(lister, t, h, f, true);
	ops_forward(lister, "gelu", 1, t, f, 2);
	ops_backward(lister, "gelu", 1, t, f, 3);
	ops_linear(lister, t, f, h, true);
	dropout(lister, t, h);
	residual(lister);
	layer_norm(lister);
}

/* Attention of T5: no bias, no scale; a table of relative positions is added to the scores. It
 * comes out of an embedding with the heads innermost and is never transposed, so a score's bias
 * costs a sector of 32 bytes, 8 elements. Attention to the encoder adds only its mask. */
static void t5_attention(struct lister *lister, bool positions) {
	double t = lister->tokens, h = lister->hidden;
	rms_norm(lister);
	for (int i = 0; i < 3; i++) ops_linear(lister, t, h, lister->inner, false);
	ops_backward(lister, "add", 2, t, h, 3);
	ops_attend(lister, &(struct attention){lister->seq, lister->seq, 3, 4, positions ? 2 + 8 : 3, 3,
	                                       1, true});
	ops_linear(lister, t, lister->inner, h, false);
	dropout(lister, t, h);
	residual(lister);
}

static void t5_mlp(struct lister *lister, double tokens) {
	double f = lister->model->ffn;
	ops_linear(lister, tokens, lister->hidden, f, false);
	ops_forward(lister, "relu", 1, tokens, f, 2);
	ops_backward(lister, "relu", 1, tokens, f, 3);
	dropout(lister, tokens, f);
	ops_linear(lister, tokens, f, lister->hidden, false);
}

/* Switch MLP. Tokens without padding are all equal here: one expert gets as many as it takes, the
 * others none; routing, gathering and scattering are many small launches. */
static void switch_mlp(struct lister *lister) {
	enum { CAPACITY = 64 };
	double t = lister->tokens, h = lister->hidden, experts = lister->model->experts;
	rms_norm(lister);
	ops_linear(lister, t, h, experts, false);
	ops_forward(lister, "addu", 20 + 10 * experts, t, experts, 2);
	ops_forward(lister, "addu", 2, t, h, 2);
	ops_backward(lister, "addu", 20 + 10 * experts, t, experts, 2);
	ops_backward(lister, "add", 2 + experts, t, h, 3);
	t5_mlp(lister, fmin(CAPACITY * lister->sequences, t));
	dropout(lister, t, h);
	residual(lister);
}

static void dense_mlp(struct lister *lister) {
	rms_norm(lister);
	t5_mlp(lister, lister->tokens);
	dropout(lister, lister->tokens, lister->hidden);
	residual(lister);
}

/* ---- ends ---- */

static void ops_embedding(struct lister *lister, double tables) {
	ops_forward(lister, "addu", tables, lister->tokens, lister->hidden, 2);
	ops_forward(lister, "add", tables, lister->tokens, lister->hidden, 3);
	dropout(lister, lister->tokens, lister->hidden);
	ops_backward(lister, "addu", tables, lister->tokens, lister->hidden, 3);
	ops_backward(lister, "addu", 1, lister->model->vocab, lister->hidden, 1);
	ops_backward(lister, "add", 1, lister->model->vocab, lister->hidden, 3);
}

/* The loss is computed outside the timed part; its gradient inside. */
static void ops_head(struct lister *lister) {
	ops_linear(lister, lister->tokens, lister->hidden, lister->model->vocab, false);
	ops_backward(lister, "softmax", 1, lister->tokens, lister->model->vocab, 3);
	ops_backward(lister, "addu", 1, lister->tokens, lister->model->vocab, 1);
}

static void list_bert(struct lister *lister) {
	ops_embedding(lister, 3);
	layer_norm(lister);
	lister->layers = lister->model->layers;
	bert_layer(lister);
	lister->layers = 1;
	if (!lister->run->train) return; /* a classifier of the first token */
	ops_linear(lister, lister->tokens, lister->hidden, lister->hidden, true);
	ops_forward(lister, "gelu", 1, lister->tokens, lister->hidden, 2);
	layer_norm(lister);
	ops_head(lister);
}

static void list_switch(struct lister *lister) {
	double encoder = lister->model->layers, decoder = lister->model->decoder_layers;
	ops_embedding(lister, 1);
	ops_embedding(lister, 1);
	lister->layers = encoder + decoder;
	t5_attention(lister, true);
	lister->layers = decoder;
	t5_attention(lister, false);
	lister->layers = (encoder + decoder) / 2;
	dense_mlp(lister);
	switch_mlp(lister);
	lister->layers = 2;
	rms_norm(lister);
	lister->layers = 1;
	ops_head(lister);
}

static void list_decoder(struct lister *lister) {
	ops_embedding(lister, 2);
	lister->layers = lister->model->layers;
	if (strcmp(lister->model->family, "opt") == 0) opt_layer(lister);
	else gpt2_layer(lister);
	lister->layers = 1;
	layer_norm(lister);
	ops_head(lister);
}

/* ---- the list ---- */

bool lk_eager_known(const lk_model *model) {
	static const char *const families[] = {"gpt2", "opt", "bert", "switch_transformers"};
	for (size_t i = 0; i < sizeof families / sizeof *families; i++)
		if (strcmp(model->family, families[i]) == 0) return true;
	return false;
}

lk_status lk_eager_list(const lk_model *model, const lk_eager_run *run, lk_eager_ops *out,
                        lk_error *err) {
	double inner = (double)model->heads *
	               (model->head_dim > 0 ? model->head_dim : model->hidden / model->heads);
	struct lister l = {.model = model,
	                   .run = run,
	                   .out = out,
	                   .tokens = run->batch * run->seq,
	                   .seq = run->seq,
	                   .sequences = run->batch,
	                   .hidden = model->hidden,
	                   .inner = inner,
	                   .layers = 1};
	if (strcmp(model->family, "bert") == 0) list_bert(&l);
	else if (strcmp(model->family, "switch_transformers") == 0) list_switch(&l);
	else list_decoder(&l);
	return l.failed ? lk_oom(err) : LK_OK;
}

/* Count allocations: requests below 10 MB share segments of 20 MB, larger ones get their own
 * (PyTorch's caching allocator). */
static void ops_keep(lk_eager_kept *kept, double tensors, double elements) {
	double bytes = 4 * elements;
	kept->bytes += tensors * bytes;
	kept->fetches += bytes >= 10e6 ? tensors : tensors * bytes / 20e6;
}

lk_eager_kept lk_eager_keeps(const lk_model *model, const lk_eager_run *run) {
	bool t5 = strcmp(model->family, "switch_transformers") == 0,
		 by_parts = strcmp(model->family, "gpt2") == 0;
	double layers = model->layers + model->decoder_layers,
		   attentions = layers + model->decoder_layers;
	double tokens = run->batch * run->seq;
	double inner = (double)model->heads *
	               (model->head_dim > 0 ? model->head_dim : model->hidden / model->heads);
	lk_eager_kept kept = {0, 0};
	/* the softmax and its dropout, with the mask in bytes */
	ops_keep(&kept, 2 * attentions, run->batch * model->heads * run->seq * run->seq);
	if (strcmp(model->family, "opt") != 0)
		ops_keep(&kept, attentions, run->batch * model->heads * run->seq * run->seq / 4);
	ops_keep(&kept, 6 * attentions, tokens * inner);
	ops_keep(&kept, 6 * layers, tokens * model->hidden);
	ops_keep(&kept, (by_parts ? 5 : 2) * (t5 ? layers / 2 : layers), tokens * model->ffn);
	ops_keep(&kept, 3, tokens * model->vocab);
	double experts = model->experts > 0 ? (1 + model->experts) / 2.0 : 1;
	double weights = attentions * 4 * model->hidden * inner +
	                 layers * experts * 2.0 * model->hidden * model->ffn;
	kept.bytes += 8 * (weights + (double)model->vocab * model->hidden);
	return kept;
}

bool lk_eager_switch(const char *name, lk_model *out) {
	/* Widths of t5-3b ("switchxl4") and of switch-base, with four experts. */
	static const struct {
		const char *name;
		int layers, hidden, heads, head_dim, ffn;
	} shapes[] = {{"switchxl4", 24, 1024, 32, 128, 16384}, {"switch4", 12, 768, 12, 64, 3072}};
	for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
		if (strcmp(name, shapes[i].name) != 0) continue;
		*out = (lk_model){.family = "switch_transformers",
		                  .network = LK_NET_ENCDEC,
		                  .layers = shapes[i].layers,
		                  .decoder_layers = shapes[i].layers,
		                  .hidden = shapes[i].hidden,
		                  .heads = shapes[i].heads,
		                  .kv_heads = shapes[i].heads,
		                  .head_dim = shapes[i].head_dim,
		                  .ffn = shapes[i].ffn,
		                  .vocab = 32128,
		                  .experts = 4,
		                  .topk = 1,
		                  .moe_every = 2};
		snprintf(out->name, sizeof out->name, "%s", name);
		return true;
	}
	return false;
}
