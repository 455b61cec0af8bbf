/* report_explain.c: the report of why a run is slow: the step from computing to measured, stalls,
 * ranks with stragglers marked, communication, steps, kernels, the critical path. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "base/noun.h"
#include "base/sort.h"
#include "view/text/views.h"
#include "view/report/report.h"

enum {
	TEXT = 64,
	LINE = 320,
	MOST_RANKS = 512,
	MOST_STEPS = 200,
	MOST_KERNELS = 200,
	MOST_POINTS = 80,
	MOST_SHAPED = 100,
	MOST_ROWS = 500
};

/* Colours of lk_device_parts. */
static const char *const part_keys[] = {"compute", "communication", "copy",   "data", "other",
                                        "buffers", "network",       "bubble", "prep", "tp",
                                        "wait",    "host",          "idle"};
enum { PARTS = sizeof part_keys / sizeof *part_keys };
_Static_assert(PARTS == (int)LK_DEVICE_PARTS, "each part has a colour");

static void explain_put_part(lk_report *writer, int k) {
	lk_report_part(writer, part_keys[k], lk_device_parts()[k].name);
}

static double explain_part_of(const lk_explain_rank *rank, int k) {
	LK_ASSERT(k >= 0 && k < PARTS);
	return (double)*(const int64_t *)(const void *)((const char *)rank + lk_device_parts()[k].time);
}

/* Share of all devices' time. */
static double share_of(const lk_explanation *explanation, int k) {
	double sum = 0, whole = 0;
	for (int i = 0; i < explanation->rank_count; i++) {
		sum += explain_part_of(&explanation->ranks[i], k);
		whole += (double)explanation->ranks[i].kernel_time_ns;
	}
	return whole > 0 ? sum / whole : 0;
}

/* ---- the verdict ---- */

/* The share of a step from which a stall is worth a remedy. */
static const double WORTH_RED = 0.05;

static void explain_put_verdict(lk_report *writer, const lk_explanation *explanation) {
	const lk_explain_stall *worst = explanation->stall_count ? &explanation->stalls[0] : NULL;
	char text[TEXT], other[TEXT], headline[LINE], detail[LINE];
	snprintf(detail, sizeof detail, "%d %s, %d %s, %s %s", explanation->rank_count,
	         lk_noun(explanation->rank_count, "rank", "ranks"), explanation->step_count,
	         lk_noun(explanation->step_count, "step", "steps"),
	         lk_format_thousands((double)explanation->kernels, text, sizeof text),
	         lk_noun((double)explanation->kernels, "kernel", "kernels"));
	if (worst && worst->share >= WORTH_RED) {
		snprintf(headline, sizeof headline, "%.60s: %.150s", worst->kind, worst->what);
		lk_report_verdict(writer, "no", headline, detail);
	} else if (worst) {
		snprintf(headline, sizeof headline, "Nothing larger than %s to gain",
		         lk_percent(worst->share, other, sizeof other));
		lk_report_verdict(writer, "yes", headline, detail);
	} else lk_report_verdict(writer, "yes", "Nothing stalls the step", detail);
	lk_report_figures(writer);
	if (!isnan(explanation->step_deviation_s))
		snprintf(detail, sizeof detail, "+- %s over the steps",
		         lk_format_seconds(explanation->step_deviation_s, other, sizeof other));
	else *detail = '\0';
	lk_report_figure(writer, "step", lk_format_seconds(explanation->step_s, text, sizeof text),
	                 detail, NULL);
	if (worst)
		lk_report_figure(writer, "largest stall",
		                 lk_format_seconds(worst->lost_s, text, sizeof text),
		                 lk_percent(worst->share, other, sizeof other), "of a step");
	lk_report_figure(writer, "computing", lk_percent(share_of(explanation, 0), text, sizeof text),
	                 NULL, "of the devices' time");
	lk_report_figure(writer, "exposed communication",
	                 lk_percent(share_of(explanation, 1), text, sizeof text), NULL, NULL);
	if (explanation->anchors > 0) {
		snprintf(detail, sizeof detail, "on %u %s", explanation->anchors,
		         lk_noun(explanation->anchors, "collective", "collectives"));
		lk_report_figure(writer, "clocks agree within",
		                 lk_format_seconds(explanation->residual_max_s, text, sizeof text), NULL,
		                 detail);
	}
	if (explanation->energy.site_watts > 0) {
		snprintf(detail, sizeof detail, "%.0f W a GPU, PUE %.3g", explanation->energy.gpu_watts,
		         explanation->energy.pue);
		lk_report_figure(writer, "energy of a step",
		                 lk_format_energy(explanation->energy.step_kwh, text, sizeof text), NULL,
		                 detail);
	}
	lk_json_array_end(writer);
	lk_report_facts(writer);
	if (explanation->diagnosis) lk_report_fact(writer, "diagnosis", explanation->diagnosis);
	if (worst) lk_report_fact(writer, "evidence", worst->evidence);
	for (int i = 0; i < explanation->action_count; i++) {
		LK_ASSERT(explanation->actions[i] >= 0 &&
		          explanation->actions[i] < explanation->stall_count);
		const lk_explain_stall *stall = &explanation->stalls[explanation->actions[i]];
		lk_format_seconds(lk_action_worth(stall), text, sizeof text);
		snprintf(headline, sizeof headline, "%s %s (%.40s): %.150s", lk_action_says(stall), text,
		         stall->kind, stall->remedy);
		lk_report_fact(writer, i ? "then" : "do first", headline);
	}
	lk_json_array_end(writer);
	lk_report_panel_end(writer);
}

