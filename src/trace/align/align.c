/* align.c: one clock for all ranks. Each process group ties the clocks of its members (align_group.c), groups that
 * overlap are joined (align_net.c). Slopes of what remains, where they are clear, are joined in the same way and taken
 * out, and the shifts found again. */
#include "trace/align/align_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FEWEST_ANCHORS = 2, DRIFT_ROUNDS = 3 };
/* Ends agree within about 10 us where all is well; what is beyond counts less. */
static const double USUAL_NS = 10e3;
/* The same for slopes: a ppm, as crystals have. */
static const double USUAL_SLOPE = 1e-6;
/* Drift is corrected when over the capture it exceeds this and six standard errors. */
static const double CLEAR_DRIFT_NS = 5e3, CLEAR_ERRORS = 6;
/* Clocks of computers drift by up to 100 ppm; ten times that is something else. */
static const double MOST_SLOPE = 1e-3;

int64_t lk_clock_base(const lk_traces *t, uint32_t capture) {
	const lk_capture *first = t->capture[0], *c = t->capture[capture];
	int64_t apart;
	if (lk_clock_told(first) != lk_clock_told(c) || __builtin_sub_overflow(c->origin_ns, first->origin_ns, &apart))
		return 0;
	/* Beyond a hundred days doubles round; no run is compared over that. */
	return apart > -(1LL << 53) && apart < 1LL << 53 ? apart : 0;
}

bool lk_clock_told(const lk_capture *c) {
	/* Before 2024 Kineto wrote times since 1970 without saying so; 1e18 ns is the year 2001. */
	return c->absolute || c->origin_ns > 1000000000000000000;
}

double lk_own_end(const lk_traces *t, lk_match_member m) {
	return (double)lk_event_end(t->capture[m.capture], m.event);
}

double lk_on_common(const lk_aligner *a, uint32_t capture, double own) {
	const lk_clock_fit *f = &a->fit[capture];
	return own + a->base[capture] + f->shift + f->slope * (own - f->middle);
}

static lk_status make_ties(lk_aligner *a) {
	const lk_traces *t = a->t;
	a->ties.count = 0;
	for (uint32_t c = 0; c < t->count; c++) {
		lk_clock_fit *f = &a->fit[c];
		f->anchors = 0, f->span = 0, f->error = f->doubt = INFINITY;
	}
	for (uint32_t begin = 0, end; begin < t->matches.count; begin = end) {
		for (end = begin; end < t->matches.count && t->matches.at[end].group == t->matches.at[begin].group;) end++;
		LK_TRY(lk_tie_group(a, begin, end));
	}
	/* One collective alone may be an accident. */
	size_t kept = 0;
	for (size_t i = 0; i < a->ties.count; i++)
		if (a->fit[a->ties.at[i].capture].anchors >= FEWEST_ANCHORS) a->ties.at[kept++] = a->ties.at[i];
	a->ties.count = kept;
	return LK_OK;
}

static void find_middles(lk_aligner *a) {
	const lk_traces *t = a->t;
	for (uint32_t c = 0; c < t->count; c++) a->fit[c].middle = NAN;
	/* First and last end by capture; the middle is between. */
	double *last = a->base + t->count;
	for (uint32_t c = 0; c < t->count; c++) last[c] = 0;
	for (size_t i = 0; i < t->members.count; i++) {
		uint32_t c = t->members.at[i].capture;
		double end = lk_own_end(t, t->members.at[i]);
		a->fit[c].middle = fmin(a->fit[c].middle, end);
		last[c] = fmax(last[c], end);
	}
	for (uint32_t c = 0; c < t->count; c++)
		a->fit[c].middle = isnan(a->fit[c].middle) ? 0 : (a->fit[c].middle + last[c]) / 2;
}

