/* align.c: clocks from the ends of collectives.
 *
 * In each process group, member r ends collective k at T_k - e_r by its own clock: medians over ranks give T_k, medians over
 * collectives give e_r, in turns. That ties the clocks of a group's ranks. Groups overlap: a shift s_r per rank and a
 * constant c_g per group with s_r = e_gr + c_g, weighted by how many collectives stand behind each e_gr, come from a walk
 * over the groups, then from relaxation with outliers weighted down. A clock that runs fast shows as a slope of
 * T_k - (end + e_r) over time; slopes are joined over groups in the same way. */
#include "trace/align.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/graph.h"

enum {
	TURNS = 8,           /* of medians; they settle after two or three */
	SWEEPS = 60,
	FEWEST_ANCHORS = 2,
	FEWEST_FOR_DRIFT = 24,
	DRIFT_ROUNDS = 3,
	MOST_FOLDS = 32,
};
/* Sender and receiver end apart by what is buffered: they tie ranks only where nothing better does. */
static const double WEAK = 1e-3;
/* Ends agree within about 10 us where all is well; what is beyond counts less. */
static const double USUAL_NS = 10e3;
/* Drift is corrected when over the capture it exceeds this and six standard errors. */
static const double CLEAR_DRIFT_NS = 5e3, CLEAR_ERRORS = 6;

int64_t lk_clock_base(const lk_traces *t, uint32_t capture) {
	const lk_capture *first = t->capture[0], *c = t->capture[capture];
	int64_t apart;
	if (lk_clock_told(first) != lk_clock_told(c) || __builtin_sub_overflow(c->origin_ns, first->origin_ns, &apart)) return 0;
	/* Beyond a hundred days doubles round; no run is compared over that. */
	return apart > -(1LL << 53) && apart < 1LL << 53 ? apart : 0;
}

bool lk_clock_told(const lk_capture *c) {
	/* Before 2024 Kineto wrote times since 1970 without saying so; 1e18 ns is the year 2001. */
	return c->absolute || c->origin_ns > 1000000000000000000;
}

/* How a capture's clock was found. */
typedef struct clock_fit {
	double shift, slope;     /* common = own + base + shift + slope (own - middle); slope 0 if not clear */
	double middle;
	double span, error;      /* own time from first to last anchor; standard error of slope * span */
	uint32_t anchors;
	uint32_t component;      /* capture that all its ties lead to */
} clock_fit;

/* What one group says of one member. */
typedef struct tie {
	uint32_t group, capture, anchors;
	double shift, slope, weight;
} tie;

/* One group's anchors, transposed. */
typedef struct table {
	uint32_t matches, members; /* columns: capture of the group */
	uint32_t *row_begin;     /* [matches + 1] */
	uint32_t *column;        /* by row: which member */
	uint32_t *column_begin;  /* [members + 1] */
	uint32_t *cell;          /* by column: the cell */
	uint32_t *row;           /* by cell */
	double *end, *own;       /* by cell: end on the clock so far; own time */
	double *common;          /* [matches] T */
	double *early;           /* [members] e */
	double *scratch;
	bool *known;
} table;

typedef struct aligner {
	const lk_traces *t;
	clock_fit *fit;          /* [captures] */
	double *base;
	LK_VEC(tie) ties;        /* by group */
	uint32_t *column_of;     /* [captures] scratch */
	uint32_t skip, folds;    /* anchors numbered skip modulo folds are left out; folds 0: none */
	lk_error *err;
} aligner;

/* All ranks of these wait for all others, and kernels end when it is over; what the host does ends when it is noticed. */
static bool strong(const lk_traces *t, const lk_match *m) {
	bool all_wait = m->kind == LK_OP_ALLREDUCE || m->kind == LK_OP_ALLGATHER || m->kind == LK_OP_REDUCESCATTER ||
	                m->kind == LK_OP_ALLTOALL;
	lk_match_member first = t->members.at[m->begin];
	return all_wait && t->capture[first.capture]->kind[first.event] == LK_EVENT_KERNEL;
}

static double own_end(const lk_traces *t, lk_match_member m) {
	return (double)lk_event_end(t->capture[m.capture], m.event);
}

static double on_common(const aligner *a, uint32_t capture, double own) {
	const clock_fit *f = &a->fit[capture];
	return own + a->base[capture] + f->shift + f->slope * (own - f->middle);
}