static void explain_put_waterfall(lk_report *writer, const lk_explanation *explanation) {
	double sum = 0;
	lk_report_panel(writer, "waterfall", "From computing to the measured step",
	                "mean over ranks and steps", true);
	lk_json_array(writer, "steps");
	for (int k = 0; k < PARTS; k++) {
		double seconds = share_of(explanation, k) * explanation->step_s;
		sum += seconds;
		if (seconds > 0)
			lk_report_fall(writer, part_keys[k], lk_device_parts()[k].name, seconds, NULL, false);
	}
	if (fabs(explanation->step_s - sum) > 0.002 * explanation->step_s)
		lk_report_fall(writer, "bubble", "between steps", explanation->step_s - sum, NULL, false);
	lk_report_fall(writer, "total", "measured step", explanation->step_s, NULL, true);
	lk_json_array_end(writer);
	lk_report_panel_end(writer);
}

/* ---- ranks ---- */

/* Whether it is a straggler, as the stalls say. */
static const char *explain_mark_of(const lk_explanation *explanation, int rank) {
	for (int i = 0; i < explanation->stall_count; i++)
		if (explanation->stalls[i].subject == rank &&
		    strcmp(explanation->stalls[i].kind, "straggler") == 0)
			return "straggler";
	return NULL;
}

/* What a rank loses that computing does not take. */
static double lost(const lk_explain_rank *rank) {
	return (double)(rank->kernel_time_ns - rank->compute_ns);
}

static int explain_by_loss(const void *a, const void *b) {
	const lk_explain_rank *const *x = a, *const *y = b;
	if (lost(*x) != lost(*y)) return lost(*x) < lost(*y) ? 1 : -1;
	return ((*x)->rank > (*y)->rank) - ((*x)->rank < (*y)->rank);
}

