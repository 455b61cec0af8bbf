/* plan_view.c: plans as text for people, as JSON, and as rows. */
#include <math.h>
#include <string.h>

#include "io/json.h"
#include "base/text.h"
#include "lockstep/catalogue.h"
#include "lockstep/plan.h"
#include "view/table/output.h"
#include "view/table/table.h"

/* ---- text ---- */

static const char *seconds(double s, char out[32]) {
	return isfinite(s) ? lk_format_seconds(s, out, 32) : "";
}

static lk_table *choices_table(const lk_plan *plan, const lk_plan_count *count) {
	const bool days = plan->tokens > 0;
	const lk_column columns[] = {
		{"rank", "", true, false},          {"step_time_s", "step", true, false},
		{"exact_s", "exact", true, false},  {"mfu", "MFU", true, false},
		{"days", "days", true, !days},      {"gpu_hours", "GPU-hours", true, !days},
		{"peak_bytes", "GiB", true, false}, {"layout", "layout", false, false},
	};
	lk_table *t = lk_table_new("plan", columns, sizeof columns / sizeof *columns);
	for (int i = 0; t && i < count->choice_count; i++) {
		const lk_plan_choice *c = &count->choices[i];
		char a[32], b[32], m[32], d[32], h[32], g[32];
		lk_table_row(t);
		lk_table_number(t, i + 1, NULL);
		lk_table_number(t, c->step_time_s, seconds(c->step_time_s, a));
		lk_table_number(t, c->exact_s, seconds(c->exact_s, b));
		lk_table_number(t, c->mfu > 0 ? c->mfu : NAN, lk_percent(c->mfu, m, sizeof m));
		lk_table_number(t, c->days, lk_fixed(c->days, c->days < 10 ? 2 : 1, d, sizeof d));
		lk_table_number(t, c->gpu_hours, lk_format_count(c->gpu_hours, h, sizeof h));
		lk_table_number(t, c->peak_bytes, lk_gib(c->peak_bytes, g, sizeof g));
		lk_table_text(t, c->layout);
	}
	return t;
}

static lk_status put_why_not(const lk_plan_count *count, FILE *out, lk_error *err) {
	if (count->choice_count > 1) fputs("\nWhy not\n", out);
	for (int i = 1; i < count->choice_count; i++) {
		fprintf(out, "  %d  ", i + 1);
		LK_TRY(lk_put_safe(count->choices[i].why_not, out, err));
		fputc('\n', out);
	}
	return LK_OK;
}

static void put_sensitivity(const lk_plan_count *count, FILE *out) {
	if (!count->sensitivity_count) return;
	double step = count->choices[0].step_time_s;
	fputs("\nIf a rate were 10 % off\n", out);
	for (int i = 0; i + 1 < count->sensitivity_count; i += 2) {
		const lk_plan_sensitivity *low = &count->sensitivity[i], *high = low + 1;
		char a[32], b[32];
		fprintf(out, "  %-20s 10 %% lower %s (%+.1f %%), 10 %% higher %s (%+.1f %%)", low->cost,
				seconds(low->step_time_s, a), 100 * (low->step_time_s / step - 1), seconds(high->step_time_s, b),
				100 * (high->step_time_s / step - 1));
		if (!low->best && !high->best)
			fputs("; the same choice\n", out);
		else
			fprintf(out, "; number %d %s would be faster\n", (low->best ? low->best : high->best) + 1,
					low->best ? "then, when lower," : "then, when higher,");
	}
}

static void put_search(const lk_plan_count *count, FILE *out) {
	char n[7][32];
	fprintf(
		out,
		"\n%s layouts: by their bounds %s too large and %s too slow, the schedules of %s walked; %s simulated, %s until they were too "
		"slow, %s found too large\n",
		lk_format_thousands((double)count->layouts, n[0], 32), lk_format_thousands((double)count->too_large, n[1], 32),
		lk_format_thousands((double)count->too_slow, n[2], 32), lk_format_thousands((double)count->schedules_walked, n[3], 32),
		lk_format_thousands((double)count->simulated, n[4], 32), lk_format_thousands((double)count->cut_short, n[5], 32),
		lk_format_thousands((double)count->found_too_large, n[6], 32));
}

