/* run_walk.c: the rows of a pointwise operation, with broadcasting: dims that are contiguous in all
 * operands are joined. */
#include <string.h>

#include "lang/run/run_internal.h"

static bool walk_joins(const lc_walk *walk, int inputs, int outer, int inner) {
	for (int i = 0; i < inputs; i++)
		if (walk->stride[i][outer] != walk->stride[i][inner] * walk->extent[inner]) return false;
	return true;
}

static void take_dim(lc_walk *walk, const lc_walk *from, int d, int inputs) {
	walk->extent[walk->rank] = from->extent[d];
	for (int i = 0; i < inputs; i++) walk->stride[i][walk->rank] = from->stride[i][d];
	walk->rank++;
}

static void collapse(lc_walk *walk, int inputs) {
	lc_walk full = *walk;
	walk->rank = 0;
	for (int d = 0; d < full.rank; d++) {
		if (full.extent[d] == 1) continue;
		take_dim(walk, &full, d, inputs);
		int inner = walk->rank - 1;
		if (inner == 0 || !walk_joins(walk, inputs, inner - 1, inner)) continue;
		walk->extent[inner - 1] *= walk->extent[inner];
		for (int i = 0; i < inputs; i++) walk->stride[i][inner - 1] = walk->stride[i][inner];
		walk->rank--;
	}
	if (walk->rank == 0) {
		walk->rank = 1;
		walk->extent[0] = 1;
	}
}

/* Strides of operand i; 0 along dims of extent 1, which are repeated. */
static lk_status stride_operand(const lc_at *at, lc_walk *walk, int i, const lc_box *box) {
	int64_t step = 1;
	for (int d = box->rank; d-- > 0;) {
		int to = d + at->box.rank - box->rank;
		bool repeated = box->extent[d] == 1 && at->box.extent[to] != 1;
		if (!repeated && box->extent[d] != at->box.extent[to])
			return lk_fail(at->err, LK_ERR_INTERNAL, NULL,
			               "value %d: operand %d has %lld elements along dim %d, not %lld", at->id,
			               i, (long long)box->extent[d], d, (long long)at->box.extent[to]);
		walk->stride[i][to] = repeated ? 0 : step;
		step *= box->extent[d];
	}
	return LK_OK;
}

lk_status lc_walk_operands(const lc_at *at, lc_walk *walk, const lc_cells *in[LC_INPUTS]) {
	*walk = (lc_walk){.rank = at->box.rank};
	memcpy(walk->extent, at->box.extent, sizeof walk->extent);
	for (int i = 0; i < at->n->inputs; i++) {
		lc_box box;
		LK_TRY(lc_operand(at, i, &in[i], &box));
		LK_TRY(stride_operand(at, walk, i, &box));
	}
	if (at->box.count) collapse(walk, at->n->inputs);
	return LK_OK;
}

void lc_each_row(const lc_walk *walk, int inputs, lc_on_row *call, void *state) {
	int last = walk->rank - 1;
	int64_t place[LC_RANK] = {0}, in[LC_INPUTS] = {0}, stride[LC_INPUTS] = {0}, rows = 1;
	for (int d = 0; d < last; d++) rows *= walk->extent[d];
	for (int i = 0; i < inputs; i++) stride[i] = walk->stride[i][last];
	for (int64_t row = 0; row < rows; row++) {
		call(state, row * walk->extent[last], walk->extent[last], in, stride);
		for (int d = last; --d >= 0;) {
			for (int i = 0; i < inputs; i++) in[i] += walk->stride[i][d];
			if (++place[d] < walk->extent[d]) break;
			for (int i = 0; i < inputs; i++) in[i] -= walk->stride[i][d] * walk->extent[d];
			place[d] = 0;
		}
	}
}