/* Adds the slopes that are clear; false if none is. What is clear but small is only noted. */
static bool add_slopes(lk_aligner *a, const double *slope, double *largest) {
	bool any = false;
	for (uint32_t c = 0; c < a->t->count; c++) {
		lk_clock_fit *f = &a->fit[c];
		double over = fabs(slope[c]) * f->span;
		if (!isfinite(f->error) || over < CLEAR_ERRORS * f->error || fabs(slope[c] + f->slope) > MOST_SLOPE) continue;
		*largest = fmax(*largest, fabs(slope[c] + f->slope));
		if (over < CLEAR_DRIFT_NS) continue;
		f->slope += slope[c];
		any = true;
	}
	return any;
}

/* Clocks of files that agree better than collectives can tell stay as they are. */
static void leave_good_clocks(lk_aligner *a) {
	for (uint32_t c = 0; c < a->t->count; c++) {
		lk_clock_fit *f = &a->fit[c];
		bool told = lk_clock_told(a->t->capture[c]) && lk_clock_told(a->t->capture[f->component]);
		if (told && f->slope == 0 && fabs(f->shift) < f->doubt + a->fit[f->component].doubt) f->shift = 0;
	}
}

/* Shifts, then slopes of what is left, then shifts again, as long as slopes are clear. */
lk_status lk_clocks_fit(lk_aligner *a, double *largest_slope) {
	double *value = calloc((size_t)a->t->count + 1, sizeof *value);
	if (!value) return lk_oom(a->err);
	find_middles(a);
	*largest_slope = 0;
	lk_status status = LK_OK;
	for (int round = 0; round <= DRIFT_ROUNDS && status == LK_OK; round++) {
		status = make_ties(a);
		if (status == LK_OK) status = lk_join_ties(a, value, USUAL_NS);
		for (uint32_t c = 0; c < a->t->count; c++) a->fit[c].shift += value[c];
		if (status != LK_OK || round == DRIFT_ROUNDS) break;
		for (size_t i = 0; i < a->ties.count; i++) a->ties.at[i].shift = a->ties.at[i].slope;
		status = lk_join_ties(a, value, USUAL_SLOPE);
		if (status != LK_OK || !add_slopes(a, value, largest_slope)) break;
	}
	leave_good_clocks(a);
	free(value);
	return status;
}

lk_status lk_aligner_open(lk_aligner *a, const lk_traces *t, lk_error *err) {
	*a = (lk_aligner){.t = t, .err = err};
	a->fit = calloc((size_t)t->count + 1, sizeof *a->fit);
	a->base = calloc(2 * (size_t)t->count + 1, sizeof *a->base);
	a->column_of = calloc((size_t)t->count + 1, sizeof *a->column_of);
	if (!a->fit || !a->base || !a->column_of) return lk_oom(err);
	for (uint32_t c = 0; c < t->count; c++) a->base[c] = (double)lk_clock_base(t, c);
	return LK_OK;
}

void lk_aligner_close(lk_aligner *a) {
	free(a->fit);
	free(a->base);
	free(a->column_of);
	lk_vec_free(&a->ties);
}

/* ---- what comes of it ---- */

static bool tied(const lk_aligner *a, uint32_t capture) {
	return a->fit[capture].anchors >= FEWEST_ANCHORS;
}

/* Aligned ends of one collective; the number of them. */
size_t lk_aligned_ends(const lk_aligner *a, const lk_match *m, double *out) {
	size_t n = 0;
	for (uint32_t k = m->begin; k < m->end; k++) {
		lk_match_member member = a->t->members.at[k];
		if (tied(a, member.capture)) out[n++] = lk_on_common(a, member.capture, lk_own_end(a->t, member));
	}
	return n;
}

/* |end - common end| of one collective's ranks; the number of them. */
static size_t residuals_of(const lk_aligner *a, const lk_match *m, double *ends, double *sorted, double *out) {
	size_t ranks = lk_aligned_ends(a, m, ends);
	if (ranks < 2) return 0;
	memcpy(sorted, ends, ranks * sizeof *ends);
	double common = ranks == 2 ? (ends[0] + ends[1]) / 2 : lk_select_median(sorted, ranks);
	for (size_t k = 0; k < ranks; k++) out[k] = fabs(ends[k] - common);
	return ranks;
}

