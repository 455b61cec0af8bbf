/* plan_view.c: the fields of plans, and plans as text for people. */
#include <math.h>
#include <string.h>

#include "base/check.h"
#include "system/cutoff.h"
#include "base/text.h"
#include "base/noun.h"
#include "lockstep/plan.h"
#include "view/table/fields.h"
#include "view/text/views.h"

/* ---- fields ---- */

#define CHOICE(member) LK_AT(lk_plan_choice, member)
#define COUNT(member)  LK_AT(lk_plan_count, member)
#define SYNC(member)   LK_AT(lk_plan_sync, member)
#define TREE(member)   LK_AT(lk_plan_tree, member)
#define LEVEL(member)  LK_AT(lk_plan_tree_level, member)

static void find_gpu_seconds(const lk_subject *subject, lk_field_value *found) {
	const lk_plan_choice *choice = subject->record;
	found->number = choice->step_time_s * choice->gpus;
}

static void find_front(const lk_subject *subject, lk_field_value *found) {
	found->text = ((const lk_plan_choice *)subject->record)->pareto ? "*" : "";
}

static void plan_view_find_warning(const lk_subject *subject, lk_field_value *found) {
	found->text = ((const lk_plan *)subject->answer)->warning;
}

static const lk_answer_field exposed_fields[] = {{LK_AT(lk_time_part, exposed_s)}};
static const lk_answer_record exposed_record = {LK_RECORD(lk_time_part, exposed_fields)};

static const lk_answer_field choice_fields[] = {
	{"rank", "rank", LK_FIELD_INT, .get = lk_find_row_number, .column = true},
	{"layout", "layout", CHOICE(layout)},
	{"gpus", "GPUs", CHOICE(gpus)},
	{"tp", "tp", CHOICE(tp)},
	{"pp", "pp", CHOICE(pp)},
	{"vp", "vp", CHOICE(vp)},
	{"cp", "cp", CHOICE(cp)},
	{"ep", "ep", CHOICE(ep)},
	{"etp", "etp", CHOICE(etp)},
	{"dp", "dp", CHOICE(dp)},
	{"mbs", "mbs", CHOICE(mbs)},
	{"microbatches", "micro-batches", CHOICE(microbatches)},
	{"zero", "zero", CHOICE(zero)},
	{"schedule", "schedule", CHOICE(schedule)},
	{"recompute", "recompute", CHOICE(recompute)},
	{"stack", "stack", CHOICE(stack)},
	{"dispatcher", NULL, CHOICE(dispatcher), .known = LK_MAYBE},
	{"pipeline_layout", NULL, CHOICE(pipeline_layout), .known = LK_MAYBE},
	{"sequence_parallel", NULL, CHOICE(sequence_parallel)},
	{"tp_overlap", NULL, CHOICE(tp_overlap)},
	{"overlap_grad_reduce", NULL, CHOICE(overlap_grad_reduce)},
	{"overlap_param_gather", NULL, CHOICE(overlap_param_gather)},
	{"offload", NULL, CHOICE(offload)},
	{"bucket_bytes", NULL, CHOICE(bucket_bytes)},
	{"step_time_s", "step", CHOICE(step_time_s), .shown = lk_format_seconds},
	{"step_time_low_s", NULL, CHOICE(step_time_low_s), .known = LK_MAYBE},
	{"step_time_high_s", NULL, CHOICE(step_time_high_s), .known = LK_MAYBE},
	{"exact_s", "exact", CHOICE(exact_s), .known = LK_UNLESS_ZERO, .shown = lk_format_seconds},
	{"peak_bytes", "GiB", CHOICE(peak_bytes), .shown = lk_gib},
	{"usable_bytes", NULL, CHOICE(usable_bytes)},
	{"tokens_per_s_per_gpu", NULL, CHOICE(tokens_per_s_per_gpu), .known = LK_UNLESS_ZERO},
	{"mfu", "MFU", CHOICE(mfu), .known = LK_UNLESS_ZERO, .shown = lk_percent},
	{"days", "days", CHOICE(days), .known = LK_UNLESS_ZERO, .shown = lk_days},
	{"gpu_hours", "GPU-hours", CHOICE(gpu_hours), .known = LK_UNLESS_ZERO,
     .shown = lk_format_thousands},
	{"gpu_s", "GPU-seconds a step", LK_FIELD_REAL, .get = find_gpu_seconds, .column = true,
     .shown = lk_format_thousands},
	{LK_INSIDE(lk_plan_choice, energy, lk_energy_record)},
	{"breakdown", NULL, LK_MAP(lk_plan_choice, breakdown, breakdown_count, exposed_record),
     .named = offsetof(lk_time_part, key)},
	{"tight", NULL, CHOICE(tight)},
	{"why_not", "why not", CHOICE(why_not), .known = LK_MAYBE},
	{"reproduce", NULL, CHOICE(reproduce)},
	{"pareto", NULL, CHOICE(pareto)},
	{"front", "", LK_FIELD_TEXT, .get = find_front, .column = true},
	{"warning", "warning", LK_FIELD_TEXT, .get = plan_view_find_warning, .column = true},
};
static const lk_answer_record choice_record = {.name = "Choice",
                                               .python = "PlanChoice",
                                               .what = "One layout.",
                                               LK_RECORD(lk_plan_choice, choice_fields)};