/* ---- one group ---- */

static void free_table(table *b) {
	free(b->row_begin);
	free(b->column);
	free(b->column_begin);
	free(b->cell);
	free(b->row);
	free(b->end);
	free(b->own);
	free(b->common);
	free(b->early);
	free(b->scratch);
	free(b->known);
}

static bool room_for(table *b, size_t rows, size_t columns, size_t cells) {
	b->row_begin = malloc((rows + 1) * sizeof *b->row_begin);
	b->column = malloc((cells + 1) * sizeof *b->column);
	b->column_begin = calloc(columns + 2, sizeof *b->column_begin);
	b->cell = malloc((cells + 1) * sizeof *b->cell);
	b->row = malloc((cells + 1) * sizeof *b->row);
	b->end = malloc((cells + 1) * sizeof *b->end);
	b->own = malloc((cells + 1) * sizeof *b->own);
	b->common = malloc((rows + 1) * sizeof *b->common);
	b->early = calloc(columns + 1, sizeof *b->early);
	b->scratch = malloc(((rows > columns ? rows : columns) + 1) * sizeof *b->scratch);
	b->known = calloc(columns + 1, sizeof *b->known);
	return b->row_begin && b->column && b->column_begin && b->cell && b->row && b->end && b->own && b->common && b->early &&
	       b->scratch && b->known;
}

static bool used(const aligner *a, uint32_t match, bool weak) {
	const lk_match *m = &a->t->matches.at[match];
	if (m->end - m->begin < 2 || (a->folds && match % a->folds == a->skip)) return false;
	return weak || strong(a->t, m);
}

/* Cells by row (collective), and their numbers by column (member). */
static bool fill_table(aligner *a, table *b, uint32_t begin, uint32_t end, bool weak) {
	const lk_traces *t = a->t;
	const lk_run_group *g = &t->groups.at[t->matches.at[begin].group];
	size_t cells = t->matches.at[end - 1].end - t->matches.at[begin].begin;
	if (!room_for(b, end - begin, g->count, cells)) return false;
	b->members = g->count;
	for (uint32_t k = 0; k < g->count; k++) a->column_of[g->captures[k]] = k;
	uint32_t n = 0;
	for (uint32_t m = begin; m < end; m++) {
		if (!used(a, m, weak)) continue;
		b->row_begin[b->matches] = n;
		for (uint32_t k = t->matches.at[m].begin; k < t->matches.at[m].end; k++, n++) {
			lk_match_member member = t->members.at[k];
			b->own[n] = own_end(t, member);
			b->end[n] = on_common(a, member.capture, b->own[n]);
			b->row[n] = b->matches;
			b->column[n] = a->column_of[member.capture];
			b->column_begin[b->column[n] + 2]++;
		}
		b->matches++;
	}
	b->row_begin[b->matches] = n;
	for (uint32_t c = 0; c < b->members; c++) b->column_begin[c + 2] += b->column_begin[c + 1];
	for (uint32_t k = 0; k < n; k++) b->cell[b->column_begin[b->column[k] + 1]++] = k;
	return true;
}

/* First guess: each collective's end from members known already; the others from it. */
static void guess_early(table *b) {
	for (int pass = 0; pass < 2; pass++)
		for (uint32_t step = 0; step < b->matches; step++) {
			uint32_t r = pass ? b->matches - 1 - step : step;
			size_t n = 0;
			for (uint32_t k = b->row_begin[r]; k < b->row_begin[r + 1]; k++)
				if (b->known[b->column[k]]) b->scratch[n++] = b->end[k] + b->early[b->column[k]];
			/* The very first one counts by its first member. */
			double common = n ? lk_select_median(b->scratch, n) : b->end[b->row_begin[r]];
			if (!n && (step > 0 || pass > 0)) continue;
			for (uint32_t k = b->row_begin[r]; k < b->row_begin[r + 1]; k++) {
				uint32_t c = b->column[k];
				if (!b->known[c]) b->known[c] = true, b->early[c] = common - b->end[k];
			}
		}
}

