/* rent_view.c: machines to rent, by cost and time. No price without its currency, date and source. */
#include "lockstep/rent.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/noun.h"
#include "base/text.h"
#include "view/table/fields.h"
#include "view/text/views.h"

/* ---- choices ---- */

const char *lk_rent_mark(const lk_rent *rent, int i) {
	LK_ASSERT(i >= 0 && i < rent->count);
	if (i == rent->cheapest) return i == rent->fastest ? "cheapest, fastest" : "cheapest";
	if (i == rent->fastest) return "fastest";
	if (i == rent->most) return "most";
	if (!rent->choices[i].in_time)
		return rent->choices[i].in_budget ? "too late" : "late, over budget";
	if (!rent->choices[i].in_budget) return "over budget";
	for (int k = 0; k < rent->tie_count; k++)
		if (rent->ties[k] == i) return "tie";
	return rent->choices[i].pareto ? "front" : NULL;
}

static char *hours_text(double hours, char *out, size_t size) {
	if (hours >= 999.5) return lk_format_thousands(hours, out, size);
	if (hours >= 100) return lk_whole(hours, out, size);
	return hours < 10 ? lk_hundredths(hours, out, size) : lk_tenths(hours, out, size);
}

char *lk_rent_trained(const lk_rent *rent, double samples, bool unit, char *out, size_t size) {
	char number[32];
	const char *sample = rent->unit ? rent->unit : "sample";
	lk_format_count(samples * rent->seq, number, sizeof number);
	if (!unit) snprintf(out, size, "%s", number);
	else snprintf(out, size, "%s %ss", number, rent->seq > 1 ? "token" : sample);
	return out;
}

/* ---- fields ---- */

#define CHOICE(member)   LK_AT(lk_rent_choice, member)
#define FUNCTION(member) LK_AT(lk_rent_function, member)
#define RENT(member)     LK_AT(lk_rent, member)

static void find_mark(const lk_subject *subject, lk_field_value *found) {
	found->text = lk_rent_mark(subject->answer, subject->index);
}

static void find_tokens(const lk_subject *subject, lk_field_value *found) {
	const lk_rent *rent = subject->answer;
	const lk_rent_choice *choice = subject->record;
	found->number = rent->seq > 1 ? choice->samples * rent->seq : NAN;
}

static void find_trained(const lk_subject *subject, lk_field_value *found) {
	const lk_rent_choice *choice = subject->record;
	found->text =
		lk_rent_trained(subject->answer, choice->samples, false, found->shown, sizeof found->shown);
}

/* Where the training has a length, the range lies in hours and dollars. */
static void find_trained_range(const lk_subject *subject, lk_field_value *found) {
	const lk_rent *rent = subject->answer;
	const lk_rent_choice *choice = subject->record;
	char low[32], high[32];
	if (!isnan(rent->samples) || isnan(choice->samples_low)) return;
	snprintf(found->shown, sizeof found->shown, "%s - %s",
	         lk_rent_trained(rent, choice->samples_low, false, low, sizeof low),
	         lk_rent_trained(rent, choice->samples_high, false, high, sizeof high));
	found->text = found->shown;
}

static void find_hours_range(const lk_subject *subject, lk_field_value *found) {
	const lk_rent_choice *choice = subject->record;
	char low[32], high[32];
	if (isnan(choice->hours_low) || isnan(choice->hours_high)) return;
	snprintf(found->shown, sizeof found->shown, "%s - %s",
	         hours_text(choice->hours_low, low, sizeof low),
	         hours_text(choice->hours_high, high, sizeof high));
	found->text = found->shown;
}

static void find_cost_range(const lk_subject *subject, lk_field_value *found) {
	const lk_rent_choice *choice = subject->record;
	char low[32], high[32];
	if (isnan(choice->cost_low) || isnan(choice->cost_high)) return;
	snprintf(found->shown, sizeof found->shown, "%s - %s",
	         lk_format_dollars(choice->cost_low, low, sizeof low),
	         lk_format_dollars(choice->cost_high, high, sizeof high) + 1);
	found->text = found->shown;
}