static const lk_answer_field sensitivity_fields[] = {
	{"cost", NULL, LK_AT(lk_plan_sensitivity, cost)},
	{"factor", NULL, LK_AT(lk_plan_sensitivity, factor)},
	{"step_time_s", NULL, LK_AT(lk_plan_sensitivity, step_time_s)},
	{"best", NULL, LK_AT(lk_plan_sensitivity, best)},
};
static const lk_answer_record sensitivity_record = {
	.python = "Sensitivity",
	.what = "The step if a rate were another.",
	LK_RECORD(lk_plan_sensitivity, sensitivity_fields)};

static const lk_answer_field count_fields[] = {
	{"gpus", NULL, COUNT(gpus)},
	{"layouts", NULL, COUNT(layouts)},
	{"bounded", NULL, COUNT(bounded)},
	{"too_large", NULL, COUNT(too_large)},
	{"too_slow", NULL, COUNT(too_slow)},
	{"schedules_walked", NULL, COUNT(schedules_walked)},
	{"simulated", NULL, COUNT(simulated)},
	{"cut_short", NULL, COUNT(cut_short)},
	{"found_too_large", NULL, COUNT(found_too_large)},
	{"untried", NULL, COUNT(untried)},
	{"nothing", NULL, COUNT(nothing), .known = LK_MAYBE},
	{"in_fp8", NULL, COUNT(in_fp8), .known = LK_MAYBE},
	{"in_software", NULL, COUNT(in_software), .known = LK_MAYBE},
	{"choices", NULL, LK_MANY(lk_plan_count, choices, choice_count, choice_record)},
	{"sensitivity", NULL,
     LK_MANY(lk_plan_count, sensitivity, sensitivity_count, sensitivity_record)},
};
static const lk_answer_record count_record = {
	.name = "Count",
	.python = "PlanCount",
	.what = "What was found for one number of GPUs, the fastest first; nothing: why there is none.",
	LK_RECORD(lk_plan_count, count_fields)};

static const lk_answer_field sync_fields[] = {
	{"bits", "bits", SYNC(bits)},
	{"every", "every (steps)", SYNC(every), .type = "int"},
	{"bytes", "sent by a site", SYNC(bytes), .shown = lk_format_bytes},
	{"sync_s", "on the links", SYNC(sync_s), .shown = lk_format_seconds},
	{"stall_s", "stalls", SYNC(stall_s), .shown = lk_format_seconds},
	{"utilisation", "computes", SYNC(utilisation), .shown = lk_percent},
	{"tokens_per_s", "tokens/s", SYNC(tokens_per_s), .known = LK_MAYBE, .shown = lk_format_count},
};
static const lk_answer_record sync_record = {
	.name = "Sync",
	.python = "PlanSync",
	.what = "Sites that train with the best choice and synchronise now and then, at one precision.",
	LK_RECORD(lk_plan_sync, sync_fields)};

static void find_level(const lk_subject *subject, lk_field_value *found) {
	found->number = subject->index;
}

static const lk_answer_field level_fields[] = {
	{"level", "level", LK_FIELD_INT, .get = find_level, .column = true},
	{"nodes", "nodes", LEVEL(nodes)},
	{"children", "children", LEVEL(children)},
	{"every", "every (steps)", LEVEL(every)},
	{"rounds", "gossip", LEVEL(rounds)},
	{"bytes", "bytes a step", LEVEL(bytes), .shown = lk_format_bytes},
};
static const lk_answer_record level_record = {
	.python = "PlanTreeLevel",
	.what = "Nodes of a tree that are equally far from its root and aggregate.",
	LK_RECORD(lk_plan_tree_level, level_fields)};

