/* report_pipeline.c: the pipeline span by span, where each stage's time goes, collectives against
 * the model's curves, and kernels under their roof. */
#include "view/report/report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "base/noun.h"

/* Spans that a page shows, of all stages, and the least that each keeps. Of longer pipelines each
 * stage keeps its first and its last ones; what lies between is one span that says how many passes
 * it stands for. */
enum { MOST_SPANS = 40000, LEAST_SPANS = 40, TICKS = 1000000, TEXT = 64 };

/* ---- the pipeline ---- */

/* The spans of one lane: those of `count` at `at` that are traffic, or that are not. */
struct lane {
	const lk_detail_span *at;
	size_t count, lane_count;
	bool traffic;
	size_t keep; /* at either end */
	double tick_s;
};

static bool in_lane(const struct lane *lane, size_t i) {
	return (lane->at[i].kind == LK_SPAN_COMM) == lane->traffic;
}

static long long tick(const struct lane *lane, double seconds) {
	LK_ASSERT(lane->tick_s > 0);
	return llround(seconds / lane->tick_s);
}

/* A number of a span that is shown; `before` is the one shown before it, or NULL. */
typedef long long span_number(const struct lane *l, const lk_detail_span *span,
                              const lk_detail_span *before);

static long long gap_of(const struct lane *lane, const lk_detail_span *span,
                        const lk_detail_span *before) {
	return tick(lane, span->start_s) - (before ? tick(lane, before->end_s) : 0);
}
static long long length_of(const struct lane *lane, const lk_detail_span *span,
                           const lk_detail_span *before) {
	return (void)before, tick(lane, span->end_s) - tick(lane, span->start_s);
}
static long long microbatch_of(const struct lane *lane, const lk_detail_span *span,
                               const lk_detail_span *before) {
	return (void)lane, (void)before, span->microbatch;
}
static long long chunk_of(const struct lane *lane, const lk_detail_span *span,
                          const lk_detail_span *before) {
	return (void)lane, (void)before, span->chunk;
}

static bool pipeline_kept(const struct lane *lane, size_t seen) {
	return seen < lane->keep || seen >= lane->lane_count - lane->keep;
}

static void pipeline_put_column(lk_report *writer, const char *key, const struct lane *lane,
                                span_number *number) {
	const lk_detail_span *before = NULL;
	size_t seen = 0;
	lk_json_array(writer, key);
	for (size_t i = 0; i < lane->count; i++) {
		if (!in_lane(lane, i) || !pipeline_kept(lane, seen++)) continue;
		lk_json_put_integer(writer, NULL, number(lane, &lane->at[i], before));
		before = &lane->at[i];
	}
	lk_json_array_end(writer);
}

/* A digit for each span. */
static lk_status pipeline_put_kinds(lk_report *writer, const struct lane *lane, lk_error *err) {
	char *digits = malloc(lane->lane_count + 1);
	size_t seen = 0, used = 0;
	if (!digits) return lk_oom(err);
	for (size_t i = 0; i < lane->count; i++)
		if (in_lane(lane, i) && pipeline_kept(lane, seen++))
			digits[used++] = (char)('0' + lane->at[i].kind);
	digits[used] = '\0';
	lk_json_put_text(writer, "kinds", digits);
	free(digits);
	return LK_OK;
}
_Static_assert(LK_SPANS <= 10, "a digit for each kind");

/* What was left out in the middle of a lane: from where to where, how many passes, how much of it
 * is work. */
static void put_middle(lk_report *writer, const struct lane *lane) {
	double from = 0, to = 0, busy = 0;
	size_t seen = 0;
	if (lane->lane_count <= 2 * lane->keep) return;
	for (size_t i = 0; i < lane->count; i++) {
		if (!in_lane(lane, i)) continue;
		if (!pipeline_kept(lane, seen)) {
			if (seen == lane->keep) from = lane->at[i].start_s;
			to = lane->at[i].end_s;
			busy += lane->at[i].end_s - lane->at[i].start_s;
		}
		seen++;
	}
	lk_json_object(writer, "middle");
	lk_json_put_integer(writer, "start", tick(lane, from));
	lk_json_put_integer(writer, "length", tick(lane, to) - tick(lane, from));
	lk_json_put_integer(writer, "spans", (long long)(lane->lane_count - 2 * lane->keep));
	lk_json_put_number(writer, "busy", to > from ? busy / (to - from) : 0);
	lk_json_object_end(writer);
}