/* The number of a machine among those of the choices, which the view counts. */
static void find_number(const lk_subject *subject, lk_field_value *found) {
	found->number = *(const int *)subject->context;
}

static void rent_view_find_warning(const lk_subject *subject, lk_field_value *found) {
	found->text = ((const lk_rent *)subject->answer)->warning;
}

static const lk_answer_field choice_fields[] = {
	{"mark", "", LK_FIELD_TEXT, .get = find_mark, .column = true},
	{"number", "kind", LK_FIELD_INT, .get = find_number, .column = true},
	{"provider", "provider", CHOICE(provider)},
	{"instance", "instance", CHOICE(instance)},
	{"region", "", CHOICE(region), .known = LK_UNLESS_ZERO, .hidden = true},
	{"gpu", "GPU", CHOICE(gpu)},
	{"machines", "machines", CHOICE(machines)},
	{"gpus_each", "GPUs", CHOICE(gpus_each), .column = true},
	{"gpus", "GPUs", CHOICE(gpus)},
	{"batch", "batch", CHOICE(batch)},
	{"layout", "layout", CHOICE(layout), .known = LK_MAYBE},
	{"step_time_s", "step", CHOICE(step_s), .known = LK_MAYBE, .shown = lk_format_seconds},
	{"samples", "samples", CHOICE(samples), .known = LK_MAYBE, .shown = lk_format_count},
	{"samples_low", NULL, CHOICE(samples_low), .known = LK_MAYBE},
	{"samples_high", NULL, CHOICE(samples_high), .known = LK_MAYBE},
	{"tokens", "tokens", LK_FIELD_REAL, .get = find_tokens, .known = LK_MAYBE,
     .shown = lk_format_count},
	{"trained", "tokens", LK_FIELD_TEXT, .get = find_trained, .column = true, .right = true},
	{"trained_range", "80 % range", LK_FIELD_TEXT, .get = find_trained_range, .column = true,
     .right = true},
	{"hours", "hours", CHOICE(hours), .shown = hours_text},
	{"hours_low", NULL, CHOICE(hours_low), .known = LK_MAYBE},
	{"hours_high", NULL, CHOICE(hours_high), .known = LK_MAYBE},
	{"hours_range", "80 % range", LK_FIELD_TEXT, .get = find_hours_range, .column = true,
     .right = true},
	{"price_usd_h", "per machine-hour", CHOICE(price), .shown = lk_format_dollars},
	{"cost_usd", "dollars", CHOICE(cost), .shown = lk_format_dollars},
	{"cost_low_usd", NULL, CHOICE(cost_low), .known = LK_MAYBE},
	{"cost_high_usd", NULL, CHOICE(cost_high), .known = LK_MAYBE},
	{"cost_range", "80 % range", LK_FIELD_TEXT, .get = find_cost_range, .column = true,
     .right = true},
	{"price_date", "price of", CHOICE(date), .known = LK_MAYBE},
	{"price_source", "source", CHOICE(source), .known = LK_MAYBE},
	{"stall", "largest stall", CHOICE(stall), .known = LK_MAYBE},
	{"stall_share", "", CHOICE(stall_share), .known = LK_MAYBE, .shown = lk_percent},
	{"goodput", "goodput", CHOICE(goodput), .known = LK_MAYBE, .shown = lk_percent},
	{"kwh", "energy", CHOICE(energy.training_kwh), .known = LK_UNLESS_ZERO,
     .shown = lk_format_energy},
	{"carbon_kg", "CO2e", CHOICE(energy.carbon_kg), .known = LK_UNLESS_ZERO,
     .shown = lk_format_mass},
	{"power_usd", "power", CHOICE(energy.power_usd), .known = LK_UNLESS_ZERO,
     .shown = lk_format_dollars},
	{"pareto", "", CHOICE(pareto), .hidden = true},
	{"in_time", "", CHOICE(in_time), .hidden = true},
	{"in_budget", "", CHOICE(in_budget), .hidden = true},
	{"chance", "keeps", CHOICE(chance), .known = LK_MAYBE, .shown = lk_percent, .hidden = true},
	{"gpus_searched", "", CHOICE(gpus_searched), .hidden = true},
	{"search_end", "", CHOICE(search_end), .known = LK_MAYBE, .hidden = true},
	{"warning", "warning", LK_FIELD_TEXT, .get = rent_view_find_warning, .column = true},
	{"reproduce", "command", CHOICE(reproduce), .known = LK_MAYBE, .hidden = true},
};
static const lk_answer_record choice_record = {
	.name = "Rent",
	.python = "RentChoice",
	.what = "Machines of one kind, with the layout that is fastest there. Costs are US dollars.",
	LK_RECORD(lk_rent_choice, choice_fields)};

