/* ops_memory.c: memory-bound operations of a table of kernel times, predicted by the memory model.
 *
 * A fold is a width, on all devices and for all operations (or a device). The numbers of a group
 * are fitted to its other rows; if none are left, they come from relatives that were fitted without
 * the fold too. */
#include "base/arena.h"
#include "validate/validate.h"

#include <math.h>
#include <string.h>

/* A class of its own: tables state such times in whole microseconds. */
static const double short_call_s = 10e-6;

/* Half the range with borrowed numbers, as ln. */
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
	case LK_BASIS_FAMILY:
		return "by the data sheet and devices of its architecture: not measured on this device";
	case LK_BASIS_ANY:
		return "by the data sheet and other devices: not measured on this architecture";
	case LK_BASIS_KIND:
		return "by other operations of its kind on this device: not measured itself";
	default: return "by the data sheet and default numbers: not measured anywhere";
	}
}

static void memory_put_row(struct scorer *scorer, const lk_memory_rows *rows, size_t row,
                           const lk_memory_model *model, lk_memory_basis basis) {
	const lk_op_sample *sample = &scorer->part->samples[row];
	lk_validated *out = &scorer->part->rows[row];
	lk_memory_work work =
		lk_memory_work_of(rows->kernel, sample->m, sample->n, lk_dtype_bytes(rows->dtype));
	out->predicted = lk_memory_seconds(model, rows->device, &work);
	out->reason = basis_text(basis);
	scorer->part->roofline[row] = work.bytes / rows->device->memory_rate;
	if (sample->seconds < short_call_s) scorer->part->classes[row].name = "under 10 us";
	else if (rows->dtype == LK_FP32) scorer->part->classes[row].name = "memory-bound fp32";
	else scorer->part->classes[row].name = "memory-bound fp16";
	scorer->part->classes[row].order = sample->seconds < short_call_s ? 2 : 1;
	if (basis == LK_BASIS_DEVICE) /* the error of others is unknown */
		scorer->misses[row] =
			(lk_miss){.name = lk_memory_range_class(scorer->arena, rows, out->predicted),
		              .fold = scorer->table.fold[row],
		              .by = fabs(log(sample->seconds / out->predicted))};
}

/* ---- the nearest measured shape ---- */

static double memory_distance(const lk_op_sample *a, const lk_op_sample *b) {
	double rows = log(a->m / b->m), width = log(a->n / b->n);
	return rows * rows + width * width;
}

static void put_nearest(struct scorer *scorer, const lk_memory_rows *rows, size_t row) {
	const lk_op_sample *samples = scorer->part->samples;
	size_t step = 1 + rows->rows.count / 2000;
	double least = INFINITY;
	for (size_t i = 0; i < rows->rows.count; i += step) {
		size_t other = rows->rows.at[i];
		if (other == row ||
		    (scorer->part->cross && scorer->table.fold[other] == scorer->table.fold[row]))
			continue;
		double d = memory_distance(&samples[row], &samples[other]);
		if (d < least) {
			least = d;
			scorer->part->nearest[row] = samples[other].seconds;
		}
	}
}

/* ---- predictions ---- */

static bool has_fold(const struct scorer *scorer, const lk_memory_rows *rows, int fold) {
	for (size_t i = 0; i < rows->rows.count; i++)
		if (scorer->table.fold[rows->rows.at[i]] == fold) return true;
	return false;
}

/* Fit a group without a fold; false if too few rows are left. */
static bool memory_fit_without(struct scorer *scorer, lk_memory_rows *rows, int fold,
                               lk_memory_model *out) {
	if (!has_fold(scorer, rows, fold)) {
		*out = *lk_memory_table_whole(&scorer->table, rows);
		return rows->rows.count >= LK_MEMORY_POINTS_LEAST;
	}
	lk_memory_group group = lk_memory_table_points(&scorer->table, rows, fold);
	if (group.count < LK_MEMORY_POINTS_LEAST) return false;
	*out = lk_memory_fit(&group);
	return true;
}

/* Relatives: the same operation on other devices, or others on this one. */
static bool is_relative(const lk_memory_rows *a, const lk_memory_rows *b) {
	return a != b && a->dtype == b->dtype && (a->kernel == b->kernel || a->device == b->device);
}

static lk_status from_relatives(struct scorer *scorer, const lk_memory_rows *rows, int fold,
                                lk_memory_model *out, lk_memory_basis *basis, lk_error *err) {
	lk_calibration fits = {0};
	lk_status status = LK_OK;
	for (size_t i = 0; i < scorer->table.groups.count && status == LK_OK; i++) {
		lk_memory_rows *other = &scorer->table.groups.at[i];
		lk_memory_model model;
		if (!is_relative(rows, other) || !memory_fit_without(scorer, other, fold, &model)) continue;
		lk_memory_group group = {other->device, other->kernel, other->dtype, NULL, 0};
		status = lk_memory_fit_row(&fits, &group, &model, "", "", err);
	}
	if (status == LK_OK)
		*out = lk_memory_model_find(&fits, rows->device, rows->kernel, rows->dtype, NULL, basis);
	lk_calibration_free(&fits);
	return status;
}

