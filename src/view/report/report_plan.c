/* report_plan.c: the report of a search for layouts: the best one, the front of time against GPU-hours with launch lines on a
 * click, where the time of each layout goes, its memory, and what other rates would change. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "view/report/report.h"
#include "view/table/table.h"

enum { TEXT = 64, LINE = 256, PARTS = 32 };

static const lk_plan_choice *best_of(const lk_plan *p) { return p->best >= 0 ? p->counts[p->best].choices : NULL; }

/* ---- the verdict ---- */

static void put_verdict(lk_report *r, const lk_plan *p) {
	const lk_plan_choice *best = best_of(p);
	char text[TEXT], low[TEXT], high[TEXT], detail[LINE], range[LINE];
	double layouts = 0;
	for (int i = 0; i < p->count; i++) layouts += (double)p->counts[i].layouts;
	if (best) snprintf(detail, sizeof detail, "the fastest of %s layouts, on %d GPUs", lk_format_thousands(layouts, text, sizeof text), best->gpus);
	else lk_copy(detail, sizeof detail, p->count && p->counts[0].nothing ? p->counts[0].nothing : "no layout fits");
	lk_report_verdict(r, best ? "yes" : "no", best ? best->layout : "Nothing fits", detail);
	lk_report_figures(r);
	if (best) {
		snprintf(range, sizeof range, "%s \xe2\x80\x93 %s", lk_format_seconds(best->step_time_low_s, low, sizeof low),
		         lk_format_seconds(best->step_time_high_s, high, sizeof high));
		lk_report_figure(r, "step time", lk_format_seconds(best->step_time_s, text, sizeof text), range, "80 % range");
		if (best->tokens_per_s_per_gpu > 0)
			lk_report_figure(r, "tokens/s/GPU", lk_format_thousands(best->tokens_per_s_per_gpu, text, sizeof text), NULL, NULL);
		if (best->mfu > 0) lk_report_figure(r, "MFU", lk_percent(best->mfu, text, sizeof text), NULL, NULL);
		lk_report_figure(r, "memory", lk_format_bytes(best->peak_bytes, text, sizeof text), NULL, "fullest rank");
		if (best->days > 0) lk_report_figure(r, "days of training", lk_fixed(best->days, 1, text, sizeof text), NULL, NULL);
		if (best->gpu_hours > 0) lk_report_figure(r, "GPU-hours", lk_format_count(best->gpu_hours, text, sizeof text), NULL, NULL);
	}
	lk_json_array_end(r);
	lk_report_facts(r);
	lk_report_fact(r, "model", p->model);
	lk_report_fact(r, "cluster", p->cluster);
	snprintf(detail, sizeof detail, "%d sequences of %d tokens a step", p->gbs, p->seq);
	lk_report_fact(r, "batch", detail);
	lk_json_array_end(r);
	lk_report_panel_end(r);
}

/* ---- the front ---- */

/* What a choice costs and takes: GPU-hours and days of the training, or of a step. */
static double cost_of(const lk_plan *p, const lk_plan_choice *c) { return p->tokens > 0 ? c->gpu_hours : c->step_time_s * c->gpus; }
static double time_of(const lk_plan *p, const lk_plan_choice *c) { return p->tokens > 0 ? c->days : c->step_time_s; }

/* Megatron-LM's launch line, or the command that predicts it. */
static const char *launch_of(const lk_plan *p, const lk_plan_choice *c) {
	const char *line;
	lk_error err = {0};
	return lk_plan_launch(p, c, LK_EMIT_MEGATRON, &line, &err) == LK_OK ? line : c->reproduce;
}

static void put_front_series(lk_report *r, const lk_plan *p, const char *name, const char *key, bool front) {
	char text[LINE], step[TEXT];
	lk_report_series(r, name, key, false);
	for (int i = 0; i < p->count; i++)
		for (int k = 0; k < p->counts[i].choice_count; k++) {
			const lk_plan_choice *c = &p->counts[i].choices[k];
			if ((c->pareto && k == 0) != front) continue;
			snprintf(text, sizeof text, "%d GPUs: %.150s, step %s", c->gpus, c->layout, lk_format_seconds(c->step_time_s, step, sizeof step));
			lk_report_point(r, cost_of(p, c), time_of(p, c), text, launch_of(p, c));
		}
	lk_report_series_end(r);
}

static void put_front(lk_report *r, const lk_plan *p) {
	bool days = p->tokens > 0;
	lk_report_panel(r, "scatter", days ? "Time against GPU-hours" : "Step time against GPU-seconds",
	                "click a point for its launch line; on the front nothing is faster for fewer GPU-hours", true);
	lk_json_put_text(r, "role", "pareto");
	lk_report_axis(r, "x", days ? "GPU-hours of the training" : "GPU-seconds of a step", "", false);
	lk_report_axis(r, "y", days ? "time of the training" : "step time", days ? "days" : "s", false);
	lk_json_array(r, "series");
	put_front_series(r, p, "the front", "front", true);
	put_front_series(r, p, "other layouts", "other", false);
	lk_json_array_end(r);
	lk_report_panel_end(r);
}

/* ---- where the time goes ---- */

