/* mixer_conv.c: the gated short convolution of LFM2 (arXiv 2511.23404): one product gives two gates
 * and a value, each as wide as the network; the first gate times the value passes a depthwise
 * convolution of K tokens; its result times the second gate enters the output product:
 *
 *     3 h h + h h; convolution h K
 */
#include "model/network/parts.h"

lk_weights lk_conv_weights(const lk_model *model) {
	double h = model->hidden;
	return (lk_weights){4 * h * h, model->short_conv * h};
}

void lk_conv_matrices(const lk_model *model, lk_matrices *list) {
	lk_matrices_add(list, model->hidden, model->hidden, 3, LK_CUT_OUT);
	lk_matrices_add(list, model->hidden, model->hidden, 1, LK_CUT_IN);
}

/* K and two gates per channel: too little to count, like all convolutions along a sequence. */
double lk_conv_core(const lk_model *model, const lk_layer *layer, double s) {
	(void)model, (void)layer, (void)s;
	return 0;
}