static void find_note(const lk_subject *subject, lk_field_value *found) {
	const lk_rent *rent = subject->answer;
	found->text = "";
	if (subject->index == rent->fastest) found->text = "fastest";
	if (subject->index == rent->cheapest) found->text = "cheapest";
}

static const lk_answer_field function_fields[] = {
	{"platform", "platform", FUNCTION(platform)},
	{"level", "a call is a", FUNCTION(level)},
	{"memory_mib", "MiB", FUNCTION(memory_mib)},
	{"calls", "calls", FUNCTION(calls)},
	{"call_s", "call", FUNCTION(call_s), .shown = lk_format_seconds},
	{"instances", "instances", FUNCTION(instances)},
	{"seconds", "time", FUNCTION(seconds), .shown = lk_format_seconds},
	{"gib_s", "GiB-s", FUNCTION(gib_s), .shown = lk_whole},
	{"cost_usd", "cost", FUNCTION(cost), .shown = lk_format_dollars},
	{"pareto", NULL, FUNCTION(pareto)},
	{"in_time", NULL, FUNCTION(in_time)},
	{"in_budget", NULL, FUNCTION(in_budget)},
	{"note", "", LK_FIELD_TEXT, .get = find_note, .column = true},
};
static const lk_answer_record function_record = {
	.name = "Function",
	.python = "RentFunction",
	.what = "Functions of one size that a cloud runs on demand, at one level of scaling.",
	LK_RECORD(lk_rent_function, function_fields)};

static const lk_answer_field rent_fields[] = {
	{"model", NULL, RENT(model)},
	{"warning", NULL, RENT(warning), .known = LK_MAYBE},
	{"samples", NULL, RENT(samples), .known = LK_MAYBE},
	{"unit", NULL, RENT(unit), .known = LK_MAYBE},
	{"deadline_h", NULL, RENT(deadline_h), .known = LK_UNLESS_ZERO},
	{"budget_usd", NULL, RENT(budget), .known = LK_UNLESS_ZERO},
	{"considered", NULL, RENT(considered)},
	{"within_limits", NULL, RENT(within_limits)},
	{"gpus_searched", NULL, RENT(gpus_searched)},
	{"cut_off", NULL, RENT(cut_off), .known = LK_MAYBE},
	{"search_complete", NULL, RENT(search_complete)},
	{"searched", NULL, RENT(searched), .known = LK_MAYBE},
	{"choices", NULL, LK_MANY(lk_rent, choices, count, choice_record)},
	{"functions", NULL, LK_MANY(lk_rent, functions, function_count, function_record)},
	{"cheapest", NULL, RENT(cheapest), .known = LK_UNLESS_NEGATIVE},
	{"fastest", NULL, RENT(fastest), .known = LK_UNLESS_NEGATIVE},
	{"most", NULL, RENT(most), .known = LK_UNLESS_NEGATIVE},
	{"ties", NULL, LK_LIST(lk_rent, ties, tie_count)},
	{"settle", NULL, RENT(settle), .known = LK_MAYBE},
	{"nothing", NULL, RENT(nothing), .known = LK_MAYBE},
	{"reproduce", NULL, RENT(reproduce)},
	{"notes", NULL, LK_LIST(lk_rent, notes, note_count)},
};
static const lk_answer_record rent_record = {
	.python = "Rent",
	.what = "Which machines to rent; cheapest, fastest, most and ties are places in choices. A "
			"training without a length (samples is None then) goes on as long as deadline and "
			"budget allow: most is the choice that trains most.",
	LK_RECORD(lk_rent, rent_fields)};
