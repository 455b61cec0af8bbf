/* ops_gemm.c: products of a table of kernel times: each row predicted with the calibration in use, or from a fit to the other
 * folds; ranges from the misses of such fits, by device and operation. */
#include <math.h>
#include <string.h>

#include "calibrate/calibrate.h"
#include "fit/fits.h"
#include "validate/validate.h"

/* "bmm fp32" */
static const char *class_of(lk_arena *arena, const lk_op_sample *s) {
	return lk_arena_printf(arena, "%s %s", s->op, lk_dtype_name(s->dtype));
}

/* Rows that miss alike: "bmm fp32 t4"; "bmm fp32 other" on devices that the fit has not seen. */
static const char *range_of(lk_arena *arena, const lk_op_sample *s, bool measured) {
	return lk_arena_printf(arena, "%s %s %s", s->op, lk_dtype_name(s->dtype), measured ? s->device->name : "other");
}

/* Classes and ranges' names of all points; few texts, so each is made once per run of alike rows. */
struct names {
	const char *class, *range;
};

static lk_status name_points(lk_arena *arena, const lk_gemm_table *t, const bool *measured, struct names *out, lk_error *err) {
	for (size_t i = 0; i < t->count; i++) {
		const lk_op_sample *s = t->points[i].sample, *before = i > 0 ? t->points[i - 1].sample : NULL;
		if (before && before->op == s->op && before->device == s->device) {
			out[i] = out[i - 1];
			continue;
		}
		out[i] = (struct names){class_of(arena, s), range_of(arena, s, measured[t->points[i].device])};
		if (!out[i].class || !out[i].range) return lk_oom(err);
	}
	return LK_OK;
}

