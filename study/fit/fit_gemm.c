/* fit_gemm.c: fits of the product model: the formula's numbers by a simplex search, device by
 * device; then boosted trees on the formula's residuals, over all devices together. What trees gain
 * over the formula: docs/method/kernels.md. */
#include "base/arena.h"
#include "fit/fits.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/fit.h"
#include "base/stats.h"
#include "system/context.h"
#include "system/stop.h"
#include "base/sort.h"

/* ---- the table ---- */

enum { OCTAVE_FOLDS = 6, PAIR_FOLDS = 10 };

static int device_index(lk_gemm_table *table, const lk_device *device) {
	for (int i = 0; i < table->devices; i++)
		if (table->device[i] == device) return i;
	if (table->devices == LK_GEMM_DEVICES) return -1;
	table->device[table->devices] = device;
	return table->devices++;
}

static int by_pair(const void *a, const void *b) {
	const lk_gemm_shape *x = &((const lk_gemm_point *)a)->shape,
						*y = &((const lk_gemm_point *)b)->shape;
	if (x->n != y->n) return x->n < y->n ? -1 : 1;
	return (x->k > y->k) - (x->k < y->k);
}

/* Sort the points by (n, k); return the number of different pairs. */
static size_t sort_by_pair(lk_gemm_table *table) {
	size_t pairs = table->count > 0;
	lk_sort(table->points, table->count, sizeof *table->points, by_pair);
	for (size_t i = 1; i < table->count; i++)
		pairs += by_pair(&table->points[i - 1], &table->points[i]) != 0;
	return pairs;
}

LK_ORDER_BY(by_row, lk_gemm_point, row)

static int octave(const lk_gemm_shape *shape) {
	return (int)floor(log2(2 * shape->batch * shape->m * shape->n * shape->k));
}

/* Assign folds. Sweeps over m for few (n, k): leave out whole pairs. Random shapes: leave out whole
 * octaves of the floating-point operations, every sixth together. */
static void set_folds(lk_gemm_table *table, int folds) {
	bool sweep = sort_by_pair(table) * 20 < table->count;
	lk_sort(table->points, table->count, sizeof *table->points, by_row);
	if (folds == LK_FOLDS_GPU) table->folds = table->devices;
	else if (sweep) table->folds = PAIR_FOLDS;
	else table->folds = OCTAVE_FOLDS;
	if (folds == LK_FOLDS_GPU) table->held_out = "whole GPUs";
	else if (sweep) table->held_out = "whole (n, k) pairs";
	else table->held_out = "whole size octaves";
	for (size_t i = 0; i < table->count; i++) {
		lk_gemm_point *point = &table->points[i];
		uint64_t pair = (uint64_t)point->shape.n << 32 | (uint64_t)point->shape.k;
		if (folds == LK_FOLDS_GPU) point->fold = point->device;
		else if (sweep) point->fold = (int)(lk_hash64(pair) % PAIR_FOLDS);
		else point->fold = octave(&point->shape) % OCTAVE_FOLDS;
		LK_ASSERT(0 <= point->fold && point->fold < table->folds);
	}
}

lk_status lk_gemm_table_build(lk_arena *arena, const lk_op_sample *samples, size_t count,
                              lk_dtype dtype, int folds, lk_gemm_table *out, lk_error *err) {
	*out = (lk_gemm_table){.dtype = dtype, .held_out = ""};
	out->points = LK_ARRAY(arena, lk_gemm_point, count);
	if (!out->points) return lk_oom(err);
	for (size_t i = 0; i < count; i++) {
		const lk_op_sample *sample = &samples[i];
		if (sample->family != LK_FAMILY_GEMM || sample->dtype != dtype || !sample->device) continue;
		int device = device_index(out, sample->device);
		if (device < 0) continue;
		out->points[out->count++] = (lk_gemm_point){
			i, sample, {sample->dtype, sample->batch, sample->m, sample->n, sample->k}, device, 0};
	}
	set_folds(out, folds);
	return LK_OK;
}

/* ---- the formula's numbers ---- */

enum { NUMBERS = 9, SAMPLE = 600, EVALUATIONS = 300 };

static const lk_fit_number searched[NUMBERS] = {
	{"efficiency", 0.7, 0.05, 1.5, false}, {"unaligned", 0.9, 0.1, 1, false},
	{"tiles", 0.1, 0, 1.2, false},         {"fill", 1e-6, 1e-8, 5e-5, true},
	{"floor", 8e-6, 1e-7, 1e-3, true},     {"memory", 0.8, 0.05, 1.2, false},
	{"traffic", 0.02, 0, 0.6, false},      {"blend", 3, 1, 20, true},
	{"k_extra", 16, 0, 200, false},
};