const lk_document lk_rent_document = {"rent", "`rent -o json`", &rent_record,
                                      offsetof(lk_rent, failed_check), NULL};

/* ---- tables ---- */

static bool rent_view_has_carbon(const lk_rent *rent) {
	for (int i = 0; i < rent->count; i++)
		if (rent->choices[i].energy.carbon_kg > 0) return true;
	return false;
}

static bool rent_view_has_power(const lk_rent *rent) {
	for (int i = 0; i < rent->count; i++)
		if (rent->choices[i].energy.power_usd > 0) return true;
	return false;
}

/* Without a length, what is trained and its range replace the ranges of hours and dollars. */
static void rent_view_hide_ranges(lk_table *table, const lk_rent *rent) {
	bool open = isnan(rent->samples);
	lk_table_hide(table, "hours_range", open);
	lk_table_hide(table, "cost_range", open);
	lk_table_hide(table, "trained_range", !open);
}

/* With `warned` each row says what the warning is: nothing else of the answer is written. */
static lk_table *rent_view_table(const lk_rent *rent, bool verbose, bool warned) {
	static const char *const keys[] = {
		"mark",         "machines",    "provider:",   "instance",   "region",      "gpu",
		"gpus",         "batch",       "step_time_s", "samples",    "tokens",      "trained_range",
		"hours",        "hours_range", "cost_usd",    "cost_range", "stall",       "stall_share",
		"goodput",      "kwh",         "carbon_kg",   "power_usd",  "price_usd_h", "price_date",
		"price_source", "pareto",      "in_time",     "in_budget",  "chance",      "gpus_searched",
		"search_end",   "warning",     "layout",      "reproduce",  NULL};
	static const lk_columns columns = {"choices", &choice_record, .keys = keys};
	bool open = isnan(rent->samples);
	lk_table *table = lk_fields_rows(&columns, rent, rent->choices, rent->count);
	rent_view_hide_ranges(table, rent);
	lk_table_hide(table, "samples", !open || rent->seq > 1);
	lk_table_hide(table, "tokens", !open || rent->seq <= 1);
	lk_table_hide(table, "goodput", !verbose);
	lk_table_hide(table, "kwh", !verbose);
	lk_table_hide(table, "layout", !verbose);
	lk_table_hide(table, "carbon_kg", !rent_view_has_carbon(rent));
	lk_table_hide(table, "power_usd", !rent_view_has_power(rent));
	lk_table_hide(table, "warning", !warned);
	return table;
}

lk_table *lk_rent_table(const lk_rent *rent, bool verbose) {
	return rent_view_table(rent, verbose, false);
}

/* ---- choices for people: which machine by its number, and the machines below ---- */

struct rented {
	int *of;    /* of each choice the number of its machine, from 1 */
	int *first; /* of each machine its first choice */
	int count;
};

static bool rented_is(const lk_rent_choice *a, const lk_rent_choice *b) {
	return strcmp(a->provider, b->provider) == 0 && strcmp(a->instance, b->instance) == 0 &&
	       strcmp(a->region, b->region) == 0 && a->price == b->price;
}

static lk_status rented_find(const lk_rent *rent, struct rented *out, lk_error *err) {
	size_t room = (size_t)rent->count + 1;
	*out = (struct rented){malloc(room * sizeof(int)), malloc(room * sizeof(int)), 0};
	if (!out->of || !out->first) return lk_oom(err);
	for (int i = 0; i < rent->count; i++) {
		LK_ASSERT(out->count <= i);
		int m = 0;
		while (m < out->count && !rented_is(&rent->choices[out->first[m]], &rent->choices[i])) m++;
		if (m == out->count) out->first[out->count++] = i;
		out->of[i] = m + 1;
	}
	return LK_OK;
}