static void common_ends(table *b) {
	for (uint32_t r = 0; r < b->matches; r++) {
		size_t n = 0;
		for (uint32_t k = b->row_begin[r]; k < b->row_begin[r + 1]; k++)
			if (b->known[b->column[k]]) b->scratch[n++] = b->end[k] + b->early[b->column[k]];
		b->common[r] = n > 1 ? lk_select_median(b->scratch, n) : NAN;
		/* Of two the mean, of others the middle one: that of an even number is the lower, for all members alike. */
		if (n == 2) b->common[r] = (b->scratch[0] + b->scratch[1]) / 2;
	}
}

static size_t column_values(const table *b, uint32_t c, double *out) {
	size_t n = 0;
	for (uint32_t k = b->column_begin[c]; k < b->column_begin[c + 1]; k++) {
		uint32_t cell = b->cell[k];
		if (!isnan(b->common[b->row[cell]])) out[n++] = b->common[b->row[cell]] - b->end[cell];
	}
	return n;
}

static void take_turns(table *b) {
	guess_early(b);
	for (int turn = 0; turn < TURNS; turn++) {
		double moved = 0;
		common_ends(b);
		for (uint32_t c = 0; c < b->members; c++) {
			size_t n = b->known[c] ? column_values(b, c, b->scratch) : 0;
			if (!n) continue;
			double early = lk_select_median(b->scratch, n);
			moved = fmax(moved, fabs(early - b->early[c]));
			b->early[c] = early;
		}
		if (moved < 1) break;
	}
	common_ends(b);
}

/* Slope of T - end over own time: the medians of the first and the last third. Cells of a column are by time. */
static double column_slope(const table *b, uint32_t c, clock_fit *fit) {
	uint32_t begin = b->column_begin[c], n = b->column_begin[c + 1] - begin;
	size_t valid = column_values(b, c, b->scratch);
	if (valid != n || n < FEWEST_FOR_DRIFT) return 0;
	uint32_t third = n / 3;
	double first = b->own[b->cell[begin + third / 2]], last = b->own[b->cell[begin + n - 1 - third / 2]];
	if (last - first < 1e6) return 0; /* under a millisecond there is no drift */
	double low = lk_select_median(b->scratch, third);
	column_values(b, c, b->scratch);
	double high = lk_select_median(b->scratch + n - third, third), slope = (high - low) / (last - first);
	column_values(b, c, b->scratch);
	for (uint32_t k = 0; k < n; k++)
		b->scratch[k] = fabs(b->scratch[k] - b->early[c] - slope * (b->own[b->cell[begin + k]] - (first + last) / 2));
	/* 1.4826 MAD is a deviation, a median of m has 1.2533 / sqrt(m) of it; two thirds are compared. */
	double span = b->own[b->cell[begin + n - 1]] - b->own[b->cell[begin]];
	fit->error = fmin(fit->error, 1.4826 * 1.2533 * sqrt(2.0 / third) * lk_select_median(b->scratch, n) * span / (last - first));
	return slope;
}

static lk_status tie_member(aligner *a, table *b, uint32_t group, uint32_t c, bool weak) {
	uint32_t capture = a->t->groups.at[group].captures[c], n = 0;
	double first = INFINITY, last = -INFINITY;
	for (uint32_t k = b->column_begin[c]; k < b->column_begin[c + 1]; k++) {
		if (isnan(b->common[b->row[b->cell[k]]])) continue;
		first = fmin(first, b->own[b->cell[k]]);
		last = fmax(last, b->own[b->cell[k]]);
		n++;
	}
	if (!b->known[c] || !n) return LK_OK;
	clock_fit *fit = &a->fit[capture];
	fit->anchors += n;
	fit->span = fmax(fit->span, last - first);
	if (!lk_push(&a->ties)) return lk_oom(a->err);
	*lk_last(&a->ties) = (tie){group, capture, n, b->early[c], column_slope(b, c, fit), fmin(n, 1000) * (weak ? WEAK : 1)};
	return LK_OK;
}

static lk_status tie_group(aligner *a, uint32_t begin, uint32_t end) {
	bool weak = true;
	for (uint32_t m = begin; m < end && weak; m++) weak = !used(a, m, false);
	table b = {0};
	lk_status status = fill_table(a, &b, begin, end, weak) ? LK_OK : lk_oom(a->err);
	if (status == LK_OK && b.matches) {
		take_turns(&b);
		for (uint32_t c = 0; c < b.members && status == LK_OK; c++)
			status = tie_member(a, &b, a->t->matches.at[begin].group, c, weak);
	}
	free_table(&b);
	return status;
}

