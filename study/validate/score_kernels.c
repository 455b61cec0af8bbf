/* score_kernels.c: isolated kernels: each row by the law of its kind, with the numbers in use, or
 * from fits that have not seen its shape or its GPU. */
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "fit/fits.h"
#include "validate/validate.h"

static const char *series_text(lk_arena *arena, const lk_kernel_row *row) {
	const lk_law_series *series = &row->series;
	return lk_arena_printf(arena, "%s %s, %s %s", series->kind, series->format, series->library,
	                       series->sustained ? "sustained" : "short");
}

/* Powers of ten of the time. */
static lk_score_key time_key(const lk_kernel_row *row) {
	static const char *const names[] = {"under 10 us", "10 to 100 us", "100 us to 1 ms",
	                                    "over 1 ms"};
	int order = 0;
	for (double limit = 1e-5; order < 3 && row->seconds >= limit; limit *= 10) order++;
	return (lk_score_key){names[order], order};
}

static lk_status fill_kernel_rows(lk_arena *arena, const lk_kernel_rows *rows, lk_scoring *out,
                                  lk_error *err) {
	LK_TRY(lk_scoring_rows(arena, rows->count, out, err));
	lk_score_key *series = lk_scoring_divide(arena, out, "series"),
				 *gpu = lk_scoring_divide(arena, out, "gpu"),
				 *format = lk_scoring_divide(arena, out, "format"),
				 *time = lk_scoring_divide(arena, out, "time");
	if (!series || !gpu || !format || !time) return lk_oom(err);
	for (size_t i = 0; i < rows->count; i++) {
		const lk_kernel_row *row = &rows->at[i];
		lk_validated *shown = &out->rows[i];
		shown->id = shown->layout = row->text;
		shown->where = row->where;
		shown->gpu = gpu[i].name = row->gpu;
		shown->precision = format[i].name = row->series.format;
		shown->stack = row->series.library;
		shown->release = row->series.release;
		shown->model = row->series.kernel;
		shown->gpus = 1;
		shown->measured = row->seconds;
		if (*row->refused) shown->reason = row->refused;
		time[i] = time_key(row);
		bool same = i > 0 && memcmp(&row->series, &rows->at[i - 1].series, sizeof row->series) == 0;
		series[i].name = same ? series[i - 1].name : series_text(arena, row);
		if (!series[i].name) return lk_oom(err);
	}
	return LK_OK;
}

/* Predict with the calibration in use, or without the rows of the device. */
static void predict(const lk_kernel_rows *rows, bool without_device, lk_scoring *out) {
	lk_law_fit fit;
	bool found = false;
	for (size_t i = 0; i < rows->count; i++) {
		const lk_kernel_row *row = &rows->at[i], *before = i > 0 ? row - 1 : NULL;
		lk_validated *shown = &out->rows[i];
		if (*row->refused) continue;
		if (!before || before->call.device != row->call.device || before->law != row->law ||
		    memcmp(&before->series, &row->series, sizeof row->series) != 0)
			found = lk_law_find(row->law, row->call.device, &row->series,
			                    without_device ? row->call.device : NULL, &fit);
		if (!found) {
			shown->reason = "no kernel of this kind and format was measured";
			continue;
		}
		shown->predicted = lk_law_corrected(&fit, &row->series, &row->call);
		shown->low = shown->predicted * exp(-fit.spread);
		shown->high = shown->predicted * exp(fit.spread);
	}
}

/* From another fit; a range keeps its width. */
static void put_predicted(lk_validated *shown, double seconds) {
	double by = seconds > 0 ? seconds / shown->predicted : NAN;
	shown->predicted = seconds > 0 ? seconds : NAN;
	shown->low *= by;
	shown->high *= by;
}

static lk_status cross(lk_arena *arena, const lk_kernel_rows *rows, bool shapes, lk_scoring *out,
                       lk_error *err) {
	lk_kernel_group *groups;
	size_t count;
	double *seconds = LK_ARRAY(arena, double, rows->count + 1);
	if (!seconds) return lk_oom(err);
	LK_TRY(lk_kernel_groups_of(arena, rows, &groups, &count, err));
	LK_TRY(shapes ? lk_kernel_cross(rows, groups, count, seconds, err)
	              : lk_kernel_cross_devices(rows, groups, count, seconds, err));
	for (size_t i = 0; i < rows->count; i++) put_predicted(&out->rows[i], seconds[i]);
	return LK_OK;
}

static lk_status score(lk_arena *arena, const lk_validate_request *request,
                       const lk_kernel_rows *rows, lk_scoring *out, lk_error *err) {
	LK_TRY(fill_kernel_rows(arena, rows, out, err));
	bool shapes = request->cross && request->folds != LK_FOLDS_GPU;
	out->unit_of_rows = "kernel";
	if (request->cross) out->folds = shapes ? "whole shapes" : "whole GPUs";
	predict(rows, request->cross && !shapes, out); /* and its ranges, which the folds take */
	return request->cross ? cross(arena, rows, shapes, out, err) : LK_OK;
}

lk_status lk_score_kernels(lk_arena *arena, const lk_validate_request *request, lk_stream *in,
                           lk_scoring *out, lk_error *err) {
	lk_kernel_rows rows = {0};
	lk_status status = lk_kernel_rows_read(arena, in, &rows, err);
	if (status == LK_OK) status = score(arena, request, &rows, out, err);
	lk_vec_free(&rows);
	return status;
}