static lk_status put_count(const lk_plan *plan, const lk_plan_count *count, bool verbose, bool colour, FILE *out,
						   lk_error *err) {
	fprintf(out, "\n%s%d GPUs%s\n", colour ? "\x1b[1m" : "", count->gpus, colour ? "\x1b[0m" : "");
	if (count->nothing) {
		LK_TRY(lk_put_safe(count->nothing, out, err));
		fputc('\n', out);
	}
	if (count->choice_count) {
		lk_table *table = choices_table(plan, count);
		lk_status status = table ? lk_table_write(table, LK_FORMAT_TEXT, colour, out, err) : lk_oom(err);
		lk_table_free(table);
		LK_TRY(status);
		LK_TRY(put_why_not(count, out, err));
		put_sensitivity(count, out);
	}
	if (count->layouts) put_search(count, out);
	if (verbose && count->choice_count) fprintf(out, "\nTo predict number 1\n%s\n", count->choices[0].reproduce);
	return LK_OK;
}

/* Numbers of GPUs against one another. */
static lk_status put_front(const lk_plan *plan, bool colour, FILE *out, lk_error *err) {
	const bool days = plan->tokens > 0;
	const lk_column columns[] = {
		{"gpus", "GPUs", true, false}, {"step_time_s", "step", true, false},
		{"days", "days", true, !days}, {"gpu_hours", days ? "GPU-hours" : "GPU-seconds a step", true, false},
		{"front", "", false, false},
	};
	if (plan->count < 2) return LK_OK;
	fputs("\nNumbers of GPUs (* none is faster for fewer GPU-hours)\n", out);
	lk_table *t = lk_table_new("front", columns, 5);
	for (int i = 0; t && i < plan->count; i++) {
		if (!plan->counts[i].choice_count) continue;
		const lk_plan_choice *c = plan->counts[i].choices;
		char a[32], d[32], h[32];
		double hours = days ? c->gpu_hours : c->step_time_s * c->gpus;
		lk_table_row(t);
		lk_table_number(t, c->gpus, NULL);
		lk_table_number(t, c->step_time_s, seconds(c->step_time_s, a));
		lk_table_number(t, c->days, lk_fixed(c->days, c->days < 10 ? 2 : 1, d, sizeof d));
		lk_table_number(t, hours, lk_format_count(hours, h, sizeof h));
		lk_table_text(t, c->pareto ? "*" : "");
	}
	lk_status status = t ? lk_table_write(t, LK_FORMAT_TEXT, colour, out, err) : lk_oom(err);
	lk_table_free(t);
	return status;
}

struct text {
	const lk_plan *plan;
	bool verbose;
	int format;
};

static lk_status write_text(const void *what, bool colour, FILE *out, lk_error *err) {
	const struct text *t = what;
	const lk_plan *plan = t->plan;
	LK_TRY(lk_put_safe(plan->model, out, err));
	fprintf(out, "; batch %d", plan->gbs);
	if (plan->seq) fprintf(out, " of %d tokens", plan->seq);
	fputs("; ", out);
	LK_TRY(lk_put_safe(plan->cluster, out, err));
	fputc('\n', out);
	for (int i = 0; i < plan->count; i++) LK_TRY(put_count(plan, &plan->counts[i], t->verbose, colour, out, err));
	return put_front(plan, colour, out, err);
}

/* ---- JSON ---- */

static void json_known(lk_json_writer *w, const char *key, double number) {
	if (isfinite(number) && number != 0)
		lk_json_put_number(w, key, number);
	else
		lk_json_put_null(w, key);
}

