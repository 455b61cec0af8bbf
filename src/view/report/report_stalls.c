/* report_stalls.c: the report of what stalls a command: the step from computing to measured, runs,
 * buckets, other machines. */
#include <math.h>
#include <stdio.h>

#include "base/check.h"
#include "base/text.h"
#include "base/noun.h"
#include "view/report/report.h"
#include "view/text/views.h"

enum { TEXT = 64, LINE = 256 };

static void stalls_put_verdict(lk_report *writer, const lk_stalls_answer *answer) {
	int worst = lk_stalls_worst(answer);
	char text[TEXT], low[TEXT], high[TEXT], headline[LINE], detail[LINE], range[LINE] = "";
	snprintf(detail, sizeof detail, "%d %s on %d %s, %d %s a run, %s", answer->ranks,
	         lk_noun(answer->ranks, "rank", "ranks"), answer->hosts,
	         lk_noun(answer->hosts, "host", "hosts"), answer->steps,
	         lk_noun(answer->steps, "step", "steps"), answer->base);
	if (worst >= 0) {
		snprintf(headline, sizeof headline, "Largest stall: %s, %s of the step",
		         lk_stalls_kinds[worst], lk_percent(answer->parts[worst].share, text, sizeof text));
		lk_report_verdict(writer, "no", headline, detail);
	} else
		lk_report_verdict(writer, "yes", "No stall is above the noise and 2 % of the step", detail);
	lk_report_figures(writer);
	if (!isnan(answer->low))
		snprintf(range, sizeof range, "%s \xe2\x80\x93 %s",
		         lk_format_seconds(answer->low, low, sizeof low),
		         lk_format_seconds(answer->high, high, sizeof high));
	lk_report_figure(writer, "step", lk_format_seconds(answer->step_s, text, sizeof text), range,
	                 *range ? "95 % interval" : NULL);
	if (answer->parts[LK_STALL_COMPUTE].share > 0)
		lk_report_figure(writer, "computing",
		                 lk_percent(answer->parts[LK_STALL_COMPUTE].share, text, sizeof text), NULL,
		                 "of the step");
	if (worst >= 0) {
		lk_report_figure(writer, lk_stalls_kinds[worst],
		                 lk_format_seconds(answer->parts[worst].seconds, text, sizeof text), NULL,
		                 "a step");
		if (isfinite(answer->parts[worst].factor)) {
			snprintf(detail, sizeof detail, "x%s",
			         lk_fixed(answer->parts[worst].factor, 2, text, sizeof text));
			lk_report_figure(writer, "as long as without it", detail, NULL, NULL);
		}
	}
	lk_json_array_end(writer);
	lk_report_panel_end(writer);
}

static void stalls_put_waterfall(lk_report *writer, const lk_stalls_answer *answer) {
	static const char *const keys[LK_STALL_KINDS] = {"compute", "wait",   "copy", "host",
	                                                 "prep",    "data",   "wait", "tp",
	                                                 "network", "bubble", "wait"};
	char note[LINE];
	lk_report_panel(writer, "waterfall", "From computing to the measured step",
	                "what is not known is left out", true);
	lk_json_array(writer, "steps");
	for (int k = 0; k < answer->part_count; k++) {
		const lk_stalls_part *part = &answer->parts[k];
		if (isnan(part->seconds) || part->seconds == 0) continue;
		snprintf(note, sizeof note, "%s: %s", lk_stalls_bases[part->basis], part->how);
		/* a mark is a part of compute */
		lk_report_fall(writer, keys[part->mark ? LK_STALL_COMPUTE : k], part->name, part->seconds,
		               note, false);
	}
	lk_report_fall(writer, "total", "measured step", answer->step_s, answer->base, true);
	lk_json_array_end(writer);
	lk_report_panel_end(writer);
}

static void put_buckets(lk_report *writer, const lk_stalls_answer *answer) {
	static const char *const names[] = {"step", "transfer"}, *const keys[] = {"gemm", "tp"};
	const lk_stalls_buckets *buckets = &answer->buckets;
	char text[LINE], time[TEXT];
	LK_ASSERT(buckets->count >= 0);
	if (buckets->count < 2) return;
	lk_report_panel(writer, "scatter", "Other bucket sizes",
	                "the transfer by calls and bytes, and the step with it", false);
	lk_json_put_text(writer, "role", "buckets");
	lk_report_axis(writer, "x", "bucket", "B", true);
	lk_report_axis(writer, "y", "time", "s", false);
	lk_json_array(writer, "series");
	for (int which = 0; which < 2; which++) {
		lk_report_series(writer, names[which], keys[which], true);
		for (int i = 0; i < buckets->count; i++) {
			double seconds = which ? buckets->at[i].transfer_s : buckets->at[i].step_s;
			snprintf(text, sizeof text, "%s with %.3g calls a step",
			         lk_format_seconds(seconds, time, sizeof time), buckets->at[i].calls);
			lk_report_point(writer, buckets->at[i].bucket_bytes, seconds, text, NULL);
		}
		lk_report_series_end(writer);
	}
	lk_json_array_end(writer);
	lk_report_panel_end(writer);
}