static lk_gemm_numbers fit_gemm_numbers_of(const double *x) {
	return (lk_gemm_numbers){x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7], x[8], 16};
}

/* Points that a search uses. */
struct sample {
	const lk_gemm_table *table;
	const lk_gemm_point *points[LK_GEMM_DEVICES * SAMPLE];
	size_t count;
};

static double formula_error(const double *x, void *context) {
	const struct sample *sample = context;
	lk_gemm_numbers numbers = fit_gemm_numbers_of(x);
	double sum = 0;
	for (size_t i = 0; i < sample->count; i++) {
		const lk_gemm_point *point = sample->points[i];
		double seconds = lk_gemm_formula(&numbers, sample->table->device[point->device],
		                                 &point->shape, NAN, NULL);
		sum += fabs(log(seconds / point->sample->seconds));
	}
	return sample->count ? sum / (double)sample->count : 0;
}

/* Add an even sample of a device's points outside the fold. */
static void gemm_draw(struct sample *sample, int device, int without, size_t most) {
	size_t fitting = 0, seen = 0;
	for (size_t i = 0; i < sample->table->count; i++)
		fitting +=
			sample->table->points[i].device == device && sample->table->points[i].fold != without;
	for (size_t i = 0, first = sample->count;
	     i < sample->table->count && sample->count - first < most; i++) {
		const lk_gemm_point *point = &sample->table->points[i];
		if (point->device != device || point->fold == without) continue;
		if (lk_uniform(1, seen++) * (double)fitting < (double)most)
			sample->points[sample->count++] = point;
	}
	LK_ASSERT(sample->count <= sizeof sample->points / sizeof *sample->points);
}

static lk_status fit_numbers(const lk_gemm_table *table, int without, lk_gemm_fitted *out,
                             lk_error *err) {
	struct sample *sample = malloc(sizeof *sample);
	if (!sample) return lk_oom(err);
	sample->table = table;
	for (int d = 0; d < table->devices; d++) {
		double x[NUMBERS];
		if (d > 0 && out->general) {
			out->numbers[d] = out->numbers[0];
			continue;
		}
		sample->count = 0;
		if (!out->general) gemm_draw(sample, d, without, SAMPLE);
		for (int all = 0; all < table->devices && out->general; all++)
			gemm_draw(sample, all, without, SAMPLE / 2);
		if (sample->count == 0 && d > 0) { /* all its points are in the fold */
			out->numbers[d] = out->numbers[0];
			continue;
		}
		lk_fit_simplex(searched, NUMBERS, EVALUATIONS, formula_error, sample, x, NULL);
		out->numbers[d] = fit_gemm_numbers_of(x);
	}
	free(sample);
	return LK_OK;
}

/* ---- the correction ---- */

/* Rows per tree. */
enum { ROWS_PER_TREE = 200, ROWS_PER_GENERAL_TREE = 1200, TREES = 600 };
/* With fewer devices, trees do not learn what generalises to another one: with three devices the
 * formula alone does better. */
enum { DEVICES_FOR_GENERAL_TREES = 5 };

static double features_of(const lk_gemm_fitted *fitted, const lk_gemm_table *table,
                          const lk_gemm_point *point, float *x) {
	LK_ASSERT(0 <= point->device && point->device < table->devices);
	const lk_gemm_numbers *numbers = &fitted->numbers[point->device];
	lk_gemm_detail detail;
	double seconds =
		lk_gemm_formula(numbers, table->device[point->device], &point->shape, NAN, &detail);
	lk_gemm_features(numbers, table->device[point->device], &point->shape, &detail, seconds, x);
	return seconds;
}