static void json_degrees(lk_json_writer *w, const lk_plan_choice *c) {
	const struct {
		const char *key;
		int value;
	} numbers[] = {
		{"gpus", c->gpus}, {"tp", c->tp},   {"pp", c->pp}, {"vp", c->vp},   {"cp", c->cp},
		{"ep", c->ep},     {"etp", c->etp}, {"dp", c->dp}, {"mbs", c->mbs}, {"microbatches", c->microbatches},
		{"zero", c->zero}};
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
		lk_json_put_integer(w, numbers[i].key, numbers[i].value);
	lk_json_put_text(w, "schedule", c->schedule);
	lk_json_put_text(w, "recompute", c->recompute);
	lk_json_put_text(w, "stack", c->stack);
	lk_json_put_bool(w, "sequence_parallel", c->sequence_parallel);
	lk_json_put_bool(w, "tp_overlap", c->tp_overlap);
	lk_json_put_bool(w, "overlap_grad_reduce", c->overlap_grad_reduce);
	lk_json_put_bool(w, "overlap_param_gather", c->overlap_param_gather);
	lk_json_put_bool(w, "offload", c->offload);
	lk_json_put_number(w, "bucket_bytes", c->bucket_bytes);
}

static void json_choice(lk_json_writer *w, const lk_plan_choice *c) {
	lk_json_object(w, NULL);
	lk_json_put_text(w, "layout", c->layout);
	json_degrees(w, c);
	lk_json_put_number(w, "step_time_s", c->step_time_s);
	lk_json_put_number(w, "step_time_low_s", c->step_time_low_s);
	lk_json_put_number(w, "step_time_high_s", c->step_time_high_s);
	json_known(w, "exact_s", c->exact_s);
	lk_json_put_number(w, "peak_bytes", c->peak_bytes);
	lk_json_put_number(w, "usable_bytes", c->usable_bytes);
	json_known(w, "tokens_per_s_per_gpu", c->tokens_per_s_per_gpu);
	json_known(w, "mfu", c->mfu);
	json_known(w, "days", c->days);
	json_known(w, "gpu_hours", c->gpu_hours);
	lk_json_object(w, "breakdown");
	for (int i = 0; i < c->breakdown_count; i++) lk_json_put_number(w, c->breakdown[i].key, c->breakdown[i].exposed_s);
	lk_json_object_end(w);
	lk_json_put_text(w, "why_not", c->why_not);
	lk_json_put_text(w, "reproduce", c->reproduce);
	lk_json_put_bool(w, "pareto", c->pareto);
	lk_json_object_end(w);
}

static void json_count(lk_json_writer *w, const lk_plan_count *count) {
	lk_json_object(w, NULL);
	lk_json_put_integer(w, "gpus", count->gpus);
	lk_json_put_integer(w, "layouts", (long long)count->layouts);
	lk_json_put_integer(w, "bounded", (long long)count->bounded);
	lk_json_put_integer(w, "too_large", (long long)count->too_large);
	lk_json_put_integer(w, "too_slow", (long long)count->too_slow);
	lk_json_put_integer(w, "schedules_walked", (long long)count->schedules_walked);
	lk_json_put_integer(w, "simulated", (long long)count->simulated);
	lk_json_put_integer(w, "cut_short", (long long)count->cut_short);
	lk_json_put_integer(w, "found_too_large", (long long)count->found_too_large);
	lk_json_put_text(w, "nothing", count->nothing);
	lk_json_array(w, "choices");
	for (int i = 0; i < count->choice_count; i++) json_choice(w, &count->choices[i]);
	lk_json_array_end(w);
	lk_json_array(w, "sensitivity");
	for (int i = 0; i < count->sensitivity_count; i++) {
		const lk_plan_sensitivity *s = &count->sensitivity[i];
		lk_json_object(w, NULL);
		lk_json_put_text(w, "cost", s->cost);
		lk_json_put_number(w, "factor", s->factor);
		lk_json_put_number(w, "step_time_s", s->step_time_s);
		lk_json_put_integer(w, "best", s->best);
		lk_json_object_end(w);
	}
	lk_json_array_end(w);
	lk_json_object_end(w);
}

