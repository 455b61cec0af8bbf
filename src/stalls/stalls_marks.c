/* stalls_marks.c: marks of the program as parts of the step.
 *
 * A mark's part is the typical rank's code in it, which is taken out of compute: both are of the
 * same rank, so that the parts still sum to the step. What that rank waits for in a mark stays with
 * its cause, as does what other ranks take longer (imbalance); the table of marks has it.
 * Preparation by the step's own thread may lie in a mark that also holds its reads: so marks
 * together take at most what compute has. */
#include <string.h>

#include "base/check.h"
#include "base/sort.h"
#include "stalls/stalls.h"

/* ---- the marks of a run ---- */

/* The same names follow one another, by rank. */
static int by_name(const void *a, const void *b) {
	const lk_stalls_rank_mark *x = a, *y = b;
	int order = strcmp(x->name, y->name);
	return order ? order : (x->rank > y->rank) - (x->rank < y->rank);
}

static int by_code(const void *a, const void *b) {
	const lk_stalls_mark *x = a, *y = b;
	if (x->code != y->code) return x->code < y->code ? 1 : -1;
	if (x->most != y->most) return x->most < y->most ? 1 : -1;
	return strcmp(x->name, y->name);
}

lk_status lk_stalls_join_marks(lk_stalls_rank_mark *each, size_t count, size_t typical, int ranks,
                               lk_arena *arena, lk_stalls_marks *out, lk_error *err) {
	lk_stalls_mark *marks = LK_ARRAY(arena, lk_stalls_mark, count + 1);
	*out = (lk_stalls_marks){0};
	if (!marks) return lk_oom(err);
	lk_sort(each, count, sizeof *each, by_name);
	for (size_t i = 0; i < count; i++) {
		const double *cause = each[i].cause;
		if (!i || strcmp(each[i].name, each[i - 1].name) != 0)
			marks[out->count++] = (lk_stalls_mark){.name = each[i].name};
		lk_stalls_mark *mark = &marks[out->count - 1];
		if (each[i].rank == typical) mark->code = cause[LK_CAUSE_CODE];
		mark->most = fmax(mark->most, cause[LK_CAUSE_CODE]);
		mark->preparation += cause[LK_CAUSE_PREPARATION] / ranks;
		mark->fetch += cause[LK_CAUSE_FETCH] / ranks;
		mark->writing += cause[LK_CAUSE_WRITING] / ranks;
		mark->communication += cause[LK_CAUSE_COMM] / ranks;
		mark->preempted += cause[LK_CAUSE_PREEMPTED] / ranks;
	}
	lk_sort(marks, (size_t)out->count, sizeof *marks, by_code);
	out->at = marks;
	return LK_OK;
}

/* ---- parts ---- */

static double code_in_mark(const lk_stalls_marks *marks, const char *name) {
	for (int i = 0; i < marks->count; i++)
		if (strcmp(marks->at[i].name, name) == 0) return marks->at[i].code;
	return 0;
}

/* Seconds of each run in a mark; `name` NULL: in all but those that are parts already. */
static void find_codes(const lk_stalls_times *const *runs, int count, const lk_stalls_answer *parts,
                       const char *name, double *out) {
	for (int k = 0; k < count; k++) {
		const lk_stalls_marks *marks = &runs[k]->marks;
		out[k] = name ? code_in_mark(marks, name) : 0;
		if (isnan(runs[k]->step)) out[k] = NAN;
		for (int i = 0; !name && i < marks->count; i++) out[k] += marks->at[i].code;
		for (int p = LK_STALL_KINDS; !name && p < parts->part_count; p++)
			out[k] -= code_in_mark(marks, parts->parts[p].name);
	}
}

static void add_mark_part(const lk_stalls_times *const *runs, int count, const char *name,
                          lk_stalls_answer *out) {
	double codes[LK_STALLS_REPEATS];
	find_codes(runs, count, out, name, codes);
	lk_estimate e = lk_estimate_of(codes, count);
	if (!(e.mean > 0)) return;
	lk_stalls_part *part = &out->parts[out->part_count++];
	*part = (lk_stalls_part){.name = name ? name : LK_OTHER_MARKS,
	                         .mark = true,
	                         .seconds = e.mean,
	                         .low = isnan(e.low) ? NAN : fmax(0, e.low),
	                         .high = e.high,
	                         .basis = LK_STALLS_ESTIMATED,
	                         .how = "code in marks of the program, recorded"};
}

static void scale_part(lk_stalls_part *part, double factor, double step_s) {
	part->seconds *= factor;
	part->low *= factor;
	part->high *= factor;
	part->share = part->own_share = part->seconds / step_s;
	part->factor = step_s / (step_s - part->seconds);
}

void lk_stalls_split_marks(const lk_stalls_times *const *runs, int count, lk_stalls_answer *out) {
	LK_ASSERT(count > 0 && out->part_count == LK_STALL_KINDS);
	const lk_stalls_marks *first = &runs[0]->marks;
	lk_stalls_part *compute = &out->parts[LK_STALL_COMPUTE];
	double sum = 0;
	for (int i = 0; i < first->count && i < LK_STALLS_MARKS - 1; i++)
		add_mark_part(runs, count, first->at[i].name, out);
	add_mark_part(runs, count, NULL, out);
	for (int p = LK_STALL_KINDS; p < out->part_count; p++) sum += out->parts[p].seconds;
	if (!(sum > 0) || isnan(compute->seconds)) return;
	double factor = fmin(1, compute->seconds / sum), taken = fmin(sum, compute->seconds);
	for (int p = LK_STALL_KINDS; p < out->part_count; p++)
		scale_part(&out->parts[p], factor, out->step_s);
	compute->seconds -= taken;
	if (!isnan(compute->low)) compute->low = fmax(0, compute->low - taken);
	compute->high -= taken;
	compute->share = compute->own_share = compute->seconds / out->step_s;
}
