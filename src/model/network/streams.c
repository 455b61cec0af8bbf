/* streams.c: a network of n streams of h numbers (Gemma 3n), low rank r, p values per token for
 * each of L layers, from tables of V rows:
 *
 *     layer      n h + n n n + n n, a norm and a scale of h; 2 h r, a norm; 2 h p, a norm
 *     embedding  V p L + h p L + p, (n - 1) h h
 *     head       (n - 1) h h
 */
#include "model/network/parts.h"

lk_weights lk_streams_layer(const lk_model *model) {
	const lk_streams *net = &model->streams;
	double n = net->count, h = model->hidden;
	if (n == 0) return (lk_weights){0};
	return (lk_weights){n * h + n * n * n + n * n + 2 * h * net->low_rank + 2 * h * net->inputs,
	                    4 * h};
}

double lk_streams_embedding(const lk_model *model) {
	const lk_streams *net = &model->streams;
	double h = model->hidden, p = net->inputs;
	if (net->count == 0) return 0;
	return ((double)net->input_rows + h) * p * model->layers + p + (net->count - 1) * h * h;
}

double lk_streams_head(const lk_model *model) {
	double h = model->hidden;
	return model->streams.count > 0 ? (model->streams.count - 1) * h * h : 0;
}

double lk_streams_edges(const lk_model *model) {
	double h = model->hidden;
	return 2 * lk_streams_head(model) + h * model->streams.inputs * model->layers;
}

void lk_streams_matrices(const lk_model *model, lk_matrices *list) {
	const lk_streams *net = &model->streams;
	double n = net->count, h = model->hidden;
	lk_matrices_add(list, n, h, n > 0, LK_CUT_NONE);
	lk_matrices_add(list, n * n, n, 1, LK_CUT_NONE);
	lk_matrices_add(list, n, n, 1, LK_CUT_NONE);
	lk_matrices_add(list, net->low_rank, h, n > 0, LK_CUT_NONE);
	lk_matrices_add(list, h, net->low_rank, n > 0, LK_CUT_NONE);
	lk_matrices_add(list, net->inputs, h, n > 0, LK_CUT_NONE);
	lk_matrices_add(list, h, net->inputs, n > 0, LK_CUT_NONE);
}
