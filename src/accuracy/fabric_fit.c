/* fabric_fit.c: makes mean |ln(predicted / measured)| over the rows of a fabric small, by a simplex search over its five
 * numbers. A number that no row depends on keeps its start. */
#include "accuracy/fabric_fit.h"

#include <math.h>

#include "base/fit.h"

double lk_coll_row_time(const lk_coll_row *row, const lk_fabric *fabric) {
	lk_group_shape group = lk_coll_row_group(row, fabric);
	return lk_collective_cost(row->kind, &group, row->bytes).seconds * 1e6;
}

typedef struct fit {
	const lk_coll_row *const *rows;
	size_t count;
} fit;

static double mean_error(const double *x, void *context) {
	const fit *f = context;
	lk_fabric fabric;
	for (int i = 0; i < LK_FABRIC_NUMBERS; i++) *lk_fabric_number(&fabric, i) = x[i];
	double sum = 0;
	for (size_t i = 0; i < f->count; i++) sum += fabs(log(lk_coll_row_time(f->rows[i], &fabric) / f->rows[i]->us));
	return f->count ? sum / (double)f->count : 0;
}

void lk_fabric_fit(const lk_coll_row *const *rows, size_t count, const lk_fabric *start, lk_fabric *out, double *error) {
	lk_fit_number numbers[LK_FABRIC_NUMBERS] = {
		{"launch_us", 0, .5, 200, true}, {"latency", 0, .9, 6, true}, {"channel_us", 0, .01, 20, true},
		{"wire", 0, .05, 1.3, true}, {"nic", 0, .01, 1.1, true},
	};
	fit f = {rows, count};
	double x[LK_FABRIC_NUMBERS];
	bool inside = false, network = false;
	*out = *start;
	for (size_t i = 0; i < count; i++) network |= rows[i]->nodes > 1, inside |= rows[i]->nodes == 1;
	for (int i = 0; i < LK_FABRIC_NUMBERS; i++) numbers[i].start = *lk_fabric_number(out, i);
	if (!network) numbers[4].low = numbers[4].high = numbers[4].start;
	if (!inside) numbers[3].low = numbers[3].high = numbers[3].start;
	if (network && !(numbers[4].start > 0)) numbers[4].start = .6;
	lk_fit_simplex(numbers, LK_FABRIC_NUMBERS, 1500, mean_error, &f, x, error);
	for (int i = 0; i < LK_FABRIC_NUMBERS; i++) *lk_fabric_number(out, i) = x[i];
}