static lk_status put_lane(lk_report *writer, const char *name, const struct lane *lane, bool chunks,
                          lk_error *err) {
	if (!lane->lane_count) return LK_OK;
	lk_json_object(writer, NULL);
	lk_json_put_text(writer, "name", name);
	if (lane->traffic) lk_json_put_bool(writer, "minor", true);
	LK_TRY(pipeline_put_kinds(writer, lane, err));
	pipeline_put_column(writer, "gap", lane, gap_of);
	pipeline_put_column(writer, "length", lane, length_of);
	if (!lane->traffic) pipeline_put_column(writer, "microbatch", lane, microbatch_of);
	if (!lane->traffic && chunks) pipeline_put_column(writer, "chunk", lane, chunk_of);
	put_middle(writer, lane);
	lk_json_object_end(writer);
	return LK_OK;
}

static lk_status pipeline_put_stage(lk_report *writer, const lk_prediction *prediction, int stage,
                                    size_t begin, size_t end, size_t keep, lk_error *err) {
	static const char *const names[] = {"stage %d", "stage %d, data-parallel"};
	char name[TEXT];
	for (int traffic = 0; traffic < 2; traffic++) {
		struct lane l = {prediction->detail->spans + begin, end - begin, 0, traffic != 0, keep,
		                 prediction->step_time_s / TICKS};
		for (size_t i = 0; i < l.count; i++) l.lane_count += in_lane(&l, i);
		snprintf(name, sizeof name, names[traffic], stage);
		LK_TRY(put_lane(writer, name, &l, prediction->vp > 1, err));
	}
	return LK_OK;
}

static lk_status put_gantt(lk_report *writer, const lk_prediction *prediction, lk_error *err) {
	static const char *const kinds[LK_SPANS] = {"forward",   "backward", "weight", "recompute",
	                                            "optimizer", "other",    "comm"};
	const lk_prediction_detail *detail = prediction->detail;
	int stages = detail->stage_count;
	size_t keep = stages ? MOST_SPANS / 2 / (size_t)stages : 0, begin = 0;
	if (!detail->span_count || prediction->step_time_s <= 0) return LK_OK;
	if (keep < LEAST_SPANS) keep = LEAST_SPANS;
	lk_report_panel(writer, "gantt", "The pipeline",
	                "one row for each stage: passes of micro-batches on its first rank", true);
	lk_json_put_number(writer, "end", prediction->step_time_s);
	lk_json_put_integer(writer, "ticks", TICKS);
	lk_json_array(writer, "kinds");
	for (int i = 0; i < LK_SPANS; i++) lk_report_part(writer, kinds[i], lk_span_kinds[i]);
	lk_json_array_end(writer);
	lk_json_array(writer, "lanes");
	for (int s = 0; s < stages; s++) {
		size_t end = begin;
		while (end < detail->span_count && detail->spans[end].stage == s) end++;
		LK_TRY(pipeline_put_stage(writer, prediction, s, begin, end, keep, err));
		begin = end;
	}
	lk_json_array_end(writer);
	lk_report_panel_end(writer);
	return LK_OK;
}

/* ---- stages ---- */

static bool part_used(const lk_prediction_detail *detail, int part) {
	for (int s = 0; s < detail->stage_count; s++)
		if (detail->stages[s].exposed_s[part] > 0) return true;
	return false;
}

