/* score_plans.c: `validate --plan`: would the search for a layout have found the one measured as
 * the fastest? Runs of the same network, GPU, number of GPUs and batch are a group; each group with
 * at least four layouts is a row: its measured best layout, whether the search includes it, and its
 * rank among the measured layouts by prediction. Suspect rows and rows without a time do not
 * count. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/sort.h"
#include "tables/tables.h"
#include "validate/validate.h"
#include "plan/plan.h"
#include "fit/fits.h"

enum { LEAST_LAYOUTS = 4, TOP = 3 };

struct layout_run {
	const lk_run *run;
	const char *group, *layout;
	double predicted;
};

static int plans_by_group(const void *a, const void *b) {
	const struct layout_run *x = a, *y = b;
	int order = strcmp(x->group, y->group);
	if (order == 0) order = strcmp(x->layout, y->layout);
	if (order == 0)
		order =
			(x->run->measured_s > y->run->measured_s) - (x->run->measured_s < y->run->measured_s);
	return order ? order : strcmp(x->run->id, y->run->id);
}

/* Collect layouts in the order of their groups; of repeated runs of a layout the fastest. */
static lk_status plans_collect(lk_arena *arena, const lk_runs *runs, struct layout_run **out,
                               size_t *count, lk_error *err) {
	struct layout_run *all = LK_ARRAY(arena, struct layout_run, runs->count);
	if (!all) return lk_oom(err);
	*count = 0;
	for (size_t i = 0; i < runs->count; i++) {
		const lk_run *run = &runs->at[i];
		if (*run->refused || *run->suspect || !(run->measured_s > 0)) continue;
		struct layout_run *one = &all[(*count)++];
		*one = (struct layout_run){.run = run, .layout = lk_run_layout(arena, run)};
		one->group =
			lk_arena_printf(arena, "%s|%s|%d|%d|%d|%s|%s", run->model, run->gpu, run->job.gpus,
		                    run->job.gbs, run->job.seq, run->stack, lk_dtype_name(run->job.dtype));
		if (!one->layout || !one->group) return lk_oom(err);
	}
	lk_sort(all, *count, sizeof *all, plans_by_group);
	size_t kept = 0;
	for (size_t i = 0; i < *count; i++) {
		bool again = kept && strcmp(all[kept - 1].group, all[i].group) == 0 &&
		             strcmp(all[kept - 1].layout, all[i].layout) == 0;
		if (!again) all[kept++] = all[i];
	}
	*count = kept;
	*out = all;
	return LK_OK;
}

static size_t plans_group_end(const struct layout_run *all, size_t begin, size_t count) {
	size_t end = begin;
	while (end < count && strcmp(all[end].group, all[begin].group) == 0) end++;
	return end;
}

/* Remarks: "rank 1 of 9, in the space; predicted best takes 1.3 % longer" */
static const char *remark(lk_arena *arena, const struct layout_run *best,
                          const struct layout_run *chosen, int rank, size_t layouts) {
	const char *why = NULL;
	bool held = lk_layout_searched(&best->run->job, &best->run->cluster, &why);
	const char *space =
		held ? "in the space" : lk_arena_printf(arena, "not in the space (%s)", why);
	if (!space) return NULL;
	const char *verdict = held && rank <= TOP ? "" : "MISS: ";
	if (chosen == best)
		return lk_arena_printf(arena, "%srank %d of %zu, %s", verdict, rank, layouts, space);
	return lk_arena_printf(arena, "%srank %d of %zu, %s; %s, predicted best, measured %+.1f %%",
	                       verdict, rank, layouts, space, chosen->layout,
	                       100 * (chosen->run->measured_s / best->run->measured_s - 1));
}

static lk_status plans_score_group(lk_arena *arena, struct layout_run *group, size_t layouts,
                                   lk_validated *row, lk_score *score, lk_error *err) {
	struct layout_run *best = group, *chosen = group;
	int rank = 1;
	for (size_t i = 0; i < layouts; i++) {
		LK_TRY(lk_run_predict(group[i].run, NULL, &group[i].predicted, NULL, err));
		if (group[i].run->measured_s < best->run->measured_s) best = &group[i];
		if (group[i].predicted < chosen->predicted) chosen = &group[i];
	}
	for (size_t i = 0; i < layouts; i++) rank += group[i].predicted < best->predicted;
	const lk_run *run = best->run;
	row->id = run->id;
	row->where = run->where;
	row->stack = run->stack;
	row->release = run->release;
	row->model = run->model;
	row->gpu = run->gpu;
	row->gpus = run->job.gpus;
	row->layout = best->layout;
	row->precision = lk_dtype_name(run->job.dtype);
	row->predicted = best->predicted;
	row->measured = run->measured_s;
	row->reason = remark(arena, best, chosen, rank, layouts);
	score->stack = run->stack;
	return row->reason ? LK_OK : lk_oom(err);
}

static lk_status score_all(lk_arena *arena, const lk_runs *runs, lk_scoring *out, lk_error *err) {
	struct layout_run *all = NULL;
	size_t count = 0, groups = 0;
	LK_TRY(plans_collect(arena, runs, &all, &count, err));
	for (size_t i = 0, end; i < count; i = end)
		groups += (end = plans_group_end(all, i, count)) - i >= LEAST_LAYOUTS;
	if (groups == 0)
		return lk_fail(err, LK_ERR_INPUT, "validate --plan", "no group of runs has %d layouts",
		               LEAST_LAYOUTS);
	LK_TRY(lk_scoring_rows(arena, groups, out, err));
	lk_score_key *stacks = lk_scoring_divide(arena, out, "stack");
	if (!stacks) return lk_oom(err);
	size_t row = 0;
	for (size_t i = 0, end; i < count; i = end) {
		end = plans_group_end(all, i, count);
		if (end - i < LEAST_LAYOUTS) continue;
		LK_TRY(plans_score_group(arena, &all[i], end - i, &out->rows[row], &out->scores[row], err));
		stacks[row] = (lk_score_key){out->rows[row].stack, 0};
		row++;
	}
	out->unit_of_rows = "group";
	return LK_OK;
}

lk_status lk_score_plans(lk_arena *arena, const lk_validate_request *request, lk_stream *in,
                         lk_scoring *out, lk_error *err) {
	lk_runs runs = {0};
	if (request->cross)
		return lk_fail(err, LK_ERR_INPUT, "--plan",
		               "layouts are ranked with the calibration in use, not cross-validated");
	lk_status status = lk_runs_read(arena, in, &runs, err);
	if (status == LK_OK) status = score_all(arena, &runs, out, err);
	lk_vec_free(&runs);
	return status;
}
