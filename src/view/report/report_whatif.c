/* report_whatif.c: the report of changes: each one's step beside the base, and what it is made of. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "view/report/report.h"
#include "view/table/table.h"

enum { TEXT = 64, LINE = 256, MOST_ROWS = 400 };

static int fastest_of(const lk_whatif *w) {
	int best = 0;
	for (int i = 1; i < w->column_count; i++)
		if (!w->columns[i].refused && w->columns[i].step_s < w->columns[best].step_s) best = i;
	return best;
}

static char *signed_percent(double share, char *out, size_t size) {
	char number[TEXT];
	snprintf(out, size, "%s%s %%", share > 0 ? "+" : share < 0 ? "\xe2\x88\x92" : "", lk_fixed(100 * fabs(share), 1, number, sizeof number));
	return out;
}

static void put_verdict(lk_report *r, const lk_whatif *w) {
	int best = fastest_of(w);
	const lk_whatif_column *base = &w->columns[0], *c = &w->columns[best];
	const double little = 0.005; /* less is lost between two runs of one job */
	bool gains = best && c->change < -little;
	char text[TEXT], change[TEXT], headline[LINE], detail[LINE] = "", note[LINE];
	if (best) snprintf(headline, sizeof headline, "%.180s: %s", c->label, signed_percent(c->change, change, sizeof change));
	if (best) snprintf(detail, sizeof detail, "%s%.200s", gains ? "the shortest step" : "the shortest step is that of ", gains ? "" : headline);
	lk_report_verdict(r, gains ? "yes" : "plain", gains ? headline : w->column_count > 1 ? best ? "No change makes the step much shorter" : "No change makes the step shorter" : "The base", detail);
	lk_report_figures(r);
	lk_report_figure(r, "base step", lk_format_seconds(base->step_s, text, sizeof text), NULL, NULL);
	if (best) {
		snprintf(note, sizeof note, "\xc2\xb1 %s %%, an expected error", lk_fixed(100 * c->uncertainty, 1, change, sizeof change));
		lk_report_figure(r, "shortest step", lk_format_seconds(c->step_s, text, sizeof text), NULL, note);
	}
	snprintf(text, sizeof text, "%d", base->ranks);
	lk_report_figure(r, "GPUs of the base", text, NULL, NULL);
	lk_json_array_end(r);
	lk_report_facts(r);
	lk_report_fact(r, "base", w->source);
	lk_report_fact(r, "cluster", base->cluster);
	lk_json_array_end(r);
	lk_report_panel_end(r);
}

static void put_changes(lk_report *r, const lk_whatif *w) {
	int rows = 0;
	lk_report_panel(r, "bars", "The step with each change", "what hides behind compute is no part of it", true);
	lk_json_put_text(r, "unit", "s");
	lk_json_array(r, "parts");
	lk_report_part(r, "compute", "compute");
	lk_report_part(r, "communication", "communication, exposed");
	lk_report_part(r, "idle", "waiting, host, copies");
	lk_json_array_end(r);
	lk_json_array(r, "rows");
	for (int i = 0; i < w->column_count && rows < MOST_ROWS; i++) {
		const lk_whatif_column *c = &w->columns[i];
		if (c->refused) continue;
		lk_report_row(r, c->label, NULL, (double[]){c->compute_s, c->exposed_s, c->other_s}, 3);
		rows++;
	}
	lk_json_array_end(r);
	lk_report_panel_end(r);
}

/* Steps of changes beside that of the base: what bars from zero do not show. */
static void put_differences(lk_report *r, const lk_whatif *w) {
	if (w->column_count < 2) return;
	lk_report_panel(r, "tornado", "Longer or shorter than the base", NULL, true);
	lk_json_put_number(r, "base", w->columns[0].step_s);
	lk_json_array(r, "labels");
	lk_report_text(r, ""), lk_report_text(r, "");
	lk_json_array_end(r);
	lk_json_array(r, "rows");
	for (int i = 1; i < w->column_count && i < MOST_ROWS; i++)
		if (!w->columns[i].refused) lk_report_swing(r, w->columns[i].label, NAN, w->columns[i].step_s);
	lk_json_array_end(r);
	lk_report_panel_end(r);
}

static lk_status put_panels(const void *answer, lk_report *r, lk_error *err) {
	const lk_whatif *w = answer;
	put_verdict(r, w);
	put_differences(r, w);
	put_changes(r, w);
	return lk_report_table(r, "Changes", "uncertainty: an expected error, larger the farther from what was measured", true, lk_whatif_table(w), MOST_ROWS, err);
}

static void put_assumptions(const void *answer, lk_report *r) {
	const lk_whatif *w = answer;
	for (int i = 0; i < w->note_count; i++) lk_report_text(r, w->notes[i]);
}

/* Combinations repeat what their parts say. */
static bool said(const lk_whatif *w, int before, const char *note) {
	for (int i = 0; i < before; i++)
		for (int n = 0; n < w->columns[i].note_count; n++)
			if (strcmp(w->columns[i].notes[n], note) == 0) return true;
	return false;
}

static void put_warnings(const void *answer, lk_report *r) {
	const lk_whatif *w = answer;
	for (int i = 0; i < w->column_count; i++) {
		if (w->columns[i].refused) lk_report_text(r, w->columns[i].refused);
		for (int n = 0; n < w->columns[i].note_count; n++)
			if (!said(w, i, w->columns[i].notes[n])) lk_report_text(r, w->columns[i].notes[n]);
	}
}

static lk_status put_result(const void *answer, bool colour, FILE *out, lk_error *err) {
	return lk_whatif_print(answer, LK_OUTPUT_JSON, false, colour, NULL, out, err);
}

lk_status lk_report_whatif(const lk_whatif *whatif, lk_report_form form, const char *path, FILE *out, lk_error *err) {
	char title[LINE];
	const char *slash = strrchr(whatif->source, '/');
	snprintf(title, sizeof title, "Changes to %s", slash && slash[1] ? slash + 1 : whatif->source);
	lk_report_job job = {"whatif", title, whatif->reproduce, whatif, &whatif->inputs, put_panels, put_assumptions, put_warnings, put_result, NULL};
	return lk_report_save(&job, form, path, out, err);
}