static lk_status explain_put_ranks(lk_report *writer, const lk_explanation *explanation,
                                   lk_error *err) {
	const lk_explain_rank **order = malloc(((size_t)explanation->rank_count + 1) * sizeof *order);
	char name[TEXT];
	if (!order) return lk_oom(err);
	for (int i = 0; i < explanation->rank_count; i++) order[i] = &explanation->ranks[i];
	lk_sort(order, (size_t)explanation->rank_count, sizeof *order, explain_by_loss);
	lk_report_panel(writer, "bars", "Where each rank's time goes",
	                "a step, those that lose most first; stragglers keep the others waiting", true);
	lk_json_put_text(writer, "unit", "s");
	lk_json_array(writer, "parts");
	for (int k = 0; k < PARTS; k++) explain_put_part(writer, k);
	lk_json_array_end(writer);
	lk_json_array(writer, "rows");
	for (int i = 0; i < explanation->rank_count && i < MOST_RANKS; i++) {
		double values[PARTS];
		for (int k = 0; k < PARTS; k++)
			values[k] =
				explain_part_of(order[i], k) * 1e-9 / (order[i]->steps > 0 ? order[i]->steps : 1);
		snprintf(name, sizeof name, "rank %d", order[i]->rank);
		lk_report_row(writer, name, explain_mark_of(explanation, order[i]->rank), values, PARTS);
	}
	lk_json_array_end(writer);
	if (explanation->rank_count > MOST_RANKS)
		lk_json_put_integer(writer, "left_out", explanation->rank_count - MOST_RANKS);
	lk_report_panel_end(writer);
	free(order);
	return LK_OK;
}

/* ---- steps ---- */

static void put_steps(lk_report *writer, const lk_explanation *explanation) {
	char name[TEXT];
	int shown = explanation->step_rows < MOST_STEPS ? explanation->step_rows : MOST_STEPS;
	if (explanation->step_rows <= explanation->rank_count) return; /* the ranks' bars say it */
	lk_report_panel(writer, "bars", "Step by step", "by rank, then time", false);
	lk_json_put_text(writer, "unit", "s");
	lk_json_array(writer, "parts");
	for (int k = 0; k < LK_BUSY_PARTS; k++) explain_put_part(writer, k);
	lk_report_part(writer, "idle", "idle");
	lk_json_array_end(writer);
	lk_json_array(writer, "rows");
	for (int i = 0; i < shown; i++) {
		const lk_explain_step *step = &explanation->steps[i];
		const double values[] = {
			(double)step->compute_ns * 1e-9, (double)step->exposed_communication_ns * 1e-9,
			(double)step->exposed_memory_ns * 1e-9, (double)step->idle_ns * 1e-9};
		if (explanation->rank_count > 1)
			snprintf(name, sizeof name, "rank %d, step %lld", step->rank, (long long)step->number);
		else snprintf(name, sizeof name, "step %lld", (long long)step->number);
		lk_report_row(writer, name, NULL, values, 4);
	}
	lk_json_array_end(writer);
	if (shown < explanation->step_rows)
		lk_json_put_integer(writer, "left_out", explanation->step_rows - shown);
	lk_report_panel_end(writer);
}

/* ---- communication ---- */

static bool has_rate(const lk_explain_comm *comm) {
	return comm->busbw > 0 && comm->bytes > 0 && comm->count > 0;
}

/* A colour for each row: its points and the model's curve have it. */
static char *comm_key(int row, char out[TEXT]) {
	enum { COLOURS = 8 };
	snprintf(out, TEXT, "c%d", row % COLOURS);
	return out;
}

static void explain_put_measured(lk_report *writer, const lk_explanation *explanation, int row) {
	const lk_explain_comm *comm = &explanation->comm[row];
	char name[LINE], text[LINE], key[TEXT];
	if (!has_rate(comm)) return;
	snprintf(name, sizeof name, "%.60s%s%.80s", comm->kind, *comm->group ? ", " : "", comm->group);
	snprintf(text, sizeof text, "%.200s: %llu%s", name, (unsigned long long)comm->count,
	         comm->matched == comm->count ? "" : ", waiting counted too");
	lk_report_series(writer, name, comm_key(row, key), false);
	lk_report_point(writer, comm->bytes / (double)comm->count, comm->busbw * 1e9, text, NULL);
	lk_report_series_end(writer);
}

/* The part of a curve near the messages that were sent: a hundredth of their size to a hundred
 * times. */
