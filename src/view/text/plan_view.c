/* plan_view.c: plans as text for people, as JSON, and as rows. */
#include <math.h>
#include <string.h>

#include "io/json.h"
#include "base/cutoff.h"
#include "base/text.h"
#include "base/noun.h"
#include "lockstep/catalogue.h"
#include "lockstep/plan.h"
#include "view/table/output.h"
#include "view/table/table.h"
#include "view/text/views.h"

/* ---- text ---- */

static const char *plan_view_seconds(double s, char out[32]) {
	return isfinite(s) ? lk_format_seconds(s, out, 32) : "";
}

/* Columns of energy: of the training, or of a step where nothing says how long that is. */
#define ENERGY_COLUMNS(plan)                                         \
	{"training_kwh", "energy", true, !((plan)->tokens > 0)},         \
		{"step_kwh", "energy of a step", true,                       \
	     (plan)->tokens > 0 || (plan)->objective != LK_PLAN_ENERGY}, \
		{"carbon_kg", "CO2e", true, !((plan)->mains.carbon > 0)}, {  \
		"power_usd", "power", true, !((plan)->mains.price_kwh > 0)   \
	}

static void plan_view_put_energy(lk_table *table, const lk_energy *energy) {
	lk_put_known(table, energy->training_kwh, lk_format_energy);
	lk_put_known(table, energy->step_kwh, lk_format_energy);
	lk_put_known(table, energy->carbon_kg, lk_format_mass);
	lk_put_known(table, energy->power_usd, lk_format_dollars);
}

/* Whether simulating operation by operation gives a choice another time than people are shown. */
static bool plan_view_exact_differs(const lk_plan_count *count) {
	for (int i = 0; i < count->choice_count; i++) {
		const lk_plan_choice *choice = &count->choices[i];
		char a[32], b[32];
		if (isfinite(choice->exact_s) && strcmp(plan_view_seconds(choice->step_time_s, a),
		                                        plan_view_seconds(choice->exact_s, b)) != 0)
			return true;
	}
	return false;
}

static lk_table *choices_table(const lk_plan *plan, const lk_plan_count *count) {
	const bool days = plan->tokens > 0;
	const lk_column columns[] = {
		{"rank", "", true, false},
		{"step_time_s", "step", true, false},
		{"exact_s", "exact", true, !plan_view_exact_differs(count)},
		{"mfu", "MFU", true, false},
		{"days", "days", true, !days},
		{"gpu_hours", "GPU-hours", true, !days},
		ENERGY_COLUMNS(plan),
		{"peak_bytes", "GiB", true, false},
		{"layout", "layout", false, false},
	};
	lk_table *table = lk_table_new("plan", columns, sizeof columns / sizeof *columns);
	for (int i = 0; table && i < count->choice_count; i++) {
		const lk_plan_choice *choice = &count->choices[i];
		char a[32], b[32], m[32], d[32], h[32], g[32];
		lk_table_row(table);
		lk_table_number(table, i + 1, NULL);
		lk_table_number(table, choice->step_time_s, plan_view_seconds(choice->step_time_s, a));
		lk_table_number(table, choice->exact_s, plan_view_seconds(choice->exact_s, b));
		lk_table_number(table, choice->mfu > 0 ? choice->mfu : NAN,
		                lk_percent(choice->mfu, m, sizeof m));
		lk_table_number(table, choice->days, lk_days(choice->days, d, sizeof d));
		lk_table_number(table, choice->gpu_hours,
		                lk_format_thousands(choice->gpu_hours, h, sizeof h));
		plan_view_put_energy(table, &choice->energy);
		lk_table_number(table, choice->peak_bytes, lk_gib(choice->peak_bytes, g, sizeof g));
		lk_table_text(table, choice->layout);
	}
	return table;
}

static lk_status put_why_not(const lk_plan_count *count, FILE *out, lk_error *err) {
	if (count->choice_count > 1) fputs("\nWhy not\n", out);
	for (int i = 1; i < count->choice_count; i++) {
		int indent = fprintf(out, "  %d  ", i + 1);
		LK_TRY(lk_put_wrapped(count->choices[i].why_not, indent, indent, out, err));
		fputc('\n', out);
	}
	return LK_OK;
}

