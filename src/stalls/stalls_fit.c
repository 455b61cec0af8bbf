/* stalls_fit.c: fits all measurements together as sums of parts.
 *
 * A cycle runs every configuration once. Each cycle has values y_r, each the sum of a known subset
 * of the parts: steps of the configurations, and times recorded in one of them.
 *
 *     1. f_k = exp(mean over configurations of (log y_kc - mean over cycles of log y_kc)): how slow
 *        the machine was in cycle k; all values of the cycle are divided by it
 *     2. x_k = (A' W A)^-1 A' W y_k: the parts in cycle k, A the 0/1 matrix of the subsets, W the
 *        rows' weights, 1 / (variance / cycles + (doubt y)^2)
 *     3. the part is the mean of x_k; its variance that of the mean, plus what 1. may have hidden,
 *        x^2 s_e^2 / (C n), C configurations, and the doubt of rows
 *     4. last, parts >= 0 and their sum is the step: the nearest such ones, distances in units of
 *        each part's deviation
 *
 * Intervals are Student's below MANY cycles, where resampling gives too wide ones, else of the
 * studentised bootstrap over cycles: a bootstrap of parts that were clipped at 0 would not hold
 * them. A cycle with one run far from the others is left out. */
#include <math.h>
#include <string.h>

#include "base/check.h"
#include "base/stats.h"
#include "stalls/stalls.h"

enum {
	RESAMPLES = 999,
	MANY = 12,
	ENOUGH = 6, /* cycles needed to leave one out */
	WIDEST = 2, /* limit of the bootstrap's intervals, over Student's */
	LEAVE_ONE_OF = 5
};
static const double OUTLYING = 8; /* standard deviations */
static const double LEAST_WEIGHT = 1e-4, TOTAL_WEIGHT = 10, PIVOT = 1e-10;
static const double ROUNDING = 1e-12;  /* of the step */
static const double NORMAL = 1.959964; /* 97.5 % quantile */
static const uint64_t SEED = 24;

/* 97.5 % quantile of Student's t: exact to the given digits up to 10, beyond by the expansion of
 * Cornish and Fisher. */
double lk_student_quantile(int freedom) {
	LK_ASSERT(freedom > 0);
	static const double exact[] = {12.7062, 4.3027, 3.1824, 2.7764, 2.5706,
	                               2.4469,  2.3646, 2.3060, 2.2622, 2.2281};
	if (freedom <= 10) return exact[freedom - 1];
	double n = freedom, z = NORMAL;
	return z + (pow(z, 3) + z) / (4 * n) + (5 * pow(z, 5) + 16 * pow(z, 3) + 3 * z) / (96 * n * n);
}

struct fit_work {
	const lk_fit_row *rows;
	int row_count, parts, n, configurations;
	double value[LK_STALLS_REPEATS][LK_FIT_ROWS]; /* of the counted cycles, without drift */
	double mean[LK_FIT_ROWS], variance[LK_FIT_ROWS];
	double contrast[LK_FIT_PARTS][LK_FIT_ROWS]; /* parts from values */
	bool known[LK_FIT_PARTS];
	double residual; /* variance of a configuration's logarithm */
};

/* ---- cycles ---- */

static bool is_whole_cycle(const struct fit_work *work, int cycle) {
	for (int r = 0; r < work->row_count; r++) {
		double value = work->rows[r].values[cycle];
		if (!isfinite(value) || (work->rows[r].configuration && value <= 0)) return false;
	}
	return true;
}

static void take_whole_cycles(struct fit_work *work, int cycles, lk_fit *out) {
	for (int k = 0; k < cycles; k++) {
		if (!is_whole_cycle(work, k)) continue;
		for (int r = 0; r < work->row_count; r++) work->value[work->n][r] = work->rows[r].values[k];
		out->cycle[work->n++] = k;
	}
}

static void take_drift_out(struct fit_work *work, lk_fit *out) {
	double level[LK_FIT_ROWS] = {0};
	for (int k = 0; k < work->n; k++) out->drift[k] = 1;
	if (work->configurations < 2 || work->n < 2) return;
	for (int k = 0; k < work->n; k++)
		for (int r = 0; r < work->row_count; r++)
			if (work->rows[r].configuration) level[r] += log(work->value[k][r]) / work->n;
	for (int k = 0; k < work->n; k++) {
		double sum = 0;
		for (int r = 0; r < work->row_count; r++)
			if (work->rows[r].configuration) sum += log(work->value[k][r]) - level[r];
		out->drift[k] = exp(sum / work->configurations);
		for (int r = 0; r < work->row_count; r++) work->value[k][r] /= out->drift[k];
	}
}