/* ---- all groups ---- */

/* Ties by capture: numbers of ties, so that a walk can go from ranks to groups and back. */
typedef struct net {
	uint32_t *group_begin;   /* [groups + 1] in ties */
	uint32_t *capture_begin, *of_capture;
	bool *group_done, *capture_done;
	uint32_t *queue;
	double *constant;        /* [groups] c */
	double *sum, *weight;    /* [captures] */
	double *away;            /* [ties] */
} net;

static void free_net(net *n) {
	free(n->group_begin);
	free(n->capture_begin);
	free(n->of_capture);
	free(n->group_done);
	free(n->capture_done);
	free(n->queue);
	free(n->constant);
	free(n->sum);
	free(n->weight);
	free(n->away);
}

static bool make_net(const aligner *a, net *n) {
	size_t groups = a->t->groups.count, captures = a->t->count, ties = a->ties.count;
	n->group_begin = calloc(groups + 2, sizeof *n->group_begin);
	n->capture_begin = calloc(captures + 2, sizeof *n->capture_begin);
	n->of_capture = malloc((ties + 1) * sizeof *n->of_capture);
	n->group_done = calloc(groups + 1, 1);
	n->capture_done = calloc(captures + 1, 1);
	n->queue = malloc((captures + 1) * sizeof *n->queue);
	n->constant = calloc(groups + 1, sizeof *n->constant);
	n->sum = malloc((captures + 1) * sizeof *n->sum);
	n->weight = malloc((captures + 1) * sizeof *n->weight);
	n->away = malloc((ties + 1) * sizeof *n->away);
	if (!n->group_begin || !n->capture_begin || !n->of_capture || !n->group_done || !n->capture_done || !n->queue ||
	    !n->constant || !n->sum || !n->weight || !n->away)
		return false;
	for (size_t i = 0; i < ties; i++) n->group_begin[a->ties.at[i].group + 1]++, n->capture_begin[a->ties.at[i].capture + 2]++;
	for (size_t g = 0; g < groups; g++) n->group_begin[g + 1] += n->group_begin[g];
	for (size_t c = 0; c < captures; c++) n->capture_begin[c + 2] += n->capture_begin[c + 1];
	for (size_t i = 0; i < ties; i++) n->of_capture[n->capture_begin[a->ties.at[i].capture + 1]++] = (uint32_t)i;
	return true;
}

/* Breadth first from `root`: every rank gets a value by one path of groups. */
static void walk_net(aligner *a, net *n, uint32_t root, double *value) {
	size_t head = 0, tail = 0;
	n->queue[tail++] = root;
	n->capture_done[root] = true;
	while (head < tail) {
		uint32_t c = n->queue[head++];
		a->fit[c].component = root;
		for (uint32_t k = n->capture_begin[c]; k < n->capture_begin[c + 1]; k++) {
			const tie *in = &a->ties.at[n->of_capture[k]];
			if (n->group_done[in->group]) continue;
			n->group_done[in->group] = true;
			n->constant[in->group] = value[c] - in->shift;
			for (uint32_t i = n->group_begin[in->group]; i < n->group_begin[in->group + 1]; i++) {
				const tie *out = &a->ties.at[i];
				if (n->capture_done[out->capture]) continue;
				n->capture_done[out->capture] = true;
				value[out->capture] = n->constant[in->group] + out->shift;
				n->queue[tail++] = out->capture;
			}
		}
	}
}

/* Weights of ties that are far from the rest go down: w / (1 + (away / scale)^2). */
static double tie_weight(const tie *t, double away, double scale) {
	return t->weight / (1 + away / scale * (away / scale));
}

static void sweep(const aligner *a, net *n, double *value, double scale) {
	for (size_t g = 0; g < a->t->groups.count; g++) {
		double sum = 0, weight = 0;
		for (uint32_t i = n->group_begin[g]; i < n->group_begin[g + 1]; i++) {
			double w = tie_weight(&a->ties.at[i], n->away[i], scale);
			sum += w * (value[a->ties.at[i].capture] - a->ties.at[i].shift);
			weight += w;
		}
		if (weight > 0) n->constant[g] = sum / weight;
	}
	memset(n->sum, 0, a->t->count * sizeof *n->sum);
	memset(n->weight, 0, a->t->count * sizeof *n->weight);
	for (size_t i = 0; i < a->ties.count; i++) {
		const tie *t = &a->ties.at[i];
		double w = tie_weight(t, n->away[i], scale);
		n->sum[t->capture] += w * (n->constant[t->group] + t->shift);
		n->weight[t->capture] += w;
	}
	for (uint32_t c = 0; c < a->t->count; c++)
		if (n->weight[c] > 0) value[c] = n->sum[c] / n->weight[c];
}

