/* ops_memory.c: memory-bound operations of a table of kernel times, predicted by the memory model.
 *
 * What is left out together is a width, on all devices and for all operations (or a device). The numbers of a group are
 * fitted to its other rows; where none are left, they come from relatives that were fitted without the fold too.
 */
#include "validate/validate.h"

#include <math.h>
#include <string.h>

/* A class of its own: tables state such times in whole microseconds. */
static const double short_call_s = 10e-6;

/* Half the range where numbers are borrowed, as ln. */
static const double of_relatives = 0.35;

struct scorer {
	lk_arena *arena;
	lk_ops_part *part;
	lk_memory_table table;
	lk_miss *misses;
};

static const char *basis_text(lk_memory_basis basis) {
	switch (basis) {
	case LK_BASIS_DEVICE: return NULL;
	case LK_BASIS_FAMILY: return "by the data sheet and devices of its architecture: not measured on this device";
	case LK_BASIS_ANY: return "by the data sheet and other devices: not measured on this architecture";
	case LK_BASIS_KIND: return "by other operations of its kind on this device: not measured itself";
	default: return "by the data sheet and usual numbers: not measured anywhere";
	}
}

static void put_row(struct scorer *s, const lk_memory_rows *g, size_t row, const lk_memory_model *model,
                    lk_memory_basis basis) {
	const lk_op_sample *sample = &s->part->samples[row];
	lk_validated *out = &s->part->rows[row];
	lk_memory_work work = lk_memory_work_of(g->kernel, sample->m, sample->n, lk_dtype_bytes(g->dtype));
	out->predicted = lk_memory_seconds(model, g->device, &work);
	out->reason = basis_text(basis);
	s->part->roofline[row] = work.bytes / g->device->memory_rate;
	s->part->classes[row].name = sample->seconds < short_call_s ? "under 10 us"
	                             : g->dtype == LK_FP32          ? "memory-bound fp32"
	                                                            : "memory-bound fp16";
	s->part->classes[row].order = sample->seconds < short_call_s ? 2 : 1;
	if (basis == LK_BASIS_DEVICE) /* of others it is not known how far off they are */
		s->misses[row] = (lk_miss){.name = lk_memory_range_class(s->arena, g, out->predicted),
		                           .fold = s->table.fold[row], .by = fabs(log(sample->seconds / out->predicted))};
}

/* ---- the nearest measured shape ---- */

static double distance(const lk_op_sample *a, const lk_op_sample *b) {
	double rows = log(a->m / b->m), width = log(a->n / b->n);
	return rows * rows + width * width;
}

static void put_nearest(struct scorer *s, const lk_memory_rows *g, size_t row) {
	const lk_op_sample *samples = s->part->samples;
	size_t step = 1 + g->rows.count / 2000;
	double least = INFINITY;
	for (size_t i = 0; i < g->rows.count; i += step) {
		size_t other = g->rows.at[i];
		if (other == row || (s->part->cross && s->table.fold[other] == s->table.fold[row])) continue;
		double d = distance(&samples[row], &samples[other]);
		if (d < least) least = d, s->part->nearest[row] = samples[other].seconds;
	}
}

/* ---- predictions ---- */

static bool has_fold(const struct scorer *s, const lk_memory_rows *g, int fold) {
	for (size_t i = 0; i < g->rows.count; i++)
		if (s->table.fold[g->rows.at[i]] == fold) return true;
	return false;
}

/* Fits a group without a fold; false where too few rows are left. */
static bool fit_without(struct scorer *s, lk_memory_rows *g, int fold, lk_memory_model *out) {
	if (!has_fold(s, g, fold)) {
		*out = *lk_memory_table_whole(&s->table, g);
		return g->rows.count >= LK_MEMORY_POINTS_LEAST;
	}
	lk_memory_group group = lk_memory_table_points(&s->table, g, fold);
	if (group.count < LK_MEMORY_POINTS_LEAST) return false;
	*out = lk_memory_fit(&group);
	return true;
}

/* Relatives: the same operation elsewhere, or others here. */
static bool is_relative(const lk_memory_rows *a, const lk_memory_rows *b) {
	return a != b && a->dtype == b->dtype && (a->kernel == b->kernel || a->device == b->device);
}

static lk_status from_relatives(struct scorer *s, const lk_memory_rows *g, int fold, lk_memory_model *out,
                                lk_memory_basis *basis, lk_error *err) {
	lk_calibration fits = {0};
	lk_status status = LK_OK;
	for (size_t i = 0; i < s->table.groups.count && status == LK_OK; i++) {
		lk_memory_rows *other = &s->table.groups.at[i];
		lk_memory_model model;
		if (!is_relative(g, other) || !fit_without(s, other, fold, &model)) continue;
		lk_memory_group group = {other->device, other->kernel, other->dtype, NULL, 0};
		status = lk_memory_fit_row(&fits, &group, &model, "", "", err);
	}
	if (status == LK_OK) *out = lk_memory_model_find(&fits, g->device, g->kernel, g->dtype, NULL, basis);
	lk_calibration_free(&fits);
	return status;
}