/* Distance of the cycle's worst outlier from the other runs of its configuration, in standard
 * deviations. */
static double cycle_distance(const struct fit_work *work, int cycle) {
	double room[LK_STALLS_REPEATS], most = 0;
	for (int r = 0; r < work->row_count; r++) {
		if (!work->rows[r].configuration) continue;
		for (int k = 0; k < work->n; k++) room[k] = work->value[k][r];
		double middle = lk_median(room, (size_t)work->n);
		for (int k = 0; k < work->n; k++) room[k] = fabs(work->value[k][r] - middle);
		double scale = 1.4826 * lk_median(room, (size_t)work->n) + 1e-3 * middle;
		most = fmax(most, fabs(work->value[cycle][r] - middle) / scale);
	}
	return most;
}

static void leave_out_cycle(struct fit_work *work, int cycle, lk_fit *out) {
	work->n--;
	out->left_out++;
	for (int k = cycle; k < work->n; k++) {
		memcpy(work->value[k], work->value[k + 1], sizeof *work->value);
		out->drift[k] = out->drift[k + 1];
		out->cycle[k] = out->cycle[k + 1];
	}
}

static void leave_out_far_cycles(struct fit_work *work, lk_fit *out) {
	int most = work->n / LEAVE_ONE_OF;
	while (work->n >= ENOUGH && out->left_out < most) {
		int farthest = 0;
		double distance = 0;
		for (int k = 0; k < work->n; k++) {
			double d = cycle_distance(work, k);
			if (d > distance) distance = d, farthest = k;
		}
		if (distance < OUTLYING) return;
		leave_out_cycle(work, farthest, out);
	}
}

/* ---- contrasts ---- */

static void sum_up_rows(struct fit_work *work) {
	double residuals = 0;
	for (int r = 0; r < work->row_count; r++) {
		double sum = 0, squares = 0;
		for (int k = 0; k < work->n; k++) sum += work->value[k][r];
		work->mean[r] = sum / work->n;
		for (int k = 0; k < work->n; k++) squares += pow(work->value[k][r] - work->mean[r], 2);
		work->variance[r] = work->n > 1 ? squares / (work->n - 1) : 0;
		if (work->rows[r].configuration) residuals += squares / pow(work->mean[r], 2);
	}
	if (work->n > 1 && work->configurations > 1)
		work->residual = residuals / ((work->n - 1.0) * (work->configurations - 1));
}

/* Row reduction of `parts` rows of width `width`. pivot_of[p]: the row with the pivot of column p;
 * -1: none. */
static void reduce_rows(int parts, int width, double at[LK_FIT_PARTS][LK_FIT_PARTS + LK_FIT_ROWS],
                        int pivot_of[LK_FIT_PARTS]) {
	int row = 0;
	for (int p = 0; p < parts; p++) pivot_of[p] = -1;
	for (int p = 0; p < parts && row < parts; p++) {
		int best = row;
		for (int i = row + 1; i < parts; i++)
			if (fabs(at[i][p]) > fabs(at[best][p])) best = i;
		if (fabs(at[best][p]) < PIVOT) continue;
		for (int j = 0; j < width; j++) {
			double swapped = at[row][j];
			at[row][j] = at[best][j];
			at[best][j] = swapped;
		}
		double scale = at[row][p];
		for (int j = 0; j < width; j++) at[row][j] /= scale;
		for (int i = 0; i < parts; i++) {
			double factor = at[i][p];
			for (int j = 0; i != row && j < width; j++) at[i][j] -= factor * at[row][j];
		}
		pivot_of[p] = row++;
	}
}

/* The total has the largest weight, so that the parts nearly sum to it before they are adjusted. */
static void weigh_rows(const struct fit_work *work, int total, double weight[LK_FIT_ROWS]) {
	double most = 0, size = fabs(work->mean[total]) + 1e-300;
	for (int r = 0; r < work->row_count; r++) {
		double noise = work->n > 1 ? work->variance[r] / work->n : pow(0.02 * work->mean[r], 2);
		double doubt = work->rows[r].doubt * work->mean[r];
		weight[r] = 1 / (noise + doubt * doubt + pow(1e-5 * size, 2));
		most = fmax(most, weight[r]);
	}
	for (int r = 0; r < work->row_count; r++)
		weight[r] = fmax(weight[r] / most, LEAST_WEIGHT) / TOTAL_WEIGHT;
	weight[total] = 1;
}