static lk_status put_sensitivity(const lk_plan_count *count, FILE *out, lk_error *err) {
	if (!count->sensitivity_count) return LK_OK;
	double step = count->choices[0].step_time_s;
	fputs("\nIf a rate were 10 % off\n", out);
	for (int i = 0; i + 1 < count->sensitivity_count; i += 2) {
		const lk_plan_sensitivity *low = &count->sensitivity[i], *high = low + 1;
		char a[32], b[32], line[300];
		lk_text text = lk_text_begin(line, sizeof line);
		int indent = fprintf(out, "  %-20s ", low->cost);
		lk_text_add(&text, "10 %% lower %s (%+.1f %%), 10 %% higher %s (%+.1f %%)",
		            plan_view_seconds(low->step_time_s, a), 100 * (low->step_time_s / step - 1),
		            plan_view_seconds(high->step_time_s, b), 100 * (high->step_time_s / step - 1));
		if (!low->best && !high->best) lk_text_add(&text, "; the same choice");
		else
			lk_text_add(&text, "; number %d then, when %s, would be faster",
			            (low->best ? low->best : high->best) + 1, low->best ? "lower" : "higher");
		LK_TRY(lk_put_wrapped(line, indent, indent, out, err));
		fputc('\n', out);
	}
	return LK_OK;
}

static lk_status plan_view_put_search(const lk_plan_count *count, FILE *out, lk_error *err) {
	char n[7][32], line[600];
	lk_text text = lk_text_begin(line, sizeof line);
	lk_text_add(&text,
	            "%s %s: by their bounds %s too large and %s too slow, the schedules of %s "
	            "evaluated; %s simulated, %s until they were too slow, %s found too large",
	            lk_format_thousands((double)count->layouts, n[0], 32),
	            lk_noun((double)count->layouts, "layout", "layouts"),
	            lk_format_thousands((double)count->too_large, n[1], 32),
	            lk_format_thousands((double)count->too_slow, n[2], 32),
	            lk_format_thousands((double)count->schedules_walked, n[3], 32),
	            lk_format_thousands((double)count->simulated, n[4], 32),
	            lk_format_thousands((double)count->cut_short, n[5], 32),
	            lk_format_thousands((double)count->found_too_large, n[6], 32));
	if (count->untried)
		lk_text_add(&text, ", %s not tried", lk_format_thousands((double)count->untried, n[0], 32));
	fputc('\n', out);
	LK_TRY(lk_put_wrapped(line, 2, 0, out, err));
	fputc('\n', out);
	return LK_OK;
}

void lk_put_cut_off(const char *cut_off, FILE *out) {
	if (cut_off)
		fprintf(out, "\nCUT OFF by %s: this is the best found so far\n", lk_cutoff_text(cut_off));
}

lk_status lk_put_above_peak(double share, FILE *out, lk_error *err) {
	if (!(share > 1)) return LK_OK;
	LK_TRY(
		lk_put_wrapped("MFU        above 100 %: convolutions count with all their multiplications, "
	                   "and Winograd's algorithms run fewer",
	                   11, 0, out, err));
	fputc('\n', out);
	return LK_OK;
}

static lk_status plan_view_put_count(const lk_plan *plan, const lk_plan_count *count, bool verbose,
                                     bool colour, FILE *out, lk_error *err) {
	fprintf(out, "\n%s%d GPUs%s\n", colour ? "\x1b[1m" : "", count->gpus, colour ? "\x1b[0m" : "");
	if (count->nothing) {
		LK_TRY(lk_put_wrapped(count->nothing, 2, 0, out, err));
		fputc('\n', out);
	}
	if (count->choice_count) {
		lk_table *table = choices_table(plan, count);
		lk_status status =
			table ? lk_table_write(table, LK_FORMAT_TEXT, colour, out, err) : lk_oom(err);
		lk_table_free(table);
		LK_TRY(status);
		LK_TRY(put_why_not(count, out, err));
		if (count->in_fp8) {
			fputs("\nOther numbers\n  ", out);
			LK_TRY(lk_put_wrapped(count->in_fp8, 2, 2, out, err));
			fputc('\n', out);
		}
		LK_TRY(put_sensitivity(count, out, err));
	}
	if (count->layouts) LK_TRY(plan_view_put_search(count, out, err));
	if (verbose && count->choice_count)
		fprintf(out, "\nTo predict number 1\n%s\n", count->choices[0].reproduce);
	return LK_OK;
}

