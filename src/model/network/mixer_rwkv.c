/* mixer_rwkv.c: RWKV, hidden size h, time mix of width A in heads of S, MLP of width f. Version 4
 * (arXiv 2305.13048) as in the transformers library, 5 and 6 (2404.05892) as in the authors' code
 * for it, 7 (2503.14456) as in fla-org/flash-linear-attention:
 *
 *     time mix  matrices, parameters of them
 *     4         keys, values, receptance, output: 4 h A
 *     5         also a gate: 5 h A
 *     6         as 5, and low ranks m of mixes, w of decay: 10 h m + (h + A) w
 *     7         as 4, and low ranks of decay, rate, value and gate: (h + A) times each
 *
 *     time mix  other parameters: a mix h, the norm 2 A, each of the others A
 *     4         3 mixes, decay, bonus
 *     5         4 mixes, decay, bonus, a norm of each head
 *     6         6 mixes, decay, bonus, the norm
 *     7         6 mixes, biases of three low ranks, three factors, the norm
 *
 * Channel mix: 2 h f as every MLP; the receptance, h h, and 2 mixes; in version 7 only one mix.
 *
 * The first layer of version 7 has no low rank of values, but it is counted (0.02 % of 1.5
 * billion). The recurrence takes about 10 operations per channel and token in version 4, whose
 * state is one number per channel. With S x S states per head it takes 6 S; in version 7, which
 * also removes a key's old value, 10 S. */
#include "model/network/parts.h"

/* Sum of the time mix's low ranks; each is a pair of products, from h to the rank to A. */
static double low_ranks(const lk_model *model) {
	const int *rank = model->rwkv_ranks;
	if (model->rwkv == 6) return rank[1];
	return model->rwkv == 7 ? (double)rank[0] + rank[1] + rank[2] + rank[3] : 0;
}

lk_weights lk_rwkv_weights(const lk_model *model) {
	double h = model->hidden, a = model->rwkv_inner, mixes = lk_rwkv_mixes(model);
	lk_weights sum = {(lk_rwkv_inputs(model) + 1) * h * a + (h + a) * low_ranks(model),
	                  mixes * h + 2 * a};
	if (model->rwkv >= 5) sum.others += 2 * a;
	if (model->rwkv == 6) {
		sum.matrices += 2 * 5 * h * model->rwkv_ranks[0];
		sum.others += h; /* the mix that the low-rank pairs read */
	}
	if (model->rwkv == 7) sum.others += 4 * a;
	return sum;
}

void lk_rwkv_matrices(const lk_model *model, lk_matrices *list) {
	double h = model->hidden, a = model->rwkv_inner;
	const int *rank = model->rwkv_ranks;
	lk_matrices_add(list, a, h, lk_rwkv_inputs(model), LK_CUT_OUT);
	lk_matrices_add(list, h, a, 1, LK_CUT_IN);
	if (model->rwkv == 6) {
		lk_matrices_add(list, 5.0 * rank[0], h, 1, LK_CUT_NONE);
		lk_matrices_add(list, h, rank[0], 5, LK_CUT_NONE);
	}
	for (int i = model->rwkv == 6; i < 4 && model->rwkv >= 6; i++) {
		lk_matrices_add(list, rank[i], h, 1, LK_CUT_NONE);
		lk_matrices_add(list, a, rank[i], 1, LK_CUT_NONE);
	}
}

double lk_rwkv_core(const lk_model *model, const lk_layer *layer, double s) {
	(void)layer;
	double each = 5; /* version 4: one state per channel */
	if (model->rwkv == 7) each = 5.0 * model->rwkv_head;
	else if (model->rwkv >= 5) each = 3.0 * model->rwkv_head;
	return s * each * model->rwkv_inner;
}

lk_weights lk_rwkv_channel_weights(const lk_model *model) {
	double h = model->rwkv_inner > 0 ? model->hidden : 0;
	if (model->rwkv == 7) return (lk_weights){0, h};
	return (lk_weights){h * h, 2 * h};
}