static double measure_away(const aligner *a, net *n, const double *value) {
	for (size_t i = 0; i < a->ties.count; i++) {
		const tie *t = &a->ties.at[i];
		n->away[i] = fabs(value[t->capture] - n->constant[t->group] - t->shift);
	}
	double *copy = malloc((a->ties.count + 1) * sizeof *copy);
	if (!copy) return 0;
	memcpy(copy, n->away, a->ties.count * sizeof *copy);
	double middle = a->ties.count ? lk_select_median(copy, a->ties.count) : 0;
	free(copy);
	return middle;
}

/* One value per capture that fits the ties' shifts best, 0 at the first capture of each component. */
static lk_status join_ties(aligner *a, double *value, double usual) {
	net n = {0};
	if (!make_net(a, &n)) return free_net(&n), lk_oom(a->err);
	for (uint32_t c = 0; c < a->t->count; c++) value[c] = 0;
	for (uint32_t c = 0; c < a->t->count; c++)
		if (!n.capture_done[c]) walk_net(a, &n, c, value);
	double scale = INFINITY;
	for (int i = 0; i < SWEEPS && a->ties.count > a->t->count; i++) {
		if (i % 4 == 0) scale = fmax(usual, 3 * measure_away(a, &n, value));
		sweep(a, &n, value, scale);
	}
	for (uint32_t c = a->t->count; c-- > 0;) value[c] -= value[a->fit[c].component];
	free_net(&n);
	return LK_OK;
}

static lk_status make_ties(aligner *a) {
	const lk_traces *t = a->t;
	a->ties.count = 0;
	for (uint32_t c = 0; c < t->count; c++) {
		clock_fit *f = &a->fit[c];
		f->anchors = 0, f->span = 0, f->error = INFINITY;
	}
	for (uint32_t begin = 0, end; begin < t->matches.count; begin = end) {
		for (end = begin; end < t->matches.count && t->matches.at[end].group == t->matches.at[begin].group;) end++;
		LK_TRY(tie_group(a, begin, end));
	}
	/* One collective alone may be an accident. */
	size_t kept = 0;
	for (size_t i = 0; i < a->ties.count; i++)
		if (a->fit[a->ties.at[i].capture].anchors >= FEWEST_ANCHORS) a->ties.at[kept++] = a->ties.at[i];
	a->ties.count = kept;
	return LK_OK;
}

static void find_middles(aligner *a) {
	const lk_traces *t = a->t;
	for (uint32_t c = 0; c < t->count; c++) a->fit[c].middle = NAN;
	/* First and last end by capture; the middle is between. */
	double *last = a->base + t->count;
	for (uint32_t c = 0; c < t->count; c++) last[c] = 0;
	for (size_t i = 0; i < t->members.count; i++) {
		uint32_t c = t->members.at[i].capture;
		double end = own_end(t, t->members.at[i]);
		a->fit[c].middle = fmin(a->fit[c].middle, end);
		last[c] = fmax(last[c], end);
	}
	for (uint32_t c = 0; c < t->count; c++) a->fit[c].middle = isnan(a->fit[c].middle) ? 0 : (a->fit[c].middle + last[c]) / 2;
}

/* Adds the slopes that are clear; false if none is. What is clear but small is only noted. */
static bool add_slopes(aligner *a, const double *slope, double *largest) {
	bool any = false;
	for (uint32_t c = 0; c < a->t->count; c++) {
		clock_fit *f = &a->fit[c];
		double over = fabs(slope[c]) * f->span;
		if (!isfinite(f->error) || over < CLEAR_ERRORS * f->error) continue;
		*largest = fmax(*largest, fabs(slope[c] + f->slope));
		if (over < CLEAR_DRIFT_NS) continue;
		f->slope += slope[c];
		any = true;
	}
	return any;
}

