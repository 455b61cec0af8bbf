/* report_predict.c: the report of a prediction: the verdict, what keeps the step from being ideal,
 * memory by stage, the pipeline, stages, collectives, kernels under their roof, sensitivities, and
 * what the range rests on. */
#include <math.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "view/text/views.h"
#include "view/report/report.h"

enum { TEXT = 64, LINE = 200 };

/* ---- the verdict ---- */

/* A figure with the range that follows from that of the step time: it goes with that power of it;
 * 0: no range. */
typedef char *shown_as(double number, char *out, size_t size);

static void figure(lk_report *writer, const lk_prediction *prediction, const char *label,
                   double value, int power, shown_as *shown, const char *note) {
	char text[TEXT], low[TEXT], high[TEXT], range[LINE] = "";
	LK_ASSERT(power >= -1 && power <= 1);
	if (power && prediction->step_time_s > 0 && prediction->step_time_low_s > 0) {
		double a = prediction->step_time_low_s / prediction->step_time_s,
			   b = prediction->step_time_high_s / prediction->step_time_s;
		shown(value * (power > 0 ? a : 1 / b), low, sizeof low);
		shown(value * (power > 0 ? b : 1 / a), high, sizeof high);
		snprintf(range, sizeof range, "%s \xe2\x80\x93 %s", low, high);
	}
	lk_report_figure(writer, label, shown(value, text, sizeof text), range, note);
}

static void predict_put_verdict(lk_report *writer, const lk_prediction *prediction) {
	char peak[TEXT], usable[TEXT], left[TEXT], rate[TEXT], detail[LINE], of[LINE];
	lk_text words = lk_text_begin(detail, sizeof detail);
	lk_text_add(&words, "%s of %s on the peak-memory rank, stage %d: ",
	            lk_format_bytes(prediction->peak_bytes, peak, sizeof peak),
	            lk_format_bytes(prediction->usable_bytes, usable, sizeof usable),
	            prediction->fullest_stage);
	lk_format_bytes(fabs(prediction->usable_bytes - prediction->peak_bytes), left, sizeof left);
	if (prediction->fits) lk_text_add(&words, "headroom %s", left);
	else lk_text_add(&words, "%s too much", left);
	snprintf(of, sizeof of, "of %s",
	         prediction->peak_label ? prediction->peak_label : "an unknown peak");
	lk_verdict verdict = lk_verdict_of(prediction);
	if (verdict == LK_VERDICT_MAY_NOT_FIT)
		lk_text_add(&words, "; %.0f of 10 such runs are out of memory",
		            10 * prediction->out_of_memory);
	if (verdict == LK_VERDICT_FITS) lk_report_verdict(writer, "yes", "Fits", detail);
	else if (verdict == LK_VERDICT_MAY_NOT_FIT)
		lk_report_verdict(writer, "no", "May not fit", detail);
	else lk_report_verdict(writer, "no", "Does not fit", detail);
	snprintf(rate, sizeof rate, "%ss/s", prediction->unit);
	lk_report_figures(writer);
	figure(writer, prediction, "step time", prediction->step_time_s, 1, lk_format_seconds, "");
	if (prediction->tokens_per_s_per_gpu > 0)
		figure(writer, prediction, "tokens/s/GPU", prediction->tokens_per_s_per_gpu, -1,
		       lk_format_thousands, "");
	else
		figure(writer, prediction, rate, prediction->samples_per_s, -1, lk_samples,
		       "all GPUs together");
	if (prediction->peak_flops > 0)
		figure(writer, prediction, "MFU", prediction->mfu, -1, lk_percent, of);
	figure(writer, prediction, "model TFLOP/s/GPU", prediction->model_flops_per_s_per_gpu, -1,
	       lk_tera, "");
	if (prediction->days > 0)
		figure(writer, prediction, "days of training", prediction->days, 1, lk_days, "");
	if (prediction->gpu_hours > 0)
		figure(writer, prediction, "GPU-hours", prediction->gpu_hours, 1, lk_format_thousands, "");
	if (prediction->energy.training_kwh > 0)
		figure(writer, prediction, "energy", prediction->energy.training_kwh, 1, lk_format_energy,
		       "at the mains, hosts and cooling included");
	if (prediction->energy.carbon_kg > 0)
		figure(writer, prediction, "CO2e", prediction->energy.carbon_kg, 1, lk_format_mass, "");
	if (prediction->energy.power_usd > 0)
		figure(writer, prediction, "power", prediction->energy.power_usd, 1, lk_format_dollars,
		       "of the mains");
	if (prediction->goodput > 0)
		figure(writer, prediction, "goodput", prediction->goodput, 0, lk_percent,
		       "time without failures, restarts, checkpoints");
	lk_json_array_end(writer);
	lk_report_facts(writer);
	lk_report_fact(writer, "model", prediction->model);
	lk_report_fact(writer, "cluster", prediction->cluster);
	lk_report_fact(writer, "layout", prediction->layout);
	if (prediction->searched) lk_report_fact(writer, "searched", prediction->searched);
	lk_json_array_end(writer);
	lk_report_panel_end(writer);
}

