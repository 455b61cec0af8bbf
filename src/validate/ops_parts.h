/* ops_parts.h: a table of kernel times is scored in two parts, products and memory-bound operations; each part fills the
 * rows of its own family. */
#ifndef LK_ACCURACY_OPS_PARTS_H
#define LK_ACCURACY_OPS_PARTS_H

#include "tables/ops_table.h"
#include "validate/scoring.h"

/* All arrays have one place per row of the table; a part leaves the rows of the other alone. */
typedef struct lk_ops_part {
	const lk_op_sample *samples;
	size_t count;
	bool cross;              /* from fits that have not seen a row's fold, else with the calibration in use */
	int folds;               /* LK_FOLDS_SHAPE, LK_FOLDS_GPU: what is left out together */
	lk_validated *rows;      /* to fill: predicted, low, high; reason where it cannot be predicted */
	lk_score_key *classes;   /* to fill: name of the row's class, "gemm fp16"; ranges are stated by class */
	double *nearest;         /* to fill: from the nearest measured shape, of the rows that the fit sees too */
	double *roofline;        /* to fill: peak arithmetic or memory bandwidth, whichever takes longer */
	int parameters;          /* to fill: fitted numbers behind one prediction's fit, all devices together */
	const char *held_out;    /* to fill: "whole (n, k) pairs"; "" when no row is of this family or without `cross` */
} lk_ops_part;

lk_status lk_ops_gemm_score(lk_arena *arena, lk_ops_part *part, lk_error *err);
lk_status lk_ops_memory_score(lk_arena *arena, lk_ops_part *part, lk_error *err);

#endif
