/* eager_ops.c: operator lists of networks as they run without a compiler.
 *
 * Sizes: T = batch * seq tokens, h hidden, s sequence, a heads. Scores are a * batch matrices of s x s. Matrix products
 * of attention need contiguous operands, so queries, keys and values are copied. What a backward pass launches follows
 * from its forward: two products for one, a gradient pass for each operation, sums over rows for biases and norms, an
 * addition wherever a tensor is used twice, and the addition to the gradients of the step before.
 */
#include "tables/tables.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct lister {
	const lk_model *model;
	const lk_eager_run *run;
	lk_eager_ops *out;
	double tokens, seq, sequences, hidden, inner; /* inner: heads * head size */
	double layers;   /* of those being listed */
	bool failed;     /* memory is out */
};

/* ---- adding ---- */

static void add(struct lister *l, lk_eager_op op) {
	if (!lk_push(l->out)) {
		l->failed = true;
		return;
	}
	op.count *= l->layers;
	*lk_last(l->out) = op;
}

static void one_product(struct lister *l, double batch, double m, double n, double k, bool backward) {
	add(l, (lk_eager_op){.count = 1, .backward = backward, .product = true, .batch = batch, .m = m, .n = n, .k = k});
}

/* `accesses` elements per element of rows x width. */
static void pass(struct lister *l, const char *name, double count, double rows, double width, double accesses, bool backward) {
	add(l, (lk_eager_op){.count = count, .backward = backward, .kernel = lk_memory_kernel_find(name), .rows = rows,
	                     .width = width, .bytes = rows * width * accesses * 4,
	                     .whole = rows == l->tokens && width == l->hidden});
}

static void forward(struct lister *l, const char *name, double count, double rows, double width, double accesses) {
	pass(l, name, count, rows, width, accesses, false);
}

static void backward(struct lister *l, const char *name, double count, double rows, double width, double accesses) {
	if (l->run->train) pass(l, name, count, rows, width, accesses, true);
}

/* y = x W + b for `rows` rows; backward: gradients of input and weight, the bias's sum, gradients added up. */
static void linear(struct lister *l, double rows, double in, double width, bool bias) {
	one_product(l, 1, rows, width, in, false);
	if (!l->run->train) return;
	one_product(l, 1, rows, in, width, true);
	one_product(l, 1, in, width, rows, true);
	if (bias) backward(l, "addu", 1, rows, width, 1);
	backward(l, "add", 1, in, width, 3);
}

static void dropout(struct lister *l, double rows, double width) {
	if (!l->run->train) return;
	forward(l, "addu", 1, rows, width, 2.25);
	backward(l, "addu", 1, rows, width, 2.25);
}

static void residual(struct lister *l) {
	if (!l->run->compiled) forward(l, "add", 1, l->tokens, l->hidden, 3);
	backward(l, "add", 1, l->tokens, l->hidden, 3);
}

static void layer_norm(struct lister *l) {
	forward(l, "ln", 1, l->tokens, l->hidden, l->run->compiled ? 3 : 2);
	backward(l, "ln", 1, l->tokens, l->hidden, 3);
	backward(l, "addu", 1, l->tokens, l->hidden, 2); /* sums for scale and shift */
}

/* Written out as power, mean, product with the root, product with the scale. */
static void rms_norm(struct lister *l) {
	if (l->run->compiled) {
		forward(l, "ln", 1, l->tokens, l->hidden, 3);
		return;
	}
	forward(l, "powu", 1, l->tokens, l->hidden, 2);
	forward(l, "addu", 1, l->tokens, l->hidden, 1);
	forward(l, "mulu", 2, l->tokens, l->hidden, 2);
	forward(l, "addu", 2, l->tokens, 1, 2);
	backward(l, "mul", 5, l->tokens, l->hidden, 3);
	backward(l, "addu", 3, l->tokens, l->hidden, 1);
}

/* ---- attention ---- */

struct attention {
	double queries, keys;        /* tokens of one sequence */
	double copies, copy_back;    /* of T x inner, in front of and behind the products */
	double before, before_grad;  /* accesses per score between product and softmax: scale, mask */
	double launches;             /* kernels that these are */
	bool dropout;
};

