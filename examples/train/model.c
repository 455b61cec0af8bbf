/* model.c: one pipeline stage: blocks of (attention and) a two-layer network, each with a residual
 * connection, tensor parallel as Megatron-LM: the first matrix is split by columns, the second by
 * rows, one all-reduce forward and one backward for each pair. All matrices are by rows; rows are
 * tokens. */
#include <cblas.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train.h"

enum { WQ, WK, WV, WO, W1, W2, MATRICES };

typedef struct block {
	int number;                 /* in the whole network */
	float *weights, *gradients; /* all matrices, one behind another */
	int count;
	int at[MATRICES + 1]; /* where each begins */
	/* of each micro-batch: what backward needs */
	float **x, **q, **k, **v, **p, **o, **y, **h;
} block;

struct model {
	shape s;
	const layout *l;
	int rows, samples, micros; /* of a micro-batch; how many of them */
	int width, inner;          /* this rank's columns of attention and of the hidden layer */
	int blocks;
	block *block; /* [blocks], and the head at the end of the last stage */
	float *out, *dx, *dy, *part, *wide, *dq, *dk, *dv;
	float **logits; /* [micros] of the last stage: gradients of the logits */
	float **last;   /* [micros] input of the head */
};

static void *room(size_t count, size_t size) {
	void *at = calloc(count + 1, size);
	if (!at) die("no memory for", "the model");
	return at;
}
static float *floats(size_t count) {
	return room(count, sizeof(float));
}
static float **list(int count) {
	return room((size_t)count, sizeof(float *));
}

/* c = beta c + a b, a [m, k], b [k, n], each perhaps transposed in memory. */
static void multiply(int m, int n, int k, const float *a, bool at, const float *b, bool bt,
                     float beta, float *c) {
	cblas_sgemm(CblasRowMajor, at ? CblasTrans : CblasNoTrans, bt ? CblasTrans : CblasNoTrans, m, n,
	            k, 1, a, at ? m : k, b, bt ? k : n, beta, c, n);
}

static void sum_over_tensor_ranks(const model *m, float *x) {
	if (m->l->tp > 1)
		MPI_Allreduce(MPI_IN_PLACE, x, m->rows * m->s.dim, MPI_FLOAT, MPI_SUM, m->l->tp_comm);
}

/* ---- weights ---- */

/* The same number for the same weight of the whole network, whoever holds it. */
static float initial(int block, int matrix, int row, int column, float scale) {
	uint64_t x =
		(uint64_t)block << 48 ^ (uint64_t)matrix << 40 ^ (uint64_t)row << 20 ^ (uint64_t)column;
	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return ((float)(x >> 40) / 16777216.0f - 0.5f) * scale;
}

static void fill(const block *b, int matrix, int rows, int columns, int row0, int column0,
                 float scale) {
	float *w = b->weights + b->at[matrix];
	for (int i = 0; i < rows; i++)
		for (int j = 0; j < columns; j++)
			w[i * columns + j] = initial(b->number, matrix, row0 + i, column0 + j, scale);
}

static void new_weights(model *m, block *b) {
	int d = m->s.dim, a = m->s.attention ? m->width : 0, f = m->inner, t = m->l->tp_rank;
	int sizes[MATRICES] = {d * a, d * a, d * a, a * d, d * f, f * d};
	for (int i = 0; i < MATRICES; i++) b->at[i + 1] = b->at[i] + sizes[i];
	b->count = b->at[MATRICES];
	b->weights = floats((size_t)b->count), b->gradients = floats((size_t)b->count);
	float scale = 1 / sqrtf((float)d);
	for (int i = WQ; i <= WV && a; i++) fill(b, i, d, a, 0, t * a, scale);
	if (a) fill(b, WO, a, d, t * a, 0, scale);
	fill(b, W1, d, f, 0, t * f, scale);
	fill(b, W2, f, d, t * f, 0, scale);
}

static void new_block(model *m, block *b, int number) {
	size_t rows = (size_t)m->rows, d = (size_t)m->s.dim, a = (size_t)m->width, f = (size_t)m->inner;
	size_t scores =
		(size_t)m->samples * (size_t)(m->s.heads / m->l->tp) * (size_t)m->s.seq * (size_t)m->s.seq;
	b->number = number;
	new_weights(m, b);
	struct {
		float ***list;
		size_t size;
	} kept[] = {{&b->x, rows * d}, {&b->q, rows * a}, {&b->k, rows * a}, {&b->v, rows * a},
	            {&b->p, scores},   {&b->o, rows * a}, {&b->y, rows * d}, {&b->h, rows * f}};
	for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
		*kept[i].list = list(m->micros);
		for (int k = 0; k < m->micros; k++) (*kept[i].list)[k] = floats(kept[i].size);
	}
}

