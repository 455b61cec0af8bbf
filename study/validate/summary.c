/* summary.c: the statistics of include/lockstep/validate.h over rows of (predicted, measured).
 *
 * Errors are symmetric in the logarithm: halving and doubling count alike in geomean_error. Rank
 * figures compare layouts of one job: rows of one layout (repeated submissions, releases) are one
 * point, by the geometric mean of predictions and measurements; only groups with at least two
 * layouts count.
 *
 * A scaling series is one job on different numbers of GPUs. Its speed is work / time, and each
 * number of GPUs is compared with the smallest one: ln of (predicted speed-up / measured speed-up).
 * An error common to all sizes cancels, so scaling_error says how far one measurement can be
 * extrapolated to other sizes. */
#include "validate/validate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/stats.h"
#include "base/sort.h"

enum { MACRO_ROWS = 10 }; /* scored rows that a stack needs to count in the macro mean */

static bool is_positive(double x) {
	return isfinite(x) && x > 0;
}

bool lk_score_counts(const lk_score *score) {
	return !score->suspect && is_positive(score->predicted) && is_positive(score->measured);
}

static void summary_clear(lk_accuracy *accuracy) {
	const char *by = accuracy->by, *name = accuracy->name;
	*accuracy = (lk_accuracy){
		.by = by,
		.name = name,
		.geomean_error = NAN,
		.macro_geomean_error = NAN,
		.mape = NAN,
		.median_error = NAN,
		.p90_error = NAN,
		.bias = NAN,
		.kendall_tau = NAN,
		.mean_top1_regret = NAN,
		.coverage = NAN,
		.within_5 = NAN,
		.weighted_error = NAN,
		.half_width = NAN,
		.scaling_error = NAN,
	};
}

/* ---- errors ---- */

static lk_status summarise_errors(const lk_score *scores, size_t count, lk_accuracy *out,
                                  lk_error *err) {
	size_t room = count ? count : 1, n = 0, ranges = 0, covered = 0, near = 0;
	double *error = malloc(2 * room * sizeof *error);
	double distance = 0, shift = 0, off = 0, whole = 0;
	if (!error) return lk_oom(err);
	double *width = error + room;
	for (size_t i = 0; i < count; i++) {
		const lk_score *score = &scores[i];
		out->rows++;
		out->suspect += score->suspect;
		out->predicted += is_positive(score->predicted);
		out->skipped += !is_positive(score->predicted);
		if (!lk_score_counts(score)) continue;
		double logarithm = log(score->predicted / score->measured);
		distance += fabs(logarithm);
		shift += logarithm;
		error[n++] = fabs(score->predicted / score->measured - 1);
		near += error[n - 1] <= 0.05;
		off += fabs(score->predicted - score->measured);
		whole += score->measured;
		covered += score->measured >= score->low && score->measured <= score->high;
		if (score->low > 0 && score->high > 0) width[ranges++] = sqrt(score->high / score->low) - 1;
	}
	out->scored = (int)n;
	if (n > 0) {
		out->geomean_error = expm1(distance / (double)n);
		out->bias = expm1(shift / (double)n);
		out->mape = lk_mean(error, n);
		out->median_error = lk_median(error, n);
		out->p90_error = lk_quantile(error, n, 0.9);
		out->within_5 = (double)near / (double)n;
		out->weighted_error = off / whole;
	}
	if (ranges > 0) {
		out->coverage = (double)covered / (double)n;
		out->half_width = lk_median(width, ranges);
	}
	free(error);
	return LK_OK;
}

/* ---- ranks ---- */

/* A layout of a group: sums of logarithms over its rows, then their means. */
struct point {
	const char *group, *layout;
	double predicted, measured;
	int rows;
};

static int summary_by_group(const void *a, const void *b) {
	const struct point *x = a, *y = b;
	int order = strcmp(x->group, y->group);
	return order ? order : strcmp(x->layout, y->layout);
}

/* Join points of one layout; returns how many are left. */
static size_t join_layouts(struct point *points, size_t count) {
	size_t kept = 0;
	for (size_t i = 0; i < count; i++) {
		if (kept > 0 && summary_by_group(&points[kept - 1], &points[i]) == 0) {
			points[kept - 1].predicted += points[i].predicted;
			points[kept - 1].measured += points[i].measured;
			points[kept - 1].rows++;
		} else {
			points[kept++] = points[i];
		}
	}
	for (size_t i = 0; i < kept; i++) {
		points[i].predicted = exp(points[i].predicted / points[i].rows);
		points[i].measured = exp(points[i].measured / points[i].rows);
	}
	return kept;
}

