/* report_post_plan.c: the report of a search for how GPUs generate and train: the best way, where
 * the time of each way goes, and all of them. */
#include <stdio.h>
#include <string.h>

#include "base/noun.h"
#include "base/text.h"
#include "lockstep/post_plan.h"
#include "view/report/report.h"
#include "view/table/table.h"
#include "view/text/views.h"

enum { TEXT = 64, LINE = 512 };

static void post_plan_put_verdict(lk_report *writer, const lk_post_plan *plan) {
	const lk_post_choice *best = plan->count ? plan->choices : NULL;
	char text[TEXT], detail[LINE];
	const char *state = best && best->fits ? "yes" : "no";
	if (best && !best->fits) lk_copy(detail, sizeof detail, "nothing fits; this is nearest to it");
	else
		snprintf(detail, sizeof detail, "the fastest of %d %s predicted", plan->asked,
		         lk_noun(plan->asked, "step", "steps"));
	lk_report_verdict(writer, state, best ? best->layout : "No layout of the training is legal",
	                  detail);
	lk_report_figures(writer);
	if (best) {
		lk_report_figure_of_step(writer, best->step_time_s, best->step_time_low_s,
		                         best->step_time_high_s);
		lk_report_figure(writer, "memory", lk_format_bytes(best->peak_bytes, text, sizeof text),
		                 NULL, "of the side that needs more of its memory");
	}
	lk_json_array_end(writer);
	lk_report_facts(writer);
	lk_report_fact(writer, "model", plan->model);
	lk_report_fact(writer, "cluster", plan->cluster);
	lk_json_array_end(writer);
	lk_report_panel_end(writer);
}

/* Of GPUs that train these are the step: others may generate meanwhile. */
static void post_plan_put_times(lk_report *writer, const lk_post_plan *plan) {
	static const char *const parts[][2] = {{"forward", "generation"},
	                                       {"backward", "learning"},
	                                       {"copy", "refit, offload and reload"},
	                                       {"wait", "waiting for sequences"}};
	enum { PARTS = sizeof parts / sizeof *parts };
	char name[TEXT];
	lk_report_panel(writer, "bars", "Where the step of the GPUs that train goes",
	                "the fastest first; GPUs that train + GPUs that only generate", true);
	lk_json_put_text(writer, "unit", "s");
	lk_json_array(writer, "parts");
	for (int k = 0; k < PARTS; k++) lk_report_part(writer, parts[k][0], parts[k][1]);
	lk_json_array_end(writer);
	lk_json_array(writer, "rows");
	for (int i = 0; i < plan->count; i++) {
		const lk_post_choice *choice = &plan->choices[i];
		const double values[PARTS] = {choice->engine_gpus ? 0 : choice->generation_s,
		                              choice->learning_s, choice->moving_s, choice->train_idle_s};
		snprintf(name, sizeof name, "%d + %d, engine tp %d, lag %d", choice->train_gpus,
		         choice->engine_gpus, choice->engine_tp, choice->lag);
		lk_report_row(writer, name, NULL, values, PARTS);
	}
	lk_json_array_end(writer);
	lk_report_panel_end(writer);
}

static lk_status post_plan_put_panels(const void *answer, lk_report *writer, lk_error *err) {
	const lk_post_plan *plan = answer;
	post_plan_put_verdict(writer, plan);
	if (plan->count) post_plan_put_times(writer, plan);
	lk_table *table = lk_post_plan_table(plan, false);
	if (table) lk_table_hide_empty(table);
	return lk_report_table(writer, "Ways to run the step", NULL, true, table, 0, err);
}

static lk_status post_plan_put_result(const void *answer, bool colour, FILE *out, lk_error *err) {
	return lk_post_plan_print(answer, LK_OUTPUT_JSON, false, colour, NULL, out, err);
}

lk_status lk_report_post_plan(const lk_post_plan *plan, lk_report_form form, const char *path,
                              FILE *out, lk_error *err) {
	const lk_inputs none = {NULL, 0};
	char title[LINE];
	snprintf(title, sizeof title, "Reinforcement learning of %.*s", (int)strcspn(plan->model, ":,"),
	         plan->model);
	const lk_report_job job = {.verb = "plan",
	                           .title = title,
	                           .reproduce = plan->reproduce,
	                           .answer = plan,
	                           .inputs = &none,
	                           .panels = post_plan_put_panels,
	                           .result = post_plan_put_result,
	                           .failed_check = plan->failed_check};
	return lk_report_save(&job, form, path, out, err);
}
