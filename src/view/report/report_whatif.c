/* report_whatif.c: the report of changes: each one's step beside the base, and what it is made of.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "view/report/report.h"
#include "view/text/views.h"

enum { TEXT = 64, LINE = 256, MOST_ROWS = 400 };

static int fastest_of(const lk_whatif *whatif) {
	LK_ASSERT(whatif->column_count > 0); /* the base */
	int best = 0;
	for (int i = 1; i < whatif->column_count; i++)
		if (!whatif->columns[i].refused && whatif->columns[i].step_s < whatif->columns[best].step_s)
			best = i;
	return best;
}

static char *whatif_signed_percent(double share, char *out, size_t size) {
	char number[TEXT];
	const char *sign = "";
	if (share > 0) sign = "+";
	else if (share < 0) sign = "\xe2\x88\x92";
	snprintf(out, size, "%s%s %%", sign, lk_fixed(100 * fabs(share), 1, number, sizeof number));
	return out;
}

static void whatif_put_verdict(lk_report *writer, const lk_whatif *whatif) {
	int best = fastest_of(whatif);
	const lk_whatif_column *base = &whatif->columns[0], *column = &whatif->columns[best];
	const double little = 0.005; /* less is lost between two runs of one job */
	bool gains = best && column->change < -little;
	char text[TEXT], change[TEXT], headline[LINE], detail[LINE] = "", note[LINE];
	if (best)
		snprintf(headline, sizeof headline, "%.180s: %s", column->label,
		         whatif_signed_percent(column->change, change, sizeof change));
	const char *said = "The base";
	if (gains) {
		said = headline;
		lk_copy(detail, sizeof detail, "the shortest step");
	} else if (best) {
		said = "No change makes the step much shorter";
		snprintf(detail, sizeof detail, "the shortest step is that of %.200s", headline);
	} else if (whatif->column_count > 1) said = "No change makes the step shorter";
	lk_report_verdict(writer, gains ? "yes" : "plain", said, detail);
	lk_report_figures(writer);
	lk_report_figure(writer, "base step", lk_format_seconds(base->step_s, text, sizeof text), NULL,
	                 NULL);
	if (best) {
		snprintf(note, sizeof note, "\xc2\xb1 %s %%, an expected error",
		         lk_fixed(100 * column->uncertainty, 1, change, sizeof change));
		lk_report_figure(writer, "shortest step",
		                 lk_format_seconds(column->step_s, text, sizeof text), NULL, note);
	}
	snprintf(text, sizeof text, "%d", base->ranks);
	lk_report_figure(writer, "GPUs of the base", text, NULL, NULL);
	lk_json_array_end(writer);
	lk_report_facts(writer);
	lk_report_fact(writer, "base", whatif->source);
	lk_report_fact(writer, "cluster", base->cluster);
	lk_json_array_end(writer);
	lk_report_panel_end(writer);
}

static void put_changes(lk_report *writer, const lk_whatif *whatif) {
	int rows = 0;
	lk_report_panel(writer, "bars", "The step with each change",
	                "what overlaps with compute is not part of it", true);
	lk_json_put_text(writer, "unit", "s");
	lk_json_array(writer, "parts");
	lk_report_part(writer, "compute", "compute");
	lk_report_part(writer, "communication", "communication, exposed");
	lk_report_part(writer, "idle", "waiting, host, copies");
	lk_json_array_end(writer);
	lk_json_array(writer, "rows");
	for (int i = 0; i < whatif->column_count && rows < MOST_ROWS; i++) {
		const lk_whatif_column *column = &whatif->columns[i];
		if (column->refused) continue;
		lk_report_row(writer, column->label, NULL,
		              (double[]){column->compute_s, column->exposed_s, column->other_s}, 3);
		rows++;
	}
	lk_json_array_end(writer);
	lk_report_panel_end(writer);
}

/* Steps of changes alongside that of the base: what bars from zero do not show. */
static void put_differences(lk_report *writer, const lk_whatif *whatif) {
	if (whatif->column_count < 2) return;
	lk_report_panel(writer, "tornado", "Longer or shorter than the base", NULL, true);
	lk_json_put_number(writer, "base", whatif->columns[0].step_s);
	lk_json_array(writer, "labels");
	lk_report_text(writer, "");
	lk_report_text(writer, "");
	lk_json_array_end(writer);
	lk_json_array(writer, "rows");
	for (int i = 1; i < whatif->column_count && i < MOST_ROWS; i++)
		if (!whatif->columns[i].refused)
			lk_report_swing(writer, whatif->columns[i].label, NAN, whatif->columns[i].step_s);
	lk_json_array_end(writer);
	lk_report_panel_end(writer);
}

static lk_status whatif_put_panels(const void *answer, lk_report *writer, lk_error *err) {
	const lk_whatif *whatif = answer;
	whatif_put_verdict(writer, whatif);
	put_differences(writer, whatif);
	put_changes(writer, whatif);
	return lk_report_table(
		writer, "Changes",
		"uncertainty: an expected error, larger the farther from what was measured", true,
		lk_whatif_table(whatif), MOST_ROWS, err);
}

static void whatif_put_assumptions(const void *answer, lk_report *writer) {
	const lk_whatif *whatif = answer;
	for (int i = 0; i < whatif->note_count; i++) lk_report_text(writer, whatif->notes[i]);
}

static void whatif_put_warnings(const void *answer, lk_report *writer) {
	const lk_whatif *whatif = answer;
	for (int i = 0; i < whatif->column_count; i++) {
		if (whatif->columns[i].refused) lk_report_text(writer, whatif->columns[i].refused);
		for (int n = 0; n < whatif->columns[i].note_count; n++)
			if (!lk_whatif_said(whatif, i, whatif->columns[i].notes[n]))
				lk_report_text(writer, whatif->columns[i].notes[n]);
	}
}

static lk_status whatif_put_result(const void *answer, bool colour, FILE *out, lk_error *err) {
	return lk_whatif_print(answer, LK_OUTPUT_JSON, false, colour, NULL, out, err);
}

lk_status lk_report_whatif(const lk_whatif *whatif, lk_report_form form, const char *path,
                           FILE *out, lk_error *err) {
	char title[LINE];
	const char *slash = strrchr(whatif->source, '/');
	snprintf(title, sizeof title, "Changes to %s", slash && slash[1] ? slash + 1 : whatif->source);
	lk_report_job job = {"whatif",
	                     title,
	                     whatif->reproduce,
	                     whatif,
	                     &whatif->inputs,
	                     whatif_put_panels,
	                     whatif_put_assumptions,
	                     whatif_put_warnings,
	                     whatif_put_result,
	                     NULL,
	                     whatif->failed_check};
	return lk_report_save(&job, form, path, out, err);
}
