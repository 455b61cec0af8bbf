/* report_plan.c: the report of a search for layouts: the best one, the front of time against
 * GPU-hours with launch lines on a click, where the time of each layout goes, its memory, and what
 * other rates would change. */
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "base/noun.h"
#include "view/report/report.h"
#include "view/table/table.h"
#include "view/text/views.h"

enum { TEXT = 64, LINE = 256, PARTS = 32 };

static const lk_plan_choice *plan_best_of(const lk_plan *plan) {
	LK_ASSERT(plan->best < plan->count);
	return plan->best >= 0 ? plan->counts[plan->best].choices : NULL;
}

/* ---- the verdict ---- */

static void plan_put_verdict(lk_report *writer, const lk_plan *plan) {
	const lk_plan_choice *best = plan_best_of(plan);
	char text[TEXT], detail[LINE];
	double layouts = 0;
	for (int i = 0; i < plan->count; i++) layouts += (double)plan->counts[i].layouts;
	if (best) {
		snprintf(detail, sizeof detail, "the fastest of %s %s, on %d %s",
		         lk_format_thousands(layouts, text, sizeof text),
		         lk_noun(layouts, "layout", "layouts"), best->gpus,
		         lk_noun(best->gpus, "GPU", "GPUs"));
		lk_report_verdict(writer, "yes", best->layout, detail);
	} else {
		lk_copy(detail, sizeof detail,
		        plan->count && plan->counts[0].nothing ? plan->counts[0].nothing
		                                               : "no layout fits");
		lk_report_verdict(writer, "no", "Nothing fits", detail);
	}
	lk_report_figures(writer);
	if (best) {
		lk_report_figure_of_step(writer, best->step_time_s, best->step_time_low_s,
		                         best->step_time_high_s);
		if (best->tokens_per_s_per_gpu > 0)
			lk_report_figure(writer, "tokens/s/GPU",
			                 lk_format_thousands(best->tokens_per_s_per_gpu, text, sizeof text),
			                 NULL, NULL);
		if (best->mfu > 0)
			lk_report_figure(writer, "MFU", lk_percent(best->mfu, text, sizeof text), NULL, NULL);
		lk_report_figure(writer, "memory", lk_format_bytes(best->peak_bytes, text, sizeof text),
		                 NULL, "peak-memory rank");
		if (best->days > 0)
			lk_report_figure(writer, "days of training", lk_days(best->days, text, sizeof text),
			                 NULL, NULL);
		if (best->gpu_hours > 0)
			lk_report_figure(writer, "GPU-hours",
			                 lk_format_thousands(best->gpu_hours, text, sizeof text), NULL, NULL);
	}
	lk_json_array_end(writer);
	lk_report_facts(writer);
	lk_report_fact(writer, "model", plan->model);
	lk_report_fact(writer, "cluster", plan->cluster);
	lk_text batch = lk_text_begin(detail, sizeof detail);
	lk_text_add(&batch, "%d %ss", plan->gbs, plan->unit);
	if (plan->seq) lk_text_add(&batch, " of %d tokens", plan->seq);
	lk_text_add(&batch, " a step");
	lk_report_fact(writer, "batch", detail);
	lk_json_array_end(writer);
	lk_report_panel_end(writer);
}

/* ---- the front ---- */

/* What a choice costs and takes: GPU-hours and days of the training, or of a step. */
static double plan_cost_of(const lk_plan *plan, const lk_plan_choice *choice) {
	return plan->tokens > 0 ? choice->gpu_hours : choice->step_time_s * choice->gpus;
}
static double plan_time_of(const lk_plan *plan, const lk_plan_choice *choice) {
	return plan->tokens > 0 ? choice->days : choice->step_time_s;
}

/* The changes of the file or line that was given, else Megatron-LM's launch line, or where it has
 * none the command that predicts the layout. */
static lk_status launch_of(const lk_plan *plan, const lk_plan_choice *choice, const char **out,
                           lk_error *err) {
	lk_emitted line;
	lk_error refused = {0};
	lk_status status = lk_plan_launch(plan, choice, "edit", &line, &refused);
	if (status == LK_ERR_INPUT) status = lk_plan_launch(plan, choice, "megatron", &line, &refused);
	*out = status == LK_OK ? line.text : choice->reproduce;
	return status == LK_ERR_MEMORY ? lk_oom(err) : LK_OK;
}