/* Regret of the layout with the shortest predicted time; if several share it, their mean. */
static double top1_regret(const double *predicted, const double *measured, size_t n) {
	double first = INFINITY, best = INFINITY, sum = 0;
	size_t ties = 0;
	for (size_t i = 0; i < n; i++) {
		if (predicted[i] < first) first = predicted[i];
		if (measured[i] < best) best = measured[i];
	}
	for (size_t i = 0; i < n; i++) {
		if (predicted[i] > first) continue;
		sum += measured[i] / best - 1;
		ties++;
	}
	return sum / (double)ties;
}

/* Means over the groups of joined points. x and y are scratch for all of them. */
static void rank_groups(const struct point *points, size_t count, double *x, double *y,
                        lk_accuracy *out) {
	double tau_sum = 0, regret_sum = 0;
	int taus = 0;
	for (size_t begin = 0, end; begin < count; begin = end) {
		for (end = begin; end < count && strcmp(points[end].group, points[begin].group) == 0;
		     end++) {
			x[end - begin] = points[end].predicted;
			y[end - begin] = points[end].measured;
		}
		if (end - begin < 2) continue;
		double tau = lk_kendall_tau(x, y, end - begin);
		if (!isnan(tau)) {
			tau_sum += tau;
			taus++;
		}
		regret_sum += top1_regret(x, y, end - begin);
		out->rank_groups++;
	}
	if (taus > 0) out->kendall_tau = tau_sum / taus;
	if (out->rank_groups > 0) out->mean_top1_regret = regret_sum / out->rank_groups;
}

static lk_status summarise_ranks(const lk_score *scores, size_t count, lk_accuracy *out,
                                 lk_error *err) {
	size_t room = count ? count : 1, n = 0;
	struct point *points = malloc(room * sizeof *points);
	double *x = malloc(2 * room * sizeof *x);
	lk_status status = points && x ? LK_OK : lk_oom(err);
	for (size_t i = 0; status == LK_OK && i < count; i++) {
		const lk_score *score = &scores[i];
		if (!score->group || !lk_score_counts(score)) continue;
		points[n++] = (struct point){score->group, score->layout, log(score->predicted),
		                             log(score->measured), 1};
	}
	if (status == LK_OK && n > 0) {
		lk_sort(points, n, sizeof *points, summary_by_group);
		rank_groups(points, join_layouts(points, n), x, x + room, out);
	}
	free(points);
	free(x);
	return status;
}

/* ---- scaling ---- */

/* A size of a series: sums of the logarithms of speed over its rows, then their means. */
struct pace {
	const char *series;
	int gpus, rows;
	double predicted, measured;
};

static int summary_by_series(const void *a, const void *b) {
	const struct pace *x = a, *y = b;
	int order = strcmp(x->series, y->series);
	return order ? order : (x->gpus > y->gpus) - (x->gpus < y->gpus);
}

/* Join runs of one series on equally many GPUs; returns how many are left. */
static size_t summary_join_sizes(struct pace *paces, size_t count) {
	size_t kept = 0;
	for (size_t i = 0; i < count; i++) {
		if (kept > 0 && summary_by_series(&paces[kept - 1], &paces[i]) == 0) {
			paces[kept - 1].predicted += paces[i].predicted;
			paces[kept - 1].measured += paces[i].measured;
			paces[kept - 1].rows++;
		} else {
			paces[kept++] = paces[i];
		}
	}
	for (size_t i = 0; i < kept; i++) {
		paces[i].predicted /= paces[i].rows;
		paces[i].measured /= paces[i].rows;
	}
	return kept;
}

/* Over joined paces: the first of a series is its smallest. */
static void scale(const struct pace *paces, size_t count, lk_accuracy *out) {
	double distance = 0;
	int steps = 0;
	for (size_t begin = 0, i = 1; i < count; i++) {
		if (strcmp(paces[i].series, paces[begin].series) != 0) {
			begin = i;
			continue;
		}
		const struct pace *from = &paces[begin], *to = &paces[i];
		distance += fabs((to->predicted - from->predicted) - (to->measured - from->measured));
		steps++;
		out->series += i == begin + 1;
	}
	if (steps > 0) out->scaling_error = expm1(distance / steps);
}