static void put_stages(lk_report *writer, const lk_prediction *prediction) {
	const lk_prediction_detail *detail = prediction->detail;
	char name[TEXT];
	lk_report_panel(writer, "bars", "Where each stage's time goes",
	                "exposed time of its first rank", true);
	lk_json_put_text(writer, "unit", "s");
	lk_json_array(writer, "parts");
	for (int k = 0; k < detail->part_count; k++) {
		if (!part_used(detail, k)) continue;
		lk_report_part(writer, detail->part_keys[k], detail->parts[k]);
	}
	lk_json_array_end(writer);
	lk_json_array(writer, "rows");
	for (int s = 0; s < detail->stage_count; s++) {
		snprintf(name, sizeof name, "stage %d", detail->stages[s].stage);
		double values[sizeof detail->stages->exposed_s / sizeof(double)];
		int count = 0;
		for (int k = 0; k < detail->part_count; k++)
			if (part_used(detail, k)) values[count++] = detail->stages[s].exposed_s[k];
		lk_report_row(writer, name, NULL, values, count);
	}
	lk_json_array_end(writer);
	lk_report_panel_end(writer);
}

/* ---- collectives ---- */

static void put_messages_of(lk_report *writer, const lk_prediction_detail *detail,
                            const char *group) {
	char name[TEXT], text[256], bytes[TEXT], time[TEXT];
	snprintf(name, sizeof name, "%s messages of this job", group);
	lk_report_series(writer, name, group, false);
	for (int i = 0; i < detail->message_count; i++) {
		const lk_detail_message *message = &detail->messages[i];
		if (strcmp(message->group, group) != 0 || message->busbw <= 0) continue;
		snprintf(text, sizeof text, "%.60s: %s among %d %s, %s in %s, %.3g times a step",
		         message->name, message->kind, message->ranks,
		         lk_noun(message->ranks, "rank", "ranks"),
		         lk_format_bytes(message->bytes, bytes, sizeof bytes),
		         lk_format_seconds(message->seconds, time, sizeof time), message->count);
		lk_report_point(writer, message->bytes, message->busbw, text, NULL);
	}
	lk_report_series_end(writer);
}

static bool group_before(const lk_prediction_detail *detail, int i) {
	for (int k = 0; k < i; k++)
		if (strcmp(detail->messages[k].group, detail->messages[i].group) == 0) return true;
	return false;
}

static void pipeline_put_collectives(lk_report *writer, const lk_prediction *prediction) {
	const lk_prediction_detail *detail = prediction->detail;
	char name[TEXT];
	if (!detail->curve_count && !detail->message_count) return;
	lk_report_panel(writer, "scatter", "Collectives: bus bandwidth over size",
	                "lines: the model for each group of this job; points: what the job sends",
	                false);
	lk_json_put_text(writer, "role", "collectives");
	lk_report_axis(writer, "x", "size of the message", "B", true);
	lk_report_axis(writer, "y", "bus bandwidth, as nccl-tests define it", "B/s", true);
	lk_json_array(writer, "series");
	for (int i = 0; i < detail->curve_count; i++) {
		const lk_detail_curve *curve = &detail->curves[i];
		snprintf(name, sizeof name, "%s, %s of %d", curve->kind, curve->group, curve->ranks);
		lk_report_series(writer, name, curve->group, true);
		for (int k = 0; k < curve->count; k++)
			if (curve->busbw[k] > 0)
				lk_report_point(writer, curve->bytes[k], curve->busbw[k], NULL, NULL);
		lk_report_series_end(writer);
	}
	for (int i = 0; i < detail->message_count; i++)
		if (!group_before(detail, i)) put_messages_of(writer, detail, detail->messages[i].group);
	lk_json_array_end(writer);
	lk_report_panel_end(writer);
}

/* ---- kernels ---- */

static void pipeline_put_roof(lk_report *writer, const lk_prediction_detail *detail, double low,
                              double high) {
	double ridge = detail->peak_flops / detail->memory_rate;
	lk_report_series(writer, "roof: memory bandwidth, then dense peak", "roof", true);
	if (low < ridge) lk_report_point(writer, low, low * detail->memory_rate, NULL, NULL);
	lk_report_point(writer, fmax(ridge, low), detail->peak_flops, NULL, NULL);
	if (high > ridge) lk_report_point(writer, high, detail->peak_flops, NULL, NULL);
	lk_report_series_end(writer);
}

static bool pipeline_on_roofline(const lk_detail_kernel *kernel) {
	return kernel->flops > 0 && kernel->bytes > 0 && kernel->each_s > 0;
}

