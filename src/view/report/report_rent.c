/* report_rent.c: the report of what to rent: cost against time with the front, the choices, what is
 * too close to call. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "base/noun.h"
#include "view/report/report.h"
#include "view/table/table.h"
#include "view/text/views.h"

enum { TEXT = 64, LINE = 320 };

static char *hours(double h, char *out, size_t size) {
	char number[TEXT];
	int places = 0;
	if (h < 10) places = 2;
	else if (h < 100) places = 1;
	snprintf(out, size, "%s h", lk_fixed(h, places, number, sizeof number));
	return out;
}

/* "3 x p5.48xlarge (aws): $1,234, 12.3 h" */
static void choice_text(const lk_rent_choice *choice, char *out, size_t size) {
	char cost[TEXT], time[TEXT];
	snprintf(out, size, "%d x %s (%s): %s, %s", choice->machines, choice->instance,
	         choice->provider, lk_format_dollars(choice->cost, cost, sizeof cost),
	         hours(choice->hours, time, sizeof time));
}

static void rent_put_decision(lk_report *writer, const lk_rent *rent, const char *label, int at) {
	char cost[TEXT], time[TEXT], low[TEXT], high[TEXT], range[LINE], note[LINE];
	if (at < 0) return;
	LK_ASSERT(at < rent->count);
	const lk_rent_choice *choice = &rent->choices[at];
	snprintf(note, sizeof note, "%d x %s, %s, %d %s", choice->machines, choice->instance,
	         choice->provider, choice->gpus, lk_noun(choice->gpus, "GPU", "GPUs"));
	snprintf(range, sizeof range, "%s \xe2\x80\x93 %s",
	         lk_format_dollars(choice->cost_low, low, sizeof low),
	         lk_format_dollars(choice->cost_high, high, sizeof high));
	snprintf(low, sizeof low, "%s, cost", label);
	lk_report_figure(writer, low, lk_format_dollars(choice->cost, cost, sizeof cost),
	                 isnan(choice->cost_low) ? NULL : range, note);
	snprintf(range, sizeof range, "%s \xe2\x80\x93 %s", hours(choice->hours_low, low, sizeof low),
	         hours(choice->hours_high, high, sizeof high));
	snprintf(low, sizeof low, "%s, time", label);
	lk_report_figure(writer, low, hours(choice->hours, time, sizeof time),
	                 isnan(choice->hours_low) ? NULL : range, choice->layout);
}

static void rent_put_most(lk_report *writer, const lk_rent *rent) {
	char value[TEXT], low[TEXT], high[TEXT], range[LINE], note[LINE];
	if (rent->most < 0) return;
	LK_ASSERT(rent->most < rent->count);
	const lk_rent_choice *choice = &rent->choices[rent->most];
	snprintf(range, sizeof range, "%s \xe2\x80\x93 %s",
	         lk_rent_trained(rent, choice->samples_low, true, low, sizeof low),
	         lk_rent_trained(rent, choice->samples_high, true, high, sizeof high));
	snprintf(note, sizeof note, "%d %s, %s, %s", choice->gpus, lk_noun(choice->gpus, "GPU", "GPUs"),
	         hours(choice->hours, low, sizeof low),
	         lk_format_dollars(choice->cost, high, sizeof high));
	lk_report_figure(writer, "trains",
	                 lk_rent_trained(rent, choice->samples, true, value, sizeof value),
	                 isnan(choice->samples_low) ? NULL : range, note);
}

static void rent_put_verdict(lk_report *writer, const lk_rent *rent) {
	char headline[LINE] = "Nothing meets both deadline and budget", detail[LINE], text[TEXT];
	const char *state = "no";
	int best = rent->most < 0 ? rent->cheapest : rent->most;
	if (best >= 0) {
		const lk_rent_choice *choice = &rent->choices[best];
		state = "yes";
		snprintf(headline, sizeof headline, "%d x %s at %s", choice->machines, choice->instance,
		         choice->provider);
	}
	snprintf(detail, sizeof detail, "%s of %d choices that fit in memory",
	         rent->most < 0 ? "the cheapest" : "trains most", rent->considered);
	lk_report_verdict(writer, state, headline, rent->nothing ? rent->nothing : detail);
	lk_report_figures(writer);
	rent_put_decision(writer, rent, "cheapest", rent->cheapest);
	if (rent->fastest != rent->cheapest) rent_put_decision(writer, rent, "fastest", rent->fastest);
	rent_put_most(writer, rent);
	lk_json_array_end(writer);
	lk_report_facts(writer);
	lk_report_fact(writer, "model", rent->model);
	if (isnan(rent->samples)) snprintf(detail, sizeof detail, "for as long as it may last");
	else
		snprintf(detail, sizeof detail, "%s %ss", lk_format_count(rent->samples, text, sizeof text),
		         rent->unit ? rent->unit : "sample");
	lk_report_fact(writer, "training", detail);
	lk_report_fact(writer, "searched", rent->searched);
	if (rent->deadline_h > 0)
		lk_report_fact(writer, "deadline", hours(rent->deadline_h, text, sizeof text));
	if (rent->budget > 0)
		lk_report_fact(writer, "budget", lk_format_dollars(rent->budget, text, sizeof text));
	lk_report_fact(writer, "to settle", rent->settle);
	lk_json_array_end(writer);
	lk_report_panel_end(writer);
}