static void attend(struct lister *l, const struct attention *a) {
	double heads = l->model->heads, batch = l->sequences * heads, head = l->inner / heads;
	double rows = batch * a->queries;
	bool fused = l->run->compiled;
	forward(l, "addu", fused ? 1 : a->copies, l->tokens, l->inner, 2);
	one_product(l, batch, a->queries, a->keys, head, false);
	if (!fused && a->launches > 0) forward(l, "addu", a->launches, rows, a->keys, a->before / a->launches);
	forward(l, "softmax", 1, rows, a->keys, 2);
	if (a->dropout) dropout(l, rows, a->keys);
	one_product(l, batch, a->queries, head, a->keys, false);
	forward(l, "addu", 1, l->tokens, l->inner, 2);
	if (!l->run->train) return;
	one_product(l, batch, a->queries, a->keys, head, true);
	one_product(l, batch, a->keys, head, a->queries, true);
	backward(l, "softmax", 1, rows, a->keys, 3);
	if (a->launches > 0) backward(l, "addu", a->launches, rows, a->keys, a->before_grad / a->launches);
	one_product(l, batch, a->queries, head, a->keys, true);
	one_product(l, batch, a->keys, head, a->queries, true);
	backward(l, "addu", a->copy_back, l->tokens, l->inner, 2);
}

/* ---- the families ---- */

/* 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), operation by operation. */
static void gelu_by_parts(struct lister *l, double width) {
	double t = l->tokens;
	if (l->run->compiled) {
		forward(l, "gelu", 1, t, width, 2);
		return;
	}
	forward(l, "powu", 1, t, width, 2);
	forward(l, "mulu", 3, t, width, 2);
	forward(l, "add", 1, t, width, 3);
	forward(l, "tanh", 1, t, width, 2);
	forward(l, "addu", 1, t, width, 2);
	forward(l, "mul", 1, t, width, 3);
	backward(l, "mul", 2, t, width, 3);  /* of the last product */
	backward(l, "mul", 1, t, width, 3);  /* tanh */
	backward(l, "mulu", 3, t, width, 2); /* constants */
	backward(l, "powu", 1, t, width, 2);
	backward(l, "mulu", 1, t, width, 2);
	backward(l, "mul", 1, t, width, 3);
	backward(l, "add", 2, t, width, 3);  /* x is used three times */
}

static void gpt2_layer(struct lister *l) {
	double t = l->tokens, h = l->hidden, f = l->model->ffn;
	layer_norm(l);
	linear(l, t, h, 3 * h, true);
	/* division by the root of the head size, where() with the causal mask */
	attend(l, &(struct attention){l->seq, l->seq, 3, 5, 4.25, 4.25, 2, true});
	linear(l, t, h, h, true);
	dropout(l, t, h);
	residual(l);
	layer_norm(l);
	linear(l, t, h, f, true);
	gelu_by_parts(l, f);
	linear(l, t, f, h, true);
	dropout(l, t, h);
	residual(l);
}

static void opt_layer(struct lister *l) {
	double t = l->tokens, h = l->hidden, f = l->model->ffn;
	layer_norm(l);
	for (int i = 0; i < 3; i++) linear(l, t, h, h, true);
	forward(l, "mulu", 1, t, h, 2);
	backward(l, "mulu", 1, t, h, 2);
	backward(l, "add", 2, t, h, 3);
	/* addition of the mask, maximum with the least number */
	attend(l, &(struct attention){l->seq, l->seq, 3, 4, 4.1, 5, 2, false});
	linear(l, t, h, h, true);
	dropout(l, t, h);
	residual(l);
	layer_norm(l);
	linear(l, t, h, f, true);
	forward(l, "relu", 1, t, f, 2);
	backward(l, "relu", 1, t, f, 3);
	linear(l, t, f, h, true);
	dropout(l, t, h);
	residual(l);
}