/* Numbers of GPUs against one another. */
static lk_status plan_view_put_front(const lk_plan *plan, bool colour, FILE *out, lk_error *err) {
	const bool days = plan->tokens > 0;
	const lk_column columns[] = {
		{"gpus", "GPUs", true, false},
		{"step_time_s", "step", true, false},
		{"days", "days", true, !days},
		{"gpu_hours", days ? "GPU-hours" : "GPU-seconds a step", true, false},
		ENERGY_COLUMNS(plan),
		{"front", "", false, false},
	};
	if (plan->count < 2) return LK_OK;
	fputs("\nNumbers of GPUs (* none is faster for fewer GPU-hours)\n", out);
	lk_table *table = lk_table_new("front", columns, sizeof columns / sizeof *columns);
	for (int i = 0; table && i < plan->count; i++) {
		if (!plan->counts[i].choice_count) continue;
		const lk_plan_choice *choice = plan->counts[i].choices;
		char a[32], d[32], h[32];
		double hours = days ? choice->gpu_hours : choice->step_time_s * choice->gpus;
		lk_table_row(table);
		lk_table_number(table, choice->gpus, NULL);
		lk_table_number(table, choice->step_time_s, plan_view_seconds(choice->step_time_s, a));
		lk_table_number(table, choice->days, lk_days(choice->days, d, sizeof d));
		lk_table_number(table, hours, lk_format_thousands(hours, h, sizeof h));
		plan_view_put_energy(table, &choice->energy);
		lk_table_text(table, choice->pareto ? "*" : "");
	}
	lk_status status =
		table ? lk_table_write(table, LK_FORMAT_TEXT, colour, out, err) : lk_oom(err);
	lk_table_free(table);
	return status;
}

/* Sites that synchronise now and then. */
static lk_status plan_view_put_syncs(const lk_plan *plan, bool colour, FILE *out, lk_error *err) {
	const lk_column columns[] = {
		{"bits", "bits", true, false},
		{"every", "every (steps)", true, false},
		{"bytes", "sent by a site", true, false},
		{"sync_s", "on the links", true, false},
		{"stall_s", "stalls", true, false},
		{"utilisation", "computes", true, false},
		{"tokens_per_s", plan->seq ? "tokens/s" : "samples/s", true, false},
	};
	if (!plan->sync_count) return LK_OK;
	fputs("\nSites that train so and synchronise over their links\n", out);
	lk_table *table = lk_table_new("syncs", columns, 7);
	for (int i = 0; table && i < plan->sync_count; i++) {
		const lk_plan_sync *sync = &plan->syncs[i];
		char a[32], b[32], c[32], d[32], e[32];
		snprintf(d, sizeof d, "%.1f %%", 100 * sync->utilisation);
		lk_table_row(table);
		lk_table_number(table, sync->bits, NULL);
		lk_table_number(table, sync->every, NULL);
		lk_table_number(table, sync->bytes, lk_format_bytes(sync->bytes, a, sizeof a));
		lk_table_number(table, sync->sync_s, lk_format_seconds(sync->sync_s, b, sizeof b));
		lk_table_number(table, sync->stall_s, lk_format_seconds(sync->stall_s, c, sizeof c));
		lk_table_number(table, sync->utilisation, d);
		lk_table_number(table, sync->tokens_per_s,
		                lk_format_count(sync->tokens_per_s, e, sizeof e));
	}
	lk_status status =
		table ? lk_table_write(table, LK_FORMAT_TEXT, colour, out, err) : lk_oom(err);
	lk_table_free(table);
	return status;
}

/* Which levels of a tree aggregate how often, and what that costs. */
static lk_status plan_view_put_levels(const lk_plan_tree *tree, bool colour, FILE *out,
                                      lk_error *err) {
	static const lk_column columns[] = {
		{"level", "level", true, false},       {"nodes", "nodes", true, false},
		{"children", "children", true, false}, {"every", "every (steps)", true, false},
		{"rounds", "gossip", true, false},     {"bytes", "bytes a step", true, false},
	};
	lk_table *table = lk_table_new("tree", columns, 6);
	for (int l = 0; table && l < tree->level_count; l++) {
		const lk_plan_tree_level *level = &tree->levels[l];
		char bytes[32];
		lk_table_row(table);
		lk_table_number(table, l, NULL);
		lk_table_number(table, level->nodes, NULL);
		lk_table_number(table, level->children, NULL);
		lk_table_number(table, level->every, NULL);
		lk_table_number(table, level->rounds, NULL);
		lk_table_number(table, level->bytes, lk_format_bytes(level->bytes, bytes, sizeof bytes));
	}
	lk_status status =
		table ? lk_table_write(table, LK_FORMAT_TEXT, colour, out, err) : lk_oom(err);
	lk_table_free(table);
	return status;
}

