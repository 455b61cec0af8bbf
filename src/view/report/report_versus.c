/* report_versus.c: a measured run beside its prediction: parts of a step next to each other, what
 * explains the difference, and the timeline of the traced step over the predicted one. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "view/report/report.h"
#include "view/text/views.h"

enum { TICKS = 1000000, TEXT = 128, PARTS = 24 };

/* ---- the timeline ---- */

/* Colours of lk_explain_sorts. */
static const char *const span_keys[LK_EXPLAIN_SORTS] = {
	"forward", "backward", "recompute", "optimizer", "other", "comm", "copy"};
_Static_assert(LK_EXPLAIN_SORTS <= 10, "a digit for each sort");

static int lane_of_span(const lk_explain_span *span) {
	return span->sort < LK_EXPLAIN_PHASES ? 0 : span->sort;
}

/* The spans of one rank and lane, which follow one another. */
static lk_status put_span_lane(lk_report *writer, const char *name, const lk_explain_span *span,
                               int count, double tick_s, lk_error *err) {
	char *digits = calloc((size_t)count + 1, 1);
	if (!digits) return lk_oom(err);
	for (int i = 0; i < count; i++) digits[i] = (char)('0' + span[i].sort);
	lk_json_object(writer, NULL);
	lk_json_put_text(writer, "name", name);
	if (lane_of_span(span)) lk_json_put_bool(writer, "minor", true);
	lk_json_put_text(writer, "kinds", digits);
	free(digits);
	lk_json_array(writer, "gap");
	for (int i = 0; i < count; i++)
		lk_json_put_integer(writer, NULL,
		                    llround(span[i].start_s / tick_s) -
		                        (i ? llround(span[i - 1].end_s / tick_s) : 0));
	lk_json_array_end(writer);
	lk_json_array(writer, "length");
	for (int i = 0; i < count; i++)
		lk_json_put_integer(writer, NULL,
		                    llround(span[i].end_s / tick_s) - llround(span[i].start_s / tick_s));
	lk_json_array_end(writer);
	lk_json_object_end(writer);
	return LK_OK;
}

static lk_status put_span_lanes(lk_report *writer, const char *whose, const lk_explain_span *spans,
                                int count, double tick_s, lk_error *err) {
	char name[TEXT];
	for (int begin = 0, end; begin < count; begin = end) {
		int lane = lane_of_span(&spans[begin]);
		for (end = begin; end < count && spans[end].rank == spans[begin].rank &&
		                  lane_of_span(&spans[end]) == lane;)
			end++;
		snprintf(name, sizeof name, "%srank %d%s%s", whose, spans[begin].rank, lane ? ", " : "",
		         lane ? lk_explain_sorts[lane] : "");
		LK_TRY(put_span_lane(writer, name, &spans[begin], end - begin, tick_s, err));
	}
	return LK_OK;
}

static double last_of(const lk_explain_span *spans, int count) {
	double last = 0;
	for (int i = 0; i < count; i++) last = fmax(last, spans[i].end_s);
	return last;
}

lk_status lk_report_traced_step(lk_report *writer, const lk_explanation *explanation,
                                lk_error *err) {
	const lk_versus *versus = explanation->versus;
	lk_explain_span *measured = NULL, *predicted = NULL;
	int measured_count, predicted_count = 0;
	LK_TRY(lk_explain_spans(explanation, &measured, &measured_count, err));
	lk_status status =
		versus ? lk_explain_spans(versus->predicted_step, &predicted, &predicted_count, err)
			   : LK_OK;
	double end = fmax(last_of(measured, measured_count), last_of(predicted, predicted_count));
	if (status == LK_OK && measured_count && end > 0) {
		lk_report_panel(writer, "gantt",
		                versus ? "The traced step, and the predicted one under it"
		                       : "The traced step",
		                "work of the devices, one step; what lies too close together to be seen "
		                "apart is one span",
		                true);
		lk_json_put_number(writer, "end", end);
		lk_json_put_integer(writer, "ticks", TICKS);
		lk_json_array(writer, "kinds");
		for (int i = 0; i < LK_EXPLAIN_SORTS; i++)
			lk_report_part(writer, span_keys[i], lk_explain_sorts[i]);
		lk_json_array_end(writer);
		lk_json_array(writer, "lanes");
		status = put_span_lanes(writer, versus ? "measured, " : "", measured, measured_count,
		                        end / TICKS, err);
		if (status == LK_OK)
			status =
				put_span_lanes(writer, "predicted, ", predicted, predicted_count, end / TICKS, err);
		lk_json_array_end(writer);
		lk_report_panel_end(writer);
	}
	free(measured);
	free(predicted);
	return status;
}