static void explain_put_curve(lk_report *writer, const lk_explanation *explanation,
                              const lk_explain_curve *curve) {
	const double far = 128;
	const lk_explain_comm *comm = &explanation->comm[curve->comm];
	double sent = comm->bytes / (double)comm->count;
	char name[LINE], key[TEXT];
	if (!has_rate(comm)) return;
	snprintf(name, sizeof name, "model: %.60s of %d on %d %s", curve->kind, curve->ranks,
	         curve->nodes, lk_noun(curve->nodes, "node", "nodes"));
	lk_report_series(writer, name, comm_key(curve->comm, key), true);
	for (int k = 0; k < curve->count; k++)
		if (curve->busbw[k] > 0 && curve->bytes[k] > sent / far && curve->bytes[k] < sent * far)
			lk_report_point(writer, curve->bytes[k], curve->busbw[k] * 1e9, NULL, NULL);
	lk_report_series_end(writer);
}

static void explain_put_collectives(lk_report *writer, const lk_explanation *explanation) {
	char note[2 * LINE];
	int any = 0;
	for (int i = 0; i < explanation->comm_count; i++) any += has_rate(&explanation->comm[i]);
	if (!any) return;
	lk_text text = lk_text_begin(note, sizeof note);
	lk_text_add(&text, "points: measured, mean size and mean rate of each kind and group; ");
	if (explanation->curve_count)
		lk_text_add(&text, "lines: the model on %.300s", explanation->held_against);
	else
		lk_text_add(&text, "no curves of the model: %.300s",
		            explanation->no_curves ? explanation->no_curves : "");
	lk_report_panel(writer, "scatter", "Collectives: bus bandwidth over size", note, false);
	lk_json_put_text(writer, "role", "collectives");
	lk_report_axis(writer, "x", "mean size of a message", "B", true);
	lk_report_axis(writer, "y", "bus bandwidth, as nccl-tests define it", "B/s", true);
	lk_json_array(writer, "series");
	for (int i = 0; i < explanation->curve_count; i++)
		explain_put_curve(writer, explanation, &explanation->curves[i]);
	for (int i = 0; i < explanation->comm_count; i++) explain_put_measured(writer, explanation, i);
	lk_json_array_end(writer);
	lk_report_panel_end(writer);
}

/* ---- kernels under their roof ---- */

static double each_s(const lk_explain_shaped *shaped) {
	return shaped->total_ns * 1e-9 / (double)shaped->count;
}

/* What has a place under the roof: operations that multiply. The table has the others. */
static bool explain_on_roofline(const lk_explain_shaped *shaped) {
	return shaped->count && shaped->flops > 0 && shaped->bytes > 0 && shaped->total_ns > 0 &&
	       shaped->peak_flops > 0;
}

/* How many of the costliest are drawn, and between which intensities. */
static int few_shaped(const lk_explanation *explanation, double *low, double *high) {
	int drawn = 0, end = 0;
	*low = INFINITY;
	*high = 0;
	for (; end < explanation->shaped_count && drawn < MOST_POINTS; end++) {
		const lk_explain_shaped *shaped = &explanation->shaped[end];
		if (!explain_on_roofline(shaped)) continue;
		*low = fmin(*low, shaped->flops / shaped->bytes);
		*high = fmax(*high, shaped->flops / shaped->bytes);
		drawn++;
	}
	return drawn ? end : 0;
}

static bool seen_before(const lk_explanation *explanation, int i, bool by_peak) {
	for (int k = 0; k < i; k++) {
		const lk_explain_shaped *a = &explanation->shaped[k], *b = &explanation->shaped[i];
		if (explain_on_roofline(a) &&
		    (by_peak ? a->peak_flops == b->peak_flops : strcmp(a->kind, b->kind) == 0))
			return true;
	}
	return false;
}

/* Memory bandwidth up to the peak of a number format; formats with the same peak have one roof. */
static void explain_put_roof(lk_report *writer, const lk_explanation *explanation,
                             const lk_explain_shaped *shaped, double low, double high) {
	double ridge = shaped->peak_flops / explanation->memory_rate;
	char name[LINE];
	snprintf(name, sizeof name, "roof: memory bandwidth, then %.20s peak", shaped->dtype);
	lk_report_series(writer, name, "roof", true);
	if (low < ridge) lk_report_point(writer, low, low * explanation->memory_rate, NULL, NULL);
	lk_report_point(writer, fmax(ridge, low), shaped->peak_flops, NULL, NULL);
	if (high > ridge) lk_report_point(writer, high, shaped->peak_flops, NULL, NULL);
	lk_report_series_end(writer);
}