static lk_status fit_trees(lk_arena *arena, const lk_gemm_table *table, int without,
                           lk_gemm_fitted *out, lk_error *err) {
	if (out->general && table->devices < DEVICES_FOR_GENERAL_TREES) return LK_OK;
	int features = out->general ? LK_GEMM_GENERAL_FEATURES : LK_GEMM_FEATURES;
	lk_arena room = LK_ARENA_INIT;
	float *x = LK_ARRAY(&room, float, table->count *(size_t)features),
		  *left = LK_ARRAY(&room, float, table->count);
	size_t rows = 0;
	for (size_t i = 0; x && left && i < table->count; i++) {
		const lk_gemm_point *point = &table->points[i];
		float all[LK_GEMM_FEATURES];
		if (point->fold == without) continue;
		left[rows] = (float)log(point->sample->seconds / features_of(out, table, point, all));
		memcpy(x + rows++ * (size_t)features, all, (size_t)features * sizeof *all);
	}
	lk_trees_options options = {.rate = 0.2,
	                            .sample = out->general ? 0.2 : 0.5,
	                            .rows = out->general ? 50 : 10,
	                            .limit = 0.4};
	size_t trees = rows / (out->general ? ROWS_PER_GENERAL_TREE : ROWS_PER_TREE);
	options.count = trees < TREES ? (int)trees : TREES;
	lk_status status =
		x && left ? lk_trees_fit(arena, x, left, rows, features, &options, &out->trees, err)
				  : lk_oom(err);
	lk_arena_free(&room);
	return status;
}

lk_status lk_gemm_fit(lk_arena *arena, const lk_gemm_table *table, int without, bool general,
                      lk_gemm_fitted *out, lk_error *err) {
	memset(out, 0, sizeof *out);
	out->general = general;
	LK_TRY(fit_numbers(table, without, out, err));
	return fit_trees(arena, table, without, out, err);
}

double lk_gemm_fitted_seconds(const lk_gemm_fitted *fitted, const lk_gemm_table *table,
                              const lk_gemm_point *point) {
	float x[LK_GEMM_FEATURES];
	double seconds = features_of(fitted, table, point, x);
	return seconds * exp(lk_trees_at(&fitted->trees, x));
}

int lk_gemm_fitted_count(const lk_gemm_fitted *fitted, const lk_gemm_table *table) {
	return (fitted->general ? 1 : table->devices) * NUMBERS + fitted->trees.count * LK_TREE_LEAVES;
}

/* ---- cross-validation ---- */

static lk_status gemm_predict_fold(const lk_gemm_table *table, int fold, bool general,
                                   double *predicted, int *count, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	lk_gemm_fitted *fitted = LK_NEW(&arena, lk_gemm_fitted);
	lk_status status =
		fitted ? lk_gemm_fit(&arena, table, fold, general, fitted, err) : lk_oom(err);
	for (size_t i = 0; status == LK_OK && i < table->count; i++)
		if (table->points[i].fold == fold)
			predicted[i] = lk_gemm_fitted_seconds(fitted, table, &table->points[i]);
	if (status == LK_OK && count) *count = lk_gemm_fitted_count(fitted, table);
	lk_arena_free(&arena);
	return status;
}

/* Folds are distributed to two threads. They are independent, so the result is the same in any
 * order. */
struct crossing {
	const lk_gemm_table *table;
	bool general;
	double *predicted;
	int fitted, next;
	pthread_mutex_t lock;
	lk_carried carried; /* by the caller, and so by the other thread */
	lk_status status;
	lk_error err;
};

static int take_fold(struct crossing *crossing) {
	pthread_mutex_lock(&crossing->lock);
	int fold = crossing->status == LK_OK && crossing->next < crossing->table->folds
	               ? crossing->next++
	               : -1;
	pthread_mutex_unlock(&crossing->lock);
	return fold;
}

static void *cross_some(void *context) {
	struct crossing *crossing = context;
	*lk_carried_here() = crossing->carried;
	for (int fold; (fold = take_fold(crossing)) >= 0;) {
		lk_error err = {0};
		int fitted = 0;
		lk_status status = lk_stop_check(&err);
		if (status == LK_OK)
			status = gemm_predict_fold(crossing->table, fold, crossing->general,
			                           crossing->predicted, &fitted, &err);
		pthread_mutex_lock(&crossing->lock);
		if (status != LK_OK) {
			crossing->status = status;
			crossing->err = err;
		}
		if (fitted > crossing->fitted) crossing->fitted = fitted;
		pthread_mutex_unlock(&crossing->lock);
	}
	return NULL;
}

lk_status lk_gemm_cross(const lk_gemm_table *table, bool general, double *predicted, int *fitted,
                        lk_error *err) {
	struct crossing c = {.table = table,
	                     .general = general,
	                     .predicted = predicted,
	                     .lock = PTHREAD_MUTEX_INITIALIZER,
	                     .carried = *lk_carried_here()};
	pthread_t other;
	bool two = pthread_create(&other, NULL, cross_some, &c) == 0;
	cross_some(&c);
	if (two) pthread_join(other, NULL);
	pthread_mutex_destroy(&c.lock);
	if (c.status != LK_OK && err) *err = c.err;
	if (fitted) *fitted = c.fitted;
	return c.status;
}