/* Shifts, then slopes of what is left, then shifts again, as long as slopes are clear. */
static lk_status fit_clocks(aligner *a, double *largest_slope) {
	double *value = calloc((size_t)a->t->count + 1, sizeof *value);
	if (!value) return lk_oom(a->err);
	find_middles(a);
	*largest_slope = 0;
	lk_status status = LK_OK;
	for (int round = 0; round <= DRIFT_ROUNDS && status == LK_OK; round++) {
		status = make_ties(a);
		if (status == LK_OK) status = join_ties(a, value, USUAL_NS);
		for (uint32_t c = 0; c < a->t->count; c++) a->fit[c].shift += value[c];
		if (status != LK_OK || round == DRIFT_ROUNDS) break;
		for (size_t i = 0; i < a->ties.count; i++) a->ties.at[i].shift = a->ties.at[i].slope;
		status = join_ties(a, value, 1e-6);
		if (status != LK_OK || !add_slopes(a, value, largest_slope)) break;
	}
	free(value);
	return status;
}

static lk_status open_aligner(aligner *a, const lk_traces *t, lk_error *err) {
	*a = (aligner){.t = t, .err = err};
	a->fit = calloc((size_t)t->count + 1, sizeof *a->fit);
	a->base = calloc(2 * (size_t)t->count + 1, sizeof *a->base);
	a->column_of = calloc((size_t)t->count + 1, sizeof *a->column_of);
	if (!a->fit || !a->base || !a->column_of) return lk_oom(err);
	for (uint32_t c = 0; c < t->count; c++) a->base[c] = (double)lk_clock_base(t, c);
	return LK_OK;
}

static void close_aligner(aligner *a) {
	free(a->fit);
	free(a->base);
	free(a->column_of);
	lk_vec_free(&a->ties);
}

/* ---- what comes of it ---- */

static bool tied(const aligner *a, uint32_t capture) {
	return a->fit[capture].anchors >= FEWEST_ANCHORS;
}

/* Aligned ends of one collective; the number of them. */
static size_t aligned_ends(const aligner *a, const lk_match *m, double *out) {
	size_t n = 0;
	for (uint32_t k = m->begin; k < m->end; k++) {
		lk_match_member member = a->t->members.at[k];
		if (tied(a, member.capture)) out[n++] = on_common(a, member.capture, own_end(a->t, member));
	}
	return n;
}

/* |end - common end| of one collective's ranks; the number of them. */
static size_t residuals_of(const aligner *a, const lk_match *m, double *ends, double *sorted, double *out) {
	size_t ranks = aligned_ends(a, m, ends);
	if (ranks < 2) return 0;
	memcpy(sorted, ends, ranks * sizeof *ends);
	double common = ranks == 2 ? (ends[0] + ends[1]) / 2 : lk_select_median(sorted, ranks);
	for (size_t k = 0; k < ranks; k++) out[k] = fabs(ends[k] - common);
	return ranks;
}

static size_t all_residuals(const aligner *a, lk_traces *t, bool weak, double *ends, double *left) {
	size_t n = 0;
	for (size_t i = 0; i < t->matches.count; i++) {
		if (!weak && !strong(t, &t->matches.at[i])) continue;
		size_t ranks = residuals_of(a, &t->matches.at[i], ends, ends + t->count, left + n);
		t->anchors += ranks > 0;
		n += ranks;
	}
	return n;
}

