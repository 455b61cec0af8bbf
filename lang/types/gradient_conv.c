/* gradient_conv.c: the gradient of conv2d, as convolutions. With stride s and padding p,
 *
 *     y[n,o,i,j] = sum over c, a, b of x[n,c,s*i+a-p,s*j+b-p] * w[o,c,a,b]
 *
 * and with the adjoint of y spread out, e[s*i,s*j] = adjoint[i,j] with zeros between,
 *
 *     of w    conv2d(x, e, pad=p) with samples and channels exchanged
 *     of x    conv2d(e, w reversed in both dims) with K-1-p zeros around e for a kernel of K;
 *             if that is negative, so much of e lies in the padding and is cut off
 *
 * A kernel is reversed by products with the matrix that has ones where i + j = K - 1. */
#include "lang/types/program.h"

static lc_node conv_value(const lc_asker *ask, int id) {
	return ask->p->nodes.at[id];
}

/* ---- the adjoint ---- */

/* Insert stride - 1 zeros between the elements along d. */
static lk_status conv_spread_out(const lc_asker *ask, int d, int64_t stride, int *id) {
	lc_dim part, length, one = 0;
	if (stride == 1) return LK_OK;
	LK_TRY(lc_dim_number(ask->p, stride, &part, ask->err));
	LK_TRY(lc_ask_view(ask, LC_SPREAD, *id, d + 1, 0, one, id));
	LK_TRY(lc_ask_view(ask, LC_FIRST_OF, *id, d + 1, 0, part, id));
	LK_TRY(lc_ask_view(ask, LC_JOIN, *id, d, 0, 0, id));
	LK_TRY(lc_dim_plus(ask->p, conv_value(ask, *id).dim[d], part, -1, &length, ask->err));
	LK_TRY(lc_dim_plus(ask->p, length, one, 1, &length, ask->err));
	return lc_ask_view(ask, LC_FIRST_OF, *id, d, 0, length, id);
}

/* Add `more` zeros at both ends of d; if negative, remove as many elements. */
static lk_status conv_surround(const lc_asker *ask, int d, lc_dim more, int *id) {
	lc_dim length;
	LK_TRY(lc_dim_plus(ask->p, conv_value(ask, *id).dim[d], more, 1, &length, ask->err));
	LK_TRY(lc_ask_view(ask, LC_FIRST_OF, *id, d, 0, length, id));
	LK_TRY(lc_dim_plus(ask->p, length, more, 1, &length, ask->err));
	return lc_ask_view(ask, LC_LAST_OF, *id, d, 0, length, id);
}

/* ---- kernels ---- */

static lk_status conv_transpose(const lc_asker *ask, int d, int e, int *id) {
	return lc_ask_view(ask, LC_TRANSPOSE, *id, d, e, 0, id);
}

/* [n,n] with ones where i + j = n - 1. */
static lk_status conv_exchange(const lc_asker *ask, lc_dim n, lc_dtype dtype, int *out) {
	lc_node iota = lc_ask_draft(ask, LC_IOTA);
	int row, last;
	iota.dtype = LC_F32;
	iota.count = n;
	LK_TRY(lc_add(ask->p, &iota, &row, ask->err));
	LK_TRY(lc_ask_reduced(ask, LC_RED_MAX, row, 1, false, &last));
	LK_TRY(lc_ask_view(ask, LC_SPREAD, row, 1, 0, n, out));
	LK_TRY(lc_ask_binary(ask, LC_ADD, *out, row, out));
	return lc_ask_truth(ask, LC_EQ, *out, last, dtype, out);
}

/* w [O,C,KH,KW] reversed in its last two dims, as the kernel [C,O,KH,KW]. */
static lk_status conv_turned_round(const lc_asker *ask, int w, int *out) {
	const lc_node kernel = conv_value(ask, w);
	int rows, columns;
	LK_TRY(conv_exchange(ask, kernel.dim[2], (lc_dtype)kernel.dtype, &rows));
	LK_TRY(conv_exchange(ask, kernel.dim[3], (lc_dtype)kernel.dtype, &columns));
	LK_TRY(lc_ask_binary(ask, LC_MATMUL, rows, w, out));
	LK_TRY(lc_ask_binary(ask, LC_MATMUL, *out, columns, out));
	return conv_transpose(ask, 0, 1, out);
}

/* ---- the two rules ---- */

static lk_status convolve(const lc_asker *ask, int x, int w, int64_t pad, int *out) {
	lc_node draft = lc_ask_draft(ask, LC_CONV2D);
	draft.in[0] = x;
	draft.in[1] = w;
	draft.stride = 1;
	draft.pad = (int32_t)pad;
	return lc_add(ask->p, &draft, out, ask->err);
}

static lk_status conv_by_kernel(const lc_asker *ask, const lc_node *node, int spread, int *out) {
	int x = node->in[0];
	LK_TRY(conv_transpose(ask, 0, 1, &x));
	LK_TRY(conv_transpose(ask, 0, 1, &spread));
	LK_TRY(convolve(ask, x, spread, node->pad, out));
	return conv_transpose(ask, 0, 1, out);
}

static lk_status conv_by_image(const lc_asker *ask, const lc_node *node, int spread, int *out) {
	const lc_node w = conv_value(ask, node->in[1]);
	int kernel;
	int64_t side = 0;
	LK_TRY(conv_turned_round(ask, node->in[1], &kernel));
	/* the convolution pads by itself if the kernel is a square of known size */
	if (w.dim[2] == w.dim[3] && lc_dim_known(ask->p, w.dim[2], &side) && side - 1 >= node->pad)
		return convolve(ask, spread, kernel, side - 1 - node->pad, out);
	for (int d = 2; d < 4; d++) {
		lc_dim less, more; /* K - (1 + p) */
		LK_TRY(lc_dim_number(ask->p, 1 + (int64_t)node->pad, &less, ask->err));
		LK_TRY(lc_dim_plus(ask->p, w.dim[d], less, -1, &more, ask->err));
		LK_TRY(conv_surround(ask, d, more, &spread));
	}
	return convolve(ask, spread, kernel, 0, out);
}

lk_status lc_gradient_conv(const lc_asker *ask, const lc_node *node, int k, int a, int *out) {
	LK_TRY(conv_spread_out(ask, 2, node->stride, &a));
	LK_TRY(conv_spread_out(ask, 3, node->stride, &a));
	return k == 0 ? conv_by_image(ask, node, a, out) : conv_by_kernel(ask, node, a, out);
}