static void put_shaped(lk_report *writer, const lk_explanation *explanation, const char *kind,
                       int end) {
	char text[2 * LINE], each[TEXT], all[TEXT];
	lk_report_series(writer, kind, kind, false);
	for (int i = 0; i < end; i++) {
		const lk_explain_shaped *shaped = &explanation->shaped[i];
		if (!explain_on_roofline(shaped) || strcmp(shaped->kind, kind) != 0) continue;
		snprintf(text, sizeof text,
		         "%.60s %.120s %.20s: %s each, %llu, %s together, %.0f %% of the roof",
		         shaped->operation, shaped->shapes, shaped->dtype,
		         lk_format_seconds(each_s(shaped), each, sizeof each),
		         (unsigned long long)shaped->count,
		         lk_format_seconds(shaped->total_ns * 1e-9, all, sizeof all), 100 * shaped->roof);
		lk_report_point(writer, shaped->flops / shaped->bytes, shaped->flops / each_s(shaped), text,
		                NULL);
	}
	lk_report_series_end(writer);
}

static void explain_put_roofline(lk_report *writer, const lk_explanation *explanation) {
	double low, high;
	int end = few_shaped(explanation, &low, &high);
	char note[2 * LINE], share[TEXT];
	const char *why;
	if (explanation->no_roofline) why = explanation->no_roofline;
	else if (explanation->shaped_count && !end)
		why = "no operation of known shape multiplies matrices";
	else why = NULL;
	if (why) {
		lk_report_panel(writer, "text", "Kernels under their roof", NULL, false);
		lk_json_array(writer, "lines");
		snprintf(note, sizeof note, "There is no roofline: %.400s.", why);
		lk_report_text(writer, note);
		lk_json_array_end(writer);
		lk_report_panel_end(writer);
	}
	if (why || !end) return;
	snprintf(note, sizeof note,
	         "the costliest operations of known shape against %.100s; %s of all kernel time has a "
	         "known shape",
	         explanation->held_against, lk_percent(explanation->shaped_share, share, sizeof share));
	lk_report_panel(writer, "scatter", "Kernels under their roof", note, false);
	lk_json_put_text(writer, "role", "roofline");
	lk_report_axis(writer, "x", "arithmetic intensity", "FLOP/B", true);
	lk_report_axis(writer, "y", "rate", "FLOP/s", true);
	lk_json_array(writer, "series");
	for (int i = 0; i < end; i++)
		if (explain_on_roofline(&explanation->shaped[i]) && !seen_before(explanation, i, true))
			explain_put_roof(writer, explanation, &explanation->shaped[i], low / 4, high * 2);
	for (int i = 0; i < end; i++)
		if (explain_on_roofline(&explanation->shaped[i]) && !seen_before(explanation, i, false))
			put_shaped(writer, explanation, explanation->shaped[i].kind, end);
	lk_json_array_end(writer);
	lk_report_panel_end(writer);
}

static void explain_put_critical(lk_report *writer, const lk_explanation *explanation) {
	const lk_critical_path *path = &explanation->critical;
	if (!path->part_count) return;
	lk_report_panel(writer, "bars", "The critical path", "the chain of work that the step hangs on",
	                false);
	lk_json_put_text(writer, "unit", "s");
	lk_json_array(writer, "parts");
	lk_report_part(writer, "gemm", "on the path");
	lk_json_array_end(writer);
	lk_json_array(writer, "rows");
	for (int i = 0; i < path->part_count; i++)
		lk_report_row(writer, path->parts[i].kind, NULL, &path->parts[i].seconds, 1);
	lk_json_array_end(writer);
	lk_report_panel_end(writer);
}

/* ---- the whole ---- */

