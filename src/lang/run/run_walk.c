/* run_walk.c: the rows of a pointwise operation, with broadcasting: dims that lie behind one another in all operands
 * are one. */
#include <string.h>

#include "lang/run/run_internal.h"

static bool joins(const lc_walk *w, int inputs, int outer, int inner) {
	for (int i = 0; i < inputs; i++)
		if (w->stride[i][outer] != w->stride[i][inner] * w->extent[inner]) return false;
	return true;
}

static void take_dim(lc_walk *w, const lc_walk *from, int d, int inputs) {
	w->extent[w->rank] = from->extent[d];
	for (int i = 0; i < inputs; i++) w->stride[i][w->rank] = from->stride[i][d];
	w->rank++;
}

static void collapse(lc_walk *w, int inputs) {
	lc_walk full = *w;
	w->rank = 0;
	for (int d = 0; d < full.rank; d++) {
		if (full.extent[d] == 1) continue;
		take_dim(w, &full, d, inputs);
		int inner = w->rank - 1;
		if (inner == 0 || !joins(w, inputs, inner - 1, inner)) continue;
		w->extent[inner - 1] *= w->extent[inner];
		for (int i = 0; i < inputs; i++) w->stride[i][inner - 1] = w->stride[i][inner];
		w->rank--;
	}
	if (w->rank == 0) w->rank = 1, w->extent[0] = 1;
}

/* Strides of operand i; 0 along dims of extent 1, which are repeated. */
static lk_status stride_operand(const lc_at *at, lc_walk *w, int i, const lc_box *box) {
	int64_t step = 1;
	for (int d = box->rank; d-- > 0;) {
		int to = d + at->box.rank - box->rank;
		bool repeated = box->extent[d] == 1 && at->box.extent[to] != 1;
		if (!repeated && box->extent[d] != at->box.extent[to])
			return lk_fail(at->err, LK_ERR_INTERNAL, NULL,
						   "value %d: operand %d has %lld elements along dim %d, not %lld", at->id, i,
						   (long long)box->extent[d], d, (long long)at->box.extent[to]);
		w->stride[i][to] = repeated ? 0 : step;
		step *= box->extent[d];
	}
	return LK_OK;
}

lk_status lc_walk_operands(const lc_at *at, lc_walk *w, const lc_cells *in[LC_INPUTS]) {
	*w = (lc_walk){.rank = at->box.rank};
	memcpy(w->extent, at->box.extent, sizeof w->extent);
	for (int i = 0; i < at->n->inputs; i++) {
		lc_box box;
		LK_TRY(lc_operand(at, i, &in[i], &box));
		LK_TRY(stride_operand(at, w, i, &box));
	}
	if (at->box.count) collapse(w, at->n->inputs);
	return LK_OK;
}

void lc_each_row(const lc_walk *w, int inputs, lc_on_row *call, void *state) {
	int last = w->rank - 1;
	int64_t place[LC_RANK] = {0}, in[LC_INPUTS] = {0}, stride[LC_INPUTS] = {0}, rows = 1;
	for (int d = 0; d < last; d++) rows *= w->extent[d];
	for (int i = 0; i < inputs; i++) stride[i] = w->stride[i][last];
	for (int64_t row = 0; row < rows; row++) {
		call(state, row * w->extent[last], w->extent[last], in, stride);
		for (int d = last; --d >= 0;) {
			for (int i = 0; i < inputs; i++) in[i] += w->stride[i][d];
			if (++place[d] < w->extent[d]) break;
			for (int i = 0; i < inputs; i++) in[i] -= w->stride[i][d] * w->extent[d];
			place[d] = 0;
		}
	}
}