static void bert_layer(struct lister *l) {
	double t = l->tokens, h = l->hidden, f = l->model->ffn;
	for (int i = 0; i < 3; i++) linear(l, t, h, h, true);
	backward(l, "add", 2, t, h, 3);
	/* division by the root of the head size, addition of the mask */
	attend(l, &(struct attention){l->seq, l->seq, 3, 4, 4, 2, 2, true});
	linear(l, t, h, h, true);
	dropout(l, t, h);
	residual(l);
	layer_norm(l);
	linear(l, t, h, f, true);
	forward(l, "gelu", 1, t, f, 2);
	backward(l, "gelu", 1, t, f, 3);
	linear(l, t, f, h, true);
	dropout(l, t, h);
	residual(l);
	layer_norm(l);
}

/* Attention of T5: no bias, no scale; a table of relative positions is added to the scores. It comes out of an
 * embedding with the heads innermost and is never turned round, so a score's bias costs a sector of 32 bytes, 8 elements.
 * Attention to the encoder adds its mask alone. */
static void t5_attention(struct lister *l, bool positions) {
	double t = l->tokens, h = l->hidden;
	rms_norm(l);
	for (int i = 0; i < 3; i++) linear(l, t, h, l->inner, false);
	backward(l, "add", 2, t, h, 3);
	attend(l, &(struct attention){l->seq, l->seq, 3, 4, positions ? 2 + 8 : 3, 3, 1, true});
	linear(l, t, l->inner, h, false);
	dropout(l, t, h);
	residual(l);
}

static void t5_mlp(struct lister *l, double tokens) {
	double f = l->model->ffn;
	linear(l, tokens, l->hidden, f, false);
	forward(l, "relu", 1, tokens, f, 2);
	backward(l, "relu", 1, tokens, f, 3);
	dropout(l, tokens, f);
	linear(l, tokens, f, l->hidden, false);
}

/* Tokens without padding are all alike here: one expert gets as many as it takes, the others none; routing, gathering
 * and scattering are many small launches. */
static void switch_mlp(struct lister *l) {
	enum { CAPACITY = 64 };
	double t = l->tokens, h = l->hidden, experts = l->model->experts;
	rms_norm(l);
	linear(l, t, h, experts, false);
	forward(l, "addu", 20 + 10 * experts, t, experts, 2);
	forward(l, "addu", 2, t, h, 2);
	backward(l, "addu", 20 + 10 * experts, t, experts, 2);
	backward(l, "add", 2 + experts, t, h, 3);
	t5_mlp(l, fmin(CAPACITY * l->sequences, t));
	dropout(l, t, h);
	residual(l);
}

static void dense_mlp(struct lister *l) {
	rms_norm(l);
	t5_mlp(l, l->tokens);
	dropout(l, l->tokens, l->hidden);
	residual(l);
}

/* ---- ends ---- */

static void embedding(struct lister *l, double tables) {
	forward(l, "addu", tables, l->tokens, l->hidden, 2);
	forward(l, "add", tables, l->tokens, l->hidden, 3);
	dropout(l, l->tokens, l->hidden);
	backward(l, "addu", tables, l->tokens, l->hidden, 3);
	backward(l, "addu", 1, l->model->vocab, l->hidden, 1);
	backward(l, "add", 1, l->model->vocab, l->hidden, 3);
}

/* The loss is computed outside of what is timed; its gradient is not. */
static void head(struct lister *l) {
	linear(l, l->tokens, l->hidden, l->model->vocab, false);
	backward(l, "softmax", 1, l->tokens, l->model->vocab, 3);
	backward(l, "addu", 1, l->tokens, l->model->vocab, 1);
}

static void list_bert(struct lister *l) {
	embedding(l, 3);
	layer_norm(l);
	l->layers = l->model->layers;
	bert_layer(l);
	l->layers = 1;
	if (!l->run->train) return; /* a classifier of the first token */
	linear(l, l->tokens, l->hidden, l->hidden, true);
	forward(l, "gelu", 1, l->tokens, l->hidden, 2);
	layer_norm(l);
	head(l);
}

