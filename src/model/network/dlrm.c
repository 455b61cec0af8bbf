/* dlrm.c: sizes of recommendation models in closed form. */
#include <math.h>

#include "base/check.h"
#include "model/network/dlrm.h"

double lk_dlrm_vectors(const lk_dlrm *dlrm) {
	return dlrm->tables + 1;
}

double lk_dlrm_pairs(const lk_dlrm *dlrm) {
	double n = lk_dlrm_vectors(dlrm);
	return dlrm->interaction != LK_DLRM_DOT ? 0 : n * (n + (dlrm->self ? 1 : -1)) / 2;
}

/* Sum over the layers of (inputs + extra) * outputs. */
static double dlrm_layers(const double *widths, int count, double extra) {
	LK_ASSERT(count >= 1 && count <= LK_DLRM_LAYERS);
	double sum = 0;
	for (int i = 1; i < count; i++) sum += (widths[i - 1] + extra) * widths[i];
	return sum;
}

/* Weights of all cross layers; their biases. */
static double cross_weights(const lk_dlrm *dlrm) {
	return dlrm->interaction == LK_DLRM_CROSS
	           ? dlrm->cross_layers * 2 * dlrm->top[0] * dlrm->cross_rank
	           : 0;
}

static double cross_biases(const lk_dlrm *dlrm) {
	return dlrm->interaction == LK_DLRM_CROSS ? dlrm->cross_layers * dlrm->top[0] : 0;
}

double lk_dlrm_dense_params(const lk_dlrm *dlrm) {
	return cross_weights(dlrm) + cross_biases(dlrm) +
	       dlrm_layers(dlrm->bottom, dlrm->bottom_widths, 1) +
	       dlrm_layers(dlrm->top, dlrm->top_widths, 1);
}

double lk_dlrm_params(const lk_dlrm *dlrm) {
	double rows = 0;
	for (int i = 0; i < dlrm->kind_count; i++) rows += dlrm->kinds[i].count * dlrm->kinds[i].rows;
	return lk_dlrm_dense_params(dlrm) + rows * dlrm->dim;
}

/* Three products per layer, two for the first, whose input needs no gradient; three for the
 * interaction. */
double lk_dlrm_flops(const lk_dlrm *dlrm, double batch) {
	LK_ASSERT(batch >= 0);
	double n = lk_dlrm_vectors(dlrm);
	double products = 3 * (dlrm_layers(dlrm->bottom, dlrm->bottom_widths, 0) +
	                       dlrm_layers(dlrm->top, dlrm->top_widths, 0));
	products -= dlrm->bottom[0] * dlrm->bottom[1];
	if (dlrm->interaction == LK_DLRM_DOT) products += 3 * n * n * dlrm->dim;
	products += 3 * cross_weights(dlrm);
	return 2 * batch * products;
}

double lk_dlrm_row_state(const lk_dlrm *dlrm) {
	if (dlrm->optimizer == LK_DLRM_SGD) return 0;
	if (dlrm->optimizer == LK_DLRM_ADAGRAD) return 4;
	return 8 * dlrm->dim;
}

double lk_dlrm_dense_state(const lk_dlrm *dlrm) {
	if (dlrm->optimizer == LK_DLRM_SGD) return 0;
	if (dlrm->optimizer == LK_DLRM_ADAGRAD) return 4;
	return 8;
}

/* Elements of a sample's activations: layers, vectors, what cross layers keep. */
static double numbers_kept(const lk_dlrm *dlrm) {
	double sum = 2 * lk_dlrm_vectors(dlrm) * dlrm->dim;
	for (int i = 0; i < dlrm->bottom_widths; i++) sum += dlrm->bottom[i];
	for (int i = 0; i < dlrm->top_widths; i++) sum += dlrm->top[i];
	if (dlrm->interaction == LK_DLRM_CROSS)
		sum += dlrm->cross_layers * (2 * dlrm->top[0] + dlrm->cross_rank);
	return sum;
}

void lk_dlrm_hold_dense(const lk_dlrm *dlrm, double samples, double element,
                        double resident[LK_OWNERS]) {
	LK_ASSERT(samples >= 0 && element > 0);
	const double single = 4;
	double dense = lk_dlrm_dense_params(dlrm);
	resident[LK_OWN_WEIGHTS] = dense * single + (element < single ? dense * element : 0);
	resident[LK_OWN_GRADIENTS] = dense * element;
	resident[LK_OWN_OPTIMIZER] = dense * lk_dlrm_dense_state(dlrm);
	resident[LK_OWN_ACTIVATIONS] = samples * numbers_kept(dlrm) * element;
}

double lk_dlrm_saved_bytes(const lk_dlrm *dlrm) {
	double dense = lk_dlrm_dense_params(dlrm), all = lk_dlrm_params(dlrm);
	return 4 * all + dense * lk_dlrm_dense_state(dlrm) +
	       (all - dense) / dlrm->dim * lk_dlrm_row_state(dlrm);
}

double lk_dlrm_lookups(const lk_dlrm *dlrm) {
	double sum = 0;
	for (int i = 0; i < dlrm->kind_count; i++) sum += dlrm->kinds[i].count * dlrm->kinds[i].pooling;
	return sum;
}

double lk_dlrm_active_params(const lk_dlrm *dlrm) {
	return lk_dlrm_dense_params(dlrm) + lk_dlrm_lookups(dlrm) * dlrm->dim;
}

/* Distinct rows that the batch touches in tables of `rows` rows, all rows equally likely. */
static double dlrm_touched(double tables, double rows, double lookups) {
	return -tables * rows * expm1(lookups * log1p(-1 / rows));
}

static double touched_by_kinds(const lk_dlrm *dlrm, double batch) {
	double sum = 0;
	for (int i = 0; i < dlrm->kind_count; i++)
		sum += dlrm->kinds[i].rows > 1 ? dlrm_touched(dlrm->kinds[i].count, dlrm->kinds[i].rows,
		                                              batch * dlrm->kinds[i].pooling)
		                               : dlrm->kinds[i].count;
	return sum;
}

double lk_dlrm_equal_rows(const lk_dlrm *dlrm, double batch) {
	double pooling = lk_dlrm_lookups(dlrm) / dlrm->tables;
	double want = touched_by_kinds(dlrm, batch), low = 1, high = 1;
	for (int i = 0; i < dlrm->kind_count; i++) high = fmax(high, dlrm->kinds[i].rows);
	if (dlrm->kind_count == 1) return high;
	for (int i = 0; i < 60; i++) {
		double middle = sqrt(low * high);
		double got =
			middle > 1 ? dlrm_touched(dlrm->tables, middle, batch * pooling) : dlrm->tables;
		if (got < want) low = middle;
		else high = middle;
	}
	return high;
}