static void find_contrasts(struct fit_work *work, int total) {
	double at[LK_FIT_PARTS][LK_FIT_PARTS + LK_FIT_ROWS] = {{0}}, weight[LK_FIT_ROWS];
	int pivot_of[LK_FIT_PARTS], width = work->parts + work->row_count;
	weigh_rows(work, total, weight);
	for (int r = 0; r < work->row_count; r++)
		for (int p = 0; p < work->parts; p++) {
			if (!(work->rows[r].parts >> p & 1)) continue;
			at[p][work->parts + r] += weight[r];
			for (int q = 0; q < work->parts; q++)
				if (work->rows[r].parts >> q & 1) at[p][q] += weight[r];
		}
	/* in units of each part's own weight, because they differ by orders of magnitude */
	double unit[LK_FIT_PARTS] = {0};
	for (int p = 0; p < work->parts; p++) unit[p] = at[p][p] > 0 ? 1 / sqrt(at[p][p]) : 0;
	for (int p = 0; p < work->parts; p++)
		for (int j = 0; j < width; j++) at[p][j] *= unit[p] * (j < work->parts ? unit[j] : 1);
	reduce_rows(work->parts, width, at, pivot_of);
	for (int p = 0; p < work->parts; p++) {
		work->known[p] = pivot_of[p] >= 0;
		for (int q = 0; q < work->parts && work->known[p]; q++)
			if (q != p && fabs(at[pivot_of[p]][q]) > 1e-6) work->known[p] = false;
		for (int r = 0; r < work->row_count; r++)
			work->contrast[p][r] = work->known[p] ? unit[p] * at[pivot_of[p]][work->parts + r] : 0;
	}
}

/* ---- intervals ---- */

static double spread_of(const double *x, int n, double *mean) {
	double sum = 0, squares = 0;
	for (int i = 0; i < n; i++) sum += x[i];
	*mean = sum / n;
	for (int i = 0; i < n; i++) squares += (x[i] - *mean) * (x[i] - *mean);
	return sqrt(squares / (n - 1) / n);
}

/* Quantiles of (mean* - mean) / deviation* over resampled cycles. */
static void bootstrap_quantiles(const double *x, int n, double *low, double *high) {
	double t[RESAMPLES], drawn[LK_STALLS_REPEATS], mean, student = lk_student_quantile(n - 1);
	double deviation = spread_of(x, n, &mean);
	for (int b = 0; b < RESAMPLES; b++) {
		double other;
		for (int i = 0; i < n; i++) {
			int from = (int)(lk_uniform(SEED, (uint64_t)b * LK_STALLS_REPEATS + (uint64_t)i) * n);
			drawn[i] = x[from < n ? from : n - 1];
		}
		double own = spread_of(drawn, n, &other);
		t[b] = (other - mean) / fmax(own, 1e-3 * deviation + 1e-300);
	}
	*low = lk_quantile(t, RESAMPLES, 0.025);
	*high = lk_quantile(t, RESAMPLES, 0.975);
	*low = fmax(-WIDEST * student, fmin(*low, 0));
	*high = fmin(WIDEST * student, fmax(*high, 0));
}

/* `hidden`: variance that the cycles do not show. */
static lk_estimate interval_of_cycles(const double *x, int n, double hidden) {
	double mean = n ? x[0] : NAN, low, high;
	if (n < 2) return (lk_estimate){mean, NAN, NAN};
	double deviation = spread_of(x, n, &mean), more = NORMAL * sqrt(hidden);
	low = -lk_student_quantile(n - 1);
	high = -low;
	if (n >= MANY) bootstrap_quantiles(x, n, &low, &high);
	return (lk_estimate){mean, mean - hypot(high * deviation, more),
	                     mean + hypot(low * deviation, more)};
}

static double hidden_variance(const struct fit_work *work, const double *contrast, double size) {
	double hidden = 0;
	if (work->configurations > 1)
		hidden = size * size * work->residual / ((double)work->configurations * work->n);
	for (int r = 0; r < work->row_count; r++)
		hidden += pow(contrast[r] * work->rows[r].doubt * work->mean[r], 2);
	return hidden;
}