static lk_status score_fold(struct scorer *scorer, lk_memory_rows *rows, int fold, lk_error *err) {
	lk_memory_model model;
	lk_memory_basis basis = LK_BASIS_DEVICE;
	if (!memory_fit_without(scorer, rows, fold, &model))
		LK_TRY(from_relatives(scorer, rows, fold, &model, &basis, err));
	for (size_t i = 0; i < rows->rows.count; i++)
		if (scorer->table.fold[rows->rows.at[i]] == fold)
			memory_put_row(scorer, rows, rows->rows.at[i], &model, basis);
	return LK_OK;
}

static lk_status memory_score_group(struct scorer *scorer, lk_memory_rows *rows, lk_error *err) {
	for (size_t i = 0; scorer->part->nearest && i < rows->rows.count; i++)
		put_nearest(scorer, rows, rows->rows.at[i]);
	if (scorer->part->cross) {
		scorer->part->parameters += lk_memory_fit_numbers(rows->kernel);
		for (int fold = 0; fold < scorer->table.folds; fold++)
			if (has_fold(scorer, rows, fold)) LK_TRY(score_fold(scorer, rows, fold, err));
		return LK_OK;
	}
	lk_memory_basis basis;
	lk_memory_model model = lk_memory_model_find(lk_calibration_current(), rows->device,
	                                             rows->kernel, rows->dtype, NULL, &basis);
	for (size_t i = 0; i < rows->rows.count; i++)
		memory_put_row(scorer, rows, rows->rows.at[i], &model, basis);
	return LK_OK;
}

/* Ranges: with `cross` from the errors in other folds, else as calibrated. */
static lk_status memory_put_ranges(struct scorer *scorer, lk_error *err) {
	double share = lk_memory_inside(&scorer->table);
	if (scorer->part->cross)
		LK_TRY(lk_misses_widths_of(scorer->arena, scorer->misses, scorer->part->count, share, err));
	for (size_t i = 0; i < scorer->part->count; i++) {
		lk_miss *miss = &scorer->misses[i];
		lk_validated *row = &scorer->part->rows[i];
		if (scorer->part->samples[i].family != LK_FAMILY_MEMORY || !(row->predicted > 0)) continue;
		if (!miss->name) miss->width = of_relatives;
		else if (!scorer->part->cross)
			miss->width = lk_misses_width(lk_calibration_current(), "memory", miss->name, 0.1);
		row->low = row->predicted * exp(-miss->width);
		row->high = row->predicted * exp(miss->width);
	}
	return LK_OK;
}

static lk_status memory_score(struct scorer *scorer, lk_error *err) {
	const char **why = LK_ARRAY(scorer->arena, const char *, scorer->part->count);
	scorer->misses = LK_ARRAY(scorer->arena, lk_miss, scorer->part->count);
	if (!why || !scorer->misses) return lk_oom(err);
	LK_TRY(lk_memory_table_sort(scorer->arena, scorer->part->samples, scorer->part->count, why,
	                            &scorer->table, err));
	LK_TRY(lk_memory_table_folds(scorer->arena, &scorer->table, scorer->part->folds, err));
	for (size_t i = 0; i < scorer->part->count; i++)
		if (why[i]) scorer->part->rows[i].reason = why[i];
	for (size_t i = 0; i < scorer->table.groups.count; i++)
		LK_TRY(memory_score_group(scorer, &scorer->table.groups.at[i], err));
	if (scorer->table.groups.count > 0 && scorer->part->cross)
		scorer->part->held_out =
			scorer->part->folds == LK_FOLDS_GPU ? "whole devices" : "whole widths";
	return memory_put_ranges(scorer, err);
}

lk_status lk_ops_memory_score(lk_arena *arena, lk_ops_part *part, lk_error *err) {
	struct scorer s = {.arena = arena, .part = part};
	lk_status status = memory_score(&s, err);
	lk_memory_table_free(&s.table);
	return status;
}

lk_status lk_ops_memory_misses(lk_arena *arena, const lk_op_samples *samples, lk_miss **out,
                               double *share, lk_error *err) {
	size_t count = samples->count;
	lk_scoring rows = {0};
	lk_ops_part part = {
		.samples = samples->at, .count = count, .cross = true, .folds = LK_FOLDS_SHAPE};
	struct scorer s = {.arena = arena, .part = &part};
	LK_TRY(lk_scoring_rows(arena, count, &rows, err));
	part.rows = rows.rows;
	part.classes = LK_ARRAY(arena, lk_score_key, count);
	part.roofline = LK_ARRAY(arena, double, count);
	if (!part.classes || !part.roofline) return lk_oom(err);
	lk_status status = memory_score(&s, err);
	*out = s.misses;
	*share = lk_memory_inside(&s.table);
	lk_memory_table_free(&s.table);
	return status;
}