/* ---- from ideal to predicted ---- */

static bool predict_computes(const char *key) {
	return strcmp(key, "gemm") == 0 || strcmp(key, "attention") == 0 || strcmp(key, "conv") == 0;
}

static void predict_put_waterfall(lk_report *writer, const lk_prediction *prediction) {
	double ideal = prediction->mfu * prediction->step_time_s,
		   extra = (prediction->hfu - prediction->mfu) * prediction->step_time_s, compute = 0;
	if (!prediction->breakdown_count || prediction->peak_flops <= 0) return;
	for (int i = 0; i < prediction->breakdown_count; i++)
		if (predict_computes(prediction->breakdown[i].key))
			compute += prediction->breakdown[i].exposed_s;
	lk_report_panel(writer, "waterfall", "From the ideal step to the predicted one",
	                "exposed time, mean over the pipeline stages; what overlaps with compute costs "
	                "nothing and is not shown",
	                true);
	lk_json_array(writer, "steps");
	lk_report_fall(writer, "ideal", "ideal compute", ideal, prediction->peak_label, true);
	if (extra > 0.0005 * prediction->step_time_s)
		lk_report_fall(writer, "recompute", "recomputation", extra,
		               "operations that run beyond those of the model", false);
	if (compute >= ideal + extra)
		lk_report_fall(writer, "gemm", "kernel inefficiency", compute - ideal - extra,
		               "products and attention take longer than at the dense peak", false);
	else
		lk_report_fall(writer, "gemm", "Winograd", compute - ideal - extra,
		               "convolutions run fewer operations than the ideal counts", false);
	for (int i = 0; i < prediction->breakdown_count; i++) {
		const lk_time_part *part = &prediction->breakdown[i];
		if (!predict_computes(part->key) && part->exposed_s > 0)
			lk_report_fall(writer, part->key, part->label, part->exposed_s, NULL, false);
	}
	lk_report_fall(writer, "total", "predicted step", prediction->step_time_s, prediction->basis,
	               true);
	lk_json_array_end(writer);
	lk_report_panel_end(writer);
}

/* ---- seeds ---- */

static lk_status predict_put_spread(lk_report *writer, const lk_prediction *prediction,
                                    lk_error *err) {
	if (!prediction->spread_count) return LK_OK;
	return lk_report_table(writer, "How far the step spreads",
	                       prediction->noise
	                           ? "quantiles over steps that differ in their seed, and what each "
	                             "level of noise adds to the steps around them"
	                           : "quantiles over steps that differ in their seed; lost to "
	                             "slow ranks: the share by which the step is longer than with all "
	                             "ranks equally fast",
	                       true, lk_spread_table(prediction), 0, err);
}

/* ---- the whole run ---- */

static lk_status predict_put_run(lk_report *writer, const lk_prediction *prediction,
                                 lk_error *err) {
	if (!prediction->run.samples) return LK_OK;
	LK_TRY(lk_report_table(writer, "The whole run",
	                       "quantiles over simulated runs, of chance alone: with what stops it",
	                       true, lk_run_figures_table(prediction), 0, err));
	return lk_report_table(writer, "Where the run goes", "mean over the simulated runs", true,
	                       lk_run_times_table(prediction), 0, err);
}

/* ---- memory ---- */

struct memory_part {
	const char *key, *label;
	double bytes;
	const char *formula;
};
enum { MEMORY_PARTS = 10 };

