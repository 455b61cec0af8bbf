/* mixer_ssm.c: selective state spaces with inner width D, N states, a convolution of K.
 *
 *     Mamba-1 (arXiv 2312.00752), rank R:      2 h D + D (R + 2N) + R D + D h
 *         convolution D K, bias D, step sizes D, A D N, skip D; recurrence 9 D N operations a token
 *     Mamba-2 (arXiv 2405.21060), H heads, G groups:  h (2D + 2GN + H) + D h
 *         convolution (D + 2GN)(K + 1), A, skip and step sizes H each, a norm of D;
 *         recurrence 7 D N operations a token, as Megatron-LM counts it */
#include "model/network/parts.h"

static lk_weights mamba1(const lk_model *model) {
	double h = model->hidden, d = model->ssm_inner, n = model->ssm_state, r = model->ssm_rank;
	lk_weights sum = lk_weights_linear(h, 2 * d, model->ssm_bias);
	lk_weights_add(&sum, lk_weights_linear(d, r + 2 * n, false));
	lk_weights_add(&sum, lk_weights_linear(r, d, true));
	lk_weights_add(&sum, lk_weights_linear(d, h, model->ssm_bias));
	sum.others += d * model->ssm_conv + (model->ssm_conv_bias ? d : 0) + d * n + d;
	if (model->ssm_norm) sum.others += r + 2 * n;
	return sum;
}

static lk_weights mamba2(const lk_model *model) {
	double h = model->hidden, d = model->ssm_inner, heads = model->ssm_heads,
		   mixed = d + 2.0 * model->ssm_groups * model->ssm_state;
	lk_weights sum = lk_weights_linear(h, d + mixed + heads, model->ssm_bias);
	lk_weights_add(&sum, lk_weights_linear(d, h, model->ssm_bias));
	sum.others += mixed * model->ssm_conv + (model->ssm_conv_bias ? mixed : 0) + 3 * heads;
	if (model->ssm_norm) sum.others += d;
	return sum;
}

lk_weights lk_ssm_weights(const lk_model *model) {
	return model->ssm == 1 ? mamba1(model) : mamba2(model);
}

void lk_ssm_matrices(const lk_model *model, lk_matrices *list) {
	double h = model->hidden, d = model->ssm_inner, n = model->ssm_state, r = model->ssm_rank,
		   mixed = d + 2.0 * model->ssm_groups * n;
	lk_matrices_add(list, model->ssm == 1 ? 2 * d : d + mixed + model->ssm_heads, h, 1, LK_CUT_OUT);
	list->at[list->count - 1].bundle = true;
	if (model->ssm == 1) {
		lk_matrices_add(list, r + 2 * n, d, 1, LK_CUT_IN);
		lk_matrices_add(list, d, r, 1, LK_CUT_OUT);
	}
	lk_matrices_add(list, h, d, 1, LK_CUT_IN);
}

double lk_ssm_core(const lk_model *model, const lk_layer *layer, double s) {
	(void)layer;
	return s * (model->ssm == 1 ? 4.5 : 3.5) * model->ssm_inner * model->ssm_state;
}

double lk_ssm_state(const lk_model *model) {
	double n = model->ssm_state, d = model->ssm_inner,
		   mixed = model->ssm == 1 ? d : d + 2.0 * model->ssm_groups * n;
	return d * n + mixed * (model->ssm_conv - 1);
}