static lk_status plan_view_put_tree(const lk_plan *plan, bool colour, FILE *out, lk_error *err) {
	enum { NAMES = 12 };
	const lk_plan_tree *tree = plan->tree;
	char a[32], b[32], c[32];
	if (!tree) return LK_OK;
	if (tree->keeps) fputs("\nAggregation over the tree with the least drift\n", out);
	else
		fprintf(out, "\nNo aggregation over the tree keeps to the %s; the fastest\n", tree->misses);
	LK_TRY(plan_view_put_levels(tree, colour, out, err));
	fprintf(out, "  step %s, computing %.1f %%; %s %s; %s sent a step; drift %.3g\n",
	        lk_format_seconds(tree->step_s, a, sizeof a), 100 * tree->utilisation,
	        lk_format_count(tree->tokens_per_s, b, sizeof b), plan->seq ? "tokens/s" : "samples/s",
	        lk_format_bytes(tree->bytes, c, sizeof c), tree->drift);
	if (tree->hours > 0)
		fprintf(out, "  %.4g hours; %s sent in all\n", tree->hours,
		        lk_format_bytes(tree->total_bytes, a, sizeof a));
	char line[1200];
	lk_text text = lk_text_begin(line, sizeof line);
	lk_text_add(&text, "%d clients take part", tree->clients);
	for (int i = 0; i < tree->left_out_count && i < NAMES; i++)
		lk_text_add(&text, "%s%s", i == 0 ? "; left out: " : ", ", tree->left_out[i]);
	if (tree->left_out_count > NAMES)
		lk_text_add(&text, " and %d more", tree->left_out_count - NAMES);
	fputs("  ", out);
	LK_TRY(lk_put_wrapped(line, 4, 2, out, err));
	fputc('\n', out);
	return LK_OK;
}

struct text {
	const lk_plan *plan;
	bool verbose;
	int format;
};

static lk_status plan_view_put_list(const char *heading, const char *const *lines, int count,
                                    FILE *out, lk_error *err) {
	if (count) fprintf(out, "\n%s\n", heading);
	for (int i = 0; i < count; i++) {
		fputs("  - ", out);
		LK_TRY(lk_put_wrapped(lines[i], 4, 4, out, err));
		fputc('\n', out);
	}
	return LK_OK;
}

static lk_status plan_view_put_notes(const lk_plan *plan, bool verbose, FILE *out, lk_error *err) {
	if (verbose) {
		LK_TRY(plan_view_put_list("not searched", plan->not_searched, plan->not_searched_count, out,
		                          err));
		LK_TRY(plan_view_put_list("assumptions", plan->notes, plan->note_count, out, err));
	} else {
		LK_TRY(plan_view_put_list("assumed, as nothing states it", plan->notes, plan->taken_count,
		                          out, err));
		fprintf(out, "\nnot searched  %d   (-v lists them)\n", plan->not_searched_count);
		if (plan->note_count)
			fprintf(out, "assumed       %d   (-v lists them)\n", plan->note_count);
	}
	double mfu = 0;
	for (int i = 0; i < plan->count; i++)
		for (int k = 0; k < plan->counts[i].choice_count; k++)
			mfu = fmax(mfu, plan->counts[i].choices[k].mfu);
	LK_TRY(lk_put_above_peak(mfu, out, err));
	lk_put_cut_off(plan->cut_off, out);
	if (!plan->warning) return LK_OK;
	int indent = fprintf(out, "%-8s ", "warning");
	LK_TRY(lk_put_wrapped(plan->warning, indent, indent, out, err));
	fputc('\n', out);
	return LK_OK;
}

