/* collective_fit.c: the model's five numbers from the rows of a fabric, by a simplex search for the
 * smallest mean |ln(predicted / measured)|. A number that no row depends on keeps its start, for
 * instance the NICs' share if nothing crosses the network. A small penalty pulls all numbers to
 * their start, so that those that few rows determine stay near the default. */
#include <math.h>

#include "fit/fits.h"

enum { EVALUATIONS = 1500 };
static const double pull = .05; /* of a number towards its start: a factor e costs 5 % */

struct fit {
	const lk_coll_pick *rows;
	size_t count;
	const lk_nccl_laws *laws;
	double start[LK_FABRIC_NUMBERS];
};

static double mean_error(const double *x, void *context) {
	const struct fit *fit = context;
	lk_fabric fabric = {.laws = fit->laws};
	for (int i = 0; i < LK_FABRIC_NUMBERS; i++) *lk_fabric_number(&fabric, i) = x[i];
	double sum = 0, moved = 0;
	for (size_t i = 0; i < fit->count; i++)
		sum += fabs(log(lk_coll_row_time(fit->rows[i], &fabric) / fit->rows[i]->us));
	for (int i = 0; i < LK_FABRIC_NUMBERS; i++)
		if (fit->start[i] > 0 && i != LK_FABRIC_BUFFER) moved += pow(log(x[i] / fit->start[i]), 2);
	return (fit->count ? sum / (double)fit->count : 0) + pull * moved;
}

static void fit_hold(lk_fit_number *number) {
	number->low = number->high = number->start;
}

/* Start the search at `start`; fix the numbers that no row depends on there. */
static void fit_set_limits(const lk_coll_pick *rows, size_t count, const lk_fabric *start,
                           lk_fit_number *numbers) {
	bool inside = false, network = false, messages = false;
	lk_fabric from = *start;
	for (size_t i = 0; i < count; i++) {
		bool leaves = rows[i]->nodes > 1;
		inside |= !leaves;
		network |= leaves;
		messages |= leaves && rows[i]->kind == LK_COLL_SENDRECV;
	}
	for (int i = 0; i < LK_FABRIC_NUMBERS; i++) {
		numbers[i] = lk_fabric_limits[i];
		numbers[i].start = *lk_fabric_number(&from, i);
	}
	if (network && !(numbers[LK_FABRIC_NIC].start > 0))
		numbers[LK_FABRIC_NIC].start = lk_fabric_limits[LK_FABRIC_NIC].start;
	if (!network) fit_hold(&numbers[LK_FABRIC_NIC]);
	if (!messages) fit_hold(&numbers[LK_FABRIC_BUFFER]);
	if (!inside) fit_hold(&numbers[LK_FABRIC_WIRE]);
}

void lk_fabric_fit(const lk_coll_pick *rows, size_t count, const lk_fabric *start, lk_fabric *out,
                   double *error) {
	lk_fit_number numbers[LK_FABRIC_NUMBERS];
	struct fit f = {.rows = rows, .count = count, .laws = start->laws};
	double x[LK_FABRIC_NUMBERS];
	fit_set_limits(rows, count, start, numbers);
	for (int i = 0; i < LK_FABRIC_NUMBERS; i++) f.start[i] = numbers[i].start;
	lk_fit_simplex(numbers, LK_FABRIC_NUMBERS, EVALUATIONS, mean_error, &f, x, error);
	*out = (lk_fabric){.laws = start->laws};
	for (int i = 0; i < LK_FABRIC_NUMBERS; i++) *lk_fabric_number(out, i) = x[i];
}

lk_status lk_coll_predict_model(const lk_fabric *start, const lk_coll_pick *seen, size_t seen_count,
                                const lk_coll_pick *held, size_t held_count, double *us,
                                lk_error *err) {
	lk_fabric fabric;
	lk_curves curves;
	(void)err;
	lk_fabric_fit(seen, seen_count, start, &fabric, NULL);
	lk_coll_curves_fit(seen, seen_count, &fabric, &curves);
	fabric.curves = &curves;
	for (size_t i = 0; i < held_count; i++) us[i] = lk_coll_row_time(held[i], &fabric);
	return LK_OK;
}