static void pipeline_put_roofline(lk_report *writer, const lk_prediction *prediction) {
	const lk_prediction_detail *detail = prediction->detail;
	double low = INFINITY, high = 0;
	char text[256], time[TEXT], all[TEXT];
	for (int i = 0; i < detail->kernel_count; i++)
		if (pipeline_on_roofline(&detail->kernels[i])) {
			double x = detail->kernels[i].flops / detail->kernels[i].bytes;
			low = fmin(low, x);
			high = fmax(high, x);
		}
	if (high <= 0 || detail->peak_flops <= 0 || detail->memory_rate <= 0) return;
	lk_report_panel(writer, "scatter", "Kernels under their roof",
	                "the costliest products and attention kernels of the step, alone on the device",
	                false);
	lk_json_put_text(writer, "role", "roofline");
	lk_report_axis(writer, "x", "arithmetic intensity", "FLOP/B", true);
	lk_report_axis(writer, "y", "rate", "FLOP/s", true);
	lk_json_array(writer, "series");
	pipeline_put_roof(writer, detail, low / 4, high * 2);
	lk_report_series(writer, "kernels", "gemm", false);
	for (int i = 0; i < detail->kernel_count; i++) {
		const lk_detail_kernel *kernel = &detail->kernels[i];
		if (!pipeline_on_roofline(kernel)) continue;
		snprintf(text, sizeof text,
		         "%.60s: %s each, %.4g times a step, %s together, %.0f %% of the peak",
		         kernel->name, lk_format_seconds(kernel->each_s, time, sizeof time), kernel->count,
		         lk_format_seconds(kernel->seconds, all, sizeof all),
		         100 * kernel->flops / kernel->each_s / detail->peak_flops);
		lk_report_point(writer, kernel->flops / kernel->bytes, kernel->flops / kernel->each_s, text,
		                NULL);
	}
	lk_report_series_end(writer);
	lk_json_array_end(writer);
	lk_report_panel_end(writer);
}

static lk_status pipeline_put_kernels(lk_report *writer, const lk_prediction *prediction,
                                      lk_error *err) {
	static const lk_column columns[] = {
		{"kernel", "kernel", false, false},      {"family", "kind", false, false},
		{"count", "per step", true, false},      {"each_s", "each", true, false},
		{"seconds", "together", true, false},    {"share", "of step", true, false},
		{"flops_per_s", "TFLOP/s", true, false},
	};
	const lk_prediction_detail *detail = prediction->detail;
	char text[TEXT];
	lk_table *table = lk_table_new("kernels", columns, 7);
	for (int i = 0; table && i < detail->kernel_count; i++) {
		const lk_detail_kernel *kernel = &detail->kernels[i];
		lk_table_row(table);
		lk_table_text(table, kernel->name);
		lk_table_text(table, kernel->family);
		lk_table_number(table, kernel->count,
		                lk_format_thousands(kernel->count, text, sizeof text));
		lk_table_number(table, kernel->each_s,
		                lk_format_seconds(kernel->each_s, text, sizeof text));
		lk_table_number(table, kernel->seconds,
		                lk_format_seconds(kernel->seconds, text, sizeof text));
		lk_table_number(table, kernel->seconds / prediction->step_time_s,
		                lk_percent(kernel->seconds / prediction->step_time_s, text, sizeof text));
		if (kernel->flops > 0)
			lk_table_number(table, kernel->flops / kernel->each_s,
			                lk_fixed(kernel->flops / kernel->each_s / 1e12, 1, text, sizeof text));
		else lk_table_number(table, NAN, NULL);
	}
	return lk_report_table(writer, "Kernels",
	                       "of one rank, mean over the stages, alone on the device", true, table, 0,
	                       err);
}

lk_status lk_report_pipeline(lk_report *writer, const lk_prediction *prediction, lk_error *err) {
	LK_TRY(put_gantt(writer, prediction, err));
	put_stages(writer, prediction);
	pipeline_put_collectives(writer, prediction);
	pipeline_put_roofline(writer, prediction);
	return pipeline_put_kernels(writer, prediction, err);
}