static lk_status plan_view_write_text(const void *what, bool colour, FILE *out, lk_error *err) {
	const struct text *text = what;
	const lk_plan *plan = text->plan;
	char line[2000], of[40] = "";
	if (plan->seq) snprintf(of, sizeof of, " of %d tokens", plan->seq);
	snprintf(line, sizeof line, "%s; batch of %d %ss%s; %s", plan->model, plan->gbs, plan->unit, of,
	         plan->cluster);
	LK_TRY(lk_put_wrapped(line, 2, 0, out, err));
	fputc('\n', out);
	for (int i = 0; i < plan->count; i++)
		LK_TRY(plan_view_put_count(plan, &plan->counts[i], text->verbose, colour, out, err));
	LK_TRY(plan_view_put_front(plan, colour, out, err));
	LK_TRY(plan_view_put_syncs(plan, colour, out, err));
	LK_TRY(plan_view_put_tree(plan, colour, out, err));
	return plan_view_put_notes(plan, text->verbose, out, err);
}

/* ---- JSON ---- */

static void json_degrees(lk_json_writer *writer, const lk_plan_choice *choice) {
	const struct {
		const char *key;
		int value;
	} numbers[] = {{"gpus", choice->gpus}, {"tp", choice->tp},
	               {"pp", choice->pp},     {"vp", choice->vp},
	               {"cp", choice->cp},     {"ep", choice->ep},
	               {"etp", choice->etp},   {"dp", choice->dp},
	               {"mbs", choice->mbs},   {"microbatches", choice->microbatches},
	               {"zero", choice->zero}};
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
		lk_json_put_integer(writer, numbers[i].key, numbers[i].value);
	lk_json_put_text(writer, "schedule", choice->schedule);
	lk_json_put_text(writer, "recompute", choice->recompute);
	lk_json_put_text(writer, "stack", choice->stack);
	lk_json_put_bool(writer, "sequence_parallel", choice->sequence_parallel);
	lk_json_put_bool(writer, "tp_overlap", choice->tp_overlap);
	lk_json_put_bool(writer, "overlap_grad_reduce", choice->overlap_grad_reduce);
	lk_json_put_bool(writer, "overlap_param_gather", choice->overlap_param_gather);
	lk_json_put_bool(writer, "offload", choice->offload);
	lk_json_put_number(writer, "bucket_bytes", choice->bucket_bytes);
}

static void json_choice(lk_json_writer *writer, const lk_plan_choice *choice) {
	lk_json_object(writer, NULL);
	lk_json_put_text(writer, "layout", choice->layout);
	json_degrees(writer, choice);
	lk_json_put_number(writer, "step_time_s", choice->step_time_s);
	lk_json_put_number(writer, "step_time_low_s", choice->step_time_low_s);
	lk_json_put_number(writer, "step_time_high_s", choice->step_time_high_s);
	lk_json_put_known(writer, "exact_s", choice->exact_s);
	lk_json_put_number(writer, "peak_bytes", choice->peak_bytes);
	lk_json_put_number(writer, "usable_bytes", choice->usable_bytes);
	lk_json_put_known(writer, "tokens_per_s_per_gpu", choice->tokens_per_s_per_gpu);
	lk_json_put_known(writer, "mfu", choice->mfu);
	lk_json_put_known(writer, "days", choice->days);
	lk_json_put_known(writer, "gpu_hours", choice->gpu_hours);
	lk_json_put_energy(writer, &choice->energy);
	lk_json_object(writer, "breakdown");
	for (int i = 0; i < choice->breakdown_count; i++)
		lk_json_put_number(writer, choice->breakdown[i].key, choice->breakdown[i].exposed_s);
	lk_json_object_end(writer);
	lk_json_put_bool(writer, "tight", choice->tight);
	lk_json_put_text(writer, "why_not", choice->why_not);
	lk_json_put_text(writer, "reproduce", choice->reproduce);
	lk_json_put_bool(writer, "pareto", choice->pareto);
	lk_json_object_end(writer);
}

