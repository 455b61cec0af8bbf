/* slowdown_fit.c: fits the overlap model (cost/kernel/overlap.c) to a table.
 *
 * The two constants are medians, weighted by time, of the values that the affected kernels show;
 * the median minimises the sum of absolute errors. Kinds are found by grouping: a launch further
 * than RADIUS from all centres starts a new one, and centres move to the mean of their launches,
 * four times. A kind's slowdown is the candidate s, among its launches' own u and the constants',
 * with the least sum of
 *
 *     |s - u| + BONUS min(1, |s - u| / NEAR)
 *
 * a median that leans to where most launches agree: collectives are at times busy and at times
 * waiting, and the mean of both never occurs. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/check.h"
#include "fit/fits.h"
#include "base/stats.h"
#include "base/sort.h"

#define RADIUS 0.8
#define BONUS  0.5
#define NEAR   0.07
#define PRIOR  0.3 /* weight of the constants, in launches */
enum { ROUNDS = 4 };

struct lk_weighted {
	double value, weight;
};

LK_ORDER_BY(slowdown_fit_by_value, struct lk_weighted, value)

static double median(struct lk_weighted *weighted, size_t count) {
	double total = 0, sum = 0;
	lk_sort(weighted, count, sizeof *weighted, slowdown_fit_by_value);
	for (size_t i = 0; i < count; i++) total += weighted[i].weight;
	for (size_t i = 0; i < count; i++)
		if ((sum += weighted[i].weight) >= total / 2) return weighted[i].value;
	return 0;
}

double lk_slowdown_median(lk_arena *arena, const lk_slowdown_table *table, const double *strength) {
	struct lk_weighted *weighted = LK_ARRAY(arena, struct lk_weighted, table->count);
	size_t count = 0;
	for (size_t i = 0; weighted && i < table->count; i++) {
		const lk_overlap_kernel *kernel = &table->at[i].kernel;
		double part = kernel->ratio * strength[i];
		if (!(part > 0) || kernel->ratio < 0.2) continue;
		weighted[count++] = (struct lk_weighted){
			(table->at[i].measured_s / kernel->alone_s - 1) / part, kernel->alone_s * part};
	}
	return weighted ? median(weighted, count) : NAN;
}

/* Zero for kernels on which a mechanism hardly acts: they would only add noise. */
static double fit_clear(double strength) {
	return strength > 0.05 ? strength : 0;
}

static bool fit_constants(lk_arena *arena, const lk_slowdown_table *table, const bool *use,
                          lk_overlap *out) {
	double *sm = LK_ARRAY(arena, double, table->count),
		   *latency = LK_ARRAY(arena, double, table->count);
	if (!sm || !latency) return false;
	for (size_t i = 0; i < table->count; i++) {
		if (use && !use[i]) continue;
		sm[i] = fit_clear(lk_overlap_sm_bound(&table->at[i].kernel));
		latency[i] = fit_clear(lk_overlap_latency_bound(&table->at[i].kernel));
	}
	out->displacement = fmax(0, lk_slowdown_median(arena, table, sm));
	out->latency = fmax(0, lk_slowdown_median(arena, table, latency));
	return isfinite(out->displacement) && isfinite(out->latency);
}

/* ---- kinds ---- */

typedef double point[LK_OVERLAP_FEATURES];

struct grouping {
	const lk_slowdown_table *table;
	const bool *use;
	point *at;                 /* [rows] */
	size_t *kind;              /* [rows] */
	struct lk_weighted *votes; /* [rows + 1] */
	lk_overlap *model;
};

static bool fit_used(const struct grouping *grouping, size_t row) {
	return !grouping->use || grouping->use[row];
}

static size_t fit_nearest(const lk_overlap *model, const double *at, double *distance2) {
	size_t best = 0;
	*distance2 = INFINITY;
	for (size_t k = 0; k < model->kind_count; k++) {
		double d = lk_overlap_distance2(model->kinds[k].at, at);
		if (d < *distance2) {
			*distance2 = d;
			best = k;
		}
	}
	return best;
}

static void begin_kinds(struct grouping *grouping) {
	for (size_t i = 0; i < grouping->table->count; i++) {
		double distance2;
		if (!fit_used(grouping, i)) continue;
		fit_nearest(grouping->model, grouping->at[i], &distance2);
		if (distance2 <= RADIUS * RADIUS) continue;
		memcpy(grouping->model->kinds[grouping->model->kind_count++].at, grouping->at[i],
		       sizeof *grouping->at);
	}
}

/* Assign launches to the nearest centre and move centres to their mean; remove centres without
 * launches. */