/* Misses of cross-validated predictions, by the names of their ranges. */
static lk_miss *misses_of(lk_arena *arena, const lk_gemm_table *t, const struct names *of, const double *predicted) {
	lk_miss *out = LK_ARRAY(arena, lk_miss, t->count);
	for (size_t i = 0; out && i < t->count; i++)
		out[i] = (lk_miss){of[i].range, t->points[i].fold, fabs(log(predicted[i] / t->points[i].sample->seconds)), NAN};
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

static lk_status predict_cross(struct work *w, lk_error *err) {
	bool general = w->part->folds == LK_FOLDS_GPU;
	int fitted = 0;
	for (int d = 0; d < w->table.devices; d++) w->measured[d] = !general;
	LK_TRY(lk_gemm_cross(&w->table, general, w->predicted, &fitted, err));
	LK_TRY(name_points(w->arena, &w->table, w->measured, w->of, err));
	lk_miss *misses = misses_of(w->arena, &w->table, w->of, w->predicted);
	if (!misses) return lk_oom(err);
	LK_TRY(lk_misses_widths(w->arena, misses, w->table.count, err));
	for (size_t i = 0; i < w->table.count; i++) w->width[i] = misses[i].width;
	w->part->parameters += fitted;
	w->part->held_out = w->table.held_out;
	return LK_OK;
}

static lk_status predict_calibrated(struct work *w, lk_error *err) {
	static const double unknown = 0.3; /* half a range where no width was calibrated */
	lk_gemm_model models[LK_GEMM_DEVICES];
	const char *notes[LK_GEMM_DEVICES] = {NULL};
	for (int d = 0; d < w->table.devices; d++) {
		lk_gemm_model_of(w->table.device[d], w->table.dtype, &models[d]);
		w->measured[d] = models[d].measured;
		if (!models[d].measured && !(notes[d] = lk_arena_strdup(w->arena, models[d].note))) return lk_oom(err);
	}
	LK_TRY(name_points(w->arena, &w->table, w->measured, w->of, err));
	for (size_t i = 0; i < w->table.count; i++) {
		const lk_gemm_point *p = &w->table.points[i];
		w->predicted[i] = lk_gemm_seconds(&models[p->device], w->table.device[p->device], &p->shape, NULL);
		w->width[i] = i > 0 && w->of[i].range == w->of[i - 1].range
		                  ? w->width[i - 1]
		                  : lk_misses_width(lk_calibration_current(), "gemm", w->of[i].range, unknown);
		w->part->rows[p->row].reason = notes[p->device];
	}
	return LK_OK;
}

static lk_status put_rows(struct work *w, lk_error *err) {
	double *nearest = LK_ARRAY(w->arena, double, w->table.count);
	if (!nearest) return lk_oom(err);
	bool other = w->part->cross && w->part->folds == LK_FOLDS_GPU;
	LK_TRY(lk_gemm_nearest(&w->table, w->part->cross, other, nearest, err));
	for (size_t i = 0; i < w->table.count; i++) {
		const lk_gemm_point *p = &w->table.points[i];
		lk_validated *row = &w->part->rows[p->row];
		row->predicted = w->predicted[i];
		row->low = row->predicted * exp(-w->width[i]), row->high = row->predicted * exp(w->width[i]);
		w->part->classes[p->row].name = w->of[i].class;
		w->part->nearest[p->row] = nearest[i];
		w->part->roofline[p->row] = lk_gemm_roofline(w->table.device[p->device], &p->shape);
	}
	return LK_OK;
}

static lk_status score_dtype(lk_arena *arena, lk_ops_part *part, lk_dtype dtype, lk_error *err) {
	struct work w = {.arena = arena, .part = part};
	LK_TRY(lk_gemm_table_build(arena, part->samples, part->count, dtype, part->folds, &w.table, err));
	if (w.table.count == 0) return LK_OK;
	w.predicted = LK_ARRAY(arena, double, w.table.count), w.width = LK_ARRAY(arena, double, w.table.count);
	w.of = LK_ARRAY(arena, struct names, w.table.count);
	if (!w.predicted || !w.width || !w.of) return lk_oom(err);
	LK_TRY(part->cross ? predict_cross(&w, err) : predict_calibrated(&w, err));
	return put_rows(&w, err);
}

lk_status lk_ops_gemm_score(lk_arena *arena, lk_ops_part *part, lk_error *err) {
	for (int d = 0; d < LK_DTYPES; d++) LK_TRY(score_dtype(arena, part, (lk_dtype)d, err));
	for (size_t i = 0; i < part->count; i++) {
		lk_validated *row = &part->rows[i];
		if (part->samples[i].family != LK_FAMILY_GEMM || isfinite(row->predicted)) continue;
		row->reason = part->samples[i].device ? "more devices in one table than can be fitted" : "the device is not in the catalogue";
	}
	return LK_OK;
}

/* ---- calibration ---- */

static double share_off(double sum, size_t count) {
	return count ? expm1(sum / (double)count) : NAN;
}

static lk_status put_numbers(const lk_gemm_table *t, const lk_gemm_fitted *fitted, const char *source, const char *date,
                             lk_calibration *out, lk_error *err) {
	for (int d = 0; d < (fitted->general ? 1 : t->devices); d++) {
		double sum = 0;
		size_t count = 0;
		for (size_t i = 0; i < t->count; i++) {
			if (!fitted->general && t->points[i].device != d) continue;
			sum += fabs(log(lk_gemm_fitted_seconds(fitted, t, &t->points[i]) / t->points[i].sample->seconds)), count++;
		}
		const char *subject = fitted->general ? "" : t->device[d]->name;
		lk_calibration_row *row = lk_calibration_add(out, "gemm", subject, lk_dtype_name(t->dtype));
		if (!row) return lk_oom(err);
		lk_gemm_put(row, &fitted->numbers[d]);
		row->points = (int)count, row->error = share_off(sum, count), row->source = source, row->date = date;
	}
	return LK_OK;
}

static lk_status put_trees(const lk_gemm_table *t, const lk_gemm_fitted *fitted, const char *source, const char *date,
                           lk_calibration *out, lk_error *err) {
	if (fitted->trees.count == 0) return LK_OK;
	const char *variant = lk_arena_printf(&out->arena, "%s%s", lk_dtype_name(t->dtype), fitted->general ? " other" : "");
	lk_calibration_row *row = variant ? lk_calibration_add(out, "trees", "gemm", variant) : NULL;
	if (!row || !(row->text = lk_trees_text(&out->arena, &fitted->trees))) return lk_oom(err);
	row->points = (int)t->count, row->source = source, row->date = date;
	return LK_OK;
}

/* Widths of ranges, from predictions of folds that the fit had not seen. */
static lk_status put_ranges(lk_gemm_table *t, bool general, const char *source, const char *date, lk_calibration *out,
                            lk_error *err) {
	lk_arena *arena = &out->arena;
	double *predicted = LK_ARRAY(arena, double, t->count);
	struct names *of = LK_ARRAY(arena, struct names, t->count);
	bool measured[LK_GEMM_DEVICES];
	if (!predicted || !of) return lk_oom(err);
	for (int d = 0; d < t->devices; d++) measured[d] = !general;
	LK_TRY(lk_gemm_cross(t, general, predicted, NULL, err));
	LK_TRY(name_points(arena, t, measured, of, err));
	lk_miss *misses = misses_of(arena, t, of, predicted);
	if (!misses) return lk_oom(err);
	return lk_misses_write(arena, misses, t->count, "gemm", source, date, out, err);
}

static lk_status calibrate(const lk_op_samples *samples, lk_dtype dtype, bool general, const char *source, const char *date,
                           lk_calibration *out, lk_error *err) {
	lk_gemm_table t;
	int folds = general ? LK_FOLDS_GPU : LK_FOLDS_SHAPE;
	LK_TRY(lk_gemm_table_build(&out->arena, samples->at, samples->count, dtype, folds, &t, err));
	if (t.count == 0 || (general && t.devices < 2)) return LK_OK;
	lk_gemm_fitted *fitted = LK_NEW(&out->arena, lk_gemm_fitted);
	if (!fitted) return lk_oom(err);
	LK_TRY(lk_gemm_fit(&out->arena, &t, -1, general, fitted, err));
	LK_TRY(put_numbers(&t, fitted, source, date, out, err));
	LK_TRY(put_trees(&t, fitted, source, date, out, err));
	return put_ranges(&t, general, source, date, out, err);
}

lk_status lk_calibrate_gemm(const lk_op_samples *samples, const char *source, const char *date, lk_calibration *out,
                            lk_error *err) {
	for (int d = 0; d < LK_DTYPES; d++)
		for (int general = 0; general < 2; general++)
			LK_TRY(calibrate(samples, (lk_dtype)d, general, source, date, out, err));
	return LK_OK;
}
