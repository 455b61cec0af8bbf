/* mixer_lightning.c: lightning attention (MiniMax-01, arXiv 2501.08313), a heads of size d:
 * queries, keys, values, a gate and the output, 5 h a d, and a norm of a d. The recurrence adds k v
 * to the state of a head and reads it with q: 2 d d. */
#include "model/network/parts.h"

lk_weights lk_lightning_weights(const lk_model *model) {
	double width = (double)model->heads * model->head_dim;
	return (lk_weights){5 * model->hidden * width, width};
}

void lk_lightning_matrices(const lk_model *model, lk_matrices *list) {
	double width = (double)model->heads * model->head_dim;
	lk_matrices_add(list, width, model->hidden, 4, LK_CUT_OUT);
	lk_matrices_add(list, model->hidden, width, 1, LK_CUT_IN);
}

double lk_lightning_core(const lk_model *model, const lk_layer *layer, double s) {
	(void)layer;
	return s * 2 * model->heads * (double)model->head_dim * model->head_dim;
}

double lk_lightning_state(const lk_model *model) {
	return model->heads * (double)model->head_dim * model->head_dim;
}