static bool is_last(const model *m) {
	return m->l->pp_rank == m->l->pp - 1;
}

static void new_head(model *m, block *b) {
	b->number = m->s.layers;
	b->count = m->s.dim * CLASSES;
	b->weights = floats((size_t)b->count), b->gradients = floats((size_t)b->count);
	fill(b, 0, m->s.dim, CLASSES, 0, 0, 1 / sqrtf((float)m->s.dim));
}

model *model_new(const shape *s, const layout *l, int samples, int micro_batches) {
	model *m = room(1, sizeof *m);
	m->s = *s, m->l = l, m->samples = samples, m->micros = micro_batches;
	m->rows = samples * s->seq, m->width = s->dim / l->tp, m->inner = s->hidden / l->tp;
	m->blocks = s->layers / l->pp;
	m->block = room((size_t)m->blocks + 1, sizeof *m->block);
	for (int i = 0; i < m->blocks; i++) new_block(m, &m->block[i], l->pp_rank * m->blocks + i);
	if (is_last(m)) new_head(m, &m->block[m->blocks]);
	size_t all = (size_t)m->rows * (size_t)s->dim, wide = (size_t)m->rows * (size_t)m->inner;
	float **buffers[] = {&m->out, &m->dx, &m->dy, &m->part, &m->dq, &m->dk, &m->dv};
	for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++) *buffers[i] = floats(all);
	m->wide = floats(wide);
	m->logits = list(micro_batches), m->last = list(micro_batches);
	for (int k = 0; k < micro_batches; k++) {
		m->logits[k] = floats((size_t)samples * CLASSES);
		m->last[k] = floats((size_t)samples * (size_t)s->dim);
	}
	return m;
}

void model_free(model *m) {
	free(m);
} /* the program ends with it */

/* ---- attention ---- */

/* Row i of a head of a sample. */
static float *row_of(const model *m, float *x, int sample, int head, int i) {
	size_t row = (size_t)sample * (size_t)m->s.seq + (size_t)i;
	return x + row * (size_t)m->width + (size_t)head * (size_t)(m->s.dim / m->s.heads);
}
static float *scores_of(const model *m, float *p, int sample, int head) {
	return p + ((size_t)sample * (size_t)(m->s.heads / m->l->tp) + (size_t)head) *
	               (size_t)m->s.seq * (size_t)m->s.seq;
}

/* One head of one sample: causal softmax of q k', times v. */
static void attend(const model *m, const block *b, int micro, int sample, int head) {
	int t = m->s.seq, dh = m->s.dim / m->s.heads, a = m->width;
	float *p = scores_of(m, b->p[micro], sample, head), scale = 1 / sqrtf((float)dh);
	cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, t, t, dh, scale,
	            row_of(m, b->q[micro], sample, head, 0), a, row_of(m, b->k[micro], sample, head, 0),
	            a, 0, p, t);
	for (int i = 0; i < t; i++) {
		float most = -INFINITY, sum = 0;
		for (int j = 0; j <= i; j++) most = fmaxf(most, p[i * t + j]);
		for (int j = 0; j <= i; j++) sum += p[i * t + j] = expf(p[i * t + j] - most);
		for (int j = 0; j < t; j++) p[i * t + j] = j <= i ? p[i * t + j] / sum : 0;
	}
	cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, t, dh, t, 1, p, t,
	            row_of(m, b->v[micro], sample, head, 0), a, 0,
	            row_of(m, b->o[micro], sample, head, 0), a);
}

