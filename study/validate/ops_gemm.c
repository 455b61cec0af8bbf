/* ops_gemm.c: products of a table of kernel times: each row predicted with the current calibration,
 * or from a fit to the other folds; ranges from the errors of such fits, by device and
 * operation. */
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "fit/fits.h"
#include "validate/validate.h"

/* "bmm fp32" */
static const char *gemm_class_of(lk_arena *arena, const lk_op_sample *sample) {
	return lk_arena_printf(arena, "%s %s", sample->op, lk_dtype_name(sample->dtype));
}

/* Rows with similar errors: "bmm fp32 t4"; "bmm fp32 other" on devices that the fit has not
 * seen. */
static const char *gemm_range_of(lk_arena *arena, const lk_op_sample *sample, bool measured) {
	return lk_arena_printf(arena, "%s %s %s", sample->op, lk_dtype_name(sample->dtype),
	                       measured ? sample->device->name : "other");
}

/* Names of classes and ranges of all points; there are few, so each is made once per run of equal
 * rows. */
struct names {
	const char *class, *range;
};

static lk_status name_points(lk_arena *arena, const lk_gemm_table *table, const bool *measured,
                             struct names *out, lk_error *err) {
	for (size_t i = 0; i < table->count; i++) {
		const lk_op_sample *sample = table->points[i].sample,
						   *before = i > 0 ? table->points[i - 1].sample : NULL;
		if (before && before->op == sample->op && before->device == sample->device) {
			out[i] = out[i - 1];
			continue;
		}
		out[i] = (struct names){gemm_class_of(arena, sample),
		                        gemm_range_of(arena, sample, measured[table->points[i].device])};
		if (!out[i].class || !out[i].range) return lk_oom(err);
	}
	return LK_OK;
}

/* Errors of cross-validated predictions, by the names of their ranges. */
static lk_miss *misses_of(lk_arena *arena, const lk_gemm_table *table, const struct names *of,
                          const double *predicted) {
	lk_miss *out = LK_ARRAY(arena, lk_miss, table->count);
	for (size_t i = 0; out && i < table->count; i++)
		out[i] = (lk_miss){of[i].range, table->points[i].fold,
		                   fabs(log(predicted[i] / table->points[i].sample->seconds)), NAN};
	return out;
}

/* ---- one format ---- */

struct work {
	lk_arena *arena;
	lk_ops_part *part;
	lk_gemm_table table;
	double *predicted, *width;
	struct names *of;
	bool measured[LK_GEMM_DEVICES];
};

static lk_status predict_cross(struct work *work, lk_error *err) {
	bool general = work->part->folds == LK_FOLDS_GPU;
	int fitted = 0;
	for (int d = 0; d < work->table.devices; d++) work->measured[d] = !general;
	LK_TRY(lk_gemm_cross(&work->table, general, work->predicted, &fitted, err));
	LK_TRY(name_points(work->arena, &work->table, work->measured, work->of, err));
	lk_miss *misses = misses_of(work->arena, &work->table, work->of, work->predicted);
	if (!misses) return lk_oom(err);
	LK_TRY(lk_misses_widths(work->arena, misses, work->table.count, err));
	for (size_t i = 0; i < work->table.count; i++) work->width[i] = misses[i].width;
	work->part->parameters += fitted;
	work->part->held_out = work->table.held_out;
	return LK_OK;
}

static lk_status predict_calibrated(struct work *work, lk_error *err) {
	static const double unknown = 0.3; /* half a range without a calibrated width */
	lk_gemm_model models[LK_GEMM_DEVICES];
	const char *notes[LK_GEMM_DEVICES] = {NULL};
	for (int d = 0; d < work->table.devices; d++) {
		lk_gemm_model_of(work->table.device[d], work->table.dtype, &models[d]);
		work->measured[d] = models[d].measured;
		if (!models[d].measured && !(notes[d] = lk_arena_strdup(work->arena, models[d].note)))
			return lk_oom(err);
	}
	LK_TRY(name_points(work->arena, &work->table, work->measured, work->of, err));
	for (size_t i = 0; i < work->table.count; i++) {
		const lk_gemm_point *point = &work->table.points[i];
		work->predicted[i] = lk_gemm_seconds(
			&models[point->device], work->table.device[point->device], &point->shape, NULL);
		work->width[i] =
			i > 0 && work->of[i].range == work->of[i - 1].range
				? work->width[i - 1]
				: lk_misses_width(lk_calibration_current(), "gemm", work->of[i].range, unknown);
		work->part->rows[point->row].reason = notes[point->device];
	}
	return LK_OK;
}

static lk_status gemm_put_rows(struct work *work, lk_error *err) {
	double *nearest = LK_ARRAY(work->arena, double, work->table.count);
	if (!nearest) return lk_oom(err);
	bool other = work->part->cross && work->part->folds == LK_FOLDS_GPU;
	LK_TRY(lk_gemm_nearest(&work->table, work->part->cross, other, nearest, err));
	for (size_t i = 0; i < work->table.count; i++) {
		const lk_gemm_point *point = &work->table.points[i];
		lk_validated *row = &work->part->rows[point->row];
		row->predicted = work->predicted[i];
		row->low = row->predicted * exp(-work->width[i]);
		row->high = row->predicted * exp(work->width[i]);
		work->part->classes[point->row].name = work->of[i].class;
		work->part->nearest[point->row] = nearest[i];
		work->part->roofline[point->row] =
			lk_gemm_roofline(work->table.device[point->device], &point->shape);
	}
	return LK_OK;
}

