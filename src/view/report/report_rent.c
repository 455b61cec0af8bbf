/* report_rent.c: the report of what to rent: cost against time with the front, the choices, what is too close to call. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "view/report/report.h"
#include "view/table/table.h"

enum { TEXT = 64, LINE = 320 };

static char *dollars(double cost, char *out, size_t size) {
	char number[TEXT];
	snprintf(out, size, "$%s", cost >= 1000 ? lk_format_thousands(cost, number, sizeof number) : lk_fixed(cost, 2, number, sizeof number));
	return out;
}

static char *hours(double h, char *out, size_t size) {
	char number[TEXT];
	snprintf(out, size, "%s h", lk_fixed(h, h < 10 ? 2 : h < 100 ? 1 : 0, number, sizeof number));
	return out;
}

/* "3 x p5.48xlarge (aws): $1 234, 12.3 h" */
static void choice_text(const lk_rent_choice *c, char *out, size_t size) {
	char cost[TEXT], time[TEXT];
	snprintf(out, size, "%d x %s (%s): %s, %s", c->machines, c->instance, c->provider, dollars(c->cost, cost, sizeof cost),
	         hours(c->hours, time, sizeof time));
}

static void put_decision(lk_report *r, const lk_rent *rent, const char *label, int at) {
	char cost[TEXT], time[TEXT], low[TEXT], high[TEXT], range[LINE], note[LINE];
	if (at < 0) return;
	const lk_rent_choice *c = &rent->choices[at];
	snprintf(note, sizeof note, "%d x %s, %s, %d GPUs", c->machines, c->instance, c->provider, c->gpus);
	snprintf(range, sizeof range, "%s \xe2\x80\x93 %s", dollars(c->cost_low, low, sizeof low), dollars(c->cost_high, high, sizeof high));
	snprintf(low, sizeof low, "%s, cost", label);
	lk_report_figure(r, low, dollars(c->cost, cost, sizeof cost), isnan(c->cost_low) ? NULL : range, note);
	snprintf(range, sizeof range, "%s \xe2\x80\x93 %s", hours(c->hours_low, low, sizeof low), hours(c->hours_high, high, sizeof high));
	snprintf(low, sizeof low, "%s, time", label);
	lk_report_figure(r, low, hours(c->hours, time, sizeof time), isnan(c->hours_low) ? NULL : range, c->layout);
}

static void put_verdict(lk_report *r, const lk_rent *rent) {
	char headline[LINE], detail[LINE], text[TEXT];
	if (rent->cheapest >= 0) {
		const lk_rent_choice *c = &rent->choices[rent->cheapest];
		snprintf(headline, sizeof headline, "%d x %s at %s", c->machines, c->instance, c->provider);
	}
	snprintf(detail, sizeof detail, "the cheapest of %d choices that fit in memory", rent->considered);
	lk_report_verdict(r, rent->cheapest >= 0 ? "yes" : "no", rent->cheapest >= 0 ? headline : "Nothing keeps to deadline and budget",
	                  rent->nothing ? rent->nothing : detail);
	lk_report_figures(r);
	put_decision(r, rent, "cheapest", rent->cheapest);
	if (rent->fastest != rent->cheapest) put_decision(r, rent, "fastest", rent->fastest);
	lk_json_array_end(r);
	lk_report_facts(r);
	lk_report_fact(r, "model", rent->model);
	snprintf(detail, sizeof detail, "%s samples", lk_format_count(rent->samples, text, sizeof text));
	lk_report_fact(r, "training", detail);
	if (rent->deadline_h > 0) lk_report_fact(r, "deadline", hours(rent->deadline_h, text, sizeof text));
	if (rent->budget > 0) lk_report_fact(r, "budget", dollars(rent->budget, text, sizeof text));
	lk_report_fact(r, "to settle", rent->settle);
	lk_json_array_end(r);
	lk_report_panel_end(r);
}

/* Points of the front or the others; both axes are logarithmic: choices differ by factors. */
static void put_series(lk_report *r, const lk_rent *rent, const char *name, const char *key, bool pareto) {
	char text[LINE], choice[LINE / 2];
	lk_report_series(r, name, key, false);
	for (int i = 0; i < rent->count; i++) {
		const lk_rent_choice *c = &rent->choices[i];
		if (c->pareto != pareto) continue;
		choice_text(c, choice, sizeof choice);
		snprintf(text, sizeof text, "%s; price of %s, %s%s%s", choice, c->date, c->source, lk_rent_mark(rent, i) ? "; " : "",
		         lk_rent_mark(rent, i) ? lk_rent_mark(rent, i) : "");
		lk_report_point(r, c->hours, c->cost, text, c->reproduce);
	}
	lk_report_series_end(r);
}

static void put_front(lk_report *r, const lk_rent *rent) {
	if (!rent->count) return;
	lk_report_panel(r, "scatter", "Cost against time", "click a point for the command that predicts it; on the front nobody is both cheaper and faster", true);
	lk_json_put_text(r, "role", "pareto");
	lk_report_axis(r, "x", "time of the training", "h", true);
	lk_report_axis(r, "y", "cost", "$", true);
	lk_json_array(r, "series");
	put_series(r, rent, "the front", "front", true);
	put_series(r, rent, "other choices", "other", false);
	lk_json_array_end(r);
	lk_report_panel_end(r);
}

static lk_status put_panels(const void *answer, lk_report *r, lk_error *err) {
	const lk_rent *rent = answer;
	put_verdict(r, rent);
	put_front(r, rent);
	lk_table *t = lk_rent_table(rent, true);
	lk_report_rename(t, "provider", "provider");
	lk_report_rename(t, "hours_range", "hours, 80 % range"), lk_report_rename(t, "cost_range", "dollars, 80 % range");
	lk_report_rename(t, "stall_share", "share of the step");
	return lk_report_table(r, "Choices", "list prices in US dollars of the day and source beside them", true, t, 200, err);
}

static void put_assumptions(const void *answer, lk_report *r) {
	const lk_rent *rent = answer;
	for (int i = 0; i < rent->note_count; i++) lk_report_text(r, rent->notes[i]);
}

static void put_warnings(const void *answer, lk_report *r) {
	const lk_rent *rent = answer;
	char text[LINE], choice[LINE / 2];
	for (int i = 0; i < rent->tie_count; i++) {
		choice_text(&rent->choices[rent->ties[i]], choice, sizeof choice);
		snprintf(text, sizeof text, "too close to the cheapest to call: %s", choice);
		lk_report_text(r, text);
	}
}

static lk_status put_result(const void *answer, bool colour, FILE *out, lk_error *err) {
	return lk_rent_print(answer, LK_OUTPUT_JSON, false, colour, NULL, out, err);
}

lk_status lk_report_rent(const lk_rent *rent, lk_report_form form, const char *path, FILE *out, lk_error *err) {
	char title[LINE];
	const char *model = rent->model ? rent->model : "a training";
	snprintf(title, sizeof title, "Machines for %.*s", (int)strcspn(model, ":,"), model);
	lk_report_job job = {"rent", title, rent->reproduce, rent, &rent->inputs, put_panels, put_assumptions, put_warnings, put_result, NULL};
	return lk_report_save(&job, form, path, out, err);
}
