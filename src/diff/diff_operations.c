/* diff_operations.c: operations of two runs paired by what they are: phase, part, kind, ranks of
 * the group, shape or size; never by the names of kernels, which differ between devices and
 * libraries. A kind of which one run does not state all shapes is one row. */
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/sort.h"
#include "base/vec.h"
#include "diff/diff.h"
#include "explain/explain.h"

struct side {
	const lk_explain_operation *of;
	const char *shape;
	int ranks;
	bool after;
};
typedef LK_VEC(struct side) sides;

static int by_class(const struct side *x, const struct side *y) {
	int order = strcmp(x->of->phase, y->of->phase);
	if (!order) order = strcmp(x->of->part, y->of->part);
	return order ? order : strcmp(x->of->kind, y->of->kind);
}

static int by_what(const void *a, const void *b) {
	const struct side *x = a, *y = b;
	int order = by_class(x, y);
	if (!order) order = x->ranks - y->ranks;
	if (!order) order = strcmp(x->shape, y->shape);
	if (!order) order = (int)x->after - (int)y->after;
	return order;
}

static lk_status take_side(sides *all, const lk_explanation *run, bool after, lk_error *err) {
	for (int i = 0; i < run->operation_count; i++) {
		const lk_explain_operation *of = &run->operations[i];
		if (!lk_push(all)) return lk_oom(err);
		*lk_last(all) = (struct side){of, of->shape, of->ranks, after};
	}
	return LK_OK;
}

/* What one run leaves open of a kind is left out of the keys of both. */
static void drop_unstated(struct side *of, size_t count) {
	bool there[2] = {false, false}, shapeless[2] = {false, false}, groupless[2] = {false, false};
	for (size_t i = 0; i < count; i++) {
		there[of[i].after] = true;
		shapeless[of[i].after] |= !*of[i].shape;
		groupless[of[i].after] |= of[i].ranks == 0;
	}
	bool both = there[0] && there[1];
	for (size_t i = 0; i < count; i++) {
		if (both && (shapeless[0] || shapeless[1])) of[i].shape = "";
		if (both && (groupless[0] || groupless[1])) of[i].ranks = 0;
	}
}

static void drop_all_unstated(sides *all) {
	for (size_t first = 0, end; first < all->count; first = end) {
		for (end = first; end < all->count && by_class(&all->at[first], &all->at[end]) == 0;) end++;
		drop_unstated(all->at + first, end - first);
	}
}

/* Add one side's figures; `longest` is the largest sum of durations of that side so far. */
static void add_to_row(lk_diff_operation *row, const struct side *side, double steps,
                       double longest[2]) {
	const lk_explain_operation *of = side->of;
	double own_s = of->own_ns * 1e-9 / steps;
	*(side->after ? &row->after_s : &row->before_s) += own_s;
	*(side->after ? &row->after_sum_s : &row->before_sum_s) += of->time_ns * 1e-9 / steps;
	*(side->after ? &row->after_count : &row->before_count) += (double)of->count / steps;
	*(side->after ? &row->after_wait_s : &row->before_wait_s) += of->wait_ns * 1e-9 / steps;
	if (!(of->time_ns > longest[side->after])) return;
	longest[side->after] = of->time_ns;
	*(side->after ? &row->after_name : &row->before_name) = of->name;
}

static int operations_by_change(const void *a, const void *b) {
	const lk_diff_operation *x = a, *y = b;
	double p = fabs(x->delta_s), q = fabs(y->delta_s);
	if (p != q) return p > q ? -1 : 1;
	const char *const r[] = {x->phase, x->kind, x->shape, x->group}, *const s[] = {
																		 y->phase, y->kind,
																		 y->shape, y->group};
	for (int i = 0; i < 4; i++)
		if (strcmp(r[i], s[i]) != 0) return strcmp(r[i], s[i]);
	return 0;
}

double lk_diff_rank_steps(const lk_explanation *explanation) {
	double count = 0;
	for (int i = 0; i < explanation->rank_count; i++) count += explanation->ranks[i].steps;
	return count;
}

double lk_diff_mean_of(const lk_explanation *explanation, size_t time) {
	double sum = 0;
	for (int i = 0; i < explanation->rank_count; i++)
		sum += (double)lk_rank_time(&explanation->ranks[i], time) * 1e-9;
	return sum / lk_diff_rank_steps(explanation);
}

/* Divide the durations that a row has before among its operations after. */
static void divide_before(const lk_diff_operation *row, const struct side *of, size_t count,
                          const lk_explanation *after, double *before_s) {
	double whole_ns = 0;
	for (size_t i = 0; i < count; i++)
		if (of[i].after) whole_ns += of[i].of->time_ns;
	for (size_t i = 0; i < count; i++)
		if (of[i].after && whole_ns > 0)
			before_s[of[i].of - after->operations] =
				row->before_sum_s * of[i].of->time_ns / whole_ns;
}

static lk_status pair_sides(lk_arena *arena, const sides *all, const lk_explanation *const run[2],
                            const lk_diff_operation **out, int *count, double *before_s,
                            lk_error *err) {
	double steps[2] = {lk_diff_rank_steps(run[0]), lk_diff_rank_steps(run[1])};
	lk_diff_operation *rows = LK_ARRAY(arena, lk_diff_operation, all->count);
	if (!rows) return lk_oom(err);
	*count = 0;
	for (size_t i = 0; i < all->count;) {
		const struct side *first = &all->at[i];
		lk_diff_operation *row = &rows[(*count)++];
		double longest[2] = {-1, -1};
		*row = (lk_diff_operation){.phase = first->of->phase,
		                           .part = first->of->part,
		                           .kind = first->of->kind,
		                           .shape = first->shape,
		                           .group = first->of->group,
		                           .before_name = "",
		                           .after_name = "",
		                           .state = ""};
		for (; i < all->count && by_class(first, &all->at[i]) == 0 &&
		       first->ranks == all->at[i].ranks && strcmp(first->shape, all->at[i].shape) == 0;
		     i++)
			add_to_row(row, &all->at[i], steps[all->at[i].after], longest);
		if (before_s) divide_before(row, first, (size_t)(&all->at[i] - first), run[1], before_s);
		if (longest[0] < 0) row->state = "new";
		else if (longest[1] < 0) row->state = "removed";
		row->delta_s = row->after_s - row->before_s;
		row->share = row->delta_s / run[0]->step_s;
	}
	lk_sort(rows, (size_t)*count, sizeof *rows, operations_by_change);
	*out = rows;
	return LK_OK;
}

lk_status lk_diff_pair(lk_arena *arena, const lk_explanation *before, const lk_explanation *after,
                       const lk_diff_operation **out, int *count, double *before_s, lk_error *err) {
	const lk_explanation *const run[2] = {before, after};
	sides all = {0};
	lk_status status = take_side(&all, before, false, err);
	if (status == LK_OK) status = take_side(&all, after, true, err);
	if (status == LK_OK) {
		lk_sort(all.at, all.count, sizeof *all.at, by_what);
		drop_all_unstated(&all);
		lk_sort(all.at, all.count, sizeof *all.at, by_what);
		status = pair_sides(arena, &all, run, out, count, before_s, err);
	}
	lk_vec_free(&all);
	return status;
}
