/* detail.c: the data of a prediction's pictures: stages, spans, kernels, messages, sensitivities,
 * formulas of memory, and the runs behind the range. */
#include "base/arena.h"
#include "predict/predict_internal.h"

#include "step/step.h"

#include <string.h>

_Static_assert(LK_PART_COUNT <= sizeof((lk_stage_time *)0)->exposed_s / sizeof(double),
               "a stage has room for all parts");

/* ---- where the time of each stage goes ---- */

static lk_status stage_times(lk_arena *arena, const lk_step *step, double scale,
                             lk_prediction_detail *out, lk_error *err) {
	int stages = (int)step->graph->ranks.stages;
	lk_stage_time *rows = LK_ARRAY(arena, lk_stage_time, stages);
	const char **labels = LK_ARRAY(arena, const char *, LK_PART_COUNT),
			   **keys = LK_ARRAY(arena, const char *, LK_PART_COUNT);
	if (!rows || !labels || !keys) return lk_oom(err);
	for (int p = 0; p < LK_PART_COUNT; p++) {
		labels[p] = lk_part_label((lk_part)p);
		keys[p] = lk_part_key((lk_part)p);
	}
	for (int s = 0; s < stages; s++) {
		rows[s].stage = s;
		for (int p = 0; p < LK_PART_COUNT; p++) {
			rows[s].exposed_s[p] = scale * step->stage_time[s].exposed_s[p];
			rows[s].hidden_s[p] = scale * step->stage_time[s].hidden_s[p];
		}
	}
	out->parts = labels;
	out->part_keys = keys;
	out->part_count = LK_PART_COUNT;
	out->stages = rows;
	out->stage_count = stages;
	return LK_OK;
}

/* ---- sensitivity ---- */

static lk_status sensitivity(lk_arena *arena, const lk_asked *asked, const lk_step *step,
                             lk_prediction_detail *out, lk_error *err) {
	enum { COUNT = LK_SENSITIVE_COSTS * LK_SENSITIVE_WAYS };
	double seconds[COUNT];
	lk_detail_sensitivity *rows = LK_ARRAY(arena, lk_detail_sensitivity, COUNT);
	if (!rows) return lk_oom(err);
	LK_TRY(lk_sensitivity_all(&asked->job, &asked->cluster, step->step_s, seconds, err));
	for (int i = 0; i < COUNT; i++)
		rows[i] = (lk_detail_sensitivity){lk_sensitive_costs[i / LK_SENSITIVE_WAYS],
		                                  lk_sensitive_factors[i % LK_SENSITIVE_WAYS], seconds[i]};
	out->sensitivity = rows;
	out->sensitivity_count = COUNT;
	return LK_OK;
}

/* ---- the basis of the range ---- */

static lk_status detail_ranges(lk_arena *arena, const lk_asked *asked, lk_prediction_detail *out,
                               lk_error *err) {
	const lk_calibration *calibration = lk_calibration_current();
	const lk_calibration_row *own = lk_range_row(arena, &asked->job);
	size_t count = 0;
	for (size_t i = 0; i < calibration->rows.count; i++)
		count += strcmp(calibration->rows.at[i].family, "range") == 0;
	lk_range_class_row *rows = LK_ARRAY(arena, lk_range_class_row, count);
	if (!rows) return lk_oom(err);
	for (size_t i = 0; i < calibration->rows.count; i++) {
		const lk_calibration_row *row = &calibration->rows.at[i];
		if (strcmp(row->family, "range") != 0 || strcmp(row->subject, "step") != 0) continue;
		double low = lk_calibration_value(row, "low", 0),
			   high = lk_calibration_value(row, "high", 0);
		if (low > 0 && high > 0)
			rows[out->range_count++] =
				(lk_range_class_row){row->variant, row->points, low, high, row == own};
	}
	out->ranges = rows;
	return LK_OK;
}

lk_status lk_detail_of(lk_arena *arena, const lk_asked *asked, const lk_step *step, double scale,
                       bool no_sensitivity, const lk_prediction_detail **out, lk_error *err) {
	lk_prediction_detail *detail = LK_NEW(arena, lk_prediction_detail);
	if (!detail) return lk_oom(err);
	*out = detail;
	LK_TRY(stage_times(arena, step, scale, detail, err));
	LK_TRY(lk_detail_spans(arena, step, scale, detail, err));
	LK_TRY(lk_detail_work(arena, step, detail, err));
	if (!asked) return LK_OK;
	const lk_device *device = asked->cluster.node[0].device;
	detail->peak_flops = device->peak_flops[asked->job.dtype];
	detail->memory_rate = device->memory_rate;
	LK_TRY(lk_detail_curves(arena, asked, step, detail, err));
	LK_TRY(lk_detail_formulas(arena, &asked->job, step, detail, err));
	LK_TRY(detail_ranges(arena, asked, detail, err));
	return no_sensitivity ? LK_OK : sensitivity(arena, asked, step, detail, err);
}
