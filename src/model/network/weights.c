/* weights.c: weights of single parts: a linear layer, a norm, sums of parts. */
#include "model/network/parts.h"

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