static void predict_parts_of(const lk_stage_memory *memory, const lk_stage_formulas *formulas,
                             struct memory_part out[MEMORY_PARTS]) {
	const struct memory_part parts[MEMORY_PARTS] = {
		{"weights", "weights", memory->weights, formulas ? formulas->weights : ""},
		{"gradients", "gradients", memory->gradients, formulas ? formulas->gradients : ""},
		{"optimizer", "optimizer", memory->optimizer, formulas ? formulas->optimizer : ""},
		{"activations", "activations", memory->activations, formulas ? formulas->activations : ""},
		{"logits", "logits", memory->logits, formulas ? formulas->logits : ""},
		{"workspace", "workspace", memory->workspace, formulas ? formulas->workspace : ""},
		{"buffers", "buffers", memory->buffers, formulas ? formulas->buffers : ""},
		{"unused", "unused by the allocator", memory->reserved - memory->allocated,
	     formulas ? formulas->unused : ""},
		{"context", "CUDA context", memory->context, formulas ? formulas->context : ""},
		{"nccl", "NCCL", memory->nccl, formulas ? formulas->nccl : ""},
	};
	memcpy(out, parts, sizeof parts);
}

static void put_memory_stage(lk_report *writer, const lk_prediction *prediction, int i) {
	LK_ASSERT(i >= 0 && i < prediction->memory_count);
	const lk_stage_memory *memory = &prediction->memory[i];
	struct memory_part parts[MEMORY_PARTS];
	char name[TEXT];
	predict_parts_of(memory,
	                 prediction->detail && prediction->detail->formulas
	                     ? &prediction->detail->formulas[i]
	                     : NULL,
	                 parts);
	snprintf(name, sizeof name, "stage %d", memory->stage);
	lk_json_object(writer, NULL);
	lk_json_put_text(writer, "name", name);
	if (prediction->memory_count > 1 && memory->stage == prediction->fullest_stage)
		lk_json_put_text(writer, "mark", "peak");
	lk_json_put_number(writer, "total", memory->total);
	if (memory->low > 0) {
		lk_json_put_number(writer, "tensors_low", memory->low);
		lk_json_put_number(writer, "tensors_high", memory->high);
	}
	if (memory->moment[0]) lk_json_put_text(writer, "moment", memory->moment);
	lk_json_array(writer, "values");
	for (int k = 0; k < MEMORY_PARTS; k++) lk_json_put_number(writer, NULL, parts[k].bytes);
	lk_json_array_end(writer);
	lk_json_array(writer, "formulas");
	for (int k = 0; k < MEMORY_PARTS; k++) lk_json_put_text(writer, NULL, parts[k].formula);
	lk_json_array_end(writer);
	lk_json_object_end(writer);
}

static void predict_put_memory(lk_report *writer, const lk_prediction *prediction) {
	static const lk_stage_memory none;
	struct memory_part parts[MEMORY_PARTS];
	if (!prediction->memory_count) return;
	predict_parts_of(&none, NULL, parts);
	lk_report_panel(writer, "memory", "Memory at its peak", "a bar for each pipeline stage", true);
	lk_report_hint(writer, "point at a part for its formula");
	lk_json_put_number(writer, "limit", prediction->usable_bytes);
	lk_json_array(writer, "parts");
	for (int k = 0; k < MEMORY_PARTS; k++) lk_report_part(writer, parts[k].key, parts[k].label);
	lk_json_array_end(writer);
	lk_json_array(writer, "rows");
	for (int i = 0; i < prediction->memory_count; i++) put_memory_stage(writer, prediction, i);
	lk_json_array_end(writer);
	lk_report_panel_end(writer);
}

static lk_status predict_put_fixes(lk_report *writer, const lk_prediction *prediction,
                                   lk_error *err) {
	static const lk_column columns[] = {
		{"change", "change", false, false},
		{"peak_bytes", "memory", true, false},
		{"step_time_s", "step", true, false},
		{"time_ratio", "time", true, false},
	};
	char text[TEXT], digits[TEXT];
	if (!prediction->fix_count) return LK_OK;
	lk_table *table = lk_table_new("fixes", columns, 4);
	for (int i = 0; table && i < prediction->fix_count; i++) {
		const lk_fix *fix = &prediction->fixes[i];
		lk_table_row(table);
		lk_table_text(table, fix->change);
		lk_table_number(table, fix->peak_bytes,
		                lk_format_bytes(fix->peak_bytes, text, sizeof text));
		lk_table_number(table, fix->step_time_s,
		                lk_format_seconds(fix->step_time_s, text, sizeof text));
		snprintf(text, sizeof text, "%s%s %%", fix->time_ratio >= 0.9995 ? "+" : "",
		         lk_fixed((fix->time_ratio - 1) * 100, 1, digits, sizeof digits));
		lk_table_number(table, fix->time_ratio, text);
	}
	return lk_report_table(writer, "Changes that would make it fit",
	                       "each is a prediction of its own", true, table, 0, err);
}

/* ---- sensitivity ---- */

