/* collective_laws.c: the numbers that all fabrics share, and the numbers of a fabric that nobody
 * measured, from rows of many fabrics: Gauss-Newton steps on ln(measured / predicted), by robust
 * least squares, in logarithms of the numbers. Each curve (collective, group, fabric) is weighted
 * with the square root of its number of sizes, so that a table with many sizes of one group does
 * not dominate. A number moves away from NCCL's tables or the hardware's data only if rows pay for
 * it: its distance costs in proportion. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/check.h"
#include "fit/fits.h"

enum {
	SHARED = 3, /* the first numbers of a fabric: launch, channel, wire */
	NUMBERS = LK_NCCL_LAWS + SHARED,
	ROUNDS = 24,
};
static const double pull = .3;    /* of a factor e of one number, in curves */
static const double ripple = .02; /* step of the derivatives, larger than what a change of protocol
                                     does */
static const double reach = .5;   /* a step's largest factor, as ln */

struct laws_fit {
	const lk_coll_pick *rows;
	size_t count;
	double *weight, *residual, *moved, *jacobian; /* by row, plus one row for each number */
};

static const lk_fit_number *laws_limits(int index) {
	return index < LK_NCCL_LAWS ? &lk_nccl_law_limits[index]
	                            : &lk_fabric_limits[index - LK_NCCL_LAWS];
}

/* Set the numbers from x = ln(number / start). */
static void laws_numbers(const double *x, lk_nccl_laws *laws, lk_fabric *fabric) {
	*laws = lk_nccl_laws_of(NULL);
	*fabric = lk_fabric_plain;
	fabric->laws = laws;
	for (int i = 0; i < NUMBERS; i++) {
		double value = laws_limits(i)->start * exp(x[i]);
		if (i < LK_NCCL_LAWS) *lk_nccl_law(laws, i) = value;
		else *lk_fabric_number(fabric, i - LK_NCCL_LAWS) = value;
	}
}

static double laws_held(int index, double x) {
	const lk_fit_number *limits = laws_limits(index);
	return fmin(fmax(x, log(limits->low / limits->start)), log(limits->high / limits->start));
}

/* Fill the residuals of the rows; return the mean to minimise. */
static double laws_residuals(const struct laws_fit *fit, const double *x, double *residual) {
	lk_nccl_laws laws;
	lk_fabric fabric;
	double sum = 0, weights = 0;
	laws_numbers(x, &laws, &fabric);
	for (size_t i = 0; i < fit->count; i++) {
		residual[i] = log(fit->rows[i]->us / lk_coll_row_time(fit->rows[i], &fabric));
		sum += fit->weight[i] * fabs(residual[i]);
		weights += fit->weight[i];
	}
	for (int i = 0; i < NUMBERS; i++) {
		residual[fit->count + (size_t)i] = -x[i];
		sum += pull * fabs(x[i]);
	}
	return weights > 0 ? sum / weights : 0;
}

static bool laws_same_curve(const lk_coll_row *a, const lk_coll_row *b) {
	return a->kind == b->kind && a->gpus == b->gpus && a->nodes == b->nodes &&
	       a->settings.nvls == b->settings.nvls && strcmp(a->fabric, b->fabric) == 0;
}

static void laws_weigh(const struct laws_fit *fit) {
	for (size_t i = 0; i < fit->count; i++) {
		size_t alike = 0;
		for (size_t k = 0; k < fit->count; k++)
			alike += laws_same_curve(fit->rows[i], fit->rows[k]);
		LK_ASSERT(alike > 0); /* a row is like itself */
		fit->weight[i] = 1 / sqrt((double)alike);
	}
	for (int i = 0; i < NUMBERS; i++) fit->weight[fit->count + (size_t)i] = pull;
}