static lk_status score_fold(struct scorer *s, lk_memory_rows *g, int fold, lk_error *err) {
	lk_memory_model model;
	lk_memory_basis basis = LK_BASIS_DEVICE;
	if (!fit_without(s, g, fold, &model)) LK_TRY(from_relatives(s, g, fold, &model, &basis, err));
	for (size_t i = 0; i < g->rows.count; i++)
		if (s->table.fold[g->rows.at[i]] == fold) put_row(s, g, g->rows.at[i], &model, basis);
	return LK_OK;
}

static lk_status score_group(struct scorer *s, lk_memory_rows *g, lk_error *err) {
	for (size_t i = 0; s->part->nearest && i < g->rows.count; i++) put_nearest(s, g, g->rows.at[i]);
	if (s->part->cross) {
		s->part->parameters += lk_memory_fit_numbers(g->kernel);
		for (int fold = 0; fold < s->table.folds; fold++)
			if (has_fold(s, g, fold)) LK_TRY(score_fold(s, g, fold, err));
		return LK_OK;
	}
	lk_memory_basis basis;
	lk_memory_model model =
		lk_memory_model_find(lk_calibration_current(), g->device, g->kernel, g->dtype, NULL, &basis);
	for (size_t i = 0; i < g->rows.count; i++) put_row(s, g, g->rows.at[i], &model, basis);
	return LK_OK;
}

/* Ranges: with `cross` from the misses in other folds, else as calibrated. */
static lk_status put_ranges(struct scorer *s, lk_error *err) {
	double share = lk_memory_inside(&s->table);
	if (s->part->cross) LK_TRY(lk_misses_widths_of(s->arena, s->misses, s->part->count, share, err));
	for (size_t i = 0; i < s->part->count; i++) {
		lk_miss *miss = &s->misses[i];
		lk_validated *row = &s->part->rows[i];
		if (s->part->samples[i].family != LK_FAMILY_MEMORY || !(row->predicted > 0)) continue;
		if (!miss->name) miss->width = of_relatives;
		else if (!s->part->cross) miss->width = lk_misses_width(lk_calibration_current(), "memory", miss->name, 0.1);
		row->low = row->predicted * exp(-miss->width), row->high = row->predicted * exp(miss->width);
	}
	return LK_OK;
}

static lk_status score(struct scorer *s, lk_error *err) {
	const char **why = LK_ARRAY(s->arena, const char *, s->part->count);
	s->misses = LK_ARRAY(s->arena, lk_miss, s->part->count);
	if (!why || !s->misses) return lk_oom(err);
	LK_TRY(lk_memory_table_sort(s->arena, s->part->samples, s->part->count, why, &s->table, err));
	LK_TRY(lk_memory_table_folds(s->arena, &s->table, s->part->folds, err));
	for (size_t i = 0; i < s->part->count; i++)
		if (why[i]) s->part->rows[i].reason = why[i];
	for (size_t i = 0; i < s->table.groups.count; i++) LK_TRY(score_group(s, &s->table.groups.at[i], err));
	if (s->table.groups.count > 0 && s->part->cross)
		s->part->held_out = s->part->folds == LK_FOLDS_GPU ? "whole devices" : "whole widths";
	return put_ranges(s, err);
}

lk_status lk_ops_memory_score(lk_arena *arena, lk_ops_part *part, lk_error *err) {
	struct scorer s = {.arena = arena, .part = part};
	lk_status status = score(&s, err);
	lk_memory_table_free(&s.table);
	return status;
}

lk_status lk_ops_memory_misses(lk_arena *arena, const lk_op_samples *samples, lk_miss **out, double *share,
                               lk_error *err) {
	size_t count = samples->count;
	lk_scoring rows = {0};
	lk_ops_part part = {.samples = samples->at, .count = count, .cross = true, .folds = LK_FOLDS_SHAPE};
	struct scorer s = {.arena = arena, .part = &part};
	LK_TRY(lk_scoring_rows(arena, count, &rows, err));
	part.rows = rows.rows;
	part.classes = LK_ARRAY(arena, lk_score_key, count);
	part.roofline = LK_ARRAY(arena, double, count);
	if (!part.classes || !part.roofline) return lk_oom(err);
	lk_status status = score(&s, err);
	*out = s.misses;
	*share = lk_memory_inside(&s.table);
	lk_memory_table_free(&s.table);
	return status;
}