static void predict_put_tornado(lk_report *writer, const lk_prediction *prediction) {
	const lk_prediction_detail *detail = prediction->detail;
	if (!detail || !detail->sensitivity_count || isnan(detail->sensitivity[0].step_time_s))
		return; /* it does not fit */
	lk_report_panel(writer, "tornado", "Rates 10 % lower or higher",
	                "what they make of the step, each predicted anew", false);
	lk_json_put_number(writer, "base", prediction->step_time_s);
	lk_json_array(writer, "rows");
	for (int i = 0; i + 1 < detail->sensitivity_count; i += 2) /* 0.9, then 1.1 */
		lk_report_swing(writer, detail->sensitivity[i].cost, detail->sensitivity[i].step_time_s,
		                detail->sensitivity[i + 1].step_time_s);
	lk_json_array_end(writer);
	lk_report_panel_end(writer);
}

/* ---- what the range rests on ---- */

static void predict_put_accuracy(lk_report *writer, const lk_prediction *prediction) {
	const lk_prediction_detail *detail = prediction->detail;
	lk_report_panel(writer, "range", "How sure the step time is", prediction->basis, false);
	lk_json_put_number(writer, "value", prediction->step_time_s);
	lk_json_put_number(writer, "low", prediction->step_time_low_s);
	lk_json_put_number(writer, "high", prediction->step_time_high_s);
	lk_json_put_text(writer, "unit", "s");
	lk_json_array(writer, "classes");
	for (int i = 0; detail && i < detail->range_count; i++) {
		const lk_range_class_row *row = &detail->ranges[i];
		lk_json_object(writer, NULL);
		lk_json_put_text(writer, "name", row->name);
		lk_json_put_integer(writer, "runs", row->runs);
		lk_json_put_number(writer, "low", row->low);
		lk_json_put_number(writer, "high", row->high);
		if (row->own) lk_json_put_bool(writer, "own", true);
		lk_json_object_end(writer);
	}
	lk_json_array_end(writer);
	lk_report_panel_end(writer);
}

/* ---- phases of a step of reinforcement learning ---- */

enum { PHASE_TICKS = 100000 };

/* A lane of what one side does: gaps before its spans, and their lengths, in ticks. */
static void put_phase_lane(lk_report *writer, const lk_prediction *prediction, bool engines) {
	char kinds[LK_PHASE_SPANS + 1];
	int used = 0;
	LK_ASSERT(prediction->phase_span_count <= LK_PHASE_SPANS && prediction->step_time_s > 0);
	double ticks = PHASE_TICKS / prediction->step_time_s;
	for (int i = 0; i < prediction->phase_span_count; i++) {
		const lk_phase_span *span = &prediction->spans[i];
		if (span->engines == engines && span->part >= 0) kinds[used++] = (char)('0' + span->part);
	}
	kinds[used] = '\0';
	if (used == 0) return;
	lk_json_object(writer, NULL);
	lk_json_put_text(writer, "name", engines ? "engines" : "GPUs that train");
	lk_json_put_text(writer, "kinds", kinds);
	for (int column = 0; column < 2; column++) {
		long long before = 0;
		lk_json_array(writer, column ? "length" : "gap");
		for (int i = 0; i < prediction->phase_span_count; i++) {
			const lk_phase_span *span = &prediction->spans[i];
			if (span->engines != engines || span->part < 0) continue;
			long long start = llround(span->start_s * ticks), end = llround(span->end_s * ticks);
			lk_json_put_integer(writer, NULL, column ? end - start : start - before);
			before = end;
		}
		lk_json_array_end(writer);
	}
	lk_json_object_end(writer);
}

/* The colour of a phase. */
static const char *phase_colour(const char *key) {
	static const struct {
		const char *key, *colour;
	} colours[] = {{"generation", "forward"}, {"log_probabilities", "weight"},
	               {"training", "backward"},  {"critic", "recompute"},
	               {"values", "weight"},      {"refit", "comm"},
	               {"offload", "optimizer"}};
	for (size_t i = 0; i < sizeof colours / sizeof *colours; i++)
		if (strcmp(colours[i].key, key) == 0) return colours[i].colour;
	return "other";
}