static void laws_derive(const struct laws_fit *fit, const double *x) {
	size_t rows = fit->count + NUMBERS;
	for (int n = 0; n < NUMBERS; n++) {
		double near[NUMBERS];
		memcpy(near, x, sizeof near);
		near[n] += ripple;
		laws_residuals(fit, near, fit->moved);
		for (size_t i = 0; i < rows; i++)
			fit->jacobian[i * NUMBERS + (size_t)n] = (fit->residual[i] - fit->moved[i]) / ripple;
	}
}

/* Take a step, halved until it improves. False if no step does. */
static bool laws_walk(const struct laws_fit *fit, const double *step, double *x, double *least) {
	for (double part = 1; part > .02; part /= 2) {
		double next[NUMBERS];
		for (int n = 0; n < NUMBERS; n++)
			next[n] = laws_held(n, x[n] + part * fmin(fmax(step[n], -reach), reach));
		double value = laws_residuals(fit, next, fit->moved);
		if (!(value < *least - 1e-6)) continue;
		*least = value;
		memcpy(x, next, sizeof next);
		return true;
	}
	return false;
}

static lk_status laws_search(const struct laws_fit *fit, double *x, lk_error *err) {
	double least = laws_residuals(fit, x, fit->residual), step[NUMBERS];
	for (int round = 0; round < ROUNDS; round++) {
		laws_residuals(fit, x, fit->residual);
		laws_derive(fit, x);
		LK_TRY(lk_fit_linear(fit->jacobian, fit->residual, fit->weight, fit->count + NUMBERS,
		                     NUMBERS, NULL, step, err));
		if (!laws_walk(fit, step, x, &least)) break;
	}
	return LK_OK;
}

bool lk_coll_teaches_laws(const lk_coll_row *row) {
	bool known =
		row->nodes == 1 || row->network_stated || row->node.transport == LK_TRANSPORT_SOCKETS;
	return known && !*row->refused && !*row->slow && row->us > 0;
}

lk_status lk_coll_laws_fit(const lk_coll_pick *rows, size_t count, lk_nccl_laws *laws,
                           lk_fabric *fabric, double *error, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	size_t room = count + NUMBERS;
	double x[NUMBERS] = {0};
	struct laws_fit fit = {
		.rows = rows,
		.count = count,
		.weight = LK_ARRAY(&arena, double, room),
		.residual = LK_ARRAY(&arena, double, room),
		.moved = LK_ARRAY(&arena, double, room),
		.jacobian = LK_ARRAY(&arena, double, room *NUMBERS),
	};
	lk_status status =
		fit.weight && fit.residual && fit.moved && fit.jacobian ? LK_OK : lk_oom(err);
	if (status == LK_OK) {
		laws_weigh(&fit);
		status = laws_search(&fit, x, err);
	}
	if (status == LK_OK) {
		laws_numbers(x, laws, fabric);
		double off = 0;
		laws_residuals(&fit, x, fit.residual);
		for (size_t i = 0; i < count; i++) off += fabs(fit.residual[i]);
		*error = count ? off / (double)count : 0;
	}
	lk_arena_free(&arena);
	return status;
}

lk_status lk_coll_predict_laws(const lk_fabric *start, const lk_coll_pick *seen, size_t seen_count,
                               const lk_coll_pick *held, size_t held_count, double *us,
                               lk_error *err) {
	(void)start;
	lk_arena arena = LK_ARENA_INIT;
	lk_coll_pick *rows = LK_ARRAY(&arena, lk_coll_pick, seen_count);
	lk_nccl_laws laws;
	lk_fabric fabric;
	double error;
	size_t count = 0;
	lk_status status = rows ? LK_OK : lk_oom(err);
	for (size_t i = 0; status == LK_OK && i < seen_count; i++)
		if (lk_coll_teaches_laws(seen[i])) rows[count++] = seen[i];
	if (status == LK_OK) status = lk_coll_laws_fit(rows, count, &laws, &fabric, &error, err);
	for (size_t i = 0; status == LK_OK && i < held_count; i++)
		us[i] = lk_coll_row_time(held[i], &fabric);
	lk_arena_free(&arena);
	return status;
}