/* Parts that any choice has, in the order of their first mention. */
static int parts_of(const lk_plan_count *count, const lk_time_part *out[PARTS]) {
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

static void put_times(lk_report *r, const lk_plan_count *count) {
	const lk_time_part *parts[PARTS];
	int used = parts_of(count, parts);
	char title[TEXT], name[LINE];
	if (!used) return;
	snprintf(title, sizeof title, "Where a step goes on %d GPUs", count->gpus);
	lk_report_panel(r, "bars", title, "exposed time, mean over the stages; the fastest layout first", true);
	lk_json_put_text(r, "unit", "s");
	lk_json_array(r, "parts");
	for (int k = 0; k < used; k++) lk_report_part(r, parts[k]->key, parts[k]->label);
	lk_json_array_end(r);
	lk_json_array(r, "rows");
	for (int i = 0; i < count->choice_count; i++) {
		const lk_plan_choice *c = &count->choices[i];
		double values[PARTS] = {0};
		for (int k = 0; k < used; k++)
			for (int b = 0; b < c->breakdown_count; b++)
				if (strcmp(c->breakdown[b].key, parts[k]->key) == 0) values[k] = c->breakdown[b].exposed_s;
		snprintf(name, sizeof name, "tp %d pp %d vp %d cp %d ep %d mbs %d", c->tp, c->pp, c->vp, c->cp, c->ep, c->mbs);
		lk_report_row(r, name, NULL, values, used);
	}
	lk_json_array_end(r);
	lk_report_panel_end(r);
}

static void put_tornado(lk_report *r, const lk_plan_count *count) {
	if (!count->sensitivity_count) return;
	lk_report_panel(r, "tornado", "Rates 10 % lower or higher", "what they make of the fastest layout's step", false);
	lk_json_put_number(r, "base", count->choices[0].step_time_s);
	lk_json_array(r, "rows");
	for (int i = 0; i + 1 < count->sensitivity_count; i += 2)
		lk_report_swing(r, count->sensitivity[i].cost, count->sensitivity[i].step_time_s, count->sensitivity[i + 1].step_time_s);
	lk_json_array_end(r);
	lk_report_panel_end(r);
}

static lk_status put_search(lk_report *r, const lk_plan *p, lk_error *err) {
	static const lk_column columns[] = {
		{"gpus", "GPUs", true, false}, {"layouts", "layouts", true, false}, {"too_large", "too large", true, false},
		{"too_slow", "too slow", true, false}, {"schedules_walked", "schedules walked", true, false}, {"simulated", "simulated", true, false},
		{"cut_short", "until too slow", true, false}, {"found_too_large", "found too large", true, false}, {"nothing", "", false, false},
	};
	char text[TEXT];
	lk_table *t = lk_table_new("search", columns, 9);
	for (int i = 0; t && i < p->count; i++) {
		const lk_plan_count *c = &p->counts[i];
		const uint64_t numbers[] = {c->layouts, c->too_large, c->too_slow, c->schedules_walked, c->simulated, c->cut_short, c->found_too_large};
		lk_table_row(t);
		lk_table_number(t, c->gpus, NULL);
		for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++)
			lk_table_number(t, (double)numbers[k], lk_format_thousands((double)numbers[k], text, sizeof text));
		lk_table_text(t, c->nothing);
	}
	if (t) lk_table_hide_empty(t);
	return lk_report_table(r, "The search", "too large and too slow by their bounds, closer ones once a schedule was walked; until too slow: simulated only so far; found too large: "
	                       "with their memory walked, so not simulated", true, t, 0, err);
}

static lk_status put_layouts(lk_report *r, const lk_plan *p, lk_error *err) {
	static const char *const keys[] = {"vp", "cp", "ep", "mbs", "zero", "recompute", "schedule", "stack", NULL};
	char same[LINE], note[2 * LINE];
	lk_table *t = lk_plan_table(p);
	if (t) lk_table_hide_empty(t);
	lk_report_same(t, keys, same, sizeof same);
	snprintf(note, sizeof note, "the fastest of each set of degrees; why not: against the first of the same GPUs%s%s", *same ? "; all have " : "", same);
	return lk_report_table(r, "Layouts", note, true, t, 0, err);
}

static lk_status put_panels(const void *answer, lk_report *r, lk_error *err) {
	const lk_plan *p = answer;
	put_verdict(r, p);
	if (best_of(p)) {
		put_front(r, p);
		put_times(r, &p->counts[p->best]);
	}
	LK_TRY(put_layouts(r, p, err));
	if (best_of(p)) put_tornado(r, &p->counts[p->best]);
	return put_search(r, p, err);
}

static void put_assumptions(const void *answer, lk_report *r) {
	const lk_plan *p = answer;
	for (int i = 0; i < p->note_count; i++) lk_report_text(r, p->notes[i]);
}

static lk_status put_result(const void *answer, bool colour, FILE *out, lk_error *err) {
	return lk_plan_print(answer, LK_OUTPUT_JSON, false, colour, NULL, out, err);
}

lk_status lk_report_plan(const lk_plan *plan, lk_report_form form, const char *path, FILE *out, lk_error *err) {
	char title[LINE];
	snprintf(title, sizeof title, "Layouts for %.*s", (int)strcspn(plan->model, ":,"), plan->model);
	lk_report_job job = {"plan", title, plan->reproduce, plan, &plan->inputs, put_panels, put_assumptions, NULL, put_result, NULL};
	return lk_report_save(&job, form, path, out, err);
}
