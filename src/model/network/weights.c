/* weights.c: weights of single parts: a linear layer, a norm, sums of parts, lists of matrices. */
#include "model/network/parts.h"

#include "base/check.h"

lk_weights lk_weights_linear(double in, double out, bool bias) {
	return (lk_weights){in * out, bias ? out : 0};
}

double lk_weights_norm(const lk_model *model, double width) {
	if (model->norm_plain) return 0;
	return model->norm == LK_NORM_LAYER && model->norm_bias ? 2 * width : width;
}

void lk_weights_add(lk_weights *sum, lk_weights part) {
	sum->matrices += part.matrices;
	sum->others += part.others;
}

void lk_matrices_add(lk_matrices *list, double out, double in, double count, lk_cut cut) {
	LK_ASSERT(list->count < LK_LAYER_MATRICES);
	if (out > 0 && in > 0 && count > 0)
		list->at[list->count++] = (lk_matrix){.out = out, .in = in, .count = count, .cut = cut};
}