static lk_status explain_put_table(lk_report *writer, const lk_explanation *explanation, int which,
                                   const char *title, bool wide, int most, lk_error *err) {
	lk_table *table = lk_explain_table(explanation, which, false);
	if (table) lk_table_hide_empty(table);
	if (which == LK_EXPLAIN_ROOFLINE)
		lk_report_hide(table, "kernel"); /* the table of kernels has long names enough */
	return lk_report_table(writer, title, NULL, wide, table, most, err);
}

static lk_status explain_put_panels(const void *answer, lk_report *writer, lk_error *err) {
	const lk_explanation *explanation = answer;
	explain_put_verdict(writer, explanation);
	if (explanation->versus) LK_TRY(lk_report_versus(writer, explanation->versus, err));
	explain_put_waterfall(writer, explanation);
	LK_TRY(lk_report_traced_step(writer, explanation, err));
	LK_TRY(explain_put_table(writer, explanation, LK_EXPLAIN_STALLS, "Stalls, the worst first",
	                         true, MOST_ROWS, err));
	LK_TRY(explain_put_ranks(writer, explanation, err));
	explain_put_critical(writer, explanation);
	explain_put_collectives(writer, explanation);
	explain_put_roofline(writer, explanation);
	put_steps(writer, explanation);
	if (explanation->rank_count > 1)
		LK_TRY(explain_put_table(writer, explanation, LK_EXPLAIN_STRAGGLERS,
		                         "Who keeps the others waiting", true, MOST_ROWS, err));
	LK_TRY(explain_put_table(writer, explanation, LK_EXPLAIN_COMMUNICATION, "Communication", true,
	                         MOST_ROWS, err));
	LK_TRY(explain_put_table(writer, explanation, LK_EXPLAIN_MODULES, "Modules", true, MOST_ROWS,
	                         err));
	LK_TRY(explain_put_table(writer, explanation, LK_EXPLAIN_KERNELS, "Kernels", true, MOST_KERNELS,
	                         err));
	LK_TRY(explain_put_table(writer, explanation, LK_EXPLAIN_ROOFLINE, "Operations of known shape",
	                         true, MOST_SHAPED, err));
	LK_TRY(explain_put_table(writer, explanation, LK_EXPLAIN_STRETCHES, "Idle stretches", true,
	                         MOST_KERNELS, err));
	LK_TRY(explain_put_table(writer, explanation, LK_EXPLAIN_OVERLAP, "Overlap of communication",
	                         false, MOST_ROWS, err));
	LK_TRY(explain_put_table(writer, explanation, LK_EXPLAIN_IDLE, "Idle streams", true, MOST_ROWS,
	                         err));
	LK_TRY(explain_put_table(writer, explanation, LK_EXPLAIN_QUEUE, "Queues of launches", true,
	                         MOST_ROWS, err));
	return explain_put_table(writer, explanation, LK_EXPLAIN_LAUNCHES, "Launches", true, MOST_ROWS,
	                         err);
}

static void explain_put_warnings(const void *answer, lk_report *writer) {
	const lk_explanation *explanation = answer;
	for (int i = 0; i < explanation->warning_count; i++)
		lk_report_text(writer, explanation->warnings[i]);
}

static lk_status explain_put_result(const void *answer, bool colour, FILE *out, lk_error *err) {
	return lk_explain_print(answer, LK_OUTPUT_JSON, LK_EXPLAIN_ALL, colour, NULL, out, err);
}

lk_status lk_report_explain(const lk_explanation *explanation, lk_report_form form,
                            const char *path, FILE *out, lk_error *err) {
	char title[LINE];
	snprintf(title, sizeof title, "Why a step of %d %s takes its time", explanation->rank_count,
	         lk_noun(explanation->rank_count, "rank", "ranks"));
	lk_report_job job = {"explain",
	                     title,
	                     explanation->reproduce,
	                     explanation,
	                     &explanation->inputs,
	                     explain_put_panels,
	                     NULL,
	                     explain_put_warnings,
	                     explain_put_result,
	                     NULL,
	                     explanation->failed_check};
	return lk_report_save(&job, form, path, out, err);
}
