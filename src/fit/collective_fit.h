/* collective_fit.h: the numbers of a fabric from measured collectives, folds of them, and other ways to predict the
 * same. */
#ifndef LK_ACCURACY_COLLECTIVE_FIT_H
#define LK_ACCURACY_COLLECTIVE_FIT_H

#include "tables/collective_rows.h"
#include "cost/collective/curve.h"

enum { LK_COLL_FIT_ROWS = 60 }; /* a fabric with fewer rows is predicted from the catalogue, not fitted */

/* What a fold leaves out of the rows of a fabric. */
typedef enum lk_coll_folds { LK_COLL_FOLDS_SIZE, LK_COLL_FOLDS_GPUS } lk_coll_folds;

typedef const lk_coll_row *lk_coll_pick; /* a row among many */

/* Predicts `held` in us from what `seen` teaches; all rows are of one fabric. */
typedef lk_status lk_coll_predictor(const lk_coll_pick *seen, size_t seen_count, const lk_coll_pick *held,
									size_t held_count, double *us, lk_error *err);

/* The model with the fabric's five numbers and curves; one latency and rate per collective and group; NCCL's own estimate; and the
 * five scalars launch, latency factor and efficiency of each protocol on NCCL's latencies and bandwidths. */
lk_coll_predictor lk_coll_predict_model, lk_coll_predict_alpha_beta, lk_coll_predict_raw, lk_coll_predict_scalars;

/* The numbers that make mean |ln(predicted / measured)| small; what the rows say nothing of stays as in `start`. */
void lk_fabric_fit(const lk_coll_pick *rows, size_t count, const lk_fabric *start, lk_fabric *out, double *error);

/* What is left between the rows and the model with these numbers, curve by curve. */
void lk_coll_curves_fit(const lk_coll_pick *rows, size_t count, const lk_fabric *fabric, lk_curves *out);

/* Predicted, in us. */
double lk_coll_row_time(const lk_coll_row *row, const lk_fabric *fabric);

/* The fabrics of a table that are fitted: their names, in the order of the table. */
typedef LK_VEC(const char *) lk_coll_fabrics;
lk_status lk_coll_fabrics_of(const lk_coll_rows *rows, lk_coll_fabrics *out, lk_error *err);
bool lk_coll_fitted(const lk_coll_fabrics *fabrics, const lk_coll_row *row);

/* us[i] of every row of a fitted fabric, each from rows outside its fold; others are left as they are. */
lk_status lk_coll_cross(const lk_coll_rows *rows, const lk_coll_fabrics *fabrics, lk_coll_folds folds,
						lk_coll_predictor *predict, double *us, lk_error *err);

/* Why a row cannot be scored when its number of GPUs is left out; NULL: it can. */
const char *lk_coll_no_relatives(const lk_coll_rows *rows, const lk_coll_row *row);

/* "<1 MiB", "1-16 MiB", ">16 MiB" */
const char *lk_coll_size_class(double bytes);

#endif