static void put_runs(lk_report *writer, const lk_stalls_answer *answer) {
	lk_report_panel(writer, "bars", "Step by configuration",
	                "mean over the runs of the mean step of all ranks", answer->buckets.count < 2);
	lk_json_put_text(writer, "unit", "s");
	lk_json_array(writer, "parts");
	lk_report_part(writer, "gemm", "step");
	lk_json_array_end(writer);
	lk_json_array(writer, "rows");
	for (int c = 0; c < LK_STALLS_CONFIGURATIONS; c++)
		if (answer->rows[c].step_s > 0)
			lk_report_row(writer, lk_stalls_configurations[c], NULL, &answer->rows[c].step_s, 1);
	lk_json_array_end(writer);
	lk_report_panel_end(writer);
}

static bool stalls_any_run(const lk_stalls_answer *answer) {
	for (int c = 0; c < LK_STALLS_CONFIGURATIONS; c++)
		if (answer->rows[c].step_s > 0) return true;
	return false;
}

static lk_status stalls_put_panels(const void *answer, lk_report *writer, lk_error *err) {
	const lk_stalls_answer *stalls_answer = answer;
	if (stalls_answer->machine_count)
		return lk_report_table(writer, "Machines",
		                       "predicted; interconnect: share of the machine's step that one GPU "
		                       "does not take; network: how much longer joined machines take",
		                       true, lk_stalls_table(stalls_answer, LK_STALLS_MACHINES), 0, err);
	if (!stalls_answer->shown) { /* a log of Darshan: no steps */
		LK_TRY(lk_report_table(writer, "Files", NULL, false,
		                       lk_stalls_table(stalls_answer, LK_STALLS_FILES), 0, err));
		return lk_report_table(writer, "Folders", NULL, true,
		                       lk_stalls_table(stalls_answer, LK_STALLS_FOLDERS), 0, err);
	}
	stalls_put_verdict(writer, stalls_answer);
	stalls_put_waterfall(writer, stalls_answer);
	LK_TRY(lk_report_table(writer, "Parts of the step", NULL, true,
	                       lk_stalls_table(stalls_answer, LK_STALLS_PARTS), 0, err));
	if (stalls_any_run(stalls_answer)) put_runs(writer, stalls_answer);
	put_buckets(writer, stalls_answer);
	LK_TRY(lk_report_table(writer, "Runs", NULL, true,
	                       lk_stalls_table(stalls_answer, LK_STALLS_RUNS), 0, err));
	return lk_report_table(writer, "Other machines",
	                       "what the step would take, and what it would hang on", true,
	                       lk_stalls_table(stalls_answer, LK_STALLS_WHAT_IF), 0, err);
}

static void stalls_put_assumptions(const void *answer, lk_report *writer) {
	const lk_stalls_answer *stalls_answer = answer;
	for (int i = 0; i < stalls_answer->note_count; i++)
		lk_report_text(writer, stalls_answer->notes[i]);
}

static lk_status stalls_put_result(const void *answer, bool colour, FILE *out, lk_error *err) {
	return lk_stalls_print(answer, LK_OUTPUT_JSON, LK_STALLS_ALL, colour, NULL, out, err);
}

lk_status lk_report_stalls(const lk_stalls_answer *answer, lk_report_form form, const char *path,
                           FILE *out, lk_error *err) {
	char title[LINE];
	if (!answer->shown && form == LK_REPORT_CHARTS) {
		lk_fail(err, LK_ERR_INPUT, "--charts", "%s no steps to show",
		        answer->machine_count ? "of networks on machines there are"
		                              : "a log of Darshan has");
		return lk_hint(err, "leave it out, or give a folder of lockstep record");
	}
	if (answer->shown)
		snprintf(title, sizeof title, "What stalls a step of %d %s", answer->ranks,
		         lk_noun(answer->ranks, "rank", "ranks"));
	else if (answer->machine_count)
		snprintf(title, sizeof title, "Stalls of networks on machines, predicted");
	else snprintf(title, sizeof title, "Files that a program read and wrote");
	lk_report_job job = {"stalls",
	                     title,
	                     answer->reproduce,
	                     answer,
	                     &answer->inputs,
	                     stalls_put_panels,
	                     stalls_put_assumptions,
	                     NULL,
	                     stalls_put_result,
	                     NULL,
	                     answer->failed_check};
	return lk_report_save(&job, form, path, out, err);
}