static lk_table *rented_choices(const lk_rent *rent, const struct rented *rented) {
	const char *const keys[] = {"mark",
	                            "machines:count",
	                            "number",
	                            "provider",
	                            "gpu",
	                            "gpus",
	                            "step_time_s",
	                            rent->seq > 1 ? "trained" : "trained:samples",
	                            "trained_range",
	                            "hours",
	                            "hours_range",
	                            "cost_usd",
	                            "cost_range",
	                            "kwh",
	                            "carbon_kg",
	                            "power_usd",
	                            NULL};
	const lk_columns columns = {"choices", &choice_record, .keys = keys};
	bool carbon = rent_view_has_carbon(rent), power = rent_view_has_power(rent);
	lk_table *table = lk_fields_table(&columns);
	for (int i = 0; i < rent->count; i++)
		lk_fields_row(table, &columns, &(lk_subject){rent, &rent->choices[i], i, &rented->of[i]});
	rent_view_hide_ranges(table, rent);
	lk_table_hide(table, "trained", !isnan(rent->samples));
	lk_table_hide(table, "kwh", !carbon && !power);
	lk_table_hide(table, "carbon_kg", !carbon);
	lk_table_hide(table, "power_usd", !power);
	return table;
}

static lk_table *rented_machines(const lk_rent *rent, const struct rented *rented) {
	static const char *const keys[] = {
		"number",     "provider:machine of", "instance", "gpus_each", "price_usd_h:an hour",
		"price_date", "price_source",        NULL};
	static const lk_columns columns = {"machines", &choice_record, .keys = keys};
	lk_table *table = lk_fields_table(&columns);
	for (int m = 0; m < rented->count; m++) {
		int first = rented->first[m];
		lk_fields_row(table, &columns,
		              &(lk_subject){rent, &rent->choices[first], first, &rented->of[first]});
	}
	return table;
}

/* Two tables of a page's width; with -v one that has everything. */
static lk_status rent_view_put_choices(const lk_rent *rent, bool verbose, bool colour, FILE *out,
                                       lk_error *err) {
	if (verbose || !rent->count)
		return lk_put_table(lk_rent_table(rent, verbose), colour, out, err);
	static const char *const extras[] = {"hours_range", "kwh", "number", NULL};
	struct rented rented;
	lk_status status = rented_find(rent, &rented, err);
	if (status == LK_OK)
		status = lk_put_fitted(rented_choices(rent, &rented), extras, "-v", colour, out, err);
	if (status == LK_OK) {
		fputc('\n', out);
		status = lk_put_table(rented_machines(rent, &rented), colour, out, err);
	}
	free(rented.of);
	free(rented.first);
	return status;
}

/* Functions: the front, or all. */
static lk_table *rent_view_functions(const lk_rent *rent, bool all) {
	static const char *const keys[] = {"platform", "level",     "memory_mib", "calls",
	                                   "call_s",   "instances", "seconds",    "gib_s",
	                                   "cost_usd", "note",      NULL};
	static const lk_columns columns = {"functions", &function_record, .keys = keys};
	lk_table *table = lk_fields_table(&columns);
	for (int i = 0; i < rent->function_count; i++)
		if (all || rent->functions[i].pareto || i == rent->cheapest || i == rent->fastest)
			lk_fields_row(table, &columns, &(lk_subject){rent, &rent->functions[i], i, NULL});
	return table;
}

/* ---- text ---- */

struct text {
	const lk_rent *rent;
	bool verbose;
};

static lk_status rent_view_write_map(const struct text *text, bool colour, FILE *out,
                                     lk_error *err) {
	const lk_rent *rent = text->rent;
	fprintf(out, "%s\n", rent->model);
	if (rent->nothing) fprintf(out, "%s\n", rent->nothing);
	LK_TRY(lk_put_table(rent_view_functions(rent, text->verbose), colour, out, err));
	for (int i = 0; i < rent->note_count; i++) {
		LK_TRY(lk_put_wrapped(rent->notes[i], 0, 0, out, err));
		fputc('\n', out);
	}
	return LK_OK;
}