static size_t all_residuals(const lk_aligner *a, lk_traces *t, bool weak, double *ends, double *left) {
	size_t n = 0;
	for (size_t i = 0; i < t->matches.count; i++) {
		if (!weak && !lk_all_wait(t, &t->matches.at[i])) continue;
		size_t ranks = residuals_of(a, &t->matches.at[i], ends, ends + t->count, left + n);
		t->anchors += ranks > 0;
		n += ranks;
	}
	return n;
}

static lk_status measure_residuals(const lk_aligner *a, lk_traces *t) {
	double *ends = malloc((2 * (size_t)t->count + 1) * sizeof *ends);
	double *left = malloc((t->members.count + 1) * sizeof *left);
	bool room = ends && left;
	size_t n = room ? all_residuals(a, t, false, ends, left) : 0;
	if (room && !n) n = all_residuals(a, t, true, ends, left);
	for (size_t i = 0; i < n; i++) t->residual_max_ns = fmax(t->residual_max_ns, left[i]);
	if (n) t->residual_ns = lk_select_median(left, n);
	free(ends);
	free(left);
	return room ? LK_OK : lk_oom(a->err);
}

/* Within 36 years, so that sums with times of events do not overflow. */
static int64_t bounded(double ns) {
	const double most = (double)(1LL << 60);
	return (int64_t)round(fmax(-most, fmin(most, ns)));
}

static void take_clocks(const lk_aligner *a, lk_traces *t, double largest_slope) {
	double low = 0, high = 0;
	t->largest_drift_ppm = largest_slope * 1e6;
	for (uint32_t c = 0; c < t->count; c++) {
		const lk_clock_fit *f = &a->fit[c];
		bool told = lk_clock_told(t->capture[c]);
		if (tied(a, c)) low = fmin(low, f->shift), high = fmax(high, f->shift);
		t->shift_ns[c] = bounded(a->base[c] + f->shift);
		if (f->component != 0 && !told)
			t->shift_ns[c] = bounded(a->base[c] - a->base[f->component] + f->shift);
		t->drift_ppm[c] = f->slope * 1e6;
		t->middle_ns[c] = (int64_t)f->middle;
		if (f->slope != 0)
			lk_traces_warn(t, "rank %d: its clock runs %.2f ppm %s than rank %d's; times are corrected for that",
						   t->capture[c]->rank, fabs(f->slope) * 1e6, f->slope > 0 ? "slower" : "faster",
						   t->capture[0]->rank);
	}
	t->skew_ns = high - low;
}

static void warn_of_loose_clocks(const lk_aligner *a, lk_traces *t) {
	for (uint32_t c = 1; c < t->count; c++) {
		const lk_capture *first = t->capture[0], *own = t->capture[c];
		if (a->fit[c].component == 0) continue;
		bool told = lk_clock_told(first) && lk_clock_told(own);
		uint32_t with = a->fit[c].component;
		if (with != c)
			lk_traces_warn(t, "rank %d: collectives tie its clock to rank %d, but nothing to rank %d", own->rank,
			               t->capture[with]->rank, first->rank);
		else
			lk_traces_warn(t, "rank %d: fewer than %d collectives in common with ranks tied to rank %d; %s", own->rank,
						   FEWEST_ANCHORS, first->rank,
						   told ? "its clock is taken as the file has it"
								: "it is drawn as if it began together with it");
	}
}

lk_status lk_traces_align(lk_traces *t, lk_error *err) {
	lk_aligner a;
	double slope = 0;
	lk_status status = lk_aligner_open(&a, t, err);
	if (status == LK_OK) status = lk_clocks_fit(&a, &slope);
	if (status == LK_OK) status = measure_residuals(&a, t);
	if (status == LK_OK) {
		take_clocks(&a, t, slope);
		warn_of_loose_clocks(&a, t);
	}
	lk_aligner_close(&a);
	return status;
}
