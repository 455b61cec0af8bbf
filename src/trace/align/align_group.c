/* align_group.c: the clocks of one process group. Member r ends collective k at T_k - e_r by its own clock: medians
 * over ranks give T_k, medians over collectives give e_r, in turns. A clock that runs fast shows as a slope of T_k -
 * (end + e_r) over time. */
#include <math.h>

#include "graph/graph.h"
#include "trace/align/align_internal.h"

enum {
	TURNS = 8,             /* of medians; they settle after two or three */
	FEWEST_FOR_DRIFT = 24, /* collectives: eight at each end */
	FEW = 8,
	MOST_WEIGHT = 1000,    /* more collectives than this say nothing new */
};
/* Sender and receiver end apart by what is buffered: they tie ranks only where nothing better does. */
static const double WEAK = 1e-3;

/* One group's anchors, transposed. */
struct table {
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
	lk_arena arena;
};

bool lk_all_wait(const lk_traces *t, const lk_match *m) {
	bool all_wait = m->kind == LK_OP_ALLREDUCE || m->kind == LK_OP_ALLGATHER || m->kind == LK_OP_REDUCESCATTER ||
	                m->kind == LK_OP_ALLTOALL;
	/* What the host does ends when it is noticed. */
	lk_match_member first = t->members.at[m->begin];
	return all_wait && t->capture[first.capture]->kind[first.event] == LK_EVENT_KERNEL;
}

static bool room_for(struct table *b, size_t rows, size_t columns, size_t cells) {
	b->row_begin = LK_ARRAY(&b->arena, uint32_t, rows + 1);
	b->column = LK_ARRAY(&b->arena, uint32_t, cells);
	b->column_begin = LK_ARRAY(&b->arena, uint32_t, columns + 2);
	b->cell = LK_ARRAY(&b->arena, uint32_t, cells);
	b->row = LK_ARRAY(&b->arena, uint32_t, cells);
	b->end = LK_ARRAY(&b->arena, double, cells);
	b->own = LK_ARRAY(&b->arena, double, cells);
	b->common = LK_ARRAY(&b->arena, double, rows);
	b->early = LK_ARRAY(&b->arena, double, columns);
	b->scratch = LK_ARRAY(&b->arena, double, rows > columns ? rows : columns);
	b->known = LK_ARRAY(&b->arena, bool, columns);
	return b->row_begin && b->column && b->column_begin && b->cell && b->row && b->end && b->own && b->common &&
		   b->early && b->scratch && b->known;
}

static bool used(const lk_aligner *a, uint32_t match, bool weak) {
	const lk_match *m = &a->t->matches.at[match];
	if (m->end - m->begin < 2 || (a->folds && match % a->folds == a->skip)) return false;
	return weak || lk_all_wait(a->t, m);
}

/* Cells by row (collective), and their numbers by column (member). */
static bool fill_table(lk_aligner *a, struct table *b, uint32_t begin, uint32_t end, bool weak) {
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
			b->own[n] = lk_own_end(t, member);
			b->end[n] = lk_on_common(a, member.capture, b->own[n]);
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
static void guess_early(struct table *b) {
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

static void common_ends(struct table *b) {
	for (uint32_t r = 0; r < b->matches; r++) {
		size_t n = 0;
		for (uint32_t k = b->row_begin[r]; k < b->row_begin[r + 1]; k++)
			if (b->known[b->column[k]]) b->scratch[n++] = b->end[k] + b->early[b->column[k]];
		b->common[r] = n > 1 ? lk_select_median(b->scratch, n) : NAN;
		/* Of two the mean, of others the middle one: that of an even number is the lower, for all members alike. */
		if (n == 2) b->common[r] = (b->scratch[0] + b->scratch[1]) / 2;
	}
}

static size_t column_values(const struct table *b, uint32_t c, double *out) {
	size_t n = 0;
	for (uint32_t k = b->column_begin[c]; k < b->column_begin[c + 1]; k++) {
		uint32_t cell = b->cell[k];
		if (!isnan(b->common[b->row[cell]])) out[n++] = b->common[b->row[cell]] - b->end[cell];
	}
	return n;
}

static void take_turns(struct table *b) {
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
static double column_slope(const struct table *b, uint32_t c, lk_clock_fit *fit) {
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
	fit->error =
		fmin(fit->error, 1.4826 * 1.2533 * sqrt(2.0 / third) * lk_select_median(b->scratch, n) * span / (last - first));
	return slope;
}

/* Standard error of e, by the median deviation; of few values, of which medians say little, by the mean one. */
static double column_doubt(const struct table *b, uint32_t c) {
	size_t n = column_values(b, c, b->scratch);
	double sum = 0;
	for (size_t k = 0; k < n; k++) {
		b->scratch[k] = fabs(b->scratch[k] - b->early[c]);
		sum += b->scratch[k];
	}
	double deviation = n < FEW ? sum / (double)n * 1.2533 : 1.4826 * lk_select_median(b->scratch, n);
	return 1.2533 * deviation / sqrt((double)n);
}

static lk_status tie_member(lk_aligner *a, struct table *b, uint32_t group, uint32_t c, bool weak) {
	uint32_t capture = a->t->groups.at[group].captures[c], n = 0;
	double first = INFINITY, last = -INFINITY;
	for (uint32_t k = b->column_begin[c]; k < b->column_begin[c + 1]; k++) {
		if (isnan(b->common[b->row[b->cell[k]]])) continue;
		first = fmin(first, b->own[b->cell[k]]);
		last = fmax(last, b->own[b->cell[k]]);
		n++;
	}
	if (!b->known[c] || !n) return LK_OK;
	lk_clock_fit *fit = &a->fit[capture];
	fit->anchors += n;
	fit->doubt = fmin(fit->doubt, column_doubt(b, c));
	fit->span = fmax(fit->span, last - first);
	if (!lk_push(&a->ties)) return lk_oom(a->err);
	*lk_last(&a->ties) =
		(lk_tie){group, capture, n, b->early[c], column_slope(b, c, fit), fmin(n, MOST_WEIGHT) * (weak ? WEAK : 1)};
	return LK_OK;
}

lk_status lk_tie_group(lk_aligner *a, uint32_t begin, uint32_t end) {
	bool weak = true;
	for (uint32_t m = begin; m < end && weak; m++) weak = !used(a, m, false);
	struct table b = {0};
	lk_status status = fill_table(a, &b, begin, end, weak) ? LK_OK : lk_oom(a->err);
	if (status == LK_OK && b.matches) {
		take_turns(&b);
		for (uint32_t c = 0; c < b.members && status == LK_OK; c++)
			status = tie_member(a, &b, a->t->matches.at[begin].group, c, weak);
	}
	lk_arena_free(&b.arena);
	return status;
}