/* The limits of the training; there is one at least. */
static const char *limits_of(const lk_rent *rent) {
	LK_ASSERT(rent->deadline_h > 0 || rent->budget > 0);
	if (!(rent->budget > 0)) return "deadline";
	return rent->deadline_h > 0 ? "deadline and the budget" : "budget";
}

/* "; within the budget with 61 % probability ($94,312 to $127,044)": the range where the limit
 * lies.
 */
static void put_keeping(const lk_rent *rent, const lk_rent_choice *choice, lk_text *out) {
	if (isnan(choice->chance)) return;
	char low[32], high[32];
	bool timed = rent->deadline_h > 0, paid = rent->budget > 0;
	lk_text_add(out, "; within the %s with ", limits_of(rent));
	if (choice->chance > 0.99) lk_text_add(out, "over 99 %% probability");
	else if (choice->chance < 0.01) lk_text_add(out, "under 1 %% probability");
	else lk_text_add(out, "%.0f %% probability", 100 * choice->chance);
	if (timed)
		lk_text_add(out, " (%s to %s h", hours_text(choice->hours_low, low, sizeof low),
		            hours_text(choice->hours_high, high, sizeof high));
	if (paid)
		lk_text_add(out, "%s%s to %s", timed ? ", " : " (",
		            lk_format_dollars(choice->cost_low, low, sizeof low),
		            lk_format_dollars(choice->cost_high, high, sizeof high));
	lk_text_add(out, ")");
}

/* "SEARCHED  ...", wrapped. */
static lk_status rent_view_put_labelled(const char *label, const char *text, FILE *out,
                                        lk_error *err) {
	int indent = fprintf(out, "%-9s ", label);
	LK_TRY(lk_put_wrapped(text, indent, indent, out, err));
	fputc('\n', out);
	return LK_OK;
}

static lk_status rent_view_put_decision(const lk_rent *rent, const char *what, int at, FILE *out,
                                        lk_error *err) {
	LK_ASSERT(at >= 0 && at < rent->count);
	const lk_rent_choice *choice = &rent->choices[at];
	char hours[32], cost[40], line[600];
	lk_text text = lk_text_begin(line, sizeof line);
	lk_text_add(&text, "%d x %s (%s): %s h, %s", choice->machines, choice->instance,
	            choice->provider, hours_text(choice->hours, hours, sizeof hours),
	            lk_format_dollars(choice->cost, cost, sizeof cost));
	put_keeping(rent, choice, &text);
	return rent_view_put_labelled(what, line, out, err);
}

/* "MOST      2 x p5.48xlarge (aws): 41.2 G tokens (35.1 G to 48.3 G) in 336 h, $66,013" */
static lk_status put_most(const lk_rent *rent, FILE *out, lk_error *err) {
	const lk_rent_choice *choice = &rent->choices[rent->most];
	char trained[64], low[32], high[32], hours[32], cost[40], line[600];
	lk_text text = lk_text_begin(line, sizeof line);
	lk_text_add(&text, "%d x %s (%s): %s", choice->machines, choice->instance, choice->provider,
	            lk_rent_trained(rent, choice->samples, true, trained, sizeof trained));
	if (!isnan(choice->samples_low))
		lk_text_add(&text, " (%s to %s)",
		            lk_rent_trained(rent, choice->samples_low, false, low, sizeof low),
		            lk_rent_trained(rent, choice->samples_high, false, high, sizeof high));
	lk_text_add(&text, " in %s h, %s", hours_text(choice->hours, hours, sizeof hours),
	            lk_format_dollars(choice->cost, cost, sizeof cost));
	return rent_view_put_labelled("MOST", line, out, err);
}

