/* align_group.c: the clocks of one process group. Member r ends collective k at T_k - e_r by its
 * own clock: medians over ranks give T_k, medians over collectives give e_r, in turns. A clock that
 * runs fast shows as a slope of T_k - (end + e_r) over time. */
#include <math.h>

#include "base/arena.h"
#include "trace/align/align_internal.h"
#include "base/check.h"

enum {
	TURNS = 8,             /* of medians; they settle after two or three */
	FEWEST_FOR_DRIFT = 24, /* collectives: eight at each end */
	FEW = 8,
	MOST_WEIGHT = 1000, /* more collectives than this add no information */
};
/* Sender and receiver of a message end apart because messages are buffered: use them only where no
 * better tie exists. */
static const double WEAK = 1e-3;

/* One group's anchors, transposed. */
struct table {
	uint32_t matches, members; /* columns: capture of the group */
	uint32_t *row_begin;       /* [matches + 1] */
	uint32_t *column;          /* by row: which member */
	uint32_t *column_begin;    /* [members + 1] */
	uint32_t *cell;            /* by column: the cell */
	uint32_t *row;             /* by cell */
	double *end, *own;         /* by cell: end on the clock so far; own time */
	double *common;            /* [matches] T */
	double *early;             /* [members] e */
	double *scratch;
	bool *known;
	lk_arena arena;
};

static bool group_room_for(struct table *table, size_t rows, size_t columns, size_t cells) {
	table->row_begin = LK_ARRAY(&table->arena, uint32_t, rows + 1);
	table->column = LK_ARRAY(&table->arena, uint32_t, cells);
	table->column_begin = LK_ARRAY(&table->arena, uint32_t, columns + 2);
	table->cell = LK_ARRAY(&table->arena, uint32_t, cells);
	table->row = LK_ARRAY(&table->arena, uint32_t, cells);
	table->end = LK_ARRAY(&table->arena, double, cells);
	table->own = LK_ARRAY(&table->arena, double, cells);
	table->common = LK_ARRAY(&table->arena, double, rows);
	table->early = LK_ARRAY(&table->arena, double, columns);
	table->scratch = LK_ARRAY(&table->arena, double, rows > columns ? rows : columns);
	table->known = LK_ARRAY(&table->arena, bool, columns);
	return table->row_begin && table->column && table->column_begin && table->cell && table->row &&
	       table->end && table->own && table->common && table->early && table->scratch &&
	       table->known;
}

static bool group_used(const lk_aligner *aligner, uint32_t match, bool weak) {
	const lk_match *m = &aligner->traces->matches.at[match];
	return m->end - m->begin >= 2 && (weak || lk_all_wait(aligner->traces, m));
}

/* Fill the cells by row (collective), and index them by column (member). */
static bool fill_table(lk_aligner *aligner, struct table *table, uint32_t begin, uint32_t end,
                       bool weak) {
	const lk_traces *traces = aligner->traces;
	const lk_run_group *group = &traces->groups.at[traces->matches.at[begin].group];
	size_t cells = traces->matches.at[end - 1].end - traces->matches.at[begin].begin;
	if (!group_room_for(table, end - begin, group->count, cells)) return false;
	table->members = group->count;
	for (uint32_t k = 0; k < group->count; k++) aligner->column_of[group->captures[k]] = k;
	uint32_t n = 0;
	for (uint32_t m = begin; m < end; m++) {
		if (!group_used(aligner, m, weak)) continue;
		table->row_begin[table->matches] = n;
		for (uint32_t k = traces->matches.at[m].begin; k < traces->matches.at[m].end; k++, n++) {
			lk_match_member member = traces->members.at[k];
			table->own[n] = lk_own_end(traces, member);
			table->end[n] = lk_on_common(aligner, member.capture, table->own[n]);
			table->row[n] = table->matches;
			table->column[n] = aligner->column_of[member.capture];
			LK_ASSERT(table->column[n] < table->members &&
			          group->captures[table->column[n]] == member.capture);
			table->column_begin[table->column[n] + 2]++;
		}
		table->matches++;
	}
	LK_ASSERT(n <= cells && table->matches <= end - begin);
	table->row_begin[table->matches] = n;
	for (uint32_t c = 0; c < table->members; c++)
		table->column_begin[c + 2] += table->column_begin[c + 1];
	for (uint32_t k = 0; k < n; k++) table->cell[table->column_begin[table->column[k] + 1]++] = k;
	return true;
}

/* First guess: a collective's end from members already known; the other members from that end. */
static void guess_early(struct table *table) {
	for (int pass = 0; pass < 2; pass++)
		for (uint32_t step = 0; step < table->matches; step++) {
			uint32_t r = pass ? table->matches - 1 - step : step;
			size_t n = 0;
			for (uint32_t k = table->row_begin[r]; k < table->row_begin[r + 1]; k++)
				if (table->known[table->column[k]])
					table->scratch[n++] = table->end[k] + table->early[table->column[k]];
			/* The very first collective takes the end of its first member. */
			double common =
				n ? lk_select_median(table->scratch, n) : table->end[table->row_begin[r]];
			if (!n && (step > 0 || pass > 0)) continue;
			for (uint32_t k = table->row_begin[r]; k < table->row_begin[r + 1]; k++) {
				uint32_t c = table->column[k];
				if (!table->known[c]) {
					table->known[c] = true;
					table->early[c] = common - table->end[k];
				}
			}
		}
}

