/* report_predict.c: the report of a prediction: the verdict, what keeps the step from being ideal, memory by stage, the
 * pipeline, stages, collectives, kernels under their roof, sensitivities, and what the range rests on. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "view/text/views.h"
#include "view/report/report.h"

enum { TEXT = 64, LINE = 200 };

/* ---- the verdict ---- */

/* A figure with the range that follows from that of the step time: it goes with that power of it; 0: no range. */
typedef char *shown_as(double number, char *out, size_t size);

static void figure(lk_report *r, const lk_prediction *p, const char *label, double value, int power, shown_as *shown,
                   const char *note) {
	char text[TEXT], low[TEXT], high[TEXT], range[LINE] = "";
	if (power && p->step_time_s > 0 && p->step_time_low_s > 0) {
		double a = p->step_time_low_s / p->step_time_s, b = p->step_time_high_s / p->step_time_s;
		shown(value * (power > 0 ? a : 1 / b), low, sizeof low);
		shown(value * (power > 0 ? b : 1 / a), high, sizeof high);
		snprintf(range, sizeof range, "%s \xe2\x80\x93 %s", low, high);
	}
	lk_report_figure(r, label, shown(value, text, sizeof text), range, note);
}

static char *tera(double flops, char *out, size_t size) { return lk_fixed(flops / 1e12, 1, out, size); }
static char *plain(double number, char *out, size_t size) { return lk_fixed(number, fabs(number) < 100 ? 1 : 0, out, size); }

static void put_verdict(lk_report *r, const lk_prediction *p) {
	char peak[TEXT], usable[TEXT], left[TEXT], detail[LINE], of[LINE];
	snprintf(detail, sizeof detail, "%s of %s on the fullest rank, stage %d: %s %s", lk_format_bytes(p->peak_bytes, peak, sizeof peak),
	         lk_format_bytes(p->usable_bytes, usable, sizeof usable), p->fullest_stage,
	         lk_format_bytes(fabs(p->usable_bytes - p->peak_bytes), left, sizeof left), p->fits ? "to spare" : "too much");
	snprintf(of, sizeof of, "of %s", p->peak_label ? p->peak_label : "an unknown peak");
	lk_report_verdict(r, p->fits ? "yes" : "no", p->fits ? "Fits" : "Does not fit", detail);
	lk_report_figures(r);
	figure(r, p, "step time", p->step_time_s, 1, lk_format_seconds, "");
	if (p->tokens_per_s_per_gpu > 0) figure(r, p, "tokens/s/GPU", p->tokens_per_s_per_gpu, -1, lk_format_thousands, "");
	else figure(r, p, "samples/s", p->samples_per_s, -1, plain, "all GPUs together");
	if (p->peak_flops > 0) figure(r, p, "MFU", p->mfu, -1, lk_percent, of);
	figure(r, p, "model TFLOP/s/GPU", p->model_flops_per_s_per_gpu, -1, tera, "");
	if (p->days > 0) figure(r, p, "days of training", p->days, 1, plain, "");
	if (p->gpu_hours > 0) figure(r, p, "GPU-hours", p->gpu_hours, 1, lk_format_thousands, "");
	if (p->goodput > 0) figure(r, p, "goodput", p->goodput, 0, lk_percent, "time without failures, restarts, checkpoints");
	lk_json_array_end(r);
	lk_report_facts(r);
	lk_report_fact(r, "model", p->model);
	lk_report_fact(r, "cluster", p->cluster);
	lk_report_fact(r, "layout", p->layout);
	lk_json_array_end(r);
	lk_report_panel_end(r);
}

/* ---- from ideal to predicted ---- */

static bool computes(const char *key) {
	return strcmp(key, "gemm") == 0 || strcmp(key, "attention") == 0 || strcmp(key, "conv") == 0;
}

static void put_waterfall(lk_report *r, const lk_prediction *p) {
	double ideal = p->mfu * p->step_time_s, extra = (p->hfu - p->mfu) * p->step_time_s, compute = 0;
	if (!p->breakdown_count || p->peak_flops <= 0) return;
	for (int i = 0; i < p->breakdown_count; i++)
		if (computes(p->breakdown[i].key)) compute += p->breakdown[i].exposed_s;
	lk_report_panel(r, "waterfall", "From the ideal step to the predicted one",
	                "exposed time, mean over the pipeline stages; what runs behind compute costs nothing and is not shown", true);
	lk_json_array(r, "steps");
	lk_report_fall(r, "ideal", "ideal compute", ideal, p->peak_label, true);
	if (extra > 0.0005 * p->step_time_s)
		lk_report_fall(r, "recompute", "recomputation", extra, "operations that run beyond those of the model", false);
	lk_report_fall(r, "gemm", "kernel inefficiency", compute - ideal - extra,
	               "products and attention take longer than at the dense peak", false);
	for (int i = 0; i < p->breakdown_count; i++) {
		const lk_time_part *part = &p->breakdown[i];
		if (!computes(part->key) && part->exposed_s > 0) lk_report_fall(r, part->key, part->label, part->exposed_s, NULL, false);
	}
	lk_report_fall(r, "total", "predicted step", p->step_time_s, p->basis, true);
	lk_json_array_end(r);
	lk_report_panel_end(r);
}