/* From the gradient of its result, `d_o`, to those of q, k and v. */
static void attend_back(model *m, const block *b, int micro, int sample, int head, float *d_o) {
	int t = m->s.seq, dh = m->s.dim / m->s.heads, a = m->width;
	float *p = scores_of(m, b->p[micro], sample, head), scale = 1 / sqrtf((float)dh);
	float *ds = floats((size_t)t * (size_t)t), *of = row_of(m, d_o, sample, head, 0);
	cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, t, dh, t, 1, p, t, of, a, 0,
	            row_of(m, m->dv, sample, head, 0), a);
	cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, t, t, dh, 1, of, a,
	            row_of(m, b->v[micro], sample, head, 0), a, 0, ds, t);
	for (int i = 0; i < t; i++) {
		float sum = 0;
		for (int j = 0; j <= i; j++) sum += ds[i * t + j] * p[i * t + j];
		for (int j = 0; j < t; j++) ds[i * t + j] = p[i * t + j] * (ds[i * t + j] - sum) * scale;
	}
	cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, t, dh, t, 1, ds, t,
	            row_of(m, b->k[micro], sample, head, 0), a, 0, row_of(m, m->dq, sample, head, 0),
	            a);
	cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, t, dh, t, 1, ds, t,
	            row_of(m, b->q[micro], sample, head, 0), a, 0, row_of(m, m->dk, sample, head, 0),
	            a);
	free(ds);
}

/* y = x + sum over tensor ranks of attention(x) */
static void attention_forward(model *m, block *b, int micro, float *y) {
	int d = m->s.dim, a = m->width, n = m->rows;
	const float *w = b->weights, *x = b->x[micro];
	multiply(n, a, d, x, false, w + b->at[WQ], false, 0, b->q[micro]);
	multiply(n, a, d, x, false, w + b->at[WK], false, 0, b->k[micro]);
	multiply(n, a, d, x, false, w + b->at[WV], false, 0, b->v[micro]);
	for (int i = 0; i < m->samples; i++)
		for (int h = 0; h < m->s.heads / m->l->tp; h++) attend(m, b, micro, i, h);
	multiply(n, d, a, b->o[micro], false, w + b->at[WO], false, 0, y);
	sum_over_tensor_ranks(m, y);
	cblas_saxpy(n * d, 1, x, 1, y, 1);
}

/* m->dx holds the gradient of y, then that of x. */
static void attention_back(model *m, block *b, int micro) {
	int d = m->s.dim, a = m->width, n = m->rows;
	float *w = b->weights, *g = b->gradients, *x = b->x[micro], *d_o = m->part;
	const int of[3] = {WQ, WK, WV};
	float *grads[3] = {m->dq, m->dk, m->dv};
	multiply(n, a, d, m->dx, false, w + b->at[WO], true, 0, d_o);
	multiply(a, d, n, b->o[micro], true, m->dx, false, 1, g + b->at[WO]);
	for (int i = 0; i < m->samples; i++)
		for (int h = 0; h < m->s.heads / m->l->tp; h++) attend_back(m, b, micro, i, h, d_o);
	for (int i = 0; i < 3; i++) {
		multiply(d, a, n, x, true, grads[i], false, 1, g + b->at[of[i]]);
		multiply(n, d, a, grads[i], false, w + b->at[of[i]], true, i > 0, m->out);
	}
	sum_over_tensor_ranks(m, m->out);
	cblas_saxpy(n * d, 1, m->out, 1, m->dx, 1);
}

/* ---- the two-layer network ---- */

/* out = y + sum over tensor ranks of relu(y W1) W2 */
static void mlp_forward(model *m, block *b, int micro, float *out) {
	int d = m->s.dim, f = m->inner, n = m->rows;
	float *h = b->h[micro];
	multiply(n, f, d, b->y[micro], false, b->weights + b->at[W1], false, 0, h);
	for (int i = 0; i < n * f; i++) h[i] = h[i] > 0 ? h[i] : 0;
	multiply(n, d, f, h, false, b->weights + b->at[W2], false, 0, out);
	sum_over_tensor_ranks(m, out);
	cblas_saxpy(n * d, 1, b->y[micro], 1, out, 1);
}

/* m->dx holds the gradient of the result, then that of y. */
static void mlp_back(model *m, block *b, int micro) {
	int d = m->s.dim, f = m->inner, n = m->rows;
	float *h = b->h[micro], *dh = m->wide;
	multiply(n, f, d, m->dx, false, b->weights + b->at[W2], true, 0, dh);
	multiply(f, d, n, h, true, m->dx, false, 1, b->gradients + b->at[W2]);
	for (int i = 0; i < n * f; i++) dh[i] = h[i] > 0 ? dh[i] : 0;
	multiply(d, f, n, b->y[micro], true, dh, false, 1, b->gradients + b->at[W1]);
	multiply(n, d, f, dh, false, b->weights + b->at[W1], true, 0, m->part);
	sum_over_tensor_ranks(m, m->part);
	cblas_saxpy(n * d, 1, m->part, 1, m->dx, 1);
}

