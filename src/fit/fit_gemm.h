/* fit_gemm.h: products of a table of kernel times, and fits to a part of them. */
#ifndef LK_ACCURACY_FIT_GEMM_H
#define LK_ACCURACY_FIT_GEMM_H

#include "tables/ops_table.h"
#include "cost/kernel/gemm.h"
#include "lockstep/validate.h"

enum { LK_GEMM_DEVICES = 32 };

typedef struct lk_gemm_point {
	size_t row;                    /* of the table */
	const lk_op_sample *sample;
	lk_gemm_shape shape;
	int device;                    /* of the list */
	int fold;
} lk_gemm_point;

/* The products of one format. */
typedef struct lk_gemm_table {
	lk_dtype dtype;
	lk_gemm_point *points;
	size_t count;
	const lk_device *device[LK_GEMM_DEVICES];
	int devices, folds;
	const char *held_out;          /* "whole (n, k) pairs" */
} lk_gemm_table;

/* Rows of known devices and this format, with folds of a kind: LK_FOLDS_SHAPE, LK_FOLDS_GPU. */
lk_status lk_gemm_table_build(lk_arena *arena, const lk_op_sample *samples, size_t count, lk_dtype dtype, int folds,
                              lk_gemm_table *out, lk_error *err);

/* A fit. `general`: one set of numbers for all devices and a correction that does not tell them apart, for devices that
 * were not measured. */
typedef struct lk_gemm_fitted {
	bool general;
	lk_gemm_numbers numbers[LK_GEMM_DEVICES];
	lk_trees trees;
} lk_gemm_fitted;

/* Fits to the points outside a fold (-1: to all). Memory of the trees from the arena. */
lk_status lk_gemm_fit(lk_arena *arena, const lk_gemm_table *table, int without, bool general, lk_gemm_fitted *out,
                      lk_error *err);
double lk_gemm_fitted_seconds(const lk_gemm_fitted *fitted, const lk_gemm_table *table, const lk_gemm_point *point);
/* Numbers that a fit has. */
int lk_gemm_fitted_count(const lk_gemm_fitted *fitted, const lk_gemm_table *table);

/* predicted[count] of every point from a fit that has not seen its fold. `fitted` (may be NULL): numbers of one fit. */
lk_status lk_gemm_cross(const lk_gemm_table *table, bool general, double *predicted, int *fitted, lk_error *err);

#endif
