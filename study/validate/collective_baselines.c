/* collective_baselines.c: baselines for the model, on the same folds.
 *
 *     alpha-beta     t = a + traffic / b of each collective and group (of the fabric, if its own
 *                    sizes were not seen); traffic is the size times the factor of the bus
 *                    bandwidth
 *     raw NCCL       NCCL's own latency + size / bandwidth, nothing fitted
 *     five scalars   t = t0 + kL latency + S / (bandwidth e), with e for each protocol, on NCCL's
 *                    numbers */
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "fit/fits.h"
#include "base/fit.h"
#include "cost/collective/nccl.h"

enum { EVALUATIONS = 600 };

/* ---- alpha and beta ---- */

struct line_fit {
	const lk_coll_pick *rows;
	size_t count;
	const lk_coll_row *like; /* only rows of its collective and group; NULL: all */
};

static bool baselines_alike(const lk_coll_row *a, const lk_coll_row *b) {
	return !b || (a->kind == b->kind && a->gpus == b->gpus && a->nodes == b->nodes);
}

static double line_at(const double *x, const lk_coll_row *row) {
	return x[0] + row->bytes * lk_coll_busbw_factor(row->kind, row->gpus) / x[1] / 1e3;
}

static double line_error(const double *x, void *context) {
	const struct line_fit *fit = context;
	double sum = 0;
	for (size_t i = 0; i < fit->count; i++)
		if (baselines_alike(fit->rows[i], fit->like))
			sum += fabs(log(line_at(x, fit->rows[i]) / fit->rows[i]->us));
	return sum;
}

lk_status lk_coll_predict_alpha_beta(const lk_fabric *start, const lk_coll_pick *seen,
                                     size_t seen_count, const lk_coll_pick *held, size_t held_count,
                                     double *us, lk_error *err) {
	(void)start;
	static const lk_fit_number numbers[] = {{"alpha_us", 30, .1, 10000, true},
	                                        {"GBps", 50, .01, 2000, true}};
	double x[2] = {0};
	(void)err;
	for (size_t i = 0; i < held_count; i++) {
		if (i == 0 || !baselines_alike(held[i], held[i - 1])) {
			struct line_fit f = {seen, seen_count, NULL};
			for (size_t k = 0; k < seen_count && !f.like; k++)
				if (baselines_alike(seen[k], held[i])) f.like = held[i];
			lk_fit_simplex(numbers, 2, EVALUATIONS, line_error, &f, x, NULL);
		}
		us[i] = line_at(x, held[i]);
	}
	return LK_OK;
}

/* ---- NCCL's numbers ---- */

static bool raw_of(const lk_coll_row *row, lk_nccl_raw *out) {
	lk_group_shape group = lk_coll_row_group(row, &lk_fabric_plain);
	return lk_nccl_raw_of(row->kind, &group, row->bytes, out);
}

lk_status lk_coll_predict_raw(const lk_fabric *start, const lk_coll_pick *seen, size_t seen_count,
                              const lk_coll_pick *held, size_t held_count, double *us,
                              lk_error *err) {
	(void)start;
	(void)seen;
	(void)seen_count;
	(void)err;
	for (size_t i = 0; i < held_count; i++) {
		lk_nccl_raw raw;
		us[i] = raw_of(held[i], &raw) ? raw.latency + raw.transfer : NAN;
	}
	return LK_OK;
}

/* ---- five scalars ---- */

static double baselines_scaled(const double *x, const lk_nccl_raw *raw) {
	return x[0] + x[1] * raw->latency + raw->transfer / x[2 + (int)raw->proto];
}

struct scalar_fit {
	const lk_nccl_raw *raw;
	const lk_coll_pick *rows;
	size_t count;
};

static double scalar_error(const double *x, void *context) {
	const struct scalar_fit *fit = context;
	double sum = 0;
	for (size_t i = 0; i < fit->count; i++)
		if (fit->raw[i].latency > 0)
			sum += fabs(log(baselines_scaled(x, &fit->raw[i]) / fit->rows[i]->us));
	return sum;
}

lk_status lk_coll_predict_scalars(const lk_fabric *start, const lk_coll_pick *seen,
                                  size_t seen_count, const lk_coll_pick *held, size_t held_count,
                                  double *us, lk_error *err) {
	(void)start;
	static const lk_fit_number numbers[] = {
		{"t0", 6, .1, 1000, true},     {"kL", 1.5, .05, 50, true},     {"e_LL", .6, .01, 3, true},
		{"e_LL128", .9, .01, 3, true}, {"e_Simple", .9, .01, 3, true},
	};
	lk_arena arena = LK_ARENA_INIT;
	lk_nccl_raw *raw = LK_ARRAY(&arena, lk_nccl_raw, seen_count);
	if (!raw) return lk_oom(err);
	for (size_t i = 0; i < seen_count; i++)
		if (!raw_of(seen[i], &raw[i])) raw[i].latency = 0;
	struct scalar_fit f = {raw, seen, seen_count};
	double x[5];
	lk_fit_simplex(numbers, 5, EVALUATIONS * 2, scalar_error, &f, x, NULL);
	for (size_t i = 0; i < held_count; i++) {
		lk_nccl_raw one;
		us[i] = raw_of(held[i], &one) ? baselines_scaled(x, &one) : NAN;
	}
	lk_arena_free(&arena);
	return LK_OK;
}
