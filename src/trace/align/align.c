/* align.c: one clock for all ranks. Each process group ties the clocks of its members
 * (align_group.c); overlapping groups are joined (align_net.c). Clear slopes of the residuals are
 * joined in the same way and removed, and the shifts are found again. */
#include "trace/align/align_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"

enum { FEWEST_ANCHORS = 2, DRIFT_ROUNDS = 3 };
/* Ends normally agree within about 10 us; larger deviations get less weight. */
static const double USUAL_NS = 10e3;
/* The same for slopes: 1 ppm, typical of crystals. */
static const double USUAL_SLOPE = 1e-6;
/* Correct drift only if over the capture it exceeds this time and six standard errors. */
static const double CLEAR_DRIFT_NS = 5e3, CLEAR_ERRORS = 6;
/* Clocks of computers drift by up to 100 ppm; ten times that is not drift. */
static const double MOST_SLOPE = 1e-3;

static lk_status make_ties(lk_aligner *aligner) {
	const lk_traces *traces = aligner->traces;
	aligner->ties.count = 0;
	for (uint32_t c = 0; c < traces->count; c++) {
		lk_clock_fit *fit = &aligner->fit[c];
		fit->anchors = 0;
		fit->span = 0;
		fit->error = fit->doubt = INFINITY;
	}
	for (uint32_t begin = 0, end; begin < traces->matches.count; begin = end) {
		for (end = begin; end < traces->matches.count &&
		                  traces->matches.at[end].group == traces->matches.at[begin].group;)
			end++;
		LK_TRY(lk_tie_group(aligner, begin, end));
	}
	/* A single collective may be an accident. */
	size_t kept = 0;
	for (size_t i = 0; i < aligner->ties.count; i++)
		if (aligner->fit[aligner->ties.at[i].capture].anchors >= FEWEST_ANCHORS)
			aligner->ties.at[kept++] = aligner->ties.at[i];
	aligner->ties.count = kept;
	return LK_OK;
}

static void find_middles(lk_aligner *aligner) {
	const lk_traces *traces = aligner->traces;
	for (uint32_t c = 0; c < traces->count; c++) aligner->fit[c].middle = NAN;
	/* First and last end of each capture; the middle is halfway between. */
	double *last = aligner->base + traces->count;
	for (uint32_t c = 0; c < traces->count; c++) last[c] = 0;
	for (size_t i = 0; i < traces->members.count; i++) {
		uint32_t c = traces->members.at[i].capture;
		double end = lk_own_end(traces, traces->members.at[i]);
		aligner->fit[c].middle = fmin(aligner->fit[c].middle, end);
		last[c] = fmax(last[c], end);
	}
	for (uint32_t c = 0; c < traces->count; c++)
		aligner->fit[c].middle =
			isnan(aligner->fit[c].middle) ? 0 : (aligner->fit[c].middle + last[c]) / 2;
}

/* Add the clear slopes; false if none is clear. Clear but small slopes are only noted. */
static bool add_slopes(lk_aligner *aligner, const double *slope, double *largest) {
	bool any = false;
	for (uint32_t c = 0; c < aligner->traces->count; c++) {
		lk_clock_fit *fit = &aligner->fit[c];
		double over = fabs(slope[c]) * fit->span;
		if (!isfinite(fit->error) || over < CLEAR_ERRORS * fit->error ||
		    fabs(slope[c] + fit->slope) > MOST_SLOPE)
			continue;
		*largest = fmax(*largest, fabs(slope[c] + fit->slope));
		if (over < CLEAR_DRIFT_NS) continue;
		fit->slope += slope[c];
		any = true;
	}
	return any;
}

/* Leave clocks of files alone where they agree better than collectives can resolve. */
static void leave_good_clocks(lk_aligner *aligner) {
	for (uint32_t c = 0; c < aligner->traces->count; c++) {
		lk_clock_fit *fit = &aligner->fit[c];
		bool told = lk_clock_told(aligner->traces->capture[c]) &&
		            lk_clock_told(aligner->traces->capture[fit->component]);
		if (told && fit->slope == 0 &&
		    fabs(fit->shift) < fit->doubt + aligner->fit[fit->component].doubt)
			fit->shift = 0;
	}
}