/* ---- memory ---- */

struct memory_part {
	const char *key, *label;
	double bytes;
	const char *formula;
};
enum { MEMORY_PARTS = 10 };

static void parts_of(const lk_stage_memory *m, const lk_stage_formulas *f, struct memory_part out[MEMORY_PARTS]) {
	const struct memory_part parts[MEMORY_PARTS] = {
		{"weights", "weights", m->weights, f ? f->weights : ""},
		{"gradients", "gradients", m->gradients, f ? f->gradients : ""},
		{"optimizer", "optimizer", m->optimizer, f ? f->optimizer : ""},
		{"activations", "activations", m->activations, f ? f->activations : ""},
		{"logits", "logits", m->logits, f ? f->logits : ""},
		{"workspace", "workspace", m->workspace, f ? f->workspace : ""},
		{"buffers", "buffers", m->buffers, f ? f->buffers : ""},
		{"unused", "unused by the allocator", m->reserved - m->allocated, f ? f->unused : ""},
		{"context", "CUDA context", m->context, f ? f->context : ""},
		{"nccl", "NCCL", m->nccl, f ? f->nccl : ""},
	};
	memcpy(out, parts, sizeof parts);
}

static void put_memory_stage(lk_report *r, const lk_prediction *p, int i) {
	const lk_stage_memory *m = &p->memory[i];
	struct memory_part parts[MEMORY_PARTS];
	char name[TEXT];
	parts_of(m, p->detail && p->detail->formulas ? &p->detail->formulas[i] : NULL, parts);
	snprintf(name, sizeof name, "stage %d", m->stage);
	lk_json_object(r, NULL);
	lk_json_put_text(r, "name", name);
	if (p->memory_count > 1 && m->stage == p->fullest_stage) lk_json_put_text(r, "mark", "fullest");
	lk_json_put_number(r, "total", m->total);
	if (m->low > 0) {
		lk_json_put_number(r, "tensors_low", m->low);
		lk_json_put_number(r, "tensors_high", m->high);
	}
	if (m->moment[0]) lk_json_put_text(r, "moment", m->moment);
	lk_json_array(r, "values");
	for (int k = 0; k < MEMORY_PARTS; k++) lk_json_put_number(r, NULL, parts[k].bytes);
	lk_json_array_end(r);
	lk_json_array(r, "formulas");
	for (int k = 0; k < MEMORY_PARTS; k++) lk_json_put_text(r, NULL, parts[k].formula);
	lk_json_array_end(r);
	lk_json_object_end(r);
}

static void put_memory(lk_report *r, const lk_prediction *p) {
	static const lk_stage_memory none;
	struct memory_part parts[MEMORY_PARTS];
	if (!p->memory_count) return;
	parts_of(&none, NULL, parts);
	lk_report_panel(r, "memory", "Memory at the fullest moment", "a bar for each pipeline stage; point at a part for its formula", true);
	lk_json_put_number(r, "limit", p->usable_bytes);
	lk_json_array(r, "parts");
	for (int k = 0; k < MEMORY_PARTS; k++) lk_report_part(r, parts[k].key, parts[k].label);
	lk_json_array_end(r);
	lk_json_array(r, "rows");
	for (int i = 0; i < p->memory_count; i++) put_memory_stage(r, p, i);
	lk_json_array_end(r);
	lk_report_panel_end(r);
}