static void move_kinds(struct grouping *grouping) {
	lk_overlap *model = grouping->model;
	double distance2;
	for (size_t i = 0; i < grouping->table->count; i++)
		if (fit_used(grouping, i))
			grouping->kind[i] = fit_nearest(model, grouping->at[i], &distance2);
	for (size_t k = 0; k < model->kind_count; k++) model->kinds[k] = (lk_overlap_kind){.count = 0};
	for (size_t i = 0; i < grouping->table->count; i++) {
		if (!fit_used(grouping, i)) continue;
		LK_ASSERT(grouping->kind[i] < model->kind_count);
		lk_overlap_kind *kind = &model->kinds[grouping->kind[i]];
		kind->count++;
		for (int f = 0; f < LK_OVERLAP_FEATURES; f++)
			kind->at[f] += (grouping->at[i][f] - kind->at[f]) / kind->count;
	}
	size_t kept = 0;
	for (size_t k = 0; k < model->kind_count; k++)
		if (model->kinds[k].count) model->kinds[kept++] = model->kinds[k];
	model->kind_count = kept;
}

static double agreed(const struct lk_weighted *votes, size_t count) {
	double best = INFINITY, at = 0;
	for (size_t i = 0; i < count; i++) {
		double cost = 0, s = votes[i].value;
		for (size_t j = 0; j < count; j++) {
			double off = fabs(s - votes[j].value);
			cost += votes[j].weight * (off + BONUS * fmin(1, off / NEAR / (1 + votes[j].value)));
		}
		if (cost < best) {
			best = cost;
			at = s;
		}
	}
	return at;
}

static void vote(struct grouping *grouping, size_t k) {
	lk_overlap_kind *kind = &grouping->model->kinds[k];
	size_t count = 0;
	double expected = 0;
	for (size_t i = 0; i < grouping->table->count; i++) {
		const lk_slowdown_row *row = &grouping->table->at[i];
		if (!fit_used(grouping, i) || grouping->kind[i] != k) continue;
		double own =
			row->measured_s / row->kernel.alone_s / lk_overlap_regress(kind->at, grouping->at[i]);
		grouping->votes[count++] = (struct lk_weighted){own - 1, 1};
		expected += lk_overlap_mechanism(grouping->model, &row->kernel);
	}
	if (count == 0) return;
	grouping->votes[count] = (struct lk_weighted){expected / (double)count, PRIOR};
	kind->slower = agreed(grouping->votes, count + 1);
}

static bool fit_all_kinds(lk_arena *arena, const lk_slowdown_table *table, const bool *use,
                          lk_overlap *out) {
	struct grouping g = {
		.table = table,
		.use = use,
		.model = out,
		.at = LK_ARRAY(arena, point, table->count),
		.kind = LK_ARRAY(arena, size_t, table->count),
		.votes = LK_ARRAY(arena, struct lk_weighted, table->count + 1),
	};
	double distance2;
	out->kinds = LK_ARRAY(arena, lk_overlap_kind, table->count);
	if (!g.at || !g.kind || !g.votes || !out->kinds) return false;
	for (size_t i = 0; i < table->count; i++) lk_overlap_place(&table->at[i].kernel, g.at[i]);
	begin_kinds(&g);
	for (int round = 0; round < ROUNDS; round++) move_kinds(&g);
	for (size_t i = 0; i < table->count; i++)
		if (fit_used(&g, i)) g.kind[i] = fit_nearest(out, g.at[i], &distance2);
	for (size_t k = 0; k < out->kind_count; k++) vote(&g, k);
	return true;
}

/* ---- errors of predictions ---- */

bool lk_slowdown_spreads(lk_arena *arena, const lk_slowdown_table *table, const bool *use,
                         const double *miss, lk_overlap *model) {
	double *some = LK_ARRAY(arena, double, table->count), distance2;
	size_t *kind = LK_ARRAY(arena, size_t, table->count);
	point at;
	if (!some || !kind) return false;
	for (size_t i = 0; i < table->count; i++) {
		lk_overlap_place(&table->at[i].kernel, at);
		kind[i] = fit_nearest(model, at, &distance2);
	}
	for (size_t k = 0; k < model->kind_count; k++) {
		size_t count = 0;
		for (size_t i = 0; i < table->count; i++)
			if (kind[i] == k && isfinite(miss[i]) && (!use || use[i])) some[count++] = miss[i];
		model->kinds[k].missed = (int)count;
		model->kinds[k].spread = count ? lk_median(some, count) : 0;
	}
	return true;
}

bool lk_slowdown_fit(lk_arena *arena, const lk_slowdown_table *table, const bool *use, bool kinds,
                     lk_overlap *out) {
	*out = (lk_overlap){0};
	return fit_constants(arena, table, use, out) &&
	       (!kinds || fit_all_kinds(arena, table, use, out));
}