/* Fit shifts, then slopes of the residuals, then shifts again, as long as slopes are clear. */
lk_status lk_clocks_fit(lk_aligner *aligner, double *largest_slope) {
	double *value = calloc((size_t)aligner->traces->count + 1, sizeof *value);
	if (!value) return lk_oom(aligner->err);
	find_middles(aligner);
	*largest_slope = 0;
	lk_status status = LK_OK;
	for (int round = 0; round <= DRIFT_ROUNDS && status == LK_OK; round++) {
		status = make_ties(aligner);
		if (aligner->traces->one_clock) break;
		if (status == LK_OK) status = lk_join_ties(aligner, value, USUAL_NS);
		for (uint32_t c = 0; c < aligner->traces->count; c++) aligner->fit[c].shift += value[c];
		if (status != LK_OK || round == DRIFT_ROUNDS) break;
		for (size_t i = 0; i < aligner->ties.count; i++)
			aligner->ties.at[i].shift = aligner->ties.at[i].slope;
		status = lk_join_ties(aligner, value, USUAL_SLOPE);
		if (status != LK_OK || !add_slopes(aligner, value, largest_slope)) break;
	}
	if (!aligner->traces->one_clock) leave_good_clocks(aligner);
	free(value);
	return status;
}

lk_status lk_aligner_open(lk_aligner *aligner, const lk_traces *traces, lk_error *err) {
	*aligner = (lk_aligner){.traces = traces, .err = err};
	aligner->fit = calloc((size_t)traces->count + 1, sizeof *aligner->fit);
	aligner->base = calloc(2 * (size_t)traces->count + 1, sizeof *aligner->base);
	aligner->column_of = calloc((size_t)traces->count + 1, sizeof *aligner->column_of);
	if (!aligner->fit || !aligner->base || !aligner->column_of) return lk_oom(err);
	for (uint32_t c = 0; c < traces->count; c++)
		aligner->base[c] = (double)lk_clock_base(traces, c);
	return LK_OK;
}

void lk_aligner_close(lk_aligner *aligner) {
	free(aligner->fit);
	free(aligner->base);
	free(aligner->column_of);
	lk_vec_free(&aligner->ties);
}

/* ---- results ---- */

static bool tied(const lk_aligner *aligner, uint32_t capture) {
	return aligner->fit[capture].anchors >= FEWEST_ANCHORS;
}

/* Store the aligned ends of one collective; return their number. */
size_t lk_aligned_ends(const lk_aligner *aligner, const lk_match *match, double *out) {
	size_t n = 0;
	for (uint32_t k = match->begin; k < match->end; k++) {
		lk_match_member member = aligner->traces->members.at[k];
		if (tied(aligner, member.capture))
			out[n++] = lk_on_common(aligner, member.capture, lk_own_end(aligner->traces, member));
	}
	return n;
}

/* Store |end - common end| of one collective's ranks; return their number. */
static size_t residuals_of(const lk_aligner *aligner, const lk_match *match, double *ends,
                           double *sorted, double *out) {
	size_t ranks = lk_aligned_ends(aligner, match, ends);
	if (ranks < 2) return 0;
	memcpy(sorted, ends, ranks * sizeof *ends);
	double common = ranks == 2 ? (ends[0] + ends[1]) / 2 : lk_select_median(sorted, ranks);
	for (size_t k = 0; k < ranks; k++) out[k] = fabs(ends[k] - common);
	return ranks;
}

static size_t all_residuals(const lk_aligner *aligner, lk_traces *traces, bool weak, double *ends,
                            double *left) {
	size_t n = 0;
	for (size_t i = 0; i < traces->matches.count; i++) {
		if (!weak && !lk_all_wait(traces, &traces->matches.at[i])) continue;
		size_t ranks =
			residuals_of(aligner, &traces->matches.at[i], ends, ends + traces->count, left + n);
		traces->anchors += ranks > 0;
		n += ranks;
	}
	return n;
}