static lk_status measure_residuals(const aligner *a, lk_traces *t) {
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

static void take_clocks(const aligner *a, lk_traces *t, double largest_slope) {
	double low = 0, high = 0;
	t->largest_drift_ppm = largest_slope * 1e6;
	for (uint32_t c = 0; c < t->count; c++) {
		const clock_fit *f = &a->fit[c];
		bool told = lk_clock_told(t->capture[c]);
		if (tied(a, c)) low = fmin(low, f->shift), high = fmax(high, f->shift);
		t->shift_ns[c] = lk_add_saturated((int64_t)a->base[c], (int64_t)llround(f->shift));
		if (f->component != 0 && !told) t->shift_ns[c] = (int64_t)llround(a->base[c] - a->base[f->component] + f->shift);
		t->drift_ppm[c] = f->slope * 1e6;
		t->middle_ns[c] = (int64_t)f->middle;
		if (f->slope != 0)
			lk_traces_warn(t, "rank %d: its clock runs %.2f ppm %s than rank %d's; times are corrected for that",
			               t->capture[c]->rank, fabs(f->slope) * 1e6, f->slope > 0 ? "slower" : "faster", t->capture[0]->rank);
	}
	t->skew_ns = high - low;
}

static void warn_of_loose_clocks(const aligner *a, lk_traces *t) {
	for (uint32_t c = 1; c < t->count; c++) {
		const lk_capture *first = t->capture[0], *own = t->capture[c];
		if (a->fit[c].component == 0) continue;
		bool told = lk_clock_told(first) && lk_clock_told(own);
		uint32_t with = a->fit[c].component;
		if (with != c)
			lk_traces_warn(t, "rank %d: collectives tie its clock to rank %d, but nothing to rank %d", own->rank,
			               t->capture[with]->rank, first->rank);
		else lk_traces_warn(t, "rank %d: fewer than %d collectives in common with ranks tied to rank %d; %s", own->rank, FEWEST_ANCHORS,
			first->rank, told ? "its clock is taken as the file has it" : "it is drawn as if it began together with it");
	}
}

lk_status lk_traces_align(lk_traces *t, lk_error *err) {
	aligner a;
	double slope = 0;
	lk_status status = open_aligner(&a, t, err);
	if (status == LK_OK) status = fit_clocks(&a, &slope);
	if (status == LK_OK) status = measure_residuals(&a, t);
	if (status == LK_OK) {
		take_clocks(&a, t, slope);
		warn_of_loose_clocks(&a, t);
	}
	close_aligner(&a);
	return status;
}

/* ---- the rule of barriers ---- */

typedef struct prediction {
	aligner a;
	double *ends, *others, *errors;
	size_t count;
	lk_barrier_error *out;
} prediction;

/* Every rank's end from all arrivals and from the others' transfer. */
static void predict_ends(prediction *p, uint32_t match) {
	const lk_traces *t = p->a.t;
	const lk_match *m = &t->matches.at[match];
	size_t n = aligned_ends(&p->a, m, p->ends);
	if (n < 2 || n != m->end - m->begin) return;
	double latest = -INFINITY;
	for (uint32_t k = m->begin; k < m->end; k++) {
		lk_match_member member = t->members.at[k];
		double own = (double)t->capture[member.capture]->start_ns[member.event];
		latest = fmax(latest, on_common(&p->a, member.capture, own));
	}
	for (size_t r = 0; r < n; r++) {
		size_t others = 0;
		for (size_t k = 0; k < n; k++)
			if (k != r) p->others[others++] = p->ends[k] - latest;
		double error = fabs(latest + lk_select_median(p->others, others) - p->ends[r]);
		p->errors[p->count++] = error;
		if (error < p->out->max_ns) continue;
		p->out->max_ns = error;
		p->out->worst_match = match;
		p->out->worst_capture = t->members.at[m->begin + r].capture;
	}
	p->out->collectives++;
}

static lk_status predict_fold(prediction *p, uint32_t fold, uint32_t folds) {
	const lk_traces *t = p->a.t;
	memset(p->a.fit, 0, t->count * sizeof *p->a.fit);
	p->a.skip = fold, p->a.folds = folds;
	double slope;
	LK_TRY(fit_clocks(&p->a, &slope));
	for (uint32_t m = fold; m < t->matches.count; m += folds)
		if (strong(t, &t->matches.at[m])) predict_ends(p, m);
	return LK_OK;
}

lk_status lk_traces_barrier_error(const lk_traces *t, lk_barrier_error *out, lk_error *err) {
	*out = (lk_barrier_error){0};
	prediction p = {.out = out};
	lk_status status = open_aligner(&p.a, t, err);
	p.ends = malloc((t->count + 1) * sizeof *p.ends);
	p.others = malloc((t->count + 1) * sizeof *p.others);
	p.errors = malloc((t->members.count + 1) * sizeof *p.errors);
	if (!p.ends || !p.others || !p.errors) status = lk_oom(err);
	uint32_t folds = t->matches.count < MOST_FOLDS ? (uint32_t)t->matches.count : MOST_FOLDS;
	for (uint32_t f = 0; f < folds && status == LK_OK; f++) status = predict_fold(&p, f, folds);
	out->ends = (uint32_t)p.count;
	if (p.count) out->median_ns = lk_select_median(p.errors, p.count);
	free(p.ends);
	free(p.others);
	free(p.errors);
	close_aligner(&p.a);
	return status;
}