static void json_count(lk_json_writer *writer, const lk_plan_count *count) {
	lk_json_object(writer, NULL);
	lk_json_put_integer(writer, "gpus", count->gpus);
	lk_json_put_integer(writer, "layouts", (long long)count->layouts);
	lk_json_put_integer(writer, "bounded", (long long)count->bounded);
	lk_json_put_integer(writer, "too_large", (long long)count->too_large);
	lk_json_put_integer(writer, "too_slow", (long long)count->too_slow);
	lk_json_put_integer(writer, "schedules_walked", (long long)count->schedules_walked);
	lk_json_put_integer(writer, "simulated", (long long)count->simulated);
	lk_json_put_integer(writer, "cut_short", (long long)count->cut_short);
	lk_json_put_integer(writer, "found_too_large", (long long)count->found_too_large);
	lk_json_put_integer(writer, "untried", (long long)count->untried);
	lk_json_put_text(writer, "nothing", count->nothing);
	lk_json_put_text(writer, "in_fp8", count->in_fp8);
	lk_json_array(writer, "choices");
	for (int i = 0; i < count->choice_count; i++) json_choice(writer, &count->choices[i]);
	lk_json_array_end(writer);
	lk_json_array(writer, "sensitivity");
	for (int i = 0; i < count->sensitivity_count; i++) {
		const lk_plan_sensitivity *sensitivity = &count->sensitivity[i];
		lk_json_object(writer, NULL);
		lk_json_put_text(writer, "cost", sensitivity->cost);
		lk_json_put_number(writer, "factor", sensitivity->factor);
		lk_json_put_number(writer, "step_time_s", sensitivity->step_time_s);
		lk_json_put_integer(writer, "best", sensitivity->best);
		lk_json_object_end(writer);
	}
	lk_json_array_end(writer);
	lk_json_object_end(writer);
}

static void json_tree(lk_json_writer *writer, const lk_plan_tree *tree) {
	if (!tree) {
		lk_json_put_null(writer, "tree");
		return;
	}
	lk_json_object(writer, "tree");
	lk_json_put_bool(writer, "keeps", tree->keeps);
	lk_json_put_text(writer, "misses", tree->misses);
	lk_json_put_number(writer, "bits", tree->bits);
	lk_json_put_number(writer, "step_s", tree->step_s);
	lk_json_put_number(writer, "utilisation", tree->utilisation);
	lk_json_put_number(writer, "tokens_per_s", tree->tokens_per_s);
	lk_json_put_number(writer, "bytes", tree->bytes);
	lk_json_put_number(writer, "drift", tree->drift);
	lk_json_put_known(writer, "hours", tree->hours);
	lk_json_put_known(writer, "total_bytes", tree->total_bytes);
	lk_json_put_integer(writer, "clients", tree->clients);
	lk_json_array(writer, "left_out");
	for (int i = 0; i < tree->left_out_count; i++)
		lk_json_put_text(writer, NULL, tree->left_out[i]);
	lk_json_array_end(writer);
	lk_json_array(writer, "levels");
	for (int l = 0; l < tree->level_count; l++) {
		const lk_plan_tree_level *level = &tree->levels[l];
		lk_json_object(writer, NULL);
		lk_json_put_integer(writer, "nodes", level->nodes);
		lk_json_put_integer(writer, "children", level->children);
		lk_json_put_integer(writer, "every", level->every);
		lk_json_put_integer(writer, "rounds", level->rounds);
		lk_json_put_number(writer, "bytes", level->bytes);
		lk_json_object_end(writer);
	}
	lk_json_array_end(writer);
	lk_json_object_end(writer);
}