static void group_common_ends(struct table *table) {
	for (uint32_t r = 0; r < table->matches; r++) {
		size_t n = 0;
		for (uint32_t k = table->row_begin[r]; k < table->row_begin[r + 1]; k++)
			if (table->known[table->column[k]])
				table->scratch[n++] = table->end[k] + table->early[table->column[k]];
		table->common[r] = n > 1 ? lk_select_median(table->scratch, n) : NAN;
		/* Of two values the mean. Of more, the median; of an even number that is the lower one, for
		 * all members alike. */
		if (n == 2) table->common[r] = (table->scratch[0] + table->scratch[1]) / 2;
	}
}

static size_t column_values(const struct table *table, uint32_t c, double *out) {
	size_t n = 0;
	for (uint32_t k = table->column_begin[c]; k < table->column_begin[c + 1]; k++) {
		uint32_t cell = table->cell[k];
		if (!isnan(table->common[table->row[cell]]))
			out[n++] = table->common[table->row[cell]] - table->end[cell];
	}
	return n;
}

static void take_turns(struct table *table) {
	guess_early(table);
	for (int turn = 0; turn < TURNS; turn++) {
		double moved = 0;
		group_common_ends(table);
		for (uint32_t c = 0; c < table->members; c++) {
			size_t n = table->known[c] ? column_values(table, c, table->scratch) : 0;
			if (!n) continue;
			double early = lk_select_median(table->scratch, n);
			moved = fmax(moved, fabs(early - table->early[c]));
			table->early[c] = early;
		}
		if (moved < 1) break;
	}
	group_common_ends(table);
}

/* Slope of T - end over own time, from the medians of the first and the last third. Cells of a
 * column are in order of time. */
static double column_slope(const struct table *table, uint32_t c, lk_clock_fit *fit) {
	uint32_t begin = table->column_begin[c], n = table->column_begin[c + 1] - begin;
	size_t valid = column_values(table, c, table->scratch);
	if (valid != n || n < FEWEST_FOR_DRIFT) return 0;
	uint32_t third = n / 3;
	double first = table->own[table->cell[begin + third / 2]],
		   last = table->own[table->cell[begin + n - 1 - third / 2]];
	if (last - first < 1e6) return 0; /* no drift can be seen in under a millisecond */
	double low = lk_select_median(table->scratch, third);
	column_values(table, c, table->scratch);
	double high = lk_select_median(table->scratch + n - third, third),
		   slope = (high - low) / (last - first);
	column_values(table, c, table->scratch);
	for (uint32_t k = 0; k < n; k++)
		table->scratch[k] = fabs(table->scratch[k] - table->early[c] -
		                         slope * (table->own[table->cell[begin + k]] - (first + last) / 2));
	/* 1.4826 MAD estimates the standard deviation; the median of m values has 1.2533 / sqrt(m) of
	 * it; two thirds are compared. */
	double span = table->own[table->cell[begin + n - 1]] - table->own[table->cell[begin]];
	fit->error = fmin(fit->error, 1.4826 * 1.2533 * sqrt(2.0 / third) *
	                                  lk_select_median(table->scratch, n) * span / (last - first));
	return slope;
}

/* Standard error of e, from the median deviation; from the mean deviation if values are few, where
 * medians say little. */
static double column_doubt(const struct table *table, uint32_t c) {
	size_t n = column_values(table, c, table->scratch);
	double sum = 0;
	for (size_t k = 0; k < n; k++) {
		table->scratch[k] = fabs(table->scratch[k] - table->early[c]);
		sum += table->scratch[k];
	}
	double deviation =
		n < FEW ? sum / (double)n * 1.2533 : 1.4826 * lk_select_median(table->scratch, n);
	return 1.2533 * deviation / sqrt((double)n);
}

static lk_status tie_member(lk_aligner *aligner, struct table *table, uint32_t group, uint32_t c,
                            bool weak) {
	uint32_t capture = aligner->traces->groups.at[group].captures[c], n = 0;
	double first = INFINITY, last = -INFINITY;
	for (uint32_t k = table->column_begin[c]; k < table->column_begin[c + 1]; k++) {
		if (isnan(table->common[table->row[table->cell[k]]])) continue;
		first = fmin(first, table->own[table->cell[k]]);
		last = fmax(last, table->own[table->cell[k]]);
		n++;
	}
	if (!table->known[c] || !n) return LK_OK;
	LK_ASSERT(isfinite(table->early[c]) && first <= last);
	lk_clock_fit *fit = &aligner->fit[capture];
	fit->anchors += n;
	fit->doubt = fmin(fit->doubt, column_doubt(table, c));
	fit->span = fmax(fit->span, last - first);
	if (!lk_push(&aligner->ties)) return lk_oom(aligner->err);
	*lk_last(&aligner->ties) = (lk_tie){group,
	                                    capture,
	                                    n,
	                                    table->early[c],
	                                    column_slope(table, c, fit),
	                                    fmin(n, MOST_WEIGHT) * (weak ? WEAK : 1)};
	return LK_OK;
}

lk_status lk_tie_group(lk_aligner *aligner, uint32_t begin, uint32_t end) {
	bool weak = true;
	for (uint32_t m = begin; m < end && weak; m++) weak = !group_used(aligner, m, false);
	struct table b = {0};
	lk_status status = fill_table(aligner, &b, begin, end, weak) ? LK_OK : lk_oom(aligner->err);
	if (status == LK_OK && b.matches) {
		take_turns(&b);
		for (uint32_t c = 0; c < b.members && status == LK_OK; c++)
			status = tie_member(aligner, &b, aligner->traces->matches.at[begin].group, c, weak);
	}
	lk_arena_free(&b.arena);
	return status;
}
