/* post_plan_view.c: layouts of a step of reinforcement learning as text for people and as rows. */
#include <string.h>

#include "system/cutoff.h"
#include "base/text.h"
#include "base/noun.h"
#include "lockstep/post_plan.h"
#include "view/text/views.h"

#define CHOICE(member) LK_AT(lk_post_choice, member)
#define TIME           .shown = show_time

/* Nothing of a part that the step has not. */
static char *show_time(double seconds, char *out, size_t size) {
	*out = '\0';
	return seconds > 0 ? lk_format_seconds(seconds, out, size) : out;
}

static char *show_engine_gpus(double gpus, char *out, size_t size) {
	if (gpus > 0) return lk_whole(gpus, out, size);
	lk_copy(out, size, "the same");
	return out;
}

/* `context`: whether people read it, who get the training's side alone. */
static void find_layout(const lk_subject *subject, lk_field_value *found) {
	const char *layout = ((const lk_post_choice *)subject->record)->layout;
	const char *engines = strstr(layout, "; ");
	found->text = layout;
	if (!engines || !*(const bool *)subject->context) return;
	snprintf(found->shown, sizeof found->shown, "%.*s", (int)(engines - layout), layout);
	found->text = found->shown;
}

static const lk_answer_field choice_fields[] = {
	{"rank", "", LK_FIELD_INT, .get = lk_find_row_number},
	{"step_time_s", "step", CHOICE(step_time_s), TIME},
	{"generation_s", "generation", CHOICE(generation_s), TIME},
	{"learning_s", "learning", CHOICE(learning_s), TIME},
	{"moving_s", "refit, offload", CHOICE(moving_s), TIME},
	{"train_idle_s", "training idle", CHOICE(train_idle_s), TIME},
	{"engine_idle_s", "engines idle", CHOICE(engine_idle_s), TIME},
	{"engine_gpus", "engines' GPUs", CHOICE(engine_gpus), .shown = show_engine_gpus},
	{"engine_tp", "tp", CHOICE(engine_tp)},
	{"engine_ep", "ep", CHOICE(engine_ep)},
	{"lag", "lag", CHOICE(lag)},
	{"train_gpus", "training GPUs", CHOICE(train_gpus)},
	{"gpus", "GPUs", CHOICE(gpus), .hidden = true},
	{"tp", "tp", CHOICE(tp), .hidden = true},
	{"pp", "pp", CHOICE(pp), .hidden = true},
	{"cp", "cp", CHOICE(cp), .hidden = true},
	{"ep", "ep", CHOICE(ep), .hidden = true},
	{"dp", "dp", CHOICE(dp), .hidden = true},
	{"mbs", "mbs", CHOICE(mbs), .hidden = true},
	{"step_time_low_s", "low", CHOICE(step_time_low_s), .hidden = true},
	{"step_time_high_s", "high", CHOICE(step_time_high_s), .hidden = true},
	{"peak_bytes", "GiB", CHOICE(peak_bytes), .shown = lk_gib},
	{"fits", "fits", CHOICE(fits), .hidden = true},
	{"layout", "layout of the training", LK_FIELD_TEXT, .get = find_layout},
	{"reproduce", "reproduce", CHOICE(reproduce), .hidden = true},
};
static const lk_answer_record choice_record = {LK_RECORD(lk_post_choice, choice_fields)};

lk_table *lk_post_plan_table(const lk_post_plan *plan, bool people) {
	const lk_columns columns = {"post_plan", &choice_record, .all = !people};
	lk_table *table = lk_fields_table(&columns);
	for (int i = 0; i < plan->count; i++)
		lk_fields_row(table, &columns, &(lk_subject){plan, &plan->choices[i], i, &people});
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
	LK_TRY(lk_put_table(lk_post_plan_table(plan, true), colour, out, err));
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