/* ---- the stage ---- */

const float *model_forward(model *m, int micro, const float *x) {
	size_t bytes = (size_t)m->rows * (size_t)m->s.dim * sizeof *x;
	for (int i = 0; i < m->blocks; i++) {
		block *b = &m->block[i];
		memcpy(b->x[micro], x, bytes);
		if (m->s.attention) attention_forward(m, b, micro, b->y[micro]);
		else memcpy(b->y[micro], x, bytes);
		mlp_forward(m, b, micro, m->out);
		x = m->out;
	}
	return x;
}

/* Cross entropy of the classes that the means over the tokens of m->out give. */
double model_loss(model *m, int micro, const int *classes, int batch) {
	int d = m->s.dim, t = m->s.seq;
	float *mean = m->last[micro], *z = m->logits[micro];
	double loss = 0;
	memset(mean, 0, (size_t)m->samples * (size_t)d * sizeof *mean);
	for (int r = 0; r < m->rows; r++)
		cblas_saxpy(d, 1 / (float)t, m->out + (size_t)r * (size_t)d, 1,
		            mean + (size_t)(r / t) * (size_t)d, 1);
	multiply(m->samples, CLASSES, d, mean, false, m->block[m->blocks].weights, false, 0, z);
	for (int i = 0; i < m->samples; i++, z += CLASSES) {
		float most = -INFINITY, sum = 0;
		for (int c = 0; c < CLASSES; c++) most = fmaxf(most, z[c]);
		for (int c = 0; c < CLASSES; c++) sum += expf(z[c] - most);
		loss += (log(sum) + most - z[classes[i]]) / batch;
		for (int c = 0; c < CLASSES; c++)
			z[c] = (expf(z[c] - most) / sum - (c == classes[i])) / (float)batch;
	}
	return loss;
}

/* The gradient that the head gives to every token. */
static void head_back(model *m, int micro) {
	int d = m->s.dim, t = m->s.seq;
	block *head = &m->block[m->blocks];
	float *means = m->part;
	multiply(d, CLASSES, m->samples, m->last[micro], true, m->logits[micro], false, 1,
	         head->gradients);
	multiply(m->samples, d, CLASSES, m->logits[micro], false, head->weights, true, 0, means);
	for (int r = 0; r < m->rows; r++) {
		const float *mean = means + (size_t)(r / t) * (size_t)d;
		float *dx = m->dx + (size_t)r * (size_t)d;
		for (int j = 0; j < d; j++) dx[j] = mean[j] / (float)t;
	}
}

const float *model_backward(model *m, int micro, const float *dy, void (*done)(void *, int),
                            void *context) {
	if (is_last(m)) {
		head_back(m, micro);
		done(context, m->blocks);
	} else {
		memcpy(m->dx, dy, (size_t)m->rows * (size_t)m->s.dim * sizeof *dy);
	}
	for (int i = m->blocks; i-- > 0;) {
		mlp_back(m, &m->block[i], micro);
		if (m->s.attention) attention_back(m, &m->block[i], micro);
		done(context, i);
	}
	return m->dx;
}

int model_blocks(const model *m) {
	return m->blocks + is_last(m);
}

float *model_gradients(model *m, int block, int *count) {
	*count = m->block[block].count;
	return m->block[block].gradients;
}

void model_step(model *m, float rate) {
	for (int i = 0; i < model_blocks(m); i++) {
		block *b = &m->block[i];
		cblas_saxpy(b->count, -rate, b->gradients, 1, b->weights, 1);
		memset(b->gradients, 0, (size_t)b->count * sizeof *b->gradients);
	}
}

int model_save(const model *m, const char *path) {
	FILE *file = fopen(path, "wb");
	bool good = file != NULL;
	for (int i = 0; good && i < model_blocks(m); i++)
		good = fwrite(m->block[i].weights, sizeof(float), (size_t)m->block[i].count, file) ==
		       (size_t)m->block[i].count;
	return file && fclose(file) == 0 && good ? 0 : -1;
}