static const lk_answer_field tree_fields[] = {
	{"keeps", NULL, TREE(keeps)},
	{"misses", NULL, TREE(misses), .known = LK_MAYBE},
	{"bits", NULL, TREE(bits)},
	{"step_s", NULL, TREE(step_s)},
	{"utilisation", NULL, TREE(utilisation)},
	{"tokens_per_s", NULL, TREE(tokens_per_s)},
	{"bytes", NULL, TREE(bytes)},
	{"drift", NULL, TREE(drift)},
	{"hours", NULL, TREE(hours), .known = LK_UNLESS_ZERO},
	{"total_bytes", NULL, TREE(total_bytes), .known = LK_UNLESS_ZERO},
	{"clients", NULL, TREE(clients)},
	{"left_out", NULL, LK_LIST(lk_plan_tree, left_out, left_out_count)},
	{"levels", NULL, LK_MANY(lk_plan_tree, levels, level_count, level_record)},
};
static const lk_answer_record tree_record = {
	.name = "Tree",
	.python = "PlanTree",
	.what = "How to aggregate over a tree: the way with the least drift that keeps to the limits.",
	LK_RECORD(lk_plan_tree, tree_fields)};

static const lk_answer_field plan_fields[] = {
	{"model", NULL, LK_AT(lk_plan, model)},
	{"cluster", NULL, LK_AT(lk_plan, cluster)},
	{"gbs", NULL, LK_AT(lk_plan, gbs)},
	{"unit", NULL, LK_AT(lk_plan, unit)},
	{"seq", NULL, LK_AT(lk_plan, seq), .known = LK_UNLESS_ZERO},
	{"tokens", NULL, LK_AT(lk_plan, tokens), .known = LK_UNLESS_ZERO},
	{"reproduce", NULL, LK_AT(lk_plan, reproduce)},
	{"warning", NULL, LK_AT(lk_plan, warning), .known = LK_MAYBE},
	{"cut_off", NULL, LK_AT(lk_plan, cut_off), .known = LK_MAYBE},
	{"assumptions", NULL, LK_LIST(lk_plan, notes, note_count)},
	{"not_searched", NULL, LK_LIST(lk_plan, not_searched, not_searched_count)},
	{"syncs", NULL, LK_MANY(lk_plan, syncs, sync_count, sync_record)},
	{"tree", NULL, LK_ONE(lk_plan, tree, tree_record), .known = LK_MAYBE},
	{"counts", NULL, LK_MANY(lk_plan, counts, count, count_record)},
};
static const lk_answer_record plan_record = {
	.python = "Plan", .what = "The fastest layouts that fit.", LK_RECORD(lk_plan, plan_fields)};
const lk_document lk_plan_document = {"plan", "`plan -o json`", &plan_record,
                                      offsetof(lk_plan, failed_check), NULL};

/* ---- text ---- */

static const char *plan_view_seconds(double s, char out[32]) {
	return isfinite(s) ? lk_format_seconds(s, out, 32) : "";
}

/* Hides the columns of energy that say nothing: of the training, or of a step where the length of
 * the training is unknown. */
static void plan_view_hide_energy(lk_table *table, const lk_plan *plan) {
	bool training = plan->tokens > 0;
	lk_table_hide(table, "training_kwh", !training);
	lk_table_hide(table, "step_kwh", training || plan->objective != LK_PLAN_ENERGY);
	lk_table_hide(table, "carbon_kg", !(plan->mains.carbon > 0));
	lk_table_hide(table, "power_usd", !(plan->mains.price_kwh > 0));
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
	static const char *const keys[] = {
		"rank:",    "step_time_s", "exact_s",   "mfu",        "days",   "gpu_hours", "training_kwh",
		"step_kwh", "carbon_kg",   "power_usd", "peak_bytes", "layout", NULL};
	static const lk_columns columns = {"plan", &choice_record, .keys = keys};
	lk_table *table = lk_fields_rows(&columns, plan, count->choices, count->choice_count);
	lk_table_hide(table, "exact_s", !plan_view_exact_differs(count));
	lk_table_hide(table, "days", !(plan->tokens > 0));
	lk_table_hide(table, "gpu_hours", !(plan->tokens > 0));
	plan_view_hide_energy(table, plan);
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
	LK_ASSERT(count->choice_count > 0 && count->sensitivity_count % 2 == 0); /* in pairs */
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
		const char *then = "; number %d then, when %s, would be faster";
		if (low->best) lk_text_add(&text, then, low->best + 1, "lower");
		else if (high->best) lk_text_add(&text, then, high->best + 1, "higher");
		else lk_text_add(&text, "; the same choice");
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
	fprintf(out, "\n%s%d GPUs%s\n", lk_bold(colour), count->gpus, lk_plain(colour));
	if (count->nothing) {
		LK_TRY(lk_put_wrapped(count->nothing, 2, 0, out, err));
		fputc('\n', out);
	}
	if (count->choice_count) {
		LK_TRY(lk_put_table(choices_table(plan, count), colour, out, err));
		LK_TRY(put_why_not(count, out, err));
		if (count->in_fp8) {
			fputs("\nOther numbers\n  ", out);
			LK_TRY(lk_put_wrapped(count->in_fp8, 2, 2, out, err));
			fputc('\n', out);
		}
		if (count->in_software) fprintf(out, "\nOther software\n  %s\n", count->in_software);
		LK_TRY(put_sensitivity(count, out, err));
	}
	if (count->layouts) LK_TRY(plan_view_put_search(count, out, err));
	if (verbose && count->choice_count)
		fprintf(out, "\nTo predict number 1\n%s\n", count->choices[0].reproduce);
	return LK_OK;
}

