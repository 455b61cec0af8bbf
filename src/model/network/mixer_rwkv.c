/* mixer_rwkv.c: RWKV-4 (arXiv 2305.13048) as the transformers library has it, hidden size h, time
 * mix of width A, MLP of width f:
 *
 *     time mix     keys, values, receptance and output 4 h A; how much of the token before goes
 *                  into each of three inputs 3 h; decay and bonus of a channel 2 A
 *     channel mix  2 h f as every MLP, receptance h h, how much of the token before 2 h
 *
 * The recurrence takes about 10 operations for a channel and token. */
#include "model/network/parts.h"

lk_weights lk_rwkv_weights(const lk_model *model) {
	double h = model->hidden, a = model->rwkv_inner;
	return (lk_weights){4 * h * a, 3 * h + 2 * a};
}

void lk_rwkv_matrices(const lk_model *model, lk_matrices *list) {
	lk_matrices_add(list, model->rwkv_inner, model->hidden, 3, LK_CUT_OUT);
	lk_matrices_add(list, model->hidden, model->rwkv_inner, 1, LK_CUT_IN);
}

double lk_rwkv_core(const lk_model *model, const lk_layer *layer, double s) {
	(void)layer;
	return s * 5 * model->rwkv_inner;
}

lk_weights lk_rwkv_channel_weights(const lk_model *model) {
	double h = model->rwkv_inner > 0 ? model->hidden : 0;
	return (lk_weights){h * h, 2 * h};
}
