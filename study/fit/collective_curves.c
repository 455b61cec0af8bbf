/* collective_curves.c: corrections from the rows of a fabric, curve by curve. The remaining
 * ln(measured / model) is averaged around each power of two of bytes, with weights that fall to 0
 * at the neighbouring powers. */
#include <math.h>

#include "fit/fits.h"
#include <string.h>
#include "base/check.h"
#include "base/fit.h"

/* us of the host that a measurement holds: PyTorch's call and the wait for its end, which add to
 * the collective; PyTorch's call alone, and the launch of each GPU by one process, which run while
 * the call before does. */
static const double waited = 25, paced = 42, launch_of_gpu = 3.8;

/* The longer of the collective and what the host does meanwhile, rounded where both are alike. */
static double longer(double us, double host) {
	return pow(pow(us, 4) + pow(host, 4), .25);
}

static double curves_with_host(const lk_coll_row *row, double us) {
	switch (row->method) {
	case LK_COLL_ONE_PROCESS: return longer(us, launch_of_gpu * row->gpus);
	case LK_COLL_HOST_PACED: return row->kind == LK_COLL_SENDRECV ? us : longer(us, paced);
	case LK_COLL_HOST_TIMED: return us + waited;
	default: return us;
	}
}

/* A curve corrects what was timed: the model and its host. */
double lk_coll_row_time(const lk_coll_row *row, const lk_fabric *fabric) {
	lk_fabric model = *fabric;
	model.curves = NULL;
	lk_group_shape group = lk_coll_row_group(row, &model);
	double us = lk_collective_cost(row->kind, &group, row->bytes).seconds * 1e6;
	return curves_with_host(row, us) *
	       lk_curves_factor(fabric->curves, row->kind, &group, row->bytes);
}

enum { FEWEST = 4 }; /* sizes of a curve; with fewer there is no curve */

static bool same_curve(const lk_curve *curve, const lk_coll_row *row) {
	return curve->kind == row->kind && curve->gpus == row->gpus && curve->nodes == row->nodes;
}

static bool fit_curve(const lk_coll_pick *rows, size_t count, const lk_fabric *fabric,
                      lk_curve *curve) {
	double weight[LK_CURVE_KNOTS] = {0};
	int sizes = 0;
	for (size_t i = 0; i < count; i++) {
		if (!same_curve(curve, rows[i])) continue;
		double left = log(rows[i]->us / lk_coll_row_time(rows[i], fabric)),
			   place = lk_curve_place(rows[i]->bytes);
		LK_ASSERT(place >= 0 && place <= LK_CURVE_KNOTS - 1);
		for (int k = (int)place; k < LK_CURVE_KNOTS && k < place + 1; k++) {
			double w = 1 - fabs(place - k);
			weight[k] += w;
			curve->correction[k] += w * left;
		}
		sizes++;
	}
	for (int k = 0; k < LK_CURVE_KNOTS; k++) {
		curve->measured[k] = weight[k] > 0;
		if (weight[k] > 0) curve->correction[k] /= weight[k];
	}
	lk_curve_fill(curve);
	return sizes >= FEWEST;
}

void lk_coll_curves_fit(const lk_coll_pick *rows, size_t count, const lk_fabric *fabric,
                        lk_curves *out) {
	lk_fabric model = *fabric;
	model.curves = NULL;
	out->count = 0;
	for (size_t i = 0; i < count && out->count < LK_CURVES_MOST; i++) {
		lk_curve curve = {.kind = rows[i]->kind, .gpus = rows[i]->gpus, .nodes = rows[i]->nodes};
		bool before = false;
		for (size_t k = 0; k < i && !before; k++) before = same_curve(&curve, rows[k]);
		if (!before && fit_curve(rows, count, &model, &curve)) out->at[out->count++] = curve;
	}
}
