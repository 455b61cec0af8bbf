/* report_stalls.c: the report of what stalls a command: the step from computing to measured, runs, buckets, other machines. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "view/report/report.h"
#include "view/table/table.h"

enum { TEXT = 64, LINE = 256 };

static int worst_of(const lk_stalls_answer *x) {
	int worst = -1;
	for (int k = 0; k < LK_STALL_KINDS; k++)
		if (x->parts[k].named && (worst < 0 || x->parts[k].seconds > x->parts[worst].seconds)) worst = k;
	return worst;
}

static void put_verdict(lk_report *r, const lk_stalls_answer *x) {
	int worst = worst_of(x);
	char text[TEXT], low[TEXT], high[TEXT], headline[LINE], detail[LINE], range[LINE] = "";
	if (worst >= 0)
		snprintf(headline, sizeof headline, "Largest stall: %s, %s of the step", lk_stalls_kinds[worst], lk_percent(x->parts[worst].share, text, sizeof text));
	snprintf(detail, sizeof detail, "%d rank%s on %d host%s, %d steps a run, %s", x->ranks, x->ranks == 1 ? "" : "s", x->hosts,
	         x->hosts == 1 ? "" : "s", x->steps, x->base);
	lk_report_verdict(r, worst >= 0 ? "no" : "yes", worst >= 0 ? headline : "No stall is above the noise and 2 % of the step", detail);
	lk_report_figures(r);
	if (!isnan(x->low))
		snprintf(range, sizeof range, "%s \xe2\x80\x93 %s", lk_format_seconds(x->low, low, sizeof low), lk_format_seconds(x->high, high, sizeof high));
	lk_report_figure(r, "step", lk_format_seconds(x->step_s, text, sizeof text), range, *range ? "95 % interval" : NULL);
	if (x->parts[LK_STALL_COMPUTE].share > 0)
		lk_report_figure(r, "computing", lk_percent(x->parts[LK_STALL_COMPUTE].share, text, sizeof text), NULL, "of the step");
	if (worst >= 0) {
		lk_report_figure(r, lk_stalls_kinds[worst], lk_format_seconds(x->parts[worst].seconds, text, sizeof text), NULL, "a step");
		if (isfinite(x->parts[worst].factor)) {
			snprintf(detail, sizeof detail, "x%s", lk_fixed(x->parts[worst].factor, 2, text, sizeof text));
			lk_report_figure(r, "as slow as without it", detail, NULL, NULL);
		}
	}
	lk_json_array_end(r);
	lk_report_panel_end(r);
}

static void put_waterfall(lk_report *r, const lk_stalls_answer *x) {
	static const char *const keys[LK_STALL_KINDS] = {"compute", "copy", "host", "prep", "data", "wait", "tp", "network"};
	static const char *const bases[] = {"measured", "estimated", "not known"};
	char note[LINE];
	lk_report_panel(r, "waterfall", "From computing to the measured step", "what is not known is left out", true);
	lk_json_array(r, "steps");
	for (int k = 0; k < LK_STALL_KINDS; k++) {
		const lk_stalls_part *p = &x->parts[k];
		if (isnan(p->seconds) || p->seconds == 0) continue;
		snprintf(note, sizeof note, "%s: %s", bases[p->basis], p->how);
		lk_report_fall(r, keys[k], lk_stalls_kinds[k], p->seconds, note, false);
	}
	lk_report_fall(r, "total", "measured step", x->step_s, x->base, true);
	lk_json_array_end(r);
	lk_report_panel_end(r);
}

static void put_buckets(lk_report *r, const lk_stalls_answer *x) {
	const lk_stalls_buckets *b = &x->buckets;
	char text[LINE], time[TEXT];
	if (b->count < 2) return;
	lk_report_panel(r, "scatter", "Other bucket sizes", "the transfer by calls and bytes, and the step with it", false);
	lk_json_put_text(r, "role", "buckets");
	lk_report_axis(r, "x", "bucket", "B", true);
	lk_report_axis(r, "y", "time", "s", false);
	lk_json_array(r, "series");
	for (int which = 0; which < 2; which++) {
		lk_report_series(r, which ? "transfer" : "step", which ? "tp" : "gemm", true);
		for (int i = 0; i < b->count; i++) {
			double seconds = which ? b->at[i].transfer_s : b->at[i].step_s;
			snprintf(text, sizeof text, "%s with %.3g calls a step", lk_format_seconds(seconds, time, sizeof time), b->at[i].calls);
			lk_report_point(r, b->at[i].bucket_bytes, seconds, text, NULL);
		}
		lk_report_series_end(r);
	}
	lk_json_array_end(r);
	lk_report_panel_end(r);
}

static void put_runs(lk_report *r, const lk_stalls_answer *x) {
	lk_report_panel(r, "bars", "Step by configuration", "mean over the runs of the mean step of all ranks", x->buckets.count < 2);
	lk_json_put_text(r, "unit", "s");
	lk_json_array(r, "parts");
	lk_report_part(r, "gemm", "step");
	lk_json_array_end(r);
	lk_json_array(r, "rows");
	for (int c = 0; c < LK_STALLS_CONFIGURATIONS; c++)
		if (x->rows[c].step_s > 0) lk_report_row(r, lk_stalls_configurations[c], NULL, &x->rows[c].step_s, 1);
	lk_json_array_end(r);
	lk_report_panel_end(r);
}

static bool any_run(const lk_stalls_answer *x) {
	for (int c = 0; c < LK_STALLS_CONFIGURATIONS; c++)
		if (x->rows[c].step_s > 0) return true;
	return false;
}

static lk_status put_panels(const void *answer, lk_report *r, lk_error *err) {
	const lk_stalls_answer *x = answer;
	put_verdict(r, x);
	put_waterfall(r, x);
	LK_TRY(lk_report_table(r, "Parts of the step", NULL, true, lk_stalls_table(x, LK_STALLS_PARTS), 0, err));
	if (any_run(x)) put_runs(r, x);
	put_buckets(r, x);
	LK_TRY(lk_report_table(r, "Runs", NULL, true, lk_stalls_table(x, LK_STALLS_RUNS), 0, err));
	return lk_report_table(r, "Other machines", "what the step would take, and what it would hang on", true,
	                       lk_stalls_table(x, LK_STALLS_WHAT_IF), 0, err);
}

static void put_assumptions(const void *answer, lk_report *r) {
	const lk_stalls_answer *x = answer;
	for (int i = 0; i < x->note_count; i++) lk_report_text(r, x->notes[i]);
}

static lk_status put_result(const void *answer, bool colour, FILE *out, lk_error *err) {
	return lk_stalls_print(answer, LK_OUTPUT_JSON, LK_STALLS_ALL, colour, NULL, out, err);
}

lk_status lk_report_stalls(const lk_stalls_answer *answer, lk_report_form form, const char *path, FILE *out, lk_error *err) {
	char title[LINE];
	snprintf(title, sizeof title, "What stalls a step of %d rank%s", answer->ranks, answer->ranks == 1 ? "" : "s");
	lk_report_job job = {"stalls", title, answer->reproduce, answer, &answer->inputs, put_panels, put_assumptions, NULL, put_result, NULL};
	return lk_report_save(&job, form, path, out, err);
}