/* Numbers of GPUs against one another. */
static lk_status plan_view_put_front(const lk_plan *plan, bool colour, FILE *out, lk_error *err) {
	static const char *const keys[] = {"gpus",      "step_time_s",  "days",     "gpu_hours",
	                                   "gpu_s",     "training_kwh", "step_kwh", "carbon_kg",
	                                   "power_usd", "front",        NULL};
	static const lk_columns columns = {"front", &choice_record, .keys = keys};
	const bool days = plan->tokens > 0;
	if (plan->count < 2) return LK_OK;
	fputs("\nNumbers of GPUs (* none is faster for fewer GPU-hours)\n", out);
	lk_table *table = lk_fields_table(&columns);
	for (int i = 0; i < plan->count; i++)
		if (plan->counts[i].choice_count)
			lk_fields_row(table, &columns, &(lk_subject){plan, plan->counts[i].choices, i, NULL});
	lk_table_hide(table, "days", !days);
	lk_table_hide(table, "gpu_hours", !days);
	lk_table_hide(table, "gpu_s", days);
	plan_view_hide_energy(table, plan);
	return lk_put_table(table, colour, out, err);
}

/* Sites that synchronise now and then. */
static lk_status plan_view_put_syncs(const lk_plan *plan, bool colour, FILE *out, lk_error *err) {
	const char *const keys[] = {"bits",
	                            "every",
	                            "bytes",
	                            "sync_s",
	                            "stall_s",
	                            "utilisation",
	                            plan->seq ? "tokens_per_s" : "tokens_per_s:samples/s",
	                            NULL};
	const lk_columns columns = {"syncs", &sync_record, .keys = keys};
	if (!plan->sync_count) return LK_OK;
	fputs("\nSites that train so and synchronise over their links\n", out);
	return lk_put_table(lk_fields_rows(&columns, plan, plan->syncs, plan->sync_count), colour, out,
	                    err);
}

/* Which levels of a tree aggregate how often, and what that costs. */
static lk_status plan_view_put_levels(const lk_plan_tree *tree, bool colour, FILE *out,
                                      lk_error *err) {
	static const lk_columns columns = {"tree", &level_record, .keys = NULL};
	return lk_put_table(lk_fields_rows(&columns, tree, tree->levels, tree->level_count), colour,
	                    out, err);
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

/* ---- rows ---- */

lk_table *lk_plan_table(const lk_plan *plan) {
	static const char *const keys[] = {
		"gpus",         "rank",     "step_time_s", "exact_s",   "mfu",        "days", "gpu_hours",
		"training_kwh", "step_kwh", "carbon_kg",   "power_usd", "peak_bytes", "tp",   "pp",
		"vp",           "cp",       "ep",          "dp",        "mbs",        "zero", "recompute",
		"schedule",     "stack",    "layout",      "why_not",   "warning",    NULL};
	static const lk_columns columns = {"plans", &choice_record, .keys = keys};
	lk_table *table = lk_fields_table(&columns);
	for (int i = 0; i < plan->count; i++)
		for (int k = 0; k < plan->counts[i].choice_count; k++)
			lk_fields_row(table, &columns,
			              &(lk_subject){plan, &plan->counts[i].choices[k], k, NULL});
	return table;
}

lk_status lk_plan_print(const lk_plan *plan, int format, bool verbose, bool colour,
                        const char *path, FILE *out, lk_error *err) {
	lk_writing w = {format, verbose, colour, path, out};
	struct text t = {plan, verbose};
	LK_TRY(lk_writing_check(&w, err));
	if (format == LK_FORMAT_TEXT) return lk_write_through(&w, plan_view_write_text, &t, err);
	if (format == LK_FORMAT_JSON || format == LK_FORMAT_JSONL)
		return lk_write_document(&w, &lk_plan_document, plan, err);
	return lk_write_table(&w, lk_plan_table(plan), err);
}