static void put_phases(lk_report *writer, const lk_prediction *prediction) {
	char note[LINE], tail[TEXT], longest[TEXT];
	const lk_generation *generation = &prediction->generation;
	snprintf(note, sizeof note,
	         "gaps are idle; for %s at its end the generation runs with less than half of its "
	         "largest batch: the longest response has %s tokens",
	         lk_format_seconds(generation->tail_s, tail, sizeof tail),
	         lk_format_thousands(generation->longest_tokens, longest, sizeof longest));
	lk_report_panel(writer, "gantt", "The phases of a step", note, true);
	lk_json_put_number(writer, "end", prediction->step_time_s);
	lk_json_put_integer(writer, "ticks", PHASE_TICKS);
	lk_json_array(writer, "kinds");
	for (int i = 0; i < prediction->breakdown_count; i++)
		lk_report_part(writer, phase_colour(prediction->breakdown[i].key),
		               prediction->breakdown[i].label);
	lk_json_array_end(writer);
	lk_json_array(writer, "lanes");
	put_phase_lane(writer, prediction, false);
	put_phase_lane(writer, prediction, true);
	lk_json_array_end(writer);
	lk_report_panel_end(writer);
}

static lk_status put_phase_table(lk_report *writer, const lk_prediction *prediction,
                                 lk_error *err) {
	static const lk_column columns[] = {
		{"gpus", "GPUs", false, false},    {"phase", "phase", false, false},
		{"start_s", "from", true, false},  {"end_s", "to", true, false},
		{"seconds", "takes", true, false},
	};
	lk_table *table = lk_table_new("phases", columns, 5);
	for (int i = 0; table && i < prediction->phase_span_count; i++) {
		const lk_phase_span *span = &prediction->spans[i];
		const double times[] = {span->start_s, span->end_s, span->end_s - span->start_s};
		char text[TEXT];
		lk_table_row(table);
		lk_table_text(table, span->engines ? "engines" : "that train");
		lk_table_text(table, span->part < 0 ? "idle" : prediction->breakdown[span->part].label);
		for (int k = 0; k < 3; k++)
			lk_table_number(table, times[k], lk_format_seconds(times[k], text, sizeof text));
	}
	return lk_report_table(writer, "Phases and what each side waits", NULL, true, table, 0, err);
}

/* ---- the whole ---- */

static lk_status predict_put_panels(const void *answer, lk_report *writer, lk_error *err) {
	const lk_prediction *prediction = answer;
	predict_put_verdict(writer, prediction);
	if (prediction->expected) LK_TRY(lk_report_expected(writer, prediction->expected, err));
	LK_TRY(predict_put_fixes(writer, prediction, err));
	if (prediction->phases) {
		put_phases(writer, prediction);
		LK_TRY(put_phase_table(writer, prediction, err));
	} else predict_put_waterfall(writer, prediction);
	LK_TRY(predict_put_spread(writer, prediction, err));
	LK_TRY(predict_put_run(writer, prediction, err));
	predict_put_memory(writer, prediction);
	if (prediction->detail) LK_TRY(lk_report_pipeline(writer, prediction, err));
	predict_put_tornado(writer, prediction);
	predict_put_accuracy(writer, prediction);
	return LK_OK;
}

static void predict_put_assumptions(const void *answer, lk_report *writer) {
	const lk_prediction *prediction = answer;
	for (int i = 0; i < prediction->assumption_count; i++)
		lk_report_text(writer, prediction->assumptions[i]);
}

static void predict_put_warnings(const void *answer, lk_report *writer) {
	const lk_prediction *prediction = answer;
	if (prediction->warning && *prediction->warning) lk_report_text(writer, prediction->warning);
	for (int i = 0; i < prediction->ignored_count; i++)
		lk_report_text(writer, prediction->ignored[i]);
}

static lk_status predict_put_result(const void *answer, bool colour, FILE *out, lk_error *err) {
	const lk_prediction *prediction = answer;
	lk_sweep_row row = {prediction, NULL, NULL};
	lk_sweep sweep = {.rows = &row, .count = 1};
	return lk_write_sweep_json(&sweep, colour, out, err);
}

lk_status lk_report_predict(const lk_prediction *prediction, lk_report_form form, const char *path,
                            FILE *out, lk_error *err) {
	char title[LINE];
	const char *model = prediction->model ? prediction->model : "a training step";
	snprintf(title, sizeof title, "%.*s on %d GPUs", (int)strcspn(model, ":,"), model,
	         prediction->gpus);
	lk_report_job job = {"predict",
	                     title,
	                     prediction->reproduce,
	                     prediction,
	                     &prediction->inputs,
	                     predict_put_panels,
	                     predict_put_assumptions,
	                     predict_put_warnings,
	                     predict_put_result,
	                     NULL,
	                     prediction->failed_check};
	return lk_report_save(&job, form, path, out, err);
}
