/* curve.h: how far the measured curve of a collective lies from the NCCL model: a factor at each power of two of bytes.
 * Curves belong to a fabric and to one collective on one number of GPUs and nodes; nothing else is touched by them. */
#ifndef LK_COST_CURVE_H
#define LK_COST_CURVE_H

#include "cost/calibration/calibration.h"
#include "cost/collective/collective.h"

enum {
	LK_CURVE_KNOTS = 24,     /* 1 KiB to 8 GiB */
	LK_CURVE_FIRST = 10,     /* log2 of the bytes of the first */
	LK_CURVES_MOST = 32,     /* of a fabric; more are not used */
};

typedef struct lk_curve {
	lk_coll_kind kind;
	int gpus, nodes;
	bool measured[LK_CURVE_KNOTS];
	double correction[LK_CURVE_KNOTS]; /* ln(measured / model); where nothing was measured, from the knots around */
} lk_curve;

typedef struct lk_curves {
	lk_curve at[LK_CURVES_MOST];
	int count;
} lk_curves;

/* "1K" to "8G": the knots' names in a row of a calibration. */
const char *lk_curve_knot_name(int knot);
/* Where a size lies among the knots, held to those that there are. */
double lk_curve_place(double bytes);
/* Sets what was not measured from what was. */
void lk_curve_fill(lk_curve *curve);

/* The rows of the family "curve" that stand behind the fabric's own row: later files bring their own. */
void lk_curves_of(const lk_calibration *calibration, const lk_calibration_row *fabric, lk_curves *out);

/* What the model's time is to be multiplied with; 1 where no curve is of this collective and group. */
double lk_curves_factor(const lk_curves *curves, lk_coll_kind kind, const lk_group_shape *group, double bytes);

#endif