static lk_status measure_residuals(const lk_aligner *aligner, lk_traces *traces) {
	double *ends = malloc((2 * (size_t)traces->count + 1) * sizeof *ends);
	double *left = malloc((traces->members.count + 1) * sizeof *left);
	bool room = ends && left;
	size_t n = room ? all_residuals(aligner, traces, false, ends, left) : 0;
	if (room && !n) n = all_residuals(aligner, traces, true, ends, left);
	for (size_t i = 0; i < n; i++) traces->residual_max_ns = fmax(traces->residual_max_ns, left[i]);
	LK_ASSERT(n <= traces->members.count);
	if (n) traces->residual_ns = lk_select_median(left, n);
	free(ends);
	free(left);
	return room ? LK_OK : lk_oom(aligner->err);
}

/* Limit to 36 years, so that sums with event times do not overflow. */
static int64_t bounded(double ns) {
	const double most = (double)(1LL << 60);
	LK_ASSERT(!isnan(ns));
	return (int64_t)round(fmax(-most, fmin(most, ns)));
}

static void take_clocks(const lk_aligner *aligner, lk_traces *traces, double largest_slope) {
	double low = 0, high = 0;
	traces->largest_drift_ppm = largest_slope * 1e6;
	for (uint32_t c = 0; c < traces->count; c++) {
		const lk_clock_fit *fit = &aligner->fit[c];
		bool told = lk_clock_told(traces->capture[c]);
		if (tied(aligner, c)) {
			low = fmin(low, fit->shift);
			high = fmax(high, fit->shift);
		}
		traces->shift_ns[c] = bounded(aligner->base[c] + fit->shift);
		if (fit->component != 0 && !told)
			traces->shift_ns[c] =
				bounded(aligner->base[c] - aligner->base[fit->component] + fit->shift);
		LK_ASSERT(fabs(fit->slope) <= MOST_SLOPE && isfinite(fit->middle));
		traces->drift_ppm[c] = fit->slope * 1e6;
		traces->middle_ns[c] = (int64_t)fit->middle;
		if (fit->slope != 0)
			lk_traces_warn(
				traces,
				"rank %d: its clock runs %.2f ppm %s than rank %d's; times are corrected for that",
				traces->capture[c]->rank, fabs(fit->slope) * 1e6,
				fit->slope > 0 ? "slower" : "faster", traces->capture[0]->rank);
	}
	LK_ASSERT(high >= 0 && low <= 0);
	traces->skew_ns = high - low;
}

static void warn_of_loose_clocks(const lk_aligner *aligner, lk_traces *traces) {
	for (uint32_t c = 1; c < traces->count && !traces->one_clock; c++) {
		const lk_capture *first = traces->capture[0], *own = traces->capture[c];
		if (aligner->fit[c].component == 0) continue;
		bool told = lk_clock_told(first) && lk_clock_told(own);
		uint32_t with = aligner->fit[c].component;
		if (with != c)
			lk_traces_warn(traces,
			               "rank %d: collectives tie its clock to rank %d, but nothing to rank %d",
			               own->rank, traces->capture[with]->rank, first->rank);
		else if (told)
			lk_traces_warn(traces,
			               "rank %d: fewer than %d collectives in common with ranks tied to rank "
			               "%d; its clock is taken as the file has it",
			               own->rank, FEWEST_ANCHORS, first->rank);
		else
			lk_traces_warn(traces,
			               "rank %d: fewer than %d collectives in common with ranks tied to rank "
			               "%d; it is drawn as if it began together with it",
			               own->rank, FEWEST_ANCHORS, first->rank);
	}
}

lk_status lk_traces_align(lk_traces *traces, lk_error *err) {
	lk_aligner a;
	double slope = 0;
	traces->one_clock = lk_clock_shared(traces);
	lk_status status = lk_aligner_open(&a, traces, err);
	if (status == LK_OK) status = lk_clocks_fit(&a, &slope);
	if (status == LK_OK) status = measure_residuals(&a, traces);
	if (status == LK_OK) {
		take_clocks(&a, traces, slope);
		warn_of_loose_clocks(&a, traces);
	}
	lk_aligner_close(&a);
	return status;
}
