/* mixer_delta.c: the gated delta net (arXiv 2412.06464), Hk and Hv heads of keys and values, d_k
 * and d_v wide; kd = Hk d_k, vd = Hv d_v:
 *
 *     h (2 kd + 2 vd + 2 Hv) + vd h; convolution (2 kd + vd) K, decay and step 2 Hv, a norm of d_v
 *
 * Kimi delta attention (arXiv 2510.26692) with decay and gate of rank r:
 *
 *     h (2 kd + vd + Hv + 2 r) + r (kd + vd) + vd h; convolution, decay Hv + kd, a norm of d_v
 *
 * The recurrence takes four products of d_k d_v per value head and token: reading the state with
 * the key, erasing that, writing the new value, the output. */
#include "model/network/parts.h"

/* Columns of the first product. */
static double delta_columns(const lk_model *model, double keys, double values) {
	double heads = model->delta_value_heads, rank = model->delta_rank;
	return rank > 0 ? 2 * keys + values + heads + 2 * rank : 2 * keys + 2 * values + 2 * heads;
}

lk_weights lk_delta_weights(const lk_model *model) {
	double h = model->hidden, heads = model->delta_value_heads, rank = model->delta_rank,
		   keys = (double)model->delta_key_heads * model->delta_key_dim,
		   values = heads * model->delta_value_dim;
	double decay = rank > 0 ? heads + keys : 2 * heads;
	return (lk_weights){h * delta_columns(model, keys, values) + rank * (keys + values) +
	                        values * h,
	                    model->delta_conv * (2 * keys + values) + decay + model->delta_value_dim};
}

void lk_delta_matrices(const lk_model *model, lk_matrices *list) {
	double h = model->hidden, rank = model->delta_rank,
		   keys = (double)model->delta_key_heads * model->delta_key_dim,
		   values = (double)model->delta_value_heads * model->delta_value_dim;
	lk_matrices_add(list, delta_columns(model, keys, values), h, 1, LK_CUT_OUT);
	list->at[list->count - 1].bundle = true;
	lk_matrices_add(list, keys, rank, 1, LK_CUT_OUT);
	lk_matrices_add(list, values, rank, 1, LK_CUT_OUT);
	lk_matrices_add(list, h, values, 1, LK_CUT_IN);
}

double lk_delta_core(const lk_model *model, const lk_layer *layer, double s) {
	(void)layer;
	return s * 4 * model->delta_value_heads * model->delta_key_dim * model->delta_value_dim;
}

double lk_delta_state(const lk_model *model) {
	double keys = (double)model->delta_key_heads * model->delta_key_dim,
		   values = (double)model->delta_value_heads * model->delta_value_dim;
	return values * model->delta_key_dim + (2 * keys + values) * (model->delta_conv - 1);
}