static lk_status summarise_scaling(const lk_score *scores, size_t count, lk_accuracy *out,
                                   lk_error *err) {
	size_t n = 0;
	struct pace *paces = malloc((count ? count : 1) * sizeof *paces);
	if (!paces) return lk_oom(err);
	for (size_t i = 0; i < count; i++) {
		const lk_score *score = &scores[i];
		if (!score->series || !is_positive(score->work) || !lk_score_counts(score)) continue;
		double work = log(score->work);
		paces[n++] = (struct pace){score->series, score->gpus, 1, work - log(score->predicted),
		                           work - log(score->measured)};
	}
	lk_sort(paces, n, sizeof *paces, summary_by_series);
	scale(paces, summary_join_sizes(paces, n), out);
	free(paces);
	return LK_OK;
}

/* ---- divisions ---- */

/* A row of a division: its key, and its index. */
struct member {
	lk_score_key key;
	size_t row;
};

static int summary_by_key(const void *a, const void *b) {
	const struct member *x = a, *y = b;
	int order = x->key.order - y->key.order;
	if (order == 0) order = strcmp(x->key.name, y->key.name);
	return order ? order : (x->row > y->row) - (x->row < y->row);
}

static lk_status summarise_rows(const lk_score *scores, size_t count, lk_accuracy *out,
                                lk_error *err) {
	summary_clear(out);
	LK_TRY(summarise_errors(scores, count, out, err));
	LK_TRY(summarise_ranks(scores, count, out, err));
	return summarise_scaling(scores, count, out, err);
}

static lk_status summarise_members(const char *by, const lk_score *scores,
                                   const struct member *members, size_t count, lk_score *part,
                                   lk_accuracy *groups, int *filled, lk_error *err) {
	for (size_t begin = 0, end; begin < count; begin = end) {
		for (end = begin;
		     end < count && strcmp(members[end].key.name, members[begin].key.name) == 0; end++)
			part[end - begin] = scores[members[end].row];
		lk_accuracy *group = &groups[(*filled)++];
		group->by = by;
		group->name = members[begin].key.name;
		LK_TRY(summarise_rows(part, end - begin, group, err));
	}
	return LK_OK;
}

lk_status lk_summarise_by(const char *by, const lk_score *scores, const lk_score_key *keys,
                          size_t count, lk_accuracy *groups, int *filled, lk_error *err) {
	size_t room = count ? count : 1;
	struct member *members = malloc(room * sizeof *members);
	lk_score *part = malloc(room * sizeof *part);
	lk_status status = members && part ? LK_OK : lk_oom(err);
	if (status == LK_OK) {
		size_t named = 0;
		for (size_t i = 0; i < count; i++)
			if (keys[i].name) members[named++] = (struct member){keys[i], i};
		lk_sort(members, named, sizeof *members, summary_by_key);
		status = summarise_members(by, scores, members, named, part, groups, filled, err);
	}
	free(members);
	free(part);
	return status;
}

/* The mean of the stacks' geomean_error. */
static lk_status summarise_macro(const lk_score *scores, size_t count, lk_accuracy *out,
                                 lk_error *err) {
	size_t room = count ? count : 1;
	lk_score_key *keys = malloc(room * sizeof *keys);
	lk_accuracy *stacks = malloc(room * sizeof *stacks);
	int filled = 0, counted = 0;
	double sum = 0;
	lk_status status = keys && stacks ? LK_OK : lk_oom(err);
	for (size_t i = 0; status == LK_OK && i < count; i++)
		keys[i] = (lk_score_key){scores[i].stack, 0};
	if (status == LK_OK)
		status = lk_summarise_by("stack", scores, keys, count, stacks, &filled, err);
	for (int i = 0; status == LK_OK && i < filled; i++) {
		if (stacks[i].scored < MACRO_ROWS || !*stacks[i].name) continue;
		sum += stacks[i].geomean_error;
		counted++;
	}
	if (counted > 0) out->macro_geomean_error = sum / counted;
	free(keys);
	free(stacks);
	return status;
}

lk_status lk_summarise(const lk_score *scores, size_t count, lk_accuracy *out, lk_error *err) {
	LK_TRY(summarise_rows(scores, count, out, err));
	return summarise_macro(scores, count, out, err);
}

lk_score_key lk_scale_key(int gpus) {
	if (gpus <= 8) return (lk_score_key){"1-8", 0};
	if (gpus <= 64) return (lk_score_key){"9-64", 1};
	if (gpus <= 512) return (lk_score_key){"65-512", 2};
	return (lk_score_key){"over 512", 3};
}