/* Points of the front or the others; both axes are logarithmic: choices differ by factors. */
static void put_series(lk_report *writer, const lk_rent *rent, const char *name, const char *key,
                       bool pareto) {
	char text[LINE], choice[LINE / 2];
	if (rent->warning) lk_report_text(writer, rent->warning);
	lk_report_series(writer, name, key, false);
	for (int i = 0; i < rent->count; i++) {
		const lk_rent_choice *rent_choice = &rent->choices[i];
		if (rent_choice->pareto != pareto) continue;
		choice_text(rent_choice, choice, sizeof choice);
		const char *mark = lk_rent_mark(rent, i);
		lk_text words = lk_text_begin(text, sizeof text);
		lk_text_add(&words, "%s; price of %s, %s", choice, rent_choice->date, rent_choice->source);
		if (mark) lk_text_add(&words, "; %s", mark);
		if (isnan(rent->samples))
			lk_report_point(writer, rent_choice->cost, rent_choice->samples * rent->seq, text,
			                rent_choice->reproduce);
		else
			lk_report_point(writer, rent_choice->hours, rent_choice->cost, text,
			                rent_choice->reproduce);
	}
	lk_report_series_end(writer);
}

static void rent_put_front(lk_report *writer, const lk_rent *rent) {
	if (!rent->count) return;
	bool open = isnan(rent->samples);
	if (open)
		lk_report_panel(writer, "scatter", "What is trained, against cost",
		                "no choice that trains as much as one on the front is both as cheap and as "
		                "fast",
		                true);
	else
		lk_report_panel(writer, "scatter", "Cost against time",
		                "no choice is both cheaper and faster than one on the front", true);
	lk_report_hint(writer, "a click on a point shows the command that predicts it");
	lk_json_put_text(writer, "role", "pareto");
	if (open) {
		lk_report_axis(writer, "x", "cost", "$", true);
		lk_report_axis(writer, "y", rent->seq > 1 ? "tokens" : "samples", "", true);
	} else {
		lk_report_axis(writer, "x", "time of the training", "h", true);
		lk_report_axis(writer, "y", "cost", "$", true);
	}
	lk_json_array(writer, "series");
	put_series(writer, rent, "the front", "front", true);
	put_series(writer, rent, "other choices", "other", false);
	lk_json_array_end(writer);
	lk_report_panel_end(writer);
}

static lk_status rent_put_panels(const void *answer, lk_report *writer, lk_error *err) {
	const lk_rent *rent = answer;
	rent_put_verdict(writer, rent);
	rent_put_front(writer, rent);
	lk_table *table = lk_rent_table(rent, true);
	lk_report_rename(table, "provider", "provider");
	lk_report_rename(table, "hours_range", "hours, 80 % range");
	lk_report_rename(table, "cost_range", "dollars, 80 % range");
	lk_report_rename(table, "trained_range", "trained, 80 % range");
	lk_report_rename(table, "stall_share", "share of the step");
	return lk_report_table(writer, "Choices", "list prices in US dollars with date and source",
	                       true, table, 200, err);
}

static void rent_put_assumptions(const void *answer, lk_report *writer) {
	const lk_rent *rent = answer;
	for (int i = 0; i < rent->note_count; i++) lk_report_text(writer, rent->notes[i]);
}

static void rent_put_warnings(const void *answer, lk_report *writer) {
	const lk_rent *rent = answer;
	char text[LINE], choice[LINE / 2];
	for (int i = 0; i < rent->tie_count; i++) {
		choice_text(&rent->choices[rent->ties[i]], choice, sizeof choice);
		snprintf(text, sizeof text, "too close to the %s to call: %s",
		         rent->most < 0 ? "cheapest" : "most", choice);
		lk_report_text(writer, text);
	}
}

static lk_status rent_put_result(const void *answer, bool colour, FILE *out, lk_error *err) {
	return lk_rent_print(answer, LK_OUTPUT_JSON, false, colour, NULL, out, err);
}

lk_status lk_report_rent(const lk_rent *rent, lk_report_form form, const char *path, FILE *out,
                         lk_error *err) {
	char title[LINE];
	const char *model = rent->model ? rent->model : "a training";
	snprintf(title, sizeof title, "Machines for %.*s", (int)strcspn(model, ":,"), model);
	lk_report_job job = {"rent",
	                     title,
	                     rent->reproduce,
	                     rent,
	                     &rent->inputs,
	                     rent_put_panels,
	                     rent_put_assumptions,
	                     rent_put_warnings,
	                     rent_put_result,
	                     NULL,
	                     rent->failed_check};
	return lk_report_save(&job, form, path, out, err);
}
