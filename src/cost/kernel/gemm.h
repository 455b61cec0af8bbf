/* gemm.h: how long a matrix product takes: one model, its numbers in a struct. Whole training steps fill the struct from
 * lk_constants; a kernel on its own takes the numbers that were fitted to its device. */
#ifndef LK_COST_GEMM_H
#define LK_COST_GEMM_H

#include "base/trees.h"
#include "cost/calibration/calibration.h"
#include "hw/hw.h"

/* C[b] = A[b] B[b], b times m x k times k x n. Elements of A, B and C as wide as the format. */
typedef struct lk_gemm_shape {
	lk_dtype dtype;
	double batch, m, n, k;
} lk_gemm_shape;

typedef struct lk_gemm_numbers {
	double efficiency;     /* of dense peak, large shapes, the best tile */
	double unaligned;      /* factor on it where n or k is no multiple of 8 elements */
	double tiles;          /* exponent of the tiles' own efficiencies: 0 all alike, 1 as operand reuse says */
	double fill_s;         /* first loads and epilogue of a tile */
	double floor_s;        /* shortest kernel */
	double memory;         /* share of memory bandwidth, each operand read once */
	double traffic;        /* share of what tiles read again that comes from memory and not from the L2 cache */
	double blend;          /* arithmetic and memory as (a^p + b^p)^(1/p): INFINITY the longer of the two */
	double k_extra;        /* so many steps of k more for each tile: its prologue and epilogue */
	double k_step;         /* k is worked off in whole steps of so many; 0: any */
} lk_gemm_numbers;

/* How the time came about. */
typedef struct lk_gemm_detail {
	double compute_s, memory_s;
	double waves;          /* CTAs over SMs */
	int tile, splits;      /* index of the tile; parts of k */
} lk_gemm_detail;

/* The first ones make sense on devices that were not measured too. */
enum { LK_GEMM_FEATURES = 46, LK_GEMM_GENERAL_FEATURES = 41 };

/* Seconds on an idle device, by the formula. `bytes` NAN: each operand once. `detail` may be NULL. */
double lk_gemm_formula(const lk_gemm_numbers *numbers, const lk_device *device, const lk_gemm_shape *shape, double bytes,
                       lk_gemm_detail *detail);

/* What the learned correction sees of a product on a device. */
void lk_gemm_features(const lk_gemm_numbers *numbers, const lk_device *device, const lk_gemm_shape *shape,
                      const lk_gemm_detail *detail, double seconds, float *out);

/* Numbers by name, as calibration rows have them. */
void lk_gemm_put(lk_calibration_row *row, const lk_gemm_numbers *numbers);
void lk_gemm_get(const lk_calibration_row *row, lk_gemm_numbers *out);

/* A model of products on one device: the formula, times exp of the learned correction where there is one. */
typedef struct lk_gemm_model {
	lk_gemm_numbers numbers;
	const lk_trees *trees; /* NULL none */
	char note[120];        /* where the numbers come from, for people: "fitted to 26946 measurements on it" */
	bool measured;         /* on this device, in this format */
} lk_gemm_model;

double lk_gemm_seconds(const lk_gemm_model *model, const lk_device *device, const lk_gemm_shape *shape,
                       lk_gemm_detail *detail);

/* Numbers of the formula alone: fitted on the device, else on the measured one of its architecture whose data sheet is
 * nearest, else on all. */
void lk_gemm_numbers_of(const lk_device *device, lk_dtype dtype, lk_gemm_numbers *out);
/* The same without the last: false where none of the architecture was measured in that format. */
bool lk_gemm_measured(const lk_device *device, lk_dtype dtype, lk_gemm_numbers *out);

/* The model in use for a device and format: numbers fitted to it, else to its relatives (its architecture, then all). */
void lk_gemm_model_of(const lk_device *device, lk_dtype dtype, lk_gemm_model *out);

#endif