static lk_status put_front_series(lk_report *writer, const lk_plan *plan, const char *name,
                                  const char *key, bool front, lk_error *err) {
	char text[LINE], step[TEXT];
	lk_report_series(writer, name, key, false);
	for (int i = 0; i < plan->count; i++)
		for (int k = 0; k < plan->counts[i].choice_count; k++) {
			const lk_plan_choice *choice = &plan->counts[i].choices[k];
			const char *launch;
			if ((choice->pareto && k == 0) != front) continue;
			LK_TRY(launch_of(plan, choice, &launch, err));
			snprintf(text, sizeof text, "%d %s: %.150s, step %s", choice->gpus,
			         lk_noun(choice->gpus, "GPU", "GPUs"), choice->layout,
			         lk_format_seconds(choice->step_time_s, step, sizeof step));
			lk_report_point(writer, plan_cost_of(plan, choice), plan_time_of(plan, choice), text,
			                launch);
		}
	lk_report_series_end(writer);
	return LK_OK;
}

static lk_status plan_put_front(lk_report *writer, const lk_plan *plan, lk_error *err) {
	bool days = plan->tokens > 0;
	lk_report_panel(writer, "scatter",
	                days ? "Time against GPU-hours" : "Step time against GPU-seconds",
	                "on the front nothing is faster for fewer GPU-hours", true);
	lk_report_hint(writer, "a click on a point shows its launch line");
	lk_json_put_text(writer, "role", "pareto");
	lk_report_axis(writer, "x", days ? "GPU-hours of the training" : "GPU-seconds of a step", "",
	               false);
	if (days) lk_report_axis(writer, "y", "time of the training", "days", false);
	else lk_report_axis(writer, "y", "step time", "s", false);
	lk_json_array(writer, "series");
	LK_TRY(put_front_series(writer, plan, "the front", "front", true, err));
	LK_TRY(put_front_series(writer, plan, "other layouts", "other", false, err));
	lk_json_array_end(writer);
	lk_report_panel_end(writer);
	return LK_OK;
}

/* ---- where the time goes ---- */

/* Parts that any choice has, in the order of their first mention. */
static int plan_parts_of(const lk_plan_count *count, const lk_time_part *out[PARTS]) {
	int parts = 0;
	for (int i = 0; i < count->choice_count; i++)
		for (int k = 0; k < count->choices[i].breakdown_count; k++) {
			const lk_time_part *part = &count->choices[i].breakdown[k];
			int known = 0;
			while (known < parts && strcmp(out[known]->key, part->key) != 0) known++;
			if (known == parts && parts < PARTS && part->exposed_s > 0) out[parts++] = part;
		}
	return parts;
}

static void plan_put_times(lk_report *writer, const lk_plan_count *count) {
	const lk_time_part *parts[PARTS];
	int used = plan_parts_of(count, parts);
	char title[TEXT], name[LINE];
	if (!used) return;
	snprintf(title, sizeof title, "Where a step goes on %d %s", count->gpus,
	         lk_noun(count->gpus, "GPU", "GPUs"));
	lk_report_panel(writer, "bars", title,
	                "exposed time, mean over the stages; the fastest layout first", true);
	lk_json_put_text(writer, "unit", "s");
	lk_json_array(writer, "parts");
	for (int k = 0; k < used; k++) lk_report_part(writer, parts[k]->key, parts[k]->label);
	lk_json_array_end(writer);
	lk_json_array(writer, "rows");
	for (int i = 0; i < count->choice_count; i++) {
		const lk_plan_choice *choice = &count->choices[i];
		double values[PARTS] = {0};
		for (int k = 0; k < used; k++)
			for (int b = 0; b < choice->breakdown_count; b++)
				if (strcmp(choice->breakdown[b].key, parts[k]->key) == 0)
					values[k] = choice->breakdown[b].exposed_s;
		snprintf(name, sizeof name, "tp %d pp %d vp %d cp %d ep %d mbs %d", choice->tp, choice->pp,
		         choice->vp, choice->cp, choice->ep, choice->mbs);
		lk_report_row(writer, name, NULL, values, used);
	}
	lk_json_array_end(writer);
	lk_report_panel_end(writer);
}