static void list_switch(struct lister *l) {
	double encoder = l->model->layers, decoder = l->model->decoder_layers;
	embedding(l, 1);
	embedding(l, 1);
	l->layers = encoder + decoder;
	t5_attention(l, true);
	l->layers = decoder;
	t5_attention(l, false);
	l->layers = (encoder + decoder) / 2;
	dense_mlp(l);
	switch_mlp(l);
	l->layers = 2;
	rms_norm(l);
	l->layers = 1;
	head(l);
}

static void list_decoder(struct lister *l) {
	embedding(l, 2);
	l->layers = l->model->layers;
	if (strcmp(l->model->family, "opt") == 0) opt_layer(l);
	else gpt2_layer(l);
	l->layers = 1;
	layer_norm(l);
	head(l);
}

/* ---- the list ---- */

bool lk_eager_known(const lk_model *model) {
	static const char *const families[] = {"gpt2", "opt", "bert", "switch_transformers"};
	for (size_t i = 0; i < sizeof families / sizeof *families; i++)
		if (strcmp(model->family, families[i]) == 0) return true;
	return false;
}

lk_status lk_eager_list(const lk_model *model, const lk_eager_run *run, lk_eager_ops *out, lk_error *err) {
	double inner = (double)model->heads * (model->head_dim > 0 ? model->head_dim : model->hidden / model->heads);
	struct lister l = {.model = model, .run = run, .out = out, .tokens = run->batch * run->seq, .seq = run->seq,
	            .sequences = run->batch, .hidden = model->hidden, .inner = inner, .layers = 1};
	if (strcmp(model->family, "bert") == 0) list_bert(&l);
	else if (strcmp(model->family, "switch_transformers") == 0) list_switch(&l);
	else list_decoder(&l);
	return l.failed ? lk_oom(err) : LK_OK;
}

/* Requests below 10 MB share segments of 20 MB, larger ones get their own: PyTorch's caching allocator. */
static void keep(lk_eager_kept *kept, double tensors, double elements) {
	double bytes = 4 * elements;
	kept->bytes += tensors * bytes;
	kept->fetches += bytes >= 10e6 ? tensors : tensors * bytes / 20e6;
}

lk_eager_kept lk_eager_keeps(const lk_model *m, const lk_eager_run *run) {
	bool t5 = strcmp(m->family, "switch_transformers") == 0, by_parts = strcmp(m->family, "gpt2") == 0;
	double layers = m->layers + m->decoder_layers, attentions = layers + m->decoder_layers;
	double tokens = run->batch * run->seq;
	double inner = (double)m->heads * (m->head_dim > 0 ? m->head_dim : m->hidden / m->heads);
	lk_eager_kept kept = {0, 0};
	/* the softmax and what dropout makes of it, with its mask of bytes */
	keep(&kept, 2 * attentions, run->batch * m->heads * run->seq * run->seq);
	if (strcmp(m->family, "opt") != 0) keep(&kept, attentions, run->batch * m->heads * run->seq * run->seq / 4);
	keep(&kept, 6 * attentions, tokens * inner);
	keep(&kept, 6 * layers, tokens * m->hidden);
	keep(&kept, (by_parts ? 5 : 2) * (t5 ? layers / 2 : layers), tokens * m->ffn);
	keep(&kept, 3, tokens * m->vocab);
	double experts = m->experts > 0 ? (1 + m->experts) / 2.0 : 1;
	double weights = attentions * 4 * m->hidden * inner + layers * experts * 2.0 * m->hidden * m->ffn;
	kept.bytes += 8 * (weights + (double)m->vocab * m->hidden);
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
		*out = (lk_model){.family = "switch_transformers", .network = LK_NET_ENCDEC, .layers = shapes[i].layers,
		                  .decoder_layers = shapes[i].layers, .hidden = shapes[i].hidden, .heads = shapes[i].heads,
		                  .kv_heads = shapes[i].heads, .head_dim = shapes[i].head_dim, .ffn = shapes[i].ffn,
		                  .vocab = 32128, .experts = 4, .topk = 1, .moe_every = 2};
		snprintf(out->name, sizeof out->name, "%s", name);
		return true;
	}
	return false;
}