static lk_status score_dtype(lk_arena *arena, lk_ops_part *part, lk_dtype dtype, lk_error *err) {
	struct work w = {.arena = arena, .part = part};
	LK_TRY(
		lk_gemm_table_build(arena, part->samples, part->count, dtype, part->folds, &w.table, err));
	if (w.table.count == 0) return LK_OK;
	w.predicted = LK_ARRAY(arena, double, w.table.count);
	w.width = LK_ARRAY(arena, double, w.table.count);
	w.of = LK_ARRAY(arena, struct names, w.table.count);
	if (!w.predicted || !w.width || !w.of) return lk_oom(err);
	LK_TRY(part->cross ? predict_cross(&w, err) : predict_calibrated(&w, err));
	return gemm_put_rows(&w, err);
}

lk_status lk_ops_gemm_score(lk_arena *arena, lk_ops_part *part, lk_error *err) {
	for (int d = 0; d < LK_DTYPES; d++) LK_TRY(score_dtype(arena, part, (lk_dtype)d, err));
	for (size_t i = 0; i < part->count; i++) {
		lk_validated *row = &part->rows[i];
		if (part->samples[i].family != LK_FAMILY_GEMM || isfinite(row->predicted)) continue;
		row->reason = part->samples[i].device ? "more devices in one table than can be fitted"
		                                      : "the device is not in the catalogue";
	}
	return LK_OK;
}

/* ---- calibration ---- */

static lk_status gemm_put_numbers(const lk_gemm_table *table, const lk_gemm_fitted *fitted,
                                  const char *source, const char *date, lk_calibration *out,
                                  lk_error *err) {
	for (int d = 0; d < (fitted->general ? 1 : table->devices); d++) {
		double sum = 0;
		size_t count = 0;
		for (size_t i = 0; i < table->count; i++) {
			if (!fitted->general && table->points[i].device != d) continue;
			sum += fabs(log(lk_gemm_fitted_seconds(fitted, table, &table->points[i]) /
			                table->points[i].sample->seconds));
			count++;
		}
		const char *subject = fitted->general ? "" : table->device[d]->name;
		lk_calibration_row *row =
			lk_calibration_add(out, "gemm", subject, lk_dtype_name(table->dtype));
		if (!row) return lk_oom(err);
		lk_gemm_put(row, &fitted->numbers[d]);
		row->points = (int)count;
		row->error = count ? expm1(sum / (double)count) : NAN;
		row->source = source;
		row->date = date;
	}
	return LK_OK;
}

static lk_status put_trees(const lk_gemm_table *table, const lk_gemm_fitted *fitted,
                           const char *source, const char *date, lk_calibration *out,
                           lk_error *err) {
	if (fitted->trees.count == 0) return LK_OK;
	const char *variant = lk_arena_printf(&out->arena, "%s%s", lk_dtype_name(table->dtype),
	                                      fitted->general ? " other" : "");
	lk_calibration_row *row = variant ? lk_calibration_add(out, "trees", "gemm", variant) : NULL;
	if (!row || !(row->text = lk_trees_text(&out->arena, &fitted->trees))) return lk_oom(err);
	row->points = (int)table->count;
	row->source = source;
	row->date = date;
	return LK_OK;
}

/* Widths of ranges, from predictions of folds that the fit had not seen. */
static lk_status gemm_put_ranges(lk_gemm_table *table, bool general, const char *source,
                                 const char *date, lk_calibration *out, lk_error *err) {
	lk_arena *arena = &out->arena;
	double *predicted = LK_ARRAY(arena, double, table->count);
	struct names *of = LK_ARRAY(arena, struct names, table->count);
	bool measured[LK_GEMM_DEVICES];
	if (!predicted || !of) return lk_oom(err);
	for (int d = 0; d < table->devices; d++) measured[d] = !general;
	LK_TRY(lk_gemm_cross(table, general, predicted, NULL, err));
	LK_TRY(name_points(arena, table, measured, of, err));
	lk_miss *misses = misses_of(arena, table, of, predicted);
	if (!misses) return lk_oom(err);
	return lk_misses_write(arena, misses, table->count, "gemm", source, date, out, err);
}

static lk_status gemm_calibrate(const lk_op_samples *samples, lk_dtype dtype, bool general,
                                const char *source, const char *date, lk_calibration *out,
                                lk_error *err) {
	lk_gemm_table t;
	int folds = general ? LK_FOLDS_GPU : LK_FOLDS_SHAPE;
	LK_TRY(lk_gemm_table_build(&out->arena, samples->at, samples->count, dtype, folds, &t, err));
	if (t.count == 0 || (general && t.devices < 2)) return LK_OK;
	lk_gemm_fitted *fitted = LK_NEW(&out->arena, lk_gemm_fitted);
	if (!fitted) return lk_oom(err);
	LK_TRY(lk_gemm_fit(&out->arena, &t, -1, general, fitted, err));
	LK_TRY(gemm_put_numbers(&t, fitted, source, date, out, err));
	LK_TRY(put_trees(&t, fitted, source, date, out, err));
	return gemm_put_ranges(&t, general, source, date, out, err);
}

lk_status lk_calibrate_gemm(const lk_op_samples *samples, const char *source, const char *date,
                            lk_calibration *out, lk_error *err) {
	for (int d = 0; d < LK_DTYPES; d++)
		for (int general = 0; general < 2; general++)
			LK_TRY(gemm_calibrate(samples, (lk_dtype)d, general, source, date, out, err));
	return LK_OK;
}