static lk_status put_fixes(lk_report *r, const lk_prediction *p, lk_error *err) {
	static const lk_column columns[] = {
		{"change", "change", false, false}, {"peak_bytes", "memory", true, false},
		{"step_time_s", "step", true, false}, {"time_ratio", "time", true, false},
	};
	char text[TEXT], digits[TEXT];
	if (p->fits || !p->fix_count) return LK_OK;
	lk_table *t = lk_table_new("fixes", columns, 4);
	for (int i = 0; t && i < p->fix_count; i++) {
		const lk_fix *fix = &p->fixes[i];
		lk_table_row(t);
		lk_table_text(t, fix->change);
		lk_table_number(t, fix->peak_bytes, lk_format_bytes(fix->peak_bytes, text, sizeof text));
		lk_table_number(t, fix->step_time_s, lk_format_seconds(fix->step_time_s, text, sizeof text));
		snprintf(text, sizeof text, "%s%s %%", fix->time_ratio >= 0.9995 ? "+" : "", lk_fixed((fix->time_ratio - 1) * 100, 1, digits, sizeof digits));
		lk_table_number(t, fix->time_ratio, text);
	}
	return lk_report_table(r, "Changes that would make it fit", "each was asked as a prediction of its own", true, t, 0, err);
}

/* ---- sensitivity ---- */

static void put_tornado(lk_report *r, const lk_prediction *p) {
	const lk_prediction_detail *d = p->detail;
	if (!d || !d->sensitivity_count || isnan(d->sensitivity[0].step_time_s)) return; /* it does not fit */
	lk_report_panel(r, "tornado", "Rates 10 % lower or higher", "what they make of the step, each predicted anew", false);
	lk_json_put_number(r, "base", p->step_time_s);
	lk_json_array(r, "rows");
	for (int i = 0; i + 1 < d->sensitivity_count; i += 2) /* 0.9, then 1.1 */
		lk_report_swing(r, d->sensitivity[i].cost, d->sensitivity[i].step_time_s, d->sensitivity[i + 1].step_time_s);
	lk_json_array_end(r);
	lk_report_panel_end(r);
}

/* ---- what the range rests on ---- */

static void put_accuracy(lk_report *r, const lk_prediction *p) {
	const lk_prediction_detail *d = p->detail;
	lk_report_panel(r, "range", "How sure the step time is", p->basis, false);
	lk_json_put_number(r, "value", p->step_time_s);
	lk_json_put_number(r, "low", p->step_time_low_s);
	lk_json_put_number(r, "high", p->step_time_high_s);
	lk_json_put_text(r, "unit", "s");
	lk_json_array(r, "classes");
	for (int i = 0; d && i < d->range_count; i++) {
		const lk_range_class_row *row = &d->ranges[i];
		lk_json_object(r, NULL);
		lk_json_put_text(r, "name", row->name);
		lk_json_put_integer(r, "runs", row->runs);
		lk_json_put_number(r, "low", row->low);
		lk_json_put_number(r, "high", row->high);
		if (row->own) lk_json_put_bool(r, "own", true);
		lk_json_object_end(r);
	}
	lk_json_array_end(r);
	lk_report_panel_end(r);
}

/* ---- the whole ---- */

static lk_status put_panels(const void *answer, lk_report *r, lk_error *err) {
	const lk_prediction *p = answer;
	put_verdict(r, p);
	LK_TRY(put_fixes(r, p, err));
	put_waterfall(r, p);
	put_memory(r, p);
	if (p->detail) LK_TRY(lk_report_pipeline(r, p, err));
	put_tornado(r, p);
	put_accuracy(r, p);
	return LK_OK;
}

static void put_assumptions(const void *answer, lk_report *r) {
	const lk_prediction *p = answer;
	for (int i = 0; i < p->assumption_count; i++) lk_report_text(r, p->assumptions[i]);
}

static void put_warnings(const void *answer, lk_report *r) {
	const lk_prediction *p = answer;
	if (p->warning && *p->warning) lk_report_text(r, p->warning);
	for (int i = 0; i < p->ignored_count; i++) lk_report_text(r, p->ignored[i]);
}

static lk_status put_result(const void *answer, bool colour, FILE *out, lk_error *err) {
	const lk_prediction *p = answer;
	lk_sweep_row row = {p, NULL, NULL};
	lk_sweep sweep = {.rows = &row, .count = 1};
	return lk_write_sweep_json(&sweep, colour, out, err);
}

lk_status lk_report_predict(const lk_prediction *prediction, lk_report_form form, const char *path, FILE *out, lk_error *err) {
	char title[LINE];
	const char *model = prediction->model ? prediction->model : "a training step";
	snprintf(title, sizeof title, "%.*s on %d GPUs", (int)strcspn(model, ":,"), model, prediction->gpus);
	lk_report_job job = {"predict", title, prediction->reproduce, prediction, &prediction->inputs, put_panels, put_assumptions, put_warnings, put_result, NULL};
	return lk_report_save(&job, form, path, out, err);
}
