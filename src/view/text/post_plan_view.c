/* post_plan_view.c: layouts of a step of reinforcement learning as text for people and as rows. */
#include <math.h>
#include <string.h>

#include "system/cutoff.h"
#include "base/text.h"
#include "base/noun.h"
#include "lockstep/post_plan.h"
#include "view/table/output.h"
#include "view/table/table.h"
#include "view/text/views.h"

lk_table *lk_post_plan_table(const lk_post_plan *plan, bool people) {
	const lk_column columns[] = {
		{"rank", "", true, false},
		{"step_time_s", "step", true, false},
		{"generation_s", "generation", true, false},
		{"learning_s", "learning", true, false},
		{"moving_s", "refit, offload", true, false},
		{"train_idle_s", "training idle", true, false},
		{"engine_idle_s", "engines idle", true, false},
		{"engine_gpus", "engines' GPUs", true, false},
		{"engine_tp", "tp", true, false},
		{"engine_ep", "ep", true, false},
		{"lag", "lag", true, false},
		{"train_gpus", "training GPUs", true, false},
		{"gpus", "GPUs", true, people},
		{"tp", "tp", true, people},
		{"pp", "pp", true, people},
		{"cp", "cp", true, people},
		{"ep", "ep", true, people},
		{"dp", "dp", true, people},
		{"mbs", "mbs", true, people},
		{"step_time_low_s", "low", true, people},
		{"step_time_high_s", "high", true, people},
		{"peak_bytes", "GiB", true, false},
		{"fits", "fits", false, people},
		{"layout", "layout of the training", false, false},
		{"reproduce", "reproduce", false, people},
	};
	lk_table *table = lk_table_new("post_plan", columns, sizeof columns / sizeof *columns);
	for (int i = 0; table && i < plan->count; i++) {
		const lk_post_choice *choice = &plan->choices[i];
		const double times[] = {choice->step_time_s, choice->generation_s, choice->learning_s,
		                        choice->moving_s,    choice->train_idle_s, choice->engine_idle_s};
		const int numbers[] = {choice->engine_tp,  choice->engine_ep, choice->lag,
		                       choice->train_gpus, choice->gpus,      choice->tp,
		                       choice->pp,         choice->cp,        choice->ep,
		                       choice->dp,         choice->mbs};
		char shown[32], layout[256];
		lk_table_row(table);
		lk_table_number(table, i + 1, NULL);
		for (size_t k = 0; k < sizeof times / sizeof *times; k++)
			lk_table_number(table, times[k],
			                times[k] > 0 ? lk_format_seconds(times[k], shown, sizeof shown) : "");
		lk_table_number(table, choice->engine_gpus, choice->engine_gpus ? NULL : "the same");
		for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++)
			lk_table_number(table, numbers[k], NULL);
		lk_table_number(table, choice->step_time_low_s, NULL);
		lk_table_number(table, choice->step_time_high_s, NULL);
		lk_table_number(table, choice->peak_bytes, lk_gib(choice->peak_bytes, shown, sizeof shown));
		lk_table_bool(table, choice->fits);
		lk_copy(layout, sizeof layout, choice->layout);
		char *engines = people ? strstr(layout, "; ") : NULL;
		if (engines) *engines = '\0';
		lk_table_text(table, layout);
		lk_table_text(table, choice->reproduce);
	}
	return table;
}

struct post_text {
	const lk_post_plan *plan;
	bool verbose;
};

static lk_status write_post_plan(const void *what, bool colour, FILE *out, lk_error *err) {
	const struct post_text *text = what;
	const lk_post_plan *plan = text->plan;
	bool fits = plan->count > 0 && plan->choices[0].fits;
	fprintf(out, "%s\n%s\n\n", plan->model, plan->cluster);
	if (plan->count == 0) fputs("No layout of the training is legal.\n", out);
	else if (!fits) fputs("NOTHING FITS; what is nearest to it:\n", out);
	lk_table *table = lk_post_plan_table(plan, true);
	lk_status status =
		table ? lk_table_write(table, LK_FORMAT_TEXT, colour, out, err) : lk_oom(err);
	lk_table_free(table);
	LK_TRY(status);
	fprintf(out, "\n%d of %d %s of the GPUs searched, %d %s predicted%s%s\n", plan->splits,
	        plan->splits_all, lk_noun(plan->splits_all, "split", "splits"), plan->asked,
	        lk_noun(plan->asked, "step", "steps"), plan->cut_off ? "; cut off by " : "",
	        lk_cutoff_text(plan->cut_off));
	if (text->verbose && plan->count > 0)
		fprintf(out, "\nTo predict number 1\n%s\n", plan->choices[0].reproduce);
	return LK_OK;
}

lk_status lk_post_plan_print(const lk_post_plan *plan, int format, bool verbose, bool colour,
                             const char *path, FILE *out, lk_error *err) {
	lk_writing writing = {format, verbose, colour, path, out};
	struct post_text text = {plan, verbose};
	LK_TRY(lk_writing_check(&writing, err));
	if (format == LK_FORMAT_TEXT) return lk_write_through(&writing, write_post_plan, &text, err);
	return lk_write_table(&writing,
	                      lk_table_mark(lk_post_plan_table(plan, false), plan->failed_check), err);
}