/* ---- the parts, beside each other ---- */

/* Parts with one colour and name, whatever their phase. */
static const struct {
	const char *part, *key;
} colours[] = {
	{"products", "gemm"},       {"attention", "attention"},
	{"experts", "conv"},        {"memory", "memory"},
	{"optimizer", "optimizer"}, {"communication", "comm"},
	{"waiting", "wait"},        {"idle: launch, host launches too late", "host"},
	{"copies", "copy"},         {"idle: data loading", "data"},
};

static const char *colour_of(const char *part) {
	for (size_t i = 0; i < sizeof colours / sizeof *colours; i++)
		if (strcmp(colours[i].part, part) == 0) return colours[i].key;
	return strncmp(part, "idle", 4) == 0 ? "idle" : "other";
}

struct sums {
	const char *part;
	double predicted_s, measured_s;
};

static int sum_parts(const lk_versus *versus, struct sums sums[PARTS]) {
	int count = 0;
	for (int i = 0; i < versus->part_count; i++) {
		const lk_versus_part *part = &versus->parts[i];
		int at = 0;
		while (at < count && strcmp(sums[at].part, part->part) != 0) at++;
		if (at == PARTS) at--;
		else if (at == count) sums[count++] = (struct sums){.part = part->part};
		sums[at].predicted_s += fmax(part->predicted_s, 0);
		sums[at].measured_s += fmax(part->measured_s, 0);
	}
	return count;
}

static void put_beside(lk_report *writer, const lk_versus *versus) {
	struct sums sums[PARTS];
	double values[PARTS];
	int count = sum_parts(versus, sums);
	lk_report_panel(writer, "bars", "Predicted and measured step", versus->sentence, true);
	lk_json_put_text(writer, "unit", "s");
	lk_json_array(writer, "parts");
	for (int i = 0; i < count; i++) lk_report_part(writer, colour_of(sums[i].part), sums[i].part);
	lk_json_array_end(writer);
	lk_json_array(writer, "rows");
	for (int i = 0; i < count; i++) values[i] = sums[i].predicted_s;
	lk_report_row(writer, "predicted", NULL, values, count);
	for (int i = 0; i < count; i++) values[i] = sums[i].measured_s;
	lk_report_row(writer, "measured", NULL, values, count);
	lk_json_array_end(writer);
	lk_report_panel_end(writer);
}

lk_status lk_report_versus(lk_report *writer, const lk_versus *versus, lk_error *err) {
	put_beside(writer, versus);
	LK_TRY(lk_report_table(writer, "What would give this step", versus->scaled, true,
	                       lk_versus_table(versus, LK_VERSUS_CAUSES), 0, err));
	return lk_report_table(writer, "The difference, part by part", NULL, true,
	                       lk_versus_table(versus, LK_VERSUS_PARTS), 0, err);
}

lk_status lk_report_expected(lk_report *writer, const lk_expected *expected, lk_error *err) {
	LK_TRY(lk_report_table(writer, "A measured run against this prediction", expected->verdict,
	                       true, lk_expected_table(expected, false), 0, err));
	return lk_report_table(writer, "What would explain it", expected->scaled, true,
	                       lk_expected_table(expected, true), 0, err);
}