static void plan_put_tornado(lk_report *writer, const lk_plan_count *count) {
	if (!count->sensitivity_count) return;
	LK_ASSERT(count->choice_count > 0 && count->sensitivity_count % 2 == 0); /* in pairs */
	lk_report_panel(writer, "tornado", "Rates 10 % lower or higher",
	                "what they make of the fastest layout's step", false);
	lk_json_put_number(writer, "base", count->choices[0].step_time_s);
	lk_json_array(writer, "rows");
	for (int i = 0; i + 1 < count->sensitivity_count; i += 2)
		lk_report_swing(writer, count->sensitivity[i].cost, count->sensitivity[i].step_time_s,
		                count->sensitivity[i + 1].step_time_s);
	lk_json_array_end(writer);
	lk_report_panel_end(writer);
}

static lk_status plan_put_search(lk_report *writer, const lk_plan *plan, lk_error *err) {
	static const lk_column columns[] = {
		{"gpus", "GPUs", true, false},
		{"layouts", "layouts", true, false},
		{"too_large", "too large", true, false},
		{"too_slow", "too slow", true, false},
		{"schedules_walked", "schedules evaluated", true, false},
		{"simulated", "simulated", true, false},
		{"cut_short", "until too slow", true, false},
		{"found_too_large", "found too large", true, false},
		{"nothing", "", false, false},
	};
	char text[TEXT];
	lk_table *table = lk_table_new("search", columns, 9);
	for (int i = 0; table && i < plan->count; i++) {
		const lk_plan_count *count = &plan->counts[i];
		const uint64_t numbers[] = {count->layouts,          count->too_large, count->too_slow,
		                            count->schedules_walked, count->simulated, count->cut_short,
		                            count->found_too_large};
		lk_table_row(table);
		lk_table_number(table, count->gpus, NULL);
		for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++)
			lk_table_number(table, (double)numbers[k],
			                lk_format_thousands((double)numbers[k], text, sizeof text));
		lk_table_text(table, count->nothing);
	}
	if (table) lk_table_hide_empty(table);
	return lk_report_table(writer, "The search",
	                       "too large and too slow by their bounds, closer ones once a schedule "
	                       "was evaluated; until too slow: simulated only so far; found too large: "
	                       "with their memory evaluated, so not simulated",
	                       true, table, 0, err);
}

static lk_status plan_put_layouts(lk_report *writer, const lk_plan *plan, lk_error *err) {
	static const char *const keys[] = {"vp",        "cp",       "ep",    "mbs", "zero",
	                                   "recompute", "schedule", "stack", NULL};
	char same[LINE], note[2 * LINE];
	lk_table *table = lk_plan_table(plan);
	if (table) lk_table_hide_empty(table);
	lk_report_same(table, keys, same, sizeof same);
	snprintf(note, sizeof note,
	         "the fastest of each set of degrees; why not: against the first of the same GPUs%s%s",
	         *same ? "; all have " : "", same);
	return lk_report_table(writer, "Layouts", note, true, table, 0, err);
}

static lk_status plan_put_panels(const void *answer, lk_report *writer, lk_error *err) {
	const lk_plan *plan = answer;
	plan_put_verdict(writer, plan);
	if (plan_best_of(plan)) {
		LK_TRY(plan_put_front(writer, plan, err));
		plan_put_times(writer, &plan->counts[plan->best]);
	}
	LK_TRY(plan_put_layouts(writer, plan, err));
	if (plan_best_of(plan)) plan_put_tornado(writer, &plan->counts[plan->best]);
	return plan_put_search(writer, plan, err);
}

static void plan_put_assumptions(const void *answer, lk_report *writer) {
	const lk_plan *plan = answer;
	for (int i = 0; i < plan->note_count; i++) lk_report_text(writer, plan->notes[i]);
}

static void plan_put_warnings(const void *answer, lk_report *writer) {
	const lk_plan *plan = answer;
	if (plan->warning) lk_report_text(writer, plan->warning);
}

static lk_status plan_put_result(const void *answer, bool colour, FILE *out, lk_error *err) {
	return lk_plan_print(answer, LK_OUTPUT_JSON, false, colour, NULL, out, err);
}

lk_status lk_report_plan(const lk_plan *plan, lk_report_form form, const char *path, FILE *out,
                         lk_error *err) {
	char title[LINE];
	snprintf(title, sizeof title, "Layouts for %.*s", (int)strcspn(plan->model, ":,"), plan->model);
	lk_report_job job = {"plan",
	                     title,
	                     plan->reproduce,
	                     plan,
	                     &plan->inputs,
	                     plan_put_panels,
	                     plan_put_assumptions,
	                     plan_put_warnings,
	                     plan_put_result,
	                     NULL,
	                     plan->failed_check};
	return lk_report_save(&job, form, path, out, err);
}