static lk_status plan_view_write_json(const void *what, bool colour, FILE *out, lk_error *err) {
	const struct text *text = what;
	lk_json_writer w;
	(void)colour;
	lk_json_begin(&w, out, text->format == LK_FORMAT_JSONL);
	lk_json_object(&w, NULL);
	lk_json_put_head(&w, "lockstep/plan/1", text->plan->failed_check);
	lk_json_put_text(&w, "model", text->plan->model);
	lk_json_put_text(&w, "cluster", text->plan->cluster);
	lk_json_put_integer(&w, "gbs", text->plan->gbs);
	lk_json_put_text(&w, "unit", text->plan->unit);
	lk_json_put_known(&w, "seq", text->plan->seq);
	lk_json_put_known(&w, "tokens", text->plan->tokens);
	lk_json_put_text(&w, "reproduce", text->plan->reproduce);
	lk_json_put_text(&w, "warning", text->plan->warning);
	lk_json_put_text(&w, "cut_off", text->plan->cut_off);
	lk_json_array(&w, "assumptions");
	for (int i = 0; i < text->plan->note_count; i++)
		lk_json_put_text(&w, NULL, text->plan->notes[i]);
	lk_json_array_end(&w);
	lk_json_array(&w, "not_searched");
	for (int i = 0; i < text->plan->not_searched_count; i++)
		lk_json_put_text(&w, NULL, text->plan->not_searched[i]);
	lk_json_array_end(&w);
	lk_json_array(&w, "syncs");
	for (int i = 0; i < text->plan->sync_count; i++) {
		const lk_plan_sync *sync = &text->plan->syncs[i];
		lk_json_object(&w, NULL);
		lk_json_put_integer(&w, "bits", sync->bits);
		lk_json_put_number(&w, "every", sync->every);
		lk_json_put_number(&w, "bytes", sync->bytes);
		lk_json_put_number(&w, "sync_s", sync->sync_s);
		lk_json_put_number(&w, "stall_s", sync->stall_s);
		lk_json_put_number(&w, "utilisation", sync->utilisation);
		lk_json_put_number(&w, "tokens_per_s", sync->tokens_per_s);
		lk_json_object_end(&w);
	}
	lk_json_array_end(&w);
	json_tree(&w, text->plan->tree);
	lk_json_array(&w, "counts");
	for (int i = 0; i < text->plan->count; i++) json_count(&w, &text->plan->counts[i]);
	lk_json_array_end(&w);
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
	{"training_kwh", "energy", true, false},
	{"step_kwh", "energy of a step", true, false},
	{"carbon_kg", "CO2e", true, false},
	{"power_usd", "power", true, false},
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
	{"warning", "warning", false, false},
};

static void plan_view_put_row(lk_table *table, const lk_plan *plan, const lk_plan_choice *choice,
                              int rank) {
	char a[32], b[32], m[32], d[32], h[32], g[32];
	lk_table_row(table);
	lk_table_number(table, choice->gpus, NULL);
	lk_table_number(table, rank, NULL);
	lk_table_number(table, choice->step_time_s, plan_view_seconds(choice->step_time_s, a));
	lk_table_number(table, choice->exact_s, plan_view_seconds(choice->exact_s, b));
	lk_table_number(table, choice->mfu > 0 ? choice->mfu : NAN,
	                lk_percent(choice->mfu, m, sizeof m));
	lk_table_number(table, choice->days > 0 ? choice->days : NAN,
	                lk_days(choice->days, d, sizeof d));
	lk_table_number(table, choice->gpu_hours > 0 ? choice->gpu_hours : NAN,
	                lk_format_thousands(choice->gpu_hours, h, sizeof h));
	plan_view_put_energy(table, &choice->energy);
	lk_table_number(table, choice->peak_bytes, lk_gib(choice->peak_bytes, g, sizeof g));
	const int numbers[] = {choice->tp, choice->pp, choice->vp,  choice->cp,
	                       choice->ep, choice->dp, choice->mbs, choice->zero};
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
		lk_table_number(table, numbers[i], NULL);
	lk_table_text(table, choice->recompute);
	lk_table_text(table, choice->schedule);
	lk_table_text(table, choice->stack);
	lk_table_text(table, choice->layout);
	lk_table_text(table, choice->why_not);
	lk_table_text(table, plan->warning);
}

lk_table *lk_plan_table(const lk_plan *plan) {
	lk_table *table = lk_table_new("plans", row_columns, sizeof row_columns / sizeof *row_columns);
	for (int i = 0; table && i < plan->count; i++)
		for (int k = 0; k < plan->counts[i].choice_count; k++)
			plan_view_put_row(table, plan, &plan->counts[i].choices[k], k + 1);
	return table;
}

lk_status lk_plan_print(const lk_plan *plan, int format, bool verbose, bool colour,
                        const char *path, FILE *out, lk_error *err) {
	lk_writing w = {format, verbose, colour, path, out};
	struct text t = {plan, verbose, format};
	LK_TRY(lk_writing_check(&w, err));
	if (format == LK_FORMAT_TEXT) return lk_write_through(&w, plan_view_write_text, &t, err);
	if (format == LK_FORMAT_JSON || format == LK_FORMAT_JSONL)
		return lk_write_through(&w, plan_view_write_json, &t, err);
	return lk_write_table(&w, lk_plan_table(plan), err);
}