static void estimate_parts(struct fit_work *work, lk_fit *out) {
	double x[LK_STALLS_REPEATS];
	for (int p = 0; p < work->parts; p++) {
		out->part[p] = (lk_estimate){NAN, NAN, NAN};
		if (!work->known[p]) continue;
		for (int k = 0; k < work->n; k++) {
			out->at[k][p] = 0;
			for (int r = 0; r < work->row_count; r++)
				out->at[k][p] += work->contrast[p][r] * work->value[k][r];
			x[k] = out->at[k][p];
		}
		double size = 0;
		for (int k = 0; k < work->n; k++) size += x[k] / work->n;
		out->hidden[p] = hidden_variance(work, work->contrast[p], size);
		out->part[p] = interval_of_cycles(x, work->n, out->hidden[p]);
	}
}

/* ---- the constraints ---- */

/* How far a part may move, relative to the others: its variance, or without one its size. */
static double part_looseness(const lk_fit *out, int p) {
	const lk_estimate *part = &out->part[p];
	double width = isnan(part->high) ? part->mean : part->high - part->low;
	return width * width + 1e-24;
}

/* Adjust to the nearest parts that are not negative and sum to the step. */
static void make_parts_sum(int parts, lk_fit *out) {
	bool fixed[LK_FIT_PARTS] = {false};
	for (int round = 0; round <= parts; round++) {
		double sum = 0, loose = 0;
		bool again = false;
		for (int p = 0; p < parts; p++) {
			if (isnan(out->part[p].mean)) continue;
			if (out->part[p].mean <= 0) fixed[p] = true, out->part[p].mean = 0;
			sum += out->part[p].mean;
			if (!fixed[p]) loose += part_looseness(out, p);
		}
		double left = out->total.mean - sum;
		if (loose <= 0 || fabs(left) <= 1e-15 * out->total.mean) break;
		for (int p = 0; p < parts; p++) {
			if (isnan(out->part[p].mean) || fixed[p]) continue;
			out->part[p].mean += left * part_looseness(out, p) / loose;
			again |= out->part[p].mean < 0;
		}
		if (!again) break;
	}
}

/* Clear rounding residues of zero parts. */
static void keep_interval_in_step(lk_estimate *part, double step) {
	if (part->mean < ROUNDING * step) part->mean = 0;
	if (part->high < ROUNDING * step) part->high = 0;
	if (isnan(part->low)) return;
	part->low = fmin(fmax(0, part->low), part->mean);
	part->high = fmax(fmin(step, part->high), part->mean);
}

void lk_fit_parts(const lk_fit_row *rows, int row_count, int parts, int cycles, int total,
                  lk_fit *out) {
	LK_ASSERT(row_count <= LK_FIT_ROWS && parts <= LK_FIT_PARTS && cycles <= LK_STALLS_REPEATS);
	struct fit_work work = {.rows = rows, .row_count = row_count, .parts = parts};
	double x[LK_STALLS_REPEATS];
	*out = (lk_fit){.total = {NAN, NAN, NAN}};
	for (int p = 0; p < parts; p++) out->part[p] = (lk_estimate){NAN, NAN, NAN};
	for (int r = 0; r < row_count; r++) work.configurations += rows[r].configuration;
	take_whole_cycles(&work, cycles, out);
	if (!work.n) return;
	take_drift_out(&work, out);
	leave_out_far_cycles(&work, out);
	out->cycles = work.n;
	sum_up_rows(&work);
	find_contrasts(&work, total);
	estimate_parts(&work, out);
	for (int k = 0; k < work.n; k++) x[k] = work.value[k][total];
	double hidden = pow(work.mean[total], 2) * work.residual;
	out->total = interval_of_cycles(
		x, work.n, work.configurations > 1 ? hidden / ((double)work.configurations * work.n) : 0);
	make_parts_sum(parts, out);
	for (int p = 0; p < parts; p++) keep_interval_in_step(&out->part[p], out->total.mean);
}

lk_estimate lk_fit_difference(const lk_fit *fit, int a, double share_a, int b, double share_b,
                              double *needed) {
	double x[LK_STALLS_REPEATS], mean = NAN;
	for (int k = 0; k < fit->cycles; k++) x[k] = share_a * fit->at[k][a] - share_b * fit->at[k][b];
	double hidden = share_a * share_a * fit->hidden[a] + share_b * share_b * fit->hidden[b];
	*needed = NAN;
	if (fit->cycles >= 2) {
		double deviation = spread_of(x, fit->cycles, &mean) * sqrt(fit->cycles);
		*needed = pow(lk_student_quantile(fit->cycles - 1) * deviation / mean, 2);
	}
	return interval_of_cycles(x, fit->cycles, hidden);
}