static lk_status write_json(const void *what, bool colour, FILE *out, lk_error *err) {
	const struct text *t = what;
	lk_json_writer w;
	(void)colour;
	lk_json_begin(&w, out, t->format == LK_FORMAT_JSONL);
	lk_json_object(&w, NULL);
	lk_json_put_text(&w, "model", t->plan->model);
	lk_json_put_text(&w, "cluster", t->plan->cluster);
	lk_json_put_integer(&w, "gbs", t->plan->gbs);
	lk_json_put_integer(&w, "seq", t->plan->seq);
	json_known(&w, "tokens", t->plan->tokens);
	lk_json_put_text(&w, "reproduce", t->plan->reproduce);
	lk_json_array(&w, "counts");
	for (int i = 0; i < t->plan->count; i++) json_count(&w, &t->plan->counts[i]);
	lk_json_array_end(&w);
	lk_json_put_text(&w, "version", lk_version());
	lk_json_object_end(&w);
	return lk_json_finish(&w, err);
}

/* ---- rows ---- */

static const lk_column row_columns[] = {
	{"gpus", "GPUs", true, false},
	{"rank", "rank", true, false},
	{"step_time_s", "step", true, false},
	{"exact_s", "exact", true, false},
	{"mfu", "MFU", true, false},
	{"days", "days", true, false},
	{"gpu_hours", "GPU-hours", true, false},
	{"peak_bytes", "GiB", true, false},
	{"tp", "tp", true, false},
	{"pp", "pp", true, false},
	{"vp", "vp", true, false},
	{"cp", "cp", true, false},
	{"ep", "ep", true, false},
	{"dp", "dp", true, false},
	{"mbs", "mbs", true, false},
	{"zero", "zero", true, false},
	{"recompute", "recompute", false, false},
	{"schedule", "schedule", false, false},
	{"stack", "stack", false, false},
	{"layout", "layout", false, false},
	{"why_not", "why not", false, false},
};

static void put_row(lk_table *t, const lk_plan_choice *c, int rank) {
	char a[32], b[32], m[32], d[32], h[32], g[32];
	lk_table_row(t);
	lk_table_number(t, c->gpus, NULL);
	lk_table_number(t, rank, NULL);
	lk_table_number(t, c->step_time_s, seconds(c->step_time_s, a));
	lk_table_number(t, c->exact_s, seconds(c->exact_s, b));
	lk_table_number(t, c->mfu > 0 ? c->mfu : NAN, lk_percent(c->mfu, m, sizeof m));
	lk_table_number(t, c->days > 0 ? c->days : NAN, lk_fixed(c->days, 2, d, sizeof d));
	lk_table_number(t, c->gpu_hours > 0 ? c->gpu_hours : NAN, lk_format_count(c->gpu_hours, h, sizeof h));
	lk_table_number(t, c->peak_bytes, lk_gib(c->peak_bytes, g, sizeof g));
	const int numbers[] = {c->tp, c->pp, c->vp, c->cp, c->ep, c->dp, c->mbs, c->zero};
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) lk_table_number(t, numbers[i], NULL);
	lk_table_text(t, c->recompute);
	lk_table_text(t, c->schedule);
	lk_table_text(t, c->stack);
	lk_table_text(t, c->layout);
	lk_table_text(t, c->why_not);
}

lk_table *lk_plan_table(const lk_plan *plan) {
	lk_table *t = lk_table_new("plans", row_columns, sizeof row_columns / sizeof *row_columns);
	for (int i = 0; t && i < plan->count; i++)
		for (int k = 0; k < plan->counts[i].choice_count; k++) put_row(t, &plan->counts[i].choices[k], k + 1);
	return t;
}

lk_status lk_plan_print(const lk_plan *plan, int format, bool verbose, bool colour, const char *path, FILE *out,
						lk_error *err) {
	lk_writing w = {format, verbose, colour, path, out};
	struct text t = {plan, verbose, format};
	LK_TRY(lk_writing_check(&w, err));
	if (format == LK_FORMAT_TEXT) return lk_write_through(&w, write_text, &t, err);
	if (format == LK_FORMAT_JSON || format == LK_FORMAT_JSONL) return lk_write_through(&w, write_json, &t, err);
	return lk_write_table(&w, lk_plan_table(plan), err);
}