static lk_status put_decisions(const lk_rent *rent, FILE *out, lk_error *err) {
	char line[1200];
	lk_text text = lk_text_begin(line, sizeof line);
	if (rent->nothing) LK_TRY(rent_view_put_labelled("NOTHING", rent->nothing, out, err));
	if (rent->cheapest >= 0)
		LK_TRY(rent_view_put_decision(rent, "CHEAPEST", rent->cheapest, out, err));
	if (rent->fastest >= 0)
		LK_TRY(rent_view_put_decision(rent, "FASTEST", rent->fastest, out, err));
	if (rent->most >= 0) LK_TRY(put_most(rent, out, err));
	LK_TRY(rent_view_put_labelled("SEARCHED", rent->searched, out, err));
	if (!rent->tie_count) return LK_OK;
	lk_text_add(&text, "too close to the %s to call:", rent->most >= 0 ? "most" : "cheapest");
	for (int i = 0; i < rent->tie_count; i++) {
		const lk_rent_choice *choice = &rent->choices[rent->ties[i]];
		lk_text_add(&text, "%s %d x %s (%s)", i ? "," : "", choice->machines, choice->instance,
		            choice->provider);
	}
	lk_text_add(&text, "; to settle it, measure %s", rent->settle);
	return rent_view_put_labelled("TIE", line, out, err);
}

/* "training 20 G tokens, in 240 h, for $100,000; 139 choices fit in memory, 113 of them within the
 * deadline and the budget" */
static lk_status rent_view_put_training(const lk_rent *rent, FILE *out, lk_error *err) {
	char line[400], count[80];
	lk_text text = lk_text_begin(line, sizeof line);
	bool timed = rent->deadline_h > 0, paid = rent->budget > 0;
	lk_text_add(&text, "training %s",
	            isnan(rent->samples)
	                ? "for as long as it may last"
	                : lk_rent_trained(rent, rent->samples, true, count, sizeof count));
	if (timed) lk_text_add(&text, ", in %s h", hours_text(rent->deadline_h, count, sizeof count));
	if (paid) lk_text_add(&text, ", for %s", lk_format_dollars(rent->budget, count, sizeof count));
	lk_text_add(&text, "; %d %s in memory", rent->considered,
	            lk_noun(rent->considered, "choice fits", "choices fit"));
	if (timed || paid)
		lk_text_add(&text, ", %d of them within the %s", rent->within_limits, limits_of(rent));
	return lk_put_wrapped(line, 9, 0, out, err);
}

static lk_status rent_view_write_text(const void *what, bool colour, FILE *out, lk_error *err) {
	const struct text *text = what;
	const lk_rent *rent = text->rent;
	if (rent->functions) return rent_view_write_map(text, colour, out, err);
	LK_TRY(put_decisions(rent, out, err));
	fputs("\nmodel    ", out);
	LK_TRY(lk_put_safe(rent->model ? rent->model : "", out, err));
	fputc('\n', out);
	LK_TRY(rent_view_put_training(rent, out, err));
	fputs("\n\n", out);
	LK_TRY(rent_view_put_choices(rent, text->verbose, colour, out, err));
	fputc('\n', out);
	if (rent->warning) {
		fputs("warning: ", out);
		LK_TRY(lk_put_safe(rent->warning, out, err));
		fputc('\n', out);
	}
	for (int i = 0; i < rent->note_count; i++) {
		LK_TRY(lk_put_wrapped(rent->notes[i], 10, 0, out, err));
		fputc('\n', out);
	}
	for (int i = 0; text->verbose && i < rent->count; i++) {
		LK_TRY(lk_put_safe(rent->choices[i].reproduce, out, err));
		fputc('\n', out);
	}
	return LK_OK;
}

lk_status lk_rent_print(const lk_rent *rent, int format, bool verbose, bool colour,
                        const char *path, FILE *out, lk_error *err) {
	lk_writing w = {format, verbose, colour, path, out};
	struct text x = {rent, verbose};
	LK_TRY(lk_writing_check(&w, err));
	if (format == LK_FORMAT_TEXT) return lk_write_through(&w, rent_view_write_text, &x, err);
	if (format == LK_FORMAT_JSON) return lk_write_document(&w, &lk_rent_document, rent, err);
	if (rent->functions) return lk_write_table(&w, rent_view_functions(rent, true), err);
	return lk_write_table(&w, rent_view_table(rent, verbose, rent->warning != NULL), err);
}
